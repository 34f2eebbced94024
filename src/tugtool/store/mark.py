"""The mark: how far the database has got, in a file that lies where its loss does not reach.

Whoever holds the writers' lock moves it after a commit: a database that is behind its mark is an
older copy of itself. It also lists the completions that the last backup does not hold.
"""

from __future__ import annotations

import os

from tugtool import jsontext
from tugtool.store import sql
from tugtool.store.linked import FAILURES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store.linked import Connection

#: The first line of a mark: a number twice, so that damage shows, and a signature.
_MARK = b"%020d %020d %020d %020d %020d\n"
_MARK_BYTES = len(_MARK % (0, 0, 0, 0, 0))

#: Of a database that nobody has written through yet.
UNSIGNED = (0, 0, 0)


def signature(path: str) -> tuple[int, int, int]:
    """What changes when a file is written; the database's is at checkpoints, under the lock."""
    try:
        status = os.stat(path)
    except OSError:
        return UNSIGNED
    return status.st_ino, status.st_size, status.st_mtime_ns


def mark_line(number: int, signed: tuple[int, int, int] = UNSIGNED) -> bytes:
    """The first line of a mark, always as long."""
    return _MARK % (number, number, *signed)


def read_mark(path: str) -> tuple[int, tuple[int, int, int]]:
    """The number and the signature in a mark; zeros if it says nothing that can be trusted."""
    try:
        # Not blocking: opening a pipe that somebody put there would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return 0, UNSIGNED
    try:
        line = os.pread(descriptor, _MARK_BYTES, 0)
        first, second, inode, size, written = line.split()
        if len(line) == _MARK_BYTES and first == second:
            return int(first), (int(inode), int(size), int(written))
    except (OSError, ValueError):
        pass
    finally:
        os.close(descriptor)
    return 0, UNSIGNED


def has_rows(path: str | None) -> bool:
    """Whether a mark lists completions that the last backup does not hold."""
    try:
        return path is not None and os.stat(path).st_size > _MARK_BYTES
    except OSError:
        return False


def reached(connection: Connection) -> int:
    """The number of the last event that there ever was; pruning does not lower it."""
    row = connection.execute("select seq from sqlite_sequence where name = 'events'").fetchone()
    return int(row[0]) if row else 0


def keep_up(mark: str | None, path: str, connection: Connection) -> None:
    """Move the mark to where the database is; under the lock, and never in anybody's way."""
    if mark is None:
        return
    try:
        number, signed = reached(connection), signature(path)
        before, was_signed = read_mark(mark)
        if number <= before and signed == was_signed:
            return
        # Without a mark nothing is listed: what happened so far is in no danger.
        since = connection.execute(sql.COMPLETED_SINCE, {"seq": before or number})
        lines = [jsontext.encode(list(row)) for row in since]
        _move(mark, mark_line(max(before, number), signed), lines)
    except (OSError, *FAILURES):
        # It cannot be written. Then an older copy is not noticed, and that is all.
        return


def sign(mark: str | None, path: str) -> None:
    """Note in the mark that it was one of us who wrote to the file; under the lock."""
    if mark is None:
        return
    try:
        number, signed = read_mark(mark)
        if signed not in (UNSIGNED, signature(path)):
            _move(mark, mark_line(number, signature(path)), [])
    except OSError:
        # Then the next one to open it checks the whole file.
        return


def forget(mark: str | None) -> None:
    """Remove the mark of a database that is gone for good: the next would be behind it."""
    try:
        os.unlink(mark or "")
    except OSError:
        # It is not there, or is none.
        return


def _move(path: str, first: bytes, lines: list[str]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o666)
    try:
        end = max(os.fstat(descriptor).st_size, _MARK_BYTES)
        if lines:
            os.pwrite(descriptor, "".join(f"{line}\n" for line in lines).encode(), end)
        os.pwrite(descriptor, first, 0)
    finally:
        os.close(descriptor)
