"""`GET /api/v1/live`: what happens as it happens, as WebSocket or as server-sent events."""

from __future__ import annotations

import asyncio
import functools
import json
from urllib.parse import parse_qs

from tugtool import errors
from tugtool.errors import TugError
from tugtool.errors.server import TooMany
from tugtool.server.hub import Hub, Since
from tugtool.server.watcher import RETRY_MILLISECONDS, message
from tugtool.server.work import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import WriteTransport
    from collections.abc import Callable, Coroutine
    from typing import Any

    from tugtool.server.guard import Receive, Scope, Send
    from tugtool.server.tokens import Caller
    from tugtool.server.watcher import Watcher
    from tugtool.server.work import Service


SUBPROTOCOL = "tug.v1"
MOST_TOPICS = 50
#: Close codes of a WebSocket: refused, and no room.
_REFUSED, _FULL = 4003, 4029
_WRONG = 'a message is {"type": "watch", "topics": ["overview"]}, or of the type unwatch or pong'
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


def hub_of(service: Service) -> Hub:
    """Return the hub of the server, made for its first watcher."""
    if service.hub is None:
        settings = service.base.settings
        most = settings.number("serve.max_streams")
        each = settings.number("serve.max_streams_per_token")
        service.hub = Hub(service.base, most=most, most_each=each, is_valid=service.is_valid)
    return service.hub


async def serve_live(
    service: Service, caller: Caller, scope: Scope, receive: Receive, send: Send
) -> None:
    """Serve one watcher until it leaves or the server stops."""
    hub = hub_of(service)
    if scope["type"] == "websocket":
        await _socket(hub, caller, scope, receive, send)
    else:
        await _stream(hub, caller, scope, receive, send)


def _asked(scope: Scope) -> tuple[list[str], Since | None]:
    """Return the topics and the place to go on from."""
    query = parse_qs(scope["query_string"].decode("latin-1"))
    topics = [each for value in query.get("topics", ()) for each in value.split(",") if each]
    if len(topics) > MOST_TOPICS:
        raise errors.Usage(f"at most {MOST_TOPICS} topics may be watched")
    found = [
        value.decode("latin-1") for name, value in scope["headers"] if name == b"last-event-id"
    ]
    given = (found or query.get("since", [""]))[0]
    if not given:
        return topics, None
    epoch, _, seq = given.rpartition(".")
    if not (epoch and seq.isascii() and seq.isdecimal() and len(seq) <= 15):
        raise errors.Usage("since takes EPOCH.SEQ, as hello and the messages have them")
    return topics, Since(epoch, int(seq))


async def _socket(hub: Hub, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    offered = SUBPROTOCOL if SUBPROTOCOL in scope["subprotocols"] else None
    await send({"type": "websocket.accept", "subprotocol": offered})
    try:
        watcher = await hub.join(caller, *_asked(scope))
    except TugError as error:
        await send({"type": "websocket.send", "text": _refused("", error)})
        code = _FULL if isinstance(error, TooMany) else _REFUSED
        await send({"type": "websocket.close", "code": code})
        return

    async def send_text(said: str) -> None:
        await send({"type": "websocket.send", "text": said})

    left = await _serve(hub, watcher, send_text, _hear(hub, watcher, receive))
    if not left:
        await send({"type": "websocket.close", "code": watcher.ends or 1000})


async def _hear(hub: Hub, watcher: Watcher, receive: Receive) -> None:
    """Do what the watcher asks, until it leaves."""
    while True:
        event = await receive()
        if event["type"] == "websocket.disconnect":
            return
        try:
            asked = json.loads(event.get("text") or "null")
        except (ValueError, RecursionError):
            asked = None
        asked = asked if isinstance(asked, dict) else {}
        if asked.get("type") not in ("watch", "unwatch") or not isinstance(
            asked.get("topics"), list
        ):
            if asked.get("type") != "pong":
                watcher.push(_refused("", errors.Usage(_WRONG)))
            continue
        for topic in map(str, asked["topics"][:MOST_TOPICS]):
            _change(hub, watcher, topic, watching=asked["type"] == "watch")


def _change(hub: Hub, watcher: Watcher, topic: str, *, watching: bool) -> None:
    if not watching:
        hub.unwatch(watcher, topic)
    elif topic not in watcher.topics:
        try:
            if len(watcher.topics) >= MOST_TOPICS:
                raise errors.Usage(f"at most {MOST_TOPICS} topics may be watched")
            hub.watch(watcher, topic)
        except TugError as error:
            watcher.push(_refused(topic, error))


def _refused(topic: str, error: TugError) -> str:
    return message("refused", topic=topic, code=error.code, message=str(error))


async def _stream(hub: Hub, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
    try:
        watcher = await hub.join(caller, *_asked(scope))
    except TugError as error:
        reply = refusal(error, "live")
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})
        return
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})

    async def send_text(said: str) -> None:
        await send_body(_frame(hub.epoch, said, settled=watcher.settled))

    async def send_body(part: bytes) -> None:
        await send({"type": "http.response.body", "body": part, "more_body": True})

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    await send_body(b"retry: %d\n\n" % RETRY_MILLISECONDS)
    transport = scope["state"].get("transport")
    if transport is not None and scope["http_version"] == "1.1":
        watcher.send_now = functools.partial(_send_soon, hub, watcher, transport)
    if not await _serve(hub, watcher, send_text, gone()):
        await send({"type": "http.response.body", "body": b""})


def _send_soon(hub: Hub, watcher: Watcher, transport: WriteTransport, said: str) -> bool:
    """Have a message written to the connection, if all before it has gone out."""
    if transport.get_write_buffer_size() or transport.is_closing():
        return False
    hub.outbox.add(transport, _chunk(hub.epoch, said, settled=watcher.settled))
    return True


@functools.lru_cache(maxsize=16)
def _chunk(epoch: str, said: str, *, settled: bool) -> bytes:
    """Return the event as HTTP 1.1 sends a part of a body whose length is not known."""
    frame = _frame(epoch, said, settled=settled)
    return b"%x\r\n%b\r\n" % (len(frame), frame)


@functools.lru_cache(maxsize=16)
def _frame(epoch: str, said: str, *, settled: bool) -> bytes:
    """Return the message as an event, with the place to go on from; made once for all watchers."""
    head, _, rest = said.partition('"seq": ')
    # The number is before any data; see `hub.message`.
    if not settled or not rest or len(head) > 1000:
        return f"data: {said}\n\n".encode()
    seq = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    return f"id: {epoch}.{seq}\ndata: {said}\n\n".encode()


async def _serve(
    hub: Hub,
    watcher: Watcher,
    send_text: Callable[[str], Coroutine[Any, Any, None]],
    hearing: Coroutine[Any, Any, None],
) -> bool:
    """Send what waits until either side ends. Return whether the watcher has left."""

    async def pump() -> None:
        while found := await watcher.next():
            for said in found:
                await send_text(said)

    sender = asyncio.ensure_future(pump())
    hearer = asyncio.ensure_future(hearing)
    watcher.stopped = sender.cancel
    try:
        await asyncio.wait({sender, hearer}, return_when=asyncio.FIRST_COMPLETED)
        left = hearer.done()
    finally:
        hub.leave(watcher)
        for task in (sender, hearer):
            task.cancel()
        await asyncio.gather(sender, hearer, return_exceptions=True)
    return left
