"""merge --push: push the base branch to the remote, never by force."""

from __future__ import annotations

from tugtool.errors import plan_argument, quoted
from tugtool.errors.git import MergeRefused
from tugtool.errors.server import NotPublished
from tugtool.git import advance, refs
from tugtool.git import remote as git_remote
from tugtool.plan import catalog
from tugtool.state import history, intents, proofs
from tugtool.store.owners import machine_of
from tugtool.system import crash
from tugtool.workflow import remote
from tugtool.workflow.worktree.branches import BranchMap, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.git import Repository
    from tugtool.state.proofs import Facts
    from tugtool.store import Row, Store
    from tugtool.workflow.workspace import Workspace


#: In the words of a remote: the branch is reached by a pull request only.
_PROTECTED = ("protected", "pull request", "merge request")


def merged_before(
    repo: Repository, store: Store, plan: str
) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Refuse a base branch that the remote would not take. Return the answer if it is merged.

    If another machine has merged the plan and never pushed that, return a warning: it is merged
    anew, from the branches at the remote.
    """
    facts = proofs.facts(store, plan)
    to = remote.remote_of(repo.root)
    if to is None:
        reason = "--push needs a remote, and [remote] name is not set in .tugtool/config.toml"
        raise MergeRefused(plan, reason=reason, hint="tugcode config")
    base = BranchMap(repo).base(facts.worktrees, facts.text)
    if base is not None:
        _refuse_older(repo, to, plan, base)
    merged, tip = facts.row["merged_commit"], refs.branch_tip(repo.root, base)
    if merged is None or tip is None:
        return None, []
    late, is_here = facts.unpushed, refs.is_ancestor(repo.root, merged, tip)
    _, begun = proofs.merge_facts(store, plan, repo.root)
    if begun is not None and (is_here or late is None) and _has_moved(repo, begun):
        # An interrupted merge is finished first.
        return None, []
    if is_here:
        if begun is not None and begun["plan_path"] == plan:
            # It was interrupted before anything moved, and another machine has merged the plan.
            proofs.give_up(store, plan, repo.root, begun["detail"])
        return _answer(plan, base, merged), []
    if late is None:
        raise _merged_elsewhere(store, to, plan, merged)
    where = machine_of(late["by"] or "") or "another clone of this machine"
    message = (
        f"{where} has merged {plan} as {merged[:12]} and never pushed that, so it is merged anew; "
        f"to go on there: git pull --no-rebase {to.name} {quoted(str(base))}"
    )
    return None, [{"code": "W173", "severity": "warning", "message": message}]


def _has_moved(repo: Repository, begun: Row) -> bool:
    """Return whether an interrupted merge has moved the base branch."""
    return advance.has_moved(repo, intents.detail(begun))


def merged_already(facts: Facts) -> MergeRefused:
    """Return E062 for a plan that is merged; with --push another machine can merge it anew."""
    plan, was, late = facts.plan, facts.row["merged_commit"], facts.unpushed
    reason, hint = f"it has been merged, as {was}", None
    if late is not None:
        where = machine_of(late["by"] or "") or "this machine"
        reason += f" on {where}, and {late['remote']} does not have that"
        hint = f"tugcode merge {plan_argument(plan)} --push"
    return MergeRefused(plan, reason=reason, hint=hint, merged_commit=was)


def _answer(plan: str, base: str | None, merged: str) -> dict[str, Any]:
    """Return the answer for a plan that was merged before."""
    return {
        "plan_path": plan,
        "merged": True,
        "dry_run": False,
        "resumed": True,
        "squash": False,
        "base_branch": base,
        "merged_commit": merged,
        "branches": [],
        "conflicts": [],
        "unsettled": [],
        "unproven_by": None,
        "checks": [],
        "removed_worktrees": [],
        "removed_branches": [],
        "left": [],
        "salvages": 0,
    }


def _merged_elsewhere(store: Store, to: remote.Remote, plan: str, merged: str) -> MergeRefused:
    """Return E062: another machine has merged the plan, and the remote lacks that."""
    merges = [each for each in history.log(store, plan)["events"] if each["kind"] == "merge"]
    where = machine_of((merges[-1]["actor"] or "") if merges else "") or "another clone"
    again = f"tugcode merge {plan_argument(plan)} --push"
    reason = f"{where} has merged it, as {merged}, and {to.name} does not have that; on {where}: "
    return MergeRefused(plan, reason=f"{reason}{again}", hint=f"tugcode log {plan_argument(plan)}")


def _refuse_older(repo: Repository, to: remote.Remote, plan: str, base: str) -> None:
    """Raise E062 if the remote's base branch has commits that this one lacks."""
    refusal = to.fetch(repo.root, [git_remote.branch_spec(to.name, base)])
    if refusal is not None and refusal.kind != "gone":
        reason = f"{to.name} cannot be asked for {base}: {remote.meaning(refusal)}"
        again = f"tugcode merge {plan_argument(plan)}"
        hint = "tugcode trust" if refusal.kind == "untrusted" else again
        raise MergeRefused(plan, reason=reason, hint=hint)
    theirs = refs.commit_of(repo.root, git_remote.tracking(to.name, base))
    own = refs.branch_tip(repo.root, base) or ""
    if theirs is not None and not refs.is_ancestor(repo.root, theirs, own):
        reason = f"{to.name} has commits on {base} that this clone lacks"
        raise MergeRefused(plan, reason=reason, hint=_pull(repo, to, base, theirs))


def _pull(repo: Repository, to: remote.Remote, base: str, theirs: str) -> str:
    """Return the command that brings the remote's commits to the base branch here."""
    own = refs.branch_tip(repo.root, base) or ""
    how = "--ff-only" if refs.is_ancestor(repo.root, own, theirs) else "--no-rebase"
    return f"git pull {how} {to.name} {quoted(base)}"


def unpushed(repo: Repository, data: Any, issues: list[dict[str, Any]]) -> Any:
    """Add to the answer of a merge without --push that the remote lacks it."""
    to = remote.remote_of(repo.root)
    assert to is not None, repo.root
    base = data["base_branch"]
    theirs = refs.commit_of(repo.root, git_remote.tracking(to.name, base))
    if data["dry_run"] and theirs is not None:
        to.fetch(repo.root, [git_remote.branch_spec(to.name, base)])
        theirs = refs.commit_of(repo.root, git_remote.tracking(to.name, base)) or theirs
        if not refs.is_ancestor(repo.root, theirs, refs.branch_tip(repo.root, base) or ""):
            message = f"{to.name} has commits on {base} that this clone lacks"
            hint = _pull(repo, to, base, theirs)
            issues.append({"code": "W174", "severity": "warning", "message": message, "hint": hint})
    return {**data, "unpushed_to": to.name} if data["merged"] else data


def push(
    space: Workspace, data: Any, issues: list[dict[str, Any]]
) -> tuple[Any, list[dict[str, Any]]]:
    """Push the merged base branch. Return the answer with `pushed`, and issues."""
    repo, plan, base = space.repo, data["plan_path"], data["base_branch"]
    to = remote.remote_of(repo.root)
    assert to is not None, repo.root
    ref, tip = f"refs/heads/{base}", refs.branch_tip(repo.root, base)
    assert tip is not None, base
    there = refs.commit_of(repo.root, git_remote.tracking(to.name, base)) == tip
    crash.point("push.merged")
    refusal = None if there else to.push(repo.root, {ref: tip}).get(ref)
    crash.point("push.pushed")
    if refusal is None:
        proofs.pushed(space.store, plan, data["merged_commit"], branch=base, actor=space.owner)
        return {**data, "pushed": True, **({"pushed_before": True} if there else {})}, issues
    again = f"tugcode merge {plan_argument(plan)} --push"
    behind = f"git pull --no-rebase {to.name} {quoted(base)}"
    hint = behind if refusal.kind == "behind" else again
    if any(word in refusal.said.lower() for word in _PROTECTED):
        hint = f"git push {to.name} {quoted(f'{base}:refs/heads/{_request_branch(plan)}')}"
    failed = NotPublished(to.name, base, reason=remote.meaning(refusal), hint=hint)
    return {**data, "pushed": False}, [*issues, {**failed.issue()}]


def _request_branch(plan: str) -> str:
    return f"merge-{safe(catalog.slug_of(plan.rpartition('/')[2]))}"
