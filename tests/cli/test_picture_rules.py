"""The rules of pictures catch what they are for."""

import pytest

from support.picture_rules import broken_rules, check
from tugtool.cli.draw.canvas import Canvas

WHOLE = """\
parser  A parser for numbers that people write by hand
  → 1  Read digits in every script that there is  coder, 12s
"""
GOOD = """\
parser  A parser for numbers that people
  write by hand
  → 1  Read digits in every script…
       coder, 12s
"""
BAD = {
    "wider than 40": GOOD.replace("coder, 12s", "coder, 12s" + " " * 20 + "coder, 12s"),
    "cut inside a word": GOOD.replace("script…", "scr…"),
    "cut inside a word, 'peop'": GOOD.replace("that people\n  write", "that peop\n  le write"),
    "in column 0": GOOD.replace("  write", "write"),
    "the terminal shows other rows": GOOD.replace("hand\n", "hand\b \n"),
}


def test_a_picture_that_keeps_the_rules_is_accepted():
    assert broken_rules(GOOD, WHOLE, 40) == []
    assert broken_rules(WHOLE, WHOLE, 80) == []


@pytest.mark.parametrize("rule", BAD)
def test_a_picture_that_breaks_a_rule_is_noticed(rule):
    found = broken_rules(BAD[rule], WHOLE, 40)
    assert any(rule in each for each in found), found


@pytest.mark.parametrize("width", [120, 80, 40])
@pytest.mark.parametrize("colour", [False, True])
def test_what_the_canvas_writes_keeps_the_rules(width, colour):
    """Lines, facts and tables, as every picture uses them."""
    rows = [
        [
            ("work", "step-1"),
            ("", "12"),
            ("", "Read digits in every script that there is, by hand"),
        ],
        [("you", "step-12"), ("", "3"), ("", "Report errors")],
    ]

    def draw(canvas: Canvas) -> None:
        canvas.write(
            ("bold", "parser  "), ("", "A parser for numbers people write by hand"), hang=2
        )
        facts = [("done", "12 completed"), ("work", "3 at work"), ("dim", "26 waiting for others")]
        canvas.facts(*facts, lead=[canvas.sign("work"), ("", " ")], hang=2)
        canvas.table(rows, head=("STEP", "TRIES", "TITLE"), right=(1,))
        canvas.next("tugcode review parser")

    text = check(draw, width, colour=colour)
    assert ("\x1b[1;36m→" in text) == colour


def test_columns_stand_below_each_other_and_the_last_one_is_folded_below_itself():
    canvas = Canvas(40)
    rows = [[("", "a"), ("", "7"), ("", "one two three four five six seven")]]
    canvas.table(
        [*rows, [("", "bcd"), ("", "12"), ("", "x")]], head=("N", "IT", "TEXT"), right=(1,)
    )
    assert canvas.lines == [
        "  N    IT  TEXT",
        "  a     7  one two three four five six",
        "           seven",
        "  bcd  12  x",
    ]


def test_a_table_without_room_for_columns_is_written_in_blocks():
    canvas = Canvas(24)
    row = [("", "step-12"), ("", "completed"), ("", "3"), ("", "reset by hand")]
    canvas.table([row], head=("STEP", "STATUS", "TRIES", "REMARKS"))
    assert canvas.lines == [
        "  step-12",
        "    status completed",
        "      tries 3",
        "      remarks reset by",
        "      hand",
    ]


def test_a_text_is_cut_between_words():
    assert Canvas(80).cut("Translate construct number 12", 22) == "Translate construct…"
    assert Canvas(80).cut("Internationalization", 10) == "Internati…"
