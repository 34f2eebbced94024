"""init: a plan's text becomes rows, once."""

from __future__ import annotations

from tugtool.plan import graph
from tugtool.state import record, restoring
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.plan.model import Item, Plan, Step
    from tugtool.store import Store, Transaction

    Data = dict[str, object]


def init(store: Store, plan: str, parsed: Plan, *, text: str, hash: str) -> Data:
    """Record a plan that has been found sound; harmless if it is recorded already.

    A database that is lost is restored from its backup first, and then `restored` is what
    `restore` answers.
    """
    restored = restoring.restore_lost(store) if store.is_lost() else None
    store.create()
    with store.write(plan) as tx:
        row = tx.first(sql.PLAN)
        if row is not None:
            drift = row["plan_hash"] != hash
            return _answer(plan, row["plan_hash"], (0, 0, 0), drift=drift, restored=restored)
        made = _add(tx, plan, parsed, text, hash)
        record.note(tx, plan, "init", hash=hash, steps=made[0], items=made[2])
    return _answer(plan, hash, made, restored=restored)


def _answer(
    plan: str,
    hash: str,
    made: tuple[int, int, int],
    *,
    drift: bool = False,
    restored: Data | None = None,
) -> Data:
    return {
        "plan_path": plan,
        "plan_hash": hash,
        "steps_created": made[0],
        "substeps_created": made[1],
        "checklist_items_created": made[2],
        "already_initialized": not made[0],
        "drift": drift,
        "restored_from_backup": restored is not None,
        "restored": restored,
    }


def _add(tx: Transaction, plan: str, parsed: Plan, text: str, hash: str) -> tuple[int, int, int]:
    every = list(parsed.every_step())
    open_deps = _open_deps(parsed)
    tx.run(
        sql.ADD_PLAN,
        hash=hash,
        title=parsed.title,
        text=text,
    )
    tx.run(
        sql.ADD_COUNTS,
        total=len(parsed.steps),
        ready=sum(not open_deps[step.anchor] for step in parsed.steps),
    )
    # Steps before their substeps, which refer to them.
    ordered = sorted(every, key=lambda step: step.parent is not None)
    tx.many(sql.ADD_STEP, [_step(plan, step, open_deps) for step in ordered])
    needs = [(step, need) for step in every for need in step.needs]
    tx.many(
        sql.ADD_DEP,
        [{"plan": plan, "anchor": s.anchor, "depends_on": need.anchor} for s, need in needs],
    )
    items = [_item(plan, step, item) for step in every for item in step.items]
    tx.many(sql.ADD_ITEM, items)
    return len(every), len(every) - len(parsed.steps), len(items)


def _step(plan: str, step: Step, open_deps: dict[str, int]) -> Data:
    return {
        "plan": plan,
        "anchor": step.anchor,
        "parent": step.parent,
        "step_index": step.step_index,
        "title": step.title,
        "open_deps": open_deps.get(step.anchor, 0),
    }


def _item(plan: str, step: Step, item: Item) -> Data:
    return {
        "plan": plan,
        "anchor": step.anchor,
        "kind": item.kind,
        "ordinal": item.ordinal,
        "text": item.text,
    }


def _open_deps(parsed: Plan) -> dict[str, int]:
    """Step -> edges out of its family; nothing is completed yet, so all are open."""
    home = graph.homes(parsed)
    return {
        step.anchor: sum(
            home[need.anchor] != step.anchor for each in step.family() for need in each.needs
        )
        for step in parsed.steps
    }
