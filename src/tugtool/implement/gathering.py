"""All that a plan's worktrees have done, brought together in one of them."""

from __future__ import annotations

from tugtool import git
from tugtool.worktree import syncing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.implement.desk import Desk
    from tugtool.implement.run import Run
    from tugtool.store import Row, Store

    Data = dict[str, object]


def last_step(rows: list[Row]) -> Row:
    """The step that was completed last: what is said of the whole plan is kept with it."""
    return max(rows, key=lambda row: (row["completed_at"] or "", row["step_index"]))


def lacking(run: Run, store: Store, desk: Desk) -> list[Data]:
    """Every step's commit that the worktree lacks."""
    syncing.mend(desk.path)
    return syncing.done_elsewhere(store, run.plan, at=desk.path)


def remote(run: Run) -> str | None:
    """Where the repository can be pushed to: `origin`, or the first there is."""
    names = git.run("remote", cwd=run.repo.root).split()
    return "origin" if "origin" in names else names[0] if names else None
