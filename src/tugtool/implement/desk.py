"""The worktree that a worker sits at: where it is, and what an agent may not change in it."""

from __future__ import annotations

import functools
import os

from tugtool import belonging, files, git, heads, repository
from tugtool.errors import Unreadable
from tugtool.intent import Site
from tugtool.plan import fingerprint
from tugtool.state.record import PlanCopy, storable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tugtool.repository import Repository
    from tugtool.store import Store

#: A plan is read whole, whatever its size: one that grew has changed, not broken.
_WHOLE = 1 << 30

#: What HEAD names where only git reads the refs.
_UNTOLD = ".invalid"


class Desk:
    """One worktree of the plan."""

    def __init__(self, repo: Repository, path: str, *, branch: str, base_branch: str) -> None:
        self.repo = repo
        self.path = path
        self.owner = storable(path)
        self.branch, self.base_branch = branch, base_branch
        self.git_dir = belonging.home(repo.common_dir, path) or repository.git_dir(path)

    @classmethod
    def made(cls, repo: Repository, data: Mapping[str, object]) -> Desk:
        """The desk that `worktree create` tells of."""
        branch, onto = str(data["branch_name"]), str(data["base_branch"])
        return cls(repo, str(data["worktree_path"]), branch=branch, base_branch=onto)

    @property
    def name(self) -> str:
        """The directory's own name, which is what people call it."""
        return os.path.basename(self.path)

    def site(self, store: Store) -> Site:
        """Where its work is committed."""
        return Site(
            store,
            top=self.path,
            git_dir=self.git_dir,
            root=self.repo.root,
            owner=self.owner,
            copy=self.copy,
        )

    def copy(self, plan: str) -> PlanCopy:
        """The plan as it lies here, or else at the root; read when it is asked for."""
        for top in (self.path, self.repo.root):
            path = os.path.join(top, plan)
            if os.path.lexists(path):
                at = top if top != self.repo.root else None
                return PlanCopy(path, read=functools.partial(_hash, path), worktree=at)
        return PlanCopy(os.path.join(self.repo.root, plan))

    def trouble(self) -> str | None:
        """Why nothing of git's may be run here: it is not what was made, or not on its branch."""
        wrong = belonging.trouble(self.repo.common_dir, self.path)
        if wrong is not None:
            return wrong
        branch, _ = self.head()
        if branch in (self.branch, _UNTOLD):
            return None
        return f"it has {branch or 'a detached HEAD'} checked out in place of {self.branch}"

    def head(self) -> tuple[str | None, str]:
        """The branch that HEAD names (None if it is on none), and its commit."""
        # From small files, instead of a process for each agent that has run.
        try:
            branch, commit = heads.read(self.git_dir, self.repo.common_dir)
        except Unreadable:
            branch, commit = heads.branch_of(self.path), heads.commit_of(self.path)
        return branch, commit or ""

    def read_plan(self, plan: str) -> bytes | None:
        """The plan's file here, if there is one."""
        path = os.path.join(self.path, plan)
        return files.read(path, max_bytes=_WHOLE) if os.path.isfile(path) else None

    def is_dirty(self) -> bool:
        """Whether anything here is not committed."""
        words = ("status", "--porcelain", "--untracked-files=all", "--ignore-submodules=dirty")
        return bool(git.run(*words, cwd=self.path))

    def clear(self) -> None:
        """Make it what its HEAD is; for whoever has saved what lay there. Ignored files stay."""
        git.patiently("reset", "--quiet", "--hard", cwd=self.path)
        git.patiently("clean", "--quiet", "-d", "--force", cwd=self.path)


def _hash(path: str) -> str:
    return fingerprint.of(files.read(path, max_bytes=_WHOLE))
