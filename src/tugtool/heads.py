"""Which commit a worktree stands on, read from git's files: whoever only looks starts no git."""

from __future__ import annotations

import os

from tugtool import files, git, repository
from tugtool.errors import NoRepository, TugError, Unreadable

#: As git: a ref may name another ref, but not for ever.
_LONGEST_CHAIN = 5
_MOST_BYTES = 1 << 26


def commit_of(worktree: str) -> str | None:
    """The full hash; None before the first commit, and where nobody can tell."""
    if not os.path.isabs(worktree) or not os.path.lexists(os.path.join(worktree, ".git")):
        return None
    try:
        found = repository.containing(worktree)
        if found.worktree != os.path.realpath(worktree):
            return None
        return _Refs(repository.git_dir(worktree), found.common_dir).commit()
    except (NoRepository, Unreadable):
        return _ask(worktree)


def read(git_dir: str, common_dir: str) -> tuple[str | None, str | None]:
    """The branch that HEAD names (None if it is on none), and its commit.

    For whoever knows where git's files are; `Unreadable` if they do not tell.
    """
    refs = _Refs(git_dir, common_dir)
    return refs.branch(), refs.commit()


def branch_of(worktree: str) -> str | None:
    """The branch that is checked out there; None where HEAD is detached."""
    try:
        return _Refs(repository.git_dir(worktree), "").branch()
    except Unreadable:
        done = git.attempt("symbolic-ref", "--quiet", "HEAD", cwd=worktree)
        return None if done.status else _branch(done.out.removesuffix("\n"))


def _branch(ref: str) -> str:
    return ref.removeprefix("refs/heads/")


class _Refs:
    """The refs of one worktree."""

    def __init__(self, own: str, shared: str) -> None:
        self.own, self.shared = own, shared

    def branch(self) -> str | None:
        line = self._loose("HEAD") or ""
        if line == "ref: refs/heads/.invalid":
            raise Unreadable(self.own, "keeps its refs in a form that only git reads")
        return _branch(line.removeprefix("ref:").strip()) if line.startswith("ref:") else None

    def commit(self) -> str | None:
        if os.path.isdir(os.path.join(self.shared, "reftable")):
            raise Unreadable(self.shared, "keeps its refs in a form that only git reads")
        text = self._loose("HEAD")
        for _ in range(_LONGEST_CHAIN):
            if text is None or not text.startswith("ref:"):
                return text
            text = self._ref(text.removeprefix("ref:").strip())
        return None

    def _ref(self, name: str) -> str | None:
        return self._loose(name) or self._packed(name)

    def _loose(self, name: str) -> str | None:
        # Some refs are a worktree's own, and stand before those that all share.
        for home in (self.own, self.shared):
            path = os.path.join(home, name)
            if os.path.isfile(path):
                return os.fsdecode(files.read(path)).strip()
        return None

    def _packed(self, name: str) -> str | None:
        path = os.path.join(self.shared, "packed-refs")
        if not os.path.isfile(path):
            return None
        ending = b" " + os.fsencode(name)
        lines = files.read(path, max_bytes=_MOST_BYTES).split(b"\n")
        found = (line for line in lines if line.endswith(ending) and not line.startswith(b"#"))
        return next((os.fsdecode(line.split(b" ", 1)[0]) for line in found), None)


def _ask(worktree: str) -> str | None:
    try:
        done = git.attempt("rev-parse", "--verify", "--quiet", "HEAD^{commit}", cwd=worktree)
    except TugError:
        return None
    return None if done.status else done.out.strip()
