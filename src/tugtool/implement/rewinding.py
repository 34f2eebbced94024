"""An agent left HEAD where the step's work does not lie: all of it is kept, and undone.

To commit what lies there as the step's work would undo what others have done before it.
"""

from __future__ import annotations

import os
import shutil

from tugtool import git, salvage
from tugtool.errors import TugError
from tugtool.plan import catalog
from tugtool.worktree import naming

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.implement.desk import Desk
    from tugtool.implement.seat import Seat
    from tugtool.implement.untouched import Untouched

#: What git keeps of a rebase or the like that is under way, and `reset` leaves there.
_UNDER_WAY = ("rebase-merge", "rebase-apply", "sequencer")
#: Once for what was there, and once for what only another .gitignore had hidden.
_ROUNDS = 2


def ref_for(seat: Seat, role: str) -> str:
    """A free name for what is kept of an agent's doings."""
    slug = naming.safe(catalog.slug_of(os.path.basename(seat.run.plan)))
    with seat.store.read() as tx:
        now = tx.now
    name = naming.safe(f"{seat.desk.name}-{role}")
    return salvage.ref_for(slug, name, now, top=seat.desk.repo.root)


def keep(seat: Seat, role: str, ref: str, *, branch: str | None, tip: str | None = None) -> None:
    """Keep the worktree as the agent left it, with the commits that it made."""
    facts = {
        "Plan": seat.run.plan,
        "Step": seat.anchor,
        "Role": role,
        "Worktree": seat.desk.owner,
        "Branch": branch,
    }
    salvage.save(seat.desk.path, ref=ref, also=[tip], facts=facts)


def keep_commits(desk: Desk, ref: str, head: str) -> None:
    """Keep at least what the agent committed."""
    try:
        salvage.keep(desk.repo.root, ref=ref, commit=head)
    except TugError:
        # There is nothing at all.
        return


def branch_back(desk: Desk, branch: str, head: str) -> None:
    """Let the branch be where it was: what was committed before is not lost."""
    words = ("update-ref", "-m", "tugcode: implement", f"refs/heads/{branch}", head)
    git.patiently(*words, cwd=desk.repo.root)


def rewind(desk: Desk, branch: str | None, head: str, before: Untouched | None) -> None:
    """Make branch, index and files what they were; whoever calls has kept what is there now.

    None: nothing lay there but what was committed.
    """
    said = ("-m", "tugcode: implement")
    if branch is not None:
        git.run("symbolic-ref", *said, "HEAD", f"refs/heads/{branch}", cwd=desk.path)
        branch_back(desk, branch, head)
    else:
        git.patiently("update-ref", *said, "--no-deref", "HEAD", head, cwd=desk.path)
    # Also takes away what a merge that is under way has left.
    git.patiently("reset", "--quiet", "--hard", cwd=desk.path)
    for name in _UNDER_WAY:
        shutil.rmtree(os.path.join(desk.git_dir, name), ignore_errors=True)
    if before is None:
        desk.clear()
        return
    for _ in range(_ROUNDS):
        changes = before.changes()
        if not changes:
            return
        before.put_back(changes)


def is_under_way(desk: Desk) -> bool:
    """Whether a merge, a rebase or the like has not come to its end."""
    names = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", *_UNDER_WAY)
    return any(os.path.lexists(os.path.join(desk.git_dir, name)) for name in names)
