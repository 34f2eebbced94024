"""Two commits put together in git's objects alone: no branch, no index, no file is touched."""

from __future__ import annotations

import os

from tugtool import git, log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: A log beyond this is nobody's to read, and stays as git has merged it.
_LONGEST_LOG = 1 << 24


class Blend:
    """What came of it: a tree, or the files in conflict, or what git said against it."""

    __slots__ = ("files", "refusal", "tree")

    def __init__(self, tree: str = "", files: Sequence[str] = (), refusal: str = "") -> None:
        self.tree = tree
        self.files = list(files)
        self.refusal = refusal

    @property
    def clean(self) -> bool:
        """Whether the tree can be committed as it is."""
        return not self.files and not self.refusal


def commits(top: str, ours: str, theirs: str) -> Blend:
    """Merge two commits, by git's own rules and the attributes of the working tree.

    The log tells nothing twice.
    """
    done = by_git(top, ours, theirs)
    return Blend(told_once(top, done.tree)) if done.clean else done


def by_git(top: str, ours: str, theirs: str) -> Blend:
    """The same, exactly as git has it."""
    words = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z")
    done = git.attempt(*words, ours, theirs, cwd=top)
    if done.status not in (0, 1):
        return Blend(refusal=done.said.strip() or "it said nothing")
    tree, *names = [field for field in done.out.split("\0") if field]
    return Blend(tree, sorted(set(names)) if done.status else ())


def told_once(top: str, tree: str) -> str:
    """The tree, with a log that tells nothing twice.

    The log's union merge keeps the lines of both sides, and where branches had taken each
    other in, both sides have the same ones in another order.
    """
    found = git.attempt("ls-tree", "-l", tree, "--", f":(top){log.PATH}", cwd=top).out.split()
    if len(found) != 5 or not found[3].isdecimal() or int(found[3]) > _LONGEST_LOG:
        return tree
    mode, _, blob = found[:3]
    old = git.run("cat-file", "blob", blob, cwd=top)
    new = os.fsdecode(log.told_once(os.fsencode(old)))
    if new == old:
        return tree
    fresh = git.run("hash-object", "-w", "--no-filters", "--stdin", cwd=top, given=new).strip()
    return _with(top, tree, f"{mode},{fresh},{log.PATH}")


def differ(top: str, one: str, other: str) -> bool:
    """Whether two trees are more than one log apart that was merged in two ways."""
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames")
    names = git.run(*words, one, other, cwd=top).split("\0")[:-1]
    return bool(names) and (names != [log.PATH] or told_once(top, one) != told_once(top, other))


def _with(top: str, tree: str, entry: str) -> str:
    """The tree with one entry replaced, by way of an index that nobody else uses."""
    home = git.run("rev-parse", "--absolute-git-dir", cwd=top).removesuffix("\n")
    index = os.path.join(home, f"index.tug-{os.urandom(6).hex()}")
    try:
        git.run("read-tree", tree, cwd=top, index=index)
        git.run("update-index", "--cacheinfo", entry, cwd=top, index=index)
        return git.run("write-tree", cwd=top, index=index).strip()
    finally:
        if os.path.lexists(index):
            os.unlink(index)
