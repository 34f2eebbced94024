"""Which repository, which worktree: found by reading `.git`, without starting git.

The plain cases (main worktree, sub-directory, linked worktree, submodule) are read from
the files git keeps. Whatever is unusual (GIT_DIR set, core.worktree in a main worktree,
a configuration in a form git itself does not write) is left to git.
"""

import os

from tugtool import config, files, git
from tugtool.errors import GitFailed, NoRepository, Unreadable

#: All of git's configuration that decides where a working tree is.
DECISIVE = ("core.bare", "core.worktree", "extensions.worktreeconfig")
#: What git takes for blank in its configuration; Python knows many more.
BLANK = " \t\r"


class Repository:
    """Where things are. All paths are real and absolute."""

    __slots__ = ("common_dir", "root", "worktree")

    def __init__(self, root: str, worktree: str, common_dir: str) -> None:
        #: Top directory of the main worktree; `.tugtool/` and the state live here.
        self.root = root
        #: Top directory of the worktree that contains the caller.
        self.worktree = worktree
        #: Git's own directory, shared by all worktrees.
        self.common_dir = common_dir


def discover(start: str) -> Repository:
    """The repository that the directory `start` belongs to."""
    start = os.path.realpath(start)
    if config.git_location_is_forced():
        return _ask_git(start, located_by_environment=True)
    return containing(start)


def containing(start: str) -> Repository:
    """The repository whose files enclose `start`, whatever the environment says."""
    directory = start = os.path.realpath(start)
    while True:
        found = _look(directory)
        if found is not None:
            _refuse_stray(start, directory)
            return found
        parent = os.path.dirname(directory)
        if parent == directory:
            reason = "is not inside a git repository"
            raise NoRepository(start, reason=reason, hint="git init")
        directory = parent


def _refuse_stray(start: str, top: str) -> None:
    """What lies among the worktrees and is none must not pass for the main worktree."""
    inside = start.removeprefix(os.path.join(top, config.TREES_PATH, ""))
    if inside != start:
        path = os.path.join(top, config.TREES_PATH, inside.split(os.sep)[0])
        reason = "has no .git of its own, and is no worktree: git would work on the main one"
        raise NoRepository(path, reason=reason, hint="git worktree list")


def worktree_identity(repo: Repository, given: str | None, *, cwd: str) -> str:
    """Who the caller is: the worktree it names, or the one it stands in."""
    if given is None:
        return repo.worktree
    for base in (cwd, repo.root):
        path = os.path.join(base, given)
        if os.path.exists(path):
            real = os.path.realpath(path)
            try:
                return containing(real if os.path.isdir(real) else os.path.dirname(real)).worktree
            except NoRepository:
                return real
    # A worktree that is gone is still who it was: its claims can be released.
    return os.path.normpath(os.path.join(repo.root, given))


def git_dir(worktree: str) -> str:
    """Git's own directory of one worktree: its HEAD, its index, and what is under way there."""
    marker = os.path.join(worktree, ".git")
    if not os.path.isfile(marker):
        return os.path.realpath(marker)
    return os.path.realpath(os.path.join(worktree, _line(marker).partition(": ")[2]))


def _look(directory: str) -> Repository | None:
    marker = os.path.join(directory, ".git")
    if os.path.isfile(marker):
        return _from_file(directory, marker)
    if _is_git_dir(marker):
        common_dir = os.path.realpath(marker)
        bare, worktree = _configured(common_dir)
        if not bare and not worktree:
            return Repository(directory, directory, common_dir)
        return _ask_git(directory)
    if _is_git_dir(directory):
        raise NoRepository(directory, reason="is a git directory and not a working tree")
    return None


def _from_file(worktree: str, marker: str) -> Repository:
    """A linked worktree, a submodule, or a repository with its git directory elsewhere."""
    word, _, target = _line(marker).partition(": ")
    git_dir = os.path.realpath(os.path.join(worktree, target))
    pointer = os.path.join(git_dir, "commondir")
    is_linked = os.path.exists(pointer)
    common_dir = os.path.realpath(os.path.join(git_dir, _line(pointer))) if is_linked else git_dir
    if word != "gitdir" or not _is_git_dir(common_dir):
        reason = "has a .git file that leads nowhere"
        raise NoRepository(worktree, reason=reason, hint="git worktree repair")
    if is_linked:
        return Repository(_main_worktree(common_dir, worktree), worktree, common_dir)
    bare, configured = _configured(git_dir)
    if not bare and configured in (None, worktree):
        return Repository(worktree, worktree, git_dir)
    return _ask_git(worktree)


def _main_worktree(common_dir: str, worktree: str) -> str:
    bare, configured = _configured(common_dir)
    if bare:
        reason = "is a linked worktree of a bare repository, which has no main working tree"
        raise NoRepository(worktree, reason=reason, hint="git worktree list")
    if configured:
        return configured
    if os.path.basename(common_dir) == ".git":
        return os.path.dirname(common_dir)
    reason = f"has its git directory at {common_dir}, which names no main working tree"
    raise NoRepository(worktree, reason=reason, hint="git worktree list")


def _ask_git(start: str, *, located_by_environment: bool = False) -> Repository:
    def ask(option: str) -> str:
        out = git.run("rev-parse", option, cwd=start, located_by_environment=located_by_environment)
        return out.removesuffix("\n")

    try:
        if ask("--is-bare-repository") == "true":
            reason = "belongs to a bare repository, which has no working tree"
            raise NoRepository(start, reason=reason)
        worktree = ask("--show-toplevel")
        git_dir, common_dir = (
            os.path.realpath(os.path.join(start, ask(option)))
            for option in ("--absolute-git-dir", "--git-common-dir")
        )
    except GitFailed as error:
        reason = "is not inside a git repository with a working tree"
        raise NoRepository(start, reason=reason, hint="git rev-parse --show-toplevel") from error
    if git_dir == common_dir and os.path.basename(common_dir) != ".git":
        return Repository(worktree, worktree, common_dir)
    return Repository(_main_worktree(common_dir, worktree), worktree, common_dir)


def _is_git_dir(path: str) -> bool:
    return (
        os.path.isdir(os.path.join(path, "objects"))
        and os.path.isdir(os.path.join(path, "refs"))
        and os.path.lexists(os.path.join(path, "HEAD"))
    )


def _configured(git_dir: str) -> tuple[bool, str | None]:
    """What git's configuration says: bare or not, and core.worktree made absolute."""
    # Git heeds only these two files here: neither what they include nor the person's own.
    settings = _settings(os.path.join(git_dir, "config"))
    if _is_true(settings.get("extensions.worktreeconfig", "false")):
        settings |= _settings(os.path.join(git_dir, "config.worktree"))
    worktree = settings.get("core.worktree")
    path = os.path.realpath(os.path.join(git_dir, worktree)) if worktree else None
    return _is_true(settings.get("core.bare", "false")), path


def _is_true(value: str) -> bool:
    return value.lower() not in ("false", "no", "off", "0", "")


def _settings(path: str) -> dict[str, str]:
    if not os.path.lexists(path):
        return {}
    simple = _simple_settings(path)
    return _settings_by_git(path) if simple is None else simple


def _simple_settings(path: str) -> dict[str, str] | None:
    """The decisive settings, if the file is written as git itself writes it; None: ask git."""
    try:
        lines = os.fsdecode(files.read(path)).split("\n")
    except Unreadable:
        return None
    found: dict[str, str] = {}
    section = ""
    for line in (line.strip(BLANK) for line in lines):
        if line.startswith("["):
            section = line[1:-1].lower()
            if line.count("[") > 1 or line.find("]") != len(line) - 1:
                return None
        elif line and line[0] not in "#;":
            key, _, value = (part.strip(BLANK) for part in line.partition("="))
            name = f"{section}.{key.lower()}"
            if not _is_simple(key, value) or (name in DECISIVE and not _is_plain(value)):
                return None
            found[name] = value
    return {name: found[name] for name in DECISIVE if name in found}


def _is_simple(key: str, value: str) -> bool:
    # A backslash at the end would continue the line.
    return key.replace("-", "").isalnum() and not value.endswith("\\")


def _is_plain(value: str) -> bool:
    # A key alone means true; quotes, escapes and comments are git's to read.
    return value != "" and set(value).isdisjoint('"\\#;')


def _settings_by_git(path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in git.run("config", "--file", path, "--null", "--list", cwd="/").split("\0"):
        name, equals, value = entry.partition("\n")
        found[name] = value if equals else "true"
    return found


def _line(path: str) -> str:
    # Git strips just this: a name may end in a blank.
    return os.fsdecode(files.read(path)).rstrip("\r\n")
