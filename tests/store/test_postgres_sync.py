"""When a commit is on the disk: its locks are free before, and its answer comes after.

The server is a durable one of its own. A sync is held up as a standby does that does not answer.
"""

import contextlib
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import engines, postgres_server
from support.state import KEY, Lab
from tugtool import state
from tugtool.errors import TugError
from tugtool.errors.state import DatabaseUnavailable
from tugtool.store import open_store, sql
from tugtool.store.postgres import PostgresStore, health, libpq, statements
from tugtool.store.postgres.transaction import PostgresTransaction

_MESSAGE = b"select pg_logical_emit_message(true, 'x', '')"
_WAITING = b"select pid from pg_stat_activity where wait_event = 'SyncRep'"
_UNSYNCED = b"select pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn()"
_WRITER = b"select pid from pg_stat_activity where backend_type = 'walwriter'"
#: The faults that are planted.
_NO_SYNC = b"select $1::text"
_MOST_SECONDS = 60


@pytest.fixture(scope="module")
def server() -> Iterator[postgres_server.Server]:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix="tug-s-", dir=memory))
    settings = {"fsync": "on", "full_page_writes": "on", "autovacuum": "off"}
    made = postgres_server.Server(directory, **settings)
    made.make()
    made.start()
    made._run("createdb", "-h", str(directory), "-U", "postgres", postgres_server.DATABASE)
    yield made
    made.destroy()
    shutil.rmtree(directory)


class Scene:
    """A plan on that server, sessions beside it, and operations that wait."""

    def __init__(self, server: postgres_server.Server, directory: Path) -> None:
        self.server = server
        self.lab = Lab(directory, "1 t", "2 t")
        self.beside = PostgresStore(self.lab.url)
        self.stores: list[PostgresStore] = []
        self.threads: list[threading.Thread] = []

    def ask(self, statement: bytes, *values: object) -> list:
        return [row[0] for row in self.beside.ask(statement, *values).rows]

    def store(self, **options: str) -> PostgresStore:
        """A worker's own; the options are settings of its sessions."""
        said = "".join(f"&options=-c{name}%3D{value}" for name, value in options.items())
        store = open_store(self.lab.url + said, clock=self.lab.clock)
        assert isinstance(store, PostgresStore)
        self.stores.append(store)
        return store

    def hold(self) -> None:
        """From now on no sync ends: a standby that does not exist has to have it."""
        self.ask(b"alter system set synchronous_standby_names = 'nobody'")
        self.ask(b"select pg_reload_conf()")
        probe = self.beside.connect()
        # The server takes the setting over a moment later.
        while not self.ask(_WAITING):
            probe.send(_MESSAGE)
            probe.flush()
            while not self.ask(_WAITING) and not self._is_idle(probe):
                pass
        self.ask(b"select pg_terminate_backend($1::int)", probe.server_process)
        probe.close()
        while self.ask(_WAITING):
            pass

    def _is_idle(self, probe: libpq.Connection) -> bool:
        query = b"select state = 'idle' from pg_stat_activity where pid = $1::int"
        return self.ask(query, probe.server_process) == [1]

    def release(self) -> None:
        """Syncs end again, and with them everything that waited."""
        self.ask(b"alter system reset synchronous_standby_names")
        self.ask(b"select pg_reload_conf()")
        for thread in self.threads:
            thread.join(_MOST_SECONDS)

    def waits(self, operation: Callable[[], object]) -> list[object]:
        """Begin an operation, and wait until it waits for its sync; its answer, later."""
        answers: list[object] = []

        def run() -> None:
            try:
                answers.append(operation())
            except TugError as error:
                answers.append(error)

        before = self.ask(_WAITING)
        thread = threading.Thread(target=run)
        self.threads.append(thread)
        thread.start()
        while self.ask(_WAITING) == before:
            assert thread.is_alive(), "it was answered before the sync"
        return answers

    def stop_writer(self) -> None:
        """Nothing is synced by the way, and what is not synced is lost in a crash."""
        (pid,) = self.ask(_WRITER)
        os.kill(pid, signal.SIGSTOP)

    def crash(self) -> None:
        self.server.destroy()
        self.server.start()

    def end(self) -> None:
        with contextlib.suppress(TugError):
            self.release()
        for pid in self.ask(_WRITER):
            os.kill(pid, signal.SIGCONT)
        for store in (*self.stores, self.beside, self.lab.store):
            store.close()


@pytest.fixture
def scene(server, tmp_path) -> Iterator[Scene]:
    with engines.on_server(server.directory):
        made = Scene(server, tmp_path)
        yield made
        made.end()


# -- the locks -------------------------------------------------------------------------


def _pause_held(scene: Scene) -> None:
    """A commit waits for its sync; meanwhile its plan can be locked, and its rows be seen."""
    scene.hold()
    store = scene.store()
    answers = scene.waits(lambda: state.pause(store, KEY))
    free = b"select pg_try_advisory_xact_lock(hashtextextended($1, 0))"
    assert scene.ask(free, store.lock_key(KEY)) == [1], "the plan is locked"
    name = store.address.quoted_schema()
    assert scene.ask(f"select paused_at is not null from {name}.plans".encode()) == [1]
    # The next worker of the plan gets so far too, and so does one of another plan.
    second = scene.store()
    resumed = scene.waits(lambda: state.resume(second, KEY))
    assert answers == resumed == []
    scene.release()
    assert [answers[0]["paused"], resumed[0]["paused"]] == [True, False]
    assert scene.lab.events() == ["init", "pause", "resume"]


def test_a_plan_is_free_before_the_commit_is_synced_and_the_answer_comes_after(scene):
    _pause_held(scene)


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("LOCK_THEN_CLOCK", b"'off'", b"'on'", "the plan is locked"),
        ("SYNC", statements.SYNC, _NO_SYNC, "answered before"),
    ],
)
def test_that_shows_a_commit_that_keeps_its_locks_and_one_without_a_sync(
    scene, monkeypatch, name, old, new, said
):
    monkeypatch.setattr(statements, name, getattr(statements, name).replace(old, new))
    with pytest.raises(AssertionError, match=said):
        _pause_held(scene)


def test_a_server_that_is_set_not_to_wait_waits_and_a_setting_that_says_how_holds(scene):
    scene.hold()
    # The disk alone: that is what the setting means.
    local = scene.store(synchronous_commit="local")
    assert state.pause(local, KEY)["paused"]
    for number, option in enumerate(("off", "remote_apply")):
        store = scene.store(synchronous_commit=option)
        change = state.resume if number % 2 == 0 else state.pause
        assert scene.waits(lambda change=change, store=store: change(store, KEY)) == []


# -- what was read ---------------------------------------------------------------------


def _read_held(scene: Scene, operation: Callable[[PostgresStore], object]) -> object:
    """Another worker's commit waits for its sync, and whoever has seen it waits too."""
    scene.hold()
    writer, reader = scene.store(), scene.store()
    scene.waits(lambda: state.claim(writer, KEY, state.Request("red"), copy=scene.lab.copy))
    answers = scene.waits(lambda: operation(reader))
    assert answers == []
    scene.release()
    return answers[0]


def _shown(store: PostgresStore) -> object:
    return state.ready(store, KEY)["claimed_steps"]


def _refused(store: PostgresStore) -> object:
    return state.heartbeat(store, KEY, "step-1", owner="blue")


def _unchanged(store: PostgresStore) -> object:
    with store.write(KEY) as tx:
        return tx.value("select claimed_by from steps where anchor = 'step-1'")


def test_whoever_has_read_a_commit_gets_the_answer_after_its_sync(scene):
    assert _read_held(scene, _shown) == ["step-1"]


def test_so_does_whoever_is_refused_because_of_it(scene):
    answer = _read_held(scene, _refused)
    assert isinstance(answer, TugError)
    assert answer.code.startswith("E0")


def test_so_does_a_transaction_that_had_nothing_to_write(scene):
    assert _read_held(scene, _unchanged) == "red"


@pytest.mark.parametrize(
    ("name", "operation"),
    [("READ_CLOCK", _shown), ("LOCK_THEN_CLOCK", _refused), ("LOCK_THEN_CLOCK", _unchanged)],
)
def test_that_shows_readers_that_do_not_wait(scene, monkeypatch, name, operation):
    known = statements._UNSYNCED
    blind = getattr(statements, name).replace(known, b" null as unsynced,")
    monkeypatch.setattr(statements, name, blind)
    with pytest.raises(AssertionError, match="answered before"):
        _read_held(scene, operation)


def _unsynced_pause(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit whose worker was killed before its sync."""
    scene.stop_writer()
    with monkeypatch.context() as patch:
        patch.setattr(statements, "SYNC", _NO_SYNC)
        scene.lab.pause()
    assert scene.ask(_UNSYNCED) == [1]


def _kinds(scene: Scene) -> list[str]:
    with scene.store().read(KEY) as tx:
        return [row["kind"] for row in tx.all(sql.EVENTS)]


def _read_then_crash(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    _unsynced_pause(scene, monkeypatch)
    told = _kinds(scene)
    assert told == ["init", "pause"]
    scene.crash()
    assert _kinds(scene) == told, "gone"


def test_an_event_that_was_read_is_there_after_a_crash_and_its_number_with_it(scene, monkeypatch):
    _read_then_crash(scene, monkeypatch)


def test_that_shows_readers_that_do_not_sync(scene, monkeypatch):
    blind = statements.READ_CLOCK.replace(statements._UNSYNCED, b" null as unsynced,")
    monkeypatch.setattr(statements, "READ_CLOCK", blind)
    with pytest.raises(AssertionError, match="gone"):
        _read_then_crash(scene, monkeypatch)


def test_whoever_waited_for_the_lock_of_an_unsynced_commit_syncs_it(scene):
    """The position is taken after the wait for the lock, and not before."""
    scene.stop_writer()
    holding = scene.store().write(KEY)
    holding.run("update steps set title = 'x' where plan_path = :plan")
    reader = scene.store()
    thread = threading.Thread(target=lambda: _unchanged(reader))
    thread.start()
    while not scene.ask(b"select 1 from pg_locks where locktype = 'advisory' and not granted"):
        assert thread.is_alive()
    # It commits, and does not sync: everything is after this position.
    holding._finish([(b"commit", ())], b"0/0")
    thread.join(_MOST_SECONDS)
    assert scene.ask(_UNSYNCED) == [0]


def test_a_reader_syncs_only_what_is_not_synced_yet(scene, monkeypatch):
    sent, send = list[bytes](), libpq.Connection.send

    def sending(connection: libpq.Connection, statement: bytes, *values: object) -> None:
        sent.append(statement)
        send(connection, statement, *values)

    _unsynced_pause(scene, monkeypatch)
    monkeypatch.setattr(libpq.Connection, "send", sending)
    store = scene.store()
    assert state.show(store, KEY)["paused_at"]
    assert scene.ask(_UNSYNCED) == [0]
    assert sent.count(statements.SYNC) == 1
    for _ in range(3):
        assert state.show(store, KEY)["paused_at"]
    assert sent.count(statements.SYNC) == 1


# -- connections that are lost in a sync -----------------------------------------------


def _cut(scene: Scene) -> None:
    """The server ends the sessions that wait."""
    for pid in scene.ask(_WAITING):
        scene.ask(b"select pg_terminate_backend($1::int)", pid)


def _again(scene: Scene, before: list) -> None:
    """Wait until other sessions wait in their place."""
    while len(now := scene.ask(_WAITING)) < len(before) or {*now} & {*before}:
        assert scene.threads[-1].is_alive(), "it was answered before the sync"


def test_a_commit_whose_sync_was_cut_is_asked_for_and_synced(scene):
    scene.hold()
    store = scene.store()
    answers = scene.waits(lambda: state.pause(store, KEY))
    before = scene.ask(_WAITING)
    _cut(scene)
    _again(scene, before)
    assert answers == []
    scene.release()
    assert answers[0]["paused"]
    assert scene.lab.events() == ["init", "pause"]


def test_whoever_read_what_a_crash_has_taken_away_is_told_what_is_there(scene, monkeypatch):
    """The first answer was never given: the operation is called again."""
    _unsynced_pause(scene, monkeypatch)
    store, let_go, crashed = scene.store(), PostgresTransaction._let_go, []

    def crash(tx: PostgresTransaction) -> None:
        if tx._store is store and not crashed:
            crashed.append(tx._unsynced)
            scene.crash()
        let_go(tx)

    monkeypatch.setattr(PostgresTransaction, "_let_go", crash)
    assert state.show(store, KEY)["paused_at"] is None
    assert crashed[0]


def test_whoever_is_cut_there_again_and_again_reads_until_it_is_synced(scene):
    scene.hold()
    store = scene.store()
    answers = scene.waits(lambda: _shown(store))
    for _ in range(3):
        before = scene.ask(_WAITING)
        _cut(scene)
        _again(scene, before)
    assert answers == []
    scene.release()
    assert answers == [[]]


# -- syncs that are refused ------------------------------------------------------------


def test_a_sync_that_is_refused_is_asked_for_again(scene, monkeypatch):
    send, failed = libpq.Connection.send, []

    def failing(connection: libpq.Connection, statement: bytes, *values: object) -> None:
        if statement == statements.SYNC and not failed:
            failed.append(statement)
            statement = b"select 1 / (length($1) - 17)"
        send(connection, statement, *values)

    monkeypatch.setattr(libpq.Connection, "send", failing)
    assert scene.lab.claim()["claimed"]
    assert failed
    assert scene.lab.events() == ["init", "claim"]


def test_a_role_that_may_not_sync_is_told_which_right_it_lacks(scene):
    name = scene.lab.store.address.quoted_schema()
    for statement in (
        "create role plain login",
        f"grant usage on schema {name} to plain",
        f"grant select, insert, update, delete on all tables in schema {name} to plain",
        f"grant usage, select on all sequences in schema {name} to plain",
    ):
        scene.ask(statement.encode())
    plain = PostgresStore(scene.lab.url.replace("user=postgres", "user=plain"))
    scene.stores.append(plain)
    assert state.pause(plain, KEY)["paused"]
    assert health.missing_rights(plain) == []
    function = b"function pg_logical_emit_message(boolean, text, text)"
    scene.ask(b"revoke execute on %s from public" % function)
    try:
        with pytest.raises(DatabaseUnavailable, match="denied for function pg_logical_e") as told:
            state.resume(plain, KEY)
        assert told.value.hint == "tugcode doctor"
        assert health.missing_rights(plain) == ["execute on function pg_logical_emit_message"]
    finally:
        scene.ask(b"grant execute on %s to public" % function)
