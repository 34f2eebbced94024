"""The page while much happens: what a hidden tab does, how often it draws, how much it keeps.

Counted, not timed: `bench/deck.py` has the times. The browser is spoken to directly, because the
usual library tells every tab that it is in front.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import deck_scenes
from support.browser import tabs
from support.server import Process
from tugtool import state
from tugtool.state.claims import Request
from tugtool.state.revisions import Allowed
from tugtool.workflow import records
from tugtool.workflow.workspace import Workspace

pytestmark = pytest.mark.proof(share=0)

PLAN, STEPS = ".tugtool/tugplan-long.md", 60
#: Counts messages, drawings and what changes in the page.
COUNTS = """
window.seen = { messages: 0, changes: 0, frames: 0 };
const Plain = WebSocket;
window.WebSocket = class extends Plain {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", () => { seen.messages += 1; });
  }
};
const changed = (list) => list.filter((each) => document.body?.contains(each.target)).length;
new MutationObserver((list) => { seen.changes += changed(list); })
  .observe(document, { childList: true, subtree: true, characterData: true, attributes: true });
const frame = () => { seen.frames += 1; requestAnimationFrame(frame); };
requestAnimationFrame(frame);
"""
DRAWINGS = """
const { store } = await import("/store.js");
seen.drawings = 0;
store.onChange(() => { seen.drawings += 1; });
"""


class Load:
    """A plan, its page in a tab, and a hand that claims and gives back."""

    def __init__(self, browser, root: Path, server: Process) -> None:
        self.browser, self.server = browser, server
        self.space = Workspace(str(root))
        shown = state.show(self.space.store, PLAN)["steps"]
        self.step = next(each["anchor"] for each in shown if each["standing"] == "stale")
        self.tab = browser.tab()
        self.tab.open(f"{server.url}p/long#t={server.token}", COUNTS)
        self.tab.until("document.documentElement?.dataset.live === 'live'")
        self.tab.until(f"document.querySelectorAll('ol.rail > li').length === {STEPS}")
        self.tab.run(DRAWINGS)

    def write(self, pairs: int) -> int:
        """Claim and give back a step so often; the number of the last event."""
        copy, store = self.space.copy(PLAN), self.space.store
        for _ in range(pairs):
            request = Request("one", also=True, max_attempts=10**9)
            state.claim(store, PLAN, request, copy=copy, step=self.step)
            state.release(store, PLAN, self.step, owner="one")
        return state.log(store, PLAN)["events"][-1]["seq"]

    def revise(self, form: str, put: str) -> None:
        """Change every place of the plan's text that has this form, and agree to it."""
        file = Path(self.space.copy(PLAN).file)
        file.write_text(re.sub(form, put, file.read_text(), flags=re.MULTILINE))
        records.revise(self.space, PLAN, Allowed())

    def taken(self, seq: int) -> None:
        """Wait until the page has taken all up to an event."""
        self.tab.run(
            'const { store } = await import("/store.js");'
            f"while (store.seq < {seq}) await new Promise((done) => setTimeout(done, 20));"
        )

    def begin(self) -> None:
        self.tab.run("for (const name in seen) seen[name] = 0;")

    def seen(self) -> dict:
        return self.tab.run("return seen")


@pytest.fixture(scope="module")
def load(tmp_path_factory) -> Iterator[Load]:
    root = deck_scenes.make(tmp_path_factory.mktemp("load") / "long", STEPS)
    with Process(root) as server, tabs().chromium() as browser:
        made = Load(browser, root, server)
        yield made
        made.space.store.close()


def test_a_hidden_tab_draws_nothing_and_is_right_when_it_is_looked_at(load):
    front = load.browser.tab()
    load.tab.until("document.hidden")
    load.begin()
    load.taken(load.write(100))
    seen = load.seen()
    assert seen["messages"] > 0
    assert (seen["frames"], seen["drawings"], seen["changes"]) == (0, 0, 0)
    claimed = Request("one", also=True, max_attempts=10**9)
    copy = load.space.copy(PLAN)
    state.claim(load.space.store, PLAN, claimed, copy=copy, step=load.step)
    front.close()
    load.tab.show()
    row = f"li[data-step={load.step}][data-status=claimed]"
    load.tab.until(f"!document.hidden && document.querySelector('{row}')")
    state.release(load.space.store, PLAN, load.step, owner="one")


def test_a_page_that_draws_while_it_is_hidden_is_noticed(load):
    """The planted fault: every message is drawn at once, by a timer."""
    front = load.browser.tab()
    load.tab.until("document.hidden")
    load.begin()
    load.tab.run(
        "window.planted = setInterval(() => { document.querySelector('main').dataset.n ="
        " String(performance.now()); }, 50)"
    )
    load.tab.until("seen.changes > 0")
    load.tab.run("clearInterval(window.planted)")
    front.close()
    load.tab.show()
    load.tab.until("!document.hidden")


def test_messages_are_merged_into_frames_and_only_changed_rows_are_drawn(load):
    load.begin()
    rows = "new Set(list.map((each) => each.target.closest?.('li[data-step]')?.dataset.step))"
    load.tab.run(
        "window.rows = new Set(); window.watch = new MutationObserver((list) => {"
        f" for (const each of {rows}) if (each) window.rows.add(each); }});"
        " watch.observe(document.querySelector('ol.rail'),"
        " { childList: true, subtree: true, attributes: true, characterData: true })"
    )
    load.taken(load.write(300))
    seen = load.seen()
    assert 0 < seen["drawings"] <= seen["frames"]
    assert set(load.tab.run("watch.disconnect(); return [...window.rows]")) <= {load.step}


def test_after_thousands_of_events_the_page_is_as_large_as_before(load):
    load.taken(load.write(50))
    size = "return document.querySelectorAll('*').length"
    kept = "return (await import('/store.js')).store.events.length"
    before = load.tab.run(size)
    load.taken(load.write(1000))
    load.tab.until("true")
    assert abs(load.tab.run(size) - before) < 40
    assert load.tab.run(kept) <= 300


#: Changes one step with every frame, and has all as they were in the end.
DRAWN = """
const { store } = await import("/store.js");
const topic = Object.keys(store.topics).find((name) => name.startsWith("plan:"));
const { steps } = store.topics[topic].data;
const put = async (some) => {
  store.delta({ topic, seq: store.seq, set: { steps: some }, gone: {} });
  store.change();
  await new Promise(requestAnimationFrame);
};
for (let n = 0; n < 300; n++) await put([{ ...steps[n % steps.length], title: `drawing ${n}` }]);
await put(steps);
"""


def heap_bytes(load) -> float:
    """The memory of the page's script, after a collection."""
    load.tab.send("HeapProfiler.collectGarbage")
    return load.tab.send("Runtime.getHeapUsage")["usedSize"]


def test_what_was_drawn_before_is_forgotten(load):
    """A drawing of 60 steps makes some 20 kB of objects; none may hold on to the one before."""
    load.tab.run(DRAWN)
    before, drawn = heap_bytes(load), load.seen()["drawings"]
    load.tab.run(DRAWN)
    assert load.seen()["drawings"] >= drawn + 300
    assert heap_bytes(load) - before < 500_000


def test_a_change_of_every_step_is_drawn_by_parts_and_then_whole(load):
    """A revision of every title: what else the server sends meanwhile has these titles too."""
    load.tab.run(
        """
        window.parts = [];
        const title = (each) => each.target.parentElement?.closest(".title");
        const titles = (list) => new Set(list.map(title).filter(Boolean));
        window.watch = new MutationObserver((list) => parts.push(titles(list).size));
        watch.observe(document.querySelector("ol.rail"), { subtree: true, characterData: true });
        """
    )
    load.revise(r"^### Step .*", r"\g<0>!")
    drawn = "[...document.querySelectorAll('ol.rail .title')].map((each) => each.textContent)"
    load.tab.until(f"{drawn}.every((each) => each.endsWith('!'))")
    shown = [step["title"] for step in state.show(load.space.store, PLAN)["steps"]]
    assert load.tab.run(f"watch.disconnect(); return {drawn}") == shown
    parts = load.tab.run("return parts")
    assert sum(parts) == STEPS
    assert max(parts) <= 40 < STEPS
