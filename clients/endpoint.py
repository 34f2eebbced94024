"""A scripted model on loopback, and the door: whatever wants further out is noted and refused."""

import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import responses
import wire
from player import CONDUCTOR, Cast, Unscripted


class Endpoint(ThreadingHTTPServer):
    """Plays the cast; as a proxy it lets nobody out."""

    daemon_threads = True

    def __init__(self, cast: Cast) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.cast = cast
        self.numbers = itertools.count(1)
        #: Every request with the part that was asked, in order.
        self.asked: list[tuple[str, wire.Ask]] = []
        #: Where a client wanted to go.
        self.knocks: list[str] = []
        #: What the script had no answer to.
        self.lost: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, ask: wire.Ask) -> wire.Answer:
        """What the script says; where it is at a loss, that ends the conversation."""
        self.asked.append((self.cast.part(ask), ask))
        try:
            return self.cast.answer(ask)
        except Unscripted as error:
            self.lost.append(str(error))
            return f"The script ends here: {error}"

    def prompts(self, part: str = CONDUCTOR) -> list[wire.Ask]:
        """Every first request of a conversation with `part`."""
        return [ask for who, ask in self.asked if who == part and not ask.results]


@contextmanager
def serving(cast: Cast) -> Iterator[Endpoint]:
    """The endpoint, for as long as it is needed."""
    with Endpoint(cast) as endpoint:
        # The default would have `shutdown` wait for up to half a second.
        thread = threading.Thread(target=endpoint.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield endpoint
        finally:
            endpoint.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = self.path.partition("?")[0]
        if path == "/v1/messages":
            self._play(json.loads(body))
        elif path == "/v1/responses":
            self._respond(json.loads(body))
        elif path == "/v1/messages/count_tokens":
            self._object(200, {"input_tokens": 1})
        else:
            self._refuse()

    def do_GET(self) -> None:
        self._refuse()

    def do_HEAD(self) -> None:
        self._refuse()

    def do_CONNECT(self) -> None:
        self._refuse()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Silence: what matters is kept by the endpoint."""

    def _play(self, body: dict[str, Any]) -> None:
        answer = self.server.answer(wire.read(body))
        number = next(self.server.numbers)
        if not body.get("stream"):
            self._object(200, wire.message(answer, number))
            return
        self._begin(200, "text/event-stream")
        for piece in wire.stream(answer, number):
            self.wfile.write(piece)

    def _respond(self, body: dict[str, Any]) -> None:
        ask = responses.read(body)
        answer = self.server.answer(ask)
        self._begin(200, "text/event-stream")
        for piece in responses.stream(answer, ask, next(self.server.numbers)):
            self.wfile.write(piece)

    def _refuse(self) -> None:
        # A proxy is asked with a whole address, a server with a path.
        if not self.path.startswith("/"):
            self.server.knocks.append(self.path)
        self._begin(403, "text/plain")

    def _object(self, status: int, value: dict[str, Any]) -> None:
        self._begin(status, "application/json")
        self.wfile.write(json.dumps(value).encode())

    def _begin(self, status: int, kind: str) -> None:
        """The head of an answer that ends with the connection, so no length has to be told."""
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("connection", "close")
        self.end_headers()
