"""Where an agent stands: its directory, its repository, and what lies apart from that."""

from __future__ import annotations

import os

from tugtool.guard.words import UNKNOWN

_TEMPORARY = ("/tmp/", "/var/tmp/", "/private/tmp/", "/var/folders/", "/private/var/folders/")


class Place:
    """The directory of an agent, and the plan that it works on, if that is known."""

    __slots__ = ("_roots", "cwd", "plan", "start")

    def __init__(self, cwd: str, plan: str = "") -> None:
        self.cwd = cwd
        self.plan = plan
        #: Stays, wherever `cd` goes.
        self.start = cwd
        self._roots: list[str] | None = None

    def copy(self) -> Place:
        """The same place, to go on from."""
        made = Place(self.start, self.plan)
        made.cwd, made._roots = self.cwd, self._roots
        return made

    def go(self, path: str) -> None:
        """Go to another directory, as `cd` does."""
        self.cwd = os.path.normpath(os.path.join(self.cwd, _expanded(path)))

    def names(self, path: str) -> list[str]:
        """The file's absolute name, and what it really is if there is a link on the way."""
        name = os.path.normpath(os.path.join(self.cwd, _expanded(path)))
        known, unknown, _ = name.partition(UNKNOWN)
        if not unknown:
            return [name, os.path.realpath(name)]
        known = known.rpartition("/")[0]
        return [name, os.path.realpath(known) + name[len(known) :]] if known else [name]

    def is_directory(self, path: str) -> bool:
        """Whether something can be put into it."""
        special = os.path.basename(path.rstrip("/")).lower() in (".tugtool", ".git", ".", "..")
        return special or any(UNKNOWN not in n and os.path.isdir(n) for n in self.names(path))

    def roots(self) -> list[str]:
        """The repository that the agent works in, and the one that this is a worktree of."""
        if self._roots is None:
            self._roots = []
            for start in dict.fromkeys((self.start, os.path.realpath(self.start))):
                self._roots += _roots(start)
        return self._roots

    def is_apart(self, names: list[str], *, deep: bool = True) -> bool:
        """Whether all lie below the temporary directories, and no repository is touched there.

        Without `deep`, what belongs to git is never apart.
        """
        return all(
            name.startswith(_TEMPORARY)
            and (deep or ".git" not in name.lower().split("/"))
            and not any(_meet(name, root) for root in self.roots())
            and not _is_recorded(name)
            for name in names
        )


def _expanded(path: str) -> str:
    """With somebody's home in place of `~`; behind it, no shell looks at variables."""
    return path if UNKNOWN in path.partition("/")[0] else os.path.expanduser(path)


def _meet(name: str, root: str) -> bool:
    return f"{name}/".startswith(f"{root}/") or f"{root}/".startswith(f"{name}/")


def _roots(start: str) -> list[str]:
    found = []
    above = start
    while above not in ("/", ""):
        git = os.path.join(above, ".git")
        if os.path.lexists(git):
            found.append(above)
            found += _main(git)
        above = os.path.dirname(above)
    return found


def _main(git: str) -> list[str]:
    """The main worktree, as the file says that a linked one has for `.git`."""
    if not os.path.isfile(git):
        return []
    with open(git, encoding="utf-8", errors="replace") as file:
        goal, found, _ = file.read(4096).removeprefix("gitdir:").strip().partition("/.git/")
    return [goal] if found else []


def _is_recorded(name: str) -> bool:
    """Whether it lies in a repository with a state, or in a worktree that belongs to another."""
    above = name
    while above not in ("/", ""):
        state = os.path.join(above, ".tugtool", "state.db")
        if UNKNOWN not in above and (
            os.path.lexists(state) or os.path.isfile(os.path.join(above, ".git"))
        ):
            return True
        above = os.path.dirname(above)
    return False
