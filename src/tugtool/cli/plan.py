"""Commands about plans: validate, list, plan new, plan show, plan graph."""

from __future__ import annotations

from tugtool import config, repository
from tugtool.cli.output import Answer
from tugtool.errors import NoSuchStep, PlanInvalid, TugError, Unreadable
from tugtool.plan import catalog, graph, parser, rules
from tugtool.plan.model import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.cli.parse import Call
    from tugtool.plan.catalog import PlanFile
    from tugtool.plan.model import Diagnostic, Passage, Plan, Step
    from tugtool.repository import Repository

    Data = dict[str, object]


def validate(call: Call) -> Answer:
    """Check the named plans, or all of them."""
    repo = repository.discover(call.cwd)
    level = call.text("level") or "normal"
    names = call.words("plan")
    chosen = [catalog.resolve(repo, name, cwd=call.cwd) for name in names]
    limit = _limit(call, repo.root)
    rows: list[Data] = []
    issues: list[Data] = []
    for file in chosen if names else catalog.plans(repo):
        found, plan = _judge(repo, file, level, limit)
        counts = {s: sum(issue["severity"] == s for issue in found) for s in _SEVERITIES}
        issues += found[:MOST_FINDINGS]
        rows.append(
            {
                "plan_path": file.key,
                "valid": not counts["error"],
                "errors": counts["error"],
                "warnings": counts["warning"],
                "infos": counts["info"],
                "left_out": max(0, len(found) - MOST_FINDINGS),
                "steps": len(plan.steps) if plan else None,
            }
        )
    valid = all(row["valid"] for row in rows)
    data = {"level": level, "valid": valid, "plans": rows}

    def text() -> str:
        from tugtool.cli import render

        return render.findings(data, issues)

    return Answer(data, text, issues=issues, status=0 if valid else 1)


def list_plans(call: Call) -> Answer:
    """List the plans, also those that cannot be read."""
    repo = repository.discover(call.cwd)
    limit = _limit(call, repo.root)
    rows: list[Data] = []
    issues: list[Data] = []
    for file in catalog.plans(repo):
        row: Data = {"plan_path": file.key, "slug": file.slug}
        try:
            plan = _parsed(catalog.inside(repo, file), limit)
        except TugError as error:
            issues.append({**error.issue(), "file": file.key})
            reason = error.message.removeprefix(f"{file.key} ")
            row |= {"title": None, "status": None, "counts": None, "error": reason}
        else:
            status = plan.metadata.get("status")
            row |= {
                "title": plan.title,
                "status": status.text if status else None,
                "counts": _counts(plan),
                "error": None,
            }
        rows.append(row)
    data = {"plans": rows}

    def text() -> str:
        from tugtool.cli import render

        return render.plans(data)

    return Answer(data, text, issues=issues)


def plan_new(call: Call) -> Answer:
    """Start a plan from the skeleton."""
    import time

    from tugtool.plan import skeleton

    repo = repository.discover(call.cwd)
    today = time.strftime("%Y-%m-%d")
    file = skeleton.new(repo, call.text("slug") or "", title=call.text("title"), today=today)
    next_command = f"tugcode validate {file.slug}"
    data = {"plan_path": file.key, "file": file.path, "slug": file.slug, "next": next_command}
    said = f"created {file.key}. Fill it in, then: {next_command}\n"
    return Answer(data, lambda: said)


def plan_show(call: Call) -> Answer:
    """Show what the parser understood."""
    file, plan = _one_plan(call)
    anchor = (call.text("step") or "").removeprefix("#")
    steps = plan.steps if not anchor else (_step(plan, anchor, file.key),)
    data: Data = {
        "plan_path": file.key,
        "slug": file.slug,
        "title": plan.title,
        "purpose": _passage(plan.purpose),
        "metadata": {field: value.text for field, value in plan.metadata.items()},
        "lines": plan.line_count,
        "counts": _counts(plan),
        "decisions": [
            {
                "name": decision.name,
                "kind": "question" if decision.is_question else "decision",
                "title": decision.title,
                "status": decision.status,
                "anchor": decision.anchor,
                "line": decision.line,
            }
            for decision in plan.decisions
        ],
        "steps": [_step_data(step) for step in steps],
    }
    issues = [_issue(each, file.key, "normal") for each in plan.diagnostics]

    def text() -> str:
        from tugtool.cli import render

        return render.step(data) if anchor else render.plan(data, issues)

    return Answer(data, text, issues=issues)


def plan_graph(call: Call) -> Answer:
    """Show waves, widest wave and critical path."""
    file, plan = _one_plan(call)
    found = issues_of(plan, file.key, "lenient")
    if found:
        raise PlanInvalid(file.key, diagnostics=found)
    made = graph.build(plan)
    shape = call.text("format") or "text"
    data: Data = {
        "plan_path": file.key,
        "waves": [list(wave) for wave in made.waves],
        "widest_wave": {"wave": made.widest + 1, "steps": len(made.waves[made.widest])},
        "critical_path": list(made.critical_path),
        "steps": [
            {
                "anchor": step.anchor,
                "title": step.title,
                "line": step.line,
                "needs": list(made.needs[step.anchor]),
                "substeps": len(step.substeps),
                "verification_only": step.verification_only,
            }
            for step in made.steps
        ],
    }

    def text() -> str:
        from tugtool.cli import diagram

        return diagram.draw(data, shape)

    if call.json and shape in ("mermaid", "dot"):
        data["diagram"] = text()
    return Answer(data, text)


_SEVERITIES = ("error", "warning", "info")

#: Of one plan; nobody mends more at once, and a plan can hold half a million mistakes.
MOST_FINDINGS = 1000


def _one_plan(call: Call) -> tuple[PlanFile, Plan]:
    repo = repository.discover(call.cwd)
    name = call.text("plan")
    file = catalog.only(repo) if name is None else catalog.resolve(repo, name, cwd=call.cwd)
    return file, _parsed(file, _limit(call, repo.root))


def _parsed(file: PlanFile, limit: int) -> Plan:
    text = catalog.text(file, max_bytes=limit)
    if not text.strip():
        raise Unreadable(file.key, "is empty", hint="tugcode plan new SLUG")
    return parser.parse(text)


def _limit(call: Call, root: str) -> int:
    return call.number("max_bytes") or config.load(root).number("plan.max_bytes")


def issues_of(plan: Plan, file: str, level: str) -> list[Data]:
    """What the rules say about a plan, as entries of `issues`."""
    return [_issue(each, file, level) for each in rules.check(plan, level)]


def _judge(
    repo: Repository, file: PlanFile, level: str, limit: int
) -> tuple[list[Data], Plan | None]:
    try:
        plan = parser.parse(catalog.text(catalog.inside(repo, file), max_bytes=limit))
    except TugError as error:
        return [{**error.issue(), "file": file.key}], None
    return issues_of(plan, file.key, level), plan


def _issue(diagnostic: Diagnostic, file: str, level: str) -> Data:
    issue: Data = {
        "code": diagnostic.code,
        "severity": rules.severity(diagnostic.code, level),
        "message": diagnostic.message,
        "file": file,
        "line": diagnostic.line,
    }
    if diagnostic.suggestion:
        issue["hint"] = diagnostic.suggestion
    if diagnostic.anchor is not None:
        issue["anchor"] = diagnostic.anchor
    return issue


def _counts(plan: Plan) -> Data:
    every = list(plan.every_step())
    kinds = [item.kind for step in every for item in step.items]
    return {
        "steps": len(plan.steps),
        "substeps": len(every) - len(plan.steps),
        **{kind: kinds.count(kind) for kind in KINDS},
        "dependencies": sum(len(step.needs) for step in every),
    }


def _passage(passage: Passage | None) -> str | None:
    return passage.text if passage else None


def _step_data(step: Step) -> Data:
    return {
        "anchor": step.anchor,
        "number": step.number,
        "title": step.title,
        "line": step.line,
        "step_index": step.step_index,
        "parent": step.parent,
        "needs": [{"anchor": need.anchor, "line": need.line} for need in step.needs],
        "depends_on": _passage(step.depends_on),
        "commit": _passage(step.commit),
        "references": _passage(step.references),
        "artifacts": _passage(step.artifacts),
        "rollback": _passage(step.rollback),
        "verification_only": step.verification_only,
        "items": [
            {
                "kind": item.kind,
                "ordinal": item.ordinal,
                "text": item.text,
                "line": item.line,
                "ticked": item.ticked,
            }
            for item in step.items
        ],
        "substeps": [_step_data(substep) for substep in step.substeps],
    }


def _step(plan: Plan, anchor: str, key: str) -> Step:
    known = {step.anchor: step for step in plan.every_step()}
    if anchor in known:
        return known[anchor]
    from tugtool import nearest

    close = nearest.names(anchor, known) or nearest.names(f"step-{anchor}", known)
    raise NoSuchStep(anchor, plan=key, close=close)
