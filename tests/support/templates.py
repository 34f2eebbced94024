"""Repositories that are made once in a run, kept in memory, and written wherever a test wants one.

What a template is made of is written down as bytes: files, modes, times. Where git keeps the
repository's own path, the copy's path is put in; the database's mark names the copy's database.
"""

import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tugtool.store.sqlite import file
from tugtool.system import lock

MARK = ".git/tugtool/mark"
DATABASE = ".tugtool/state.db"
DATABASES = (DATABASE, ".git/tugtool/backup.db")
#: What lies beside a database, for commands leave without closing it.
BESIDE = tuple(f"{name}-{kind}" for name in DATABASES for kind in ("wal", "shm"))
#: A template that is older is made anew: nothing in it is older than in a test that makes its own.
FRESH_SECONDS = 60


class Entry(NamedTuple):
    """A file; `content` is None of a directory."""

    name: str
    mode: int
    written: int
    content: bytes | None


class Template:
    """A directory as it was, and what its maker wants to remember about it."""

    def __init__(self, root: Path, memory: object = None) -> None:
        self.root, self.memory, self.made = str(root), memory, time.time_ns()
        self.entries = list(_entries(root))
        #: What is written once the path has been changed in the databases, and where it stands.
        self.beside: list[Entry] = []
        self.columns: list[tuple[str, str, str]] = []
        if any(os.fsencode(root) in (each.content or b"") for each in self._of_databases()):
            found = [each for each in self._of_databases() if each.name in BESIDE]
            self.beside = [each._replace(content=b"") for each in found]
            self.columns = [each for name in DATABASES for each in _columns(root, name)]
            self.entries = [each for each in _entries(root) if each.name not in BESIDE]

    def _of_databases(self) -> list[Entry]:
        return [each for each in self.entries if each.name in (*DATABASES, *BESIDE)]

    def is_fresh(self) -> bool:
        return time.time_ns() < self.made + FRESH_SECONDS * 10**9

    def write(self, root: Path) -> None:
        """The same at another place, where nothing is yet."""
        os.makedirs(root)
        old, new = os.fsencode(self.root), os.fsencode(root)
        # Some files are thrown away, or made again, when they are old.
        later = time.time_ns() - self.made
        for each in self.entries:
            content = each.content
            if content and old in content and each.name not in DATABASES:
                each = each._replace(content=content.replace(old, new))
            _write(root, each, later)
        _move(root, self.columns, self.root)
        for each in self.beside:
            _write(root, each, later)
        _sign(root)

    def is_at(self, root: Path) -> bool:
        """Whether nobody has changed anything since it was written there."""
        entries = [*self.entries, *self.beside]
        if set(_names(root)) != {each.name for each in entries}:
            return False
        files = [each for each in entries if each.content is not None and each.name != MARK]
        return len({os.lstat(root / each.name).st_mtime_ns - each.written for each in files}) == 1


class Templates:
    """All templates of a run, by what they were made from."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.made: dict[tuple, Template] = {}
        self.count = 0

    def get(self, key: tuple, before: Template | None, make: Callable[[Path], object]) -> Template:
        """The template; made by `make` at a place of its own, out of the one before."""
        if key not in self.made or not self.made[key].is_fresh():
            self.count += 1
            root = self.place / str(self.count) / "repo"
            if before:
                before.write(root)
            memory = make(root)
            self.made[key] = Template(root, memory)
            shutil.rmtree(root.parent)
        return self.made[key]


def _names(root: Path) -> Iterator[str]:
    """Everything below, each directory before what is in it."""
    skipped = len(str(root)) + 1
    for directory, directories, files in os.walk(root):
        yield from (f"{directory}/{name}"[skipped:] for name in (*directories, *files))


def _entries(root: Path) -> Iterator[Entry]:
    for name in _names(root):
        status = os.lstat(root / name)
        content = (root / name).read_bytes() if stat.S_ISREG(status.st_mode) else None
        yield Entry(name, stat.S_IMODE(status.st_mode), status.st_mtime_ns, content)


def _write(root: Path, entry: Entry, later: int) -> None:
    path = f"{root}/{entry.name}"
    if entry.content is None:
        os.mkdir(path, entry.mode)
        return
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, entry.mode)
    os.write(file, entry.content)
    os.close(file)
    os.utime(path, ns=(entry.written + later, entry.written + later))


def _columns(root: Path, name: str) -> Iterator[tuple[str, str, str]]:
    """Where the path stands in a database, once all that was written is in the file itself."""
    if not (root / name).exists():
        return
    connection = sqlite3.connect(root / name)
    connection.execute("pragma wal_checkpoint(truncate)")
    tables = connection.execute("select name from sqlite_schema where type = 'table'").fetchall()
    for (table,) in tables:
        for _, column, *_ in connection.execute(f"pragma table_info({table})").fetchall():
            asked = f"select 1 from {table} where instr({column}, ?)"
            if connection.execute(asked, (str(root),)).fetchone():
                yield name, table, column
    connection.close()


def _move(root: Path, columns: list[tuple[str, str, str]], old: str) -> None:
    """Put the new path where the old one stands."""
    for name, table, column in columns:
        connection = sqlite3.connect(root / name, isolation_level=None)
        changed = f"update {table} set {column} = replace({column}, ?, ?)"
        connection.execute(changed, (old, str(root)))
        connection.close()


def _sign(root: Path) -> None:
    """The mark knows the database by its file, and this is another one."""
    path = root / MARK
    if path.exists():
        number, _ = file.read_mark(str(path))
        line = file.mark_line(number, lock.signature(str(root / DATABASE)))
        path.write_bytes(line + path.read_bytes()[len(line) :])
