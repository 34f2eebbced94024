"""What an agent may not do to its worktree, and how it is undone without losing its work.

An agent that commits by itself finds its changes uncommitted again: they become part of the
step's own commit. One that leaves HEAD anywhere else, and one whose role edits nothing, finds
everything as it was; what it did is saved first. One that changes the plan finds it as it
was agreed.
"""

from __future__ import annotations

import os

from tugtool import base, files, git, landed, salvage
from tugtool.agents import objects
from tugtool.errors import TugError, listing
from tugtool.guard import rules
from tugtool.implement import premises, rewinding
from tugtool.implement.ends import Astray, Lost
from tugtool.implement.untouched import Untouched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.implement.seat import Seat
    from tugtool.implement.untouched import Changes

#: Of a plan that an agent wrote, so much is kept for people to look at.
_MOST_KEPT = 1 << 20
#: So many files are named.
_MOST_NAMED = 5


class Guard:
    """How things are before an agent runs."""

    def __init__(self, seat: Seat, role: str) -> None:
        self.seat, self.desk, self.role = seat, seat.desk, role
        premises.require(seat)
        self.branch, self.head = seat.desk.head()
        self.plan = seat.desk.read_plan(seat.run.plan)
        self.looks = rules.ROLES[role].edits == rules.NOTHING
        # Nobody has worked yet, or whoever did changed nothing: then it is known what is there.
        known = not self.looks and (seat.is_fresh or seat.held is not None)
        self.files = seat.held if known else Untouched(seat.desk)
        seat.held, seat.is_fresh = None, seat.is_fresh and self.looks

    def restore(self) -> str | None:
        """Put back what the agent may not change; what it has to be told, if anything."""
        unmarked = self._put_marker_back()
        moved = self._put_head_back()
        plan = self._put_plan_back()
        if not self.looks or self.files is None:
            return unmarked or moved or plan
        files = self._put_files_back(self.files)
        self.seat.held = self.files
        return unmarked or plan or files or moved

    def _put_marker_back(self) -> str | None:
        if not premises.require(self.seat):
            return None
        said = f"the {self.role} took the worktree's .git away; it was put back"
        self.seat.keep_text(said, f"{self.desk.path}\n")
        return "it took away the worktree's .git, which nobody may; it has been put back"

    def _put_head_back(self) -> str | None:
        branch, head = self.desk.head()
        if (branch, head) == (self.branch, self.head):
            return None
        if not self.seat.still_holds():
            # Its commit may be the one that the step was completed with.
            raise Lost
        if not self._is_next(branch, head):
            return self._rewind(branch, head)
        # The files stay as they are: they are what the agent made.
        git.patiently("reset", "--quiet", "--soft", self.head, cwd=self.desk.path)
        if not self.looks:
            said = f"the {self.role} committed {head}; its changes are part of the step's commit"
            self.seat.keep_text(f"{said} instead", f"{branch} {head}\n")
            return None
        self.seat.keep_text(f"the {self.role} committed {head}; that was taken back", f"{head}\n")
        return f"it moved HEAD, which the {self.role} may not; it has been put back"

    def _is_next(self, branch: str | None, head: str) -> bool:
        """Whether the agent has just committed on top of what was there."""
        if branch != self.branch or not head or rewinding.is_under_way(self.desk):
            return False
        return landed.is_ancestor(self.desk.path, self.head, head)

    def _rewind(self, branch: str | None, head: str) -> str:
        """All is as it was before this agent, and what it left is kept."""
        desk, at = self.desk, f"{branch or 'a detached HEAD'} at {head[:12] or 'no commit'}"
        ref = rewinding.ref_for(self.seat, self.role)
        tip = base.commit_of(desk.repo.root, f"refs/heads/{self.branch}")
        try:
            rewinding.keep(self.seat, self.role, ref, branch=branch, tip=tip)
        except (salvage.Unsalvageable, TugError, OSError) as error:
            rewinding.keep_commits(desk, ref, tip or head)
            if self.branch is not None:
                rewinding.branch_back(desk, self.branch, self.head)
            wrong = f"HEAD was moved to {at}, and cannot be moved back: {error}"
            raise Astray(desk.path, wrong) from error
        rewinding.rewind(desk, self.branch, self.head, self.files)
        said = f"the {self.role} moved HEAD to {at}; everything was put back as it was before it"
        self.seat.keep_text(f"{said}, and what it left is kept in {ref}", f"{at}\n{ref}\n")
        return (
            f"it moved HEAD to {at}, and nobody may reset, switch or rewrite a branch; everything "
            f"is as it was before it ran, and what it left is kept in {ref}"
        )

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

    def _put_files_back(self, before: Untouched) -> str | None:
        changes = before.changes()
        if not changes:
            return None
        if changes.touched or changes.made:
            problem = self._save(changes)
            if problem is not None:
                return f"it changed files, and they cannot be put back: {problem}"
        before.put_back(changes)
        if changes.touched:
            named = listing(changes.touched, most=_MOST_NAMED)
            return (
                f"it changed {named}, and the {self.role} may change nothing; that has been put "
                "back (what only tests or builds write belongs into .gitignore)"
            )
        if changes.staged:
            return f"it changed git's index, which the {self.role} may not; that has been put back"
        # Tests leave such files; they are nobody's work, and not worth another run.
        return None

    def _save(self, changes: Changes) -> str | None:
        """Keep what the agent did under a ref, and say where; why that cannot be, if so."""
        ref = rewinding.ref_for(self.seat, self.role)
        try:
            rewinding.keep(self.seat, self.role, ref, branch=self.branch)
        except (salvage.Unsalvageable, TugError, OSError) as error:
            return str(error)
        named = listing([*changes.touched, *changes.made], most=_MOST_NAMED)
        said = f"the {self.role} changed {named}; it was put back, and is kept in {ref}"
        self.seat.keep_text(said, "\n".join([*changes.touched, *changes.made])[:_MOST_KEPT])
        return None
