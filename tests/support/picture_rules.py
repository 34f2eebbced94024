"""Rules that every picture keeps, at every width, as a terminal emulator shows it.

A picture is drawn twice: for a terminal, and unbounded, where nothing is folded. What the
terminal shows is compared with that. Test it with `broken_rules` or `check`.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

from support.terminals import Display
from tugtool.cli import output
from tugtool.cli.draw.canvas import Canvas, cells

#: The widths at which every picture is looked at.
WIDTHS = (120, 80, 40)
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def plain(text: str) -> str:
    """The text without its colours."""
    return _ESCAPE.sub("", text)


def on_terminal(text: str, width: int) -> list[str]:
    """The rows that a terminal of this width shows."""
    import pyte

    # Tall enough for a picture all of whose lines run over.
    display = Display(width, 4 * text.count("\n") + 40)
    pyte.Stream(display).feed(text.replace("\n", "\r\n"))
    return display.text.split("\n")


def broken_rules(text: str, whole: str, width: int) -> list[str]:
    """What is wrong with a picture for this width; `whole` is the same one unbounded."""
    lines = plain(text).rstrip("\n").split("\n")
    found = [f"wider than {width}: {line}" for line in lines if cells(line) > width]
    if not found and not _is_shown_as_written(lines, on_terminal(text, width)):
        found.append("the terminal shows other rows than were written")
    words = {word for word in plain(whole).split() if not _may_break(word, width)}
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        found += [f"cut inside a word, {word!r}: {line}" for word in _cut_words(line, below, words)]
        if below and not below[0].isspace() and not _begins(below, whole):
            found.append(f"continues {line!r} in column 0: {below}")
    return found


def _is_shown_as_written(lines: list[str], rows: list[str]) -> bool:
    """Terminals disagree about emoji; of all else there is one opinion."""
    pairs = zip(lines, rows, strict=False)
    same = all(line.rstrip() == row for line, row in pairs if cells(line) == len(line))
    return len(lines) == len(rows) and same


def _cut_words(line: str, below: str, words: set[str]) -> list[str]:
    """Words of which a line has only a part: the end is left out, or stands on the next line."""
    found = []
    for word in line.split():
        stem = word.removesuffix("…").removesuffix("...")
        is_part = stem not in words and any(each.startswith(stem) for each in words)
        if stem and stem != word and is_part and word not in words:
            found.append(word)
    last, first = line.split()[-1:], below.split()[:1]
    if last and first and last[0] + first[0] in words and not {*last, *first} <= words:
        found.append(last[0])
    return found


def _may_break(word: str, width: int) -> bool:
    """Whether a word has no room in a column of its own, or is in a script without words."""
    return cells(word) > width // 3 or cells(word) > len(word)


def _begins(line: str, whole: str) -> bool:
    """Whether a line of the unbounded picture begins with the same word, in column 0."""
    first = line.split()[0]
    stem = first.removesuffix("…").removesuffix("...")
    words = {each.split()[0] for each in plain(whole).split("\n") if each and each[0] != " "}
    # Only a long word may be cut.
    return first in words or (len(stem) > 8 and any(word.startswith(stem) for word in words))


def check(draw: Callable[[Canvas], None], width: int, **how: object) -> str:
    """The picture for this width, held against the rules."""
    canvas, whole = Canvas(width, **how), Canvas(output.UNBOUNDED, encoding=how.get("encoding"))
    draw(canvas)
    draw(whole)
    broken = broken_rules(canvas.text(), whole.text(), width)
    assert not broken, "\n".join(broken)
    return canvas.text()


def check_page(directory: Path, name: str, draw: Callable[[Canvas], None], *, colour: bool) -> None:
    """A page at every width, held against the rules and against the file that was looked at.

    `TUG_PICTURES=write` writes the file: read the difference. An escape is written as `^[`.
    """
    texts = [check(draw, width, colour=colour) for width in WIDTHS]
    assert check(draw, 80, colour=colour, encoding="ascii").isascii()
    whole = "".join(f"{width}\n{text}" for width, text in zip(WIDTHS, texts, strict=True))
    file = directory / f"{name}{'-colour' if colour else ''}.txt"
    if os.environ.get("TUG_PICTURES") == "write":
        directory.mkdir(exist_ok=True)
        file.write_text(whole.replace("\x1b", "^["))
    assert whole == file.read_text().replace("^[", "\x1b")
