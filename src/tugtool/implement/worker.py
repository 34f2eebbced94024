"""One worker: a thread with its own store and worktree, which does one step after another."""

from __future__ import annotations

import contextlib

from tugtool import state
from tugtool.errors import TugError, listing
from tugtool.errors.git import NotMade
from tugtool.errors.state import DatabaseError, NotReady, StepParked, WrongStatus
from tugtool.implement import recovery, step
from tugtool.implement.attempt import Attempt, Checkout
from tugtool.implement.run import Elsewhere, Failed, Lost, Parked, Stopped
from tugtool.state import publication, worktrees
from tugtool.state.claims import Request
from tugtool.store import back_up
from tugtool.store.owners import machine_of
from tugtool.system import crash, os
from tugtool.workflow.worktree import create, setup, sync

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.implement.run import Run
    from tugtool.schemas import WorktreeCreate
    from tugtool.state.claims import Claim
    from tugtool.store import Store


#: Workers look again this often: a lease can run out without any write.
LONGEST_NAP_SECONDS = 0.25
#: Stands for a claim: there are steps, but this worker needs a worktree first.
_TO_BE_MADE: Claim = {"claimed": False, "plan_path": "", "total_remaining": 0}


class Worker:
    """Carries steps out until none is left for it."""

    def __init__(self, run: Run, number: int) -> None:
        self.run, self.number = run, number
        #: `work` opens it: a store belongs to one thread.
        self.store: Store
        self.checkout: Checkout | None = None
        #: The number of its worktrees; each is reserved under another name.
        self._number_made = 0
        self._stamp: str | None = None
        #: The hash of the plan text in its worktree.
        self._plan_hash = run.order.hash
        #: The step that the worktree is for: it moved here for it, or the step's work lies here.
        self._entered_for: str | None = None
        #: Why it could not create a worktree while the plan's file differs from the agreed text.
        self._barred: TugError | None = None
        #: Steps that it could not claim, because another machine has not published.
        self._unpublished: dict[str, str] = {}
        #: The step that it has claimed and not given back.
        self._work: Attempt | None = None

    def work(self) -> None:
        """Work until no step is left. Report each error, and release the step if possible."""
        self.store = self.run.open_store()
        try:
            while (claim := self._next()) is not None:
                self._carry_out(claim)
        except TugError as error:
            if not self.run.is_stopped_by(error):
                # The hint is the command that restores the database.
                helps = isinstance(error, DatabaseError) and error.hint
                self._fail(f"{error.message}; next: {error.hint}" if helps else error.message)
        except Exception as error:
            # This is a fault of ours: the other workers go on, and the end of the run reports it.
            self.run.bugs.append(error)
            self._fail(f"{type(error).__name__}: {error}")
        finally:
            self._leave_checkout()
            self.store.close()
            # Other workers may wait for a step that this one had.
            self.run.news.set()

    def _fail(self, reason: str) -> None:
        """Report the failure and release the step: other workers may wait for it."""
        self.run.troubles.append(reason)
        self.run.tell("worker_failed", worker=self.number, reason=reason)
        work, self._work = self._work, None
        if work is not None:
            # A step that cannot be released now is remembered.
            with contextlib.suppress(TugError, OSError):
                self._give_back(work, "failed", reason, failure=reason)

    def _next(self) -> Claim | None:
        """Claim and return the next step; None if none will come for this worker."""
        claim = self._claim_here()
        while claim is None:
            if self._is_barred():
                continue
            with self.run.turn:
                claim = self._waited_for()
            if claim is not _TO_BE_MADE:
                return claim
            # Outside the lock: creation takes a while, and several workers can create at once.
            try:
                claim = self._begun()
            finally:
                self.run.made_one()
        return claim

    def _begun(self) -> Claim | None:
        """Create a worktree and claim a step in it. Return None if the plan's text prevents it."""
        self.run.follow(self.store)
        try:
            # There is a step to do in it.
            self._enter(self.run.take_made() or self._made())
        except NotMade as error:
            if self.run.is_plan_agreed() or not self.run.remaining(self.store).live:
                raise
            self._barred = error
            self.run.warn(f"worker {self.number} waits: {error.message}")
            return None
        return self._claim_here()

    def _is_barred(self) -> bool:
        """Return whether the worker has to wait until the plan's file has the agreed text.

        Outside the lock: workers that have a worktree can go on.
        """
        error = self._barred
        if error is None or self.run.stopping.is_set() or self.run.is_plan_agreed():
            self._barred = None
            return False
        seen = self.run.remaining(self.store)
        if not seen.live:
            self._barred = None
            if seen.ready and not seen.paused:
                raise error
            return False
        self.run.stopping.wait(LONGEST_NAP_SECONDS)
        return True

    def _claim_here(self) -> Claim | None:
        """Claim a step here at once: the last one may have made its successor ready."""
        run = self.run
        if self.checkout is None or run.stopping.is_set() or run.is_broke(self.store):
            return None
        if not run.cooling.may_begin():
            return None
        claim = self._claim(self.checkout)
        self.run.news.set()
        return claim

    def _waited_for(self) -> Claim | None:
        """Wait for a step. Return its claim, or `_TO_BE_MADE` if the worker needs a worktree."""
        run = self.run
        before: set[str] = set()
        while not run.stopping.is_set():
            run.news.clear()
            run.look_at_clock()
            recovery.pay_debts(run, self.store)
            recovery.publish(run, self.store)
            seen = run.remaining(self.store)
            if run.is_broke(self.store) or seen.paused or not (seen.ready or seen.live):
                return None
            if not run.cooling.may_begin():
                run.news.wait(LONGEST_NAP_SECONDS)
                continue
            if seen.ready and self.checkout is not None:
                claim = self._claim(self.checkout)
                if claim is not None:
                    return claim
            elif run.may_make(len(seen.ready), lasting=not before.isdisjoint(seen.ready)):
                return _TO_BE_MADE
            if not seen.ready:
                state.judge_from_now(self.store, run.plan)
            held = {} if seen.ready else seen.held_by_others(run.owners)
            run.wait_for(
                {step: f"is held by {owner}" for step, owner in held.items()} or self._unpublished
            )
            before = set(seen.ready)
            run.news.wait(LONGEST_NAP_SECONDS)
        return None

    def _claim(self, checkout: Checkout) -> Claim | None:
        run, terms = self.run, self.run.terms
        if not self._is_sound(checkout):
            self._abandon(checkout)
            return None
        recovery.finish_commits(run, self.store, own=checkout.owner)
        request = Request(
            checkout.owner,
            lease_seconds=terms.lease_seconds,
            max_attempts=terms.max_attempts,
            holder_pid=os.getpid(),
            begins=True,
            publish=run.settings.is_set("remote.name"),
        )
        resumed, self._entered_for = self._entered_for, None
        step = resumed or self._not_failed()
        if run.follow(self.store) or self._plan_hash != run.order.hash:
            sync.bring_agreed_text(self.store, run.plan, at=checkout.path)
            self._plan_hash = run.order.hash
        try:
            data = state.claim(
                self.store, run.plan, request, copy=checkout.copy(run.plan), step=step
            )
        except (NotReady, WrongStatus, StepParked):
            if step is None:
                raise
            # Another worker was first; the next look finds another step.
            if resumed and not recovery.clear_lost(run, self.store, checkout):
                self._abandon(checkout)
            return None
        self._unpublished = _late(data)
        return data if data["claimed"] else None

    def _not_failed(self) -> str | None:
        """Return a step whose agents have not failed yet, to learn whether steps or agents do."""
        failed = {anchor for anchor, _ in self.run.failures}
        ready = self.run.remaining(self.store).ready if failed else []
        others = [anchor for anchor in ready if anchor not in failed]
        return others[0] if others and len(others) < len(ready) else None

    def _is_sound(self, checkout: Checkout) -> bool:
        """Return whether a step can begin there. Restore a missing `.git`."""
        if checkout.put_marker_back():
            self.run.warn(f"{checkout.path} had lost its .git; it was restored")
        wrong = checkout.trouble()
        if wrong is not None:
            self.run.warn(f"{checkout.path} is no longer used: {wrong}")
        return wrong is None

    def _made(self, new_from: str | None = None) -> tuple[WorktreeCreate, str | None]:
        """Create a worktree, or a new one from that branch. Return it with its reservation."""
        self._number_made += 1
        name = f"implement {self.number}.{self._number_made}"
        order = self.run.order_for(name, new_from=new_from)
        return create.create(self.run.repo, self.store, order), order.request_id

    def _enter(self, there: tuple[WorktreeCreate, str | None]) -> None:
        run = self.run
        made, self._stamp = there
        self.checkout = Checkout.made(run.repo, made)
        run.owners.add(self.checkout.owner)
        self._entered_for = made["resumes"]
        if made["reused"]:
            self.checkout.drop_locks(run.warn)
        told = {"worktree_path": self.checkout.path, "reused": made["reused"]}
        ready = {name: made[name] or None for name in ("setup", "copied")}
        run.tell("worktree", worker=self.number, **told, **ready)
        for issue in setup.issues(made):
            run.warn(str(issue["message"]))

    def _leave_checkout(self) -> None:
        """End the reservation; the worktree stays."""
        if self.checkout is not None:
            plan, owner = self.run.plan, self.checkout.owner
            # The reservation also ends with this process.
            with contextlib.suppress(TugError):
                worktrees.end_reservation(self.store, plan, owner, request=self._stamp)

    def _carry_out(self, claim: Claim) -> None:
        assert self.checkout is not None
        self._work = work = Attempt(self.run, self.store, self.checkout, self.number, claim)
        told = {"title": work.title, "reclaimed": claim["reclaimed"] or None}
        work.tell("claimed", **told, worktree_path=self.checkout.path)
        try:
            commit = step.carry_out(work)
        except Lost:
            # Another process may own the worktree now, so the next step gets another one.
            why = recovery.how_lost(work)
            work.tell("lost", reason=why)
            self.run.left[work.anchor] = why
            recovery.save_lost(work)
            self._abandon(work.checkout)
        except Elsewhere as end:
            self._move(work, str(end))
        except Parked as end:
            self._give_back(work, "parked", str(end), park=str(end))
        except Failed as end:
            self._charge(work, end)
            self._give_back(work, "failed", str(end), failure=str(end))
        except Stopped:
            self._give_back(work, "stopped", "the run was stopped")
        else:
            self._finished(work, commit)
        self._work = None

    def _move(self, work: Attempt, reason: str) -> None:
        """Move the step to a new worktree, where no earlier work conflicts with it."""
        try:
            # Create it before the release, or other workers would meet the same conflict.
            there = self._made(new_from=work.checkout.base_branch)
        except TugError as error:
            if self.run.is_stopped_by(error):
                self._give_back(work, "stopped", "the run was stopped")
                return
            problem = f"{reason}; and no other worktree can be made: {error.message}"
            self._give_back(work, "parked", problem, park=problem)
            return
        self._give_back(work, "moved", reason)
        crash.point("implement.moved")
        self._leave_checkout()
        self._abandon(work.checkout)
        self._enter(there)
        self._entered_for = work.anchor

    def _charge(self, work: Attempt, end: Failed) -> None:
        """Store what a failed agent used."""
        if end.usage.tokens is None and end.usage.cost_microdollars is None:
            return
        try:
            work.report(end.role, end.usage)
        except TugError as error:
            if not work.is_over(error.code):
                raise

    def _finished(self, work: Attempt, commit: str) -> None:
        self.run.accepted()
        # The run may have left the step before.
        self.run.left.pop(work.anchor, None)
        work.tell("completed", commit=commit, title=work.title)
        trouble = back_up(self.store)
        if trouble is not None:
            self.run.warn(trouble)
        crash.point("implement.finished")

    def _give_back(self, work: Attempt, event: str, reason: str, **how: str) -> None:
        self.run.left[work.anchor] = reason
        try:
            free = recovery.give_back(work, **how)
        except TugError as error:
            if not work.is_over(error.code):
                self._work = None
                self.run.owe(work, how)
                raise
            free = False
        work.tell(event, reason=reason)
        if not free or work.checkout.trouble() is not None:
            self._abandon(work.checkout)

    def _abandon(self, checkout: Checkout) -> None:
        """Leave a worktree as it is: its files do not belong to the next step."""
        self.run.owners.discard(checkout.owner)
        self.checkout = None


def _late(claim: Claim) -> dict[str, str]:
    """Return why steps that are ready cannot be had here: step -> reason."""
    rows = claim.get("unpublished_steps", [])
    alone = [f"{row['step_anchor']} is on {machine_of(row['worktree'])} alone" for row in rows]
    waiting = claim.get("waiting_for", {}) if rows else {}
    late = [anchor for anchor, needs in waiting.items() if publication.PUBLISH in needs]
    return {anchor: f"waits for publish: the commit of {listing(alone)}" for anchor in late}
