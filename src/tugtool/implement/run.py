"""A run: its terms, its questions, the ends of work on a step, the remaining steps."""

from __future__ import annotations

import contextlib
import threading

from tugtool import state
from tugtool.agents import clis
from tugtool.errors import BadSetting, GitFailed, TugError, plan_argument, quoted
from tugtool.implement import cooling
from tugtool.implement.snapshot import Surroundings
from tugtool.plan import catalog, checkpoints
from tugtool.state import attempts, record, revisions, views
from tugtool.system import clock, config, os, process
from tugtool.workflow import trust
from tugtool.workflow.plans import LoadedPlan
from tugtool.workflow.worktree.create import WorktreeRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tugtool.agents.clis import AgentUsage
    from tugtool.implement.agent import AgentCommand
    from tugtool.implement.attempt import Attempt
    from tugtool.schemas import ImplementLeftItem, WorktreeCreate
    from tugtool.store import Row, Store
    from tugtool.system.config import Settings
    from tugtool.workflow.workspace import Workspace


#: A person's answers to an escalation.
CHOICES = ("retry", "park", "stop")
#: Each worker is a thread, a database connection and a worktree.
MOST_WORKERS = 64
#: How often a commit that the remote did not take is pushed again.
_PUBLISH_SECONDS = 30.0
#: A signal that has reached git reaches us within this time.
_SIGNAL_SECONDS = 3.0


#: The record keeps these events, because no step shows them.
_KEPT = ("cooling_down", "cooled_down", "finished")


class Terms:
    """The settings of a run."""

    def __init__(
        self,
        settings: Settings,
        *,
        workers: int | None,
        unattended: bool,
        until_milliseconds: int | None = None,
    ) -> None:
        number = settings.number
        self.workers = workers or _configured_workers(settings)
        self.lease_seconds = number("implement.lease_seconds")
        self.review_rounds = number("implement.review_rounds")
        self.budget_tokens = number("implement.budget_tokens")
        cost = settings.value("implement.budget_cost")
        assert isinstance(cost, int | float)
        self.budget_cost = float(cost)
        #: When the run stops by itself, in milliseconds since 1970.
        self.until_milliseconds = until_milliseconds
        self.transcript_bytes = number("implement.transcript_bytes")
        self.max_attempts = number("state.max_attempts")
        self.verify = bool(settings.value("implement.verify"))
        self.patience_seconds = number("implement.patience_seconds")
        self.question_seconds = number("implement.question_seconds")
        self.retry_seconds = _numbers(settings, "implement.retry_seconds") or [0]
        self.log_max_lines, self.log_max_bytes = number("log.max_lines"), number("log.max_bytes")
        #: True if there is no person to ask: then steps are parked.
        self.unattended = unattended


def _configured_workers(settings: Settings) -> int:
    key = "implement.workers"
    number = settings.number(key)
    if number > MOST_WORKERS:
        problem = f"{key} is {number}, and must be at most {MOST_WORKERS}"
        raise BadSetting(settings.file or config.CONFIG_PATH, problem, key=key)
    return number


def _numbers(settings: Settings, key: str) -> list[int]:
    value = settings.value(key)
    assert isinstance(value, list)
    return value


class Question:
    """A question to a person. The worker waits for the answer and keeps its claim."""

    def __init__(self, anchor: str | None, reason: str, choices: tuple[str, ...] = CHOICES) -> None:
        self.anchor, self.reason, self.choices = anchor, reason, choices
        self.choice = ""
        #: What the person says to the agent, with a choice to go on.
        self.note = ""
        self.answered = threading.Event()

    def answer(self, choice: str, note: str = "") -> bool:
        """Set the answer, or the default after the time limit; return whether it was the first."""
        first = not self.answered.is_set()
        if first:
            self.choice, self.note = choice, note
            self.answered.set()
        return first


def _permit(space: Workspace, order: WorktreeRequest, terms: Terms) -> trust.Permit:
    """Return the permission for agents; refuse commands of checkpoints before the first step."""
    given = trust.permit(space.repo, space.settings, "agents")
    if terms.verify:
        trust.permit_plan(space.repo, space.settings, checkpoints.commands_of(order.parsed))
    return given


class Run:
    """One `implement`. Any thread may use everything here."""

    #: A second receiver of events.
    listen: Callable[[dict[str, object]], None] | None = None
    #: Why the run has stopped by itself; empty if it has not.
    ended = ""
    #: The number of workers that are creating a worktree.
    _making = 0

    def __init__(
        self,
        space: Workspace,
        order: WorktreeRequest,
        parts: Mapping[str, AgentCommand],
        terms: Terms,
        *,
        tell: Callable[[dict[str, object]], None],
        ask: Callable[[Question], None],
    ) -> None:
        self.repo, self.parts, self.terms, self.order = space.repo, parts, terms, order
        self.settings = space.settings
        self.permit = _permit(space, order, terms)
        self.plan, self.surroundings = order.file.key, Surroundings(space.repo)
        #: Each thread opens its own store.
        self.open_store, self._tell, self._ask = space.open_store, tell, ask
        self.steps = {step.anchor: step for step in order.parsed.steps}
        self.stopping = threading.Event()
        #: One worker at a time looks for a step; the others wait for the lock.
        self.turn = threading.Lock()
        #: Set after each change that may free a step for an idle worker.
        self.news, self._lock = threading.Event(), threading.Lock()
        #: Steps that the database could not release, and how to release them.
        self.owed: list[tuple[Attempt, dict[str, str]]] = []
        #: Worktrees of this run's workers, by the name that owns the steps.
        self.owners: set[str] = set()
        #: Worktrees that were made before the workers began, with their reservations.
        self.made: list[tuple[WorktreeCreate, str | None]] = []
        #: Why workers failed; why each step was left (step -> reason).
        self.troubles: list[str] = []
        self.left: dict[str, str] = {}
        #: What the run waits for, as last reported; roles that failed, with their step.
        self._awaited: dict[str, str] = {}
        self.failures: set[tuple[str, str]] = set()
        #: The step and reason of git's last refusal; why refusals end the run, if they do.
        self._refused, self.refusal = ("", ""), ""
        #: Exceptions that are faults of ours.
        self.bugs: list[Exception] = []
        self.started = self._published_at = clock.ticks()
        self.timer, self.cooling = cooling.Timer(), cooling.Cooling(self)

    def stop(self) -> None:
        """Begin no further step, and give back those under way."""
        self.stopping.set()
        self.news.set()

    def end(self, reason: str) -> None:
        """Stop the run and record why."""
        self.ended = self.ended or reason
        self.stop()

    def refuse(self, anchor: str, reason: str, path: str) -> bool:
        """Note git's refusal. If git refused the step before alike, end the run and return True."""
        alike = cooling.without_variables(reason, path)
        with self._lock:
            before, self._refused = self._refused, (anchor, alike)
        if before[0] == anchor or before[1] != alike:
            return False
        self.refusal = f"git refuses the same at {before[0]} and at {anchor}: {reason}"
        self.stop()
        return True

    def accepted(self) -> None:
        """Note that git accepted a step."""
        self._refused = ("", "")

    def is_stopped_by(self, error: TugError) -> bool:
        """Return whether the error comes from the end of the run.

        Ctrl-C also reaches a running git or its hook, which then fails, sometimes before the
        signal reaches us.
        """
        return self.stopping.wait(_SIGNAL_SECONDS if isinstance(error, GitFailed) else 0)

    def order_for(self, name: str, *, new_from: str | None = None) -> WorktreeRequest:
        """Return a worker's request for `worktree create`, reserved while this process runs.

        `new_from`: make a new worktree from that branch instead of reusing one.
        """
        return WorktreeRequest(
            self.order.plan,
            base=new_from or self.order.base,
            new=new_from is not None,
            request_id=process.stamp(name),
            is_stopped=self.stopping.is_set,
        )

    def follow(self, store: Store) -> bool:
        """Take a new agreed text of the plan; return whether there was one."""
        row = record.find_plan(store, self.plan)
        if row is None or row["plan_hash"] == self.order.hash:
            return False
        with self._lock:
            text, agreed = revisions.agreed_text(store, self.plan)
            if agreed == self.order.hash:
                # Another worker has taken it already.
                return True
            plan = LoadedPlan(self.order.file, text.encode())
            order = WorktreeRequest(plan, base=self.order.base)
            # Keep removed steps: workers may still be at them.
            self.steps = {**self.steps, **{step.anchor: step for step in order.parsed.steps}}
            self.order = order
        return True

    def is_plan_agreed(self) -> bool:
        """Return whether the plan's file has the agreed text."""
        path = self.order.file.path
        try:
            return catalog.file_fingerprint(path) == self.order.hash
        except TugError:
            return False

    def tell(self, event: str, **facts: object) -> None:
        """Report an event to people and programs."""
        at = round(clock.ticks() - self.started, 3)
        told = {key: value for key, value in facts.items() if value is not None}
        whole = {"event": event, "plan_path": self.plan, "elapsed_seconds": at, **told}
        if event in _KEPT:
            self.keep(event, told)
        if self.listen is not None:
            self.listen(whole)
        self._tell(whole)

    def keep(self, event: str, told: Mapping[str, object]) -> None:
        """Record an event of the run, with the process that runs it."""
        # The run must not fail because the log cannot be written.
        with contextlib.suppress(TugError), contextlib.closing(self.open_store()) as store:
            facts = {key: told[key] for key in ("status", "reason") if key in told}
            worker = process.process(os.getpid())
            attempts.note_run(store, self.plan, event, process=worker, **facts)

    def warn(self, message: str, **facts: object) -> None:
        """Tell a person something that needs no decision."""
        self.tell("warning", message=message, **facts)

    def ask(self, question: Question) -> None:
        """Pass a question to the terminal; park if there is no person to ask."""
        if self.terms.unattended:
            question.answer("park")
        else:
            self._ask(question)

    def owe(self, work: Attempt, how: dict[str, str]) -> None:
        """Remember a step that the database could not release."""
        with self._lock:
            self.owed.append((work, how))

    def take_owed(self) -> list[tuple[Attempt, dict[str, str]]]:
        """Return and forget all steps that are still to be released."""
        with self._lock:
            owed, self.owed = self.owed, []
        return owed

    def may_publish(self) -> bool:
        """Return whether it is time to push again what the remote did not take."""
        with self._lock:
            due = clock.ticks() >= self._published_at + _PUBLISH_SECONDS
            self._published_at = clock.ticks() if due else self._published_at
        return due

    def may_make(self, ready: int, *, lasting: bool) -> bool:
        """Return whether a worker should create one more worktree for the ready steps.

        Workers with a worktree may take them; only steps that stay ready need another.
        """
        with self._lock:
            others = 0 if lasting else len(self.owners)
            granted = self._making + others < ready
            self._making += granted
        return granted

    def take_made(self) -> tuple[WorktreeCreate, str | None] | None:
        """Return a worktree that was made before the workers began, or None."""
        with self._lock:
            return self.made.pop(0) if self.made else None

    def made_one(self) -> None:
        """Note that a worker has created its worktree, or failed to."""
        with self._lock:
            self._making -= 1

    def wait_for(self, why: Mapping[str, str]) -> None:
        """Report what this run waits for, when it changes: steps with the reason, or no step."""
        with self._lock:
            known = why == self._awaited
            self._awaited = dict(why)
        if why and not known:
            said = "; ".join(f"{anchor} {reason}".strip() for anchor, reason in why.items())
            self.tell("waiting", steps=[anchor for anchor in why if anchor], reason=said)

    def is_broke(self, store: Store) -> str:
        """Return which budget is used up; empty if none is."""
        terms, plan = self.terms, self.plan
        if terms.budget_tokens and state.spent_tokens(store, plan) >= terms.budget_tokens:
            return f"the budget of {terms.budget_tokens:,} tokens is used up"
        most = round(terms.budget_cost * 1_000_000)
        if most and state.spent_microdollars(store, plan) >= most:
            return f"the budget of ${terms.budget_cost:.2f} is used up"
        return ""

    def look_at_clock(self) -> None:
        """Stop at the time of --until."""
        until = self.terms.until_milliseconds
        if until is not None and self.timer.milliseconds() >= until:
            self.end("the time that --until named has come")

    def remaining(self, store: Store) -> Remaining:
        """Read how the plan stands now."""
        return Remaining(store, self.plan)


class End(Exception):
    """This worker ends its work on the step."""


class Lost(End):
    """The claim was lost; the worker touches nothing more."""


class Stopped(End):
    """The whole run was asked to end."""


class Elsewhere(End):
    """The step needs another worktree: earlier work in this one conflicts with it."""


class Astray(Exception):
    """The worktree was replaced or moved; git must not run there."""

    def __init__(self, path: str, wrong: str) -> None:
        super().__init__(f"{path} cannot be used: {wrong}; its files stay as they are")
        #: The usage of the agent that ran there.
        self.usage = clis.NOTHING


class Failed(End):
    """An agent gave no usable answer in all its tries."""

    def __init__(self, role: str, reason: str, usage: AgentUsage) -> None:
        super().__init__(f"the {role} failed: {reason}")
        #: The cost of all its tries.
        self.role, self.usage = role, usage


class Parked(End):
    """The step waits for a person; the message says why."""


class Escalation(Exception):
    """A person has to decide; they may also ask for another try."""

    def __init__(self, reason: str, **facts: object) -> None:
        super().__init__(reason)
        self.facts = facts


class Remaining:
    """Every unfinished step of a plan, by how it stands now."""

    def __init__(self, store: Store, plan: str) -> None:
        row, self.rows, live = views.steps_at_work(store, plan)
        self.plan, self.paused = plan, row["paused_at"] is not None
        self.unfinished = [step for step in self.rows if step["status"] != "completed"]
        self.standings = {
            step["anchor"]: _standing(step, live=step["anchor"] in live) for step in self.unfinished
        }
        #: Steps that can be claimed; steps that a live worker holds.
        self.ready, self.live = self._all("ready"), self._all("held")

    def _all(self, standing: str) -> list[str]:
        return [anchor for anchor, known in self.standings.items() if known == standing]

    @property
    def done(self) -> bool:
        """Return whether every step is completed."""
        return not self.unfinished

    def held_by_others(self, owners: set[str]) -> dict[str, str]:
        """Return step -> owner for held steps; empty if one of `owners` holds one."""
        held = {row["anchor"]: row["claimed_by"] for row in self.rows if row["anchor"] in self.live}
        return {} if owners & set(held.values()) else held

    def left_over(self, why: Mapping[str, str]) -> list[ImplementLeftItem]:
        """Return each unfinished step with the reason and the command that frees it."""
        return [self._left(row, why) for row in self.unfinished]

    def _left(self, row: Row, why: Mapping[str, str]) -> ImplementLeftItem:
        anchor = row["anchor"]
        standing = self.standings[anchor]
        # A park reason includes the failure; for other steps the run knows more.
        reason = row["park_reason"] if standing == "parked" else why.get(anchor)
        if reason is None and standing == "blocked":
            reason = "it waits for steps before it"
        name = plan_argument(self.plan)
        free = f"tugcode review {name} --retry --step {quoted(anchor)}"
        return {
            "step_anchor": anchor,
            "title": row["title"],
            "parked": standing == "parked",
            "reason": reason or "it was not begun",
            "frees": free if standing == "parked" else None,
        }


def _standing(step: Row, *, live: bool) -> str:
    if live:
        # Its holder may still finish it, even if it is parked.
        return "held"
    if step["parked_at"] is not None:
        return "parked"
    return "blocked" if step["open_deps"] else "ready"
