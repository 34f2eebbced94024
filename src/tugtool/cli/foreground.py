"""A command in our place: signals that reach us reach it, and the terminal is its own meanwhile."""

from __future__ import annotations

import os
import signal
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from tugtool.child import Child

#: What somebody may send us and mean the command. One that we ignore, it ignores too.
PASSED_ON = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
    signal.SIGTSTP,
)
#: A terminal suspends by these; it was asked to, or it wants a terminal that is not its own.
_WANTS_TERMINAL = (signal.SIGTTIN, signal.SIGTTOU)
_BY_TERMINAL = (signal.SIGTSTP, *_WANTS_TERMINAL)


class Foreground:
    """Between us and a command, for as long as it runs."""

    def __init__(self) -> None:
        self._running: Child | None = None
        self._early: list[int] = []
        self._continued = False
        self._before: dict[int, object] = {}
        self._terminal = _terminal()
        self._settings: list[Any] = []
        #: The group that has the terminal for now; whether the command is to have it.
        self._lent, self._wanted = 0, False

    def __enter__(self) -> Foreground:
        # An inherited "ignore" would keep us from ever learning how the command ended.
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._before[signal.SIGCONT] = signal.signal(signal.SIGCONT, self._continue)
        for number in PASSED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._pass_on)
        return self

    def __exit__(self, *_: object) -> None:
        self._take_back()
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # it was one
        if self._terminal is not None:
            os.close(self._terminal)

    def lend(self, group: int) -> None:
        """Before the command runs: where we read from and write to a terminal, so shall it."""
        # Not with our output in a pipe: a pager at its end needs the terminal, until the
        # command asks for it.
        self._wanted = os.isatty(0) and os.isatty(1)
        self._lend(group)

    def watch(self, running: Child) -> None:
        """From now on signals are for the command; also those that came too early."""
        self._running = running
        for number in self._early:
            running.send(number)

    def follow(self) -> None:
        """Be suspended with the command, and let it go on when we do."""
        running = self._running
        if running is None:
            return
        if self._continued:
            self._continued = False
            self._lend(running.group)
            running.resume()
        elif running.suspended_by in _BY_TERMINAL and self._terminal is not None:
            asks = running.suspended_by in _WANTS_TERMINAL
            self._wanted = self._wanted or asks
            if not (asks and self._is_in_front()):
                _suspend_job()
            # Not at once: whose claim was lost meanwhile must not go on.
            self._continued = True
            running.wake()

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        if self._running is None:
            self._early.append(number)
        else:
            self._running.send(number)

    def _continue(self, _number: int, _: FrameType | None) -> None:
        self._continued = True
        if self._running is not None:
            self._running.wake()

    def _is_in_front(self) -> bool:
        if self._terminal is None:
            return False
        try:
            return os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:
            return False

    def _lend(self, group: int) -> None:
        if self._terminal is not None and self._wanted and self._is_in_front():
            self._settings = self._settings or termios.tcgetattr(self._terminal)
            _put_in_front(self._terminal, group)
            self._lent = group

    def _take_back(self) -> None:
        if self._terminal is None or not self._lent:
            return
        try:
            if os.tcgetpgrp(self._terminal) != self._lent:
                return  # somebody else has it by now
            _put_in_front(self._terminal, os.getpgrp())
            if self._running is not None and self._running.killed_by is not None:
                # It had no time to leave the terminal as it found it.
                termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._settings)
        except (OSError, termios.error):
            return  # the terminal is gone
        finally:
            self._lent = 0


def _terminal() -> int | None:
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None


def _put_in_front(terminal: int, group: int) -> None:
    # Who is in the background and asks for the terminal would be suspended.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        os.tcsetpgrp(terminal, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _suspend_job() -> None:
    """Stop as the shell expects it: the whole job, of which we may be a part."""
    before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    # Nothing happens where nobody could continue us; then we go on at once.
    os.killpg(0, signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, before)
