"""All that a plan's worktrees have done, brought together in one of them."""

from __future__ import annotations

from tugtool import git
from tugtool.worktree import syncing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.implement.desk import Desk
    from tugtool.implement.run import Run
    from tugtool.store import Row, Store


def last_step(rows: list[Row]) -> Row:
    """The step that was completed last: what is said of the whole plan is kept with it."""
    return max(rows, key=lambda row: (row["completed_at"] or "", row["step_index"]))


def bring_together(run: Run, store: Store, desk: Desk, rows: list[Row]) -> list[str]:
    """Merge every step's commit that the worktree lacks; which steps those were. E061 if not."""
    syncing.mend(desk.path)
    known = {row["commit_hash"]: row["anchor"] for row in rows if row["commit_hash"]}
    wanted = [
        {"step_anchor": known[commit], "commit": commit}
        for commit in syncing.lacking(desk.path, list(known))
    ]
    if wanted:
        done = [row for row in rows if row["commit_hash"]]
        syncing.merge(run.plan, wanted, at=desk.path, done=done)
    return [str(each["step_anchor"]) for each in wanted]


def remote(run: Run) -> str | None:
    """Where the repository can be pushed to: `origin`, or the first there is."""
    names = git.run("remote", cwd=run.repo.root).split()
    return "origin" if "origin" in names else names[0] if names else None
