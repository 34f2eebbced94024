"""merge: a done plan's branches come to its base branch, all of them or none.

Everything is put together beforehand (rehearsal.py), so that the base branch moves once,
to a commit that is known to be right. What is about to happen is written down first: a
merge that was stopped is finished by the next one.
"""

from __future__ import annotations

import json
from contextlib import contextmanager

from tugtool import advancing, crash, git, history, landed, mainline, salvage, tidying, trailers
from tugtool.errors import listing, quoted
from tugtool.evidence import Evidence
from tugtool.git_errors import MergeRefused
from tugtool.rehearsal import Rehearsal, commit, is_ancestor, is_commit
from tugtool.state import dashing, merging, record
from tugtool.worktree import survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tugtool.repository import Repository
    from tugtool.state.reconciling import Facts
    from tugtool.store import Row, Store

    Data = dict[str, Any]


def merge(
    repo: Repository,
    store: Store,
    plan: str,
    *,
    squash: bool = False,
    dry_run: bool = False,
    actor: str | None = None,
) -> Data:
    """Bring the plan's branches to its base branch, and take them away afterwards."""
    if repo.worktree != repo.root:
        reason = f"this is {repo.worktree}, and merging is done in the main worktree, {repo.root}"
        raise MergeRefused(plan, reason=reason, hint=f"cd {quoted(repo.root)}")
    if dry_run:
        return _merge(repo, store, plan, squash=squash, dry_run=True, actor=actor)
    # One at a time: whoever comes second finds what the first has done.
    with _alone(repo):
        return _merge(repo, store, plan, squash=squash, dry_run=False, actor=actor)


def _merge(
    repo: Repository,
    store: Store,
    plan: str,
    *,
    squash: bool,
    dry_run: bool,
    actor: str | None,
) -> Data:
    facts, begun = merging.facts(store, plan, repo.root)
    _recover(repo, store, plan, begun, dry_run=dry_run)
    left_off = _left_off(repo, plan, begun)
    if left_off is not None:
        script, resumed = left_off, True
    else:
        _refuse_unfit(facts)
        script = _rehearse(repo, facts, squash=squash)
        resumed = begun is not None and begun["plan_path"] == plan
    answer = _answer(plan, script, dry_run=dry_run, resumed=resumed)
    if dry_run:
        return answer
    if script["conflicts"]:
        raise _in_conflict(plan, script["conflicts"])
    if left_off is None:
        _move(repo, store, plan, script)
    return {**answer, **_conclude(repo, store, facts, script, actor)}


def settle(repo: Repository, store: Store, plan: str, *, actor: str | None = None) -> bool:
    """Finish a merge that was stopped after it had moved the base branch; else forget it."""
    if repo.worktree != repo.root:
        reason = f"it is finished in the main worktree, {repo.root}"
        raise MergeRefused(plan, reason=reason, hint=f"cd {quoted(repo.root)}")
    with _alone(repo):
        facts, begun = merging.facts(store, plan, repo.root)
        if begun is None:
            return True
        _recover(repo, store, plan, begun, dry_run=False)
        script = _left_off(repo, plan, begun)
        if script is None:
            merging.give_up(store, plan, repo.root, begun["detail"])
            return False
        _conclude(repo, store, facts, script, actor)
        return True


@contextmanager
def _alone(repo: Repository) -> Iterator[None]:
    """While nobody else merges, joins, or makes or removes worktrees."""
    queue = survey.lock(repo)
    queue.enter()
    try:
        yield
    finally:
        queue.leave()


def _left_off(repo: Repository, plan: str, begun: Row | None) -> Data | None:
    """The merge that was begun, if the base branch has moved and the rest is to be done."""
    if begun is None:
        return None
    script: Data = json.loads(begun["detail"])
    if not mainline.Step(script["base_branch"], begun["head"], script["result"]).is_taken(repo):
        return None
    if begun["plan_path"] != plan:
        other = begun["plan_path"]
        reason = f"the merge of {other} was interrupted and has to be finished first"
        raise MergeRefused(plan, reason=reason, hint=f"tugcode merge {quoted(other)}")
    return script


def _recover(
    repo: Repository, store: Store, plan: str, begun: Row | None, *, dry_run: bool
) -> None:
    """Finish or undo what a git that was stopped has left in the main worktree."""

    def refuse(reason: str, hint: str, **facts: object) -> MergeRefused:
        return MergeRefused(plan, reason=reason, hint=hint, **facts)

    again = _again(repo, store, begun, plan) if dry_run else None
    mainline.recover(repo, refuse, only_look=again)


def _again(repo: Repository, store: Store, begun: Row | None, plan: str) -> str:
    """The command that goes on with whatever was stopped while it moved the main worktree."""
    left = advancing.left_off(repo.root, repo.common_dir)
    for row in dashing.intents(store, "join") if left is not None else ():
        script = json.loads(row["detail"])
        if left is not None and script["result"] == left.result:
            return f"tugcode dash join {quoted(script['name'])}"
    return f"tugcode merge {quoted(plan if begun is None else begun['plan_path'])}"


def _refuse_unfit(facts: Facts) -> None:
    """What the record has against it."""
    row, plan = facts.row, facts.plan
    if row["merged_commit"] is not None:
        was = row["merged_commit"]
        raise MergeRefused(plan, reason=f"it has been merged, as {was}", merged_commit=was)
    if row["status"] != "done":
        tops = [step for step in facts.steps if step["parent_anchor"] is None]
        unfinished = [step["anchor"] for step in tops if step["status"] != "completed"]
        what = f"not completed: {listing(unfinished)}" if unfinished else f"it is {row['status']}"
        raise MergeRefused(plan, reason=f"only a done plan is merged; {what}", steps=unfinished)


def _rehearse(repo: Repository, facts: Facts, *, squash: bool) -> Data:
    """Everything that is to happen, found out without touching anything."""
    plan = facts.plan
    found = Evidence(repo, facts)
    if found.base is None:
        reason = "the main worktree has no branch checked out, and no base branch is recorded"
        raise MergeRefused(plan, reason=reason, hint="git branch")

    def refuse(reason: str, hint: str, **facts: object) -> MergeRefused:
        return MergeRefused(plan, reason=reason, hint=hint, **facts)

    mainline.refuse_other_branch(repo, found.base, refuse)
    mainline.refuse_unclean(repo, refuse)
    _refuse_stray_steps(found)
    head = mainline.head(repo)
    rehearsal = Rehearsal(found, head)
    result, carried = rehearsal.result, []
    if squash and not rehearsal.conflicts and result != head:
        carried = _carried(found)
        tree = rehearsal.tree(result)
        result = commit(repo.root, tree, [head], _squash_message(facts, carried))
    if not rehearsal.conflicts:
        mainline.refuse_overwriting(repo, head, result, refuse)
    return {
        "base_branch": found.base,
        "head": head,
        "result": result,
        "squash": squash,
        "squashed": carried,
        "branches": [part.told() for part in rehearsal.parts],
        "conflicts": rehearsal.conflicts,
    }


def _refuse_stray_steps(found: Evidence) -> None:
    """A step whose commit would not come along must not be left behind unseen."""
    plan, stray = found.facts.plan, {}
    tips = [tip for tip in (found.base_tip, *(each.tip for each in found.branches)) if tip]
    coming = history.reachable(found.inside, tips)
    for step in found.facts.steps:
        anchor, hash_ = step["anchor"], step["commit_hash"]
        if hash_ is None or hash_ in coming or found.is_on_base(step):
            continue
        if not _has(found, tips, hash_):
            stray[anchor] = hash_
    if stray:
        root = found.land.root
        named = [f"{anchor} ({hash_[:12]}{_saved(root, hash_)})" for anchor, hash_ in stray.items()]
        reason = f"commits of completed steps are on none of its branches: {listing(named)}"
        hint = f"git for-each-ref --contains {next(iter(stray.values()))}"
        raise MergeRefused(plan, reason=reason, hint=hint, commits=stray)


def _has(found: Evidence, tips: list[str], hash_: str) -> bool:
    """Whether one of the tips has a commit, or the base branch what is in it."""
    root, base = found.land.root, found.base_tip
    if not is_commit(root, hash_):
        return False
    if any(is_ancestor(root, hash_, tip) for tip in tips):
        return True
    # Squashed or rebased by somebody, without our trailers.
    return base is not None and landed.has_landed(root, hash_, base)


def _saved(root: str, hash_: str) -> str:
    """Where a commit is that was saved when its worktree went; git may not even have it."""
    words = ("for-each-ref", "--contains", hash_, "--format=%(refname)", f"{salvage.PREFIX}/")
    refs = git.attempt(*words, cwd=root).out.splitlines()
    return f", saved as {refs[0]}" if refs else ""


def _carried(found: Evidence) -> list[str]:
    """The steps that the squashed commit has to speak for: all that have none on the base."""
    steps = [step for step in found.facts.steps if step["parent_anchor"] is None]
    return [step["anchor"] for step in steps if not found.is_on_base(step)]


def _squash_message(facts: Facts, carried: list[str]) -> str:
    """What was done, and one set of trailers per step, each a paragraph of its own."""
    rows = {step["anchor"]: step for step in facts.steps}
    title = " ".join((facts.row["phase_title"] or "").split())
    sets = [
        trailers.written(
            facts.plan, anchor, plan_hash=facts.plan_hash, attempt=rows[anchor]["attempt"]
        )
        for anchor in carried
    ]
    steps = "".join(f"* {anchor}: {rows[anchor]['title']}\n" for anchor in carried)
    return "\n".join([f"{facts.plan}: {title}" if title else facts.plan, "", steps, *sets])


def _in_conflict(plan: str, conflicts: list[Data]) -> MergeRefused:
    told = "; ".join(
        f"{each['branch_name']} in {listing(each['files'])}"
        + (f" (steps {listing(each['steps'])})" if each["steps"] else "")
        for each in conflicts
    )
    return MergeRefused(
        plan,
        reason=f"branches are in conflict: {told}",
        hint=f"tugcode merge {quoted(plan)} --dry-run --json",
        conflicts=conflicts,
    )


def _move(repo: Repository, store: Store, plan: str, script: Data) -> None:
    """Let the main worktree follow to the result: one step forward, or none."""
    kept = merging.begin(store, plan, repo.root, head=script["head"], detail=script)
    crash.point("merge.intent")
    step = mainline.Step(script["base_branch"], script["head"], script["result"])
    said = step.take(
        repo,
        locked=lambda: crash.point("merge.locked"),
        advanced=lambda: crash.point("merge.advanced"),
    )
    if said is not None:
        merging.give_up(store, plan, repo.root, kept)
        reason = f"git does not move the main worktree: {said}"
        raise MergeRefused(plan, reason=reason, hint="git status")
    crash.point("merge.moved")


def _conclude(
    repo: Repository, store: Store, facts: Facts, script: Data, actor: str | None
) -> Data:
    plan = facts.plan
    merged = [(part["branch_name"], part["tip"]) for part in script["branches"]]
    merging.landed(
        store,
        plan,
        script["result"],
        branches=[name for name, _ in merged],
        squashed=script["squashed"],
        actor=actor,
    )
    crash.point("merge.recorded")
    done = tidying.tidy(repo, store, merged)
    merging.end(store, plan, repo.root, gone=_gone(repo, facts))
    return {
        "merged": True,
        "merged_commit": script["result"],
        "removed_worktrees": done.worktrees,
        "removed_branches": done.branches,
        "left": done.left,
    }


def _gone(repo: Repository, facts: Facts) -> list[str]:
    """The recorded worktrees that git has no more, also those that a stopped run removed."""
    there = {record.storable(path) for path, _ in git.worktrees(repo.root)}
    return [row["path"] for row in facts.worktrees if row["path"] not in there]


def _answer(plan: str, script: Data, *, dry_run: bool, resumed: bool) -> Data:
    return {
        "plan_path": plan,
        "merged": False,
        "dry_run": dry_run,
        "resumed": resumed,
        "squash": script["squash"],
        "base_branch": script["base_branch"],
        "merged_commit": None,
        "branches": script["branches"],
        "conflicts": script["conflicts"],
        "removed_worktrees": [],
        "removed_branches": [],
        "left": [],
    }
