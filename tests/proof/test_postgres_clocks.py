"""Clients whose clocks are ten minutes apart: leases go by the server's clock alone."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pg_disturbed
import pytest

from support.state import markdown
from tugtool.store.postgres import PostgresStore

pytestmark = pytest.mark.proof(share=0)

UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
NUMBERS = re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?|\d+[dhms]( \d+[hms])?\b|\d+(\.\d+)?")
COMMAND = str(Path(__file__).with_name("pg_clock.py"))
AHEAD, RIGHT, BEHIND = 600, 0, -600
MOST_SECONDS = 60
#: What a person sees of leases, ages and what is stale.
VIEWS = (
    ("status",),
    ("list",),
    ("show", "work"),
    ("ready", "work"),
    ("why", "work", "step-1"),
    ("stats", "work"),
    ("report", "work"),
    ("review", "work"),
    ("worktree", "list"),
    ("log", "--since", "5m", "--all"),
    ("state", "show", "work", "--json"),
    ("state", "ready", "work", "--json"),
)


class Machines:
    """A repository with two worktrees, and commands by machines whose clocks differ."""

    def __init__(self, repo, url: str, planted: str = "") -> None:
        self.repo, self._planted = repo, planted
        repo.plan("work", markdown("1 t", "2 t", "3 t < 1"))
        repo.write({".tugtool/config.toml": '[state]\nrepository = "team/shop"\n'})
        repo.commit()
        self.trees = {name: repo.path / ".tugtree" / name for name in ("ada", "ben")}
        for name, path in self.trees.items():
            repo.linked(path, name)
        self.url = url
        self.run(RIGHT, "state", "init", "work", "--create-database")

    def run(self, ahead: float, *words: str, at: str | None = None, ok: bool = True) -> str:
        """The answer of a machine whose clock is so many seconds ahead."""
        cwd = self.trees[at] if at else self.repo.path
        path = os.pathsep.join(str(Path(__file__).parents[n]) for n in (0, 1))
        env = {**os.environ, "TUGCODE_STATE_URL": self.url, "PYTHONPATH": path}
        argv = [sys.executable, COMMAND, str(ahead), self._planted, *words]
        done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False)
        assert not ok or done.returncode == 0, done.stderr + done.stdout
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr

    def data(self, ahead: float, *words: str, at: str | None = None) -> dict:
        return json.loads(self.run(ahead, *words, "--json", at=at))["data"]


@pytest.fixture
def machines(repo) -> Callable[..., Machines]:
    with pg_disturbed.server() as server:
        yield lambda planted="": Machines(repo, server.url(), planted)


def _leases(machines: Machines) -> None:
    """Nobody's lease ends early, and everybody's ends."""
    first = machines.data(BEHIND, "claim", "work", "--lease-duration", "300", at="ada")
    assert first["anchor"] == "step-1"
    # To a machine that is ahead it would have run out five minutes ago.
    second = machines.data(AHEAD, "claim", "work", "--lease-duration", "1", at="ben")
    assert (second["anchor"], second["reclaimed"]) == ("step-2", False)
    standing = machines.data(AHEAD, "show", "work")["steps"][0]
    assert standing["attempt"] == first["attempt"], "taken away"
    assert standing["lease_expires_at"] == first["lease_expires_at"]
    # To a machine that is behind, that of a second would last for twenty minutes.
    deadline = time.monotonic() + MOST_SECONDS
    while True:
        words = ("claim", "work", "--step", "step-2", "--also")
        said = machines.run(BEHIND, *words, "--json", at="ada", ok=False)
        if json.loads(said.split("\n")[0])["status"] == "ok":
            break
        assert time.monotonic() < deadline, "never ends"
    taken = json.loads(said.split("\n")[0])["data"]
    assert taken["reclaimed_from_expired"]


def test_leases_go_by_the_servers_clock_alone(machines):
    _leases(machines())


def test_the_leases_show_an_engine_with_a_clock_of_its_own(machines):
    with pytest.raises(AssertionError):
        _leases(machines("own clock"))


def _moments(machines: Machines) -> list[str]:
    """Every time in the record."""
    store = PostgresStore(machines.url, repository="team/shop")
    name = store.address.quoted_schema()
    columns = store.ask(
        b"select table_name, column_name from information_schema.columns where table_schema = $1"
        b" and (column_name in ('at', 'reserved_until') or column_name like '%\\_at')"
        b" and data_type = 'text'",
        store.address.schema,
    ).rows
    found = []
    for table, column in columns:
        if column != "lease_expires_at":
            rows = store.ask(f"select {column} from {name}.{table}".encode()).rows
            found += [row[0] for row in rows if row[0] is not None]
    store.close()
    return found


def _now(machines: Machines) -> str:
    store = PostgresStore(machines.url)
    text = "to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"
    moment = store.ask(f"select {text}".encode()).rows[0][0]
    store.close()
    return moment


def test_every_time_in_the_record_is_the_servers(machines):
    made = machines()
    before = min(_moments(made))
    for ahead, name, step in ((AHEAD, "ada", "step-1"), (BEHIND, "ben", "step-2")):
        made.run(ahead, "claim", "work", "--step", step, at=name)
        made.run(ahead, "update", "work", step, "--all", "completed", at=name)
        made.run(ahead, "artifact", "work", step, "--kind", "note", "--summary", "x", at=name)
        made.run(ahead, "complete", "work", step, at=name)
    found = _moments(made)
    assert len(found) > 20
    assert [each for each in found if not before <= each <= _now(made)] == []


def _read(said: str) -> tuple[str, list[float]]:
    """A text without its numbers; and these, times and durations as seconds."""
    values: list[float] = []

    def taken(found: re.Match[str]) -> str:
        parts = re.findall(r"\d+(?:\.\d+)?", found[0])
        if ":" in found[0]:
            values.append(sum(float(part) * 60**n for n, part in enumerate(reversed(parts))))
        else:
            units = re.findall(r"[dhms]", found[0]) or ["s"]
            values.append(sum(float(n) * UNITS[u] for n, u in zip(parts, units, strict=True)))
        return "#"

    return NUMBERS.sub(taken, said), values


def _differences(made: Machines, views: Iterable[tuple[str, ...]] = VIEWS) -> list[object]:
    """The views in which a machine sees another time than one whose clock is right."""
    found: list[object] = []
    for words in views:
        text, values = _read(made.run(RIGHT, *words))
        for ahead in (AHEAD, BEHIND):
            other, others = _read(made.run(ahead, *words))
            apart = [abs(one - two) for one, two in zip(values, others, strict=False)]
            # All machines look within a minute.
            if other != text or max(apart, default=0) > 60:
                found.append((words, ahead))
    return found


def _work(made: Machines) -> Machines:
    made.run(RIGHT, "claim", "work", "--lease-duration", "1830", at="ada")
    made.run(RIGHT, "start", "work", "step-1", at="ada")
    short = made.data(RIGHT, "claim", "work", "--lease-duration", "1", at="ben")
    while _now(made) <= short["lease_expires_at"]:
        time.sleep(0.05)
    return made


def test_what_is_shown_of_leases_is_the_same_on_every_machine(machines):
    made = _work(machines())
    assert _differences(made) == []
    for ahead in (AHEAD, BEHIND):
        assert re.search("(30|29)m left", made.run(ahead, "worktree", "list"))


def test_the_views_show_an_engine_with_a_clock_of_its_own(machines):
    views = [each for each in VIEWS if each[0] in ("status", "show", "why", "worktree")]
    found = {words for words, _ in _differences(_work(machines("own clock")), views)}
    assert found == set(views)
