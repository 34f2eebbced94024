"""Print answers as one JSON envelope, or as text that is safe for a terminal."""

from __future__ import annotations

import sys
from io import TextIOWrapper

from tugtool import errors
from tugtool.errors import TugError
from tugtool.system import config, os, text
from tugtool.system.files import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TextIO


SCHEMA_VERSION = "1"

#: Longer lines of user text are cut.
LONGEST = 1000


class Answer:
    """The answer of a command: data for programs, text for people, an exit status."""

    def __init__(
        self,
        data: Mapping[str, object],
        text: Callable[[], str],
        *,
        issues: Sequence[Mapping[str, object]] = (),
        status: int = 0,
        after: Callable[[], str | None] | None = None,
    ) -> None:
        self.data = data
        #: Called only when text is wanted, so that JSON pays nothing for it.
        self.text = text
        self.issues = issues
        self.status = status
        #: Called once the answer is printed; returns the error, if there was one.
        self.after = after


class Stream:
    """The answers of a command that continues: one per line, until it ends or is stopped.

    A part that is text already is printed unchanged.
    """

    def __init__(
        self, parts: Iterable[Answer | str], ended: Callable[[], int] | None = None
    ) -> None:
        self.parts = parts
        #: Called after the last part, or when the reader has gone; returns the exit status.
        self.ended = ended


def envelope(
    command: str, status: int, data: Mapping[str, object], issues: Sequence[object]
) -> str:
    """The one JSON document of a command."""
    return text.encode(
        {
            "schema_version": SCHEMA_VERSION,
            "command": command,
            "status": "error" if status else "ok",
            "data": data,
            "issues": issues,
        }
    )


def clean(text: str, longest: int = LONGEST) -> str:
    """User text as one line that is safe for a terminal."""
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    if text.isprintable():
        return text
    from tugtool.system import text as system_text

    return system_text.strip(text)


def lines(texts: Iterable[str]) -> str:
    """Lines of text, each made safe for a terminal, and folded at its width."""
    return _fit("".join(f"{clean(text)}\n" for text in texts), sys.stdout)


def answer(
    data: Mapping[str, object],
    text: str | Callable[[], str],
    issues: Sequence[Mapping[str, object]] = (),
    *,
    after: Callable[[], str | None] | None = None,
) -> Answer:
    """An answer of one line or more; issues go to standard error."""

    def words() -> str:
        print_issues(issues)
        return lines([text]) if isinstance(text, str) else text()

    return Answer(data, words, issues=issues, after=after)


def print_issues(issues: Sequence[Mapping[str, object]]) -> None:
    """Print issues on standard error."""
    for issue in issues:
        said = f"tugcode: {issue['code']}: {_block(str(issue['message']))}\n"
        said += f"  next: {_block(str(issue['hint']))}\n" if issue.get("hint") else ""
        mention(_fit(said, sys.stderr))


def say(text: str) -> bool:
    """Print results on standard output; return False if it has no reader any more."""
    # Nothing to print needs no reader.
    return not text or _write(sys.stdout, text)


def listening(seconds: float = 0) -> bool:
    """Wait a while, then return True if standard output still has a reader; write nothing."""
    from select import POLLERR, POLLHUP, poll

    asking = poll()
    descriptor = _descriptor()
    if descriptor is not None:
        asking.register(descriptor, 0)
    return not any(flags & (POLLERR | POLLHUP) for _, flags in asking.poll(seconds * 1000))


def _descriptor() -> int | None:
    """The file descriptor of standard output, if it has one; else writing fails later."""
    try:
        return sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return None


def finding(issue: Mapping[str, object]) -> str:
    """One entry of `issues` as compilers write it, so that editors find the line."""
    where = f"{issue['file']}:{issue['line']}" if "line" in issue else str(issue.get("file", ""))
    # Do not repeat a place that the message begins with.
    said = _block(str(issue["message"]).removeprefix(f"{where} "))
    text = f"{clean(where)}: {issue['severity']} {issue['code']}: {said}"
    return f"{text}\n    {_block(str(issue['hint']))}\n" if issue.get("hint") else f"{text}\n"


def complain(error: TugError) -> None:
    """A refusal, on standard error."""
    said = f"tugcode: {error.code}: {_block(error.message)}\n"
    said += f"  next: {_block(error.hint)}\n" if error.hint else ""
    mention(_fit("".join([*map(finding, error.issues()[:-1]), said]), sys.stderr))


def mention(text: str) -> None:
    """Print other news on standard error, which may have no reader."""
    try:
        _write(sys.stderr, text)
    except errors.Unwritable:
        # The exit status still says it. Silence Python's own error at exit.
        _silence(sys.stderr)


def _fit(text: str, stream: TextIO) -> str:
    """The text, folded between words if the stream is a terminal."""
    if not on_terminal(stream):
        return text
    from tugtool.cli.draw import screen

    return screen.folded(text, stream)


def _block(text: str) -> str:
    return "\n  ".join(clean(line) for line in text.split("\n"))


def _write(stream: TextIO | None, text: str) -> bool:
    if stream is None:
        raise errors.Unwritable("the answer", reason="its stream is closed")
    try:
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            # A terminal that cannot show a character gets its code, never a traceback.
            stream.reconfigure(errors="backslashreplace")
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # The reader has gone. Silence Python's own error at exit.
        _silence(stream)
        return False
    except (OSError, ValueError) as error:
        raise errors.Unwritable("the answer", reason=reason(error)) from error
    return True


def _silence(stream: TextIO | None) -> None:
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def on_terminal(*streams: TextIO | None) -> bool:
    """True if all these streams are terminals."""
    return all(stream is not None and stream.isatty() for stream in streams)


def agreed(question: str) -> bool:
    """True if the user at the terminal says yes."""
    mention(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def colour() -> bool:
    """True if standard output is a terminal and colours are allowed."""
    return on_terminal(sys.stdout) and config.colour_wanted()


#: For a file or a pipe: cut nothing, so that users can search it.
UNBOUNDED = 100_000


def width(unknown: int = UNBOUNDED) -> int:
    """The width of the output: COLUMNS, the terminal's width, or the default."""
    asked = config.columns()
    if asked:
        return asked
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (AttributeError, OSError, ValueError):
        return unknown


def remaining(steps: int) -> str:
    """The number of open steps in words."""
    return f"{text.many(steps, 'step')} remain{'s' * (steps == 1)}"
