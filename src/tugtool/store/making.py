"""How a database comes to be, and how an older one becomes the present one.

Only under the writers' queue, and never for a command that merely reads.
"""

from __future__ import annotations

import os

from tugtool.state_errors import DatabaseUnavailable, NewerDatabase
from tugtool.store import schema, trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store.linked import Connection

DIALECT = {
    "int64": "integer",
    "real": "real",
    "serial": "integer primary key autoincrement",
    "strict": " strict",
}


def settle(
    connection: Connection, path: str, *, mode: str, copies: str, backup: str | None
) -> None:
    """Make what is blank, migrate what is older, refuse the rest; `mode` says what is allowed.

    Where there is a sound backup, nothing is ever made in its database's place.
    """
    hint = trouble.restoring(backup)
    application = connection.execute("pragma application_id").fetchone()[0]
    version = connection.execute("pragma user_version").fetchone()[0]
    if not (application or version or _has_tables(connection)):
        if _is_sound(backup):
            raise DatabaseUnavailable(path, reason="is empty; a backup is there", hint=hint)
        if mode != "rwc":
            reason = "is empty: nobody has finished making it (tugcode state init does)"
            raise DatabaseUnavailable(path, reason=reason)
        _make(connection, path)
        return
    if application != schema.APPLICATION_ID:
        raise DatabaseUnavailable(path, reason="is not a database of Tugtool's", hint=hint)
    if version > schema.VERSION:
        raise NewerDatabase(path, found=version, known=schema.VERSION)
    if version < schema.FIRST_VERSION:
        reason = f"has the schema version {version}, which never existed"
        raise DatabaseUnavailable(path, reason=reason, hint=hint)
    if mode == "ro":
        reason = f"has the older schema {version}; the next command that writes migrates it"
        raise DatabaseUnavailable(path, reason=reason, name="OLDER")
    _migrate(connection, path, version=version, copies=copies)


def _is_sound(path: str | None) -> bool:
    from tugtool.store import backup

    return backup.is_sound(path)


def _has_tables(connection: Connection) -> bool:
    return connection.execute("select 1 from sqlite_master limit 1").fetchone() is not None


def _make(connection: Connection, path: str) -> None:
    """All tables, or none."""
    mode = connection.execute("pragma journal_mode = wal").fetchone()[0]
    if mode != "wal":
        reason = f"cannot be put in WAL mode (it stays in {mode})"
        raise DatabaseUnavailable(path, reason=reason)
    connection.execute("begin immediate")
    for statement in schema.TABLES:
        connection.execute(statement.format(**DIALECT))
    connection.execute(f"pragma application_id = {schema.APPLICATION_ID}")
    connection.execute(f"pragma user_version = {schema.VERSION}")
    connection.execute("commit")


def _migrate(connection: Connection, path: str, *, version: int, copies: str) -> None:
    """Bring an older database up to date in one transaction, after a copy of it is safe."""
    _copy(connection, path, version=version, copies=copies)
    # Tables are changed by making them anew; only the outcome has to hold together.
    connection.execute("pragma foreign_keys = off")
    connection.execute("begin immediate")
    for leads_to, statements in schema.MIGRATIONS:
        if leads_to > version:
            for statement in statements:
                connection.execute(statement.format(**DIALECT))
    broken = connection.execute("pragma foreign_key_check").fetchone()
    if broken is not None:
        connection.execute("rollback")
        reason = f"cannot be migrated: a row of {broken[0]} refers to nothing"
        raise DatabaseUnavailable(path, reason=reason)
    connection.execute(f"pragma user_version = {schema.VERSION}")
    connection.execute("commit")
    connection.execute("pragma foreign_keys = on")


def _copy(connection: Connection, path: str, *, version: int, copies: str) -> None:
    """Write `state-schema-10.db`, or the next free `state-schema-10-2.db`; on disk for sure."""
    try:
        os.makedirs(copies, exist_ok=True)
        base = os.path.join(copies, f"state-schema-{version}")
        unfinished = f"{base}.partial"
        if os.path.lexists(unfinished):
            os.unlink(unfinished)
        connection.execute("vacuum into ?", (unfinished,))
        name, number = f"{base}.db", 1
        while os.path.lexists(name):
            number += 1
            name = f"{base}-{number}.db"
        put(unfinished, name)
    except OSError as error:
        reason = f"cannot be copied to {copies} before it is migrated"
        said = (error.strerror or str(error)).lower()
        raise DatabaseUnavailable(path, reason=f"{reason}: {said}") from error


def put(partial: str, path: str) -> None:
    """A finished file takes its place, whole and on the disk."""
    directory = os.path.dirname(os.path.abspath(path))
    sync(partial)
    if not os.path.lexists(path):
        # Its directory may be new as well.
        sync(os.path.dirname(directory))
    os.rename(partial, path)
    sync(directory)


def sync(path: str) -> None:
    """What was written there is on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
