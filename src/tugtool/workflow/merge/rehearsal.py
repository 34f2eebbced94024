"""Merge all branches of a plan as objects and check the result; find what can be removed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from tugtool.errors import GitFailed, GitUnusable, listing, plan_argument
from tugtool.errors.git import MergeRefused
from tugtool.git import command as git
from tugtool.git import history, merge_tree, refs, worktrees
from tugtool.git.worktrees import open_directories
from tugtool.state import completion, proofs
from tugtool.system import config, crash, os
from tugtool.system.text import many
from tugtool.workflow import salvage, trust, verify
from tugtool.workflow import worktree as workflow_worktree
from tugtool.workflow.commit import log
from tugtool.workflow.worktree import build
from tugtool.workflow.worktree.branches import Branch, BranchMap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from tugtool.git import Repository
    from tugtool.state.proofs import Facts
    from tugtool.store import Row, Store
    from tugtool.workflow.merge.reconcile import Evidence
    from tugtool.workflow.trust import Permit


@dataclass(eq=False)
class BranchPart:
    """One branch of the plan: its steps, and whether the base branch has it already."""

    branch: Branch
    steps: list[str]
    commits: int
    contained: bool = False

    def told(self) -> dict[str, object]:
        """Return its part of the answer and of the intent."""
        return {
            "branch_name": self.branch.name,
            "worktree_path": self.branch.worktree,
            "tip": self.branch.tip,
            "commits": self.commits,
            "steps": self.steps,
            "already_contained": self.contained,
        }


class Rehearsal:
    """All branches, merged in order into the base branch."""

    def __init__(self, found: Evidence, start: str, *, dry_run: bool) -> None:
        version, oldest = git.version() or "", workflow_worktree.OLDEST_GIT
        if workflow_worktree.is_old(version):
            raise GitUnusable(f"merging needs git {oldest} or newer, and this is {version}")
        self.found, self.root, self.start = found, found.range.root, start
        #: A merge would first write the rule by which logs never conflict.
        self.will_merge_log = dry_run and _is_log_unruled(self.root)
        self.steps_of = {step["anchor"]: step for step in found.facts.steps}
        self.parts = in_order(found.facts, _parts(found))
        self.conflicts: list[dict[str, object]] = []
        #: Branches in conflict whose steps were all done again elsewhere.
        self.left_out: list[str] = []
        self.result = start
        #: The commits of the range that the result has.
        self._there = set(found.on_base)
        for part in self.parts:
            self._add(part)
        self.parts = [part for part in self.parts if part.branch.name not in self.left_out]

    def _add(self, part: BranchPart) -> None:
        tip = part.branch.tip
        if refs.is_ancestor(self.root, tip, self.result):
            part.contained = True
            return
        tree, files = self._merged(part)
        if files and self._is_superseded(part):
            self.left_out.append(part.branch.name)
        elif files:
            steps = self._steps_behind(tip, files)
            self.conflicts.append({"branch_name": part.branch.name, "files": files, "steps": steps})
        elif tree == refs.tree_of(self.root, self.result) and all(
            self.found.is_on_base(self.steps_of[anchor]) for anchor in part.steps
        ):
            # The base branch has its changes already, squashed or rebased.
            part.contained = True
        else:
            # Include other branches that it has merged, as an audit does.
            titles = [f"* {each}: {self.steps_of[each]['title']}" for each in self._brought(tip)]
            lines = [f"Merge {part.branch.name}", "", f"Of {self.found.facts.plan}:", *titles, ""]
            parents, signed = [self.result, tip], refs.is_signing(self.root)
            self.result = refs.commit_tree(
                self.root, tree, parents, "\n".join(lines), signed=signed
            )

    def _is_superseded(self, part: BranchPart) -> bool:
        """Return whether all its commits were made for steps that were done again elsewhere."""
        found = self.found
        own = [found.inside[each] for each, home in found.home.items() if home is part.branch]
        work = {commit.hash for commit in own if len(commit.parents) < 2}
        made = {proof.commit for proofs in found.all_proofs.values() for proof in proofs}
        recorded = {step["commit_hash"] for step in self.steps_of.values()}
        return not part.steps and bool(work) and work <= made - recorded

    def _brought(self, tip: str) -> list[str]:
        """Return the steps whose commits come with a branch, in the plan's order."""
        coming = history.reachable(self.found.inside, [tip]) - self._there
        self._there |= coming
        return [
            anchor
            for anchor, step in self.steps_of.items()
            if step["parent_anchor"] is None
            and coming.intersection(_commits_of(self.found, anchor, step["commit_hash"]))
        ]

    def _merged(self, part: BranchPart) -> tuple[str, list[str]]:
        """Return the tree of a merge, and the files in conflict."""
        done = merge_tree.commits(self.root, self.result, part.branch.tip, log.repaired)
        if done.refusal:
            raise MergeRefused(
                self.found.facts.plan,
                reason=f"git cannot merge {part.branch.name}: {done.refusal}",
                hint="git log --oneline --graph --all",
                branch=part.branch.name,
            )
        files = done.files
        return done.tree, [f for f in files if f != log.PATH] if self.will_merge_log else files

    def _steps_behind(self, tip: str, files: Sequence[str]) -> list[str]:
        """Return the steps whose commits touch the files on either side."""
        out = git.run(
            *("--literal-pathspecs", "log", "-z", "--format=%H", f"{self.result}...{tip}", "--"),
            *files,
            cwd=self.root,
        )
        touched = set(out.split("\0"))
        return [
            anchor
            for anchor in self.steps_of
            if any(proof.commit in touched for proof in self.found.all_proofs.get(anchor, ()))
        ]


def _is_log_unruled(root: str) -> bool:
    out = git.run("check-attr", "-z", "merge", "--", log.PATH, cwd=root)
    return out.split("\0")[2] == "unspecified"


def left_out(names: Iterable[str]) -> list[dict[str, Any]]:
    """Warn of branches that are left out, because their steps were done again elsewhere."""
    why = "is left out: its steps were done again elsewhere, and it conflicts with that"
    said = [f"{name} {why}" for name in names]
    return [{"code": "W116", "severity": "warning", "message": each} for each in said]


def in_order(facts: Facts, parts: Iterable[BranchPart]) -> list[BranchPart]:
    """Order the branches: dependencies first, otherwise as in the plan."""
    place = {step["anchor"]: step["step_index"] for step in facts.steps}
    home = {anchor: parent or anchor for anchor, parent in facts.parents.items()}
    needs: dict[str, set[str]] = {}
    for anchor, need in facts.needs:
        needs.setdefault(home[anchor], set()).add(home[need])

    def first(part: BranchPart) -> tuple[int, str]:
        return min((place[each] for each in part.steps), default=len(place)), part.branch.name

    waiting, ordered = sorted(parts, key=first), []
    while waiting:
        # A branch without its own step comes last: others may contain it.
        free = [part for part in waiting if part.steps and not _waits(part, waiting, needs)]
        # Branches that wait for each other have merged each other, so the plan's order decides.
        chosen = (free or waiting)[0]
        waiting.remove(chosen)
        ordered.append(chosen)
    return ordered


def _waits(part: BranchPart, waiting: Sequence[BranchPart], needs: dict[str, set[str]]) -> bool:
    wanted = {need for anchor in part.steps for need in needs.get(anchor, ())}
    return any(wanted.intersection(other.steps) for other in waiting if other is not part)


def _parts(found: Evidence) -> list[BranchPart]:
    steps: dict[str, list[str]] = {branch.name: [] for branch in found.range.branches}
    for step in found.facts.steps:
        branch = _branch_of(found, step)
        if branch is not None and step["parent_anchor"] is None:
            steps[branch.name].append(step["anchor"])
    base, root = found.range.base_tip, found.range.root
    ahead = {
        branch.name: int(git.run("rev-list", "--count", f"{base}..{branch.tip}", cwd=root))
        for branch in found.range.branches
    }
    return [BranchPart(each, steps[each.name], ahead[each.name]) for each in found.range.branches]


def _branch_of(found: Evidence, step: Row) -> Branch | None:
    """Return the branch of a step's commit: from the record, or else from git."""
    commits = _commits_of(found, step["anchor"], step["commit_hash"])
    home = next((found.home[each] for each in commits if each in found.home), None)
    names = {row["path"]: row["branch"] for row in found.facts.worktrees}
    name = names.get(step["completed_by"])
    own = next((each for each in found.range.branches if each.name == name), None)
    # Another branch may have moved forward to the commit; and a sync may have moved its own
    # branch forward to a merge whose first parent is another step.
    line = history.reachable(found.inside, [own.tip]).intersection(commits) if own else set()
    return (own if line - found.on_base else None) if line else home


def _commits_of(found: Evidence, anchor: str, recorded: str | None) -> list[str]:
    return [recorded or "", *(proof.commit for proof in found.all_proofs.get(anchor, ()))]


def tidy(repo: Repository, store: Store, merged: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Remove each branch that has not moved since the merge, and its worktree first.

    Return what was removed, and what stays and why.
    """
    done: dict[str, Any] = {"removed_worktrees": [], "removed_branches": [], "left": []}
    land = BranchMap(repo)
    for name, tip in merged:
        if name not in land.tips:
            continue
        branch = land.branch(name)
        # A person may also have it checked out.
        holders = [path for path, held in land.worktrees if held == name]
        outside = (path for path in holders if not workflow_worktree.is_inside(repo, path))
        branch.worktree = next(outside, branch.worktree)
        reason = _in_use(repo, store, branch, tip) or _remove(repo, branch)
        if reason:
            left = {"branch_name": name, "worktree_path": branch.worktree, "reason": reason}
            done["left"].append(left)
            continue
        done["removed_branches"].append(name)
        done["removed_worktrees"] += [branch.worktree] if branch.worktree else []
        crash.point("merge.tidied")
    return done


def staying(repo: Repository, store: Store, merged: Sequence[str]) -> list[dict[str, Any]]:
    """Return the worktrees that a merge would leave because of a claim or uncommitted work."""
    found = []
    for path, name in BranchMap(repo).worktrees:
        if name in merged and path != repo.root and os.path.isdir(path):
            held = proofs.claim_in(store, os.path.realpath(path))
            reason = f"{held[1]} of {held[0]} is claimed there" if held else _unsaved(path)
            if reason:
                found.append({"branch_name": name, "worktree_path": path, "reason": reason})
    return found


def _in_use(repo: Repository, store: Store, branch: Branch, tip: str) -> str | None:
    """Return why a branch has to stay, or None."""
    if branch.tip != tip:
        return "it has moved on since it was merged"
    if branch.worktree is None:
        return None
    if branch.worktree == repo.root:
        return "the main worktree has it checked out"
    if not workflow_worktree.is_inside(repo, branch.worktree):
        return workflow_worktree.OUTSIDE
    if not os.path.isdir(branch.worktree):
        return None
    if not os.path.lexists(os.path.join(branch.worktree, ".git")):
        # A killed removal left only some files.
        gone = build.clear(repo, branch.worktree, tip)
        return None if gone else "a directory is there that git does not know as a worktree"
    held = proofs.claim_in(store, os.path.realpath(branch.worktree))
    if held is not None:
        return f"{held[1]} of {held[0]} is claimed there"
    return _unsaved(branch.worktree)


def _unsaved(worktree: str) -> str | None:
    """Describe uncommitted files there; if git fails, say so."""
    try:
        dirty = workflow_worktree.changes(worktree) or salvage.has_put_aside(worktree)
        hidden = workflow_worktree.hidden_work(worktree)
    except GitFailed:
        dirty, hidden = True, []
    return "there is uncommitted work" if dirty else next(iter(hidden), None)


def _remove(repo: Repository, branch: Branch) -> str | None:
    """Remove a branch and its worktree; return git's message if that fails."""
    if branch.worktree is not None:
        # Not `prune`: it forgets every missing worktree, even one on another disk.
        open_directories(branch.worktree)
        words = ("worktree", "remove", "--", branch.worktree)
        done = git.attempt(*words, cwd=repo.root, settings=workflow_worktree.SEES_ALL)
        if done.status:
            return done.said.strip()
    done = refs.delete_branch(repo.root, branch.name, branch.tip)
    return done.said.strip() if done.status else None


#: A longer command of `[merge] check` is stopped.
CHECK_SECONDS = 3600.0
_MOST_SAID = 1000


def check(
    repo: Repository, plan: str, script: dict[str, Any], lines: Sequence[str]
) -> list[dict[str, Any]]:
    """Run commands on the merged result in a worktree of its own; raise E062 if one fails."""
    if not lines or script["result"] == script["head"]:
        return []
    permit = trust.permit(repo, config.load(repo.root), f"the command `{lines[0]}` of merge.check")
    path = _check_path(repo)
    words = ("worktree", "add", "--quiet", "--detach", path, script["result"])
    git.patiently(*words, cwd=repo.root)
    ran: list[dict[str, Any]] = []
    try:
        for line in lines:
            crash.point("merge.checking")
            ran.append(_check_run(permit, line, path, plan))
            if ran[-1]["exit_status"] or ran[-1]["timed_out"]:
                raise _failed(plan, ran[-1])
        crash.point("merge.checked")
    finally:
        drop_check(repo)
    return ran


def _check_run(permit: Permit, line: str, path: str, plan: str) -> dict[str, Any]:
    return verify.run_line(permit, line, path, {"TUGCODE_PLAN": plan}, CHECK_SECONDS)


def _check_path(repo: Repository) -> str:
    return os.path.join(repo.common_dir, "tugtool", "merge-check")


def drop_check(repo: Repository) -> None:
    """Remove the worktree of a check, even of a killed one. The caller has the lock."""
    path = _check_path(repo)
    home = worktrees.home(repo.common_dir, path)
    if os.path.lexists(path):
        open_directories(path)
        shutil.rmtree(path)
    if home is not None:
        shutil.rmtree(home, ignore_errors=True)


def _failed(plan: str, ran: dict[str, Any]) -> MergeRefused:
    end = ran["output_tail"].strip()[-_MOST_SAID:]
    said = f"; the end of its output:\n{end}" if end else ", and it printed nothing"
    reason = f"`{ran['command']}` fails on the merged result ({completion.ended(ran)}){said}"
    return MergeRefused(plan, reason=reason, check=ran)


def refuse_unsettled(plan: str, items: list[dict[str, Any]], *, by: str | None) -> None:
    """Refuse items that wait for a person or are unproven, unless a person overrides."""
    if not items or by is not None:
        return
    said = [
        f"{many(len(found), *words)}: {listing([_item(each) for each in found])}"
        for cause, words in _CAUSES.items()
        if (found := [each for each in items if each["cause"] == cause])
    ]
    hint = f"tugcode review {plan_argument(plan)}"
    raise MergeRefused(plan, reason="; ".join(said), hint=hint, unsettled=items)


#: Why an item is not settled -> the words for one and for several.
_CAUSES = {
    "deferred": ("item waits for a person", "items wait for a person"),
    "unproven": ("checkpoint is not proven", "checkpoints are not proven"),
}


def _item(each: dict[str, Any]) -> str:
    return f"{each['step_anchor']} {each['kind']} {each['ordinal']} ({each['text']})"
