"""Which files a role may write."""

from __future__ import annotations

import os

from tugtool.guard import rules
from tugtool.guard.refused import Refused, shown
from tugtool.guard.shell import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.guard.rules import Role

#: Writing there changes no file.
_NOWHERE = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")
_TEMPORARY = ("/tmp/", "/var/tmp/", "/private/tmp/", "/var/folders/", "/private/var/folders/")
_TUGTOOL = ".tugtool"


class Place:
    """Where an agent stands, and the plan that it works on, if that is known."""

    __slots__ = ("cwd", "plan")

    def __init__(self, cwd: str, plan: str = "") -> None:
        self.cwd = cwd
        self.plan = plan

    def names(self, path: str) -> list[str]:
        """The file's absolute name, and what it really is if there is a link on the way."""
        name = os.path.normpath(os.path.join(self.cwd, os.path.expanduser(path)))
        if UNKNOWN in name:
            return [name]
        return [name, os.path.realpath(name)]


def refuse_edit(role: Role | None, path: str, place: Place) -> None:
    """Refuse a file that the role may not edit; without a role, what nobody may."""
    for name in place.names(path):
        parts = name.lower().split("/")
        _refuse_nobodys(name, parts)
        if role is not None:
            _refuse_settings(role, name, parts)
            if role.edits == rules.PLANS:
                _refuse_other_than_plans(name, parts)
            elif role.edits == rules.WORK:
                _refuse_plans(name, parts, place)
            else:
                raise _nothing(role, name)


def refuse_output(role: Role | None, path: str, place: Place) -> None:
    """Refuse a file that a command of the role's would write."""
    if path in _NOWHERE or path.startswith("/dev/fd/"):
        return
    if role is None:
        for name in place.names(path):
            _refuse_record(name, name.lower().split("/"))
    elif role.edits == rules.WORK or not _is_temporary(place.names(path)):
        refuse_edit(role, path, place)


def _is_temporary(names: list[str]) -> bool:
    return all(name.startswith(_TEMPORARY) and not _in_repository(name) for name in names)


def _in_repository(name: str) -> bool:
    above = os.path.dirname(name)
    while above not in ("/", ""):
        if os.path.lexists(os.path.join(above, ".git")):
            return True
        above = os.path.dirname(above)
    return False


def _refuse_nobodys(name: str, parts: list[str]) -> None:
    if ".git" in parts:
        raise Refused(
            f"editing {shown(name)}",
            why="it is git's own, and nobody edits it by hand",
            instead="leave it to git's and tugcode's commands",
        )
    _refuse_record(name, parts)


def _refuse_record(name: str, parts: list[str]) -> None:
    below = _below(parts)
    if below[:1] and below[0] in rules.STATE_FILES:
        raise Refused(
            f"writing {shown(name)}",
            why="it is the state, which only tugcode's commands may change",
            instead="look at it with `tugcode state show`",
        )
    if below[:1] and below[0] in rules.LOG_FILES:
        raise Refused(
            f"writing {shown(name)}",
            why="it is the implementation log, which `tugcode commit` writes",
            instead="put what should stand there into the summary of the step's commit",
        )


def _refuse_settings(role: Role, name: str, parts: list[str]) -> None:
    client = parts[-2:-1] == [".claude"] and parts[-1].startswith("settings")
    if client or _below(parts) == ["config.toml"]:
        raise Refused(
            f"editing {shown(name)}",
            why="it says what agents may do here, which is a person's to decide",
            instead=f"say in your answer what should change; the {role.name} goes on without it",
        )


def _refuse_other_than_plans(name: str, parts: list[str]) -> None:
    below = _below(parts)
    file = below[0] if len(below) == 1 else ""
    is_plan = file.startswith("tugplan-") and file.endswith(".md")
    if not is_plan or file == "tugplan-skeleton.md":
        raise Refused(
            f"editing {shown(name)}",
            why="the author writes plans, which are files like `.tugtool/tugplan-SLUG.md`",
            instead="write the plan, and let its steps say what is to be done to other files",
        )
    if ".tugtree" in parts:
        raise Refused(
            f"editing {shown(name)}",
            why="in that worktree the plan is being carried out as it was agreed",
            instead="change the plan in the main worktree",
        )


def _refuse_plans(name: str, parts: list[str], place: Place) -> None:
    if _below(parts) or (place.plan and name.endswith(f"/{place.plan}")):
        raise Refused(
            f"editing {shown(name)}",
            why="plans and what belongs to them stay as they were agreed while they are carried "
            "out",
            instead="say in your answer what is wrong with the plan",
        )


def _nothing(role: Role, name: str) -> Refused:
    return Refused(
        f"writing {shown(name)}",
        why=f"the {role.name} {role.task}",
        instead="say in your answer what should change; notes of your own go below /tmp",
    )


def _below(parts: list[str]) -> list[str]:
    """What stands behind the last `.tugtool`."""
    if _TUGTOOL not in parts:
        return []
    last = len(parts) - 1 - parts[::-1].index(_TUGTOOL)
    return parts[last + 1 :]
