"""What leaves: JSON that is JSON, text that cannot disturb a terminal."""

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.proving import examined
from support.terminals import Terminal
from support.terminals import tugcode as command_line
from tugtool.cli import output
from tugtool.cli.draw import screen
from tugtool.system import text as system_text

HOSTILE = {
    "colour": "\x1b[31mred\x1b[0m",
    "title bar": "\x1b]0;owned\x07after",
    "clipboard": "\x1b]52;c;aGk=\x1b\\after",
    "hyperlink": "\x1b]8;;http://example.invalid\x1b\\link\x1b]8;;\x1b\\",
    "C1 CSI": "\x9b31mred",
    "C1 OSC": "\x9d0;owned\x9cafter",
    "unclosed string": "\x1bPnever closed",
    "overprint": "harmless\rrm -rf",
    "backspace": "abc\b\b\bxyz",
    "bell and delete": "a\x07b\x7fc",
    "bidi override": "\u202egnp.exe\u202c",
    "bidi isolate": "\u2066x\u2069",
    "zero width": "a\u200bb\ufeffc\u2060d",
    "line separators": "a\u2028b\u2029c\x85d\x0be\x0cf",
    "lone surrogate": "caf\udce9",
    "megabyte": "x" * (1 << 20),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_loses_its_teeth(text):
    shown = output.clean(text)
    assert len(shown) <= output.LONGEST
    assert all(unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in shown)
    shown.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;owned\x07after", "after"),
        ("harmless\rrm", "harmless rm"),
        ("a\tb", "a b"),
        ("no\u00a0break", "no break"),
        ("família 漢字 ✓", "família 漢字 ✓"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("a\u200db", "ab"),
    ],
)
def test_what_is_meant_to_be_read_stays(text, shown):
    assert output.clean(text) == shown


@examined(short=100)
@given(st.text())
def test_no_text_at_all_leaves_a_control_character(text):
    assert all(c.isprintable() or c == "\u200d" for c in output.clean(text))


@pytest.mark.parametrize("command", [["list"], ["plan", "show", "evil"], ["plan", "graph", "evil"]])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_title_disturbs_neither_terminal_nor_json(tugcode, repo, command, text):
    plan = f"# {text}\n### Step 1: {text} {{#step-1}}\n- [ ] {text}\n"
    repo.plan("evil", plan.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    shown = tugcode("-C", repo.path, *command).out
    assert all(c == "\n" or c.isprintable() for c in shown)
    assert max(map(len, shown.splitlines())) <= output.LONGEST + 50
    answer = tugcode("-C", repo.path, *command, "--json").out
    assert answer.isascii()
    assert all(c.isprintable() for c in answer.rstrip("\n"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@examined(short=100)
@given(JSON)
def test_our_json_is_what_json_reads(value):
    text = system_text.encode(value)
    assert json.loads(text) == value
    assert text.isascii()
    assert text == json.dumps(value)


def test_what_has_no_json_is_a_fault_of_ours():
    with pytest.raises(TypeError, match="no JSON for set"):
        system_text.encode({"x": set()})


def test_error_messages_are_cleaned_too(tugcode, repo):
    refused = tugcode("-C", repo.path, "plan", "show", "\x1b[31mno\u202e\nsuch")
    assert refused.err.startswith('tugcode: E041: no plan is called "no\n  such"')
    assert all(c == "\n" or c.isprintable() for c in refused.err)


def test_a_refusal_is_folded_between_words_on_a_terminal(desk):
    words = command_line("show", "a-plan-that-is-not-there", at=desk("1 t").red)
    shown = Terminal(words, columns=40)
    try:
        assert shown.end() == 1
    finally:
        shown.close()
    lines = shown.raw.decode().splitlines()
    assert len(lines) > 1
    assert all(len(line) <= 40 for line in lines)
    assert lines[1].startswith("  ")


def on_terminal(columns: int, *words: object, at) -> list[str]:
    """The lines that a command prints on a terminal."""
    shown = Terminal(command_line(*words, at=at), columns=columns)
    try:
        shown.end()
    finally:
        shown.close()
    return shown.raw.decode().splitlines()


def test_warnings_and_answers_are_folded_between_words_on_a_terminal(desk):
    desk = desk("1 t", "2 t < 1")
    lines = on_terminal(40, "claim", "work", at=desk.repo.path)
    assert all(len(line) <= 40 for line in lines if " /" not in line)
    said = " ".join(line.strip() for line in lines)
    assert "tugcode: W160: " in said
    assert "claimed step-1: Part 1 (attempt 1, until " in said
    assert [line for line in lines if line[0] != " "] == [lines[0], lines[-2]]


def test_a_long_command_in_an_answer_can_be_pasted(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    command = "tugcode worktree salvage apply work/20260223T120215000Z-step-1"
    both = ("to bring it back", "the whole of what was saved, to bring it back")
    text = "".join(f"{said}: {command}\n" for said in both)
    assert screen.folded(text, sys.stdout).splitlines() == [
        "to bring it back:",
        "  tugcode worktree salvage apply \\",
        "    work/20260223T120215000Z-step-1",
        "the whole of what was saved, to bring it",
        "  back:",
        "  tugcode worktree salvage apply \\",
        "    work/20260223T120215000Z-step-1",
    ]
    short = "  next: tugcode review work --step step-1\n"
    assert (
        screen.folded(short, sys.stdout)
        == "  next: tugcode review work \\\n          --step step-1\n"
    )
