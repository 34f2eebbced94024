"""merge: a done plan comes to its base branch."""

from __future__ import annotations

from tugtool import merge as operation
from tugtool.cli.output import Answer, clean
from tugtool.cli.place import Place, said
from tugtool.errors import listing, quoted
from tugtool.state import hindsight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.cli.parse import Call

    Data = dict[str, Any]


def merge(call: Call) -> Answer:
    """Bring a done plan's branches to its base branch."""
    place = Place(call)
    plan = place.plan()
    # Before it is merged: then it is nobody's question any more.
    issues = _unapproved(place, plan)
    data = operation.merge(
        place.repo,
        place.store,
        plan,
        squash=call.flag("squash"),
        dry_run=call.flag("dry_run"),
        actor=place.owner,
    )
    text = "".join(f"{clean(line)}\n" for line in _lines(data))
    answer = said(data, lambda: text, issues)
    return answer if data["dry_run"] else place.backed_up(answer)


def _unapproved(place: Place, plan: str) -> list[dict[str, object]]:
    """A warning if the auditor, or the integrator, has not approved of the plan."""
    audit = hindsight.audit_of(place.store, plan) if place.store.exists() else None
    if audit is None:
        return []
    message = f"{plan} is done, and not approved as a whole: {audit['summary']}"
    hint = f"tugcode state review {quoted(plan)}"
    return [{"code": "W140", "severity": "warning", "message": message, "hint": hint}]


def _lines(data: Data) -> list[str]:
    plan, base = data["plan_path"], data["base_branch"]
    if data["merged"]:
        head = f"{plan} is merged to {base} as {data['merged_commit']}"
    elif data["conflicts"]:
        head = f"{plan} cannot be merged to {base} as it stands"
    else:
        head = f"{plan} would be merged to {base}{', squashed' if data['squash'] else ''}"
    return [
        head,
        *(f"  {_branch(part)}" for part in data["branches"]),
        *(f"  conflict: {_conflict(each)}" for each in data["conflicts"]),
        *(f"  removed {path}" for path in data["removed_worktrees"]),
        *(f"  left {each['branch_name']}: {each['reason']}" for each in data["left"]),
    ]


def _branch(part: Data) -> str:
    steps = listing(part["steps"]) if part["steps"] else "no steps"
    there = ", is there already" if part["already_contained"] else ""
    count = part["commits"]
    return f"{part['branch_name']}: {count} commit{'s' * (count != 1)}, {steps}{there}"


def _conflict(each: Data) -> str:
    steps = f" (steps {listing(each['steps'])})" if each["steps"] else ""
    return f"{each['branch_name']} in {listing(each['files'])}{steps}"
