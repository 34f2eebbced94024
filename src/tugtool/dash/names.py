"""What dashes, their branches and their directories are called."""

from __future__ import annotations

import os

from tugtool.dash_errors import BadDashName
from tugtool.worktree import survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.repository import Repository

#: Long enough to say what it is about, short enough for a line of `git branch`.
LONGEST = 50


def checked(name: str) -> str:
    """The name, or E055 with one that would do."""
    if _is_kebab(name) and len(name) <= LONGEST:
        return name
    reason = "small letters, digits and single hyphens between them, 50 at most"
    close = _kebab(name)
    raise BadDashName(name, reason=reason, close=close if close != name else None)


def bare(word: str) -> str:
    """A dash's name; its branch or its directory will do."""
    last = word.rstrip("/").rpartition("/")[2] if word.startswith(("/", ".")) else word
    return last.removeprefix(survey.DASH_BRANCHES).removeprefix(survey.DASH_DIRECTORIES)


def branch(name: str) -> str:
    """`tugdash/<name>`."""
    return survey.DASH_BRANCHES + name


def path(repo: Repository, name: str) -> str:
    """Where its worktree is: `.tugtree/tugdash__<name>`, absolute."""
    return os.path.join(repo.root, relative(name))


def relative(name: str) -> str:
    """The same from the repository's root; what is recorded, wherever that may move."""
    return f"{survey.DIRECTORY}/{survey.DASH_DIRECTORIES}{name}"


def _is_kebab(name: str) -> bool:
    parts = name.split("-")
    return all(part.isascii() and part.isalnum() and part == part.lower() for part in parts)


def _kebab(name: str) -> str | None:
    kept = "".join(char if char.isascii() and char.isalnum() else " " for char in name[:1000])
    return "-".join(kept.lower().split())[:LONGEST].strip("-") or None
