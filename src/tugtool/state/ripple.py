"""What follows when something is completed, or is no longer: counts, and substeps."""

from __future__ import annotations

from tugtool.state import record
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store import Row, Transaction

CLOSED = ("completed", "deferred")


def completed(tx: Transaction, plan: str, step: Row, *, actor: str | None) -> None:
    """Tell whoever waited for a step or substep that it is done."""
    pending = [step]
    while pending:
        done = pending.pop()
        for waiting in _dependents(tx, plan, done, by=-1):
            substep = tx.one(sql.STEP, anchor=waiting)
            if may_complete(tx, plan, substep):
                because = "its items are closed"
                close_substep(tx, plan, substep, actor=actor, because=because)
                pending.append(substep)


def reopened(tx: Transaction, plan: str, step: Row) -> None:
    """Tell whoever was let through that it has to wait again."""
    _dependents(tx, plan, step, by=1)


def may_complete(tx: Transaction, plan: str, substep: Row) -> bool:
    """Whether a substep is done by itself: it has items, all closed, and waits for nothing."""
    if substep["status"] == "completed":
        return False
    items = tx.all(sql.ITEMS, anchor=substep["anchor"])
    if not items or any(item["status"] not in CLOSED for item in items):
        return False
    return not own_needs(tx, plan, substep)


def own_needs(tx: Transaction, plan: str, substep: Row) -> list[str]:
    """What a substep itself waits for; naming its own step as a dependency means nothing."""
    needs = tx.all(sql.OPEN_NEEDS, anchor=substep["anchor"])
    return [row["anchor"] for row in needs if row["anchor"] != substep["parent_anchor"]]


def close_substep(
    tx: Transaction,
    plan: str,
    substep: Row,
    *,
    actor: str | None,
    because: str,
    commit: str | None = None,
    reason: str | None = None,
) -> None:
    """Complete one substep and count it as progress of its step."""
    top = tx.one(sql.STEP, anchor=substep["parent_anchor"])
    # What was missing may be another's step: the work is still that of whoever did it.
    last = tx.first(sql.ATTEMPT, anchor=top["anchor"], number=top["attempt"])
    worktree = last["worktree"] if last else None
    tx.run(
        sql.COMPLETE_STEP,
        anchor=substep["anchor"],
        owner=worktree,
        commit=commit,
        reason=reason,
    )
    progress(tx, plan, top["anchor"])
    record.note(
        tx,
        plan,
        "substep_completed",
        anchor=substep["anchor"],
        actor=actor,
        attempt=top["attempt"],
        completed_by=worktree,
        because=because,
        reason=reason,
        commit=commit,
    )


def progress(tx: Transaction, plan: str, anchor: str) -> None:
    """An item or substep became completed: the step is worth another try, and not parked."""
    step = tx.one(sql.STEP, anchor=anchor)
    if step["parked_at"] is not None and _is_waiting(step["status"], step["open_deps"]):
        record.count(tx, plan, ready=1)
    tx.run(sql.PROGRESS, anchor=anchor)


def _dependents(tx: Transaction, plan: str, step: Row, *, by: int) -> list[str]:
    """Shift the counts of those who wait for `step`; the substeps among them."""
    home = step["parent_anchor"] or step["anchor"]
    substeps, ready = [], 0
    for row in tx.all(sql.DEPENDENTS, anchor=step["anchor"]):
        if row["parent_anchor"] is not None:
            substeps.append(row["anchor"])
        if row["top"] == home:
            continue  # inside one step nobody waits for a claim
        now = tx.one(sql.SHIFT_OPEN_DEPS, anchor=row["top"], by=by)
        if now["parked_at"] is None and now["status"] == "pending":
            ready += _turned(now["open_deps"], by)
    record.count(tx, plan, ready=ready)
    return substeps


def _turned(open_deps: int, by: int) -> int:
    """+1 if the last dependency has gone, -1 if the first has come back."""
    if by < 0:
        return 1 if open_deps == 0 else 0
    return -1 if open_deps == 1 else 0


def _is_waiting(status: str, open_deps: int) -> bool:
    return status == "pending" and open_deps == 0
