"""Every statement, once. The subset of SQL that SQLite and PostgreSQL read alike."""

# -- plans -----------------------------------------------------------------------------

# Not its text: nobody needs megabytes to claim a step.
PLAN = """
select p.plan_path, p.plan_hash, p.phase_title, p.status, p.created_at, p.base_commit, p.paused_at,
       p.merged_commit, c.steps_total, c.steps_done, c.steps_ready,
       case when c.changed_at > p.updated_at then c.changed_at else p.updated_at end as updated_at
  from plans p
  join plan_counts c on c.plan_path = p.plan_path
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

STEP = "select * from steps where plan_path = :plan and anchor = :anchor"

STEPS = "select * from steps where plan_path = :plan order by step_index"

SUBSTEPS = """
select *
  from steps
 where plan_path = :plan and parent_anchor = :anchor
 order by step_index
"""

OWN_STEP = """
select *
  from steps
 where plan_path = :plan and parent_anchor is null and claimed_by = :owner
   and open_deps = 0 and parked_at is null
 order by step_index
 limit 1
"""

READY_STEP = """
select *
  from steps
 where plan_path = :plan and parent_anchor is null and status = 'pending'
   and open_deps = 0 and parked_at is null
 order by step_index
 limit 1
"""

EXPIRED_STEPS = """
select *
  from steps
 where plan_path = :plan and parent_anchor is null and claimed_by is not null
   and lease_expires_at < :now and open_deps = 0 and parked_at is null
 order by step_index
"""

# Only claims whose holder's process was written down: few, however many are held.
HOLDERS = """
select step_anchor, host, boot, pid_namespace, holder_pid, holder_start
  from attempts
 where plan_path = :plan and holder_pid is not null and ended_at is null
"""

HELD_STEPS = """
select anchor, claimed_by, lease_expires_at, step_index, open_deps, parked_at
  from steps
 where plan_path = :plan and parent_anchor is null and claimed_by is not null
 order by step_index
 limit :most
"""

LIVE_STEP = """
select *
  from steps
 where plan_path = :plan and parent_anchor is null and claimed_by is not null
   and open_deps = 0 and parked_at is null
 order by step_index
 limit 1
"""

BLOCKED_STEPS = """
select anchor
  from steps
 where plan_path = :plan and parent_anchor is null and status = 'pending'
   and open_deps > 0 and parked_at is null
 order by step_index
 limit :most
"""

PARKED_STEPS = """
select anchor
  from steps
 where plan_path = :plan and parent_anchor is null and parked_at is not null
 order by step_index
 limit :most
"""

# Everything at once: a claim starts from nothing, whoever had the step before.
CLAIM_STEP = """
update steps
   set status = 'claimed', claimed_by = :owner, claimed_at = :now, lease_expires_at = :until,
       heartbeat_at = :now, started_at = null, attempt = :attempt,
       claims_without_progress = claims_without_progress + 1,
       parked_at = case when claims_without_progress + 1 >= :most then :now end,
       park_reason = case when claims_without_progress + 1 >= :most then :reason end
 where plan_path = :plan and anchor = :anchor
"""

CLAIM_SUBSTEPS = """
update steps
   set status = 'claimed', claimed_by = :owner, claimed_at = :now, lease_expires_at = :until,
       heartbeat_at = :now, started_at = null
 where plan_path = :plan and parent_anchor = :anchor and status <> 'completed'
"""

START_STEP = """
update steps
   set status = 'in_progress', started_at = coalesce(started_at, :now)
 where plan_path = :plan and anchor = :anchor and status = 'claimed'
"""

# Two searches: with `or`, SQLite reads every step of the plan.
RENEW = """
update steps
   set lease_expires_at = :until, heartbeat_at = :now
 where plan_path = :plan and claimed_by is not null and anchor in (
         select anchor from steps where plan_path = :plan and anchor = :anchor
          union all
         select anchor from steps where plan_path = :plan and parent_anchor = :anchor)
"""

FREE_STEP = """
update steps
   set status = 'pending', claimed_by = null, claimed_at = null, lease_expires_at = null,
       heartbeat_at = null, started_at = null, parked_at = :parked_at, park_reason = :park_reason,
       claims_without_progress = :claims
 where plan_path = :plan and anchor = :anchor
"""

FREE_SUBSTEPS = """
update steps
   set status = 'pending', claimed_by = null, claimed_at = null, lease_expires_at = null,
       heartbeat_at = null, started_at = null
 where plan_path = :plan and parent_anchor = :anchor and status <> 'completed'
"""

UNSTART_SUBSTEP = """
update steps
   set status = 'claimed', started_at = null
 where plan_path = :plan and anchor = :anchor
"""

COMPLETE_STEP = """
update steps
   set status = 'completed', claimed_by = null, claimed_at = null, lease_expires_at = null,
       heartbeat_at = null, completed_at = :now, completed_by = :owner, commit_hash = :commit,
       complete_reason = :reason, claims_without_progress = 0, parked_at = null, park_reason = null
 where plan_path = :plan and anchor = :anchor
"""

# A substep whose item was reopened is its holder's again, as far as it had got, or nobody's.
REVIVE_SUBSTEP = """
update steps
   set status = case when cast(:owner as text) is null then 'pending'
                     when started_at is null then 'claimed' else 'in_progress' end,
       started_at = case when cast(:owner as text) is not null then started_at end,
       claimed_by = :owner, claimed_at = :claimed_at, lease_expires_at = :until,
       heartbeat_at = :seen_at, completed_at = null, completed_by = null, commit_hash = null,
       complete_reason = null
 where plan_path = :plan and anchor = :anchor
"""

REOPEN_STEPS = """
update steps
   set status = 'pending', started_at = null, completed_at = null, completed_by = null,
       commit_hash = null, complete_reason = null, claims_without_progress = 0
 where plan_path = :plan and anchor in (
         select anchor from steps where plan_path = :plan and anchor = :anchor
          union all
         select anchor from steps where plan_path = :plan and parent_anchor = :anchor)
"""

PROGRESS = """
update steps
   set claims_without_progress = 0, parked_at = null, park_reason = null
 where plan_path = :plan and anchor = :anchor
"""

END_RESERVATION = """
update worktrees set reserved_until = null where path = :owner and reserved_until is not null
"""

# -- dependencies ----------------------------------------------------------------------

DEPENDENTS = """
select d.step_anchor as anchor, coalesce(s.parent_anchor, s.anchor) as top, s.parent_anchor
  from step_deps d
  join steps s on s.plan_path = d.plan_path and s.anchor = d.step_anchor
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

# A dependency's commit is that of the step it belongs to.
NEEDS = """
select t.anchor as top, t.commit_hash, t.completed_by
  from step_deps d
  join steps s on s.plan_path = d.plan_path and s.anchor = d.depends_on
  join steps t on t.plan_path = d.plan_path and t.anchor = coalesce(s.parent_anchor, s.anchor)
 where d.plan_path = :plan and d.step_anchor = :anchor
"""

SHIFT_OPEN_DEPS = """
update steps
   set open_deps = open_deps + :by
 where plan_path = :plan and anchor = :anchor
returning status, open_deps, parked_at
"""

DEPS = "select step_anchor, depends_on from step_deps where plan_path = :plan"

# -- checklists ------------------------------------------------------------------------

ITEMS = """
select *
  from checklist_items
 where plan_path = :plan and step_anchor = :anchor
 order by kind, ordinal
"""

PLAN_ITEMS = """
select * from checklist_items where plan_path = :plan order by step_anchor, kind, ordinal
"""

SET_ITEM = """
update checklist_items
   set status = :status, reason = :reason, evidence = :evidence, updated_at = :now
 where plan_path = :plan and step_anchor = :anchor and kind = :kind and ordinal = :ordinal
"""

# -- attempts, artifacts, events -------------------------------------------------------

ADD_ATTEMPT = """
insert into attempts (plan_path, step_anchor, number, worktree, host, boot, pid_namespace,
                      holder_pid, holder_start, lease_seconds, request_id, claimed_at, seen_at)
values (:plan, :anchor, :number, :owner, :host, :boot, :pid_namespace,
        :holder_pid, :holder_start, :lease_seconds, :request_id, :now, :now)
"""

ATTEMPT = """
select * from attempts where plan_path = :plan and step_anchor = :anchor and number = :number
"""

# Not always the number before: a restored database, or a plan's new text, leaves some out.
ATTEMPT_BEFORE = """
select * from attempts where plan_path = :plan and step_anchor = :anchor and number < :number
 order by number desc limit 1
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

SEEN = """
update attempts
   set seen_at = :now, lease_seconds = :lease_seconds
 where plan_path = :plan and step_anchor = :anchor and number = :number
"""

END_ATTEMPT = """
update attempts
   set ended_at = :now, outcome = :outcome
 where plan_path = :plan and step_anchor = :anchor and number = :number and ended_at is null
"""

ADD_ARTIFACT = """
insert into step_artifacts (plan_path, step_anchor, kind, summary, content, recorded_at)
values (:plan, :anchor, :kind, :summary, :content, :now)
returning id
"""

ARTIFACTS = """
select *
  from step_artifacts
 where plan_path = :plan and step_anchor = :anchor
 order by id
"""

PLAN_ARTIFACTS = "select * from step_artifacts where plan_path = :plan order by step_anchor, id"

ADD_EVENT = """
insert into events (at, plan_path, step_anchor, kind, actor, attempt, detail)
values (:now, :plan, :anchor, :kind, :actor, :attempt, :detail)
"""

EVENTS = "select * from events where plan_path = :plan order by seq"

LAST_CHANGE = "select at from events where seq = (select max(seq) from events)"

COMPLETED_SINCE = """
select e.seq, e.at, e.plan_path, e.step_anchor, s.commit_hash
  from events e join steps s on s.plan_path = e.plan_path and s.anchor = e.step_anchor
 where e.seq > :seq and e.kind in ('complete', 'reconcile') order by e.seq
"""
