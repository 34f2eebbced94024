"""The lines of a plan: headings, labels, boxes, and near misses."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from tugtool.plan.model import Diagnostic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


_FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_MARKER = re.compile(r"(?:[-+*]|\d{1,9}[.)])(?:[ \t]{1,4}(?![ \t])|[ \t]|$)")
#: Lines that end an open paragraph.
_INTERRUPTS = re.compile(
    r"#{1,6}(?:[ \t]|$)|>|<!--|`{3,}[^`]*$|~{3,}|(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)"
)
_TICKS = re.compile("`+")
_PARENTHESIS = re.compile(r"[ \t]*\((?:[^()]++|\([^()]*+\))*\)[ \t]*:")

#: The most list markers on one line: reading each copies the rest of the line.
_MOST_MARKERS = 4


class Line(NamedTuple):
    """A line without its indentation and comments."""

    number: int
    indent: int
    #: Empty for a blank line and for a line in a comment.
    body: str
    fenced: bool


class Label(NamedTuple):
    """`**Name (remark):** value`."""

    name: str
    value: str


def lines(text: str) -> Iterator[Line]:
    """The lines of a text, without comments."""
    # CommonMark replaces NUL too, and databases cannot store it.
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    raw = text.removesuffix("\n").split("\n") if text else []
    scanner = _Scanner(raw)
    return (scanner.line(index) for index in range(len(raw)))


def heading(body: str) -> tuple[int, str] | None:
    """Level and text of an ATX heading."""
    rest = body.lstrip("#")
    level = len(body) - len(rest)
    if not 1 <= level <= 6 or (rest and rest[0] not in " \t"):
        return None
    rest = rest.strip()
    shorter = rest.rstrip("#")
    if not shorter or shorter[-1] in " \t":
        rest = shorter.rstrip()
    return level, rest


def label(body: str) -> Label | None:
    """The label of a line: bold text at its start, with a colon or alone."""
    mark = body[:2]
    end = body.find(mark, 2) if mark in ("**", "__") else -1
    if end < 0:
        return None
    name, value = body[2:end].strip(), body[end + 2 :]
    if name.endswith(":"):
        return Label(_plain(name[:-1]), value.strip())
    if value.lstrip().startswith(":"):
        return Label(_plain(name), value.lstrip()[1:].strip())
    remark = _PARENTHESIS.match(value)
    if remark:
        return Label(_plain(name), value[remark.end() :].strip())
    return Label(_plain(name), "") if not value.strip() else None


def box(body: str) -> tuple[bool, str] | None:
    """The tick of a checklist box, and its text; None if the line is not a box."""
    if body[:1] not in ("-", "*", "+") or body[1:2] not in (" ", "\t"):
        return None
    rest = body[1:].lstrip()
    if rest[:1] != "[" or rest[2:3] != "]" or rest[3:4] not in (" ", "\t"):
        return None
    if rest[1] not in " xX":
        return None
    return rest[1] != " ", rest[3:].strip()


def without_marker(body: str) -> str | None:
    """The text of a list item, or None if the line is not one."""
    marker = _MARKER.match(body)
    return body[marker.end() :].strip() if marker else None


def mask_code(text: str) -> str:
    """The text with blanks in place of its code spans; positions stay the same."""
    if "`" not in text:
        return text
    runs = [match.span() for match in _TICKS.finditer(text)]
    closer: list[int | None] = [None] * len(runs)
    seen: dict[int, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        start, end = runs[index]
        closer[index] = seen.get(end - start)
        seen[end - start] = index
    return _blanked(text, runs, closer)


def _blanked(text: str, runs: list[tuple[int, int]], closer: list[int | None]) -> str:
    parts, done, index = [], 0, 0
    while index < len(runs):
        start, _ = runs[index]
        partner = closer[index]
        if partner is None or text[start - 1 : start] == "\\":
            index += 1
            continue
        end = runs[partner][1]
        parts += [text[done:start], " " * (end - start)]
        done, index = end, partner + 1
    return "".join([*parts, text[done:]])


def _plain(name: str) -> str:
    # Bold italics leave a star or an underscore.
    name = name.strip("*_ \t").casefold()
    opening = name.find("(")
    return name[:opening].rstrip() if opening > 0 and name.endswith(")") else name


class _Scanner:
    """Tracks the open fence, comment and lists."""

    def __init__(self, raw: list[str]) -> None:
        self.raw = raw
        self.fence = ""
        self.fence_base = 0
        self.in_comment = False
        #: Columns at which the text of the open list items begins.
        self.lists: list[int] = []
        #: True if the next line may continue a paragraph, at any indentation.
        self.paragraph = False
        #: No comment closes before this line.
        self.unclosed_until = 0

    def line(self, index: int) -> Line:
        raw = self.raw[index]
        body = raw.strip()
        if not body:
            self.paragraph = False
            return Line(index + 1, 0, "", bool(self.fence))
        indent = _indent(raw)
        if self.fence and indent >= self.fence_base:
            is_run = body.startswith(self.fence) and not body.strip(self.fence[0])
            if is_run and indent - self.fence_base <= 3:
                self.fence = ""
            return Line(index + 1, indent, body, True)
        self.fence = ""
        if self.in_comment:
            return self._after_comment(index, indent, body)
        return self._visible(index, indent, body)

    def _visible(self, index: int, indent: int, body: str) -> Line:
        kept = bisect_right(self.lists, indent)
        base = self.lists[kept - 1] if kept else 0
        is_code = indent - base > 3
        if self.paragraph and (is_code or not _INTERRUPTS.match(body)):
            return Line(index + 1, indent, self._without_comments(index, body), False)
        self.paragraph = False
        del self.lists[kept:]
        if is_code:
            return Line(index + 1, indent, self._without_comments(index, body), False)
        if body.startswith("<!--"):
            return self._after_comment(index, indent, body[2:])
        start, content = self._enter_lists(indent, body)
        opening = _FENCE.match(content) if content[:1] in ("`", "~") else None
        if opening:
            self.fence, self.fence_base = opening[1] or opening[2], start
            return Line(index + 1, indent, body, True)
        self.paragraph = bool(content) and heading(content) is None
        return Line(index + 1, indent, self._without_comments(index, body), False)

    def _after_comment(self, index: int, indent: int, body: str) -> Line:
        _, end, rest = body.partition("-->")
        self.in_comment = not end
        rest = self._without_comments(index, rest.strip())
        return Line(index + 1, indent if rest else 0, rest, False)

    def _enter_lists(self, indent: int, body: str) -> tuple[int, str]:
        """Open the list items of this line; the column and the text after their markers."""
        base = self.lists[-1] if self.lists else 0
        for _ in range(_MOST_MARKERS):
            marker = _MARKER.match(body)
            if not marker:
                break
            base = indent = indent + max(marker.end(), 2)
            self.lists.append(base)
            body = body[marker.end() :]
        return base, body

    def _without_comments(self, index: int, body: str) -> str:
        if "<!--" not in body:
            return body
        masked = mask_code(body)
        parts, done = [], 0
        while (start := masked.find("<!--", done)) >= 0:
            end = masked.find("-->", start + 2)
            if end < 0 and not self._closes_later(index):
                break
            parts.append(body[done:start])
            done = end + 3 if end >= 0 else len(body)
            self.in_comment = end < 0
        return "".join([*parts, body[done:]]).strip()

    def _closes_later(self, index: int) -> bool:
        """True if `-->` follows in the paragraph; otherwise `<!--` is plain text."""
        if index < self.unclosed_until:
            return False
        for later in range(index + 1, len(self.raw)):
            if "-->" in self.raw[later]:
                return True
            if not self.raw[later].strip():
                break
        else:
            later = len(self.raw)
        self.unclosed_until = later
        return False


def _indent(raw: str) -> int:
    leading = raw[: len(raw) - len(raw.lstrip(" \t"))]
    return len(leading.expandtabs(4)) if "\t" in leading else len(leading)


#: People may put emphasis, a tick or a picture before the title.
_STEP = re.compile(
    r"(?:\[[ x]\])?[\W_]{0,8}(?:sub-?)?step"
    r"[ \t]{0,3}(?:[#:.]|-?[ \t]?[A-Za-z]?\d|[A-Za-z][ \t]?[:\u2013\u2014]|$)",
    re.IGNORECASE,
)
_DECISION = re.compile(r"\[?(?:(?:decision|question)[ \t]{1,3})?\[?[dq]\d{1,4}\b", re.IGNORECASE)
_PROPER_DECISION = re.compile(r"\[[DQ][A-Z]?\d+[a-z]?\]")
_ANCHOR_FORMS = re.compile(
    r"(?:\{[ \t]{0,3}#?[ \t]{0,3}[\w-]{1,80}[ \t]{0,3}\}|\[#[\w-]{1,80}\]|\(#[\w-]{1,80}\)"
    r"|\{#[\w-]{0,80})$"
)
_COMMIT = re.compile(
    r"(?:[-*+][ \t]{1,3})?[*_]{0,2}commit(?: message| line)?[*_]{0,2}[ \t]{0,3}:", re.IGNORECASE
)
_PLACEHOLDER = re.compile(r"(?<![\w<])<(?![A-Za-z][\w+.-]{0,20}:)([A-Za-z][^<>=@]{0,200})>")
#: HTML tags, and components of a user interface such as `<TugPopover>`.
_TAG = re.compile(
    r"(?:a|abbr|b|blockquote|br|center|code|d[dlt]|del|details|div|em|figure|h[1-6r]|i|img|input|ins"
    r"|kbd|li|mark|ol|p|picture|pre|q|s|samp|script|small|source|span|strike|strong|style|su[bp]"
    r"|summary|t(?:able|body|d|foot|h|head|r)|u|ul|var|video|[A-Z][a-z0-9]+[A-Z]\w*)[ \t]{0,3}/?\Z"
)


def short(text: str, longest: int = 60) -> str:
    """The text, cut for use in a message."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def near_heading(line: int, level: int, text: str, *, is_repeat: bool) -> Iterator[Diagnostic]:
    """P001, P002, P005: a heading with almost the form of a step, a decision or an anchor."""
    start = text[:200]
    if _STEP.match(start) and not is_repeat:
        yield Diagnostic(
            "P001",
            line,
            f'"{short(text)}" looks like a step but is not one',
            "write a heading of level 3 to 5 like: #### Step 3: Title {#step-3}",
        )
    if _DECISION.match(start) and not (level == 4 and _PROPER_DECISION.match(start)):
        yield Diagnostic(
            "P002",
            line,
            f'"{short(text)}" looks like a decision or a question but is not one',
            "write a heading of level 4 like: #### [D01] Title (DECIDED) {#d01-title}",
        )
    # A code span at the end of a heading mentions an anchor; it does not set one.
    form = _ANCHOR_FORMS.search(mask_code(text[-200:]))
    if form:
        yield Diagnostic(
            "P005",
            line,
            f'"{form[0]}" looks like an anchor but is not one',
            "write it in braces with a number sign: {#kebab-case}",
        )


def repeats(text: str, number: str) -> bool:
    """True if a heading inside a step repeats the step's name."""
    words = text.replace(":", " ").split(None, 2)
    return words[:2] == ["Step", number]


def phase(line: int, text: str) -> Iterator[Diagnostic]:
    """P003: a title that begins with a phase in the wrong form."""
    if text.startswith("Phase") and text[5:6] in (" ", "\t", ""):
        yield Diagnostic(
            "P003",
            line,
            f'"{short(text)}" looks like a phase heading but does not have its form',
            "write: ## Phase 1.0: Title {#anchor}",
        )


def in_fence(line: int, text: str) -> Diagnostic:
    """P006: a step inside a fenced code block does not count."""
    return Diagnostic(
        "P006",
        line,
        f'"{short(text)}" is in a fenced code block and does not count',
        "close the fence above it if the step is meant",
    )


def commit_line(line: Line) -> Iterator[Diagnostic]:
    """P007: a commit line that is not one."""
    if line.body[:1] in "-*+_cC" and _COMMIT.match(line.body[:80]):
        yield Diagnostic(
            "P007",
            line.number,
            f'"{short(line.body)}" looks like a commit line but is not one',
            "write: **Commit:** `feat: what it does`",
        )


def placeholders(line: Line) -> Iterator[Diagnostic]:
    """W006: `<something>` that the author was meant to replace."""
    found = placeholder(mask_code(line.body)) if "<" in line.body else None
    if found:
        yield Diagnostic(
            "W006",
            line.number,
            f"the placeholder {short(found)} is still there",
            "replace it, or put it between backticks if it is meant",
        )


def placeholder(text: str) -> str | None:
    """The first `<something>` in a text that is neither HTML nor an address."""
    found = (match for match in _PLACEHOLDER.finditer(text) if not _TAG.match(match[1]))
    first = next(found, None)
    return first[0] if first else None
