"""merge: merge all branches of a done plan into its base branch, or none.

The result is prepared first (rehearsal.py), so that the base branch moves once, to a
checked commit. An intent is recorded before that: the next merge finishes a stopped
one.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import NamedTuple

from tugtool.errors import listing, plan_argument, quoted
from tugtool.errors.git import MergeRefused
from tugtool.git import advance, history, merge_tree, refs, trailers
from tugtool.git import command as git
from tugtool.state import attempts, intents, proofs, record, reviews
from tugtool.store.owners import machine_of, on_other_machine
from tugtool.system import config, crash
from tugtool.workflow import plans, salvage, worktree
from tugtool.workflow.commit import log
from tugtool.workflow.merge import push as pushing
from tugtool.workflow.merge import reconcile, rehearsal
from tugtool.workflow.merge.reconcile import Evidence, Range
from tugtool.workflow.merge.rehearsal import Rehearsal
from tugtool.workflow.worktree import branches, build

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from tugtool.git import Repository
    from tugtool.schemas import Merge
    from tugtool.state.proofs import Facts
    from tugtool.store import Row, Store
    from tugtool.workflow.workspace import Workspace
    from tugtool.workflow.worktree.branches import Branch


class _Order(NamedTuple):
    """The options of a merge."""

    squash: bool
    dry_run: bool
    #: The person who merges unproven items; None if they are refused.
    unproven_by: str | None
    #: Commands that have to pass on the merged result.
    check: Sequence[str]
    #: Whether the plan is merged anew, because the merge of another machine never came.
    anew: bool = False


def merge(
    space: Workspace,
    plan: str,
    *,
    squash: bool = False,
    dry_run: bool = False,
    unproven: bool = False,
    push: bool = False,
) -> tuple[Merge, list[dict[str, Any]]]:
    """Merge the plan's branches into its base branch, and remove them. Return data and issues.

    With `push` push the base branch to the remote afterwards, also if it was merged before.
    """
    # Collect warnings before the merge; afterwards they no longer apply.
    repo, store, actor = space.repo, space.store, space.owner
    issues = [*_unapproved(store, plan), *_outgrown(repo, store, plan)]
    if repo.worktree != repo.root:
        reason = f"this is {repo.worktree}, and merging is done in the main worktree, {repo.root}"
        raise MergeRefused(plan, reason=reason, hint=f"cd {quoted(repo.root)}")
    # One at a time: the second merge finds the first one's result.
    with nullcontext() if dry_run else worktree.worktrees_lock(repo), _refusals(store, plan):
        by = space.person() if unproven else None
        travels = space.settings.is_set("remote.name")
        if travels and not dry_run:
            # A clone that only merges has no rule yet for the log of all steps.
            plans.ignore_state(repo)
        order = _Order(squash, dry_run, by, space.settings.words("merge.check"))
        if not push:
            data: Any = _merge(repo, store, plan, issues, order, actor)
            return pushing.unpushed(repo, data, issues) if travels else data, issues
        if not dry_run:
            # An interrupted merge may have left the index locked, and nothing can be pulled then.
            advance.recover(repo)
        before, anew = pushing.merged_before(repo, store, plan)
        issues += anew
        data = before or _merge(repo, store, plan, issues, order._replace(anew=bool(anew)), actor)
        return (data, issues) if dry_run else pushing.push(space, data, issues)


def _unapproved(store: Store, plan: str) -> Iterator[dict[str, Any]]:
    """Warn if the auditor or the integrator has not approved the plan."""
    audit = proofs.audit_of(store, plan)
    if audit is not None:
        message = f"{plan} is done, and not approved as a whole: {audit['summary']}"
        hint = f"tugcode review {plan_argument(plan)}"
        yield {"code": "W140", "severity": "warning", "message": message, "hint": hint}


def _outgrown(repo: Repository, store: Store, plan: str) -> Iterator[dict[str, Any]]:
    """Warn if the base branch has another text of the plan: its new parts are not done."""
    facts = proofs.facts(store, plan)
    base = branches.outgrown(repo, facts)
    if base is not None:
        message, hint = branches.outgrown_text(facts, base)
        yield {"code": "W151", "severity": "warning", "message": message, "hint": hint}


def _merge(
    repo: Repository,
    store: Store,
    plan: str,
    issues: list[dict[str, Any]],
    order: _Order,
    actor: str | None,
) -> Any:
    dry_run = order.dry_run
    if not dry_run:
        rehearsal.drop_check(repo)
    facts, begun = proofs.merge_facts(store, plan, repo.root)
    # Finish or undo what a stopped git left in the main worktree.
    advance.recover(repo, only_look=_again(repo, store, begun, plan) if dry_run else None)
    left_off = _left_off(repo, plan, begun)
    if left_off is not None:
        script, resumed = left_off, True
    else:
        _refuse_unfit(facts, anew=order.anew)
        away = _fetch(repo, facts)
        found = Evidence(Range(repo, facts), facts)
        issues += [*_other_plans(store, found), *reconcile.cut_repairs(store, found)]
        script = _rehearse(repo, found, order=order, away=away)
        issues += rehearsal.left_out(script.pop("left_out"))
        script["unsettled"] = reviews.unsettled(store, plan)
        resumed = begun is not None and begun["plan_path"] == plan
    answer = _answer(plan, script, dry_run=dry_run, resumed=resumed)
    answer["salvages"] = len(salvage.commits(repo.root, salvage.slug(plan)))
    if dry_run:
        merged = [part["branch_name"] for part in script["branches"]]
        return {**answer, "left": rehearsal.staying(repo, store, merged)}
    if left_off is None:
        rehearsal.refuse_unsettled(plan, script["unsettled"], by=order.unproven_by)
        if script["conflicts"]:
            raise _in_conflict(plan, script["conflicts"])
        script["unproven_by"] = answer["unproven_by"] = order.unproven_by
        answer["checks"] = rehearsal.check(repo, plan, script, order.check)
        _move(repo, store, plan, script)
    return {**answer, **_conclude(repo, store, facts, script, actor)}


def finish_interrupted(
    repo: Repository, store: Store, plan: str, *, actor: str | None = None
) -> bool:
    """Finish a merge that was stopped after it moved the base branch; forget an earlier one."""
    if repo.worktree != repo.root:
        reason = f"it is finished in the main worktree, {repo.root}"
        raise MergeRefused(plan, reason=reason, hint=f"cd {quoted(repo.root)}")
    with worktree.worktrees_lock(repo), _refusals(store, plan):
        facts, begun = proofs.merge_facts(store, plan, repo.root)
        if begun is None:
            return True
        advance.recover(repo)
        script = _left_off(repo, plan, begun)
        if script is None:
            proofs.give_up(store, plan, repo.root, begun["detail"])
            return False
        _conclude(repo, store, facts, script, actor)
        return True


@contextmanager
def _refusals(store: Store, plan: str) -> Iterator[None]:
    """Turn a main worktree that cannot move into a refusal of the merge."""
    try:
        yield
    except advance.Blocked as blocked:
        reason, hint = blocked.reason, blocked.hint
        files: Any = blocked.facts.get("files", ())
        said = [
            each for each in attempts.outside(store, plan) if any(name in each for name in files)
        ]
        if said:
            # The person did not change them.
            reason, hint = f"{reason}; {said[-1]}", f"tugcode report {plan_argument(plan)}"
        raise MergeRefused(plan, reason=reason, hint=hint, **blocked.facts) from blocked


def _left_off(repo: Repository, plan: str, begun: Row | None) -> dict[str, Any] | None:
    """Return the stopped merge if the base branch has moved and the rest is to be done."""
    if begun is None:
        return None
    script = intents.detail(begun)
    if not advance.has_moved(repo, script):
        return None
    if begun["plan_path"] != plan:
        other = begun["plan_path"]
        reason = f"the merge of {other} was interrupted and has to be finished first"
        raise MergeRefused(plan, reason=reason, hint=f"tugcode merge {plan_argument(other)}")
    return script


def _again(repo: Repository, store: Store, begun: Row | None, plan: str) -> str:
    """Return the command that continues the command stopped in the main worktree."""
    left = advance.left_off(repo.root, repo.common_dir)
    for row in build.own_intents(repo, store, "join") if left is not None else ():
        script = intents.detail(row)
        if left is not None and script["result"] == left.result:
            return f"tugcode dash join {quoted(script['name'])}"
    return f"tugcode merge {plan_argument(plan if begun is None else begun['plan_path'])}"


def _refuse_unfit(facts: Facts, *, anew: bool) -> None:
    """Refuse a plan whose record does not allow a merge."""
    row, plan = facts.row, facts.plan
    if row["merged_commit"] is not None and not anew:
        raise pushing.merged_already(facts)
    if row["status"] != "done":
        tops = [step for step in facts.steps if step["parent_anchor"] is None]
        unfinished = [step["anchor"] for step in tops if step["status"] != "completed"]
        what = f"not completed: {listing(unfinished)}" if unfinished else f"it is {row['status']}"
        raise MergeRefused(plan, reason=f"only a done plan is merged; {what}", steps=unfinished)


def _other_plans(store: Store, found: Evidence) -> list[dict[str, Any]]:
    """Leave out branches of other plans; refuse commits of an unfinished plan.

    Return a warning for each branch left out, and for commits of unrecorded plans.
    """
    plan, said = found.facts.plan, []
    for branch in [each for each in found.range.branches if _is_anothers(found, each)]:
        found.range.branches.remove(branch)
        said.append(f"{branch.name} is left out: its commits are of other plans")
    coming = history.reachable(found.inside, found.range.tips) - found.on_base - found.reverted
    brought = [(commit, *each) for commit in coming for each in found.others.get(commit, ())]
    known = {other: record.find_plan(store, other) for _, other, _ in brought}
    told: dict[str, list[str]] = {"unfinished": [], "unknown": []}
    for commit, other, anchor in sorted(brought, key=lambda each: each[1:]):
        row = known[other]
        kind = "unknown" if row is None else "unfinished" if row["status"] == "active" else ""
        told.get(kind, []).append(f"{anchor} of {other} ({commit[:12]})")
    if told["unfinished"]:
        named = listing(told["unfinished"])
        reason = f"its branches have commits of plans that are not done: {named}"
        raise MergeRefused(plan, reason=reason, hint="tugcode status")
    if told["unknown"]:
        named = listing(told["unknown"])
        said.append(f"commits of plans that are not recorded come along: {named}")
    return [{"code": "W116", "severity": "warning", "message": each} for each in said]


def _is_anothers(found: Evidence, branch: Branch) -> bool:
    """Return whether a branch only has the plan's name, and all its steps are of other plans."""
    facts = found.facts
    if branch.name in {row["branch"] for row in facts.worktrees}:
        return False
    own = {proof.commit for proofs in found.all_proofs.values() for proof in proofs}
    own |= {step["commit_hash"] for step in facts.steps}
    commits = {commit for commit, home in found.home.items() if home is branch}
    return bool(commits & found.others.keys()) and not commits & own


def _fetch(repo: Repository, facts: Facts) -> str:
    """Fetch the plan's branches, if commits travel by a remote. Return why it did not work."""
    if not config.load(repo.root).is_set("remote.name"):
        return ""
    from tugtool.workflow import remote

    refusal = remote.fetch_plan(repo.root, facts.names, [row["branch"] for row in facts.worktrees])
    return "" if refusal is None else remote.meaning(refusal)


def _rehearse(repo: Repository, found: Evidence, *, order: _Order, away: str) -> dict[str, Any]:
    """Prepare everything without touching anything; `away` is why the remote did not answer."""
    facts, plan = found.facts, found.facts.plan
    base = found.range.base
    if base is None:
        reason = "the main worktree has no branch checked out, and no base branch is recorded"
        raise MergeRefused(plan, reason=reason, hint="git branch")
    advance.refuse_other_branch(repo, base)
    advance.refuse_unclean(repo)
    _refuse_stray_steps(found, away)
    head = refs.head(repo.root)
    rehearsal, squash = Rehearsal(found, head, dry_run=order.dry_run), order.squash
    result, carried = rehearsal.result, []
    if squash and not rehearsal.conflicts and result != head:
        # The squashed commit names all steps that have no commit on the base.
        tops = [step for step in facts.steps if step["parent_anchor"] is None]
        carried = [step["anchor"] for step in tops if not found.is_on_base(step)]
        tree, message = f"{result}^{{tree}}", _squash_message(facts, carried)
        signed = refs.is_signing(repo.root)
        result = refs.commit_tree(repo.root, tree, [head], message, signed=signed)
    if not rehearsal.conflicts:
        advance.refuse_overwriting(repo, head, result)
    return {
        "base_branch": base,
        "head": head,
        "result": result,
        "squash": squash,
        "squashed": carried,
        "branches": [part.told() for part in rehearsal.parts],
        "left_out": rehearsal.left_out,
        "conflicts": rehearsal.conflicts,
    }


def _refuse_stray_steps(found: Evidence, away: str) -> None:
    """Refuse if the commit of a step would not be merged."""
    plan, tips, stray = found.facts.plan, found.range.tips, {}
    coming = history.reachable(found.inside, tips)
    for step in found.facts.steps:
        anchor, hash_ = step["anchor"], step["commit_hash"]
        known = hash_ is None or hash_ in coming or found.is_on_base(step)
        if not known and not _has(found, tips, hash_):
            stray[anchor] = hash_
    if stray:
        root = found.range.root
        _refuse_absent(found, stray, away)
        named = [f"{anchor} ({hash_[:12]}{_saved(root, hash_)})" for anchor, hash_ in stray.items()]
        reason = f"commits of completed steps are on none of its branches: {listing(named)}"
        hint = f"git for-each-ref --contains {next(iter(stray.values()))}"
        raise MergeRefused(plan, reason=reason, hint=hint, commits=stray)


def _refuse_absent(found: Evidence, stray: dict[str, str], away: str) -> None:
    """Raise E062 for commits that other machines made and this clone does not have."""
    root, plan = found.range.root, found.facts.plan
    unknown = refs.unknown(root, stray.values())
    lost = [step for step in found.facts.steps if stray.get(step["anchor"]) in unknown]
    steps = [step for step in lost if on_other_machine(step["completed_by"] or "")]
    if not steps:
        return
    named = [f"{step['anchor']} (made on {machine_of(step['completed_by'])})" for step in steps]
    branch = {row["path"]: row["branch"] for row in found.facts.worktrees}
    reason = f"this clone does not have the commits of {listing(named)}"
    hint = f"git fetch origin {quoted(branch.get(steps[0]['completed_by'], ''))}".rstrip(" '")
    if config.load(root).is_set("remote.name"):
        there = away or "the remote does not have them either: tugcode worktree publish there"
        reason, hint = f"{reason}; {there}", f"tugcode show {plan_argument(plan)}"
    raise MergeRefused(plan, reason=reason, hint=hint, commits=stray)


def _has(found: Evidence, tips: list[str], hash_: str) -> bool:
    """Return whether one of the tips has a commit, or the base branch its changes."""
    root, base = found.range.root, found.range.base_tip
    if any(refs.is_ancestor(root, hash_, tip) for tip in tips):
        return True
    # It may be squashed or rebased without our trailers.
    return base is not None and merge_tree.has_landed(root, hash_, base, log.repaired, log.PATH)


def _saved(root: str, hash_: str) -> str:
    """Return the ref that saved a commit when its worktree was removed, or None."""
    words = ("for-each-ref", "--contains", hash_, "--format=%(refname)", f"{salvage.PREFIX}/")
    refs = git.attempt(*words, cwd=root).out.splitlines()
    return f", saved as {refs[0]}" if refs else ""


def _squash_message(facts: Facts, carried: list[str]) -> str:
    """Return the message: all steps, and a paragraph of trailers for each."""
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


def _in_conflict(plan: str, conflicts: list[dict[str, Any]]) -> MergeRefused:
    told = "; ".join(
        f"{each['branch_name']} in {listing(each['files'])}"
        + (f" (steps {listing(each['steps'])})" if each["steps"] else "")
        for each in conflicts
    )
    return MergeRefused(
        plan,
        reason=f"branches are in conflict: {told}",
        hint=f"tugcode merge {plan_argument(plan)} --dry-run",
        conflicts=conflicts,
    )


def _move(repo: Repository, store: Store, plan: str, script: dict[str, Any]) -> None:
    """Move the main worktree forward to the result, or not at all."""
    kept = intents.add(store, plan, proofs.KIND, repo.root, head=script["head"], detail=script)
    crash.point("merge.intent")
    try:
        advance.move_main(repo, script, command="merge")
    except advance.Blocked:
        proofs.give_up(store, plan, repo.root, kept)
        raise
    crash.point("merge.moved")


def _conclude(
    repo: Repository, store: Store, facts: Facts, script: dict[str, Any], actor: str | None
) -> dict[str, Any]:
    plan, settings = facts.plan, config.load(repo.root)
    to = {"remote": settings.word("remote.name"), "base_branch": script["base_branch"]}
    merged = [(part["branch_name"], part["tip"]) for part in script["branches"]]
    proofs.landed(
        store,
        plan,
        script["result"],
        branches=[name for name, _ in merged],
        squashed=script["squashed"],
        actor=actor,
        unproven=_unproven(script),
        remote=to if settings.is_set("remote.name") else None,
    )
    crash.point("merge.recorded")
    done = rehearsal.tidy(repo, store, merged)
    # Worktrees that git no longer has, also those that a stopped run removed.
    there = {record.owner_of(path) for path, _ in git.worktrees(repo.root)}
    own = [row["path"] for row in facts.worktrees if not on_other_machine(row["path"])]
    gone = [path for path in own if path not in there]
    proofs.end(store, plan, repo.root, gone=gone)
    return {"merged": True, "merged_commit": script["result"], **done}


def _unproven(script: dict[str, Any]) -> dict[str, Any] | None:
    """Return the record of an unproven merge: the person and the items."""
    if script.get("unproven_by") is None or not script.get("unsettled"):
        return None
    items = [[each["step_anchor"], each["kind"], each["ordinal"]] for each in script["unsettled"]]
    return {"by": script["unproven_by"], "items": items}


def _answer(plan: str, script: dict[str, Any], *, dry_run: bool, resumed: bool) -> dict[str, Any]:
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
        "unsettled": script.get("unsettled", []),
        "unproven_by": script.get("unproven_by"),
        "checks": [],
        "removed_worktrees": [],
        "removed_branches": [],
        "left": [],
    }
