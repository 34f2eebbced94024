"""Uncommitted files in the caller's worktree before a claim: whose work they are.

A worker that knows no command line cannot clean its worktree. Its claim does, so that the commit
of the next step has no work of another one.
"""

from __future__ import annotations

from typing import NamedTuple

from tugtool import state
from tugtool.errors import TugError
from tugtool.state import attempts, standings
from tugtool.state.worktrees import claimed_steps
from tugtool.system import files, os, text
from tugtool.workflow import worktree
from tugtool.workflow.salvage import catch_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tugtool.workflow.workspace import Workspace


class Leftovers(NamedTuple):
    """Uncommitted files of a linked worktree, and the attempt that left them."""

    files: list[str]
    #: True if they are the work on a step that the worktree holds.
    held: bool
    #: The step of the worktree's last attempt, if that did not complete it.
    anchor: str | None
    attempt: int | None
    #: True if no other attempt at that step was made since.
    is_newest: bool

    def go_on_with(self, space: Workspace, plan: str, step: str | None) -> str | None:
        """Return the step that the files belong to, if the caller can claim it."""
        if self.held or not self.is_newest or step not in (None, self.anchor):
            return None
        ready = standings.ready(space.store, plan)["ready_steps"]
        return self.anchor if self.anchor in ready else None

    def is_in_the_way(self, space: Workspace, plan: str, step: str | None) -> bool:
        """Return whether another step can be claimed now, whose commit would have the files."""
        return catch_up.can_claim(space, plan, step)

    @property
    def is_of_other_step(self) -> bool:
        """True if the next commit would mix them with the work on another step."""
        return not self.held and self.anchor is not None


def uncommitted_files(space: Workspace) -> list[str]:
    """Return the uncommitted files of the caller's linked worktree; none of the main one."""
    path = space.worktree
    if path == space.repo.root or not os.path.isdir(path):
        return []
    try:
        return [entry[3:] for entry in worktree.changes(path)]
    except TugError:
        # Git cannot look; the command itself says what is wrong.
        return []


def find_leftovers(space: Workspace, plan: str) -> Leftovers | None:
    """Return the uncommitted files before a claim, and whose they are; None if there are none."""
    found = uncommitted_files(space)
    if not found or not space.store.exists():
        return None
    if claimed_steps(space.store, space.owner):
        return Leftovers(found, True, None, None, False)
    return Leftovers(found, False, *_left_by(space, plan))


def _left_by(space: Workspace, plan: str) -> tuple[str | None, int | None, bool]:
    """Return the step and number of the worktree's last attempt, and whether it is the newest."""
    made = list(_attempts(space, plan))
    if not made:
        return None, None, False
    _, step, last = max(made, key=lambda each: each[0])
    if last["outcome"] == "completed":
        return None, None, False
    return step["anchor"], last["number"], step["attempt"] == last["number"]


def _attempts(space: Workspace, plan: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield each attempt of the caller's worktree with the time of its claim and its step."""
    if not standings.is_recorded(space.store, plan):
        return
    shown: Any = state.show(space.store, plan)
    for step in shown["steps"]:
        for each in step["attempts"]:
            if each["worktree"] == space.owner:
                yield each["claimed_at"], step, each


def note_left(space: Workspace, plan: str, anchor: str, attempt: int) -> None:
    """Note the saved work that a worker left in its linked worktree when it ended.

    The next claim there goes on with that step, or is refused (E037), as after a lost step.
    """
    _, ref = attempts.salvage_status(space.store, plan, anchor, attempt)
    if ref is None or space.worktree == space.repo.root or not os.path.isdir(space.worktree):
        return
    which = {"plan_path": plan, "step_anchor": anchor, "attempt": attempt}
    note = {**which, "worktree": space.owner, "salvage_ref": ref, "problem": None}
    place = catch_up.lost_note(space.repo, space.worktree)
    files.make_directory(os.path.dirname(place))
    files.replace(place, text.encode(note).encode())
