"""The text a new plan starts from."""

from __future__ import annotations

import os

from tugtool import files
from tugtool.errors import OutsideRepository, PlanExists, Usage
from tugtool.plan import catalog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.repository import Repository

LONGEST_SLUG = 64
LONGEST_TITLE = 200


def built_in() -> bytes:
    """The skeleton that comes with Tugtool."""
    return files.read(os.path.join(os.path.dirname(__file__), "skeleton.md"))


def new(repo: Repository, slug: str, *, title: str | None, today: str) -> catalog.PlanFile:
    """Write a new plan into the caller's worktree; never over an existing one."""
    _refuse_bad_slug(slug)
    text = _skeleton(repo).replace("<plan-slug>", slug).replace("<YYYY-MM-DD>", today)
    if title is not None:
        text = text.replace("<plan title>", _checked_title(title))
    directory = os.path.join(repo.worktree, catalog.DIRECTORY)
    files.make_directory(directory)
    if os.path.realpath(directory) != directory:
        raise OutsideRepository(directory, root=repo.worktree)
    key = f"{catalog.DIRECTORY}/{catalog.PREFIX}{slug}{catalog.SUFFIX}"
    path = os.path.join(repo.worktree, key)
    if not files.create(path, text.encode()):
        raise PlanExists(key)
    return catalog.PlanFile(key, path)


def _skeleton(repo: Repository) -> str:
    for top in (repo.worktree, repo.root):
        path = os.path.join(top, catalog.DIRECTORY, catalog.SKELETON)
        if os.path.lexists(path):
            return files.text(path, files.read(path))
    return built_in().decode()


def _refuse_bad_slug(slug: str) -> None:
    words = slug.split("-")
    plain = all(word.isascii() and word.isalnum() and word == word.lower() for word in words)
    if not plain or len(slug) > LONGEST_SLUG or slug == "skeleton":
        raise Usage(
            f'"{slug[:80]}" cannot be a slug: lower-case letters, digits and single hyphens, '
            f"at most {LONGEST_SLUG}, and not skeleton",
            command="plan new",
        )


def _checked_title(title: str) -> str:
    printable = title.strip() and title.isprintable() and len(title) <= LONGEST_TITLE
    if not printable or "{#" in title:
        raise Usage(
            f"a title is one line of printable text, at most {LONGEST_TITLE} characters, "
            "without an anchor",
            command="plan new",
        )
    return title.strip()
