"""Has whatever works on a database pass borders, and say so when it has to wait.

A border is the moment before somebody asks for a lock, and before each statement. What happens
there is for whoever watches to say. PostgreSQL gets its statements one by one here, each when the
one before is answered: whoever stops at a border has done all that lies before it.
"""

import ctypes
import os
import select
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from support import postgres_faults
from tugtool.store.postgres import PostgresStore, libpq
from tugtool.store.sqlite import backup, file
from tugtool.system import lock

#: Statement -> what is done instead. Nobody cuts the power here, so nobody waits for the disk.
INSTEAD = {"pragma synchronous = full": "pragma synchronous = off"}
#: What the border before a lock is called, and that before a transaction in which to write.
LOCK, WRITE = "queue", "begin immediate"
#: How a transaction ends.
ENDS = ("commit", "rollback")
#: How PostgreSQL's own statements begin -> the border's name; nothing for what only asks or sets.
SERVER = {
    "begin isolation level read committed": WRITE,
    "begin ": "begin",
    "select set_config": "",
    "set local": "",
    "select version, identity": "",
    # Now and then one that commits removes what nobody needs any more.
    "delete from receipts": "",
}
#: What takes a plan's lock, wherever it stands.
ADVISORY = "pg_advisory_xact_lock"
#: What a lock's border is followed by: the plan.
PLAN_LOCK = "lock "
WAITS = b"select 1 from pg_locks where pid = $1::int and not granted"
#: How long an answer may take before one asks whether it is a lock that it waits for.
SOON_SECONDS = 0.02


def locked(passed: Sequence[str]) -> set[str]:
    """What whoever has passed these borders keeps from others: a plan, or a whole file."""
    held: set[str] = set()
    on_server = any(name.startswith(PLAN_LOCK) for name in passed)
    for name in passed:
        if name == WRITE and not on_server:
            held.add("file")
        elif name.startswith(PLAN_LOCK):
            held.add(name)
        elif name in ENDS:
            held.clear()
    return held


def kept(passed: Sequence[str]) -> set[str]:
    """What it had locked when it committed."""
    ends = [number for number, name in enumerate(passed) if name == "commit"]
    return set().union(*(locked(passed[:number]) for number in ends))


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
    WatchedServer.passes, WatchedServer.waits = staticmethod(passes), staticmethod(waits)
    libpq.Connection = WatchedServer
    os.fsync = lambda descriptor: None
    # PostgreSQL's log is thinned by one command in 32: the same borders each time.
    thin = backup.thin
    backup.thin = lambda store: None if isinstance(store, PostgresStore) else thin(store)


class WatchedServer(libpq.Connection):
    """Carries out each statement for itself, after a border."""

    passes: ClassVar[Callable[[str], None]]
    waits: ClassVar[Callable[[], None]]

    def __init__(self, parameters: Mapping[str, str], seconds: float) -> None:
        super().__init__(parameters, seconds)
        self._parameters = parameters
        self._outcomes: list[libpq.Outcome | libpq.StatementFailed] = []

    def send(self, statement: bytes, values: Sequence[bytes | None] = ()) -> None:
        name = border(statement.decode(), values)
        if name:
            type(self).passes(name)
        super().send(statement, values)
        super().flush()
        self._look_out()
        self._outcomes += super().receive(1)

    def flush(self) -> None:
        """Everything was sent."""

    def receive(self, wanted: int) -> list[libpq.Outcome | libpq.StatementFailed]:
        outcomes, self._outcomes = self._outcomes, []
        return outcomes[len(outcomes) - wanted :]

    def _look_out(self) -> None:
        """Say so if the answer does not come because somebody else has a lock."""
        socket = self._pq.PQsocket(self._handle)
        while not select.select([socket], [], [], SOON_SECONDS)[0]:
            if self._is_waiting():
                type(self).waits()
                return

    def _is_waiting(self) -> bool:
        backend = self._pq.PQbackendPID
        backend.argtypes = (ctypes.c_void_p,)
        asking = PLAIN(self._parameters, 5)
        asking.send(WAITS, (b"%d" % backend(self._handle),))
        asking.flush()
        rows = asking.receive(1)[0].rows
        asking.close()
        return bool(rows)


PLAIN = libpq.Connection


def no_transaction() -> None:
    """A fault to plant: each statement for itself, and nobody waits for anybody."""
    INSTEAD.update(dict.fromkeys((WRITE, "commit"), "select 1"))
    postgres_faults.no_transaction()


def border(statement: str, values: Sequence[bytes | None]) -> str:
    """What the moment before a statement of PostgreSQL is called."""
    words = " ".join(statement.split())
    if ADVISORY in words and values:
        return PLAN_LOCK + (values[0] or b"").decode().partition("\n")[2]
    return next((name for begins, name in SERVER.items() if words.startswith(begins)), words[:60])


def passing(
    passes: Callable[[str], None], name: str, act: Callable[..., object]
) -> Callable[..., object]:
    """The same, with a border before it."""

    def acting(*words: object, **options: object) -> object:
        passes(name)
        return act(*words, **options)

    return acting
