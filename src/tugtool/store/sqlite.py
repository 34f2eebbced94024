"""The engine of one machine: one SQLite file, in WAL mode, one writer at a time."""

from __future__ import annotations

import os
import sys
import time

from tugtool import clock as clocks
from tugtool.state_errors import DatabaseError, DatabaseUnavailable
from tugtool.store import linked, schema
from tugtool.store.queue import Queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Any, Self

    from tugtool.store.linked import Connection, Cursor

#: How often a waiting command looks whether anything has changed.
LOOK_SECONDS = 0.05


#: A command that starts reads the whole log, and one that ends without closing leaves it: so
#: it is kept short. SQLite's own way knows what it has moved only while somebody has it open.
LONG_LOG_BYTES = 1 << 19


class SqliteStore:
    """A state database in one file. Not for several threads at once."""

    def __init__(
        self,
        path: str,
        *,
        clock: Callable[[], int] | None = None,
        busy_seconds: float = 5,
        copies: str | None = None,
    ) -> None:
        self.path = path
        self._clock = clock or clocks.system_milliseconds
        # SQLite counts milliseconds in 32 bits, and would not wait at all for more.
        self._busy_seconds = min(busy_seconds, 2_000_000)
        self._copies = copies or os.path.dirname(path)
        self._queue = Queue(_lock_path(path), busy_seconds=self._busy_seconds)
        self._writer: Connection | None = None
        self._reader: Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._version: int | None = None

    def exists(self) -> bool:
        """Whether there is a database; an empty file is none."""
        try:
            if os.stat(self.path).st_size > 0:
                return True
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self.translated(error) from error
        self._refuse_lost()
        return False

    def _refuse_lost(self) -> None:
        """A log without its database is what somebody deleted by mistake, not a fresh start."""
        log = f"{self.path}-wal"
        if os.path.exists(log) and os.stat(log).st_size > 0:
            reason = "is gone or empty, but its log is there; what it held may still be saved"
            raise DatabaseUnavailable(self.path, reason=reason)

    def create(self) -> None:
        """Make the tables, or nothing; harmless if they are there."""
        self._queue.enter()
        try:
            self._drop_replaced()
            self.exists()
            self._writer = self._writer or self._opened("rwc")
        except linked.Error as error:
            raise self.translated(error) from error
        finally:
            self._queue.leave()

    def write(self, plan: str) -> SqliteTransaction:
        """A transaction that may change the plan; SQLite locks all plans alike."""
        return SqliteTransaction(self, plan, writing=True)

    def read(self, plan: str | None = None) -> SqliteTransaction:
        """A transaction that changes nothing and waits for nobody."""
        return SqliteTransaction(self, plan, writing=False)

    def wait_for_change(self, seconds: float) -> bool:
        """Look until another process has committed, or the time is up; whether it has."""
        deadline = time.monotonic() + seconds
        if self._version is None:
            self._version = self._data_version()
        while self._data_version() == self._version:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(LOOK_SECONDS, left))
        # Kept for the next call, so that nothing is missed between two of them.
        self._version = self._data_version()
        return True

    def close(self) -> None:
        """Close what is open; the last writer's close checkpoints, so it queues."""
        if self._reader:
            self._reader.close()
        if self._writer:
            try:
                self._queue.enter()
            except DatabaseError:
                self._let_go(self._writer)
            else:
                self._writer.close()
                self._queue.leave()
        self._reader = self._writer = self._identity = self._version = None

    def now(self) -> int:
        """The time, in milliseconds."""
        return self._clock()

    def begin(self, *, writing: bool) -> Connection:
        """A connection with a transaction open on it."""
        if writing:
            self._queue.enter()
        try:
            self._drop_replaced()
            if not writing:
                self._reader = self._reader or self._opened("ro")
                self._reader.execute("begin")
                return self._reader
            self._writer = self._writer or self._opened("rw")
            # Never plain `begin`: turning a reader into a writer fails at once when busy.
            self._writer.execute("begin immediate")
            return self._writer
        except BaseException as error:
            if writing:
                self._queue.leave()
            if isinstance(error, linked.Error):
                raise self.translated(error) from error
            raise

    def end(self, connection: Connection, *, writing: bool, commit: bool) -> None:
        """End the transaction and let the next writer in."""
        try:
            if commit and _identity(self.path) != self._identity:
                reason = "was deleted or replaced in the meantime; nothing was written"
                raise DatabaseUnavailable(self.path, reason=reason)
            if commit and connection.in_transaction:
                connection.execute("commit")
                self._shorten_log(connection)
        except linked.Error as error:
            raise self.translated(error) from error
        finally:
            _roll_back(connection)
            if writing:
                self._queue.leave()

    def _shorten_log(self, connection: Connection) -> None:
        try:
            if os.stat(f"{self.path}-wal").st_size > LONG_LOG_BYTES:
                # If somebody reads just now, it is done another time.
                connection.execute("pragma busy_timeout = 0")
                connection.execute("pragma wal_checkpoint(truncate)")
                connection.execute(f"pragma busy_timeout = {int(self._busy_seconds * 1000)}")
        except (OSError, linked.Error):
            # What was committed stays committed.
            return

    def _opened(self, mode: str) -> Connection:
        before = _identity(self.path)
        connection = self._connect(mode)
        try:
            self._check(connection, mode)
        except BaseException:
            self._let_go(connection)
            raise
        self._drop_replaced()
        if before != _identity(self.path):
            # Made just now, or replaced while it was being opened: is it what lies there?
            self._let_go(connection)
            return self._opened(mode)
        self._identity = before
        return connection

    def _connect(self, mode: str) -> Connection:
        # Names in a URI: % ? # would be read as something else.
        name = self.path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        connection = linked.connect(
            f"file:{name}?mode={mode}",
            uri=True,
            isolation_level=None,
            timeout=self._busy_seconds,
            check_same_thread=False,
        )
        connection.row_factory = linked.Row
        connection.execute("pragma foreign_keys = on")
        # Acknowledged means that it survives a power cut.
        connection.execute("pragma synchronous = full")
        if sys.platform == "darwin":
            connection.execute("pragma fullfsync = on")
        return connection

    def _check(self, connection: Connection, mode: str) -> None:
        """Refuse what is not ours, or newer than we are; make or migrate where that is due."""
        application = connection.execute("pragma application_id").fetchone()[0]
        version = connection.execute("pragma user_version").fetchone()[0]
        if application == schema.APPLICATION_ID and version == schema.VERSION:
            return
        from tugtool.store import making

        making.settle(connection, self.path, mode=mode, copies=self._copies)

    def _let_go(self, connection: Connection) -> None:
        """Close without the checkpoint of a last closer: what lies there is left as it is."""
        try:
            # While somebody reads, nobody is the last; and a reader's own close writes nothing.
            reader = self._connect("ro")
            reader.execute("select 1 from sqlite_master limit 1").fetchone()
        except linked.Error:
            connection.close()
        else:
            connection.close()
            reader.close()

    def _drop_replaced(self) -> None:
        """A file that was deleted or put in another's place is not the one we have open."""
        if self._identity is not None and _identity(self.path) != self._identity:
            # Before anything is opened: closing would drop its locks. SQLite sees by itself
            # that its file has moved, and touches nothing of what lies there now.
            for connection in (self._reader, self._writer):
                if connection:
                    connection.close()
            self._reader = self._writer = self._identity = self._version = None

    def _data_version(self) -> int:
        try:
            self._drop_replaced()
            self._reader = self._reader or self._opened("ro")
            return int(self._reader.execute("pragma data_version").fetchone()[0])
        except linked.Error as error:
            raise self.translated(error) from error

    def translated(self, error: Exception) -> DatabaseError:
        """Our word for what SQLite or the system says."""
        from tugtool.store import trouble

        if isinstance(error, OSError):
            return trouble.unopened(self.path, error)
        assert isinstance(error, linked.Error)
        return trouble.translated(self.path, error, busy_seconds=self._busy_seconds)


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
            return self._connection.execute(statement, named)
        except linked.Error as error:
            raise self._store.translated(error) from error


def _roll_back(connection: Connection) -> None:
    try:
        if connection.in_transaction:
            connection.execute("rollback")
    except linked.Error:
        # Whatever is wrong with the file, what was not committed is not in it.
        pass


def _lock_path(path: str) -> str:
    return os.path.join(os.path.dirname(path), "state.lock")


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
