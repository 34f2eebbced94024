"""Operations that are committed together: a savepoint each, one commit, and the answers after it.

For the server, which has many writes waiting. An operation that raises is undone alone. Give out
no answer before the end of the group: if that raises, nothing of the group is stored. PostgreSQL
stores every transaction by itself.
"""

from __future__ import annotations

from tugtool.errors.state import QueryFailed
from tugtool.store.sqlite import file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

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
        self._noted: list[object] = []

    def __enter__(self) -> Self:
        self._connection = self._store.begin(writing=True)
        self._store.grouped = self
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        self._store.grouped = None
        whole = self._connection.in_transaction
        noted: Events = self._noted  # type: ignore[assignment]
        commit = kind is None and whole
        self._store.end(self._connection, writing=True, commit=commit, noted=noted)
        if kind is None and not whole:
            raise self._undone()

    def begin(self, *, writing: bool, urgent: bool = False) -> Connection:
        """Begin one operation of the group."""
        if not self._connection.in_transaction:
            raise self._undone()
        self._connection.execute("savepoint operation")
        return self._connection

    def end(
        self, connection: Connection, *, writing: bool, commit: bool, noted: Events = ()
    ) -> None:
        """End one operation: keep it for the commit, or undo it alone."""
        # A full disk or a damaged file undoes the whole transaction.
        if not connection.in_transaction:
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
