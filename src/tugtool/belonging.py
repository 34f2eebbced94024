"""Whether a directory still is the worktree that git made there, read from git's files alone.

An agent may take its `.git` away, or begin a repository of its own there. From then on git
works on something else in it, and within `.tugtree/` on the main worktree.
"""

from __future__ import annotations

import os

from tugtool import files, repository
from tugtool.errors import Unreadable

#: What is wrong if only that is: it can be put back.
UNMARKED = "it has no .git any more"


def home(common_dir: str, path: str) -> str | None:
    """Git's directory of the worktree at `path`, with or without a `.git` that leads there."""
    place = os.path.join(common_dir, "worktrees")
    told = _led_to(path)
    if told is not None and os.path.dirname(told) == place and _leads_back(told, path):
        return told
    names = sorted(os.listdir(place)) if os.path.isdir(place) else []
    every = (os.path.join(place, name) for name in names)
    return next((each for each in every if _leads_back(each, path)), None)


def is_linked(path: str) -> bool:
    """Whether the `.git` there leads to a directory of git's that leads back."""
    told = _led_to(path)
    return told is not None and _leads_back(told, path)


def trouble(common_dir: str, path: str) -> str | None:
    """Why nothing of git's may be run in a worktree of the repository; None: all is well."""
    if not os.path.isdir(path):
        return "its directory is gone"
    own = home(common_dir, path)
    if own is None or not _has_head(own):
        return "git does not know it as a worktree any more"
    marker = os.path.join(path, ".git")
    if not os.path.lexists(marker):
        return UNMARKED
    if os.path.isdir(marker):
        return "it has a repository of its own in place of its .git"
    return None if _led_to(path) == own else "its .git leads to another repository"


def mend(common_dir: str, path: str) -> None:
    """Put the `.git` back that leads to git's directory of the worktree."""
    own = home(common_dir, path)
    assert own is not None, path
    files.replace(os.path.join(path, ".git"), os.fsencode(f"gitdir: {own}\n"))


def _led_to(path: str) -> str | None:
    try:
        return repository.git_dir(path) if os.path.isfile(os.path.join(path, ".git")) else None
    except Unreadable:
        return None


def _leads_back(own: str, path: str) -> bool:
    line = _line(os.path.join(own, "gitdir"))
    if not line:
        return False
    told = os.path.join(own, line)
    # The name of the file itself is not resolved: it may be anything by now.
    return os.path.realpath(os.path.dirname(told)) == os.path.realpath(path)


def _has_head(own: str) -> bool:
    line = _line(os.path.join(own, "HEAD"))
    return line.startswith("ref: refs/") or (len(line) >= 40 and line.isalnum())


def _line(path: str) -> str:
    try:
        return os.fsdecode(files.read(path)).rstrip("\r\n")
    except Unreadable:
        return ""
