"""Time: UTC text of one width, monotonic ticks, durations in words."""

from __future__ import annotations

import time

from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


#: No lease is longer: its end must stay within the four digits of a year.
LONGEST_SECONDS = 100 * 365 * 86400


def system_milliseconds() -> int:
    """The machine's clock; tests put another in its place."""
    return time.time_ns() // 1_000_000


def nanoseconds() -> int:
    """The machine's clock in nanoseconds, as file systems count."""
    return time.time_ns()


def ticks() -> float:
    """Seconds on a monotonic clock; only differences mean anything."""
    return time.monotonic()


#: Beginnings of the texts of the last few seconds.
_seconds: dict[int, str] = {}


def text(milliseconds: int) -> str:
    """`2026-02-23T12:00:00.000Z`. Comparing such texts compares the times."""
    second, rest = divmod(milliseconds, 1000)
    begun = _seconds.get(second)
    if begun is None:
        if len(_seconds) > 10:
            _seconds.clear()
        # The C library's calendar: earlier tools wrote their own, and leases never expired.
        begun = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        _seconds[second] = begun
    return "%s.%03dZ" % (begun, rest)  # noqa: UP031 (the quickest way, at every transaction)


def milliseconds(text: str) -> int:
    """The time that a `text` names; ValueError if there is no such time."""
    # Commands that only write never read a time, so they do not load this.
    from datetime import datetime

    return round(datetime.fromisoformat(text).timestamp() * 1000)


def seconds_between(start: str, end: str) -> float:
    """The seconds from `start` to `end`, to the millisecond; both as `text` writes them."""
    return (milliseconds(end) - milliseconds(start)) / 1000


def is_fresh(path: str, seconds: float) -> bool:
    """True if a file was written within so many seconds; a time in the future does not count."""
    try:
        return 0 <= time.time() - os.stat(path).st_mtime < seconds
    except OSError:
        return False


def tries(seconds: float) -> Iterator[bool]:
    """Yield once per try, with a nap between, for so many seconds; True for the last try."""
    deadline, nap = time.monotonic() + seconds, 0.01
    while (left := deadline - time.monotonic()) > 0:
        yield False
        # A nap: the system cannot wait for some things, such as git's lock files.
        time.sleep(min(nap, left))
        nap = min(2 * nap, 0.2)
    yield True


def duration(seconds: float) -> str:
    """`45s`, `12m`, `1h 05m`, `2h`, `3d 4h`: the two largest units at most, never rounded up."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if days:
        return f"{days}d {hours % 24}h" if hours % 24 else f"{days}d"
    if hours:
        return f"{hours}h {minutes % 60:02}m" if minutes % 60 else f"{hours}h"
    return f"{minutes}m" if minutes else f"{whole}s"
