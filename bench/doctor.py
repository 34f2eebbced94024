"""Compare `tugcode doctor` with a bare interpreter in a healthy repository.

    python bench/doctor.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

A repository with 20 recorded plans of 60 steps, and worktrees for five of them. CPU time of
whole processes with git and the measured starts; exit status 1 if a budget is broken or doctor
finds anything. `--self-test` adds a slow one, which must be caught.
"""

import sys
from pathlib import Path

import harness
import shapes
from harness import Budget, Row

PLANS, STEPS, WORKTREES = 20, 60, 5
#: A bare start takes some 10 to 15 ms: even the gate is well under a second.
BUDGET = Budget(20, 30)
NOTE = (
    f"CPU time of `tugcode doctor` in a healthy repository with {PLANS} plans of {STEPS} steps and "
    f"{WORKTREES} worktrees, git's and the starts that it measures included, beside a bare start."
    " It is over its target because of git, which it asks about every worktree and branch, and of "
    "the bare starts that it measures itself."
)


def main() -> int:
    with harness.bench(__doc__, rounds=15, quick=3) as bench:
        tugcode, env = str(bench.binaries / "tugcode"), bench.environment
        repository = _prepare(bench.place / "repository", tugcode, env)
        said = harness.run([tugcode, "doctor"], env, repository)
        assert said.startswith("healthy, ") or "\nhealthy, " in said, said
        words = [tugcode, "doctor"]
        rows = [
            Row(harness.BARE, [bench.python, "-c", "pass"]),
            Row(f"doctor, {PLANS} plans", words, BUDGET),
            Row(f"doctor --fix, {PLANS} plans", [*words, "--fix"], BUDGET),
        ]
        if bench.options.self_test:
            line = f'"{tugcode}" doctor; "{tugcode}" doctor; "{tugcode}" doctor'
            rows.append(Row("slow on purpose", ["/bin/sh", "-c", line], BUDGET, True))
        times = harness.measure(rows, bench.options.rounds, bench.options.seed, repository, env)
        results = harness.compare(rows, times)
        harness.show(results)
        harness.tell(bench.results, "doctor", "Looking for what is wrong", NOTE, results)
    return harness.judge(results)


def _prepare(path: Path, tugcode: str, environment: dict[str, str]) -> Path:
    text = shapes.plan("diamonds", STEPS)
    harness.repository(path, text, environment)
    for number in range(1, PLANS):
        (path / ".tugtool" / f"tugplan-bench{number}.md").write_text(text)
    harness.run([tugcode, "init"], environment, path)
    harness.run(["git", "add", "--all"], environment, path)
    harness.run(["git", "commit", "--quiet", "--message=plans"], environment, path)
    for number, file in enumerate(sorted((path / ".tugtool").glob("tugplan-bench*.md"))):
        words = ["worktree", "create"] if number < WORKTREES else ["state", "init"]
        harness.run([tugcode, *words, str(file)], environment, path)
    return path


if __name__ == "__main__":
    sys.exit(main())
