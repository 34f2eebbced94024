"""Measure the page in a real Chromium: a plan of 300 steps, and 1,000 events a second.

    python bench/deck.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

A process writes to the record, `tugcode serve` sends what changed, and the page draws it: frames a
second, the longest task, the first draw, the memory after 100,000 events, and what a hidden tab
draws. Exit status 1 if a budget is broken. `--self-test` plants a slow page, and fails unless
every budget that it breaks is noticed. It needs Chromium, which it does not install.
"""

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import budgets
import harness
import shapes
import tabs
from harness import Bench
from served import Served
from tabs import Tab, Tabs

STEPS, EVENTS_A_SECOND, SECONDS, EVENTS = 300, 1000, 10, 100_000
FEWEST_FRAMES, LONGEST_TASK, FIRST_DRAW, MOST_HEAP = 50.0, 50.0, 400.0, 10.0
#: Notes when the rail filled the screen and was whole; long tasks, frames, and changes.
PROBE = """
window.seen = { drawn: 0, whole: 0, longest: 0, frames: 0, changes: 0 };
const seen = window.seen;
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) seen.longest = Math.max(seen.longest, each.duration);
}).observe({ type: "longtask", buffered: true });
const rows = () => document.querySelectorAll("ol.rail > li").length;
new MutationObserver((list) => {
  // The title tells of what needs you, also from a hidden tab.
  seen.changes += list.filter((each) => document.body?.contains(each.target)).length;
  for (const [name, number] of [["drawn", 30], ["whole", %d]]) {
    if (seen[name] || rows() < number) continue;
    seen[name] = -1;
    requestAnimationFrame(() => setTimeout(() => { seen[name] = performance.now(); }));
  }
}).observe(document, { childList: true, subtree: true, characterData: true, attributes: true });
const frame = () => { seen.frames += 1; requestAnimationFrame(frame); };
requestAnimationFrame(frame);
"""
#: What the self-test plants in the page: it draws all at every message, and forgets nothing.
SLOW = """
const kept = (window.kept = []);
const { store } = await import("/store.js");
const add = store.addEvents.bind(store);
store.addEvents = (said) => {
  for (let n = 0; n < 200; n++) kept.push(JSON.stringify(said) + n);
  const until = performance.now() + 120;
  while (performance.now() < until) document.body.offsetHeight;
  document.body.dataset.slow = String(kept.length);
  add(said);
};
"""
NOTE = (
    f"A plan of {STEPS} steps in Chromium without a window, beside the server and a process that "
    f"ticks and unticks their tasks, {EVENTS_A_SECOND:,} events a second for {SECONDS} s. First "
    "draw: from the address until the screen is full of rows, with an empty cache. Memory: of the "
    f"page's script, collected, after {EVENTS:,} events. A hidden tab: what changed in the page."
)


def main() -> int:
    with harness.bench(__doc__, rounds=5, quick=2) as bench:
        found = list(_measured(bench))
        columns = ("what", "found", "gate", "verdict")
        bench.results.table("deck", "The page", NOTE, columns, found)
    return budgets.concluded(found, planted=bench.options.self_test)


def _measured(bench: Bench) -> Iterator[budgets.Row]:
    plant, quick = bench.options.self_test, bench.options.quick or bench.options.self_test
    if not plant:
        path = bench.repository("first", shapes.plan("braid", STEPS))
        with Served(path) as server, tabs.chromium() as browser:
            times = [_first_draw(browser, server) for _ in range(bench.options.rounds)]
        print("first draws:", *(f"{each:.0f}" for each in times), "ms")
        yield budgets.judged("first draw, ms", statistics.median(times), FIRST_DRAW)
    path = bench.repository("deck", shapes.plan("free", STEPS))
    with Served(path) as server, tabs.chromium() as browser:
        tab = _opened(browser, server)
        if plant:
            tab.run(SLOW)
        # The plan's first events make its steps longer than they were.
        _written(server, path, 2, tab)
        seconds, before = (4 if quick else SECONDS), _heap(tab)
        noted = _written(server, path, seconds, tab)
        frames, written = noted["frames"] / noted["seconds"], noted["events"]
        yield budgets.judged("frames a second", frames, FEWEST_FRAMES, at_least=True)
        yield budgets.judged("longest task, ms", noted["longest"], LONGEST_TASK)
        while not quick and written < EVENTS:
            rest = (EVENTS - written) / EVENTS_A_SECOND + 1
            written += _written(server, path, rest, tab)["events"]
        yield budgets.judged("memory, MB more", _heap(tab) - before, MOST_HEAP)
        yield budgets.judged("changes of a hidden tab", _hidden(browser, server, path, tab), 0)


def _opened(browser: Tabs, server: Served) -> Tab:
    """Open the rail in a tab of its own, and wait until it is live."""
    tab = browser.tab()
    # A quick answer from the cache would not be a first draw.
    tab.send("Network.setCacheDisabled", cacheDisabled=True)
    tab.open(f"http://127.0.0.1:{server.port}/p/bench#t={server.token}", PROBE % STEPS)
    tab.until("document.documentElement?.dataset.live === 'live' && window.seen?.whole > 0")
    return tab


def _first_draw(browser: Tabs, server: Served) -> float:
    tab = _opened(browser, server)
    drawn = float(tab.run("return window.seen.drawn"))
    tab.close()
    return drawn


def _written(server: Served, path: Path, seconds: float, tab: Tab) -> dict[str, float]:
    """Write for so long, beside the page. Return what the page noted meanwhile."""
    tab.run("Object.assign(seen, { longest: 0, frames: 0, changes: 0, at: performance.now() })")
    said = json.loads(server.run("spread", path, seconds, EVENTS_A_SECOND))
    noted: dict[str, float] = tab.run(
        "return { ...seen, seconds: (performance.now() - seen.at) / 1000 }"
    )
    events, drawn = said["events"] / seconds, noted["seconds"]
    changes = f"{noted['changes']:.0f} changes of the page"
    print(f"{events:.0f} events a second, {drawn:.1f} s, {changes}", flush=True)
    return {**noted, "events": said["events"]}


def _heap(tab: Tab) -> float:
    """Return the memory of the page's script in megabytes, after a collection."""
    tab.send("HeapProfiler.collectGarbage")
    return float(tab.send("Runtime.getHeapUsage")["usedSize"]) / 1e6


def _hidden(browser: Tabs, server: Served, path: Path, tab: Tab) -> float:
    """Return how often the page changed, or drew, while another tab was in front of it."""
    front = browser.tab()
    tab.until("document.hidden")
    noted = _written(server, path, 3, tab)
    front.close()
    tab.show()
    tab.until("!document.hidden")
    return noted["changes"] + noted["frames"]


if __name__ == "__main__":
    sys.exit(main())
