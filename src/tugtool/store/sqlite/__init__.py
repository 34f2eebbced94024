"""The engine of one machine: one SQLite file in WAL mode, one writer at a time."""

from __future__ import annotations

import time

from tugtool.errors import TugError
from tugtool.store import NO_PLAN, sql
from tugtool.store.sqlite import file
from tugtool.system import clock as clocks
from tugtool.system import lock, os, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, Self

    from tugtool.errors.state import DatabaseError
    from tugtool.store import Rescue
    from tugtool.store.sqlite.file import Connection, Cursor, Events
    from tugtool.store.sqlite.group import SqliteGroup
    from tugtool.store.sqlite.restore import FileRescue


class SqliteTransaction:
    """One transaction; see `tugtool.store.Transaction`."""

    def __init__(
        self, store: Any, plan: str, *, writing: bool = False, urgent: bool = False
    ) -> None:
        self._store = store
        #: The default plan of statements.
        self.plan = plan
        self._writing = writing
        self._urgent = urgent
        self._connection: Connection
        self.now = ""
        self._milliseconds = 0
        #: Its events in the columns of `sql.EVENTS_SINCE`.
        self._noted: list[list[Any]] = []

    def __enter__(self) -> Self:
        self._connection = self._store.begin(writing=self._writing, urgent=self._urgent)
        try:
            # Read under the lock: later transactions have later times.
            self._milliseconds = self._store.now()
            self.now = clocks.text(self._milliseconds)
        except BaseException:
            self._store.end(self._connection, writing=self._writing, commit=False)
            raise
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        commit = self._writing and kind is None
        self._store.end(self._connection, writing=self._writing, commit=commit, noted=self._noted)

    def after(self, seconds: float) -> str:
        """Return the time so many seconds from now."""
        return clocks.text(self._milliseconds + max(1, round(seconds * 1000)))

    def first(self, statement: str, **values: object) -> Any | None:
        """Return the first row, or None."""
        try:
            return self._ask(statement, values).fetchone()
        except file.FAILURES as error:
            raise self._store.translated(error) from error

    def one(self, statement: str, **values: object) -> Any:
        """Return the row that must exist."""
        row = self.first(statement, **values)
        assert row is not None, statement
        return row

    def all(self, statement: str, **values: object) -> list[Any]:
        """Return all rows."""
        try:
            return self._ask(statement, values).fetchall()
        except file.FAILURES as error:
            raise self._store.translated(error) from error

    def each(self, statement: str, **values: object) -> Iterator[Any]:
        """Yield the rows one by one."""
        try:
            yield from self._ask(statement, values)
        except file.FAILURES as error:
            raise self._store.translated(error) from error

    def value(self, statement: str, **values: object) -> Any:
        """Return the first column of the first row."""
        row = self.first(statement, **values)
        return row[0] if row else None

    def run(self, statement: str, **values: object) -> int:
        """Run a statement and return the number of changed rows."""
        try:
            return self._ask(statement, values).rowcount
        except file.FAILURES as error:
            raise self._store.translated(error) from error

    later = run

    def expect(self, statement: str, **values: object) -> None:
        """Do nothing: a question costs no round trip."""

    def note(self, kind: str, detail: Mapping[str, object], **values: object) -> None:
        """Add an event to the log."""
        step = values["anchor"]
        values["kind"], values["detail"] = kind, text.encode(detail)
        try:
            number = self._ask(sql.ADD_EVENT, values).lastrowid
        except file.FAILURES as error:
            raise self._store.translated(error) from error
        self._noted.append([number, self.now, self.plan, step, detail.get("commit"), kind, step])

    def many(self, statement: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Run a statement once per row."""
        try:
            self._connection.executemany(statement, map(_storable, rows))
        except file.FAILURES as error:
            raise self._store.translated(error) from error

    # Called for every statement: it changes the dictionary that its caller's call has made.
    def _ask(self, statement: str, values: dict[str, Any]) -> Cursor:
        """Run a statement. Damage may show at any row, so its caller translates errors."""
        for value in values.values():
            if type(value) is str and "\0" in value:
                values = _storable(values)
                break
        # Nearly every statement needs the plan and the time.
        if "plan" not in values:
            values["plan"] = self.plan
        if "now" not in values:
            values["now"] = self.now
        try:
            return self._connection.execute(statement, values)
        except UnicodeEncodeError:
            # A caller gave bytes that are not UTF-8; no stored name has them.
            from tugtool.store.sqlite import create

            return self._connection.execute(statement, create.written_out(values))


def _storable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with NUL, which other engines cannot store, replaced by its symbol."""
    return {n: v.replace("\0", "\u2400") if type(v) is str else v for n, v in values.items()}


#: The application id and version in `schema`, which is loaded only to make or migrate.
CURRENT = (0x54756731, 16)

#: How often a waiting command looks for changes.
LOOK_SECONDS = 0.05

#: A starting command reads the whole log, and one that ends without closing leaves it, so keep
#: it short. SQLite's automatic checkpoint knows its progress only while the file is open.
LONG_LOG_BYTES = 1 << 19

#: For a long-running process: commands that start meanwhile share its index of the log. The
#: value is above SQLite's automatic checkpoint (1000 pages), so that the log is rarely truncated:
#: a truncation costs two syncs, and later commits have to extend the file again.
LONGEST_LOG_BYTES = 1 << 22

#: A process with so many commits is a long-running one; it checks its log this often.
STAYING_COMMITS = 20

#: A younger backup suffices.
BACKUP_SECONDS = 60


class SqliteStore:
    """A state database in one file, for one thread at a time."""

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
        #: The directory of backups, or None; see `tugtool.store.sqlite.backup`.
        self.copies = copies
        self.backup = copies and os.path.join(copies, "backup.db")
        self.mark = copies and os.path.join(copies, "mark")
        self._kept_mark = file.Mark(self.mark)
        self.connect_file: Callable[..., Connection] = file.opened
        self._lock = lock.beside(path, busy_seconds=self._busy_seconds)
        self._writer: Connection | None = None
        self._reader: Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._version: int | None = None
        self._commits = 0
        self.grouped: SqliteGroup | None = None

    def exists(self) -> bool:
        """Return whether there is a database; an empty file is not one, a lost one is refused."""
        if self.grouped is not None or self.size() > 0:
            return True
        from tugtool.store.sqlite import health

        health.refuse_lost(self)
        return self.size() > 0

    def size(self) -> int:
        """Return the size of the file in bytes; 0 if there is none."""
        try:
            return os.stat(self.path).st_size
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise self.translated(error) from error

    def create(
        self, restore: Callable[[Rescue], Mapping[str, Any]] | None = None
    ) -> Mapping[str, Any] | None:
        """Make all tables or nothing; restore a lost file first if possible."""
        loss = None
        if restore is not None and not self.size():
            from tugtool.store.sqlite import restore as sqlite_restore

            loss = sqlite_restore.recover(self, restore)
        try:
            with self._lock:
                self._drop_replaced()
                if not self.exists():
                    file.forget(self.mark)
                self._writer = self._writer or self._opened("rwc")
        except file.FAILURES as error:
            raise self.translated(error) from error
        return loss

    def write(self, plan: str, *_: str, urgent: bool = False) -> SqliteTransaction:
        """Begin a transaction that may change the plans; SQLite locks all plans alike."""
        return SqliteTransaction(self.grouped or self, plan, writing=True, urgent=urgent)

    def read(self, plan: str | None = None) -> SqliteTransaction:
        """Begin a transaction that changes nothing and waits for no other."""
        return SqliteTransaction(self.grouped or self, plan or NO_PLAN)

    def group(self) -> SqliteGroup:
        """Begin a group: transactions within it are committed together, at its end."""
        from tugtool.store.sqlite.group import SqliteGroup

        return SqliteGroup(self)

    def wait_for_change(self, seconds: float) -> bool:
        """Wait for another process's commit, at most so long. Return whether one came."""
        deadline = time.monotonic() + seconds
        if self._version is None:
            self._version = self._data_version()
        while self._data_version() == self._version:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            # SQLite does not notify of commits, so poll.
            time.sleep(min(LOOK_SECONDS, left))
        # Kept for the next call, so that no change between two calls is missed.
        self._version = self._data_version()
        return True

    def back_up(self, *, pending: bool = False, apart: bool = False) -> str | None:
        """Make a backup, unless there is a fresh one. Return the problem, or None.

        With `pending` only if steps were completed since the last; `apart`: see `backup.keep`.
        """
        if self.backup is None or clocks.is_fresh(self.backup, BACKUP_SECONDS):
            return None
        if pending and not file.has_rows(self.mark):
            return None
        from tugtool.store.sqlite import backup

        return backup.keep(self, apart=apart)

    def rescue(self, source: str | None = None) -> FileRescue:
        """Return a rescue that installs a copy; see `store.sqlite.restore`."""
        from tugtool.store.sqlite import restore

        return restore.FileRescue(self, source, busy_seconds=self._busy_seconds)

    def close(self) -> None:
        """Close the connections; the last writer's close checkpoints, so it queues."""
        if self._reader:
            self._reader.close()
        if self._writer:
            try:
                self._lock.enter()
            except TugError:
                file.let_go(self._writer, self.path)
            else:
                self._writer.close()
                file.sign(self.mark, self.path)
                self._lock.leave()
        self._lock.close()
        self._kept_mark.close()
        self._reader = self._writer = self._identity = self._version = None

    def now(self) -> int:
        """Return the time in milliseconds."""
        return self._clock()

    def begin(self, *, writing: bool, urgent: bool = False) -> Connection:
        """Return a connection with an open transaction."""
        if writing:
            self._lock.enter(first=urgent)
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
                self._lock.leave()
            if isinstance(error, file.FAILURES):
                raise self.translated(error) from error
            raise

    def end(
        self, connection: Connection, *, writing: bool, commit: bool, noted: Events = ()
    ) -> None:
        """End the transaction, whose events are `noted`, and let the next writer in."""
        try:
            if commit:
                self._refuse_replaced("nothing was written", written=False)
            if commit and connection.in_transaction:
                self._kept_mark.read(connection, noted)
                self._commit(connection)
                self._commits += 1
                new = self._commits <= STAYING_COMMITS
                if new or self._commits % STAYING_COMMITS == 0:
                    self._shorten_log(connection, LONG_LOG_BYTES if new else LONGEST_LOG_BYTES)
                # If the file was deleted meanwhile, the commit is in a file that no command finds.
                signed = self._refuse_replaced("what was written went with it", written=True)
                self._kept_mark.move(signed)
        finally:
            file.roll_back(connection)
            if writing:
                self._lock.leave()

    def _commit(self, connection: Connection) -> None:
        try:
            connection.execute("commit")
        except file.FAILURES as error:
            file.roll_back(connection)
            from tugtool.store.sqlite import create

            raise create.uncommitted(self.translated(error), connection) from error

    def _refuse_replaced(self, outcome: str, *, written: bool) -> tuple[int, int, int]:
        found, signed = lock.seen(self.path)
        # The commit is stored, even if the file cannot be looked at now.
        if found != self._identity and not (written and found == lock.UNSEEN):
            from tugtool.errors.state import DatabaseUnavailable

            reason = f"was deleted or replaced in the meantime; {outcome}"
            raise DatabaseUnavailable(self.path, reason=reason)
        return signed

    def _shorten_log(self, connection: Connection, longest: int) -> None:
        try:
            if os.stat(f"{self.path}-wal").st_size > longest:
                from tugtool.store.sqlite import create

                create.cut_log(connection, self._busy_seconds)
        except (OSError, *file.FAILURES):
            # The commit is stored.
            return

    def _opened(self, mode: str) -> Connection:
        before = lock.identity(self.path)
        connection = self.connect_file(self.path, mode, busy_seconds=self._busy_seconds)
        try:
            self._check(connection, mode)
        except BaseException:
            file.let_go(connection, self.path)
            raise
        self._drop_replaced()
        if before != lock.identity(self.path):
            # The file may be new, or was replaced during the opening: compare with the path.
            file.let_go(connection, self.path)
            return self._opened(mode)
        self._identity = before
        return connection

    def _check(self, connection: Connection, mode: str) -> None:
        """Refuse a foreign, newer or outdated file; make or migrate if allowed."""
        # Read the mark first: a commit moves it afterwards.
        marked, signed = file.read_mark(self.mark) if self.mark else (0, lock.UNSIGNED)
        application = connection.execute("pragma application_id").fetchone()[0]
        version = connection.execute("pragma user_version").fetchone()[0]
        if (application, version) == CURRENT:
            behind = file.reached(connection) < marked
            if behind or signed not in (lock.UNSIGNED, lock.signature(self.path)):
                from tugtool.store.sqlite import health

                health.verify(self, connection, marked)
            return
        from tugtool.store.sqlite import create

        copies = self.copies or os.path.dirname(self.path)
        create.create_or_migrate(
            *(connection, self.path),
            mode=mode,
            copies=copies,
            backup=self.backup,
            lock=self._lock,
        )

    def _drop_replaced(self) -> None:
        """Drop the connections if the file was deleted or replaced."""
        if self._identity is not None and lock.identity(self.path) != self._identity:
            # Before anything is opened: closing would drop its locks. SQLite notices that its
            # file has moved, and does not touch the new one.
            for connection in (self._reader, self._writer):
                if connection:
                    connection.close()
            self._reader = self._writer = self._identity = self._version = None

    def _data_version(self) -> int:
        try:
            self._drop_replaced()
            self._reader = self._reader or self._opened("ro")
            return int(self._reader.execute("pragma data_version").fetchone()[0])
        except file.FAILURES as error:
            raise self.translated(error) from error

    def translated(self, error: Exception) -> DatabaseError:
        """Translate an error of SQLite or the system into one of ours."""
        from tugtool.errors.state import unopened
        from tugtool.store.sqlite import create

        if isinstance(error, OSError):
            return unopened(self.path, error)
        busy = self._busy_seconds
        return create.translated(self.path, error, busy_seconds=busy, backup=self.backup)
