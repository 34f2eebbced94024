"""Checkpoints before a step's commit: run the commands, read the reviewer's verdicts."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from tugtool.errors import TugError, listing
from tugtool.implement import agent
from tugtool.implement.enforcement import Enforcement
from tugtool.implement.run import Astray, Escalation, Lost
from tugtool.plan import checkpoints as checkpoint_text
from tugtool.state import completion
from tugtool.state.checklists import WAITS_FOR_PERSON
from tugtool.system import crash
from tugtool.workflow import verify
from tugtool.workflow.verify import CheckSite, Limits, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tugtool.implement.attempt import Attempt
    from tugtool.plan.model import Step
    from tugtool.workflow.verify import Checkpoint

    Data = dict[str, Any]

    Key = tuple[str, int]


class CheckResult(NamedTuple):
    """The result of a step's command checkpoints."""

    #: The tree that the commands ran on; None if no command ran.
    tree: str | None = None
    failed: Sequence[Checkpoint] = ()

    def findings(self) -> Data:
        """Return the failures for the coder, in the reviewer's format."""
        issues = [{"severity": "critical", "description": _told(each)} for each in self.failed]
        summary = "the commands of checkpoints fail"
        return {"recommendation": "REVISE", "summary": summary, "issues": issues}

    def in_short(self) -> str:
        """Return the failed commands in one line."""
        return "; ".join(_named(each) for each in self.failed)


def prove(work: Attempt, *, unproven_only: bool = False) -> CheckResult:
    """Run the step's command checkpoints on the worktree's files, and record the results.

    Changes by the commands are undone, so the commit has the files that were tested.
    """
    if not work.run.terms.verify:
        return CheckResult()
    task = _task(work, unproven_only=unproven_only)
    if not task.checkpoints:
        return CheckResult()
    site = _site(work)
    task.tree = _run(work, site, task)
    crash.point("implement.checked")
    verify.record(site, task)
    work.keeper.renewed()
    crash.point("implement.proven")
    failed = [each for each in task.checkpoints if each.outcome == "failed"]
    work.tell("verified", passed=len(task.checkpoints) - len(failed), failed=len(failed))
    return CheckResult(task.tree, failed)


def _site(work: Attempt) -> CheckSite:
    checkout = work.checkout
    run, at = work.run, (checkout.path, checkout.owner, checkout.copy)
    return CheckSite(run.repo, run.settings, work.store, *at)


def _task(work: Attempt, *, unproven_only: bool) -> Task:
    """Return the agreed command checkpoints of the step and its substeps."""
    plan, copy = work.run.plan, work.checkout.copy(work.run.plan)
    task = Task(completion.checkpoints(work.store, plan, work.anchor, **work.by, copy=copy), ())
    task.checkpoints = [
        each
        for each in task.checkpoints
        if each.is_command and not (unproven_only and each.status == "completed")
    ]
    return task


def _run(work: Attempt, site: CheckSite, task: Task) -> str:
    """Run the commands, undo their changes, and return the tree they ran on."""
    guard = Enforcement(work, "checkpoint", looks=True)
    assert guard.files is not None
    tree = guard.files.tree()
    limits = Limits(verify.LIMIT_SECONDS, work.keeper, work.check)

    def hear(command: str) -> None:
        work.tell("verifying", command=command)
        crash.point("implement.checking")

    try:
        verify.run_all(site, task, limits, hear=hear)
    except Lost:
        # Another worker owns the files now, but the shared git directory still needs repair.
        with contextlib.suppress(TugError):
            guard.look_around()
        raise
    except BaseException:
        with contextlib.suppress(Astray, Lost):
            guard.restore()
        raise
    try:
        guard.restore()
    except Astray as end:
        raise Escalation(str(end)) from end
    return tree


def _named(each: Checkpoint) -> str:
    assert each.finding is not None
    ran: Any = each.finding.evidence["commands"]
    ended = "; ".join(f"`{one['command']}` {completion.ended(one)}" for one in ran)
    return f"{each.anchor} checkpoint {each.ordinal}: {ended}"


def _told(each: Checkpoint) -> str:
    """Return a failure with the end of its output."""
    assert each.finding is not None
    evidence: Any = each.finding.evidence
    note = f"\n{evidence['note']}" if evidence["note"] else ""
    output = evidence["commands"][-1]["output_tail"].strip("\n")
    end = f"\nThe end of its output:\n{output}" if output else "\nIt printed nothing."
    return f"{_named(each)} ({each.text}){note}{end}"


def tell_doubts(work: Attempt, verdict: dict[str, Any]) -> None:
    """Report and store doubts about an approval. The items are closed as approved."""
    for said in doubts(work.step, verdict):
        work.leave_note("note", said)
        work.run.warn(f"{work.anchor}: {said}", step_anchor=work.anchor)


def close_items(work: Attempt, verdict: dict[str, Any]) -> None:
    """Defer the items that the reviewer did not pass, and complete the rest in one transaction."""
    entries = deferred(work.step, verdict, verify=work.run.terms.verify)
    work.close_items(entries, judged(work, verdict))
    work.keeper.renewed()
    for entry in entries:
        where = entry.get("step", work.anchor)
        work.tell("deferred", item=f"{where} checkpoint {entry['ordinal']}", reason=entry["reason"])
    crash.point("implement.updated")


def judged(work: Attempt, verdict: Mapping[str, Any]) -> dict[tuple[str, int], Data]:
    """Return the evidence for checkpoints that the reviewer passed, by substep and ordinal."""
    _, head = work.checkout.head()
    return {
        key: {
            "passed": True,
            "commands": [],
            "commit": head or None,
            "dirty": None,
            "worktree": work.checkout.owner,
            "attempt": work.attempt,
            "note": None,
            "tree": None,
            "judged": {"role": "reviewer", "reason": reason},
        }
        for key, reason in passed(work.step, verdict).items()
        if not _is_proven(work, key)
    }


def _is_proven(work: Attempt, key: tuple[str, int]) -> bool:
    """Return whether the checkpoint needs a run, not a verdict."""
    if not work.run.terms.verify:
        return False
    [text] = [
        item.text
        for member in work.step.family()
        for item in member.items
        if member.anchor == key[0] and (item.kind, item.ordinal) == ("checkpoint", key[1])
    ]
    return checkpoint_text.kind_of(text) == checkpoint_text.COMMAND


PASS = "PASS"
#: Why an approved step's checkpoint waits for a person.
NO_VERDICT = "the reviewer gave no verdict on it"


def deferred(step: Step, verdict: Mapping[str, Any], *, verify: bool = True) -> list[Data]:
    """Return the entries for `update --batch` that leave unpassed items to a person.

    With `verify`, command checkpoints are left out. Raise `Unusable` for a verdict on a
    checkpoint that the step and its substeps do not have.
    """
    said = _verdicts(step, verdict)
    entries = []
    for member in step.family():
        for item in [item for item in member.items if item.kind == "checkpoint"]:
            each = said.get((member.anchor, item.ordinal))
            reason = _why_deferred(checkpoint_text.kind_of(item.text), each, verify=verify)
            if reason is not None:
                entry = {"kind": "checkpoint", "ordinal": item.ordinal, "status": "deferred"}
                own = {} if member is step else {"step": member.anchor}
                entries.append({**entry, "reason": reason, **own})
    return entries


def _why_deferred(kind: str, each: Mapping[str, Any] | None, *, verify: bool) -> str | None:
    if kind == checkpoint_text.COMMAND and verify:
        return None
    passed = each is not None and each["verdict"] == PASS
    if passed and kind != checkpoint_text.PERSON:
        return None
    reason = str((each or {}).get("reason") or "").strip()
    if reason and not passed:
        return reason
    if kind == checkpoint_text.PERSON:
        return WAITS_FOR_PERSON
    return NO_VERDICT if each is None else f"the reviewer says {each['verdict']}"


def passed(step: Step, verdict: Mapping[str, Any]) -> dict[Key, str | None]:
    """Return the checkpoints that the reviewer passed, with the reasons."""
    said = str(verdict.get("summary") or "").strip() or None
    return {
        key: str(each.get("reason") or "").strip() or said
        for key, each in _verdicts(step, verdict).items()
        if each["verdict"] == PASS
    }


def _verdicts(step: Step, verdict: Mapping[str, Any]) -> dict[Key, Mapping[str, Any]]:
    """Return the reviewer's verdict on each checkpoint; of two verdicts the worse counts."""
    found: dict[Key, Mapping[str, Any]] = {}
    for each in verdict["plan_conformance"]["checkpoints"]:
        key = _key(step, each)
        if key not in found or found[key]["verdict"] == PASS:
            found[key] = each
    return found


def doubts(step: Step, verdict: Mapping[str, Any]) -> list[str]:
    """Return sentences about findings that contradict an approval."""
    conformance = verdict["plan_conformance"]
    failed = [each for each in conformance["tasks"] if each["verdict"] == "FAIL"]
    critical = [each for each in verdict["issues"] if str(each["severity"]).lower() == "critical"]
    said = {
        "approved although it says FAIL of": [_task_name(step, each) for each in failed],
        "approved although it calls critical": [agent.issue(each) for each in critical],
    }
    return [f"{what} {listing(names, 5)}" for what, names in said.items() if names]


def _task_name(step: Step, each: Mapping[str, Any]) -> str:
    reason = str(each.get("reason") or "").strip()
    return f"{_anchor(step, each)} task {each['ordinal']}" + (f" ({reason})" if reason else "")


def _number(member: Step) -> int:
    return sum(item.kind == "checkpoint" for item in member.items)


def _anchor(step: Step, each: Mapping[str, Any]) -> str:
    return str(each.get("step_anchor") or step.anchor).removeprefix("#")


def _key(step: Step, each: Mapping[str, Any]) -> Key:
    anchor = _anchor(step, each)
    member = next((one for one in step.family() if one.anchor == anchor), None)
    if member is None:
        known = ", ".join(one.anchor for one in step.family())
        raise agent.Unusable(f"it judged a checkpoint of {anchor}; the step has {known}")
    number = _number(member)
    if each["ordinal"] not in range(number):
        raise agent.Unusable(
            f"it judged checkpoint {each['ordinal']} of {anchor}, which has {number}"
        )
    return anchor, each["ordinal"]
