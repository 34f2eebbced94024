"""Git's worktrees: their health, their locks, and their ignored files."""

from __future__ import annotations

import stat

from tugtool import errors
from tugtool.git import command as git
from tugtool.git import git_dir
from tugtool.system import files, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tugtool.git import Repository


#: The one trouble that `repair` can repair.
UNMARKED = "it has no .git any more"


def home(common_dir: str, path: str) -> str | None:
    """Git's directory of the worktree at `path`, even if its `.git` is missing."""
    place = os.path.join(common_dir, "worktrees")
    told = _led_to(path)
    if told is not None and os.path.dirname(told) == place and _leads_back(told, path):
        return told
    names = sorted(os.listdir(place)) if os.path.isdir(place) else []
    every = (os.path.join(place, name) for name in names)
    return next((each for each in every if _leads_back(each, path)), None)


def is_linked(path: str) -> bool:
    """True if the `.git` there names a directory of git that names the path."""
    told = _led_to(path)
    return told is not None and _leads_back(told, path)


def trouble(common_dir: str, path: str) -> str | None:
    """The reason why git must not run in a worktree; None if there is no problem."""
    if not os.path.isdir(path):
        return "its directory is gone"
    own = home(common_dir, path)
    if own is None or not _has_head(own):
        return "git does not know it as a worktree any more"
    marker = os.path.join(path, ".git")
    if not os.path.lexists(marker):
        return UNMARKED
    if os.path.isdir(marker):
        return "it has a repository of its own in place of its .git"
    return None if _led_to(path) == own else "its .git leads to another repository"


def repair(common_dir: str, path: str) -> None:
    """Write the worktree's missing `.git` file again."""
    own = home(common_dir, path)
    assert own is not None, path
    files.replace(os.path.join(path, ".git"), os.fsencode(f"gitdir: {own}\n"))


def _led_to(path: str) -> str | None:
    try:
        return git_dir(path) if os.path.isfile(os.path.join(path, ".git")) else None
    except errors.Unreadable:
        return None


def _leads_back(own: str, path: str) -> bool:
    line = _line(os.path.join(own, "gitdir"))
    if not line:
        return False
    told = os.path.join(own, line)
    # Do not resolve the `.git` file itself: it may have been replaced.
    return os.path.realpath(os.path.dirname(told)) == os.path.realpath(path)


def _has_head(own: str) -> bool:
    line = _line(os.path.join(own, "HEAD"))
    return line.startswith("ref: refs/") or (len(line) >= 40 and line.isalnum())


def _line(path: str) -> str:
    try:
        return os.fsdecode(files.read(path)).rstrip("\r\n")
    except errors.Unreadable:
        return ""


#: The time for a killed git to end; its guardian may still be killing it.
_LOCK_SECONDS = 2.0


def drop_locks(common_dir: str, path: str, branch: str) -> list[str]:
    """Remove the locks that killed gits left in the caller's worktree; the removed locks.

    A lock does not name its process. If no git runs, the lock's git is dead.
    """
    from tugtool.git import index

    own = home(common_dir, path)
    if own is None:
        return []
    inner = [os.path.join(own, "HEAD.lock"), os.path.join(common_dir, f"refs/heads/{branch}.lock")]
    if not index.staging(own).is_locked():
        # Otherwise it is our own lock, which says what to undo.
        inner.append(os.path.join(own, "index.lock"))
    # An agent's process may start another git, so look for such processes too.
    dropped = drop(inner, (path,), f"TUGCODE_WORKTREE={path}\0")
    shared = os.path.join(common_dir, "packed-refs.lock")
    if os.path.lexists(shared):
        every = (place for place, _ in git.worktrees(common_dir))
        dropped += drop([shared], (common_dir, *every))
    return dropped


def locks(common_dir: str) -> Iterator[str]:
    """Every lock file of git, in all worktrees and branches, except our own."""
    from tugtool.git import index

    place = os.path.join(common_dir, "worktrees")
    names = os.listdir(place) if os.path.isdir(place) else []
    for directory in (common_dir, *(os.path.join(place, name) for name in names)):
        for name in ("HEAD.lock", "config.lock", "index.lock", "packed-refs.lock"):
            ours = name == "index.lock" and index.staging(directory).is_locked()
            if os.path.lexists(lock := os.path.join(directory, name)) and not ours:
                yield lock
    for directory, _, names in os.walk(os.path.join(common_dir, "refs")):
        yield from (os.path.join(directory, name) for name in names if name.endswith(".lock"))


def drop(locks: list[str], directories: tuple[str, ...], mark: str = "") -> list[str]:
    """Remove those locks once no git runs below the directories; the removed locks."""
    # Only after a crash.
    from tugtool.git import index
    from tugtool.system import clock, process_group

    found = {lock: index.identity(lock) for lock in locks if os.path.lexists(lock)}
    for last in clock.tries(_LOCK_SECONDS) if found else ():
        busy = process_group.is_git_in(directories, mark)
        # If the system cannot say: the lock is unchanged all the time, in the caller's worktree.
        if busy is False or (busy is None and last and mark):
            left = [lock for lock, known in found.items() if index.identity(lock) == known]
            for lock in left:
                os.unlink(lock)
            return left
    return []


#: Paths per call of git: well below the limit of a command line.
AT_ONCE = 200
#: Not `cat-file --batch-check`: it reads one name per line, and a name may contain a newline.
#: Literal: a name may look like a pattern, or begin with a colon.
_LISTING = ("--literal-pathspecs", "ls-tree", "-z", "--name-only", "--full-tree")


def where(repo: Repository, keys: Iterable[str]) -> dict[str, str]:
    """Key -> the place of its file, in words; a key without a file has no entry."""
    found: dict[str, str] = {}
    missing = []
    listed = (path for path, _ in git.worktrees(repo.root))
    tops = list(dict.fromkeys([repo.root, repo.worktree, *listed]))
    for key in keys:
        home = next((top for top in tops if os.path.lexists(os.path.join(top, key))), None)
        if home is None:
            missing.append(key)
        else:
            found[key] = f"its file is in {home}"
    return found | (_on_branches(repo, missing) if missing else {})


def _on_branches(repo: Repository, keys: Sequence[str]) -> dict[str, str]:
    # A ref's name has no blank. Many branches end in the same tree: ask once for each tree.
    words = ("for-each-ref", "--format=%(tree) %(refname)", "refs/heads", "refs/remotes")
    trees: dict[str, str] = {}
    for line in git.run(*words, cwd=repo.root).splitlines():
        tree, _, name = line.partition(" ")
        trees.setdefault(tree or name, name)
    found: dict[str, str] = {}
    for tree, name in trees.items():
        missing = [key for key in keys if key not in found]
        for start in range(0, len(missing), AT_ONCE):
            some = missing[start : start + AT_ONCE]
            there = git.run(*_LISTING, tree, "--", *some, cwd=repo.root).split("\0")[:-1]
            found |= dict.fromkeys(there, f"its file is on {name}")
    return found


def work(path: str) -> list[str]:
    """The submodules with work that is on none of their remote branches, in words."""
    from tugtool.git import refs

    found = []
    for name in git.submodules(path):
        top = os.path.join(path, name)
        with refs.within_submodules():
            changed = git.run("status", "--porcelain", "-z", "--untracked-files=all", cwd=top)
        # A stash is a ref too.
        alone = git.run("rev-list", "--all", "HEAD", "--not", "--remotes", "--", cwd=top)
        if changed or alone:
            found.append(f"its submodule {name} holds work that is on no remote branch of it")
    return found


def hooks_directory(top: str) -> str:
    """The directory of a repository's hooks (core.hooksPath, or its own)."""
    return os.path.join(top, git.run("rev-parse", "--git-path", "hooks", cwd=top).rstrip("\n"))


def ignored(path: str) -> list[str]:
    """The ignored paths there; a directory with only ignored files is one path."""
    return _outermost(_ignored(path))


def _ignored(path: str, index: str | None = None) -> list[str]:
    words = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    return git.run(*words, cwd=path, index=index).split("\0")[:-1]


def _outermost(found: list[str]) -> list[str]:
    """Drop the paths inside listed directories: git lists a directory and its content."""
    whole = tuple(name for name in found if name.endswith("/"))
    return [name for name in found if not name.removesuffix("/").startswith(whole)]


#: In git's directory of a worktree: the ignored files from when it was made.
READY = "tug-ready"


def was_ready(path: str) -> tuple[str, ...]:
    """The ignored files that a worktree had from the start: copied, or made by its setup."""
    kept = os.path.join(git_dir(path), READY)
    if not os.path.exists(kept):
        return ()
    return tuple(os.fsdecode(files.read(kept, max_bytes=files.WHOLE_BYTES)).split("\0")[:-1])


#: Files by which tools mark caches and virtual environments, which can be made again.
_CACHE_FILES = ("CACHEDIR.TAG", "pyvenv.cfg")


def hidden_work(path: str, *, index: str | None = None) -> list[str]:
    """The files that only an uncommitted .gitignore ignores, without caches.

    Files that a committed .gitignore or the person's own settings ignore are not work.
    """
    ready = was_ready(path)
    whole = tuple(name for name in ready if name.endswith("/"))
    every = [name for name in _ignored(path, index) if not _is_cache(path, name)]
    found = [name for name in every if name not in ready and not name.startswith(whole)]
    if not found:
        return []
    given = "".join(f"{name}\0" for name in found)
    words = ("check-ignore", "--verbose", "-z", "--stdin")
    # <ignore file> <line> <pattern> <path>; none for a directory with only ignored files.
    fields = git.attempt(*words, cwd=path, index=index, given=given).out.split("\0")
    listed = git.run("ls-files", "-z", "--", "*.gitignore", cwd=path, index=index)
    committed = set(listed.split("\0"))
    pairs = zip(fields[::4], fields[3::4], strict=False)
    own = ((source, name) for source, name in pairs if os.path.basename(source) == ".gitignore")
    return _outermost([name for source, name in own if source not in committed])


def hidden_repositories(path: str, hidden: Sequence[str]) -> list[str]:
    """The repositories in the paths that `hidden_work` found, each with a slash at its end."""
    whole = tuple(name for name in hidden if name.endswith("/"))
    if not whole:
        return []
    # Without paths: for a path inside a repository git would list that repository's files.
    found = git.run("ls-files", "--others", "-z", cwd=path).split("\0")
    return [name for name in found if name.endswith("/") and name.startswith(whole)]


def _is_cache(top: str, name: str) -> bool:
    """True if the path is, or is in, a directory that is marked as a cache."""
    directory = os.path.dirname(name)
    while directory:
        if any(os.path.lexists(os.path.join(top, directory, mark)) for mark in _CACHE_FILES):
            return True
        directory = os.path.dirname(directory)
    return False


def open_directories(top: str) -> list[str]:
    """Make every directory below `top` readable and writable; the ones that were not."""
    found = []
    for directory, names, _ in os.walk(top):
        for path in (os.path.join(directory, name) for name in names):
            mode = os.lstat(path).st_mode
            if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
                try:
                    os.chmod(path, stat.S_IMODE(mode) | stat.S_IRWXU)
                except OSError:
                    # Another user's directory: git reports it when it fails there.
                    continue
                found.append(os.path.relpath(path, top))
    return found
