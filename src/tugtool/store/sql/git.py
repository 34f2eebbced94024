"""Statements about worktrees, intents and agents."""

from __future__ import annotations

from tugtool.store.sql import of_step, this_attempt, this_step, tops

_at_path = "where path = :path"
_this_intent = "where kind = :kind and worktree = :path"
_begun_commit = "where kind = 'commit' and worktree = :owner and created_at = :created_at"

# -- worktrees -------------------------------------------------------------------------

WORKTREE = f"select * from worktrees {_at_path}"

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

RESERVE = f"update worktrees set reserved_until = :until, reserved_for = :reserved_for {_at_path}"

DROP_WORKTREE = f"delete from worktrees {_at_path}"

SET_BASE = """
update plans set base_commit = :base_commit where plan_path = :plan and base_commit is null
"""

# The plans whose rows change with a worktree.
PLANS_AT = """
select plan_path from worktrees where path = :path
union
select plan_path from intents where worktree = :path
"""

# -- who holds what, and what it needs -------------------------------------------------

HELD_BY = f"""
select anchor, attempt, lease_expires_at, status, step_index {tops} and claimed_by = :owner
 order by step_index
"""

# Other plans of a worktree: recorded for it, or with a step that it holds.
OTHER_PLANS_AT = """
select plan_path, null as anchor from worktrees where path = :owner and plan_path <> :plan
union all
select s.plan_path, s.anchor
  from plans p
  join steps s on s.plan_path = p.plan_path
 where p.plan_path <> :plan and s.parent_anchor is null and s.claimed_by = :owner
"""

# Removed worktrees too.
WORKED_IN = """
select worktree as path from attempts where plan_path = :plan
union
select completed_by as path from steps where plan_path = :plan and completed_by is not null
union
select claimed_by as path from steps where plan_path = :plan and claimed_by is not null
"""

SET_SALVAGE = f"update attempts set salvage_ref = :salvage_ref {this_attempt}"

# -- uncommitted work ------------------------------------------------------------------

ADD_UNSAVED = """
insert into unsaved (plan_path, step_anchor, number, worktree, taken_at)
values (:plan, :anchor, :number, :worktree, :now)
on conflict (plan_path, step_anchor, number) do nothing
"""

# The last one taken comes first: its taker waits for the answer.
UNSAVED = (
    "select * from unsaved where plan_path = :plan order by taken_at desc, step_anchor, number"
)

EVERY_UNSAVED = "select * from unsaved order by taken_at, plan_path, step_anchor, number"

UNSAVED_IN = "select * from unsaved where worktree = :path order by plan_path, step_anchor, number"

IS_UNSAVED = f"select number from unsaved {this_attempt}"

DROP_UNSAVED = f"delete from unsaved {this_attempt}"

SALVAGES = f"""
select number, worktree, salvage_ref from attempts {of_step} and salvage_ref is not null
 order by number desc
"""

# A worker may follow itself; commits of another worktree before that still count.
ATTEMPT_ELSEWHERE = f"""
select worktree from attempts {of_step} and number < :number and worktree <> :owner
 order by number desc limit 1
"""

SALVAGED_AS = "select * from attempts where salvage_ref = :salvage_ref"

# -- what worktrees have committed -----------------------------------------------------

COMMITTED_STEPS = """
select s.*, w.branch
  from steps s
  left join worktrees w on w.path = s.completed_by
 where s.plan_path = :plan and s.commit_hash <> ''
 order by s.step_index
"""


ADD_INTENT = """
insert into intents (kind, worktree, plan_path, head, detail, created_at)
values (:kind, :path, :plan, :head, :detail, :now)
on conflict (kind, worktree) do update
   set plan_path = excluded.plan_path, head = excluded.head, detail = excluded.detail,
       created_at = excluded.created_at
"""

INTENT = f"select * from intents {_this_intent}"

INTENTS = "select * from intents where kind = :kind order by worktree"

DROP_INTENT = f"delete from intents {_this_intent}"

INTENTS_OF = "select * from intents where plan_path = :plan and kind = :kind order by worktree"

EVERY_INTENT = "select * from intents order by kind, worktree"

# -- of a commit -----------------------------------------------------------------------

# Keep an existing intent: its process may be at work now.
ADD_COMMIT_INTENT = """
insert into intents (kind, worktree, plan_path, step_anchor, attempt, head, detail, created_at)
values ('commit', :owner, :plan, :anchor, :attempt, :head, :detail, :now)
on conflict (kind, worktree) do nothing
"""

# Only if the row is unchanged: of several processes that find it, one takes it over.
CHANGE_COMMIT_INTENT = f"update intents set detail = :detail {_begun_commit} and detail = :seen"

DROP_COMMIT_INTENT = f"delete from intents {_begun_commit}"


SET_USAGE = f"""
update attempts
   set tokens = :tokens, cost_microdollars = :cost_microdollars, role = null, role_since = null
 {this_attempt}
"""

SET_ROLE = f"update attempts set role = :role, role_since = :now {this_attempt}"

SPENT_TOKENS = """
select coalesce(cast(sum(tokens) as bigint), 0) from attempts where plan_path = :plan
"""

SPENT_MICRODOLLARS = """
select coalesce(cast(sum(cost_microdollars) as bigint), 0) from attempts where plan_path = :plan
"""

FREE_WORKTREE = f"""
update worktrees set reserved_until = null, reserved_for = null
 {_at_path} and reserved_for = :reserved_for
"""

ARTIFACTS_OF_KIND = """
select step_anchor, content, recorded_at
  from step_artifacts
 where plan_path = :plan and kind = :kind
 order by id desc
"""

SAVED_FROM = """
select salvage_ref from attempts where worktree = :path and salvage_ref is not null
 order by number desc
"""


# A reopened plan is not done.
SET_MERGED = """
update plans
   set merged_commit = :commit, updated_at = :now
 where plan_path = :plan and status <> 'active'
"""

SET_COMMIT = f"update steps set commit_hash = :commit {this_step} and status = 'completed'"

# Not for a held step: the number proves that the claim is still its holder's.
RAISE_ATTEMPT = f"""
update steps set attempt = :attempt {this_step} and attempt < :attempt and claimed_by is null
"""

LIVE_CLAIM = f"""
select anchor {tops} and claimed_by = :owner and lease_expires_at >= :now
 order by lease_expires_at limit 1
"""
