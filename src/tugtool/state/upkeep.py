"""archive, export, prune, restore."""

from __future__ import annotations

from tugtool import __version__
from tugtool.errors import Unwritable
from tugtool.errors.state import OnlyForFiles, WrongStatus
from tugtool.state import record, releases
from tugtool.store import NO_PLAN, file_store, schema, sql
from tugtool.store.owners import on_other_machine
from tugtool.store.sql import git as sql_git
from tugtool.store.sql import records as sql_records
from tugtool.system import files, os, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from tugtool.schemas import StateArchive, StatePrune, StatePruneKeptItem, StateRestore
    from tugtool.state.record import Changes
    from tugtool.store import Rescue, Row, Store, Transaction

    #: A plan, and whether it is removed.
    Verdict = tuple[StatePruneKeptItem, bool]

    Where = Callable[[Iterable[str]], Mapping[str, str]]


#: The name of the export's format and its version, in the first line.
FORMAT = "tugtool-state"
FORMAT_VERSION = 1


def archive(
    store: Store, plan: str, *, undo: bool = False, actor: str | None = None
) -> StateArchive:
    """Archive a plan, or bring it back; refuse a plan with a live claim. For people."""
    with store.write(plan) as tx:
        row = record.plan_row(tx)
        status, archived = row["status"], row["status"] == "archived"
        if undo == archived:
            if not undo:
                _refuse_live(tx)
            done = row["steps_done"] == row["steps_total"]
            status = "archived" if not undo else "done" if done else "active"
            tx.run(sql.SET_STATUS, status=status)
            kind = "unarchive" if undo else "archive"
            record.note(tx, kind, actor=actor, was=row["status"])
    return {
        "plan_path": plan,
        "archived": not undo,
        "changed": undo == archived,
        "plan_status": status,
        "total_steps": row["steps_total"],
        "completed_steps": row["steps_done"],
    }


def _refuse_live(tx: Transaction) -> None:
    claim = live_claim(tx, tx.plan)
    if claim is not None:
        status = f"held by {claim['claimed_by']} until {claim['lease_expires_at']}"
        needed = "a plan is archived when no worker holds a step"
        raise WrongStatus(tx.plan, claim["anchor"], status=status, needed=needed)


def live_claim(tx: Transaction, plan: str) -> Row | None:
    """Return a live claim: its lease runs, and its holder is not known to be dead."""
    return next(iter(_live_claims(tx, plan)), None)


def _live_claims(tx: Transaction, plan: str) -> list[Row]:
    gone = record.gone(tx, plan)
    claims = tx.all(sql_records.LIVE_CLAIMS, plan=plan)
    return [row for row in claims if row["anchor"] not in gone]


def live_claims(store: Store, plans: Sequence[str] | None = None) -> Iterator[tuple[str, Row]]:
    """Yield the live claims of these plans, or of all, each with its plan."""
    with store.read() as tx:
        every = [row["plan_path"] for row in tx.all(sql.PLANS)] if plans is None else plans
        for plan in every:
            yield from ((plan, row) for row in _live_claims(tx, plan))


def export(store: Store, plan: str | None = None) -> Iterator[str]:
    """Yield the state of one plan, or of all plans and dashes, as JSON lines."""
    with store.read(plan) as tx:
        if plan is not None:
            record.plan_row(tx)
        plans = [row["plan_path"] for row in tx.all(sql.PLANS)] if plan is None else [plan]
        yield from export_lines(tx, plans, dashes=plan is None)


def export_lines(tx: Transaction, plans: Sequence[str], *, dashes: bool = False) -> Iterator[str]:
    """Yield a header, one line per row, and a count that reveals a truncated file."""
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "schema_version": schema.VERSION,
        "tugtool_version": __version__,
        "exported_at": tx.now,
    }
    yield text.encode(header) + "\n"
    count = 0
    for table in (*sql_records.COLUMNS, *(sql_records.DASH_COLUMNS if dashes else ())):
        for row in _rows(tx, table, plans):
            yield text.encode({"table": table, "row": dict(row)}) + "\n"
            count += 1
    yield text.encode({"end": True, "rows": count}) + "\n"


def _rows(tx: Transaction, table: str, plans: Sequence[str]) -> Iterable[Row]:
    """Return the plans' rows; numbered ones by number across plans."""
    if table in sql_records.DASH_COLUMNS:
        return tx.each(sql_records.READ[table])
    each = [tx.each(sql_records.READ[table], plan=plan) for plan in plans]
    number = sql_records.NUMBERED.get(table)
    if number is None:
        return (row for rows in each for row in rows)
    from heapq import merge

    return merge(*each, key=lambda row: int(row[number]))


#: How often to start over after a concurrent change.
ROUNDS = 5


def prune(
    store: Store, *, where: Where, directory: str, done: bool = False, dry_run: bool = False
) -> StatePrune:
    """Remove plans without a file, and with `done` finished ones. For people.

    `where` returns, for keys of plans, the places of their files, without missing ones.
    Removed plans are first exported to a file in `directory`.
    """
    for _ in range(ROUNDS):
        with store.read() as tx:
            keys = [str(row["plan_path"]) for row in tx.all(sql.PLANS)]
        places = where(keys)
        with store.read() as tx:
            rows = [tx.first(sql.PLAN, plan=key) for key in keys]
            # Skip plans that were removed since the files were looked for.
            chosen = [_judged(tx, row, places, done=done) for row in rows if row is not None]
            pruned, seen = [plan["plan_path"] for plan, prune in chosen if prune], {}
            if pruned and not dry_run:
                seen = {plan: _last_event(tx, plan) for plan in pruned}
                path = _written(tx, pruned, directory)
        if not seen:
            return _answer(chosen, None, dry_run=dry_run)
        if drop(store, seen):
            return _answer(chosen, path, dry_run=False)
        os.unlink(path)
    needed = "nothing was pruned; try again when less is going on"
    raise WrongStatus(next(iter(seen)), None, status="being changed all the time", needed=needed)


def drop(store: Store, seen: Mapping[str, int | None]) -> bool:
    """Delete all rows of these plans, unless one has a newer event than the one seen."""
    with store.write(*seen) as tx:
        if any(_last_event(tx, plan) != last for plan, last in seen.items()):
            return False
        for plan in seen:
            for statement in sql_records.DELETE.values():
                tx.run(statement, plan=plan)
    return True


def _last_event(tx: Transaction, plan: str) -> int | None:
    # Every change records one: the same last event means the same record.
    found: int | None = tx.value(sql_records.LAST_EVENT, plan=plan)
    return found


def _judged(tx: Transaction, row: Row, places: Mapping[str, str], *, done: bool) -> Verdict:
    key, finished = row["plan_path"], row["steps_done"] == row["steps_total"]
    if key not in places:
        reason, prune = "its file is on no branch and in no worktree", True
    elif done and finished:
        reason, prune = "all its steps are completed", True
    else:
        reason, prune = places[key], False
    claim = live_claim(tx, key) if prune else None
    if claim is not None:
        reason, prune = f"{claim['anchor']} is held by {claim['claimed_by']}", False
    elsewhere = _elsewhere(tx, key) if prune else None
    if elsewhere is not None:
        machine, _, path = elsewhere.partition(":")
        reason, prune = f"{path} on {machine} may have work of it: clean up there first", False
    return {
        "plan_path": key,
        "status": row["status"],
        "total_steps": row["steps_total"],
        "completed_steps": row["steps_done"],
        "reason": reason,
    }, prune


def _elsewhere(tx: Transaction, plan: str) -> str | None:
    """Return a worktree of the plan on another machine; only that machine knows what is in it."""
    paths = [row["path"] for row in tx.all(sql_git.WORKTREES_OF, plan=plan)]
    paths += [row["worktree"] for row in tx.all(sql_git.UNSAVED, plan=plan)]
    return next((path for path in paths if on_other_machine(path)), None)


def _written(tx: Transaction, plans: list[str], directory: str) -> str:
    """Export the plans to a new file, synced before anything is deleted; return its path."""
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise Unwritable(directory, reason=files.reason(error)) from error
    stem = os.path.join(directory, f"pruned-{tx.now.replace(':', '')}")
    path, number = f"{stem}.jsonl", 1
    while not files.create(path, (line.encode() for line in export_lines(tx, plans))):
        number += 1
        path = f"{stem}-{number}.jsonl"
    files.sync_directory(directory)
    return path


def _answer(chosen: list[Verdict], path: str | None, *, dry_run: bool) -> StatePrune:
    return {
        "pruned": [plan for plan, prune in chosen if prune],
        "kept": [plan for plan, prune in chosen if not prune],
        "exported_to": path,
        "dry_run": dry_run,
    }


#: After a restore, attempts rise by a multiple of this number.
_APART = 100


def restore(
    store: Store, *, source: str | None = None, dry_run: bool = False, actor: str | None = None
) -> StateRestore:
    """Replace the database with the backup or another copy; the old file is kept."""
    files = file_store(store)
    if files is None:
        raise OnlyForFiles("state restore", instead="restore it from the server's own backups")
    with files.rescue(source) as rescue:
        return put_back(rescue, dry_run=dry_run, actor=actor)


def put_back(rescue: Rescue, *, dry_run: bool = False, actor: str | None = None) -> StateRestore:
    """End every claim in the copy, and install it. Return what it lacks."""
    copy, facts = rescue.copy, rescue.facts()
    # Each attempt is a claim, and each claim an event: this is the highest possible number.
    by = (rescue.most_changes // _APART + 1) * _APART
    with copy.read() as tx:
        keys = [str(row["plan_path"]) for row in tx.all(sql.PLANS)]
    with copy.write(NO_PLAN) as tx:
        new_epoch(tx)
    ended: list[Any] = []
    plans: list[Any] = []
    for key in keys:
        with copy.write(key) as tx:
            ended += _fence(tx, by=by, facts=facts, actor=actor)
            row = record.plan_row(tx)
            steps = {"completed_steps": row["steps_done"], "total_steps": row["steps_total"]}
            plans.append({"plan_path": key, "status": row["status"], **steps})
    return {
        "restored": not dry_run,
        "source": facts["source"],
        "made_at": facts["made_at"],
        "missing_since": facts["missing_since"],
        "lost_steps": facts["lost_steps"],
        "plans": plans,
        "steps_completed": sum(plan["completed_steps"] for plan in plans),
        "claims_ended": ended,
        "set_aside": None if dry_run else rescue.put_in_place(),
    }


def new_epoch(tx: Transaction) -> None:
    """Tell programs that follow the events that other rows have taken their place."""
    tx.run(sql_records.NEW_EPOCH, epoch=os.urandom(16).hex())


def _fence(tx: Transaction, *, by: int, facts: Mapping[str, Any], actor: str | None) -> list[Any]:
    """Release what is held, and raise every attempt: later holders are unknown."""
    row, lost = record.plan_row(tx), facts["lost_steps"]
    ended: list[Any] = []
    items: Changes = []
    for held in tx.all(sql.HELD_STEPS, most=row["steps_total"]):
        step = record.step_row(tx, held["anchor"])
        items += record.reopen_unfinished(tx, step, "in_progress")
        parked, claims = (step["parked_at"], step["park_reason"]), step["claims_without_progress"]
        releases.end_claim(tx, step, outcome="reset", claims=claims, parked=parked)
        record.displaced(tx, step)
        what = {"plan_path": tx.plan, "step_anchor": step["anchor"], "attempt": step["attempt"]}
        ended.append({**what, "worktree": step["claimed_by"]})
    tx.run(sql.RAISE_ATTEMPTS, by=by)
    record.note(
        tx,
        "restore",
        actor=actor,
        source=record.storable(facts["source"]),
        lost=[row["step_anchor"] for row in lost if row["plan_path"] == tx.plan],
        raised=by,
        freed=[each["step_anchor"] for each in ended],
        items=items,
    )
    return ended
