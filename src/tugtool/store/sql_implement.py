"""The statements of the implement loop; as `sql.py` has them."""

SET_USAGE = """
update attempts
   set tokens = :tokens, cost_microdollars = :cost_microdollars
 where plan_path = :plan and step_anchor = :anchor and number = :number
"""

SPENT_TOKENS = """
select coalesce(cast(sum(tokens) as bigint), 0) from attempts where plan_path = :plan
"""

COMMIT_INTENTS = """
select worktree, step_anchor, attempt
  from intents
 where kind = 'commit' and plan_path = :plan
 order by worktree
"""

FREE_WORKTREE = """
update worktrees
   set reserved_until = null, reserved_for = null
 where path = :path and reserved_for = :reserved_for
"""

ARTIFACTS_OF_KIND = """
select step_anchor, content, recorded_at
  from step_artifacts
 where plan_path = :plan and kind = :kind
 order by id desc
"""

SAVED_FROM = """
select salvage_ref
  from attempts
 where worktree = :path and salvage_ref is not null
 order by number desc
"""
