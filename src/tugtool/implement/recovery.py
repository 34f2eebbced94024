"""A commit stands, and its step could not be completed: what can be done about it without force.

Only open items are retried, and the state is read again before the step is completed. All
else goes to a person at once.
"""

from __future__ import annotations

import json

from tugtool import commit, crash, jsontext, state
from tugtool.errors import TugError, quoted
from tugtool.implement import verdicts
from tugtool.implement.casting import Unusable
from tugtool.implement.ends import Escalation
from tugtool.store import sql, sql_implement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tugtool.implement.seat import Work

    Data = dict[str, Any]

MOST_TRIES = 3
#: Why the state could not be updated, for a person; retrying would not help.
BEYOND_US = {
    "drift": "State update failed due to plan drift. Look at what changed: {d}"
    " (what lay uncommitted in its worktree is saved: tugcode worktree salvage list)",
    "ownership": "State update failed: step ownership mismatch. Check worktree configuration.",
    "db_error": "State update failed: database error. Warning: {w}",
}


def recover(work: Work, done: Mapping[str, Any], entries: Sequence[Data]) -> None:
    """Complete the step with the commit that was made for it, or escalate."""
    reason, hash = done.get("state_failure_reason"), str(done["commit_hash"])
    if reason in BEYOND_US:
        warning = next(iter(done["warnings"]), "none")
        plan, at = quoted(work.run.plan), quoted(work.desk.path)
        look = f"tugcode state diff {plan} --worktree {at}"
        said = BEYOND_US[reason].format(d=look, w=warning)
        raise Escalation(said, commit=hash, state_failure_reason=reason)
    for number in range(1, MOST_TRIES + 1):
        if _completed(work, hash, entries):
            _settled(work, hash, number)
            return
    left = open_items(work)
    step = f"{quoted(work.run.plan)} {quoted(work.anchor)} --worktree {quoted(work.desk.path)}"
    raise Escalation(
        f"State reconciliation failed after {MOST_TRIES} attempts. "
        f"Open items: {verdicts.listed(left) or 'none'}. Manual recovery: "
        f"echo '[]' | tugcode state update {step} --batch --complete-remaining",
        commit=hash,
        state_failure_reason=reason,
    )


def open_items(work: Work) -> list[Data]:
    """What the state says is still open of the step and its substeps, read now."""
    with work.store.read(work.run.plan) as tx:
        return [
            {key: row[key] for key in ("step_anchor", "kind", "ordinal")}
            for each in work.step.family()
            for row in tx.all(sql.ITEMS, anchor=each.anchor)
            if row["status"] in ("open", "in_progress")
        ]


def entries(work: Work) -> list[Data]:
    """What the reviewer said last of the step, for its checklist."""
    with work.store.read(work.run.plan) as tx:
        notes = tx.all(sql_implement.ARTIFACTS_OF_KIND, kind="reviewer_verdict")
    said = next((note["content"] for note in notes if note["step_anchor"] == work.anchor), None)
    try:
        return verdicts.deferred(work.step, json.loads(said)) if said else []
    except (ValueError, KeyError, TypeError, Unusable):
        # Whoever wrote that was no reviewer of ours, or the checklist is another one now.
        return []


def _completed(work: Work, hash: str, entries: Sequence[Data]) -> bool:
    """One try; a refusal that is not the end of the claim leaves room for another."""
    plan, copy = work.run.plan, work.desk.copy(work.run.plan)
    by: Data = {**work.by, "copy": copy}
    try:
        if open_items(work):
            how: Data = {**by, "complete_remaining": True}
            state.update(work.store, plan, work.anchor, list(entries), **how)
        if open_items(work):
            return False
        state.complete(work.store, plan, work.anchor, **by, commit=hash)
    except TugError as error:
        if work.is_over(error.code):
            raise
        return False
    return True


def _settled(work: Work, hash: str, number: int) -> None:
    crash.point("implement.recovered")
    said = f"completed with {hash[:12]} after its state could not be updated, at try {number}"
    work.leave_note("recovery", said, jsontext.encode({"commit": hash, "tries": number}))
    # What `commit` wrote down about itself has come to its end.
    commit.settle(work.desk.site(work.store))
    work.tell("recovered", commit=hash, **{"try": number})
