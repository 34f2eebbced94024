"""Plan -> diagnostics. One generator per rule; RULES and LENIENT_RULES list them.

The rules about anchors and dependencies, which the execution needs, come first.

To add a rule: write the generator, put its name in RULES, add `bad.md` and `good.md`
under `tests/plan/plans/<code>/`, and describe the code in `docs/reference/errors.md`.
"""

from __future__ import annotations

import re
from itertools import pairwise

from tugtool.plan import markdown, model, parser
from tugtool.plan.markdown import short
from tugtool.plan.model import Diagnostic
from tugtool.system import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Literal

    from tugtool.plan.model import Anchor, Plan, Step

    Severity = Literal["error", "warning", "info"]

    Rule = Callable[[Plan], Iterator[Diagnostic]]


REQUIRED_SECTIONS = ("plan-metadata", "phase-overview", "execution-steps")
REQUIRED_METADATA = ("owner", "status", "last updated")
STATUSES = ("draft", "active", "done")
LONG_PLAN_LINES = 3000

#: Codes that look like errors, but are warnings.
_MILD_ERRORS = ("E004", "E018")
_SEVERITIES: dict[str, Severity] = {"E": "error", "W": "warning", "P": "warning", "I": "info"}

_CITATION = re.compile(r"\[([DQ][A-Z]?\d+[a-z]?)\]")
_NAMED = re.compile(r"\b(?:Spec|Table|Risk|List|Figure|Diagram|Decision|Question|Section)s?\s+\S")
#: Suggestions cost time, so only the first few of many wrong anchors get them.
_MOST_SUGGESTIONS = 10
#: Comparing two names costs the product of their lengths: 2,000 names of 11 letters.
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

_UNFILLED = ("tbd", "todo", "???", "...", "…")


def check(plan: Plan, level: str) -> list[Diagnostic]:
    """The messages about a plan at a level, by line."""
    rules = LENIENT_RULES if level == "lenient" else (*LENIENT_RULES, *RULES)
    found = [diagnostic for rule in rules for diagnostic in rule(plan)]
    return sorted(found, key=lambda each: (each.line, each.code))


def severity(code: str, level: str = "normal") -> Severity:
    """error, warning or info; at the strict level warnings are errors."""
    mild: Severity = "warning" if code in _MILD_ERRORS else _SEVERITIES[code[0]]
    return "error" if level == "strict" and mild == "warning" else mild


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
    first: dict[str, Anchor] = {}
    for anchor in plan.anchors:
        if anchor.on_step and first.setdefault(anchor.name, anchor) is not anchor:
            yield _twice(first[anchor.name], anchor)


def other_anchors_are_unique(plan: Plan) -> Iterator[Diagnostic]:
    """E006, if at least one of the two anchors is not a step's."""
    first: dict[str, Anchor] = {}
    on_step: set[str] = set()
    for anchor in plan.anchors:
        before = first.setdefault(anchor.name, anchor)
        # The other rule reports two steps.
        told = anchor.on_step and anchor.name in on_step
        if before is not anchor and not told:
            yield _twice(before, anchor)
        if anchor.on_step:
            on_step.add(anchor.name)


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
            what = "an anchor, not a step" if need.anchor in sections else "not a step of this plan"
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
    return text.names(wanted, pool)


def nothing_waits_for_itself(plan: Plan) -> Iterator[Diagnostic]:
    """E011: a step may not wait for itself, not even through others."""
    lines: dict[str, int] = {}
    for step in plan.every_step():
        # Of two steps with one anchor the first counts, as in the graph.
        lines.setdefault(step.anchor, step.line)
    found = model.cycles(model.folded(plan))
    for step in plan.steps:
        if step.substeps:
            found += model.cycles(model.among_substeps(step))
    for cycle in found:
        path = " -> ".join(f"{anchor} (line {lines[anchor]})" for anchor in cycle)
        yield Diagnostic(
            "E011",
            lines[cycle[0]],
            f"these steps wait for each other: {path}",
            "remove one of these dependencies",
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
    """E017: a dependency must be an anchor, not prose or a range."""
    for step in plan.every_step():
        said = step.depends_on
        if said is None or (parser.is_none(said.text) and not _EXCEPT.match(said.text)):
            continue
        # `#step-1, Step 2`: without this the second is ignored, and the step starts too early.
        # Links and remarks in parentheses may speak of steps; `(and Step 2)` is not a remark.
        in_words = _IN_WORDS.search(_ASIDE.sub(" ", said.text))
        if not step.needs or _has_range(said.text) or in_words:
            yield Diagnostic(
                "E017",
                said.line,
                f'{short(step.anchor)} depends on "{short(said.text)}", which is prose or a range',
                "name every step: **Depends on:** #step-1, #step-2",
                step.anchor,
            )


def _has_range(text: str) -> bool:
    spans = [match.span() for match in parser.REFERENCE.finditer(text)]
    gaps = (text[end:start] for (_, end), (start, _) in pairwise(spans))
    if any(len(gap) < 200 and _BETWEEN.fullmatch(gap) for gap in gaps):
        return True
    return any(_OPEN_RANGE.match(text[end : end + 40]) for _, end in spans)


def sections_are_there(plan: Plan) -> Iterator[Diagnostic]:
    """E001: three sections every plan has."""
    present = {anchor.name for anchor in plan.anchors if anchor.on_heading}
    for section in REQUIRED_SECTIONS:
        if section not in present:
            yield Diagnostic(
                "E001",
                1,
                f"the section {section} is missing",
                f"add a heading with the anchor {{#{section}}}",
            )


def metadata_is_there(plan: Plan) -> Iterator[Diagnostic]:
    """E002: the metadata name the owner, the status and the date."""
    table = next((a.line for a in plan.anchors if a.name == "plan-metadata"), 1)
    for field in REQUIRED_METADATA:
        value = plan.metadata.get(field)
        if value is None or not value.text:
            yield Diagnostic(
                "E002",
                value.line if value else table,
                f"the metadata lack {field.capitalize()}",
                f"add a row to the table under {{#plan-metadata}}: | {field.capitalize()} | ... |",
            )


def status_is_known(plan: Plan) -> Iterator[Diagnostic]:
    """E003: the status is one of three words."""
    status = plan.metadata.get("status")
    if status and status.text and status.text.strip("*_ ").casefold() not in STATUSES:
        yield Diagnostic(
            "E003",
            status.line,
            f'the status is "{short(status.text)}"',
            f"use one of {', '.join(STATUSES)}",
        )


def steps_have_references(plan: Plan) -> Iterator[Diagnostic]:
    """E004, E018: a step says which part of the plan it carries out."""
    for step in plan.steps:
        said = [each.references for each in step.family() if each.references]
        if not any(each.text for each in said):
            yield _lacks("E004", step, "References", "**References:** [D01] Title, (#section)")
        for each in said:
            named = _CITATION.search(each.text) or _NAMED.search(each.text)
            if each.text and not named and not parser.references(each.text):
                yield Diagnostic(
                    "E018",
                    each.line,
                    f'{short(step.anchor)} has vague references: "{short(each.text)}"',
                    "cite decisions like [D01], things like Spec S01, or anchors like #context",
                    step.anchor,
                )


def decisions_have_status(plan: Plan) -> Iterator[Diagnostic]:
    """W001, W002: decided or open, and since when."""
    for decision in plan.decisions:
        if decision.status is None:
            what, word = ("question", "OPEN") if decision.is_question else ("decision", "DECIDED")
            yield Diagnostic(
                "W002" if decision.is_question else "W001",
                decision.line,
                f"the {what} {decision.name} has no status",
                f"put one behind its title: ({word})",
                decision.anchor,
            )


def steps_have_checklists(plan: Plan) -> Iterator[Diagnostic]:
    """W003, W004, W010: a step says what to do and how to know that it is done."""
    for step in plan.steps:
        kinds = {item.kind for each in step.family() for item in each.items}
        if "checkpoint" not in kinds:
            yield _lacks("W003", step, "checkpoints", "**Checkpoint:**")
        if "test" not in kinds:
            yield _lacks("W004", step, "tests", "**Tests:**")
        if "task" not in kinds and not step.verification_only:
            yield _lacks("W010", step, "tasks", "**Tasks:**")


def _lacks(code: str, step: Step, what: str, form: str) -> Diagnostic:
    return Diagnostic(
        code, step.line, f"{short(step.anchor)} has no {what}", f"add: {form}", step.anchor
    )


def nothing_is_left_to_fill_in(plan: Plan) -> Iterator[Diagnostic]:
    """W006: placeholder values; the parser finds the `<placeholders>`."""
    passages = [*plan.metadata.values(), *([plan.purpose] if plan.purpose else [])]
    for step in plan.every_step():
        passages += [each for each in (step.commit, step.references) if each]
        # A commit line between backticks must be filled in too; the parser reports the
        # placeholders outside backticks.
        said = step.commit.text if step.commit else ""
        found = markdown.placeholder(said)
        if step.commit and found and not markdown.placeholder(markdown.mask_code(said)):
            message = f"the placeholder {short(found)} is still there"
            yield Diagnostic("W006", step.commit.line, message, "replace it", step.anchor)
    for passage in passages:
        if passage.text.strip("`*_ ").casefold() in _UNFILLED:
            message = f'the placeholder "{passage.text}" is still there'
            yield Diagnostic("W006", passage.line, message, "replace it")


def later_steps_have_needs(plan: Plan) -> Iterator[Diagnostic]:
    """W007: a step without dependencies starts at once, which may be a mistake."""
    waits = model.folded(plan)
    meant = {s.anchor for s in plan.steps if s.depends_on and parser.is_none(s.depends_on.text)}
    # An author who writes it for two steps wants several first steps.
    for step in plan.steps[1:] if len(meant) < 2 else ():
        if not waits[step.anchor] and not step.needs and step.anchor not in meant:
            yield _lacks("W007", step, "dependencies", "**Depends on:** #step-1")


def steps_have_commits(plan: Plan) -> Iterator[Diagnostic]:
    """W009: a step ends in a commit, or says that it does not."""
    for step in plan.steps:
        if not any(each.commit and each.commit.text for each in step.family()):
            yield _lacks("W009", step, "Commit line", "**Commit:** `feat: what it does`")


def citations_lead_somewhere(plan: Plan) -> Iterator[Diagnostic]:
    """W011, W012, W013: decisions are cited, and what is cited exists."""
    known = {decision.name for decision in plan.decisions}
    anchors = {anchor.name for anchor in plan.anchors}
    cited: set[str] = set()
    for step in plan.every_step():
        said = step.references
        names = _CITATION.findall(said.text) if said else []
        cited.update(names)
        for name in dict.fromkeys(names):
            if said and name not in known:
                message = f"{short(step.anchor)} cites {short(name)}, which the plan does not have"
                yield Diagnostic("W012", said.line, message, "", step.anchor)
        for anchor in dict.fromkeys(parser.references(said.text) if said else []):
            if said and anchor not in anchors:
                message = (
                    f"{short(step.anchor)} cites #{short(anchor)}, which the plan does not define"
                )
                yield Diagnostic("W013", said.line, message, "", step.anchor)
    for decision in plan.decisions:
        if decision.name not in cited and not decision.is_question:
            message = f"no step cites {decision.name}"
            suggestion = f"add [{decision.name}] to the References of the step it shapes"
            yield Diagnostic("W011", decision.line, message, suggestion, decision.anchor)


def dotted_steps_have_parents(plan: Plan) -> Iterator[Diagnostic]:
    """W014: Step 6.5 without a Step 6."""
    numbers = {step.number for step in plan.steps}
    for step in plan.steps:
        first, dot, _ = step.number.partition(".")
        if dot and first not in numbers:
            message = f"there is a Step {short(step.number)} and no Step {short(first)}"
            yield Diagnostic("W014", step.line, message, "is the number right?", step.anchor)


def plan_is_not_too_long(plan: Plan) -> Iterator[Diagnostic]:
    """I001: a plan that is too long to read."""
    if plan.line_count > LONG_PLAN_LINES:
        message = f"the plan has {plan.line_count} lines"
        yield Diagnostic("I001", 1, message, "would two plans be easier to review?")


def what_the_parser_noticed(plan: Plan) -> Iterator[Diagnostic]:
    """P001 to P007, W006."""
    return iter(plan.diagnostics)


#: Rules without which the execution would break.
LENIENT_RULES: tuple[Rule, ...] = (
    step_anchors_are_well_formed,
    step_anchors_are_unique,
    needs_exist,
    nothing_waits_for_itself,
    there_are_steps,
    needs_are_named,
)

#: The other rules for a good plan.
RULES: tuple[Rule, ...] = (
    other_anchors_are_well_formed,
    other_anchors_are_unique,
    sections_are_there,
    metadata_is_there,
    status_is_known,
    steps_have_references,
    decisions_have_status,
    steps_have_checklists,
    nothing_is_left_to_fill_in,
    later_steps_have_needs,
    steps_have_commits,
    citations_lead_somewhere,
    dotted_steps_have_parents,
    plan_is_not_too_long,
    what_the_parser_noticed,
)
