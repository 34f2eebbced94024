"""The server in this process, without sockets; and as a real process, spoken to over raw ones."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import tugtool
from tugtool.cli import parse
from tugtool.server.app import make_app
from tugtool.server.guard import ServerTerms
from tugtool.server.tokens import Tokens
from tugtool.server.work import Service
from tugtool.workflow.workspace import Workspace

HOST = "127.0.0.1:8840"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z?")
HEX = re.compile(r"\b[0-9a-f]{40}\b")
REF = re.compile(r"\d{8}T\d{9}Z")
SECONDS = re.compile(r'"(\w*seconds|parallelism)": [\d.]+')


class HttpResult:
    """What came back: status, headers by their small names, body."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def envelope(self) -> dict:
        return json.loads(self.body)

    @property
    def data(self) -> dict:
        return self.envelope["data"]

    @property
    def code(self) -> str:
        issues = self.envelope["issues"]
        return issues[-1]["code"] if self.status >= 400 else ""


class App:
    """The app with its guard, called as uvicorn calls it."""

    def __init__(self, root: Path, **terms: object) -> None:
        self.root = root
        space = Workspace(str(root))
        self.directory = root / ".git" / "tugtool"
        self.directory.mkdir(exist_ok=True)
        self.tokens = Tokens(str(self.directory))
        self.token = self.tokens.make_for_this_start()
        self.service = Service(space, batch=8)
        wanted: dict = {"hosts": frozenset((HOST,)), "writes_per_second": 10_000, **terms}
        self.guard = make_app(self.service, ServerTerms(**wanted), self.tokens)

    def close(self) -> None:
        self.service.close()

    def get(self, path: str, query: Mapping[str, object] | None = None, **how) -> HttpResult:
        said = {n: "true" if value is True else value for n, value in (query or {}).items()}
        return self.send("GET", path, query=urlencode(said, doseq=True), **how)

    def post(self, path: str, body: object = None, **how) -> HttpResult:
        data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        return self.send("POST", path, body=data, **how)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        body: bytes = b"",
        headers: Mapping[str, str | None] | None = None,
        token: str | None = "own",
        extra: tuple[tuple[str, str], ...] = (),
        kind: str = "http",
        server: tuple[str, int | None] = ("127.0.0.1", 8840),
        client: tuple[str, int] | None = ("127.0.0.1", 5000),
    ) -> HttpResult:
        """Send a request with the usual headers, or others in their place; None leaves one out."""
        path = path if path.startswith("/") else f"/api/v1/{path}"
        usual: dict[str, str | None] = {"host": HOST}
        if method == "POST":
            usual["content-type"] = "application/json"
        if token is not None:
            usual["authorization"] = f"Bearer {self.token if token == 'own' else token}"
        sent = {**usual, **(headers or {})}
        raw = [(name, value) for name, value in sent.items() if value is not None]
        scope = {
            "type": kind,
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(n.encode(), v.encode("latin-1")) for n, v in (*raw, *extra)],
            "server": server,
            "client": client,
            "scheme": "http",
            "http_version": "1.1",
            "root_path": "",
            "extensions": {"websocket.http.response": {}},
            "subprotocols": [],
        }
        return asyncio.run(self._call(scope, body))

    async def _call(self, scope: dict, body: bytes) -> HttpResult:
        messages: list[dict] = []
        given = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict:
            if given:
                return given.pop()
            await asyncio.sleep(3600)
            return {}

        async def send(message: dict) -> None:
            messages.append(message)

        await self.guard(scope, receive, send)
        start = next(each for each in messages if each["type"].endswith("response.start"))
        parts = [each.get("body", b"") for each in messages if each["type"].endswith("body")]
        headers = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
        return HttpResult(start["status"], headers, b"".join(parts))


def fields(words: list[str]) -> tuple[str, dict[str, object]]:
    """The path of the command that the words name, and the fields that say the same."""
    call = parse.parse(words)
    command = call.command
    said: dict[str, object] = {}
    for option in command.options:
        if option.key in call.values:
            values = call.values[option.key]
            said[option.key] = True if not option.metavar else _said(option, values)
    for argument in command.arguments:
        if argument.name in call.values:
            values = call.values[argument.name]
            said[argument.name] = values if argument.many else values[0]
    return command.path.replace(" ", "/"), said


def _said(option: parse.Option, values: list[str]) -> object:
    if len(option.metavar.split()) == 2:
        return [list(pair) for pair in zip(values[::2], values[1::2], strict=True)]
    return values if option.repeat else values[0]


def masked(text: str, root: Path) -> str:
    """The text without times, hashes of commits and the place of the repository."""
    text = REF.sub("TIME", TIME.sub("TIME", text.replace(str(root), "ROOT")))
    return HEX.sub("COMMIT", SECONDS.sub(r'"\1": N', text))


class Process:
    """`tugcode serve` as a process of its own."""

    def __init__(
        self, root: Path, *words: str, python: tuple[str, ...] = ("-P", "-m", "tugtool"), **how
    ) -> None:
        command = [sys.executable, *python, "-C", str(root), "serve", "--json"]
        package = str(Path(tugtool.__file__).parents[1])
        environment = {**os.environ, "PYTHONPATH": package, "PYTHONWARNINGS": "error"}
        words = words if {"--fd", "--port"} & {*words} else ("--port", "0", *words)
        # Not a pipe, which would be full after some hundred refusals.
        self._told = tempfile.TemporaryFile()  # noqa: SIM115 (until the process has ended)
        self.running = subprocess.Popen(
            [*command, *words],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=self._told,
            stdin=subprocess.DEVNULL,
            **how,
        )
        line = self.running.stdout.readline()
        if not line:
            raise AssertionError(self.end())
        self.data = json.loads(line)["data"]
        self.url, _, self.token = self.data["url"].partition("#t=")
        host, _, port = self.url.partition("://")[2].strip("/").rpartition(":")
        self.host, self.port = host, int(port)

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        if self.running.poll() is None:
            self.running.send_signal(signal.SIGTERM)
        self.end()

    def end(self) -> tuple[int, str]:
        """Wait for its end: exit status and standard error."""
        self.running.communicate(timeout=60)
        if not self._told.closed:
            self._told.seek(0)
            self.told = self._told.read().decode()
            self._told.close()
        return self.running.returncode, self.told

    def connect(self) -> socket.socket:
        made = socket.create_connection((self.host, self.port), timeout=60)
        made.settimeout(60)
        return made

    def raw(self, data: bytes, patience: float = 60) -> bytes:
        """Send bytes; all that comes back before the server closes, or says nothing for so long."""
        with self.connect() as made:
            made.settimeout(patience)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                made.sendall(data)
            return received(made)

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str | None] | None = None,
    ) -> HttpResult:
        """One request on a connection of its own."""
        usual: dict[str, str | None] = {
            "Host": f"{self.host}:{self.port}",
            "Authorization": f"Bearer {self.token}",
            "Connection": "close",
        }
        if method == "POST":
            usual |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        sent = {**usual, **(headers or {})}
        lines = [f"{name}: {value}" for name, value in sent.items() if value is not None]
        head = "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode()
        with self.connect() as made:
            made.sendall(head + body)
            return parsed(received(made))


def certificate(directory: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate for a name; its file and its key's."""
    files = directory / "cert.pem", directory / "key.pem"
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    subprocess.run(
        [
            *("openssl", "req", "-x509", *curve, "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"),
            *("-out", files[0], "-keyout", files[1]),
        ],
        check=True,
        capture_output=True,
    )
    return files


def received(made: socket.socket) -> bytes:
    """All that arrives before the other side closes."""
    parts = []
    try:
        while part := made.recv(65536):
            parts.append(part)
    except (ConnectionResetError, TimeoutError):
        pass
    return b"".join(parts)


def parsed(raw: bytes) -> HttpResult:
    """The answer in these bytes."""
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    status = int(first.split()[1]) if first else 0
    if headers.get("transfer-encoding") == "chunked":
        body = b"".join(body.split(b"\r\n")[1::2])
    return HttpResult(status, headers, body)
