"""A claim while something else takes its time: renewed before it runs out, and watched.

Used by the thread that waits; it is asked every now and then, and never blocks for long.
"""

from __future__ import annotations

from tugtool import clock, state
from tugtool.errors import TugError
from tugtool.state_errors import NotOwner, Superseded, WrongStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store import Store

#: How often whoever waits should ask; well within the two seconds in which a loss is noticed.
LOOK_SECONDS = 0.25
#: How often it reads although nothing seems to have changed: the file may be another one.
READ_SECONDS = 1.0
#: A lease is renewed so many times before it would run out.
RENEWALS = 3
#: However short a lease is, whoever waits gets some rest.
_SHORTEST_NAP_SECONDS = 0.02
#: These say that the claim is not, or no longer, the caller's.
OVER = ("E049", "E050", "E059", "E060", "E063")


class Keeper:
    """Keeps one attempt's claim alive, and knows when it is lost."""

    def __init__(
        self,
        store: Store,
        plan: str,
        anchor: str,
        *,
        owner: str,
        attempt: int,
        lease_seconds: float,
    ) -> None:
        self.store, self.plan, self.anchor = store, plan, anchor
        self.owner, self.attempt = owner, attempt
        #: `held`; `lost`; or as its owner has ended it: `completed`, `released`.
        self.standing = "held"
        #: How it was lost; and what keeps us from looking just now, which says nothing about it.
        self.lost: TugError | None = None
        self.trouble: TugError | None = None
        self._lease_seconds = lease_seconds
        self._renewed = clock.ticks()
        self._looked: float | None = None

    def holds(self) -> bool:
        """Whether the claim is still ours, as far as the database can say just now."""
        self.look()
        return self.standing == "held"

    def nap(self) -> float:
        """How long nothing has to be done."""
        if self.standing != "held":
            return LOOK_SECONDS
        return min(LOOK_SECONDS, max(self._due() - clock.ticks(), _SHORTEST_NAP_SECONDS))

    def look(self, *, closely: bool = False) -> TugError | None:
        """Notice what happened to the claim, and renew it; how it was lost, if it was."""
        if self.standing != "held":
            return self.lost
        try:
            if self._may_have_changed() or closely:
                self._notice()
            if self.standing == "held" and clock.ticks() >= self._due():
                self.renew()
            self.trouble = None
        except WrongStatus:
            # It ended between the two; the next look tells how.
            self._looked = None
        except (NotOwner, Superseded) as error:
            self.standing, self.lost = "lost", error
        except TugError as error:
            # Busy, full or away: that says nothing about the claim, and the next look may work.
            self.trouble = error
        return self.lost

    def read(self) -> TugError | None:
        """How the claim stands, whatever has been seen before; why that cannot be told, if so."""
        try:
            self._notice()
        except TugError as error:
            return error
        return None

    def renew(self) -> None:
        """Now, whether or not it is time; refused once the claim is not ours."""
        state.heartbeat(self.store, self.plan, self.anchor, owner=self.owner, attempt=self.attempt)
        self.renewed()

    def renewed(self) -> None:
        """Something else has been a sign of life just now."""
        self._renewed = clock.ticks()

    def _due(self) -> float:
        return self._renewed + self._lease_seconds / RENEWALS

    def _may_have_changed(self) -> bool:
        changed = self.store.wait_for_change(0)
        return changed or self._looked is None or clock.ticks() - self._looked >= READ_SECONDS

    def _notice(self) -> None:
        found = state.standing(
            self.store, self.plan, self.anchor, owner=self.owner, attempt=self.attempt
        )
        self._looked = clock.ticks()
        self.standing = str(found["standing"])
        # Whoever works under the claim may have asked for another lease.
        self._lease_seconds = float(str(found["lease_seconds"]))
