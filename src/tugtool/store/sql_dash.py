"""The statements about dashes and their rounds; as `sql.py` has them."""

_dashes = """
select d.*, (select count(*) from dash_rounds r where r.dash_id = d.id) as rounds
  from dashes d
"""

ACTIVE_DASHES = f"{_dashes} where d.status = 'active' order by d.name"

EVERY_DASH = f"{_dashes} order by d.name, d.id"

DASHES_NAMED = f"{_dashes} where d.name = :name order by d.id"

ADD_DASH = """
insert into dashes (name, description, branch, worktree, base_branch, base_commit, status,
                    created_at, updated_at)
values (:name, :description, :branch, :worktree, :base_branch, :base_commit, 'active', :now, :now)
returning id
"""

DESCRIBE_DASH = """
update dashes
   set description = :description, updated_at = :now
 where id = :id
"""

TOUCH_DASH = "update dashes set updated_at = :now where id = :id"

END_DASH = """
update dashes
   set status = :status, ended_at = :now, updated_at = :now, joined_commit = :commit,
       salvage_ref = :salvage_ref
 where id = :id and status = 'active'
"""

ROUNDS = "select * from dash_rounds where dash_id = :id order by number"

ADD_ROUND = """
insert into dash_rounds (dash_id, number, instruction, summary, files, commit_hash, recorded_at)
values (:id, :number, :instruction, :summary, :files, :commit, :now)
"""
