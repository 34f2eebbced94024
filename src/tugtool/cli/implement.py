"""implement: parse, put a run together, show how it goes."""

from __future__ import annotations

import os
import sys

from tugtool import config
from tugtool.cli.output import Answer, Stream, clean
from tugtool.cli.place import Place
from tugtool.errors import BadSetting, PlanInvalid, Usage, quoted
from tugtool.implement import casting
from tugtool.implement.run import Run, Terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tugtool.cli.parse import Call
    from tugtool.implement.casting import Part
    from tugtool.store import Store
    from tugtool.worktree.making import Order

    Data = dict[str, Any]

#: Each is a thread, a database connection and a worktree.
MOST_WORKERS = 64


def implement(call: Call) -> Answer | Stream:
    """Carry a plan out, or show how that would be done."""
    from tugtool.cli import worktree

    workers = call.number("workers")
    if workers is not None and not 0 < workers <= MOST_WORKERS:
        raise Usage(f"--workers must be from 1 to {MOST_WORKERS}", command="implement")
    place = Place(call)
    order, _ = worktree.order_of(call, place)
    _refuse_unfilled(order)
    parts = casting.parts(place.settings)
    terms = _terms(call, place)
    if call.flag("dry_run"):
        data = _rehearsed(place, order, parts, terms)
        return Answer(data, lambda: _shown(data))
    return _conducted(call, place, order, parts, terms)


def _refuse_unfilled(order: Order) -> None:
    """A skeleton is valid, and nobody means it to be carried out."""
    from tugtool.cli.plan import issues_of

    titles = {step.line: step.title.strip() for step in order.parsed.every_step()}
    blank = [line for line, title in titles.items() if title[:1] == "<" and title[-1:] == ">"]
    if blank:
        found = issues_of(order.parsed, order.file.key, "normal")
        told = [issue for issue in found if issue.get("line") in blank]
        errors = [{**issue, "severity": "error"} for issue in told]
        raise PlanInvalid(order.file.key, diagnostics=errors)


def _conducted(
    call: Call, place: Place, order: Order, parts: Mapping[str, Part], terms: Terms
) -> Stream:
    from tugtool.cli import conducting
    from tugtool.implement import fleet

    conductor = conducting.Conductor(call.json)
    run = Run(
        place.repo,
        order,
        parts,
        terms,
        open_store=lambda: _opened(call),
        tell=conductor.tell,
        ask=conductor.ask,
    )
    fleet.prepare(run, place.store)
    return conductor.stream(run, call)


def _opened(call: Call) -> Store:
    return Place(call).store


def _workers(call: Call, place: Place) -> int:
    asked = call.number("workers")
    if asked is not None:
        return asked
    key = "implement.workers"
    number = place.settings.number(key)
    if number > MOST_WORKERS:
        problem = f"{key} is {number}, and must be at most {MOST_WORKERS}"
        raise BadSetting(place.settings.file or config.CONFIG_PATH, problem, key=key)
    return number


def _terms(call: Call, place: Place) -> Terms:
    number = place.settings.number
    return Terms(
        workers=_workers(call, place),
        lease_seconds=number("implement.lease_seconds"),
        review_rounds=number("implement.review_rounds"),
        budget_tokens=number("implement.budget_tokens"),
        max_attempts=number("state.max_attempts"),
        log_max_lines=number("log.max_lines"),
        log_max_bytes=number("log.max_bytes"),
        unattended=call.json or call.flag("unattended") or not _is_attended(),
    )


def _is_attended() -> bool:
    streams = (sys.stdin, sys.stdout)
    return all(stream is not None and stream.isatty() for stream in streams)


def _rehearsed(place: Place, order: Order, parts: Mapping[str, Part], terms: Terms) -> Data:
    """What would be done; nothing is changed to find out."""
    from tugtool.implement import rehearsing

    rehearsing.refuse(place.repo, place.store, order)
    return {
        "event": "dry_run",
        "plan_path": order.file.key,
        "workers": terms.workers,
        "lease_seconds": terms.lease_seconds,
        "review_rounds": terms.review_rounds,
        "budget_tokens": terms.budget_tokens,
        "agents": rehearsing.agents(parts),
        **rehearsing.standing(place.store, order),
        **rehearsing.outlook(place.repo, place.store, order, terms),
    }


def _shown(data: Mapping[str, Any]) -> str:
    limits = f"{_number(data['workers'], 'worker')}, leases of {data['lease_seconds']} s"
    rounds = _number(data["review_rounds"], "review round")
    lines = [f"{data['plan_path']}: {limits}, {rounds}{_budget(data)}"]
    if data["paused"]:
        plan = quoted(data["plan_path"])
        lines.append(f"it is paused, and nothing is begun before: tugcode state resume {plan}")
    if data["done"]:
        lines.append("every step is done; what is left are the auditor and the integrator, if any")
    for agent in data["agents"]:
        if agent["command"] is None:
            lines.append(f"{agent['role']}: nobody, left out")
            continue
        lines.append(f"{agent['role']}: {' '.join(agent['command'])}")
        env = f", with {', '.join(agent['env'])}" if agent["env"] else ""
        tries = _number(agent["tries"], "try", "tries")
        lines.append(f"    {agent['timeout_seconds']} s, {tries}{env}")
    lines += [f"worktree {os.path.basename(path)}, reused" for path in data["reused_worktrees"]]
    if data["new_worktrees"]:
        lines.append(f"up to {_number(data['new_worktrees'], 'new worktree')}")
    lines += [f"{each['step_anchor']}: {each['title']} ({each['status']})" for each in data["todo"]]
    return "".join(clean(line) + "\n" for line in lines)


def _budget(data: Mapping[str, Any]) -> str:
    budget, used = data["budget_tokens"], data["tokens"]
    if not budget:
        return ""
    spent = f"used up: {used}" if used >= budget else f"of which {used} are used"
    return f", a budget of {budget} tokens" + (f", {spent}" if used else "")


def _number(count: int, word: str, many: str = "") -> str:
    return f"{count} {word}" if count == 1 else f"{count} {many or word + 's'}"
