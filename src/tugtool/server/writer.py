"""The one thread that writes: it takes what waits, and answers after it is stored."""

from __future__ import annotations

import asyncio
import queue
import threading

from tugtool.errors import TugError
from tugtool.system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from tugtool.server.work import Rendered
    from tugtool.store import Store
    from tugtool.workflow.workspace import Workspace


#: Other processes wait for the lock meanwhile.
_LONGEST_GROUP_SECONDS = 0.015


class Writer:
    """The one thread that writes; it takes what waits, up to a batch."""

    def __init__(self, base: Workspace, *, batch: int) -> None:
        self._base, self._batch = base, batch
        self._waiting: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    async def do(self, work: Callable[[Store], Rendered], *, together: bool = False) -> Rendered:
        """Let the thread do it. Return the answer after it is stored.

        `together`: it has several transactions, to be stored with one commit.
        """
        task = _Task(work, asyncio.get_running_loop(), together=together)
        self._waiting.put(task)
        reply = await task.future
        assert reply is not None
        return reply

    def _run(self) -> None:
        store = self._base.open_store()
        ends = False
        while not ends:
            batch = [self._waiting.get()]
            while len(batch) < self._batch and not self._waiting.empty():
                batch.append(self._waiting.get())
            ends = None in batch
            tasks = [task for task in batch if task is not None]
            while tasks:
                done = _store_together(store, tasks)
                for task in done:
                    task.answer()
                tasks = tasks[len(done) :]
        store.close()

    def close(self) -> None:
        """Do what waits, and end."""
        self._waiting.put(None)
        self._thread.join()


def _store_together(store: Store, tasks: list[_Task]) -> list[_Task]:
    """Do the first tasks and store them with one commit. Return them: now they may be answered."""
    if len(tasks) == 1 and not tasks[0].together:
        tasks[0].do(store)
        return tasks
    done: list[_Task] = []
    until = clock.ticks() + _LONGEST_GROUP_SECONDS
    try:
        with store.group():
            for task in tasks:
                task.do(store)
                done.append(task)
                if clock.ticks() > until:
                    break
    except TugError as error:
        # Nothing of the group is stored.
        for task in done:
            task.fail(error)
    return done or _failed_alone(store, tasks)


def _failed_alone(store: Store, tasks: list[_Task]) -> list[_Task]:
    """Do the first task by itself: no group could be begun, and its own error says why."""
    tasks[0].do(store)
    return tasks[:1]


class _Task:
    """Work for the writer, and the future that gets its answer."""

    def __init__(
        self,
        work: Callable[[Store], Rendered],
        loop: asyncio.AbstractEventLoop,
        *,
        together: bool = False,
    ) -> None:
        self._work, self._loop, self.together = work, loop, together
        self.future: asyncio.Future[Rendered | None] = loop.create_future()
        self._outcome: Rendered | BaseException | None = None

    def do(self, store: Store) -> None:
        """Do the work; its answer waits until it is stored."""
        try:
            self._outcome = self._work(store)
        except BaseException as error:
            self._outcome = error

    def fail(self, error: TugError) -> None:
        """Answer with an error: what was done is not stored."""
        self._outcome = error

    def answer(self) -> None:
        """Give the answer, then do what comes after it."""
        outcome = self._outcome
        self._loop.call_soon_threadsafe(self._settle, outcome)
        if outcome is not None and not isinstance(outcome, BaseException) and outcome.after:
            outcome.after()

    def _settle(self, outcome: Rendered | BaseException | None) -> None:
        if self.future.done():
            return
        if isinstance(outcome, BaseException):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)
