"""The hub: one tail for all watchers, and for each watcher a queue that is bounded.

All of it but the tail runs in the server's loop.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections import Counter, deque
from typing import NamedTuple

from tugtool import __version__
from tugtool.errors import TugError
from tugtool.errors.server import RoleTooSmall, TooMany
from tugtool.server.topics import MOST_EVENTS, Look, Tail, Update, key_of
from tugtool.server.watcher import PING_SECONDS, TopicView, Watcher, message, now
from tugtool.system import clock, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from tugtool.server.tokens import Caller
    from tugtool.workflow.workspace import Workspace


PROTOCOL = 1
#: The events that are kept, in bytes.
_RING_BYTES = 8 << 20
#: Events a second above which signs of life are left out, and above which all are.
_MANY, _TOO_MANY = 200, 1000
#: A topic without watchers is kept for so long: its watcher may come back.
_LINGER_SECONDS = 60.0
_MOST_TOPICS = 64
#: A watcher wakes in the turn after it gets a message, and sends it in the next.
_TURNS = 3
#: How often to look whether tokens still count; the close code if one does not, and how long its
#: watchers have to take the last word.
_TOKEN_SECONDS, _ENDED, _LAST_WORD_SECONDS = 1.0, 4001, 10.0
KINDS = ("overview", "review", "plan", "events")


class Since(NamedTuple):
    """Where a watcher stopped: an epoch and the number of an event."""

    epoch: str
    seq: int


class Outbox:
    """Messages that go out in one turn of the loop: those of a watcher with one write."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.WriteTransport, list[bytes]] = {}

    def add(self, transport: asyncio.WriteTransport, part: bytes) -> None:
        """Have it written in the next turn, before the task of its watcher can write."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._write)
        self._waiting.setdefault(transport, []).append(part)

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for transport, parts in waiting.items():
            transport.write(b"".join(parts))


class Hub:
    """The watchers of one server, and what they watch."""

    def __init__(
        self,
        base: Workspace,
        *,
        most: int = 500,
        most_each: int = 50,
        tail: type[Tail] = Tail,
        is_valid: Callable[[Caller], bool] = lambda _: True,
    ) -> None:
        self._most, self._most_each = most, most_each
        #: Who the token of this start belongs to.
        self._person = functools.cache(base.person)
        self._loop = asyncio.get_running_loop()
        #: Whether a caller's token still counts.
        self._is_valid = is_valid
        self._callers: Counter[Caller] = Counter()
        self.watchers: set[Watcher] = set()
        self.views: dict[str, TopicView] = {}
        self.epoch, self.seq = "", 0
        #: Number, plan and text of the last events.
        self._ring: deque[tuple[int, str, str]] = deque()
        self._ring_bytes = 0
        self.outbox = Outbox()
        self._first = asyncio.Event()
        self._looked_at = clock.ticks()
        self._tail = tail(base, self._hand_over)
        self._timer = self._loop.call_later(_TOKEN_SECONDS, self._look_at_tokens)

    def _hand_over(self, look: Look) -> threading.Event:
        """Send on what the tail found. Return what is set when it was sent."""
        delivered = threading.Event()
        self._loop.call_soon_threadsafe(self._take_and_tell, look, delivered)
        return delivered

    def _take_and_tell(self, look: Look, delivered: threading.Event) -> None:
        self._take(look)
        self._after_turns(_TURNS, delivered)

    def _after_turns(self, left: int, delivered: threading.Event) -> None:
        """Tell it after so many turns of the loop, in which every watcher has had its own."""
        if left and self.watchers:
            self._loop.call_soon(self._after_turns, left - 1, delivered)
        else:
            delivered.set()

    # -- watchers ----------------------------------------------------------------------

    async def join(self, caller: Caller, topics: Iterable[str], since: Since | None) -> Watcher:
        """Return a new watcher of these topics, after the first look at the record."""
        own = sum(each.caller.name == caller.name for each in self.watchers)
        if len(self.watchers) >= self._most or own >= self._most_each:
            raise TooMany("too many streams are open", retry_seconds=10)
        watcher = Watcher(self, caller)
        self.watchers.add(watcher)
        self._callers[caller] += 1
        try:
            for topic in topics:
                refuse_topic(caller, topic)
            self._wake()
            await self._first.wait()
            watcher.push(self._hello(caller))
            for topic in topics:
                self.watch(watcher, topic, since)
        except BaseException:
            self.leave(watcher)
            raise
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Forget a watcher."""
        watcher.close()
        if watcher in self.watchers:
            self.watchers.remove(watcher)
            self._callers[watcher.caller] -= 1
            self._callers += Counter()  # without those who have left
        self._wake()

    def _look_at_tokens(self) -> None:
        self._timer = self._loop.call_later(_TOKEN_SECONDS, self._look_at_tokens)
        self._end_invalid()

    def _end_invalid(self) -> None:
        """End the streams of tokens that were revoked or have expired."""
        over = {caller for caller in self._callers if not self._is_valid(caller)}
        for watcher in [each for each in self.watchers if over and each.caller in over]:
            self.leave(watcher)
            watcher.cut(_ENDED, "the token is not valid any more")
            # Also if it does not read: then no word reaches it.
            self._loop.call_later(_LAST_WORD_SECONDS, watcher.stopped)

    def watch(self, watcher: Watcher, topic: str, since: Since | None = None) -> None:
        """Add a topic, from where the watcher stopped if that is known, or else from now on."""
        refuse_topic(watcher.caller, topic)
        watcher.topics[topic] = -1
        if topic.partition(":")[0] == "events":
            self._resume_events(watcher, topic, since)
            return
        view = self.views.setdefault(topic, TopicView())
        self._wake()
        if view.data is None:
            watcher.expect(topic)
            return
        reason = self._gap(since, view.reaches)
        if since is None or reason:
            watcher.push_snapshot(topic, reason)
            return
        # Those of the last event too: the watcher may have got only some of its messages.
        watcher.topics[topic] = 0
        for seq, version, said in view.changes:
            if seq >= since.seq:
                watcher.add(said, topic, version)

    def unwatch(self, watcher: Watcher, topic: str) -> None:
        """Take a topic away."""
        watcher.drop(topic)
        self._wake()

    def _gap(self, since: Since | None, reaches: int) -> str:
        """Return why a watcher cannot go on where it stopped; empty if it can."""
        if since is None:
            return ""
        if since.epoch != self.epoch:
            return "restored"
        return "" if reaches <= since.seq <= self.seq else "behind"

    def _resume_events(self, watcher: Watcher, topic: str, since: Since | None) -> None:
        watcher.topics[topic] = 0
        reaches = self._ring[0][0] - 1 if self._ring else self.seq
        reason = self._gap(since, reaches)
        if reason:
            watcher.push_snapshot(topic, reason)
        elif since is not None:
            missed = [each for each in self._ring if each[0] > since.seq]
            said = self._events(topic, missed, 0)
            if said:
                watcher.add(said)

    def _wake(self) -> None:
        """Tell the tail what to render; without watchers it sleeps."""
        ticks = clock.ticks()
        watched = {topic for each in self.watchers for topic in each.topics}
        for topic, view in [*self.views.items()]:
            view.left_at = None if topic in watched else view.left_at or ticks
            late = view.left_at is not None and ticks - view.left_at > _LINGER_SECONDS
            if late or (view.left_at is not None and len(self.views) > _MOST_TOPICS):
                del self.views[topic]
        new = self.views.keys() - self._tail.wanted.keys()
        self._tail.wanted = self.views.copy()
        if new:
            self._tail.hurry.set()
        if self.watchers:
            self._tail.awake.set()
        else:
            self._tail.awake.clear()

    def _hello(self, caller: Caller) -> str:
        about = {"epoch": self.epoch, "seq": self.seq, "at": now()}
        name = caller.name or self._person()
        who = {"name": name, "role": caller.role, "ping_seconds": PING_SECONDS}
        return message("hello", protocol=PROTOCOL, server=__version__, **about, **who)

    # -- what the tail found -----------------------------------------------------------

    def _take(self, look: Look) -> None:
        """Send on what is new: first events, then changes, so that no change can be missed."""
        self._end_invalid()
        ticks = clock.ticks()
        seconds, self._looked_at = max(ticks - self._looked_at, 0.001), ticks
        replaced = self._first.is_set() and look.epoch != self.epoch
        self.epoch, self.seq = look.epoch, look.seq
        if look.fresh:
            self._ring.clear()
            self._ring_bytes = 0
        new = [(e["seq"], str(e["plan_path"]), text.encode(e)) for e in look.events]
        self._remember(new)
        again = "restored" if replaced else "behind" if look.fresh and self._first.is_set() else ""
        if again:
            self._begin_again(again)
        elif new and not look.fresh:
            self._send_events(look, new, len(new) / seconds)
        for update in look.updates:
            self._change(update, look.seq, again)
        for topic, error in look.refused.items():
            self._refuse(topic, error)
        self._first.set()

    def _remember(self, new: list[tuple[int, str, str]]) -> None:
        self._ring.extend(new)
        self._ring_bytes += sum(len(each[2]) for each in new)
        while len(self._ring) > MOST_EVENTS or self._ring_bytes > _RING_BYTES:
            self._ring_bytes -= len(self._ring.popleft()[2])

    def _begin_again(self, reason: str) -> None:
        for watcher in self.watchers:
            if reason == "restored":
                watcher.push(self._hello(watcher.caller))
            for topic in watcher.topics:
                if topic.partition(":")[0] == "events":
                    watcher.push_snapshot(topic, reason)

    def _send_events(self, look: Look, new: list[tuple[int, str, str]], rate: float) -> None:
        topics = {topic for each in self.watchers for topic in each.topics}
        behind = rate > _TOO_MANY and len(new) > _MANY
        few = collapsed(look.events, new) if rate > _MANY and len(new) > 10 else new
        kept = {*few}
        for topic in topics:
            if topic.partition(":")[0] != "events":
                continue
            watchers = [each for each in self.watchers if topic in each.topics]
            plan = key_of(topic)
            left = sum(not plan or each[1] == plan for each in new if each not in kept)
            said = "" if behind else self._events(topic, few, left)
            for watcher in watchers:
                if behind:
                    watcher.push_snapshot(topic, "behind")
                elif said:
                    watcher.push(said)

    def _events(self, topic: str, events: list[tuple[int, str, str]], collapsed: int) -> str:
        """Return the message with those events that are of the topic; empty if there are none."""
        plan = key_of(topic)
        texts = [each[2] for each in events if not plan or each[1] == plan]
        if not texts and not collapsed:
            return ""
        head = message("events", topic=topic, seq=self.seq, collapsed=collapsed)
        return f'{head[:-1]}, "events": [{", ".join(texts)}]}}'

    def _change(self, update: Update, seq: int, again: str) -> None:
        topic = update.topic
        view = self.views.get(topic)
        if view is None or view is not update.asked:
            return  # Of a topic that was dropped meanwhile.
        is_first = view.data is None
        said = view.replace(topic, update, seq)
        reason = "" if is_first else again or update.reason
        for watcher in self.watchers:
            if topic not in watcher.topics:
                continue
            if said is None:
                watcher.push_snapshot(topic, reason)
            else:
                watcher.push(said, topic, view.version)

    def _refuse(self, topic: str, error: TugError) -> None:
        self.views.pop(topic, None)
        said = message("refused", topic=topic, code=error.code, message=str(error))
        for watcher in self.watchers:
            if watcher.drop(topic):
                watcher.push(said)
        self._wake()

    def close(self, reason: str = "the server stops") -> None:
        """Tell all watchers to come back later."""
        for watcher in self.watchers:
            watcher.end(1012, reason)

    def end(self) -> None:
        """End the tail."""
        self._timer.cancel()
        self._tail.close()


def collapsed(events: list[Any], new: list[tuple[int, str, str]]) -> list[tuple[int, str, str]]:
    """Leave out signs of life, and all but the last update of each step."""
    last = {(e["plan_path"], e["step_anchor"]): e["seq"] for e in events if e["kind"] == "update"}
    small = ("heartbeat", "update")
    kept = {e["seq"] for e in events if e["kind"] not in small} | {*last.values()}
    return [each for each in new if each[0] in kept]


def refuse_topic(caller: Caller, topic: str) -> None:
    """Refuse a topic that does not exist, or that the token is not for."""
    from tugtool import errors

    kind, separator, plan = topic.partition(":")
    whole = kind in ("overview", "review") and not separator
    if kind not in KINDS or not (whole or kind == "events" or plan) or (separator and not plan):
        known = "overview, review, plan:PLAN, events and events:PLAN"
        raise errors.Usage(f"{topic[:100]} is not a topic; there are {known}")
    if caller.plan is not None and key_of(topic) != caller.plan:
        role = f"{caller.role} of {errors.plan_name(caller.plan)}"
        raise RoleTooSmall(f"the topic {topic}", role=role, needs="another token")
