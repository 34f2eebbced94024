"""Which files a role may write."""

from __future__ import annotations

from tugtool.guard import rules, wild
from tugtool.guard.refused import Refused, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.guard.place import Place
    from tugtool.guard.rules import Role

#: Writing there changes no file.
_NOWHERE = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")
_TUGTOOL, _GIT = ".tugtool", ".git"


def refuse_edit(role: Role | None, path: str, place: Place) -> None:
    """Refuse a file that the role may not edit; without a role, what nobody may."""
    names = place.names(path)
    if place.is_apart(names, deep=role is None or role.programs == rules.ANY):
        return
    for name in names:
        parts = name.lower().split("/")
        if role is not None or not _is_free(parts):
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
    if path not in _NOWHERE and not path.startswith("/dev/fd/"):
        refuse_edit(role, path, place)


def refuse_removal(role: Role | None, path: str, place: Place) -> None:
    """Refuse to take away a file, or a directory with something in it that has to stay."""
    refuse_output(role, path, place)
    for name in place.names(path):
        parts = name.split("/")
        kept = place.roots()
        if role is not None and place.plan:
            kept = kept + [f"{root}/{place.plan}" for root in kept]
        inside = any(wild.begins(root.split("/"), parts) for root in kept)
        trees = role is not None and ".tugtree" in parts[-2:]
        if inside or trees:
            raise Refused(
                f"removing {shown(name)}",
                why="the repository, its record or a worktree is in there",
                instead="name just what has to go",
            )


def refuse_new(role: Role, path: str, place: Place) -> None:
    """Refuse a new directory where nobody but tugcode and git makes any."""
    for name in place.names(path):
        parts = name.lower().split("/")
        if not place.is_apart([name]):
            _refuse_nobodys(name, parts)
            _refuse_plans(name, parts, place)


def _refuse_nobodys(name: str, parts: list[str]) -> None:
    if _index(parts, _GIT):
        raise Refused(
            f"editing {shown(name)}",
            why="it is git's own, and nobody edits it by hand",
            instead="leave it to git's and tugcode's commands",
        )
    _refuse_record(name, parts)


def _refuse_record(name: str, parts: list[str]) -> None:
    below = _below(parts)
    if _index(parts, _TUGTOOL) == len(parts) - 1:
        raise Refused(
            f"writing or removing {shown(name)}",
            why="the state, the plans and the log are in there",
            instead="name the file that you mean",
        )
    if below and any(wild.matches(below[0], file) for file in rules.STATE_FILES):
        raise Refused(
            f"writing {shown(name)}",
            why="it is the state, which only tugcode's commands may change",
            instead="look at it with `tugcode state show`",
        )
    if below and any(wild.matches(below[0], file) for file in rules.LOG_FILES):
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
    last = _index(parts, _TUGTOOL)
    return parts[last + 1 :] if last else []


def _index(parts: list[str], name: str) -> int:
    """Where the name stands last, or may stand; 0 if nowhere."""
    return next((at for at in range(len(parts) - 1, 0, -1) if wild.may_be(parts[at], name)), 0)


def _is_free(parts: list[str]) -> bool:
    """What people put right by hand: what git leaves out, and locks of a git that died."""
    return parts[-2:] == ["info", "exclude"] or parts[-1].endswith(".lock")
