"""The list of plans, the plan that a name stands for, and the text of a new plan."""

from __future__ import annotations

from tugtool import errors
from tugtool.git import containing
from tugtool.system import files, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from tugtool.git import Repository


#: Above this size OpenSSL saves more time than its import costs.
_LARGE = 256 * 1024

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
    """The slug in a name: `foo` for `tugplan-foo.md`, `tugplan-foo` and `foo.md`."""
    return name.removesuffix(SUFFIX).removeprefix(PREFIX)


def plans(repo: Repository) -> list[PlanFile]:
    """All plans in `.tugtool/` of the caller's worktree and of the main one, by name."""
    return plans_in(repo.worktree, repo.root)


def plans_in(*tops: str) -> list[PlanFile]:
    """All plans in `.tugtool/` of these worktrees, by name; the first that has one counts."""
    found: dict[str, PlanFile] = {}
    for top in tops:
        for name in _names(os.path.join(top, DIRECTORY)):
            key = f"{DIRECTORY}/{name}"
            found.setdefault(key, PlanFile(key, os.path.join(top, DIRECTORY, name)))
    # By slug: by file name `foo-bar.md` would come before `foo.md`.
    return sorted(found.values(), key=lambda plan: plan.slug)


def by_text(files: Iterable[PlanFile]) -> dict[str, str]:
    """The hash of each readable plan file's text -> the file's key."""
    found: dict[str, str] = {}
    for file in files:
        try:
            found.setdefault(file_fingerprint(file.path), file.key)
        except errors.Unreadable:
            continue
    return found


def resolve(repo: Repository, name: str, *, cwd: str) -> PlanFile:
    """The plan that `name` stands for: a path, a file name, a slug, or a slug's beginning."""
    known = plans(repo)
    if not name or "\0" in name:
        raise _not_found(repo, name, known)
    by_path = os.path.join(cwd, name)
    if _looks_like_path(name) and os.path.lexists(by_path):
        return _at(repo, by_path)
    named = _named(known, name)
    if named:
        return _at(repo, named.path)
    tops = (repo.worktree, repo.root) if _looks_like_path(name) else ()
    for path in (*(os.path.join(top, name) for top in tops), by_path):
        # A directory that only happens to have this name is not meant.
        if os.path.lexists(path) and (tops or not os.path.isdir(path)):
            return _at(repo, path)
    if "/" in name:
        # There is no such file, but a path outside the repository has its own refusal.
        _at(repo, by_path)
    raise _not_found(repo, name, known)


def plan_text(plan: PlanFile, *, max_bytes: int) -> str:
    """The text of the plan's file."""
    data = files.read(plan.path, max_bytes=max_bytes, raise_with="--max-bytes N", name=plan.key)
    return files.text(plan.key, data)


def inside(repo: Repository, plan: PlanFile) -> PlanFile:
    """The plan; refuses a link that leads out of the repository."""
    _at(repo, plan.path)
    return plan


def only(repo: Repository) -> PlanFile:
    """The plan when none is named: there must be exactly one."""
    known = plans(repo)
    if not known:
        raise errors.PlanNotFound(None, sparse=is_sparse(repo))
    if len(known) > 1:
        raise errors.PlanAmbiguous("", candidates=[plan.slug for plan in known])
    return _at(repo, known[0].path)


def _names(directory: str) -> list[str]:
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise errors.Unreadable(directory, f"cannot be read: {files.reason(error)}") from error
    return [
        name
        for name in names
        if name.startswith(PREFIX) and name.endswith(SUFFIX) and name != SKELETON
    ]


def _looks_like_path(name: str) -> bool:
    return "/" in name or name.endswith(SUFFIX) or name in (".", "..")


def _named(known: list[PlanFile], name: str) -> PlanFile | None:
    slug = slug_of(name)
    for plan in known:
        if plan.slug in (name, slug):
            return plan
    starting = [plan for plan in known if slug and plan.slug.startswith(slug)]
    if len(starting) > 1:
        raise errors.PlanAmbiguous(name, candidates=[plan.slug for plan in starting])
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
        # Prefixes do not tell: the main worktree contains linked worktrees and submodules,
        # and submodules are other repositories.
        home = containing(directory)
    except errors.NoRepository as error:
        raise errors.OutsideRepository(os.path.normpath(path), root=repo.root) from error
    if home.common_dir != repo.common_dir:
        raise errors.OutsideRepository(os.path.normpath(path), root=repo.root)
    return PlanFile(os.path.relpath(real, home.worktree), real)


def _not_found(repo: Repository, name: str, known: list[PlanFile]) -> errors.PlanNotFound:
    from tugtool.system import text

    close = text.names(slug_of(name), [plan.slug for plan in known])
    return errors.PlanNotFound(name, close=close, sparse=not known and is_sparse(repo))


def is_sparse(repo: Repository) -> bool:
    """True if the settings of git allow a main worktree without the plans."""
    places = (os.path.join(repo.common_dir, name) for name in ("config.worktree", "config"))
    return any(
        b"sparsecheckout = true" in files.read(path).lower()
        for path in places
        if os.path.isfile(path)
    )


LONGEST_SLUG = 64
LONGEST_TITLE = 200


def built_in() -> bytes:
    """The skeleton that comes with Tugtool."""
    return files.read(os.path.join(os.path.dirname(__file__), "skeleton.md"))


def new(
    repo: Repository, slug: str, *, title: str | None, today: str, branch: str | None = None
) -> PlanFile:
    """Write a new plan into the caller's worktree, for a branch; never over an existing one."""
    refuse_bad_slug(slug)
    text = _skeleton(repo).replace("<plan-slug>", slug).replace("<YYYY-MM-DD>", today)
    if branch is not None:
        text = text.replace("| Target branch | main |", f"| Target branch | {branch} |", 1)
    if title is not None:
        text = text.replace("<plan title>", _checked_title(title))
    return write_plan(repo, slug, text)


def write_plan(repo: Repository, slug: str, text: str) -> PlanFile:
    """Write a plan's text into the caller's worktree, whole; never over an existing plan."""
    directory = os.path.join(repo.worktree, DIRECTORY)
    files.make_directory(directory)
    if os.path.realpath(directory) != directory:
        raise errors.OutsideRepository(directory, root=repo.worktree)
    key = f"{DIRECTORY}/{PREFIX}{slug}{SUFFIX}"
    path = os.path.join(repo.worktree, key)
    if not files.create(path, text.encode()):
        raise errors.PlanExists(key)
    return PlanFile(key, path)


def _skeleton(repo: Repository) -> str:
    for top in (repo.worktree, repo.root):
        path = os.path.join(top, DIRECTORY, SKELETON)
        if os.path.lexists(path):
            return files.text(path, files.read(path))
    return built_in().decode()


def refuse_bad_slug(slug: str, command: str = "plan new") -> None:
    """Refuse a name that no plan can have."""
    from tugtool.system import text

    if not text.is_slug(slug) or len(slug) > LONGEST_SLUG or slug == "skeleton":
        raise errors.Usage(
            f'"{slug[:80]}" cannot be a slug: lower-case letters, digits and single hyphens, '
            f"at most {LONGEST_SLUG}, and not skeleton",
            command=command,
        )


def _checked_title(title: str) -> str:
    printable = title.strip() and title.isprintable() and len(title) <= LONGEST_TITLE
    if not printable or "{#" in title:
        raise errors.Usage(
            f"a title is one line of printable text, at most {LONGEST_TITLE} characters, "
            "without an anchor",
            command="plan new",
        )
    return title.strip()


def fingerprint(data: bytes) -> str:
    """SHA-256 of a plan's bytes, with CRLF as LF, in hexadecimal."""
    digest: str = _sha256(data.replace(b"\r\n", b"\n")).hexdigest()
    return digest


def file_fingerprint(path: str) -> str:
    """The fingerprint of a plan's file of any size: a file that grew is only changed."""
    return fingerprint(files.read(path, max_bytes=files.WHOLE_BYTES))


def _sha256(data: bytes) -> Any:
    # hashlib loads OpenSSL, which costs a quarter of a bare interpreter start. A small C
    # module has the same algorithm, under a name that has changed once.
    if len(data) > _LARGE:
        import hashlib

        return hashlib.sha256(data)
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]  # Python 3.11
    except ImportError:
        try:
            from _sha2 import sha256  # type: ignore[import-not-found]  # Python 3.12 and later
        except ImportError:
            from hashlib import sha256
    return sha256(data)
