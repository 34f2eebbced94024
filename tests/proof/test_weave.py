"""Two deeds at once come to what they come to one after the other, whenever the second comes.

Every operation that writes to the state, with every other: one process is held before it asks
for the writers' lock, before each of its statements, or before it answers, while another does
its deed or is seen to wait.
"""

import ast
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from weave import Loom, NoOrder
from weave_deeds import BY_NAME, DEEDS, INNER, SCENES, _writers, writing_operations

#: All but what is random here has an end of its own.
pytestmark = pytest.mark.proof(share=0)

#: The share of the pairs that one round takes; longer runs take all. Less of it on a server.
OFTEN, RARELY = 0.5, 0.15
ON_SERVER = 0.2
#: Operations on rows of their own.
ASIDE = ("dashes.", "worktrees.", "requests.", "intents.drop")
OPERATIONS = [name for name, deeds in DEEDS.items() if deeds]


@pytest.fixture
def loom(engine, tmp_path) -> Iterator[Loom]:
    loom = Loom(tmp_path)
    yield loom
    loom.end()


def test_every_operation_that_writes_is_woven():
    assert writing_operations() == set(DEEDS), "add how it is done to DEEDS"
    assert {name for name, deeds in DEEDS.items() if not deeds} == INNER


def test_what_writes_is_found_by_its_transaction_however_it_gets_there():
    text = """
def look(store):
    with store.read("p") as tx: pass
def set_(store):
    return _set(store)
def _set(store):
    with store.write("p") as tx: pass
def either(store, dry):
    with store.read("p") if dry else store.write("p") as tx: pass
"""
    assert _writers(ast.parse(text)) == {"set_", "_set", "either"}


def _acts(loom: Loom, scene: str, deed: str) -> bool:
    """Whether a deed is not refused there."""
    came = loom.alone(scene, deed)["answer"]
    return not (isinstance(came, dict) and "refused" in came)


def _chosen(loom: Loom, chance: random.Random, one: str, other: str) -> tuple[str, str, str]:
    """A scene and two deeds, neither of them refused there, if that is possible."""
    every = list(itertools.product(SCENES, DEEDS[one], DEEDS[other]))
    chance.shuffle(every)
    # Now and then somebody comes too late, or is the wrong one.
    if chance.random() < 0.1:
        return every[0]
    return max(every, key=lambda each: _acts(loom, each[0], each[1]) + _acts(loom, *each[::2]))


def _borders(loom: Loom, scene: str, deed: str) -> tuple[list[int], list[int]]:
    """The borders of a deed where it holds no lock, and those where it does."""
    every = range(len(loom.alone(scene, deed)["borders"]))
    inside = [border for border in every if loom.is_inside(scene, deed, border)]
    return [border for border in every if border not in inside], inside


def _weave_some(loom: Loom, chance: random.Random, part: float) -> None:
    """Pairs of operations, either held; half of the times where it holds the lock."""
    for one, other in itertools.combinations_with_replacement(OPERATIONS, 2):
        # What concerns dashes or worktrees alone can hardly meet what concerns a plan.
        apart = one.startswith(ASIDE) != other.startswith(ASIDE)
        if chance.random() > part * (RARELY if apart else OFTEN):
            continue
        scene, *pair = _chosen(loom, chance, one, other)
        for first, second in {tuple(pair), tuple(reversed(pair))}:
            outside, inside = _borders(loom, scene, first)
            borders = inside if inside and chance.random() < 0.5 else outside
            loom.weave(scene, first, second, chance.choice(borders))


def _weave_all(loom: Loom, chance: random.Random) -> Iterator[None]:
    """Every pair of deeds in every scene, at every border, in an order that chance gives."""
    every = list(itertools.product(SCENES, BY_NAME, BY_NAME))
    chance.shuffle(every)
    for scene, first, second in every:
        for border in range(len(loom.alone(scene, first)["borders"])):
            loom.weave(scene, first, second, border)
            yield


@pytest.mark.proof(share=2)
def test_what_two_do_at_once_they_could_have_done_one_after_the_other(engine, loom, spell):
    _weave_some(loom, random.Random(spell.seed), 1 if engine == "sqlite" else ON_SERVER)
    every = _weave_all(loom, random.Random(spell.seed))
    while spell.goes_on() and next(every, True) is None:
        pass
    told = f"{loom.woven} interleavings of {len(OPERATIONS)} operations"
    if spell.seconds:
        every = itertools.product(SCENES, BY_NAME)
        held = sum(len(loom.alone(*each)["borders"]) for each in every)
        told = (
            f"{loom.woven} of {held * len(BY_NAME)} interleavings of {len(OPERATIONS)} operations"
        )
    spell.tell(f"{told}; {loom.waited} had to wait; in {loom.mattered} the order mattered")


#: Fault -> a scene, two deeds between which it shows.
PLANTED = {
    "no queue": ("held", "red ticks", "blue releases"),
    "no transaction": ("lapsed", "red completes", "blue claims"),
    "claims what it saw before": ("fresh", "red claims", "blue claims"),
    "completes what it saw before": ("closed", "red completes", "red opens"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_fault_comes_to_what_no_order_gives(engine, tmp_path, fault):
    loom = Loom(tmp_path, fault)
    try:
        with pytest.raises(NoOrder):
            _weave_at_every_border(loom, *PLANTED[fault])
    finally:
        loom.end()


def _weave_at_every_border(loom: Loom, scene: str, first: str, second: str) -> None:
    for border in range(len(loom.alone(scene, first)["borders"])):
        loom.weave(scene, first, second, border)


def test_the_source_is_where_operations_are_looked_for(tmp_path):
    (tmp_path / "new.py").write_text("def act(store):\n    with store.write('p'): pass\n")
    assert writing_operations(Path(tmp_path)) == {"new.act"}
