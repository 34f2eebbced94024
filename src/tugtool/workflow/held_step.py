"""A claimed step, held during a `with` block or a command, and settled at its end."""

from __future__ import annotations

import threading

from tugtool import state
from tugtool.errors import TugError
from tugtool.errors.state import NotOwner, Superseded, WrongStatus
from tugtool.state.checklists import KINDS, cut
from tugtool.state.leases import Keeper
from tugtool.system import os
from tugtool.workflow import workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Literal, Self

    from tugtool import schemas
    from tugtool.workflow.workspace import Workspace

    #: An item of `HeldStep.items`, or its kind and its number from 0.
    ItemName = schemas.StateShowItem | tuple[str, int]

#: How long the end waits for other writers.
BUSY_SECONDS = 1.0


class NothingToClaim:
    """No step, and why; it is false, and a `with` block gets it as it is."""

    def __init__(self, facts: schemas.StateClaim) -> None:
        self.facts = facts
        #: `no_ready_steps`, `all_completed` or `paused`.
        self.reason = facts["reason"]

    def __bool__(self) -> Literal[False]:
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: no step is held."""


class HeldStep:
    """A claimed step: a `with` block renews its lease and gives it back at the end.

    Unless the step was completed, leaving the block releases it and saves uncommitted work. An
    exception counts as a failed attempt. After the claim is lost, every change is refused.
    """

    def __init__(
        self, space: Workspace, facts: schemas.StateClaim, lease_seconds: float | None
    ) -> None:
        self._space, self._lease_seconds = space, lease_seconds
        #: The answer of the claim: lease, substeps, missing commits, the last attempt.
        self.facts = facts
        self.anchor, self.title = facts["anchor"], facts["step_title"]
        self.attempt, self.worktree = facts["attempt"], facts["worktree"]
        self._plan = facts["plan_path"]
        self._held: Any = {"owner": space.owner, "attempt": self.attempt}
        #: Set once the loss of the claim is noticed.
        self.lost = threading.Event()
        self._loss: TugError | None = None
        self._left = threading.Event()
        self._renewal: threading.Thread | None = None

    def __bool__(self) -> Literal[True]:
        return True

    @property
    def _mine(self) -> Workspace:
        """Return the workspace; raise if the step is known to be lost."""
        if self._loss is not None:
            raise self._loss.with_traceback(None)
        return self._space

    @property
    def items(self) -> list[schemas.StateShowItem]:
        """Read the checklist of the step and its substeps."""
        shown: schemas.StateShowPlan = state.show(self._space.store, self._plan)
        family = [self.anchor, *(each["anchor"] for each in self.facts["substeps"])]
        mine = [item for item in shown["checklist_items"] if item["step_anchor"] in family]
        mine.sort(key=lambda item: (KINDS.index(item["kind"]), item["ordinal"]))
        return sorted(mine, key=lambda item: family.index(item["step_anchor"]))

    def tick(self, *items: ItemName) -> schemas.StateUpdate:
        """Complete all these items or none: `tick(item)`, `tick(("task", 0))`."""
        return self._update([_entry(item, "completed") for item in items])

    def tick_all(self) -> schemas.StateUpdate:
        """Complete everything that is still open; deferred items stay deferred."""
        return self._update([], complete_remaining=True)

    def defer(self, item: ItemName, reason: str) -> schemas.StateUpdate:
        """Leave the item to a person, with the reason."""
        return self._update([_entry(item, "deferred", reason=reason)])

    def note(
        self, summary: str, content: str | None = None, *, kind: str = "note"
    ) -> schemas.StateArtifact:
        """Leave a note for the next reader; `content` is its whole text."""
        what: Any = {"kind": kind, "summary": summary, "content": content, **self._held}
        return state.artifact(self._mine.store, self._plan, self.anchor, **what)

    def heartbeat(self, lease_seconds: float | None = None) -> schemas.StateHeartbeat:
        """Renew the lease, or ask for another length; a `with` block renews it by itself."""
        store, lease = self._mine.store, lease_seconds
        return state.heartbeat(store, self._plan, self.anchor, **self._held, lease_seconds=lease)

    def commit(self, message: str, *, summary: str | None = None) -> schemas.Commit:
        """Commit all files of the linked worktree, and complete the step with the commit.

        If the step cannot be completed, this raises although the commit exists. Once the cause is
        gone, the same call finds the commit and does not make another.
        """
        from tugtool.workflow import commit

        data, issues = commit.commit_for_caller(
            self._mine, self._plan, self.anchor, message, summary=summary, attempt=self.attempt
        )
        warn(issues)
        if data["state_update_failed"]:
            # Try again: only the error itself says what to do.
            done: Any = self.complete(commit=data["commit_hash"])
            data.update(done)
            data["state_update_failed"] = False
            del data["state_failure_reason"]
        else:
            mention(self._space.back_up())
        return data

    def complete(
        self, *, commit: str | None = None, force_reason: str | None = None
    ) -> schemas.StateComplete:
        """Complete the step; refused while an item is open, unless forced with a reason."""
        how: Any = {"attempt": self.attempt, "commit": commit, "force_reason": force_reason}
        found = workspace.complete(self._mine, self._plan, self.anchor, **how)
        mention(self._space.back_up())
        return found

    def release(self, *, park_reason: str | None = None) -> schemas.StateRelease:
        """Give the step back now. With `park_reason` it waits for a person."""
        return self._release(park_reason=park_reason)

    def __enter__(self) -> Self:
        keeper = begin(self._space, self._plan, self.facts, lease_seconds=self._lease_seconds)
        # A daemon thread, so that a program that ends also lets go of the step.
        self._renewal = threading.Thread(target=self._renew, args=(keeper,), daemon=True)
        self._renewal.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self._left.set()
        if self._renewal is not None:
            self._renewal.join()
        try:
            self._leave(error)
        except TugError as refusal:
            if error is None:
                raise
            error.add_note(f"tugtool: {self.anchor} was not given back: {refusal.message}")

    def _renew(self, keeper: Keeper) -> None:
        """Renew the lease until the block or the claim ends, with a store of this thread."""
        try:
            while keeper.holds() and not self._left.wait(keeper.nap()):
                pass
            if keeper.lost is not None:
                self._lose(keeper.lost)
        finally:
            keeper.store.close()

    def _lose(self, loss: TugError) -> None:
        self._loss = loss
        self.lost.set()

    def _leave(self, error: BaseException | None) -> None:
        """Give the step back, unless it has ended in the block."""
        try:
            standing = state.standing(self._space.store, self._plan, self.anchor, **self._held)
            if standing["standing"] == "held":
                self._release(**_failure(error))
        except WrongStatus:
            pass  # It was completed just now.
        except (NotOwner, Superseded) as loss:
            self._lose(loss)
            # Other errors in the block were about a step that is not ours.
            if error is None:
                raise

    def _release(self, **how: Any) -> schemas.StateRelease:
        """Release the step. With `leaving_work` save uncommitted work for the next worker."""
        found, unsaved = state.release(
            self._mine.store, self._plan, self.anchor, **self._held, leaving_work=True, **how
        )
        if unsaved:
            warn(workspace.save_displaced(self._space, self._plan, found))
        return found

    def _update(self, entries: list[dict[str, object]], **how: Any) -> schemas.StateUpdate:
        copy = self._mine.copy(self._plan)
        found, _ = state.update(
            self._space.store, self._plan, self.anchor, entries, copy=copy, **self._held, **how
        )
        return found


def _entry(item: ItemName, status: str, **more: object) -> dict[str, object]:
    if isinstance(item, tuple):
        return {"kind": item[0], "ordinal": item[1], "status": status, **more}
    named = {"step": item["step_anchor"], "kind": item["kind"], "ordinal": item["ordinal"]}
    return {**named, "status": status, **more}


def _failure(error: BaseException | None) -> dict[str, object]:
    """Return how a release describes the end of the block."""
    if error is None:
        return {}
    if isinstance(error, Exception):
        return {"failure": cut(f"{type(error).__name__}: {error}")}
    # Ctrl-C and the like stop the program; the step has not failed.
    return {"interrupted": True}


def warn(issues: Iterable[Mapping[str, object]]) -> None:
    """Log an operation's warnings."""
    for issue in issues:
        _log(f"{issue['code']}: {issue['message']}")


def mention(trouble: str | None) -> None:
    """Log a failed backup, which is not a reason to refuse anything."""
    if trouble is not None:
        _log(trouble)


def _log(said: str) -> None:
    import logging  # `state exec` need not load it.

    logging.getLogger("tugtool").warning("%s", said)


def begin(
    space: Workspace, plan: str, claim: schemas.StateClaim, *, lease_seconds: float | None
) -> Keeper:
    """Start the claimed step; this process takes over the claim of an earlier call."""
    store, anchor = space.store, claim["anchor"]
    who: Any = {"owner": space.owner, "attempt": claim["attempt"]}
    if claim["replayed"]:
        from tugtool.system import process  # Most claims are new.

        pid = os.getpid()
        state.adopt(store, plan, anchor, **who, pid=pid, place=process.holder_place(pid))
        state.heartbeat(store, plan, anchor, **who, lease_seconds=lease_seconds)
    state.start(store, plan, anchor, **who)
    opened = space.open_store(BUSY_SECONDS)
    seconds = lease_seconds or space.settings.number("state.lease_seconds")
    return Keeper(opened, plan, anchor, **who, lease_seconds=seconds)


def variables(worktree: str, plan: str, anchor: str, attempt: int) -> dict[str, str]:
    """Return the environment variables that name the step."""
    return {
        "TUGCODE_PLAN": plan,
        "TUGCODE_STEP": anchor,
        "TUGCODE_ATTEMPT": str(attempt),
        "TUGCODE_WORKTREE": worktree,
    }


def end(
    space: Workspace,
    claim: Keeper,
    status: int,
    data: schemas.StateExec,
    *,
    lost: TugError | None = None,
    completing: bool = False,
) -> TugError | None:
    """Settle the step by the command's exit status. Return the refusal, or None.

    `data` gets the `outcome`, and the end of the lease if the step is kept.
    """
    error = lost
    if lost is None and claim.standing == "held":
        error = _end(space, claim, status, data, completing=completing)
    if isinstance(error, NotOwner | Superseded):
        claim.standing = "lost"
    data["outcome"] = "kept" if claim.standing == "held" else claim.standing
    return error


def _end(
    space: Workspace, claim: Keeper, status: int, data: schemas.StateExec, *, completing: bool
) -> TugError | None:
    """After a failure release the step; after a success without completion keep the lease."""
    try:
        if status:
            release_claim(space, claim)
            claim.standing = "released"
            return None
        refused = _complete(space, claim) if completing else None
        if claim.standing == "held":
            now = state.let_go(space.store, claim.plan, claim.anchor, **_who(claim))
            data["lease_expires_at"] = now["lease_expires_at"]
        return refused
    except WrongStatus:
        # The claim ended just before the command; the record says how.
        return claim.read()
    except TugError as error:
        return error


def _complete(space: Workspace, claim: Keeper) -> TugError | None:
    """Complete the step; if that is refused, the worktree keeps it."""
    try:
        copy = space.copy(claim.plan)
        state.complete(space.store, claim.plan, claim.anchor, **_who(claim), copy=copy)
    except (NotOwner, Superseded, WrongStatus):
        raise
    except TugError as error:
        return error
    claim.standing = "completed"
    return None


def release_claim(space: Workspace, claim: Keeper) -> None:
    """Release the step."""
    state.release(space.store, claim.plan, claim.anchor, **_who(claim))


def _who(claim: Keeper) -> Any:
    return {"owner": claim.owner, "attempt": claim.attempt}
