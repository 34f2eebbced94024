"""Read from commits in git which steps are done, and which changes of an audit count."""

from __future__ import annotations

from tugtool import state
from tugtool.git import history, refs, trailers
from tugtool.state import proofs as state_proofs
from tugtool.state.proofs import Proof
from tugtool.workflow.worktree import branches
from tugtool.workflow.worktree.branches import BranchMap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from tugtool.git import Repository
    from tugtool.git.history import Commit
    from tugtool.git.trailers import Trailers
    from tugtool.schemas import StateReconcile, StateReconcileIgnoredItem
    from tugtool.state.proofs import Facts
    from tugtool.store import Row, Store
    from tugtool.workflow.worktree.branches import Branch


class Range:
    """A plan in git: its branches, and the commits since its base, newest first."""

    __slots__ = ("base", "base_tip", "branches", "commits", "root", "since")

    def __init__(self, repo: Repository, facts: Facts) -> None:
        land = BranchMap(repo)
        self.root = repo.root
        self.base = land.base(facts.worktrees, facts.text)
        self.base_tip = land.tips.get(self.base) if self.base else land.head(repo.root)
        self.branches: list[Branch] = land.of_plan(
            facts.names, facts.worktrees, self.base, others=facts.other_branches
        )
        # The plan's base: the recorded one if git still has it, or git's answer.
        recorded = facts.base_commit
        known = recorded and refs.commit_of(repo.root, recorded)
        self.since = recorded if known else branches.base_commit(repo, facts.plan)
        # A commit may exist before its step is completed: its worktree's HEAD has it.
        waiting = (land.head(row["worktree"]) for row in facts.intents)
        tips = [tip for tip in (*self.tips, *waiting) if tip]
        self.commits = history.list_commits(repo.root, tips, since=self.since) if tips else []

    @property
    def tips(self) -> list[str]:
        """Return the commits of the base branch and the plan's branches."""
        tips = (self.base_tip, *(branch.tip for branch in self.branches))
        return [tip for tip in tips if tip]


class Evidence:
    """The conclusions from a range; git is not asked again."""

    def __init__(self, found: Range, facts: Facts, *, force: bool = False) -> None:
        self.range, self.facts, self.force = found, facts, force
        self.inside = {commit.hash: commit for commit in found.commits}
        self.on_base = history.reachable(self.inside, [found.base_tip or ""])
        self.home = self._homes()
        self.reverted = history.reverted(found.commits)
        self.ignored: list[StateReconcileIgnoredItem] = []
        #: Commit -> the steps of other plans that it completes: plan and step.
        self.others: dict[str, list[tuple[str, str]]] = {}
        #: Step -> the highest attempt in any commit of this plan's text.
        self.highest: dict[str, int] = {}
        #: Every (step, attempt) of a commit that is not reverted.
        self.seen: set[tuple[str, int]] = set()
        self.all_proofs = self._proofs()
        self.proofs = self._winners()

    def _homes(self) -> dict[str, Branch]:
        """Return commit -> the branch it was made on."""
        home: dict[str, Branch] = {}
        for branch in self.range.branches:
            for name in history.first_parents(self.inside, branch.tip):
                if name in self.on_base:
                    break
                home.setdefault(name, branch)
        return home

    def _proofs(self) -> dict[str, list[Proof]]:
        """Return step -> the commits that complete it, oldest first."""
        found: dict[str, list[Proof]] = {}
        for commit in reversed(self.range.commits):
            for each in self._sets(commit):
                if commit.hash in self.reverted:
                    self._ignore(commit, each.anchor, "reverted", "a later commit undoes it")
                    continue
                self.seen.add((each.anchor, each.attempt or 0))
                found.setdefault(each.anchor, []).append(self._proof(commit, each))
        return found

    def _sets(self, commit: Commit) -> Iterator[Trailers]:
        """Return the trailer sets of a commit that are about a step of this plan."""
        names, plan_hash = self.facts.names, self.facts.plan_hash
        read = trailers.read_sets(commit.block, commit.message, plans=names, plan_hash=plan_hash)
        for each in read:
            if isinstance(each, trailers.Malformed):
                self._ignore(commit, each.anchor, "malformed", each.reason)
                continue
            misfit = self._misfit(each)
            if each.plan not in names:
                self.others.setdefault(commit.hash, []).append((each.plan, each.anchor))
            if misfit is not None:
                self._ignore(commit, each.anchor, *misfit)
                continue
            if each.attempt is not None:
                self.highest[each.anchor] = max(self.highest.get(each.anchor, 0), each.attempt)
            yield each

    def _misfit(self, found: Trailers) -> tuple[str, str] | None:
        own = self.facts.plan_hash[: trailers.HASH_LENGTH]
        if found.plan not in self.facts.names:
            return "other_plan", f"it is about {found.plan}"
        if found.plan_hash not in (None, own) and not self.force:
            return "other_plan_hash", f"it was done for another text of the plan: {found.plan_hash}"
        if found.anchor not in self.facts.parents:
            return "unknown_step", "the plan has no such step"
        if self.facts.parents[found.anchor] is not None:
            return "substep", "a substep is completed with its step"
        return None

    def _proof(self, commit: Commit, found: Trailers) -> Proof:
        home = self.home.get(commit.hash)
        return Proof(
            found.anchor,
            commit.hash,
            found.attempt or 0,
            on_base=commit.hash in self.on_base,
            worktree=home.worktree if home else None,
        )

    def _winners(self) -> dict[str, Proof]:
        """Return step -> its commit that counts: on the base branch, last attempt, oldest."""
        winners = {}
        for anchor, proofs in self.all_proofs.items():
            best = min(proofs, key=lambda proof: (not proof.on_base, -proof.attempt))
            winners[anchor] = best
            for proof in proofs:
                if proof.commit != best.commit:
                    why = f"the step is also on {best.commit}, which counts"
                    self._ignore(self.inside[proof.commit], anchor, "another_commit", why)
        return winners

    def is_on_base(self, step: Row) -> bool:
        """Return whether the base branch has the step as it is recorded now.

        A commit of an older, rejected attempt counts only for that attempt; a commit without an
        attempt counts for the first.
        """
        return any(
            proof.on_base
            and (proof.commit == step["commit_hash"] or (proof.attempt or 1) >= step["attempt"])
            for proof in self.all_proofs.get(step["anchor"], ())
        )

    def _ignore(self, commit: Commit, anchor: str | None, reason: Any, detail: str) -> None:
        self.ignored.append(
            {
                "step_anchor": anchor,
                "commit_hash": commit.hash,
                "reason": reason,
                "detail": detail,
            }
        )


def cut_repairs(store: Store, found: Evidence) -> list[dict[str, Any]]:
    """Leave out what an audit changed that another audit has repeated. Return a warning for each.

    A machine may die between the change and the auditor's answer; another one then audits anew.
    """
    approved, said = _approved(store, found.facts), []
    commit = str(approved.get("commit", ""))
    if not commit:
        return []
    if commit not in found.inside and approved["changed"]:
        said.append(f"the commit that the auditor approved, {commit}, is on none of its branches")
    else:
        kept = history.reachable(found.inside, [commit]) | found.on_base
        for branch in found.range.branches:
            line = [found.inside[name] for name in history.first_parents(found.inside, branch.tip)]
            below = None if found.inside.get(commit) in line else _below_repairs(line, kept)
            if below is not None:
                why = "is left out: an audit made it that did not finish, and another one approved"
                said.append(f"{branch.tip} of {branch.name} {why}")
                branch.tip = below
    return [{"code": "W116", "severity": "warning", "message": each} for each in said]


def _approved(store: Store, facts: Facts) -> dict[str, Any]:
    """Return the auditor's last answer since the last step was completed, if it approves."""
    import json

    since = max((step["completed_at"] or "" for step in facts.steps), default="")
    for row in state_proofs.artifacts(store, facts.plan, kind="auditor_summary"):
        try:
            said = json.loads(row["content"] or "")
        except ValueError:
            continue
        if row["recorded_at"] >= since and isinstance(said, dict):
            return said if said.get("recommendation") == state_proofs.APPROVE else {}
    return {}


def _below_repairs(line: Sequence[Commit], kept: Collection[str]) -> str | None:
    """Return the commit below an audit's changes at the end of a branch; None if there are none."""
    made = [
        f"\n{trailers.AUDIT}: " in commit.message and commit.hash not in kept for commit in line
    ]
    if True not in made:
        return None
    last = len(made) - 1 - made[::-1].index(True)
    above = zip(line[:last], made, strict=False)
    # A person may have gone on there.
    is_plain = all(own or len(commit.parents) > 1 for commit, own in above)
    return line[last].parents[0] if is_plain else None


def reconcile(
    repo: Repository,
    store: Store,
    plan: str,
    *,
    force: bool = False,
    dry_run: bool = False,
    actor: str | None = None,
) -> StateReconcile:
    """Complete the steps whose commits are in the plan's range, in one transaction."""
    facts = state_proofs.facts(store, plan)
    found = Evidence(Range(repo, facts), facts, force=force)
    done: StateReconcile = state.reconcile(
        store,
        plan,
        found.proofs,
        plan_hash=facts.plan_hash,
        highest=found.highest,
        seen=found.seen,
        force=force,
        dry_run=dry_run,
        actor=actor,
    )
    return {
        **done,
        "ignored": found.ignored,
        "base_commit": found.range.since,
        "base_branch": found.range.base,
        "branches": [branch.name for branch in found.range.branches],
        "commits_read": len(found.range.commits),
    }
