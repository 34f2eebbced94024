"""Measure what 100,000 operations leave: the size of the database and its log, and their cost.

    python bench/endurance.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

In one process, without syncing: steps of one plan are claimed, begun, renewed, marked and given
back, over and over. Then the database must be sound, a backup must have it, and pruning the plan
must leave next to nothing. Exit status 1 if a budget is broken. `--self-test` plants a reader that
never ends, which keeps the log from being truncated, and fails unless that is caught.
"""

import json
import sys
from typing import Any

import budgets
import harness
from harness import Bench, Budget

#: An operation is one row in the events, and every third one also in the attempts.
BYTES = Budget(300, 600)
LOG = Budget(5, 16)
#: CPU time of an operation at the end beside that at the beginning.
COST = Budget(1.2, 1.5)
NOTE = (
    "Five kinds of operations by turns on one plan of 1,000 steps, all inside one process. Every "
    "operation is an event that stays in the history; that is what the database grows by."
)


def main() -> int:
    with harness.bench(__doc__, rounds=100_000, quick=3000) as bench:
        more = ["--reader"] if bench.options.self_test else []
        said = bench.inside("claims.py", "wear", str(bench.options.rounds), *more)
        found = json.loads(said)
        broken = _judged(bench, found)
        if bench.options.self_test:
            print(f"self-test: the endless reader is {'caught' if broken else 'NOT caught'}")
            broken = int(not broken)
    print(f"\n{broken} budgets broken" if broken else "\nevery budget is kept")
    return 1 if broken else 0


def _judged(bench: Bench, found: dict[str, Any]) -> int:
    samples = found["samples"]
    count = samples[-1]["operations"]
    each = (samples[-1]["database"] - samples[0]["database"]) / count
    log = max(sample["log"] for sample in samples) / 1e6
    cost = found["late"] / found["early"]
    rows = [
        ("bytes of the database per operation", each, *BYTES),
        ("longest log, MB", log, *LOG),
        ("CPU time of the last tenth / of the first", cost, *COST),
    ]
    table, broken = [], 0
    print(f"{count:,} operations, {found['late']:.0f} us of CPU each")
    for name, value, target, gate in rows:
        verdict = budgets.verdict(value, gate, target)
        broken += value > gate
        print(f"{name:<45}{value:>9.2f}  {verdict}")
        table.append((name, value, target, gate, verdict))
    columns = ("what", "measured", "target", "gate", "verdict")
    title = f"{count:,} operations"
    bench.results.table("endurance", title, NOTE, columns, table)
    _sizes(bench, found)
    return broken + int(not found["sound"])


def _sizes(bench: Bench, found: dict[str, Any]) -> None:
    samples = found["samples"]
    rows = [
        ("database", samples[-1]["database"] / 1e6, "whole" if found["sound"] else "BROKEN"),
        ("its backup", found["backup"] / 1e6, "whole" if found["backup_sound"] else "BROKEN"),
        ("the pruned plan, written down", found["export"] / 1e6, ""),
        ("pages in use after pruning", found["used_after_prune"] / 1e6, ""),
        ("a backup after pruning", found["backup_after_prune"] / 1e6, ""),
    ]
    for name, size, state in rows:
        print(f"{name:<45}{size:>9.2f} MB  {state}")
    note = (
        "Pruning writes the plan down and deletes its rows; SQLite keeps the freed pages for what "
        "comes next, in the database and in its backups."
    )
    columns = ("what", "MB", "integrity check")
    bench.results.table("endurance-sizes", "What is left behind", note, columns, rows)
    at = [sample["operations"] for sample in samples]
    series = {
        "database": (at, [sample["database"] / 1e6 for sample in samples]),
        "log (WAL)": (at, [sample["log"] / 1e6 for sample in samples]),
    }
    axes = ("operations", "MB")
    bench.results.plot("endurance", "Database and log over many operations", axes, series)


if __name__ == "__main__":
    sys.exit(main())
