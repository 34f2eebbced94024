"""When a backup is made, that nothing bad takes its place, and that it is in nobody's way."""

import os
import resource
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from support.racing import Crew, prepared
from support.workers import COPY, PLAN
from tugtool import state
from tugtool.state.claims import Request
from tugtool.store import open_store
from tugtool.store.sqlite import file as marks
from tugtool.store.sqlite import health

FORCED = ("--force", "--reason", "x")


@pytest.fixture
def crew():
    crew = Crew()
    yield crew
    crew.end()


def _home(desk) -> Path:
    return desk.repo.path / ".git" / "tugtool"


def _backup(desk) -> Path:
    return _home(desk) / "backup.db"


def _database(desk) -> Path:
    return desk.repo.path / ".tugtool" / "state.db"


def _completed(path: Path) -> list[str]:
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    rows = connection.execute("select anchor from steps where status = 'completed' order by 1")
    names = [row[0] for row in rows]
    connection.close()
    return names


def _age(path: Path, seconds: float = -61) -> None:
    when = path.stat().st_mtime + seconds
    os.utime(path, (when, when))


def test_the_place_of_backups_may_be_named_from_where_one_is(tmp_path, monkeypatch):
    prepared(tmp_path / "state.db", 1)[0].close()
    monkeypatch.chdir(tmp_path)
    store = open_store(f"sqlite://{tmp_path}/state.db", copies="copies")
    assert store.back_up() is None
    assert health.is_sound("copies/backup.db")


def _finish(desk, step: str):
    desk.ok("claim", "work", "--step", step)
    return desk.text("complete", "work", step, *FORCED)


def _checkpoint(desk) -> None:
    connection = sqlite3.connect(_database(desk))
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()


def test_a_new_plan_is_backed_up_and_so_is_a_completed_step(desk):
    desk = desk("1", "2")
    assert _completed(_backup(desk)) == []
    _age(_backup(desk))
    assert _finish(desk, "step-1").err == ""
    assert _completed(_backup(desk)) == ["step-1"]
    assert health.is_sound(str(_backup(desk)))
    assert sorted(path.name for path in _home(desk).iterdir()) == ["backup.db", "mark"]


def test_a_step_completed_by_its_commit_is_backed_up(bench):
    desk = bench("1", "2")
    _age(_backup(desk))
    desk.hold("step-1")
    assert desk.commit_text("step-1").err == ""
    assert _completed(_backup(desk)) == ["step-1"]


def test_what_git_has_shown_to_be_completed_is_backed_up_and_known_to_be_lost(work):
    w = work("1", "2")
    _age(_backup(w))
    w.commit(w.branch(), "step-1")
    w.reconcile()
    assert _completed(_backup(w)) == ["step-1"]
    shutil.copy(_backup(w), _home(w) / "older")
    made = w.commit(w.branch(2), "step-2")
    w.reconcile()
    _checkpoint(w)
    for path in _database(w).parent.glob("state.db*"):
        path.unlink()
    shutil.move(_home(w) / "older", _database(w))
    issue = w.run("state", "claim", "work", "--json").envelope()["issues"][0]
    assert issue["code"] == "E046"
    missing = issue["facts"]["missing"]
    assert [(row["step_anchor"], row["commit_hash"]) for row in missing] == [("step-2", made)]


def test_a_backup_is_made_at_most_once_a_minute(desk):
    desk = desk("1", "2", "3")
    _age(_backup(desk), -50)
    _finish(desk, "step-1")
    assert _completed(_backup(desk)) == []
    _age(_backup(desk), -11)
    _finish(desk, "step-2")
    assert _completed(_backup(desk)) == ["step-1", "step-2"]


def test_a_backup_from_the_future_is_an_old_one(desk):
    desk = desk("1")
    _age(_backup(desk), 3600)
    _finish(desk, "step-1")
    assert _completed(_backup(desk)) == ["step-1"]


def test_other_commands_make_no_backup(desk):
    desk = desk("1")
    before = _backup(desk).stat().st_ino
    _age(_backup(desk))
    desk.ok("claim", "work")
    desk.ok("init", "work")
    desk.ok("show")
    assert _backup(desk).stat().st_ino == before


def test_a_backup_has_the_permissions_of_the_database(desk):
    desk = desk("1")
    _database(desk).chmod(0o640)
    _age(_backup(desk))
    _finish(desk, "step-1")
    assert stat.S_IMODE(_backup(desk).stat().st_mode) == 0o640


def test_where_no_backup_can_be_made_the_command_succeeds_and_says_so(desk):
    desk = desk("1", init=False)
    _home(desk).write_text("in the way")
    first = desk.text("init", "work")
    assert first.status == 0
    assert "no backup was made" in first.err
    done = _finish(desk, "step-1")
    assert (done.status, done.out) == (0, "completed step-1; 0 steps remain\n")
    assert "no backup was made" in done.err


def test_without_room_for_a_backup_the_command_succeeds_and_the_old_one_stays(desk):
    desk = desk("1", "2")
    desk.ok("claim", "work")
    before = _backup(desk).read_bytes()
    _age(_backup(desk))
    _checkpoint(desk)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Room for the log's few pages, not for a copy of everything.
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) - 4096, limits[1]))
    try:
        done = desk.text("complete", "work", "step-1", *FORCED)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert done.status == 0
    assert "no backup was made" in done.err
    assert _backup(desk).read_bytes() == before
    assert sorted(path.name for path in _home(desk).iterdir()) == ["backup.db", "mark"]


def _spoil_page(desk, table: str) -> None:
    """Damage that no command comes across for a while."""
    _checkpoint(desk)
    connection = sqlite3.connect(_database(desk))
    query = "select rootpage from sqlite_schema where name = ?"
    page = connection.execute(query, (table,)).fetchone()[0]
    connection.close()
    times = _database(desk).stat().st_mtime_ns
    with _database(desk).open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    # As a failing disk does it: nobody has written to the file.
    os.utime(_database(desk), ns=(times, times))


def test_a_damaged_database_never_takes_the_place_of_a_good_backup(desk):
    desk = desk("1", "2")
    desk.ok("claim", "work")
    before = _backup(desk).read_bytes()
    _age(_backup(desk))
    (_home(desk) / "mark").unlink()
    _spoil_page(desk, "step_artifacts")
    done = desk.text("complete", "work", "step-1", *FORCED)
    assert done.status == 0
    assert "no backup was made" in done.err
    assert _backup(desk).read_bytes() == before


@pytest.mark.parametrize(
    "loss",
    [
        "delete from events where seq = 1",
        "update steps set status = 'pending', completed_at = null where anchor = 'step-1'",
        "update steps set attempt = 0 where anchor = 'step-1'",
    ],
)
def test_a_database_that_lacks_what_the_backup_holds_never_takes_its_place(desk, loss):
    desk = desk("1", "2")
    desk.ok("claim", "work", "--step", "step-1")
    _age(_backup(desk))
    desk.ok("complete", "work", "step-1", *FORCED)
    desk.ok("claim", "work", "--step", "step-2")
    (_home(desk) / "mark").unlink()
    with sqlite3.connect(_database(desk)) as connection:
        connection.execute(loss)
    connection.close()
    before = _backup(desk).read_bytes()
    _age(_backup(desk))
    done = desk.text("complete", "work", "step-2", *FORCED)
    assert done.status == 0
    assert "holds what the database lacks" in done.err
    assert "tugcode restore --dry-run" in done.err
    assert _backup(desk).read_bytes() == before


def test_a_database_that_is_behind_its_backup_never_takes_its_place(desk):
    desk = desk("1")
    with sqlite3.connect(_backup(desk)) as connection:
        connection.execute("update sqlite_sequence set seq = 999 where name = 'events'")
    connection.close()
    before = _backup(desk).read_bytes()
    _age(_backup(desk))
    assert "holds what the database lacks" in _finish(desk, "step-1").err
    assert _backup(desk).read_bytes() == before


def test_what_was_reopened_since_is_no_loss(desk):
    desk = desk("1", "2")
    _finish(desk, "step-1")
    _age(_backup(desk))
    _finish(desk, "step-2")
    assert _completed(_backup(desk)) == ["step-1", "step-2"]
    desk.ok("reopen", "work", "step-1", "--reason", "wrong")
    desk.ok("claim", "work")
    desk.ok("reopen", "work", "step-2", "--reason", "wrong", "--force")
    _age(_backup(desk))
    assert desk.text("complete", "work", "step-1", *FORCED).err == ""
    assert _completed(_backup(desk)) == ["step-1"]


def test_a_damaged_backup_is_set_aside_and_made_anew(desk):
    desk = desk("1")
    _backup(desk).write_bytes(b"no database")
    _age(_backup(desk))
    assert "was damaged; it is kept as" in _finish(desk, "step-1").err
    assert _completed(_backup(desk)) == ["step-1"]
    (aside,) = _home(desk).glob("backup-unsound-*.db")
    assert aside.read_bytes() == b"no database"


def test_a_backup_of_a_newer_tugtool_is_left_alone(desk):
    desk = desk("1")
    with sqlite3.connect(_backup(desk)) as connection:
        connection.execute("pragma user_version = 999")
    connection.close()
    before = _backup(desk).read_bytes()
    _age(_backup(desk))
    assert "made by a newer Tugtool" in _finish(desk, "step-1").err
    assert _backup(desk).read_bytes() == before
    _database(desk).unlink()
    assert desk.json("show").codes == ["E065"]


def test_backups_at_one_moment_leave_one_that_is_sound(tmp_path, crew):
    store, url = prepared(tmp_path / "state.db", 50)
    copies = tmp_path / "copies"
    for _ in range(6):
        crew.add("back_up", url=url, copies=str(copies))
    crew.open()
    assert crew.results() == [None] * 6
    assert health.is_sound(str(copies / "backup.db"))
    assert sorted(path.name for path in copies.iterdir()) == ["backup.db", "mark"]
    store.close()


def test_a_backup_that_is_killed_anywhere_leaves_the_old_one_or_the_new(tmp_path):
    copies = tmp_path / "copies"
    store, url = prepared(tmp_path / "state.db", 3)
    kept = open_store(url, copies=str(copies))
    assert kept.back_up() is None
    state.claim(store, PLAN, Request("me"), copy=COPY)
    state.complete(store, PLAN, "step-0", owner="me", copy=COPY)
    seen = set()
    for at in range(100):
        _age(copies / "backup.db")
        crew = Crew()
        process = crew.add("die", url=url, copies=str(copies), what="back up", at=at)
        crew.open()
        process.communicate()
        crew.end()
        assert health.is_sound(str(copies / "backup.db"))
        seen.add(tuple(_completed(copies / "backup.db")))
        if process.returncode == 0:
            break
    assert process.returncode == 0
    assert at > 4
    assert seen == {(), ("step-0",)}
    assert sorted(path.name for path in copies.iterdir()) == ["backup.db", "mark"]
    store.close()


def test_a_mark_that_says_nothing_is_in_nobodys_way(desk):
    desk = desk("1", "2")
    mark = _home(desk) / "mark"
    good = mark.read_bytes()
    digits = b"9" * 20
    for damage in (b"", b"\0" * 200, b"hello\n", good[:50], digits + good[20:], b"{" * 500):
        mark.write_bytes(damage)
        assert desk.json("show").status == 0
        assert desk.json("claim", "work").status == 0
    number, _ = marks.read_mark(str(mark))
    assert number > 1
    mark.unlink()
    os.mkfifo(mark)
    assert desk.json("show").status == 0
    assert desk.json("claim", "work").status == 0
    mark.unlink()
    mark.mkdir()
    assert _finish(desk, "step-2").status == 0


def test_lines_of_a_mark_that_cannot_be_read_are_passed_over(tmp_path):
    mark = tmp_path / "mark"
    good = '[7, "2026-01-01T00:00:00.000Z", "p", "step-1", null]'
    mark.write_text(f'first\n{good}\n{good}\n[8]\n"x"\n[1, 2\n7\n\n')
    rows = [[7, "2026-01-01T00:00:00.000Z", "p", "step-1", None]]
    assert health.list_backups(str(mark)) == rows
    assert health.list_backups(str(tmp_path / "none")) == []


def test_a_file_that_another_program_wrote_to_soundly_is_fine(desk):
    desk = desk("1", "2")
    desk.ok("claim", "work")
    with sqlite3.connect(_database(desk)) as connection:
        connection.execute("create table notes (x)")
        connection.execute("drop table notes")
    connection.close()
    _checkpoint(desk)
    assert desk.json("show").status == 0
    assert desk.json("complete", "work", "step-1", *FORCED).status == 0


def test_a_file_that_was_written_to_and_lacks_what_is_in_its_backup_is_refused(desk):
    desk = desk("1", "2")
    desk.ok("claim", "work")
    _age(_backup(desk))
    desk.ok("complete", "work", "step-1", *FORCED)
    with sqlite3.connect(_database(desk)) as connection:
        connection.execute("delete from events where seq = 1")
    connection.close()
    _checkpoint(desk)
    for words in (["show"], ["claim", "work"]):
        refused = desk.json(*words)
        assert refused.codes == ["E046"]
        issue = refused.envelope()["issues"][0]
        assert "was overwritten: it lacks what its backup" in issue["message"]
        assert issue["hint"] == "tugcode restore --dry-run"


def test_a_file_that_was_written_to_and_is_damaged_is_refused(desk):
    desk = desk("1", "2")
    desk.ok("claim", "work")
    _spoil_page(desk, "step_artifacts")
    _age(_database(desk), 5)
    refused = desk.json("show")
    assert refused.codes == ["E046"]
    assert refused.envelope()["issues"][0]["hint"] == "tugcode restore --dry-run"


def test_files_that_unfinished_copies_left_are_named_and_no_others(tmp_path):
    left = ("backup.db.partial", "backup.db.partial-wal", "restoring", "state.db-restoring")
    for name in (*left, "backup.db", "state.db-wal"):
        (tmp_path / name).touch()
    assert [Path(each).name for each in health.leftovers(str(tmp_path))] == sorted(left)
    assert list(health.leftovers(str(tmp_path / "none"))) == []
