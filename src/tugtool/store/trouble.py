"""What is wrong with a database, in words; loaded only when something is."""

from __future__ import annotations

import os

from tugtool.state_errors import DatabaseUnavailable, QueryFailed
from tugtool.store import linked, schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.state_errors import DatabaseError
    from tugtool.store.linked import Connection

#: What says that the file itself is the trouble, not what we asked of it.
_UNREAD = ("IOERR_READ", "IOERR_SHORT_READ")
_UNUSABLE = ("CANTOPEN", "NOTADB", "CORRUPT", "READONLY", "PERM", "AUTH", "FORMAT")

#: And that a backup would help.
_DAMAGED = ("NOTADB", "CORRUPT", "FORMAT")

#: And that a commit may be in the log although it failed.
_HALF = ("IOERR", "FULL")

RESTORE = "tugcode state restore"


def translated(
    path: str, error: Exception, *, busy_seconds: float, backup: str | None = None
) -> DatabaseUnavailable | QueryFailed:
    """SQLite's error as one of ours; by its name, because its texts change."""
    # Without one it was Python's part of it that could not read a text.
    name = getattr(error, "sqlite_errorname", "SQLITE_CORRUPT").removeprefix("SQLITE_")
    kind = name.partition("_")[0]
    gone = kind == "IOERR" and (name in _UNREAD or not os.path.isfile(path))
    if kind in _UNUSABLE or gone:
        helps = kind in _DAMAGED or not os.path.lexists(path)
        hint = restoring(backup) if helps else None
        return DatabaseUnavailable(path, reason=f"cannot be used: {error}", name=name, hint=hint)
    if kind == "BUSY":
        reason = f"is locked by {_foreign_writer(path)} for over {busy_seconds:g} s"
        return QueryFailed(path, reason=reason, name=name)
    return QueryFailed(path, reason=f"refused a statement: {error}", name=name)


def uncommitted(refusal: DatabaseError, connection: Connection) -> DatabaseError:
    """The refusal of a commit, which must not come true later; it says so where it might."""
    if str(refusal.facts.get("sqlite")).startswith(_HALF) and not overwrite(connection):
        refusal.message += "; it may have been written all the same"
    return refusal


def overwrite(connection: Connection) -> bool:
    """Put something harmless where a failed commit lies in the log; whether that is certain.

    All of it is written when the disk fails to confirm it, and whoever opens the database next
    takes what is whole for a commit. Under the lock, and before anybody is told.
    """
    try:
        connection.execute("begin immediate")
        connection.execute(f"pragma user_version = {schema.VERSION}")
        connection.execute("commit")
    except linked.FAILURES:
        return False
    return True


def refuse_damaged(path: str, connection: Connection, *, backup: str | None) -> None:
    """Refuse a file in which anything is wrong."""
    damage = found(path, connection, backup=backup)
    if damage is not None:
        raise damage


def found(path: str, connection: Connection, *, backup: str | None) -> DatabaseUnavailable | None:
    """The first damage that SQLite finds in the file; None if it is whole."""
    from tugtool.store import checking

    try:
        said = checking.damage(lambda look: connection.execute(look).fetchall())
    except linked.FAILURES as error:
        said = [str(error)]
    if not said:
        return None
    hint = restoring(backup)
    return DatabaseUnavailable(path, reason=f"is damaged: {said[0]}", name="CORRUPT", hint=hint)


def restoring(backup: str | None) -> str | None:
    """What to look at next where something lies in the database's place, if there is a backup."""
    return f"{RESTORE} --dry-run" if backup is not None and os.path.exists(backup) else None


def unopened(path: str, error: OSError) -> DatabaseUnavailable:
    """The system's refusal to let us at a file."""
    reason = f"cannot be opened: {(error.strerror or str(error)).lower()}"
    return DatabaseUnavailable(path, reason=reason)


def holder(descriptor: int) -> str:
    """Who wrote itself into the lock file."""
    try:
        return _process(int(os.pread(descriptor, 24, 0)))
    except (OSError, ValueError):
        return "another process"


def _foreign_writer(path: str) -> str:
    """Who holds SQLite's own lock without queueing; looked up, never probed."""
    try:
        inodes = {str(os.stat(path + end).st_ino) for end in ("-shm", "")}
        with open("/proc/locks") as file:
            rows = [line.split() for line in file]
    except OSError:
        return "another program"
    for row in rows:
        if row[1] == "POSIX" and row[3] == "WRITE" and row[5].rpartition(":")[2] in inodes:
            pid = int(row[4])
            # Below 1: a process that has no number here, or a lock that belongs to no process.
            if pid > 0 and pid != os.getpid():
                return _process(pid)
    return "another program"


def _process(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0]
    except OSError:
        state = b""
    return f"process {pid}{', which is stopped' if state in (b'T', b't') else ''}"
