"""pause and resume: a person holds a plan back, and lets it go on."""

from __future__ import annotations

from tugtool.state import record
from tugtool.state_errors import WrongStatus
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.store import Store

    Data = dict[str, object]


def pause(store: Store, plan: str, *, actor: str | None = None) -> Data:
    """Let nothing new be claimed; holders may finish. Pausing again changes nothing."""
    return _set(store, plan, paused=True, actor=actor)


def resume(store: Store, plan: str, *, actor: str | None = None) -> Data:
    """Let steps be claimed again."""
    return _set(store, plan, paused=False, actor=actor)


def _set(store: Store, plan: str, *, paused: bool, actor: str | None) -> Data:
    with store.write(plan) as tx:
        row = record.plan_row(tx, plan)
        record.refuse_archived(row)
        if paused and row["status"] != "active":
            needed = "only an active plan can be paused"
            raise WrongStatus(plan, None, status=row["status"], needed=needed)
        changed = (row["paused_at"] is not None) != paused
        since = row["paused_at"]
        if changed:
            since = tx.now if paused else None
            tx.run(sql.SET_PAUSED, paused_at=since)
            record.note(tx, plan, "pause" if paused else "resume", actor=actor)
    return {"plan_path": plan, "paused": paused, "paused_at": since, "changed": changed}
