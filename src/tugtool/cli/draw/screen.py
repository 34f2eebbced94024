"""The terminal for a live picture: a screen of its own, single keys, no cursor.

A signal handler only records the signal. The main loop reads signals like keys, at a point
where it can restore the terminal.
"""

from __future__ import annotations

import contextlib
import select
import signal
import sys
import termios

from tugtool.errors import Unwritable
from tugtool.system import config, os
from tugtool.system.files import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Self, TextIO


_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE = "\x1b[?25h\x1b[?1049l"
#: Terminals that know these show only whole frames; others ignore them.
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"

_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGTSTP,
    signal.SIGCONT,
    signal.SIGWINCH,
)
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Screen:
    """The terminal of this process, as a context manager."""

    def __init__(self) -> None:
        self._out = sys.stdout.fileno()
        self._in = _keyboard()
        self._settings: list[Any] | None = None
        self._shown = ""
        self._before: dict[signal.Signals, Any] = {}
        self._killed_by: signal.Signals | None = None

    def __enter__(self) -> Self:
        self._wake, self._woken = os.pipe()
        for end in (self._wake, self._woken):
            os.set_blocking(end, False)
        for each in _SIGNALS:
            self._before[each] = signal.signal(each, _on_signal)
        self._wakeup = signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        try:
            self._take()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        if self._killed_by is not None:
            # End by the same signal, so that the parent sees it.
            signal.signal(self._killed_by, signal.SIG_DFL)
            os.kill(os.getpid(), self._killed_by)

    def show(self, lines: Sequence[str]) -> None:
        """Draw a frame in one write, unless it is on the screen already."""
        frame = f"{_REST_OF_LINE}\r\n".join(lines)
        if frame != self._shown:
            self._shown = frame
            self._write(f"{_BEGIN}{_HOME}{frame}{_REST_OF_LINE}{_REST_OF_SCREEN}{_END}")

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        try:
            size = os.get_terminal_size(self._out)
        except OSError:
            return 80, 24
        return size.columns or 80, size.lines or 24

    def wait(self, seconds: float) -> str:
        """Wait for `quit`, `interrupt`, `end` or `resized`; nothing after the timeout."""
        watched = [self._wake, *([self._in] if self._in is not None else [])]
        ready, _, _ = select.select(watched, [], [], max(seconds, 0))
        if self._wake in ready:
            told = self._signals(set(os.read(self._wake, 4096)))
            if told:
                return told
        return "quit" if self._in in ready and self._is_quit() else ""

    def take_signal(self) -> int:
        """The signal behind `end`; the caller that takes it ends the process itself."""
        number, self._killed_by = self._killed_by, None
        assert number is not None
        return number

    def _is_quit(self) -> bool:
        assert self._in is not None
        try:
            keys = os.read(self._in, 64)
        except OSError:
            keys = b""
        if not keys:
            # The terminal is gone; select would always report it as ready.
            self._in = None
        return b"q" in keys.lower()

    def _signals(self, numbers: set[int]) -> str:
        for each in _ENDING:
            if each in numbers:
                self._killed_by = each
                return "end"
        if signal.SIGINT in numbers:
            return "interrupt"
        if signal.SIGTSTP in numbers:
            self._pause()
        elif signal.SIGCONT in numbers:
            # We were stopped from outside, and the shell had the terminal meanwhile.
            self._enter()
        # The frame may be wrapped or erased now.
        self._shown = ""
        return "resized"

    def _pause(self) -> None:
        """Restore the terminal, suspend the process, and continue later."""
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        # The process continues here after `fg`.
        signal.signal(signal.SIGTSTP, _on_signal)
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 4096)
        self._take()

    def _take(self) -> None:
        if self._in is not None:
            self._settings = termios.tcgetattr(self._in)
        self._enter()

    def _enter(self) -> None:
        if self._in is not None:
            wanted = termios.tcgetattr(self._in)
            # Single keys without echo; Ctrl-C and Ctrl-Z stay signals.
            wanted[3] &= ~(termios.ICANON | termios.ECHO)
            wanted[6][termios.VMIN], wanted[6][termios.VTIME] = 1, 0
            termios.tcsetattr(self._in, termios.TCSADRAIN, wanted)
        self._shown = ""
        self._write(_ENTER)

    def _give_back(self) -> None:
        try:
            self._write(_LEAVE)
            if self._in is not None and self._settings is not None:
                # Discard keys that were meant for us, not for the shell.
                termios.tcsetattr(self._in, termios.TCSAFLUSH, self._settings)
        except (Unwritable, termios.error):
            # The terminal is gone.
            return

    def _close(self) -> None:
        self._give_back()
        signal.set_wakeup_fd(self._wakeup)
        for each, handler in self._before.items():
            signal.signal(each, handler)
        os.close(self._wake)
        os.close(self._woken)

    def _write(self, text: str) -> None:
        data = text.encode(sys.stdout.encoding or "utf-8", "backslashreplace")
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except OSError as error:
            raise Unwritable("the picture", reason=reason(error)) from error


def _on_signal(number: int, frame: object) -> None:
    """A handler that only wakes us; the pipe has the signal."""


def _keyboard() -> int | None:
    try:
        here = sys.stdin.fileno()
        return here if os.isatty(here) else None
    except (AttributeError, OSError, ValueError):
        return None


def folded(text: str, stream: TextIO) -> str:
    """Lines folded between words at the width of a terminal; commands can still be pasted."""
    try:
        columns = config.columns() or os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return text
    rows = [row for line in text.splitlines() for row in _fold(line, columns)]
    return "".join(f"{row}\n" for row in rows)


def _fold(line: str, columns: int) -> list[str]:
    import textwrap  # Only for people.

    indent = len(line) - len(line.lstrip())
    how: Any = {"break_long_words": False, "break_on_hyphens": False}
    how |= {"subsequent_indent": " " * (indent + 2)}
    before, name, rest = line.partition("tugcode ")
    is_command = bool(rest) and (before.endswith(": ") or not before.strip())
    if len(line) <= columns or not is_command:
        return textwrap.wrap(line, columns, **how) or [""]
    from tugtool.cli.draw.canvas import Canvas

    canvas = Canvas(columns)
    longest = max(map(len, line[len(before) :].split()))
    is_tight = before.strip() and len(before) + longest + 4 > columns
    rows = textwrap.wrap(before, columns, **how) if is_tight else []
    canvas.command(("", " " * (indent + 2) if rows else before), name + rest)
    return rows + canvas.lines
