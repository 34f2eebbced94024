"""What commands say when the database is in trouble, that nothing is lost, and that it passes.

Trouble is met by real processes of the command, as people and agents meet it.
"""

import json
import os
import resource
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Repo, hold_against_schemas
from support.implement import unprivileged
from support.racing import Crew, command, inside, plan_of
from support.workers import PLAN
from tugtool.store import schema

LINUX = sys.platform == "linux"
CLAIM = ("state", "claim", "race", "--worktree", "other")
SHOW = ("state", "show", "race")
INIT = ("state", "init", "race")


class Answer:
    """What a process of the command said: exit status, codes, message, hint, data."""

    def __init__(self, status: int, out: str) -> None:
        envelope = json.loads(out)
        hold_against_schemas(envelope)
        self.status, self.data = status, envelope["data"]
        self.codes = [issue["code"] for issue in envelope["issues"]]
        self.message = "".join(issue["message"] for issue in envelope["issues"])
        self.hint = "".join(issue.get("hint", "") for issue in envelope["issues"])


def run(cwd: Path, *words: str, **options: object) -> Answer:
    """Run one command to its end."""
    process = command(cwd, *words, **options)
    out, _ = process.communicate()
    return Answer(process.returncode, out)


def _make(path: Path) -> None:
    """A repository with a plan of 3 steps and one claim."""
    Repo.init(path).plan("race", plan_of(3))
    (path / ".tugtool" / "config.toml").write_text("[state]\nbusy_seconds = 1\n")
    assert run(path, *INIT).status == 0
    assert run(path, "state", "claim", "race", "--worktree", "first").data["claimed"]


@pytest.fixture
def place(tmp_path, templates) -> Iterator[Path]:
    """The same, made once and copied."""
    path = tmp_path / "place"
    templates.get(("place",), None, _make).write(path)
    yield path
    (path / ".tugtool").chmod(0o755)


@pytest.fixture
def here(place, tugcode) -> Callable[..., Answer]:
    """Run one command in this process."""

    def run_here(*words: str) -> Answer:
        done = tugcode("-C", place, *words, "--json")
        return Answer(done.status, done.out)

    return run_here


@pytest.fixture
def works(here) -> Callable[[], None]:
    """Nothing was lost, and the next step can be claimed."""

    def judge() -> None:
        assert _owners(here(*SHOW)) == ["first", None, None]
        assert here(*CLAIM).data["anchor"] == "step-1"
        assert _owners(here(*SHOW)) == ["first", "other", None]

    return judge


@pytest.fixture
def crew() -> Iterator[Crew]:
    """Processes that end with the test."""
    crew = Crew()
    yield crew
    crew.end()


def _database(place: Path) -> Path:
    return place / ".tugtool" / "state.db"


def _owners(answer: Answer) -> list[str | None]:
    names = [step["claimed_by"] for step in answer.data["steps"]]
    return [name and os.path.basename(name) for name in names]


def _is_refused(answer: Answer, code: str, word: str = "") -> None:
    assert (answer.status, answer.codes) == (1, [code]), answer.message
    assert word in answer.message


def test_a_lock_of_another_program_is_an_error_that_names_it(place, works, crew):
    reader = sqlite3.connect(_database(place), isolation_level=None)
    reader.execute("begin")
    reader.execute("select * from plans").fetchone()
    other = crew.add("foreign", path=str(_database(place)))
    crew.open()
    inside(other)
    name = f"is locked by process {other.pid} for over 1 s" if LINUX else "another program"
    _is_refused(run(place, *CLAIM), "E047", name)
    assert _owners(run(place, *SHOW)) == ["first", None, None]
    other.communicate()
    reader.close()
    works()


def test_a_stopped_holder_is_an_error_that_names_it_and_readers_go_on(place, works, crew):
    holder = crew.add("hold_until_told", url=f"sqlite://{_database(place)}")
    crew.open()
    inside(holder)
    os.kill(holder.pid, signal.SIGSTOP)
    os.waitpid(holder.pid, os.WUNTRACED)
    stopped = ", which is stopped" if LINUX else ""
    _is_refused(run(place, *CLAIM), "E047", f"is held by process {holder.pid}{stopped}")
    assert _owners(run(place, *SHOW)) == ["first", None, None]
    os.kill(holder.pid, signal.SIGCONT)
    holder.communicate()
    assert run(place, "state", "resume", "race").data["changed"]
    works()


def _as_somebody(place: Path, *words: str) -> Answer:
    """Run one command to its end, held back by modes as anybody is."""
    return run(place, *words, preexec_fn=unprivileged)


def _set_modes(place: Path, *, directory: int, files: int) -> None:
    for path in (place / ".tugtool").glob("state.*"):
        path.chmod(files)
    (place / ".tugtool").chmod(directory)


def test_where_nothing_may_be_written_reading_still_works(place, works):
    _set_modes(place, directory=0o555, files=0o444)
    _is_refused(_as_somebody(place, *CLAIM), "E046", "state.lock cannot be opened: permission")
    assert _owners(_as_somebody(place, *SHOW)) == ["first", None, None]
    _set_modes(place, directory=0o755, files=0o644)
    works()


def test_a_database_that_alone_is_read_only_is_an_error_for_writers(place, works):
    _set_modes(place, directory=0o777, files=0o666)
    _database(place).chmod(0o444)
    _is_refused(_as_somebody(place, *CLAIM), "E046", "readonly")
    assert _owners(_as_somebody(place, *SHOW)) == ["first", None, None]
    _database(place).chmod(0o644)
    works()


@pytest.mark.parametrize(("directory", "files"), [(0o755, 0o000), (0o000, 0o644)])
def test_without_permission_every_command_says_so(place, works, directory, files):
    _set_modes(place, directory=directory, files=files)
    _is_refused(_as_somebody(place, "state", "show"), "E046", "open")
    _is_refused(_as_somebody(place, "state", "claim"), "E046", "open")
    (place / ".tugtool").chmod(0o755)
    _set_modes(place, directory=0o755, files=0o644)
    works()


def _full(most: int) -> Callable[[], None]:
    """As on a full disk: no file may grow beyond. Python ignores the signal; writes fail."""
    limits = most, resource.RLIM_INFINITY
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_on_a_full_disk_nothing_is_claimed_and_reading_still_works(place, works):
    shutil.rmtree(place)
    _make(place)
    # Room for what readers share, which they make anew; not for one more page of the log.
    assert Path(f"{_database(place)}-wal").stat().st_size > 1 << 16
    _is_refused(run(place, *CLAIM, preexec_fn=_full(1 << 16)), "E047", "refused a statement")
    assert _owners(run(place, *SHOW, preexec_fn=_full(1 << 16))) == ["first", None, None]
    works()


def test_a_database_that_finds_no_room_is_made_when_there_is(place):
    _remove(place)
    (place / ".tugtool" / "state.lock").unlink()
    answer = run(place, *INIT, preexec_fn=_full(0))
    _is_refused(answer, "E047")
    _is_refused(run(place, *CLAIM), "E063")
    assert run(place, *INIT).data["steps_created"] == 3
    assert run(place, *CLAIM).data["anchor"] == "step-0"


def _remove(place: Path) -> None:
    """The database and its backup: what is lost for good. The rest is in test_backup.py."""
    for end in ("", "-wal", "-shm"):
        Path(f"{_database(place)}{end}").unlink(missing_ok=True)
    (place / ".git" / "tugtool" / "backup.db").unlink(missing_ok=True)


def _spoil(place: Path, how: str) -> bytes:
    path = _database(place)
    with sqlite3.connect(path) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
        if how == "newer":
            connection.execute(f"pragma user_version = {schema.VERSION + 1}")
    connection.close()
    whole = path.read_bytes()
    _remove(place)
    if how == "another tool's":
        with sqlite3.connect(path) as connection:
            connection.execute("create table ours (x)")
        connection.close()
        return path.read_bytes()
    texts = {"no database": b"hello\n" * 999, "truncated": whole[:5000], "newer": whole}
    path.write_bytes(texts[how])
    return texts[how]


@pytest.mark.parametrize(
    ("how", "code"),
    [("no database", "E046"), ("truncated", "E046"), ("another tool's", "E046"), ("newer", "E065")],
)
def test_a_file_that_is_not_ours_is_refused_by_every_command_and_left_alone(place, here, how, code):
    content = _spoil(place, how)
    for words in (CLAIM, SHOW, INIT, ("state", "claim"), ("state", "show")):
        _is_refused(here(*words), code, str(_database(place)))
        assert _database(place).read_bytes() == content
    _remove(place)
    assert run(place, *INIT).data["steps_created"] == 3
    assert run(place, *CLAIM).data["anchor"] == "step-0"


def test_a_file_of_no_length_is_no_state_yet(place):
    _remove(place)
    _database(place).touch()
    _is_refused(run(place, *CLAIM), "E063")
    assert run(place, "state", "show").data == {"plans": []}
    assert run(place, *INIT).data["steps_created"] == 3


def test_a_database_deleted_under_a_waiting_claim_ends_the_wait(place):
    for n in range(2):
        assert run(place, *CLAIM[:-1], f"more-{n}").data["claimed"]
    waiting = command(place, *CLAIM, "--wait", "600")
    _remove(place)
    out, _ = waiting.communicate()
    answer = Answer(waiting.returncode, out)
    # E063 if it had not even looked when the file went.
    assert (answer.status, answer.codes) in [(1, ["E046"]), (1, ["E063"])]
    assert not _database(place).exists()
    assert run(place, *INIT).data["steps_created"] == 3


@pytest.mark.parametrize("kind", ["directory", "symlink", "pipe"])
def test_something_else_in_the_place_of_the_lock_stops_writers_only(place, works, kind):
    lock = place / ".tugtool" / "state.lock"
    lock.unlink()
    make = {"directory": lock.mkdir, "pipe": lambda: os.mkfifo(lock)}
    make.get(kind, lambda: lock.symlink_to("/nonexistent/elsewhere"))()
    _is_refused(run(place, *CLAIM), "E046", "state.lock cannot be opened")
    assert _owners(run(place, *SHOW)) == ["first", None, None]
    lock.rmdir() if kind == "directory" else lock.unlink()
    works()


def test_a_directory_in_the_place_of_the_database_is_refused(place, here):
    _remove(place)
    _database(place).mkdir()
    for words in (CLAIM, SHOW, INIT):
        _is_refused(here(*words), "E046")
    _database(place).rmdir()
    assert run(place, *INIT).data["steps_created"] == 3


def test_without_its_directory_there_is_no_state(place, works):
    (place / ".git" / "tugtool" / "backup.db").unlink()
    os.rename(place / ".tugtool", place / "away")
    _is_refused(run(place, "state", "claim"), "E063")
    assert run(place, "state", "show").data == {"plans": []}
    assert not (place / ".tugtool").exists()
    os.rename(place / "away", place / ".tugtool")
    works()


def test_an_older_database_is_migrated_by_a_writing_command_only(place, works):
    """A version that never was, because there is only one; the refusal is what matters."""
    with sqlite3.connect(_database(place)) as connection:
        connection.execute(f"pragma user_version = {schema.FIRST_VERSION - 1}")
    connection.close()
    _is_refused(run(place, *SHOW), "E046", "never existed")
    _is_refused(run(place, *CLAIM), "E046", "never existed")
    with sqlite3.connect(_database(place)) as connection:
        connection.execute(f"pragma user_version = {schema.VERSION}")
    connection.close()
    works()


def test_the_plan_of_these_tests_is_the_plan_of_the_workers(place):
    assert run(place, *SHOW).data["plan_path"] == PLAN
