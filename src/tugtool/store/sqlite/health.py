"""Check that a database and its backup are complete, without touching them."""

from __future__ import annotations

import fcntl

from tugtool.errors import listing, quoted
from tugtool.errors.state import DatabaseError, DatabaseUnavailable, NewerDatabase
from tugtool.store import schema, sql
from tugtool.store.sqlite import create, file
from tugtool.system import clock as clocks
from tugtool.system import os, process
from tugtool.system.lock import signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from tugtool.store import FileStore, Row
    from tugtool.store.sqlite import SqliteStore
    from tugtool.store.sqlite.file import Connection


#: At most so many problems are listed.
MOST = 20

#: The parts of a database: suffixes of its files.
COMPANIONS = ("", "-wal", "-shm", "-journal")

#: A plan that was pruned and recorded again is another plan.
_SAME_PLANS = """
select p.plan_path
  from main.plans p
  join kept.plans k on k.plan_path = p.plan_path and k.created_at = p.created_at
"""
# What the backup has and the copy would lose: an event, an attempt, or a completed step without
# a later event. Heartbeats leave the log in time. `+` avoids the index: reading the events of each
# plan in turn would take ten times as long.
_LOST_EVENT = f"""
select 1
  from kept.events k
 where k.seq > :first
   and k.kind <> 'heartbeat'
   and not exists (select 1 from main.events e where e.seq = k.seq and e.at = k.at)
   and +k.plan_path in ({_SAME_PLANS})
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

#: How many rows of the log are read at a time.
_AT_ONCE = 2000

_TABLES = "select name, sql from sqlite_master where type = 'table'"


def damage(ask: Callable[[str], Iterable[Row]], *, since: int | None = None) -> list[str]:
    """Yield SQLite's findings about pages and indexes, and what it overlooks.

    An unreadable text is refused by the command that meets it. With `since`, check only the
    events after that number, and all other tables.
    """
    model = create.fresh()
    tables: dict[str, str] = dict(model.execute(_TABLES).fetchall())
    looks = [str(MOST)] if since is None else [name for name in tables if name != "events"]
    told = [str(row[0]) for look in looks for row in ask(f"pragma integrity_check({look})")]
    lines = [line for each in told for line in each.split("\n")]
    found = [line for line in lines if line and line != "ok" and not line.startswith("***")]
    found = found or list(_unlike(ask, model, tables, since or 0))
    model.close()
    return found


def _unlike(
    ask: Callable[[str], Iterable[Row]], model: Connection, tables: dict[str, str], since: int
) -> Iterator[str]:
    """Yield missing columns, because SQLite accepts any name, and impossible rows."""
    for table, text in tables.items():
        look = f"pragma table_info({table})"
        there = [row[1] for row in ask(look)]
        for row in model.execute(look):
            if row[1] not in there:
                yield f"{table} has no column {row[1]}"
        which = f"seq > {since}" if table == "events" else "true"
        try:
            _read(ask, table, there, since)
            # A read-only SQLite does not even read a table's CHECKs.
            for rule in _rules(text):
                if list(ask(f"select 1 from {table} where {which} and not {rule} limit 1")):
                    yield f"{table} has a row that breaks {' '.join(rule.split())}"
        except (*file.FAILURES, DatabaseError) as error:
            yield f"{table} cannot be read: {error}"


def _read(ask: Callable[[str], Iterable[Row]], table: str, columns: list[str], since: int) -> None:
    """Read every row of a table; the log, which may have millions, in pieces."""
    if table != "events":
        for _ in ask(f"select * from {table}"):
            pass
        return
    # The line feed keeps damaged UTF-8 at the end of one text from joining the next.
    texts = ", ".join(f"group_concat({name}, '\n')" for name in columns)
    while True:
        first = next(iter(ask(f"select min(seq) from events where seq > {since}")))[0]
        if first is None:
            return
        since = first + _AT_ONCE
        list(ask(f"select {texts} from events where seq between {first} and {since}"))


def _rules(text: str) -> Iterator[str]:
    """Yield the conditions of a table's CHECKs."""
    for part in text.split(" check ")[1:]:
        depth, end = 1, 1
        while depth:
            depth += {"(": 1, ")": -1}.get(part[end], 0)
            end += 1
        yield part[:end]


def is_whole(store: FileStore) -> bool:
    """Return whether the database exists, is complete, and has all acknowledged commits."""
    try:
        return not damage_of(store)
    except NewerDatabase:
        raise
    except DatabaseError as error:
        if str(error.facts.get("sqlite")).startswith("BUSY"):
            # The file itself is fine, but we may not touch it now.
            raise
        return False


def damage_of(store: FileStore) -> list[str]:
    """Return what is wrong with the file."""
    with store.read() as tx:
        return damage(tx.each)


def dangling(store: FileStore) -> list[str]:
    """Return the rows with a missing parent, counted by table."""
    counts: dict[tuple[str, str], int] = {}
    with store.read() as tx:
        for row in tx.all("pragma foreign_key_check"):
            pair = str(row[0]), str(row[2])
            counts[pair] = counts.get(pair, 0) + 1
    return [
        f"{number} row{'s' if number > 1 else ''} of {table} without the row of {parent}"
        for (table, parent), number in counts.items()
    ]


def copied(path: str, directory: str) -> str | None:
    """Copy a database that no process has open, with its log; None if it changes meanwhile.

    To read the file itself, SQLite would have to write beside it.
    """
    import shutil

    target = os.path.join(directory, os.path.basename(path))
    before = _signatures(path)
    for end in ("", "-wal"):
        if os.path.lexists(path + end):
            shutil.copyfile(path + end, target + end)
    return target if _signatures(path) == before else None


def _signatures(path: str) -> list[tuple[int, int, int]]:
    return [signature(path + end) for end in ("", "-wal")]


def is_open(path: str) -> bool:
    """Return whether the files exist that SQLite needs beside a database in use."""
    return all(os.path.exists(path + end) for end in ("-wal", "-shm"))


def holder(lock: str, seconds: float) -> str | None:
    """Name the process that holds a lock file all the time; None if none does. Make no file.

    If many processes take turns, each look finds another one.
    """
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    seen = set()
    try:
        for _ in clocks.tries(seconds):
            if not _is_held(descriptor):
                return None
            seen.add(process.lock_holder(descriptor))
    finally:
        os.close(descriptor)
    return seen.pop() if len(seen) == 1 else None


def _is_held(descriptor: int) -> bool:
    try:
        # A shared lock, released at once with the file: no process waits for us.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        # The file system has no such locks.
        return False
    return False


def leftovers(directory: str) -> Iterator[str]:
    """Yield the files that unfinished backups, copies and restores left."""
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
        stem = name
        for end in COMPANIONS[1:]:
            stem = stem.removesuffix(end)
        if stem.endswith((".partial", "-restoring")) or name == "restoring":
            yield os.path.join(directory, name)


class Copy:
    """A connection to a copy, closed at the end of its block."""

    def __init__(self, path: str, **options: Any) -> None:
        self._connection: Connection = file.connect(path, **options)
        self._connection.row_factory = file.Row

    def __enter__(self) -> Connection:
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def open_copy(path: str) -> Copy:
    """Open a copy that no process changes, with its log if it has one."""
    if not os.path.isfile(path):
        raise DatabaseUnavailable(path, reason="is not there, or not a file")
    log = f"{path}-wal"
    has_log = os.path.exists(log) and os.stat(log).st_size > 0
    options = "mode=ro" if has_log else "mode=ro&immutable=1"
    return Copy(file.uri(path, options), uri=True)


def number_in(path: str) -> int:
    """Return the number of the last event in a copy."""
    with open_copy(path) as connection:
        return file.reached(connection)


def refuse_foreign(connection: Connection, path: str) -> None:
    """Refuse a database that is not Tugtool's, or a newer Tugtool's."""
    application = connection.execute("pragma application_id").fetchone()[0]
    version = connection.execute("pragma user_version").fetchone()[0]
    if application != schema.APPLICATION_ID or version < schema.FIRST_VERSION:
        raise DatabaseUnavailable(path, reason="is not a database of Tugtool's")
    if version > schema.VERSION:
        raise NewerDatabase(path, found=version, known=schema.VERSION)


def judge(connection: Connection, path: str) -> None:
    """Refuse a database that is not sound or not ours."""
    refuse_foreign(connection, path)
    found = connection.execute("pragma integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise DatabaseUnavailable(path, reason=f"is damaged: {found}", name="CORRUPT")


def is_sound(path: str | None) -> bool:
    """Return whether a backup exists and is sound; refuse one of a newer Tugtool."""
    if path is None or not os.path.exists(path):
        return False
    try:
        with open_copy(path) as connection:
            judge(connection, path)
    except NewerDatabase:
        raise
    except (OSError, *file.FAILURES, DatabaseError):
        return False
    return True


def lacks(connection: Connection, backup: str, *, first: int = 0) -> bool:
    """Return whether a database lacks what its sound backup has, from the event `first` on."""
    connection.execute("attach ? as kept", (file.uri(backup, "mode=ro&immutable=1"),))
    try:
        kept = connection.execute("select seq from kept.sqlite_sequence where name = 'events'")
        last = (kept.fetchone() or (0,))[0]
        return (
            file.reached(connection) < last
            or connection.execute(_LOST_EVENT, {"first": first}).fetchone() is not None
            or connection.execute(_LOST_PROGRESS, {"seq": last}).fetchone() is not None
        )
    finally:
        connection.execute("detach kept")


def list_backups(mark: str) -> list[list[Any]]:
    """Return the completed steps in a mark, each once; skip unreadable lines."""
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


def completed_since(store: SqliteStore, number: int) -> list[Mapping[str, Any]]:
    """Return the steps completed after that event, from the backup and the mark."""
    rows: dict[int, list[Any]] = {}
    if store.backup is not None and is_sound(store.backup):
        with open_copy(store.backup) as connection:
            _, since = file.completed_since(connection, number)
            rows = {row[0]: row for row in since}
    assert store.mark is not None
    rows |= {row[0]: row for row in list_backups(store.mark) if row[0] > number}
    names = ("completed_at", "plan_path", "step_anchor", "commit_hash")
    return [dict(zip(names, rows[each][1:], strict=True)) for each in sorted(rows)]


def refuse_lost(store: SqliteStore) -> None:
    """Refuse a database that existed and is gone or empty; never start over."""
    # Each time look at the file last: another process may have made all of them meanwhile.
    if store.backup is not None and is_sound(store.backup) and not store.size():
        what = "empty" if os.path.exists(store.path) else "gone"
        reason = f"is {what}; a backup is there that ends at {_ends(store.backup)}"
        raise DatabaseUnavailable(store.path, reason=reason, hint=create.RESTORE)
    if _has_log(store.path) and not store.size():
        reason = "is gone or empty, but its log is there; what it held may still be saved"
        raise DatabaseUnavailable(store.path, reason=reason)


def _has_log(path: str) -> bool:
    return os.path.exists(f"{path}-wal") and os.stat(f"{path}-wal").st_size > 0


def _ends(path: str) -> str:
    """Return the time of the last change in a copy."""
    with open_copy(path) as connection:
        last = connection.execute(sql.LAST_CHANGE).fetchone()
    return str(last[0]) if last else when(path)


def when(path: str) -> str:
    """Return when a file was written."""
    return clocks.text(os.stat(path).st_mtime_ns // 1_000_000)


def verify(store: SqliteStore, connection: Connection, marked: int) -> None:
    """Check a file that is behind its mark, or that another program has written to."""
    if file.reached(connection) < marked:
        raise _older(store, connection, marked)
    create.refuse_damaged(store.path, connection, backup=store.backup)
    hint = create.restoring(store.backup)
    if store.backup is not None and is_sound(store.backup) and lacks(connection, store.backup):
        reason = f"was overwritten: it lacks what its backup of {when(store.backup)} holds"
        raise DatabaseUnavailable(store.path, reason=reason, hint=hint)


def _older(store: SqliteStore, connection: Connection, marked: int) -> DatabaseUnavailable:
    """Say what an older copy in the database's place lacks."""
    number = file.reached(connection)
    last, missing = connection.execute(sql.LAST_CHANGE).fetchone(), completed_since(store, number)
    names = [f"{row['step_anchor']} of {row['plan_path']}" for row in missing]
    until = f"ends at {last[0]}" if last else "holds nothing"
    lost = f", among them the completion of {listing(names)}" if names else ""
    changes = f"{marked - number} changes" if marked - number > 1 else "1 change"
    reason = f"is an older copy of itself: it {until}, and {changes} since are missing{lost}"
    hint = create.restoring(store.backup)
    keep = f"{create.RESTORE} --from {quoted(store.path)} --dry-run"
    reason += f" (keep it all the same? look at: {keep})" if hint else ""
    return DatabaseUnavailable(store.path, reason=reason, hint=hint or keep, missing=missing)
