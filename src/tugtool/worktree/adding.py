"""A branch and a directory for it, made by git and looked at afterwards."""

from __future__ import annotations

import os

from tugtool import git, repository
from tugtool.git_errors import NotMade
from tugtool.worktree import survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tugtool.repository import Repository


def branch(repo: Repository, name: str, start: str, *, said: str) -> None:
    """Make the branch at the commit, if there is none of that name."""
    # The empty last word: only if there is no such branch.
    words = ("update-ref", "-m", said, f"refs/heads/{name}", start, "")
    git.patiently(*words, cwd=repo.root)


def branches(repo: Repository, names: Sequence[str], start: str, *, said: str) -> None:
    """Make all of the branches at the commit, or none if one of them is there."""
    given = "".join(f"create refs/heads/{name}\0{start}\0" for name in names)
    git.patiently("update-ref", "-m", said, "-z", "--stdin", cwd=repo.root, given=given)


def directory(repo: Repository, path: str, branch: str) -> None:
    """Make the worktree for the branch."""
    # It may outlive us, and would go on making what the next one takes away.
    note = survey.at_work(repo)
    words = ("worktree", "add", "--quiet", path, branch)
    git.patiently(*words, cwd=repo.root, started=note.write)
    note.drop()


def verify(repo: Repository, path: str, branch: str, start: str) -> None:
    """What git made is what was asked for: a half-made one acts on the repository around."""
    asked = ("rev-parse", "--show-toplevel", "HEAD", "--symbolic-full-name", "HEAD")
    # Refused where it has no .git at all.
    found = git.attempt(*asked, cwd=path).out
    marked = os.path.isfile(os.path.join(path, ".git"))
    if not marked or not found.startswith(f"{path}\n{start}\n"):
        raise NotMade(path, reason="git made something else than a worktree there")
    on = found.splitlines()[-1]
    if on != f"refs/heads/{branch}":
        raise NotMade(path, reason=f"it is on {on}")
    # Refused where the way back is not to be found: no command would work there.
    if repository.containing(path).root != repo.root:
        raise NotMade(path, reason="it leads to another main worktree")
    # Changed is what some repositories are from the start, by their line endings.
    gone = [entry[3:] for entry in survey.changes(path) if "D" in entry[:2]]
    if gone:
        raise NotMade(path, reason=f"files are missing from it, such as {gone[0]}")
