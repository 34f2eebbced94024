"""A process group that ends when this process ends, even by kill -9.

The *guardian* leads the group. It is a small shell that waits for the end of a pipe which only
this process holds open. When this process ends, the system closes the pipe, and the guardian
kills the group. On Linux a *mark* in the environment, if asked for, finds processes that left
the group (`setsid`). A process that also clears its environment is not found.
"""

from __future__ import annotations

import signal

from tugtool.errors import CannotRun
from tugtool.system import clock, config, os, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: It leads the group before the command joins, and keeps the group's number in use.
_GUARDIAN = """trap '' HUP INT QUIT TERM USR1 USR2 TSTP TTIN TTOU
read -r _
test -z "$1" || for _ in 1 2 3; do
    for file in $(grep -lsF -- "$1" /proc/[0-9]*/environ); do
        file=${file#/proc/}
        kill -KILL "${file%/environ}"
    done
done
kill -KILL 0"""
#: How long to kill marked processes, which may start others meanwhile.
_HUNT_SECONDS = 1.0
#: All signals; read once, because Python looks each one up by its number.
SIGNALS = signal.valid_signals()


class Guardian:
    """The guardian, its group, and the pipe whose end it waits for."""

    def __init__(self, *, marks: bool = False) -> None:
        import subprocess

        #: In the environment of every process to kill, inside the group or outside.
        self.mark = os.urandom(8).hex() if marks and os.path.exists("/proc/self/environ") else ""
        ours, self._line = os.pipe()
        # Block signals from the start: signals to the group are not for the guardian.
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

    def marked(self, env: Mapping[str, str]) -> dict[str, str]:
        """The environment with the mark added to the marks that it has."""
        others = env.get(config.MARKS_VARIABLE, "")
        return {**env, config.MARKS_VARIABLE: f"{others} {self.mark}".strip()}

    def send(self, number: int) -> None:
        try:
            # The guardian is not reaped before `close`: the number means this group.
            os.killpg(self.group, number)
        except (PermissionError, ProcessLookupError):
            # macOS: only zombies are left, or a process that changed its user.
            return

    def send_all(self, number: int) -> None:
        """Send a signal to the group, and to the marked processes that have left it."""
        self.send(number)
        # Zero sends nothing, and the search for marked processes is slow.
        for pid in self._marked() if number else ():
            _kill(pid, number)

    def others(self) -> bool:
        """True if another process than the guardian is in the group, or has the mark."""
        found = members(self.group)
        return found is None or bool(found - {self._shell.pid}) or bool(self._marked())

    def close(self, *, is_alone: bool = False) -> None:
        """Kill the group and its guardian; `is_alone`: no other process is left."""
        self.send(signal.SIGKILL)
        if not is_alone:
            self._hunt()
        self._shell.wait()
        os.close(self._line)

    def _hunt(self) -> None:
        """Kill the marked processes outside the group until none is left."""
        for last in clock.tries(_HUNT_SECONDS):
            left = self._marked()
            for pid in left:
                _kill(pid, signal.SIGKILL)
            if last or not left:
                return

    def _marked(self) -> set[int]:
        """The marked processes outside the group; `send` reaches those inside."""
        found = bearers(self.mark) if self.mark else set()
        return {pid for pid in found if _group_of(pid) != self.group}


def start_apart(*words: str) -> None:
    """Start a program in the background; it outlives this process and prints nothing."""
    import subprocess

    nothing = subprocess.DEVNULL
    subprocess.run(
        ["/bin/sh", "-c", '"$@" &', "sh", *words],
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
        cwd="/",
        start_new_session=True,
        check=False,
    )


def bearers(mark: str) -> set[int]:
    """This user's living processes with the mark in their environment."""
    wanted, found = os.fsencode(mark), set()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            # The environment of a zombie is empty.
            with open(f"/proc/{name}/environ", "rb") as file:
                if wanted in file.read():
                    found.add(int(name))
        except OSError:
            continue  # another user's, or it has just ended
    return found


def is_git_in(directories: tuple[str, ...], mark: str = "") -> bool | None:
    """True if git runs below these, or a marked process runs; None if the system cannot say."""
    if not os.path.exists("/proc/self/environ"):
        return None
    pids = (name for name in os.listdir("/proc") if name.isdecimal())
    places = tuple(os.path.join(os.path.realpath(each), "") for each in directories)
    return any(_is_git_in(pid, places) for pid in pids) or bool(mark and bearers(mark))


def _is_git_in(pid: str, places: tuple[str, ...]) -> bool:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            if not file.read().startswith(b"git"):
                return False
        here = os.readlink(f"/proc/{pid}/cwd")
    except PermissionError:
        return True  # another user's: its directory cannot be read
    except OSError:
        return False  # it has just ended
    return os.path.join(here, "").startswith(places)


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None  # it has just ended


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (PermissionError, ProcessLookupError):
        return


def members(group: int) -> set[int] | None:
    """The living processes of a group; None if the system cannot say."""
    if not os.path.exists("/proc/self/stat"):
        return _members_by_ps(group)
    pids = (int(name) for name in os.listdir("/proc") if name.isdecimal())
    # The group first: it costs one call, and the file three, for thousands of processes.
    return {pid for pid in pids if _group_of(pid) == group and process.start_time(pid) is not None}


def _members_by_ps(group: int) -> set[int] | None:
    import subprocess

    words = ["ps", "-A", "-o", "pid=", "-o", "pgid=", "-o", "stat="]
    try:
        listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    rows = (line.split() for line in listed.splitlines())
    return {int(pid) for pid, of, how in rows if int(of) == group and how[0] != "Z"}
