"""`state show --watch`: the picture as it changes, at next to no cost for those who work.

It looks at the database four times a second, reads and draws at most once a second, and
rests fifty times as long as that took.
"""

from __future__ import annotations

import os
import sys
import time

from tugtool import config
from tugtool.cli import output
from tugtool.cli.output import Answer, Stream
from tugtool.errors import TugError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.cli.screen import Screen
    from tugtool.cli.sight import Seen, Sight

#: How often it looks whether anything has changed.
LOOK_SECONDS = 0.25
#: The least time between two readings, and how often time itself may have changed something.
REST_SECONDS, STALE_SECONDS = 1.0, 5.0
#: Of one core, at most 1 / this.
SHARE = 50


def stream(sight: Sight, seen: Seen, *, as_json: bool) -> Stream:
    """What goes out for as long as somebody watches."""
    # Whoever works comes first.
    os.nice(19)
    live = Live(sight, seen)
    if as_json or not sys.stdout.isatty() or config.terminal() in ("", "dumb"):
        return Stream(_documents(live) if as_json else _pictures(live))
    return Stream(_frames(live))


class Live:
    """The last look that worked, what has gone wrong since, and when it is time for another."""

    def __init__(self, sight: Sight, seen: Seen) -> None:
        self.sight, self.seen = sight, seen
        self.trouble: TugError | None = None
        self._looked, self._cost = time.monotonic(), 0.0
        # From here on changes are noticed; those since the first look by looking once more.
        self._changed()
        self._due = True

    def refreshed(self) -> bool:
        """Look again if there may be something new and enough time has passed."""
        age = time.monotonic() - self._looked
        self._due = self._due or self._changed() or age >= STALE_SECONDS
        if not self._due or age < max(REST_SECONDS, self._cost * SHARE):
            return False
        self._due, self._cost = False, 0.0
        started = time.process_time()
        try:
            self.seen, self.trouble = self.sight.look(), None
        except TugError as error:
            self.trouble = error
        self._looked = time.monotonic()
        self.spent(time.process_time() - started)
        return True

    def spent(self, seconds: float) -> None:
        """The rest before the next look grows with what was done since this one."""
        self._cost += seconds

    def _changed(self) -> bool:
        try:
            return self.sight.place.store.wait_for_change(0)
        except TugError:
            return True


def _frames(live: Live) -> Iterator[str]:
    """Nothing, for the stream; everything, on a screen of its own."""
    from tugtool.cli.screen import Screen

    with Screen() as screen:
        told = _watched(live, screen)
    if told == "interrupt":
        raise KeyboardInterrupt
    yield from ()


def _watched(live: Live, screen: Screen) -> str:
    """Draw until somebody ends it; how."""
    _draw(live, screen)
    while True:
        told = screen.wait(LOOK_SECONDS)
        if told in ("quit", "interrupt", "end"):
            return told
        if live.refreshed() or told == "resized":
            _draw(live, screen)


def _draw(live: Live, screen: Screen) -> None:
    from tugtool.cli import canvas, glance

    started = time.process_time()
    columns, lines = screen.size()
    # The last column stays free: there some terminals are about to begin a new line.
    frame = glance.frame(
        lambda: canvas.for_output(max(columns - 1, 2)),
        [(plan, live.seen.warning(plan)) for plan in live.seen.plans],
        live.sight.wanted(),
        rows=lines,
        trouble=live.trouble.message if live.trouble else "",
        nothing="" if live.seen.plans or live.trouble else live.sight.nothing(),
    )
    screen.show(frame)
    live.spent(time.process_time() - started)


def _pictures(live: Live) -> Iterator[str]:
    """For a file or a pipe: the whole picture whenever it is another, under the time."""
    before = ""
    for trouble in _changes(live):
        from tugtool.cli import canvas

        # Compared without what only time changes.
        plain = canvas.for_output()
        live.sight.draw(plain, live.seen, live.sight.wanted(leases=False))
        if trouble:
            yield f"{plain.glyphs.warning} {output.clean(trouble)}\n"
        elif plain.text() != before:
            before = plain.text()
            at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
            yield f"--- {at} ---\n{live.sight.text(live.seen)}"


def _documents(live: Live) -> Iterator[Answer]:
    """For programs: one envelope per change; what it said last does not hold in trouble."""
    before: object = None
    for _ in _changes(live):
        now = [{**plan, "as_of": ""} for plan in live.seen.plans], live.seen.changed
        if live.trouble is not None:
            before, error = None, live.trouble
            yield output.Answer({}, str, issues=error.issues(), status=error.exit_status)
        elif now != before:
            before = now
            yield live.sight.answer(live.seen)


def _changes(live: Live) -> Iterator[str]:
    """After each look that may have found something new, what is wrong, if anything is."""
    yield ""
    trouble = ""
    while output.listening(LOOK_SECONDS):
        if live.refreshed():
            now = live.trouble.message if live.trouble else ""
            if not now or now != trouble:
                yield now
            trouble = now
