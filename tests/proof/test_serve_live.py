"""Live: whatever happens to watchers, server and database, messages add up to what `show` shows.

Writers act at random. Twenty watchers drop, stall and come back, or all stay away for more than a
minute, while the server is killed and started again and its database is restored. A watcher's
picture must equal a fresh `state show` at the same event, and its events must be those of the log:
none missing, none twice.
"""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from support import live
from support.live import Mirror, steady
from support.server import Process
from support.state import KEY
from tugtool import state
from tugtool.errors import TugError
from tugtool.server.hub import Hub
from tugtool.server.tokens import Caller
from tugtool.server.topics import Tail, difference
from tugtool.state.claims import Request
from tugtool.workflow import overview
from tugtool.workflow.workspace import Workspace

PLAN = f"plan:{KEY}"
WATCHERS = 20
LINES = ("1 tt", "1.1 t", "2 t < 1", "3 tc", "4 t < 2,3", "5 t", "6 t < 5", "7 tt")

#: The server, whose clock a signal moves.
MOVED = """
import signal, sys
from tugtool.system import clock
ticks, passed = clock.ticks, [0.0]
def pass_(*_):
    passed[0] += 62
clock.ticks = lambda: ticks() + passed[0]
signal.signal(signal.SIGUSR1, pass_)
from tugtool.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


class Scene:
    """A repository, its server, its writers and its watchers."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.chance = root, random.Random(seed)
        self.space = Workspace(str(root))
        self.server = self.started()
        self.watchers = [Guest(self, number) for number in range(WATCHERS)]
        self.points = self.restores = self.kills = self.resumes = self.minutes = 0

    def started(self) -> Process:
        return Process(self.root, python=("-P", "-c", MOVED))

    def write(self) -> None:
        """One random operation; what is refused is refused."""
        chance, store = self.chance, self.space.store
        owner = chance.choice(("red", "blue", "green"))
        step = f"step-{chance.randrange(1, 8)}"
        copy = self.space.copy(KEY)
        with contextlib.suppress(TugError):
            match chance.randrange(8):
                case 0 | 1:
                    wanted = Request(owner, also=True, max_attempts=50)
                    state.claim(store, KEY, wanted, copy=copy)
                case 2 | 3:
                    entries = [{"kind": "task", "ordinal": 0, "status": "completed"}]
                    state.update(store, KEY, step, entries, owner=owner, copy=copy)
                case 4:
                    state.update(
                        store, KEY, step, [], owner=owner, copy=copy, complete_remaining=True
                    )
                    state.complete(store, KEY, step, owner=owner, copy=copy)
                case 5:
                    state.release(store, KEY, step, owner=owner)
                case 6:
                    state.reopen(store, KEY, step, reason="again", force=True)
                case _:
                    chance.choice((state.pause, state.resume))(store, KEY, reason="so")

    def disturb(self) -> None:
        """Now and then kill the server, restore the database, or leave it alone for a minute."""
        what = self.chance.randrange(50)
        if what == 0 or self.kills < self.points // 200:
            self.kill()
        elif what == 1 or self.restores < self.points // 100:
            self.restore()
        elif what == 2 or self.minutes < self.points // 100:
            self.minute()

    def kill(self) -> None:
        os.kill(self.server.running.pid, signal.SIGKILL)
        self.server.end()
        for watcher in self.watchers:
            watcher.leave()
        self.server = self.started()
        self.kills += 1

    def minute(self) -> None:
        """Nobody watches for more than a minute: the server drops its topics."""
        for watcher in self.watchers:
            watcher.leave()
        while b"tugtool_watchers 0\n" not in self.server.request("GET", "/metrics").body:
            pass
        os.kill(self.server.running.pid, signal.SIGUSR1)
        self.minutes += 1

    def restore(self) -> None:
        state.restore(self.space.store, source=str(self.root / "copy.db"))
        self.restores += 1

    def copy(self) -> None:
        """Take a copy that a later restore goes back to."""
        path = self.root / ".tugtool" / "state.db"
        both = (sqlite3.connect(path), sqlite3.connect(self.root / "copy.db"))
        with contextlib.closing(both[0]) as there, contextlib.closing(both[1]) as copy:
            there.backup(copy)

    def check(self) -> None:
        """Everybody who is there is brought up to the last event, and compared."""
        fresh = overview.Viewer(self.space, KEY).read().data
        log = state.log(self.space.store, KEY)["events"]
        epoch, last = state.epoch(self.space.store), log[-1]["seq"]
        for watcher in self.watchers:
            if watcher.connection is None:
                watcher.come()
            watcher.catch_up(epoch, last, fresh)
            found = watcher.mirror
            assert steady(found.topics[PLAN]) == steady(fresh), watcher.number
            watcher.check_events(log)
            self.points += 1

    def close(self) -> None:
        for watcher in self.watchers:
            watcher.leave()
        with self.server:
            pass
        self.space.store.close()


class Guest:
    """A watcher that drops, stalls and comes back."""

    def __init__(self, scene: Scene, number: int) -> None:
        self.scene, self.number = scene, number
        self.mirror = Mirror(PLAN, "events")
        self.connection = None
        self._open = contextlib.ExitStack()
        #: The first event that it has to have, since the last reset or the first time it came.
        self.begun: int | None = None

    def act(self) -> None:
        """Come, leave, read a little, or stall."""
        what = self.scene.chance.randrange(6)
        if self.connection is None:
            if what < 3:
                self.come()
        elif what == 0:
            self.leave()
        elif what < 4:
            for _ in range(self.scene.chance.randrange(6)):
                if not self.read(0):
                    return

    def come(self) -> None:
        server, query = self.scene.server, self.mirror.query
        if "since" not in query:
            self.begun = None
            self.mirror.forget_events()
        else:
            self.scene.resumes += 1
        there = live.socket(server.host, server.port, server.token, query)
        self.connection = self._open.enter_context(there)

    def leave(self) -> None:
        if self.connection is not None:
            # As a cable that is pulled out: no last words.
            with contextlib.suppress(OSError):
                self.connection.socket.shutdown(socket.SHUT_RDWR)
            self._open.close()
            self.connection = None

    def read(self, timeout: float) -> bool:
        """Take one message, if there is one."""
        try:
            text = self.connection.recv(timeout=timeout)
        except TimeoutError:
            return False
        except ConnectionClosed:
            self.leave()
            return False
        said = json.loads(text)
        kind = self.mirror.take(text)
        if kind == "hello" and self.begun is None:
            self.begun = said["seq"]
        if kind == "reset" and said["topic"] == "events":
            self.begun = None
        if self.begun is None and kind in ("ping", "events"):
            self.begun = said["seq"]
            self.mirror.forget_events()
        return True

    def catch_up(self, epoch: str, last: int, fresh: dict) -> None:
        """Read until the picture is that of the last event."""
        for _ in range(10_000):
            found = self.mirror
            there = found.epoch == epoch and found.since is not None and found.since >= last
            if there and steady(found.topics[PLAN]) == steady(fresh):
                return
            if self.connection is None:
                self.come()
            if not self.read(20) and self.connection is not None:
                raise AssertionError(f"watcher {self.number} is not told what changed")

    def check_events(self, log: list[dict]) -> None:
        seqs = [event["seq"] for event in self.mirror.events]
        assert seqs == sorted(set(seqs)), "an event came twice"
        wanted = [event["seq"] for event in log if event["seq"] > self.begun]
        assert set(seqs) <= set(wanted)
        # Those that were left out of a quick sequence are counted.
        if not self.mirror.collapsed:
            assert seqs == wanted, "an event is missing"
        assert len(seqs) + self.mirror.collapsed >= len(wanted), "an event is missing"


def run(root: Path, seed: int, points: int) -> Scene:
    """Let everybody act until so many pictures were compared."""
    scene = Scene(root, seed)
    try:
        scene.copy()
        while scene.points < points:
            for _ in range(scene.chance.randrange(1, 12)):
                scene.write()
                for watcher in scene.chance.sample(scene.watchers, 6):
                    watcher.act()
                scene.disturb()
            if scene.chance.random() < 0.1:
                scene.copy()
            scene.check()
    finally:
        scene.close()
    return scene


@pytest.mark.proof
def test_messages_add_up_to_what_show_shows_whatever_happens(desk, spell, tmp_path):
    kept, told = desk(*LINES).repo.path, Counter()
    for seed in spell.seeds():
        root = Path(shutil.copytree(kept, tmp_path / str(seed)))
        scene = run(root, seed, 500)
        told.update(pictures=scene.points, kills=scene.kills, restores=scene.restores)
        told.update(resumes=scene.resumes, minutes=scene.minutes)
        assert min(scene.kills, scene.restores, scene.resumes, scene.minutes) > 0
        shutil.rmtree(root)
    spell.tell(", ".join(f"{number} {name}" for name, number in told.items()))


class Faulty(Tail):
    """Planted: a change has only the steps that an event names, not their dependents."""

    @staticmethod
    def compare(topic: str, old: dict, new: dict) -> dict:
        change = difference(topic, old, new)
        steps = [each for each in change["set"].get("steps", ()) if each["attempt"]]
        return {**change, "set": {**change["set"], "steps": steps}}


async def told(space: Workspace, tail: type[Tail]) -> Mirror:
    """What a watcher is told of a step that is completed, and of the one that waited for it."""
    hub, mirror = Hub(space, tail=tail), Mirror(PLAN, "events")
    watcher = await hub.join(Caller("", "viewer"), mirror.asked, None)
    copy = space.copy(KEY)
    while mirror.since is None:
        mirror.take((await watcher.next())[-1])
    state.claim(space.store, KEY, Request("red"), copy=copy)
    state.update(space.store, KEY, "step-1", [], owner="red", copy=copy, complete_remaining=True)
    state.complete(space.store, KEY, "step-1", owner="red", copy=copy)
    while mirror.seqs[PLAN] < state.last_seq(space.store):
        mirror.take((await watcher.next())[-1])
    hub.leave(watcher)
    hub.end()
    return mirror


@pytest.mark.proof(share=0)
@pytest.mark.parametrize(("tail", "equal"), [(Tail, True), (Faulty, False)])
def test_the_harness_notices_a_change_without_its_dependents(desk, tail, equal):
    space = Workspace(str(desk("1 t", "2 t < 1").repo.path))
    mirror = asyncio.run(told(space, tail))
    fresh = overview.Viewer(space, KEY).read().data
    assert (steady(mirror.topics[PLAN]) == steady(json.loads(json.dumps(fresh)))) == equal
    space.store.close()
