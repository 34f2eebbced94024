"""A terminal that is borrowed: another screen, single keys, no cursor; and given back as it was.

Signals are not acted upon where they strike but read, like keys, at a point where the
terminal can be given back whole.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios

from tugtool.errors import Unwritable
from tugtool.files import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any, Self

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE = "\x1b[?25h\x1b[?1049l"
#: Between these a terminal that knows them shows nothing half-drawn; others ignore them.
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
    """The terminal of this process, while it is entered."""

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
            self._before[each] = signal.signal(each, _heard)
        self._wakeup = signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        try:
            self._take()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()
        if self._killed_by is not None:
            # Whoever waits for this process sees what ended it.
            signal.signal(self._killed_by, signal.SIG_DFL)
            os.kill(os.getpid(), self._killed_by)

    def show(self, lines: Sequence[str]) -> None:
        """Draw a frame, in one write, if it is not the one that is there."""
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
        """`quit`, `interrupt`, `end`, `resized`, or after so many seconds nothing."""
        watched = [self._wake, *([self._in] if self._in is not None else [])]
        ready, _, _ = select.select(watched, [], [], max(seconds, 0))
        if self._wake in ready:
            told = self._signals(set(os.read(self._wake, 4096)))
            if told:
                return told
        return "quit" if self._in in ready and self._is_quit() else ""

    def take_signal(self) -> int:
        """The signal that `end` is about; whoever takes it ends by themselves, when ready."""
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
            # The terminal is gone, and would be ready to say so for ever.
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
            # Stopped without being asked: the shell has had the terminal meanwhile.
            self._enter()
        # What was drawn may have been folded or wiped away.
        self._shown = ""
        return "resized"

    def _pause(self) -> None:
        """Stop as everybody else does, with the terminal given back, and then go on."""
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        # Here again once somebody has said `fg`, which also tells us to continue.
        signal.signal(signal.SIGTSTP, _heard)
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
            # Keys one by one and unseen; Ctrl-C and Ctrl-Z stay signals.
            wanted[3] &= ~(termios.ICANON | termios.ECHO)
            wanted[6][termios.VMIN], wanted[6][termios.VTIME] = 1, 0
            termios.tcsetattr(self._in, termios.TCSADRAIN, wanted)
        self._shown = ""
        self._write(_ENTER)

    def _give_back(self) -> None:
        try:
            self._write(_LEAVE)
            if self._in is not None and self._settings is not None:
                # What was typed meanwhile was meant for us, not for the shell.
                termios.tcsetattr(self._in, termios.TCSAFLUSH, self._settings)
        except (Unwritable, termios.error):
            # A terminal that is gone needs nothing back.
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


def _heard(number: int, frame: object) -> None:
    """A signal that only wakes us; what it was is in the pipe."""


def _keyboard() -> int | None:
    try:
        here = sys.stdin.fileno()
        return here if os.isatty(here) else None
    except (AttributeError, OSError, ValueError):
        return None
