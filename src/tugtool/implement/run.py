"""What all workers of one run share: the plan, the terms, and how they reach each other."""

from __future__ import annotations

import threading

from tugtool import clock, files, holder
from tugtool.errors import GitFailed, TugError
from tugtool.plan import fingerprint
from tugtool.worktree.making import Order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tugtool.implement.casting import Part
    from tugtool.implement.seat import Work
    from tugtool.repository import Repository
    from tugtool.store import Store

    Data = dict[str, object]

#: What a person can say to an escalation.
CHOICES = ("retry", "park", "stop")
#: A signal that others have had by now has reached us too by then.
_SIGNAL_SECONDS = 3.0
#: A plan is read whole, whatever its size.
_WHOLE = 1 << 30


class Terms:
    """The settings that a run works under."""

    __slots__ = (
        "budget_tokens",
        "lease_seconds",
        "log_max_bytes",
        "log_max_lines",
        "max_attempts",
        "review_rounds",
        "unattended",
        "workers",
    )

    def __init__(
        self,
        *,
        workers: int = 1,
        lease_seconds: float = 600,
        review_rounds: int = 3,
        budget_tokens: int = 0,
        max_attempts: int = 5,
        log_max_lines: int = 500,
        log_max_bytes: int = 102400,
        unattended: bool = True,
    ) -> None:
        self.workers = workers
        self.lease_seconds = lease_seconds
        self.review_rounds = review_rounds
        self.budget_tokens = budget_tokens
        self.max_attempts = max_attempts
        self.log_max_lines, self.log_max_bytes = log_max_lines, log_max_bytes
        #: Nobody is there to be asked: what a person has to decide is parked.
        self.unattended = unattended


class Question:
    """Something that a worker has to know from a person; it waits, and keeps its claim."""

    def __init__(self, anchor: str | None, reason: str, choices: tuple[str, ...] = CHOICES) -> None:
        self.anchor, self.reason, self.choices = anchor, reason, choices
        self.choice = ""
        self._answered = threading.Event()

    def answer(self, choice: str) -> None:
        """What the person said."""
        self.choice = choice
        self._answered.set()

    def wait(self, seconds: float) -> bool:
        """Whether it is answered by then."""
        return self._answered.wait(seconds)


class Run:
    """One `implement`: for all threads, so everything here may be used by any of them."""

    def __init__(
        self,
        repo: Repository,
        order: Order,
        parts: Mapping[str, Part],
        terms: Terms,
        *,
        open_store: Callable[[], Store],
        tell: Callable[[Data], None],
        ask: Callable[[Question], None],
    ) -> None:
        self.repo, self.parts, self.terms, self.order = repo, parts, terms, order
        self.plan = order.file.key
        #: A store is for one thread; each opens its own.
        self.open_store, self._tell, self._ask = open_store, tell, ask
        self.steps = {step.anchor: step for step in order.parsed.steps}
        self.stopping = threading.Event()
        #: One worker at a time looks for a step; the others wait here for their turn.
        self.turn = threading.Lock()
        #: Something has changed that may give an idle worker a step.
        self.news = threading.Event()
        self._lock = threading.Lock()
        #: How many workers are making themselves a worktree.
        self._making = 0
        #: Steps that could not be given back, because the database failed, and how they should be.
        self.owed: list[tuple[Work, dict[str, str]]] = []
        #: Worktrees that workers of this run sit at, by the name under which they own steps.
        self.owners: set[str] = set()
        #: Worktrees that were made before any worker began, and for whom each is reserved.
        self.made: list[tuple[Data, str | None]] = []
        #: Why workers ended that had to, and what they left (step -> why).
        self.troubles: list[str] = []
        self.left: dict[str, str] = {}
        #: Steps of others that are waited for, as told last; roles that failed, with their step.
        self._awaited: dict[str, str] = {}
        self._failed: set[tuple[str, str]] = set()
        self.warnings: list[str] = []
        #: What should never have been raised.
        self.bugs: list[Exception] = []
        self.started = clock.ticks()

    def stop(self) -> None:
        """No further step is begun, and those under way are given back."""
        self.stopping.set()
        self.news.set()

    def is_stopped_by(self, error: TugError) -> bool:
        """Whether what went wrong did so because the run is being stopped.

        Ctrl-C reaches also the git that runs just now, or only its hook, which then fails; and
        sometimes earlier than us.
        """
        return self.stopping.wait(_SIGNAL_SECONDS if isinstance(error, GitFailed) else 0)

    def order_for(self, name: str, *, new_from: str | None = None) -> Order:
        """What a worker asks `worktree create` for; reserved for as long as this process runs.

        `new_from`: not one that is there already, but a new one from that branch.
        """
        order = self.order
        return Order(
            order.file,
            order.parsed,
            text=order.text,
            hash=order.hash,
            base=new_from or order.base,
            new=new_from is not None,
            request_id=holder.stamp(name),
        )

    def is_plan_agreed(self) -> bool:
        """Whether the plan's file still has the text that the run began with."""
        path = self.order.file.path
        try:
            return fingerprint.of(files.read(path, max_bytes=_WHOLE)) == self.order.hash
        except TugError:
            return False

    def tell(self, event: str, **facts: object) -> None:
        """Something has happened that people and programs may want to see."""
        at = round(clock.ticks() - self.started, 3)
        told = {key: value for key, value in facts.items() if value is not None}
        self._tell({"event": event, "plan_path": self.plan, "elapsed_seconds": at, **told})

    def warn(self, message: str, **facts: object) -> None:
        """Something that a person should know, and nobody needs to decide."""
        with self._lock:
            self.warnings.append(message)
        self.tell("warning", message=message, **facts)

    def ask(self, question: Question) -> None:
        """Hand a question on to whoever can put it to a person."""
        if self.terms.unattended:
            question.answer("park")
        else:
            self._ask(question)

    def take(self, owner: str) -> None:
        """A worker of this run sits at that worktree now."""
        with self._lock:
            self.owners.add(owner)

    def stand_up(self, owner: str) -> None:
        """Nobody of this run works there any more."""
        with self._lock:
            self.owners.discard(owner)

    def owe(self, work: Work, how: dict[str, str]) -> None:
        """A step is to be given back as soon as the database lets us."""
        with self._lock:
            self.owed.append((work, how))

    def take_owed(self) -> list[tuple[Work, dict[str, str]]]:
        """All that is to be given back, for whoever asks first."""
        with self._lock:
            owed, self.owed = self.owed, []
        return owed

    def may_make(self, ready: int, *, lasting: bool) -> bool:
        """Whether one more worktree is to be made: for steps that nobody who has one will take.

        Those who have one may be about to; steps that stay ready for a while are left over.
        """
        with self._lock:
            others = 0 if lasting else len(self.owners)
            granted = self._making + others < ready
            self._making += granted
        return granted

    def take_made(self) -> tuple[Data, str | None] | None:
        """A worktree that is there already, for whoever asks first."""
        with self._lock:
            return self.made.pop(0) if self.made else None

    def made_one(self) -> None:
        """That worktree is there, or will not be."""
        with self._lock:
            self._making -= 1

    def leave(self, anchor: str, why: str) -> None:
        """A step is left unfinished."""
        with self._lock:
            self.left[anchor] = why

    def finished(self, anchor: str) -> None:
        """A step that was left before is done after all."""
        with self._lock:
            self.left.pop(anchor, None)

    def wait_for(self, held: Mapping[str, str]) -> None:
        """Nothing can be done before others have done these; told when it begins, and changes."""
        with self._lock:
            known = held == self._awaited
            self._awaited = dict(held)
        if held and not known:
            who = "; ".join(f"{anchor} is held by {owner}" for anchor, owner in held.items())
            self.tell("waiting", steps=list(held), reason=who)

    def fails_again(self, anchor: str, role: str) -> bool:
        """Whether that role had failed at that step before, in this run; from now on it has."""
        with self._lock:
            known = (anchor, role) in self._failed
            self._failed.add((anchor, role))
        return known

    def fail(self, why: str) -> None:
        """A worker cannot go on."""
        with self._lock:
            self.troubles.append(why)
