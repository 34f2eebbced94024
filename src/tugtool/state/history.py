"""log: what happened, oldest first. Nothing is changed."""

from __future__ import annotations

from tugtool import clock
from tugtool.state import record
from tugtool.store import sql_history

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]

#: So many events are read at once by whoever shows them as they come.
PAGE = 1000


def log(
    store: Store,
    plan: str | None = None,
    *,
    step: str | None = None,
    since: str | float | None = None,
    limit: int | None = None,
) -> Data:
    """The events of a plan, or of all; of a step also those of its substeps.

    `since` is a time, or how many seconds ago; `limit` means the last so many.
    """
    reader = Reader(plan, step=step, since=since, limit=limit)
    with store.read(plan) as tx:
        events = reader.read(tx, most=1 << 62)
    return {"plan_path": plan, "step_anchor": step, "since": reader.since, "events": events}


class Reader:
    """Reads a log piece by piece, and goes on where it stopped."""

    def __init__(
        self,
        plan: str | None = None,
        *,
        step: str | None = None,
        since: str | float | None = None,
        limit: int | None = None,
    ) -> None:
        self.plan, self.step, self.limit = plan, step, limit
        #: A time, once the first piece was read; before, also seconds ago.
        self.since: str | float | None = since
        #: The last event of the log when it was read, whether or not it was asked for.
        self._mark: tuple[int, str, str] | None = None
        #: Whether the last piece found that events it had read are gone.
        self.went_back = False

    def page(self, store: Store) -> list[Data]:
        """The next events; none if there are no more yet."""
        with store.read(self.plan) as tx:
            return self.read(tx, most=PAGE)

    def read(self, tx: Transaction, *, most: int) -> list[Data]:
        """The next events, at most so many, in a transaction that is there."""
        after = self._begin(tx) if self._mark is None else self._continue(tx)
        statement = sql_history.PLAN_EVENTS if self.plan else sql_history.ALL_EVENTS
        rows = tx.all(statement, after=after, most=most, **self._wanted())
        # What was read without being asked for need not be read again.
        last = rows[-1] if len(rows) == most else tx.first(sql_history.NEWEST_EVENT)
        if last is not None:
            self._mark = last["seq"], last["at"], last["kind"]
        return list(_events(rows))

    def _wanted(self) -> Data:
        return {"anchor": self.step, "since": self.since or ""}

    def _begin(self, tx: Transaction) -> int:
        if self.plan is not None:
            record.plan_row(tx, self.plan)
            self._refuse_unknown(tx, self.plan)
        if isinstance(self.since, (int, float)):
            ago = clock.milliseconds(tx.now) - round(self.since * 1000)
            self.since = clock.text(max(0, ago))
        if self.limit is None:
            return 0
        statement = sql_history.PLAN_TAIL if self.plan else sql_history.ALL_TAIL
        first = tx.value(statement, skip=self.limit - 1, **self._wanted())
        return 0 if first is None else int(first) - 1

    def _refuse_unknown(self, tx: Transaction, plan: str) -> None:
        """A step that was dropped from the plan still has its history."""
        if self.step is not None and tx.first(sql_history.ANY_EVENT, anchor=self.step) is None:
            record.step_row(tx, plan, self.step)

    def _continue(self, tx: Transaction) -> int:
        """After what was read; if that is gone, after whatever is not newer than it was."""
        assert self._mark is not None
        seq, at, kind = self._mark
        row: Row | None = tx.first(sql_history.EVENT, seq=seq)
        self.went_back = row is None or (row["at"], row["kind"]) != (at, kind)
        return int(tx.value(sql_history.LAST_UNTIL, at=at) or 0) if self.went_back else seq


def _events(rows: Iterable[Row]) -> Iterable[Data]:
    import json

    fields = ("seq", "at", "plan_path", "step_anchor", "kind", "actor", "attempt")
    for row in rows:
        yield {**{field: row[field] for field in fields}, "detail": json.loads(row["detail"])}
