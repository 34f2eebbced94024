"""The database file: load SQLite cheaply, open the file, read its progress."""

from __future__ import annotations

import sys

from tugtool.store import sql
from tugtool.system import os, text
from tugtool.system.lock import UNSIGNED, signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    #: Events in the columns of `sql.EVENTS_SINCE`.
    Events = Sequence[Sequence[Any]]


def _load_alone() -> None:
    from _functools import _lru_cache_wrapper as wrapper  # type: ignore[import-not-found]

    def lru_cache(size: int) -> Callable[[object], object]:
        return lambda function: wrapper(function, size, False, tuple)

    stand_in = type(sys)("functools")
    stand_in.__dict__["lru_cache"] = lru_cache
    sys.modules["functools"] = stand_in
    try:
        import _sqlite3  # noqa: F401
    finally:
        del sys.modules["functools"]


if "functools" not in sys.modules:
    try:
        _load_alone()
    except (ImportError, AttributeError):
        # The whole module is loaded below.
        sys.modules.pop("_sqlite3", None)

try:
    from _sqlite3 import Connection, Cursor, Error, Row, connect, sqlite_version
except ImportError:
    from sqlite3 import Connection, Cursor, Error, Row, connect, sqlite_version

#: Other modules take these names from here.
__all__ = ["Connection", "Cursor", "Error", "Row", "connect"]

VERSION: str = sqlite_version

#: SQLite's exceptions. Python cannot even decode the message about a damaged text.
FAILURES = (Error, UnicodeDecodeError)


def uri(path: str, options: str) -> str:
    """Return the file's URI, with % ? # in its name escaped."""
    name = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{name}?{options}"


def opened(path: str, mode: str, *, busy_seconds: float) -> Connection:
    """Open a connection with the settings of a state database."""
    if mode == "rwc":
        _make(path)
    connection: Connection = connect(
        uri(path, f"mode={mode}"),
        uri=True,
        isolation_level=None,
        timeout=busy_seconds,
        check_same_thread=False,
    )
    connection.row_factory = Row
    connection.execute("pragma foreign_keys = on")
    # An acknowledged commit has to survive a power cut.
    connection.execute("pragma synchronous = full")
    # Only macOS needs it; other systems ignore it.
    connection.execute("pragma fullfsync = on")
    return connection


def _make(path: str) -> None:
    """Make the file by the umask; SQLite would let no other user write to it."""
    try:
        # Never open an existing file here: closing it would drop SQLite's locks.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    except OSError:
        # The file exists, or SQLite reports why it cannot be made.
        return


def let_go(connection: Connection, path: str) -> None:
    """Close without the last closer's checkpoint, so that the files stay as they are."""
    try:
        # With a reader open, this is not the last close; and a reader's own close writes nothing.
        reader = opened(path, "ro", busy_seconds=5)
        reader.execute("select 1 from sqlite_master limit 1").fetchone()
    except Error:
        connection.close()
    else:
        connection.close()
        reader.close()


def roll_back(connection: Connection) -> None:
    """End a transaction without a commit."""
    try:
        if connection.in_transaction:
            connection.execute("rollback")
    except FAILURES:
        # Even in a damaged file, an uncommitted transaction is not stored.
        pass


def has_wal_reset_bug(version: str = VERSION) -> bool:
    """Return whether this SQLite can lose commits when a checkpoint meets a commit.

    Fixed in 3.51.3, and backported to 3.50.7 and 3.44.6. Tugtool avoids the bug: writers and
    checkpoints queue at one lock.
    """
    release = tuple(int(part) for part in version.split("."))
    carried_back = (release[:2] == (3, 50) and release >= (3, 50, 7)) or (
        release[:2] == (3, 44) and release >= (3, 44, 6)
    )
    return (3, 7, 0) <= release < (3, 51, 3) and not carried_back


#: The first line of a mark: a number twice, to reveal damage, and a signature.
_MARK = b"%020d %020d %020d %020d %020d\n"
_MARK_BYTES = len(_MARK % (0, 0, 0, 0, 0))


def mark_line(number: int, signed: tuple[int, int, int] = UNSIGNED) -> bytes:
    """Return the first line of a mark, always of the same length."""
    return _MARK % (number, number, *signed)


def read_mark(path: str) -> tuple[int, tuple[int, int, int]]:
    """Return the number and the signature in a mark; zeros if it cannot be trusted."""
    try:
        # Not blocking: opening a pipe in its place would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return _understood(os.pread(descriptor, _MARK_BYTES, 0))
        finally:
            os.close(descriptor)
    except OSError:
        return 0, UNSIGNED


def _understood(line: bytes) -> tuple[int, tuple[int, int, int]]:
    try:
        first, second, inode, size, written = line.split()
        if len(line) == _MARK_BYTES and first == second:
            return int(first), (int(inode), int(size), int(written))
    except ValueError:
        pass
    return 0, UNSIGNED


def has_rows(path: str | None) -> bool:
    """Return whether a mark lists completions that the last backup lacks."""
    try:
        return path is not None and os.stat(path).st_size > _MARK_BYTES
    except OSError:
        return False


def reached(connection: Connection) -> int:
    """Return the highest event number ever given out; pruning does not lower it."""
    row = connection.execute("select seq from sqlite_sequence where name = 'events'").fetchone()
    return int(row[0]) if row else 0


def completed_since(
    connection: Connection, number: int, noted: Events = ()
) -> tuple[int, list[list[Any]]]:
    """Return the last event's number, if it is newer, and the steps completed since.

    If the `noted` events are all new ones, no query is needed.
    """
    whole = noted and (noted[0][0], noted[-1][0]) == (number + 1, number + len(noted))
    # A reconciled step may have got its commit in another way.
    if not whole or "reconcile" in [row[-2] for row in noted]:
        noted = connection.execute(sql.EVENTS_SINCE, {"seq": number}).fetchall()
    completed = []
    for *row, kind, step in noted:
        number = row[0]
        if kind in ("complete", "reconcile") and step is not None:
            completed.append(row)
    return number, completed


class Mark:
    """The mark follows the commits of a database. It is used under the lock and kept open.

    It never blocks a commit: if it cannot be moved, only an older copy goes unnoticed.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._descriptor = -1
        self._identity: tuple[int, int] | None = None
        self._line = b""
        self._before = 0, UNSIGNED

    def read(self, connection: Connection, noted: Events) -> None:
        """Read the mark before the commit; the transaction sees its own events, `noted`."""
        try:
            if self._path is not None:
                self._size = self._opened(self._path)
                line = os.pread(self._descriptor, _MARK_BYTES, 0)
                if line != self._line:
                    self._line, self._before = line, _understood(line)
                # Without a mark, nothing before now has to be listed.
                since = self._before[0] or reached(connection)
                self._number, self._rows = completed_since(connection, since, noted)
        except (OSError, *FAILURES):
            self.close()

    def _opened(self, path: str) -> int:
        """Open the file that is there now, and return its size."""
        if self._descriptor >= 0:
            try:
                # Do not follow a link.
                status = os.lstat(path)
                if (status.st_dev, status.st_ino) == self._identity:
                    return status.st_size
            except FileNotFoundError:
                pass
            self.close()
        self._descriptor = os.open(path, os.O_RDWR | _CHANGING, 0o666)
        status = os.fstat(self._descriptor)
        self._identity = status.st_dev, status.st_ino
        return status.st_size

    def move(self, signed: tuple[int, int, int]) -> None:
        """Write the mark after the commit."""
        if self._descriptor >= 0 and self._before != (self._number, signed):
            line = mark_line(self._number, signed)
            try:
                _write(self._descriptor, line, self._rows, self._size)
            except OSError:
                return
            self._line, self._before = line, (self._number, signed)

    def close(self) -> None:
        """Close the file; the mark can be used again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    __del__ = close


def sign(mark: str | None, path: str) -> None:
    """Record under the lock that Tugtool wrote to the file."""
    if mark is None:
        return
    try:
        number, signed = read_mark(mark)
        if signed not in (UNSIGNED, signature(path)):
            descriptor = os.open(mark, os.O_WRONLY | _CHANGING, 0o666)
            try:
                _write(descriptor, mark_line(number, signature(path)), [], 0)
            finally:
                os.close(descriptor)
    except OSError:
        # Then the next process that opens the database checks the whole file.
        return


def forget(mark: str | None) -> None:
    """Remove the mark of a deleted database: a new one would be behind it."""
    try:
        os.unlink(mark or "")
    except OSError:
        # It does not exist, or is not a file.
        return


#: How a mark is opened for a change.
_CHANGING = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def _write(descriptor: int, first: bytes, rows: list[list[Any]], size: int) -> None:
    if rows:
        lines = "".join(f"{text.encode(row)}\n" for row in rows)
        os.pwrite(descriptor, lines.encode(), max(size, _MARK_BYTES))
    os.pwrite(descriptor, first, 0)
