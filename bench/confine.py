"""Measure what it costs to confine an agent: the start of a command with and without it.

    python bench/confine.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

Starts `true` through the same function as agents, in turns free and confined, in one process as
`implement` is one. Exit status 1 if the budget is broken. `--self-test` confines with thousands of
places, and fails unless that is caught.
"""

import json
import os
import statistics
import sys
import time

import budgets
import harness

from tugtool.system import command
from tugtool.system.command import Streams
from tugtool.system.confinement import Confinement

NOTE = (
    "Wall time of the start of an agent's process, in milliseconds: the median of the differences "
    "between a confined start and a free one beside it. Landlock's rules are made anew each time."
)
#: The places of a confined coder with a client and some caches.
PLACES = 20
#: So many that the rules take long.
PLANTED_PLACES = 5_000


def main() -> int:
    if sys.argv[1:2] == ["inside"]:
        return _inside(*map(int, sys.argv[2:4]), sys.argv[4])
    with harness.bench(__doc__, rounds=100, quick=20) as bench:
        places = PLANTED_PLACES if bench.options.self_test else PLACES
        said = bench.inside(
            "confine.py", "inside", str(bench.options.rounds), str(places), str(bench.place)
        )
        free, confined, more = json.loads(said)
        rows = [("free", free), ("confined", confined), ("difference", more)]
        bench.results.table("confine", "Confining an agent", NOTE, ("start", "ms"), rows)
        status = bench.results.figure("confine", more)
    if bench.options.self_test:
        caught = budgets.PUBLISHED["confine"].is_broken(more)
        print(f"\nself-test {'passed: it was caught' if caught else 'failed: it was not caught'}")
        return int(not caught)
    return status


def _inside(rounds: int, places: int, place: str) -> int:
    """Measure with the installed package, and print the medians."""
    paths = [os.path.join(place, f"place-{number}") for number in range(places)]
    for path in paths:
        os.makedirs(path, exist_ok=True)
    how = Confinement("coder", tuple(paths))
    pairs = [(_milliseconds(place, None), _milliseconds(place, how)) for _ in range(rounds)]
    free, confined = (statistics.median(each) for each in zip(*pairs, strict=True))
    print(json.dumps([free, confined, statistics.median(b - a for a, b in pairs)]))
    return 0


def _milliseconds(place: str, how: Confinement | None) -> float:
    begun = time.perf_counter()
    child = command.start(["true"], cwd=place, streams=Streams.keep(), confined=how)
    took = time.perf_counter() - begun
    with child:
        child.wait()
    return took * 1000


if __name__ == "__main__":
    sys.exit(main())
