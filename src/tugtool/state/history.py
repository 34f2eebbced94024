"""log and stats: the events, and the times they took."""

from __future__ import annotations

from tugtool.errors.state import QueryFailed
from tugtool.state import record
from tugtool.state.checklists import KINDS, STATUSES
from tugtool.store import sql
from tugtool.store.sql import views as sql_views
from tugtool.system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set
    from typing import Any

    from tugtool.schemas import StateLog, StateLogEvent, StateStats, StateStatsPlanStep
    from tugtool.store import Row, Store, Transaction

    Spell = tuple[int, int]


#: How many events are read at once.
PAGE = 1000


def last_change(store: Store) -> tuple[str | None, str]:
    """Return the time of the last change in any plan, and the time now."""
    with store.read() as tx:
        return tx.value(sql.LAST_CHANGE), tx.now


def last_seq(store: Store) -> int:
    """Return the number of the last event of any plan; 0 if none. A group knows its own."""
    if (noted := getattr(getattr(store, "grouped", None), "last_event", None)) is not None:
        return int(noted)
    with store.read() as tx:
        return int(tx.value(sql_views.NEWEST_EVENT) or 0)


def log(
    store: Store,
    plan: str | None = None,
    *,
    step: str | None = None,
    since: str | float | None = None,
    limit: int | None = None,
) -> StateLog:
    """Return the events of a plan, or of all; for a step also those of its substeps.

    `since` is a time or a number of seconds ago; `limit` keeps the last events.
    """
    reader = Reader(plan, step=step, since=since, limit=limit)
    with store.read(plan) as tx:
        events = reader.read(tx, most=1 << 62)
    return {"plan_path": plan, "step_anchor": step, "since": reader.since, "events": events}


class Reader:
    """Reads a log in pages, and continues where it stopped."""

    def __init__(
        self,
        plan: str | None = None,
        *,
        step: str | None = None,
        since: str | float | None = None,
        limit: int | None = None,
    ) -> None:
        self.plan, self.step, self.limit = plan, step, limit
        #: A time; before the first page it may be a number of seconds ago.
        self.since: Any = since
        #: The newest event at the last read, selected or not.
        self.mark: tuple[int, str, str] | None = None
        #: True if the last page found that events it had read are gone.
        self.went_back = False

    def page(self, store: Store) -> list[StateLogEvent]:
        """Return the next events; empty if there are none yet."""
        try:
            return self._page(store)
        except QueryFailed:
            # A lost connection, and a commit meanwhile: a follower goes on with a new look.
            return self._page(store)

    def _page(self, store: Store) -> list[StateLogEvent]:
        events, now = page(store, self)
        vars(self).update(vars(now))
        return events

    def read(self, tx: Transaction, *, most: int) -> list[StateLogEvent]:
        """Return the next events, at most `most`, within a given transaction."""
        after = self._begin(tx) if self.mark is None else self._continue(tx)
        statement = sql_views.PLAN_EVENTS if self.plan else sql_views.ALL_EVENTS
        rows = tx.all(statement, after=after, most=most, **self._wanted())
        # Skip events that were not selected.
        last = rows[-1] if len(rows) == most else tx.first(sql_views.NEWEST_EVENT)
        if last is not None:
            self.mark = last["seq"], last["at"], last["kind"]
        return list(decoded(rows))

    def _wanted(self) -> dict[str, object]:
        return {"anchor": self.step, "since": self.since or ""}

    def _begin(self, tx: Transaction) -> int:
        if self.plan is not None:
            record.plan_row(tx)
            self._refuse_unknown(tx)
        if isinstance(self.since, (int, float)):
            ago = clock.milliseconds(tx.now) - round(self.since * 1000)
            self.since = clock.text(max(0, ago))
        if self.limit is None:
            return 0
        statement = sql_views.PLAN_TAIL if self.plan else sql_views.ALL_TAIL
        first = tx.value(statement, skip=self.limit - 1, **self._wanted())
        return 0 if first is None else int(first) - 1

    def _refuse_unknown(self, tx: Transaction) -> None:
        """Refuse an unknown step; a dropped step still has its history."""
        if self.step is not None and tx.first(sql_views.ANY_EVENT, anchor=self.step) is None:
            record.step_row(tx, self.step)

    def _continue(self, tx: Transaction) -> int:
        """Continue after the last event; if that is gone, after the newest older one."""
        assert self.mark is not None
        seq, at, kind = self.mark
        row: Row | None = tx.first(sql_views.EVENT, seq=seq)
        self.went_back = row is None or (row["at"], row["kind"]) != (at, kind)
        return int(tx.value(sql_views.LAST_UNTIL, at=at) or 0) if self.went_back else seq


def page(store: Store, reader: Reader) -> tuple[list[StateLogEvent], Reader]:
    """Return the next events, and the reader behind them."""
    with store.read(reader.plan) as tx:
        return reader.read(tx, most=PAGE), reader


def decoded(rows: Iterable[Row]) -> Iterable[Any]:
    """Yield rows of the log as answers have them."""
    import json

    names = "seq at plan_path step_anchor kind actor attempt"
    for row in rows:
        yield {**record.columns(row, names), "detail": json.loads(row["detail"])}


#: Outcomes set by the holder itself, which was alive until then.
ENDED_BY_HOLDER = ("completed", "released", "failed")


def total(spells: Iterable[Spell]) -> int:
    """Return their total length."""
    return sum(end - start for start, end in spells)


def tidy(spells: Iterable[Spell]) -> list[Spell]:
    """Return them in order without empty ones, even after a clock was set back."""
    kept: list[Spell] = []
    for start, end in spells:
        start = max(start, kept[-1][1]) if kept else start
        if end > start:
            kept.append((start, end))
    return kept


def shared(ones: Sequence[Spell], others: Sequence[Spell]) -> int:
    """Return how long spells of both lists overlap."""
    common = one = other = 0
    while one < len(ones) and other < len(others):
        (start, end), (begin, stop) = ones[one], others[other]
        common += max(0, min(end, stop) - max(start, begin))
        if end < stop:
            one += 1
        else:
            other += 1
    return common


def held_spans(attempt: Row, now: int) -> Spell:
    """Return the time from the claim to its end, or to the end of a lapsed lease."""
    start, end = clock.milliseconds(attempt["claimed_at"]), _end(attempt, now)
    if attempt["outcome"] in ENDED_BY_HOLDER:
        return start, end
    return start, min(end, _lease_end(attempt))


def worked(attempt: Row, now: int, *, gone: bool = False) -> int:
    """Return the time from the claim to its end; for a lost holder, to its last heartbeat.

    `gone`: the process of the step's holder no longer runs.
    """
    start, end = clock.milliseconds(attempt["claimed_at"]), _end(attempt, now)
    running = attempt["outcome"] is None and _lease_end(attempt) >= now and not gone
    if not running and attempt["outcome"] not in ENDED_BY_HOLDER:
        end = clock.milliseconds(attempt["seen_at"])
    return max(0, end - start)


def _end(attempt: Row, now: int) -> int:
    return now if attempt["ended_at"] is None else clock.milliseconds(attempt["ended_at"])


def _lease_end(attempt: Row) -> int:
    lease: int = max(1, round(attempt["lease_seconds"] * 1000))
    return clock.milliseconds(attempt["seen_at"]) + lease


class Openings:
    """For each step, the times when it lacked only a worker: not blocked, not completed.

    Derived from the events, with the dependencies of the present plan. A step that a revision
    added does not count before that.
    """

    def __init__(
        self,
        steps: Sequence[Row],
        needs: Sequence[Row],
        start: int,
        *,
        later: Set[str] = frozenset(),
    ) -> None:
        self._home = {row["anchor"]: row["parent_anchor"] or row["anchor"] for row in steps}
        self._family: dict[str, list[str]] = {}
        for anchor, home in self._home.items():
            self._family.setdefault(home, []).append(anchor)
        self._done = {anchor for anchor in self._home if anchor in later}
        self._waiting: dict[str, list[str]] = {}
        self._missing = dict.fromkeys(self._family, 0)
        for edge in needs:
            home = self._home[edge["step_anchor"]]
            if self._home[edge["depends_on"]] != home:
                self._waiting.setdefault(edge["depends_on"], []).append(home)
                self._missing[home] += edge["depends_on"] not in self._done
        self._since: dict[str, int] = {}
        self._spells: dict[str, list[Spell]] = {home: [] for home in self._family}
        for home in self._family:
            self._turn(home, start)

    def apply(self, event: Row, detail: Mapping[str, Any]) -> None:
        """Apply one event; events come in order."""
        kind, anchor, at = event["kind"], event["step_anchor"], clock.milliseconds(event["at"])
        if kind in ("complete", "reconcile", "substep_completed"):
            self._complete(anchor, at)
            return
        members = [anchor]
        if kind == "reopen":
            members = self._family.get(anchor, [])
        elif kind == "revise":
            members = [*detail["added"], *detail["reopened"]]
        for member in members:
            self._reopen(member, at)

    def spells(self, anchor: str, now: int) -> list[Spell]:
        """Return the openings of a step until now."""
        last = [(self._since[anchor], now)] if anchor in self._since else []
        return tidy([*self._spells[anchor], *last])

    def _complete(self, anchor: str, at: int) -> None:
        # Unless it was dropped from the plan.
        if anchor in self._home and anchor not in self._done:
            self._done.add(anchor)
            self._shift(anchor, at, by=-1)

    def _reopen(self, anchor: str, at: int) -> None:
        if anchor in self._done:
            self._done.remove(anchor)
            self._shift(anchor, at, by=1)

    def _shift(self, anchor: str, at: int, *, by: int) -> None:
        for home in self._waiting.get(anchor, ()):
            self._missing[home] += by
            self._turn(home, at)
        self._turn(self._home[anchor], at)

    def _turn(self, home: str, at: int) -> None:
        is_open = not self._missing[home] and home not in self._done
        if is_open and home not in self._since:
            self._since[home] = at
        elif not is_open and home in self._since:
            self._spells[home].append((self._since.pop(home), at))


STEP_STATUSES = ("pending", "claimed", "in_progress", "completed")
OUTCOMES = ("completed", "released", "reset", "expired", "superseded", "dead", "failed")
#: Outcomes of attempts whose step another worker took over.
TAKEN_OVER = ("expired", "superseded", "dead")


def stats(store: Store, plan: str | None = None, *, archived: bool = False) -> StateStats:
    """Return the figures of one plan, or of all; of archived plans only on request."""
    with store.read(plan) as tx:
        if plan is not None:
            return {"plans": [_Figures(tx, record.plan_row(tx)).plan()]}
        wanted = [r for r in tx.all(sql.PLANS) if archived or r["status"] != "archived"]
        rows = [tx.one(sql.PLAN, plan=row["plan_path"]) for row in wanted]
        return {"plans": [_Figures(tx, row).plan() for row in rows]}


def figures(tx: Transaction, row: Row) -> Any:
    """Return the figures of one plan within a given transaction."""
    return _Figures(tx, row).plan()


class _Figures:
    """The whole record of a plan's execution, read once and counted."""

    def __init__(self, tx: Transaction, row: Row) -> None:
        plan = row["plan_path"]
        self.row, self.now = row, clock.milliseconds(tx.now)
        self.steps = tx.all(sql.STEPS, plan=plan)
        self.home = {step["anchor"]: step["parent_anchor"] or step["anchor"] for step in self.steps}
        self.gone = record.gone(tx, plan)
        self.attempts = self._by_step(tx.all(sql.ATTEMPTS, plan=plan))
        self.items = self._by_step(tx.all(sql_views.ITEM_COUNTS_BY_STEP, plan=plan))
        self.artifacts = self._by_step(tx.all(sql_views.ARTIFACT_COUNTS, plan=plan))
        reasons = [step for step in self.steps if step["complete_reason"] is not None]
        self.forced_now = {self.home[step["anchor"]] for step in reasons}
        self.forced = dict.fromkeys(self.home.values(), 0)
        self._replay(tx.all(sql_views.TURNING_POINTS, plan=plan), tx.all(sql.DEPS, plan=plan))

    def _replay(self, events: list[Row], needs: list[Row]) -> None:
        """Derive from events when steps could be worked on, and how often force was used."""
        import json

        details = [json.loads(event["detail"]) for event in events]
        # Only a revision of the plan adds steps.
        later = {anchor for detail in details for anchor in detail.get("added", ())}
        start = clock.milliseconds(self.row["created_at"])
        self.openings = Openings(self.steps, needs, start, later=later)
        for event, detail in zip(events, details, strict=True):
            self.openings.apply(event, detail)
            if event["step_anchor"] in self.home and _is_forced(event["kind"], detail):
                self.forced[self.home[event["step_anchor"]]] += 1

    def _by_step(self, rows: Iterable[Row]) -> dict[str, list[Row]]:
        """Return step -> rows of the step and its substeps."""
        groups: dict[str, list[Row]] = {home: [] for home in self.home.values()}
        for row in rows:
            groups[self.home[row["step_anchor"]]].append(row)
        return groups

    def plan(self) -> Any:
        tops = [row for row in self.steps if row["parent_anchor"] is None]
        steps: list[Any] = [self.step(row) for row in tops]
        attempts = [each for group in self.attempts.values() for each in group]
        items = [each for group in self.items.values() for each in group]
        wall, ended = self._wall(tops)
        working = sum(self._worked(each) for each in attempts)
        return {
            **record.columns(self.row, "plan_path phase_title status created_at"),
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
        """Return the time from the first event to the last step's end, or now; and that end."""
        ends = [row["completed_at"] for row in tops]
        ended = max(ends) if ends and all(ends) else None
        end = self.now if ended is None else clock.milliseconds(ended)
        return max(0, end - clock.milliseconds(self.row["created_at"])), ended

    def _worked(self, attempt: Row) -> int:
        return worked(attempt, self.now, gone=attempt["step_anchor"] in self.gone)

    def _is_parked(self, row: Row) -> bool:
        """Return whether a step is parked, and not at work on its last attempt."""
        if row["parked_at"] is None or row["status"] == "completed":
            return False
        until = row["lease_expires_at"]
        held = row["claimed_by"] is not None and clock.milliseconds(until) >= self.now
        return not held or row["anchor"] in self.gone

    def _waited(self, anchor: str) -> int:
        openings = self.openings.spells(anchor, self.now)
        held = tidy(held_spans(each, self.now) for each in self.attempts[anchor])
        return total(openings) - shared(openings, held)

    def step(self, row: Row) -> StateStatsPlanStep:
        anchor = row["anchor"]
        attempts, artifacts = self.attempts[anchor], self.artifacts[anchor]
        return {
            **record.names(anchor),
            "title": row["title"],
            "status": row["status"],
            "parked": self._is_parked(row),
            "attempts": len(attempts),
            "waiting_seconds": self._waited(anchor) / 1000,
            "working_seconds": sum(self._worked(each) for each in attempts) / 1000,
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


#: For a plan, the sum over its steps.
_COUNTED = ("times_forced", "deferred", "reclaims", "recoveries", "escalations")
_REPORTED = ("tokens", "cost_microdollars")


def _is_forced(kind: str, detail: Mapping[str, object]) -> bool:
    if kind == "complete":
        return detail["forced"] is not None
    # A substep forced with its step does not count again.
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
    """Return the sum; None if there are no numbers, which differs from 0."""
    said = [number for number in numbers if isinstance(number, int)]
    return sum(said) if said else None
