"""What a command costs beside a bare interpreter: CPU time of an installed, compiled package.

    python bench/startup.py [--rounds N] [--seed N] [--self-test]

Installs the project into a fresh virtual environment, makes a repository with one plan,
and runs every command once per round, in a new order each time, so that whatever else
the machine does hits all alike. User and system time, children included; exit status 1
if a budget is broken. `--self-test` adds a command that is slow on purpose and fails
unless it is caught.
"""

import argparse
import compileall
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parent.parent
#: Ratio of medians to the bare interpreter: what we want, and what must not be exceeded.
TARGET, GATE = 1.6, 2.0
BARE = "python -c pass"
PLANTED = "tugcode --help, slow on purpose"

PLAN = """\
## Phase 1.0: Start-up {#phase-startup}

**Purpose:** Measure how long a command takes.

### Plan Metadata {#plan-metadata}

| Field | Value |
|-------|-------|
| Owner | bench |
| Status | active |
| Last updated | 2026-01-01 |

### Phase Overview {#phase-overview}

One step that needs nothing, and one that needs it.

### Execution Steps {#execution-steps}

#### Step 1: Measure {#step-1}

**Commit:** `feat: measure`

**References:** (#phase-overview)

**Tasks:**
- [ ] Run every command

**Tests:**
- [ ] The numbers are there

**Checkpoint:**
- [ ] `true`

#### Step 2: Compare {#step-2}

**Depends on:** #step-1

**Commit:** `feat: compare`

**References:** (#phase-overview)

**Tasks:**
- [ ] Divide by the bare interpreter

**Tests:**
- [ ] The ratios are there

**Checkpoint:**
- [ ] `true`
"""


class Row(NamedTuple):
    """One command to measure; only some have a budget."""

    name: str
    argv: list[str]
    has_budget: bool = False


class Result(NamedTuple):
    """CPU times of one command in milliseconds, and its ratios to the bare interpreter."""

    row: Row
    least: float
    median: float
    by_least: float
    by_median: float

    @property
    def verdict(self) -> str:
        if not self.row.has_budget:
            return ""
        if self.by_median > GATE:
            return f"OVER the budget of {GATE}"
        return (
            "in budget" if self.by_median <= TARGET else f"in budget, over the target of {TARGET}"
        )


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="tugtool-startup-") as name:
        place = Path(name).resolve()
        environment = _environment(place)
        binaries = _install(place / "venv", environment)
        repository = _repository(place / "repository", environment)
        rows = _rows(binaries)
        if options.self_test:
            rows.append(_planted(binaries))
        print(f"{options.rounds} rounds, seed {options.seed}, {_versions(binaries)}\n")
        times = _measure(rows, options.rounds, options.seed, repository, environment)
    results = _compare(rows, times)
    _print(results)
    return _judge(results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40, metavar="N")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), metavar="N")
    parser.add_argument("--self-test", action="store_true", help="plant a slow command")
    return parser.parse_args()


def _environment(place: Path) -> dict[str, str]:
    # PYTHON* would change what an interpreter start costs, GIT_* which repository is meant.
    foreign = ("PYTHON", "GIT_", "TUGCODE_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return kept | {"HOME": str(place), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def _install(venv: Path, environment: dict[str, str]) -> Path:
    """The project as a person installs it: a wheel, not a link to the sources; compiled."""
    python = venv / "bin" / "python"
    # Without pip and setuptools, whose .pth file every start would have to read.
    _run([sys.executable, "-m", "venv", "--without-pip", str(venv)], environment)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install"]
    _run([*pip, "--quiet", "--disable-pip-version-check", str(PROJECT)], environment)
    packages = next(venv.glob("lib/python*/site-packages"))
    compileall.compile_dir(packages, quiet=1)
    sources = list((packages / "tugtool").rglob("*.py"))
    compiled = list((packages / "tugtool").rglob("*.pyc"))
    assert sources, "the package was linked, not installed"
    assert len(compiled) == len(sources), "the package is not compiled"
    return python.parent


def _repository(path: Path, environment: dict[str, str]) -> Path:
    _run(["git", "init", "--quiet", "--template=", str(path)], environment)
    (path / ".tugtool").mkdir()
    (path / ".tugtool" / "tugplan-startup.md").write_text(PLAN)
    return path


def _run(argv: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(
        argv, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def _rows(binaries: Path) -> list[Row]:
    python, tugcode = str(binaries / "python"), str(binaries / "tugcode")
    git = shutil.which("git")
    assert git, "git is not installed"
    return [
        Row(BARE, [python, "-c", "pass"]),
        Row("python -I -S -c pass", [python, "-I", "-S", "-c", "pass"]),
        Row("python -c 'import sqlite3'", [python, "-c", "import sqlite3"]),
        Row("git --version", [git, "--version"]),
        Row("tugcode --help", [tugcode, "--help"], True),
        Row("tugcode validate --help", [tugcode, "validate", "--help"], True),
        Row("tugcode version", [tugcode, "version"], True),
        Row("tugcode --version --json", [tugcode, "--version", "--json"], True),
        Row("tugcode config --json", [tugcode, "config", "--json"]),
        Row("tugcode list --json", [tugcode, "list", "--json"]),
        Row("tugcode validate --json", [tugcode, "validate", "--json"]),
    ]


def _planted(binaries: Path) -> Row:
    """The same command, but its launcher imports what ours must not."""
    shebang, rest = (binaries / "tugcode").read_text().split("\n", 1)
    slow = binaries / "tugcode-slow"
    slow.write_text(f"{shebang}\nimport argparse, asyncio\n{rest}")
    slow.chmod(0o755)
    return Row(PLANTED, [str(slow), "--help"], True)


def _versions(binaries: Path) -> str:
    lines = _run([str(binaries / "tugcode"), "version"], dict(os.environ)).splitlines()
    return ", ".join(" ".join(line.split()[:2]) for line in lines)


def _measure(
    rows: list[Row], rounds: int, seed: int, cwd: Path, environment: dict[str, str]
) -> dict[str, list[float]]:
    """CPU milliseconds of every command in every round, after one to warm up."""
    os.chdir(cwd)
    times: dict[str, list[float]] = {row.name: [] for row in rows}
    for row in rows:
        _cpu_milliseconds(row, environment)
    shuffle = random.Random(seed).shuffle
    for _ in range(rounds):
        order = list(rows)
        shuffle(order)
        for row in order:
            times[row.name].append(_cpu_milliseconds(row, environment))
    os.chdir(PROJECT)
    return times


def _cpu_milliseconds(row: Row, environment: dict[str, str]) -> float:
    nowhere = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    child = os.posix_spawn(row.argv[0], row.argv, environment, file_actions=[nowhere])
    # Of this child and of all that it waited for, so the git it starts is counted.
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{row.name}: exit status {os.waitstatus_to_exitcode(status)}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def _compare(rows: list[Row], times: dict[str, list[float]]) -> list[Result]:
    bare_least, bare_median = min(times[BARE]), statistics.median(times[BARE])
    results = []
    for row in rows:
        least, median = min(times[row.name]), statistics.median(times[row.name])
        results.append(Result(row, least, median, least / bare_least, median / bare_median))
    return results


def _print(results: list[Result]) -> None:
    print(f"{'CPU time':<33}{'min ms':>8}{'median':>8}{'x min':>7}{'x median':>10}")
    for result in results:
        numbers = f"{result.least:8.1f}{result.median:8.1f}"
        ratios = f"{result.by_least:7.2f}{result.by_median:10.2f}"
        print(f"{result.row.name:<33}{numbers}{ratios}  {result.verdict}".rstrip())


def _judge(results: list[Result]) -> int:
    over = {result.row.name for result in results if result.verdict.startswith("OVER")}
    planted = {result.row.name for result in results} & {PLANTED}
    if planted - over:
        print("\nself-test failed: the slow command was not caught")
    elif planted:
        print("\nself-test passed: the slow command was caught")
    return 1 if over != planted else 0


if __name__ == "__main__":
    sys.exit(main())
