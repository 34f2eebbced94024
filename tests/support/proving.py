"""How long a proof runs, and from which seed; what it did is told at the end of the run.

A proof is a test with the mark `proof`; `make test` leaves it out, `make proof` runs it. It asks
its `spell` for seeds: a few by default, and with TUG_MINUTES (`make proof MINUTES=60`) as many as
fit into its share of that time. With TUG_SEED every proof starts from that seed, and so does again
what it did. A share of 0 is for what has an end of its own: a planted fault, a table of cases.
"""

import os
import random
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import hypothesis
import pytest

from support import covering, engines

#: A server takes longer for an example: of so many that a file gets, it gets one.
SHARE_ON_SERVER, FEWEST_EXAMPLES = 8, 3
MINUTES = float(os.environ.get("TUG_MINUTES") or 0)
#: Rooms whose tests start git and processes: of a table there so many cases are tests, the others
#: repeat its rule and are proofs. A file of `tests/world` is one finding: its first test is a test.
THROUGH_PROCESSES = ("tests/implement/", "tests/workflow/", "tests/world/")
CASES_THROUGH_PROCESSES = 2
ONE_FINDING_EACH = "tests/world/"
_SECONDS = pytest.StashKey[float]()
_PROPERTY = "proof"


class Spell:
    """The time that one proof has, its seeds, and what it has to tell."""

    def __init__(self, seconds: float, seed: int, sections: list[tuple[str, str, str]]) -> None:
        self.seconds, self.seed = seconds, seed
        self.began = time.monotonic()
        self.rounds = 0
        self.told: list[str] = []
        self.listed: list[str] = []
        #: What pytest adds to the report of a failure.
        self.sections = sections
        self._name(seed)

    def seeds(self, least: int = 1) -> Iterator[int]:
        """At least so many seeds, each after the other; more while there is time."""
        while self.rounds < least or self.goes_on():
            self.rounds += 1
            self._name(self.seed + self.rounds - 1)
            yield self.seed + self.rounds - 1

    def _name(self, seed: int) -> None:
        """Whatever fails says how to get there at once. Not printed: a proof may read what is."""
        self.sections[:] = [each for each in self.sections if each[1] != "seed"]
        self.sections.append(("call", "seed", f"TUG_SEED={seed}\n"))

    def goes_on(self) -> bool:
        """Whether there is time left, for a proof that counts its rounds itself."""
        return time.monotonic() < self.began + self.seconds

    def examine(self, property: Callable[[], None], short: int) -> None:
        """Try a property of hypothesis on so many examples, and on as many again for each seed."""
        if engines.current() != "sqlite":
            short = max(FEWEST_EXAMPLES, short // SHARE_ON_SERVER)
        # Not by the decorator, which refuses a property that has settings: two engines try it.
        property._hypothesis_internal_use_settings = hypothesis.settings(
            max_examples=short,
            deadline=None,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        for seed in self.seeds():
            hypothesis.seed(seed)(property)()
        self.tell(f"{self.rounds * short} examples")

    def lasts(self, short: float) -> float:
        """Seconds for a proof that is told how long to go on: its share, or what is short."""
        return self.seconds or short

    def tell(self, what: object) -> None:
        """A line about what was done, printed when all tests have ended."""
        self.told.append(str(what))

    def list(self, what: object) -> None:
        """A line of its own below that, in a run that goes on for longer."""
        if self.seconds:
            self.listed.append(f"    {what}")


def examined(short: int, share: float = 1) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a proof of a property of hypothesis: on top of `@given(...)`."""

    def proof_of(given: Callable[..., None]) -> Callable[..., None]:
        @pytest.mark.proof(share=share)
        def proof(spell: Spell) -> None:
            spell.examine(given, short)

        proof.__name__, proof.__doc__, proof.__module__ = (
            given.__name__,
            given.__doc__,
            given.__module__,
        )
        proof.property = given
        return proof

    return proof_of


def _spread(kept: int, whole: int) -> set[int]:
    """So many numbers below `whole`, evenly spread."""
    return {number * whole // kept for number in range(kept)}


def sampled(cases: Iterable[object], kept: int) -> list[object]:
    """A table of cases: so many, evenly spread, for `make test`; the others are proofs."""
    listed = list(cases)
    chosen = _spread(kept, len(listed))
    once = pytest.mark.proof(share=0)
    return [
        case if number in chosen else pytest.param(*_values(case), marks=once)
        for number, case in enumerate(listed)
    ]


def needed(*names: str) -> str:
    """The first of these programs that is installed; a proof that needs it fails without it."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.fail(f"{names[0]} is not installed; on Debian: apt-get install {names[0]}")
    return found


def _values(case: object) -> tuple[object, ...]:
    return case if isinstance(case, tuple) else (case,)


@pytest.fixture
def spell(request: pytest.FixtureRequest, record_property) -> Iterator[Spell]:
    """Time and seeds of a proof, and its line in the summary."""
    asked = os.environ.get("TUG_SEED")
    seed = int(asked) if asked else random.SystemRandom().randrange(10**9)
    seconds = request.node.stash.get(_SECONDS, 0.0)
    spell = Spell(seconds, seed, request.node._report_sections)
    yield spell
    spent = time.monotonic() - spell.began
    line = f"TUG_SEED={spell.seed}, {spell.rounds or 1} rounds, {spent:.0f} s"
    record_property(_PROPERTY, "\n".join(["; ".join([line, *spell.told]), *spell.listed]))


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        # A test of another session started this one, which has a server and a time of its own.
        for name in [each for each in os.environ if each.startswith("PYTEST_XDIST_")]:
            del os.environ[name]
    config.addinivalue_line("markers", "file: is about a state in a file, not in PostgreSQL")
    config.addinivalue_line("markers", "unserved(reason): is about what no server does for clients")
    config.addinivalue_line("markers", "proof(share): goes on for its share of TUG_MINUTES")


def _without(config: pytest.Config) -> bool:
    """Whether no proof is wanted, as `make test` says: then the half of all cases is not made."""
    return bool(config.option.markexpr == "not proof")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file of proofs alone is not even loaded where none is wanted."""
    if _without(config) and collection_path.suffix == ".py":
        return "\npytestmark = pytest.mark.proof" in collection_path.read_text() or None
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[object] | None:
    if _without(collector.config) and _are_proofs(getattr(obj, "pytestmark", ())):
        return []
    return None


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Leave out those cases of a table that are proofs."""
    if _without(metafunc.config):
        wanted = [each for each in metafunc._calls if not _are_proofs(each.marks)]
        # Without any case pytest would make a test of its own.
        metafunc._calls[:] = wanted or metafunc._calls


def _are_proofs(marks: object) -> bool:
    return isinstance(marks, (list, tuple)) and any(each.name == _PROPERTY for each in marks)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    """Make proofs of repetitions through processes, but for tests that have to cover."""
    tables: dict[str, dict[str, list[pytest.Function]]] = {}
    for item in items:
        file = covering.file_of(item)
        if not file.startswith(THROUGH_PROCESSES) or item.get_closest_marker("proof"):
            continue
        if not covering.covers(item):
            tables.setdefault(file, {}).setdefault(item.originalname, []).append(item)
    for file, tests in tables.items():
        for number, cases in enumerate(tests.values()):
            kept = _spread(min(CASES_THROUGH_PROCESSES, len(cases)), len(cases))
            if number and file.startswith(ONE_FINDING_EACH):
                kept = set()
            for each in (case for place, case in enumerate(cases) if place not in kept):
                each.add_marker(pytest.mark.proof(share=0))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Share the time out among the proofs that were chosen; workers run side by side."""
    marks = {item: item.get_closest_marker("proof") for item in session.items}
    shares = {item: mark.kwargs.get("share", 1) for item, mark in marks.items() if mark}
    # Only who asks for its spell goes on for longer.
    shares = {
        item: share for item, share in shares.items() if share and "spell" in item.fixturenames
    }
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    for item, share in shares.items():
        part = share / sum(shares.values()) * min(workers, len(shares))
        item.stash[_SECONDS] = MINUTES * 60 * min(1, part)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What every proof did: with which seed, how often, for how long."""
    lines = {
        f"{report.nodeid.rpartition('/')[2]}: {value}"
        for reports in terminalreporter.stats.values()
        for report in reports
        # What was recorded is in the report of the teardown; not everything here is a report.
        for name, value in getattr(report, "user_properties", ())
        if name == _PROPERTY
    }
    if lines:
        terminalreporter.section("proofs")
        terminalreporter.write_line("\n".join(sorted(lines)))
