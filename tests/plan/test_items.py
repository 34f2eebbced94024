"""The plan format: dependencies, labels and checklists of a step."""

import pytest

from tugtool.plan.model import Item, Need, Passage, Step
from tugtool.plan.parser import parse

STEP = "#### Step 9: Tie\n"


def only(body: str) -> Step:
    """The one step whose text this is; its heading is line 1."""
    (step,) = parse(STEP + body).steps
    return step


def needs(body: str) -> list[tuple[str, int]]:
    """Anchors and lines of the step's dependencies."""
    return [(need.anchor, need.line) for need in only(body).needs]


def kinds(body: str) -> list[str]:
    """`kind ordinal: text` of each item."""
    return [f"{item.kind} {item.ordinal}: {item.text}" for item in only(body).items]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("**Depends on:** #a", [("a", 2)]),
        ("**Depends on**: #a, #b.", [("a", 2), ("b", 2)]),
        ("**Depends on (hard):** #a", [("a", 2)]),
        ("**depends on:** #step-7-4b and #R_2", [("step-7-4b", 2), ("R_2", 2)]),
        ("**Depends on:** [Step 1](#step-1), [#step-2](#step-2)", [("step-1", 2), ("step-2", 2)]),
        ("**Depends on:** `#a`, **#b** (#c)", [("a", 2), ("b", 2), ("c", 2)]),
        ("**Depends on:** #a,\n#b\n  #c\n\n#d", [("a", 2), ("b", 3), ("c", 4)]),
        ("**Depends on:**\n- #a\n- #b\n\nnot #c", [("a", 3), ("b", 4)]),
        ("**Depends on:**\n\n- #a\n  and #b\n\n* #c", [("a", 4), ("b", 5), ("c", 7)]),
        ("**Depends on:** #a\n- [ ] not #b", [("a", 2)]),
        ("**Depends on:** #a\n**Tasks:** not #b", [("a", 2)]),
        ("**Depends on:** #a\n```\n#b\n```\n#c", [("a", 2)]),
        ("**Depends on:** #a <!-- #b -->", [("a", 2)]),
        ("**Depends on:** #a\n\n**Depends on:** #b\n#c", [("a", 2), ("b", 4), ("c", 5)]),
        ("**Depends on:** none\n\n**Depends on:** #b", [("b", 4)]),
        ("**Depends on:** other.md#a, x/#b, #c", [("c", 2)]),
        ("**Depends on:** #step-2.1, #step-3.", [("step-2.1", 2), ("step-3", 2)]),
        ("Depends on: #a", []),
        ("**Depends on** #a", []),
        ("- **Depends on:** #a", []),
    ],
)
def test_dependencies_are_the_anchors_of_the_line_and_its_continuation(body, found):
    assert needs(body) == found


def test_a_name_that_a_depends_line_repeats_counts_once():
    assert needs("**Depends on:** [#a](#a), #b, #a\n#b") == [("a", 2), ("b", 2)]


def test_a_dependency_on_what_is_no_step_is_kept_for_the_rules_to_judge():
    plan = parse("## Context {#context}\n#### Step 1: A\n**Depends on:** #context\n")
    assert plan.steps[0].needs == (Need("context", 3),)


@pytest.mark.parametrize(
    "text",
    [
        "none",
        "None",
        "None (foundation)",
        "None.",
        "*none*",
        "n/a",
        "N/A",
        "-",
        "—",
        "\u2013 see #a",
        "none, not even #a",
        "",
        "(none)",
        "\n- none",
    ],
)
def test_none_not_applicable_and_a_dash_are_no_dependency(text):
    assert needs(f"**Depends on:** {text}") == []


@pytest.mark.parametrize("text", ["nonetheless #a", "#a — none of the others"])
def test_none_must_be_a_word_at_the_beginning(text):
    assert needs(f"**Depends on:** {text}") == [("a", 2)]


def test_the_other_labels_are_kept_as_text():
    step = only(
        "**Commit:** `feat: tie`\n"
        "**References:** [D01] Hemp,\n(#context)\n"
        "**Artifacts:**\n- a rope\n- a knot\n"
        "**Rollback**: untie\n\n**References:** Table T01\n"
    )
    assert step.commit == Passage("`feat: tie`", 2)
    assert step.references == Passage("[D01] Hemp, (#context) Table T01", 3)
    assert step.artifacts == Passage("a rope a knot", 5)
    assert step.rollback == Passage("untie", 8)
    assert step.depends_on is None


def test_the_first_commit_line_that_says_something_is_the_steps():
    assert only("**Commit:**\n\n**Commit:** a\n\n**Commit:** b\nc").commit == Passage("a", 4)


@pytest.mark.parametrize(
    ("text", "alone"), [("N/A (verification)", True), ("`n/a`", True), ("feat: N/A", False)]
)
def test_a_step_whose_commit_is_not_applicable_only_verifies(text, alone):
    assert only(f"**Commit:** {text}").verification_only is alone


def test_a_step_without_commit_is_not_verification_only():
    assert not only("").verification_only


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("**Tasks:**", "task"),
        ("**Tasks (part 1):**", "task"),
        ("**Tests**", "test"),
        ("**Tests** (15 in all):", "test"),
        ("**Tests:** all of these", "test"),
        ("__Tests:__", "test"),
        ("**Checkpoint:**", "checkpoint"),
        ("**Checkpoints:**", "checkpoint"),
        ("  **Checkpoint:**", "checkpoint"),
        ("##### Tests", "test"),
        ("##### Checkpoints: {#step-9-checks}", "checkpoint"),
        ("###### **Tests**", "test"),
    ],
)
def test_every_form_that_opens_a_checklist(label, kind):
    assert kinds(f"{label}\n\n- [ ] a\n- [x] b") == [f"{kind} 0: a", f"{kind} 1: b"]


@pytest.mark.parametrize(
    "label",
    [
        "**Testing:**",
        "Tests:",
        "**Acceptance tests:**",
        "**Tests** to delete",
        "##### Tests to delete",
        "- **Tests:**",
    ],
)
def test_a_box_outside_a_checklist_is_a_task(label):
    assert kinds(f"{label}\n\n- [ ] a") == ["task 0: a"]


@pytest.mark.parametrize("end", ["**Rollback:** x", "**Depends on:** #a", "##### Notes"])
def test_a_label_of_the_format_or_a_heading_ends_a_checklist(end):
    assert kinds(f"**Tests:**\n- [ ] a\n\n{end}\n- [ ] b") == ["test 0: a", "task 0: b"]


@pytest.mark.parametrize(
    "title", ["**Unit:**", "**Unit**", "**Commit when green.**", "text", "> q"]
)
def test_a_group_title_inside_a_checklist_changes_nothing(title):
    assert kinds(f"**Tests:**\n- [ ] a\n\n{title}\n- [ ] b") == ["test 0: a", "test 1: b"]


def test_ordinals_count_within_their_kind_in_document_order():
    body = "**Tests:**\n- [ ] a\n**Tasks:**\n- [ ] b\n**Tests:**\n- [ ] c\n"
    assert kinds(body) == ["test 0: a", "task 0: b", "test 1: c"]


def test_an_item_knows_its_line_and_whether_it_is_ticked():
    assert only("- [ ] a\n\n* [X] b\n+ [x] c").items == (
        Item("task", 0, "a", 2, False),
        Item("task", 1, "b", 4, True),
        Item("task", 2, "c", 5, True),
    )


def test_a_substep_opens_no_checklist_for_its_step_nor_keeps_one():
    plan = parse(
        STEP + "**Tests:**\n##### Step 9.1: B\n- [ ] a\n**Tests:**\n##### Notes\n- [ ] b\n"
    )
    found = [(step.anchor, item.kind) for step in plan.every_step() for item in step.items]
    assert found == [("step-9", "task"), ("step-9-1", "task")]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("- [ ] a\n  - [ ] b\n      - [x] c", ["a", "b", "c"]),
        ("    - [ ] a", ["a"]),
        ("- [ ] a\n  b\n\tc", ["a b c"]),
        ("- [ ] a\n  - b", ["a - b"]),
        ("- [ ] a\nb", ["a"]),
        ("- [ ] a\n- b\n  c", ["a"]),
        ("- [ ] a\n  - [ ] b\n    c\n  d", ["a d", "b c"]),
        ("- [ ] a\n\n  b\n c", ["a b c"]),
        ("- [ ] a\n\n b", ["a"]),
        ("- [ ] a\n  ```\n  b\n  ```\n  c", ["a c"]),
        ("- [ ] a\n```\nb\n```\n  c", ["a"]),
        ("- [ ] a <!-- b -->", ["a"]),
        ("- [ ] a\n  **b:**\n  c", ["a **b:** c"]),
        ("- [ ] a\n  **Rollback:**\n  c", ["a"]),
        ("- [ ]\n- [ ]a\n- [-] b\n1. [ ] c\n> - [ ] d", []),
        ("~~~\n- [ ] a\n~~~\n<!--\n- [ ] b\n-->\n", []),
    ],
)
def test_items_are_boxes_with_their_indented_continuation(body, found):
    assert [item.text for item in only(body).items] == found


def test_boxes_before_the_first_step_are_nobodys():
    plan = parse("- [ ] a\n  b\n**Tests:**\n- [ ] c\n**Depends on:** #a\n" + STEP + "- [ ] d\n")
    assert plan.steps[0].items == (Item("task", 0, "d", 7, False),)


@pytest.mark.parametrize("line", ["Commit: x", "- **Commit:** x", "**Commit message:** x"])
def test_what_is_almost_a_commit_line_is_noticed(line):
    found = parse(f"{STEP}{line}\n").diagnostics
    assert [(each.code, each.line) for each in found] == [("P007", 2)]
    assert parse(f"{STEP}**Commit:** x\n{line}\n").diagnostics == ()
