"""The commands of people, and of whoever looks: init, ready, show, release, reset, reopen, ..."""

from __future__ import annotations

from tugtool import files, state
from tugtool.cli.output import Answer, clean
from tugtool.cli.place import Place, said
from tugtool.errors import Unreadable, Usage, quoted
from tugtool.plan import catalog, fingerprint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.cli.parse import Call

    Data = dict[str, object]


def state_init(call: Call) -> Answer:
    """Record a plan."""
    from tugtool import init as setup
    from tugtool.cli.plan import issues_of
    from tugtool.errors import PlanInvalid
    from tugtool.plan import parser

    place = Place(call)
    file = catalog.resolve(place.repo, call.text("plan") or "", cwd=call.cwd)
    limit = call.number("max_bytes") or place.settings.number("plan.max_bytes")
    data = files.read(file.path, max_bytes=limit, raise_with="--max-bytes N")
    text = files.text(file.path, data)
    parsed = parser.parse(text)
    level = place.settings.word("plan.validation_level")
    issues = issues_of(parsed, file.key, level)
    if any(issue["severity"] == "error" for issue in issues):
        raise PlanInvalid(file.key, diagnostics=issues)
    setup.ignore_state(place.repo)
    done = state.init(place.store, file.key, parsed, text=text, hash=fingerprint.of(data))
    what = "was recorded before" if done["already_initialized"] else "is recorded"
    changed = "; its file has changed since" if done["drift"] else ""
    said = f"{file.key} {what}: {len(parsed.steps)} steps{changed}\n"
    return Answer(done, lambda: clean(said[:-1]) + "\n", issues=issues)


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


def state_release(call: Call) -> Answer:
    """Give a claim back."""
    if call.flag("force") and call.text("worktree") is not None:
        problem = "--force and --worktree exclude each other: force asks for no owner"
        raise Usage(problem, command="state release")
    reason = (call.text("reason") or "").strip() or None
    if call.flag("park") != (reason is not None):
        raise Usage("--park and --reason TEXT go together", command="state release")
    place = Place(call)
    plan = place.plan()
    data = state.release(
        place.store,
        plan,
        place.step(),
        owner=place.owner,
        attempt=place.attempt(plan),
        force=call.flag("force"),
        park_reason=reason,
    )
    return said(data, f"{'parked' if reason else 'released'} {data['anchor']}")


def state_reset(call: Call) -> Answer:
    """Take a step from whoever holds it."""
    place = Place(call)
    data = state.reset(place.store, place.plan(), place.step(), actor=place.owner)
    word = "reset" if data["reset"] else "unparked" if data["unparked"] else "nothing to reset:"
    return said(data, f"{word} {data['anchor']}")


def state_reopen(call: Call) -> Answer:
    """Send a completed step back."""
    reason = call.text("reason") or ""
    if not reason.strip():
        raise Usage("reopen needs --reason TEXT", command="state reopen")
    place = Place(call)
    data = state.reopen(
        place.store,
        place.plan(),
        place.step(),
        reason=reason,
        force=call.flag("force"),
        actor=place.owner,
    )
    return said(data, f"reopened {data['anchor']}")


def state_pause(call: Call) -> Answer:
    """Let nothing new be claimed."""
    place = Place(call)
    data = state.pause(place.store, place.plan(), actor=place.owner)
    return said(data, f"{data['plan_path']} is paused")


def state_resume(call: Call) -> Answer:
    """Let steps be claimed again."""
    place = Place(call)
    data = state.resume(place.store, place.plan(), actor=place.owner)
    return said(data, f"{data['plan_path']} goes on")
