"""One worker: a thread, a store and a worktree of its own; one step after the other."""

from __future__ import annotations

import os

from tugtool import crash, state
from tugtool.errors import TugError
from tugtool.git_errors import NotMade
from tugtool.implement import leaving, outlook, premises, settling, step
from tugtool.implement.desk import Desk
from tugtool.implement.ends import Elsewhere, Failed, Lost, Parked, Stopped
from tugtool.implement.seat import Work
from tugtool.state.claiming import Request
from tugtool.state_errors import NotReady, StepParked, WrongStatus
from tugtool.store import sql_implement
from tugtool.worktree import making

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.implement.run import Run
    from tugtool.store import Store

    Data = dict[str, Any]

#: A lease may run out, or a holder die, without anybody writing anything.
LONGEST_NAP_SECONDS = 0.25
#: In place of a claim: there are steps, and no worktree to do them in.
_TO_BE_MADE: Data = {}


class Worker:
    """Carries steps out until there is nothing left for it."""

    def __init__(self, run: Run, number: int) -> None:
        self.run, self.number = run, number
        self.store: Store = run.open_store()
        self.desk: Desk | None = None
        #: How many worktrees it has had: each is reserved under another name.
        self._desks = 0
        self._stamp: str | None = None
        #: The step for which it has moved to the worktree where it sits.
        self._moved_for: str | None = None
        #: Why it could make no worktree, as long as the plan's text is not the agreed one.
        self._barred: TugError | None = None

    def work(self) -> None:
        """To the end; whatever goes wrong is told, and leaves nothing claimed if it can."""
        try:
            while (claim := self._next()) is not None:
                self._carry_out(claim)
        except TugError as error:
            if not self.run.is_stopped_by(error):
                self.run.fail(error.message)
                self.run.tell("worker_failed", worker=self.number, reason=error.message)
        except Exception as error:
            # A fault of ours: the others go on, and whoever ends the run reports it.
            self.run.bugs.append(error)
            self.run.fail(f"{type(error).__name__}: {error}")
        finally:
            self._leave_desk()
            self.store.close()
            # Whoever waits for a step that this one had has to look again.
            self.run.news.set()

    def _next(self) -> Data | None:
        """The next step, claimed; None if there will be none for this worker."""
        claim = self._straight_on()
        while claim is None:
            if self._is_barred():
                continue
            with self.run.turn:
                claim = self._waited_for()
            if claim is not _TO_BE_MADE:
                return claim
            # Not in turn: it takes a while, and others can make theirs at the same time.
            try:
                claim = self._begun()
            finally:
                self.run.made_one()
        return claim

    def _begun(self) -> Data | None:
        """A worktree, and a step in it; or None for now, if the plan's text keeps us from it."""
        try:
            self._sit_down()
        except NotMade as error:
            if self.run.is_plan_agreed() or not outlook.look(self.store, self.run.plan).live:
                raise
            self._barred = error
            self.run.warn(f"worker {self.number} waits: {error.message}")
            return None
        return self._straight_on()

    def _is_barred(self) -> bool:
        """Whether there is nothing to do but to wait until the plan is as it was agreed.

        Not in turn: whoever has a worktree can go on.
        """
        error = self._barred
        if error is None or self.run.stopping.is_set() or self.run.is_plan_agreed():
            self._barred = None
            return False
        seen = outlook.look(self.store, self.run.plan)
        if not seen.live:
            self._barred = None
            if seen.ready and not seen.paused:
                raise error
            return False
        self.run.stopping.wait(LONGEST_NAP_SECONDS)
        return True

    def _straight_on(self) -> Data | None:
        """What it has just done may have made a step ready whose ground lies right here."""
        if self.desk is None or self.run.stopping.is_set() or self._is_broke():
            return None
        claim = self._claim(self.desk)
        self.run.news.set()
        return claim

    def _waited_for(self) -> Data | None:
        """A step, once there is one; or that it needs a worktree first."""
        run = self.run
        before: set[str] = set()
        while not run.stopping.is_set():
            run.news.clear()
            leaving.pay_debts(run, self.store)
            seen = outlook.look(self.store, run.plan)
            if self._is_broke() or seen.paused or not (seen.ready or seen.live):
                return None
            if seen.ready and self.desk is not None:
                claim = self._claim(self.desk)
                if claim is not None:
                    return claim
            elif run.may_make(len(seen.ready), lasting=not before.isdisjoint(seen.ready)):
                return _TO_BE_MADE
            run.wait_for({} if seen.ready else seen.held_by_others(run.owners))
            before = set(seen.ready)
            run.news.wait(LONGEST_NAP_SECONDS)
        return None

    def _is_broke(self) -> bool:
        budget = self.run.terms.budget_tokens
        return bool(budget) and state.spent_tokens(self.store, self.run.plan) >= budget

    def _claim(self, desk: Desk) -> Data | None:
        run, terms = self.run, self.run.terms
        if not premises.hold(run, desk):
            self._stand_up(desk)
            return None
        settling.settle(run, self.store, own=desk.owner)
        request = Request(
            desk.owner,
            lease_seconds=terms.lease_seconds,
            max_attempts=terms.max_attempts,
            holder_pid=os.getpid(),
            begins=True,
        )
        step, self._moved_for = self._moved_for, None
        # Its agents could be at work already, while the others' are.
        self.store.is_urgent = True
        try:
            data = state.claim(self.store, run.plan, request, copy=desk.copy(run.plan), step=step)
        except (NotReady, WrongStatus, StepParked):
            if step is None:
                raise
            # Somebody else has got to it first; the next look finds another.
            return None
        finally:
            self.store.is_urgent = False
        return data if data["claimed"] else None

    def _sit_down(self) -> None:
        """Make a worktree or take a free one, now that there is something to do in it."""
        run = self.run
        self._desks += 1
        order = run.order_for(f"implement {self.number}.{self._desks}")
        there = run.take_made()
        self._sit_at(there or (making.create(run.repo, self.store, order), order.request_id))

    def _sit_at(self, there: tuple[Data, str | None]) -> None:
        run = self.run
        made, self._stamp = there
        self.desk = Desk.made(run.repo, made)
        run.take(self.desk.owner)
        told = {"worktree_path": self.desk.path, "reused": made["reused"]}
        run.tell("worktree", worker=self.number, **told)

    def _leave_desk(self) -> None:
        """Others may have the worktree; it stays where it is."""
        if self.desk is None:
            return
        try:
            with self.store.write(self.run.plan) as tx:
                how = {"path": self.desk.owner, "reserved_for": self._stamp}
                tx.run(sql_implement.FREE_WORKTREE, **how)
        except TugError:
            # It is free once this process has ended.
            return

    def _carry_out(self, claim: Data) -> None:
        assert self.desk is not None
        work = Work(self.run, self.store, self.desk, self.number, claim)
        told = {"title": work.title, "reclaimed": claim["reclaimed"] or None}
        work.tell("claimed", **told, worktree_path=self.desk.path)
        try:
            done = step.carry_out(work)
        except Lost:
            # What lies there may be somebody else's now: another worktree for the next step.
            why = leaving.how_lost(work)
            work.tell("lost", reason=why)
            self.run.leave(work.anchor, why)
            leaving.save_lost(work)
            self._stand_up(work.desk)
        except Elsewhere as end:
            self._move(work, str(end))
        except Parked as end:
            self._give_back(work, "parked", end.reason, park=end.reason)
        except Failed as end:
            self._charge(work, end)
            self._give_back(work, "failed", str(end), failure=str(end))
        except Stopped:
            self._give_back(work, "stopped", "the run was stopped")
        else:
            self._finished(work, done)

    def _move(self, work: Work, reason: str) -> None:
        """Do the step in a worktree of its own, where nothing else is in its way."""
        run, desk = self.run, work.desk
        self._desks += 1
        name = f"implement {self.number}.{self._desks}"
        order = run.order_for(name, new_from=desk.base_branch)
        try:
            # Before the step is given back: else others would only run into the same.
            there = making.create(run.repo, self.store, order), order.request_id
        except TugError as error:
            if run.is_stopped_by(error):
                self._give_back(work, "stopped", "the run was stopped")
                return
            problem = f"{reason}; and no other worktree can be made: {error.message}"
            self._give_back(work, "parked", problem, park=problem)
            return
        self._give_back(work, "moved", reason)
        crash.point("implement.moved")
        if self.desk is not None:
            self._leave_desk()
            self._stand_up(desk)
        self._sit_at(there)
        self._moved_for = work.anchor

    def _charge(self, work: Work, end: Failed) -> None:
        """What an agent used is used, also if nothing came of it."""
        if end.reply.tokens is None and end.reply.cost_microdollars is None:
            return
        try:
            work.report(end.role, end.reply)
        except TugError as error:
            if not work.is_over(error.code):
                raise

    def _finished(self, work: Work, done: Data) -> None:
        self.run.finished(work.anchor)
        work.tell("completed", commit=done["commit_hash"], title=work.title)
        trouble = self.store.back_up()
        if trouble is not None:
            self.run.warn(trouble)
        crash.point("implement.finished")

    def _give_back(self, work: Work, event: str, reason: str, **how: str) -> None:
        self.run.leave(work.anchor, reason)
        try:
            free = leaving.give_back(work, **how)
        except TugError as error:
            if not work.is_over(error.code):
                self.run.owe(work, how)
                raise
            free = False
        work.tell(event, reason=reason)
        if not free or work.desk.trouble() is not None:
            self._stand_up(work.desk)

    def _stand_up(self, desk: Desk) -> None:
        """Leave a worktree as it is: what lies there is not for the next step."""
        self.run.stand_up(desk.owner)
        self.desk = None
