"""The files that a program would write, and those that it would take away."""

from __future__ import annotations

import os

from tugtool.guard import options, rules, sed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.guard.place import Place

#: Short options of theirs that take a value.
_CURL = "AbCdeEFhHKmPQrtTuUwxXyYz"
_WGET = "OPoaUetTwQ"
_TAR = "bCfFgHIKLNTVX"
_REMOVING = ("rm", "rmdir", "shred", "unlink")
_COPYING = ("cp", "install", "ln", "mv", "rsync")
_INTO = "--target-directory"


class Targets:
    """What a program would write, and what it would remove or move away."""

    __slots__ = ("linked", "removed", "written")

    def __init__(self, written: list[str], removed: list[str] | None = None) -> None:
        #: What can be written by another name from then on.
        self.linked: list[str] = []
        self.written = [path for path in written if path not in ("", "-")]
        self.removed = removed or []

    def __bool__(self) -> bool:
        return bool(self.written or self.removed)

    def every(self) -> list[str]:
        """All of them."""
        return self.written + self.removed


def of(name: str, words: list[str], place: Place) -> Targets:
    """What the program changes with these words behind its name."""
    if name in _REMOVING:
        return Targets([], options.plain(words))
    if name in _COPYING:
        return _copied(name, words, place)
    if name in rules.WRITING:
        return Targets(_fetched(name, words))
    if name == "find":
        return _found(words)
    return Targets(_written(name, words))


def _written(name: str, words: list[str]) -> list[str]:
    files = options.plain(words)
    if name == "sed":
        call = sed.Call(words)
        return call.files if call.in_place else []
    if name == "uniq":
        return files[1:]
    if name in ("awk", "gawk", "perl", "ruby"):
        return files[1:] or files
    if name in ("sort", "tree"):
        return options.values(words, "o", "--output", rules.VIEWING_VALUED.get(name, ""))
    if name in ("chmod", "chown"):
        return files if any(word.startswith("--ref") for word in words) else files[1:]
    if name == "dd":
        return [word.removeprefix("of=") for word in files if word.startswith("of=")]
    if name == "patch":
        return files + options.values(words, "o", "--output") + options.values(words, "d")
    return files


def _copied(name: str, words: list[str], place: Place) -> Targets:
    into = options.values(words, "t", _INTO, "S") if name != "rsync" else []
    files = options.plain(words, ("-t", _INTO, "-S", "-m", "-o", "-g", "-e", "--exclude"))
    if name == "install" and any("d" in options.letters(word, "tSmog") for word in words):
        return Targets(files)
    sources, goal = (files, into[0]) if into else (files[:-1], (*files[-1:], "")[0])
    if not sources and name == "ln":
        sources, goal = files, "."
    below = [os.path.join(goal, os.path.basename(each.rstrip("/"))) for each in sources]
    is_directory = bool(into) or goal.endswith("/") or place.is_directory(goal)
    written = below if is_directory and not _as_content(name, sources) else [goal]
    if name == "mv":
        return Targets(written, sources)
    if name == "ln":
        made = Targets(written)
        made.linked = sources
        return made
    emptied = [goal] if any(word.startswith("--del") for word in words) else []
    return Targets(written, emptied)


def _as_content(name: str, sources: list[str]) -> bool:
    """Whether it is what is in the source that goes into the goal."""
    return name == "rsync" and any(each.endswith("/") for each in sources)


def _fetched(name: str, words: list[str]) -> list[str]:
    if name == "curl":
        named = [*options.values(words, "o", "--output", _CURL)]
        named += options.values(words, "", "--output-dir")
        bare = any("O" in options.letters(word, f"{_CURL}o") for word in words)
        return named + (["."] if bare and not named else [])
    if name == "wget":
        named = [each for mark in "OPoa" for each in options.values(words, mark, "", _WGET)]
        return named or ["."]
    if name == "unzip":
        looks = any(mark in "lptvzZ" for word in words for mark in options.letters(word, "d"))
        return [] if looks else options.values(words, "d") or ["."]
    return _unpacked(words)


def _unpacked(words: list[str]) -> list[str]:
    words = [words[0] if words[0][:1] == "-" else f"-{words[0]}", *words[1:]] if words else []
    letters = "".join(options.letters(word, _TAR) for word in words)
    if "x" in letters or any(word.startswith(("--extr", "--get")) for word in words):
        return options.values(words, "C", "--directory", _TAR) or ["."]
    if "t" in letters or "--list" in words:
        return []
    return options.values(words, "f", "--file", _TAR)


def _found(words: list[str]) -> Targets:
    """Files that find writes, and where it starts if it takes away what it finds."""
    starts = []
    for word in words:
        if word.startswith(("-", "(", "!")) and word not in ("-H", "-L", "-P"):
            break
        starts.append(word)
    written = [
        (*words[at + 1 : at + 2], "")[0]
        for at, word in enumerate(words)
        if word.startswith(("-fprint", "-fls"))
    ]
    return Targets(written, starts or ["."])
