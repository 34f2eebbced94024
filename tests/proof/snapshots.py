"""Everything a repository holds, to be compared: rows of the database, refs, files."""

import os
import sqlite3
import subprocess
from pathlib import Path

#: What git and SQLite write also when nothing is changed, and what a heartbeat file is.
IGNORED = ("index", "state.db", "state.db-wal", "state.db-shm", "state.lock", "ORIG_HEAD")


class Record:
    """The database of a repository, over one connection that is kept."""

    def __init__(self, root: Path) -> None:
        self.path = root / ".tugtool" / "state.db"
        self.connection: sqlite3.Connection | None = None

    def rows(self) -> dict[str, list[tuple]]:
        """Every row of every table."""
        if self.connection is None:
            if not self.path.exists():
                return {}
            self.connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        found = self.connection.execute("select name from sqlite_master where type = 'table'")
        names = sorted(name for (name,) in found)
        return {name: self.connection.execute(f"select * from {name}").fetchall() for name in names}

    def items(self) -> list[tuple]:
        """Step, kind, ordinal, status and reason of every item."""
        assert self.connection is not None
        which = "select step_anchor, kind, ordinal, status, reason from checklist_items"
        return self.connection.execute(which).fetchall()

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def refs(root: Path) -> str:
    """Every ref, HEAD, and what is staged."""
    words = ["for-each-ref", "--format=%(refname) %(objectname)"]
    return "".join(
        subprocess.run(["git", *line], cwd=root, capture_output=True, text=True).stdout
        for line in (words, ["symbolic-ref", "-q", "HEAD"], ["ls-files", "--stage"])
    )


def files(root: Path) -> dict[str, object]:
    """Every file outside of git's own directory: its bytes, or what else it is."""
    found: dict[str, object] = {}
    for top, directories, names in os.walk(root):
        directories[:] = [name for name in directories if name != ".git"]
        for name in [*directories, *names]:
            path = Path(top) / name
            if name not in IGNORED:
                found[str(path)] = _content(path)
    return found


def _content(path: Path) -> object:
    status = path.lstat()
    if path.is_symlink():
        return os.readlink(path)
    return path.read_bytes() if path.is_file() else status.st_mode
