"""Complete steps that were committed only, and give steps back."""

from __future__ import annotations

import contextlib
import json

from tugtool import state
from tugtool.errors import GitFailed, TugError, plan_argument, quoted
from tugtool.errors.git import CommitRefused
from tugtool.git import refs as git_refs
from tugtool.git import worktrees
from tugtool.implement import checkpoints
from tugtool.implement.agent import Unusable
from tugtool.implement.attempt import Attempt, Checkout
from tugtool.implement.run import Escalation
from tugtool.state import attempts, publication, record, views
from tugtool.state import proofs as state_proofs
from tugtool.state import worktrees as state_worktrees
from tugtool.store.owners import on_other_machine
from tugtool.system import crash, process, text
from tugtool.workflow import commit, salvage
from tugtool.workflow.merge.reconcile import Evidence, Range
from tugtool.workflow.salvage import catch_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tugtool.implement.run import Run
    from tugtool.state.claims import Claim
    from tugtool.store import Row, Store

    Data = dict[str, Any]


MOST_TRIES = 3
#: Reasons, for a person, why a retry would not help.
BEYOND_US = {
    "drift": "State update failed due to plan drift. Look at what changed: {d}"
    " (what lay uncommitted in its worktree is saved: tugcode worktree salvage list)",
    "ownership": "State update failed: step ownership mismatch. Check worktree configuration.",
    "db_error": "State update failed: database error. Warning: {w}",
}


def recover(work: Attempt, done: Mapping[str, Any], verdict: Data) -> None:
    """Complete the step with the commit that was made for it, or escalate."""
    reason, hash = done.get("state_failure_reason"), str(done["commit_hash"])
    if reason == "drift" and work.follow():
        reason = None
    if reason in BEYOND_US:
        warning = next(iter(done["warnings"]), "none")
        plan, at = plan_argument(work.run.plan), quoted(work.checkout.path)
        look = f"tugcode diff {plan} --worktree {at}"
        said = BEYOND_US[reason].format(d=look, w=warning)
        raise Escalation(said, commit=hash, state_failure_reason=reason)
    _complete(work, hash, verdict, reason)


def _complete(work: Attempt, hash: str, verdict: Data, reason: str | None) -> None:
    for number in range(1, MOST_TRIES + 1):
        if _completed(work, hash, verdict):
            _note_recovery(work, hash, number)
            return
    left = ", ".join(f"{i['step_anchor']} {i['kind']} {i['ordinal']}" for i in _open_items(work))
    step = f"{plan_argument(work.run.plan)} {quoted(work.anchor)}"
    step += f" --worktree {quoted(work.checkout.path)}"
    raise Escalation(
        f"State reconciliation failed after {MOST_TRIES} attempts. "
        f"Open items: {left or 'none'}. Manual recovery: "
        f"echo '[]' | tugcode update {step} --batch --complete-remaining",
        commit=hash,
        state_failure_reason=reason,
    )


def _open_items(work: Attempt) -> list[Row]:
    """Read the open items of the step and its substeps."""
    return [row for row in work.items() if row["status"] in ("open", "in_progress")]


def last_verdict(work: Attempt) -> Data:
    """Return the reviewer's last verdict; an empty one if it is about another checklist."""
    notes = state_proofs.artifacts(work.store, work.run.plan, kind="reviewer_verdict")
    said = next((note["content"] for note in notes if note["step_anchor"] == work.anchor), None)
    try:
        verdict: Data = json.loads(said or "")
        checkpoints.passed(work.step, verdict)
    except (ValueError, KeyError, TypeError, AttributeError, Unusable):
        # The artifact is not from a reviewer of ours, or is about an earlier checklist.
        return {"plan_conformance": {"checkpoints": []}}
    return verdict


def _close_items(work: Attempt, hash: str, verdict: Data) -> None:
    """Close the open items by the reviewer's verdict and the commands' results."""
    if git_refs.is_ancestor(work.checkout.path, hash, "HEAD"):
        # In another worktree the commands would run on other work.
        checkpoints.prove(work, unproven_only=True)
    entries = checkpoints.deferred(work.step, verdict, verify=work.run.terms.verify)
    work.close_items(entries, checkpoints.judged(work, verdict))


def _completed(work: Attempt, hash: str, verdict: Data) -> bool:
    """Try once; return False after a refusal that leaves the claim alive."""
    plan, copy = work.run.plan, work.checkout.copy(work.run.plan)
    try:
        if _open_items(work):
            _close_items(work, hash, verdict)
        if _open_items(work):
            return False
        tested = commit.tested_tree(work.checkout.site(work.store), hash)
        how: Data = {"copy": copy, "commit": hash, "tested": tested}
        how["publish"] = work.run.settings.is_set("remote.name")
        state.complete(work.store, plan, work.anchor, **work.by, **how)
    except TugError as error:
        if work.is_over(error.code):
            raise
        return False
    return True


def _note_recovery(work: Attempt, hash: str, number: int) -> None:
    crash.point("implement.recovered")
    said = f"completed with {hash[:12]} after its state could not be updated, at try {number}"
    work.leave_note("recovery", said, text.encode({"commit": hash, "tries": number}))
    # End the record of the interrupted commit.
    commit.finish_interrupted(work.checkout.site(work.store))
    work.tell("recovered", commit=hash, **{"try": number})


def completed(work: Attempt) -> str | None:
    """Complete the step with the commit that it has already. Return the commit, or None."""
    hash = _commit_of(work)
    if hash is not None:
        state.start(work.store, work.run.plan, work.anchor, **work.by)
        _complete(work, hash, last_verdict(work), "open_items")
    return hash


def _commit_of(work: Attempt) -> str | None:
    """Return the step's newest valid commit on a branch of the plan, or None."""
    if work.claim["previous_attempt"] is None:
        return None
    rows = views.attempts(work.store, work.run.plan, work.anchor)
    # A person reopened a completed step, so its commits until then do not count.
    since = max((row["number"] for row in rows if row["outcome"] == "completed"), default=0)
    # As `reconcile` reads it: for this text of the plan, and not reverted.
    facts = state_proofs.facts(work.store, work.run.plan)
    found = Evidence(Range(work.run.repo, facts), facts)
    proofs = [each for each in found.all_proofs.get(work.anchor, []) if each.attempt > since]
    return max(proofs, key=lambda proof: proof.attempt).commit if proofs else None


def give_back(work: Attempt, *, park: str | None = None, failure: str | None = None) -> bool:
    """Release the step. Return whether the worktree can be used for another."""
    failure = failure or work.failure
    state.release(
        work.store,
        work.run.plan,
        work.anchor,
        **work.by,
        park_reason=park,
        failure=failure,
        # A stopped run says nothing about the step.
        interrupted=work.run.stopping.is_set() and park is None and failure is None,
        leaving_work=True,
    )
    crash.point("implement.released")
    work.run.news.set()
    problem = _saved(work)
    if problem is not None:
        where = f"the work on {work.anchor} stays in {work.checkout.path}"
        work.run.warn(f"{where}: {problem}", step_anchor=work.anchor)
        return False
    return True


def publish(run: Run, store: Store, *, now: bool = False) -> None:
    """Push the steps of this run that the remote lacks: now, or every half minute."""
    if not run.settings.is_set("remote.name") or not (run.may_publish() or now):
        return
    from tugtool.workflow import remote

    to = remote.remote_of(run.repo.root)
    assert to is not None
    rows = publication.own_unpublished(store, run.plan)
    with contextlib.suppress(TugError):
        done = remote.Publisher(to, store, run.repo.root, run.repo.root).run(rows) if rows else []
        for each in done if now else ():
            if each.refusal is not None:
                run.warn(f"{each.branch} is not on {to.name}: {remote.meaning(each.refusal)}")


def pay_debts(run: Run, store: Store) -> None:
    """Release the steps that could not be released before."""
    for work, how in run.take_owed():
        # The worker that had it has ended and closed its store.
        work.store = store
        try:
            give_back(work, **how)
        except TugError as error:
            if not work.is_over(error.code):
                run.owe(work, how)


def finish(run: Run, store: Store) -> None:
    """Save the work that dead runs left in worktrees, and clear those."""
    every = state_worktrees.with_unfinished_work(store, run.plan)
    rows = [row for row in every if not on_other_machine(row["path"])]
    stamp = run.order_for("implement leaving").request_id
    ours = [row for row in rows if _reserved(run, store, row["path"], stamp)]
    for row in ours:
        checkout = Checkout.recorded(run.repo, row)
        checkout.drop_locks(run.warn)
        clear_lost(run, store, checkout)
        state_worktrees.end_reservation(store, run.plan, row["path"], request=stamp)


def leave_unused(run: Run, store: Store) -> None:
    """Clear and free the worktrees that were made for the run and that no worker took."""
    while (there := run.take_made()) is not None:
        made, stamp = there
        checkout = Checkout.made(run.repo, made)
        if not state_worktrees.claimed_steps(store, checkout.owner):
            clear_lost(run, store, checkout)
        state_worktrees.end_reservation(store, run.plan, checkout.owner, request=stamp)


def clear_lost(run: Run, store: Store, checkout: Checkout) -> bool:
    """Save and clear the work of a step that another worker took. Return whether it is clean."""
    try:
        catch_up.catch_up(run.repo, store, run.plan)
        if not checkout.is_dirty():
            return True
        saved = _is_saved(store, checkout)
        if saved:
            checkout.clear()
        return saved
    except GitFailed as error:
        # The run can use another worktree.
        run.warn(f"the files in {checkout.path} stay there: {error.message}")
        return False


def _is_saved(store: Store, checkout: Checkout) -> bool:
    """Return whether a ref holds exactly the files that are there."""
    refs = attempts.refs_from(store, checkout.owner)
    try:
        now = salvage.tree_of(checkout.path) if refs else None
    except (TugError, salvage.Unsalvageable, OSError):
        return False
    return any(git_refs.tree_of(checkout.repo.root, ref) == now for ref in refs)


def _reserved(run: Run, store: Store, path: str, stamp: str | None) -> bool:
    """Take over a dead run's worktree, and return whether that succeeded."""
    if state_worktrees.claimed_steps(store, path):
        return False
    if worktrees.trouble(run.repo.common_dir, path) is not None:
        return False
    return state_worktrees.take_over(store, run.plan, path, request=stamp, allowed=process.ended)[1]


#: How another process ended a claim.
_ENDS = {
    "released": "another process released the step",
    "reset": "a person reset the step or revised the plan",
    "expired": "its lease ran out, and {owner} has the step now",
    "dead": "its process seemed to be dead, and {owner} has the step now",
    "superseded": "{owner} has the step now",
}


def how_lost(work: Attempt) -> str:
    """Say in words how a claim ended."""
    try:
        step, attempt = views.attempt(work.store, work.run.plan, work.anchor, work.attempt)
    except TugError as error:
        return f"the claim was lost, and the record cannot say how: {error.message}"
    outcome = None if attempt is None else attempt["outcome"]
    if outcome == "completed":
        return _completed_by_another(work, step)
    said = _ENDS.get(str(outcome), "the claim was lost")
    return said.format(owner=step["claimed_by"] or "no worker")


def _completed_by_another(work: Attempt, step: Row) -> str:
    hash = step["commit_hash"]
    said = (
        f"another process, perhaps its agent, completed it{f' with {hash[:12]}' if hash else ''} "
        "under its claim, without a review; to open it again: tugcode reopen "
        f"{plan_argument(work.run.plan)} {quoted(work.anchor)}"
    )
    work.run.warn(f"{work.anchor}: {said}", step_anchor=work.anchor)
    return said


def save_lost(work: Attempt) -> None:
    """Save the work of a lost step, and leave the worktree as it is."""
    # If this fails, the next claim saves it.
    with contextlib.suppress(TugError):
        catch_up.catch_up(work.run.repo, work.store, work.run.plan)


def _saved(work: Attempt) -> str | None:
    """Save the work and clear the worktree. Return why that failed, or None."""
    try:
        catch_up.catch_up(work.run.repo, work.store, work.run.plan)
        waits, ref = attempts.salvage_status(work.store, work.run.plan, work.anchor, work.attempt)
        if waits:
            return "it could not be saved"
        if ref is not None:
            work.tell("saved", salvage_ref=ref)
            crash.point("implement.saved")
            for kept in work.checkout.clear():
                said = f"a repository inside is kept in {kept}; its files are in {ref}"
                work.run.warn(said, step_anchor=work.anchor)
    except TugError as error:
        return error.message
    return None


def finish_commits(run: Run, store: Store, *, own: str) -> None:
    """Finish interrupted commits of the plan, except in worktrees of our other workers."""
    for place, row in state_worktrees.with_begun_commits(store, run.plan):
        theirs = row["worktree"] in run.owners and row["worktree"] != own
        if theirs or worktrees.trouble(run.repo.common_dir, row["worktree"]):
            continue
        _finish_commit(run, store, Checkout.recorded(run.repo, place), row)


def _finish_commit(run: Run, store: Store, checkout: Checkout, row: Row) -> None:
    try:
        told = commit.finish_interrupted(checkout.site(store))
        if told is not None:
            run.warn(str(told["message"]), step_anchor=row["step_anchor"])
    except CommitRefused as error:
        # A process is at it now, or the step has to be completed in another way.
        if error.facts.get("cause") in ("E051", "E052"):
            _recover(run, store, checkout, row, str(error.facts["commit"]))
        elif "commit" in error.facts:
            run.warn(error.message, step_anchor=row["step_anchor"])
    except TugError as error:
        run.warn(error.message, step_anchor=row["step_anchor"])


def _recover(run: Run, store: Store, checkout: Checkout, row: Row, hash: str) -> None:
    """Complete a step that only open items hold back: the reviewer's verdict still counts."""
    anchor = row["step_anchor"]
    step = record.find_step(store, run.plan, anchor)
    assert step is not None
    claim: Claim = {"claimed": True, "plan_path": run.plan, "total_remaining": 1}
    claim |= {"anchor": anchor, "attempt": row["attempt"], "step_title": step["title"]}
    work = Attempt(run, store, checkout, 0, claim)
    try:
        _complete(work, hash, last_verdict(work), "open_items")
    except (Escalation, TugError) as error:
        run.warn(f"{anchor} is committed as {hash}, and not completed: {error}", step_anchor=anchor)
