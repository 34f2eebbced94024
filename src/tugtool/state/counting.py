"""stats: how long steps waited and were worked on, and how often what happened to them."""

from __future__ import annotations

from tugtool import clock
from tugtool.state import record, spells
from tugtool.state.checklist import KINDS, STATUSES
from tugtool.store import sql, sql_history

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]

STEP_STATUSES = ("pending", "claimed", "in_progress", "completed")
OUTCOMES = ("completed", "released", "reset", "expired", "superseded", "dead", "failed")
#: How an attempt ends when another takes over what it has not finished.
TAKEN_OVER = ("expired", "superseded", "dead")


def stats(store: Store, plan: str | None = None, *, archived: bool = False) -> Data:
    """The figures of one plan, or of all; of archived ones only if they are asked for."""
    with store.read(plan) as tx:
        if plan is not None:
            return {"plans": [_Figures(tx, record.plan_row(tx, plan)).plan()]}
        wanted = [r for r in tx.all(sql.PLANS) if archived or r["status"] != "archived"]
        rows = [tx.one(sql.PLAN, plan=row["plan_path"]) for row in wanted]
        return {"plans": [_Figures(tx, row).plan() for row in rows]}


class _Figures:
    """All that is recorded of one plan's execution, read once and counted."""

    def __init__(self, tx: Transaction, row: Row) -> None:
        plan = row["plan_path"]
        self.row, self.now = row, clock.milliseconds(tx.now)
        self.steps = tx.all(sql.STEPS, plan=plan)
        self.home = {step["anchor"]: step["parent_anchor"] or step["anchor"] for step in self.steps}
        self.attempts = self._by_step(tx.all(sql.ATTEMPTS, plan=plan))
        self.items = self._by_step(tx.all(sql_history.ITEM_COUNTS, plan=plan))
        self.artifacts = self._by_step(tx.all(sql_history.ARTIFACT_COUNTS, plan=plan))
        reasons = [step for step in self.steps if step["complete_reason"] is not None]
        self.forced_now = {self.home[step["anchor"]] for step in reasons}
        self.forced = dict.fromkeys(self.home.values(), 0)
        self._replay(tx.all(sql_history.TURNING_POINTS, plan=plan), tx.all(sql.DEPS, plan=plan))

    def _replay(self, events: list[Row], needs: list[Row]) -> None:
        """What only the events know: when steps could be worked on, how often force was used."""
        import json

        details = [json.loads(event["detail"]) for event in events]
        # Only a revision of the plan adds steps.
        later = {anchor for detail in details for anchor in detail.get("added", ())}
        start = clock.milliseconds(self.row["created_at"])
        self.openings = spells.Openings(self.steps, needs, start, later=later)
        for event, detail in zip(events, details, strict=True):
            self.openings.apply(event, detail)
            if event["step_anchor"] in self.home and _is_forced(event["kind"], detail):
                self.forced[self.home[event["step_anchor"]]] += 1

    def _by_step(self, rows: Iterable[Row]) -> dict[str, list[Row]]:
        """Step -> what belongs to it and to its substeps."""
        groups: dict[str, list[Row]] = {home: [] for home in self.home.values()}
        for row in rows:
            groups[self.home[row["step_anchor"]]].append(row)
        return groups

    def plan(self) -> Data:
        tops = [row for row in self.steps if row["parent_anchor"] is None]
        steps = [self.step(row) for row in tops]
        attempts = [each for group in self.attempts.values() for each in group]
        items = [each for group in self.items.values() for each in group]
        wall, ended = self._wall(tops)
        working = sum(spells.worked(each, self.now) for each in attempts)
        fields = ("plan_path", "phase_title", "status", "created_at")
        return {
            **{field: self.row[field] for field in fields},
            "completed_at": ended,
            "wall_seconds": wall / 1000,
            "working_seconds": working / 1000,
            "waiting_seconds": sum(self._waited(row["anchor"]) for row in tops) / 1000,
            "parallelism": round(working / wall, 3) if wall else None,
            "steps_by_status": _tally(STEP_STATUSES, (row["status"] for row in tops)),
            "items": {kind: _numbers(items, kind) for kind in KINDS},
            "attempts": len(attempts),
            "attempts_by_outcome": _tally(
                ("running", *OUTCOMES), (each["outcome"] or "running" for each in attempts)
            ),
            **{name: _sum(step[name] for step in steps) or 0 for name in _COUNTED},
            **{name: _sum(step[name] for step in steps) for name in _REPORTED},
            "steps": steps,
        }

    def _wall(self, tops: list[Row]) -> tuple[int, str | None]:
        """From the beginning until the last step was done, or now; and when that was."""
        ends = [row["completed_at"] for row in tops]
        ended = max(ends) if ends and all(ends) else None
        end = self.now if ended is None else clock.milliseconds(ended)
        return max(0, end - clock.milliseconds(self.row["created_at"])), ended

    def _waited(self, anchor: str) -> int:
        openings = self.openings.spells(anchor, self.now)
        held = spells.tidy(spells.held(each, self.now) for each in self.attempts[anchor])
        return spells.total(openings) - spells.shared(openings, held)

    def step(self, row: Row) -> Data:
        anchor = row["anchor"]
        attempts, artifacts = self.attempts[anchor], self.artifacts[anchor]
        return {
            **record.names(anchor),
            "title": row["title"],
            "status": row["status"],
            "attempts": len(attempts),
            "waiting_seconds": self._waited(anchor) / 1000,
            "working_seconds": sum(spells.worked(each, self.now) for each in attempts) / 1000,
            "forced": anchor in self.forced_now,
            "times_forced": self.forced[anchor],
            "deferred": sum(_numbers(self.items[anchor], kind)["deferred"] for kind in KINDS),
            "reclaims": sum(each["outcome"] in TAKEN_OVER for each in attempts),
            "recoveries": _kind(artifacts, "recovery"),
            "escalations": _kind(artifacts, "escalation"),
            "tokens": _sum(each["tokens"] for each in attempts),
            "cost_microdollars": _sum(each["cost_microdollars"] for each in attempts),
            "completed_at": row["completed_at"],
        }


#: What a plan has as much of as its steps together.
_COUNTED = ("times_forced", "deferred", "reclaims", "recoveries", "escalations")
_REPORTED = ("tokens", "cost_microdollars")


def _is_forced(kind: str, detail: Mapping[str, object]) -> bool:
    if kind == "complete":
        return detail["forced"] is not None
    # With its step forced it is not forced once more.
    mine = kind == "substep_completed" and detail["because"] == "it was completed"
    return mine and detail["reason"] is not None


def _tally(names: Iterable[str], found: Iterable[str]) -> dict[str, int]:
    counts = dict.fromkeys(names, 0)
    for each in found:
        counts[each] += 1
    return counts


def _numbers(counts: Iterable[Row], kind: str) -> dict[str, int]:
    found = dict.fromkeys(STATUSES, 0)
    for row in counts:
        if row["kind"] == kind:
            found[row["status"]] += row["number"]
    return found


def _kind(artifacts: Iterable[Row], kind: str) -> int:
    return sum(row["number"] for row in artifacts if row["kind"] == kind)


def _sum(numbers: Iterable[object]) -> int | None:
    """Null where nobody said anything, which is not the same as nothing."""
    said = [number for number in numbers if isinstance(number, int)]
    return sum(said) if said else None
