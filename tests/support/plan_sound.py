"""What holds for any text at all that is read as a plan, and what such texts are made of."""

import re

from tugtool.plan import model, rules
from tugtool.plan.model import KINDS, Plan, Step
from tugtool.plan.parser import parse

#: What plans are made of, and what almost looks like it.
FRAGMENTS = [
    *("# ", "## ", "### ", "#### ", "##### ", "###### ", "####### ", " ##"),
    *("Step 1: a", "Step 1.1: b", "Step 1.1.2 — c", "Step 2a d", "Step R4b - e", "Step 3", "Step "),
    *("{#step-1}", "{#step-1-1}", "{#A_b}", "{#}", "{#", "#step-1", "#step-2a", "(#x)", "[a](#b)"),
    *("**Tasks:**", "**Tests** (2):", "**Checkpoint**", "**Depends on:** ", "**Commit:** ", "**"),
    *("**References:** ", "**Purpose:** ", "**Rollback:** ", "**Group:**", "__Tests:__"),
    *("- [ ] ", "* [x] ", "+ [X] ", "- ", "1. ", "  ", "    ", "\t", "> "),
    *("```", "~~~", "````", "`", "``", "\\`", "<!--", "-->", "<!-->", "<placeholder>", "<br>"),
    *("[D01] ", "[Q1b]", "(DECIDED)", "(OPEN", "{#plan-metadata}", "| Owner | me |", "|", "|-|-|"),
    *("none", "n/a", "—", " through ", "Phase 1.0: ", "commit: x", "TBD"),
    *("\n", "\n", "\n", "\n\n", "\r\n", "\r", "\0", "\ufeff", "\u2028", "ü漢🪢", "word ", " "),
]


def source_lines(text: str) -> list[str]:
    """The lines as an editor numbers them."""
    return re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff").replace("\0", "\ufffd"))


def assert_sound(text: str) -> None:
    """Everything that holds for any text at all."""
    plan = parse(text)
    lines = source_lines(text)
    every = list(plan.every_step())
    assert [step.step_index for step in every] == list(range(len(every)))
    assert [step.line for step in every] == sorted({step.line for step in every})
    assert plan.line_count in (len(lines), len(lines) - 1)
    for step in every:
        assert_true_lines(step, lines)
    assert_judged(plan)


def assert_true_lines(step: Step, lines: list[str]) -> None:
    """Ordinals without gaps, and texts that stand where their line numbers say."""
    assert stands_in(step.number, lines[step.line - 1])
    for kind in KINDS:
        ordinals = [item.ordinal for item in step.items if item.kind == kind]
        assert ordinals == list(range(len(ordinals)))
    assert len({need.anchor for need in step.needs}) == len(step.needs)
    for need in step.needs:
        assert stands_in(f"#{need.anchor}", lines[need.line - 1])
    for item in step.items:
        first, *_ = item.text.split()
        assert stands_in(first, lines[item.line - 1])
        below = "\n".join(lines[item.line - 1 :])
        assert all(stands_in(word, below) for word in item.text.split())


def stands_in(word: str, text: str) -> bool:
    """Whether a word is there as it is, or with comments or an anchor in it that do not count."""
    if word in text or without_comments(word) in without_comments(text):
        return True
    return word in re.sub(r"\{#[^}]*\}", "", without_comments(text))


def without_comments(text: str) -> str:
    """A comment glues what is around it together; so does this."""
    return re.sub(r"<!-->|<!--->|<!--.*?-->|<!--|-->", "", text, flags=re.DOTALL)


def assert_judged(plan: Plan) -> None:
    """Every level ends and stays inside the text; lenient says nothing that normal does not."""
    found = {level: rules.check(plan, level) for level in ("lenient", "normal", "strict")}
    for each in found["strict"]:
        assert 1 <= each.line <= max(plan.line_count, 1)
        assert rules.severity(each.code, "strict") in ("error", "info")
    assert set(found["lenient"]) <= set(found["normal"])
    assert set(model.folded(plan)) == {step.anchor for step in plan.steps}
