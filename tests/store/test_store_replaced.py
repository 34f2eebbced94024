"""A file that is deleted or replaced under a store that stays open."""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from support.racing import prepared
from support.workers import PLAN
from tugtool import state
from tugtool.errors.state import DatabaseUnavailable
from tugtool.store import open_store, sql
from tugtool.store.sqlite import file

COMPANIONS = ("", "-wal", "-shm")


@pytest.fixture
def store(tmp_path):
    """A long-lived store with both of its connections open."""
    (tmp_path / "here").mkdir()
    store, _ = prepared(tmp_path / "here" / "state.db", 1)
    with store.read(PLAN) as tx:
        tx.one(sql.PLAN)
    yield store
    store.close()


@pytest.fixture
def other(tmp_path):
    """Another database with the same plan, paused."""
    (tmp_path / "there").mkdir()
    store, _ = prepared(tmp_path / "there" / "state.db", 1)
    state.pause(store, PLAN)
    store.close()
    return store.path


def _delete(path: str) -> None:
    for end in COMPANIONS:
        Path(path + end).unlink(missing_ok=True)


def _put_in_its_place(store, other: str) -> None:
    # Without its log, which SQLite would take for the new one's.
    for end in COMPANIONS[1:]:
        Path(store.path + end).unlink(missing_ok=True)
    os.rename(other, store.path)


def _is_paused(store) -> bool:
    with store.read(PLAN) as tx:
        return tx.one(sql.PLAN)["paused_at"] is not None


def test_a_deleted_database_is_missed_by_the_next_transaction(store):
    _delete(store.path)
    for begin in (store.write(PLAN), store.read(PLAN)):
        with pytest.raises(DatabaseUnavailable, match="unable to open"), begin:
            pass
    assert not os.path.exists(store.path)
    assert not store.exists()


def test_a_deleted_database_can_be_made_again_through_the_same_store(store):
    _delete(store.path)
    store.create()
    with store.read() as tx:
        assert tx.all(sql.PLANS) == []
    assert _plans(store.path) == []


def _plans(path: str) -> list[str]:
    with open_store(f"sqlite://{path}").read() as tx:
        return [row["plan_path"] for row in tx.all(sql.PLANS)]


def test_a_database_put_in_its_place_is_what_the_next_transaction_uses(store, other):
    _delete(store.path)
    os.rename(other, store.path)
    assert _is_paused(store)
    assert state.resume(store, PLAN)["changed"]
    assert not _is_paused(open_store(f"sqlite://{store.path}"))


def test_a_database_renamed_over_it_is_what_the_next_transaction_uses(store, other):
    _put_in_its_place(store, other)
    assert state.resume(store, PLAN)["changed"]
    assert not _is_paused(open_store(f"sqlite://{store.path}"))


def test_nothing_is_committed_to_a_file_that_is_no_longer_there(store, other):
    def write() -> None:
        with store.write(PLAN) as tx:
            tx.run(sql.SET_PAUSED, paused_at=None)
            _put_in_its_place(store, other)

    with pytest.raises(DatabaseUnavailable, match="in the meantime; nothing was written"):
        write()
    assert _is_paused(store)


def _within_the_commit(store, act: Callable[[], None]) -> None:
    """Something happens once the file has been looked at and the commit has begun."""
    store._writer.set_trace_callback(lambda text: act() if text == "commit" else None)


def test_what_was_committed_to_a_file_that_was_just_deleted_is_not_acknowledged(store):
    _within_the_commit(store, lambda: _delete(store.path))
    words = "in the meantime; what was written went with it"
    with pytest.raises(DatabaseUnavailable, match=words):
        state.pause(store, PLAN)
    assert not os.path.exists(store.path)


def test_what_was_committed_to_a_file_that_was_just_replaced_is_not_acknowledged(store, other):
    shutil.copy(other, f"{other}-kept")
    _within_the_commit(store, lambda: _put_in_its_place(store, other))
    words = "in the meantime; what was written went with it"
    with pytest.raises(DatabaseUnavailable, match=words):
        state.pause(store, PLAN)
    assert Path(store.path).read_bytes() == Path(f"{other}-kept").read_bytes()
    assert _is_paused(store)


def test_what_was_committed_to_a_file_that_nobody_can_look_at_is_acknowledged(store, tmp_path):
    store.close()
    way = tmp_path / "way"
    way.symlink_to("here")
    led = open_store(f"sqlite://{way}/state.db")
    assert not _is_paused(led)
    assert state.resume(led, PLAN)["changed"] is False

    def bend() -> None:
        way.unlink()
        way.symlink_to(way)

    _within_the_commit(led, bend)
    assert state.pause(led, PLAN)["changed"]
    assert _is_paused(store)


def test_a_writer_that_queued_while_the_file_was_replaced_writes_to_the_new_one(store, other):
    holding = open_store(f"sqlite://{store.path}")
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(state.resume(store, PLAN)))
    holding._lock.enter()
    waiting.start()
    _put_in_its_place(store, other)
    holding._lock.leave()
    waiting.join()
    assert answers[0]["changed"]
    assert not _is_paused(open_store(f"sqlite://{store.path}"))


def test_a_file_replaced_while_it_is_being_opened_is_opened_again(store, other, monkeypatch):
    store.close()
    fresh = open_store(f"sqlite://{store.path}")
    connect = file.connect

    def replacing(*words, **options):
        connection = connect(*words, **options)
        if os.path.exists(other):
            _put_in_its_place(store, other)
        return connection

    monkeypatch.setattr(file, "connect", replacing)
    assert _is_paused(fresh)
    assert state.resume(fresh, PLAN)["changed"]
    assert not _is_paused(open_store(f"sqlite://{store.path}"))


def test_closing_a_replaced_database_leaves_the_new_one_alone(store, other):
    _delete(store.path)
    shutil.copy(other, store.path)
    fresh = open_store(f"sqlite://{store.path}")
    state.resume(fresh, PLAN)
    before = Path(f"{store.path}-wal").read_bytes()
    store.close()
    assert Path(f"{store.path}-wal").read_bytes() == before
    assert not _is_paused(fresh)


def test_who_waits_for_a_change_is_woken_when_the_file_is_replaced(store, other):
    store.wait_for_change(0)
    _put_in_its_place(store, other)
    store.wait_for_change(600)
    assert _is_paused(store)


def test_a_log_without_its_database_is_no_fresh_start(repo, tugcode):
    repo.plan("lost", "# Lost\n### Step 1: a\n- [ ] one\n")
    assert tugcode("-C", repo.path, "state", "init", "lost").status == 0
    directory = repo.path / ".tugtool"
    (repo.path / ".git" / "tugtool" / "backup.db").unlink()
    log = directory / "state.db-wal"
    log.write_bytes(b"what was acknowledged")
    (directory / "state.db").unlink()
    for words in (["claim", "lost"], ["init", "lost"], ["show"]):
        refused = tugcode("-C", repo.path, "--json", "state", *words)
        assert (refused.status, refused.codes) == (1, ["E046"])
    assert log.read_bytes() == b"what was acknowledged"
    assert not (directory / "state.db").exists()
