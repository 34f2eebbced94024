"""Is what a branch holds on its base, beyond doubt?

By ancestry, or by content: merging it would change nothing, now or at some commit of the
base since they parted (squashed and rebased work), or each of its commits has an exact twin
there (picked one by one). Whatever cannot be proven has not landed.
"""

from __future__ import annotations

from tugtool import blend, git

#: At how many commits of the base the branch is looked for, newest first.
MOST_COMMITS = 200
#: More paths than this are not worth a filter, nor a command line.
MOST_PATHS = 500

#: Exactly what a commit changes: no renames guessed, no program of the person's own.
_EXACT = ("--no-renames", "--no-ext-diff", "--no-textconv", "--binary", "--full-index")


def has_landed(top: str, tip: str, base: str) -> bool:
    """Whether everything on `tip` is on `base`; both are full hashes."""
    if is_ancestor(top, tip, base):
        return True
    fork = git.attempt("merge-base", base, tip, cwd=top)
    start = fork.out.strip()
    if fork.status or _tree(top, start) == _tree(top, tip):
        # No common history; or commits that together change nothing, and are nowhere else.
        return False
    if any(_adds_nothing(top, tip, commit) for commit in _candidates(top, start, tip, base)):
        return True
    return _has_twins(top, tip, base)


def is_ancestor(top: str, commit: str, of: str) -> bool:
    """Whether `commit` can be reached from `of`."""
    return git.attempt("merge-base", "--is-ancestor", commit, of, cwd=top).status == 0


def ahead_and_behind(top: str, tip: str, base: str) -> tuple[int, int] | None:
    """How many commits `tip` has that `base` has not, and the other way round."""
    done = git.attempt("rev-list", "--left-right", "--count", f"{tip}...{base}", "--", cwd=top)
    if done.status:
        return None
    ahead, behind = done.out.split()
    return int(ahead), int(behind)


def _tree(top: str, commit: str) -> str:
    return git.run("rev-parse", "--verify", f"{commit}^{{tree}}", cwd=top).strip()


def _adds_nothing(top: str, tip: str, commit: str) -> bool:
    return _is_merge_of(top, _tree(top, commit), commit, tip)


def _is_merge_of(top: str, tree: str, ours: str, theirs: str) -> bool:
    done = blend.by_git(top, ours, theirs)
    return done.clean and (done.tree == tree or not blend.differ(top, done.tree, tree))


def _candidates(top: str, start: str, tip: str, base: str) -> list[str]:
    """The base, and its commits since `start` that touch what the branch touches."""
    names = git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", start, tip, cwd=top)
    paths = names.split("\0")[:-1]
    words = ["rev-list", "--first-parent", f"--max-count={MOST_COMMITS}", f"{start}..{base}", "--"]
    if len(paths) <= MOST_PATHS:
        words += paths
    return [base, *git.run("--literal-pathspecs", *words, cwd=top).split()]


def _has_twins(top: str, tip: str, base: str) -> bool:
    """Whether each commit of the branch has one on the base that changes exactly the same."""
    marks = ("--left-right", "--cherry-mark", "--no-merges")
    lines = git.run("rev-list", *marks, f"{base}...{tip}", "--", cwd=top).split()
    # `=` is git's word for equivalent, blanks aside, on either side; `>` is only on ours.
    if any(line.startswith(">") for line in lines):
        return False
    same = {line[1:] for line in lines if line.startswith("=")}
    ours = git.run("rev-list", "--no-merges", f"{base}..{tip}", "--", cwd=top).split()
    there = {_change(top, commit) for commit in same.difference(ours)}
    return (
        bool(ours)
        and all(_change(top, commit) in there for commit in ours)
        and all(_is_plain_merge(top, *line) for line in _merges(top, tip, base))
    )


def _change(top: str, commit: str) -> str:
    """What a commit changes, byte for byte, wherever in its files; blanks count."""
    out = git.run("diff-tree", "-p", "--root", "--no-commit-id", *_EXACT, commit, cwd=top)
    lines = (line for line in out.split("\n") if not line.startswith("index "))
    return "\n".join("@@" if line.startswith("@@ ") else line for line in lines)


def _merges(top: str, tip: str, base: str) -> list[list[str]]:
    out = git.run("rev-list", "--merges", "--parents", f"{base}..{tip}", "--", cwd=top)
    return [line.split() for line in out.splitlines()]


def _is_plain_merge(top: str, commit: str, *parents: str) -> bool:
    """Whether a merge holds nothing of its own: git alone would have made the same."""
    return len(parents) == 2 and _is_merge_of(top, _tree(top, commit), *parents)
