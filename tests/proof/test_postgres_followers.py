"""No follower of a state in PostgreSQL misses an event, in whichever order plans commit.

Followers are processes: `log --follow`, the library's `watch`, and `show --watch`.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pg_disturbed
import pg_workers
import pytest

from conftest import Repo
from support.state import markdown
from tugtool import state
from tugtool.store.postgres import PostgresStore
from tugtool.store.postgres.address import schema_of

pytestmark = pytest.mark.proof(share=0)

NAME = "team/shop"
MOST_SECONDS = 120
STEPS = 24
LIBRARY = (
    "import json, sys, tugtool\n"
    "for event in tugtool.open(sys.argv[1]).watch(since=86400):\n"
    "    print(json.dumps({'data': {'events': [event]}}), flush=True)\n"
)
#: What numbers events as they are written, and not as they are committed.
AT_INSERTION = """
create or replace function {schema}.number_event() returns trigger language plpgsql as $$
begin
  new.seq := nextval('{schema}.step_artifacts_number') + 1000000;
  return new;
end $$
"""


class Scene:
    """A repository with several plans in a server of its own, and followers of all of them."""

    def __init__(self, path: Path, server: str, plans: int) -> None:
        self.repo = Repo.init(path / "repo")
        self.repo.write({".tugtool/config.toml": f'[state]\nrepository = "{NAME}"\n'})
        schema = schema_of("tugtool", NAME)
        self.url, self.server = f"{server}&schema={schema}", server
        self.plans = pg_workers.plans(plans)
        pg_disturbed.record(self.url, plans, STEPS)
        self.store = PostgresStore(self.url)
        name = self.store.address.quoted_schema()
        self.store.ask(f"update {name}.repository set identity = '{NAME}'".encode())
        text = markdown(*(str(n) for n in range(1, STEPS + 1)))
        for plan in self.plans:
            self.repo.write({plan: text})
        self._logs = path / "logs"
        self._logs.mkdir()
        self._processes: list[subprocess.Popen] = []

    def number_at_insertion(self) -> None:
        """Plant the fault that all this is about."""
        schema = self.store.address.quoted_schema()
        self.store.ask(AT_INSERTION.format(schema=schema).encode())

    def follow(self, *words: str) -> Callable[[], str]:
        """Start a follower; a function that reads what it has said."""
        log = self._logs / str(len(self._processes))
        with log.open("wb") as file:
            env = {**os.environ, "TUGCODE_STATE_URL": self.server}
            process = subprocess.Popen(
                [sys.executable, *words], stdout=file, env=env, cwd=self.repo.path
            )
        self._processes.append(process)
        return log.read_text

    def log(self) -> Callable[[], str]:
        return self.follow("-m", "tugtool", "log", "--follow", "--json")

    def library(self) -> Callable[[], str]:
        return self.follow("-c", LIBRARY, str(self.repo.path))

    def watch(self, plan: str) -> Callable[[], str]:
        return self.follow("-m", "tugtool", "state", "show", plan, "--watch", "--json")

    def events(self) -> list[int]:
        """The number of every event that is recorded."""
        name = self.store.address.quoted_schema()
        rows = self.store.ask(f"select seq from {name}.events order by seq".encode()).rows
        return [row[0] for row in rows]

    def note(self, plan: str, kind: str):
        """A transaction that has noted an event, and is not committed."""
        tx = PostgresStore(self.url).write(plan)
        tx.note(kind, {}, anchor=None, actor=None, attempt=None)
        tx.run("update plans set updated_at = updated_at where plan_path = :plan")
        return tx

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self.store.close()


def numbers(said: str) -> list[int]:
    """The events in the order in which a follower was told of them."""
    documents = [json.loads(line) for line in said.split("\n")[:-1]]
    return [event["seq"] for each in documents for event in each["data"]["events"]]


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + MOST_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.fixture
def scene(tmp_path) -> Iterator[Callable[[int], Scene]]:
    made: list[Scene] = []
    with pg_disturbed.server() as server:

        def make(plans: int) -> Scene:
            made.append(Scene(tmp_path, server.url(), plans))
            return made[-1]

        yield make
        for each in made:
            each.end()


def _hold_two_open(scene: Scene) -> None:
    """The event that was written first is committed last."""
    first, second = scene.plans
    followers = [scene.log(), scene.library()]
    known = scene.events()
    for said in followers:
        wait_until(lambda said=said: numbers(said()) == known, "the beginning")
    early, late = scene.note(first, "early"), scene.note(second, "late")
    late.__exit__(None, None, None)
    for said in followers:
        wait_until(lambda said=said: len(numbers(said())) == len(known) + 1, "the late one")
    early.__exit__(None, None, None)
    # What comes after it is told of: the early one was before, or never.
    assert state.pause(scene.store, first)["paused"]
    for said in followers:
        wait_until(lambda said=said: scene.events()[-1] in numbers(said()), "the last one")
        assert numbers(said()) == scene.events(), "missed"


def test_no_follower_misses_the_event_of_a_transaction_that_was_held_open(scene):
    _hold_two_open(scene(2))


def test_the_held_transactions_show_an_engine_that_numbers_events_at_once(scene, monkeypatch):
    planted = scene(2)
    planted.number_at_insertion()
    with monkeypatch.context() as patch:
        for name, value in pg_workers.at_once().items():
            patch.setattr(pg_workers.transaction.PostgresTransaction, name, value)
        with pytest.raises(AssertionError, match=r"missed|the last one"):
            _hold_two_open(planted)


def _under_load(scene: Scene, planted: str = "") -> int:
    """Twenty followers while workers carry out all plans; how many events there were."""
    followers = [make() for make in [scene.log, scene.library] * 8]
    watchers = [scene.watch(plan) for plan in scene.plans[:4]]
    known = scene.events()
    for said in followers:
        wait_until(lambda said=said: numbers(said()) == known, "the beginning")
    with tempfile.TemporaryDirectory() as logs:
        crew = pg_disturbed.Workers(scene.url, Path(logs), 8, len(scene.plans), planted)
        crew.end()
    recorded = scene.events()
    for said in followers:
        wait_until(lambda said=said: recorded[-1] in numbers(said()), "the last one")
        assert numbers(said()) == recorded, "missed"
    for said in watchers:
        wait_until(lambda said=said: _is_done(said()), "a picture of the end")
    return len(recorded)


def _is_done(said: str) -> bool:
    lines = said.split("\n")[:-1]
    return bool(lines) and json.loads(lines[-1])["data"]["status"] == "done"


@pytest.mark.proof
def test_twenty_followers_miss_nothing_under_load(scene, spell):
    spell.tell(f"{_under_load(scene(5))} events to each of 16 followers and 4 watchers")


def test_the_load_shows_an_engine_that_numbers_events_at_once(scene):
    planted = scene(5)
    planted.number_at_insertion()
    with pytest.raises(AssertionError, match=r"missed|the last one"):
        _under_load(planted, planted="at once")
