"""Runs another program to its end: process group, time limit, kept output."""

from __future__ import annotations

import signal
from functools import partial

from tugtool.errors import CannotRun
from tugtool.errors.safety import Unconfined
from tugtool.system import clock, config, confinement, os, process_group
from tugtool.system.process_group import Guardian

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    import threading
    from collections.abc import Callable, Mapping, Sequence
    from typing import IO

    from tugtool.system.confinement import Confinement

    Pipe = IO[bytes] | None
    Heard = Callable[[bytes], object]


#: Enough for 64 workers, which need nine each.
MOST_DESCRIPTORS = 4096


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open files, which may be 256."""
    import contextlib
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # If the kernel refuses, the old limit stays.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Kept:
    """The beginning and the end of a command's output; the bytes between are only counted."""

    __slots__ = ("_heard", "_tail", "head", "most_head", "most_tail", "total")

    def __init__(self, head: int, tail: int, heard: Heard | None = None) -> None:
        self.most_head, self.most_tail, self._heard = head, tail, heard
        self.head, self._tail, self.total = b"", bytearray(), 0

    def add(self, data: bytes) -> None:
        """Add the next bytes."""
        self.total += len(data)
        if self._heard is not None:
            self._heard(data)
        room = self.most_head - len(self.head)
        self.head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self.most_tail + 65536:
            del self._tail[: -self.most_tail or None]

    @property
    def tail(self) -> bytes:
        """The last bytes, as far as they are not in the head."""
        return bytes(self._tail[-self.most_tail :] if self.most_tail else b"")

    @property
    def dropped(self) -> int:
        """The number of bytes between head and tail that were not kept."""
        return self.total - len(self.head) - len(self.tail)

    def text(self) -> str:
        """The kept output, with a line about the bytes left out."""
        head, tail = (part.decode(errors="replace") for part in (self.head, self.tail))
        return f"{head}\n[{self.dropped} bytes left out]\n{tail}" if self.dropped else head + tail


class Streams:
    """The streams of a command: this process's own, unless its output is kept."""

    __slots__ = ("given", "head", "heard", "kept", "merged", "stdout", "tail")

    def __init__(self, *, stdout: int | None = None) -> None:
        #: A descriptor for its standard output in place of ours.
        self.stdout = stdout
        self.kept = False
        self.merged = False
        self.given = b""
        self.head = self.tail = 0
        self.heard: Heard | None = None

    @classmethod
    def keep(
        cls,
        *,
        head: int = 65536,
        tail: int = 65536,
        given: bytes = b"",
        merged: bool = False,
        heard: Heard | None = None,
    ) -> Streams:
        """Keep so many bytes of each stream; `given` is the command's whole input.

        With `merged` both streams are one, in the order in which they were written. `heard` gets
        all output as it comes.
        """
        made = cls()
        made.kept, made.merged, made.given, made.head, made.tail = True, merged, given, head, tail
        made.heard = heard
        return made


class Flow:
    """The pipes to a command: its input, its output, and a bell that rings when it ends."""

    def __init__(
        self, pipes: tuple[Pipe, Pipe, Pipe], streams: Streams, out: Kept, err: Kept
    ) -> None:
        import select

        self._poll = select.poll()
        self._bell, self._button = os.pipe()
        self._poll.register(self._bell, select.POLLIN)
        #: Its standard input, output and error; they own their descriptors.
        self._pipes = pipes
        self._sources = {
            pipe.fileno(): kept
            for pipe, kept in zip(pipes[1:], (out, err), strict=True)
            if pipe is not None
        }
        self._given = memoryview(streams.given)
        self._sink = None if pipes[0] is None else pipes[0].fileno()
        for source in self._sources:
            os.set_blocking(source, False)
            self._poll.register(source, select.POLLIN)
        if self._sink is not None:
            os.set_blocking(self._sink, False)
            self._poll.register(self._sink, select.POLLOUT)

    def ring(self) -> None:
        """Report that the command has ended or stopped."""
        os.write(self._button, b"!")

    def move(self, seconds: float | None) -> bool:
        """Wait for bytes and move them on; True if the bell rang, or nothing came in time."""
        ready = self._poll.poll(None if seconds is None else max(0, seconds) * 1000)
        for descriptor, _ in ready:
            if descriptor == self._bell:
                os.read(descriptor, 64)
                return True
            self._move(descriptor)
        return not ready and seconds is not None

    def drain(self) -> None:
        """Move the bytes that are ready, without waiting."""
        for source in list(self._sources):
            while source in self._sources and self._read(source):
                pass

    def close(self) -> None:
        """Close all pipes."""
        for pipe in self._pipes:
            if pipe is not None:
                pipe.close()
        for descriptor in (self._bell, self._button):
            os.close(descriptor)

    def _move(self, descriptor: int) -> None:
        if descriptor == self._sink:
            self._feed(descriptor)
        else:
            self._read(descriptor)

    def _read(self, source: int) -> bool:
        try:
            data = os.read(source, 65536)
        except BlockingIOError:
            return False
        self._sources[source].add(data)
        if not data:
            self._poll.unregister(source)
            del self._sources[source]
        return bool(data)

    def _feed(self, sink: int) -> None:
        try:
            self._given = self._given[os.write(sink, self._given[:65536]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            # A command need not read its input.
            self._given = self._given[:0]
        if not self._given and self._pipes[0] is not None:
            self._poll.unregister(sink)
            self._sink = None
            self._pipes[0].close()


#: The time between asking a command to stop and killing it.
GRACE_SECONDS = 5.0
#: The time for processes that the command left, such as `tee`, to write their output.
LINGER_SECONDS = 0.5


class Child:
    """A running command, and its result. Used by one thread."""

    def __init__(self, started: subprocess.Popen[bytes], guard: Guardian, streams: Streams) -> None:
        self.pid = started.pid
        self.group = guard.group
        #: As in a shell: the exit status, or 128 plus the signal that killed it.
        self.status: int | None = None
        self.killed_by: int | None = None
        #: The signal that suspended it, until it is continued.
        self.suspended_by: int | None = None
        self.timed_out = False
        self.out, self.err = (Kept(streams.head, streams.tail, streams.heard) for _ in range(2))
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
        """Wait until it ends, is suspended, `wake` is called or the time is up; True if it ended.

        Then the rest of its group is stopped too, and its output is read, except for output
        that a process outside the group still holds.
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
        """Send a signal to the whole group."""
        if self.status is None:
            self._guard.send_all(number)

    def wake(self) -> None:
        """End the current `wait`; for handlers of signals."""
        if self.status is None:
            self._flow.ring()

    def resume(self) -> None:
        """Continue a suspended command."""
        self.suspended_by = None
        self.send(signal.SIGCONT)

    def stop(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """Ask the whole group to end, and kill the rest after `grace_seconds`."""
        if self.status is not None:
            return
        self.send(signal.SIGTERM)
        # A suspended process does not get the signal until it continues.
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
        # The thread may still ring, and the bell's descriptor will soon be another file.
        self._reaper.join()
        self._flow.drain()
        code = os.waitstatus_to_exitcode(self._raw)
        self.killed_by = -code if code < 0 else None
        # The thread has ended, so the bell stays silent.
        self.status = 128 - code if code < 0 else code
        self._flow.close()

    def _is_alone(self, number: int, seconds: float) -> bool:
        """Send a signal to the processes that the command left; True if all end in time."""
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
        # The thread that waits in `poll` handles signals, not this one.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, process_group.SIGNALS)
        try:
            thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return thread

    def _reap(self) -> None:
        # Only a thread can wait for a process and for pipes at once on every system.
        while True:
            try:
                _, raw = os.waitpid(self.pid, os.WUNTRACED)
            except ChildProcessError:
                # If SIGCHLD is ignored, the status is lost: count it as a failure.
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
    confined: Confinement | None = None,
) -> Child:
    """Start a command in its own group; `before` gets the group's number before the command runs.

    `confined` says what it may write. With `marks` the processes that leave the group end with
    it, if the system can find them.
    Refuses with status 127 if there is no such command, 126 if it cannot be run.
    """
    streams = streams or Streams()
    guard = Guardian(marks=marks)
    if guard.mark:
        env = guard.marked(config.environment() if env is None else env)
    try:
        if before is not None:
            before(guard.group)
        begin = partial(_begun, cwd=cwd, env=env, streams=streams, group=guard.group)
        started = (
            begin(argv) if confined is None else confinement.begin_confined(confined, argv, begin)
        )
    except Unconfined:
        guard.close()
        raise
    except (OSError, ValueError) as error:
        guard.close()
        raise _refusal(error, argv[0], cwd) from error
    return Child(started, guard, streams)


def _begun(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str] | None,
    streams: Streams,
    group: int,
) -> subprocess.Popen[bytes]:
    import subprocess

    pipe = subprocess.PIPE if streams.kept else None
    return subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=env,
        stdin=pipe,
        stdout=pipe or streams.stdout,
        stderr=subprocess.STDOUT if streams.merged else pipe,
        bufsize=0,
        # A command on our own streams also inherits our other open files.
        close_fds=streams.kept,
        process_group=group,
    )


def run(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str] | None = None,
    streams: Streams | None = None,
    limit_seconds: float | None = None,
    grace_seconds: float = GRACE_SECONDS,
) -> Child:
    """Run a command to its end; stop it at the time limit and set `timed_out`."""
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
