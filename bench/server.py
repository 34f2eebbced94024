"""A PostgreSQL server for the benchmarks: durable, on a Unix socket, and through TLS with SCRAM.

The server comes from the wheel that the tests use. That one has no TLS; `tls` stands in front of
it, so that a client has all of its own work to do.
"""

import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import harness

sys.path.append(str(harness.PROJECT / "tests"))

from support import postgres_server

#: As a server has them by default, or more careful; the tests' own need not survive a power cut.
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "128MB",
    "max_connections": "700",
    "autovacuum_naptime": "60",
}
ROLE, PASSWORD = "worker", "a-password-of-the-bench"


class Server(postgres_server.Server):
    """A durable server; `worker` has to give a password."""

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def ask(self, statement: str, database: str = postgres_server.DATABASE) -> str:
        """Return the answer of psql, one value."""
        words = [str(self.programs / "psql"), "-h", str(self.directory), "-U", "postgres"]
        words += ["-At", "-v", "ON_ERROR_STOP=1", "-c", statement, database]
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its processes, those that ended included."""
        ticks = sum(map(int, _stat(self.pid)[11:15]))
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        for child in children:
            with suppress(OSError):
                ticks += sum(map(int, _stat(int(child))[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()


@contextmanager
def running() -> Iterator[Server]:
    """Make a cluster and start it; it is gone at the end, also if this process is told to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # A socket's path may have a hundred characters.
    with tempfile.TemporaryDirectory(prefix="tug-pg-", dir="/tmp") as name:
        os.chmod(name, 0o755)
        server = Server(Path(name), **SETTINGS)
        server.make()
        rules = server.data / "pg_hba.conf"
        rules.write_text(f"local all {ROLE} scram-sha-256\n{rules.read_text()}")
        server.start()
        try:
            server.ask(f"create database {postgres_server.DATABASE}", "postgres")
            server.ask(f"create role {ROLE} superuser login password '{PASSWORD}'")
            yield server
        finally:
            server.kill()


@contextmanager
def tls(server: Server, place: Path) -> Iterator[str]:
    """Answer TLS on a port of this machine. Yield the address for a role with a password."""
    key, certificate = place / "key.pem", place / "certificate.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    words += ["-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", str(key)]
    words += ["-addext", "subjectAltName=DNS:localhost", "-out", str(certificate)]
    subprocess.run(words, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        inner = str(server.directory / ".s.PGSQL.5432")
        words = (listening, context, inner)
        threading.Thread(target=_accept, args=words, daemon=True).start()
        secret = place / ".pgpass"
        secret.write_text(f"localhost:{port}:*:{ROLE}:{PASSWORD}\n")
        secret.chmod(0o600)
        more = f"sslmode=verify-full&sslrootcert={certificate}"
        yield f"postgresql://{ROLE}@localhost:{port}/{postgres_server.DATABASE}?{more}"


def _accept(listening: socket.socket, context: ssl.SSLContext, inner: str) -> None:
    with suppress(OSError):
        while True:
            outside, _ = listening.accept()
            threading.Thread(target=_serve, args=(outside, context, inner), daemon=True).start()


def _serve(outside: Any, context: ssl.SSLContext, inner: str) -> None:
    with suppress(OSError), outside, socket.socket(socket.AF_UNIX) as inside:
        assert len(outside.recv(8, socket.MSG_WAITALL)) == 8, "a client asks for TLS first"
        outside.sendall(b"S")
        inside.connect(inner)
        with context.wrap_socket(outside, server_side=True) as secure:
            back = threading.Thread(target=_pass_on, args=(inside, secure), daemon=True)
            back.start()
            _pass_on(secure, inside)


def _pass_on(source: Any, target: Any) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
