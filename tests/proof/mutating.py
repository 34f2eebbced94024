"""A pytest plugin that runs tests once per mutant, each time in a child process of its own.

Everything is imported and collected once; then, for each mutant of the job, a fork takes its
predicate away and runs the tests in question until one fails. TUG_MUTANTS_JOB names a JSON
file, mutant -> tests to run (none: all that were collected, the likeliest first). Into the same
file goes what came of it: mutant -> the test that failed, or null; and the tests that fail anyway.
With TUG_MUTANTS_ENGINE=postgres the tests are the same under the same names, on that engine.
"""

import gc
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import mutants
import pytest

from support import engines

TraceFunction = Callable[[FrameType, str, object], object]
#: A test that takes longer than this many seconds is taken for one that does not end.
PATIENCE = 300
#: In a search, for whoever has no time: so many tests for each mutant, and as many at once.
MOST = int(os.environ.get("TUG_MUTANTS_MOST") or 100_000)
SIDE_BY_SIDE = int(os.environ.get("TUG_MUTANTS_SIDE_BY_SIDE") or os.cpu_count() or 1)
ENGINE = os.environ.get("TUG_MUTANTS_ENGINE") or "sqlite"
#: Where mutants are.
HOMES = tuple(f"/tugtool/{name.replace('.', '/')}.py" for name in mutants.MODULES)
#: The two functions through which every statement goes.
RUNS_STATEMENTS = ("SqliteTransaction._ask", "SqliteTransaction.many")


class _Ear:
    """Hears in which phases a test failed."""

    def __init__(self) -> None:
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= {report.when} if report.failed else set()


class _Trial:
    """The tests that were collected, and which of them have killed what."""

    def __init__(self, session: pytest.Session) -> None:
        self.items = {_name(item): item for item in session.items if not _is_unfit(item)}
        self.ear = _Ear()
        session.config.pluginmanager.register(self.ear)
        #: Test -> the statements and functions that it comes to.
        self.touched: dict[str, set[str]] = {}
        self.kills: Counter = Counter()
        #: Statement or function -> the last test that killed a mutant of it.
        self.nearby: dict[str, str] = {}

    def passes(self, name: str) -> bool:
        item = self.items[name]
        self.ear.failed.clear()
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return not self.ear.failed

    def passes_watched(self, name: str) -> bool:
        """The same without a mutant, and with a look at what the test comes to."""
        seen = self.touched[name] = set()

        def lines(frame: FrameType, event: str, _: object) -> TraceFunction:
            place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            seen.add(f"{place}!" if event == "exception" else place)
            return lines

        def calls(frame: FrameType, event: str, _: object) -> TraceFunction | None:
            code = frame.f_code
            if code.co_qualname in RUNS_STATEMENTS:
                seen.add(frame.f_locals["statement"])
            if not code.co_filename.endswith(HOMES):
                return None
            seen.add(code.co_qualname)
            return lines

        sys.settrace(calls)
        try:
            return self.passes(name)
        finally:
            sys.settrace(None)

    def order(self, mutant: mutants.Mutant) -> list[str]:
        """Tests that come to it: the likeliest first, then those that killed its like."""
        near, signs, mark = self.nearby.get(mutant.what), mutant.signs(), f"[{mutant.what}]"
        rank = {
            name: next((n for n, sign in enumerate(signs) if sign in seen), len(signs))
            for name, seen in self.touched.items()
        }
        # A test that is about the statement need not run it.
        found = [n for n in self.items if rank[n] < len(signs) or n.endswith(mark)]
        found.sort(key=lambda n: (_is_slow(self.items[n]), rank[n], n != near, -self.kills[n]))
        return found[:MOST]

    def learn(self, mutant: mutants.Mutant, killer: str | None) -> None:
        if killer is not None:
            self.kills[killer] += 1
            self.nearby[mutant.what] = killer

    def endure(self, mutant: mutants.Mutant, names: list[str], trace: Path) -> None:
        """In the child: take the predicate away, and try one test after the other."""
        # What the parent or a sister has in PostgreSQL is theirs.
        engines.forget()
        quiet = os.open(os.devnull, os.O_RDWR)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        mutant.apply()
        for name in names:
            # Also if the process ends with it, one knows which test it was.
            trace.write_text(name)
            signal.alarm(PATIENCE)
            self.passes(name)
            # What goes wrong before or after it is no merit of the test.
            if "call" in self.ear.failed:
                os._exit(1)
        trace.write_text("")
        os._exit(0)


def _parameters(item: pytest.Item) -> dict[str, object]:
    return getattr(getattr(item, "callspec", None), "params", {})


def _name(item: pytest.Item) -> str:
    """What a test is called on SQLite, which its name does not tell."""
    if _parameters(item).get("engine") != "postgres":
        return item.nodeid
    first, bracket, rest = item.nodeid.partition("[")
    others = [part for part in rest.removesuffix("]").split("-") if part != "postgres"]
    return f"{first}{bracket}{'-'.join(others)}]" if others else first


def _is_unfit(item: pytest.Item) -> bool:
    """Whether a test is random or a proof, or for another engine."""
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        return True
    on_server = _parameters(item).get("engine") == "postgres"
    if ENGINE == "postgres":
        return not on_server
    return on_server or bool(item.get_closest_marker("proof"))


def _is_slow(item: pytest.Item) -> bool:
    """Whether it makes a repository or a history; what needs neither is tried first."""
    return "repo" in getattr(item, "fixturenames", ()) or "histories" in item.name


def pytest_runtestloop(session: pytest.Session) -> bool:
    place = Path(os.environ["TUG_MUTANTS_JOB"])
    job = json.loads(place.read_text())
    trial = _Trial(session)
    passes = trial.passes_watched if None in job.values() else trial.passes
    failing = [name for name in trial.items if not passes(name)]
    for name in failing:
        del trial.items[name]
    known = {each.name: each for each in (*mutants.every(), mutants.SAID_TWICE)}
    jobs = [(known[name], tests) for name, tests in job.items()]
    place.write_text(json.dumps({"failing": failing, "killers": _try_all(trial, jobs)}))
    return True


def _try_all(trial: _Trial, jobs: list) -> dict[str, str | None]:
    gc.freeze()
    running: dict[int, tuple[mutants.Mutant, Path]] = {}
    killers: dict[str, str | None] = {}
    with tempfile.TemporaryDirectory() as shelf:
        for number, (mutant, tests) in enumerate(jobs):
            if len(running) == SIDE_BY_SIDE:
                _wait(trial, running, killers)
            names = trial.order(mutant) if tests is None else [n for n in tests if n in trial.items]
            trace = Path(shelf) / str(number)
            child = os.fork()
            if not child:
                trial.endure(mutant, names, trace)
            running[child] = mutant, trace
        while running:
            _wait(trial, running, killers)
    return killers


def _wait(trial: _Trial, running: dict, killers: dict[str, str | None]) -> None:
    child, _ = os.wait()
    mutant, trace = running.pop(child)
    killer = (trace.read_text() or None) if trace.exists() else "it cannot even be made"
    killers[mutant.name] = killer
    trial.learn(mutant, killer)
    if log := os.environ.get("TUG_MUTANTS_LOG"):
        with open(log, "a") as file:
            file.write(f"{mutant.name} -> {killer}\n")
