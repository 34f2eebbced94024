"""Two commits put together in git's objects alone: no branch, no index, no file is touched."""

from __future__ import annotations

import os

from tugtool import git, log, objects

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
    # Two processes, and not one for each object: every merge of every worktree comes by here.
    asked = "".join(f"{tree}{path}\n" for path in ("", f":{log.DIRECTORY}", f":{log.PATH}"))
    found = _contents(git.run("cat-file", "--batch", cwd=top, given=asked))
    if len(found) < 3 or len(found[2]) > _LONGEST_LOG:
        return tree
    root, directory, old = found
    new = log.told_once(old)
    return tree if new == old else _with(top, tree, root, directory, new)


def differ(top: str, one: str, other: str) -> bool:
    """Whether two trees are more than one log apart that was merged in two ways."""
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames")
    names = git.run(*words, one, other, cwd=top).split("\0")[:-1]
    return bool(names) and (names != [log.PATH] or told_once(top, one) != told_once(top, other))


def _contents(printed: str) -> list[bytes]:
    """What `cat-file --batch` says of each object, up to the first that is not there."""
    found, rest = [], os.fsencode(printed)
    while rest:
        facts, _, rest = rest.partition(b"\n")
        if facts.endswith(b" missing"):
            break
        size = int(facts.split()[2])
        found.append(rest[:size])
        rest = rest[size + 1 :]
    return found


def _with(top: str, tree: str, root: bytes, directory: bytes, text: bytes) -> str:
    """The tree with that log in place of its own."""
    length = len(tree) // 2
    blob = objects.Object("blob", text, length)
    name = os.path.basename(log.PATH)
    inner = objects.Object("tree", objects.replaced(directory, name, blob), length)
    outer = objects.Object("tree", objects.replaced(root, log.DIRECTORY, inner), length)
    pack = objects.packed((blob, inner, outer))
    git.run("unpack-objects", "-q", cwd=top, given=os.fsdecode(pack))
    return outer.name.hex()
