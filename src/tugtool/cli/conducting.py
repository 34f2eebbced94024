"""A run as whoever started it sees it: events go by, signals end it, questions are answered.

The run has its own threads. This one waits for what they tell, and is the only one that
hears signals: the first asks the run to stop, the second ends the process at once.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import sys

from tugtool.cli import events, output
from tugtool.cli.output import Answer, Stream, clean
from tugtool.errors import Interrupted
from tugtool.implement import fleet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tugtool.cli.parse import Call
    from tugtool.implement.run import Question, Run

    Data = dict[str, Any]

#: What ends a run cleanly.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: How often somebody who is asked is checked for having been overtaken by events.
LOOK_SECONDS = 0.25


class Conductor:
    """Between a run and its audience."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self._told: queue.SimpleQueue[Data | Question] = queue.SimpleQueue()
        self._run: Run | None = None
        self._before: dict[signal.Signals, Any] = {}
        #: The signal that stopped the run.
        self.heard: int | None = None
        self.result: Data | None = None
        #: What somebody has to be asked, once it can be asked.
        self.questions: list[Question] = []

    def tell(self, event: Data) -> None:
        """From any thread: something has happened."""
        self._told.put(event)

    def ask(self, question: Question) -> None:
        """From any thread: somebody has to decide."""
        self._told.put(question)

    def stream(self, run: Run, call: Call) -> Stream:
        """What goes out while the run goes on."""
        self._run = run
        if self.is_live():
            from tugtool.cli import stage

            return Stream(stage.shown(self, run, call), self.ended)
        return Stream(self._parts(), self.ended)

    def is_live(self) -> bool:
        """Whether there is a terminal for a picture."""
        from tugtool import config

        on_screen = sys.stdout is not None and sys.stdout.isatty()
        return on_screen and not self.as_json and config.terminal() not in ("", "dumb")

    def ended(self) -> int:
        """Wait for the end, also if nobody reads of it; the exit status."""
        while self.result is None:
            for _ in self.events():
                pass
            for question in self.questions:
                question.answer("stop")
        self._restore()
        assert self._run is not None
        if self._run.bugs:
            raise self._run.bugs[0]
        return self.status()

    def status(self) -> int:
        """0 if the plan is done; 1 if not; as signals have it if one of them ended it."""
        assert self.result is not None
        if self.result["status"] == "stopped" and self.heard is not None:
            return Interrupted.exit_status if self.heard == signal.SIGINT else 128 + self.heard
        return 0 if self.result["status"] == "done" else 1

    def begin(self) -> None:
        """Start the run, and hear signals from now on."""
        assert self._run is not None
        for each in STOPPING:
            # Whoever was told to ignore it, as by nohup, goes on.
            if signal.getsignal(each) is not signal.SIG_IGN:
                self._before[each] = signal.signal(each, self._hear)
        fleet.start(self._run)

    def events(self, seconds: float | None = None) -> Iterator[Data]:
        """What is told from now on, until the run is finished or nothing came for so long."""
        while self.result is None:
            try:
                # Looking up now and then: a signal that comes just before one begins to wait
                # wakes nobody, nor does one that the system gives to another thread.
                told = self._told.get(timeout=LOOK_SECONDS if seconds is None else seconds)
            except queue.Empty:
                if seconds is None:
                    continue
                return
            if not isinstance(told, dict):
                self.questions.append(told)
                return
            if told["event"] == "finished":
                self.result = told
            yield told

    def _parts(self) -> Iterator[Answer | str]:
        self.begin()
        while self.result is None:
            for event in self.events():
                yield self._part(event)
            self.put_questions()

    def _part(self, event: Data) -> Answer:
        status = self.status() if event["event"] == "finished" else 0
        return Answer(event, lambda: events.line(event), status=status)

    def stop(self, number: int) -> None:
        """The first time cleanly, the second time at once: agents go with this process."""
        if self.heard is not None:
            os._exit(128 + number)
        self.heard = number
        assert self._run is not None
        # A queue that a handler of signals may write to.
        self._run.tell("stopping", signal=number)
        self._run.stop()

    def _hear(self, number: int, frame: object) -> None:
        self.stop(number)

    def _restore(self) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
        self._before.clear()

    def put_questions(self) -> None:
        """Ask what has to be asked."""
        while self.questions:
            self._put(self.questions.pop(0))

    def _put(self, question: Question) -> None:
        """Ask the person at the terminal; a run that is stopped has nobody left to ask."""
        where = f"{question.anchor}: " if question.anchor else ""
        output.mention(f"\n{clean(where + question.reason, 1 << 12)}\n")
        asked = "/".join(question.choices)
        output.mention(f"what now? [{asked}] ")
        while (choice := self._typed(question.choices)) is None:
            output.mention(f"please say one of {asked}: ")
        question.answer(choice)

    def _typed(self, choices: tuple[str, ...]) -> str | None:
        assert self._run is not None
        while not self._run.stopping.is_set():
            ready, _, _ = select.select([sys.stdin], [], [], LOOK_SECONDS)
            if ready:
                line = sys.stdin.readline()
                if not line:
                    # Nobody is there any more; a step that is parked waits for them.
                    return choices[1]
                word = line.strip().lower()
                return next((each for each in choices if word and each.startswith(word)), None)
        return choices[-1]
