"""prune: records that nobody needs any more are written down, and then dropped."""

from __future__ import annotations

import os

from tugtool import files
from tugtool.errors import Unwritable
from tugtool.state import upkeep
from tugtool.state_errors import WrongStatus
from tugtool.store import sql, sql_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]
    Where = Callable[[Iterable[str]], Mapping[str, str]]

#: How often to start over because somebody was at work; each time it is looked at afresh.
ROUNDS = 5


def prune(
    store: Store, *, where: Where, directory: str, done: bool = False, dry_run: bool = False
) -> Data:
    """Drop plans whose file is nowhere, and with `done` finished ones. For people.

    `where` tells, for keys of plans, where their files are; one that is nowhere is left out.
    What is dropped is first written to a file in `directory`, as an export.
    """
    for _ in range(ROUNDS):
        with store.read() as tx:
            keys = [str(row["plan_path"]) for row in tx.all(sql.PLANS)]
        places = where(keys)
        with store.read() as tx:
            chosen = _chosen(tx, keys, places, done=done)
            pruned, seen = [each for each in chosen if each["prune"]], {}
            if pruned and not dry_run:
                seen = {str(p["plan_path"]): _last_event(tx, p["plan_path"]) for p in pruned}
                path = _written(tx, list(seen), directory)
        if not seen:
            return _answer(chosen, None, dry_run=dry_run)
        if drop(store, seen):
            return _answer(chosen, path, dry_run=False)
        os.unlink(path)
    needed = "nothing was pruned; try again when less is going on"
    raise WrongStatus(next(iter(seen)), None, status="being changed all the time", needed=needed)


def drop(store: Store, seen: Mapping[str, int | None]) -> bool:
    """Delete all rows of these plans, unless one of them has had an event since the one seen."""
    with store.write(next(iter(seen))) as tx:
        if any(_last_event(tx, plan) != last for plan, last in seen.items()):
            return False
        for plan in seen:
            for statement in sql_records.DELETE.values():
                tx.run(statement, plan=plan)
    return True


def _last_event(tx: Transaction, plan: object) -> int | None:
    # Every change notes one: the same last event means the same record.
    found: int | None = tx.value(sql_records.LAST_EVENT, plan=plan)
    return found


def _chosen(
    tx: Transaction, keys: list[str], places: Mapping[str, str], *, done: bool
) -> list[Data]:
    rows = [tx.first(sql.PLAN, plan=key) for key in keys]
    # One that went away since the files were looked for is no longer ours to judge.
    return [_judged(tx, row, places, done=done) for row in rows if row is not None]


def _judged(tx: Transaction, row: Row, places: Mapping[str, str], *, done: bool) -> Data:
    key, finished = row["plan_path"], row["steps_done"] == row["steps_total"]
    if key not in places:
        reason, prune = "its file is on no branch and in no worktree", True
    elif done and finished:
        reason, prune = "all its steps are completed", True
    else:
        reason, prune = places[key], False
    claim = upkeep.live_claim(tx, key) if prune else None
    if claim is not None:
        reason, prune = f"{claim['anchor']} is held by {claim['claimed_by']}", False
    return {
        "plan_path": key,
        "status": row["status"],
        "total_steps": row["steps_total"],
        "completed_steps": row["steps_done"],
        "reason": reason,
        "prune": prune,
    }


def _written(tx: Transaction, plans: list[str], directory: str) -> str:
    """Write the plans to a new file, on disk for sure before anything is deleted; its path."""
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise Unwritable(directory, reason=files.reason(error)) from error
    stem = os.path.join(directory, f"pruned-{tx.now.replace(':', '')}")
    path, number = f"{stem}.jsonl", 1
    while not files.create(path, (line.encode() for line in upkeep.lines(tx, plans))):
        number += 1
        path = f"{stem}-{number}.jsonl"
    files.sync_directory(directory)
    return path


def _answer(chosen: list[Data], path: str | None, *, dry_run: bool) -> Data:
    return {
        "pruned": [_without(each) for each in chosen if each["prune"]],
        "kept": [_without(each) for each in chosen if not each["prune"]],
        "exported_to": path,
        "dry_run": dry_run,
    }


def _without(chosen: Data) -> Data:
    return {key: value for key, value in chosen.items() if key != "prune"}
