"""The thread that writes: it takes what waits, and answers after it is stored.

A state in PostgreSQL has several such threads, each with its connection, and each operation has a
commit of its own: there, plans do not wait for each other.
"""

from __future__ import annotations

import asyncio
import queue
import threading

from tugtool.errors import TugError
from tugtool.system import clock
from tugtool.workflow.shared_record import Serving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tugtool.server.served import Rendered
    from tugtool.workflow.workspace import Workspace


#: After so long a group ends if another process waits for the lock; and at last in any case.
_SHORT_GROUP_SECONDS, _LONGEST_GROUP_SECONDS = 0.015, 0.1
#: Several writers come at the same time: while one comes every so often, the first waits for the
#: others, and so long at most.
_GATHER_SECONDS, _MOST_GATHERED_SECONDS = 0.001, 0.01


class Writer:
    """The thread that writes; it takes what waits, up to a batch.

    The loop gathers a batch while the thread is busy, and hands it over as a whole: between two
    batches the thread wakes once, and the loop does not compete with it for the interpreter.
    """

    def __init__(self, base: Workspace, *, batch: int, threads: int = 1) -> None:
        self._base, self._batch = base, batch
        self._waiting: queue.SimpleQueue[list[_Task] | None] = queue.SimpleQueue()
        #: Of the loop: what the next batch has and how many it may get; whether one is at work.
        self._gathered: list[_Task] = []
        self._expected, self._is_busy = 1, False
        self._timer: asyncio.TimerHandle | None = None
        self._threads = [
            threading.Thread(target=self._run, name="writer", daemon=True) for _ in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    async def do(self, work: Callable[[Serving], Rendered], *, together: bool = False) -> Rendered:
        """Let the thread do it. Return the answer after it is stored.

        `together`: it has several transactions, to be stored with one commit.
        """
        loop = asyncio.get_running_loop()
        task = _Task(work, loop, together=together)
        if self._batch == 1:
            self._waiting.put([task])
        else:
            self._gathered.append(task)
            if not self._is_busy:
                self._hand_over_or_wait(loop)
        reply = await task.future
        assert reply is not None
        return reply

    def _hand_over_or_wait(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand the batch over if it has as many as can be expected; else wait a moment for more.

        Those who were answered together ask again one after the other: without that moment the
        first would have a commit of its own.
        """
        if len(self._gathered) >= min(self._expected, self._batch):
            self._hand_over()
        elif self._timer is None:
            self._wait(loop, clock.ticks() + _MOST_GATHERED_SECONDS)

    def _wait(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
        seen = len(self._gathered)
        self._timer = loop.call_later(_GATHER_SECONDS, self._look_again, loop, seen, until)

    def _look_again(self, loop: asyncio.AbstractEventLoop, seen: int, until: float) -> None:
        """Hand the batch over if no more have come."""
        if len(self._gathered) == seen or clock.ticks() >= until:
            self._hand_over()
        else:
            self._wait(loop, until)

    def _hand_over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._gathered = self._gathered[: self._batch], self._gathered[self._batch :]
        self._expected, self._is_busy = len(batch), True
        self._waiting.put(batch)

    def _run(self) -> None:
        serving = Serving(self._base)
        while (tasks := self._waiting.get()) is not None:
            while tasks:
                done = _store_together(serving, tasks)
                tasks = tasks[len(done) :]
                self._answer(done, is_last=not tasks)
        serving.store.close()

    def _answer(self, done: list[_Task], *, is_last: bool) -> None:
        """Give the answers, all at once; then do what comes after each."""
        # One call for all, which wakes the loop once.
        done[0].loop.call_soon_threadsafe(self._settle, done, is_last)
        for task in done:
            task.follow_up()

    def _settle(self, done: list[_Task], is_last: bool) -> None:
        for task in done:
            task.settle()
        if is_last and self._batch > 1:
            self._is_busy = False
            # Those who were answered may ask again.
            self._expected += len(self._gathered)
            if self._gathered:
                self._hand_over_or_wait(done[0].loop)

    def close(self) -> None:
        """Do what waits, and end."""
        while self._gathered:
            self._hand_over()
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()


def _store_together(serving: Serving, tasks: list[_Task]) -> list[_Task]:
    """Do the first tasks and store them with one commit. Return them: now they may be answered."""
    if len(tasks) == 1 and not tasks[0].together:
        tasks[0].do(serving)
        return tasks
    done: list[_Task] = []
    begun = clock.ticks()
    try:
        with serving.store.group() as group:
            for task in tasks:
                task.do(serving)
                done.append(task)
                if _is_long_enough(group, clock.ticks() - begun):
                    break
    except TugError as error:
        # Nothing of the group is stored.
        for task in done:
            task.fail(error)
    return done or _failed_alone(serving, tasks)


def _is_long_enough(group: Any, seconds: float) -> bool:
    """True for a group that has lasted so long that it has to end."""
    if seconds < _SHORT_GROUP_SECONDS:
        return False
    return seconds >= _LONGEST_GROUP_SECONDS or group is None or group.is_awaited()


def _failed_alone(serving: Serving, tasks: list[_Task]) -> list[_Task]:
    """Do the first task by itself: no group could be begun, and its own error says why."""
    tasks[0].do(serving)
    return tasks[:1]


class _Task:
    """Work for the writer, and the future that gets its answer."""

    def __init__(
        self,
        work: Callable[[Serving], Rendered],
        loop: asyncio.AbstractEventLoop,
        *,
        together: bool = False,
    ) -> None:
        self._work, self.loop, self.together = work, loop, together
        self.future: asyncio.Future[Rendered | None] = loop.create_future()
        self._outcome: Rendered | BaseException | None = None

    def do(self, serving: Serving) -> None:
        """Do the work; its answer waits until it is stored."""
        try:
            self._outcome = self._work(serving)
        except BaseException as error:
            self._outcome = error

    def fail(self, error: TugError) -> None:
        """Answer with an error: what was done is not stored."""
        self._outcome = error

    def follow_up(self) -> None:
        """Do what comes after the answer."""
        outcome = self._outcome
        if outcome is not None and not isinstance(outcome, BaseException) and outcome.after:
            outcome.after()

    def settle(self) -> None:
        """Give the answer, in the loop."""
        if self.future.done():
            return
        if isinstance(self._outcome, BaseException):
            self.future.set_exception(self._outcome)
        else:
            self.future.set_result(self._outcome)
