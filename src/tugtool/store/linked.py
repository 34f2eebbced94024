"""The SQLite that this Python is linked with: its module, its version, its known fault.

`import sqlite3` costs half a bare interpreter start, and every state command pays it. Two
thirds of that are for things that nothing here uses: dates and converters in the package
around the C module, and `functools`, of which the C module wants `lru_cache` alone. So the
C module is loaded by itself, with the C half of `lru_cache`. Where any of these private
names is missing, and where `functools` is there already, the ordinary way is taken.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


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
        # Then it is loaded below, in full.
        sys.modules.pop("_sqlite3", None)

try:
    from _sqlite3 import Connection, Cursor, Error, Row, connect, sqlite_version
except ImportError:
    from sqlite3 import Connection, Cursor, Error, Row, connect, sqlite_version

__all__ = [
    "FAILURES",
    "VERSION",
    "Connection",
    "Cursor",
    "Error",
    "Row",
    "connect",
    "has_wal_reset_bug",
    "let_go",
    "opened",
    "uri",
]

VERSION: str = sqlite_version

#: What it raises. It cannot even say what is wrong where that is a text that was damaged.
FAILURES = (Error, UnicodeDecodeError)


def uri(path: str, options: str) -> str:
    """The address of a file; % ? # in its name would be read as something else."""
    name = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{name}?{options}"


def opened(path: str, mode: str, *, busy_seconds: float) -> Connection:
    """A connection as a state database wants it."""
    connection: Connection = connect(
        uri(path, f"mode={mode}"),
        uri=True,
        isolation_level=None,
        timeout=busy_seconds,
        check_same_thread=False,
    )
    connection.row_factory = Row
    connection.execute("pragma foreign_keys = on")
    # Acknowledged means that it survives a power cut.
    connection.execute("pragma synchronous = full")
    # Only macOS needs it, and only there it means anything.
    connection.execute("pragma fullfsync = on")
    return connection


def let_go(connection: Connection, path: str) -> None:
    """Close without the checkpoint of a last closer: what lies there is left as it is."""
    try:
        # While somebody reads, nobody is the last; and a reader's own close writes nothing.
        reader = opened(path, "ro", busy_seconds=5)
        reader.execute("select 1 from sqlite_master limit 1").fetchone()
    except Error:
        connection.close()
    else:
        connection.close()
        reader.close()


def has_wal_reset_bug(version: str = VERSION) -> bool:
    """Whether this SQLite can lose commits when a checkpoint meets a commit.

    Fixed in 3.51.3, and carried back to 3.50.7 and 3.44.6. Tugtool keeps clear of it by
    letting writers and checkpoints queue at one lock.
    """
    release = tuple(int(part) for part in version.split("."))
    carried_back = (release[:2] == (3, 50) and release >= (3, 50, 7)) or (
        release[:2] == (3, 44) and release >= (3, 44, 6)
    )
    return (3, 7, 0) <= release < (3, 51, 3) and not carried_back
