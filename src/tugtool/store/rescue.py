"""How a copy takes the place of a database that is lost, damaged or too old.

What lies in its place is never opened and never deleted, but moved away. Whenever this is
cut short, either the old or the new is there, or commands refuse and it can be done again.
"""

from __future__ import annotations

import os

from tugtool.state_errors import DatabaseError, DatabaseUnavailable, QueryFailed
from tugtool.store import backup, linked, making, mark, queue, sql, trouble
from tugtool.store.sqlite import SqliteStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from tugtool.store.linked import Connection

    Data = dict[str, object]

#: Events get numbers that were never given out: nobody knows how many a lost file held.
_NUMBERS_APART = 1000


class Rescue:
    """See `tugtool.store.Rescue`. The copy is `restoring/state.db` in the backup's directory."""

    def __init__(self, store: SqliteStore, source: str | None, *, busy_seconds: float) -> None:
        if store.copies is None or store.backup is None or store.mark is None:
            raise DatabaseUnavailable(store.path, reason="has no place for backups")
        self._store = store
        self._directory, self._backup, self._mark = store.copies, store.backup, store.mark
        self._source = source or store.backup
        self._workshop = os.path.join(store.copies, "restoring")
        self._busy_seconds = busy_seconds
        self._queue = queue.beside(store.path, busy_seconds=busy_seconds)
        self._lock = -1
        self._facts: Data = {}
        self.most_changes = 0
        path = os.path.join(self._workshop, "state.db")
        self.copy = SqliteStore(path, clock=store.now, busy_seconds=busy_seconds)

    def __enter__(self) -> Self:
        try:
            self._store.close()
            os.makedirs(os.path.dirname(self._store.path), exist_ok=True)
            os.makedirs(self._directory, exist_ok=True)
            self._queue.enter()
            self._lock = queue.passed(self._directory, self._busy_seconds)
            if self._lock < 0:
                reason = f"is being backed up for over {self._busy_seconds:g} s"
                raise QueryFailed(self._store.path, reason=reason, name="BUSY")
            self._make_copy()
        except BaseException as error:
            self._leave()
            if isinstance(error, (OSError, *linked.FAILURES)):
                raise self._translated(error) from error
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        try:
            self.copy.close()
            self._clear_workshop()
        except (OSError, *linked.FAILURES, DatabaseError):
            # Whatever was to be done is done or refused by now; the next one clears it away.
            pass
        finally:
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1
            self._queue.leave()

    def _translated(self, error: Exception) -> DatabaseError:
        if isinstance(error, OSError):
            return trouble.unopened(error.filename or self._source, error)
        return trouble.translated(self._source, error, busy_seconds=self._busy_seconds)

    @property
    def needed(self) -> bool:
        """Whether the database is gone or empty."""
        return self._store.size() == 0

    def facts(self) -> Data:
        """Where the copy came from, and what is missing in it."""
        return self._facts

    def _make_copy(self) -> None:
        self._clear_workshop()
        os.makedirs(self._workshop)
        if self._source == self._backup and not os.path.lexists(self._backup):
            raise DatabaseUnavailable(self._backup, reason="is not there: there is no backup")
        source = backup.opened(self._source)
        try:
            backup.copy(source, self.copy.path)
        finally:
            source.close()
        connection = linked.connect(self.copy.path, isolation_level=None)
        try:
            backup.judge(connection, self._source)
            self._look(connection)
        finally:
            connection.close()

    def _look(self, connection: Connection) -> None:
        """Say what the copy holds, and keep its numbers apart from all that were given out."""
        number = mark.reached(connection)
        made = backup.when(self._source)
        last = connection.execute(sql.LAST_CHANGE).fetchone()
        self._facts = {
            "source": self._source,
            "made_at": made,
            "missing_since": last[0] if last else made,
            "lost_steps": backup.completed_since(self._store, number),
        }
        known = max(number, mark.read_mark(self._mark)[0], self._kept_number())
        self.most_changes = known - number
        raised = {"seq": known + _NUMBERS_APART}
        there = connection.execute("select 1 from sqlite_sequence where name = 'events'").fetchone()
        change = "update sqlite_sequence set seq = :seq where name = 'events'"
        make = "insert into sqlite_sequence (name, seq) values ('events', :seq)"
        connection.execute(change if there else make, raised)

    def _kept_number(self) -> int:
        try:
            return backup.number_in(self._backup)
        except (*linked.FAILURES, DatabaseError):
            return 0

    def put_in_place(self) -> str:
        """Let the copy be the database, and its backup; where what was there before is kept."""
        try:
            self.copy.close()
            return self._put_in_place()
        except (OSError, *linked.FAILURES) as error:
            raise self._translated(error) from error

    def _put_in_place(self) -> str:
        fresh, spare = self.copy.path, os.path.join(self._workshop, "backup.db")
        connection = linked.connect(fresh, isolation_level=None)
        try:
            backup.copy(connection, spare)
            number = mark.reached(connection)
            connection.execute("pragma journal_mode = wal")
        finally:
            connection.close()
        mode = self._mode()
        for path in (fresh, spare):
            os.chmod(path, mode)
        making.sync(fresh)
        aside = self._made_aside()
        # The backup first: were the database lost again, the old one would give out once more
        # the attempts that are given out from now on.
        if os.path.lexists(self._backup):
            _keep(self._backup, os.path.join(aside, "backup.db"))
            making.sync(aside)
        making.put(spare, self._backup)
        # Without its database a log is refused; without its log, a database looks like one.
        for end in backup.COMPANIONS:
            if os.path.lexists(self._store.path + end):
                _move(self._store.path + end, os.path.join(aside, f"state.db{end}"))
                # What has gone must not come back beside what is put there next.
                making.sync(os.path.dirname(self._store.path))
        _move(fresh, self._store.path)
        self._renew_mark(number)
        return aside

    def _renew_mark(self, number: int) -> None:
        try:
            backup.write_mark(self._mark, mark.mark_line(number), [])
        except OSError:
            # The old one is behind the new database, and so does no harm.
            return

    def _mode(self) -> int:
        path = self._store.path if os.path.isfile(self._store.path) else self._source
        return os.stat(path).st_mode & 0o777 | 0o600

    def _made_aside(self) -> str:
        base = name = os.path.join(self._directory, f"lost-{backup.stamp()}")
        number = 1
        while True:
            try:
                os.mkdir(name)
                break
            except FileExistsError:
                number += 1
                name = f"{base}-{number}"
        making.sync(self._directory)
        return name

    def _clear_workshop(self) -> None:
        if os.path.lexists(self._workshop):
            import shutil

            shutil.rmtree(self._workshop)


def _keep(path: str, name: str) -> None:
    """Another name for a file that is about to be replaced; a copy where there is no such thing."""
    import shutil

    try:
        os.link(path, name, follow_symlinks=False)
    except OSError:
        shutil.copy2(path, name, follow_symlinks=False)


def _move(old: str, new: str) -> None:
    """Rename, also to another file system; what is at the new name is whole, or not there."""
    import errno
    import shutil

    try:
        os.rename(old, new)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        partial = f"{new}-restoring"
        shutil.copy2(old, partial, follow_symlinks=False)
        making.put(partial, new)
        os.unlink(old)
    making.sync(os.path.dirname(new))
