"""The statements about working trees, intents and what git knows; as `sql.py` has them."""

# -- worktrees -------------------------------------------------------------------------

WORKTREE = "select * from worktrees where path = :path"

WORKTREES = "select * from worktrees order by path"

WORKTREES_OF = "select * from worktrees where plan_path = :plan order by path"

ADD_WORKTREE = """
insert into worktrees (path, branch, base_branch, base_commit, plan_path, created_at,
                       reserved_until, reserved_for)
values (:path, :branch, :base_branch, :base_commit, :plan, :now, :until, :reserved_for)
on conflict (path) do update
   set branch = excluded.branch, base_branch = excluded.base_branch,
       base_commit = excluded.base_commit, plan_path = excluded.plan_path,
       created_at = excluded.created_at, reserved_until = excluded.reserved_until,
       reserved_for = excluded.reserved_for
"""

RESERVE = """
update worktrees
   set reserved_until = :until, reserved_for = :reserved_for
 where path = :path
"""

DROP_WORKTREE = "delete from worktrees where path = :path"

SET_BASE = """
update plans
   set base_commit = :base_commit
 where plan_path = :plan and base_commit is null
"""

# -- intents ---------------------------------------------------------------------------

ADD_INTENT = """
insert into intents (kind, worktree, plan_path, head, detail, created_at)
values (:kind, :path, :plan, :head, :detail, :now)
on conflict (kind, worktree) do update
   set plan_path = excluded.plan_path, head = excluded.head, detail = excluded.detail,
       created_at = excluded.created_at
"""

INTENT = "select * from intents where kind = :kind and worktree = :path"

INTENTS = "select * from intents where kind = :kind order by worktree"

DROP_INTENT = "delete from intents where kind = :kind and worktree = :path"

# -- who holds what, and what it needs -------------------------------------------------

HELD_BY = """
select anchor, attempt, lease_expires_at, status, step_index
  from steps
 where plan_path = :plan and parent_anchor is null and claimed_by = :owner
 order by step_index
"""

# Also those that are gone.
WORKED_IN = """
select worktree as path from attempts where plan_path = :plan
union
select completed_by as path from steps where plan_path = :plan and completed_by is not null
union
select claimed_by as path from steps where plan_path = :plan and claimed_by is not null
"""

SET_SALVAGE = """
update attempts
   set salvage_ref = :salvage_ref
 where plan_path = :plan and step_anchor = :anchor and number = :number
"""

# -- work that nobody has committed ----------------------------------------------------

ADD_UNSAVED = """
insert into unsaved (plan_path, step_anchor, number, worktree, taken_at)
values (:plan, :anchor, :number, :worktree, :now)
on conflict (plan_path, step_anchor, number) do nothing
"""

# What was taken last comes first: somebody waits for the answer about it.
UNSAVED = """
select *
  from unsaved
 where plan_path = :plan
 order by taken_at desc, step_anchor, number
"""

EVERY_UNSAVED = "select * from unsaved order by taken_at, plan_path, step_anchor, number"

UNSAVED_IN = "select * from unsaved where worktree = :path order by plan_path, step_anchor, number"

IS_UNSAVED = """
select number
  from unsaved
 where plan_path = :plan and step_anchor = :anchor and number = :number
"""

DROP_UNSAVED = """
delete from unsaved
 where plan_path = :plan and step_anchor = :anchor and number = :number
"""

SALVAGES = """
select number, worktree, salvage_ref
  from attempts
 where plan_path = :plan and step_anchor = :anchor and salvage_ref is not null
 order by number desc
"""

# Whoever claims again comes after itself; what another worktree committed is still wanted.
ATTEMPT_ELSEWHERE = """
select worktree from attempts
 where plan_path = :plan and step_anchor = :anchor and number < :number and worktree <> :owner
 order by number desc limit 1
"""

SALVAGED_AS = "select * from attempts where salvage_ref = :salvage_ref"
