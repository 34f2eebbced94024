"""The commits of a range: what each says, which are undone, and on which line they lie."""

from __future__ import annotations

import re

from tugtool import git, trailers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_KEYS = ",".join(f"key={key}" for key in (trailers.STEP, trailers.PLAN, trailers.CLAIM))
#: Hash, parents, git's own reading of the trailers, the message: four fields, NUL after each.
_FORMAT = f"%H%x00%P%x00%(trailers:only,unfold,{_KEYS})%x00%B"
_FIELDS = 4

#: As git writes it, alone at the beginning of a line; a merge also names the side it goes back to.
_REVERT = re.compile(
    r"^This reverts commit ([0-9a-f]{40}(?:[0-9a-f]{24})?)"
    r"(?:, reversing\s+changes made to ([0-9a-f]{40}(?:[0-9a-f]{24})?))?(?![0-9a-f])",
    re.MULTILINE,
)


class Commit:
    """One commit of a range."""

    __slots__ = ("block", "hash", "message", "parents")

    def __init__(self, hash: str, parents: str, block: str, message: str) -> None:
        self.hash = hash
        self.parents = parents.split()
        #: What git takes for trailers; of those, only ours.
        self.block = block
        self.message = message

    def reverts(self) -> list[tuple[str, str | None]]:
        """The commits it says it undoes; for a merge, also the side that was kept."""
        if "This reverts commit" not in self.message:
            return []
        return [(target, kept or None) for target, kept in _REVERT.findall(self.message)]


def read(root: str, tips: Iterable[str], *, since: str | None) -> list[Commit]:
    """Every commit that the tips have and `since` has not; children before their parents."""
    wanted = [*dict.fromkeys(tips), *([f"^{since}"] if since else [])]
    out = git.run(
        *("log", "--stdin", "-z", "--date-order", f"--format={_FORMAT}"),
        cwd=root,
        settings=trailers.SETTINGS,
        given="".join(f"{each}\n" for each in wanted),
    )
    fields = out.split("\0")
    return [
        Commit(*fields[start : start + _FIELDS]) for start in range(0, len(fields) - 1, _FIELDS)
    ]


def reverted(commits: Sequence[Commit]) -> set[str]:
    """The commits that a later one undoes which is not undone itself.

    Later means a descendant: what was reverted elsewhere stays where it is.
    """
    says = {commit.hash: commit.reverts() for commit in commits}
    inside = {commit.hash: commit for commit in commits}
    named = dict.fromkeys(
        target for each in says.values() for target, _ in each if target in inside
    )
    if not named:
        return set()
    bits = {target: 1 << place for place, target in enumerate(named)}
    below = _ancestors(commits, bits)
    gone: set[str] = set()
    # Children first: whether a commit is undone is known before what it undoes is looked at.
    for commit in commits:
        for target, kept in says[commit.hash] if commit.hash not in gone else ():
            if below[commit.hash] & bits.get(target, 0):
                gone |= {target} if kept is None else _brought(inside, target, kept)
    return gone


def _ancestors(commits: Sequence[Commit], bits: Mapping[str, int]) -> dict[str, int]:
    """Commit -> which of the commits in `bits` are behind it. One pass, parents first."""
    below: dict[str, int] = {}
    for commit in reversed(commits):
        mask = 0
        for parent in commit.parents:
            mask |= below.get(parent, 0) | bits.get(parent, 0)
        below[commit.hash] = mask
    return below


def _brought(inside: Mapping[str, Commit], merge: str, kept: str) -> set[str]:
    """What a merge brought to the side that its revert went back to, and the merge itself."""
    return reachable(inside, [merge]) - reachable(inside, [kept])


def reachable(inside: Mapping[str, Commit], tips: Iterable[str]) -> set[str]:
    """The commits of the range that the tips have."""
    found: set[str] = set()
    pending = [tip for tip in tips if tip in inside]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += [each for each in inside[name].parents if each in inside]
    return found


def line(inside: Mapping[str, Commit], tip: str) -> Iterable[str]:
    """What was committed on a branch itself, newest first: its first parents."""
    name = tip
    while name in inside:
        yield name
        name = next(iter(inside[name].parents), "")
