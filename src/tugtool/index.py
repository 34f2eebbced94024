"""A worktree's index, changed by a git that may be killed without leaving it locked for ever.

A git that is killed leaves its lock behind, and nobody can tell whose it is. So git gets an
index of its own, and the worktree's is locked by a file that says who we are: whoever comes
after a crash knows that nobody is at it.
"""

from __future__ import annotations

import os

from tugtool import files, git, holder, jsontext, lingering
from tugtool.errors import Unreadable, Unwritable


class Index:
    """The index in a git directory, and one that is ours alone."""

    __slots__ = ("_held", "_lock", "_note", "own", "path")

    def __init__(self, git_dir: str, own: str) -> None:
        self.path = os.path.join(git_dir, "index")
        self.own = os.path.join(git_dir, own)
        self._lock = f"{self.path}.lock"
        self._note = lingering.Note(f"{self.own}.git")
        #: Our lock, told from one that somebody put in its place.
        self._held: tuple[int, int] | None = None

    def lock(self, **about: str) -> bool:
        """As git does it: from now on nobody else changes it; False if somebody is at it.

        `about` is for whoever finds the lock after a crash.
        """
        mine = f"{self._lock}.{os.urandom(6).hex()}"
        process = lingering.process(os.getpid())
        facts = {"tugtool": about, "own": os.path.basename(self.own), "process": process}
        try:
            with open(mine, "x", encoding="utf-8") as file:
                file.write(jsontext.encode(facts))
            put(mine, self._lock)
            self._held = _identity(self._lock)
        except FileExistsError:
            return False
        except OSError as error:
            raise Unwritable(self._lock, reason=files.reason(error)) from error
        finally:
            if os.path.lexists(mine):
                os.unlink(mine)
        return True

    def locked_by(self) -> str:
        """What git says where it finds the lock."""
        return f"Unable to create '{self._lock}': File exists."

    def copy(self) -> None:
        """Ours becomes what the worktree's is."""
        self._forget()
        if os.path.exists(self.path):
            # Git never writes into the file, it puts a new one there.
            put(self.path, self.own)

    def run(self, *words: str, cwd: str) -> git.Done:
        """Git with our index; while it runs it can be seen that it does."""
        # Whoever asked steps back from what it has done by then.
        return git.attempt(
            *words, cwd=cwd, index=self.own, started=self._note.write, though_killed=True
        )

    def install(self) -> None:
        """The worktree's becomes what ours is, if there still is one."""
        if os.path.lexists(self.own):
            os.rename(self.own, self.path)

    def end(self) -> None:
        """All is done or undone: it is anybody's again."""
        self._forget()
        self._note.drop()
        held = self._held is not None and self._held == _identity(self._lock)
        if held or (self._held is None and self.is_locked()):
            os.unlink(self._lock)
        self._held = None

    def busy(self) -> int | None:
        """The process that has locked it, or works with ours, if it is not this one."""
        return lingering.running(self._process()) or self._note.running()

    def is_locked(self) -> bool:
        """Whether it is locked by us, now or before somebody died."""
        return self._process() is not None

    def is_left(self) -> bool:
        """Whether whoever locked it provably no longer runs, also by a restart since."""
        process = self._process()
        if process is None or self._note.running() is not None:
            return False
        here = holder.place()
        restarted = process["host"] == here["host"] and process["boot"] != here["boot"]
        return restarted or holder.is_gone(process)

    def _forget(self) -> None:
        for path in (self.own, f"{self.own}.lock"):
            if os.path.lexists(path):
                os.unlink(path)

    def about(self) -> dict[str, str]:
        """What whoever locked it has said; nothing, if it was not us."""
        found = self._facts().get("tugtool")
        return found if isinstance(found, dict) else {}

    def _process(self) -> dict[str, object] | None:
        found = self._facts().get("process")
        return found if isinstance(found, dict) else None

    def _facts(self) -> dict[str, object]:
        if not os.path.lexists(self._lock):
            return {}
        import json  # Only where something is locked.

        try:
            facts = json.loads(files.read(self._lock, max_bytes=4096))
        except (Unreadable, ValueError):
            return {}
        # Another index of ours is another undertaking.
        same = isinstance(facts, dict) and facts.get("own") == os.path.basename(self.own)
        return facts if same and "tugtool" in facts else {}


def put(source: str, target: str) -> None:
    """The same file under another name; FileExistsError if that is taken.

    An index keeps its time: a file that is no older may have changed since in a way that only
    its content tells, and git looks there. In a younger index it would take it for unchanged.
    """
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        # No links here; then a copy, for which a crash between two calls is a risk.
        with open(source, "rb") as file, open(target, "xb") as copy:
            copy.write(file.read())
            copy.flush()
            age(target, os.fstat(file.fileno()).st_mtime_ns)


def age(path: str, nanoseconds: int) -> None:
    """Let an index be as old as the one that it was made from."""
    os.utime(path, ns=(nanoseconds, nanoseconds))


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
