pragma journal_mode = wal;
BEGIN TRANSACTION;
CREATE TABLE attempts (
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
  cost_microdollars integer, role text, role_since text check (role_since is null or (length(role_since) = 24 and role_since like '____-__-__T__:__:__.___Z')),
  primary key (plan_path, step_anchor, number),
  foreign key (plan_path, step_anchor) references steps (plan_path, anchor),
  check ((ended_at is null) = (outcome is null))
) strict
;
INSERT INTO "attempts" VALUES('.tugtool/tugplan-shop.md','step-1',1,'/srv/shop-1',NULL,NULL,NULL,NULL,NULL,7200.0,NULL,'2026-11-17T13:27:26.442Z','2026-11-17T13:27:27.145Z','2026-11-17T13:27:27.411Z','completed',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('.tugtool/tugplan-shop.md','step-2',1,'/srv/shop-1','till','58c89112-18f8-4524-a394-9e164d23b695','pid:[4026531836]',20225,'86708',7200.0,'r1','2026-11-17T13:27:27.749Z','2026-11-17T13:27:27.749Z',NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('.tugtool/tugplan-shop.md','step-3',1,'/srv/shop-2',NULL,NULL,NULL,NULL,NULL,7200.0,NULL,'2026-11-17T13:27:27.998Z','2026-11-17T13:27:27.998Z','2026-11-17T13:27:28.272Z','released',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('.tugtool/tugplan-shop.md','step-3',2,'/srv/shop-2',NULL,NULL,NULL,NULL,NULL,7200.0,NULL,'2026-11-17T13:27:28.511Z','2026-11-17T13:27:28.511Z','2026-11-17T13:27:32.757Z','reset',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('.tugtool/tugplan-shop.md','step-4',1,'/srv/shop-3',NULL,NULL,NULL,NULL,NULL,7200.0,NULL,'2026-11-17T13:27:28.921Z','2026-11-17T13:27:28.921Z',NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE checklist_items (
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
INSERT INTO "checklist_items" VALUES(1,'.tugtool/tugplan-shop.md','step-1','task',0,'Build them','completed','2026-11-17T13:27:26.883Z',NULL,NULL);
INSERT INTO "checklist_items" VALUES(2,'.tugtool/tugplan-shop.md','step-1','task',1,'Paint them','completed','2026-11-17T13:27:26.883Z',NULL,NULL);
INSERT INTO "checklist_items" VALUES(3,'.tugtool/tugplan-shop.md','step-1','test',0,'They hold','completed','2026-11-17T13:27:26.883Z',NULL,NULL);
INSERT INTO "checklist_items" VALUES(4,'.tugtool/tugplan-shop.md','step-2','task',0,'Count the money','open',NULL,NULL,NULL);
INSERT INTO "checklist_items" VALUES(5,'.tugtool/tugplan-shop.md','step-2-1','task',0,'It opens','open',NULL,NULL,NULL);
INSERT INTO "checklist_items" VALUES(6,'.tugtool/tugplan-shop.md','step-3','task',0,'Hang it','open',NULL,NULL,NULL);
INSERT INTO "checklist_items" VALUES(7,'.tugtool/tugplan-shop.md','step-4','checkpoint',0,'It can be read','open',NULL,NULL,NULL);
CREATE TABLE dash_rounds (
  id integer primary key autoincrement,
  dash_id integer not null references dashes (id),
  number integer not null check (number > 0),
  instruction text,
  summary text,
  files text not null,
  commit_hash text,
  recorded_at text not null check (recorded_at is null or (length(recorded_at) = 24 and recorded_at like '____-__-__T__:__:__.___Z')),
  unique (dash_id, number)
) strict
;
INSERT INTO "dash_rounds" VALUES(1,1,1,NULL,'Sweep','[{"path": "dust", "status": "added"}]','87fdefb806bc767d58f406ce4b9457d58676e1db','2026-11-17T13:27:32.512Z');
CREATE TABLE dashes (
  id integer primary key autoincrement,
  name text not null,
  description text,
  branch text not null,
  worktree text not null,
  base_branch text not null,
  base_commit text not null,
  status text not null check (status in ('active', 'joined', 'released')),
  created_at text not null check (created_at is null or (length(created_at) = 24 and created_at like '____-__-__T__:__:__.___Z')),
  updated_at text not null check (updated_at is null or (length(updated_at) = 24 and updated_at like '____-__-__T__:__:__.___Z')),
  ended_at text check (ended_at is null or (length(ended_at) = 24 and ended_at like '____-__-__T__:__:__.___Z')),
  joined_commit text,
  salvage_ref text,
  check ((status = 'active') = (ended_at is null))
) strict
;
INSERT INTO "dashes" VALUES(1,'tidy','Sweep the floor','tugdash/tidy','.tugtree/tugdash__tidy','main','ab43a72a6fd4cdcd7998a05aa9fc0e55d8ff9c2e','active','2026-11-17T13:27:31.716Z','2026-11-17T13:27:32.512Z',NULL,NULL,NULL);
CREATE TABLE epoch (
  only_row integer primary key check (only_row = 1),
  epoch text not null
) strict
;
INSERT INTO "epoch" VALUES(1,'b70f8b1f9b92e7dcb54aef422ecf0e14');
CREATE TABLE events (
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
INSERT INTO "events" VALUES(1,'2026-11-17T13:27:26.190Z','.tugtool/tugplan-shop.md',NULL,'init',NULL,NULL,'{"hash": "571d1059631bc8987f0e2a3c2ff121b04fd06b7c9d04eed657a55424862adb24", "steps": 5, "items": 7}');
INSERT INTO "events" VALUES(2,'2026-11-17T13:27:26.442Z','.tugtool/tugplan-shop.md','step-1','claim','/srv/shop-1',1,'{"lease_seconds": 7200, "reclaimed_from": null, "outcome": null, "items": [], "parked": false}');
INSERT INTO "events" VALUES(3,'2026-11-17T13:27:26.659Z','.tugtool/tugplan-shop.md','step-1','start','/srv/shop-1',1,'{}');
INSERT INTO "events" VALUES(4,'2026-11-17T13:27:26.883Z','.tugtool/tugplan-shop.md','step-1','update','/srv/shop-1',1,'{"items": [["step-1", "task", 0, "completed"], ["step-1", "task", 1, "completed"], ["step-1", "test", 0, "completed"]], "reasons": []}');
INSERT INTO "events" VALUES(5,'2026-11-17T13:27:27.145Z','.tugtool/tugplan-shop.md','step-1','artifact','/srv/shop-1',1,'{"artifact_kind": "note", "artifact_id": 1}');
INSERT INTO "events" VALUES(6,'2026-11-17T13:27:27.411Z','.tugtool/tugplan-shop.md','step-1','complete','/srv/shop-1',1,'{"commit": null, "forced": null, "items": []}');
INSERT INTO "events" VALUES(7,'2026-11-17T13:27:27.749Z','.tugtool/tugplan-shop.md','step-2','claim','/srv/shop-1',1,'{"lease_seconds": 7200, "reclaimed_from": null, "outcome": null, "items": [], "parked": false}');
INSERT INTO "events" VALUES(8,'2026-11-17T13:27:27.998Z','.tugtool/tugplan-shop.md','step-3','claim','/srv/shop-2',1,'{"lease_seconds": 7200, "reclaimed_from": null, "outcome": null, "items": [], "parked": false}');
INSERT INTO "events" VALUES(9,'2026-11-17T13:27:28.272Z','.tugtool/tugplan-shop.md','step-3','release','/srv/shop-2',1,'{"items": [], "parked": null}');
INSERT INTO "events" VALUES(10,'2026-11-17T13:27:28.511Z','.tugtool/tugplan-shop.md','step-3','claim','/srv/shop-2',2,'{"lease_seconds": 7200, "reclaimed_from": null, "outcome": null, "items": [], "parked": false}');
INSERT INTO "events" VALUES(11,'2026-11-17T13:27:28.921Z','.tugtool/tugplan-shop.md','step-4','claim','/srv/shop-3',1,'{"lease_seconds": 7200, "reclaimed_from": null, "outcome": null, "items": [], "parked": false}');
INSERT INTO "events" VALUES(12,'2026-11-17T13:27:29.141Z','.tugtool/tugplan-shop.md',NULL,'pause','/srv/shop',NULL,'{}');
INSERT INTO "events" VALUES(13,'2026-11-17T13:27:29.363Z','.tugtool/tugplan-shop.md',NULL,'resume','/srv/shop',NULL,'{}');
INSERT INTO "events" VALUES(14,'2026-11-17T13:27:30.718Z','.tugtool/tugplan-shop.md',NULL,'worktree_create','/srv/shop/.tugtree/tugplan__shop-20261117',NULL,'{"branch": "tugplan/shop-20261117", "base": "main"}');
INSERT INTO "events" VALUES(15,'2026-11-17T13:27:32.757Z','.tugtool/tugplan-shop.md','step-3','reset','/srv/shop',2,'{"items": [], "parked": null}');
INSERT INTO "events" VALUES(16,'2026-11-17T13:27:33.171Z','.tugtool/tugplan-shop.md',NULL,'pause','/srv/shop',NULL,'{}');
CREATE TABLE intents (
  kind text not null check (kind in ('commit', 'create', 'dash', 'join', 'merge', 'remove', 'sync')),
  worktree text not null,
  plan_path text not null,
  step_anchor text,
  attempt integer,
  head text,
  detail text not null,
  created_at text not null check (created_at is null or (length(created_at) = 24 and created_at like '____-__-__T__:__:__.___Z')),
  primary key (kind, worktree)
) strict
;
CREATE TABLE machines (
  id text not null primary key,
  name text not null unique
) strict
;
CREATE TABLE plan_copies (
  file text not null primary key,
  signature text not null,
  plan_hash text not null
) strict
;
CREATE TABLE plan_counts (
  plan_path text not null primary key references plans (plan_path),
  steps_total integer not null,
  steps_done integer not null check (steps_done between 0 and steps_total),
  steps_ready integer not null check (steps_ready >= 0),
  changed_at text not null check (changed_at is null or (length(changed_at) = 24 and changed_at like '____-__-__T__:__:__.___Z'))
) strict
;
INSERT INTO "plan_counts" VALUES('.tugtool/tugplan-shop.md',4,1,1,'2026-11-17T13:27:32.757Z');
CREATE TABLE plan_revisions (
  plan_path text not null references plans (plan_path),
  plan_hash text not null,
  plan_text text not null,
  replaced_at text not null check (replaced_at is null or (length(replaced_at) = 24 and replaced_at like '____-__-__T__:__:__.___Z')),
  primary key (plan_path, replaced_at)
) strict
;
CREATE TABLE plans (
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
INSERT INTO "plans" VALUES('.tugtool/tugplan-shop.md','571d1059631bc8987f0e2a3c2ff121b04fd06b7c9d04eed657a55424862adb24','A shop','active','2026-11-17T13:27:26.190Z','2026-11-17T13:27:33.171Z','ab43a72a6fd4cdcd7998a05aa9fc0e55d8ff9c2e','2026-11-17T13:27:33.171Z',NULL,'# A shop

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
');
CREATE TABLE requests (
  who text not null,
  key text not null,
  command text not null,
  request_hash text not null,
  at text not null check (at is null or (length(at) = 24 and at like '____-__-__T__:__:__.___Z')),
  answer text not null,
  primary key (who, key)
) strict
;
CREATE TABLE step_artifacts (
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
INSERT INTO "step_artifacts" VALUES(1,'.tugtool/tugplan-shop.md','step-1','note','Oak, not pine',NULL,'2026-11-17T13:27:27.145Z');
CREATE TABLE step_deps (
  plan_path text not null,
  step_anchor text not null,
  depends_on text not null,
  primary key (plan_path, step_anchor, depends_on),
  foreign key (plan_path, step_anchor) references steps (plan_path, anchor),
  foreign key (plan_path, depends_on) references steps (plan_path, anchor)
) strict
;
INSERT INTO "step_deps" VALUES('.tugtool/tugplan-shop.md','step-2','step-1');
CREATE TABLE steps (
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
INSERT INTO "steps" VALUES('.tugtool/tugplan-shop.md','step-1',NULL,0,'Shelves','completed',NULL,NULL,NULL,NULL,'2026-11-17T13:27:26.659Z','2026-11-17T13:27:27.411Z',NULL,NULL,'/srv/shop-1',1,0,NULL,NULL,0);
INSERT INTO "steps" VALUES('.tugtool/tugplan-shop.md','step-2',NULL,1,'Till','claimed','/srv/shop-1','2026-11-17T13:27:27.749Z','2026-11-17T15:27:27.749Z','2026-11-17T13:27:27.749Z',NULL,NULL,NULL,NULL,NULL,1,1,NULL,NULL,0);
INSERT INTO "steps" VALUES('.tugtool/tugplan-shop.md','step-3',NULL,3,'Door','pending',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,2,0,NULL,NULL,0);
INSERT INTO "steps" VALUES('.tugtool/tugplan-shop.md','step-4',NULL,4,'Sign','claimed','/srv/shop-3','2026-11-17T13:27:28.921Z','2026-11-17T15:27:28.921Z','2026-11-17T13:27:28.921Z',NULL,NULL,NULL,NULL,NULL,1,1,NULL,NULL,0);
INSERT INTO "steps" VALUES('.tugtool/tugplan-shop.md','step-2-1','step-2',2,'Drawer','claimed','/srv/shop-1','2026-11-17T13:27:27.749Z','2026-11-17T15:27:27.749Z','2026-11-17T13:27:27.749Z',NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,0);
CREATE TABLE unpublished (
  plan_path text not null,
  step_anchor text not null,
  commit_hash text not null,
  worktree text not null,
  problem text,
  completed_at text not null check (completed_at is null or (length(completed_at) = 24 and completed_at like '____-__-__T__:__:__.___Z')),
  primary key (plan_path, step_anchor),
  foreign key (plan_path, step_anchor) references steps (plan_path, anchor)
) strict
;
INSERT INTO "unpublished" VALUES('.tugtool/tugplan-shop.md','step-1','87fdefb806bc767d58f406ce4b9457d58676e1db','/srv/shop-1',NULL,'2026-11-17T13:27:27.411Z');
CREATE TABLE unsaved (
  plan_path text not null,
  step_anchor text not null,
  number integer not null,
  worktree text not null,
  taken_at text not null check (taken_at is null or (length(taken_at) = 24 and taken_at like '____-__-__T__:__:__.___Z')),
  primary key (plan_path, step_anchor, number),
  foreign key (plan_path, step_anchor, number)
    references attempts (plan_path, step_anchor, number)
) strict
;
CREATE TABLE worktrees (
  path text not null primary key,
  branch text not null,
  base_branch text not null,
  base_commit text not null,
  plan_path text not null,
  created_at text not null check (created_at is null or (length(created_at) = 24 and created_at like '____-__-__T__:__:__.___Z')),
  reserved_until text check (reserved_until is null or (length(reserved_until) = 24 and reserved_until like '____-__-__T__:__:__.___Z')),
  reserved_for text
) strict
;
INSERT INTO "worktrees" VALUES('/srv/shop/.tugtree/tugplan__shop-20261117','tugplan/shop-20261117','main','ab43a72a6fd4cdcd7998a05aa9fc0e55d8ff9c2e','.tugtool/tugplan-shop.md','2026-11-17T13:27:30.718Z','2026-11-17T13:37:30.718Z',NULL);
CREATE INDEX steps_ready on steps (plan_path, step_index)
 where parent_anchor is null and status = 'pending' and open_deps = 0 and parked_at is null
;
CREATE INDEX steps_blocked on steps (plan_path, step_index)
 where parent_anchor is null and status = 'pending' and open_deps > 0 and parked_at is null
;
CREATE INDEX steps_parked on steps (plan_path, step_index)
 where parent_anchor is null and parked_at is not null
;
CREATE INDEX steps_held on steps (plan_path, claimed_by, step_index)
 where parent_anchor is null and claimed_by is not null
;
CREATE INDEX steps_leased on steps (plan_path, lease_expires_at)
 where parent_anchor is null and claimed_by is not null
;
CREATE INDEX steps_family on steps (plan_path, parent_anchor, step_index)
 where parent_anchor is not null
;
CREATE INDEX step_deps_back on step_deps (plan_path, depends_on, step_anchor);
CREATE INDEX step_artifacts_step on step_artifacts (plan_path, step_anchor, id);
CREATE INDEX plan_events on events (plan_path, seq);
CREATE INDEX attempts_held on attempts (plan_path, step_anchor)
 where holder_pid is not null and ended_at is null
;
CREATE UNIQUE INDEX attempt_requests on attempts (plan_path, worktree, request_id)
 where request_id is not null
;
CREATE INDEX items_deferred on checklist_items (plan_path, step_anchor)
 where status = 'deferred'
;
CREATE INDEX worktrees_of on worktrees (plan_path, path);
CREATE UNIQUE INDEX dashes_active on dashes (name) where status = 'active';
CREATE INDEX requests_by_time on requests (at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('checklist_items',7);
INSERT INTO "sqlite_sequence" VALUES('events',16);
INSERT INTO "sqlite_sequence" VALUES('step_artifacts',1);
INSERT INTO "sqlite_sequence" VALUES('dashes',1);
INSERT INTO "sqlite_sequence" VALUES('dash_rounds',1);
COMMIT;
pragma application_id = 1416980273;
pragma user_version = 15;
