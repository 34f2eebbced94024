"""Any command line: a documented exit status, one envelope, and what is refused does nothing."""

import random
import sqlite3

import pytest
import snapshots
import wordings

from conftest import Repo
from support import leaks
from support.commit import IDENTITY
from support.state import Desk
from tugtool import errors
from tugtool.cli import main as main_module
from tugtool.cli import output, parse

#: All but what is random here has an end of its own.
pytestmark = pytest.mark.proof(share=0)

LINES = ("1 ttec", "1.1 te", "2 t < 1", "3 t")


class World:
    """A repository with a plan, two worktrees and a step in hand; random lines change it."""

    def __init__(self, home, capsys, monkeypatch, tugcode) -> None:
        for name, value in IDENTITY.items():
            monkeypatch.setenv(name, value)
        repo = Repo.init(home)
        self.root = repo.path
        repo.write({"sub/a": "a\n", "odd \u202e.md": "# \x1b[2Jodd\u202e\n\n### Step 1: a\n"})
        desk = Desk(repo, tugcode, monkeypatch, *LINES)
        desk.ok("init", "work")
        desk.ok("claim", "work", "--lease-duration", 10**8)
        self.capsys, self.monkeypatch = capsys, monkeypatch
        self.record = snapshots.Record(repo.path)

    def picture(self) -> tuple:
        return self.record.rows(), snapshots.refs(self.root), snapshots.files(self.root)

    def type(self, words: list[str], place) -> tuple[int, str]:
        done = wordings.run(["-C", str(place), *words], self.capsys, self.monkeypatch)
        wordings.hold(words, done)
        return done.status, done.out + done.err


def one_round(world: World, dice: random.Random, count: int) -> list[int]:
    """So many lines, one after the other in the same repository; their exit statuses."""
    statuses = []
    before = world.picture()
    for _ in range(count):
        words, place = wordings.line(dice), dice.choice(wordings.places(world.root))
        if not place.is_dir():
            place = world.root
        status, said = world.type(words, place)
        after = world.picture()
        if status and not " ".join(words).startswith(wordings.FINDING):
            told = (words, str(place), status, said[-1000:])
            for one, other in zip(before, after, strict=True):
                assert one == other, (*told, differences(one, other))
        assert not list(world.root.parent.rglob("pwned")), words
        before = after
        statuses.append(status)
    world.record.close()
    return statuses


def differences(one, other) -> object:
    if isinstance(one, str):
        return one, other
    keys = [key for key in {*one, *other} if one.get(key) != other.get(key)]
    return {key: (one.get(key), other.get(key)) for key in keys}


@pytest.mark.proof(share=2)
def test_any_line_is_answered_and_a_refused_one_changes_nothing(
    tmp_path, capsys, monkeypatch, tugcode, spell
):
    statuses: list[int] = []
    for seed in spell.seeds(least=2):
        world = World(tmp_path / str(seed), capsys, monkeypatch, tugcode)
        statuses += one_round(world, random.Random(seed), 60)
    told = ", ".join(f"{statuses.count(each)} with {each}" for each in sorted(set(statuses)))
    spell.tell(f"{len(statuses)} lines: {told}")


def test_what_is_left_out_are_commands_that_exist():
    assert set(wordings.LEFT_OUT) <= set(parse.FAMILIES)


def _leaving_a_file(world: World):
    refuse = main_module._refuse

    def refused(error, call, as_json):
        (world.root / "left behind").touch()
        return refuse(error, call, as_json)

    return refused


def _said_twice(path, status, data, issues, envelope=output.envelope):
    made = envelope(path, status, data, issues)
    return f"{made}\n{made}"


def _of_no_kind(call):
    raise KeyError("no such thing")


FAULTS = {
    "text goes out as it is": lambda world: (output, "clean", lambda text, longest=0: text),
    "a refusal leaves a file": lambda world: (main_module, "_refuse", _leaving_a_file(world)),
    "an answer comes twice": lambda world: (output, "envelope", _said_twice),
    "a command breaks": lambda world: (parse.find("state show"), "function", _of_no_kind),
    "a status of our own": lambda world: (errors.Usage, "exit_status", 5),
    "the clock is written on refusal": lambda world: (main_module, "_refuse", _ticking(world)),
}


def _ticking(world: World):
    refuse = main_module._refuse

    def refused(error, call, as_json):
        path = world.root / ".tugtool" / "state.db"
        with sqlite3.connect(path) as connection:
            connection.execute("update plans set updated_at = '2030-01-01T00:00:00.000Z'")
        connection.close()
        return refuse(error, call, as_json)

    return refused


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_noticed(tmp_path, capsys, monkeypatch, tugcode, fault):
    world = World(tmp_path / "repo", capsys, monkeypatch, tugcode)
    leaks.replace(monkeypatch, *FAULTS[fault](world))
    with pytest.raises((AssertionError, ValueError)):
        one_round(world, random.Random(1), 400)
    world.record.close()
