"""Merges without a working tree; checks that a base has the work of a branch."""

from __future__ import annotations

from typing import NamedTuple

from tugtool.git import command as git
from tugtool.git import refs
from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    #: Repairs a tree: from the repository's top, the tree and, if the tree is a merge, its two
    #: sides, to the tree to commit.
    Repair = Callable[..., str]


#: A larger file is not repaired, and stays as git has merged it.
_LONGEST = 1 << 24


class MergeResult(NamedTuple):
    """A merge's tree, or its files in conflict, or git's refusal."""

    tree: str
    files: list[str]
    refusal: str = ""

    @property
    def clean(self) -> bool:
        """True if the tree can be committed as it is."""
        return not self.files and not self.refusal


def commits(top: str, ours: str, theirs: str, repair: Repair | None = None) -> MergeResult:
    """Merge two commits, by git's own rules and the attributes of the working tree."""
    words = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z")
    done = git.attempt(*words, ours, theirs, cwd=top)
    if done.status not in (0, 1):
        return MergeResult("", [], done.said.strip() or "it said nothing")
    tree, *names = [field for field in done.out.split("\0") if field]
    files = sorted(set(names)) if done.status else []
    return MergeResult(tree if files or repair is None else repair(top, tree, ours, theirs), files)


def differ(top: str, merged: str, sides: tuple[str, str], tree: str, repair: Repair) -> bool:
    """True if a merge of two sides and a tree differ in more than the repaired file."""
    names = refs.changed_paths(top, merged, tree)
    return bool(names) and (len(names) > 1 or repair(top, merged, *sides) != repair(top, tree))


def rewritten(
    top: str, tree: str, path: str, change: Callable[..., bytes], sides: Sequence[str] = ()
) -> str:
    """The tree with one file changed; the same tree if it has no such file.

    `change` is given the file, and then the file of each side, up to the first that has none.
    """
    parts = path.split("/")
    names = ["/".join(parts[:depth]) for depth in range(len(parts) + 1)]
    # One process for all objects, because every merge of every worktree uses this.
    asked = [f"{tree}:{name}\n" for name in names] + [f"{side}:{path}\n" for side in sides]
    found = _contents(git.run("cat-file", "--batch", cwd=top, given="".join(asked)))
    if len(found) < len(names) or len(found[len(parts)]) > _LONGEST:
        return tree
    directories, (old, *others) = found[: len(parts)], found[len(parts) :]
    new = change(old, *others)
    if new == old:
        return tree
    name = _written(top, "blob", new)
    for directory, part in zip(reversed(directories), reversed(parts), strict=True):
        name = _written(top, "tree", _replaced(directory, part, bytes.fromhex(name)))
    return name


def _contents(printed: str) -> list[bytes]:
    """The objects that `cat-file --batch` printed, up to the first that is missing."""
    found, rest = [], os.fsencode(printed)
    while rest:
        facts, _, rest = rest.partition(b"\n")
        if facts.endswith(b" missing"):
            break
        size = int(facts.split()[2])
        found.append(rest[:size])
        rest = rest[size + 1 :]
    return found


def _written(top: str, kind: str, data: bytes) -> str:
    words = ("hash-object", "-w", "-t", kind, "--stdin")
    return git.run(*words, cwd=top, given=os.fsdecode(data)).strip()


def _replaced(tree: bytes, name: str, by: bytes) -> bytes:
    """The tree with another object under an existing name."""
    # Each entry: the mode, a blank, the name, NUL, and the object's name in binary.
    at = 0
    while True:
        end = tree.index(b"\0", at) + 1
        if tree[at : end - 1].partition(b" ")[2] == name.encode():
            return tree[:end] + by + tree[end + len(by) :]
        at = end + len(by)


#: The number of commits of the base to search for the branch, newest first.
MOST_COMMITS = 200
#: With more paths than this the log is not filtered by path.
MOST_PATHS = 500

#: For the exact changes of a commit: no guessed renames, no programs of the person.
_EXACT = ("--no-renames", "--no-ext-diff", "--no-textconv", "--binary", "--full-index")


def has_landed(top: str, tip: str, base: str, repair: Repair, log: str) -> bool:
    """True if everything on `tip` is on `base`; both are full hashes.

    `repair` repairs merged trees, as for `commits`. The file `log` does not count, because every
    branch adds its own entries to it.
    """
    start = refs.merge_base(top, base, tip)
    if start in (None, tip):
        return start is not None
    paths = refs.changed_paths(top, str(start), tip)
    work = [path for path in paths if path != log] or paths
    # Without changes there is nothing to find; the base must have touched every file.
    if not work or not _is_touched(top, f"{start}..{base}", work):
        return False
    found = _candidates(top, f"{start}..{base}", base, work)
    return _holds(top, tip, found, repair) or _has_equal_commits(top, tip, base, repair)


def _is_touched(top: str, span: str, paths: list[str]) -> bool:
    """True if commits of the span touch all of the paths."""
    if len(paths) > MOST_PATHS:
        return True
    words = ("log", "--format=", "--name-only", "-z", "--no-renames", "--full-history")
    options = ("--diff-merges=first-parent", span, "--", *paths)
    out = git.run("--literal-pathspecs", *words, *options, cwd=top)
    return set(paths) <= set(out.split("\0"))


def _candidates(top: str, span: str, base: str, paths: list[str]) -> list[tuple[str, str]]:
    """The base, and its commits in the span that touch these paths; each with its tree."""
    words = ["log", "--first-parent", f"--max-count={MOST_COMMITS}", "--format=%H %T", span, "--"]
    if len(paths) <= MOST_PATHS:
        words += paths
    lines = git.run("--literal-pathspecs", *words, cwd=top).splitlines()
    found = dict(line.split(" ") for line in lines)
    return list({base: refs.tree_of(top, base) or "", **found}.items())


def _holds(top: str, tip: str, found: list[tuple[str, str]], repair: Repair) -> bool:
    """True if a merge would not change one of these commits, each with its tree."""
    merged = _merges(top, [(commit, tip) for commit, _ in found])
    clean = [(done, *each) for done, each in zip(merged, found, strict=True) if done.clean]
    if any(done.tree == tree for done, _, tree in clean):
        return True
    return any(
        not differ(top, done.tree, (commit, tip), tree, repair) for done, commit, tree in clean
    )


def _merges(top: str, pairs: list[tuple[str, str]]) -> list[MergeResult]:
    """Merge pairs of commits, by one git."""
    words = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "--stdin")
    done = git.attempt(*words, cwd=top, given="".join(f"{a} {b}\n" for a, b in pairs))
    if done.status:
        # Git 2.38 does not have --stdin, and git stops at a pair that cannot be merged.
        return [commits(top, *pair) for pair in pairs]
    # For each merge: 1 if it is clean, the tree, the files in conflict, and an empty field.
    fields, found = iter(done.out.split("\0")), []
    for _ in pairs:
        clean, tree, names = next(fields) == "1", next(fields), []
        while name := next(fields):
            names.append(name)
        found.append(MergeResult(tree, [] if clean else names or [tree]))
    return found


def _is_merge_of(top: str, commit: str, ours: str, theirs: str, *, repair: Repair) -> bool:
    """True if a commit equals the merge of two others."""
    done, tree = commits(top, ours, theirs), refs.tree_of(top, commit)
    if not done.clean or tree is None:
        return False
    return done.tree == tree or not differ(top, done.tree, (ours, theirs), tree, repair)


def _has_equal_commits(top: str, tip: str, base: str, repair: Repair) -> bool:
    """True if each commit of the branch has one on the base with exactly the same changes."""
    marks = ("--left-right", "--cherry-mark", "--no-merges")
    lines = git.run("rev-list", *marks, f"{base}...{tip}", "--", cwd=top).split()
    # Git marks commits that are equal except for blanks with `=`, and those only on ours with `>`.
    if any(line.startswith(">") for line in lines):
        return False
    same = {line[1:] for line in lines if line.startswith("=")}
    ours = git.run("rev-list", "--no-merges", f"{base}..{tip}", "--", cwd=top).split()
    there = {_change(top, commit) for commit in same.difference(ours)}
    if not ours or any(_change(top, commit) not in there for commit in ours):
        return False
    # A merge has no changes of its own if git makes the same from its parents.
    merges = git.run("rev-list", "--merges", "--parents", f"{base}..{tip}", "--", cwd=top)
    return all(
        len(commits) == 3 and _is_merge_of(top, *commits, repair=repair)
        for commits in map(str.split, merges.splitlines())
    )


def _change(top: str, commit: str) -> str:
    """The changes of a commit, byte for byte, without line numbers; blanks count."""
    out = git.run("diff-tree", "-p", "--root", "--no-commit-id", *_EXACT, commit, cwd=top)
    lines = (line for line in out.split("\n") if not line.startswith("index "))
    return "\n".join("@@" if line.startswith("@@ ") else line for line in lines)
