"""Rows of worktrees: their plans, reservations and claims."""

from __future__ import annotations

from tugtool.state import intents as state_intents
from tugtool.state import record
from tugtool.store import NO_PLAN, rows, sql
from tugtool.store.owners import on_other_machine
from tugtool.store.sql import git as sql_git
from tugtool.system import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Literal

    from tugtool.errors.git import WrongWorktree
    from tugtool.schemas import StateClaimMissingCommit, WorktreeListWorktreeHeldStep
    from tugtool.store import Row, Store, Transaction

    Lease = Literal["live", "expired", "gone"]


#: How long a worktree is reserved for its caller without a claim.
RESERVED_SECONDS = 600
#: In the reservation of the worktree in which a plan is audited.
AUDIT = "implement audit"
#: How many steps behind a dependency are asked about along with it.
_MOST_AHEAD = 64


def list_worktrees(store: Store, *, elsewhere: bool = False) -> list[Row]:
    """Return every recorded worktree of this machine, or of all others, by path."""
    every = rows(store, sql_git.WORKTREES)
    return [row for row in every if on_other_machine(row["path"]) is elsewhere]


def known_branches(store: Store) -> set[str]:
    """Return the branches of recorded worktrees, and of those that are being made."""
    with store.read() as tx:
        begun = tx.all(sql_git.INTENTS, kind="create")
        found = {str(row["branch"]) for row in tx.all(sql_git.WORKTREES)}
    return found | {str(state_intents.detail(row)["branch"]) for row in begun}


def find_worktree(store: Store, path: str) -> Row | None:
    """Return the row of the worktree at a path, or None."""
    found = rows(store, sql_git.WORKTREE, path=record.storable(path))
    return found[0] if found else None


def of_plan(store: Store, plan: str) -> list[Row]:
    """Return the worktrees that are recorded for a plan, by path."""
    with store.read(plan) as tx:
        return tx.all(sql_git.WORKTREES_OF)


def by_path(store: Store, plan: str) -> tuple[dict[str, Row], str]:
    """Return the worktrees of a plan by path, and the time of the transaction."""
    with store.read(plan) as tx:
        return {row["path"]: row for row in tx.all(sql_git.WORKTREES_OF)}, tx.now


def of_every_plan(store: Store) -> list[tuple[Row, list[Row]]]:
    """Return every plan with its recorded worktrees."""
    with store.read() as tx:
        plans = [tx.first(sql.PLAN, plan=row["plan_path"]) for row in tx.all(sql.PLANS)]
        return [
            (plan, tx.all(sql_git.WORKTREES_OF, plan=plan["plan_path"]))
            for plan in plans
            if plan is not None
        ]


def with_begun_commits(store: Store, plan: str) -> list[tuple[Row, Row]]:
    """Return the plan's worktrees with an unfinished commit, and its intent."""
    with store.read(plan) as tx:
        begun = tx.all(sql_git.INTENTS_OF, kind="commit")
        known = {row["path"]: row for row in tx.all(sql_git.WORKTREES_OF)} if begun else {}
    return [(known[row["worktree"]], row) for row in begun if row["worktree"] in known]


def with_unfinished_work(store: Store, plan: str) -> list[Row]:
    """Return the plan's worktrees with saved or unsaved work."""
    with store.read(plan) as tx:
        left = {row["worktree"] for row in tx.all(sql_git.UNSAVED)}
        left |= {row["worktree"] for row in tx.all(sql.ATTEMPTS) if row["salvage_ref"] is not None}
        return [row for row in tx.all(sql_git.WORKTREES_OF) if row["path"] in left]


# -- claims and commits ----------------------------------------------------------------


def claimed_steps(store: Store, owner: str) -> list[WorktreeListWorktreeHeldStep]:
    """Return a worktree's claimed steps of any plan, each `live`, `expired` or `gone`."""
    if not store.exists():
        return []
    with store.read() as tx:
        return [
            {
                "plan_path": plan["plan_path"],
                "step_anchor": step["anchor"],
                "attempt": step["attempt"],
                "lease_expires_at": step["lease_expires_at"],
                "lease": _lease(tx.now, step, record.gone(tx, plan["plan_path"])),
            }
            for plan in tx.all(sql.PLANS)
            for step in tx.all(sql_git.HELD_BY, plan=plan["plan_path"], owner=owner)
        ]


def _lease(now: str, step: Row, gone: set[str]) -> Lease:
    if step["lease_expires_at"] < now:
        return "expired"
    return "gone" if step["anchor"] in gone else "live"


def claimed_anchors(store: Store, plan: str, *, owner: str) -> list[str]:
    """Return a plan's steps that a worktree has claimed; refuse an unrecorded plan."""
    with store.read(plan) as tx:
        record.plan_row(tx)
        return [row["anchor"] for row in tx.all(sql_git.HELD_BY, owner=owner)]


def committed_steps(store: Store, plan: str) -> list[Row]:
    """Return the steps and substeps that have a commit, with the branch of its worktree."""
    with store.read(plan) as tx:
        return tx.all(sql_git.COMMITTED_STEPS)


def missing_commits(
    store: Store,
    plan: str,
    anchors: Iterable[str],
    *,
    owner: str,
    lacking: Callable[[list[str]], dict[str, int]],
) -> list[StateClaimMissingCommit]:
    """Return dependency commits of other worktrees that this one lacks, oldest first.

    `lacking` asks git which of some commits are missing, and their order.
    """
    with store.read(plan) as tx:
        branches = {row["path"]: row["branch"] for row in tx.all(sql_git.WORKTREES)}
        found, order = _missing(tx, list(anchors), owner, lacking)
    return [
        {
            "step_anchor": anchor,
            "commit": row["commit_hash"],
            "worktree": row["completed_by"],
            "branch": branches.get(row["completed_by"]),
        }
        for anchor, row in sorted(found.items(), key=lambda each: order[each[1]["commit_hash"]])
    ]


def _missing(
    tx: Transaction,
    front: list[str],
    owner: str,
    lacking: Callable[[list[str]], dict[str, int]],
) -> tuple[dict[str, Row], dict[str, int]]:
    """Return the steps whose commits are missing, and the order of those commits."""
    found: dict[str, Row] = {}
    order: dict[str, int] = {}
    asked: set[str] = set()
    times = 0
    while front:
        rows = _needs(tx, front, owner)
        commits = {row["commit_hash"] for row in rows.values()}
        if not commits <= asked:
            # Git takes as long for one commit as for many, so ask about the next ones too.
            asked, times = commits | _commits_behind(tx, list(rows), owner), times + 1
            order = lacking(sorted(asked))
        fresh = {a: row for a, row in rows.items() if a not in found}
        fresh = {a: row for a, row in fresh.items() if row["commit_hash"] in order}
        found |= fresh
        # Their own dependencies count too, unless their commits contain them.
        front = list(fresh)
    if times > 1:
        order = lacking([row["commit_hash"] for row in found.values()])
    return found, order


def _commits_behind(tx: Transaction, front: list[str], owner: str) -> set[str]:
    """Return the commits of the next steps behind these, up to a limit."""
    seen: dict[str, Row] = {}
    while front and len(seen) < _MOST_AHEAD:
        rows = _needs(tx, front, owner)
        front = [anchor for anchor in rows if anchor not in seen]
        seen |= rows
    return {row["commit_hash"] for row in seen.values()}


def _needs(tx: Transaction, anchors: Iterable[str], owner: str) -> dict[str, Row]:
    """Return the dependencies of these that another worktree has committed."""
    members = [each for anchor in anchors for each in (anchor, *record.substeps(tx, anchor))]
    rows = [row for member in members for row in tx.all(sql.NEEDS, anchor=member)]
    return {row["top"]: row for row in rows if row["commit_hash"] and row["completed_by"] != owner}


def wrong_worktree(tx: Transaction, owner: str) -> WrongWorktree:
    """Return E036: a commit would include files for another plan."""
    from tugtool.errors.git import WrongWorktree  # Only for a refusal.

    recorded = tx.one(sql_git.WORKTREE, path=owner)["plan_path"]
    every = [row["path"] for row in tx.all(sql_git.WORKTREES_OF)]
    right = [path for path in every if not on_other_machine(path)]
    return WrongWorktree(owner, plan=tx.plan, recorded=recorded, right=right)


# -- creation and removal --------------------------------------------------------------


def intend_creation(
    store: Store,
    plan: str,
    choose: Callable[[set[str], list[str], str], Iterable[tuple[str, str]]],
    *,
    base_branch: str,
    base_commit: str,
) -> None:
    """Record which worktrees are about to be made, before any other machine chooses.

    `choose` gets the recorded branches, the paths where the plan was worked on (also removed
    ones) and the date; it returns the path and the branch of each new worktree.
    """
    with store.write(plan, NO_PLAN) as tx:
        branches = {row["branch"] for row in tx.all(sql_git.WORKTREES)}
        branches |= {
            state_intents.detail(row)["branch"] for row in tx.all(sql_git.INTENTS, kind="create")
        }
        paths = [row["path"] for row in tx.all(sql_git.WORKED_IN)]
        for path, branch in choose(branches, paths, tx.now[:10]):
            tx.run(
                sql_git.ADD_INTENT,
                kind="create",
                path=record.storable(path),
                head=base_commit,
                detail=text.encode({"branch": branch, "base_branch": base_branch}),
            )


def add(
    store: Store,
    plan: str,
    made: Sequence[tuple[str, str, str | None]],
    *,
    base_branch: str,
    base_commit: str,
) -> list[Row]:
    """Record worktrees, each with its path, branch and request id."""
    added = []
    with store.write(plan) as tx:
        for path, branch, request in made:
            name = record.storable(path)
            tx.run(
                sql_git.ADD_WORKTREE,
                path=name,
                branch=branch,
                base_branch=base_branch,
                base_commit=base_commit,
                until=tx.after(RESERVED_SECONDS),
                reserved_for=request,
            )
            detail: dict[str, Any] = {"branch": branch, "base": base_branch}
            record.note(tx, "worktree_create", actor=name, **detail)
            added.append(tx.one(sql_git.WORKTREE, path=name))
    return added


def plan_of(store: Store, path: str) -> str:
    """Return the plan of a recorded or intended worktree; "" if there is none."""
    name = record.storable(path)
    with store.read() as tx:
        row = tx.first(sql_git.WORKTREE, path=name)
        row = row or tx.first(sql_git.INTENT, kind="create", path=name)
        return "" if row is None else str(row["plan_path"])


def forget(
    store: Store, plan: str, path: str, *, intents: Iterable[str], detail: Mapping[str, Any]
) -> None:
    """Forget a removed worktree and its intents."""
    name = record.storable(path)
    with store.write(plan, *state_intents.plans_at(store, name)) as tx:
        for kind in intents:
            tx.run(sql_git.DROP_INTENT, kind=kind, path=name)
        if tx.run(sql_git.DROP_WORKTREE, path=name) and tx.first(sql.PLAN):
            record.note(tx, "worktree_remove", actor=name, **detail)


# -- reservations ----------------------------------------------------------------------


def reserve(store: Store, plan: str, path: str, *, request: str | None) -> Row:
    """Reserve a free worktree for a request, cancel its removal, and return its row."""
    with store.write(plan) as tx:
        _reserve(tx, path, request)
        # The removal was recorded but not begun, and the worktree is in use again.
        tx.run(sql_git.DROP_INTENT, kind="remove", path=path)
        record.note(tx, "worktree_reserve", actor=path)
        return tx.one(sql_git.WORKTREE, path=path)


def keep(store: Store, plan: str, path: str, *, request: str | None) -> None:
    """Reserve a worktree for its worker between two steps."""
    with store.write(plan) as tx:
        _reserve(tx, path, request)


def take_over(
    store: Store,
    plan: str,
    path: str,
    *,
    request: str | None,
    allowed: Callable[[str | None], bool],
    seconds: float = RESERVED_SECONDS,
) -> tuple[Row | None, bool]:
    """Reserve a worktree if its reservation and other audits allow. Return its row, the success."""
    with store.write(plan) as tx:
        row = tx.first(sql_git.WORKTREE, path=path)
        busy = AUDIT in (request or "") and _is_audited(tx, path, allowed)
        if row is None or busy or not allowed(row["reserved_for"]):
            return row, False
        return row, _reserve(tx, path, request, seconds)


def _is_audited(tx: Transaction, path: str, allowed: Callable[[str | None], bool]) -> bool:
    """Return whether the plan is audited in another worktree: by process, or elsewhere by time."""
    every = [row for row in tx.all(sql_git.WORKTREES_OF) if AUDIT in (row["reserved_for"] or "")]
    away = [row for row in every if on_other_machine(row["path"])]
    here = [row for row in every if row not in away and row["path"] != path]
    late = any(row["reserved_until"] >= tx.now for row in away)
    return late or not all(allowed(row["reserved_for"]) for row in here)


def _reserve(tx: Transaction, path: str, request: str | None, seconds: float = 0) -> bool:
    how = {"until": tx.after(seconds or RESERVED_SECONDS), "reserved_for": request}
    return bool(tx.run(sql_git.RESERVE, path=path, **how))


def end_reservation(store: Store, plan: str, path: str, *, request: str | None) -> None:
    """End the reservation of a worktree, if the request still has it."""
    with store.write(plan) as tx:
        tx.run(sql_git.FREE_WORKTREE, path=path, reserved_for=request)
