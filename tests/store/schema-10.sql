pragma journal_mode = wal;
create table plans (
  plan_path text not null primary key,
  plan_hash text not null,
  phase_title text,
  status text not null check (status in ('active', 'done', 'archived')),
  created_at text not null check (created_at is null or (length(created_at) = 24 and created_at like '____-__-__T__:__:__.___Z')),
  updated_at text not null check (updated_at is null or (length(updated_at) = 24 and updated_at like '____-__-__T__:__:__.___Z')),
  base_commit text,
  paused_at text check (paused_at is null or (length(paused_at) = 24 and paused_at like '____-__-__T__:__:__.___Z')),
  merged_commit text,
  plan_text text not null
) strict
;
create table plan_counts (
  plan_path text not null primary key references plans (plan_path),
  steps_total integer not null,
  steps_done integer not null check (steps_done between 0 and steps_total),
  steps_ready integer not null check (steps_ready >= 0),
  changed_at text not null check (changed_at is null or (length(changed_at) = 24 and changed_at like '____-__-__T__:__:__.___Z'))
) strict
;
create table plan_revisions (
  plan_path text not null references plans (plan_path),
  plan_hash text not null,
  plan_text text not null,
  replaced_at text not null check (replaced_at is null or (length(replaced_at) = 24 and replaced_at like '____-__-__T__:__:__.___Z')),
  primary key (plan_path, replaced_at)
) strict
;
create table steps (
  plan_path text not null references plans (plan_path),
  anchor text not null,
  parent_anchor text,
  step_index integer not null,
  title text not null,
  status text not null check (status in ('pending', 'claimed', 'in_progress', 'completed')),
  claimed_by text,
  claimed_at text check (claimed_at is null or (length(claimed_at) = 24 and claimed_at like '____-__-__T__:__:__.___Z')),
  lease_expires_at text check (lease_expires_at is null or (length(lease_expires_at) = 24 and lease_expires_at like '____-__-__T__:__:__.___Z')),
  heartbeat_at text check (heartbeat_at is null or (length(heartbeat_at) = 24 and heartbeat_at like '____-__-__T__:__:__.___Z')),
  started_at text check (started_at is null or (length(started_at) = 24 and started_at like '____-__-__T__:__:__.___Z')),
  completed_at text check (completed_at is null or (length(completed_at) = 24 and completed_at like '____-__-__T__:__:__.___Z')),
  commit_hash text,
  complete_reason text,
  completed_by text,
  attempt integer not null,
  claims_without_progress integer not null,
  parked_at text check (parked_at is null or (length(parked_at) = 24 and parked_at like '____-__-__T__:__:__.___Z')),
  park_reason text,
  open_deps integer not null check (open_deps >= 0),
  primary key (plan_path, anchor),
  foreign key (plan_path, parent_anchor) references steps (plan_path, anchor),
  check ((status in ('claimed', 'in_progress')) = (claimed_by is not null)),
  check ((claimed_by is null) = (claimed_at is null)),
  check ((claimed_by is null) = (lease_expires_at is null)),
  check ((claimed_by is null) = (heartbeat_at is null)),
  check ((status = 'completed') = (completed_at is not null))
) strict
;
create table plan_copies (
  file text not null primary key,
  signature text not null,
  plan_hash text not null
) strict
;
create table step_deps (
  plan_path text not null,
  step_anchor text not null,
  depends_on text not null,
  primary key (plan_path, step_anchor, depends_on),
  foreign key (plan_path, step_anchor) references steps (plan_path, anchor),
  foreign key (plan_path, depends_on) references steps (plan_path, anchor)
) strict
;
create table checklist_items (
  id integer primary key autoincrement,
  plan_path text not null,
  step_anchor text not null,
  kind text not null check (kind in ('task', 'test', 'checkpoint')),
  ordinal integer not null check (ordinal >= 0),
  text text not null,
  status text not null check (status in ('open', 'in_progress', 'completed', 'deferred')),
  updated_at text check (updated_at is null or (length(updated_at) = 24 and updated_at like '____-__-__T__:__:__.___Z')),
  reason text,
  evidence text,
  unique (plan_path, step_anchor, kind, ordinal),
  foreign key (plan_path, step_anchor) references steps (plan_path, anchor)
) strict
;
create table step_artifacts (
  id integer primary key autoincrement,
  plan_path text not null,
  step_anchor text not null,
  kind text not null check (kind in ('architect_strategy', 'reviewer_verdict', 'auditor_summary',
    'verification', 'recovery', 'escalation', 'note')),
  summary text not null,
  content text,
  recorded_at text not null check (recorded_at is null or (length(recorded_at) = 24 and recorded_at like '____-__-__T__:__:__.___Z')),
  foreign key (plan_path, step_anchor) references steps (plan_path, anchor)
) strict
;
create table attempts (
  plan_path text not null,
  step_anchor text not null,
  number integer not null check (number > 0),
  worktree text not null,
  host text,
  boot text,
  pid_namespace text,
  holder_pid integer,
  holder_start text,
  lease_seconds real not null check (lease_seconds > 0),
  request_id text,
  claimed_at text not null check (claimed_at is null or (length(claimed_at) = 24 and claimed_at like '____-__-__T__:__:__.___Z')),
  seen_at text not null check (seen_at is null or (length(seen_at) = 24 and seen_at like '____-__-__T__:__:__.___Z')),
  ended_at text check (ended_at is null or (length(ended_at) = 24 and ended_at like '____-__-__T__:__:__.___Z')),
  outcome text check (outcome in ('completed', 'released', 'reset', 'expired', 'superseded',
    'dead', 'failed')),
  salvage_ref text,
  tokens integer,
  cost_microdollars integer,
  primary key (plan_path, step_anchor, number),
  foreign key (plan_path, step_anchor) references steps (plan_path, anchor),
  check ((ended_at is null) = (outcome is null))
) strict
;
create table events (
  seq integer primary key autoincrement,
  at text not null check (at is null or (length(at) = 24 and at like '____-__-__T__:__:__.___Z')),
  plan_path text not null references plans (plan_path),
  step_anchor text,
  kind text not null,
  actor text,
  attempt integer,
  detail text not null
) strict
;
create index steps_ready on steps (plan_path, step_index)
 where parent_anchor is null and status = 'pending' and open_deps = 0 and parked_at is null
;
create index steps_blocked on steps (plan_path, step_index)
 where parent_anchor is null and status = 'pending' and open_deps > 0 and parked_at is null
;
create index steps_parked on steps (plan_path, step_index)
 where parent_anchor is null and parked_at is not null
;
create index steps_held on steps (plan_path, claimed_by, step_index)
 where parent_anchor is null and claimed_by is not null
;
create index steps_leased on steps (plan_path, lease_expires_at)
 where parent_anchor is null and claimed_by is not null
;
create index steps_live on steps (plan_path, step_index)
 where parent_anchor is null and claimed_by is not null
;
create index steps_family on steps (plan_path, parent_anchor, step_index)
 where parent_anchor is not null
;create index step_deps_back on step_deps (plan_path, depends_on, step_anchor);create index step_artifacts_step on step_artifacts (plan_path, step_anchor, id);create index plan_events on events (plan_path, seq);
create index attempts_held on attempts (plan_path, step_anchor)
 where holder_pid is not null and ended_at is null
;
create unique index attempt_requests on attempts (plan_path, worktree, request_id)
 where request_id is not null
;
pragma application_id = 1416980273;
pragma user_version = 10;
