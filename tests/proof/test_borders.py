"""Killed at any border of any command, and run again: all is as if nobody had died.

A border is the moment before each statement, each start of git, each change of a name in the
file system, before the answer and after it. The named points of docs/crash-points.md are some
of these; here are all of them, for every command of the table that writes.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from border_cases import CASES, ELSEWHERE, GIT_CASES, READING
from borders import Broken, Case, Ground, Try

from tugtool import crash
from tugtool.cli.table import COMMANDS

EVERY = {**CASES, **GIT_CASES}
#: At how many borders a state command is killed by default; most of them have no more.
MOST_BORDERS = 7
#: How many commands that start git are killed by default, and at how many borders.
SOME_COMMANDS, SOME_BORDERS = 5, 3


@pytest.fixture
def ground(tmp_path) -> Iterator[Ground]:
    ground = Ground(tmp_path)
    yield ground
    ground.end()


def test_every_command_is_killed_or_changes_nothing():
    killed = {case.command for case in EVERY.values()}
    assert killed | READING.keys() | ELSEWHERE.keys() == COMMANDS.keys()
    assert not killed & (READING.keys() | ELSEWHERE.keys())
    for where in ELSEWHERE.values():
        named = any(point.startswith(where) for point in crash.POINTS)
        assert named or (Path(__file__).parent.parent / where).exists()


def test_what_is_said_to_change_nothing_has_no_transaction_to_write_in(ground):
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
        assert "begin immediate" not in said.borders, command
        assert ground.picture(whole) == before, command


def _is_as_documented(tried: Try) -> None:
    """The first run succeeds; what the second says and leaves is what is known of it."""
    assert tried.once.status == 0, tried.once.envelope
    assert tried.differences() == tried.case.again
    assert tried.traces() == tried.case.traces


@pytest.mark.no_cover
@pytest.mark.proof(share=1)
def test_a_state_command_killed_anywhere_ends_as_without_the_crash(ground, spell):
    chance, killed = random.Random(spell.seed), 0
    for case in CASES.values():
        tried = Try(ground, case)
        _is_as_documented(tried)
        assert "begin immediate" in tried.once.borders or case.parts
        # Nothing has happened between two borders if all that lies between is a look.
        borders = tried.writing()
        some = chance.sample(borders, min(MOST_BORDERS, len(borders)))
        for border in range(len(tried.once.borders)) if spell.seconds else some:
            tried.kill(border)
            killed += 1
    spell.tell(f"killed at {killed} borders of {len(CASES)} commands")


@pytest.mark.no_cover
@pytest.mark.proof(share=4)
def test_a_command_that_starts_git_killed_anywhere_ends_as_without_the_crash(ground, spell):
    chance, killed = random.Random(spell.seed), 0
    names = chance.sample(list(GIT_CASES), len(GIT_CASES) if spell.seconds else SOME_COMMANDS)
    for name in names:
        tried = Try(ground, GIT_CASES[name])
        _is_as_documented(tried)
        borders = tried.writing()
        for border in borders if spell.seconds else chance.sample(borders, SOME_BORDERS):
            tried.kill(border)
            killed += 1
    spell.tell(f"killed at {killed} borders of {len(names)} commands")


#: Fault -> a command in which it shows.
PLANTED = {"commits twice": "complete by force", "no transaction": "release"}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_command_that_is_not_one_transaction_is_found(tmp_path, fault):
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
