"""One watcher: its topics, its bounded queue, and a topic as all its watchers see it."""

from __future__ import annotations

import asyncio
from collections import deque

from tugtool.system import clock, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from tugtool.server.hub import Hub
    from tugtool.server.tokens import Caller
    from tugtool.server.topics import Update


PING_SECONDS, RETRY_MILLISECONDS = 15, 2000
#: The changes of one topic that are kept.
_MOST_CHANGES, _CHANGES_BYTES = 1000, 2 << 20
#: What may wait for one watcher before it is reset; too many resets in a minute end it.
MOST_WAITING, WAITING_BYTES, MOST_RESETS, SLOW = 256, 1 << 20, 3, 4008


def message(kind: str, **fields: object) -> str:
    """Return one message, which is one JSON document."""
    return text.encode({"type": kind, **fields})


def now() -> str:
    """Return the time of this machine, for the watcher to compare with its own."""
    return clock.text(clock.system_milliseconds())


class TopicView:
    """A topic as it is now, and its last changes."""

    def __init__(self) -> None:
        self.data: Mapping[str, Any] | None = None
        self.seq = 0
        #: Grows with each change; the number of an event need not.
        self.version = 0
        self._text: tuple[int, str] = (-1, "")
        #: Number of the event, version, message.
        self.changes: deque[tuple[int, int, str]] = deque()
        self._bytes = 0
        #: The changes lead from the topic as of this event to the present.
        self.reaches = 0
        self.left_at: float | None = None

    def replace(self, topic: str, update: Update, seq: int) -> str | None:
        """Take an update. Return its message; None if the whole has to be sent."""
        before, self.data, self.seq = self.seq, update.data, seq
        self.version += 1
        if update.change is None:
            self.changes.clear()
            # A watcher at this very event may lack what changed with it.
            self._bytes, self.reaches = 0, seq + 1
            return None
        fields = {"from": before, "seq": seq, **update.change}
        said = message("delta", topic=topic, **fields)
        self.changes.append((seq, self.version, said))
        self._bytes += len(said)
        while len(self.changes) > _MOST_CHANGES or self._bytes > _CHANGES_BYTES:
            dropped = self.changes.popleft()
            self.reaches = dropped[0] + 1
            self._bytes -= len(dropped[2])
        return said

    def snapshot(self, topic: str) -> str:
        """Return the whole as a message, encoded once."""
        if self._text[0] != self.version:
            said = message("snapshot", topic=topic, seq=self.seq, data=self.data)
            self._text = self.version, said
        return self._text[1]


class Watcher:
    """One connection: its topics, and the messages that wait to be sent."""

    def __init__(self, hub: Hub, caller: Caller) -> None:
        self._hub, self.caller = hub, caller
        #: Topic -> the version of it that was sent.
        self.topics: dict[str, int] = {}
        #: Topic, its version, and the message; without a message the topic's snapshot is sent,
        #: with a reset before it if the third is a reason.
        self._waiting: deque[tuple[str, int, str, str]] = deque()
        self._bytes = 0
        self._ready = asyncio.Event()
        #: True while the connection's task waits for a message.
        self._is_idle = False
        self._resets: deque[float] = deque(maxlen=MOST_RESETS)
        #: False until all that was missed is sent: before that no message says where to go on.
        self.settled = False
        #: Topics whose first snapshot is not there yet.
        self._expected: set[str] = set()
        #: Set if the connection has to end: its close code.
        self.ends: int | None = None
        #: Sends a message at once, if the connection takes it; returns whether it did.
        self.send_now: Callable[[str], bool] = lambda _: False
        #: Stops a message on its way, which a watcher that does not read keeps waiting.
        self.stopped: Callable[[], object] = lambda: None
        #: When the last message was taken; one timer looks whether a ping is due.
        self._taken_at, self._is_ping_due = clock.ticks(), False
        self._timer: asyncio.TimerHandle | None = None

    def push(self, said: str, topic: str = "", version: int = 0) -> None:
        """Send a message at once if none waits; else add it, unless too many wait already."""
        idle = self._is_idle and not self._ready.is_set()
        # No task has to wake for it, which counts with thousands of watchers.
        if idle and self._is_new(topic, version) and self.send_now(said):
            self._taken_at = clock.ticks()
            return
        full = len(self._waiting) >= MOST_WAITING or self._bytes + len(said) > WAITING_BYTES
        if self._waiting and full:
            self._overflow()
            return
        self.add(said, topic, version)

    def add(self, said: str, topic: str = "", version: int = 0) -> None:
        """Add a message, however many wait: what a watcher missed is sent completely."""
        self._bytes += len(said)
        self._add((topic, version, said, ""))

    def expect(self, topic: str) -> None:
        """Remember that the topic's first snapshot is to come."""
        self._expected.add(topic)

    def drop(self, topic: str) -> bool:
        """Take a topic away. Return whether it was watched."""
        self._expected.discard(topic)
        return self.topics.pop(topic, None) is not None

    def push_snapshot(self, topic: str, reason: str = "") -> None:
        """Send the topic as it is when its turn comes."""
        self._add((topic, 0, "", reason))

    def cut(self, code: int, reason: str) -> None:
        """End the connection without what still waits to be sent."""
        self._waiting.clear()
        self._bytes = 0
        self.end(code, reason)

    def end(self, code: int, reason: str = "") -> None:
        """End the connection, with a word if the watcher reads."""
        if self.ends is None:
            self.ends = code
            if reason:
                self._add(("", 0, message("bye", retry_ms=RETRY_MILLISECONDS, reason=reason), ""))
            self._ready.set()

    def _add(self, item: tuple[str, int, str, str]) -> None:
        self._waiting.append(item)
        self._ready.set()

    def _overflow(self) -> None:
        """Drop what waits: the watcher is too slow, and begins again."""
        ticks = clock.ticks()
        self._waiting.clear()
        self._bytes = 0
        self._resets.append(ticks)
        if len(self._resets) == MOST_RESETS and ticks - self._resets[0] < 60:
            self.end(SLOW)
            self.stopped()
            return
        for topic in self.topics:
            self.push_snapshot(topic, "slow")

    async def next(self) -> list[str]:
        """Return the next messages; empty at the end of the connection."""
        while True:
            while self._waiting:
                found = self._taken(*self._waiting.popleft())
                if found:
                    self._taken_at = clock.ticks()
                    return found
            if self.ends is not None:
                return []
            if (self.settled or self._expected) and not self._is_ping_due:
                self._ready.clear()
                self._timer = self._timer or self._timer_for(PING_SECONDS)
                self._is_idle = True
                await self._ready.wait()
                self._is_idle = False
                continue
            self.settled = not self._expected
            self._is_ping_due, self._taken_at = False, clock.ticks()
            return [message("ping", seq=self._hub.seq, at=now())]

    def close(self) -> None:
        """End the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _timer_for(self, seconds: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, self._look_at_clock)

    def _look_at_clock(self) -> None:
        """Let a ping go out if no message did for so long; else look again later."""
        left = self._taken_at + PING_SECONDS - clock.ticks()
        self._is_ping_due = left <= 0
        if self._is_ping_due:
            self._ready.set()
        self._timer = self._timer_for(PING_SECONDS if left <= 0 else left)

    def _is_new(self, topic: str, version: int) -> bool:
        """False for what a later snapshot has already."""
        return not topic or (topic in self.topics and version > self.topics[topic])

    def _taken(self, topic: str, version: int, said: str, reason: str) -> list[str]:
        """Return what is to be sent of this; nothing if a later snapshot has it already."""
        self._bytes -= len(said)
        if said:
            return [said] if self._is_new(topic, version) else []
        if topic not in self.topics:
            return []
        found = []
        if reason:
            found = [message("reset", topic=topic, reason=reason)]
            self.settled = False
        view = self._hub.views.get(topic)
        if view is not None and view.data is not None:
            self.topics[topic] = view.version
            self._expected.discard(topic)
            found.append(view.snapshot(topic))
        return found
