"""Has whatever works on a database pass borders, and say so when it has to wait.

A border is the moment before somebody asks for a lock, and before each statement. What happens
there is for whoever watches to say.
"""

import os
import sqlite3
from collections.abc import Callable

from tugtool.store.sqlite import file
from tugtool.system import lock

#: Statement -> what is done instead. Nobody cuts the power here, so nobody waits for the disk.
INSTEAD = {"pragma synchronous = full": "pragma synchronous = off"}
#: What the border before a lock is called.
LOCK = "queue"


def watch(passes: Callable[[str], None], waits: Callable[[], None]) -> None:
    """From now on, in this process."""

    class Watched(sqlite3.Connection):
        """Passes a border before each statement, settings aside."""

        def execute(self, text: str, *values: object) -> sqlite3.Cursor:
            statement(text)
            return super().execute(INSTEAD.get(text, text), *values)

        def executemany(self, text: str, *values: object) -> sqlite3.Cursor:
            statement(text)
            return super().executemany(text, *values)

    def statement(text: str) -> None:
        if not text.startswith("pragma"):
            passes(" ".join(text.split())[:60])

    try_ = lock._try

    def trying(descriptor: int) -> bool:
        got = try_(descriptor)
        if not got:
            waits()
        return got

    file.connect = lambda *words, **options: sqlite3.connect(*words, factory=Watched, **options)
    lock.FileLock.enter = passing(passes, LOCK, lock.FileLock.enter)
    lock._try = trying
    os.fsync = lambda descriptor: None


def passing(
    passes: Callable[[str], None], name: str, act: Callable[..., object]
) -> Callable[..., object]:
    """The same, with a border before it."""

    def acting(*words: object, **options: object) -> object:
        passes(name)
        return act(*words, **options)

    return acting
