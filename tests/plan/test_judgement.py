"""What the rules say: whole paths, both lines, closest anchors; and where they hold back."""

import pytest

from tugtool.plan import rules
from tugtool.plan.model import Diagnostic
from tugtool.plan.parser import parse


def told(code: str, text: str, level: str = "lenient") -> list[Diagnostic]:
    """What is said under a code."""
    return [each for each in rules.check(parse(text), level) if each.code == code]


def chain(needs: dict[str, str]) -> str:
    """A plan of steps, two lines each, with what they depend on."""
    return "".join(
        f"{'#####' if '.' in number else '####'} Step {number}: x\n**Depends on:** {need}\n"
        for number, need in needs.items()
    )


@pytest.mark.parametrize(
    ("needs", "path"),
    [
        ({"1": "#step-2", "2": "#step-1"}, "step-1 (line 1) -> step-2 (line 3) -> step-1 (line 1)"),
        ({"1": "#step-1"}, "step-1 (line 1) -> step-1 (line 1)"),
        (
            {"1": "none", "2": "#step-1, #step-4", "3": "#step-2", "4": "#step-3"},
            "step-2 (line 3) -> step-4 (line 7) -> step-3 (line 5) -> step-2 (line 3)",
        ),
        (
            {"1": "none", "1.1": "#step-2-1", "2": "none", "2.1": "#step-1"},
            "step-1 (line 1) -> step-2 (line 5) -> step-1 (line 1)",
        ),
        (
            {"1": "none", "1.1": "#step-1-2", "1.2": "#step-1-1"},
            "step-1-1 (line 3) -> step-1-2 (line 5) -> step-1-1 (line 3)",
        ),
        ({"1": "none", "1.1": "#step-1-1"}, "step-1-1 (line 3) -> step-1-1 (line 3)"),
    ],
)
def test_a_cycle_is_told_with_its_whole_path_and_lines(needs, path):
    (found,) = told("E011", chain(needs))
    assert found.message == f"these steps wait for each other: {path}"
    assert path.startswith(f"{found.anchor} (line {found.line})")


@pytest.mark.parametrize(
    "needs",
    [
        {"1": "#step-1-1", "1.1": "none"},
        {"1": "none", "1.1": "#step-1"},
        {"1": "none", "1.1": "none", "1.2": "#step-1-1", "2": "#step-1-2"},
        {"1": "none", "2": "#step-1", "3": "#step-1, #step-2"},
    ],
)
def test_what_waits_inside_one_step_or_for_earlier_ones_is_no_cycle(needs):
    assert told("E011", chain(needs)) == []


def test_cycles_are_told_up_to_a_limit():
    steps = {str(n): f"#step-{n}" for n in range(50)}
    assert len(told("E011", chain(steps))) == 20


def test_an_anchor_that_is_there_twice_is_told_with_both_lines():
    text = "#### Step 1: a {#x}\n\n#### Step 2: b {#x}\n#### Step 3: c {#x}\n"
    assert [each.message for each in told("E006", text, "normal")] == [
        "the anchor x is on line 1 and again on line 3",
        "the anchor x is on line 1 and again on line 4",
    ]


def test_each_repetition_is_told_once_also_behind_an_anchor_that_is_no_steps():
    text = "# T {#x}\n#### Step 1: a {#x}\n#### Step 2: b {#x}\ntext {#x}\n"
    assert [each.line for each in told("E006", text, "normal")] == [2, 3, 4]
    assert [each.message for each in told("E006", text)] == [
        "the anchor x is on line 2 and again on line 3"
    ]


def test_the_anchor_a_step_gets_from_its_number_counts_as_one():
    text = "#### Step 1: a\n#### Step 2: b {#step-1}\n"
    assert [each.line for each in told("E006", text)] == [2]


def test_an_unknown_dependency_is_told_with_the_closest_anchors():
    text = "#### Step 1: a {#rig-mast}\n#### Step 2: b {#rig-sail}\n**Depends on:** #rig-mst\n"
    (found,) = told("E010", text)
    assert found == Diagnostic(
        "E010",
        3,
        "rig-sail depends on #rig-mst, which is not a step of this plan",
        "closest: #rig-mast",
        "rig-sail",
    )


def test_a_dependency_on_a_section_is_told_as_such():
    text = "# T {#context}\n#### Step 1: a\n**Depends on:** #context\n"
    (found,) = told("E010", text)
    assert found.message == "step-1 depends on #context, which is an anchor, not a step"


def test_nothing_is_suggested_where_nothing_is_close_nor_too_often():
    far = "#### Step 1: a\n**Depends on:** #zzzzzzzzzzzz\n"
    assert [each.suggestion for each in told("E010", far)] == [""]
    many = "#### Step 1: a\n**Depends on:** " + " ".join(f"#step-1{n}" for n in range(15))
    assert [bool(each.suggestion) for each in told("E010", many)] == [True] * 10 + [False] * 5


def test_huge_names_are_neither_suggested_nor_compared_for_ever():
    names = ["z" * 1000, "a" * 190 + "x", *("b" * 190 + str(n) for n in range(1000))]
    steps = "".join(f"#### Step 1: x {{#{name}}}\n" for name in names)
    (found,) = told("E010", f"{steps}**Depends on:** #{'a' * 190}y\n")
    assert found.suggestion == f"closest: #{'a' * 190}x"


@pytest.mark.parametrize(
    "text",
    [
        "all preceding steps",
        "Step 1 and Step 2",
        "[Step 1](other.md#step-1)",
        "#step-1 through #step-4",
        "#step-1 to #step-4",
        "#step-1-#step-4",
        "#step-1 \u2013 #step-4",
        "#step-1...#step-4",
        "[Step 1](#step-1) through [Step 4](#step-4)",
        "[#step-1](#step-1) \u2014 [#step-4](#step-4)",
        "#step-1 through 4",
        "#step-1\u20134",
        "#step-1 up to step 4",
        "#step-2,\nand #step-3 until\n#step-4",
    ],
)
def test_prose_and_ranges_are_no_dependencies(text):
    assert [each.line for each in told("E017", f"#### Step 5: a\n**Depends on:** {text}\n")] == [2]


@pytest.mark.parametrize(
    "text",
    [
        "none of the others",
        "— (first)",
        "",
        "#step-1, #step-2 and #step-3",
        "#step-1 (needs 4 ropes from there)",
        "#step-1 - 4 ropes",
        "#step-1 / #step-2; #step-3 & #step-4",
        "\n- #step-1\n- #step-2",
        "#step-1 together with what comes out of it, #step-2",
    ],
)
def test_names_with_words_around_them_are_dependencies(text):
    assert told("E017", f"#### Step 5: a\n**Depends on:** {text}\n") == []


def test_what_a_substep_has_counts_for_its_step():
    text = (
        "#### Step 1: a\n- [ ] x\n#### Step 2: b\n##### Step 2.1: c\n**Depends on:** #step-1\n"
        "**Commit:** x\n**References:** Table T1\n**Tasks:**\n- [ ] x\n**Tests:**\n- [ ] x\n"
        "**Checkpoint:**\n- [ ] x\n"
    )
    found = rules.check(parse(text), "normal")
    assert [each.code for each in found if each.line > 2] == []


@pytest.mark.parametrize("code", ["E004", "W003", "W004", "W009", "W010"])
def test_substeps_need_no_lists_of_their_own(code):
    found = told(code, "#### Step 1: a\n##### Step 1.1: b\n", "normal")
    assert [each.line for each in found] == [1]


def test_a_question_need_not_be_cited():
    assert told("W011", "#### [Q01] x (OPEN)\n#### Step 1: a\n", "normal") == []


def test_a_citation_is_told_once_per_step():
    text = "#### Step 1: a\n**References:** [D01], [D01], #x, #x\n"
    assert len(told("W012", text, "normal")) == len(told("W013", text, "normal")) == 1


def test_the_parent_of_a_dotted_step_may_come_later():
    assert told("W014", "#### Step 6.5: a\n#### Step 6: b\n", "normal") == []


@pytest.mark.parametrize("value", ["TBD", "`todo`", "...", "**???**"])
def test_a_value_that_only_holds_a_place_is_told(value):
    text = f"# T\n**Purpose:** {value}\n#### Step 1: a\n**References:** {value}\n"
    assert [each.line for each in told("W006", text, "normal")] == [2, 4]


@pytest.mark.parametrize("commit", ["`feat: <what now>`", "feat: <what now>", "`a` <what now>"])
def test_a_placeholder_in_a_commit_line_is_told_once(commit):
    text = f"#### Step 1: a\n**Commit:** {commit}\n"
    (found,) = told("W006", text, "normal")
    assert found.line == 2
    assert "<what now>" in found.message


def test_long_names_are_cut_in_messages():
    name = "a" * 500
    text = f"#### Step 1: a {{#{name}}}\n**Depends on:** #b\n**References:** [D01] #c\n"
    messages = [each.message for each in rules.check(parse(text), "normal")]
    assert max(map(len, messages)) < 200


@pytest.mark.parametrize(
    "said",
    [
        "#step-1, Step 2",
        "#step-1 and all steps before",
        "#step-1 (and Step 2, Step 3)",
        "#step-1 plus every other step",
        "none, except #step-1",
        "all preceding steps",
    ],
)
def test_a_step_that_is_named_in_words_beside_an_anchor_is_not_dropped_silently(said):
    steps = "".join(f"#### Step {n}: a\n" for n in (1, 2, 3))
    (found,) = told("E017", f"{steps}#### Step 4: b\n**Depends on:** {said}\n")
    assert found.line == 5


@pytest.mark.parametrize(
    "said",
    [
        "[Step 1](#step-1), [Step 2](#step-2).",
        "#step-1 (it is free of the Step 4 augmentations)",
        "#step-1 - this step builds on its parser",
        "none (Step 1 is independent)",
        "#step-1, #step-2",
    ],
)
def test_remarks_and_links_may_speak_of_steps(said):
    steps = "".join(f"#### Step {n}: a\n" for n in (1, 2, 3))
    assert told("E017", f"{steps}#### Step 4: b\n**Depends on:** {said}\n") == []


def test_a_cycle_through_a_repeated_anchor_names_the_first_step():
    text = (
        "#### Step 1: a {#step-1}\n**Depends on:** #step-2\n"
        "#### Step 2: b {#step-2}\n**Depends on:** #step-1\n"
        "#### Step 3: c {#step-2}\n"
    )
    (found,) = told("E011", text)
    assert "step-2 (line 3)" in found.message
