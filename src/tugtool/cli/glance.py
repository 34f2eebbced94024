"""A picture for a screen of so many rows: all of it if it fits, otherwise what matters.

What matters: how far each plan is; then the steps that somebody is at or should look at, as
full as there is room; then what comes next; and how many more there are.
"""

from __future__ import annotations

from tugtool.cli import picture
from tugtool.cli.picture import stand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tugtool.cli.canvas import Canvas
    from tugtool.cli.picture import Data, Look

    #: A plan and what to beware of.
    Plans = Sequence[tuple[Data, Sequence[str]]]

_URGENT = {"gone": 0, "expired": 1, "parked": 2, "work": 3}
_CALM = ("ready", "blocked", "done")
_WORDS = {"ready": "ready", "blocked": "blocked", "done": "completed", "work": "at work"}


def frame(
    new: Callable[[], Canvas],
    plans: Plans,
    look: Look,
    *,
    rows: int,
    trouble: str = "",
    nothing: str = "",
) -> list[str]:
    """At most so many lines; what is wrong stands above, `nothing` where there is no plan."""
    top = new()
    if trouble:
        warning = f"{top.glyphs.warning} {top.said(trouble.rstrip('.'))}; watching on"
        top.write(("warning", warning), hang=2)
    if not plans:
        top.write(("", nothing))
    rows -= len(top.lines)
    # A step takes two lines at the very least, so a long plan need not be drawn to know it.
    if 2 * sum(len(plan["steps"]) for plan, _ in plans) <= rows:
        whole = new()
        for number, (plan, warning_) in enumerate(plans):
            if number:
                whole.write()
            picture.draw(whole, plan, look, warning_)
        if len(whole.lines) <= rows:
            return top.lines + whole.lines
    shown = _Glance(new, plans, look).lines(rows)
    return (top.lines + shown)[: rows + len(top.lines)]


class _Glance:
    """The plans in sections: a head each, and the steps there is room for."""

    def __init__(self, new: Callable[[], Canvas], plans: Plans, look: Look) -> None:
        self.new = new
        self.sections = [_Section(new, plan, warning, look) for plan, warning in plans]

    def lines(self, rows: int) -> list[str]:
        # Each head is followed by a blank line, and so is each section.
        heads = sum(len(section.head) + 2 for section in self.sections)
        if heads > rows:
            return self._names(rows)
        # One row is for how many more there are.
        left = rows - heads
        for section in self.sections:
            left -= section.name_urgent(left)
        for brief in (True, False):
            for section in self.sections:
                left -= section.unfold(left, brief=brief)
        for standing in _CALM:
            for section in self.sections:
                left -= section.name_calm(left, standing)
        parts = [line for section in self.sections for line in ("", *section.lines())]
        return [*parts[1:], *self._more()]

    def _names(self, rows: int) -> list[str]:
        """Too many plans for their heads: a line each."""
        canvas = self.new()
        most = rows if len(self.sections) <= rows else rows - 1
        for section in self.sections[:most]:
            picture.one_line(canvas, section.plan)
        rest = len(self.sections) - most
        if rest > 0:
            canvas.write_cut(("dim", f"{canvas.glyphs.more} {rest} more plans"))
        return canvas.lines

    def _more(self) -> list[str]:
        hidden = [section.hidden() for section in self.sections]
        order = (*_URGENT, *_CALM)
        counts = {word: sum(each.get(word, 0) for each in hidden) for word in order}
        counts = {word: number for word, number in counts.items() if number}
        if not counts:
            return []
        canvas = self.new()
        said = ", ".join(f"{number} {_WORDS.get(word, word)}" for word, number in counts.items())
        total = sum(counts.values())
        steps = "step" if total == 1 else "steps"
        canvas.write_cut(("dim", f"{canvas.glyphs.more} {total} more {steps}: {said}"))
        return canvas.lines


class _Section:
    """One plan: its head, and the steps that are shown of it."""

    def __init__(
        self, new: Callable[[], Canvas], plan: Data, warning: Sequence[str], look: Look
    ) -> None:
        self.new, self.plan = new, plan
        canvas = new()
        picture.head(canvas, plan, warning)
        picture.overall(canvas, plan)
        self.head = canvas.lines
        #: Step by step: how it stands, and what is shown of it.
        self.urgent: list[tuple[str, Data]] = []
        self.calm: dict[str, list[Data]] = {}
        for step in plan["steps"]:
            standing = stand(step)
            if standing in _URGENT:
                self.urgent.append((standing, step))
            else:
                self.calm.setdefault(standing, []).append(step)
        self.urgent.sort(key=lambda each: _URGENT[each[0]])
        self.blocks: list[list[str]] = []
        self.rest: list[str] = []
        # Sorting the items out is most of the work, and the same for every step.
        self.drawer = picture.Drawer(canvas, plan, look)

    def name_urgent(self, rows: int) -> int:
        """A line for each step that somebody is at or should look at; how many rows it takes."""
        self.blocks = [self._title(*each) for each in self.urgent[: max(rows, 0)]]
        return len(self.blocks)

    def unfold(self, rows: int, *, brief: bool) -> int:
        """Those steps with their bars or in full, while there is room; how many rows more."""
        used = 0
        for place, (_, step) in enumerate(self.urgent[: len(self.blocks)]):
            canvas = self.new()
            self._on(canvas).step(step, brief=brief)
            more = len(canvas.lines) + 1 - len(self.blocks[place])
            if more <= rows - used:
                self.blocks[place], used = [*canvas.lines, ""], used + more
        return used

    def name_calm(self, rows: int, standing: str) -> int:
        """A line for each step that stands like this; how many rows it takes."""
        steps = self.calm.get(standing, [])
        # Of what is done the last is what people ask for.
        ordered = steps[::-1] if standing == "done" else steps
        blank = 0 if self.rest or not self.blocks or self.blocks[-1][-1] == "" else 1
        shown = ordered[: max(rows - blank, 0)]
        if not shown:
            return 0
        self.rest += [""] * blank
        self.rest += [line for step in shown for line in self._title(standing, step)]
        self.calm[standing] = ordered[len(shown) :]
        return len(shown) + blank

    def hidden(self) -> dict[str, int]:
        """How the steps stand that are not shown."""
        counts = {standing: len(steps) for standing, steps in self.calm.items() if steps}
        for standing, _ in self.urgent[len(self.blocks) :]:
            counts[standing] = counts.get(standing, 0) + 1
        return counts

    def lines(self) -> list[str]:
        steps = [line for block in (*self.blocks, self.rest) for line in block]
        while steps and steps[-1] == "":
            steps.pop()
        return [*self.head, "", *steps] if steps else self.head

    def _title(self, standing: str, step: Data) -> list[str]:
        canvas = self.new()
        self._on(canvas).title(step, 0, standing, cut=True)
        return canvas.lines

    def _on(self, canvas: Canvas) -> picture.Drawer:
        self.drawer.canvas = canvas
        return self.drawer
