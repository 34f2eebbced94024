"""Measure parsing and checking as plans grow, for every shape that could be slow.

    python bench/parser.py [--quick] [--rounds DOUBLINGS] [--self-test] [--results FILE]

Sizes double, twice unless told (five times lead to the largest plan that is accepted); a time
that more than doubles by far is a fault: exit status 1. A plan of plain steps is always read up
to that size. With
`--self-test` a parser that is quadratic on purpose is measured, and must be caught.
"""

import gc
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import budgets
import harness
from results import Results

from support.plan_shapes import SHAPES, STEP, numbered
from tugtool.plan import parser, rules

SMALLEST, LARGEST = 1 << 18, 1 << 23
#: Twice the text may take a bit more than twice the time: caches, the garbage collector.
MOST_RATIO = 2.5
#: Below this the clock and the machine decide, not the parser.
LEAST_SECONDS = 0.02
ENOUGH_SECONDS = 0.5
#: Larger plans are refused; at this size, an ordinary one must not take long.
MOST_SECONDS_FOR_PLAIN_STEPS = 8.0

NOTE = (
    "CPU time of parsing and of every rule for texts that double, in every shape that could make "
    "it slow; plain steps up to the largest plan that is accepted, 8 MB. Linear is a growth of 2; "
    "it is 0 where all of it was too short to be timed."
)
#: Other load may slow one size and not the next: measure again.
ATTEMPTS = 3

Work = Callable[[str], object]
Shape = Callable[[int], str]


def judge(text: str) -> object:
    """Do everything that `tugcode validate` does with a text."""
    return rules.check(parser.parse(text), "strict")


def quadratic(text: str) -> object:
    """Parse with a fault: begin anew at every line."""
    at = text.find("\n")
    while at >= 0:
        text[at:].count("#")
        at = text.find("\n", at + 1)
    return None


def seconds(work: Work, text: str) -> float:
    """Return the CPU time of the fastest of three rounds; of fewer if one takes seconds."""
    times: list[float] = []
    while len(times) < 3 and sum(times) < ENOUGH_SECONDS:
        gc.collect()
        before = time.process_time()
        work(text)
        times.append(time.process_time() - before)
    return min(times)


def measure(work: Work, shape: Shape, largest: int) -> list[float]:
    """Return times for sizes that double from SMALLEST to `largest`."""
    times: list[float] = []
    for _ in range(ATTEMPTS):
        size, again = SMALLEST, []
        while size <= largest:
            again.append(seconds(work, shape(size)))
            size *= 2
        times = [min(pair) for pair in zip(times, again, strict=True)] if times else again
        if worst_ratio(times) <= MOST_RATIO:
            break
    return times


def worst_ratio(times: list[float]) -> float:
    """Return the largest growth for a doubling, of times long enough to tell."""
    told = [after / before for before, after in pairwise(times) if before >= LEAST_SECONDS]
    return max(told, default=0.0)


def report(name: str, times: list[float]) -> bool:
    """Print one row. Return whether it is as it should be."""
    ratio = worst_ratio(times)
    fine = ratio <= MOST_RATIO
    row = " ".join(f"{each * 1000:8.1f}" for each in times)
    print(f"{name:28} {row}  {ratio:5.2f}{'' if fine else '  TOO SLOW'}", flush=True)
    return fine


def self_test(largest: int) -> int:
    """Return whether the planted fault is caught and the real parser passes."""
    plain = numbered(STEP)
    caught = not report("planted: quadratic", measure(quadratic, plain, largest))
    passed = report("the parser", measure(judge, plain, largest))
    print("the planted fault is caught" if caught else "the planted fault is NOT caught")
    return 0 if caught and passed else 1


def main() -> int:
    """Print the table. Return 1 if anything grows too fast."""
    chosen, results = harness.options(__doc__, rounds=2, quick=1), Results()
    if chosen.self_test:
        return self_test(2 * SMALLEST)
    usual = SMALLEST << chosen.rounds
    print(f"milliseconds for {SMALLEST >> 10} KB and each doubling, then the worst ratio")
    slow, rows = [], []
    for name, shape in SHAPES.items():
        largest = LARGEST if name == "plain steps" and not chosen.quick else usual
        times = measure(judge, shape, largest)
        is_fine = report(name, times)
        if not is_fine:
            slow.append(name)
        if (
            largest == LARGEST
            and name == "plain steps"
            and times[-1] > MOST_SECONDS_FOR_PLAIN_STEPS
        ):
            slow.append(f"{name} ({times[-1]:.1f} s)")
        pace = (largest >> 10) / 1024 / times[-1]
        ratio = worst_ratio(times)
        rows.append((name, pace, ratio, MOST_RATIO, budgets.verdict(ratio, MOST_RATIO)))
    print(f"too slow: {', '.join(slow)}" if slow else "all shapes are linear")
    columns = ("text", "MB/s of CPU", "worst growth for a doubling", "gate", "verdict")
    results.table("parser", "Reading and checking a plan", NOTE, columns, rows)
    results.save(chosen.results)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
