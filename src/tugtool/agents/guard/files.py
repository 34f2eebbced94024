"""The files that programs write and remove."""

from __future__ import annotations

from tugtool.agents.guard import judge, programs, rules
from tugtool.agents.guard.judge import Refused, beyond, format_path
from tugtool.agents.guard.location import UNKNOWN, may_be
from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.agents.guard.location import AgentLocation
    from tugtool.agents.guard.rules import Role


#: Short options of these programs that take a value.
_CURL = "AbCdeEFhHKmPQrtTuUwxXyYz"
_WGET = "OPoaUetTwQ"
_TAR = "bCfFgHIKLNTVX"
_REMOVING = ("rm", "rmdir", "shred", "unlink")
_COPYING = ("cp", "install", "ln", "mv", "rsync")
_INTO = "--target-directory"


class Targets:
    """The files that a program would write, and those that it would remove or move."""

    __slots__ = ("linked", "removed", "written")

    def __init__(
        self, written: list[str], removed: list[str] | None = None, linked: list[str] | None = None
    ) -> None:
        self.written = [path for path in written if path not in ("", "-")]
        self.removed = removed or []
        #: Files that get another name, under which they can be written later.
        self.linked = linked or []


def of(name: str, words: list[str], place: AgentLocation) -> Targets:
    """The files that the program changes when it has these arguments."""
    if name in _REMOVING:
        return Targets([], programs.plain(words))
    if name in _COPYING:
        return _copied(name, words, place)
    if name in rules.WRITING:
        return Targets(_fetched(name, words))
    if name == "find":
        return _found(words)
    return Targets(_written(name, words))


def _written(name: str, words: list[str]) -> list[str]:
    files = programs.plain(words)
    if name == "sed":
        call = programs.sed(words)
        return call.files if call.in_place else []
    if name in ("awk", "gawk", "perl", "ruby", "uniq"):
        return programs.plain(words, ("-i",) if "awk" in name else ())[1:]
    if name in ("sort", "tree"):
        return programs.values(words, "o", "--output", rules.VIEWING_VALUED.get(name, ""))
    if name in ("chmod", "chown"):
        # A mode such as -x looks like an option.
        named = any(word.startswith(("--ref", "-r", "-w", "-x", "-X")) for word in words)
        return files if named else files[1:]
    if name == "dd":
        return [word.removeprefix("of=") for word in files if word.startswith("of=")]
    if name == "patch":
        return files + programs.values(words, "o", "--output") + programs.values(words, "d")
    return files


def _copied(name: str, words: list[str], place: AgentLocation) -> Targets:
    into = programs.values(words, "t", _INTO, "S") if name != "rsync" else []
    files = programs.plain(words, ("-t", _INTO, "-S", "-m", "-o", "-g", "-e", "--exclude"))
    if name == "install" and any("d" in programs.flag_letters(word, "tSmog") for word in words):
        return Targets(files)
    sources, goal = (files, into[0]) if into else (files[:-1], (*files[-1:], "")[0])
    if not sources and name == "ln":
        sources, goal = files, "."
    below = [os.path.join(goal, os.path.basename(each.rstrip("/"))) for each in sources]
    is_directory = bool(into) or goal.endswith("/") or place.is_directory(goal)
    # What is in such a source goes into the goal, not the source itself.
    content = name == "rsync" and any(each.endswith("/") for each in sources)
    written = below if is_directory and not content else [goal]
    if name == "mv":
        return Targets(written, sources)
    if name == "ln":
        return Targets(written, linked=sources)
    emptied = [goal] if any(word.startswith("--del") for word in words) else []
    return Targets(written, emptied)


def _fetched(name: str, words: list[str]) -> list[str]:
    if name == "curl":
        named = [*programs.values(words, "o", "--output", _CURL)]
        named += programs.values(words, "", "--output-dir")
        bare = any("O" in programs.flag_letters(word, f"{_CURL}o") for word in words)
        return named + (["."] if bare and not named else [])
    if name == "wget":
        named = [each for mark in "OPoa" for each in programs.values(words, mark, "", _WGET)]
        return named or ["."]
    if name == "unzip":
        looks = any(mark in "lptvzZ" for word in words for mark in programs.flag_letters(word, "d"))
        return [] if looks else programs.values(words, "d") or ["."]
    return _unpacked(words)


def _unpacked(words: list[str]) -> list[str]:
    words = [words[0] if words[0][:1] == "-" else f"-{words[0]}", *words[1:]] if words else []
    letters = "".join(programs.flag_letters(word, _TAR) for word in words)
    if "x" in letters or any(word.startswith(("--extr", "--get")) for word in words):
        return programs.values(words, "C", "--directory", _TAR) or ["."]
    if "t" in letters or "--list" in words:
        return []
    return programs.values(words, "f", "--file", _TAR)


def _found(words: list[str]) -> Targets:
    """The files that find writes, and the directories in which it searches."""
    starts = []
    for word in words:
        if word.startswith(("-", "(", "!")) and word not in ("-H", "-L", "-P"):
            break
        starts.append(word)
    pairs = zip(words, [*words[1:], ""], strict=False)
    written = [path for word, path in pairs if word.startswith(("-fprint", "-fls"))]
    return Targets(written, starts or ["."])


#: A caller without a role may make the record's directories and set their modes.
_MAKING = ("chmod", "chown", "mkdir", "mkfifo", "touch")
#: Tests that limit the files that find finds.
_TESTS = ("-iname", "-ipath", "-iregex", "-name", "-path", "-regex")
_RECORD = (".tugtool", ".git", *rules.STATE_FILES, *rules.LOG_FILES)


def refuse_changed(role: Role | None, name: str, words: list[str], place: AgentLocation) -> None:
    """Refuse to write or remove a file that the caller may not write or remove."""
    found = of(name, words, place)
    for path in found.written + (found.linked if role is not None else []):
        if role is not None or name not in _MAKING:
            judge.refuse_output(role, path, place)
    narrowed = name == "find" and not set(_TESTS).isdisjoint(words)
    for path in found.removed:
        if not narrowed or _reaches_record(words):
            judge.refuse_removal(role, path, place)
        else:
            judge.refuse_output(role, path, place)


def _reaches_record(words: list[str]) -> bool:
    """True if the names that find looks for can be names in the record."""
    if "-prune" in words:
        return False
    for at, word in enumerate(words[:-1]):
        said = words[at + 1].replace("*", UNKNOWN).replace("?", UNKNOWN)
        if word not in _TESTS or words[at - 1 : at] in (["!"], ["-not"]):
            continue
        if any(may_be(part, name) for part in said.split("/") for name in _RECORD):
            return True
    return False


def refuse_changing(role: Role, name: str, words: list[str], place: AgentLocation) -> None:
    """Refuse a program that changes files, unless it names files that the role may change."""
    if name == "mkdir" and role.programs == rules.ANY:
        for path in programs.plain(words, ("-m", "--mode")):
            judge.refuse_new(role, path, place)
        return
    found = of(name, words, place)
    files = found.written + found.removed
    if role.edits != rules.WORK and (not files or UNKNOWN in "".join(files)):
        what = f"{format_path(name)} of files whose names are only known when it runs"
        other = "write the file's name out; notes of your own go below /tmp"
        raise beyond(role, what, instead=other)
    if not files:
        judge.refuse_outside(role, ".", place)
    refuse_script([name, *words])
    refuse_changed(role, name, words, place)


def refuse_found(role: Role, words: list[str], place: AgentLocation) -> None:
    """Refuse a find that deletes files, or runs a program that changes them."""
    ran = [at for at, word in enumerate(words) if word.startswith(("-exec", "-ok"))]
    if "-delete" in words or any(is_changing(programs.inner(words[at + 1 :])) for at in ran):
        if role.edits != rules.WORK:
            what, other = "changing files that find finds", "say in your answer what should change"
            raise beyond(role, what, instead=other)
        refuse_changed(role, "find", words, place)
    for path in of("find", words, place).written:
        judge.refuse_output(role, path, place)


def is_changing(words: list[str]) -> bool:
    """True if the program changes files."""
    name = programs.called(words)
    return name in rules.CHANGING or programs.writes(name, words)


def refuse_added(
    role: Role | None, words: list[str], texts: list[str], place: AgentLocation
) -> None:
    """Refuse the files that another program hands to one that changes files, if they are known."""
    if any(is_changing(words[at:]) for at in range(1, len(words))):
        for path in (piece for text in texts for piece in text.split()):
            if not path.startswith("-") and _is_path(path, place):
                judge.refuse_output(role, path, place)


def _is_path(text: str, place: AgentLocation) -> bool:
    """True if the text may be a file; a missing path such as `/api/v1` is a search text."""
    if UNKNOWN in text or not text.startswith(("/", "../", "~")):
        return True
    return os.path.lexists(place.names(text)[0])


def refuse_patched(role: Role | None, texts: list[str], place: AgentLocation) -> None:
    """Refuse a patch for files that the role may not edit."""
    for row in (row for text in texts for row in text.splitlines()):
        if row.startswith(("--- ", "+++ ", "rename to ", "copy to ")):
            path = row.split(" ", 1)[1].removeprefix("to ").partition("\t")[0]
            if path != "/dev/null":
                judge.refuse_output(role, path.removeprefix("a/").removeprefix("b/"), place)


def refuse_script(words: list[str]) -> None:
    """Refuse a sed script that does more than edit."""
    if programs.called(words) == "sed" and not programs.sed(words[1:]).is_harmless():
        raise Refused(
            "a script for `sed` that runs programs or writes files",
            why="what it would do cannot be judged",
            instead="run the command itself, or edit the file",
        )


def refuse_database(words: list[str], place: AgentLocation) -> None:
    """Refuse to open the state, a database, in the shell of a database."""
    words = programs.inner(words)
    if "-m" in words[:-1] and words[words.index("-m") + 1] == "sqlite3":
        words = words[words.index("-m") + 1 :]
    if programs.called(words) not in rules.DATABASES:
        return
    for word in words[1:]:
        if word.startswith("-"):
            continue
        judge.refuse_output(None, word, place)
        if " " in word and "state.db" in word:
            judge.refuse_output(None, ".tugtool/state.db", place)
