"""The worktree that an agent works in, and the directories in which its commands run."""

from __future__ import annotations

from tugtool.agents.guard import programs, shell
from tugtool.agents.guard.location import UNKNOWN, upwards
from tugtool.agents.guard.shell import Unclear
from tugtool.system import config, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.agents.guard.location import AgentLocation, Region
    from tugtool.agents.guard.shell import Simple


#: A line that can run in more directories is refused.
_MOST_PLACES = 40
#: A limit on the time, because clients do not wait long.
_MOST_JUDGED = 3000
#: The number of rounds of a loop that are judged.
_ROUNDS = 3
#: Commands that do not fail, as agents use them.
_SURE = (
    *(":", ".", "echo", "export", "mkdir", "printf", "pwd", "set", "source", "true", "ulimit"),
    *("umask", "unset"),
)


def outside(path: str, place: AgentLocation, *, removed: bool = False) -> tuple[str, str]:
    """The real path, and where to work instead; "" if the path is in the worktree."""
    real = place.names(path, itself=removed)[-1]
    own = _own(place)
    inside = _is_below(real, own) if own else _is_in_any(real, place)
    return real, "" if inside else _advice(own, place)


def other_repository(path: str, place: AgentLocation) -> str:
    """Advice, if the path is in another repository than the agent; otherwise ""."""
    return "" if _is_here(path, place) else "write plans of the repository that you work in"


def _is_here(path: str, place: AgentLocation) -> bool:
    """True if the path is in the repository in which the agent was started, if there is one."""
    real = place.names(path)[-1]
    roots = [os.path.realpath(root) for root in place.roots()]
    return not roots or any(_is_below(real, root) for root in roots)


def _is_below(path: str, top: str) -> bool:
    return f"{path}/".startswith(f"{top}/")


def _own(place: AgentLocation) -> str:
    """The worktree that the agent was given, started in or went to; "" if there is none."""
    # In the main worktree `.git` is a directory.
    if place.worktree and os.path.isfile(os.path.join(place.worktree, ".git")):
        return os.path.realpath(place.worktree)
    started = _worktree_of(os.path.realpath(place.start))
    return started or _worktree_of(place.names(".")[-1])


def _worktree_of(path: str) -> str:
    for above in upwards(path):
        parent = os.path.basename(os.path.dirname(above))
        if parent == config.TREES_PATH and os.path.lexists(os.path.join(above, ".git")):
            return above
    return ""


def _is_in_any(path: str, place: AgentLocation) -> bool:
    """True if the path is in a worktree of the repository in which the agent was started."""
    return bool(_worktree_of(path)) and _is_here(path, place)


def _advice(own: str, place: AgentLocation) -> str:
    if own:
        return f"name a path below {own}, and begin a command with `cd {own} && ...`"
    for root in place.roots():
        trees = os.path.join(root, config.TREES_PATH)
        names = sorted(os.listdir(trees)) if os.path.isdir(trees) else []
        found = [name for name in names if os.path.lexists(os.path.join(trees, name, ".git"))]
        if found:
            known = found[0] if len(found) == 1 else "NAME"
            others = "" if len(found) == 1 else f"; NAME is one of {', '.join(found[:9])}"
            return (
                f"name a path below {trees}/{known}, and begin a command with "
                f"`cd {trees}/{known} && ...`{others}"
            )
    return "say in your answer that there is no worktree to work in"


def env_place(words: list[str], place: AgentLocation) -> AgentLocation:
    """The directory in which `env -C` starts its program."""
    place = place.copy()
    for at, word in enumerate(words):
        if programs.called([word]) == "env":
            rest = words[at:]
            before = rest[1 : len(rest) - len(programs.inner(rest))]
            for directory in programs.values(before, "C", "--chdir", "uS"):
                place.go(directory)
    return place


class Walk:
    """The directories in which each command of a line can run."""

    def __init__(self, places: list[AgentLocation], judged: int) -> None:
        self.places = places
        #: The number of commands judged so far, counted once per directory.
        self.judged = judged
        #: The open regions, and the directories in which each was entered.
        self.open: list[tuple[Region, list[AgentLocation]]] = []
        #: For a `cd` that may fail: the directories before it.
        self.stayed: dict[object, list[AgentLocation]] = {}
        #: The directories in which a loop ends, and its next round begins.
        self.ended: dict[Region, list[AgentLocation]] = {}

    def again(self, places: list[AgentLocation], rounds: int) -> bool:
        """Start the next round; False if no loop has changed its directory."""
        self.places, self.open = places, []
        return bool(self.ended) and rounds < _ROUNDS

    def reach(self, simple: Simple) -> list[AgentLocation]:
        """The directories in which a command runs, after all commands before it."""
        kept = 0
        for (region, _), other in zip(self.open, simple.scope, strict=False):
            if region is not other:
                break
            kept += 1
        while len(self.open) > kept:
            self._leave(*self.open.pop())
        for region in simple.scope[kept:]:
            self.open.append((region, self.places))
            self._may_be(self.ended.get(region, []))
        self.judged += len(self.places)
        if self.judged > _MOST_JUDGED:
            raise Unclear("it runs very many commands: run its parts as commands of their own")
        return self.places

    def _leave(self, region: Region, entered: list[AgentLocation]) -> None:
        if region.kind == "for" and {each.cwd for each in self.places} - {e.cwd for e in entered}:
            self.ended[region] = self.places
        if region.kind == "(":
            self.places = entered
        elif not isinstance(region.after, shell.Simple):
            self._may_be(entered)
        elif region.after in self.stayed:
            self._may_be(self.stayed[region.after])
        elif programs.called(_plain(region.after.words)) not in (*_SURE, *programs.MOVING):
            self._may_be(entered)

    def _may_be(self, others: list[AgentLocation]) -> None:
        known = [(each.cwd, each.pushed) for each in self.places]
        self.places = self.places + [
            each for each in others if (each.cwd, each.pushed) not in known
        ]
        if len(self.places) > _MOST_PLACES:
            raise Unclear("it goes to many directories: run its parts as commands of their own")

    def follow(self, simple: Simple, left: list[AgentLocation]) -> list[AgentLocation]:
        """The directories after a command; `left` are those in which an `eval` ended."""
        words = _plain(simple.words)
        if left:
            self.places = left[:1]
            self._may_be(left[1:])
        elif programs.called(words) in programs.MOVING and not _is_piped(simple):
            before, self.places = self.places, [_gone(words, place) for place in self.places]
            if not all(map(_exists, self.places)):
                if simple.ends == "&&":
                    self.stayed[simple] = before
                else:
                    self._may_be(before)
        return self.places


def _plain(words: list[str]) -> list[str]:
    return programs.inner(words) if words[:1] in (["builtin"], ["command"]) else words


def _is_piped(simple: Simple) -> bool:
    """True if the command runs in a subshell."""
    return simple.before is not None or simple.ends in ("|", "|&")


def _exists(place: AgentLocation) -> bool:
    known = UNKNOWN not in place.cwd and not place.cwd.startswith(shell.TEMPORARY)
    return not known or os.path.isdir(place.cwd)


def _gone(words: list[str], place: AgentLocation) -> AgentLocation:
    name, made = programs.called(words), place.copy()
    goal = [word for word in words[1:] if word == "-" or word[:1] != "-"]
    last, kept = made.pushed[0], made.pushed[1:]
    if name == "popd":
        made.cwd, made.pushed = (*kept[-1:], UNKNOWN)[0], (place.cwd, *kept[:-1])
        return made
    if goal[:1] == ["-"]:
        made.cwd = last
    elif goal or name == "cd":
        made.go((*goal, "~")[0])
    made.pushed = (place.cwd, *kept, *([place.cwd] if name == "pushd" else []))
    return made
