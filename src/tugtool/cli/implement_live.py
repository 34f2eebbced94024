"""The output of a run: a live picture, lines, or JSON, and questions to the user."""

from __future__ import annotations

import queue
import select
import signal
import sys
from functools import partial

from tugtool.cli import implement, output
from tugtool.cli.draw import live as draw_live
from tugtool.cli.draw.live import Live
from tugtool.cli.draw.screen import Screen, folded
from tugtool.cli.output import Answer, Stream, clean
from tugtool.cli.state_show import PlanView
from tugtool.errors import Interrupted
from tugtool.implement import loop
from tugtool.system import clock, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator
    from typing import Any

    from tugtool.cli.draw.canvas import Canvas
    from tugtool.cli.parse import Call
    from tugtool.implement.run import Question, Run
    from tugtool.schemas import StateShowPlan

    Event = dict[str, Any]


#: The signals that end a run cleanly.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: How often it looks for events, also while a question is open.
LOOK_SECONDS = 0.25


class Conductor:
    """Passes events and questions from a run to the user."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self._told: queue.SimpleQueue[dict[str, Any] | Question] = queue.SimpleQueue()
        self._run: Run | None = None
        self._thread: threading.Thread | None = None
        self._before: dict[signal.Signals, Any] = {}
        #: The signal that stopped the run.
        self.heard: int | None = None
        self.result: dict[str, Any] | None = None
        #: The questions that were not put yet.
        self.questions: list[Question] = []

    def tell(self, event: dict[str, Any]) -> None:
        """Pass on an event; any thread may call this."""
        self._told.put(event)

    def ask(self, question: Question) -> None:
        """Put a question to the user; any thread may call this."""
        self._told.put(question)

    def stream(self, run: Run, call: Call) -> Stream:
        """The output of the run, part by part."""
        self._run = run
        if self.is_live():
            return Stream(format_event(self, run, call), self.ended)
        return Stream(self._parts(), self.ended)

    def is_live(self) -> bool:
        """True if there is a terminal for a picture."""
        from tugtool.system import config

        on_screen = output.on_terminal(sys.stdout)
        return on_screen and not self.as_json and config.variable("TERM") not in (None, "", "dumb")

    def ended(self) -> int:
        """Wait for the end, also without a reader; return the exit status."""
        while self.result is None:
            for _ in self.events():
                pass
            for question in self.questions:
                question.answer("stop")
        if self._thread is not None:
            # It sends its last notice, in bounded time.
            self._thread.join()
        self._restore()
        assert self._run is not None
        if self._run.bugs:
            raise self._run.bugs[0]
        return self.status()

    def status(self) -> int:
        """0 if the plan is done, 1 if not, 128 and the signal if one ended the run."""
        assert self.result is not None
        if self.result["status"] == "stopped" and self.heard is not None:
            return Interrupted.exit_status if self.heard == signal.SIGINT else 128 + self.heard
        return 0 if self.result["status"] == "done" else 1

    def begin(self) -> None:
        """Start the run, and handle signals from now on."""
        assert self._run is not None
        for each in STOPPING:
            # Keep ignoring a signal that the caller ignores, as nohup does.
            if signal.getsignal(each) is not signal.SIG_IGN:
                self._before[each] = signal.signal(each, self._on_signal)
        self._thread = loop.start(self._run)

    def events(self, seconds: float | None = None) -> Iterator[dict[str, Any]]:
        """The next events, until the run ends or none comes within the timeout."""
        while self.result is None:
            try:
                # Wait in short spells: a signal just before the wait does not end it,
                # nor does one that the system delivers to another thread.
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
                status = self.status() if event["event"] == "finished" else 0
                yield Answer(event, partial(implement.line, event), status=status)
            self.put_questions()

    def stop(self, number: int) -> None:
        """Stop cleanly the first time, at once the second time; agents end with this process."""
        if self.heard is not None:
            os._exit(128 + number)
        self.heard = number
        assert self._run is not None
        # A signal handler may write to this queue.
        self._run.tell("stopping", signal=number)
        self._run.stop()

    def _on_signal(self, number: int, frame: object) -> None:
        self.stop(number)

    def _restore(self) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
        self._before.clear()

    def put_questions(self) -> None:
        """Put the open questions to the user."""
        while self.questions:
            question = self.questions.pop(0)
            if not question.answered.is_set():
                self._ask_user(question)

    def _ask_user(self, question: Question) -> None:
        """Ask the user at the terminal, unless the run is being stopped."""
        where = f"{question.anchor}: " if question.anchor else ""
        output.mention(f"\n{clean(where + question.reason, 1 << 12)}\n")
        asked = "/".join(question.choices)
        if question.choices[0] == "retry":
            output.mention('"retry" with a text behind it hands the text to the agent\n')
        output.mention(f"what now? [{asked}] ")
        while (typed := self._typed(question)) is None:
            output.mention(f"please say one of {asked}: ")
        if not question.answer(*typed):
            output.mention(f"\nit was not answered in time: {question.choice}\n")

    def _typed(self, question: Question) -> tuple[str, str] | None:
        """The choice, and what is said with it."""
        assert self._run is not None
        choices = question.choices
        while not (self._run.stopping.is_set() or question.answered.is_set()):
            ready, _, _ = select.select([sys.stdin], [], [], LOOK_SECONDS)
            if ready:
                line = sys.stdin.readline()
                if not line:
                    # Nobody is there any more; a step that is parked waits for them.
                    return choices[1], ""
                word, _, note = line.strip().partition(" ")
                found = [each for each in choices if word and each.startswith(word.lower())]
                if note and found[:1] != ["retry"]:
                    return None
                return (found[0], note.strip()) if found else None
        return choices[-1], ""


_ENDS = ("completed", "parked", "failed", "stopped", "moved", "lost")
#: Events that go below the last picture, which does not show them.
_KEPT = (
    *("unanswered", "failed", "warning", "worker_failed", "cooling_down", "cooled_down"),
    "finished",
)


class _Roles:
    """The role at work on each step, and the notice of the run."""

    def __init__(self) -> None:
        #: Step -> the role whose agent runs, and since when.
        self.running: dict[str, tuple[str, str]] = {}
        self.kept: list[str] = []
        #: A notice while the run is being stopped or cools down.
        self.notice = ""

    def take_event(self, event: Event) -> None:
        kind, step = event["event"], event.get("step_anchor")
        if kind in ("stopping", "cooling_down"):
            self.notice = implement.format_run_event(event)
        elif kind == "cooled_down":
            self.notice = ""
        if kind in _KEPT:
            # The picture shows the open steps and their reasons.
            self.kept.append(implement.line(event, brief=True))
        if kind == "agent_started" and step:
            self.running[step] = (event["role"], clock.text(clock.system_milliseconds()))
        elif kind in ("agent_ended", "agent_failed", *_ENDS):
            self.running.pop(step or "", None)

    def mark(self, plans: list[StateShowPlan]) -> None:
        """Write the roles into the data of the picture."""
        now = clock.text(clock.system_milliseconds())
        for plan in plans:
            plan["as_of"] = max(now, plan["as_of"])
            for step in plan["steps"]:
                if step["claimed_by"]:
                    none = (None, None)
                    step["role"], step["role_since"] = self.running.get(step["anchor"], none)

    def write(self, canvas: Canvas) -> None:
        if self.notice:
            canvas.write(("bold you", canvas.said(self.notice)), hang=2)


def format_event(conductor: Conductor, run: Run, call: Call) -> Iterator[Answer | str]:
    """Draw the run on a screen of its own; nothing goes out before it ends."""
    roles = _Roles()
    sight = PlanView(call)
    live = Live(sight, sight.viewer.read())
    conductor.begin()
    while conductor.result is None:
        with Screen() as screen:
            again = _play(conductor, live, screen, roles)
        if again is not None:
            # The second signal ends the run at once, after the terminal is restored.
            conductor.stop(again)
        # Ask questions on the normal screen.
        conductor.put_questions()
    live.seen = sight.viewer.read()
    yield sight.text(live.seen)
    yield from (folded(line, sys.stdout) for line in roles.kept)


def _play(conductor: Conductor, live: Live, screen: Screen, roles: _Roles) -> int | None:
    """Draw until the run ends, a question comes, or a second signal, which is returned."""
    while True:
        for event in conductor.events(0):
            roles.take_event(event)
        live.refreshed()
        if live.may_draw():
            roles.mark(live.seen.plans)
            draw_live.show(live, screen, roles.write, "Ctrl-C stops the run cleanly")
        if conductor.result is not None or conductor.questions:
            return None
        told = screen.wait(LOOK_SECONDS)
        if told in ("interrupt", "end"):
            number = signal.SIGINT if told == "interrupt" else screen.take_signal()
            if conductor.heard is not None:
                return number
            conductor.stop(number)
