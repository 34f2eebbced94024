"""A git that may outlive whoever started it: its process is written down while it runs.

Kill a command, and the git that it started goes on, and commits or checks out minutes
later. Whoever comes next has to know before it takes anything for finished or undone.
"""

from __future__ import annotations

import os

from tugtool import holder, jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Note:
    """Which process is at it, in a small file of git's directory."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, pid: int) -> None:
        """It runs now. Not forced to the disk: after a power cut it does not run."""
        try:
            with open(self.path, "w", encoding="utf-8") as file:
                file.write(jsontext.encode(process(pid)))
        except OSError:
            # The disk is full: git will say so itself, and nobody is to wait for this.
            return

    def drop(self) -> None:
        """It has ended, and whoever started it has seen that."""
        if self.is_there():
            os.unlink(self.path)

    def is_there(self) -> bool:
        """Whether a process was written down and not dropped, running or not."""
        return os.path.lexists(self.path)

    def running(self) -> int | None:
        """The process, if it provably still runs."""
        import json  # Only after a crash.

        try:
            with open(self.path, encoding="utf-8") as file:
                return running(json.load(file))
        except (OSError, ValueError):
            return None


def process(pid: int) -> dict[str, object]:
    """All that it takes to know a process again."""
    return {**holder.place(), "holder_pid": pid, "holder_start": holder.start_time(pid)}


def running(recorded: Mapping[str, object] | None) -> int | None:
    """The process that was recorded, if it is not this one and provably still runs."""
    if recorded is None or any(recorded[key] != value for key, value in holder.place().items()):
        return None
    pid, start = recorded["holder_pid"], recorded["holder_start"]
    # Without a start it had ended before it was written down.
    runs = isinstance(pid, int) and start is not None and holder.start_time(pid) == start
    return pid if runs and isinstance(pid, int) and pid != os.getpid() else None
