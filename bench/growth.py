"""Show that a step's cost does not grow with the plan: claims, whole processes, init, draining.

    python bench/growth.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

Claims inside one process with full durability, for plans of 10 to 10,000 steps in the shapes that
make a careless scheduler slow, all in the same run, turn by turn; then whole claim processes,
recording a plan, and draining a long chain. Exit status 1 if a budget is broken. `--self-test`
plants a claim that reads the whole plan, and fails unless it is caught.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import budgets
import claims
import harness
import shapes
from harness import Bench, Row

from tugtool.store import open_store

#: Ten times the steps may cost little more than ten times the work.
MOST_DRAIN_GROWTH = 12
#: Recording a step may cost so much more in a long plan than in a short one.
MOST_INIT_GROWTH = 1.5
MOST_WHOLE_GROWTH = 1.5
SHAPES = ("free", "chain", "fan", "diamonds", "braid")
CLAIM_NOTE = (
    "CPU microseconds of one claim inside one process, the median; every transaction synced to the "
    "disk. The shapes: nothing needs anything; each needs the one before; all need the first and "
    "the last needs all; layers of ten in which each needs all, or two, of the layer before."
)
RATE_NOTE = (
    "Claims with their completions per second of wall time, one worker in one process: two synced "
    "transactions for each pair, so the disk and its other load decide."
)
WHOLE_NOTE = "The same as whole processes, and as CPU time alone inside one process."
INIT_NOTE = "CPU time of `tugcode state init`: read, check and record a plan in layers of ten."


def main() -> int:
    with harness.bench(__doc__, rounds=60, quick=10) as bench:
        sizes = (10, 100, 1000) if bench.options.quick else (10, 100, 1000, 10_000)
        broken = _inside(bench, sizes)
        broken += _whole(bench, sizes[-1])
        broken += _recording(bench, sizes[-1])
        broken += _draining(bench, 300 if bench.options.quick else 10_000)
        if bench.options.self_test:
            broken += _planted(bench)
    print(f"\n{broken} budgets broken" if broken else "\nevery budget is kept")
    return 1 if broken else 0


def _sizes(bench: Bench, shape: str, sizes: tuple[int, ...], *more: str) -> dict[str, Any]:
    listed = ",".join(map(str, sizes))
    words = ("sizes", shape, listed, str(bench.options.rounds), *more)
    found: dict[str, Any] = json.loads(bench.inside("claims.py", *words))
    return found


def _ratio(found: dict[str, Any], sizes: tuple[int, ...]) -> float:
    return float(found[str(sizes[-1])]["claim"] / found["100"]["claim"])


def _inside(bench: Bench, sizes: tuple[int, ...]) -> int:
    heads = [f"{size:,}" for size in sizes]
    last = f"{heads[-1]} / 100"
    print(f"{'CPU us of a claim':<24}{''.join(f'{head:>10}' for head in heads)}{last:>14}")
    cpu, rates, lines = [], [], {}
    for shape in SHAPES:
        found = _sizes(bench, shape, sizes)
        costs = [found[str(size)]["claim"] for size in sizes]
        cells = "".join(f"{cost:>10.0f}" for cost in costs)
        print(f"{shape:<24}{cells}{_ratio(found, sizes):>14.2f}", flush=True)
        cpu.append((shape, *(round(cost) for cost in costs), _ratio(found, sizes)))
        rates.append((shape, *(round(found[str(size)]["rate"]) for size in sizes)))
        lines[shape] = (list(sizes), costs)
    columns = ("shape", *(f"{head} steps" for head in heads))
    title = "A claim and the size of its plan"
    bench.results.table("growth", title, CLAIM_NOTE, (*columns, last), cpu)
    bench.results.table("rates", "Claim and complete per second", RATE_NOTE, columns, rates)
    axes = ("steps in the plan", "CPU us per claim")
    bench.results.plot("growth", f"{title}: CPU time of one claim", axes, lines, log=True)
    return bench.results.figure("growth", max(row[-1] for row in cpu))


def _planted(bench: Bench) -> int:
    sizes = (100, 4000)
    linear = _ratio(_sizes(bench, "chain", sizes, "--linear"), sizes)
    print(f"\nself-test: without its index a claim costs {linear:.2f} times as much", end=", ")
    print("caught" if linear > MOST_WHOLE_GROWTH else "NOT caught")
    return int(linear <= MOST_WHOLE_GROWTH)


def _whole(bench: Bench, big: int) -> int:
    """Measure whole processes on plan files that are not new."""
    rows = [Row(harness.BARE, [bench.python, "-c", "pass"])]
    # The plan with the most dependencies per step, and the one with the most free steps.
    names = [(shape, total) for shape in ("free", "diamonds") for total in (100, big)]
    paths = {
        each: str(bench.repository("-".join(map(str, each)), shapes.plan(*each))) for each in names
    }
    rows += [
        Row(f"{shape} {total}", _claim_in(bench, paths[shape, total])) for shape, total in names
    ]
    # A file that changed within two seconds is read and hashed for every claim; plans in
    # real use are older.
    time.sleep(2.5)
    rounds = min(bench.options.rounds, 20)
    times = harness.measure(rows, rounds, bench.options.seed, bench.place, bench.environment)
    by = {result.row.name: result.by_median for result in harness.compare(rows, times)}
    broken, table = 0, []
    print(f"\na claim process at {big:,} steps / at 100")
    for shape in ("free", "diamonds"):
        growth = by[f"{shape} {big}"] / by[f"{shape} 100"]
        broken += growth > MOST_WHOLE_GROWTH
        verdict = budgets.verdict(growth, MOST_WHOLE_GROWTH)
        print(f"{shape:<24}{growth:>10.2f}  {verdict}")
        table.append((shape, by[f"{shape} 100"], by[f"{shape} {big}"], growth, verdict))
    columns = ("shape", "100 steps, x bare", f"{big:,} steps, x bare", "growth", "verdict")
    title = "A claim process and the size of its plan"
    bench.results.table("growth-whole", title, WHOLE_NOTE, columns, table)
    return broken


def _claim_in(bench: Bench, where: str) -> Callable[[int], list[str]]:
    store = open_store(f"sqlite://{where}/.tugtool/state.db")
    copy = claims.copy_of(where)

    def argv(n: int) -> list[str]:
        claims.finish(store, copy)
        words = ("state", "claim", "bench", "--json", "-C", where)
        return bench.tugcode(*words, "--worktree", f"claimer-{n}")

    return argv


def _recording(bench: Bench, big: int) -> int:
    """Measure `state init` of plans of several sizes, each time in a fresh repository."""
    sizes = [big // 100, big // 10, big]
    rows = [Row(harness.BARE, [bench.python, "-c", "pass"])]
    for size in sizes:
        text = shapes.plan("diamonds", size)
        rows.append(Row(str(size), _init_in(bench, text, size)))
    times = harness.measure(
        rows, 2 if bench.options.quick else 3, 1, bench.place, bench.environment
    )
    results = harness.compare(rows, times)
    bare = results[0].median
    each = {
        size: (result.median - bare) / size for size, result in zip(sizes, results[1:], strict=True)
    }
    growth = each[big] / each[big // 10]
    verdict = budgets.verdict(growth, MOST_INIT_GROWTH)
    print(
        f"\nstate init of {big:,} steps: {results[-1].median:.0f} ms of CPU; a step costs "
        f"{growth:.2f} times what it does in a plan of {big // 10:,}, {verdict}"
    )
    table = [
        (f"{size:,} steps", result.by_median, 1000 * each[size], each[size] / each[big // 10])
        for size, result in zip(sizes, results[1:], strict=True)
    ]
    columns = ("plan", "x bare", "CPU us per step", f"x of {big // 10:,} steps")
    bench.results.table("init", "Recording a plan", INIT_NOTE, columns, table)
    return int(growth > MOST_INIT_GROWTH)


def _init_in(bench: Bench, text: str, size: int) -> Callable[[int], list[str]]:
    def argv(n: int) -> list[str]:
        path = bench.repository(f"init-{size}-{n}", text, recorded=False)
        return bench.tugcode("state", "init", "bench", "-C", str(path))

    return argv


def _draining(bench: Bench, count: int) -> int:
    few, many = (float(bench.inside("claims.py", "drain", str(n))) for n in (count // 10, count))
    growth = many / few
    verdict = budgets.verdict(growth, MOST_DRAIN_GROWTH)
    print(f"\ndraining a chain of {count:,} / of {count // 10:,}: {growth:.1f} times  {verdict}")
    note = "CPU time of claiming and completing every step of a chain; linear is 10."
    row = (f"{count:,} steps / {count // 10:,} steps", growth, MOST_DRAIN_GROWTH, verdict)
    columns = ("chain", "x", "gate", "verdict")
    bench.results.table("drain", "Draining a plan", note, columns, [row])
    return int(growth > MOST_DRAIN_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
