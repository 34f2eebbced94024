"""What somebody who mistyped a name may have meant. Only error paths come here."""

from __future__ import annotations

import difflib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Each comparison costs microseconds; a plan of 100,000 anchors must not make it seconds.
MOST_COMPARED = 2000

#: How much less alike than the best a name may be and still be mentioned.
_SLACK = 0.12


def names(wanted: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """The names of `known` closest to `wanted`, best first; case does not matter."""
    wanted = wanted[:200].lower()
    pool = [name for _, name in zip(range(MOST_COMPARED), known, strict=False)]
    starts = [name for name in pool if len(wanted) > 1 and name.lower().startswith(wanted)]
    alike = {name: _alike(wanted, name) for name in pool}
    best = max(alike.values(), default=0)
    close = [name for name in alike if alike[name] >= max(0.6, best - _SLACK)]
    close.sort(key=lambda name: -alike[name])
    return list(dict.fromkeys(close + starts))[:most]


def _alike(wanted: str, name: str) -> float:
    matcher = difflib.SequenceMatcher(None, wanted, name.lower())
    # The quick bounds first: most names are not worth the slow comparison.
    if matcher.real_quick_ratio() < 0.6 or matcher.quick_ratio() < 0.6:
        return 0
    return matcher.ratio()
