"""Changes an index safely, even if git is killed: save, restore, install."""

from __future__ import annotations

from tugtool.errors import GitFailed, Unreadable, Unwritable
from tugtool.git import command as git
from tugtool.system import files, os, text
from tugtool.system import process as system_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


#: The index as it was before `git add`.
_SAVED = "tugtool-index"
#: The index as `git add` left it.
_ADDED = "tugtool-index-added"


class Index:
    """The index in a git directory, and our own copy of it."""

    __slots__ = ("_held", "_lock", "_note", "own", "path")

    def __init__(self, git_dir: str, own: str) -> None:
        self.path = os.path.join(git_dir, "index")
        self.own = os.path.join(git_dir, own)
        self._lock = f"{self.path}.lock"
        self._note = system_process.ProcessNote(f"{self.own}.git")
        #: The identity of our lock, which differs from a lock that replaced it.
        self._held: tuple[int, ...] | None = None

    def lock(self, **about: str) -> bool:
        """Lock the index as git does, against all other changes; False if it is locked.

        `about` is for the command that finds the lock after a crash.
        """
        mine = f"{self._lock}.{os.urandom(6).hex()}"
        process = system_process.process(os.getpid())
        facts = {"tugtool": about, "own": os.path.basename(self.own), "process": process}
        try:
            with open(mine, "x", encoding="utf-8") as file:
                file.write(text.encode(facts))
            put(mine, self._lock)
            self._held = identity(self._lock)
        except FileExistsError:
            return False
        except OSError as error:
            raise Unwritable(self._lock, reason=files.reason(error)) from error
        finally:
            remove(mine)
        return True

    def locked_by(self) -> str:
        """Git's message for a locked index, with its advice."""
        return (
            f"Unable to create '{self._lock}': File exists. Another git process seems to run "
            "there, or was killed there earlier: then remove the file manually to continue."
        )

    def copy(self) -> None:
        """Make our index a copy of the worktree's."""
        remove(self.own, f"{self.own}.lock")
        if os.path.exists(self.path):
            # A link is enough: git never writes into the file, it replaces it.
            put(self.path, self.own)

    def run(self, *words: str, cwd: str) -> git.Done:
        """Run git with our index; a note names its process while it runs."""
        # The caller undoes the work of a killed git.
        return git.attempt(
            *words, cwd=cwd, index=self.own, started=self._note.write, though_killed=True
        )

    def install(self) -> None:
        """Replace the worktree's index by ours, if ours is still there."""
        if os.path.lexists(self.own):
            os.rename(self.own, self.path)

    def end(self) -> None:
        """Release the lock: everything is done or undone."""
        remove(self.own, f"{self.own}.lock")
        self._note.drop()
        held = self._held is not None and self._held == identity(self._lock)
        if held or (self._held is None and self.is_locked()):
            os.unlink(self._lock)
        self._held = None

    def busy(self) -> int | None:
        """The other process that has locked it, or works with our copy."""
        return system_process.running(self._process()) or self._note.running()

    def is_locked(self) -> bool:
        """True if tugcode has locked it, by a live process or a dead one."""
        return self._process() is not None

    def is_left(self) -> bool:
        """True if the process that locked it has provably ended, or the machine has restarted."""
        process = self._process()
        if process is None or self._note.running() is not None:
            return False
        here = system_process.machine_identity()
        restarted = process["host"] == here["host"] and process["boot"] != here["boot"]
        return restarted or system_process.is_gone(process)

    def about(self) -> dict[str, str]:
        """The facts that the locking command wrote; empty if git locked it."""
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
        # A lock for another of our indexes belongs to another operation.
        same = isinstance(facts, dict) and facts.get("own") == os.path.basename(self.own)
        return facts if same and "tugtool" in facts else {}


def put(source: str, target: str) -> None:
    """Link the file under another name; FileExistsError if that name is taken.

    A copy of an index must keep its time. Git compares the content of files that are at least
    as new as the index; with a newer index it would take such a file for unchanged.
    """
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        # The file system has no links: copy, although a crash may leave half of it.
        with open(source, "rb") as file, open(target, "xb") as copy:
            copy.write(file.read())
            copy.flush()
            age(target, os.fstat(file.fileno()).st_mtime_ns)


def age(path: str, nanoseconds: int) -> None:
    """Set the time of an index to that of its original."""
    os.utime(path, ns=(nanoseconds, nanoseconds))


def remove(*paths: str) -> None:
    """Delete the files that are there."""
    for path in paths:
        if os.path.lexists(path):
            try:
                os.unlink(path)
            except FileNotFoundError:
                # Another worker has deleted it.
                continue


def identity(path: str) -> tuple[int, ...] | None:
    """A value that differs once another lock file replaces this one; None if there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def staging(git_dir: str) -> Index:
    """The index for `git add --all`."""
    return Index(git_dir, "tugtool-add")


#: Warnings about files must not keep git from adding them.
_LENIENT = ("core.safecrlf=false", "advice.addEmbeddedRepo=false")


def place(git_dir: str, top: str) -> tuple[str, str]:
    """Options that make git use `top` as the working tree."""
    return f"--git-dir={git_dir}", f"--work-tree={top}"


def clear(top: str, *, kept_in: str) -> list[str]:
    """Reset a worktree to its HEAD, after its work is saved. Ignored files stay.

    The new places of repositories inside it, whose commits cannot be saved.
    """
    for words in (("reset", "--quiet", "--hard"), ("clean", "--quiet", "-d", "--force")):
        try:
            git.patiently(*words, cwd=top)
        except GitFailed:
            from tugtool.git.worktrees import open_directories

            # A module cache has directories that are not writable.
            if not open_directories(top):
                raise
            git.patiently(*words, cwd=top)
    return [set_aside(top, path, kept_in=kept_in) for path in nested(top)]


def set_aside(top: str, path: str, *, kept_in: str) -> str:
    """Move a repository inside the worktree to a directory outside; its new path."""
    import shutil

    name = f"{os.path.basename(top)}-{os.urandom(6).hex()}"
    kept = os.path.join(kept_in, name, path.rstrip("/"))
    try:
        os.makedirs(os.path.dirname(kept))
        shutil.move(os.path.join(top, path.rstrip("/")), kept)
    except OSError as error:
        raise Unwritable(kept, reason=files.reason(error)) from error
    return kept


def nested(top: str) -> list[str]:
    """Repositories inside that are not submodules, each with a slash at its end."""
    return [path for path in untracked(top) if path.endswith("/")]


def untracked(
    top: str, *here: str, index: str | None = None, opened: list[str] | None = None
) -> list[str]:
    """The untracked paths that are not ignored; repositories inside end with a slash.

    It gives itself access to closed directories, and adds them to `opened`.
    """
    words = (*here, "ls-files", "-z", "--others", "--exclude-standard")
    done = git.attempt(*words, cwd=top, index=index)
    if "Permission denied" in done.said:
        # Git leaves out what it cannot read, and only warns.
        from tugtool.git.worktrees import open_directories

        closed = open_directories(top)
        (opened if opened is not None else []).extend(closed)
        done = git.attempt(*words, cwd=top, index=index)
    return done.require(words).split("\0")[:-1]


def add_around(top: str, index: str, *here: str, opened: list[str] | None = None) -> list[str]:
    """Add everything to an index of the caller, except the repositories inside.

    The paths that were untracked; repositories end with a slash.
    """
    found = untracked(top, *here, index=index, opened=opened)
    # Git would add a repository as a bare commit id, and fail if it has no commit.
    inside = [path[:-1] for path in found if path.endswith("/")]
    words = (*here, "add", "--all", "--sparse", *_besides([*inside, *_replaced(top)]))
    git.run(*words, cwd=top, index=index, settings=_LENIENT)
    return found


def _besides(paths: Sequence[str]) -> list[str]:
    """Words that leave out these paths."""
    return ["--", ".", *(f":(exclude,top,literal){path}" for path in paths)] if paths else []


def _replaced(top: str) -> list[str]:
    """Submodules whose filters `git add` must not run."""
    if not git.submodules(top):
        return []
    from tugtool.git.safe_view import replaced  # Few repositories have submodules.

    return replaced(top)


def add_all(top: str, git_dir: str) -> list[str]:
    """Run `git add --all`; if it is killed, it leaves no lock that blocks other commands.

    The directories that git could not read: it leaves them out, and only warns.
    """
    # Sparse: files outside the cone of the checkout are work too.
    words, index = ("add", "--all", "--sparse", *_besides(_replaced(top))), staging(git_dir)
    if not index.lock():
        git.Done(128, "", index.locked_by()).require(words)
    index.copy()
    done = index.run(*words, cwd=top)
    if not done.status:
        # Keep a copy first, so that `undo_index` can recognise this index.
        _keep(index.own, os.path.join(git_dir, _ADDED))
        index.install()
    index.end()
    done.require(words)
    unread = [line for line in done.said.splitlines() if "could not open directory" in line]
    return [line.split("'")[1] for line in unread]


def save_index(git_dir: str) -> bool:
    """Keep the index under another name: git never changes the file, it puts a new one there."""
    forget_index(git_dir)
    # Without an index, or without links, it stays as `git add` leaves it.
    return _keep(os.path.join(git_dir, "index"), os.path.join(git_dir, _SAVED))


def _keep(path: str, name: str) -> bool:
    try:
        os.link(path, name)
    except OSError:
        return False
    return True


def restore_index(git_dir: str) -> None:
    """Restore the saved index, unless another git is writing the index now."""
    index = os.path.join(git_dir, "index")
    if not os.path.lexists(f"{index}.lock"):
        os.rename(os.path.join(git_dir, _SAVED), index)
    forget_index(git_dir)


def undo_index(top: str, git_dir: str, entry: str = "", paths: Sequence[str] = ()) -> None:
    """Undo the `git add` of a dead process; later additions stay.

    If there are any, only `paths` leave the index, and only if the log there has the `entry`.
    """
    saved = os.path.join(git_dir, _SAVED)
    if os.path.lexists(saved) and _is_as_added(top, git_dir):
        restore_index(git_dir)
        return
    if paths and entry in git.attempt("cat-file", "blob", f":{paths[0]}", cwd=top).out:
        git.attempt("reset", "--quiet", "--", *paths, cwd=top, though_killed=True)
    forget_index(git_dir)


def _is_as_added(top: str, git_dir: str) -> bool:
    added = os.path.join(git_dir, _ADDED)
    if not os.path.lexists(added):
        return False
    # Compare the content, not the files: `git status` may rewrite the index.
    words = ("ls-files", "--stage", "-v", "-z")
    found, left = (git.attempt(*words, cwd=top, index=index) for index in (None, added))
    return not found.status and found.out == left.out


def forget_index(git_dir: str) -> None:
    """Delete the saved index."""
    remove(*(os.path.join(git_dir, name) for name in (_SAVED, _ADDED)))
