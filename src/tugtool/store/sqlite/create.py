"""Make and migrate the database; explain its errors."""

from __future__ import annotations

from tugtool.errors import listing
from tugtool.errors.state import DatabaseUnavailable, NewerDatabase, QueryFailed
from tugtool.store import schema
from tugtool.store.sqlite import file
from tugtool.system import os, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tugtool.errors.state import DatabaseError
    from tugtool.store.sqlite.file import Connection
    from tugtool.system.lock import FileLock


#: Errors of the file itself, not of our statement.
_UNREAD = ("IOERR_READ", "IOERR_SHORT_READ")
_UNUSABLE = ("CANTOPEN", "NOTADB", "CORRUPT", "READONLY", "PERM", "AUTH", "FORMAT")

#: Errors for which a backup helps.
_DAMAGED = ("NOTADB", "CORRUPT", "FORMAT")

#: Errors after which a failed commit may still be in the log.
_HALF = ("IOERR", "FULL")

RESTORE = "tugcode restore"


def translated(
    path: str, error: Exception, *, busy_seconds: float, backup: str | None = None
) -> DatabaseUnavailable | QueryFailed:
    """Translate SQLite's error by its name, because its texts change."""
    # Without a name, Python could not decode a text.
    name = getattr(error, "sqlite_errorname", "SQLITE_CORRUPT").removeprefix("SQLITE_")
    kind = name.partition("_")[0]
    gone = kind == "IOERR" and (name in _UNREAD or not os.path.isfile(path))
    if kind in _UNUSABLE or gone:
        away = not os.path.lexists(path)
        hint = restoring(backup) if away or kind in _DAMAGED else None
        reason = f"{'is gone' if away else 'cannot be used'}: {error}"
        return DatabaseUnavailable(path, reason=reason, name=name, hint=hint)
    if kind == "BUSY":
        reason = f"is locked by {_foreign_writer(path)} for over {busy_seconds:g} s"
        return QueryFailed(path, reason=reason, name=name)
    return QueryFailed(path, reason=f"refused a statement: {error}", name=name)


def written_out(values: Mapping[str, object]) -> dict[str, object]:
    """Return storable values: bytes that are not UTF-8 are escaped."""
    return {
        name: value.encode("utf-8", "backslashreplace").decode()
        if isinstance(value, str)
        else value
        for name, value in values.items()
    }


def cut_log(connection: Connection, busy_seconds: float) -> None:
    """Move the whole log into the database and truncate it."""
    # If another process reads now, a later close does it.
    connection.execute("pragma busy_timeout = 0")
    try:
        connection.execute("pragma wal_checkpoint(truncate)")
    finally:
        connection.execute(f"pragma busy_timeout = {int(busy_seconds * 1000)}")


def uncommitted(refusal: DatabaseError, connection: Connection) -> DatabaseError:
    """Return the refusal of a commit, and keep it uncommitted; say if that is not certain."""
    if str(refusal.facts.get("sqlite")).startswith(_HALF) and not overwrite(connection):
        refusal.message += "; it may have been written all the same"
    return refusal


def overwrite(connection: Connection) -> bool:
    """Overwrite a failed commit in the log. Return whether that is certain.

    If the disk fails to confirm a commit, all of it may be in the log, and the next process that
    opens the database would take it as committed. Call this under the lock, before the answer.
    """
    try:
        connection.execute("begin immediate")
        connection.execute(f"pragma user_version = {schema.VERSION}")
        connection.execute("commit")
    except file.FAILURES:
        return False
    return True


def refuse_damaged(
    path: str, connection: Connection, *, backup: str | None, since: int | None = None
) -> None:
    """Refuse a file in which SQLite finds any damage; `since` as in `health.damage`."""
    from tugtool.store.sqlite import health

    try:
        said = health.damage(connection.execute, since=since)
    except file.FAILURES as error:
        said = [str(error)]
    if said:
        hint = restoring(backup)
        reason = f"is damaged: {said[0]}"
        raise DatabaseUnavailable(path, reason=reason, name="CORRUPT", hint=hint)


def restoring(backup: str | None) -> str | None:
    """Return the next command for a wrong file in the database's place, if there is a backup."""
    return f"{RESTORE} --dry-run" if backup is not None and os.path.exists(backup) else None


def _foreign_writer(path: str) -> str:
    """Name the holder of SQLite's own lock that does not queue; read it, never probe it."""
    try:
        inodes = {str(os.stat(path + end).st_ino) for end in ("-shm", "")}
        with open("/proc/locks") as file:
            rows = [line.split() for line in file]
    except OSError:
        return "another program"
    for row in rows:
        if row[1] == "POSIX" and row[3] == "WRITE" and row[5].rpartition(":")[2] in inodes:
            pid = int(row[4])
            # Below 1: a process without a number here, or a lock without a process.
            if pid > 0 and pid != os.getpid():
                return process.describe(pid)
    return "another program"


DIALECT = {
    "int64": "integer",
    "real": "real",
    "serial": "integer primary key autoincrement",
    "strict": " strict",
    "random": "lower(hex(randomblob(16)))",
}


def create_or_migrate(
    connection: Connection,
    path: str,
    *,
    mode: str,
    copies: str,
    backup: str | None,
    lock: FileLock,
) -> None:
    """Make a blank database, migrate an older one, refuse others; `mode` says what is allowed.

    If there is a sound backup, a new database is never made.
    """
    hint = restoring(backup)
    found = _found(connection)
    if mode == "ro" and not any(found):
        # The command that makes the database holds the lock until all tables exist.
        with lock:
            found = _found(connection)
    if not any(found):
        _make_allowed(connection, path, mode=mode, backup=backup)
        return
    application, version, _ = found
    if application != schema.APPLICATION_ID:
        raise DatabaseUnavailable(path, reason="is not a database of Tugtool's", hint=hint)
    if version > schema.VERSION:
        raise NewerDatabase(path, found=version, known=schema.VERSION)
    if version < schema.FIRST_VERSION:
        reason = f"has the schema version {version}, which never existed"
        raise DatabaseUnavailable(path, reason=reason, hint=hint)
    if version == schema.VERSION:
        return
    if mode == "ro":
        reason = f"has the older schema {version}; the next command that writes migrates it"
        raise DatabaseUnavailable(path, reason=reason, name="OLDER")
    _migrate(connection, path, version=version, copies=copies)


_FOUND = """
select application_id, user_version, exists (select 1 from sqlite_master)
  from pragma_application_id, pragma_user_version
"""


def _found(connection: Connection) -> tuple[int, int, bool]:
    """Return the application id, the schema version, and whether there are tables."""
    # One statement: another process may make the tables between two.
    application, version, tables = connection.execute(_FOUND).fetchone()
    return application, version, bool(tables)


def _make_allowed(connection: Connection, path: str, *, mode: str, backup: str | None) -> None:
    """Make the tables of a blank file, or raise."""
    from tugtool.store.sqlite.health import is_sound

    if is_sound(backup):
        reason = "is empty; a backup is there"
        raise DatabaseUnavailable(path, reason=reason, hint=restoring(backup))
    if mode != "rwc":
        reason = "is empty: its creation was not finished (tugcode state init does that)"
        raise DatabaseUnavailable(path, reason=reason)
    _make(connection, path)


def _make(connection: Connection, path: str) -> None:
    """Make all tables or none."""
    mode = connection.execute("pragma journal_mode = wal").fetchone()[0]
    if mode != "wal":
        reason = f"cannot be put in WAL mode (it stays in {mode})"
        raise DatabaseUnavailable(path, reason=reason)
    connection.execute("begin immediate")
    _make_tables(connection)
    connection.execute(f"pragma application_id = {schema.APPLICATION_ID}")
    connection.execute(f"pragma user_version = {schema.VERSION}")
    connection.execute("commit")


def _make_tables(connection: Connection) -> None:
    for statement in schema.TABLES:
        connection.execute(statement.format(**DIALECT))


def fresh() -> Connection:
    """Return the present schema in memory, for comparison."""
    connection = file.connect(":memory:")
    _make_tables(connection)
    return connection


def _migrate(connection: Connection, path: str, *, version: int, copies: str) -> None:
    """Migrate an older database in one transaction, after it was copied."""
    copy = _copy(connection, path, version=version, copies=copies)
    # A table is changed by making a new one; references only have to hold at the end.
    connection.execute("pragma foreign_keys = off")
    connection.execute("begin immediate")
    for leads_to, statements in schema.MIGRATIONS:
        if leads_to > version:
            for statement in statements:
                connection.execute(statement.format(**DIALECT))
    wrong = _wrong(connection)
    if wrong is not None:
        connection.execute("rollback")
        reason = f"cannot be migrated: {wrong}; it was not changed, and {copy} is a copy"
        raise DatabaseUnavailable(path, reason=reason)
    connection.execute(f"pragma user_version = {schema.VERSION}")
    connection.execute("commit")
    connection.execute("pragma foreign_keys = on")


def _wrong(connection: Connection) -> str | None:
    """Return why a migrated database must not be committed, or None."""
    broken = connection.execute("pragma foreign_key_check").fetchone()
    if broken is not None:
        return f"a row of {broken[0]} refers to nothing"
    model = fresh()
    # Additions by a person, such as an index or statistics, are allowed.
    missing = set(model.execute(_SHAPE)) - {tuple(row) for row in connection.execute(_SHAPE)}
    model.close()
    if not missing:
        return None
    return f"it would differ from schema {schema.VERSION} in {listing(sorted(dict(missing)))}"


_SHAPE = "select name, sql from sqlite_master where sql is not null"


def _copy(connection: Connection, path: str, *, version: int, copies: str) -> str:
    """Write and sync `state-schema-10.db`, or the next free `state-schema-10-2.db`."""
    from filecmp import cmp

    try:
        os.makedirs(copies, exist_ok=True)
        base = os.path.join(copies, f"state-schema-{version}")
        unfinished = f"{base}.partial"
        if os.path.lexists(unfinished):
            os.unlink(unfinished)
        connection.execute("vacuum into ?", (unfinished,))
        name, number = f"{base}.db", 1
        while os.path.lexists(name):
            if os.path.isfile(name) and cmp(name, unfinished, shallow=False):
                # A refused or killed migration left it.
                os.unlink(unfinished)
                return name
            number += 1
            name = f"{base}-{number}.db"
        put(unfinished, name)
        return name
    except OSError as error:
        reason = f"cannot be copied to {copies} before it is migrated"
        said = (error.strerror or str(error)).lower()
        raise DatabaseUnavailable(path, reason=f"{reason}: {said}") from error


def put(partial: str, path: str) -> None:
    """Move a finished and synced file to its place."""
    directory = os.path.dirname(os.path.abspath(path))
    sync(partial)
    if not os.path.lexists(path):
        # Its directory may be new as well.
        sync(os.path.dirname(directory))
    os.rename(partial, path)
    sync(directory)


def sync(path: str) -> None:
    """Sync a file or directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
