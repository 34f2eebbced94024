"""dash list and show: what is recorded of dashes, and what git says of them now."""

from __future__ import annotations

from tugtool import base, git, landed
from tugtool.dash import names, rounds
from tugtool.dash.ground import Ground
from tugtool.state import dashing
from tugtool.worktree import survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.repository import Repository
    from tugtool.store import Row, Store

    Data = dict[str, object]

_RECORDED = (
    *("name", "description", "status", "base_branch", "base_commit", "rounds"),
    *("created_at", "updated_at", "ended_at", "joined_commit", "salvage_ref"),
)


def listed(repo: Repository, store: Store, *, every: bool = False) -> Data:
    """The active dashes, or all; and branches that look like a dash's and are recorded as none."""
    rows = dashing.every(store, ended=every)
    found = [facts(repo, store, row) for row in rows]
    known = {row["name"] for row in rows if row["status"] == "active"}
    return {
        "dashes": found,
        "unrecorded": [name for name in _branches(repo) if name not in known],
    }


def shown(repo: Repository, store: Store, name: str) -> Data:
    """One dash: the active one of that name, or else the last; with its rounds."""
    row = dashing.find(store, name)
    told = [rounds.told(each) for each in dashing.rounds(store, row)]
    return {**facts(repo, store, row), "history": told}


def facts(repo: Repository, store: Store, row: Row) -> Data:
    """What is recorded of a dash; of an active one also what git says."""
    ground = Ground(repo, store, row)
    data: Data = {field: row[field] for field in _RECORDED}
    data |= {"branch_name": ground.branch, "worktree_path": ground.path}
    fields = ("exists", "on_branch", "changed_files", "ahead", "behind", "tip", "releasing")
    seen = dict.fromkeys(fields)
    return {**data, **seen, **(_seen(ground) if row["status"] == "active" else {})}


def _seen(ground: Ground) -> Data:
    root, tree, tip = ground.repo.root, ground.tree(), ground.tip()
    target = base.commit_of(root, f"refs/heads/{ground.base}")
    counts = landed.ahead_and_behind(root, tip, target) if tip and target else None
    found = tree.facts.get("branch") if tree.facts is not None else None
    return {
        "exists": tree.exists,
        "on_branch": tree.exists and found == ground.branch,
        "changed_files": len(survey.changes(ground.path)) if tree.exists else None,
        "ahead": counts and counts[0],
        "behind": counts and counts[1],
        "tip": tip,
        "releasing": ground.is_being_released(),
    }


def _branches(repo: Repository) -> list[str]:
    ref = f"refs/heads/{survey.DASH_BRANCHES}"
    out = git.run("for-each-ref", "--format=%(refname)", ref, cwd=repo.root)
    return [names.bare(line.removeprefix("refs/heads/")) for line in out.splitlines()]
