"""Work that nobody has committed, kept under a ref of its own."""

from __future__ import annotations

import os

from tugtool import files, git
from tugtool.errors import TugError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIX = "refs/tug/salvage"
#: The commit is ours and not the person's, and must not fail for want of a name.
_AUTHOR = ("-c", "user.name=Tugtool", "-c", "user.email=tugtool@localhost")


class Unsalvageable(Exception):
    """Something in a working tree that no commit can hold."""


def save(worktree: str, *, ref: str, also: Sequence[str | None] = ()) -> str:
    """Keep the whole worktree, ignored files aside, as one commit; its hash.

    HEAD is the commit's parent, and so are the commits of `also`. The worktree and its index
    stay as they are.
    """
    head = git.run("rev-parse", "--verify", "HEAD^{commit}", cwd=worktree).strip()
    tree = _tree(worktree)
    parents = dict.fromkeys(commit for commit in (head, *also) if commit is not None)
    words = [word for parent in parents for word in ("-p", parent)]
    message = f"Salvaged from {os.path.basename(worktree)}\n"
    commit = git.run(*_AUTHOR, "commit-tree", tree, *words, cwd=worktree, given=message).strip()
    keep(worktree, ref=ref, commit=commit)
    return commit


def keep(top: str, *, ref: str, commit: str) -> None:
    """Let the ref name the commit; an older one is never written over."""
    git.patiently("update-ref", "-m", "tugcode: salvage", ref, commit, "", cwd=top)


def ref_for(slug: str, name: str, now: str, *, top: str) -> str:
    """A ref that is free: refs/tug/salvage/<plan slug>/<time>-<name>."""
    time = now.replace("-", "").replace(":", "").replace(".", "")
    first = ref = f"{PREFIX}/{slug}/{time}-{name}"
    number = 1
    while git.attempt("show-ref", "--verify", "--quiet", ref, cwd=top).status == 0:
        number += 1
        ref = f"{first}-{number}"
    return ref


def saved_tree(top: str, ref: str) -> str | None:
    """The tree that was saved under a ref, if there is one."""
    done = git.attempt("rev-parse", "--verify", "--quiet", f"{ref}^{{tree}}", cwd=top)
    return None if done.status else done.out.strip()


def tree_of(worktree: str) -> str:
    """The tree that `save` would keep."""
    return _tree(worktree)


def _tree(worktree: str) -> str:
    where = git.run("rev-parse", "--git-path", "index", cwd=worktree).removesuffix("\n")
    index = os.path.join(worktree, where)
    copy = f"{index}.tug-{os.urandom(6).hex()}"
    try:
        if os.path.exists(index):
            # Sparse paths and what is known about unchanged files come along.
            files.replace(copy, files.read(index, max_bytes=1 << 32))
        git.run("add", "--all", cwd=worktree, index=copy)
        _refuse_nested(worktree, copy)
        return git.run("write-tree", cwd=worktree, index=copy).strip()
    except TugError as error:
        raise Unsalvageable(error.message) from error
    finally:
        if os.path.lexists(copy):
            os.unlink(copy)


def _refuse_nested(worktree: str, index: str) -> None:
    """A repository inside would be kept as a bare number, and its work would be lost."""
    out = git.run("diff-index", "--cached", "-z", "--no-renames", "HEAD", cwd=worktree, index=index)
    fields = out.split("\0")
    # :<old mode> <new mode> <old> <new> <status>, then the path.
    pairs = zip(fields[::2], fields[1::2], strict=False)
    nested = [path for facts, path in pairs if facts.split()[1] == "160000"]
    if nested:
        raise Unsalvageable(f"{nested[0]} is a repository of its own, which no commit can hold")
