"""Styled lines, folded or cut to a width, by hand.

A line of rich costs about 100 microseconds and a plan may have 10,000 steps; here it is
one or two. Only how wide unusual characters are is rich's knowledge.
"""

from __future__ import annotations

import sys

from tugtool import config
from tugtool.cli import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    #: A style of STYLES, or none, and a text that has been made harmless.
    Span = tuple[str, str]

#: What a terminal calls them. Sixteen colours, so that they follow the person's own theme.
STYLES = {
    "bold": "1",
    "dim": "2",
    "done": "32",
    "faded": "2;32",
    "work": "36",
    "working": "1;36",
    "warn": "33",
    "warning": "1;33",
    "alarm": "31",
    "alarming": "1;31",
}


class Glyphs:
    """The marks of a picture."""

    done, work, ready, blocked, alarm, parked = "✓", "→", "○", "·", "!", "‖"
    full, part, empty = "█", "▒", "░"
    warning, back, more, dot = "⚠", "←", "…", " · "


class AsciiGlyphs(Glyphs):
    """The same for terminals that cannot show them."""

    done, work, ready, blocked, alarm, parked = "x", "->", "o", ".", "!", "="
    full, part, empty = "#", "~", "."
    warning, back, more, dot = "!", "<-", "...", ", "


#: A blank at which no line is folded. User text has none: it has been made harmless.
FIRM = "\xa0"
_NARROW = frozenset(f" {FIRM}✓→○·!‖█▒░⚠←…")
#: Makes the character before it an emoji, which many terminals draw twice as wide.
_EMOJI_STYLE = "\ufe0f"
#: Letters of flags, and skin tones: parts of an emoji, or where it is unknown one of their own.
_HALVES = frozenset(map(chr, (*range(0x1F1E6, 0x1F200), *range(0x1F3FB, 0x1F400))))


class Canvas:
    """Lines for an output of a certain width, with or without colour."""

    def __init__(self, width: int, *, colour: bool = False, encoding: str | None = None) -> None:
        self.width = max(width, 2)
        self.colour = colour
        #: Given where the output cannot show everything: what it can show.
        self.encoding = encoding
        self.glyphs: type[Glyphs] = AsciiGlyphs if encoding else Glyphs
        self.lines: list[str] = []

    @property
    def bounded(self) -> bool:
        """Whether there is a terminal's edge, and not a file that somebody may search."""
        return self.width < output.UNBOUNDED

    def said(self, text: object) -> str:
        """User text: one line, harmless, in characters that the output has."""
        clean = output.clean(str(text))
        if self.encoding is None or clean.isascii():
            return clean
        clean = clean.replace("…", self.glyphs.more)
        return clean.encode(self.encoding, "backslashreplace").decode(self.encoding)

    def write(self, *spans: Span, hang: int = 0) -> None:
        """A line, folded between words where it is too long; what follows hangs below."""
        if sum([cells(text) for _, text in spans]) <= self.width:
            self.lines.append(self._painted(spans))
            return
        hang = max(0, min(hang, self.width // 2, self.width - 2))
        text = "".join(text for _, text in spans)
        for start, end in _rows(text, self.width, hang):
            row = [("", " " * hang)] if start else []
            self.lines.append(self._painted([*row, *_between(spans, start, end)]))

    def write_cut(self, *spans: Span) -> None:
        """A line, cut where it is too long."""
        text = "".join(text for _, text in spans)
        short = self.cut(text, self.width)
        if short == text:
            self.lines.append(self._painted(spans))
            return
        kept = _between(spans, 0, len(short) - len(self.glyphs.more))
        self.lines.append(self._painted([*kept, ("", short[-len(self.glyphs.more) :])]))

    def cut(self, text: str, width: int) -> str:
        """The text, if need be with its end left out."""
        if len(text) <= width and cells(text) <= width:
            return text
        more = self.glyphs.more if len(self.glyphs.more) <= width else "." * width
        return text[: _fitting(text, 0, width - len(more))] + more

    def text(self) -> str:
        """All lines."""
        return "".join(f"{line}\n" for line in self.lines)

    def _painted(self, spans: Sequence[Span]) -> str:
        painted = [
            f"\x1b[{STYLES[style]}m{text}\x1b[0m" if style and text and self.colour else text
            for style, text in spans
        ]
        return "".join(painted).replace(FIRM, " ").rstrip()


def for_output(width: int | None = None) -> Canvas:
    """A canvas for standard output as it is."""
    return Canvas(width or output.width(), colour=output.colour(), encoding=_limited())


def _limited() -> str | None:
    """The encoding of standard output, where that or the terminal has no marks and bars."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        "".join(_NARROW - {FIRM}).encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return encoding
    # The Linux console has a font of 512 characters; "dumb" promises nothing at all.
    poor = sys.stdout.isatty() and config.terminal() in ("dumb", "linux")
    return "ascii" if poor else None


def cells(text: str) -> int:
    """How many columns a text takes; never fewer than any terminal gives it."""
    if text.isascii() or _NARROW.issuperset(text):
        return len(text)
    return sum(map(_cell, text))


def _cell(character: str) -> int:
    if character.isascii() or character in _NARROW:
        return 1
    if character == _EMOJI_STYLE:
        return 1
    if character in _HALVES:
        return 2
    from rich.cells import get_character_cell_size

    # Zero for what combines. Joined emoji are counted one by one, as simple terminals show them.
    return get_character_cell_size(character)


def _fitting(text: str, start: int, room: int) -> int:
    """Where the text must end at the latest to take no more than so many columns."""
    if text.isascii():
        return min(start + room, len(text))
    for place in range(start, len(text)):
        room -= _cell(text[place])
        if room < 0:
            return place
    return len(text)


def _rows(text: str, width: int, hang: int) -> Iterator[tuple[int, int]]:
    """Where each row of a folded text begins and ends."""
    start, room, floor = 0, width, hang
    while start < len(text):
        end = max(_fitting(text, start, room), start + 1)
        if end < len(text) and text[end] != " " and _cell(text[end]) < 2:
            # Between words, but not right behind a mark or a bracket at the very front.
            # Scripts of wide characters do without blanks, and may be folded anywhere.
            space = text.rfind(" ", start + floor, end)
            end = space if space > start else end
        yield start, end
        start, room, floor = end, width - hang, 0
        while text.startswith(" ", start):
            start += 1


def _between(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    found, place = [], 0
    for style, text in spans:
        piece = text[max(start - place, 0) : max(end - place, 0)]
        place += len(text)
        if piece:
            found.append((style, piece))
    return found
