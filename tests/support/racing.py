"""Many real processes that start at one moment, and the plans they fight for."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from support import engines
from support.workers import PLAN
from tugtool import state
from tugtool.plan import parser
from tugtool.store import open_store
from tugtool.store.sqlite import SqliteStore

SCRIPT = str(Path(__file__).with_name("workers.py"))
TESTS = str(Path(__file__).parents[1])


class Crew:
    """Processes that run functions of `workers.py`, behind one gate."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[str]] = []
        self._inner, self._outer = os.pipe()

    def add(self, function: str, *, fault: str = "", **arguments: object) -> subprocess.Popen[str]:
        """Start one more process; it waits until `open` is called."""
        words = json.dumps({**arguments, "gate": self._inner, "fault": fault})
        process = subprocess.Popen(
            [sys.executable, SCRIPT, function, words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[self._inner],
            env={**os.environ, "PYTHONPATH": TESTS},
            text=True,
        )
        self.processes.append(process)
        return process

    def open(self) -> None:
        """Wait until all are ready, and let them go at once."""
        for process in self.processes:
            assert process.stdout.readline() == "ready\n"
        os.close(self._outer)

    def results(self) -> list:
        """What each printed last."""
        texts = [process.communicate()[0] for process in self.processes]
        assert [process.returncode for process in self.processes] == [0] * len(texts)
        return [json.loads(text.splitlines()[-1]) for text in texts]

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """Nothing that was started here outlives the test."""
        for process in self.processes:
            process.kill()
            process.communicate()
        os.close(self._inner)


def inside(process: subprocess.Popen[str]) -> None:
    """Return when the process says that it holds the lock."""
    assert json.loads(process.stdout.readline()) == "inside"


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Return once the condition holds; it must, soon."""
    deadline = time.monotonic() + seconds
    began = time.thread_time()
    while not condition():
        assert time.monotonic() < deadline, "this never came true"
        # Between two looks, the longer the more a look costs; nothing depends on how long it is.
        time.sleep(min(0.001 + 4 * (time.thread_time() - began), 0.05))
        began = time.thread_time()


def stands_at(pid: int, path: Path) -> bool:
    """Whether a process has a file or directory open; where nobody can see that, it is believed."""
    opened = Path(f"/proc/{pid}/fd")
    if not opened.exists():
        return not Path("/proc/self").exists()
    return str(path) in map(_leads_to, opened.iterdir())


def kill_all(process: subprocess.Popen) -> Any:
    """Kill a process that leads a group, and return once nothing of it runs; what it had printed.

    A kill is carried out a moment after it is sent, and only the first process is ours to
    wait for: a git that it started may go on for that moment.
    """
    group = process.pid
    os.killpg(group, signal.SIGKILL)
    out = process.communicate()[0]
    until(lambda: not any(_is_of(each, group) for each in Path("/proc").glob("[0-9]*/stat")))
    return out


def _is_of(stat: Path, group: int) -> bool:
    """Whether a process runs, and in that group."""
    try:
        state, _, at = stat.read_bytes().rpartition(b")")[2].split()[:3]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(at) == group and state not in (b"Z", b"X")


def _leads_to(descriptor: Path) -> str:
    """What a process has open there; nothing, if it has just closed it."""
    try:
        return os.readlink(descriptor)
    except FileNotFoundError:
        return ""


HEAD = """\
## Phase 1.0: Race {#phase-race}

### Plan Metadata {#plan-metadata}

| Field | Value |
|-------|-------|
| Owner | somebody |
| Status | active |
| Last updated | 2026-01-01 |

### Phase Overview {#phase-overview}

### Execution Steps {#execution-steps}
"""


def plan_of(steps: int) -> str:
    """A plan of so many steps that need nothing and have no items."""
    form = "\n#### Step {n}: Run {{#step-{n}}}\n\n**References:** (#phase-overview)\n"
    return HEAD + "".join(form.format(n=n) for n in range(steps))


def command(cwd: Path, *words: str, **options: Any) -> subprocess.Popen[str]:
    """`tugcode` itself, as a process; with JSON, and with the options of `Popen`."""
    argv = [sys.executable, "-m", "tugtool", *words, "--json"]
    return subprocess.Popen(argv, cwd=cwd, stdout=subprocess.PIPE, text=True, **options)


def prepared(path: Path, steps: int) -> tuple[SqliteStore, str]:
    """A database with one plan of so many steps, and its address; on the engine of the test."""
    on_server = engines.current() == "postgres"
    url = engines.url_in(path.parent) if on_server else f"sqlite://{path}"
    store = open_store(url)
    text = plan_of(steps)
    state.init(store, PLAN, parser.parse(text), text=text, hash="hash")
    return store, url


def open_files() -> Iterator[os.stat_result]:
    """What this process has open."""
    for name in os.listdir("/dev/fd"):
        # One of them was for listing the directory, and is gone.
        with suppress(OSError):
            yield os.fstat(int(name))
