"""complete: a step is done when everything on its checklists is."""

from __future__ import annotations

from tugtool.state import record, ripple
from tugtool.state.holding import refuse_early
from tugtool.state_errors import InvalidEntry, ItemsOpen, SubstepItemsOpen
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.state.record import PlanCopy
    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]


def complete(
    store: Store,
    plan: str,
    anchor: str,
    *,
    owner: str,
    copy: PlanCopy,
    attempt: int | None = None,
    commit: str | None = None,
    unknown_commit: str | None = None,
    intent_at: str | None = None,
    force_reason: str | None = None,
) -> Data:
    """Complete a step or substep; with a reason to force it, close what is still open.

    `commit` is a full hash; `unknown_commit` what was named and git does not know;
    `intent_at` when the owner wrote down that it would be made, which ends with it.
    """
    force_reason = record.reason(force_reason)
    with store.write(plan) as tx:
        plan_ = record.plan_row(tx, plan)
        row, top = record.family(tx, plan, anchor)
        record.refuse_stale(plan, top, attempt)
        _end_intent(tx, owner, intent_at)
        if row["status"] == "completed":
            return _answer(tx, plan, row, top, forced=0, again=True)
        record.refuse_stranger(plan, top, owner)
        record.refuse_drift(tx, plan_, copy)
        if row is not top:
            refuse_early(tx, plan, row)
        if unknown_commit is not None:
            raise InvalidEntry(f'git knows no commit "{unknown_commit}"', command="complete")
        closed = _close_items(tx, plan, row, force_reason)
        reason = force_reason if closed else None
        if row is top:
            _finish_step(tx, plan, row, owner, commit, reason, closed)
        else:
            _finish_substep(tx, plan, row, top, owner, commit, reason, closed)
        done = record.step_row(tx, plan, anchor)
        return _answer(tx, plan, done, top, forced=len(closed), again=False)


def _end_intent(tx: Transaction, owner: str, created_at: str | None) -> None:
    if created_at is not None:
        from tugtool.store import sql_commit  # Only for whoever commits.

        tx.run(sql_commit.DROP_COMMIT_INTENT, owner=owner, created_at=created_at)


def _open_items(tx: Transaction, plan: str, row: Row) -> list[Row]:
    members = [row["anchor"]]
    if row["parent_anchor"] is None:
        members += [each["anchor"] for each in tx.all(sql.SUBSTEPS, anchor=members[0])]
    return [
        item
        for member in members
        for item in tx.all(sql.ITEMS, anchor=member)
        if item["status"] not in ripple.CLOSED
    ]


def _close_items(
    tx: Transaction, plan: str, row: Row, force_reason: str | None
) -> list[list[object]]:
    """Refuse what is open, or close it with the reason; what was closed."""
    items = _open_items(tx, plan, row)
    if items and force_reason is None:
        listed = [
            {key: item[key] for key in ("step_anchor", "kind", "ordinal", "status", "text")}
            for item in items
        ]
        own = any(item["step_anchor"] == row["anchor"] for item in items)
        raise (ItemsOpen if own else SubstepItemsOpen)(plan, row["anchor"], items=listed)
    for item in items:
        tx.run(
            sql.SET_ITEM,
            anchor=item["step_anchor"],
            kind=item["kind"],
            ordinal=item["ordinal"],
            status="completed",
            reason=force_reason,
            evidence=item["evidence"],
        )
    return [[item["step_anchor"], item["kind"], item["ordinal"], "completed"] for item in items]


def _finish_step(
    tx: Transaction,
    plan: str,
    step: Row,
    owner: str,
    commit: str | None,
    reason: str | None,
    items: list[list[object]],
) -> None:
    anchor, number = step["anchor"], step["attempt"]
    for listed in tx.all(sql.SUBSTEPS, anchor=anchor):
        # Looked at again: the one before may have completed this one along with itself.
        substep = record.step_row(tx, plan, listed["anchor"])
        if substep["status"] != "completed":
            because = "its step is completed"
            ripple.close_substep(tx, plan, substep, actor=owner, because=because, reason=reason)
            ripple.completed(tx, plan, substep, actor=owner)
    tx.run(
        sql.COMPLETE_STEP,
        anchor=anchor,
        owner=owner,
        commit=commit,
        reason=reason,
    )
    tx.run(sql.END_ATTEMPT, anchor=anchor, number=number, outcome="completed")
    record.count(tx, plan, done=1)
    ripple.completed(tx, plan, step, actor=owner)
    record.settle(tx, plan)
    record.note(
        tx,
        plan,
        "complete",
        anchor=anchor,
        actor=owner,
        attempt=number,
        commit=commit,
        forced=reason,
        items=items,
    )


def _finish_substep(
    tx: Transaction,
    plan: str,
    substep: Row,
    top: Row,
    owner: str,
    commit: str | None,
    reason: str | None,
    items: list[list[object]],
) -> None:
    if items:
        record.note(
            tx,
            plan,
            "update",
            anchor=substep["anchor"],
            actor=owner,
            attempt=top["attempt"],
            forced=reason,
            items=items,
        )
    because = "it was completed"
    ripple.close_substep(
        tx, plan, substep, actor=owner, because=because, reason=reason, commit=commit
    )
    ripple.completed(tx, plan, substep, actor=owner)
    record.renew(tx, plan, top)


def _answer(tx: Transaction, plan: str, row: Row, top: Row, *, forced: int, again: bool) -> Data:
    plan_ = record.plan_row(tx, plan)
    return {
        "completed": True,
        "plan_path": plan,
        **record.names(row["anchor"]),
        "attempt": top["attempt"],
        "commit_hash": row["commit_hash"],
        "already_completed": again,
        "forced": forced > 0,
        "force_reason": row["complete_reason"],
        "incomplete_items_auto_completed": forced,
        "plan_completed": plan_["status"] == "done",
        "remaining_steps": plan_["steps_total"] - plan_["steps_done"],
    }
