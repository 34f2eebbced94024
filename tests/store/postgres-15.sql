create table repository (
  only_row boolean primary key default true check (only_row),
  version bigint not null,
  identity text collate "C" not null,
  roots text collate "C" not null,
  last_event bigint not null default 0,
  watched_until bigint not null default 0,
  noticed_at bigint not null default 0
)
--
create table if not exists receipts (
  at bigint not null,
  token text collate "C" not null,
  primary key (at, token)
)
--
create table plans (
  plan_path text collate "C" not null primary key,
  plan_hash text collate "C" not null,
  phase_title text collate "C",
  status text collate "C" not null check (status in ('active', 'done', 'archived')),
  created_at text collate "C" not null check (created_at is null or (length(created_at) = 24 and created_at like '____-__-__T__:__:__.___Z')),
  updated_at text collate "C" not null check (updated_at is null or (length(updated_at) = 24 and updated_at like '____-__-__T__:__:__.___Z')),
  base_commit text collate "C",
  paused_at text collate "C" check (paused_at is null or (length(paused_at) = 24 and paused_at like '____-__-__T__:__:__.___Z')),
  merged_commit text collate "C",
  plan_text text collate "C" not null
)
--
create table plan_counts (
  plan_path text collate "C" not null primary key references plans (plan_path),
  steps_total bigint not null,
  steps_done bigint not null,
  steps_ready bigint not null,
  changed_at text collate "C" not null
)
--
create or replace function valid_plan_counts(steps_total bigint, steps_done bigint, steps_ready bigint, changed_at text) returns boolean language plpgsql immutable as $$
begin
  return (steps_done between 0 and steps_total) is not false
     and (steps_ready >= 0) is not false
     and (changed_at is null or (length(changed_at) = 24 and changed_at like '____-__-__T__:__:__.___Z')) is not false;
end $$
--
alter table plan_counts add constraint plan_counts_valid check (valid_plan_counts(steps_total, steps_done, steps_ready, changed_at))
--
create table plan_revisions (
  plan_path text collate "C" not null references plans (plan_path),
  plan_hash text collate "C" not null,
  plan_text text collate "C" not null,
  replaced_at text collate "C" not null check (replaced_at is null or (length(replaced_at) = 24 and replaced_at like '____-__-__T__:__:__.___Z')),
  primary key (plan_path, replaced_at)
)
--
create table steps (
  plan_path text collate "C" not null references plans (plan_path),
  anchor text collate "C" not null,
  parent_anchor text collate "C",
  step_index bigint not null,
  title text collate "C" not null,
  status text collate "C" not null,
  claimed_by text collate "C",
  claimed_at text collate "C",
  lease_expires_at text collate "C",
  heartbeat_at text collate "C",
  started_at text collate "C",
  completed_at text collate "C",
  commit_hash text collate "C",
  complete_reason text collate "C",
  completed_by text collate "C",
  attempt bigint not null,
  claims_without_progress bigint not null,
  parked_at text collate "C",
  park_reason text collate "C",
  open_deps bigint not null,
  primary key (plan_path, anchor),
  foreign key (plan_path, parent_anchor) references steps (plan_path, anchor)
)
--
create or replace function valid_steps(status text, claimed_by text, claimed_at text, lease_expires_at text, heartbeat_at text, started_at text, completed_at text, parked_at text, open_deps bigint) returns boolean language plpgsql immutable as $$
begin
  return (status in ('pending', 'claimed', 'in_progress', 'completed')) is not false
     and (claimed_at is null or (length(claimed_at) = 24 and claimed_at like '____-__-__T__:__:__.___Z')) is not false
     and (lease_expires_at is null or (length(lease_expires_at) = 24 and lease_expires_at like '____-__-__T__:__:__.___Z')) is not false
     and (heartbeat_at is null or (length(heartbeat_at) = 24 and heartbeat_at like '____-__-__T__:__:__.___Z')) is not false
     and (started_at is null or (length(started_at) = 24 and started_at like '____-__-__T__:__:__.___Z')) is not false
     and (completed_at is null or (length(completed_at) = 24 and completed_at like '____-__-__T__:__:__.___Z')) is not false
     and (parked_at is null or (length(parked_at) = 24 and parked_at like '____-__-__T__:__:__.___Z')) is not false
     and (open_deps >= 0) is not false
     and ((status in ('claimed', 'in_progress')) = (claimed_by is not null)) is not false
     and ((claimed_by is null) = (claimed_at is null)) is not false
     and ((claimed_by is null) = (lease_expires_at is null)) is not false
     and ((claimed_by is null) = (heartbeat_at is null)) is not false
     and ((status = 'completed') = (completed_at is not null)) is not false;
end $$
--
alter table steps add constraint steps_valid check (valid_steps(status, claimed_by, claimed_at, lease_expires_at, heartbeat_at, started_at, completed_at, parked_at, open_deps))
--
create table plan_copies (
  file text collate "C" not null primary key,
  signature text collate "C" not null,
  plan_hash text collate "C" not null
)
--
create table step_deps (
  plan_path text collate "C" not null,
  step_anchor text collate "C" not null,
  depends_on text collate "C" not null,
  primary key (plan_path, step_anchor, depends_on),
  foreign key (plan_path, step_anchor) references steps (plan_path, anchor),
  foreign key (plan_path, depends_on) references steps (plan_path, anchor)
)
--
create table checklist_items (
  id bigint primary key,
  plan_path text collate "C" not null,
  step_anchor text collate "C" not null,
  kind text collate "C" not null check (kind in ('task', 'test', 'checkpoint')),
  ordinal bigint not null check (ordinal >= 0),
  text text collate "C" not null,
  status text collate "C" not null check (status in ('open', 'in_progress', 'completed', 'deferred')),
  updated_at text collate "C" check (updated_at is null or (length(updated_at) = 24 and updated_at like '____-__-__T__:__:__.___Z')),
  reason text collate "C",
  evidence text collate "C",
  unique (plan_path, step_anchor, kind, ordinal),
  foreign key (plan_path, step_anchor) references steps (plan_path, anchor)
)
--
create sequence checklist_items_number
--
create function number_checklist_items() returns trigger language plpgsql as $$
declare last bigint;
begin
  if new.id is null then
    new.id := nextval('{schema}.checklist_items_number');
  else
    select case when is_called then last_value else 0 end into last from {schema}.checklist_items_number;
    perform nextval('{schema}.checklist_items_number') from generate_series(last + 1, new.id);
  end if;
  return new;
end $$
--
create trigger number before insert on checklist_items for each row execute function number_checklist_items()
--
create table step_artifacts (
  id bigint primary key,
  plan_path text collate "C" not null,
  step_anchor text collate "C" not null,
  kind text collate "C" not null check (kind in ('architect_strategy', 'reviewer_verdict', 'auditor_summary',
    'verification', 'recovery', 'escalation', 'note')),
  summary text collate "C" not null,
  content text collate "C",
  recorded_at text collate "C" not null check (recorded_at is null or (length(recorded_at) = 24 and recorded_at like '____-__-__T__:__:__.___Z')),
  foreign key (plan_path, step_anchor) references steps (plan_path, anchor)
)
--
create sequence step_artifacts_number
--
create function number_step_artifacts() returns trigger language plpgsql as $$
declare last bigint;
begin
  if new.id is null then
    new.id := nextval('{schema}.step_artifacts_number');
  else
    select case when is_called then last_value else 0 end into last from {schema}.step_artifacts_number;
    perform nextval('{schema}.step_artifacts_number') from generate_series(last + 1, new.id);
  end if;
  return new;
end $$
--
create trigger number before insert on step_artifacts for each row execute function number_step_artifacts()
--
create table attempts (
  plan_path text collate "C" not null,
  step_anchor text collate "C" not null,
  number bigint not null,
  worktree text collate "C" not null,
  host text collate "C",
  boot text collate "C",
  pid_namespace text collate "C",
  holder_pid bigint,
  holder_start text collate "C",
  lease_seconds double precision not null,
  request_id text collate "C",
  claimed_at text collate "C" not null,
  seen_at text collate "C" not null,
  ended_at text collate "C",
  outcome text collate "C",
  salvage_ref text collate "C",
  tokens bigint,
  cost_microdollars bigint, role text collate "C", role_since text collate "C",
  primary key (plan_path, step_anchor, number)
)
--
create or replace function valid_attempts(number bigint, lease_seconds double precision, claimed_at text, seen_at text, ended_at text, outcome text, role_since text) returns boolean language plpgsql immutable as $$
begin
  return (number > 0) is not false
     and (lease_seconds > 0) is not false
     and (claimed_at is null or (length(claimed_at) = 24 and claimed_at like '____-__-__T__:__:__.___Z')) is not false
     and (seen_at is null or (length(seen_at) = 24 and seen_at like '____-__-__T__:__:__.___Z')) is not false
     and (ended_at is null or (length(ended_at) = 24 and ended_at like '____-__-__T__:__:__.___Z')) is not false
     and (outcome in ('completed', 'released', 'reset', 'expired', 'superseded',
    'dead', 'failed')) is not false
     and (role_since is null or (length(role_since) = 24 and role_since like '____-__-__T__:__:__.___Z')) is not false
     and ((ended_at is null) = (outcome is null)) is not false;
end $$
--
alter table attempts add constraint attempts_valid check (valid_attempts(number, lease_seconds, claimed_at, seen_at, ended_at, outcome, role_since))
--
create table events (
  seq bigint primary key,
  at text collate "C" not null check (at is null or (length(at) = 24 and at like '____-__-__T__:__:__.___Z')),
  plan_path text collate "C" not null references plans (plan_path),
  step_anchor text collate "C",
  kind text collate "C" not null,
  actor text collate "C",
  attempt bigint,
  detail text collate "C" not null
)
--
create or replace function number_event() returns trigger language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('{schema}', 2));
  if new.seq is null then
    update {schema}.repository set last_event = last_event + 1 returning last_event into new.seq;
  else
    update {schema}.repository set last_event = greatest(last_event, new.seq);
  end if;
  return new;
end $$
--
create trigger number before insert on events for each row execute function number_event()
--
create index steps_ready on steps (plan_path, step_index)
 where parent_anchor is null and status = 'pending' and open_deps = 0 and parked_at is null
--
create index steps_blocked on steps (plan_path, step_index)
 where parent_anchor is null and status = 'pending' and open_deps > 0 and parked_at is null
--
create index steps_parked on steps (plan_path, step_index)
 where parent_anchor is null and parked_at is not null
--
create index steps_held on steps (plan_path, claimed_by, step_index)
 where parent_anchor is null and claimed_by is not null
--
create index steps_leased on steps (plan_path, lease_expires_at)
 where parent_anchor is null and claimed_by is not null
--
create index steps_family on steps (plan_path, parent_anchor, step_index)
 where parent_anchor is not null
--
create index step_deps_back on step_deps (plan_path, depends_on, step_anchor)
--
create index step_artifacts_step on step_artifacts (plan_path, step_anchor, id)
--
create index plan_events on events (plan_path, seq)
--
create index attempts_held on attempts (plan_path, step_anchor)
 where holder_pid is not null and ended_at is null
--
create unique index attempt_requests on attempts (plan_path, worktree, request_id)
 where request_id is not null
--
create index items_deferred on checklist_items (plan_path, step_anchor)
 where status = 'deferred'
--
create table worktrees (
  path text collate "C" not null primary key,
  branch text collate "C" not null,
  base_branch text collate "C" not null,
  base_commit text collate "C" not null,
  plan_path text collate "C" not null,
  created_at text collate "C" not null check (created_at is null or (length(created_at) = 24 and created_at like '____-__-__T__:__:__.___Z')),
  reserved_until text collate "C" check (reserved_until is null or (length(reserved_until) = 24 and reserved_until like '____-__-__T__:__:__.___Z')),
  reserved_for text collate "C"
)
--
create index worktrees_of on worktrees (plan_path, path)
--
create table intents (
  kind text collate "C" not null check (kind in ('commit', 'create', 'dash', 'join', 'merge', 'remove', 'sync')),
  worktree text collate "C" not null,
  plan_path text collate "C" not null,
  step_anchor text collate "C",
  attempt bigint,
  head text collate "C",
  detail text collate "C" not null,
  created_at text collate "C" not null check (created_at is null or (length(created_at) = 24 and created_at like '____-__-__T__:__:__.___Z')),
  primary key (kind, worktree)
)
--
create table unsaved (
  plan_path text collate "C" not null,
  step_anchor text collate "C" not null,
  number bigint not null,
  worktree text collate "C" not null,
  taken_at text collate "C" not null check (taken_at is null or (length(taken_at) = 24 and taken_at like '____-__-__T__:__:__.___Z')),
  primary key (plan_path, step_anchor, number),
  foreign key (plan_path, step_anchor, number)
    references attempts (plan_path, step_anchor, number)
)
--
create table dashes (
  id bigint primary key,
  name text collate "C" not null,
  description text collate "C",
  branch text collate "C" not null,
  worktree text collate "C" not null,
  base_branch text collate "C" not null,
  base_commit text collate "C" not null,
  status text collate "C" not null check (status in ('active', 'joined', 'released')),
  created_at text collate "C" not null check (created_at is null or (length(created_at) = 24 and created_at like '____-__-__T__:__:__.___Z')),
  updated_at text collate "C" not null check (updated_at is null or (length(updated_at) = 24 and updated_at like '____-__-__T__:__:__.___Z')),
  ended_at text collate "C" check (ended_at is null or (length(ended_at) = 24 and ended_at like '____-__-__T__:__:__.___Z')),
  joined_commit text collate "C",
  salvage_ref text collate "C",
  check ((status = 'active') = (ended_at is null))
)
--
create sequence dashes_number
--
create function number_dashes() returns trigger language plpgsql as $$
declare last bigint;
begin
  if new.id is null then
    new.id := nextval('{schema}.dashes_number');
  else
    select case when is_called then last_value else 0 end into last from {schema}.dashes_number;
    perform nextval('{schema}.dashes_number') from generate_series(last + 1, new.id);
  end if;
  return new;
end $$
--
create trigger number before insert on dashes for each row execute function number_dashes()
--
create unique index dashes_active on dashes (name) where status = 'active'
--
create table dash_rounds (
  id bigint primary key,
  dash_id bigint not null references dashes (id),
  number bigint not null check (number > 0),
  instruction text collate "C",
  summary text collate "C",
  files text collate "C" not null,
  commit_hash text collate "C",
  recorded_at text collate "C" not null check (recorded_at is null or (length(recorded_at) = 24 and recorded_at like '____-__-__T__:__:__.___Z')),
  unique (dash_id, number)
)
--
create sequence dash_rounds_number
--
create function number_dash_rounds() returns trigger language plpgsql as $$
declare last bigint;
begin
  if new.id is null then
    new.id := nextval('{schema}.dash_rounds_number');
  else
    select case when is_called then last_value else 0 end into last from {schema}.dash_rounds_number;
    perform nextval('{schema}.dash_rounds_number') from generate_series(last + 1, new.id);
  end if;
  return new;
end $$
--
create trigger number before insert on dash_rounds for each row execute function number_dash_rounds()
--
create table machines (
  id text collate "C" not null primary key,
  name text collate "C" not null unique
)
--
create table epoch (
  only_row bigint primary key check (only_row = 1),
  epoch text collate "C" not null
)
--
create table requests (
  who text collate "C" not null,
  key text collate "C" not null,
  command text collate "C" not null,
  request_hash text collate "C" not null,
  at text collate "C" not null check (at is null or (length(at) = 24 and at like '____-__-__T__:__:__.___Z')),
  answer text collate "C" not null,
  primary key (who, key)
)
--
create index requests_by_time on requests (at)
--
create table unpublished (
  plan_path text collate "C" not null,
  step_anchor text collate "C" not null,
  commit_hash text collate "C" not null,
  worktree text collate "C" not null,
  problem text collate "C",
  completed_at text collate "C" not null check (completed_at is null or (length(completed_at) = 24 and completed_at like '____-__-__T__:__:__.___Z')),
  primary key (plan_path, step_anchor),
  foreign key (plan_path, step_anchor) references steps (plan_path, anchor)
)
--
alter table step_deps alter step_anchor set statistics 0, alter depends_on set statistics 0
--
insert into epoch (only_row, epoch) values (1, replace(gen_random_uuid()::text, '-', ''))
--
insert into repository values(true,15,'example.org/shop','',16,0,0)
--
insert into plans values('.tugtool/tugplan-shop.md','571d1059631bc8987f0e2a3c2ff121b04fd06b7c9d04eed657a55424862adb24','A shop','active','2026-11-17T13:27:26.190Z','2026-11-17T13:27:33.171Z','ab43a72a6fd4cdcd7998a05aa9fc0e55d8ff9c2e','2026-11-17T13:27:33.171Z',NULL,'# A shop

### Step 1: Shelves {#step-1}

**Tasks:**
- [ ] Build them
- [ ] Paint them

**Tests:**
- [ ] They hold

### Step 2: Till {#step-2}

**Depends on:** #step-1

**Tasks:**
- [ ] Count the money

#### Step 2.1: Drawer {#step-2-1}

**Tasks:**
- [ ] It opens

### Step 3: Door {#step-3}

**Tasks:**
- [ ] Hang it

### Step 4: Sign {#step-4}

**Checkpoint:**
- [ ] It can be read
')
--
insert into plan_counts values('.tugtool/tugplan-shop.md',4,1,1,'2026-11-17T13:27:32.757Z')
--
insert into steps values('.tugtool/tugplan-shop.md','step-3',NULL,3,'Door','pending',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,2,0,NULL,NULL,0)
--
insert into steps values('.tugtool/tugplan-shop.md','step-2',NULL,1,'Till','claimed','id-a:/srv/shop-1','2026-11-17T13:27:27.749Z','2026-11-17T15:27:27.749Z','2026-11-17T13:27:27.749Z',NULL,NULL,NULL,NULL,NULL,1,1,NULL,NULL,0)
--
insert into steps values('.tugtool/tugplan-shop.md','step-4',NULL,4,'Sign','claimed','id-a:/srv/shop-3','2026-11-17T13:27:28.921Z','2026-11-17T15:27:28.921Z','2026-11-17T13:27:28.921Z',NULL,NULL,NULL,NULL,NULL,1,1,NULL,NULL,0)
--
insert into steps values('.tugtool/tugplan-shop.md','step-2-1','step-2',2,'Drawer','claimed','id-a:/srv/shop-1','2026-11-17T13:27:27.749Z','2026-11-17T15:27:27.749Z','2026-11-17T13:27:27.749Z',NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,0)
--
insert into steps values('.tugtool/tugplan-shop.md','step-1',NULL,0,'Shelves','completed',NULL,NULL,NULL,NULL,'2026-11-17T13:27:26.659Z','2026-11-17T13:27:27.411Z',NULL,NULL,'id-a:/srv/shop-1',1,0,NULL,NULL,0)
--
insert into step_deps values('.tugtool/tugplan-shop.md','step-2','step-1')
--
insert into checklist_items values(1,'.tugtool/tugplan-shop.md','step-1','task',0,'Build them','completed','2026-11-17T13:27:26.883Z',NULL,NULL)
--
insert into checklist_items values(2,'.tugtool/tugplan-shop.md','step-1','task',1,'Paint them','completed','2026-11-17T13:27:26.883Z',NULL,NULL)
--
insert into checklist_items values(3,'.tugtool/tugplan-shop.md','step-1','test',0,'They hold','completed','2026-11-17T13:27:26.883Z',NULL,NULL)
--
insert into checklist_items values(4,'.tugtool/tugplan-shop.md','step-2','task',0,'Count the money','open',NULL,NULL,NULL)
--
insert into checklist_items values(5,'.tugtool/tugplan-shop.md','step-2-1','task',0,'It opens','open',NULL,NULL,NULL)
--
insert into checklist_items values(6,'.tugtool/tugplan-shop.md','step-3','task',0,'Hang it','open',NULL,NULL,NULL)
--
insert into checklist_items values(7,'.tugtool/tugplan-shop.md','step-4','checkpoint',0,'It can be read','open',NULL,NULL,NULL)
--
insert into step_artifacts values(1,'.tugtool/tugplan-shop.md','step-1','note','Oak, not pine',NULL,'2026-11-17T13:27:27.145Z')
--
insert into attempts values('.tugtool/tugplan-shop.md','step-1',1,'id-a:/srv/shop-1',NULL,NULL,NULL,NULL,NULL,7200.0,NULL,'2026-11-17T13:27:26.442Z','2026-11-17T13:27:27.145Z','2026-11-17T13:27:27.411Z','completed',NULL,NULL,NULL,NULL,NULL)
--
insert into attempts values('.tugtool/tugplan-shop.md','step-2',1,'id-a:/srv/shop-1','till','58c89112-18f8-4524-a394-9e164d23b695','pid:[4026531836]',20225,'86708',7200.0,'r1','2026-11-17T13:27:27.749Z','2026-11-17T13:27:27.749Z',NULL,NULL,NULL,NULL,NULL,NULL,NULL)
--
insert into attempts values('.tugtool/tugplan-shop.md','step-3',1,'id-a:/srv/shop-2',NULL,NULL,NULL,NULL,NULL,7200.0,NULL,'2026-11-17T13:27:27.998Z','2026-11-17T13:27:27.998Z','2026-11-17T13:27:28.272Z','released',NULL,NULL,NULL,NULL,NULL)
--
insert into attempts values('.tugtool/tugplan-shop.md','step-3',2,'id-a:/srv/shop-2',NULL,NULL,NULL,NULL,NULL,7200.0,NULL,'2026-11-17T13:27:28.511Z','2026-11-17T13:27:28.511Z','2026-11-17T13:27:32.757Z','reset',NULL,NULL,NULL,NULL,NULL)
--
insert into attempts values('.tugtool/tugplan-shop.md','step-4',1,'id-a:/srv/shop-3',NULL,NULL,NULL,NULL,NULL,7200.0,NULL,'2026-11-17T13:27:28.921Z','2026-11-17T13:27:28.921Z',NULL,NULL,NULL,NULL,NULL,NULL,NULL)
--
insert into events values(1,'2026-11-17T13:27:26.190Z','.tugtool/tugplan-shop.md',NULL,'init',NULL,NULL,'{"hash": "571d1059631bc8987f0e2a3c2ff121b04fd06b7c9d04eed657a55424862adb24", "steps": 5, "items": 7}')
--
insert into events values(2,'2026-11-17T13:27:26.442Z','.tugtool/tugplan-shop.md','step-1','claim','id-a:/srv/shop-1',1,'{"lease_seconds": 7200, "reclaimed_from": null, "outcome": null, "items": [], "parked": false}')
--
insert into events values(3,'2026-11-17T13:27:26.659Z','.tugtool/tugplan-shop.md','step-1','start','id-a:/srv/shop-1',1,'{}')
--
insert into events values(4,'2026-11-17T13:27:26.883Z','.tugtool/tugplan-shop.md','step-1','update','id-a:/srv/shop-1',1,'{"items": [["step-1", "task", 0, "completed"], ["step-1", "task", 1, "completed"], ["step-1", "test", 0, "completed"]], "reasons": []}')
--
insert into events values(5,'2026-11-17T13:27:27.145Z','.tugtool/tugplan-shop.md','step-1','artifact','id-a:/srv/shop-1',1,'{"artifact_kind": "note", "artifact_id": 1}')
--
insert into events values(6,'2026-11-17T13:27:27.411Z','.tugtool/tugplan-shop.md','step-1','complete','id-a:/srv/shop-1',1,'{"commit": null, "forced": null, "items": []}')
--
insert into events values(7,'2026-11-17T13:27:27.749Z','.tugtool/tugplan-shop.md','step-2','claim','id-a:/srv/shop-1',1,'{"lease_seconds": 7200, "reclaimed_from": null, "outcome": null, "items": [], "parked": false}')
--
insert into events values(8,'2026-11-17T13:27:27.998Z','.tugtool/tugplan-shop.md','step-3','claim','id-a:/srv/shop-2',1,'{"lease_seconds": 7200, "reclaimed_from": null, "outcome": null, "items": [], "parked": false}')
--
insert into events values(9,'2026-11-17T13:27:28.272Z','.tugtool/tugplan-shop.md','step-3','release','id-a:/srv/shop-2',1,'{"items": [], "parked": null}')
--
insert into events values(10,'2026-11-17T13:27:28.511Z','.tugtool/tugplan-shop.md','step-3','claim','id-a:/srv/shop-2',2,'{"lease_seconds": 7200, "reclaimed_from": null, "outcome": null, "items": [], "parked": false}')
--
insert into events values(11,'2026-11-17T13:27:28.921Z','.tugtool/tugplan-shop.md','step-4','claim','id-a:/srv/shop-3',1,'{"lease_seconds": 7200, "reclaimed_from": null, "outcome": null, "items": [], "parked": false}')
--
insert into events values(12,'2026-11-17T13:27:29.141Z','.tugtool/tugplan-shop.md',NULL,'pause','id-a:/srv/shop',NULL,'{}')
--
insert into events values(13,'2026-11-17T13:27:29.363Z','.tugtool/tugplan-shop.md',NULL,'resume','id-a:/srv/shop',NULL,'{}')
--
insert into events values(14,'2026-11-17T13:27:30.718Z','.tugtool/tugplan-shop.md',NULL,'worktree_create','id-a:/srv/shop/.tugtree/tugplan__shop-20261117',NULL,'{"branch": "tugplan/shop-20261117", "base": "main"}')
--
insert into events values(15,'2026-11-17T13:27:32.757Z','.tugtool/tugplan-shop.md','step-3','reset','id-a:/srv/shop',2,'{"items": [], "parked": null}')
--
insert into events values(16,'2026-11-17T13:27:33.171Z','.tugtool/tugplan-shop.md',NULL,'pause','id-a:/srv/shop',NULL,'{}')
--
insert into worktrees values('id-a:/srv/shop/.tugtree/tugplan__shop-20261117','tugplan/shop-20261117','main','ab43a72a6fd4cdcd7998a05aa9fc0e55d8ff9c2e','.tugtool/tugplan-shop.md','2026-11-17T13:27:30.718Z','2026-11-17T13:37:30.718Z',NULL)
--
insert into dashes values(1,'tidy','Sweep the floor','tugdash/tidy','id-a:.tugtree/tugdash__tidy','main','ab43a72a6fd4cdcd7998a05aa9fc0e55d8ff9c2e','active','2026-11-17T13:27:31.716Z','2026-11-17T13:27:32.512Z',NULL,NULL,NULL)
--
insert into dash_rounds values(1,1,1,NULL,'Sweep','[{"path": "dust", "status": "added"}]','87fdefb806bc767d58f406ce4b9457d58676e1db','2026-11-17T13:27:32.512Z')
--
insert into machines values('id-a','till')

--
insert into unpublished values ('.tugtool/tugplan-shop.md', 'step-1', '87fdefb806bc767d58f406ce4b9457d58676e1db', 'id-a:/srv/shop-1', null, '2026-11-17T13:27:27.411Z')
