"""N: a large record is backed up while no worker waits, and signs of life do not fill its log."""

import contextlib
import os
import sqlite3
import sys
from pathlib import Path

import pytest

from support.racing import prepared
from support.state import KEY, Lab
from support.workers import PLAN
from tugtool import state
from tugtool.store import back_up, open_store
from tugtool.store.sqlite import SqliteTransaction, backup, health
from tugtool.system import clock

FORCED = ("--force", "--reason", "x")


def _age(path: Path, seconds: float = 61) -> None:
    when = path.stat().st_mtime - seconds
    os.utime(path, (when, when))


def _last(path: Path) -> int:
    """The number of the last event in a backup; 0 if there is none yet."""
    return health.number_in(str(path)) if path.exists() else 0


# -- no worker waits ---------------------------------------------------------------------


class Gate:
    """Stands in for Python: what is started with it waits until the gate is opened."""

    def __init__(self, directory: Path, monkeypatch) -> None:
        self._fifo, program = directory / "gate", directory / "python"
        os.mkfifo(self._fifo)
        program.write_text(f'#!/bin/sh\nread -r _ <"{self._fifo}"\nexec "{sys.executable}" "$@"\n')
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))

    def open(self) -> None:
        with open(self._fifo, "w") as file:
            file.write("go\n")


@pytest.fixture
def gate(monkeypatch, tmp_path, repo):
    """From when it is called, databases are large, and who makes a backup waits at the gate."""

    def make() -> Gate:
        monkeypatch.setattr(backup, "LARGE_BYTES", 1)
        return Gate(tmp_path, monkeypatch)

    # What is made elsewhere and copied would be backed up elsewhere.
    repo.live()
    return make


def _number(url: str) -> int:
    store = open_store(url)
    with store.read() as tx:
        number = tx.value("select max(seq) from events")
    store.close()
    return number


def _comes(path: Path, number: int) -> bool:
    return any(_last(path) >= number for _ in clock.tries(30))


def test_a_completion_does_not_wait_for_the_backup(desk, gate):
    work = desk("1 t", "2 t")
    kept = work.repo.path / ".git" / "tugtool" / "backup.db"
    _age(kept)
    before, closed = kept.read_bytes(), gate()
    work.ok("claim", "work")
    work.ok("complete", "work", "step-1", *FORCED)
    # It has answered and ended, and the backup has not even begun.
    assert kept.read_bytes() == before
    closed.open()
    assert _comes(kept, _number(work.url))


def test_no_worker_of_a_run_waits_for_the_backup(play, gate):
    p = play("1", "2 < 1")
    closed = gate()
    status, _ = p.run()
    assert status == 0
    kept = p.root / ".git" / "tugtool" / "backup.db"
    assert not kept.exists()
    closed.open()
    assert _comes(kept, 1)


# -- what is looked at -------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    made, _ = prepared(tmp_path / "state.db", 3)
    made.close()
    made = open_store(f"sqlite://{tmp_path}/state.db", copies=str(tmp_path / "copies"))
    yield made
    made.close()


def test_a_look_at_the_whole_record_holds_one_row_at_a_time(store, monkeypatch):
    monkeypatch.setattr(SqliteTransaction, "all", None)
    assert health.damage_of(store) == []
    assert health.is_whole(store)


def test_a_large_backup_is_looked_through_once_in_so_many(store, monkeypatch, tmp_path):
    monkeypatch.setattr(backup, "LARGE_BYTES", 1)
    monkeypatch.setattr(backup, "_COMPARED", 0)
    monkeypatch.setattr(backup, "CHECK_EVERY", 3)
    kept, checked = (tmp_path / "copies" / name for name in ("backup.db", backup.CHECKED))
    assert store.back_up() is None
    assert kept.samefile(checked)
    # An old event is damaged, as only a look at all of them finds.
    _execute(store, "update events set at = 'damaged' where seq = 1")
    state.pause(store, PLAN)
    _age(kept)
    assert store.back_up() is None
    assert not kept.samefile(checked)
    assert _last(kept) > _last(checked)
    # A new one is found at once.
    state.resume(store, PLAN)
    _execute(store, "update events set at = 'damaged' where seq = (select max(seq) from events)")
    _age(kept)
    assert "events has a row that breaks" in str(store.back_up())
    # It was not a backup, and does not count as one.
    _execute(store, "delete from events where seq = (select max(seq) from events)")
    assert store.back_up() is None
    _age(kept)
    assert "events has a row that breaks" in str(store.back_up())
    # The last one that was looked through is still there, and whole.
    assert health.is_sound(str(checked))
    with health.open_copy(str(checked)) as connection:
        assert connection.execute("select at from events where seq = 1").fetchone()[0] != "damaged"


def test_a_backup_that_cannot_be_read_is_looked_through_and_replaced(store, monkeypatch, tmp_path):
    monkeypatch.setattr(backup, "LARGE_BYTES", 1)
    kept = tmp_path / "copies" / "backup.db"
    assert store.back_up() is None
    kept.unlink()
    kept.write_bytes(b"no database")
    _age(kept)
    assert "was damaged; it is kept as" in store.back_up()
    assert health.is_sound(str(kept))


def test_a_record_that_has_become_small_needs_no_second_name(store, monkeypatch, tmp_path):
    kept, checked = (tmp_path / "copies" / name for name in ("backup.db", backup.CHECKED))
    with monkeypatch.context() as patch:
        patch.setattr(backup, "LARGE_BYTES", 1)
        assert store.back_up() is None
    assert checked.exists()
    _age(kept)
    assert back_up(store) is None
    assert not checked.exists()


def _execute(store, statement: str) -> None:
    connection = sqlite3.connect(store.path, isolation_level=None)
    connection.execute("pragma ignore_check_constraints = on")
    connection.execute(statement)
    connection.close()


# -- signs of life -----------------------------------------------------------------------


@pytest.fixture
def beating(tmp_path):
    """A plan of two steps: of each a first attempt with many signs of life, hours ago."""
    lab = Lab(tmp_path, "1 t", "1.1 t", "2 t")
    lab.store.close()
    lab.store = open_store(lab.url, clock=lab.clock, copies=str(tmp_path / "copies"))
    for owner, step in (("red", "step-1"), ("blue", "step-2")):
        lab.claim(owner, step)
        lab.start(step, owner)
    for _ in range(10):
        lab.clock.advance(60)
        lab.beat("step-1")
        lab.beat("step-2", "blue")
    lab.beat("step-1", lease_seconds=900)
    lab.beat("step-1-1")
    lab.release("step-2", "blue")
    lab.clock.advance(600)
    yield lab
    lab.store.close()


def _beats(lab: Lab) -> list[str]:
    return [row["step_anchor"] for row in lab.dump()["events"] if row["kind"] == "heartbeat"]


def test_an_hour_later_the_last_sign_of_life_of_an_attempt_is_left(beating):
    lab, kept = beating, Path(beating.store.backup)
    told = len(_beats(lab))
    assert lab.store.back_up() is None
    assert len(_beats(lab)) == told == 22
    lab.clock.advance(backup.FULL_LOG_SECONDS)
    before = lab.rows("select * from steps"), lab.rows("select * from attempts")
    stats = state.stats(lab.store, KEY)
    _age(kept)
    assert lab.store.back_up() is None
    # Also that which asked for another lease.
    assert _beats(lab) == ["step-2", "step-1", "step-1-1"]
    assert (lab.rows("select * from steps"), lab.rows("select * from attempts")) == before
    assert state.stats(lab.store, KEY) == stats
    # The backup has what was taken from the log, and that is no loss.
    _age(kept)
    assert lab.store.back_up() is None
    assert health.is_whole(lab.store)
    last = [event["kind"] for event in state.log(lab.store, KEY)["events"]]
    assert last.count("heartbeat") == 3


def test_a_recent_sign_of_life_stays(beating):
    lab = beating
    lab.clock.advance(backup.FULL_LOG_SECONDS)
    lab.claim("blue", "step-2")
    for _ in range(3):
        lab.beat("step-2", "blue")
    backup.thin(lab.store)
    assert _beats(lab) == ["step-2", "step-1", "step-1-1", "step-2", "step-2", "step-2"]


def test_others_come_in_between_when_many_are_dropped(beating, monkeypatch):
    lab, held = beating, []
    lab.clock.advance(backup.FULL_LOG_SECONDS)
    monkeypatch.setattr(backup, "_DROPPED_AT_ONCE", 4)
    monkeypatch.setattr(backup, "_MOST_DROPPED", 9)
    many = SqliteTransaction.many

    def seen(tx, statement, rows):
        held.append(len(rows))
        many(tx, statement, rows)

    monkeypatch.setattr(SqliteTransaction, "many", seen)
    backup.thin(lab.store)
    assert held == [4, 4, 1]
    assert len(_beats(lab)) == 22 - 9


def test_a_backup_with_a_page_that_nothing_leads_to_is_not_sound(store, tmp_path):
    assert store.back_up() is None
    kept = str(tmp_path / "copies" / "backup.db")
    assert health.is_sound(kept)
    connection = sqlite3.connect(kept, isolation_level=None)
    connection.execute("pragma writable_schema = on")
    connection.execute("delete from sqlite_master where name = 'steps_ready'")
    connection.close()
    assert not health.is_sound(kept)


def test_a_large_backup_of_a_newer_tugtool_is_left_alone(store, monkeypatch, tmp_path):
    assert store.back_up() is None
    kept = tmp_path / "copies" / "backup.db"
    with contextlib.closing(sqlite3.connect(kept, isolation_level=None)) as connection:
        connection.execute("pragma user_version = 999")
    before = kept.read_bytes()
    monkeypatch.setattr(backup, "LARGE_BYTES", 1)
    state.pause(store, PLAN)
    _age(kept)
    assert "made by a newer Tugtool" in str(store.back_up())
    assert kept.read_bytes() == before


def test_a_large_backup_that_is_ahead_stands_in_the_way_only_if_it_is_sound(
    store, monkeypatch, tmp_path
):
    state.pause(store, PLAN)
    assert store.back_up() is None
    kept = tmp_path / "copies" / "backup.db"
    monkeypatch.setattr(backup, "LARGE_BYTES", 1)
    _execute(store, "delete from events where seq = (select max(seq) from events)")
    _age(kept)
    assert "holds" in str(store.back_up())
    with contextlib.closing(sqlite3.connect(kept, isolation_level=None)) as connection:
        connection.execute("pragma writable_schema = on")
        connection.execute("delete from sqlite_master where name = 'steps_ready'")
    _age(kept)
    assert "was damaged; it is kept as" in str(store.back_up())
