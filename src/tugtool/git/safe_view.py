"""Git for commands that only look: it runs no program that the repository's own settings name.

The person's own settings count: a filter that is set up for all repositories, such as git-lfs,
runs. Hooks, file monitors, remotes and signers never do. Meanwhile a touched file with a filter
of the repository counts as changed, and a merge that needs a driver of the repository conflicts.
"""

from __future__ import annotations

from tugtool.errors import TugError
from tugtool.git import containing, git_dir
from tugtool.system import config, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Settings that name a program which git runs when it compares, merges or signs something.
_PROGRAMS = (
    r"^filter\..*\.(clean|smudge|process)$|^merge\..*\.driver$|^hook\..*\.command$"
    r"|^(commit|tag)\.gpgsign$|^gpg\.(.*\.)?(program|defaultkeycommand)$"
)
#: Commands that read only git's own files: no filter and no driver can run.
_PLAIN_READS = frozenset(
    (
        *("rev-parse", "rev-list", "for-each-ref", "show-ref", "symbolic-ref", "merge-base"),
        *("ls-tree", "ls-files", "cat-file", "config", "remote", "var", "log", "show", "diff-tree"),
        *("check-ignore", "check-attr", "check-ref-format", "interpret-trailers", "worktree"),
        *("count-objects", "update-ref", "mktree", ""),
    )
)
#: In place of hooks. `rev-parse` has to name the real directory of hooks.
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
#: A clone that lacks objects would fetch them, by the programs that its settings name.
_NO_REMOTES = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}


class SafeView:
    """Makes this thread's git calls harmless for a while; whole commands are so by their name."""

    def __init__(self) -> None:
        self._before: dict[str, dict[str, str]] | None = None

    def __enter__(self) -> None:
        self._before = getattr(config.mode, "looking", None)
        config.mode.looking = {}

    def __exit__(self, *_: object) -> None:
        config.mode.looking = self._before


def options(arguments: Sequence[str]) -> tuple[str, ...]:
    """The options in front of git's command."""
    return () if _command(arguments) == "rev-parse" else _NO_HOOKS


def variables(arguments: Sequence[str], cwd: str) -> dict[str, str]:
    """The variables that override the repository's own settings in force at `cwd`."""
    if _command(arguments) in _PLAIN_READS:
        return _NO_REMOTES
    if getattr(config.mode, "looking", None) is None:
        config.mode.looking = {}
    known = config.mode.looking
    if cwd not in known:
        # The calls of git below come here too.
        known[cwd] = {}
        known[cwd] = _overriding(dict(_programs(cwd)))
    return {**_NO_REMOTES, **known[cwd]}


def index_copy(environment: dict[str, str], cwd: str) -> int | None:
    """An open copy of the index with a later time, if settings are overridden.

    Git would read, and filter, every file that was written in the same second as the index.
    The caller closes it.
    """
    if "GIT_CONFIG_COUNT" not in environment or not os.path.lexists(os.path.join(cwd, ".git")):
        return None
    try:
        with open(os.path.join(git_dir(cwd), "index"), "rb") as file:
            data = file.read()
    except (OSError, TugError):
        return None
    copy = _unnamed()
    view = memoryview(data)
    while view:
        view = view[os.write(copy, view) :]
    later = os.fstat(copy).st_mtime + 10
    os.utime(copy, (later, later))
    return copy


def _unnamed() -> int:
    """A new file without a name: nothing is left of it."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("index")
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def is_signed_by_repository(cwd: str) -> bool:
    """True if the repository's own settings ask for signatures, or name the signer."""
    return any("gpg" in name for name in _own_programs(cwd))


def _command(arguments: Sequence[str]) -> str:
    return next((word for word in arguments if not word.startswith("-")), "")


def _programs(cwd: str) -> Iterator[tuple[str, str]]:
    """The repository's own settings that make git run a program, each with a harmless value."""
    for name in _own_programs(cwd):
        group = name.rpartition(".")[0]
        if group.startswith("merge."):
            yield name, "false"
        elif group.startswith("hook."):
            yield f"{group}.enabled", "false"
        elif group.startswith("filter."):
            yield from ((f"{group}.{key}", "") for key in ("clean", "smudge", "process"))
            yield f"{group}.required", "false"
        else:
            yield name, "false"
    # Git reads submodules too, and they have their own settings.
    from tugtool.git.command import submodules

    for name in submodules(cwd) if os.path.lexists(os.path.join(cwd, ".git")) else ():
        yield from _programs(os.path.join(cwd, name))


def _own_programs(cwd: str) -> list[str]:
    from tugtool.git import command as git

    words = ("config", "--null", "--show-scope", "--name-only", "--get-regexp", _PROGRAMS)
    fields = git.attempt(*words, cwd=cwd).out.split("\0")
    pairs = zip(fields[::2], fields[1::2], strict=False)
    return [name for scope, name in pairs if scope in ("local", "worktree")]


def _overriding(settings: dict[str, str]) -> dict[str, str]:
    if not settings:
        return {}
    # Not `-c`: a name may contain an equals sign.
    found = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings.items()):
        found |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def replaced(top: str) -> list[str]:
    """Submodules whose git directory, or that of one in them, is not in the repository's own.

    A confined agent may have made that directory, and git runs the filters that it names.
    """
    return _outside(top, os.path.join(containing(top).common_dir, ""))


def _outside(top: str, own: str) -> list[str]:
    from tugtool.git.command import submodules

    there = [(name, os.path.join(top, name)) for name in submodules(top)]
    return [
        name for name, path in there if not git_dir(path).startswith(own) or _outside(path, own)
    ]
