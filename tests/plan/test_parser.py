"""The plan format: title, metadata, decisions, anchors, steps and their ends."""

import pytest

from tugtool.plan.model import Anchor, Passage
from tugtool.plan.parser import parse, section


def outline(text: str) -> list[tuple]:
    """Anchor, number, title, line and substeps of each step."""
    return [
        (step.anchor, step.number, step.title, step.line, [sub.anchor for sub in step.substeps])
        for step in parse(text).steps
    ]


def owners(text: str) -> dict[str, list[str]]:
    """Which boxes each step has, by text."""
    return {step.anchor: [item.text for item in step.items] for step in parse(text).every_step()}


def codes(text: str) -> list[tuple[str, int]]:
    """What the parser itself noticed."""
    return [(each.code, each.line) for each in parse(text).diagnostics]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# Ropes", "Ropes"),
        ("## Ropes {#ropes}", "Ropes"),
        ("## Phase 1.0: Ropes {#phase-1}", "Ropes"),
        ("## Phase 2b: Ropes: the sequel", "Ropes: the sequel"),
        ("### Not this\n\n# Ropes\n\n# Not this", "Ropes"),
        ("#\n## Ropes", "Ropes"),
        ("## Phase 1.0 Ropes", "Phase 1.0 Ropes"),
        ("```\n# Not this\n```\n# Ropes", "Ropes"),
        ("text", None),
    ],
)
def test_the_title_is_the_first_heading_of_level_one_or_two(text, title):
    assert parse(text).title == title


def test_a_long_title_beyond_ascii_is_kept_whole():
    title = "Überprüfung der Taue — 船のロープ 🪢 " * 40
    plan = parse(f"# {title}\n#### Step 1: {title}\n#### Step x1.: {title}\n")
    assert plan.title == title.strip()
    assert plan.steps[0].title == title.strip()


def test_the_purpose_goes_on_until_a_blank_line():
    plan = parse("# T\n\n**Purpose:** Tie\nthe ropes.\n\nNot this.\n**Purpose:** Not this.\n")
    assert plan.purpose == Passage("Tie the ropes.", 3)


def test_a_plan_without_a_purpose_has_none():
    assert parse("# T\nPurpose: x").purpose is None


METADATA = """# T
| Owner | not this |

### Plan Metadata {#plan-metadata}

| Field | Value |
|------|:----:|
| Owner | Ann |
| **Status** | `draft` |
| Target branch | a \\| b |
| Last updated ||
| Owner | nor this |
| alone
#### Deeper

| Tracking issue/PR | #7 | more |

### Other

| Last words | nor this |
"""


def test_metadata_are_the_table_of_their_section_and_no_other():
    assert parse(METADATA).metadata == {
        "owner": Passage("Ann", 8),
        "status": Passage("draft", 9),
        "target branch": Passage("a | b", 10),
        "last updated": Passage("", 11),
        "tracking issue/pr": Passage("#7", 16),
    }


def test_decisions_and_questions_have_name_title_status_anchor_and_line():
    text = "\n".join(
        [
            "#### [D01] Use hemp (DECIDED) {#d01-hemp}",
            "#### [D02b] Nylon (it (really) stretches) {#d02-nylon}",
            "#### [Q01] How long? (OPEN) {#q01-long}",
            "#### [DM03] Knots (DECIDED: after [Q01] (see there))",
            "##### [D04] Too deep (DECIDED)",
        ]
    )
    found = [tuple(each) for each in parse(text).decisions]
    assert found == [
        ("D01", "Use hemp", "DECIDED", "d01-hemp", 1),
        ("D02b", "Nylon (it (really) stretches)", None, "d02-nylon", 2),
        ("Q01", "How long?", "OPEN", "q01-long", 3),
        ("DM03", "Knots", "DECIDED", None, 4),
    ]
    assert [each.is_question for each in parse(text).decisions] == [False, False, True, False]


def test_anchors_are_noted_wherever_they_stand_but_not_in_code():
    text = "## A {#a}\ntext {#b} {#c}\n`{#d}`\n```\n{#e}\n```\n{#if x}\n#### Step 1: S {#s} {#t}\n"
    assert list(parse(text).anchors) == [
        Anchor("a", 1, True),
        Anchor("b", 2, False),
        Anchor("c", 2, False),
        Anchor("s", 8, True, True),
        Anchor("t", 8, True),
    ]


@pytest.mark.parametrize(
    ("heading", "step"),
    [
        ("### Step 3: Tie {#tie}", ("tie", "3", "Tie")),
        ("#### Step 3: Tie", ("step-3", "3", "Tie")),
        ("##### Step 3: Tie", ("step-3", "3", "Tie")),
        ("#### Step 3:Tie", ("step-3", "3", "Tie")),
        ("#### Step 3 : Tie", ("step-3", "3", "Tie")),
        ("#### Step 3 — Tie", ("step-3", "3", "Tie")),
        ("#### Step 3\u2013Tie", ("step-3", "3", "Tie")),
        ("#### Step 3 - Tie", ("step-3", "3", "Tie")),
        ("#### Step 3 -- Tie", ("step-3", "3", "Tie")),
        ("#### Step 3-Tie", ("step-3", "3", "Tie")),
        ("#### Step 3 Tie", ("step-3", "3", "Tie")),
        ("#### Step\xa03: Tie", ("step-3", "3", "Tie")),
        ("#### Step 2 Summary", ("step-2", "2", "Summary")),
        ("#### Step 2a: Tie", ("step-2a", "2a", "Tie")),
        ("#### Step R4b: Tie", ("step-r4b", "R4b", "Tie")),
        ("#### Step 6.5: Tie", ("step-6-5", "6.5", "Tie")),
        ("#### Step 5.5.a: Tie", ("step-5-5-a", "5.5.a", "Tie")),
        ("###### Step 6.5: Tie", ("step-6-5", "6.5", "Tie")),
        ("   #### Step 3: Tie ####", ("step-3", "3", "Tie")),
        ("#### Step 3: ~~Tie~~ {#Odd_One} done", ("Odd_One", "3", "~~Tie~~  done")),
    ],
)
def test_every_form_of_a_step_heading(heading, step):
    assert [found[:3] for found in outline(heading)] == [step]


@pytest.mark.parametrize(
    "heading",
    [
        "#### Step 3",
        "#### Step 3:",
        "#### Step 3 {#step-3}",
        "#### Step 3 —",
        "#### Step 3 -",
        "## Step 3: Tie",
        "###### Step 3: Tie",
        "#### step 3: Tie",
        "#### STEP 3: Tie",
        "#### Step: Tie",
        "#### Step A: Tie",
        "#### Step 3. Tie",
        "#### Step 3-1: Tie",
        "#### Sub-step 3: Tie",
        "#### **Step 3: Tie**",
        "#### ✅ Step 3: Tie",
        "#### [x] Step 3: Tie",
    ],
)
def test_what_is_almost_a_step_is_none_and_is_noticed(heading):
    assert outline(heading) == []
    assert codes(heading) == [("P001", 1)]


@pytest.mark.parametrize("line", ["    #### Step 3: Tie", "Step 3: Tie", "#### Steps 1 to 3"])
def test_what_is_no_step_at_all_is_not_noticed(line):
    assert outline(line) == []
    assert codes(line) == []


def test_a_deeper_dotted_heading_is_a_substep():
    text = "#### Step 3: A\n##### Step 3.1: B\n###### Step 3.1.2: C\n##### Step 3.2: D {#d}\n"
    assert outline(text) == [("step-3", "3", "A", 1, ["step-3-1", "step-3-1-2", "d"])]
    assert [step.parent for step in parse(text).every_step()] == [None, *["step-3"] * 3]
    assert [step.step_index for step in parse(text).every_step()] == [0, 1, 2, 3]


def test_a_dotted_heading_that_is_not_deeper_is_a_step_of_its_own():
    text = "#### Step 6: A\n#### Step 6.5: B\n##### Step 6.5.1: C\n### Step 6.7: D\n"
    assert outline(text) == [
        ("step-6", "6", "A", 1, ["step-6-5-1"]),
        ("step-6-5", "6.5", "B", 2, []),
        ("step-6-7", "6.7", "D", 4, []),
    ]


def test_a_dotted_heading_without_its_step_is_a_step_of_its_own():
    assert outline("##### Step 6.5: A\n#### Step 6: B") == [
        ("step-6-5", "6.5", "A", 1, []),
        ("step-6", "6", "B", 2, []),
    ]


def test_a_substep_belongs_to_the_nearest_step_of_its_number_however_far_away():
    text = "### Step 1: A\n### Step 1: B {#b}\n### Step 2: C\n#### Step 1.1: D\n- [ ] x\n"
    assert outline(text) == [
        ("step-1", "1", "A", 1, []),
        ("b", "1", "B", 2, ["step-1-1"]),
        ("step-2", "2", "C", 3, []),
    ]
    assert owners(text)["step-1-1"] == ["x"]
    assert [step.step_index for step in parse(text).every_step()] == [0, 1, 2, 3]


def test_a_deeper_heading_that_repeats_the_steps_number_is_no_step():
    text = "#### Step 2: A\n- [ ] a\n##### Step 2 Summary\n- [ ] b\n###### Step 2: again\n- [ ] c\n"
    assert owners(text) == {"step-2": ["a", "b", "c"]}
    assert codes(text) == []


def test_a_heading_of_the_same_level_that_repeats_the_number_is_a_step():
    assert outline("#### Step 2: A\n#### Step 2 Summary {#step-2-summary}") == [
        ("step-2", "2", "A", 1, []),
        ("step-2-summary", "2", "Summary", 2, []),
    ]


def test_a_deeper_heading_that_repeats_a_dotted_number_is_a_step():
    text = "#### Step 6.5: A\n##### Step 6.5 Summary {#sum}\n"
    assert [found[0] for found in outline(text)] == ["step-6-5", "sum"]
    assert outline("#### Step 6: Z\n" + text)[0] == ("step-6", "6", "Z", 1, ["sum"])


def test_a_repetition_ends_a_substep_and_goes_on_with_the_step():
    text = "#### Step 2: A\n##### Step 2.1: B\n- [ ] b\n##### Step 2 rollup\n- [ ] a\n"
    assert owners(text) == {"step-2": ["a"], "step-2-1": ["b"]}


@pytest.mark.parametrize("end", ["#### Exit criteria", "### Deliverables", "# Roadmap"])
def test_boxes_after_a_steps_end_are_not_the_steps(end):
    text = f"#### Step 1: A\n- [ ] a\n{end}\n- [ ] not a\n##### Deeper\n- [ ] nor this\n"
    assert owners(text) == {"step-1": ["a"]}


def test_a_deeper_heading_does_not_end_a_step():
    assert owners("### Step 1: A\n#### Why\n- [ ] a\n") == {"step-1": ["a"]}


def test_the_end_of_a_substep_gives_the_text_back_to_its_step():
    text = "#### Step 3: A\n##### Step 3.1: B\n- [ ] b\n###### Deeper\n- [ ] c\n"
    text += "##### Notes\n- [ ] a\n**Commit:** done\n#### Over\n- [ ] d\n"
    assert owners(text) == {"step-3": ["a"], "step-3-1": ["b", "c"]}
    assert parse(text).steps[0].commit == Passage("done", 8)


def test_the_end_of_a_step_ends_its_substep_too():
    text = "#### Step 3: A\n##### Step 3.1: B\n#### Over\n- [ ] a\n"
    assert owners(text) == {"step-3": [], "step-3-1": []}


def test_steps_with_the_same_anchor_are_all_there():
    text = "#### Step 1: A {#x}\n- [ ] a\n#### Step 2: B {#x}\n- [ ] b\n##### Step 2.1: C {#x}\n"
    assert [(step.anchor, len(step.items)) for step in parse(text).every_step()] == [
        ("x", 1),
        ("x", 1),
        ("x", 0),
    ]


def test_nothing_inside_a_fence_or_a_comment_counts():
    text = "```\n#### Step 1: A\n```\n<!--\n#### Step 2: B\n-->\n    ~~~\n#### Step 3: C\n"
    assert outline(text) == [("step-3", "3", "C", 8, [])]
    assert codes(text) == [("P006", 2)]


def test_one_fence_with_many_steps_is_noticed_once_and_the_next_again():
    text = "```\n#### Step 1: A\n#### Step 2: B\n```\n\n~~~\n#### Step 3: C\n~~~\n"
    assert codes(text) == [("P006", 2), ("P006", 7)]


def test_a_byte_order_mark_and_carriage_returns_change_nothing():
    text = "# T\n\n#### Step 1: A\n- [ ] a\n  b\n"
    assert parse("\ufeff" + text.replace("\n", "\r\n")) == parse(text)


@pytest.mark.parametrize(("text", "count"), [("", 0), ("a", 1), ("a\n", 1), ("a\n```\n\n", 3)])
def test_the_number_of_lines_is_that_of_the_file(text, count):
    assert parse(text).line_count == count


def test_a_section_is_all_the_lines_of_a_step_and_its_substeps():
    first = "### Step 1: One\n- [ ] a\n#### Step 1.1: Inner\n```\n### Step 9: code\n```\n    # no"
    text = (
        f"# Work\n\n{first}\n\n#### Step 2: Deeper\ntext\n## Afterwards\n### Step 3: Last\n\nend\n"
    )
    plan = parse(text.replace("\n", "\r\n"))
    parts = [section(text, plan, step) for step in plan.steps]
    assert parts == [first, "#### Step 2: Deeper\ntext", "### Step 3: Last\n\nend"]


def test_a_step_has_words_for_its_commit():
    lines = ["**Commit:** `feat: x`", "**Commit:** N/A (verification only)", "text"]
    steps = parse("".join(f"### Step {n}: Part\n{line}\n" for n, line in enumerate(lines))).steps
    assert [step.commit_message for step in steps] == ["feat: x", "step-1: Part", "step-2: Part"]
