"""The statements that look back: what happened, when, and how often."""

# -- the log ---------------------------------------------------------------------------

# A step's log is also that of its substeps.
PLAN_EVENTS = """
select *
  from events
 where plan_path = :plan and seq > :after and at >= :since
   and (cast(:anchor as text) is null or step_anchor = :anchor
        or step_anchor in (
             select anchor from steps where plan_path = :plan and parent_anchor = :anchor))
 order by seq
 limit :most
"""

ALL_EVENTS = """
select *
  from events
 where seq > :after and at >= :since
 order by seq
 limit :most
"""

# The number of the event with which the last so many begin.
PLAN_TAIL = """
select seq
  from events
 where plan_path = :plan and at >= :since
   and (cast(:anchor as text) is null or step_anchor = :anchor
        or step_anchor in (
             select anchor from steps where plan_path = :plan and parent_anchor = :anchor))
 order by seq desc
 limit 1 offset :skip
"""

ALL_TAIL = """
select seq
  from events
 where at >= :since
 order by seq desc
 limit 1 offset :skip
"""

NEWEST_EVENT = "select seq, at, kind from events order by seq desc limit 1"

EVENT = "select seq, at, kind from events where seq = :seq"

LAST_UNTIL = "select max(seq) from events where at <= :at"

ANY_EVENT = "select 1 from events where plan_path = :plan and step_anchor = :anchor limit 1"

# -- why -------------------------------------------------------------------------------

LAST_PAUSE = """
select at, actor
  from events
 where plan_path = :plan and kind = 'pause'
 order by seq desc
 limit 1
"""

LAST_REOPENED = """
select at, actor, detail
  from events
 where plan_path = :plan and step_anchor = :anchor and kind = 'reopen'
 order by seq desc
 limit 1
"""

LAST_FAILURE = """
select at, attempt, detail
  from events
 where plan_path = :plan and step_anchor = :anchor and kind = 'release'
   and attempt = (
         select max(number)
           from attempts
          where plan_path = :plan and step_anchor = :anchor and outcome = 'failed')
 order by seq desc
 limit 1
"""

# -- what was said of the whole --------------------------------------------------------

LAST_COMPLETED = """
select max(completed_at) from steps where plan_path = :plan and parent_anchor is null
"""

SAID_OF_ALL = """
select step_anchor, kind, summary, recorded_at
  from step_artifacts
 where plan_path = :plan and kind in ('auditor_summary', 'escalation', 'note')
   and recorded_at >= :since
 order by id desc
"""

# -- statistics ------------------------------------------------------------------------

ITEM_COUNTS = """
select step_anchor, kind, status, count(*) as number
  from checklist_items
 where plan_path = :plan
 group by step_anchor, kind, status
"""

ARTIFACT_COUNTS = """
select step_anchor, kind, count(*) as number
  from step_artifacts
 where plan_path = :plan
 group by step_anchor, kind
"""

# All that lets a step go on, or holds it back again.
TURNING_POINTS = """
select at, step_anchor, kind, detail
  from events
 where plan_path = :plan and kind in ('complete', 'reconcile', 'substep_completed',
                                      'substep_reopened', 'reopen', 'revise')
 order by seq
"""
