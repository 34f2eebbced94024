"""Commits that somebody began and did not end, because they were killed: they are ended first.

Else the step would be taken over, and its work committed once more.
"""

from __future__ import annotations

from tugtool import belonging, commit
from tugtool.errors import TugError
from tugtool.git_errors import CommitRefused
from tugtool.implement import recovery
from tugtool.implement.desk import Desk
from tugtool.implement.ends import Escalation
from tugtool.implement.seat import Work
from tugtool.store import sql, sql_git, sql_implement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.implement.run import Run
    from tugtool.store import Row, Store

    Data = dict[str, Any]


def settle(run: Run, store: Store, *, own: str) -> None:
    """End what is left of commits of the plan; not where another worker of ours is at work."""
    with store.read(run.plan) as tx:
        rows = tx.all(sql_implement.COMMIT_INTENTS)
        known = {row["path"]: row for row in tx.all(sql_git.WORKTREES_OF)} if rows else {}
    for row in rows:
        place = known.get(row["worktree"])
        theirs = row["worktree"] in run.owners and row["worktree"] != own
        if theirs or place is None or belonging.trouble(run.repo.common_dir, row["worktree"]):
            continue
        branch, onto = place["branch"], place["base_branch"]
        desk = Desk(run.repo, row["worktree"], branch=branch, base_branch=onto)
        _settle(run, store, desk, row)


def _settle(run: Run, store: Store, desk: Desk, row: Row) -> None:
    try:
        told = commit.settle(desk.site(store))
        if told is not None:
            run.warn(str(told["message"]), step_anchor=row["step_anchor"])
    except CommitRefused as error:
        # Somebody is at it just now, or the step has to be completed by other means.
        if error.facts.get("cause") in ("E051", "E052"):
            _recover(run, store, desk, row, str(error.facts["commit"]))
        elif "commit" in error.facts:
            run.warn(error.message, step_anchor=row["step_anchor"])
    except TugError as error:
        run.warn(error.message, step_anchor=row["step_anchor"])


def _recover(run: Run, store: Store, desk: Desk, row: Row, hash: str) -> None:
    """Only open items keep its step from being completed: what the reviewer said still holds."""
    anchor = row["step_anchor"]
    with store.read(run.plan) as tx:
        step = tx.one(sql.STEP, anchor=anchor)
    claim: Data = {"anchor": anchor, "attempt": row["attempt"], "step_title": step["title"]}
    work = Work(run, store, desk, 0, claim)
    done = {"commit_hash": hash, "state_failure_reason": "open_items", "warnings": []}
    try:
        recovery.recover(work, done, recovery.entries(work))
    except (Escalation, TugError) as error:
        run.warn(f"{anchor} is committed as {hash}, and not completed: {error}", step_anchor=anchor)
