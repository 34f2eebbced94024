"""The commands of whoever looks: ready, show."""

from __future__ import annotations

from tugtool import state
from tugtool.cli.output import Answer, clean
from tugtool.cli.place import Place, said
from tugtool.errors import Unreadable, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.cli.parse import Call

    Data = dict[str, object]


def state_ready(call: Call) -> Answer:
    """List the steps by what can be done with them."""
    place = Place(call)
    data = state.ready(place.store, place.plan())

    def text() -> str:
        rows = [(name, names) for name, names in data.items() if isinstance(names, list)]
        return "".join(f"{name:<16} {clean(' '.join(names) or '-')}\n" for name, names in rows)

    return Answer(data, text)


def state_show(call: Call) -> Answer:
    """Show how far a plan is."""
    place = Place(call)
    named = call.text("plan") is not None
    if not named and not place.store.exists():
        return Answer({"plans": []}, lambda: "no plan has a state yet\n")
    data = state.show(place.store, place.plan() if named else None)
    plans = data.get("plans", [data])
    assert isinstance(plans, list)
    issues = [issue for plan in plans for issue in _drift(place, plan)]
    return said(data, lambda: "".join(_plan_text(plan) for plan in plans), issues)


def _drift(place: Place, plan: Data) -> list[Data]:
    """A warning if the plan's file is not the one whose execution is shown."""
    file, agreed = str(plan["plan_path"]), plan["plan_hash"]
    try:
        found = place.copy(file).now()
    except Unreadable:
        found = None
    if found == agreed:
        return []
    happened, now = ("been modified", found) if found else ("gone", "none, it cannot be read")
    message = (
        f"Plan file has {happened} since state was initialized.\n"
        f"State tracks execution of the original plan (hash: {agreed}).\n"
        f"Current file hash: {now}"
    )
    hint = f"tugcode validate {quoted(file)}"
    return [{"code": "W102", "severity": "warning", "message": message, "hint": hint, "file": file}]


def _plan_text(plan: Data) -> str:
    paused = f", paused since {plan['paused_at']}" if plan["paused_at"] else ""
    lines = [
        f"{plan['plan_path']} [{plan['status']}{paused}] "
        f"{plan['completed_steps']}/{plan['total_steps']} steps completed"
    ]
    steps = plan["steps"]
    assert isinstance(steps, list)
    lines += [f"  {s['anchor']}: {s['title']} [{s['status']}]{_remarks(s)}" for s in steps]
    return "".join(f"{clean(line)}\n" for line in lines)


def _remarks(step: Data) -> str:
    """What a person must not overlook: who holds it, that it waits for them, that it was forced."""
    remarks = []
    if step["claimed_by"]:
        remarks.append(f"claimed by {step['claimed_by']}")
    if step["parked_at"]:
        remarks.append(f"parked: {step['park_reason']}")
    if step["complete_reason"]:
        remarks.append(f"forced: {step['complete_reason']}")
    return f" ({'; '.join(remarks)})" if remarks else ""
