"""Calls of git, of tugcode and of a code host's tool held against the rules of a role."""

from __future__ import annotations

from tugtool.guard import gitlook, options, paths, rules
from tugtool.guard.refused import Refused, shown
from tugtool.guard.words import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.guard.place import Place
    from tugtool.guard.rules import Role

#: Options of git's that stand before its command and take the next word.
_GIT_VALUED = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix")
_INSTEAD = {
    "commit": "leave your changes uncommitted: `tugcode commit` takes them once they are approved",
    "push": "leave it: the branch is pushed when the whole plan is done",
    "stash": "leave the changes where they are; the stash is shared by all worktrees",
    "clean": "make a copy with `git clone . /tmp/NAME` and work there",
    "clone": "clone this repository into a directory below /tmp",
    "worktree": "leave worktrees to whoever runs the plan; `tugcode worktree list` shows them",
}
_UNDO = "to undo a change of yours, edit the file, or `git restore FILE`"
_ASK = "say in your answer what should be done"


def refuse_git(role: Role, words: list[str], place: Place) -> None:
    """Refuse a call of git's that the role may not make."""
    settings, name, rest = git_command(words)
    place = _git_place(role, words[: len(words) - len(rest)], place)
    if UNKNOWN in name:
        why = "which of git's commands it is is only known when it runs"
        raise Refused(shown(f"git {name}"), why=why, instead="write the command out")
    if name in role.git:
        _refuse_words(role, name, rest, place)
    elif name and not gitlook.only_looks(name, rest) and not _is_apart(role, name, rest, place):
        other = _UNDO if "restore" in role.git else _ASK
        raise Refused(
            f"{shown(f'git {name}')}",
            why=f"the {role.name} {role.task}",
            instead=_INSTEAD.get(name, other),
        )
    for setting in settings:
        if not _is_safe(setting.lower()):
            raise Refused(
                f"{shown(f'git -c {setting}')}",
                why="with settings of its own git would do something else than its words say",
                instead="leave the setting out",
            )


def _git_place(role: Role, words: list[str], place: Place) -> Place:
    """Where git goes before it starts."""
    place = place.copy()
    for directory in options.values(words, "C", "", "c"):
        place.go(directory)
    given = options.values(words, "", "--git-dir") + options.values(words, "", "--work-tree")
    apart = [each for each in (".", *given) if place.is_apart(place.names(each))]
    if role.programs == rules.VIEWERS and apart:
        raise Refused(
            f"git in {shown(place.names(apart[0])[0])}",
            why="the settings of a repository there could make git run anything",
            instead="look at the repository that you work in",
        )
    return place


def _is_apart(role: Role, name: str, rest: list[str], place: Place) -> bool:
    runs = role.programs == rules.ANY and name in rules.APART_OPTIONS
    return runs and gitlook.is_apart(name, rest, place)


def _is_safe(setting: str) -> bool:
    below = tuple(name for name in rules.GIT_SETTINGS if name.endswith("."))
    return setting in rules.GIT_SETTINGS or setting.startswith(below)


def git_command(words: list[str]) -> tuple[list[str], str, list[str]]:
    """The settings that are given to git, its command, and what follows that."""
    settings = []
    at = 0
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        if word == "-c":
            settings += words[at + 1 : at + 2]
        elif word.startswith(("--config-env", "--exec-path=")):
            settings.append(word)
        at += 2 if word in _GIT_VALUED else 1
    return settings, (words[at] if at < len(words) else ""), words[at + 1 :]


def _end(words: list[str]) -> int:
    return words.index("--") if "--" in words else len(words)


def _refuse_words(role: Role, name: str, rest: list[str], place: Place) -> None:
    if name in rules.REMOTE_OPTIONS:
        if not gitlook.is_plain_exchange(name, rest):
            raise Refused(
                f"{shown(' '.join(('git', name, *rest)))}",
                why="it is not plain to see what would be overwritten, removed or run",
                instead="write `git push REMOTE BRANCH` or `git fetch REMOTE`, with `-u` at most; "
                "if that does not do, answer ESCALATE",
            )
        return
    for word in rest:
        if name in ("mv", "rm") and not word.startswith("-"):
            paths.refuse_removal(role, word, place)
        elif not word.startswith("-") and word != ".":
            paths.refuse_output(role, word, place)


def refuse_tugcode(role: Role, words: list[str]) -> None:
    """Refuse a command of tugcode's that the role may not run."""
    before = words[: _end(words)]
    if {"--help", "-h"} & set(before):
        return
    path = tugcode_command(before)
    options = [word.partition("=")[0] for word in before if word.startswith("-")]
    if path in ("", "help") or rules.may_run(role, path, options):
        return
    raise Refused(
        f"{shown(f'tugcode {path}')}",
        why=f"the {role.name} {role.task}",
        instead=f"use {rules.wanted(role)}",
    )


def tugcode_command(words: list[str]) -> str:
    """The command that the words begin with, such as `state show`."""
    path = ""
    at = 0
    while at < len(words):
        word = words[at]
        if word.startswith("-"):
            at += 2 if word in ("-C", "--directory") else 1
            continue
        path = f"{path} {word}".strip()
        if path not in rules.GROUPS:
            break
        at += 1
    return path


def refuse_host(role: Role, name: str, words: list[str]) -> None:
    """Refuse what a code host must not be asked by the role."""
    subject, verb = (*(word for word in words[:2]), "", "")[:2]
    known = rules.HOST_TOOLS[name]
    looks = subject not in ("auth", "api") and verb in rules.HOST_LOOK
    if (
        (role.host or looks)
        and subject in known
        and (verb in known[subject] or known[subject] == ("",))
    ):
        return
    raise Refused(
        f"{shown(f'{name} {subject} {verb}')}",
        why=f"the {role.name} {role.task}",
        instead="open and look at pull requests, never merge them" if role.host else _ASK,
    )
