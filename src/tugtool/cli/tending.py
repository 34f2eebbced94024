"""Tending a claim while a command works under it: what is to be done when it is lost."""

from __future__ import annotations

from tugtool.cli.output import clean, mention
from tugtool.state_errors import NotOwner, Superseded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.child import Child
    from tugtool.cli.foreground import Foreground
    from tugtool.errors import TugError
    from tugtool.keeping import Keeper

#: How long it waits for other writers; the command's end must not wait for them.
BUSY_SECONDS = 1.0


def tend(claim: Keeper, running: Child, front: Foreground) -> TugError | None:
    """Until the command has ended; or the claim is lost: then the command is stopped."""
    told = ""
    while not running.wait(claim.nap()):
        # One that is suspended goes on only if the claim is still there at that moment.
        lost = claim.look(closely=running.suspended_by is not None)
        if lost is not None:
            running.stop()
            return lost
        told = _mentioned(claim.trouble, told)
        front.follow()
    lost = claim.read()
    # A database that is away says nothing about the claim.
    return lost if isinstance(lost, NotOwner | Superseded) else None


def _mentioned(trouble: TugError | None, told: str) -> str:
    """Say what keeps us from the claim, once; what has been said."""
    said = "" if trouble is None else f"{trouble.code}: {trouble.message}"
    if said and said != told:
        mention(f"tugcode: {clean(said)}; trying again while the command runs\n")
    return said
