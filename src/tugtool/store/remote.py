"""The record on a server: `tugcode serve` has the database, and each operation is one request.

A request whose answer is lost is sent again under the same idempotency key, so it is not done
twice. `tugtool.state.operations` says which operations there are, and how their values are written.

Only a command whose state is at an address http(s)://... loads this module. It speaks HTTP itself:
the standard library's client costs a command twice a bare start of Python.
"""

from __future__ import annotations

import time

from tugtool.errors.server import ServerUnreachable
from tugtool.system import os, text

try:
    import _socket as sockets  # `socket` loads `enum` and `selectors`, half of a bare start.
except ImportError:  # pragma: no cover (another implementation of Python)
    import socket as sockets  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from typing import Any, NoReturn

    from tugtool.store import Rescue
    from tugtool.store.owners import Machine

SCHEMES = ("http://", "https://", "http+unix://")
LOOPBACK = ("127.0.0.1", "::1", "localhost")
OPERATIONS = "api/v1/operations/"
#: Changes when a client and a server of two versions would not understand each other.
PROTOCOL = 1
#: The server itself may wait for other writers, so it gets longer than they.
_ANSWER_SECONDS = 30
#: Answers of a proxy, or of a server with too many connections: it will be ready in a moment.
_PASSING = (429, 502, 503, 504)
_LONGEST_PAUSE_SECONDS = 1.0
_MOST_HEAD_BYTES = 65536
#: A look without waiting is answered from memory for so long.
_LOOK_SECONDS = 0.5
#: The longest wait of one request; a longer one is several.
_LONGEST_WAIT_SECONDS = 20


class ServerAddress:
    """The parts of an address; its form for people has no token."""

    __slots__ = ("host", "is_secure", "port", "prefix", "shown", "token", "unix")

    def __init__(self, url: str) -> None:
        url, _, fragment = url.partition("#")
        scheme, _, rest = url.partition("://")
        place, _, path = rest.partition("/")
        given, _, place = place.rpartition("@")
        self.token = fragment.removeprefix("t=") or given.rpartition(":")[2]
        self.is_secure = scheme == "https"
        self.unix = f"/{path}" if scheme == "http+unix" else ""
        head, bracket, tail = place.rpartition("]")
        host, _, port = tail.partition(":")
        self.host = head.lstrip("[") if bracket else host
        self.port = int(port) if port.isdecimal() else 443 if self.is_secure else 80
        self.prefix = "/" if self.unix else f"/{path.rstrip('/')}/".replace("//", "/")
        where = self.unix if self.unix else f"{place}{self.prefix}"
        self.shown = f"{scheme}://{where}"
        if not self.unix and (not self.host or (port and not port.isdecimal())):
            raise ServerUnreachable(self.shown, reason="is not the address of a server")

    @property
    def name(self) -> str:
        """The value of Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.port == (443 if self.is_secure else 80)
        return "localhost" if self.unix else host if usual else f"{host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """True if nothing leaves this machine."""
        return bool(self.unix) or self.host in LOOPBACK


class RemoteStore:
    """A state database behind a server, for one thread at a time."""

    def __init__(
        self,
        url: str,
        *,
        machine: Machine,
        token: str | None = None,
        busy_seconds: float = 5,
        ca_file: str = "",
    ) -> None:
        self.address = ServerAddress(url)
        #: The caller's machine: it tells the owners with the same path apart.
        self.machine = machine
        self.busy_seconds = busy_seconds
        self._token = token or self.address.token
        self._ca_file = ca_file
        self._link: Link | None = None
        self._exists = False
        #: The server's count of changes at the last look, and when that was.
        self._seen: object = None
        self._looked = float("-inf")

    def exists(self) -> bool:
        """Return whether the server has a database."""
        self._exists = self._exists or bool(self.ask("store/exists", {}))
        return self._exists

    def create(
        self, restore: Callable[[Rescue], Mapping[str, Any]] | None = None
    ) -> Mapping[str, Any] | None:
        """Have the server make it; it restores a lost one itself."""
        found: Any = self.ask("store/create", {}, writes=True)
        return None if found is None else dict(found)

    def roots(self) -> list[str]:
        """Return the root commits of the repository that is served."""
        found: Any = self.ask("store/roots", {})
        return list(found)

    def write(self, plan: str, *others: str, urgent: bool = False) -> NoReturn:
        """Refuse: an operation is carried out by the server."""
        raise AssertionError(f"not an operation of the table: a transaction of {plan}")

    def read(self, plan: str | None = None) -> NoReturn:
        """Refuse, as `write`."""
        raise AssertionError(f"not an operation of the table: a transaction of {plan}")

    def group(self) -> AbstractContextManager[object]:
        """Begin a group: the server makes its own."""
        import contextlib

        return contextlib.nullcontext()

    def wait_for_change(self, seconds: float) -> bool:
        """Wait for a change, at most so long. Return whether there was one."""
        deadline = time.monotonic() + seconds
        if seconds <= 0 and time.monotonic() < self._looked + _LOOK_SECONDS:
            return False
        while True:
            left = min(max(deadline - time.monotonic(), 0), _LONGEST_WAIT_SECONDS)
            found = self.ask("store/wait", {"seen": self._seen, "seconds": left})
            changed, self._seen = self._seen not in (None, found), found
            self._looked = time.monotonic()
            if changed or self._looked >= deadline:
                return changed

    def close(self) -> None:
        """Close the connection."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def ask(self, name: str, body: Mapping[str, object], *, writes: bool = False) -> object:
        """Send a request, again if its answer was lost. Return the answer's JSON value."""
        machine = [self.machine.id, self.machine.name]
        said = text.encode({"protocol": PROTOCOL, "machine": machine, **body}).encode()
        head = self._head(name, len(said), os.urandom(16).hex() if writes else "")
        deadline, pause, sent = time.monotonic() + self.busy_seconds, 0.02, False
        while True:
            try:
                status, answer = self._exchange(head + said)
                late = time.monotonic() + pause > deadline
                if status not in _PASSING or (answer[:1] == b"{" and (late or status != 429)):
                    return self._read(status, answer)
                problem = f"answers with the HTTP status {status}"
            except OSError as error:
                problem = f"cannot be reached: {_reason(error)}"
                if writes and self._link is not None and not sent:
                    # It may have been done, and its key brings the answer: ask for longer.
                    sent, deadline = True, max(deadline, time.monotonic() + _ANSWER_SECONDS)
                self.close()
                if self.address.is_secure and _is_lasting(error):
                    hint = "set state.ca_file, or SSL_CERT_FILE, to the file of its certificate"
                    raise ServerUnreachable(
                        self.address.shown, reason=problem, hint=hint
                    ) from error
            if time.monotonic() + pause > deadline:
                raise ServerUnreachable(self.address.shown, reason=problem, sent=sent)
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _head(self, name: str, size: int, key: str) -> bytes:
        lines = [
            f"POST {self.address.prefix}{OPERATIONS}{name} HTTP/1.1",
            f"Host: {self.address.name}",
            "Content-Type: application/json",
            f"Content-Length: {size}",
        ]
        lines += [f"Authorization: Bearer {self._token}"] if self._token else []
        lines += [f"Idempotency-Key: {key}"] if key else []
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")

    def _exchange(self, request: bytes) -> tuple[int, bytes]:
        """Send a request and read its answer, over the connection of the last one if it lives."""
        if self._link is not None:
            try:
                return self._link.exchange(request)
            except OSError:
                # The server closes a connection that is not used. If it has read the request, the
                # key keeps it from being done twice.
                self.close()
        self._link = self._connected()
        return self._link.exchange(request)

    def _connected(self) -> Link:
        return Link(self.address, self._ca_file, max(2.0, self.busy_seconds))

    def _read(self, status: int, answer: bytes) -> object:
        try:
            found = text.decode(answer.decode())
        except ValueError:
            found = None
        if not isinstance(found, dict):
            reason = f"answers with the HTTP status {status}, and not as tugcode serve does"
            raise ServerUnreachable(self.address.shown, reason=reason)
        if "issues" in found:
            raise _refusal(self.address.shown, found["issues"][-1])
        return found.get("value") if set(found) == {"value"} else found


def _refusal(url: str, issue: Mapping[str, Any]) -> Exception:
    """The refusal of a server's guard: the request did not reach the record."""
    from tugtool.errors import TugError, server

    known: list[Any] = [each for each in vars(server).values() if isinstance(each, type)]
    kind: Any = {each.code: each for each in known}.get(issue["code"], TugError)
    error: TugError = kind.__new__(kind)
    message = f"{url} refuses: {issue['message']}"
    hint = issue.get("hint")
    if issue["code"] == "E100":
        hint = "set TUGCODE_TOKEN to a token that tugcode serve token add has printed there"
    TugError.__init__(error, message, hint=hint, **issue.get("facts", {}))
    if kind is TugError:
        error.code = issue["code"]
    return error


def _reason(error: OSError) -> str:
    return str(error.strerror or error or type(error).__name__).lower()


def _is_lasting(error: OSError) -> bool:
    """True for a certificate that is not trusted or not there: it will not be in a moment."""
    return type(error).__name__ == "SSLCertVerificationError" or isinstance(
        error, (FileNotFoundError, PermissionError)
    )


class Link:
    """One connection to a server; requests go over it one after the other."""

    _socket: Any = None

    def __init__(self, address: ServerAddress, ca_file: str, seconds: float) -> None:
        self._rest = b""
        secure = address.is_secure
        self._socket = _secured(address, ca_file, seconds) if secure else _plain(address, seconds)
        self._socket.settimeout(_ANSWER_SECONDS + seconds)

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()

    # A command ends without closing its store, as with a file.
    __del__ = close

    def exchange(self, request: bytes) -> tuple[int, bytes]:
        """Send a request. Return the status and the body of its answer."""
        self._socket.sendall(request)
        while b"\r\n\r\n" not in self._rest:
            self._more()
            if len(self._rest) > _MOST_HEAD_BYTES:
                raise ConnectionError("the answer's head is too long")
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        status = first.split(" ")[1:2]
        if not first.startswith("HTTP/1.") or not status or not status[0].isdecimal():
            raise ConnectionError("the answer is not HTTP")
        return int(status[0]), self._body([line.lower().replace(" ", "") for line in lines])

    def _body(self, headers: list[str]) -> bytes:
        if "transfer-encoding:chunked" in headers:
            return self._chunks()
        sizes = [each.partition(":")[2] for each in headers if each.startswith("content-length:")]
        if len(sizes) != 1 or not sizes[0].isdecimal():
            raise ConnectionError("the answer does not say how long it is")
        return self._taken(int(sizes[0]))

    def _more(self) -> None:
        part = self._socket.recv(65536)
        if not part:
            raise ConnectionError("the connection was closed before the answer was complete")
        self._rest += part

    def _taken(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._more()
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def _line(self) -> bytes:
        while b"\r\n" not in self._rest:
            self._more()
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line

    def _chunks(self) -> bytes:
        parts = []
        while size := _size(self._line()):
            parts.append(self._taken(size))
            self._line()
        while self._line():
            pass
        return b"".join(parts)


def _size(line: bytes) -> int:
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        raise ConnectionError("the answer is not HTTP") from None


def _plain(address: ServerAddress, seconds: float) -> Any:
    """A connection to the first of the server's addresses that answers."""
    if address.unix:
        return _opened(sockets.AF_UNIX, address.unix, seconds)
    problem = OSError("its name has no address")
    found = sockets.getaddrinfo(address.host, address.port, 0, sockets.SOCK_STREAM)
    for family, _, _, _, place in found:
        try:
            return _opened(family, place, seconds)
        except OSError as error:
            problem = error
    raise problem


def _opened(family: int, place: Any, seconds: float) -> Any:
    made = sockets.socket(family, sockets.SOCK_STREAM)
    try:
        made.settimeout(seconds)
        made.connect(place)
        if family != sockets.AF_UNIX:
            made.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
    except BaseException:
        made.close()
        raise
    return made


def _secured(address: ServerAddress, ca_file: str, seconds: float) -> Any:
    """A connection with TLS; the certificate has to be valid for the server's name."""
    import socket
    import ssl

    context = ssl.create_default_context(cafile=ca_file or None)
    made = socket.create_connection((address.host, address.port), timeout=seconds)
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return context.wrap_socket(made, server_hostname=address.host)
    except BaseException:
        made.close()
        raise
