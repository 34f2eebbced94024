"""The tables for every engine, and the migrations of older databases.

`{int64}`, `{real}`, `{serial}`, `{strict}` and `{random}` are the only words that differ between
engines. To change the schema: edit TABLES, raise VERSION (FIRST_VERSION stays) here and where
an engine repeats it, append to MIGRATIONS; a test compares fresh with migrated.
"""

from __future__ import annotations

#: "Tug1": the mark of our databases.
APPLICATION_ID = 0x54756731
FIRST_VERSION = 10
VERSION = 16

_TIME = "length({0}) = 24 and {0} like '____-__-__T__:__:__.___Z'"


def _time(column: str, rule: str = "") -> str:
    # Times have a fixed width, so that they can be compared as text.
    check = _TIME.format(column)
    return f"{column} text {rule} check ({column} is null or ({check}))".replace("  ", " ")


# Few items are deferred, and people ask for those of every plan at once.
_ITEMS_DEFERRED = """
create index items_deferred on checklist_items (plan_path, step_anchor)
 where status = 'deferred'
"""
_WORKTREES = f"""
create table worktrees (
  path text not null primary key,
  branch text not null,
  base_branch text not null,
  base_commit text not null,
  plan_path text not null,
  {_time("created_at", "not null")},
  {_time("reserved_until")},
  reserved_for text
){{strict}}
"""


# Intents of commands: written before they act, removed after. At most one of a kind per
# worktree, so the next command there finds it.
def _intents(kinds: str) -> str:
    return f"""
create table intents (
  kind text not null check (kind in ({kinds})),
  worktree text not null,
  plan_path text not null,
  step_anchor text,
  attempt {{int64}},
  head text,
  detail text not null,
  {_time("created_at", "not null")},
  primary key (kind, worktree)
){{strict}}
"""


_INTENTS = _intents("'commit', 'create', 'dash', 'join', 'merge', 'remove', 'sync'")
_GIT_TABLES = (
    _WORKTREES,
    "create index worktrees_of on worktrees (plan_path, path)",
)
# Attempts that lost their step, until the work in their worktree is saved.
_UNSAVED = f"""
create table unsaved (
  plan_path text not null,
  step_anchor text not null,
  number {{int64}} not null,
  worktree text not null,
  {_time("taken_at", "not null")},
  primary key (plan_path, step_anchor, number),
  foreign key (plan_path, step_anchor, number)
    references attempts (plan_path, step_anchor, number)
){{strict}}
"""
_DASHES = f"""
create table dashes (
  id {{serial}},
  name text not null,
  description text,
  branch text not null,
  worktree text not null,
  base_branch text not null,
  base_commit text not null,
  status text not null check (status in ('active', 'joined', 'released')),
  {_time("created_at", "not null")},
  {_time("updated_at", "not null")},
  {_time("ended_at")},
  joined_commit text,
  salvage_ref text,
  check ((status = 'active') = (ended_at is null))
){{strict}}
"""
_DASH_ROUNDS = f"""
create table dash_rounds (
  id {{serial}},
  dash_id {{int64}} not null references dashes (id),
  number {{int64}} not null check (number > 0),
  instruction text,
  summary text,
  files text not null,
  commit_hash text,
  {_time("recorded_at", "not null")},
  unique (dash_id, number)
){{strict}}
"""
_DASH_TABLES = (
    _UNSAVED,
    _DASHES,
    "create unique index dashes_active on dashes (name) where status = 'active'",
    _DASH_ROUNDS,
)
# The machines whose worktrees are in the record as `id:path`; names are for people.
_MACHINES = """
create table machines (
  id text not null primary key,
  name text not null unique
){strict}
"""
# One row. Another text says that the database was replaced: event numbers mean nothing any more.
_EPOCH = (
    """
create table epoch (
  only_row {int64} primary key check (only_row = 1),
  epoch text not null
){strict}
""",
    "insert into epoch (only_row, epoch) values (1, {random})",
)
# Answers by idempotency key: the same request again gets the same answer.
_REQUESTS = (
    f"""
create table requests (
  who text not null,
  key text not null,
  command text not null,
  request_hash text not null,
  {_time("at", "not null")},
  answer text not null,
  primary key (who, key)
){{strict}}
""",
    "create index requests_by_time on requests (at)",
)
_ROLE = ("role text", _time("role_since"))
# Completed steps whose commits the remote does not have yet. A row counts while the step has
# this commit; `problem` is the answer to the last push.
_UNPUBLISHED = f"""
create table unpublished (
  plan_path text not null,
  step_anchor text not null,
  commit_hash text not null,
  worktree text not null,
  problem text,
  {_time("completed_at", "not null")},
  primary key (plan_path, step_anchor),
  foreign key (plan_path, step_anchor) references steps (plan_path, anchor)
){{strict}}
"""

TABLES = (
    f"""
create table plans (
  plan_path text not null primary key,
  plan_hash text not null,
  phase_title text,
  status text not null check (status in ('active', 'done', 'archived')),
  {_time("created_at", "not null")},
  {_time("updated_at", "not null")},
  base_commit text,
  {_time("paused_at")},
  merged_commit text,
  plan_text text not null
){{strict}}
""",
    # Apart from the plan, and its text last: changing a row rewrites it, and a text of
    # megabytes would be read for every claim.
    f"""
create table plan_counts (
  plan_path text not null primary key references plans (plan_path),
  steps_total {{int64}} not null,
  steps_done {{int64}} not null check (steps_done between 0 and steps_total),
  steps_ready {{int64}} not null check (steps_ready >= 0),
  {_time("changed_at", "not null")}
){{strict}}
""",
    f"""
create table plan_revisions (
  plan_path text not null references plans (plan_path),
  plan_hash text not null,
  plan_text text not null,
  {_time("replaced_at", "not null")},
  primary key (plan_path, replaced_at)
){{strict}}
""",
    # A step is held exactly while it is claimed or in progress; a completed one has no lease.
    f"""
create table steps (
  plan_path text not null references plans (plan_path),
  anchor text not null,
  parent_anchor text,
  step_index {{int64}} not null,
  title text not null,
  status text not null check (status in ('pending', 'claimed', 'in_progress', 'completed')),
  claimed_by text,
  {_time("claimed_at")},
  {_time("lease_expires_at")},
  {_time("heartbeat_at")},
  {_time("started_at")},
  {_time("completed_at")},
  commit_hash text,
  complete_reason text,
  completed_by text,
  attempt {{int64}} not null,
  claims_without_progress {{int64}} not null,
  {_time("parked_at")},
  park_reason text,
  open_deps {{int64}} not null check (open_deps >= 0),
  primary key (plan_path, anchor),
  foreign key (plan_path, parent_anchor) references steps (plan_path, anchor),
  check ((status in ('claimed', 'in_progress')) = (claimed_by is not null)),
  check ((claimed_by is null) = (claimed_at is null)),
  check ((claimed_by is null) = (lease_expires_at is null)),
  check ((claimed_by is null) = (heartbeat_at is null)),
  check ((status = 'completed') = (completed_at is not null))
){{strict}}
""",
    # A file's hash at this size and these times: a plan of ten thousand steps need not be read
    # again for every claim.
    """
create table plan_copies (
  file text not null primary key,
  signature text not null,
  plan_hash text not null
){strict}
""",
    """
create table step_deps (
  plan_path text not null,
  step_anchor text not null,
  depends_on text not null,
  primary key (plan_path, step_anchor, depends_on),
  foreign key (plan_path, step_anchor) references steps (plan_path, anchor),
  foreign key (plan_path, depends_on) references steps (plan_path, anchor)
){strict}
""",
    f"""
create table checklist_items (
  id {{serial}},
  plan_path text not null,
  step_anchor text not null,
  kind text not null check (kind in ('task', 'test', 'checkpoint')),
  ordinal {{int64}} not null check (ordinal >= 0),
  text text not null,
  status text not null check (status in ('open', 'in_progress', 'completed', 'deferred')),
  {_time("updated_at")},
  reason text,
  evidence text,
  unique (plan_path, step_anchor, kind, ordinal),
  foreign key (plan_path, step_anchor) references steps (plan_path, anchor)
){{strict}}
""",
    f"""
create table step_artifacts (
  id {{serial}},
  plan_path text not null,
  step_anchor text not null,
  kind text not null check (kind in ('architect_strategy', 'reviewer_verdict', 'auditor_summary',
    'verification', 'recovery', 'escalation', 'note')),
  summary text not null,
  content text,
  {_time("recorded_at", "not null")},
  foreign key (plan_path, step_anchor) references steps (plan_path, anchor)
){{strict}}
""",
    # The last columns are on one line, as SQLite writes a column that is added.
    f"""
create table attempts (
  plan_path text not null,
  step_anchor text not null,
  number {{int64}} not null check (number > 0),
  worktree text not null,
  host text,
  boot text,
  pid_namespace text,
  holder_pid {{int64}},
  holder_start text,
  lease_seconds {{real}} not null check (lease_seconds > 0),
  request_id text,
  {_time("claimed_at", "not null")},
  {_time("seen_at", "not null")},
  {_time("ended_at")},
  outcome text check (outcome in ('completed', 'released', 'reset', 'expired', 'superseded',
    'dead', 'failed')),
  salvage_ref text,
  tokens {{int64}},
  cost_microdollars {{int64}}, {", ".join(_ROLE)},
  primary key (plan_path, step_anchor, number),
  foreign key (plan_path, step_anchor) references steps (plan_path, anchor),
  check ((ended_at is null) = (outcome is null))
){{strict}}
""",
    f"""
create table events (
  seq {{serial}},
  {_time("at", "not null")},
  plan_path text not null references plans (plan_path),
  step_anchor text,
  kind text not null,
  actor text,
  attempt {{int64}},
  detail text not null
){{strict}}
""",
    # Claims cost the same in every plan: these indexes hold only rows that matter now.
    """
create index steps_ready on steps (plan_path, step_index)
 where parent_anchor is null and status = 'pending' and open_deps = 0 and parked_at is null
""",
    """
create index steps_blocked on steps (plan_path, step_index)
 where parent_anchor is null and status = 'pending' and open_deps > 0 and parked_at is null
""",
    """
create index steps_parked on steps (plan_path, step_index)
 where parent_anchor is null and parked_at is not null
""",
    """
create index steps_held on steps (plan_path, claimed_by, step_index)
 where parent_anchor is null and claimed_by is not null
""",
    # Partial, or SQLite takes it for every query of top-level steps, and reads them all.
    """
create index steps_family on steps (plan_path, parent_anchor, step_index)
 where parent_anchor is not null
""",
    # Covering, or SQLite prefers the primary key's index and reads every edge of the plan.
    "create index step_deps_back on step_deps (plan_path, depends_on, step_anchor)",
    "create index step_artifacts_step on step_artifacts (plan_path, step_anchor, id)",
    "create index plan_events on events (plan_path, seq)",
    """
create index attempts_held on attempts (plan_path, step_anchor)
 where holder_pid is not null and ended_at is null
""",
    """
create unique index attempt_requests on attempts (plan_path, worktree, request_id)
 where request_id is not null
""",
    _ITEMS_DEFERRED,
    *_GIT_TABLES,
    _INTENTS,
    *_DASH_TABLES,
    _MACHINES,
    *_EPOCH,
    *_REQUESTS,
    _UNPUBLISHED,
)

#: (version it leads to, statements), oldest first. A table is changed by making a new one or by
#: adding a column, so that a fresh database and a migrated one are the same.
MIGRATIONS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (11, (_ITEMS_DEFERRED,)),
    (12, (*_GIT_TABLES, _intents("'commit', 'create', 'merge', 'remove', 'sync'"))),
    (
        13,
        (
            "alter table intents rename to older_intents",
            _INTENTS,
            "insert into intents select * from older_intents",
            "drop table older_intents",
            *_DASH_TABLES,
        ),
    ),
    (
        14,
        (
            # Few steps are held: to sort them costs less than to keep them sorted at every claim.
            "drop index steps_live",
            *(f"alter table attempts add column {column}\n" for column in _ROLE),
            _MACHINES,
            *_EPOCH,
            *_REQUESTS,
        ),
    ),
    (15, (_UNPUBLISHED,)),
    # Few steps are held: to read them all costs less than an index that every claim, heartbeat and
    # completion writes.
    (16, ("drop index steps_leased",)),
)
