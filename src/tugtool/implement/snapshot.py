"""Snapshots of what agents may not change: a worktree's files and index, and its surroundings.

The surroundings are the shared git directory and the main checkout. Decisive settings, hooks,
ignore files and replaced objects are restored; changes in the main checkout are reported.
"""

from __future__ import annotations

import contextlib
import stat
import threading
from typing import NamedTuple

from tugtool.errors import TugError, listing
from tugtool.git import command as git
from tugtool.git import index, refs
from tugtool.git.index import age, identity
from tugtool.git.worktrees import open_directories
from tugtool.system import files, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.git import Repository
    from tugtool.implement.attempt import Checkout

    #: A path's mode, and its content or link target.
    Entry = tuple[int, bytes]
    Settings = dict[str, list[str]]


_WHOLE = 1 << 32


class Changes(NamedTuple):
    """An agent's changes: files that it changed, and files that it made."""

    touched: list[str]
    made: list[str]
    #: True if the index has other content than before.
    staged: bool

    def __bool__(self) -> bool:
        return any(self)


class Untouched:
    """The files and the index of a worktree at one moment."""

    def __init__(self, checkout: Checkout) -> None:
        self.top = checkout.path
        #: Directories that had to be made readable and writable.
        self.opened: list[str] = []
        self._index = os.path.join(checkout.git_dir, "index")
        self._before = _HeldFile.of(self._index)
        with _copied(self._index, self._before) as copy:
            #: Files that the next `git add` has to find again; inner repositories, not held.
            self._untracked = index.add_around(self.top, copy, opened=self.opened)
            self._held = _HeldFile.of(copy)
        self._rules = self._ignore_files()

    def tree(self) -> str:
        """Return all files as the tree that git would commit."""
        with _copied(self._index, self._held) as copy:
            return self._git("write-tree", index=copy).strip()

    def _git(self, *words: str, index: str, given: str | None = None) -> str:
        """Run git, and make directories accessible where it fails. Return its output."""
        done = git.attempt(*words, cwd=self.top, index=index, given=given)
        if "Permission denied" in done.said:
            open_directories(self.top)
            done = git.attempt(*words, cwd=self.top, index=index, given=given)
        return done.require(words)

    def changes(self) -> Changes:
        """Return the changes since this snapshot."""
        with _copied(self._index, self._held) as copy:
            words = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
            out = self._git(*words, "--ignore-submodules=dirty", index=copy)
        # Two letters, a space and the path; the second letter compares with the snapshot.
        entries = [(entry[:2], entry[3:]) for entry in out.split("\0")[:-1]]
        known = {path for path in self._untracked if path.endswith("/")}
        made = [path for letters, path in entries if letters == "??" and path not in known]
        touched = [path for letters, path in entries if letters[1] not in " ?!"]
        # An ignore file that hides work may also hide itself.
        made += [path for path in self._hiding() if path not in (*touched, *made)]
        return Changes(touched, made, self._is_staged_otherwise())

    def _hiding(self) -> list[str]:
        """Return the worktree's ignore files that hide files of the snapshot."""
        here = (source for source in self.hidden() if not os.path.isabs(source))
        return [source for source in here if os.path.lexists(os.path.join(self.top, source))]

    def hidden(self) -> dict[str, list[str]]:
        """Return ignore file -> files of the snapshot that it hides now."""
        if self._ignore_files() == self._rules:
            return {}
        with _copied(self._index, self._before) as copy:
            given = "".join(f"{path}\0" for path in self._untracked)
            words = ("check-ignore", "--verbose", "-z", "--stdin")
            # 1: no file is ignored. More: a link replaced a directory, which is restored first.
            fields = git.attempt(*words, cwd=self.top, index=copy, given=given).out.split("\0")
        found: dict[str, list[str]] = {}
        # <ignore file> <line> <pattern> <path>; a pattern with ! is the opposite.
        for source, _, pattern, path in zip(*(fields[n::4] for n in range(4)), strict=False):
            if not pattern.startswith("!"):
                found.setdefault(source, []).append(path)
        return found

    def _ignore_files(self) -> dict[str, tuple[int, ...] | None]:
        """Return every possible ignore file of the worktree with its content."""
        found: dict[str, tuple[int, ...] | None] = {}
        for path in self._untracked:
            directory = os.path.dirname(path)
            while (name := os.path.join(directory, ".gitignore")) not in found:
                found[name] = identity(os.path.join(self.top, name))
                directory = os.path.dirname(directory)
        return found

    def _is_staged_otherwise(self) -> bool:
        now, before = _HeldFile.of(self._index), self._before
        if (now and now.content) == (before and before.content):
            return False
        # Even read-only git commands refresh the times in the index.
        return self._entries(now) != self._entries(before)

    def _entries(self, held: _HeldFile | None) -> str:
        with _copied(self._index, held) as copy:
            return git.run("ls-files", "--stage", "-z", cwd=self.top, index=copy)

    def put_back(self, changes: Changes) -> None:
        """Restore the snapshot; the caller has saved the files of now."""
        for path in changes.made:
            _remove(self.top, path)
        if changes.touched:
            with _copied(self._index, self._held) as copy:
                given = "".join(f"{path}\0" for path in changes.touched)
                words = ("checkout-index", "--force", "--quiet", "-z", "--stdin")
                self._git(*words, index=copy, given=given)
        if changes.staged:
            if self._before is None:
                os.unlink(self._index)
            else:
                with _copied(self._index, self._before) as copy:
                    os.rename(copy, self._index)


class _HeldFile(NamedTuple):
    """An index file with its content and time. See `tugtool.git.index.put`."""

    content: bytes
    nanoseconds: int

    @classmethod
    def of(cls, path: str) -> _HeldFile | None:
        """Read the file at the path; None if there is none."""
        if not os.path.exists(path):
            return None
        # Read the time first: the content may then be newer than its time, never older.
        nanoseconds = os.stat(path).st_mtime_ns
        return cls(files.read(path, max_bytes=_WHOLE), nanoseconds)


@contextlib.contextmanager
def _copied(index: str, held: _HeldFile | None) -> Iterator[str]:
    """Yield a copy of the index for one command."""
    path = f"{index}.tug-{os.urandom(6).hex()}"
    try:
        if held is not None:
            files.replace(path, held.content)
            age(path, held.nanoseconds)
        yield path
    finally:
        if os.path.lexists(path):
            os.unlink(path)


def _remove(top: str, path: str) -> None:
    """Remove a file and the directories that become empty."""
    whole = os.path.join(top, path)
    if os.path.lexists(whole):
        _unlink(whole)
    # Never remove the worktree itself: its `.git` is there.
    with contextlib.suppress(OSError):
        os.removedirs(os.path.dirname(whole))


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except PermissionError:
        # Module caches have read-only directories.
        os.chmod(os.path.dirname(path), stat.S_IRWXU)
        os.unlink(path)


_CONFIGS = ("config", "config.worktree")
_INFO = ("exclude", "attributes", "sparse-checkout", "grafts")
_REPLACED = "refs/replace/"
#: These settings affect every git command, so they are restored.
_DECISIVE = "core."
#: Git itself writes these when agents do what they may.
_USUAL = ("branch.", "submodule.", "extensions.", "core.repositoryformatversion")
#: A sentence names at most so many.
_MOST_NAMED = 5


class Difference(NamedTuple):
    """A sentence about a difference, and its details: all names, or the former content."""

    said: str
    content: str


class Surroundings:
    """The shared git directory and the main checkout, before and after a run's agents."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self._lock = threading.Lock()
        #: Running agents. A worker may be the first to see what another's agent did.
        self._agents = 0
        self._shared: _Shared | None = None
        self._main: _Main | None = None

    def begin(self) -> None:
        """Note that an agent is about to run."""
        with self._lock:
            if not self._agents or self._shared is None:
                # With no agent running, the present state is the right one.
                self._shared = _Shared(self._repo)
            if self._main is None:
                self._main = _Main(self._repo)
            self._agents += 1

    def end(self) -> list[Difference]:
        """Note that an agent has ended. Restore what can be restored; return the differences."""
        with self._lock:
            self._agents -= 1
            assert self._shared is not None
            assert self._main is not None
            try:
                seen = _Shared(self._repo)
                found = list(self._shared.put_back(seen))
                self._shared = _Shared(self._repo) if found else seen
                now = _Main(self._repo)
                found += self._main.differences(now)
                self._main = now
            except (TugError, OSError) as error:
                return [Difference(f"the surroundings of the worktree cannot be read: {error}", "")]
        return found


class _Shared:
    """The shared git directory at one moment."""

    def __init__(self, repo: Repository) -> None:
        self.root, self.home = repo.root, repo.common_dir
        self.configs = {name: _entry(self._path(name)) for name in _CONFIGS}
        hooks = [f"hooks/{name}" for name in _names(self._path("hooks"))]
        named = [name for name in hooks if not name.endswith(".sample")]
        every = [*named, *(f"info/{name}" for name in _INFO)]
        self.files = {name: _entry(self._path(name)) for name in every}
        self.replaced = self._replaced()

    def _path(self, name: str) -> str:
        return os.path.join(self.home, name)

    def _replaced(self) -> dict[str, str]:
        """Return each ref that makes git replace an object, and the replacement."""
        packed = _entry(self._path("packed-refs"))
        if not _names(self._path(_REPLACED)) and _REPLACED.encode() not in (packed or (0, b""))[1]:
            return {}
        form = ("for-each-ref", "--format=%(refname) %(objectname)", _REPLACED)
        out = git.run(*form, cwd=self.root)
        return dict(line.split() for line in out.splitlines())

    def put_back(self, now: _Shared) -> Iterator[Difference]:
        """Restore this snapshot, and return the differences."""
        for name in _CONFIGS:
            if self.configs[name] != now.configs[name]:
                yield from self._put_config_back(name, now.configs[name])
        for name in sorted({*self.files, *now.files}):
            was, found = self.files.get(name), now.files.get(name)
            if was != found:
                _put(self._path(name), was)
                said = f"git's {name} was changed, and is put back"
                yield Difference(said, _text(found))
        for ref in sorted({*self.replaced, *now.replaced}):
            old, new = self.replaced.get(ref), now.replaced.get(ref)
            if old != new:
                words = ("update-ref", ref, old) if old else ("update-ref", "-d", ref)
                git.patiently(*words, cwd=self.root)
                yield Difference(f"{ref} was changed, and is put back", new or "")

    def _put_config_back(self, name: str, found: Entry | None) -> Iterator[Difference]:
        """Restore only decisive settings: people may have changed others meanwhile."""
        was, path = self.configs[name], self._path(name)
        before, now = _settings(was), _settings(found)
        if before is None or now is None or (before and not now):
            _put(path, was)
            yield Difference(f"git's {name} was spoilt, and is put back", _text(found))
            return
        for key in sorted({*before, *now}):
            if before.get(key) == now.get(key) or key.startswith(_USUAL):
                continue
            content = "\n".join(now.get(key, []))
            if not key.startswith(_DECISIVE):
                yield Difference(f"the setting {key} of git's {name} was changed", content)
                continue
            _set(path, key, before.get(key, []), was=now.get(key, []))
            yield Difference(f"the setting {key} was changed, and is put back", content)


class _Main:
    """HEAD, branch and files of the main checkout at one moment."""

    def __init__(self, repo: Repository) -> None:
        self.root = repo.root
        self.branch, self.commit = refs.head_branch(repo.root), refs.head_commit(repo.root)
        words = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
        done = git.attempt(*words, "--ignore-submodules=dirty", cwd=repo.root)
        out, self.problem = done.out, done.said if done.status else ""
        #: Each file that differs from its commit: the kind of change, and the content.
        self.files = {
            entry[3:]: (entry[:2], identity(os.path.join(repo.root, entry[3:])))
            for entry in out.split("\0")[:-1]
        }

    def differences(self, now: _Main) -> list[Difference]:
        """Return the differences as sentences."""
        if self.problem or now.problem:
            said = f"git status of the main checkout failed: {now.problem.strip()}"
            return [Difference(said, "")] if now.problem != self.problem else []
        found = []
        if self.branch != now.branch:
            said = (
                f"HEAD of the main checkout is on {_at(now.branch)}, and was on {_at(self.branch)}"
            )
            found.append(Difference(said, ""))
        changed = {name for name in {*self.files, *now.files} if self._differs(now, name)}
        if self.commit != now.commit:
            said = (
                f"{_at(now.branch)} of the main checkout moved from {self.commit} to {now.commit}"
            )
            found.append(Difference(said, ""))
            if self.commit and now.commit:
                changed.update(refs.changed_paths(self.root, self.commit, now.commit))
        if changed:
            names = sorted(changed)
            said = f"the main checkout, {self.root}, has changed: {listing(names, _MOST_NAMED)}"
            found.append(Difference(said, "\n".join(names)))
        return found

    def _differs(self, now: _Main, name: str) -> bool:
        return self.files.get(name) != now.files.get(name)


def _at(branch: str | None) -> str:
    return branch or "no branch"


def _names(directory: str) -> list[str]:
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []


def _entry(path: str) -> Entry | None:
    """Return the file or link at a path, or None."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return None
    if stat.S_ISLNK(mode):
        return mode, os.fsencode(os.readlink(path))
    return (mode, files.read(path, max_bytes=files.WHOLE_BYTES)) if stat.S_ISREG(mode) else None


def _put(path: str, entry: Entry | None) -> None:
    """Make the path hold exactly that entry."""
    if os.path.lexists(path):
        os.unlink(path)
    if entry is None:
        return
    mode, content = entry
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if stat.S_ISLNK(mode):
        os.symlink(content, os.fsencode(path))
    else:
        files.replace(path, content)
        os.chmod(path, stat.S_IMODE(mode))


def _text(entry: Entry | None) -> str:
    return "" if entry is None else entry[1].decode(errors="replace")


def _settings(entry: Entry | None) -> Settings | None:
    """Return every setting with its values; None if git cannot read them."""
    given = os.fsdecode(entry[1]) if entry else ""
    done = git.attempt("config", "--file", "-", "--null", "--list", cwd="/", given=given)
    if done.status:
        return None
    found: Settings = {}
    for each in done.out.split("\0")[:-1]:
        name, equals, value = each.partition("\n")
        found.setdefault(name, []).append(value if equals else "true")
    return found


def _set(path: str, key: str, values: list[str], *, was: list[str]) -> None:
    file = ("config", "--file", path)
    if was:
        git.patiently(*file, "--unset-all", key, cwd="/")
    for value in values:
        git.patiently(*file, "--add", key, value, cwd="/")
