"""The end of a run: the auditor and the integrator."""

from __future__ import annotations

import json

from tugtool.errors import TugError
from tugtool.errors.git import DependencyConflict, MessageRefused
from tugtool.git import command as git
from tugtool.git import refs, trailers, worktrees
from tugtool.implement import agent
from tugtool.implement.attempt import AgentContext, Checkout, StepContext
from tugtool.implement.run import Escalation, Failed, Lost, Question, Stopped
from tugtool.state import proofs, record
from tugtool.state import worktrees as state_worktrees
from tugtool.state.attempts import Note
from tugtool.system import clock, crash, process, text
from tugtool.workflow import remote as workflow_remote
from tugtool.workflow.worktree import branches, create, sync

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tugtool.agents.clis import AgentUsage
    from tugtool.git import Repository
    from tugtool.implement.attempt import By
    from tugtool.implement.run import Run
    from tugtool.schemas import StateClaimMissingCommit as Commit
    from tugtool.store import Row, Store

    Stage = Callable[["Audit"], None]


def remote(repo: Repository) -> str | None:
    """Return the remote to push to: `origin`, or else the first one; None if there is none."""
    names = git.run("remote", cwd=repo.root).split()
    return "origin" if "origin" in names else names[0] if names else None


MOST_ROUNDS = 3
LEFT_OVER = "What an interrupted run left"
#: Marks the note about commits of the audit that were pushed.
_SHARED = "audit branch"
#: How long to wait before asking again whether another run has finished.
_NAP_SECONDS = 0.5


def conclude(run: Run, store: Store) -> str | None:
    """Audit and integrate a completed plan, on one machine. Return why that failed, or None."""
    rows = run.remaining(store).rows
    merged = record.require_plan(store, run.plan)["merged_commit"] is not None
    if merged or not rows:
        return None
    # Answers about the whole plan are stored with the step that was completed last.
    last = max(rows, key=lambda row: (row["completed_at"] or "", row["step_index"]))
    while any(_is_due(run, store, role, last) for role, _ in _STAGES):
        finale = Audit(run, store, last)
        try:
            return _staged(finale)
        except Lost:
            run.warn("another run has taken the audit over, because this one was away too long")
        finally:
            finale.leave()
    return None


def _staged(finale: Audit) -> str | None:
    """Carry out the stages that no other run has done meanwhile. Return why one failed."""
    for role, stage in _STAGES:
        if _is_due(finale.run, finale.store, role, finale.last):
            why = finale.insist(stage)
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
    said = _said_since(store, plan, kind, last)
    return any((e.get("role"), e.get("recommendation")) == (role, "APPROVE") for e in said)


def _said_since(store: Store, plan: str, kind: str, last: Row) -> list[dict[str, Any]]:
    """Return what artifacts of a kind say since the last step was completed, newest first."""
    notes = proofs.artifacts(store, plan, kind=kind)
    since = [n["content"] for n in notes if n["recorded_at"] >= last["completed_at"]]
    return [said for content in since if (said := _read(content or "")) is not None]


def _is_idle(stamp: str | None) -> bool:
    """Return whether no other live run has reserved the worktree."""
    return not process.lives(stamp) or process.is_own(stamp)


def _read(content: str) -> dict[str, Any] | None:
    try:
        said = json.loads(content)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


class Audit:
    """The worktree that merges all steps, and the answers about it.

    It is reserved: of all runs, on any machine, one audits and the others wait for it.
    """

    def __init__(self, run: Run, store: Store, last: Row) -> None:
        self.run, self.store, self.last = run, store, last
        self._stamp = process.stamp(state_worktrees.AUDIT)
        self._renewed_at = 0.0
        self._sit_down()

    def _sit_down(self) -> None:
        run, store, last = self.run, self.store, self.last
        self.checkout = self._checkout()
        self._renewed_at = clock.ticks()
        self.context = AgentContext(run, store, self.checkout, 0)
        #: A coder needs a step to work for, also for faults that belong to none.
        by: By = {"owner": last["completed_by"], "attempt": last["attempt"]}
        self.repair = StepContext(run, store, self.checkout, 0, last["anchor"], by)
        self.context.keep = self.repair.keep = self.keep

    def _checkout(self) -> Checkout:
        run, path = self.run, self.last["completed_by"] or ""
        sound = worktrees.trouble(run.repo.common_dir, path) is None
        row = self._reserved(path) if sound else None
        if row is None:
            # The step was done on another machine, or its worktree is gone.
            made = create.create(run.repo, self.store, run.order_for("implement finale"))
            self._reserved(record.owner_of(made["worktree_path"]))
            return Checkout.made(run.repo, made)
        return Checkout.recorded(run.repo, row)

    def _reserved(self, path: str) -> Row | None:
        """Return the worktree's row when no other run audits; None if no plan has it."""
        while True:
            row, taken = self._take(path, _is_idle)
            if taken or row is None:
                return row
            self.run.wait_for({"": "another run audits the plan"})
            if self.run.stopping.wait(_NAP_SECONDS):
                raise Stopped

    def _take(self, path: str, allowed: Callable[[str | None], bool]) -> tuple[Row | None, bool]:
        return state_worktrees.take_over(
            self.store,
            self.run.plan,
            path,
            request=self._stamp,
            allowed=allowed,
            seconds=self.run.terms.lease_seconds,
        )

    def keep(self, *, now: bool = False) -> None:
        """Renew the reservation from time to time, or now. Raise if another run has taken it."""
        if not now and clock.ticks() < self._renewed_at + self.run.terms.lease_seconds / 3:
            return
        try:
            _, taken = self._take(self.checkout.owner, lambda stamp: stamp == self._stamp)
        except TugError:
            # The record cannot be reached; before an answer counts it has to be.
            if now:
                raise
            return
        self._renewed_at = clock.ticks()
        if not taken:
            raise Lost

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
            except (Lost, Stopped):
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
        wanted, reason = sync.bring(store, plan, [], at=path, everything=True)
        sync.refuse_absent(plan, wanted, reason, at=path)
        wanted += self._approved_elsewhere()
        if wanted:
            # Uncommitted files would block the merge.
            self.commit(LEFT_OVER)
            sync.merge(plan, wanted, at=path, done=state_worktrees.committed_steps(store, plan))
            self.context.tell("gathered", steps=[each["step_anchor"] for each in wanted])
        crash.point("implement.gathered")

    def take_repairs(self) -> None:
        """Merge what an audit on another machine changed and pushed before that machine died."""
        for repair in self._repairs_elsewhere():
            self.commit(LEFT_OVER)
            try:
                sync.merge(self.run.plan, [repair], at=self.checkout.path)
            except DependencyConflict as conflict:
                self.run.warn(f"{conflict.message}; this audit repeats what it changed")
            else:
                self.context.tell("gathered", steps=[repair["step_anchor"]])

    def commit(self, words: str) -> None:
        """Commit changes of an agent that belong to no step."""
        if not self.checkout.is_dirty():
            return
        marks = {"ours": f"{trailers.AUDIT}: {self.run.plan}\n", "cwd": self.checkout.path}
        try:
            text = trailers.composed(trailers.check_text(words), **marks)
        except MessageRefused:
            text = trailers.composed("What the auditor asked for", **marks)
        git.patiently("add", "--all", cwd=self.checkout.path)
        commit = ("commit", "--quiet", "--cleanup=verbatim", "--file=-")
        git.run(*commit, cwd=self.checkout.path, given=text)

    def share(self, *, surely: bool = False) -> None:
        """Push the branch if it has commits that belong to no step, so that any machine can merge.

        `surely`: raise if that fails.
        """
        to = workflow_remote.remote_of(self.run.repo.root)
        tip = refs.branch_tip(self.run.repo.root, self.checkout.branch)
        if to is None or tip is None or not self._has_own_commits(tip):
            return
        ref = f"refs/heads/{self.checkout.branch}"
        refusal = to.push(self.run.repo.root, {ref: tip}).get(ref)
        crash.point("implement.shared")
        if refusal is None:
            facts = {"role": _SHARED, "commit": tip, "branch": self.checkout.branch}
            said = f"{to.name} has {self.checkout.branch} with what the audit changed"
            self.repair.leave_note("note", said, text.encode(facts))
            return
        why = f"{self.checkout.branch} has what the audit changed, and is not on {to.name}: "
        why += workflow_remote.meaning(refusal)
        if surely:
            raise Escalation(why)
        self.run.warn(why)

    def _has_own_commits(self, tip: str) -> bool:
        """Return whether the branch has changes that belong to no step."""
        steps = state_worktrees.committed_steps(self.store, self.run.plan)
        without = [self.checkout.base_branch, *(row["commit_hash"] for row in steps)]
        given = "".join(f"{commit}\n" for commit in (tip, *(f"^{each}" for each in without)))
        words = ("rev-list", "--no-merges", "--max-count=1", "--stdin")
        return bool(git.run(*words, cwd=self.checkout.path, given=given).strip())

    def approval(self) -> dict[str, object]:
        """Return what the auditor has approved: the commit, and if it has changes of an audit."""
        tip = refs.head(self.checkout.path)
        return {"commit": tip, "changed": self._has_own_commits(tip)}

    def _repairs_elsewhere(self) -> list[Commit]:
        """Return the newest change of an audit on each branch of the remote that is not here."""
        if not self.run.settings.is_set("remote.name"):
            return []
        root, path = self.run.repo.root, self.checkout.path
        named = [row["branch"] for row in proofs.facts(self.store, self.run.plan).worktrees]
        workflow_remote.fetch_plan(root, [self.run.plan], named)
        there, found = branches.remote_branches(root)[1], []
        for name in (name for name in dict.fromkeys(named) if name in there):
            words = ("--no-merges", "--max-count=1", f"--grep=^{trailers.AUDIT}: ")
            hash = git.run("rev-list", *words, there[name], "^HEAD", cwd=path).strip()
            commit: Commit = {"step_anchor": name, "commit": hash, "worktree": None, "branch": name}
            found += [commit] if hash else []
        return found

    def _approved_elsewhere(self) -> list[Commit]:
        """Return the commits of an audit on another machine that this worktree lacks."""
        if not self.run.settings.is_set("remote.name"):
            return []
        plan, path = self.run.plan, self.checkout.path
        said = _said_since(self.store, plan, "note", self.last)
        shared = [each for each in said if each.get("role") == _SHARED]
        if not shared or refs.is_ancestor(path, shared[0]["commit"], "HEAD"):
            return []
        hash, name = shared[0]["commit"], shared[0]["branch"]
        commit: Commit = {"step_anchor": name, "commit": hash, "worktree": None, "branch": name}
        _, reason = workflow_remote.fetch_commits(self.run.repo.root, plan, [commit])
        sync.refuse_absent(plan, [commit], reason, at=path)
        return [commit]


def _audit(finale: Audit) -> None:
    finale.gather()
    finale.take_repairs()
    # An interrupted run left a coder's changes; the auditor judges them.
    left_over = finale.checkout.is_dirty()
    findings: dict[str, Any] | None = None
    said = ""
    for number in range(1, MOST_ROUNDS + 1):
        reply = agent.call(finale.context, "auditor", {"findings": findings, "round": number})
        findings = reply.answer
        if left_over and number == 1 and findings["recommendation"] == "APPROVE":
            finale.commit(LEFT_OVER)
        finale.keep(now=True)
        if findings["recommendation"] == "APPROVE":
            _share(finale, reply.usage)
        said = agent.in_short(findings, "cross_step_issues")
        approved = finale.approval() if findings["recommendation"] == "APPROVE" else {}
        content = text.encode({**findings, "role": "auditor", **approved})
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


def _share(finale: Audit, usage: AgentUsage) -> None:
    """Push what the audit changed before the approval counts; other machines merge only that."""
    try:
        finale.share(surely=True)
    except Escalation:
        finale.repair.report("auditor", usage)
        raise


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
    finale.share()


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
    finale.keep(now=True)
    said = agent.in_short(reply.answer)
    content = text.encode({**reply.answer, "role": "integrator"})
    note = Note("note", f"integrator: {said}", content)
    finale.repair.report("integrator", reply.usage, note)
    crash.point("implement.integrated")
    finale.context.tell("integrated", recommendation=reply.answer["recommendation"])
    if reply.answer["recommendation"] != "APPROVE":
        raise Escalation(f"the integrator: {said}")


_STAGES: tuple[tuple[str, Stage], ...] = (("auditor", _audit), ("integrator", _integrate))
