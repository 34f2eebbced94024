"""update and artifact: what has been done so far, and what was said about it."""

from __future__ import annotations

from tugtool.errors import listing
from tugtool.state import record, ripple
from tugtool.state_errors import InvalidEntry, NotOwner
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tugtool.state.record import PlanCopy
    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]
    Entry = Mapping[str, object]
    Key = tuple[str, str, int]

#: Of an entry; the first three it must have. `step` is a substep of the step in question.
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
EMPTY_BATCH = "Batch update array must contain at least one entry"


def update(
    store: Store,
    plan: str,
    anchor: str,
    entries: Sequence[Entry] | InvalidEntry,
    *,
    owner: str,
    copy: PlanCopy,
    attempt: int | None = None,
    every: Sequence[Entry] = (),
    complete_remaining: bool = False,
) -> Data:
    """Set items of a step and its substeps, all of them or none; entries as `FIELDS` says.

    One of `every` has no ordinal and means all items of its kind, or of the step. Entries
    that could not even be read come as the refusal, for when it is their turn.
    """
    with store.write(plan) as tx:
        row, top = record.held(tx, plan, anchor, owner=owner, attempt=attempt, copy=copy)
        items = _items(tx, plan, row)
        wanted = _wanted(row["anchor"], items, entries, every)
        if complete_remaining:
            _close_the_rest(items, wanted)
        elif not entries and not every:
            raise InvalidEntry(EMPTY_BATCH)
        changed, reasons = _apply(tx, plan, items, wanted)
        _tell(tx, plan, anchor, top, owner, changed, reasons)
        until = record.renew(tx, plan, top)
        settle_substeps(tx, plan, row, top, owner)
        counts = _counts(tx.all(sql.ITEMS, anchor=anchor))
    return {
        "updated": len(changed),
        "plan_path": plan,
        **record.names(anchor),
        "attempt": top["attempt"],
        "lease_expires_at": until,
        **counts,
        "deferred_without_reason": _unexplained(items, wanted),
    }


def _unexplained(items: dict[Key, Row], wanted: dict[Key, tuple[str, str | None]]) -> list[Data]:
    return [
        {"step_anchor": key[0], "kind": key[1], "ordinal": key[2]}
        for key, (status, reason) in wanted.items()
        if status == "deferred" and not (reason or items[key]["reason"])
    ]


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
) -> Data:
    """Leave a note for whoever comes after; also on a step that one has just completed."""
    with store.write(plan) as tx:
        top = may_note(tx, plan, anchor, owner, attempt)
        if kind not in ARTIFACT_KINDS:
            problem, valid = f"there is no kind {kind!r:.60}", ", ".join(ARTIFACT_KINDS)
            raise InvalidEntry(problem, valid=valid, command="artifact")
        short = record.storable(cut(summary))
        number = tx.value(
            sql.ADD_ARTIFACT, anchor=anchor, kind=kind, summary=short, content=content
        )
        what = {"artifact_kind": kind, "artifact_id": number}
        by = {"actor": owner, "attempt": top["attempt"]}
        record.note(tx, plan, "artifact", anchor=anchor, **by, **what)
    return {
        "recorded": True,
        "plan_path": plan,
        **record.names(anchor),
        "attempt": top["attempt"],
        "kind": kind,
        "artifact_id": number,
        "summary_cut": len(summary) > LONGEST_SUMMARY,
    }


def cut(text: str, longest: int = LONGEST_SUMMARY) -> str:
    """The text's beginning; a letter and its accents are never separated."""
    if len(text) <= longest:
        return text
    from unicodedata import category

    end = longest
    # Marks, joiners and skin tones belong to what stands before them.
    while end and (
        category(text[end]) in ("Mn", "Mc", "Me", "Cf", "Sk") or text[end - 1] == "\u200d"
    ):
        end -= 1
    return text[: end or longest]


def may_note(tx: Transaction, plan: str, anchor: str, owner: str, attempt: int | None) -> Row:
    """The step, if the caller holds it, whose lease it renews, or completed it."""
    record.plan_row(tx, plan)
    _, top = record.family(tx, plan, anchor)
    record.refuse_stale(plan, top, attempt)
    if top["status"] != "completed":
        record.refuse_stranger(plan, top, owner)
        record.renew(tx, plan, top)
    elif top["completed_by"] != owner:
        by = {"owner": top["completed_by"] or "nobody", "caller": owner}
        raise NotOwner(plan, top["anchor"], **by, verb="was completed")
    return top


def _items(tx: Transaction, plan: str, row: Row) -> dict[Key, Row]:
    members = [row["anchor"]]
    if row["parent_anchor"] is None:
        members += [each["anchor"] for each in tx.all(sql.SUBSTEPS, anchor=members[0])]
    return {
        (member, item["kind"], item["ordinal"]): item
        for member in members
        for item in tx.all(sql.ITEMS, anchor=member)
    } | {(member, "", -1): None for member in members}


def _wanted(
    anchor: str,
    items: dict[Key, Row],
    entries: Sequence[Entry] | InvalidEntry,
    every: Sequence[Entry],
) -> dict[Key, tuple[str, str | None]]:
    """Item -> status and reason it is to have; refuses whatever fits no item."""
    if isinstance(entries, InvalidEntry):
        raise entries
    wanted: dict[Key, tuple[str, str | None]] = {}
    for index, entry in enumerate((*entries, *every)):
        try:
            _refuse_unknown(entry)
            found = _all_of(anchor, items, entry) if index >= len(entries) else None
            for key in found if found is not None else [_one(anchor, items, entry)]:
                if key in wanted:
                    raise _Misfit("two entries set the same item")
                wanted[key] = str(entry["status"]), _reason(entry)
        except _Misfit as misfit:
            raise InvalidEntry(
                misfit.problem, entry=entry, index=index, valid=misfit.valid
            ) from None
    return wanted


class _Misfit(Exception):
    """What is wrong with an entry; whoever knows which one it is makes the refusal of it."""

    def __init__(self, problem: str, valid: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.valid = valid


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


def _step(anchor: str, items: dict[Key, Row], entry: Entry) -> str:
    value = entry.get("step")
    step = anchor if value is None else value.removeprefix("#") if isinstance(value, str) else ""
    if (step, "", -1) not in items:
        raise _Misfit(f"{value!r:.60} is no substep of {anchor}")
    return step


def _one(anchor: str, items: dict[Key, Row], entry: Entry) -> Key:
    step, kind = _step(anchor, items, entry), _one_of("kind", entry, KINDS)
    ordinal = entry.get("ordinal")
    # True is 1 and 1.0 is 1 to Python, and neither is what anybody means.
    if type(ordinal) is not int or (step, kind, ordinal) not in items:
        number = sum(key[:2] == (step, kind) for key in items)
        valid = f"0 to {number - 1}" if number else f"{step} has no {kind}"
        raise _Misfit(f"there is no {kind} {ordinal!r:.60}", valid)
    return step, kind, ordinal


def _all_of(anchor: str, items: dict[Key, Row], entry: Entry) -> list[Key]:
    kinds = KINDS if entry.get("kind") is None else [_one_of("kind", entry, KINDS)]
    return [key for key in items if key[0] == anchor and key[1] in kinds]


def _close_the_rest(items: dict[Key, Row], wanted: dict[Key, tuple[str, str | None]]) -> None:
    """After the entries: what is open or under way then is completed; deferred stays."""
    for key, item in items.items():
        if item is not None:
            status = wanted[key][0] if key in wanted else item["status"]
            if status in ("open", "in_progress"):
                wanted[key] = "completed", None


def _apply(
    tx: Transaction,
    plan: str,
    items: dict[Key, Row],
    wanted: dict[Key, tuple[str, str | None]],
) -> tuple[list[list[object]], list[list[object]]]:
    """Which items got another status, and which a reason."""
    changed: list[list[object]] = []
    reasons: list[list[object]] = []
    for key, (status, reason) in wanted.items():
        item, closed = items[key], status in ripple.CLOSED
        same = item["status"] == status
        kept = reason if closed else None
        if same and kept in (None, item["reason"]):
            continue
        tx.run(
            sql.SET_ITEM,
            anchor=key[0],
            kind=key[1],
            ordinal=key[2],
            status=status,
            reason=kept,
            # What a command showed stays with what is said later; only reopening ends it.
            evidence=None if item["status"] in ripple.CLOSED and not closed else item["evidence"],
        )
        changed += [] if same else [[*key, status]]
        reasons += [[*key, kept]] if kept is not None else []
    return changed, reasons


def _tell(
    tx: Transaction,
    plan: str,
    anchor: str,
    top: Row,
    owner: str,
    changed: list[list[object]],
    reasons: list[list[object]],
) -> None:
    by = {"actor": owner, "attempt": top["attempt"]}
    record.note(tx, plan, "update", anchor=anchor, **by, items=changed, reasons=reasons)
    if any(change[3] == "completed" for change in changed):
        ripple.progress(tx, plan, top["anchor"])


def settle_substeps(tx: Transaction, plan: str, row: Row, top: Row, owner: str) -> None:
    """Substeps follow their items: done when all are closed, not done when one is open."""
    members = [row] if row is not top else tx.all(sql.SUBSTEPS, anchor=top["anchor"])
    # First, and whatever the order: nothing is done that waits for one of these.
    for substep in members:
        if substep["status"] == "completed" and _has_open(tx, plan, substep):
            revive(tx, plan, substep, actor=owner)
    for listed in members:
        # Looked at again: the one before may have completed this one along with itself.
        substep = record.step_row(tx, plan, listed["anchor"])
        if ripple.may_complete(tx, plan, substep):
            because = "its items are closed"
            ripple.close_substep(tx, plan, substep, actor=owner, because=because)
            ripple.completed(tx, plan, substep, actor=owner)


def _has_open(tx: Transaction, plan: str, substep: Row) -> bool:
    items = tx.all(sql.ITEMS, anchor=substep["anchor"])
    return any(item["status"] not in ripple.CLOSED for item in items)


def revive(tx: Transaction, plan: str, substep: Row, *, actor: str) -> None:
    """A completed substep of which something is open again is held as its step is."""
    anchor, top = substep["anchor"], record.step_row(tx, plan, substep["parent_anchor"])
    tx.run(
        sql.REVIVE_SUBSTEP,
        anchor=anchor,
        owner=top["claimed_by"],
        claimed_at=top["claimed_at"],
        until=top["lease_expires_at"],
        seen_at=top["heartbeat_at"],
    )
    ripple.reopened(tx, plan, substep)
    status = record.step_row(tx, plan, anchor)["status"]
    by = {"actor": actor, "attempt": top["attempt"]}
    record.note(tx, plan, "substep_reopened", anchor=anchor, **by, status=status)


def _counts(items: Sequence[Row]) -> Data:
    return {
        f"{kind}s": {
            status: sum(item["kind"] == kind and item["status"] == status for item in items)
            for status in STATUSES
        }
        for kind in KINDS
    }
