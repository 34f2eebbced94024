"""status: every plan and dash at one glance: how far it is, who works on it, what waits."""

from __future__ import annotations

from tugtool.state import hindsight
from tugtool.store import sql_dash, sql_look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]


def status(store: Store) -> Data:
    """What is recorded of every plan, at one moment."""
    with store.read() as tx:
        claims = _grouped(_claims(tx))
        parked = _grouped(hindsight.waiting(tx))
        blocked = {row["plan_path"]: row["steps"] for row in tx.all(sql_look.BLOCKED_COUNTS)}
        items = _grouped(tx.all(sql_look.ITEM_COUNTS))
        plans = [
            {
                **_plan(row, claims, parked, blocked.get(row["plan_path"], 0), items),
                "audit": hindsight.audit(tx, row["plan_path"]) if row["status"] == "done" else None,
            }
            for row in tx.all(sql_look.EVERY_PLAN)
        ]
        dashes = [_dash(row) for row in tx.all(sql_dash.ACTIVE_DASHES)]
        return {"as_of": tx.now, "plans": plans, "dashes": dashes}


def _dash(row: Row) -> Data:
    fields = ("name", "description", "base_branch", "rounds", "updated_at")
    names = {"branch_name": row["branch"], "worktree_path": row["worktree"]}
    return {**{field: row[field] for field in fields}, **names}


def _claims(tx: Transaction) -> list[Data]:
    lost = hindsight.stale(tx)
    rows = tx.all(sql_look.EVERY_HELD_STEP)
    return [_claim(row, lost[row["plan_path"], row["anchor"]]) for row in rows]


def _claim(row: Row, lost: str | None) -> Data:
    fields = ("plan_path", "anchor", "title", "status", "claimed_by", "attempt")
    times = ("lease_expires_at", "heartbeat_at")
    return {
        **{field: row[field] for field in (*fields, *times)},
        # Why its holder has lost it, if so: such a claim is stale.
        "stale": lost,
    }


def _plan(
    row: Row,
    claims: dict[str, list[Data]],
    parked: dict[str, list[Row]],
    blocked: int,
    items: dict[str, list[Row]],
) -> Data:
    plan = row["plan_path"]
    counts = {each["status"]: each["items"] for each in items.get(plan, [])}
    fields = ("anchor", "title", "parked_at", "park_reason")
    waiting = [{field: each[field] for field in fields} for each in parked.get(plan, [])]
    held = [
        {field: value for field, value in claim.items() if field != "plan_path"}
        for claim in claims.get(plan, [])
    ]
    return {
        "plan_path": plan,
        "plan_hash": row["plan_hash"],
        "title": row["phase_title"],
        "status": row["status"],
        "paused_at": row["paused_at"],
        "steps": {
            "total": row["steps_total"],
            "completed": row["steps_done"],
            "held": len(held),
            "ready": row["steps_ready"],
            "blocked": blocked,
            "parked": len(waiting),
        },
        "items": {
            "total": sum(counts.values()),
            "completed": counts.get("completed", 0),
            "deferred": counts.get("deferred", 0),
        },
        "claims": held,
        "parked": waiting,
    }


def _grouped(rows: Iterable[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["plan_path"], []).append(row)
    return groups
