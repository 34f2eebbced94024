"""What is left of a plan, at one moment: what can be had, who is at it, what waits for a person."""

from __future__ import annotations

from tugtool import holder
from tugtool.errors import quoted
from tugtool.state import record
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store import Row, Store

    Data = dict[str, object]


class Outlook:
    """Every unfinished step, by how it stands."""

    __slots__ = ("blocked", "live", "parked", "paused", "ready", "rows", "status")

    def __init__(self, status: str, *, paused: bool) -> None:
        self.status, self.paused = status, paused
        #: Steps that a claim could get; held by somebody who lives; parked, with the reason.
        self.ready: list[str] = []
        self.live: list[str] = []
        self.parked: dict[str, str] = {}
        self.blocked: list[str] = []
        self.rows: list[Row] = []

    def held_by_others(self, owners: set[str]) -> dict[str, str]:
        """Step -> who holds it, if all that are held are held by nobody of these."""
        held = {row["anchor"]: row["claimed_by"] for row in self.rows if row["anchor"] in self.live}
        return {} if owners & set(held.values()) else held

    @property
    def done(self) -> bool:
        """Whether every step is completed."""
        return not (self.ready or self.live or self.parked or self.blocked)


def look(store: Store, plan: str) -> Outlook:
    """How the plan stands now."""
    with store.read(plan) as tx:
        row = record.plan_row(tx, plan)
        found = Outlook(row["status"], paused=row["paused_at"] is not None)
        gone = {each["step_anchor"] for each in tx.all(sql.HOLDERS) if holder.is_gone(each)}
        found.rows = [step for step in tx.all(sql.STEPS) if step["parent_anchor"] is None]
        for step in found.rows:
            _sort(found, step, tx.now, gone)
    return found


def _sort(found: Outlook, step: Row, now: str, gone: set[str]) -> None:
    anchor = step["anchor"]
    if step["status"] == "completed":
        return
    held = step["claimed_by"] is not None and anchor not in gone
    if held and step["lease_expires_at"] >= now:
        # Whoever holds it may finish it, also if it is parked by then.
        found.live.append(anchor)
    elif step["parked_at"] is not None:
        found.parked[anchor] = step["park_reason"] or ""
    elif step["open_deps"]:
        found.blocked.append(anchor)
    else:
        found.ready.append(anchor)


def left_over(seen: Outlook, plan: str, why: dict[str, str]) -> list[Data]:
    """Every step that is not done, why, and what frees it, for whoever ends the run."""
    blocked = dict.fromkeys(seen.blocked, "it waits for steps before it")
    # Why a step is parked includes what it failed of; of all others the run knows more.
    known = {**blocked, **why, **seen.parked}
    return [
        {
            "step_anchor": row["anchor"],
            "title": row["title"],
            "parked": row["anchor"] in seen.parked,
            "reason": known.get(row["anchor"]) or "it was not begun",
            "frees": f"tugcode state reset {quoted(plan)} {quoted(row['anchor'])}"
            if row["anchor"] in seen.parked
            else None,
        }
        for row in seen.rows
        if row["status"] != "completed"
    ]
