"""Signs, colours, columns, and lines folded or cut between words.

A plan may have 10,000 steps, so a line must take only a few microseconds.
"""

from __future__ import annotations

import sys
import time

from tugtool.cli import output
from tugtool.plan import catalog
from tugtool.system import clock, config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence
    from typing import Any

    Step = Mapping[str, Any]

    #: A style of STYLES, or none, and a text that is safe for a terminal.
    Span = tuple[str, str]


#: One colour for each meaning, of the sixteen that follow the user's theme.
_COLOURS = {"done": "32", "work": "36", "you": "33", "wrong": "31"}
#: Style -> its escape code: a colour, the same in bold, or `bold` or `dim` alone.
STYLES = {
    "bold": "1",
    "dim": "2",
    **_COLOURS,
    **{f"bold {name}": f"1;{code}" for name, code in _COLOURS.items()},
}


class Glyphs:
    """The signs of a picture, by the standing of a step."""

    completed, work, ready, waits = "✓", "→", "○", "·"
    parked, stale, deferred, question = "‖", "!", "~", "?"
    full, empty, more, dot, back = "█", "░", "…", " · ", "←"


class AsciiGlyphs(Glyphs):
    """The same in ASCII; each is one column wide too."""

    completed, work, ready, waits, parked = "x", ">", "o", ".", "="
    full, empty, more, dot, back = "#", "-", "...", ", ", "<-"


#: Standing of a step -> its colour. `you`: it waits for a person.
STANDINGS = {
    "completed": "done",
    "deferred": "you",
    "work": "work",
    "question": "you",
    "stale": "wrong",
    "parked": "you",
    "ready": "",
    "waits": "dim",
}

#: The order and the words in which steps are counted.
COUNTED = {
    "work": "at work",
    "question": "asking you",
    "stale": "stale",
    "parked": "parked",
    "ready": "ready",
    "waits": "waiting",
}

#: A space that folding keeps. Cleaned user text has none.
FIRM = "\xa0"
_NARROW = frozenset(f" {FIRM}✓→○·!‖█░←…")
#: Makes the previous character an emoji, which many terminals draw two columns wide.
_EMOJI_STYLE = "\ufe0f"
#: Letters of flags, and skin tones: parts of an emoji, or an emoji of their own.
_HALVES = frozenset(map(chr, (*range(0x1F1E6, 0x1F200), *range(0x1F3FB, 0x1F400))))
#: The most lines of a failed command's output.
_LAST_LINES = 6
#: If a column would be narrower, the table is written as blocks.
_NARROWEST = 18


class Canvas:
    """Lines for an output of a certain width, with or without colour."""

    def __init__(self, width: int, *, colour: bool = False, encoding: str | None = None) -> None:
        self.width = max(width, 2)
        self.colour = colour
        #: The encoding of an output that cannot show all characters.
        self.encoding = encoding
        self.glyphs: type[Glyphs] = AsciiGlyphs if encoding else Glyphs
        self.lines: list[str] = []

    @property
    def bounded(self) -> bool:
        """True for a terminal, which has an edge, and not for a file."""
        return self.width < output.UNBOUNDED

    def said(self, text: object) -> str:
        """User text: one safe line in characters that the output has."""
        clean = output.clean(str(text))
        if self.encoding is None or clean.isascii():
            return clean
        clean = clean.replace("…", self.glyphs.more)
        return clean.encode(self.encoding, "backslashreplace").decode(self.encoding)

    def last_lines(self, printed: str) -> list[str]:
        """The end of a command's output, in safe lines."""
        return [self.said(line) for line in printed.strip("\n").splitlines()[-_LAST_LINES:]]

    def sign(self, standing: str) -> Span:
        """The sign for a standing, in its colour."""
        colour = STANDINGS[standing]
        return f"bold {colour}" if colour in _COLOURS else colour, getattr(self.glyphs, standing)

    def write(self, *spans: Span, hang: int = 0) -> None:
        """Write a line; fold a long one between words, with a hanging indent."""
        if sum([cells(text) for _, text in spans]) <= self.width:
            self.lines.append(self._painted(spans))
            return
        hang = max(0, min(hang, self.width * 2 // 3, self.width - 2))
        text = "".join(text for _, text in spans)
        for start, end in _rows(text, self.width, hang):
            row = [("", " " * hang)] if start else []
            self.lines.append(self._painted([*row, *_between(spans, start, end)]))

    def write_whole(self, *spans: Span) -> None:
        """Write a line as it is: a shell evaluates it, whatever the width."""
        self.lines.append(self._painted(spans))

    def write_cut(self, *spans: Span) -> None:
        """Write a line; cut a long one between words."""
        text = "".join(text for _, text in spans)
        short = self.cut(text, self.width)
        if short == text:
            self.lines.append(self._painted(spans))
            return
        kept = _between(spans, 0, len(short) - len(self.glyphs.more))
        self.lines.append(self._painted([*kept, ("", short[-len(self.glyphs.more) :])]))

    def facts(self, *facts: Span, lead: Sequence[Span] = (), hang: int = 2) -> None:
        """Write short facts on a line behind its lead; fold a long one between facts."""
        row, used = list(lead), sum(cells(text) for _, text in lead)
        hang = max(0, min(hang, self.width * 2 // 3, self.width - 2))
        gap, is_blank = "", not any(text.strip() for _, text in lead)
        for style, text in facts:
            if not is_blank and used + cells(gap + text) > self.width:
                self.write(*row, hang=hang)
                row, used, gap = [("", " " * hang)], hang, ""
            row += [("dim", gap), (style, text)]
            used += cells(gap + text)
            gap, is_blank = self.glyphs.dot, False
        self.write(*row, hang=hang)

    def table(
        self,
        rows: Sequence[Sequence[Span]],
        *,
        head: Sequence[str] = (),
        indent: int = 2,
        right: Container[int] = (),
        cut: bool = False,
    ) -> None:
        """Write rows in columns, two spaces apart; the last column is folded or cut.

        `right` has columns of numbers. If the last column would be too narrow, each row becomes a
        block: its first cell, and the others below it, each named as in `head`.
        """
        every = [[("dim", name) for name in head], *rows] if head else list(rows)
        sizes = [
            max((cells(row[at][1]) for row in every), default=0) for at in range(len(every[0]))
        ]
        used = indent + sum(sizes[:-1]) + 2 * (len(sizes) - 1)
        room = self.width - used
        if room < min(sizes[-1], max(_NARROWEST, self.width // 3)) and len(sizes) > 1:
            for row in rows:
                self._block(row, head, indent)
            return
        for row in every:
            spans: list[Span] = [("", " " * indent)]
            for at, (style, text) in enumerate(row[:-1]):
                pad = " " * (sizes[at] - cells(text))
                spans += [("", pad), (style, text)] if at in right else [(style, text), ("", pad)]
                spans.append(("", "  "))
            style, text = row[-1]
            text = self.cut(text, room) if cut else text
            self.write(*spans, (style, text), hang=used)

    def _block(self, row: Sequence[Span], head: Sequence[str], indent: int) -> None:
        if row[0][1]:
            self.write(("", " " * indent), row[0], hang=indent + 4)
        names = [f"{name.lower()} " for name in head] or [""] * len(row)
        rest = [(style, names[at] + text) for at, (style, text) in enumerate(row) if at and text]
        if rest:
            self.facts(*rest, lead=[("", " " * (indent + 2))], hang=indent + 4)

    def bar(self, done: int, total: int, length: int) -> list[Span]:
        """A bar: full only if all is done, and not empty if anything is."""
        full = max(done * length // total, min(done, 1)) if total else 0
        style = "done" if done == total else "work"
        glyphs = self.glyphs
        return [(style, glyphs.full * full), ("dim", glyphs.empty * (length - full))]

    def next(self, command: str) -> None:
        """Write the next command."""
        self.write(("", "Next: "), ("bold", self.said(command)), hang=6)

    def command(self, lead: Span, command: str) -> None:
        """A command behind its lead, that can be pasted also where it takes more than one line."""
        hang = cells(lead[1])
        lines = [""]
        for part in self._parts(command, self.width - hang - 4):
            if lines[-1] and hang + cells(lines[-1]) + cells(part) + 3 > self.width:
                lines[-1] += " \\"
                lines.append(f"  {part}")
            else:
                lines[-1] += f" {part}" if lines[-1] else part
        for number, line in enumerate(lines):
            before = (lead[0], " " * hang if number else lead[1])
            self.write(before, ("bold", line), hang=hang + 2)

    def _parts(self, command: str, room: int) -> Iterator[str]:
        """The command before its options, and each option; in words if there is no room."""
        import re

        word = r"""(?:"[^"]*"|'[^']*'|\\.|[^\s"'\\])+"""
        for part in command.replace(" --", "\n--").split("\n"):
            yield from [part] if cells(part) <= room else re.findall(word, part)

    def cut(self, text: str, width: int) -> str:
        """The text, cut between words if it is too long."""
        if len(text) <= width and cells(text) <= width:
            return text
        more = self.glyphs.more if len(self.glyphs.more) <= width else "." * width
        end = max(_fitting(text, 0, width - len(more)), 0)
        if end < len(text) and text[end] != " " and _cell(text[end]) < 2:
            space = text.rfind(" ", 0, end)
            end = space if space > 0 else end
        return text[:end].rstrip() + more

    def text(self) -> str:
        """All lines."""
        return "".join(f"{line}\n" for line in self.lines)

    def _painted(self, spans: Sequence[Span]) -> str:
        painted = [
            f"\x1b[{STYLES[style]}m{text}\x1b[0m" if style and text and self.colour else text
            for style, text in spans
        ]
        return "".join(painted).replace(FIRM, " ").rstrip()


#: Standings of steps that need no attention.
_CALM = ("completed", "deferred", "ready", "waits")
_ALL = 1 << 30


class Fold:
    """Decides which steps have a line of their own; it counts the others, run by run."""

    #: From everything to the most urgent: steps shown of each run, and details or not.
    LEVELS = (
        (dict.fromkeys(_CALM, _ALL), True),
        ({"completed": 2, "deferred": _ALL, "ready": _ALL, "waits": _ALL}, True),
        ({"completed": 2, "deferred": _ALL, "ready": _ALL, "waits": 2}, True),
        ({"completed": 1, "deferred": _ALL, "ready": _ALL, "waits": 1}, True),
        ({"completed": 0, "deferred": _ALL, "ready": 3, "waits": 0}, True),
        ({"completed": 0, "deferred": 0, "ready": 1, "waits": 0}, False),
        (dict.fromkeys(_CALM, 0), False),
    )

    def __init__(self, level: int, hint: str = "") -> None:
        self.kept, self.details = self.LEVELS[level]
        #: Goes behind the first line for several steps: the option that shows them.
        self.hint = hint

    def entries(self, steps: Sequence[Step], standings: Sequence[str]) -> Iterator[Step | str]:
        """The shown steps, and a sentence for each run of hidden ones."""
        hidden: dict[str, int] = {}
        hint = self.hint
        for step, standing, shown in zip(steps, standings, self.shown(standings), strict=True):
            if not shown:
                hidden[standing] = hidden.get(standing, 0) + 1
                continue
            if hidden:
                yield _hidden(hidden) + hint
                hidden, hint = {}, ""
            yield step
        if hidden:
            yield _hidden(hidden) + hint

    def shown(self, standings: Sequence[str]) -> list[bool]:
        """The first few of a run of calm steps; of completed ones, the last few."""
        found = [True] * len(standings)
        start = 0
        for place in range(1, len(standings) + 1):
            kind, length = standings[start], place - start
            if place < len(standings) and standings[place] == kind:
                continue
            most = self.kept.get(kind, _ALL)
            # Counting a single step would take as many lines as showing it.
            if length > most + self.details:
                first = start if kind in ("completed", "deferred") else start + most
                found[first : first + length - most] = [False] * (length - most)
            start = place
        return found


def _hidden(counts: dict[str, int]) -> str:
    words = {"completed": "completed", "deferred": "completed with deferred items", **COUNTED}
    said = ", ".join(f"{counts[each]} {word}" for each, word in words.items() if each in counts)
    return f"{said} {'step' if sum(counts.values()) == 1 else 'steps'}"


def for_output(width: int | None = None) -> Canvas:
    """A canvas for the current standard output."""
    return Canvas(width or output.width(), colour=output.colour(), encoding=_limited())


def drawn(draw: Callable[..., None], *facts: object) -> str:
    """The picture that `draw` makes of the data, for standard output."""
    canvas = for_output()
    draw(canvas, *facts)
    return canvas.text()


def local(moment: str, *, day: bool = True) -> str:
    """A moment in local time, to the second: `2026-02-23 13:00:00`."""
    form = "%Y-%m-%d %H:%M:%S" if day else "%H:%M:%S"
    return time.strftime(form, time.localtime(clock.milliseconds(moment) // 1000))


def in_local_time(text: str) -> str:
    """A sentence with its moments in local time."""
    import re

    form = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}Z"
    return re.sub(form, lambda found: local(found[0]), text)


def shortened(text: str, root: str) -> str:
    """A sentence with short names for the worktrees of this repository."""
    return text.replace(f"{root}/.tugtree/", "").replace(f"{root}/", "")


def by_slug(text: str) -> str:
    """A sentence or a command with slugs for plans: `step-1 of parser`."""
    import re

    path = rf"[.]tugtool/{catalog.PREFIX}([a-z0-9-]+)[.]md"
    return re.sub(rf"\b(of |tugcode [a-z -]*){path}", r"\1\2", text)


def step_number(anchor: str) -> str:
    """The number of a step: `3` for `step-3`, `3.1` for `step-3-1`."""
    rest = anchor.removeprefix("step-")
    return rest.replace("-", ".") if rest.replace("-", "").isdecimal() else anchor


def percent(done: int, total: int) -> int:
    """The percentage, rounded down: 100 means all."""
    return done * 100 // total if total else 100


def _limited() -> str | None:
    """The encoding of standard output, if it or the terminal lacks signs and bars."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        "".join(_NARROW - {FIRM}).encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return encoding
    # The Linux console has only 512 characters; "dumb" promises none.
    poor = sys.stdout.isatty() and config.variable("TERM") in ("dumb", "linux")
    return "ascii" if poor else None


def cells(text: str) -> int:
    """The width of a text in columns: the most that any terminal uses."""
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
    import unicodedata

    # Combining marks take no column. Simple terminals show joined emoji one by one.
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _fitting(text: str, start: int, room: int) -> int:
    """The index at which the text must end to fit into the columns."""
    if text.isascii():
        return min(start + room, len(text))
    for place in range(start, len(text)):
        room -= _cell(text[place])
        if room < 0:
            return place
    return len(text)


def _rows(text: str, width: int, hang: int) -> Iterator[tuple[int, int]]:
    """The begin and end of each row of a folded text."""
    start, room, floor = 0, width, hang
    while start < len(text):
        end = max(_fitting(text, start, room), start + 1)
        if end < len(text) and text[end] != " " and _cell(text[end]) < 2:
            # Fold between words, but not right behind a sign or bracket at the front.
            # Scripts of wide characters have no spaces, so fold them anywhere.
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
