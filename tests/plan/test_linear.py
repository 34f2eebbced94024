"""Twice the text is at most twice the work, for every shape that could be slow.

Work is counted, not timed: every line of Python that runs. What a regular expression or
a string method does inside cannot be seen this way; `bench/parser.py` takes the time.
"""

import gc
import sys
from collections.abc import Callable

import pytest

from support.plan_shapes import SHAPES, cycle, unknown_needs
from support.proving import sampled
from tugtool.plan import markdown, rules
from tugtool.plan.parser import parse

SIZE = 3000
#: Lengths of numbers grow with the text, and a few limits end inside it.
RATIO, SLACK = 2.2, 2000


class Counter:
    """Counts the lines that run while it is entered."""

    def __init__(self) -> None:
        self.lines = 0

    def __enter__(self) -> "Counter":
        self.before = sys.gettrace()
        sys.settrace(self.trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self.before)

    def trace(self, frame: object, event: str, argument: object) -> Callable:
        self.lines += 1
        return self.trace


def judge(text: str) -> object:
    """Everything that `validate` does with a text."""
    return rules.check(parse(text), "strict")


def work(do: Callable[[str], object], text: str) -> int:
    """How many lines run."""
    # Once before, so that what is compiled or cached only at first does not count.
    do(text[:100])
    # Not meanwhile: what other tests left behind may run code when it goes.
    gc.disable()
    try:
        with Counter() as counter:
            do(text)
    finally:
        gc.enable()
    return counter.lines


def is_linear(do: Callable[[str], object], shape: Callable[[int], str], size: int = SIZE) -> bool:
    """Whether twice the text is about twice the work."""
    return work(do, shape(2 * size)) <= RATIO * work(do, shape(size)) + SLACK


@pytest.mark.parametrize("name", sampled(SHAPES, 24))
def test_twice_the_text_is_at_most_twice_the_work(name):
    assert is_linear(judge, SHAPES[name])


def test_counting_is_the_same_every_time():
    text = SHAPES["plain steps"](SIZE)
    assert work(judge, text) == work(judge, text)


def test_a_quadratic_function_is_caught():
    def quadratic(text: str) -> int:
        rows = text.split("\n")
        return sum(1 for row in rows for other in rows if row < other)

    assert not is_linear(quadratic, SHAPES["items"])


def test_a_parser_that_looks_for_the_end_of_a_comment_again_and_again_is_caught(monkeypatch):
    remembering = markdown._Scanner._closes_later

    def forgetful(scanner: markdown._Scanner, index: int) -> bool:
        scanner.unclosed_until = 0
        return remembering(scanner, index)

    monkeypatch.setattr(markdown._Scanner, "_closes_later", forgetful)
    assert not is_linear(judge, SHAPES["comment openings"])


def test_a_parser_that_copies_what_it_has_at_every_step_is_caught(monkeypatch):
    def every_step(plan):
        found = []
        for step in plan.steps:
            found = [each for each in found]
            found.append(step)
        return iter(found)

    monkeypatch.setattr("tugtool.plan.model.Plan.every_step", every_step)
    assert not is_linear(judge, SHAPES["steps without anchor"])


def steps_of(shape: Callable[[int], str], size: int, least: int) -> None:
    """The shape has at least so many steps at this size."""
    assert len(parse(shape(size)).steps) >= least


@pytest.mark.parametrize(("size", "steps"), sampled([(16_000, 240), (100_000, 1500)], 1))
def test_many_unknown_dependencies_are_judged_without_comparing_all_with_all(size, steps):
    steps_of(unknown_needs, size, steps)
    assert is_linear(judge, unknown_needs, size)


def test_long_alike_names_are_not_all_compared_with_an_unknown_one():
    name = "ab" * 90

    def text(count: int) -> str:
        steps = "".join(f"#### Step {n}: x {{#{name}{n}}}\n" for n in range(count))
        return f"{steps}**Depends on:** #{name}x\n"

    assert work(judge, text(80)) <= 1.2 * work(judge, text(40))


#: The first is longer than Python lets functions call each other.
@pytest.mark.parametrize(("size", "steps"), sampled([(52_000, 1_200), (460_000, 10_000)], 1))
def test_a_cycle_of_thousands_of_steps_is_judged_in_one_walk(size, steps):
    assert steps > sys.getrecursionlimit()
    assert is_linear(judge, cycle, size // 8)
    plan = parse(cycle(size))
    assert len(plan.steps) >= steps
    (found,) = [each for each in rules.check(plan, "lenient") if each.code == "E011"]
    assert found.message.count(" -> ") >= steps
