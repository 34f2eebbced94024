"""release, reset, reopen: a step goes back to where somebody can claim it."""

from __future__ import annotations

from tugtool.state import record, ripple
from tugtool.state_errors import NotReady, WrongStatus
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]


def release(
    store: Store,
    plan: str,
    anchor: str,
    *,
    owner: str,
    attempt: int | None = None,
    force: bool = False,
    park_reason: str | None = None,
    failure: str | None = None,
    interrupted: bool = False,
    leaving_work: bool = False,
) -> Data:
    """Give a claim back, or with `force` anybody's; with a reason to park, for a person.

    With a `failure` the attempt has failed; `leaving_work` has it saved as if it were displaced.
    `interrupted`: the worker was stopped, not the step, so this claim is not counted.
    """
    park = None if park_reason is None else record.storable(park_reason)
    how: dict[str, Any] = {"outcome": "released" if failure is None else "failed", "why": failure}
    with store.write(plan) as tx:
        record.plan_row(tx, plan)
        step, top = record.family(tx, plan, anchor)
        record.refuse_stale(plan, top, attempt)
        _refuse_substep(plan, step, "released")
        _refuse_completed(plan, step)
        if step["claimed_by"] is None or not force:
            record.refuse_stranger(plan, step, owner)
        _free(tx, plan, step, "release", actor=owner, park=park, counts=not interrupted, **how)
        if force or leaving_work:
            record.displaced(tx, step)
        unsaved = record.is_unsaved(tx)
    return {**_released(plan, step, parked=park is not None), "unsaved": unsaved}


def _released(plan: str, step: Row, *, parked: bool) -> Data:
    return {
        "released": True,
        "plan_path": plan,
        **record.names(step["anchor"]),
        "was_claimed_by": step["claimed_by"],
        "attempt": step["attempt"],
        "parked": parked,
        "salvage_ref": None,
    }


def reset(store: Store, plan: str, anchor: str, *, actor: str | None = None) -> Data:
    """Take a step from whoever holds it; frees a parked one. For people."""
    with store.write(plan) as tx:
        record.plan_row(tx, plan)
        step, top = record.family(tx, plan, anchor)
        _refuse_completed(plan, step)
        if step is not top:
            done = _reset_substep(tx, plan, step, top, actor)
        elif step["claimed_by"] is None:
            done = False
            _unpark(tx, plan, step, actor)
        else:
            done = True
            _free(tx, plan, step, "reset", actor=actor, outcome="reset", park=None)
            record.displaced(tx, step)
        unsaved = record.is_unsaved(tx)
    return {
        "reset": done,
        "plan_path": plan,
        **record.names(anchor),
        "was_claimed_by": top["claimed_by"],
        "unparked": step is top and step["parked_at"] is not None,
        "salvage_ref": None,
        "unsaved": unsaved,
    }


def reopen(
    store: Store,
    plan: str,
    anchor: str,
    *,
    reason: str,
    force: bool = False,
    actor: str | None = None,
) -> Data:
    """Send a completed step back to pending, with its items open. For people."""
    reason = record.storable(reason)
    with store.write(plan) as tx:
        record.plan_row(tx, plan)
        step = record.step_row(tx, plan, anchor)
        _refuse_substep(plan, step, "reopened")
        if step["status"] != "completed":
            needed = "only a completed step can be reopened"
            raise WrongStatus(plan, anchor, status=step["status"], needed=needed)
        dependents = send_back(tx, plan, step, reason=reason, force=force, actor=actor)
        status = record.plan_row(tx, plan)["status"]
    return {
        "reopened": True,
        "plan_path": plan,
        **record.names(anchor),
        "reason": reason,
        "dependents": dependents,
        "was_commit": step["commit_hash"],
        "plan_status": status,
    }


def send_back(
    tx: Transaction, plan: str, step: Row, *, reason: str, force: bool, actor: str | None
) -> list[str]:
    """Undo a completed step; the steps that were built on it, which only force overrides."""
    anchor, dependents = step["anchor"], _built_on(tx, plan, step)
    if dependents and not force:
        raise NotReady(plan, anchor, dependents=dependents)
    was = {"commit": step["commit_hash"], "completed_by": step["completed_by"]}
    by = {"actor": actor, "attempt": step["attempt"]}
    items = _undo(tx, plan, step)
    record.note(tx, plan, "reopen", anchor=anchor, **by, reason=reason, items=items, **was)
    record.settle(tx, plan)
    return dependents


def _refuse_substep(plan: str, step: Row, verb: str) -> None:
    if step["parent_anchor"] is not None:
        needed = f"only whole steps are {verb}, and its step is {step['parent_anchor']}"
        raise WrongStatus(plan, step["anchor"], status="a substep", needed=needed)


def _refuse_completed(plan: str, step: Row) -> None:
    if step["status"] == "completed":
        needed = "what is done stays done"
        raise WrongStatus(plan, step["anchor"], status="completed", needed=needed)


def _free(
    tx: Transaction,
    plan: str,
    step: Row,
    kind: str,
    *,
    actor: str | None,
    outcome: str,
    park: str | None,
    why: str | None = None,
    counts: bool = True,
) -> None:
    anchor = step["anchor"]
    substeps = tx.all(sql.SUBSTEPS, anchor=anchor)
    members = [anchor, *(row["anchor"] for row in substeps if row["status"] != "completed")]
    items = [change for member in members for change in _open_unfinished(tx, plan, member)]
    claims = 0 if kind == "reset" else step["claims_without_progress"]
    if not counts:
        claims = max(claims - 1, 0)
    # Whoever holds a parked step has made it one by claiming it.
    keep = kind == "release" and park is None and counts
    parked_at = step["parked_at"] if keep else tx.now if park is not None else None
    tx.run(
        sql.FREE_STEP,
        anchor=anchor,
        parked_at=parked_at,
        park_reason=_with_failure(step["park_reason"], why) if keep else park,
        claims=claims,
    )
    tx.run(sql.FREE_SUBSTEPS, anchor=anchor)
    number = step["attempt"]
    tx.run(sql.END_ATTEMPT, anchor=anchor, number=number, outcome=outcome)
    if parked_at is None and step["open_deps"] == 0:
        record.count(tx, plan, ready=1)
    told: dict[str, Any] = {"items": items, "parked": park}
    told |= {"failed": record.reason(why)} if why else {}
    told |= {} if counts else {"interrupted": True}
    record.note(tx, plan, kind, anchor=anchor, actor=actor, attempt=number, **told)


def _with_failure(reason: str | None, failure: str | None) -> str | None:
    """Why it is parked, with what the last attempt failed of: that is what people look for."""
    if reason is None or failure is None:
        return reason
    return f"{reason}; the last attempt failed: {record.storable(failure)}"


def _open_unfinished(tx: Transaction, plan: str, anchor: str) -> list[list[object]]:
    changed: list[list[object]] = []
    for item in tx.all(sql.ITEMS, anchor=anchor):
        if item["status"] in ("in_progress", "deferred"):
            record.set_open(tx, item)
            changed.append([anchor, item["kind"], item["ordinal"], "open"])
    return changed


def _reset_substep(tx: Transaction, plan: str, substep: Row, top: Row, actor: str | None) -> bool:
    if top["claimed_by"] is None:
        return False
    items = _open_unfinished(tx, plan, substep["anchor"])
    tx.run(sql.UNSTART_SUBSTEP, anchor=substep["anchor"])
    record.note(
        tx,
        plan,
        "reset_substep",
        anchor=substep["anchor"],
        actor=actor,
        attempt=top["attempt"],
        items=items,
    )
    return True


def _unpark(tx: Transaction, plan: str, step: Row, actor: str | None) -> None:
    if step["parked_at"] is None and step["claims_without_progress"] == 0:
        return
    ripple.progress(tx, plan, step["anchor"])
    record.note(tx, plan, "unpark", anchor=step["anchor"], actor=actor, attempt=step["attempt"])


def _built_on(tx: Transaction, plan: str, step: Row) -> list[str]:
    """Steps that are claimed or completed and depend on this one, or on a substep of it."""
    members = [step["anchor"]]
    members += [row["anchor"] for row in tx.all(sql.SUBSTEPS, anchor=step["anchor"])]
    tops = {
        row["top"]: None
        for member in members
        for row in tx.all(sql.DEPENDENTS, anchor=member)
        if row["top"] != step["anchor"]
    }
    return [top for top in tops if record.step_row(tx, plan, top)["status"] != "pending"]


def _undo(tx: Transaction, plan: str, step: Row) -> list[list[object]]:
    """Everything under the step starts over; whoever waits for it waits again."""
    items: list[list[object]] = []
    for member in (step, *tx.all(sql.SUBSTEPS, anchor=step["anchor"])):
        for item in tx.all(sql.ITEMS, anchor=member["anchor"]):
            record.set_open(tx, item)
            items.append([member["anchor"], item["kind"], item["ordinal"], "open"])
        ripple.reopened(tx, plan, member)
    tx.run(sql.REOPEN_STEPS, anchor=step["anchor"])
    now = record.step_row(tx, plan, step["anchor"])
    record.count(tx, plan, done=-1, ready=1 if now["open_deps"] == 0 else 0)
    return items
