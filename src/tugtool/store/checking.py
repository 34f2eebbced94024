"""Looking at a database without touching it: the whole file, its rows, and who holds its lock."""

from __future__ import annotations

import fcntl
import os

from tugtool import clock as clocks
from tugtool.state_errors import DatabaseError
from tugtool.store import backup, linked, making, mark, schema, trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tugtool.store import Row, Transaction

#: Whoever sees so many has seen enough.
MOST = 20

_TABLES = "select name, sql from sqlite_master where type = 'table'"


def damage(ask: Callable[[str], list[Row]]) -> list[str]:
    """What SQLite finds wrong with the pages and indexes, in its own words; or what it overlooks.

    A text that cannot be read is refused by whoever comes across it.
    """
    told = [str(row[0]) for row in ask(f"pragma integrity_check({MOST})")]
    lines = [line for each in told for line in each.split("\n")]
    found = [line for line in lines if line and line != "ok" and not line.startswith("***")]
    return found or list(_unlike(ask))


def _unlike(ask: Callable[[str], list[Row]]) -> Iterator[str]:
    """Columns that are not there, as SQLite takes any name for a good one; impossible rows."""
    model = linked.connect(":memory:")
    for statement in schema.TABLES:
        model.execute(statement.format(**making.DIALECT))
    for table, text in model.execute(_TABLES).fetchall():
        look = f"pragma table_info({table})"
        there = [row[1] for row in ask(look)]
        for row in model.execute(look):
            if row[1] not in there:
                yield f"{table} has no column {row[1]}"
        try:
            ask(f"select * from {table}")
            # Those of a table are not even read by SQLite for whoever may only read.
            for rule in _rules(text):
                if ask(f"select 1 from {table} where not {rule} limit 1"):
                    yield f"{table} has a row that breaks {' '.join(rule.split())}"
        except (*linked.FAILURES, DatabaseError) as error:
            yield f"{table} cannot be read: {error}"
    model.close()


def _rules(text: str) -> Iterator[str]:
    """What a table's CHECKs ask for, each in its parentheses."""
    for part in text.split(" check ")[1:]:
        depth, end = 1, 1
        while depth:
            depth += {"(": 1, ")": -1}.get(part[end], 0)
            end += 1
        yield part[:end]


def dangling(tx: Transaction) -> list[str]:
    """Rows that refer to rows that are not there, counted by table."""
    counts: dict[tuple[str, str], int] = {}
    for row in tx.all("pragma foreign_key_check"):
        pair = str(row[0]), str(row[2])
        counts[pair] = counts.get(pair, 0) + 1
    return [
        f"{number} row{'s' if number > 1 else ''} of {table} without the row of {parent}"
        for (table, parent), number in counts.items()
    ]


def copied(path: str, directory: str) -> str | None:
    """A copy of a database that nobody has open, with its log; None if it changes meanwhile.

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
    return [mark.signature(path + end) for end in ("", "-wal")]


def is_open(path: str) -> bool:
    """Whether the files are there that SQLite needs beside a database that is in use."""
    return all(os.path.exists(path + end) for end in ("-wal", "-shm"))


def holder(lock: str, seconds: float) -> str | None:
    """Who holds a lock file all the while, in words; None if nobody does. Nothing is made.

    Where many take turns, each look finds another.
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
            seen.add(trouble.holder(descriptor))
    finally:
        os.close(descriptor)
    return seen.pop() if len(seen) == 1 else None


def _is_held(descriptor: int) -> bool:
    try:
        # Shared, and let go at once when the file is closed: nobody waits for us.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        # The file system knows no such locks.
        return False
    return False


def leftovers(directory: str) -> Iterator[str]:
    """What unfinished backups, copies and restorings have left in the backup's directory."""
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
        stem = name
        for end in backup.COMPANIONS[1:]:
            stem = stem.removesuffix(end)
        if stem.endswith((".partial", "-restoring")) or name == "restoring":
            yield os.path.join(directory, name)
