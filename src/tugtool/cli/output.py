"""How answers leave: one JSON envelope, or text that cannot disturb a terminal."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

from tugtool import config, jsontext
from tugtool.errors import TugError, Unwritable
from tugtool.files import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TextIO

SCHEMA_VERSION = "1"

#: Longer lines of user text are cut: nobody reads a title of a megabyte.
LONGEST = 1000


class Answer:
    """What a command returns: data for programs, text for people, an exit status."""

    __slots__ = ("after", "data", "issues", "status", "text")

    def __init__(
        self,
        data: Mapping[str, object],
        text: Callable[[], str],
        *,
        issues: Sequence[Mapping[str, object]] = (),
        status: int = 0,
        after: Callable[[], None] | None = None,
    ) -> None:
        self.data = data
        #: Called only when text is wanted, so that JSON pays nothing for it.
        self.text = text
        self.issues = issues
        self.status = status
        #: What is left to do once the answer is out, and nobody need wait for.
        self.after = after


class Stream:
    """What a command returns that goes on: one answer per line, until it ends or is stopped.

    A part that is text already goes out as it is.
    """

    __slots__ = ("ended", "parts")

    def __init__(
        self, parts: Iterable[Answer | str], ended: Callable[[], int] | None = None
    ) -> None:
        self.parts = parts
        #: Called when no part is left, or nobody reads them: what is left to do; exit status.
        self.ended = ended


def envelope(
    command: str, status: int, data: Mapping[str, object], issues: Sequence[object]
) -> str:
    """The one JSON document of a command."""
    return jsontext.encode(
        {
            "schema_version": SCHEMA_VERSION,
            "command": command,
            "status": "error" if status else "ok",
            "data": data,
            "issues": issues,
        }
    )


def clean(text: str, longest: int = LONGEST) -> str:
    """User text as one line without anything that could act on a terminal."""
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    if text.isprintable():
        return text
    from tugtool.cli import terminal

    return terminal.strip(text)


def say(text: str) -> bool:
    """Results, on standard output; whether anybody still reads it."""
    # Who has nothing to say need not ask whether anybody listens.
    return not text or _write(sys.stdout, text)


def listening(seconds: float = 0) -> bool:
    """Whether anybody can still read standard output, after waiting a while; without writing."""
    from select import POLLERR, POLLHUP, poll

    asking = poll()
    descriptor = _descriptor()
    if descriptor is not None:
        asking.register(descriptor, 0)
    return not any(flags & (POLLERR | POLLHUP) for _, flags in asking.poll(seconds * 1000))


def _descriptor() -> int | None:
    """Standard output as the system knows it; where it does not, writing will tell."""
    try:
        return sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return None


def finding(issue: Mapping[str, object]) -> str:
    """One entry of `issues` the way compilers write it, so that editors can follow."""
    where = f"{issue['file']}:{issue['line']}" if "line" in issue else str(issue.get("file", ""))
    # A message that begins with the place need not say it twice.
    said = _block(str(issue["message"]).removeprefix(f"{where} "))
    text = f"{clean(where)}: {issue['severity']} {issue['code']}: {said}"
    return f"{text}\n    {_block(str(issue['hint']))}\n" if issue.get("hint") else f"{text}\n"


def complain(error: TugError) -> None:
    """A refusal, on standard error."""
    for issue in error.issues()[:-1]:
        mention(finding(issue))
    mention(f"tugcode: {error.code}: {_block(error.message)}\n")
    if error.hint:
        mention(f"  next: {_block(error.hint)}\n")


def mention(text: str) -> None:
    """Anything else a person should know, on standard error; nobody may be listening."""
    try:
        _write(sys.stderr, text)
    except Unwritable:
        # The exit status still says it; Python would complain again when it exits.
        _silence(sys.stderr)


def _block(text: str) -> str:
    return "\n  ".join(clean(line) for line in text.split("\n"))


def _write(stream: TextIO | None, text: str) -> bool:
    if stream is None:
        raise Unwritable("the answer", reason="its stream is closed")
    try:
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            # A terminal that cannot show a character gets its code, never a traceback.
            stream.reconfigure(errors="backslashreplace")
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # The reader has seen enough. Python would complain again when it exits.
        _silence(stream)
        return False
    except (OSError, ValueError) as error:
        raise Unwritable("the answer", reason=reason(error)) from error
    return True


def _silence(stream: TextIO | None) -> None:
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def colour() -> bool:
    """Whether standard output is a terminal that may be coloured."""
    return sys.stdout is not None and sys.stdout.isatty() and config.colour_wanted()


#: For a file or a pipe: nothing is cut that somebody may want to search.
UNBOUNDED = 100_000


def width() -> int:
    """Columns to write for: as asked, as wide as the terminal, or as wide as it takes."""
    asked = config.columns()
    if asked:
        return asked
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (AttributeError, OSError, ValueError):
        return UNBOUNDED
