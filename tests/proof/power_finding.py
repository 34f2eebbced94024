"""What somebody finds who comes after a power cut: in the database, its backup and its mark."""

import sqlite3
from pathlib import Path
from typing import NamedTuple

from power_disk import Image

from tugtool import state
from tugtool.errors import TugError
from tugtool.store import open_store, sql, sqlite
from tugtool.store.sqlite import file

HOME, COPIES = ".tugtool/", ".git/tugtool/"
STATE, BACKUP, MARK = HOME + "state.db", COPIES + "backup.db", COPIES + "mark"
#: A copy of what was migrated.
OLDER = COPIES + "state-schema-10.db"
LOGS = ("-wal", "-journal")
#: What is left of what was under way when the power was cut.
UNFINISHED = (f"{BACKUP}.partial", f"{MARK}.partial", f"{COPIES}restoring/state.db")

Tables = dict[str, list[tuple]]
#: There was a database, and it is not there.
LOST = "lost"


def matters(path: str) -> bool:
    """What is looked for afterwards; the rest is unfinished, and cleared away."""
    if path in (COPIES.rstrip("/"), BACKUP, MARK, OLDER) or path.startswith(HOME):
        return True
    return path.removeprefix(COPIES).startswith(("lost-", "pruned-"))


class Found(NamedTuple):
    """What somebody finds who comes after the cut."""

    database: Tables | str
    backup: Tables | str
    mark: int
    #: What else is wrong with it.
    trouble: str | None


class Finder:
    """Looks at images of the disk, at each once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.images = 0
        self._read: dict[object, Tables | str] = {}
        self._numbers: dict[bytes | None, int] = {}
        self._tried: dict[object, str | None] = {}

    def found(self, image: Image, keepsakes: list[bytes], *, restoring: bool) -> Found:
        """All there is to find in an image; `restoring`: one may have to restore once more."""
        self.images += 1
        database, backup = self._database(image), self.tables(image, BACKUP)
        number = self._number(image.get(MARK))
        # The same rows are the same object. Of a mark it counts whether the database is behind
        # it: its signature fits no image.
        key = id(database), id(backup), number > _reached(database), restoring
        if key not in self._tried:
            self._lay({HOME + "here": b"", **dict.fromkeys(UNFINISHED, b"?"), **image})
            self._tried[key] = self._next(database, restoring)
        trouble = self._tried[key]
        if any(each not in image.values() for each in keepsakes):
            trouble = "what was set aside is lost"
        if backup and not database and not _is_written_down(image):
            trouble = "what was dropped is nowhere"
        return Found(database, backup, number, trouble)

    def _database(self, image: Image) -> Tables | str:
        if not image.get(STATE) and image.get(BACKUP):
            # Whether its log is there makes no difference.
            return LOST
        return self.tables(image, STATE)

    def tables(self, image: Image, path: str) -> Tables | str:
        """All rows of a database; {} if there is none; or what is wrong with it."""
        files = {end: image[path + end] for end in ("", *LOGS) if path + end in image}
        key = tuple(files.items())
        if key not in self._read:
            self._lay({f"looked-at{end}": content for end, content in files.items()})
            found = rows(self.directory / "looked-at") if files else {}
            self._read[key] = self._read.setdefault(repr(found), found)
        return self._read[key]

    def _lay(self, files: Image) -> None:
        for old in sorted(self.directory.rglob("*"), reverse=True):
            old.rmdir() if old.is_dir() else old.unlink()
        for name, content in files.items():
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def _number(self, content: bytes | None) -> int:
        if content not in self._numbers:
            self._lay({"mark": content or b""})
            self._numbers[content] = file.read_mark(str(self.directory / "mark"))[0]
        return self._numbers[content]

    def _next(self, database: Tables | str, restoring: bool) -> str | None:
        """What the next command makes of it: is it refused where it should not be?"""
        path, copies = self.directory / STATE, str(self.directory / COPIES)
        store = open_store(f"sqlite://{path}", copies=copies)
        try:
            said = "it is broken" if isinstance(database, str) else _used(store)
            if said is not None and restoring:
                state.restore(store)
                said = _used(store)
            return said
        except TugError as error:
            return f"it cannot be restored: {error}"
        finally:
            store.close()


def _is_written_down(image: Image) -> bool:
    """Whether there is a whole export."""
    exports = [content for path, content in image.items() if "/pruned-" in path]
    return any(each.rpartition(b"\n{")[2].startswith(b'"end": true') for each in exports)


def _reached(database: Tables | str) -> int:
    numbers = {} if isinstance(database, str) else dict(database.get("sqlite_sequence", ()))
    return int(numbers.get("events", 0))


def _used(store: sqlite.SqliteStore) -> str | None:
    """What somebody hears who reads, and makes a backup."""
    try:
        # Makes what is not there yet, and migrates what is older.
        store.create()
        with store.read() as tx:
            tx.all(sql.PLANS)
        return store.back_up()
    except TugError as error:
        return f"refused: {error}"


def rows(path: Path) -> Tables | str:
    """All rows of a database that have been committed, with what its log holds."""
    connection = sqlite3.connect(path)
    try:
        found = connection.execute("pragma integrity_check").fetchall()
        if found != [("ok",)]:
            return f"damaged: {found}"
        names = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
        all_ = {name: connection.execute(f"select * from {name}").fetchall() for (name,) in names}
        # Without a plan it is as good as none: `init` makes it.
        return all_ if all_.get("plans") else {}
    except sqlite3.DatabaseError as error:
        return f"unreadable: {error}"
    finally:
        connection.close()
