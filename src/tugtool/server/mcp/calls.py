"""The calls that are under way: in threads, cancelled on request, with signs of progress."""

from __future__ import annotations

import queue
import threading

from tugtool.server.mcp import protocol
from tugtool.system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Message = dict[str, Any]
    CarryOut = Callable[[Message, Callable[[], bool]], None]
    Write = Callable[[Message], None]


#: How often a caller that asked for it hears that its call goes on.
PROGRESS_SECONDS = 5.0
#: How long the end waits for a call that cannot be stopped, such as a commit.
_END_SECONDS = 30.0
#: Tools that only look; all others go one after the other.
_LOOKING = ("status", "show")


class RunningCall:
    """One call, from its arrival to its answer."""

    def __init__(self, message: Message) -> None:
        self.message, self.number = message, message.get("id")
        self.token = protocol.meta(_plain(message)).get("progressToken")
        self.begun = self.told = clock.ticks()
        self.cancelled = threading.Event()

    @property
    def name(self) -> str:
        """The tool, or the method."""
        params = _plain(self.message).get("params") or {}
        return str(params.get("name") or self.message.get("method"))[:60]

    @property
    def looks(self) -> bool:
        """True if it changes nothing."""
        return self.message.get("method") != "tools/call" or self.name in _LOOKING


def _plain(message: Message) -> Message:
    """The message with params that are an object; what is wrong is said when it is answered."""
    params = message.get("params")
    return message if isinstance(params, dict) else {**message, "params": {}}


class Calls:
    """Two threads with a queue each: for calls that look, and for those that write."""

    def __init__(self, carry_out: CarryOut, write: Write) -> None:
        self._carry_out, self._write = carry_out, write
        #: Held while a message is written.
        self.lock = threading.Lock()
        self._running: dict[int, RunningCall] = {}
        self._looks, self._writes = _Queue(), _Queue()
        self._threads = [
            threading.Thread(target=self._work, args=(each,), daemon=True)
            for each in (self._looks, self._writes)
        ]
        for thread in self._threads:
            thread.start()

    def add(self, message: Message) -> None:
        """Carry a call out as soon as its thread is free."""
        call = RunningCall(message)
        self._running[id(call)] = call
        (self._looks if call.looks else self._writes).put(call)

    def _work(self, waiting: _Queue) -> None:
        while (call := waiting.get()) is not None:
            if not call.cancelled.is_set():
                self._carry_out(call.message, call.cancelled.is_set)
            self._running.pop(id(call), None)

    def cancel(self, number: object) -> None:
        """Stop the call with that id; it gets no answer."""
        for call in list(self._running.values()):
            # "1" and 1 are two ids, and True is none.
            if protocol.is_id(number) and repr(number) == repr(call.number):
                call.cancelled.set()

    def wait_seconds(self, most: float) -> float:
        """How long nothing is to be told."""
        due = [each.told + PROGRESS_SECONDS - clock.ticks() for each in self._telling()]
        return max(0.0, min([most, *due]))

    def _telling(self) -> list[RunningCall]:
        return [each for each in list(self._running.values()) if protocol.is_id(each.token)]

    def tell_progress(self) -> None:
        """Tell each caller that asked for it how long its call has run."""
        for call in self._telling():
            now = clock.ticks()
            if now - call.told < PROGRESS_SECONDS or call.cancelled.is_set():
                continue
            call.told = now
            seconds = round(now - call.begun, 1)
            told = {"progressToken": call.token, "progress": seconds}
            told["message"] = f"{call.name}: {seconds:.0f} s"
            notice = {"jsonrpc": "2.0", "method": "notifications/progress", "params": told}
            self._write(notice)

    def end(self) -> None:
        """Stop calls that write, if they can be stopped; finish the others."""
        for call in list(self._running.values()):
            if not call.looks:
                call.cancelled.set()
        for waiting in (self._looks, self._writes):
            waiting.put(None)
        for thread in self._threads:
            thread.join(_END_SECONDS)


class _Queue(queue.SimpleQueue["RunningCall | None"]):
    """Calls that wait for a thread; None ends it."""
