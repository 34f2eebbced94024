"""Commits of dependencies that a worktree lacks: which they are, and bringing them in."""

from __future__ import annotations

import os

from tugtool import advancing, blend, crash, git, repository
from tugtool.errors import GitFailed, RepositoryError, listing
from tugtool.git_errors import CommitRefused, DependencyConflict
from tugtool.state.record import plan_row, storable
from tugtool.store import sql, sql_git
from tugtool.worktree import survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]


_LISTING = ("rev-list", "--topo-order", "--reverse", "--stdin")
#: So long another git may keep the index locked.
LOCK_SECONDS = 5.0


def seen_missing(store: Store, plan: str, anchor: str, *, at: str) -> list[Data] | None:
    """For a step that is claimed already, whatever git says; None: nobody could look."""
    try:
        return missing(store, plan, [anchor], at=at) if os.path.isdir(at) else None
    except RepositoryError:
        return None


def missing(store: Store, plan: str, anchors: Iterable[str], *, at: str) -> list[Data]:
    """What the steps depend on and the worktree's HEAD lacks, oldest first."""
    return _missing(store, plan, anchors, top=at, owner=storable(at), head="HEAD")


def fits_afresh(store: Store, plan: str, anchor: str, *, top: str, start: str) -> bool:
    """Whether all that a step depends on could be merged where nothing has been done yet."""
    wanted = _missing(store, plan, [anchor], top=top, owner="", head=start)
    if _is_clean(plan, wanted, top=top, head=start):
        return True
    return resolved(store, plan, wanted, top=top, head=start) is not None


def _is_clean(plan: str, wanted: list[Data], *, top: str, head: str) -> bool:
    try:
        _Preview(top, plan, head).run(wanted)
    except DependencyConflict:
        return False
    return True


def resolved(
    store: Store, plan: str, wanted: list[Data], *, top: str, head: str
) -> list[Data] | None:
    """What to merge where the wanted conflict: first a branch on which somebody resolved that."""
    with store.read(plan) as tx:
        names = [f"refs/heads/{row['branch']}" for row in tx.all(sql_git.WORKTREES_OF)]
    if not names:
        return None
    form = "--format=%(objectname) %(refname:lstrip=2)"
    for line in git.run("for-each-ref", form, *names, cwd=top).splitlines():
        tip, _, branch = line.partition(" ")
        both: list[Data] = [{"step_anchor": branch, "commit": tip}, *wanted]
        if _is_clean(plan, both, top=top, head=head):
            return both
    return None


def _missing(
    store: Store, plan: str, anchors: Iterable[str], *, top: str, owner: str, head: str
) -> list[Data]:
    with store.read(plan) as tx:
        branches = {row["path"]: row["branch"] for row in tx.all(sql_git.WORKTREES)}
        found: dict[str, Row] = {}
        front = list(anchors)
        while front:
            rows = _needs(tx, front, owner)
            lacking = _lacking(top, [row["commit_hash"] for row in rows.values()], head)
            fresh = {a: row for a, row in rows.items() if a not in found}
            fresh = {a: row for a, row in fresh.items() if row["commit_hash"] in lacking}
            found |= fresh
            # What those were built on counts too, unless their commits bring it along.
            front = list(fresh)
    order = _lacking(top, [row["commit_hash"] for row in found.values()], head)
    return [
        {
            "step_anchor": anchor,
            "commit": row["commit_hash"],
            "worktree": row["completed_by"],
            "branch": branches.get(row["completed_by"]),
        }
        for anchor, row in sorted(found.items(), key=lambda each: order[each[1]["commit_hash"]])
    ]


def _needs(tx: Transaction, anchors: Iterable[str], owner: str) -> dict[str, Row]:
    """Steps that these depend on and that another worktree has committed."""
    members = [
        member
        for anchor in anchors
        for member in (anchor, *(row["anchor"] for row in tx.all(sql.SUBSTEPS, anchor=anchor)))
    ]
    rows = [row for member in members for row in tx.all(sql.NEEDS, anchor=member)]
    return {row["top"]: row for row in rows if row["commit_hash"] and row["completed_by"] != owner}


def _lacking(top: str, commits: Sequence[str], head: str = "HEAD") -> dict[str, int]:
    """Which of the commits `head` does not have, with their order; unknown ones come last."""
    if not commits:
        return {}
    # Git refuses commits that it does not know, which is rare: only then they are looked for.
    unknown: set[str] = set()
    done = git.attempt(*_LISTING, cwd=top, given=_beyond(head, commits))
    out = done.out.split()
    if done.status:
        unknown = _unknown(top, commits)
        known = [commit for commit in commits if commit not in unknown]
        out = git.run(*_LISTING, cwd=top, given=_beyond(head, known)).split()
    order = {commit: number for number, commit in enumerate(out)}
    wanted = {commit: order[commit] for commit in commits if commit in order}
    return wanted | {commit: len(out) for commit in unknown}


def _beyond(head: str, commits: Iterable[str]) -> str:
    return "".join(f"{commit}\n" for commit in [*commits, f"^{head}"])


def _unknown(top: str, commits: Iterable[str]) -> set[str]:
    asked = "".join(f"{commit}\n" for commit in commits)
    listed = git.run("cat-file", "--batch-check=%(objectname)", cwd=top, given=asked)
    return {line.split()[0] for line in listed.splitlines() if line.endswith(" missing")}


def sync(
    store: Store, plan: str, *, at: str, everything: bool = False, by_resolutions: bool = False
) -> Data:
    """Merge what the steps that the worktree holds depend on, or every completed step's commit.

    All of it, or nothing. `by_resolutions`: where they conflict, and a branch of the plan has
    them resolved, with that branch.
    """
    survey.require_git()
    owner = storable(at)
    with store.read(plan) as tx:
        plan_row(tx, plan)
        anchors = [row["anchor"] for row in tx.all(sql_git.HELD_BY, owner=owner)]
    mend(at)
    if everything:
        wanted = done_elsewhere(store, plan, at=at)
    else:
        wanted = missing(store, plan, anchors, at=at)
    try:
        head, end = merge(plan, wanted, at=at)
    except DependencyConflict:
        others = resolved(store, plan, wanted, top=at, head="HEAD") if by_resolutions else None
        if others is None:
            raise
        head, end = merge(plan, others, at=at)
    branch = git.attempt("symbolic-ref", "--quiet", "--short", "HEAD", cwd=at)
    return {
        "plan_path": plan,
        "worktree_path": at,
        "branch_name": None if branch.status else branch.out.removesuffix("\n"),
        "steps": anchors,
        "merged": wanted,
        "head": end,
        "up_to_date": end == head,
    }


def done_elsewhere(store: Store, plan: str, *, at: str) -> list[Data]:
    """The commits of completed steps that the worktree's HEAD lacks, oldest first."""
    with store.read(plan) as tx:
        branches = {row["path"]: row["branch"] for row in tx.all(sql_git.WORKTREES)}
        steps = [row for row in tx.all(sql.STEPS) if row["parent_anchor"] is None]
    rows = {row["commit_hash"]: row for row in steps if row["commit_hash"]}
    return [
        {
            "step_anchor": rows[commit]["anchor"],
            "commit": commit,
            "worktree": rows[commit]["completed_by"],
            "branch": branches.get(rows[commit]["completed_by"]),
        }
        for commit in lacking(at, list(rows))
    ]


def lacking(at: str, commits: Sequence[str]) -> list[str]:
    """Which of the commits the worktree's HEAD lacks, oldest first."""
    order = _lacking(at, commits)
    return sorted(order, key=lambda commit: order[commit])


def merge(plan: str, wanted: list[Data], *, at: str) -> tuple[str, str]:
    """Bring in commits, each with its step; all or nothing. What HEAD was, and what it is."""
    head = git.run("rev-parse", "--verify", "HEAD^{commit}", cwd=at).strip()
    end = _Preview(at, plan, head).run(wanted)
    crash.point("sync.previewed")
    if end != head:
        _refuse_overwriting(at, head, end, wanted)
        # To what was prepared, or not at all: git looks at every file before it writes one.
        _go(at, head, end)
        crash.point("sync.merged")
    return head, end


def mend(at: str) -> None:
    """Finish or undo what a sync that was killed has left in a worktree."""
    left = advancing.left_off(at, repository.git_dir(at))
    if left is None:
        return
    pid = left.busy()
    if pid is not None:
        raise CommitRefused(at, f"has a sync under way, process {pid}", pid=pid)
    try:
        left.finish()
    except advancing.Stuck as stuck:
        reason = f"has files of a sync that was stopped, changed since: {listing(stuck.files)}"
        raise CommitRefused(at, reason, hint="git status", files=stuck.files) from stuck


def _go(at: str, head: str, end: str) -> None:
    done = advancing.Advance(at, repository.git_dir(at), head, end).run(
        locked=lambda: crash.point("sync.locked"),
        advanced=lambda: crash.point("sync.advanced"),
        seconds=LOCK_SECONDS,
    )
    if done.status:
        raise GitFailed(("merge", "--ff-only", end), status=done.status, said=done.said.strip())


class _Preview:
    """The merges as commits that nothing leads to yet; the worktree is not touched."""

    def __init__(self, top: str, plan: str, head: str) -> None:
        self.top, self.plan, self.head = top, plan, head
        signing = git.attempt("config", "--type=bool", "--get", "commit.gpgSign", cwd=top)
        self.sign = ["-S"] if signing.out.strip() == "true" else []

    def run(self, wanted: list[Data]) -> str:
        """The commit that has all of them."""
        tips = self._tips([str(each["commit"]) for each in wanted])
        for each in wanted:
            if each["commit"] in tips:
                self.head = self._with(str(each["commit"]), str(each["step_anchor"]))
        return self.head

    def _tips(self, commits: list[str]) -> list[str]:
        """Those that no other of them brings along: the rest needs no merge of its own."""
        if len(commits) < 2:
            return commits
        done = git.attempt("merge-base", "--independent", *commits, cwd=self.top)
        # One that git does not know is refused when its turn comes.
        return commits if done.status else done.out.split()

    def _with(self, commit: str, anchor: str) -> str:
        kin = git.attempt("merge-base", self.head, commit, cwd=self.top)
        if kin.status:
            reason = "git has no common history of the two here"
            raise self._refusal(anchor, commit, reason)
        if kin.out.strip() in (self.head, commit):
            return commit if kin.out.strip() == self.head else self.head
        done = blend.commits(self.top, self.head, commit)
        if not done.clean:
            reason = done.refusal or "both changed the same lines"
            raise self._refusal(anchor, commit, reason, done.files)
        message = f"Merge {anchor} of {' '.join(self.plan.split())}\n"
        parents = ("-p", self.head, "-p", commit)
        words_ = ("commit-tree", *self.sign, *parents, done.tree)
        return git.run(*words_, cwd=self.top, given=message).strip()

    def _refusal(
        self, anchor: str, commit: str, reason: str, files: Sequence[str] = ()
    ) -> DependencyConflict:
        facts = {"anchor": anchor, "commit": commit, "reason": reason}
        return DependencyConflict(self.top, **facts, files=files)


def _refuse_overwriting(top: str, head: str, end: str, wanted: list[Data]) -> None:
    """Uncommitted files that the merge would touch are named before it begins."""
    out = git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", head, end, cwd=top)
    touched = set(out.split("\0"))
    files = sorted({entry[3:] for entry in survey.changes(top)} & touched)
    if files:
        last = wanted[-1]
        raise DependencyConflict(
            top,
            anchor=str(last["step_anchor"]),
            commit=str(last["commit"]),
            reason="it would overwrite what is not committed",
            files=files,
        )
