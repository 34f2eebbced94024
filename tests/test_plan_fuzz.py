"""Whatever the text: parsing and judging end, raise nothing, and tell true lines."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from proving import examined
from tugtool.plan import graph, markdown, rules
from tugtool.plan.model import KINDS, Plan, Step
from tugtool.plan.parser import parse

SAMPLE = (Path(__file__).parent / "plans" / "clean" / "good.md").read_text(encoding="utf-8")

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

fragments = st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join)
mixtures = st.lists(fragments | st.text(max_size=20), max_size=6).map("".join)


@st.composite
def mutations(draw) -> str:
    """The sample with characters and lines deleted, doubled, swapped and put in."""
    parts = SAMPLE.splitlines(keepends=True)
    for _ in range(draw(st.integers(1, 8))):
        if draw(st.booleans()):
            _mutate(draw, parts, st.sampled_from(FRAGMENTS).map(lambda each: each + "\n"))
        else:
            characters = list("".join(parts))
            _mutate(draw, characters, st.sampled_from(FRAGMENTS) | st.characters())
            parts = "".join(characters).splitlines(keepends=True)
    return "".join(parts)


def _mutate(draw, parts: list[str], new: st.SearchStrategy[str]) -> None:
    if not parts:
        return
    one, other = (draw(st.integers(0, len(parts) - 1)) for _ in range(2))
    change = draw(st.sampled_from(["delete", "double", "swap", "insert"]))
    if change == "delete":
        del parts[min(one, other) : min(one, other) + 3]
    elif change == "double":
        parts.insert(other, parts[one])
    elif change == "swap":
        parts[one], parts[other] = parts[other], parts[one]
    else:
        parts.insert(one, draw(new))


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
    assert step.number in lines[step.line - 1]
    for kind in KINDS:
        ordinals = [item.ordinal for item in step.items if item.kind == kind]
        assert ordinals == list(range(len(ordinals)))
    assert len({need.anchor for need in step.needs}) == len(step.needs)
    for need in step.needs:
        assert "#" + need.anchor in without_comments(lines[need.line - 1])
    for item in step.items:
        first, *_ = item.text.split()
        assert first in without_comments(lines[item.line - 1])
        below = without_comments("\n".join(lines[item.line - 1 :]))
        assert all(word in below for word in item.text.split())


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
    assert set(graph.folded(plan)) == {step.anchor for step in plan.steps}


@examined(short=100)
@given(fragments)
def test_any_mixture_of_fragments_is_read_soundly(text):
    assert_sound(text)


@examined(short=100)
@given(mixtures)
def test_fragments_among_arbitrary_text_are_read_soundly(text):
    assert_sound(text)


@examined(short=100)
@given(mutations())
def test_a_mutated_plan_is_read_soundly(text):
    assert_sound(text)


pieces = ["```", "```py", "~~~", "````", "``` a`b", "- a", "- [ ] b", "1. c", "10) d", "- ```", "e"]
indented = st.builds(
    lambda indent, piece: " " * indent + piece, st.integers(0, 8), st.sampled_from(pieces)
)


@examined(short=100)
@given(st.lists(indented, max_size=8))
def test_fences_are_where_another_implementation_of_commonmark_has_them(lines):
    # Apart by blank lines: about lazy continuation that implementation departs from the text.
    text = "\n\n".join(lines)
    tokens = [token for token in MarkdownIt("commonmark").parse(text) if token.type == "fence"]
    theirs = {line for token in tokens if token.map for line in range(*token.map)}
    ours = {line.number - 1 for line in markdown.lines(text) if line.fenced}
    blank = {number for number, line in enumerate(text.split("\n")) if not line}
    assert ours - blank == theirs - blank


words = st.text(alphabet="abXYß漢é019.,!?'/", min_size=1, max_size=8).filter(
    lambda word: word.strip(".,!?'/") != ""
)
phrases = st.lists(words, min_size=1, max_size=5).map(" ".join)
items = st.lists(st.tuples(st.sampled_from(KINDS), phrases, st.booleans()), max_size=5)
contents = st.tuples(phrases, items, st.sets(st.integers(0, 9), max_size=3))
structures = st.lists(st.tuples(contents, st.lists(contents, max_size=3)), max_size=5)

LABELS = {"task": "**Tasks:**", "test": "**Tests** (all):", "checkpoint": "**Checkpoint:**"}


def rendered(number: str, content, level: int) -> list[str]:
    """A step as a person would write it; its items may be broken over two lines."""
    title, boxes, needs = content
    named = ", ".join(f"[Step {n}](#step-{n})" for n in sorted(needs))
    lines = [f"{'#' * level} Step {number}: {title}", "", f"**Depends on:** {named or 'None.'}"]
    lines += ["", f"**Commit:** {title}", ""]
    for kind, text, ticked in boxes:
        head, _, rest = text.partition(" ")
        lines += [LABELS[kind], f"- [{'x' if ticked else ' '}] {head}"]
        lines += [f"  {rest}"] if rest else []
    return [*lines, ""]


def structure_of(step: Step):
    """A step as it was before it was rendered."""
    assert step.commit
    assert step.commit.text == step.title
    boxes = [(item.kind, item.text, item.ticked) for item in step.items]
    return step.title, boxes, {int(need.anchor.removeprefix("step-")) for need in step.needs}


@examined(short=100)
@given(phrases, structures)
def test_a_rendered_structure_is_read_back(title, structure):
    lines = [f"# {title}", ""]
    for n, (content, substeps) in enumerate(structure):
        lines += rendered(str(n), content, 4)
        for m, substep in enumerate(substeps):
            lines += rendered(f"{n}.{m}", substep, 5)
    plan = parse("\n".join([*lines, "## The end", "- [ ] not an item"]))
    assert plan.title == title
    assert [
        (structure_of(step), [structure_of(sub) for sub in step.substeps]) for step in plan.steps
    ] == structure
    assert [step.number for step in plan.steps] == [str(n) for n in range(len(structure))]
