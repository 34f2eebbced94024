"""Which calls of git only look, and which of those that reach further are plain enough."""

from __future__ import annotations

from tugtool.guard import options, rules
from tugtool.guard.words import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.guard.place import Place

#: Options that take the next word.
_VALUED = ("--sort", "--format", "--prefix", "--path", "-t", "--depth", "-b", "--branch")
#: With one of these a list is asked for, and names are patterns.
_LISTS = ("--list", "-l", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
_SCOPES = (
    *("--global", "--local", "--system", "--worktree", "--show-origin", "--show-scope", "-z"),
    *("--null", "--includes", "--bool", "--int", "--path", "--name-only"),
)


def only_looks(name: str, rest: list[str]) -> bool:
    """Whether the command changes nothing with these words behind it."""
    before = rest[: rest.index("--")] if "--" in rest else rest
    if any(options.means(word, never) for word in before for never in rules.GIT_NEVER):
        return False
    if name == "grep":
        return not any("O" in options.letters(word, "efABCmO") for word in before)
    if name in rules.GIT_LOOK:
        return True
    if name == "config":
        return _asks(before)
    if name == "format-patch":
        written = (*options.values(before, "o", "--output-directory"),)
        return "--stdout" in before and not written
    if name in rules.GIT_LOOK_OPTIONS:
        return _lists(name, before)
    return name in rules.GIT_LOOK_WITH and _first(name, rest) in rules.GIT_LOOK_WITH[name]


def _first(name: str, rest: list[str]) -> str:
    # What stands behind the option would be done all the same.
    skipped = [word for word in rest if word not in ("-v", "--verbose")]
    words = skipped if name == "remote" else rest
    return words[0] if words else ""


def _asks(words: list[str]) -> bool:
    """Whether a setting is read: a way to read is named, or there is a name and no value."""
    first = next((word for word in words if word not in _SCOPES), "")
    if first in rules.GIT_LOOK_WITH["config"]:
        return True
    others = [word for word in words if word not in _SCOPES]
    return len(others) == 1 and "." in first and first[0] not in "-" + UNKNOWN


def _lists(name: str, words: list[str]) -> bool:
    allowed = rules.GIT_LOOK_OPTIONS[name]
    given = [word.partition("=")[0] for word in words if word.startswith("-")]
    names = options.plain(words, _VALUED)
    if not all(each in allowed or _is_count(name, each) for each in given):
        return False
    if name in ("branch", "tag"):
        # A name behind other options would be made.
        return not names or any(each in _LISTS for each in given)
    return name != "symbolic-ref" or len(names) == 1


def _is_count(name: str, word: str) -> bool:
    return name == "tag" and word[:2] == "-n" and word[2:].isdecimal()


def is_plain_exchange(name: str, rest: list[str]) -> bool:
    """Whether a push or fetch names a remote and a branch, and nothing that would force it."""
    given = [word for word in rest if word.startswith("-")]
    names = [word for word in rest if not word.startswith("-")]
    if any(word not in rules.REMOTE_OPTIONS[name] for word in given):
        return False
    if any(mark in word for word in names for mark in ":+^*" + UNKNOWN):
        return False
    remote = not names or not names[0].startswith(("/", ".", "~"))
    return remote and (len(names) == 2 if name == "push" else len(names) <= 2)


def is_apart(name: str, rest: list[str], place: Place) -> bool:
    """Whether a repository is made below the temporary directories, from what is here."""
    given = [word.partition("=")[0] for word in rest if word.startswith("-")]
    names = options.plain(rest, (*_VALUED, "--initial-branch"))
    if any(word not in rules.APART_OPTIONS[name] for word in given):
        return False
    if name == "init":
        return place.is_apart(place.names(names[0] if names else "."))
    local = len(names) == 2 and ":" not in names[0]
    return local and place.is_apart(place.names(names[1]))
