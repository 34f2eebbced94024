"""Processes of other tools: bounded, timed, or let go all at one moment."""

import contextlib
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

#: Nothing here takes a tenth of it on a quiet machine; other load makes it slow, not wrong.
SECONDS = 300
#: Where a process that has something to open before the start finds the gate, and says so.
GATE, READY = 3, 4


class Done(NamedTuple):
    """How a process ended; -9 if its time was up."""

    status: int
    out: str
    err: str
    wall: float = 0.0
    cpu: float = 0.0


class Refused(Exception):
    """A command that has to succeed did not; says which, and what it said."""


class Caller(NamedTuple):
    """Where commands run, with which environment, and a file for their standard input."""

    directory: Path
    environment: dict[str, str]
    given: str = os.devnull

    def must(self, argv: list[str]) -> str:
        """Standard output of a command that has to succeed."""
        done = self.run(argv)
        if done.status:
            said = (done.err or done.out).strip().splitlines()[-1:]
            raise Refused(f"{shown(argv)}: exit status {done.status} {' '.join(said)}")
        return done.out

    def run(self, argv: list[str]) -> Done:
        """One process, and its milliseconds: on the clock, and of CPU with its children."""
        return self.together([argv])[0]

    def together(self, argvs: list[list[str]], *, waits: bool = False) -> list[Done]:
        """Processes that all begin at the same moment.

        With `waits` they open what they need first, write to READY, and wait at GATE.
        """
        with tempfile.TemporaryDirectory(prefix="tugtool-peers-") as name:
            gate, ready = os.pipe(), os.pipe()
            files = [(f"{name}/out-{n}", f"{name}/err-{n}") for n in range(len(argvs))]
            pids = [
                self._forked(argv, each, gate, ready, waits)
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

    def _forked(
        self,
        argv: list[str],
        files: tuple[str, str],
        gate: tuple[int, int],
        ready: tuple[int, int],
        waits: bool,
    ) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setsid()
            os.close(gate[1])
            os.chdir(self.directory)
            if not waits:
                os.read(gate[0], 1)
            _wire(self.given, files, (gate[0], ready[1]) if waits else ())
            os.execvpe(argv[0], argv, self.environment)
        except BaseException as error:
            os.write(2, f"{error}\n".encode())
        finally:
            os._exit(127)


def _wire(given: str, files: tuple[str, str], kept: tuple[int, ...]) -> None:
    """Standard streams, then the gate; above everything that is open, and then in its place."""
    writing = os.O_WRONLY | os.O_CREAT
    sources = [os.open(given, os.O_RDONLY), *(os.open(file, writing, 0o600) for file in files)]
    high = [os.dup2(source, 100 + n) for n, source in enumerate([*sources, *kept])]
    for target, source in enumerate(high):
        os.dup2(source, target, inheritable=True)
    os.closerange(len(high), 200)


@contextlib.contextmanager
def _bounded(pids: list[int]) -> Iterator[None]:
    timer = threading.Timer(SECONDS, _kill, [pids])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _kill(pids: list[int]) -> None:
    for pid in pids:
        # Each leads a group of its own, with whatever it has started.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _all_ready(descriptor: int, count: int) -> None:
    while count > 0:
        said = os.read(descriptor, count)
        if not said:
            # One has died before the start: its exit status will tell.
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
    """A command for people: the program's name without its directory."""
    words = [os.path.basename(argv[0]), *argv[1:]]
    return " ".join(f'"{word}"' if " " in word or not word else word for word in words)
