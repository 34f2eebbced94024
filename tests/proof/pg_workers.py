"""Many workers as processes: each claims, notes, renews and completes steps until none is left.

URL, number of workers, directory, plans: each worker writes down, in a file of its own, what was
answered, and ends with 0 if nothing was ever refused. `planted` names a fault of the engine.
"""

import json
import os
import sys
import traceback

from support.state import KEY
from tugtool import state
from tugtool.state.record import PlanCopy
from tugtool.store import open_store, sql
from tugtool.store.postgres import libpq, statements, transaction
from tugtool.system import text


def plans(count: int) -> list[str]:
    """The keys of so many plans."""
    return [KEY.replace("work", f"work-{n}") for n in range(count)]


def blind() -> None:
    """A commit without an answer is taken for one that did not happen."""

    def never(tx: transaction.PostgresTransaction) -> bool:
        tx._exchange([])
        tx._roll_back()
        return False

    transaction.PostgresTransaction._is_committed = never


def early() -> None:
    """A commit without an answer is taken for one that happened."""
    transaction.PostgresTransaction._end_again = lambda tx: None


def alike() -> None:
    """An equal event is taken for the commit's own."""

    def is_noted(tx: transaction.PostgresTransaction) -> bool:
        query = b"select count(*) from events where kind = $1"
        kinds = [values[3] for _, values in tx._notes] or [b"none"]
        found = tx._exchange([(query, (kinds[0],))])[0].rows[0][0]
        tx._roll_back()
        return bool(found)

    transaction.PostgresTransaction._is_committed = is_noted


def hasty() -> None:
    """A lost connection is not made again."""

    def lost(tx: transaction.PostgresTransaction, batch: object) -> None:
        raise libpq.ConnectionLost("lost")

    transaction.PostgresTransaction._again = lost


def settled() -> None:
    """The settings of a transaction are made once per connection."""
    opening = transaction.PostgresTransaction._opening
    known: set[int] = set()

    def once(tx: transaction.PostgresTransaction) -> list[tuple]:
        begin, settings, *others = opening(tx)
        is_new = id(tx._connection) not in known
        known.add(id(tx._connection))
        statement = settings[0].replace(b", true)", b", false)")
        return [begin, (statement, settings[1]) if is_new else (b"select 1", ()), *others]

    transaction.PostgresTransaction._opening = once


def unsynced() -> None:
    """Nobody waits until a commit is on the disk."""
    statements.SYNC = b"select $1::text"


def at_once() -> dict[str, object]:
    """Events are written when they are noted, and not with the commit."""

    def note(tx: transaction.PostgresTransaction, kind: str, detail: dict, **how: object) -> None:
        how |= {"kind": kind, "detail": text.encode(detail)}
        tx._wrote = True
        tx._run(tx._bound(sql.ADD_EVENT, how))

    return {"note": note}


def numbering() -> None:
    """See `at_once`."""
    for name, value in at_once().items():
        setattr(transaction.PostgresTransaction, name, value)


FAULTS = {
    "": lambda: None,
    "at once": numbering,
    "blind": blind,
    "early": early,
    "alike": alike,
    "hasty": hasty,
    "settled": settled,
    "unsynced": unsynced,
}


def work(url: str, name: str, count: int, first: int, log: int) -> None:
    """One worker; it begins with another plan than its neighbour."""
    store, copy = open_store(url, busy_seconds=60), PlanCopy("/p", "h")
    keys = plans(count)

    def say(*words: object) -> None:
        os.write(log, json.dumps(words).encode() + b"\n")

    for plan in keys[first % count :] + keys[: first % count]:
        request = state.Request(name, also=True)
        while (got := state.claim(store, plan, request, copy=copy))["claimed"]:
            step, who = got["anchor"], {"owner": name, "attempt": got["attempt"]}
            say("claim", plan, step)
            state.artifact(store, plan, step, kind="note", summary="the same", **who)
            say("artifact", plan, step)
            state.heartbeat(store, plan, step, **who)
            state.complete(store, plan, step, copy=copy, **who)
            say("complete", plan, step)
    store.close()


def main(url: str, workers: str, directory: str, count: str, planted: str = "") -> int:
    FAULTS[planted]()
    for number in range(int(workers)):
        log = os.open(f"{directory}/{number}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        if os.fork() == 0:
            try:
                work(url, f"/w{number}", int(count), number, log)
            except BaseException:
                with open(f"{directory}/{number}.trouble", "w") as file:
                    traceback.print_exc(file=file)
                os._exit(1)
            os._exit(0)
        os.close(log)
    status = 0
    for _ in range(int(workers)):
        status |= os.waitstatus_to_exitcode(os.wait()[1])
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
