"""verify: run the commands that a step's checkpoints name, and record what came of them.

Nothing is run that is not in the agreed text of the plan; while it runs, the claim is
renewed and watched; and all is recorded at once at the end, if the claim is still the same.
"""

from __future__ import annotations

from tugtool import child, clock, config, harmless, state, tree
from tugtool.keeping import Keeper
from tugtool.plan import commands
from tugtool.state import proof, verifying
from tugtool.state.verifying import Finding
from tugtool.state_errors import InvalidEntry
from tugtool.streams import Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tugtool.plan.commands import Reading
    from tugtool.state.record import PlanCopy
    from tugtool.store import Store

    Data = dict[str, Any]

#: What is read back of a command's output, and what of it is kept.
_READ_BYTES, _KEPT_CHARACTERS, _KEPT_LINES = 65536, 2000, 40

#: Why a command that exits with 0 may still not be what the checkpoint asks for.
NOTES = {
    commands.NO_OUTPUT: "its words ask for no output: it passes if the command exits with 0 and "
    "prints nothing, as `! grep ...` does",
    commands.FAILURE: "its words ask for a failure, which exit status 0 cannot show; "
    "`! command` would",
}


class Site:
    """Who runs commands, and where."""

    __slots__ = ("copy", "git_dir", "owner", "store", "worktree")

    def __init__(
        self,
        store: Store,
        *,
        worktree: str,
        git_dir: str,
        owner: str,
        copy: Callable[[str], PlanCopy],
    ) -> None:
        self.store = store
        self.worktree = worktree
        self.git_dir = git_dir
        self.owner = owner
        self.copy = copy


class Checkpoint:
    """One checkpoint, what is to be run for it, and what came of that."""

    __slots__ = ("anchor", "finding", "ordinal", "reading", "status", "text")

    def __init__(self, item: Data, reading: Reading) -> None:
        self.anchor: str = item["step_anchor"]
        self.ordinal: int = item["ordinal"]
        self.text: str = item["text"]
        self.status: str = item["status"]
        self.reading = reading
        self.finding: Finding | None = None

    @property
    def outcome(self) -> str:
        """In one word; of one that can be run, whether it has been."""
        if self.finding is not None:
            return "passed" if self.finding.passed else "failed"
        return "refused" if self.reading.reason == "unprintable" else "not_run"

    def data(self) -> Data:
        """For the answer."""
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
    """The checkpoints of a held step, as they were agreed."""

    __slots__ = ("anchor", "attempt", "checkpoints", "lease_seconds", "plan", "plan_hash", "top")

    def __init__(self, facts: Data, ordinals: Sequence[object]) -> None:
        self.plan: str = facts["plan_path"]
        self.anchor: str = facts["anchor"]
        self.top: str = facts["top"]
        self.attempt: int = facts["attempt"]
        self.lease_seconds: float = facts["lease_seconds"]
        self.plan_hash: str = facts["plan_hash"]
        items = _selected(facts["items"], self.anchor, ordinals) if ordinals else facts["items"]
        self.checkpoints = [Checkpoint(item, commands.read(item["text"])) for item in items]

    @property
    def to_run(self) -> list[Checkpoint]:
        """Those with commands that can be run."""
        return [each for each in self.checkpoints if each.reading.reason is None]

    def data(self) -> Data:
        """What is to be said of it, whether or not anything was run."""
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


def agreed(
    site: Site, plan: str, anchor: str, *, attempt: int | None, ordinals: Sequence[object] = ()
) -> Task:
    """What there is to verify; refuses whoever does not hold the step, and a changed plan.

    With `ordinals` only those checkpoints of the step or substep itself.
    """
    facts = verifying.checkpoints(
        site.store, plan, anchor, owner=site.owner, attempt=attempt, copy=site.copy(plan)
    )
    return Task(facts, ordinals)


def _selected(items: list[Data], anchor: str, ordinals: Sequence[object]) -> list[Data]:
    own = {item["ordinal"]: item for item in items if item["step_anchor"] == anchor}
    for ordinal in ordinals:
        if ordinal not in own:
            valid = f"0 to {len(own) - 1}" if own else f"{anchor} has no checkpoint"
            problem = f"there is no checkpoint {ordinal!r:.60}"
            raise InvalidEntry(problem, valid=valid, command="verify")
    return [item for ordinal, item in own.items() if ordinal in ordinals]


def carry_out(site: Site, task: Task, *, limit_seconds: float, hear: Callable[[str], None]) -> Data:
    """Run everything, then record it; `hear` is told each command before it runs."""
    keeper = keeper_of(site, task)
    for checkpoint in task.to_run:
        checkpoint.finding = _checked(site, task, checkpoint, limit_seconds, keeper, hear)
    findings = [each.finding for each in task.to_run if each.finding is not None]
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


def keeper_of(site: Site, task: Task) -> Keeper:
    """Whoever keeps the claim while commands run, and notices when it is lost."""
    who: Data = {"owner": site.owner, "attempt": task.attempt}
    return Keeper(site.store, task.plan, task.top, **who, lease_seconds=task.lease_seconds)


def _checked(
    site: Site,
    task: Task,
    checkpoint: Checkpoint,
    limit_seconds: float,
    keeper: Keeper,
    hear: Callable[[str], None],
) -> Finding:
    """Run the commands of one checkpoint, up to the first that fails."""
    before = tree.look(site.worktree, site.git_dir)
    ran: list[Data] = []
    for command in checkpoint.reading.commands:
        hear(command)
        ran.append(_run(site, task, command, limit_seconds, keeper))
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
    }
    return Finding(checkpoint.anchor, checkpoint.ordinal, passed=passed, evidence=evidence)


def _passes(ran: list[Data], expects: str) -> bool:
    if ran[-1]["exit_status"] or ran[-1]["timed_out"] or expects == commands.FAILURE:
        return False
    return expects != commands.NO_OUTPUT or not any(each["output_bytes"] for each in ran)


def _run(site: Site, task: Task, command: str, limit_seconds: float, keeper: Keeper) -> Data:
    environment = {
        **config.environment(),
        "TUGCODE_PLAN": task.plan,
        "TUGCODE_STEP": task.top,
        "TUGCODE_ATTEMPT": str(task.attempt),
        "TUGCODE_WORKTREE": site.worktree,
    }
    keeper.renew()
    began = clock.ticks()
    streams = Streams.keep(head=0, tail=_READ_BYTES, merged=True)
    argv = ["/bin/sh", "-c", command]
    # Whatever ends this, the command's whole group ends with it.
    with child.start(argv, cwd=site.worktree, env=environment, streams=streams) as running:
        while not running.wait(min(keeper.nap(), max(0.0, began + limit_seconds - clock.ticks()))):
            if clock.ticks() - began >= limit_seconds:
                running.timed_out = True
                running.stop()
                break
            _refuse_lost(keeper, task)
    limits = {"most_characters": _KEPT_CHARACTERS, "most_lines": _KEPT_LINES}
    return {
        "command": command,
        "exit_status": running.status,
        "timed_out": running.timed_out,
        "duration_seconds": round(clock.ticks() - began, 3),
        "output_tail": harmless.tail(running.out.tail, **limits),
        "output_bytes": running.out.total,
    }


def _refuse_lost(keeper: Keeper, task: Task) -> None:
    """What was asked about may be a substep; the claim is that of its step."""
    if not keeper.holds():
        who: Data = {"owner": keeper.owner, "attempt": keeper.attempt}
        verifying.refuse_lost(keeper.store, task.plan, task.anchor, **who)


def _summary(findings: Sequence[Finding]) -> str:
    passed = sum(finding.passed for finding in findings)
    told = [
        f"`{each['command']}` {proof.ended(each)}"
        for finding in sorted(findings, key=lambda finding: finding.passed)
        for each in finding.evidence["commands"]  # type: ignore[attr-defined]  # made above
    ]
    return f"{passed} of {len(findings)} checkpoints verified: {'; '.join(told)}"
