"""A worker at its desk: what it works on, whether it may go on, and what agents get to know."""

from __future__ import annotations

import os

from tugtool import keeping, state
from tugtool.implement.ends import Lost, Stopped
from tugtool.keeping import Keeper
from tugtool.state.reporting import Note
from tugtool.store import sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tugtool.implement.casting import Reply
    from tugtool.implement.desk import Desk
    from tugtool.implement.run import Run
    from tugtool.implement.untouched import Untouched
    from tugtool.plan.model import Step
    from tugtool.store import Store

    Data = dict[str, Any]


class Seat:
    """Work on the plan as a whole: nothing is claimed."""

    anchor: str | None = None
    attempt: int | None = None

    def __init__(self, run: Run, store: Store, desk: Desk, worker: int) -> None:
        self.run, self.store, self.desk, self.worker = run, store, desk, worker
        #: The worktree's files as they are now, if an agent that changes nothing was the last.
        self.held: Untouched | None = None
        #: Whether nothing lies there but what is committed, because nobody has worked on it yet.
        self.is_fresh = False

    def check(self) -> None:
        """Raise what keeps the work from going on."""
        if self.run.stopping.is_set():
            raise Stopped

    def tell(self, event: str, **facts: object) -> None:
        """Say what happened, and where."""
        at = {"worker": self.worker, "step_anchor": self.anchor, "attempt": self.attempt}
        self.run.tell(event, **at, **facts)

    def task(self, role: str, more: Mapping[str, object]) -> Data:
        """What an agent is given."""
        return {
            **more,
            "role": role,
            "worktree_path": self.desk.path,
            "plan_path": self.run.plan,
            "step_anchor": self.anchor,
            "attempt": self.attempt,
        }

    def variables(self) -> dict[str, str]:
        """What an agent finds in its environment."""
        return {
            "TUGCODE_PLAN": self.run.plan,
            "TUGCODE_WORKTREE": self.desk.path,
            # Without its .git, git would work on the main worktree from in there.
            "GIT_CEILING_DIRECTORIES": os.path.dirname(self.desk.path),
        }

    def still_holds(self) -> bool:
        """Whether what is worked on is still ours."""
        return True

    def keep_text(self, summary: str, content: str) -> None:
        """Something that an agent wrote where it should not; nothing claimed, nothing kept."""
        self.tell("warning", message=summary)


class Work(Seat):
    """One attempt at one step."""

    def __init__(self, run: Run, store: Store, desk: Desk, worker: int, claim: Data) -> None:
        super().__init__(run, store, desk, worker)
        self.anchor: str = claim["anchor"]
        self.attempt: int = claim["attempt"]
        self.claim = claim
        self.is_fresh = claim.get("previous_attempt", True) is None
        #: What the attempt has failed of, while a person is asked about that.
        self.failure: str | None = None
        self.title: str = claim["step_title"]
        self.step: Step = run.steps[self.anchor]
        self.keeper = Keeper(
            store, run.plan, self.anchor, **self.by, lease_seconds=run.terms.lease_seconds
        )

    @property
    def by(self) -> Data:
        """Who every command about the step comes from."""
        return {"owner": self.desk.owner, "attempt": self.attempt}

    def check(self) -> None:
        """Raise what keeps the work from going on."""
        super().check()
        if not self.keeper.holds():
            raise Lost

    def still_holds(self) -> bool:
        """Whether what is worked on is still ours; the record is read for it."""
        self.keeper.look(closely=True)
        return self.keeper.standing == "held"

    def task(self, role: str, more: Mapping[str, object]) -> Data:
        """What an agent is given."""
        before = self.claim["previous_attempt"]
        known = {"title": self.title, "checklist": self.checklist(), "previous_attempt": before}
        return super().task(role, {**known, **more})

    def variables(self) -> dict[str, str]:
        """What an agent finds in its environment."""
        own = {"TUGCODE_STEP": self.anchor, "TUGCODE_ATTEMPT": str(self.attempt)}
        return {**super().variables(), **own}

    def report(self, role: str, reply: Reply, note: Note | None = None) -> None:
        """An agent has answered: what it cost, what it left; and that we live."""
        state.report(
            self.store,
            self.run.plan,
            self.anchor,
            **self.by,
            role=role,
            tokens=reply.tokens,
            cost_microdollars=reply.cost_microdollars,
            note=note,
        )
        self.keeper.renewed()

    def leave_note(self, kind: str, summary: str, content: str | None = None) -> None:
        """An artifact of the step, also once it is completed."""
        what: Data = {"kind": kind, "summary": summary, "content": content}
        state.artifact(self.store, self.run.plan, self.anchor, **self.by, **what)

    def keep_text(self, summary: str, content: str) -> None:
        """Something that an agent wrote where it should not."""
        self.leave_note("note", summary, content)
        self.tell("warning", message=summary)

    def checklist(self) -> list[Data]:
        """Every item of the step and its substeps, as they stand."""
        with self.store.read(self.run.plan) as tx:
            rows = [
                row for each in self.step.family() for row in tx.all(sql.ITEMS, anchor=each.anchor)
            ]
        fields = ("step_anchor", "kind", "ordinal", "text", "status")
        return [{field: row[field] for field in fields} for row in rows]

    def is_over(self, code: str) -> bool:
        """Whether a refusal with that code says that the claim is gone."""
        return code in keeping.OVER
