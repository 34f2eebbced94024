"""What an agent may not do to its worktree, and how it is undone without losing its work.

An agent that commits by itself finds its changes uncommitted again: they become part of the
step's own commit. One that changes the plan finds it as it was agreed. One whose role edits
nothing finds everything as it was; what it did is saved first.
"""

from __future__ import annotations

import os

from tugtool import files, git, salvage
from tugtool.errors import TugError, listing
from tugtool.guard import rules
from tugtool.implement.untouched import Untouched
from tugtool.plan import catalog
from tugtool.worktree import naming

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
        self.branch, self.head = seat.desk.head()
        self.plan = seat.desk.read_plan(seat.run.plan)
        looks = rules.ROLES[role].edits == rules.NOTHING
        self.files = Untouched(seat.desk) if looks else None

    def restore(self) -> str | None:
        """Put back what the agent may not change; what it has to be told, if anything."""
        moved = self._take_back_commits()
        plan = self._put_plan_back()
        if self.files is None:
            return plan
        return plan or self._put_files_back(self.files) or moved

    def _take_back_commits(self) -> str | None:
        branch, head = self.desk.head()
        if (branch, head) == (self.branch, self.head):
            return None
        if branch != self.branch and self.branch is not None:
            ref = f"refs/heads/{self.branch}"
            git.run("symbolic-ref", "-m", "tugcode: implement", "HEAD", ref, cwd=self.desk.path)
        # The files stay as they are: they are what the agent made.
        git.patiently("reset", "--quiet", "--soft", self.head, cwd=self.desk.path)
        said = f"an agent moved HEAD to {head}; its changes are part of the step's commit instead"
        if self.files is not None:
            said = f"the {self.role} moved HEAD to {head}; it was put back"
        self.seat.keep_text(said, f"{branch or 'detached'} {head}\n")
        return f"it moved HEAD, which the {self.role} may not; it has been put back"

    def _put_plan_back(self) -> str | None:
        key = self.seat.run.plan
        now = self.desk.read_plan(key)
        if now == self.plan or self.plan is None:
            return None
        path = os.path.join(self.desk.path, key)
        files.make_directory(os.path.dirname(path))
        files.replace(path, self.plan)
        said = f"an agent changed {key}; it was put back as it was agreed"
        self.seat.keep_text(said, (now or b"")[:_MOST_KEPT].decode("utf-8", "replace"))
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
        seat, desk = self.seat, self.desk
        slug = naming.safe(catalog.slug_of(os.path.basename(seat.run.plan)))
        with seat.store.read() as tx:
            now = tx.now
        name = naming.safe(f"{desk.name}-{self.role}")
        ref = salvage.ref_for(slug, name, now, top=desk.repo.root)
        facts = {
            "Plan": seat.run.plan,
            "Step": seat.anchor,
            "Role": self.role,
            "Worktree": desk.owner,
            "Branch": self.branch,
        }
        try:
            salvage.save(desk.path, ref=ref, facts=facts)
        except (salvage.Unsalvageable, TugError, OSError) as error:
            return str(error)
        named = listing([*changes.touched, *changes.made], most=_MOST_NAMED)
        said = f"the {self.role} changed {named}; it was put back, and is kept in {ref}"
        seat.keep_text(said, "\n".join([*changes.touched, *changes.made])[:_MOST_KEPT])
        return None
