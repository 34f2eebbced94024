"""Workers of a state in PostgreSQL, each a process with its own connection.

Run by `postgres.py` with the interpreter of its installation; prints one JSON value.

    python bench/crowd.py work URL WORKERS PLANS SECONDS
    python bench/crowd.py operations URL ROUNDS
    python bench/crowd.py sizes URL SIZE,SIZE,... ROUNDS
"""

import json
import multiprocessing
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import claims
import shapes

from tugtool import state
from tugtool.errors import TugError
from tugtool.plan import parser
from tugtool.state.claims import Request
from tugtool.state.record import PlanCopy
from tugtool.store import open_store, sql
from tugtool.store.postgres import PostgresStore, create, libpq

#: More than any run can complete.
STEPS = 8000
#: Not counted: a new connection reads the catalog and plans each statement, some 20 ms of its
#: server's time. Workers keep theirs for hours. `jobs.py` does not count it either.
WARM_SECONDS = 2.0


def opened(url: str, name: str) -> PostgresStore:
    """Return a worker's store; it waits as long as a crowd may make it wait."""
    store = open_store(url, repository=name, busy_seconds=60)
    assert isinstance(store, PostgresStore)
    return store


def prepare(url: str, name: str, plans: int, steps: int) -> list[str]:
    """Make the tables of a new repository, with plans of free steps without items."""
    store = opened(url, name)
    create.make(store)
    text = shapes.plan("free", steps).replace("\n**Tasks:**\n- [ ] Lift it\n", "")
    parsed = parser.parse(text)
    keys = [f".tugtool/tugplan-{n}.md" for n in range(plans)]
    for key in keys:
        state.init(store, key, parsed, text="", hash="hash")
    store.ask(b"vacuum analyze")
    store.close()
    return keys


def _carry_out(
    url: str, name: str, keys: list[str], number: int, seconds: float, gate: Barrier, said: int
) -> None:
    """Claim and complete steps of one plan, one after the other, then of the next."""
    store, owner = opened(url, name), f"worker-{number}"
    with store.read() as tx:
        assert tx.now
    steps, counted, refused, longest = list[tuple[str, str]](), 0, 0, 0.0
    gate.wait()
    warm = time.monotonic() + WARM_SECONDS
    end = warm + seconds
    while (begun := time.monotonic()) < end:
        plan = keys[number % len(keys)]
        copy = PlanCopy(plan, "hash")
        try:
            got = state.claim(store, plan, Request(owner), copy=copy)
            if not got["claimed"]:
                number += 1
                continue
            longest = max(longest, time.monotonic() - begun)
            anchor, attempt = got["anchor"], got["attempt"]
            state.complete(store, plan, anchor, owner=owner, attempt=attempt, copy=copy)
            steps.append((plan, anchor))
            counted += warm <= time.monotonic() < end
        except TugError:
            refused += 1
    with os.fdopen(said, "w") as out:
        told = {"steps": steps, "counted": counted, "refused": refused, "longest": longest}
        json.dump(told, out)


def work(url: str, workers: str, plans: str, seconds: str) -> dict[str, Any]:
    """Let processes carry out plans for some seconds. Return their shares and the rate."""
    name, count = f"crowd-{os.getpid()}", int(workers)
    keys = prepare(url, name, int(plans), STEPS // int(plans))
    fork = multiprocessing.get_context("fork")
    gate = fork.Barrier(count + 1)
    sources = []
    for n in range(count):
        source, said = os.pipe()
        facts = (url, name, keys, n, float(seconds), gate, said)
        fork.Process(target=_carry_out, args=facts).start()
        os.close(said)
        sources.append(source)
    gate.wait()
    found = []
    for source in sources:
        with os.fdopen(source) as lines:
            found.append(json.loads(lines.read()))
    done = [(plan, step) for each in found for plan, step in each["steps"]]
    return {
        "rate": sum(each["counted"] for each in found) / float(seconds),
        "shares": sorted(len(each["steps"]) for each in found),
        "refused": sum(each["refused"] for each in found),
        "longest": max(each["longest"] for each in found),
        "twice": len(done) - len(set(done)) + _unequal(url, name, keys, done),
    }


def _unequal(url: str, name: str, keys: list[str], done: list[tuple[str, str]]) -> int:
    """Return how many completions the record has more or less than the workers."""
    store, recorded = opened(url, name), list[tuple[str, str]]()
    for key in keys:
        with store.read(key) as tx:
            rows = tx.all(sql.EVENTS)
            recorded += [(key, row["step_anchor"]) for row in rows if row["kind"] == "complete"]
    store.close()
    return len(recorded) - len(set(recorded)) + len(set(recorded) ^ set(done))


class Meter:
    """Round trips, statements, and CPU time here and in the server, for each operation."""

    def __init__(self, store: PostgresStore) -> None:
        self.trips = self.statements = 0
        self.found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
        send, flush = libpq.Connection.send, libpq.Connection.flush

        def sent(connection: libpq.Connection, *what: Any) -> None:
            self.statements += 1
            send(connection, *what)

        def flushed(connection: libpq.Connection) -> None:
            self.trips += 1
            flush(connection)

        # Counted where every round trip passes; type checkers forbid to replace a method.
        libpq.Connection.send, libpq.Connection.flush = sent, flushed  # type: ignore[method-assign]
        self._backend = int(store.ask(b"select pg_backend_pid()").rows[0][0])

    def _server(self) -> float:
        told = Path(f"/proc/{self._backend}/schedstat").read_text()
        return int(told.split()[0]) / 1000

    def run(self, operation: str, call: Callable[[], Any]) -> Any:
        self.trips = self.statements = 0
        server, begun = self._server(), time.process_time_ns()
        answer = call()
        spent = (time.process_time_ns() - begun) / 1000
        figures = (self.trips, self.statements, spent, self._server() - server)
        self.found[operation].append(figures)
        return answer

    def medians(self) -> dict[str, list[float]]:
        return {
            name: [statistics.median(column) for column in zip(*rows, strict=True)]
            for name, rows in self.found.items()
        }


def _measured(
    meter: Meter,
    kind: str | None,
    store: PostgresStore,
    key: str,
    what: str,
    call: Any,
    *words: Any,
    **how: Any,
) -> Any:
    name = "warm" if kind is None else f"{what}{kind}"
    return meter.run(name, lambda: call(store, key, *words, **how))


def operations(url: str, rounds: str) -> dict[str, list[float]]:
    """Return round trips, statements, and CPU us here and there of what a worker does."""
    name, owner = f"operations-{os.getpid()}", "worker"
    store = opened(url, name)
    create.make(store)
    plan, copy = claims.PLAN, claims.COPY
    for shape in ("free", "braid"):
        parsed = parser.parse(shapes.plan(shape, int(rounds) + 10))
        state.init(store, f"{shape}-{plan}", parsed, text="", hash="hash")
    meter = Meter(store)
    ticked = [{"kind": "task", "ordinal": 0, "status": "completed"}]
    for n in range(int(rounds)):
        for shape, more in (("free", ""), ("braid", ", two dependencies")):
            key = f"{shape}-{plan}"
            # The first few make the connection and prepare the statements.
            do = partial(_measured, meter, more if n > 5 else None, store, key)
            got = do("claim", state.claim, Request(owner), copy=copy)
            held = (got["anchor"],)
            do("start", state.start, *held, owner=owner)
            do("heartbeat", state.heartbeat, *held, owner=owner)
            do("update", state.update, *held, ticked, owner=owner, copy=copy)
            do("complete", state.complete, *held, owner=owner, copy=copy)
    store.close()
    found = meter.medians()
    del found["warm"]
    return found


def sizes(url: str, listed: str, rounds: str) -> dict[str, list[float]]:
    """Return the same figures of a claim in plans of these sizes, by turns."""
    stores = {}
    for size in listed.split(","):
        name = f"size-{size}-{os.getpid()}"
        (key,) = prepare(url, name, 1, int(size))
        stores[size] = opened(url, name), key
    found = {}
    for size, (store, key) in stores.items():
        # One at a time: each meter is about one connection.
        meter, copy = Meter(store), PlanCopy(key, "hash")
        for n in range(min(int(rounds), int(size) - 20)):
            call = lambda: state.claim(store, key, Request("w"), copy=copy)  # noqa: E731, B023
            got = meter.run("claim" if n > 5 else "warm", call)
            state.complete(store, key, got["anchor"], owner="w", copy=copy)
        found[size] = meter.medians()["claim"]
        store.close()
    return found


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
