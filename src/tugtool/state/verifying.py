"""verify: what commands proved about checkpoints, recorded by whoever holds the step."""

from __future__ import annotations

from tugtool import jsontext
from tugtool.state import checklist, record, ripple
from tugtool.state.record import PlanCopy
from tugtool.state_errors import InvalidEntry, PlanChanged
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]


class Finding:
    """What came of one checkpoint's commands; `evidence` is what is kept of it."""

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
) -> Data:
    """The checkpoints of a step and its substeps, as agreed, for whoever holds it."""
    with store.read(plan) as tx:
        # Reading changes nothing, not even what is remembered about files.
        now = PlanCopy(copy.file, copy.now(), worktree=copy.worktree)
        row, top = record.held(tx, plan, anchor, owner=owner, attempt=attempt, copy=now)
        last = tx.one(sql.ATTEMPT, anchor=top["anchor"], number=top["attempt"])
        return {
            "plan_path": plan,
            **record.names(anchor),
            "top": top["anchor"],
            "attempt": top["attempt"],
            "lease_seconds": last["lease_seconds"],
            "plan_hash": record.plan_row(tx, plan)["plan_hash"],
            "items": [
                {key: item[key] for key in ("step_anchor", "ordinal", "text", "status")}
                for item in _checkpoints(tx, row)
            ],
        }


def refuse_lost(store: Store, plan: str, anchor: str, *, owner: str, attempt: int) -> None:
    """E049, E050 or E060, once the claim is no longer the caller's."""
    with store.read(plan) as tx:
        record.held(tx, plan, anchor, owner=owner, attempt=attempt)


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
) -> Data:
    """Tick what passed, and keep all evidence; `plan_hash`: of the text whose commands were run."""
    with store.write(plan) as tx:
        row, top = record.held(tx, plan, anchor, owner=owner, attempt=attempt, copy=copy)
        agreed = record.plan_row(tx, plan)["plan_hash"]
        if agreed != plan_hash:
            at = copy.worktree
            raise PlanChanged(plan, file=copy.file, agreed=agreed, found=plan_hash, worktree=at)
        items = {(item["step_anchor"], item["ordinal"]): item for item in _checkpoints(tx, row)}
        changed = [finding.key for finding in findings if _set(tx, items, finding)]
        number = _leave_note(tx, anchor, summary)
        record.note(
            tx,
            plan,
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
            ripple.progress(tx, plan, top["anchor"])
        until = record.renew(tx, plan, top)
        checklist.settle_substeps(tx, plan, row, top, owner)
        return {"lease_expires_at": until, "artifact_id": number, "at": tx.now}


def _checkpoints(tx: Transaction, row: Row) -> list[Row]:
    members = [row["anchor"]]
    if row["parent_anchor"] is None:
        members += [each["anchor"] for each in tx.all(sql.SUBSTEPS, anchor=members[0])]
    items = [item for member in members for item in tx.all(sql.ITEMS, anchor=member)]
    return [item for item in items if item["kind"] == "checkpoint"]


def _set(tx: Transaction, items: Mapping[tuple[str, int], Row], finding: Finding) -> bool:
    """Keep the evidence, and tick the item if it passed; whether that changed its status.

    A failure takes no tick away: whoever looks sees both, and decides.
    """
    item = items.get((finding.anchor, finding.ordinal))
    if item is None:
        problem = f"{finding.anchor} has no checkpoint {finding.ordinal} in this step"
        raise InvalidEntry(problem, command="verify")
    changes = finding.passed and item["status"] != "completed"
    tx.run(
        sql.SET_ITEM,
        anchor=finding.anchor,
        kind="checkpoint",
        ordinal=finding.ordinal,
        status="completed" if finding.passed else item["status"],
        # Why it was put off is no longer the case.
        reason=None if changes else item["reason"],
        evidence=record.storable(jsontext.encode({**finding.evidence, "at": tx.now})),
    )
    return changes


def _leave_note(tx: Transaction, anchor: str, summary: str) -> int:
    short = record.storable(checklist.cut(summary))
    values = {"anchor": anchor, "kind": "verification", "summary": short, "content": None}
    return int(tx.value(sql.ADD_ARTIFACT, **values))
