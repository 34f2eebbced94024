"""restore: a sound copy takes the database's place, and what was given out since counts no more."""

from __future__ import annotations

from tugtool.state import record
from tugtool.state.claiming import drop_unfinished
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store import Rescue, Row, Store, Transaction

    Data = dict[str, object]

#: More claims than this are made of no step without anybody seeing a new event.
_APART = 100


def restore(
    store: Store, *, source: str | None = None, dry_run: bool = False, actor: str | None = None
) -> Data:
    """Put the backup, or another copy, in the database's place; what was there is kept."""
    with store.rescue(source) as rescue:
        return _restored(rescue, dry_run=dry_run, actor=actor)


def restore_lost(store: Store, *, actor: str | None = None) -> Data | None:
    """The same if the database is lost, and nobody else has just restored it."""
    if not store.is_lost():
        return None
    with store.rescue() as rescue:
        return _restored(rescue, dry_run=False, actor=actor) if rescue.needed else None


def _restored(rescue: Rescue, *, dry_run: bool, actor: str | None) -> Data:
    copy, facts = rescue.copy, rescue.facts()
    # Attempts are claims, and each is an event: so many more were made at most.
    by = (rescue.most_changes // _APART + 1) * _APART
    with copy.read() as tx:
        keys = [str(row["plan_path"]) for row in tx.all(sql.PLANS)]
    ended: list[Data] = []
    plans = []
    for key in keys:
        with copy.write(key) as tx:
            ended += _fence(tx, key, by=by, facts=facts, actor=actor)
            plans.append(_summary(record.plan_row(tx, key)))
    return {
        "restored": not dry_run,
        **facts,
        "plans": plans,
        "steps_completed": sum(int(str(plan["completed_steps"])) for plan in plans),
        "claims_ended": ended,
        "set_aside": None if dry_run else rescue.put_in_place(),
    }


def _summary(row: Row) -> Data:
    return {
        "plan_path": row["plan_path"],
        "status": row["status"],
        "completed_steps": row["steps_done"],
        "total_steps": row["steps_total"],
    }


def _fence(tx: Transaction, plan: str, *, by: int, facts: Data, actor: str | None) -> list[Data]:
    """Free what is held, and raise every attempt: who held it since is known to nobody."""
    row, lost = record.plan_row(tx, plan), facts["lost_steps"]
    assert isinstance(lost, list)
    ended: list[Data] = []
    items: list[list[object]] = []
    for held in tx.all(sql.HELD_STEPS, most=row["steps_total"]):
        step = record.step_row(tx, plan, held["anchor"])
        items += _free(tx, plan, step)
        what = {"plan_path": plan, "step_anchor": step["anchor"], "attempt": step["attempt"]}
        ended.append({**what, "worktree": step["claimed_by"]})
    tx.run(sql.RAISE_ATTEMPTS, by=by)
    record.note(
        tx,
        plan,
        "restore",
        actor=actor,
        source=record.storable(str(facts["source"])),
        lost=[row["step_anchor"] for row in lost if row["plan_path"] == plan],
        raised=by,
        freed=[each["step_anchor"] for each in ended],
        items=items,
    )
    return ended


def _free(tx: Transaction, plan: str, step: Row) -> list[list[object]]:
    anchor = step["anchor"]
    items = drop_unfinished(tx, plan, anchor)
    tx.run(
        sql.FREE_STEP,
        anchor=anchor,
        parked_at=step["parked_at"],
        park_reason=step["park_reason"],
        claims=step["claims_without_progress"],
    )
    tx.run(sql.FREE_SUBSTEPS, anchor=anchor)
    tx.run(sql.END_ATTEMPT, anchor=anchor, number=step["attempt"], outcome="reset")
    record.displaced(tx, step)
    if step["parked_at"] is None and step["open_deps"] == 0:
        record.count(tx, plan, ready=1)
    return items
