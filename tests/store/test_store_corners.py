"""Where the store is seldom seen: locks that cannot be had, disks that are full, files that go."""

import contextlib
import fcntl
import importlib.util
import os
import resource
import signal
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from support.racing import Crew, inside, open_files, prepared, until
from support.work import other_file_system
from support.workers import COPY, PLAN
from tugtool import state
from tugtool.errors.state import DatabaseUnavailable, QueryFailed
from tugtool.store import open_store, sql
from tugtool.store.sqlite import SqliteStore, backup, file, health, restore
from tugtool.store.sqlite import file as marks
from tugtool.system import lock as system_lock

LINUX = sys.platform == "linux"


@pytest.fixture
def path(tmp_path) -> Path:
    """A database of two steps, closed."""
    prepared(tmp_path / "state.db", 2)[0].close()
    return tmp_path / "state.db"


def _opened(path: Path, **options: object) -> SqliteStore:
    return open_store(f"sqlite://{path}", **options)


def _kept(path: Path, **options: object) -> SqliteStore:
    """With a place for backups, and one in it."""
    store = _opened(path, copies=str(path.parent / "copies"), **options)
    state.pause(store, PLAN)
    assert store.back_up() is None
    return store


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Somebody has a file or directory locked all the while."""
    descriptor = os.open(path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield
    os.close(descriptor)


@contextlib.contextmanager
def _files_end_at(size: int) -> Iterator[None]:
    """No file can be written beyond that: what a full disk does, to this process alone."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# -- the queue -------------------------------------------------------------------------


class Stop(BaseException):
    """What a signal handler raises here, as ctrl-C does."""


def _place(tmp_path: Path, seconds: float) -> system_lock.FileLock:
    return system_lock.FileLock(str(tmp_path / "state.lock"), busy_seconds=seconds)


def test_who_is_interrupted_just_when_its_turn_has_come_passes_it_on(tmp_path):
    holds = _place(tmp_path, 0)
    holds.enter()

    def stop(*_: object) -> None:
        holds.leave()
        raise Stop

    before = signal.signal(signal.SIGUSR1, stop)
    me, line = threading.get_ident(), holds.line

    def wake() -> None:
        # The handler takes the guard too, in the thread that held it when it began to wait.
        until(lambda: line.waiting and not line._guard.locked())
        signal.pthread_kill(me, signal.SIGUSR1)

    waker = threading.Thread(target=wake)
    waker.start()
    with pytest.raises(Stop):
        _place(tmp_path, 60).enter()
    waker.join()
    signal.signal(signal.SIGUSR1, before)
    _place(tmp_path, 0).enter()


class Interrupted(list):
    """A signal arrives just when somebody has taken its place in line."""

    def insert(self, *where: object) -> None:
        super().insert(*where)
        raise Stop


def test_who_is_interrupted_on_coming_into_line_keeps_no_place(tmp_path):
    holds = _place(tmp_path, 0)
    holds.enter()
    holds.line.waiting = Interrupted()
    with pytest.raises(Stop):
        _place(tmp_path, 0).enter()
    assert holds.line.waiting == []
    holds.leave()
    _place(tmp_path, 0).enter()


def test_who_is_interrupted_at_the_head_of_the_line_lets_the_next_one_in(tmp_path, monkeypatch):
    place, right = _place(tmp_path, 0), system_lock._Line.enter

    def interrupted(*words: object, **options: object) -> bool:
        right(*words, **options)
        raise Stop

    monkeypatch.setattr(system_lock._Line, "enter", interrupted)
    with pytest.raises(Stop):
        place.enter()
    monkeypatch.undo()
    _place(tmp_path, 0).enter()


def test_who_is_interrupted_with_the_lock_in_hand_lets_go_of_it_once(tmp_path, monkeypatch):
    place, next_one, last = (_place(tmp_path, 0) for _ in range(3))

    def interrupted(descriptor: int, pid: int) -> None:
        raise Stop

    monkeypatch.setattr(system_lock, "_sign", interrupted)
    with pytest.raises(Stop):
        place.enter()
    monkeypatch.undo()
    next_one.enter()
    place.leave()
    with pytest.raises(QueryFailed, match="is held by process"):
        last.enter()
    next_one.leave()
    last.enter()


def test_a_queue_that_was_never_entered_is_left_without_harm(tmp_path):
    place = system_lock.FileLock(str(tmp_path / "state.lock"), busy_seconds=0)
    place.leave()
    place.enter()
    place.leave()
    place.enter()


def test_where_there_is_no_turnstile_one_goes_around_it(tmp_path):
    assert system_lock.passed(str(tmp_path / "missing"), 60) == -1


def test_a_file_that_cannot_be_locked_is_closed_and_refused(tmp_path):
    # Only Linux has descriptors that nothing can be done with.
    descriptor = os.open(tmp_path, os.O_PATH if LINUX else os.O_RDONLY)
    with pytest.raises(OSError, match="descriptor") if LINUX else contextlib.nullcontext():
        assert system_lock._try(descriptor)
        os.close(descriptor)
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)


def test_what_cannot_be_locked_is_held_by_nobody(tmp_path):
    lock = tmp_path / "lock"
    lock.touch()
    descriptor = os.open(lock, os.O_RDONLY)
    with _locked(lock):
        assert health._is_held(descriptor)
    os.close(descriptor)
    assert not health._is_held(descriptor)


def test_on_a_full_disk_the_lock_can_be_had_though_nobody_can_sign_it(tmp_path):
    lock = tmp_path / "state.lock"
    place = system_lock.FileLock(str(lock), busy_seconds=0)
    with _files_end_at(0):
        place.enter()
    assert lock.read_bytes() == b""
    assert health.holder(str(lock), 0) == "another process"
    place.leave()
    assert health.holder(str(lock), 0) is None


# -- the mark and the backup -----------------------------------------------------------


def test_without_a_mark_nothing_waits_to_be_backed_up(path):
    store = _opened(path, copies=str(path.parent / "copies"))
    assert store.back_up(pending=True) is None
    assert not (path.parent / "copies").exists()


def test_a_mark_that_cannot_be_signed_keeps_nobody_from_closing(path):
    store = _kept(path)
    mark = Path(store.mark)
    state.resume(store, PLAN)
    elsewhere = mark.with_name("elsewhere")
    mark.rename(elsewhere)
    before = elsewhere.read_bytes()
    mark.symlink_to(elsewhere)
    # Its checkpoint changes the file, which the mark should then say was one of us.
    store.close()
    assert elsewhere.read_bytes() == before
    assert marks.read_mark(str(mark))[1] != system_lock.signature(str(path))
    assert health.is_whole(_opened(path, copies=str(mark.parent)))


def test_a_database_that_is_made_while_one_looks_for_it_is_there(tmp_path, monkeypatch):
    path, size, made = tmp_path / "new.db", SqliteStore.size, []

    def made_meanwhile(store: SqliteStore) -> int:
        found = size(store)
        if not made:
            made.append(_opened(path))
            made[0].create()
        return found

    monkeypatch.setattr(SqliteStore, "size", made_meanwhile)
    assert _opened(path).exists()
    assert Path(f"{path}-wal").stat().st_size > 0
    made[0].close()


def test_a_mark_for_which_there_is_no_room_fails_no_commit(path):
    store = _kept(path)
    state.resume(store, PLAN)
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, store._kept_mark._descriptor)
    os.close(full)
    state.pause(store, PLAN)
    with store.read(PLAN) as tx:
        assert tx.value("select paused_at from plans") is not None
    store.close()


def _listed(store: SqliteStore) -> tuple[int, list[list[object]]]:
    """What the mark says."""
    return marks.read_mark(store.mark)[0], health.list_backups(store.mark)


def _completed(path: Path) -> tuple[int, list[list[object]]]:
    """What the mark should say: all that the database says."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return marks.completed_since(connection, 0)


def _complete(store: SqliteStore) -> None:
    got = state.claim(store, PLAN, state.Request("red"), copy=COPY)
    state.complete(store, PLAN, got["anchor"], owner="red", copy=COPY, commit=f"{got['anchor']}1")


def test_the_mark_says_what_the_database_says(path):
    store = _kept(path)
    state.resume(store, PLAN)
    for _ in range(2):
        _complete(store)
        assert _listed(store) == _completed(path)
    store.close()


def test_the_mark_also_says_what_a_process_did_that_could_not_move_it(path):
    store, other = _kept(path), _opened(path)
    state.resume(store, PLAN)
    _complete(other)
    assert _listed(store)[1] == []
    _complete(store)
    assert _listed(store) == _completed(path)
    assert len(_listed(store)[1]) == 2
    other.close()
    store.close()


def test_the_mark_that_lies_there_is_moved_whichever_was_opened(path):
    store = _kept(path)
    mark = Path(store.mark)
    for damage in (lambda: mark.write_bytes(mark.read_bytes()), mark.unlink, lambda: None):
        damage()
        state.resume(store, PLAN)
        state.pause(store, PLAN)
        assert _listed(store)[0] == _completed(path)[0]
    kept = mark.read_bytes()
    mark.rename(mark.with_name("elsewhere"))
    mark.with_name("new").write_bytes(kept)
    mark.with_name("new").rename(mark)
    state.resume(store, PLAN)
    assert _listed(store)[0] == _completed(path)[0]
    assert mark.with_name("elsewhere").read_bytes() == kept
    store.close()


def test_no_mark_is_moved_by_way_of_a_link(path):
    store = _kept(path)
    mark, elsewhere = Path(store.mark), Path(store.mark).with_name("elsewhere")
    state.resume(store, PLAN)
    mark.rename(elsewhere)
    before = elsewhere.read_bytes()
    mark.symlink_to(elsewhere)
    state.pause(store, PLAN)
    assert elsewhere.read_bytes() == before
    store.close()


def test_the_mark_is_open_until_the_store_is_closed_or_gone(path):
    store = _kept(path)
    state.resume(store, PLAN)
    mark = os.stat(store.mark)

    def is_open() -> bool:
        return any(os.path.samestat(each, mark) for each in open_files())

    assert is_open()
    store.close()
    assert not is_open()
    state.pause(store, PLAN)
    assert is_open()
    del store
    assert not is_open()


def test_two_do_not_make_the_backup_at_once(path):
    store = _opened(path, copies=str(path.parent / "copies"))
    (path.parent / "copies").mkdir()
    with _locked(path.parent / "copies"):
        assert store.back_up() is None
    assert os.listdir(path.parent / "copies") == []
    assert store.back_up() is None
    assert health.is_sound(store.backup)
    store.close()


def test_a_mark_that_cannot_be_shortened_does_not_make_the_backup_worse(path):
    store = _opened(path, copies=str(path.parent / "copies"))
    state.pause(store, PLAN)
    (path.parent / "copies" / "mark.partial").mkdir(parents=True)
    assert store.back_up() is None
    assert health.is_sound(store.backup)
    store.close()


# -- a copy in the database's place ----------------------------------------------------


def test_nothing_is_restored_while_somebody_makes_the_backup(path):
    store = _kept(path, busy_seconds=0.05)
    refusal = pytest.raises(QueryFailed, match=r"is being backed up for over 0.05 s")
    with _locked(path.parent / "copies"), refusal:
        state.restore(store)
    assert state.restore(store)["restored"]
    store.close()


def test_a_copy_that_no_database_is_in_is_refused_in_our_words(path):
    store = _kept(path)
    other = path.with_name("other.db")
    other.write_bytes(b"this is no database, however long it may be" * 100)
    with pytest.raises(DatabaseUnavailable, match="file is not a database"):
        store.rescue(str(other)).__enter__()
    assert health.is_whole(store)
    store.close()


def test_a_copy_that_cannot_be_put_in_place_is_told_and_nothing_is_lost(path):
    store = _kept(path)
    with store.rescue() as rescuing:
        aside = path.parent / "copies" / "restoring" / "backup.db"
        aside.mkdir()
        with pytest.raises(DatabaseUnavailable, match="cannot be opened: file exists"):
            rescuing.put_in_place()
    assert health.is_whole(store)
    store.close()


def test_a_mark_that_cannot_be_renewed_does_not_undo_a_restore(path):
    store = _kept(path)
    with store.rescue() as rescuing:
        (path.parent / "copies" / "mark.partial").mkdir()
        rescuing.put_in_place()
    assert health.is_whole(store)
    store.close()


def test_what_cannot_be_cleared_away_does_not_undo_a_restore(path):
    store = _kept(path)
    with store.rescue() as rescuing:
        rescuing.put_in_place()
        workshop = path.parent / "copies" / "restoring"
        workshop.rename(path.parent / "elsewhere")
        # Nothing that could be emptied.
        workshop.write_text("")
    assert health.is_whole(store)
    store.close()


def test_what_was_there_is_kept_under_a_name_of_its_own_however_often(path, monkeypatch):
    store = _kept(path)
    monkeypatch.setattr(backup, "stamp", lambda: "at-one-moment")
    places = []
    for _ in range(3):
        with store.rescue() as rescuing:
            places.append(rescuing.put_in_place())
    assert len(set(places)) == 3
    assert all((Path(place) / "state.db").exists() for place in places)
    store.close()


@pytest.fixture
def far(tmp_path) -> Iterator[Path]:
    """A directory on another file system, where one is known to be."""
    with tempfile.TemporaryDirectory(dir=other_file_system(tmp_path)) as path:
        yield Path(path)


def test_backups_on_another_file_system_are_restored_all_the_same(path, far):
    store = _opened(path, copies=str(far))
    state.pause(store, PLAN)
    assert store.back_up() is None
    with store.rescue() as rescuing:
        aside = Path(rescuing.put_in_place())
    assert sorted(os.listdir(aside)) == ["backup.db", "state.db"]
    assert not list(path.parent.glob("*-restoring"))
    assert health.is_whole(store)
    store.close()


def test_what_cannot_have_a_second_name_is_copied(path, far):
    restore._keep(str(path), str(far / "kept.db"))
    assert (far / "kept.db").read_bytes() == path.read_bytes()


def test_what_cannot_be_moved_is_told(tmp_path):
    with pytest.raises(FileNotFoundError):
        restore._move(str(tmp_path / "missing"), str(tmp_path / "new"))


# -- the engine ------------------------------------------------------------------------


def test_a_file_in_the_place_of_a_directory_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseUnavailable, match="cannot be opened: not a directory"):
        _opened(tmp_path / "file" / "state.db").exists()


def test_who_waits_for_changes_of_nothing_is_told(tmp_path):
    with pytest.raises(DatabaseUnavailable, match="unable to open"):
        _opened(tmp_path / "state.db").wait_for_change(0)


def test_a_commit_that_finds_no_room_is_refused_and_leaves_nothing(path):
    store = _opened(path)
    size = path.stat().st_size
    # The transaction ends first, and has to find room when it does.
    with _files_end_at(size), pytest.raises(QueryFailed), store.write(PLAN) as tx:
        tx.run("update plans set phase_title = :more", more="x" * 2 * size)
    with store.read(PLAN) as tx:
        assert len(tx.one(sql.PLAN)["phase_title"]) < 100
    state.pause(store, PLAN)
    store.close()


def test_a_commit_that_fails_and_cannot_be_made_undone_says_so(path):
    store = _opened(path)
    state.pause(store, PLAN)
    with _files_end_at(0), pytest.raises(QueryFailed) as refused, store.write(PLAN) as tx:
        tx.run(sql.SET_PAUSED, paused_at=None)
    assert refused.value.message.endswith("; it may have been written all the same")
    assert state.resume(store, PLAN)["changed"]
    store.close()


def test_who_closes_the_store_in_the_middle_of_reading_ends_that(path):
    store = _opened(path)
    with store.read(PLAN):
        store.close()
    state.pause(store, PLAN)
    store.close()


@pytest.mark.parametrize("reading", [True, False])
def test_a_file_that_was_replaced_is_noticed_by_whoever_has_it_open_in_one_way(path, reading):
    store, spare = _opened(path), path.with_name("spare.db")
    spare.write_bytes(path.read_bytes())
    with store.read(PLAN) if reading else store.write(PLAN):
        pass
    other = _opened(spare)
    state.pause(other, PLAN)
    other.close()
    os.replace(spare, path)
    with store.read(PLAN) as tx:
        assert tx.one(sql.PLAN)["paused_at"] is not None
    store.close()


def test_a_schema_that_never_was_is_refused_and_left_as_it_is(path):
    connection = sqlite3.connect(path)
    connection.execute("pragma user_version = 3")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(DatabaseUnavailable, match="schema version 3, which never existed"):
        state.pause(_opened(path), PLAN)
    assert path.read_bytes() == before


# -- locks of others -------------------------------------------------------------------


def test_another_programs_lock_is_told_with_its_process(path):
    store = _opened(path, busy_seconds=0.05)
    with store.read(PLAN), Crew() as crew:
        other = crew.add("foreign", path=str(path))
        crew.open()
        inside(other)
        name = f"process {other.pid} " if LINUX else "another program "
        with pytest.raises(QueryFailed, match=f"is locked by {name}for over 0.05 s"):
            state.pause(store, PLAN)
    state.pause(store, PLAN)
    store.close()


def test_a_lock_that_somebody_in_this_process_has_is_no_other_process(path):
    store, other = _opened(path, busy_seconds=0.05), sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(QueryFailed, match="is locked by another program for over"):
        state.pause(store, PLAN)
    other.close()
    state.pause(store, PLAN)
    store.close()


def test_a_lock_on_a_database_without_its_shared_memory_is_somebodys(path):
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("pragma journal_mode = delete")
    other.execute("begin exclusive")
    with pytest.raises(QueryFailed, match="is locked by another program for over"):
        state.pause(_opened(path, busy_seconds=0.05), PLAN)
    other.close()


# -- the module ------------------------------------------------------------------------


def _linked_anew() -> ModuleType:
    """The module as a command has it that starts just now."""
    spec = importlib.util.spec_from_file_location("linked_anew", file.__file__)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("missing", ["functools", "_functools", "_sqlite3"])
def test_sqlite_is_loaded_whatever_is_there_already_or_is_missing(monkeypatch, missing):
    """In this process, which has `functools`; as commands do: tests/store/test_driver.py."""
    if missing != "_sqlite3":
        monkeypatch.delitem(sys.modules, "functools")
        monkeypatch.delitem(sys.modules, "_sqlite3")
    if missing != "functools":
        monkeypatch.setitem(sys.modules, missing, None)
    made = _linked_anew()
    assert made.connect(":memory:").execute("select 1").fetchone() == (1,)


def test_whatever_became_of_its_file_a_connection_can_be_let_go(tmp_path):
    connection = sqlite3.connect(tmp_path / "state.db")
    connection.execute("create table t (x)")
    os.unlink(tmp_path / "state.db")
    file.let_go(connection, str(tmp_path / "state.db"))
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("select 1")
    assert os.listdir(tmp_path) == []
