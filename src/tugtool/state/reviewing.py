"""review, accept, reject: what waits for a person, and what the person says."""

from __future__ import annotations

from tugtool.state import checklist, freeing, hindsight, record
from tugtool.state_errors import InvalidEntry
from tugtool.store import sql, sql_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]

#: What a worker leaves for whoever looks at a step that it could not finish.
TELLING = ("escalation", "recovery", "note")
ACCEPTED = "accepted by "


def review(store: Store, plan: str | None = None) -> Data:
    """Deferred items, parked steps, done plans that were not approved; not of archived ones."""
    with store.read(plan) as tx:
        if plan is not None:
            record.plan_row(tx, plan)
            plans = [plan]
        else:
            rows = tx.all(sql.PLANS)
            plans = [row["plan_path"] for row in rows if row["status"] != "archived"]
        items = [_deferred(tx, row) for each in plans for row in _deferred_rows(tx, each)]
        lost = hindsight.stale(tx)
        parked = [
            _parked(tx, each, row, lost.get((each, row["anchor"])))
            for each in plans
            for row in tx.all(sql_records.STEPS_PARKED, plan=each)
            # On its last attempt a step is at work, until that has come to nothing.
            if lost.get((each, row["anchor"]), "") is not None
        ]
        audits = [said for each in plans if (said := hindsight.audit(tx, each)) is not None]
    return {
        "deferred_items": items,
        "parked_steps": parked,
        "audits": audits,
        "deferred_count": len(items),
        "parked_count": len(parked),
    }


def accept(
    store: Store,
    plan: str,
    anchor: str,
    *,
    by: str,
    kind: str | None = None,
    ordinal: object = None,
    note: str | None = None,
) -> Data:
    """Deferred items become completed; the step stays what it is. For people.

    One item, or all of the step and its substeps. Accepting again changes nothing.
    """
    by, note = record.storable(by), record.reason(note)
    with store.write(plan) as tx:
        record.plan_row(tx, plan)
        step, top = record.family(tx, plan, anchor)
        found = _asked_for(tx, plan, step, kind, ordinal, again=True)
        items = [item for item in found if item["status"] == "deferred"]
        reason = f"{ACCEPTED}{by}" + (f": {note}" if note else "")
        for item in items:
            _set(tx, item, "completed", reason)
        if items:
            _tell(tx, plan, "review_accepted", step, top, items, "completed", by=by, note=note)
    judged = {"accepted": True, "already": not items, "by": by, "note": note}
    return _answer(plan, anchor, found, **judged)


def reject(
    store: Store,
    plan: str,
    anchor: str,
    *,
    by: str,
    note: str,
    kind: str | None = None,
    ordinal: object = None,
) -> Data:
    """Deferred items have to be done after all, and a completed step with them. For people.

    Items of a step that is not completed are open again; a completed step is reopened.
    """
    by, note = record.storable(by), record.storable(note)
    with store.write(plan) as tx:
        record.plan_row(tx, plan)
        step, top = record.family(tx, plan, anchor)
        items = _asked_for(tx, plan, step, kind, ordinal, again=False)
        done = top["status"] == "completed"
        said = f"rejected by {by}: {note}"
        if done:
            freeing.send_back(tx, plan, top, reason=said, force=False, actor=by)
        for item in [] if done else items:
            record.set_open(tx, item)
        artifact = _leave(tx, step, items, said)
        changed, facts = "" if done else "open", {"note": note, "artifact_id": artifact}
        _tell(tx, plan, "review_rejected", step, top, items, changed, by=by, **facts)
        _revive(tx, plan, items, actor=by)
    judged = {"rejected": True, "by": by, "note": note, "reopened": done, "artifact_id": artifact}
    return _answer(plan, anchor, items, **judged)


def _answer(plan: str, anchor: str, items: list[Row], **judged: object) -> Data:
    return {
        "accepted": False,
        "rejected": False,
        "already": False,
        "plan_path": plan,
        **record.names(anchor),
        "items": [_name(item) for item in items],
        "reopened": False,
        "artifact_id": None,
        **judged,
    }


def _deferred_rows(tx: Transaction, plan: str) -> list[Row]:
    rows = tx.all(sql_records.DEFERRED_ITEMS, plan=plan)
    order = {kind: place for place, kind in enumerate(checklist.KINDS)}
    return sorted(rows, key=lambda row: (row["step_index"], order[row["kind"]], row["ordinal"]))


def _deferred(tx: Transaction, row: Row) -> Data:
    by = tx.first(
        sql_records.ATTEMPT_AT, plan=row["plan_path"], anchor=row["top"], at=row["updated_at"]
    )
    return {
        "plan_path": row["plan_path"],
        "step_anchor": row["step_anchor"],
        "step_title": row["title"],
        "step_status": row["step_status"],
        "kind": row["kind"],
        "ordinal": row["ordinal"],
        "text": row["text"],
        "reason": row["reason"],
        "deferred_at": row["updated_at"],
        "deferred_by": by["worktree"] if by else None,
        "attempt": by["number"] if by else None,
    }


def _parked(tx: Transaction, plan: str, row: Row, lost: str | None) -> Data:
    anchor, number = row["anchor"], row["attempt"]
    last = tx.one(sql.ATTEMPT, plan=plan, anchor=anchor, number=number)
    return {
        "plan_path": plan,
        "step_anchor": anchor,
        "step_title": row["title"],
        "reason": row["park_reason"],
        "parked_at": row["parked_at"],
        "claimed_by": row["claimed_by"],
        "attempts": number,
        "claims_without_progress": row["claims_without_progress"],
        "last_failure": hindsight.last_failure(tx, plan, anchor),
        "last_attempt": {
            "number": number,
            "worktree": last["worktree"],
            "claimed_at": last["claimed_at"],
            "ended_at": last["ended_at"],
            "outcome": last["outcome"],
            "stale": lost,
            "left": _left(tx, plan, anchor, last["claimed_at"]),
        },
    }


def _left(tx: Transaction, plan: str, anchor: str, since: str) -> list[Data]:
    substeps = tx.all(sql.SUBSTEPS, plan=plan, anchor=anchor)
    return [
        {"step_anchor": member, **{key: row[key] for key in ("kind", "summary", "recorded_at")}}
        for member in (anchor, *(each["anchor"] for each in substeps))
        for row in tx.all(sql.ARTIFACTS, plan=plan, anchor=member)
        if row["kind"] in TELLING and row["recorded_at"] >= since
    ]


def _asked_for(
    tx: Transaction, plan: str, step: Row, kind: str | None, ordinal: object, *, again: bool
) -> list[Row]:
    """The deferred items that are meant; or, `again`, those that were accepted before."""
    members = [step, *tx.all(sql.SUBSTEPS, anchor=step["anchor"])] if kind is None else [step]
    items = [item for each in members for item in tx.all(sql.ITEMS, anchor=each["anchor"])]
    if kind is not None:
        item = _one(step["anchor"], items, kind, ordinal)
        if item["status"] == "deferred" or (again and _is_accepted(item)):
            return [item]
        problem = f"{step['anchor']} {kind} {ordinal} is {item['status']}, not deferred"
        raise InvalidEntry(problem, command="review")
    found = [item for item in items if item["status"] == "deferred"]
    found = found or [item for item in items if again and _is_accepted(item)]
    if not found:
        raise InvalidEntry(_nothing(step), command="review")
    return found


def _one(anchor: str, items: list[Row], kind: str, ordinal: object) -> Row:
    known = {item["ordinal"]: item for item in items if item["kind"] == kind}
    if ordinal not in known:
        valid = f"0 to {len(known) - 1}" if known else f"{anchor} has no {kind}"
        problem = f"there is no {kind} {ordinal!r:.60}"
        raise InvalidEntry(problem, valid=valid, command="review")
    return known[ordinal]


def _nothing(step: Row) -> str:
    if step["parked_at"] is None:
        return f"{step['anchor']} has no deferred item"
    since = f"it is parked since {step['parked_at']}: {step['park_reason']}"
    return f"{step['anchor']} has no deferred item; {since} (tugcode state reset frees it)"


def _is_accepted(item: Row) -> bool:
    return bool(item["status"] == "completed" and (item["reason"] or "").startswith(ACCEPTED))


def _set(tx: Transaction, item: Row, status: str, reason: str) -> None:
    which = {"anchor": item["step_anchor"], "kind": item["kind"], "ordinal": item["ordinal"]}
    tx.run(sql.SET_ITEM, **which, status=status, reason=reason, evidence=item["evidence"])


def _name(item: Row) -> Data:
    return {key: item[key] for key in ("step_anchor", "kind", "ordinal", "text")}


def _tell(
    tx: Transaction,
    plan: str,
    event: str,
    step: Row,
    top: Row,
    items: list[Row],
    status: str,
    *,
    by: str,
    **detail: object,
) -> None:
    """What was judged, and why it had been deferred; what became of it, unless all is undone."""
    keys = [[item["step_anchor"], item["kind"], item["ordinal"]] for item in items]
    record.note(
        tx,
        plan,
        event,
        anchor=step["anchor"],
        actor=by,
        attempt=top["attempt"],
        items=[[*key, status] for key in keys] if status else [],
        judged=[[*key, item["reason"]] for key, item in zip(keys, items, strict=True)],
        **detail,
    )


def _leave(tx: Transaction, step: Row, items: list[Row], said: str) -> object:
    """A note that the next claim's previous_attempt carries to whoever does it again."""
    names = [f"{item['step_anchor']} {item['kind']} {item['ordinal']}" for item in items]
    texts = [f"{name}: {item['text']}" for name, item in zip(names, items, strict=True)]
    return tx.value(
        sql.ADD_ARTIFACT,
        anchor=step["anchor"],
        kind="note",
        summary=checklist.cut(f"{said} ({', '.join(names)})"),
        content="\n".join([said, *texts]),
    )


def _revive(tx: Transaction, plan: str, items: list[Row], *, actor: str) -> None:
    """A substep is done exactly while nothing of it is open."""
    for anchor in dict.fromkeys(item["step_anchor"] for item in items):
        substep = record.step_row(tx, plan, anchor)
        if substep["parent_anchor"] is not None and substep["status"] == "completed":
            checklist.revive(tx, plan, substep, actor=actor)
