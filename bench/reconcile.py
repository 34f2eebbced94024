"""Measure `state reconcile`: its cost depends on its range, not on the history before.

    python bench/reconcile.py [--quick] [--rounds N] [--self-test] [--results FILE]

A plan with 200 step commits at the end of a short history and of one of 10,000 commits, in CPU
time of whole processes. The long one may cost a little more (git looks a few commits further), not
fifty times as much: exit status 1. `--self-test` has it read the whole history as well, and
fails unless that is caught.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import budgets
import harness
from harness import PROJECT
from results import Results

STEPS, SHORT, LONG, MOST_RATIO = 200, 10, 10_000, 1.5
NOTE = f"CPU time of `state reconcile` for {STEPS} step commits at the end of a history."
KEY = ".tugtool/tugplan-work.md"
ENV = {
    **os.environ,
    "PYTHONPATH": str(PROJECT / "src"),
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def run(*argv: str, cwd: Path, given: str = "") -> str:
    done = subprocess.run(
        argv, cwd=cwd, input=given, env=ENV, capture_output=True, text=True, check=True
    )
    return done.stdout


def prepare(directory: Path, length: int) -> None:
    """Make a history, the plan, and a branch with a commit per step."""
    run("git", "init", "--quiet", "--initial-branch=main", ".", cwd=directory)
    steps = "".join(f"\n### Step {n}: Part\n" for n in range(STEPS))
    plan = f"# Work\n{steps}"
    parts = [commit("main", n, "old") for n in range(length)]
    parts.append(commit("main", length, "plan") + f"M 644 inline {KEY}\n{data(plan)}")
    parts.append("reset refs/heads/tugplan/work-20260221\nfrom refs/heads/main\n\n")
    for n in range(STEPS):
        message = f"Work\n\nTug-Step: step-{n}\nTug-Plan: {KEY}\n"
        parts.append(commit("tugplan/work-20260221", length + 1 + n, message))
    run("git", "fast-import", "--quiet", cwd=directory, given="".join(parts))
    run("git", "reset", "--quiet", "--hard", cwd=directory)
    run(sys.executable, "-m", "tugtool", "state", "init", "work", cwd=directory)


def commit(branch: str, when: int, message: str) -> str:
    return f"commit refs/heads/{branch}\ncommitter T <t@x> {when + 1} +0000\n{data(message)}"


def data(text: str) -> str:
    return f"data {len(text)}\n{text}\n"


def cost(directory: Path, *, plant: bool) -> float:
    """Return the CPU seconds of one dry run with git; it must find every step."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = run(
        *(sys.executable, "-m", "tugtool", "state", "reconcile", "work", "--dry-run"),
        cwd=directory,
    )
    for _ in range(3 * plant):
        run("git", "log", "--format=%H %(trailers)", "--name-only", cwd=directory)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert f"{STEPS} commits read, {STEPS} steps would be reconciled" in out, out
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    options, results = harness.options(__doc__, rounds=5, quick=1), Results()
    with tempfile.TemporaryDirectory() as name:
        places = {length: Path(name) / str(length) for length in (SHORT, LONG)}
        for length, place in places.items():
            place.mkdir()
            prepare(place, length)
        times: dict[int, list[float]] = {length: [] for length in places}
        for _ in range(options.rounds):
            for length, place in places.items():
                times[length].append(cost(place, plant=options.self_test))
    least = {length: min(each) for length, each in times.items()}
    for length, seconds in least.items():
        print(f"reconcile of {STEPS} commits behind {length:>6}: {1000 * seconds:.0f} ms")
    ratio = least[LONG] / least[SHORT]
    is_over = ratio > MOST_RATIO
    verdict = budgets.verdict(ratio, MOST_RATIO)
    print(f"ratio {ratio:.2f}, {verdict}")
    row = (f"behind {LONG:,} commits / behind {SHORT}", ratio, MOST_RATIO, verdict)
    columns = ("what", "x", "gate", "verdict")
    results.table("reconcile", "Reading back what git proves", NOTE, columns, [row])
    if not options.self_test:
        results.save(options.results)
    return int(is_over != options.self_test)


if __name__ == "__main__":
    sys.exit(main())
