"""POST /mcp: the tools of `tugcode mcp` over HTTP, without state, in the role of the token."""

from __future__ import annotations

import asyncio
import base64
from concurrent.futures import ThreadPoolExecutor

from starlette.responses import Response

from tugtool.cli import main
from tugtool.errors.server import NotServed, RoleTooSmall
from tugtool.server import routes, work
from tugtool.server.mcp import protocol
from tugtool.server.mcp.protocol import McpProtocol, ProtocolError
from tugtool.server.mcp.session import Cancelled, ToolSession, filled
from tugtool.server.served import JSON, Rendered, ServedCall, ServedWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from starlette.requests import Request

    from tugtool.cli.output import Answer
    from tugtool.server.guard import ServerTerms
    from tugtool.server.routes import Route
    from tugtool.server.tokens import Caller
    from tugtool.server.work import Service
    from tugtool.store import Store


#: A claim may wait in its thread for almost a minute.
_THREADS = 32
_HEADER_MISMATCH = -32020
#: Code of an error -> HTTP status; all others: 200.
_STATUSES = {
    protocol.PARSE_ERROR: 400,
    protocol.INVALID_REQUEST: 400,
    protocol.INVALID_PARAMS: 400,
    protocol.UNSUPPORTED_VERSION: 400,
    _HEADER_MISMATCH: 400,
    protocol.UNKNOWN_METHOD: 404,
}
#: Methods whose header Mcp-Name repeats a parameter.
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class McpPath:
    """The path /mcp of a server."""

    def __init__(self, service: Service, terms: ServerTerms) -> None:
        self.service, self.terms = service, terms
        self._threads: ThreadPoolExecutor | None = None
        self.is_closed = False

    async def answer(self, request: Request, body: bytes) -> Response:
        """Answer one message."""
        try:
            message = protocol.decoded(body)
            if not protocol.is_request(message):
                return Response(status_code=202)
            _check_headers(message, request.headers)
            _check_version(message, request.headers)
        except ProtocolError as error:
            return _written(protocol.error_answer(error))
        loop = asyncio.get_running_loop()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, "mcp")
        session = HttpSession(self, request.state.caller, loop)
        work_ = loop.run_in_executor(self._threads, _respond, session, message)
        return _written(await work_)

    def close(self) -> None:
        """Let waiting claims end."""
        self.is_closed = True
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _respond(session: HttpSession, message: object) -> dict[str, Any] | None:
    number = message.get("id") if isinstance(message, dict) else None
    try:
        return McpProtocol(session).respond(message)
    except Cancelled:
        problem = "the server is about to end; try again"
    except Exception as error:
        from tugtool.server.mcp import refusals

        problem = refusals.told_bug(error)
    return protocol.error_answer(ProtocolError(protocol.INTERNAL_ERROR, problem), number)


def _written(answer: dict[str, Any] | None) -> Response:
    assert answer is not None
    code = answer["error"]["code"] if "error" in answer else 0
    return Response(protocol.encoded(answer), _STATUSES.get(code, 200), media_type=JSON)


def _check_headers(message: object, headers: Mapping[str, str]) -> None:
    """In the second era the headers repeat the message, so that a proxy can route it."""
    if not isinstance(message, dict) or protocol.VERSION_KEY not in protocol.meta(message):
        return
    method, params = message.get("method"), message.get("params") or {}
    wanted = {
        "mcp-protocol-version": protocol.meta(message)[protocol.VERSION_KEY],
        "mcp-method": method,
    }
    if isinstance(method, str) and method in _NAMED:
        wanted["mcp-name"] = params.get(_NAMED[method])
    for name, value in wanted.items():
        if isinstance(value, str) and _plain(headers.get(name)) != value:
            raise ProtocolError(_HEADER_MISMATCH, f"the header {name} does not repeat the message")


def _check_version(message: object, headers: Mapping[str, str]) -> None:
    """Refuse the header of a version that this server does not speak."""
    version = _plain(headers.get("mcp-protocol-version"))
    known = (*protocol.HANDSHAKE_VERSIONS, *protocol.MODERN_VERSIONS)
    # In `initialize` the versions are still to be agreed on.
    first = isinstance(message, dict) and message.get("method") == "initialize"
    if version is not None and version not in known and not first:
        data = {"supported": list(known), "requested": version[:60]}
        raise ProtocolError(protocol.UNSUPPORTED_VERSION, "unsupported protocol version", data)


def _plain(value: str | None) -> str | None:
    """The value of a header; what no header can hold is sent as `=?base64?...?=`."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except ValueError:
        return None


class HttpSession(ToolSession):
    """The sender of one request, whose token says what it may do."""

    def __init__(self, path: McpPath, caller: Caller, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(caller.actual_role)
        self._path, self._caller, self._loop = path, caller, loop

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools of the role; verify only where the server would run commands for it."""
        verifies = self.commits and self._path.terms.run_commands
        return tuple(each for each in super().tools if verifies or each != "verify")

    @property
    def commits(self) -> bool:
        """True for an operator, whose worktrees are here, if git is switched on."""
        return self._caller.may("operator") and self._path.terms.git

    @property
    def only_plan(self) -> str | None:
        """The plan of the token."""
        return self._caller.plan

    def watch(self) -> None:
        """Raise if the server ends."""
        if self._path.is_closed:
            raise Cancelled

    def space(self, worktree: str | None = None) -> ServedWorkspace:
        """The repository as the token's owner sees it, in this thread."""
        return self._path.service.space(self._caller, worktree)

    def plan_key(self, name: str | None, worktree: str | None) -> str:
        """The plan; no path of a file is one, unless it is recorded."""
        space = self.space(worktree)
        if name is not None:
            call = ServedCall(lambda _: space)
            call.values["plan"] = [name]
            work.refuse_paths(call, space)
        return space.plan(name)

    def perform(
        self, words: list[str], *, worktree: str | None = None, given: bytes | None = None
    ) -> Answer:
        """Run the command in the thread for such; the answer comes after it is stored."""
        route = self._route(words)
        self._refuse_off(route)

        def run(store: Store) -> Answer:
            return self._run(store, route, words, worktree, given)

        if route.group in ("look", "git"):
            answer = run(self.space().store)
            if answer.after is not None:
                answer.after()
            return answer
        found: list[Answer] = []

        def write(store: Store) -> Rendered:
            found.append(run(store))
            return Rendered(200, 0, b"", after=found[0].after)

        done = asyncio.run_coroutine_threadsafe(self._path.service.write(write), self._loop)
        done.result()
        return found[0]

    def _route(self, words: list[str]) -> Route:
        """The route of the command; one that settles something is another than one that looks."""
        verbs = {f"--{each.replace('_', '-')}" for each in routes.VERDICTS}
        commands = [" ".join(words[:count]) for count in (3, 2, 1)]
        methods = ("POST", "GET") if verbs & set(words) else ("GET", "POST")
        keys = [(m, routes.API + c.replace(" ", "/")) for c in commands for m in methods]
        return next(routes.ROUTES[key] for key in keys if key in routes.ROUTES)

    def _refuse_off(self, route: Route) -> None:
        """Refuse what the role does not allow, and what the settings switch off."""
        caller, terms = self._caller, self._path.terms
        if not caller.may(route.role):
            raise RoleTooSmall(
                route.command, role=caller.actual_role, needs=f"the role {route.role}"
            )
        if route.group == "git" and not terms.git:
            raise NotServed(route.command, reason="the setting serve.git is off")
        if route.command in routes.RUNS and not terms.run_commands:
            raise NotServed(route.command, reason="the setting serve.run_commands is off")

    def _run(
        self,
        store: Store,
        route: Route,
        words: list[str],
        worktree: str | None,
        given: bytes | None,
    ) -> Answer:
        space = self._path.service.space_of(store, self._caller, worktree, git=route.group == "git")
        call = filled(ServedCall(lambda _: space), words, given=given)
        call.cwd, call.watch = space.repo.root, self.watch
        work.refuse_small_role(route, call, self._caller)
        work.refuse_paths(call, space)
        answer: Any = main.perform(routes.command_of(route), call)
        found: Answer = answer
        return found
