"""Where steps stand: ready lists them by it, and every picture of a plan has a word for it.

The terminal has a sign for each standing, and the page of the server too. Commands that look at
steps and change nothing belong here.
"""

from __future__ import annotations

from tugtool.state import record
from tugtool.store import sql
from tugtool.store.sql import publication as sql_publication
from tugtool.store.sql import records as sql_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from tugtool.schemas import NextHolder, StateReady
    from tugtool.store import Row, Store

    Step = Mapping[str, Any]


STANDINGS = (
    *("completed", "deferred", "at_work", "stale", "question", "parked", "ready", "blocked"),
)
#: A step with such a standing has a worker, or had one until now.
_BEGUN = ("at_work", "question", "stale")

#: The lists of `ready`.
_LISTS = (
    *("ready_steps", "completed_steps", "blocked_steps", "claimed_steps"),
    *("expired_claims", "parked_steps"),
)


def is_recorded(store: Store, plan: str) -> bool:
    """Return whether the plan has a record."""
    return store.exists() and record.find_plan(store, plan) is not None


def with_text(store: Store, hash: str) -> list[str]:
    """Return the recorded plans whose agreed text has this hash."""
    with store.read() as tx:
        return [str(row["plan_path"]) for row in tx.all(sql_records.SAME_TEXT, hash=hash)]


def ready(store: Store, plan: str) -> StateReady:
    """Return all steps, each in the list of its state."""
    with store.read(plan) as tx:
        record.plan_row(tx)
        tops = [row for row in tx.all(sql.STEPS) if row["parent_anchor"] is None]
        gone = record.gone(tx)
        named = [(name, row["anchor"]) for row in tops for name in _lists(row, tx.now, gone)]
        found: Any = {name: [a for each, a in named if each == name] for name in _LISTS}
        found |= {"plan_path": plan, "all_steps": [row["anchor"] for row in tops]}
        if tx.first(sql_publication.UNPUBLISHED):
            from tugtool.state import publication  # Only with `[remote]`.

            publication.hold_back(tx, found)
    return found  # type: ignore[no-any-return]  # its lists are all there


def holders(store: Store, plan: str) -> list[NextHolder]:
    """Return the steps under a live claim, each with its worktree and the end of its lease."""
    with store.read(plan) as tx:
        tops = [row for row in tx.all(sql.STEPS) if row["parent_anchor"] is None]
        gone = record.gone(tx)
        held = [row for row in tops if "claimed_steps" in _lists(row, tx.now, gone)]
    return [
        {
            "step_anchor": row["anchor"],
            "worktree": row["claimed_by"],
            "lease_expires_at": row["lease_expires_at"],
        }
        for row in held
    ]


def _lists(row: Row, now: str, gone: set[str]) -> Iterable[str]:
    if row["status"] == "completed":
        return ["completed_steps"]
    if row["parked_at"] is not None:
        return ["parked_steps"]
    if row["claimed_by"] is None:
        return ["blocked_steps" if row["open_deps"] else "ready_steps"]
    if row["lease_expires_at"] >= now and row["anchor"] not in gone:
        return ["claimed_steps"]
    return ["expired_claims", *([] if row["open_deps"] else ["ready_steps"])]


def standing_of(step: Step) -> str:
    """Return the standing of a step as `show` has it."""
    if step["status"] == "completed":
        put_off = any(counts["deferred"] for counts in step["rolled_up"].values())
        return "deferred" if put_off else "completed"
    lost = step["holder_gone"] or step["lease_expired"]
    if step["claimed_by"] and not lost:
        # Also in the last attempt before it would be parked.
        return "question" if step["question"] else "at_work"
    if step["parked_at"]:
        return "parked"
    if lost:
        return "stale"
    return "blocked" if step["waiting_for"] or "waiting_for_publish" in step else "ready"


def standing_below(substep: Step, above: str) -> str:
    """Return the standing of a substep: at work only once its own work has begun."""
    if substep["status"] == "completed":
        return "completed"
    if substep["status"] == "in_progress" and above in _BEGUN:
        return above
    return "blocked" if substep["waiting_for"] or above == "blocked" else "ready"


def add_standings(step: dict[str, Any]) -> dict[str, Any]:
    """Add their standings to a step and its substeps."""
    step["standing"] = standing_of(step)
    for substep in step["substeps"]:
        substep["standing"] = standing_below(substep, step["standing"])
    return step
