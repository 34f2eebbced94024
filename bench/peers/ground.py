"""One run: its directories, its findings, and what cannot be measured here."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import harness

from peers import npm_tools, pypi_tools, queues, tables, tool
from peers.contests import Contest
from peers.judging import Findings
from peers.ours import Tugcode
from peers.processes import Caller, Refused

HERE = Path(__file__).resolve().parent
PEERS = harness.PROJECT / ".peers"
CONTENDERS = 12
NPM = (npm_tools.Backlog, npm_tools.Dex, npm_tools.Taskmaster)
Found = TypeVar("Found")


class Ground:
    """The shared parts of a run."""

    def __init__(self, place: Path, options: argparse.Namespace) -> None:
        self.place, self.quick, self.seed = place, options.quick, options.seed
        #: A very slow tool gets no more rounds than this.
        self.least = 1 if self.quick else 2
        home = harness.environment(place)
        self.environment = tool.environment(home)
        self.ours = harness.install(place / "venv", home)
        self.python = str(PEERS / "python" / "bin" / "python")
        self.contest = Contest(place, CONTENDERS, 1 if self.quick else 10, self.least, 45)
        self.found = Findings([], [], [], [])
        self.tables: list[tables.Table] = []
        self.plots: list[tables.Table] = []
        wanted = options.only and {Tugcode.name, *options.only}
        self.tools = [each for each in self._tools() if not wanted or each.name in wanted]
        self.queues = [
            name for name in queues.OPEN if not wanted or name.partition(",")[0] in wanted
        ]
        self._failed = _not_installed()

    def _tools(self) -> list[tool.Tool]:
        binaries = PEERS / "node_modules" / ".bin"
        npm = [make(binaries, self.environment) for make in NPM]
        taskmd = pypi_tools.Taskmd(PEERS / "python" / "bin", self.environment)
        return [Tugcode(self.ours, self.environment), *npm, taskmd]

    def caller(self) -> Caller:
        """Return the caller for interpreters that run `queues.py`."""
        return Caller(self.place, {**self.environment, "PYTHONPATH": str(HERE.parent)})

    def tried(self, name: str, once: Callable[[], Found]) -> tuple[Found | None, str]:
        """Return the result, or the installer's or tool's message if it cannot run here."""
        try:
            return once(), ""
        except (Refused, OSError, ValueError, LookupError) as error:
            return None, self._failed.get(name.partition(",")[0], f"not run: {error}")

    def add(
        self, name: str, title: str, note: str, columns: list[str], rows: list[tables.Row]
    ) -> None:
        """Add and print a table."""
        made = tables.table(name, title, note, columns, rows)
        self.tables.append(made)
        lines = (" | ".join(map(str, row)) for row in [columns, *rows])
        print(f"\n{title}", *lines, sep="\n", flush=True)


def _not_installed() -> dict[str, str]:
    """Return peer -> the command that failed and its message."""
    file = PEERS / "failed"
    lines = file.read_text().splitlines() if file.exists() else []
    found = {}
    for line in lines:
        pinned, said = line.split(": ", 1)
        found[package(pinned)[0].rpartition("/")[2]] = f"not installed: {said}"
    return found


def package(pinned: str) -> tuple[str, str]:
    """Return name and version of `name@1.2` or `name==1.2`."""
    name, _, version = pinned.replace("==", "@").rpartition("@")
    return name, version
