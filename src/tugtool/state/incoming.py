"""Dashes that come with an import: what no column's type says of them."""

from __future__ import annotations

from tugtool.state import dashing
from tugtool.store import sql_dash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tugtool.store import Transaction

    Data = dict[str, object]

_LENGTHS = (40, 64)
_DIGITS = set("0123456789abcdef")


def problem(table: str, row: Data, dashes: Collection[object]) -> str | None:
    """Why a row cannot be one of ours; the names and commits in it will be given to git."""
    if table == "dashes":
        name = str(row["name"])
        commits = {key: row[key] for key in ("base_commit", "joined_commit")}
        if not dashing.is_name(name):
            return f"has a dash with an impossible name: {name!r:.60}"
        if (row["branch"], row["worktree"]) != (dashing.branch(name), dashing.worktree(name)):
            return f"has a branch or worktree that is not the dash's: {name}"
    else:
        commits = {"commit_hash": row["commit_hash"]}
        if row["dash_id"] not in dashes:
            return f"belongs to a dash that is not in the file: {row['dash_id']}"
        if not _is_files(str(row["files"])):
            return "has files that are no list of paths"
    bad = [key for key, commit in commits.items() if commit is not None and not _is_hash(commit)]
    return f"has a {bad[0]} that is no commit's" if bad else None


def recorded(tx: Transaction, dashes: Iterable[Data]) -> str | None:
    """The name of a dash that is here already, or whose name an active one has here."""
    for dash in dashes:
        for row in tx.all(sql_dash.DASHES_NAMED, name=dash["name"]):
            both = row["status"] == dash["status"] == "active"
            if both or row["created_at"] == dash["created_at"]:
                return str(dash["name"])
    return None


def _is_hash(commit: object) -> bool:
    return isinstance(commit, str) and len(commit) in _LENGTHS and set(commit) <= _DIGITS


def _is_files(text: str) -> bool:
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, list) and all(map(_is_file, found))


def _is_file(each: object) -> bool:
    fields = isinstance(each, dict) and set(each) == {"path", "status"}
    return fields and all(isinstance(value, str) for value in each.values())  # type: ignore[attr-defined]  # a dict
