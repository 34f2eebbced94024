"""A process group that goes when we go, however that happens.

The *guardian* leads it: a small shell that waits for the end of a pipe which only we hold
open. However we end, also by kill -9, the system closes that pipe, and the guardian kills
the group. What leaves the group (`setsid`) can be found by a *mark* in its environment, on
Linux, where that was asked for; what clears its environment too is beyond reach.
"""

from __future__ import annotations

import os
import signal

from tugtool import clock
from tugtool.errors import CannotRun

#: It leads the group before the command is in it, and keeps its number from being used again.
_GUARDIAN = """trap '' HUP INT QUIT TERM USR1 USR2 TSTP TTIN TTOU
read -r _
test -z "$1" || for _ in 1 2 3; do
    for file in $(grep -lsF -- "$1" /proc/[0-9]*/environ); do
        file=${file#/proc/}
        kill -KILL "${file%/environ}"
    done
done
kill -KILL 0"""
#: So long those who have left the group may bring up others while they are being ended.
_HUNT_SECONDS = 1.0
#: All there are; asked for once, because each is looked up by its number.
SIGNALS = signal.valid_signals()


class Guardian:
    """The guardian, its group, and the pipe whose end it waits for."""

    def __init__(self, *, marks: bool = False) -> None:
        import subprocess

        #: What stands in the environment of all that is to go, also outside of the group.
        self.mark = os.urandom(8).hex() if marks and os.path.exists("/proc/self/environ") else ""
        ours, self._line = os.pipe()
        # From its first instant: it lives in the group, and what is sent there is not for it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _GUARDIAN, "guardian", self.mark],
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

    def send_all(self, number: int) -> None:
        """A signal to the group, and to those who have left it and bear the mark."""
        self.send(number)
        # Zero is no signal, and to look for them takes a while.
        for pid in self._marked() if number else ():
            _kill(pid, number)

    def others(self) -> bool:
        """Whether anybody but the guardian lives in the group, or bears the mark."""
        found = members(self.group)
        return found is None or bool(found - {self._shell.pid}) or bool(self._marked())

    def close(self, *, is_alone: bool = False) -> None:
        """Kill what there is of the group, the guardian with it; `is_alone`: nobody else is."""
        self.send(signal.SIGKILL)
        if not is_alone:
            self._hunt()
        self._shell.wait()
        os.close(self._line)

    def _hunt(self) -> None:
        """Kill those who have left the group, until there are no more."""
        for last in clock.tries(_HUNT_SECONDS):
            left = self._marked()
            for pid in left:
                _kill(pid, signal.SIGKILL)
            if last or not left:
                return

    def _marked(self) -> set[int]:
        """Those who have left the group; who is in it hears what the group is told."""
        found = bearers(self.mark) if self.mark else set()
        return {pid for pid in found if _group_of(pid) != self.group}


def bearers(mark: str) -> set[int]:
    """The living processes of ours with the mark in their environment."""
    wanted, found = mark.encode(), set()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            # Of one that has ended, and is not yet reaped, it is empty.
            with open(f"/proc/{name}/environ", "rb") as file:
                if wanted in file.read():
                    found.add(int(name))
        except OSError:
            continue  # somebody else's, or it has just ended
    return found


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (PermissionError, ProcessLookupError):
        return


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
