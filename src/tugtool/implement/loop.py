"""Prepare, start and sum up a run; the dry run."""

from __future__ import annotations

import contextlib
import queue
import threading
from itertools import islice

from tugtool import state
from tugtool.agents import confinement as clis_confinement
from tugtool.errors import CannotRun, TugError, merge_command, plan_argument
from tugtool.errors.git import NotMade
from tugtool.implement import agent, audit, recovery, step
from tugtool.implement.run import Remaining, Stopped
from tugtool.implement.worker import Worker
from tugtool.plan import checkpoints
from tugtool.state import proofs, record, reviews
from tugtool.store import back_up
from tugtool.system import clock, command, config, os, text
from tugtool.system.command import Streams
from tugtool.workflow import trust
from tugtool.workflow.doctor import machine as preflight
from tugtool.workflow.trust_question import TrustQuestion
from tugtool.workflow.worktree import branches, create

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tugtool.git import Repository
    from tugtool.implement.agent import AgentCommand
    from tugtool.implement.run import Run, Terms
    from tugtool.schemas import ImplementAgent, ImplementCommand, ImplementTodoItem
    from tugtool.store import Store
    from tugtool.system.config import Settings
    from tugtool.workflow.workspace import Workspace
    from tugtool.workflow.worktree.create import WorktreeRequest

    Data = dict[str, object]


#: About five thousand files: checking them out takes a moment.
SMALL_INDEX_BYTES = 1 << 19


UNVERIFIED = (
    "the commands of checkpoints are not run ([implement] verify = false): "
    "the reviewer's word counts for them, and merge asks for --unproven"
)


def prepare(run: Run, store: Store) -> None:
    """Refuse a run that cannot succeed, before it begins; create the plan's state."""
    if store.exists():
        # Complete a half-made database before it is read.
        store.create()
    known = state.is_recorded(store, run.plan)
    _refuse(run.repo, store, run.order, run.remaining(store) if known else None, run.settings)
    store.create()
    if known:
        # This comes first: a step that needs only its completion has no unfinished work.
        recovery.finish_commits(run, store, own="")
        recovery.finish(run, store)
    ready = len(run.remaining(store).ready) if known else _ready_at_first(run)
    if ready:
        _make(run, store, min(ready, run.terms.workers))


def _ready_at_first(run: Run) -> int:
    # At least one: a substep may need only its own step's substeps.
    return sum(not any(each.needs for each in step.family()) for step in run.steps.values()) or 1


def _make(run: Run, store: Store, number: int) -> None:
    """Make the worktrees that are needed at once; only the first if each takes long."""
    orders = [run.order_for(f"implement 0.{each}") for each in range(number)]
    for order in orders:
        # The terminal shows nothing else yet.
        order.announce = run.order.announce
    index = os.path.join(run.repo.common_dir, "index")
    quick = os.path.exists(index) and os.path.getsize(index) < SMALL_INDEX_BYTES
    try:
        made = create.create_all(run.repo, store, orders if quick else orders[:1])
    except NotMade as error:
        if number == 1 or not quick or error.of_setup:
            raise
        # Perhaps there is room for one. A worker that needs another reports the error.
        made = create.create_all(run.repo, store, orders[:1])
    stamps = [order.request_id for order in orders]
    run.made += zip(made, stamps, strict=False)


#: The time limit of the `[notify]` command for each event.
NOTICE_SECONDS = 10.0


class Notices:
    """Runs the `[notify]` command in the background; it cannot delay or fail the run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        words, kinds = (run.settings.value(f"notify.{name}") for name in ("command", "on"))
        assert isinstance(words, list)
        assert isinstance(kinds, list)
        self.words, self.kinds = words, kinds
        self._events: queue.SimpleQueue[Data | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="notices", daemon=True)
        if words:
            run.listen = self.hear
            self._thread.start()

    def hear(self, event: Data) -> None:
        """Pass an event on if `[notify]` asks for it. Any thread may call this."""
        kind = {"escalated": "needs_person", "cooling_down": "cooling_down"}.get(
            str(event["event"])
        )
        if event["event"] == "finished":
            kind = "done" if event["status"] == "done" else "stopped"
        if kind in self.kinds:
            self._events.put({"notice": kind, **event})

    def close(self) -> None:
        """Wait for the commands that are due, at most as long as one may take."""
        if self._thread.is_alive():
            self._events.put(None)
            self._thread.join(NOTICE_SECONDS + command.GRACE_SECONDS)

    def _work(self) -> None:
        warned = False
        while (event := self._events.get()) is not None:
            problem = self._told(event)
            if problem and not warned:
                warned = True
                self.run.warn(f"the command of [notify] failed: {problem}")

    def _told(self, event: Data) -> str:
        # Its output would spoil the picture on the terminal.
        streams = Streams.keep(given=text.encode(event).encode() + b"\n")
        env = config.command_environment()
        try:
            child = self.run.permit.run(
                self.words,
                cwd=self.run.repo.root,
                env=env,
                streams=streams,
                limit_seconds=NOTICE_SECONDS,
            )
        except (CannotRun, OSError) as error:
            return str(error)
        if child.timed_out:
            return f"it took longer than {NOTICE_SECONDS:g} s and was stopped"
        return f"it ended with exit status {child.status}" if child.status else ""


def start(run: Run) -> threading.Thread:
    """Carry the plan out in a thread, whose last event is `finished`."""
    command.raise_descriptor_limit()
    thread = threading.Thread(target=_conduct, args=(run,), name="implement", daemon=True)
    thread.start()
    return thread


def _conduct(run: Run) -> None:
    notices = Notices(run)
    run.keep("started", {})
    result: Data = {"status": "failed", "reason": "an unexpected error ended the run"}
    try:
        with contextlib.closing(run.open_store()) as store:
            _work(run, store)
            recovery.leave_unused(run, store)
            recovery.pay_debts(run, store)
            recovery.publish(run, store, now=True)
            result = _result(run, store)
    except TugError as error:
        result = {"status": "failed", "reason": error.message, "left": []}
    except Exception as error:
        run.bugs.append(error)
    finally:
        run.tell("finished", **result)
        notices.close()


def _work(run: Run, store: Store) -> None:
    if run.remaining(store).done:
        return
    run.tell("started", workers=run.terms.workers, total_steps=len(run.steps))
    if not run.terms.verify:
        run.warn(UNVERIFIED)
    threads = [
        threading.Thread(target=Worker(run, number).work, name=f"worker {number}", daemon=True)
        for number in range(1, run.terms.workers + 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _result(run: Run, store: Store) -> Data:
    """Return the outcome and the steps that are left."""
    seen = run.remaining(store)
    if seen.done:
        try:
            why = audit.conclude(run, store)
        except (Stopped, TugError) as error:
            if isinstance(error, TugError) and not run.is_stopped_by(error):
                raise
            return _as_data(run, store, "stopped", run.ended or "the run was stopped")
        status = "done" if why is None else "not_approved"
        return _as_data(run, store, status, why)
    status, reason = _ending(run, store, paused=seen.paused)
    return {**_as_data(run, store, status, reason), "left": seen.left_over(run.left)}


def _ending(run: Run, store: Store, *, paused: bool) -> tuple[str, str]:
    if run.refusal:
        return "failed", run.refusal
    if run.stopping.is_set():
        return "stopped", run.ended or "the run was stopped"
    if run.troubles:
        return "failed", run.troubles[0]
    if paused:
        return "paused", "the plan is paused; to continue: tugcode resume"
    broke = run.is_broke(store)
    if broke:
        return "budget", broke
    return "unfinished", "what is left waits for a person"


def _merge(run: Run) -> str:
    return merge_command(run.plan, push=run.settings.is_set("remote.name"))


def _as_data(run: Run, store: Store, status: str, reason: str | None) -> Data:
    trouble = back_up(store, pending=True)
    if trouble is not None:
        run.warn(trouble)
    row = record.require_plan(store, run.plan)
    mergeable = status == "done" and row["merged_commit"] is None
    then: str | None = _merge(run) if mergeable else None
    if mergeable and (waiting := len(reviews.unsettled(store, run.plan))):
        items = "1 item waits" if waiting == 1 else f"{waiting} items wait"
        reason, then = f"{items} for a person", f"tugcode review {plan_argument(run.plan)}"
    facts = proofs.facts(store, run.plan)
    base = branches.outgrown(run.repo, facts) if status == "done" else None
    if base is not None:
        reason, then = branches.outgrown_text(facts, base)
    return {
        "status": status,
        "reason": reason,
        "completed_steps": row["steps_done"],
        "total_steps": row["steps_total"],
        # None if no agent reported any.
        "tokens": state.spent_tokens(store, run.plan) or None,
        "next": then,
        "left": [],
    }


def rehearse(
    space: Workspace, order: WorktreeRequest, parts: Mapping[str, AgentCommand], terms: Terms
) -> Data:
    """Return what a run would do; refuse what a run would refuse."""
    store, plan = space.store, order.file.key
    seen = Remaining(store, plan) if state.is_recorded(store, plan) else None
    _refuse(space.repo, store, order, seen, space.settings)
    todo, reused, until = _todo(order, seen), [], terms.until_milliseconds
    most = min(terms.workers, len(todo))
    if seen is not None:
        # Look at no more than are needed: each has to prove that its work is unmerged.
        reused = [tree.path for tree in islice(create.free(space.repo, store, order), most)]
    return {
        "event": "dry_run",
        "plan_path": plan,
        "workers": terms.workers,
        "lease_seconds": terms.lease_seconds,
        "review_rounds": terms.review_rounds,
        "budget_tokens": terms.budget_tokens,
        "budget_cost": terms.budget_cost,
        "until": until if until is None else clock.text(until),
        "verify": terms.verify,
        "agents": [_agent(role, parts.get(role)) for role in agent.ROLES],
        "commands": _commands(space, plan, terms),
        "untrusted": _untrusted(space, order, terms),
        "push_remote": audit.remote(space.repo) if "integrator" in parts else None,
        "done": seen is not None and seen.done,
        "paused": seen is not None and seen.paused,
        "tokens": 0 if seen is None else state.spent_tokens(store, plan),
        "cost": 0.0 if seen is None else state.spent_microdollars(store, plan) / 1_000_000,
        "todo": todo,
        "reused_worktrees": reused,
        "new_worktrees": most - len(reused),
    }


def _agent(role: str, part: AgentCommand | None) -> ImplementAgent:
    """Return the command of a role. Only names of variables are shown: values may be secrets."""
    return {
        "role": role,
        "command": part and part.argv,
        "timeout_seconds": part and part.timeout_seconds,
        "tries": part and part.tries,
        "env": sorted(part.env) if part else [],
        "confinement": clis_confinement.described(part.agent) if part else None,
    }


def _commands(space: Workspace, plan: str, terms: Terms) -> list[ImplementCommand]:
    """Return every command that the run would start, beside those of agents."""
    sources = ("worktree.setup", "notify.command", *((plan,) if terms.verify else ()))
    found = TrustQuestion(space.repo.root).describe()["commands"]
    return [
        {"source": each["source"], "command": each["command"]}
        for each in found
        if each["source"] in sources
    ]


def _untrusted(space: Workspace, order: WorktreeRequest, terms: Terms) -> str | None:
    """Return why the run would be refused without this user's trust."""
    lines = checkpoints.commands_of(order.parsed) if terms.verify else []
    found = trust.notices(space.repo.root, space.settings, lines)
    return str(found[0]["message"]) if found else None


def _refuse(
    repo: Repository,
    store: Store,
    order: WorktreeRequest,
    seen: Remaining | None,
    settings: Settings,
) -> None:
    """Raise all problems that would stop the run, before an agent starts."""
    drifted = list(preflight.of_record(repo, store, order))
    problems = [*preflight.of_agents(settings, agent.ROLES), *drifted]
    if seen is None or seen.ready:
        problems += preflight.of_machine(repo)
        problems += preflight.of_plan(repo, order, agreed=not drifted)
        problems += step.unusable_commit_lines(order, repo.root)
    preflight.refuse(repo, problems)


def _todo(order: WorktreeRequest, seen: Remaining | None) -> list[ImplementTodoItem]:
    """Return the unfinished steps in order."""
    if seen is None:
        steps = [(step.anchor, step.title, "pending") for step in order.parsed.steps]
    else:
        steps = [
            (row["anchor"], row["title"], seen.standings[row["anchor"]]) for row in seen.unfinished
        ]
    return [
        {"step_anchor": anchor, "title": title, "status": standing}
        for anchor, title, standing in steps
    ]
