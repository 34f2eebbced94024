"""Killed at any border of any command, and run again: all is as if nobody had died.

A border is the moment before each statement, each start of git, each change of a name in the
file system, before the answer and after it. The named points of
docs/internals/crash-points.md are some of these; here are all of them, for every
command of the table that writes.
"""

import ast
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from border_cases import CASES, ELSEWHERE, GIT_CASES, READING
from borders import Broken, Case, Ground, Try
from watching import WRITE

from support.proving import Spell
from tugtool.cli.parse import CHANGING_NOTHING, FAMILIES, access
from tugtool.system import crash

#: All but what is random here has an end of its own.
pytestmark = pytest.mark.proof(share=0)

EVERY = {**CASES, **GIT_CASES}
#: At how many borders a state command is killed by default; most of them have no more.
MOST_BORDERS = 7
#: How many commands that start git are killed by default, and at how many borders.
SOME_COMMANDS, SOME_BORDERS = 5, 3
#: What only a file has.
FILE_CASES = ("restore",)


@pytest.fixture
def ground(engine, tmp_path) -> Iterator[Ground]:
    ground = Ground(tmp_path)
    yield ground
    ground.end()


def test_every_command_is_killed_or_changes_nothing():
    killed = {case.command for case in EVERY.values()}
    assert killed | READING.keys() | ELSEWHERE.keys() == FAMILIES.keys()
    assert not killed & (READING.keys() | ELSEWHERE.keys())
    # Some that look have an option to change something, or to write a file.
    looking = {path for path in FAMILIES if access(path) in CHANGING_NOTHING}
    assert looking - READING.keys() == {"doctor", "report", "state export", "state review"}
    for where in ELSEWHERE.values():
        file, _, test = where.partition("::")
        named = any(point.startswith(where) for point in crash.POINTS)
        assert named or _kills(Path(__file__).parent.parent / file, test), where


def _kills(file: Path, test: str) -> bool:
    """Whether the test is there, and kills somebody."""
    text = file.read_text()
    found = [each for each in ast.parse(text).body if getattr(each, "name", "") == test]
    return "SIGKILL" in "".join(ast.get_source_segment(text, each) or "" for each in found)


def test_what_is_said_to_change_nothing_has_no_transaction_to_write_in(engine, ground):
    done = ("state", "claim", "work", "--step", "step-1")
    ground.prepare(
        Case(
            (),
            (
                ("root", "state", "init", "work"),
                ("red", *done),
                ("write", "red", "new.txt", "new\n"),
                ("root", "state", "reset", "work", "step-1"),
                ("root", "dash", "create", "fix"),
            ),
        )
    )
    whole = Case((), git=True)
    before = ground.picture(whole)
    for command, words in READING.items():
        said = ground.do("root", *words)
        assert said.status == 0, said.envelope
        assert Case(words).command == command
        assert WRITE not in said.borders, command
        # Nothing at all is done between a client's question and the answer.
        assert command != "hook pre-tool-use" or said.borders == ["answer", "end"]
        assert ground.picture(whole) == before, command


def _is_as_documented(tried: Try) -> None:
    """The first run succeeds; what the second says and leaves is what is known of it."""
    assert tried.once.status == 0, tried.once.envelope
    assert tried.differences() == tried.case.again
    assert tried.traces() == tried.case.traces


class Deaths:
    """Commands, and at which of their borders they are still to be killed."""

    def __init__(self, ground: Ground, cases: dict[str, Case], chance: random.Random) -> None:
        self.ground, self.cases, self.chance = ground, cases, chance
        self.tries: dict[str, Try] = {}
        self.left: dict[str, list[int]] = {}
        self.killed = self.borders = 0

    def begin(self, name: str) -> list[int]:
        """Run it undisturbed; the borders that are followed by anything that lasts."""
        tried = self.tries[name] = Try(self.ground, self.cases[name])
        _is_as_documented(tried)
        writing = tried.writing()
        # Nothing has happened between two borders if all that lies between is a look.
        looks = set(range(len(tried.once.borders) if not tried.case.git else 0)) - set(writing)
        self.left[name] = [*self._shuffled(list(looks)), *self._shuffled(writing)]
        self.borders += len(self.left[name])
        return writing

    def some(self, name: str, most: int) -> None:
        """Kill it at so many borders."""
        if name not in self.tries:
            most = min(most, len(self.begin(name)))
        for _ in range(min(most, len(self.left[name]))):
            self.tries[name].kill(self.left[name].pop())
            self.killed += 1

    def rest(self, spell: Spell) -> None:
        """Kill them wherever that was not done yet, in turns, while there is time."""
        names = self._shuffled(list(self.cases))
        while names and spell.goes_on():
            name = names.pop(0)
            self.some(name, 1)
            names += [name] if self.left[name] else []
        told = f"killed at {self.killed} of {self.borders} borders"
        spell.tell(f"{told} of {len(self.tries)} of {len(self.cases)} commands")

    def _shuffled(self, every: list) -> list:
        self.chance.shuffle(every)
        return every


@pytest.mark.proof(share=1)
def test_a_state_command_killed_anywhere_ends_as_without_the_crash(engine, ground, spell):
    cases = {n: c for n, c in CASES.items() if engine == "sqlite" or n not in FILE_CASES}
    deaths = Deaths(ground, cases, random.Random(spell.seed))
    for name, case in cases.items():
        deaths.some(name, MOST_BORDERS)
        assert WRITE in deaths.tries[name].once.borders or case.parts
    deaths.rest(spell)


@pytest.mark.proof(share=4)
def test_a_command_that_starts_git_killed_anywhere_ends_as_without_the_crash(engine, ground, spell):
    deaths = Deaths(ground, GIT_CASES, random.Random(spell.seed))
    for name in deaths.chance.sample(list(GIT_CASES), SOME_COMMANDS):
        deaths.some(name, SOME_BORDERS)
    deaths.rest(spell)


#: Fault -> a command in which it shows.
PLANTED = {"commits twice": "complete by force", "no transaction": "release"}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_command_that_is_not_one_transaction_is_found(engine, tmp_path, fault):
    ground = Ground(tmp_path, fault)
    try:
        tried = Try(ground, CASES[PLANTED[fault]])
        with pytest.raises(Broken, match="half of it is there"):
            _kill_everywhere(tried)
    finally:
        ground.end()


def _kill_everywhere(tried: Try) -> None:
    for border in tried.writing():
        tried.kill(border)
