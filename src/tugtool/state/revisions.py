"""diff and revise: take a new text into the record."""

from __future__ import annotations

from tugtool.errors import Usage
from tugtool.errors.state import RevisionRefused
from tugtool.plan import compare
from tugtool.state import record, standings
from tugtool.state.plans import item_values, preview, step_values
from tugtool.state.revision_plan import FLAGS, Allowed, Recorded, Revision
from tugtool.store import sql
from tugtool.store.sql import records as sql_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from tugtool.plan.model import Plan, Step
    from tugtool.schemas import StateRevisions, StateRevisionsRevision
    from tugtool.store import Row, Store, Transaction


def diff(
    store: Store, plan: str, *, file: str, text: str | None, hash: str | None, parsed: Plan | None
) -> dict[str, object]:
    """Compare the agreed text with the text of `file`; None if there is no file.

    `parsed` is that text if it is a valid plan; then steps are compared too.
    """
    with store.read(plan) as tx:
        row = record.plan_row(tx)
        agreed = str(tx.value(sql_records.AGREED_TEXT))
        revision = None if parsed is None else Revision(_recorded(tx), parsed)
    changed = hash != row["plan_hash"]
    names = {"old_name": f"agreed/{plan}", "new_name": f"file/{plan}" if text else "/dev/null"}
    would = (
        None
        if revision is None
        else {**revision_data(revision), "refusals": revision.refusals(Allowed())}
    )
    return {
        "plan_path": plan,
        "file": file,
        "changed": changed,
        "agreed_hash": row["plan_hash"],
        "found_hash": hash,
        "valid": parsed is not None,
        "diff": compare.unified(agreed, text or "", **names) if changed else "",
        "revision": would,
    }


def agreed_text(store: Store, plan: str) -> tuple[str, str]:
    """Return the agreed text of the plan, and its hash."""
    with store.read(plan) as tx:
        row = record.plan_row(tx)
        return str(tx.value(sql_records.AGREED_TEXT)), str(row["plan_hash"])


def agreed_texts(store: Store, plan: str, revision: int | None = None) -> StateRevisions:
    """Return the agreed texts of the plan, oldest first; with a number also the text of that one.

    The last one is the present text.
    """
    with store.read(plan) as tx:
        row = record.plan_row(tx)
        texts = [(each["plan_hash"], each["replaced_at"]) for each in tx.all(sql_records.REVISIONS)]
        texts.append((row["plan_hash"], None))
        if revision is not None and not 1 <= revision <= len(texts):
            problem = f"there is no revision {revision}: they are numbered from 1 to {len(texts)}"
            raise Usage(problem, command="state revisions")
        text = None if revision is None else _text(tx, texts[revision - 1][1])
    begun = [row["created_at"], *(replaced_at for _, replaced_at in texts)]
    listed: list[StateRevisionsRevision] = [
        {"revision": n, "plan_hash": hash, "agreed_at": begun[n - 1], "replaced_at": replaced_at}
        for n, (hash, replaced_at) in enumerate(texts, 1)
    ]
    return {"plan_path": plan, "revisions": listed, "revision": revision, "text": text}


def _text(tx: Transaction, replaced_at: str | None) -> str:
    if replaced_at is None:
        return str(tx.value(sql_records.AGREED_TEXT))
    return str(tx.value(sql_records.REVISION_TEXT, at=replaced_at))


def is_earlier(store: Store, plan: str, hash: str) -> bool:
    """Return whether a text of the plan was agreed before the present one."""
    with store.read(plan) as tx:
        return record.is_earlier(tx, hash)


def revise(
    store: Store,
    plan: str,
    parsed: Plan,
    *,
    text: str,
    hash: str,
    allowed: Allowed,
    base_commit: str | None = None,
    actor: str | None = None,
    dry_run: bool = False,
) -> dict[str, object]:
    """Take a recorded plan's new text into its record, completely or not at all.

    `dry_run` changes nothing and refuses nothing; an unrecorded plan is shown as for `init`.
    """
    if dry_run and not standings.is_recorded(store, plan):
        return preview(plan, parsed, hash=hash)
    with store.read(plan) if dry_run else store.write(plan) as tx:
        row = record.plan_row(tx)
        revision = _revision(tx, parsed)
        refusals = [*_undoes(tx, hash, allowed), *revision.refusals(allowed)]
        drift = row["plan_hash"] != hash
        revised = drift and not dry_run
        if revised:
            if refusals:
                raise RevisionRefused(plan, refusals=refusals)
            new = {"text": text, "hash": hash, "base_commit": base_commit}
            _write(tx, revision, new=new, actor=actor, allowed=allowed)
    return {
        "plan_path": plan,
        "plan_hash": hash if revised else row["plan_hash"],
        **_created(revision),
        "drift": drift and not revised,
        "dry_run": dry_run,
        "revised": revised,
        **revision_data(revision),
        "refusals": refusals,
    }


def _undoes(tx: Transaction, hash: str, allowed: Allowed) -> list[dict[str, object]]:
    """Return the refusal of an earlier text: accepting it would undo later changes."""
    if allowed.revert or not record.is_earlier(tx, hash):
        return []
    why = "an earlier text of the plan; to accept it would undo what was agreed since"
    return [{"step": "the whole plan", "why": why, "flag": FLAGS["revert"]}]


_OF_ITEM = "step_anchor kind ordinal text status reason"


def revision_data(revision: Revision) -> dict[str, object]:
    """Return what a person should know before and after the revision."""
    change, steps = revision.change, revision.recorded.steps
    kept_claims, dropped_claims = revision.claims()
    return {
        "added": change.added,
        "removed": change.removed,
        "kept": change.kept,
        "changed": change.changed,
        "reopened": revision.reopened(),
        "retitled": change.retitled,
        "moved": change.moved,
        "needs_changed": change.needs_changed,
        "items_reordered": change.reordered,
        "kept_claims": kept_claims,
        "dropped_claims": dropped_claims,
        "kept_items": revision.kept_items(),
        "dropped_items": [record.columns(row, _OF_ITEM) for row in revision.dropped_items()],
        "reset_items": [record.columns(row, _OF_ITEM) for row in revision.reset_items()],
        "completed_substeps": revision.settled,
        "ahead_of_needs": revision.ahead(),
        "was_completed": [a for a, row in steps.items() if row["status"] == "completed"],
    }


def _created(revision: Revision) -> dict[str, object]:
    added = [revision.found[anchor] for anchor in revision.change.added]
    fresh = [item for pairing in revision.change.pairings.values() for item in pairing.fresh]
    return {
        "steps_created": len(added),
        "substeps_created": sum(step.parent is not None for step in added),
        "checklist_items_created": len(fresh) + sum(len(step.items) for step in added),
        "already_initialized": True,
        "restored_from_backup": False,
    }


def _recorded(tx: Transaction) -> Recorded:
    return Recorded(tx.all(sql.STEPS), tx.all(sql.PLAN_ITEMS), tx.all(sql.DEPS))


def _revision(tx: Transaction, parsed: Plan) -> Revision:
    recorded = _recorded(tx)
    added = [step.anchor for step in parsed.every_step() if step.anchor not in recorded.steps]
    return Revision(recorded, parsed, fences=_fences(tx, added) if added else {})


def _fences(tx: Transaction, added: Iterable[str]) -> dict[str, int]:
    """Return new step -> the highest attempt that may have been given out for it.

    A dropped step of that name counts, and so does what a restore may have lost.
    """
    import json

    fences = dict.fromkeys(added, 0)
    for event in tx.all(sql_records.FENCING_EVENTS):
        detail = json.loads(event["detail"])
        if event["kind"] == "restore":
            fences = {anchor: number + detail["raised"] for anchor, number in fences.items()}
        else:
            dropped = detail["fences"]
            fences = {each: max(number, dropped.get(each, 0)) for each, number in fences.items()}
    return fences


def _write(
    tx: Transaction,
    revision: Revision,
    *,
    new: dict[str, str | None],
    actor: str | None,
    allowed: Allowed,
) -> None:
    agreed = record.plan_row(tx)["plan_hash"]
    keep_text(tx)
    tx.run(sql_records.REVISE_PLAN, title=revision.parsed.title, **new)
    end_claims(tx, revision)
    dropped = drop_steps(tx, revision)
    was = {(a, need) for a, needs in revision.recorded.needs.items() for need in needs}
    now = {(a, need.anchor) for a, step in revision.found.items() for need in step.needs}
    gone, new_edges = sorted(was - now), sorted(now - was)
    tx.many(sql_records.DROP_DEP, [_edge(tx.plan, *edge) for edge in gone])
    _steps(tx, revision)
    tx.many(sql_records.ADD_DEP, [_edge(tx.plan, *edge) for edge in new_edges])
    for step in revision.found.values():
        _items(tx, revision, step)
    _drop(tx, revision.removed)
    _count(tx, revision)
    given = [flag for flag, is_given in allowed._asdict().items() if is_given]
    facts = {"was": agreed, "allowed": given, **_facts(revision), "dropped": dropped}
    record.note(tx, "revise", actor=actor, hash=new["hash"], **facts)
    settle(tx, revision, actor=actor)


def _facts(revision: Revision) -> dict[str, Any]:
    """Return facts that the tables lose, and that a replay of events needs."""
    over = [revision.recorded.steps[anchor] for anchor in revision.over]
    touched = [anchor for anchor in revision.found if revision.touches_items(anchor)]
    fences = {row["anchor"]: revision.recorded.fence(row["anchor"]) for row in revision.removed}
    return {
        **{
            key: value
            for key, value in revision_data(revision).items()
            if key not in _SAID_BY_THE_ROWS
        },
        "dropped_items": [dict(row) for row in revision.dropped_items()],
        "started_over": [
            {key: value for key, value in dict(row).items() if value is not None} for row in over
        ],
        "attempts": revision.attempts,
        "fences": fences,
        "items_touched": touched,
        "items_now": [
            [anchor, kind, ordinal, status]
            for anchor in touched
            for kind, ordinal, status in revision.item_states(anchor)
            if status != "open"
        ],
    }


#: As long as the plan; the rows have it already.
_SAID_BY_THE_ROWS = ("kept", "was_completed")


def keep_text(tx: Transaction) -> None:
    """Store the agreed text before it is replaced, under its own time."""
    at, later = tx.now, 0
    while tx.first(sql_records.REVISION, at=at) is not None:
        later += 1
        at = tx.after(later / 1000)
    tx.run(sql_records.KEEP_REVISION, at=at)


def end_claims(tx: Transaction, revision: Revision) -> None:
    """End the claims of changed steps."""
    for anchor in revision.claims()[1]:
        step = revision.recorded.steps[anchor]
        tx.run(sql.END_ATTEMPT, anchor=anchor, number=step["attempt"], outcome="reset")
        record.displaced(tx, step)


def drop_steps(tx: Transaction, revision: Revision) -> list[dict[str, object]]:
    """Delete the rows of dropped steps; the event keeps their facts."""
    return [
        {
            "step": dict(row),
            "needs": sorted(revision.recorded.needs.get(row["anchor"], ())),
            "items": [dict(item) for item in revision.recorded.items.get(row["anchor"], ())],
            "attempts": [dict(r) for r in tx.all(sql_records.STEP_ATTEMPTS, anchor=row["anchor"])],
            "artifacts": [dict(r) for r in tx.all(sql.ARTIFACTS, anchor=row["anchor"])],
        }
        for row in revision.removed
    ]


def settle(tx: Transaction, revision: Revision, *, actor: str | None) -> None:
    """Complete substeps that the new text completes, and perhaps the plan."""
    record.complete_substeps(tx, revision.settled, actor=actor, because="the plan changed")
    record.settle(tx, record.plan_row(tx))


def _edge(plan: str, anchor: str, depends_on: str) -> dict[str, object]:
    return {"plan": plan, "anchor": anchor, "depends_on": depends_on}


def _steps(tx: Transaction, revision: Revision) -> None:
    # Steps before the substeps that refer to them.
    for step in sorted(revision.found.values(), key=lambda step: step.parent is not None):
        values = step_values(tx.plan, step, revision.open_deps)
        row = revision.recorded.steps.get(step.anchor)
        if row is None:
            tx.run(sql_records.ADD_STEP, **values)
        elif any(row[column] != values[name] for column, name in _PLACES.items()):
            tx.run(sql_records.PLACE_STEP, **values)
    for anchor in dict.fromkeys((*revision.over, *revision.attempts)):
        row = revision.recorded.steps.get(anchor)
        number = revision.attempts.get(anchor, 0 if row is None else row["attempt"])
        tx.run(sql_records.START_STEP_OVER, anchor=anchor, attempt=number)


#: Column -> its value from the text.
_PLACES = {
    "parent_anchor": "parent",
    "step_index": "step_index",
    "title": "title",
    "open_deps": "open_deps",
}


def _items(tx: Transaction, revision: Revision, step: Step) -> None:
    pairing = revision.change.pairings.get(step.anchor)
    fresh = step.items if pairing is None else pairing.fresh
    if pairing is not None:
        record.reopen_items(tx, [row for row, _ in pairing.kept if revision.restarts(row)])
        if not pairing.in_place:
            rows = revision.recorded.items.get(step.anchor, ())
            by = 1 + max((*(row["ordinal"] for row in rows), len(step.items)))
            tx.run(sql_records.MOVE_ITEMS_AWAY, anchor=step.anchor, by=by)
            tx.many(sql_records.DROP_ITEM, [{"id": row["id"]} for row in pairing.dropped])
            tx.many(
                sql_records.PLACE_ITEM,
                [{"id": row["id"], "ordinal": item.ordinal} for row, item in pairing.kept],
            )
    tx.many(sql_records.ADD_ITEM, [item_values(tx.plan, step, item) for item in fresh])


def _drop(tx: Transaction, rows: list[Row]) -> None:
    # Substeps before the steps that they refer to.
    for row in sorted(rows, key=lambda row: row["parent_anchor"] is None):
        for statement in (*sql_records.DROP_OF_STEP.values(), sql_records.DROP_STEP):
            tx.run(statement, anchor=row["anchor"])


def _count(tx: Transaction, revision: Revision) -> None:
    tops, steps = [step.anchor for step in revision.parsed.steps], revision.recorded.steps
    # The steps that still wait for a person.
    parked = {a for a in revision.change.kept if steps[a]["parked_at"] is not None}
    waiting = [a for a in tops if revision.status[a] == "pending" and a not in parked]
    tx.run(
        sql_records.RECOUNT_PLAN,
        total=len(tops),
        done=sum(revision.status[anchor] == "completed" for anchor in tops),
        ready=sum(revision.open_deps[anchor] == 0 for anchor in waiting),
    )
