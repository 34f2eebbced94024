"""What git proves about a plan: which of its steps are done, by which commit.

The range is what the plan's branches and its base branch have and the plan's base has not;
nothing before it is read.
"""

from __future__ import annotations

from tugtool import base, history, trailers
from tugtool.branches import Landscape
from tugtool.state.reconciling import Proof

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.branches import Branch
    from tugtool.history import Commit
    from tugtool.repository import Repository
    from tugtool.state.reconciling import Facts
    from tugtool.store import Row
    from tugtool.trailers import Trailers

    Data = dict[str, object]


class Evidence:
    """The range as it was read, and what follows from it."""

    def __init__(self, repo: Repository, facts: Facts, *, force: bool = False) -> None:
        self.facts, self.force = facts, force
        self.land = Landscape(repo)
        self.base = self.land.base(facts.worktrees, facts.text)
        head = self.land.head(repo.root)
        self.base_tip = self.land.tips.get(self.base) if self.base else head
        self.branches: list[Branch] = self.land.of_plan(
            facts.plan, facts.worktrees, self.base, others=facts.other_branches
        )
        self.since = _since(repo, facts)
        # A commit may be finished, and its step not yet: its working tree says where it is.
        waiting = (self.land.head(row["worktree"]) for row in facts.intents)
        tips = [self.base_tip, *(branch.tip for branch in self.branches), *waiting]
        known = [tip for tip in tips if tip]
        self.commits = history.read(repo.root, known, since=self.since) if known else []
        self.inside = {commit.hash: commit for commit in self.commits}
        self.on_base = history.reachable(self.inside, [self.base_tip or ""])
        self.home = self._homes()
        self.reverted = history.reverted(self.commits)
        self.ignored: list[Data] = []
        #: Step -> the highest attempt that any commit of this plan's text speaks of.
        self.highest: dict[str, int] = {}
        #: Every (step, attempt) that a commit in force was made under.
        self.seen: set[tuple[str, int]] = set()
        self.all_proofs = self._proofs()
        self.proofs = self._winners()

    def _homes(self) -> dict[str, Branch]:
        """Commit -> the branch it was committed on."""
        home: dict[str, Branch] = {}
        for branch in self.branches:
            for name in history.line(self.inside, branch.tip):
                if name in self.on_base:
                    break
                home.setdefault(name, branch)
        return home

    def _proofs(self) -> dict[str, list[Proof]]:
        """Step -> the commits that carry it out, oldest first."""
        found: dict[str, list[Proof]] = {}
        for commit in reversed(self.commits):
            for each in self._sets(commit):
                if commit.hash in self.reverted:
                    self._ignore(commit, each.anchor, "reverted", "a later commit undoes it")
                    continue
                self.seen.add((each.anchor, each.attempt or 0))
                found.setdefault(each.anchor, []).append(self._proof(commit, each))
        return found

    def _sets(self, commit: Commit) -> Iterator[Trailers]:
        """The sets of a commit that are about a step of this plan."""
        plan, plan_hash = self.facts.plan, self.facts.plan_hash
        read = trailers.read(commit.block, commit.message, plan=plan, plan_hash=plan_hash)
        for each in read:
            if isinstance(each, trailers.Malformed):
                self._ignore(commit, each.anchor, "malformed", each.reason)
                continue
            misfit = self._misfit(each)
            if misfit is not None:
                self._ignore(commit, each.anchor, *misfit)
                continue
            if each.attempt is not None:
                self.highest[each.anchor] = max(self.highest.get(each.anchor, 0), each.attempt)
            yield each

    def _misfit(self, found: Trailers) -> tuple[str, str] | None:
        own = self.facts.plan_hash[: trailers.HASH_LENGTH]
        if found.plan != self.facts.plan:
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
        """Step -> the commit that counts: on the base branch, of the last attempt, the first."""
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
        """Whether the base branch says that the step is done as it is recorded now.

        A commit of an older attempt, rejected since, speaks for that one only; where a commit
        names no attempt, it is the first.
        """
        return any(
            proof.on_base
            and (proof.commit == step["commit_hash"] or (proof.attempt or 1) >= step["attempt"])
            for proof in self.all_proofs.get(step["anchor"], ())
        )

    def _ignore(self, commit: Commit, anchor: str | None, reason: str, detail: str) -> None:
        self.ignored.append(
            {
                "step_anchor": anchor,
                "commit_hash": commit.hash,
                "reason": reason,
                "detail": detail,
            }
        )


def _since(repo: Repository, facts: Facts) -> str | None:
    """The plan's base: as recorded, where git still has it, or as git can tell."""
    if facts.base_commit and base.commit_of(repo.root, facts.base_commit) is not None:
        return facts.base_commit
    return base.base_commit(repo, facts.plan)
