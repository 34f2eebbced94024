"""The end of a run: the auditor and the integrator."""

from __future__ import annotations

import json

from tugtool.errors import TugError
from tugtool.errors.git import MessageRefused
from tugtool.git import command as git
from tugtool.git import trailers, worktrees
from tugtool.implement import agent
from tugtool.implement.attempt import AgentContext, Checkout, StepContext
from tugtool.implement.run import Escalation, Failed, Question, Stopped
from tugtool.state import attempts, record
from tugtool.state import worktrees as state_worktrees
from tugtool.state.attempts import Note
from tugtool.system import crash, process, text
from tugtool.workflow.worktree import create, sync

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tugtool.git import Repository
    from tugtool.implement.attempt import By
    from tugtool.implement.run import Run
    from tugtool.store import Row, Store

    Stage = Callable[["Audit"], None]


def remote(repo: Repository) -> str | None:
    """Return the remote to push to: `origin`, or else the first one; None if there is none."""
    names = git.run("remote", cwd=repo.root).split()
    return "origin" if "origin" in names else names[0] if names else None


MOST_ROUNDS = 3
LEFT_OVER = "What an interrupted run left"
#: How long to wait before asking again whether another run has finished.
_NAP_SECONDS = 0.5


def conclude(run: Run, store: Store) -> str | None:
    """Audit and integrate a completed plan. Return why that failed, or None."""
    rows = run.remaining(store).rows
    merged = record.require_plan(store, run.plan)["merged_commit"] is not None
    if merged or not rows:
        return None
    # Answers about the whole plan are stored with the step that was completed last.
    last = max(rows, key=lambda row: (row["completed_at"] or "", row["step_index"]))
    for role, stage in (("auditor", _audit), ("integrator", _integrate)):
        if not _is_due(run, store, role, last):
            continue
        finale = Audit(run, store, last)
        try:
            # Another run may have done this stage meanwhile.
            why = finale.insist(stage) if _is_due(run, store, role, last) else None
        finally:
            finale.leave()
        if why is not None:
            return why
    return None


def _is_due(run: Run, store: Store, role: str, last: Row) -> bool:
    if role not in run.parts or _has_approved(store, run.plan, role, last):
        return False
    return role != "integrator" or remote(run.repo) is not None


def _has_approved(store: Store, plan: str, role: str, last: Row) -> bool:
    """Return whether the role approved the plan after its last step was completed."""
    kind = "auditor_summary" if role == "auditor" else "note"
    notes = attempts.artifacts(store, plan, kind=kind)
    since = [
        n["content"] for n in notes if n["content"] and n["recorded_at"] >= last["completed_at"]
    ]
    return any(_approves(content, role) for content in since)


def _is_idle(stamp: str | None) -> bool:
    """Return whether no other live run has reserved the worktree."""
    return not process.lives(stamp) or process.is_own(stamp)


def _approves(content: str, role: str) -> bool:
    try:
        said = json.loads(content)
    except ValueError:
        return False
    wanted = (role, "APPROVE")
    return isinstance(said, dict) and (said.get("role"), said.get("recommendation")) == wanted


class Audit:
    """The worktree that merges all steps, and the answers about it."""

    def __init__(self, run: Run, store: Store, last: Row) -> None:
        self.run, self.store, self.last = run, store, last
        self._stamp = run.order_for("implement finale").request_id
        self._sit_down()

    def _sit_down(self) -> None:
        run, store, last = self.run, self.store, self.last
        self.checkout = self._checkout()
        self.context = AgentContext(run, store, self.checkout, 0)
        #: A coder needs a step to work for, also for faults that belong to none.
        by: By = {"owner": last["completed_by"], "attempt": last["attempt"]}
        self.repair = StepContext(run, store, self.checkout, 0, last["anchor"], by)

    def _checkout(self) -> Checkout:
        run, path = self.run, self.last["completed_by"] or ""
        sound = worktrees.trouble(run.repo.common_dir, path) is None
        row = self._reserved(path) if sound else None
        if row is None:
            made = create.create(run.repo, self.store, run.order_for("implement finale"))
            return Checkout.made(run.repo, made)
        return Checkout.recorded(run.repo, row)

    def _reserved(self, path: str) -> Row | None:
        """Return the worktree's row after other runs have left it; None if no plan has it."""
        plan, stamp = self.run.plan, self._stamp
        while True:
            row, taken = state_worktrees.take_over(
                self.store, plan, path, request=stamp, allowed=_is_idle
            )
            if taken or row is None:
                return row
            if self.run.stopping.wait(_NAP_SECONDS):
                raise Stopped

    def leave(self) -> None:
        """Let other runs use the worktree."""
        state_worktrees.end_reservation(
            self.store, self.run.plan, self.checkout.owner, request=self._stamp
        )

    def insist(self, stage: Stage) -> str | None:
        """Repeat a stage until it succeeds or a person stops it. Return why it failed, or None."""
        while True:
            try:
                if self.checkout.trouble() is not None:
                    self._sit_down()
                stage(self)
                return None
            except (Escalation, Failed) as end:
                reason = str(end)
            except Stopped:
                raise
            except TugError as error:
                if self.run.is_stopped_by(error):
                    raise Stopped from error
                reason = error.message
            if not self._again(reason):
                return reason

    def _again(self, reason: str) -> bool:
        self.context.tell("escalated", reason=reason)
        self.repair.leave_note("escalation", reason)
        return self.context.ask(Question(None, reason, ("retry", "stop"))) == "retry"

    def gather(self) -> None:
        """Merge all completed steps into this worktree."""
        store, plan, path = self.store, self.run.plan, self.checkout.path
        sync.repair_sync(path)
        wanted = sync.done_elsewhere(store, plan, at=path)
        if wanted:
            # Uncommitted files would block the merge.
            self.commit(LEFT_OVER)
            sync.merge(plan, wanted, at=path, done=state_worktrees.committed_steps(store, plan))
            self.context.tell("gathered", steps=[each["step_anchor"] for each in wanted])
        crash.point("implement.gathered")

    def commit(self, words: str) -> None:
        """Commit changes of an agent that belong to no step."""
        if not self.checkout.is_dirty():
            return
        try:
            text = trailers.check_text(words)
        except MessageRefused:
            text = "What the auditor asked for"
        git.patiently("add", "--all", cwd=self.checkout.path)
        commit = ("commit", "--quiet", "--cleanup=verbatim", "--file=-")
        git.run(*commit, cwd=self.checkout.path, given=text)


def _audit(finale: Audit) -> None:
    finale.gather()
    # An interrupted run left a coder's changes; the auditor judges them.
    left_over = finale.checkout.is_dirty()
    findings: dict[str, Any] | None = None
    said = ""
    for number in range(1, MOST_ROUNDS + 1):
        reply = agent.call(finale.context, "auditor", {"findings": findings, "round": number})
        findings = reply.answer
        if left_over and number == 1 and findings["recommendation"] == "APPROVE":
            finale.commit(LEFT_OVER)
        said = agent.in_short(findings, "cross_step_issues")
        content = text.encode({**findings, "role": "auditor"})
        finale.repair.report("auditor", reply.usage, Note("auditor_summary", said, content))
        crash.point("implement.audited")
        finale.context.tell("audited", round=number, recommendation=findings["recommendation"])
        if findings["recommendation"] == "APPROVE":
            return
        if findings["recommendation"] == "ESCALATE":
            raise Escalation(f"the auditor asks for a person: {said}", round=number)
        if number < MOST_ROUNDS:
            _repair(finale, findings, number)
    raise Escalation(f"the auditor asked for changes {MOST_ROUNDS} times: {said}")


def _repair(finale: Audit, findings: dict[str, Any], number: int) -> None:
    """Let the coder repair what the auditor found, and commit it outside of any step."""
    more = {"strategy": None, "findings": findings, "round": number + 1}
    reply = agent.call(finale.repair, "coder", more)
    summary = str(reply.answer.get("summary") or "What the auditor asked for")
    note = Note("note", f"after audit {number}: {summary}")
    finale.repair.report("coder", reply.usage, note)
    crash.point("implement.mended")
    finale.commit(f"Audit: {summary}")
    crash.point("implement.repaired")


def _integrate(finale: Audit) -> None:
    finale.gather()
    finale.commit(LEFT_OVER)
    checkout = finale.checkout
    more = {
        "branch": checkout.branch,
        "base": checkout.base_branch,
        "remote": remote(finale.run.repo),
    }
    reply = agent.call(finale.context, "integrator", more)
    said = agent.in_short(reply.answer)
    content = text.encode({**reply.answer, "role": "integrator"})
    note = Note("note", f"integrator: {said}", content)
    finale.repair.report("integrator", reply.usage, note)
    crash.point("implement.integrated")
    finale.context.tell("integrated", recommendation=reply.answer["recommendation"])
    if reply.answer["recommendation"] != "APPROVE":
        raise Escalation(f"the integrator: {said}")
