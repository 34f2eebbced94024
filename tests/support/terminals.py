"""A real process on a real pseudo-terminal, seen through a terminal emulator.

Nothing here sleeps: whoever waits, waits for output that has been observed, and not for
longer than a minute.
"""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte

PATIENCE_SECONDS = 60
MAIN, OTHER = "main", "other"


class Display(pyte.Screen):
    """What a person sees; also knows which of the two screens is shown, and the cursor."""

    def __init__(self, columns: int, lines: int) -> None:
        super().__init__(columns, lines)
        self.shown = MAIN

    def set_mode(self, *modes: int, **how: bool) -> None:
        if how.get("private") and 1049 in modes:
            self.shown = OTHER
        super().set_mode(*modes, **how)

    def reset_mode(self, *modes: int, **how: bool) -> None:
        if how.get("private") and 1049 in modes:
            self.shown = MAIN
            self.erase_in_display(2)
        super().reset_mode(*modes, **how)

    @property
    def text(self) -> str:
        return "\n".join(self._line(number) for number in range(self.lines)).rstrip()

    def _line(self, number: int) -> str:
        """As in `display`, which draws every cell; most have never been written to."""
        cells = self.buffer[number]
        drawn = (cells[column].data for column in range(max(cells, default=-1) + 1))
        # The cell after a wide character has nothing in it.
        return "".join(drawn).rstrip()

    @property
    def is_blank(self) -> bool:
        """Whether there is no text; found out without drawing it."""
        cells = (cell for line in self.buffer.values() for cell in line.values())
        return all(cell.data.isspace() or not cell.data for cell in cells)


class Terminal:
    """A process on a terminal of so many columns and lines."""

    def __init__(self, words: list[str], *, columns: int = 80, lines: int = 24, **env: str) -> None:
        self.master, self.slave = pty.openpty()
        self.display = Display(columns, lines)
        self.stream = pyte.ByteStream(self.display)
        #: What the screen looked like after each piece of output.
        self.frames: list[str] = []
        self.raw = b""
        #: How often a screen that had shown something was empty, if only for an instant.
        self.blanks = 0
        self._size(columns, lines)
        self.settings = termios.tcgetattr(self.slave)
        surroundings = {**os.environ, "TERM": "xterm-256color", **env}
        self.process = subprocess.Popen(
            words,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env=surroundings,
            # Its own session, and the terminal its own: Ctrl-C must reach it and nobody else.
            preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),
        )

    def _size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns: int, lines: int) -> None:
        """As if a person had pulled at the window; the kernel tells the process."""
        self.display.resize(lines, columns)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def until(self, seen: Callable[["Terminal"], bool]) -> None:
        """Read what the process writes until it is seen."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not seen(self):
            left = deadline - time.monotonic()
            assert left > 0, f"not seen in time; the screen is:\n{self.display.text}"
            self._read(left)

    def until_text(self, text: str) -> None:
        self.until(lambda terminal: text in terminal.display.text)

    def _read(self, seconds: float) -> None:
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            data = os.read(self.master, 1 << 16)
            self.raw += data
            # Piece by piece, as a slow terminal would show it.
            for piece in re.split(rb"(?=\x1b)", data):
                was_seen = self.display.shown == OTHER and not self.display.is_blank
                self.stream.feed(piece)
                self.blanks += was_seen and self.display.is_blank
            self.frames.append(self.display.text)

    def end(self) -> int:
        """Its exit status, once it has ended and all it wrote is read."""
        while self.process.poll() is None or select.select([self.master], [], [], 0)[0]:
            self._read(0.05)
        return self.process.returncode

    def is_as_it_was(self) -> bool:
        """Main screen, cursor, and every setting of the line."""
        return (
            self.display.shown == MAIN
            and not self.display.cursor.hidden
            and termios.tcgetattr(self.slave) == self.settings
        )

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        for end in (self.master, self.slave):
            with contextlib.suppress(OSError):
                os.close(end)


def tugcode(*words: object, at: Path) -> list[str]:
    """A command line as a process of its own."""
    return [sys.executable, "-m", "tugtool", "-C", str(at), *map(str, words)]
