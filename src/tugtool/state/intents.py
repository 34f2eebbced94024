"""Rows of intents: recorded before a command acts. After a kill, the next command goes on."""

from __future__ import annotations

from tugtool import errors
from tugtool.state import record
from tugtool.store import rows
from tugtool.store.sql import git as sql
from tugtool.system import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from tugtool.store import Row, Store


def plans_at(store: Store, *paths: str) -> list[str]:
    """Return the plans with rows about these worktrees, for a write that deletes the rows."""
    with store.read() as tx:
        return [row["plan_path"] for path in paths for row in tx.all(sql.PLANS_AT, path=path)]


def find_intent(store: Store, kind: str, path: str) -> Row | None:
    """Return the intent of that kind in a worktree, or None."""
    with store.read() as tx:
        return tx.first(sql.INTENT, kind=kind, path=record.storable(path))


def list_intents(store: Store, kind: str | None = None) -> list[Row]:
    """Return this machine's intents, or those of a kind, by worktree."""
    from tugtool.store.owners import on_other_machine

    every = rows(store, sql.EVERY_INTENT if kind is None else sql.INTENTS, kind=kind)
    return [row for row in every if not on_other_machine(row["worktree"])]


def detail(intent: Row) -> dict[str, Any]:
    """Return the recorded facts of an intent."""
    import json  # Only after a crash.

    return dict(json.loads(intent["detail"]))


def add(
    store: Store,
    plan: str,
    kind: str,
    path: str,
    *,
    head: str | None,
    detail: Mapping[str, object],
) -> str:
    """Record an intent for a worktree, and return its detail as stored.

    It replaces an earlier intent of its kind, which may be another plan's.
    """
    name, kept = record.storable(path), record.storable(text.encode(detail))
    with store.write(plan, *plans_at(store, name)) as tx:
        tx.run(sql.ADD_INTENT, kind=kind, path=name, head=head, detail=kept)
    return kept


def drop(store: Store, plan: str, kind: str, *paths: str) -> None:
    """Remove the intents of worktrees: they are carried out or cancelled."""
    names = [record.storable(path) for path in paths]
    with store.write(plan, *plans_at(store, *names)) as tx:
        for name in names:
            tx.run(sql.DROP_INTENT, kind=kind, path=name)


def require_committable(
    store: Store, plan: str, anchor: str, *, owner: str, attempt: int | None
) -> tuple[Row, Row, Row | None]:
    """Return the plan, the step if it is or was the owner's, and the owner's unfinished commit."""
    with store.read(plan) as tx:
        plan_ = record.plan_row(tx)
        row, top = record.family(tx, anchor)
        record.refuse_stale(plan, top, attempt)
        if row is not top:
            # Its last item completes a substep, long before the commit.
            needed = f"{top['anchor']} is committed as a whole"
            raise errors.WrongStatus(plan, anchor, status="a substep", needed=needed)
        if row["status"] != "completed":
            record.refuse_stranger(plan, top, owner)
        elif row["completed_by"] not in (None, owner):
            # The files in this worktree are not in that commit, so this is not a success.
            facts = {"owner": row["completed_by"], "caller": owner}
            raise errors.NotOwner(plan, anchor, **facts, verb="was completed")
        return plan_, row, tx.first(sql.INTENT, kind="commit", path=owner)


def begin_commit(
    store: Store,
    plan: str,
    anchor: str,
    *,
    owner: str,
    attempt: int,
    head: str | None,
    detail: Callable[[str], tuple[str, str]],
    written: Callable[[], None],
) -> bool:
    """Record that the owner is about to commit a step; False if another commit is under way.

    `detail` gets the time and returns it with the detail; `written` is called before the commit.
    """
    with store.write(plan) as tx:
        _, top = record.held(tx, anchor, owner=owner, attempt=attempt, unfinished=True)
        at, told = detail(tx.now)
        values = {"anchor": anchor, "attempt": attempt, "head": head, "detail": told, "now": at}
        if not tx.run(sql.ADD_COMMIT_INTENT, owner=owner, **values):
            return False
        written()
        # Renew the lease, as every write of the owner does: hooks may take long.
        record.renew(tx, top)
        record.note(tx, "heartbeat", anchor=anchor, actor=owner, attempt=attempt)
        return True


def change_commit(
    store: Store, plan: str, *, owner: str, created_at: str, seen: str, detail: str
) -> bool:
    """Replace the detail of a commit's intent; False if it has changed since."""
    which = {"owner": owner, "created_at": created_at, "seen": seen}
    with store.write(plan) as tx:
        return tx.run(sql.CHANGE_COMMIT_INTENT, **which, detail=detail) == 1


def end_commit(store: Store, plan: str, *, owner: str, created_at: str) -> None:
    """Remove the intent of the owner's commit of that time."""
    with store.write(plan) as tx:
        tx.run(sql.DROP_COMMIT_INTENT, owner=owner, created_at=created_at)


def other_plans(store: Store, plan: str, *, owner: str) -> list[Row]:
    """Return other plans that a worktree is recorded for or holds a step of."""
    with store.read(plan) as tx:
        return tx.all(sql.OTHER_PLANS_AT, owner=owner)
