"""A real Chromium that looks at a served page, and notes what a page must never do."""

import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from support.proving import needed
from support.server import Process

NO_SCROLL = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
BREACHES = """
window.breaches = [];
document.addEventListener("securitypolicyviolation",
  (event) => window.breaches.push(`${event.violatedDirective} ${event.blockedURI}`));
"""


def browser_path() -> str:
    """A Chromium of this machine."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("TUG_CHROMIUM") or needed(*names)


@contextmanager
def chromium(*words: str) -> Iterator[Browser]:
    """A browser without a window, which asks nobody on the network."""
    quiet = ("--disable-background-networking", "--disable-component-update", "--disable-sync")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=browser_path(),
            args=["--no-sandbox", "--disable-quic", "--no-first-run", *quiet, *words],
            ignore_default_args=["--disable-dev-shm-usage"],
        )
        yield made
        made.close()


def tabs():
    """The module of the benchmarks that hides tabs."""
    path = Path(__file__).parents[2] / "bench" / "tabs.py"
    spec = importlib.util.spec_from_file_location("tabs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tabs"] = module
    spec.loader.exec_module(module)
    return module


class Eye:
    """One tab, and all that it complained of."""

    def __init__(self, browser: Browser, server: Process, width: int = 1280, **how) -> None:
        self.server = server
        usual = {"viewport": {"width": width, "height": 860}, "reduced_motion": "reduce"}
        self.context: BrowserContext = browser.new_context(**{**usual, **how})
        self.context.add_init_script(BREACHES)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.console: list[str] = []
        self.foreign: list[str] = []
        self.page.on("console", lambda said: self.console.append(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.console.append(f"error: {error}"))
        self.page.on("request", self._asked)

    def _asked(self, request) -> None:
        own = (self.server.url, self.server.url.replace("http:", "ws:"))
        if not request.url.startswith(own):
            self.foreign.append(request.url)

    def open(self, path: str = "/", live: bool = True, token: str = "") -> Page:
        """Go to an address of the page, with a token if the tab has none yet."""
        url = self.server.url.rstrip("/") + path
        if self.page.url == "about:blank":
            url += f"#t={token or self.server.token}"
        self.page.goto(url)
        if live:
            self.wait_live()
            self.until("!document.querySelector('[aria-busy=true]')")
        return self.page

    def wait_live(self) -> None:
        self.page.locator("html[data-live=live]").wait_for(state="attached")

    def until(self, condition: str, *values: object) -> None:
        """Until the page's own script finds it true, frame by frame; `values` is there.

        The page forbids to evaluate text, and so Playwright's own waiting.
        """
        self.page.evaluate(
            "async (values) => { const { store } = await import('/store.js');"
            " const end = performance.now() + 60000;"
            f" while (!({condition})) {{ await new Promise(requestAnimationFrame);"
            " if (performance.now() > end) throw new Error('not within a minute: ' +"
            f" {json.dumps(condition)}); }} }}",
            list(values),
        )

    def wait_seq(self, seq: int) -> None:
        """Until the page has taken, and drawn, all up to this event."""
        self.until("store.seq >= values[0] && !store.pending", seq)

    def wrongs(self) -> list[str]:
        """What the page did that no page of ours may do."""
        found = [f"console {each}" for each in self.console]
        found += [f"asked {each}" for each in self.foreign]
        found += [f"policy {each}" for each in self.page.evaluate("window.breaches")]
        wide = self.page.evaluate(NO_SCROLL)
        return [*found, *([f"{wide} px too wide"] if wide > 0 else [])]

    def violations(self) -> list[str]:
        """What axe finds."""
        found = Axe().run(self.page).response["violations"]
        return [
            f"{each['id']}: {each['nodes'][0]['html'][:160]} ({len(each['nodes'])})"
            for each in found
        ]

    def close(self) -> None:
        self.context.close()


_MASKS = (
    (re.compile(r"\b[0-9a-f]{7,40}\b"), "HASH"),
    # One that looks like a number stands in quotes.
    (re.compile(r': "HASH"'), ": HASH"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(T[\d:.]+Z)?\b"), "DATE"),
    (re.compile(r"\b\d\d:\d\d(:\d\d)?\b"), "TIME"),
    (re.compile(r"\b\d+\.\d+\.\d+\b"), "VERSION"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s|min|m|h|d)\b( \d+ ?(s|min|m|h)\b)*"), "LONG"),
    (re.compile(r"/(?:[\w.-]+/)+[\w.-]+"), "PATH"),
)


def heard(page: Page) -> str:
    """What a reader of the screen says, without what differs from run to run."""
    text = page.locator("body").aria_snapshot()
    for form, word in _MASKS:
        text = form.sub(word, text)
    return text + "\n"
