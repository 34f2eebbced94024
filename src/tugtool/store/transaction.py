"""One transaction of the SQLite engine: statements in, rows out."""

from __future__ import annotations

from tugtool import clock as clocks
from tugtool.store import linked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
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
        damage = None if error is None else self._store.blamed(error, self._connection)
        self._store.end(self._connection, writing=self._writing, commit=commit)
        if damage is not None:
            raise damage from error

    def after(self, seconds: float) -> str:
        """The time so many seconds from now."""
        return clocks.text(self._milliseconds + max(1, round(seconds * 1000)))

    def first(self, statement: str, **values: object) -> Any | None:
        """The first row, if there is one."""
        return self._ask(statement, values, linked.Cursor.fetchone)

    def one(self, statement: str, **values: object) -> Any:
        """The row that must be there."""
        row = self._ask(statement, values, linked.Cursor.fetchone)
        assert row is not None, statement
        return row

    def all(self, statement: str, **values: object) -> list[Any]:
        """Every row."""
        return self._ask(statement, values, linked.Cursor.fetchall)  # type: ignore[no-any-return]

    def each(self, statement: str, **values: object) -> Iterator[Any]:
        """One row after the other."""
        try:
            yield from self._ask(statement, values, iter)
        except linked.FAILURES as error:
            raise self._store.translated(error) from error

    def value(self, statement: str, **values: object) -> Any:
        """The first column of the first row."""
        row = self._ask(statement, values, linked.Cursor.fetchone)
        return row[0] if row else None

    def run(self, statement: str, **values: object) -> int:
        """How many rows were changed."""
        return self._ask(statement, values, _changed)  # type: ignore[no-any-return]

    def many(self, statement: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Run a statement once per row."""
        try:
            self._connection.executemany(statement, rows)
        except linked.FAILURES as error:
            raise self._store.translated(error) from error

    def _ask(
        self, statement: str, values: Mapping[str, object], take: Callable[[Cursor], Any]
    ) -> Any:
        """Run a statement and take what it yields: damage may show at any row."""
        try:
            # Nearly every statement is about the plan, at this time.
            named = {"plan": self._plan, "now": self.now, **values}
            try:
                return take(self._connection.execute(statement, named))
            except UnicodeEncodeError:
                # Somebody typed bytes that are no UTF-8; nothing here has a name like that.
                return take(self._connection.execute(statement, _written_out(named)))
        except linked.FAILURES as error:
            raise self._store.translated(error) from error


def _changed(cursor: Cursor) -> int:
    return cursor.rowcount


def _written_out(values: Mapping[str, object]) -> dict[str, object]:
    return {
        name: value.encode("utf-8", "backslashreplace").decode()
        if isinstance(value, str)
        else value
        for name, value in values.items()
    }
