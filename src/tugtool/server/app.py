"""The app: which path leads where, how a request is read and an answer written."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.routing import WebSocketRoute

from tugtool import __version__, errors
from tugtool.errors import TugError
from tugtool.errors.server import BodyTooLarge, NotServed, RoleTooSmall
from tugtool.server import deck, openapi, routes
from tugtool.server.guard import Guard, LogLine, ServerTerms, retry_header
from tugtool.server.routes import API, HttpRefusal
from tugtool.server.tokens import Caller, Tokens
from tugtool.server.work import JSON, Rendered, ServedRequest, Service, refusal
from tugtool.system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.websockets import WebSocket

    from tugtool.server.guard import Receive, Scope, Send


#: A body has to arrive within this time: a slow one would hold its connection for ever.
BODY_SECONDS = 20.0
DEEPEST = 20
LONGEST_KEY = 128
#: Smaller answers are not compressed.
_SMALLEST_COMPRESSED = 1400
PAGE = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Tugtool</title>
<p>This is the server of Tugtool. Its commands are described at /api/v1/openapi.json.</p></html>
"""
LIVE = f"{API}live"


def make_app(service: Service, terms: ServerTerms, tokens: Tokens) -> Guard:
    """The ASGI app with its guard in front.

    `tugtool.server.live` is loaded at the first request for `/api/v1/live`: its `serve_live` gets
    the service and the caller, and then speaks ASGI, as WebSocket or as a stream of events.
    """
    edge = Edge(service, terms)
    paths = [
        Path("/", edge.page),
        Path("/healthz", edge.health),
        Path("/metrics", edge.metrics),
        Path(f"{API}openapi.json", edge.openapi),
        Path(LIVE, edge.live),
        WebSocketRoute(LIVE, edge.live_socket),
        Path("/{path:path}", edge.answer, methods=["GET", "POST"]),
    ]
    app = Starlette(routes=paths, lifespan=edge.lifespan)
    edge.guard = Guard(app, terms, tokens)
    return edge.guard


class Edge:
    """The functions behind the paths."""

    guard: Guard

    def __init__(self, service: Service, terms: ServerTerms) -> None:
        self.service, self.terms = service, terms
        self._begun = clock.ticks()

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Run until the server stops; then finish what was begun."""
        yield
        self.service.close()

    async def page(self, _: Request) -> Response:
        """The page; it holds no data."""
        return Response(PAGE, media_type="text/html; charset=utf-8")

    async def health(self, _: Request) -> Response:
        """Say that the server runs, and nothing else."""
        return Response(b"ok\n", media_type="text/plain")

    async def metrics(self, _: Request) -> Response:
        """The server's figures, in the text form of Prometheus."""
        service = self.service
        lines = [
            "# TYPE tugtool_info gauge",
            f'tugtool_info{{version="{__version__}"}} 1',
            "# TYPE tugtool_uptime_seconds gauge",
            f"tugtool_uptime_seconds {clock.ticks() - self._begun:.0f}",
            "# TYPE tugtool_renderings_total counter",
            f'tugtool_renderings_total{{cached="true"}} {service.hits}',
            f'tugtool_renderings_total{{cached="false"}} {service.misses}',
            "# TYPE tugtool_requests_total counter",
        ]
        lines += [
            f'tugtool_requests_total{{status="{status}",code="{code}"}} {number}'
            for (status, code), number in sorted(self.guard.counts.items())
        ]
        return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        """The description of every path."""
        return _written(request, Rendered(200, 0, openapi.document()))

    async def live(self, request: Request) -> Response:
        """Stream events as they happen."""
        return _Live(self.service, request.state.caller)

    async def live_socket(self, socket: WebSocket) -> None:
        """The same over a WebSocket."""
        streaming = _Live(self.service, socket.state.caller)
        await streaming(socket.scope, socket.receive, socket.send)

    async def answer(self, request: Request) -> Response:
        """Carry out the command that the path names."""
        path = request.url.path
        try:
            reply = await self._answer(request)
        except HttpRefusal as refused:
            return _refused(request, refused.error, refused.status)
        except TugError as error:
            return _refused(request, error)
        line: LogLine = request.state.line
        line.code = reply.code
        if reply.kind != JSON:
            return Response(reply.body, media_type=reply.kind)
        assert path.startswith(API)
        return _written(request, reply)

    async def _answer(self, request: Request) -> Rendered:
        path, caller = request.url.path, request.state.caller
        if request.method == "GET" and path in deck.PATHS:
            values = _query(request)
            return await deck.answer(self.service, path, values, caller)
        route = routes.ROUTES.get((request.method, path))
        if route is None:
            raise routes.not_served(path)
        self._refuse_off(route, caller)
        if route.method == "GET":
            values = _query(request)
        else:
            body = await self._body(request)
            values = routes.decoded(body, deepest=DEEPEST)
        asked = ServedRequest(
            route,
            values,
            caller,
            request.state.line.request_id,
            if_seq=_if_seq(request, route),
            key=_idempotency_key(request, route),
        )
        return await self.service.carry_out(asked)

    def _refuse_off(self, route: routes.Route, caller: Caller) -> None:
        """Refuse what the settings switch off."""
        if route.group == "git" and not self.terms.git:
            raise NotServed(route.command, reason="the setting serve.git is off")
        if route.command in routes.RUNS and not self.terms.run_commands:
            raise NotServed(route.command, reason="the setting serve.run_commands is off")
        if caller.plan is not None and route.group == "git":
            needs = "a token for all plans"
            raise RoleTooSmall(route.command, role=f"{caller.role} of a plan", needs=needs)

    async def _body(self, request: Request) -> bytes:
        """The body, counted while it arrives."""
        most = self.terms.max_body_bytes
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > most:
            raise BodyTooLarge("bytes", most)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise BodyTooLarge("bytes", most)
                    parts.append(part)
        except ClientDisconnect:
            raise HttpRefusal(errors.Usage("the sender has gone"), 400) from None
        except TimeoutError:
            problem = f"the request did not arrive within {BODY_SECONDS:.0f} s"
            raise HttpRefusal(errors.Usage(problem), 408) from None
        return b"".join(parts)


class _Live(Response):
    """Hands the connection to `tugtool.server.live`."""

    def __init__(self, service: Service, caller: Caller) -> None:
        super().__init__()
        self._service, self._caller = service, caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from tugtool.server import live

        await live.serve_live(self._service, self._caller, scope, receive, send)


def _query(request: Request) -> Mapping[str, object]:
    """The values of a query; a name that stands several times has a list."""
    query = request.url.query
    try:
        pairs = parse_qsl(
            query,
            keep_blank_values=True,
            strict_parsing=bool(query),
            errors="strict",
            max_num_fields=routes.MOST_FIELDS,
        )
    except ValueError as error:
        raise errors.Usage(f"the query cannot be read: {error}") from error
    values: dict[str, object] = {}
    for name, value in pairs:
        before = values.get(name)
        both = [*before, value] if isinstance(before, list) else [before, value]
        values[name] = both if name in values else value
    return values


def _if_seq(request: Request, route: routes.Route) -> int | None:
    given = request.headers.get("if-seq")
    if given is None or route.method == "GET":
        return None
    if not given.isascii() or not given.isdecimal() or len(given) > 15:
        raise errors.Usage("If-Seq takes the number of an event", command=route.command)
    return int(given)


def _idempotency_key(request: Request, route: routes.Route) -> str | None:
    given = request.headers.get("idempotency-key")
    if given is None or route.method == "GET":
        return None
    if not 0 < len(given) <= LONGEST_KEY or not given.isascii() or not given.isprintable():
        problem = f"Idempotency-Key has 1 to {LONGEST_KEY} printable characters"
        raise errors.Usage(problem, command=route.command)
    return given


def _refused(request: Request, error: TugError, status: int | None = None) -> Response:
    command = request.url.path.removeprefix(API).replace("/", " ")[:100]
    reply = refusal(error, command, status)
    request.state.line.code = error.code
    response = _written(request, reply)
    for name, value in retry_header(error):
        response.headers[name.decode()] = value.decode()
    if request.method == "POST":
        # What is left of the body is not read.
        response.headers["connection"] = "close"
    return response


def _written(request: Request, reply: Rendered) -> Response:
    headers = {"tug-exit-status": str(reply.exit_status)}
    if reply.seq is not None:
        headers["tug-seq"] = str(reply.seq)
    if reply.replayed:
        headers["tug-replayed"] = "1"
    if reply.code:
        request.state.line.code = reply.code
    body = reply.body
    accepted = request.headers.get("accept-encoding", "")
    if len(body) >= _SMALLEST_COMPRESSED and "gzip" in accepted:
        body = gzip.compress(body, 1, mtime=0)
        headers |= {"content-encoding": "gzip", "vary": "accept-encoding"}
    return Response(body, reply.status, headers, JSON)
