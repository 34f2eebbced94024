"""Time as everybody stores and compares it: UTC text of one width, to the millisecond."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: No lease is longer: its end must stay within the four digits of a year.
LONGEST_SECONDS = 100 * 365 * 86400


def system_milliseconds() -> int:
    """The machine's clock; tests put another in its place."""
    return time.time_ns() // 1_000_000


def ticks() -> float:
    """Seconds on a clock that nobody sets; only differences mean anything."""
    return time.monotonic()


def text(milliseconds: int) -> str:
    """`2026-02-23T12:00:00.000Z`. Comparing such texts compares the times."""
    seconds, rest = divmod(milliseconds, 1000)
    # The C library's calendar: earlier tools wrote their own, and leases never expired.
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:03}Z"


def milliseconds(text: str) -> int:
    """The time that such a text tells; ValueError if there is no such time."""
    # For whoever looks back; commands that only write never load it.
    from datetime import datetime

    return round(datetime.fromisoformat(text).timestamp() * 1000)


def seconds_between(start: str, end: str) -> float:
    """How long after `start` is `end`, to the millisecond; both as `text` writes them."""
    return (milliseconds(end) - milliseconds(start)) / 1000


def is_fresh(path: str, seconds: float) -> bool:
    """Whether a file was written so short a time ago; a time to come is a clock that was wrong."""
    try:
        return 0 <= time.time() - os.stat(path).st_mtime < seconds
    except OSError:
        return False


def tries(seconds: float) -> Iterator[bool]:
    """Once per try, with a nap between, for so many seconds; True for the last one."""
    deadline, nap = time.monotonic() + seconds, 0.01
    while (left := deadline - time.monotonic()) > 0:
        yield False
        # For what cannot be waited on, such as a lock that git made as a mere file.
        time.sleep(min(nap, left))
        nap = min(2 * nap, 0.2)
    yield True
