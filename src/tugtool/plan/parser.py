"""Markdown text -> Plan, with line numbers. Never fails on content.

The format is a table in `docs/plan-format.md`. What is judged rather than understood
(unknown dependencies, missing sections) is in `rules.py`; what looks like structure but
is none is in `near.py`.
"""

from __future__ import annotations

import re

from tugtool.plan import markdown, near
from tugtool.plan.draft import Box, Draft, Text
from tugtool.plan.model import Anchor, Decision, Diagnostic, Passage, Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tugtool.plan.markdown import Label, Line

_ANCHOR = re.compile(r"\{#([^{}]*)\}")
_STEP = re.compile(
    r"Step[ \t\xa0]+([A-Za-z]*+[0-9][A-Za-z0-9]*+(?:\.[A-Za-z0-9]++)*+)"
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
    """What `text` says, as far as it is a plan."""
    parser = _Parser()
    for line in markdown.lines(text.removeprefix("\ufeff")):
        parser.feed(line)
    return parser.plan()


class _Parser:
    """Lines in, a plan out. Remembers which step, checklist and text are open."""

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
        #: Boxes that the next line may go on with, the innermost last.
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
        self.diagnostics += near.placeholders(line)
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
        if label and not self._continues_box(label):
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
            self.diagnostics += near.commit(line)

    def _close_boxes(self, line: Line) -> None:
        # Behind a blank line one stray space does not make a continuation.
        least = 2 if self.after_blank else 1
        while self.boxes and line.indent < self.boxes[-1].indent + least:
            self.boxes.pop()

    def _continues_box(self, label: Label) -> bool:
        known = label.name in _CHECKLISTS or label.name in _PASSAGES
        return bool(self.boxes) and not known

    def _fenced(self, line: Line) -> None:
        if not self.in_fence:
            self.in_fence, self.fence_noted = True, False
            self._close_boxes(line)
        self._blank()
        head = markdown.heading(line.body) if line.body[:1] == "#" else None
        if head and not self.fence_noted and _STEP.match(head[1]):
            self.fence_noted = True
            self.diagnostics.append(near.in_fence(line.number, head[1]))

    def _blank(self) -> None:
        self.after_blank = True
        if self.text and not self.text.as_list:
            self.text = None

    def _note_anchors(self, line: Line, *, on_heading: bool) -> list[str]:
        # Each `{#` is looked at once: a brace inside ends the pattern.
        found = _ANCHOR.findall(markdown.mask_code(line.body))
        if not on_heading:
            # A space tells an anchor that went wrong from a template's `{#if this}`.
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
            self._set_title(line.number, plain)
        step = self._step_heading(level, plain)
        if step:
            self._open_step(line, level, *step, found)
            return
        self._close_steps(level)
        if self.step:
            self.checklist = _CHECKLISTS.get(plain.strip("*_: ").casefold())
        self._decision(line, level, plain, found)
        repeats = self.step is not None and near.repeats(plain, self.step.number)
        self.diagnostics += near.heading(line.number, level, plain, is_repeat=repeats)

    def _set_title(self, number: int, text: str) -> None:
        phase = _PHASE.match(text)
        self.title = text[phase.end() :] if phase else text
        if not phase:
            self.diagnostics += near.phase(number, text)

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
        # The heading's first anchor is the step's; one that it got is an anchor too.
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
        # Only the end can hold the status, and a pattern must not wander over a megabyte.
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
