"""A plan that has not begun: what is in its file, and how it begins."""

from __future__ import annotations

from tugtool import errors
from tugtool.errors import TugError, listing, plan_argument, plan_name
from tugtool.server.mcp import texts
from tugtool.server.mcp.guide import spelled
from tugtool.system import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from tugtool.plan.model import Plan, Step
    from tugtool.server.mcp.session import ToolSession

    Given = Mapping[str, Any]
    Outcome = tuple[str, Mapping[str, object]]


def how_to_begin(plan: str | None, *, works: bool = True) -> list[str]:
    """Say how a plan begins: a worktree of its own, which only a shell can make."""
    name = "PLAN" if plan is None else plan_argument(plan)
    lines = [
        f"to begin, in a shell: tugcode worktree create {name} --new (it records the plan, and "
        "makes a worktree for a worker)"
    ]
    if works:
        given = {"plan": None if plan is None else plan_name(plan)}
        call = spelled("claim", **given, worktree="the path that it prints")
        lines.append(f"then start your client in that worktree, or: {call}")
    return lines


def show_unbegun(
    session: ToolSession, given: Given, error: errors.PlanNotInitialised
) -> Outcome | None:
    """Return the answer of `show` for a plan without a record; None if it is unclear which."""
    if not session.is_local:
        return None  # A token may be for other plans only.
    named = error.facts.get("plan")
    plan = str(named) if named is not None else _only_one(session)
    if plan is None:
        return None
    from tugtool.plan import catalog, parser

    space = session.space()
    most = space.settings.number("plan.max_bytes")
    try:
        file = catalog.inside(space.repo, catalog.resolve(space.repo, plan, cwd=space.repo.root))
        whole = catalog.plan_text(file, max_bytes=most)
    except TugError:
        return None
    parsed = parser.parse(whole)
    lines = list(_lines(file.key, parsed, given, whole, works="claim" in session.tools))
    again = spelled("show", plan=plan_name(file.key), view=given.get("view"))
    first = f"plan: {plan_name(file.key)}"
    page = texts.page_of(lines, again, after=given.get("after", 0), first=first)
    steps = [each.anchor for each in parsed.steps]
    return page, {"plan_path": file.key, "begun": False, "steps": steps}


def with_name(session: ToolSession, error: TugError) -> TugError:
    """The refusal; if no plan has begun and there is only one, with the name of that."""
    if isinstance(error, errors.PlanNotInitialised) and error.facts.get("plan") is None:
        plan = _only_one(session) if session.is_local else None
        return error if plan is None else errors.PlanNotInitialised(plan)
    return error


def _only_one(session: ToolSession) -> str | None:
    """The only plan of the repository, if none has begun."""
    from tugtool.state import record
    from tugtool.workflow import records

    space = session.space()
    known = record.plans(space.store) if space.store.exists() else {}
    found = records.unrecorded(space.repo, known)
    return found[0].key if len(found) == 1 and not known else None


def _lines(key: str, parsed: Plan, given: Given, whole: str, *, works: bool) -> Iterator[str]:
    many = len(parsed.steps)
    yield f"{parsed.title or plan_name(key)}: not begun, {text.many(many, 'step')}"
    step = next((each for each in parsed.every_step() if each.anchor == given.get("step")), None)
    if step is not None:
        from tugtool.plan import parser

        yield from ("", *parser.section(whole, parsed, step).split("\n"), "")
    else:
        yield from (_step(each) for each in parsed.steps)
    yield from how_to_begin(key, works=works)


def _step(step: Step) -> str:
    """One line: the anchor, the title, what it has, and what it depends on."""
    items = [item.kind for each in step.family() for item in each.items]
    kinds = [text.many(items.count(kind), kind) for kind in dict.fromkeys(items)]
    needs = list(dict.fromkeys(need.anchor for each in step.family() for need in each.needs))
    said = f"  {step.anchor}: {step.title}"
    said += f" ({', '.join(kinds)})" if kinds else ""
    return said + (f"; depends on {listing(needs)}" if needs else "")
