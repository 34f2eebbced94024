"""Decide when a failed agent is tried again, and when the whole run waits."""

from __future__ import annotations

import contextlib
import re
import threading
from typing import NamedTuple

from tugtool.system import clock, crash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.implement.attempt import AgentContext
    from tugtool.implement.run import Run


#: If agents of two steps fail alike within this time, the steps are not the cause.
ALIKE_SECONDS = 120
#: One agent tries after the first pause; each later pause is twice as long, up to the longest.
FIRST_SECONDS, LONGEST_SECONDS = 60, 1800
#: A wait checks the claim this often, well within the time limit for noticing a loss.
LOOK_SECONDS = 0.25
#: Parts that differ between equal refusals: times, durations, process ids, hashes.
_VARIES = re.compile(r"\d+[.:]\d[\d.:]*|[0-9a-f]*\d[0-9a-f]{3,}")


class Timer:
    """The run's clock; tests replace it with a faster one."""

    def now(self) -> float:
        """Return seconds of a monotonic clock."""
        return clock.ticks()

    def milliseconds(self) -> int:
        """Return the time of day in milliseconds since 1970."""
        return clock.system_milliseconds()

    def wait(self, seconds: float, event: threading.Event) -> None:
        """Wait so many seconds, or until the event is set."""
        event.wait(seconds)


class Failure(NamedTuple):
    """Why a call of an agent gave no usable answer."""

    reason: str
    #: True if the agent answered, but wrongly: then its service works.
    answered: bool = False
    #: Seconds until the agent asks to be tried again; 0 if it names no time.
    later: float | None = None


def without_variables(reason: str, path: str) -> str:
    """Return the reason without its times, ids and paths, for comparison."""
    return _VARIES.sub("#", reason.replace(path, ""))


class Retries:
    """The tries of one agent at one piece of work."""

    def __init__(self, run: Run, most: int) -> None:
        self.run, self.most = run, most
        self._tries = self._asked = 0
        self._since: float | None = None

    def pause(self, failure: Failure) -> float | None:
        """Return the seconds until the next try; None after the last try."""
        patience, now = self.run.terms.patience_seconds, self.run.timer.now()
        if failure.later is None or not patience:
            self._tries += 1
            if self._tries >= self.most:
                return None
        else:
            # A busy service says nothing about the step, so this does not count as a try.
            self._asked += 1
            self._since = now if self._since is None else self._since
            if now - self._since >= patience:
                self.run.end(f"an agent asked for more time than the run has: {failure.reason}")
        steps = self.run.terms.retry_seconds
        usual = steps[min(self._tries + self._asked, len(steps)) - 1]
        return min(failure.later or usual, LONGEST_SECONDS)


class Cooling:
    """Notices that all agents of a run fail alike, and lets one at a time try again."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = threading.Lock()
        #: Step -> time and reason of its agent's last failure.
        self._failed: dict[str, tuple[float, str]] = {}
        #: Start of the cool-down; None if there is none.
        self._since: float | None = None
        self._reason, self._told = "", False
        #: The pause before the next try, the time of that try, and the agent that tries.
        self._pause, self._next = 0.0, 0.0
        self._trying: AgentContext | None = None
        #: The number of waiting agents.
        self._waiting = 0

    def may_begin(self) -> bool:
        """Return whether a step may begin: during a cool-down only if no agent waits."""
        with self._lock:
            return self._since is None or not (self._waiting or self._trying)

    @contextlib.contextmanager
    def turn(self, context: AgentContext) -> Iterator[None]:
        """Wait until agents may run, or until this one may try."""
        self._wait(context)
        try:
            yield
        except BaseException:
            with self._lock:
                if self._trying is context:
                    # This error says nothing about the service, so let another agent try.
                    self._trying = None
            raise

    def _wait(self, context: AgentContext) -> None:
        if self._since is None:
            return
        self._tell_begun()
        with self._lock:
            self._waiting += 1
        try:
            while not self._may_try(context):
                self._nap()
                context.check()
        finally:
            with self._lock:
                self._waiting -= 1

    def _tell_begun(self) -> None:
        with self._lock:
            told, self._told = self._told, True
        if not told:
            self._run.tell("cooling_down", reason=self._reason, retry_seconds=self._pause)
        crash.point("implement.cooling")

    def _may_try(self, context: AgentContext) -> bool:
        with self._lock:
            now, patience = self._run.timer.now(), self._run.terms.patience_seconds
            if self._since is None:
                return True
            if now - self._since >= patience:
                waited = clock.duration(patience)
                self._run.end(
                    f"the agents failed for {waited}, and no step is to blame: {self._reason}"
                )
            elif self._trying is None and now >= self._next:
                self._trying = context
                return True
        return False

    def _nap(self) -> None:
        run = self._run
        if self._trying is None:
            run.timer.wait(LOOK_SECONDS, run.stopping)
        else:
            # The trying agent runs in real time, which a test's timer cannot shorten.
            run.stopping.wait(LOOK_SECONDS)

    def pause(self, context: AgentContext, seconds: float) -> None:
        """Wait before the next try; a cool-down ends the wait."""
        timer = self._run.timer
        end = timer.now() + seconds
        while (left := end - timer.now()) > 0 and self._since is None:
            timer.wait(min(left, LOOK_SECONDS), self._run.stopping)
            context.check()

    def succeeded(self, context: AgentContext) -> None:
        """Note that an agent answered. If it was the trying one, end the cool-down."""
        with self._lock:
            if self._trying is not context or self._since is None:
                return
            seconds = self._run.timer.now() - self._since
            self._since = self._trying = None
            self._told = False
            self._failed.clear()
        self._run.tell("cooled_down", seconds=round(seconds, 3))
        self._run.news.set()

    def failed(self, context: AgentContext, failure: Failure, retries: Retries) -> float | None:
        """Return the seconds until the next try; None after the last try.

        If an agent of another step failed alike, begin a cool-down and count no try.
        """
        if failure.answered:
            self.succeeded(context)
        else:
            self._note(context, failure)
        with self._lock:
            if self._since is not None:
                return max(0.0, self._next - self._run.timer.now())
        return retries.pause(failure)

    def _note(self, context: AgentContext, failure: Failure) -> None:
        with self._lock:
            now = self._run.timer.now()
            if self._trying is context:
                self._trying = None
                self._next = now + self._longer(failure)
            elif self._since is None and self._others_fail_alike(context, failure, now):
                self._since, self._reason, self._pause = now, failure.reason, 0.0
                self._next = now + self._longer(failure)

    def _longer(self, failure: Failure) -> float:
        self._pause = min(2 * self._pause or FIRST_SECONDS, LONGEST_SECONDS)
        self._pause = max(self._pause, min(failure.later or 0, LONGEST_SECONDS))
        return self._pause

    def _others_fail_alike(self, context: AgentContext, failure: Failure, now: float) -> bool:
        anchor = context.anchor
        if anchor is None or not self._run.terms.patience_seconds:
            return False
        alike = "later"
        if failure.later is None:
            alike = without_variables(failure.reason, context.checkout.path)
        self._failed[anchor] = (now, alike)
        return any(
            known != anchor and of_what == alike and now - when <= ALIKE_SECONDS
            for known, (when, of_what) in self._failed.items()
        )
