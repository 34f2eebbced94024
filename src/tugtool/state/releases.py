"""release, reset, retry, reopen, pause, resume."""

from __future__ import annotations

from tugtool import errors
from tugtool.state import checklists, record
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tugtool.schemas import StatePause, StateRelease, StateReopen, StateReset
    from tugtool.state.record import Changes
    from tugtool.store import Row, Store, Transaction


#: Statuses that an item loses when its step goes to another worker.
_UNDECIDED = ("in_progress", "deferred")


# With a `failure` the attempt has failed; `leaving_work` marks its work as unsaved.
# `interrupted`: the worker was stopped, so this claim does not count. Also returns whether work on
# the plan has to be saved afterwards.
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
    actor: str | None = None,
    reason: str | None = None,
) -> tuple[StateRelease, bool]:
    """Release a claim, with `force` of any worker; with a park reason it waits for a person."""
    park = None if park_reason is None else record.storable(park_reason)
    how: dict[str, Any] = {"outcome": "released" if failure is None else "failed", "why": failure}
    how |= {"actor": actor or owner, **_reason(reason)}
    with store.write(plan) as tx:
        record.plan_row(tx)
        step, top = record.family(tx, anchor)
        record.refuse_stale(plan, top, attempt)
        _refuse_substep(plan, step, "released")
        _refuse_completed(plan, step)
        if step["claimed_by"] is None or not force:
            record.refuse_stranger(plan, step, owner)
        if reason and not force:
            # The next worker is told.
            by = {"actor": owner, "attempt": step["attempt"]}
            checklists.leave_artifact(tx, anchor, "note", f"given back: {reason}", None, **by)
        _free(tx, step, "release", park=park, counts=not interrupted, **how)
        if force or leaving_work:
            record.displaced(tx, step)
        return _released(plan, step, parked=park is not None), record.is_unsaved(tx)


def _released(plan: str, step: Row, *, parked: bool) -> StateRelease:
    return {
        "released": True,
        "plan_path": plan,
        **record.names(step["anchor"]),
        "was_claimed_by": step["claimed_by"],
        "attempt": step["attempt"],
        "parked": parked,
        "salvage_ref": None,
    }


def reset(
    store: Store, plan: str, anchor: str, *, actor: str | None = None, reason: str | None = None
) -> tuple[StateReset, bool]:
    """Take a step from its holder, or free a parked one. For people. Returns as `release` does."""
    said = _reason(reason)
    with store.write(plan) as tx:
        record.plan_row(tx)
        step, top = record.family(tx, anchor)
        _refuse_completed(plan, step)
        if step is not top:
            done = _reset_substep(tx, step, top, actor, said)
        elif step["claimed_by"] is None:
            done = False
            _unpark(tx, step, actor, said)
        else:
            done = True
            _free(tx, step, "reset", actor=actor, outcome="reset", park=None, **said)
            record.displaced(tx, step)
        unsaved = record.is_unsaved(tx)
    answer: StateReset = {
        "reset": done,
        "plan_path": plan,
        **record.names(anchor),
        "was_claimed_by": top["claimed_by"],
        "unparked": step is top and step["parked_at"] is not None,
        "reason": said.get("reason"),
        "salvage_ref": None,
    }
    return answer, unsaved


def retry(
    store: Store, plan: str, listed: Mapping[str, str], *, by: str, note: str | None = None
) -> tuple[list[str], bool]:
    """Free parked steps, all in one transaction. For people.

    `listed`: the steps that the person has seen, and since when each was parked. Returns those
    that were freed, and whether work on the plan is to be saved after it.
    """
    by, note = record.storable(by), record.reason(note)
    with store.write(plan) as tx:
        record.plan_row(tx)
        rows = [tx.first(sql.STEP, anchor=anchor) for anchor in listed]
        steps = [row for row in rows if row is not None and _waits_as_listed(tx, row, listed)]
        for step in steps:
            if step["claimed_by"] is None:
                _unpark(tx, step, by, {})
            else:
                _free(tx, step, "reset", actor=by, outcome="reset", park=None)
                record.displaced(tx, step)
            if note is not None:
                said = {"actor": by, "attempt": step["attempt"]}
                leave = (step["anchor"], "note", f"retried by {by}: {note}", None)
                checklists.leave_artifact(tx, *leave, **said)
        return [step["anchor"] for step in steps], record.is_unsaved(tx)


def _waits_as_listed(tx: Transaction, step: Row, listed: Mapping[str, str]) -> bool:
    if step["parked_at"] != listed[step["anchor"]]:
        return False
    is_live = step["claimed_by"] is not None and step["lease_expires_at"] >= tx.now
    return not is_live or step["anchor"] in record.gone(tx)


def reopen(
    store: Store,
    plan: str,
    anchor: str,
    *,
    reason: str,
    force: bool = False,
    actor: str | None = None,
) -> StateReopen:
    """Send a completed step back to pending, with its items open. For people."""
    reason = record.storable(reason)
    with store.write(plan) as tx:
        record.plan_row(tx)
        step = record.step_row(tx, anchor)
        _refuse_substep(plan, step, "reopened")
        if step["status"] != "completed":
            needed = "only a completed step can be reopened"
            raise errors.WrongStatus(plan, anchor, status=step["status"], needed=needed)
        dependents = send_back(tx, step, reason=reason, force=force, actor=actor)
        status = record.plan_row(tx)["status"]
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
    tx: Transaction, step: Row, *, reason: str, force: bool, actor: str | None
) -> list[str]:
    """Undo a completed step. Return the steps built on it, which only force overrides."""
    anchor, dependents = step["anchor"], built_on(tx, tx.plan, step["anchor"])
    if dependents and not force:
        raise errors.NotReady(tx.plan, anchor, dependents=dependents)
    was = {"commit": step["commit_hash"], "completed_by": step["completed_by"]}
    by = {"actor": actor, "attempt": step["attempt"]}
    items = _undo(tx, step)
    record.note(tx, "reopen", anchor=anchor, **by, reason=reason, items=items, **was)
    record.settle(tx, record.plan_row(tx))
    return dependents


def _refuse_substep(plan: str, step: Row, verb: str) -> None:
    if step["parent_anchor"] is not None:
        needed = f"only whole steps are {verb}, and its step is {step['parent_anchor']}"
        raise errors.WrongStatus(plan, step["anchor"], status="a substep", needed=needed)


def _refuse_completed(plan: str, step: Row) -> None:
    if step["status"] == "completed":
        needed = "what is done stays done"
        raise errors.WrongStatus(plan, step["anchor"], status="completed", needed=needed)


def _free(
    tx: Transaction,
    step: Row,
    kind: str,
    *,
    actor: str | None,
    outcome: str,
    park: str | None,
    why: str | None = None,
    counts: bool = True,
    reason: str | None = None,
) -> None:
    items = record.reopen_unfinished(tx, step, *_UNDECIDED)
    claims = 0 if kind == "reset" else step["claims_without_progress"]
    if not counts:
        claims = max(claims - 1, 0)
    # A holder of a parked step has unparked it by its claim.
    keep = kind == "release" and park is None and counts
    parked = tx.now if park is not None else None, park
    if keep:
        parked = step["parked_at"], _with_failure(step["park_reason"], why)
    end_claim(tx, step, outcome=outcome, claims=claims, parked=parked)
    told: dict[str, Any] = {"items": items, "parked": park}
    told |= {"failed": record.reason(why)} if why else {}
    told |= {} if counts else {"interrupted": True}
    told |= {"reason": reason} if reason else {}
    record.note(tx, kind, anchor=step["anchor"], actor=actor, attempt=step["attempt"], **told)


def end_claim(
    tx: Transaction, step: Row, *, outcome: str, claims: int, parked: tuple[str | None, str | None]
) -> None:
    """Make a held step and its substeps pending again, parked or not."""
    anchor, (parked_at, reason) = step["anchor"], parked
    tx.later(sql.FREE_STEP, anchor=anchor, claims=claims, parked_at=parked_at, park_reason=reason)
    tx.later(sql.FREE_SUBSTEPS, anchor=anchor)
    tx.later(sql.END_ATTEMPT, anchor=anchor, number=step["attempt"], outcome=outcome)
    if parked_at is None and step["open_deps"] == 0:
        record.count(tx, ready=1)


def _with_failure(reason: str | None, failure: str | None) -> str | None:
    """Return the park reason with the last failure, which people look for."""
    if reason is None or failure is None:
        return reason
    return f"{reason}; the last attempt failed: {record.storable(failure)}"


def _reset_substep(
    tx: Transaction, substep: Row, top: Row, actor: str | None, said: dict[str, Any]
) -> bool:
    if top["claimed_by"] is None:
        return False
    items = record.reopen_unfinished(tx, substep, *_UNDECIDED)
    tx.later(sql.UNSTART_SUBSTEP, anchor=substep["anchor"])
    by = {"actor": actor, "attempt": top["attempt"]}
    record.note(tx, "reset_substep", anchor=substep["anchor"], **by, items=items, **said)
    return True


def _unpark(tx: Transaction, step: Row, actor: str | None, said: dict[str, Any]) -> None:
    if step["parked_at"] is None and step["claims_without_progress"] == 0:
        return
    record.progress(tx, step["anchor"])
    by = {"actor": actor, "attempt": step["attempt"]}
    record.note(tx, "unpark", anchor=step["anchor"], **by, **said)


def _reason(text: str | None) -> dict[str, Any]:
    """Return the detail of an event with a person's reason; empty without one."""
    reason = record.reason(text)
    return {"reason": reason} if reason else {}


def built_on(tx: Transaction, plan: str, anchor: str) -> list[str]:
    """Return claimed or completed steps that depend on this step or its substeps, in order."""
    below = [row["anchor"] for row in tx.all(sql.SUBSTEPS, plan=plan, anchor=anchor)]
    tops = {
        row["top"]: int(row["step_index"])
        for member in (anchor, *below)
        for row in tx.all(sql.DEPENDENTS, plan=plan, anchor=member)
        if row["top"] != anchor and row["status"] != "pending"
    }
    return sorted(tops, key=lambda top: tops[top])


def _undo(tx: Transaction, step: Row) -> Changes:
    """Reset everything under the step; its dependents wait again."""
    changes = record.reopen_items(tx, record.items(tx, step))
    for member in record.members(tx, step):
        record.reopened(tx, member)
    tx.later(sql.REOPEN_STEPS, anchor=step["anchor"])
    now = record.step_row(tx, step["anchor"])
    record.count(tx, done=-1, ready=1 if now["open_deps"] == 0 else 0)
    return changes


def pause(
    store: Store, plan: str, *, actor: str | None = None, reason: str | None = None
) -> StatePause:
    """Allow no new claims; holders may finish. A repetition changes nothing."""
    return _set(store, plan, _reason(reason), paused=True, actor=actor)


def resume(
    store: Store, plan: str, *, actor: str | None = None, reason: str | None = None
) -> StatePause:
    """Allow claims again."""
    return _set(store, plan, _reason(reason), paused=False, actor=actor)


def _set(
    store: Store, plan: str, said: dict[str, Any], *, paused: bool, actor: str | None
) -> StatePause:
    with store.write(plan) as tx:
        row = record.plan_row(tx)
        record.refuse_archived(row)
        if paused and row["status"] != "active":
            needed = "only an active plan can be paused"
            raise errors.WrongStatus(plan, None, status=row["status"], needed=needed)
        changed = (row["paused_at"] is not None) != paused
        since = row["paused_at"]
        if changed:
            since = tx.now if paused else None
            tx.later(sql.SET_PAUSED, paused_at=since)
            record.note(tx, "pause" if paused else "resume", actor=actor, **said)
    return {
        "plan_path": plan,
        "paused": paused,
        "paused_at": since,
        "changed": changed,
        "reason": said.get("reason") if changed else None,
    }
