"""A revision as rows: each function writes one part of it, in the transaction of `revise`."""

from __future__ import annotations

from tugtool.state import record, ripple
from tugtool.state.setup import item_values, step_values
from tugtool.store import sql, sql_revise, sql_setup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.plan.model import Step
    from tugtool.state.revision import Revision
    from tugtool.store import Row, Transaction

    Data = dict[str, object]


def keep_text(tx: Transaction) -> None:
    """The text that was agreed until now; each under a time of its own."""
    at, later = tx.now, 0
    while tx.first(sql_revise.REVISION, at=at) is not None:
        later += 1
        at = tx.after(later / 1000)
    tx.run(sql_revise.KEEP_REVISION, at=at)


def end_claims(tx: Transaction, revision: Revision) -> None:
    """Whoever held a step that is not what it was holds it no longer."""
    for anchor in revision.claims()[1]:
        step = revision.recorded.steps[anchor]
        tx.run(sql.END_ATTEMPT, anchor=anchor, number=step["attempt"], outcome="reset")
        record.displaced(tx, step)


def dropped(tx: Transaction, revision: Revision) -> list[Data]:
    """All that is recorded about the steps that go; the event keeps it."""
    return [
        {
            "step": dict(row),
            "needs": sorted(revision.recorded.needs.get(row["anchor"], ())),
            "items": [dict(item) for item in revision.recorded.items.get(row["anchor"], ())],
            "attempts": [dict(r) for r in tx.all(sql_revise.STEP_ATTEMPTS, anchor=row["anchor"])],
            "artifacts": [dict(r) for r in tx.all(sql.ARTIFACTS, anchor=row["anchor"])],
        }
        for row in revision.removed
    ]


def write(tx: Transaction, plan: str, revision: Revision) -> None:
    """Steps, dependencies, items and counts as the new text has them."""
    gone, new = _edges(revision)
    tx.many(sql_revise.DROP_DEP, [_edge(plan, *edge) for edge in gone])
    _steps(tx, plan, revision)
    tx.many(sql_setup.ADD_DEP, [_edge(plan, *edge) for edge in new])
    for step in revision.found.values():
        _items(tx, plan, revision, step)
    _drop(tx, revision.removed)
    _count(tx, revision)


def settle(tx: Transaction, plan: str, revision: Revision, *, actor: str | None) -> None:
    """What follows from the new text: substeps that are done now, and perhaps the plan."""
    for anchor in revision.settled:
        substep = record.step_row(tx, plan, anchor)
        # One that is done may have completed this one along with itself.
        if ripple.may_complete(tx, plan, substep):
            because = "the plan changed"
            ripple.close_substep(tx, plan, substep, actor=actor, because=because)
            ripple.completed(tx, plan, substep, actor=actor)
    record.settle(tx, plan)


def _edges(revision: Revision) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    was = {(a, need) for a, needs in revision.recorded.needs.items() for need in needs}
    now = {(a, need.anchor) for a, step in revision.found.items() for need in step.needs}
    return sorted(was - now), sorted(now - was)


def _edge(plan: str, anchor: str, depends_on: str) -> Data:
    return {"plan": plan, "anchor": anchor, "depends_on": depends_on}


def _steps(tx: Transaction, plan: str, revision: Revision) -> None:
    # Steps before the substeps that refer to them.
    for step in sorted(revision.found.values(), key=lambda step: step.parent is not None):
        values = step_values(plan, step, revision.open_deps)
        row = revision.recorded.steps.get(step.anchor)
        if row is None:
            tx.run(sql_setup.ADD_STEP, **values)
        elif any(row[column] != values[name] for column, name in _PLACES.items()):
            tx.run(sql_revise.PLACE_STEP, **values)
    for anchor in dict.fromkeys((*revision.over, *revision.attempts)):
        row = revision.recorded.steps.get(anchor)
        number = revision.attempts.get(anchor, 0 if row is None else row["attempt"])
        tx.run(sql_revise.START_STEP_OVER, anchor=anchor, attempt=number)


#: Column -> the value of the text that belongs there.
_PLACES = {
    "parent_anchor": "parent",
    "step_index": "step_index",
    "title": "title",
    "open_deps": "open_deps",
}


def _items(tx: Transaction, plan: str, revision: Revision, step: Step) -> None:
    pairing = revision.change.pairings.get(step.anchor)
    fresh = step.items if pairing is None else pairing.fresh
    if pairing is not None:
        for row, _ in pairing.kept:
            if revision.restarts(row):
                record.set_open(tx, row)
        if not pairing.in_place:
            rows = revision.recorded.items.get(step.anchor, ())
            by = 1 + max((*(row["ordinal"] for row in rows), len(step.items)))
            tx.run(sql_revise.MOVE_ITEMS_AWAY, anchor=step.anchor, by=by)
            tx.many(sql_revise.DROP_ITEM, [{"id": row["id"]} for row in pairing.dropped])
            tx.many(
                sql_revise.PLACE_ITEM,
                [{"id": row["id"], "ordinal": item.ordinal} for row, item in pairing.kept],
            )
    tx.many(sql_setup.ADD_ITEM, [item_values(plan, step, item) for item in fresh])


def _drop(tx: Transaction, rows: list[Row]) -> None:
    # Substeps before the steps that they refer to.
    for row in sorted(rows, key=lambda row: row["parent_anchor"] is None):
        tx.run(sql_revise.DROP_ITEMS, anchor=row["anchor"])
        tx.run(sql_revise.DROP_UNSAVED_STEP, anchor=row["anchor"])
        tx.run(sql_revise.DROP_ATTEMPTS, anchor=row["anchor"])
        tx.run(sql_revise.DROP_ARTIFACTS, anchor=row["anchor"])
        tx.run(sql_revise.DROP_STEP, anchor=row["anchor"])


def _count(tx: Transaction, revision: Revision) -> None:
    tops = [step.anchor for step in revision.parsed.steps]
    parked = {a for a in tops if a in revision.recorded.steps and revision.is_parked(a)}
    waiting = [a for a in tops if revision.status[a] == "pending" and a not in parked]
    tx.run(
        sql_revise.RECOUNT_PLAN,
        total=len(tops),
        done=sum(revision.status[anchor] == "completed" for anchor in tops),
        ready=sum(revision.open_deps[anchor] == 0 for anchor in waiting),
    )
