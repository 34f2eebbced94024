"""What lies in a worktree whose step was taken is saved before anybody can lose it.

The transaction that takes a step writes down from whom. Whoever took it saves their work after
that, and what a crash left, the next claim. Nothing here refuses: the step is taken already.
"""

from __future__ import annotations

import os

from tugtool import base, belonging, crash, git, landed, salvage
from tugtool.errors import TugError, quoted
from tugtool.plan import catalog
from tugtool.state import record, resuming
from tugtool.store import sql, sql_git
from tugtool.worktree import naming, submodules, survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tugtool.repository import Repository
    from tugtool.store import Row, Store

    Data = dict[str, Any]
    Facts = Mapping[str, str]

#: An answer waits so long for another process that saves the same worktree.
PATIENCE_SECONDS = 20
#: A claim looks at so many worktrees; what still is unsaved then has been told of before.
MOST_PER_CLAIM = 5


def catch_up(
    repo: Repository, store: Store, plan: str | None = None, *, most: int | None = None
) -> list[Data]:
    """Save what is still to be saved, of one plan or of all; what became of each.

    `salvage_ref` is None where there was nothing to save, or a `problem` says why it was not:
    then it is still to be saved, and lies where it was.
    """
    with store.read(plan) as tx:
        rows = tx.all(sql_git.EVERY_UNSAVED if plan is None else sql_git.UNSAVED)[:most]
    if not rows:
        return []
    crash.point("salvage.taken")
    try:
        known = _known(repo)
    except TugError as error:
        return [_outcome(row, None, error.message) for row in rows]
    return [_settled(repo, store, row, known.get(row["worktree"])) for row in rows]


def _known(repo: Repository) -> Mapping[str, Facts]:
    """Every worktree of the repository, by the name under which it holds steps."""
    every = git.worktree_facts(repo.root)
    real = {record.storable(os.path.realpath(facts["worktree"])): facts for facts in every}
    return real | {record.storable(facts["worktree"]): facts for facts in every}


def _outcome(row: Row, ref: str | None, problem: str | None) -> Data:
    return {
        "plan_path": row["plan_path"],
        "step_anchor": row["step_anchor"],
        "attempt": row["number"],
        "worktree": row["worktree"],
        "salvage_ref": ref,
        "problem": problem,
    }


def _settled(repo: Repository, store: Store, row: Row, facts: Facts | None) -> Data:
    try:
        # Whoever has no worktree here, or no longer, has nothing that could be saved.
        if facts is None or not os.path.isdir(facts["worktree"]):
            _record(store, row, None)
            return _outcome(row, None, None)
        _refuse_stray(repo, facts["worktree"])
        with salvage.Guard(facts["worktree"], seconds=PATIENCE_SECONDS):
            return _outcome(row, _saved(repo, store, row, facts), None)
    except TugError as error:
        return _outcome(row, None, error.message)
    except (salvage.Unsalvageable, OSError) as error:
        return _outcome(row, None, str(error))


def _refuse_stray(repo: Repository, path: str) -> None:
    wrong = None if path == repo.root else belonging.trouble(repo.common_dir, path)
    if wrong is not None:
        raise salvage.Unsalvageable(wrong)


def _saved(repo: Repository, store: Store, row: Row, facts: Facts) -> str | None:
    """The ref that has the work, if there is any; nobody else is at it."""
    key = {"anchor": row["step_anchor"], "number": row["number"]}
    with store.read(row["plan_path"]) as tx:
        if tx.first(sql_git.IS_UNSAVED, **key) is None:
            # Another process was faster.
            attempt = tx.first(sql.ATTEMPT, **key)
            return attempt and attempt["salvage_ref"]
    has_work = _is_dirty(facts["worktree"]) or _is_nameless(repo, facts)
    ref = _keep(repo, store, row, facts) if has_work else None
    if ref is not None:
        crash.point("salvage.saved")
    _record(store, row, ref)
    crash.point("salvage.recorded")
    return ref


def _is_dirty(path: str) -> bool:
    if salvage.has_put_aside(path):
        return True
    try:
        changed = [entry[3:] for entry in survey.changes(path)]
        within = sorted(set(changed) & set(submodules.filled(path)))
    except TugError:
        # An index that git cannot read says nothing about the files.
        return True
    if within:
        what = f"its submodule {within[0]} has changes, which no commit of it can hold"
        raise salvage.Unsalvageable(what)
    return bool(changed)


def _is_nameless(repo: Repository, facts: Facts) -> bool:
    """Whether its commits are on no branch, nor under any other ref: only its HEAD has them."""
    if "branch" in facts or base.commit_of(repo.root, facts["HEAD"]) is None:
        return False
    words = ("for-each-ref", "--count=1", "--format=%(refname)", "--contains", facts["HEAD"])
    return not git.run(*words, cwd=repo.root)


def _keep(repo: Repository, store: Store, row: Row, facts: Facts) -> str:
    """Save the worktree; a run that was killed before it could say so is not repeated."""
    slug = naming.safe(catalog.slug_of(os.path.basename(row["plan_path"])))
    name = naming.safe(f"{row['step_anchor']}-attempt-{row['number']}")
    ref = salvage.named(slug, name, row["taken_at"])
    path = facts["worktree"]
    earlier = base.commit_of(repo.root, ref)
    if earlier is not None:
        if salvage.saved_tree(repo.root, ref) == salvage.tree_of(path):
            return ref
        ref = salvage.again(repo.root, ref)
    # Of a removal that did not get to its end, and may have deleted files already.
    removed = _removal(repo, store, row["worktree"])
    told = {
        "Plan": row["plan_path"],
        "Step": row["step_anchor"],
        "Attempt": row["number"],
        "Worktree": row["worktree"],
        "Branch": facts.get("branch"),
    }
    salvage.save(path, ref=ref, also=[earlier, removed], facts=told)
    return ref


def _removal(repo: Repository, store: Store, owner: str) -> str | None:
    import json

    with store.read() as tx:
        intent = tx.first(sql_git.INTENT, kind="remove", path=owner)
    ref = json.loads(intent["detail"]).get("salvage_ref") if intent is not None else None
    return base.commit_of(repo.root, ref) if ref else None


def _record(store: Store, row: Row, ref: str | None) -> None:
    key = {"anchor": row["step_anchor"], "number": row["number"]}
    with store.write(row["plan_path"]) as tx:
        if not tx.run(sql_git.DROP_UNSAVED, **key) or ref is None:
            return
        tx.run(sql_git.SET_SALVAGE, **key, salvage_ref=ref)
        record.note(
            tx,
            row["plan_path"],
            "salvage",
            anchor=row["step_anchor"],
            actor=row["worktree"],
            attempt=row["number"],
            salvage_ref=ref,
        )


def trace(repo: Repository, store: Store, claim: Data) -> None:
    """Fill in what only git knows of the attempt before a claim, as far as it can be known."""
    before = claim["previous_attempt"]
    plan, owner = claim["plan_path"], claim["worktree"]
    try:
        with store.read(plan) as tx:
            saved = tx.all(sql_git.SALVAGES, anchor=claim["anchor"])
            other = tx.first(
                sql_git.ATTEMPT_ELSEWHERE,
                anchor=claim["anchor"],
                number=claim["attempt"],
                owner=owner,
            )
        there = set(refs(repo))
        saved = [row for row in saved if row["salvage_ref"] in there]
        own = [row["salvage_ref"] for row in saved if row["number"] == before["number"]]
        before["salvage_refs"] = [row["salvage_ref"] for row in saved[: resuming.MOST_REFS]]
        claim["salvage_ref"] = before["salvage_ref"] = own[0] if own else None
        before["branch"], before["commits_ahead"] = _branch(repo, store, before["worktree"])
        commands = _merges(repo, store, other["worktree"], owner) if other is not None else []
    except (TugError, OSError):
        return
    # What was saved of the caller's own worktree still lies in it.
    if saved and saved[0]["worktree"] != owner:
        commands.append(f"tugcode worktree salvage apply {quoted(saved[0]['salvage_ref'])}")
    before["recover"] = commands


def _merges(repo: Repository, store: Store, other: str, owner: str) -> list[str]:
    """What brings the commits of another worktree in, unless they are there already."""
    branch, ahead = _branch(repo, store, other)
    if not branch or not ahead:
        return []
    here, tip = _known(repo).get(owner), base.commit_of(repo.root, f"refs/heads/{branch}")
    if here is not None and tip is not None and landed.is_ancestor(repo.root, tip, here["HEAD"]):
        return []
    return [f"git merge {quoted(branch)}"]


def refs(repo: Repository) -> list[str]:
    """Every salvage ref there is."""
    out = git.run("for-each-ref", "--format=%(refname)", f"{salvage.PREFIX}/", cwd=repo.root)
    return out.split("\n")[:-1]


def _branch(repo: Repository, store: Store, owner: str) -> tuple[str | None, int | None]:
    """The branch of a worktree, and how many commits it is ahead of its base."""
    facts = _known(repo).get(owner)
    with store.read() as tx:
        row = tx.first(sql_git.WORKTREE, path=owner)
    known: Mapping[str, Any] = facts or (dict(row) if row is not None else {})
    if not known:
        return None, None
    branch = known.get("branch")
    tip = base.commit_of(repo.root, facts["HEAD"] if facts else f"refs/heads/{branch}")
    onto = survey.base_branch(repo, survey.Tree(owner, row, facts))
    target = base.commit_of(repo.root, f"refs/heads/{onto}") if onto else None
    counts = landed.ahead_and_behind(repo.root, tip, target) if tip and target else None
    return branch, counts and counts[0]
