"""The engine of one machine: one SQLite file, in WAL mode, one writer at a time."""

from __future__ import annotations

import os
import time

from tugtool import clock as clocks
from tugtool.errors import TugError
from tugtool.state_errors import DatabaseError, DatabaseUnavailable, NewerDatabase
from tugtool.store import linked, mark, queue, schema
from tugtool.store.transaction import SqliteTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from tugtool.store.linked import Connection
    from tugtool.store.rescue import Rescue

#: How often a waiting command looks whether anything has changed.
LOOK_SECONDS = 0.05

#: A command that starts reads the whole log, and one that ends without closing leaves it: so
#: it is kept short. SQLite's own way knows what it has moved only while somebody has it open.
LONG_LOG_BYTES = 1 << 19

#: Of a process that stays: whoever starts meanwhile shares its index of the log and need not
#: read it. Above what SQLite itself writes over (1000 pages), so that a log is rarely cut off:
#: that costs two syncs, and every commit that makes the file longer again some more.
LONGEST_LOG_BYTES = 1 << 22

#: So many commits of one process, and it is one that stays.
STAYING_COMMITS = 20

#: No backup is made while there is one that is younger.
BACKUP_SECONDS = 60


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
        #: Where backups are kept, if they are; see `tugtool.store.backup`.
        self.copies = copies
        self.backup = copies and os.path.join(copies, "backup.db")
        self.mark = copies and os.path.join(copies, "mark")
        self._queue = queue.beside(path, busy_seconds=self._busy_seconds)
        self._writer: Connection | None = None
        self._reader: Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._version: int | None = None
        self._commits = 0
        self.is_urgent = False

    def exists(self) -> bool:
        """Whether there is a database; an empty file is none, and a lost one is refused."""
        if self.size() > 0:
            return True
        from tugtool.store import backup

        backup.refuse_lost(self)
        return False

    def is_lost(self) -> bool:
        """Whether the database is gone or empty, and a backup of it is there."""
        from tugtool.store import backup

        return self.size() == 0 and backup.is_sound(self.backup)

    def size(self) -> int:
        """How many bytes the file has; 0 if there is none."""
        try:
            return os.stat(self.path).st_size
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise self.translated(error) from error

    def create(self) -> None:
        """Make the tables, or nothing; harmless if they are there."""
        self._queue.enter()
        try:
            self._drop_replaced()
            if not self.exists():
                mark.forget(self.mark)
            self._writer = self._writer or self._opened("rwc")
        except linked.FAILURES as error:
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
            # SQLite tells nobody that something was committed; one has to look.
            time.sleep(min(LOOK_SECONDS, left))
        # Kept for the next call, so that nothing is missed between two of them.
        self._version = self._data_version()
        return True

    def is_sound(self) -> bool:
        """Whether the database is there, whole, and not behind what was acknowledged."""
        from tugtool.store import checking

        try:
            with self.read() as tx:
                return not checking.damage(tx.all)
        except DatabaseError as error:
            if isinstance(error, NewerDatabase) or str(error.facts.get("sqlite")).startswith(
                "BUSY"
            ):
                # Nothing is wrong with it. We may not touch it, or not now.
                raise
            return False

    def damage(self) -> list[str]:
        """What is wrong with the file, in words; see `tugtool.store.checking`."""
        from tugtool.store import checking

        with self.read() as tx:
            return checking.damage(tx.all)

    def dangling(self) -> list[str]:
        """Rows that refer to rows that are not there, in words."""
        from tugtool.store import checking

        with self.read() as tx:
            return checking.dangling(tx)

    def forgotten(self) -> list[dict[str, object]] | None:
        """What is known to have been completed in a database that is gone with its backup."""
        if self.mark is None or self.size() or not mark.read_mark(self.mark)[0]:
            return None
        from tugtool.store import backup

        return None if backup.is_sound(self.backup) else backup.completed_since(self, 0)

    def back_up(self, *, pending: bool = False) -> str | None:
        """Keep a copy, unless there is a fresh one; what went wrong, in words.

        With `pending` only if steps were completed that the last one does not hold.
        """
        if self.backup is None or clocks.is_fresh(self.backup, BACKUP_SECONDS):
            return None
        if pending and not mark.has_rows(self.mark):
            return None
        from tugtool.store import backup

        return backup.keep(self)

    def rescue(self, source: str | None = None) -> Rescue:
        """What it takes to put a copy in the database's place; see `tugtool.store.rescue`."""
        from tugtool.store import rescue

        return rescue.Rescue(self, source, busy_seconds=self._busy_seconds)

    def close(self) -> None:
        """Close what is open; the last writer's close checkpoints, so it queues."""
        if self._reader:
            self._reader.close()
        if self._writer:
            try:
                self._queue.enter()
            except DatabaseError:
                linked.let_go(self._writer, self.path)
            else:
                self._writer.close()
                mark.sign(self.mark, self.path)
                self._queue.leave()
        self._reader = self._writer = self._identity = self._version = None

    def now(self) -> int:
        """The time, in milliseconds."""
        return self._clock()

    def begin(self, *, writing: bool) -> Connection:
        """A connection with a transaction open on it."""
        if writing:
            self._queue.enter(first=self.is_urgent)
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
            if isinstance(error, linked.FAILURES):
                raise self.translated(error) from error
            raise

    def end(self, connection: Connection, *, writing: bool, commit: bool) -> None:
        """End the transaction and let the next writer in."""
        try:
            if commit:
                self._refuse_replaced("nothing was written", written=False)
            if commit and connection.in_transaction:
                self._commit(connection)
                self._commits += 1
                # Deleted at that very moment: then it was written, but nobody will find it.
                self._refuse_replaced("what was written went with it", written=True)
                self._shorten_log(connection)
                mark.keep_up(self.mark, self.path, connection)
        finally:
            _roll_back(connection)
            if writing:
                self._queue.leave()

    def _commit(self, connection: Connection) -> None:
        try:
            connection.execute("commit")
        except linked.FAILURES as error:
            _roll_back(connection)
            from tugtool.store import trouble

            raise trouble.uncommitted(self.translated(error), connection) from error

    def _refuse_replaced(self, outcome: str, *, written: bool) -> None:
        found = queue.identity(self.path)
        # What is written is written, though nobody can look at it just now.
        if found != self._identity and not (written and found == queue.UNSEEN):
            reason = f"was deleted or replaced in the meantime; {outcome}"
            raise DatabaseUnavailable(self.path, reason=reason)

    def _shorten_log(self, connection: Connection) -> None:
        longest = LONGEST_LOG_BYTES if self._commits > STAYING_COMMITS else LONG_LOG_BYTES
        try:
            if os.stat(f"{self.path}-wal").st_size > longest:
                # If somebody reads just now, it is done another time.
                connection.execute("pragma busy_timeout = 0")
                try:
                    connection.execute("pragma wal_checkpoint(truncate)")
                finally:
                    connection.execute(f"pragma busy_timeout = {int(self._busy_seconds * 1000)}")
        except (OSError, *linked.FAILURES):
            # What was committed stays committed.
            return

    def _opened(self, mode: str) -> Connection:
        before = queue.identity(self.path)
        connection = linked.opened(self.path, mode, busy_seconds=self._busy_seconds)
        try:
            self._check(connection, mode)
        except BaseException:
            linked.let_go(connection, self.path)
            raise
        self._drop_replaced()
        if before != queue.identity(self.path):
            # Made just now, or replaced while it was being opened: is it what lies there?
            linked.let_go(connection, self.path)
            return self._opened(mode)
        self._identity = before
        return connection

    def _check(self, connection: Connection, mode: str) -> None:
        """Refuse what is not ours, newer or behind; make or migrate where that is due."""
        # Before the database is asked: whoever commits moves the mark afterwards.
        marked, signed = mark.read_mark(self.mark) if self.mark else (0, mark.UNSIGNED)
        application = connection.execute("pragma application_id").fetchone()[0]
        version = connection.execute("pragma user_version").fetchone()[0]
        if application == schema.APPLICATION_ID and version == schema.VERSION:
            behind = mark.reached(connection) < marked
            if behind or signed not in (mark.UNSIGNED, mark.signature(self.path)):
                from tugtool.store import backup

                backup.verify(self, connection, marked)
            return
        from tugtool.store import making

        copies = self.copies or os.path.dirname(self.path)
        making.settle(connection, self.path, mode=mode, copies=copies, backup=self.backup)

    def _drop_replaced(self) -> None:
        """A file that was deleted or put in another's place is not the one we have open."""
        if self._identity is not None and queue.identity(self.path) != self._identity:
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
        except linked.FAILURES as error:
            raise self.translated(error) from error

    def blamed(self, error: BaseException, connection: Connection) -> DatabaseError | None:
        """What is wrong with the file, where rows that cannot be are why an operation failed."""
        if isinstance(error, TugError) or not isinstance(error, Exception):
            return None
        from tugtool.store import trouble

        return trouble.found(self.path, connection, backup=self.backup)

    def translated(self, error: Exception) -> DatabaseError:
        """Our word for what SQLite or the system says."""
        from tugtool.store import trouble

        if isinstance(error, OSError):
            return trouble.unopened(self.path, error)
        busy = self._busy_seconds
        return trouble.translated(self.path, error, busy_seconds=busy, backup=self.backup)


def _roll_back(connection: Connection) -> None:
    try:
        if connection.in_transaction:
            connection.execute("rollback")
    except linked.FAILURES:
        # Whatever is wrong with the file, what was not committed is not in it.
        pass
