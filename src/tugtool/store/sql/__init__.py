"""Statements of the worker that holds a step: the hot path."""

from __future__ import annotations

# -- what many statements have in common -----------------------------------------------

tops = "from steps where plan_path = :plan and parent_anchor is null"
this_step = "where plan_path = :plan and anchor = :anchor"
of_step = "where plan_path = :plan and step_anchor = :anchor"
this_attempt = f"{of_step} and number = :number"
with_parents = """
  from steps s
  join steps p on p.plan_path = s.plan_path and p.anchor = s.parent_anchor
 where s.plan_path = :plan"""
unheld = "claimed_by = null, claimed_at = null, lease_expires_at = null, heartbeat_at = null"
_claimable = "open_deps = 0 and parked_at is null"
_unfinished_substeps = (
    "where plan_path = :plan and parent_anchor = :anchor and status <> 'completed'"
)
# Two searches: with `or`, SQLite reads every step of the plan; with `in`, PostgreSQL may.
_of_family = f"""
  from (select plan_path as of_plan, anchor as member from steps {this_step}
         union all
        select plan_path, anchor from steps where plan_path = :plan and parent_anchor = :anchor
       ) as family
 where steps.plan_path = family.of_plan and steps.anchor = family.member"""

# -- plans -----------------------------------------------------------------------------

# Without the text: a claim does not need megabytes.
PLAN = """
select p.plan_path, p.plan_hash, p.phase_title, p.status, p.created_at, p.base_commit, p.paused_at,
       p.merged_commit, c.steps_total, c.steps_done, c.steps_ready,
       case when c.changed_at > p.updated_at then c.changed_at else p.updated_at end as updated_at
  from plans p
  join plan_counts c on c.plan_path = p.plan_path
 where p.plan_path = :plan
"""

# The plan, and rare facts for a claim: one statement instead of eight.
PLAN_TO_CLAIM = """
select c.steps_total, c.steps_done, c.steps_ready, p.plan_hash, p.status, p.paused_at, p.plan_path,
       w.plan_path <> p.plan_path as is_elsewhere, w.reserved_until is not null as is_reserved,
       exists (select 1 from attempts a
                where a.plan_path = p.plan_path and a.holder_pid is not null
                  and a.ended_at is null) as has_holders,
       exists (select 1 from unsaved u where u.plan_path = p.plan_path) as has_unsaved,
       exists (select 1 from step_deps d where d.plan_path = p.plan_path) as has_deps,
       exists (select 1 from steps s
                where s.plan_path = p.plan_path and s.parent_anchor is not null) as has_substeps
  from plans p
  join plan_counts c on c.plan_path = p.plan_path
  left join worktrees w on w.path = :owner
 where p.plan_path = :plan
"""

PLANS = "select plan_path, status from plans order by plan_path"

COUNT_PLAN = """
update plan_counts
   set steps_ready = steps_ready + :ready, steps_done = steps_done + :done, changed_at = :now
 where plan_path = :plan
"""

SET_STATUS = """
update plans set status = :status, updated_at = :now,
       merged_commit = case when :status = 'active' then null else merged_commit end
 where plan_path = :plan
"""

SET_PAUSED = "update plans set paused_at = :paused_at, updated_at = :now where plan_path = :plan"

COPY = "select signature, plan_hash from plan_copies where file = :file"

KEEP_COPY = """
insert into plan_copies (file, signature, plan_hash)
values (:file, :signature, :hash)
on conflict (file) do update
   set signature = excluded.signature, plan_hash = excluded.plan_hash
"""

# -- steps -----------------------------------------------------------------------------

STEP = f"select * from steps {this_step}"

STEPS = "select * from steps where plan_path = :plan order by step_index"

SUBSTEPS = """
select * from steps where plan_path = :plan and parent_anchor = :anchor order by step_index
"""

# A step and its plan: one statement instead of five.
STEP_TO_COMPLETE = """
select s.anchor, s.status, s.attempt, s.parent_anchor, s.claimed_by, s.plan_path, p.plan_hash,
       c.steps_total, c.steps_done, p.status as plan_status, s.commit_hash, s.complete_reason,
       exists (select 1 from steps b
                where b.plan_path = s.plan_path and b.parent_anchor = s.anchor) as has_substeps,
       exists (select 1 from step_deps d
                where d.plan_path = s.plan_path and d.depends_on = s.anchor) as is_needed,
       exists (select 1 from checklist_items i
                where i.plan_path = s.plan_path and i.step_anchor = s.anchor
                  and i.status not in ('completed', 'deferred')) as has_open_items
  from steps s
  join plans p on p.plan_path = s.plan_path
  join plan_counts c on c.plan_path = s.plan_path
 where s.plan_path = :plan and s.anchor = :anchor
"""

# A dependency's commit is that of the step it belongs to.
_needs = """
  from step_deps d
  join steps n on n.plan_path = d.plan_path and n.anchor = d.depends_on
  join steps t on t.plan_path = n.plan_path and t.anchor = coalesce(n.parent_anchor, n.anchor)
 where d.plan_path = :plan and d.step_anchor ="""
_to_claim = f"""
select anchor, parent_anchor, title, step_index, status, claimed_by, lease_expires_at, attempt,
       claims_without_progress
  {tops} and {_claimable}"""

# The caller's own first step, the first ready one, and all whose lease has run out.
# No `exists`: for that PostgreSQL would read every dependency of the plan into a table first.
CLAIMABLE_STEPS = f"""
select c.*,
       (select 1 {_needs} c.anchor and t.commit_hash is not null
           and (t.completed_by is null or t.completed_by <> :owner)
         limit 1) is not null as needs_elsewhere
  from (
select * from ({_to_claim} and claimed_by = :owner order by step_index limit 1) as own
 union all
select * from ({_to_claim} and status = 'pending' order by step_index limit 1) as ready
 union all
{_to_claim} and claimed_by is not null and lease_expires_at < :now
) as c
"""

# Only claims that name a process: few, however many are held.
HOLDERS = """
select step_anchor, worktree, host, boot, pid_namespace, holder_pid, holder_start
  from attempts
 where plan_path = :plan and holder_pid is not null and ended_at is null
"""

HELD_STEPS = f"""
select anchor, claimed_by, lease_expires_at, step_index, open_deps, parked_at
  {tops} and claimed_by is not null
 order by step_index limit :most
"""

LIVE_STEP = f"""
select * {tops} and claimed_by is not null and {_claimable} order by step_index limit 1
"""

BLOCKED_STEPS = f"""
select anchor {tops} and status = 'pending' and open_deps > 0 and parked_at is null
 order by step_index limit :most
"""

PARKED_STEPS = f"""
select anchor {tops} and parked_at is not null order by step_index limit :most
"""

# Set everything: a claim keeps nothing of the former holder. A value that is mostly null is given
# as '': SQLite's module is slow to look up how it should bind None.
CLAIM_STEP = f"""
update steps
   set status = :status, claimed_by = :owner, claimed_at = :now, lease_expires_at = :until,
       heartbeat_at = :now, started_at = nullif(:started_at, ''), attempt = :attempt,
       claims_without_progress = :claims, parked_at = nullif(:parked_at, ''),
       park_reason = nullif(:reason, '')
 {this_step}
"""

CLAIM_SUBSTEPS = f"""
update steps
   set status = 'claimed', claimed_by = :owner, claimed_at = :now, lease_expires_at = :until,
       heartbeat_at = :now, started_at = null
 {_unfinished_substeps}
"""

START_STEP = f"""
update steps
   set status = 'in_progress', started_at = coalesce(started_at, :now)
 {this_step} and status = 'claimed'
"""

RENEW = f"""
update steps
   set lease_expires_at = :until, heartbeat_at = :now {_of_family} and claimed_by is not null
"""

FREE_STEP = f"""
update steps
   set status = 'pending', {unheld},
       started_at = null, parked_at = :parked_at, park_reason = :park_reason,
       claims_without_progress = :claims
 {this_step}
"""

FREE_SUBSTEPS = f"""
update steps set status = 'pending', {unheld}, started_at = null
 {_unfinished_substeps}
"""

UNSTART_SUBSTEP = f"update steps set status = 'claimed', started_at = null {this_step}"

COMPLETE_STEP = f"""
update steps
   set status = 'completed', {unheld},
       completed_at = :now, completed_by = :owner, commit_hash = nullif(:commit, ''),
       complete_reason = nullif(:reason, ''), claims_without_progress = 0, parked_at = null,
       park_reason = null
 {this_step}
"""

# A substep with a reopened item goes back to its step's holder with its progress, or is pending.
REVIVE_SUBSTEP = f"""
update steps
   set status = case when cast(:claimed_by as text) is null then 'pending'
                     when started_at is null then 'claimed' else 'in_progress' end,
       started_at = case when cast(:claimed_by as text) is not null then started_at end,
       claimed_by = :claimed_by, claimed_at = :claimed_at, lease_expires_at = :lease_expires_at,
       heartbeat_at = :heartbeat_at, completed_at = null, completed_by = null, commit_hash = null,
       complete_reason = null
 {this_step}
"""

REOPEN_STEPS = f"""
update steps
   set status = 'pending', started_at = null, completed_at = null, completed_by = null,
       commit_hash = null, complete_reason = null, claims_without_progress = 0 {_of_family}
"""

PROGRESS = f"""
update steps set claims_without_progress = 0, parked_at = null, park_reason = null {this_step}
"""

END_RESERVATION = "update worktrees set reserved_until = null where path = :owner"

# -- dependencies ----------------------------------------------------------------------

DEPENDENTS = """
select s.anchor, s.parent_anchor, t.anchor as top, t.step_index, t.status, t.open_deps, t.parked_at
  from step_deps d
  join steps s on s.plan_path = d.plan_path and s.anchor = d.step_anchor
  join steps t on t.plan_path = s.plan_path and t.anchor = coalesce(s.parent_anchor, s.anchor)
 where d.plan_path = :plan and d.depends_on = :anchor
 order by s.step_index
"""

OPEN_NEEDS = """
select d.step_anchor, t.anchor, coalesce(t.parent_anchor, t.anchor) as top
  from step_deps d
  join steps t on t.plan_path = d.plan_path and t.anchor = d.depends_on
 where d.plan_path = :plan and d.step_anchor = :anchor and t.status <> 'completed'
 order by t.step_index
"""

NEEDS = f"select t.anchor as top, t.commit_hash, t.completed_by {_needs} :anchor"

SHIFT_OPEN_DEPS = f"update steps set open_deps = open_deps + :by {this_step}"

# Of all steps that need this one, if no substeps are concerned.
SHIFT_DEPENDENTS = """
update steps set open_deps = open_deps + :by
  from step_deps d
 where d.plan_path = :plan and d.depends_on = :anchor
   and steps.plan_path = d.plan_path and steps.anchor = d.step_anchor
"""

DEPS = "select step_anchor, depends_on from step_deps where plan_path = :plan"

# -- checklists ------------------------------------------------------------------------

ITEMS = f"select * from checklist_items {of_step} order by kind, ordinal"

OPEN_ITEMS = f"""
select * from checklist_items {of_step} and status not in ('completed', 'deferred')
 order by kind, ordinal
"""

PLAN_ITEMS = """
select * from checklist_items where plan_path = :plan order by step_anchor, kind, ordinal
"""

SET_ITEM = f"""
update checklist_items
   set status = :status, reason = :reason, evidence = :evidence, updated_at = :now
 {of_step} and kind = :kind and ordinal = :ordinal
"""

# -- attempts, artifacts, events -------------------------------------------------------

ADD_ATTEMPT = """
insert into attempts (plan_path, step_anchor, number, worktree, lease_seconds, claimed_at, seen_at)
values (:plan, :anchor, :number, :owner, :lease_seconds, :now, :now)
"""

# For a claim that names its process or its request.
ADD_NAMED_ATTEMPT = """
insert into attempts (plan_path, step_anchor, number, worktree, host, boot, pid_namespace,
                      holder_pid, holder_start, lease_seconds, request_id, claimed_at, seen_at)
values (:plan, :anchor, :number, :owner, :host, :boot, :pid_namespace,
        :holder_pid, :holder_start, :lease_seconds, :request_id, :now, :now)
"""

ATTEMPT = f"select * from attempts {this_attempt}"

# Not always the number before: a restore or a revision of the plan skips numbers.
ATTEMPT_BEFORE = f"""
select * from attempts {of_step} and number < :number order by number desc limit 1
"""

RAISE_ATTEMPTS = """
update steps set attempt = attempt + :by where plan_path = :plan and parent_anchor is null
"""

ATTEMPTS = "select * from attempts where plan_path = :plan order by step_anchor, number"

ANY_UNSAVED = "select step_anchor from unsaved where plan_path = :plan limit 1"

REQUESTED = """
select * from attempts
 where plan_path = :plan and worktree = :owner and request_id = :request_id
"""

SEEN = f"update attempts set seen_at = :now, lease_seconds = :lease_seconds {this_attempt}"

END_ATTEMPT = f"""
update attempts set ended_at = :now, outcome = :outcome {this_attempt} and ended_at is null
"""

ADD_ARTIFACT = """
insert into step_artifacts (plan_path, step_anchor, kind, summary, content, recorded_at)
values (:plan, :anchor, :kind, :summary, :content, :now)
returning id
"""

ARTIFACTS = f"select * from step_artifacts {of_step} order by id"

ADD_EVENT = """
insert into events (at, plan_path, step_anchor, kind, actor, attempt, detail)
values (:now, :plan, :anchor, :kind, :actor, :attempt, :detail)
"""

EVENTS = "select * from events where plan_path = :plan order by seq"

LAST_CHANGE = "select at from events where seq = (select max(seq) from events)"

# With the step, if it still exists.
EVENTS_SINCE = """
select e.seq, e.at, e.plan_path, e.step_anchor, s.commit_hash, e.kind, s.anchor
  from events e left join steps s on s.plan_path = e.plan_path and s.anchor = e.step_anchor
 where e.seq > :seq
 order by e.seq
"""


# Is the attempt under way? If not, how did it end, and where is the step now?
STANDING = """
select a.ended_at, a.outcome, a.lease_seconds, s.attempt as current_attempt
  from attempts a
  join steps s on s.plan_path = a.plan_path and s.anchor = a.step_anchor
 where a.plan_path = :plan and a.step_anchor = :anchor and a.number = :number
"""

RELEASED_BY = f"""
select actor from events {of_step} and kind = 'release' and attempt = :number
 order by seq desc limit 1
"""

SET_HOLDER = f"""
update attempts
   set host = :host, boot = :boot, pid_namespace = :pid_namespace,
       holder_pid = :holder_pid, holder_start = :holder_start
 {this_attempt}
"""
