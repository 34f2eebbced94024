"""Servers of a proof's own, workers on them, and the judge of what the workers were told."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from pg_workers import plans

from support import postgres_server
from support.state import markdown
from tugtool import state
from tugtool.plan import parser
from tugtool.store.postgres import PostgresStore, create

WORKERS = str(Path(__file__).with_name("pg_workers.py"))
SCHEMA = "faults"
#: No run takes so long, whatever is wrong.
MOST_SECONDS = 300


@contextlib.contextmanager
def directory() -> Iterator[Path]:
    """A short path that a server's user can reach."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="tug-f-", dir=place) as path:
        os.chmod(path, 0o755)
        yield Path(path)


@contextlib.contextmanager
def server(name: str = "one", **settings: str) -> Iterator[postgres_server.Server]:
    """A server of its own with the database of the tests."""
    with directory() as path:
        made = postgres_server.Server(path / name, **settings)
        made.make()
        made.start()
        made._run("createdb", "-h", str(path / name), "-U", "postgres", postgres_server.DATABASE)
        try:
            yield made
        finally:
            if made.process and made.process.poll() is None:
                made.kill()


def record(url: str, count: int, steps: int) -> None:
    """Make the tables, and so many plans with so many steps that need nothing."""
    store = PostgresStore(url)
    create.make(store)
    text = markdown(*(str(n) for n in range(1, steps + 1)))
    for plan in plans(count):
        state.init(store, plan, parser.parse(text), text=text, hash="h")
    store.close()


class Workers:
    """Processes at work, and what they were told so far."""

    def __init__(self, url: str, directory: Path, workers: int, count: int, planted: str) -> None:
        path = os.pathsep.join(str(Path(__file__).parents[n]) for n in (0, 1))
        self.directory = directory
        words = [url, str(workers), str(directory), str(count), planted]
        self.process = subprocess.Popen(
            [sys.executable, WORKERS, *words], env={**os.environ, "PYTHONPATH": path}
        )
        self._deadline = time.monotonic() + MOST_SECONDS

    def told(self) -> list[list[str]]:
        """Every answer that a worker wrote down."""
        lines = [
            line for log in self.directory.glob("*.log") for line in log.read_text().split("\n")
        ]
        return [json.loads(line) for line in lines if line.endswith("]")]

    def wait_for(self, answers: int) -> None:
        """Wait until there are so many answers, or the end."""
        while len(self.told()) < answers and self.process.poll() is None:
            assert time.monotonic() < self._deadline, "nothing goes on"
            time.sleep(0.02)

    def end(self) -> list[list[str]]:
        try:
            status = self.process.wait(max(1, self._deadline - time.monotonic()))
        finally:
            if self.process.poll() is None:
                self.process.kill()
        trouble = [each.read_text() for each in self.directory.glob("*.trouble")]
        assert (status, trouble) == (0, []), trouble[:1]
        return self.told()


def disturbed(
    url: str,
    strikes: list[Callable[[], object]],
    *,
    judge_at: str | None = None,
    workers: int = 32,
    count: int = 3,
    steps: int = 32,
    planted: str = "",
) -> str:
    """Have workers carry out plans, strike evenly while they do, and judge; what happened."""
    judge_at = judge_at or url
    record(url, count, steps)
    with tempfile.TemporaryDirectory(prefix="tug-w-") as logs:
        crew = Workers(url, Path(logs), workers, count, planted)
        answers = 3 * count * steps
        try:
            for number, strike in enumerate(strikes, 1):
                crew.wait_for(answers * number // (len(strikes) + 1))
                strike()
        finally:
            told = crew.end()
    judge(judge_at, told, count, steps)
    return f"{len(told)} answers of {workers} workers, {len(strikes)} strikes"


def judge(url: str, told: list[list[str]], count: int, steps: int) -> None:
    """Every answer is recorded, and everything is recorded once."""
    store = PostgresStore(url)
    name = store.address.quoted_schema()
    query = f"select kind, plan_path, step_anchor from {name}.events where step_anchor is not null"
    recorded = Counter(tuple(row) for row in store.ask(query.encode()).rows)
    artifacts = store.ask(f"select count(*) from {name}.step_artifacts".encode()).rows[0][0]
    store.close()
    twice = {each: n for each, n in recorded.items() if n > 1 and each[0] != "heartbeat"}
    assert not twice, f"more than once: {twice}"
    answered = Counter(tuple(each) for each in told)
    assert set(answered.values()) == {1}, "a worker was told something twice"
    lost = [each for each in answered if each not in recorded]
    assert not lost, f"acknowledged and not there: {lost[:5]}"
    done = [each for each in recorded if each[0] == "complete"]
    assert (len(done), artifacts) == (count * steps, count * steps)
