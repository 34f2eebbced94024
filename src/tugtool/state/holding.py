"""start and heartbeat: a holder says that it works, and that it lives."""

from __future__ import annotations

from tugtool.state import record, ripple
from tugtool.state_errors import NotReady
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]


def start(store: Store, plan: str, anchor: str, *, owner: str, attempt: int | None = None) -> Data:
    """Say that work on a step or substep begins; saying it again changes nothing."""
    with store.write(plan) as tx:
        return begin(tx, plan, anchor, owner=owner, attempt=attempt)


def begin(tx: Transaction, plan: str, anchor: str, *, owner: str, attempt: int | None) -> Data:
    """The same within somebody's transaction."""
    row, top = record.held(tx, plan, anchor, owner=owner, attempt=attempt, unfinished=True)
    if row is not top and row["status"] != "in_progress":
        refuse_early(tx, plan, row)
    members = dict.fromkeys((top["anchor"], row["anchor"]))
    started = [each for each in members if tx.run(sql.START_STEP, anchor=each)]
    # Started before: then this is a sign of life and nothing else.
    for each, kind in [(each, "start") for each in started] or [(anchor, "heartbeat")]:
        record.note(tx, plan, kind, anchor=each, actor=owner, attempt=top["attempt"])
    until = record.renew(tx, plan, top)
    now = record.step_row(tx, plan, anchor)
    return {
        "started": True,
        "plan_path": plan,
        **record.names(anchor),
        "status": now["status"],
        "started_at": now["started_at"],
        "attempt": top["attempt"],
        "lease_expires_at": until,
    }


def refuse_early(tx: Transaction, plan: str, substep: Row) -> None:
    """E053: a substep waits for its own dependencies, also those inside its step."""
    waiting = ripple.own_needs(tx, plan, substep)
    if waiting:
        raise NotReady(plan, substep["anchor"], waiting_for=waiting)


def heartbeat(
    store: Store,
    plan: str,
    anchor: str,
    *,
    owner: str,
    attempt: int | None = None,
    lease_seconds: float | None = None,
) -> Data:
    """Renew the lease, for the step and its substeps, whichever of them is named."""
    with store.write(plan) as tx:
        _, top = record.held(tx, plan, anchor, owner=owner, attempt=attempt)
        until = record.renew(tx, plan, top, lease_seconds)
        record.note(
            tx,
            plan,
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
