"""What is known of programs by the words that they are given."""

from __future__ import annotations

from tugtool.guard import options, rules, sed

OURS = frozenset(("git", "tugcode", "tugtool"))
#: What changes how a program runs, and which of its options take the next word.
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
    """The program that words begin with, without the directory that it is in."""
    return words[0].rpartition("/")[2] if words else ""


def inner(words: list[str]) -> list[str]:
    """The command that a program runs which only changes how; itself if it is none of those."""
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
    """A program of git's own, such as `git-commit`, as the call of git that it is."""
    name = called(words)
    command = name.removeprefix("git-")
    known = command in rules.GIT_CHANGES | rules.GIT_LOOK or "git-core/" in words[0]
    return ["git", command, *words[1:]] if command != name and known else words


def parts(text: str) -> list[str]:
    """The names and numbers in a text."""
    return "".join(mark if mark.isalnum() or mark == "_" else " " for mark in text).split()


def writes(name: str, words: list[str]) -> bool:
    """Whether a program that only looks is to write a file."""
    if name in ("sort", "tree"):
        return bool(options.values(words, "o", "--output", rules.VIEWING_VALUED.get(name, "")))
    if name == "uniq":
        return len(options.plain(words, ("-f", "-s", "-w"))) > 2
    if name in ("awk", "gawk"):
        return "inplace" in words
    if name == "sed":
        return sed.Call(words[1:]).in_place
    # Letters behind these are a script's, or a module's name.
    given = (options.letters(word, "efIMmrC") for word in words[1:])
    return name in ("perl", "ruby") and any("i" in letters for letters in given)


def script(words: list[str]) -> str | None:
    """What follows a shell's -c."""
    rest = words[1:]
    inline = False
    while rest and rest[0].startswith(("-", "+")):
        word = rest.pop(0)
        inline = inline or (word[:1] == "-" != word[1:2] and "c" in word)
        if rest and (word[-1:] in "oO" or word in ("--rcfile", "--init-file")):
            rest.pop(0)
    return (rest[0] if rest else "") if inline else None


def reads_code(words: list[str]) -> bool:
    """Whether an interpreter, or make, takes its code from what it reads."""
    name = called(words)
    if name == "make":
        return not {"-", "/dev/stdin"}.isdisjoint(options.values(words[1:], "f", "--file", "C"))
    inline = ("-c", "-e", "-m", "-n", "-p")
    code = [word for word in words[1:] if word[:1] != "-" or word.startswith(inline)]
    return name.startswith(rules.INTERPRETERS) and "awk" not in name and not code


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
