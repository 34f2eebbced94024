"""What a script for sed does, since it can run programs and write files."""

from __future__ import annotations

from tugtool.guard import options
from tugtool.guard.words import UNKNOWN

_LONG = (
    *("--quiet", "--silent", "--regexp-extended", "--separate", "--unbuffered", "--null-data"),
    *("--zero-terminated", "--posix", "--sandbox", "--debug", "--help", "--version"),
    *("--follow-symlinks", "--expression", "--in-place", "--file", "--line-length"),
)
_SHORT = "nErsuziefl"
#: Commands with nothing but a number behind them, and those that go on to the end of the line.
_ALONE = "=dDgGhHnNpPxzF{}qQlL"
_TO_END = "aic#:btTv"
_FLAGS = "gpiIMm0123456789"


class Call:
    """A call of sed: its scripts, the files it reads, and whether it writes them."""

    def __init__(self, words: list[str]) -> None:
        self.scripts = options.values(words, "e", "--expression", "fil")
        self.files = options.plain(words, ("-e", "-f", "-l", "--expression", "--file"))
        self.from_file = bool(options.values(words, "f", "--file", "eil"))
        self.in_place = any(
            "i" in options.letters(word, "efil") or options.means(word, "--in-place")
            for word in words
        )
        self.known = all(_is_known(word) for word in words)
        if not self.scripts and not self.from_file:
            self.scripts, self.files = self.files[:1], self.files[1:]

    def is_harmless(self) -> bool:
        """Whether its scripts run nothing, and write no files of their own."""
        return self.known and _is_harmless("\n".join(self.scripts))


def _is_known(word: str) -> bool:
    if word.startswith("--"):
        return word == "--" or any(options.means(word, long) for long in _LONG)
    return all(mark in _SHORT + UNKNOWN for mark in options.letters(word, "efil"))


def _is_harmless(script: str) -> bool:
    at = 0
    while at < len(script):
        at = _address(script, at)
        if at < len(script):
            at = _command(script, at)
            if not at:
                return False
    return True


def _command(script: str, at: int) -> int:
    """Behind the command that stands here; 0 if it is none that only edits what it prints."""
    mark = script[at]
    if mark in _ALONE:
        return at + 1
    if mark in _TO_END:
        return _line(script, at, text=mark in "aic", ends=mark in ":btT")
    if mark not in "sy":
        return 0
    at = _parts(script, at + 1, 2)
    while mark == "s" and at < len(script) and script[at] in _FLAGS + UNKNOWN:
        at += 1
    return 0 if mark == "s" and script[at : at + 1] in ("e", "w") else at


def _address(script: str, at: int) -> int:
    """Behind blanks and what says which lines are meant."""
    while at < len(script):
        mark = script[at]
        if mark in " \t\n;,!~+$IM0123456789" + UNKNOWN:
            at += 1
        elif mark == "/":
            at = _parts(script, at, 1)
        elif mark == "\\":
            at = _parts(script, at + 1, 1)
        else:
            break
    return at


def _parts(script: str, at: int, count: int) -> int:
    """Behind `count` parts that end with the mark that stands here."""
    end = script[at : at + 1]
    at += 1
    while at < len(script) and count:
        if script[at] == "\\":
            at += 1
        elif script[at] == end:
            count -= 1
        at += 1
    return at


def _line(script: str, at: int, *, text: bool, ends: bool) -> int:
    """Behind the end of the line; a text goes on behind a backslash, and `;` ends a label."""
    while at < len(script) and script[at] != "\n":
        if ends and script[at] in ";}":
            return at
        at += 2 if text and script[at] == "\\" else 1
    return at + 1
