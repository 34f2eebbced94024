"""Claims that nobody is behind any more, and steps that wait for a person."""

from __future__ import annotations

import os

from tugtool.doctor.finding import note, warning
from tugtool.errors import quoted
from tugtool.state import hindsight
from tugtool.store import sql_look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.doctor.finding import Finding
    from tugtool.doctor.patient import Patient
    from tugtool.store import Row


def claims(patient: Patient) -> Iterator[Finding]:
    """Leases that have run out, holders that are gone, worktrees that are."""
    with patient.store.read() as tx:
        held, lost = tx.all(sql_look.EVERY_HELD_STEP), hindsight.stale(tx)
        # No claim takes these: a person has to look, as `parked` says.
        parked = {(row["plan_path"], row["anchor"]) for row in hindsight.waiting(tx)}
    for row in held:
        key = (row["plan_path"], row["anchor"])
        finding = None if key in parked else _judged(patient, row, lost[key])
        if finding is not None:
            yield finding


def _judged(patient: Patient, row: Row, lost: str | None) -> Finding | None:
    plan, anchor, owner = row["plan_path"], row["anchor"], row["claimed_by"]
    hint = f"tugcode state why {quoted(plan)} {quoted(anchor)}"
    what = f"{anchor} of {plan} is held by {owner}"
    if lost == "expired":
        until = row["lease_expires_at"]
        return note(f"{what}, whose lease ran out at {until}; the next claim takes it", hint=hint)
    if lost == "gone":
        return note(f"{what}, whose process is gone; the next claim takes it", hint=hint)
    if patient.top_of(owner) is None and not os.path.isdir(owner):
        until = row["lease_expires_at"]
        said = f"{what}, a worktree that is not there; nobody else gets it before {until}"
        return warning(said, hint=hint)
    return None


def parked(patient: Patient) -> Iterator[Finding]:
    """Steps that nobody gets until a person has looked."""
    with patient.store.read() as tx:
        rows = hindsight.waiting(tx)
    for row in rows:
        said = f"{row['anchor']} of {row['plan_path']} is parked: {row['park_reason']}"
        yield warning(said, hint=f"tugcode state review {quoted(row['plan_path'])}")
