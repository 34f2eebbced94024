"""Which plans there are, and which one a name means.

On the path of every state command, so nothing heavy is imported here.
"""

from __future__ import annotations

import os

from tugtool import files, repository
from tugtool.errors import (
    NoRepository,
    OutsideRepository,
    PlanAmbiguous,
    PlanNotFound,
    Unreadable,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.repository import Repository

DIRECTORY = ".tugtool"
PREFIX = "tugplan-"
SUFFIX = ".md"
SKELETON = f"{PREFIX}skeleton{SUFFIX}"


class PlanFile:
    """One plan: its key, the same in every worktree, and the copy the caller works from."""

    __slots__ = ("key", "path")

    def __init__(self, key: str, path: str) -> None:
        #: POSIX path relative to the top of the worktree, e.g. `.tugtool/tugplan-foo.md`.
        self.key = key
        #: Absolute path of the file to read.
        self.path = path

    @property
    def slug(self) -> str:
        """The short name: the file name without `tugplan-` and `.md`."""
        return slug_of(os.path.basename(self.key))


def slug_of(name: str) -> str:
    """`tugplan-foo.md`, `tugplan-foo` and `foo.md` all mean `foo`."""
    return name.removesuffix(SUFFIX).removeprefix(PREFIX)


def plans(repo: Repository) -> list[PlanFile]:
    """All plans in `.tugtool/` of the caller's worktree and of the main one, by name."""
    found: dict[str, PlanFile] = {}
    for top in (repo.worktree, repo.root):
        for name in _names(os.path.join(top, DIRECTORY)):
            key = f"{DIRECTORY}/{name}"
            found.setdefault(key, PlanFile(key, os.path.join(top, DIRECTORY, name)))
    # By slug: in file names `foo-bar.md` would stand before `foo.md`.
    return sorted(found.values(), key=lambda plan: plan.slug)


def resolve(repo: Repository, name: str, *, cwd: str) -> PlanFile:
    """The one plan that `name` means: a path, a file name, a slug, or a slug's beginning."""
    known = plans(repo)
    if not name or "\0" in name:
        raise _not_found(name, known)
    by_path = os.path.join(cwd, name)
    if _looks_like_path(name) and os.path.lexists(by_path):
        return _at(repo, by_path)
    named = _named(known, name)
    if named:
        return _at(repo, named.path)
    for path in _possible_paths(repo, name, by_path):
        if os.path.lexists(path):
            return _at(repo, path)
    if "/" in name:
        # Nothing is there; but a path that leaves the repository is refused as such.
        _at(repo, by_path)
    raise _not_found(name, known)


def text(plan: PlanFile, *, max_bytes: int) -> str:
    """What the plan's file says."""
    data = files.read(plan.path, max_bytes=max_bytes, raise_with="--max-bytes N", name=plan.key)
    return files.text(plan.key, data)


def inside(repo: Repository, plan: PlanFile) -> PlanFile:
    """The plan of a listing, refused if it is a link that leads out of the repository."""
    _at(repo, plan.path)
    return plan


def only(repo: Repository) -> PlanFile:
    """The plan that is meant when none is named: there must be exactly one."""
    known = plans(repo)
    if not known:
        raise PlanNotFound(None)
    if len(known) > 1:
        raise PlanAmbiguous("", candidates=[plan.slug for plan in known])
    return _at(repo, known[0].path)


def _names(directory: str) -> list[str]:
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise Unreadable(directory, f"cannot be read: {files.reason(error)}") from error
    return [
        name
        for name in names
        if name.startswith(PREFIX) and name.endswith(SUFFIX) and name != SKELETON
    ]


def _looks_like_path(name: str) -> bool:
    return "/" in name or name.endswith(SUFFIX)


def _possible_paths(repo: Repository, name: str, by_path: str) -> list[str]:
    tops = (repo.worktree, repo.root) if _looks_like_path(name) else ()
    return [*(os.path.join(top, name) for top in tops), by_path]


def _named(known: list[PlanFile], name: str) -> PlanFile | None:
    slug = slug_of(name)
    for plan in known:
        if plan.slug in (name, slug):
            return plan
    starting = [plan for plan in known if slug and plan.slug.startswith(slug)]
    if len(starting) > 1:
        raise PlanAmbiguous(name, candidates=[plan.slug for plan in starting])
    return starting[0] if starting else None


def _at(repo: Repository, path: str) -> PlanFile:
    real = os.path.realpath(path)
    directory = os.path.dirname(real)
    for top in (repo.worktree, repo.root):
        if directory == os.path.join(top, DIRECTORY):
            return PlanFile(f"{DIRECTORY}/{os.path.basename(real)}", real)
    if os.path.isdir(real):
        directory = real
    try:
        # Not a comparison of prefixes: linked worktrees lie inside the main one, and so
        # do submodules, which are other repositories.
        home = repository.containing(directory)
    except NoRepository as error:
        raise OutsideRepository(os.path.normpath(path), root=repo.root) from error
    if home.common_dir != repo.common_dir:
        raise OutsideRepository(os.path.normpath(path), root=repo.root)
    return PlanFile(os.path.relpath(real, home.worktree), real)


def _not_found(name: str, known: list[PlanFile]) -> PlanNotFound:
    from tugtool import nearest

    return PlanNotFound(name, close=nearest.names(slug_of(name), [plan.slug for plan in known]))
