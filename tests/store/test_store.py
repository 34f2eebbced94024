"""What an engine promises to the operations: transactions, readers, one clock, one file."""

import os
import sqlite3
import threading
from pathlib import Path

import pytest

from support.racing import prepared, until
from support.workers import PLAN
from tugtool.errors.state import DatabaseUnavailable, NewerDatabase, QueryFailed
from tugtool.store import open_store, schema, sql
from tugtool.store.sql import records as sql_records
from tugtool.store.sqlite import SqliteStore, create, file
from tugtool.system import clock as clocks
from tugtool.system import lock

NOON = 1_771_848_000_000  # 2026-02-23T12:00:00.000Z


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


@pytest.fixture
def store(path):
    """A database with one plan of two steps."""
    store, _ = prepared(path, 2)
    yield store
    store.close()


def _opened(path, **options) -> SqliteStore:
    return open_store(f"sqlite://{path}", **options)


def _title(store) -> str:
    with store.read(PLAN) as tx:
        return tx.one(sql.PLAN)["phase_title"]


def _bytes(path) -> dict[str, bytes]:
    """The database and its log; the shared memory is nobody's data."""
    names = [f"{path}", f"{path}-wal"]
    return {name: Path(name).read_bytes() for name in names if os.path.exists(name)}


def _foreign(path, *statements: str) -> None:
    """What another program does to the file; it leaves without tidying up."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


SET_TITLE = "update plans set phase_title = :title where plan_path = :plan"


def test_a_transaction_is_there_for_all_when_it_has_ended(store, path):
    with store.write(PLAN) as tx:
        assert tx.run(SET_TITLE, title="new") == 1
        assert _title(_opened(path)) == "Race"
    assert _title(_opened(path)) == "new"


def test_a_transaction_that_fails_leaves_nothing(store):
    def write() -> None:
        with store.write(PLAN) as tx:
            tx.run(SET_TITLE, title="new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert _title(store) == "Race"
    with store.write(PLAN) as tx:
        tx.run(SET_TITLE, title="newer")
    assert _title(store) == "newer"


def test_a_statement_that_is_refused_says_why_and_leaves_nothing(store):
    def write() -> None:
        with store.write(PLAN) as tx:
            tx.run(SET_TITLE, title="new")
            tx.run(sql_records.ADD_DEP, anchor="step-0", depends_on="nowhere")

    with pytest.raises(QueryFailed, match="FOREIGN KEY") as caught:
        write()
    assert (caught.value.code, caught.value.facts["sqlite"]) == ("E047", "CONSTRAINT_FOREIGNKEY")
    assert _title(store) == "Race"
    with pytest.raises(QueryFailed, match="FOREIGN KEY"), store.write(PLAN) as tx:
        tx.many(sql_records.ADD_DEP, [{"plan": PLAN, "anchor": "step-0", "depends_on": "nowhere"}])


def test_rows_come_one_by_one_and_a_failure_among_them_is_ours(store):
    """The smallest number has no opposite, which SQLite notices when it gets there."""
    numbers = "select 1 as n union all select 2 union all select -9223372036854775807 - 1"
    with store.read(PLAN) as tx:
        found = tx.each(f"select abs(n) as n from ({numbers})")
        assert next(found)["n"] == 1
        with pytest.raises(QueryFailed, match="integer overflow"):
            next(found)


def test_a_writer_is_alone_from_the_beginning_also_for_programs_that_do_not_queue(store, path):
    """Or it would fail at its first change, without waiting, if another had made one."""
    foreign = sqlite3.connect(path, isolation_level=None, timeout=0)
    with store.write(PLAN), pytest.raises(sqlite3.OperationalError, match="locked"):
        foreign.execute("begin immediate")
    foreign.close()


def test_a_reader_cannot_write(store):
    with pytest.raises(DatabaseUnavailable, match="readonly") as caught, store.read(PLAN) as tx:
        tx.run(SET_TITLE, title="new")
    assert caught.value.code == "E046"
    assert _title(store) == "Race"


def test_a_reader_sees_one_moment(store, path):
    other = _opened(path)
    with other.read(PLAN) as tx:
        assert tx.one(sql.PLAN)["phase_title"] == "Race"
        with store.write(PLAN) as writing:
            writing.run(SET_TITLE, title="new")
        assert tx.one(sql.PLAN)["phase_title"] == "Race"
    assert _title(other) == "new"


def test_reading_makes_nothing(path, tmp_path):
    with pytest.raises(DatabaseUnavailable), _opened(path).read():
        pass
    assert not _opened(path).exists()
    assert os.listdir(tmp_path) == []


def test_writing_makes_no_database_either(path, tmp_path):
    with pytest.raises(DatabaseUnavailable), _opened(path).write(PLAN):
        pass
    assert os.listdir(tmp_path) == ["state.lock"]


def test_a_database_is_there_once_it_is_created_and_creating_again_is_harmless(store, path):
    assert _opened(path).exists()
    _opened(path).create()
    assert _title(store) == "Race"


def test_a_file_of_no_length_counts_as_absent_and_is_made_a_database(path):
    path.touch()
    fresh = _opened(path)
    assert not fresh.exists()
    fresh.create()
    assert fresh.exists()
    fresh.close()


def test_every_connection_is_set_up(store):
    with store.write(PLAN) as writing, store.read(PLAN) as reading:
        for tx in (writing, reading):
            assert tx.value("pragma foreign_keys") == 1
            assert tx.value("pragma synchronous") == 2  # full
            assert tx.value("pragma fullfsync") == 1
            assert tx.value("pragma journal_mode") == "wal"
    with store.read() as tx:
        assert tx.value("pragma application_id") == schema.APPLICATION_ID
        assert tx.value("pragma user_version") == schema.VERSION


def test_a_file_system_that_cannot_do_wal_is_refused_and_nothing_is_made(path, monkeypatch):
    """SQLite answers with the mode it got, and calls that a success."""
    connect = file.connect

    class Old(sqlite3.Connection):
        def execute(self, text, *values):
            return super().execute(text.replace("journal_mode = wal", "journal_mode"), *values)

    monkeypatch.setattr(file, "connect", lambda *w, **o: connect(*w, factory=Old, **o))
    with pytest.raises(DatabaseUnavailable, match=r"cannot be put in WAL mode .it stays in delete"):
        _opened(path).create()
    assert not _opened(path).exists()


def test_a_closed_store_leaves_one_file_that_is_complete(store, path, tmp_path):
    with store.read(PLAN), store.write(PLAN) as tx:
        tx.run(SET_TITLE, title="new")
    store.close()
    assert sorted(os.listdir(tmp_path)) == ["state.db", "state.lock"]
    os.rename(path, tmp_path / "moved.db")
    assert _title(_opened(tmp_path / "moved.db")) == "new"


def test_a_store_closed_while_others_hold_the_lock_waits_no_longer_than_it_must(path):
    """It leaves the log as it is then, because nobody may tidy up outside the queue."""
    store = prepared(path, 1)[0]
    holding = _opened(path)
    hasty = _opened(path, busy_seconds=0)
    with hasty.write(PLAN) as tx:
        tx.run(SET_TITLE, title="new")
    store.close()
    with holding.write(PLAN):
        hasty.close()
    assert (path.parent / "state.db-wal").stat().st_size > 0
    assert _title(_opened(path)) == "new"
    holding.close()


@pytest.mark.parametrize("ahead", [1, 1000])
def test_a_newer_database_is_refused_and_left_as_it_is(store, path, ahead):
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("select 1 from plans").fetchone()
    store.close()
    _foreign(path, f"pragma user_version = {schema.VERSION + ahead}")
    before = _bytes(path)
    assert len(before[f"{path}-wal"]) > 0
    # A copy that nobody has open: the next to close it would tidy up, if it were careless.
    copy = path.parent / "copy" / "state.db"
    copy.parent.mkdir()
    for name, content in before.items():
        (copy.parent / os.path.basename(name)).write_bytes(content)
    reader.close()
    path = copy
    before = _bytes(path)
    for use in (_opened(path).create, _opened(path).write(PLAN).__enter__):
        with pytest.raises(NewerDatabase, match=f"schema {schema.VERSION + ahead}") as caught:
            use()
        assert caught.value.code == "E065"
    with pytest.raises(NewerDatabase), _opened(path).read():
        pass
    assert _bytes(path) == before


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_another_tools_database_is_refused_and_left_as_it_is(path, mode):
    _foreign(path, f"pragma journal_mode = {mode}", "create table ours (x)")
    before = _bytes(path)
    for use in (_opened(path).create, _opened(path).write(PLAN).__enter__):
        with pytest.raises(DatabaseUnavailable, match="not a database of Tugtool's"):
            use()
    with pytest.raises(DatabaseUnavailable, match="not a database of Tugtool's"):
        _opened(path).read().__enter__()
    assert {**_bytes(path), f"{path}-wal": b""} == {**before, f"{path}-wal": b""}


@pytest.mark.parametrize("mark", ["application_id", "user_version"])
def test_an_empty_database_that_somebody_has_marked_is_not_taken(path, mark):
    _foreign(path, f"pragma {mark} = 7")
    with pytest.raises(DatabaseUnavailable):
        _opened(path).create()


def test_tables_that_another_process_makes_during_a_look_are_no_foreign_ones(path, monkeypatch):
    _foreign(path, "pragma journal_mode = wal")
    looks = []

    class Racing(sqlite3.Connection):
        def execute(self, text, *values):
            cursor = super().execute(text, *values)
            if "application_id" in text:
                looks.append(text)
            if len(looks) == 2 and text == looks[-1]:
                other = sqlite3.connect(path, isolation_level=None)
                create._make(other, str(path))
                other.close()
            return cursor

    racing = {"factory": Racing}
    monkeypatch.setattr(file, "connect", lambda *w, **how: sqlite3.connect(*w, **how, **racing))
    with _opened(path).read(PLAN) as tx:
        assert tx.all(sql.STEPS) == []
    assert len(looks) >= 2


@pytest.mark.parametrize(
    ("damage", "word"),
    [("text", "not a database"), ("head", "not a database"), ("cut", "malformed|disk image")],
)
def test_a_damaged_file_is_refused_and_left_as_it_is(store, path, damage, word):
    store.close()
    whole = path.read_bytes()
    bad = {"text": b"hello\n" * 1000, "head": b"x" * 100 + whole[100:], "cut": whole[:9000]}
    path.write_bytes(bad[damage])
    for begin in (_opened(path).write(PLAN), _opened(path).read(PLAN)):
        with pytest.raises(DatabaseUnavailable, match=word), begin as tx:
            tx.all(sql.STEPS)
    assert path.read_bytes() == bad[damage]


def test_a_table_that_is_gone_is_told_as_what_it_is(store, path):
    """A row that is asked for, and an event that is added."""
    connection = sqlite3.connect(path)
    connection.executescript("drop table plan_revisions; drop table events")
    connection.close()
    with pytest.raises(QueryFailed, match="no such table"), store.read(PLAN) as tx:
        tx.first("select 1 from plan_revisions")
    with pytest.raises(QueryFailed, match="no such table"), store.write(PLAN) as tx:
        tx.note("pause", {}, anchor=None, actor="me", attempt=None)


def test_a_database_whose_making_was_cut_short_is_completed_by_the_next_create(path):
    _foreign(path, "pragma journal_mode = wal")
    assert _opened(path).exists()
    for begin in (_opened(path).write(PLAN), _opened(path).read(PLAN)):
        with pytest.raises(DatabaseUnavailable, match="its creation was not finished"), begin:
            pass
    prepared(path, 1)
    assert _title(_opened(path)) == "Race"


def test_a_reader_waits_for_the_command_that_makes_the_database(path, monkeypatch):
    maker, reader = _opened(path), _opened(path)
    half_made, go_on = threading.Event(), threading.Event()
    make_tables, enter = create._make_tables, lock.FileLock.enter

    def slowly(connection) -> None:
        half_made.set()
        assert go_on.wait(60)
        make_tables(connection)

    def seen_to_wait(self, **how) -> None:
        if self is reader._lock:
            go_on.set()
        enter(self, **how)

    monkeypatch.setattr(create, "_make_tables", slowly)
    monkeypatch.setattr(lock.FileLock, "enter", seen_to_wait)
    thread = threading.Thread(target=lambda: (maker.create(), maker.close()))
    thread.start()
    try:
        assert half_made.wait(60)
        assert reader.exists()
        with reader.read(PLAN) as tx:
            assert tx.all(sql.STEPS) == []
    finally:
        go_on.set()
        thread.join()
        reader.close()


@pytest.mark.parametrize("name", ["a?b", "a#b", "50%25", "two words", "Grüße ☂", "a&mode=ro", "'"])
def test_any_name_will_do_for_the_directory(tmp_path, name):
    (tmp_path / name).mkdir()
    store, _ = prepared(tmp_path / name / "state.db", 1)
    assert _title(store) == "Race"
    assert sorted(os.listdir(tmp_path)) == [name]
    store.close()


@pytest.mark.parametrize("url", ["state.db", "sqlite://x", "mysql://host/db", "sqlite:/x"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(DatabaseUnavailable, match="not the address"):
        open_store(url)


def test_a_transaction_has_one_time_of_fixed_width(path, store):
    times = iter([NOON, NOON + 1, NOON + 60_000])
    clocked = _opened(path, clock=lambda: next(times))
    with clocked.write(PLAN) as tx:
        assert tx.now == "2026-02-23T12:00:00.000Z"
        assert tx.value("select :now") == tx.now
        assert tx.after(0.5) == "2026-02-23T12:00:00.500Z"
        assert tx.after(86400) == "2026-02-24T12:00:00.000Z"
        assert tx.after(0.0000001) == "2026-02-23T12:00:00.001Z", "a lease has some length"
    with clocked.read(PLAN) as tx:
        assert tx.now == "2026-02-23T12:00:00.001Z"


def test_times_compare_as_texts_over_the_whole_range():
    moments = [0, 1, 999, 1000, NOON, NOON + 1, NOON + 1000 * clocks.LONGEST_SECONDS]
    texts = [clocks.text(moment) for moment in moments]
    assert texts == sorted(texts)
    assert {len(text) for text in texts} == {24}


def test_a_very_long_patience_is_not_taken_for_none(path, store):
    """SQLite's time-out has 32 bits of milliseconds, and what does not fit means no wait."""
    patient = _opened(path, busy_seconds=10**9)
    foreign = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    foreign.execute("begin immediate")
    done = threading.Event()

    def write() -> None:
        with patient.write(PLAN) as tx:
            tx.run(SET_TITLE, title="new")
        done.set()

    waiting = threading.Thread(target=write)
    waiting.start()
    until(lambda: not _lock_is_free(path))
    foreign.execute("rollback")
    waiting.join()
    foreign.close()
    assert done.is_set()


def _lock_is_free(path) -> bool:
    try:
        with _opened(path, busy_seconds=0).write(PLAN):
            return True
    except QueryFailed as error:
        return "state.lock" not in str(error)


def test_who_waits_is_woken_by_a_change_also_by_one_between_two_waits(store, path):
    watcher = _opened(path)
    watcher.wait_for_change(0)
    with store.write(PLAN) as tx:
        tx.run(SET_TITLE, title="new")
    # It would take ten minutes if the change had been missed.
    watcher.wait_for_change(600)
    _change(path, "newer")
    watcher.wait_for_change(600)
    changer = threading.Thread(target=_change, args=(path, "newest"))
    changer.start()
    watcher.wait_for_change(600)
    changer.join()


def _change(path, title: str) -> None:
    with _opened(path).write(PLAN) as tx:
        tx.run(SET_TITLE, title=title)
