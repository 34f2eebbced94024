"""dash create: a branch and a directory for small work; or the ones that are there already.

All of it happens, or nothing is left. A dash that lost its worktree or its branch gets them
back, and one that only git knows is recorded anew.
"""

from __future__ import annotations

import os

from tugtool import base, crash, git
from tugtool import init as setup
from tugtool.dash import mending, names, rounds
from tugtool.dash.ground import Ground, facts, refuse_other_branch
from tugtool.dash_errors import BadDashName
from tugtool.errors import TugError
from tugtool.git_errors import NotMade
from tugtool.state import dashing
from tugtool.worktree import adding, survey, undoing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.repository import Repository
    from tugtool.store import Store

    Data = dict[str, object]


class Order:
    """What is asked for: a name, from which branch, and what it is about."""

    __slots__ = ("base", "description", "name")

    def __init__(self, name: str, *, base: str | None, description: str | None) -> None:
        self.name = names.checked(name)
        self.base = None if base is None else base.removeprefix("refs/heads/")
        self.description = description


def create(repo: Repository, store: Store, order: Order) -> Data:
    """Make a dash, or find the active one of that name as it should be."""
    survey.require_git()
    survey.directory(repo)
    setup.ignore_state(repo)
    store.create()
    queue = survey.lock(repo)
    queue.enter()
    try:
        undoing.mend(repo, store)
        mending.mend(repo, store)
        row = dashing.active(store, order.name)
        if row is not None:
            how = _existing(Ground(repo, store, row), order)
        else:
            how = _Making(repo, store, order).run()
    finally:
        queue.leave()
    return _answer(repo, store, order.name, how)


def _answer(repo: Repository, store: Store, name: str, how: str) -> Data:
    row = dashing.require(store, name)
    return {
        "name": name,
        "worktree_path": names.path(repo, name),
        "branch_name": names.branch(name),
        "base_branch": row["base_branch"],
        "base_commit": row["base_commit"],
        "description": row["description"],
        "rounds": row["rounds"],
        "created": how == "created",
        "repaired": how == "repaired",
        "adopted": how == "adopted",
    }


def _existing(ground: Ground, order: Order) -> str:
    if order.base not in (None, ground.base):
        asked = base.branch(ground.repo, asked=order.base, target=None)
        reason = f"it is active, and comes from {ground.base}, not from {asked}"
        raise BadDashName(ground.name, reason=reason, taken=True)
    ground.revive()
    how = _repair(ground)
    if order.description is not None and order.description != ground.row["description"]:
        dashing.describe(ground.store, ground.row, order.description)
    return how


def _repair(ground: Ground) -> str:
    """Give a dash back what it lacks of branch and worktree."""
    repo, how = ground.repo, "found"
    tip = ground.tip()
    if tip is None:
        tip, how = _last_commit(ground), "repaired"
        adding.branch(repo, ground.branch, tip, said="tugcode: dash create")
    return "repaired" if _placed(repo, ground.name, tip) else how


def _placed(repo: Repository, name: str, tip: str) -> bool:
    """The worktree of a branch that is there; whether it had to be made."""
    path, branch = names.path(repo, name), names.branch(name)
    known = facts(repo, path)
    if known is not None and os.path.isfile(os.path.join(path, ".git")):
        refuse_other_branch(name, path, known.get("branch"))
        return False
    if os.path.lexists(path):
        raise NotMade(path, reason="something lies there that git does not know as a worktree")
    if known is not None:
        # Git remembers a worktree whose directory is gone; a locked one it keeps.
        git.patiently("worktree", "remove", "--force", path, cwd=repo.root)
    _add(repo, path, branch, tip)
    return True


def _last_commit(ground: Ground) -> str:
    commits = [row["commit_hash"] for row in dashing.rounds(ground.store, ground.row)]
    last = [commit for commit in commits if commit is not None] or [ground.row["base_commit"]]
    found = base.commit_of(ground.repo.root, last[-1])
    if found is None:
        reason = f"its branch {ground.branch} is gone, and git no longer has {last[-1]}"
        raise NotMade(ground.path, reason=reason)
    return found


def _add(repo: Repository, path: str, branch: str, tip: str) -> None:
    """The directory alone; without it the branch is as it was."""
    try:
        adding.directory(repo, path, branch)
        adding.verify(repo, path, branch, tip)
    except TugError as error:
        words = ("worktree", "remove", "--force", "--force", path)
        git.attempt(*words, cwd=repo.root, though_killed=True)
        reason = error.reason if isinstance(error, NotMade) else error.message
        left = [path] if os.path.lexists(path) else []
        raise NotMade(path, reason=reason, left=left) from error


class _Making:
    """One dash, from the intent to the row; taken away again if anything goes wrong."""

    def __init__(self, repo: Repository, store: Store, order: Order) -> None:
        self.repo, self.store, self.order = repo, store, order
        self.branch, self.path = names.branch(order.name), names.path(repo, order.name)
        self.onto = base.branch(repo, asked=order.base, target=None)
        start = base.commit_of(repo.root, f"refs/heads/{self.onto}")
        assert start is not None, self.onto
        self.start = start

    def run(self) -> str:
        tip = base.commit_of(self.repo.root, f"refs/heads/{self.branch}")
        if tip is not None:
            return self._adopt(tip)
        if os.path.lexists(self.path):
            raise NotMade(self.path, reason="something lies there already")
        detail: Data = {"branch": self.branch, "base_branch": self.onto}
        dashing.intend(self.store, "create", self.path, head=self.start, detail=detail)
        crash.point("dash.intent")
        try:
            self._make()
        except BaseException as error:
            left = undoing.undo(
                self.repo, self.store, self.path, branch=self.branch, start=self.start
            )
            if isinstance(error, TugError):
                reason = error.reason if isinstance(error, NotMade) else error.message
                raise NotMade(self.path, reason=reason, left=left) from error
            raise
        return "created"

    def _make(self) -> None:
        adding.branch(self.repo, self.branch, self.start, said="tugcode: dash create")
        crash.point("dash.branch")
        adding.directory(self.repo, self.path, self.branch)
        crash.point("dash.worktree")
        adding.verify(self.repo, self.path, self.branch, self.start)
        self._record(self.start)
        crash.point("dash.recorded")

    def _record(self, start: str, found: list[dashing.Round] | None = None) -> None:
        dashing.add(
            self.store,
            self.order.name,
            path=self.path,
            base=(self.onto, start),
            description=self.order.description,
            rounds=found or (),
        )

    def _adopt(self, tip: str) -> str:
        """Its branch is there and its record is not: the state was lost, or somebody made it."""
        fork = git.attempt("merge-base", f"refs/heads/{self.onto}", tip, cwd=self.repo.root)
        if fork.status:
            reason = f"there is a branch {self.branch} that has nothing in common with {self.onto}"
            raise BadDashName(self.order.name, reason=reason)
        _placed(self.repo, self.order.name, tip)
        start = fork.out.strip()
        self._record(start, rounds.in_git(self.path, self.order.name, start))
        return "adopted"
