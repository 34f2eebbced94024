"""Compares a new plan text with the recorded steps; unified diffs."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from tugtool.plan.model import Item, Plan, Step

    Lines = Sequence[str]

    #: Lines [a, b) of one text, and lines [c, d) of the other that replace them.
    Span = tuple[int, int, int, int]

    Row = Mapping[str, Any]


#: The most pairs of lines to compare in detail, because the cost grows with them.
BUDGET = 1_000_000
CONTEXT = 3


def unified(old: str, new: str, *, old_name: str, new_name: str) -> str:
    """The change from `old` to `new` as a unified diff; empty if there is none. CRLF is LF."""
    before, after = _lines(old), _lines(new)
    differing = _differing(before, after)
    if not differing:
        return ""
    parts = [f"--- {old_name}", f"+++ {new_name}"]
    for hunk in _hunks(differing):
        parts += _hunk(before, after, hunk)
    return "\n".join(parts) + "\n"


def rising(numbers: Sequence[int]) -> list[int]:
    """The positions of a longest rising subsequence."""
    tails: list[int] = []
    places: list[int] = []
    before: list[int] = []
    for place, number in enumerate(numbers):
        length = bisect_left(tails, number)
        before.append(places[length - 1] if length else -1)
        tails[length : length + 1] = [number]
        places[length : length + 1] = [place]
    chain, place = [], places[-1] if places else -1
    while place >= 0:
        chain.append(place)
        place = before[place]
    return chain[::-1]


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1]:
        # The words of git and diff for a text without a final newline.
        lines[-1] += "\n\\ No newline at end of file"
    else:
        lines.pop()
    return lines


def _differing(before: Lines, after: Lines) -> list[Span]:
    budget = BUDGET
    found: list[Span] = []
    for span in _gaps(before, after):
        a, b, c, d = _stripped(before, after, *span)
        cost = (b - a) * (d - c)
        if cost and cost <= budget:
            budget -= cost
            found += _closely(before, after, (a, b, c, d))
        elif b > a or d > c:
            found.append((a, b, c, d))
    return found


def _gaps(before: Lines, after: Lines) -> Iterator[Span]:
    """The spans between the lines that both texts have exactly once, in the same order."""
    place = _places(after)
    pairs = [(a, place[line]) for line, a in _places(before).items() if line in place]
    a = c = 0
    for index in rising([other for _, other in pairs]):
        one, other = pairs[index]
        yield a, one, c, other
        a, c = one + 1, other + 1
    yield a, len(before), c, len(after)


def _places(lines: Lines) -> dict[str, int]:
    """Line -> its position, for lines that occur once, in their order."""
    places: dict[str, int] = {}
    for place, line in enumerate(lines):
        places[line] = -1 if line in places else place
    return {line: place for line, place in places.items() if place >= 0}


def _stripped(before: Lines, after: Lines, a: int, b: int, c: int, d: int) -> Span:
    while a < b and c < d and before[a] == after[c]:
        a, c = a + 1, c + 1
    while a < b and c < d and before[b - 1] == after[d - 1]:
        b, d = b - 1, d - 1
    return a, b, c, d


def _closely(before: Lines, after: Lines, span: Span) -> list[Span]:
    from difflib import SequenceMatcher

    a, b, c, d = span
    matcher = SequenceMatcher(None, before[a:b], after[c:d], autojunk=False)
    return [
        (a + one, a + one_end, c + other, c + other_end)
        for tag, one, one_end, other, other_end in matcher.get_opcodes()
        if tag != "equal"
    ]


def _hunks(differing: list[Span]) -> Iterator[list[Span]]:
    """Groups of differences whose context lines meet."""
    hunk = differing[:1]
    for span in differing[1:]:
        if span[0] - hunk[-1][1] > 2 * CONTEXT:
            yield hunk
            hunk = []
        hunk.append(span)
    yield hunk


def _hunk(before: Lines, after: Lines, hunk: list[Span]) -> list[str]:
    start = max(0, hunk[0][0] - CONTEXT)
    end = min(len(before), hunk[-1][1] + CONTEXT)
    start_after = hunk[0][2] - (hunk[0][0] - start)
    end_after = hunk[-1][3] + (end - hunk[-1][1])
    parts = [f"@@ -{_range(start, end)} +{_range(start_after, end_after)} @@"]
    here = start
    for a, b, c, d in hunk:
        parts += [f" {line}" for line in before[here:a]]
        parts += [f"-{line}" for line in before[a:b]]
        parts += [f"+{line}" for line in after[c:d]]
        here = b
    return parts + [f" {line}" for line in before[here:end]]


def _range(start: int, end: int) -> str:
    length = end - start
    return f"{start + (length > 0)}" + ("" if length == 1 else f",{length}")


#: The statuses of a step that a worker holds.
HELD = ("claimed", "in_progress")


class Pairing(NamedTuple):
    """The recorded items of a step, matched with the items of its new text."""

    kept: list[tuple[Row, Item]]
    dropped: list[Row]
    fresh: list[Item]

    @property
    def same(self) -> bool:
        """True if the items are the same, in any order."""
        return not self.dropped and not self.fresh

    @property
    def in_place(self) -> bool:
        """True if the items and their order are the same."""
        return self.same and all(row["ordinal"] == item.ordinal for row, item in self.kept)


class Change(NamedTuple):
    """The effect of a new text on the recorded steps. Lists of anchors, in the text's order."""

    #: Steps and substeps that only the text has, and that only the record has.
    added: list[str]
    removed: list[str]
    #: Steps that are the same, and steps that have changed.
    kept: list[str]
    changed: list[str]
    #: Changed steps that a worker holds, with the same items in another order.
    shuffled: set[str]
    #: Changes that do not affect the checklist.
    retitled: list[str]
    moved: list[str]
    needs_changed: list[str]
    reordered: list[str]
    #: Anchor -> pairing, for the anchors in both text and record.
    pairings: dict[str, Pairing]


def pair(rows: Iterable[Row], items: Iterable[Item]) -> Pairing:
    """Match items by kind and text; equal items match in their order."""
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
    """Compare the recorded steps (in order), items and dependencies with a valid plan."""
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
    """Held steps whose items have new positions: their holder uses the old positions."""
    return {
        step.anchor
        for step in same
        if recorded[step.anchor]["status"] in HELD
        and not all(pairings[each.anchor].in_place for each in step.family())
    }


def _changed(recorded: dict[str, Row], found: dict[str, Step], kept: set[str]) -> list[str]:
    """Recorded steps that have changed, also those that were or became substeps."""
    return [
        anchor
        for anchor, step in found.items()
        if anchor in recorded
        and anchor not in kept
        and (step.parent is None or recorded[anchor]["parent_anchor"] is None)
    ]


def _moved(recorded: dict[str, Row], both: list[Step]) -> list[str]:
    """The fewest steps whose move explains the new order."""
    order = [int(recorded[step.anchor]["step_index"]) for step in both]
    stay = set(rising(order))
    return [step.anchor for place, step in enumerate(both) if place not in stay]


def _needs(step: Step) -> set[str]:
    return {need.anchor for need in step.needs}
