"""The intent of a commit, recorded before the commit is made.

A command that finds an intent of a dead process takes it over and finishes it.
"""

from __future__ import annotations

from tugtool.errors import GitFailed, NoRepository, TugError, listing, plan_argument
from tugtool.errors.state import DatabaseError
from tugtool.git import command as git
from tugtool.git import containing, git_dir, history, index, status
from tugtool.state import intents
from tugtool.system import clock, config, os, process, text
from tugtool.workflow.commit import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from tugtool.errors.git import CommitRefused
    from tugtool.git.history import WorkCommit
    from tugtool.schemas import Issue
    from tugtool.state.record import PlanCopy
    from tugtool.store import Row, Store
    from tugtool.workflow.workspace import Workspace


#: A live git does not keep the index locked, unchanged, for this long.
_LOCK_SECONDS = 1.0


class CommitSite:
    """The worktree of a commit, and what the completion of its step needs."""

    __slots__ = ("copy", "git_dir", "owner", "root", "store", "top")

    def __init__(
        self,
        store: Store,
        *,
        top: str,
        root: str,
        owner: str,
        copy: Callable[[str], PlanCopy],
    ) -> None:
        self.store = store
        #: The worktree's top directory, its git directory, and the main worktree.
        self.top, self.git_dir, self.root = top, git_dir(top), root
        self.owner = owner
        #: Reads the plan's file there.
        self.copy = copy

    @property
    def publishes(self) -> bool:
        """True if its commits have to be pushed to a remote."""
        return config.load(self.root).is_set("remote.name")

    @property
    def note(self) -> process.ProcessNote:
        """The file that records the pid of the running git commit."""
        return process.ProcessNote(os.path.join(self.git_dir, "tugtool-git"))

    @property
    def name(self) -> str:
        """The worktree's name for other readers, without paths of this machine."""
        inside = self.top.startswith(os.path.join(self.root, ""))
        return os.path.relpath(self.top, self.root) if inside else os.path.basename(self.top)


def caller_commit_site(space: Workspace, plan: str) -> CommitSite:
    """Return the linked worktree that the caller commits."""
    top = space.worktree
    if top == space.repo.root:
        from tugtool.errors.git import MainWorktree

        raise MainWorktree(top, plan=plan)
    try:
        found = containing(top)
    except NoRepository:
        found = None
    if found is None or (found.worktree, found.common_dir) != (top, space.repo.common_dir):
        from tugtool.errors.git import CommitRefused

        raise CommitRefused(top, "is not a worktree of this repository", hint="git worktree list")
    root = space.repo.root
    return CommitSite(space.store, top=top, root=root, owner=space.owner, copy=space.copy)


class Intent:
    """The intent of a running or dead process to make a commit."""

    __slots__ = (
        *("_seen", "anchor", "attempt", "change", "claim", "created_at", "head", "plan", "tested"),
    )

    def __init__(
        self,
        plan: str,
        anchor: str,
        attempt: int,
        *,
        claim: str,
        head: str | None,
        change: log.LogChange,
        tested: str | None = None,
    ) -> None:
        self.plan, self.anchor, self.attempt = plan, anchor, attempt
        #: The Tug-Claim of its commit, and the commit's parent.
        self.claim, self.head = claim, head
        self.change = change
        #: The tree that the step's checkpoints ran on, if the commit will contain it.
        self.tested = tested
        self.created_at = ""
        self._seen = ""

    @classmethod
    def taken_over(cls, site: CommitSite, row: Row) -> Intent:
        """Take over an intent of a dead process; raise E080 if the process still runs."""
        found = cls.recorded(site, row)
        pid = _busy(site, row)
        if pid is not None or not found._change(site, process.process(os.getpid())):
            reason = f"has another commit under way, for {found.anchor}"
            raise _refusal(site, reason, anchor=found.anchor, pid=pid)
        staging = index.staging(site.git_dir)
        if staging.is_left():
            staging.end()
        elif site.note.is_there():
            _unlock(site)
        return found

    @classmethod
    def recorded(cls, site: CommitSite, row: Row) -> Intent:
        """Return the intent of a row."""
        detail = intents.detail(row)
        found = cls(
            row["plan_path"],
            row["step_anchor"],
            row["attempt"],
            claim=detail["claim"],
            head=row["head"],
            change=log.LogChange(site.top, **detail["log"]),
            tested=detail.get("tested"),
        )
        found.created_at, found._seen = row["created_at"], row["detail"]
        return found

    def record(self, site: CommitSite, prepare: Callable[[str], None]) -> None:
        """Record the intent after `prepare(now)`; raise E080 if another commit is under way."""

        def detail(now: str) -> tuple[str, str]:
            prepare(now)
            self.created_at, self._seen = now, self._detail(process.process(os.getpid()))
            return now, self._seen

        written = intents.begin_commit(
            site.store,
            self.plan,
            self.anchor,
            owner=site.owner,
            attempt=self.attempt,
            head=self.head,
            detail=detail,
            written=site.note.drop,
        )
        if not written:
            raise _refusal(site, "has another commit under way")

    def leave(self, site: CommitSite) -> None:
        """Let the next command take it over, though this process goes on."""
        try:
            self._change(site, None)
        except DatabaseError:
            # The database failed; the intent is free when this process ends.
            return

    def drop(self, site: CommitSite) -> None:
        """Remove the intent: the commit is finished."""
        site.note.drop()
        try:
            at = self.created_at
            intents.end_commit(site.store, self.plan, owner=site.owner, created_at=at)
        except DatabaseError:
            # The commit is done, and the next command looks at the intent again.
            return

    def unfinished(self, site: CommitSite, made: WorkCommit, failure: TugError) -> CommitRefused:
        """Return the error that the commit exists but its step is not completed."""
        reason = (
            f"has a commit whose step is not completed yet, {made.hash} for {self.anchor}: "
            f"{failure.message}"
        )
        hint = f"tugcode show {plan_argument(self.plan)}"
        facts = {"anchor": self.anchor, "commit": made.hash, "cause": failure.code}
        return _refusal(site, reason, hint=hint, **facts)

    def made(self, site: CommitSite) -> WorkCommit | None:
        """Return the commit that was made for it, or None."""
        since = history.commits(site.top, self.head)
        made = history.carrying(since, self.plan, self.claim)
        return made or next((each for each in since if self._logged(site, each)), None)

    def proven_tree(self, site: CommitSite, commit: str) -> str | None:
        """Return the tree that checkpoints ran on, if the commit adds only the log to it."""
        if self.tested is None:
            return None
        from tugtool.git import refs  # Most commits are made without it.

        try:
            changed = refs.changed_paths(site.top, self.tested, commit)
        except GitFailed:
            # Git has dropped the tree, so the evidence cannot be moved to the commit.
            return None
        return self.tested if {log.PATH, self.change.archive}.issuperset(changed) else None

    def _logged(self, site: CommitSite, commit: WorkCommit) -> bool:
        """Return whether the commit is the intended one although a hook removed its trailers."""
        told, entry = site.note.is_there(), self.change.entry.strip()
        next_one = commit.parents == ([self.head] if self.head else [])
        if not (told and next_one and log.PATH in commit.files):
            return False
        return entry in git.run("cat-file", "blob", f"{commit.hash}:{log.PATH}", cwd=site.top)

    def _change(self, site: CommitSite, process: Mapping[str, object] | None) -> bool:
        which = {"owner": site.owner, "created_at": self.created_at, "seen": self._seen}
        detail = self._detail(process)
        changed = intents.change_commit(site.store, self.plan, **which, detail=detail)
        self._seen = detail
        return changed

    def _detail(self, process: Mapping[str, object] | None) -> str:
        tested = {} if self.tested is None else {"tested": self.tested}
        facts = {"claim": self.claim, "log": self.change.detail(), "process": process}
        return text.encode({**facts, **tested})


def _refusal(site: CommitSite, reason: str, **facts: Any) -> CommitRefused:
    from tugtool.errors.git import CommitRefused  # Only where something is refused.

    return CommitRefused(site.top, reason, **facts)


def ends_with(site: CommitSite, row: Row, commit: str | None) -> bool:
    """Return whether completing the step ends the intent: it is committed, and no process runs.

    `commit` is the one that completes the step, if one was named.
    """
    locked = os.path.lexists(os.path.join(site.git_dir, "index.lock"))
    if locked or _busy(site, row) is not None:
        # The command that takes it over repairs that too.
        return False
    made = Intent.recorded(site, row).made(site)
    return made is not None and commit in (None, made.hash)


def _busy(site: CommitSite, row: Row) -> int | None:
    """Return the process that runs it, or the git that outlived that process."""
    running = process.running(intents.detail(row)["process"])
    return running or site.note.running() or index.staging(site.git_dir).busy()


def _unlock(site: CommitSite) -> None:
    """Remove the index lock of the killed git commit; the lock itself names no process."""
    lock = os.path.join(site.git_dir, "index.lock")
    before = index.identity(lock)
    for last in clock.tries(_LOCK_SECONDS):
        if before is None or index.identity(lock) != before:
            # There is no lock, or another process that is at work has it.
            return
        if last:
            os.unlink(lock)


def is_running(row: Row) -> bool:
    """Return whether another, live process wrote the intent of a commit."""
    return process.running(intents.detail(row)["process"]) is not None


def left_out(site: CommitSite, commit: str | None) -> list[Issue]:
    """Return W112 if the worktree has changes that the commit of an earlier run lacks."""
    if not status.inspect(site.top, site.git_dir).dirty:
        return []
    made = "the step was completed" if commit is None else f"{commit} was made"
    said = (
        f"{made} by an earlier run; what was changed since is not in it: the "
        "commit of the next step here takes it along, or git commit"
    )
    return [{"code": "W112", "severity": "warning", "message": said}]


def mixed_plans(store: Store, plan: str, owner: str) -> list[Issue]:
    """Warn if the worktree also serves other plans: a commit takes all its files."""
    rows = intents.other_plans(store, plan, owner=owner)
    if not rows:
        return []
    found = [
        f"holds {row['anchor']} of {row['plan_path']}"
        if row["anchor"]
        else f"is recorded for {row['plan_path']}"
        for row in rows
    ]
    message = (
        f"{owner} {listing(found)}: a commit for {plan} takes all files there, and comes to the "
        "base branch with that plan"
    )
    hint = f"tugcode worktree create {plan_argument(plan)}"
    return [{"code": "W115", "severity": "warning", "message": message, "hint": hint}]
