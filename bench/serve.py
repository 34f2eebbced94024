"""Measure the server: its start and end, its writes in common commits, its cached answers.

    python bench/serve.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

A real `tugcode serve`, with clients over HTTP on the same machine. Exit status 1 if a budget is
broken. `--self-test` plants a slow version for each budget, and fails unless all are caught.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import budgets
import harness
import served
import shapes
from harness import Bench
from served import Client, Served

BATCH = 64
#: Clients; at these the gain of common commits is judged. Eight share at most eight to a commit.
CLIENTS, LEAST_GAIN = (1, 8, 32, 128), {8: 1.6, 32: 2.0}
MOST_P99, LEAST_LIBRARY, LEAST_CACHE = 0.7, 2.0, 25.0
MOST_START, MOST_MEGABYTES, MOST_STOP_SECONDS, STREAMS = 20.0, 60.0, 6.0, 200
PROCESSES = 32
#: What the self-test plants.
NO_CACHE = "from tugtool.server import work\nwork._FRESH_SECONDS = -1.0"
SLOW_START = "import time\nkept = b'x' * (80 << 20)\nwhile time.process_time() < 2: pass"
NO_END = (
    "from tugtool.server import process, work\nprocess.STOP_SECONDS = 60\n"
    "work.Service.end_streams = lambda self: None"
)
PAIRS_NOTE = (
    "Pairs of claim and completion a second, over HTTP, by clients in one other process: each "
    f"write with a commit of its own, and up to {BATCH} to a commit. Late: 99 of 100 requests are "
    f"answered within. Beside it {PROCESSES} processes that do the same on the file, as `tugcode` "
    "does without a server, but without starting anew for each command. What is shown is asked for "
    "compressed, as a browser asks for it."
)


def main() -> int:
    with harness.bench(__doc__, rounds=3, quick=1) as bench:
        plant = bench.options.self_test
        found = [*_pairs(bench, plant=plant), *_process(bench, plant=plant)]
        found += [*_cache(bench, plant=plant)]
        columns = ("what", "found", "gate", "verdict")
        bench.results.table("served", "The server", PAIRS_NOTE, columns, found)
    return budgets.concluded(found, planted=plant)


# -- writes ----------------------------------------------------------------------------


def _pairs(bench: Bench, *, plant: bool) -> Iterator[budgets.Row]:
    """Common commits against one each, and the server against processes on the file."""
    clients = tuple(LEAST_GAIN) if bench.options.quick or plant else CLIENTS
    grouped = 1 if plant else BATCH
    found: dict[tuple[int, str], list[dict[str, float]]] = {}
    alone: list[float] = []
    for turn in range(1 if plant else bench.options.rounds):
        for number in clients:
            for name, batch in (("each", 1), ("together", grouped)):
                data = _drained(bench, f"{turn}-{number}-{name}", number, batch)
                found.setdefault((number, name), []).append(data)
        alone.append(_library(bench, f"{turn}-library"))
    rates: dict[int, float] = {}
    for number in clients:
        each, together = (_medians(found[number, name]) for name in ("each", "together"))
        rates[number] = together[0]
        gain, late = together[0] / each[0], together[1] / each[1]
        print(
            f"{number} clients: {each[0]:.0f} pairs/s, together {together[0]:.0f} ({gain:.2f} x), "
            f"p99 {each[1]:.1f} and {together[1]:.1f} ms ({late:.2f} x)"
        )
        if number in LEAST_GAIN:
            what = f"{number} clients, pairs/s, together / each"
            yield budgets.judged(what, gain, LEAST_GAIN[number], at_least=True)
            yield budgets.judged(f"{number} clients, p99, together / each", late, MOST_P99)
    print(f"{PROCESSES} processes on the file: {statistics.median(alone):.0f} pairs/s")
    ratio = rates[32] / statistics.median(alone)
    yield budgets.judged(
        "32 clients / 32 processes on the file", ratio, LEAST_LIBRARY, at_least=True
    )


def _medians(found: list[dict[str, float]]) -> tuple[float, float]:
    names = ("per_second", "p99_ms")
    return tuple(statistics.median(each[name] for each in found) for name in names)  # type: ignore[return-value]


def _steps(bench: Bench) -> int:
    return 200 if bench.options.quick or bench.options.self_test else 400


def _drained(bench: Bench, name: str, clients: int, batch: int) -> dict[str, float]:
    path = bench.repository(f"pairs-{name}", shapes.plan("free", _steps(bench) + 1))
    with Served(path, batch=batch) as server:
        found: dict[str, float] = json.loads(
            server.run("pairs", server.port, server.token, clients)
        )
    assert found["pairs"] == _steps(bench), found
    print(f"  {name}: {found['per_second']:.0f} pairs/s, p99 {found['p99_ms']:.1f} ms", flush=True)
    return found


def _library(bench: Bench, name: str) -> float:
    """Pairs a second of 32 processes, from the first that begins to the last that ends."""
    path = bench.repository(name, shapes.plan("free", _steps(bench) + PROCESSES))
    words = [sys.executable, served.__file__, "library", str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    crowd: list[Any] = [
        subprocess.Popen([*words, f"w{number}"], **pipes)  # type: ignore[call-overload]
        for number in range(PROCESSES)
    ]
    for each in crowd:
        each.stdout.readline()
    # All are there, so that no import is measured.
    begun = time.perf_counter()
    for each in crowd:
        each.stdin.write("\n")
        each.stdin.flush()
    done = sum(int(each.communicate()[0]) for each in crowd)
    assert done == _steps(bench), done
    return done / (time.perf_counter() - begun)


# -- start and end ---------------------------------------------------------------------


def _process(bench: Bench, *, plant: bool) -> Iterator[budgets.Row]:
    """The cost of a start, and the time of an end with open streams."""
    path = bench.repository("process", shapes.plan("free", 60))
    cpu, memory, bare = [], [], []
    for _ in range(max(3, bench.options.rounds)):
        bare.append(_bare())
        with Served(path, change=SLOW_START if plant else "") as server:
            asyncio.run(_once(server))
            cpu.append(server.cpu())
            memory.append(server.resident() / 1024)
    ratio = statistics.median(cpu) / statistics.median(bare)
    yield budgets.judged("start, CPU / python -c pass", ratio, MOST_START)
    yield budgets.judged("memory after the start, MB", statistics.median(memory), MOST_MEGABYTES)
    with Served(path, change=NO_END if plant else "") as server:
        seconds = asyncio.run(_stopped(server))
    what = f"SIGTERM with {STREAMS} open streams, seconds"
    yield budgets.judged(what, seconds, MOST_STOP_SECONDS)


def _bare() -> float:
    before = _children()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return _children() - before


def _children() -> float:
    import resource

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


async def _once(server: Served) -> None:
    client = Client(server.port, server.token)
    await client.open()
    await client.ask("version")
    client.close()


async def _stopped(server: Served) -> float:
    streams = [
        await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 22)
        for _ in range(STREAMS)
    ]
    for reader, writer in streams:
        writer.write(
            f"GET /api/v1/live?topics=events,overview HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
            f"Authorization: Bearer {server.token}\r\n\r\n".encode()
        )
        await reader.readuntil(b'"ping"')
    seconds = await asyncio.to_thread(server.stop, MOST_STOP_SECONDS + 2)
    for _, writer in streams:
        writer.close()
    return seconds


# -- cached answers --------------------------------------------------------------------


def _cache(bench: Bench, *, plant: bool) -> Iterator[budgets.Row]:
    """Answers a second of `state show` of 300 steps, rendered once and rendered each time."""
    path = bench.repository("cache", shapes.plan("free", 300))
    seconds, rates = (1.0 if bench.options.quick or plant else 3.0), []
    for change in (NO_CACHE if plant else "", NO_CACHE):
        with Served(path, change=change) as server:
            rates.append(asyncio.run(_shown(server, seconds)))
    print(f"state show of 300 steps: {rates[0]:.0f}/s cached, {rates[1]:.0f}/s not")
    what = "state show of 300 steps, cached / not"
    yield budgets.judged(what, rates[0] / rates[1], LEAST_CACHE, at_least=True)


async def _shown(server: Served, seconds: float) -> float:
    every = [Client(server.port, server.token) for _ in range(4)]
    counts = [0] * len(every)
    for each in every:
        await each.open()
        await each.ask("state/show?plan=bench")
    begun = time.perf_counter()

    async def ask(number: int) -> None:
        while time.perf_counter() < begun + seconds:
            await every[number].ask("state/show?plan=bench")
            counts[number] += 1

    await asyncio.gather(*map(ask, range(len(every))))
    return sum(counts) / (time.perf_counter() - begun)


if __name__ == "__main__":
    sys.exit(main())
