"""One attempt at one step: from its claim to its commit.

Whatever a person has to decide is an escalation; what they say is acted upon where it arose.
"""

from __future__ import annotations

from tugtool import commit, crash, jsontext, keeping, state
from tugtool.errors import TugError
from tugtool.git_errors import MessageRefused
from tugtool.implement import calling, earlier, recovery, resuming, verdicts
from tugtool.implement.casting import Unusable
from tugtool.implement.ends import Escalation, Failed, Lost, Parked, Stopped
from tugtool.implement.run import Question
from tugtool.state.reporting import Note
from tugtool.state_errors import DatabaseError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from tugtool.implement.seat import Work

    Data = dict[str, Any]
    T = TypeVar("T")


def carry_out(work: Work) -> Data:
    """Do the step and commit it; the commit's answer. Raises how else it ended."""
    crash.point("implement.claimed")
    done = insist(work, lambda: _done_before(work))
    if done is not None:
        return done
    insist(work, lambda: _prepare(work))
    strategy = insist(work, lambda: _architect(work))
    review = _Review(work, strategy)
    insist(work, review.run)
    entries = verdicts.deferred(work.step, review.verdict)
    insist(work, lambda: _tell_doubts(work, review.verdict))
    insist(work, lambda: _close_items(work, entries))
    return insist(work, lambda: _commit(work, review.report, entries))


def insist(work: Work, stage: Callable[[], T]) -> T:
    """Run a stage until it succeeds, or a person has had enough of it."""
    while True:
        try:
            return stage()
        except Escalation as escalation:
            _escalate(work, escalation)
        except Failed as end:
            if not work.run.fails_again(work.anchor, end.role):
                # Once more from the start, in an attempt of its own, may well help.
                raise
            _fail_again(work, end)
        except TugError as error:
            if work.is_over(error.code):
                raise Lost from error
            if work.run.is_stopped_by(error):
                raise Stopped from error
            _escalate(work, Escalation(error.message, code=error.code))


def _fail_again(work: Work, end: Failed) -> None:
    """The same agent has failed the step twice: a person, before it costs a whole night."""
    work.failure = str(end)
    try:
        work.report(end.role, end.reply)
    except TugError as error:
        if work.is_over(error.code):
            raise Lost from error
        raise
    _escalate(work, Escalation(f"{end} (in a second attempt as well)", role=end.role))
    work.failure = None


def _escalate(work: Work, escalation: Escalation) -> None:
    """Put it to a person; returns if they want it tried again."""
    reason = escalation.reason
    work.tell("escalated", reason=reason, **escalation.facts)
    try:
        work.leave_note("escalation", reason, jsontext.encode(escalation.facts))
    except DatabaseError:
        # Then that is what it is about.
        pass
    except TugError as error:
        if work.is_over(error.code):
            raise Lost from error
        raise
    question = Question(work.anchor, reason)
    # Whoever is asked may put things right there.
    work.held = None
    work.run.ask(question)
    while not question.wait(keeping.LOOK_SECONDS):
        work.check()
    if question.choice == "park":
        raise Parked(reason)
    if question.choice == "stop":
        work.run.stop()
        raise Stopped


def _done_before(work: Work) -> Data | None:
    work.check()
    resuming.save_others(work)
    return earlier.completed(work)


def _prepare(work: Work) -> None:
    work.check()
    resuming.bring_in(work)
    crash.point("implement.synced")
    resuming.take_up(work)
    if not work.claim["started"]:
        state.start(work.store, work.run.plan, work.anchor, **work.by)
    crash.point("implement.started")


def _architect(work: Work) -> Data | None:
    if "architect" not in work.run.parts:
        return None
    reply = calling.call(work, "architect", {})
    strategy: Data = reply.answer
    note = Note("architect_strategy", str(strategy["approach"]), jsontext.encode(strategy))
    work.report("architect", reply, note)
    crash.point("implement.architect")
    return strategy


class _Review:
    """Coder and reviewer in turns, until the work is approved."""

    def __init__(self, work: Work, strategy: Data | None) -> None:
        self.work, self.strategy = work, strategy
        self.findings: Data | None = None
        self.report: Data = {}
        self.verdict: Data = {}

    def run(self) -> None:
        """As many rounds as are allowed; once more if a person says so."""
        for number in range(1, self.work.run.terms.review_rounds + 2):
            self._code(number)
            self._review(number)
            said = verdicts.in_short(self.verdict)
            if self.verdict["recommendation"] == "APPROVE":
                return
            self.findings = self.verdict
            if self.verdict["recommendation"] == "ESCALATE":
                raise Escalation(f"the reviewer asks for a person: {said}", round=number)
            self.work.tell("revise", round=number, reason=said)
        raise Escalation(f"the reviewer asked for changes {number} times: {said}", round=number)

    def _code(self, number: int) -> None:
        work = self.work
        more = {"strategy": self.strategy, "findings": self.findings, "round": number}
        reply = calling.call(work, "coder", more, judge=_refuse_giving_up)
        self.report = reply.answer
        work.report("coder", reply)
        crash.point("implement.coder")
        work.tell("coder_reported", message=verdicts.told_by_coder(work.step, self.report))

    def _review(self, number: int) -> None:
        work = self.work
        more = {
            "strategy": self.strategy,
            "coder_report": self.report,
            "findings": self.findings,
            "round": number,
        }

        def judge(answer: Data) -> None:
            verdicts.deferred(work.step, answer)

        reply = calling.call(work, "reviewer", more, judge=judge)
        self.verdict = reply.answer
        said = verdicts.in_short(self.verdict)
        work.report(
            "reviewer", reply, Note("reviewer_verdict", said, jsontext.encode(self.verdict))
        )
        crash.point("implement.reviewer")


def _refuse_giving_up(report: Data) -> None:
    if report.get("success") is False:
        raise Unusable(f"it says that it did not succeed: {report.get('summary', '')}")


def _tell_doubts(work: Work, verdict: Data) -> None:
    """What was approved all the same is closed as approved; but it is told, and kept."""
    for said in verdicts.doubts(work.step, verdict):
        work.leave_note("note", said)
        work.run.warn(f"{work.anchor}: {said}", step_anchor=work.anchor)


def _close_items(work: Work, entries: list[Data]) -> None:
    """What the reviewer could not pass is deferred, and the rest completed, all at once."""
    plan = work.run.plan
    copy = work.desk.copy(plan)
    by = {**work.by, "copy": copy}
    state.update(work.store, plan, work.anchor, entries, **by, complete_remaining=True)
    work.keeper.renewed()
    for entry in entries:
        where = entry.get("step", work.anchor)
        work.tell("deferred", item=f"{where} checkpoint {entry['ordinal']}", reason=entry["reason"])
    crash.point("implement.updated")


def _commit(work: Work, report: Data, entries: list[Data]) -> Data:
    work.check()
    site, plan = work.desk.site(work.store), work.run.plan
    done: Data = commit.commit(site, plan, work.anchor, _words(work, report), attempt=work.attempt)
    crash.point("implement.committed")
    for message in done["warnings"]:
        work.run.warn(str(message), step_anchor=work.anchor)
    if done["state_update_failed"]:
        recovery.recover(work, done, entries)
    return done


def _words(work: Work, report: Data) -> commit.Work:
    """What the commit says: the plan's own words for it, and the coder's summary."""
    terms = work.run.terms
    limits: Data = {"max_lines": terms.log_max_lines, "max_bytes": terms.log_max_bytes}
    planned = work.step.commit
    lines = planned.text.replace("`", "").strip() if planned is not None else ""
    if not lines or work.step.verification_only:
        lines = f"{work.anchor}: {work.title}"
    summary = str(report.get("summary") or "").strip() or None
    try:
        return commit.Work(f"{lines}\n\n{summary}" if summary else lines, summary, **limits)
    except MessageRefused:
        # A summary with trailers of ours in it is no summary; the plan's words will do.
        return commit.Work(f"{work.anchor}: {work.title}", **limits)
