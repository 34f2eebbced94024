"""A Chromium whose tabs can be hidden: one in front of the other, as people have them.

The usual library tells every tab that it is in front, so this speaks to the browser itself.
"""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_SECONDS = 120


class Tab:
    """One tab of the browser."""

    def __init__(self, browser: "Tabs", target: str) -> None:
        self._browser, self._target = browser, target
        attached = browser.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for name in ("Page", "Runtime"):
            self.send(f"{name}.enable")

    def send(self, method: str, **values: object) -> Any:
        """Give a command to the tab, and return its answer."""
        return self._browser.send(method, self._session, **values)

    def open(self, url: str, before: str = "") -> None:
        """Go to an address; `before` runs in the page before its own scripts."""
        self.send("Page.addScriptToEvaluateOnNewDocument", source=before)
        self.send("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """Run the body of a function in the page, and return its value."""
        said = self.send(
            "Runtime.evaluate",
            expression=f"(async () => {{ {script} }})()",
            awaitPromise=True,
            returnByValue=True,
        )
        if "exceptionDetails" in said:
            raise RuntimeError(said["exceptionDetails"]["exception"]["description"])
        return said["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until the page finds this true; a hidden tab has no frames, so with a timer."""
        self.run(f"while (!({condition})) await new Promise((done) => setTimeout(done, 20));")

    def show(self) -> None:
        """Put the tab in front of the others, which are hidden then."""
        self._browser.send("Target.activateTarget", targetId=self._target)

    def close(self) -> None:
        self._browser.send("Target.closeTarget", targetId=self._target)


class Tabs:
    """A browser without a window."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._numbers = socket, itertools.count(1)

    def send(self, method: str, session: str = "", /, **values: object) -> Any:
        """Give a command to the browser, or to a tab, and return its answer."""
        number = next(self._numbers)
        asked: dict[str, object] = {"id": number, "method": method, "params": values}
        self._socket.send(json.dumps(asked | ({"sessionId": session} if session else {})))
        while True:
            said = json.loads(self._socket.recv(PATIENCE_SECONDS))
            if said.get("id") == number:
                if "error" in said:
                    raise RuntimeError(f"{method}: {said['error']['message']}")
                return said["result"]

    def tab(self) -> Tab:
        """Open a tab, in front of the others."""
        return Tab(self, self.send("Target.createTarget", url="about:blank")["targetId"])


@contextlib.contextmanager
def chromium(*words: str) -> Iterator[Tabs]:
    """Start the Chromium of this machine; it ends with the block."""
    found = [os.environ.get("TUG_CHROMIUM"), *map(shutil.which, NAMES)]
    program = next(filter(None, found), None)
    if program is None:
        raise SystemExit("install chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        quiet = ("--no-first-run", "--disable-background-networking", "--disable-component-update")
        own = (f"--user-data-dir={home}", "--remote-debugging-port=0", "--window-size=1280,900")
        argv = [program, "--headless=new", "--no-sandbox", *quiet, *own, *words, "about:blank"]
        process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            lines = (line.split() for line in process.stderr)
            url = next(words[-1] for words in lines if words[:1] == ["DevTools"])
            with connect(url, max_size=None, proxy=None) as socket:
                yield Tabs(socket)
        finally:
            process.terminate()
            process.communicate()
