"""The writers' queue: one file lock in front of SQLite's own.

SQLite lets whoever is awake win, and starves the others. So does the kernel with one lock,
when the machine is busy: who has just let go asks again before those who wait have woken
up. Therefore one waits in two places: at a turnstile, which only the next in line has
passed, and at the lock itself. The turnstile is the directory that the lock lies in. It
makes things fair, and only that: who cannot get through goes around it.

Whoever holds the lock writes its process id into the file, for whoever waits in vain.
"""

from __future__ import annotations

import _thread
import fcntl
import os
import stat
import time

from tugtool.state_errors import QueryFailed


class Queue:
    """A place in the queue for one database."""

    def __init__(self, path: str, *, busy_seconds: float) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self._descriptor = -1

    def enter(self) -> None:
        """Wait for the lock; refuse after `busy_seconds`, naming who holds it."""
        begun = time.monotonic()
        turnstile = -1
        try:
            turnstile = _passed(os.path.dirname(self._path), self._busy_seconds / 2)
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

    def _locked(self, deadline: float) -> int:
        # Not blocking: opening a pipe that somebody put there would wait for its writer.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(self._path, flags, 0o666)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError("not a regular file")
        holder = _wait(descriptor, deadline - time.monotonic())
        if holder is None:
            return descriptor
        reason = f"is held by {holder} for over {self._busy_seconds:g} s"
        raise QueryFailed(self._path, reason=reason, name="BUSY")


def _passed(directory: str, seconds: float) -> int:
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


def _wait(descriptor: int, seconds: float) -> str | None:
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

    def queue() -> None:
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
        if came.acquire(timeout=max(0, seconds)):
            return None
    except BaseException:
        if not give_up():
            os.close(descriptor)
        raise
    from tugtool.store import trouble

    holder = trouble.holder(descriptor)
    return holder if give_up() else None


def _sign(descriptor: int) -> None:
    try:
        os.pwrite(descriptor, b"%-20d\n" % os.getpid(), 0)
    except OSError:
        # The disk is full. It is only a courtesy, and the lock is ours all the same.
        return


def _lies_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False
