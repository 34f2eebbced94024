"""What branches and directories of worktrees are called."""

from __future__ import annotations

from tugtool.worktree.survey import BRANCHES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_DIRECTORIES = "tugplan__"
#: With date, number and what git appends to lock files it stays below 255 bytes.
LONGEST_BYTES = 100


def free(slug: str, *, date: str, taken: Collection[str]) -> str:
    """`tugplan/<slug>-<date>`, with -2, -3 where that is taken; case counts for nothing."""
    first = name = f"{BRANCHES}{safe(slug)}-{date.replace('-', '')}"
    folded = {each.casefold() for each in taken}
    number = 1
    while name.casefold() in folded:
        number += 1
        name = f"{first}-{number}"
    return name


def directory_of(branch: str) -> str:
    """`tugplan__<slug>-<date>`."""
    return _DIRECTORIES + branch.removeprefix(BRANCHES)


def branches_of(directories: Iterable[str]) -> list[str]:
    """The branches that such directories belong to."""
    return [
        BRANCHES + name.removeprefix(_DIRECTORIES)
        for name in directories
        if name.startswith(_DIRECTORIES)
    ]


def safe(slug: str) -> str:
    """The slug as git takes it in a ref, and any file system in a name."""
    kept = "".join(char if _is_kept(char) else "-" for char in slug)
    while "--" in kept or ".." in kept:
        kept = kept.replace("--", "-").replace("..", ".")
    cut = kept.encode()[:LONGEST_BYTES].decode(errors="ignore")
    # No part of a ref begins with a dot or looks like an option, or ends in a dot or .lock.
    while cut != (short := cut.strip(".-").removesuffix(".lock")):
        cut = short
    return cut or "plan"


def _is_kept(char: str) -> bool:
    return (char.isalnum() and char.isprintable()) or char in "._-"
