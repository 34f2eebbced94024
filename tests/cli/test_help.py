"""Help at any width: folded between words, aligned, and by what people want to do."""

import re

import pytest

from support.terminals import Terminal
from support.terminals import tugcode as words_of
from tugtool.cli import help, parse

WIDTHS = (120, 80, 40)
PAGES = ["", *parse.GROUPS, *parse.FAMILIES]
HEADING = re.compile(r"usage: tugcode\b.*|(start here|[a-z]+):")


def page(path: str, width: int) -> str:
    command = parse.find(path)
    return help.for_command(command, width) if command else help.for_group(path, width)


def faults(text: str, width: int, whole: str) -> list[str]:
    """What is wrong with a page that was folded at a width, beside the same not folded at all."""
    lines = text.split("\n")
    found = [f"too wide: {line}" for line in lines if len(line) > width]
    found += [
        f"starts in column 0: {line}"
        for line in lines
        if line and line[0] != " " and not HEADING.fullmatch(line)
    ]
    found += [f"ends in a blank: {line}" for line in lines if line != line.rstrip()]
    if _words(text) != _words(whole):
        found.append("a word is cut, lost or in another place")
    return found


def _words(text: str) -> list[str]:
    return re.sub(r" \\$", "", text, flags=re.MULTILINE).split()


@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_fits_and_no_line_looks_like_a_heading_that_is_none(width):
    for path in PAGES:
        assert faults(page(path, width), width, page(path, 10_000)) == [], path


def test_the_check_notices_each_fault():
    whole = page("validate", 10_000)
    good = page("validate", 40)
    assert faults(good, 40, whole) == []
    planted = {
        "too wide": good.replace(
            "Without PLAN, checks all plans.\n ", "Without PLAN, checks all plans."
        ),
        "starts in column 0": good.replace("\n       [--level", "\n[--level"),
        "ends in a blank": good.replace("options:", "options: "),
        "a word is cut": good.replace("everything", "every\n  thing"),
    }
    for what, text in planted.items():
        assert text != good, what
        assert any(fault.startswith(what) for fault in faults(text, 40, whole)), what


def test_an_example_that_is_folded_can_still_be_pasted_into_a_shell():
    import shlex

    for command in map(parse.find, help.visible()):
        text = help.for_command(command, 40).partition("examples:\n")[2]
        typed = re.sub(r" \\\n +", " ", text)
        for example, _ in command.examples:
            mine = example.replace(f"tugcode {command.path}", f"tugcode {help.short(command.path)}")
            assert f"  {mine}\n" in typed
            assert shlex.split(mine)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_texts_of_options_and_commands_begin_in_one_column(width):
    text = page("state exec", width).partition("options:\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^(?: {2}\S.*? {2,}| {4,})(?=\S)", text, re.MULTILINE)
    assert len({len(row) for row in rows}) == 1
    assert len(rows) > 10


def test_the_overview_is_in_groups_and_every_command_is_in_one():
    topics = help._topics("")
    assert list(topics) == ["start here", "look", "decide", "work", "git", "setup"]
    listed = [name for rows in topics.values() for name in rows]
    assert len(listed) == len(set(listed))
    for path in help.visible():
        group = path.rpartition(" ")[0].split(" ")[0]
        assert help.short(path) in listed or group in listed, path
    text = page("", 80)
    for group in set(listed) & set(parse.GROUPS):
        row = text[text.index(f"  {group} ") :]
        for path in help.visible(group):
            assert path.split()[len(group.split())] in row.partition(")")[0]
    # What somebody wants who has never seen it comes first.
    assert next(iter(topics["start here"])) == "init"
    assert text.index("  next ") < text.index("look:") < text.index("  claim ")


def test_state_commands_are_shown_by_their_short_names():
    assert page("state show", 80).startswith("usage: tugcode show ")
    assert "The full name is `tugcode state show`." in page("state show", 80)
    assert "  tugcode show " in page("state show", 80)
    assert page("state init", 80).startswith("usage: tugcode state init ")
    assert "full name" not in page("state init", 80)
    assert "\n  claim " in page("state", 80)


def test_a_group_of_one_topic_needs_no_topics():
    assert "\ncommands:\n  dash create " in page("dash", 80)
    assert "\n  worktree salvage  " in page("worktree", 80)
    assert "\n  worktree salvage list " in page("worktree salvage", 80)


def test_the_width_is_that_of_the_terminal_and_80_without_one(tugcode, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert tugcode("update", "--help").out == page("state update", 80)
    for columns, width in ((40, 40), (100, 100), (500, 120)):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert tugcode("update", "--help").out == page("state update", width)


def test_help_fits_a_real_terminal(tmp_path, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    for columns in (72, 40):
        screen = Terminal(words_of("validate", "--help", at=tmp_path), columns=columns, lines=60)
        assert screen.end() == 0
        screen.close()
        assert screen.display.text == page("validate", columns).rstrip("\n")
