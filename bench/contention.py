"""Many writers at once: fair shares, no refusals, a short log; and 64 claims started together.

    python bench/contention.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

2, 8 and 32 processes that each hold a transaction for 2 ms, again and again, through the store
and by SQLite's own busy handler, turn by turn (`writers.py`); 32 that hold it for no time at all;
then 64 claim processes started at once. Exit status 1 if a budget is broken. `--self-test` judges
the busy handler in our place, and fails unless that is caught.
"""

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import harness
import shapes
from harness import Bench

HOLD_MILLISECONDS = 2
MANY = 32
#: The refusal of a writer that could not get the lock in time.
BUSY = "E047"
NOTE = (
    "Each process begins a transaction, holds it for 2 ms, changes a row and commits, synced, and "
    "begins again. `ours` is the store with its queue; `busy handler` the same statements on the "
    "same tables with SQLite's own (`busy_timeout` 5 s), the way it is done without a queue. Both "
    "in one run; turns per second depend on the disk. Who takes turns changes processes at each, "
    "and that costs turns: the busy handler has more of them where it lets one process go on and "
    "the others starve."
)
SATURATED = (
    "The same with nothing held: all write as fast as they can. The log is SQLite's WAL, which "
    "every new process has to read."
)
STAMPEDE = (
    "Wall time from the first start to the last end of claim processes started together, beside as "
    "many times one alone, the median of the rounds; every one gets another step, and none may be "
    "refused. The floor is for two cores: what a claim computes can be done side by side, but "
    "what it waits for the disk comes one after the other. A machine that does much else meanwhile "
    "has a high floor."
)


def main() -> int:
    with harness.bench(__doc__, rounds=5, quick=1) as bench:
        if bench.options.self_test:
            broken = 1 - min(1, _fairness(bench, "busy") + _saturation(bench, "busy"))
            print(f"self-test: the busy handler is {'NOT caught' if broken else 'caught'}")
        else:
            broken = _fairness(bench, "ours") + _saturation(bench, "ours") + _stampede(bench)
    print(f"\n{broken} budgets broken" if broken else "\nevery budget is kept")
    return 1 if broken else 0


def _run(bench: Bench, kind: str, writers: int, hold: int) -> dict[str, Any]:
    seconds = 2 if bench.options.quick else 8
    words = (kind, str(writers), str(seconds), str(hold))
    found: dict[str, Any] = json.loads(bench.inside("writers.py", *words))
    return found


def _row(name: str, found: dict[str, Any]) -> tuple[Any, ...]:
    shares = found["shares"]
    cells = (found["refused"], shares[0], shares[-1], shares[0] / max(1, shares[-1]))
    log = found["log_bytes"] / 1e6
    row = (name, *cells, round(found["longest"], 3), round(found["rate"]), round(log, 2))
    print(f"{name:<34}{row[1]:>8}{row[2]:>8}{row[3]:>8}{row[4]:>8.2f}", end="")
    print(f"{row[5]:>9.3f}{row[6]:>9}{row[7]:>9.2f}", flush=True)
    return row


def _head() -> tuple[str, ...]:
    heads = ("refused", "least", "most", "share", "wait s", "turns/s", "log MB")
    print(f"\n{'writers':<34}{''.join(f'{head:>{8 + (n > 3)}}' for n, head in enumerate(heads))}")
    return ("writers", "refused", "least turns", "most turns", "least / most", "longest wait, s",
            "turns/s", "log, MB")  # fmt: skip


def _fairness(bench: Bench, judged: str) -> int:
    columns = _head()
    rows, shares = [], {}
    for writers in (2, 8, MANY):
        found = {kind: _run(bench, kind, writers, HOLD_MILLISECONDS) for kind in ("ours", "busy")}
        for kind, name in (("ours", "ours"), ("busy", "busy handler")):
            rows.append(_row(f"{writers} writers, {name}", found[kind]))
            most = max(found[kind]["shares"])
            shares[name] = (
                list(range(1, writers + 1)),
                [each / max(1, most) for each in found[kind]["shares"]],
            )
    title = "Writers that hold the lock for 2 ms"
    bench.results.table("writers", title, NOTE, columns, rows)
    axes = ("writers, from the one with the fewest turns", "turns / those of the luckiest")
    bench.results.plot("writers", f"{MANY} writers: who gets how many turns", axes, shares)
    one = found[judged]
    least, most = one["shares"][0], one["shares"][-1]
    print()
    return (
        bench.results.figure("writers-errors", one["refused"])
        + bench.results.figure("writers-share", least / max(1, most))
        + bench.results.figure("writers-wait", one["longest"])
    )


def _saturation(bench: Bench, judged: str) -> int:
    columns = _head()
    found = {kind: _run(bench, kind, MANY, 0) for kind in ("ours", "busy")}
    names = {"ours": "ours", "busy": "busy handler"}
    rows = [_row(f"{MANY} writers, {names[kind]}", found[kind]) for kind in names]
    bench.results.table("saturation", "Writers that never rest", SATURATED, columns, rows)
    logs = {
        names[kind]: (
            [n / max(1, len(each["log"]) - 1) for n in range(len(each["log"]))],
            [size / 1e6 for size in each["log"]],
        )
        for kind, each in found.items()
    }
    axes = ("part of the run", "log, MB")
    bench.results.plot("wal", f"The log under {MANY} writers that never rest", axes, logs)
    print()
    return bench.results.figure("wal", found[judged]["log_bytes"] / 1e6)


def _stampede(bench: Bench) -> int:
    """Compare the wall time of many claims at once with that of one, by turns."""
    count = 16 if bench.options.quick else 64
    rounds = bench.options.rounds
    plan = shapes.plan("free", rounds * (count + 5) + 10)
    path = str(bench.repository("stampede", plan))
    # An older plan file is not read and hashed by every claim.
    time.sleep(2.5)
    ratios, floors, refused = [], [], 0
    for number in range(rounds):
        one = min(_claims(bench, path, f"{number}-alone-{n}", 1) for n in range(5))
        crowd = _claims(bench, path, f"{number}-crowd", count)
        ratios.append(crowd.seconds / (count * one.seconds))
        floors.append(one.floor)
        refused += crowd.refused
    best, floor = min(ratios), min(floors)
    columns = ("at once", "wall / (as many x one), median", "best round", "floor", "refused")
    row = (f"{count} claims", statistics.median(ratios), best, floor, refused)
    bench.results.table("stampede", "Claim processes at once", STAMPEDE, columns, [row])
    middle = statistics.median(ratios)
    print(f"\n{count} claims at once: {middle:.2f} of {count} x one, floor {floor:.2f}, ", end="")
    print(f"{refused} refused")
    return bench.results.figure("stampede", statistics.median(ratios)) + min(1, refused)


class Crowd(NamedTuple):
    """Claims started together: the time until the last ended, and how many failed."""

    seconds: float
    cpu_seconds: float
    refused: int

    @property
    def floor(self) -> float:
        """The least time: cores can share the CPU time of claims, but not their waiting."""
        shared = min(1.0, self.cpu_seconds / self.seconds)
        return 1 - shared + shared / min(2, os.cpu_count() or 1)


def _claims(bench: Bench, path: str, name: str, count: int) -> Crowd:
    where = ["state", "claim", "bench", "--json", "-C", path, "--worktree"]
    lines = [bench.tugcode(*where, f"{name}-{n}") for n in range(count)]
    files = [str(bench.place / f"said-{n}") for n in range(count)]
    begun = time.perf_counter()
    children = [_spawned(line, file, bench) for line, file in zip(lines, files, strict=True)]
    ends = [os.wait4(child, 0) for child in children]
    spent = time.perf_counter() - begun
    answers = [json.loads(Path(file).read_text()) for file in files]
    got = [each["data"]["anchor"] for each in answers if each["data"]]
    assert len(set(got)) == len(got), "a step was given to two"
    assert all(each["issues"][0]["code"] == BUSY for each in answers if not each["data"]), answers
    cpu = sum(usage.ru_utime + usage.ru_stime for _, _, usage in ends)
    return Crowd(spent, cpu, count - len(got))


def _spawned(argv: list[str], file: str, bench: Bench) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [(os.POSIX_SPAWN_OPEN, 1, file, flags, 0o600)]
    return os.posix_spawn(argv[0], argv, bench.environment, file_actions=actions)


if __name__ == "__main__":
    sys.exit(main())
