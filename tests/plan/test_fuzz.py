"""Whatever the text: parsing and judging end, raise nothing, and tell true lines."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from support.plan_sound import FRAGMENTS, assert_sound
from support.proving import examined
from tugtool.plan import markdown
from tugtool.plan.model import KINDS, Step
from tugtool.plan.parser import parse

SAMPLE = (Path(__file__).parent / "plans" / "clean" / "good.md").read_text(encoding="utf-8")

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
