"""The main worktree moves forward to a commit that was prepared: what stands against it, and how.

Whoever calls says how to refuse: `refuse(reason, hint, **facts)` gives the error to raise.
"""

from __future__ import annotations

import os

from tugtool import advancing, git
from tugtool.advancing import Advance, Stuck
from tugtool.errors import listing, quoted
from tugtool.rehearsal import is_ancestor, is_commit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from tugtool.advancing import Point
    from tugtool.errors import TugError
    from tugtool.repository import Repository

    class Refuse(Protocol):
        """Makes the refusal of whoever calls."""

        def __call__(self, reason: str, hint: str, **facts: object) -> TugError: ...


#: What git leaves in its directory while it waits for a person.
UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
}


def head(repo: Repository) -> str:
    """The commit that the main worktree stands on."""
    return git.run("rev-parse", "--verify", "HEAD^{commit}", cwd=repo.root).strip()


def current(repo: Repository) -> str:
    """The branch that the main worktree is on; empty where its HEAD is detached."""
    out = git.attempt("symbolic-ref", "--quiet", "HEAD", cwd=repo.root).out
    return out.removesuffix("\n").removeprefix("refs/heads/")


def refuse_other_branch(repo: Repository, base: str, refuse: Refuse) -> None:
    """What arrives goes to the base branch, and only the one checked out can be moved."""
    found = current(repo)
    if found != base:
        what = found or "no branch"
        reason = f"it goes to {base}, and the main worktree is on {what}"
        raise refuse(reason, f"git checkout {quoted(base)}")


def refuse_unclean(repo: Repository, refuse: Refuse) -> None:
    """Nothing may be under way there, and nothing uncommitted."""
    for name, what in UNDER_WAY.items():
        if os.path.lexists(os.path.join(repo.common_dir, name)):
            raise refuse(f"{what} is under way in the main worktree", "git status")
    # Untracked files are a person's own business, unless they are in the way.
    words = ("status", "--porcelain", "-z", "--untracked-files=no", "--no-renames")
    changed = [entry[3:] for entry in git.run(*words, cwd=repo.root).split("\0") if entry]
    if changed:
        reason = f"the main worktree has uncommitted changes: {listing(changed)}"
        raise refuse(reason, "git status", files=changed)


def refuse_overwriting(repo: Repository, head: str, result: str, refuse: Refuse) -> None:
    """Untracked files that the move would replace; git itself spares ignored ones nothing."""
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=A")
    added = [name for name in git.run(*words, head, result, cwd=repo.root).split("\0") if name]
    places = {place: None for name in added for place in _on_the_way(repo.root, name)}
    if not places:
        return
    literal = ("--literal-pathspecs", "ls-files", "--others", "-z", "--")
    found = [name for name in git.run(*literal, *places, cwd=repo.root).split("\0") if name]
    if found:
        reason = f"untracked files are in the way: {listing(found)}"
        raise refuse(reason, "git status --ignored", files=found)


def _on_the_way(root: str, name: str) -> list[str]:
    """Of a file to be added, and the directories above it: what stands where it has to go."""
    parts = name.split("/")
    for depth in range(1, len(parts)):
        above = "/".join(parts[:depth])
        path = os.path.join(root, above)
        if os.path.islink(path) or (os.path.lexists(path) and not os.path.isdir(path)):
            return [above]
    return [name] if os.path.lexists(os.path.join(root, name)) else []


def recover(repo: Repository, refuse: Refuse, *, only_look: str | None = None) -> None:
    """Finish or undo what a git that was stopped has left in the main worktree.

    Whoever may `only_look` is told of it, and with which command to go on.
    """
    advance = advancing.left_off(repo.root, repo.common_dir)
    if advance is None:
        return
    pid = advance.busy()
    if pid is not None:
        raise refuse(f"a merge is under way, process {pid}", "git status", pid=pid)
    if only_look is not None:
        reason = "a merge was stopped while it changed files; the next one puts them right"
        raise refuse(reason, only_look)
    try:
        advance.finish()
    except Stuck as stuck:
        names = listing(stuck.files)
        reason = f"a merge was stopped while it changed files, and others changed since: {names}"
        raise refuse(reason, "git status", files=stuck.files) from stuck


class Step:
    """One step forward of the base branch and the main worktree, from `head` to `result`."""

    __slots__ = ("base", "head", "result")

    def __init__(self, base: str, head: str, result: str) -> None:
        self.base, self.head, self.result = base, head, result

    def take(self, repo: Repository, *, locked: Point, advanced: Point) -> str | None:
        """Forward, or not at all: then what git said; the points are those of `advancing`."""
        if self.result == self.head:
            return None
        advance = Advance(repo.root, repo.common_dir, self.head, self.result)
        done = advance.run(locked=locked, advanced=advanced)
        if not done.status:
            return None
        return (done.said.strip() or done.out.strip()) or "it said nothing"

    def is_taken(self, repo: Repository) -> bool:
        """Whether the base branch has got there, or further."""
        ref = f"refs/heads/{self.base}"
        if not is_commit(repo.root, self.result) or not is_commit(repo.root, ref):
            return False
        return is_ancestor(repo.root, self.result, ref)
