"""Plan -> diagnostics. One generator per rule; RULES and LENIENT_RULES list them.

The rules about anchors and dependencies, which the execution needs, are in `execution.py`.

To add a rule: write the generator, put its name in RULES, add `bad.md` and `good.md`
under `tests/plans/<code>/`, and describe the code in `docs/errors.md`.
"""

from __future__ import annotations

import re

from tugtool.plan import draft, execution, graph, markdown, near
from tugtool.plan.model import Diagnostic
from tugtool.plan.near import short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tugtool.plan.model import Plan, Step

    Rule = Callable[[Plan], Iterator[Diagnostic]]

REQUIRED_SECTIONS = ("plan-metadata", "phase-overview", "execution-steps")
REQUIRED_METADATA = ("owner", "status", "last updated")
STATUSES = ("draft", "active", "done")
LONG_PLAN_LINES = 3000

#: Errors by name, warnings by nature.
_MILD_ERRORS = ("E004", "E018")
_SEVERITIES = {"E": "error", "W": "warning", "P": "warning", "I": "info"}

_CITATION = re.compile(r"\[([DQ][A-Z]?\d+[a-z]?)\]")
_NAMED = re.compile(r"\b(?:Spec|Table|Risk|List|Figure|Diagram|Decision|Question|Section)s?\s+\S")
_UNFILLED = ("tbd", "todo", "???", "...", "…")


def check(plan: Plan, level: str) -> list[Diagnostic]:
    """What there is to say about a plan at a level, by line."""
    rules = LENIENT_RULES if level == "lenient" else (*LENIENT_RULES, *RULES)
    found = [diagnostic for rule in rules for diagnostic in rule(plan)]
    return sorted(found, key=lambda each: (each.line, each.code))


def severity(code: str, level: str = "normal") -> str:
    """error, warning or info; at the strict level warnings are errors."""
    mild = "warning" if code in _MILD_ERRORS else _SEVERITIES[code[0]]
    return "error" if level == "strict" and mild == "warning" else mild


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
    """E002: who, in what state, and how old."""
    for field in REQUIRED_METADATA:
        value = plan.metadata.get(field)
        if value is None or not value.text:
            yield Diagnostic(
                "E002",
                value.line if value else _metadata_line(plan),
                f"the metadata lack {field.capitalize()}",
                f"add a row to the table under {{#plan-metadata}}: | {field.capitalize()} | ... |",
            )


def _metadata_line(plan: Plan) -> int:
    return next((a.line for a in plan.anchors if a.name == "plan-metadata"), 1)


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
            if each.text and not _cites_something(each.text):
                yield Diagnostic(
                    "E018",
                    each.line,
                    f'{short(step.anchor)} has vague references: "{short(each.text)}"',
                    "cite decisions like [D01], things like Spec S01, or anchors like #context",
                    step.anchor,
                )


def _cites_something(text: str) -> bool:
    return bool(_CITATION.search(text) or draft.references(text) or _NAMED.search(text))


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
    """W006: values that only hold a place; the parser finds the `<placeholders>`."""
    passages = [*plan.metadata.values(), *([plan.purpose] if plan.purpose else [])]
    for step in plan.every_step():
        passages += [each for each in (step.commit, step.references) if each]
        found = _placeholder_in_code(step.commit.text) if step.commit else None
        if step.commit and found:
            message = f"the placeholder {short(found)} is still there"
            yield Diagnostic("W006", step.commit.line, message, "replace it", step.anchor)
    for passage in passages:
        if passage.text.strip("`*_ ").casefold() in _UNFILLED:
            message = f'the placeholder "{passage.text}" is still there'
            yield Diagnostic("W006", passage.line, message, "replace it")


def _placeholder_in_code(text: str) -> str | None:
    # A commit line is between backticks, and still to be filled in; what is outside them
    # the parser has told.
    outside = near.placeholder(markdown.mask_code(text))
    return None if outside else near.placeholder(text)


def later_steps_have_needs(plan: Plan) -> Iterator[Diagnostic]:
    """W007: a step that waits for nothing starts at once; is that meant?"""
    waits = graph.folded(plan)
    for step in plan.steps[1:]:
        if not waits[step.anchor] and not step.needs:
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
        for anchor in dict.fromkeys(draft.references(said.text) if said else []):
            if said and anchor not in anchors:
                message = (
                    f"{short(step.anchor)} cites #{short(anchor)}, which is no anchor of the plan"
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
    """I001: a plan that nobody will read."""
    if plan.line_count > LONG_PLAN_LINES:
        message = f"the plan has {plan.line_count} lines"
        yield Diagnostic("I001", 1, message, "would two plans be easier to review?")


def what_the_parser_noticed(plan: Plan) -> Iterator[Diagnostic]:
    """P001 to P007, W006."""
    return iter(plan.diagnostics)


#: What would break the execution.
LENIENT_RULES: tuple[Rule, ...] = (
    execution.step_anchors_are_well_formed,
    execution.step_anchors_are_unique,
    execution.needs_exist,
    execution.nothing_waits_for_itself,
    execution.there_are_steps,
    execution.needs_are_named,
)

#: What else a good plan has.
RULES: tuple[Rule, ...] = (
    execution.other_anchors_are_well_formed,
    execution.other_anchors_are_unique,
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
