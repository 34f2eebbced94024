"""Run somebody else's command so that nothing of it outlives us: itself, its children, its pipes.

The guarantee is the guardian's, who leads the command's process group. A process that leaves
the group (`setsid`, an interactive shell's jobs) is on its own, unless `start` is told to mark
all that comes of the command.
"""

from __future__ import annotations

import os
import signal

from tugtool import clock, config, guardian
from tugtool.errors import CannotRun
from tugtool.guardian import Guardian
from tugtool.streams import Flow, Kept, Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    import threading
    from collections.abc import Callable, Mapping, Sequence

#: Between asking a command to stop and killing it.
GRACE_SECONDS = 5.0
#: What a command leaves running may write out what it has, as `tee` would.
LINGER_SECONDS = 0.5


class Child:
    """A running command, and what came of it. Used by one thread."""

    def __init__(self, started: subprocess.Popen[bytes], guard: Guardian, streams: Streams) -> None:
        self.pid = started.pid
        self.group = guard.group
        #: As a shell tells it: the exit status, or 128 and the signal that killed it.
        self.status: int | None = None
        self.killed_by: int | None = None
        #: The signal that suspended it, until it is continued.
        self.suspended_by: int | None = None
        self.timed_out = False
        self.out, self.err = Kept(streams.head, streams.tail), Kept(streams.head, streams.tail)
        self._guard, self._started = guard, started
        pipes = (started.stdin, started.stdout, started.stderr)
        self._flow = Flow(pipes, streams, self.out, self.err)
        self._raw: int | None = None
        self._reaper = self._watched()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Until it has ended, is suspended, `wake` is called or the time is up; has it ended?

        When it has, what it left in its group is stopped too, and what it wrote is read: all
        but what a process outside the group still holds back.
        """
        deadline = None if seconds is None else clock.ticks() + seconds
        while self._raw is None:
            left = None if deadline is None else deadline - clock.ticks()
            if (left is not None and left < 0) or self._flow.move(left):
                break
        if self._raw is None:
            return False
        self._finish(GRACE_SECONDS)
        return True

    def send(self, number: int) -> None:
        """A signal to the whole group."""
        if self.status is None:
            self._guard.send_all(number)

    def wake(self) -> None:
        """Let whoever waits look around; for handlers of signals."""
        if self.status is None:
            self._flow.ring()

    def resume(self) -> None:
        """Let a suspended command go on."""
        self.suspended_by = None
        self.send(signal.SIGCONT)

    def stop(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """Ask the whole group to end, and kill what is still there after a while."""
        if self.status is not None:
            return
        self.send(signal.SIGTERM)
        # One that is suspended would never hear of it.
        self.send(signal.SIGCONT)
        deadline = clock.ticks() + grace_seconds
        while self._raw is None and (left := deadline - clock.ticks()) > 0:
            self._flow.move(left)
        if self._raw is None:
            self.send(signal.SIGKILL)
        while self._raw is None:
            self._flow.move(None)
        self._finish(max(0.0, deadline - clock.ticks()))

    def _finish(self, grace_seconds: float) -> None:
        if self.status is not None or self._raw is None:
            return
        waits = ((0, LINGER_SECONDS), (signal.SIGTERM, grace_seconds))
        is_alone = any(self._is_alone(number, seconds) for number, seconds in waits)
        self._guard.close(is_alone=is_alone)
        # It may still be about to ring, and the bell's number will soon mean another file.
        self._reaper.join()
        self._flow.drain()
        code = os.waitstatus_to_exitcode(self._raw)
        self.killed_by = -code if code < 0 else None
        # From now on nobody rings.
        self.status = 128 - code if code < 0 else code
        self._flow.close()

    def _is_alone(self, number: int, seconds: float) -> bool:
        """Send a signal to what the command has left; whether nothing is left in time."""
        self._guard.send_all(number)
        for last in clock.tries(seconds):
            self._flow.drain()
            if not self._guard.others():
                return True
            if last:
                break
        return False

    def _watched(self) -> threading.Thread:
        import threading

        thread = threading.Thread(target=self._reap, daemon=True)
        # Signals are for whoever waits in `poll`, not for this thread.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, guardian.SIGNALS)
        try:
            thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return thread

    def _reap(self) -> None:
        # A thread: nothing else waits for a process and for pipes at once on every system.
        while True:
            try:
                _, raw = os.waitpid(self.pid, os.WUNTRACED)
            except ChildProcessError:
                # Whoever ignores SIGCHLD never learns how it ended; that is no success.
                raw = 255 << 8
            if os.WIFSTOPPED(raw):
                self.suspended_by = os.WSTOPSIG(raw)
                self._flow.ring()
                continue
            self._started.returncode = os.waitstatus_to_exitcode(raw)
            self._raw = raw
            self._flow.ring()
            return


def start(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str] | None = None,
    streams: Streams | None = None,
    before: Callable[[int], object] | None = None,
    marks: bool = False,
) -> Child:
    """Start a command in a group of its own; `before` is told the group before it runs.

    With `marks` also those go with it that leave the group, where the system can tell them.
    Refuses with status 127 if there is no such command, 126 if it cannot be run.
    """
    import subprocess

    streams = streams or Streams()
    pipe = subprocess.PIPE if streams.kept else None
    guard = Guardian(marks=marks)
    if guard.mark:
        env = config.marked(env, guard.mark)
    try:
        if before is not None:
            before(guard.group)
        started = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=env,
            stdin=pipe,
            stdout=pipe or streams.stdout,
            stderr=subprocess.STDOUT if streams.merged else pipe,
            bufsize=0,
            # What we were given beyond the three streams is the command's too; ours is not.
            close_fds=streams.kept,
            process_group=guard.group,
        )
    except (OSError, ValueError) as error:
        guard.close()
        raise _refusal(error, argv[0], cwd) from error
    return Child(started, guard, streams)


def run(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str] | None = None,
    streams: Streams | None = None,
    limit_seconds: float | None = None,
    grace_seconds: float = GRACE_SECONDS,
) -> Child:
    """Run a command to its end, or until its time is up: then it is stopped, and `timed_out`."""
    child = start(argv, cwd=cwd, env=env, streams=streams)
    with child:
        deadline = None if limit_seconds is None else clock.ticks() + limit_seconds
        while not child.wait(None if deadline is None else deadline - clock.ticks()):
            if deadline is not None and clock.ticks() >= deadline:
                child.timed_out = True
                child.stop(grace_seconds)
                break
    return child


def _refusal(error: OSError | ValueError, command: str, cwd: str) -> CannotRun:
    if isinstance(error, ValueError):
        return CannotRun(command, reason=str(error), missing=False)
    at = error.filename == cwd
    reason = f"{error.strerror or error}{f': {cwd}' if at else ''}"
    return CannotRun(command, reason=reason, missing=isinstance(error, FileNotFoundError))
