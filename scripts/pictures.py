"""Make the pictures of docs/use/deck.md anew, from the fixed history of scripts/night.py.

    python scripts/pictures.py

It needs Chromium, which it does not install: TUG_CHROMIUM, or one of the usual names.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import night
from playwright.sync_api import Browser, Page, sync_playwright

TARGET = Path(__file__).resolve().parents[1] / "docs" / "use" / "pictures"
NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDE, PHONE = (1120, 700), (390, 780)
#: The name of a picture -> its address, theme and size.
PICTURES = {
    "now": ("/", "light", WIDE),
    "rail": ("/p/parser?s=step-8", "light", WIDE),
    "map": ("/p/parser/map?s=step-9", "light", (1120, 480)),
    "text": ("/p/parser/text", "light", (1120, 480)),
    "timeline": ("/p/parser/time", "dark", (1120, 360)),
    "figures": ("/p/parser/figures", "light", (1120, 640)),
    "review": ("/review", "dark", WIDE),
    "workers": ("/workers", "light", (1120, 560)),
    "phone-rail": ("/p/parser", "dark", PHONE),
    "phone-review": ("/review?at=deferred%3Aparser%3Astep-4.checkpoint.1", "light", PHONE),
}
#: A mark of a visit at the beginning of the night.
VISIT = (
    "localStorage.setItem('tug.visit', JSON.stringify({epoch: %s, seq: 3, at: Date.now() - %d}))"
)


def chromium() -> str:
    """The browser of this machine."""
    found = [os.environ.get("TUG_CHROMIUM"), *map(shutil.which, NAMES)]
    return next(filter(None, found), None) or sys.exit("pictures: install chromium")


def shown(page: Page, url: str, path: str, token: str) -> None:
    """Open a page, and wait until it is live and has all that it asked for."""
    page.goto("about:blank")
    page.goto(f"{url}{path}#t={token}")
    page.wait_for_selector("[data-link=live]")
    page.wait_for_selector("[aria-busy=true]", state="detached")
    page.wait_for_load_state("networkidle")


def take(browser: Browser, name: str, url: str, token: str) -> None:
    """Take one picture."""
    path, theme, (width, height) = PICTURES[name]
    size = {"width": width, "height": height}
    touch = width == PHONE[0]
    context = browser.new_context(
        viewport=size, color_scheme=theme, has_touch=touch, reduced_motion="reduce"
    )
    page = context.new_page()
    shown(page, url, "/", token)
    if name == "now":
        epoch = page.evaluate("import('/store.js').then(each => each.store.epoch)")
        page.evaluate(VISIT % (json.dumps(epoch), night.NIGHT * night.MINUTE * 1000))
        # Leaving the page would set the mark again.
        page.evaluate("import('/visits.js').then(each => { each.visits.leave = () => {}; })")
    shown(page, url, path, token)
    page.screenshot(path=TARGET / f"{name}.png")
    context.close()


def main() -> None:
    """Make the history, serve it, and take every picture."""
    TARGET.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home, sync_playwright() as player:
        root = Path(home) / "shop"
        night.make(root)
        words = [sys.executable, "-m", "tugtool", "-C", str(root), "serve", "--port", "0"]
        serving = subprocess.Popen([*words, "--json"], stdout=subprocess.PIPE, text=True)
        try:
            said = json.loads(serving.stdout.readline())["data"]["url"]
            url, _, token = said.partition("/#t=")
            browser = player.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
            for name in PICTURES:
                take(browser, name, url, token)
            browser.close()
        finally:
            serving.terminate()
            serving.wait()
    print(f"wrote {len(PICTURES)} pictures to {TARGET}")


if __name__ == "__main__":
    main()
