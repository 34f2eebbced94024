"""claim: give the caller the next step, exactly once."""

from __future__ import annotations

from tugtool import errors
from tugtool.state import record
from tugtool.store import sql
from tugtool.system.text import many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, NotRequired

    from tugtool.schemas import StateClaim, StateClaimMissingCommit, StateClaimPreviousAttempt
    from tugtool.state.record import PlanCopy
    from tugtool.store import Row, Store, Transaction

    Reason = Literal["no_ready_steps", "all_completed", "paused"]

    class Claim(StateClaim):
        """The answer, with fields for callers inside the package."""

        unsaved: NotRequired[bool]
        started: NotRequired[bool]

    #: Commits to merge before work begins, None if git has to be asked; the attempt to continue.
    First = tuple[list[StateClaimMissingCommit] | None, StateClaimPreviousAttempt | None]


#: Lists in an answer stop here and say so: no answer grows with the plan.
MOST_LISTED = 50
#: Outcomes of an attempt whose held step another worker claims.
_TAKEN = ("expired", "dead", "superseded")


class Request:
    """A caller's request for a step."""

    __slots__ = (
        "also",
        "begins",
        "force",
        "holder_pid",
        "holder_place",
        "holder_start",
        "lease_seconds",
        "max_attempts",
        "owner",
        "publish",
        "request_id",
    )

    def __init__(
        self,
        owner: str,
        *,
        lease_seconds: float = 7200,
        max_attempts: int = 5,
        force: bool = False,
        holder_pid: int | None = None,
        request_id: str | None = None,
        begins: bool = False,
        also: bool = False,
        publish: bool = False,
    ) -> None:
        self.owner = owner
        #: True if the owner may hold this step beside another.
        self.also = also
        #: True if work begins with the claim, unless commits have to be merged first.
        self.begins = begins
        #: True if commits travel by a remote: those of other machines must be there.
        self.publish = publish
        self.lease_seconds = lease_seconds
        self.max_attempts = max_attempts
        self.force = force
        self.holder_pid = holder_pid
        self.holder_start: str | None = None
        #: The host and boot that the holder's process id belongs to.
        self.holder_place: dict[str, str | None] = {}
        if holder_pid is not None:
            # Imported here: most claims name no process.
            from tugtool.system import process

            # A process that does not run now has no start time, and counts as dead.
            self.holder_start = process.start_time(holder_pid) or ""
            self.holder_place = process.machine_identity()
        self.request_id = None if request_id is None else record.storable(request_id)


def claim(
    store: Store, plan: str, request: Request, *, copy: PlanCopy, step: str | None = None
) -> Claim:
    """Lease a step to the caller, or say why there is none."""
    # Its agents could work already, while other threads' agents do.
    with store.write(plan, urgent=request.begins) as tx:
        tx.expect(sql.CLAIMABLE_STEPS, owner=request.owner)
        row = record.as_dict(record.plan_row(tx, sql.PLAN_TO_CLAIM, owner=request.owner))
        ask = _published if request.publish else _answer
        data = ask(tx, row, request, copy, step)
        # Unsaved work of this step's former holder, or of another one after a crash.
        taken = data["claimed"] and data["reclaimed"]
        data["unsaved"] = record.is_unsaved(tx) if taken else bool(row["has_unsaved"])
        if request.begins:
            data["started"] = _begun(tx, data, request)
        return data


def _begun(tx: Transaction, data: Claim, request: Request) -> bool:
    """Return whether work on the step has begun, now or in an earlier request."""
    begun = data["claimed"] and _may_begin((data["missing_commits"], data["previous_attempt"]))
    if begun and data["replayed"]:
        from tugtool.state import leases  # Only for a repeated request.

        leases.begin(tx, data["anchor"], owner=request.owner, attempt=None)
    return begun


def _may_begin(first: First) -> bool:
    missing, before = first
    return missing == [] and before is None


def _published(
    tx: Transaction, row: Row, request: Request, copy: PlanCopy, step: str | None
) -> Claim:
    from tugtool.state import publication  # Only with a remote.

    step = publication.choice(tx, row, request.owner, step)
    none = step == publication.NONE
    data = _nothing(tx, row, "no_ready_steps") if none else _answer(tx, row, request, copy, step)
    publication.tell(tx, data, request.owner)
    return data


def _answer(tx: Transaction, row: Row, request: Request, copy: PlanCopy, step: str | None) -> Claim:
    if step is not None:
        record.step_row(tx, step)
    replayed = _replay(tx, row, request)
    if replayed is not None:
        return replayed
    record.refuse_archived(row)
    if row["is_elsewhere"]:
        from tugtool.state import worktrees  # Only for a refusal.

        raise worktrees.wrong_worktree(tx, request.owner)
    record.refuse_drift(tx, row, copy)
    if row["paused_at"] is not None:
        return _nothing(tx, row, "paused")
    if row["steps_done"] == row["steps_total"]:
        return _nothing(tx, row, "all_completed")
    gone = record.gone(tx) if row["has_holders"] else set()
    claimable = [record.as_dict(each) for each in tx.all(sql.CLAIMABLE_STEPS, owner=request.owner)]
    takeable = _takeable(tx, claimable, gone)
    if step is not None:
        found = _asked_for(tx, step, request, gone)
        _refuse_second(tx, claimable, found, request)
    else:
        found = _next(tx, request, claimable, takeable)
    if found is None:
        return _nothing(tx, row, "no_ready_steps")
    return _take(tx, row, found, request, gone, takeable)


def _refuse_second(tx: Transaction, claimable: list[Row], found: Row, request: Request) -> None:
    """Raise E050: two steps in one worktree share a commit, unless the caller asks for it."""
    held = [row for row in claimable if row["claimed_by"] == request.owner]
    if held and found["claimed_by"] != request.owner and not request.also:
        needed = f"complete or release it before you claim {found['anchor']}, or claim it --also"
        raise errors.WrongStatus(tx.plan, held[0]["anchor"], status="held by you", needed=needed)


def _replay(tx: Transaction, row: Row, request: Request) -> Claim | None:
    """Return the claim of a repeated request, whose first answer may have been lost."""
    if request.request_id is None:
        return None
    attempt = tx.first(sql.REQUESTED, owner=request.owner, request_id=request.request_id)
    if attempt is None:
        return None
    step = record.as_dict(record.step_row(tx, attempt["step_anchor"]))
    if attempt["ended_at"] is not None:
        raise errors.Superseded(
            tx.plan, step["anchor"], attempt=attempt["number"], current=step["attempt"]
        )
    before = tx.first(sql.ATTEMPT_BEFORE, anchor=step["anchor"], number=attempt["number"])
    outcome = before["outcome"] if before else None
    substeps = tx.all(sql.SUBSTEPS, anchor=step["anchor"])
    data = _claimed(
        tx,
        row,
        step,
        substeps,
        _first(tx, row, step, substeps),
        reclaimed=outcome in _TAKEN,
        expired=outcome == "expired",
        takeable=_takeable(tx, tx.all(sql.CLAIMABLE_STEPS, owner=request.owner), record.gone(tx)),
    )
    data["replayed"] = True
    return data


def _next(
    tx: Transaction, request: Request, claimable: list[Row], takeable: list[Row]
) -> Row | None:
    own = [row for row in claimable if row["claimed_by"] == request.owner]
    found = own or [*claimable, *takeable]
    if found:
        return found[0] if len(found) == 1 else min(found, key=lambda row: int(row["step_index"]))
    return tx.first(sql.LIVE_STEP) if request.force else None


def _takeable(tx: Transaction, claimable: list[Row], gone: set[str]) -> list[Row]:
    """Return held steps that another worker could take: lapsed, or of a dead process."""
    # By anchor: the caller's own may be there twice.
    held = {row["anchor"]: row for row in claimable if row["claimed_by"] is not None}
    lapsed = {anchor: row for anchor, row in held.items() if row["lease_expires_at"] < tx.now}
    dead = [record.as_dict(tx.one(sql.STEP, anchor=anchor)) for anchor in gone.difference(lapsed)]
    return [*lapsed.values(), *(row for row in dead if _is_free(row))]


def _is_free(row: Row) -> bool:
    return bool(row["open_deps"] == 0 and row["parked_at"] is None)


def _asked_for(tx: Transaction, anchor: str, request: Request, gone: set[str]) -> Row:
    """Return the requested step, or raise the reason why not."""
    row = record.as_dict(record.step_row(tx, anchor))
    if row["parent_anchor"] is not None:
        needed = f"a substep is claimed with its step {row['parent_anchor']}"
        raise errors.WrongStatus(tx.plan, anchor, status="a substep", needed=needed)
    if row["status"] == "completed":
        raise errors.WrongStatus(
            tx.plan, anchor, status="completed", needed="nothing is left to do"
        )
    if row["parked_at"] is not None:
        raise errors.StepParked(
            tx.plan, anchor, reason=row["park_reason"], parked_at=row["parked_at"]
        )
    own = row["claimed_by"] in (None, request.owner)
    lapsed = row["lease_expires_at"] is not None and row["lease_expires_at"] < tx.now
    if not own and not lapsed and anchor not in gone and not request.force:
        raise errors.NotReady(
            tx.plan, anchor, owner=row["claimed_by"], until=row["lease_expires_at"]
        )
    if row["open_deps"]:
        raise errors.NotReady(tx.plan, anchor, waiting_for=waiting_for(tx, anchor))
    return row


def waiting_for(tx: Transaction, anchor: str) -> list[str]:
    """Return the anchors outside the step that it or one of its substeps waits for."""
    members = [anchor, *record.substeps(tx, anchor)]
    open_ = [row for each in members for row in tx.all(sql.OPEN_NEEDS, anchor=each)]
    return list(dict.fromkeys(row["anchor"] for row in open_ if row["top"] != anchor))


def _take(
    tx: Transaction, row: Row, step: Row, request: Request, gone: set[str], takeable: list[Row]
) -> Claim:
    anchor, number = step["anchor"], step["attempt"] + 1
    reclaimed = step["status"] != "pending"
    expired = reclaimed and step["lease_expires_at"] < tx.now
    outcome = "expired" if expired else "dead" if anchor in gone else "superseded"
    reset = _end_attempt(tx, step, request, outcome) if reclaimed else []
    substeps = tx.all(sql.SUBSTEPS, anchor=anchor) if row["has_substeps"] else []
    until = tx.after(request.lease_seconds)
    now = {**step, "claimed_by": request.owner, "attempt": number, "lease_expires_at": until}
    first = _first(tx, row, now, substeps)
    begins = request.begins and _may_begin(first)
    parked = _open_attempt(tx, now, request, begins=begins)
    if substeps:
        tx.later(sql.CLAIM_SUBSTEPS, anchor=anchor, owner=request.owner, until=until)
        substeps = tx.all(sql.SUBSTEPS, anchor=anchor)
    if row["is_reserved"]:
        tx.later(sql.END_RESERVATION, owner=request.owner)
    record.note(
        tx,
        "claim",
        anchor=anchor,
        actor=request.owner,
        attempt=number,
        lease_seconds=request.lease_seconds,
        reclaimed_from=step["claimed_by"],
        outcome=outcome if reclaimed else None,
        items=reset,
        parked=parked,
    )
    if begins:
        record.note(tx, "start", anchor=anchor, actor=request.owner, attempt=number)
    how = {"reclaimed": reclaimed, "expired": expired, "takeable": takeable}
    data = _claimed(tx, row, now, substeps, first, **how)
    if not reclaimed:
        record.count(tx, ready=-1)
        data["remaining_ready"] -= 1
    return data


def _end_attempt(tx: Transaction, step: Row, request: Request, outcome: str) -> record.Changes:
    """End the attempt of the step's last holder. Return the items that are open again."""
    tx.later(sql.END_ATTEMPT, anchor=step["anchor"], number=step["attempt"], outcome=outcome)
    if step["claimed_by"] != request.owner:
        record.displaced(tx, step)
    return record.reopen_unfinished(tx, step, "in_progress")


def _open_attempt(tx: Transaction, step: dict[str, Any], request: Request, *, begins: bool) -> bool:
    """Record the claim, and the start if work begins. Return whether the step is parked."""
    claims = step["claims_without_progress"] + 1
    parks: bool = claims >= request.max_attempts
    tx.later(
        sql.CLAIM_STEP,
        anchor=step["anchor"],
        status="in_progress" if begins else "claimed",
        owner=request.owner,
        until=step["lease_expires_at"],
        started_at=tx.now if begins else "",
        attempt=step["attempt"],
        claims=claims,
        parked_at=tx.now if parks else "",
        reason=f"{many(request.max_attempts, 'claim')} without progress" if parks else "",
    )
    _add_attempt(tx, step, request)
    return parks


def _add_attempt(tx: Transaction, step: dict[str, Any], request: Request) -> None:
    facts = {"anchor": step["anchor"], "number": step["attempt"], "owner": request.owner}
    facts["lease_seconds"] = request.lease_seconds
    if request.holder_pid is None and request.request_id is None:
        tx.later(sql.ADD_ATTEMPT, **facts)
        return
    place = request.holder_place
    tx.later(
        sql.ADD_NAMED_ATTEMPT,
        **facts,
        **{key: place.get(key) for key in ("host", "boot", "pid_namespace")},
        holder_pid=request.holder_pid,
        holder_start=request.holder_start,
        request_id=request.request_id,
    )


def _claimed(
    tx: Transaction,
    row: Row,
    step: Row,
    substeps: list[Row],
    first: First,
    *,
    reclaimed: bool,
    expired: bool,
    takeable: list[Row],
) -> Claim:
    missing, before = first
    others = [each for each in takeable if each["anchor"] != step["anchor"]]
    return {
        "claimed": True,
        "plan_path": tx.plan,
        "step_anchor": step["anchor"],
        "anchor": step["anchor"],
        "step_title": step["title"],
        "step_index": step["step_index"],
        "worktree": step["claimed_by"],
        "attempt": step["attempt"],
        "lease_expires_at": step["lease_expires_at"],
        "reclaimed": reclaimed,
        "reclaimed_from_expired": expired,
        "replayed": False,
        "remaining_ready": row["steps_ready"] + len(others),
        "total_remaining": row["steps_total"] - row["steps_done"],
        "substeps": [
            {"anchor": sub["anchor"], "title": sub["title"], "status": sub["status"]}
            for sub in substeps
        ],
        "missing_commits": missing,
        "salvage_ref": before and before["salvage_ref"],
        "previous_attempt": before,
    }


def _first(tx: Transaction, row: Row, step: Row, substeps: list[Row]) -> First:
    elsewhere = row["has_deps"] and _has_needs_elsewhere(tx, step, substeps)
    return None if elsewhere else [], _previous(tx, step)


def _has_needs_elsewhere(tx: Transaction, step: Row, substeps: list[Row]) -> bool:
    """Return whether another worktree has committed a dependency of a held step or substep."""
    if not substeps and "needs_elsewhere" in step:
        return bool(step["needs_elsewhere"])
    needs = (row for each in (step, *substeps) for row in tx.all(sql.NEEDS, anchor=each["anchor"]))
    # The step itself, if a substep needs it, has no commit while it is held.
    return any(row["commit_hash"] and row["completed_by"] != step["claimed_by"] for row in needs)


def _previous(tx: Transaction, step: Row) -> StateClaimPreviousAttempt | None:
    if step["attempt"] == 1:
        return None
    from tugtool.state import attempts  # Claims of fresh steps need not load it.

    last = tx.first(sql.ATTEMPT_BEFORE, anchor=step["anchor"], number=step["attempt"])
    return None if last is None else attempts.left_behind(tx, step["anchor"], last)


def _nothing(tx: Transaction, row: Row, reason: Reason) -> Claim:
    most = MOST_LISTED + 1
    blocked = [each["anchor"] for each in tx.all(sql.BLOCKED_STEPS, most=most)]
    parked = [each["anchor"] for each in tx.all(sql.PARKED_STEPS, most=most)]
    held = tx.all(sql.HELD_STEPS, most=most)
    waits = {anchor: waiting_for(tx, anchor) for anchor in blocked[:MOST_LISTED]}
    return {
        "claimed": False,
        "plan_path": tx.plan,
        "reason": reason,
        "all_completed": row["steps_done"] == row["steps_total"],
        "total_remaining": row["steps_total"] - row["steps_done"],
        "blocked_steps": blocked[:MOST_LISTED],
        "waiting_for": {anchor: names[:MOST_LISTED] for anchor, names in waits.items()},
        "held_steps": [
            {
                "anchor": each["anchor"],
                "owner": each["claimed_by"],
                "lease_expires_at": each["lease_expires_at"],
            }
            for each in held[:MOST_LISTED]
        ],
        "parked_steps": parked[:MOST_LISTED],
        "lists_capped": any(
            len(names) > MOST_LISTED for names in (blocked, parked, held, *waits.values())
        ),
    }
