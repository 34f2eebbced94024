"""Runs command lines, each in a process of its own that may be killed at any of its borders.

A border is the moment before it asks for the writers' lock, before each statement, before it
starts git, before it changes a name in the file system, before it answers, and after that.
Everything is imported once; each run is forked off. The clock stands still. Orders come as
JSON lines, and so do answers.
"""

import json
import os
import pkgutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator

import watching

import tugtool
from tugtool.cli import main, output
from tugtool.store import postgres, sqlite
from tugtool.store.postgres import health
from tugtool.system import clock, crash, lock
from tugtool.workflow import workspace

NOON = 1_771_848_000_000
#: What gives files names, or takes them away.
CHANGES = ("link", "mkdir", "rename", "replace", "rmdir", "symlink", "unlink")


class Borders:
    """Counts; where it was told to it kills this process as `kill -9` would, or waits."""

    def __init__(self) -> None:
        self.names: list[str] = []
        #: The named points that were passed.
        self.points: list[str] = []
        #: The modules that opened transactions in which to write.
        self.writers: list[str] = []
        self.dies: int | None = None
        #: A border, and the FIFO at which to wait there.
        self.hold: tuple[int, str] | None = None

    def pass_(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) - 1 == self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.hold is not None and len(self.names) - 1 == self.hold[0]:
            with open(self.hold[1], "rb") as gate:
                gate.read()

    def come_to(self, point: str) -> None:
        self.points.append(point)
        _POINT(point)


BORDERS = Borders()
_POINT = crash.point


class Line:
    """To whoever wants to know that this process waits for somebody."""

    def __init__(self) -> None:
        self.descriptor = -1

    def wait(self) -> None:
        if self.descriptor >= 0:
            os.write(self.descriptor, b"w")


LINE = Line()


def _writing(write: Callable[..., object]) -> Callable[..., object]:
    def writing(self: object, *words: object, **options: object) -> object:
        BORDERS.writers.append(sys._getframe(1).f_globals["__name__"])
        return write(self, *words, **options)

    return writing


def watch() -> None:
    """Have everything that lasts pass a border first."""
    watching.watch(BORDERS.pass_, LINE.wait)
    output.say = watching.passing(BORDERS.pass_, "answer", output.say)
    crash.point = BORDERS.come_to
    for engine in (sqlite.SqliteStore, postgres.PostgresStore):
        engine.write = _writing(engine.write)
    # The server's clock would go on.
    postgres.PostgresStore.clock = property(lambda self: lambda: NOON, lambda self, value: None)
    health._CLOCK = b"select %d::bigint" % NOON
    for name in CHANGES:
        setattr(os, name, watching.passing(BORDERS.pass_, name, getattr(os, name)))
    spawn = os.posix_spawnp

    def spawning(file: str, argv: list[str], *words: object, **options: object) -> int:
        BORDERS.pass_(" ".join(map(str, argv[:8]))[:60])
        return spawn(file, argv, *words, **options)

    os.posix_spawnp = spawning
    tries = clock.tries

    def trying(seconds: float) -> Iterator[bool]:
        for number, last in enumerate(tries(seconds)):
            if number == 1:
                LINE.wait()
            yield last

    clock.tries = trying
    clock.system_milliseconds = lambda: NOON
    # What was written just now counts as what was written long ago: the same borders each time.
    workspace._UNSETTLED_NANOSECONDS = -1


def two_transactions() -> None:
    """A completion that commits what was ticked, and then the rest."""
    from tugtool import state

    complete = state.complete

    def completing(store, plan, anchor, **how) -> dict:
        reason = how.pop("force_reason", None)
        if reason is not None:
            state.update(
                store,
                plan,
                anchor,
                [],
                owner=how["owner"],
                copy=how["copy"],
                complete_remaining=True,
            )
        return complete(store, plan, anchor, **how)

    state.complete = completing


def no_worktree_lock() -> None:
    """Worktrees are made and removed by anybody at any time."""
    enter = lock.FileLock.enter

    def entering(self: lock.FileLock, **how: bool) -> None:
        if not self._path.endswith("worktrees.lock"):
            enter(self, **how)

    lock.FileLock.enter = entering


def no_commit_lock() -> None:
    """Whoever commits in a worktree is not alone in it."""
    from contextlib import nullcontext

    from tugtool.workflow import dash

    dash.alone = lambda path: nullcontext()


def no_second_look() -> None:
    """A commit that believes what it saw before it looked at the worktree."""
    from types import SimpleNamespace

    from tugtool.state import intents, record

    def family(tx, anchor, **how) -> tuple:
        return record.family(tx, anchor)

    intents.record = SimpleNamespace(**{**vars(record), "held": family})


FAULTS: dict[str, Callable[[], None]] = {
    "no lock for worktrees": no_worktree_lock,
    "no lock for a dash": no_commit_lock,
    "no second look of a commit": no_second_look,
    "commits twice": two_transactions,
    "no transaction": watching.no_transaction,
}


def child(order: dict, out: int) -> int:
    """Be the command; its exit status."""
    os.chdir(order["cwd"])
    os.environ.update(order.get("env", {}))
    inner, outer = os.pipe()
    os.write(outer, order.get("given", "").encode())
    os.close(outer)
    os.dup2(inner, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    BORDERS.dies, BORDERS.hold = order.get("dies"), order.get("hold")
    BORDERS.names, BORDERS.points, BORDERS.writers = [], [], []
    status = main.main(["--json", *order["words"]])
    BORDERS.pass_("end")
    passed = [BORDERS.names, BORDERS.points, BORDERS.writers]
    os.write(out, b"\n" + json.dumps(passed).encode())
    return status


def run(order: dict) -> dict:
    """Fork the command off, and wait for its end."""
    out = os.open(order["out"], os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    heard, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 99
        LINE.descriptor = told
        try:
            status = child(order, out)
        except BaseException:
            os.write(out, traceback.format_exc().encode())
        finally:
            os._exit(status)
    os.close(told)
    while os.read(heard, 1):
        tell({"waiting": True})
    os.close(heard)
    _, status = os.waitpid(pid, 0)
    size = os.fstat(out).st_size
    said = os.pread(out, size, 0).decode()
    os.close(out)
    return {"status": os.waitstatus_to_exitcode(status), "said": said}


def tell(what: dict) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main_loop() -> None:
    for module in pkgutil.walk_packages(tugtool.__path__, "tugtool."):
        if "__main__" not in module.name:
            __import__(module.name)
    watch()
    for fault in sys.argv[1:]:
        FAULTS[fault]()
    for line in sys.stdin:
        tell(run(json.loads(line)))


if __name__ == "__main__":
    main_loop()
