"""Statements that move whole records: set-up, review, revision, upkeep."""

from __future__ import annotations

from tugtool.store.sql import of_step, this_step, tops, unheld, with_parents

# -- what waits for a person -----------------------------------------------------------

DEFERRED_ITEMS = """
select i.plan_path, i.step_anchor, i.kind, i.ordinal, i.text, i.reason, i.evidence,
       i.updated_at as deferred_at, s.title as step_title, s.status as step_status, s.step_index,
       s.parent_anchor, t.anchor as top, t.commit_hash as commit_hash
  from checklist_items i
  join steps s on s.plan_path = i.plan_path and s.anchor = i.step_anchor
  join steps t on t.plan_path = i.plan_path and t.anchor = coalesce(s.parent_anchor, s.anchor)
 where i.plan_path = :plan and i.status = 'deferred'
 order by s.step_index, i.kind, i.ordinal
"""

DONE_CHECKPOINTS = """
select i.plan_path, i.step_anchor, i.kind, i.ordinal, i.text, i.status, i.reason, i.evidence,
       s.title as step_title, s.status as step_status, s.parent_anchor,
       t.commit_hash as commit_hash
  from checklist_items i
  join steps s on s.plan_path = i.plan_path and s.anchor = i.step_anchor
  join steps t on t.plan_path = i.plan_path and t.anchor = coalesce(s.parent_anchor, s.anchor)
 where i.plan_path = :plan and i.status = 'completed' and i.kind = 'checkpoint'
   and s.status = 'completed'
 order by s.step_index, i.ordinal
"""

# The attempt that was under way at that time.
ATTEMPT_AT = f"""
select number, worktree from attempts {of_step} and claimed_at <= :at order by number desc limit 1
"""

# -- archives --------------------------------------------------------------------------

LIVE_CLAIMS = f"""
select anchor, claimed_by, lease_expires_at
  {tops} and claimed_by is not null and lease_expires_at >= :now
 order by lease_expires_at
"""

LAST_EVENT = "select seq from events where plan_path = :plan order by seq desc limit 1"

# -- export, import, prune -------------------------------------------------------------

#: Every table of a record, parents first, with its columns: `?` may be null, `:int` and
#: `:real` are numbers. Caches are not part of the record.
_TABLES = {
    "plans": "plan_path plan_hash phase_title? status created_at updated_at base_commit?"
    " paused_at? merged_commit? plan_text",
    "plan_counts": "plan_path steps_total:int steps_done:int steps_ready:int changed_at",
    "plan_revisions": "plan_path plan_hash plan_text replaced_at",
    "steps": "plan_path anchor parent_anchor? step_index:int title status claimed_by? claimed_at?"
    " lease_expires_at? heartbeat_at? started_at? completed_at? commit_hash? complete_reason?"
    " completed_by? attempt:int claims_without_progress:int parked_at? park_reason? open_deps:int",
    "step_deps": "plan_path step_anchor depends_on",
    "checklist_items": "id:int plan_path step_anchor kind ordinal:int text status updated_at?"
    " reason? evidence?",
    "step_artifacts": "id:int plan_path step_anchor kind summary content? recorded_at",
    "attempts": "plan_path step_anchor number:int worktree host? boot? pid_namespace?"
    " holder_pid:int? holder_start? lease_seconds:real request_id? claimed_at seen_at ended_at?"
    " outcome? salvage_ref? tokens:int? cost_microdollars:int? role? role_since?",
    "events": "seq:int at plan_path step_anchor? kind actor? attempt:int? detail",
}

#: Tables without a plan: only a full export has them.
_DASH_TABLES = {
    "dashes": "id:int name description? branch worktree base_branch base_commit status created_at"
    " updated_at ended_at? joined_commit? salvage_ref?",
    "dash_rounds": "id:int dash_id:int number:int instruction? summary? files commit_hash?"
    " recorded_at",
}

#: Tables with numbered rows, and the column of the number.
NUMBERED = {
    "checklist_items": "id",
    "step_artifacts": "id",
    "events": "seq",
    **dict.fromkeys(_DASH_TABLES, "id"),
}

_ORDERS = {
    "plan_revisions": "replaced_at",
    # Steps before the substeps that refer to them.
    "steps": "case when parent_anchor is null then 0 else 1 end, step_index, anchor",
    "step_deps": "step_anchor, depends_on",
    "attempts": "step_anchor, number",
    **NUMBERED,
}


def _columns(text: str) -> dict[str, tuple[str, bool]]:
    found = {}
    for word in text.split():
        name, _, kind = word.removesuffix("?").partition(":")
        found[name] = (kind or "text", word.endswith("?"))
    return found


#: Table -> column -> its type (text, int, real), and whether it may be null.
COLUMNS = {table: _columns(text) for table, text in _TABLES.items()}
DASH_COLUMNS = {table: _columns(text) for table, text in _DASH_TABLES.items()}

#: Table -> the statement that reads one plan's rows, or all dashes', in the order of an export.
READ = {
    **{
        table: f"select {', '.join(columns)} from {table} where plan_path = :plan"
        f" order by {_ORDERS.get(table, 'plan_path')}"
        for table, columns in COLUMNS.items()
    },
    **{
        table: f"select {', '.join(columns)} from {table} order by id"
        for table, columns in DASH_COLUMNS.items()
    },
}


def _insert(table: str, *, numbered: bool) -> str:
    number = NUMBERED.get(table)
    names = [name for name in (COLUMNS | DASH_COLUMNS)[table] if numbered or name != number]
    text = f"insert into {table} ({', '.join(names)}) values (:{', :'.join(names)})"
    if number is None:
        return text
    return f"{text} on conflict ({number}) do nothing" if numbered else f"{text} returning {number}"


#: Table -> the statement that inserts a row with its number, unless that is taken.
KEEP = {table: _insert(table, numbered=True) for table in (*COLUMNS, *DASH_COLUMNS)}
#: Table -> the statement that inserts a row with a new number.
RENUMBER = {table: _insert(table, numbered=False) for table in NUMBERED}

#: Facts about this machine's directories: an export leaves them out, a prune deletes them.
LOCAL_TABLES = ("unsaved", "unpublished", "worktrees", "intents")

#: Children first. All of a plan's steps at once: they refer to each other.
DELETE = {
    table: f"delete from {table} where plan_path = :plan"
    for table in (*LOCAL_TABLES, *reversed(list(COLUMNS)))
}

#: Tables with children: their rows have both names until the children have moved.
_REFERRED_TO = ("plans", "plan_counts", "steps", "attempts")


def _copied(table: str) -> str:
    names = ", ".join(name for name in COLUMNS[table] if name != "plan_path")
    return (
        f"insert into {table} (plan_path, {names})"
        f" select cast(:to as text), {names} from {table} where plan_path = :plan"
    )


#: The statements that rename a plan, in order.
MOVE = (
    *(_copied(table) for table in _REFERRED_TO),
    *(
        f"update {table} set plan_path = :to where plan_path = :plan"
        for table in (*LOCAL_TABLES, *COLUMNS)
        if table not in _REFERRED_TO
    ),
    *(DELETE[table] for table in reversed(_REFERRED_TO)),
)

MOVES = "select plan_path, detail from events where kind = 'move' order by seq"

SAME_TEXT = "select plan_path from plans where plan_hash = :hash order by plan_path"

# A step waits for what it and its substeps need outside of it; a substep has no count.
WAITING = """
select coalesce(s.parent_anchor, s.anchor) as anchor, count(*) as open_deps
  from step_deps d
  join steps s on s.plan_path = d.plan_path and s.anchor = d.step_anchor
  join steps t on t.plan_path = d.plan_path and t.anchor = d.depends_on
 where d.plan_path = :plan and t.status <> 'completed'
   and coalesce(s.parent_anchor, s.anchor) <> coalesce(t.parent_anchor, t.anchor)
 group by coalesce(s.parent_anchor, s.anchor)
"""

COUNTED = "select anchor, open_deps from steps where plan_path = :plan"

SET_OPEN_DEPS = f"update steps set open_deps = :open_deps {this_step}"

COUNT_STEPS = """
select count(*) as steps_total,
       count(*) filter (where status = 'completed') as steps_done,
       count(*) filter (where status = 'pending' and open_deps = 0 and parked_at is null)
         as steps_ready
  from steps
 where plan_path = :plan and parent_anchor is null
"""

SET_COUNTS = """
update plan_counts
   set steps_total = :steps_total, steps_done = :steps_done, steps_ready = :steps_ready
 where plan_path = :plan
"""

# -- what cannot be, although each row for itself could --------------------------------

NESTED_TOO_DEEP = f"select s.anchor {with_parents} and p.parent_anchor is not null limit 1"

HELD_OTHERWISE = f"""
select s.anchor {with_parents} and s.status <> 'completed'
   and coalesce(s.claimed_by, '') <> coalesce(p.claimed_by, '')
 limit 1
"""

# No attempt is above its step's count (numbers that only git or a lost database had may be
# missing). Only the last one may run: by the step's holder, and exactly while the step is
# held.
ATTEMPTS_ASTRAY = """
select s.anchor
  from steps s
  left join attempts a on a.plan_path = s.plan_path and a.step_anchor = s.anchor
 where s.plan_path = :plan
 group by s.anchor, s.attempt, s.claimed_by, s.parent_anchor
having coalesce(max(a.number), 0) > s.attempt
    or count(*) filter (where a.number is not null and a.ended_at is null)
       <> case when s.claimed_by is not null and s.parent_anchor is null then 1 else 0 end
    or count(*) filter (where a.ended_at is null
                          and (a.number <> s.attempt or a.worktree <> s.claimed_by)) > 0
 limit 1
"""

# Parked after failed attempts, or by its holder.
PARKED_UNTRIED = f"""
select anchor {tops} and parked_at is not null and (attempt = 0 or park_reason is null) limit 1
"""

NO_COUNTS = """
select p.plan_path
  from plans p
  left join plan_counts c on c.plan_path = p.plan_path
 where p.plan_path = :plan and c.plan_path is null
"""


# Watchers compare it: another epoch says that event numbers do not go on where they stopped.
NEW_EPOCH = "update epoch set epoch = :epoch where only_row = 1"


# -- plans -----------------------------------------------------------------------------

AGREED_TEXT = "select plan_text from plans where plan_path = :plan"

REVISION = "select plan_hash from plan_revisions where plan_path = :plan and replaced_at = :at"

REVISIONS = """
select plan_hash, replaced_at from plan_revisions where plan_path = :plan order by replaced_at
"""

REVISION_TEXT = "select plan_text from plan_revisions where plan_path = :plan and replaced_at = :at"

# Also used before a refusal, for one hash.
EARLIER_TEXT = """
select replaced_at from plan_revisions where plan_path = :plan and plan_hash = :hash
"""

KEEP_REVISION = """
insert into plan_revisions (plan_path, plan_hash, plan_text, replaced_at)
select plan_path, plan_hash, plan_text, :at
  from plans
 where plan_path = :plan
"""

# The base commit is the one that added the new text; if that is unknown, it stays.
REVISE_PLAN = """
update plans
   set plan_hash = :hash, plan_text = :text, phase_title = :title, updated_at = :now,
       base_commit = coalesce(cast(:base_commit as text), base_commit)
 where plan_path = :plan
"""

# Store the plan's counts.
RECOUNT_PLAN = """
update plan_counts
   set steps_total = :total, steps_done = :done, steps_ready = :ready, changed_at = :now
 where plan_path = :plan
"""

# -- steps and dependencies ------------------------------------------------------------

# Move a step in the plan; its state stays.
PLACE_STEP = f"""
update steps
   set parent_anchor = :parent, step_index = :step_index, title = :title, open_deps = :open_deps
 {this_step}
"""

START_STEP_OVER = f"""
update steps
   set status = 'pending', {unheld},
       started_at = null, completed_at = null, completed_by = null, commit_hash = null,
       complete_reason = null, claims_without_progress = 0, parked_at = null, park_reason = null,
       attempt = :attempt
 {this_step}
"""

DROP_STEP = f"delete from steps {this_step}"

DROP_DEP = f"delete from step_deps {of_step} and depends_on = :depends_on"

# -- checklists ------------------------------------------------------------------------

# Move items far away, so that their new places are free.
MOVE_ITEMS_AWAY = f"update checklist_items set ordinal = ordinal + :by {of_step}"

PLACE_ITEM = "update checklist_items set ordinal = :ordinal where id = :id"

DROP_ITEM = "delete from checklist_items where id = :id"

# -- attempts, artifacts, events -------------------------------------------------------

STEP_ATTEMPTS = f"select * from attempts {of_step} order by number"

#: Everything that refers to a step, children first.
DROP_OF_STEP = {
    table: f"delete from {table} {of_step}"
    for table in ("checklist_items", "unsaved", "unpublished", "attempts", "step_artifacts")
}

FENCING_EVENTS = """
select kind, detail
  from events
 where plan_path = :plan and kind in ('revise', 'restore')
 order by seq
"""


ADD_PLAN = """
insert into plans (plan_path, plan_hash, phase_title, status, created_at, updated_at,
                   base_commit, plan_text)
values (:plan, :hash, :title, 'active', :now, :now, :base_commit, :text)
"""

ADD_COUNTS = """
insert into plan_counts (plan_path, steps_total, steps_done, steps_ready, changed_at)
values (:plan, :total, 0, :ready, :now)
"""

ADD_STEP = """
insert into steps (plan_path, anchor, parent_anchor, step_index, title, status, attempt,
                   claims_without_progress, open_deps)
values (:plan, :anchor, :parent, :step_index, :title, 'pending', 0, 0, :open_deps)
"""

ADD_DEP = """
insert into step_deps (plan_path, step_anchor, depends_on)
values (:plan, :anchor, :depends_on)
"""

ADD_ITEM = """
insert into checklist_items (plan_path, step_anchor, kind, ordinal, text, status)
values (:plan, :anchor, :kind, :ordinal, :text, 'open')
"""

# Newest first: keep the first of each attempt.
OLD_HEARTBEATS = """
select seq, plan_path, step_anchor, attempt, detail
  from events where kind = 'heartbeat' and at < :until
 order by seq desc
"""

LAST_HEARTBEATS = """
select plan_path, step_anchor, attempt, max(seq) as seq
  from events where kind = 'heartbeat'
 group by plan_path, step_anchor, attempt
"""

DROP_EVENT = "delete from events where plan_path = :plan and seq = :seq"

# -- answers by idempotency key --------------------------------------------------------

REQUEST = "select * from requests where who = :who and key = :key and at >= :since"

ADD_REQUEST = """
insert into requests (who, key, command, request_hash, at, answer)
values (:who, :key, :command, :request_hash, :now, :answer)
"""

DROP_OLD_REQUESTS = "delete from requests where at < :until"
