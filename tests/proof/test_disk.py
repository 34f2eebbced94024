"""A disk that is full or read-only: said with a code, nothing acknowledged is lost, it passes.

On real file systems of a few KiB, in memory. In a container that lets nobody mount anything,
a limit to the size of files stands in for the first of them, and the others are not there.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import mounts
import pytest
from faulting import CLAIM, INIT, Server

from conftest import Repo, hold_against_schemas
from support.commit import IDENTITY
from support.state import markdown

pytestmark = pytest.mark.proof(share=0)

MOUNTED = mounts.possible()
ENOUGH = 64 << 20
PAGE = 4096
SHOW = ("state", "show", "work")
#: What commands say where something cannot be written: the database, or a file.
CODES = {"E046", "E047", "E074"}


def only_mounted(test: Callable[..., None]) -> Callable[..., None] | None:
    """A test that says nothing without a disk of its own."""
    return test if MOUNTED else None


class Disk:
    """A file system of its own at `path`, and commands that run where it can be seen."""

    def __init__(self, path: Path, cwd: Path, size: int) -> None:
        self.path, self.cwd, self.planted = path, cwd, ""
        path.mkdir(parents=True, exist_ok=True)
        #: Where nobody may mount anything: no file may grow beyond most of it.
        self._limit = 0 if MOUNTED else size * 3 // 4
        self._server = Server((lambda: mounts.enter(str(path), size)) if MOUNTED else None)
        self.end = self._server.end
        # The way in from outside.
        self.inside = Path(f"/proc/{self._server.pid}/root{path}") if MOUNTED else path

    def change(self, **how: object) -> None:
        self._limit = 0
        if MOUNTED:
            self._server.run(mount={"directory": str(self.path), **how})

    def run(self, *words: str, cwd: str | None = None) -> "Said":
        about = {"cwd": cwd or str(self.cwd), "planted": self.planted, "limit": self._limit}
        return Said(self._server.run(words=[*words, "--json"], **about))

    def program(self, *argv: str, cwd: str | None = None) -> str:
        done = self._server.run(argv=argv, cwd=cwd or str(self.cwd))
        assert done["status"] == 0, done
        return done["out"]

    def fill(self, left: int = 0) -> None:
        """Leave room for so many pages."""
        filler = self.inside / "filler"
        with filler.open("wb", buffering=0) as file:
            while _fits(file.write):
                pass
        os.truncate(filler, max(0, filler.stat().st_size - left * PAGE))

    def free(self) -> None:
        (self.inside / "filler").unlink()


def _fits(write: Callable[[bytes], int]) -> bool:
    try:
        return write(bytes(PAGE)) == PAGE
    except OSError:
        return False


class Said:
    """An answer that has its form."""

    def __init__(self, done: dict) -> None:
        assert done["status"] in (0, 1), done
        assert "Traceback" not in done["err"], done
        envelope = json.loads(done["out"])
        hold_against_schemas(envelope)
        self.ok, self.data, self.err = done["status"] == 0, envelope["data"], done["err"]
        errors = [each for each in envelope["issues"] if each["severity"] == "error"]
        self.codes = {each["code"] for each in errors}
        assert all(each.get("hint") for each in errors), envelope
        if not self.ok:
            assert self.codes, envelope


@pytest.fixture
def disk(tmp_path) -> Iterator[Callable[..., Disk]]:
    """Make a repository with the plan `work`, in which something lies on a disk of its own."""
    made: list[Disk] = []

    def make(size: int, where: str = ".tugtool") -> Disk:
        repo = Repo.init(tmp_path / "repo")
        made.append(Disk(repo.path / where, repo.path, size))
        if where == ".tugtool":
            (made[-1].inside / "tugplan-work.md").write_text(markdown("1 tt", "2 t < 1"))
        else:
            repo.plan("work", markdown("1 tt", "2 t < 1"))
        return made[-1]

    yield make
    for each in made:
        each.end()


def _note(disk: Disk, text: str) -> Said:
    words = ("state", "artifact", "work", "step-1", "--kind", "note", "--summary", text)
    return disk.run(*words, "--content-file", str(disk.cwd / "content"))


def _notes(disk: Disk) -> list[str]:
    shown = disk.run(*SHOW)
    assert shown.ok, shown.codes
    return [each["summary"] for each in shown.data["steps"][0]["artifacts"]]


@pytest.mark.parametrize("size", [1 << 20, 768 << 10])
def test_a_disk_that_fills_up_loses_nothing_that_was_acknowledged(disk, size):
    _write_until_it_is_full(disk(size))


@pytest.mark.parametrize("planted", ["deaf", "untranslated"])
def test_the_proof_notices_a_fault(disk, planted):
    disk = disk(768 << 10)
    disk.planted = planted
    with pytest.raises(AssertionError):
        _write_until_it_is_full(disk)


def _write_until_it_is_full(disk: Disk) -> None:
    (disk.cwd / "content").write_text("x" * 60_000)
    for words in (INIT, CLAIM):
        assert disk.run(*words).ok
    acknowledged: list[str] = []
    while (said := _note(disk, f"note {len(acknowledged)}")).ok:
        acknowledged.append(f"note {len(acknowledged)}")
        assert len(acknowledged) < 30
    assert said.codes <= CODES
    assert acknowledged
    # Reading goes on, and says what was acknowledged; also after one more try.
    assert _notes(disk) == acknowledged
    assert not _note(disk, "again").ok
    assert _notes(disk) == acknowledged
    disk.change(size=ENOUGH)
    assert _note(disk, "later").ok
    assert _notes(disk) == [*acknowledged, "later"]


@pytest.mark.parametrize("size", [PAGE, 64 << 10, 256 << 10])
def test_a_database_for_which_there_is_no_room_is_made_when_there_is(disk, size):
    disk = disk(size)
    said = disk.run(*INIT)
    if not said.ok:
        assert said.codes <= CODES
        assert disk.run(*CLAIM).codes <= {"E063", *CODES}
    disk.change(size=ENOUGH)
    assert disk.run(*INIT).ok
    assert disk.run(*CLAIM).data["anchor"] == "step-1"
    assert sorted(path.name for path in disk.inside.iterdir()) == [
        *("state.db", "state.db-shm", "state.db-wal", "state.lock", "tugplan-work.md"),
    ]


@only_mounted
def test_a_backup_for_which_there_is_no_room_is_told_and_left_out(disk):
    disk = disk(2 * PAGE, ".git/tugtool")
    for words in (INIT, CLAIM):
        assert disk.run(*words).ok
    done = disk.run("state", "complete", "work", "step-1", "--force", "--reason", "x")
    assert done.ok
    assert {path.name for path in disk.inside.iterdir()} <= {"mark"}
    disk.change(size=ENOUGH)
    assert disk.run(*CLAIM).ok
    assert disk.run("state", "complete", "work", "step-2", "--force", "--reason", "x").ok
    assert {path.name for path in disk.inside.iterdir()} == {"mark", "backup.db"}


@only_mounted
def test_on_a_disk_that_became_read_only_one_may_look_and_not_write(disk):
    disk = disk(ENOUGH)
    for words in (INIT, CLAIM):
        assert disk.run(*words).ok
    disk.change(read_only=True)
    # Commands leave the log and what they share behind, so that reading needs no writing.
    assert disk.run(*SHOW).data["steps"][0]["status"] == "claimed"
    assert disk.run("state", "start", "work", "step-1").codes <= {"E046"}
    disk.change(read_only=False)
    assert disk.run("state", "start", "work", "step-1").ok
    assert disk.run(*SHOW).data["steps"][0]["status"] == "in_progress"


#: Pages: from nothing at all to enough for all but the last word.
LEFT = (0, 3, 12, 25)


@only_mounted
def test_a_commit_on_a_full_disk_happens_once_there_is_room(tmp_path, monkeypatch):
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    disk = Disk(tmp_path / "disk", tmp_path / "disk", ENOUGH)
    try:
        _commit_with_little_room(disk)
    finally:
        disk.end()


def _commit_with_little_room(disk: Disk) -> None:
    disk.program("git", "init", "--quiet", "--initial-branch=main", "--template=")
    (disk.inside / ".tugtool").mkdir()
    steps = [f"{n} t" for n in range(1, len(LEFT) + 1)]
    (disk.inside / ".tugtool" / "tugplan-work.md").write_text(markdown(*steps))
    assert disk.run("init").ok
    disk.program("git", "add", "--all")
    disk.program("git", "commit", "--quiet", "--message=plan")
    assert disk.run(*INIT).ok
    tree = disk.run("worktree", "create", "work").data["worktree_path"]
    refused = 0
    for n, left in enumerate(LEFT, 1):
        refused += not _commit_one(disk, tree, f"step-{n}", left)
        log = disk.program("git", "log", "--format=%s", cwd=tree).split("\n")
        assert log.count(f"did step-{n}") == 1
        assert disk.program("git", "status", "--porcelain", cwd=tree) == ""
    disk.program("git", "fsck", "--strict")
    assert refused


def _commit_one(disk: Disk, tree: str, step: str, left: int) -> bool:
    """Do a step and commit it, if need be once more; whether the first time was enough."""
    assert disk.run("state", "claim", "work", "--step", step, cwd=tree).ok
    (disk.inside / Path(tree).relative_to(disk.path) / step).write_text(step * 5000)
    assert disk.run("state", "update", "work", step, "--all", "completed", cwd=tree).ok
    words = ("commit", "--plan", "work", "--step", step, "--message", f"did {step}")
    disk.fill(left)
    first = disk.run(*words, cwd=tree)
    shown = disk.run(*SHOW, cwd=tree)
    disk.free()
    again = disk.run(*words, cwd=tree)
    assert again.ok, again.codes
    if shown.ok and first.ok:
        done = {each["anchor"] for each in shown.data["steps"] if each["status"] == "completed"}
        assert (step in done) is not first.data["state_update_failed"]
    return first.ok
