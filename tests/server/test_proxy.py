"""The examples for proxies and systemd in docs/reference/server.md, run as they stand there."""

import re
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from support.proving import needed
from support.server import Process, parsed, received
from support.server import certificate as made_certificate
from tugtool.server.tokens import Tokens
from tugtool.system import clock

pytestmark = pytest.mark.proof(share=0)

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "server.md"


def example(kind: str, number: int = 0) -> str:
    """A code block of the page."""
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)[number]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as made:
        return made.getsockname()[1]


@pytest.fixture
def certificate(tmp_path):
    """A certificate for tug.example; its file and its key's."""
    return made_certificate(tmp_path, "tug.example")


def ask(port: int, cert: Path, *lines: str, method: str = "GET", path: str = "/api/v1/whoami"):
    """One request through the proxy, as a client elsewhere would send it."""
    context = ssl.create_default_context(cafile=cert)
    for last in clock.tries(30):
        try:
            plain = socket.create_connection(("127.0.0.1", port), timeout=30)
            break
        except ConnectionRefusedError:
            assert not last, "the proxy does not listen"
    with context.wrap_socket(plain, server_hostname="tug.example") as made:
        head = [f"{method} {path} HTTP/1.1", *lines, "Connection: close", "", ""]
        made.sendall("\r\n".join(head).encode())
        return parsed(received(made))


@pytest.fixture
def behind(desk):
    """A server behind a proxy, and a token."""
    root = desk("1 t").repo.path
    (root / ".tugtool" / "config.toml").write_text(example("toml"))
    (root / ".git" / "tugtool").mkdir(exist_ok=True)
    token, _ = Tokens(str(root / ".git" / "tugtool")).add("anna", "operator")
    with Process(root, "--access-log") as server:
        server.anna = token
        yield server


def holds(server: Process, port: int, cert: Path) -> None:
    """The proxy lets its own name through, and nothing foreign."""
    host, token = "Host: tug.example", f"Authorization: Bearer {server.anna}"
    assert ask(port, cert, host, token).data["name"] == "anna"
    assert ask(port, cert, host, token, "Origin: https://tug.example").status == 200
    assert ask(port, cert, host, token, "Origin: https://evil.example").status == 403
    assert ask(port, cert, host).status == 401
    # Caddy itself answers for names that it does not know, with nothing.
    foreign = ask(port, cert, "Host: evil.example", token)
    assert foreign.status != 200 or foreign.body == b""
    # The sender cannot choose the address that is logged.
    ask(port, cert, host, "X-Forwarded-For: 6.6.6.6")
    server.running.terminate()
    _, told = server.end()
    assert "6.6.6.6" not in told
    assert '"address": "127.0.0.1"' in told


def adapted(text: str, server: Process, port: int, certificate: tuple[Path, Path]) -> str:
    cert, key = map(str, certificate)
    for before, after in (
        ("/etc/tug/cert.pem", cert),
        ("/etc/tug/key.pem", key),
        ("127.0.0.1:8840", f"127.0.0.1:{server.port}"),
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("https://tug.example {", f"https://tug.example:{port} {{"),
    ):
        text = text.replace(before, after)
    return text


def test_the_example_for_nginx_works(behind, certificate, tmp_path):
    port = free_port()
    own = adapted(example("nginx"), behind, port, certificate)
    directories = "".join(
        f"{name}_temp_path {tmp_path}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = (
        f"daemon off;\npid {tmp_path}/pid;\nerror_log {tmp_path}/log;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{directories}{own}}}\n"
    )
    (tmp_path / "nginx.conf").write_text(whole)
    proxy = subprocess.Popen([needed("nginx"), "-p", tmp_path, "-c", tmp_path / "nginx.conf"])
    try:
        holds(behind, port, certificate[0])
    finally:
        proxy.terminate()
        proxy.wait()


def test_the_example_for_caddy_works(behind, certificate, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    port = free_port()
    own = adapted(example("caddyfile"), behind, port, certificate)
    options = "{\n    admin off\n    auto_https disable_redirects\n}\n"
    (tmp_path / "Caddyfile").write_text(options + own)
    with (tmp_path / "log").open("w") as log:
        command = [
            needed("caddy"),
            "run",
            "--config",
            tmp_path / "Caddyfile",
            "--adapter",
            "caddyfile",
        ]
        proxy = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        holds(behind, port, certificate[0])
    finally:
        proxy.terminate()
        proxy.wait()


def test_the_units_for_systemd_are_right(tmp_path):
    program = shutil.which("true")
    service = example("ini", 1).replace("/usr/local/bin/tugcode", program)
    (tmp_path / "tugtool.socket").write_text(example("ini", 0))
    (tmp_path / "tugtool.service").write_text(service.replace("User=tug", "User=root"))
    units = [tmp_path / "tugtool.socket", tmp_path / "tugtool.service"]
    done = subprocess.run(
        [needed("systemd-analyze"), "verify", *units], capture_output=True, text=True, check=False
    )
    told = [line for line in done.stderr.splitlines() if "tugtool" in line]
    assert (done.returncode, told) == (0, [])
