"""Plans to be edited: steps as values, written out as text with an anchor for each.

A step is drawn as `2.1=Title < 1 3: a b e/x c/y`: the substep with the anchor `step-2-1`,
that title, two dependencies, the tasks a and b, the test x and the checkpoint y. Only the
name and the anchor come from the number; where the step stands is where it is drawn.
"""

from typing import NamedTuple

KINDS = {"t": "task", "e": "test", "c": "checkpoint"}
LABELS = {"task": "Tasks", "test": "Tests", "checkpoint": "Checkpoint"}


class Part(NamedTuple):
    """A step or substep."""

    anchor: str
    title: str
    is_substep: bool
    needs: tuple[str, ...]
    #: Kind and text.
    items: tuple[tuple[str, str], ...]


def part(line: str) -> Part:
    left, _, right = line.partition(":")
    name, _, needs = left.partition("<")
    number, _, title = name.strip().partition("=")
    items = [each if "/" in each else f"t/{each}" for each in right.split()]
    return Part(
        _anchor(number),
        title or f"Part {number}",
        "." in number,
        tuple(_anchor(need) for need in needs.split()),
        tuple((KINDS[each[0]], each[2:]) for each in items),
    )


def _anchor(number: str) -> str:
    return "step-" + number.replace(".", "-")


def text(parts: list[Part]) -> str:
    """The plan that the parts make; numbers are given as they come."""
    lines, top, sub = ["# Work"], 0, 0
    for each in parts:
        top, sub = (top, sub + 1) if each.is_substep else (top + 1, 0)
        number = f"{top}.{sub}" if each.is_substep else str(top)
        level = "####" if each.is_substep else "###"
        lines += ["", f"{level} Step {number}: {each.title} {{#{each.anchor}}}"]
        needs = ", ".join(f"#{need}" for need in each.needs)
        lines += ["", f"**Depends on:** {needs}"] if needs else []
        for kind, label in LABELS.items():
            boxes = [f"- [ ] {words}" for its, words in each.items if its == kind]
            lines += ["", f"**{label}:**", *boxes] if boxes else []
    return "\n".join(lines) + "\n"


def draw(*lines: str) -> str:
    return text([part(line) for line in lines])
