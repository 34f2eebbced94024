"""The engine of many machines: what is its own. The tests of the record run on it as they are."""

import contextlib
import os
import re
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from state.test_transfer import add
from store import test_sql
from support import engines, postgres_server
from support.state import KEY, Clock, Lab
from tugtool import state
from tugtool.errors import TugError
from tugtool.errors.state import DatabaseUnavailable, NewerDatabase, QueryFailed
from tugtool.state.record import PlanCopy
from tugtool.store import NO_PLAN, back_up, open_store, owners, schema, sql
from tugtool.store.postgres import (
    PostgresStore,
    create,
    libpq,
    library,
    statements,
    transaction,
    translate,
)
from tugtool.store.postgres.address import Address, schema_of
from tugtool.store.postgres.listen import Listener
from tugtool.store.postgres.transaction import PostgresTransaction
from tugtool.store.sql import git as sql_git
from tugtool.store.sql import views as sql_views
from tugtool.system import clock as clocks

OTHER = ".tugtool/tugplan-other.md"
PASSWORD = "s3cr%20et"


@pytest.fixture
def on_postgres(tmp_path_factory):
    """PostgreSQL alone."""
    with engines.on("postgres", engines.session_root(tmp_path_factory)):
        yield


@pytest.fixture
def pg(on_postgres, lab):
    """A plan of two steps in PostgreSQL."""
    return lab("1 t", "2 t")


class _Record:
    """As much of a lab as it takes to add a plan."""

    def __init__(self, store: PostgresStore) -> None:
        self.store, self.hash = store, "h"


def _second(lab: Lab, **how: object) -> PostgresStore:
    """Another worker's connection to the same state."""
    store = open_store(lab.url, clock=lab.clock, **how)
    assert isinstance(store, PostgresStore)
    return store


def _cut(store: PostgresStore) -> None:
    """The server ends the connections of a store, as a restart does."""
    (connection,) = store._idle
    connection.send(b"select pg_backend_pid()")
    connection.flush()
    pid = connection.receive(1)[0].rows[0][0]
    other = PostgresStore(store.address.libpq)
    other.ask(b"select pg_terminate_backend($1::int)", pid)
    other.close()


# -- addresses, schemas and secrets ----------------------------------------------------


def test_an_address_is_shown_without_its_password_and_gives_its_schema_away():
    address = Address(f"postgresql://ada:{PASSWORD}@h:5/db?schema=team&sslmode=require")
    assert address.libpq == f"postgresql://ada:{PASSWORD}@h:5/db?sslmode=require"
    assert (address.shown, address.schema) == ("postgresql://ada@h:5/db?sslmode=require", "team")
    assert address.cleaned("bad s3cr et or s3cr%20et!") == "bad *** or ***!"
    assert Address("postgresql://h/db?schema=a%22").quoted_schema() == '"a%22"'


def test_two_repositories_have_two_schemas_whose_names_tell_them_apart():
    first, second = (schema_of("tugtool", f"github.com/{who}/Shop.js") for who in ("a", "b"))
    assert first.startswith("tugtool_shop_js_")
    assert first != second
    assert len(schema_of("tugtool", "h/" + "x" * 100)) == 63


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ada:{PASSWORD}@127.0.0.1:1/db",
        f"postgresql://ada:{PASSWORD}",
        f"postgresql://ada:{PASSWORD}@127.0.0.1:1/db?bad=1",
        f"postgresql://127.0.0.1:1/db?user=ada&password={PASSWORD}",
        f"postgresql://ada:{PASSWORD}@[::1/db",
        f"postgresql://127.0.0.1:1/db?user=ada&sslpassword={PASSWORD}&sslmode=odd",
        f"postgresql://ada:{PASSWORD}@127.0.0.1:99999999/db",
    ],
)
def test_no_refusal_tells_the_password(url):
    store = open_store(url, busy_seconds=0.01)
    with pytest.raises(DatabaseUnavailable) as caught:
        store.exists()
    said = str(caught.value.issue()) + caught.value.message
    assert "s3cr" not in said


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:s3cr@et@127.0.0.1:1/db",
        "postgresql://ada:s3cr/et@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?user=ada&password=s3cr@et",
        "postgresql://127.0.0.1:1/db?user=ada&password=s3cr:et",
    ],
)
def test_of_a_password_that_may_be_read_in_two_ways_no_part_is_told(url):
    # Libpq quotes what it takes for a host or a port.
    for part in ("s3cr", "et"):
        assert Address(url).cleaned(f'invalid "{part}"') == (
            "its address cannot be read; write special characters of a password as %XX"
        )
    (written,) = re.findall("s3cr.et", url)
    plain = Address(url.replace(written, "s3cr%2Fet"))
    assert plain.cleaned('invalid "s3cr/et" at 127.0.0.1') == 'invalid "***" at 127.0.0.1'


def test_parameters_are_numbered_by_their_names():
    text = "select ':' || :a_b || :c, cast(:a_b as text)"
    assert translate.numbered(text) == (
        b"select ':' || $1 || $2, cast($1 as text)",
        ("a_b", "c"),
    )


# -- transactions ----------------------------------------------------------------------


def test_rows_are_read_by_name_by_number_and_whole(pg):
    with pg.store.read(KEY) as tx:
        row = tx.one("select 1 as one, 'x' as two, 1.5 as three, exists (select 1) as four")
        assert [*row] == [1, "x", 1.5, 1]
        assert (row["two"], row[0], len(row), row.keys()[2]) == ("x", 1, 4, "three")
        assert dict(row) == {"one": 1, "two": "x", "three": 1.5, "four": 1}
        assert row == tx.one("select 1 as one, 'x' as two, 1.5 as three, exists (select 1) as four")
        assert row != (1, "x", 1.5, 1)
        assert hash(row)
        with pytest.raises(IndexError):
            row["five"]
        assert tx.first("select 1 where 1 = 2") is None
        assert tx.value("select 1 where 1 = 2") is None


def _trips(monkeypatch) -> list[int]:
    """The number of statements in every round trip from now on."""
    found = [0]
    send, flush = libpq.Connection.send, libpq.Connection.flush

    def counted(connection, *what):
        found[-1] += 1
        send(connection, *what)

    def ended(connection):
        found.append(0)
        flush(connection)

    monkeypatch.setattr(libpq.Connection, "send", counted)
    monkeypatch.setattr(libpq.Connection, "flush", ended)
    return found


def test_a_claim_and_a_completion_are_two_round_trips_each(pg, monkeypatch):
    pg.store.clock = None
    copy = PlanCopy(KEY, pg.hash)
    pg.claim(), pg.complete("step-1", force_reason="x")
    trips = _trips(monkeypatch)
    claimed = state.claim(pg.store, KEY, state.claims.Request("w"), copy=copy)
    assert (claimed["anchor"], len(trips)) == ("step-2", 3)
    trips[:] = [0]
    how = {"owner": "w", "copy": copy, "force_reason": "x"}
    assert state.complete(pg.store, KEY, "step-2", **how)["plan_completed"]
    assert len(trips) == 4  # one more for the open item, which is closed


def test_what_was_expected_is_not_asked_again_unless_something_changed(pg, monkeypatch):
    title = "select title from steps where plan_path = :plan and anchor = :anchor"
    with pg.store.write(KEY) as tx:
        tx.expect(title, anchor="step-1")
        assert tx.value(title, anchor="step-2") == "Part 2"
        trips = _trips(monkeypatch)
        assert tx.value(title, anchor="step-1") == "Part 1"
        assert trips == [0]
    for change in (PostgresTransaction.later, PostgresTransaction.run):
        with pg.store.write(KEY) as tx:
            tx.expect(title, anchor="step-1")
            assert tx.now
            change(tx, "update steps set title = title || '!' where plan_path = :plan")
            assert tx.value(title, anchor="step-1").startswith("Part 1!")
    with pg.store.write(KEY) as tx:
        tx.expect(title, anchor="step-1")
        assert tx.now
        tx.many("update steps set title = :to", [{"to": "new"}])
        assert tx.value(title, anchor="step-1") == "new"


def test_a_change_that_nobody_waits_for_is_refused_at_the_next_question_or_the_commit(pg):
    def wrong(*, asks: bool) -> None:
        with pg.store.write(KEY) as tx:
            tx.later("update plan_counts set steps_done = -1")
            if asks:
                tx.value("select 1")

    for asks in (True, False):
        with pytest.raises(QueryFailed, match="check") as caught:
            wrong(asks=asks)
        assert caught.value.by_rule
    assert pg.claim()["claimed"]


def test_a_statement_that_is_sent_often_is_prepared_by_its_server_and_by_no_pooler(pg):
    def prepared() -> list[str]:
        found = pg.store.ask(b"select statement from pg_prepared_statements").rows
        return [str(row[0]) for row in found if "plan_counts" in row[0]]

    def count() -> None:
        with pg.store.write(KEY) as tx:
            tx.run("update plan_counts set steps_ready = steps_ready")

    pg.store.close()
    for often in range(4):
        count()
        assert len(prepared()) == int(often >= 2), often
    (connection,) = pg.store._idle
    assert connection.is_direct
    pg.store.close()
    # A pooler tells a process id of its own.
    pg.store.connect = lambda: _Pooled(pg.store)
    for _ in range(4):
        count()
        assert not prepared()


class _Pooled(libpq.Connection):
    """A connection whose other end says that it is another process."""

    server_process = 1

    def __init__(self, store: PostgresStore) -> None:
        super().__init__(store._parameters(), 5)


def test_a_prepared_statement_that_is_gone_or_changed_is_sent_anew(pg):
    def title() -> str:
        with pg.store.write(KEY) as tx:
            return str(tx.one("select * from steps where anchor = 'step-1'")["title"])

    more = (b"alter table steps add column more text", b"alter table steps drop column more")
    for change in (b"deallocate all", *more):
        for _ in range(4):
            assert title() == "Part 1"
        pg.store.ask(b"select set_config('search_path', $1, false)", pg.store.address.schema)
        pg.store.ask(change)
        assert title() == "Part 1"


def test_a_statement_that_cannot_be_prepared_is_refused_with_its_own_error(pg):
    for _ in range(3):
        with pytest.raises(DatabaseUnavailable, match="no tables"), pg.store.write(KEY) as tx:
            tx.run("update odd set title = 1")
    (connection,) = pg.store._idle
    connection._names |= {b"%d" % n: None for n in range(500)}
    assert pg.claim()["claimed"]


def test_a_cursor_reads_on_while_other_statements_run(pg):
    with pg.store.read(KEY) as tx:
        numbers = tx.each("select n from generate_series(1, :most) as n", most=450)
        assert [next(numbers)[0], tx.value("select 7"), next(numbers)[0]] == [1, 7, 2]
        assert len([*numbers]) == 448


def test_cursors_of_one_name_have_their_own_columns(pg):
    """Also on a connection that knows its statements by now."""
    for _ in range(4):
        for columns in ("anchor, title", "step_index", "title, status, anchor"):
            with pg.store.read(KEY) as tx:
                rows = list(tx.each(f"select {columns} from steps order by step_index"))
            assert [row.keys() for row in rows] == [columns.split(", ")] * 2


def test_a_transaction_opened_within_another_has_a_connection_of_its_own(pg):
    with pg.store.write(KEY) as tx:
        tx.run("update steps set title = 'x'")
        with pg.store.read(KEY) as reading:
            assert {row["title"] for row in reading.all(sql.STEPS)} == {"Part 1", "Part 2"}
    assert {row["title"] for row in pg.rows(sql.STEPS)} == {"x"}


def test_nothing_is_sent_for_a_transaction_that_asks_nothing(pg):
    store = _second(pg)
    with store.write(KEY), store.read():
        assert not store._idle
    store.close()


def _try(store: PostgresStore, *statements: str) -> None:
    """A transaction whose author takes no notice of what is refused."""
    with store.write(KEY) as tx:
        for statement in statements:
            with contextlib.suppress(QueryFailed):
                tx.run(statement)


def test_in_a_group_every_transaction_is_a_commit_of_its_own(pg):
    other = _second(pg)

    def failing() -> None:
        with pg.store.group():
            pg.claim("red", "step-1")
            assert state.ready(other, KEY)["claimed_steps"] == ["step-1"]
            with pytest.raises(TugError):
                pg.claim("blue", "step-1")
            pg.claim("blue", "step-2")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert state.ready(other, KEY)["claimed_steps"] == ["step-1", "step-2"]
    assert pg.events() == ["init", "claim", "claim"]
    other.close()


def test_what_failed_cannot_be_committed(pg):
    wrong = "update steps set status = 'lost'"
    for texts in (("update steps set title = 'x'", wrong), (wrong, "select 1")):
        with pytest.raises(QueryFailed, match="check"):
            _try(pg.store, *texts)
    assert pg.row("step-1")["title"] == "Part 1"


def test_events_of_a_transaction_are_seen_by_its_own_statements(pg):
    with pg.store.write(KEY) as tx:
        tx.note("odd", {"n": 1}, anchor="step-1", actor="me", attempt=None)
        assert tx.value("select kind from events order by seq desc limit 1") == "odd"
    assert pg.events() == ["init", "odd"]


def test_text_with_nul_is_stored_as_its_picture_on_both_engines(pg, tmp_path):
    def stored(url: str) -> str:
        with contextlib.closing(open_store(url)) as store:
            store.create()
            with store.write(NO_PLAN) as tx:
                tx.run(sql.KEEP_COPY, file="f", signature="a\0b", hash="h")
            with store.read() as tx:
                return str(tx.value(sql.COPY, file="f"))

    assert {stored(pg.url), stored(f"sqlite://{tmp_path}/x.db")} == {"a\u2400b"}


def test_text_is_ordered_byte_by_byte(pg):
    with pg.store.write(NO_PLAN) as tx:
        for name in ("b", "B", "a", "_"):
            values = {"branch": "x", "base_branch": "m", "base_commit": "c"}
            tx.run(sql_git.ADD_WORKTREE, path=name, until=None, reserved_for=None, **values)
    assert [row["path"] for row in pg.rows(sql_git.WORKTREES)] == ["B", "_", "a", "b"]


def test_the_servers_clock_rules_unless_a_test_has_its_own(pg):
    with contextlib.closing(open_store(pg.url)) as store, store.write(KEY) as tx:
        server = store.ask(b"select extract(epoch from now())::bigint").rows[0][0]
        assert tx.now[:10] == "20" + tx.now[2:10]
        assert abs(clocks.milliseconds(tx.now) / 1000 - server) < 60
        assert tx.after(60) > tx.now
    with pg.store.write(KEY) as tx:
        assert tx.now == "2026-02-23T12:00:00.000Z"


# -- locks -----------------------------------------------------------------------------


def test_a_plan_is_locked_for_itself_and_whoever_keeps_it_is_named(pg):
    add(pg, OTHER, "1 t")
    hasty = _second(pg, busy_seconds=0.2)
    with pg.store.write(KEY) as tx:
        tx.run("update steps set title = 'x' where plan_path = :plan")
        # Nothing that another plan does waits for it.
        assert state.pause(hasty, OTHER)["paused"]
        with pytest.raises(QueryFailed, match="is locked by tugcode at") as caught:
            state.pause(hasty, KEY)
        assert caught.value.facts["postgres"] == "BUSY 55P03"
        assert state.show(hasty, KEY)["steps"][0]["title"] == "Part 1"
    assert state.pause(hasty, KEY)["paused"]
    hasty.close()


def test_a_lock_that_was_taken_just_now_is_waited_for(pg):
    patient = _second(pg, busy_seconds=1000)
    with pg.store.write(KEY) as tx:
        tx.run("update steps set title = 'x'")
        patient.refuse_busy([KEY])
    patient.close()


def test_plans_are_locked_in_one_order_so_that_nobody_waits_for_ever(pg):
    add(pg, OTHER, "1 t")
    gate, trouble = threading.Barrier(2), []

    def work(*plans: str) -> None:
        store = _second(pg)
        try:
            gate.wait()
            for _ in range(20):
                with store.write(*plans) as tx:
                    tx.run("update plans set updated_at = :now")
        except BaseException as error:
            trouble.append(error)
        store.close()

    threads = [threading.Thread(target=work, args=each) for each in ((KEY, OTHER), (OTHER, KEY))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trouble == []


def test_a_holder_who_has_changed_meanwhile_is_waited_for(pg, monkeypatch):
    """Many wait at one lock: nobody is refused while they come and go."""
    patient, refused = _second(pg, busy_seconds=0.3), []
    asked = PostgresStore.refuse_busy

    def refuse(self: PostgresStore, plans: list[str]) -> None:
        refused.append(plans)
        holding.__exit__(None, None, None)
        asked(self, plans)

    monkeypatch.setattr(PostgresStore, "refuse_busy", refuse)
    holding = pg.store.write(KEY)
    holding.run("update steps set title = 'x'")
    assert state.pause(patient, KEY)["paused"]
    assert refused == [[KEY]]
    patient.close()


# -- connections that are lost ---------------------------------------------------------


def test_a_connection_that_was_cut_between_two_commands_is_made_again(pg):
    _cut(pg.store)
    assert pg.claim()["claimed"]
    _cut(pg.store)
    assert pg.store.ask(b"select 1").rows[0][0] == 1


def test_a_transaction_that_is_cut_goes_on_where_it_was(pg):
    with pg.store.write(KEY) as tx:
        assert tx.first(sql.STEP, anchor="step-1")["title"] == "Part 1"
        tx.run("update steps set title = 'x' where plan_path = :plan")
        tx.note("odd", {}, anchor=None, actor="me", attempt=None)
        pg.store.give_back(tx._connection)
        _cut(pg.store)
        pg.store._idle.clear()
        assert tx.first(sql.STEP, anchor="step-1")["title"] == "x"
    assert {row["title"] for row in pg.rows(sql.STEPS)} == {"x"}
    assert pg.events() == ["init", "odd"]


def test_a_transaction_that_is_cut_ends_if_somebody_else_was_there_meanwhile(pg):
    def race() -> None:
        with pg.store.write(KEY) as tx:
            tx.first(sql.STEP, anchor="step-1")
            tx._connection.close()
            with contextlib.closing(_second(pg)) as other:
                state.claim(other, KEY, state.Request("blue"), copy=pg.copy)
            tx.run("update steps set title = 'x'")

    with pytest.raises(QueryFailed, match="ended the connection; nothing was written"):
        race()
    assert pg.row("step-1")["title"] == "Part 1"


class Cut:
    """Cuts the connection of a commit: before the server has it, or before its answer is read."""

    def __init__(self, monkeypatch, *, after: bool, times: int = 1) -> None:
        self.times = 0
        end = transaction.PostgresTransaction._end

        def cutting(tx: transaction.PostgresTransaction) -> None:
            if self.times == times:
                return end(tx)
            self.times += 1
            if after:
                end(tx)
            tx._drop()
            raise libpq.ConnectionLost("cut")

        monkeypatch.setattr(transaction.PostgresTransaction, "_end", cutting)


@pytest.mark.parametrize("after", [False, True])
def test_a_commit_that_was_not_answered_happens_exactly_once(pg, monkeypatch, after):
    cut = Cut(monkeypatch, after=after)
    got = pg.claim()
    assert (cut.times, got["claimed"], got["attempt"]) == (1, True, 1)
    assert pg.events() == ["init", "claim"]
    assert [row["number"] for row in pg.attempts("step-1")] == [1]


@pytest.mark.parametrize("after", [False, True])
def test_so_does_one_without_events(pg, monkeypatch, after):
    cut = Cut(monkeypatch, after=after)
    with pg.store.write(KEY) as tx:
        tx.run("update plan_counts set steps_ready = steps_ready + 1")
    assert cut.times == 1
    assert pg.plan()["steps_ready"] == 3


@pytest.mark.parametrize("after", [False, True])
def test_an_equal_event_of_the_same_moment_is_not_taken_for_the_lost_one(pg, monkeypatch, after):
    for owner in ("red", "red"):
        pg.claim(owner, "step-1")
        pg.artifact("step-1")
    cut = Cut(monkeypatch, after=after)
    pg.artifact("step-1")
    assert cut.times == 1
    assert pg.events().count("artifact") == 3
    assert len(pg.rows("select id from step_artifacts")) == 3


def _lose(pg: Lab, monkeypatch) -> QueryFailed:
    """The error of a commit that was not answered, and that nobody can ask for."""
    Cut(monkeypatch, after=True)
    hasty = _second(pg, busy_seconds=0.2)
    with (
        pytest.raises(QueryFailed, match="it may have been written") as caught,
        hasty.write(KEY) as tx,
    ):
        tx.run("update steps set title = 'x'")
    hasty.close()
    assert caught.value.hint == "tugcode log --limit 5"
    return caught.value


def test_a_commit_that_cannot_be_asked_for_may_have_been_written(pg, monkeypatch):
    def away(store: PostgresStore) -> None:
        raise translate.unreachable(store.address, "it is away")

    with monkeypatch.context() as patch:
        patch.setattr(PostgresStore, "connect", away)
        pg.store._idle, idle = [], pg.store._idle
        with pytest.raises(DatabaseUnavailable):
            pg.claim()
    pg.store._idle = idle
    take, taken = PostgresStore.take, []

    def once(store: PostgresStore) -> libpq.Connection:
        taken.append(store)
        return take(store) if len(taken) == 1 else away(store)

    with monkeypatch.context() as patch:
        patch.setattr(PostgresStore, "take", once)
        assert isinstance(_lose(pg, patch).__cause__, DatabaseUnavailable)


def test_so_may_one_whose_locks_are_held(pg, monkeypatch):
    """Another process holds the lock all the time, so the lost transaction may still run."""
    end = transaction.PostgresTransaction._end
    holder = _second(pg).write(KEY)

    def held(tx: transaction.PostgresTransaction) -> None:
        end(tx)
        holder.run("update steps set title = 'y' where anchor = 'step-2'")
        tx._drop()
        raise libpq.ConnectionLost("cut")

    monkeypatch.setattr(transaction.PostgresTransaction, "_end", held)
    hasty = _second(pg, busy_seconds=0.2)
    with pytest.raises(QueryFailed, match="it may have been written"):
        state.pause(hasty, KEY)
    hasty.close()
    holder._roll_back()
    assert pg.plan()["paused_at"]


def test_old_receipts_are_removed_and_those_of_a_day_are_kept(pg, monkeypatch):
    monkeypatch.setattr(statements, "_FORGETFUL", b"g")
    kept = "select at, token from receipts"
    before = {row["token"] for row in pg.rows(kept)}
    pg.claim()
    assert before < {row["token"] for row in pg.rows(kept)}
    pg.clock.advance(24 * 3600 + 1)
    pg.beat("step-1")
    assert len(pg.rows(kept)) == 1


def test_a_transaction_that_removes_receipts_is_otherwise_as_every_other(pg, monkeypatch):
    send, sent = libpq.Connection.send, list[bytes]()

    def sending(connection, statement, values=()):
        sent.append(statement)
        send(connection, statement, values)

    def pausing(forgetful: bytes) -> list[bytes]:
        monkeypatch.setattr(statements, "_FORGETFUL", forgetful)
        sent.clear()
        state.pause(pg.store, KEY)
        said = list(sent)
        state.resume(pg.store, KEY)
        return said

    assert pg.plan()["paused_at"] is None
    monkeypatch.setattr(libpq.Connection, "send", sending)
    never, always = pausing(b""), pausing(b"g")
    assert statements.FORGET in always
    assert [each for each in always if each != statements.FORGET] == never


def test_a_deadlock_that_the_server_resolves_is_tried_again(pg, monkeypatch):
    exchange, failed = transaction.PostgresTransaction._exchange, []

    def deadlocked(tx, batch):
        if not failed:
            failed.append(batch)
            tx._fail(libpq.StatementFailed("40P01", "deadlock detected"), opening=False)
        return exchange(tx, batch)

    monkeypatch.setattr(transaction.PostgresTransaction, "_exchange", deadlocked)
    assert pg.claim()["claimed"]


class Overtaken:
    """Before each of the first commits another worker claims a step, and the connection is cut."""

    def __init__(self, pg: Lab, monkeypatch, times: int) -> None:
        self.times = 0
        end = transaction.PostgresTransaction._end
        self._owners = [f"blue {n}" for n in range(times)]

        def overtaken(tx: transaction.PostgresTransaction) -> None:
            if self._owners and tx._store is pg.store:
                owner = self._owners.pop()
                self.times += 1
                tx._drop()
                with contextlib.closing(_second(pg)) as other:
                    state.claim(other, KEY, state.Request(owner), copy=pg.copy)
                raise libpq.ConnectionLost("cut")
            end(tx)

        monkeypatch.setattr(transaction.PostgresTransaction, "_end", overtaken)


def test_a_server_that_stays_read_only_is_named_after_a_while(pg):
    hasty = open_store(f"{pg.url}&options=-cdefault_transaction_read_only%3Don", busy_seconds=0.1)
    with pytest.raises(DatabaseUnavailable, match="in a read-only transaction"):
        state.pause(hasty, KEY)
    assert state.show(hasty, KEY)["paused_at"] is None
    hasty.close()


def test_an_operation_that_was_overtaken_is_called_again(on_postgres, lab, monkeypatch):
    pg = lab(*(f"{n}" for n in range(1, 5)))
    cut = Overtaken(pg, monkeypatch, 3)
    assert (pg.claim()["anchor"], cut.times) == ("step-4", 3)
    assert pg.events().count("claim") == 4


def test_one_that_is_overtaken_again_and_again_says_that_nothing_was_written(
    on_postgres, lab, monkeypatch
):
    pg = lab(*(f"{n}" for n in range(1, 9)))
    cut = Overtaken(pg, monkeypatch, 7)
    with pytest.raises(QueryFailed, match="nothing was written") as caught:
        pg.claim()
    assert (caught.value.facts["postgres"], cut.times) == ("OVERTAKEN", 6)
    assert pg.events().count("claim") == 6


def test_a_repeated_transaction_that_is_refused_was_overtaken_and_wrote_nothing(pg):
    add, table = "insert into seen values ('x')", f"{pg.store.address.quoted_schema()}.seen"
    pg.store.ask(f"create table {table} (id text primary key)".encode())

    def race() -> None:
        with pg.store.write(KEY) as tx:
            tx.run(add)
            tx._connection.close()
            with contextlib.closing(_second(pg)) as other, other.write("another") as second:
                second.run(add)
            tx.first(sql.STEP, anchor="step-1")

    try:
        with pytest.raises(QueryFailed, match="ended the connection; nothing was written"):
            race()
    finally:
        pg.store.ask(f"drop table {table}".encode())


@pytest.mark.proof(share=0)
def test_a_server_that_restarts_costs_workers_seconds_and_nothing_else():
    server = postgres_server.Server(Path(postgres_server.tempfile.mkdtemp(prefix="tug-pg-")))
    server.make()
    server.start()
    try:
        _restart_under_workers(server)
    finally:
        server.kill()
        postgres_server.shutil.rmtree(server.directory)


def _persist(operation: Callable[[], dict]) -> dict:
    """As orchestrators do: what was surely not written is tried again."""
    while True:
        try:
            return operation()
        except QueryFailed as error:
            if "nothing was written" not in error.message:
                raise


def _restart_under_workers(server: postgres_server.Server) -> None:
    url, copy = server.url("postgres", schema="t"), PlanCopy("/p", "h")
    with contextlib.closing(PostgresStore(url)) as store:
        create.make(store)
        add(_Record(store), KEY, *(f"{n}" for n in range(1, 41)))
    done, trouble = [], []

    def work(name: str) -> None:
        own, request = open_store(url, busy_seconds=30), state.Request(name, also=True)
        try:
            while (got := _persist(lambda: state.claim(own, KEY, request, copy=copy)))["claimed"]:
                step = got["anchor"]
                _persist(lambda step=step: state.complete(own, KEY, step, owner=name, copy=copy))
                done.append(step)
        except BaseException as error:
            trouble.append(error)
        own.close()

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for number in (3, 12):
        while len(done) < number and not trouble:
            threads[0].join(0.001)
        server.kill(signal.SIGQUIT)
        server.start()
    for thread in threads:
        thread.join()
    assert trouble == []
    with contextlib.closing(PostgresStore(url)) as store, store.read(KEY) as tx:
        completed = [row["anchor"] for row in tx.all(sql.STEPS) if row["status"] == "completed"]
        told = [row["step_anchor"] for row in tx.all(sql.EVENTS) if row["kind"] == "complete"]
    assert sorted(told) == sorted(completed) == sorted(done)
    assert len(done) == 40


def test_a_commit_is_tried_until_it_is_answered(pg, monkeypatch):
    cut = Cut(monkeypatch, after=False, times=3)
    assert pg.claim()["claimed"]
    assert (cut.times, pg.events()) == (3, ["init", "claim"])


def test_whoever_gets_no_connection_is_told_that_nothing_was_written(pg, monkeypatch):
    def lost(tx, batch):
        raise libpq.ConnectionLost("cut")

    monkeypatch.setattr(transaction.PostgresTransaction, "_exchange", lost)
    hasty = _second(pg, busy_seconds=0.1)
    with pytest.raises(QueryFailed, match="nothing was written") as caught:
        state.pause(hasty, KEY)
    assert (caught.value.facts["postgres"], caught.value.hint) == ("LOST", "try again")
    hasty.close()


def test_rows_that_were_read_through_a_cursor_are_not_read_again(pg):
    def cut() -> None:
        with pg.store.read(KEY) as tx:
            rows = tx.each("select n from generate_series(1, 1000) as n")
            next(rows)
            tx._connection.close()
            assert not list(rows)

    with pytest.raises(QueryFailed, match="ended the connection"):
        cut()


def test_many_rows_are_sent_in_parts_and_a_long_transaction_is_not_repeated(pg):
    rows = [{"file": str(n), "signature": "s", "hash": "h"} for n in range(2300)]
    with pg.store.write(NO_PLAN) as tx:
        tx.many(sql.KEEP_COPY, iter(rows))
        assert tx._log is None
        tx.many(sql.KEEP_COPY, [])
    assert pg.rows("select count(*) as n from plan_copies") == [{"n": 2300}]


def test_an_event_that_is_refused_takes_its_transaction_with_it(pg):
    def wrong() -> None:
        with pg.store.write("nowhere") as tx:
            tx.run("update plan_copies set plan_hash = 'x'")
            tx.note("odd", {}, anchor=None, actor=None, attempt=None)

    with pytest.raises(QueryFailed, match="foreign key") as caught:
        wrong()
    assert caught.value.by_rule
    assert pg.claim()["claimed"]


def test_a_transaction_that_fails_on_a_lost_connection_fails_with_its_own_error(pg):
    def fail() -> None:
        with pg.store.write(KEY) as tx:
            tx.run("update steps set title = 'x'")
            tx._connection.close()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert pg.row("step-1")["title"] == "Part 1"


def test_a_connection_that_is_gone_is_noticed_wherever_it_is_used(pg):
    (gone,) = pg.store._idle
    gone.close()
    with pytest.raises(libpq.ConnectionLost):
        gone.flush()
    gone._owed = [(0, b"select 1")]
    with pytest.raises(libpq.ConnectionLost):
        gone.receive(1)
    with pytest.raises(QueryFailed, match="nothing was made"):
        create.migrate(pg.store)
    pg.store._idle += [gone, gone, gone]
    assert pg.store.ask(b"select 1").rows[0][0] == 1
    hasty = _second(pg, busy_seconds=0.01)
    hasty._idle += [gone, gone, gone]
    with pytest.raises(QueryFailed, match="nothing was written"):
        hasty.ask(b"select 1")
    hasty.close()
    with pytest.raises(QueryFailed, match="does not exist"):
        pg.store.ask(b"select odd")


def test_a_server_that_does_not_answer_is_not_waited_for_for_ever():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(libpq.ConnectionFailed, match="no answer within"):
            libpq.Connection({"dbname": f"postgresql://127.0.0.1:{port}/x"}, 0.05)


def test_of_several_servers_the_one_that_can_be_written_to_is_meant():
    several = PostgresStore("postgresql://a:1,b:2/x")
    assert several._parameters()["target_session_attrs"] == "read-write"
    assert "target_session_attrs" not in PostgresStore("postgresql://a/x")._parameters()


# -- events and waiting ----------------------------------------------------------------


def test_no_follower_misses_an_event_that_was_begun_before_and_committed_after_another(pg):
    add(pg, OTHER, "1 t")
    other = _second(pg)
    with pg.store.write(KEY) as tx:
        tx.note("early", {}, anchor=None, actor=None, attempt=None)
        tx.run("update steps set title = 'x' where plan_path = :plan")
        with other.write(OTHER) as late:
            late.note("late", {}, anchor=None, actor=None, attempt=None)
        seen = pg.rows(sql_views.ALL_EVENTS, after=0, since="", most=99)
        assert [row["kind"] for row in seen] == ["init", "init", "late"]
    after = pg.rows(sql_views.ALL_EVENTS, after=seen[-1]["seq"], since="", most=99)
    assert [row["kind"] for row in after] == ["early"]
    other.close()


def test_a_plain_sequence_would_lose_that_event(pg):
    """What the counter is for, seen to fail without it."""
    add(pg, OTHER, "1 t")
    other = _second(pg)
    with pg.store.write(KEY) as tx:
        tx.run("create sequence plain")
        early = tx.value("select nextval('plain')")
    with other.write(OTHER) as tx:
        late = tx.value("select nextval('plain')")
    # The later number could be read, and the earlier one not yet.
    assert early < late
    other.close()


def test_waiting_ends_with_the_next_commit_of_anybody(pg):
    watcher = _second(pg)
    assert not watcher.wait_for_change(0)
    pg.claim()
    assert watcher.wait_for_change(30)
    assert not watcher.wait_for_change(0)
    thread = threading.Thread(target=pg.complete, args=("step-1",), kwargs={"force_reason": "x"})
    thread.start()
    assert watcher.wait_for_change(30)
    thread.join()
    watcher.close()


def _notices(pg: Lab, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The notices that are sent from now on."""
    sent: list[bytes] = []
    send = libpq.Connection.send

    def sending(connection: libpq.Connection, statement: bytes, *values: object) -> None:
        sent.extend([statement] if b"pg_notify" in statement else [])
        send(connection, statement, *values)

    monkeypatch.setattr(libpq.Connection, "send", sending)
    return sent


def test_a_notice_is_sent_only_if_a_process_waits_and_has_had_none_just_now(pg, monkeypatch):
    name = pg.store.address.quoted_schema()
    sent = _notices(pg, monkeypatch)
    pg.claim()
    assert sent == []
    watcher = _second(pg)
    assert not watcher.wait_for_change(0)
    pg.beat("step-1")
    assert len(sent) == 1
    pg.beat("step-1")
    # Another one a moment later: the watcher looks by itself.
    assert len(sent) == 1
    assert [watcher.wait_for_change(30) for _ in range(2)] == [True, True]
    assert not watcher.wait_for_change(0)
    # As if that were some time ago; or in the future, before a clock was set back.
    for moment in (0, 10**15):
        pg.store.ask(f"update {name}.repository set noticed_at = {moment}".encode())
        pg.beat("step-1")
    assert len(sent) == 3
    pg.store.ask(f"update {name}.repository set watched_until = 0, noticed_at = 0".encode())
    pg.beat("step-1")
    assert len(sent) == 3
    watcher.close()


def test_a_commit_without_a_notice_is_found_soon(pg, monkeypatch):
    name = pg.store.address.quoted_schema()
    watcher = _second(pg)
    assert not watcher.wait_for_change(0)
    pg.claim()
    assert watcher.wait_for_change(30)
    pg.beat("step-1")
    assert watcher.wait_for_change(0.2)
    # Each look that finds nothing makes the next one later.
    looks = [watcher._listener._look_seconds]
    for _ in range(2):
        assert not watcher.wait_for_change(1.5 * looks[-1])
        looks.append(watcher._listener._look_seconds)
    assert looks == [looks[0], 2 * looks[0], 4 * looks[0]]
    # It says again that it waits.
    pg.store.ask(f"update {name}.repository set watched_until = 0".encode())
    watcher._listener._watched_until = 0
    assert not watcher.wait_for_change(0)
    asked = pg.store.ask(f"select watched_until > 0 from {name}.repository".encode())
    assert asked.rows[0][0] == 1
    watcher.close()


def test_changes_of_different_tables_are_one_statement():
    change = [
        (b"update steps set title = $1 where anchor = $2", [b"a", b"b"]),
        (b"insert into attempts values ($1, $1)", [b"c"]),
        (b"delete from unsaved where number = $1", [b"d"]),
        (b"update plans set title = 'x' from steps where anchor = $1", [b"e"]),
        (b"insert into events values ($1)", [b"f"]),
        (b"insert into events values ($1)", [b"g"]),
    ]
    assert translate.merged([]) == []
    # The table of the fourth is its own, but it reads what the first has changed.
    assert translate.merged(change) == [
        (
            b"with w0 as (delete from unsaved where number = $4),"
            b" w1 as (insert into attempts values ($3, $3))"
            b" update steps set title = $1 where anchor = $2",
            [b"a", b"b", b"c", b"d"],
        ),
        (
            b"with w0 as (insert into events values ($2))"
            b" update plans set title = 'x' from steps where anchor = $1",
            [b"e", b"f"],
        ),
        change[-1],
    ]


def test_few_of_the_statements_that_were_put_together_are_kept(monkeypatch):
    monkeypatch.setattr(translate, "_merged", {})
    for n in range(2 * translate._MOST_MERGED):
        assert translate.merged([(b"delete from t%d" % n, [])]) == [(b"delete from t%d" % n, [])]
    assert len(translate._merged) < translate._MOST_MERGED + 2


def test_tables_of_an_older_schema_that_lack_a_column_are_refused_by_their_version(pg):
    name = pg.store.address.quoted_schema()
    pg.store.ask(f"alter table {name}.repository drop column noticed_at".encode())
    pg.store.ask(f"update {name}.repository set version = {schema.VERSION - 1}".encode())
    with pytest.raises(DatabaseUnavailable, match="has the older schema"):
        pg.claim()
    pg.store.ask(f"update {name}.repository set version = {schema.VERSION}".encode())
    with pytest.raises(QueryFailed, match="noticed_at"):
        pg.claim()
    engines.drop(pg.url)


def test_a_watcher_looks_again_until_its_time_is_over(pg):
    assert not pg.store.wait_for_change(0)
    pg.store._listener._look_seconds = 0.01
    assert not pg.store.wait_for_change(0.05)


def test_what_a_pooler_swallows_is_found_by_looking(pg, monkeypatch):
    monkeypatch.setattr(libpq.Connection, "_noticed", lambda self: [])
    monkeypatch.setattr("tugtool.store.postgres.listen.LOOK_SECONDS", 0.01)
    watcher = _second(pg)
    assert not watcher.wait_for_change(0)
    pg.claim()
    assert watcher.wait_for_change(30)
    watcher.close()


def test_a_watcher_looks_for_as_long_as_it_was_asked_to(pg, monkeypatch):
    monkeypatch.setattr("tugtool.store.postgres.listen.LOOK_SECONDS", 0.01)
    watcher = _second(pg)
    assert not watcher.wait_for_change(0.05)
    pg.claim()
    # The notice arrives with the answer to something else.
    assert watcher._listener._number() == 2
    assert watcher.wait_for_change(30)
    watcher._listener.close()
    watcher.close()
    nowhere = PostgresStore(f"{pg.url}x")
    with pytest.raises(DatabaseUnavailable, match="has no tables"):
        nowhere.wait_for_change(0)
    nowhere.close()


def test_a_watcher_whose_connection_is_lost_hears_of_what_it_missed(pg):
    watcher = _second(pg)
    assert not watcher.wait_for_change(0)
    listener = watcher._listener
    watcher._idle.append(listener._connection)
    _cut(watcher)
    watcher._idle.clear()
    pg.claim()
    assert watcher.wait_for_change(30)
    watcher.close()


def test_a_watcher_survives_connections_that_are_lost_again_and_again(pg, monkeypatch):
    watcher = _second(pg, busy_seconds=30)
    asked, lost = Listener._ask, [3]

    def cut(listener: Listener, statement: bytes) -> libpq.Outcome:
        if lost[0]:
            lost[0] -= 1
            raise libpq.ConnectionLost("cut")
        return asked(listener, statement)

    monkeypatch.setattr(Listener, "_ask", cut)
    assert not watcher.wait_for_change(0)
    # Also in the first look on a new connection: then the caller should look itself.
    lost[0] = 1
    watcher._listener.close()
    begun = lambda self: setattr(self, "_connection", self._store.connect())  # noqa: E731
    monkeypatch.setattr(Listener, "_begin", begun)
    watcher._listener._seen = None
    assert watcher.wait_for_change(0)
    monkeypatch.undo()
    monkeypatch.setattr(Listener, "_ask", cut)
    lost[0] = 1000
    watcher.busy_seconds = 0.1
    with pytest.raises(QueryFailed, match="ended the connection"):
        watcher.wait_for_change(0)
    watcher.close()


@pytest.mark.parametrize("answers", [1, 2])
def test_a_follower_whose_look_was_cut_while_another_wrote_looks_again(pg, monkeypatch, answers):
    """The first answer is the same as before; the second, the new events, is not."""
    follower = _second(pg)
    reader = state.Reader()
    assert [event["kind"] for event in reader.page(follower)] == ["init"]
    exchange, cut = transaction.PostgresTransaction._exchange, []

    def cutting(tx: transaction.PostgresTransaction, batch: list) -> list:
        if tx._store is follower and len(tx._log) == answers and not cut:
            cut.append(pg.claim())
            raise libpq.ConnectionLost("cut")
        return exchange(tx, batch)

    monkeypatch.setattr(transaction.PostgresTransaction, "_exchange", cutting)
    assert [event["kind"] for event in reader.page(follower)] == ["claim"]
    assert cut
    follower.close()


# -- tables ----------------------------------------------------------------------------


def test_two_repositories_in_one_database_share_nothing(on_postgres, tmp_path):
    base = engines.url_in(tmp_path)
    stores = [PostgresStore(base, repository=f"h/{name}", clock=Clock()) for name in ("a", "b")]
    for store in stores:
        assert not store.exists()
        with pytest.raises(DatabaseUnavailable, match="has no tables for this repository"):
            store.create()
        assert create.make(store, roots="r-" + str(store.repository))
        assert not create.make(store)
        assert store.create() is None
    for store in stores:
        add(_Record(store), KEY, "1 t", "2 t")
    assert state.pause(stores[0], KEY)["paused"]
    assert [state.show(store, KEY)["paused_at"] is None for store in stores] == [False, True]
    for store in stores:
        store.ask(f"drop schema {store.address.quoted_schema()} cascade".encode())
        store.close()


def test_clones_that_disagree_about_the_name_of_one_history_are_told(on_postgres, tmp_path):
    base = engines.url_in(tmp_path)
    first, second = (PostgresStore(base, repository=name) for name in ("h/a", "h/other"))
    create.make(first, roots="abc")
    with pytest.raises(DatabaseUnavailable, match="under another name, h/a") as caught:
        create.make(second, roots="abc")
    assert 'state.repository = "h/a"' in caught.value.hint
    assert first.roots() == ["abc"]
    named = PostgresStore(f"{base.partition('&schema')[0]}&schema={first.address.schema}")
    named.repository = "h/third"
    with pytest.raises(DatabaseUnavailable, match="has the state of h/a"), named.read() as tx:
        tx.value("select 1")
    first.ask(f"drop schema {first.address.quoted_schema()} cascade".encode())
    for store in (first, second, named):
        store.close()


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            "steps set status = 'done'",
            "steps set open_deps = -1",
            "steps set status = 'completed'",
        ),
        *("steps set completed_at = lease_expires_at", "steps set lease_expires_at = 'tomorrow'"),
        *("plan_counts set steps_ready = -1", "plan_counts set steps_done = steps_total + 1"),
    ],
)
def test_the_tables_that_every_claim_writes_refuse_holds_and_counts_that_cannot_be(pg, wrong):
    assert pg.claim()["claimed"]
    with pytest.raises(QueryFailed, match="check") as caught, pg.store.write(KEY) as tx:
        tx.run(f"update {wrong} where plan_path = :plan")
    assert caught.value.by_rule


def test_a_newer_schema_is_refused_and_an_older_one_is_migrated_only_on_purpose(pg):
    def say(version: int) -> None:
        name = pg.store.address.quoted_schema()
        pg.store.ask(f"update {name}.repository set version = {version}".encode())

    assert create.migrate(pg.store) is None
    say(schema.VERSION + 1)
    for refused in (lambda: create.migrate(pg.store), pg.show):
        with pytest.raises(NewerDatabase):
            refused()
    say(schema.VERSION - 1)
    with pytest.raises(DatabaseUnavailable, match="has the older schema") as caught:
        pg.claim()
    assert caught.value.hint == "tugcode migrate"
    say(schema.VERSION)
    assert pg.claim()["claimed"]


def test_an_older_schema_is_migrated_in_one_transaction(pg, monkeypatch):
    new = "create table odd (x text not null){strict}"
    monkeypatch.setattr(schema, "MIGRATIONS", ((schema.VERSION, (new,)),))
    name = pg.store.address.quoted_schema()
    for _ in range(2):
        pg.store.ask(f"update {name}.repository set version = {schema.VERSION - 1}".encode())
        try:
            assert create.migrate(pg.store) == schema.VERSION - 1
        except QueryFailed as error:
            # The table is there already: nothing of it is done twice.
            assert "already exists" in error.message  # noqa: PT017
            assert (
                pg.store.ask(f"select version from {name}.repository".encode()).rows[0][0]
                == schema.VERSION - 1
            )
    pg.store.ask(f"drop table {name}.odd".encode())
    pg.store.ask(f"update {name}.repository set version = {schema.VERSION}".encode())


COLUMNS = """
select table_name, ordinal_position, column_name, data_type, is_nullable, collation_name,
       column_default
  from information_schema.columns where table_schema = $1 order by 1, 2
"""
INDEXES = (
    "select indexname, replace(indexdef, $2, '') from pg_indexes where schemaname = $1 order by 1"
)
RULES = """
select conrelid::regclass::text, conname, replace(pg_get_constraintdef(c.oid), $2, '')
  from pg_constraint c join pg_namespace n on n.oid = c.connamespace
 where n.nspname = $1 and contype <> 'n' order by 1, 2
"""
FUNCTIONS = """
select proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
 where n.nspname = $1 order by 1
"""


def _shape(store: PostgresStore) -> list[list]:
    name = store.address.schema
    found = [store.ask(COLUMNS.encode(), name)]
    found += [store.ask(text.encode(), name, f"{name}.") for text in (INDEXES, RULES)]
    found.append(store.ask(FUNCTIONS.encode(), name))
    return [
        [tuple(str(cell).replace(f"{name}.", "") for cell in row) for row in each.rows]
        for each in found
    ]


@pytest.fixture(params=[13, 14, 15])
def older(on_postgres, tmp_path, request):
    """Real rows in the tables of an older schema, as its own program made them; and a fresh one."""
    name = f"older_{request.param}"
    base = engines.url_in(tmp_path).partition("&schema")[0]
    store = PostgresStore(f"{base}&schema={name}")
    owners.share(store, owners.Machine("id-a", "till"))
    fresh = PostgresStore(engines.url_in(tmp_path))
    file = Path(__file__).parent / f"postgres-{request.param}.sql"
    text = file.read_text().replace("{schema}", name)
    connection = store.take()
    begin = ("begin", f"create schema {name}", create._path(name))
    create._run(store, connection, (*begin, *text.split("\n--\n"), "commit"))
    connection.close()
    yield store, fresh, request.param
    store.ask(f"drop schema {name} cascade".encode())
    store.close()
    fresh.close()


def _column(store: PostgresStore, text: str) -> list:
    return [row[0] for row in store.ask(text.encode()).rows]


def test_a_migrated_schema_is_the_same_as_a_fresh_one_and_its_rows_belong_to_the_machine(older):
    store, fresh, version = older
    name = store.address.quoted_schema()
    with contextlib.suppress(TugError):
        store.ask(b"create role worker login")
    store.ask(f"grant select, insert on {name}.plans to worker".encode())
    assert create.migrate(store) == version
    assert _shape(store) == _shape(fresh)
    assert _column(
        store, f"select distinct claimed_by from {name}.steps order by 1 nulls last"
    ) == [
        "id-a:/srv/shop-1",
        "id-a:/srv/shop-3",
        None,
    ]
    for table, column in create._OWNERS:
        found = _column(store, f"select {column} from {name}.{table} where {column} is not null")
        assert all(each.startswith("id-a:") for each in found), table
    assert _column(store, f"select worktree from {name}.dashes") == ["id-a:.tugtree/tugdash__tidy"]
    assert _column(store, f"select name from {name}.machines where id = 'id-a'") == ["till"]
    (epoch,) = _column(store, f"select epoch from {name}.epoch")
    assert re.fullmatch("[0-9a-f]{32}", epoch)
    new = ("epoch", "machines", "receipts", "requests") if version < 14 else ()
    for table in (*new, "unpublished"):
        rights = f"select has_table_privilege('worker', '{name}.{table}', 'insert')"
        assert _column(store, rights) == [True], table


def test_whoever_makes_tables_that_another_has_just_made_makes_none(pg, monkeypatch):
    monkeypatch.setattr(PostgresStore, "exists", lambda self: False)
    assert not create.make(pg.store)


def test_a_role_with_rights_to_rows_alone_can_do_everything_but_make_tables(pg, tmp_path):
    name = pg.store.address.quoted_schema()
    ask = pg.store.ask
    with contextlib.suppress(TugError):
        ask(b"create role worker login")
    ask(f"grant usage on schema {name} to worker".encode())
    ask(f"grant select, insert, update, delete on all tables in schema {name} to worker".encode())
    ask(f"grant usage, select on all sequences in schema {name} to worker".encode())
    url = pg.url.replace("user=postgres", "user=worker")
    store = open_store(url, clock=pg.clock)
    pg.store.close()
    pg.store = store
    assert pg.claim()["claimed"]
    pg.artifact("step-1")
    pg.close("step-1")
    assert pg.complete("step-1")["completed"]
    add(pg, OTHER, "1 t")
    ask(f"revoke all on {name}.receipts from worker".encode())
    with pytest.raises(DatabaseUnavailable, match="permission denied for table rec") as told:
        pg.claim()
    assert "has not granted this role a right" in told.value.message
    assert told.value.hint == "tugcode doctor"
    made = PostgresStore(url, repository="h/new")
    with pytest.raises(DatabaseUnavailable, match="permission denied") as told:
        create.make(made)
    assert told.value.hint == "the same with the owner's address in TUGCODE_STATE_URL"
    made.close()


def test_refusals_of_a_server_that_cannot_be_used(on_postgres, monkeypatch, tmp_path):
    url = engines.url_in(tmp_path)
    missing = PostgresStore(url.replace("/tugtool?", "/nowhere?"))
    with pytest.raises(DatabaseUnavailable, match=r'cannot be reached: .*"nowhere" does not exist'):
        missing.exists()
    down = PostgresStore("postgresql:///x?host=/nowhere&port=1", busy_seconds=0)
    with pytest.raises(DatabaseUnavailable) as caught:
        down.exists()
    assert "cannot be reached: connection to server on socket" in caught.value.message
    assert caught.value.message.endswith("failed: No such file or directory")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    asked = PostgresStore(url.replace("user=postgres", f"user={postgres_server.ASKED}"))
    monkeypatch.delenv("PGPASSWORD", raising=False)
    with monkeypatch.context() as once:
        # Trying again cannot help.
        once.setattr("time.sleep", lambda _: pytest.fail("it tried again"))
        with pytest.raises(DatabaseUnavailable, match="no password supplied"):
            asked.exists()
    with monkeypatch.context() as newer:
        newer.setattr("tugtool.store.postgres.OLDEST_SERVER", 10**9)
        with pytest.raises(DatabaseUnavailable, match="14 or newer is needed"):
            PostgresStore(url).exists()


def test_the_library_is_the_systems_or_that_of_a_wheel(on_postgres, monkeypatch, tmp_path):
    url = engines.url_in(tmp_path)
    monkeypatch.setattr(library, "_library", None)
    monkeypatch.setattr(library, "NAMES", ("nowhere.so",))
    monkeypatch.setattr(library, "WHEELS", ())
    with pytest.raises(DatabaseUnavailable, match="needs the library libpq: none was found") as it:
        PostgresStore(url).exists()
    assert it.value.hint == "pip install 'tugtool[postgres]'"
    monkeypatch.setattr(library, "NAMES", ())
    monkeypatch.setattr(library, "WHEELS", ("psycopg2_binary.libs",))
    # The library of the wheel.
    store = PostgresStore(url)
    assert store.exists()
    store.close()
    monkeypatch.setattr(library, "_library", None)
    with monkeypatch.context() as newer:
        newer.setattr(library, "OLDEST_VERSION", 10**9)
        with pytest.raises(library.LibraryMissing, match="and 14 is needed"):
            library.loaded()


def test_a_time_is_read_by_hand_as_the_library_reads_it():
    # Every day of four centuries and more, each at another moment of it.
    for day in range(47 * 10**4):
        milliseconds = day * 86_400_000 + day * 7919 % 86_400_000
        assert statements.milliseconds(clocks.text(milliseconds)) == milliseconds


# -- query plans -----------------------------------------------------------------------

#: A whole table is read, or every step of a plan for each row.
WASTEFUL = re.compile(r"Seq Scan|Bitmap|Join Filter")
#: Rows of a large plan in every table that a worker reads; nobody analyses them.
LARGE = (
    "insert into steps (plan_path, anchor, step_index, title, status, attempt,"
    " claims_without_progress, open_deps)"
    " select :plan, 'n' || n, n, 'x', 'pending', 1, 0, 0 from generate_series(10, 5000) n",
    "insert into step_deps select :plan, 'n' || n, 'n' || (n + 1) from generate_series(10, 4999) n",
    "insert into checklist_items (plan_path, step_anchor, kind, ordinal, text, status)"
    " select :plan, 'n' || n, 'task', 0, 'x', 'open' from generate_series(10, 5000) n",
    "insert into attempts (plan_path, step_anchor, number, worktree, lease_seconds, claimed_at,"
    " seen_at, ended_at, outcome) select :plan, 'n' || n, 1, 'w', 1, :now, :now, :now, 'released'"
    " from generate_series(10, 5000) n",
)


def _plan(tx: transaction.PostgresTransaction, statement: str) -> str:
    query, names = translate.numbered(statement)
    rows = tx._run((b"explain " + query, [b"1" for _ in names]))[-1].rows
    return "\n".join(str(row[0]) for row in rows)


def test_no_statement_of_a_worker_reads_a_large_plan_without_statistics(pg):
    with pg.store.write(KEY) as tx:
        for statement in LARGE:
            tx.run(statement)
    with pg.store.read(KEY) as tx:
        plans = {name: _plan(tx, test_sql.STATEMENTS[name]) for name in test_sql.PLANS}
    assert [name for name, plan in plans.items() if WASTEFUL.search(plan)] == []
    assert "steps_ready" in plans["CLAIMABLE_STEPS"]


def test_the_check_notices_an_index_that_is_gone(pg):
    class Undone(Exception):
        pass

    def without() -> str:
        with pg.store.write(KEY) as tx:
            for statement in LARGE:
                tx.run(statement)
            tx.run("drop index step_deps_back")
            raise Undone(_plan(tx, sql.DEPENDENTS))

    with pytest.raises(Undone) as told:
        without()
    assert "step_deps_back" not in str(told.value)


def test_now_and_then_a_completion_thins_the_log_of_heartbeats(pg, monkeypatch):
    lab = pg
    lab.claim()
    for _ in range(3):
        lab.clock.advance(60)
        lab.beat("step-1")
    lab.clock.advance(2 * 3600)

    def heartbeats(chance: int) -> int:
        monkeypatch.setattr(os, "urandom", lambda _: bytes([chance]))
        assert back_up(lab.store) is None
        monkeypatch.undo()
        return len(lab.rows("select seq from events where kind = 'heartbeat'"))

    assert [heartbeats(chance) for chance in (8, 7, 0)] == [3, 1, 1]
