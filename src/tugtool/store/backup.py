"""The backup: a sound copy of the database where its loss does not reach, and what it is for.

`backup.db` and the mark lie in one directory, which is also the lock of whoever makes the
backup. A copy that is damaged, or that lacks what the backup holds, never takes its place.
"""

from __future__ import annotations

import fcntl
import os

from tugtool import clock as clocks
from tugtool import jsontext
from tugtool.errors import listing, quoted
from tugtool.state_errors import DatabaseError, DatabaseUnavailable, NewerDatabase
from tugtool.store import linked, making, mark, queue, schema, sql, trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.store.linked import Connection
    from tugtool.store.sqlite import SqliteStore

    Data = dict[str, object]

#: What lies beside a database and is part of it.
COMPANIONS = ("", "-wal", "-shm", "-journal")

#: A plan that was pruned and recorded again is another plan.
_SAME_PLANS = """
select p.plan_path
  from main.plans p
  join kept.plans k on k.plan_path = p.plan_path and k.created_at = p.created_at
"""
# What the backup has and the copy would lose: an event, an attempt, or a completed step that
# nothing has happened to since.
_LOST_EVENT = f"""
select 1
  from kept.events k
 where k.plan_path in ({_SAME_PLANS})
   and not exists (select 1 from main.events e where e.seq = k.seq and e.at = k.at)
 limit 1
"""
_LOST_PROGRESS = f"""
select 1
  from kept.steps k
  join main.steps s on s.plan_path = k.plan_path and s.anchor = k.anchor
 where k.plan_path in ({_SAME_PLANS})
   and (s.attempt < k.attempt or (k.status = 'completed' and s.status <> 'completed'))
   and not exists (
         select 1 from main.events e
          where e.plan_path = k.plan_path and e.seq > :seq
            and (e.step_anchor is null or e.step_anchor in (k.anchor, k.parent_anchor)))
 limit 1
"""


def keep(store: SqliteStore) -> str | None:
    """Make the backup anew, unless somebody else is just doing it; what went wrong, in words."""
    assert store.copies is not None
    try:
        os.makedirs(store.copies, exist_ok=True)
        lock = os.open(store.copies, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return _made(store)
        except BlockingIOError:
            return None
        finally:
            os.close(lock)
    except OSError as error:
        return f"no backup was made in {store.copies}: {(error.strerror or str(error)).lower()}"
    except (*linked.FAILURES, DatabaseError) as error:
        return f"no backup was made in {store.copies}: {error}"


def _made(store: SqliteStore) -> str | None:
    assert store.backup is not None
    partial = f"{store.backup}.partial"
    clear(partial)
    try:
        _copy_state(store, partial)
        said = None
        if is_sound(store.backup):
            said = _refusal(store.backup, partial)
            if said is not None:
                return said
        elif os.path.lexists(store.backup):
            said = _set_aside(store.backup)
        os.chmod(partial, os.stat(store.path).st_mode & 0o777)
        making.put(partial, store.backup)
    finally:
        clear(partial)
    try:
        _shorten_mark(store)
    except (OSError, DatabaseError):
        # Then it lists more than it need, until the next time.
        return said
    return said


def clear(path: str) -> None:
    """Remove an unfinished file, and what SQLite put beside it."""
    for end in COMPANIONS:
        if os.path.lexists(path + end):
            os.unlink(path + end)


def _copy_state(store: SqliteStore, partial: str) -> None:
    """One moment of the database, checked; what is behind its mark is not even opened."""
    source = store.begin(writing=False)
    try:
        copy(source, partial)
    finally:
        store.end(source, writing=False, commit=False)
    connection = opened(partial)
    try:
        judge(connection, store.path)
        trouble.refuse_damaged(store.path, connection, backup=store.backup)
    finally:
        connection.close()


def copy(source: Connection, path: str) -> None:
    """Page by page, so that whatever is wrong with the source shows in the copy too."""
    # Made first, for nobody else's eyes: SQLite would ask the umask.
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    target = linked.connect(path, isolation_level=None)
    try:
        # The whole file is written to the disk in the end.
        target.execute("pragma synchronous = off")
        source.backup(target)
        # A file of its own, without a log beside it.
        target.execute("pragma journal_mode = delete")
    finally:
        target.close()


def judge(connection: Connection, path: str) -> None:
    """Refuse what is not a sound database of ours."""
    application = connection.execute("pragma application_id").fetchone()[0]
    version = connection.execute("pragma user_version").fetchone()[0]
    if application != schema.APPLICATION_ID or version < schema.FIRST_VERSION:
        raise DatabaseUnavailable(path, reason="is not a database of Tugtool's")
    if version > schema.VERSION:
        raise NewerDatabase(path, found=version, known=schema.VERSION)
    found = connection.execute("pragma integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise DatabaseUnavailable(path, reason=f"is damaged: {found}", name="CORRUPT")


def opened(path: str) -> Connection:
    """A connection for reading a copy that nobody changes; with its log, if it has one."""
    if not os.path.isfile(path):
        raise DatabaseUnavailable(path, reason="is not there, or no file")
    log = f"{path}-wal"
    has_log = os.path.exists(log) and os.stat(log).st_size > 0
    options = "mode=ro" if has_log else "mode=ro&immutable=1"
    connection: Connection = linked.connect(linked.uri(path, options), uri=True)
    connection.row_factory = linked.Row
    return connection


def is_sound(path: str | None) -> bool:
    """Whether a backup is there and can be relied on; one of a newer Tugtool is refused."""
    if path is None or not os.path.exists(path):
        return False
    try:
        connection = opened(path)
        try:
            judge(connection, path)
        finally:
            connection.close()
    except NewerDatabase:
        raise
    except (OSError, *linked.FAILURES, DatabaseError):
        return False
    return True


def _refusal(backup: str, partial: str) -> str | None:
    """Why the copy may not take the backup's place, if it may not."""
    connection = opened(partial)
    try:
        if not _lacks(connection, backup):
            return None
    finally:
        connection.close()
    return (
        f"the backup {backup} holds what the database lacks, and was left as it is; "
        f"look at: {trouble.RESTORE} --dry-run"
    )


def _lacks(connection: Connection, backup: str) -> bool:
    """Whether a database lacks what is in its sound backup."""
    connection.execute("attach ? as kept", (linked.uri(backup, "mode=ro&immutable=1"),))
    try:
        kept = connection.execute("select seq from kept.sqlite_sequence where name = 'events'")
        last = (kept.fetchone() or (0,))[0]
        return (
            mark.reached(connection) < last
            or connection.execute(_LOST_EVENT).fetchone() is not None
            or connection.execute(_LOST_PROGRESS, {"seq": last}).fetchone() is not None
        )
    finally:
        connection.execute("detach kept")


def _set_aside(backup: str) -> str:
    name = f"{backup.removesuffix('.db')}-unsound-{stamp()}.db"
    os.rename(backup, name)
    return f"the backup {backup} was damaged; it is kept as {name}, and there is a new one"


def stamp() -> str:
    """The time, for the name of a file."""
    return clocks.text(clocks.system_milliseconds()).replace(":", "")


def _shorten_mark(store: SqliteStore) -> None:
    """What the backup holds need not be listed any more; under the lock, as nobody else writes."""
    assert store.mark is not None
    assert store.backup is not None
    line = queue.beside(store.path, busy_seconds=1)
    line.enter()
    try:
        kept = number_in(store.backup)
        rows = [row for row in listed(store.mark) if row[0] > kept]
        number, signed = mark.read_mark(store.mark)
        first = mark.mark_line(max(kept, number), signed)
        write_mark(store.mark, first, rows)
    finally:
        line.leave()


def number_in(path: str) -> int:
    """The number of the last event in a copy."""
    connection = opened(path)
    number = mark.reached(connection)
    connection.close()
    return number


def write_mark(mark: str, first: bytes, rows: list[list[Any]]) -> None:
    """Write a mark anew, whole or not at all; under the lock."""
    partial = f"{mark}.partial"
    if os.path.lexists(partial):
        os.unlink(partial)
    with open(partial, "xb") as file:
        file.write(first)
        file.write("".join(f"{jsontext.encode(row)}\n" for row in rows).encode())
    # An empty one in its place would know of nothing.
    making.sync(partial)
    os.rename(partial, mark)


def listed(mark: str) -> list[list[Any]]:
    """The completed steps that a mark tells of, each once; what cannot be read is passed over."""
    import json

    try:
        with open(mark, encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n")[1:]
    except OSError:
        return []
    rows: dict[int, list[Any]] = {}
    for line in lines:
        try:
            row = json.loads(line)
            if len(row) == 5 and isinstance(row[0], int):
                rows[row[0]] = row
        except (ValueError, TypeError):
            continue
    return [rows[number] for number in sorted(rows)]


def completed_since(store: SqliteStore, number: int) -> list[Data]:
    """What was completed after that event, as the backup and the mark know it."""
    rows: dict[int, list[Any]] = {}
    if store.backup is not None and is_sound(store.backup):
        connection = opened(store.backup)
        try:
            since = connection.execute(sql.COMPLETED_SINCE, {"seq": number})
            rows = {row[0]: list(row) for row in since}
        finally:
            connection.close()
    assert store.mark is not None
    rows |= {row[0]: row for row in listed(store.mark) if row[0] > number}
    names = ("completed_at", "plan_path", "step_anchor", "commit_hash")
    return [dict(zip(names, rows[each][1:], strict=True)) for each in sorted(rows)]


def refuse_lost(store: SqliteStore) -> None:
    """A database that was there and is gone or empty is refused; nothing is started over."""
    if store.backup is not None and is_sound(store.backup):
        what = "empty" if os.path.exists(store.path) else "gone"
        reason = f"is {what}; a backup is there that ends at {_ends(store.backup)}"
        raise DatabaseUnavailable(store.path, reason=reason, hint=trouble.RESTORE)
    log = f"{store.path}-wal"
    if os.path.exists(log) and os.stat(log).st_size > 0:
        reason = "is gone or empty, but its log is there; what it held may still be saved"
        raise DatabaseUnavailable(store.path, reason=reason)


def _ends(path: str) -> str:
    """The time of the last change that a copy holds."""
    connection = opened(path)
    last = connection.execute(sql.LAST_CHANGE).fetchone()
    connection.close()
    return str(last[0]) if last else when(path)


def when(path: str) -> str:
    """When a file was written."""
    return clocks.text(os.stat(path).st_mtime_ns // 1_000_000)


def verify(store: SqliteStore, connection: Connection, marked: int) -> None:
    """A file that is behind its mark, or that somebody else has written to: is it all there?"""
    if mark.reached(connection) < marked:
        raise _older(store, connection, marked)
    trouble.refuse_damaged(store.path, connection, backup=store.backup)
    hint = trouble.restoring(store.backup)
    if store.backup is not None and is_sound(store.backup) and _lacks(connection, store.backup):
        reason = f"was overwritten: it lacks what its backup of {when(store.backup)} holds"
        raise DatabaseUnavailable(store.path, reason=reason, hint=hint)


def _older(store: SqliteStore, connection: Connection, marked: int) -> DatabaseUnavailable:
    """An older copy was put in the database's place: say what it lacks."""
    number = mark.reached(connection)
    last, missing = connection.execute(sql.LAST_CHANGE).fetchone(), completed_since(store, number)
    names = [f"{row['step_anchor']} of {row['plan_path']}" for row in missing]
    until = f"ends at {last[0]}" if last else "holds nothing"
    lost = f", among them the completion of {listing(names)}" if names else ""
    changes = f"{marked - number} changes" if marked - number > 1 else "1 change"
    reason = f"is an older copy of itself: it {until}, and {changes} since are missing{lost}"
    hint = trouble.restoring(store.backup)
    keep = f"{trouble.RESTORE} --from {quoted(store.path)} --dry-run"
    reason += f" (keep it all the same? look at: {keep})" if hint else ""
    return DatabaseUnavailable(store.path, reason=reason, hint=hint or keep, missing=missing)
