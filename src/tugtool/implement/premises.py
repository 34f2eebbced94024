"""Whether a worker's worktree is still the one that it was given.

Looked at before each claim, and before and after each agent: where it is another, no git is
run, for that would work on somebody else's files.
"""

from __future__ import annotations

from tugtool import belonging
from tugtool.implement.ends import Astray

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.implement.desk import Desk
    from tugtool.implement.run import Run
    from tugtool.implement.seat import Seat


def hold(run: Run, desk: Desk) -> bool:
    """Whether a step can be begun there; a `.git` that is gone is put back."""
    wrong = desk.trouble()
    if wrong == belonging.UNMARKED:
        belonging.mend(run.repo.common_dir, desk.path)
        run.warn(f"{desk.path} had lost its .git; it was put back")
        wrong = desk.trouble()
    if wrong is not None:
        run.warn(f"{desk.path} is not worked in any further: {wrong}")
    return wrong is None


def require(seat: Seat) -> bool:
    """Raise that an agent has no worktree any more; whether its `.git` had to be put back."""
    common_dir, path = seat.run.repo.common_dir, seat.desk.path
    wrong = belonging.trouble(common_dir, path)
    if wrong is None:
        return False
    if wrong != belonging.UNMARKED:
        raise Astray(path, wrong)
    belonging.mend(common_dir, path)
    return True
