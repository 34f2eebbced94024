"""Commands, and at every moment of them the power might be cut: what is found afterwards.

Run as a script: `power.py DIRECTORY SEED FAULT`; prints {"images", "moments", "wrong"} as JSON.
Watches its commands' system calls, so it must have no threads.
"""

# What is replaced before our modules are loaded stands above their imports.
# ruff: noqa: E402

import contextlib
import json
import os
import pkgutil
import random
import shutil
import socket
import sqlite3
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import notified
import power_disk
from power_disk import Disk, Image

import tugtool

for module in pkgutil.walk_packages(tugtool.__path__, "tugtool."):
    if module.name != "tugtool.__main__" and ".scripted" not in module.name:
        __import__(module.name)

import power_faults
from power_finding import (
    BACKUP,
    COPIES,
    HOME,
    LOST,
    OLDER,
    STATE,
    Finder,
    Found,
    Tables,
    matters,
    rows,
)

from support.state import KEY, markdown
from tugtool import state
from tugtool.cli.main import main
from tugtool.store import open_store, sqlite

#: The first there ever was.
FIRST_SCHEMA = Path(__file__).parents[1] / "store" / "schema-10.sql"
NOON = "2026-02-23T12:00:00.000Z"
#: At this length the log is moved into the database: often, so that it is seen.
LOG_BYTES = 60_000
#: SQLite's own way of it, in pages, for a while.
OWN_PAGES, USUAL_PAGES = 12, 1000
#: Of the writes between two syncs, so many are looked at.
WRITES_SEEN = 0.2

#: So many has a restore that sets aside a backup and a log.
SYNCS = 9


class Enough(Exception):
    """Something is wrong, which is all that one wanted to know."""


class Story:
    """Commands one after another on one database, and what must be found at each moment."""

    def __init__(self, directory: Path, seed: int, *, hasty: bool) -> None:
        self.hasty = hasty
        self.root = directory / "repo"
        (self.root / ".git").mkdir(parents=True)
        (self.root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        for name in ("objects", "refs"):
            (self.root / ".git" / name).mkdir()
        (self.root / HOME).mkdir()
        (self.root / KEY).write_text(markdown("1 tt", "2 t < 1", "3 t"))
        self.disk, self.chance = Disk(self.root, matters), random.Random(seed)
        (directory / "image").mkdir()
        self.finder = Finder(directory / "image")
        #: What must be somewhere all the while; and whether it may have to be restored again.
        self.keepsakes: list[bytes] = []
        self.restoring = False
        #: What is in a database of an older version, of which a copy must be there.
        self.older: Tables | str | None = None
        #: How often it was said that something is done, and what was found then.
        self.acknowledged: list[Found] = []
        self.moments: list[tuple[int, Found]] = []
        #: How far the mark has got for certain.
        self.certain = 0
        self.seen = 0
        self.wrong: list[str] = []

    def command(self, *words: str) -> None:
        """One command, from its start to its end."""
        self._run(" ".join(words), lambda: main([*words, "--json"]))

    def staying(self, work: Callable[[], int]) -> None:
        """One process that does many things, and says each time that it is done."""
        self._run("staying", work)

    def _run(self, name: str, work: Callable[[], int]) -> None:
        self.moments, self.acknowledged = [], [self._whole()]
        self.certain = min(found.mark for found in self._looked())
        out = self._watched(work)
        assert '"status": "error"' not in out, out
        self.acknowledged.append(self._whole())
        self._look()
        last = len(self.acknowledged) - 1
        for done, found in self.moments:
            # Nothing more is under way after the last of them.
            allowed = self.acknowledged[done : done + (1 if done == last else 2)]
            self._judge(found, allowed, f"after {done} of {last} in {name}")
        self.seen += len(self.moments)
        if self.wrong and self.hasty:
            raise Enough

    def _judge(self, found: Found, allowed: list[Found], when: str) -> None:
        databases = [each.database for each in allowed]
        if self.restoring and allowed[0] is self.acknowledged[0]:
            databases.append(LOST)
        if found.database not in databases:
            said = found.database if isinstance(found.database, str) else "something is lost"
            self.wrong.append(f"{when}: {said}")
        if found.backup not in [each.backup for each in allowed]:
            said = found.backup if isinstance(found.backup, str) else "it is an older one, or none"
            self.wrong.append(f"{when}: the backup: {said}")
        if self.restoring and found.database == allowed[-1].database != found.backup:
            # It would give out once more the attempts that are given out from now on.
            self.wrong.append(f"{when}: the backup is older than what was restored")
        if found.mark < self.certain:
            self.wrong.append(f"{when}: the mark has gone back from {self.certain} to {found.mark}")
        if found.trouble is not None:
            self.wrong.append(f"{when}: {found.trouble}")

    def _whole(self) -> Found:
        """If the power is not cut."""
        image = next(self.disk.images(self.chance))
        return self.finder.found(image, [], restoring=self.restoring)

    def _look(self) -> None:
        done = len(self.acknowledged) - 1
        self.moments += [(done, found) for found in self._looked()]

    def _looked(self) -> list[Found]:
        return [self._found(image) for image in self.disk.images(self.chance)]

    def _found(self, image: Image) -> Found:
        found = self.finder.found(image, self.keepsakes, restoring=self.restoring)
        if self.older not in (None, found.database, self.finder.tables(image, OLDER)):
            return found._replace(trouble="it was migrated, and there is no copy")
        return found

    def _watched(self, work: Callable[[], int]) -> str:
        ours, theirs = socket.socketpair()
        out = os.memfd_create("out")
        pid = os.fork()
        if pid == 0:
            _begin(self.root, work, theirs, out)
        theirs.close()
        _, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
        ours.close()
        notified.quicken(listener)
        while (call := notified.received(listener)) is not None:
            self._take(call)
            notified.answer(listener, call)
        os.close(listener)
        os.waitpid(pid, 0)
        os.lseek(out, 0, os.SEEK_SET)
        with open(out) as file:
            return file.read()

    def _take(self, call: notified.Call) -> None:
        if call.name == "write" and call.words[0] == 1:
            self.acknowledged.append(self._whole())
            self._look()
            return
        if call.name in ("fsync", "fdatasync") and self.disk.watches(call):
            # Now the most is uncertain.
            self._look()
        if self.disk.note(call) and ("write" not in call.name or self._is_chosen()):
            self._look()

    def _is_chosen(self) -> bool:
        return self.chance.random() < WRITES_SEEN


def _begin(root: Path, work: Callable[[], int], talk: socket.socket, out: int) -> None:
    status = 99
    try:
        os.chdir(root)
        os.dup2(out, 1)
        notified.hold(talk, power_disk.WATCHED)
        status = work()
    finally:
        # As the command does.
        os._exit(status)


# -- the stories -----------------------------------------------------------------------

RED, BLUE = ("--worktree", "red"), ("--worktree", "blue")
COMMANDS = (
    ("state", "init", "work"),
    ("state", "claim", "work", *RED),
    ("state", "start", "work", "step-1", *RED),
    ("state", "update", "work", "step-1", "--all", "completed", *RED),
    ("state", "complete", "work", "step-1", *RED),
    ("state", "claim", "work", *BLUE),
    ("state", "heartbeat", "work", "step-2", *BLUE),
    ("state", "release", "work", "step-2", *BLUE),
    ("state", "reopen", "work", "step-1", "--reason", "again"),
    ("state", "pause", "work"),
    ("state", "resume", "work"),
)
REASON = ("--force", "--reason", "done")


def commands(story: Story) -> None:
    """One of nearly every kind, and a plan that changes on the way."""
    for words in COMMANDS:
        story.command(*words)
    (story.root / KEY).write_text(markdown("1 tt", "2 t < 1", "3 t", "4 tt"))
    story.command("state", "init", "work", "--force")


def stay(story: Story) -> None:
    """A process that makes so many commits that it is one that stays."""
    story.command("state", "init", "work")

    def work() -> int:
        store = open_store(f"sqlite://{story.root / STATE}", copies=str(story.root / COPIES))
        for n in range(sqlite.STAYING_COMMITS + 8):
            (state.resume if n % 2 else state.pause)(store, KEY)
            os.write(1, b".")
            if n % 8 == 0:
                pages = OWN_PAGES if n % 16 else USUAL_PAGES
                store._writer.execute(f"pragma wal_autocheckpoint = {pages}")
                store.back_up()
        return 0

    story.staying(work)


def rescue(story: Story) -> None:
    """The database is damaged, replaced and lost, and comes back."""
    _backed_up(story)
    story.disk.put(STATE, b"nothing that anybody can read" * 1000)
    _restored(story, "state", "restore")
    story.command("state", "claim", "work", *BLUE)
    # The one that is there, though it is sound.
    _restored(story, "state", "restore", "--from", STATE)
    story.command("state", "claim", "work", *BLUE)
    story.disk.put(STATE, None)
    _restored(story, "state", "init", "work")


def prune(story: Story) -> None:
    """What is dropped is written down before, and taken back."""
    (story.root / KEY).write_text(markdown("1 t"))
    story.command("state", "init", "work")
    story.command("state", "claim", "work", *RED)
    story.command("state", "complete", "work", "step-1", *RED, *REASON)
    story.command("state", "prune", "--done")
    (export,) = (story.root / COPIES).glob("pruned-*")
    story.command("state", "import", str(export))


def migrate(story: Story) -> None:
    """An older database becomes the present one, and a copy of it is kept."""
    path = story.root.parent / "old.db"
    connection = sqlite3.connect(path)
    connection.executescript(FIRST_SCHEMA.read_text())
    plan = {"plan_path": KEY, "plan_hash": "0" * 64, "status": "active", "plan_text": "# Work"}
    times = dict.fromkeys(("created_at", "updated_at", "paused_at"), NOON)
    counts = {"plan_path": KEY, "steps_total": 0, "steps_done": 0, "steps_ready": 0}
    for table, row in (("plans", plan | times), ("plan_counts", counts | {"changed_at": NOON})):
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        connection.execute(f"insert into {table} ({names}) values ({marks})", [*row.values()])
    connection.commit()
    connection.close()
    story.disk.put(STATE, path.read_bytes())
    story.older = rows(path)
    # It is paused already, so nothing else changes.
    story.command("state", "pause", "work")


def _backed_up(story: Story) -> None:
    story.command("state", "init", "work")
    story.command("state", "claim", "work", *RED)
    story.command("state", "complete", "work", "step-1", *RED, *REASON)


def _restored(story: Story, *words: str) -> None:
    there = [story.root / each for each in (STATE, f"{STATE}-wal", BACKUP)]
    contents = [each.read_bytes() for each in there if each.exists()]
    story.keepsakes, story.restoring = [each for each in contents if each], True
    story.command(*words)
    story.keepsakes, story.restoring = [], False


STORIES = {"commands": commands, "stay": stay, "rescue": rescue, "prune": prune, "migrate": migrate}


def play(directory: Path, seed: int, fault: str) -> dict[str, object]:
    """All stories once, or the one in which a fault shows."""
    chosen = [power_faults.plant(fault)] if fault else list(STORIES)
    told: list[Story] = []
    for name in chosen:
        told.append(Story(directory / name, seed, hasty=bool(fault)))
        with contextlib.suppress(Enough):
            STORIES[name](told[-1])
    return {
        "images": sum(each.finder.images for each in told),
        "moments": sum(each.seen for each in told),
        "wrong": [line for each in told for line in each.wrong],
    }


def skip_each(directory: Path, seed: int) -> dict[str, object]:
    """One sync of a restore after another is left out: what is wrong then, for each."""
    story = Story(directory, seed, hasty=True)
    _backed_up(story)
    story.command("state", "claim", "work", *RED)
    # The log is still there.
    story.disk.put(STATE, None)
    (story.root / f"{STATE}-shm").unlink()
    return {"wrong": [_forked(lambda n=n: _skipped(story, n)) for n in range(SYNCS)]}


def _skipped(story: Story, number: int) -> list[str]:
    root = story.root.with_name(f"without-{number}")
    shutil.copytree(story.root, root)
    story.root, story.disk.root = root, str(root)
    power_faults.skip(number)
    with contextlib.suppress(Enough):
        _restored(story, "state", "restore")
    return story.wrong


def _forked(work: Callable[[], list[str]]) -> list[str]:
    out = os.memfd_create("out")
    pid = os.fork()
    if pid == 0:
        try:
            os.write(out, json.dumps(work()).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.lseek(out, 0, os.SEEK_SET)
    with open(out) as file:
        return list(json.load(file))


def run(directory: Path, seed: int, fault: str) -> dict[str, object]:
    """What the command line asks for."""
    sqlite.LONG_LOG_BYTES, sqlite.LONGEST_LOG_BYTES = LOG_BYTES, 2 * LOG_BYTES
    # A backup each time that there is one to make.
    sqlite.BACKUP_SECONDS = 0
    return skip_each(directory, seed) if fault == "each" else play(directory, seed, fault)


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))
