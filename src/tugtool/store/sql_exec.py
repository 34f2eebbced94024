"""The statements about the process that holds a claim; as `sql.py` has them."""

# Is the attempt still under way? If not, how did it end, and where is the step now?
STANDING = """
select a.ended_at, a.outcome, a.lease_seconds, s.attempt as current_attempt
  from attempts a
  join steps s on s.plan_path = a.plan_path and s.anchor = a.step_anchor
 where a.plan_path = :plan and a.step_anchor = :anchor and a.number = :number
"""

RELEASED_BY = """
select actor
  from events
 where plan_path = :plan and step_anchor = :anchor and kind = 'release' and attempt = :number
 order by seq desc
 limit 1
"""

SET_HOLDER = """
update attempts
   set host = :host, boot = :boot, pid_namespace = :pid_namespace,
       holder_pid = :holder_pid, holder_start = :holder_start
 where plan_path = :plan and step_anchor = :anchor and number = :number
"""
