"""recount: what is kept twice is put right by what it was counted from."""

from __future__ import annotations

from tugtool.state import record
from tugtool.store import sql, sql_doctor, sql_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store import Store, Transaction

    Data = dict[str, object]


def astray(tx: Transaction, plan: str) -> Data:
    """What does not agree with what it was counted from, each as it is and as it should be.

    `open_deps` and `counts` by name, `status`, and `substeps` that are not held as their step.
    """
    found: Data = {}
    waiting = {row["anchor"]: row["open_deps"] for row in tx.all(sql_records.WAITING, plan=plan)}
    deps = {
        row["anchor"]: [row["open_deps"], waiting.get(row["anchor"], 0)]
        for row in tx.all(sql_records.COUNTED, plan=plan)
        if row["open_deps"] != waiting.get(row["anchor"], 0)
    }
    if deps:
        found["open_deps"] = deps
    held = [row["anchor"] for row in tx.all(sql_doctor.HELD_ASTRAY, plan=plan)]
    if held:
        found["substeps"] = held
    return found | _counts(tx, plan)


def _counts(tx: Transaction, plan: str) -> Data:
    told = tx.first(sql.PLAN, plan=plan)
    if told is None:
        # Without a row of counts there is nothing to compare.
        return {}
    right = dict(tx.one(sql_records.COUNT_STEPS, plan=plan))
    wrong = {key: [told[key], value] for key, value in right.items() if told[key] != value}
    found: Data = {"counts": wrong} if wrong else {}
    status = "done" if right["steps_done"] == right["steps_total"] else "active"
    if told["status"] not in (status, "archived"):
        found["status"] = [told["status"], status]
    return found


def put_right(tx: Transaction, plan: str) -> Data:
    """Make them agree; what did not. Ready steps are counted once the rest is right."""
    found = astray(tx, plan)
    for row in tx.all(sql_doctor.HELD_ASTRAY, plan=plan):
        tx.run(
            sql.REVIVE_SUBSTEP,
            plan=plan,
            anchor=row["anchor"],
            owner=row["claimed_by"],
            claimed_at=row["claimed_at"],
            until=row["lease_expires_at"],
            seen_at=row["heartbeat_at"],
        )
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


def recount(store: Store, plan: str, *, actor: str | None = None) -> Data:
    """Put a plan's counts right, in one transaction; what was wrong. For people."""
    with store.write(plan) as tx:
        record.plan_row(tx, plan)
        found = put_right(tx, plan)
        if found:
            record.note(tx, plan, "recount", actor=actor, found=found)
    return {"plan_path": plan, "recounted": bool(found), **found}
