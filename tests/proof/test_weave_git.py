"""Two commands at once leave a repository sound, wherever one stands when the other comes.

Every command that changes git as well as the state, held at each of its named points
(docs/crash-points.md), beside every other.
"""

import random
from collections.abc import Iterator

import pytest
from weave_git import DEEDS, Field, schedules

from tugtool import crash

#: How many of them are tried by default.
SOME = 14
#: Points of commands that drive others; these are held here by themselves.
NOT_HELD = ("implement",)


@pytest.fixture
def field(tmp_path) -> Iterator[Field]:
    field = Field(tmp_path)
    yield field
    field.end()


def test_every_named_point_is_one_at_which_somebody_is_held():
    held = {point for deed in DEEDS.values() for point in deed.points}
    named = {point.partition(".")[0] for point in crash.POINTS}
    assert named - held == set(NOT_HELD)


@pytest.mark.no_cover
@pytest.mark.proof(share=4)
def test_two_commands_at_once_leave_everything_sound(field, spell):
    every = schedules()
    random.Random(spell.seed).shuffle(every)
    for number, (first, point, second) in enumerate(every):
        if number >= SOME and not spell.goes_on():
            break
        field.weave(first, point, second)
    told = f"{field.woven} of {len(every)} schedules; {field.waited} had to wait"
    spell.tell(f"{told}, {field.refused} were refused, {field.missed} points were passed by")


#: A lock that is not taken -> between which two that shows.
PLANTED = {
    "no lock for worktrees": ("create", "create.state", "cleanup"),
    "no lock for a dash": ("dash commit", "round.added", "dash join"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_lock_that_is_missing_is_found(tmp_path, fault):
    field = Field(tmp_path, fault)
    try:
        with pytest.raises(AssertionError):
            field.weave(*PLANTED[fault])
    finally:
        field.end()
