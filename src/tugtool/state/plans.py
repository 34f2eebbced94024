"""init, move and recount: the rows of a plan's text, under its name."""

from __future__ import annotations

from tugtool.errors import Unreadable
from tugtool.errors.state import PlansRecorded, WrongStatus
from tugtool.plan import model
from tugtool.state import record, upkeep
from tugtool.store import sql
from tugtool.store.sql import git as sql_git
from tugtool.store.sql import records as sql_records
from tugtool.store.sql import views as sql_views
from tugtool.system import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tugtool.plan.model import Item, Plan, Step
    from tugtool.schemas import StateMove
    from tugtool.store import Store, Transaction


def init(
    store: Store,
    plan: str,
    parsed: Plan,
    *,
    text: str,
    hash: str,
    base_commit: str | None = None,
    on_loss: Callable[[Any], object] | None = None,
) -> dict[str, object]:
    """Record a valid plan; do nothing if it is recorded already.

    A lost database is first restored from its backup. `on_loss` gets what was lost: the
    answer of `restore`, or `lost_steps` with `restored` false if the backup is gone too.
    """
    if record.storable(plan) != plan:
        # The record is text; an escaped name would not lead to the file.
        why = "cannot be recorded: its path is not UTF-8"
        raise Unreadable(plan, why, hint="give the file another name")
    loss = store.create(upkeep.put_back)
    if loss is not None and on_loss is not None:
        on_loss(loss)
    restored = loss is not None and bool(loss["restored"])
    with store.write(plan) as tx:
        row = tx.first(sql.PLAN)
        if row is not None:
            drift = row["plan_hash"] != hash
            return _answer(plan, row["plan_hash"], (0, 0, 0), drift=drift, restored=restored)
        made = _add(tx, parsed, text=text, hash=hash, base_commit=base_commit)
        record.note(tx, "init", hash=hash, steps=made[0], items=made[2])
    return _answer(plan, hash, made, restored=restored)


def preview(plan: str, parsed: Plan, *, hash: str) -> dict[str, object]:
    """Return what `init` would say of an unrecorded plan; record nothing."""
    every = list(parsed.every_step())
    made = len(every), len(every) - len(parsed.steps), sum(len(step.items) for step in every)
    return {**_answer(plan, hash, made), "dry_run": True}


def _answer(
    plan: str,
    hash: str,
    made: tuple[int, int, int],
    *,
    drift: bool = False,
    restored: bool = False,
) -> dict[str, object]:
    return {
        "plan_path": plan,
        "plan_hash": hash,
        "steps_created": made[0],
        "substeps_created": made[1],
        "checklist_items_created": made[2],
        "already_initialized": not made[0],
        "drift": drift,
        "restored_from_backup": restored,
        "dry_run": False,
        "revised": False,
    }


def _add(
    tx: Transaction, parsed: Plan, *, text: str, hash: str, base_commit: str | None
) -> tuple[int, int, int]:
    every = list(parsed.every_step())
    # No step is completed yet.
    open_deps = model.open_needs(parsed, {})
    tx.run(
        sql_records.ADD_PLAN,
        hash=hash,
        title=parsed.title,
        text=text,
        base_commit=base_commit,
    )
    tx.run(
        sql_records.ADD_COUNTS,
        total=len(parsed.steps),
        ready=sum(not open_deps[step.anchor] for step in parsed.steps),
    )
    # Steps before the substeps that refer to them.
    ordered = sorted(every, key=lambda step: step.parent is not None)
    tx.many(sql_records.ADD_STEP, [step_values(tx.plan, step, open_deps) for step in ordered])
    needs = [(step, need) for step in every for need in step.needs]
    tx.many(
        sql_records.ADD_DEP,
        [{"plan": tx.plan, "anchor": s.anchor, "depends_on": need.anchor} for s, need in needs],
    )
    items = [item_values(tx.plan, step, item) for step in every for item in step.items]
    tx.many(sql_records.ADD_ITEM, items)
    return len(every), len(every) - len(parsed.steps), len(items)


def set_base(store: Store, plan: str, commit: str | None) -> None:
    """Record the commit that a plan starts from, unless it is known."""
    with store.write(plan) as tx:
        tx.run(sql_git.SET_BASE, base_commit=commit)


def move(
    store: Store, plan: str, to: str, *, drift: bool = False, actor: str | None = None
) -> StateMove:
    """Give a plan the new name of its file; do nothing if it has it. For people.

    `drift`: the file's text differs from the agreed one.
    """
    with store.write(to, plan) as tx:
        record.plan_row(tx, plan=plan)
        if plan != to:
            if tx.first(sql.PLAN) is not None:
                raise PlansRecorded([to], done="moved")
            _refuse_at_work(tx, plan)
            for statement in sql_records.MOVE:
                tx.run(statement, plan=plan, to=to)
            record.note(tx, "move", actor=actor, name=plan)
        row = record.plan_row(tx)
    return {
        "plan_path": to,
        "moved_from": plan,
        "changed": plan != to,
        "drift": drift,
        "plan_status": row["status"],
        "total_steps": row["steps_total"],
        "completed_steps": row["steps_done"],
    }


def _refuse_at_work(tx: Transaction, plan: str) -> None:
    """Raise E050: running or unfinished commands know the plan by its present name."""
    begun = [row["kind"] for row in tx.all(sql_git.EVERY_INTENT) if row["plan_path"] == plan]
    if begun:
        needed = "tugcode doctor names the command that finishes it"
        raise WrongStatus(plan, None, status=f"in the middle of a {begun[0]}", needed=needed)
    held = {row["step_anchor"] for row in tx.all(sql.HOLDERS, plan=plan)} - record.gone(tx, plan)
    stamps = [row["reserved_for"] for row in tx.all(sql_git.WORKTREES_OF, plan=plan)]
    if held or any(map(process.lives, stamps)):
        needed = "it is moved once that run has ended"
        raise WrongStatus(plan, None, status="being carried out by a process", needed=needed)


def step_values(plan: str, step: Step, open_deps: dict[str, int]) -> dict[str, object]:
    """Return the row of a step of the text."""
    return {
        "plan": plan,
        "anchor": step.anchor,
        "parent": step.parent,
        "step_index": step.step_index,
        "title": step.title,
        "open_deps": open_deps.get(step.anchor, 0),
    }


def item_values(plan: str, step: Step, item: Item) -> dict[str, object]:
    """Return the row of an item of the text."""
    return {
        "plan": plan,
        "anchor": step.anchor,
        "kind": item.kind,
        "ordinal": item.ordinal,
        "text": item.text,
    }


#: Contradictions between rows that are valid one by one; an import refuses the same.
_IMPOSSIBLE = {
    "nested": sql_records.NESTED_TOO_DEEP,
    "attempts": sql_records.ATTEMPTS_ASTRAY,
    "parked": sql_records.PARKED_UNTRIED,
}


def check(store: Store, plan: str) -> dict[str, object] | None:
    """Return what `astray` finds in a plan; None if the plan has no row of counts."""
    with store.read(plan) as tx:
        return None if tx.first(sql.PLAN) is None else astray(tx, plan)


def contradictions(store: Store, plan: str) -> list[tuple[str, str, int]]:
    """Return the plan's contradictory rows: the kind, the step and their number."""
    with store.read(plan) as tx:
        odd = [(kind, tx.value(statement), 1) for kind, statement in _IMPOSSIBLE.items()]
        items = tx.all(sql_views.OPEN_THOUGH_COMPLETED)
        substeps = tx.all(sql_views.UNFINISHED_BELOW)
    return [
        *(each for each in odd if each[1] is not None),
        *(("items", row["anchor"], row["items"]) for row in items),
        *(("substeps", row["anchor"], row["substeps"]) for row in substeps),
    ]


def astray(tx: Transaction, plan: str) -> dict[str, object]:
    """Return stored values that differ from what they were counted from, with both values.

    `open_deps` and `counts` by name, `status`, and `substeps` that are not held as their step.
    """
    found: dict[str, object] = {}
    waiting = {row["anchor"]: row["open_deps"] for row in tx.all(sql_records.WAITING, plan=plan)}
    deps = {
        row["anchor"]: [row["open_deps"], waiting.get(row["anchor"], 0)]
        for row in tx.all(sql_records.COUNTED, plan=plan)
        if row["open_deps"] != waiting.get(row["anchor"], 0)
    }
    if deps:
        found["open_deps"] = deps
    held = [row["anchor"] for row in tx.all(sql_views.HELD_ASTRAY, plan=plan)]
    if held:
        found["substeps"] = held
    return found | _counts(tx, plan)


def _counts(tx: Transaction, plan: str) -> dict[str, object]:
    told = tx.first(sql.PLAN, plan=plan)
    if told is None:
        # Without a row of counts there is nothing to compare.
        return {}
    right = dict(tx.one(sql_records.COUNT_STEPS, plan=plan))
    wrong = {key: [told[key], value] for key, value in right.items() if told[key] != value}
    found: dict[str, object] = {"counts": wrong} if wrong else {}
    status = "done" if right["steps_done"] == right["steps_total"] else "active"
    if told["status"] not in (status, "archived"):
        found["status"] = [told["status"], status]
    return found


def put_right(tx: Transaction, plan: str) -> dict[str, object]:
    """Correct the counts, and return what was wrong. Ready steps are counted last."""
    found = astray(tx, plan)
    for row in tx.all(sql_views.HELD_ASTRAY, plan=plan):
        hold = record.columns(row, record.HOLD)
        tx.run(sql.REVIVE_SUBSTEP, plan=plan, anchor=row["anchor"], **hold)
    deps = found.get("open_deps", {})
    assert isinstance(deps, dict)
    for anchor, (_, right) in deps.items():
        tx.run(sql_records.SET_OPEN_DEPS, plan=plan, anchor=anchor, open_deps=right)
    counted = _counts(tx, plan)
    if "counts" in counted:
        tx.run(
            sql_records.SET_COUNTS, plan=plan, **dict(tx.one(sql_records.COUNT_STEPS, plan=plan))
        )
    status = counted.get("status")
    if isinstance(status, list):
        tx.run(sql.SET_STATUS, plan=plan, status=status[1])
    return found | counted


def recount(store: Store, plan: str, *, actor: str | None = None) -> dict[str, object]:
    """Correct a plan's counts in one transaction. Return what was wrong. For people."""
    with store.write(plan) as tx:
        record.plan_row(tx)
        found = put_right(tx, plan)
        if found:
            record.note(tx, "recount", actor=actor, found=found)
    return {"plan_path": plan, "recounted": bool(found), **found}
