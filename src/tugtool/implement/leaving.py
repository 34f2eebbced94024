"""A step is given back unfinished: its work is saved, and the worktree is free for the next."""

from __future__ import annotations

from tugtool import belonging, crash, holder, salvage, salvaging, state
from tugtool.errors import TugError, quoted
from tugtool.implement.desk import Desk
from tugtool.store import sql, sql_git, sql_implement
from tugtool.worktree import building, survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.implement.run import Run
    from tugtool.implement.seat import Work
    from tugtool.store import Row, Store


def give_back(work: Work, *, park: str | None = None, failure: str | None = None) -> bool:
    """Release the step; whether the worktree can be used for another."""
    failure = failure or work.failure
    state.release(
        work.store,
        work.run.plan,
        work.anchor,
        **work.by,
        park_reason=park,
        failure=failure,
        # Whoever stops a run five times has said nothing about its steps.
        interrupted=work.run.stopping.is_set() and park is None and failure is None,
        leaving_work=True,
    )
    crash.point("implement.released")
    work.run.news.set()
    problem = _saved(work)
    if problem is not None:
        where = f"the work on {work.anchor} stays in {work.desk.path}"
        work.run.warn(f"{where}: {problem}", step_anchor=work.anchor)
        return False
    return True


def pay_debts(run: Run, store: Store) -> None:
    """Give back what could not be given back when it should have been."""
    for work, how in run.take_owed():
        # Whoever had it has ended, and its store with it.
        work.store = store
        try:
            give_back(work, **how)
        except TugError as error:
            if not work.is_over(error.code):
                run.owe(work, how)


def finish(run: Run, store: Store) -> None:
    """What runs that are gone had given back is saved and, once it is, cleared away."""
    with store.read(run.plan) as tx:
        left = {row["worktree"] for row in tx.all(sql_git.UNSAVED)}
        left |= {row["worktree"] for row in tx.all(sql.ATTEMPTS) if row["salvage_ref"] is not None}
        rows = [row for row in tx.all(sql_git.WORKTREES_OF) if row["path"] in left]
    stamp = run.order_for("implement leaving").request_id
    ours = [row for row in rows if _reserved(run, store, row["path"], stamp)]
    if ours:
        salvaging.catch_up(run.repo, store, run.plan)
    for row in ours:
        branch, onto = row["branch"], row["base_branch"]
        desk = Desk(run.repo, row["path"], branch=branch, base_branch=onto)
        if desk.is_dirty() and _is_saved(store, desk):
            desk.clear()
        with store.write(run.plan) as tx:
            tx.run(sql_implement.FREE_WORKTREE, path=row["path"], reserved_for=stamp)


def _is_saved(store: Store, desk: Desk) -> bool:
    """Whether all that lies there is under a ref, just as it is."""
    with store.read() as tx:
        refs = [row["salvage_ref"] for row in tx.all(sql_implement.SAVED_FROM, path=desk.owner)]
    try:
        now = salvage.tree_of(desk.path) if refs else None
    except (TugError, salvage.Unsalvageable, OSError):
        return False
    return any(salvage.saved_tree(desk.repo.root, ref) == now for ref in refs)


def _reserved(run: Run, store: Store, path: str, stamp: str | None) -> bool:
    """Whether the worktree was a run's that is gone, and is ours now, before anybody else's."""
    if survey.held(store, path):
        return False
    with store.write(run.plan) as tx:
        row = tx.first(sql_git.WORKTREE, path=path)
        if row is None or not holder.ended(row["reserved_for"]):
            return False
        if belonging.trouble(run.repo.common_dir, path) is not None:
            return False
        until = tx.after(building.RESERVED_SECONDS)
        return bool(tx.run(sql_git.RESERVE, path=path, until=until, reserved_for=stamp))


#: How a claim ended that nobody here has ended.
_ENDS = {
    "released": "the step was given back by somebody else",
    "reset": "the step was reset by a person, or the plan was revised",
    "expired": "its lease ran out, and {owner} has the step now",
    "dead": "its process was taken for gone, and {owner} has the step now",
    "superseded": "{owner} has the step now",
}


def how_lost(work: Work) -> str:
    """What became of a claim, in words."""
    try:
        with work.store.read(work.run.plan) as tx:
            step = tx.one(sql.STEP, anchor=work.anchor)
            attempt = tx.first(sql.ATTEMPT, anchor=work.anchor, number=work.attempt)
    except TugError as error:
        return f"the claim was taken away, and nobody can say how: {error.message}"
    outcome = None if attempt is None else attempt["outcome"]
    if outcome == "completed":
        return _completed(work, step)
    said = _ENDS.get(str(outcome), "the claim was taken away")
    return said.format(owner=step["claimed_by"] or "nobody")


def _completed(work: Work, step: Row) -> str:
    hash = step["commit_hash"]
    said = (
        f"somebody completed it{f' with {hash[:12]}' if hash else ''} under its claim, perhaps "
        "its agent, and nobody has reviewed that; tugcode state reopen "
        f"{quoted(work.run.plan)} {quoted(work.anchor)} opens it again"
    )
    work.run.warn(f"{work.anchor}: {said}", step_anchor=work.anchor)
    return said


def save_lost(work: Work) -> None:
    """Whoever took the step may have had no time to save its work; the worktree stays as it is."""
    try:
        salvaging.catch_up(work.run.repo, work.store, work.run.plan)
    except TugError:
        # The next claim saves it.
        return


def _saved(work: Work) -> str | None:
    """Save what is there and clear it away; what keeps that from being done, if anything does."""
    key = {"anchor": work.anchor, "number": work.attempt}
    try:
        salvaging.catch_up(work.run.repo, work.store, work.run.plan)
        with work.store.read(work.run.plan) as tx:
            unsaved = tx.first(sql_git.IS_UNSAVED, **key)
            attempt = tx.one(sql.ATTEMPT, **key)
        if unsaved is not None:
            return "it could not be saved"
        if attempt["salvage_ref"] is not None:
            work.tell("saved", salvage_ref=attempt["salvage_ref"])
            crash.point("implement.saved")
            work.desk.clear()
    except TugError as error:
        return error.message
    return None
