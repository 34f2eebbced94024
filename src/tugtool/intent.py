"""What a commit is about to do, written down before it is done.

Whoever finds an intent whose process is gone takes it over, alone, and brings it to its end.
"""

from __future__ import annotations

import os

from tugtool import clock, git, jsontext, lingering, log, tree
from tugtool.errors import TugError, quoted
from tugtool.git_errors import CommitRefused
from tugtool.state_errors import DatabaseError
from tugtool.store import sql_commit as sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tugtool.state.record import PlanCopy
    from tugtool.store import Row, Store, Transaction
    from tugtool.tree import Commit


#: A git that lives does not keep the index locked for so long, unchanged.
_LOCK_SECONDS = 1.0


class Site:
    """Where the work lies, and what it takes to complete its step."""

    __slots__ = ("copy", "git_dir", "owner", "root", "store", "top")

    def __init__(
        self,
        store: Store,
        *,
        top: str,
        git_dir: str,
        root: str,
        owner: str,
        copy: Callable[[str], PlanCopy],
    ) -> None:
        self.store = store
        #: Top directory of the worktree, git's directory for it, and that of the main one.
        self.top, self.git_dir, self.root = top, git_dir, root
        self.owner = owner
        #: The plan's file as it lies there when it is asked for.
        self.copy = copy

    @property
    def note(self) -> lingering.Note:
        """Where it is written down which git is committing just now."""
        return lingering.Note(os.path.join(self.git_dir, "tugtool-git"))

    @property
    def name(self) -> str:
        """What the worktree is called where others read it: no machine's paths."""
        inside = self.top.startswith(os.path.join(self.root, ""))
        return os.path.relpath(self.top, self.root) if inside else os.path.basename(self.top)


class Intent:
    """What somebody is about to commit, or was when they were last seen."""

    __slots__ = ("_seen", "anchor", "attempt", "change", "claim", "created_at", "head", "plan")

    def __init__(
        self,
        plan: str,
        anchor: str,
        attempt: int,
        *,
        claim: str,
        head: str | None,
        change: log.Change,
    ) -> None:
        self.plan, self.anchor, self.attempt = plan, anchor, attempt
        #: What its commit says in Tug-Claim, and the commit it comes on top of.
        self.claim, self.head = claim, head
        self.change = change
        self.created_at = ""
        self._seen = ""

    @classmethod
    def taken_over(cls, site: Site, row: Row) -> Intent:
        """What was found, now ours alone; E080 if its process still runs."""
        found = cls.recorded(site, row)
        pid = _busy(site, row)
        if pid is not None or not found._change(site, lingering.process(os.getpid())):
            reason = f"has another commit under way, for {found.anchor}"
            raise CommitRefused(site.top, reason, anchor=found.anchor, pid=pid)
        staging = tree.staging(site.git_dir)
        if staging.is_left():
            staging.end()
        elif site.note.is_there():
            _unlock(site)
        return found

    @classmethod
    def recorded(cls, site: Site, row: Row) -> Intent:
        """As it was written down."""
        import json  # Only after a crash.

        detail = json.loads(row["detail"])
        found = cls(
            row["plan_path"],
            row["step_anchor"],
            row["attempt"],
            claim=detail["claim"],
            head=row["head"],
            change=log.Change.recorded(site.top, detail["log"]),
        )
        found.created_at, found._seen = row["created_at"], row["detail"]
        return found

    def record(self, tx: Transaction, site: Site) -> None:
        """Write it down, unless somebody else is at it."""
        self.created_at, self._seen = tx.now, self._detail(lingering.process(os.getpid()))
        written = tx.run(
            sql.ADD_COMMIT_INTENT,
            owner=site.owner,
            anchor=self.anchor,
            attempt=self.attempt,
            head=self.head,
            detail=self._seen,
        )
        if not written:
            raise CommitRefused(site.top, "has another commit under way")
        site.note.drop()

    def leave(self, site: Site) -> None:
        """Whoever comes next may take it over, though this process goes on."""
        try:
            self._change(site, None)
        except DatabaseError:
            # It is left because the database fails; then it is free when the process ends.
            return

    def drop(self, site: Site) -> None:
        """It has come to its end."""
        site.note.drop()
        try:
            with site.store.write(self.plan) as tx:
                tx.run(sql.DROP_COMMIT_INTENT, owner=site.owner, created_at=self.created_at)
        except DatabaseError:
            # What matters has happened, and whoever comes next looks again.
            return

    def unfinished(self, site: Site, made: Commit, failure: TugError) -> CommitRefused:
        """That the commit stands and its step is not completed, for whoever comes next."""
        reason = (
            f"has a commit whose step is not completed yet, {made.hash} for {self.anchor}: "
            f"{failure.message}"
        )
        hint = f"tugcode state show {quoted(self.plan)}"
        facts = {"anchor": self.anchor, "commit": made.hash, "cause": failure.code}
        return CommitRefused(site.top, reason, hint=hint, **facts)

    def made(self, site: Site) -> Commit | None:
        """The commit that came of it, if any."""
        since = tree.commits(site.top, self.head)
        made = tree.carrying(since, self.plan, self.claim)
        return made or next((each for each in since if self._logged(site, each)), None)

    def _logged(self, site: Site, commit: Commit) -> bool:
        """Whether it is the one that git was told to make, though a hook took its trailers away."""
        told, entry = site.note.is_there(), self.change.entry.strip()
        next_one = commit.parents == ([self.head] if self.head else [])
        if not (told and next_one and log.PATH in commit.files):
            return False
        return entry in git.run("cat-file", "blob", f"{commit.hash}:{log.PATH}", cwd=site.top)

    def _change(self, site: Site, process: Mapping[str, object] | None) -> bool:
        detail = self._detail(process)
        with site.store.write(self.plan) as tx:
            changed = tx.run(
                sql.CHANGE_COMMIT_INTENT,
                owner=site.owner,
                created_at=self.created_at,
                detail=detail,
                seen=self._seen,
            )
        self._seen = detail
        return changed == 1

    def _detail(self, process: Mapping[str, object] | None) -> str:
        facts = {"claim": self.claim, "log": self.change.detail(), "process": process}
        return jsontext.encode(facts)


def ends_with(site: Site, row: Row, commit: str | None) -> bool:
    """Whether it ends when its step does: its commit stands, and nobody is at it any more.

    `commit` is the one that the step is to be completed with, if that was said.
    """
    locked = os.path.lexists(os.path.join(site.git_dir, "index.lock"))
    if locked or _busy(site, row) is not None:
        # Whoever takes it over puts that right as well.
        return False
    made = Intent.recorded(site, row).made(site)
    return made is not None and commit in (None, made.hash)


def _busy(site: Site, row: Row) -> int | None:
    """The process that is at it, or the git that it started and that was not killed with it."""
    running = lingering.running(_process(row))
    return running or site.note.running() or tree.staging(site.git_dir).busy()


def _process(row: Row) -> Mapping[str, object] | None:
    import json

    process: Mapping[str, object] | None = json.loads(row["detail"])["process"]
    return process


def _unlock(site: Site) -> None:
    """Take away the lock of the git that was killed as it committed; such locks name nobody."""
    lock = os.path.join(site.git_dir, "index.lock")
    before = _identity(lock)
    for last in clock.tries(_LOCK_SECONDS):
        if before is None or _identity(lock) != before:
            # There is none; or somebody else's, who is at work.
            return
        if last:
            os.unlink(lock)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def is_running(row: Row) -> bool:
    """Whether the process that wrote an intent of a commit is another, and still at it."""
    return lingering.running(_process(row)) is not None
