"""The state database: the interface of every engine, and how to open one.

`write` means: no other process changes these plans, so operations can be written as if they
were alone.

Room `store`: only its modules know a database engine. It imports errors and system; every room
above may import it.
"""

from __future__ import annotations

import sys

from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Any, Protocol, Self

    from tugtool.store.sqlite import SqliteStore
    from tugtool.store.sqlite.restore import FileRescue

    # The only store in a file, and its restore.
    FileStore = SqliteStore
    Rescue = FileRescue

    Data = Mapping[str, Any]

    # Rows by column name; each engine has its own type.
    Row = Any

    class Transaction(Protocol):
        """One transaction, stored completely or not at all.

        Statements get `:plan` and `:now` from it, unless they are given.
        """

        #: The first of the transaction's plans.
        plan: str

        @property
        def now(self) -> str:
            """The time of the transaction, read once, as text."""

        def after(self, seconds: float) -> str:
            """Return the time so many seconds from now."""

        def first(self, statement: str, **values: object) -> Row | None:
            """Return the first row, or None."""

        def one(self, statement: str, **values: object) -> Row:
            """Return the row that must exist."""

        def all(self, statement: str, **values: object) -> list[Row]:
            """Return all rows."""

        def each(self, statement: str, **values: object) -> Iterator[Row]:
            """Yield the rows one by one, as they are asked for."""

        def value(self, statement: str, **values: object) -> Any:
            """Return the first column of the first row."""

        def run(self, statement: str, **values: object) -> int:
            """Run a statement and return the number of changed rows."""

        def later(self, statement: str, **values: object) -> object:
            """Run a statement for its changes; an engine may send it with the next one."""

        def expect(self, statement: str, **values: object) -> None:
            """Announce a question that follows: an engine may send it with the next one."""

        def note(self, kind: str, detail: Mapping[str, object], **values: object) -> None:
            """Add an event to the log, with the values of its other columns."""

        def many(self, statement: str, rows: Iterable[Mapping[str, object]]) -> None:
            """Run a statement once per row."""

        def __enter__(self) -> Self: ...
        def __exit__(self, *_: object) -> None: ...

    class Store(Protocol):
        """A state database: what the operations need of an engine."""

        def exists(self) -> bool:
            """Return whether it exists; make nothing."""

        def create(self, restore: Callable[[Rescue], Data] | None = None) -> Data | None:
            """Make it, completely or not at all; do nothing if it exists.

            With `restore`, which prepares a backup, a lost file is restored from its backup. Return
            what was lost: the answer of `restore`, or `lost_steps` with `restored` false if the
            backup is lost too.
            """

        def write(self, plan: str, *others: str, urgent: bool = False) -> Transaction:
            """Begin a transaction that may change rows of these plans only.

            `NO_PLAN` stands for rows without a plan. An urgent transaction goes before those of
            other threads of this process.
            """

        def read(self, plan: str | None = None) -> Transaction:
            """Begin a transaction that sees one moment and changes nothing."""

        def group(self) -> AbstractContextManager[object]:
            """Commit the transactions within it together; see `store.sqlite.group`."""

        def wait_for_change(self, seconds: float) -> bool:
            """Wait for a change, at most so many seconds. Return whether there was one."""

        def close(self) -> None:
            """Close the database."""


#: The plan of `write` for dashes, and for worktrees and intents without a plan.
NO_PLAN = ""


def open_store(
    url: str,
    *,
    clock: Callable[[], int] | None = None,
    busy_seconds: float = 5,
    copies: str | None = None,
    repository: str | None = None,
) -> Store:
    """Return the store at `url`: `sqlite:///absolute/path/of/state.db`, or `postgresql://...`.

    Open nothing yet. On a server `repository` tells states apart. The directory `copies` gets
    backups of a file, and a copy of an older database before it is migrated; without it that copy
    goes beside the database, and there are no backups.
    """
    scheme, separator, path = url.partition("://")
    if scheme in ("postgresql", "postgres"):
        from tugtool.store.postgres import PostgresStore

        return PostgresStore(url, repository=repository, clock=clock, busy_seconds=busy_seconds)
    if not separator or scheme != "sqlite" or not path.startswith("/"):
        from tugtool.errors.state import DatabaseUnavailable
        from tugtool.system.state_config import without_password

        reason = "is not the address of a database or a server, as postgresql:// or https://"
        raise DatabaseUnavailable(without_password(url), reason=reason, hint="tugcode config")
    from tugtool.store.sqlite import SqliteStore

    return SqliteStore(path, clock=clock, busy_seconds=busy_seconds, copies=copies)


def locate(root: str, common_dir: str) -> tuple[str, str, str | None]:
    """Return the URL of a repository's database, the directory of its backups, and an odd path.

    That is the database or its directory, if it is a link, a FIFO or a device.
    """
    directory = os.path.join(root, ".tugtool")
    path = os.path.join(directory, "state.db")
    odd = next((each for each in (directory, path) if _is_odd(each)), None)
    # SQLite keeps the log beside the file itself, not beside a link to it.
    url = f"sqlite://{path if odd is None else os.path.realpath(path)}"
    # `git clean` cannot reach the backups there.
    return url, os.path.join(common_dir, "tugtool"), odd


def _is_odd(path: str) -> bool:
    plain = os.path.isfile(path) or os.path.isdir(path)
    return os.path.islink(path) or (os.path.lexists(path) and not plain)


def file_store(store: Store) -> FileStore | None:
    """Return the store if it is a file: only that is examined, backed up and restored here."""
    sqlite = sys.modules.get("tugtool.store.sqlite")
    return store if sqlite is not None and isinstance(store, sqlite.SqliteStore) else None


def rows(store: Store, statement: str, **values: object) -> list[Row]:
    """Return the rows of a statement about all plans; empty if there is no database."""
    if not store.exists():
        return []
    with store.read() as tx:
        return tx.all(statement, **values)


def back_up(store: Store, *, pending: bool = False) -> str | None:
    """Back up a database that is a file. Return the problem, or None.

    The caller does not wait for the copy of a large one, and does not learn of its errors.
    """
    file = file_store(store)
    if file is not None:
        return file.back_up(pending=pending, apart=True)
    # PostgreSQL has its own backups, but also a log of heartbeats that someone has to thin.
    if not pending and hasattr(store, "owners") and os.urandom(1)[0] < 8:
        from tugtool.store.sqlite import backup

        backup.thin(store)
    return None
