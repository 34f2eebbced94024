"""The location of an agent, and paths of which only a part is known."""

from __future__ import annotations

from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


#: Stands for any text that the shell would insert; no command can contain it.
UNKNOWN = "\0"
#: A name with fewer known characters may be anything, and counts as not special.
_LEAST = 3


def matches(pattern: str, name: str) -> bool:
    """True if the pattern can become the name; UNKNOWN stands for any text."""
    first, *others = pattern.split(UNKNOWN)
    if not others:
        return pattern == name
    *middle, last = others
    if not name.startswith(first) or not name[len(first) :].endswith(last):
        return False
    rest = name[len(first) : len(name) - len(last)]
    for piece in middle:
        _, found, rest = rest.partition(piece) if piece else ("", "x", rest)
        if not found:
            return False
    return True


def may_be(pattern: str, name: str) -> bool:
    """True if the pattern is, or probably becomes, the name; patterns skip hidden names."""
    if UNKNOWN not in pattern:
        return pattern == name
    known = len(pattern.replace(UNKNOWN, ""))
    return known >= (_LEAST if pattern[0] == UNKNOWN else 1) and matches(pattern, name)


def begins(parts: list[str], pattern: list[str]) -> bool:
    """True if the path can begin with the parts of the pattern."""
    pairs = zip(pattern, parts, strict=False)
    return len(pattern) <= len(parts) and all(matches(each, part) for each, part in pairs)


_TEMPORARY = ("/tmp/", "/var/tmp/", "/private/tmp/", "/var/folders/", "/private/var/folders/")


class AgentLocation:
    """An agent's directory, and its plan and worktree, if known."""

    __slots__ = ("_roots", "cwd", "plan", "pushed", "start", "worktree")

    def __init__(self, cwd: str, plan: str = "", worktree: str = "") -> None:
        self.cwd = cwd
        self.plan, self.worktree = plan, worktree
        #: The first directory, which `cd` does not change.
        self.start = cwd
        #: The directory for `cd -`, and then the directories that `pushd` has saved.
        self.pushed: tuple[str, ...] = (cwd,)
        self._roots: list[str] | None = None

    def copy(self) -> AgentLocation:
        """A copy that can change its directory."""
        made = AgentLocation(self.start, self.plan, self.worktree)
        made.cwd, made.pushed, made._roots = self.cwd, self.pushed, self._roots
        return made

    def go(self, path: str) -> None:
        """Go to another directory, as `cd` does."""
        self.cwd = os.path.normpath(os.path.join(self.cwd, _expanded(path)))

    def names(self, path: str, *, itself: bool = False) -> list[str]:
        """The file's absolute name, and its real name behind links.

        With `itself`, a last link is not followed.
        """
        joined = os.path.join(self.cwd, _expanded(path))
        name = os.path.normpath(joined)
        known, unknown, _ = name.partition(UNKNOWN)
        if not unknown:
            # After a link, `..` is not the link's own directory.
            joined = name if UNKNOWN in joined else joined
            real = os.path.realpath(joined)
            if itself and os.path.islink(joined):
                above, last = os.path.split(joined)
                real = os.path.join(os.path.realpath(above), last)
            return [name, real]
        known = known.rpartition("/")[0]
        return [name, os.path.realpath(known) + name[len(known) :]] if known else [name]

    def is_directory(self, path: str) -> bool:
        """True if the path is a directory, or has the name of one."""
        special = os.path.basename(path.rstrip("/")).lower() in (".tugtool", ".git", ".", "..")
        return special or any(UNKNOWN not in n and os.path.isdir(n) for n in self.names(path))

    def roots(self) -> list[str]:
        """The agent's repositories: its worktree, and the main worktree of that."""
        if self._roots is None:
            self._roots = []
            for start in dict.fromkeys((self.start, os.path.realpath(self.start))):
                self._roots += _roots(start)
        return self._roots

    def is_apart(self, names: list[str], *, deep: bool = True) -> bool:
        """True if all names are below the temporary directories, outside of recorded repositories.

        Without `deep`, names inside a `.git` are never apart.
        """
        return all(
            name.startswith(_TEMPORARY)
            and (deep or ".git" not in name.lower().split("/"))
            and not any(_meet(name, root) for root in self.roots())
            and not _is_recorded(name)
            for name in names
        )


class Region:
    """A part of a command line; a `cd` in it may not count after its end."""

    __slots__ = ("after", "kind")

    def __init__(self, kind: str, after: object = None) -> None:
        #: `(` runs in a subshell. `for` may run several times or never; `{` (up to `fi` or `}`)
        #: and `&&` (the rest of a list) may not run.
        self.kind = kind
        #: The command that decides whether it runs.
        self.after = after


class Regions:
    """The open regions at a place in a command line, the outermost first."""

    _OPENING = ("if", "while", "until", "{", "for", "select", "case", "else", "elif")
    _LOOPS = ("while", "until", "for", "select")
    _CLOSING = ("fi", "done", "}", "esac", "else", "elif")

    def __init__(self) -> None:
        self.open: tuple[Region, ...] = ()

    def add(self, kind: str, after: object = None) -> None:
        """Open a region."""
        self.open = (*self.open, Region(kind, after))

    def end_list(self) -> None:
        """Close the regions that a `;` ends."""
        while self.open and self.open[-1].kind == "&&":
            self.open = self.open[:-1]

    def keyword(self, word: str) -> None:
        """Close and open the regions that a keyword ends and begins."""
        if word in self._CLOSING:
            self.end_list()
            if self.open and self.open[-1].kind in ("{", "for"):
                self.open = self.open[:-1]
        if word in self._OPENING:
            self.add("for" if word in self._LOOPS else "{")


def _expanded(path: str) -> str:
    """The path with `~` replaced; the shell does not expand a name that a variable gives."""
    return path if UNKNOWN in path.partition("/")[0] else os.path.expanduser(path)


def _meet(name: str, root: str) -> bool:
    return f"{name}/".startswith(f"{root}/") or f"{root}/".startswith(f"{name}/")


def upwards(path: str) -> Iterator[str]:
    """The path, and the directories above it."""
    while path not in ("/", ""):
        yield path
        path = os.path.dirname(path)


def _roots(start: str) -> list[str]:
    found = []
    for above in upwards(start):
        git = os.path.join(above, ".git")
        if os.path.lexists(git):
            found += [above, *_main(git)]
    return found


def _main(git: str) -> list[str]:
    """The main worktree that the `.git` file of a linked worktree names."""
    if not os.path.isfile(git):
        return []
    with open(git, encoding="utf-8", errors="replace") as file:
        goal, found, _ = file.read(4096).removeprefix("gitdir:").strip().partition("/.git/")
    return [goal] if found else []


def _is_recorded(name: str) -> bool:
    """True if the name is in a repository with a state, or in a linked worktree."""
    return any(
        os.path.lexists(os.path.join(above, ".tugtool", "state.db"))
        or os.path.isfile(os.path.join(above, ".git"))
        for above in upwards(name)
        if UNKNOWN not in above
    )
