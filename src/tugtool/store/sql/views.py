"""Statements that only read, and those of dashes."""

from __future__ import annotations

from tugtool.store.sql import of_step, tops, with_parents

EVERY_PLAN = """
select p.plan_path, p.plan_hash, p.phase_title, p.status, p.paused_at, p.merged_commit,
       (select count(commit_hash) from steps s where s.plan_path = p.plan_path) as commits,
       c.steps_total, c.steps_done, c.steps_ready
  from plans p
  join plan_counts c on c.plan_path = p.plan_path
 order by p.plan_path
"""

EVERY_HELD_STEP = """
select plan_path, anchor, title, status, claimed_by, claimed_at, lease_expires_at, heartbeat_at,
       attempt
  from steps
 where parent_anchor is null and claimed_by is not null
 order by plan_path, step_index
"""

EVERY_HOLDER = """
select plan_path, step_anchor, worktree, host, boot, pid_namespace, holder_pid, holder_start
  from attempts
 where holder_pid is not null and ended_at is null
"""

# The last note for a person; its content says whether a question was asked.
LAST_WORD = """
select kind, summary, content, recorded_at
  from step_artifacts
 where plan_path = :plan and step_anchor = :anchor and kind in ('escalation', 'note')
 order by id desc
 limit 1
"""

EVERY_PARKED_STEP = """
select plan_path, anchor, title, parked_at, park_reason, attempt, claimed_by,
       claims_without_progress
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


# Only a held step has a heartbeat.
LEASED_AHEAD = f"select * {tops} and heartbeat_at > :now order by step_index"

# A substep is held like its step, until the same time.
HELD_ASTRAY = f"""
select s.anchor, p.anchor as top, p.claimed_by, p.claimed_at, p.lease_expires_at, p.heartbeat_at
 {with_parents} and s.status <> 'completed'
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

UNFINISHED_BELOW = f"""
select p.anchor, count(*) as substeps
 {with_parents} and p.status = 'completed' and s.status <> 'completed'
 group by p.anchor, p.step_index
 order by p.step_index
"""


# Contents may be large, and most readers do without them.
PLAN_ARTIFACTS = """
select id, step_anchor, kind, summary, recorded_at
  from step_artifacts
 where plan_path = :plan
 order by step_anchor, id
"""

FULL_ARTIFACTS = "select * from step_artifacts where plan_path = :plan order by step_anchor, id"

# -- the log ---------------------------------------------------------------------------

# A step's log includes its substeps'.
_of_family = """
       (cast(:anchor as text) is null or step_anchor = :anchor
        or step_anchor in (
             select anchor from steps where plan_path = :plan and parent_anchor = :anchor))"""

PLAN_EVENTS = f"""
select *
  from events
 where plan_path = :plan and seq > :after and at >= :since
   and {_of_family}
 order by seq
 limit :most
"""

ALL_EVENTS = "select * from events where seq > :after and at >= :since order by seq limit :most"

# The number of the first of the last events.
PLAN_TAIL = f"""
select seq
  from events
 where plan_path = :plan and at >= :since
   and {_of_family}
 order by seq desc
 limit 1 offset :skip
"""

ALL_TAIL = "select seq from events where at >= :since order by seq desc limit 1 offset :skip"

EPOCH = "select epoch from epoch"

NEWEST_EVENT = "select seq, at, kind from events order by seq desc limit 1"

EVENT = "select seq, at, kind from events where seq = :seq"

# Older runs are outdated, and a log may be long.
LATE_RUNS = """
select at, detail
  from events
 where plan_path = :plan and kind = 'run' and seq > (select max(seq) from events) - 1000
 order by seq desc
"""

# As far back as a night may go.
CHANGED_OUTSIDE = """
select seq, detail
  from events
 where plan_path = :plan and kind = 'run' and detail like :what
   and seq > (select max(seq) from events) - 20000
"""

LAST_SEEN = """
select max(seen_at)
  from attempts
 where plan_path = :plan and holder_pid = :pid and claimed_at >= :since
"""

LAST_UNTIL = "select max(seq) from events where at <= :at"

ANY_EVENT = "select 1 from events where plan_path = :plan and step_anchor = :anchor limit 1"

# -- why -------------------------------------------------------------------------------

_last = "order by seq desc limit 1"

LAST_PAUSE = f"select actor, detail from events where plan_path = :plan and kind = 'pause' {_last}"

# Attempts have numbers, so a reset of the present one is newer than its claim.
LAST_RESET = f"""
select at, actor, detail from events {of_step} and kind in ('reset', 'unpark')
   and attempt = :number
 {_last}
"""

LAST_REOPENED = f"select at, actor, detail from events {of_step} and kind = 'reopen' {_last}"

LAST_FAILURE = f"""
select at, attempt, detail from events {of_step} and kind = 'release'
   and attempt = (select max(number) from attempts {of_step} and outcome = 'failed')
 {_last}
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

ITEM_COUNTS_BY_STEP = """
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

# Events that let a step go on, or hold it back.
TURNING_POINTS = """
select at, step_anchor, kind, detail
  from events
 where plan_path = :plan and kind in ('complete', 'reconcile', 'substep_completed',
                                      'substep_reopened', 'reopen', 'revise')
 order by seq
"""

# -- dashes ----------------------------------------------------------------------------

_dashes = """
select d.*, (select count(*) from dash_rounds r where r.dash_id = d.id) as rounds
  from dashes d
"""

ACTIVE_DASHES = f"{_dashes} where d.status = 'active' order by d.name"

EVERY_DASH = f"{_dashes} order by d.name, d.id"

DASHES_NAMED = f"{_dashes} where d.name = :name order by d.id"

ADD_DASH = """
insert into dashes (name, description, branch, worktree, base_branch, base_commit, status,
                    created_at, updated_at)
values (:name, :description, :branch, :worktree, :base_branch, :base_commit, 'active', :now, :now)
returning id
"""

DESCRIBE_DASH = "update dashes set description = :description, updated_at = :now where id = :id"

TOUCH_DASH = "update dashes set updated_at = :now where id = :id"

END_DASH = """
update dashes
   set status = :status, ended_at = :now, updated_at = :now, joined_commit = :commit,
       salvage_ref = :salvage_ref
 where id = :id and status = 'active'
"""

ROUNDS = "select * from dash_rounds where dash_id = :id order by number"

ADD_ROUND = """
insert into dash_rounds (dash_id, number, instruction, summary, files, commit_hash, recorded_at)
values (:id, :number, :instruction, :summary, :files, :commit, :now)
"""
