"""The app: which path leads where, how a request is read and an answer written."""

from __future__ import annotations

import asyncio
import functools
import gzip
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path

from tugtool import __version__, errors
from tugtool.errors import TugError
from tugtool.errors.server import BodyTooLarge, RoleTooSmall
from tugtool.server import deck, openapi, operations, routes
from tugtool.server.guard import Guard, LogLine, ServerTerms, retry_header
from tugtool.server.routes import API, HttpRefusal
from tugtool.server.served import JSON, Rendered, ServedRequest
from tugtool.server.tokens import Caller, Tokens
from tugtool.server.work import Service, refusal, unexpected
from tugtool.system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from tugtool.server.guard import Receive, Scope, Send
    from tugtool.server.mcp.http import McpPath


#: A body has to arrive within this time: a slow one would hold its connection for ever.
BODY_SECONDS = 20.0
DEEPEST = 20
LONGEST_KEY = 128
#: Smaller answers are not compressed.
_SMALLEST_COMPRESSED = 1400
OPENAPI = f"{API}openapi.json"
_JSON = (b"content-type", JSON.encode())
_GZIP, _VARY = (b"content-encoding", b"gzip"), (b"vary", b"accept-encoding")


def make_app(service: Service, terms: ServerTerms, tokens: Tokens) -> Guard:
    """The ASGI app with its guard in front."""
    edge = Edge(service, terms)
    service.is_valid = tokens.is_valid
    edge.guard = Guard(edge, terms, tokens, edge.page)
    edge.guard.plain |= {OPENAPI, *deck.PATHS}
    return edge.guard


class Incoming:
    """A request that passed the guard."""

    __slots__ = ("_receive", "caller", "line", "method", "path", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope, self._receive = scope, receive
        self.path, self.method = str(scope["path"]), str(scope["method"])
        self.caller: Caller = scope["state"]["caller"]
        self.line: LogLine = scope["state"]["line"]

    def header(self, name: bytes) -> str | None:
        """The first value of a header."""
        for key, value in self.scope["headers"]:
            if key == name:
                return str(value, "latin-1")
        return None

    async def body(self, most: int) -> bytes:
        """The body, counted while it arrives; that of a plain request is there already."""
        whole: bytes | None = self.scope["state"].get("body")
        if whole is not None and len(whole) <= most:
            return whole
        length = self.header(b"content-length") or "0"
        if not length.isdecimal() or int(length) > most:
            raise BodyTooLarge("bytes", most)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await self._parts(most)
        except TimeoutError:
            problem = f"the request did not arrive within {BODY_SECONDS:.0f} s"
            raise HttpRefusal(errors.Usage(problem), 408) from None

    async def _parts(self, most: int) -> bytes:
        # Joined at the end: a sender may send byte by byte.
        found, size, more = [], 0, True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise HttpRefusal(errors.Usage("the sender has gone"), 400)
            found.append(message.get("body", b""))
            size += len(found[-1])
            if size > most:
                raise BodyTooLarge("bytes", most)
            more = message.get("more_body", False)
        return b"".join(found)


class Written(NamedTuple):
    """An answer as it is sent."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    async def send_to(self, send: Send) -> None:
        """Send it."""
        length = [(b"content-length", str(len(self.body)).encode())]
        start = {"type": "http.response.start", "status": self.status}
        await send({**start, "headers": self.headers + (length if self.status != 304 else [])})
        await send({"type": "http.response.body", "body": self.body})


class Edge:
    """The functions behind the paths; commands and streams go a short way."""

    guard: Guard

    def __init__(self, service: Service, terms: ServerTerms) -> None:
        self.service, self.terms, self.page = service, terms, deck.Page()
        self._begun = clock.ticks()
        self._mcp: McpPath | None = None
        paths = [
            Path("/healthz", self.health),
            Path("/metrics", self.metrics),
            Path(routes.MCP, self.mcp, methods=["POST"]),
        ]
        self._others = Starlette(routes=paths, lifespan=self.lifespan)
        self._other_paths = ("/healthz", "/metrics", routes.MCP)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that passed the guard."""
        if scope["type"] != "lifespan" and scope["path"] == routes.LIVE:
            from tugtool.server import live  # Loaded for the first watcher.

            await live.serve_live(self.service, scope["state"]["caller"], scope, receive, send)
        elif scope["type"] != "http" or scope["path"] in self._other_paths:
            await self._others(scope, receive, send)
        else:
            written = await self.answer(Incoming(scope, receive))
            await written.send_to(send)

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Run until the server stops; then finish what was begun."""
        yield
        if self._mcp is not None:
            self._mcp.close()
        self.service.close()

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
            "# TYPE tugtool_watchers gauge",
            f"tugtool_watchers {len(service.hub.watchers) if service.hub else 0}",
            "# TYPE tugtool_requests_total counter",
        ]
        lines += [
            f'tugtool_requests_total{{status="{status}",code="{code}"}} {number}'
            for (status, code), number in sorted(self.guard.counts.items())
        ]
        return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    async def mcp(self, request: Request) -> Response:
        """Answer a message of an agent client."""
        from tugtool.server.mcp.http import McpPath  # Few servers have such clients.

        if self._mcp is None:
            self._mcp = McpPath(self.service, self.terms)
        came = Incoming(request.scope, request.receive)
        try:
            body = await came.body(self.terms.max_body_bytes)
        except HttpRefusal as refused:
            return _response(_refused(came, refused.error, refused.status))
        except TugError as error:
            return _response(_refused(came, error))
        return await self._mcp.answer(request, body)

    async def answer(self, came: Incoming) -> Written:
        """Carry out the command that the path names."""
        file = self.page.find(came.path)
        if file is not None:
            return _file(came, file)
        try:
            reply = await self._answer(came)
        except HttpRefusal as refused:
            return _refused(came, refused.error, refused.status)
        except TugError as error:
            return _refused(came, error)
        except Exception as error:
            return _refused(came, unexpected(error, self.service.base, came.line.request_id))
        came.line.code = reply.code
        if reply.kind != JSON:
            status = (b"tug-exit-status", str(reply.exit_status).encode())
            return Written(200, [(b"content-type", reply.kind.encode()), status], reply.body)
        return _written(came, reply)

    async def _answer(self, came: Incoming) -> Rendered:
        path, caller = came.path, came.caller
        route = routes.ROUTES.get((came.method, path))
        if route is None:
            return await self._answer_other(came)
        self._refuse_off(route, caller)
        if route.method == "GET":
            values = _query(came)
        else:
            body = await came.body(self.terms.max_body_bytes)
            values = routes.decoded(body, deepest=DEEPEST)
        asked = ServedRequest(
            route,
            values,
            caller,
            came.line.request_id,
            if_seq=_if_seq(came, route),
            key=_idempotency_key(came, route),
        )
        return await self.service.carry_out(asked)

    async def _answer_other(self, came: Incoming) -> Rendered:
        """Answer what is not a command: a path of the page, or one for commands elsewhere."""
        path, route = came.path, operations.route(came.path)
        if came.method == "GET" and path == OPENAPI:
            return Rendered(200, 0, openapi.document())
        if came.method == "GET" and path in deck.PATHS:
            return await deck.answer(self.service, path, _query(came), came.caller)
        if came.method != "POST" or route is None:
            raise routes.not_served(path)
        body = await came.body(self.terms.max_body_bytes)
        asked = operations.OperationRequest(
            route,
            routes.decoded(body, deepest=operations.DEEPEST),
            came.caller,
            came.line.request_id,
            key=_idempotency_key(came, route),
        )
        return await operations.answer(self.service, asked)

    def _refuse_off(self, route: routes.Route, caller: Caller) -> None:
        """Refuse what the settings switch off."""
        if route.group == "git" and not self.terms.git:
            raise routes.switched_off(route, "git")
        if route.command in routes.RUNS and not self.terms.run_commands:
            raise routes.switched_off(route, "run_commands")
        if caller.plan is not None and route.group == "git":
            needs = "a token for all plans"
            raise RoleTooSmall(route.command, role=f"{caller.role} of a plan", needs=needs)


def _file(came: Incoming, file: deck.PageFile) -> Written:
    """A file of the page, or the word that the browser has it already."""
    small = "gzip" in (came.header(b"accept-encoding") or "")
    tag = f'"{file.tag}{"-gzip" * small}"'
    headers = [(b"etag", tag.encode()), (b"cache-control", b"no-cache"), _VARY]
    known = [each.strip() for each in (came.header(b"if-none-match") or "").split(",")]
    if tag in known or f"W/{tag}" in known:
        return Written(304, headers, b"")
    headers += [_GZIP] if small else []
    headers.append((b"content-type", file.kind.encode()))
    return Written(200, headers, deck.packed(file) if small else file.body)


def _query(came: Incoming) -> Mapping[str, object]:
    """The values of a query; a name that stands several times has a list."""
    query = came.scope["query_string"].decode("latin-1")
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


def _if_seq(came: Incoming, route: routes.Route) -> int | None:
    given = came.header(b"if-seq")
    if given is None or route.method == "GET":
        return None
    if not given.isascii() or not given.isdecimal() or len(given) > 15:
        raise errors.Usage("If-Seq takes the number of an event", command=route.command)
    return int(given)


def _idempotency_key(came: Incoming, route: routes.Route) -> str | None:
    given = came.header(b"idempotency-key")
    if given is None or route.method == "GET":
        return None
    if not 0 < len(given) <= LONGEST_KEY or not given.isascii() or not given.isprintable():
        problem = f"Idempotency-Key has 1 to {LONGEST_KEY} printable characters"
        raise errors.Usage(problem, command=route.command)
    return given


def _refused(came: Incoming, error: TugError, status: int | None = None) -> Written:
    command = came.path.removeprefix(API).replace("/", " ").strip()[:100]
    came.line.code = error.code
    written = _written(came, refusal(error, command, status))
    written.headers.extend(retry_header(error))
    if came.method == "POST":
        # What is left of the body is not read.
        written.headers.append((b"connection", b"close"))
    return written


@functools.lru_cache(maxsize=32)
def _packed(body: bytes) -> bytes:
    """The body compressed; an answer that is kept is compressed once."""
    return gzip.compress(body, 1, mtime=0)


def _written(came: Incoming, reply: Rendered) -> Written:
    headers = [_JSON, (b"tug-exit-status", str(reply.exit_status).encode())]
    if reply.seq is not None:
        headers.append((b"tug-seq", str(reply.seq).encode()))
    if reply.replayed:
        headers.append((b"tug-replayed", b"1"))
    if reply.code:
        came.line.code = reply.code
    body = reply.body
    if len(body) >= _SMALLEST_COMPRESSED and "gzip" in (came.header(b"accept-encoding") or ""):
        body = _packed(body)
        headers += [_GZIP, _VARY]
    return Written(reply.status, headers, body)


def _response(written: Written) -> Response:
    """The same for Starlette."""
    response = Response(written.body, written.status)
    response.raw_headers += written.headers
    return response
