"""Codex's app server: one JSON object per line on its standard input and output."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from running import Home


class AppServer:
    """A connection to a running server."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._number = 0

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method; what the server tells of itself in the meantime is passed over."""
        self._number += 1
        self.tell(method, id=self._number, params=parameters)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if told.get("id") == self._number:
                assert "error" not in told, told
                result: dict[str, Any] = told["result"]
                return result
        raise EOFError(f"the server ended without an answer to {method}")

    def tell(self, method: str, **fields: Any) -> None:
        """Send something that needs no answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"method": method, **fields}) + "\n")
        self._process.stdin.flush()


@contextmanager
def app_server(home: Home) -> Iterator[AppServer]:
    """A server that is greeted, and ends with its standard input."""
    with home.started("codex", "app-server") as process:
        server = AppServer(process)
        server.ask("initialize", clientInfo={"name": "tugtool", "version": "0"})
        server.tell("initialized")
        yield server
        process.communicate()
