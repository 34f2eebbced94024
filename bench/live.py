"""Measure how fast changes reach many watchers, what they cost, and what they cost others.

    python bench/live.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

A process writes a hundred events a second; watchers of a real `tugcode serve` on the same machine
note how late each event is. Then one watcher that never reads, and claims beside 50 watchers. Exit
status 1 if a budget is broken. `--self-test` plants a slow version for each, and fails unless all
are caught.
"""

import asyncio
import functools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import budgets
import harness
import served
import shapes
from harness import Bench
from served import Served

#: Watchers -> the most milliseconds until 99 of 100 events are there, and the most CPU in percent.
FAN_OUT: dict[int, tuple[float, float | None]] = {
    50: (150.0, 10.0),
    500: (500.0, None),
    5000: (4000.0, None),
}
#: A watcher's memory at the server; with few watchers other memory hides it.
MOST_KILOBYTES, FEWEST = 40.0, 500
MOST_UNREAD_MEGABYTES, MOST_BESIDE_UNREAD, MOST_BESIDE = 2.0, 1.25, 1.05
EVENTS_A_SECOND, UNREAD_EVENTS = 100, 400
BESIDE = 50
#: What the self-test plants.
SLOW_SENDER = "from tugtool.server import topics\ntopics._SHORTEST_REST = 5.0"
ENDLESS_QUEUE = (
    "from tugtool.server import watcher\n"
    "watcher.MOST_WAITING = watcher.WAITING_BYTES = 1 << 40\n"
    "add = watcher.Watcher.add\n"
    "watcher.Watcher.add = lambda self, said, *more: add(self, said + ' ' * 9999, *more)"
)
HOLDS_LOCK = """
import threading, time
from tugtool.server import hub
from tugtool.workflow.workspace import Workspace
begin = hub.Hub.__init__
def planted(self, base, **more):
    begin(self, base, **more)
    threading.Thread(target=hold, args=(self, base.repo.root), daemon=True).start()
def hold(watched, root):
    store = Workspace(root).store
    while True:
        time.sleep(0.005)  # the planted fault: workers get the lock now and then
        if watched.watchers:
            with store.write("bench"):
                time.sleep(0.02)  # and wait for it meanwhile
hub.Hub.__init__ = planted
"""
FAN_NOTE = (
    f"A process writes {EVENTS_A_SECOND} events a second; each watcher is a stream of server-sent "
    "events to one process on the same machine. Late: from the time of the event, which is before "
    "its commit, until the watcher has it. Then one watcher that never reads, and pairs of claim "
    f"and release on the file beside {BESIDE} watchers and beside none, by turns."
)
TOPICS = "events,overview,plan:.tugtool/tugplan-bench.md"


def main() -> int:
    if sys.argv[1:2] == ["watch"]:
        return asyncio.run(_watch(int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
    with harness.bench(__doc__, rounds=3, quick=1) as bench:
        plant = bench.options.self_test
        found = [
            *_fan_out(bench, plant=plant),
            *_unread(bench, plant=plant),
            *_beside(bench, plant=plant),
        ]
        columns = ("what", "found", "gate", "verdict")
        bench.results.table("live", "Watching what happens", FAN_NOTE, columns, found)
    return budgets.concluded(found, planted=plant)


# -- fan-out ---------------------------------------------------------------------------


def _fan_out(bench: Bench, *, plant: bool) -> Iterator[budgets.Row]:
    quick = bench.options.quick or plant
    seconds = 3 if quick else 10
    for watchers, (most, most_cpu) in FAN_OUT.items():
        if quick and watchers > 50:
            continue
        path = bench.repository(f"fan-{watchers}", shapes.plan("free", 10))
        with Served(path, change=SLOW_SENDER if plant else "") as server:
            p99, cpu, kilobytes, lost = asyncio.run(_crowd(server, path, watchers, seconds))
        yield budgets.judged(f"{watchers} watchers, p99 ms late", p99, most)
        if plant:
            continue
        print(f"{watchers} watchers: CPU {cpu:.1f} %, {kilobytes:.0f} kB each, lost {lost:.0f}")
        yield budgets.judged(f"{watchers} watchers, lost events", lost, 0)
        if most_cpu is not None:
            yield budgets.judged(f"{watchers} watchers, CPU %", cpu, most_cpu)
        if watchers >= FEWEST:
            yield budgets.judged(f"{watchers} watchers, kB each", kilobytes, MOST_KILOBYTES)


async def _crowd(server: Served, path: Path, number: int, seconds: float) -> tuple[float, ...]:
    """Return milliseconds (99 %), the server's CPU in percent, kilobytes each, and lost events."""
    delays: list[float] = []
    counts = [0] * number
    served.raise_limit()
    first = await _joined(server)
    before = server.resident()
    readers = [first, *[await _joined(server) for _ in range(number - 1)]]
    each = (server.resident() - before) / max(1, number - 1)
    tasks = [
        asyncio.ensure_future(_read(reader, counts, own, delays))
        for own, (reader, _) in enumerate(readers)
    ]
    cpu, begun = server.cpu(), time.monotonic()
    said = await asyncio.to_thread(server.run, "write", path, seconds, EVENTS_A_SECOND)
    spent = (server.cpu() - cpu) / (time.monotonic() - begun) * 100
    total, deadline = json.loads(said)["events"], time.monotonic() + 30
    while min(counts) < total and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for _, stream in readers:
        stream.close()
    p99 = statistics.quantiles(delays, n=100)[-1] * 1000
    return p99, spent, each, float(sum(total - count for count in counts))


async def _joined(
    server: Served, topics: str = "events"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Join, and read until the first ping: from now on every event comes."""
    return await _join(server.port, server.token, topics)


async def _join(
    port: int, token: str, topics: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    writer.write(
        f"GET /api/v1/live?topics={topics} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Authorization: Bearer {token}\r\n\r\n".encode()
    )
    while b'"ping"' not in await reader.readline():
        pass
    return reader, writer


async def _read(
    reader: asyncio.StreamReader, counts: list[int], own: int, delays: list[float]
) -> None:
    while line := await reader.readline():
        if not line.startswith(b"data: "):
            continue
        now = time.time()
        number, times = _events(line)
        counts[own] += number
        delays += [now - at for at in times]


@functools.lru_cache(maxsize=64)
def _events(line: bytes) -> tuple[int, list[float]]:
    """The number of events and their times; all watchers get the same line, which is read once."""
    said = json.loads(line[6:])
    if said["type"] != "events":
        return 0, []
    times = [datetime.fromisoformat(event["at"]).timestamp() for event in said["events"]]
    return len(times) + said["collapsed"], times


# -- a watcher that never reads --------------------------------------------------------


def _unread(bench: Bench, *, plant: bool) -> Iterator[budgets.Row]:
    """How much more memory the server takes for one watcher that never reads than if it did."""
    quick = bench.options.quick or plant
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for turn in range(1 if quick else 2 * bench.options.rounds - 1):
        for reads in _by_turns(turn):
            path = bench.repository(f"unread-{turn}-{reads}", shapes.plan("free", 60))
            with Served(path, change="" if reads or not plant else ENDLESS_QUEUE) as server:
                found[reads].append(asyncio.run(_growth(server, path, 5, reads=reads)))
    memory, late = (
        [(found[True][turn][n], found[False][turn][n]) for turn in range(len(found[True]))]
        for n in (0, 1)
    )
    more = statistics.median(unread - read for read, unread in memory) / 1024
    print("others, p99 ms late:", *(f"{read:.0f}/{unread:.0f}" for read, unread in late))
    yield budgets.judged("a watcher that never reads, MB", more, MOST_UNREAD_MEGABYTES)
    if not plant:
        what = "the others beside it, p99 late / beside one that reads"
        ratio = statistics.median(unread / read for read, unread in late)
        yield budgets.judged(what, ratio, MOST_BESIDE_UNREAD)


def _by_turns(turn: int) -> tuple[bool, bool]:
    """Both orders by turns: later is slower, because the record has grown."""
    return (True, False) if turn % 2 else (False, True)


async def _growth(
    server: Served, path: Path, seconds: float, *, reads: bool
) -> tuple[float, float]:
    """Return the kilobytes by which the server grew, and how late other watchers were."""
    delays: list[float] = []
    counts = [0] * 10
    others = [await _joined(server) for _ in counts]
    silent = await _joined(server, TOPICS)
    if not reads:
        transport: Any = silent[1].transport
        transport.pause_reading()
    before = server.resident()
    tasks = [
        asyncio.ensure_future(_read(each, counts, own, delays))
        for own, (each, _) in enumerate(others)
    ]
    tasks += [asyncio.ensure_future(_drop(silent[0]))] if reads else []
    await asyncio.to_thread(server.run, "write", path, seconds, UNREAD_EVENTS)
    grown = server.resident() - before
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for _, writer in (*others, silent):
        writer.close()
    return grown, statistics.quantiles(delays, n=100)[-1] * 1000


async def _drop(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 16):
        pass


# -- claims beside watchers ------------------------------------------------------------


def _beside(bench: Bench, *, plant: bool) -> Iterator[budgets.Row]:
    """How much longer a claim and a release take beside watchers, by turns."""
    quick = bench.options.quick or plant
    path = bench.repository("beside", shapes.plan("free", 60))
    ratios = []
    with Served(path, change=HOLDS_LOCK if plant else "") as server:
        server.run("write", path, 1, EVENTS_A_SECOND)
        for turn in range(2 if quick else 5 * bench.options.rounds - 1):
            times: dict[bool, float] = {}
            for watched in _by_turns(turn):
                crowd = _watchers(server) if watched else None
                found = json.loads(server.run("write", path, 2, EVENTS_A_SECOND))
                times[watched] = statistics.median(found["wall"])
                if crowd is not None:
                    crowd.kill()
                    crowd.communicate()
            ratios.append(times[True] / times[False])
    print("claims beside watchers, turn by turn:", *(f"{each:.2f}" for each in ratios))
    what = f"claims beside {BESIDE} watchers / none"
    yield budgets.judged(what, statistics.median(ratios), MOST_BESIDE)


def _watchers(server: Served) -> subprocess.Popen[str]:
    """Start a process with so many watchers; they are there when this returns."""
    words = [sys.executable, __file__, "watch", str(server.port), server.token, str(BESIDE)]
    crowd = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert crowd.stdout is not None
    crowd.stdout.readline()
    return crowd


async def _watch(port: int, token: str, number: int) -> int:
    """Watch until killed."""
    readers = [await _join(port, token, TOPICS) for _ in range(number)]
    print("ready", flush=True)

    await asyncio.gather(*(_drop(reader) for reader, _ in readers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
