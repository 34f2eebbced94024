"""Attacks on the server. Each returns True if it succeeded: something changed, was read or opened.

The attackers have no token, unless the attack says that one was stolen: then the other checks have
to hold, because each is there for the day on which another fails.
"""

import base64
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from support.server import Process, parsed, received

WITHOUT = """
import sys
from tugtool.server import guard
guard.CHECKS = tuple(each for each in guard.CHECKS if each.__name__ != sys.argv[1])
from tugtool.cli.main import main
sys.exit(main(sys.argv[2:]))
"""
PLAN = b'{"plan": "work"}'
SITES = ("evil.example", "rebind.example")


class Target(Process):
    """A server under attack, perhaps without one of its checks."""

    def __init__(self, root: Path, tokens, without: str = "") -> None:
        self.root = root
        self.stolen = {role: tokens.add(role, role)[0] for role in ("viewer", "worker")}
        super().__init__(root, python=("-c", WITHOUT, without))

    @property
    def own(self) -> str:
        return f"{self.host}:{self.port}"

    def claims(self) -> int:
        """How many claims the record has, as the command line tells."""
        command = [sys.executable, "-P", "-m", "tugtool", "-C", str(self.root)]
        done = subprocess.run(
            [*command, "state", "log", "--json"], capture_output=True, check=True, text=True
        )
        events = json.loads(done.stdout)["data"]["events"]
        return sum(event["kind"] in ("claim", "pause") for event in events)

    def resident(self) -> int:
        """The server's memory in bytes."""
        text = Path(f"/proc/{self.running.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) * 1024

    def lives(self) -> bool:
        return self.request("GET", "/healthz").status == 200

    def ask(self, *lines: str, body: bytes = b"", patience: float = 60) -> int:
        """Send lines as they are; the status of the answer, 0 if there was none."""
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        return parsed(self.raw(head + body, patience)).status

    def looks(self, *lines: str, path: str = "/api/v1/status", token: str | None = None) -> bool:
        """True if a request with these headers reads something."""
        token = self.token if token is None else token
        return self.ask(
            f"GET {path} HTTP/1.1", f"Authorization: Bearer {token}", "Connection: close", *lines
        ) in (200, 101)


def post(target: Target, token: str, *lines: str, body: bytes = PLAN) -> int:
    return target.ask(
        "POST /api/v1/state/claim HTTP/1.1",
        f"Host: {target.own}",
        f"Authorization: Bearer {token}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *lines,
        body=body,
    )


def foreign_hosts(target: Target) -> bool:
    """Every form of a foreign name in Host, with the stolen token."""
    port = target.port
    forms = (
        *("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1.evil.example:{port}"),
        *(
            f"{target.own}.",
            f"{target.own}@evil.example",
            f"evil.example#{target.own}",
            "*",
            "[::]",
        ),
        *(f"0.0.0.0:{port}", f"127.1:{port}", f"[::ffff:127.0.0.1]:{port}", f"{target.own},x"),
    )
    return any(target.looks(f"Host: {form}") for form in forms)


def no_host(target: Target) -> bool:
    """HTTP/1.0 needs no Host; it must have one here."""
    status = target.ask("GET /api/v1/status HTTP/1.0", f"Authorization: Bearer {target.token}")
    return status == 200


def two_hosts(target: Target) -> bool:
    return target.looks(f"Host: {target.own}", "Host: evil.example")


def absolute_target(target: Target) -> bool:
    """The host in the request line instead."""
    path = "http://evil.example/api/v1/status"
    return target.looks("Host: evil.example", path=path)


def null_origin(target: Target) -> bool:
    """A sandboxed frame in a browser without Sec-Fetch-Site."""
    return target.looks(f"Host: {target.own}", "Origin: null")


def foreign_origin(target: Target) -> bool:
    origins = ("http://evil.example", "http://127.0.0.1:1", f"http://{target.own}.evil.example")
    return any(target.looks(f"Host: {target.own}", f"Origin: {each}") for each in origins)


def cross_site(target: Target) -> bool:
    """A request without Origin that a browser marks as another site's."""
    sites = ("cross-site", "same-site")
    return any(target.looks(f"Host: {target.own}", f"Sec-Fetch-Site: {each}") for each in sites)


def cross_site_page(target: Target) -> bool:
    """A foreign page loads our page as a script, which holds no data but tells that we are here."""
    lines = (f"Host: {target.own}", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: script")
    return target.looks(*lines, path="/", token="x")


def no_token(target: Target) -> bool:
    paths = ("status", "state/show?plan=work", "openapi.json", "whoami", "git/commit?hash=HEAD")
    host = f"Host: {target.own}"
    return any(target.looks(host, path=f"/api/v1/{path}", token="") for path in paths)


def guessed_tokens(target: Target) -> bool:
    """Two hundred guesses: none is right, and soon they are not even looked at."""
    host = f"Host: {target.own}"
    told = []
    for number in range(200):
        status = target.ask(
            "GET /api/v1/status HTTP/1.1",
            host,
            f"Authorization: Bearer tug_{number:043}",
            "Connection: close",
        )
        told.append(status)
    return 200 in told or told[20:] != [429] * 180


def token_elsewhere(target: Target) -> bool:
    """The token in a cookie, in the query or in another scheme does not count."""
    host, token = f"Host: {target.own}", target.token
    return (
        target.looks(host, f"Cookie: token={token}; t={token}", token="")
        or target.looks(host, path=f"/api/v1/status?token={token}&t={token}", token="")
        or target.looks(host, f"Authorization: Basic {token}", token="x")
    )


def plain_text_post(target: Target) -> bool:
    """What a foreign page can send without asking: text/plain, a form."""
    before = target.claims()
    kinds = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x")
    for kind in (*kinds, "text/plain;application/json"):
        post(target, target.token, f"Content-Type: {kind}")
    post(target, target.token)
    return target.claims() > before


def viewer_claims(target: Target) -> bool:
    """A viewer claims, and a worker pauses the plan."""
    before = target.claims()
    post(target, target.stolen["viewer"], "Content-Type: application/json")
    for role in ("viewer", "worker"):
        target.request(
            "POST",
            "/api/v1/state/pause",
            PLAN,
            {"Authorization": f"Bearer {target.stolen[role]}"},
        )
    return target.claims() > before


def flood(target: Target) -> bool:
    """A worker writes as fast as it can: most is refused."""
    told: list[int] = []

    def write() -> None:
        made = HTTPConnection(target.host, target.port, timeout=60)
        headers = {
            "Authorization": f"Bearer {target.stolen['worker']}",
            "Content-Type": "application/json",
        }
        # The plan is not there: nothing is written, so it is as fast as it can be.
        while len(told) < 2000 and 429 not in told:
            made.request("POST", "/api/v1/state/claim", b'{"plan": ""}', headers)
            answer = made.getresponse()
            answer.read()
            told.append(answer.status)
        made.close()

    threads = [threading.Thread(target=write) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return 429 not in told


def long_url(target: Target) -> bool:
    return target.looks(f"Host: {target.own}", path=f"/healthz?{'x' * 8000}")


def other_methods(target: Target) -> bool:
    """A preflight gets no answer that lets a page go on; a claim takes POST alone."""
    host, token = f"Host: {target.own}", f"Authorization: Bearer {target.token}"
    own = f"Origin: http://{target.own}"
    asked = "Access-Control-Request-Method: POST"
    for method in ("OPTIONS", "PUT", "DELETE", "TRACE", "CONNECT", "HEAD", "claim"):
        raw = target.raw(
            f"{method} /api/v1/state/claim HTTP/1.1\r\n{host}\r\n{token}\r\n{own}\r\n{asked}\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        if b" 20" in raw[:13] or b"access-control" in raw.lower():
            return True
    return False


def head(target: Target) -> bool:
    """HEAD passes the checks of GET."""
    host, token = f"Host: {target.own}", f"Authorization: Bearer {target.token}"
    ask = ("HEAD /api/v1/status HTTP/1.1", "Connection: close")
    return 200 in (
        target.ask(*ask, host),
        target.ask(*ask, "Host: evil.example", token),
        target.ask(*ask, host, token, "Origin: null"),
        target.ask(*ask, host, token, "Sec-Fetch-Site: cross-site"),
    )


def method_override(target: Target) -> bool:
    """A GET that says that it means POST."""
    before = target.claims()
    lines = ("X-HTTP-Method-Override: POST", "X-HTTP-Method: POST", f"Host: {target.own}")
    target.looks(*lines, path="/api/v1/state/claim?plan=work&_method=POST")
    return target.claims() > before


def paths(target: Target) -> bool:
    """Paths that lead elsewhere, in every spelling."""
    tricks = (
        *("/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd"),
        *("//etc/passwd", "/api/v1/../../.git/config", "/.git/config", "/api/v1//status"),
        *("/api/v1/status/", "/api/v1/status;x", "/api/v1/status%00", "/api/v1/status%2f"),
        *("/api/v1/%2e/status", "/API/V1/status", "/@fs/etc/passwd", "/static/../tokens.json"),
        *("\\..\\..\\etc\\passwd", "/api/v1/state/exec", "/api/v1/implement", "/mcp", "*"),
    )
    host = f"Host: {target.own}"
    return any(target.looks(host, path=each) for each in tricks)


def files(target: Target) -> bool:
    """A plan that is the path of another file."""
    names = ("/etc/passwd", "../../etc/passwd", ".git/config", ".tugtool/state.db", "code.py")
    host = f"Host: {target.own}"
    asked = ("plan/show", "validate", "plan/graph", "state/diff")
    return any(
        target.looks(host, path=f"/api/v1/{path}?plan={name}") for name in names for path in asked
    )


def git_objects(target: Target) -> bool:
    """A commit that the record does not name, or an option in its place."""
    names = ("HEAD", "main", "--output=/tmp/x", "HEAD:code.py", "@{0}", "")
    host = f"Host: {target.own}"
    return any(target.looks(host, path=f"/api/v1/git/commit?hash={each}") for each in names)


def switched_off(target: Target) -> bool:
    """Git and commands, which the settings switch off."""
    for path in ("worktree/create", "merge", "state/init", "commit", "state/verify", "plan/accept"):
        if target.request("POST", f"/api/v1/{path}", PLAN).status != 404:
            return True
    return False


def upgrades(target: Target) -> bool:
    """An upgrade to a WebSocket or to HTTP/2 does not go around the guard."""
    key = base64.b64encode(os.urandom(16)).decode()
    lines = (
        *(f"Host: {target.own}", "Connection: Upgrade", "Upgrade: websocket"),
        *(f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"),
    )
    tries = [
        target.ask("GET /api/v1/live HTTP/1.1", *lines, patience=3),
        target.ask("GET /api/v1/status HTTP/1.1", *lines, patience=3),
        target.ask(
            "GET /api/v1/live HTTP/1.1",
            *lines,
            "Sec-WebSocket-Protocol: tug.bearer.x",
            patience=3,
        ),
        target.ask(
            "GET /api/v1/status HTTP/1.1",
            *(f"Host: {target.own}", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c"),
            "HTTP2-Settings: AAMAAABkAAQAAP__",
            patience=3,
        ),
        target.ask("PRI * HTTP/2.0", "", "SM", patience=3),
    ]
    return 101 in tries or 200 in tries


def huge_body(target: Target) -> bool:
    """Fifty megabytes, announced; they are not even read."""
    before = target.resident()
    with target.connect() as made:
        head = (
            f"POST /api/v1/state/claim HTTP/1.1\r\nHost: {target.own}\r\n"
            f"Authorization: Bearer {target.token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {50 << 20}\r\n\r\n"
        )
        status = _pushed(made, head.encode(), (b"x" * 65536 for _ in range(800)))
    return status != 413 or target.resident() - before > 20 << 20 or not target.lives()


def chunked_body(target: Target) -> bool:
    """The same in chunks, so that no length is announced."""
    before = target.resident()
    with target.connect() as made:
        head = (
            f"POST /api/v1/state/claim HTTP/1.1\r\nHost: {target.own}\r\n"
            f"Authorization: Bearer {target.token}\r\nContent-Type: application/json\r\n"
            "Transfer-Encoding: chunked\r\n\r\n"
        )
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        status = _pushed(made, head.encode(), (chunk for _ in range(800)))
    return status != 413 or target.resident() - before > 20 << 20 or not target.lives()


def _pushed(made: socket.socket, head: bytes, parts: Iterator[bytes]) -> int:
    """Send until the other side has enough; the status of its answer."""
    try:
        made.sendall(head)
        for part in parts:
            made.sendall(part)
    except (BrokenPipeError, ConnectionResetError):
        pass
    raw = received(made)
    # An answer may be lost with a connection that is reset; that is no success.
    return parsed(raw).status if raw else 413


def slow_bodies(target: Target) -> bool:
    """Two hundred requests whose bodies never come: others are answered meanwhile."""
    open_ones = []
    try:
        for _ in range(200):
            made = target.connect()
            open_ones.append(made)
            made.sendall(
                f"POST /api/v1/state/claim HTTP/1.1\r\nHost: {target.own}\r\n"
                f"Authorization: Bearer {target.token}\r\nContent-Type: application/json\r\n"
                "Content-Length: 100\r\n\r\n{".encode()
            )
        return not target.lives()
    finally:
        for made in open_ones:
            made.close()


def half_headers(target: Target) -> bool:
    """Two hundred requests that never end their headers."""
    open_ones = []
    try:
        for _ in range(200):
            made = target.connect()
            open_ones.append(made)
            made.sendall(f"GET / HTTP/1.1\r\nHost: {target.own}\r\nX-Slow: ".encode())
        return not target.lives()
    finally:
        for made in open_ones:
            made.close()


def large_headers(target: Target) -> bool:
    """A header of 200 kB, and two thousand headers."""
    host, token = f"Host: {target.own}", f"Authorization: Bearer {target.token}"
    line, end = "GET /api/v1/status HTTP/1.1", "Connection: close"
    one = target.ask(line, host, token, end, f"X-Large: {'x' * 200_000}")
    many = [f"X-{number}: y" for number in range(2000)]
    return 200 in (one, target.ask(line, host, token, end, *many))


def smuggling(target: Target) -> bool:
    """A second request hidden in the body of the first."""
    before = target.claims()
    hidden = (
        f"POST /api/v1/state/claim HTTP/1.1\r\nHost: {target.own}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(PLAN)}\r\n\r\n"
    ).encode() + PLAN
    for lines in (
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Content-Length: 0", f"Content-Length: {len(hidden)}"),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        ("Transfer-Encoding : chunked",),
    ):
        head = "\r\n".join(["POST /healthz HTTP/1.1", f"Host: {target.own}", *lines, "", ""])
        target.raw(head.encode() + b"0\r\n\r\n" + hidden, patience=3)
    return target.claims() > before


def pipelining(target: Target) -> bool:
    """The token of one request does not count for the next on the same connection."""
    first = (
        f"GET /api/v1/version HTTP/1.1\r\nHost: {target.own}\r\n"
        f"Authorization: Bearer {target.token}\r\n\r\n"
    )
    second = f"GET /api/v1/status HTTP/1.1\r\nHost: {target.own}\r\nConnection: close\r\n\r\n"
    return target.raw((first + second).encode()).count(b"HTTP/1.1 200") != 1


def split_answers(target: Target) -> bool:
    """Text of the request that would become a header of the answer."""
    raw = target.raw(
        f"GET /api/v1/status HTTP/1.1\r\nHost: {target.own}\r\n"
        "X-Request-Id: a%0d%0aSet-Cookie: x=1\r\nConnection: close\r\n\r\n".encode()
    )
    return b"set-cookie" in raw.lower()


def deep_json(target: Target) -> bool:
    """JSON of a hundred thousand levels, and numbers of a million digits."""
    bodies = (b'{"plan":' * 100_000, b'{"plan": ' + b"9" * 900_000 + b"}")
    for body in bodies:
        if target.request("POST", "/api/v1/state/claim", body).status not in (400, 413):
            return True
    return not target.lives()


def stolen_holder(target: Target) -> bool:
    """A process id that only the Unix socket can prove; another worker's name."""
    body = json.dumps({"plan": "work", "holder_pid": 1}).encode()
    told = target.request("POST", "/api/v1/state/claim", body).status
    worker = {"Authorization": f"Bearer {target.stolen['worker']}"}
    body = json.dumps({"plan": "work", "step": "step-1", "worktree": "anna:x"}).encode()
    acts = target.request("POST", "/api/v1/state/claim", body, worker)
    name = acts.data.get("worktree", "worker:") if acts.status == 200 else "worker:"
    return told == 200 or not name.startswith("worker:")


RAW: dict[str, Callable[[Target], bool]] = {
    each.__name__: each
    for each in (
        *(foreign_hosts, no_host, two_hosts, absolute_target, null_origin, foreign_origin),
        *(cross_site, cross_site_page, no_token, token_elsewhere, plain_text_post, viewer_claims),
        *(long_url, other_methods, head, method_override, paths, files, git_objects, switched_off),
        *(upgrades, huge_body, chunked_body, slow_bodies, half_headers, large_headers, smuggling),
        *(pipelining, split_answers, deep_json, stolen_holder, flood, guessed_tokens),
    )
}

# From a real browser.

#: Page -> what its script does; each returns whether it succeeded, or the claims tell.
SCRIPTS = {
    "reads the state": "(await fetch(URL + 'api/v1/status')).ok",
    "reads the state with the stolen token": (
        "(await fetch(URL + 'api/v1/status', {headers: {authorization: 'Bearer ' + TOKEN}})).ok"
    ),
    "claims blindly": (
        "(await fetch(URL + 'api/v1/state/claim', {method: 'POST', mode: 'no-cors',"
        ' body: \'{"plan": "work"}\'}), false)'
    ),
    "claims as JSON with the stolen token": (
        "(await fetch(URL + 'api/v1/state/claim', {method: 'POST', body: '{\"plan\": \"work\"}',"
        " headers: {'content-type': 'application/json', authorization: 'Bearer ' + TOKEN}})).ok"
    ),
    "opens the stream": (
        "await new Promise(done => { const s = new WebSocket(URL.replace('http', 'ws') +"
        " 'api/v1/live'); s.onopen = () => done(true); s.onerror = () => done(false); })"
    ),
    "opens the stream with the stolen token": (
        "await new Promise(done => { const s = new WebSocket(URL.replace('http', 'ws') +"
        " 'api/v1/live', ['tug.v1', 'tug.bearer.' + TOKEN]);"
        " s.onopen = () => done(true); s.onerror = () => done(false); })"
    ),
    "loads an answer as a script": (
        "await new Promise(done => { const s = document.createElement('script');"
        " s.src = URL + 'api/v1/status'; s.onload = () => done(true);"
        " s.onerror = () => done(false); document.head.append(s); })"
    ),
    "loads the page as a picture": (
        "await new Promise(done => { const s = new Image(); s.src = URL;"
        " s.onload = () => done(true); s.onerror = () => done(false); })"
    ),
    "submits a form": (
        "await new Promise(done => { const f = document.createElement('form');"
        " const frame = document.createElement('iframe'); frame.name = 'f';"
        " document.body.append(frame); f.target = 'f'; f.method = 'POST';"
        " f.enctype = 'text/plain'; f.action = URL + 'api/v1/state/claim';"
        ' const i = document.createElement(\'input\'); i.name = \'{"plan": "work", "x": "\';'
        " i.value = '\"}'; f.append(i); document.body.append(f); f.submit();"
        " frame.onload = () => done(false); })"
    ),
    "shows the page in a frame": (
        "await new Promise(done => { const frame = document.createElement('iframe');"
        " frame.src = URL; frame.onload = () => { let read = false; try {"
        " read = frame.contentDocument.body.innerText.includes('Tugtool'); } catch {}"
        " done(read); }; document.body.append(frame); })"
    ),
    "claims from a frame without origin": (
        "await new Promise(done => { const frame = document.createElement('iframe');"
        " frame.sandbox = 'allow-scripts'; frame.srcdoc = `<script>fetch("
        " '${URL}api/v1/state/claim', {method: 'POST', mode: 'no-cors',"
        ' body: \'{"plan": "work"}\'}).finally(() =>'
        " parent.postMessage('done', '*'))</script>`; onmessage = () => done(false);"
        " document.body.append(frame); })"
    ),
}
#: Where the page comes from: its host, and whether it has the server's own port.
ORIGINS = {
    "a page of another site": ("evil.example", False),
    "a page of another local server": ("127.0.0.1", False),
    "a page after DNS rebinding": ("rebind.example", True),
}


_FRAME = """async ({url, token}) => {
  const URL = url, TOKEN = token;
  try { return SCRIPT; } catch { return false; }
}"""


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<!doctype html><title>x</title><body>hello"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def other_server() -> Iterator[int]:
    """Another server of this machine, as agents start them; its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    # A connection that is kept open must not keep the test.
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def _hello(route) -> None:
    route.fulfill(body="<!doctype html><title>x</title><body>hello", content_type="text/html")


def browse(browser, target: Target, port: int) -> Iterator[str]:
    """Carry out every attack of a page; the names of those that succeeded."""
    for origin, (host, same_port) in ORIGINS.items():
        context = browser.new_context()
        page = context.new_page()
        address = f"http://{host}:{target.port if same_port else port}/"
        if same_port:
            # The first answer is the attacker's; then the name leads to this machine.
            page.route(address, _hello)
        page.goto(address)
        page.unroute_all()
        url = address if same_port else target.url
        names = {"url": url, "token": target.token}
        for name, script in SCRIPTS.items():
            before = target.claims()
            succeeded = page.evaluate(_FRAME.replace("SCRIPT", script), names)
            if succeeded or target.claims() > before:
                yield f"{origin} {name}"
        context.close()
