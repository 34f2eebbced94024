"""The topics of watchers, read in a thread of its own: events, and objects that changed.

Nothing here knows what an event means: a topic is rendered again, and compared with the last time.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from tugtool.errors import TugError
from tugtool.server.served import ServedWorkspace
from tugtool.server.tokens import Caller
from tugtool.state import views
from tugtool.system import clock
from tugtool.workflow import overview, review, sentences, transcripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from tugtool.workflow.workspace import Workspace

    Data = Mapping[str, Any]


#: Events that are kept for watchers who come back.
MOST_EVENTS = 10_000
#: Leases run out and processes end without an event.
_AGAIN_SECONDS = 5.0
#: A look costs at most a tenth of one processor.
_REST_TIMES, _SHORTEST_REST, _LONGEST_REST = 10, 0.05, 2.0
#: For a database that is away, or is being replaced.
_RETRY_SECONDS = 0.25
#: Lists of a topic whose objects are sent one by one: the names that identify an object.
_KEYS: dict[str, dict[str, tuple[str, ...]]] = {
    "plan": {"steps": ("anchor",), "checklist_items": ("step_anchor", "kind", "ordinal")},
    "overview": {"plans": ("plan_path",), "dashes": ("name",), "worktrees": ("path",)},
    "review": {},
}
#: They change all the time, and alone are not worth a message.
_RUNNING = ("as_of", "elapsed_seconds")


class Update(NamedTuple):
    """A topic as it is now, and how it differs from the last time."""

    topic: str
    data: Data
    #: `set` and `gone`; None if the whole has to be sent.
    change: Data | None
    #: Why the whole is sent again.
    reason: str = ""
    #: What asked for it: a topic that was dropped and is wanted again begins anew.
    asked: object = None


class Seen(NamedTuple):
    """A topic as it was rendered last: for whom, when, what."""

    asked: object
    at: float
    data: Data | None


_NEVER = Seen(None, 0.0, None)


class Look(NamedTuple):
    """The findings of one look at the record."""

    epoch: str
    seq: int
    at: str
    #: The new events; or, if `fresh`, the last ones of the log.
    events: list[Data]
    fresh: bool
    updates: list[Update]
    #: Topics that do not exist (any more), and why.
    refused: dict[str, TugError]


def key_of(topic: str) -> str:
    """The key of a topic's plan, which may be named by its slug; empty if it is of none."""
    name = topic.partition(":")[2]
    whole = not name or "/" in name or name.endswith(".md")
    return name if whole else f".tugtool/tugplan-{name}.md"


def difference(topic: str, old: Data, new: Data) -> Data | None:
    """Return what to set and what is gone; None if the order of objects changed too."""
    kind = topic.partition(":")[0]
    change: dict[str, Any] = {"set": {}, "gone": {}}
    fields = [_fields(kind, old), _fields(kind, new)]
    if any(fields[0].get(name) != value for name, value in fields[1].items() if _counts(name)):
        change["set"][kind] = fields[1]
    for name, key in _KEYS[kind].items():
        before, after = _by_key(old[name], key), _by_key(new[name], key)
        gone = [each for each in before if each not in after]
        kept = [each for each in before if each in after]
        added = [each for each in after if each not in before]
        if [*kept, *added] != [*after]:
            return None
        changed = [each for at, each in after.items() if before.get(at) != each]
        change["set"] |= {name: changed} if changed else {}
        change["gone"] |= {name: [list(each) for each in gone]} if gone else {}
    return change


def _counts(name: str) -> bool:
    return name not in _RUNNING


def _fields(kind: str, data: Data) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in _KEYS[kind]}


def _by_key(objects: Iterable[Data], key: tuple[str, ...]) -> dict[tuple[object, ...], Data]:
    return {tuple(each[name] for name in key): each for each in objects}


class Tail:
    """Looks at the record while there are watchers, and hands on what it finds."""

    def __init__(self, base: Workspace, found: Callable[[Look], threading.Event]) -> None:
        self._base, self._found = base, found
        #: Set when the findings of the last look are on their way to all watchers.
        self._delivered = threading.Event()
        #: Topics to render and what asks for each, replaced as a whole by the watchers' thread.
        self.wanted: Mapping[str, object] = {}
        self.awake = threading.Event()
        #: Ends a rest: a watcher waits for a topic that was not rendered yet.
        self.hurry = threading.Event()
        self._ended = threading.Event()
        self._mark: tuple[str, int] | None = None
        self._seen: dict[str, Seen] = {}
        self._viewers: dict[str, overview.Viewer] = {}
        self._thread = threading.Thread(target=self._run, name="tail", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self.awake.set()
        self.hurry.set()
        # The loop waits for this thread now, and delivers nothing more.
        self._delivered.set()
        self._thread.join()

    def _run(self) -> None:
        space = ServedWorkspace(self._base, self._base.open_store(), Caller("", "viewer"), None)
        changed, listens = True, False
        while not self._ended.is_set():
            self.awake.wait()
            self.hurry.clear()
            begun = clock.ticks()
            try:
                if not listens and space.store.exists():
                    # Before the first look, so that no commit after it is missed.
                    space.store.wait_for_change(0)
                    changed = listens = True
                rest = 0.0
                if changed or self._is_due():
                    look = self.look(space)
                    rest = (clock.ticks() - begun) * _REST_TIMES
                    rest = max(rest, self._deliver(look))
                if not self._ended.is_set():
                    self.hurry.wait(min(max(rest, _SHORTEST_REST), _LONGEST_REST))
                changed = space.store.exists() and space.store.wait_for_change(_SHORTEST_REST)
            except TugError:
                changed = True
                self._ended.wait(_RETRY_SECONDS)
        space.store.close()

    def _deliver(self, look: Look) -> float:
        """Hand the findings on. Return how long it took until all watchers had them sent.

        With thousands of watchers that takes long, and events meanwhile go with the next message.
        """
        begun = clock.ticks()
        self._delivered = self._found(look)
        if not self._ended.is_set():
            self._delivered.wait(_LONGEST_REST)
        return clock.ticks() - begun

    def _is_due(self) -> bool:
        old = clock.ticks() - _AGAIN_SECONDS
        wanted = self.wanted
        return any(self._last(topic, asked).at <= old for topic, asked in wanted.items())

    def _last(self, topic: str, asked: object) -> Seen:
        """The topic as those who want it were told; what others were told is not theirs."""
        seen = self._seen.get(topic, _NEVER)
        return seen if seen.asked is asked else _NEVER

    def look(self, space: ServedWorkspace) -> Look:
        """Read what is new, and render the topics that it touches, all as of one moment."""
        wanted, now = self.wanted, clock.ticks()
        plans = [key_of(topic) for topic in wanted if topic.startswith("plan:")]
        moment = views.moment(space.store, plans, since=self._mark, most=MOST_EVENTS)
        fresh = moment["fresh"]
        if fresh:
            self._seen.clear()
        self._mark = moment["epoch"], moment["seq"]
        touched = {event["plan_path"] for event in moment["events"]}
        self._seen = {topic: self._last(topic, asked) for topic, asked in wanted.items()}
        updates: list[Update] = []
        refused: dict[str, TugError] = {}
        for topic in sorted(wanted):
            is_old = self._seen.get(topic, _NEVER).at <= now - _AGAIN_SECONDS
            plan = key_of(topic)
            if not (is_old or fresh or (plan in touched if plan else touched)):
                continue
            try:
                data = self._rendered(space, topic, moment["shows"])
            except TugError as error:
                refused[topic] = error
                continue
            updates += self._compared(topic, data, now, wanted[topic])
        if not fresh:
            transcripts.name_in_log(space.repo, moment["events"])
        for event in moment["events"]:
            event["words"] = sentences.format_event(event, space.repo.root)
        return Look(
            *(moment["epoch"], moment["seq"], moment["as_of"], moment["events"]),
            *(fresh, updates, refused),
        )

    def _rendered(self, space: ServedWorkspace, topic: str, shows: Data) -> Data:
        kind, plan = topic.partition(":")[0], key_of(topic)
        if kind == "overview":
            data: Data = overview.status(space)
        elif kind == "review":
            data = review.review(space, None)
        else:
            if shows[plan] is None:
                from tugtool.errors import PlanNotInitialised

                raise PlanNotInitialised(plan)
            viewer = self._viewers.setdefault(plan, overview.Viewer(space, plan))
            data = viewer.completed(shows[plan]).data
        return data

    def _compared(self, topic: str, data: Data, now: float, asked: object) -> Iterable[Update]:
        old = self._seen[topic].data
        self._seen[topic] = Seen(asked, now, data)
        if old is None:
            yield Update(topic, data, None, asked=asked)
            return
        same_text = old.get("plan_hash") == data.get("plan_hash")
        change = self.compare(topic, old, data) if same_text else None
        if change is None:
            yield Update(topic, data, None, "revised", asked)
        elif change["set"] or change["gone"]:
            yield Update(topic, data, change, asked=asked)

    #: Tests put a faulty one in its place.
    compare = staticmethod(difference)
