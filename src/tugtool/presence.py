"""Where a plan's file still is: in a worktree, or on a branch."""

from __future__ import annotations

import os

from tugtool import files, git
from tugtool.errors import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tugtool.repository import Repository

#: Paths per call of git: well below what a command line may hold.
AT_ONCE = 200


def where(repo: Repository, keys: Iterable[str]) -> dict[str, str]:
    """Key -> where its file is, in words; a key that is nowhere has no entry."""
    found: dict[str, str] = {}
    missing = []
    tops = worktrees(repo)
    for key in keys:
        home = next((top for top in tops if os.path.lexists(os.path.join(top, key))), None)
        if home is None:
            missing.append(key)
        else:
            found[key] = f"its file is in {home}"
    return found | (_on_branches(repo, missing) if missing else {})


def worktrees(repo: Repository) -> list[str]:
    """The top directories of all worktrees, as git's own files name them."""
    # Not `git worktree list`: only newer ones can separate names by NUL.
    tops = {repo.root: None, repo.worktree: None}
    home = os.path.join(repo.common_dir, "worktrees")
    for name in sorted(os.listdir(home)) if os.path.isdir(home) else []:
        pointer = os.path.join(home, name, "gitdir")
        try:
            marker = os.fsdecode(files.read(pointer)).rstrip("\r\n")
        except Unreadable:
            continue  # half-made or half-removed: nobody works there
        tops[os.path.dirname(os.path.join(home, name, marker))] = None
    return list(tops)


def _on_branches(repo: Repository, keys: Sequence[str]) -> dict[str, str]:
    # A ref's name holds no blank. Many branches end in the same tree: ask once for each.
    listed = git.run(
        "for-each-ref", "--format=%(tree) %(refname)", "refs/heads", "refs/remotes", cwd=repo.root
    )
    trees: dict[str, str] = {}
    for line in listed.splitlines():
        tree, _, name = line.partition(" ")
        trees.setdefault(tree or name, name)
    found: dict[str, str] = {}
    for tree, name in trees.items():
        missing = [key for key in keys if key not in found]
        for start in range(0, len(missing), AT_ONCE):
            for key in _in_tree(repo, tree, missing[start : start + AT_ONCE]):
                found[key] = f"its file is on {name}"
    return found


def _in_tree(repo: Repository, tree: str, keys: Sequence[str]) -> list[str]:
    # Not `cat-file --batch-check`: it reads one name per line, and a name may hold a newline.
    # Literal: a name may look like a pattern, or begin with a colon.
    listed = git.run(
        "--literal-pathspecs",
        "ls-tree",
        "-z",
        "--name-only",
        "--full-tree",
        tree,
        "--",
        *keys,
        cwd=repo.root,
    )
    return [name for name in listed.split("\0") if name]
