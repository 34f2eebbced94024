"""Workers that are killed, on a server that is killed too, over connections that are cut.

Nothing that was acknowledged is lost, nothing is done twice, and no worker needs a person.
"""

import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import served_worker
from served_worker import FORGETFUL, NOTES

from conftest import Repo
from support.cuts import CuttingProxy, at_random
from support.server import Process
from support.state import KEY, markdown
from tugtool import state
from tugtool.server.tokens import Tokens
from tugtool.store import open_store

WORKERS, STEPS = 4, 24


class Scene:
    """A repository, its server behind a proxy, and workers of several machines."""

    def __init__(
        self, templates, root: Path, tugcode, seed: int, *, forgetful: bool = False
    ) -> None:
        self.dice = random.Random(seed)
        self.proxy = CuttingProxy(at_random(self.dice, share=0.3))
        repo = Repo.of(templates, root)
        repo.plan("work", markdown(*(f"{number} t" for number in range(1, STEPS + 1))))
        config = f'[serve]\nhosts = ["127.0.0.1:{self.proxy.port}"]\nwrites_per_second = 100000\n'
        (root / ".tugtool" / "config.toml").write_text(config)
        assert tugcode("-C", root, "state", "init", "work").status == 0
        self.root = root
        self.token = Tokens(str(root / ".git" / "tugtool")).add("ops", "worker")[0]
        self.hash = state.show(self.file(), KEY)["plan_hash"]
        self.forgetful = forgetful
        self.restarts = self.killed = 0

    def file(self):
        return open_store(f"sqlite://{self.root}/.tugtool/state.db")

    def play(self) -> None:
        """Let the workers work until all is done, while they and the server come and go."""
        process = Process(self.root)
        self.proxy.target = process.port
        workers = [self._worker(number) for number in range(WORKERS)]
        took = 0.0
        try:
            while going := [each for each in workers if not each.has_ended()]:
                # On a busy machine requests take longer too, and some have to come through.
                time.sleep(self.dice.uniform(0.02, 0.8) + took)
                begun = time.monotonic()
                if not self.killed or (self.restarts and self.dice.random() < 0.3):
                    self.killed += self.dice.choice(going).kill()
                else:
                    process = self._restarted(process)
                took = (time.monotonic() - begun) / 2
        finally:
            for each in workers:
                each.process.kill()
                each.process.wait()
            process.__exit__()
            self.proxy.close()

    def _worker(self, number: int) -> "Worker":
        at = f"http://127.0.0.1:{self.proxy.port}/#t={self.token}"
        words = [*([FORGETFUL] if self.forgetful else ()), at, f"m{number}", KEY, self.hash]
        return Worker(words, self.root / f"worker-{number}.log")

    def _restarted(self, process: Process) -> Process:
        how = self.dice.choice((signal.SIGKILL, signal.SIGTERM))
        process.running.send_signal(how)
        self.proxy.target = None
        try:
            process.running.wait(20)
        except subprocess.TimeoutExpired:
            process.running.send_signal(signal.SIGABRT)
            raise AssertionError(f"{how} did not end it: {process.end()}") from None
        process.end()
        again = Process(self.root)
        self.proxy.target = again.port
        self.restarts += 1
        return again

    def judge(self) -> None:
        """What was acknowledged is there once, like all that was tried; steps were done once."""
        said: dict[str, set[str]] = {"tries": set(), "noted": set(), "completed": set()}
        for path in self.root.glob("worker-*.log"):
            for line in path.read_text().splitlines():
                what, _, of = line.partition(" ")
                said[what].add(of)
        store = self.file()
        with store.read(KEY) as tx:
            noted = [row["summary"] for row in tx.all("select summary from step_artifacts")]
            events = Counter(
                (row["kind"], row["step_anchor"])
                for row in tx.all("select kind, step_anchor from events")
            )
            steps = tx.all("select anchor, status, attempt, parked_at from steps")
        store.close()
        assert len(set(noted)) == len(noted) >= NOTES * STEPS
        assert said["noted"] <= set(noted) <= said["tries"]
        assert said["completed"] <= {row["anchor"] for row in steps}
        # Only a worker that is killed has no time to say what it has heard.
        assert len(said["completed"]) + self.killed >= STEPS
        for row in steps:
            assert (row["status"], row["parked_at"]) == ("completed", None)
            assert events["claim", row["anchor"]] == row["attempt"]
            assert events["complete", row["anchor"]] == 1
        # A step is claimed again only by whoever came after one that was killed.
        assert sum(row["attempt"] - 1 for row in steps) <= self.killed


class Worker:
    """A process that carries out steps; whenever it is killed, the next one takes its place."""

    def __init__(self, words: list[str], log: Path) -> None:
        self._words, self._log, self._starts = words, log, 0
        self._start()

    def _start(self) -> None:
        self._starts += 1
        program = (sys.executable, "-P", served_worker.__file__, *self._words, str(self._starts))
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(program, stdout=log)

    def has_ended(self) -> bool:
        """Whether nothing is left to do; a worker that fails is a failure."""
        assert self.process.poll() in (None, 0), f"see {self._log}"
        return self.process.returncode == 0

    def kill(self) -> bool:
        """Kill it, wherever it is, and start another; False if it has ended before."""
        if self.has_ended():
            return False
        self.process.kill()
        if self.process.wait() != -signal.SIGKILL:
            return False
        self._start()
        return True


@pytest.fixture
def scenes(templates, tmp_path, tugcode):
    return lambda seed, **how: Scene(templates, tmp_path / str(seed), tugcode, seed, **how)


@pytest.mark.proof(share=2)
def test_nothing_is_lost_or_done_twice_while_the_server_comes_and_goes(scenes, spell):
    told = Counter()
    for seed in spell.seeds(1):
        scene = scenes(seed)
        scene.play()
        scene.judge()
        told.update(restarts=scene.restarts, cuts=scene.proxy.cuts, killed=scene.killed)
        shutil.rmtree(scene.root)
    assert min(told["restarts"], told["killed"]) > 0
    spell.tell(
        f"{told['restarts']} restarts of the server, {told['cuts']} connections cut, "
        f"{told['killed']} workers killed"
    )


@pytest.mark.proof(share=0)
def test_a_client_that_forgets_its_key_is_noticed(scenes):
    def several() -> None:
        for seed in range(5):
            scene = scenes(seed, forgetful=True)
            scene.play()
            scene.judge()

    with pytest.raises(AssertionError):
        several()
