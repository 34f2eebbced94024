"""Statements about commits that the remote lacks."""

from __future__ import annotations

from tugtool.store.sql import of_step, tops

ADD_UNPUBLISHED = """
insert into unpublished (plan_path, step_anchor, commit_hash, worktree, completed_at)
values (:plan, :anchor, :commit, :worktree, :now)
on conflict (plan_path, step_anchor) do update
   set commit_hash = excluded.commit_hash, worktree = excluded.worktree, problem = null,
       completed_at = excluded.completed_at
"""

# A reopened step has another commit, or none.
_unpublished = """
select u.*, w.branch
  from unpublished u
  join steps s on s.plan_path = u.plan_path and s.anchor = u.step_anchor
                  and s.commit_hash = u.commit_hash
  left join worktrees w on w.path = u.worktree"""

UNPUBLISHED = f"{_unpublished} where u.plan_path = :plan order by s.step_index"

EVERY_UNPUBLISHED = f"{_unpublished} order by u.plan_path, s.step_index"

# A published commit that the remote has lost again.
ADD_LOST = """
insert into unpublished (plan_path, step_anchor, commit_hash, worktree, problem, completed_at)
select plan_path, anchor, commit_hash, completed_by, :problem, :now
  from steps
 where plan_path = :plan and anchor = :anchor and commit_hash = :commit
   and completed_by is not null
on conflict (plan_path, step_anchor) do update set problem = excluded.problem
"""

SET_PUBLISH_PROBLEM = f"""
update unpublished set problem = :problem {of_step} and commit_hash = :commit
"""

DROP_UNPUBLISHED = f"delete from unpublished {of_step} and commit_hash = :commit"

# A merge that is newer than the last push of the base branch is on one machine alone.
LAST_MERGE = """
select seq, kind, actor, detail from events
 where plan_path = :plan and step_anchor is null and kind in ('merge', 'publish')
 order by seq desc limit 1
"""

# Also those that wait for a remote.
READY_STEPS = f"""
select * {tops} and status = 'pending' and open_deps = 0 and parked_at is null order by step_index
"""
