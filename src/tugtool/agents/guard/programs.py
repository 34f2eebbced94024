"""Facts about programs, by the words of their command lines."""

from __future__ import annotations

from tugtool.agents.guard import rules, shell
from tugtool.agents.guard.judge import Refused, format_path
from tugtool.agents.guard.location import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.agents.guard.calls import SedCall
    from tugtool.agents.guard.rules import Role
    from tugtool.agents.guard.shell import Simple


def flag_letters(word: str, takes: str = "") -> str:
    """The letters of a word of short options, up to the first that takes a value."""
    if word[:1] != "-" or word[1:2] == "-":
        return ""
    end = next((at for at, mark in enumerate(word) if at and mark in takes), len(word))
    return word[1 : end + 1]


def means(word: str, long: str) -> bool:
    """True if a word is that long option, or an abbreviation of it."""
    name = word.partition("=")[0]
    return name == long or (len(name) > 2 and name[:2] == "--" and long.startswith(name))


def values(words: list[str], short: str, long: str = "", takes: str = "") -> list[str]:
    """The values of an option; `takes` are the other options that have a value."""
    found = []
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if word == "--":
            break
        if long and means(word, long):
            found.append(word.partition("=")[2] or following)
        elif short and short in flag_letters(word, takes + short):
            found.append(word[word.index(short, 1) + 1 :] or following)
    return found


def plain(words: list[str], takes: tuple[str, ...] = ()) -> list[str]:
    """The words that are neither options nor values of the options in `takes`."""
    found: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return found + words[at + 1 :]
        if word in takes:
            at += 1
        elif not word.startswith("-") or word == "-":
            found.append(word)
        at += 1
    return found


def sed(words: list[str]) -> SedCall:
    """The call of sed with these arguments."""
    # Not at the top: most commands are not sed.
    from tugtool.agents.guard.calls import SedCall

    return SedCall(words)


OURS = frozenset(("git", "tugcode", "tugcode-python", "tugtool"))
#: Programs that run another one, and their options that take the next word.
_TAKES = {
    "builtin": (),
    "command": (),
    "env": ("-C", "--chdir", "-u", "--unset"),
    "exec": ("-a",),
    "flock": ("-E", "-w", "--timeout"),
    "ionice": ("-c", "-n"),
    "nice": ("-n", "--adjustment"),
    "nohup": (),
    "setsid": (),
    "stdbuf": ("-e", "-i", "-o"),
    "time": ("-f", "-o"),
    "timeout": ("-k", "-s", "--kill-after", "--signal"),
}


def called(words: list[str]) -> str:
    """The name of the program that the words call, without its directory."""
    name = words[0].rpartition("/")[2] if words else ""
    # `tugcode` starts this script.
    return "tugcode" if name == "tugcode-python" else name


def inner(words: list[str]) -> list[str]:
    """The command inside wrappers such as `env` and `nice`, without the wrappers."""
    for _ in range(len(words)):
        name = called(words)
        if name not in _TAKES:
            break
        at = 1
        while at < len(words) and (words[at][:1] == "-" or "=" in words[at].partition("/")[0]):
            at += 2 if words[at] in _TAKES[name] else 1
        words = words[at + 1 if name in ("flock", "timeout") else at :]
    return words


def as_git(words: list[str]) -> list[str]:
    """The words with a program such as `git-commit` written as `git commit`."""
    name = called(words)
    command = name.removeprefix("git-")
    if name == "hub":
        return ["git", *words[1:]]
    known = command in rules.GIT_CHANGES | rules.GIT_LOOK or "git-core/" in words[0]
    return ["git", command, *words[1:]] if command != name and known else words


def parts(text: str) -> list[str]:
    """The names and numbers in a text."""
    return "".join(mark if mark.isalnum() or mark == "_" else " " for mark in text).split()


def writes(name: str, words: list[str]) -> bool:
    """True if a program that normally only reads would write a file."""
    if name in ("sort", "tree"):
        return bool(values(words, "o", "--output", rules.VIEWING_VALUED.get(name, "")))
    if name == "uniq":
        return len(plain(words, ("-f", "-s", "-w"))) > 2
    if name in ("awk", "gawk"):
        return "inplace" in words
    if name == "sed":
        return sed(words[1:]).in_place
    # The letters after these options are a script or a module's name.
    given = (flag_letters(word, "efIMmrC") for word in words[1:])
    return name in ("perl", "ruby") and any("i" in letters for letters in given)


def script(words: list[str]) -> str | None:
    """The text after a shell's -c; None without -c."""
    rest = words[1:]
    inline = False
    while rest and rest[0].startswith(("-", "+")):
        word = rest.pop(0)
        inline = inline or (word[:1] == "-" != word[1:2] and "c" in word)
        if rest and (word[-1:] in "oO" or word in ("--rcfile", "--init-file")):
            rest.pop(0)
    return (rest[0] if rest else "") if inline else None


def reads_code(words: list[str]) -> bool:
    """True if an interpreter, or make, reads its code from standard input."""
    name = called(words)
    if name == "make":
        return not {"-", "/dev/stdin"}.isdisjoint(values(words[1:], "f", "--file", "C"))
    inline = ("-c", "-e", "-m", "-n", "-p")
    code = [word for word in words[1:] if word[:1] != "-" or word.startswith(inline)]
    return name.startswith(rules.INTERPRETERS) and "awk" not in name and not code


def module(words: list[str]) -> list[str] | None:
    """The words after `python -m tugtool`; None for another call."""
    for at, word in enumerate(words[1:], 1):
        if words[at - 1] in ("-W", "-X"):
            continue
        if word.startswith("-m") and not word.startswith("--"):
            rest = words[at + 1 :] if word == "-m" else [word[2:], *words[at + 1 :]]
            named = rest[:1] and rest[0].partition(".")[0] == "tugtool"
            return rest[1:] if named else None
        if not word.startswith("-"):
            return None
    return None


def does_more(name: str, words: list[str]) -> bool:
    """True if an option makes a reading program run or change something."""
    rest, never = words[1:], rules.VIEWING_NEVER.get(name, ())
    if name == "sed":
        call = sed(rest)
        return call.from_file or call.in_place or not call.is_harmless()
    if name == "find":
        return any(word.startswith(never) for word in rest)
    valued = ("-d", "--date", "-f", "--file", "-r", "--reference")
    if name == "date" and any(word[:1] not in "+-" for word in plain(rest, valued)):
        return True
    if name == "set":
        letters = {mark for word in rest for mark in flag_letters(word)}
        return not letters <= set("efuxvo") or not {"allexport", "keyword"}.isdisjoint(rest)
    return any(_is(word, option, name) for option in never for word in rest)


def _is(word: str, never: str, name: str) -> bool:
    if never.startswith("--"):
        return means(word, never)
    return never[1:] in flag_letters(word, rules.VIEWING_VALUED.get(name, "") + never[1:])


#: Commands that change the directory.
MOVING = ("cd", "popd", "pushd")
#: Commands that set or remove variables.
SETTING = ("declare", "export", "local", "readonly", "typeset", "unset")
#: Programs that run the program in their arguments.
WRAPPERS = frozenset((*_TAKES, "find", "parallel", "strace", "watch", "xargs"))
#: A line is read at most so often, with one value of each variable after the other.
_MOST_READINGS = 20
#: Variables whose meaning is known without the environment.
_KNOWN = {"PWD": ".", "TMPDIR": "/tmp", "HOME": "~"}


def refuse(role: Role, setting: str, *, leads: bool = False) -> None:
    """Refuse to set a variable; `leads` if the program after it must be the real one."""
    name = setting.partition("=")[0].removesuffix("+")
    if setting in rules.HARMLESS_SETTINGS:
        return
    if "TUGCODE_" in setting:
        raise Refused(
            f"setting {format_path(name)}",
            why="tugcode's variables say who works on what; the program that started you sets them",
            instead="leave it out and run the command as it is",
        )
    lost = role.programs == rules.VIEWERS or leads
    if is_among(name, rules.NEVER_SET) or (lost and is_among(name, rules.NOT_SET)):
        raise Refused(
            f"setting {format_path(name)}",
            why="programs could do something else than their words say",
            instead="leave it out; for git name the directory with `git -C DIR`",
        )


def is_among(name: str, names: tuple[str, ...]) -> bool:
    """True if the name is one of the names; a star at the end matches any ending."""
    below = tuple(each[:-1] for each in names if each.endswith("*"))
    return name in names or name.startswith(below)


def refuse_words(role: Role, words: list[str]) -> None:
    """Refuse a program that sets, removes or drops variables that it must keep."""
    name = called(words)
    _refuse_forgetting(role, name, words)
    leads = called(inner(words)) in OURS
    for word in words[1:]:
        if name in (*SETTING, "env") and UNKNOWN in word.partition("=")[0]:
            refuse(role, "TUGCODE_")
        sets = name in (*WRAPPERS, *SETTING, "read") and word[:1] != "-"
        if (sets and ("=" in word or name in SETTING)) or "TUGCODE_" in word:
            refuse(role, word, leads=leads)


def _refuse_forgetting(role: Role, name: str, words: list[str]) -> None:
    cleared = "-" in words or any(means(word, "--ignore-environment") for word in words)
    if (name == "env" and (cleared or _is_option(words, "i", "uCS"))) or (
        name == "exec" and _is_option(words, "c", "a")
    ):
        refuse(role, "TUGCODE_ROLE=")
    if name == "env" and values(words[1:], "S", "--split-string", "uC"):
        raise Refused(
            "env with a text that it splits itself",
            why="what it would run cannot be judged",
            instead="write the command out",
        )
    if name in rules.FORGETTING:
        refuse(role, "TUGCODE_ROLE=")


def _is_option(words: list[str], letter: str, takes: str) -> bool:
    """True if a wrapper has the option."""
    before = words[1 : len(words) - len(inner(words))]
    return any(letter in flag_letters(word, takes) for word in before)


def readings(text: str, depth: int) -> Iterator[list[Simple]]:
    """The commands of a line: as written, and with the values of its variables."""
    found = shell.commands(text, depth, _KNOWN)
    values: dict[str, list[str]] = {}
    _collect(found, values)
    if not values:
        yield found
        return
    known = {name: value for name, value in _KNOWN.items() if name not in values}
    first = _set_first(found)
    known |= {
        name: each[0]
        for name, each in values.items()
        if (all(map(_is_temporary, each)) or (name in first and len(each) == 1))
        and not _is_set_elsewhere(name, found)
    }
    yield shell.commands(text, depth, known)
    at = 0
    # Limit the time, because clients do not wait long.
    most = min(_MOST_READINGS, shell.MOST_CHARACTERS // len(text))
    while at < min(most, max(map(len, values.values()))):
        known = {name: each[at % len(each)] for name, each in values.items()}
        found = shell.commands(text, depth, known)
        _collect(found, values)
        yield found
        at += 1


def _is_temporary(value: str) -> bool:
    return value.startswith("/tmp/") and UNKNOWN not in value and ".." not in value


def _set_first(found: list[Simple]) -> list[str]:
    """The variables that the line sets first, and so sets in any case."""
    names: list[str] = []
    for simple in found:
        if simple.words or simple.scope:
            break
        names += [setting.partition("=")[0] for setting in simple.assigned]
    return names


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
