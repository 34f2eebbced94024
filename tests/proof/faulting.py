"""One fault at one system call of one command: what it answered, what is there, what comes next.

Each command has a scene: what lies there before it. The database afterwards must be, row by
row, what it was before or what the undisturbed command makes of it, and the answer must say
which. Only a killed command may leave it open.
"""

import itertools
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from notified import CALLS

from conftest import Repo, hold_against_schemas
from support.state import markdown
from tugtool.store.sqlite import file

SERVER = str(Path(__file__).with_name("fault_server.py"))
#: Only a memory of files, and none is kept of one that was written just now.
COPIES = "plan_copies"
TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
ERRORS = ("EIO", "ENOSPC", "EAGAIN", "ENOLCK", "ENOMEM")
#: From that call on every one fails, of whatever kind: as if the disk had gone.
KILL, DEAD, ANY = "kill", "dead", "any"
#: What commands say when a database or its backup cannot be had, and nothing else.
CODES = {"E046", "E047"}
UNCERTAIN = "may have been written all the same"
HUNDREDS = re.compile(r"\b[1-9]\d\d\b")
REASON = ("--force", "--reason", "done")


#: Where syncing costs nothing, if there is such a place: the faults are ours anyway.
MEMORY = "/dev/shm"


def in_memory() -> tempfile.TemporaryDirectory[str]:
    """A directory that is gone afterwards."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    return tempfile.TemporaryDirectory(dir=place, prefix="tug-")


class Point(NamedTuple):
    """A command, a kind of system call, the how-manieth of them, and what befalls that."""

    scene: str
    call: str
    at: int
    fault: str


class Wrong(AssertionError):
    """An answer that was not so, or a state that is neither before nor after."""


#: No fault, no watching, nothing planted, files as large as they like.
UNDISTURBED = {"places": [], "calls": [], "at": -1, "fault": "", "planted": "", "limit": 0}


class Server:
    """The interpreter that forks itself for each run."""

    def __init__(self, first: Callable[[], None] | None = None) -> None:
        # As the tests' own path: this directory and the one above.
        path = os.pathsep.join(str(Path(__file__).parents[n]) for n in (0, 1))
        pipe = subprocess.PIPE
        env = {**os.environ, "PYTHONPATH": path}
        argv = [sys.executable, SERVER]
        self._process = subprocess.Popen(
            argv, stdin=pipe, stdout=pipe, env=env, text=True, preexec_fn=first
        )
        self.pid = self._process.pid

    def run(self, **asked: object) -> dict:
        """What was asked for: a command with its words, or another thing that the server does."""
        asked = {**UNDISTURBED, **asked}
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        self._process.communicate()


class Scene(NamedTuple):
    """A command, what was done before it, and how the database lies there then."""

    words: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    arrange: Callable[["Stage"], None] = lambda stage: None
    #: What it answers when it is repeated although it was done.
    again: tuple[int, ...] = (0,)
    #: Whether numbers are given out anew by each try, so that only the rest is the same.
    renumbered: bool = False


class Stage:
    """A repository in which every scene can be set up any number of times."""

    def __init__(self, path: Path, server: Server, planted: str = "") -> None:
        self.server, self.planted = server, planted
        self.repo = Repo.init(path / "repo")
        self.repo.plan("work", markdown("1 tt", "2 t < 1"))
        self.repo.write({".tugtool/config.toml": "[state]\nbusy_seconds = 1\n"})
        self.database = self.repo.path / ".tugtool" / "state.db"
        self.copies = self.repo.path / ".git" / "tugtool"
        self._kept = path / "kept"
        #: Per scene: the calls of an undisturbed run, and the tables before and after it.
        self.hits: dict[str, list[list[str]]] = {}
        self.tables: dict[str, tuple[object, object]] = {}
        #: Per scene: the epoch before it.
        self.epochs: dict[str, list[str]] = {}

    def command(
        self, *words: str, calls: Iterable[str] = (), at: int = -1, fault: str = ""
    ) -> dict:
        """Run the command; the fault strikes it, unless there is none."""
        places = [str(self.database.parent / "state."), str(self.copies)]
        about = {"cwd": str(self.repo.path), "places": places, "planted": self.planted}
        strike = {"calls": list(calls), "at": at, "fault": fault}
        return self.server.run(words=[*words, "--json"], **strike, **about)

    def prepare(self, name: str) -> list[Point]:
        """Set the scene for the first time; everything that can befall its command."""
        scene = SCENES[name]
        self._clear()
        for words in scene.before:
            done = self.command(*words)
            assert done["status"] == 0, done
        scene.arrange(self)
        for path in self._files():
            kept = self._kept / name / path.relative_to(self.repo.path)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, kept)
        self.epochs[name] = _epoch(self.look())
        before = self._seen(name)
        self.set(name)
        done = self.command(*scene.words, calls=CALLS)
        assert done["status"] == 0, done
        self.hits[name], self.tables[name] = done["hits"], (before, self._seen(name))
        return list(self._points(name))

    def _points(self, name: str) -> Iterator[Point]:
        counts = Counter(call for call, _ in self.hits[name])
        for call, count in counts.items():
            for at in range(count):
                yield from (Point(name, call, at, fault) for fault in (*ERRORS, KILL))
        yield from (Point(name, ANY, at, DEAD) for at in range(len(self.hits[name])))

    def found(self, name: str, call: str, end: str) -> list[int]:
        """Which of the calls of that kind have to do with a file that is so called."""
        paths = [path for each, path in self.hits[name] if each == call]
        return [at for at, path in enumerate(paths) if path.endswith(end)]

    def set(self, name: str) -> None:
        """Everything is again as it was before the command."""
        self._clear()
        kept = self._kept / name
        for path in kept.rglob("*"):
            target = self.repo.path / path.relative_to(kept)
            if path.is_dir():
                target.mkdir(exist_ok=True)
            else:
                shutil.copy2(path, target)
        file.sign(str(self.copies / "mark"), str(self.database))

    def _files(self) -> list[Path]:
        inner = [path for path in self.copies.rglob("*") if path.is_file()]
        return [*self.database.parent.glob("state.*"), *inner]

    def _clear(self) -> None:
        for path in self.database.parent.glob("state.*"):
            path.unlink()
        shutil.rmtree(self.copies, ignore_errors=True)

    def look(self) -> object:
        """Every row of every table, without the times; the file must be sound."""
        if not self.database.exists():
            return None
        try:
            tables = _tables(self.database, "ro")
        except sqlite3.OperationalError:
            # Killed while it was made: what is half done is undone by the next who may write.
            tables = _tables(self.database, "rw")
        # An empty database is as good as none.
        return tables if tables.get("plans") else None

    def _seen(self, name: str) -> object:
        """What is there, as far as it is the same after every try."""
        found = self.look()
        if not isinstance(found, dict):
            return found
        if not SCENES[name].renumbered:
            # Drawn by lot: the one that was there before, or another.
            known = self.epochs[name]
            epoch = ["as before" if row in known else "new" for row in _epoch(found)]
            return {**found, "epoch": epoch}
        rows = {name: found[name] for name in ("plans", "steps", "checklist_items")}
        return {name: [HUNDREDS.sub("N", row) for row in rows[name]] for name in rows}

    def strike(self, point: Point) -> str:
        """Run the command with a fault and judge it; what came of it, in a word."""
        self.set(point.scene)
        scene = SCENES[point.scene]
        calls = CALLS if point.call == ANY else [point.call]
        done = self.command(*scene.words, calls=calls, at=point.at, fault=point.fault)
        before, after = self.tables[point.scene]
        found = self._seen(point.scene)
        if found not in (before, after):
            raise Wrong(f"{point}: neither before nor after: {_difference(found, after)}")
        was_done = found == after and found != before
        outcome = self._judge(point, done, was_done, same=before == after)
        again = self.command(*scene.words)
        if again["status"] not in (scene.again if was_done else (0,)):
            raise Wrong(f"{point}: repeated: {again}")
        there = self._seen(point.scene)
        if not was_done and there != after:
            raise Wrong(f"{point}: repeated: {_difference(there, after)}")
        return outcome

    def _judge(self, point: Point, done: dict, was_done: bool, *, same: bool) -> str:
        if "Traceback" in done["err"] or done["status"] not in (0, 1, -9):
            raise Wrong(f"{point}: {done}")
        if done["status"] == -9:
            return "killed"
        envelope = json.loads(done["out"])
        hold_against_schemas(envelope)
        if done["status"] == 0:
            if not (was_done or same):
                raise Wrong(f"{point}: says done, and nothing is there: {done}")
            return "done"
        codes = {issue["code"] for issue in envelope["issues"] if issue["severity"] == "error"}
        if not codes or not codes <= CODES:
            raise Wrong(f"{point}: {codes}: {done}")
        if was_done and not (point.fault == DEAD and UNCERTAIN in done["out"]):
            raise Wrong(f"{point}: says refused, and it is there: {done}")
        return "refused"


def spread(points: list[Point], seed: int) -> list[Point]:
    """In an order in which every kind of call of every command has its turn soon."""
    chance = random.Random(seed)
    kinds: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        kinds.setdefault((point.scene, point.call), []).append(point)
    groups = list(kinds.values())
    for each in (groups, *groups):
        chance.shuffle(each)
    turns = itertools.zip_longest(*groups)
    return [point for turn in turns for point in turn if point is not None]


def _tables(path: Path, mode: str) -> dict[str, list[str]]:
    connection = sqlite3.connect(f"file:{path}?mode={mode}", uri=True)
    try:
        found = connection.execute("pragma integrity_check").fetchall()
        if found != [("ok",)]:
            raise Wrong(f"damaged: {found}")
        names = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
        return {
            name: [TIME.sub("TIME", repr(row)) for row in _rows(connection, name)]
            for (name,) in names
            if name != COPIES
        }
    finally:
        connection.close()


def _epoch(found: object) -> list[str]:
    return found["epoch"] if isinstance(found, dict) else []


def _rows(connection: sqlite3.Connection, table: str) -> list[tuple]:
    return sorted(connection.execute(f"select * from {table}").fetchall(), key=repr)


def _difference(found: object, wanted: object) -> object:
    if not isinstance(found, dict) or not isinstance(wanted, dict):
        return found, wanted
    return {
        name: (found.get(name), wanted[name]) for name in wanted if found.get(name) != wanted[name]
    }


def _backup_is_due(stage: Stage) -> None:
    os.utime(stage.copies / "backup.db", (0, 0))


def _log_is_long(stage: Stage) -> None:
    """So that the next commit moves it into the database."""
    connection = sqlite3.connect(stage.database)
    connection.execute("pragma wal_autocheckpoint = 0")
    with connection:
        connection.execute("update plans set plan_text = plan_text || ?", ("x" * (1 << 19),))
    # Whoever ends without closing leaves it.
    _leave(stage, connection)


def _leave(stage: Stage, connection: sqlite3.Connection) -> None:
    kept = {end: Path(f"{stage.database}{end}").read_bytes() for end in ("", "-wal")}
    connection.close()
    for end, content in kept.items():
        Path(f"{stage.database}{end}").write_bytes(content)


def _moved_into_the_database(stage: Stage) -> None:
    connection = sqlite3.connect(stage.database)
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()


def _lost(stage: Stage) -> None:
    for path in stage.database.parent.glob("state.db*"):
        path.unlink()


INIT = ("state", "init", "work")
CLAIM = ("state", "claim", "work")
COMPLETE = ("state", "complete", "work", "step-1", *REASON)
UPDATE = ("state", "update", "work", "step-1", "--task", "0", "completed")
SCENES = {
    "init": Scene(INIT),
    "claim": Scene(CLAIM, (INIT,), _moved_into_the_database),
    "start": Scene(("state", "start", "work", "step-1"), (INIT, CLAIM), _moved_into_the_database),
    "update": Scene(
        ("state", "update", "work", "step-1", "--task", "0", "completed"), (INIT, CLAIM)
    ),
    "complete": Scene(COMPLETE, (INIT, CLAIM), _moved_into_the_database),
    "complete, backup due": Scene(COMPLETE, (INIT, CLAIM), _backup_is_due),
    "complete, log long": Scene(COMPLETE, (INIT, CLAIM), _log_is_long),
    "release": Scene(("state", "release", "work", "step-1"), (INIT, CLAIM), again=(0, 1)),
    "show": Scene(("state", "show", "work"), (INIT, CLAIM)),
    "restore": Scene(("state", "restore"), (INIT, CLAIM), _lost, again=(0, 1), renumbered=True),
}
