"""worktree create: a branch and a directory for whoever carries a plan out.

All of it happens, or nothing is left. What a process was about to make is written down
first; whoever comes next takes away what nobody got an answer about.
"""

from __future__ import annotations

import os

from tugtool import base, holder, landed, salvage, state
from tugtool import init as setup
from tugtool.state import record
from tugtool.state.record import storable
from tugtool.store import sql, sql_git
from tugtool.worktree import planfile, survey, undoing
from tugtool.worktree.building import RESERVED_SECONDS, Building, plan_differs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tugtool.plan.catalog import PlanFile
    from tugtool.plan.model import Plan
    from tugtool.repository import Repository
    from tugtool.store import Row, Store
    from tugtool.worktree.survey import Tree

    Data = dict[str, object]


class Order:
    """What is to be made: for which plan, from where, and how."""

    __slots__ = (
        *("base", "commit_plan", "file", "hash", "new", "parsed", "request_id", "step", "text"),
    )

    def __init__(
        self,
        file: PlanFile,
        parsed: Plan,
        *,
        text: str,
        hash: str,
        base: str | None = None,
        new: bool = False,
        commit_plan: bool = False,
        request_id: str | None = None,
        step: str | None = None,
    ) -> None:
        self.file = file
        self.parsed = parsed
        self.text = text
        self.hash = hash
        self.base = base
        self.new = new
        self.commit_plan = commit_plan
        self.request_id = None if request_id is None else storable(request_id)
        #: The step that is to be claimed from it, where the caller has asked for one.
        self.step = step


def create(repo: Repository, store: Store, order: Order) -> Data:
    """Make a worktree for the plan, or take a free one; it is the caller's for ten minutes."""
    return create_all(repo, store, [order])[0]


def create_all(repo: Repository, store: Store, orders: Sequence[Order]) -> list[Data]:
    """The same for several orders that differ in their request alone; all of it or nothing."""
    order = orders[0]
    survey.require_git()
    place = survey.directory(repo)
    onto = base.branch(repo, asked=order.base, target=base.target_branch(order.parsed))
    committed = planfile.settle(repo, order, onto)
    start = base.commit_of(repo.root, f"refs/heads/{onto}")
    assert start is not None, onto
    setup.ignore_state(repo)
    store.create()
    planfile.refuse_drift(store, order)
    queue = survey.lock(repo)
    queue.enter()
    try:
        undoing.mend(repo, store)
        taken = _taken_for(repo, store, orders, onto)
        rest = orders[len(taken) :]
        made = Building(repo, store, rest, place, onto, start).run() if rest else []
    finally:
        queue.leave()
    trees = [*(tree for tree, _ in taken), *(None for _ in made)]
    rows = [*(row for _, row in taken), *made]
    found = zip(orders, trees, rows, strict=True)
    return [_answer(repo, store, *each, committed=committed) for each in found]


def _taken_for(
    repo: Repository, store: Store, orders: Sequence[Order], onto: str
) -> list[tuple[Tree, Row]]:
    """For the first of the orders, what is there already."""
    found = []
    for order in orders:
        tree = _taken(repo, store, order, onto)
        if tree is None:
            break
        found.append((tree, _reserved(store, order, tree)))
    return found


def _resumed(store: Store, tree: Tree) -> str | None:
    """The step whose uncommitted work lies in a worktree that is handed out again."""
    holds = survey.held(store, tree.owner)
    if len(holds) != 1 or holds[0]["plan_path"] != tree.plan or not _has_work(tree):
        return None
    return str(holds[0]["step_anchor"])


def _has_work(tree: Tree) -> bool:
    return bool(survey.changes(tree.path)) or salvage.has_put_aside(tree.path)


def _answer(
    repo: Repository, store: Store, order: Order, tree: Tree | None, row: Row, *, committed: bool
) -> Data:
    lists = state.ready(store, order.file.key)
    return {
        # Its own name and the root's: the row's spelling is for comparing.
        "worktree_path": os.path.join(survey.directory(repo), os.path.basename(row["path"])),
        "branch_name": row["branch"],
        "base_branch": row["base_branch"],
        "plan_path": order.file.key,
        "total_steps": len(lists["all_steps"]),  # type: ignore[arg-type]  # a list of anchors
        "all_steps": lists["all_steps"],
        "ready_steps": lists["ready_steps"],
        "completed_steps": lists["completed_steps"],
        "reused": tree is not None,
        "state_initialized": True,
        "plan_committed": committed,
        "reserved_until": row["reserved_until"],
        "claim": None,
        "resumes": None if tree is None else _resumed(store, tree),
    }


def _taken(repo: Repository, store: Store, order: Order, onto: str) -> Tree | None:
    """A worktree that this very request was given before, or one that is free."""
    key = order.file.key
    with store.read(key) as tx:
        now, rows = tx.now, {row["path"]: row for row in tx.all(sql_git.WORKTREES_OF)}
    if not rows:
        return None
    trees = [tree for tree in survey.trees(repo, store) if tree.owner in rows and tree.exists]
    if order.request_id is not None:
        same = [t for t in trees if rows[t.owner]["reserved_for"] == order.request_id]
        if same:
            return same[0]
    return None if order.new else next(_free(repo, store, order, onto, trees, now), None)


def free(repo: Repository, store: Store, order: Order) -> list[Tree]:
    """The worktrees that could be taken for the plan, in the order in which they would be."""
    key = order.file.key
    onto = base.branch(repo, asked=order.base, target=base.target_branch(order.parsed))
    with store.read(key) as tx:
        now, paths = tx.now, {row["path"] for row in tx.all(sql_git.WORKTREES_OF)}
    trees = [tree for tree in survey.trees(repo, store) if tree.owner in paths and tree.exists]
    return list(_free(repo, store, order, onto, trees, now))


def _free(
    repo: Repository, store: Store, order: Order, onto: str, trees: list[Tree], now: str
) -> Iterator[Tree]:
    wanted = [tree for tree in trees if tree.row["base_branch"] == onto or order.base is None]  # type: ignore[index]  # recorded
    # Where somebody left a step unfinished, its work lies.
    wanted.sort(key=lambda tree: not survey.held(store, tree.owner))
    return (tree for tree in wanted if _is_free(repo, store, order, tree, now))


def _is_free(repo: Repository, store: Store, order: Order, tree: Tree, now: str) -> bool:
    row, facts = tree.row, tree.facts
    assert row is not None
    assert facts is not None
    reserved = (row["reserved_until"] or "") >= now and not holder.ended(row["reserved_for"])
    # An orchestrator keeps its worktrees also between two claims.
    if reserved or holder.lives(row["reserved_for"]) or "locked" in facts:
        return False
    if facts.get("branch") != row["branch"] or plan_differs(tree.path, order):
        return False
    holds = survey.held(store, tree.owner)
    if any(step["lease"] == "live" for step in holds):
        return False
    if not _can_be_resumed(store, order, tree, holds):
        return False
    return not _is_spent(repo, row, facts["HEAD"])


def _can_be_resumed(store: Store, order: Order, tree: Tree, holds: list[Data]) -> bool:
    """Whether nothing lies there uncommitted, or the caller goes on with what it belongs to.

    It belongs to the one step that the worktree holds; else to nobody we know, and whoever
    worked there on another step would mix the two, or commit somebody else's work as its own.
    """
    if not _has_work(tree):
        return True
    if len(holds) != 1 or holds[0]["plan_path"] != order.file.key:
        return False
    anchor = str(holds[0]["step_anchor"])
    with store.read(order.file.key) as tx:
        step = tx.one(sql.STEP, anchor=anchor)
    # Another could not be given out instead of it.
    takeable = step["parked_at"] is None and step["open_deps"] == 0
    return takeable and order.step in (None, anchor)


def _is_spent(repo: Repository, row: Row, tip: str) -> bool:
    """Its work has landed: it waits for cleanup, and a new one starts from a newer base."""
    if tip == row["base_commit"]:
        return False
    onto = base.commit_of(repo.root, f"refs/heads/{row['base_branch']}")
    return onto is None or landed.has_landed(repo.root, tip, onto)


def _reserved(store: Store, order: Order, tree: Tree) -> Row:
    with store.write(order.file.key) as tx:
        tx.run(
            sql_git.RESERVE,
            path=tree.owner,
            until=tx.after(RESERVED_SECONDS),
            reserved_for=order.request_id,
        )
        # Whoever was about to remove it did not get to it, and now it is in use again.
        tx.run(sql_git.DROP_INTENT, kind="remove", path=tree.owner)
        record.note(tx, order.file.key, "worktree_reserve", actor=tree.owner)
        return tx.one(sql_git.WORKTREE, path=tree.owner)
