"""What dashes are called, and where they are."""

from __future__ import annotations

import os

from tugtool.dash_errors import BadDashName
from tugtool.state import dashing
from tugtool.worktree import survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.repository import Repository

branch = dashing.branch


def checked(name: str) -> str:
    """The name, or E055 with one that would do."""
    if dashing.is_name(name):
        return name
    most = dashing.LONGEST_NAME
    reason = f"small letters, digits and single hyphens between them, {most} at most"
    raise BadDashName(name, reason=reason, close=_kebab(name))


def bare(word: str) -> str:
    """A dash's name; its branch or the path of its worktree will do."""
    name = word.rstrip("/").rpartition(survey.DASH_DIRECTORIES)[2]
    return name.removeprefix(survey.DASH_BRANCHES)


def path(repo: Repository, name: str) -> str:
    """Where its worktree is: `.tugtree/tugdash__<name>`, absolute."""
    return os.path.join(repo.root, dashing.worktree(name))


def _kebab(name: str) -> str | None:
    kept = "".join(char if char.isascii() and char.isalnum() else " " for char in name[:1000])
    return "-".join(kept.lower().split())[: dashing.LONGEST_NAME].strip("-") or None
