"""Measure the parts of a claim and a completion: statements, and the CPU time of each.

    python bench/operations.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

One process carries out plans of four items a step, every transaction synced to the disk: it
claims each step, ticks its items and completes it. The last table says what each operation costs;
two of them, printed or written with `--results`, can be compared if they were made by turns on
one machine. Exit status 1 if an operation runs more statements than it may. `--self-test` plants
a statement that is run twice, and fails unless it is caught.
"""

import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import budgets
import claims
import harness
import shapes
from harness import Bench

from tugtool import state
from tugtool.plan import parser
from tugtool.state.claims import Request
from tugtool.store import open_store, sql
from tugtool.store.sqlite import SqliteStore, SqliteTransaction

#: Shape of a plan -> statements of one operation on a step without substeps.
MOST_STATEMENTS = {"free": {"claim": 6, "complete": 5}, "braid": {"claim": 7, "complete": 8}}
ITEMS = "- [ ] Lift it\n- [ ] Carry it\n\n**Tests:**\n- [ ] It is there\n- [ ] It is whole\n"
TICKED = [
    {"kind": kind, "ordinal": ordinal, "status": "completed"}
    for kind in ("task", "test")
    for ordinal in (0, 1)
]
NAMES = {text: name for name, text in vars(sql).items() if name.isupper()}
NOTE = (
    "One process, every transaction synced to the disk. Statements are those of the operation "
    "itself; what begins and ends the transaction and keeps the mark is the rest of its time. CPU "
    "microseconds, medians; measuring a statement adds about one."
)


class Meter:
    """CPU times of operations and of their statements."""

    def __init__(self) -> None:
        self.operation = ""
        self.costs: dict[str, list[float]] = defaultdict(list)
        self.statements: dict[tuple[str, str], list[float]] = defaultdict(list)

    def run(self, operation: str, call: Any, *words: Any, **named: Any) -> Any:
        self.operation, begun = operation, time.process_time_ns()
        try:
            return call(*words, **named)
        finally:
            self.costs[operation].append((time.process_time_ns() - begun) / 1000)

    def watch(self, *, twice: bool) -> None:
        """Time every statement from now on; `twice`: a fault to plant."""
        self.operation, asked = "", SqliteTransaction._ask

        def ask(tx: SqliteTransaction, statement: str, values: Any) -> Any:
            for _ in range(2 if twice and statement == sql.PLAN_TO_CLAIM else 1):
                begun = time.process_time_ns()
                found = asked(tx, statement, dict(values))
                spent = (time.process_time_ns() - begun) / 1000
                self.statements[self.operation, NAMES.get(statement, "?")].append(spent)
            return found

        SqliteTransaction._ask = ask  # type: ignore[method-assign, assignment]


def main() -> int:
    with harness.bench(__doc__, rounds=300, quick=20) as bench:
        rounds, costs = bench.options.rounds, {}
        # First without the meter on statements: these are the costs of the operations.
        for shape in MOST_STATEMENTS:
            meter = Meter()
            _carry_out(_store(bench.place / shape, shape, rounds), meter, rounds)
            costs[shape] = {name: statistics.median(each) for name, each in meter.costs.items()}
        meter.watch(twice=bench.options.self_test)
        broken, rows = 0, []
        for shape, most in MOST_STATEMENTS.items():
            store = _store(bench.place / f"{shape}-parts", shape, rounds)
            meter.statements.clear()
            _carry_out(store, meter, rounds)
            for name in most:
                often = _show(bench, meter, shape, name, costs[shape][name], rounds)
                rows.append((shape, name, costs[shape][name], often))
                broken += often > most[name] + 0.5
        _compare(bench, rows)
        if bench.options.self_test:
            print(f"self-test: the statement run twice is {'caught' if broken else 'NOT caught'}")
            return int(not broken)
    print(f"\n{broken} budgets broken" if broken else "\nevery budget is kept")
    return 1 if broken else 0


def _store(directory: Path, shape: str, total: int) -> SqliteStore:
    (directory / "copies").mkdir(parents=True)
    store = open_store(f"sqlite://{directory}/state.db", copies=str(directory / "copies"))
    text = shapes.plan(shape, total).replace("- [ ] Lift it\n", ITEMS)
    state.init(store, claims.PLAN, parser.parse(text), text="", hash="hash")
    assert isinstance(store, SqliteStore)
    return store


def _carry_out(store: SqliteStore, meter: Meter, total: int) -> None:
    plan, copy = claims.PLAN, claims.COPY
    for n in range(total):
        owner = f"w{n % 4}"
        got = meter.run("claim", state.claim, store, plan, Request(owner), copy=copy)
        held = {"owner": owner, "copy": copy}
        meter.run("update", state.update, store, plan, got["anchor"], TICKED, **held)
        meter.run("complete", state.complete, store, plan, got["anchor"], **held)
    store.close()


def _show(bench: Bench, meter: Meter, shape: str, operation: str, cost: float, total: int) -> float:
    """Print and save the parts of one operation. Return its number of statements."""
    parts = {name: each for (of, name), each in meter.statements.items() if of == operation}
    often = sum(map(len, parts.values())) / total
    verdict = budgets.verdict(often, MOST_STATEMENTS[shape][operation] + 0.5)
    print(f"\n{shape}, {operation}: {often:.1f} statements, {cost:.0f} us of CPU, {verdict}")
    rows: list[tuple[str, float, float, float]] = []
    for name, each in parts.items():
        spent = statistics.median(each)
        rows.append((name, len(each) / total, spent, sum(each) / total / cost))
    rest = max(0.0, 1 - sum(row[3] for row in rows))
    rows.append(("begin, commit, the mark, Python", 1, rest * cost, rest))
    for row in rows:
        print(f"  {row[0]:<34}{row[1]:>6.1f}{row[2]:>8.1f} us{row[3]:>7.0%}")
    columns = ("statement", "times", "CPU us each", "part of the operation")
    title = f"What a {operation} is made of, plan {shape}"
    bench.results.table(f"operation-{operation}-{shape}", title, NOTE, columns, rows)
    return often


def _compare(bench: Bench, rows: list[tuple[str, str, float, float]]) -> None:
    """Print and save the figures for comparison with another version."""
    columns = ("plan", "operation", "CPU us", "statements")
    print(f"\n{columns[0]:<8}{columns[1]:<12}{columns[2]:>8}{columns[3]:>12}")
    for shape, operation, cost, often in rows:
        print(f"{shape:<8}{operation:<12}{cost:>8.0f}{often:>12.2f}")
    bench.results.table("operations", "What an operation costs", NOTE, columns, rows)


if __name__ == "__main__":
    sys.exit(main())
