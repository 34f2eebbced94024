"""Faults of durability to plant, each with the story in which it shows."""

import itertools
import os
import sqlite3
from collections.abc import Callable

from tugtool.store import sqlite
from tugtool.store.sqlite import create, file, restore
from tugtool.system import files

WEAKER = "synchronous = normal"


def _careless() -> None:
    """No commit waits for the disk."""
    connect = file.connect

    class Careless(sqlite3.Connection):
        def execute(self, text: str, *values: object) -> sqlite3.Cursor:
            return super().execute(text.replace("synchronous = full", WEAKER), *values)

    file.connect = lambda *words, **options: connect(*words, factory=Careless, **options)


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
        create.sync(os.path.dirname(os.path.dirname(path)))
        os.rename(partial, path)
        create.sync(os.path.dirname(path))

    create.put = put


def _unnamed() -> None:
    """The copy's name is not on the disk when it is said to be."""

    def put(partial: str, path: str) -> None:
        create.sync(partial)
        create.sync(os.path.dirname(os.path.dirname(path)))
        os.rename(partial, path)

    create.put = put


def _unfound() -> None:
    """The directory that it lies in may be gone."""

    def put(partial: str, path: str) -> None:
        create.sync(partial)
        os.rename(partial, path)
        create.sync(os.path.dirname(path))

    create.put = put


def _unkept() -> None:
    """What is dropped from the record is in a file without a certain name."""
    files.sync_directory = lambda path: None


#: What is planted, and the story that it shows in.
FAULTS: dict[str, tuple[str, Callable[[], None]]] = {
    "careless": ("commands", _careless),
    "tired": ("stay", _tired),
    "unsynced": ("commands", _unsynced),
    "unnamed": ("commands", _unnamed),
    "unfound": ("commands", _unfound),
    "unkept": ("prune", _unkept),
}


def plant(fault: str) -> str:
    """Plant a fault; the story that it shows in."""
    story, planted = FAULTS[fault]
    planted()
    return story


def skip(number: int) -> None:
    """Leave out one of the syncs of whichever restore a child of this process makes."""
    put_in_place, sync, watcher = restore.FileRescue._put_in_place, create.sync, os.getpid()

    def skipping(self: restore.FileRescue) -> str:
        count = itertools.count()
        # The watcher restores as well, to see whether that can be done.
        if os.getpid() != watcher:
            create.sync = lambda path: None if next(count) == number else sync(path)
        return put_in_place(self)

    restore.FileRescue._put_in_place = skipping
