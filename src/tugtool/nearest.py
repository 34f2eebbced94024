"""What somebody who mistyped a name may have meant. Only error paths come here."""

from __future__ import annotations

import difflib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Each comparison costs microseconds; a plan of 100,000 anchors must not make it seconds.
MOST_COMPARED = 2000


def names(wanted: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """The names of `known` closest to `wanted`, best first."""
    wanted = wanted[:200]
    pool = [name for _, name in zip(range(MOST_COMPARED), known, strict=False)]
    starts = [name for name in pool if len(wanted) > 1 and name.startswith(wanted)]
    close = difflib.get_close_matches(wanted, pool, n=most)
    return list(dict.fromkeys(close + starts))[:most]
