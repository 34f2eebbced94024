"""What programs that change files may change."""

from __future__ import annotations

from tugtool.guard import options, paths, programs, rules, sed, targets, wild
from tugtool.guard.refused import Refused, shown
from tugtool.guard.words import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.guard.place import Place
    from tugtool.guard.rules import Role

#: Whoever has no role may make and mark the directories of the record, but not take them away.
_MAKING = ("chmod", "chown", "mkdir", "mkfifo", "touch")
#: What narrows down which files find takes.
_TESTS = ("-iname", "-ipath", "-iregex", "-name", "-path", "-regex")
_RECORD = (".tugtool", ".git", *rules.STATE_FILES, *rules.LOG_FILES)


def refuse_changed(role: Role | None, name: str, words: list[str], place: Place) -> None:
    """Refuse what must not be written, and what must not be taken away."""
    found = targets.of(name, words, place)
    for path in found.written + (found.linked if role is not None else []):
        if role is not None or name not in _MAKING:
            paths.refuse_output(role, path, place)
    narrowed = name == "find" and not set(_TESTS).isdisjoint(words)
    for path in found.removed:
        if not narrowed or _reaches_record(words):
            paths.refuse_removal(role, path, place)
        elif path not in (".", "./"):
            paths.refuse_output(role, path, place)


def _reaches_record(words: list[str]) -> bool:
    """Whether names that find looks for are those of the record."""
    if "-prune" in words:
        return False
    for at, word in enumerate(words[:-1]):
        said = words[at + 1].replace("*", UNKNOWN).replace("?", UNKNOWN)
        if word not in _TESTS or words[at - 1 : at] in (["!"], ["-not"]):
            continue
        if any(wild.may_be(part, name) for part in said.split("/") for name in _RECORD):
            return True
    return False


def refuse_changing(role: Role, name: str, words: list[str], place: Place) -> None:
    """Refuse a program whose purpose is to change files, unless it is plain which those are."""
    if name == "mkdir" and role.programs == rules.ANY:
        for path in options.plain(words, ("-m", "--mode")):
            paths.refuse_new(role, path, place)
        return
    files = targets.of(name, words, place).every()
    if role.edits != rules.WORK and (not files or UNKNOWN in "".join(files)):
        raise Refused(
            f"{shown(name)} of files that are only known when it runs",
            why=f"the {role.name} {role.task}",
            instead="write the file's name out; notes of your own go below /tmp",
        )
    refuse_script([name, *words])
    refuse_changed(role, name, words, place)


def refuse_found(role: Role, words: list[str], place: Place) -> None:
    """find takes away what it finds, or has another program do so."""
    ran = [at for at, word in enumerate(words) if word.startswith(("-exec", "-ok"))]
    if "-delete" in words or any(is_changing(programs.inner(words[at + 1 :])) for at in ran):
        if role.edits != rules.WORK:
            raise Refused(
                "changing files that find finds",
                why=f"the {role.name} {role.task}",
                instead="say in your answer what should change",
            )
        refuse_changed(role, "find", words, place)
    for path in targets.of("find", words, place).written:
        paths.refuse_output(role, path, place)


def is_changing(words: list[str]) -> bool:
    """Whether it is a program that changes files."""
    name = programs.called(words)
    return name in rules.CHANGING or programs.writes(name, words)


def refuse_added(role: Role | None, words: list[str], texts: list[str], place: Place) -> None:
    """Refuse what a program that changes files would be given by another, as far as it shows."""
    if any(is_changing(words[at:]) for at in range(1, len(words))):
        for path in (piece for text in texts for piece in text.split()):
            if not path.startswith("-"):
                paths.refuse_output(role, path, place)


def refuse_patched(role: Role | None, texts: list[str], place: Place) -> None:
    """Refuse a patch for files that the role may not edit."""
    for row in (row for text in texts for row in text.splitlines()):
        if row.startswith(("--- ", "+++ ", "rename to ", "copy to ")):
            path = row.split(" ", 1)[1].removeprefix("to ").partition("\t")[0]
            if path != "/dev/null":
                paths.refuse_output(role, path.removeprefix("a/").removeprefix("b/"), place)


def refuse_script(words: list[str]) -> None:
    """Refuse what a script for sed can do beside editing."""
    if programs.called(words) == "sed" and not sed.Call(words[1:]).is_harmless():
        raise Refused(
            "a script for `sed` that runs programs or writes files",
            why="what it would do cannot be judged",
            instead="run the command itself, or edit the file",
        )


def refuse_database(words: list[str], place: Place) -> None:
    """The state is a database, which whoever opens it by hand can change."""
    words = programs.inner(words)
    if "-m" in words[:-1] and words[words.index("-m") + 1] == "sqlite3":
        words = words[words.index("-m") + 1 :]
    if programs.called(words) not in rules.DATABASES:
        return
    for word in words[1:]:
        if word.startswith("-"):
            continue
        paths.refuse_output(None, word, place)
        if " " in word and "state.db" in word:
            paths.refuse_output(None, ".tugtool/state.db", place)
