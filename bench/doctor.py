"""What `tugcode doctor` costs beside a bare interpreter, where all is well.

    python bench/doctor.py [--rounds N] [--seed N] [--self-test]

A repository with 20 plans of 60 steps, all recorded, and a worktree for five of them. CPU time
of whole processes, git's and the measured starts included; exit status 1 if a budget is broken
or doctor has anything to say. `--self-test` adds one that is slow on purpose, and must be caught.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

import harness
import shapes
from harness import Budget, Row

PLANS, STEPS, WORKTREES = 20, 60, 5
#: A bare start is some 10 to 15 ms: even the gate is well under a second.
BUDGET = Budget(20, 30)


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="tugtool-doctor-") as name:
        place = Path(name).resolve()
        environment = harness.environment(place) | {
            f"GIT_{who}_{what}": "bench@example.invalid"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        binaries = harness.install(place / "venv", environment)
        tugcode = str(binaries / "tugcode")
        repository = _prepare(place / "repository", tugcode, environment)
        said = harness.run([tugcode, "doctor"], environment, repository)
        assert said.startswith("healthy, ") or "\nhealthy, " in said, said
        words = [tugcode, "doctor"]
        rows = [
            Row(harness.BARE, [str(binaries / "python"), "-c", "pass"]),
            Row(f"doctor, {PLANS} plans", words, BUDGET),
            Row(f"doctor --fix, {PLANS} plans", [*words, "--fix"], BUDGET),
        ]
        if options.self_test:
            line = f'"{tugcode}" doctor; "{tugcode}" doctor; "{tugcode}" doctor'
            rows.append(Row("slow on purpose", ["/bin/sh", "-c", line], BUDGET, True))
        print(f"{options.rounds} rounds, seed {options.seed}, {harness.versions(binaries)}\n")
        times = harness.measure(rows, options.rounds, options.seed, repository, environment)
    results = harness.compare(rows, times)
    harness.show(results)
    return harness.judge(results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, metavar="N")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), metavar="N")
    parser.add_argument("--self-test", action="store_true", help="plant what must be caught")
    return parser.parse_args()


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
