"""Calls and commands: the command line that a tool stands for, and the call for a command line.

The texts of commands name further commands. An agent with nothing but MCP cannot run them, so each
becomes the call that does the same, or says that it is for a person.
"""

from __future__ import annotations

from tugtool import errors
from tugtool.cli import parse
from tugtool.errors import TugError, plan_name
from tugtool.server.mcp.guide import spelled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from tugtool.cli.output import Answer
    from tugtool.cli.parse import Call
    from tugtool.server.mcp.session import ToolSession

    Given = Mapping[str, Any]
    #: The name of a tool and its arguments.
    ToolCall = tuple[str, dict[str, Any]]


_PROGRAM = "tugcode "
#: What stands before a command in our texts.
_LEADS = ("  ", ": ")
_REASON = "..."


def plan_key(session: ToolSession, given: Given) -> str:
    """The key of the plan that is meant: the named one, the active one, or the only one done."""
    try:
        return session.plan_key(given.get("plan"), given.get("worktree"))
    except errors.PlanNotInitialised:
        from tugtool.state import record

        space = session.space(given.get("worktree"))
        known = record.plans(space.store) if space.store.exists() else {}
        done = [plan for plan, status in known.items() if status == "done"]
        if given.get("plan") is not None or len(done) != 1:
            raise
        return done[0]


def run_command(
    session: ToolSession, command: str, given: Given, *which: str, **options: object
) -> Answer:
    """Run a command for the caller's worktree."""
    batch = options.pop("standard_input", None)
    assert isinstance(batch, bytes | None)
    made = _words(command, *which, **options)
    return session.perform(made, worktree=given.get("worktree"), given=batch)


def _words(command: str, *positionals: str, **options: object) -> list[str]:
    """The words of a command line; options without a value are left out."""
    made = command.split()
    for key, value in options.items():
        name = f"--{key.replace('_', '-')}"
        several = value if isinstance(value, list) else [value]
        made += [name if each is True else f"{name}={each}" for each in several if _counts(each)]
    return [*made, "--", *positionals] if positionals else made


def _counts(value: object) -> bool:
    return value is not None and value is not False


def in_calls(said: str, tools: Collection[str]) -> str:
    """The text of a command, with the calls of these tools in place of commands."""
    lines = said.split("\n")
    return "\n".join(_line(line, tools) if _PROGRAM in line else line for line in lines)


def _line(line: str, tools: Collection[str]) -> str:
    """The line with a call, or with the word that its command is for a person."""
    before, _, command = line.partition(_PROGRAM)
    # Elsewhere in a line it is a word of a plan or a note.
    read = _read(command) if before.endswith(_LEADS) else None
    if read is None:
        return line
    call = _call(read, tools)
    return f"{before}{call}" if call else f"{before}a person: {_PROGRAM}{command}"


def _read(command: str) -> Call | None:
    import shlex

    try:
        found = parse.parse(shlex.split(command))
    except (TugError, ValueError):
        return None
    return found if found.command is not None else None


def _call(read: Call, tools: Collection[str]) -> str | None:
    assert read.command is not None
    make = _CALLS.get(read.command.path)
    found = make(read) if make is not None else None
    return spelled(found[0], **found[1]) if found is not None and found[0] in tools else None


def call_for(command: str, tools: Collection[str]) -> str | None:
    """The call that does what a command line does; None if no tool of these does it."""
    read = _read(command.removeprefix(_PROGRAM)) if command.startswith(_PROGRAM) else None
    return None if read is None else _call(read, tools)


def _which(call: Call) -> dict[str, Any]:
    plan, step = call.text("plan"), call.anchor() or None
    return {"plan": None if plan is None else plan_name(plan), "step": step}


def _status(call: Call) -> ToolCall:
    return "status", {"all": True if call.flag("all") else None}


def _view(view: str | None) -> Callable[[Call], ToolCall]:
    return lambda call: ("show", {**_which(call), "view": view})


def _show(call: Call) -> ToolCall:
    which = _which(call)
    return "show", {**which, "view": "step" if which["step"] else None}


def _claim(call: Call) -> ToolCall | None:
    return None if call.flag("force") else ("claim", _which(call))


def _review(call: Call) -> ToolCall | None:
    which = _which(call)
    if call.flag("retry"):
        return _steer("reset")(call) if which["step"] else None
    if call.flag("accept_all"):
        return None
    verdicts = [each for each in ("accept", "reject") if call.flag(each)]
    ordinal = call.text("ordinal") or ""
    how = {"verdict": verdicts[0] if verdicts else None, "kind": call.text("kind")}
    how |= {"note": _REASON if "reject" in verdicts else None}
    return "review", {**which, **how, "ordinal": int(ordinal) if ordinal.isdecimal() else None}


def _steer(action: str) -> Callable[[Call], ToolCall | None]:
    def made(call: Call) -> ToolCall | None:
        if call.flag("force"):
            return None
        which = _which(call)
        how = {"plan": which["plan"], "action": action, "step": which["step"]}
        return "steer", {**how, "reason": _REASON}

    return made


_CALLS: dict[str, Callable[[Call], ToolCall | None]] = {
    "status": _status,
    "list": _status,
    "state show": _show,
    "plan show": _show,
    "state ready": _view(None),
    "state why": _view("why"),
    "state log": _view("log"),
    "state stats": _view("stats"),
    "state diff": _view("diff"),
    "plan graph": _view("graph"),
    "state claim": _claim,
    "next": _claim,
    "implement": _claim,
    "state review": _review,
    **{f"state {each}": _steer(each) for each in ("pause", "resume", "reset", "reopen")},
}
