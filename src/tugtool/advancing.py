"""A worktree goes forward to a commit: all of it, or as if nothing had been tried.

What a git that was killed on the way has left is told from what a person did since.
"""

from __future__ import annotations

import os

from tugtool import git
from tugtool.errors import listing
from tugtool.index import Index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Point = Callable[[], None]

#: Whatever is set for merges (squash, no-commit, stash), this one is a step forward.
_PLAIN = ("--ff-only", "--no-squash", "--commit", "--no-autostash", "--no-stat", "--quiet")
#: Tidying the repository up is for the commits that people and we make: not for each move.
_UNTIDIED = ("-c", "maintenance.auto=false", "-c", "gc.auto=0")
#: Names alone, and of files alone: what is inside submodules is not ours.
_NAMES = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=all")


class Stuck(Exception):
    """What git left cannot be told from what a person did since."""

    def __init__(self, files: list[str]) -> None:
        super().__init__(files)
        self.files = files


def _index(git_dir: str) -> Index:
    return Index(git_dir, "tugtool-advance")


def left_off(top: str, git_dir: str) -> Advance | None:
    """The way that somebody is on, or was when they died; None where nobody is."""
    about = _index(git_dir).about()
    return Advance(top, git_dir, about["head"], about["result"]) if "result" in about else None


class Advance:
    """From one commit to another that has it behind it; the caller has written that down."""

    def __init__(self, top: str, git_dir: str, head: str, result: str) -> None:
        self.root, self.head, self.result = top, head, result
        self._index = _index(git_dir)

    def run(self, *, locked: Point, advanced: Point, seconds: float = 0) -> git.Done:
        """Go; if git does not let us, everything is as it was, and it has said why.

        The points are reached when the index is locked, and when git has done its part; for
        a lock of another git it waits so many seconds.
        """
        if not self._locked(seconds):
            return git.Done(128, "", self._index.locked_by())
        locked()
        self._index.copy()
        done = self._index.run(*_UNTIDIED, "merge", *_PLAIN, self.result, cwd=self.root)
        advanced()
        if done.status:
            done = self._stepped_back(done)
        else:
            self._index.install()
        self._index.end()
        return done

    def _locked(self, seconds: float) -> bool:
        from tugtool import clock

        about = {"head": self.head, "result": self.result}
        return any(self._index.lock(**about) for _ in clock.tries(seconds))

    def _stepped_back(self, done: git.Done) -> git.Done:
        """Git changes the files before it moves the branch, and a hook may forbid the latter."""
        try:
            self._roll_back()
        except Stuck as stuck:
            # A person works there this very moment; theirs is not ours to undo.
            said = f"{done.said.strip()}; changed meanwhile: {listing(stuck.files)}"
            return git.Done(done.status, done.out, said)
        return done

    def busy(self) -> int | None:
        """The process that is on the way just now."""
        return self._index.busy()

    def finish(self) -> None:
        """Bring what somebody left to its end, or back; Stuck if that is not safe."""
        if not self._index.is_left():
            raise Stuck([f"{self._index.path}.lock"])
        words = ("merge-base", "--is-ancestor", self.result, "HEAD")
        if git.attempt(*words, cwd=self.root).status == 0:
            self._index.install()
        else:
            self._roll_back()
        self._index.end()

    def _roll_back(self) -> None:
        """Make the files what the index says, if all that differs is git's doing."""
        added = self._listed("diff-tree", "-r", *_NAMES, "--diff-filter=A", self.head, self.result)
        touched = set(self._listed("diff-tree", "-r", *_NAMES, self.head, self.result))
        # What git was not to change is a person's own, and stays as it is.
        changed = touched.intersection(self._listed("diff", *_NAMES))
        new = [name for name in added if os.path.lexists(self._path(name))]
        strange = [name for name in self._neither({*changed, *new}) if not self._is_part(name)]
        if strange:
            raise Stuck(sorted(strange))
        for name in new:
            self._delete(name)
        given = "".join(f"{name}\0" for name in sorted(changed))
        git.run("checkout-index", "--force", "-z", "--stdin", cwd=self.root, given=given)

    def _neither(self, names: Iterable[str]) -> list[str]:
        """Those that are not what they are in the result either."""
        self._index.copy()
        # -i: the files are not looked at, nor changed.
        git.run("read-tree", "-i", "-m", self.result, cwd=self.root, index=self._index.own)
        other = set(self._listed("diff", *_NAMES, index=self._index.own))
        return [name for name in names if name in other]

    def _is_part(self, name: str) -> bool:
        """Whether a file is as far as git got with it: not there, or the beginning of it."""
        path = self._path(name)
        if not os.path.lexists(path) or (os.path.isdir(path) and not os.path.islink(path)):
            return True
        if os.path.islink(path) or not os.path.isfile(path):
            return False
        blob = git.attempt("cat-file", "--filters", f"{self.result}:{name}", cwd=self.root)
        with open(path, "rb") as file:
            return not blob.status and os.fsencode(blob.out).startswith(file.read())

    def _delete(self, name: str) -> None:
        path = self._path(name)
        if os.path.isdir(path) and not os.path.islink(path):
            return
        os.unlink(path)
        above = os.path.dirname(path)
        while above != self.root and not os.listdir(above):
            os.rmdir(above)
            above = os.path.dirname(above)

    def _path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def _listed(self, *words: str, index: str | None = None) -> list[str]:
        out = git.run(*words, cwd=self.root, index=index)
        return [name for name in out.split("\0") if name]
