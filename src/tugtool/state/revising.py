"""diff and revise: what a plan's new text means, and taking it into the record."""

from __future__ import annotations

from tugtool.people_errors import RevisionRefused
from tugtool.plan import textdiff
from tugtool.state import record
from tugtool.state.revision import Allowed, Recorded, Revision
from tugtool.state.setup import preview
from tugtool.store import sql, sql_revise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from tugtool.plan.model import Plan
    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]


def diff(
    store: Store, plan: str, *, file: str, text: str | None, hash: str | None, parsed: Plan | None
) -> Data:
    """What was agreed against the text of `file`: None, or nothing, if there is none to read.

    `parsed` is that text if it is a sound plan; then the steps are compared as well.
    """
    with store.read(plan) as tx:
        row = record.plan_row(tx, plan)
        agreed = str(tx.value(sql_revise.AGREED_TEXT))
        revision = None if parsed is None else Revision(_recorded(tx), parsed)
    changed = hash != row["plan_hash"]
    names = {"old_name": f"agreed/{plan}", "new_name": f"file/{plan}" if text else "/dev/null"}
    would = (
        None if revision is None else {**told(revision), "refusals": revision.refusals(Allowed())}
    )
    return {
        "plan_path": plan,
        "file": file,
        "changed": changed,
        "agreed_hash": row["plan_hash"],
        "found_hash": hash,
        "valid": parsed is not None,
        "diff": textdiff.unified(agreed, text or "", **names) if changed else "",
        "revision": would,
    }


def revise(
    store: Store,
    plan: str,
    parsed: Plan,
    *,
    text: str,
    hash: str,
    allowed: Allowed,
    base_commit: str | None = None,
    actor: str | None = None,
    dry_run: bool = False,
) -> Data:
    """Take a recorded plan's new text into its record, all of it or nothing of it.

    `dry_run` changes nothing and refuses nothing; what is not recorded would be, as by `init`.
    """
    if dry_run and not _is_recorded(store, plan):
        return preview(plan, parsed, hash=hash)
    with store.read(plan) if dry_run else store.write(plan) as tx:
        row = record.plan_row(tx, plan)
        revision = _revision(tx, parsed)
        refusals = revision.refusals(allowed)
        drift = row["plan_hash"] != hash
        revised = drift and not dry_run
        if revised:
            if refusals:
                raise RevisionRefused(plan, refusals=refusals)
            new = {"text": text, "hash": hash, "base_commit": base_commit}
            _write(tx, plan, revision, new=new, actor=actor, allowed=allowed)
    return {
        "plan_path": plan,
        "plan_hash": hash if revised else row["plan_hash"],
        **_created(revision),
        "drift": drift and not revised,
        "dry_run": dry_run,
        "revised": revised,
        **told(revision),
        "refusals": refusals,
    }


def _is_recorded(store: Store, plan: str) -> bool:
    if not store.exists():
        return False
    with store.read(plan) as tx:
        return tx.first(sql.PLAN) is not None


def told(revision: Revision) -> Data:
    """Everything that a person should know before, and after."""
    change = revision.change
    kept_claims, dropped_claims = revision.claims()
    return {
        "added": change.added,
        "removed": change.removed,
        "kept": change.kept,
        "changed": change.changed,
        "reopened": revision.reopened(),
        "retitled": change.retitled,
        "moved": change.moved,
        "needs_changed": change.needs_changed,
        "items_reordered": change.reordered,
        "kept_claims": kept_claims,
        "dropped_claims": dropped_claims,
        "kept_items": revision.kept_items(),
        "dropped_items": [_item(row) for row in revision.dropped_items()],
        "reset_items": [_item(row) for row in revision.reset_items()],
        "completed_substeps": revision.settled,
        "ahead_of_needs": revision.ahead(),
        "was_completed": revision.was_completed(),
    }


def _item(row: Row) -> Data:
    fields = ("step_anchor", "kind", "ordinal", "text", "status", "reason")
    return {field: row[field] for field in fields}


def _created(revision: Revision) -> Data:
    added = [revision.found[anchor] for anchor in revision.change.added]
    fresh = [item for pairing in revision.change.pairings.values() for item in pairing.fresh]
    return {
        "steps_created": len(added),
        "substeps_created": sum(step.parent is not None for step in added),
        "checklist_items_created": len(fresh) + sum(len(step.items) for step in added),
        "already_initialized": True,
        "restored_from_backup": False,
    }


def _recorded(tx: Transaction) -> Recorded:
    return Recorded(tx.all(sql.STEPS), tx.all(sql.PLAN_ITEMS), tx.all(sql.DEPS))


def _revision(tx: Transaction, parsed: Plan) -> Revision:
    recorded = _recorded(tx)
    added = [step.anchor for step in parsed.every_step() if step.anchor not in recorded.steps]
    return Revision(recorded, parsed, fences=_fences(tx, added) if added else {})


def _fences(tx: Transaction, added: Iterable[str]) -> dict[str, int]:
    """Steps that are new -> the highest attempt that may have been handed out for them.

    By a step of that name that was dropped; and what a restore lost may have had it, too.
    """
    import json

    fences = dict.fromkeys(added, 0)
    for event in tx.all(sql_revise.FENCING_EVENTS):
        detail = json.loads(event["detail"])
        if event["kind"] == "restore":
            fences = {anchor: number + detail["raised"] for anchor, number in fences.items()}
        else:
            dropped = detail["fences"]
            fences = {each: max(number, dropped.get(each, 0)) for each, number in fences.items()}
    return fences


def _write(
    tx: Transaction,
    plan: str,
    revision: Revision,
    *,
    new: dict[str, str | None],
    actor: str | None,
    allowed: Allowed,
) -> None:
    from tugtool.state import rewriting

    agreed = record.plan_row(tx, plan)["plan_hash"]
    rewriting.keep_text(tx)
    tx.run(sql_revise.REVISE_PLAN, title=revision.parsed.title, **new)
    rewriting.end_claims(tx, revision)
    dropped = rewriting.dropped(tx, revision)
    rewriting.write(tx, plan, revision)
    given = [flag for flag, is_given in allowed._asdict().items() if is_given]
    facts = {"was": agreed, "allowed": given, **_facts(revision), "dropped": dropped}
    record.note(tx, plan, "revise", actor=actor, hash=new["hash"], **facts)
    rewriting.settle(tx, plan, revision, actor=actor)


def _facts(revision: Revision) -> dict[str, Any]:
    """What the tables do not have any more, and what replaying the events needs."""
    over = [revision.recorded.steps[anchor] for anchor in revision.over]
    touched = [anchor for anchor in revision.found if revision.touches_items(anchor)]
    fences = {row["anchor"]: revision.recorded.fence(row["anchor"]) for row in revision.removed}
    return {
        **{key: value for key, value in told(revision).items() if key not in _SAID_BY_THE_ROWS},
        "dropped_items": [dict(row) for row in revision.dropped_items()],
        "started_over": [_without_nulls(row) for row in over],
        "attempts": revision.attempts,
        "fences": fences,
        "items_touched": touched,
        "items_now": [
            [anchor, kind, ordinal, status]
            for anchor in touched
            for kind, ordinal, status in revision.item_states(anchor)
            if status != "open"
        ],
    }


#: As long as the plan, and no news.
_SAID_BY_THE_ROWS = ("kept", "was_completed")


def _without_nulls(row: Row) -> Data:
    return {key: value for key, value in dict(row).items() if value is not None}
