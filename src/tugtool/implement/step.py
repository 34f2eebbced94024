"""One step from claim to commit."""

from __future__ import annotations

import contextlib

from tugtool import state
from tugtool.errors import GitFailed, TugError
from tugtool.errors.git import MessageRefused
from tugtool.errors.state import DatabaseError, PlanChanged
from tugtool.git import trailers
from tugtool.implement import agent, checkpoints, conflicts, recovery
from tugtool.implement.agent import Unusable
from tugtool.implement.enforcement import tell_left_out
from tugtool.implement.run import Escalation, Failed, Lost, Parked, Question, Stopped
from tugtool.state import attempts, views
from tugtool.state.attempts import Note
from tugtool.system import crash, text
from tugtool.workflow import commit
from tugtool.workflow.salvage import catch_up, saved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    from tugtool.implement.attempt import Attempt
    from tugtool.workflow.worktree.create import WorktreeRequest

    T = TypeVar("T")


#: How often a stage restarts after its git was killed or met a stale lock.
_MOST_AGAIN = 2


def save_others(work: Attempt) -> None:
    """Save the uncommitted work of workers that have lost a step of the plan."""
    claim, run = work.claim, work.run
    if claim.pop("unsaved", False):
        for each in catch_up.catch_up(run.repo, work.store, run.plan):
            if each["problem"] is not None:
                where = f"{each['step_anchor']} in {each['worktree']}"
                run.warn(f"the work on {where} is not saved yet: {each['problem']}")


def take_up(work: Attempt) -> None:
    """Continue with the step's last saved work, if there is any."""
    before = work.claim["previous_attempt"]
    if before is None:
        return
    catch_up.trace(work.run.repo, work.store, work.claim)
    ref = _last_saved(work)
    # Uncommitted files here are newer than any saved work.
    usable = ref in before["salvage_refs"] and not conflicts.is_merge(work, ref)
    if usable and not work.checkout.is_dirty():
        _apply(work, ref)


def _last_saved(work: Attempt) -> str:
    """Return the ref of the step's newest work, if it is newer than the last commit."""
    rows = views.attempts(work.store, work.run.plan, work.anchor)
    for row in sorted(rows, key=lambda row: -int(row["number"])):
        if row["outcome"] == "completed":
            break
        if row["salvage_ref"] is not None:
            return str(row["salvage_ref"])
    return ""


def _apply(work: Attempt, ref: str) -> None:
    try:
        done = saved.apply(work.run.repo, ref, at=work.checkout.path)
    except TugError as error:
        # The saved work stays under its ref, and the agents are told of it.
        work.run.warn(error.message, step_anchor=work.anchor)
        return
    if done["files"]:
        work.tell("resumed", salvage_ref=ref, files=done["files"][:20])
        crash.point("implement.resumed")


def carry_out(work: Attempt) -> str:
    """Do the step and return its commit. Raise `End` if it ends in another way."""
    crash.point("implement.claimed")
    before = insist(work, lambda: _done_before(work))
    if before is not None:
        return before
    insist(work, lambda: _prepare(work))
    strategy = insist(work, lambda: _architect(work))
    review = _Review(work, strategy)
    try:
        return _approve_and_commit(work, review)
    except _HookRefused as refusal:
        review.hand_back(str(refusal))
    return _approve_and_commit(work, review, again=True)


def _approve_and_commit(work: Attempt, review: _Review, *, again: bool = False) -> str:
    insist(work, review.run)
    insist(work, lambda: checkpoints.tell_doubts(work, review.verdict))
    insist(work, lambda: checkpoints.close_items(work, review.verdict))
    return insist(work, lambda: _commit(work, review, again=again))


#: Messages of git for a full disk, where the exit status looks like a hook's refusal.
_NO_ROOM = ("Error building trees", "due to empty commit message")


class _HookRefused(Exception):
    """A hook of the repository refused the step's commit; the message is the hook's."""


def insist(work: Attempt, stage: Callable[[], T]) -> T:
    """Repeat a stage until it succeeds or a person stops it."""
    times = 0
    while True:
        try:
            return stage()
        except (Escalation, OSError) as escalation:
            _escalate(work, escalation)
        except Failed as end:
            failure = (work.anchor, end.role)
            if failure not in work.run.failures:
                work.run.failures.add(failure)
                # A fresh attempt may succeed.
                raise
            _fail_again(work, end)
        except TugError as error:
            times += 1
            _refused(work, error, times)


def _refused(work: Attempt, error: TugError, times: int) -> None:
    """Handle the refusal of a stage; return if the stage may begin again."""
    if work.is_over(error.code):
        raise Lost from error
    if work.run.is_stopped_by(error):
        raise Stopped from error
    if isinstance(error, PlanChanged) and work.follow():
        # A person agreed to a new text, which kept this step.
        return
    if times > _MOST_AGAIN or not _may_pass(work, error):
        _escalate(work, Escalation(error.message, code=error.code))


def _may_pass(work: Attempt, error: TugError) -> bool:
    """Return whether a killed git process caused the error; remove the locks it left."""
    if not isinstance(error, GitFailed):
        return False
    return work.checkout.drop_locks(work.run.warn) or error.status < 0


def _fail_again(work: Attempt, end: Failed) -> None:
    """Escalate the second failure of the same agent at the step, before it costs a night."""
    work.failure = str(end)
    try:
        work.report(end.role, end.usage)
    except TugError as error:
        if work.is_over(error.code):
            raise Lost from error
        raise
    _escalate(work, Escalation(f"{end} (in a second attempt as well)", role=end.role))
    work.failure = None


def _escalate(work: Attempt, escalation: Escalation | OSError) -> None:
    """Ask a person; return if they want another try."""
    reason = str(escalation)
    facts = escalation.facts if isinstance(escalation, Escalation) else {}
    work.tell("escalated", reason=reason, **facts)
    asked = {} if work.run.terms.unattended else {attempts.ASKED: work.attempt}
    try:
        work.leave_note("escalation", reason, text.encode({**facts, **asked}))
    except DatabaseError:
        # The question is then about the database itself.
        pass
    except TugError as error:
        if work.is_over(error.code):
            raise Lost from error
        raise
    refused = facts.get("code") == GitFailed.code and work.run.terms.unattended
    if refused and work.run.refuse(work.anchor, reason, work.checkout.path):
        raise Stopped
    # The person may change files there.
    work.held = None
    question = Question(work.anchor, reason)
    choice = work.ask(question)
    if choice == "park":
        raise Parked(reason)
    if choice == "stop":
        work.run.stop()
        raise Stopped
    with contextlib.suppress(TugError):
        # If this cannot be stored, the repeated stage meets the same problem.
        said = f": {question.note}" if question.note else ""
        work.leave_note("note", f"a person answered: {choice}{said}")
    work.answer = question.note


def _done_before(work: Attempt) -> str | None:
    work.check()
    save_others(work)
    return recovery.completed(work)


def _prepare(work: Attempt) -> None:
    work.check()
    conflicts.bring_in(work)
    crash.point("implement.synced")
    take_up(work)
    if not work.claim["started"]:
        state.start(work.store, work.run.plan, work.anchor, **work.by)
    crash.point("implement.started")


def _architect(work: Attempt) -> dict[str, Any] | None:
    if "architect" not in work.run.parts:
        return None
    reply = agent.call(work, "architect", {})
    approach, strategy = str(reply.answer["approach"]), text.encode(reply.answer)
    work.report("architect", reply.usage, Note("architect_strategy", approach, strategy))
    crash.point("implement.architect")
    return reply.answer


class _Review:
    """Let coder and reviewer take turns until the work is approved."""

    def __init__(self, work: Attempt, strategy: dict[str, Any] | None) -> None:
        self.work, self.strategy = work, strategy
        self.findings: dict[str, Any] | None = None
        self.report: dict[str, Any] = {}
        self.verdict: dict[str, Any] = {}
        self.proof = checkpoints.CheckResult()
        self.first = 1

    def hand_back(self, reason: str) -> None:
        """Give the hook's refusal to the coder as a finding."""
        found = [{"severity": "critical", "description": reason}]
        self.findings = {"recommendation": "REVISE", "summary": "", "issues": found}
        self.work.tell("revise", round=self.first, reason=reason)
        self.first += 1

    def run(self) -> None:
        """Run the allowed rounds, and one more if a person asks for it."""
        for number in range(self.first, self.first + self.work.run.terms.review_rounds + 1):
            self._code(number)
            self._review(number)
            said = agent.in_short(self.verdict)
            asked = f"the reviewer asked for changes {text.many(number, 'time')}"
            self.findings = self.verdict
            if self.verdict["recommendation"] == "APPROVE":
                self.proof = checkpoints.prove(self.work)
                if not self.proof.failed:
                    self.first = number
                    return
                self.findings, said = self.proof.findings(), self.proof.in_short()
                asked = f"commands of checkpoints still fail after {text.many(number, 'round')}"
            if self.verdict["recommendation"] == "ESCALATE":
                raise Escalation(f"the reviewer asks for a person: {said}", round=number)
            self.work.tell("revise", round=number, reason=said)
        raise Escalation(f"{asked}: {said}", round=number)

    def _code(self, number: int) -> None:
        work = self.work
        findings = _with_answer(self.findings, work.answer)
        more = {"strategy": self.strategy, "findings": findings, "round": number}
        reply = agent.call(work, "coder", more, _refuse_giving_up)
        self.report = reply.answer
        work.report("coder", reply.usage)
        crash.point("implement.coder")
        work.tell("coder_reported", message=agent.coder_summary(work.step, self.report))

    def _review(self, number: int) -> None:
        work = self.work
        more = {
            "strategy": self.strategy,
            "coder_report": self.report,
            "findings": self.findings,
            "round": number,
        }
        known = work.step
        reply = agent.call(work, "reviewer", more, lambda answer: checkpoints.passed(known, answer))
        self.verdict = reply.answer
        said = agent.in_short(self.verdict)
        note = Note("reviewer_verdict", said, text.encode(self.verdict))
        work.report("reviewer", reply.usage, note)
        crash.point("implement.reviewer")


def _with_answer(findings: dict[str, Any] | None, answer: str) -> dict[str, Any] | None:
    """Return the findings for the coder, with what a person answered."""
    if not answer:
        return findings
    found = findings or {"recommendation": "REVISE", "summary": "", "issues": []}
    said = {"severity": "critical", "description": f"a person answered: {answer}"}
    return {**found, "issues": [*found.get("issues", []), said]}


def _refuse_giving_up(report: dict[str, Any]) -> None:
    if report.get("success") is False:
        raise Unusable(f"it says that it did not succeed: {report.get('summary', '')}")


def _commit(work: Attempt, review: _Review, *, again: bool) -> str:
    work.check()
    site, plan = work.checkout.site(work.store), work.run.plan
    words = _words(work, review.report)
    how: dict[str, Any] = {"attempt": work.attempt, "tested": review.proof.tree}
    try:
        done, _ = commit.commit(site, plan, work.anchor, words, **how)
    except GitFailed as error:
        if again or not _is_by_hook(error):
            raise
        raise _HookRefused(f"a hook of the repository refused the commit: {error.said}") from error
    crash.point("implement.committed")
    for message in done["warnings"]:
        work.run.warn(str(message), step_anchor=work.anchor)
    if done["state_update_failed"]:
        recovery.recover(work, done, review.verdict)
    # The step is done, even if reporting fails.
    with contextlib.suppress(TugError):
        if done["committed"]:
            tell_left_out(work, review.report, done["files_staged"])
    return str(done["commit_hash"])


def _is_by_hook(error: GitFailed) -> bool:
    # For other errors of git itself the exit status is 128.
    full_disk = any(words in error.said for words in _NO_ROOM)
    return (error.command, error.status) == ("commit", 1) and not full_disk


def unusable_commit_lines(order: WorktreeRequest, cwd: str) -> Iterator[MessageRefused]:
    """Yield E081 for each Commit line of the plan that git would truncate."""
    for step in order.parsed.steps:
        words = step.commit_message
        if not words.startswith("#"):
            # For other unusable lines, `_words` takes the step's title.
            continue
        ours = trailers.written(order.file.key, step.anchor, plan_hash=order.hash, attempt=1)
        try:
            trailers.composed(words, ours, cwd=cwd)
        except MessageRefused as error:
            yield MessageRefused(f"the Commit line of {step.anchor}: {error.message}")


def _words(work: Attempt, report: dict[str, Any]) -> commit.CommitText:
    """Return the commit message: the plan's Commit line and the coder's summary."""
    terms = work.run.terms
    limits: dict[str, Any] = {"max_lines": terms.log_max_lines, "max_bytes": terms.log_max_bytes}
    lines = work.step.commit_message
    summary = str(report.get("summary") or "").strip() or None
    try:
        return commit.CommitText(f"{lines}\n\n{summary}" if summary else lines, summary, **limits)
    except MessageRefused:
        # The summary contains trailers of ours, so leave it out.
        return commit.CommitText(f"{work.anchor}: {work.title}", **limits)
