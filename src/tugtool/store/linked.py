"""Which SQLite this Python is linked with, and whether it has a known fault."""

from __future__ import annotations

try:
    # The C module alone: the package around it costs half a bare interpreter start.
    from _sqlite3 import sqlite_version
except ImportError:
    from sqlite3 import sqlite_version

VERSION: str = sqlite_version


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
