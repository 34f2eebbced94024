"""Shared parts of the operations: rows, guards, items, counts, events."""

from __future__ import annotations

from tugtool import errors
from tugtool.store import sql
from tugtool.system import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from tugtool.schemas import StepNames
    from tugtool.store import Row, Store, Transaction

    #: Items and their new status, as events name them: anchor, kind, ordinal, status.
    Changes = list[list[object]]


#: The statuses of an item that needs no more work.
CLOSED = ("completed", "deferred")
#: The columns of a hold: its owner and its times.
HOLD = "claimed_by claimed_at lease_expires_at heartbeat_at"


# With a `signature`, the file system's facts of the file, `read` is called only if they changed.
class PlanCopy:
    """The caller's plan file, by its hash; None if there is no file."""

    __slots__ = ("file", "hash", "read", "renamed", "signature", "worktree")

    def __init__(
        self,
        file: str,
        hash: str | None = None,
        *,
        signature: str | None = None,
        read: Callable[[], str] | None = None,
        worktree: str | None = None,
    ) -> None:
        self.file = file
        #: The linked worktree that has it; None for the main one.
        self.worktree = worktree
        self.hash, self.signature, self.read = hash, signature, read
        #: For a missing plan file: returns the plan file that has its text.
        self.renamed: Callable[[Row], str | None] = lambda row: None

    def now(self) -> str | None:
        """Read the file and return its hash."""
        return self.hash if self.read is None else self.read()

    def hash_in(self, tx: Transaction) -> str | None:
        """Return the hash, from the record if that is still valid."""
        if self.read is None:
            return self.hash
        name = storable(self.file)
        known = tx.first(sql.COPY, file=name) if self.signature else None
        if known is not None and known["signature"] == self.signature:
            return str(known["plan_hash"])
        found = self.read()
        if self.signature:
            tx.later(sql.KEEP_COPY, file=name, signature=self.signature, hash=found)
        return found


def plan_row(tx: Transaction, statement: str = "", **values: object) -> Row:
    """Return the plan's row; raise if it has no state."""
    if (row := tx.first(statement or sql.PLAN, **values)) is None:
        raise errors.PlanNotInitialised(tx.plan)
    return row


def as_dict(row: Row) -> dict[str, Any]:
    """Return a row that is read often as a dictionary: a row searches for each name."""
    return dict(zip(row.keys(), row, strict=True))


def step_row(tx: Transaction, anchor: str) -> Row:
    """Return the row of a step or substep; raise with the closest anchors."""
    row = tx.first(sql.STEP, anchor=anchor)
    if row is None:
        known = [each["anchor"] for each in tx.all(sql.STEPS)]
        close = text.names(anchor, known) or text.names(f"step-{anchor}", known)
        raise errors.NoSuchStep(anchor, plan=tx.plan, close=close)
    return row


def family(tx: Transaction, anchor: str) -> tuple[Row, Row]:
    """Return the row of the anchor, and the step whose claim counts for it."""
    row = step_row(tx, anchor)
    parent = row["parent_anchor"]
    return row, row if parent is None else step_row(tx, parent)


def members(tx: Transaction, row: Row) -> list[Row]:
    """Return a step and its substeps; for a substep only itself."""
    own = row["parent_anchor"] is None
    return [row, *(tx.all(sql.SUBSTEPS, anchor=row["anchor"]) if own else ())]


def substeps(tx: Transaction, anchor: str) -> list[str]:
    """Return the anchors of a step's substeps."""
    return [row["anchor"] for row in tx.all(sql.SUBSTEPS, anchor=anchor)]


def items(tx: Transaction, row: Row) -> list[Row]:
    """Return the items of a step and its substeps; for a substep only its own."""
    return [item for each in members(tx, row) for item in tx.all(sql.ITEMS, anchor=each["anchor"])]


def open_items(tx: Transaction, members: Iterable[Row]) -> list[Row]:
    """Return the items of these rows that are neither completed nor deferred."""
    return [item for each in members for item in tx.all(sql.OPEN_ITEMS, anchor=each["anchor"])]


def close_items(tx: Transaction, closed: Iterable[Row], reason: str | None) -> Changes:
    """Complete items for a reason; they keep their evidence."""
    return [each for item in closed for each in _set_item(tx, item, "completed", reason)]


def reopen_items(tx: Transaction, reopened: Iterable[Row]) -> Changes:
    """Open items again, without their reason and evidence."""
    return [each for item in reopened for each in _set_item(tx, item, "open", None)]


def _set_item(tx: Transaction, item: Row, status: str, reason: str | None) -> Changes:
    """Set status and reason; return the change, or nothing if the item had this status."""
    anchor, kind, ordinal = item["step_anchor"], item["kind"], item["ordinal"]
    key = {"anchor": anchor, "kind": kind, "ordinal": ordinal}
    evidence = item["evidence"] if status == "completed" else None
    tx.later(sql.SET_ITEM, **key, status=status, reason=reason, evidence=evidence)
    return [] if item["status"] == status else [[anchor, kind, ordinal, status]]


def reopen_unfinished(tx: Transaction, row: Row, *statuses: str) -> Changes:
    """Open items of these statuses again, except those of completed substeps."""
    unfinished = [each["anchor"] for each in members(tx, row) if each["status"] != "completed"]
    found = [item for each in unfinished for item in tx.all(sql.ITEMS, anchor=each)]
    return reopen_items(tx, [item for item in found if item["status"] in statuses])


def gone(tx: Transaction, plan: str | None = None) -> set[str]:
    """Return held steps whose holder's process no longer runs."""
    holders = tx.all(sql.HOLDERS, plan=tx.plan if plan is None else plan)
    return {row["step_anchor"] for row in holders if is_gone(row)}


def is_gone(row: Row) -> bool:
    """Return whether a holder's process has ended; of another machine's only the lease counts."""
    from tugtool.store.owners import on_other_machine
    from tugtool.system import process  # Most claims name no process.

    return not on_other_machine(row["worktree"]) and process.is_gone(row)


def storable(text: str) -> str:
    """Return the text as UTF-8 for the database, with other bytes escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def owner_of(worktree: str) -> str:
    """Return the name under which a worktree owns steps: its path as storable text."""
    return storable(worktree)


def reason(text: str | None) -> str | None:
    """Return a reason for the database; None if it is blank."""
    return storable(text) if text is not None and text.strip() else None


def refuse_stale(plan: str, top: Row, attempt: int | None) -> None:
    """Raise E060, before any other check of the step's status."""
    if attempt is not None and attempt != top["attempt"]:
        raise errors.Superseded(plan, top["anchor"], attempt=attempt, current=top["attempt"])


def refuse_stranger(plan: str, top: Row, owner: str) -> None:
    """Raise E050 if no worker holds the step, E049 if another one does."""
    if top["claimed_by"] is None:
        needed = "it has to be claimed first"
        raise errors.WrongStatus(plan, top["anchor"], status=top["status"], needed=needed)
    if top["claimed_by"] != owner:
        raise errors.NotOwner(plan, top["anchor"], owner=top["claimed_by"], caller=owner)


def refuse_archived(row: Row) -> None:
    """Raise E050: an archived plan gives out no steps, and is neither paused nor resumed."""
    if row["status"] == "archived":
        needed = "tugcode archive --undo brings it back"
        raise errors.WrongStatus(row["plan_path"], None, status="archived", needed=needed)


def refuse_drift(tx: Transaction, row: Row, copy: PlanCopy) -> None:
    """Raise E048 if the caller's file differs from the agreed text."""
    found = copy.hash_in(tx)
    if found != row["plan_hash"]:
        facts = {"agreed": row["plan_hash"], "found": found, "worktree": copy.worktree}
        facts |= {"earlier": is_earlier(tx, found), "renamed_to": copy.renamed(row)}
        raise errors.PlanChanged(row["plan_path"], file=copy.file, **facts)


def is_earlier(tx: Transaction, found: str | None) -> bool:
    """Return whether a text of the plan was agreed before the present one."""
    from tugtool.store.sql import records as sql_records  # Only for a refusal.

    return tx.first(sql_records.EARLIER_TEXT, hash=found) is not None


def held(
    tx: Transaction,
    anchor: str,
    *,
    owner: str,
    attempt: int | None,
    copy: PlanCopy | None = None,
    unfinished: bool = False,
) -> tuple[Row, Row]:
    """Return the row and its step if the caller holds it; checks in the order of refusals."""
    # A completed substep of a held step is accepted, unless it has to be `unfinished`.
    tx.expect(sql.STEP, anchor=anchor)
    plan_ = plan_row(tx)
    row, top = family(tx, anchor)
    refuse_stale(tx.plan, top, attempt)
    done = row if unfinished else top
    if done["status"] == "completed":
        raise errors.WrongStatus(
            tx.plan, done["anchor"], status="completed", needed="nothing is left to do"
        )
    refuse_stranger(tx.plan, top, owner)
    if copy is not None:
        refuse_drift(tx, plan_, copy)
    return row, top


def renew(tx: Transaction, top: Row, seconds: float | None = None) -> str:
    """Renew the lease, as every write of the owner does. Return its new end."""
    attempt = tx.one(sql.ATTEMPT, anchor=top["anchor"], number=top["attempt"])
    lease = seconds or attempt["lease_seconds"]
    until = tx.after(lease)
    tx.later(sql.RENEW, anchor=top["anchor"], until=until)
    tx.later(sql.SEEN, anchor=top["anchor"], number=top["attempt"], lease_seconds=lease)
    return until


def displaced(tx: Transaction, step: Row) -> None:
    """Mark the work of a worker that loses a step as unsaved."""
    from tugtool.store.sql import git as sql_git  # Claims of free steps need not load it.

    anchor, number = step["anchor"], step["attempt"]
    tx.later(sql_git.ADD_UNSAVED, anchor=anchor, number=number, worktree=step["claimed_by"])


def is_unsaved(tx: Transaction) -> bool:
    """Return whether the plan has unsaved work of lost steps."""
    return tx.first(sql.ANY_UNSAVED) is not None


def note(tx: Transaction, kind: str, *, anchor: str | None = None, **detail: Any) -> None:
    """Record one event for one change, in the same transaction; `actor` and `attempt` are its."""
    actor, attempt = detail.pop("actor", None), detail.pop("attempt", None)
    tx.note(kind, detail, anchor=anchor, actor=actor, attempt=attempt)


def settle(tx: Transaction, row: Row) -> str:
    """Set and return the plan's status: done if all its steps are."""
    wanted = "done" if row["steps_done"] == row["steps_total"] else "active"
    if row["status"] in (wanted, "archived"):
        return str(row["status"])
    tx.later(sql.SET_STATUS, status=wanted)
    return wanted


def count(tx: Transaction, *, ready: int = 0, done: int = 0) -> None:
    """Update the plan's counts, which make answers cheap."""
    tx.later(sql.COUNT_PLAN, ready=ready, done=done)


def names(anchor: str) -> StepNames:
    """Return the two names of a step that every answer has."""
    return {"step_anchor": anchor, "anchor": anchor}


def columns(row: Row, names: str) -> Any:
    """Return some columns of a row for an answer: `columns(row, "title status")`."""
    return {name: row[name] for name in names.split()}


def now(store: Store) -> str:
    """Return the store's time, as every transaction has it."""
    with store.read() as tx:
        return tx.now


def plans(store: Store) -> dict[str, str]:
    """Return every recorded plan by its key, with its status."""
    with store.read() as tx:
        return {str(row["plan_path"]): str(row["status"]) for row in tx.all(sql.PLANS)}


def find_plan(store: Store, plan: str) -> Row | None:
    """Return the plan's row, or None."""
    with store.read(plan) as tx:
        return tx.first(sql.PLAN)


def require_plan(store: Store, plan: str) -> Row:
    """Return the plan's row; raise if it has no state."""
    with store.read(plan) as tx:
        return plan_row(tx)


def find_step(store: Store, plan: str, anchor: str) -> Row | None:
    """Return the row of a step or substep, or None."""
    with store.read(plan) as tx:
        return tx.first(sql.STEP, anchor=anchor)


#: Why a substep is completed that no command named.
ITEMS_CLOSED = "its items are closed"


def completed(tx: Transaction, step: Row, *, actor: str | None) -> int:
    """Update the dependents of a completed step or substep. Return how many steps became ready."""
    pending, ready = [step], 0
    while pending:
        waiting_substeps, turned = _dependents(tx, pending.pop(), by=-1)
        ready += turned
        for waiting in waiting_substeps:
            substep = tx.one(sql.STEP, anchor=waiting)
            if may_complete(tx, substep):
                _close_substep(tx, substep, actor=actor, because=ITEMS_CLOSED)
                pending.append(substep)
    return ready


def reopened(tx: Transaction, step: Row) -> None:
    """Update the dependents of a reopened step: they wait again."""
    _, ready = _dependents(tx, step, by=1)
    if ready:
        count(tx, ready=ready)


def may_complete(tx: Transaction, substep: Row) -> bool:
    """Return whether a substep completes by itself: all items closed, nothing to wait for."""
    if substep["status"] == "completed":
        return False
    items = tx.all(sql.ITEMS, anchor=substep["anchor"])
    if not items or any(item["status"] not in CLOSED for item in items):
        return False
    return not own_needs(tx, substep)


def own_needs(tx: Transaction, substep: Row) -> list[str]:
    """Return what a substep itself waits for; its own step does not count."""
    needs = tx.all(sql.OPEN_NEEDS, anchor=substep["anchor"])
    return [row["anchor"] for row in needs if row["anchor"] != substep["parent_anchor"]]


def complete_substeps(
    tx: Transaction,
    anchors: Iterable[str],
    *,
    actor: str | None,
    because: str,
    commit: str | None = None,
    reason: str | None = None,
    unconditionally: bool = False,
) -> None:
    """Complete the substeps that complete by themselves, or all unconditionally."""
    ready = 0
    for anchor in anchors:
        # Read it again: the substep before may have completed this one.
        substep = step_row(tx, anchor)
        if substep["status"] != "completed" and (unconditionally or may_complete(tx, substep)):
            _close_substep(tx, substep, actor=actor, because=because, commit=commit, reason=reason)
            ready += completed(tx, substep, actor=actor)
    if ready:
        count(tx, ready=ready)


def _close_substep(
    tx: Transaction,
    substep: Row,
    *,
    actor: str | None,
    because: str,
    commit: str | None = None,
    reason: str | None = None,
) -> None:
    """Complete one substep, which counts as progress of its step."""
    top = tx.one(sql.STEP, anchor=substep["parent_anchor"])
    # The missing part may be another's step; the work still belongs to its worker.
    last = tx.first(sql.ATTEMPT, anchor=top["anchor"], number=top["attempt"])
    worktree = last["worktree"] if last else None
    tx.later(
        sql.COMPLETE_STEP, anchor=substep["anchor"], owner=worktree, commit=commit, reason=reason
    )
    progress(tx, top["anchor"])
    note(
        tx,
        "substep_completed",
        anchor=substep["anchor"],
        actor=actor,
        attempt=top["attempt"],
        completed_by=worktree,
        because=because,
        reason=reason,
        commit=commit,
    )


def progress(tx: Transaction, anchor: str) -> None:
    """Record progress: the step counts as worth another try, and is not parked."""
    step = tx.one(sql.STEP, anchor=anchor)
    waits = step["status"] == "pending" and step["open_deps"] == 0
    if step["parked_at"] is not None and waits:
        count(tx, ready=1)
    tx.later(sql.PROGRESS, anchor=anchor)


def _dependents(tx: Transaction, step: Row, *, by: int) -> tuple[list[str], int]:
    """Change the counts of dependents. Return the substeps among them, and the ready steps."""
    home = step["parent_anchor"] or step["anchor"]
    rows = tx.all(sql.DEPENDENTS, anchor=step["anchor"])
    substeps = [row["anchor"] for row in rows if row["parent_anchor"] is not None]
    together = not substeps and step["parent_anchor"] is None
    if rows and together:
        tx.later(sql.SHIFT_DEPENDENTS, anchor=step["anchor"], by=by)
    ready = 0
    open_deps: dict[str, int] = {}
    for row in rows:
        top = row["top"]
        if top == home:
            continue  # inside one step no claim is waited for
        # Several substeps of one step may wait for the same one.
        open_deps[top] = open_deps.get(top, row["open_deps"]) + by
        if not together:
            tx.later(sql.SHIFT_OPEN_DEPS, anchor=top, by=by)
        if row["parked_at"] is None and row["status"] == "pending":
            ready += _turned(open_deps[top], by)
    return substeps, ready


def _turned(open_deps: int, by: int) -> int:
    """Return +1 if the last dependency is done, -1 if the first is open again."""
    return int(open_deps == 0) if by < 0 else -int(open_deps == 1)
