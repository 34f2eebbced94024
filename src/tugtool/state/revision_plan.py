"""The effect of a plan's new text on its record, and the conflicts.

It is computed from the rows alone; `revisions` writes it, or only shows it.
"""

from __future__ import annotations

from typing import NamedTuple

from tugtool.plan import model
from tugtool.plan.compare import HELD, compare
from tugtool.state.record import CLOSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tugtool.plan.model import Plan
    from tugtool.store import Row


class Allowed(NamedTuple):
    """A person's permissions to change finished or claimed work."""

    reopen_changed: bool = False
    drop_completed: bool = False
    drop_claimed: bool = False
    #: Return to a text that was agreed before.
    revert: bool = False


#: The command-line flags; a refusal names the one that allows it.
FLAGS = {name: f"--{name.replace('_', '-')}" for name in Allowed._fields}


class Recorded:
    """All rows of a plan that a new text can change."""

    def __init__(self, steps: list[Row], items: Iterable[Row], deps: Iterable[Row]) -> None:
        self.steps: dict[str, Row] = {row["anchor"]: row for row in steps}
        self.items: dict[str, list[Row]] = {}
        for item in items:
            self.items.setdefault(item["step_anchor"], []).append(item)
        self.needs: dict[str, set[str]] = {}
        for edge in deps:
            self.needs.setdefault(edge["step_anchor"], set()).add(edge["depends_on"])

    def home(self, anchor: str) -> str:
        """Return the step of a step or substep."""
        return str(self.steps[anchor]["parent_anchor"] or anchor)

    def fence(self, anchor: str) -> int:
        """Return the highest attempt that may still write to it."""
        row, top = self.steps[anchor], self.steps[self.home(anchor)]
        return max(int(row["attempt"]), int(top["attempt"]))


class Revision:
    """The decision about every step, substep and item; `fences` are attempts of dropped steps."""

    def __init__(
        self, recorded: Recorded, parsed: Plan, *, fences: Mapping[str, int] | None = None
    ) -> None:
        self.recorded, self.parsed = recorded, parsed
        rows = list(recorded.steps.values())
        self.change = compare(rows, recorded.items, recorded.needs, parsed)
        self.found = {step.anchor: step for step in parsed.every_step()}
        self.home = model.homes(parsed)
        self.removed = [recorded.steps[anchor] for anchor in self.change.removed]
        self._kept = set(self.change.kept)
        #: Steps and substeps whose row starts over as pending.
        self.over = [a for a in self.found if a in recorded.steps and self._starts_over(a)]
        self.attempts = self._attempts(fences or {})
        #: The status of every step and substep, before substeps complete by themselves.
        self.status = self._statuses()
        self.open_deps = model.open_needs(parsed, self.status)
        #: The status after that.
        self.final = dict(self.status)
        self.settled = self._settled()
        self._lost = self._closed_and_gone()

    def _starts_over(self, anchor: str) -> bool:
        if self.home[anchor] in self._kept:
            return False
        row = self.recorded.steps[anchor]
        # A completed substep stays done as a substep with the same items, under any step.
        was_substep = row["parent_anchor"] is not None
        still = was_substep and self.found[anchor].parent is not None
        return not (still and row["status"] == "completed" and self.change.pairings[anchor].same)

    def _attempts(self, fences: Mapping[str, int]) -> dict[str, int]:
        """Return the attempt of each step that is not kept.

        No given-out number may count again: neither of an earlier step of that name, nor of
        the former step of a substep.
        """
        known = {anchor: self.recorded.fence(anchor) for anchor in self.recorded.steps}
        highest = {
            step.anchor: max(known.get(e.anchor, fences.get(e.anchor, 0)) for e in step.family())
            for step in self.parsed.steps
            if step.anchor not in self._kept
        }
        return {anchor: number for anchor, number in highest.items() if number}

    def _statuses(self) -> dict[str, str]:
        over = set(self.over)
        known = self.recorded.steps
        return {
            a: str(known[a]["status"]) if a in known and a not in over else "pending"
            for a in self.found
        }

    def _settled(self) -> list[str]:
        """Return substeps that complete by themselves now: all closed, nothing to wait for."""
        waiting: dict[str, list[str]] = {}
        for step in self.found.values():
            for need in step.needs:
                waiting.setdefault(need.anchor, []).append(step.anchor)
        settled: list[str] = []
        look = [anchor for anchor, step in self.found.items() if step.parent is not None]
        look.reverse()
        while look:
            anchor = look.pop()
            if self._is_done(anchor):
                self.final[anchor] = "completed"
                settled.append(anchor)
                look += [each for each in waiting.get(anchor, ()) if self.found[each].parent]
        return settled

    def _is_done(self, anchor: str) -> bool:
        step = self.found[anchor]
        needs = {need.anchor for need in step.needs} - {step.parent}
        items = self.item_states(anchor)
        return (
            self.final[anchor] != "completed"
            and bool(items)
            and all(state in CLOSED for *_, state in items)
            and all(self.final[need] == "completed" for need in needs)
        )

    def item_states(self, anchor: str) -> list[tuple[str, int, str]]:
        """Return kind, ordinal and status of every item of the new text."""
        pairing = self.change.pairings.get(anchor)
        if pairing is None:
            return [(item.kind, item.ordinal, "open") for item in self.found[anchor].items]
        return [
            *((item.kind, item.ordinal, self._state(row)) for row, item in pairing.kept),
            *((item.kind, item.ordinal, "open") for item in pairing.fresh),
        ]

    def _state(self, row: Row) -> str:
        return "open" if self.restarts(row) else str(row["status"])

    def restarts(self, item: Row) -> bool:
        """Return whether a kept item was under way in a step that starts over."""
        started = item["status"] == "in_progress"
        return started and self.home[item["step_anchor"]] not in self._kept

    def reopened(self) -> list[str]:
        """Return completed steps and substeps that have to be done again."""
        return [a for a in self.over if self.recorded.steps[a]["status"] == "completed"]

    def claims(self) -> tuple[list[str], list[str]]:
        """Return the steps whose claim is kept, and those whose claim ends."""
        held = [
            anchor
            for anchor, row in self.recorded.steps.items()
            if row["parent_anchor"] is None and row["status"] in HELD
        ]
        kept = [anchor for anchor in held if anchor in self._kept]
        return kept, [anchor for anchor in held if anchor not in self._kept]

    def dropped_items(self) -> Iterator[Row]:
        """Return items with work that the new text drops."""
        for anchor in self.recorded.steps:
            pairing = self.change.pairings.get(anchor)
            rows = self.recorded.items.get(anchor, []) if pairing is None else pairing.dropped
            yield from (row for row in rows if row["status"] != "open")

    def reset_items(self) -> Iterator[Row]:
        """Return items that were under way and start over."""
        for pairing in self.change.pairings.values():
            yield from (row for row, _ in pairing.kept if self.restarts(row))

    def kept_items(self) -> int:
        """Return how many completed or deferred items are kept."""
        pairings = self.change.pairings.values()
        return sum(row["status"] in CLOSED for pairing in pairings for row, _ in pairing.kept)

    def ahead(self) -> list[str]:
        """Return kept steps, completed or claimed, with a dependency that is open now."""
        waiting = model.open_needs(self.parsed, self.final)
        return [a for a, number in waiting.items() if number and self.status[a] != "pending"]

    def touches_items(self, anchor: str) -> bool:
        """Return whether any of its items is new, gone, moved or starts over."""
        pairing = self.change.pairings.get(anchor)
        if pairing is None or not pairing.in_place:
            return True
        return any(self.restarts(row) for row, _ in pairing.kept)

    def refusals(self, allowed: Allowed) -> list[dict[str, object]]:
        """Return what may not happen without a person's permission."""
        return [
            {"step": anchor, "why": why, "flag": FLAGS[flag]}
            for anchor, why, flag in self._in_the_way()
            if not getattr(allowed, flag)
        ]

    def _in_the_way(self) -> Iterator[tuple[str, str, str]]:
        """Yield conflicts, steps before substeps; a substep only for what its step does not say."""
        told: set[tuple[str, str]] = set()
        tops = [a for a, row in self.recorded.steps.items() if row["parent_anchor"] is None]
        below: dict[str, list[str]] = {}
        for anchor in self.recorded.steps:
            below.setdefault(self.recorded.home(anchor), []).append(anchor)
        for top in tops:
            for anchor in (top, *(each for each in below[top] if each != top)):
                for why, flag in self._objections(anchor):
                    if (top, flag) not in told:
                        yield anchor, why, flag
                    if anchor == top:
                        told.add((top, flag))

    def _objections(self, anchor: str) -> Iterator[tuple[str, str]]:
        row = self.recorded.steps[anchor]
        gone = anchor not in self.found
        completed = row["status"] == "completed"
        if gone and completed:
            yield "it is completed, and gone from the plan", "drop_completed"
        elif gone and self._lost[anchor]:
            closed = f"{self._lost[anchor]} completed or deferred items"
            yield f"it has {closed}, and is gone from the plan", "drop_completed"
        elif completed and not gone and self._starts_over(anchor):
            yield f"it is completed, and {self._what_changed(anchor)}", "reopen_changed"
        top = row["parent_anchor"] is None
        if top and row["status"] in HELD and anchor not in self._kept:
            what = "is gone from the plan" if gone else self._what_changed(anchor)
            yield f"it is held by {row['claimed_by']}, and {what}", "drop_claimed"

    def _closed_and_gone(self) -> dict[str, int]:
        """Return closed items of dropped rows; those of a substep count for its step too."""
        lost = dict.fromkeys(self.recorded.steps, 0)
        for row in self.removed:
            items = self.recorded.items.get(row["anchor"], ())
            for anchor in {row["anchor"], self.recorded.home(row["anchor"])}:
                lost[anchor] += sum(item["status"] in CLOSED for item in items)
        return lost

    def _what_changed(self, anchor: str) -> str:
        was = self.recorded.steps[anchor]["parent_anchor"] is None
        now = self.found[anchor].parent is None
        if was != now:
            return "is a substep now" if was else "is a step of its own now"
        shuffled = anchor in self.change.shuffled
        return "its items are in another order" if shuffled else "its checklist changed"
