"""The writers' queue: one file lock in front of SQLite's own.

SQLite lets whoever is awake win, and starves the others. So does the kernel with one lock,
when the machine is busy: who has just let go asks again before those who wait have woken
up. Therefore one waits in two places: at a turnstile, which only the next in line has
passed, and at the lock itself. The turnstile is the directory that the lock lies in. It
makes things fair, and only that: who cannot get through goes around it.

Whoever holds the lock writes its process id into the file, for whoever waits: in vain, or to
see that the queue moves.
"""

from __future__ import annotations

import _thread
import fcntl
import os
import stat
import time

from tugtool.state_errors import QueryFailed
from tugtool.store.mark import UNSIGNED, signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def beside(path: str, *, busy_seconds: float) -> Queue:
    """The queue for the database at `path`."""
    return Queue(os.path.join(os.path.dirname(path), "state.lock"), busy_seconds=busy_seconds)


class _Line:
    """The threads of this process: only the first in line waits for other processes.

    Waiting for a file's lock takes a thread of its own, and waking up from that two switches.
    """

    def __init__(self) -> None:
        self._guard = _thread.allocate_lock()
        self._holder: _thread.LockType | None = None
        self._waiting: list[_thread.LockType] = []

    def enter(self, turn: _thread.LockType, seconds: float, *, first: bool) -> bool:
        """Whether one's turn, a lock of one's own, has come in time; `first`: before others'."""
        with self._guard:
            if self._holder is None:
                self._holder = turn
                return True
            turn.acquire()
            self._waiting.insert(0 if first else len(self._waiting), turn)
        return turn.acquire(timeout=max(0, seconds)) or not self._given_up(turn)

    def withdraw(self, turn: _thread.LockType) -> None:
        """Whoever was interrupted, wherever, has neither a place in line nor the turn itself."""
        if not self._given_up(turn) and self._holder is turn:
            self.leave()

    def _given_up(self, turn: _thread.LockType) -> bool:
        """Leave the line; not if one's turn has come just now."""
        with self._guard:
            if waits := turn in self._waiting:
                self._waiting.remove(turn)
        return waits

    def leave(self) -> None:
        """The next one's turn."""
        with self._guard:
            self._holder = self._waiting.pop(0) if self._waiting else None
            if self._holder is not None:
                self._holder.release()


class Queue:
    """A place in the queue for one database."""

    #: For each lock the threads that wait for it.
    _lines: dict[str, _Line] = {}  # noqa: RUF012 (shared on purpose)

    def __init__(self, path: str, *, busy_seconds: float) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self._descriptor = -1
        self._taken = UNSIGNED
        self._line = self._lines.setdefault(path, _Line())

    def enter(self, *, first: bool = False) -> None:
        """Wait for the lock; refuse if somebody, who is named, holds it for `busy_seconds`."""
        begun, turn = time.monotonic(), _thread.allocate_lock()
        try:
            if not self._line.enter(turn, self._busy_seconds, first=first):
                raise self._refusal(f"process {os.getpid()}")
            self._enter(begun)
        except BaseException:
            self.leave()
            self._line.withdraw(turn)
            raise

    def _enter(self, begun: float) -> None:
        turnstile, self._taken = -1, signature(self._path)
        try:
            turnstile = passed(os.path.dirname(self._path), self._busy_seconds / 2)
            descriptor = self._locked(begun + self._busy_seconds)
            while not _lies_at(descriptor, self._path):
                # Deleted or replaced while we waited: whoever comes now queues elsewhere.
                os.close(descriptor)
                descriptor = self._locked(begun + self._busy_seconds)
        except OSError as error:
            from tugtool.store import trouble

            raise trouble.unopened(self._path, error) from error
        finally:
            if turnstile >= 0:
                os.close(turnstile)
        self._descriptor = descriptor
        _sign(descriptor)

    def leave(self) -> None:
        """Let the next one in."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._line.leave()

    def _locked(self, deadline: float) -> int:
        # Not blocking: opening a pipe that somebody put there would wait for its writer.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(self._path, flags, 0o666)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError("not a regular file")
        holder = _wait(descriptor, deadline - time.monotonic(), self._more)
        if holder is None:
            return descriptor
        raise self._refusal(holder)

    def _more(self) -> float:
        """How long to wait on: if others have taken the lock, and so signed it, the queue moves."""
        before, self._taken = self._taken, signature(self._path)
        return self._busy_seconds if self._taken != before else 0

    def _refusal(self, holder: str) -> QueryFailed:
        reason = f"is held by {holder} for over {self._busy_seconds:g} s"
        return QueryFailed(self._path, reason=reason, name="BUSY")


def passed(directory: str, seconds: float) -> int:
    """A descriptor to close once one has the lock; -1 if it is better not to wait here.

    Somebody may be stopped just here, or the file system may know no such locks.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return descriptor if _wait(descriptor, seconds) is None else -1
    except OSError:
        return -1


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        os.close(descriptor)
        raise
    return True


def _wait(descriptor: int, seconds: float, more: Callable[[], float] = float) -> str | None:
    """Lock a file; who holds it, if the time is up. Unless locked, it is closed sooner or later.

    In a thread of its own: `flock` knows no time-out, and signals are not ours to use.
    Polling instead would lose the place in the queue at every poll, and starve.
    """
    if _try(descriptor):
        return None
    came = _thread.allocate_lock()
    came.acquire()
    decision = _thread.allocate_lock()
    abandoned = False

    def queue() -> None:  # pragma: no cover (nobody can follow a bare thread; its outcomes show)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with decision:
            if abandoned:
                os.close(descriptor)
            else:
                came.release()

    def give_up() -> bool:
        """Whether it is too late; if it has come through just now, the lock is ours after all."""
        nonlocal abandoned
        with decision:
            abandoned = not came.acquire(blocking=False)
        return abandoned

    _thread.start_new_thread(queue, ())
    try:
        if _comes(came, seconds, more):
            return None
    except BaseException:
        if not give_up():
            os.close(descriptor)
        raise
    from tugtool.store import trouble

    holder = trouble.holder(descriptor)
    return holder if give_up() else None


def _comes(came: _thread.LockType, seconds: float, more: Callable[[], float]) -> bool:
    """Whether it comes in that time, or in what is given on top again and again."""
    while not came.acquire(timeout=max(0, seconds)):
        seconds = more()
        if not seconds:
            return False
    return True


def _sign(descriptor: int) -> None:
    try:
        os.pwrite(descriptor, b"%-20d\n" % os.getpid(), 0)
    except OSError:
        # The disk is full. It is only a courtesy, and the lock is ours all the same.
        return


#: Of a file that nobody can look at.
UNSEEN = (-1, -1)


def identity(path: str) -> tuple[int, int] | None:
    """What tells a file from another that lies in its place later; None if there is none."""
    try:
        status = os.stat(path)
    except OSError as error:
        return None if isinstance(error, (FileNotFoundError, NotADirectoryError)) else UNSEEN
    return status.st_dev, status.st_ino


def _lies_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False
