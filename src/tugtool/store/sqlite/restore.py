"""Replace a database that is lost, damaged or too old with a copy.

The file in its place is never opened or deleted, but moved away. After a crash at any moment
either the old or the new file is there, or commands refuse and the restore can run again.
"""

from __future__ import annotations

from tugtool.errors.state import DatabaseError, DatabaseUnavailable, QueryFailed, unopened
from tugtool.store import sql
from tugtool.store.sqlite import SqliteStore, backup, create, file, health
from tugtool.system import lock, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Self

    from tugtool.store.sqlite.file import Connection

    Data = Mapping[str, Any]


#: New events get numbers far above: the lost file may have used higher ones.
_NUMBERS_APART = 1000


def recover(store: SqliteStore, restore: Callable[[FileRescue], Data]) -> Data | None:
    """Restore a lost database, unless another process has. Return what was lost."""
    if is_lost(store):
        with store.rescue() as rescue:
            return restore(rescue) if rescue.needed else None
    if store.mark is None or store.size() or not file.read_mark(store.mark)[0]:
        return None
    # The backup is gone too; the mark still lists completions.
    return {"restored": False, "lost_steps": health.completed_since(store, 0)}


def is_lost(store: SqliteStore) -> bool:
    """Return whether the database is gone or empty, and a backup exists."""
    return store.size() == 0 and health.is_sound(store.backup)


class FileRescue:
    """A sound copy of a database, prepared for its place; no process writes meanwhile.

    The copy, which may be changed, is `restoring/state.db` in the backup's directory.
    """

    def __init__(self, store: SqliteStore, source: str | None, *, busy_seconds: float) -> None:
        if store.copies is None or store.backup is None or store.mark is None:
            raise DatabaseUnavailable(store.path, reason="has no place for backups")
        self._store = store
        self._directory, self._backup, self._mark = store.copies, store.backup, store.mark
        self._source = source or store.backup
        self._workshop = os.path.join(store.copies, "restoring")
        self._busy_seconds = busy_seconds
        self._queue = lock.beside(store.path, busy_seconds=busy_seconds)
        self._lock = -1
        self._facts: Data = {}
        #: The greatest possible number of changes since the copy was made.
        self.most_changes = 0
        path = os.path.join(self._workshop, "state.db")
        self.copy = SqliteStore(path, clock=store.now, busy_seconds=busy_seconds)

    def __enter__(self) -> Self:
        try:
            self._store.close()
            os.makedirs(os.path.dirname(self._store.path), exist_ok=True)
            os.makedirs(self._directory, exist_ok=True)
            self._queue.enter()
            self._lock = lock.passed(self._directory, self._busy_seconds)
            if self._lock < 0:
                reason = f"is being backed up for over {self._busy_seconds:g} s"
                raise QueryFailed(self._store.path, reason=reason, name="BUSY")
            self._make_copy()
        except BaseException as error:
            self._leave()
            if isinstance(error, (OSError, *file.FAILURES)):
                raise self._translated(error) from error
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        try:
            self.copy.close()
            self._clear_workshop()
        except (OSError, *file.FAILURES, DatabaseError):
            # The restore has succeeded or raised by now; the next one removes the rest.
            pass
        finally:
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1
            self._queue.leave()

    def _translated(self, error: Exception) -> DatabaseError:
        if isinstance(error, OSError):
            return unopened(error.filename or self._source, error)
        return create.translated(self._source, error, busy_seconds=self._busy_seconds)

    @property
    def needed(self) -> bool:
        """True if the database is gone or empty."""
        return self._store.size() == 0

    def facts(self) -> Data:
        """Return the source of the copy, and what it lacks."""
        return self._facts

    def _make_copy(self) -> None:
        self._clear_workshop()
        os.makedirs(self._workshop)
        if self._source == self._backup and not os.path.lexists(self._backup):
            raise DatabaseUnavailable(self._backup, reason="is not there: there is no backup")
        with health.open_copy(self._source) as source:
            backup.copy(source, self.copy.path)
        with self._connected() as connection:
            health.judge(connection, self._source)
            self._look(connection)

    def _connected(self) -> health.Copy:
        return health.Copy(self.copy.path, isolation_level=None)

    def _look(self, connection: Connection) -> None:
        """Read what the copy has, and raise its numbers above all that were given out."""
        number = file.reached(connection)
        made = health.when(self._source)
        last = connection.execute(sql.LAST_CHANGE).fetchone()
        self._facts = {
            "source": self._source,
            "made_at": made,
            "missing_since": last[0] if last else made,
            "lost_steps": health.completed_since(self._store, number),
        }
        known = max(number, file.read_mark(self._mark)[0], self._kept_number())
        self.most_changes = known - number
        raised = {"seq": known + _NUMBERS_APART}
        there = connection.execute("select 1 from sqlite_sequence where name = 'events'").fetchone()
        change = "update sqlite_sequence set seq = :seq where name = 'events'"
        make = "insert into sqlite_sequence (name, seq) values ('events', :seq)"
        connection.execute(change if there else make, raised)

    def _kept_number(self) -> int:
        try:
            return health.number_in(self._backup)
        except (*file.FAILURES, DatabaseError):
            return 0

    def put_in_place(self) -> str:
        """Make the copy the database and its backup. Return where the old files are kept."""
        try:
            self.copy.close()
            return self._put_in_place()
        except (OSError, *file.FAILURES) as error:
            raise self._translated(error) from error

    def _put_in_place(self) -> str:
        fresh, spare = self.copy.path, os.path.join(self._workshop, "backup.db")
        with self._connected() as connection:
            backup.copy(connection, spare)
            number = file.reached(connection)
            connection.execute("pragma journal_mode = wal")
        path = self._store.path if os.path.isfile(self._store.path) else self._source
        mode = os.stat(path).st_mode & 0o777 | 0o600
        for path in (fresh, spare):
            os.chmod(path, mode)
        create.sync(fresh)
        aside = self._made_aside()
        # The backup first: if the database were lost again, the old backup would give out the
        # same attempts again.
        if os.path.lexists(self._backup):
            _keep(self._backup, os.path.join(aside, "backup.db"))
            create.sync(aside)
        create.put(spare, self._backup)
        # A log without its database is refused; a database without its log looks complete.
        for end in health.COMPANIONS:
            if os.path.lexists(self._store.path + end):
                _move(self._store.path + end, os.path.join(aside, f"state.db{end}"))
                # A removed file must not come back beside the new one.
                create.sync(os.path.dirname(self._store.path))
        _move(fresh, self._store.path)
        self._renew_mark(number)
        return aside

    def _renew_mark(self, number: int) -> None:
        try:
            backup.write_mark(self._mark, file.mark_line(number), [])
        except OSError:
            # The old mark is behind the new database, so it does no harm.
            return

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
        create.sync(self._directory)
        return name

    def _clear_workshop(self) -> None:
        if os.path.lexists(self._workshop):
            import shutil

            shutil.rmtree(self._workshop)


def _keep(path: str, name: str) -> None:
    """Give a file that is replaced a second name; copy it if links are not possible."""
    import shutil

    try:
        os.link(path, name, follow_symlinks=False)
    except OSError:
        shutil.copy2(path, name, follow_symlinks=False)


def _move(old: str, new: str) -> None:
    """Rename a file, also across file systems; the new name is complete or missing."""
    import errno
    import shutil

    try:
        os.rename(old, new)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        partial = f"{new}-restoring"
        shutil.copy2(old, partial, follow_symlinks=False)
        create.put(partial, new)
        os.unlink(old)
    create.sync(os.path.dirname(new))
