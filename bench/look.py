"""Measure reading: `show` grows with its output, and watchers do not slow down workers.

    python bench/look.py [--quick] [--rounds N] [--self-test] [--results FILE]

`state show` as a whole process on plans of many sizes: CPU time per printed line, without the
fixed cost of a start. Then as many workers as the machine has cores claim and complete
steps, in short blocks: with 20 watchers on terminals of their own, and with the same
watchers stopped, by turns. Exit status 1 if a budget is broken. `--self-test` plants a
`show` that is quadratic and watchers that never rest, and fails unless both are caught.
"""

import os
import pty
import select
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import budgets
import harness
import shapes
from harness import Bench, Row

#: A line of a long picture may cost this much of a line of a short one.
MOST_GROWTH = 1.3
LEAST_LINES = 1000
#: The share that 20 watchers may add to the time of a claim.
MOST_ADDED = 1.05
WATCHERS = 20
#: Works quadratically in the output.
QUADRATIC = "import sys; n = int(sys.argv[1]); print('x\\n' * n); [0 for _ in range(n * n // 4)]"


NOTE = (
    "CPU time of `state show` as a process, beside a picture of one plan with one step (x), and of "
    "a printed line beside that of the plan of 1,000 steps, the start taken off."
)
WATCH = (
    "As many workers as there are cores claim and give back steps by whole processes, in short "
    f"blocks: with {WATCHERS} watchers on terminals of their own, and with the same watchers "
    "stopped, by turns. Medians of the wall time of a claim."
)


def _repository(bench: Bench, name: str, plans: int, steps: int) -> Path:
    """Make a repository with so many recorded plans of so many steps."""
    path = bench.repository(name, shapes.plan("diamonds", steps))
    # Steps are claimed and given back all the time here, which would park them.
    (path / ".tugtool" / "config.toml").write_text("[state]\nmax_attempts = 1000000\n")
    text = (path / ".tugtool" / "tugplan-bench.md").read_text()
    for number in range(1, plans):
        file = path / ".tugtool" / f"tugplan-bench{number}.md"
        file.write_text(text)
        harness.run(bench.tugcode("state", "init", str(file)), bench.environment, path)
    return path


def main() -> int:
    with harness.bench(__doc__, rounds=20, quick=3) as bench:
        broken = _printing(bench, quick=bench.options.quick, plant=bench.options.self_test)
        broken += _watching(bench, bench.options.rounds, plant=False)
        if bench.options.self_test:
            broken += not _watching(bench, bench.options.rounds, plant=True)
    print(f"\n{broken} budgets broken" if broken else "\nevery budget is kept")
    return 1 if broken else 0


def _printing(bench: Bench, *, quick: bool, plant: bool) -> int:
    big = 2000 if quick else 10_000
    shapes_ = {
        "1 plan of 1,000 steps": (1, 1000),
        "1 plan of 60 steps": (1, 60),
        "10 plans of 60 steps": (10, 60),
        f"{big // 100} plans of 60 steps": (big // 100, 60),
        f"1 plan of {big:,} steps": (1, big),
    }
    # The cost of a start: a nearly empty picture.
    least = str(_repository(bench, "show-least", 1, 1))
    rows = [Row(harness.BARE, bench.tugcode("-C", least, "state", "show"))]
    lines: dict[str, int] = {}
    for number, (name, (plans, steps)) in enumerate(shapes_.items()):
        path = _repository(bench, f"show-{number}", plans, steps)
        rows.append(Row(name, bench.tugcode("-C", str(path), "state", "show")))
        lines[name] = harness.run(rows[-1].argv, bench.environment).count("\n")
    if plant:
        slow = [bench.python, "-c", QUADRATIC]
        for count in (1000, 10_000):
            rows.append(Row(f"{count} lines, quadratic on purpose", [*slow, str(count)]))
            lines[rows[-1].name] = count
    times = harness.measure(rows, 3 if quick else 5, 1, bench.place, bench.environment)
    return _per_line(bench, lines, {name: statistics.median(each) for name, each in times.items()})


def _per_line(bench: Bench, lines: dict[str, int], times: dict[str, float]) -> int:
    """Compare each picture's cost per line with that of the plan of 1,000 steps."""
    start = times[harness.BARE]
    costs = {name: (times[name] - start) / count for name, count in lines.items()}
    floor = costs["1 plan of 1,000 steps"]
    print(f"{'state show':<38}{'lines':>8}{'CPU ms':>9}{'us/line':>9}{'x':>7}")
    broken, table = 0, []
    for name, cost in costs.items():
        growth = cost / floor
        planted = "on purpose" in name
        # A short picture has too few lines to measure.
        over = growth > MOST_GROWTH and lines[name] >= LEAST_LINES
        over &= not (planted and lines[name] == 1000)
        broken += over != (planted and lines[name] > 1000)
        verdict = budgets.verdict(growth, MOST_GROWTH if over else None)
        numbers = f"{lines[name]:>8}{times[name]:>9.0f}{cost * 1000:>9.1f}{growth:>7.2f}"
        print(f"{name:<38}{numbers}  {verdict}", flush=True)
        if not planted:
            table.append((name, lines[name], times[name] / start, growth, MOST_GROWTH, verdict))
    columns = ("picture", "lines", "x least", "a line, x of 1,000 steps", "gate", "verdict")
    bench.results.table("look", "Looking at plans", NOTE, columns, table)
    return broken


def _watching(bench: Bench, blocks: int, *, plant: bool) -> int:
    """Measure claims with and without watchers, by turns. Return 1 if watchers cost too much."""
    name = "watch-planted" if plant else "watch"
    path = _repository(bench, name, 1, 60)
    watchers = [_greedy(bench, path) if plant else _watcher(bench, path) for _ in range(WATCHERS)]
    ended = threading.Event()
    reader = threading.Thread(target=_read, args=([each[1] for each in watchers], ended))
    reader.start()
    times: dict[bool, list[list[float]]] = {True: [], False: []}
    try:
        for block in range(2 * blocks):
            watched = block % 2 == 0
            for child, _ in watchers:
                os.kill(child, signal.SIGCONT if watched else signal.SIGSTOP)
            times[watched].append(_block(bench, path, block))
    finally:
        for child, _ in watchers:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        ended.set()
        reader.join()
    added, is_over = _added(times[True], times[False])
    verdict = budgets.verdict(added, MOST_ADDED if is_over else None)
    what = "restless on purpose" if plant else "state show --watch"
    counted = f"{sum(map(len, times[True]))} claims each"
    print(f"\n{WATCHERS} watchers ({what}): a claim takes {added:.3f} times as long, {counted}")
    print(verdict)
    row = (f"{WATCHERS} watchers, `state show --watch`", added, MOST_ADDED, verdict)
    if not plant:
        columns = ("what", "a claim, x without", "gate", "verdict")
        bench.results.table("watching", "Claims while others watch", WATCH, columns, [row])
    return int(is_over)


def _added(watched: list[list[float]], alone: list[list[float]]) -> tuple[float, bool]:
    """Return how much longer a claim takes, and whether that is too much.

    Each block is compared with the next: other load makes some pairs look bad, and others
    good. If a quarter of them look good, the machine is the cause and not the watchers.
    """
    pairs = [
        statistics.median(with_) / statistics.median(without)
        for with_, without in zip(watched, alone, strict=True)
    ]
    added, best = statistics.median(pairs), sorted(pairs)[len(pairs) // 4]
    return added, added > MOST_ADDED and best > 1


def _watcher(bench: Bench, path: Path) -> tuple[int, int]:
    """Start a watcher on its own terminal. Return it and its output."""
    child, terminal = pty.fork()
    if child == 0:
        words = bench.tugcode("-C", str(path), "state", "show", "bench", "--watch")
        os.execve(words[0], words, {**bench.environment, "TERM": "xterm-256color"})
    return child, terminal


def _greedy(bench: Bench, path: Path) -> tuple[int, int]:
    """Start a naive dashboard: the command again and again."""
    child, terminal = pty.fork()
    if child == 0:
        line = f'while :; do "{bench.binaries}/tugcode" -C "{path}" state show bench; done'
        os.execve("/bin/sh", ["sh", "-c", line], bench.environment)
    return child, terminal


def _read(terminals: list[int], ended: threading.Event) -> None:
    while not ended.is_set():
        for terminal in select.select(terminals, [], [], 0.2)[0]:
            try:
                os.read(terminal, 1 << 16)
            except OSError:
                terminals.remove(terminal)


def _block(bench: Bench, path: Path, block: int) -> list[float]:
    """Run one worker per core with a few steps each. Return the time of each claim."""
    found: list[float] = []
    workers = [
        threading.Thread(target=_work, args=(bench, path, f"w{block}-{number}", found))
        for number in range(os.cpu_count() or 2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found


def _work(bench: Bench, path: Path, owner: str, found: list[float]) -> None:
    def tugcode(*words: str) -> None:
        line = bench.tugcode("-C", str(path), "state", *words, "--worktree", owner, "--json")
        subprocess.run(line, env=bench.environment, stdout=subprocess.DEVNULL, check=True)

    for number in range(6):
        begun = time.perf_counter()
        tugcode("claim", "bench", "--request-id", f"{owner}-{number}")
        found.append(time.perf_counter() - begun)
        # Given back, so that there is always one: the claim is measured.
        step = _held(bench, path, owner)
        tugcode("release", "bench", step)


def _held(bench: Bench, path: Path, owner: str) -> str:
    import sqlite3

    database = sqlite3.connect(f"file:{path}/.tugtool/state.db?mode=ro", uri=True)
    question = "select anchor from steps where claimed_by like ? and parent_anchor is null"
    (anchor,) = database.execute(question, (f"%{owner}",)).fetchone()
    database.close()
    return str(anchor)


if __name__ == "__main__":
    sys.exit(main())
