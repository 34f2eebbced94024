"""Processes of other tools: bounded, timed, or started at the same moment."""

import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

#: Nothing here takes a tenth of it on a quiet machine; other load makes it slow, not wrong.
SECONDS = 300
#: The descriptors of the gate, and of the report that a process is ready.
GATE, READY = 3, 4
#: Text after it begins when the gate opens.
AT_THE_GATE = ["/bin/sh", "-c", 'read -r _ <&3; exec "$@" 3<&- 4>&-', "sh"]


class Done(NamedTuple):
    """The result of a process; -9 if its time was up."""

    status: int
    out: str
    err: str
    wall: float = 0.0
    cpu: float = 0.0


class Refused(Exception):
    """A command that must succeed failed; the message has the command and its output."""


class Caller(NamedTuple):
    """Where commands run, with which environment and standard input."""

    directory: Path
    environment: dict[str, str]
    given: str = os.devnull

    def must(self, argv: list[str]) -> str:
        """Return the standard output of a command that must succeed."""
        done = self.run(argv)
        if done.status:
            said = (done.err or done.out).strip().splitlines()[-1:]
            raise Refused(f"{shown(argv)}: exit status {done.status} {' '.join(said)}")
        return done.out

    def run(self, argv: list[str]) -> Done:
        """Run a process. Return its wall and CPU milliseconds, children included."""
        with tempfile.TemporaryDirectory(prefix="tugtool-peers-") as name:
            files, begun = (f"{name}/out", f"{name}/err"), time.perf_counter()
            try:
                pid = self._spawned(argv, files)
            except OSError as error:
                return Done(127, "", str(error))
            with _bounded([pid]):
                ends = _reaped([pid])
            return _done(ends[pid], begun, *files)

    def together(self, argvs: list[list[str]], *, waits: bool = False) -> list[Done]:
        """Run processes that all begin at the same moment.

        With `waits` they open what they need first, write to READY, and wait at GATE.
        """
        with tempfile.TemporaryDirectory(prefix="tugtool-peers-") as name:
            gate, ready = _high_pipe(), _high_pipe()
            files = [(f"{name}/out-{n}", f"{name}/err-{n}") for n in range(len(argvs))]
            pids = [
                self._spawned(argv if waits else [*AT_THE_GATE, *argv], each, gate[0], ready[1])
                for argv, each in zip(argvs, files, strict=True)
            ]
            os.close(gate[0])
            os.close(ready[1])
            with _bounded(pids):
                if waits:
                    _all_ready(ready[0], len(pids))
                os.close(ready[0])
                begun = time.perf_counter()
                os.close(gate[1])
                ends = _reaped(pids)
            return [_done(ends[pid], begun, *each) for pid, each in zip(pids, files, strict=True)]

    def _spawned(self, argv: list[str], files: tuple[str, str], *kept: int) -> int:
        program = shutil.which(argv[0], path=self.environment.get("PATH")) or argv[0]
        writing = os.O_WRONLY | os.O_CREAT
        streams = [
            (os.POSIX_SPAWN_OPEN, 0, self.given, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, files[0], writing, 0o600),
            (os.POSIX_SPAWN_OPEN, 2, files[1], writing, 0o600),
            *((os.POSIX_SPAWN_DUP2, each, GATE + n) for n, each in enumerate(kept)),
        ]
        before = os.getcwd()
        os.chdir(self.directory)
        try:
            # Its own group, with all that it starts.
            return os.posix_spawn(
                program, argv, self.environment, file_actions=streams, setpgroup=0
            )
        finally:
            os.chdir(before)


def _high_pipe() -> tuple[int, int]:
    """Make a pipe with numbers that the processes do not use."""
    low = os.pipe()
    high = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 100) for each in low]
    for each in low:
        os.close(each)
    return high[0], high[1]


@contextlib.contextmanager
def _bounded(pids: list[int]) -> Iterator[None]:
    timer = threading.Timer(SECONDS, _kill, [pids])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _all_ready(descriptor: int, count: int) -> None:
    while count > 0:
        said = os.read(descriptor, count)
        if not said:
            # One died before the start: its exit status will show that.
            return
        count -= len(said)


def _reaped(pids: list[int]) -> dict[int, tuple[int, float, float]]:
    ends = {}
    while len(ends) < len(pids):
        pid, status, usage = os.wait4(-1, 0)
        if pid in pids:
            cpu = usage.ru_utime + usage.ru_stime
            ends[pid] = (os.waitstatus_to_exitcode(status), time.perf_counter(), cpu)
    return ends


def _done(end: tuple[int, float, float], begun: float, out: str, err: str) -> Done:
    status, ended, cpu = end
    texts = [Path(file).read_text(errors="replace") for file in (out, err)]
    return Done(status, *texts, (ended - begun) * 1000, cpu * 1000)


def shown(argv: list[str]) -> str:
    """Return a command for people: the program's name without its directory."""
    words = [os.path.basename(argv[0]), *argv[1:]]
    return " ".join(f'"{word}"' if " " in word or not word else word for word in words)
