"""Statements for what waits for a person, and for keeping, moving and dropping whole records.

As in `sql.py`: each has a name, and only what SQLite and PostgreSQL read alike.
"""

from __future__ import annotations

# -- what waits for a person -----------------------------------------------------------

DEFERRED_ITEMS = """
select i.plan_path, i.step_anchor, i.kind, i.ordinal, i.text, i.reason, i.updated_at,
       s.title, s.status as step_status, s.step_index, coalesce(s.parent_anchor, s.anchor) as top
  from checklist_items i
  join steps s on s.plan_path = i.plan_path and s.anchor = i.step_anchor
 where i.plan_path = :plan and i.status = 'deferred'
 order by s.step_index, i.kind, i.ordinal
"""

STEPS_PARKED = """
select anchor, title, status, park_reason, parked_at, attempt, claimed_by, claims_without_progress
  from steps
 where plan_path = :plan and parent_anchor is null and parked_at is not null
 order by step_index
"""

# By its time: the attempt that was under way when something was written.
ATTEMPT_AT = """
select number, worktree
  from attempts
 where plan_path = :plan and step_anchor = :anchor and claimed_at <= :at
 order by number desc
 limit 1
"""

# -- archives --------------------------------------------------------------------------

LIVE_CLAIMS = """
select anchor, claimed_by, lease_expires_at
  from steps
 where plan_path = :plan and parent_anchor is null and claimed_by is not null
   and lease_expires_at >= :now
 order by lease_expires_at
"""

LAST_EVENT = """
select seq
  from events
 where plan_path = :plan
 order by seq desc
 limit 1
"""

# -- export, import, prune -------------------------------------------------------------

#: Every table of a record, parents first, with its columns: `?` may be null, `:int` and
#: `:real` are numbers. What is only a cache is not part of the record.
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
    " outcome? salvage_ref? tokens:int? cost_microdollars:int?",
    "events": "seq:int at plan_path step_anchor? kind actor? attempt:int? detail",
}

#: About no plan: only an export of everything has them.
_DASH_TABLES = {
    "dashes": "id:int name description? branch worktree base_branch base_commit status created_at"
    " updated_at ended_at? joined_commit? salvage_ref?",
    "dash_rounds": "id:int dash_id:int number:int instruction? summary? files commit_hash?"
    " recorded_at",
}

#: Tables whose rows are numbered, and the column that has the number.
NUMBERED = {
    "checklist_items": "id",
    "step_artifacts": "id",
    "events": "seq",
    **dict.fromkeys(_DASH_TABLES, "id"),
}

_ORDERS = {
    "plan_revisions": "replaced_at",
    # Steps before their substeps, which refer to them.
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


#: Table -> the statement that takes a row with its number; if that is taken, no row.
KEEP = {table: _insert(table, numbered=True) for table in (*COLUMNS, *DASH_COLUMNS)}
#: Table -> the statement that takes a row and numbers it anew.
RENUMBER = {table: _insert(table, numbered=False) for table in NUMBERED}

#: About this machine's directories, not about the plan: no export has them, a prune drops them.
LOCAL_TABLES = ("unsaved", "worktrees", "intents")

#: Children first. All of a plan's steps at once: they refer to each other.
DELETE = {
    table: f"delete from {table} where plan_path = :plan"
    for table in (*LOCAL_TABLES, *reversed(list(COLUMNS)))
}

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

SET_OPEN_DEPS = """
update steps
   set open_deps = :open_deps
 where plan_path = :plan and anchor = :anchor
"""

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

NESTED_TOO_DEEP = """
select s.anchor
  from steps s
  join steps p on p.plan_path = s.plan_path and p.anchor = s.parent_anchor
 where s.plan_path = :plan and p.parent_anchor is not null
 limit 1
"""

HELD_OTHERWISE = """
select s.anchor
  from steps s
  join steps p on p.plan_path = s.plan_path and p.anchor = s.parent_anchor
 where s.plan_path = :plan and s.status <> 'completed'
   and coalesce(s.claimed_by, '') <> coalesce(p.claimed_by, '')
 limit 1
"""

# No attempt of a step is above its own count (numbers may be missing: those that only git or a
# lost database knew), and only the last may run: by whoever holds the step, exactly while it
# is held.
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

# Parked because of attempts that came to nothing, or by whoever held it.
PARKED_UNTRIED = """
select anchor
  from steps
 where plan_path = :plan and parent_anchor is null and parked_at is not null
   and (attempt = 0 or park_reason is null)
 limit 1
"""

NO_COUNTS = """
select p.plan_path
  from plans p
  left join plan_counts c on c.plan_path = p.plan_path
 where p.plan_path = :plan and c.plan_path is null
"""
