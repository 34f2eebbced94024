"""A step that is claimed once more, and whose work an earlier attempt has committed already.

Its state could not follow then: a person freed the step, or its claim was lost. The commit
was approved and stands, so the step is completed with it, and no agent runs.
"""

from __future__ import annotations

from tugtool import state
from tugtool.evidence import Evidence
from tugtool.implement import recovery
from tugtool.state import reconciling
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.implement.seat import Work

    Data = dict[str, Any]


def completed(work: Work) -> Data | None:
    """Complete the step with the commit that it has, if it has one; what `commit` would say."""
    hash = _commit_of(work)
    if hash is None:
        return None
    state.start(work.store, work.run.plan, work.anchor, **work.by)
    done: Data = {"commit_hash": hash, "state_failure_reason": "open_items", "warnings": []}
    recovery.recover(work, done, recovery.entries(work))
    return done


def _commit_of(work: Work) -> str | None:
    """The newest commit of an attempt that is not over and done with, on a branch of the plan."""
    if work.claim["previous_attempt"] is None:
        return None
    since = _last_completed(work)
    # By the same reading as `reconcile`: of this text of the plan, and not reverted.
    found = Evidence(work.run.repo, reconciling.facts(work.store, work.run.plan))
    proofs = [each for each in found.all_proofs.get(work.anchor, []) if each.attempt > since]
    return max(proofs, key=lambda proof: proof.attempt).commit if proofs else None


def _last_completed(work: Work) -> int:
    """What was completed and is open again was sent back by a person: its commit does not count."""
    with work.store.read(work.run.plan) as tx:
        rows = tx.all(sql.ATTEMPTS)
    own = [row for row in rows if row["step_anchor"] == work.anchor]
    return max((int(row["number"]) for row in own if row["outcome"] == "completed"), default=0)
