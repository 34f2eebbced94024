"""The rules about what the execution of a plan uses: anchors and dependencies."""

from __future__ import annotations

import re
from itertools import pairwise

from tugtool import nearest
from tugtool.plan import draft, graph
from tugtool.plan.model import Diagnostic
from tugtool.plan.near import short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tugtool.plan.model import Anchor, Plan

#: Suggestions cost time; a plan with a thousand wrong anchors needs them for the first few.
_MOST_SUGGESTIONS = 10
#: Comparing two names takes as long as both lengths multiplied: 2,000 names of 11 letters.
_MOST_COMPARED = 250_000
_LONGEST_COMPARED = 200

_KEBAB = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_EXCEPT = re.compile(r"(?:none|n/a)\W{1,3}(?:except|but|other than|besides)\b", re.IGNORECASE)
_ASIDE = re.compile(
    r"\[[^\[\]]*\]\([^()]*\)|\((?!(?:and|plus|also|&|as well)\b)[^()]*\)", re.IGNORECASE
)
_IN_WORDS = re.compile(
    r"(?<![#\w-])steps?[ \t]+[A-Z]?\d"
    r"|\b(?:all|every|each|any|previous|preceding|prior|earlier)[ \t]+(?:\w+[ \t]+)?steps?\b",
    re.IGNORECASE,
)
_BETWEEN = re.compile(
    r"[\s)\]*_`]*(?:through|thru|to|until|up to|\.{2,3}|\u2026|[-\u2013\u2014])"
    r"[\s*_`]*(?:\[[^\]]*\]\()?[*_`(\[]*",
    re.IGNORECASE,
)
#: `#step-1 through 4` names only one end.
_OPEN_RANGE = re.compile(
    r"[\s)\]*_`]*(?:(?:through|thru|to|until|up to)\b|\.{2,3}|\u2026|\u2013)"
    r"[\s*_`]*(?:steps?[\s-]*)?\d",
    re.IGNORECASE,
)


def step_anchors_are_well_formed(plan: Plan) -> Iterator[Diagnostic]:
    """E005, for the anchors that the execution uses."""
    return _malformed(anchor for anchor in plan.anchors if anchor.on_step)


def other_anchors_are_well_formed(plan: Plan) -> Iterator[Diagnostic]:
    """E005, for the rest."""
    return _malformed(anchor for anchor in plan.anchors if not anchor.on_step)


def _malformed(anchors: Iterable[Anchor]) -> Iterator[Diagnostic]:
    for anchor in anchors:
        if not _KEBAB.match(anchor.name):
            yield Diagnostic(
                "E005",
                anchor.line,
                f"the anchor {{#{short(anchor.name)}}} is malformed",
                "use lower-case letters, digits and single hyphens: {#step-3}",
                anchor.name,
            )


def step_anchors_are_unique(plan: Plan) -> Iterator[Diagnostic]:
    """E006, for the anchors that the execution uses."""
    return _repeated(anchor for anchor in plan.anchors if anchor.on_step)


def other_anchors_are_unique(plan: Plan) -> Iterator[Diagnostic]:
    """E006, where at least one of the two is not a step's."""
    first: dict[str, Anchor] = {}
    on_step: set[str] = set()
    for anchor in plan.anchors:
        before = first.setdefault(anchor.name, anchor)
        # Of two steps the other rule tells.
        told = anchor.on_step and anchor.name in on_step
        if before is not anchor and not told:
            yield _twice(before, anchor)
        if anchor.on_step:
            on_step.add(anchor.name)


def _repeated(anchors: Iterable[Anchor]) -> Iterator[Diagnostic]:
    first: dict[str, Anchor] = {}
    for anchor in anchors:
        before = first.setdefault(anchor.name, anchor)
        if before is not anchor:
            yield _twice(before, anchor)


def _twice(before: Anchor, again: Anchor) -> Diagnostic:
    return Diagnostic(
        "E006",
        again.line,
        f"the anchor {short(again.name)} is on line {before.line} and again on line {again.line}",
        "give one of them another anchor",
        again.name,
    )


def needs_exist(plan: Plan) -> Iterator[Diagnostic]:
    """E010: a step may only depend on steps of the plan."""
    # In order, not as a set: the suggestions must be the same every time.
    known = {step.anchor: step for step in plan.every_step()}
    sections = {anchor.name for anchor in plan.anchors}
    suggested = 0
    for step in plan.every_step():
        for need in step.needs:
            if need.anchor in known:
                continue
            close = []
            if suggested < _MOST_SUGGESTIONS:
                suggested += 1
                close = _closest(need.anchor, known)
            what = "an anchor but no step" if need.anchor in sections else "no step of this plan"
            yield Diagnostic(
                "E010",
                need.line,
                f"{short(step.anchor)} depends on #{short(need.anchor)}, which is {what}",
                f"closest: {', '.join('#' + name for name in close)}" if close else "",
                step.anchor,
            )


def _closest(wanted: str, known: Iterable[str]) -> list[str]:
    wanted = wanted[:_LONGEST_COMPARED]
    room, pool = _MOST_COMPARED, []
    for name in known:
        if len(name) > _LONGEST_COMPARED:
            continue
        room -= len(name) * len(wanted)
        if room < 0:
            break
        pool.append(name)
    return nearest.names(wanted, pool)


def nothing_waits_for_itself(plan: Plan) -> Iterator[Diagnostic]:
    """E011: no step may wait for itself, not even through others."""
    lines: dict[str, int] = {}
    for step in plan.every_step():
        # Of two steps with one anchor the first is meant, as in the graph.
        lines.setdefault(step.anchor, step.line)
    found = graph.cycles(graph.folded(plan))
    for step in plan.steps:
        if step.substeps:
            found += graph.cycles(graph.among_substeps(step))
    for cycle in found:
        path = " -> ".join(f"{anchor} (line {lines[anchor]})" for anchor in cycle)
        yield Diagnostic(
            "E011",
            lines[cycle[0]],
            f"these steps wait for each other: {path}",
            "take one of these dependencies away",
            cycle[0],
        )


def there_are_steps(plan: Plan) -> Iterator[Diagnostic]:
    """E013: without steps there is nothing to carry out."""
    if not plan.steps:
        yield Diagnostic(
            "E013",
            1,
            "the plan has no steps",
            "write a heading of level 3 to 5 like: #### Step 1: Title {#step-1}",
        )


def needs_are_named(plan: Plan) -> Iterator[Diagnostic]:
    """E017: a dependency in prose, or as a range, cannot be honoured."""
    for step in plan.every_step():
        said = step.depends_on
        if said is None or (draft.is_none(said.text) and not _EXCEPT.match(said.text)):
            continue
        if not step.needs or _has_range(said.text) or _names_steps_in_words(said.text):
            yield Diagnostic(
                "E017",
                said.line,
                f'{short(step.anchor)} depends on "{short(said.text)}", which is prose or a range',
                "name every step: **Depends on:** #step-1, #step-2",
                step.anchor,
            )


def _names_steps_in_words(text: str) -> bool:
    """`#step-1, Step 2`: the second would be dropped, and the step would start too early."""
    # Links and remarks in parentheses may speak of steps; `(and Step 2)` is no remark.
    return _IN_WORDS.search(_ASIDE.sub(" ", text)) is not None


def _has_range(text: str) -> bool:
    spans = [match.span() for match in draft.REFERENCE.finditer(text)]
    gaps = (text[end:start] for (_, end), (start, _) in pairwise(spans))
    if any(len(gap) < 200 and _BETWEEN.fullmatch(gap) for gap in gaps):
        return True
    return any(_OPEN_RANGE.match(text[end : end + 40]) for _, end in spans)
