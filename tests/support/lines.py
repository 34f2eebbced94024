"""A line from other processes: what they say, and that the last of them is gone.

A FIFO is at its end when nobody holds it open any more, however they ended.
"""

import os
import select
from pathlib import Path

PATIENCE_SECONDS = 60

#: Held by itself and by a grandchild whose parent is gone.
FAMILY = 'exec 9>"$1"; (sleep 1000 & ) ; echo ready >&9; exec sleep 1000'


class Line:
    """A FIFO: `said()` is what somebody wrote into it, `ended()` when nobody holds it any more."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self.reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.heard = b""

    def said(self, word: bytes = b"ready") -> None:
        while word not in self.heard:
            assert self._more(), f"it ended, having said {self.heard!r}"

    def ended(self) -> None:
        while self._more():
            pass

    def _more(self) -> bool:
        ready, _, _ = select.select([self.reader], [], [], PATIENCE_SECONDS)
        assert ready, f"nothing in time; so far {self.heard!r}"
        data = os.read(self.reader, 4096)
        self.heard += data
        return bool(data)


def sh(script: str, *words: object) -> list[str]:
    return ["/bin/sh", "-c", script, "sh", *map(str, words)]
