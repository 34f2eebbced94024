"""Commands, and at every moment of them the power might be cut: what a disk could hold then.

A disk keeps what was synced. Of what was written since, it may keep any part: all, nothing,
some sectors. Run as a script: `power.py DIRECTORY SEED FAULT`; prints {"images", "commands",
"wrong"} as JSON. Watches its commands' system calls, so it must have no threads.
"""

import json
import os
import pkgutil
import random
import socket
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import notified

import tugtool

for module in pkgutil.walk_packages(tugtool.__path__, "tugtool."):
    if module.name != "tugtool.__main__" and ".scripted" not in module.name:
        __import__(module.name)

from state_fixtures import markdown  # noqa: E402 (everything is loaded once, before it forks)
from tugtool.cli.main import main  # noqa: E402
from tugtool.store import linked, sqlite  # noqa: E402

SECTOR = 512
WATCHED = ("pwrite64", "ftruncate", "fsync", "fdatasync", "unlink", "openat")
#: The database and its logs; what lies in shared memory is made anew from them.
ENDS = ("state.db", "state.db-wal", "state.db-journal")
#: At this length the log is moved into the database: often, so that it is seen.
LOG_BYTES = 60_000

Tables = dict[str, list[tuple]]
Write = tuple[int, bytes]


class File:
    """One file: what is certain, and what was written since the last sync."""

    def __init__(self) -> None:
        self.synced = b""
        #: In order: (offset, bytes), or (length, None) for a new end.
        self.loose: list[tuple[int, bytes | None]] = []
        #: Whether its name is certain to be found.
        self.is_named = False

    def sync(self) -> None:
        self.synced, self.loose = _applied(self.synced, self.loose), []

    def image(self, keeps: Callable[[], bool]) -> bytes:
        """What might be found: `keeps` decides about every sector that was not synced."""
        kept: list[tuple[int, bytes | None]] = []
        for offset, data in self.loose:
            if data is None:
                kept += [(offset, None)] if keeps() else []
                continue
            pieces = range(0, len(data), SECTOR)
            kept += [(offset + at, data[at : at + SECTOR]) for at in pieces if keeps()]
        return _applied(self.synced, kept)


def _applied(content: bytes, changes: list[tuple[int, bytes | None]]) -> bytes:
    found = bytearray(content)
    for offset, data in changes:
        if data is None:
            del found[offset:]
        found.extend(bytes(max(0, offset + len(data or b"") - len(found))))
        if data is not None:
            found[offset : offset + len(data)] = data
    return bytes(found)


class Disk:
    """The files of one directory, as they are written."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files: dict[str, File] = {}

    def note(self, call: notified.Call) -> bool:
        """Take a call in; whether it changed what may be found."""
        name = os.path.basename(call.path)
        if call.path == str(self.directory) and call.name in ("fsync", "fdatasync"):
            for file in self.files.values():
                file.is_named = True
            return True
        if os.path.dirname(call.path) != str(self.directory) or name not in ENDS:
            return False
        return bool(getattr(self, f"_{call.name}")(name, call))

    def _openat(self, name: str, call: notified.Call) -> bool:
        if call.words[2] & os.O_CREAT and name not in self.files:
            self.files[name] = File()
        return False

    def _pwrite64(self, name: str, call: notified.Call) -> bool:
        _, address, length, offset, *_ = call.words
        data = notified.memory(call.pid, address, length)
        self.files[name].loose.append((offset, data))
        return True

    def _ftruncate(self, name: str, call: notified.Call) -> bool:
        self.files[name].loose.append((call.words[1], None))
        return True

    def _fdatasync(self, name: str, call: notified.Call) -> bool:
        self.files[name].sync()
        return True

    _fsync = _fdatasync

    def _unlink(self, name: str, call: notified.Call) -> bool:
        # It may be found again; that the others are right then as well is SQLite's affair.
        del self.files[name]
        return True

    def images(self, chance: random.Random) -> Iterator[dict[str, bytes]]:
        """Nothing of what is loose, all of it, some of it."""
        for keeps in (lambda: False, lambda: True, lambda: chance.random() < 0.5):
            yield {
                name: file.image(keeps)
                for name, file in self.files.items()
                if file.is_named or keeps()
            }


class Story:
    """Commands one after another on one database, and what must be found at each moment."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.root = directory / "repo"
        (self.root / ".git").mkdir(parents=True)
        (self.root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        for name in ("objects", "refs"):
            (self.root / ".git" / name).mkdir()
        self.home = self.root / ".tugtool"
        self.home.mkdir()
        (self.home / "tugplan-work.md").write_text(markdown("1 tt", "2 t < 1", "3 t"))
        self.disk, self.chance = Disk(self.home), random.Random(seed)
        self.copy = directory / "image"
        self.copy.mkdir()
        self.known: Tables = {}
        self.looks: list[dict[str, bytes]] = []
        self.images = 0
        self.wrong: list[str] = []

    def run(self, *words: str) -> None:
        """One command. What it left and what lay there before are the only two outcomes."""
        self.looks = []
        out = self._watched(words)
        assert json.loads(out)["status"] == "ok", out
        during, self.looks = self.looks, []
        self._look()
        after = tables(self.looks[1], self.copy)
        assert isinstance(after, dict), after
        for image in during:
            self._judge(image, (self.known, after), f"during {' '.join(words)}")
        # It has answered: from now on it must be there.
        for image in self.looks:
            self._judge(image, (after,), f"after {' '.join(words)}")
        self.known = after

    def _judge(self, image: dict[str, bytes], allowed: tuple[Tables, ...], when: str) -> None:
        self.images += 1
        found = tables(image, self.copy)
        if found not in allowed:
            self.wrong.append(f"{when}: {found if isinstance(found, str) else 'something is lost'}")

    def _look(self) -> None:
        self.looks += self.disk.images(self.chance)

    def _watched(self, words: tuple[str, ...]) -> str:
        ours, theirs = socket.socketpair()
        out = os.memfd_create("out")
        pid = os.fork()
        if pid == 0:
            _command(self.root, [*words, "--json"], theirs, out)
        theirs.close()
        _, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
        ours.close()
        notified.quicken(listener)
        while (call := notified.received(listener)) is not None:
            changed = self.disk.note(call)
            notified.answer(listener, call)
            if changed:
                self._look()
        os.close(listener)
        os.waitpid(pid, 0)
        os.lseek(out, 0, os.SEEK_SET)
        with open(out) as file:
            return file.read()


def _command(root: Path, words: list[str], talk: socket.socket, out: int) -> None:
    status = 99
    try:
        os.chdir(root)
        os.dup2(out, 1)
        notified.hold(talk, WATCHED)
        status = main(words)
    finally:
        # As the command does.
        os._exit(status)


def tables(image: dict[str, bytes], directory: Path) -> Tables | str:
    """All rows that somebody finds who opens this; or what is wrong with it."""
    for old in directory.iterdir():
        old.unlink()
    for name, content in image.items():
        (directory / name).write_bytes(content)
    connection = sqlite3.connect(directory / "state.db")
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


def careless() -> None:
    """A fault to plant: the commit does not wait for the disk."""
    connect = linked.connect

    class Careless(sqlite3.Connection):
        def execute(self, text: str, *values: object) -> sqlite3.Cursor:
            return super().execute(text.replace("synchronous = full", WEAKER), *values)

    linked.connect = lambda *words, **options: connect(*words, factory=Careless, **options)


WEAKER = "synchronous = normal"
FAULTS = {"": lambda: None, "careless": careless}
WORDS = (
    ("state", "init", "work"),
    ("state", "claim", "work", "--worktree", "red"),
    ("state", "start", "work", "step-1", "--worktree", "red"),
    ("state", "update", "work", "step-1", "--all", "completed", "--worktree", "red"),
    ("state", "complete", "work", "step-1", "--worktree", "red"),
    ("state", "claim", "work", "--worktree", "blue"),
    ("state", "heartbeat", "work", "step-2", "--worktree", "blue"),
    ("state", "release", "work", "step-2", "--worktree", "blue"),
    ("state", "reopen", "work", "step-1", "--reason", "again"),
    ("state", "pause", "work"),
    ("state", "resume", "work"),
)


def play(directory: Path, seed: int, fault: str) -> dict[str, object]:
    """The whole story once."""
    sqlite.LONG_LOG_BYTES = LOG_BYTES
    FAULTS[fault]()
    story = Story(directory, seed)
    for words in WORDS:
        story.run(*words)
    return {"images": story.images, "commands": len(WORDS), "wrong": story.wrong}


if __name__ == "__main__":
    print(json.dumps(play(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))
