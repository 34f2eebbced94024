"""The record's part of reconcile, merge and the audit of the whole plan."""

from __future__ import annotations

from tugtool.errors.state import PlanChanged
from tugtool.state import intents, record
from tugtool.store import sql
from tugtool.store.owners import on_other_machine
from tugtool.store.sql import git as sql_git
from tugtool.store.sql import publication as sql_publication
from tugtool.store.sql import records as sql_records
from tugtool.store.sql import views as sql_views

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from tugtool.schemas import (
        StateReconcileReconciledItem,
        StateReconcileSkippedMismatch,
        StateReviewAudit,
    )
    from tugtool.state.record import Changes
    from tugtool.store import Row, Store, Transaction


#: Why an item counts as done without a tick.
REASON = "reconciled"


class Facts:
    """A plan's record before git is asked."""

    def __init__(self, tx: Transaction) -> None:
        row = record.plan_row(tx)
        self.plan = tx.plan
        #: The plan's present and earlier names; commits of each count.
        self.names = [tx.plan, *earlier_names(tx)]
        self.row = row
        #: The merge that the remote lacks; None if there is none.
        self.unpushed: dict[str, Any] | None = unpushed(tx, row).get("unpushed_merge")
        self.plan_hash: str = row["plan_hash"]
        self.base_commit: str | None = row["base_commit"]
        self.text: str = tx.value(sql_records.AGREED_TEXT)
        self.steps = tx.all(sql.STEPS)
        #: Step or substep -> the step it is a substep of.
        self.parents: dict[str, str | None] = {
            step["anchor"]: step["parent_anchor"] for step in self.steps
        }
        self.needs: list[tuple[str, str]] = [
            (edge["step_anchor"], edge["depends_on"]) for edge in tx.all(sql.DEPS)
        ]
        self.worktrees = tx.all(sql_git.WORKTREES_OF)
        every = tx.all(sql_git.WORKTREES)
        #: Branches of other plans, also those with a name like this plan's.
        self.other_branches = {row["branch"] for row in every if row["plan_path"] != tx.plan}
        #: Commits that are unfinished as far as the record knows.
        self.intents = tx.all(sql_git.INTENTS_OF, kind="commit")


class Proof:
    """One commit that completes a step."""

    __slots__ = ("anchor", "attempt", "commit", "on_base", "worktree")

    def __init__(
        self,
        anchor: str,
        commit: str,
        attempt: int = 0,
        *,
        on_base: bool = False,
        worktree: str | None = None,
    ) -> None:
        self.anchor, self.commit, self.on_base = anchor, commit, on_base
        #: 0 if the commit has no attempt.
        self.attempt = attempt
        #: The worktree of its branch, if known.
        self.worktree = worktree


def earlier_names(tx: Transaction) -> list[str]:
    """Return the plan's earlier names, oldest first."""
    return [name for plan, name in _moves(tx) if plan == tx.plan]


def every_name(store: Store) -> dict[str, str]:
    """Return every present or earlier name of a recorded plan -> the plan."""
    with store.read() as tx:
        plans = [str(row["plan_path"]) for row in tx.all(sql.PLANS)]
        return {**{name: plan for plan, name in _moves(tx)}, **{plan: plan for plan in plans}}


def _moves(tx: Transaction) -> Iterator[tuple[str, str]]:
    """Return each moved plan with an earlier name."""
    import json

    for row in tx.all(sql_records.MOVES):
        yield str(row["plan_path"]), str(json.loads(row["detail"])["name"])


def facts(store: Store, plan: str) -> Facts:
    """Return the record that git's commits are compared with."""
    with store.read(plan) as tx:
        return Facts(tx)


def reconcile(
    store: Store,
    plan: str,
    proofs: Mapping[str, Proof],
    *,
    plan_hash: str,
    highest: Mapping[str, int],
    seen: Collection[tuple[str, int]] = (),
    force: bool = False,
    dry_run: bool = False,
    actor: str | None = None,
) -> Any:
    """Complete the steps that the proofs show; the record wins a conflict, unless forced.

    `highest`: step -> the highest attempt in git; `seen`: each (step, attempt) in force there.
    """
    with store.read(plan) if dry_run else store.write(plan) as tx:
        agreed = record.plan_row(tx)["plan_hash"]
        if agreed != plan_hash:
            raise PlanChanged(plan, file=plan, agreed=agreed, found=plan_hash)
        steps = [step for step in tx.all(sql.STEPS) if _differs(step, proofs)]
        todo = [step for step in steps if force or _is_open(step)]
        done = [_told(tx, step, proofs[step["anchor"]]) for step in todo]
        for step in todo if not dry_run else ():
            _bring(tx, step, proofs[step["anchor"]], actor)
        _raise_attempts(tx, highest if not dry_run else {}, actor)
        finished = _finish_intents(tx, seen if not dry_run else ())
        status = record.plan_row(tx)["status"]
    conflicts = [_mismatch(step, proofs) for step in steps if step not in todo]
    return {
        "plan_path": plan,
        "dry_run": dry_run,
        "reconciled_count": len(done),
        "reconciled": done,
        "skipped_count": len(conflicts),
        "skipped_mismatches": conflicts,
        "commits_finished": finished,
        "plan_status": status,
    }


def _differs(step: Row, proofs: Mapping[str, Proof]) -> bool:
    """Return whether git proves something about a step that the record lacks."""
    proof = proofs.get(step["anchor"])
    if proof is None:
        return False
    return step["status"] != "completed" or bool(step["commit_hash"] != proof.commit)


def _mismatch(step: Row, proofs: Mapping[str, Proof]) -> StateReconcileSkippedMismatch:
    return {
        "step_anchor": step["anchor"],
        "db_hash": step["commit_hash"],
        "git_hash": proofs[step["anchor"]].commit,
    }


def _is_open(step: Row) -> bool:
    """Return whether the record has nothing that git could contradict."""
    return step["status"] != "completed" or step["commit_hash"] is None


def _told(tx: Transaction, step: Row, proof: Proof) -> StateReconcileReconciledItem:
    return {
        "step_anchor": step["anchor"],
        "commit_hash": proof.commit,
        "attempt": proof.attempt or None,
        "was": step["status"],
        "previous_hash": step["commit_hash"],
        "items_closed": len(record.open_items(tx, record.members(tx, step)))
        if step["status"] != "completed"
        else 0,
    }


def _bring(tx: Transaction, step: Row, proof: Proof, actor: str | None) -> None:
    anchor, was = step["anchor"], {"was": step["status"], "previous": step["commit_hash"]}
    items: Changes = []
    worktree = step["completed_by"]
    if step["status"] == "completed":
        tx.run(sql_git.SET_COMMIT, anchor=anchor, commit=proof.commit)
    else:
        worktree = _worktree(tx, step, proof)
        items = _complete(tx, step, proof.commit, worktree, actor)
    done = {"commit": proof.commit, "completed_by": worktree, "items": items}
    by = {"actor": actor, "attempt": step["attempt"]}
    record.note(tx, "reconcile", anchor=anchor, **by, **done, **was)


def _worktree(tx: Transaction, step: Row, proof: Proof) -> str | None:
    """Return the worktree that did it: from the attempt, the branch, or the present holder."""
    attempt = tx.first(sql.ATTEMPT, anchor=step["anchor"], number=proof.attempt)
    if attempt is not None:
        return str(attempt["worktree"])
    if proof.worktree is not None:
        return record.storable(proof.worktree)
    holder: str | None = step["claimed_by"]
    return None if proof.attempt else holder


def _complete(
    tx: Transaction, step: Row, commit: str, worktree: str | None, actor: str | None
) -> Changes:
    anchor, because = step["anchor"], "its step is reconciled"
    members = record.members(tx, step)
    changes = record.close_items(tx, record.open_items(tx, members), REASON)
    substeps = [each["anchor"] for each in members[1:]]
    record.complete_substeps(tx, substeps, actor=actor, because=because, unconditionally=True)
    now = record.step_row(tx, anchor)
    was_ready = now["status"] == "pending" and not now["open_deps"] and now["parked_at"] is None
    tx.run(sql.COMPLETE_STEP, anchor=anchor, owner=worktree, commit=commit, reason=None)
    tx.run(sql.END_ATTEMPT, anchor=anchor, number=step["attempt"], outcome="completed")
    ready = record.completed(tx, now, actor=actor)
    record.count(tx, ready=ready - was_ready, done=1)
    record.settle(tx, record.plan_row(tx))
    return changes


def _raise_attempts(tx: Transaction, highest: Mapping[str, int], actor: str | None) -> None:
    """Raise attempts, so that no number in git is given out again; a holder keeps its own."""
    for anchor, number in highest.items():
        before = record.step_row(tx, anchor)["attempt"]
        if tx.run(sql_git.RAISE_ATTEMPT, anchor=anchor, attempt=number):
            record.note(
                tx, "raise_attempt", anchor=anchor, actor=actor, attempt=number, before=before
            )


def _finish_intents(tx: Transaction, seen: Collection[tuple[str, int]]) -> list[str]:
    """Finish the commits that are in git and whose step is completed."""
    finished = []
    every = tx.all(sql_git.INTENTS_OF, kind="commit")
    for intent in (row for row in every if not on_other_machine(row["worktree"])):
        anchor = intent["step_anchor"]
        step = tx.first(sql.STEP, anchor=anchor)
        done = step is not None and step["status"] == "completed"
        if done and (anchor, intent["attempt"] or 0) in seen:
            tx.run(sql_git.DROP_INTENT, kind="commit", path=intent["worktree"])
            finished.append(anchor)
    return finished


KIND = "merge"


def merge_facts(store: Store, plan: str, worktree: str) -> tuple[Facts, Row | None]:
    """Return the plan's row, and the unfinished merge in that worktree."""
    with store.read(plan) as tx:
        where = record.storable(worktree)
        return Facts(tx), tx.first(sql_git.INTENT, kind=KIND, path=where)


def give_up(store: Store, plan: str, worktree: str, detail: str) -> None:
    """Remove the merge's intent, unless another process has replaced it."""
    where = record.storable(worktree)
    with store.write(plan) as tx:
        row = tx.first(sql_git.INTENT, kind=KIND, path=where)
        if row is not None and row["detail"] == detail:
            tx.run(sql_git.DROP_INTENT, kind=KIND, path=where)


def landed(
    store: Store,
    plan: str,
    commit: str,
    *,
    branches: Sequence[str],
    squashed: Iterable[str] = (),
    actor: str | None = None,
    unproven: Mapping[str, Any] | None = None,
    remote: Mapping[str, str] | None = None,
) -> None:
    """Record that the plan is on its base branch; squashed steps get that one commit.

    `unproven`: the person who merged it without proof, and the items. `remote`: what has to get
    the base branch, as `remote` and `base_branch`.
    """
    with store.write(plan) as tx:
        known = record.plan_row(tx)["merged_commit"] == commit
        if known or not tx.run(sql_git.SET_MERGED, commit=commit):
            return
        moved = []
        for anchor in squashed:
            before = record.step_row(tx, anchor)["commit_hash"]
            tx.run(sql_git.SET_COMMIT, anchor=anchor, commit=commit)
            moved.append([anchor, before])
        named = list(branches)
        said: Any = {**(remote or {}), **({} if unproven is None else {"unproven": unproven})}
        record.note(tx, "merge", actor=actor, commit=commit, branches=named, squashed=moved, **said)


def pushed(store: Store, plan: str, commit: str, *, branch: str, actor: str) -> None:
    """Record that the remote has the merge of a plan, unless that is known."""
    with store.write(plan) as tx:
        if unpushed(tx, record.plan_row(tx)):
            record.note(tx, "publish", actor=actor, commit=commit, branch=branch)


def unpushed(tx: Transaction, row: Row) -> dict[str, Any]:
    """Return the merge that the remote lacks, as `unpushed_merge`; nothing if it has it."""
    if row["merged_commit"] is None:
        return {}
    last = tx.first(sql_publication.LAST_MERGE, plan=row["plan_path"])
    if last is None or last["kind"] != "merge":
        return {}
    import json  # Only for a merged plan.

    detail = json.loads(last["detail"])
    if "remote" not in detail or detail["commit"] != row["merged_commit"]:
        return {}
    told = {name: detail[name] for name in ("commit", "remote", "base_branch")}
    return {"unpushed_merge": {**told, "by": last["actor"]}}


def claim_in(store: Store, worktree: str) -> tuple[str, str] | None:
    """Return a plan and its step that is claimed in that worktree, or None."""
    owner = record.storable(worktree)
    with store.read() as tx:
        for row in tx.all(sql.PLANS):
            plan = row["plan_path"]
            step = tx.first(sql_git.LIVE_CLAIM, plan=plan, owner=owner)
            if step is not None:
                return str(plan), str(step["anchor"])
    return None


def end(store: Store, plan: str, worktree: str, *, gone: Iterable[str]) -> None:
    """Remove the merge's intent and the rows of removed worktrees."""
    where, paths = record.storable(worktree), list(gone)
    with store.write(plan, *intents.plans_at(store, where, *paths)) as tx:
        for path in paths:
            tx.run(sql_git.DROP_WORKTREE, path=path)
            for kind in ("commit", "sync"):
                tx.run(sql_git.DROP_INTENT, kind=kind, path=path)
        tx.run(sql_git.DROP_INTENT, kind=KIND, path=where)


APPROVE = "APPROVE"
_VERDICTS = (APPROVE, "REVISE", "ESCALATE")
#: How the implement loop keeps what the integrator said.
_INTEGRATOR = "integrator: "


def audit(tx: Transaction, plan: str) -> StateReviewAudit | None:
    """Return the last verdict on a done plan as a whole, unless it is an approval."""
    row = tx.first(sql.PLAN, plan=plan)
    if row is None or row["status"] != "done" or row["merged_commit"] is not None:
        return None
    since = tx.value(sql_views.LAST_COMPLETED, plan=plan)
    for said in tx.all(sql_views.SAID_OF_ALL, plan=plan, since=since):
        verdict = _verdict(said, since)
        if verdict is not None:
            return None if verdict == APPROVE else _unapproved(plan, said, verdict)
    return None


def audit_of(store: Store, plan: str) -> StateReviewAudit | None:
    """Return that verdict in a transaction of its own."""
    with store.read(plan) as tx:
        return audit(tx, plan)


def artifacts(store: Store, plan: str, *, kind: str) -> list[Row]:
    """Return the artifacts of a kind at any step, newest first."""
    with store.read(plan) as tx:
        return tx.all(sql_git.ARTIFACTS_OF_KIND, kind=kind)


def _unapproved(plan: str, said: Row, verdict: str) -> Any:
    which = {"plan_path": plan, "step_anchor": said["step_anchor"], "recommendation": verdict}
    return {**which, "summary": said["summary"], "recorded_at": said["recorded_at"]}


def _verdict(said: Row, since: str) -> str | None:
    """Return an artifact's verdict on the plan; None if it is about something else."""
    summary = str(said["summary"])
    if said["kind"] == "escalation":
        # One of the very moment of the completion led to it.
        return "ESCALATE" if said["recorded_at"] > since else None
    if said["kind"] == "note":
        if not summary.startswith(_INTEGRATOR):
            return None
        summary = summary.removeprefix(_INTEGRATOR)
    word = summary.split(":", 1)[0].strip()
    return word if word in _VERDICTS else None
