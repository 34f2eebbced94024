"""How many of what there are, counted in the plainest way: from the rows, and from the events.

Nothing here is shared with what `show`, `status` and `stats` count with.
"""

from collections import Counter
from collections.abc import Callable
from datetime import datetime

from support.state_replay import Replay
from support.state_walk import NOBODY

KINDS = ("task", "test", "checkpoint")
STEPS = "select * from steps order by step_index"
STATUSES = ("open", "in_progress", "completed", "deferred")


class Truth:
    """The steps and items of one plan at one moment; `source.rows` reads the database."""

    def __init__(self, source: object, now: str) -> None:
        rows: Callable[..., list[dict]] = source.rows
        self.now, self.rows = now, {row["anchor"]: row for row in rows(STEPS)}
        found = rows("select * from checklist_items")
        #: Step or substep, kind, status.
        self.items = [(item["step_anchor"], item["kind"], item["status"]) for item in found]
        self._checkpoints = [item for item in found if item["kind"] == "checkpoint"]
        self._words = rows("select * from step_artifacts order by id")
        self.needs = [(r["step_anchor"], r["depends_on"]) for r in rows("select * from step_deps")]
        self.attempts = rows("select * from attempts")
        (plan,) = rows("select status from plans")
        self.archived = plan["status"] == "archived"
        self.gone = {
            row["step_anchor"]
            for row in self.attempts
            if row["ended_at"] is None and row["holder_pid"] == NOBODY
        }
        self.tops = [anchor for anchor, row in self.rows.items() if not row["parent_anchor"]]
        self._events_say_the_same(Replay(source))

    def _events_say_the_same(self, told: Replay) -> None:
        items = sorted((*key[:2], status) for key, status in told.items.items())
        assert items == sorted(self.items)
        for anchor, row in self.rows.items():
            step, facts = told.steps[anchor], (row["status"], row["claimed_by"])
            assert (step["status"], step["owner"]) == facts, anchor
            assert step["parked"] == (row["parked_at"] is not None), anchor
        assert told.steps.keys() == self.rows.keys()

    def home(self, anchor: str) -> str:
        return self.rows[anchor]["parent_anchor"] or anchor

    def family(self, anchor: str) -> list[str]:
        """The step and its substeps; of a substep, itself."""
        return [a for a, row in self.rows.items() if anchor in (a, row["parent_anchor"])]

    def number(self, anchors: list[str], kind: str, status: str) -> int:
        return sum(item in [(each, kind, status) for each in anchors] for item in self.items)

    def by_kind(self, anchors: list[str]) -> dict[str, dict[str, int]]:
        """Kind -> status -> how many items of these steps."""
        return {
            kind: {status: self.number(anchors, kind, status) for status in STATUSES}
            for kind in KINDS
        }

    def of_all(self, status: str) -> int:
        return [found for _, _, found in self.items].count(status)

    def is_lapsed(self, anchor: str) -> bool:
        until = self.rows[anchor]["lease_expires_at"]
        return until is not None and until < self.now

    def is_blocked(self, anchor: str) -> bool:
        return any(
            self.rows[need]["status"] != "completed"
            for each, need in self.needs
            if self.home(each) == anchor and self.home(need) != anchor
        )

    def standing(self, anchor: str) -> str:
        """How a step stands, in the words that people read."""
        row = self.rows[anchor]
        if row["status"] == "completed":
            return "done"
        held, gone = row["claimed_by"] is not None, anchor in self.gone
        if held and not gone and not self.is_lapsed(anchor):
            return "at work"
        if row["parked_at"] is not None:
            return "parked"
        if held:
            return "stale"
        return "waiting" if self.is_blocked(anchor) else "ready"

    def asks(self, anchor: str) -> bool:
        """True if the worker of a step waits for the answer to its question."""
        if self.standing(anchor) != "at work":
            return False
        said = [row for row in self._words if row["step_anchor"] == anchor]
        last = [row["content"] for row in said if row["kind"] in ("escalation", "note")][-1:]
        return last == [f'{{"asked_in_attempt": {self.rows[anchor]["attempt"]}}}']

    def asking(self) -> list[str]:
        return [top for top in self.tops if self.asks(top)]

    def unproven(self) -> int:
        """Completed checkpoints of done steps that name a command and that nothing proves."""
        return sum(
            "`" in item["text"]
            and item["status"] == self.rows[item["step_anchor"]]["status"] == "completed"
            and item["evidence"] is None
            and not (item["reason"] or "").startswith("accepted by ")
            for item in self._checkpoints
        )

    def sign(self, anchor: str) -> str:
        """The same; of a completed step also whether anything of it was put off."""
        put_off = any(self.by_kind(self.family(anchor))[kind]["deferred"] for kind in KINDS)
        standing = self.standing(anchor)
        return "deferred" if standing == "done" and put_off else standing

    def waits_for(self, anchor: str) -> list[str]:
        """The unfinished steps and substeps that keep a step from being begun, in order."""
        needed = {need for each, need in self.needs if self.home(each) == anchor}
        return [
            each
            for each, row in self.rows.items()
            if each in needed and self.home(each) != anchor and row["status"] != "completed"
        ]

    def elapsed(self) -> float | None:
        """From the first claim to the end, or to now."""
        begun = min((row["claimed_at"] for row in self.attempts), default=None)
        ends = [self.rows[top]["completed_at"] for top in self.tops]
        end = max(ends) if all(ends) else self.now
        return None if begun is None else max(0.0, (_time(end) - _time(begun)).total_seconds())

    def standings(self) -> Counter:
        """How many steps stand how; only what there is."""
        return Counter(map(self.standing, self.tops))

    def held(self) -> list[str]:
        return [anchor for anchor in self.tops if self.rows[anchor]["claimed_by"] is not None]

    def stale(self) -> list[str]:
        return [anchor for anchor in self.held() if anchor in self.gone or self.is_lapsed(anchor)]

    def statuses(self) -> Counter:
        return Counter(self.rows[anchor]["status"] for anchor in self.tops)

    def tries(self, *anchors: str) -> int:
        return sum(row["step_anchor"] in anchors for row in self.attempts)

    def outcomes(self) -> Counter:
        return Counter(row["outcome"] or "running" for row in self.attempts)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def percent(done: int, total: int) -> int:
    """Whole hundredths that are reached; what has nothing to do is done."""
    return next(n for n in range(100, -1, -1) if n * total <= 100 * done)
