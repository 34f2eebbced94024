"""States behind a server: one server in a thread, which serves every state that a test makes.

The commands and operations of a test are the client's, over a real connection on loopback.
"""

import asyncio
import gc
import itertools
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import uvicorn

from tugtool.server.app import make_app
from tugtool.server.guard import ServerTerms
from tugtool.server.tokens import Tokens
from tugtool.server.work import Service
from tugtool.state import operations
from tugtool.store import locate, open_store, owners
from tugtool.store.remote import RemoteStore
from tugtool.system import config
from tugtool.workflow.workspace import Workspace

BATCH = 8


class Base:
    """What a server needs of a repository, for a state that has none."""

    settings = config.Settings({}, None)

    def __init__(self, url: str, clock: Any = None) -> None:
        self._url, self._clock = url, clock

    def open_store(self, busy_seconds: float | None = None) -> Any:
        return open_store(self._url, clock=self._clock)


class Home(Workspace):
    """A repository whose state is in its file, whatever the environment says to its clients."""

    __slots__ = ()

    def open_store(self, busy_seconds: float | None = None) -> Any:
        url, copies, _ = locate(self.repo.root, self.repo.common_dir)
        return open_store(url, busy_seconds=busy_seconds or 5, copies=copies)


class Thread:
    """The server of this process."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=500)
        self.port = self._socket.getsockname()[1]
        self.apps: dict[str, Any] = {}
        self.services: dict[str, Service] = {}
        self._numbers = itertools.count(1)
        config = uvicorn.Config(
            self._app,
            interface="asgi3",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            http="h11",
            ws="none",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.run(self._server.serve([self._socket]))

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        _, number, path = scope["path"].split("/", 2)
        await self.apps[number]({**scope, "path": f"/{path}"}, receive, send)

    def serve(self, base: Any, directory: str) -> tuple[str, str]:
        """Serve a state from now on: its address, and an operator's token."""
        number = str(next(self._numbers))
        os.makedirs(directory, exist_ok=True)
        tokens = Tokens(directory)
        self._begin(number, base, tokens)
        return f"http://127.0.0.1:{self.port}/{number}/", tokens.make_for_this_start()

    def _begin(self, number: str, base: Any, tokens: Tokens) -> None:
        service = Service(base, batch=BATCH)
        terms = ServerTerms(
            hosts=frozenset((f"127.0.0.1:{self.port}",)), writes_per_second=100_000, git=True
        )
        self.apps[number] = make_app(service, terms, tokens)
        # Standard error is that of the client, in the same process.
        self.apps[number].log = lambda _: None
        self.services[number] = service

    def restart(self, number: str) -> None:
        """Close all that serves one of them, and open it anew."""
        base, tokens = self.services[number].base, self.apps[number].tokens
        self.drop(number)
        gc.collect()
        self._begin(number, base, tokens)

    def also_known_as(self, host: str) -> None:
        """Answer under this name too."""
        for app in self.apps.values():
            app.terms = app.terms._replace(hosts=app.terms.hosts | {host})

    def drop(self, number: str) -> None:
        """Serve one of them no more."""
        self.apps.pop(number, None)
        service = self.services.pop(number, None)
        if service is not None:
            service.close()

    def end(self) -> None:
        """Serve none of them any more."""
        for number in list(self.services):
            self.drop(number)
        uninstall()


def uninstall() -> None:
    """Let operations be carried out by those who call them, as before the test."""
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, operations._Finder)]
    for place in operations.GROUPS:
        home, name = place.split("/")
        module = sys.modules.get(f"tugtool.state.{home}")
        now = getattr(module, name, None)
        if hasattr(now, "__wrapped__"):
            setattr(module, name, now.__wrapped__)


_threads: dict[int, Thread] = {}


def thread() -> Thread:
    """The server of this process, which is started at its first use."""
    return _threads.setdefault(os.getpid(), _threads.get(os.getpid()) or Thread())


class ServedStore(RemoteStore):
    """The client's store; a test may also look at the file behind the server."""

    def __init__(self, url: str, clock: Any) -> None:
        self.file = open_store(url, clock=clock)
        path = url.removeprefix("sqlite://")
        at, token = thread().serve(Base(url, clock), f"{path}-tokens")
        self._number = at.strip("/").rpartition("/")[2]
        super().__init__(at, machine=owners.this_machine(), token=token)

    def read(self, plan: str | None = None) -> Any:
        return self.file.read(plan)

    def write(self, plan: str, *others: str, urgent: bool = False) -> Any:
        return self.file.write(plan, *others, urgent=urgent)

    def close(self) -> None:
        super().close()
        self.file.close()

    def restart_server(self) -> None:
        """Let the server close the file, and open it anew."""
        thread().restart(self._number)

    def __del__(self) -> None:
        thread().drop(self._number)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def opened(url: str, clock: Any = None) -> ServedStore:
    """The store of a client whose server has this file."""
    operations.install()
    return ServedStore(url, clock)


def repository(root: Path) -> str:
    """The address of the state of a repository, with the token."""
    operations.install()
    at, token = thread().serve(Home(str(root)), str(root / ".git" / "tugtool"))
    return f"{at}#t={token}"
