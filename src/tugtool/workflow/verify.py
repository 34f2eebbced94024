"""verify: run the commands of a step's checkpoints, and record the results.

Only commands of the agreed text run. Meanwhile the claim is renewed and watched. All results
are recorded at the end in one transaction, if the claim is still the same.
"""

from __future__ import annotations

from typing import NamedTuple

from tugtool import state
from tugtool.errors import NoRepository
from tugtool.errors.state import InvalidEntry
from tugtool.git import containing, git_dir, status
from tugtool.plan import checkpoints
from tugtool.state import completion
from tugtool.state import record as state_record
from tugtool.state.completion import Finding
from tugtool.state.leases import LOOK_SECONDS, Keeper
from tugtool.system import clock, config, os, secrets, text
from tugtool.system.command import Streams
from tugtool.workflow import held_step, salvage, trust

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from tugtool.git import Repository
    from tugtool.plan.checkpoints import Reading
    from tugtool.schemas import Issue
    from tugtool.state.record import PlanCopy
    from tugtool.store import Store
    from tugtool.system.config import Settings
    from tugtool.workflow.trust import Permit
    from tugtool.workflow.workspace import Workspace

    Data = dict[str, Any]


#: How much of a command's output is read, and how much of it is kept.
_READ_BYTES, _KEPT_CHARACTERS, _KEPT_LINES = 65536, 2000, 40

#: Why a command that exits with 0 may still not show what the checkpoint asks for.
NOTES = {
    checkpoints.NO_OUTPUT: "its words ask for no output: it passes if the command exits with 0 and "
    "prints nothing, as `! grep ...` does",
    checkpoints.FAILURE: "its words ask for a failure, which exit status 0 cannot show; "
    "`! command` would",
}


class CheckSite(NamedTuple):
    """Where checkpoints run, and for which owner; a `Workspace` is one too."""

    repo: Repository
    settings: Settings
    store: Store
    worktree: str
    owner: str
    #: Reads the plan's file there.
    copy: Callable[[str], PlanCopy]


class Checkpoint:
    """A checkpoint, its commands, and their results."""

    __slots__ = ("anchor", "finding", "ordinal", "reading", "status", "text")

    def __init__(self, item: Data, reading: Reading) -> None:
        self.anchor: str = item["step_anchor"]
        self.ordinal: int = item["ordinal"]
        self.text: str = item["text"]
        self.status: str = item["status"]
        self.reading = reading
        self.finding: Finding | None = None

    @property
    def is_command(self) -> bool:
        """True if a passing run completes it."""
        return checkpoints.kind_of(self.text) == checkpoints.COMMAND

    @property
    def outcome(self) -> str:
        """The result in one word; for an open command, whether it has run."""
        if self.finding is not None:
            return "passed" if self.finding.passed else "failed"
        return "refused" if self.reading.reason == "unprintable" else "not_run"

    def data(self) -> Data:
        """Return its part of the answer."""
        ticked = self.outcome == "passed" and self.status != "completed"
        return {
            "step_anchor": self.anchor,
            "ordinal": self.ordinal,
            "text": self.text,
            "status": "completed" if ticked else self.status,
            "outcome": self.outcome,
            "ticked": ticked,
            "reason": self.reading.reason,
            "commands": self.reading.commands,
            "evidence": None if self.finding is None else dict(self.finding.evidence),
        }


class Task:
    """The agreed checkpoints of a held step."""

    __slots__ = (
        *("anchor", "attempt", "checkpoints", "lease_seconds", "plan", "plan_hash", "top", "tree"),
    )

    def __init__(self, facts: Data, ordinals: Sequence[object]) -> None:
        self.plan: str = facts["plan_path"]
        self.anchor: str = facts["anchor"]
        self.top: str = facts["top"]
        self.attempt: int = facts["attempt"]
        self.lease_seconds: float = facts["lease_seconds"]
        self.plan_hash: str = facts["plan_hash"]
        #: The worktree's tree during the run, if it is to be committed.
        self.tree: str | None = None
        items = _selected(facts["items"], self.anchor, ordinals) if ordinals else facts["items"]
        self.checkpoints = [Checkpoint(item, checkpoints.read(item["text"])) for item in items]

    @property
    def to_run(self) -> list[Checkpoint]:
        """Return the checkpoints with commands that can run."""
        return [each for each in self.checkpoints if each.reading.reason is None]

    def data(self) -> Data:
        """Return the answer, whether or not a command ran."""
        listed = [each.data() for each in self.checkpoints]
        outcomes = [each["outcome"] for each in listed]
        return {
            "plan_path": self.plan,
            "step_anchor": self.anchor,
            "anchor": self.anchor,
            "attempt": self.attempt,
            "checkpoints": listed,
            **{name: outcomes.count(name) for name in ("passed", "failed", "refused", "not_run")},
            "ticked": sum(each["ticked"] for each in listed),
        }


def prepare(
    space: Workspace,
    plan: str,
    anchor: str,
    *,
    attempt: int | None,
    ordinals: Sequence[object] = (),
    runs: bool = False,
) -> Task:
    """Return the caller's task in its worktree, which must belong to the repository.

    Refuse a caller that does not hold the step, a changed plan, and, if the caller `runs` the
    task, a repository without trust. With `ordinals` take only those checkpoints of the step or
    substep itself.
    """
    copy = space.copy(plan)
    facts = completion.checkpoints(
        space.store, plan, anchor, owner=space.owner, attempt=attempt, copy=copy
    )
    task = Task(facts, ordinals)
    top = space.worktree
    found = containing(top) if os.path.isdir(top) else None
    if found is None or (found.worktree, found.common_dir) != (top, space.repo.common_dir):
        reason = "is not a worktree of this repository, and commands have to run in one"
        raise NoRepository(top, reason=reason, hint="git worktree list")
    if runs and task.to_run:
        permitted(space, task)
    return task


def _selected(items: list[Data], anchor: str, ordinals: Sequence[object]) -> list[Data]:
    own = {item["ordinal"]: item for item in items if item["step_anchor"] == anchor}
    for ordinal in ordinals:
        if ordinal not in own:
            valid = f"0 to {len(own) - 1}" if own else f"{anchor} has no checkpoint"
            problem = f"there is no checkpoint {ordinal!r:.60}"
            raise InvalidEntry(problem, valid=valid, command="verify")
    return [item for ordinal, item in own.items() if ordinal in ordinals]


#: A longer command is stopped, unless --timeout allows it.
LIMIT_SECONDS = 600.0


def before_commit(
    space: Workspace,
    plan: str,
    anchor: str,
    *,
    attempt: int | None,
    run: bool,
    strict: bool,
    hear: Callable[[str], None],
) -> str | None:
    """Run the command checkpoints before a step's commit. Return the tree they ran on.

    Return None if they changed it. With `strict` raise E051 if an item is open or fails.
    """
    row = state_record.find_step(space.store, plan, anchor)
    if row is not None and row["status"] == "completed":
        return None
    task = prepare(space, plan, anchor, attempt=attempt)
    task.checkpoints = [each for each in task.checkpoints if each.is_command]
    if run and task.checkpoints:
        carry_out(space, task, limit_seconds=LIMIT_SECONDS, hear=hear, committing=True)
    if strict:
        failed = [each.finding for each in task.checkpoints if each.outcome == "failed"]
        keys = [(each.anchor, each.ordinal) for each in failed if each is not None]
        who: Data = {"owner": space.owner, "attempt": attempt}
        completion.refuse_open(space.store, plan, anchor, **who, failed=keys)
    return task.tree


def carry_out(
    space: Workspace,
    task: Task,
    *,
    limit_seconds: float,
    hear: Callable[[str], None],
    committing: bool = False,
    watch: Callable[[], object] = lambda: None,
) -> Data:
    """Run all commands, then record the results. `hear` gets each command before it runs.

    `committing`: the work is committed next, so the task keeps the checked tree. `watch` may
    raise to stop the commands; then nothing is recorded.
    """
    before = salvage.tree_of(space.worktree) if committing else None
    _run_all(space, task, limit_seconds, hear, watch)
    # If the commands changed files, they did not run on the final tree.
    if before is not None and salvage.tree_of(space.worktree) == before:
        task.tree = before
    return record(space, task)


def _run_all(
    space: Workspace,
    task: Task,
    limit_seconds: float,
    hear: Callable[[str], None],
    stop: Callable[[], object],
) -> None:
    keeper = keeper_of(space, task)

    def watch() -> None:
        stop()
        if not keeper.holds():
            # The task may be a substep's; the claim belongs to its step.
            who: Data = {"owner": keeper.owner, "attempt": keeper.attempt}
            completion.refuse_lost(keeper.store, task.plan, task.anchor, **who)

    run_all(space, task, Limits(limit_seconds, keeper, watch), hear=hear)


class Limits(NamedTuple):
    """The limits of a command: its time, and what `watch` raises."""

    seconds: float
    #: Renews the claim, and knows how long the renewal can wait.
    keeper: Keeper
    watch: Callable[[], None]


def run_all(
    site: Workspace | CheckSite, task: Task, limits: Limits, *, hear: Callable[[str], None]
) -> None:
    """Run the commands of every checkpoint that has some."""
    permit = permitted(site, task) if task.to_run else None
    for checkpoint in task.to_run:
        assert permit is not None
        checkpoint.finding = _checked(site, task, checkpoint, limits, permit, hear)


def permitted(site: Workspace | CheckSite, task: Task) -> Permit:
    """Return the permission to run the commands; refuse with E110 without it."""
    lines = [line for each in task.to_run for line in each.reading.commands]
    return trust.permit_plan(site.repo, site.settings, lines)


def notices(space: Workspace, texts: Iterable[str]) -> list[Issue]:
    """Return a warning if the commands of checkpoints with these texts may not run."""
    lines = checkpoints.commands_in(texts)
    return trust.notices(space.repo.root, space.settings, lines) if lines else []


def record(site: Workspace | CheckSite, task: Task) -> Data:
    """Record the results."""
    findings = [each.finding for each in task.to_run if each.finding is not None]
    for finding in findings:
        finding.evidence = {**finding.evidence, "tree": task.tree}
    recorded = state.verify(
        site.store,
        task.plan,
        task.anchor,
        findings,
        owner=site.owner,
        attempt=task.attempt,
        copy=site.copy(task.plan),
        plan_hash=task.plan_hash,
        summary=_summary(findings),
    )
    for finding in findings:
        finding.evidence = {**finding.evidence, "at": recorded["at"]}
    kept = ("lease_expires_at", "artifact_id")
    return {**task.data(), **{name: recorded[name] for name in kept}}


def keeper_of(space: Workspace, task: Task) -> Keeper:
    """Return the keeper that renews the claim during commands and notices its loss."""
    who: Data = {"owner": space.owner, "attempt": task.attempt}
    return Keeper(space.store, task.plan, task.top, **who, lease_seconds=task.lease_seconds)


def _checked(
    site: Workspace | CheckSite,
    task: Task,
    checkpoint: Checkpoint,
    limits: Limits,
    permit: Permit,
    hear: Callable[[str], None],
) -> Finding:
    """Run the commands of one checkpoint up to the first failure."""
    home = git_dir(site.worktree)
    before = status.inspect(site.worktree, home)
    ran: list[Data] = []
    for command in checkpoint.reading.commands:
        hear(command)
        ran.append(_run(site, task, command, limits, permit))
        # The settings of another git directory would have the next git command run anything.
        if git_dir(site.worktree) != home:
            reason = f"is not a worktree of this repository any more: `{command}` replaced its .git"
            raise NoRepository(site.worktree, reason=reason, hint="git worktree repair")
        if ran[-1]["exit_status"] or ran[-1]["timed_out"]:
            break
    passed = _passes(ran, checkpoint.reading.expects)
    evidence = {
        "passed": passed,
        "commands": ran,
        "commit": before.head,
        "dirty": before.dirty,
        "worktree": site.owner,
        "attempt": task.attempt,
        "note": None if passed else NOTES.get(checkpoint.reading.expects),
        "tree": None,
        "judged": None,
    }
    return Finding(checkpoint.anchor, checkpoint.ordinal, passed=passed, evidence=evidence)


def _passes(ran: list[Data], expects: str) -> bool:
    if ran[-1]["exit_status"] or ran[-1]["timed_out"] or expects == checkpoints.FAILURE:
        return False
    return expects != checkpoints.NO_OUTPUT or not any(each["output_bytes"] for each in ran)


def _run(
    site: Workspace | CheckSite, task: Task, command: str, limits: Limits, permit: Permit
) -> Data:
    about = held_step.variables(site.worktree, task.plan, task.top, task.attempt)
    limits.keeper.renew()
    nap = limits.keeper.nap
    where = (site.worktree, about, limits.seconds)
    return run_line(permit, command, *where, nap=nap, watch=limits.watch)


def run_line(
    permit: Permit,
    command: str,
    cwd: str,
    about: Mapping[str, str],
    seconds: float,
    *,
    nap: Callable[[], float] = lambda: LOOK_SECONDS,
    watch: Callable[[], None] = lambda: None,
) -> Data:
    """Run a shell command line without input, within a time limit. Return its result.

    It is confined like the coder, whose code it runs. `watch` is called after every `nap`, and
    may raise to end the command.
    """
    environment = {**config.command_environment(), **about}
    began = clock.ticks()
    streams = Streams.keep(head=0, tail=_READ_BYTES, merged=True)
    argv = ["/bin/sh", "-c", command]
    with permit.place(cwd, environment) as place:
        how: Data = {"env": place.environment(environment), "confined": place.how}
        how["marks"] = place.how is not None
        # However this ends, the command's whole process group ends with it.
        with permit.start(argv, cwd=cwd, streams=streams, **how) as running:
            end = began + seconds
            while not running.wait(min(nap(), max(0.0, end - clock.ticks()))):
                if clock.ticks() >= end:
                    running.timed_out = True
                    running.stop()
                    break
                watch()
    kept = {"most_characters": _KEPT_CHARACTERS, "most_lines": _KEPT_LINES}
    return {
        "command": command,
        "exit_status": running.status,
        "timed_out": running.timed_out,
        "duration_seconds": round(clock.ticks() - began, 3),
        "output_tail": text.tail(secrets.Mask(environment).data(running.out.tail), **kept),
        "output_bytes": running.out.total,
    }


def _summary(findings: Sequence[Finding]) -> str:
    passed = sum(finding.passed for finding in findings)
    told = [
        f"`{each['command']}` {completion.ended(each)}"
        for finding in sorted(findings, key=lambda finding: finding.passed)
        for each in finding.evidence["commands"]  # type: ignore[attr-defined]  # made above
    ]
    return f"{passed} of {len(findings)} checkpoints verified: {'; '.join(told)}"
