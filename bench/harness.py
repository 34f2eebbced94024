"""Shared parts of the benchmarks: a fresh installation, fair rounds, ratios, and a verdict.

CPU time of whole processes, user and system, children included. Every command runs once
per round, in a new order each time, so that other load on the machine hits all alike.
"""

import argparse
import compileall
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import budgets
from results import Results

PROJECT = Path(__file__).resolve().parent.parent
BARE = "python -c pass"
#: An installation that several benchmarks share; `run.py` makes it once for all of them.
SHARED = "TUG_BENCH_INSTALLED"
IDENTITY = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "bench"), ("EMAIL", "bench@example.invalid"))
}


class Budget(NamedTuple):
    """A ratio of medians to the bare interpreter: the target, and the limit."""

    target: float
    gate: float


class Row(NamedTuple):
    """One command to measure, or one for every round; only some have a budget.

    `given` is a file for its standard input, `ends` its expected exit status.
    """

    name: str
    argv: list[str] | Callable[[int], list[str]]
    budget: Budget | None = None
    is_planted: bool = False
    given: str = os.devnull
    ends: int = 0


class Result(NamedTuple):
    """CPU times of one command in milliseconds, and its ratios to the bare interpreter."""

    row: Row
    least: float
    median: float
    by_least: float
    by_median: float

    @property
    def is_over(self) -> bool:
        return self.row.budget is not None and self.by_median > self.row.budget.gate

    @property
    def verdict(self) -> str:
        if self.row.budget is None:
            return ""
        target, gate = self.row.budget
        return budgets.verdict(self.by_median, gate, target)


class Bench(NamedTuple):
    """The directories, options and findings of a benchmark."""

    place: Path
    binaries: Path
    environment: dict[str, str]
    options: argparse.Namespace
    results: Results

    @property
    def python(self) -> str:
        return str(self.binaries / "python")

    def tugcode(self, *words: str) -> list[str]:
        return [str(self.binaries / "tugcode"), *words]

    def inside(self, script: str, *words: str) -> str:
        """Run one of the scripts here with the installed package, and return its output."""
        argv = [self.python, str(PROJECT / "bench" / script), *words]
        return run(argv, self.environment)

    def repository(self, name: str, plan: str, *, recorded: bool = True) -> Path:
        """Make a repository with one plan, `tugplan-bench.md`, and record the plan."""
        path = repository(self.place / name, plan, self.environment)
        if recorded:
            run(self.tugcode("state", "init", "bench"), self.environment, path)
        return path


@contextmanager
def bench(doc: str | None, *, rounds: int, quick: int) -> Iterator[Bench]:
    """Install the package and yield a place to measure in; save the findings at the end."""
    chosen = options(doc, rounds=rounds, quick=quick)
    with tempfile.TemporaryDirectory(prefix="tugtool-bench-") as name:
        place = Path(name).resolve()
        env = environment(place) | IDENTITY
        binaries = install(place / "venv", env)
        print(f"{chosen.rounds} rounds, seed {chosen.seed}, {versions(binaries)}\n", flush=True)
        results = Results()
        yield Bench(place, binaries, env, chosen, results)
        if not chosen.self_test:
            results.save(chosen.results)


def options(doc: str | None, *, rounds: int, quick: int) -> argparse.Namespace:
    """Parse the options of every benchmark."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, smaller plans")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"{rounds}; {quick} if quick")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), metavar="N")
    parser.add_argument("--self-test", action="store_true", help="plant what must be caught")
    parser.add_argument("--results", metavar="FILE", help="write what was found there, as JSON")
    chosen = parser.parse_args()
    chosen.rounds = chosen.rounds or (quick if chosen.quick else rounds)
    return chosen


def environment(place: Path) -> dict[str, str]:
    """Return our environment without variables that change start-up or the repository."""
    foreign = ("PYTHON", "GIT_", "TUGCODE_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    settled = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "TUGCODE_TRUST": "1"}
    return kept | settled | {"HOME": str(place)}


def install(venv: Path, env: dict[str, str]) -> Path:
    """Install the project as people do: as a compiled wheel, not a link to the sources."""
    if shared := os.environ.get(SHARED):
        return Path(shared)
    python = venv / "bin" / "python"
    # Without pip and setuptools, whose .pth file every start would read.
    run([sys.executable, "-m", "venv", "--without-pip", str(venv)], env)
    run([*pip(python), str(PROJECT)], env)
    packages = next(venv.glob("lib/python*/site-packages"))
    compileall.compile_dir(packages, quiet=1)
    sources = list((packages / "tugtool").rglob("*.py"))
    compiled = list((packages / "tugtool").rglob("*.pyc"))
    assert sources, "the package was linked, not installed"
    assert len(compiled) == len(sources), "the package is not compiled"
    return python.parent


def pip(python: Path) -> list[str]:
    """Return the command that installs packages for an interpreter without pip."""
    command = [sys.executable, "-m", "pip", "--python", str(python), "install"]
    return [*command, "--quiet", "--disable-pip-version-check"]


def repository(path: Path, plan: str, env: dict[str, str]) -> Path:
    """Make a repository with one plan, `tugplan-bench.md`."""
    run(["git", "init", "--quiet", "--template=", str(path)], env)
    (path / ".tugtool").mkdir()
    (path / ".tugtool" / "tugplan-bench.md").write_text(plan)
    return path


def run(argv: list[str], env: dict[str, str], cwd: Path | None = None) -> str:
    """Return the standard output of a command that must succeed."""
    done = subprocess.run(argv, env=env, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def planted(binaries: Path, name: str, words: list[str], budget: Budget) -> Row:
    """Return the same command with a launcher that imports what ours must not."""
    shebang, rest = (binaries / "tugcode-python").read_text().split("\n", 1)
    slow = binaries / "tugcode-slow"
    slow.write_text(f"{shebang}\nimport argparse, asyncio\n{rest}")
    slow.chmod(0o755)
    return Row(name, [str(slow), *words], budget, True)


def versions(binaries: Path) -> str:
    """Return the measured versions in one line."""
    lines = run([str(binaries / "tugcode"), "version"], dict(os.environ)).splitlines()
    return ", ".join(" ".join(line.split()[:2]) for line in lines)


def measure(
    rows: list[Row], rounds: int, seed: int, cwd: Path, env: dict[str, str]
) -> dict[str, list[float]]:
    """Return the CPU milliseconds of every command in every round, after a warm-up."""
    os.chdir(cwd)
    times: dict[str, list[float]] = {row.name: [] for row in rows}
    for row in rows:
        _cpu_milliseconds(row, 0, env)
    shuffle = random.Random(seed).shuffle
    for number in range(1, rounds + 1):
        order = list(rows)
        shuffle(order)
        for row in order:
            times[row.name].append(_cpu_milliseconds(row, number, env))
    os.chdir(PROJECT)
    return times


def _cpu_milliseconds(row: Row, number: int, env: dict[str, str]) -> float:
    argv = row.argv if isinstance(row.argv, list) else row.argv(number)
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, row.given, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    ]
    if row.ends:
        streams.append((os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0))
    child = os.posix_spawn(argv[0], argv, env, file_actions=streams)
    # Of this child and of all that it waited for, so its git processes count.
    _, status, usage = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status) != row.ends:
        raise SystemExit(f"{row.name}: exit status {os.waitstatus_to_exitcode(status)}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def compare(rows: list[Row], times: dict[str, list[float]], beside: str = BARE) -> list[Result]:
    """Compare every command with the bare interpreter, or with another command."""
    bare_least, bare_median = min(times[beside]), statistics.median(times[beside])
    results = []
    for row in rows:
        least, median = min(times[row.name]), statistics.median(times[row.name])
        results.append(Result(row, least, median, least / bare_least, median / bare_median))
    return results


def show(results: list[Result]) -> None:
    """Print the table."""
    print(f"{'CPU time':<37}{'min ms':>8}{'median':>8}{'x min':>7}{'x median':>10}")
    for result in results:
        numbers = f"{result.least:8.1f}{result.median:8.1f}"
        ratios = f"{result.by_least:7.2f}{result.by_median:10.2f}"
        print(f"{result.row.name:<37}{numbers}{ratios}  {result.verdict}".rstrip())


def tell(found: Results, id: str, title: str, note: str, results: list[Result]) -> None:
    """Save the table for the page, without planted commands."""
    rows = [
        (each.row.name, each.by_median, *(each.row.budget or (None, None)), each.verdict)
        for each in results
        if not each.row.is_planted
    ]
    found.table(id, title, note, ("what", "x", "target", "gate", "verdict"), rows)


def judge(results: list[Result]) -> int:
    """Return 1 if a budget is broken or a planted slow command was not caught."""
    slow = [result for result in results if result.row.is_planted]
    if slow:
        caught = all(result.is_over for result in slow)
        said = "passed: the slow command was caught" if caught else "failed: it was not caught"
        print(f"\nself-test {said}")
    return int(any(result.is_over != result.row.is_planted for result in results))
