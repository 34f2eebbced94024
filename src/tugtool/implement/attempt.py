"""An attempt at a step, its checkout, and the input of its agents."""

from __future__ import annotations

import contextlib

from tugtool import state
from tugtool.errors import TugError, Unreadable
from tugtool.errors.state import CLAIM_LOST, StateError
from tugtool.git import command as git
from tugtool.git import git_dir, index, refs, worktrees
from tugtool.implement.run import Astray, Lost, Stopped
from tugtool.state import attempts, leases, views
from tugtool.state.attempts import Note
from tugtool.state.record import owner_of
from tugtool.system import files, os
from tugtool.workflow import transcripts
from tugtool.workflow.commit.intent import CommitSite
from tugtool.workflow.workspace import plan_copy
from tugtool.workflow.worktree import sync

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypedDict

    from tugtool.agents.clis import AgentUsage
    from tugtool.git import Repository
    from tugtool.implement.run import Question, Run
    from tugtool.implement.snapshot import Untouched
    from tugtool.plan.model import Step
    from tugtool.schemas import WorktreeCreate
    from tugtool.state.claims import Claim
    from tugtool.state.record import PlanCopy
    from tugtool.store import Row, Store
    from tugtool.workflow.transcripts import Recording

    class By(TypedDict):
        """The worktree that works on a step, and the number of its attempt."""

        owner: str
        attempt: int


class AgentContext:
    """Work on the plan as a whole: no step is claimed."""

    anchor: str | None = None
    attempt: int | None = None

    def __init__(self, run: Run, store: Store, checkout: Checkout, worker: int) -> None:
        self.run, self.store, self.checkout, self.worker = run, store, checkout, worker
        #: The worktree's files now, if the last agent was read-only.
        self.held: Untouched | None = None
        #: True until the first agent that may edit runs: the worktree equals its commit.
        self.is_fresh = False
        #: The transcript of the agent that runs or is about to run.
        self.recording: Recording | None = None
        #: Keeps a reservation while the work goes on; raises if it is lost.
        self.keep: Callable[[], None] | None = None

    def check(self) -> None:
        """Raise if the work has to end."""
        self.run.look_at_clock()
        if self.run.stopping.is_set():
            raise Stopped
        if self.keep is not None:
            self.keep()

    def follow(self) -> bool:
        """Take a new agreed text of the plan; return whether there was one. Here there is none."""
        return False

    def tell(self, event: str, **facts: object) -> None:
        """Report an event with its worker, step and attempt."""
        at = {"worker": self.worker, "step_anchor": self.anchor, "attempt": self.attempt}
        self.run.tell(event, **at, **facts)

    def record(self, role: str) -> str | None:
        """Begin the transcript of the next call. Return its path, or None if none is kept."""
        run, most = self.run, self.run.terms.transcript_bytes
        self.recording = None
        if most:
            which = (run.plan, self.anchor, self.attempt)
            try:
                self.recording = transcripts.begin(run.repo, *which, role, most=most)
            except OSError as error:
                # The next transcript would fail too.
                run.terms.transcript_bytes = 0
                why = f"{error.filename}: {files.reason(error)}"
                run.warn(f"no transcripts are kept: {why}")
        return None if self.recording is None else self.recording.path

    def task(self, role: str, more: Mapping[str, object]) -> dict[str, Any]:
        """Return the agent's input."""
        return {
            **more,
            "role": role,
            "worktree_path": self.checkout.path,
            "plan_path": self.run.plan,
            "step_anchor": self.anchor,
            "attempt": self.attempt,
        }

    def variables(self) -> dict[str, str]:
        """Return the agent's environment variables."""
        return {
            "TUGCODE_PLAN": self.run.plan,
            "TUGCODE_WORKTREE": self.checkout.path,
            # Without its .git, git would work on the main worktree from in there.
            "GIT_CEILING_DIRECTORIES": os.path.dirname(self.checkout.path),
        }

    def ask(self, question: Question) -> str:
        """Ask a person and return the answer. Raise if the work has to end before it comes."""
        run, seconds = self.run, self.run.terms.question_seconds
        end = run.timer.now() + seconds
        run.ask(question)
        while not question.answered.is_set():
            run.timer.wait(leases.LOOK_SECONDS, question.answered)
            self.check()
            if run.timer.now() >= end and question.answer(question.choices[1]):
                self.tell("unanswered", seconds=seconds, choice=question.choice)
        return question.choice

    def still_holds(self) -> bool:
        """Return whether the claim is still ours."""
        return True

    def begin_role(self, role: str) -> None:
        """Record which role is at work. Without a claim there is nowhere to."""

    def keep_failure(self, role: str, reason: str) -> None:
        """Record that an agent failed and is tried again. Without a claim there is nowhere to."""

    def keep_text(self, summary: str, content: str) -> None:
        """Keep a text that an agent put in the wrong place. Without a claim there is nowhere to."""
        self.tell("warning", message=summary)


class StepContext(AgentContext):
    """Work whose reports and notes are stored with a step."""

    def __init__(
        self, run: Run, store: Store, checkout: Checkout, worker: int, anchor: str, by: By
    ) -> None:
        super().__init__(run, store, checkout, worker)
        self.anchor: str = anchor
        self.attempt: int = by["attempt"]
        #: The owner and attempt of every command about the step.
        self.by = by

    def report(self, role: str, usage: AgentUsage, note: Note | None = None) -> None:
        """Store the agent's cost and its note."""
        state.report(
            self.store,
            self.run.plan,
            self.anchor,
            **self.by,
            role=role,
            tokens=usage.tokens,
            cost_microdollars=usage.cost_microdollars,
            note=note,
        )

    def leave_note(self, kind: str, summary: str, content: str | None = None) -> None:
        """Add an artifact to the step, even if the step is completed."""
        plan, by = self.run.plan, self.by
        state.artifact(
            self.store, plan, self.anchor, **by, kind=kind, summary=summary, content=content
        )


class Attempt(StepContext):
    """An attempt at a step."""

    def __init__(
        self, run: Run, store: Store, checkout: Checkout, worker: int, claim: Claim
    ) -> None:
        by: By = {"owner": checkout.owner, "attempt": claim["attempt"]}
        super().__init__(run, store, checkout, worker, claim["anchor"], by)
        self.claim = claim
        self.is_fresh = claim.get("previous_attempt", True) is None
        #: Why the attempt failed, while a person is asked about it.
        self.failure: str | None = None
        #: What a person has answered to a question of this attempt, for the coder.
        self.answer = ""
        #: Conflicting commits that the coder has tried to merge.
        self.conflicts: set[str] = set()
        self.title: str = claim["step_title"]
        self.step: Step = run.steps[self.anchor]
        #: The hash of the plan text in the worktree.
        self.plan_hash = run.order.hash
        self.keeper = leases.Keeper(
            store, run.plan, self.anchor, **self.by, lease_seconds=run.terms.lease_seconds
        )

    def begin_role(self, role: str) -> None:
        """Record which role is at work, for all who look at the step."""
        # A claim that is lost is noticed by `check`.
        with contextlib.suppress(StateError):
            attempts.begin_role(self.store, self.run.plan, self.anchor, **self.by, role=role)

    def check(self) -> None:
        """Raise if the work has to end."""
        super().check()
        if not self.keeper.holds():
            raise Lost

    def follow(self) -> bool:
        """Between two agents: take a newer agreed text of the plan into the worktree.

        Raise `Lost` if the new text changed the step.
        """
        self.run.follow(self.store)
        if self.plan_hash == self.run.order.hash:
            return False
        if not self.still_holds():
            raise Lost
        commit = sync.bring_agreed_text(self.store, self.run.plan, at=self.checkout.path)
        self.plan_hash, self.step = self.run.order.hash, self.run.steps[self.anchor]
        # The worktree's files have changed since the last agent.
        self.held = None
        self.tell("amended", commit=commit)
        return True

    def still_holds(self) -> bool:
        """Read the record, and return whether the claim is still ours."""
        self.keeper.look(closely=True)
        return self.keeper.standing == "held"

    def task(self, role: str, more: Mapping[str, object]) -> dict[str, Any]:
        """Return the agent's input."""
        before = self.claim["previous_attempt"]
        known = {"title": self.title, "checklist": self.checklist(), "previous_attempt": before}
        return super().task(role, {**known, **more})

    def variables(self) -> dict[str, str]:
        """Return the agent's environment variables."""
        own = {"TUGCODE_STEP": self.anchor, "TUGCODE_ATTEMPT": str(self.attempt)}
        return {**super().variables(), **own}

    def report(self, role: str, usage: AgentUsage, note: Note | None = None) -> None:
        """Store the agent's cost and its note, and renew the lease."""
        super().report(role, usage, note)
        self.keeper.renewed()

    def keep_failure(self, role: str, reason: str) -> None:
        """Record that an agent failed and is tried again."""
        # The run must not fail because the log cannot be written.
        with contextlib.suppress(TugError):
            how = {"role": role, "reason": reason}
            attempts.note_retry(self.store, self.run.plan, self.anchor, **self.by, **how)

    def keep_text(self, summary: str, content: str) -> None:
        """Store as an artifact what an agent put in the wrong place."""
        self.tell("warning", message=summary)
        self.leave_note("note", summary, content)

    def checklist(self) -> list[dict[str, Any]]:
        """Return all items of the step and its substeps with their status."""
        fields = ("step_anchor", "kind", "ordinal", "text", "status")
        return [{field: row[field] for field in fields} for row in self.items()]

    def close_items(
        self, entries: list[dict[str, Any]], judged: dict[tuple[str, int], dict[str, Any]]
    ) -> None:
        """Defer the items of the entries; complete the rest, except commands that did not run."""
        plan, copy = self.run.plan, self.checkout.copy(self.run.plan)
        how: dict[str, Any] = {**self.by, "copy": copy, "complete_remaining": True}
        how |= {"proven_only": self.run.terms.verify, "judged": judged}
        state.update(self.store, plan, self.anchor, entries, **how)

    def items(self) -> list[Row]:
        """Read the rows of all items of the step and its substeps."""
        anchors = [each.anchor for each in self.step.family()]
        return views.items(self.store, self.run.plan, anchors)

    def is_over(self, code: str) -> bool:
        """Return whether an error with that code means that the claim is lost."""
        return code in CLAIM_LOST


#: HEAD names this ref if the refs are in a format that only git reads.
_UNTOLD = ".invalid"


class Checkout:
    """A worktree of the plan."""

    def __init__(self, repo: Repository, path: str, *, branch: str, base_branch: str) -> None:
        self.repo = repo
        self.path = path
        self.owner = owner_of(path)
        self.branch, self.base_branch = branch, base_branch
        self.git_dir = worktrees.home(repo.common_dir, path) or git_dir(path)
        self._ignored: set[str] = set()

    @classmethod
    def made(cls, repo: Repository, data: WorktreeCreate) -> Checkout:
        """Return the checkout that `worktree create` made."""
        branch, onto = data["branch_name"], data["base_branch"]
        return cls(repo, data["worktree_path"], branch=branch, base_branch=onto)

    @classmethod
    def recorded(cls, repo: Repository, row: Row) -> Checkout:
        """Return the checkout of a recorded worktree."""
        branch, onto = row["branch"], row["base_branch"]
        return cls(repo, row["path"], branch=branch, base_branch=onto)

    def site(self, store: Store) -> CommitSite:
        """Return the place where its work is committed."""
        return CommitSite(
            store,
            top=self.path,
            root=self.repo.root,
            owner=self.owner,
            copy=self.copy,
        )

    def copy(self, plan: str) -> PlanCopy:
        """Return the plan's copy here, or the one at the root. It is read on first use."""
        return plan_copy(plan, worktree=self.path, root=self.repo.root, signed=False)

    def trouble(self) -> str | None:
        """Return why git must not run here: another worktree, or not on its branch."""
        wrong = worktrees.trouble(self.repo.common_dir, self.path)
        if wrong is not None:
            return wrong
        branch, _ = self.head()
        if branch in (self.branch, _UNTOLD):
            return None
        return f"it has {branch or 'a detached HEAD'} checked out in place of {self.branch}"

    def head(self) -> tuple[str | None, str]:
        """Return the branch of HEAD (None if detached) and its commit."""
        # Reading small files saves a process for each agent.
        try:
            branch, commit = refs.read_head(self.git_dir, self.repo.common_dir)
        except Unreadable:
            branch, commit = refs.head_branch(self.path), refs.head_commit(self.path)
        return branch, commit or ""

    def read_plan(self, plan: str) -> bytes | None:
        """Return the plan's file here, or None."""
        path = os.path.join(self.path, plan)
        return files.read(path, max_bytes=files.WHOLE_BYTES) if os.path.isfile(path) else None

    def is_dirty(self) -> bool:
        """Return whether anything here is uncommitted."""
        words = ("status", "--porcelain", "--untracked-files=all", "--ignore-submodules=dirty")
        return bool(git.run(*words, cwd=self.path))

    def newly_ignored(self) -> list[str]:
        """Return ignored files here that no earlier call returned."""
        known = (*self._ignored, *worktrees.was_ready(self.path))
        found = [name for name in worktrees.ignored(self.path) if name not in known]
        self._ignored.update(found)
        return found

    def clear(self) -> list[str]:
        """Reset the worktree to HEAD; the caller has saved its files. Ignored files stay.

        Return the new paths of inner repositories, whose commits could not be saved.
        """
        return index.clear(self.path, kept_in=self._kept)

    def set_aside(self, path: str) -> str:
        """Move an inner repository into git's directory, and return its new path."""
        return index.set_aside(self.path, path, kept_in=self._kept)

    @property
    def _kept(self) -> str:
        return os.path.join(self.repo.common_dir, "tugtool", "kept")

    def drop_locks(self, warn: Callable[[str], None]) -> bool:
        """Remove the locks of killed git processes, warn, and return whether there were any."""
        dropped = worktrees.drop_locks(self.repo.common_dir, self.path, self.branch)
        for lock in dropped:
            warn(f"a git that was killed had left {lock}; it is removed")
        return bool(dropped)

    def put_marker_back(self) -> bool:
        """Restore a missing `.git`, and return whether it was missing."""
        common_dir = self.repo.common_dir
        gone = worktrees.trouble(common_dir, self.path) == worktrees.UNMARKED
        if gone:
            worktrees.repair(common_dir, self.path)
        return gone

    def require(self) -> bool:
        """Raise `Astray` if the worktree is unusable; return whether `.git` had to be restored."""
        unmarked = self.put_marker_back()
        wrong = worktrees.trouble(self.repo.common_dir, self.path)
        if wrong is not None:
            raise Astray(self.path, wrong)
        return unmarked
