"""Submodules of a linked worktree: their repositories go with it, so they are looked at."""

from __future__ import annotations

import os

from tugtool import git


def any_in(path: str) -> bool:
    """Whether submodules have been filled there."""
    return bool(filled(path))


def work(path: str) -> list[str]:
    """What would be lost with them: whatever is on none of their remote branches."""
    found = []
    for name in filled(path):
        top = os.path.join(path, name)
        changed = git.run("status", "--porcelain", "-z", "--untracked-files=all", cwd=top)
        # A stash is a ref too.
        alone = git.run("rev-list", "--all", "HEAD", "--not", "--remotes", "--", cwd=top)
        if changed or alone:
            found.append(f"its submodule {name} holds work that is on no remote branch of it")
    return found


def filled(path: str) -> list[str]:
    """Their names: those that have a repository there."""
    out = git.run("ls-files", "--stage", "-z", cwd=path)
    # <mode> <object> <stage>TAB<path>; a submodule's mode is its own.
    names = [line.partition("\t")[2] for line in out.split("\0") if line.startswith("160000 ")]
    return [name for name in names if os.path.lexists(os.path.join(path, name, ".git"))]
