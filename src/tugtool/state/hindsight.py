"""What a person wants to know of work that has stopped: who is still at it, what it failed of,
and what was said of the whole when every step was done."""

from __future__ import annotations

import json

from tugtool import holder
from tugtool.store import sql, sql_history, sql_look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]

APPROVE = "APPROVE"
_VERDICTS = (APPROVE, "REVISE", "ESCALATE")
#: How the implement loop keeps what the integrator said.
_INTEGRATOR = "integrator: "


def stale(tx: Transaction) -> dict[tuple[str, str], str | None]:
    """Every held step, by plan and anchor: why its holder has lost it, None if it has not."""
    gone = {
        (row["plan_path"], row["step_anchor"])
        for row in tx.all(sql_look.EVERY_HOLDER)
        if holder.is_gone(row)
    }
    held = [(row, (row["plan_path"], row["anchor"])) for row in tx.all(sql_look.EVERY_HELD_STEP)]
    return {
        key: "expired" if row["lease_expires_at"] < tx.now else "gone" if key in gone else None
        for row, key in held
    }


def waiting(tx: Transaction) -> list[Row]:
    """Parked steps that wait for a person: on its last attempt a step is at work until then."""
    lost = stale(tx)
    rows = tx.all(sql_look.EVERY_PARKED_STEP)
    return [row for row in rows if lost.get((row["plan_path"], row["anchor"]), "") is not None]


def last_failure(tx: Transaction, plan: str, anchor: str) -> Data | None:
    """The last attempt at a step that failed, and what of."""
    row = tx.first(sql_history.LAST_FAILURE, plan=plan, anchor=anchor)
    if row is None:
        return None
    reason = json.loads(row["detail"])["failed"]
    return {"attempt": row["attempt"], "at": row["at"], "reason": reason}


def audit(tx: Transaction, plan: str) -> Data | None:
    """What was said last of a done plan as a whole, if that was no approval; newest first."""
    row = tx.first(sql.PLAN, plan=plan)
    if row is None or row["status"] != "done" or row["merged_commit"] is not None:
        return None
    since = tx.value(sql_history.LAST_COMPLETED, plan=plan) or ""
    for said in tx.all(sql_history.SAID_OF_ALL, plan=plan, since=since):
        verdict = _verdict(said, since)
        if verdict is not None:
            return None if verdict == APPROVE else _told(plan, said, verdict)
    return None


def audit_of(store: Store, plan: str) -> Data | None:
    """The same, for whoever is about to do something with the plan."""
    with store.read(plan) as tx:
        return audit(tx, plan)


def _told(plan: str, said: Row, verdict: str) -> Data:
    which = {"plan_path": plan, "step_anchor": said["step_anchor"], "recommendation": verdict}
    return {**which, "summary": said["summary"], "recorded_at": said["recorded_at"]}


def _verdict(said: Row, since: str) -> str | None:
    """What an artifact says of the plan; None if it is about something else."""
    summary = str(said["summary"])
    if said["kind"] == "escalation":
        # One of the very moment of the completion led to it.
        return "ESCALATE" if said["recorded_at"] > since else None
    if said["kind"] == "note":
        if not summary.startswith(_INTEGRATOR):
            return None
        summary = summary.removeprefix(_INTEGRATOR)
    word = summary.split(":", 1)[0].strip()
    return word if word in _VERDICTS else None
