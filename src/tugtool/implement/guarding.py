"""What an agent may not do to its worktree, and how it is undone without losing its work.

An agent that commits by itself finds its changes uncommitted again: they become part of the
step's own commit. One that changes the plan finds it as it was agreed.
"""

from __future__ import annotations

import os

from tugtool import files, git
from tugtool.agents import objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.implement.seat import Seat

#: Of a plan that an agent wrote, so much is kept for people to look at.
_MOST_KEPT = 1 << 20


class Guard:
    """How things are before an agent runs."""

    def __init__(self, seat: Seat) -> None:
        self.seat, self.desk = seat, seat.desk
        self.branch, self.head = seat.desk.head()
        self.plan = seat.desk.read_plan(seat.run.plan)

    def restore(self) -> str | None:
        """Put back what the agent may not change; what it has to be told, if anything."""
        self._take_back_commits()
        return self._put_plan_back()

    def _take_back_commits(self) -> None:
        branch, head = self.desk.head()
        if (branch, head) == (self.branch, self.head):
            return
        if branch != self.branch and self.branch is not None:
            ref = f"refs/heads/{self.branch}"
            git.run("symbolic-ref", "-m", "tugcode: implement", "HEAD", ref, cwd=self.desk.path)
        # The files stay as they are: they are what the agent made.
        git.patiently("reset", "--quiet", "--soft", self.head, cwd=self.desk.path)
        said = f"an agent moved HEAD to {head}; its changes are part of the step's commit instead"
        self.seat.keep_text(said, f"{branch or 'detached'} {head}\n")

    def _put_plan_back(self) -> str | None:
        key = self.seat.run.plan
        now = self.desk.read_plan(key)
        if now == self.plan or self.plan is None:
            return None
        path = os.path.join(self.desk.path, key)
        files.make_directory(os.path.dirname(path))
        files.replace(path, self.plan)
        said = f"an agent changed {key}; it was put back as it was agreed"
        wrote = (now or b"")[:_MOST_KEPT].decode(errors="replace")
        self.seat.keep_text(said, objects.storable(wrote))
        return f"it changed the plan, {key}, which nobody may change; it has been put back"
