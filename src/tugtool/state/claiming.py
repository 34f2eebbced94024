"""claim: the next step that the caller may work on, exactly once."""

from __future__ import annotations

from tugtool import holder
from tugtool.state import record
from tugtool.state_errors import NotReady, StepParked, Superseded, WrongStatus
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.state.record import PlanCopy
    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]

#: Lists in an answer stop here and say so: no answer grows with the plan.
MOST_LISTED = 50


#: How an attempt ends when its step is claimed while somebody holds it.
_TAKEN = ("expired", "dead", "superseded")


class Request:
    """Who asks for a step, and how."""

    __slots__ = (
        "begins",
        "force",
        "holder_pid",
        "holder_start",
        "lease_seconds",
        "max_attempts",
        "owner",
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
    ) -> None:
        self.owner = owner
        #: Whether work on it begins at once, if nothing is to be brought in before.
        self.begins = begins
        self.lease_seconds = lease_seconds
        self.max_attempts = max_attempts
        self.force = force
        self.holder_pid = holder_pid
        # A process that does not even run now has no start, and is gone.
        self.holder_start = None if holder_pid is None else holder.start_time(holder_pid) or ""
        self.request_id = None if request_id is None else record.storable(request_id)


def claim(
    store: Store, plan: str, request: Request, *, copy: PlanCopy, step: str | None = None
) -> Data:
    """Lease a step to the caller, or say why there is none."""
    with store.write(plan) as tx:
        data = _answer(tx, plan, request, copy, step)
        # Of whoever lost this step, or another of the plan when somebody died in between.
        data["unsaved"] = record.is_unsaved(tx)
        if request.begins:
            data["started"] = _begun(tx, plan, data, request)
        return data


def _begun(tx: Transaction, plan: str, data: Data, request: Request) -> bool:
    """Start a step that was just claimed, unless something is left to be done for it before."""
    new = data["claimed"] and data["missing_commits"] == [] and data["previous_attempt"] is None
    if not new:
        return False
    from tugtool.state import holding  # Whoever only claims need not load it.

    anchor = str(data["anchor"])
    holding.begin(tx, plan, anchor, owner=request.owner, attempt=None)
    return True


def _answer(tx: Transaction, plan: str, request: Request, copy: PlanCopy, step: str | None) -> Data:
    row = record.plan_row(tx, plan)
    if step is not None:
        record.step_row(tx, plan, step)
    replayed = _replay(tx, plan, request)
    if replayed is not None:
        return replayed
    record.refuse_archived(row)
    record.refuse_drift(tx, row, copy)
    if row["paused_at"] is not None:
        return _nothing(tx, plan, row, "paused")
    if row["steps_done"] == row["steps_total"]:
        return _nothing(tx, plan, row, "all_completed")
    gone = _gone(tx, plan)
    if step is not None:
        found = _asked_for(tx, plan, step, request, gone)
    else:
        found = _next(tx, plan, request, gone)
    if found is None:
        return _nothing(tx, plan, row, "no_ready_steps")
    return _take(tx, plan, found, request, gone)


def _replay(tx: Transaction, plan: str, request: Request) -> Data | None:
    """The same request again gets the same claim: its first answer may have been lost."""
    if request.request_id is None:
        return None
    attempt = tx.first(sql.REQUESTED, owner=request.owner, request_id=request.request_id)
    if attempt is None:
        return None
    step = record.step_row(tx, plan, attempt["step_anchor"])
    if attempt["ended_at"] is not None:
        raise Superseded(plan, step["anchor"], attempt=attempt["number"], current=step["attempt"])
    before = tx.first(sql.ATTEMPT_BEFORE, anchor=step["anchor"], number=attempt["number"])
    outcome = before["outcome"] if before else None
    return _claimed(
        tx,
        plan,
        step,
        reclaimed=outcome in _TAKEN,
        expired=outcome == "expired",
        replayed=True,
    )


def _gone(tx: Transaction, plan: str) -> set[str]:
    """Held steps whose holder's process is provably gone."""
    return {row["step_anchor"] for row in tx.all(sql.HOLDERS) if holder.is_gone(row)}


def _next(tx: Transaction, plan: str, request: Request, gone: set[str]) -> Row | None:
    own = tx.first(sql.OWN_STEP, owner=request.owner)
    if own is not None:
        return own
    candidates = [tx.first(sql.READY_STEP)]
    candidates += tx.all(sql.EXPIRED_STEPS)[:1]
    candidates += [row for row in _rows(tx, plan, gone) if _is_free(row)]
    found = [row for row in candidates if row is not None]
    if found:
        return min(found, key=lambda row: int(row["step_index"]))
    return tx.first(sql.LIVE_STEP) if request.force else None


def _rows(tx: Transaction, plan: str, anchors: set[str]) -> list[Row]:
    return [tx.one(sql.STEP, anchor=anchor) for anchor in anchors]


def _is_free(row: Row) -> bool:
    return bool(row["open_deps"] == 0 and row["parked_at"] is None)


def _asked_for(tx: Transaction, plan: str, anchor: str, request: Request, gone: set[str]) -> Row:
    """The step that was asked for, or the reason why not."""
    row = record.step_row(tx, plan, anchor)
    if row["parent_anchor"] is not None:
        needed = f"a substep is claimed with its step {row['parent_anchor']}"
        raise WrongStatus(plan, anchor, status="a substep", needed=needed)
    if row["status"] == "completed":
        raise WrongStatus(plan, anchor, status="completed", needed="nothing is left to do")
    if row["parked_at"] is not None:
        raise StepParked(plan, anchor, reason=row["park_reason"], parked_at=row["parked_at"])
    own = row["claimed_by"] in (None, request.owner)
    lapsed = row["lease_expires_at"] is not None and row["lease_expires_at"] < tx.now
    if not own and not lapsed and anchor not in gone and not request.force:
        raise NotReady(plan, anchor, owner=row["claimed_by"], until=row["lease_expires_at"])
    if row["open_deps"]:
        raise NotReady(plan, anchor, waiting_for=waiting_for(tx, plan, anchor))
    return row


def waiting_for(tx: Transaction, plan: str, anchor: str) -> list[str]:
    """The anchors that a step, or one of its substeps, waits for outside the step."""
    members = [anchor, *(row["anchor"] for row in tx.all(sql.SUBSTEPS, anchor=anchor))]
    open_ = [row for each in members for row in tx.all(sql.OPEN_NEEDS, anchor=each)]
    return list(dict.fromkeys(row["anchor"] for row in open_ if row["top"] != anchor))


def _take(tx: Transaction, plan: str, step: Row, request: Request, gone: set[str]) -> Data:
    anchor, number = step["anchor"], step["attempt"] + 1
    reclaimed = step["status"] != "pending"
    expired = reclaimed and step["lease_expires_at"] < tx.now
    reset = []
    if reclaimed:
        outcome = "expired" if expired else "dead" if anchor in gone else "superseded"
        tx.run(
            sql.END_ATTEMPT,
            anchor=anchor,
            number=step["attempt"],
            outcome=outcome,
        )
        reset = drop_unfinished(tx, plan, anchor)
        if step["claimed_by"] != request.owner:
            record.displaced(tx, step)
    else:
        record.count(tx, plan, ready=-1)
    _open_attempt(tx, plan, anchor, number, request)
    tx.run(sql.END_RESERVATION, owner=request.owner)
    now = record.step_row(tx, plan, anchor)
    record.note(
        tx,
        plan,
        "claim",
        anchor=anchor,
        actor=request.owner,
        attempt=number,
        lease_seconds=request.lease_seconds,
        reclaimed_from=step["claimed_by"],
        outcome=outcome if reclaimed else None,
        items=reset,
        parked=now["parked_at"] is not None,
    )
    others = gone - {anchor}
    return _claimed(tx, plan, now, reclaimed=reclaimed, expired=expired, gone=others)


def drop_unfinished(tx: Transaction, plan: str, anchor: str) -> list[list[object]]:
    """What was being done when the step was taken has to be done again."""
    changed: list[list[object]] = []
    for member in _unfinished(tx, plan, anchor):
        for item in tx.all(sql.ITEMS, anchor=member):
            if item["status"] == "in_progress":
                record.set_open(tx, item)
                changed.append([member, item["kind"], item["ordinal"], "open"])
    return changed


def _unfinished(tx: Transaction, plan: str, anchor: str) -> list[str]:
    substeps = tx.all(sql.SUBSTEPS, anchor=anchor)
    return [anchor, *(row["anchor"] for row in substeps if row["status"] != "completed")]


def _open_attempt(tx: Transaction, plan: str, anchor: str, number: int, request: Request) -> None:
    until = tx.after(request.lease_seconds)
    tx.run(
        sql.CLAIM_STEP,
        anchor=anchor,
        owner=request.owner,
        until=until,
        attempt=number,
        most=request.max_attempts,
        reason=f"{request.max_attempts} claims without progress",
    )
    tx.run(sql.CLAIM_SUBSTEPS, anchor=anchor, owner=request.owner, until=until)
    place = holder.place() if request.holder_pid is not None else {}
    tx.run(
        sql.ADD_ATTEMPT,
        anchor=anchor,
        number=number,
        owner=request.owner,
        host=place.get("host"),
        boot=place.get("boot"),
        pid_namespace=place.get("pid_namespace"),
        holder_pid=request.holder_pid,
        holder_start=request.holder_start,
        lease_seconds=request.lease_seconds,
        request_id=request.request_id,
    )


def _claimed(
    tx: Transaction,
    plan: str,
    step: Row,
    *,
    reclaimed: bool,
    expired: bool,
    gone: set[str] | None = None,
    replayed: bool = False,
) -> Data:
    row = record.plan_row(tx, plan)
    others = _gone(tx, plan) if gone is None else gone
    before = _previous(tx, plan, step)
    return {
        "claimed": True,
        "plan_path": plan,
        **record.names(step["anchor"]),
        "step_title": step["title"],
        "step_index": step["step_index"],
        "worktree": step["claimed_by"],
        "attempt": step["attempt"],
        "lease_expires_at": step["lease_expires_at"],
        "reclaimed": reclaimed,
        "reclaimed_from_expired": expired,
        "replayed": replayed,
        "remaining_ready": row["steps_ready"] + _takeable(tx, plan, step["anchor"], others),
        "total_remaining": row["steps_total"] - row["steps_done"],
        "substeps": [
            {"anchor": sub["anchor"], "title": sub["title"], "status": sub["status"]}
            for sub in tx.all(sql.SUBSTEPS, anchor=step["anchor"])
        ],
        "missing_commits": None if record.has_needs_elsewhere(tx, step) else [],
        "salvage_ref": before and before["salvage_ref"],
        "previous_attempt": before,
    }


def _takeable(tx: Transaction, plan: str, anchor: str, gone: set[str]) -> int:
    """Held steps that a stranger could take: lapsed, or left by a dead process."""
    lapsed = {row["anchor"] for row in tx.all(sql.EXPIRED_STEPS)}
    dead = {row["anchor"] for row in _rows(tx, plan, gone - lapsed) if _is_free(row)}
    return len((lapsed | dead) - {anchor})


def _previous(tx: Transaction, plan: str, step: Row) -> Data | None:
    last = tx.first(sql.ATTEMPT_BEFORE, anchor=step["anchor"], number=step["attempt"])
    if last is None:
        return None
    # A first attempt, as most are, need not load it.
    from tugtool.state import resuming

    return resuming.left_behind(tx, step["anchor"], last)


def _nothing(tx: Transaction, plan: str, row: Row, reason: str) -> Data:
    most = MOST_LISTED + 1
    blocked = [each["anchor"] for each in tx.all(sql.BLOCKED_STEPS, most=most)]
    parked = [each["anchor"] for each in tx.all(sql.PARKED_STEPS, most=most)]
    held = tx.all(sql.HELD_STEPS, most=most)
    waits = {anchor: waiting_for(tx, plan, anchor) for anchor in blocked[:MOST_LISTED]}
    return {
        "claimed": False,
        "plan_path": plan,
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
