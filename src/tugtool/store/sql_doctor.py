"""The statements of whoever looks for what is wrong; as `sql.py` has them."""

EVERY_INTENT = "select * from intents order by kind, worktree"

# A substep is held as its step is, to the end of the same lease.
HELD_ASTRAY = """
select s.anchor, p.anchor as top, p.claimed_by, p.claimed_at, p.lease_expires_at, p.heartbeat_at
  from steps s
  join steps p on p.plan_path = s.plan_path and p.anchor = s.parent_anchor
 where s.plan_path = :plan and s.status <> 'completed'
   and (coalesce(s.claimed_by, '') <> coalesce(p.claimed_by, '')
        or coalesce(s.lease_expires_at, '') <> coalesce(p.lease_expires_at, ''))
 order by s.step_index
"""

OPEN_THOUGH_COMPLETED = """
select s.anchor, count(*) as items
  from steps s
  join checklist_items i on i.plan_path = s.plan_path and i.step_anchor = s.anchor
 where s.plan_path = :plan and s.status = 'completed' and i.status in ('open', 'in_progress')
 group by s.anchor, s.step_index
 order by s.step_index
"""

UNFINISHED_BELOW = """
select p.anchor, count(*) as substeps
  from steps s
  join steps p on p.plan_path = s.plan_path and p.anchor = s.parent_anchor
 where s.plan_path = :plan and p.status = 'completed' and s.status <> 'completed'
 group by p.anchor, p.step_index
 order by p.step_index
"""

ACTIVE_DASHES = "select name, branch, worktree from dashes where status = 'active' order by name"
