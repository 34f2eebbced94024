"""reconcile: read from git which steps are done, and let the record know."""

from __future__ import annotations

from tugtool import state
from tugtool.evidence import Evidence
from tugtool.state import reconciling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.repository import Repository
    from tugtool.store import Store

    Data = dict[str, object]


def reconcile(
    repo: Repository,
    store: Store,
    plan: str,
    *,
    force: bool = False,
    dry_run: bool = False,
    actor: str | None = None,
) -> Data:
    """Complete the steps whose commits are in the plan's range; all in one transaction."""
    facts = reconciling.facts(store, plan)
    found = Evidence(repo, facts, force=force)
    done = state.reconcile(
        store,
        plan,
        found.proofs,
        plan_hash=facts.plan_hash,
        highest=found.highest,
        seen=found.seen,
        force=force,
        dry_run=dry_run,
        actor=actor,
    )
    return {
        **done,
        "ignored": found.ignored,
        "base_commit": found.since,
        "base_branch": found.base,
        "branches": [branch.name for branch in found.branches],
        "commits_read": len(found.commits),
    }
