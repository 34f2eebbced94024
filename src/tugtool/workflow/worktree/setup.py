"""Prepare a new worktree: copy ignored files into it, then run the setup commands."""

from __future__ import annotations

import shlex
import shutil
import stat
from typing import NamedTuple

from tugtool.errors import CannotRun, listing
from tugtool.errors.git import NotMade
from tugtool.git import command as git
from tugtool.git import git_dir
from tugtool.git import worktrees as git_worktrees
from tugtool.system import clock, config, files, os, secrets, text
from tugtool.system.command import Streams
from tugtool.workflow import trust, worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tugtool.git import Repository
    from tugtool.schemas import (
        Issue,
        WorktreeCreate,
        WorktreeCreateNotCopiedItem,
        WorktreeCreateSetupItem,
    )
    from tugtool.system.command import Child


#: How often a running command is checked.
_LOOK_SECONDS = 0.25
#: How much of a failed command's output is shown.
_MOST_TOLD = {"most_characters": 2000, "most_lines": 20}
_MOST_NAMED = 5


class Ready(NamedTuple):
    """The result of preparing a worktree."""

    setup: list[WorktreeCreateSetupItem]
    copied: list[str]
    not_copied: list[WorktreeCreateNotCopiedItem]
    #: Files that the commands left and git does not ignore.
    left: list[str]


def issues(made: WorktreeCreate) -> list[Issue]:
    """Return warnings about how a worktree was prepared."""
    path = made["worktree_path"]
    found: list[Issue] = []
    for each in made["not_copied"]:
        said = f"{each['path']} was not copied to {path}: {each['reason']}"
        found.append({"code": "W165", "severity": "warning", "message": said})
    if made["left_by_setup"]:
        named = listing(made["left_by_setup"], most=_MOST_NAMED)
        said = f"setup left files in {path} that the first commit will have: {named}"
        found.append({"code": "W166", "severity": "warning", "message": said})
    return found


UNTOUCHED = Ready([], [], [], [])


class Preparation:
    """The settings about new worktrees."""

    def __init__(
        self,
        repo: Repository,
        *,
        is_stopped: Callable[[], bool] | None = None,
        announce: Callable[[str], object] | None = None,
    ) -> None:
        settings = config.load(repo.root)
        self.repo, self._is_stopped = repo, is_stopped or (lambda: False)
        self._announce = announce or (lambda said: None)
        listed = settings.value("worktree.setup")
        assert isinstance(listed, list)
        self.commands: list[list[str]] = [list(words) for words in listed]
        what = f"the command `{shlex.join(listed[0])}` of worktree.setup" if listed else ""
        self._permit = trust.permit(repo, settings, what) if listed else None
        self.names = settings.words("worktree.copy")
        self.seconds = settings.number("worktree.setup_seconds")
        #: The first failure of several: it stops the others.
        self._failure: NotMade | None = None

    def lock_seconds(self) -> int:
        """The time to wait for other creations, each of which may take long."""
        return worktree.LOCK_SECONDS + (8 * self.seconds if self.commands else 0)

    def run(self, paths: Sequence[str]) -> list[Ready]:
        """Prepare all of them at the same time."""
        if not (self.commands or self.names):
            return [UNTOUCHED for _ in paths]
        if len(paths) == 1:
            return [self._ready(paths[0])]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(len(paths)) as pool:
            try:
                return list(pool.map(self._ready, paths))
            except BaseException:
                self._failure = self._failure or NotMade(paths[0], reason="it was interrupted")
                raise

    def _ready(self, path: str) -> Ready:
        begun = os.path.join(git_dir(path), BEGUN)
        files.create(begun, b"")
        copied, not_copied = _Copying(self.repo, path).run(self.names)
        done = [self._done(path, words) for words in self.commands]
        left = [entry[3:] for entry in worktree.changes(path)] if done else []
        names = git_worktrees.ignored(path)
        kept = os.path.join(git_dir(path), git_worktrees.READY)
        files.create(kept, "".join(f"{name}\0" for name in names).encode(errors="surrogateescape"))
        os.unlink(begun)
        return Ready(done, copied, not_copied, left)

    def _done(self, path: str, words: list[str]) -> WorktreeCreateSetupItem:
        begun = clock.ticks()
        self._announce(f"setup in {os.path.basename(path)}: {shlex.join(words)}")
        problem, output = self._result(path, words)
        if problem is not None:
            said = text.tail(output, **_MOST_TOLD)
            reason = f"its setup failed: {shlex.join(words)} {problem}"
            told = f"{reason}; it said:\n{said}" if said else reason
            # Of several failures, report the first.
            self._failure = self._failure or NotMade(path, reason=told, of_setup=True)
            raise self._failure
        return {"command": words, "seconds": round(clock.ticks() - begun, 3)}

    def _result(self, path: str, words: list[str]) -> tuple[str | None, bytes]:
        """Return what went wrong with a command, if anything, and the end of its output."""
        streams = Streams.keep(head=0, merged=True)
        env = config.command_environment()
        assert self._permit is not None, words
        try:
            running = self._permit.start(words, cwd=path, env=env, streams=streams)
        except CannotRun as error:
            return f"cannot be run: {error.message}", b""
        with running:
            problem = self._waited(running)
        if problem is None and running.killed_by is not None:
            problem = f"was killed by signal {running.killed_by}"
        elif problem is None and running.status:
            problem = f"ended with exit status {running.status}"
        return problem, secrets.Mask(env).data(running.out.tail)

    def _waited(self, running: Child) -> str | None:
        deadline = clock.ticks() + self.seconds
        while not running.wait(min(_LOOK_SECONDS, max(0.0, deadline - clock.ticks()))):
            if self._failure is not None or self._is_stopped():
                return "was stopped"
            if clock.ticks() >= deadline:
                return f"took longer than {self.seconds} s (worktree.setup_seconds)"
        return None


#: A file in git's directory of a worktree during its setup: no file there is work.
BEGUN = "tug-setup"


def is_begun(path: str) -> bool:
    """Return whether the setup of a worktree was interrupted."""
    return os.path.lexists(os.path.join(git_dir(path), BEGUN))


class _Copying:
    """Copies ignored files from the main worktree to a new one."""

    def __init__(self, repo: Repository, path: str) -> None:
        self.root, self.top = os.path.realpath(repo.root), path

    def run(self, names: Sequence[str]) -> tuple[list[str], list[WorktreeCreateNotCopiedItem]]:
        """Return the copied files, and those that were not copied with the reasons."""
        copied: list[str] = []
        not_copied: list[WorktreeCreateNotCopiedItem] = []
        for name in names:
            found = list(self._found(name))
            problem = None if found else self._absent(name)
            for each in found:
                wrong = self._copy(each)
                problem = problem or wrong
                copied += [] if wrong else [each]
            if problem is not None:
                not_copied.append({"path": name, "reason": problem})
        return copied, not_copied

    def _found(self, name: str) -> Iterator[str]:
        """Yield the files below a name that git ignores here and in the new worktree."""
        if not name or os.path.isabs(name) or ".." in name.split("/"):
            return
        words = ("ls-files", "--others", "--ignored", "--exclude-standard", "-z", "--", name)
        # A name that git refuses, such as one beyond a link, counts as missing.
        here = git.attempt("--literal-pathspecs", *words, cwd=self.root).out
        there = git.attempt("check-ignore", "-z", "--stdin", cwd=self.top, given=here).out
        yield from sorted(set(here.split("\0")[:-1]) & set(there.split("\0")[:-1]))

    def _absent(self, name: str) -> str:
        path = os.path.join(self.root, name)
        if not os.path.lexists(path):
            return "it is not there"
        return "git does not ignore it" if self._is_inside(path) else OUTSIDE

    def _is_inside(self, path: str) -> bool:
        return os.path.realpath(path).startswith(os.path.join(self.root, ""))

    def _copy(self, name: str) -> str | None:
        """Copy one file; return why it was not copied, or None."""
        source, target = os.path.join(self.root, name), os.path.join(self.top, name)
        if not self._is_inside(source):
            return OUTSIDE
        home = os.path.join(os.path.realpath(self.top), "")
        if not os.path.join(os.path.realpath(os.path.dirname(target)), "").startswith(home):
            return "it would lead out of the worktree"
        try:
            if not stat.S_ISREG(os.stat(source).st_mode):
                return "it is not a regular file"
            if os.path.lexists(target):
                return "something is there already"
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(source, target)
        except OSError as error:
            return files.reason(error)
        return None


OUTSIDE = "it leads out of the repository"
