"""init: a plan's text becomes rows, once."""

from __future__ import annotations

from tugtool.errors import Unreadable
from tugtool.plan import graph
from tugtool.state import record, restoring
from tugtool.store import sql, sql_setup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.plan.model import Item, Plan, Step
    from tugtool.store import Store, Transaction

    Data = dict[str, object]


def init(
    store: Store,
    plan: str,
    parsed: Plan,
    *,
    text: str,
    hash: str,
    base_commit: str | None = None,
) -> Data:
    """Record a plan that has been found sound; harmless if it is recorded already.

    A database that is lost is restored from its backup first; then `restored` in the answer
    is what `restore` answers. Where the backup is gone too, `forgotten` lists what is known.
    """
    if record.storable(plan) != plan:
        # The record is text; written out, the name would lead to no file.
        why = "cannot be recorded: its path is not UTF-8"
        raise Unreadable(plan, why, hint="give the file another name")
    restored = restoring.restore_lost(store)
    forgotten = store.forgotten()
    store.create()
    with store.write(plan) as tx:
        row = tx.first(sql.PLAN)
        if row is not None:
            drift = row["plan_hash"] != hash
            return _answer(plan, row["plan_hash"], (0, 0, 0), drift=drift, restored=restored)
        made = _add(tx, plan, parsed, text=text, hash=hash, base_commit=base_commit)
        record.note(tx, plan, "init", hash=hash, steps=made[0], items=made[2])
    answer = _answer(plan, hash, made, restored=restored)
    return answer if forgotten is None else {**answer, "forgotten": forgotten}


def preview(plan: str, parsed: Plan, *, hash: str) -> Data:
    """What `init` would say of a plan that is not recorded; nothing is."""
    every = list(parsed.every_step())
    made = len(every), len(every) - len(parsed.steps), sum(len(step.items) for step in every)
    return {**_answer(plan, hash, made), "dry_run": True}


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
        "dry_run": False,
        "revised": False,
        **({} if restored is None else {"restored": restored}),
    }


def _add(
    tx: Transaction, plan: str, parsed: Plan, *, text: str, hash: str, base_commit: str | None
) -> tuple[int, int, int]:
    every = list(parsed.every_step())
    open_deps = _open_deps(parsed)
    tx.run(
        sql_setup.ADD_PLAN,
        hash=hash,
        title=parsed.title,
        text=text,
        base_commit=base_commit,
    )
    tx.run(
        sql_setup.ADD_COUNTS,
        total=len(parsed.steps),
        ready=sum(not open_deps[step.anchor] for step in parsed.steps),
    )
    # Steps before their substeps, which refer to them.
    ordered = sorted(every, key=lambda step: step.parent is not None)
    tx.many(sql_setup.ADD_STEP, [step_values(plan, step, open_deps) for step in ordered])
    needs = [(step, need) for step in every for need in step.needs]
    tx.many(
        sql_setup.ADD_DEP,
        [{"plan": plan, "anchor": s.anchor, "depends_on": need.anchor} for s, need in needs],
    )
    items = [item_values(plan, step, item) for step in every for item in step.items]
    tx.many(sql_setup.ADD_ITEM, items)
    return len(every), len(every) - len(parsed.steps), len(items)


def step_values(plan: str, step: Step, open_deps: dict[str, int]) -> Data:
    """A step of the text as its row has it."""
    return {
        "plan": plan,
        "anchor": step.anchor,
        "parent": step.parent,
        "step_index": step.step_index,
        "title": step.title,
        "open_deps": open_deps.get(step.anchor, 0),
    }


def item_values(plan: str, step: Step, item: Item) -> Data:
    """An item of the text as its row has it."""
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
