"""The findings, and the faults of ours among them: none, unless the row says why."""

from typing import NamedTuple

OURS = "tugcode"
#: A smaller difference is noise on a shared machine.
NOISE = 1.05
#: Why a peer is ahead, by operation and peer.
WHY = {
    ("create", "taskmd"): "one file with one line in it; ours records a whole plan, with as many "
    "steps as the project has, in one transaction that is on the disk before it answers",
    ("jobs", "huey"): "one transaction a job, not two: the job is deleted when it is fetched, so a "
    "crash loses it; and one row a job, where we keep step, attempt, event and counts",
    ("jobs", "litequeue"): "acknowledged before it is on the disk (synchronous=NORMAL); one row a "
    "job, where we keep step, attempt, event and counts; no lease, no fence",
    ("jobs", "litequeue, synchronous=FULL"): "as many commits as ours, but of one row a job, where "
    "we keep step, attempt, event and counts; no lease, no fence",
    ("jobs", "persist-queue"): "as many commits as ours, but of one row a job, where we keep step, "
    "attempt, event and counts; no lease, no fence, one process only",
}


class Speed(NamedTuple):
    """One row: a system's cost as a multiple of ours, so less is ahead."""

    what: str
    system: str
    times_ours: float

    @property
    def is_ahead(self) -> bool:
        return self.system != OURS and self.times_ours * NOISE < 1

    @property
    def why(self) -> str:
        """The reason, only if the peer is ahead."""
        return WHY.get((self.what, self.system), "") if self.is_ahead else ""


class Race(NamedTuple):
    """The number of contenders that were told they own the one task, by round."""

    system: str
    winners: list[int]


class Writes(NamedTuple):
    """Concurrent writes: how many were acknowledged, and how many are there."""

    system: str
    told: list[int]
    kept: list[int]


class Handover(NamedTuple):
    """A lost its task to B and finishes it; None if nothing was handed over."""

    system: str
    is_accepted: bool | None


class Findings(NamedTuple):
    """All findings of a run."""

    speeds: list[Speed]
    races: list[Race]
    writes: list[Writes]
    handovers: list[Handover]


def faults(found: Findings) -> list[str]:
    """Return our faults as sentences; a peer's are only reported."""
    return [
        *_slow(found.speeds),
        *_shared(_ours(found.races)),
        *_lost(_ours(found.writes)),
        *_fooled(_ours(found.handovers)),
    ]


def unmeasured(found: Findings, expected: set[str]) -> list[str]:
    """Return what was not measured of ours: a failing command must not pass for a good one."""
    missing = expected - {speed.what for speed in _ours(found.speeds)}
    kinds = [kind for kind in Findings._fields[1:] if not _ours(getattr(found, kind))]
    return [f"ours was not measured: {name}" for name in (*sorted(missing), *kinds)]


def _ours(rows: list) -> list:
    return [row for row in rows if row.system == OURS]


def _slow(speeds: list[Speed]) -> list[str]:
    return [
        f"{speed.what}: {speed.system} takes {speed.times_ours:.2f} times ours, without a why"
        for speed in speeds
        if speed.is_ahead and not speed.why
    ]


def _shared(races: list[Race]) -> list[str]:
    bad = [count for race in races for count in race.winners if count != 1]
    return [f"one task had {count} owners" for count in bad]


def _lost(writes: list[Writes]) -> list[str]:
    rounds = [pair for each in writes for pair in zip(each.told, each.kept, strict=True)]
    return [f"{told} writes were acknowledged, {kept} kept" for told, kept in rounds if kept < told]


def _fooled(handovers: list[Handover]) -> list[str]:
    said = {True: "a superseded worker's finish was accepted", None: "nothing was handed over"}
    return [said[each.is_accepted] for each in handovers if each.is_accepted is not False]
