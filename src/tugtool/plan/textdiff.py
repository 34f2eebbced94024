"""What differs between two texts, line by line; quick however large or alike their lines are.

Lines that each text has exactly once hold the two together; what lies between those is
compared closely while the budget lasts, and replaced as a whole after that.
"""

from __future__ import annotations

from bisect import bisect_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Lines = Sequence[str]
    #: Lines [a, b) of the one text are lines [c, d) of the other; the rest differs.
    Span = tuple[int, int, int, int]

#: Pairs of lines that are compared closely, in all: comparing costs as many at least.
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
    """Positions of a longest run of rising numbers."""
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
        # As git and diff say it; a text that ends as texts do needs no word.
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
    """What lies between the lines that both have exactly once, in the same order."""
    place = _places(after)
    pairs = [(a, place[line]) for line, a in _places(before).items() if line in place]
    a = c = 0
    for index in rising([other for _, other in pairs]):
        one, other = pairs[index]
        yield a, one, c, other
        a, c = one + 1, other + 1
    yield a, len(before), c, len(after)


def _places(lines: Lines) -> dict[str, int]:
    """Line -> where it is, for those that are there once; in their order."""
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
    """Differences so near to each other that their surroundings meet."""
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
