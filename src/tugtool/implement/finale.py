"""When every step is done: the auditor looks at the whole, then the integrator takes it on.

What they say is kept with the step that was completed last. What has been said already of
the plan as it is now is not asked again.
"""

from __future__ import annotations

import json

from tugtool import belonging, crash, git, holder, jsontext, keeping, message, state
from tugtool.errors import TugError
from tugtool.git_errors import MessageRefused
from tugtool.implement import calling, gathering, outlook, verdicts
from tugtool.implement.desk import Desk
from tugtool.implement.ends import Escalation, Failed, Stopped
from tugtool.implement.run import Question
from tugtool.implement.seat import Seat
from tugtool.state.reporting import Note
from tugtool.store import sql, sql_git, sql_implement
from tugtool.worktree import building, making, syncing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tugtool.implement.casting import Reply
    from tugtool.implement.run import Run
    from tugtool.store import Row, Store

    Data = dict[str, Any]
    Stage = Callable[["_Finale"], None]

MOST_ROUNDS = 3
LEFT_OVER = "What an interrupted run left"
#: Until another run has ended what it is at.
_NAP_SECONDS = 0.5


def conclude(run: Run, store: Store) -> str | None:
    """What a done plan still needs; why it does not get it, if so."""
    rows = outlook.look(store, run.plan).rows
    with store.read(run.plan) as tx:
        merged = tx.one(sql.PLAN)["merged_commit"] is not None
    if merged or not rows:
        return None
    last = gathering.last_step(rows)
    for role, stage in (("auditor", _audit), ("integrator", _integrate)):
        if _is_due(run, store, role, last):
            why = _staged(run, store, last, role, stage)
            if why is not None:
                return why
    return None


def _staged(run: Run, store: Store, last: Row, role: str, stage: Stage) -> str | None:
    finale = _Finale(run, store, last)
    try:
        # Another run may have got to it first.
        return finale.insist(stage) if _is_due(run, store, role, last) else None
    finally:
        finale.leave()


def _is_due(run: Run, store: Store, role: str, last: Row) -> bool:
    if role not in run.parts or _has_approved(store, run.plan, role, last):
        return False
    return role != "integrator" or gathering.remote(run) is not None


def _has_approved(store: Store, plan: str, role: str, last: Row) -> bool:
    """Whether that was said of the plan since its last step was completed."""
    kind = "auditor_summary" if role == "auditor" else "note"
    with store.read(plan) as tx:
        notes = tx.all(sql_implement.ARTIFACTS_OF_KIND, kind=kind)
    since = [
        n["content"] for n in notes if n["content"] and n["recorded_at"] >= last["completed_at"]
    ]
    return any(_approves(content, role) for content in since)


def _approves(content: str, role: str) -> bool:
    try:
        said = json.loads(content)
    except ValueError:
        return False
    known = isinstance(said, dict) and said.get("role") == role
    return known and said.get("recommendation") == "APPROVE"


class _Finale:
    """The worktree in which everything comes together, and what is said there."""

    def __init__(self, run: Run, store: Store, last: Row) -> None:
        self.run, self.store, self.last = run, store, last
        self._stamp = run.order_for("implement finale").request_id
        self._sit_down()

    def _sit_down(self) -> None:
        run, store, last = self.run, self.store, self.last
        self.desk = self._desk()
        self.seat = Seat(run, store, self.desk, 0)
        #: A coder works for a step, also when it repairs what none of them is to blame for.
        self.repair = Seat(run, store, self.desk, 0)
        self.repair.anchor, self.repair.attempt = last["anchor"], last["attempt"]

    def _be_seated(self) -> None:
        if self.desk.trouble() is not None:
            self._sit_down()

    def _desk(self) -> Desk:
        run, path = self.run, self.last["completed_by"] or ""
        sound = belonging.trouble(run.repo.common_dir, path) is None
        row = self._reserved(path) if sound else None
        if row is None:
            made = making.create(run.repo, self.store, run.order_for("implement finale"))
            return Desk.made(run.repo, made)
        branch, onto = row["branch"], row["base_branch"]
        return Desk(run.repo, row["path"], branch=branch, base_branch=onto)

    def _reserved(self, path: str) -> Row | None:
        """The worktree's row, once no other run is at it; None if it is no plan's."""
        while True:
            with self.store.write(self.run.plan) as tx:
                row = tx.first(sql_git.WORKTREE, path=path)
                stamp = row and row["reserved_for"]
                if not holder.lives(stamp) or holder.is_own(stamp):
                    until = tx.after(building.RESERVED_SECONDS)
                    how = {"path": path, "until": until, "reserved_for": self._stamp}
                    return row if tx.run(sql_git.RESERVE, **how) else None
            if self.run.stopping.wait(_NAP_SECONDS):
                raise Stopped

    def leave(self) -> None:
        """Others may have the worktree again."""
        with self.store.write(self.run.plan) as tx:
            how = {"path": self.desk.owner, "reserved_for": self._stamp}
            tx.run(sql_implement.FREE_WORKTREE, **how)

    def insist(self, stage: Stage) -> str | None:
        """Run a stage until it succeeds, or a person has had enough of it; why it did not."""
        while True:
            try:
                self._be_seated()
                stage(self)
                return None
            except Escalation as escalation:
                reason = escalation.reason
            except Failed as end:
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
        self.seat.tell("escalated", reason=reason)
        by: Data = {"owner": self.last["completed_by"], "attempt": self.last["attempt"]}
        what: Data = {"kind": "escalation", "summary": reason, "content": None}
        state.artifact(self.store, self.run.plan, self.last["anchor"], **by, **what)
        question = Question(None, reason, ("retry", "stop"))
        self.run.ask(question)
        while not question.wait(keeping.LOOK_SECONDS):
            self.seat.check()
        return question.choice == "retry"

    def note(self, role: str, note: Note, reply: Reply | None = None) -> None:
        """Keep what was said, and what it cost, with the last step."""
        state.report(
            self.store,
            self.run.plan,
            self.last["anchor"],
            owner=self.last["completed_by"],
            attempt=self.last["attempt"],
            role=role,
            tokens=None if reply is None else reply.tokens,
            cost_microdollars=None if reply is None else reply.cost_microdollars,
            note=note,
        )

    def gather(self) -> None:
        """Everything that was done, in this worktree."""
        wanted = gathering.lacking(self.run, self.store, self.desk)
        if wanted:
            # What lies there uncommitted must not be in the way.
            self.commit(LEFT_OVER)
            done = syncing.done_steps(self.store, self.run.plan)
            syncing.merge(self.run.plan, wanted, at=self.desk.path, done=done)
            self.seat.tell("gathered", steps=[each["step_anchor"] for each in wanted])
        crash.point("implement.gathered")

    def commit(self, words: str) -> None:
        """Commit what an agent changed for no step of its own."""
        if not self.desk.is_dirty():
            return
        try:
            text = message.checked(words)
        except MessageRefused:
            text = "What the auditor asked for"
        git.patiently("add", "--all", cwd=self.desk.path)
        git.run(
            "commit", "--quiet", "--cleanup=verbatim", "--file=-", cwd=self.desk.path, given=text
        )


def _audit(finale: _Finale) -> None:
    finale.gather()
    # A coder was at it when a run was interrupted: the auditor says whether that will do.
    left_over = finale.desk.is_dirty()
    findings: Data | None = None
    said = ""
    for number in range(1, MOST_ROUNDS + 1):
        reply = calling.call(finale.seat, "auditor", {"findings": findings, "round": number})
        findings = reply.answer
        if left_over and number == 1 and findings["recommendation"] == "APPROVE":
            finale.commit(LEFT_OVER)
        said = verdicts.in_short(findings, "cross_step_issues")
        content = jsontext.encode({**findings, "role": "auditor"})
        finale.note("auditor", Note("auditor_summary", said, content), reply)
        crash.point("implement.audited")
        finale.seat.tell("audited", round=number, recommendation=findings["recommendation"])
        if findings["recommendation"] == "APPROVE":
            return
        if findings["recommendation"] == "ESCALATE":
            raise Escalation(f"the auditor asks for a person: {said}", round=number)
        if number < MOST_ROUNDS:
            _repair(finale, findings, number)
    raise Escalation(f"the auditor asked for changes {MOST_ROUNDS} times: {said}")


def _repair(finale: _Finale, findings: Data, number: int) -> None:
    """The coder puts right what the auditor found; it is committed, for no step."""
    more = {"strategy": None, "findings": findings, "round": number + 1}
    reply = calling.call(finale.repair, "coder", more)
    summary = str(reply.answer.get("summary") or "What the auditor asked for")
    finale.note("coder", Note("note", f"after audit {number}: {summary}"), reply)
    crash.point("implement.mended")
    finale.commit(f"Audit: {summary}")
    crash.point("implement.repaired")


def _integrate(finale: _Finale) -> None:
    finale.gather()
    finale.commit(LEFT_OVER)
    desk = finale.desk
    more = {"branch": desk.branch, "base": desk.base_branch, "remote": gathering.remote(finale.run)}
    reply = calling.call(finale.seat, "integrator", more)
    said = verdicts.in_short(reply.answer)
    content = jsontext.encode({**reply.answer, "role": "integrator"})
    finale.note("integrator", Note("note", f"integrator: {said}", content), reply)
    crash.point("implement.integrated")
    finale.seat.tell("integrated", recommendation=reply.answer["recommendation"])
    if reply.answer["recommendation"] != "APPROVE":
        raise Escalation(f"the integrator: {said}")
