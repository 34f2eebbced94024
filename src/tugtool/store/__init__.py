"""The state's home: what every engine offers, and how one is opened.

Only modules in here know a database engine. `write` means: nobody else is changing this
plan; operations can be reasoned about as if they were alone.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Any, Protocol, Self

    # By column name; engines bring their own kind.
    Row = Any

    class Transaction(Protocol):
        """One transaction: all of it happens, or nothing.

        Statements get `:plan` and `:now` from it, unless they are given.
        """

        #: The time of the transaction, read once, as text.
        now: str

        def after(self, seconds: float) -> str:
            """The time so many seconds from now."""

        def first(self, statement: str, **values: object) -> Row | None:
            """The first row, if there is one."""

        def one(self, statement: str, **values: object) -> Row:
            """The row that must be there."""

        def all(self, statement: str, **values: object) -> list[Row]:
            """Every row."""

        def each(self, statement: str, **values: object) -> Iterator[Row]:
            """One row after the other, as they are asked for."""

        def value(self, statement: str, **values: object) -> Any:
            """The first column of the first row."""

        def run(self, statement: str, **values: object) -> int:
            """How many rows were changed."""

        def many(self, statement: str, rows: Iterable[Mapping[str, object]]) -> None:
            """Run a statement once per row."""

        def __enter__(self) -> Self: ...
        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None: ...

    class Rescue(Protocol):
        """A sound copy of a database, made ready to take its place; nobody writes meanwhile."""

        @property
        def copy(self) -> Store:
            """The copy; it may be changed."""

        @property
        def needed(self) -> bool:
            """Whether the database is gone or empty."""

        @property
        def most_changes(self) -> int:
            """How many changes there may have been since the copy was made, at most."""

        def facts(self) -> dict[str, object]:
            """Where the copy came from, and what is missing in it."""

        def put_in_place(self) -> str:
            """Let the copy be the database; where the one before is kept."""

        def __enter__(self) -> Self: ...
        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None: ...

    class Store(Protocol):
        """A state database."""

        #: Whoever has nothing to do goes before other threads of its process that have.
        is_urgent: bool

        def exists(self) -> bool:
            """Whether there is one; nothing is made by asking."""

        def create(self) -> None:
            """Make it, complete or not at all; harmless if there is one."""

        def write(self, plan: str) -> Transaction:
            """A transaction that may change the plan."""

        def read(self, plan: str | None = None) -> Transaction:
            """A transaction that sees one moment and changes nothing."""

        def wait_for_change(self, seconds: float) -> bool:
            """Return when somebody has changed something, or after so many seconds; which?"""

        def is_lost(self) -> bool:
            """Whether the database is gone or empty, and a backup of it is there."""

        def is_sound(self) -> bool:
            """Whether the database is there, whole, and not behind what was acknowledged."""

        def damage(self) -> list[str]:
            """What is wrong with the database itself, in words; nothing is changed."""

        def dangling(self) -> list[str]:
            """Rows that refer to rows that are not there, in words."""

        def forgotten(self) -> list[dict[str, object]] | None:
            """What is known to have been completed in a database that is gone with its backup."""

        def back_up(self, *, pending: bool = False) -> str | None:
            """Keep a copy, unless there is a fresh one; what went wrong, in words.

            With `pending` only if steps were completed that the last one does not hold.
            """

        def rescue(self, source: str | None = None) -> Rescue:
            """What it takes to put a copy in the database's place, its backup if none is named."""

        def close(self) -> None:
            """Let go of the database."""


def open_store(
    url: str,
    *,
    clock: Callable[[], int] | None = None,
    busy_seconds: float = 5,
    copies: str | None = None,
) -> Store:
    """The store at `url`: `sqlite:///absolute/path/of/state.db`. Opens no file yet.

    With a directory `copies`, backups are kept there, and so is a copy of an older database
    before it is migrated; else that copy goes beside the database, and there are no backups.
    """
    from tugtool.state_errors import DatabaseUnavailable

    scheme, separator, path = url.partition("://")
    if not separator or scheme != "sqlite" or not path.startswith("/"):
        raise DatabaseUnavailable(url, reason="is no address of a database")
    from tugtool.store.sqlite import SqliteStore

    return SqliteStore(path, clock=clock, busy_seconds=busy_seconds, copies=copies)
