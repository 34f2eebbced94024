"""Merge the commits that a step needs: git does, or coder and reviewer where they conflict.

The branch moves only after the reviewer approves. Until then the worktree has a git merge
under way, so a run that follows a killed one continues it.
"""

from __future__ import annotations

import contextlib

from tugtool import state
from tugtool.errors import TugError, listing, plan_argument, quoted
from tugtool.errors.git import DependencyConflict
from tugtool.git import command as git
from tugtool.git import merge_tree, refs, status
from tugtool.implement import agent
from tugtool.implement.run import Elsewhere, Escalation, Failed, Lost, Stopped
from tugtool.state import record, worktrees
from tugtool.state.attempts import Note
from tugtool.system import clock, crash, files, os
from tugtool.workflow import salvage
from tugtool.workflow.commit import log
from tugtool.workflow.worktree import branches, sync

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.implement.attempt import Attempt
    from tugtool.schemas import StateClaimMissingCommit as Commit
    from tugtool.schemas import WorktreeSync

    Data = dict[str, Any]


#: Prefixes of the lines that git puts around a conflict.
_MARKERS = (b"<<<<<<< ", b">>>>>>> ")
_HEAD = "MERGE_HEAD"
#: How often a commit that the remote does not give is asked for again.
_REMOTE_SECONDS = 5.0


def bring_in(work: Attempt) -> None:
    """Merge the commits that the step depends on and this worktree lacks."""
    _tidy(work)
    if work.claim["missing_commits"] == []:
        return
    try:
        done = _synced(work)
    except DependencyConflict as error:
        if _fits_afresh(work):
            raise Elsewhere(error.message) from error
        problem = _resolve(work, error)
        if problem is None:
            # The worktree may still lack others.
            bring_in(work)
            return
        reason = f"{error.message}; {problem}; {_way_out(work)}"
        facts = {name: error.facts[name] for name in ("commit", "files") if name in error.facts}
        needs = error.facts["anchor"]
        raise Escalation(reason, code=error.code, needs=needs, **facts) from error
    if not done["up_to_date"]:
        work.tell("synced", steps=[each["step_anchor"] for each in done["merged"]])


def _synced(work: Attempt) -> WorktreeSync:
    """Merge what the step needs. Wait for a commit of another machine that cannot be had now."""
    end, told = clock.ticks() + work.run.terms.patience_seconds, False
    while True:
        try:
            return sync.sync(work.store, work.run.plan, at=work.checkout.path, by_resolutions=True)
        except DependencyConflict as error:
            if not error.facts.get("absent") or clock.ticks() >= end:
                raise
            if not told:
                work.run.warn(error.message, step_anchor=work.anchor)
            told = True
        if work.run.stopping.wait(_REMOTE_SECONDS):
            raise Stopped
        work.check()


def _fits_afresh(work: Attempt) -> bool:
    """Return whether the merge works in a new worktree: then only this one is in the way."""
    root = work.run.repo.root
    start = refs.commit_of(root, f"refs/heads/{work.checkout.base_branch}")
    if start is None:
        return False
    return sync.fits_afresh(work.store, work.run.plan, work.anchor, top=root, start=start)


def _way_out(work: Attempt) -> str:
    """Return instructions for a person; the next run finds their merge in any of its worktrees."""
    plan, path = work.run.plan, work.checkout.path
    wanted = sync.missing(work.store, plan, [work.anchor], at=path)
    merges = listing([f"git merge {str(each['commit'])[:12]}" for each in wanted])
    free = f"tugcode reset {plan_argument(plan)} {quoted(work.anchor)}"
    return (
        f"to resolve it, run {merges} in a worktree of the plan, such as {path}, and commit that "
        f"(docs/reference/git.md#conflicts); then {free}"
    )


def _resolve(work: Attempt, error: DependencyConflict) -> str | None:
    """Let coder and reviewer merge the conflict. Return None on success, else the problem."""
    wanted = sync.missing(work.store, work.run.plan, [work.anchor], at=work.checkout.path)
    needed = next((each for each in wanted if each["commit"] == error.facts["commit"]), None)
    if needed is None or not error.facts["files"]:
        return "the merge cannot begin"
    if needed["commit"] in work.conflicts:
        return "the coder has tried before"
    merge = _Merge(work, needed)
    try:
        problem = merge.run()
    except Lost:
        # Another process may own the worktree now.
        raise
    except BaseException:
        with contextlib.suppress(TugError, OSError):
            merge.abandon()
        raise
    if problem is not None:
        merge.abandon()
    return problem


def _tidy(work: Attempt) -> None:
    """End the merge of a run that was killed after its commit."""
    path = work.checkout.path
    if status.under_way(work.checkout.git_dir) != "merge":
        return
    other = refs.commit_of(path, _HEAD)
    if other is not None and refs.is_ancestor(path, other, "HEAD"):
        git.patiently("reset", "--quiet", "--hard", cwd=path)


def is_merge(work: Attempt, ref: str) -> bool:
    """Return whether saved work is an unfinished merge, not work on the step."""
    parents = git.attempt("rev-parse", f"{ref}^@", cwd=work.run.repo.root).out.split()
    done = worktrees.committed_steps(work.store, work.run.plan)
    return not {row["commit_hash"] for row in done}.isdisjoint(parents[1:])


class _Merge:
    """The merge of one commit by an agent."""

    def __init__(self, work: Attempt, needed: Commit) -> None:
        self.work, self.path = work, work.checkout.path
        self.needed = needed
        self.other, self.anchor = needed["commit"], needed["step_anchor"]
        self.head = refs.head_commit(self.path) or ""
        self.files = merge_tree.commits(self.path, self.head, self.other).files

    def run(self) -> str | None:
        """Merge and commit. Return None on success, else the problem."""
        if not self.files:
            # The commit conflicts only with others that the step needs.
            plan, done = self.work.run.plan, worktrees.committed_steps
            sync.merge(plan, [self.needed], at=self.path, done=done(self.work.store, plan))
            return None
        problem = self._begin()
        if problem is not None:
            return problem
        crash.point("implement.conflict")
        facts = {"commit": self.other, "needs": self.anchor, "files": self.files}
        self.work.tell("conflict", **facts)
        self._start()
        try:
            report = self._code()
            problem = self._unresolved(report)
            if problem is not None:
                return f"the coder did not resolve it: {problem}"
            tree = self._tree()
            crash.point("implement.resolved")
            problem = self._review(report)
        except Failed as end:
            self._charge(end)
            return str(end)
        if problem is None:
            self._commit(tree)
        return problem

    def _begin(self) -> str | None:
        """Let git begin the merge, unless an earlier run did. Return why it cannot, or None."""
        if refs.commit_of(self.path, _HEAD) == self.other:
            return None
        if self.work.checkout.is_dirty():
            return "the worktree has other uncommitted changes"
        words = ("merge", "--quiet", "--no-commit", "--no-ff", self.other)
        done = git.attempt(*words, cwd=self.path)
        return None if refs.commit_of(self.path, _HEAD) == self.other else done.said.strip()

    def _start(self) -> None:
        work = self.work
        if not work.claim["started"]:
            state.start(work.store, work.run.plan, work.anchor, **work.by)
            work.claim["started"] = True

    def _code(self) -> Data:
        work = self.work
        # The worktree differs from its commit.
        work.is_fresh, work.held = False, None
        more = {"strategy": None, "findings": None, "round": 1, "conflict": self._facts()}
        reply = agent.call(work, "coder", more)
        work.conflicts.add(self.other)
        said = f"merging {self.anchor}: {str(reply.answer.get('summary') or '').strip()}"
        work.report("coder", reply.usage, Note("note", said))
        return reply.answer

    def _review(self, report: Data) -> str | None:
        """Return None if the reviewer approves, else its answer in one line."""
        work = self.work
        more = {"strategy": None, "coder_report": report, "findings": None, "round": 1}
        reply = agent.call(work, "reviewer", {**more, "conflict": self._facts()})
        # The commit of the merge will change the worktree.
        work.held = None
        said = agent.in_short(reply.answer)
        work.report("reviewer", reply.usage, Note("note", f"merging {self.anchor}: {said}"))
        if reply.answer["recommendation"] == "APPROVE":
            return None
        return f"the reviewer does not approve how the coder resolved it: {said}"

    def _charge(self, end: Failed) -> None:
        if end.usage.tokens is not None or end.usage.cost_microdollars is not None:
            self.work.report(end.role, end.usage)

    def _facts(self) -> Data:
        """Return the conflict as the agents' input describes it."""
        rows = worktrees.committed_steps(self.work.store, self.work.run.plan)
        steps = {row["commit_hash"]: row["anchor"] for row in rows if row["parent_anchor"] is None}
        sides = {}
        for side, own, their in (
            ("ours", self.head, self.other),
            ("theirs", self.other, self.head),
        ):
            only = sync.beyond(self.path, list(steps), has=own, lacks=their)
            sides[side] = {"commit": own, "steps": [steps[commit] for commit in only]}
        return {"files": self.files, **sides}

    def _unresolved(self, report: Data) -> str | None:
        if report.get("success") is False:
            return str(report.get("summary") or "it says so")
        left = [name for name in self.files if _is_marked(os.path.join(self.path, name))]
        if left:
            return f"conflict markers are left in {listing(left, most=5)}"
        under_way = status.under_way(self.work.checkout.git_dir) is not None
        if not under_way and not self.work.checkout.is_dirty():
            return "it ended the merge"
        return None

    def _tree(self) -> str:
        """Stage all files and return the tree."""
        git.patiently("add", "--all", cwd=self.path)
        tree = git.run("write-tree", cwd=self.path).strip()
        return log.repaired(self.path, tree, self.head, self.other)

    def _commit(self, tree: str) -> None:
        message = f"Merge {self.anchor} of {' '.join(self.work.run.plan.split())}\n"
        signed = refs.is_signing(self.path)
        parents = (self.head, self.other)
        made = refs.commit_tree(self.path, tree, parents, message, signed=signed)
        words = ("update-ref", "-m", "tugcode: merge", "HEAD", made, self.head)
        git.patiently(*words, cwd=self.path)
        crash.point("implement.joined")
        # This also ends git's merge.
        git.patiently("reset", "--quiet", "--hard", cwd=self.path)
        self.work.tell("synced", steps=[self.anchor])

    def abandon(self) -> None:
        """Save the agent's files under a ref, and reset the worktree."""
        work = self.work
        work.held = None
        if not work.checkout.is_dirty() and status.under_way(work.checkout.git_dir) is None:
            return
        root, name = work.run.repo.root, branches.safe(f"{os.path.basename(self.path)}-merge")
        slug, now = salvage.slug(work.run.plan), record.now(work.store)
        ref = salvage.ref_for(slug, name, now, top=root)
        # The role marks it as a merge, so that no attempt applies it to the step.
        facts = {"Plan": work.run.plan, "Step": work.anchor, "Role": "coder"}
        salvage.save(self.path, ref=ref, facts={**facts, "Worktree": work.checkout.owner})
        work.checkout.clear()
        work.keep_text(f"the merge of {self.anchor} was abandoned, and is kept in {ref}", ref)


def _is_marked(path: str) -> bool:
    """Return whether a file still has both kinds of conflict lines."""
    if not os.path.isfile(path) or os.path.islink(path):
        return False
    lines = files.read(path, max_bytes=files.WHOLE_BYTES).split(b"\n")
    return all(any(line.startswith(mark) for line in lines) for mark in _MARKERS)
