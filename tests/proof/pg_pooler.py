"""A real pgbouncer in transaction mode before a server: the system's, or the one in .venv."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from support import postgres_server

#: Fewer connections to the server than workers, so that they share them.
SETTINGS = """
[databases]
* = host={server} user=postgres

[pgbouncer]
pool_mode = transaction
auth_type = any
listen_addr =
listen_port = 5432
unix_socket_dir = {directory}
default_pool_size = 8
max_client_conn = 200
server_login_retry = 1
"""
_UNPACKED = Path(sys.prefix) / "pgbouncer"


def _program(directory: Path) -> tuple[str, dict[str, str]]:
    """The program where the user who runs it can reach it, and its environment."""
    installed = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if installed:
        return installed, {}
    assert _UNPACKED.exists(), (
        "pgbouncer is not installed: make .venv/pgbouncer, or use your system's packages"
    )
    copy = directory / "pgbouncer"
    shutil.copytree(_UNPACKED / "usr", copy)
    libraries = next(copy.glob("lib/*/libevent-*")).parent
    return str(copy / "sbin" / "pgbouncer"), {"LD_LIBRARY_PATH": str(libraries)}


class Pooler:
    """A pgbouncer of its own, which can be killed and started again."""

    def __init__(self, directory: Path, server: Path) -> None:
        self.directory, self._server = directory, server
        self._argv, self._env = _program(directory)
        settings = directory / "pgbouncer.ini"
        settings.write_text(SETTINGS.format(server=server, directory=directory))
        user = postgres_server._user()
        if user:
            os.chown(directory, user["user"], user["group"])

    def start(self) -> None:
        """Start it and wait until it listens."""
        socket = self.directory / ".s.PGSQL.5432"
        socket.unlink(missing_ok=True)
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self._argv, "pgbouncer.ini"],
                cwd=self.directory,
                env={**os.environ, **self._env},
                stdout=log,
                stderr=log,
                **postgres_server._user(),
            )
        while not socket.exists():
            assert self.process.poll() is None, (self.directory / "log").read_text()
            time.sleep(0.02)

    def kill(self) -> None:
        """End it at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def wait_for(self, words: str) -> None:
        """Wait until it has written them down."""
        log, before = self.directory / "log", (self.directory / "log").read_text().count(words)
        while log.read_text().count(words) <= before:
            assert self.process.poll() is None
            time.sleep(0.02)
