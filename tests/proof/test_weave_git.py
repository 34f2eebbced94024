"""Two commands at once leave a repository sound, wherever one stands when the other comes.

Every command that changes git as well as the state, held at each of its named points
(docs/internals/crash-points.md) and before each lock that it asks for, beside every other.
"""

import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from border_cases import GIT_CASES
from borders import Case
from weave_git import APART, DEEDS, Field

import tugtool
from tugtool.system import crash

#: All but what is random here has an end of its own.
pytestmark = pytest.mark.proof(share=0)

#: How many of them are tried by default.
SOME = 10
#: Points of commands that drive others; these are held here by themselves.
NOT_HELD = ("implement",)


@pytest.fixture
def field(tmp_path) -> Iterator[Field]:
    field = Field(tmp_path)
    yield field
    field.end()


def test_every_command_that_works_with_git_is_woven():
    woven = {Case(deed.words).command for deed in DEEDS.values()}
    assert {case.command for case in GIT_CASES.values()} | {"implement"} == woven | APART.keys()
    assert not woven & APART.keys()
    assert all(len(why) > 20 for why in APART.values())


def writing_modules() -> set[str]:
    """Whoever opens transactions in which to write, outside of what is woven by itself."""
    home = Path(tugtool.__file__).parent
    return {
        ".".join(("tugtool", *path.relative_to(home).with_suffix("").parts))
        for path in home.rglob("*.py")
        if path.relative_to(home).parts[0] not in ("state", "store", *APART)
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.Attribute) and re.search(r"\bstore\.write$", ast.unparse(each))
    }


def _is_everywhere(field: Field) -> None:
    """Every named point is one at which somebody is held, everybody is, and whoever writes."""
    held = {hold for deed in DEEDS for hold in field.holds(deed)}
    named = {point for point in crash.POINTS if not point.startswith(NOT_HELD)}
    assert named - held == set()
    assert all(field.holds(deed) for deed in DEEDS)
    # A deed that is refused anyway shows nothing, but for a dash with work that is not committed.
    assert field.refusals == {("dash join", "E057")}
    assert writing_modules() - field.writers == set()


@pytest.mark.proof(share=4)
def test_two_commands_at_once_leave_everything_sound(field, spell):
    _is_everywhere(field)
    every = field.schedules()
    random.Random(spell.seed).shuffle(every)
    for number, schedule in enumerate(every):
        if number >= SOME and not spell.goes_on():
            break
        field.weave(*schedule)
    told = f"{field.woven} of {len(every)} schedules; {field.waited} had to wait"
    spell.tell(f"{told}, {field.refused} were refused, {field.missed} were never held")


FIRST_LOCK = "before the first lock"
#: A lock that is not taken, a look that is not -> between which two that shows.
PLANTED = {
    "no lock for worktrees": ("create", "create.state", "cleanup"),
    "no lock for a dash": ("dash commit", "round.added", "dash join"),
    "no second look of a commit": ("commit", FIRST_LOCK, "claim"),
}
#: By what one knows that it is this which was found.
SHOWS = {"no second look of a commit": "'heartbeat', 1"}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_lock_that_is_missing_is_found(tmp_path, fault):
    field = Field(tmp_path, fault)
    try:
        first, hold, second = PLANTED[fault]
        if hold == FIRST_LOCK:
            hold = next(each for each in field.holds(first) if isinstance(each, int))
        with pytest.raises(AssertionError) as found:
            field.weave(first, hold, second)
        assert SHOWS.get(fault, "") in str(found.value)
    finally:
        field.end()
