"""Faults of durability to plant, each with the story in which it shows."""

import os
import sqlite3
from collections.abc import Callable

from tugtool.store import linked, making, sqlite

#: So many has a restore that sets aside a database and its log, and a backup.
SYNCS = 17
WEAKER = "synchronous = normal"


def _careless() -> None:
    """No commit waits for the disk."""
    connect = linked.connect

    class Careless(sqlite3.Connection):
        def execute(self, text: str, *values: object) -> sqlite3.Cursor:
            return super().execute(text.replace("synchronous = full", WEAKER), *values)

    linked.connect = lambda *words, **options: connect(*words, factory=Careless, **options)


def _tired() -> None:
    """Who has made many commits waits for the disk no longer."""
    end = sqlite.SqliteStore.end

    def tired(self: sqlite.SqliteStore, connection: sqlite3.Connection, **how: bool) -> None:
        end(self, connection, **how)
        if how["writing"] and self._commits >= sqlite.STAYING_COMMITS:
            connection.execute(f"pragma {WEAKER}")

    sqlite.SqliteStore.end = tired


def _unsynced() -> None:
    """The copy takes its place before it is on the disk."""

    def put(partial: str, path: str) -> None:
        os.rename(partial, path)
        making.sync(os.path.dirname(path))

    making.put = put


def _unnamed() -> None:
    """The copy's name is not on the disk when it is said to be."""

    def put(partial: str, path: str) -> None:
        making.sync(partial)
        os.rename(partial, path)

    making.put = put


def _skipping(number: int) -> Callable[[], None]:
    """One of the syncs of a restore is left out."""

    def skip() -> None:
        sync, left = making.sync, iter(range(1000))

        def skipping(path: str) -> None:
            if next(left) != number:
                sync(path)

        making.sync = skipping

    return skip


FAULTS: dict[str, tuple[str, Callable[[], None]]] = {
    "careless": ("commands", _careless),
    "tired": ("stay", _tired),
    "unsynced": ("commands", _unsynced),
    "unnamed": ("commands", _unnamed),
    **{f"skipping {n}": ("rescue", _skipping(n)) for n in range(SYNCS)},
}


def plant(fault: str) -> str:
    """Plant a fault; the story that it shows in."""
    story, planted = FAULTS[fault]
    planted()
    return story
