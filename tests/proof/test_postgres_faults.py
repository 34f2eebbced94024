"""Lost connections, killed servers, standbys that take over, poolers, full disks.

Nothing that was acknowledged is lost, nothing is done twice, and no worker needs a person.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import mounts
import pg_disturbed
import pg_workers
import pytest
from pg_pooler import Pooler
from pg_proxy import TO_CLIENT, TO_SERVER, Proxy
from pg_scenes import SCENES, Point, Stage, Wrong

from support import engines, postgres_server
from tugtool import state
from tugtool.errors import TugError
from tugtool.state.record import PlanCopy
from tugtool.store.postgres import PostgresStore, transaction

pytestmark = pytest.mark.proof(share=0)


@pytest.fixture
def stage(tmp_path_factory) -> Iterator[Stage]:
    """A plan in the session's server, behind a proxy."""
    with engines.on("postgres", engines.session_root(tmp_path_factory)):
        yield from _stage(str(engines._server))


def _stage(server: str) -> Iterator[Stage]:
    with pg_disturbed.directory() as path, Proxy(server, path) as proxy:
        stage = Stage(path / "lab", proxy)
        yield stage
        stage.close()


# -- connections that are cut ----------------------------------------------------------


@pytest.mark.proof(share=3)
@pytest.mark.parametrize("scene", SCENES)
def test_an_operation_is_done_once_wherever_its_connection_is_cut(stage, spell, scene):
    """After every byte, in a random order; a short round takes a few of them."""
    stage.prepare(scene)
    points = list(stage.points(scene))
    chance = random.Random(spell.seed)
    # Where the commit is under way, and anywhere.
    late = [each for each in points if each.at > stage.lengths[scene][each.direction] - 400]
    chosen = [*chance.sample(late, 4), *chance.sample(points, 4)]
    chosen += chance.sample(points, len(points)) if spell.seconds else []
    cut = 0
    for number, point in enumerate(chosen):
        if number >= 8 and not spell.goes_on():
            break
        cut += stage.strike(point._replace(times=chance.choice((1, 1, 1, 2, 3))))
    spell.tell(f"{cut} cuts of {len(points)} places")


@pytest.mark.parametrize("planted", ["blind", "early", "alike"])
def test_the_cuts_show_an_engine_that_does_not_ask(stage, monkeypatch, planted):
    stage.prepare("artifact")
    for name in ("_is_committed", "_end_again"):
        kept = getattr(transaction.PostgresTransaction, name)
        monkeypatch.setattr(transaction.PostgresTransaction, name, kept)
    pg_workers.FAULTS[planted]()
    with pytest.raises(Wrong):
        _strike_late(stage)


def _strike_late(stage: Stage) -> None:
    for direction in (TO_CLIENT, TO_SERVER):
        length = stage.lengths["artifact"][direction]
        for at in range(length - 800, length, 25):
            stage.strike(Point("artifact", direction, at))


# -- servers that are killed -----------------------------------------------------------


@pytest.mark.proof
def test_an_operation_is_done_once_although_the_server_is_killed_in_it(spell):
    """Killed as by a power cut, in mid-transaction or between commit and answer; it restarts."""
    with pg_disturbed.server() as server, engines.on_server(server.directory):

        def kill() -> None:
            server.destroy()
            server.start()

        for stage in _stage(str(server.directory)):
            kills = 0
            for seed in spell.seeds(least=6):
                chance = random.Random(seed)
                scene = chance.choice([*SCENES])
                if scene not in stage.lengths:
                    stage.prepare(scene)
                direction = chance.choice((TO_CLIENT, TO_SERVER))
                length = stage.lengths[scene][direction]
                # The startup of a connection has 400 bytes.
                at = chance.choice((chance.randrange(400, length), length - chance.randrange(200)))
                kills += stage.strike(Point(scene, direction, at), kill)
    spell.tell(f"{kills} kills")


@pytest.mark.proof
def test_a_server_that_restarts_costs_32_workers_seconds_and_nothing_else(spell):
    for _ in spell.seeds():
        with pg_disturbed.server(fsync="on") as server:

            def restart(number: int, server=server) -> None:
                if number == signal.SIGKILL:
                    server.destroy()
                else:
                    server.kill(number)
                server.start()

            kinds = (signal.SIGKILL, signal.SIGINT, signal.SIGQUIT)
            strikes = [lambda kind=kind: restart(kind) for kind in kinds]
            told = pg_disturbed.disturbed(server.url(schema=pg_disturbed.SCHEMA), strikes)
    spell.tell(told)


@pytest.mark.parametrize("planted", ["hasty", "early", "unsynced"])
def test_the_workers_show_an_engine_that_gives_up_or_believes(planted):
    with pg_disturbed.server(fsync="on") as server:

        def restart() -> None:
            server.destroy()
            server.start()

        with pytest.raises(
            AssertionError,
            match=r"ConnectionLost|acknowledged|more than once|E0|is held by|Superseded|NotOwner",
        ):
            _often(server.url(), [restart] * 6, planted)


def _often(url: str, strikes: list, planted: str) -> None:
    for number in range(3):
        pg_disturbed.disturbed(f"{url}&schema=t{number}", strikes, workers=16, planted=planted)


# -- standbys --------------------------------------------------------------------------


def _take_over(standby: postgres_server.Server) -> None:
    store = PostgresStore(standby.url())
    store.ask(b"select pg_promote()")
    store.close()


@contextlib.contextmanager
def _pair() -> Iterator[tuple[postgres_server.Server, postgres_server.Server]]:
    """A server, and a standby without which it acknowledges nothing."""
    with pg_disturbed.server() as first:
        second = first.follow(first.directory.parent / "two")
        second.start()
        store = PostgresStore(first.url())
        store.ask(b"alter system set synchronous_standby_names = '*'")
        store.ask(b"select pg_reload_conf()")
        while not store.ask(b"select 1 from pg_stat_replication where sync_state = 'sync'").rows:
            time.sleep(0.01)
        store.close()
        try:
            yield first, second
        finally:
            second.kill()


@pytest.mark.proof
@pytest.mark.parametrize("address", ["a list of both", "one that is moved"])
def test_a_synchronous_standby_that_takes_over_loses_nothing(spell, address):
    """Also if the address leads to the standby before it accepts writes."""
    for _ in spell.seeds():
        with (
            _pair() as (first, second),
            pg_disturbed.directory() as path,
            Proxy(first.directory, path) as proxy,
        ):

            def fail(first=first, second=second, proxy=proxy) -> None:
                first.destroy()
                proxy.move(second.directory)
                _take_over(second)

            hosts = path if "one" in address else f"{first.directory},{second.directory}"
            url = first.url(schema="s").replace(str(first.directory), str(hosts))
            told = pg_disturbed.disturbed(url, [fail], judge_at=second.url(schema="s"))
    spell.tell(f"{spell.rounds} standbys took over; the last: {told}")


def test_the_workers_show_a_standby_that_lags():
    """Without synchronous replication acknowledged work is lost: the judge sees it."""
    with _pair() as (first, second):
        store = PostgresStore(first.url())
        store.ask(b"alter system set synchronous_standby_names = ''")
        store.ask(b"select pg_reload_conf()")
        store.close()
        lagging = PostgresStore(second.url())

        def lag() -> None:
            lagging.ask(b"alter system set primary_conninfo = 'host=/nowhere'")
            lagging.ask(b"select pg_reload_conf()")

        def fail() -> None:
            first.destroy()
            _take_over(second)

        hosts = f"{first.directory},{second.directory}"
        url = first.url(schema="s").replace(str(first.directory), hosts)
        with pytest.raises(AssertionError):
            pg_disturbed.disturbed(url, [lag, fail], judge_at=second.url(schema="s"), workers=8)
        lagging.close()


# -- poolers ---------------------------------------------------------------------------


@pytest.mark.proof
def test_behind_a_pooler_in_transaction_mode_everything_works(spell):
    """Eight connections for 32 workers; server and pooler are killed and start again."""
    for _ in spell.seeds():
        with pg_disturbed.server() as server, pg_disturbed.directory() as path:
            pooler = Pooler(path, server.directory)
            pooler.start()

            def kill_server(server=server, pooler=pooler) -> None:
                server.destroy()
                pooler.wait_for("connect failed")
                server.start()

            def kill_pooler(pooler=pooler) -> None:
                pooler.kill()
                pooler.start()

            strikes = [kill_server, kill_pooler, kill_server]
            try:
                direct = server.url(schema="p")
                url = direct.replace(str(server.directory), str(path))
                told = pg_disturbed.disturbed(url, strikes, judge_at=direct)
                _look(url)
            finally:
                pooler.kill()
    spell.tell(told)


def _look(url: str) -> None:
    """A watcher behind the pooler, which swallows notices, sees a change all the same."""
    watcher, worker = PostgresStore(url), PostgresStore(url)
    assert not watcher.wait_for_change(0)
    plan = pg_workers.plans(1)[0]
    assert state.archive(worker, plan)["archived"]
    assert watcher.wait_for_change(30)
    watcher.close()
    worker.close()


def test_the_workers_show_an_engine_that_keeps_its_settings_in_the_session():
    """Behind a pooler the next transaction has another session."""
    with pg_disturbed.server() as server, pg_disturbed.directory() as path:
        pooler = Pooler(path, server.directory)
        pooler.start()
        direct = server.url(schema="p")
        url = direct.replace(str(server.directory), str(path))
        try:
            with pytest.raises(AssertionError):
                pg_disturbed.disturbed(url, [], judge_at=direct, workers=8, planted="settled")
        finally:
            pooler.kill()


# -- disks that are full ---------------------------------------------------------------


class SmallDisk:
    """A server whose disk can be filled, and a worker's store on it."""

    def __init__(self, directory: Path, size: int) -> None:
        self.directory = directory
        path = os.pathsep.join(str(Path(__file__).parents[n]) for n in (0, 1))
        script = str(Path(__file__).with_name("pg_small_disk.py"))
        self._process = subprocess.Popen(
            [sys.executable, script, str(directory), str(size)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            text=True,
        )
        assert self._process.stdout.readline() == "ready\n"
        self._filler = Path(f"/proc/{self._process.pid}/root{directory}/data/filler")
        url = f"postgresql:///{postgres_server.DATABASE}?host={directory}&user=postgres&schema=d"
        pg_disturbed.record(url, 1, 1)
        self.store = PostgresStore(url, busy_seconds=1)

    def fill(self) -> None:
        with self._filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(8192)):
                pass

    def free(self) -> None:
        """There is room again; if the server has gone down meanwhile, somebody starts it."""
        self._filler.unlink()
        print("start", file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "done\n"

    def end(self) -> None:
        self.store.close()
        self._process.communicate()


def _write_until_it_is_full(disk: SmallDisk) -> str:
    plan, acknowledged, unsure, wrong = pg_workers.plans(1)[0], [], [], []
    request, copy = state.Request("red", also=True), PlanCopy("/p", "h")
    assert state.claim(disk.store, plan, request, copy=copy)["claimed"]
    chance, kinds = random.Random(7), set()

    def note(name: str) -> bool:
        # Not compressed; that would fit into what is left.
        content = chance.randbytes(50_000).hex()
        what = {"kind": "note", "summary": name, "content": content}
        try:
            state.artifact(disk.store, plan, "step-1", owner="red", **what)
        except TugError as error:
            wrong.extend([] if error.hint and error.code in {"E046", "E047"} else [error])
            kinds.add(str(error.facts.get("postgres")).split()[0])
            unsure.extend([name] if "may have been" in error.message else [])
            return False
        acknowledged.append(name)
        return True

    assert note("first")
    disk.fill()
    tried = [note(str(number)) for number in range(30)]
    # Now there is no room for the server's log either: it goes down.
    with contextlib.suppress(TugError):
        for _ in range(3):
            disk.store.ask(b"select pg_logical_emit_message(true, 'x', 'y'), pg_switch_wal()")
    tried += [note(f"down {number}") for number in range(4)]
    disk.free()
    assert note("later")
    shown = state.show(disk.store, plan)["steps"][0]["artifacts"]
    found = [each["summary"] for each in shown]
    assert wrong == []
    assert len(found) == len(set(found)), "twice"
    assert set(acknowledged) <= set(found), "acknowledged and not there"
    assert set(found) <= {*acknowledged, *unsure}, "there and refused"
    assert not all(tried), "the disk was not full"
    refused = f"{tried.count(False)} refused as {', '.join(sorted(kinds))}, {len(unsure)} unsure"
    return f"{len(acknowledged)} acknowledged, {refused}"


if mounts.possible():

    def test_a_full_disk_of_the_server_loses_nothing_that_was_acknowledged(spell):
        with pg_disturbed.directory() as path:
            disk = SmallDisk(path, 96 << 20)
            try:
                spell.tell(_write_until_it_is_full(disk))
            finally:
                disk.end()

    def test_the_full_disk_shows_an_engine_that_does_not_listen(monkeypatch):
        value, commit = (
            transaction.PostgresTransaction.value,
            transaction.PostgresTransaction._commit,
        )

        def deaf_value(
            tx: transaction.PostgresTransaction, statement: str, **how: object
        ) -> object:
            try:
                return value(tx, statement, **how)
            except TugError:
                return 0

        def deaf_commit(tx: transaction.PostgresTransaction) -> None:
            with contextlib.suppress(TugError):
                commit(tx)

        with pg_disturbed.directory() as path:
            disk = SmallDisk(path, 96 << 20)
            monkeypatch.setattr(transaction.PostgresTransaction, "value", deaf_value)
            monkeypatch.setattr(transaction.PostgresTransaction, "_commit", deaf_commit)
            try:
                with pytest.raises(AssertionError, match="acknowledged and not there"):
                    _write_until_it_is_full(disk)
            finally:
                monkeypatch.undo()
                disk.end()
