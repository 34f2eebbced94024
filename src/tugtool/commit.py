"""commit: a step's work goes into git and its completion into the state; neither is lost.

What is about to happen is written down first (the intent). Whoever finds an intent looks at
git: if the commit is there, its step is completed with it; if not, the log is made what it
was, and everything starts over.
"""

from __future__ import annotations

import os

from tugtool import crash, git, log, message, state, trailers, tree
from tugtool.errors import GitFailed, TugError
from tugtool.intent import Intent
from tugtool.state import record
from tugtool.state_errors import NotOwner, WrongStatus
from tugtool.store import sql_commit as sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.intent import Site
    from tugtool.store import Row
    from tugtool.tree import Commit

    Data = dict[str, object]

#: Why the state could not be updated, by the code of the refusal; all others: db_error.
REASONS = {
    "E051": "open_items",
    "E052": "open_items",
    "E048": "drift",
    "E049": "ownership",
    "E050": "ownership",
    "E060": "ownership",
}
#: These say that there is no claim any more to which the commit could belong.
OVER = ("E049", "E050", "E059", "E060", "E063")
#: Without an intent, a commit of this attempt is looked for among so many.
_LOOK_BACK = 50


class Work:
    """What is to be said of the work."""

    __slots__ = ("max_bytes", "max_lines", "message", "summary")

    def __init__(
        self, words: str, summary: str | None = None, *, max_lines: int, max_bytes: int
    ) -> None:
        self.message = message.checked(words)
        subject = self.message.partition("\n")[0]
        self.summary = message.checked(summary, "summary") if summary is not None else subject
        self.max_lines, self.max_bytes = max_lines, max_bytes


class _Unknown(Exception):
    """Git could not be asked whether there is a commit."""

    def __init__(self, error: GitFailed) -> None:
        super().__init__(error.message)
        self.error = error


class _Step:
    """What the state says of the step before anything is touched."""

    __slots__ = ("attempt", "completed", "intent", "plan_hash", "title")

    def __init__(self, plan: Row, row: Row, top: Row, intent: Row | None) -> None:
        self.plan_hash: str = plan["plan_hash"]
        self.title: str = row["title"]
        self.attempt: int = top["attempt"]
        self.completed = row["status"] == "completed"
        self.intent = intent


def commit(site: Site, plan: str, anchor: str, work: Work, *, attempt: int | None) -> Data:
    """Commit everything in the worktree for a step, and complete the step with it."""
    step = _held(site, plan, anchor, attempt)
    issues: list[Data] = []
    if step.intent is not None:
        earlier = Intent.taken_over(site, step.intent)
        made = earlier.made(site)
        same = (earlier.plan, earlier.anchor, earlier.attempt) == (plan, anchor, step.attempt)
        if made is not None and same and not step.completed:
            issues += _oddities(site, earlier, made)
            return _finish(site, earlier, made, issues, recovered=True)
        issues.append(_settle(site, earlier, made))
    if step.completed:
        return _completed(site, plan, anchor, step)
    return _commit(site, plan, anchor, work, step, issues)


def settle(site: Site) -> Data | None:
    """Finish or undo what an earlier commit left in this worktree; what was done, if anything."""
    with site.store.read() as tx:
        row = tx.first(sql.COMMIT_INTENT, owner=site.owner)
    if row is None:
        return None
    intent = Intent.taken_over(site, row)
    return _settle(site, intent, intent.made(site))


def _held(site: Site, plan: str, anchor: str, attempt: int | None) -> _Step:
    """The step, if it is or was the caller's; in the order of the refusals, before all else."""
    with site.store.read(plan) as tx:
        plan_ = record.plan_row(tx, plan)
        row, top = record.family(tx, plan, anchor)
        record.refuse_stale(plan, top, attempt)
        if row is not top:
            # It is completed by its last item, long before anybody commits.
            needed = f"{top['anchor']} is committed as a whole"
            raise WrongStatus(plan, anchor, status="a substep", needed=needed)
        if row["status"] != "completed":
            record.refuse_stranger(plan, top, site.owner)
        elif row["completed_by"] not in (None, site.owner):
            # What lies here is not in that commit, and this is no success.
            facts = {"owner": row["completed_by"], "caller": site.owner}
            raise NotOwner(plan, anchor, **facts, verb="was completed")
        intent = tx.first(sql.COMMIT_INTENT, owner=site.owner)
        return _Step(plan_, row, top, intent)


def _commit(
    site: Site, plan: str, anchor: str, work: Work, step: _Step, issues: list[Data]
) -> Data:
    """The work itself; nothing is under way any more."""
    if os.path.lexists(os.path.join(site.git_dir, "index.lock")):
        # Perhaps a sync was killed here: what it left must not be committed as it stands.
        from tugtool.worktree import syncing

        syncing.mend(site.top)
    found = tree.look(site.top, site.git_dir)
    found.refuse_unfit()
    claim = trailers.claim(anchor, plan_hash=step.plan_hash, attempt=step.attempt)
    intent = Intent(
        plan, anchor, step.attempt, claim=claim, head=found.head, change=log.Change(site.top)
    )
    if not found.dirty:
        # Perhaps it is in git already, and only its intent was lost.
        recent = tree.commits(site.top, None, most=_LOOK_BACK)
        made = tree.carrying(recent, plan, claim)
        if made is not None:
            return _finish(site, intent, made, issues, recovered=True)
    ours = trailers.written(plan, anchor, plan_hash=step.plan_hash, attempt=step.attempt)
    text = message.composed(work.message, ours, cwd=site.top)
    _record(site, intent, work, step)
    crash.point("commit.intent")
    made = _made(site, intent, text)
    crash.point("commit.committed")
    issues += _oddities(site, intent, made)
    return _finish(site, intent, made, issues, recovered=False)


def _record(site: Site, intent: Intent, work: Work, step: _Step) -> None:
    """Look again, now that nobody can come between, and write down what is about to happen."""
    plan, anchor = intent.plan, intent.anchor
    with site.store.write(plan) as tx:
        _, top = record.held(
            tx, plan, anchor, owner=site.owner, attempt=intent.attempt, unfinished=True
        )
        intent.change = log.prepare(
            site.top, max_lines=work.max_lines, max_bytes=work.max_bytes, now=tx.now
        )
        intent.change.entry = log.entry(
            anchor=anchor,
            title=step.title,
            summary=work.summary,
            plan=plan,
            attempt=intent.attempt,
            worktree=site.name,
            claim=intent.claim,
            now=tx.now,
        )
        intent.record(tx, site)
        # Hooks may take their time: a sign of life, as every write of the owner is.
        record.renew(tx, plan, top)
        record.note(tx, plan, "heartbeat", anchor=anchor, actor=site.owner, attempt=intent.attempt)


def _made(site: Site, intent: Intent, text: str) -> Commit:
    """Log, add, commit. If git refuses, all is as it was, and the intent is gone."""
    saved = tree.save_index(site.git_dir)
    try:
        intent.change.rotate()
        crash.point("commit.rotated")
        intent.change.write()
        crash.point("commit.logged")
        tree.add_all(site.top, site.git_dir)
        crash.point("commit.added")
        made = _committed(site, intent, text)
    except _Unknown as unknown:
        # Neither finished nor undone: whoever looks next finds out.
        raise unknown.error from unknown
    except TugError:
        intent.change.undo(at_once=True)
        if saved:
            tree.restore_index(site.git_dir)
        intent.drop(site)
        raise
    tree.forget_index(site.git_dir)
    return made


def _committed(site: Site, intent: Intent, text: str) -> Commit:
    # Verbatim: lines that begin with # are the caller's, and no comments.
    words = ("commit", "--quiet", "--cleanup=verbatim", "--allow-empty", "--file=-")
    # It gets no message before it is written down: killed before that, it commits nothing.
    done = git.attempt(
        *words,
        cwd=site.top,
        given=text,
        settings=("i18n.commitEncoding=UTF-8",),
        started=site.note.write,
        # Perhaps it had committed by then; that is looked for.
        though_killed=True,
    )
    try:
        since = tree.commits(site.top, intent.head)
    except GitFailed as error:
        intent.leave(site)
        raise _Unknown(error) from error
    made = tree.carrying(since, intent.plan, intent.claim)
    if made is None and not done.status:
        # A hook took the trailers away. The commit is there all the same.
        made = next(
            (each for each in reversed(since) if intent.head in (None, *each.parents)), None
        )
    # Git also fails after the commit, when only the index could not be written.
    if made is None:
        raise GitFailed(words, status=done.status, said=done.said.strip())
    return made


def _oddities(site: Site, intent: Intent, made: Commit) -> list[Data]:
    issues: list[Data] = []
    if made.parents != ([intent.head] if intent.head else []):
        said = f"somebody else committed in {site.top} meanwhile; {made.hash} is on top of that"
        issues.append({"code": "W110", "severity": "warning", "message": said})
    if not made.is_for(intent.plan, intent.claim):
        said = f"a hook changed the trailers of {made.hash}; its step cannot be found by them"
        issues.append({"code": "W111", "severity": "warning", "message": said})
    return issues


def _finish(
    site: Site, intent: Intent, made: Commit, issues: list[Data], *, recovered: bool
) -> Data:
    """Complete the step with its commit. If that fails, the commit stands and is told of."""
    answer, failure = _complete(site, intent, made)
    if failure is None:
        crash.point("commit.completed")
        site.note.drop()
    else:
        # The intent stays: the next run completes the step with this commit.
        intent.leave(site)
        issues = [*issues, {**failure.issue(), "severity": "warning"}]
    if recovered and tree.look(site.top, site.git_dir).dirty:
        said = (
            f"{made.hash} was made by an earlier run; what was changed since is not in it: the "
            "commit of the next step here takes it along, or git commit"
        )
        issues = [*issues, {"code": "W112", "severity": "warning", "message": said}]
    change = intent.change
    data: Data = {
        **answer,
        "committed": True,
        "commit_hash": made.hash,
        "recovered": recovered,
        "files_staged": made.files,
        "log_updated": log.PATH in made.files,
        "log_rotated": change.archive is not None,
        "archived_path": change.archive,
        "state_update_failed": failure is not None,
        "warnings": [issue["message"] for issue in issues],
        "issues": issues,
    }
    if failure is not None:
        data["state_failure_reason"] = REASONS.get(failure.code, "db_error")
    return data


def _complete(site: Site, intent: Intent, made: Commit) -> tuple[Data, TugError | None]:
    plan, anchor = intent.plan, intent.anchor
    try:
        answer = state.complete(
            site.store,
            plan,
            anchor,
            owner=site.owner,
            copy=site.copy(plan),
            attempt=intent.attempt,
            commit=made.hash,
            intent_at=intent.created_at,
        )
    except TugError as error:
        names = {"plan_path": plan, **record.names(anchor), "attempt": intent.attempt}
        return {"completed": False, **names, "already_completed": False}, error
    return answer, None


def _settle(site: Site, intent: Intent, made: Commit | None) -> Data:
    """Bring an earlier commit of this worktree to its end; what was done."""
    if made is None:
        change = intent.change
        change.undo()
        paths = [log.PATH, *([change.archive] if change.archive else [])]
        tree.undo_index(site.top, site.git_dir, change.entry.strip(), paths)
        intent.drop(site)
        done = "undone: git has no commit of it"
    else:
        _, failure = _complete(site, intent, made)
        if failure is not None and failure.code not in OVER:
            intent.leave(site)
            known = failure.code in REASONS
            raise intent.unfinished(site, made, failure) if known else failure
        if failure is None:
            site.note.drop()
        else:
            intent.drop(site)
        done = "finished: its step is completed" if failure is None else "left: its claim is over"
    said = f"an earlier commit for {intent.anchor} was {done}"
    return {"code": "W113", "severity": "warning", "message": said, "anchor": intent.anchor}


def _completed(site: Site, plan: str, anchor: str, step: _Step) -> Data:
    """Nothing is left to do, and nothing is done."""
    answer = state.complete(
        site.store, plan, anchor, owner=site.owner, copy=site.copy(plan), attempt=step.attempt
    )
    return {
        **answer,
        "committed": False,
        "recovered": False,
        "files_staged": [],
        "log_updated": False,
        "log_rotated": False,
        "archived_path": None,
        "state_update_failed": False,
        "warnings": [],
        "issues": [],
    }
