"""start, heartbeat, adopt, let_go, standing; a Keeper renews a claim during a command."""

from __future__ import annotations

from tugtool import errors, state
from tugtool.errors import TugError
from tugtool.state import record
from tugtool.store import sql
from tugtool.system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal

    from tugtool.schemas import StateHeartbeat, StateStart
    from tugtool.store import Row, Store, Transaction


def start(
    store: Store, plan: str, anchor: str, *, owner: str, attempt: int | None = None
) -> StateStart:
    """Record that work on a step or substep begins; a repetition changes nothing."""
    with store.write(plan) as tx:
        return begin(tx, anchor, owner=owner, attempt=attempt)


def begin(tx: Transaction, anchor: str, *, owner: str, attempt: int | None) -> StateStart:
    """Do the same within a given transaction."""
    row, top = record.held(tx, anchor, owner=owner, attempt=attempt, unfinished=True)
    if row is not top and row["status"] != "in_progress":
        refuse_early(tx, row)
    members = dict.fromkeys((top["anchor"], row["anchor"]))
    started = [each for each in members if tx.run(sql.START_STEP, anchor=each)]
    # If it was started before, this only counts as a heartbeat.
    for each, kind in [(each, "start") for each in started] or [(anchor, "heartbeat")]:
        record.note(tx, kind, anchor=each, actor=owner, attempt=top["attempt"])
    until = record.renew(tx, top)
    now = record.step_row(tx, anchor)
    return {
        "started": True,
        "plan_path": tx.plan,
        **record.names(anchor),
        "status": now["status"],
        "started_at": now["started_at"],
        "attempt": top["attempt"],
        "lease_expires_at": until,
    }


def refuse_early(tx: Transaction, substep: Row) -> None:
    """Raise E053: a substep waits for its own dependencies, also those inside its step."""
    waiting = record.own_needs(tx, substep)
    if waiting:
        raise errors.NotReady(tx.plan, substep["anchor"], waiting_for=waiting)


def heartbeat(
    store: Store,
    plan: str,
    anchor: str,
    *,
    owner: str,
    attempt: int | None = None,
    lease_seconds: float | None = None,
) -> StateHeartbeat:
    """Renew the lease of a step and its substeps; any of them may be named."""
    with store.write(plan) as tx:
        _, top = record.held(tx, anchor, owner=owner, attempt=attempt)
        until = record.renew(tx, top, lease_seconds)
        record.note(
            tx,
            "heartbeat",
            anchor=anchor,
            actor=owner,
            attempt=top["attempt"],
            lease_seconds=lease_seconds,
        )
    return {
        "renewed": True,
        "plan_path": plan,
        **record.names(anchor),
        "attempt": top["attempt"],
        "lease_expires_at": until,
    }


def judge_from_now(store: Store, plan: str) -> list[str]:
    """Restart leases that a clock ahead of this one gave. Return their steps.

    Otherwise no worker could claim such a step until this clock catches up.
    """
    from tugtool.store.sql import views as sql_views  # Only waiting workers need it.

    with store.read(plan) as tx:
        if not tx.all(sql_views.LEASED_AHEAD):
            return []
    with store.write(plan) as tx:
        ahead = tx.all(sql_views.LEASED_AHEAD)
        for step in ahead:
            record.renew(tx, step)
            who = {"actor": step["claimed_by"], "attempt": step["attempt"]}
            was = step["lease_expires_at"]
            record.note(tx, "clock_back", anchor=step["anchor"], **who, lease_expired_at=was)
    return [step["anchor"] for step in ahead]


#: How often a waiting process looks; well within the two seconds for noticing a loss.
LOOK_SECONDS = 0.25
#: How often it reads although nothing seems to have changed: the file may be replaced.
READ_SECONDS = 1.0
#: A lease is renewed so many times before it would run out.
RENEWALS = 3
#: The shortest pause, for very short leases.
_SHORTEST_NAP_SECONDS = 0.02


class Keeper:
    """Keeps one attempt's claim alive, and notices its loss."""

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
        #: `held`; `lost`; or ended by its owner: `completed`, `released`.
        self.standing: Literal["held", "lost", "completed", "released"] = "held"
        #: How it was lost; and why the database cannot be read now, which does not mean a loss.
        self.lost: TugError | None = None
        self.trouble: TugError | None = None
        self._lease_seconds = lease_seconds
        self._renewed = clock.ticks()
        self._looked: float | None = None

    def holds(self) -> bool:
        """Return whether the claim is still ours, as far as the database can be read."""
        self.look()
        return self.standing == "held"

    def nap(self) -> float:
        """Return the time until something has to be done."""
        if self.standing != "held":
            return LOOK_SECONDS
        return min(LOOK_SECONDS, max(self._due() - clock.ticks(), _SHORTEST_NAP_SECONDS))

    def look(self, *, closely: bool = False) -> TugError | None:
        """Look at the claim and renew it. Return how it was lost, or None."""
        if self.standing != "held":
            return self.lost
        try:
            if self._may_have_changed() or closely:
                self._notice()
            if self.standing == "held" and clock.ticks() >= self._due():
                self.renew()
            self.trouble = None
        except errors.WrongStatus:
            # It ended between the two; the next look finds out how.
            self._looked = None
        except (errors.NotOwner, errors.Superseded) as error:
            self.standing, self.lost = "lost", error
        except TugError as error:
            # Busy, full or missing: the claim may still be held, and the next look may work.
            self.trouble = error
        return self.lost

    def read(self) -> TugError | None:
        """Read the state of the claim now. Return why that failed, or None."""
        try:
            self._notice()
        except TugError as error:
            return error
        return None

    def renew(self) -> None:
        """Renew the claim now; raise if it is not ours."""
        state.heartbeat(self.store, self.plan, self.anchor, owner=self.owner, attempt=self.attempt)
        self.renewed()

    def renewed(self) -> None:
        """Note that another write has renewed the lease."""
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
        self.standing = found["standing"]
        # The worker may have asked for another lease.
        self._lease_seconds = found["lease_seconds"]


def standing(store: Store, plan: str, anchor: str, *, owner: str, attempt: int) -> Any:
    """Return `held`, or how the owner ended the attempt: `completed`, `released`.

    Raise E060 if the claim was lost in any other way.
    """
    with store.read(plan) as tx:
        outcome, lease = _standing(tx, anchor, owner, attempt)
    return {
        "plan_path": plan,
        **record.names(anchor),
        "attempt": attempt,
        "standing": outcome,
        "lease_seconds": lease,
    }


def _standing(tx: Transaction, anchor: str, owner: str, attempt: int) -> tuple[str, float]:
    row = tx.first(sql.STANDING, anchor=anchor, number=attempt)
    if row is None:
        raise errors.Superseded(tx.plan, anchor, attempt=attempt, current=attempt)
    lease = float(row["lease_seconds"])
    if row["ended_at"] is None:
        return "held", lease
    outcome = str(row["outcome"])
    if outcome == "completed" or (outcome == "released" and _by_owner(tx, anchor, owner, attempt)):
        return outcome, lease
    raise errors.Superseded(tx.plan, anchor, attempt=attempt, current=row["current_attempt"])


def _by_owner(tx: Transaction, anchor: str, owner: str, attempt: int) -> bool:
    # After a forced release by another caller, the worker has to stop.
    return bool(tx.value(sql.RELEASED_BY, anchor=anchor, number=attempt) == owner)


def adopt(
    store: Store, plan: str, anchor: str, *, owner: str, attempt: int, pid: int, place: Any = None
) -> Any:
    """Become the process that holds a claim; raise E053 while the former one runs."""
    from tugtool.system import process  # start and heartbeat need not load it.

    with store.write(plan) as tx:
        _, top = record.held(tx, anchor, owner=owner, attempt=attempt)
        row = tx.one(sql.ATTEMPT, anchor=top["anchor"], number=attempt)
        if row["holder_pid"] not in (None, pid) and not process.is_gone(row):
            until = top["lease_expires_at"]
            raise errors.NotReady(plan, anchor, owner=f"process {row['holder_pid']}", until=until)
        return _hold(tx, top["anchor"], owner, attempt, pid, place or process.holder_place(pid))


def let_go(store: Store, plan: str, anchor: str, *, owner: str, attempt: int) -> Any:
    """Renew the lease and unbind the claim from its process: only the lease counts."""
    with store.write(plan) as tx:
        _, top = record.held(tx, anchor, owner=owner, attempt=attempt)
        nowhere = dict.fromkeys(("holder_start", "host", "boot", "pid_namespace"))
        return _hold(tx, top["anchor"], owner, attempt, None, nowhere)


def _hold(
    tx: Transaction,
    anchor: str,
    owner: str,
    attempt: int,
    pid: int | None,
    where: Mapping[str, str | None],
) -> Any:
    tx.later(sql.SET_HOLDER, anchor=anchor, number=attempt, holder_pid=pid, **where)
    until = record.renew(tx, record.step_row(tx, anchor))
    record.note(tx, "heartbeat", anchor=anchor, actor=owner, attempt=attempt, holder_pid=pid)
    return {
        "plan_path": tx.plan,
        **record.names(anchor),
        "attempt": attempt,
        "holder_pid": pid,
        "lease_expires_at": until,
    }
