"""Tending a claim while a command works under it: renewed in time, and its loss noticed."""

from __future__ import annotations

import time

from tugtool import state
from tugtool.cli.output import clean, mention
from tugtool.errors import TugError
from tugtool.state_errors import NotOwner, Superseded, WrongStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.child import Child
    from tugtool.cli.foreground import Foreground
    from tugtool.store import Store

#: How often it looks whether anything has changed; a loss is noticed within two seconds.
LOOK_SECONDS = 0.5
#: How often it reads although nothing seems to have changed: the file may be another one.
READ_SECONDS = 1.0
#: How long it waits for other writers; the command's end must not wait for them.
BUSY_SECONDS = 1.0
#: A lease is renewed so many times before it would run out.
RENEWALS = 3


class Claim:
    """A claim that is under way, seen from the process that holds it."""

    def __init__(
        self, store: Store, plan: str, anchor: str, *, owner: str, attempt: int, lease: float
    ) -> None:
        self.store, self.plan, self.anchor = store, plan, anchor
        self.owner, self.attempt = owner, attempt
        #: `held`; or as the command itself ended it: `completed`, `released`.
        self.standing = "held"
        self._lease = lease
        self._looked = 0.0
        self._renewed = time.monotonic()
        self._trouble = ""

    def nap(self) -> float:
        """How long nothing has to be done."""
        due = self._renewed + self._lease / RENEWALS - time.monotonic()
        return min(LOOK_SECONDS, max(due, 0.02)) if self.standing == "held" else LOOK_SECONDS

    def look(self, *, closely: bool) -> TugError | None:
        """Notice what happened to the claim, and renew it; how it was lost, if it was."""
        if self.standing != "held":
            return None
        try:
            changed = self.store.wait_for_change(0)
            if closely or changed or time.monotonic() - self._looked >= READ_SECONDS:
                self._notice()
            self._renew()
            self._trouble = ""
        except WrongStatus:
            # It ended between the two; the next look tells how.
            self._looked = 0.0
        except (NotOwner, Superseded) as error:
            return error
        except TugError as error:
            # A database that is busy or away: the command goes on, and so do we.
            self._say(f"{error.code}: {error.message}")
        return None

    def read(self) -> TugError | None:
        """How the claim stands, whatever has been seen before; how it was lost, if it was."""
        try:
            self._notice()
        except TugError as error:
            return error
        return None

    def _notice(self) -> None:
        found = state.standing(
            self.store, self.plan, self.anchor, owner=self.owner, attempt=self.attempt
        )
        self._looked = time.monotonic()
        self.standing, self._lease = str(found["standing"]), float(str(found["lease_seconds"]))

    def _renew(self) -> None:
        now = time.monotonic()
        if self.standing == "held" and now - self._renewed >= self._lease / RENEWALS:
            state.heartbeat(
                self.store, self.plan, self.anchor, owner=self.owner, attempt=self.attempt
            )
            self._renewed = now

    def _say(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            mention(f"tugcode: {clean(trouble)}; trying again while the command runs\n")


def tend(claim: Claim, running: Child, front: Foreground) -> TugError | None:
    """Until the command has ended; or the claim is lost: then the command is stopped."""
    while not running.wait(claim.nap()):
        # One that is suspended goes on only if the claim is still there at that moment.
        lost = claim.look(closely=running.suspended_by is not None)
        if lost is not None:
            running.stop()
            return lost
        front.follow()
    lost = claim.read()
    # A database that is away says nothing about the claim.
    return lost if isinstance(lost, NotOwner | Superseded) else None
