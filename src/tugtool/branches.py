"""The branches of a plan, as git has them, and the one they are meant for."""

from __future__ import annotations

import os

from tugtool import base, git
from tugtool.plan import catalog, parser
from tugtool.worktree import naming
from tugtool.worktree.survey import BRANCHES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from tugtool.repository import Repository
    from tugtool.store import Row


class Branch:
    """One branch, where it stands, and the working tree that has it checked out."""

    __slots__ = ("name", "tip", "worktree")

    def __init__(self, name: str, tip: str, worktree: str | None) -> None:
        self.name = name
        self.tip = tip
        self.worktree = worktree

    @property
    def ref(self) -> str:
        """Its full name: nothing else can be meant by it."""
        return f"refs/heads/{self.name}"


class Landscape:
    """A repository's branches and working trees, looked at once."""

    def __init__(self, repo: Repository) -> None:
        self.root = repo.root
        out = git.run(
            "for-each-ref", "--format=%(refname)%00%(objectname)", "refs/heads/", cwd=repo.root
        )
        pairs = (entry.split("\0") for entry in out.split("\n") if entry)
        self.tips = {name.removeprefix("refs/heads/"): tip for name, tip in pairs}
        self.worktrees = git.worktrees(repo.root)
        #: What the main worktree has checked out; None where HEAD is detached.
        self.current = self.worktrees[0][1] if self.worktrees else None

    def branch(self, name: str) -> Branch:
        """A branch that is there."""
        path = next((path for path, branch in self.worktrees if branch == name), None)
        return Branch(name, self.tips[name], path)

    def of_plan(
        self, plan: str, rows: Iterable[Row], base: str | None, *, others: Collection[str] = ()
    ) -> list[Branch]:
        """The plan's branches: those named after it, and those that were recorded for it.

        `others` are recorded for other plans: two names may look alike as branches.
        """
        slug = catalog.slug_of(os.path.basename(plan))
        recorded = {row["branch"] for row in rows}
        names = [name for name in self.tips if name in recorded or is_named_after(name, slug)]
        kept = [name for name in names if name != base and (name in recorded or name not in others)]
        return [self.branch(name) for name in kept]

    def head(self, worktree: str) -> str | None:
        """The commit a working tree stands at; None if it is none of this repository's."""
        if all(path != worktree for path, _ in self.worktrees):
            return None
        done = git.attempt("rev-parse", "--verify", "--quiet", "HEAD^{commit}", cwd=worktree)
        return done.out.strip() or None

    def base(self, rows: Sequence[Row], text: str) -> str | None:
        """The base branch: the worktrees', else the plan's Target branch, else the main one's."""
        for name in (*(row["base_branch"] for row in rows), base.target_branch(parser.parse(text))):
            if name in self.tips:
                return str(name)
        return self.current


def named_after(repo: Repository, plan: str) -> list[str]:
    """The branches that are called as those of the plan are."""
    out = git.run("for-each-ref", "--format=%(refname)", f"refs/heads/{BRANCHES}", cwd=repo.root)
    slug = catalog.slug_of(os.path.basename(plan))
    names = [name.removeprefix("refs/heads/") for name in out.split("\n") if name]
    return [name for name in names if is_named_after(name, slug)]


def is_named_after(name: str, slug: str) -> bool:
    """Whether a branch is `tugplan/<slug>-<date>`, or that with a number."""
    start = f"{BRANCHES}{naming.safe(slug)}-"
    date, _, number = name.removeprefix(start).partition("-")
    own = name.startswith(start) and len(date) == 8 and date.isascii() and date.isdecimal()
    counted = number.isascii() and number.isdecimal()
    return own and (counted or name == f"{start}{date}")
