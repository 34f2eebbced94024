"""review, accept, reject: everything that waits for a person."""

from __future__ import annotations

from tugtool.errors.state import InvalidEntry
from tugtool.state import attempts, checklists, completion, proofs, record, releases
from tugtool.store import sql
from tugtool.store.sql import records as sql_records
from tugtool.store.sql import views as sql_views

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Literal

    from tugtool import schemas
    from tugtool.state.record import Changes
    from tugtool.store import Row, Store, Transaction

    Lost = Literal["expired", "gone"] | None
    Facts = Mapping[str, Any]


def stale(tx: Transaction) -> dict[tuple[str, str], Lost]:
    """Every held step by plan and anchor, with the reason why its worker lost it, or None."""
    holders = [row for row in tx.all(sql_views.EVERY_HOLDER) if record.is_gone(row)]
    gone = {(row["plan_path"], row["step_anchor"]) for row in holders}
    return {
        key: "expired" if row["lease_expires_at"] < tx.now else "gone" if key in gone else None
        for key, row in _held(tx)
    }


def _held(tx: Transaction) -> list[tuple[tuple[str, str], Row]]:
    rows = tx.all(sql_views.EVERY_HELD_STEP)
    return [((row["plan_path"], row["anchor"]), row) for row in rows]


def waiting(tx: Transaction) -> list[Row]:
    """Parked steps that wait for a person. A parked step with a live worker does not wait yet."""
    lost = stale(tx)
    rows = tx.all(sql_views.EVERY_PARKED_STEP)
    return [row for row in rows if lost.get((row["plan_path"], row["anchor"]), "") is not None]


def cause(parked: Row) -> str:
    """The reason why a step is parked, without its own name and without numbers."""
    import re

    reason = (parked["park_reason"] or "").replace(parked["anchor"], "STEP")
    return re.sub("[0-9]+", "N", reason)


def claims(store: Store) -> list[tuple[Row, Lost]]:
    """Every claimed step that does not wait for a person, and why its worker lost it, or None."""
    with store.read() as tx:
        lost = stale(tx)
        parked = {(row["plan_path"], row["anchor"]) for row in waiting(tx)}
        return [(row, lost[key]) for key, row in _held(tx) if key not in parked]


def parked(store: Store) -> list[Row]:
    """The parked steps of all plans that wait for a person."""
    with store.read() as tx:
        return waiting(tx)


#: The kinds of artifacts in which a worker tells a person why it could not finish a step.
TELLING = ("escalation", "recovery", "note")
ACCEPTED = "accepted by "
_OF_ITEM = "plan_path step_anchor parent_anchor step_title step_status kind ordinal text reason"
#: The columns of a judged item; its reason is why it was deferred.
_JUDGED = ("step_anchor", "kind", "ordinal", "reason")


def review(store: Store, plan: str | None = None) -> schemas.StateReview:
    """Deferred and unproven items, parked steps, questions, done plans that were not approved.

    Archived plans are left out.
    """
    with store.read(plan) as tx:
        if plan is not None:
            record.plan_row(tx)
            plans = [plan]
        else:
            rows = tx.all(sql.PLANS)
            plans = [row["plan_path"] for row in rows if row["status"] != "archived"]
        return waiting_for_person(tx, plans)


def waiting_for_person(tx: Transaction, plans: list[str]) -> schemas.StateReview:
    """Do the same in an open transaction."""
    items = [_deferred(tx, row) for each in plans for row in _deferred_rows(tx, each)]
    unproven = [_unproven(tx, row) for each in plans for row in unproven_items(tx, each)]
    lost = stale(tx)
    parked = [_parked(tx, row, lost) for row in waiting(tx) if row["plan_path"] in plans]
    audits = [said for each in plans if (said := proofs.audit(tx, each)) is not None]
    held = [(row, lost[key]) for key, row in _held(tx) if key[0] in plans]
    questions = [asked for each in held if (asked := attempts.question(tx, *each)) is not None]
    return {
        "as_of": tx.now,
        "deferred_items": items,
        "unproven_items": unproven,
        "parked_steps": parked,
        "questions": questions,
        "audits": audits,
        "deferred_count": len(items),
        "unproven_count": len(unproven),
        "parked_count": len(parked),
    }


def unproven_items(tx: Transaction, plan: str) -> list[Row]:
    """Completed checkpoints of done steps without a passing run or a person's yes.

    A merged plan has none: its checkpoints need no decision.
    """
    if tx.one(sql.PLAN, plan=plan)["merged_commit"] is not None:
        return []
    rows = tx.all(sql_records.DONE_CHECKPOINTS, plan=plan)
    return [row for row in rows if _is_unproven(row)]


def _is_unproven(item: Row) -> bool:
    if item["kind"] != "checkpoint" or item["status"] != "completed" or _is_accepted(item):
        return False
    from tugtool.plan import checkpoints

    kind = checkpoints.kind_of(item["text"])
    if kind == checkpoints.COMMAND:
        return not completion.is_proof(item["evidence"])
    return kind == checkpoints.PERSON


def unsettled(store: Store, plan: str) -> list[Any]:
    """Every item of a plan that waits for a person, and every unproven checkpoint."""
    with store.read(plan) as tx:
        waiting = [(row, "deferred") for row in _deferred_rows(tx, plan)]
        waiting += [(row, "unproven") for row in unproven_items(tx, plan)]
        return [
            {**record.columns(row, "step_anchor kind ordinal text"), "cause": cause}
            for row, cause in waiting
        ]


def _unproven(tx: Transaction, row: Row) -> Any:
    from tugtool.plan.checkpoints import kind_of

    return {**_item(tx, row), "checkpoint_kind": kind_of(row["text"])}


def _item(tx: Transaction, row: Row) -> Any:
    """The fields of every waiting item: also its evidence, and the commit of its step."""
    plan, top = row["plan_path"], row["parent_anchor"] or row["step_anchor"]
    is_done = tx.one(sql.STEP, plan=plan, anchor=top)["status"] == "completed"
    # A rejection would reopen the step, and these keep it from that.
    blocking = releases.built_on(tx, plan, top) if is_done else []
    proof = completion.read_evidence(row["evidence"])
    commit = row["commit_hash"]
    if proof is not None and proof["judged"] is None and commit is not None:
        proof["stale"] = proof["commit"] != commit
    facts = {"evidence": proof, "commit": commit, "built_on": blocking}
    return {**record.columns(row, _OF_ITEM), **facts}


def accept(
    store: Store,
    plan: str,
    anchor: str,
    *,
    by: str,
    kind: str | None = None,
    ordinal: object = None,
    note: str | None = None,
) -> schemas.StateReview:
    """Complete deferred and unproven items; the status of the step stays. For people.

    Takes one item, or all of the step and its substeps. Accepting again changes nothing; the
    answer's note is None if it differs from the recorded one.
    """
    by, note = record.storable(by), record.reason(note)
    with store.write(plan) as tx:
        record.plan_row(tx)
        step, top = record.family(tx, anchor)
        found = _asked_for(tx, step, kind, ordinal, again=True)
        items = [item for item in found if not _is_accepted(item)]
        reason = f"{ACCEPTED}{by}" + (f": {note}" if note else "")
        changes = record.close_items(tx, items, reason)
        if items:
            _tell(tx, "review_accepted", step, top, items, changes, by=by, note=note)
        elif any(item["reason"] != reason for item in found):
            note = None  # It is not recorded.
    judged: schemas.StateReview = {"accepted": True, "already": not items, "by": by, "note": note}
    return _answer(plan, anchor, found, judged)


def reject(
    store: Store,
    plan: str,
    anchor: str,
    *,
    by: str,
    note: str,
    kind: str | None = None,
    ordinal: object = None,
) -> schemas.StateReview:
    """Send deferred items back to be done. For people.

    A completed step is reopened; of another step only the items are opened.
    """
    by, note = record.storable(by), record.storable(note)
    with store.write(plan) as tx:
        record.plan_row(tx)
        step, top = record.family(tx, anchor)
        items = _asked_for(tx, step, kind, ordinal, again=False)
        done = top["status"] == "completed"
        said = f"rejected by {by}: {note}"
        if done:
            releases.send_back(tx, top, reason=said, force=False, actor=by)
        changes = record.reopen_items(tx, [] if done else items)
        artifact = _leave(tx, step, items, said)
        facts = {"note": note, "artifact_id": artifact}
        _tell(tx, "review_rejected", step, top, items, changes, by=by, **facts)
        _revive(tx, items, actor=by)
    judged: schemas.StateReview = {"rejected": True, "by": by, "note": note}
    judged |= {"reopened": done, "artifact_id": artifact}
    return _answer(plan, anchor, items, judged)


def accept_all(
    store: Store, plan: str, listed: Sequence[Facts], *, by: str, note: str | None = None
) -> tuple[list[Any], list[Any]]:
    """Accept the items that a person has seen, in one transaction. For people.

    Return the accepted items, and those that have changed since the person saw them.
    """
    by, note = record.storable(by), record.reason(note)
    reason = f"{ACCEPTED}{by}" + (f": {note}" if note else "")
    with store.write(plan) as tx:
        record.plan_row(tx)
        accepted = [each for each in listed if _still_waits(tx, each)]
        for anchor in dict.fromkeys(each["step_anchor"] for each in accepted):
            step, top = record.family(tx, anchor)
            asked = [each for each in accepted if each["step_anchor"] == anchor]
            items = [_one(tx, anchor, each["kind"], each["ordinal"]) for each in asked]
            changes = record.close_items(tx, items, reason)
            _tell(tx, "review_accepted", step, top, items, changes, by=by, note=note)
    return accepted, [each for each in listed if each not in accepted]


def _still_waits(tx: Transaction, listed: Facts) -> bool:
    rows = tx.all(sql.ITEMS, anchor=listed["step_anchor"])
    same = ("kind", "ordinal", "text")
    return any(_waits(row) for row in rows if all(row[key] == listed[key] for key in same))


def _answer(
    plan: str, anchor: str, items: list[Row], judged: schemas.StateReview
) -> schemas.StateReview:
    return {
        "accepted": False,
        "rejected": False,
        "already": False,
        "plan_path": plan,
        **record.names(anchor),
        "items": [record.columns(item, "step_anchor kind ordinal text") for item in items],
        "reopened": False,
        "artifact_id": None,
        **judged,
    }


def _deferred_rows(tx: Transaction, plan: str) -> list[Row]:
    rows = tx.all(sql_records.DEFERRED_ITEMS, plan=plan)
    order = {kind: place for place, kind in enumerate(checklists.KINDS)}
    return sorted(rows, key=lambda row: (row["step_index"], order[row["kind"]], row["ordinal"]))


def _deferred(tx: Transaction, row: Row) -> Any:
    when = {"plan": row["plan_path"], "anchor": row["top"], "at": row["deferred_at"]}
    by = tx.first(sql_records.ATTEMPT_AT, **when)
    return {
        **_item(tx, row),
        "deferred_at": row["deferred_at"],
        "deferred_by": by["worktree"] if by else None,
        "attempt": by["number"] if by else None,
    }


def _parked(
    tx: Transaction, row: Row, lost: dict[tuple[str, str], Lost]
) -> schemas.StateReviewParkedStep:
    plan, anchor, number = row["plan_path"], row["anchor"], row["attempt"]
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
        "cause": cause(row),
        "salvage_ref": last["salvage_ref"],
        "last_failure": attempts.last_failure(tx, plan, anchor),
        "failed_checkpoints": attempts.failed_checkpoints(tx, plan, anchor),
        "last_attempt": {
            "number": number,
            "worktree": last["worktree"],
            "claimed_at": last["claimed_at"],
            "ended_at": last["ended_at"],
            "outcome": last["outcome"],
            "stale": lost.get((plan, anchor)),
            "left": _left(tx, plan, anchor, last["claimed_at"]),
        },
    }


def _left(tx: Transaction, plan: str, anchor: str, since: str) -> list[Any]:
    substeps = tx.all(sql.SUBSTEPS, plan=plan, anchor=anchor)
    return [
        {"step_anchor": member, **record.columns(row, "kind summary recorded_at")}
        for member in (anchor, *(each["anchor"] for each in substeps))
        for row in tx.all(sql.ARTIFACTS, plan=plan, anchor=member)
        if row["kind"] in TELLING and row["recorded_at"] >= since
    ]


def _asked_for(
    tx: Transaction, step: Row, kind: str | None, ordinal: object, *, again: bool
) -> list[Row]:
    """The waiting items that the caller names; with `again` also those accepted before."""
    if kind is not None:
        item = _one(tx, step["anchor"], kind, ordinal)
        if _waits(item) or (again and _is_accepted(item)):
            return [item]
        problem = f"{step['anchor']} {kind} {ordinal} is {item['status']}, not deferred"
        raise InvalidEntry(problem, command="review")
    items = record.items(tx, step)
    found = [item for item in items if item["status"] == "deferred" or _is_unproven(item)]
    found = found or [item for item in items if again and _is_accepted(item)]
    if not found:
        raise InvalidEntry(_nothing(step), command="review")
    return found


def _one(tx: Transaction, anchor: str, kind: str, ordinal: object) -> Row:
    items = tx.all(sql.ITEMS, anchor=anchor)
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
    return f"{step['anchor']} has no deferred item; {since} (tugcode reset frees it)"


def _waits(item: Row) -> bool:
    """True if a person may settle the item: one for a person also before it is deferred."""
    from tugtool.plan.checkpoints import is_for_person

    for_person = item["kind"] == "checkpoint" and is_for_person(item["text"])
    is_open = item["status"] not in record.CLOSED
    return item["status"] == "deferred" or _is_unproven(item) or (for_person and is_open)


def _is_accepted(item: Row) -> bool:
    return bool(item["status"] == "completed" and (item["reason"] or "").startswith(ACCEPTED))


def _tell(
    tx: Transaction,
    event: str,
    step: Row,
    top: Row,
    items: list[Row],
    changes: Changes,
    *,
    by: str,
    **detail: object,
) -> None:
    record.note(
        tx,
        event,
        anchor=step["anchor"],
        actor=by,
        attempt=top["attempt"],
        items=changes,
        judged=[[item[key] for key in _JUDGED] for item in items],
        **detail,
    )


def _leave(tx: Transaction, step: Row, items: list[Row], said: str) -> Any:
    """Leave a note that the next worker gets in its claim's previous_attempt."""
    names = [f"{item['step_anchor']} {item['kind']} {item['ordinal']}" for item in items]
    texts = [f"{name}: {item['text']}" for name, item in zip(names, items, strict=True)]
    return tx.value(
        sql.ADD_ARTIFACT,
        anchor=step["anchor"],
        kind="note",
        summary=checklists.cut(f"{said} ({', '.join(names)})"),
        content="\n".join([said, *texts]),
    )


def _revive(tx: Transaction, items: list[Row], *, actor: str) -> None:
    """Reopen completed substeps that have an open item again."""
    for anchor in dict.fromkeys(item["step_anchor"] for item in items):
        substep = record.step_row(tx, anchor)
        if substep["parent_anchor"] is not None and substep["status"] == "completed":
            checklists.revive(tx, substep, actor=actor)
