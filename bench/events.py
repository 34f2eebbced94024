"""Measure how fast events reach a follower.

    python bench/events.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

A process claims steps and gives them back as fast as it can, while `state log --follow` prints: are
all events printed, and in time? Then single events with pauses: how long until each is printed,
beside how often a follower looks. Exit status 1 if a budget is broken. `--self-test` reads
from a follower that is stopped for a while, and fails unless that is caught.
"""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import budgets
import claims
import harness
import shapes
from harness import Bench

from tugtool import state
from tugtool.state.claims import Request
from tugtool.store import open_store
from tugtool.store.sqlite import LOOK_SECONDS

#: The share of the whole time between the last event and its line.
MOST_BEHIND = 0.25
#: Median time until an event is printed, in looks of a follower.
MOST_LOOKS = 4.0
NOTE = (
    "One process changes steps as fast as it can, without waiting for the disk; another follows "
    "with `state log --follow --json`. Behind: how long after the last change its event was told, "
    "as a part of the whole time. Both share the machine's cores."
)
DELAY = (
    "Single changes with pauses: from the commit to the line at the reader. A follower looks "
    f"every {LOOK_SECONDS * 1000:.0f} ms, so half of that is the least that the median can be."
)


def main() -> int:
    with harness.bench(__doc__, rounds=30, quick=5) as bench:
        plant = bench.options.self_test
        broken = _rate(bench)
        late = _delay(bench, plant=plant)
        if plant:
            print(f"self-test: the stopped follower is {'caught' if late else 'NOT caught'}")
            late = 1 - late
        broken += late
    print(f"\n{broken} budgets broken" if broken else "\nevery budget is kept")
    return 1 if broken else 0


def _follower(bench: Bench, path: Path) -> subprocess.Popen[bytes]:
    words = bench.tugcode("state", "log", "bench", "--follow", "--json", "-C", str(path))
    return subprocess.Popen(words, env=bench.environment, stdout=subprocess.PIPE)


def _end(follower: subprocess.Popen[bytes]) -> None:
    follower.send_signal(signal.SIGCONT)
    follower.kill()
    follower.communicate()


def _rate(bench: Bench) -> int:
    path = bench.repository("rate", shapes.plan("free", 10))
    turns = 300 if bench.options.quick else 3000
    follower = _follower(bench, path)
    assert follower.stdout is not None
    try:
        # The first line is the plan's own event: now it follows.
        assert b'"init"' in follower.stdout.readline()
        script = str(Path(__file__).with_name("claims.py"))
        words = [bench.python, script, "beat", str(path), str(turns)]
        changer = subprocess.Popen(words, env=bench.environment, stdout=subprocess.PIPE)
        told = 0
        while told < 3 * turns:
            told += len(json.loads(follower.stdout.readline())["data"]["events"])
        told_at = time.perf_counter()
        said, _ = changer.communicate()
    finally:
        _end(follower)
    # All processes of the machine share this clock.
    begun, changed_at = (float(json.loads(said)[key]) for key in ("begun", "ended"))
    behind = max(0.0, told_at - changed_at) / (told_at - begun)
    rate = told / (told_at - begun)
    verdict = budgets.verdict(behind, MOST_BEHIND)
    print(f"{told:,} events followed: {rate:,.0f} a second, {behind:.2f} behind, {verdict}")
    columns = ("events", "events/s", "behind", "gate", "verdict")
    row = (told, round(rate), behind, MOST_BEHIND, verdict)
    bench.results.table("events", "Following what happens", NOTE, columns, [row])
    return int(behind > MOST_BEHIND)


def _delay(bench: Bench, *, plant: bool) -> int:
    path = bench.repository("delay", shapes.plan("free", 10))
    store, copy = open_store(f"sqlite://{path}/.tugtool/state.db"), claims.copy_of(str(path))
    follower = _follower(bench, path)
    assert follower.stdout is not None
    chance = random.Random(bench.options.seed)
    delays = []
    try:
        follower.stdout.readline()
        request = Request("one", max_attempts=10**9)
        for _ in range(bench.options.rounds):
            # At any moment between two looks.
            time.sleep(0.1 + chance.random() * LOOK_SECONDS)
            state.claim(store, claims.PLAN, request, copy=copy)
            if plant:
                _stop_for(follower, 0.5)
            begun = time.perf_counter()
            follower.stdout.readline()
            delays.append(time.perf_counter() - begun + (0.5 if plant else 0))
            state.release(store, claims.PLAN, "step-0", owner="one")
            follower.stdout.readline()
    finally:
        _end(follower)
    looks = statistics.median(delays) / LOOK_SECONDS
    verdict = budgets.verdict(looks, MOST_LOOKS)
    worst = max(delays) / LOOK_SECONDS
    print(f"an event is told after {looks:.2f} looks, at worst {worst:.1f}, {verdict}")
    columns = ("from the commit to the line", "looks, median", "worst", "gate", "verdict")
    row = ("`state log --follow --json`", looks, worst, MOST_LOOKS, verdict)
    bench.results.table("events-delay", "How soon an event is told", DELAY, columns, [row])
    return int(looks > MOST_LOOKS)


def _stop_for(follower: subprocess.Popen[bytes], seconds: float) -> None:
    os.kill(follower.pid, signal.SIGSTOP)
    time.sleep(seconds)  # the fault itself
    os.kill(follower.pid, signal.SIGCONT)


if __name__ == "__main__":
    sys.exit(main())
