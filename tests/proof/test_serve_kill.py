"""A server that is killed at any moment: what it answered is there, and nothing is there twice.

Clients write at random, each request with a key of its own. The server is killed with SIGKILL in
the middle of that and started again; clients also hang up before they have their answer. Whoever
has no answer asks again with the same key, until there is one. Then every answer must be in the
record exactly once.
"""

import http.client
import itertools
import json
import random
import shutil
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest

from support.server import Process
from support.state import KEY
from tugtool import state
from tugtool.state import views
from tugtool.workflow.workspace import Workspace

CLIENTS, KILLS, ANSWERS = 6, 4, 25
LINES = [f"{number} tt" for number in range(1, 13)]
#: The setting that keeps clients from waiting for each other.
SETTINGS = "[serve]\nwrites_per_second = 100000\n"
#: Planted: answers go out before they are stored, which takes a moment longer than usual.
TOO_EARLY = """
import sys, time
from tugtool.server import writer
from tugtool.store.sqlite import group
do, end = writer._Task.do, group.SqliteGroup.__exit__
def early(self, store):
    do(self, store)
    self.loop.call_soon_threadsafe(self.settle)
def late(self, *words):
    time.sleep(0.05)
    end(self, *words)
writer._Task.do, group.SqliteGroup.__exit__ = early, late
from tugtool.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
#: Planted: no answer is kept, so a request that comes again is carried out again.
FORGETFUL = """
import sys
from tugtool.state import requests
requests.remember = lambda *words, **more: None
from tugtool.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


class Scene:
    """A repository, its server, and the clients that write."""

    def __init__(self, root: Path, seed: int, planted: str = "") -> None:
        self.root, self.chance = root, random.Random(seed)
        (root / ".tugtool" / "config.toml").write_text(SETTINGS)
        self.how = {"python": ("-c", planted)} if planted else {}
        self.server = Process(root, **self.how)
        self.port = self.server.port
        self.up, self.ended = threading.Event(), threading.Event()
        self.up.set()
        self.answers: list[tuple[str, dict]] = []
        self.heard = threading.Condition()
        self.failed: list[BaseException] = []
        self.kills = self.asked_again = 0

    def run(self) -> None:
        """Let the clients write while the server is killed again and again."""
        clients = [Client(self, number) for number in range(CLIENTS)]
        threads = [threading.Thread(target=client.run) for client in clients]
        for thread in threads:
            thread.start()
        try:
            for _ in range(KILLS):
                self._wait(len(self.answers) + self.chance.randrange(1, ANSWERS))
                self.kill()
            self._wait(len(self.answers) + ANSWERS)
        except BaseException as error:
            self.failed.append(error)
        finally:
            self.ended.set()
            self.up.set()
            for thread in threads:
                thread.join(60)
            self.close()
        if self.failed:
            raise self.failed[0]

    def _wait(self, number: int) -> None:
        with self.heard:
            enough = lambda: len(self.answers) >= number or self.failed  # noqa: E731
            assert self.heard.wait_for(enough, 120), "no answers come"

    def kill(self) -> None:
        """Kill the server, and start another at the same place."""
        self.up.clear()
        self.server.running.send_signal(signal.SIGKILL)
        self.server.end()
        self.server = Process(self.root, "--port", str(self.port), **self.how)
        self.kills += 1
        self.up.set()

    def close(self) -> None:
        with self.server:
            pass

    def take(self, path: str, answer: dict) -> None:
        with self.heard:
            self.answers.append((path, answer))
            self.heard.notify_all()


class Client:
    """One that writes; it repeats what was not answered."""

    def __init__(self, scene: Scene, number: int) -> None:
        self.scene, self.number = scene, number
        self.chance = random.Random(f"{scene.chance.random()} {number}")
        self.made: http.client.HTTPConnection | None = None
        self.held: tuple[str, int] | None = None

    def run(self) -> None:
        try:
            for turn in itertools.count():
                if self.scene.ended.is_set():
                    break
                self.act(f"{self.number}-{turn}")
        except BaseException as error:
            self.scene.failed.append(error)
            with self.scene.heard:
                self.scene.heard.notify_all()
        finally:
            self.hang_up()

    def act(self, key: str) -> None:
        """One random write."""
        own = {"plan": "work", "worktree": f"w{self.number}"}
        if self.held is None:
            claim = self.ask("state/claim", own, key)
            if claim is not None and claim["claimed"]:
                self.held = claim["anchor"], claim["attempt"]
            return
        step, attempt = self.held
        held = {**own, "step": step, "attempt": attempt}
        what = self.chance.randrange(6)
        if what < 3:
            self.ask("state/artifact", {**held, "kind": "note", "summary": key}, key)
        elif what == 3:
            self.ask("state/update", {**held, "task": [[0, "completed"]]}, key)
        elif what == 4:
            self.ask("state/release", held, key)
            self.held = None
        else:
            self.ask("state/complete", {**held, "force": "measured"}, key)
            self.ask("state/reopen", {"plan": "work", "step": step, "reason": key}, f"r{key}")
            self.held = None

    def ask(self, path: str, body: dict, key: str) -> dict | None:
        """The data of the answer, which is asked for until it comes; None if it is a refusal."""
        drops = self.chance.random() < 0.2
        while True:
            answer = self.once(path, body, key, drops=drops)
            drops = False
            if answer is not None:
                break
            self.scene.asked_again += 1
            assert not self.scene.failed, "the scene has ended"
        status, envelope = answer
        assert status in (200, 409), (status, envelope)
        if status != 200:
            return None
        self.scene.take(path, {**envelope["data"], "key": key})
        return envelope["data"]

    def once(self, path: str, body: dict, key: str, *, drops: bool) -> tuple[int, dict] | None:
        """Status and envelope; None if the connection ended first."""
        assert self.scene.up.wait(120)
        data = json.dumps(body).encode()
        headers = {
            "Authorization": f"Bearer {self.scene.server.token}",
            "Content-Type": "application/json",
            "Idempotency-Key": key,
        }
        try:
            if self.made is None:
                self.made = http.client.HTTPConnection("127.0.0.1", self.scene.port, timeout=60)
            self.made.request("POST", f"/api/v1/{path}", data, headers)
            if drops:
                self.hang_up()
                return None
            got = self.made.getresponse()
            said = got.read()
        except (OSError, http.client.HTTPException):
            self.hang_up()
            return None
        if got.status in (401, 503):
            # The token of the server before; or the one before has not ended yet.
            return None
        return got.status, json.loads(said)

    def hang_up(self) -> None:
        if self.made is not None:
            self.made.close()
            self.made = None


def judge(scene: Scene) -> None:
    """Every answer is in the record once, and nothing else is."""
    space = Workspace(str(scene.root))
    events = state.log(space.store, KEY)["events"]
    steps = views.show(space.store, KEY, full=True)["steps"]
    space.store.close()
    kinds = Counter(event["kind"] for event in events)
    done = Counter(path.partition("/")[2] for path, answer in scene.answers if is_change(answer))
    notes = Counter(note["summary"] for step in steps for note in step["artifacts"])
    told = Counter(answer["key"] for path, answer in scene.answers if path == "state/artifact")
    assert notes == told
    for kind in ("claim", "complete", "release", "reopen", "artifact"):
        assert kinds[kind] == done[kind], (kind, kinds, done)
    claims = Counter(
        (answer["anchor"], answer["attempt"])
        for path, answer in scene.answers
        if path == "state/claim" and answer["claimed"]
    )
    assert claims == Counter(
        (event["step_anchor"], event["attempt"]) for event in events if event["kind"] == "claim"
    )


def is_change(answer: dict) -> bool:
    """False for an answer that says that nothing had to be done."""
    return answer.get("claimed", True) and not answer.get("already", False)


@pytest.mark.proof
def test_what_a_killed_server_answered_is_there_and_nothing_is_there_twice(desk, spell, tmp_path):
    kept = desk(*LINES).repo.path
    for seed in spell.seeds():
        root = Path(shutil.copytree(kept, tmp_path / str(seed)))
        scene = Scene(root, seed)
        scene.run()
        judge(scene)
        answers = f"{len(scene.answers)} answers, {scene.asked_again} asked for again"
        spell.list(f"{scene.kills} kills, {answers}")
        assert scene.asked_again > 0
        shutil.rmtree(root)
    spell.tell(f"{KILLS * spell.rounds} kills")


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("planted", [TOO_EARLY, FORGETFUL], ids=["early", "forgetful"])
def test_a_server_that_answers_too_early_or_forgets_is_noticed(desk, planted):
    def carried_out() -> None:
        scene.run()
        judge(scene)

    scene = Scene(desk(*LINES).repo.path, 1, planted)
    with pytest.raises(AssertionError):
        carried_out()
