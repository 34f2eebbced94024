"""worktree cleanup: everything that has landed goes, and of the rest it is said why not."""

from __future__ import annotations

from tugtool import base, git, landed
from tugtool.git_errors import NotRemoved
from tugtool.store import sql
from tugtool.worktree import proof, removing, survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.repository import Repository
    from tugtool.store import Store
    from tugtool.worktree.proof import Look
    from tugtool.worktree.survey import Tree

    Data = dict[str, object]


def cleanup(repo: Repository, store: Store, *, cwd: str, dry_run: bool = False) -> Data:
    """Remove every worktree and branch whose work has landed; say what keeps the others."""
    survey.require_git()
    removed: list[Data] = []
    kept: list[Data] = []
    queue = survey.lock(repo)
    queue.enter()
    try:
        trees = [tree for tree in survey.trees(repo, store) if tree.is_plans]
        for tree in trees:
            if not dry_run:
                removing.finish_deletion(repo, store, tree)
            seen = proof.look(repo, store, tree, cwd=cwd)
            reasons = [*seen.reasons(force=False), *_unmerged(store, tree, seen)]
            if not reasons and not dry_run:
                reasons = _removed(repo, store, tree, seen)
            (kept if reasons else removed).append(_outcome(tree, reasons))
        _clean_branches(repo, {tree.branch for tree in trees}, removed, kept, dry_run=dry_run)
    finally:
        queue.leave()
    return {"dry_run": dry_run, "removed": removed, "kept": kept}


def _removed(repo: Repository, store: Store, tree: Tree, seen: Look) -> list[str]:
    try:
        removing.Removing(repo, store, tree, seen, force=False).run()
    except NotRemoved as error:
        return error.reasons
    return []


def _unmerged(store: Store, tree: Tree, seen: Look) -> list[str]:
    """An empty branch proves nothing: its worktree stays until the plan is merged."""
    if tree.row is None or seen.tip is None or seen.tip != tree.row["base_commit"]:
        return []
    with store.read(tree.plan) as tx:
        plan = tx.first(sql.PLAN)
    if plan is None or plan["status"] != "active" or plan["merged_commit"] is not None:
        return []
    return ["nothing was committed in it yet, and the plan is not done"]


def _outcome(tree: Tree, reasons: list[str]) -> Data:
    return {
        "worktree_path": tree.path,
        "branch_name": tree.branch,
        "plan_path": tree.plan,
        "reasons": reasons,
    }


def _clean_branches(
    repo: Repository, used: set[str | None], removed: list[Data], kept: list[Data], *, dry_run: bool
) -> None:
    """Branches of plans without a worktree: those that have landed go too."""
    done = git.attempt("symbolic-ref", "--quiet", "HEAD", cwd=repo.root)
    onto = done.out.strip() if not done.status else "HEAD"
    target = base.commit_of(repo.root, onto)
    checked_out = {facts.get("branch") for facts in git.worktree_facts(repo.root)}
    for name, tip in survey.branches(repo).items():
        if name in used:
            continue
        reasons = [f"its commits are not on {onto.removeprefix('refs/heads/')}"]
        if name in checked_out:
            reasons = ["it is checked out"]
        elif target is not None and landed.has_landed(repo.root, tip, target):
            reasons = [] if dry_run else _branch_removed(repo, name, tip)
        entry: Data = {"worktree_path": None, "branch_name": name, "plan_path": None}
        entry["reasons"] = reasons
        (kept if reasons else removed).append(entry)


def _branch_removed(repo: Repository, name: str, tip: str) -> list[str]:
    """Nothing, or why not: it has moved on since, or a hook guards it."""
    done = git.attempt("update-ref", "-d", f"refs/heads/{name}", tip, cwd=repo.root)
    return [done.said.strip() or "git does not let it go"] if done.status else []
