"""reconcile: the record learns what git proves to be done."""

from __future__ import annotations

from tugtool.state import record, ripple
from tugtool.state_errors import PlanChanged
from tugtool.store import sql, sql_git, sql_merge, sql_revise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]

#: Why an item counts as done that nobody ticked.
REASON = "reconciled"


class Facts:
    """What the record says of a plan before git is asked."""

    def __init__(self, tx: Transaction, plan: str) -> None:
        row = record.plan_row(tx, plan)
        self.plan = plan
        self.row = row
        self.plan_hash: str = row["plan_hash"]
        self.base_commit: str | None = row["base_commit"]
        self.text: str = tx.value(sql_revise.AGREED_TEXT)
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
        #: What was made for other plans, whatever it is called.
        self.other_branches = {row["branch"] for row in every if row["plan_path"] != plan}
        #: Commits that were begun and, as far as the record knows, not finished.
        self.intents = tx.all(sql_merge.INTENTS_OF, kind="commit")


class Proof:
    """One commit that carries a step out."""

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
        self.anchor = anchor
        self.commit = commit
        #: 0 where the commit does not say.
        self.attempt = attempt
        self.on_base = on_base
        #: The working tree of the branch it was committed on, if that is known.
        self.worktree = worktree


def facts(store: Store, plan: str) -> Facts:
    """What is to be known before git is asked."""
    with store.read(plan) as tx:
        return Facts(tx, plan)


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
) -> Data:
    """Complete what the proofs show to be done; the record wins a conflict, unless forced.

    `highest`: step -> the highest attempt in git; `seen`: each (step, attempt) in force there.
    """
    with store.read(plan) if dry_run else store.write(plan) as tx:
        agreed = record.plan_row(tx, plan)["plan_hash"]
        if agreed != plan_hash:
            raise PlanChanged(plan, file=plan, agreed=agreed, found=plan_hash)
        steps = [step for step in tx.all(sql.STEPS) if _differs(step, proofs)]
        todo = [step for step in steps if force or _is_open(step)]
        done = [_told(tx, step, proofs[step["anchor"]]) for step in todo]
        for step in todo if not dry_run else ():
            _bring(tx, plan, step, proofs[step["anchor"]], actor)
        _raise_attempts(tx, plan, highest if not dry_run else {}, actor)
        finished = _finish_intents(tx, plan, seen if not dry_run else ())
        status = record.plan_row(tx, plan)["status"]
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
    """Whether git proves something about a step that the record does not say."""
    proof = proofs.get(step["anchor"])
    if proof is None:
        return False
    return step["status"] != "completed" or bool(step["commit_hash"] != proof.commit)


def _mismatch(step: Row, proofs: Mapping[str, Proof]) -> Data:
    return {
        "step_anchor": step["anchor"],
        "db_hash": step["commit_hash"],
        "git_hash": proofs[step["anchor"]].commit,
    }


def _is_open(step: Row) -> bool:
    """Whether the record says nothing that git could contradict."""
    return step["status"] != "completed" or step["commit_hash"] is None


def _told(tx: Transaction, step: Row, proof: Proof) -> Data:
    return {
        "step_anchor": step["anchor"],
        "commit_hash": proof.commit,
        "attempt": proof.attempt or None,
        "was": step["status"],
        "previous_hash": step["commit_hash"],
        "items_closed": len(_open_items(tx, step)) if step["status"] != "completed" else 0,
    }


def _open_items(tx: Transaction, step: Row) -> list[Row]:
    members = [step, *tx.all(sql.SUBSTEPS, anchor=step["anchor"])]
    items = (item for each in members for item in tx.all(sql.ITEMS, anchor=each["anchor"]))
    return [item for item in items if item["status"] not in ripple.CLOSED]


def _bring(tx: Transaction, plan: str, step: Row, proof: Proof, actor: str | None) -> None:
    anchor, was = step["anchor"], {"was": step["status"], "previous": step["commit_hash"]}
    items: list[list[object]] = []
    worktree = step["completed_by"]
    if step["status"] == "completed":
        tx.run(sql_merge.SET_COMMIT, anchor=anchor, commit=proof.commit)
    else:
        worktree = _worktree(tx, step, proof)
        items = _complete(tx, plan, step, proof.commit, worktree, actor)
    record.note(
        tx,
        plan,
        "reconcile",
        anchor=anchor,
        actor=actor,
        attempt=step["attempt"],
        commit=proof.commit,
        completed_by=worktree,
        items=items,
        **was,
    )


def _worktree(tx: Transaction, step: Row, proof: Proof) -> str | None:
    """Who did it: the attempt knows, or the branch, or whoever holds the step now."""
    attempt = tx.first(sql.ATTEMPT, anchor=step["anchor"], number=proof.attempt)
    if attempt is not None:
        return str(attempt["worktree"])
    if proof.worktree is not None:
        return record.storable(proof.worktree)
    holder: str | None = step["claimed_by"]
    return None if proof.attempt else holder


def _complete(
    tx: Transaction,
    plan: str,
    step: Row,
    commit: str,
    worktree: str | None,
    actor: str | None,
) -> list[list[object]]:
    anchor, items = step["anchor"], _open_items(tx, step)
    for item in items:
        tx.run(
            sql.SET_ITEM,
            anchor=item["step_anchor"],
            kind=item["kind"],
            ordinal=item["ordinal"],
            status="completed",
            reason=REASON,
            evidence=item["evidence"],
        )
    for listed in tx.all(sql.SUBSTEPS, anchor=anchor):
        # Looked at again: the one before may have completed this one along with itself.
        substep = record.step_row(tx, plan, listed["anchor"])
        if substep["status"] != "completed":
            because = "its step is reconciled"
            ripple.close_substep(tx, plan, substep, actor=actor, because=because)
            ripple.completed(tx, plan, substep, actor=actor)
    now = record.step_row(tx, plan, anchor)
    was_ready = now["status"] == "pending" and not now["open_deps"] and now["parked_at"] is None
    tx.run(sql.COMPLETE_STEP, anchor=anchor, owner=worktree, commit=commit, reason=None)
    tx.run(sql.END_ATTEMPT, anchor=anchor, number=step["attempt"], outcome="completed")
    record.count(tx, plan, ready=-1 if was_ready else 0, done=1)
    ripple.completed(tx, plan, now, actor=actor)
    record.settle(tx, plan)
    return [[item["step_anchor"], item["kind"], item["ordinal"], "completed"] for item in items]


def _raise_attempts(
    tx: Transaction, plan: str, highest: Mapping[str, int], actor: str | None
) -> None:
    """No number that git knows may be given out again; a holder keeps the one it has."""
    for anchor, number in highest.items():
        before = record.step_row(tx, plan, anchor)["attempt"]
        if tx.run(sql_merge.RAISE_ATTEMPT, anchor=anchor, attempt=number):
            record.note(
                tx,
                plan,
                "raise_attempt",
                anchor=anchor,
                actor=actor,
                attempt=number,
                before=before,
            )


def _finish_intents(tx: Transaction, plan: str, seen: Collection[tuple[str, int]]) -> list[str]:
    """A commit that was begun and is in git, with its step completed, is finished."""
    finished = []
    for intent in tx.all(sql_merge.INTENTS_OF, kind="commit"):
        anchor = intent["step_anchor"]
        step = tx.first(sql.STEP, anchor=anchor)
        done = step is not None and step["status"] == "completed"
        if done and (anchor, intent["attempt"] or 0) in seen:
            tx.run(sql_git.DROP_INTENT, kind="commit", path=intent["worktree"])
            finished.append(anchor)
    return finished
