"""The commands of whoever asks what happened: why, log, stats."""

from __future__ import annotations

import time

from tugtool import clock, state
from tugtool.cli import output
from tugtool.cli.output import Answer, Stream, clean
from tugtool.cli.place import Place, said
from tugtool.errors import Unreadable, Usage
from tugtool.state_errors import DatabaseUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.cli.parse import Call
    from tugtool.state.history import Reader

    Data = dict[str, object]

#: How long a follower sleeps at most before it looks again; how long while there is nothing to
#: look at; and how often it looks at a file that never was a database.
LONGEST_NAP_SECONDS = 1.0
RETRY_SECONDS = 0.25
MOST_TRIES = 4

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
#: A time may be left unfinished after the year, month, day, hour, minute, second.
_EARLIEST = "0001-01-01T00:00:00.000"
_UNFINISHED = (4, 7, 10, 13, 16, 19, 23)


def state_why(call: Call) -> Answer:
    """Explain how it stands with a step."""
    place = Place(call)
    plan = place.plan()
    data = state.why(
        place.store,
        plan,
        place.step(),
        owner=place.owner,
        max_attempts=place.settings.number("state.max_attempts"),
        drift=_drifted(place, plan),
    )
    return Answer(data, lambda: _why_text(data, place.repo.root))


def _drifted(place: Place, plan: str) -> bool:
    try:
        found = place.copy(plan).now()
    except Unreadable:
        found = None
    with place.store.read(plan) as tx:
        from tugtool.state import record

        return bool(found != record.plan_row(tx, plan)["plan_hash"])


def _why_text(data: Data, root: str) -> str:
    from tugtool.cli.naming import shortened

    sentences, frees = data["sentences"], data["frees"]
    assert isinstance(sentences, list)
    assert isinstance(frees, list)
    lines = [*sentences, *(f"  -> {each}" for each in frees)]
    return "".join(f"{clean(shortened(line, root))}\n" for line in lines)


def state_log(call: Call) -> Answer | Stream:
    """Tell what happened; with --follow also what happens."""
    from tugtool.state.history import Reader

    since, limit = _since(call.text("since")), call.number("limit")
    place = Place(call)
    step = place.step() or None
    plan = place.plan() if step is not None or call.text("plan") is not None else None
    reader = Reader(plan, step=step, since=since, limit=limit)
    if call.flag("follow"):
        return Stream(_followed(place, reader))
    if not call.json:
        return Stream(_lines(place, reader))
    if not place.store.exists():
        return Answer(_events(reader, []), lambda: "")
    data = state.log(place.store, plan, step=step, since=since, limit=limit)
    return Answer(data, lambda: "")


def _since(text: str | None) -> str | float | None:
    """A time as the state writes it, or how many seconds ago."""
    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    if unit in _UNITS and number.isascii() and number.isdecimal() and len(number) <= 12:
        return float(int(number) * _UNITS[unit])
    given = text.removesuffix("Z")
    if text.isascii() and len(given) in _UNFINISHED:
        whole = f"{given}{_EARLIEST[len(given) :]}Z"
        try:
            # Not every text that can be read as a time is one of ours.
            if clock.text(clock.milliseconds(whole)) == whole:
                return whole
        except ValueError:
            pass
    forms = (
        "2026-02-23T12:00:00.000Z, its beginning such as 2026-02-23, or an age: 90s, 30m, 2h, 3d"
    )
    raise Usage(f'--since takes a time in UTC like {forms}; not "{text}"', command="state log")


def _events(reader: Reader, events: list[Data]) -> Data:
    return {
        "plan_path": reader.plan,
        "step_anchor": reader.step,
        "since": reader.since if isinstance(reader.since, str) else None,
        "events": events,
    }


def _lines(place: Place, reader: Reader) -> Iterator[str]:
    """The log in text, a page at a time: it may be long."""
    from tugtool.cli import telling

    if not place.store.exists():
        yield "nothing has happened yet\n"
        return
    events, several = reader.page(place.store), reader.plan is None
    if not events:
        yield "nothing has happened\n"
    while events:
        yield "".join(telling.line(e, root=place.repo.root, several=several) for e in events)
        events = reader.page(place.store)


def _followed(place: Place, reader: Reader) -> Iterator[Answer]:
    """One answer for each event, while anybody reads. The database may come and go meanwhile."""
    lost = known = not place.store.exists()
    tries = 0
    while output.listening():
        try:
            events = reader.page(place.store)
            lost, known = False, True
            if reader.went_back:
                yield _warning(reader, "events that were told are gone from the log: it goes on")
            for event in events:
                yield _told(place, reader, event)
            if not events:
                place.store.wait_for_change(LONGEST_NAP_SECONDS)
        except DatabaseUnavailable as error:
            tries += 1
            if not known and tries > MOST_TRIES:
                raise  # it is there, nobody is just making it, and it is no database of ours
            if known and not lost:
                yield _warning(reader, f"{error.message}; waiting for it")
            lost = known
            # There is nothing to wait on: a file that is not there tells nobody when it comes.
            time.sleep(RETRY_SECONDS)


def _told(place: Place, reader: Reader, event: Data) -> Answer:
    def text() -> str:
        from tugtool.cli import telling

        return telling.line(event, root=place.repo.root, several=reader.plan is None)

    return Answer(_events(reader, [event]), text)


def _warning(reader: Reader, message: str) -> Answer:
    issue: Data = {"code": "W105", "severity": "warning", "message": message}
    return said(_events(reader, []), lambda: "", [issue])


def state_stats(call: Call) -> Answer:
    """Count and time what happened."""
    place = Place(call)
    named = call.text("plan") is not None
    data: Data = {"plans": []}
    if named or place.store.exists():
        plan = place.plan() if named else None
        data = state.stats(place.store, plan, archived=call.flag("all"))

    def text() -> str:
        from tugtool.cli import figures

        plans = data["plans"]
        assert isinstance(plans, list)
        return figures.table(plans)

    return Answer(data, text)
