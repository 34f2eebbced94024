"""The status of a worktree: HEAD, branch, changes, conflicts, merges under way."""

from __future__ import annotations

from tugtool.errors import quoted
from tugtool.git import command as git
from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


#: Several commits that git picks or reverts one after the other.
SEQUENCE = "cherry-pick or revert"
#: Git's files that show an unfinished operation.
_UNDER_WAY = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "sequencer": SEQUENCE,
}
#: The mode of a repository inside, which git stores as a commit id.
_LINK = "160000"
_STATE = (".tugtool/state.db", ".tugtool/state.lock")


class Status:
    """The status of a worktree."""

    __slots__ = ("branch", "dirty", "git_dir", "head", "nested", "state_files", "top", "unmerged")

    def __init__(self, top: str, git_dir: str) -> None:
        self.top = top
        self.git_dir = git_dir
        #: The commit of HEAD; None before the first commit.
        self.head: str | None = None
        #: None where HEAD is detached.
        self.branch: str | None = None
        #: True if anything differs from HEAD, untracked files included.
        self.dirty = False
        self.unmerged: list[str] = []
        #: Repositories inside, of which a commit would contain only a commit id.
        self.nested: list[str] = []
        #: Files of the state that `git add --all` would stage.
        self.state_files: list[str] = []

    def refuse_unfit(self) -> None:
        """Refuse with E080 if a step's work cannot be committed."""
        found = self._obstacle()
        if found is not None:
            from tugtool.errors.git import CommitRefused

            reason, facts = found
            raise CommitRefused(self.top, reason, **facts)

    def _obstacle(self) -> tuple[str, dict[str, Any]] | None:
        what = under_way(self.git_dir)
        if what is not None:
            reason = f"has a {what} under way, which has to end first"
            if what == "merge":
                reason += "; git commit ends it, once its conflicts are solved"
            return reason, {"hint": f"git -C {quoted(self.top)} status"}
        if self.unmerged:
            names = ", ".join(self.unmerged[:8])
            return f"has unmerged files: {names}", {"files": self.unmerged}
        if self.branch is None:
            return "is on no branch (HEAD is detached)", {"hint": "git branch"}
        if self.head is None:
            reason = f"is on {self.branch}, which has no commit: it was deleted, or is new"
            return reason, {"hint": f"git -C {quoted(self.top)} status"}
        if self.nested:
            names = ", ".join(self.nested[:8])
            reason = (
                f"has a repository inside, of which git would commit none of the files: {names}; "
                "without its own .git (and, once added, after git rm --cached --force), as a "
                "submodule or ignored it is not an obstacle"
            )
            return reason, {"hint": f"git -C {quoted(self.top)} status", "files": self.nested}
        if self.state_files:
            names = ", ".join(self.state_files)
            reason = f"would commit the state itself, which never belongs into git: {names}"
            return reason, {"hint": "tugcode init", "files": self.state_files}
        return None


def ignored_by(top: str, path: str) -> str | None:
    """The rule by which git ignores a file, `.gitignore:1: *.md`; None if it does not."""
    words = ("check-ignore", "--verbose", "-z", "--stdin")
    done = git.attempt(*words, cwd=top, given=f"{path}\0")
    source, line, rule, *_ = [*done.out.split("\0"), "", "", ""]
    # A rule that begins with `!` includes files again.
    return f"{source}:{line}: {rule}" if rule and not rule.startswith("!") else None


def under_way(git_dir: str) -> str | None:
    """The unfinished operation there, such as `merge` or `rebase`; None if there is none."""
    there = (name for name in _UNDER_WAY if os.path.lexists(os.path.join(git_dir, name)))
    return next((_UNDER_WAY[name] for name in there), None)


def inspect(top: str, git_dir: str) -> Status:
    """Read the whole status with one call of git."""
    tree = Status(top, git_dir)
    # Changes inside submodules are not committed, and cost a process each.
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
    if any(not path.endswith("/") for path in tree.nested):
        known = submodules(top)
        tree.nested = [path for path in tree.nested if path not in known]
    return tree


def submodules(top: str) -> set[str]:
    """The paths that `.gitmodules` names."""
    words = ("config", "--file", ".gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$")
    # Each entry is the key, a newline and the path; there may be no such file.
    entries = git.attempt(*words, cwd=top).out.split("\0")[:-1]
    return {entry.partition("\n")[2] for entry in entries}


def _note_branch(tree: Status, field: str) -> None:
    _, name, value = field.split(" ", 2)
    if name == "branch.oid" and value != "(initial)":
        tree.head = value
    elif name == "branch.head" and value != "(detached)":
        tree.branch = value


def _is_nested(field: str) -> bool:
    """True if an entry is a repository: untracked, or new in the index as a commit id."""
    if field[0] == "?":
        return field.endswith("/")
    before, _, now = field.split(" ", 6)[3:6]
    return before != _LINK == now


def _note_file(tree: Status, field: str) -> None:
    tree.dirty = True
    kind = field[0]
    if kind == "u":
        tree.unmerged.append(field.split(" ", 10)[10])
        return
    path = field[2:] if kind == "?" else field.split(" ", 8)[8]
    if _is_nested(field):
        tree.nested.append(path)
    # A deletion from git is right.
    gone = kind == "1" and "D" in field[2:4]
    if path.startswith(_STATE) and not gone:
        tree.state_files.append(path)
