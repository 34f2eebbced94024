"""The server process: where it listens, how it starts and stops, who else may see it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
import sys

import uvicorn

from tugtool import errors
from tugtool.errors.server import Exposed, PortTaken
from tugtool.server.app import make_app
from tugtool.server.connection import Protocol
from tugtool.server.guard import MOST_HEADER_BYTES, ServerTerms
from tugtool.server.tokens import Tokens
from tugtool.server.work import Service
from tugtool.system import files, os
from tugtool.workflow import server_note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.system.config import Settings
    from tugtool.workflow.workspace import Workspace


LOOPBACK = ("127.0.0.1", "::1")
MOST_CONNECTIONS = 1000
#: Connections for requests, however many streams the settings allow.
_BESIDE_STREAMS = 500
STOP_SECONDS = 5
_BACKLOG = 2048


#: What makes it safe to listen for other machines.
_PROTECT = "set serve.tls_cert and serve.tls_key; or behind a proxy: tugcode serve --behind-proxy"


class Listening:
    """Where the server listens, from the settings and the command line."""

    def __init__(
        self,
        settings: Settings,
        root: str,
        directory: str,
        *,
        port: int | None = None,
        unix: str | None = None,
        descriptor: int | None = None,
    ) -> None:
        self.host = settings.word("serve.host")
        self.port = settings.number("serve.port") if port is None else port
        unix = settings.word("serve.unix") if unix is None else unix
        self.unix = os.path.join(directory, "serve.sock") if unix == "auto" else unix
        self.cert, self.key = settings.word("serve.tls_cert"), settings.word("serve.tls_key")
        if self.cert:
            self.cert, self.key = (os.path.join(root, each) for each in (self.cert, self.key))
            _refuse_bad_certificate(self.cert, self.key)
        self.behind_proxy = bool(settings.value("serve.behind_proxy"))
        self.hosts = settings.words("serve.hosts")
        self.descriptor = descriptor
        if descriptor is not None:
            self.host, self.port = _place_of(descriptor) or (self.host, self.port)
        if self.unix and self.cert:
            raise errors.Usage("a Unix socket and serve.tls_cert exclude each other")

    @property
    def is_local(self) -> bool:
        """True if only this machine can connect."""
        return self.host in LOOPBACK

    @property
    def is_for_others(self) -> bool:
        """True if others than the person who starts it use it, and its output may be kept."""
        return not self.is_local or self.behind_proxy or self.descriptor is not None

    def refuse_exposed(self, tokens: Tokens) -> None:
        """Refuse to listen for others without protection."""
        if not self.cert and not self.behind_proxy and not self.is_local:
            lacks = "neither serve.tls_cert nor serve.behind_proxy is set"
            raise Exposed(self.host, lacks=lacks, hint=_PROTECT)
        if self.is_for_others and not tokens.rows():
            hint = "tugcode serve token add NAME --role operator"
            raise Exposed(self.host, lacks="there is no token", hint=hint)

    def sockets(self) -> list[socket.socket]:
        """The sockets to listen at."""
        if self.descriptor is not None:
            return [_inherited(self.descriptor)]
        found = [self._tcp()]
        if self.unix:
            try:
                found.append(_unix_socket(self.unix))
            except OSError as error:
                found[0].close()
                raise PortTaken(self.unix, by=files.reason(error)) from error
        return found

    def _tcp(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # With the protocol named, asyncio sends each answer at once; without, the system waits up
        # to 40 ms for more.
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((self.host, self.port))
            # Who reads the address may connect at once.
            made.listen(_BACKLOG)
        except OSError as error:
            made.close()
            raise PortTaken(f"{self.host}:{self.port}", by=files.reason(error)) from error
        return made

    def names(self, port: int) -> frozenset[str]:
        """The values of Host under which the server answers."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        own = [shown, "localhost"] if self.is_local else [shown]
        usual = 443 if self.cert else 80
        with_port = [each if port == usual else f"{each}:{port}" for each in own]
        return frozenset(each.lower() for each in (*with_port, *self.hosts))


def _refuse_bad_certificate(cert: str, key: str) -> None:
    """Refuse files that TLS cannot use, before anything listens."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        problem = f"serve.tls_cert and serve.tls_key cannot be used: {cert}, {key}: {error}"
        raise errors.Usage(problem, command="serve") from error


def _place_of(descriptor: int) -> tuple[str, int] | None:
    """Host and port of a socket of the caller; None if it has none."""
    found = _inherited(descriptor)
    try:
        name = found.getsockname()
        return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None
    finally:
        found.detach()


def _inherited(descriptor: int) -> socket.socket:
    try:
        return socket.socket(fileno=descriptor)
    except OSError as error:
        problem = f"--fd {descriptor}: {files.reason(error)}"
        raise errors.Usage(problem, command="serve") from error


def _unix_socket(path: str) -> socket.socket:
    """A socket that only this user can connect to."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(ConnectionRefusedError, FileNotFoundError):
            made.connect(path)
            raise OSError(f"a process listens at {path} already")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        made.close()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            made.bind(path)
            made.listen(_BACKLOG)
        finally:
            os.umask(before)
    except OSError:
        made.close()
        raise
    return made


_STOPPING = (signal.SIGTERM, signal.SIGINT)


class EarlySignals:
    """Handles signals from the start until the loop does: a caller may send one at once."""

    def __init__(self, tokens: Tokens) -> None:
        self.stops = False
        for number in _STOPPING:
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, lambda *_: tokens.refresh())

    def _stop(self, *_: object) -> None:
        self.stops = True


class QuietServer(uvicorn.Server):
    """Stops at SIGTERM and SIGINT with exit status 0; reads the tokens again at SIGHUP."""

    tokens: Tokens
    service: Service
    early: EarlySignals

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals in the loop while the server runs."""
        loop = asyncio.get_running_loop()
        for number in _STOPPING:
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self.tokens.refresh)
        if self.early.stops:
            self._stop()
        yield

    def _stop(self) -> None:
        # A second signal does not wait for open answers.
        self.force_exit = self.should_exit
        self.service.end_streams()
        self.should_exit = True


class Server:
    """A server that is about to run."""

    def __init__(
        self,
        space: Workspace,
        listening: Listening,
        *,
        read_only: bool = False,
        log_all: bool = False,
    ) -> None:
        self.space, self.listening = space, listening
        self.directory = space.copies
        os.makedirs(self.directory, exist_ok=True)
        self._refuse_second()
        self.tokens = Tokens(self.directory)
        listening.refuse_exposed(self.tokens)
        self._sockets = listening.sockets()
        settings = space.settings
        port = self._port()
        proxies = settings.words("serve.trusted_proxies") if listening.behind_proxy else []
        secure = bool(listening.cert or listening.behind_proxy)
        self.terms = ServerTerms(
            hosts=listening.names(port),
            scheme="https" if secure else "http",
            trusted_proxies=frozenset(proxies),
            max_body_bytes=settings.number("serve.max_body_bytes"),
            writes_per_second=settings.number("serve.writes_per_second"),
            read_only=read_only,
            git=bool(settings.value("serve.git")),
            run_commands=bool(settings.value("serve.run_commands")),
            log_all=log_all,
        )
        shown = f"[{listening.host}]" if ":" in listening.host else listening.host
        self.url = f"{'https' if listening.cert else 'http'}://{shown}:{port}/"
        #: Only for the person who started it, at this machine.
        self.token = None if listening.is_for_others else self.tokens.make_for_this_start()
        self._early = EarlySignals(self.tokens)
        server_note.write(space.repo, url=self.url, socket=listening.unix or None)

    def _port(self) -> int:
        name = self._sockets[0].getsockname()
        return int(name[1]) if isinstance(name, tuple) else self.listening.port

    def _refuse_second(self) -> None:
        running = server_note.running(self.space.repo)
        if running is not None:
            url, pid = str(running["url"]), running["pid"]
            hint = (
                f"for a token of your own: tugcode serve token add ME --role operator, then open "
                f"{url}#t=TOKEN; or stop it first: kill {pid}"
            )
            raise PortTaken(url, by=f"process {pid} serves this repository", hint=hint)

    def data(self) -> dict[str, object]:
        """The answer of the command."""
        address = self.url if self.token is None else f"{self.url}#t={self.token}"
        return {"url": address, "socket": self.listening.unix or None, "pid": os.getpid()}

    def run(self) -> None:
        """Serve until a signal comes."""
        # A terminal here is not that of the person who sends a request.
        sys.stdin = open(os.devnull)  # noqa: SIM115 (it stays open)
        service = Service(self.space, batch=self.space.settings.number("serve.batch"))
        app = make_app(service, self.terms, self.tokens)
        server = QuietServer(self._settings(app))
        server.tokens, server.service, server.early = self.tokens, service, self._early
        try:
            server.run(self._sockets)
        finally:
            self._tidy()

    def _settings(self, app: object) -> uvicorn.Config:
        listening = self.listening
        streams = self.space.settings.number("serve.max_streams")
        return uvicorn.Config(
            app,  # type: ignore[arg-type]  # an ASGI app, which uvicorn spells otherwise
            http=Protocol,
            ws="websockets-sansio",
            ws_max_size=1 << 16,
            ws_per_message_deflate=False,
            lifespan="on",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=True,
            limit_concurrency=max(MOST_CONNECTIONS, streams + _BESIDE_STREAMS),
            timeout_graceful_shutdown=STOP_SECONDS,
            h11_max_incomplete_event_size=MOST_HEADER_BYTES,
            ssl_certfile=listening.cert or None,
            ssl_keyfile=listening.key or None,
            ssl_version=ssl.PROTOCOL_TLS_SERVER,
        )

    def _tidy(self) -> None:
        server_note.remove(self.space.repo)
        with contextlib.suppress(OSError):
            os.unlink(self.listening.unix)
