"""A dash: its name, its place, and the end of an interrupted join."""

from __future__ import annotations

from contextlib import contextmanager

from tugtool.errors.git import (
    BadDashName,
    CommitRefused,
    DashEnded,
    NoSuchDash,
    NotJoined,
    WrongBranch,
)
from tugtool.git import advance, refs
from tugtool.git import command as git
from tugtool.state import dashes, intents
from tugtool.state.record import owner_of
from tugtool.store import NO_PLAN, file_store
from tugtool.store.owners import on_other_machine
from tugtool.system import crash, lock, os
from tugtool.workflow import worktree
from tugtool.workflow.merge import rehearsal
from tugtool.workflow.worktree import LOCK_SECONDS, Worktree, build

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from tugtool.git import Repository
    from tugtool.schemas import DashJoin
    from tugtool.store import Row, Store
    from tugtool.workflow.workspace import Workspace


branch_of = dashes.branch


def checked(name: str) -> str:
    """Return the name, or raise E055 with a valid one."""
    if dashes.is_name(name):
        return name
    most = dashes.LONGEST_NAME
    reason = f"small letters, digits and single hyphens between them, {most} at most"
    kept = "".join(char if char.isascii() and char.isalnum() else " " for char in name[:1000])
    close = "-".join(kept.lower().split())[:most].strip("-") or None
    raise BadDashName(name, reason=reason, close=close)


def bare(word: str) -> str:
    """Return a dash's name from its name, its branch or the path of its worktree."""
    name = word.rstrip("/").rpartition(worktree.DASH_DIRECTORIES)[2]
    return name.removeprefix(worktree.DASH_BRANCHES)


def directory_of(repo: Repository, name: str) -> str:
    """Return the absolute path of its worktree: `.tugtree/tugdash__<name>`."""
    return os.path.join(repo.root, dashes.worktree(name))


def is_elsewhere(repo: Repository, store: Store, row: Row) -> bool:
    """Return whether a dash is on another machine, or in another clone on this one.

    Clones share only a record on a server. A clone that has neither the branch nor the directory,
    nor a release that was interrupted, did not make the dash.
    """
    if on_other_machine(row["worktree"]) or file_store(store) is not None:
        return on_other_machine(row["worktree"])
    path = os.path.join(repo.root, row["worktree"])
    if os.path.isdir(path) or refs.branch_tip(repo.root, row["branch"]) is not None:
        return False
    return intents.find_intent(store, "remove", path) is None


class Dash:
    """A recorded dash; git is asked on demand."""

    __slots__ = ("base", "branch", "is_away", "name", "path", "repo", "row", "store")

    def __init__(self, repo: Repository, store: Store, row: Row, *, to_look: bool = False) -> None:
        """Raise E058 if it is on another machine, unless the caller only wants to look."""
        self.repo, self.store, self.row = repo, store, row
        self.name = str(row["name"])
        self.branch = branch_of(self.name)
        self.base = str(row["base_branch"])
        self.path = directory_of(repo, self.name)
        #: Whether it is under way on another machine: git here knows nothing of it.
        self.is_away = row["status"] == "active" and is_elsewhere(repo, store, row)
        if self.is_away:
            own = not on_other_machine(row["worktree"])
            self.path = f"another clone:{row['worktree']}" if own else str(row["worktree"])
        if self.is_away and not to_look:
            reason = f"it is on {self.path.partition(':')[0]}"
            hint = f"tugcode dash show {self.name}"
            raise WrongBranch(self.name, reason, worktree=self.path, hint=hint)

    def tip(self) -> str | None:
        """Return the commit of its branch; None if the branch is gone."""
        return refs.branch_tip(self.repo.root, self.branch)

    def tree(self) -> Worktree:
        """Return its worktree in the form that the worktree commands use."""
        row = {"branch": self.branch, "base_branch": self.base, "plan_path": ""}
        row["base_commit"] = self.row["base_commit"]
        every = git.worktree_facts(self.repo.root)
        known = next((each for each in every if each["worktree"] == self.path), None)
        return Worktree(self.path, row, known, every)

    def refuse_elsewhere(self) -> None:
        """Raise E058 unless its worktree is there and on its branch."""
        tree = self.tree()
        if not tree.exists:
            reason = f"its worktree {self.path} is gone"
            hint = f"tugcode dash create {self.name}"
            raise WrongBranch(self.name, reason, worktree=self.path, hint=hint)
        assert tree.facts is not None
        refuse_other_branch(self.name, self.path, tree.facts.get("branch"))

    def is_being_released(self) -> bool:
        """Return whether its release has begun, perhaps by a process that died."""
        return intents.find_intent(self.store, "remove", self.path) is not None

    def revive(self) -> None:
        """Cancel a release that was stopped before it removed anything; else raise E056."""
        if not self.is_being_released():
            return
        if not self.tree().exists or self.tip() is None:
            what = "its release was interrupted; `dash release` finishes it"
            raise DashEnded(self.name, what=what, hint=f"tugcode dash release {self.name}")
        intents.drop(self.store, NO_PLAN, "remove", self.path)


def named(space: Workspace, given: str | None) -> str:
    """Return the given dash's name, or that of the caller's worktree."""
    if given is not None:
        return bare(given)
    repo = space.repo
    for row in dashes.every(space.store, ended=False):
        own = not is_elsewhere(repo, space.store, row)
        if own and directory_of(repo, row["name"]) == space.worktree:
            return str(row["name"])
    raise NoSuchDash("")


def facts(repo: Repository, path: str) -> Mapping[str, Any] | None:
    """Return git's facts about the worktree at that path, or None."""
    known = (each for each in git.worktree_facts(repo.root) if each["worktree"] == path)
    return next(known, None)


def refuse_other_branch(name: str, path: str, found: str | None) -> None:
    """Raise E058 unless the dash's worktree has its branch checked out."""
    wanted = branch_of(name)
    if found != wanted:
        what = found or "no branch (its HEAD is detached)"
        reason = f"{path} is on {what}, not on {wanted}"
        raise WrongBranch(name, reason, worktree=path)


@contextmanager
def alone(path: str) -> Iterator[None]:
    """Lock the worktree against other commits, joins and releases; a dead process lets go.

    The lock is on the directory itself: it needs no clean-up, and without the directory
    there is nothing to lock.
    """
    if not os.path.isdir(path) or os.path.islink(path):
        yield
        return
    descriptor = lock.passed(path, LOCK_SECONDS)
    if descriptor < 0:
        raise CommitRefused(owner_of(path), "has another commit, join or release under way")
    try:
        yield
    finally:
        os.close(descriptor)


def repair_join(repo: Repository, store: Store) -> dict[str, DashJoin]:
    """Finish joins that were stopped after the base branch moved; forget the others.

    The caller holds the lock of worktrees, and a join holds it to its end, so the process
    that wrote an intent found here is dead. Return the finished ones by name.
    """
    done: dict[str, DashJoin] = {}
    for intent in build.own_intents(repo, store, "join"):
        script = intents.detail(intent)
        left = advance.left_off(repo.root, repo.common_dir)
        # Another command's leftovers in the main worktree are not ours to finish or undo.
        if left is not None and left.result == script["result"]:
            with refusals(script["name"]):
                advance.recover(repo)
        if advance.has_moved(repo, script):
            done[script["name"]] = conclude(repo, store, script, resumed=True)
        else:
            intents.drop(store, NO_PLAN, "join", intent["worktree"])
    return done


@contextmanager
def refusals(name: str) -> Iterator[None]:
    """Turn a main worktree that cannot move into a refusal of the join."""
    try:
        yield
    except advance.Blocked as blocked:
        raise NotJoined(name, blocked.reason, blocked.hint, **blocked.facts) from blocked


def conclude(repo: Repository, store: Store, script: dict[str, Any], *, resumed: bool) -> DashJoin:
    """Record that the base branch has the dash, and remove the rest of it."""
    name = script["name"]
    path, branch = directory_of(repo, name), branch_of(name)
    dashes.join(store, script["dash"], script["result"])
    crash.point("join.recorded")
    done = rehearsal.tidy(repo, store, [(branch, script["tip"])])
    crash.point("join.tidied")
    intents.drop(store, NO_PLAN, "join", path)
    return {
        "name": name,
        "joined": True,
        "joined_commit": script["result"],
        "base_branch": script["base_branch"],
        "branch_name": branch,
        "worktree_path": path,
        "squash": script["squash"],
        "commits": script["commits"],
        "already_contained": script["contained"],
        "left": [str(each["reason"]) for each in done["left"]],
        "resumed": resumed,
    }


def refuse_joining(ground: Dash) -> None:
    """Raise E056 if a stopped join had moved the base branch; it has to be finished first."""
    if intents.find_intent(ground.store, "join", ground.path) is None:
        return
    with worktree.worktrees_lock(ground.repo):
        done = repair_join(ground.repo, ground.store).get(ground.name)
    if done is not None:
        commit = done["joined_commit"]
        raise DashEnded(ground.name, what=f"it was joined as {commit}", joined_commit=commit)
