"""One dash and where it lies: its row, its branch, its worktree, and who works there now."""

from __future__ import annotations

import fcntl
import os

from tugtool import base, clock, git
from tugtool.dash import names
from tugtool.dash_errors import DashEnded, WrongBranch
from tugtool.git_errors import CommitRefused
from tugtool.state import dashing
from tugtool.state.record import storable
from tugtool.worktree.survey import LOCK_SECONDS, Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any, Self

    from tugtool.repository import Repository
    from tugtool.store import Row, Store


class Ground:
    """A dash that is recorded, and what git says of it when asked."""

    __slots__ = ("base", "branch", "name", "path", "repo", "row", "store")

    def __init__(self, repo: Repository, store: Store, row: Row) -> None:
        self.repo, self.store, self.row = repo, store, row
        self.name = str(row["name"])
        self.branch = names.branch(self.name)
        self.base = str(row["base_branch"])
        self.path = names.path(repo, self.name)

    @property
    def ref(self) -> str:
        """Its branch: nothing else can be meant by it."""
        return f"refs/heads/{self.branch}"

    def tip(self) -> str | None:
        """Where its branch stands; None if that is gone."""
        return base.commit_of(self.repo.root, self.ref)

    def tree(self) -> Tree:
        """Its worktree, as the commands about worktrees see one."""
        row = {"branch": self.branch, "base_branch": self.base, "plan_path": ""}
        row["base_commit"] = self.row["base_commit"]
        return Tree(self.path, row, facts(self.repo, self.path))

    def refuse_elsewhere(self) -> None:
        """E058, unless its worktree is there and on its branch."""
        tree = self.tree()
        if not tree.exists:
            reason = f"its worktree {self.path} is gone"
            hint = f"tugcode dash create {self.name}"
            raise WrongBranch(self.name, reason, worktree=self.path, hint=hint)
        assert tree.facts is not None
        refuse_other_branch(self.name, self.path, tree.facts.get("branch"))

    def is_being_released(self) -> bool:
        """Whether somebody has begun to release it, and may have died over it."""
        return bool(dashing.intents(self.store, "remove", self.path))

    def revive(self) -> None:
        """A release that was stopped before it took anything away is off; E056 otherwise."""
        if not self.is_being_released():
            return
        if not self.tree().exists or self.tip() is None:
            what = "its release was interrupted; `dash release` brings it to its end"
            raise DashEnded(self.name, what=what, hint=f"tugcode dash release {self.name}")
        dashing.drop(self.store, "remove", self.path)


def facts(repo: Repository, path: str) -> Mapping[str, Any] | None:
    """What git says of the worktree at that path, if it knows one."""
    known = (each for each in git.worktree_facts(repo.root) if each["worktree"] == path)
    return next(known, None)


def refuse_other_branch(name: str, path: str, found: str | None) -> None:
    """E058, unless the dash's worktree has its branch checked out."""
    wanted = names.branch(name)
    if found != wanted:
        what = found or "no branch (its HEAD is detached)"
        reason = f"{path} is on {what}, not on {wanted}"
        raise WrongBranch(name, reason, worktree=path)


def at(store: Store, repo: Repository, worktree: str) -> Row | None:
    """The active dash that a worktree belongs to."""
    rows = dashing.every(store, ended=False)
    return next((row for row in rows if names.path(repo, row["name"]) == worktree), None)


class Alone:
    """Nobody else commits in the worktree, joins it or releases it; a dead process lets go.

    The lock is the directory itself: there is nothing to clean up, and without the directory
    there is nothing to guard.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    def __enter__(self) -> Self:
        try:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            return self
        for last in clock.tries(LOCK_SECONDS):
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if last:
                    self._leave()
                    reason = "has another commit, join or release under way"
                    raise CommitRefused(storable(self._path), reason) from error
            else:
                break
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
