"""Parses the text of a plan into a Plan with line numbers."""

from __future__ import annotations

import re

from tugtool.plan import markdown
from tugtool.plan.model import Anchor, Decision, Diagnostic, Item, Need, Passage, Plan, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tugtool.plan.markdown import Label, Line


# No possessive quantifier after a group: before 3.11.5 Python can end in the middle of one.
#: A dot belongs to the name only before a digit: `#step-2.1` is a mistake, `#step-2.` an end.
REFERENCE = re.compile(
    r"(?<![\w/&])#([A-Za-z0-9]++(?:[-_]++[A-Za-z0-9]++|\.[0-9][A-Za-z0-9]*+)*)"
    r"(?![-_]++[A-Za-z0-9]|\.[0-9])",
)
_NONE = re.compile(r"(?:none|n/a)\b|[-\u2010-\u2015]", re.IGNORECASE)


def is_none(text: str) -> bool:
    """True if the text of `Depends on` says that there is no dependency."""
    return not text or _NONE.match(text.lstrip("*_`( ")) is not None


def references(text: str) -> list[str]:
    """Every `#anchor` that a text names, in order."""
    return REFERENCE.findall(text)


class Text:
    """Text that can continue on the next lines."""

    def __init__(self, line: int, value: str) -> None:
        self.line = line
        self.parts = [(line, value)] if value else []
        #: The label is alone on its line: a list may follow, also after a blank line.
        self.as_list = not value

    def is_none(self) -> bool:
        return not self.parts or is_none(self.parts[0][1])

    def passage(self) -> Passage:
        return Passage(" ".join(part for _, part in self.parts), self.line)


class Box:
    """An item whose text may continue on the next lines."""

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
        """The text of a label, new or continued if the step has had the label."""
        before = self.passages.setdefault(name, text)
        if before is text:
            return text
        if not before.parts or (name == "depends on" and before.is_none()):
            self.passages[name] = text
            return text
        # Of two commit lines, the first is the step's message.
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


_ANCHOR = re.compile(r"\{#([^{}]*)\}")
_STEP = re.compile(
    r"Step[ \t\xa0]+([A-Za-z]*+[0-9][A-Za-z0-9]*+(?:\.[A-Za-z0-9]++)*)(?!\.[A-Za-z0-9])"
    r"(?:[ \t]*[:\u2010-\u2015][ \t]*|[ \t]*-+(?:[ \t]+|(?=[^\d\s-]))|[ \t\xa0]+)(?=\S)",
)
_PHASE = re.compile(r"Phase[ \t]+[\w.-]+:[ \t]*(?=\S)")
_DECISION = re.compile(r"\[([DQ][A-Z]?\d+[a-z]?)\][ \t]*")
_STATUS = re.compile(r"\(([A-Z][A-Z]+)\b[^()]*(?:\([^()]*\)[^()]*)*\)$")
_SEPARATORS = ":-\u2010\u2011\u2012\u2013\u2014\u2015 \t"
_CELL_END = re.compile(r"(?<!\\)\|")

_CHECKLISTS = {
    "tasks": "task",
    "tests": "test",
    "checkpoint": "checkpoint",
    "checkpoints": "checkpoint",
}
_PASSAGES = ("depends on", "commit", "references", "artifacts", "rollback")


def parse(text: str) -> Plan:
    """The plan in `text`."""
    parser = _Parser()
    for line in markdown.lines(text.removeprefix("\ufeff")):
        parser.feed(line)
    return parser.plan()


def section(text: str, plan: Plan, step: Step) -> str:
    """The lines of a step: from its heading to the next step, or heading of its level or above."""
    own = [each.line for each in step.family()]
    others = {each.line for each in plan.every_step()}.difference(own)
    lines = list(markdown.lines(text))
    end = next((each.number for each in lines[step.line :] if _ends(each, step, others)), None)
    raw = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(raw[step.line - 1 : end and end - 1]).rstrip()


def _ends(line: Line, step: Step, others: set[int]) -> bool:
    if line.fenced or line.body[:1] != "#" or line.indent >= 4:
        return False
    found = markdown.heading(line.body)
    return line.number in others or (found is not None and found[0] <= step.level)


class _Parser:
    """Reads lines into a plan. Tracks the open step, checklist and text."""

    def __init__(self) -> None:
        self.title: str | None = None
        self.purpose: Text | None = None
        self.metadata: dict[str, Passage] = {}
        self.decisions: list[Decision] = []
        self.anchors: list[Anchor] = []
        self.steps: list[Draft] = []
        self.diagnostics: list[Diagnostic] = []
        self.count = 0
        self.last_line = 0
        self.by_number: dict[str, Draft] = {}
        self.step: Draft | None = None
        self.substep: Draft | None = None
        self.checklist: str | None = None
        #: Boxes that the next line may continue, the innermost last.
        self.boxes: list[Box] = []
        self.text: Text | None = None
        self.after_blank = False
        self.metadata_level = 0
        self.in_fence = False
        self.fence_noted = False

    def plan(self) -> Plan:
        return Plan(
            self.title,
            self.purpose.passage() if self.purpose else None,
            self.metadata,
            tuple(self.decisions),
            tuple(self.anchors),
            tuple(draft.step() for draft in self.steps),
            self.last_line,
            tuple(self.diagnostics),
        )

    def feed(self, line: Line) -> None:
        self.last_line = line.number
        if line.fenced:
            self._fenced(line)
            return
        self.in_fence = False
        if not line.body:
            self._blank()
            return
        self.diagnostics += markdown.placeholders(line)
        head = markdown.heading(line.body) if line.body[0] == "#" and line.indent < 4 else None
        if head:
            self._heading(line, *head)
        else:
            self._text_line(line)
        self.after_blank = False

    def _text_line(self, line: Line) -> None:
        if "{#" in line.body:
            self._note_anchors(line, on_heading=False)
        self._close_boxes(line)
        label = markdown.label(line.body)
        box = markdown.box(line.body)
        owner = self.substep or self.step
        known = label and (label.name in _CHECKLISTS or label.name in _PASSAGES)
        if label and (known or not self.boxes):
            self._label(line, label)
        elif box:
            self.text = None
            if owner:
                self.boxes.append(owner.add(self.checklist or "task", line, *box))
        elif self.metadata_level and line.body[0] == "|":
            self._metadata_row(line)
        else:
            self._continue(line)
        if owner and not box and "commit" not in owner.passages:
            self.diagnostics += markdown.commit_line(line)

    def _close_boxes(self, line: Line) -> None:
        # After a blank line a single space does not continue a box.
        least = 2 if self.after_blank else 1
        while self.boxes and line.indent < self.boxes[-1].indent + least:
            self.boxes.pop()

    def _fenced(self, line: Line) -> None:
        if not self.in_fence:
            self.in_fence, self.fence_noted = True, False
            self._close_boxes(line)
        self._blank()
        head = markdown.heading(line.body) if line.body[:1] == "#" else None
        if head and not self.fence_noted and _STEP.match(head[1]):
            self.fence_noted = True
            self.diagnostics.append(markdown.in_fence(line.number, head[1]))

    def _blank(self) -> None:
        self.after_blank = True
        if self.text and not self.text.as_list:
            self.text = None

    def _note_anchors(self, line: Line, *, on_heading: bool) -> list[str]:
        # Read each `{#` once: a brace inside ends the pattern.
        found = _ANCHOR.findall(markdown.mask_code(line.body))
        if not on_heading:
            # A wrong anchor has no space; a template's `{#if this}` has one.
            found = [name for name in found if name and not any(map(str.isspace, name))]
        self.anchors += [Anchor(name, line.number, on_heading) for name in found]
        return found

    def _heading(self, line: Line, level: int, text: str) -> None:
        self.boxes = []
        self.text = self.checklist = None
        found = self._note_anchors(line, on_heading=True) if "{#" in text else []
        plain = _ANCHOR.sub("", text).strip() if found else text
        if level <= self.metadata_level:
            self.metadata_level = 0
        if "plan-metadata" in found:
            self.metadata_level = level
        if level <= 2 and plain and self.title is None:
            phase = _PHASE.match(plain)
            self.title = plain[phase.end() :] if phase else plain
            self.diagnostics += [] if phase else markdown.phase(line.number, plain)
        step = self._step_heading(level, plain)
        if step:
            self._open_step(line, level, *step, found)
            return
        self._close_steps(level)
        if self.step:
            self.checklist = _CHECKLISTS.get(plain.strip("*_: ").casefold())
        self._decision(line, level, plain, found)
        repeats = self.step is not None and markdown.repeats(plain, self.step.number)
        self.diagnostics += markdown.near_heading(line.number, level, plain, is_repeat=repeats)

    def _step_heading(self, level: int, text: str) -> tuple[str, str] | None:
        match = _STEP.match(text)
        if match is None:
            return None
        number = match[1]
        dotted = "." in number
        if not 3 <= level <= (6 if dotted else 5):
            return None
        if self.step and level > self.step.level and number == self.step.number and not dotted:
            return None
        title = text[match.end() :]
        return (number, title) if title.strip(_SEPARATORS) else None

    def _open_step(
        self, line: Line, level: int, number: str, title: str, found: Sequence[str]
    ) -> None:
        anchor = found[0] if found else "step-" + number.lower().replace(".", "-")
        # The heading's first anchor is the step's; an anchor made from its number counts too.
        if found:
            self.anchors[-len(found)] = Anchor(anchor, line.number, True, True)
        else:
            self.anchors.append(Anchor(anchor, line.number, True, True))
        draft = Draft(number, title, level, line.number, anchor)
        draft.index = self.count
        self.count += 1
        first, dot, _ = number.partition(".")
        parent = self.by_number.get(first) if dot else None
        if parent and level > parent.level:
            parent.substeps.append(draft)
            self.step, self.substep = parent, draft
            return
        self.steps.append(draft)
        self.by_number[number] = draft
        self.step, self.substep = draft, None

    def _close_steps(self, level: int) -> None:
        if self.substep and level <= self.substep.level:
            self.substep = None
        if self.step and level <= self.step.level:
            self.step = self.substep = None

    def _decision(self, line: Line, level: int, text: str, found: Sequence[str]) -> None:
        match = _DECISION.match(text) if level == 4 else None
        if match is None:
            return
        title = text[match.end() :]
        # Only the end can have the status, and a pattern must not search a megabyte.
        tail = title[-200:]
        status = _STATUS.search(tail)
        if status:
            title = title[: len(title) - len(tail) + status.start()].rstrip()
        anchor = found[0] if found else None
        said = status[1] if status else None
        self.decisions.append(Decision(match[1], title, said, anchor, line.number))

    def _label(self, line: Line, label: Label) -> None:
        self.boxes = []
        self.text = None
        owner = self.substep or self.step
        if owner and label.name in _CHECKLISTS:
            self.checklist = _CHECKLISTS[label.name]
        elif owner and label.name in _PASSAGES:
            self.checklist = None
            self.text = owner.open(label.name, Text(line.number, label.value))
        elif label.name == "purpose" and self.purpose is None:
            self.text = self.purpose = Text(line.number, label.value)

    def _continue(self, line: Line) -> None:
        if self.boxes:
            self.boxes[-1].parts.append(line.body)
        elif self.text:
            listed = markdown.without_marker(line.body)
            if self.after_blank and listed is None:
                self.text = None
                return
            self.text.parts.append((line.number, line.body if listed is None else listed))

    def _metadata_row(self, line: Line) -> None:
        cells = [cell.strip() for cell in _CELL_END.split(line.body[1:], maxsplit=2)]
        field = cells[0].strip("*_` ").casefold()
        if len(cells) > 1 and field not in ("", "field") and set(field) - set("-: "):
            self.metadata.setdefault(
                field, Passage(cells[1].replace("\\|", "|").strip("`"), line.number)
            )
