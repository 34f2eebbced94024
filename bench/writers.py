"""Many writers of one database at once: their turns, and the size of the log.

Run by `contention.py` with the interpreter of its installation; prints one JSON value.

    python bench/writers.py KIND WRITERS SECONDS HOLD_MILLISECONDS

KIND is `ours`, a transaction of the store with its queue, or `busy`: the same transaction on the
same tables by plain SQLite with its busy handler, which is the usual way without us. Both wait
for five seconds at most, and sync every commit.
"""

import json
import multiprocessing
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path

import claims
import shapes

from tugtool import state
from tugtool.errors import TugError
from tugtool.plan import parser
from tugtool.store import open_store
from tugtool.system import clock

LOOK_SECONDS = 0.02
BUSY_SECONDS = 5
CHANGE = "update plans set updated_at = :now where plan_path = :plan"
#: One turn; it returns when it got the lock.
Turn = Callable[[], float]


def ours(place: Path, hold: float) -> Turn:
    store = open_store(f"sqlite://{place}/state.db", copies=str(place / "copies"))

    def turn() -> float:
        with store.write(claims.PLAN) as tx:
            got = time.monotonic()
            time.sleep(hold)  # what is measured: a lock that is held so long
            tx.run(CHANGE)
        return got

    return turn


def busy(place: Path, hold: float) -> Turn:
    database = sqlite3.connect(place / "state.db", isolation_level=None, timeout=BUSY_SECONDS)
    database.execute("pragma synchronous = full")

    def turn() -> float:
        database.execute("begin immediate")
        got = time.monotonic()
        time.sleep(hold)  # as above
        now = clock.text(clock.system_milliseconds())
        database.execute(CHANGE, {"now": now, "plan": claims.PLAN})
        database.execute("commit")
        return got

    return turn


def work(kind: str, place: Path, seconds: float, hold: float, gate: Barrier, said: int) -> None:
    """Write in as many turns as possible. Return turns, refusals, and the longest wait."""
    turn = {"ours": ours, "busy": busy}[kind](place, hold)
    turns = refused = 0
    longest = 0.0
    gate.wait()
    end = time.monotonic() + seconds
    while (asked := time.monotonic()) < end:
        try:
            longest = max(longest, turn() - asked)
            turns += 1
        except (TugError, sqlite3.OperationalError):
            longest = max(longest, time.monotonic() - asked)
            refused += 1
    os.write(said, f"{turns} {refused} {longest}\n".encode())


def watched(path: Path, seconds: float, children: list[multiprocessing.Process]) -> list[int]:
    """Return the size of the log from time to time."""
    sizes = []
    end = time.monotonic() + seconds
    while time.monotonic() < end or any(child.is_alive() for child in children):
        sizes.append(path.stat().st_size if path.exists() else 0)
        # Looking more often would take turns away from the writers.
        time.sleep(LOOK_SECONDS)
    return sizes


def run(kind: str, writers: int, seconds: float, hold: float, place: Path) -> dict[str, object]:
    """Run all writers at once."""
    (place / "copies").mkdir()
    store = open_store(f"sqlite://{place}/state.db")
    state.init(store, claims.PLAN, parser.parse(shapes.plan("free", 10)), text="", hash="hash")
    store.close()
    fork = multiprocessing.get_context("fork")
    gate = fork.Barrier(writers + 1)
    source, said = os.pipe()
    facts = (kind, place, seconds, hold, gate, said)
    children = [fork.Process(target=work, args=facts) for _ in range(writers)]
    for child in children:
        child.start()
    gate.wait()
    begun = time.monotonic()
    sizes = watched(place / "state.db-wal", seconds, children)
    spent = time.monotonic() - begun
    os.close(said)
    with open(source) as lines:
        rows = [line.split() for line in lines]
    assert len(rows) == writers, "a writer died"
    shares = sorted(int(row[0]) for row in rows)
    return {
        "shares": shares,
        "rate": sum(shares) / spent,
        "refused": sum(int(row[1]) for row in rows),
        "longest": max(float(row[2]) for row in rows),
        "log_bytes": max(sizes),
        "log": sizes[:: max(1, len(sizes) // 60)],
    }


def main() -> None:
    kind, writers, seconds, hold = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="tugtool-writers-") as name:
        found = run(kind, int(writers), float(seconds), float(hold) / 1000, Path(name))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
