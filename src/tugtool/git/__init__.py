"""Finds the repository and the worktree by reading `.git`, without starting git.

The plain cases (main worktree, sub-directory, linked worktree, submodule) are read from
git's own files. In unusual cases (GIT_DIR set, core.worktree in a main worktree, a
configuration in a form that git itself does not write) git is asked.

Room `git`: only its modules start git, and none uses the record. It imports errors and system;
plan, workflow, implement and cli may import it.
"""

from __future__ import annotations

from tugtool import errors
from tugtool.errors import quoted
from tugtool.system import config, files, os

#: The settings of git that decide where a working tree is, and who may write to it.
DECISIVE = ("core.bare", "core.worktree", "core.sharedrepository", "extensions.worktreeconfig")
#: The characters that are blank in git's configuration; Python has more.
BLANK = " \t\r"


class Repository:
    """The paths of a repository. All are real and absolute."""

    __slots__ = ("common_dir", "root", "sharing", "worktree")

    def __init__(
        self, root: str, worktree: str, common_dir: str, sharing: str | None = None
    ) -> None:
        #: Top directory of the main worktree; `.tugtool/` and the state live here.
        self.root = root
        #: Top directory of the worktree that contains the caller.
        self.worktree = worktree
        #: Git's own directory, shared by all worktrees.
        self.common_dir = common_dir
        #: The value of `core.sharedRepository`, if it is set.
        self.sharing = sharing


def discover(start: str) -> Repository:
    """The repository that the directory `start` belongs to."""
    start = os.path.realpath(start)
    if config.git_location_is_forced():
        return _ask_git(start, located_by_environment=True)
    return containing(start)


def containing(start: str) -> Repository:
    """The repository that contains `start`, by its files alone, not by the environment."""
    directory = start = os.path.realpath(start)
    while True:
        found = _inspect(directory)
        if found is not None:
            _refuse_stray(start, directory)
            return found
        parent = os.path.dirname(directory)
        if parent == directory:
            hint = "cd to your repository; or, to make a new one here: git init"
            raise errors.NoRepository(start, reason="is not inside a git repository", hint=hint)
        directory = parent


def _refuse_stray(start: str, top: str) -> None:
    """Refuse a directory among the worktrees that is not one: git would use the main worktree."""
    inside = start.removeprefix(os.path.join(top, config.TREES_PATH, ""))
    if inside != start:
        path = os.path.join(top, config.TREES_PATH, inside.split(os.sep)[0])
        reason = "has no .git, so it is not a worktree: git would work on the main one"
        raise errors.NoRepository(path, reason=reason, hint="git worktree list")


def worktree_identity(repo: Repository, given: str | None, *, cwd: str) -> str:
    """The caller's worktree: the one that it names, or its current one."""
    if given is None:
        return repo.worktree
    for base in dict.fromkeys((cwd, repo.root)):
        path = os.path.join(base, given)
        if os.path.exists(path):
            real = os.path.realpath(path)
            try:
                return containing(real if os.path.isdir(real) else os.path.dirname(real)).worktree
            except errors.NoRepository:
                return real
    # A deleted worktree keeps its identity, so that its claims can be released.
    return os.path.normpath(os.path.join(repo.root, given))


def git_dir(worktree: str) -> str:
    """Git's directory of one worktree, with its HEAD, its index, and merges under way."""
    marker = os.path.join(worktree, ".git")
    if not os.path.isfile(marker):
        return os.path.realpath(marker)
    return os.path.realpath(os.path.join(worktree, _line(marker).partition(": ")[2]))


def _inspect(directory: str) -> Repository | None:
    marker = os.path.join(directory, ".git")
    if os.path.isfile(marker):
        return _from_file(directory, marker)
    if _is_git_dir(marker):
        common_dir = os.path.realpath(marker)
        bare, worktree, sharing = _configured(common_dir)
        if not bare and not worktree:
            return Repository(directory, directory, common_dir, sharing)
        return _ask_git(directory)
    if _is_git_dir(directory):
        raise errors.NoRepository(directory, reason="is a git directory and not a working tree")
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
        raise errors.NoRepository(worktree, reason=reason, hint="git worktree repair")
    if is_linked:
        return _linked(common_dir, worktree)
    bare, configured, sharing = _configured(git_dir)
    if not bare and configured in (None, worktree):
        return Repository(worktree, worktree, git_dir, sharing)
    return _ask_git(worktree)


def _linked(common_dir: str, worktree: str) -> Repository:
    bare, configured, sharing = _configured(common_dir)
    if bare:
        reason = "is a linked worktree of a bare repository; work in a clone, which has a main one"
        raise errors.NoRepository(
            worktree, reason=reason, hint=f"git clone {quoted(common_dir)} DIR"
        )
    if configured or os.path.basename(common_dir) == ".git":
        root = configured or os.path.dirname(common_dir)
        return Repository(root, worktree, common_dir, sharing)
    reason = f"has its git directory at {common_dir}, which names no main working tree"
    raise errors.NoRepository(worktree, reason=reason, hint="git worktree list")


def _ask_git(start: str, *, located_by_environment: bool = False) -> Repository:
    from tugtool.git import command as git  # The plain cases start no git.

    def ask(option: str) -> str:
        out = git.run("rev-parse", option, cwd=start, located_by_environment=located_by_environment)
        return out.removesuffix("\n")

    try:
        if ask("--is-bare-repository") == "true":
            reason = "belongs to a bare repository, which has no working tree"
            raise errors.NoRepository(start, reason=reason)
        worktree = ask("--show-toplevel")
        git_dir, common_dir = (
            os.path.realpath(os.path.join(start, ask(option)))
            for option in ("--absolute-git-dir", "--git-common-dir")
        )
    except errors.GitFailed as error:
        reason = "is not inside a git repository with a working tree"
        raise errors.NoRepository(
            start, reason=reason, hint="git rev-parse --show-toplevel"
        ) from error
    if git_dir == common_dir and os.path.basename(common_dir) != ".git":
        return Repository(worktree, worktree, common_dir, _configured(common_dir)[2])
    return _linked(common_dir, worktree)


def _is_git_dir(path: str) -> bool:
    return (
        os.path.isdir(os.path.join(path, "objects"))
        and os.path.isdir(os.path.join(path, "refs"))
        and os.path.lexists(os.path.join(path, "HEAD"))
    )


def _configured(git_dir: str) -> tuple[bool, str | None, str | None]:
    """From git's configuration: True if bare, the absolute core.worktree, and the sharing."""
    # For these settings git reads only these two files, without their includes.
    settings = _settings(os.path.join(git_dir, "config"))
    if _is_true(settings.get("extensions.worktreeconfig", "false")):
        settings |= _settings(os.path.join(git_dir, "config.worktree"))
    worktree = settings.get("core.worktree")
    path = os.path.realpath(os.path.join(git_dir, worktree)) if worktree else None
    bare = _is_true(settings.get("core.bare", "false"))
    return bare, path, settings.get("core.sharedrepository")


def origin_url(common_dir: str) -> str:
    """The address of the remote `origin`, as the repository's configuration has it; or nothing."""
    text = os.fsdecode(files.read(os.path.join(common_dir, "config")))
    part = text.partition('[remote "origin"]')[2].partition("\n[")[0]
    return part.partition("\turl = ")[2].partition("\n")[0].strip(BLANK).strip('"')


def _is_true(value: str) -> bool:
    return value.lower() not in ("false", "no", "off", "0", "")


def _settings(path: str) -> dict[str, str]:
    if not os.path.lexists(path):
        return {}
    simple = _simple_settings(path)
    return _settings_by_git(path) if simple is None else simple


def _simple_settings(path: str) -> dict[str, str] | None:
    """The decisive settings, if the file has the form that git writes; None: ask git."""
    try:
        lines = os.fsdecode(files.read(path)).split("\n")
    except errors.Unreadable:
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
    # A key alone means true; values with quotes, escapes or comments are left to git.
    return value != "" and set(value).isdisjoint('"\\#;')


def _settings_by_git(path: str) -> dict[str, str]:
    from tugtool.git import command as git

    found: dict[str, str] = {}
    for entry in git.run("config", "--file", path, "--null", "--list", cwd="/").split("\0"):
        name, equals, value = entry.partition("\n")
        found[name] = value if equals else "true"
    return found


def _line(path: str) -> str:
    # Git strips only line ends: a name may end in a blank.
    return os.fsdecode(files.read(path)).rstrip("\r\n")
