"""Lines that fit: whatever the text and however narrow the terminal, nothing flows over."""

import io
import shlex
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wcwidth import wcwidth

from support.picture_scenes import ROOT, SCENES
from tugtool.cli import output
from tugtool.cli.draw import canvas as canvases
from tugtool.cli.draw import plan as draw_plan
from tugtool.cli.draw.canvas import FIRM, Canvas, cells
from tugtool.cli.draw.plan import View

TEXTS = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from(" -中字。😀👩\u200d❤\ufe0f\u0301e…█\x1b[m🇩🏽"),
    ),
    max_size=120,
)


def columns(line: str) -> int:
    """What a terminal gives a line, by somebody else's count."""
    return sum(max(wcwidth(character), 0) for character in line)


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return SCENES["at_work"](tmp_path_factory.mktemp("canvas"))


@given(title=TEXTS, reason=TEXTS, width=st.integers(2, 130), every_item=st.booleans())
@settings(deadline=None)
def test_every_line_of_a_picture_fits(plan, title, reason, width, every_item):
    told = {"title": title, "park_reason": reason, "parked_at": "x"}
    steps = [
        {**step, **told, "claimed_by": step["claimed_by"] and f"/w/{title}"}
        for step in plan["steps"]
    ]
    items = [{**item, "text": title + reason, "reason": reason} for item in plan["checklist_items"]]
    changed = {**plan, "phase_title": title, "steps": steps, "checklist_items": items}
    for encoding in (None, "ascii"):
        canvas = Canvas(width, encoding=encoding)
        draw_plan.draw(canvas, changed, View(root=ROOT, every_item=every_item))
        assert [line for line in canvas.lines if columns(line) > width] == []
        assert encoding is None or canvas.text().isascii()


@given(text=TEXTS, width=st.integers(2, 40), hang=st.integers(0, 30))
@settings(deadline=None)
def test_folding_loses_nothing_but_blanks(text, width, hang):
    canvas = Canvas(width)
    said = canvas.said(text)
    half = len(said) // 2
    canvas.write(("", said[:half]), ("bold", said[half:]), hang=hang)
    assert "".join("".join(canvas.lines).split()) == "".join(said.split())
    assert all(columns(line) <= width for line in canvas.lines)


@given(text=TEXTS, width=st.integers(1, 40))
@settings(deadline=None)
def test_a_cut_text_fits_and_begins_like_the_whole(text, width):
    canvas = Canvas(80)
    said = canvas.said(text)
    short = canvas.cut(said, width)
    assert columns(short) <= width
    assert short == said or said.startswith(short.removesuffix("…"))
    narrow = Canvas(max(width, 2))
    narrow.write_cut(("", said[:3]), ("bold", said[3:]))
    assert columns(narrow.lines[0]) <= max(width, 2)


def test_lines_are_folded_between_words_and_hang():
    canvas = Canvas(12)
    canvas.write(("", "  [ ] one two three four"), hang=6)
    assert canvas.lines == ["  [ ] one", "      two", "      three", "      four"]


def test_a_word_too_long_for_a_row_is_broken_and_a_firm_blank_is_not():
    canvas = Canvas(10)
    canvas.write(("", "abcdefghijklmno"))
    canvas.write(("", f"one two{FIRM}three"))
    assert canvas.lines == ["abcdefghij", "klmno", "one", "two three"]


def test_wide_characters_are_folded_anywhere():
    canvas = Canvas(9)
    canvas.write(("", "a 中中中中中中"))
    assert canvas.lines == ["a 中中中", "中中中"]


def test_emoji_count_as_what_the_widest_terminal_makes_of_them():
    assert cells("❤\ufe0f") == 2
    assert cells("👩\u200d👧") == 4
    assert cells("e\u0301") == 1
    assert cells("🇩🇪") == 4
    assert cells("👍🏽") == 4
    assert cells("→ ✓ ███") == 7


def test_colours_are_there_only_if_wanted_and_end_with_their_text():
    plain, coloured = Canvas(20), Canvas(20, colour=True)
    for canvas in (plain, coloured):
        canvas.write(("work", "at"), ("", " "), ("dim", ""), ("bold wrong", "work"))
    assert plain.lines == ["at work"]
    assert coloured.lines == ["\x1b[36mat\x1b[0m \x1b[1;31mwork\x1b[0m"]


class Teletype(io.TextIOWrapper):
    """Standard output with an encoding of its own, a terminal or not."""

    terminal = True

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("encoding", "terminal", "kind", "ascii"),
    [
        ("utf-8", True, "xterm", False),
        ("utf-8", True, "linux", True),
        ("utf-8", True, "dumb", True),
        ("utf-8", False, "dumb", False),
        ("latin-1", True, "xterm", True),
        ("ascii", False, "xterm", True),
    ],
)
def test_where_blocks_cannot_be_shown_the_marks_are_ascii(
    monkeypatch, encoding, terminal, kind, ascii
):
    stream = Teletype(io.BytesIO(), encoding=encoding)
    stream.terminal = terminal
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("TERM", kind)
    made = canvases.for_output(50)
    assert (made.glyphs is canvases.AsciiGlyphs) == ascii
    assert made.said("naïve 中") == {
        "latin-1": "naïve \\u4e2d",
        "ascii": "na\\xefve \\u4e2d",
    }.get("ascii" if ascii and encoding == "utf-8" else encoding, "naïve 中")
    # What was cut ends in three dots where there is no character for them.
    assert made.said("ä" * 2000).endswith("..." if ascii else "…")


def test_a_file_is_as_wide_as_it_takes():
    assert not Canvas(output.UNBOUNDED).bounded
    assert Canvas(80).bounded


COMMANDS = (
    'tugcode reopen work step-1 --force --reason "WHY"',
    'tugcode review work --reject --step step-1 --kind checkpoint --ordinal 1 --note "YOUR ANSWER"',
    "tugcode reopen '.tugtool/a plan' 'it'\\''s' --force --reason \"WHY\"",
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("width", range(40, 121, 4))
def test_a_command_can_be_pasted_at_every_width(command, width):
    canvas = Canvas(width)
    canvas.command(("dim", "  no        "), command)
    (first, *rest) = canvas.lines
    assert max(map(len, canvas.lines)) <= width
    pasted = "\n".join([first.removeprefix("  no        "), *rest])
    script = f"set -- {pasted}\nprintf '%s\\n' \"$@\""
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout.splitlines(), done.stderr) == (shlex.split(command), "")
