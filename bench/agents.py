"""A thousand agents on one PostgreSQL server, simulated with the real operations.

    python bench/agents.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

Agents carry out 50 plans: they claim a step, renew its lease every minute, and complete it after
some ten minutes. Every operation makes a connection of its own, as a command does. Some agents
die in the middle of a step; others take it over when its lease has run out. Time runs faster
(`FASTER`), so the server has as much more to do as it says. `--rounds` are minutes of their time.
Exit status 1 if a step is done twice or an operation is refused. `--self-test` lets the dead
complete their steps, and fails unless the record refuses them.
"""

import heapq
import json
import multiprocessing
import os
import random
import statistics
import sys
import time
from typing import Any

import crowd
import harness
from harness import Bench

import server as servers
from tugtool import state
from tugtool.errors import TugError
from tugtool.state.claims import Request
from tugtool.state.record import PlanCopy
from tugtool.store.sqlite import backup

AGENTS, PLANS, PROCESSES = 1000, 50, 4
#: Their minutes are so many times shorter than ours.
FASTER = 6
WORK_MINUTES, LEASE_MINUTES, DEATHS = 10.0, 3.0, 0.04
NOTE = (
    "Real operations, each with a new connection, on a server with synced commits that shares two "
    "processors with the agents; heartbeats every minute, steps of about ten minutes, one in 25 "
    f"ends with a death. Time runs {FASTER} times faster; load and growth are told for real time. "
    "Kept for good: without the heartbeats that are removed after an hour, the receipts that are "
    "removed after a day, and the space that both leave to later rows."
)


class Agents:
    """Some of the agents, with what each does next."""

    def __init__(self, url: str, keys: list[str], numbers: range, end: float, seed: int) -> None:
        self.url, self.keys, self.end = url, keys, end
        self.chance = random.Random(seed)
        minute = 60 / FASTER
        self.queue = [(time.monotonic() + self.chance.random() * minute, n, None) for n in numbers]
        heapq.heapify(self.queue)
        self.claims: list[float] = []
        self.counts = dict.fromkeys(
            ("operations", "completed", "deaths", "takeovers", "refused", "late"), 0
        )
        self.done: list[tuple[str, str]] = []
        self.dead: list[tuple[str, dict[str, Any], str]] = []

    def run(self) -> None:
        minute = 60 / FASTER
        while self.queue and self.queue[0][0] < self.end:
            due, number, held = heapq.heappop(self.queue)
            time.sleep(max(0.0, due - time.monotonic()))  # an agent works meanwhile
            held = self._act(f"agent-{number}", self.keys[number % len(self.keys)], held)
            pause = minute if held else minute * (0.5 + self.chance.random())
            heapq.heappush(self.queue, (max(due + pause, time.monotonic()), number, held))

    def _act(self, owner: str, plan: str, held: Any) -> Any:
        store, copy = crowd.opened(self.url, "agents"), PlanCopy(plan, "hash")
        self.counts["operations"] += 1
        begun = time.perf_counter()
        try:
            if held is None:
                lease = LEASE_MINUTES * 60 / FASTER
                request = Request(owner, lease_seconds=lease, max_attempts=10**6)
                got = state.claim(store, plan, request, copy=copy)
                self.claims.append(time.perf_counter() - begun)
                self.counts["takeovers"] += bool(got["claimed"] and got["reclaimed"])
                return got if got["claimed"] else None
            who = {"owner": owner, "attempt": held["attempt"]}
            if self.chance.random() < DEATHS / WORK_MINUTES:
                # Another agent comes in its place, under its name: it takes up its own step or
                # waits as everybody does.
                self.counts["deaths"] += 1
                self.dead.append((plan, held, owner))
                return None
            if self.chance.random() < 1 / WORK_MINUTES:
                state.complete(store, plan, held["anchor"], copy=copy, **who)
                self.counts["completed"] += 1
                self.done.append((plan, held["anchor"]))
                return None
            state.heartbeat(store, plan, held["anchor"], **who)
            return held
        except TugError as error:
            self.counts["late" if error.code == "E060" else "refused"] += 1
            return None
        finally:
            store.close()

    def haunt(self) -> int:
        """Let the dead complete their steps. Return how many were refused."""
        refused = 0
        for plan, held, owner in self.dead:
            store, copy = crowd.opened(self.url, "agents"), PlanCopy(plan, "hash")
            who = {"owner": f"{owner}-ghost", "attempt": held["attempt"]}
            try:
                state.complete(store, plan, held["anchor"], copy=copy, **who)
            except TugError:
                refused += 1
            store.close()
        return refused


def _process(said: int, plant: bool, *words: Any) -> None:
    agents = Agents(*words)
    agents.run()
    found = {"claims": agents.claims, "done": agents.done, **agents.counts}
    found["haunted"] = agents.haunt() if plant else len(agents.dead)
    with os.fdopen(said, "w") as out:
        json.dump(found, out)


def _simulate(
    url: str, keys: list[str], agents: int, seconds: float, seed: int, *, plant: bool
) -> list[dict[str, Any]]:
    fork, sources = multiprocessing.get_context("fork"), []
    end = time.monotonic() + seconds
    for n in range(PROCESSES):
        source, said = os.pipe()
        words = (said, plant, url, keys, range(n, agents, PROCESSES), end, seed + n)
        fork.Process(target=_process, args=words).start()
        os.close(said)
        sources.append(source)
    found = []
    for source in sources:
        with os.fdopen(source) as lines:
            found.append(json.loads(lines.read()))
    return found


def main() -> int:
    with harness.bench(__doc__, rounds=20, quick=3) as bench, servers.running() as server:
        broken = _run(bench, server)
    print(f"\n{broken} budgets broken" if broken else "\nevery budget is kept")
    return 1 if broken else 0


def _run(bench: Bench, server: servers.Server) -> int:
    agents = 100 if bench.options.quick else AGENTS
    minutes, plant = bench.options.rounds, bench.options.self_test
    seconds = minutes * 60 / FASTER
    keys = crowd.prepare(server.url(), "agents", PLANS, 20 + agents * minutes // 200)
    size, log = _sizes(server)
    server.ask("checkpoint")
    spent = server.cpu_seconds()
    found = _simulate(server.url(), keys, agents, seconds, bench.options.seed, plant=plant)
    spent = server.cpu_seconds() - spent
    after = _sizes(server)
    grown, logged = after[0] - size, after[1] - log
    kept = _next_day(server) - size
    counted = [key for key in found[0] if key not in ("claims", "done")]
    total = {key: sum(each[key] for each in found) for key in counted}
    done = [tuple(pair) for each in found for pair in each["done"]]
    claims = sorted(1000 * each for part in found for each in part["claims"])
    p99 = claims[int(len(claims) * 0.99)]
    days = minutes / 1440
    columns = ("agents", "operations/s", "server, part of a processor", "claim, median ms",
               "claim, p99 ms", "completed", "deaths", "takeovers", "refused", "twice",
               "database MB/day", "kept for good, MB/day", "log (WAL) MB/day")  # fmt: skip
    row = (agents, total["operations"] / minutes / 60, spent / minutes / 60,
           statistics.median(claims), p99, total["completed"], total["deaths"],
           total["takeovers"], total["refused"], len(done) - len(set(done)),
           grown / days / 1e6, kept / days / 1e6, logged / days / 1e6)  # fmt: skip
    for name, cell in zip(columns, row, strict=True):
        print(f"{name:<30}{cell:>12.4g}")
    title = "A thousand agents on one server"
    bench.results.table("agents", title, NOTE, columns, [row])
    if plant:
        caught = total["haunted"] == total["deaths"] > 0
        print(f"self-test: the dead are {'refused' if caught else 'NOT refused'}")
        return int(not caught)
    return bench.results.figure("agents-errors", total["refused"] + row[9])


def _sizes(server: servers.Server) -> tuple[float, float]:
    said = server.ask(
        "select pg_database_size(current_database()), pg_current_wal_lsn() - '0/0'::pg_lsn"
    )
    size, log = said.split("|")
    return float(size), float(log)


def _next_day(server: servers.Server) -> float:
    """Return the size a day later: old heartbeats and receipts are gone, their space is free."""
    store = crowd.opened(server.url(), "agents")
    name = store.address.quoted_schema()
    server.ask(f"update {name}.events set at = '2020-01-01T00:00:00.000Z'")
    backup.thin(store)
    store.close()
    server.ask(f"truncate {name}.receipts")
    server.ask("vacuum full")
    return _sizes(server)[0]


if __name__ == "__main__":
    sys.exit(main())
