"""A tool call of an agent, and the files that it may touch."""

from __future__ import annotations

from tugtool.agents.guard import rules
from tugtool.agents.guard.location import AgentLocation, begins, matches, may_be
from tugtool.system import config, os, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tugtool.agents.guard.rules import Role


class Refused(Exception):
    """A tool call or a command that a role may not make."""

    def __init__(self, what: str, *, why: str, instead: str) -> None:
        super().__init__(f"{what}: {why}. Instead: {instead}.")


def beyond(role: Role, what: str, *, instead: str) -> Refused:
    """The refusal of a call that is not the role's task."""
    return Refused(what, why=f"the {role.name} {role.task}", instead=instead)


def format_path(text: str, most: int = 60) -> str:
    """A part of a command as a refusal quotes it: one line, short, and harmless to a terminal."""
    line = "".join(mark if mark.isprintable() else " " for mark in text.replace("\0", "$..."))
    return f"`{line[:most]}{'...' if len(line) > most else ''}`"


#: Writing there changes no file.
_NOWHERE = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")
_TUGTOOL, _GIT = ".tugtool", ".git"


def refuse_edit(
    role: Role | None, path: str, place: AgentLocation, *, removed: bool = False
) -> None:
    """Refuse a file that the role may not edit; without a role, a file that only tugcode edits."""
    names = place.names(path)
    if place.is_apart(names, deep=role is None or role.programs == rules.ANY):
        return
    for name in names:
        parts = name.lower().split("/")
        if role is not None or not _is_free(parts):
            _refuse_internal(name, parts)
        if role is not None:
            _refuse_settings(role, name, parts)
            if role.edits == rules.PLANS:
                _refuse_other_than_plans(name, parts)
            elif role.edits == rules.WORK:
                _refuse_plans(name, parts, place)
            else:
                other = "say in your answer what should change; notes of your own go below /tmp"
                raise beyond(role, f"writing {format_path(name)}", instead=other)
    if role is not None:
        refuse_outside(role, path, place, removed=removed)


def refuse_outside(role: Role, path: str, place: AgentLocation, *, removed: bool = False) -> None:
    """Refuse a path outside of the role's worktree, or for an author outside of the repository."""
    # Not at the top: most calls change nothing.
    from tugtool.agents.guard import boundary

    if role.edits == rules.PLANS:
        where, within = path, "repository"
        instead = boundary.other_repository(path, place)
    else:
        within = "worktree"
        where, instead = boundary.outside(path, place, removed=removed)
    if instead:
        why = f"it lies outside of the {within} that the {role.name} works in"
        raise Refused(f"changing {format_path(where, 200)}", why=why, instead=instead)


def refuse_output(
    role: Role | None, path: str, place: AgentLocation, *, removed: bool = False
) -> None:
    """Refuse a file that a command would write, if the role may not edit it."""
    if path not in _NOWHERE and not path.startswith("/dev/fd/"):
        refuse_edit(role, path, place, removed=removed)


def refuse_removal(role: Role | None, path: str, place: AgentLocation) -> None:
    """Refuse to remove a file, or a directory that contains something to keep."""
    refuse_output(role, path, place, removed=True)
    for name in place.names(path, itself=True):
        parts = name.split("/")
        kept = place.roots()
        if role is not None and place.plan:
            kept = kept + [f"{root}/{place.plan}" for root in kept]
        inside = any(begins(root.split("/"), parts) for root in kept)
        trees = role is not None and ".tugtree" in parts[-2:]
        if inside or trees:
            raise Refused(
                f"removing {format_path(name)}",
                why="the repository, its record or a worktree is in there",
                instead="name only the files to remove",
            )


def refuse_new(role: Role, path: str, place: AgentLocation) -> None:
    """Refuse a new directory in a place that belongs to tugcode or git."""
    for name in place.names(path):
        parts = name.lower().split("/")
        if not place.is_apart([name]):
            _refuse_internal(name, parts)
            _refuse_plans(name, parts, place)
            refuse_outside(role, path, place)


def _refuse_internal(name: str, parts: list[str]) -> None:
    if _index(parts, _GIT):
        raise Refused(
            f"editing {format_path(name)}",
            why="it belongs to git, and is not edited by hand",
            instead="leave it to git's and tugcode's commands",
        )
    _refuse_record(name, parts)


def _refuse_record(name: str, parts: list[str]) -> None:
    below = _below(parts)
    if _index(parts, _TUGTOOL) == len(parts) - 1:
        raise Refused(
            f"writing or removing {format_path(name)}",
            why="the state, the plans and the log are in there",
            instead="name the file that you mean",
        )
    if below and any(matches(below[0], file) for file in rules.STATE_FILES):
        raise Refused(
            f"writing {format_path(name)}",
            why="it is the state, which only tugcode's commands may change",
            instead="look at it with `tugcode state show`",
        )
    if below and any(matches(below[0], file) for file in rules.LOG_FILES):
        raise Refused(
            f"writing {format_path(name)}",
            why="it is the implementation log, which `tugcode commit` writes",
            instead="put the text into the summary of the step's commit",
        )


def _refuse_settings(role: Role, name: str, parts: list[str]) -> None:
    client = parts[-2:-1] == [".claude"] and parts[-1].startswith("settings")
    if client or _below(parts) == ["config.toml"]:
        raise Refused(
            f"editing {format_path(name)}",
            why="it says what agents may do here, and only a person decides that",
            instead=f"say in your answer what should change; the {role.name} goes on without it",
        )


def _refuse_other_than_plans(name: str, parts: list[str]) -> None:
    below = _below(parts)
    file = below[0] if len(below) == 1 else ""
    is_plan = file.startswith("tugplan-") and file.endswith(".md")
    if not is_plan or file == "tugplan-skeleton.md":
        raise Refused(
            f"editing {format_path(name)}",
            why="the author writes plans, which are files like `.tugtool/tugplan-SLUG.md`",
            instead="write the plan, and let its steps say how other files change",
        )
    if ".tugtree" in parts:
        raise Refused(
            f"editing {format_path(name)}",
            why="in that worktree the plan is being carried out as it was agreed",
            instead="change the plan in the main worktree",
        )


def _refuse_plans(name: str, parts: list[str], place: AgentLocation) -> None:
    if _below(parts) or (place.plan and name.endswith(f"/{place.plan}")):
        raise Refused(
            f"editing {format_path(name)}",
            why="plans and what belongs to them stay as they were agreed while they are carried "
            "out",
            instead="say in your answer what is wrong with the plan",
        )


def _below(parts: list[str]) -> list[str]:
    """The parts after the last `.tugtool`."""
    last = _index(parts, _TUGTOOL)
    return parts[last + 1 :] if last else []


def _index(parts: list[str], name: str) -> int:
    """The last position at which the name is, or may be; 0 if there is none."""
    return next((at for at in range(len(parts) - 1, 0, -1) if may_be(parts[at], name)), 0)


def _is_free(parts: list[str]) -> bool:
    """True for files that people edit: git's exclude file, and locks of a dead git."""
    return parts[-2:] == ["info", "exclude"] or parts[-1].endswith(".lock")


#: The marks before the names of files in a patch.
_PATCHED = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
_PATHS = ("file_path", "notebook_path", "path")


class Verdict:
    """The result: the caller's role, the tool, the refusal if any, and a replaced command."""

    __slots__ = ("harmless", "role", "said", "tool", "updated")

    def __init__(self) -> None:
        #: True if the command has only tugcode commands that the role may run.
        self.harmless = False
        self.role: str | None = None
        self.tool = ""
        self.said: str | None = None
        self.updated: dict[str, object] | None = None

    def block(self, said: str) -> Verdict:
        """Refuse it."""
        self.said = said
        return self


def decide(read: Callable[[], bytes]) -> Verdict:
    """Judge the tool call that a client describes on its input."""
    verdict = Verdict()
    try:
        return _decided(verdict, _given(read()))
    except Refused as refused:
        who = f"the {verdict.role} may not do this: " if verdict.role else ""
        return verdict.block(f"{who}{refused}")
    except (ValueError, RecursionError, OSError) as error:
        # The caller is not known, so it may be one of our agents.
        return verdict.block(f"the tool call could not be read, so nothing may run: {error}")


def _decided(verdict: Verdict, given: dict[str, object]) -> Verdict:
    verdict.tool = str(given.get("tool_name") or "")
    tool_input = given.get("tool_input")
    cwd = given.get("cwd")
    start = cwd if isinstance(cwd, str) and cwd else os.getcwd()
    plan, worktree = config.variable("TUGCODE_PLAN"), config.variable("TUGCODE_WORKTREE")
    place = AgentLocation(start, plan or "", worktree or "")
    roles = _roles(given)
    for name in roles:
        verdict.role = name
        if name not in rules.ROLES:
            known = ", ".join(rules.ROLES)
            return verdict.block(f"there is no role {format_path(name)}; there are {known}")
    facts = tool_input if isinstance(tool_input, dict) else {}
    for name in roles:
        refuse_tool(rules.ROLES[name], verdict.tool, facts, place)
    if not roles:
        refuse_tool(None, verdict.tool, facts, place)
    elif verdict.tool in rules.RUNNING:
        _make_known(verdict, facts, given)
    return verdict


def _make_known(verdict: Verdict, facts: dict[str, object], given: dict[str, object]) -> None:
    """Export the role to the command, so that tugcode itself can check the rules."""
    from tugtool.agents.guard import line

    command = str(facts["command"])
    verdict.harmless = line.only_tugcode(command)
    # Codex, which sends `turn_id`, takes a changed command only with permission to run it.
    if config.variable(config.ROLE_VARIABLE) is None and (
        verdict.harmless or "turn_id" not in given
    ):
        made = f"export {config.ROLE_VARIABLE}={verdict.role}; {command}"
        verdict.updated = {**facts, "command": made}


def _roles(given: dict[str, object]) -> list[str]:
    """The caller's roles: by its agent type, and by the environment; none, one or both."""
    agent = given.get("agent_type")
    if agent is not None and not isinstance(agent, str):
        raise ValueError("its `agent_type` is not text")
    own, above = rules.role_of(agent or ""), config.variable(config.ROLE_VARIABLE)
    return list(dict.fromkeys(name for name in (own, above) if name is not None))


def _given(data: bytes) -> dict[str, object]:
    value = text.decode(data.decode("utf-8", "surrogateescape"))
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def refuse_tool(
    role: Role | None, tool: str, given: Mapping[str, object], place: AgentLocation
) -> None:
    """Refuse a tool call that the role may not make; without a role, a change of the record."""
    if role is not None and tool not in role.tools:
        if not _is_note(role, tool, given, place):
            raise _not_a_tool(role, tool)
    elif tool in rules.EDITING:
        for path in _files(role, tool, given):
            refuse_edit(role, path, place)
    elif tool in rules.RUNNING:
        # Not at the top: most calls run nothing.
        from tugtool.agents.guard import line

        text = given.get("command")
        if isinstance(text, str):
            line.CommandLine(role, place).judge(text)
        elif role is not None:
            raise Refused(
                f"a call of {tool}",
                why="it has no command that could be read",
                instead="give the command as text",
            )


def _is_note(role: Role, tool: str, given: Mapping[str, object], place: AgentLocation) -> bool:
    """True if the tool writes notes below the temporary directories, as `>` may."""
    if tool not in rules.EDITING:
        return False
    return all(place.is_apart(place.names(path), deep=False) for path in _files(role, tool, given))


def _not_a_tool(role: Role, tool: str) -> Refused:
    what = f"the tool {format_path(tool)}"
    if tool in rules.EDITING:
        return beyond(role, what, instead="say in your answer what should change, and where")
    if tool in ("Agent", "Task"):
        why = "no role may start agents, because nothing would guard them"
        return Refused(what, why=why, instead="do the work yourself, or say what is missing")
    known = ", ".join(sorted(role.tools & (rules.EDITING | {"Read", "Grep", "Glob", "Bash"})))
    why = f"the {role.name} {role.task}, and this tool is not among its own"
    return Refused(what, why=why, instead=f"use {known}")


def _files(role: Role | None, tool: str, given: Mapping[str, object]) -> list[str]:
    found = [value for key in _PATHS if isinstance(value := given.get(key), str) and value]
    patch = given.get("command", given.get("input"))
    if tool == "apply_patch" and isinstance(patch, str):
        lines = (row.lstrip() for row in patch.splitlines())
        found += [
            row.removeprefix(mark).strip()
            for row in lines
            for mark in _PATCHED
            if row.startswith(mark)
        ]
    if not found and role is not None:
        raise Refused(
            f"a call of {tool}",
            why="it does not say which file it is about",
            instead="name the file with its path",
        )
    return found
