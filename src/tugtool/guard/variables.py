"""Variables: which a command may set, and what those that it sets stand for."""

from __future__ import annotations

from tugtool.guard import options, programs, rules, shell
from tugtool.guard.refused import Refused, shown
from tugtool.guard.words import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.guard.rules import Role
    from tugtool.guard.shell import Simple

#: What sets or removes variables for all that follows.
SETTING = ("declare", "export", "local", "readonly", "typeset", "unset")
#: Programs that run the one named behind their options.
WRAPPERS = frozenset(
    (
        *("builtin", "command", "env", "exec", "find", "flock", "ionice", "nice", "nohup"),
        *("parallel", "setsid", "stdbuf", "strace", "time", "timeout", "watch", "xargs"),
    )
)
#: A line is read that many times at most, with one value of each variable after the other.
_MOST_READINGS = 20
#: What these stand for is known without the environment.
_KNOWN = {"PWD": ".", "TMPDIR": "/tmp"}


def refuse(role: Role, setting: str, *, leads: bool = False) -> None:
    """Refuse to set a variable; `leads` if the program behind it must be what it seems to be."""
    name = setting.partition("=")[0].removesuffix("+")
    if setting in rules.HARMLESS_SETTINGS:
        return
    if "TUGCODE_" in setting:
        raise Refused(
            f"setting {shown(name)}",
            why="tugcode's variables say who works on what, and come from whoever started you",
            instead="leave it out and run the command as it is",
        )
    lost = role.programs == rules.VIEWERS or leads
    if _is_among(name, rules.NEVER_SET) or (lost and _is_among(name, rules.NOT_SET)):
        raise Refused(
            f"setting {shown(name)}",
            why="programs would do something else than their words say",
            instead="leave it out; for git name the directory with `git -C DIR`",
        )


def _is_among(name: str, names: tuple[str, ...]) -> bool:
    below = tuple(each[:-1] for each in names if each.endswith("*"))
    return name in names or name.startswith(below)


def refuse_words(role: Role, words: list[str]) -> None:
    """Refuse a program that sets, removes or forgets what it must not."""
    name = programs.called(words)
    _refuse_forgetting(role, name, words)
    leads = programs.called(programs.inner(words)) in programs.OURS
    for word in words[1:]:
        if name in (*SETTING, "env") and UNKNOWN in word.partition("=")[0]:
            refuse(role, "TUGCODE_")
        sets = name in (*WRAPPERS, *SETTING, "read") and word[:1] != "-"
        if (sets and ("=" in word or name in SETTING)) or "TUGCODE_" in word:
            refuse(role, word, leads=leads)


def _refuse_forgetting(role: Role, name: str, words: list[str]) -> None:
    cleared = "-" in words or any(options.means(word, "--ignore-environment") for word in words)
    if (name == "env" and (cleared or _is_option(words, "i", "uCS"))) or (
        name == "exec" and _is_option(words, "c", "a")
    ):
        refuse(role, "TUGCODE_ROLE=")
    if name == "env" and options.values(words[1:], "S", "--split-string", "uC"):
        raise Refused(
            "env with a text that it splits itself",
            why="what it would run cannot be judged",
            instead="write the command out",
        )
    if name in rules.FORGETTING:
        refuse(role, "TUGCODE_ROLE=")


def _is_option(words: list[str], letter: str, takes: str) -> bool:
    """Whether an option stands in front of the program that is run."""
    before = words[1 : len(words) - len(programs.inner(words))]
    return any(letter in options.letters(word, takes) for word in before)


def readings(text: str, depth: int) -> Iterator[list[Simple]]:
    """The commands of a line: as they stand, and with what its variables can stand for."""
    found = shell.commands(text, depth, _KNOWN)
    values: dict[str, list[str]] = {}
    _collect(found, values)
    if not values:
        yield found
        return
    known = {name: value for name, value in _KNOWN.items() if name not in values}
    known |= {
        name: each[0]
        for name, each in values.items()
        if all(map(_is_temporary, each)) and not _is_set_elsewhere(name, found)
    }
    yield shell.commands(text, depth, known)
    at = 0
    # Clients do not wait long.
    most = min(_MOST_READINGS, shell.MOST_CHARACTERS // len(text))
    while at < min(most, max(map(len, values.values()))):
        known = {name: each[at % len(each)] for name, each in values.items()}
        found = shell.commands(text, depth, known)
        _collect(found, values)
        yield found
        at += 1


def _is_temporary(value: str) -> bool:
    return value.startswith("/tmp/") and UNKNOWN not in value and ".." not in value


def _is_set_elsewhere(name: str, found: list[Simple]) -> bool:
    return any(
        word == name or word.startswith((f"{name}=", f"{name}+="))
        for simple in found
        for word in simple.words[1:]
    )


def _collect(found: list[Simple], values: dict[str, list[str]]) -> None:
    for simple in found:
        settings = list(simple.assigned)
        if simple.words[:1] and simple.words[0] in SETTING:
            settings += [word for word in simple.words[1:] if "=" in word]
        if simple.words[:1] == [":"] and simple.words[2:3] == ["in"]:
            settings += [f"{simple.words[1]}={word}" for word in simple.words[3:]]
        for setting in settings:
            name, _, value = setting.partition("=")
            each = values.setdefault(name.removesuffix("+"), [])
            pieces = [UNKNOWN] if name.endswith("+") else [value, *value.split()]
            each += [piece for piece in dict.fromkeys(pieces) if piece not in each]
