"""A network between a browser and a server: it can be cut, silently, and mended."""

import contextlib
import socket
import threading


class Network:
    """Listens at a port of its own and carries bytes to and from another port."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        #: Set while bytes pass; a cut network swallows them and closes nothing.
        self._whole = threading.Event()
        self._whole.set()
        self._made: list[socket.socket] = []
        self._cut: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Lose every byte from now on; connections that exist never carry one again."""
        self._whole.clear()
        self._cut.update(self._made)

    def mend(self) -> None:
        """Carry new connections again."""
        self._whole.set()

    def close(self) -> None:
        self._whole.set()
        for each in (self._server, *self._made):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                self._made.append(client)
                # A connection that is begun while the network is cut hangs, as a real one does.
                self._whole.wait()
                there = socket.create_connection(("127.0.0.1", self._target))
                self._made.append(there)
                for pair in ((client, there), (there, client)):
                    threading.Thread(target=self._copy, args=pair, daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if source not in self._cut:
                    sink.sendall(data)
        with contextlib.suppress(OSError):
            if source not in self._cut:
                sink.shutdown(socket.SHUT_WR)
