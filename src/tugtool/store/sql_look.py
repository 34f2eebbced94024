"""The statements of whoever looks at everything at once; workers never load them."""

EVERY_PLAN = """
select p.plan_path, p.plan_hash, p.phase_title, p.status, p.paused_at,
       c.steps_total, c.steps_done, c.steps_ready
  from plans p
  join plan_counts c on c.plan_path = p.plan_path
 order by p.plan_path
"""

EVERY_HELD_STEP = """
select plan_path, anchor, title, status, claimed_by, lease_expires_at, heartbeat_at, attempt
  from steps
 where parent_anchor is null and claimed_by is not null
 order by plan_path, step_index
"""

EVERY_HOLDER = """
select plan_path, step_anchor, host, boot, pid_namespace, holder_pid, holder_start
  from attempts
 where holder_pid is not null and ended_at is null
"""

EVERY_PARKED_STEP = """
select plan_path, anchor, title, parked_at, park_reason
  from steps
 where parent_anchor is null and parked_at is not null
 order by plan_path, step_index
"""

BLOCKED_COUNTS = """
select plan_path, count(*) as steps
  from steps
 where parent_anchor is null and status = 'pending' and open_deps > 0 and parked_at is null
 group by plan_path
"""

ITEM_COUNTS = """
select plan_path, status, count(*) as items
  from checklist_items
 group by plan_path, status
"""
