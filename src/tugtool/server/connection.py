"""One connection: plain requests are read here, all others by h11.

A plain request came whole and has nothing that could be read in two ways: one Host, at most one
Content-Length, no other framing. h11 takes three times as long for it.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from typing import NamedTuple

import h11
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol, RequestResponseCycle

from tugtool.server.guard import MOST_HEADER_BYTES
from tugtool.server.routes import API, LIVE
from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


#: In `SO_PEERCRED`: process, user, group.
_CREDENTIALS = struct.Struct("3i")
_PLAIN = re.compile(
    rb"(GET|POST) (%b[-0-9A-Za-z_/]*)(?:\?([!-~]*))? HTTP/1\.1\r\n"
    rb"((?:[-0-9A-Za-z]+: [!-~](?:[ -~]*[!-~])?\r\n)+)" % re.escape(API.encode())
)
_FIELD = re.compile(rb"([^:]+): ([^\r]*)\r\n")
#: They say how the request ends, or what comes after it; h11 knows how.
_FRAMING = {b"transfer-encoding", b"expect", b"upgrade", b"trailer", b"te"}
#: So much of a next request may wait while one is answered.
_MOST_WAITING = 1 << 16


class PlainRequest(NamedTuple):
    """A request that came whole."""

    method: bytes
    path: bytes
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


def read_plain(data: bytes) -> PlainRequest | None:
    """Return the request, if the bytes are one plain request and no more."""
    end = data.find(b"\r\n\r\n", 0, MOST_HEADER_BYTES) + 2
    found = _PLAIN.fullmatch(data, 0, end) if end > 2 else None
    if found is None or found[2] == LIVE.encode():
        return None
    headers = [(name.lower(), value) for name, value in _FIELD.findall(found[4])]
    names = [name for name, _ in headers]
    lengths = [value for name, value in headers if name == b"content-length"]
    body = data[end + 2 :]
    once = names.count(b"host") == 1 and len(lengths) <= 1 and names.count(b"connection") <= 1
    wanted = dict(headers).get(b"connection", b"keep-alive")
    if not once or not _FRAMING.isdisjoint(names) or wanted not in (b"keep-alive", b"close"):
        return None
    length = lengths[0] if lengths else b"0"
    if not length.isdigit() or len(length) > 9 or int(length) != len(body):
        return None
    return PlainRequest(found[1], found[2], found[3] or b"", headers, body)


class Protocol(H11Protocol):
    """HTTP, and for a Unix socket the process behind it, as the kernel names it."""

    _direct: asyncio.Transport
    #: What came while a plain request was being answered.
    _waiting = b""
    _is_answering = False
    #: One timer, which looks when the last answer was.
    _idle_timer: asyncio.TimerHandle | None = None
    _answered_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection; refuse another user's."""
        joined = _Joined(transport)
        self._direct = transport
        super().connection_made(joined)  # type: ignore[arg-type]
        # For streams of events, which write to it without a task of their own.
        self.app_state = {**self.app_state, "transport": joined}
        peer = transport.get_extra_info("socket")
        if peer is None or peer.family != socket.AF_UNIX:
            return
        pid, uid = _peer(peer)
        if uid != os.getuid():
            transport.abort()
            return
        self.server, self.client = (str(peer.getsockname()), None), ("unix", pid)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that is being answered."""
        self._stop_idle_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a plain request, or leave it to h11."""
        if self._is_answering:
            self._waiting += data
            if len(self._waiting) > _MOST_WAITING:
                self.flow.pause_reading()
            return
        request = read_plain(data) if self._is_between() else None
        if request is None:
            self._stop_idle_timer()
            super().data_received(data)
        else:
            self._begin(request)

    def _is_between(self) -> bool:
        """True if h11 waits for the first byte of a request, and the server has room."""
        between = self.conn.our_state is h11.IDLE and self.conn.their_state is h11.IDLE
        room = self.limit_concurrency is None or (
            max(len(self.connections), len(self.tasks)) < self.limit_concurrency
        )
        return between and room and not self.conn.trailing_data[0]

    def _begin(self, request: PlainRequest) -> None:
        self._unset_keepalive_if_required()
        self._is_answering = True
        path = request.path.decode()
        self.scope = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,  # type: ignore[typeddict-item]
            "method": request.method.decode(),
            "root_path": self.root_path,
            "path": path,
            "raw_path": request.path,
            "query_string": request.query,
            "headers": request.headers,
            "state": {**self.app_state, "body": request.body},
        }
        self.cycle = PlainCycle(self, request.body)
        task = self.loop.create_task(self.cycle.run_asgi(self.app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def answered(self) -> None:
        """Read what came meanwhile."""
        self._is_answering = False
        self.server_state.total_requests += 1
        if self._direct.is_closing():
            return
        self._answered_at = self.loop.time()
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self._look_idle)
        self.flow.resume_reading()
        waiting, self._waiting = self._waiting, b""
        if waiting:
            self.data_received(waiting)

    def _look_idle(self) -> None:
        """Close the connection if nothing has come for so long; else look again later."""
        left = self._answered_at + self.timeout_keep_alive - self.loop.time()
        if left > 0 or self._is_answering:
            left = left if left > 0 else self.timeout_keep_alive
            self._idle_timer = self.loop.call_later(left, self._look_idle)
        else:
            self._idle_timer = None
            self.timeout_keep_alive_handler()

    def _stop_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None


class PlainCycle(RequestResponseCycle):
    """The answer to a plain request, written with one call."""

    def __init__(self, protocol: Protocol, body: bytes) -> None:
        super().__init__(
            scope=protocol.scope,
            conn=protocol.conn,
            transport=protocol._direct,
            flow=protocol.flow,
            logger=protocol.logger,
            access_logger=protocol.access_logger,
            access_log=False,
            default_headers=protocol.server_state.default_headers,
            message_event=asyncio.Event(),
            on_response=protocol.answered,
        )
        self.body, self.more_body = bytearray(body), False
        self.message_event.set()
        self._head = b""

    async def send(self, message: Any) -> None:
        """Write head and body together; an answer has its length, and one body."""
        if self.disconnected:
            return
        if message["type"] == "http.response.start":
            self._head = self._begun(message["status"], message["headers"])
            self.response_started = True
            return
        if self.flow.write_paused:
            await self.flow.drain()
        self.transport.write(self._head + message["body"])
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def _begun(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the head of the answer."""
        fields = [*self.default_headers, *headers]
        if CLOSE_HEADER in self.scope["headers"] and CLOSE_HEADER not in fields:
            fields.append(CLOSE_HEADER)
        self.keep_alive = self.keep_alive and CLOSE_HEADER not in fields
        lines = [b"%b: %b\r\n" % field for field in fields]
        head = b"HTTP/1.1 %d %b\r\n%b\r\n" % (status, STATUS_PHRASES[status], b"".join(lines))
        # No value may begin a line of its own.
        assert head.count(b"\n") == len(lines) + 2 == head.count(b"\r"), head
        return head


class _Joined:
    """A transport that sends the head of an answer together with what follows it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._head = transport, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send it, after the head that waits; a head waits for this turn of the loop at most."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            asyncio.get_running_loop().call_soon(self._flush)
            return
        if data:
            self._transport.write(data)

    def close(self) -> None:
        """Send what waits, and close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head:
            self._transport.write(head)


def _peer(peer: socket.socket) -> tuple[int, int]:
    """The process and user behind a Unix socket."""
    if not hasattr(socket, "SO_PEERCRED"):
        # Elsewhere the mode of the socket, 0600, has let only this user connect.
        return 0, os.getuid()
    raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return pid, uid
