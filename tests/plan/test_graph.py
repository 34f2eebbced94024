"""Waves, the widest of them, the critical path; substeps folded into their steps."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tugtool.plan import model
from tugtool.plan.parser import parse


def plan_of(needs: dict[str, str]):
    """A plan from numbers and what their steps depend on, without the `step-`."""
    lines = []
    for number, wanted in needs.items():
        named = " ".join(f"#step-{n.replace('.', '-')}" for n in wanted.split())
        lines.append(f"{'#####' if '.' in number else '####'} Step {number}: x")
        lines.append(f"**Depends on:** {named or 'none'}")
    return parse("\n".join(lines))


def short(anchors) -> str:
    """Anchors without the `step-`."""
    return " ".join(anchor.removeprefix("step-") for anchor in anchors)


def test_steps_that_wait_for_nothing_are_the_first_wave():
    made = model.build_graph(plan_of({"1": "", "2": "1", "3": "1", "4": "2 3", "5": ""}))
    assert [short(wave) for wave in made.waves] == ["1 5", "2 3", "4"]
    assert short(made.critical_path) == "1 3 4"
    assert short(step.anchor for step in made.steps) == "1 2 3 4 5"


def test_a_step_is_in_the_wave_behind_the_last_one_it_waits_for():
    made = model.build_graph(plan_of({"1": "", "2": "1", "3": "2", "4": "1 3"}))
    assert [short(wave) for wave in made.waves] == ["1", "2", "3", "4"]
    assert short(made.critical_path) == "1 2 3 4"


def test_a_wave_is_in_document_order():
    made = model.build_graph(plan_of({"1": "", "2": "", "3": "2", "4": "1", "5": "2"}))
    assert [short(wave) for wave in made.waves] == ["1 2", "3 4 5"]


@pytest.mark.parametrize(
    ("needs", "widest"),
    [
        ({"1": ""}, 0),
        ({"1": "", "2": "1", "3": "1"}, 1),
        ({"1": "", "2": "", "3": "1", "4": "2"}, 0),
    ],
)
def test_the_widest_wave_is_the_first_of_the_largest(needs, widest):
    assert model.build_graph(plan_of(needs)).widest == widest


def test_a_plan_without_steps_has_neither_waves_nor_path():
    made = model.build_graph(parse("# T"))
    assert (made.waves, made.critical_path, made.needs) == ((), (), {})


def test_substeps_stand_for_their_steps():
    plan = plan_of({"1": "", "1.1": "", "2": "", "2.1": "1.1", "2.2": "2.1 1", "3": "2.2 2.1"})
    assert model.folded(plan) == {
        "step-1": (),
        "step-2": ("step-1",),
        "step-3": ("step-2",),
    }


def test_what_is_unknown_or_inside_the_step_is_left_out():
    plan = plan_of({"1": "1.1 9", "1.1": "1", "2": "9 1"})
    assert model.folded(plan) == {"step-1": (), "step-2": ("step-1",)}


def test_a_step_that_needs_itself_is_kept_as_a_cycle():
    assert model.folded(plan_of({"1": "1"})) == {"step-1": ("step-1",)}


def test_the_dependencies_among_substeps_of_one_step():
    plan = plan_of({"1": "", "1.1": "2", "1.2": "1.1 1 2", "2": "", "2.1": "1.1"})
    assert model.among_substeps(plan.steps[0]) == {"step-1-1": (), "step-1-2": ("step-1-1",)}


def test_repeated_anchors_do_not_break_the_folding():
    plan = parse("#### Step 1: a {#x}\n#### Step 2: b {#x}\n**Depends on:** #x\n")
    assert model.folded(plan) == {"x": ("x",)}


@st.composite
def acyclic(draw) -> dict[int, set[int]]:
    """Step -> steps with smaller numbers."""
    count = draw(st.integers(1, 9))
    return {
        n: draw(st.sets(st.integers(0, n - 1), max_size=3)) if n else set() for n in range(count)
    }


def longest(needs: dict[int, set[int]], n: int) -> int:
    """Number of steps in the longest chain that ends in `n`, by trying all."""
    return 1 + max((longest(needs, before) for before in needs[n]), default=0)


@given(acyclic(), st.randoms(use_true_random=False))
@settings(deadline=None, database=None)
def test_waves_and_path_agree_with_trying_everything(needs, random):
    order = list(needs)
    random.shuffle(order)
    made = model.build_graph(plan_of({str(n): " ".join(map(str, sorted(needs[n]))) for n in order}))
    depths = {n: longest(needs, n) for n in order}
    waves = [[n for n in order if depths[n] == d] for d in range(1, max(depths.values()) + 1)]
    assert [short(wave) for wave in made.waves] == [" ".join(map(str, wave)) for wave in waves]
    path = [int(number) for number in short(made.critical_path).split()]
    assert len(path) == max(depths.values())
    assert all(before in needs[after] for before, after in pairwise(path))


@st.composite
def any_needs(draw) -> dict[int, list[int]]:
    """Step -> any steps, itself too."""
    count = draw(st.integers(1, 6))
    return {n: draw(st.lists(st.integers(0, count - 1), max_size=3)) for n in range(count)}


def reaches(needs: dict[int, list[int]], start: int) -> set[int]:
    """Everything that a step waits for, directly or not."""
    found: set[int] = set()
    todo = list(needs[start])
    while todo:
        n = todo.pop()
        if n not in found:
            found.add(n)
            todo += needs[n]
    return found


@given(any_needs())
@settings(deadline=None, database=None)
def test_a_cycle_is_found_exactly_if_something_waits_for_itself(needs):
    made = {str(n): tuple(dict.fromkeys(map(str, wanted))) for n, wanted in needs.items()}
    found = model.cycles(made)
    assert bool(found) == any(n in reaches(needs, n) for n in needs)
    for cycle in found:
        assert cycle[0] == cycle[-1]
        assert all(b in made[a] for a, b in pairwise(cycle))
        assert len(set(cycle)) == len(cycle) - 1
