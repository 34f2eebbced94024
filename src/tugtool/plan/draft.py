"""A step while it is being read: texts and boxes that may go on with the next line."""

from __future__ import annotations

import re

from tugtool.plan.model import Item, Need, Passage, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.plan.markdown import Line

#: A dot belongs to the name before a digit only: `#step-2.1` is a mistake, `#step-2.` an end.
REFERENCE = re.compile(
    r"(?<![\w/&])#([A-Za-z0-9]++(?:[-_]++[A-Za-z0-9]++|\.[0-9][A-Za-z0-9]*+)*+)",
)
_NONE = re.compile(r"(?:none|n/a)\b|[-\u2010-\u2015]", re.IGNORECASE)


def is_none(text: str) -> bool:
    """Whether the text of `Depends on` says that there is no dependency."""
    return not text or _NONE.match(text.lstrip("*_`( ")) is not None


def references(text: str) -> list[str]:
    """Every `#anchor` that a text names, in order."""
    return REFERENCE.findall(text)


class Text:
    """Text that goes on over several lines."""

    def __init__(self, line: int, value: str) -> None:
        self.line = line
        self.parts = [(line, value)] if value else []
        #: The label stood alone: a list may follow, also after a blank line.
        self.as_list = not value

    def is_none(self) -> bool:
        return not self.parts or is_none(self.parts[0][1])

    def passage(self) -> Passage:
        return Passage(" ".join(part for _, part in self.parts), self.line)


class Box:
    """An item whose text may go on."""

    def __init__(self, kind: str, ordinal: int, line: Line, ticked: bool, text: str) -> None:
        self.kind, self.ordinal, self.line, self.ticked = kind, ordinal, line.number, ticked
        self.indent = line.indent
        self.parts = [text]

    def item(self) -> Item:
        return Item(self.kind, self.ordinal, " ".join(self.parts), self.line, self.ticked)


class Draft:
    """A step that is being read."""

    def __init__(self, number: str, title: str, level: int, line: int, anchor: str) -> None:
        self.number, self.title, self.level, self.line = number, title, level, line
        self.anchor = anchor
        self.index = 0
        self.passages: dict[str, Text] = {}
        self.boxes: list[Box] = []
        self.counts: dict[str, int] = {}
        self.substeps: list[Draft] = []

    def add(self, kind: str, line: Line, ticked: bool, text: str) -> Box:
        ordinal = self.counts.get(kind, 0)
        self.counts[kind] = ordinal + 1
        self.boxes.append(Box(kind, ordinal, line, ticked, text))
        return self.boxes[-1]

    def open(self, name: str, text: Text) -> Text:
        """The text that a label begins, or goes on with if the step has had the label."""
        before = self.passages.setdefault(name, text)
        if before is text:
            return text
        if not before.parts or (name == "depends on" and before.is_none()):
            self.passages[name] = text
            return text
        # Two commit lines are two messages; the first is the step's.
        if name == "commit":
            return text
        before.parts += text.parts
        before.as_list = text.as_list
        return before

    def needs(self) -> tuple[Need, ...]:
        depends = self.passages.get("depends on")
        if depends is None or depends.is_none():
            return ()
        found: dict[str, Need] = {}
        for line, text in depends.parts:
            for anchor in references(text):
                found.setdefault(anchor, Need(anchor, line))
        return tuple(found.values())

    def step(self, parent: str | None = None) -> Step:
        kept = {name: text.passage() for name, text in self.passages.items()}
        return Step(
            self.anchor,
            self.number,
            self.title,
            self.level,
            self.line,
            self.index,
            parent,
            self.needs(),
            kept.get("depends on"),
            kept.get("commit"),
            kept.get("references"),
            kept.get("artifacts"),
            kept.get("rollback"),
            tuple(box.item() for box in self.boxes),
            tuple(substep.step(self.anchor) for substep in self.substeps),
        )
