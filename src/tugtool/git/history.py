"""Commits: those of a range, their trailers, reverts and first parents; what each changed."""

from __future__ import annotations

from tugtool.git import command as git
from tugtool.git import refs, trailers
from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


_KEYS = ",".join(f"key={key}" for key in (trailers.STEP, trailers.PLAN, trailers.CLAIM))
#: Hash, parents, git's own reading of the trailers, the message: four fields, NUL after each.
_FORMAT = f"%H%x00%P%x00%(trailers:only,unfold,{_KEYS})%x00%B"
_FIELDS = 4

#: Git's line at the start of a revert; the revert of a merge also names the side it keeps.
_REVERT = (
    r"^This reverts commit ([0-9a-f]{40}(?:[0-9a-f]{24})?)"
    r"(?:, reversing\s+changes made to ([0-9a-f]{40}(?:[0-9a-f]{24})?))?(?![0-9a-f])"
)


class Commit:
    """One commit of a range."""

    __slots__ = ("block", "hash", "message", "parents")

    def __init__(self, hash: str, parents: str, block: str, message: str) -> None:
        self.hash = hash
        self.parents = parents.split()
        #: The trailers that git reads, but only ours.
        self.block = block
        self.message = message

    def reverts(self) -> list[tuple[str, str | None]]:
        """The commits that it says it reverts; for a merge, also the side that it keeps."""
        if "This reverts commit" not in self.message:
            return []
        import re  # Not at the top: every commit of a step loads this module.

        found = re.findall(_REVERT, self.message, re.MULTILINE)
        return [(target, kept or None) for target, kept in found]


def list_commits(root: str, tips: Iterable[str], *, since: str | None) -> list[Commit]:
    """Every commit of the tips that `since` does not have; children before their parents."""
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
    """The commits that a later commit reverts, unless that one is reverted itself.

    Later means a descendant: a revert on another branch does not count.
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
    # Children first: a commit's own revert comes before the commits that it reverts.
    for commit in commits:
        for target, kept in says[commit.hash] if commit.hash not in gone else ():
            if below[commit.hash] & bits.get(target, 0):
                gone |= {target} if kept is None else _brought(inside, target, kept)
    return gone


def _ancestors(commits: Sequence[Commit], bits: Mapping[str, int]) -> dict[str, int]:
    """Commit -> its ancestors among the commits in `bits`. One pass, parents first."""
    below: dict[str, int] = {}
    for commit in reversed(commits):
        mask = 0
        for parent in commit.parents:
            mask |= below.get(parent, 0) | bits.get(parent, 0)
        below[commit.hash] = mask
    return below


def _brought(inside: Mapping[str, Commit], merge: str, kept: str) -> set[str]:
    """The commits that a merge brought to the kept side, and the merge itself."""
    return reachable(inside, [merge]) - reachable(inside, [kept])


def reachable(inside: Mapping[str, Commit], tips: Iterable[str]) -> set[str]:
    """The commits of the range that the tips reach."""
    found: set[str] = set()
    pending = [tip for tip in tips if tip in inside]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += [each for each in inside[name].parents if each in inside]
    return found


def first_parents(inside: Mapping[str, Commit], tip: str) -> Iterable[str]:
    """The commits made on the branch itself, newest first: its first parents."""
    name = tip
    while name in inside:
        yield name
        name = next(iter(inside[name].parents), "")


class WorkCommit:
    """One commit: the work that its trailers name, and the files that it changed."""

    __slots__ = ("claims", "files", "hash", "parents", "plans")

    def __init__(
        self, hash: str, parents: list[str], claims: list[str], plans: list[str], files: list[str]
    ) -> None:
        self.hash = hash
        self.parents = parents
        self.claims = claims
        self.plans = plans
        self.files = files

    def is_for(self, plan: str, claim: str) -> bool:
        """True if its trailers name this claim and no other."""
        return self.claims == [claim] and self.plans == [plan]


def commits(
    top: str,
    since: str | None,
    *,
    most: int = 1000,
    keys: tuple[str, str] = (trailers.CLAIM, trailers.PLAN),
) -> list[WorkCommit]:
    """The commits on the worktree's branch since `since`, newest first.

    `keys` are the trailers that name the work, and the plan or dash that it belongs to.
    """
    # The mark before a commit must differ from every file's name.
    mark = os.urandom(9).hex()
    done = git.attempt(
        "log",
        "-z",
        f"--max-count={most}",
        "--name-only",
        "--no-renames",
        "--encoding=UTF-8",
        f"--format={mark}%H%x00%P%x00{_values(keys[0])}%x00{_values(keys[1])}%x00",
        *(["HEAD"] if since is None else [f"{since}..HEAD"]),
        "--",
        cwd=top,
        settings=trailers.SETTINGS,
    )
    # Git fails before the first commit, and if the base was pruned.
    return [] if done.status else list(_parsed(done.out.split("\0"), mark))


def _values(name: str) -> str:
    return f"%(trailers:key={name},valueonly,unfold,separator=%x0a)"


def _parsed(fields: list[str], mark: str) -> Iterator[WorkCommit]:
    at = 0
    while at + 4 < len(fields):
        hash, parents, claims, plans = fields[at : at + 4]
        at += 4
        names: list[str] = []
        while at < len(fields) and not fields[at].startswith(mark):
            names += [fields[at]] if fields[at] else []
            at += 1
        # Git puts a line break between the format and the files.
        names[:1] = [name.removeprefix("\n") for name in names[:1]]
        found = hash.removeprefix(mark)
        yield WorkCommit(found, parents.split(), claims.split("\n"), plans.split("\n"), names)


def carrying(found: list[WorkCommit], plan: str, claim: str) -> WorkCommit | None:
    """The commit that was made for this claim, if any."""
    return next((each for each in found if each.is_for(plan, claim)), None)


class CommitChange:
    """The change of one commit: its title, and each file with the lines added and removed."""

    __slots__ = ("files", "title")

    def __init__(self, title: str, files: list[tuple[str, int | None, int | None]]) -> None:
        self.title = title
        #: None for the lines of a binary file.
        self.files = files


def changes(top: str, hashes: Iterable[str]) -> dict[str, CommitChange]:
    """Commit -> its change, for the commits that are in this clone."""
    wanted = [*dict.fromkeys(hashes)]
    mark = os.urandom(9).hex()
    done = _log(top, wanted, mark)
    if done.status > 0:
        # Git refuses all if it lacks one, whatever its option --ignore-missing is said to do.
        lacking = refs.unknown(top, wanted)
        done = _log(top, [each for each in wanted if each not in lacking], mark)
    found = {}
    for part in done.require(("log", "--stdin")).split(mark)[1:]:
        hash, title, *rows = part.split("\0")
        lines = [row.lstrip("\n").split("\t", 2) for row in rows]
        files = [(line[2], _lines(line[0]), _lines(line[1])) for line in lines if len(line) == 3]
        found[hash] = CommitChange(title.rstrip("\n"), files)
    return found


def _log(top: str, hashes: list[str], mark: str) -> git.Done:
    if not hashes:
        return git.Done(0, "", "")  # Without any, git would show the last one.
    return git.attempt(
        *("log", "--stdin", "--no-walk=unsorted", "-z", "--numstat"),
        *("--no-renames", "--first-parent", "-m", f"--format={mark}%H%x00%s"),
        cwd=top,
        given="".join(f"{each}\n" for each in hashes),
    )


def _lines(number: str) -> int | None:
    return int(number) if number.isdecimal() else None
