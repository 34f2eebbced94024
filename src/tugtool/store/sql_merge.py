"""The statements of reconcile and merge: what git shows, and what is about to happen in it."""

# A plan that was reopened since has more to come.
SET_MERGED = """
update plans
   set merged_commit = :commit, updated_at = :now
 where plan_path = :plan and status <> 'active'
"""

SET_COMMIT = """
update steps
   set commit_hash = :commit
 where plan_path = :plan and anchor = :anchor and status = 'completed'
"""

# Not under a holder: the number is its proof that the claim is still its own.
RAISE_ATTEMPT = """
update steps
   set attempt = :attempt
 where plan_path = :plan and anchor = :anchor and attempt < :attempt and claimed_by is null
"""

LIVE_CLAIM = """
select anchor
  from steps
 where plan_path = :plan and parent_anchor is null and claimed_by = :owner
   and lease_expires_at >= :now
 order by lease_expires_at
 limit 1
"""

INTENTS_OF = "select * from intents where plan_path = :plan and kind = :kind order by worktree"
