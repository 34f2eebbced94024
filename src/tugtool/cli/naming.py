"""How people call things: whose worktree it is."""

from __future__ import annotations

import os


def short_name(worktree: str, root: str) -> str:
    """A worktree as people call it: by its name where it has its usual place."""
    if not os.path.isabs(worktree):
        return worktree  # a person, or a name from elsewhere
    if worktree == root:
        return "the main worktree"
    if os.path.dirname(worktree) == os.path.join(root, ".tugtree"):
        return os.path.basename(worktree)
    near = os.path.relpath(worktree, root) if root else worktree
    return worktree if near.startswith("../..") else near


def shortened(text: str, root: str) -> str:
    """A sentence with the worktrees of this repository as people call them."""
    return text.replace(f"{root}/.tugtree/", "").replace(f"{root}/", "")
