"""The statements about what a commit is about to do; as `sql.py` has them."""

COMMIT_INTENT = "select * from intents where kind = 'commit' and worktree = :owner"

# Nothing is changed where there is one: whoever wrote it may be at work just now.
ADD_COMMIT_INTENT = """
insert into intents (kind, worktree, plan_path, step_anchor, attempt, head, detail, created_at)
values ('commit', :owner, :plan, :anchor, :attempt, :head, :detail, :now)
on conflict (kind, worktree) do nothing
"""

# Only by whoever has seen it as it is: of several who find it, one takes it over.
CHANGE_COMMIT_INTENT = """
update intents
   set detail = :detail
 where kind = 'commit' and worktree = :owner and created_at = :created_at and detail = :seen
"""

DROP_COMMIT_INTENT = """
delete from intents
 where kind = 'commit' and worktree = :owner and created_at = :created_at
"""
