"""Stretches of time, in milliseconds: when a step could be worked on, and when it was."""

from __future__ import annotations

from tugtool import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set
    from typing import Any

    from tugtool.store import Row

    Spell = tuple[int, int]

#: Ended by the holder itself, who was there until then.
ENDED_BY_HOLDER = ("completed", "released", "failed")


def total(spells: Iterable[Spell]) -> int:
    """How long they last together."""
    return sum(end - start for start, end in spells)


def tidy(spells: Iterable[Spell]) -> list[Spell]:
    """One after the other and none empty, also where a clock was set back."""
    kept: list[Spell] = []
    for start, end in spells:
        start = max(start, kept[-1][1]) if kept else start
        if end > start:
            kept.append((start, end))
    return kept


def shared(ones: Sequence[Spell], others: Sequence[Spell]) -> int:
    """How long spells of both lists run at the same time."""
    common = one = other = 0
    while one < len(ones) and other < len(others):
        (start, end), (begin, stop) = ones[one], others[other]
        common += max(0, min(end, stop) - max(start, begin))
        if end < stop:
            one += 1
        else:
            other += 1
    return common


def held(attempt: Row, now: int) -> Spell:
    """From the claim until it ended, or until its lease ran out if its holder did not end it."""
    start, end = clock.milliseconds(attempt["claimed_at"]), _end(attempt, now)
    if attempt["outcome"] in ENDED_BY_HOLDER:
        return start, end
    return start, min(end, _lease_end(attempt))


def worked(attempt: Row, now: int) -> int:
    """From the claim until it ended; of a holder that was lost, until its last sign of life."""
    start, end = clock.milliseconds(attempt["claimed_at"]), _end(attempt, now)
    running = attempt["outcome"] is None and _lease_end(attempt) >= now
    if not running and attempt["outcome"] not in ENDED_BY_HOLDER:
        end = clock.milliseconds(attempt["seen_at"])
    return max(0, end - start)


def _end(attempt: Row, now: int) -> int:
    return now if attempt["ended_at"] is None else clock.milliseconds(attempt["ended_at"])


def _lease_end(attempt: Row) -> int:
    lease: int = max(1, round(attempt["lease_seconds"] * 1000))
    return clock.milliseconds(attempt["seen_at"]) + lease


class Openings:
    """For each step, when nothing but a worker was missing: not blocked, and not completed.

    Told from the events; the dependencies are those of the plan as it is now. A step that
    came later, with a revision of the plan, keeps nobody waiting before.
    """

    def __init__(
        self,
        steps: Sequence[Row],
        needs: Sequence[Row],
        start: int,
        *,
        later: Set[str] = frozenset(),
    ) -> None:
        self._home = {row["anchor"]: row["parent_anchor"] or row["anchor"] for row in steps}
        self._family: dict[str, list[str]] = {}
        for anchor, home in self._home.items():
            self._family.setdefault(home, []).append(anchor)
        self._done = {anchor for anchor in self._home if anchor in later}
        self._waiting: dict[str, list[str]] = {}
        self._missing = dict.fromkeys(self._family, 0)
        for edge in needs:
            home = self._home[edge["step_anchor"]]
            if self._home[edge["depends_on"]] != home:
                self._waiting.setdefault(edge["depends_on"], []).append(home)
                self._missing[home] += edge["depends_on"] not in self._done
        self._since: dict[str, int] = {}
        self._spells: dict[str, list[Spell]] = {home: [] for home in self._family}
        for home in self._family:
            self._turn(home, start)

    def apply(self, event: Row, detail: Mapping[str, Any]) -> None:
        """One turning point, in the order in which they happened."""
        kind, anchor, at = event["kind"], event["step_anchor"], clock.milliseconds(event["at"])
        if kind in ("complete", "reconcile", "substep_completed"):
            self._complete(anchor, at)
            return
        members = [anchor]
        if kind == "reopen":
            members = self._family.get(anchor, [])
        elif kind == "revise":
            members = [*detail["added"], *detail["reopened"]]
        for member in members:
            self._reopen(member, at)

    def spells(self, anchor: str, now: int) -> list[Spell]:
        """The openings of a step until now."""
        last = [(self._since[anchor], now)] if anchor in self._since else []
        return tidy([*self._spells[anchor], *last])

    def _complete(self, anchor: str, at: int) -> None:
        # Unless it was dropped from the plan since.
        if anchor in self._home and anchor not in self._done:
            self._done.add(anchor)
            self._shift(anchor, at, by=-1)

    def _reopen(self, anchor: str, at: int) -> None:
        if anchor in self._done:
            self._done.remove(anchor)
            self._shift(anchor, at, by=1)

    def _shift(self, anchor: str, at: int, *, by: int) -> None:
        for home in self._waiting.get(anchor, ()):
            self._missing[home] += by
            self._turn(home, at)
        self._turn(self._home[anchor], at)

    def _turn(self, home: str, at: int) -> None:
        is_open = not self._missing[home] and home not in self._done
        if is_open and home not in self._since:
            self._since[home] = at
        elif not is_open and home in self._since:
            self._spells[home].append((self._since.pop(home), at))
