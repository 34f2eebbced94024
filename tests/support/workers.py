"""What the processes of the race tests do. Run as a script: `workers.py FUNCTION JSON`.

Each says "ready", waits at a gate until all are, and then prints one JSON document. The
gate is a pipe that nobody writes to: it opens for all at once when its last writer is gone.
"""

import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from support import postgres_faults
from tugtool import state
from tugtool.errors import TugError
from tugtool.state.claims import Request
from tugtool.state.record import PlanCopy
from tugtool.store import open_store, postgres, sql
from tugtool.store import sqlite as engine
from tugtool.store.postgres import create as tables
from tugtool.store.sqlite import file
from tugtool.system import lock

PLAN = ".tugtool/tugplan-race.md"
COPY = PlanCopy("race", "hash")


def no_queue() -> None:
    """A fault to plant: everybody goes straight to SQLite; of PostgreSQL nobody asks the lock."""
    lock.FileLock.enter = lock.FileLock.leave = lambda self, **how: None
    postgres_faults.no_lock()


def plain_begin_without_queue() -> None:
    """A fault to plant: writers begin as readers, and nothing but SQLite's waiting is left."""
    no_queue()
    _rewrite({"begin immediate": "begin"})


def no_transaction() -> None:
    """A fault to plant: every statement is a transaction of its own, and nobody queues."""
    no_queue()
    _rewrite({"begin immediate": "select 1", "commit": "select 1", "rollback": "select 1"})
    postgres_faults.no_transaction()


def _rewrite(words: dict[str, str]) -> None:
    def execute(self: sqlite3.Connection, text: str, *values: object) -> sqlite3.Cursor:
        return sqlite3.Connection.execute(self, words.get(text, text), *values)

    _connect_with(execute)


def _connect_with(execute: Callable[..., sqlite3.Cursor]) -> None:
    class Faulty(sqlite3.Connection):
        pass

    Faulty.execute = execute
    file.connect = lambda *words, **options: sqlite3.connect(*words, factory=Faulty, **options)


FAULTS = {
    "no lock for tables": postgres_faults.no_lock_for_tables,
    "no queue": no_queue,
    "plain begin, no queue": plain_begin_without_queue,
    "no transaction": no_transaction,
}


def claim_all(url: str, owner: str, gate: Callable[[], None]) -> list[str]:
    """Claim until nothing is left, with a new owner each time; what was claimed."""
    store = open_store(url, busy_seconds=30)
    got: list[str] = []
    gate()
    while True:
        answer = state.claim(store, PLAN, Request(f"{owner}-{len(got)}"), copy=COPY)
        if not answer["claimed"]:
            return got
        got.append(str(answer["anchor"]))


def hold(url: str, log: str, turns: int, gate: Callable[[], None]) -> dict[str, object]:
    """Hold the lock for 2 ms until all together had so many turns; how often, the longest wait.

    A wait is as long as the turns of others meanwhile: a slow machine makes each one longer, and
    none more of them.
    """
    store = open_store(url)
    count, longest, errors = 0, 0, []
    # One byte for each turn, written by whoever has it.
    with open(log, "ab", buffering=0) as file:
        gate()
        while (asked := os.fstat(file.fileno()).st_size) < turns:
            try:
                with store.write(PLAN) as tx:
                    # Also where nothing is asked for before the first statement.
                    assert tx.now
                    longest = max(longest, os.fstat(file.fileno()).st_size - asked)
                    file.write(b".")
                    tx.run(sql.SET_PAUSED, paused_at=None)
                    time.sleep(0.002)  # the work that the promise of fairness speaks of
                count += 1
            except Exception as error:
                errors.append(str(error))
    return {"count": count, "longest": longest, "errors": errors}


def create(url: str, gate: Callable[[], None]) -> str:
    """Make the database; what went wrong."""
    store = open_store(url, busy_seconds=60)
    gate()
    try:
        if isinstance(store, postgres.PostgresStore):
            tables.make(store)
        store.create()
    except Exception as error:
        return str(error)
    return ""


def trace(url: str, rounds: int, gate: Callable[[], None]) -> list[tuple[int, int, str]]:
    """Commit and close again and again; when each began and ended."""
    spans: list[tuple[int, int, str]] = []
    before = file.connect

    class Traced(sqlite3.Connection):
        def execute(self, text: str, *values: object) -> sqlite3.Cursor:
            begun = time.monotonic_ns()
            try:
                return super().execute(text, *values)
            finally:
                if text == "commit":
                    spans.append((begun, time.monotonic_ns(), "commit"))

        def close(self) -> None:
            begun = time.monotonic_ns()
            super().close()
            spans.append((begun, time.monotonic_ns(), "close"))

    def connect(name: str, **options: object) -> sqlite3.Connection:
        reading = name.endswith("mode=ro")
        return before(name, **options) if reading else before(name, factory=Traced, **options)

    file.connect = connect
    gate()
    for _ in range(rounds):
        store = open_store(url, busy_seconds=30)
        with store.write(PLAN) as tx:
            tx.run(sql.SET_PAUSED, paused_at=None)
        store.close()
    return spans


def leave(url: str, count: int, longest: int, gate: Callable[[], None]) -> int:
    """Claim as commands do, each in a process that leaves without closing; the log's length."""
    gate()
    engine.LONG_LOG_BYTES = longest or engine.LONG_LOG_BYTES
    for n in range(count):
        pid = os.fork()
        if pid == 0:
            state.claim(open_store(url), PLAN, Request(f"w{n}"), copy=COPY)
            os._exit(0)
        assert os.waitpid(pid, 0) == (pid, 0)
    return os.stat(f"{url.removeprefix('sqlite://')}-wal").st_size


def carry_on(
    url: str, copies: str, log: str, hash: str, owner: str, gate: Callable[[], None]
) -> int:
    """Claim and complete as commands do, each in a process of its own, until one is refused."""
    gate()
    for n in range(10**6):
        pid = os.fork()
        if pid == 0:
            os._exit(_step(url, copies, log, PlanCopy("race", hash), f"{owner}-{n}"))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            return status
    return 0


def _step(url: str, copies: str, log: str, copy: PlanCopy, owner: str) -> int:
    """One step, written down once it is acknowledged; 0, or why it is over."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    store = open_store(url, busy_seconds=30, copies=copies)
    try:
        answer = state.claim(store, PLAN, Request(owner), copy=copy)
        if not answer["claimed"]:
            return 9
        anchor, attempt = str(answer["anchor"]), int(str(answer["attempt"]))
        state.complete(store, PLAN, anchor, owner=owner, copy=copy, attempt=attempt)
        os.write(out, f"{anchor}\n".encode())
        if store.back_up() is not None:
            # It says so where the database went away between the completion and the backup.
            assert not os.path.exists(url.removeprefix("sqlite://"))
            return 46
    except TugError as refusal:
        return int(refusal.code[1:])
    return 0


def back_up(url: str, copies: str, gate: Callable[[], None]) -> str | None:
    """Make a backup at the same moment as others."""
    store = open_store(url, copies=copies)
    gate()
    return store.back_up()


#: What changes files: before each of them the power may go.
STEPS = ("chmod", "fsync", "link", "mkdir", "rename", "unlink")


def die(url: str, copies: str, what: str, at: int, gate: Callable[[], None]) -> str:
    """Back up or restore, and be killed just before the so-manieth change of a file."""
    left = [at]

    def counted(change: Callable[..., object]) -> Callable[..., object]:
        def dying(*words: object, **options: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return change(*words, **options)

        return dying

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    gate()
    store = open_store(url, copies=copies)
    return str(store.back_up() if what == "back up" else state.restore(store)["restored"])


def hold_until_told(url: str, gate: Callable[[], None]) -> str:
    """Keep a write transaction open from the gate until standard input ends."""
    gate()
    with open_store(url).write(PLAN) as tx:
        tx.run(sql.SET_PAUSED, paused_at=tx.now)
        print(json.dumps("inside"), flush=True)
        sys.stdin.read()
    return "done"


def foreign(path: str, gate: Callable[[], None]) -> str:
    """Another program: hold SQLite's own lock, without queueing, until standard input ends."""
    gate()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("begin immediate")
    print(json.dumps("inside"), flush=True)
    sys.stdin.read()
    connection.execute("rollback")
    return "done"


def main() -> None:
    """Run one of the functions above with the JSON object of its arguments."""
    name, arguments = sys.argv[1], json.loads(sys.argv[2])
    gate, fault = arguments.pop("gate"), arguments.pop("fault")
    if fault:
        FAULTS[fault]()

    def wait() -> None:
        print("ready", flush=True)
        os.read(gate, 1)

    result = globals()[name](**arguments, gate=wait)
    with suppress(BrokenPipeError):
        print(json.dumps(result), flush=True)
    # As the command does: no destructor closes anything outside the queue.
    os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main()
