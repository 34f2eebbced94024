"""A proxy before a PostgreSQL server that cuts a conversation after so many of its bytes.

It listens at a Unix socket of its own and passes everything on. `strike` counts the bytes of one
direction from then on. When the last of them was passed on, it does what it was told, and ends
that connection at both ends. Later connections are not disturbed.
"""

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

TO_SERVER, TO_CLIENT = "to the server", "to the client"
_PORT = ".s.PGSQL.5432"
_MOST = 1 << 16


class Proxy:
    """One thread that passes bytes on."""

    def __init__(self, server: Path | str, directory: Path) -> None:
        self.directory = directory
        self._server = f"{server}/{_PORT}"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(f"{directory}/{_PORT}")
        self._listening.listen(64)
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._peers: dict[socket.socket, tuple[socket.socket, str]] = {}
        self._lock = threading.Lock()
        self.strike(TO_SERVER, -1)
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def strike(
        self, direction: str, at: int, action: Callable[[], object] | None = None, times: int = 1
    ) -> None:
        """Count anew, and end a connection when so many bytes have gone that way; -1: never."""
        with self._lock:
            self.passed = {TO_SERVER: 0, TO_CLIENT: 0}
            self._direction, self._at, self._action, self._left = direction, at, action, times
            #: How many connections were ended.
            self.cuts = 0

    def counted(self) -> dict[str, int]:
        """How many bytes have gone either way, those included that are being passed on."""
        with self._lock:
            return dict(self.passed)

    def move(self, server: Path | str) -> None:
        """New connections go to another server, as when an address is moved."""
        self._server = f"{server}/{_PORT}"

    def _pass_on(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listening:
                    self._accept()
                elif key.fileobj is self._woken:
                    return
                elif key.fileobj in self._peers:
                    # Its connection may just have been ended.
                    self._forward(key.fileobj)

    def _accept(self) -> None:
        client, _ = self._listening.accept()
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self._server)
        except OSError:
            client.close()
            server.close()
            return
        for one, other, direction in ((client, server, TO_SERVER), (server, client, TO_CLIENT)):
            self._peers[one] = other, direction
            self._selector.register(one, selectors.EVENT_READ)

    def _forward(self, source: socket.socket) -> None:
        target, direction = self._peers[source]
        try:
            data = source.recv(_MOST)
        except OSError:
            data = b""
        if not data:
            self._end(source)
            return
        with self._lock:
            until = self._until(direction, len(data))
            with contextlib.suppress(OSError):
                target.sendall(data[:until])
            self.passed[direction] += until
            if until < len(data) or self.passed[direction] == self._due(direction):
                self._strike(source)

    def _due(self, direction: str) -> int:
        return self._at if self._left and direction == self._direction else -1

    def _until(self, direction: str, length: int) -> int:
        due = self._due(direction)
        return length if due < 0 else max(0, min(length, due - self.passed[direction]))

    def _strike(self, source: socket.socket) -> None:
        self._left -= 1
        self.cuts += 1
        self.passed = dict.fromkeys(self.passed, 0)
        if self._action is not None:
            self._action()
        self._end(source)

    def _end(self, one: socket.socket) -> None:
        other, _ = self._peers.pop(one)
        del self._peers[other]
        for each in (one, other):
            self._selector.unregister(each)
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._wake.close()
        self._thread.join()
        for each in (*self._peers, self._listening, self._woken):
            each.close()
        self._selector.close()
