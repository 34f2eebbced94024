"""Every way to lose `state.db` while commands run, and what is left: all that was backed up.

The workers are real processes, one per step, as commands are. What they write down once it
is acknowledged is held against what comes back.
"""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Repo
from store.test_store_faults import Answer, run
from support.proving import sampled
from support.racing import Crew, plan_of, until
from support.workers import PLAN
from tugtool.plan import fingerprint
from tugtool.store.sqlite import file as marks

COMPANIONS = ("", "-wal", "-shm")
#: Ten times what is done before the loss.
STEPS = 150


class Scene:
    """A repository, a plan of many steps, workers on it, and their ledger."""

    def __init__(self, repo: Repo, crew: Crew) -> None:
        self.path, self.crew = repo.path, crew
        repo.plan("race", plan_of(STEPS))
        repo.commit({".tugtool/config.toml": "[state]\nbusy_seconds = 30\n"})
        self.database = self.path / ".tugtool" / "state.db"
        self.copies = self.path / ".git" / "tugtool"
        self.backup = self.copies / "backup.db"
        self.ledger = self.path / ".git" / "ledger"
        self.ledger.touch()
        assert self.run("init", "race").status == 0
        self.older = self.path / ".git" / "older.db"

    def run(self, *words: str) -> Answer:
        return run(self.path, "state", *words)

    def go(self) -> None:
        """Start workers, and keep an older copy once they have done something."""
        hash = fingerprint.of((self.path / PLAN).read_bytes())
        about = {"url": f"sqlite://{self.database}", "copies": str(self.copies), "hash": hash}
        for n in range(3):
            self.crew.add("carry_on", **about, log=str(self.ledger), owner=f"w{n}")
        self.crew.open()
        self.wait_for(5)
        source, target = sqlite3.connect(self.database), sqlite3.connect(self.older)
        source.backup(target)
        target.execute("pragma journal_mode = wal")
        target.close()
        source.close()

    def acknowledged(self) -> set[str]:
        return set(self.ledger.read_text().split())

    def wait_for(self, more: int) -> None:
        enough = len(self.acknowledged()) + more
        until(lambda: len(self.acknowledged()) >= enough, seconds=60)

    def back_up(self) -> set[str]:
        """Let a worker make a backup; what had been acknowledged before."""
        before, was = self.acknowledged(), self.backup.stat().st_ino
        os.utime(self.backup, (0, 0))
        until(lambda: self.backup.stat().st_ino != was, seconds=60)
        return before

    def completed(self) -> set[str]:
        answer = self.run("show", "race")
        assert answer.status == 0, answer.message
        steps = answer.data["steps"]
        return {step["anchor"] for step in steps if step["status"] == "completed"}


@pytest.fixture
def scene(repo) -> Iterator[Scene]:
    crew = Crew()
    yield Scene(repo, crew)
    crew.end()


def _deleted(scene: Scene) -> None:
    for end in COMPANIONS:
        Path(f"{scene.database}{end}").unlink(missing_ok=True)


def _only_its_log_left(scene: Scene) -> None:
    scene.database.unlink()


def _cleaned(scene: Scene) -> None:
    subprocess.run(["git", "clean", "-fdxq"], cwd=scene.path, check=True)
    assert not scene.database.exists()


def _directory_gone(scene: Scene) -> None:
    # Somebody may just be making a file in it.
    while (scene.path / ".tugtool").exists():
        shutil.rmtree(scene.path / ".tugtool", ignore_errors=True)


def _truncated(size: Callable[[int], int]) -> Callable[[Scene], None]:
    def truncate(scene: Scene) -> None:
        os.truncate(scene.database, size(scene.database.stat().st_size))

    return truncate


def _overwritten(content: bytes) -> Callable[[Scene], None]:
    return lambda scene: scene.database.write_bytes(content * 50_000)


def _another_tools(scene: Scene) -> None:
    other = scene.path / ".git" / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("create table theirs (x)")
    connection.close()
    scene.database.write_bytes(other.read_bytes())


def _older_renamed(scene: Scene) -> None:
    os.rename(scene.older, scene.database)


def _older_renamed_without_log(scene: Scene) -> None:
    _deleted(scene)
    os.rename(scene.older, scene.database)


def _older_copied(scene: Scene) -> None:
    scene.database.write_bytes(scene.older.read_bytes())


def _older_copied_without_log(scene: Scene) -> None:
    _deleted(scene)
    shutil.copyfile(scene.older, scene.database)


WAYS = {
    "deleted": _deleted,
    "only its log left": _only_its_log_left,
    "git clean -fdx": _cleaned,
    "its directory gone": _directory_gone,
    "truncated to nothing": _truncated(lambda size: 0),
    "truncated to a page": _truncated(lambda size: 4096),
    "truncated to half": _truncated(lambda size: size // 2),
    "overwritten with garbage": _overwritten(b"garbage!"),
    "overwritten with zeros": _overwritten(bytes(8)),
    "overwritten with another tool's": _another_tools,
    "an older copy renamed over it": _older_renamed,
    "an older copy renamed over it, its log gone": _older_renamed_without_log,
    "an older copy written over it": _older_copied,
    "an older copy written over it, its log gone": _older_copied_without_log,
}
#: Where nothing of the database is left that could be read.
CERTAIN = {
    "deleted",
    "only its log left",
    "git clean -fdx",
    "its directory gone",
    "truncated to nothing",
    "an older copy renamed over it, its log gone",
    "an older copy written over it, its log gone",
}


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("way", sampled(WAYS, 1))
def test_nothing_that_was_backed_up_is_lost_and_what_is_missing_is_named(scene, way):
    scene.go()
    safe = scene.back_up()
    scene.wait_for(5)
    WAYS[way](scene)
    # They stop because they are refused, or because every step is done in what is left.
    # Who is in the midst of a file that is overwritten may read anything, also an older attempt,
    # and then fails.
    torn = {1, 47, 60} if "written" in way else set()
    # Whose file went away in its midst fails as on a broken disk, if another is there by then.
    torn |= {47} if way.startswith("an older copy renamed") and "gone" in way else set()
    assert set(scene.crew.results()) <= {46, 9} | torn
    acknowledged = scene.acknowledged()
    refused = scene.run("show", "race")
    if refused.status == 0:
        assert way not in CERTAIN
        assert acknowledged <= scene.completed()
        return
    assert refused.codes == ["E046"]
    assert "tugcode restore" in refused.hint
    if way in CERTAIN:
        assert scene.run("show").codes == scene.run("claim").codes == ["E046"]
    told = scene.run("restore").data
    there = scene.completed()
    assert safe <= there
    lost = {row["step_anchor"] for row in told["lost_steps"]}
    assert acknowledged - there <= lost
    assert there.isdisjoint(lost)
    assert told["set_aside"]
    subprocess.run(["git", "checkout", "-q", "."], cwd=scene.path, check=True)
    assert scene.run("claim", "race").data["attempt"] > 100


def test_a_lost_database_is_restored_by_init_which_says_so(scene):
    scene.go()
    safe = scene.back_up()
    scene.wait_for(5)
    _cleaned(scene)
    assert set(scene.crew.results()) <= {46, 9}
    answer = scene.run("init", "race")
    assert answer.data["restored_from_backup"]
    assert answer.data["already_initialized"]
    assert answer.codes == ["W103"]
    assert "Missing: " in answer.message
    there = scene.completed()
    assert safe <= there
    assert scene.acknowledged() - there
    assert not scene.run("init", "race").data["restored_from_backup"]


def test_the_mark_is_moved_by_every_change(scene):
    """Or an older copy would go unnoticed where only claims are missing."""
    mark = str(scene.copies / "mark")
    before, _ = marks.read_mark(mark)
    assert scene.run("claim", "race").data["claimed"]
    assert marks.read_mark(mark)[0] == before + 1
