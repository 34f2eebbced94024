"""A plan's new text against its recorded steps: what is new, gone, changed and the same.

Recorded steps and items are rows with the names of their columns. Nothing is decided here.
"""

from __future__ import annotations

from typing import NamedTuple

from tugtool.plan.textdiff import rising

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from tugtool.plan.model import Item, Plan, Step

    Row = Mapping[str, Any]


#: Of a step that somebody works on.
HELD = ("claimed", "in_progress")


class Pairing(NamedTuple):
    """The recorded items of a step and those of its new text, as far as they are the same."""

    kept: list[tuple[Row, Item]]
    dropped: list[Row]
    fresh: list[Item]

    @property
    def same(self) -> bool:
        """Whether there are the same items, in whatever order."""
        return not self.dropped and not self.fresh

    @property
    def in_place(self) -> bool:
        """Whether nothing about the items has changed at all."""
        return self.same and all(row["ordinal"] == item.ordinal for row, item in self.kept)


class Change(NamedTuple):
    """What a new text means for the recorded steps. Lists of anchors, in the text's order."""

    #: Steps and substeps that only the text has, and that only the record has.
    added: list[str]
    removed: list[str]
    #: Steps that are still what they were, and those that are not.
    kept: list[str]
    changed: list[str]
    #: Of the latter, held ones that have the same items in another order.
    shuffled: set[str]
    #: What does not touch the checklist.
    retitled: list[str]
    moved: list[str]
    needs_changed: list[str]
    reordered: list[str]
    #: For every anchor that both have.
    pairings: dict[str, Pairing]


def pair(rows: Iterable[Row], items: Iterable[Item]) -> Pairing:
    """Match items by kind and text; of several that are alike, the first with the first."""
    waiting: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        waiting.setdefault((row["kind"], row["text"]), []).append(row)
    for alike in waiting.values():
        alike.sort(key=lambda row: int(row["ordinal"]), reverse=True)
    found = Pairing([], [], [])
    for item in items:
        alike = waiting.get((item.kind, item.text), [])
        if alike:
            found.kept.append((alike.pop(), item))
        else:
            found.fresh.append(item)
    found.dropped.extend(row for alike in waiting.values() for row in reversed(alike))
    return found


def compare(
    steps: Sequence[Row], items: Mapping[str, list[Row]], needs: Mapping[str, set[str]], plan: Plan
) -> Change:
    """The recorded steps (in their order), items and dependencies against a sound plan."""
    recorded = {row["anchor"]: row for row in steps}
    found = {step.anchor: step for step in plan.every_step()}
    both = [step for step in found.values() if step.anchor in recorded]
    pairings = {s.anchor: pair(items.get(s.anchor, ()), s.items) for s in both}
    same = _same(recorded, plan, pairings)
    shuffled = _shuffled(recorded, same, pairings)
    kept = [step.anchor for step in same if step.anchor not in shuffled]
    return Change(
        added=[anchor for anchor in found if anchor not in recorded],
        removed=[anchor for anchor in recorded if anchor not in found],
        kept=kept,
        changed=_changed(recorded, found, set(kept)),
        shuffled=shuffled,
        retitled=[s.anchor for s in both if s.title != recorded[s.anchor]["title"]],
        moved=_moved(recorded, both),
        needs_changed=[s.anchor for s in both if _needs(s) != needs.get(s.anchor, set())],
        reordered=[a for a, pairing in pairings.items() if pairing.same and not pairing.in_place],
        pairings=pairings,
    )


def _same(recorded: dict[str, Row], plan: Plan, pairings: dict[str, Pairing]) -> list[Step]:
    """Steps with the same substeps, and the same items on each."""
    families: dict[str, set[str]] = {}
    for anchor, row in recorded.items():
        families.setdefault(row["parent_anchor"] or anchor, set()).add(anchor)
    return [
        step
        for step in plan.steps
        if {each.anchor for each in step.family()} == families.get(step.anchor)
        and all(pairings[each.anchor].same for each in step.family())
    ]


def _shuffled(recorded: dict[str, Row], same: list[Step], pairings: dict[str, Pairing]) -> set[str]:
    """Steps whose holder names items by places where others are now."""
    return {
        step.anchor
        for step in same
        if recorded[step.anchor]["status"] in HELD
        and not all(pairings[each.anchor].in_place for each in step.family())
    }


def _changed(recorded: dict[str, Row], found: dict[str, Step], kept: set[str]) -> list[str]:
    """Steps that are in the record, or were substeps there, and are not what they were."""
    return [
        anchor
        for anchor, step in found.items()
        if anchor in recorded
        and anchor not in kept
        and (step.parent is None or recorded[anchor]["parent_anchor"] is None)
    ]


def _moved(recorded: dict[str, Row], both: list[Step]) -> list[str]:
    """What stands elsewhere among those that both have; as few as explain the new order."""
    order = [int(recorded[step.anchor]["step_index"]) for step in both]
    stay = set(rising(order))
    return [step.anchor for place, step in enumerate(both) if place not in stay]


def _needs(step: Step) -> set[str]:
    return {need.anchor for need in step.needs}
