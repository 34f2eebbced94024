"""Processes that wait for a change in PostgreSQL: what they cost, and how soon they know.

    python bench/watchers.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

50 and 500 processes wait as `--watch` and `log --follow` do, each with its connection. First
nothing happens; then single events. Then claims beside 50 of them and beside none, by turns. Exit
status 1 if a budget is broken. `--self-test` swallows every notice, and fails unless that is
caught.
"""

import multiprocessing
import os
import statistics
import struct
import sys
import time
from typing import Any

import crowd
import harness
from harness import Bench

import server as servers
from tugtool import state
from tugtool.state.claims import Request
from tugtool.state.record import PlanCopy
from tugtool.store.postgres import listen

NOTE = (
    "Waiting: CPU of all watchers and of the server while nothing happens, as a part of one "
    "processor. Then events one by one: from the commit until the middle watcher and the last one "
    "know it. All share two processors."
)
CLAIMS_NOTE = (
    "CPU time of a claim, in its process and in its server process, beside watchers and without, "
    "by turns; means without the tenth at either end, because only some commits send a notice. "
    "What the watchers do with a notice is theirs, and comes after the commit. A notice costs its "
    "sender a signal for each watcher; at most one is sent in 150 ms, however many commits there "
    "are, so claims that come rarely pay more each."
)
#: The seconds between two claims: as fast as they go, and so that watchers are done with the last.
PAUSES = {"one after the other": 0.0, "20 in a second": 0.05}
_SAID = struct.Struct("=dd")


def _watch(url: str, said: int, asked: int) -> None:
    """Tell the time of every notice, and the CPU time until then."""
    store = crowd.opened(url, "watched")
    store.wait_for_change(0)
    os.write(said, _SAID.pack(0, time.process_time()))
    while os.getppid() == asked:
        if store.wait_for_change(5):
            os.write(said, _SAID.pack(time.monotonic(), time.process_time()))


class Watchers:
    """Some processes that wait."""

    def __init__(self, url: str, count: int) -> None:
        fork = multiprocessing.get_context("fork")
        self._source, said = os.pipe()
        words = (url, said, os.getpid())
        self._all = [fork.Process(target=_watch, args=words) for _ in range(count)]
        for each in self._all:
            each.start()
        os.close(said)
        self.told(seconds=120)

    def told(self, *, seconds: float) -> list[float]:
        """Return when each watcher knew of one event, in order; fewer if that takes too long."""
        found = list[float]()
        os.set_blocking(self._source, False)
        end = time.monotonic() + seconds
        while len(found) < len(self._all) and time.monotonic() < end:
            try:
                data = os.read(self._source, _SAID.size)
            except BlockingIOError:
                # Watchers write their own times; this only collects them, at little cost.
                time.sleep(0.002)
                continue
            found.append(_SAID.unpack(data)[0])
        return sorted(found)

    def cpu_seconds(self) -> float:
        ticks = [sum(map(int, servers._stat(each.pid)[11:13])) for each in self._all if each.pid]
        return sum(ticks) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        for each in self._all:
            each.terminate()
        for each in self._all:
            each.join()
        os.close(self._source)


def main() -> int:
    with harness.bench(__doc__, rounds=30, quick=5) as bench, servers.running() as server:
        if bench.options.self_test:
            # As a pooler does: then only a look now and then finds the change, and none is soon.
            listen.libpq.Connection._noticed = lambda *_: []
            listen.NOTICE_SECONDS = listen.LOOK_SECONDS = 5.0
        (key,) = crowd.prepare(server.url(), "watched", 1, 4000)
        late = _waiting(bench, server, key)
        if bench.options.self_test:
            print(f"self-test: swallowed notices are {'caught' if late else 'NOT caught'}")
            return int(not late)
        broken = late + _beside(bench, server, key)
    print(f"\n{broken} budgets broken" if broken else "\nevery budget is kept")
    return 1 if broken else 0


def _pair(store: Any, key: str) -> None:
    copy = PlanCopy(key, "hash")
    got = state.claim(store, key, Request("w"), copy=copy)
    state.release(store, key, got["anchor"], owner="w")


def _waiting(bench: Bench, server: servers.Server, key: str) -> int:
    quiet = 3 if bench.options.quick else 15
    store, rows, slowest = crowd.opened(server.url(), "watched"), [], []
    for count in (5, 10) if bench.options.quick else (50, 500):
        watchers = Watchers(server.url(), count)
        spent = watchers.cpu_seconds(), server.cpu_seconds()
        time.sleep(quiet)  # what is measured: nothing happens
        idle = [
            (after - before) / quiet
            for after, before in zip(
                (watchers.cpu_seconds(), server.cpu_seconds()), spent, strict=True
            )
        ]
        middles, lasts = [], []
        for _ in range(bench.options.rounds):
            change = state.resume if len(lasts) % 2 else state.pause
            change(store, key)
            begun = time.monotonic()
            told = watchers.told(seconds=20)
            middles.append(1000 * (statistics.median(told) - begun))
            lasts.append(1000 * (told[-1] - begun))
            time.sleep(0.2)  # every watcher waits again
        watchers.end()
        state.resume(store, key)
        slowest.append(statistics.median(lasts))
        row = (count, *idle, statistics.median(middles), slowest[-1], max(lasts))
        print(f"{count} watchers: idle {idle[0]:.4f} here, {idle[1]:.4f} server; notice", end="")
        print(f" after {row[3]:.0f} ms, the last {row[4]:.0f}, at worst {row[5]:.0f}", flush=True)
        rows.append(row)
    store.close()
    columns = ("watchers", "waiting, all watchers", "waiting, server", "notice, median ms",
               "the last watcher, ms", "at worst, ms")  # fmt: skip
    bench.results.table("watchers", "Waiting for a change in PostgreSQL", NOTE, columns, rows)
    return bench.results.figure("watchers-delay", slowest[0])


def _beside(bench: Bench, server: servers.Server, key: str) -> int:
    store = crowd.opened(server.url(), "watched")
    meter = crowd.Meter(store)
    for _ in range(10):
        meter.run("warm", lambda: _pair(store, key))
    for turn in range(2 if bench.options.quick else 8):
        # Both orders by turns: later is slower, because the record has grown.
        for count in (0, 50) if turn % 2 else (50, 0):
            watchers = Watchers(server.url(), count)
            for how, pause in PAUSES.items():
                for _ in range(bench.options.rounds):
                    meter.run(f"{how}, {count}", lambda: _pair(store, key))
                    time.sleep(pause)  # what is measured: claims that come rarely
            watchers.end()
    rows, ratios = [], []
    for how in PAUSES:
        found = [_means(meter.found[f"{how}, {count}"]) for count in (0, 50)]
        ratios.append(sum(found[1]) / sum(found[0]))
        rows += [(how, count, *costs) for count, costs in zip((0, 50), found, strict=True)]
        print(f"claims {how} beside 50 watchers: {ratios[-1]:.3f} times their cost alone")
    columns = ("claims", "watchers", "claim and release, CPU us here", "CPU us, server")
    bench.results.table("watchers-claims", "A claim beside watchers", CLAIMS_NOTE, columns, rows)
    store.close()
    return bench.results.figure("watchers-claims", max(ratios))


def _means(figures: list[tuple[float, ...]]) -> list[float]:
    """Return the mean CPU time here and in the server, without the extremes."""
    cut = len(figures) // 10
    columns = [sorted(column)[cut : len(figures) - cut] for column in zip(*figures, strict=True)]
    return [statistics.fmean(column) for column in columns[2:]]


if __name__ == "__main__":
    sys.exit(main())
