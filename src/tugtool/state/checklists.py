"""update: change items of a step, all of them or none."""

from __future__ import annotations

from tugtool import errors
from tugtool.errors import listing, plan_argument
from tugtool.state import record
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from tugtool.schemas import StateArtifact, StateClaimPreviousAttemptCompletedItem, StateUpdate
    from tugtool.state.record import PlanCopy
    from tugtool.store import Row, Store, Transaction

    Items = list[StateClaimPreviousAttemptCompletedItem]
    Entry = Mapping[str, object]

    Key = tuple[str, str, int]


#: The fields of an entry; the first three are required. `step` is a substep of the step.
FIELDS = ("kind", "ordinal", "status", "reason", "step")
KINDS = ("task", "test", "checkpoint")
STATUSES = ("open", "in_progress", "completed", "deferred")
ARTIFACT_KINDS = (
    "architect_strategy",
    "reviewer_verdict",
    "auditor_summary",
    "verification",
    "recovery",
    "escalation",
    "note",
)
LONGEST_SUMMARY = 500
WAITS_FOR_PERSON = "it waits for a person"
EMPTY_BATCH = "Batch update array must contain at least one entry"


# An entry of `every` has no ordinal and means all items of its kind, or of the step: its own, or
# also those of its substeps. The entries are read only after the caller is known to hold the step,
# because reading may raise. With `proven_only`, `complete_remaining` leaves command checkpoints
# open; `judged` is the evidence for checkpoints that it completes. Also returns the items that are
# deferred without a reason.
def update(
    store: Store,
    plan: str,
    anchor: str,
    entries: Iterable[Entry],
    *,
    owner: str,
    copy: PlanCopy,
    attempt: int | None = None,
    every: Sequence[Entry] = (),
    complete_remaining: bool = False,
    proven_only: bool = False,
    judged: Mapping[tuple[str, int], Mapping[str, object]] | None = None,
    with_substeps: bool = False,
) -> tuple[StateUpdate, Items]:
    """Set items of a step and its substeps, all of them or none; `FIELDS` names the parts."""
    with store.write(plan) as tx:
        row, top = record.held(tx, anchor, owner=owner, attempt=attempt, copy=copy)
        members = [each["anchor"] for each in record.members(tx, row)]
        items = _items(tx, members)
        listed = [*entries, *every]
        reach = members if with_substeps else members[:1]
        wanted = _wanted(tx.plan, members, items, listed, len(listed) - len(every), reach)
        waiting: Items = []
        if complete_remaining:
            waiting = _close_the_rest(items, wanted, proven_only=proven_only)
        elif not listed:
            raise errors.InvalidEntry(EMPTY_BATCH)
        changed, reasons = _apply(tx, items, wanted, judged or {})
        by = {"actor": owner, "attempt": top["attempt"]}
        record.note(tx, "update", anchor=anchor, **by, items=changed, reasons=reasons)
        if any(change[3] == "completed" for change in changed):
            record.progress(tx, top["anchor"])
        until = record.renew(tx, top)
        settle_substeps(tx, row, owner)
        over = _passed_over(items, wanted, every, members[len(reach) :])
        left = {"passed_over": over, "left_to_person": waiting}
        answer = _answer(tx, anchor, top, until, updated=len(changed), left=left)
        return answer, _unexplained(items, wanted)


def _answer(
    tx: Transaction,
    anchor: str,
    top: Row,
    until: str,
    *,
    updated: int,
    left: Mapping[str, Items],
) -> StateUpdate:
    own = tx.all(sql.ITEMS, anchor=anchor)
    return {
        "updated": updated,
        "plan_path": tx.plan,
        **record.names(anchor),
        "attempt": top["attempt"],
        "lease_expires_at": until,
        "tasks": _counts(own, "task"),
        "tests": _counts(own, "test"),
        "checkpoints": _counts(own, "checkpoint"),
        "passed_over": left["passed_over"],
        "left_to_person": left["left_to_person"],
    }


def _unexplained(items: dict[Key, Row], wanted: dict[Key, tuple[str, str | None]]) -> Items:
    return [
        _named(key)
        for key, (status, reason) in wanted.items()
        if status == "deferred" and not (reason or items[key]["reason"])
    ]


def _passed_over(
    items: dict[Key, Row],
    wanted: Mapping[Key, object],
    every: Iterable[Entry],
    substeps: Sequence[str],
) -> Items:
    """Return open items of substeps that entries for all items of a kind do not reach."""
    kinds = {kind for entry in every for kind in _kinds(entry)} if substeps else set()
    return [
        _named(key)
        for key, item in items.items()
        if key[0] in substeps
        and key[1] in kinds
        and key not in wanted
        and item["status"] not in record.CLOSED
    ]


def _named(key: Key) -> Any:
    return {"step_anchor": key[0], "kind": key[1], "ordinal": key[2]}


def artifact(
    store: Store,
    plan: str,
    anchor: str,
    *,
    kind: str,
    summary: str,
    owner: str,
    attempt: int | None = None,
    content: str | None = None,
) -> StateArtifact:
    """Leave a note for the next reader, also on a step that the caller has completed."""
    with store.write(plan) as tx:
        top = may_note(tx, anchor, owner, attempt)
        if kind not in ARTIFACT_KINDS:
            problem, valid = f"there is no kind {kind!r:.60}", ", ".join(ARTIFACT_KINDS)
            raise errors.InvalidEntry(problem, valid=valid, command="artifact")
        by = {"actor": owner, "attempt": top["attempt"]}
        number = leave_artifact(tx, anchor, kind, summary, content, **by)
    return {
        "recorded": True,
        "plan_path": plan,
        **record.names(anchor),
        "attempt": top["attempt"],
        "kind": kind,  # type: ignore[typeddict-item]  # one of ARTIFACT_KINDS
        "artifact_id": number,
        "summary_cut": len(summary) > LONGEST_SUMMARY,
    }


def leave_artifact(
    tx: Transaction, anchor: str, kind: str, summary: str, content: str | None, **by: Any
) -> int:
    """Add an artifact and its event; return its number."""
    short = record.storable(cut(summary))
    number = tx.value(sql.ADD_ARTIFACT, anchor=anchor, kind=kind, summary=short, content=content)
    record.note(tx, "artifact", anchor=anchor, **by, artifact_kind=kind, artifact_id=number)
    return int(number)


def cut(text: str, longest: int = LONGEST_SUMMARY) -> str:
    """Return the beginning of the text; a letter keeps its accents."""
    if len(text) <= longest:
        return text
    from unicodedata import category

    end = longest
    # Marks, joiners and skin tones belong to the character before them.
    while end and (
        category(text[end]) in ("Mn", "Mc", "Me", "Cf", "Sk") or text[end - 1] == "\u200d"
    ):
        end -= 1
    return text[: end or longest]


def may_note(tx: Transaction, anchor: str, owner: str, attempt: int | None) -> Row:
    """Return the step if the caller holds it (and renew its lease) or completed it."""
    record.plan_row(tx)
    _, top = record.family(tx, anchor)
    record.refuse_stale(tx.plan, top, attempt)
    if top["status"] != "completed":
        record.refuse_stranger(tx.plan, top, owner)
        record.renew(tx, top)
    elif top["completed_by"] != owner:
        by = {"owner": top["completed_by"] or "nobody", "caller": owner}
        raise errors.NotOwner(tx.plan, top["anchor"], **by, verb="was completed")
    return top


def _items(tx: Transaction, members: Iterable[str]) -> dict[Key, Row]:
    return {
        (member, item["kind"], item["ordinal"]): item
        for member in members
        for item in tx.all(sql.ITEMS, anchor=member)
    }


def _wanted(
    plan: str,
    members: Sequence[str],
    items: dict[Key, Row],
    entries: Iterable[Entry],
    single: int,
    reach: Sequence[str],
) -> dict[Key, tuple[str, str | None]]:
    """Return item -> its new status and reason; the first `single` entries name one item each."""
    wanted: dict[Key, tuple[str, str | None]] = {}
    for index, entry in enumerate(entries):
        try:
            _refuse_unknown(entry)
            one = index < single
            keys = [_one(members, items, entry)] if one else _all_of(reach, items, entry)
            for key in keys:
                if key in wanted:
                    raise _Misfit("two entries set the same item")
                if entry["status"] == "completed" and _is_for_person(items[key]):
                    _refuse_person(plan, items[key], key, one=one)
                    continue
                wanted[key] = str(entry["status"]), _reason(entry)
        except _Misfit as misfit:
            raise errors.InvalidEntry(
                misfit.problem, entry=entry, index=index, valid=misfit.valid, hint=misfit.hint
            ) from None
    return wanted


def _refuse_person(plan: str, item: Row, key: Key, *, one: bool) -> None:
    """Refuse an item that only a person completes; among others a closed one is skipped."""
    if item["status"] == "completed" or (not one and item["status"] == "deferred"):
        return
    problem = f"{key[0]} checkpoint {key[2]} is for a person, who completes it in state review"
    hint = f"tugcode review {plan_argument(plan)}"
    raise _Misfit(f"{problem}; the step's holder may only defer it", hint=hint)


def _is_for_person(item: Row) -> bool:
    return _checkpoint_kind(item, ending=")") == "person"


def _checkpoint_kind(item: Row, ending: str = "") -> str | None:
    """Return the kind of a checkpoint whose text ends so, or None."""
    if item["kind"] != "checkpoint" or ending not in item["text"][-4:]:
        return None
    from tugtool.plan import checkpoints  # Most updates do without `re`.

    return checkpoints.kind_of(item["text"])


class _Misfit(Exception):
    """An entry is wrong; the caller, which knows its position, makes the refusal."""

    def __init__(self, problem: str, valid: str | None = None, hint: str | None = None) -> None:
        super().__init__(problem)
        self.problem, self.valid, self.hint = problem, valid, hint


def _refuse_unknown(entry: Entry) -> None:
    unknown = sorted(str(key)[:50] for key in set(entry) - set(FIELDS))
    if unknown:
        raise _Misfit(f"an entry has no {listing(unknown)}", ", ".join(FIELDS))
    _one_of("status", entry, STATUSES)


def _one_of(field: str, entry: Entry, valid: Sequence[str]) -> str:
    value = entry.get(field)
    if value not in valid:
        raise _Misfit(f"there is no {field} {value!r:.60}", ", ".join(valid))
    return str(value)


def _reason(entry: Entry) -> str | None:
    value = entry.get("reason")
    if value is not None and not isinstance(value, str):
        raise _Misfit("a reason is text")
    return record.reason(value)


def _step(members: Sequence[str], entry: Entry) -> str:
    value, own = entry.get("step"), members[0]
    step = own if value is None else value.removeprefix("#") if isinstance(value, str) else ""
    if step not in members:
        raise _Misfit(f"{value!r:.60} is not a substep of {own}")
    return step


def _one(members: Sequence[str], items: dict[Key, Row], entry: Entry) -> Key:
    step, kind = _step(members, entry), _one_of("kind", entry, KINDS)
    ordinal = entry.get("ordinal")
    # In Python True equals 1 and 1.0 equals 1; both are mistakes here.
    if type(ordinal) is not int or (step, kind, ordinal) not in items:
        number = sum(key[:2] == (step, kind) for key in items)
        valid = f"0 to {number - 1}" if number else f"{step} has no {kind}"
        raise _Misfit(f"there is no {kind} {ordinal!r:.60}", valid)
    return step, kind, ordinal


def _all_of(reach: Sequence[str], items: dict[Key, Row], entry: Entry) -> list[Key]:
    kinds = _kinds(entry)
    return [key for key in items if key[0] in reach and key[1] in kinds]


def _kinds(entry: Entry) -> Sequence[str]:
    return KINDS if entry.get("kind") is None else [_one_of("kind", entry, KINDS)]


def _close_the_rest(
    items: dict[Key, Row], wanted: dict[Key, tuple[str, str | None]], *, proven_only: bool
) -> Items:
    """Complete the items that are still open; return those deferred to a person instead."""
    waiting: Items = []
    for key, item in items.items():
        status = wanted[key][0] if key in wanted else item["status"]
        if status in record.CLOSED:
            continue
        kind = _checkpoint_kind(item)
        if kind == "person":
            wanted[key] = "deferred", WAITS_FOR_PERSON
            waiting.append(_named(key))
        elif kind != "command" or not proven_only:
            wanted[key] = "completed", None
    return waiting


def _apply(
    tx: Transaction,
    items: dict[Key, Row],
    wanted: dict[Key, tuple[str, str | None]],
    judged: Mapping[tuple[str, int], Mapping[str, object]],
) -> tuple[list[list[object]], list[list[object]]]:
    """Store the changes. Return items with a new status, and items with a new reason."""
    changed: list[list[object]] = []
    reasons: list[list[object]] = []
    for key, (status, reason) in wanted.items():
        item, closed = items[key], status in record.CLOSED
        same = item["status"] == status
        kept = reason if closed else None
        if same and kept in (None, item["reason"]):
            continue
        tx.later(
            sql.SET_ITEM,
            anchor=key[0],
            kind=key[1],
            ordinal=key[2],
            status=status,
            reason=kept,
            evidence=_evidence(tx, item, status, judged.get((key[0], key[2]))),
        )
        changed += [] if same else [[*key, status]]
        reasons += [[*key, kept]] if kept is not None else []
    return changed, reasons


def _evidence(
    tx: Transaction, item: Row, status: str, judged: Mapping[str, object] | None
) -> str | None:
    """Return the evidence of an item for its new status."""
    if judged is not None and (item["kind"], status) == ("checkpoint", "completed"):
        from tugtool.system import text  # Only runs need it.

        return record.storable(text.encode({**judged, "at": tx.now}))
    # Evidence of a command stays with later changes; only reopening removes it.
    reopened = item["status"] in record.CLOSED and status not in record.CLOSED
    kept: str | None = None if reopened else item["evidence"]
    return kept


def settle_substeps(tx: Transaction, row: Row, owner: str) -> None:
    """Update substeps from their items: done if all are closed, open if one is open."""
    substeps = [each for each in record.members(tx, row) if each["parent_anchor"] is not None]
    # First reopen, in any order: a substep that waits for one of these cannot be done.
    for substep in substeps:
        if substep["status"] == "completed" and record.open_items(tx, [substep]):
            revive(tx, substep, actor=owner)
    anchors = [substep["anchor"] for substep in substeps]
    record.complete_substeps(tx, anchors, actor=owner, because=record.ITEMS_CLOSED)


def revive(tx: Transaction, substep: Row, *, actor: str) -> None:
    """Reopen a completed substep with an open item; it is held like its step."""
    anchor, top = substep["anchor"], record.step_row(tx, substep["parent_anchor"])
    tx.later(sql.REVIVE_SUBSTEP, anchor=anchor, **record.columns(top, record.HOLD))
    record.reopened(tx, substep)
    status = record.step_row(tx, anchor)["status"]
    by = {"actor": actor, "attempt": top["attempt"]}
    record.note(tx, "substep_reopened", anchor=anchor, **by, status=status)


def _counts(items: Sequence[Row], kind: str) -> Any:
    return {
        status: sum(item["kind"] == kind and item["status"] == status for item in items)
        for status in STATUSES
    }
