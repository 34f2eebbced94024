"""Measure the largest memory of commands, beside a bare interpreter.

    python bench/memory.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

The largest resident size of whole processes: the most frequent commands of agents, recording a
plan of 10,000 steps, looking at 100 plans; and of a watcher during events, early and late. Exit
status 1 if a budget is broken. `--self-test` adds a command that hoards, which must be caught.
"""

import signal
import statistics
import subprocess
import sys
from pathlib import Path

import budgets
import claims
import harness
import shapes
from harness import Bench, Budget

HOT = Budget(1.8, 2.2)
LOOK = Budget(4, 7)
INIT = Budget(10, 16)
#: A watcher may be so much larger at the end than at the beginning.
MOST_GROWTH = 1.1
#: A new program inherits the largest size of its parent from the kernel, so that must be small.
PEAK = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[
    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
_, status, usage = os.wait4(child, 0)
assert status == 0, status
print(usage.ru_maxrss)
"""
HOARDER = "x = list(range(3_000_000)); print(len(x))"
NOTE = (
    "Largest resident size of the process, as a multiple of `python -c pass`; medians. A plan of "
    "10,000 steps is about a megabyte of text; its steps, items and needs are all in memory once."
)
WATCH = (
    "Resident size of `state log --follow --json` while another process changes a step again and "
    "again: once it has settled, and after many more events."
)


def main() -> int:
    with harness.bench(__doc__, rounds=5, quick=1) as bench:
        rows = _rows(bench)
        if bench.options.self_test:
            rows["hoards on purpose"] = ([bench.python, "-c", HOARDER], HOT)
        broken = _peaks(bench, rows)
        broken += _watcher(bench)
    print(f"\n{broken} budgets broken" if broken else "\nevery budget is kept")
    return 1 if broken else 0


def _rows(bench: Bench) -> dict[str, tuple[list[str], Budget | None]]:
    big, plans = (1000, 10) if bench.options.quick else (10_000, 100)
    path = bench.repository("hot", shapes.plan("diamonds", 60))
    bench.inside("claims.py", "prepare", str(path), "1")
    where = ["-C", str(path), "--json"]
    state = ["state", "heartbeat", "bench", "step-1", *where, "--worktree", claims.WORKTREE]
    large = bench.repository("large", shapes.plan("diamonds", big))
    many = _many(bench, plans)
    again = ["state", "init", "bench", "-C", str(large)]
    return {
        harness.BARE: ([bench.python, "-c", "pass"], None),
        "python -c 'import sqlite3'": ([bench.python, "-c", "import sqlite3"], None),
        "tugcode --help": (bench.tugcode("--help"), HOT),
        "state claim --json": (
            bench.tugcode("state", "claim", "bench", *where, "--request-id", "one"),
            HOT,
        ),
        "state heartbeat --json": (bench.tugcode(*state), HOT),
        "state show of 60 steps": (bench.tugcode("state", "show", "bench", *where[:2]), HOT),
        "status --json": (bench.tugcode("status", *where), HOT),
        f"state show of {plans} plans": (bench.tugcode("state", "show", "-C", many), LOOK),
        f"state init of {big:,} steps": (_fresh(bench, large, again), INIT),
    }


def _fresh(bench: Bench, path: Path, words: list[str]) -> list[str]:
    """Record the plan anew each time: move its database away first."""
    state = f'"{path}"/.tugtool/state.db'
    line = f'rm -rf {state} {state}-wal {state}-shm "{path}/.git/tugtool"; exec "$@"'
    return ["/bin/sh", "-c", line, "sh", *bench.tugcode(*words)]


def _many(bench: Bench, plans: int) -> str:
    path = bench.repository("many", shapes.plan("diamonds", 60))
    text = (path / ".tugtool" / "tugplan-bench.md").read_text()
    for number in range(1, plans):
        file = path / ".tugtool" / f"tugplan-bench{number}.md"
        file.write_text(text)
        harness.run(bench.tugcode("state", "init", str(file)), bench.environment, path)
    return str(path)


def _peaks(bench: Bench, rows: dict[str, tuple[list[str], Budget | None]]) -> int:
    small = [bench.python, "-I", "-S", "-c", PEAK]
    sizes: dict[str, list[int]] = {name: [] for name in rows}
    for _ in range(bench.options.rounds):
        for name, (argv, _budget) in rows.items():
            sizes[name].append(int(harness.run([*small, *argv], bench.environment)))
    medians = {name: statistics.median(each) for name, each in sizes.items()}
    print(f"{'largest resident size':<37}{'MB':>8}{'x bare':>9}")
    table, broken = [], 0
    for name, (_argv, budget) in rows.items():
        ratio = medians[name] / medians[harness.BARE]
        target, gate = budget or (None, None)
        is_over, is_planted = gate is not None and ratio > gate, "on purpose" in name
        verdict = "" if gate is None else budgets.verdict(ratio, gate, target)
        broken += is_over != is_planted
        print(f"{name:<37}{medians[name] / 1024:>8.1f}{ratio:>9.2f}  {verdict}", flush=True)
        if not is_planted:
            table.append((name, medians[name] / 1024, ratio, target, gate, verdict))
    columns = ("what", "MB", "x bare", "target", "gate", "verdict")
    bench.results.table("memory", "Memory of a command", NOTE, columns, table)
    bars = ([row[0] for row in table], [row[2] for row in table])
    axes = ("", "x python -c pass")
    bench.results.plot("memory", "Largest resident size", axes, {"x bare": bars}, kind="bar")
    return broken


def _watcher(bench: Bench) -> int:
    """Return a follower's resident sizes during heartbeats, and whether they grow."""
    path = bench.place / "hot"
    words = bench.tugcode("state", "log", "bench", "--follow", "--json", "-C", str(path))
    follower = subprocess.Popen(words, env=bench.environment, stdout=subprocess.PIPE)
    assert follower.stdout is not None
    events, sizes, seen = 200 if bench.options.quick else 2000, [], 0
    try:
        changer = subprocess.Popen(
            [bench.python, str(Path(__file__).with_name("claims.py")), "beat", str(path),
             str(events)], env=bench.environment, stdout=subprocess.DEVNULL)  # fmt: skip
        for line in follower.stdout:
            seen += b'"kind": "release"' in line
            if seen % (events // 20) == 0 and len(sizes) < seen // (events // 20):
                sizes.append(_resident(follower.pid))
            if seen >= events:
                break
        assert changer.wait() == 0
    finally:
        follower.send_signal(signal.SIGTERM)
        follower.communicate()
    growth = sizes[-1] / sizes[1]
    verdict = budgets.verdict(growth, MOST_GROWTH)
    print(f"\na follower after {events:,} events / after {events // 10:,}: {growth:.3f}, {verdict}")
    rows = [(f"after {(n + 1) * events // 20:,}", sizes[n] / 1024) for n in (1, 9, 19)]
    bench.results.table("memory-watcher", "Memory of a watcher", WATCH, ("events", "MB"), rows)
    return int(growth > MOST_GROWTH)


def _resident(pid: int) -> int:
    """Return the resident size in kilobytes; 0 if there is no such file."""
    done = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True)
    return int(done.stdout or 0)


if __name__ == "__main__":
    sys.exit(main())
