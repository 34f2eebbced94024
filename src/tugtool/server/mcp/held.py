"""The steps that were claimed through this server: renewed while its client lives, then freed."""

from __future__ import annotations

from tugtool import errors
from tugtool.errors import TugError
from tugtool.system import clock, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from tugtool.workflow.workspace import Workspace


#: A lease is renewed so many times before it would run out.
RENEWALS = 3
#: After a renewal that failed, the next try.
_RETRY_SECONDS = 5.0


class HeldClaim:
    """One claim: whose it is, and when it is to be renewed."""

    def __init__(
        self, data: Mapping[str, Any], worktree: str | None, request_id: str | None, due: float
    ) -> None:
        self.plan, self.anchor, self.attempt = data["plan_path"], data["anchor"], data["attempt"]
        #: The worktree that the client named; None for that of the server.
        self.worktree, self.due = worktree, due
        #: With it, the same claim is returned again.
        self.request_id = request_id


class HeldSteps:
    """The claims of one client. It is changed by one thread at a time, which has the lock."""

    def __init__(
        self, cwd: str, *, lease_seconds: float, idle_seconds: float, ticks: Callable[[], float]
    ) -> None:
        self._cwd, self._ticks = cwd, ticks
        self._every = lease_seconds / RENEWALS
        self._idle_seconds = idle_seconds
        self._claims: dict[tuple[str, str], HeldClaim] = {}
        self._last_call = ticks()
        self._parent = os.getppid()

    @property
    def holder_pid(self) -> int:
        """The client's process; this one if the client's cannot be seen from here."""
        return self._parent or os.getpid()

    @property
    def is_orphaned(self) -> bool:
        """True if the client's process has ended."""
        return os.getppid() != self._parent

    def add(
        self, data: Mapping[str, Any], worktree: str | None, request_id: str | None = None
    ) -> None:
        """Hold what was claimed."""
        claim = HeldClaim(data, worktree, request_id, self._ticks() + self._every)
        self._claims[claim.plan, claim.anchor] = claim

    def drop(self, plan: str, anchor: str, attempt: int | None = None) -> None:
        """Hold it no more: it was completed, given back or lost."""
        claim = self._claims.get((plan, anchor))
        if claim is not None and attempt in (None, claim.attempt):
            del self._claims[plan, anchor]

    def find(
        self, *, anchor: str | None = None, attempt: object = None, plan: str | None = None
    ) -> HeldClaim | None:
        """Return the claim of that step, or with that number; without either, the only one."""
        found = [
            each
            for each in list(self._claims.values())
            if anchor in (None, each.anchor)
            and attempt in (None, each.attempt)
            and plan in (None, each.plan)
        ]
        return found[0] if len(found) == 1 else None

    def in_worktree(self, plan: str, worktree: str | None) -> HeldClaim | None:
        """Return the claim of a step of the plan for that worktree, if there is one."""
        every = list(self._claims.values())
        own = [each for each in every if (each.plan, each.worktree) == (plan, worktree)]
        return own[0] if len(own) == 1 else None

    def touch(self) -> None:
        """Note a call of the client."""
        self._last_call = self._ticks()

    def wait_seconds(self, most: float) -> float:
        """How long nothing is to be done."""
        if self._is_idle():
            return most
        left = [claim.due - self._ticks() for claim in list(self._claims.values())]
        # Another thread may add a claim meanwhile, and that is due after `_every`.
        return max(0.0, min([most, self._every, *left]))

    def _is_idle(self) -> bool:
        return self._ticks() - self._last_call >= self._idle_seconds

    def renew(self) -> None:
        """Renew what is due, unless the client has been silent for too long."""
        if self._is_idle() or self.is_orphaned:
            return
        for claim in list(self._claims.values()):
            if self._ticks() >= claim.due:
                self._renew(claim)

    def _renew(self, claim: HeldClaim) -> None:
        from tugtool import state

        try:
            space = self._space(claim)
            who = {"owner": space.owner, "attempt": claim.attempt}
            state.heartbeat(space.store, claim.plan, claim.anchor, **who)
            space.store.close()
            claim.due = self._ticks() + self._every
        except (errors.NotOwner, errors.Superseded, errors.WrongStatus, errors.NoSuchStep):
            # The next call of the client is told so.
            self.drop(claim.plan, claim.anchor, claim.attempt)
        except TugError:
            # Busy, full or away for now; the lease has two thirds left.
            claim.due = self._ticks() + min(_RETRY_SECONDS, self._every)

    def release(self) -> None:
        """Give every step back, because the client is gone; uncommitted work is saved."""
        if not self._claims:
            return
        from tugtool import state
        from tugtool.workflow import workspace
        from tugtool.workflow.salvage import leftovers

        freed = []
        for claim in list(self._claims.values()):
            try:
                space = self._space(claim)
                who: Any = {"owner": space.owner, "attempt": claim.attempt}
                how: Any = {"interrupted": True, "leaving_work": True}
                found, unsaved = state.release(space.store, claim.plan, claim.anchor, **who, **how)
            except TugError:
                continue  # It is lost, or the record is away; then the lease runs out.
            freed += [(space, claim, found)] if unsaved else []
        # All are free before git is asked for anything.
        for space, claim, found in freed:
            workspace.save_displaced(space, claim.plan, found)
            # The next worker in this worktree must not commit it with another step.
            leftovers.note_left(space, claim.plan, claim.anchor, claim.attempt)
        self._claims.clear()

    def _space(self, claim: HeldClaim) -> Workspace:
        from tugtool.workflow.workspace import Workspace

        return Workspace(self._cwd, claim.worktree)


def for_client(cwd: str, *, lease_seconds: float, idle_seconds: float) -> HeldSteps:
    """The claims of the process that started this one."""
    how: Any = {"lease_seconds": lease_seconds, "idle_seconds": idle_seconds}
    return HeldSteps(cwd, **how, ticks=clock.ticks)
