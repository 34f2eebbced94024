"""Lost connections, killed servers, standbys that take over, poolers, full disks.

Nothing that was acknowledged is lost, nothing is done twice, and no worker needs a person.
"""

import random
import signal
from collections.abc import Iterator

import pg_disturbed
import pg_workers
import pytest
from pg_proxy import TO_CLIENT, TO_SERVER, Proxy
from pg_scenes import SCENES, Point, Stage, Wrong

from support import engines
from tugtool.store.postgres import transaction

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
        for direction in (TO_CLIENT, TO_SERVER):
            length = stage.lengths["artifact"][direction]
            for at in range(length - 800, length, 25):
                stage.strike(Point("artifact", direction, at))


# -- servers that are killed -----------------------------------------------------------


@pytest.mark.proof
def test_an_operation_is_done_once_although_the_server_is_killed_in_it(spell):
    """Killed as by a power cut, in mid-transaction or between commit and answer; it restarts."""
    with pg_disturbed.server() as server, engines.at(server.directory):

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
        with pg_disturbed.server() as server:

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


@pytest.mark.parametrize("planted", ["hasty", "early"])
def test_the_workers_show_an_engine_that_gives_up_or_believes(planted):
    with pg_disturbed.server() as server:

        def restart() -> None:
            server.destroy()
            server.start()

        url = server.url(schema=pg_disturbed.SCHEMA)
        with pytest.raises(AssertionError):
            for _ in range(3):
                store = pg_disturbed.PostgresStore(url)
                store.ask(b"drop schema if exists faults cascade")
                store.close()
                pg_disturbed.disturbed(url, [restart] * 6, workers=16, planted=planted)
