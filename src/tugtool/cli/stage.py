"""A run on a terminal: the plan's picture, live, and below it what each worker is at."""

from __future__ import annotations

import signal
import time

from tugtool.cli import canvas, events, glance, output
from tugtool.cli.screen import Screen
from tugtool.cli.sight import Sight
from tugtool.cli.watch import Live

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tugtool.cli.conducting import Conductor
    from tugtool.cli.output import Answer
    from tugtool.cli.parse import Call
    from tugtool.implement.run import Run

    Event = dict[str, Any]

#: How often it looks whether anything is new.
LOOK_SECONDS = 0.25
_ENDS = ("completed", "parked", "failed", "stopped", "moved", "lost")
#: Told again below the last picture: it would be gone with the screen.
_KEPT = (
    *("deferred", "escalated", "parked", "failed", "stopped", "warning", "worker_failed"),
    "finished",
)


class _Workers:
    """What each worker is at, as far as it has told."""

    def __init__(self, number: int) -> None:
        self.lines = dict.fromkeys(range(1, number + 1), "waits")
        self.since = dict.fromkeys(self.lines, time.monotonic())
        self.kept: list[str] = []
        #: That it is being stopped, once it is.
        self.stopping: list[str] = []

    def hear(self, event: Event) -> None:
        kind, worker = event["event"], event.get("worker")
        if kind == "stopping":
            self.stopping = [events.words(event)]
        if kind in _KEPT:
            self.kept.append(events.line(event))
        if worker in self.lines and (kind in _ENDS or kind in ("claimed", "agent_started")):
            at = event["role"] if kind == "agent_started" else "begins"
            self.lines[worker] = "waits" if kind in _ENDS else f"{event['step_anchor']}  {at}"
            self.since[worker] = time.monotonic()

    def shown(self, columns: int) -> list[str]:
        now = time.monotonic()
        lines = [
            f"worker {n}  {line}  {now - self.since[n]:.0f} s" for n, line in self.lines.items()
        ]
        return [output.clean(line, columns) for line in (*self.stopping, *lines)]


def shown(conductor: Conductor, run: Run, call: Call) -> Iterator[Answer | str]:
    """Nothing, until the run is over; everything, on a screen of its own."""
    workers = _Workers(run.terms.workers)
    sight = Sight(call)
    live = Live(sight, sight.look())
    conductor.begin()
    while conductor.result is None:
        with Screen() as screen:
            again = _play(conductor, live, screen, workers)
        if again is not None:
            # The second time: at once, but with the terminal given back.
            conductor.stop(again)
        # Questions are asked where people type.
        conductor.put_questions()
    live.seen = sight.look()
    yield sight.text(live.seen)
    yield from workers.kept


def _play(conductor: Conductor, live: Live, screen: Screen, workers: _Workers) -> int | None:
    """Draw until the run is over, or somebody is asked something; or a second signal, if any."""
    while True:
        for event in conductor.events(0):
            workers.hear(event)
        live.refreshed()
        _draw(live, screen, workers)
        if conductor.result is not None or conductor.questions:
            return None
        told = screen.wait(LOOK_SECONDS)
        if told in ("interrupt", "end"):
            number = signal.SIGINT if told == "interrupt" else screen.take_signal()
            if conductor.heard is not None:
                return number
            conductor.stop(number)


def _draw(live: Live, screen: Screen, workers: _Workers) -> None:
    started = time.process_time()
    columns, lines = screen.size()
    below = workers.shown(max(columns - 1, 2))[: max(lines // 2, 1)]
    frame = glance.frame(
        lambda: canvas.for_output(max(columns - 1, 2)),
        [(plan, live.seen.warning(plan)) for plan in live.seen.plans],
        live.sight.wanted(),
        rows=lines - len(below) - 1,
        trouble=live.trouble.message if live.trouble else "",
    )
    screen.show([*frame, "", *below])
    live.spent(time.process_time() - started)
