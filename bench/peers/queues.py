"""Queues of a Python program: jobs through one worker, races, hand-over, a crash.

    python -m peers.queues rate NAME COUNT DIRECTORY
    python -m peers.queues put|take|keep|left NAME NUMBER DIRECTORY
    python -m peers.queues superseded NAME - DIRECTORY

Run by an interpreter that has the queue installed; prints one JSON value.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from peers.processes import GATE, READY


class Queue(NamedTuple):
    """The operations of a queue; `take` returns the argument of `finish`, or None if empty."""

    put: Callable[[int], object]
    take: Callable[[], Any]
    finish: Callable[[Any], object]
    #: Returns whether a job is known to be done, as far as the queue tells.
    is_done: Callable[[Any], bool] = lambda job: True
    #: Takes a job from its holder, if there is a way besides opening the queue.
    free: Callable[[Any], object] | None = None


def huey(directory: str) -> Queue:
    """SqliteHuey with fsync; a job is gone once it is fetched."""
    from huey import SqliteHuey

    app = SqliteHuey(filename=f"{directory}/huey.db", fsync=True)

    @app.task(name="job")
    def job(n: int) -> None:
        """Do nothing."""

    return Queue(job, app.dequeue, app.execute)


def litequeue(directory: str, synchronous: str = "normal") -> Queue:
    """litequeue with its defaults: WAL, synchronous=NORMAL."""
    from litequeue import LiteQueue

    queue = LiteQueue(f"{directory}/lite.db")
    queue.conn.execute(f"pragma synchronous = {synchronous}")

    def put(n: int) -> object:
        return queue.put(f"job {n}")

    def take() -> str | None:
        message = queue.pop()
        return message and message.message_id

    def is_done(job: str) -> bool:
        return bool(queue.get(job).status == 2)

    return Queue(put, take, queue.done, is_done, queue.retry)


def litequeue_full(directory: str) -> Queue:
    """litequeue, made as durable as ours."""
    return litequeue(directory, "full")


def persistqueue(directory: str) -> Queue:
    """SQLiteAckQueue: WAL and SQLite's default, synchronous=FULL."""
    from persistqueue import Empty, SQLiteAckQueue

    queue = SQLiteAckQueue(f"{directory}/persist", auto_commit=True)

    def take() -> Any:
        with contextlib.suppress(Empty):
            return queue.get(block=False, raw=True)

    def finish(job: dict[str, int]) -> object:
        return queue.ack(id=job["pqid"])

    def is_done(job: dict[str, int]) -> bool:
        statuses = {row["id"]: row["status"] for row in queue.queue()}
        return bool(statuses[job["pqid"]] == 5)

    return Queue(lambda n: queue.put(f"job {n}"), take, finish, is_done)


def tugtool(directory: str, count: int) -> Queue:
    """Ours: steps of a plan, with attempts, events, counts and a lease; synchronous=FULL."""
    from peers.ours import plan as plan_text
    from tugtool import state
    from tugtool.plan import parser
    from tugtool.state.claims import Request
    from tugtool.state.record import PlanCopy
    from tugtool.store import open_store

    plan = ".tugtool/tugplan-bench.md"
    store, copy = open_store(f"sqlite://{directory}/state.db"), PlanCopy(plan, "hash")
    parsed = parser.parse(plan_text(count, "Job {n}"))
    state.init(store, plan, parsed, text="", hash="hash")

    def take() -> dict[str, Any]:
        return state.claim(store, plan, Request("worker"), copy=copy)

    def finish(job: dict[str, Any]) -> object:
        step, attempt = job["anchor"], job["attempt"]
        return state.complete(store, plan, step, owner="worker", attempt=attempt, copy=copy)

    return Queue(lambda n: None, take, finish)


OPEN: dict[str, Callable[[str], Queue]] = {
    "huey": huey,
    "litequeue": litequeue,
    "litequeue, synchronous=FULL": litequeue_full,
    "persist-queue": persistqueue,
}


def rate(name: str, count: str, directory: str) -> dict[str, float]:
    """Return jobs per second and CPU microseconds per job, for one worker."""
    number = int(count)
    queue = tugtool(directory, number) if name == "tugtool" else OPEN[name](directory)
    for n in range(number):
        queue.put(n)
    begun, spent = time.perf_counter(), time.process_time()
    for _ in range(number):
        job = queue.take()
        assert job is not None
        queue.finish(job)
    spent = time.process_time() - spent
    return {"rate": number / (time.perf_counter() - begun), "cpu": spent / number * 1e6}


def put(name: str, number: str, directory: str) -> bool:
    """Put a job in at the same moment as others. Return whether that was acknowledged."""
    queue = OPEN[name](directory)
    _at_the_gate()
    queue.put(int(number))
    return True


def take(name: str, number: str, directory: str) -> bool:
    """Ask for a job at the same moment as others. Return whether it got one."""
    queue = OPEN[name](directory)
    _at_the_gate()
    return queue.take() is not None


def keep(name: str, number: str, directory: str) -> None:
    """Take a job and be killed."""
    assert OPEN[name](directory).take() is not None
    os.kill(os.getpid(), signal.SIGKILL)


def left(name: str, number: str, directory: str) -> int:
    """Return how many jobs can be taken."""
    queue, found = OPEN[name](directory), 0
    while queue.take() is not None:
        found += 1
    return found


def superseded(name: str, number: str, directory: str) -> dict[str, object]:
    """Let A take a job, hand it to B in the queue's own way, and let A finish it."""
    a = OPEN[name](directory)
    a.put(1)
    job = a.take()
    b = OPEN[name](directory)
    if a.free is not None:
        b.free(job)
    again = b.take()
    if again is None:
        return {"handed_over": False}
    a.finish(job)
    return {"handed_over": True, "accepted": b.is_done(again)}


def _at_the_gate() -> None:
    """Report that this process is ready, and wait for the start."""
    os.write(READY, b".")
    os.close(READY)
    os.read(GATE, 1)


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
