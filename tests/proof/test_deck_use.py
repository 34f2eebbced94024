"""The page in the hands of a person: by keys, by touch, through outages, and against the record.

What the page does is recorded with who and why, and the command of each dialog, given to a shell
in a twin of the repository, does the same. Numbers, words and signs are those of `--json` and of
the terminal, at 100 random states. A page that hears nothing says so.
"""

import contextlib
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from test_serve_live import Scene

from support import deck_scenes
from support.browser import Eye, browser_path, chromium
from support.network import Network
from support.server import Process
from support.state import KEY
from tugtool import state
from tugtool.server.tokens import Tokens
from tugtool.workflow.workspace import Workspace

pytestmark = pytest.mark.proof(share=0)

PLAN = ".tugtool/tugplan-long.md"
#: More than any plan here has.
MANY_ROWS = 400
PARKED, STALE, LAST = "step-16", "step-17", "step-15"
#: The word that a line of the terminal's picture begins with, and the number of its step.
LINE = re.compile(r"^  (\S) (\S+)  ?\S")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


class Hands:
    """A repository that a person works on by the page, and its twin, worked on by a shell."""

    def __init__(self, browser: Browser, place: Path, width: int, **how) -> None:
        self.root, self.twin = (deck_scenes.make(place / name, 25) for name in ("own", "twin"))
        self.server = Process(self.root)
        self.eye = Eye(browser, self.server, width, **how)
        self.page = self.eye.open("/")
        self.touch = bool(how.get("has_touch"))
        self.done: list[str] = []

    def close(self) -> None:
        assert self.eye.wrongs() == []
        self.eye.close()
        with self.server:
            pass

    def confirm(self, name: str, reason: str = "") -> None:
        """Say yes to the open dialog; a shell does the same to the twin."""
        dialog = self.page.locator(f"dialog[data-dialog={name}]")
        dialog.wait_for()
        if reason and self.touch:
            dialog.locator("input[name=reason]").fill(reason)
        elif reason:
            self.page.keyboard.type(reason)
        command = dialog.locator(".same code").inner_text()
        assert reason in command
        if self.touch:
            dialog.locator("[data-do]").tap()
        else:
            self.page.keyboard.press("Enter")
        dialog.wait_for(state="detached")
        self.eye.until("store.shown.saving === 0 && !store.pending")
        self.done.append(command)
        shell(command, self.twin)
        assert plain(self.root) == plain(self.twin), command

    def told(self, kind: str, root: Path | None = None) -> tuple[str, str]:
        """Who did the last thing of this kind, and why."""
        store = Workspace(str(root or self.root)).store
        found = [each for each in state.log(store, PLAN)["events"] if each["kind"] == kind][-1]
        return found["actor"], found["detail"].get("reason") or found["detail"].get("note")


def shell(command: str, cwd: Path) -> str:
    """Run a command as somebody who pasted it."""
    programs = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def plain(root: Path) -> object:
    """What the record says of each step and item, without times and places."""
    data = state.show(Workspace(str(root)).store, PLAN)
    steps = [
        (each["anchor"], each["standing"], each["status"], each["attempt"], bool(each["parked_at"]))
        for each in data["steps"]
    ]
    items = [
        (each["step_anchor"], each["kind"], each["ordinal"], each["status"], each["reason"])
        for each in data["checklist_items"]
    ]
    return data["status"], bool(data["paused_at"]), steps, items


@pytest.fixture
def hands(browser, tmp_path):
    made: list[Hands] = []

    def make(width: int, **how) -> Hands:
        made.append(Hands(browser, tmp_path, width, **how))
        return made[-1]

    yield make
    for each in made:
        each.close()


def case_of(page: Page, name: str):
    return page.locator(f"[data-case='{name}']")


def test_a_morning_by_keys_alone(hands):
    there = hands(1280)
    page, keys = there.page, there.page.keyboard
    keys.press("n")  # what needs me
    case_of(page, "deferred:long:step-3.checkpoint.1").wait_for()
    assert page.locator(".case h3", has_text="Evidence").count() == 1
    page.locator(".case [data-diff]", has_text="def step_3").wait_for()
    keys.press("a")
    there.confirm("accept")
    keys.press("g")
    keys.press("r")
    case_of(page, "deferred:long:step-15.checkpoint.1").wait_for()
    keys.press("x")
    there.confirm("reject", "It is not polite")
    keys.press("Control+k")
    keys.type("plan long")
    keys.press("Enter")
    page.locator("ol.rail").wait_for()
    keys.press("p")
    there.confirm("pause", "after lunch")
    keys.press("p")
    there.confirm("resume")
    at = "document.activeElement.closest('[data-step]')?.dataset.step"
    seen = []
    while page.evaluate(at) != PARKED:
        keys.press("j")
        seen.append(page.evaluate(at))
        assert len(seen) < MANY_ROWS, seen
    keys.press("Enter")
    page.locator(f".panel [data-step={PARKED}]").wait_for()
    page.locator(".panel [data-action=reset]").focus()
    keys.press("Enter")
    there.confirm("reset", "CRLF it is")
    keys.press("]")
    assert page.evaluate("document.activeElement.dataset.section") == "why"
    keys.press("Escape")
    page.locator(".panel").wait_for(state="detached")
    check_record(there)


def test_a_morning_by_touch_on_a_telephone(hands):
    there = hands(390, has_touch=True, is_mobile=True)
    page = there.page
    page.locator("nav.bottom a", has_text="Review").tap()
    page.locator("[data-need=deferred]", has_text="step-3").tap()
    case_of(page, "deferred:long:step-3.checkpoint.1").wait_for()
    page.locator(".case [data-diff] .fold-head").tap()
    page.locator(".case [data-diff]", has_text="def step_3").wait_for()
    page.locator(".case [data-action=accept]").tap()
    there.confirm("accept")
    page.locator("nav.bottom a", has_text="Review").tap()
    page.locator("[data-need=deferred]", has_text="step-15").tap()
    page.locator(".case [data-action=reject]").tap()
    there.confirm("reject", "It is not polite")
    page.locator("nav.bottom a", has_text="Plan").tap()
    page.locator("[data-action=pause]").tap()
    there.confirm("pause", "after lunch")
    page.locator("[data-action=resume]").tap()
    there.confirm("resume")
    page.locator(f"[data-step={PARKED}] [data-row]").tap()
    page.locator(".step [data-action=reset]").tap()
    there.confirm("reset", "CRLF it is")
    check_record(there)


def check_record(there: Hands) -> None:
    assert len(there.done) == 5
    assert there.told("review_accepted")[0] == "Ada"
    assert there.told("review_rejected") == ("Ada", "It is not polite")
    assert there.told("pause") == ("Ada", "after lunch")
    assert there.told("resume")[0] == "Ada"
    assert there.told("unpark") == ("Ada", "CRLF it is")
    # The shell's record names the same person.
    for kind in ("review_accepted", "review_rejected", "pause", "resume", "unpark"):
        assert there.told(kind, there.twin) == there.told(kind)


def test_every_other_action_of_a_step_is_recorded_and_does_what_its_command_does(hands):
    there = hands(1280)
    for step, action, kind in (
        (STALE, "release", "release"),
        (STALE, "park", "release"),
        (STALE, "retry", "unpark"),
        (LAST, "reopen", "reopen"),
    ):
        if action == "park":
            for root in (there.root, there.twin):
                shell(f"tugcode claim long --step {STALE}", root)
        page = there.eye.open(f"/p/long?s={step}")
        page.locator(f".panel [data-action={action}]").click()
        there.confirm(action, "" if action == "retry" else f"to {action} it")
        assert there.told(kind)[0] == there.told(kind, there.twin)[0] == "Ada", action
    assert there.told("reopen")[1] == "to reopen it"


def test_a_write_to_what_has_changed_meanwhile_is_refused_and_says_what_changed(hands):
    there = hands(1280)
    page = there.eye.open(f"/p/long?s={PARKED}")
    page.locator(".panel [data-action=reset]").click()
    page.locator("dialog[data-dialog=reset] input").fill("too late")
    shell(f"tugcode reset long {PARKED} --reason 'another was faster'", there.root)
    page.locator("dialog [data-do=reset]").click()
    refusal = page.locator("dialog .refusal")
    refusal.wait_for()
    assert "E106" in refusal.inner_text()
    refusal.locator("li", has_text=PARKED).wait_for()
    page.locator("dialog .cancel").click()
    there.eye.console.clear()  # the browser itself tells of the 409


# -- truth ---------------------------------------------------------------------------------


def rows(page: Page) -> list[list[str]]:
    """Each row of the rail as a person reads it: anchor, sign, word, items done."""
    return page.evaluate(
        "() => [...document.querySelectorAll('ol.rail [data-step]')].map((row) => ["
        "row.dataset.step, ...['.glyph', '.word', '.num.done']"
        ".map((part) => row.querySelector(part).textContent)])"
    )


def counted(step: dict) -> str:
    numbers = [kind for kind in step["rolled_up"].values()]
    total = sum(sum(kind.values()) for kind in numbers)
    return f"{sum(kind['completed'] for kind in numbers)}/{total}"


def terminal(root: Path) -> list[str]:
    """The signs in the picture of the terminal, step by step."""
    said = shell("COLUMNS=200 LC_ALL=C.UTF-8 tugcode show work", root)
    return [found[1] for line in said.splitlines() if (found := LINE.match(line))]


def check_truth(scene: Scene, eye: Eye, words: dict) -> None:
    """All that the rail and the header say is what the record says."""
    data = state.show(scene.space.store, KEY)
    last = state.log(scene.space.store, KEY)["events"][-1]["seq"]
    eye.wait_seq(last)
    shown = rows(eye.page)
    expected = []
    for step in data["steps"]:
        said = words["standings"][step["standing"]]
        word = said["word"]
        if step["standing"] == "at_work" and step["status"] == "claimed":
            word = "claimed"
        expected.append([step["anchor"], said["sign"], word, counted(step)])
    assert shown == expected
    assert [row[1] for row in shown] == terminal(scene.root)
    done = sum(step["status"] == "completed" for step in data["steps"])
    assert f"{done}/{len(data['steps'])}" in eye.page.locator(".plan-head").inner_text()


@pytest.fixture
def scene(browser, desk, monkeypatch):
    made = Scene(
        desk("1 tt", "1.1 t", "2 t < 1", "3 tc", "4 t < 2,3", "5 t", "6 t < 5").repo.path, 1
    )
    made.watchers = []
    yield made
    made.close()


def test_at_a_hundred_random_states_the_page_says_what_the_record_says(browser, scene):
    scene.chance = random.Random(int(os.environ.get("TUG_SEED") or 7))
    eye = Eye(browser, scene.server)
    try:
        page = eye.open("/p/work")
        words = page.evaluate("async () => (await import('/store.js')).store.words")
        for _ in range(100):
            for _ in range(scene.chance.randrange(1, 4)):
                scene.write()
            check_truth(scene, eye, words)
        assert eye.wrongs() == []
        words["standings"]["ready"] = {"sign": "x", "word": "x"}
        assert _is_noticed(scene, eye, words)
    finally:
        eye.close()


def _is_noticed(scene: Scene, eye: Eye, words: dict) -> bool:
    """True if a wrong word is found at one of some further states."""
    for _ in range(20):
        scene.write()
        try:
            check_truth(scene, eye, words)
        except AssertionError:
            return True
    return False


# -- visits --------------------------------------------------------------------------------


#: Waits until the page was told what happened since the last visit.
ANSWERED = """async () => {
  const { visits } = await import("/visits.js");
  const end = performance.now() + 60000;
  while (visits.last && !visits.found) {
    if (performance.now() > end) throw new Error("not told within a minute");
    await new Promise(requestAnimationFrame);
  }
}"""


def test_what_changed_between_two_visits_is_told_to_this_browser_alone(browser, tmp_path):
    with Process(deck_scenes.make(tmp_path / "own", 7)) as server:
        here, elsewhere = Eye(browser, server), Eye(browser, server)

        def told(eye: Eye) -> list[str]:
            """Go away for two hours, come back, and read what is told of them."""
            eye.page.goto("about:blank")
            eye.page.clock.fast_forward(7_200_000)
            eye.open("/")
            eye.page.evaluate(ANSWERED)
            eye.until("!store.pending")
            return eye.page.locator(".since li").all_inner_texts()

        try:
            here.page.clock.install()
            elsewhere.page.clock.install()
            here.open("/")
            assert told(here) == []
            park = {"plan": "long", "step": "step-5", "reason": "no key", "worktree": "red"}
            for path in ("reset", "claim", "release"):
                names = {"reset": "reason", "claim": "worktree", "release": "reason worktree"}
                body = {name: park[name] for name in ("plan", "step", *names[path].split())}
                body |= {"park": True} if path == "release" else {}
                answer = server.request("POST", f"/api/v1/state/{path}", json.dumps(body).encode())
                assert answer.status == 200, answer.body
            assert told(here) == ["1 parked"]
            here.page.locator(".since button", has_text="Read").click()
            here.page.locator(".since.folded").wait_for()
            assert told(here) == []
            elsewhere.open("/")
            assert elsewhere.page.locator(".since").count() == 0
        finally:
            here.close()
            elsewhere.close()


# -- outages -------------------------------------------------------------------------------

#: Every state that the page said it was in, in order.
STATES = """
window.states = [];
const note = () => { const now = document.documentElement?.dataset.live;
  if (now && now !== window.states.at(-1)) window.states.push(now); };
const what = { attributes: true, subtree: true, attributeFilter: ["data-live"] };
new MutationObserver(note).observe(document, what);
"""


class Outage:
    """A page that is looked at while its server has trouble."""

    def __init__(self, browser: Browser, scene: Scene) -> None:
        self.scene = scene
        tokens = Tokens(str(scene.root / ".git" / "tugtool"))
        self.token, _ = tokens.add("ada", role="operator")
        self.eye = Eye(browser, scene.server)
        self.eye.context.add_init_script(STATES)
        self.page = self.eye.page
        self.page.clock.install()
        self.eye.open("/p/work", live=False, token=self.token)
        self.state("live")

    def state(self, name: str) -> None:
        self.page.locator(f"html[data-live={name}]").wait_for(state="attached")

    def states(self) -> list[str]:
        return self.page.evaluate("window.states")

    def again(self) -> None:
        """Start the server once more where it was."""
        port = str(self.scene.server.port)
        self.scene.server = self.eye.server = Process(self.scene.root, "--port", port)

    def is_right(self) -> None:
        """The page is live, and equal to the record."""
        self.state("live")
        data = state.show(self.scene.space.store, KEY)
        for step in data["steps"]:
            row = f"ol.rail [data-step={step['anchor']}][data-standing={step['standing']}]"
            self.page.locator(row).wait_for()


@pytest.fixture
def outage(browser, scene):
    made = Outage(browser, scene)
    yield made
    made.eye.close()


def test_a_server_that_was_killed_is_told_and_comes_back_by_itself(outage):
    os.kill(outage.scene.server.running.pid, signal.SIGKILL)
    outage.scene.server.end()
    outage.state("lost")
    assert "Not live" in outage.page.locator("[data-banner=lost]").inner_text()
    outage.scene.write()
    outage.again()
    outage.page.clock.run_for(20_000)
    outage.is_right()
    assert "lost" in outage.states()


def test_a_server_that_falls_silent_is_told(outage):
    """As with a network that was cut: nothing is closed, nothing comes."""
    os.kill(outage.scene.server.running.pid, signal.SIGSTOP)
    try:
        outage.page.clock.run_for(25_000)
        outage.state("lost")
        outage.scene.write()
    finally:
        os.kill(outage.scene.server.running.pid, signal.SIGCONT)
    outage.page.clock.run_for(40_000)
    outage.is_right()


@pytest.fixture
def cable(browser, scene):
    """A page whose bytes pass through a network that can be cut."""
    network = Network(scene.server.port)
    rule = f"MAP 127.0.0.1:{scene.server.port} 127.0.0.1:{network.port}"
    words = ["--no-sandbox", f"--host-resolver-rules={rule}"]
    own = browser.browser_type.launch(executable_path=browser_path(), args=words)
    made = Outage(own, scene)
    yield made, network
    own.close()
    network.close()


def test_a_network_that_is_cut_is_told_and_the_page_is_right_again_by_itself(cable):
    """No connection is closed: bytes are lost, in both directions, also those of new requests."""
    outage, network = cable
    network.cut()
    outage.scene.write()
    assert outage.states()[-1] == "live"
    outage.page.clock.run_for(25_000)
    outage.state("lost")
    said = outage.page.locator("[data-banner=lost]").inner_text()
    assert "Not live" in said
    assert "What is shown is of" in said
    # It stays so for as long as the network is away: nothing old is ever called live.
    outage.page.clock.run_for(120_000)
    assert outage.states()[-1] == "lost"
    network.mend()
    outage.page.clock.run_for(60_000)
    outage.is_right()


def test_a_browser_that_is_offline_says_so_and_comes_back(outage):
    outage.eye.context.set_offline(True)
    outage.scene.write()
    outage.page.clock.run_for(25_000)
    outage.state("lost")
    outage.page.clock.run_for(60_000)
    assert outage.states()[-1] == "lost"
    outage.eye.context.set_offline(False)
    outage.page.clock.run_for(40_000)
    outage.is_right()


def test_after_an_hour_asleep_with_the_network_gone_the_page_catches_up(cable):
    """A laptop that sleeps: its clock jumps, its connections are dead, the record went on."""
    outage, network = cable
    network.cut()
    for _ in range(5):
        outage.scene.write()
    outage.page.clock.fast_forward(3_600_000)
    outage.page.clock.run_for(2_000)
    outage.state("lost")
    network.mend()
    outage.page.clock.run_for(60_000)
    outage.is_right()


def test_after_an_hour_asleep_nothing_old_is_shown_as_live(outage):
    outage.scene.write()
    outage.page.clock.fast_forward(3_600_000)
    outage.page.clock.run_for(20_000)
    outage.is_right()
    assert "lost" in outage.states()[1:]


def test_a_restored_record_is_shown_as_it_is_now(outage):
    scene = outage.scene
    scene.copy()
    with contextlib.suppress(sqlite3.Error):
        for _ in range(10):
            scene.write()
    outage.is_right()
    scene.restore()
    outage.page.clock.run_for(5_000)
    outage.is_right()


def test_a_page_that_never_says_that_it_is_lost_is_noticed(outage):
    """The planted fault: silence is taken for life."""
    script = "async () => { (await import('/live.js')).live.patience = 1e12; }"
    outage.page.evaluate(script)
    outage.page.clock.fast_forward(3_600_000)
    outage.page.clock.run_for(2_000)
    assert "lost" not in outage.states()[1:]
