"""The message of a commit of ours: the caller's words, and below them our trailers.

Whatever git, or we, would read as one of our trailers may only come from us.
"""

from __future__ import annotations

from tugtool import git, trailers
from tugtool.git_errors import MessageRefused

_NAMES = (trailers.STEP, trailers.PLAN, trailers.CLAIM, trailers.DASH, trailers.ROUND)
_OURS = tuple(name.lower() for name in _NAMES)


def checked(text: str, what: str = "message") -> str:
    """The words with plain line ends, or the refusal of what cannot stand in a commit."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise MessageRefused(f"the {what} is not UTF-8") from error
    if "\0" in text:
        raise MessageRefused(f"the {what} has a NUL character in it")
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n").rstrip()
    if not text.strip():
        raise MessageRefused(f"the {what} is blank")
    # Every kind of line break counts, though git knows only one.
    for number, line in enumerate(text.splitlines(), 1):
        if _is_ours(line):
            raise MessageRefused(f"line {number} of the {what} would be read as a trailer of ours")
    return text


def composed(words: str, ours: str, *, cwd: str) -> str:
    """The whole message, after git has read our trailers in it, and nothing else of ours."""
    between = "\n" if _ends_in_trailers(words) else "\n\n"
    text = f"{words}{between}{ours}"
    if between == "\n\n" and _is_plain(words, ours):
        return text
    # Without --no-divider a line of three hyphens would end the message.
    line = ("interpret-trailers", "--parse", "--no-divider")
    found = git.run(*line, cwd=cwd, given=text, settings=trailers.SETTINGS).split("\n")
    if [line for line in found if _is_ours(line)] != ours.splitlines():
        raise MessageRefused("with this message git would not read our trailers as they are")
    return text


def _is_plain(words: str, ours: str) -> bool:
    """Whether git can but read our paragraph as it is, and need not be asked.

    It looks from the end, past what may be comments of its own, up to a blank line.
    """
    values = [line.partition(": ")[2] for line in ours.splitlines()]
    kept = all(value and value == value.strip() and value.isprintable() for value in values)
    return kept and ours.isascii() and not any(line[:1] == "#" for line in words.split("\n"))


def _is_ours(line: str) -> bool:
    name, colon, _ = line.partition(":")
    return bool(colon) and name.strip().lower() in _OURS


def _ends_in_trailers(words: str) -> bool:
    """Whether the last paragraph is nothing but trailers; the first is the title, never any."""
    _, blank, last = words.rpartition("\n\n")
    lines = last.split("\n")
    return bool(blank) and not lines[0][:1].isspace() and all(map(_is_trailer, lines))


def _is_trailer(line: str) -> bool:
    name, colon, _ = line.partition(":")
    named = name.isascii() and name.replace("-", "").isalnum()
    return line[:1].isspace() or bool(colon and named)
