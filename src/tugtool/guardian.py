"""A process group that goes when we go, however that happens.

The *guardian* leads it: a small shell that waits for the end of a pipe which only we hold
open. However we end, also by kill -9, the system closes that pipe, and the guardian kills
the group. What leaves the group (`setsid`) is beyond its reach.
"""

from __future__ import annotations

import os
import signal

from tugtool.errors import CannotRun

#: It leads the group before the command is in it, and keeps its number from being used again.
_GUARDIAN = "trap '' HUP INT QUIT TERM USR1 USR2 TSTP TTIN TTOU; read -r _; kill -KILL 0"
#: All there are; asked for once, because each is looked up by its number.
SIGNALS = signal.valid_signals()


class Guardian:
    """The guardian, its group, and the pipe whose end it waits for."""

    def __init__(self) -> None:
        import subprocess

        ours, self._line = os.pipe()
        # From its first instant: it lives in the group, and what is sent there is not for it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _GUARDIAN],
                stdin=ours,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                process_group=0,
            )
        except OSError as error:
            os.close(self._line)
            raise CannotRun("/bin/sh", reason=str(error.strerror), missing=False) from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(ours)
        self.group = self._shell.pid

    def send(self, number: int) -> None:
        try:
            # The guardian is not reaped before `close`: the number means this group.
            os.killpg(self.group, number)
        except (PermissionError, ProcessLookupError):
            # macOS: only zombies are left, or one that became somebody else.
            return

    def others(self) -> bool:
        """Whether anybody but the guardian lives in the group."""
        found = members(self.group)
        return found is None or bool(found - {self._shell.pid})

    def close(self) -> None:
        """Kill what there is of the group, the guardian with it."""
        self.send(signal.SIGKILL)
        self._shell.wait()
        os.close(self._line)


def members(group: int) -> set[int] | None:
    """The living processes of a group; None if the system does not tell."""
    if not os.path.exists("/proc/self/stat"):
        return _members_by_ps(group)
    pids = (int(name) for name in os.listdir("/proc") if name.isdecimal())
    return {pid for pid in pids if _is_in(group, pid) and _lives(pid)}


def _is_in(group: int, pid: int) -> bool:
    # One call, where reading its file would be three: there may be thousands of processes.
    try:
        return os.getpgid(pid) == group
    except OSError:
        return False  # it has just ended


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name stands in parentheses and may hold anything.
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False  # it has just ended


def _members_by_ps(group: int) -> set[int] | None:
    import subprocess

    words = ["ps", "-A", "-o", "pid=", "-o", "pgid=", "-o", "stat="]
    try:
        listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    rows = (line.split() for line in listed.splitlines())
    return {int(pid) for pid, of, how in rows if int(of) == group and how[0] != "Z"}
