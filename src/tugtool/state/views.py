"""ready and show: what a plan's execution looks like at one moment. Nothing is changed."""

from __future__ import annotations

from tugtool import holder
from tugtool.state import proof, record
from tugtool.state.checklist import KINDS, STATUSES
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]


def ready(store: Store, plan: str) -> Data:
    """Every step in the list it belongs to."""
    with store.read(plan) as tx:
        record.plan_row(tx, plan)
        tops = [row for row in tx.all(sql.STEPS) if row["parent_anchor"] is None]
        gone = {r["step_anchor"] for r in tx.all(sql.HOLDERS) if holder.is_gone(r)}
        lists: dict[str, list[str]] = {
            "ready_steps": [],
            "all_steps": [row["anchor"] for row in tops],
            "completed_steps": [],
            "blocked_steps": [],
            "claimed_steps": [],
            "expired_claims": [],
            "parked_steps": [],
        }
        for row in tops:
            for name in _lists(row, tx.now, gone):
                lists[name].append(row["anchor"])
    return {"plan_path": plan, **lists}


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


def show(store: Store, plan: str | None = None, *, archived: bool = False, step: str = "") -> Data:
    """One plan with its steps and items, or all plans; archived ones only if they are wanted.

    With `step` only that step of the plan, its substeps and their items.
    """
    with store.read(plan) as tx:
        if plan is not None:
            picture = _Picture(tx, record.plan_row(tx, plan)).plan()
            return _only(picture, record.family(tx, plan, step)[1]["anchor"]) if step else picture
        wanted = [row for row in tx.all(sql.PLANS) if archived or row["status"] != "archived"]
        rows = [tx.one(sql.PLAN, plan=row["plan_path"]) for row in wanted]
        return {"plans": [_Picture(tx, row).plan() for row in rows]}


def _only(picture: dict[str, Any], anchor: str) -> Data:
    """Of a plan's steps and items one step's."""
    steps = [step for step in picture["steps"] if step["anchor"] == anchor]
    names = {each["anchor"] for step in steps for each in (step, *step["substeps"])}
    items = [item for item in picture["checklist_items"] if item["step_anchor"] in names]
    return {**picture, "steps": steps, "checklist_items": items}


class _Picture:
    """Everything about one plan, read once and put together."""

    def __init__(self, tx: Transaction, row: Row) -> None:
        plan = row["plan_path"]
        self.row, self.now = row, tx.now
        self.steps = tx.all(sql.STEPS, plan=plan)
        self.items = _grouped(tx.all(sql.PLAN_ITEMS, plan=plan))
        self.attempts = _grouped(tx.all(sql.ATTEMPTS, plan=plan))
        self.artifacts = _grouped(tx.all(sql.PLAN_ARTIFACTS, plan=plan))
        self.needs = _grouped(tx.all(sql.DEPS, plan=plan))
        holders = tx.all(sql.HOLDERS, plan=plan)
        self.gone = {row["step_anchor"] for row in holders if holder.is_gone(row)}
        #: Where each unfinished step stands in the document.
        self.open = {s["anchor"]: s["step_index"] for s in self.steps if s["status"] != "completed"}
        self.children: dict[str | None, list[Row]] = {}
        for step in self.steps:
            self.children.setdefault(step["parent_anchor"], []).append(step)

    def plan(self) -> Data:
        return {
            **{field: self.row[field] for field in _PLAN_FIELDS},
            "total_steps": self.row["steps_total"],
            "completed_steps": self.row["steps_done"],
            "as_of": self.now,
            "steps": [self.step(step) for step in self.children.get(None, [])],
            "checklist_items": [
                _item(item) for step in self.steps for item in self.items.get(step["anchor"], [])
            ],
        }

    def step(self, row: Row) -> Data:
        anchor, until = row["anchor"], row["lease_expires_at"]
        below = self.children.get(anchor, [])
        own = self.items.get(anchor, [])
        whole = own + [item for each in below for item in self.items.get(each["anchor"], [])]
        return {
            **record.names(anchor),
            **{field: row[field] for field in _STEP_FIELDS},
            "lease_expired": until is not None and until < self.now,
            "holder_gone": anchor in self.gone,
            "needs": [edge["depends_on"] for edge in self.needs.get(anchor, [])],
            "waiting_for": self.waiting_for(row, [each["anchor"] for each in below]),
            "counts": _counts(own),
            "rolled_up": _counts(whole),
            "attempts": [_attempt(each) for each in self.attempts.get(anchor, [])],
            "artifacts": [_artifact(each) for each in self.artifacts.get(anchor, [])],
            "substeps": [self.step(each) for each in below],
        }

    def waiting_for(self, row: Row, below: list[str]) -> list[str]:
        """What is unfinished of what the step and its substeps need, those themselves aside."""
        anchor = row["anchor"]
        if anchor not in self.open:
            return []
        members = [anchor, *below]
        if row["claimed_by"] is not None:
            # Whoever holds it goes on; a claim would ask also for what a done substep needed.
            members = [each for each in members if each in self.open]
        needed = {edge["depends_on"] for each in members for edge in self.needs.get(each, [])}
        # That a substep names its own step as a dependency means nothing.
        needed -= {anchor, *below, row["parent_anchor"]}
        return sorted(needed & self.open.keys(), key=self.open.__getitem__)


def _grouped(rows: Iterable[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["step_anchor"], []).append(row)
    return groups


_PLAN_FIELDS = (
    "plan_path",
    "plan_hash",
    "phase_title",
    "status",
    "created_at",
    "updated_at",
    "paused_at",
    "base_commit",
    "merged_commit",
)
_STEP_FIELDS = (
    "parent_anchor",
    "step_index",
    "title",
    "status",
    "claimed_by",
    "claimed_at",
    "lease_expires_at",
    "heartbeat_at",
    "started_at",
    "completed_at",
    "completed_by",
    "commit_hash",
    "complete_reason",
    "attempt",
    "claims_without_progress",
    "parked_at",
    "park_reason",
)


def _item(row: Row) -> Data:
    fields = ("step_anchor", "kind", "ordinal", "text", "status", "reason", "updated_at")
    return {**{field: row[field] for field in fields}, "evidence": proof.read(row["evidence"])}


def _attempt(row: Row) -> Data:
    fields = ("number", "worktree", "holder_pid", "lease_seconds", "claimed_at", "seen_at")
    ends = ("ended_at", "outcome", "salvage_ref")
    return {field: row[field] for field in (*fields, *ends)}


def _artifact(row: Row) -> Data:
    fields = ("kind", "summary", "content", "recorded_at")
    return {"artifact_id": row["id"], **{field: row[field] for field in fields}}


def _counts(items: list[Row]) -> Data:
    counts = {kind: dict.fromkeys(STATUSES, 0) for kind in KINDS}
    for item in items:
        counts[item["kind"]][item["status"]] += 1
    return {**counts}
