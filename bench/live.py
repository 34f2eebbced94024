"""Measure how fast changes reach many watchers, and how much writes gain from common commits.

    python bench/live.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

A process writes a hundred events a second; watchers of a server on the same machine note how late
each event is. Then pairs of claim and completion, each with a commit of its own and 64 operations
to a commit. Exit status 1 if a budget is broken. `--self-test` reads late, and fails unless that is
caught.
"""

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import budgets
import claims
import harness
import shapes
from harness import Bench

from tugtool import state
from tugtool.state.claims import Request
from tugtool.store import open_store

#: Watchers -> the most milliseconds until 99 of 100 events are there, and the most CPU in percent.
FAN_OUT = {50: (150.0, 10.0), 500: (500.0, None), 5000: (4000.0, None)}
#: A watcher's memory at the server.
MOST_KILOBYTES = 40.0
#: Pairs a second, 64 operations to a commit / one.
LEAST_GAIN = 2.0
EVENTS_A_SECOND = 100
BATCH = 64
FAN_NOTE = (
    f"A process writes {EVENTS_A_SECOND} events a second; each watcher is a stream of server-sent "
    "events to one process on the same machine. Late: from the time of the event, which is before "
    "its commit, until the watcher has it."
)
GROUP_NOTE = (
    "Claims and completions by the library in one process: each with a commit of its own, and "
    f"{BATCH} operations to a commit, each under a savepoint (`Store.group`)."
)


def main() -> int:
    if sys.argv[1:2] == ["serve"]:
        return _serve(sys.argv[2])
    if sys.argv[1:2] == ["write"]:
        return _write(sys.argv[2], float(sys.argv[3]))
    with harness.bench(__doc__, rounds=3, quick=1) as bench:
        broken = _fan_out(bench, plant=bench.options.self_test) + _groups(bench)
        if bench.options.self_test:
            print(f"self-test: late readers are {'caught' if broken else 'NOT caught'}")
            return 0 if broken else 1
    print(f"\n{broken} budgets broken" if broken else "\nevery budget is kept")
    return 1 if broken else 0


# -- fan-out ---------------------------------------------------------------------------


def _serve(path: str) -> int:
    """Serve the live messages of a repository, without a guard and without limits."""
    import uvicorn

    from tugtool.server import live
    from tugtool.server.hub import Hub
    from tugtool.server.tokens import Caller
    from tugtool.server.work import Service
    from tugtool.workflow.workspace import Workspace

    _raise_limit()
    service = Service(Workspace(path), batch=BATCH)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            service.hub = service.hub or Hub(service.base, most=10**6, most_each=10**6)
            await live.serve_live(service, Caller("", "viewer"), scope, receive, send)

    how = {"lifespan": "off", "log_level": "critical", "http": "h11", "backlog": 8192}
    server = uvicorn.Server(uvicorn.Config(app, port=0, **how))  # type: ignore[arg-type]

    async def run() -> None:
        serving = asyncio.ensure_future(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        print(server.servers[0].sockets[0].getsockname()[1], flush=True)
        await serving

    asyncio.run(run())
    return 0


def _write(path: str, seconds: float) -> int:
    """Claim and give back steps, so many events a second."""
    store, copy = open_store(f"sqlite://{path}/.tugtool/state.db"), claims.copy_of(path)
    begun, count = time.monotonic(), 0
    while time.monotonic() < begun + seconds:
        state.claim(store, claims.PLAN, Request("one", max_attempts=10**9), copy=copy)
        state.release(store, claims.PLAN, "step-0", owner="one")
        count += 2
        # The load itself: so many events a second.
        time.sleep(max(0.0, begun + count / EVENTS_A_SECOND - time.monotonic()))
    store.close()
    print(count)
    return 0


def _raise_limit() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _fan_out(bench: Bench, *, plant: bool) -> int:
    quick = bench.options.quick or plant
    _raise_limit()
    seconds, rows, broken = (3 if quick else 10), [], 0
    for watchers, (most, most_cpu) in FAN_OUT.items():
        if quick and watchers > 500:
            continue
        path = bench.repository(f"fan-{watchers}", shapes.plan("free", 10))
        found = _watched(path, watchers, seconds, late=1.0 if plant else 0.0)
        p99, cpu, kilobytes, lost = found
        over = [p99 > most, bool(lost), kilobytes > MOST_KILOBYTES * (10 if watchers < 500 else 1)]
        over.append(most_cpu is not None and cpu > most_cpu)
        broken += any(over)
        verdict = budgets.verdict(p99, most)
        print(
            f"{watchers} watchers: p99 {p99:.0f} ms, CPU {cpu:.0f} %, {kilobytes:.0f} kB, {verdict}"
        )
        rows.append((watchers, round(p99), round(cpu), round(kilobytes), lost, most, verdict))
    columns = ("watchers", "p99 ms late", "CPU %", "kB each", "lost", "gate", "verdict")
    bench.results.table("live", "Watching what happens", FAN_NOTE, columns, rows)
    return broken


def _watched(path: Path, number: int, seconds: float, *, late: float) -> tuple[float, ...]:
    """Return milliseconds (99 %), the server's CPU in percent, kilobytes each, and lost events."""
    words = [sys.executable, os.path.abspath(__file__)]
    server = subprocess.Popen([*words, "serve", str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        return asyncio.run(
            _crowd(server.pid, port, number, [*words, "write", str(path)], seconds, late)
        )
    finally:
        server.kill()
        server.communicate()


async def _crowd(
    pid: int, port: int, number: int, writer: list[str], seconds: float, late: float
) -> tuple[float, ...]:
    delays: list[float] = []
    counts = [0] * number
    first = await _joined(port)
    before = _resident(pid)
    readers = [first, *[await _joined(port) for _ in range(number - 1)]]
    each = (_resident(pid) - before) / max(1, number - 1)
    tasks = [
        asyncio.ensure_future(_read(r, counts, n, delays, late)) for n, (r, _) in enumerate(readers)
    ]
    cpu, begun = _cpu(pid), time.monotonic()
    process = await asyncio.create_subprocess_exec(*writer, str(seconds), stdout=subprocess.PIPE)
    said, _ = await process.communicate()
    spent = (_cpu(pid) - cpu) / (time.monotonic() - begun) * 100
    total, deadline = int(said), time.monotonic() + 30
    while min(counts) < total and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for _, stream in readers:
        stream.close()
    p99 = statistics.quantiles(delays, n=100)[-1] * 1000
    return p99, spent, each, sum(total - count for count in counts)


async def _joined(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Join, and read until the first ping: from now on every event comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    writer.write(b"GET /?topics=events HTTP/1.1\r\nHost: x\r\n\r\n")
    while b'"ping"' not in await reader.readline():
        pass
    return reader, writer


async def _read(
    reader: asyncio.StreamReader, counts: list[int], own: int, delays: list[float], late: float
) -> None:
    while line := await reader.readline():
        if not line.startswith(b"data: "):
            continue
        said = json.loads(line[6:])
        if said["type"] == "events":
            now = time.time() + late
            counts[own] += len(said["events"]) + said["collapsed"]
            delays += [now - _seconds(event["at"]) for event in said["events"]]


def _seconds(at: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(at).timestamp()


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()


def _cpu(pid: int) -> float:
    return sum(map(int, _stat(pid)[11:13])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> float:
    return int(_stat(pid)[21]) * os.sysconf("SC_PAGE_SIZE") / 1024


# -- common commits --------------------------------------------------------------------


def _groups(bench: Bench) -> int:
    pairs = 100 if bench.options.quick else 600
    rates: dict[int, list[float]] = {1: [], BATCH: []}
    for turn in range(bench.options.rounds):
        for batch, found in rates.items():
            path = bench.repository(f"group-{turn}-{batch}", shapes.plan("free", pairs))
            store, copy = (
                open_store(f"sqlite://{path}/.tugtool/state.db"),
                claims.copy_of(str(path)),
            )
            begun = time.perf_counter()
            _pairs(store, copy, pairs, batch)
            found.append(pairs / (time.perf_counter() - begun))
            store.close()
    plain, grouped = (statistics.median(found) for found in rates.values())
    gain = grouped / plain
    verdict = budgets.verdict(gain, LEAST_GAIN, at_least=True)
    print(f"pairs a second: {plain:.0f}, in groups {grouped:.0f}: {gain:.2f} x, {verdict}")
    row = (round(plain), round(grouped), gain, LEAST_GAIN, verdict)
    columns = ("a commit each", "in groups", "x", "gate", "verdict")
    bench.results.table("groups", "Commits in common", GROUP_NOTE, columns, [row])
    return int(gain < LEAST_GAIN)


def _pairs(store: Any, copy: Any, pairs: int, batch: int) -> None:
    """Claim and complete so many steps."""
    for begin in range(0, pairs, batch // 2 or 1):
        several = range(begin, min(pairs, begin + (batch // 2 or 1)))
        if batch == 1:
            _pair(store, copy, begin)
            continue
        with store.group():
            for number in several:
                _pair(store, copy, number)


def _pair(store: Any, copy: Any, number: int) -> None:
    done = state.claim(store, claims.PLAN, Request(f"w{number}"), copy=copy)
    by = {"owner": f"w{number}", "copy": copy}
    state.complete(store, claims.PLAN, done["anchor"], **by, force_reason="measured")


if __name__ == "__main__":
    sys.exit(main())
