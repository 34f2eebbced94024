"""A tool call held against the rules of a role."""

from __future__ import annotations

from tugtool.guard import paths, rules
from tugtool.guard.refused import Refused, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tugtool.guard.place import Place
    from tugtool.guard.rules import Role

#: How a patch names the files that it is about.
_PATCHED = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
_PATHS = ("file_path", "notebook_path", "path")


def refuse_tool(role: Role | None, tool: str, given: Mapping[str, object], place: Place) -> None:
    """Refuse a tool call that the role may not make; without a role, what nobody may."""
    if role is not None and tool not in role.tools:
        if not _is_note(role, tool, given, place):
            raise _not_a_tool(role, tool)
    elif tool in rules.EDITING:
        for path in _files(role, tool, given):
            paths.refuse_edit(role, path, place)
    elif tool in rules.RUNNING:
        # Not at the top: most calls run nothing.
        from tugtool.guard import line

        text = given.get("command")
        if isinstance(text, str):
            line.Line(role, place).judge(text)
        elif role is not None:
            raise Refused(
                f"a call of {tool}",
                why="it has no command that could be read",
                instead="give the command as text",
            )


def _is_note(role: Role, tool: str, given: Mapping[str, object], place: Place) -> bool:
    """Whether a role that edits nothing writes notes of its own, as `>` may."""
    if tool not in rules.EDITING:
        return False
    return all(place.is_apart(place.names(path), deep=False) for path in _files(role, tool, given))


def _not_a_tool(role: Role, tool: str) -> Refused:
    what = f"the tool {shown(tool)}"
    why = f"the {role.name} {role.task}"
    if tool in rules.EDITING:
        return Refused(what, why=why, instead="say in your answer what should change, and where")
    if tool in ("Agent", "Task"):
        why = "no role starts agents of its own, which nothing would guard"
        return Refused(what, why=why, instead="do the work yourself, or say what is missing")
    known = ", ".join(sorted(role.tools & (rules.EDITING | {"Read", "Grep", "Glob", "Bash"})))
    return Refused(what, why=f"{why}, and this tool is not among its own", instead=f"use {known}")


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
