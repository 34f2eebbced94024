"""What git says of one worktree: where it stands, what is under way, what was committed."""

from __future__ import annotations

import os

from tugtool import git, trailers
from tugtool.errors import GitFailed, quoted
from tugtool.git_errors import CommitRefused
from tugtool.index import Index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Files of git's that say that something is not finished.
_UNDER_WAY = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "sequencer": "cherry-pick or revert",
}
#: The index as it was before `git add`.
_SAVED = "tugtool-index"
#: The index as `git add` left it.
_ADDED = "tugtool-index-added"
_STATE = (".tugtool/state.db", ".tugtool/state.lock")


class Tree:
    """One look at a worktree."""

    __slots__ = ("branch", "dirty", "git_dir", "head", "state_files", "top", "unmerged")

    def __init__(self, top: str, git_dir: str) -> None:
        self.top = top
        self.git_dir = git_dir
        #: The commit it stands on; None before the first.
        self.head: str | None = None
        #: None where HEAD is detached.
        self.branch: str | None = None
        #: Whether anything differs from HEAD, untracked files included.
        self.dirty = False
        self.unmerged: list[str] = []
        #: Files of the state that `git add --all` would stage.
        self.state_files: list[str] = []

    def refuse_unfit(self) -> None:
        """E080, where a step's work cannot be committed."""
        for name, what in _UNDER_WAY.items():
            if os.path.lexists(os.path.join(self.git_dir, name)):
                reason = f"has a {what} under way, which has to end first"
                if what == "merge":
                    reason += "; git commit ends it, once its conflicts are solved"
                raise CommitRefused(self.top, reason, hint=f"git -C {quoted(self.top)} status")
        if self.unmerged:
            names = ", ".join(self.unmerged[:8])
            raise CommitRefused(self.top, f"has unmerged files: {names}", files=self.unmerged)
        if self.branch is None:
            raise CommitRefused(self.top, "is on no branch (HEAD is detached)", hint="git branch")
        if self.state_files:
            names = ", ".join(self.state_files)
            reason = f"would commit the state itself, which never belongs into git: {names}"
            raise CommitRefused(self.top, reason, hint="tugcode init", files=self.state_files)


def look(top: str, git_dir: str) -> Tree:
    """Ask git once for everything."""
    tree = Tree(top, git_dir)
    # What is inside submodules is not ours to commit, and costs a process for each.
    out = git.run(
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        "--no-renames",
        "--untracked-files=all",
        "--ignore-submodules=dirty",
        cwd=top,
    )
    for field in out.split("\0"):
        if field.startswith("# "):
            _note_branch(tree, field)
        elif field:
            _note_file(tree, field)
    return tree


def _note_branch(tree: Tree, field: str) -> None:
    _, name, value = field.split(" ", 2)
    if name == "branch.oid" and value != "(initial)":
        tree.head = value
    elif name == "branch.head" and value != "(detached)":
        tree.branch = value


def _note_file(tree: Tree, field: str) -> None:
    tree.dirty = True
    kind = field[0]
    if kind == "u":
        tree.unmerged.append(field.split(" ", 10)[10])
        return
    path = field[2:] if kind == "?" else field.split(" ", 8)[8]
    # Taking it out of git is what should be done.
    gone = kind == "1" and "D" in field[2:4]
    if path.startswith(_STATE) and not gone:
        tree.state_files.append(path)


class Commit:
    """One commit: who it says it is for, and what it changed."""

    __slots__ = ("claims", "files", "hash", "parents", "plans")

    def __init__(
        self, hash: str, parents: list[str], claims: list[str], plans: list[str], files: list[str]
    ) -> None:
        self.hash = hash
        self.parents = parents
        self.claims = claims
        self.plans = plans
        self.files = files

    def is_for(self, plan: str, claim: str) -> bool:
        """Whether git reads just this claim in it."""
        return self.claims == [claim] and self.plans == [plan]


def commits(
    top: str,
    since: str | None,
    *,
    most: int = 1000,
    keys: tuple[str, str] = (trailers.CLAIM, trailers.PLAN),
) -> list[Commit]:
    """The commits that the worktree's branch has had since `since`, newest first.

    `keys` are the trailers that say what each is for: the work, and what that belongs to.
    """
    # What begins a commit must be like no file's name.
    mark = os.urandom(9).hex()
    done = git.attempt(
        "log",
        "-z",
        f"--max-count={most}",
        "--name-only",
        "--no-renames",
        "--encoding=UTF-8",
        f"--format={mark}%H%x00%P%x00{_values(keys[0])}%x00{_values(keys[1])}%x00",
        *(["HEAD"] if since is None else [f"{since}..HEAD"]),
        "--",
        cwd=top,
        settings=trailers.SETTINGS,
    )
    # Before the first commit there is no HEAD; what was pruned is no base.
    return [] if done.status else list(_read(done.out.split("\0"), mark))


def _values(name: str) -> str:
    return f"%(trailers:key={name},valueonly,unfold,separator=%x0a)"


def _read(fields: list[str], mark: str) -> Iterator[Commit]:
    at = 0
    while at + 4 < len(fields):
        hash, parents, claims, plans = fields[at : at + 4]
        at += 4
        names: list[str] = []
        while at < len(fields) and not fields[at].startswith(mark):
            names += [fields[at]] if fields[at] else []
            at += 1
        # A line break stands between what the format gives and the files.
        names[:1] = [name.removeprefix("\n") for name in names[:1]]
        found = hash.removeprefix(mark)
        yield Commit(found, parents.split(), claims.split("\n"), plans.split("\n"), names)


def carrying(found: list[Commit], plan: str, claim: str) -> Commit | None:
    """The one that was made for this claim, if any."""
    return next((each for each in found if each.is_for(plan, claim)), None)


def staging(git_dir: str) -> Index:
    """Where everything is added, and whether somebody is at it."""
    return Index(git_dir, "tugtool-add")


def add_all(top: str, git_dir: str) -> None:
    """`git add --all`; killed, it leaves nothing that is in anybody's way."""
    words, index = ("add", "--all"), staging(git_dir)
    if not index.lock():
        raise GitFailed(words, status=128, said=index.locked_by())
    index.copy()
    done = index.run(*words, cwd=top)
    if not done.status:
        # Before it takes its place: whoever finds it there knows whose it is.
        _keep(index.own, os.path.join(git_dir, _ADDED))
        index.install()
    index.end()
    if done.status:
        raise GitFailed(words, status=done.status, said=done.said.strip())


def save_index(git_dir: str) -> bool:
    """Keep the index under another name: git never changes the file, it puts a new one there."""
    forget_index(git_dir)
    # No index yet, or no links here: then it stays as `git add` leaves it.
    return _keep(os.path.join(git_dir, "index"), os.path.join(git_dir, _SAVED))


def _keep(path: str, name: str) -> bool:
    try:
        os.link(path, name)
    except OSError:
        return False
    return True


def restore_index(git_dir: str) -> None:
    """Make the index what it was; what another git is writing just now is left alone."""
    index = os.path.join(git_dir, "index")
    if not os.path.lexists(f"{index}.lock"):
        os.rename(os.path.join(git_dir, _SAVED), index)
    forget_index(git_dir)


def undo_index(top: str, git_dir: str, entry: str = "", paths: Sequence[str] = ()) -> None:
    """Undo the `git add` of somebody who died; what others have added since stays added.

    Then only `paths` are taken out of the index, and only if the log has the `entry` there.
    """
    saved = os.path.join(git_dir, _SAVED)
    if os.path.lexists(saved) and _is_as_added(top, git_dir):
        restore_index(git_dir)
        return
    if paths and entry in git.attempt("cat-file", "blob", f":{paths[0]}", cwd=top).out:
        git.attempt("reset", "--quiet", "--", *paths, cwd=top, though_killed=True)
    forget_index(git_dir)


def _is_as_added(top: str, git_dir: str) -> bool:
    added = os.path.join(git_dir, _ADDED)
    if not os.path.lexists(added):
        return False
    # Not the files themselves: whoever looks at the status may write the index anew.
    words = ("ls-files", "--stage", "-v", "-z")
    found, left = (git.attempt(*words, cwd=top, index=index) for index in (None, added))
    return not found.status and found.out == left.out


def forget_index(git_dir: str) -> None:
    """Nobody will ask for it any more."""
    for name in (_SAVED, _ADDED):
        path = os.path.join(git_dir, name)
        if os.path.lexists(path):
            os.unlink(path)
