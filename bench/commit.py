"""Compare `tugcode commit` with the same `git add` and `git commit` in a bare script.

    python bench/commit.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

Both commit one changed file in a repository of fifty in each round of the same run: CPU time
of whole processes with their git processes, as in `harness.py`. Exit status 1 if the budget
is broken. `--self-test` plants an import that ours must not have, and fails unless it is
caught.
"""

import os
from collections.abc import Callable
from pathlib import Path

import claims
import harness
import shapes
from harness import Budget, Row

from tugtool import state
from tugtool.state.claims import Request
from tugtool.store import open_store

BUDGET = Budget(1.5, 1.6)
FILES = 50
NOTE = (
    "CPU time, git's included, of `tugcode commit` (message, trailers, log, step completed) and of "
    "`git add`, `git commit` by a bare script: one changed file in a repository of fifty."
)
BARE = "git add, git commit by a script"
#: The same work without Tugtool.
SCRIPT = """\
import subprocess
subprocess.run(["git", "add", "--all"], check=True)
subprocess.run(["git", "commit", "--quiet", "--message", "feat: work"], check=True)
"""


def main() -> int:
    with harness.bench(__doc__, rounds=40, quick=5) as bench:
        rounds, seed = bench.options.rounds, bench.options.seed
        plant, env = bench.options.self_test, bench.environment
        rows = _rows(bench.place, bench.binaries, env, rounds, plant=plant)
        times = harness.measure(rows, rounds, seed, bench.place, env)
        results = harness.compare(rows, times, BARE)
        harness.show(results)
        harness.tell(bench.results, "commit", "Committing a step", NOTE, results)
        return harness.judge(results)


def _rows(
    place: Path, binaries: Path, environment: dict[str, str], rounds: int, *, plant: bool
) -> list[Row]:
    each = rounds + 1
    repository = _repository(place / "repository", binaries, environment, 2 * each)
    bare, ours = (_worktree(repository, name, environment) for name in ("bare", "ours"))
    script = [str(binaries / "python"), "-c", SCRIPT]
    rows = [Row(BARE, _changed(bare, lambda _: script))]
    tugcode = str(binaries / "tugcode")
    rows.append(Row("tugcode commit --json", _changed(ours, _commit(tugcode, ours, 0)), BUDGET))
    if plant:
        slow = harness.planted(binaries, "slow", [], BUDGET)
        argv = _changed(ours, _commit(slow.argv[0], ours, each))
        rows.append(Row("tugcode commit, slow on purpose", argv, BUDGET, True))
    _hold(repository, ours, 2 * each)
    return rows


def _repository(path: Path, binaries: Path, environment: dict[str, str], steps: int) -> Path:
    harness.repository(path, shapes.plan("free", steps), environment)
    for number in range(FILES):
        (path / f"file-{number}").write_text("x\n" * 20)
    for words in (["add", "--all"], ["commit", "--quiet", "--message", "start"]):
        harness.run(["git", *words], environment, path)
    harness.run([str(binaries / "tugcode"), "state", "init", "bench"], environment, path)
    return path


def _worktree(repository: Path, name: str, environment: dict[str, str]) -> Path:
    path = repository / ".tugtree" / name
    words = ["worktree", "add", "--quiet", "-b", name, str(path)]
    harness.run(["git", *words], environment, repository)
    return path


def _hold(repository: Path, worktree: Path, count: int) -> None:
    """Claim the steps that will be committed, and close their items."""
    store = open_store(f"sqlite://{repository}/.tugtool/state.db")
    copy = claims.copy_of(str(repository))
    owner = str(worktree)
    for n in range(count):
        state.claim(store, claims.PLAN, Request(owner, also=True), copy=copy, step=f"step-{n}")
        done = [{"kind": "task", "ordinal": 0, "status": "completed"}]
        state.update(store, claims.PLAN, f"step-{n}", done, owner=owner, copy=copy)


def _commit(command: str, worktree: Path, first: int) -> Callable[[int], list[str]]:
    def argv(n: int) -> list[str]:
        words = ["--plan", "bench", "--step", f"step-{first + n}", "--message", "feat: work"]
        return [command, "-C", str(worktree), "commit", *words, "--json"]

    return argv


def _changed(worktree: Path, argv: Callable[[int], list[str]]) -> Callable[[int], list[str]]:
    """Change a file, and then run the command."""

    def change(n: int) -> list[str]:
        (worktree / f"file-{n % FILES}").write_text(f"{n}\n" * 20)
        os.chdir(worktree)
        return argv(n)

    return change


if __name__ == "__main__":
    raise SystemExit(main())
