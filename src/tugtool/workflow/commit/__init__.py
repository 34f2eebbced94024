"""commit: commit a step's work and complete the step, so that neither gets lost.

An intent is recorded first. A command that finds an intent looks at git: if the commit
exists, it completes the step with it; if not, it restores the log, and the commit can start
over.
"""

from __future__ import annotations

from tugtool import state
from tugtool.errors import GitFailed, TugError, listing, quoted
from tugtool.errors.state import CLAIM_LOST
from tugtool.git import command as git
from tugtool.git import history, index, status, trailers
from tugtool.state import intents, record
from tugtool.system import crash, os
from tugtool.workflow.commit import log
from tugtool.workflow.commit.intent import Intent, caller_commit_site, left_out, mixed_plans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from tugtool.git.history import WorkCommit
    from tugtool.schemas import Commit as CommitAnswer
    from tugtool.schemas import Issue
    from tugtool.store import Row
    from tugtool.workflow.commit.intent import CommitSite
    from tugtool.workflow.workspace import Workspace

#: Why the state could not be updated, by the error's code; all others: db_error.
REASONS = {
    "E051": "open_items",
    "E052": "open_items",
    "E048": "drift",
    "E049": "ownership",
    "E050": "ownership",
    "E060": "ownership",
}
#: Without an intent, look for a commit of this attempt among so many.
_LOOK_BACK = 50


class CommitText:
    """The message, summary and log limits of a commit."""

    __slots__ = ("max_bytes", "max_lines", "message", "summary")

    def __init__(
        self, words: str, summary: str | None = None, *, max_lines: int, max_bytes: int
    ) -> None:
        self.message = trailers.check_text(words)
        subject = self.message.partition("\n")[0]
        self.summary = trailers.check_text(summary, "summary") if summary is not None else subject
        self.max_lines, self.max_bytes = max_lines, max_bytes


class _Unknown(Exception):
    """Git could not say whether there is a commit."""

    def __init__(self, error: GitFailed) -> None:
        super().__init__(error.message)
        self.error = error


def commit_for_caller(
    space: Workspace,
    name: str | None,
    anchor: str,
    words: str,
    *,
    summary: str | None = None,
    attempt: int | None = None,
    verify: bool = False,
    strict: bool = False,
    hear: Callable[[str], None] = lambda command: None,
) -> tuple[CommitAnswer, list[Issue]]:
    """Commit the caller's worktree for a step of the plan. Return the answer and warnings.

    With `verify` run the command checkpoints first; `hear` gets each command. With `strict`
    refuse open items before anything is committed.
    """
    number = space.settings.number
    work = CommitText(
        words, summary, max_lines=number("log.max_lines"), max_bytes=number("log.max_bytes")
    )
    plan = space.plan(name)
    attempt = space.attempt(plan, anchor, attempt)
    site, tested = caller_commit_site(space, plan), None
    asked = {"run": verify, "strict": strict}
    if any(asked.values()):
        from tugtool.workflow import verify as checks  # Most commits do without it.

        how: Any = {"attempt": attempt, "hear": hear, **asked}
        tested = checks.before_commit(space, plan, anchor, **how)
    return commit(site, plan, anchor, work, attempt=attempt, tested=tested)


def commit(
    site: CommitSite,
    plan: str,
    anchor: str,
    work: CommitText,
    *,
    attempt: int | None,
    tested: str | None = None,
) -> tuple[CommitAnswer, list[Issue]]:
    """Commit everything in the worktree for a step, and complete the step with it.

    `tested`: the tree that the checkpoints ran on; their evidence then counts for the commit.
    """
    store, owner = site.store, site.owner
    # These checks come first and in this order.
    agreed, step, begun = intents.require_committable(
        store, plan, anchor, owner=owner, attempt=attempt
    )
    completed = step["status"] == "completed"
    issues: list[Issue] = []
    if begun is not None:
        earlier = Intent.taken_over(site, begun)
        made = earlier.made(site)
        same = (earlier.plan, earlier.anchor, earlier.attempt) == (plan, anchor, step["attempt"])
        if made is not None and same and not completed:
            issues += _oddities(site, earlier, made)
            return _finish(site, earlier, made, issues, recovered=True)
        issues.append(_finish_interrupted(site, earlier, made))
    if completed:
        more, told = _publish(site, plan)
        told = [*told, *left_out(site, step["commit_hash"])]
        more["warnings"] = [issue["message"] for issue in told]
        return _completed(site, plan, step) | more, told
    issues += mixed_plans(store, plan, owner)
    return _commit(site, plan, agreed["plan_hash"], step, work, issues, tested)


def finish_interrupted(site: CommitSite) -> Issue | None:
    """Finish or undo an earlier commit in this worktree. Return what was done, or None."""
    row = intents.find_intent(site.store, "commit", site.owner)
    if row is None:
        return None
    intent = Intent.taken_over(site, row)
    return _finish_interrupted(site, intent, intent.made(site))


def tested_tree(site: CommitSite, commit: str) -> str | None:
    """Return the tree that checkpoints ran on before that commit, if the commit contains it."""
    row = intents.find_intent(site.store, "commit", site.owner)
    return None if row is None else Intent.recorded(site, row).proven_tree(site, commit)


def _commit(
    site: CommitSite,
    plan: str,
    plan_hash: str,
    step: Row,
    work: CommitText,
    issues: list[Issue],
    tested: str | None,
) -> tuple[CommitAnswer, list[Issue]]:
    """Make the commit; no earlier one is under way."""
    anchor, attempt = step["anchor"], step["attempt"]
    if os.path.lexists(os.path.join(site.git_dir, "index.lock")):
        # A killed sync may have left files that must not be committed.
        from tugtool.workflow.worktree import sync

        sync.repair_sync(site.top)
    found = status.inspect(site.top, site.git_dir)
    found.refuse_unfit()
    claim = trailers.claim(anchor, plan_hash=plan_hash, attempt=attempt)
    change = log.LogChange(site.top)
    about: Any = {"claim": claim, "head": found.head, "change": change, "tested": tested}
    intent = Intent(plan, anchor, attempt, **about)
    if not found.dirty:
        # The commit may exist already, without its intent.
        recent = history.commits(site.top, None, most=_LOOK_BACK)
        made = history.carrying(recent, plan, claim)
        if made is not None:
            return _finish(site, intent, made, issues, recovered=True)
    ours = trailers.written(plan, anchor, plan_hash=plan_hash, attempt=attempt)
    text = trailers.composed(work.message, ours, cwd=site.top)
    _record(site, intent, work, step["title"])
    crash.point("commit.intent")
    unread: list[str] = []
    made = _made(site, intent, text, unread)
    crash.point("commit.committed")
    issues += [*_oddities(site, intent, made), *_unread(made, unread)]
    return _finish(site, intent, made, issues, recovered=False)


def _record(site: CommitSite, intent: Intent, work: CommitText, title: str) -> None:
    """Check again under the lock, and record the intent."""

    def prepare(now: str) -> None:
        intent.change = log.prepare(
            site.top, max_lines=work.max_lines, max_bytes=work.max_bytes, now=now
        )
        intent.change.entry = log.entry(
            anchor=intent.anchor,
            title=title,
            summary=work.summary,
            plan=intent.plan,
            attempt=intent.attempt,
            worktree=site.name,
            claim=intent.claim,
            now=now,
        )

    intent.record(site, prepare)


def _made(site: CommitSite, intent: Intent, text: str, unread: list[str]) -> WorkCommit:
    """Write the log, add and commit. If git refuses, undo everything and drop the intent.

    `unread` gets the directories that git could not read.
    """
    saved = index.save_index(site.git_dir)
    try:
        intent.change.rotate()
        crash.point("commit.rotated")
        intent.change.write()
        crash.point("commit.logged")
        unread += index.add_all(site.top, site.git_dir)
        crash.point("commit.added")
        made = _committed(site, intent, text)
    except _Unknown as unknown:
        # The commit may exist, so the next command has to find out.
        raise unknown.error from unknown
    except TugError:
        intent.change.undo(at_once=True)
        if saved:
            index.restore_index(site.git_dir)
        intent.drop(site)
        raise
    index.forget_index(site.git_dir)
    return made


def _committed(site: CommitSite, intent: Intent, text: str) -> WorkCommit:
    # Verbatim: lines that begin with # belong to the caller's message.
    words = ("commit", "--quiet", "--cleanup=verbatim", "--allow-empty", "--file=-")
    # Git gets the message only after its pid is recorded: killed before, it commits nothing.
    done = git.attempt(
        *words,
        cwd=site.top,
        given=text,
        settings=("i18n.commitEncoding=UTF-8",),
        started=site.note.write,
        # It may have committed before it was killed, so look for the commit.
        though_killed=True,
    )
    try:
        since = history.commits(site.top, intent.head)
    except GitFailed as error:
        intent.leave(site)
        raise _Unknown(error) from error
    made = history.carrying(since, intent.plan, intent.claim)
    if made is None and not done.status:
        # A hook removed the trailers, but the commit exists.
        made = next(
            (each for each in reversed(since) if intent.head in (None, *each.parents)), None
        )
    # Git also fails after the commit if it cannot write the index.
    if made is None:
        raise GitFailed(words, status=done.status, said=done.said.strip())
    return made


def _oddities(site: CommitSite, intent: Intent, made: WorkCommit) -> list[Issue]:
    issues: list[Issue] = []
    if made.parents != ([intent.head] if intent.head else []):
        said = f"another process committed in {site.top} meanwhile; {made.hash} is on top of that"
        issues.append({"code": "W110", "severity": "warning", "message": said})
    if not made.is_for(intent.plan, intent.claim):
        said = f"a hook changed the trailers of {made.hash}; its step cannot be found by them"
        issues.append({"code": "W111", "severity": "warning", "message": said})
    rule = None if log.PATH in made.files else status.ignored_by(site.top, log.PATH)
    if rule is not None:
        said = f"git ignores {log.PATH} ({rule}), so it is in no commit and goes with the worktree"
        hint = f"git -C {quoted(site.top)} check-ignore --verbose -- {log.PATH}"
        issues.append({"code": "W152", "severity": "warning", "message": said, "hint": hint})
    return issues


def _unread(made: WorkCommit, unread: list[str]) -> list[Issue]:
    if not unread:
        return []
    said = f"git could not read {listing(unread)}; its files are not in {made.hash}"
    hint = "ls -ld"
    return [{"code": "W131", "severity": "warning", "message": said, "hint": hint}]


def _finish(
    site: CommitSite, intent: Intent, made: WorkCommit, issues: list[Issue], *, recovered: bool
) -> tuple[CommitAnswer, list[Issue]]:
    """Complete the step with its commit. If that fails, the commit stays and is reported."""
    answer, failure = _complete(site, intent, made)
    if failure is None:
        crash.point("commit.completed")
        site.note.drop()
        more, told = _publish(site, intent.plan)
        answer, issues = {**answer, **more}, [*issues, *told]
    else:
        # The intent stays: the next run completes the step with this commit.
        intent.leave(site)
        issues = [*issues, {**failure.issue(), "severity": "warning"}]
    issues = [*issues, *(left_out(site, made.hash) if recovered else ())]
    change = intent.change
    data: Any = {
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
    }
    if failure is not None:
        data["state_failure_reason"] = REASONS.get(failure.code, "db_error")
        data["open_items"] = failure.facts.get("open", [])
    return data, issues


def _publish(site: CommitSite, plan: str) -> tuple[Any, list[Issue]]:
    if not site.publishes:
        return {}, []
    from tugtool.workflow import remote

    return remote.publish_after(site, plan)


def _complete(
    site: CommitSite, intent: Intent, made: WorkCommit
) -> tuple[Mapping[str, object], TugError | None]:
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
            tested=intent.proven_tree(site, made.hash),
            publish=site.publishes,
        )
    except TugError as error:
        names = {"plan_path": plan, **record.names(anchor), "attempt": intent.attempt}
        return {"completed": False, **names, "already_completed": False}, error
    return answer, None


def _finish_interrupted(site: CommitSite, intent: Intent, made: WorkCommit | None) -> Issue:
    """Finish an earlier commit of this worktree. Return what was done."""
    if made is None:
        change = intent.change
        change.undo()
        paths = [log.PATH, *([change.archive] if change.archive else [])]
        index.undo_index(site.top, site.git_dir, change.entry.strip(), paths)
        intent.drop(site)
        done = "undone: git has no commit of it"
    else:
        _, failure = _complete(site, intent, made)
        if failure is not None and failure.code not in CLAIM_LOST:
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


def _completed(site: CommitSite, plan: str, step: Row) -> Any:
    """Return the answer for a step that is completed already."""
    who: Any = {"owner": site.owner, "copy": site.copy(plan), "attempt": step["attempt"]}
    return {
        **state.complete(site.store, plan, step["anchor"], **who),
        "committed": False,
        "recovered": False,
        "files_staged": [],
        "log_updated": False,
        "log_rotated": False,
        "archived_path": None,
        "state_update_failed": False,
        "warnings": [],
    }
