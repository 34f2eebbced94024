"""What every operation does in its transaction: look things up, guard, note what changed."""

from __future__ import annotations

from tugtool import jsontext
from tugtool.errors import NoSuchStep
from tugtool.state_errors import (
    NotOwner,
    PlanChanged,
    PlanNotInitialised,
    Superseded,
    WrongStatus,
)
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from tugtool.store import Row, Transaction

    Data = dict[str, object]


class PlanCopy:
    """The plan file that the caller works from, by its hash; None if there is no file.

    With a `signature` (what the file system says of it) the hash is computed by `read`, and
    only if the signature is not the one it was last computed for.
    """

    __slots__ = ("file", "hash", "read", "signature", "worktree")

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
        self.hash = hash
        self.signature = signature
        self.read = read

    def now(self) -> str | None:
        """The hash of what lies there, read now."""
        return self.hash if self.read is None else self.read()

    def hash_in(self, tx: Transaction) -> str | None:
        """The hash, from the record where it still holds."""
        if self.read is None:
            return self.hash
        name = storable(self.file)
        known = tx.first(sql.COPY, file=name) if self.signature else None
        if known is not None and known["signature"] == self.signature:
            return str(known["plan_hash"])
        found = self.read()
        if self.signature:
            tx.run(sql.KEEP_COPY, file=name, signature=self.signature, hash=found)
        return found


def plan_row(tx: Transaction, plan: str) -> Row:
    """The plan, or the refusal that it has no state."""
    row = tx.first(sql.PLAN)
    if row is None:
        raise PlanNotInitialised(plan)
    return row


def step_row(tx: Transaction, plan: str, anchor: str) -> Row:
    """The step or substep, or the refusal with the closest anchors."""
    row = tx.first(sql.STEP, anchor=anchor)
    if row is None:
        from tugtool import nearest

        known = [each["anchor"] for each in tx.all(sql.STEPS)]
        close = nearest.names(anchor, known) or nearest.names(f"step-{anchor}", known)
        raise NoSuchStep(anchor, plan=plan, close=close)
    return row


def family(tx: Transaction, plan: str, anchor: str) -> tuple[Row, Row]:
    """What the anchor names, and the step whose claim counts for it."""
    row = step_row(tx, plan, anchor)
    if row["parent_anchor"] is None:
        return row, row
    return row, step_row(tx, plan, row["parent_anchor"])


def has_needs_elsewhere(tx: Transaction, step: Row) -> bool:
    """Whether another worktree has committed what a held step, or a substep of it, depends on."""
    anchor, owner = step["anchor"], step["claimed_by"]
    members = [anchor, *(row["anchor"] for row in tx.all(sql.SUBSTEPS, anchor=anchor))]
    needs = (row for member in members for row in tx.all(sql.NEEDS, anchor=member))
    # The step itself, if a substep needs another, has no commit while it is held.
    return any(row["commit_hash"] and row["completed_by"] != owner for row in needs)


def storable(text: str) -> str:
    """The text as a database takes it: bytes that were no UTF-8 are written out."""
    return text.encode("utf-8", "backslashreplace").decode()


def reason(text: str | None) -> str | None:
    """Why something was done; blank says nothing, and is stored as nothing."""
    return storable(text) if text is not None and text.strip() else None


def refuse_stale(plan: str, top: Row, attempt: int | None) -> None:
    """E060, before anything else that is about the step's status."""
    if attempt is not None and attempt != top["attempt"]:
        raise Superseded(plan, top["anchor"], attempt=attempt, current=top["attempt"])


def refuse_stranger(plan: str, top: Row, owner: str) -> None:
    """E050 where nobody holds the step, E049 where somebody else does."""
    if top["claimed_by"] is None:
        needed = "it has to be claimed first"
        raise WrongStatus(plan, top["anchor"], status=top["status"], needed=needed)
    if top["claimed_by"] != owner:
        raise NotOwner(plan, top["anchor"], owner=top["claimed_by"], caller=owner)


def refuse_archived(row: Row) -> None:
    """E050: an archived plan hands out nothing, and is neither paused nor resumed."""
    if row["status"] == "archived":
        needed = "tugcode state archive --undo brings it back"
        raise WrongStatus(row["plan_path"], None, status="archived", needed=needed)


def refuse_drift(tx: Transaction, row: Row, copy: PlanCopy) -> None:
    """E048: the caller works from another text than the one that was agreed."""
    found = copy.hash_in(tx)
    if found != row["plan_hash"]:
        agreed, at = row["plan_hash"], copy.worktree
        raise PlanChanged(row["plan_path"], file=copy.file, agreed=agreed, found=found, worktree=at)


def held(
    tx: Transaction,
    plan: str,
    anchor: str,
    *,
    owner: str,
    attempt: int | None,
    copy: PlanCopy | None = None,
    unfinished: bool = False,
) -> tuple[Row, Row]:
    """The step (or substep) and its step, if the caller holds it; checks in the refusals' order.

    A completed substep of a held step will do, unless it has to be `unfinished`.
    """
    plan_ = plan_row(tx, plan)
    row, top = family(tx, plan, anchor)
    refuse_stale(plan, top, attempt)
    done = row if unfinished else top
    if done["status"] == "completed":
        raise WrongStatus(plan, done["anchor"], status="completed", needed="nothing is left to do")
    refuse_stranger(plan, top, owner)
    if copy is not None:
        refuse_drift(tx, plan_, copy)
    return row, top


def renew(tx: Transaction, plan: str, top: Row, seconds: float | None = None) -> str:
    """Every write of the owner is a sign of life; the new end of the lease."""
    attempt = tx.one(sql.ATTEMPT, anchor=top["anchor"], number=top["attempt"])
    lease = seconds or attempt["lease_seconds"]
    until = tx.after(lease)
    tx.run(sql.RENEW, anchor=top["anchor"], until=until)
    tx.run(
        sql.SEEN,
        anchor=top["anchor"],
        number=top["attempt"],
        lease_seconds=lease,
    )
    return until


def displaced(tx: Transaction, step: Row) -> None:
    """Somebody loses a step: what lies in their worktree is to be saved after the commit."""
    from tugtool.store import sql_git  # Whoever takes a free step need not load it.

    anchor, number = step["anchor"], step["attempt"]
    tx.run(sql_git.ADD_UNSAVED, anchor=anchor, number=number, worktree=step["claimed_by"])


def is_unsaved(tx: Transaction) -> bool:
    """Whether work of somebody who lost a step of the plan is still to be saved."""
    return tx.first(sql.ANY_UNSAVED) is not None


def set_open(tx: Transaction, item: Row) -> None:
    """An item starts over: what was said about it no longer holds."""
    tx.run(
        sql.SET_ITEM,
        anchor=item["step_anchor"],
        kind=item["kind"],
        ordinal=item["ordinal"],
        status="open",
        reason=None,
        evidence=None,
    )


def note(
    tx: Transaction,
    plan: str,
    kind: str,
    *,
    anchor: str | None = None,
    actor: str | None = None,
    attempt: int | None = None,
    **detail: object,
) -> None:
    """One event for one change, in the transaction that makes it."""
    tx.run(
        sql.ADD_EVENT,
        anchor=anchor,
        kind=kind,
        actor=actor,
        attempt=attempt,
        detail=jsontext.encode(detail),
    )


def settle(tx: Transaction, plan: str) -> str:
    """A plan is done exactly when all its steps are; its status."""
    row = plan_row(tx, plan)
    wanted = "done" if row["steps_done"] == row["steps_total"] else "active"
    if row["status"] in (wanted, "archived"):
        return str(row["status"])
    tx.run(sql.SET_STATUS, status=wanted)
    return wanted


def count(tx: Transaction, plan: str, *, ready: int = 0, done: int = 0) -> None:
    """Keep the plan's own counts; they are what makes answers cheap."""
    if ready or done:
        tx.run(sql.COUNT_PLAN, ready=ready, done=done)


def names(anchor: str) -> Data:
    """Every answer names its step twice."""
    return {"step_anchor": anchor, "anchor": anchor}
