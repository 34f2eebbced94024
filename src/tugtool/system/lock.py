"""A fair file lock between processes and threads; writers queue at it in front of SQLite's own.

SQLite and the kernel are not fair: a process that has just released a lock asks again before
those that wait have woken up. So every caller waits twice: at a turnstile, which only the next
in line has passed, and at the lock itself. The turnstile is the lock's directory. It only makes
the order fair: a process that cannot pass it skips it.

The holder writes its process id into the file. Waiting processes name it when they give up, and
see by it that the queue moves.
"""

from __future__ import annotations

import _thread
import fcntl
import stat
import time

from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from tugtool.errors.state import QueryFailed


#: After this many entries a process counts as long-lived, and keeps the files open.
STAYING_TIMES = 20


def beside(path: str, *, busy_seconds: float) -> FileLock:
    """The lock that writers of the database at `path` queue at."""
    return FileLock(os.path.join(os.path.dirname(path), "state.lock"), busy_seconds=busy_seconds)


class _Line:
    """The threads of this process: only the first in line waits for other processes.

    Waiting for a file's lock costs a thread, and two thread switches to wake up from it.
    """

    def __init__(self) -> None:
        self._guard = _thread.allocate_lock()
        self._holder: _thread.LockType | None = None
        self.waiting: list[_thread.LockType] = []

    def enter(self, turn: _thread.LockType, seconds: float, *, first: bool) -> bool:
        """True if the caller's turn came in time; with `first` it goes before the other threads."""
        with self._guard:
            if self._holder is None:
                self._holder = turn
                return True
            turn.acquire()
            self.waiting.insert(0 if first else len(self.waiting), turn)
        return turn.acquire(timeout=max(0, seconds)) or not self._given_up(turn)

    def withdraw(self, turn: _thread.LockType) -> None:
        """Give up an interrupted caller's place in line, or its turn."""
        if not self._given_up(turn) and self._holder is turn:
            self.leave()

    def _given_up(self, turn: _thread.LockType) -> bool:
        """Leave the line; False if the caller's turn has just come."""
        with self._guard:
            if waits := turn in self.waiting:
                self.waiting.remove(turn)
        return waits

    def leave(self) -> None:
        """Give the turn to the next thread in line."""
        with self._guard:
            self._holder = self.waiting.pop(0) if self.waiting else None
            if self._holder is not None:
                self._holder.release()


class FileLock:
    """One caller's place in the queue for a lock; a context manager."""

    #: For each lock the threads that wait for it.
    _lines: dict[str, _Line] = {}  # noqa: RUF012 (shared on purpose)

    def __init__(self, path: str, *, busy_seconds: float) -> None:
        self._path = path
        self._turnstile = os.path.dirname(path)
        self._busy_seconds = busy_seconds
        self._descriptor = -1
        self._taken: tuple[int, int, int] | None = None
        self.line = self._lines.setdefault(path, _Line())
        #: How often it was entered, and by which process; what is open without being locked.
        self._times = self._pid = 0
        self._open_turnstile = self._open_lock = -1

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()

    def enter(self, *, first: bool = False) -> None:
        """Wait for the lock; refuse, naming the holder, if it is held for `busy_seconds`.

        With `first`, go before the other threads of this process.
        """
        begun, turn = time.monotonic(), _thread.allocate_lock()
        try:
            if not self.line.enter(turn, self._busy_seconds, first=first):
                raise self._refusal(f"process {os.getpid()}")
            self._enter(begun)
        except BaseException:
            self.leave()
            self.close()
            self.line.withdraw(turn)
            raise

    def _enter(self, begun: float) -> None:
        pid = os.getpid()
        if self._pid != pid:
            # The descriptors that a fork inherits carry its parent's locks.
            self.close()
            self._pid, self._signed = pid, b"%-20d\n" % pid
        self._times += 1
        turnstile, self._taken = -1, None
        try:
            self._open()
            kept, self._open_turnstile = self._open_turnstile, -1
            turnstile = passed(self._turnstile, self._busy_seconds / 2, kept, self._look)
            descriptor = self._locked(begun + self._busy_seconds)
            while descriptor < 0:
                # The file was deleted or replaced: new callers queue at another one.
                descriptor = self._locked(begun + self._busy_seconds)
        except OSError as error:
            from tugtool.errors.state import unopened

            raise unopened(self._path, error) from error
        finally:
            self._open_turnstile = self._unlocked(turnstile)
        self._descriptor = descriptor
        _sign(descriptor, self._signed)

    def leave(self) -> None:
        """Release the lock."""
        if self._descriptor >= 0:
            self._open_lock = self._unlocked(self._descriptor)
            self._descriptor = -1
            self.line.leave()

    def close(self) -> None:
        """Close the files that were kept open; the lock can be entered again."""
        self._times = 0
        self._open_turnstile = self._unlocked(self._open_turnstile)
        self._open_lock = self._unlocked(self._open_lock)

    __del__ = close

    def _unlocked(self, descriptor: int) -> int:
        """Unlock the descriptor and keep it in a long-lived process; otherwise close it."""
        if descriptor >= 0:
            if self._times > STAYING_TIMES:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                return descriptor
            os.close(descriptor)
        return -1

    def _open(self) -> None:
        """Open the file, unless it is open."""
        if self._open_lock >= 0:
            return
        # Not blocking: opening a pipe that a person put there would wait for its writer.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._open_lock = os.open(self._path, flags, 0o666)
        status = os.fstat(self._open_lock)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a regular file")
        self._identity = status.st_dev, status.st_ino

    def _look(self) -> None:
        """Note the file's signature when the wait begins."""
        if self._taken is None:
            self._taken = signature(self._path)

    def _locked(self, deadline: float) -> int:
        """The descriptor of the locked file; -1 if the file was replaced meanwhile."""
        descriptor, self._open_lock = self._open_lock, -1
        holder = _wait(descriptor, deadline - time.monotonic(), self._more, self._look)
        if holder is not None:
            raise self._refusal(holder)
        if identity(self._path) == self._identity:
            return descriptor
        os.close(descriptor)
        # The directory may be new too, so keep no open file.
        self._times = 0
        self._open()
        return -1

    def _more(self) -> float:
        """How much longer to wait: a new signature shows that the queue moves."""
        before, self._taken = self._taken, signature(self._path)
        return self._busy_seconds if self._taken != before else 0

    def _refusal(self, holder: str) -> QueryFailed:
        from tugtool.errors.state import QueryFailed

        reason = f"is held by {holder} for over {self._busy_seconds:g} s"
        return QueryFailed(self._path, reason=reason, name="BUSY")


def passed(
    directory: str, seconds: float, descriptor: int = -1, begins: Callable[[], object] = float
) -> int:
    """Pass the turnstile: a descriptor to close once the lock is taken; -1 to skip the turnstile.

    A stopped process may hold the turnstile, or the file system may have no such locks.
    """
    try:
        if descriptor < 0:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return descriptor if _wait(descriptor, seconds, begins=begins) is None else -1
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


def _wait(
    descriptor: int,
    seconds: float,
    more: Callable[[], float] = float,
    begins: Callable[[], object] = float,
) -> str | None:
    """Lock a file; if the time is up, return its holder and close the file sooner or later.

    `begins` is called before the wait; `more` says how much longer to wait when time is up.
    """
    if _try(descriptor):
        return None
    begins()
    return _queue(descriptor, seconds, more)


def _queue(descriptor: int, seconds: float, more: Callable[[], float]) -> str | None:
    """Wait for a file's lock, as `_wait` says.

    A thread waits, because `flock` has no time-out and signals belong to the program.
    Polling would lose the place in the queue at every poll, and starve.
    """
    came = _thread.allocate_lock()
    came.acquire()
    decision = _thread.allocate_lock()
    abandoned = False

    def queue() -> None:  # pragma: no cover (coverage cannot trace a bare thread)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with decision:
            if abandoned:
                os.close(descriptor)
            else:
                came.release()

    def give_up() -> bool:
        """Stop waiting; False if the thread has just taken the lock, which is then ours."""
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
    from tugtool.system import process

    holder = process.lock_holder(descriptor)
    return holder if give_up() else None


def _comes(came: _thread.LockType, seconds: float, more: Callable[[], float]) -> bool:
    """True if the lock comes in that time, or in the time that `more` adds."""
    while not came.acquire(timeout=max(0, seconds)):
        seconds = more()
        if not seconds:
            return False
    return True


def _sign(descriptor: int, line: bytes) -> None:
    try:
        if os.pread(descriptor, len(line), 0) != line:
            os.pwrite(descriptor, line, 0)
    except OSError:
        # The disk is full. The signature is a courtesy; the lock is ours without it.
        return


#: The signature of a file that is not there.
UNSIGNED = (0, 0, 0)


def signature(path: str) -> tuple[int, int, int]:
    """A value that changes when the file is written; a database is written at checkpoints."""
    return seen(path)[1]


#: The identity of a file that this process may not look at.
UNSEEN = (-1, -1)


def identity(path: str) -> tuple[int, int] | None:
    """A value that differs once another file replaces this one; None if there is no file."""
    return seen(path)[0]


def seen(path: str) -> tuple[tuple[int, int] | None, tuple[int, int, int]]:
    """A file's identity and its signature, by one system call."""
    try:
        status = os.stat(path)
    except OSError as error:
        gone = isinstance(error, (FileNotFoundError, NotADirectoryError))
        return None if gone else UNSEEN, UNSIGNED
    inode = status.st_ino
    return (status.st_dev, inode), (inode, status.st_size, status.st_mtime_ns)
