"""The backup: a sound copy of the database in a safe place.

`backup.db` and the mark are in one directory, which is also the lock of the process that makes
the backup. A damaged copy, or one that lacks what the backup has, never replaces it.
"""

from __future__ import annotations

import fcntl

from tugtool.errors.state import DatabaseError, NewerDatabase
from tugtool.store.sql import records as sql_records
from tugtool.store.sqlite import create, file, health
from tugtool.system import clock as clocks
from tugtool.system import lock, os, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.store import Row, Store
    from tugtool.store.sqlite import SqliteStore
    from tugtool.store.sqlite.file import Connection


#: Of copies of so many bytes, one in so many is checked completely; of others only new events.
LARGE_BYTES = 1 << 24
CHECK_EVERY = 30

#: The name of the last completely checked large backup, and a file with one byte for each
#: backup since.
CHECKED, COUNTED = "backup-checked.db", "backup-checked.count"

#: In other copies, so many events before the last ones are compared.
_COMPARED = 10_000

_APART = """import os, sys
sys.path.append(sys.argv[1])
from tugtool.store.sqlite import SqliteStore
os.nice(10)
SqliteStore(sys.argv[2], copies=sys.argv[3]).back_up()
"""


def keep(store: SqliteStore, *, apart: bool = False) -> str | None:
    """Make a new backup, unless another process does so now. Return the problem, or None.

    With `apart`, a separate process copies a large database: no command waits for it or
    reports its errors. `doctor` checks that there is a sound backup.
    """
    assert store.copies is not None
    try:
        os.makedirs(store.copies, exist_ok=True)
        lock = os.open(store.copies, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not apart or store.size() < LARGE_BYTES:
                return _made(store)
        except BlockingIOError:
            return None
        finally:
            os.close(lock)
        _start_apart(store)
    except OSError as error:
        return f"no backup was made in {store.copies}: {(error.strerror or str(error)).lower()}"
    except (*file.FAILURES, DatabaseError) as error:
        return f"no backup was made in {store.copies}: {error}"
    return None


def _start_apart(store: SqliteStore) -> None:
    import sys

    from tugtool.system import process_group

    assert store.copies is not None
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    words = ("-I", "-c", _APART, package, store.path, os.path.abspath(store.copies))
    process_group.start_apart(sys.executable, *words)


def _made(store: SqliteStore) -> str | None:
    assert store.backup is not None
    partial = f"{store.backup}.partial"
    since = _known_until(store)
    clear(partial)
    try:
        _copy_state(store, partial, since)
        standing = _standing(store, partial, since)
        if standing == "ahead":
            return (
                f"the backup {store.backup} holds what the database lacks, and was left as it is; "
                f"look at: {create.RESTORE} --dry-run"
            )
        said = _set_aside(store.backup) if standing == "damaged" else None
        os.chmod(partial, os.stat(store.path).st_mode & 0o777)
        create.put(partial, store.backup)
    finally:
        clear(partial)
    try:
        _shorten_mark(store)
        _count(store, is_checked=since is None)
        if since is None:
            thin(store)
    except (OSError, DatabaseError):
        # Mark and log stay longer than needed until the next backup.
        return said
    return said


def _known_until(store: SqliteStore) -> int | None:
    """Return the last event of a large backup; None if this one has to be checked completely."""
    assert store.copies is not None
    assert store.backup is not None
    checked, counted = (os.path.join(store.copies, name) for name in (CHECKED, COUNTED))
    if store.size() < LARGE_BYTES or not os.path.exists(checked):
        return None
    try:
        count = os.stat(counted).st_size if os.path.exists(counted) else 0
        if count >= CHECK_EVERY - 1:
            return None
        return health.number_in(store.backup)
    except (*file.FAILURES, DatabaseError):
        return None


def _count(store: SqliteStore, *, is_checked: bool) -> None:
    """Count a large backup; keep a completely checked one in case a later one is damaged."""
    assert store.copies is not None
    assert store.backup is not None
    checked, counted = (os.path.join(store.copies, name) for name in (CHECKED, COUNTED))
    if not is_checked:
        with open(counted, "ab") as file:
            file.write(b".")
        return
    for path in (checked, counted):
        if os.path.lexists(path):
            os.unlink(path)
    if store.size() >= LARGE_BYTES:
        os.link(store.backup, checked)


#: After this time, only the last heartbeat of an attempt stays in the log.
FULL_LOG_SECONDS = 3600

#: How many are removed at one time, and how many in one transaction.
_MOST_DROPPED, _DROPPED_AT_ONCE = 200_000, 500

#: The detail of a heartbeat that only renewed the lease.
_PLAIN = ("{}", text.encode({"lease_seconds": None}))


def thin(store: Store) -> None:
    """Remove heartbeats from the log that a later one of the same attempt makes redundant."""
    dropped: dict[str, list[dict[str, object]]] = {}
    number = 0
    with store.read() as tx:
        until = clocks.text(clocks.milliseconds(tx.now) - FULL_LOG_SECONDS * 1000)
        if tx.first(sql_records.OLD_HEARTBEATS, until=until) is None:
            return
        last = {_attempt(row): row["seq"] for row in tx.each(sql_records.LAST_HEARTBEATS)}
        for row in tx.each(sql_records.OLD_HEARTBEATS, until=until):
            if row["seq"] < last[_attempt(row)] and row["detail"] in _PLAIN:
                each = {"plan": row["plan_path"], "seq": row["seq"]}
                dropped.setdefault(row["plan_path"], []).append(each)
                number += 1
                if number == _MOST_DROPPED:
                    break
    for plan, rows in dropped.items():
        for start in range(0, len(rows), _DROPPED_AT_ONCE):
            with store.write(plan) as tx:
                tx.many(sql_records.DROP_EVENT, rows[start : start + _DROPPED_AT_ONCE])


def _attempt(row: Row) -> tuple[str, str, int]:
    return row["plan_path"], row["step_anchor"], row["attempt"]


def clear(path: str) -> None:
    """Remove an unfinished file and SQLite's files beside it."""
    for end in health.COMPANIONS:
        if os.path.lexists(path + end):
            os.unlink(path + end)


def _copy_state(store: SqliteStore, partial: str, since: int | None) -> None:
    """Copy and check the database; one that is behind its mark is not opened."""
    source = store.begin(writing=False)
    try:
        copy(source, partial)
    finally:
        store.end(source, writing=False, commit=False)
    with health.open_copy(partial) as connection:
        health.refuse_foreign(connection, store.path)
        create.refuse_damaged(store.path, connection, backup=store.backup, since=since)


def copy(source: Connection, path: str) -> None:
    """Copy page by page, so that damage of the source also shows in the copy."""
    # Make the file first with a private mode: SQLite would use the umask.
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with health.Copy(path, isolation_level=None) as target:
        # The whole file is synced at the end.
        target.execute("pragma synchronous = off")
        source.backup(target)
        # A single file, without a log beside it.
        target.execute("pragma journal_mode = delete")


def _standing(store: SqliteStore, partial: str, since: int | None) -> str | None:
    """Return what is wrong with the backup: `damaged`, or `ahead` of the copy.

    A large one is checked completely only before it blocks the copy.
    """
    assert store.backup is not None
    is_large = store.size() >= LARGE_BYTES
    if not os.path.lexists(store.backup):
        return None
    if not is_large and not health.is_sound(store.backup):
        return "damaged"
    try:
        with health.open_copy(store.backup) as connection:
            health.refuse_foreign(connection, store.backup)
        with health.open_copy(partial) as connection:
            lost = health.lacks(connection, store.backup, first=(since or 0) - _COMPARED)
    except NewerDatabase:
        raise
    except (*file.FAILURES, DatabaseError):
        return "damaged"
    if lost and is_large and not health.is_sound(store.backup):
        return "damaged"
    return "ahead" if lost else None


def _set_aside(backup: str) -> str:
    name = f"{backup.removesuffix('.db')}-unsound-{stamp()}.db"
    os.rename(backup, name)
    return f"the backup {backup} was damaged; it is kept as {name}, and there is a new one"


def stamp() -> str:
    """Return the time for a file name."""
    return clocks.text(clocks.system_milliseconds()).replace(":", "")


def _shorten_mark(store: SqliteStore) -> None:
    """Remove completions from the mark that the backup has; under the lock."""
    assert store.mark is not None
    assert store.backup is not None
    with lock.beside(store.path, busy_seconds=1):
        kept = health.number_in(store.backup)
        rows = [row for row in health.list_backups(store.mark) if row[0] > kept]
        number, signed = file.read_mark(store.mark)
        first = file.mark_line(max(kept, number), signed)
        write_mark(store.mark, first, rows)


def write_mark(mark: str, first: bytes, rows: list[list[Any]]) -> None:
    """Write a new mark, completely or not at all; under the lock."""
    partial = f"{mark}.partial"
    if os.path.lexists(partial):
        os.unlink(partial)
    with open(partial, "xb") as file:
        file.write(first)
        file.write("".join(f"{text.encode(row)}\n" for row in rows).encode())
    # After a crash, an empty mark would know nothing.
    create.sync(partial)
    os.rename(partial, mark)
