"""Every code of the validation table, by a plan that has the fault and one that has not."""

import re
from pathlib import Path

import pytest

from tugtool.plan import rules
from tugtool.plan.parser import parse

PLANS = Path(__file__).parent / "plans"

CODES = [
    *("E001", "E002", "E003", "E004", "E018", "E005", "E006", "E010", "E011", "E017", "E013"),
    *("W001", "W002", "W003", "W004", "W010", "W006", "W007", "W009", "W011", "W012", "W013"),
    *("W014", "P001", "P002", "P003", "P005", "P006", "P007", "I001"),
]

LENIENT = {"E005", "E006", "E010", "E011", "E013", "E017"}


def lines_of(code: str, text: str, level: str = "normal") -> list[int]:
    """Where a plan has a fault."""
    return [each.line for each in rules.check(parse(text), level) if each.code == code]


def read(code: str, name: str) -> str:
    return (PLANS / code / name).read_text(encoding="utf-8")


def expected(text: str) -> tuple[str, list[int]]:
    """Code and lines that the first line of a bad plan promises."""
    found = re.match(r"<!-- expect: (\w+)((?: \d+)+) -->\n", text)
    assert found, "a bad plan begins with what to expect"
    return found[1], [int(number) for number in found[2].split()]


def test_every_code_has_a_bad_plan_and_a_good_one():
    pairs = {path.parent.name for path in PLANS.glob("*/bad.md")}
    assert pairs == set(CODES) - {"I001"}


@pytest.mark.parametrize("code", sorted(set(CODES) - {"I001"}))
def test_the_bad_plan_has_the_fault_on_its_lines_and_the_good_one_has_not(code):
    bad = read(code, "bad.md")
    promised, lines = expected(bad)
    assert promised == code
    assert lines_of(code, bad) == lines
    assert lines_of(code, read(code, "good.md")) == []


def test_a_plan_without_faults_passes_at_every_level():
    plan = parse(read("clean", "good.md"))
    assert [rules.check(plan, level) for level in ("lenient", "normal", "strict")] == [[], [], []]


def test_a_plan_is_too_long_from_one_line_on():
    clean = read("clean", "good.md")
    room = rules.LONG_PLAN_LINES - clean.count("\n")
    assert lines_of("I001", clean + "\n" * room) == []
    assert lines_of("I001", clean + "\n" * (room + 1)) == [1]


@pytest.mark.parametrize("code", sorted(set(CODES) - {"I001"}))
def test_lenient_looks_only_for_what_would_break_the_execution(code):
    text = read(code, "bad.md")
    found = {each.code for each in rules.check(parse(text), "lenient")}
    assert found <= LENIENT
    assert (code in found) == (code in LENIENT)


@pytest.mark.parametrize("code", ["E005", "E006"])
def test_lenient_judges_the_anchors_of_steps_only(code):
    text = read(code, "bad.md")
    heading = [number for number, line in enumerate(text.split("\n"), 1) if "#### Step 2" in line]
    assert lines_of(code, text, "lenient") == heading
    assert len(lines_of(code, text)) == 2


@pytest.mark.parametrize("code", CODES)
def test_strict_makes_warnings_errors_and_leaves_the_rest(code):
    warning = code[0] in "WP" or code in ("E004", "E018")
    usual = "warning" if warning else "info" if code[0] == "I" else "error"
    assert rules.severity(code) == rules.severity(code, "lenient") == usual
    assert rules.severity(code, "strict") == ("info" if code == "I001" else "error")


@pytest.mark.parametrize("code", sorted(set(CODES) - {"I001"}))
def test_strict_finds_what_normal_finds(code):
    plan = parse(read(code, "bad.md"))
    assert rules.check(plan, "strict") == rules.check(plan, "normal")


def test_diagnostics_come_by_line():
    found = rules.check(
        parse("### Step 1: <a>\n### Step 1: b\n**References:** as above\n"), "normal"
    )
    assert [each.line for each in found] == sorted(each.line for each in found)
    assert len({each.code for each in found}) > 5


def test_all_three_required_sections_and_fields_are_named():
    found = rules.check(parse("# T\n### Step 1: a\n"), "normal")
    told = [each.message for each in found if each.code in ("E001", "E002")]
    assert told == [
        "the section plan-metadata is missing",
        "the section phase-overview is missing",
        "the section execution-steps is missing",
        "the metadata lack Owner",
        "the metadata lack Status",
        "the metadata lack Last updated",
    ]


def test_missing_metadata_are_told_where_the_section_is():
    assert lines_of("E002", "# T\n\n## M {#plan-metadata}\n") == [3, 3, 3]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (["", "", ""], [2, 3]),
        (["", "none", ""], [3]),
        (["none", "", "n/a"], []),
        (["", "-", "none"], []),
    ],
)
def test_several_roots_are_told_of_unless_they_are_meant(said, found):
    heads = [f"### Step {n}: Part\n" for n in (1, 2, 3)]
    lines = [f"**Depends on:** {word}\n" if word else "" for word in said]
    plan = parse("".join(head + line for head, line in zip(heads, lines, strict=True)))
    told = [each.anchor for each in rules.check(plan, "normal") if each.code == "W007"]
    assert told == [f"step-{n}" for n in found]
