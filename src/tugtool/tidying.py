"""After a merge: the worktrees and branches that it took in go, and no others."""

from __future__ import annotations

import os

from tugtool import crash, git
from tugtool.branches import Branch, Landscape
from tugtool.state import merging

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tugtool.repository import Repository
    from tugtool.store import Store

    Data = dict[str, object]


class Tidied:
    """What went, and what was left and why."""

    def __init__(self) -> None:
        self.worktrees: list[str] = []
        self.branches: list[str] = []
        self.left: list[Data] = []


def tidy(repo: Repository, store: Store, merged: Sequence[tuple[str, str]]) -> Tidied:
    """Remove each branch that still stands where it was merged, and its worktree before it."""
    done = Tidied()
    land = Landscape(repo)
    for name, tip in merged:
        if name not in land.tips:
            continue
        branch = land.branch(name)
        reason = _in_use(repo, store, branch, tip) or _remove(repo, branch)
        if reason:
            done.left.append(
                {"branch_name": name, "worktree_path": branch.worktree, "reason": reason}
            )
            continue
        done.branches.append(name)
        done.worktrees += [branch.worktree] if branch.worktree else []
        crash.point("merge.tidied")
    return done


def _in_use(repo: Repository, store: Store, branch: Branch, tip: str) -> str | None:
    """Why a branch has to stay, if it has to."""
    if branch.tip != tip:
        return "it has moved on since it was merged"
    if branch.worktree is None:
        return None
    if branch.worktree == repo.root:
        return "the main worktree has it checked out"
    if not os.path.isdir(branch.worktree):
        return None
    held = merging.claim_in(store, os.path.realpath(branch.worktree))
    if held is not None:
        return f"{held[1]} of {held[0]} is claimed there"
    # All: a person may have set that untracked files are not shown, and git would remove them.
    words = ("status", "--porcelain", "-z", "--untracked-files=all")
    changed = git.attempt(*words, cwd=branch.worktree)
    if changed.status or changed.out:
        return "there is uncommitted work"
    return None


def _remove(repo: Repository, branch: Branch) -> str | None:
    """Take a branch and its worktree away; what git says if it does not let us."""
    if branch.worktree is not None:
        there = os.path.isdir(branch.worktree)
        words = ["remove", "--", branch.worktree] if there else ["prune"]
        done = git.attempt("worktree", *words, cwd=repo.root)
        if done.status:
            return done.said.strip()
    # Only if it still stands there: a commit made this instant must not be lost.
    done = git.attempt("update-ref", "-d", branch.ref, branch.tip, cwd=repo.root)
    if done.status:
        return done.said.strip()
    # What was set for it, if anything was.
    git.attempt("config", "--remove-section", f"branch.{branch.name}", cwd=repo.root)
    return None
