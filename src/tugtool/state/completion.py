"""verify and complete: store evidence, then complete the step."""

from __future__ import annotations

from tugtool import errors
from tugtool.state import record
from tugtool.state.record import PlanCopy
from tugtool.store import sql
from tugtool.system import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tugtool.schemas import StateComplete
    from tugtool.state.record import Changes
    from tugtool.store import Row, Store, Transaction

    Types = Mapping[str, Any]


# `commit` is a full hash; `unknown_commit` is a name that git does not know; `intent_at` is the
# time of the owner's intent to make the commit, which ends with it; `tested` is the tree that
# checkpoints ran on, if the commit adds nothing to it: then their evidence counts for the commit;
# `publish`: the commit has to be pushed, and until then the step is unpublished.
def complete(
    store: Store,
    plan: str,
    anchor: str,
    *,
    owner: str,
    copy: PlanCopy,
    attempt: int | None = None,
    commit: str | None = None,
    unknown_commit: str | None = None,
    intent_at: str | None = None,
    tested: str | None = None,
    force_reason: str | None = None,
    publish: bool = False,
) -> StateComplete:
    """Complete a step or substep; with a reason to force it, close the open items."""
    with store.write(plan) as tx:
        row = _to_complete(tx, anchor)
        top = row if row["parent_anchor"] is None else record.step_row(tx, row["parent_anchor"])
        record.refuse_stale(plan, top, attempt)
        _end_intent(tx, owner, intent_at)
        plan_ = {**row, "status": row["plan_status"]}
        if row["status"] == "completed":
            return _answer(plan_, row, top, forced=0, again=True)
        record.refuse_stranger(plan, top, owner)
        record.refuse_drift(tx, row, copy)
        _refuse_early(tx, row, top)
        if unknown_commit is not None:
            raise errors.InvalidEntry(f'git knows no commit "{unknown_commit}"', command="complete")
        members = record.members(tx, row) if row["has_substeps"] else [row]
        closed = _close_items(tx, row, members, record.reason(force_reason))
        _bind_evidence(tx, members, tested, commit)
        reason = record.reason(force_reason) if closed else None
        if row is top:
            _finish_step(tx, plan_, members, owner, commit, reason, closed)
            _publish_later(tx, anchor, owner, commit if publish else None)
        else:
            _finish_substep(tx, row, top, owner, commit, reason, closed)
        row = {"anchor": anchor, "commit_hash": commit, "complete_reason": reason}
        return _answer(plan_, row, top, forced=len(closed), again=False)


def _to_complete(tx: Transaction, anchor: str) -> dict[str, Any]:
    """Return the step with its plan; refuse a plan or step that the record lacks."""
    row = tx.first(sql.STEP_TO_COMPLETE, anchor=anchor)
    if row is None:
        record.plan_row(tx)
        row = record.step_row(tx, anchor)
    return record.as_dict(row)


def _refuse_early(tx: Transaction, row: Row, top: Row) -> None:
    if row is not top:
        from tugtool.state import leases  # Whole steps need not load it.

        leases.refuse_early(tx, row)


def _end_intent(tx: Transaction, owner: str, created_at: str | None) -> None:
    if created_at is not None:
        from tugtool.store.sql import git as sql_git  # Only for commits.

        tx.later(sql_git.DROP_COMMIT_INTENT, owner=owner, created_at=created_at)


def refuse_open(
    store: Store,
    plan: str,
    anchor: str,
    *,
    owner: str,
    attempt: int | None,
    failed: Sequence[tuple[str, int]] = (),
) -> None:
    """Raise E051 or E052 if an item of the step is open, or its checkpoint has just failed."""
    with store.read(plan) as tx:
        row, _ = record.held(tx, anchor, owner=owner, attempt=attempt)
        items = [
            item
            for item in record.items(tx, row)
            if item["status"] not in record.CLOSED
            or (item["kind"] == "checkpoint" and (item["step_anchor"], item["ordinal"]) in failed)
        ]
        if items:
            raise _refusal(tx, anchor, items)


def _refusal(tx: Transaction, anchor: str, items: Sequence[Row]) -> errors.ItemsOpen:
    fields = ("step_anchor", "kind", "ordinal", "status", "text")
    listed = [{key: item[key] for key in fields} for item in items]
    own = any(item["step_anchor"] == anchor for item in items)
    return (errors.ItemsOpen if own else errors.SubstepItemsOpen)(tx.plan, anchor, items=listed)


def _close_items(
    tx: Transaction, row: Row, members: list[Row], force_reason: str | None
) -> Changes:
    """Refuse open items, or close them for the reason. Return the closed ones."""
    some = row["has_substeps"] or row["has_open_items"]
    items = record.open_items(tx, members) if some else []
    if items and force_reason is None:
        raise _refusal(tx, members[0]["anchor"], items)
    return record.close_items(tx, items, force_reason)


def _bind_evidence(
    tx: Transaction, members: list[Row], tested: str | None, commit: str | None
) -> None:
    """Move the evidence of checkpoints to the commit that has the tested work."""
    members = [] if tested is None else members
    for item in [item for each in members for item in tx.all(sql.ITEMS, anchor=each["anchor"])]:
        found = read_evidence(item["evidence"])
        if found is not None and found["tree"] == tested:
            kept = {**{field: found[field] for field in _FIELDS}, "commit": commit, "dirty": False}
            key = {"anchor": item["step_anchor"], "kind": item["kind"], "ordinal": item["ordinal"]}
            as_is = {"status": item["status"], "reason": item["reason"]}
            tx.later(sql.SET_ITEM, **key, **as_is, evidence=record.storable(text.encode(kept)))


def _finish_step(
    tx: Transaction,
    plan_: dict[str, Any],
    members: list[Row],
    owner: str,
    commit: str | None,
    reason: str | None,
    items: Changes,
) -> None:
    """Complete a step with its substeps, and update the plan."""
    step, *substeps = members
    anchor, number = step["anchor"], step["attempt"]
    record.complete_substeps(
        tx,
        [each["anchor"] for each in substeps],
        actor=owner,
        because="its step is completed",
        reason=reason,
        unconditionally=True,
    )
    how = {"commit": commit or "", "reason": reason or ""}
    tx.later(sql.COMPLETE_STEP, anchor=anchor, owner=owner, **how)
    tx.later(sql.END_ATTEMPT, anchor=anchor, number=number, outcome="completed")
    ready = record.completed(tx, step, actor=owner) if step["is_needed"] else 0
    record.count(tx, done=1, ready=ready)
    plan_["steps_done"] += 1
    plan_["status"] = record.settle(tx, plan_)
    by = {"anchor": anchor, "actor": owner, "attempt": number}
    record.note(tx, "complete", **by, commit=commit, forced=reason, items=items)


def _publish_later(tx: Transaction, anchor: str, owner: str, commit: str | None) -> None:
    if commit is not None:
        from tugtool.store.sql import publication as sql_publication  # Only with a remote.

        tx.later(sql_publication.ADD_UNPUBLISHED, anchor=anchor, commit=commit, worktree=owner)


def _finish_substep(
    tx: Transaction,
    substep: Row,
    top: Row,
    owner: str,
    commit: str | None,
    reason: str | None,
    items: Changes,
) -> None:
    if items:
        record.note(
            tx,
            "update",
            anchor=substep["anchor"],
            actor=owner,
            attempt=top["attempt"],
            forced=reason,
            items=items,
        )
    record.complete_substeps(
        tx,
        [substep["anchor"]],
        actor=owner,
        because="it was completed",
        commit=commit,
        reason=reason,
        unconditionally=True,
    )
    record.renew(tx, top)


def _answer(plan_: Row, row: Row, top: Row, *, forced: int, again: bool) -> StateComplete:
    return {
        "completed": True,
        "plan_path": top["plan_path"],
        **record.names(row["anchor"]),
        "attempt": top["attempt"],
        "commit_hash": row["commit_hash"],
        "already_completed": again,
        "forced": forced > 0,
        "force_reason": row["complete_reason"],
        "incomplete_items_auto_completed": forced,
        "plan_completed": plan_["status"] == "done",
        "remaining_steps": plan_["steps_total"] - plan_["steps_done"],
    }


#: Field -> its type: imported evidence may have any other shape.
_FIELDS: Types = {
    "passed": bool,
    "commands": list,
    "commit": str | None,
    "dirty": bool | None,
    "worktree": str,
    "attempt": int,
    "at": str,
    "note": str | None,
    "tree": str | None,
    "judged": dict | None,
}
#: Fields that evidence of an earlier version lacks.
_UNKNOWN = {"tree": None, "judged": None}
_JUDGED_FIELDS: Types = {"role": str, "reason": str | None}
_COMMAND_FIELDS: Types = {
    "command": str,
    "exit_status": int,
    "timed_out": bool,
    "duration_seconds": int | float,
    "output_tail": str,
    "output_bytes": int,
}


def read_evidence(text: str | None) -> dict[str, Any] | None:
    """Return the commands and their results; None for evidence that we did not write."""
    if text is None:
        return None
    # Few items have evidence.
    import json

    try:
        evidence = _checked({**_UNKNOWN, **json.loads(text)}, _FIELDS)
        commands = [_checked(ran, _COMMAND_FIELDS) for ran in evidence["commands"]]
        if evidence["judged"] is not None:
            evidence["judged"] = _checked(evidence["judged"], _JUDGED_FIELDS)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    # JSON has no infinity.
    if not all(0 <= ran["duration_seconds"] < 1e9 for ran in commands):
        return None
    # The command that can look at the worktree sets the last two.
    return {**evidence, "commands": commands, "stale": None, "worktree_commit": None}


def is_proof(text: str | None) -> bool:
    """Return whether evidence shows that a checkpoint's commands passed."""
    found = read_evidence(text)
    return found is not None and found["passed"] and bool(found["commands"])


def ended(ran: Mapping[str, Any]) -> str:
    """Say how a command ended."""
    how = "timed out" if ran["timed_out"] else f"exit {ran['exit_status']}"
    return f"{how}, {ran['duration_seconds']:.1f} s"


def _checked(found: dict[str, Any], fields: Types) -> dict[str, Any]:
    for field, kind in fields.items():
        if not isinstance(found[field], kind):
            raise TypeError(field)
    return {field: found[field] for field in fields}


class Finding:
    """The result of one checkpoint's commands; `evidence` is the stored part."""

    __slots__ = ("anchor", "evidence", "ordinal", "passed")

    def __init__(
        self, anchor: str, ordinal: int, *, passed: bool, evidence: Mapping[str, object]
    ) -> None:
        self.anchor = anchor
        self.ordinal = ordinal
        self.passed = passed
        self.evidence = evidence

    @property
    def key(self) -> list[object]:
        """The item as events name it."""
        return [self.anchor, "checkpoint", self.ordinal]


def checkpoints(
    store: Store, plan: str, anchor: str, *, owner: str, copy: PlanCopy, attempt: int | None = None
) -> dict[str, Any]:
    """Return the agreed checkpoints of a step and its substeps; the caller must hold it."""
    with store.read(plan) as tx:
        # Reading must not change the stored facts about files.
        now = PlanCopy(copy.file, copy.now(), worktree=copy.worktree)
        row, top = record.held(tx, anchor, owner=owner, attempt=attempt, copy=now)
        last = tx.one(sql.ATTEMPT, anchor=top["anchor"], number=top["attempt"])
        return {
            "plan_path": plan,
            **record.names(anchor),
            "top": top["anchor"],
            "attempt": top["attempt"],
            "lease_seconds": last["lease_seconds"],
            "plan_hash": record.plan_row(tx)["plan_hash"],
            "items": [
                {key: item[key] for key in ("step_anchor", "ordinal", "text", "status")}
                for item in _checkpoints(tx, row)
            ],
        }


def refuse_lost(store: Store, plan: str, anchor: str, *, owner: str, attempt: int | None) -> None:
    """Raise E049, E050 or E060 if the claim is no longer the caller's."""
    with store.read(plan) as tx:
        record.held(tx, anchor, owner=owner, attempt=attempt)


def verify(
    store: Store,
    plan: str,
    anchor: str,
    findings: Sequence[Finding],
    *,
    owner: str,
    attempt: int,
    copy: PlanCopy,
    plan_hash: str,
    summary: str,
) -> dict[str, Any]:
    """Tick what passed, and store all evidence. `plan_hash` is of the text that was run."""
    with store.write(plan) as tx:
        row, top = record.held(tx, anchor, owner=owner, attempt=attempt, copy=copy)
        # Not the present text: the one whose commands were run.
        ran = PlanCopy(copy.file, plan_hash, worktree=copy.worktree)
        record.refuse_drift(tx, record.plan_row(tx), ran)
        items = {(item["step_anchor"], item["ordinal"]): item for item in _checkpoints(tx, row)}
        changed = [finding.key for finding in findings if _set(tx, items, finding)]
        number = _leave_note(tx, anchor, summary)
        record.note(
            tx,
            "verify",
            anchor=anchor,
            actor=owner,
            attempt=attempt,
            items=[[*key, "completed"] for key in changed],
            passed=[finding.key for finding in findings if finding.passed],
            failed=[finding.key for finding in findings if not finding.passed],
            artifact_id=number,
        )
        if changed:
            record.progress(tx, top["anchor"])
        until = record.renew(tx, top)
        _settle_substeps(tx, row, owner)
        return {"lease_expires_at": until, "artifact_id": number, "at": tx.now}


def _checkpoints(tx: Transaction, row: Row) -> list[Row]:
    return [item for item in record.items(tx, row) if item["kind"] == "checkpoint"]


def _set(tx: Transaction, items: Mapping[tuple[str, int], Row], finding: Finding) -> bool:
    """Store the evidence, and tick the item if it passed. Return whether its status changed.

    A failure does not remove a tick: a person sees both, and decides.
    """
    item = items.get((finding.anchor, finding.ordinal))
    if item is None:
        problem = f"{finding.anchor} has no checkpoint {finding.ordinal} in this step"
        raise errors.InvalidEntry(problem, command="verify")
    changes = finding.passed and item["status"] != "completed"
    tx.later(
        sql.SET_ITEM,
        anchor=finding.anchor,
        kind="checkpoint",
        ordinal=finding.ordinal,
        status="completed" if finding.passed else item["status"],
        # The reason for deferring it no longer applies.
        reason=None if changes else item["reason"],
        evidence=record.storable(text.encode({**finding.evidence, "at": tx.now})),
    )
    return changes


def _settle_substeps(tx: Transaction, row: Row, owner: str) -> None:
    from tugtool.state import checklists  # `complete` does without it.

    checklists.settle_substeps(tx, row, owner)


def _leave_note(tx: Transaction, anchor: str, summary: str) -> int:
    from tugtool.state import checklists

    short = record.storable(checklists.cut(summary))
    values = {"anchor": anchor, "kind": "verification", "summary": short, "content": None}
    return int(tx.value(sql.ADD_ARTIFACT, **values))
