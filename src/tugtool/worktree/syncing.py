"""Commits of dependencies that a worktree lacks: which they are, and bringing them in."""

from __future__ import annotations

import os

from tugtool import advancing, crash, git, heads, repository
from tugtool.errors import GitFailed, RepositoryError, listing
from tugtool.git_errors import CommitRefused, DependencyConflict
from tugtool.state.record import plan_row, storable
from tugtool.store import sql, sql_git
from tugtool.worktree import survey
from tugtool.worktree.preview import Preview

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]


_LISTING = ("rev-list", "--topo-order", "--reverse", "--stdin")
#: So long another git may keep the index locked.
LOCK_SECONDS = 5.0
#: Of the steps that a dependency was built on, so many are asked about along with it.
_MOST_AHEAD = 64


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
    if _is_clean(plan, wanted, done_steps(store, plan), top=top, head=start):
        return True
    return resolved(store, plan, wanted, top=top, head=start) is not None


def _is_clean(plan: str, wanted: list[Data], done: Sequence[Row], *, top: str, head: str) -> bool:
    try:
        Preview(top, plan, head, done).run(wanted)
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
    done = done_steps(store, plan)
    form = "--format=%(objectname) %(refname:lstrip=2)"
    for line in git.run("for-each-ref", form, *names, cwd=top).splitlines():
        tip, _, branch = line.partition(" ")
        both: list[Data] = [{"step_anchor": branch, "commit": tip}, *wanted]
        if _is_clean(plan, both, done, top=top, head=head):
            return both
    return None


def _missing(
    store: Store, plan: str, anchors: Iterable[str], *, top: str, owner: str, head: str
) -> list[Data]:
    with store.read(plan) as tx:
        branches = {row["path"]: row["branch"] for row in tx.all(sql_git.WORKTREES)}
        found, order = _found(tx, list(anchors), top, owner, head)
    return [
        {
            "step_anchor": anchor,
            "commit": row["commit_hash"],
            "worktree": row["completed_by"],
            "branch": branches.get(row["completed_by"]),
        }
        for anchor, row in sorted(found.items(), key=lambda each: order[each[1]["commit_hash"]])
    ]


def _found(
    tx: Transaction, front: list[str], top: str, owner: str, head: str
) -> tuple[dict[str, Row], dict[str, int]]:
    """The steps whose commits are lacking, and the order of those commits."""
    found: dict[str, Row] = {}
    order: dict[str, int] = {}
    asked: set[str] = set()
    times = 0
    while front:
        rows = _needs(tx, front, owner)
        commits = {row["commit_hash"] for row in rows.values()}
        if not commits <= asked:
            # Git takes as long to say it of one as of many: of those that come next, too.
            asked, times = commits | _built_on(tx, list(rows), owner), times + 1
            order = _lacking(top, sorted(asked), head)
        fresh = {a: row for a, row in rows.items() if a not in found}
        fresh = {a: row for a, row in fresh.items() if row["commit_hash"] in order}
        found |= fresh
        # What those were built on counts too, unless their commits bring it along.
        front = list(fresh)
    if times > 1:
        order = _lacking(top, [row["commit_hash"] for row in found.values()], head)
    return found, order


def _built_on(tx: Transaction, front: list[str], owner: str) -> set[str]:
    """The commits of the next steps behind these, a good many at most."""
    seen: dict[str, Row] = {}
    while front and len(seen) < _MOST_AHEAD:
        rows = _needs(tx, front, owner)
        front = [anchor for anchor in rows if anchor not in seen]
        seen |= rows
    return {row["commit_hash"] for row in seen.values()}


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
    done = done_steps(store, plan) if wanted else []
    try:
        head, end = merge(plan, wanted, at=at, done=done)
    except DependencyConflict:
        here = heads.commit_of(at) or "HEAD"
        others = resolved(store, plan, wanted, top=at, head=here) if by_resolutions else None
        if others is None:
            raise
        head, end = merge(plan, others, at=at, done=done)
    return {
        "plan_path": plan,
        "worktree_path": at,
        "branch_name": heads.branch_of(at),
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


def done_steps(store: Store, plan: str) -> list[Row]:
    """The steps that have a commit, in the plan's order."""
    with store.read(plan) as tx:
        return [row for row in tx.all(sql.STEPS) if row["commit_hash"]]


def merge(plan: str, wanted: list[Data], *, at: str, done: Sequence[Row] = ()) -> tuple[str, str]:
    """Bring in commits, each with its step; all or nothing. What HEAD was, and what it is.

    `done` are the plan's steps that have a commit, in its order.
    """
    head = heads.commit_of(at) or git.run("rev-parse", "--verify", "HEAD^{commit}", cwd=at).strip()
    end = Preview(at, plan, head, done).run(wanted) if wanted else head
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


def _refuse_overwriting(top: str, head: str, end: str, wanted: list[Data]) -> None:
    """Uncommitted files that the merge would touch are named before it begins."""
    changed = {entry[3:] for entry in survey.changes(top)}
    if not changed:
        return
    out = git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", head, end, cwd=top)
    files = sorted(changed.intersection(out.split("\0")))
    if files:
        last = wanted[-1]
        raise DependencyConflict(
            top,
            anchor=str(last["step_anchor"]),
            commit=str(last["commit"]),
            reason="it would overwrite what is not committed",
            files=files,
        )
