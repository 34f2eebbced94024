"""Markdown as a sequence of lines: which ones count, and what each one is.

Line-oriented and linear: no line is looked at more than a constant number of times, and
no pattern here can backtrack over a line. Fenced code, HTML comments and code spans
follow CommonMark, because that is what people see when they look at their plan.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_MARKER = re.compile(r"(?:[-+*]|\d{1,9}[.)])(?:[ \t]{1,4}(?![ \t])|[ \t]|$)")
#: What begins something new even where a paragraph is open.
_INTERRUPTS = re.compile(
    r"#{1,6}(?:[ \t]|$)|>|<!--|`{3,}[^`]*$|~{3,}|(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)"
)
_TICKS = re.compile("`+")
_PARENTHESIS = re.compile(r"[ \t]*\((?:[^()]++|\([^()]*+\))*+\)[ \t]*:")

#: Nobody nests more lists in one line; and each would copy the rest of it.
_MOST_MARKERS = 4


class Line(NamedTuple):
    """A line that may count: what is on it, without indentation and comments."""

    number: int
    indent: int
    #: Empty for a blank line and for one that lies in a comment.
    body: str
    fenced: bool


class Label(NamedTuple):
    """`**Name (remark):** value`."""

    name: str
    value: str


def lines(text: str) -> Iterator[Line]:
    """The lines of a text, with what must not count taken out."""
    # NUL is what CommonMark replaces too; no database could store it.
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
    """Bold text that opens a line and ends in a colon, or has one behind, or is alone."""
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
    """Whether a checklist box is ticked, and its text."""
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
    """The text with its code spans blanked out, every character in its place."""
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
    # Bold italics leave a star or an underscore over.
    name = name.strip("*_ \t").casefold()
    opening = name.find("(")
    return name[:opening].rstrip() if opening > 0 and name.endswith(")") else name


class _Scanner:
    """Remembers what is open: a fence, a comment, the lists a line may belong to."""

    def __init__(self, raw: list[str]) -> None:
        self.raw = raw
        self.fence = ""
        self.fence_base = 0
        self.in_comment = False
        #: Columns at which the text of the open list items begins.
        self.lists: list[int] = []
        #: The line before was text that the next line may go on with, however indented.
        self.paragraph = False
        #: Up to this line it is known that no comment is closed.
        self.unclosed_until = 0

    def line(self, index: int) -> Line:
        raw = self.raw[index]
        body = raw.strip()
        if not body:
            self.paragraph = False
            return Line(index + 1, 0, "", bool(self.fence))
        indent = _indent(raw)
        if self.fence and indent >= self.fence_base:
            self._try_to_close_fence(body, indent)
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
        """Note the list items that begin on this line; what follows their markers."""
        base = self.lists[-1] if self.lists else 0
        for _ in range(_MOST_MARKERS):
            marker = _MARKER.match(body)
            if not marker:
                break
            base = indent = indent + max(marker.end(), 2)
            self.lists.append(base)
            body = body[marker.end() :]
        return base, body

    def _try_to_close_fence(self, body: str, indent: int) -> None:
        run = self.fence
        is_run = body.startswith(run) and not body.strip(run[0])
        if is_run and indent - self.fence_base <= 3:
            self.fence = ""

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
        """Whether `-->` comes before the paragraph ends; else `<!--` is just text."""
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
