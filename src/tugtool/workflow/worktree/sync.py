"""worktree sync: merge the dependency commits and the agreed plan text that a worktree lacks."""

from __future__ import annotations

from tugtool import state
from tugtool.errors import RepositoryError, listing, plan_argument, quoted
from tugtool.errors.git import CommitRefused, DependencyConflict, MainWorktree
from tugtool.git import advance, containing, git_dir, merge_tree, refs
from tugtool.git import command as git
from tugtool.plan import catalog
from tugtool.state import publication, revisions, worktrees
from tugtool.state.record import owner_of
from tugtool.store.owners import machine_of
from tugtool.system import config, crash, os
from tugtool.workflow import worktree
from tugtool.workflow.commit import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from tugtool.schemas import StateClaimMissingCommit as Commit
    from tugtool.schemas import WorktreeSync
    from tugtool.store import Row, Store
    from tugtool.workflow.workspace import Workspace


class Preview:
    """Makes the merges as commits without a ref; the worktree is not touched."""

    def __init__(self, top: str, plan: str, head: str, done: Sequence[Row]) -> None:
        self.top, self.plan, self.head = top, plan, head
        #: The plan's steps by their commits, in the plan's order.
        self.done: dict[str, Row] = {}
        for row in done:
            self.done.setdefault(row["commit_hash"], row)
        self._signed: bool | None = None

    def run(self, wanted: list[Commit]) -> str:
        """Return the commit that has all of them."""
        anchors: dict[str, str] = {}
        for each in wanted:
            anchors.setdefault(each["commit"], each["step_anchor"])
        # Keep only the commits that no other contains, HEAD included: the rest needs no merge.
        done = git.attempt("merge-base", "--independent", self.head, *anchors, cwd=self.top)
        if done.status:
            # A commit that git does not know is refused when its turn comes.
            return self._one_by_one(anchors)
        tips = done.out.split()
        together = self._together(tips) if len(tips) > 2 else None
        return together or self._one_by_one({c: a for c, a in anchors.items() if c in tips})

    def _together(self, tips: list[str]) -> str | None:
        """Merge all of them in the same way in every worktree; return None if they conflict.

        If each worktree merged in its own way, the branches would get ever more common
        ancestors, which git would have to merge again at every later merge.
        """
        order = list(self.done)
        tips = sorted(tips, key=lambda tip: (order.index(tip) if tip in self.done else -1, tip))
        dates = [str(self.done[tip]["completed_at"] or "") for tip in tips if tip in self.done]
        end, *others = tips
        for tip in others:
            # Repair the log each time: a later merge cannot restore what one loses.
            merged = merge_tree.commits(self.top, end, tip, log.repaired)
            if not merged.clean:
                return None
            anchor = self.done[tip]["anchor"] if tip in self.done else tip
            end = self._commit(merged.tree, (end, tip), anchor, date=max(dates, default=""))
        return end

    def _one_by_one(self, anchors: Mapping[str, str]) -> str:
        """Merge one after the other into HEAD, to find out which of them conflicts."""
        for commit, anchor in anchors.items():
            self.head = self._with(commit, anchor)
        return self.head

    def _with(self, commit: str, anchor: str) -> str:
        kin = refs.merge_base(self.top, self.head, commit)
        if kin is None:
            reason = "git has no common history of the two here"
            raise self._refusal(anchor, commit, reason)
        if kin in (self.head, commit):
            # One contains the other, so no merge is needed.
            return commit if kin == self.head else self.head
        done = merge_tree.commits(self.top, self.head, commit, log.repaired)
        if not done.clean:
            reason = done.refusal or "both changed the same lines"
            raise self._refusal(anchor, commit, reason, done.files)
        return self._commit(done.tree, (self.head, commit), anchor)

    def _commit(self, tree: str, parents: Sequence[str], anchor: str, *, date: str = "") -> str:
        message = f"Merge {anchor} of {' '.join(self.plan.split())}\n"
        if self._signed is None:
            self._signed = refs.is_signing(self.top)
        return refs.commit_tree(
            self.top, tree, parents, message, signed=self._signed, date=date or None
        )

    def _refusal(
        self, anchor: str, commit: str, reason: str, files: Sequence[str] = ()
    ) -> DependencyConflict:
        about = {"anchor": anchor, "commit": commit, "reason": reason, "files": files}
        return DependencyConflict(self.top, **about)  # type: ignore[arg-type]  # one of each


_LISTING = ("rev-list", "--topo-order", "--reverse", "--stdin")
#: How long another git may keep the index locked.
LOCK_SECONDS = 5.0


def seen_missing(store: Store, plan: str, anchor: str, *, at: str) -> list[Commit] | None:
    """Return the missing commits of a claimed step, fetched if possible; None if git fails."""
    try:
        return bring(store, plan, [anchor], at=at)[0] if os.path.isdir(at) else None
    except RepositoryError:
        return None


def missing(store: Store, plan: str, anchors: Iterable[str], *, at: str) -> list[Commit]:
    """Return the dependency commits that the worktree's HEAD lacks, oldest first."""
    return _missing(store, plan, anchors, top=at, owner=owner_of(at), head="HEAD")


def bring(
    store: Store, plan: str, anchors: Iterable[str], *, at: str, everything: bool = False
) -> tuple[list[Commit], str]:
    """Return the commits that a worktree lacks, and why the remote did not give all of them.

    With a remote, fetch the branches of commits that this clone does not have.
    """
    anchors = list(anchors)

    def look() -> list[Commit]:
        return (
            done_elsewhere(store, plan, at=at)
            if everything
            else missing(store, plan, anchors, at=at)
        )

    wanted = look()
    root = containing(at).root
    if not wanted or not config.load(root).is_set("remote.name"):
        return wanted, ""
    from tugtool.workflow import remote

    came, reason = remote.fetch_commits(root, plan, wanted)
    if reason.endswith(publication.LOST):
        unknown = refs.unknown(root, [each["commit"] for each in wanted])
        lost = {each["step_anchor"]: each["commit"] for each in wanted if each["commit"] in unknown}
        publication.lost(store, plan, lost, reason)
    return (look() if came else wanted), reason


def refuse_absent(plan: str, wanted: list[Commit], reason: str, *, at: str) -> None:
    """Raise E061 for a commit that another machine made and this clone does not have."""
    unknown = refs.unknown(at, [each["commit"] for each in wanted]) if wanted else set()
    for each in (each for each in wanted if each["commit"] in unknown):
        where = machine_of(each["worktree"] or "") or "another machine"
        said = f"it was made on {where}, and this clone does not have it"
        said += f": {reason}" if reason else "; with [remote] it would come by itself"
        branch = each["branch"] or ""
        again = f"tugcode worktree sync {plan_argument(plan)}"
        if reason.endswith(publication.LOST):
            said += f"; on {where}: tugcode worktree publish"
            again = f"tugcode why {plan_argument(plan)} {quoted(each['step_anchor'])}"
        raise DependencyConflict(
            at,
            anchor=each["step_anchor"],
            commit=each["commit"],
            reason=said,
            hint=again if reason else f"git fetch origin {quoted(branch)}".rstrip(" '"),
            absent=True,
        )


def fits_afresh(store: Store, plan: str, anchor: str, *, top: str, start: str) -> bool:
    """Return whether all dependencies of a step merge without conflict in a new worktree."""
    wanted = _missing(store, plan, [anchor], top=top, owner="", head=start)
    if _is_clean(plan, wanted, worktrees.committed_steps(store, plan), top=top, head=start):
        return True
    return resolved(store, plan, wanted, top=top, head=start) is not None


def _is_clean(plan: str, wanted: list[Commit], done: Sequence[Row], *, top: str, head: str) -> bool:
    try:
        Preview(top, plan, head, done).run(wanted)
    except DependencyConflict:
        return False
    return True


def resolved(
    store: Store, plan: str, wanted: list[Commit], *, top: str, head: str
) -> list[Commit] | None:
    """Return what to merge on a conflict: first a branch where it was resolved."""
    names = [str(row["branch"]) for row in worktrees.of_plan(store, plan)]
    if not names:
        return None
    done = worktrees.committed_steps(store, plan)
    for branch, tip in refs.branches(top, *names).items():
        first: Commit = {"step_anchor": branch, "commit": tip, "worktree": None, "branch": None}
        both = [first, *wanted]
        if _is_clean(plan, both, done, top=top, head=head):
            return both
    return None


def _missing(
    store: Store, plan: str, anchors: Iterable[str], *, top: str, owner: str, head: str
) -> list[Commit]:
    return worktrees.missing_commits(
        store, plan, anchors, owner=owner, lacking=lambda commits: _lacking(top, commits, head)
    )


def _lacking(top: str, commits: Sequence[str], head: str = "HEAD") -> dict[str, int]:
    """Return the commits that `head` lacks, with their order; unknown ones come last."""
    if not commits:
        return {}
    # Git refuses unknown commits, which is rare: only then look for them.
    unknown: set[str] = set()
    done = git.attempt(*_LISTING, cwd=top, given=_beyond(head, commits))
    out = done.out.split()
    if done.status:
        unknown = refs.unknown(top, commits)
        known = [commit for commit in commits if commit not in unknown]
        out = git.run(*_LISTING, cwd=top, given=_beyond(head, known)).split()
    order = {commit: number for number, commit in enumerate(out)}
    wanted = {commit: order[commit] for commit in commits if commit in order}
    return wanted | {commit: len(out) for commit in unknown}


def _beyond(head: str, commits: Iterable[str]) -> str:
    return "".join(f"{commit}\n" for commit in [*commits, f"^{head}"])


def sync_caller(space: Workspace, name: str | None, *, everything: bool = False) -> WorktreeSync:
    """Sync the caller's worktree for the named plan, or for the plan it was made for."""
    # Without a name, take the worktree's plan if it is recorded.
    row = worktrees.find_worktree(space.store, space.owner) if name is None else None
    plan = space.plan(name) if row is None else str(row["plan_path"])
    if space.worktree == space.repo.root:
        raise MainWorktree(space.worktree, plan=plan)
    return sync(space.store, plan, at=space.worktree, everything=everything)


def sync(
    store: Store, plan: str, *, at: str, everything: bool = False, by_resolutions: bool = False
) -> WorktreeSync:
    """Merge the dependencies of the held steps, or the commits of every completed step.

    Merge all or nothing. `by_resolutions`: if they conflict, use a branch of the plan that
    resolved the conflict.
    """
    worktree.require_git()
    anchors = worktrees.claimed_anchors(store, plan, owner=owner_of(at))
    repair_sync(at)
    wanted, reason = bring(store, plan, anchors, at=at, everything=everything)
    refuse_absent(plan, wanted, reason, at=at)
    done = worktrees.committed_steps(store, plan) if wanted else []
    try:
        head, end = merge(plan, wanted, at=at, done=done)
    except DependencyConflict:
        here = refs.head_commit(at) or "HEAD"
        others = resolved(store, plan, wanted, top=at, head=here) if by_resolutions else None
        if others is None:
            raise
        head, end = merge(plan, others, at=at, done=done)
    brought = bring_agreed_text(store, plan, at=at)
    end = brought or end
    return {
        "plan_path": plan,
        "worktree_path": at,
        "branch_name": refs.head_branch(at),
        "steps": anchors,
        "merged": wanted,
        "plan_commit": brought,
        "head": end,
        "up_to_date": end == head,
    }


def sync_claimed(store: Store, plan: str, anchor: str, attempt: int, *, at: str) -> list[Commit]:
    """Merge the dependencies of a claimed step; give it back if another machine alone has them."""
    try:
        return sync(store, plan, at=at, by_resolutions=True)["merged"]
    except DependencyConflict as conflict:
        if conflict.facts.get("absent"):
            who: Any = {"owner": owner_of(at), "attempt": attempt, "interrupted": True}
            state.release(store, plan, anchor, **who)
            conflict.message += "; the step is given back"
        raise


def bring_agreed_text(store: Store, plan: str, *, at: str) -> str | None:
    """Commit the agreed text of the plan where an earlier one is. Return the commit, or None.

    A text that was never agreed stays, and so does an uncommitted one.
    """
    text, agreed = revisions.agreed_text(store, plan)
    found = os.path.join(at, plan)
    if not os.path.isfile(found) or os.path.islink(found):
        return None
    here = catalog.file_fingerprint(found)
    if here == agreed or not revisions.is_earlier(store, plan, here):
        return None
    head = refs.head(at)
    old = refs.tree_of(at, head) or ""
    tree = merge_tree.rewritten(at, old, plan, lambda _: text.encode())
    if tree == old:
        return None
    message = f"Agreed text of {' '.join(plan.split())}\n"
    end = refs.commit_tree(at, tree, (head,), message, signed=refs.is_signing(at))
    _advance(at, head, end)
    return end


def done_elsewhere(store: Store, plan: str, *, at: str) -> list[Commit]:
    """Return the commits of completed steps that the worktree's HEAD lacks, oldest first."""
    steps = [row for row in worktrees.committed_steps(store, plan) if row["parent_anchor"] is None]
    rows = {row["commit_hash"]: row for row in steps}
    return [
        {
            "step_anchor": rows[commit]["anchor"],
            "commit": commit,
            "worktree": rows[commit]["completed_by"],
            "branch": rows[commit]["branch"],
        }
        for commit in lacking(at, list(rows))
    ]


def lacking(at: str, commits: Sequence[str]) -> list[str]:
    """Return the commits that the worktree's HEAD lacks, oldest first."""
    order = _lacking(at, commits)
    return sorted(order, key=lambda commit: order[commit])


def beyond(at: str, commits: Sequence[str], *, has: str, lacks: str) -> list[str]:
    """Return the commits that one commit contains and the other does not, oldest first."""
    order = _lacking(at, commits, lacks)
    unknown = _lacking(at, commits, has)
    return sorted(order.keys() - unknown.keys(), key=lambda commit: order[commit])


def merge(plan: str, wanted: list[Commit], *, at: str, done: Sequence[Row] = ()) -> tuple[str, str]:
    """Merge commits, each with its step; all or nothing. Return HEAD before and after.

    `done` are the plan's steps that have a commit, in its order.
    """
    head = refs.head_commit(at) or refs.head(at)
    end = Preview(at, plan, head, done).run(wanted) if wanted else head
    crash.point("sync.previewed")
    if end != head:
        _refuse_overwriting(at, head, end, wanted)
        _advance(at, head, end)
        crash.point("sync.merged")
    return head, end


def _advance(at: str, head: str, end: str) -> None:
    """Move to the prepared commit. Git checks every file before it writes one."""
    moved = advance.Advance(at, git_dir(at), head, end).run(command="sync", seconds=LOCK_SECONDS)
    moved.require(("merge", "--ff-only", end))


def repair_sync(at: str) -> None:
    """Finish or undo a killed sync in a worktree."""
    left = advance.left_off(at, git_dir(at))
    if left is None:
        return
    pid = left.busy()
    if pid is not None:
        raise CommitRefused(at, f"has a sync under way, process {pid}", pid=pid)
    try:
        left.finish()
    except advance.Stuck as stuck:
        reason = f"has files of a sync that was stopped, changed since: {listing(stuck.files)}"
        raise CommitRefused(at, reason, hint="git status", files=stuck.files) from stuck


def _refuse_overwriting(top: str, head: str, end: str, wanted: list[Commit]) -> None:
    """Refuse a merge that would overwrite uncommitted files, and name them."""
    changed = {entry[3:] for entry in worktree.changes(top)}
    if not changed:
        return
    files = sorted(changed.intersection(refs.changed_paths(top, head, end)))
    if files:
        last = wanted[-1]
        raise DependencyConflict(
            top,
            anchor=last["step_anchor"],
            commit=last["commit"],
            reason="it would overwrite what is not committed",
            files=files,
        )
