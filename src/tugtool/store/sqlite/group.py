"""Operations that are committed together: a savepoint each, one commit, and the answers after it.

For the server, which has many writes waiting. An operation that raises is undone alone. Give out
no answer before the end of the group: if that raises, nothing of the group is stored. PostgreSQL
stores every transaction by itself.
"""

from __future__ import annotations

import fcntl

from tugtool.errors.state import QueryFailed
from tugtool.store.sqlite import file
from tugtool.system import lock, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from tugtool.errors.state import DatabaseError
    from tugtool.store.sqlite import SqliteStore
    from tugtool.store.sqlite.file import Connection, Events


class SqliteGroup:
    """Takes the store's place for the transactions within it.

    Reads within it see what the group has written so far.
    """

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._connection: Connection
        self._noted: list[Any] = []
        #: What an operation found out beside the record, for those after it.
        self.seen: dict[object, Any] = {}

    @property
    def last_event(self) -> int | None:
        """The number of the last event that an operation of the group has noted."""
        return self._noted[-1][0] if self._noted else None

    def __enter__(self) -> Self:
        self._connection = self._store.begin(writing=True)
        self._store.grouped = self
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        self._store.grouped = None
        whole = self._connection.in_transaction
        commit = kind is None and whole
        self._store.end(self._connection, writing=True, commit=commit, noted=self._noted)
        if kind is None and not whole:
            raise self._undone()

    def is_awaited(self) -> bool:
        """Return whether another process or thread waits to write until the group has ended."""
        place = lock.beside(self._store.path, busy_seconds=0)
        if place.line.waiting:
            return True
        try:
            # The next in line holds the turnstile while it waits for the lock.
            turnstile = os.open(os.path.dirname(self._store.path), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return True
        try:
            fcntl.flock(turnstile, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(turnstile)
        return False

    def begin(self, *, writing: bool, urgent: bool = False) -> Connection:
        """Begin one operation of the group."""
        if not self._connection.in_transaction:
            raise self._undone()
        # What changes nothing has nothing to undo.
        if writing:
            self._connection.execute("savepoint operation")
        return self._connection

    def end(
        self, connection: Connection, *, writing: bool, commit: bool, noted: Events = ()
    ) -> None:
        """End one operation: keep it for the commit, or undo it alone."""
        # A full disk or a damaged file undoes the whole transaction.
        if not writing or not connection.in_transaction:
            return
        try:
            if not commit:
                connection.execute("rollback to operation")
            connection.execute("release operation")
        except file.FAILURES as error:
            raise self.translated(error) from error
        self._noted += noted if commit else ()

    def now(self) -> int:
        """Return the time in milliseconds."""
        return self._store.now()

    def translated(self, error: Exception) -> DatabaseError:
        """Translate an error of SQLite or the system into one of ours."""
        return self._store.translated(error)

    def _undone(self) -> DatabaseError:
        reason = "an operation of the same group failed, and nothing of the group was written"
        return QueryFailed(self._store.path, reason=reason, name="ABORT_ROLLBACK")
