"""`tugcode init`: what a repository needs before its first plan. Safe to repeat."""

from __future__ import annotations

import os

from tugtool import files
from tugtool.errors import OutsideRepository, Unreadable
from tugtool.plan import catalog, skeleton

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from tugtool.repository import Repository

STATE_FILES = ("state.db", "state.db-wal", "state.db-shm", "state.lock")
IGNORE = "".join(f"{name}\n" for name in STATE_FILES)
#: Branches that come together both add to the log; git keeps both sides. Its lines end as they
#: are written: git may refuse what it would have to convert.
ATTRIBUTES = "log.md merge=union -text\n"
#: And what a process that was killed had not yet put in its place.
EXCLUDE = (*(f"/.tugtool/{name}" for name in STATE_FILES), "/.tugtool/.tug-*.tmp", "/.tugtree/")
#: The same rule for merges here on branches that lack the committed file.
LOG = "/.tugtool/log.md"
LOG_MERGE = f"{LOG} merge=union -text"


def init(repo: Repository, *, check: bool = False) -> dict[str, bool]:
    """Make what is missing (or, with `check`, only look); file -> was it missing?"""
    directory = os.path.join(repo.root, catalog.DIRECTORY)
    if os.path.realpath(directory) != directory and os.path.exists(directory):
        raise OutsideRepository(directory, root=repo.root)
    parts: list[tuple[str, Callable[[], bool], Callable[[], object]]] = [
        (".tugtool/", lambda: os.path.isdir(directory), lambda: files.make_directory(directory))
    ]
    for name, content in _files():
        path = os.path.join(directory, name)
        parts.append((f".tugtool/{name}", _exists(path), _creator(path, content)))
    exclude = os.path.join(repo.common_dir, "info", "exclude")
    parts.append(("git's info/exclude", lambda: not _unlisted(exclude), lambda: _list(exclude)))
    rules = os.path.join(repo.common_dir, "info", "attributes")
    parts.append(("git's info/attributes", lambda: _has_rule(rules), lambda: _rule(rules)))
    report: dict[str, bool] = {}
    for name, present, make in parts:
        report[name] = not present()
        if report[name] and not check:
            make()
    return report


def ignore_state(repo: Repository) -> None:
    """What must be true before there is a state: a directory for it, and git ignores it.

    And the log, which its steps will write, merges without conflict.
    """
    files.make_directory(os.path.join(repo.root, catalog.DIRECTORY))
    exclude = os.path.join(repo.common_dir, "info", "exclude")
    if _unlisted(exclude):
        _list(exclude)
    rules = os.path.join(repo.common_dir, "info", "attributes")
    if not _has_rule(rules):
        _rule(rules)


def _files() -> tuple[tuple[str, bytes], ...]:
    return (
        (".gitignore", IGNORE.encode()),
        (".gitattributes", ATTRIBUTES.encode()),
        (catalog.SKELETON, skeleton.built_in()),
    )


def _exists(path: str) -> Callable[[], bool]:
    return lambda: os.path.lexists(path)


def _creator(path: str, content: bytes) -> Callable[[], object]:
    return lambda: files.create(path, content)


def _unlisted(exclude: str) -> list[str]:
    present = _content(exclude).splitlines()
    return [line for line in EXCLUDE if line.encode() not in present]


def _list(exclude: str) -> None:
    _append(exclude, "# Tugtool: the state and the linked worktrees", *_unlisted(exclude))


def _has_rule(rules: str) -> bool:
    """Whether somebody has said how the log merges, us or a person who wants it otherwise."""
    return any(line.split()[:1] == [LOG.encode()] for line in _content(rules).splitlines())


def _rule(rules: str) -> None:
    _append(rules, "# Tugtool: both sides' entries are kept", LOG_MERGE)


def _append(path: str, *lines: str) -> None:
    files.make_directory(os.path.dirname(path))
    content = _content(path)
    if content and not content.endswith(b"\n"):
        content += b"\n"
    files.replace(path, content + "".join(f"{line}\n" for line in lines).encode())


def _content(path: str) -> bytes:
    if not os.path.lexists(path):
        return b""
    try:
        return files.read(path)
    except Unreadable:
        if os.path.exists(path):
            raise
        return b""
