"""Moves a worktree forward to a prepared commit, or leaves it as it was."""

from __future__ import annotations

from tugtool.errors import listing, quoted
from tugtool.git import command as git
from tugtool.git import refs, status
from tugtool.git.index import Index
from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from tugtool.git import Repository


#: These options override a person's settings for merges (squash, no-commit, stash).
_PLAIN = ("--ff-only", "--no-squash", "--commit", "--no-autostash", "--no-stat", "--quiet")
#: Commits trigger git's maintenance; a move need not.
_NO_MAINTENANCE = ("-c", "maintenance.auto=false", "-c", "gc.auto=0")
#: The name of our own index.
_OWN = "tugtool-advance"
#: Only the names of files; the content of submodules is not ours.
_NAMES = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=all")


class Stuck(Exception):
    """Files changed since git was stopped, so an undo could lose a person's work."""

    def __init__(self, files: list[str]) -> None:
        super().__init__(files)
        self.files = files


def left_off(top: str, git_dir: str) -> Advance | None:
    """The move that a process is making, or was making when it died; None if there is none."""
    about = Index(git_dir, _OWN).about()
    return Advance(top, git_dir, about["head"], about["result"]) if "result" in about else None


class Advance:
    """The move from one commit to a descendant; the caller has recorded it."""

    def __init__(self, top: str, git_dir: str, head: str, result: str) -> None:
        self.root, self.head, self.result = top, head, result
        self._index = Index(git_dir, _OWN)

    def run(self, *, command: str, seconds: float = 0) -> git.Done:
        """Move; if git refuses, undo everything and return its message.

        The command's crash points are after the lock of the index, and after git's merge. It
        waits so many seconds for the lock of another git.
        """
        from tugtool.system import clock, crash

        about = {"head": self.head, "result": self.result}
        if not any(self._index.lock(**about) for _ in clock.tries(seconds)):
            return git.Done(128, "", self._index.locked_by())
        crash.point(f"{command}.locked")
        self._index.copy()
        done = self._index.run(*_NO_MAINTENANCE, "merge", *_PLAIN, self.result, cwd=self.root)
        crash.point(f"{command}.advanced")
        if done.status:
            done = self._undo(done)
        else:
            self._index.install()
        self._index.end()
        return done

    def _undo(self, done: git.Done) -> git.Done:
        """Undo a refused move: git changes the files before a hook can forbid the move."""
        try:
            self._roll_back()
        except Stuck as stuck:
            # A person works there at the same time; do not undo their work.
            said = f"{done.said.strip()}; changed meanwhile: {listing(stuck.files)}"
            return git.Done(done.status, done.out, said)
        return done

    def busy(self) -> int | None:
        """The process that is making the move, if one is."""
        return self._index.busy()

    def finish(self) -> None:
        """Finish or undo the move of a dead process; Stuck if that is not safe."""
        if not self._index.is_left():
            raise Stuck([f"{self._index.path}.lock"])
        if refs.is_ancestor(self.root, self.result, "HEAD"):
            self._index.install()
        else:
            self._roll_back()
        self._index.end()

    def _roll_back(self) -> None:
        """Restore the files from the index, if only git has changed them."""
        added = self._listed("diff-tree", "-r", *_NAMES, "--diff-filter=A", self.head, self.result)
        touched = set(self._listed("diff-tree", "-r", *_NAMES, self.head, self.result))
        # Files outside the move are a person's own, and stay.
        changed = touched.intersection(self._listed("diff", *_NAMES))
        new = [name for name in added if os.path.lexists(self._path(name))]
        strange = [name for name in self._not_result({*changed, *new}) if not self._is_part(name)]
        if strange:
            raise Stuck(sorted(strange))
        for name in new:
            self._delete(self._path(name))
        given = "".join(f"{name}\0" for name in sorted(changed))
        git.run("checkout-index", "--force", "-z", "--stdin", cwd=self.root, given=given)

    def _not_result(self, names: Iterable[str]) -> list[str]:
        """The files that differ from the result too."""
        self._index.copy()
        # -i: git neither reads nor changes the files.
        git.run("read-tree", "-i", "-m", self.result, cwd=self.root, index=self._index.own)
        other = set(self._listed("diff", *_NAMES, index=self._index.own))
        return [name for name in names if name in other]

    def _is_part(self, name: str) -> bool:
        """True if git was stopped while it wrote the file: it is missing, or cut off."""
        path = self._path(name)
        if not os.path.lexists(path) or (os.path.isdir(path) and not os.path.islink(path)):
            return True
        if os.path.islink(path) or not os.path.isfile(path):
            return False
        blob = git.attempt("cat-file", "--filters", f"{self.result}:{name}", cwd=self.root)
        with open(path, "rb") as file:
            return not blob.status and os.fsencode(blob.out).startswith(file.read())

    def _delete(self, path: str) -> None:
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


class Blocked(Exception):
    """The reason why the main worktree cannot move, and a command that shows more."""

    def __init__(self, reason: str, hint: str, **facts: object) -> None:
        super().__init__(reason)
        self.reason, self.hint, self.facts = reason, hint, facts


def refuse_other_branch(repo: Repository, base: str) -> None:
    """Refuse if the base branch is not checked out: only that one can be moved."""
    found = refs.current_branch(repo.root)
    if found != base:
        what = found or "no branch"
        reason = f"it goes to {base}, and the main worktree is on {what}"
        raise Blocked(reason, f"git checkout {quoted(base)}")


def refuse_unclean(repo: Repository) -> None:
    """Refuse if something is under way or uncommitted in the main worktree."""
    what = status.under_way(repo.common_dir)
    # Between two picks of a sequence the worktree is clean.
    if what not in (None, status.SEQUENCE):
        raise Blocked(f"a {what} is under way in the main worktree", "git status")
    # Untracked files do not matter, unless they are in the way.
    words = ("status", "--porcelain", "-z", "--untracked-files=no", "--no-renames")
    changed = [entry[3:] for entry in git.run(*words, cwd=repo.root).split("\0") if entry]
    if changed:
        reason = f"the main worktree has uncommitted changes: {listing(changed)}"
        raise Blocked(reason, "git status", files=changed)


def refuse_overwriting(repo: Repository, head: str, result: str) -> None:
    """Refuse if the move would replace untracked files; git would overwrite ignored ones."""
    added = refs.changed_paths(repo.root, head, result, only_added=True)
    places = {place: None for name in added for place in _blockers(repo.root, name)}
    if not places:
        return
    literal = ("--literal-pathspecs", "ls-files", "--others", "-z", "--")
    found = [name for name in git.run(*literal, *places, cwd=repo.root).split("\0") if name]
    if found:
        reason = f"untracked files are in the way: {listing(found)}"
        raise Blocked(reason, "git status --ignored", files=found)


def _blockers(root: str, name: str) -> list[str]:
    """The file, or the directory above it, that is in the way of a new file."""
    parts = name.split("/")
    for depth in range(1, len(parts)):
        above = "/".join(parts[:depth])
        path = os.path.join(root, above)
        if os.path.islink(path) or (os.path.lexists(path) and not os.path.isdir(path)):
            return [above]
    return [name] if os.path.lexists(os.path.join(root, name)) else []


def recover(repo: Repository, *, only_look: str | None = None) -> None:
    """Finish or undo the move of a stopped git in the main worktree.

    A read-only command is refused instead; `only_look` is the hint for it.
    """
    advance = left_off(repo.root, repo.common_dir)
    if advance is None:
        return
    pid = advance.busy()
    if pid is not None:
        raise Blocked(f"a merge is under way, process {pid}", "git status", pid=pid)
    if only_look is not None:
        reason = "a merge was stopped while it changed files; the next one puts them right"
        raise Blocked(reason, only_look)
    try:
        advance.finish()
    except Stuck as stuck:
        names = listing(stuck.files)
        reason = f"a merge was stopped while it changed files, and others changed since: {names}"
        raise Blocked(reason, "git status", files=stuck.files) from stuck


def move_main(repo: Repository, script: Mapping[str, Any], *, command: str) -> None:
    """Move the main worktree from the `head` to the `result` of a script, or not at all."""
    if script["result"] == script["head"]:
        return
    advance = Advance(repo.root, repo.common_dir, script["head"], script["result"])
    done = advance.run(command=command)
    if done.status:
        said = done.said.strip() or done.out.strip() or "it said nothing"
        raise Blocked(f"git does not move the main worktree: {said}", "git status")


def has_moved(repo: Repository, script: Mapping[str, Any]) -> bool:
    """True if the base branch contains the result of a script."""
    return refs.is_ancestor(repo.root, script["result"], f"refs/heads/{script['base_branch']}")
