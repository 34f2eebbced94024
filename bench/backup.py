"""Measure what a backup costs beside the copy itself, with a million events in the log.

    python bench/backup.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

Processes by turns: one copies the pages and syncs the copy, one makes a backup as a completed step
does, and one makes a completely checked backup. The figures are CPU time and largest resident size
of each. Exit status 1 if a budget is broken. `--self-test` lets every backup check the whole copy,
and fails unless that is caught.
"""

import os
import statistics
import subprocess
import sys
from pathlib import Path

import budgets
import claims
import harness
import shapes
from harness import Bench, Budget

from tugtool import state
from tugtool.plan import parser
from tugtool.store import open_store, sql
from tugtool.store.sqlite import backup

TIME = Budget(1.2, 1.5)
MEMORY = Budget(1.2, 1.5)
COPY = """
import sys, time
from tugtool.store.sqlite import SqliteStore, backup, create
store = SqliteStore(sys.argv[1])
begun = time.process_time()
source = store.begin(writing=False)
backup.copy(source, sys.argv[2] + ".partial")
create.put(sys.argv[2] + ".partial", sys.argv[2])
print(time.process_time() - begun)
"""
BACKUP = """
import os, sys, time
from tugtool import state
from tugtool.store.sqlite import SqliteStore, backup
store = SqliteStore(sys.argv[1], copies=sys.argv[2])
backup.CHECK_EVERY = int(sys.argv[3])
state.pause(store, sys.argv[4])
state.resume(store, sys.argv[4])
kept = sys.argv[2] + "/backup.db"
if os.path.exists(kept):
    old = os.stat(kept).st_mtime - 120
    os.utime(kept, (old, old))
begun = time.process_time()
said = store.back_up()
assert said is None, said
print(time.process_time() - begun)
"""
NOTE = (
    "CPU time, and largest resident size of the process, medians of five by turns. The copy is "
    f"made by SQLite, page by page, and synced. One large backup in {backup.CHECK_EVERY} is looked "
    "through whole; of the others, what is new. The CPU time is that of the others with their "
    "share of the whole look; the last row is the backup that has it, in a process of its own."
)


def main() -> int:
    with harness.bench(__doc__, rounds=1_000_000, quick=150_000) as bench:
        path = _database(bench)
        copies = path.parent / "copies"
        every = 1 if bench.options.self_test else backup.CHECK_EVERY
        plain = [bench.python, "-c", COPY, str(path), str(path.parent / "copy.db")]
        ours = [bench.python, "-c", BACKUP, str(path), str(copies)]
        # The first one is always checked completely.
        _cost([*ours, "1", claims.PLAN])
        turns = [
            (
                _cost(plain),
                _cost([*ours, str(every), claims.PLAN]),
                _cost([*ours, "1", claims.PLAN]),
            )
            for _ in range(5)
        ]
        broken = _judged(bench, path, turns)
        if bench.options.self_test:
            print(f"self-test: looking through it all is {'caught' if broken else 'NOT caught'}")
            broken = int(not broken)
    print(f"\n{broken} budgets broken" if broken else "\nevery budget is kept")
    return 1 if broken else 0


def _database(bench: Bench) -> Path:
    """Make a record with so many events, nine tenths of them heartbeats."""
    directory = bench.place / "large"
    directory.mkdir()
    store = open_store(f"sqlite://{directory}/state.db")
    text = shapes.plan("free", 200)
    state.init(store, claims.PLAN, parser.parse(text), text=text, hash="hash")
    for start in range(0, bench.options.rounds, 10_000):
        with store.write(claims.PLAN) as tx:
            event = {"actor": ".tugtree/tugplan__bench-20260223", "attempt": 1, "detail": "{}"}
            tx.many(
                sql.ADD_EVENT,
                (
                    {
                        **event,
                        "plan": claims.PLAN,
                        "now": tx.now,
                        "anchor": f"step-{n % 200 + 1}",
                        "kind": "update" if n % 10 == 0 else "heartbeat",
                    }
                    for n in range(start, start + 10_000)
                ),
            )
    store.close()
    return directory / "state.db"


def _cost(argv: list[str]) -> tuple[float, int]:
    """Return the CPU seconds of the copy or backup, and its largest resident size."""
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    seconds = float(child.stdout.read())
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stdout.close()
    return seconds, usage.ru_maxrss


def _judged(bench: Bench, path: Path, turns: list[tuple[tuple[float, int], ...]]) -> int:
    table, broken = [], 0
    size = path.stat().st_size / 1e6
    print(f"{bench.options.rounds:,} events, {size:.0f} MB")
    seconds, bytes_ = ([_median(turns, who, what) for who in range(3)] for what in range(2))
    copy, usual, whole = seconds
    shared = ((backup.CHECK_EVERY - 1) * usual + whole) / backup.CHECK_EVERY
    rows = (("CPU time", copy, shared, TIME), ("memory", bytes_[0], max(bytes_[1:]), MEMORY))
    for name, plain, ours, (target, gate) in rows:
        verdict = budgets.verdict(ours / plain, gate, target)
        broken += ours / plain > gate
        print(f"{name:<24}{plain:>12.2f}{ours:>12.2f}{ours / plain:>8.2f}  {verdict}")
        table.append((name, ours / plain, target, gate, verdict))
    for name, ours in (("without its share", usual), ("looked through whole", whole)):
        print(f"{name:<24}{copy:>12.2f}{ours:>12.2f}{ours / copy:>8.2f}  no budget")
        table.append((f"CPU time, {name}", ours / copy, None, None, "no budget"))
    columns = ("a backup / the copying itself", "measured", "target", "gate", "verdict")
    title = f"A backup with {bench.options.rounds:,} events"
    bench.results.table("backup", title, NOTE, columns, table)
    return broken


def _median(turns: list[tuple[tuple[float, int], ...]], who: int, what: int) -> float:
    return statistics.median(turn[who][what] for turn in turns)


if __name__ == "__main__":
    sys.exit(main())
