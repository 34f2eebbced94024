"""One transaction of the SQLite engine: statements in, rows out."""

from __future__ import annotations

from tugtool import clock as clocks
from tugtool.store import linked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Any, Self

    from tugtool.store.linked import Connection, Cursor
    from tugtool.store.sqlite import SqliteStore


class SqliteTransaction:
    """One transaction; see `tugtool.store.Transaction`."""

    def __init__(self, store: SqliteStore, plan: str | None, *, writing: bool) -> None:
        self._store = store
        self._plan = plan
        self._writing = writing
        self._connection: Connection
        self.now = ""
        self._milliseconds = 0

    def __enter__(self) -> Self:
        self._connection = self._store.begin(writing=self._writing)
        try:
            # Read under the lock: later transactions have later times.
            self._milliseconds = self._store.now()
            self.now = clocks.text(self._milliseconds)
        except BaseException:
            self._store.end(self._connection, writing=self._writing, commit=False)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        commit = self._writing and kind is None
        self._store.end(self._connection, writing=self._writing, commit=commit)

    def after(self, seconds: float) -> str:
        """The time so many seconds from now."""
        return clocks.text(self._milliseconds + max(1, round(seconds * 1000)))

    def first(self, statement: str, **values: object) -> Any | None:
        """The first row, if there is one."""
        return self._execute(statement, values).fetchone()

    def one(self, statement: str, **values: object) -> Any:
        """The row that must be there."""
        row = self._execute(statement, values).fetchone()
        assert row is not None, statement
        return row

    def all(self, statement: str, **values: object) -> list[Any]:
        """Every row."""
        return self._execute(statement, values).fetchall()

    def each(self, statement: str, **values: object) -> Iterator[Any]:
        """One row after the other."""
        try:
            yield from self._execute(statement, values)
        except linked.Error as error:
            raise self._store.translated(error) from error

    def value(self, statement: str, **values: object) -> Any:
        """The first column of the first row."""
        row = self._execute(statement, values).fetchone()
        return row[0] if row else None

    def run(self, statement: str, **values: object) -> int:
        """How many rows were changed."""
        return self._execute(statement, values).rowcount

    def many(self, statement: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Run a statement once per row."""
        try:
            self._connection.executemany(statement, rows)
        except linked.Error as error:
            raise self._store.translated(error) from error

    def _execute(self, statement: str, values: Mapping[str, object]) -> Cursor:
        try:
            # Nearly every statement is about the plan, at this time.
            named = {"plan": self._plan, "now": self.now, **values}
            try:
                return self._connection.execute(statement, named)
            except UnicodeEncodeError:
                # Somebody typed bytes that are no UTF-8; nothing here has a name like that.
                return self._connection.execute(statement, _written_out(named))
        except linked.Error as error:
            raise self._store.translated(error) from error


def _written_out(values: Mapping[str, object]) -> dict[str, object]:
    return {
        name: value.encode("utf-8", "backslashreplace").decode()
        if isinstance(value, str)
        else value
        for name, value in values.items()
    }
