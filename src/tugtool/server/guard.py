"""The guard before every route: host, page, method, kind of body, token, role, rate.

Each check is one function that raises a refusal; CHECKS has them in their order. The guard also
adds the headers that every answer has, and writes the log of requests.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from tugtool import errors
from tugtool.cli import output
from tugtool.errors import TugError
from tugtool.errors.server import BodyTooLarge, ForeignPage, NoToken, RoleTooSmall, TooMany
from tugtool.server import operations, routes
from tugtool.server.routes import HttpRefusal
from tugtool.server.tokens import Caller, Tokens
from tugtool.server.work import refusal
from tugtool.system import clock, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Iterable, MutableMapping
    from typing import Any

    Scope = MutableMapping[str, Any]
    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]


LONGEST_URL = 4096
MOST_HEADER_BYTES = 16384
#: Wrong tokens from one address in one minute, before it has to wait.
MOST_WRONG_TOKENS = 10
_MINUTE = 60.0
#: A burst may have so many seconds' worth of writes.
_BURST_SECONDS = 4
_MOST_REMEMBERED = 10_000
UNIX_HOST = "localhost"
#: Subprotocol of a WebSocket that carries the token: a page cannot send a header there.
BEARER_PROTOCOL = "tug.bearer."

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
API_HEADERS = (*HEADERS, (b"cache-control", b"no-store"))


class ServerTerms(NamedTuple):
    """Under which names the server answers, and how much it takes."""

    #: Values of Host, whole and with the port.
    hosts: frozenset[str]
    scheme: str = "http"
    trusted_proxies: frozenset[str] = frozenset()
    max_body_bytes: int = 1 << 20
    writes_per_second: int = 50
    read_only: bool = False
    git: bool = False
    run_commands: bool = False
    log_all: bool = False

    @property
    def origins(self) -> frozenset[str]:
        """Values of Origin: those of the server's own pages."""
        return frozenset(f"{self.scheme}://{host}" for host in self.hosts)


class Visit:
    """One request, as the checks see it."""

    def __init__(self, scope: Scope, guard: Guard) -> None:
        self.guard, self.path = guard, str(scope["path"])
        self.is_socket = scope["type"] == "websocket"
        #: HEAD is GET without the body of the answer, which the protocol leaves out.
        self.sent = "GET" if self.is_socket else str(scope["method"])
        self.method = "GET" if self.sent == "HEAD" and self.path != routes.LIVE else self.sent
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.size = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
        server, client = scope.get("server"), scope.get("client")
        #: A Unix socket has no port; the protocol has checked who is behind it.
        self.is_unix = server is not None and server[1] is None
        self.pid = client[1] if self.is_unix and client else None
        self.address = self._address(str(client[0]) if client and not self.is_unix else "unix")
        self._values: dict[bytes, list[bytes]] = {}
        for name, value in self.headers:
            self._values.setdefault(name, []).append(value)
        self.caller: Caller | None = None
        self.route = routes.ROUTES.get((self.method, self.path)) or operations.route(self.path)

    def header(self, name: str) -> str | None:
        """The value of a header; refuses one that was sent twice."""
        found = self._values.get(name.encode())
        if found is None:
            return None
        if len(found) > 1:
            raise HttpRefusal(errors.Usage(f"the header {name} was sent twice"), 400)
        return found[0].decode("latin-1")

    def _address(self, peer: str) -> str:
        """The sender's address: behind a trusted proxy, the last one that is not a proxy."""
        trusted = self.guard.terms.trusted_proxies
        if peer not in trusted:
            return peer
        named = [v.decode("latin-1") for key, v in self.headers if key == b"x-forwarded-for"]
        chain = [each.strip() for each in ",".join(named).split(",") if each.strip()]
        return next((each for each in reversed(chain) if each not in trusted), peer)[:64]


def check_host(visit: Visit) -> None:
    """Refuse a foreign host name: after DNS rebinding the browser sends one."""
    hosts = [value for key, value in visit.headers if key == b"host"]
    host = hosts[0].decode("latin-1").lower() if len(hosts) == 1 else ""
    own = host in visit.guard.terms.hosts or (visit.is_unix and host == UNIX_HOST)
    if not own:
        raise HttpRefusal(ForeignPage("Host", host), 421)


def check_origin(visit: Visit) -> None:
    """Refuse pages of other origins; other programs send no Origin."""
    origin = visit.header("origin")
    if origin is not None and origin not in visit.guard.terms.origins:
        raise ForeignPage("Origin", origin)


def check_site(visit: Visit) -> None:
    """Refuse what a browser sends for another site; links to the empty page must work."""
    site = visit.header("sec-fetch-site")
    if site in (None, "same-origin", "none"):
        return
    to_page = visit.path in visit.guard.pages and visit.header("sec-fetch-dest") == "document"
    if not to_page:
        raise ForeignPage("Sec-Fetch-Site", site or "")


def check_method(visit: Visit) -> None:
    """Refuse other methods than those of the path, and a URL or headers that are too long."""
    if visit.size > LONGEST_URL:
        raise HttpRefusal(BodyTooLarge("bytes in its URL", LONGEST_URL), 414)
    if sum(len(name) + len(value) + 4 for name, value in visit.headers) > MOST_HEADER_BYTES:
        raise HttpRefusal(BodyTooLarge("bytes in its headers", MOST_HEADER_BYTES), 431)
    allowed = [method for method in ("GET", "POST") if (method, visit.path) in routes.ROUTES]
    only_get = visit.path in visit.guard.pages or visit.path in visit.guard.plain
    plain = ["GET"] if only_get else ["GET", "POST"]
    plain = ["POST"] if visit.path == routes.MCP else plain
    if visit.method not in (allowed or plain):
        taken = allowed or plain
        problem = f"{visit.path} takes {' or '.join(taken)}, not {visit.sent[:20]}"
        if "GET" in taken and visit.path != routes.LIVE:
            taken.append("HEAD")
        raise HttpRefusal(errors.Usage(problem), 405, (b"allow", ", ".join(taken).encode()))


def check_kind(visit: Visit) -> None:
    """Refuse a body that is not JSON: a foreign page can send other kinds without asking."""
    if visit.method == "GET":
        return
    kind = (visit.header("content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/json" or visit.header("content-encoding") is not None:
        raise HttpRefusal(errors.Usage("send Content-Type: application/json, not compressed"), 415)


def check_token(visit: Visit) -> None:
    """Find out who calls; pages and /healthz hold no data, and need no token."""
    if visit.path in visit.guard.pages or visit.path == "/healthz":
        return
    if visit.is_unix:
        visit.caller = Caller("", "operator", pid=visit.pid)
    else:
        visit.caller = visit.guard.known(visit, _token(visit))
    if visit.guard.terms.read_only:
        visit.caller = visit.caller._replace(role="viewer")


def _token(visit: Visit) -> str | None:
    if visit.is_socket:
        offered = (visit.header("sec-websocket-protocol") or "").split(",")
        found = [each.strip() for each in offered if each.strip().startswith(BEARER_PROTOCOL)]
        if found:
            return found[0].removeprefix(BEARER_PROTOCOL)
    scheme, _, token = (visit.header("authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def check_role(visit: Visit) -> None:
    """Refuse what the role does not allow."""
    if visit.route is None or visit.caller is None:
        return
    if not visit.caller.may(visit.route.role):
        needs = f"the role {visit.route.role}"
        what = operations.spoken(visit.route.command)
        raise RoleTooSmall(what, role=visit.caller.actual_role, needs=needs)


def check_rate(visit: Visit) -> None:
    """Refuse writes that come too fast."""
    looks = visit.route is not None and visit.route.group == "look"
    if visit.method == "POST" and visit.caller is not None and not looks:
        visit.guard.writes.take(visit.caller.name)


CHECKS = (
    check_host,
    check_origin,
    check_site,
    check_method,
    check_kind,
    check_token,
    check_role,
    check_rate,
)


class Rate:
    """So many per second on average, four times as many at once."""

    def __init__(self, per_second: int) -> None:
        self._per_second, self._most = per_second, per_second * _BURST_SECONDS
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> None:
        """Take one of those left, or refuse."""
        now = clock.ticks()
        left, since = self._left.get(name, (float(self._most), now))
        left = min(self._most, left + (now - since) * self._per_second)
        if left < 1:
            raise TooMany(f"more than {self._per_second} writes in a second", retry_seconds=1)
        self._left[name] = (left - 1, now)


class Guard:
    """Lets a request pass to the app, or refuses it."""

    def __init__(self, app: App, terms: ServerTerms, tokens: Tokens, pages: Container[str]) -> None:
        self.app, self.terms, self.tokens = app, terms, tokens
        self.checks = CHECKS
        #: Paths that are served to everybody under our names: the empty page and its files.
        self.pages = pages
        #: Other paths that take GET only.
        self.plain: frozenset[str] = frozenset(("/healthz", "/metrics", routes.LIVE))
        self.writes = Rate(terms.writes_per_second)
        self._wrong: dict[str, list[float]] = {}
        #: Takes the lines of the log.
        self.log: Callable[[str], object] = output.mention
        #: Status and code -> how often.
        self.counts: dict[tuple[int, str], int] = {}

    def known(self, visit: Visit, token: str | None) -> Caller:
        """Return whose token it is, or refuse; wrong ones are counted by address."""
        caller = None if token is None else self.tokens.find(token)
        if caller is not None:
            return caller
        if token is None:
            raise NoToken()
        now = clock.ticks()
        recent = [at for at in self._wrong.get(visit.address, ()) if now - at < _MINUTE]
        if len(recent) >= MOST_WRONG_TOKENS:
            raise TooMany("too many wrong tokens from this address", retry_seconds=int(_MINUTE))
        if len(self._wrong) >= _MOST_REMEMBERED:
            self._wrong.clear()
        self._wrong[visit.address] = [*recent, now]
        raise NoToken("this token is not valid, or not any more")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, then pass it on."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        visit = Visit(scope, self)
        line = LogLine(self, visit, send)
        try:
            for check in self.checks:
                check(visit)
        except HttpRefusal as refused:
            return await line.refuse(refused.error, refused.status, scope, refused.headers)
        except TugError as error:
            return await line.refuse(error, routes.http_status(error), scope)
        scope.setdefault("state", {}).update(caller=visit.caller, visit=visit, line=line)
        if visit.method != visit.sent:
            # A copy: the protocol still has to know that no body is wanted.
            scope = {**scope, "method": visit.method}
        await self.app(scope, receive, line.send)


class LogLine:
    """One request in the log; it also adds the headers of every answer."""

    def __init__(self, guard: Guard, visit: Visit, send: Send) -> None:
        self._guard, self._visit, self._send = guard, visit, send
        self._begun = clock.ticks()
        self.request_id = _request_id(visit)
        self.code = ""
        self._answered = False

    async def send(self, message: Message) -> None:
        """Send a part of the answer; the first part gets the headers, and a line in the log."""
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            milliseconds = (clock.ticks() - self._begun) * 1000
            message["headers"] = [
                *message.get("headers", ()),
                *(API_HEADERS if self._visit.path.startswith("/api/") else HEADERS),
                (b"x-request-id", self.request_id.encode()),
                (b"server-timing", b"app;dur=%.1f" % milliseconds),
            ]
            self._write(message["status"], milliseconds)
        elif message["type"] in ("websocket.accept", "websocket.close") and not self._answered:
            accepted = message["type"] == "websocket.accept"
            self._write(101 if accepted else 403, (clock.ticks() - self._begun) * 1000)
        await self._send(message)

    def _write(self, status: int, milliseconds: float) -> None:
        self._answered = True
        counts = self._guard.counts
        counts[status, self.code] = counts.get((status, self.code), 0) + 1
        if status < 400 and not self._guard.terms.log_all:
            return
        visit = self._visit
        line = {
            "at": clock.text(clock.system_milliseconds()),
            "request_id": self.request_id,
            "address": visit.address,
            "name": visit.caller.name if visit.caller else None,
            "role": visit.caller.role if visit.caller else None,
            "method": visit.sent[:20],
            "path": visit.path[:200],
            "status": status,
            "code": self.code or None,
            "milliseconds": round(milliseconds, 1),
        }
        self._guard.log(text.encode(line) + "\n")

    async def refuse(
        self, error: TugError, status: int, scope: Scope, more: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        """Answer with a refusal; a WebSocket is not opened."""
        self.code = error.code
        kind = "http.response"
        if self._visit.is_socket:
            if "websocket.http.response" not in scope.get("extensions", {}):
                return await self.send({"type": "websocket.close", "code": 1008})
            kind = "websocket.http.response"
        command = self._visit.path.removeprefix(routes.API).replace("/", " ").strip()[:100]
        reply = refusal(error, command, status)
        headers = [
            (b"content-type", reply.kind.encode()),
            (b"content-length", str(len(reply.body)).encode()),
            (b"tug-exit-status", str(reply.exit_status).encode()),
            *retry_header(error),
            *more,
        ]
        if not self._visit.is_socket:
            # The body was not read, so the connection has no next request.
            headers.append((b"connection", b"close"))
        await self.send({"type": f"{kind}.start", "status": status, "headers": headers})
        await self.send({"type": f"{kind}.body", "body": reply.body})


def retry_header(error: TugError) -> list[tuple[bytes, bytes]]:
    """The header that says when to come back, if the refusal says so."""
    seconds = error.facts.get("retry_seconds")
    challenge = [(b"www-authenticate", b"Bearer")] if error.code == "E100" else []
    return challenge if seconds is None else [(b"retry-after", str(seconds).encode())]


def _request_id(visit: Visit) -> str:
    given = [value for key, value in visit.headers if key == b"x-request-id"]
    word = given[0].decode("latin-1") if len(given) == 1 else ""
    plain = word.replace("-", "").isalnum() and word.isascii() and len(word) <= 64
    return word if plain else f"{random.getrandbits(64):016x}"
