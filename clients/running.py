"""Starting a client: in a home of its own, with an environment made for it, and never for long."""

import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
INSTALLED = ROOT / ".clients"
LONGEST_SECONDS = 300
LINGERING_SECONDS = 30

#: Every process that descends from a client has this variable, and nobody else has its value.
MARK = "TUGTOOL_CLIENT_RUN"

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}


class Ran(NamedTuple):
    """What a client said, and how it ended."""

    status: int
    out: str
    err: str

    def expect(self) -> str:
        """The output of a client that had to succeed."""
        assert self.status == 0, self
        return self.out

    def refused(self) -> str:
        """What a client said that had to fail."""
        assert self.status != 0, self
        return self.out + self.err


class Home:
    """A throw-away home, and the clients that live in it; `door` is the only way out."""

    def __init__(self, path: Path, door: str) -> None:
        self.path, self.door = path, door
        self.mark = uuid.uuid4().hex
        self.environment = {
            **QUIET,
            MARK: self.mark,
            "HOME": str(path),
            "CODEX_HOME": str(path / ".codex"),
            "PATH": os.pathsep.join([*map(str, _programs()), os.environ["PATH"]]),
            "LANG": "C.UTF-8",
            "HTTP_PROXY": door,
            "HTTPS_PROXY": door,
            "NO_PROXY": "127.0.0.1",
            # Nobody is there to be asked for a password.
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        (path / ".codex").mkdir(parents=True)

    def run(self, *command: str, cwd: Path | None = None, **also: str) -> Ran:
        """Run a client to its end, or end it when its time is up."""
        with self.started(*command, cwd=cwd, **also) as process:
            out, err = process.communicate()
        return Ran(process.returncode, out, err)

    @contextmanager
    def started(
        self, *command: str, cwd: Path | None = None, **also: str
    ) -> Iterator[subprocess.Popen[str]]:
        """A running client, which outlives neither its time nor a block that fails."""
        process = subprocess.Popen(
            command,
            cwd=cwd or self.path,
            env={**self.environment, **also},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        limit = threading.Timer(LONGEST_SECONDS, self.end)
        limit.start()
        with process:
            try:
                yield process
            except BaseException:
                self.end()
                raise
            finally:
                limit.cancel()

    def left(self) -> list[int]:
        """Processes that a client has left running."""
        listed = subprocess.run(["ps", "axeww"], capture_output=True, text=True, check=True)
        lines = [line for line in listed.stdout.splitlines() if f"{MARK}={self.mark}" in line]
        return [int(line.split(None, 1)[0]) for line in lines]

    def lasting(self) -> list[int]:
        """Those of them that do not end by themselves when the client has ended."""
        limit = time.monotonic() + LINGERING_SECONDS
        while self.left() and time.monotonic() < limit:
            time.sleep(0.05)  # nothing tells when a process ends that is not our child
        return self.left()

    def end(self) -> None:
        """End whatever is left."""
        for process in self.left():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def _programs() -> list[Path]:
    return [INSTALLED / "node_modules" / ".bin", INSTALLED / "python" / "bin"]
