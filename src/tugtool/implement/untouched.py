"""A worktree as it was before an agent that may change nothing, and how it becomes that again.

What was there, ignored files aside, is held in a copy of git's index in which everything is
added: two commands of git's for an agent that keeps to its rules.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from tugtool import files, git
from tugtool.index import age

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.implement.desk import Desk

#: What a person is told about files must not keep them from being held.
_LENIENT = ("core.safecrlf=false", "advice.addEmbeddedRepo=false")
_WHOLE = 1 << 32


class Changes:
    """What an agent did: to files that were there, and which ones it made."""

    __slots__ = ("made", "staged", "touched")

    def __init__(self, touched: list[str], made: list[str], *, staged: bool) -> None:
        self.touched, self.made = touched, made
        #: Whether the index has other content than before.
        self.staged = staged

    def __bool__(self) -> bool:
        return bool(self.touched or self.made or self.staged)


class Untouched:
    """The files and the index of one worktree, at one moment."""

    def __init__(self, desk: Desk) -> None:
        self.top = desk.path
        self._index = os.path.join(desk.git_dir, "index")
        self._before = _Held.of(self._index)
        with _File(self._index, self._before) as copy:
            words = ("add", "--all", "--sparse")
            git.run(*words, cwd=self.top, index=copy, settings=_LENIENT)
            self._held = _Held.of(copy)

    def changes(self) -> Changes:
        """What is otherwise now."""
        with _File(self._index, self._held) as copy:
            words = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
            out = git.run(*words, "--ignore-submodules=dirty", cwd=self.top, index=copy)
        # Two letters, a space and the path; the second letter compares with what is held.
        entries = [(entry[:2], entry[3:]) for entry in out.split("\0")[:-1]]
        made = [path for letters, path in entries if letters == "??"]
        touched = [path for letters, path in entries if letters[1] not in " ?!"]
        return Changes(touched, made, staged=self._is_staged_otherwise())

    def _is_staged_otherwise(self) -> bool:
        now, before = _Held.of(self._index), self._before
        if (now and now.content) == (before and before.content):
            return False
        # Whoever only looks lets git write down when files were last looked at.
        return self._entries(now) != self._entries(before)

    def _entries(self, held: _Held | None) -> str:
        with _File(self._index, held) as copy:
            return git.run("ls-files", "--stage", "-z", cwd=self.top, index=copy)

    def put_back(self, changes: Changes) -> None:
        """Make it what it was; whoever calls has saved what is there now."""
        for path in changes.made:
            _remove(self.top, path)
        if changes.touched:
            with _File(self._index, self._held) as copy:
                given = "".join(f"{path}\0" for path in changes.touched)
                words = ("checkout-index", "--force", "--quiet", "-z", "--stdin")
                git.run(*words, cwd=self.top, index=copy, given=given)
        if changes.staged:
            if self._before is None:
                os.unlink(self._index)
            else:
                with _File(self._index, self._before) as copy:
                    os.rename(copy, self._index)


class _Held(NamedTuple):
    """An index: what is in it, and how old it is. See `tugtool.index.put`."""

    content: bytes
    nanoseconds: int

    @classmethod
    def of(cls, path: str) -> _Held | None:
        """What lies there, if anything does."""
        if not os.path.exists(path):
            return None
        # First the time: what is put there in between may look older than it is, never younger.
        nanoseconds = os.stat(path).st_mtime_ns
        return cls(files.read(path, max_bytes=_WHOLE), nanoseconds)


class _File:
    """An index of our own beside git's, for one command."""

    def __init__(self, index: str, held: _Held | None) -> None:
        self.path = f"{index}.tug-{os.urandom(6).hex()}"
        self.held = held

    def __enter__(self) -> str:
        if self.held is not None:
            files.replace(self.path, self.held.content)
            age(self.path, self.held.nanoseconds)
        return self.path

    def __exit__(self, *ended: object) -> None:
        if os.path.lexists(self.path):
            os.unlink(self.path)


def _remove(top: str, path: str) -> None:
    """Take a file away, and the directories that nothing is left in."""
    whole = os.path.join(top, path)
    if path.endswith("/"):
        # A repository of its own, which nobody could save: it stays.
        return
    if os.path.lexists(whole):
        os.unlink(whole)
    above = os.path.dirname(whole)
    while above.startswith(f"{top}/") and not os.listdir(above):
        os.rmdir(above)
        above = os.path.dirname(above)
