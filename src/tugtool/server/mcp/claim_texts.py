"""The texts of claim and release: a step with all about it, or why there is none."""

from __future__ import annotations

from tugtool.errors import listing, plan_name
from tugtool.server.mcp.guide import spelled
from tugtool.server.mcp.texts import (
    ENDS,
    LONGEST_LINE,
    MOST_BYTES,
    ROOM,
    StepPage,
    cut,
    end_of_plan,
    fitting,
    size,
)
from tugtool.system import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from tugtool.server.mcp.guide import Guide
    from tugtool.workflow.workspace import Workspace

    Data = Mapping[str, Any]


def claimed(
    space: Workspace, data: Data, notes: Sequence[str], guide: Guide, *, has_files: bool
) -> str:
    """A claimed step with all that its worker has to know."""
    from tugtool.workflow import workspace

    plan, anchor, attempt = data["plan_path"], data["anchor"], data["attempt"]
    own = [each["message"] for each in workspace.main_worktree_warning(space)]
    held: dict[str, object] = {"step": anchor, "attempt": attempt}
    head = [
        f"claimed {anchor} (attempt {attempt}): {data['step_title']}",
        f"plan: {plan_name(plan)}; worktree: {data['worktree']}",
        *notes,
        *(each for each in data["notes"] if each not in own),
        *(_in_main(plan_name(plan), held) if own and guide.commits else ()),
        *_before(data, has_files=has_files),
        "text of the step, from the plan:",
    ]
    last = guide.last_line(anchor, attempt, in_main=bool(own) and guide.commits)
    lines = StepPage(space, plan, anchor)
    again = spelled("show", plan=plan_name(plan), step=anchor, view="step")
    body = [*lines.text(), "", *lines.items()]
    shown = fitting(head, MOST_BYTES // 2)
    rest = fitting(body, MOST_BYTES - ROOM - size("\n".join([*shown, last])))
    more = len(body) - len(rest)
    told = [f"{more} more lines: {again[:-1]}, after={len(rest)})"] if more else []
    return "\n".join([*shown, *rest, *told, last])


def _in_main(name: str, held: dict[str, object]) -> Iterator[str]:
    """Say what is different in the main worktree, and the way to another."""
    back = spelled("release", **held, reason="this is the main worktree")
    there = spelled("claim", plan=name, worktree="the path that it prints")
    yield (
        "this is the main worktree, where nothing is committed for you: complete without a "
        "message, or with the commit that you made"
    )
    yield (
        f"to have commits: {back}, then in a shell tugcode worktree create {name} --new, "
        f"then {there}"
    )


def _before(data: Data, *, has_files: bool) -> Iterator[str]:
    """The work that the last attempt left, and the commands that bring it back."""
    before = data["previous_attempt"]
    if data["replayed"]:
        yield f"you hold it already: this is attempt {data['attempt']} as before"
    if before is None:
        return
    ended = ENDS.get(before["outcome"], before["outcome"])
    if before["outcome"] == "superseded" and before["worktree"] == data["worktree"]:
        ended = f"your worktree claimed again; from now on send attempt={data['attempt']}"
    yield f"attempt {before['number']} by {before['worktree']} ended: {ended}"
    again = before["reopened"]
    if again:
        yield f"it was sent back by {again.get('by')}: {again.get('reason') or again.get('note')}"
    for each in before["artifacts"][-5:]:
        yield cut(f"  {each['kind']}: {each['summary']}", 300)
    if before["recover"] and has_files:
        # It would meet the files that are there, which may have it already.
        refs = [each.rpartition(" ")[2] for each in before["recover"][:5]]
        yield f"of earlier attempts there is also: {listing(refs)}; your files may have it already"
    elif before["recover"]:
        yield "to go on with what it left, run in a shell, in your worktree:"
        yield from (f"  {each}" for each in before["recover"][:5])


_REASONS = {
    "paused": "the plan is paused",
    "all_completed": "every step is completed",
    "no_ready_steps": "no step is ready",
}


def nothing(space: Workspace, data: Data, guide: Guide, notes: Sequence[str] = ()) -> str:
    """Why there is no step, and what to do about it."""
    plan = plan_name(data["plan_path"])
    lines = [
        f"claimed: false, {data['reason']}: {_REASONS[data['reason']]}",
        f"plan: {plan}; {text.many(data['total_remaining'], 'step')} left",
        *notes,
    ]
    if data["reason"] == "paused":
        return "\n".join([*lines, *_paused(space, data["plan_path"], guide)])
    held = [f"{each['anchor']} by {each['owner']}" for each in data["held_steps"]]
    if held:
        lines.append(f"held: {listing(held)}")
    waiting = [f"{anchor} for {listing(on, 3)}" for anchor, on in data["waiting_for"].items()]
    if waiting:
        lines.append(f"waiting: {listing(waiting)}")
    if data["parked_steps"]:
        lines.append(f"parked until a person looks: {listing(data['parked_steps'])}")
    again = guide.call("claim", plan=plan, wait_seconds=50)
    if data["reason"] == "all_completed":
        lines.append(f"next: stop; {end_of_plan(plan)}")
    elif not held and data["parked_steps"]:
        lines.append("next: stop, and tell the person; until then no step becomes ready")
    else:
        lines.append(f"next: {again}")
    return "\n".join(lines)


def _paused(space: Workspace, plan: str, guide: Guide) -> Iterator[str]:
    """Say who paused the plan, why, and who lets it go on."""
    from tugtool import state

    shown: Any = state.show(space.store, plan)
    by = f" by {shown['paused_by']}" if shown["paused_by"] else ""
    why = f": {shown['paused_reason']}" if shown["paused_reason"] else ", without a reason"
    yield cut(f"paused{by} since {shown['paused_at']}{why}", LONGEST_LINE)
    name = plan_name(plan)
    if "steer" in guide.tools:
        call = spelled("steer", plan=name, action="resume", reason="...")
        yield f"next: {call}, if the person says so"
        return
    yield f"a person lets it go on: tugcode resume {name}"
    again = guide.call("claim", plan=name, wait_seconds=50)
    yield f"next: stop, and tell the person; if you were told to wait: {again}"


def released(data: Data, warnings: Sequence[str], guide: Guide, *, clean: bool) -> str:
    """A step that was given back."""
    verb = "parked" if data["parked"] else "released"
    ref, plan = data["salvage_ref"], plan_name(data["plan_path"])
    kept = f"; your uncommitted files are saved for the next worker as {ref}" if ref else ""
    kept += ", and your worktree is clean" if clean else ""
    said = f"{verb} {data['anchor']}{kept}; next: {guide.call('claim', plan=plan)}"
    return "\n".join([said, f"plan: {plan}", *warnings])
