"""Jobs of procrastinate on a PostgreSQL server, taken by processes that do nothing with them.

Run by `postgres.py` with an interpreter that has procrastinate; prints one JSON value.

    python bench/jobs.py URL WORKERS SECONDS
"""

import asyncio
import contextlib
import json
import logging
import multiprocessing
import sys
import time
from multiprocessing.synchronize import Barrier
from typing import Any

import psycopg
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector
from procrastinate.exceptions import ConnectorException

#: More than any run can carry out.
JOBS = 8000
#: Not counted, as in `crowd.py`: new connections, and workers that say that they are there.
WARM_SECONDS = 2.0
COUNT = "select count(*) from procrastinate_jobs where status = 'succeeded'"


def _job(n: int) -> None:
    """Do nothing."""


def _app(connector: Any) -> tuple[App, Any]:
    app = App(connector=connector)
    return app, app.task(name="job")(_job)


def prepare(url: str) -> None:
    """Put all jobs in, in the tables of its own."""
    app, task = _app(SyncPsycopgConnector(conninfo=url))
    with app.open():
        with contextlib.suppress(ConnectorException):
            app.schema_manager.apply_schema()
        app.connector.execute_query("truncate procrastinate_jobs cascade")
        task.batch_defer(*({"n": n} for n in range(JOBS)))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")


def worker(url: str, seconds: float, gate: Barrier) -> None:
    """Carry out jobs for some seconds with the tool's own worker, one at a time."""
    logging.disable(logging.CRITICAL)

    async def run() -> None:
        app, _ = _app(PsycopgConnector(conninfo=url, min_size=1, max_size=2))
        async with app.open_async():
            gate.wait()
            working = app.run_worker_async(concurrency=1, install_signal_handlers=False)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(working, WARM_SECONDS + seconds + 0.5)

    asyncio.run(run())


def main() -> None:
    url, workers, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    prepare(url)
    fork = multiprocessing.get_context("fork")
    gate = fork.Barrier(workers + 1)
    children = [fork.Process(target=worker, args=(url, seconds, gate)) for _ in range(workers)]
    for child in children:
        child.start()
    with psycopg.connect(url, autocommit=True) as connection:
        gate.wait()
        found = []
        for pause in (WARM_SECONDS, seconds):
            time.sleep(pause)  # what is measured: how many in this time
            (done,) = connection.execute(COUNT).fetchone() or (0,)
            found.append((done, time.monotonic()))
    for child in children:
        child.join()
    (before, begun), (after, ended) = found
    print(json.dumps({"rate": (after - before) / (ended - begun)}))


if __name__ == "__main__":
    main()
