"""A proxy that cuts connections at chosen bytes, between a client and a server that may be away."""

import random
import socket
import struct
import threading
from collections.abc import Callable

#: Which way, and after how many bytes; None: never.
Cut = tuple[str, int] | None
_RESET = struct.pack("ii", 1, 0)


class CuttingProxy:
    """Listens on loopback; `choose` says for each connection where it is cut."""

    def __init__(self, choose: Callable[[], Cut]) -> None:
        self._choose = choose
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port = self._listening.getsockname()[1]
        #: The server's port; None while it is away.
        self.target: int | None = None
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                made, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(made,), daemon=True).start()

    def _join(self, near: socket.socket) -> None:
        try:
            if self.target is None:
                raise ConnectionRefusedError
            far = socket.create_connection(("127.0.0.1", self.target), timeout=30)
        except OSError:
            near.close()
            return
        link = _Joined(near, far, self._choose())
        ways = [threading.Thread(target=link.pass_on, args=(way,), daemon=True) for way in _WAYS]
        for each in ways:
            each.start()
        for each in ways:
            each.join()
        self.cuts += link.was_cut


_WAYS = ("up", "down")


class _Joined:
    def __init__(self, near: socket.socket, far: socket.socket, cut: Cut) -> None:
        self._ends = {"up": (near, far), "down": (far, near)}
        self._cut = cut
        self.was_cut = False

    def pass_on(self, way: str) -> None:
        """Copy what comes from one side to the other, up to the cut."""
        source, sink = self._ends[way]
        left = self._cut[1] if self._cut is not None and self._cut[0] == way else None
        try:
            while part := source.recv(65536 if left is None else min(65536, max(left, 1))):
                if left is not None:
                    part, left = part[:left], left - len(part)
                sink.sendall(part)
                if left is not None and left <= 0:
                    self.was_cut = True
                    break
        except OSError:
            pass
        self._end()

    def _end(self) -> None:
        for end in self._ends["up"]:
            try:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()


def at_random(dice: random.Random, *, share: float) -> Callable[[], Cut]:
    """Cut a share of the connections, anywhere in a request or an answer."""

    def choose() -> Cut:
        if dice.random() >= share:
            return None
        return dice.choice(_WAYS), dice.choice((0, 1, 20, 200, 400, 700, 1000, 2000))

    return choose
