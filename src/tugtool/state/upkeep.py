"""archive and export: a record is put away, or written down whole."""

from __future__ import annotations

from tugtool import __version__, holder, jsontext
from tugtool.state import record
from tugtool.state_errors import WrongStatus
from tugtool.store import schema, sql, sql_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]

#: What the first line of an export says it is, and the version of its form.
FORMAT = "tugtool-state"
FORMAT_VERSION = 1


def archive(store: Store, plan: str, *, undo: bool = False, actor: str | None = None) -> Data:
    """Put a plan away, or bring it back; never one with a live claim. For people."""
    with store.write(plan) as tx:
        row = record.plan_row(tx, plan)
        status, archived = row["status"], row["status"] == "archived"
        if undo == archived:
            if not undo:
                _refuse_live(tx, plan)
            done = row["steps_done"] == row["steps_total"]
            status = "archived" if not undo else "done" if done else "active"
            tx.run(sql.SET_STATUS, status=status)
            kind = "unarchive" if undo else "archive"
            record.note(tx, plan, kind, actor=actor, was=row["status"])
    return {
        "plan_path": plan,
        "archived": not undo,
        "changed": undo == archived,
        "plan_status": status,
        "total_steps": row["steps_total"],
        "completed_steps": row["steps_done"],
    }


def _refuse_live(tx: Transaction, plan: str) -> None:
    claim = live_claim(tx, plan)
    if claim is not None:
        status = f"held by {claim['claimed_by']} until {claim['lease_expires_at']}"
        needed = "a plan is archived when nobody works on it"
        raise WrongStatus(plan, claim["anchor"], status=status, needed=needed)


def live_claim(tx: Transaction, plan: str) -> Row | None:
    """A claim that counts: its lease runs, and its holder is not provably gone."""
    gone = {row["step_anchor"] for row in tx.all(sql.HOLDERS, plan=plan) if holder.is_gone(row)}
    claims = tx.all(sql_records.LIVE_CLAIMS, plan=plan)
    return next((row for row in claims if row["anchor"] not in gone), None)


def export(store: Store, plan: str | None = None) -> Iterator[str]:
    """The state of one plan, or of all and the dashes, as JSON lines; see `docs/state.md`."""
    with store.read(plan) as tx:
        if plan is not None:
            record.plan_row(tx, plan)
        plans = [row["plan_path"] for row in tx.all(sql.PLANS)] if plan is None else [plan]
        yield from lines(tx, plans, dashes=plan is None)


def lines(tx: Transaction, plans: Sequence[str], *, dashes: bool = False) -> Iterator[str]:
    """A header, one line per row, and how many there were: a cut-off file is recognised."""
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "schema_version": schema.VERSION,
        "tugtool_version": __version__,
        "exported_at": tx.now,
    }
    yield jsontext.encode(header) + "\n"
    count = 0
    for table in sql_records.COLUMNS:
        for row in _rows(tx, table, plans):
            yield jsontext.encode({"table": table, "row": dict(row)}) + "\n"
            count += 1
    for table in sql_records.DASH_COLUMNS if dashes else ():
        for row in tx.each(sql_records.READ[table]):
            yield jsontext.encode({"table": table, "row": dict(row)}) + "\n"
            count += 1
    yield jsontext.encode({"end": True, "rows": count}) + "\n"


def _rows(tx: Transaction, table: str, plans: Sequence[str]) -> Iterable[Row]:
    """The plans' rows; numbered ones by their number, whatever plan they belong to."""
    each = [tx.each(sql_records.READ[table], plan=plan) for plan in plans]
    number = sql_records.NUMBERED.get(table)
    if number is None:
        return (row for rows in each for row in rows)
    from heapq import merge

    return merge(*each, key=lambda row: int(row[number]))
