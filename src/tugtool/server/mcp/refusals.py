"""Refusals as results: what is the case, and the next call, never a command for a shell alone."""

from __future__ import annotations

from tugtool import errors
from tugtool.errors import TugError, plan_name
from tugtool.server.mcp.commands import call_for
from tugtool.server.mcp.guide import OF_HOLDERS, spelled
from tugtool.server.mcp.texts import cut
from tugtool.server.mcp.unbegun import how_to_begin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from tugtool.server.mcp.guide import Guide
    from tugtool.server.mcp.held import HeldClaim

    Given = Mapping[str, Any]


STOP = "stop: true; the step is no longer yours. Change nothing more; claim again."
_STATUS = "next: status()"
_LONGEST_MESSAGE = 3000


def told(
    error: TugError, tool: str, given: Given, *, guide: Guide, held: HeldClaim | None = None
) -> str:
    """A refusal in words, with the next call; `held` is the claim that the call is about."""
    lines = [f"refused, {error.code}: {cut(_in_words(error), _LONGEST_MESSAGE)}"]
    lost = is_lost(error, tool)
    lines += [STOP] if lost else []
    plan = error.facts.get("plan") or given.get("plan")
    known: dict[str, Any] = {**given, "tool": tool, "guide": guide, "tools": guide.tools}
    known["plan"] = None if plan is None else plan_name(str(plan))
    known["step"] = error.facts.get("anchor") or given.get("step")
    known["known"] = {} if held is None else {"step": held.anchor, "attempt": held.attempt}
    known["asked"] = given
    how = _claim_again if lost else _NEXT.get(error.code, _look)
    lines += how(error, known)
    # A role has not every tool.
    lines = [line for line in lines if not _names_other(line, guide.tools)]
    return "\n".join(lines if any("next" in line for line in lines[1:]) else [*lines, _STATUS])


def _in_words(error: TugError) -> str:
    """The message, without options of the command line; whole commands stay as they are."""
    if error.code == "E050":
        return error.message.removesuffix(", or claim it --also")
    if error.code != "E070" or "`tugcode " in error.message:
        return error.message
    words = error.message.split(" ")
    return " ".join(w[2:].replace("-", "_") if w.startswith("--") else w for w in words)


def is_lost(error: TugError, tool: str) -> bool:
    """True if the caller's claim has ended: it was taken, or a person sent the step back."""
    if _is_unknown(error):
        return False
    sent_back = error.code == "E050" and error.facts.get("status") == "pending"
    return error.exit_status == errors.NotOwner.exit_status or (sent_back and tool in OF_HOLDERS)


def _is_unknown(error: TugError) -> bool:
    """True if there was no such attempt: a wrong number, and nothing is lost."""
    current: Any = error.facts.get("current")
    return error.code == "E060" and current is not None and error.facts["attempt"] > current


def _names_other(line: str, tools: Sequence[str]) -> bool:
    _, is_call, rest = line.partition("next: ")
    return bool(is_call) and "(" in rest and rest.partition("(")[0] not in tools


def told_bug(error: Exception) -> str:
    """A fault of ours; its traceback goes to standard error."""
    import traceback

    from tugtool.cli import output

    said = "".join(traceback.format_exception(error))
    output.mention("".join(f"{output.clean(line)}\n" for line in said.splitlines()))
    return (
        f"refused, {errors.Bug(error).code}: a fault in tugcode ({type(error).__name__}); "
        "whether something was changed, show() says\nnext: status()"
    )


def _claim_again(error: TugError, given: Given) -> list[str]:
    return [f"next: {given['guide'].call('claim', plan=given['plan'])}"]


def _open_items(error: TugError, given: Given) -> list[str]:
    items: Any = error.facts.get("open") or []
    found: list[str] = given["guide"].for_open(items, str(given["step"]), given.get("attempt"))
    return found


def _why(error: TugError, given: Given) -> list[str]:
    if given["step"] is None:
        return _look(error, given)
    return [f"next: {spelled('show', plan=given['plan'], step=given['step'], view='why')}"]


def _step(error: TugError, given: Given) -> list[str]:
    if given["step"] is None:
        return _look(error, given)
    return [f"next: {spelled('show', plan=given['plan'], step=given['step'], view='step')}"]


def _diff(error: TugError, given: Given) -> list[str]:
    lines = [f"a person settles it: {error.hint}"] if error.hint else []
    return [*lines, f"next: {spelled('show', plan=given['plan'], view='diff')}"]


def _again(error: TugError, given: Given) -> list[str]:
    return [f"next: {_same(given)}, the same call again"]


def _same(given: Given, **other: object) -> str:
    """The call that was refused, with other values for some arguments."""
    return spelled(given["tool"], **{**given["asked"], **other})


def _arguments(error: TugError, given: Given) -> list[str]:
    """The call with what is right in it, or with what it lacks."""
    close: Any = error.facts.get("close") or []
    tool, guide = given["tool"], given["guide"]
    if "uncommitted files" in error.message:
        return _message(error, given)
    if error.facts.get("has_no_commit"):
        return [*_with_commit(given), f"or: {_held_call(given, 'complete', summary='...')}"]
    if "worktrees" in error.facts:
        return _other_worktree(error, given)
    if "needs a step" in error.message and tool == "show":
        return [f"next: {spelled('show', plan=given['plan'])}, which lists the steps"]
    mended: Any = error.facts.get("mended")
    if mended is not None:
        return [f"next: {spelled(tool, **mended)}"]
    if tool not in guide.tools:
        tool = close[0] if close else "status"
    call = guide.example(tool, given["asked"], given["known"])
    number = ", with the attempt that your claim returned" if "attempt=N" in call else ""
    return [f"next: {call}{number}" if tool != "status" else _STATUS]


def _held_call(given: Given, tool: str, **more: object) -> str:
    found: str = given["guide"].call(tool, step=given["step"], attempt=given.get("attempt"), **more)
    return found


def _command(error: TugError, given: Given) -> list[str]:
    """Only a command helps, which is for the worktree; then the same call."""
    said = f"run in a shell, in your worktree: {error.hint}" if error.hint else "look at your files"
    return [said, f"next: {_same(given)}, the same call again"]


def _closest(error: TugError, given: Given) -> list[str]:
    """The same call with the name that was meant."""
    close: Any = error.facts.get("close") or []
    if not close or "plan" not in given["asked"]:
        return _look(error, given)
    return [f"next: {_same(given, plan=plan_name(str(close[0])))}"]


def _no_step(error: TugError, given: Given) -> list[str]:
    """The same call with the step that was meant, or the list of steps."""
    close: Any = error.facts.get("close") or []
    if close:
        return [f"next: {_same(given, step=close[0])}"]
    return [f"next: {spelled('show', plan=given['plan'])}, which lists the steps"]


def _begin(error: TugError, given: Given) -> list[str]:
    plan: Any = error.facts.get("plan")
    return [*how_to_begin(plan, works="claim" in given["tools"]), _STATUS]


def _other_worktree(error: TugError, given: Given) -> list[str]:
    """The caller stands in a worktree of another plan."""
    right: Any = error.facts.get("worktrees")
    if not right:
        return _begin(error, given)
    return [f"next: {_same(given, plan=given['plan'], worktree=right[0])}"]


def _main_worktree(error: TugError, given: Given) -> list[str]:
    """Nothing is committed in the main worktree; what was done there can still be completed."""
    if given["tool"] != "complete":
        return _begin(error, given)
    back = _held_call(given, "release", reason="this is the main worktree")
    call = _held_call(given, "complete")
    return [
        f"next: {call}, without a message; with commit if you committed it",
        f"or, for another worktree: {back}",
    ]


def _status_of_step(error: TugError, given: Given) -> list[str]:
    """A step that is not as the call needs it."""
    anchor, status = error.facts.get("anchor"), error.facts.get("status")
    guide = given["guide"]
    if given["tool"] == "claim" and status == "held by you":
        attempt = given["known"].get("attempt", "N")
        back = guide.call("release", step=anchor, attempt=attempt, reason="...")
        known = [] if attempt != "N" else ["N is the attempt that your claim of it returned"]
        return [*known, f"next: {back}, or complete it first"]
    if status == "completed" and given["tool"] in ("claim", *OF_HOLDERS):
        return _claim_again(error, given)
    if given["tool"] == "steer" and given.get("action") == "park":
        pause = spelled("steer", plan=given["plan"], action="pause", reason="...")
        return [
            "only a step that a worker holds can be parked; nobody is at work on this one",
            f"next: {pause}, which gives out no step of the plan until it is resumed",
        ]
    return _why(error, given)


def _message(error: TugError, given: Given) -> list[str]:
    """The message of the commit is not valid, or missing."""
    return [f"next: {given['guide'].complete(given['step'], given.get('attempt'))}"]


def _entries(error: TugError, given: Given) -> list[str]:
    """An item, or a commit, that does not exist or cannot be the right one."""
    if given["tool"] != "complete":
        return _step(error, given)
    if given["guide"].commits:
        none = _held_call(given, "complete")
        return [*_message(error, given), f"or, if there was nothing to commit: {none}"]
    none = _held_call(given, "complete", summary="...")
    return [*_with_commit(given), f"or, if there was nothing to commit: {none}"]


def _with_commit(given: Given) -> list[str]:
    """How a worker on another machine completes a step."""
    name = f"tugplan/{given['plan'] or 'PLAN'}-YYYYMMDD-N"
    push = f"git push origin HEAD:{name} (N: a number that no other worker uses)"
    return [
        f"commit in your clone, and push to the server's repository: {push}",
        f"next: {_held_call(given, 'complete', commit='HASH')}",
    ]


def _attempt(error: TugError, given: Given) -> list[str]:
    """The number of the attempt is wrong."""
    if not error.facts.get("current"):
        call = given["guide"].call("claim", plan=given["plan"], step=given["step"])
        return [f"nobody has claimed it yet\nnext: {call}"]
    known = given["known"]
    number = known.get("attempt", "N") if known.get("step") == given["step"] else "N"
    said = "" if number != "N" else " with the attempt that your claim returned"
    return [f"next: {_same(given, attempt=number)}{said}"]


def _elsewhere(error: TugError, given: Given) -> list[str]:
    """A server does not do it for this role; the worker can, where its worktree is."""
    if given["tool"] == "complete":
        return _with_commit(given)
    if given["guide"].only_plan is not None:
        return [f"next: {spelled('show', plan=plan_name(given['guide'].only_plan))}"]
    return _look(error, given)


def _person(error: TugError, given: Given) -> list[str]:
    """Only a person can allow it; meanwhile the step goes back, with the reason."""
    lines = [f"a person has to allow it: {error.hint}"] if error.hint else []
    return [*lines, f"next: {_held_call(given, 'release', reason=error.code, park=True)}"]


def _look(error: TugError, given: Given) -> list[str]:
    """The call for the command that the refusal names; without one, the command is for a person."""
    hint = error.hint or ""
    call = call_for(hint, given["tools"])
    if call is not None:
        return [f"next: {call}"]
    is_command = hint.startswith(("tugcode ", "git ", "cd "))
    return [*([f"a person can look with: {hint}"] if is_command else []), _STATUS]


_NEXT: dict[str, Callable[[TugError, Given], list[str]]] = {
    "E035": _main_worktree,
    "E036": _other_worktree,
    "E037": _command,
    "E046": _again,
    "E047": _again,
    "E041": _closest,
    "E048": _diff,
    "E049": _claim_again,
    "E050": _status_of_step,
    "E051": _open_items,
    "E052": _open_items,
    "E053": _why,
    "E059": _no_step,
    "E060": _attempt,
    "E061": _command,
    "E063": _begin,
    "E066": _entries,
    "E067": _why,
    "E070": _arguments,
    "E081": _message,
    "E101": _elsewhere,
    "E105": _elsewhere,
    "E110": _person,
}
