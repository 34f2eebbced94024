"""The process that holds a claim: whether it still does, and who it is from now on."""

from __future__ import annotations

from tugtool import holder
from tugtool.state import record
from tugtool.state_errors import NotReady, Superseded
from tugtool.store import sql, sql_exec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store import Store, Transaction

    Data = dict[str, object]


def standing(store: Store, plan: str, anchor: str, *, owner: str, attempt: int) -> Data:
    """How an attempt stands: `held`, or as its owner ended it: `completed`, `released`.

    However else it ended, it is lost: E060.
    """
    with store.read(plan) as tx:
        outcome, lease = _standing(tx, plan, anchor, owner, attempt)
    return {
        "plan_path": plan,
        **record.names(anchor),
        "attempt": attempt,
        "standing": outcome,
        "lease_seconds": lease,
    }


def _standing(
    tx: Transaction, plan: str, anchor: str, owner: str, attempt: int
) -> tuple[str, float]:
    row = tx.first(sql_exec.STANDING, anchor=anchor, number=attempt)
    if row is None:
        raise Superseded(plan, anchor, attempt=attempt, current=attempt)
    lease = float(row["lease_seconds"])
    if row["ended_at"] is None:
        return "held", lease
    outcome = str(row["outcome"])
    if outcome == "completed" or (outcome == "released" and _by_owner(tx, anchor, owner, attempt)):
        return outcome, lease
    raise Superseded(plan, anchor, attempt=attempt, current=row["current_attempt"])


def _by_owner(tx: Transaction, anchor: str, owner: str, attempt: int) -> bool:
    # By force anybody releases, and then whoever worked has to stop.
    return bool(tx.value(sql_exec.RELEASED_BY, anchor=anchor, number=attempt) == owner)


def adopt(store: Store, plan: str, anchor: str, *, owner: str, attempt: int, pid: int) -> Data:
    """Become the process that holds a claim; not while the one before still runs (E053)."""
    with store.write(plan) as tx:
        _, top = record.held(tx, plan, anchor, owner=owner, attempt=attempt)
        row = tx.one(sql.ATTEMPT, anchor=top["anchor"], number=attempt)
        if row["holder_pid"] not in (None, pid) and not holder.is_gone(row):
            until = top["lease_expires_at"]
            raise NotReady(plan, anchor, owner=f"process {row['holder_pid']}", until=until)
        start = holder.start_time(pid) or ""
        return _hold(tx, plan, top["anchor"], owner, attempt, pid, start)


def let_go(store: Store, plan: str, anchor: str, *, owner: str, attempt: int) -> Data:
    """From now on no process stands for the claim: only the lease counts, which is renewed."""
    with store.write(plan) as tx:
        _, top = record.held(tx, plan, anchor, owner=owner, attempt=attempt)
        return _hold(tx, plan, top["anchor"], owner, attempt, None, None)


def _hold(
    tx: Transaction,
    plan: str,
    anchor: str,
    owner: str,
    attempt: int,
    pid: int | None,
    start: str | None,
) -> Data:
    nowhere = dict.fromkeys(("host", "boot", "pid_namespace"))
    where = nowhere if pid is None else holder.place()
    tx.run(
        sql_exec.SET_HOLDER,
        anchor=anchor,
        number=attempt,
        holder_pid=pid,
        holder_start=start,
        **where,
    )
    until = record.renew(tx, plan, record.step_row(tx, plan, anchor))
    record.note(tx, plan, "heartbeat", anchor=anchor, actor=owner, attempt=attempt, holder_pid=pid)
    return {
        "plan_path": plan,
        **record.names(anchor),
        "attempt": attempt,
        "holder_pid": pid,
        "lease_expires_at": until,
    }
