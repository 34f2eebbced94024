"""What is known of programs by the words that they are given."""

from __future__ import annotations

from tugtool.guard import rules


def called(words: list[str]) -> str:
    """The program that words begin with, without the directory that it is in."""
    return words[0].rpartition("/")[2] if words else ""


def parts(text: str) -> list[str]:
    """The names and numbers in a text."""
    return "".join(mark if mark.isalnum() else " " for mark in text).split()


def never(name: str, words: list[str]) -> bool:
    """Whether a program that only looks was told to do more."""
    options = rules.VIEWING_NEVER.get(name, ())
    return any(word.partition("=")[0] in options for word in words[1:])


def writes(name: str, words: list[str]) -> bool:
    """Whether a program that only looks is to write a file."""
    if name in ("sort", "tree"):
        return never(name, words)
    if name == "uniq":
        return len([word for word in words if not word.startswith("-")]) > 2
    if name in ("awk", "gawk"):
        return "inplace" in words
    if name not in ("perl", "ruby", "sed"):
        return False
    # Letters behind these are a script's, or a module's name.
    return any("i" in _letters(word, "efIMmrC") for word in words[1:]) or never(name, words)


def _letters(word: str, last: str) -> str:
    """The short options that a word is made of, up to the first that takes the rest."""
    if word[:1] != "-" or word[1:2] == "-":
        return ""
    return word[1 : next((at for at, mark in enumerate(word) if at and mark in last), None)]


def targets(name: str, words: list[str]) -> list[str]:
    """The files that such a program would change."""
    files = [word for word in words if not word.startswith("-")]
    if name in ("awk", "gawk", "perl", "ruby", "sed"):
        return files[1:] or files
    if name in ("cp", "ln", "rsync"):
        return files[-1:]
    if name in ("chmod", "chown"):
        return files[1:]
    if name == "dd":
        return [word.removeprefix("of=") for word in files if word.startswith("of=")]
    return files


def script(words: list[str]) -> str | None:
    """What follows a shell's -c."""
    for at, word in enumerate(words[1:], 1):
        if word[:1] == "-" != word[1:2] and "c" in word:
            return words[at + 1] if at + 1 < len(words) else ""
        if not word.startswith(("-", "+")):
            return None
    return None


def module(words: list[str]) -> list[str] | None:
    """What follows `python -m tugtool`."""
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
