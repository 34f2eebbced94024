"""A claim while something else takes its time: renewed before it runs out, and watched.

Used by the thread that waits; it is asked every now and then, and never blocks for long.
"""

from __future__ import annotations

from tugtool import clock, state
from tugtool.errors import TugError
from tugtool.state_errors import DatabaseError
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store import Store

#: How often whoever waits should ask; well within the two seconds in which a loss is noticed.
LOOK_SECONDS = 0.25
#: How often it reads although nothing seems to have changed: the file may be another one.
READ_SECONDS = 1.0
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
        self._rest = lease_seconds / 3
        self._due = clock.ticks() + self._rest
        self._looked: float | None = None

    def holds(self) -> bool:
        """Whether the claim is still ours, as far as the database can say just now."""
        try:
            if self._has_changed() and not self._is_ours():
                return False
            if clock.ticks() >= self._due:
                self._renew()
        except DatabaseError:
            # Locked or full: that says nothing about the claim, and the next look may work.
            return True
        except TugError as error:
            if error.code in OVER:
                return False
            raise
        return True

    def renewed(self) -> None:
        """Something else has been a sign of life just now."""
        self._due = clock.ticks() + self._rest

    def _renew(self) -> None:
        state.heartbeat(self.store, self.plan, self.anchor, owner=self.owner, attempt=self.attempt)
        self.renewed()

    def _has_changed(self) -> bool:
        now = clock.ticks()
        changed = self.store.wait_for_change(0)
        if self._looked is not None and now - self._looked < READ_SECONDS and not changed:
            return False
        self._looked = now
        return True

    def _is_ours(self) -> bool:
        with self.store.read(self.plan) as tx:
            row = tx.first(sql.STEP, anchor=self.anchor)
        if row is None or row["status"] == "completed":
            return False
        return (row["attempt"], row["claimed_by"]) == (self.attempt, self.owner)
