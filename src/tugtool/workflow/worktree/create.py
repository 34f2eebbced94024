"""worktree create: a branch and a directory for a worker of a plan.

It does everything or leaves nothing. An intent is recorded first; the next command removes
what a dead process was making.
"""

from __future__ import annotations

from tugtool.errors.state import DatabaseError
from tugtool.git import merge_tree, refs
from tugtool.state import record, standings, worktrees
from tugtool.state.record import storable
from tugtool.system import os, process
from tugtool.workflow import plans, records, salvage, worktree
from tugtool.workflow.commit import log
from tugtool.workflow.worktree import branches, build, setup
from tugtool.workflow.worktree.build import Building, plan_differs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from tugtool.git import Repository
    from tugtool.schemas import Issue, StateClaim, WorktreeCreate, WorktreeListWorktreeHeldStep
    from tugtool.store import Row, Store
    from tugtool.workflow.plans import LoadedPlan
    from tugtool.workflow.workspace import Workspace
    from tugtool.workflow.worktree import Worktree
    from tugtool.workflow.worktree.setup import Ready


class WorktreeRequest:
    """A request: the plan, the base branch and the options."""

    __slots__ = (
        *("announce", "base", "commit_plan", "file", "hash", "is_stopped", "new", "parsed", "plan"),
        *("request_id", "step", "text"),
    )

    def __init__(
        self,
        plan: LoadedPlan,
        *,
        base: str | None = None,
        new: bool = False,
        commit_plan: bool = False,
        request_id: str | None = None,
        step: str | None = None,
        is_stopped: Callable[[], bool] | None = None,
        announce: Callable[[str], object] | None = None,
    ) -> None:
        self.plan = plan
        self.file, self.parsed, self.text, self.hash = plan.file, plan.parsed, plan.text, plan.hash
        self.base = base
        self.new = new
        self.commit_plan = commit_plan
        self.request_id = None if request_id is None else storable(request_id)
        #: The step that the caller wants to claim from it, or None.
        self.step = step
        #: Asked during the setup: returns True if the caller no longer wants the worktree.
        self.is_stopped = is_stopped
        #: Gets each setup command and its directory before it runs.
        self.announce = announce


def create_and_claim(
    space: Workspace, order: WorktreeRequest, claim: Mapping[str, Any] | None = None
) -> tuple[WorktreeCreate, list[Issue]]:
    """Make a worktree or take a free one, and claim a step from it. Return both, and warnings."""
    plan, issues = order.file.key, order.plan.issues
    known = _is_recorded(space.store, plan)
    data = create(space.repo, space.store, order)
    issues = [*issues, *setup.issues(data)]
    if not known:
        issues = [*issues, *branches.earlier_branches(space, plan, but=data["branch_name"])]
    if claim is not None:
        claimed, warnings = _claim(space, data, claim)
        data["claim"], issues = claimed, [*issues, *warnings]
        if claimed["claimed"]:
            data["reserved_until"] = None
    return data, issues


def _is_recorded(store: Store, plan: str) -> bool:
    try:
        return standings.is_recorded(store, plan)
    except DatabaseError:
        # Another process is making it, or it is broken, which the next writer reports.
        return True


def _claim(
    space: Workspace, made: WorktreeCreate, terms: Mapping[str, Any]
) -> tuple[StateClaim, list[Issue]]:
    """Claim a step from the new worktree; if that is refused, remove the worktree."""
    from tugtool.workflow import workspace

    # That step or none: another step's work must not mix with the files there.
    step = terms["step"] or made["resumes"]
    try:
        there = workspace.Workspace(space.cwd, made["worktree_path"])
        return workspace.claim(there, made["plan_path"], **{**terms, "step": step})
    except BaseException:
        if not made["reused"]:
            build.discard(space.repo, space.store, made)
        raise


def create(repo: Repository, store: Store, order: WorktreeRequest) -> WorktreeCreate:
    """Make a worktree for the plan, or take a free one; the caller has it for ten minutes."""
    return create_all(repo, store, [order])[0]


def create_all(
    repo: Repository, store: Store, orders: Sequence[WorktreeRequest]
) -> list[WorktreeCreate]:
    """Do that for several requests that differ only in their request id; all or nothing."""
    order = orders[0]
    worktree.require_git()
    preparation = setup.Preparation(repo, is_stopped=order.is_stopped, announce=order.announce)
    place = worktree.directory(repo)
    onto = branches.branch(repo, asked=order.base, target=branches.target_branch(order.parsed))
    committed = plans.require_committed(repo, order, onto)
    start = refs.branch_tip(repo.root, onto)
    assert start is not None, onto
    plans.ignore_state(repo)
    store.create()
    records.refuse_drift(repo, store, order)
    with worktree.worktrees_lock(repo, preparation.lock_seconds()):
        build.repair_creations(repo, store)
        taken = _taken_for(repo, store, orders, onto)
        rest = orders[len(taken) :]
        building = Building(repo, store, rest or orders, place, onto, start, preparation)
        made = building.run() if rest else []
    every = [*((*each, setup.UNTOUCHED) for each in taken)]
    new = ((None, row, ready) for row, ready in zip(made, building.ready, strict=True))
    found = zip(orders, [*every, *new], strict=True)
    return [_answer(repo, store, order, *each, committed=committed) for order, each in found]


def _taken_for(
    repo: Repository, store: Store, orders: Sequence[WorktreeRequest], onto: str
) -> list[tuple[Worktree, Row]]:
    """Return an existing worktree for the first request, or None."""
    found = []
    for order in orders:
        tree = _taken(repo, store, order, onto)
        if tree is None:
            break
        request = order.request_id
        row = worktrees.reserve(store, order.file.key, tree.owner, request=request)
        found.append((tree, row))
    return found


def _resumed(store: Store, tree: Worktree) -> str | None:
    """Return the step whose uncommitted work is in a worktree that is given out again."""
    holds = worktrees.claimed_steps(store, tree.owner)
    if len(holds) != 1 or holds[0]["plan_path"] != tree.plan or not _has_work(tree):
        return None
    return holds[0]["step_anchor"]


def _has_work(tree: Worktree) -> bool:
    return bool(worktree.changes(tree.path)) or salvage.has_put_aside(tree.path)


def _answer(
    repo: Repository,
    store: Store,
    order: WorktreeRequest,
    tree: Worktree | None,
    row: Row,
    ready: Ready,
    *,
    committed: bool,
) -> WorktreeCreate:
    lists = standings.ready(store, order.file.key)
    return {
        # The row's spelling is only for comparing, so join the root and the name.
        "worktree_path": os.path.join(worktree.directory(repo), os.path.basename(row["path"])),
        "branch_name": row["branch"],
        "base_branch": row["base_branch"],
        "plan_path": order.file.key,
        "total_steps": len(lists["all_steps"]),
        "all_steps": lists["all_steps"],
        "ready_steps": lists["ready_steps"],
        "completed_steps": lists["completed_steps"],
        "reused": tree is not None,
        "state_initialized": True,
        "plan_committed": committed,
        "reserved_until": row["reserved_until"],
        "claim": None,
        "resumes": None if tree is None else _resumed(store, tree),
        "setup": ready.setup,
        "copied": ready.copied,
        "not_copied": ready.not_copied,
        "left_by_setup": ready.left,
    }


def _taken(repo: Repository, store: Store, order: WorktreeRequest, onto: str) -> Worktree | None:
    """Return the worktree of this very request, or a free one, or None."""
    rows, now = worktrees.by_path(store, order.file.key)
    if not rows:
        return None
    trees = [tree for tree in worktree.trees(repo, store) if tree.owner in rows and tree.exists]
    for tree in trees:
        if order.request_id is not None and rows[tree.owner]["reserved_for"] == order.request_id:
            return tree
    return None if order.new else next(_free(repo, store, order, onto, trees, now), None)


def free(repo: Repository, store: Store, order: WorktreeRequest) -> Iterator[Worktree]:
    """Yield the worktrees that the plan can use, in order of preference."""
    onto = branches.branch(repo, asked=order.base, target=branches.target_branch(order.parsed))
    paths, now = worktrees.by_path(store, order.file.key)
    trees = [tree for tree in worktree.trees(repo, store) if tree.owner in paths and tree.exists]
    return _free(repo, store, order, onto, trees, now)


def _free(
    repo: Repository,
    store: Store,
    order: WorktreeRequest,
    onto: str,
    trees: list[Worktree],
    now: str,
) -> Iterator[Worktree]:
    wanted = [tree for tree in trees if tree.row["base_branch"] == onto or order.base is None]  # type: ignore[index]  # recorded
    # An unfinished step's work is in the worktree that holds it.
    wanted.sort(key=lambda tree: not worktrees.claimed_steps(store, tree.owner))
    return (tree for tree in wanted if _is_free(repo, store, order, tree, now))


def _is_free(
    repo: Repository, store: Store, order: WorktreeRequest, tree: Worktree, now: str
) -> bool:
    row, facts = tree.row, tree.facts
    assert row is not None
    assert facts is not None
    reserved = (row["reserved_until"] or "") >= now and not process.ended(row["reserved_for"])
    # An orchestrator keeps its worktrees between two claims.
    if reserved or process.lives(row["reserved_for"]) or "locked" in facts:
        return False
    if facts.get("branch") != row["branch"] or plan_differs(tree.path, order):
        return False
    holds = worktrees.claimed_steps(store, tree.owner)
    if any(step["lease"] == "live" for step in holds):
        return False
    if not _can_be_resumed(store, order, tree, holds):
        return False
    # To continue a step, it does not matter what else has landed.
    return bool(holds) or not _is_spent(repo, row, facts["HEAD"])


def _can_be_resumed(
    store: Store, order: WorktreeRequest, tree: Worktree, holds: list[WorktreeListWorktreeHeldStep]
) -> bool:
    """Return whether nothing is uncommitted, or the caller continues the step it belongs to.

    The files belong to the one step that the worktree holds. Without such a step they belong to
    an unknown worker, and another step's worker would mix or commit them.
    """
    if not _has_work(tree):
        return True
    if len(holds) != 1 or holds[0]["plan_path"] != order.file.key:
        return False
    anchor = holds[0]["step_anchor"]
    step = record.find_step(store, order.file.key, anchor)
    assert step is not None
    # Otherwise another step would be given out here.
    takeable = step["parked_at"] is None and step["open_deps"] == 0
    return takeable and order.step in (None, anchor)


def _is_spent(repo: Repository, row: Row, tip: str) -> bool:
    """Return whether its work has landed: then cleanup removes it, and a new one is better."""
    if tip == row["base_commit"]:
        return False
    onto = refs.branch_tip(repo.root, row["base_branch"])
    return onto is None or merge_tree.has_landed(repo.root, tip, onto, log.repaired, log.PATH)
