"""The tools: each turns its arguments into a command, and the answer into a short text."""

from __future__ import annotations

from tugtool import errors
from tugtool.errors import TugError, listing, plan_name
from tugtool.server.mcp import claims, refusals, texts, unbegun
from tugtool.server.mcp.arguments import check_arguments, cleaned
from tugtool.server.mcp.commands import in_calls, plan_key, run_command
from tugtool.server.mcp.guide import OF_HOLDERS, Guide, spelled
from tugtool.server.mcp.session import TOOLS, Cancelled
from tugtool.system import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from tugtool.server.mcp.session import ToolSession

    Data = dict[str, Any]
    Given = Mapping[str, Any]
    #: What a tool answers: its text, and the data behind it.
    Outcome = tuple[str, Mapping[str, object]]


#: A picture of a plan names the anchors of so many steps.
_MOST_ANCHORS = 40


def run_tool(session: ToolSession, known: Sequence[Data], name: str, given: Data) -> Data:
    """Run a tool. Return its result; a refusal is a result as well."""
    given = cleaned(given)
    held = session.held(given) if name in ("claim", *OF_HOLDERS) else None
    try:
        schema = _schema(known, name, session)
        if session.plan is not None and "plan" in schema["properties"]:
            given.setdefault("plan", session.plan)
        check_arguments(name, schema, given)
        if held is not None and held.worktree and held.anchor == given.get("step"):
            # The worktree that was named for the claim.
            given.setdefault("worktree", held.worktree)
        said, data = RUNNERS[name](session, given)
        failed = False
    except Cancelled:
        raise
    except TugError as refusal:
        error = with_close_step(session, unbegun.with_name(session, refusal))
        if refusals.is_lost(error, name) and "plan" in error.facts:
            session.ended(str(error.facts["plan"]), str(given.get("step")), given.get("attempt"))
        said = refusals.told(error, name, given, guide=session.guide(given), held=held)
        data, failed = {"issues": error.issues()}, True
    except Exception as error:
        said, data, failed = refusals.told_bug(error), {}, True
    result: Data = {"content": [{"type": "text", "text": texts.cut(said)}], "isError": failed}
    if session.structured:
        result["structuredContent"] = data
    return result


def with_close_step(session: ToolSession, error: TugError) -> TugError:
    """The refusal; of a step that does not exist, with the one whose title was meant."""
    plan, word = error.facts.get("plan"), error.facts.get("anchor")
    if not isinstance(error, errors.NoSuchStep) or error.facts.get("close"):
        return error
    from tugtool import state

    try:
        shown: Any = state.show(session.space().store, str(plan))
    except TugError:
        return error
    titles = {each["title"].lower(): each["anchor"] for each in shown["steps"]}
    anchors = [each["anchor"] for each in shown["steps"]]
    close = [titles[each] for each in text.names(str(word).lower(), titles)]
    close = close or text.names(str(word), anchors)
    return errors.NoSuchStep(str(word), plan=str(plan), close=close[:1])


#: The role of a tool -> who has it.
_WHOSE = {
    "worker": "it belongs to workers",
    "operator": "it belongs to people, who have it in a terminal, or in their assistant",
}


def _schema(known: Sequence[Data], name: str, session: ToolSession) -> Data:
    for each in known:
        if each["name"] == name:
            found: Data = each["inputSchema"]
            return found
    names, problem = [each["name"] for each in known], f"there is no tool {name[:100]}"
    for role, has in TOOLS.items():
        if name in has:
            raise errors.Usage(f"{problem} for a {session.role}: {_reason(session, role)}")
    close = text.names(name, names)
    raise errors.Usage(problem if close else f"{problem}: {', '.join(names)}", close=close)


def _reason(session: ToolSession, role: str) -> str:
    """Say why a caller lacks a tool; `role` is the smallest that has it."""
    if session.role == role:
        return "the commands of checkpoints are yours to run, in your worktree; update what passed"
    whose = _WHOSE[role]
    if session.is_local:
        whose += f" by `tugcode mcp --role {role}`"
    else:
        whose += f"; your token decides, and its role is {session.role}"
    return f"{whose}; tell the person" if role == "operator" else whose


def _status(session: ToolSession, given: Given) -> Outcome:
    """All plans at a glance."""
    if session.only_plan is not None:
        # The caller may see no other plan.
        return _shown(session, {}, session.only_plan, "summary")
    answer = run_command(session, "status", given, all=given.get("all", False))
    said, data = in_calls(answer.text(), session.tools), answer.data
    plans: Any = data["plans"]
    for name in (plan_name(each["plan_path"]) for each in plans if not each["recorded"]):
        # It has to begin first, and `show` says how.
        said = said.replace(spelled("claim", plan=name), spelled("show", plan=name))
    return texts.single_page(said, "status()"), data


def _show(session: ToolSession, given: Given) -> Outcome:
    """One view of a plan or a step; of a plan that has not begun, what is in it."""
    step = given.get("step")
    view = given.get("view", "summary" if step is None else "step")
    if view in ("step", "why") and not step:
        raise errors.Usage(f'view "{view}" needs a step')
    try:
        plan = plan_key(session, given)
        return _shown(session, given, plan, view)
    except errors.PlanNotInitialised as error:
        shown = unbegun.show_unbegun(session, given, error)
        if shown is None:
            raise
        return shown


def _shown(session: ToolSession, given: Given, plan: str, view: str) -> Outcome:
    step = given.get("step")
    again = spelled("show", plan=plan_name(plan), step=step, view=view)
    if view == "log":
        return texts.log_page(session.space(), plan, given)
    if view == "step":
        page = texts.StepPage(session.space(), plan, str(step))
        lines, data = page.lines(), page.data
    else:
        command, which = _view(view, plan, step)
        answer = run_command(session, command, given, *which)
        said = in_calls(answer.text(), session.tools)
        lines, data = said.splitlines(), dict(answer.data)
        if view == "summary":
            lines = _summary(session, plan, lines, data)
    first = f"plan: {plan_name(plan)}"
    if given.get("limit") is not None:
        how: Any = {"most_lines": given["limit"]}
    else:
        how = {}
    return texts.page_of(lines, again, after=given.get("after", 0), first=first, **how), data


def _summary(session: ToolSession, plan: str, lines: list[str], data: Data) -> list[str]:
    """The picture of a plan with the anchors of its steps, and no call that leads back to it."""
    from tugtool.state import standings

    name, space = plan_name(plan), session.space()
    held = [
        e["step_anchor"]
        for e in standings.holders(space.store, plan)
        if e["worktree"] == space.owner
    ]
    what = session.guide({}).call("claim", plan=name, wait_seconds=50)
    if held:
        what = spelled("show", plan=name, step=held[0], view="step")
    elif "claim" not in session.tools:
        what = "status()"
    lines = [line.replace(f"Next: {spelled('show', plan=name)}", f"Next: {what}") for line in lines]
    anchors = listing([each["anchor"] for each in data["steps"]], _MOST_ANCHORS)
    return [*lines, f"anchors: {anchors}"]


def _view(view: str, plan: str, step: str | None) -> tuple[str, list[str]]:
    commands = {
        "summary": "state show",
        "why": "state why",
        "graph": "plan graph",
        "stats": "state stats",
        "diff": "state diff",
    }
    return commands[view], [plan, str(step)] if view == "why" else [plan]


def _update(session: ToolSession, given: Given) -> Outcome:
    """Set items; without entries it is a sign of life."""
    plan, step = plan_key(session, given), given["step"]
    entries, rest = given.get("entries", []), given.get("complete_remaining", False)
    how: Data = {"attempt": given["attempt"]}
    if not entries and not rest:
        data: Any = run_command(session, "state heartbeat", given, plan, step, **how).data
        said = f"renewed {data['anchor']} until {data['lease_expires_at']}"
        return _with_open(session, given, said, data), data
    how |= {"batch": True, "complete_remaining": rest}
    batch = text.encode(entries).encode()
    answer = run_command(session, "state update", given, plan, step, **how, standard_input=batch)
    data = answer.data
    said = f"updated {text.many(data['updated'], 'item')} of {data['anchor']}"
    notes = [str(each["message"]) for each in answer.issues]
    silent = [{**each, "reason": "..."} for each in entries if _is_silent(each)]
    if silent and answer.issues:
        held = {"step": step, "attempt": given["attempt"]}
        again = session.guide(given).call("update", **held, entries=silent[:3])
        notes.append(f"to say why: {again}")
    return _with_open(session, given, said, data, notes), data


def _is_silent(entry: Data) -> bool:
    """True for a deferral without a reason."""
    return entry["status"] == "deferred" and not str(entry.get("reason", "")).strip()


def _with_open(
    session: ToolSession, given: Given, said: str, data: Data, notes: Sequence[str] = ()
) -> str:
    """The sentence, the items that are still open, and what comes next."""
    page = texts.StepPage(session.space(given.get("worktree")), data["plan_path"], data["anchor"])
    return texts.progress(page, said, given["attempt"], session.guide(given), notes)


def _verify(session: ToolSession, given: Given) -> Outcome:
    """Run the commands of the checkpoints."""
    plan, dry_run = plan_key(session, given), given.get("dry_run", False)
    answer = run_command(
        session,
        "state verify",
        given,
        plan,
        given["step"],
        attempt=given["attempt"],
        ordinal=given.get("ordinals"),
        timeout=given.get("timeout_seconds"),
        dry_run=dry_run,
        yes=True,
    )
    data: Any = answer.data
    said = texts.single_page(answer.text(), spelled("show", plan=plan_name(plan), view="log"))
    return (said if dry_run else _with_open(session, given, said.rstrip("\n"), data)), data


def _complete(session: ToolSession, given: Given) -> Outcome:
    """Complete the step, with a commit of what lies in the worktree if there is a message."""
    message, commit = given.get("message"), given.get("commit")
    if message is not None and commit is not None:
        raise errors.Usage("complete takes message or commit, not both")
    plan, step = plan_key(session, given), given["step"]
    how: Data = {"attempt": given["attempt"]}
    if message is not None:
        how |= {"plan": plan, "step": step, "message": message, "summary": given.get("summary")}
        data: Any = run_command(session, "commit", given, **how, strict=True).data
        if data["state_update_failed"]:
            return texts.uncompleted(data, given, session.guide(given)), data
    else:
        data = claims.complete_as_it_is(session, given, plan)
        if given.get("summary") and not data["already_completed"]:
            how = {"kind": "note", "summary": given["summary"]}
            run_command(session, "state artifact", given, plan, data["anchor"], **how)
    session.ended(plan, data["anchor"])
    return _finished(session, given, data), data


def _finished(session: ToolSession, given: Given, data: Data) -> str:
    """The text about a completed step, with the checkpoints that nothing proves."""
    guide = session.guide(given)
    page = texts.StepPage(session.space(given.get("worktree")), data["plan_path"], data["anchor"])
    none = Guide(("show",))
    return "\n".join([texts.completed(data, guide), *texts.unproven(page, 0, none)])


def _note(session: ToolSession, given: Given) -> Outcome:
    """Leave a note."""
    plan, content = plan_key(session, given), given.get("content")
    how: Data = {"attempt": given["attempt"], "kind": given.get("kind", "note")}
    how |= {"summary": given["summary"], "content_file": None if content is None else "-"}
    batch = None if content is None else content.encode()
    answer = run_command(
        session, "state artifact", given, plan, given["step"], **how, standard_input=batch
    )
    data: Any = answer.data
    return f"noted for {data['anchor']} of {plan_name(plan)}", data


def _review(session: ToolSession, given: Given) -> Outcome:
    """List what waits for a person, or settle it."""
    session.refuse_worker("review")
    which = [plan_key(session, given)] if given.get("plan") else []
    verdict = given.get("verdict")
    how = {key: given.get(key) for key in ("step", "kind", "ordinal", "note")}
    if verdict is None:
        how.pop("note")
    elif verdict == "reject" and not (given.get("note") or "").strip():
        raise errors.Usage("reject needs a note: the next worker has to know why")
    else:
        how[verdict] = True
    answer = run_command(session, "state review", given, *which, **how)
    said = in_calls(answer.text(), session.tools)
    return texts.single_page(said, "review()"), answer.data


def _steer(session: ToolSession, given: Given) -> Outcome:
    """Pause, resume, reset, park or reopen."""
    session.refuse_worker("steer")
    action, plan, reason = given["action"], plan_key(session, given), given["reason"]
    of_plan = action in ("pause", "resume")
    if of_plan == bool(given.get("step")):
        needs = "takes no step" if of_plan else "needs a step"
        raise errors.Usage(f"{action} {needs}")
    if not reason.strip():
        raise errors.Usage("the reason is empty")
    which = [plan] if of_plan else [plan, given["step"]]
    if action == "park":
        answer = run_command(
            session, "state release", given, *which, force=True, park=True, reason=reason
        )
    else:
        answer = run_command(session, f"state {action}", given, *which, reason=reason)
    said = in_calls(answer.text(), session.tools)
    return texts.single_page(said, "status()"), answer.data


RUNNERS: dict[str, Callable[[ToolSession, Given], Outcome]] = {
    "status": _status,
    "show": _show,
    "claim": claims.claim_step,
    "update": _update,
    "verify": _verify,
    "complete": _complete,
    "release": claims.release_step,
    "note": _note,
    "review": _review,
    "steer": _steer,
}
