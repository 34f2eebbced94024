"""What an agent's work cost, as far as its CLI or the agent itself tells it."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tugtool.agents.answers import Answer
    from tugtool.agents.wrappers import Event

#: More fits into no column, and nobody has ever paid or used it.
MOST = 1 << 53


class Usage(NamedTuple):
    """Tokens and money; None for what was not told."""

    #: Read and written, cached ones included.
    tokens: int | None = None
    #: Of those, the ones that came from a cache.
    cached_tokens: int | None = None
    cost_microdollars: int | None = None


NOTHING = Usage()


def of(answer: Answer) -> Usage:
    """What the wrapper tells, or else the `usage` that the answer itself has."""
    told = [usage for event in answer.events for usage in _of_event(event)]
    wrapped = total(told)
    if wrapped != NOTHING:
        return wrapped
    own = answer.value.get("usage") if answer.value else None
    return _plain(own) if isinstance(own, dict) else NOTHING


def total(many: Iterable[Usage]) -> Usage:
    """The sum; what nobody told stays untold."""
    sums: list[int | None] = [None, None, None]
    for usage in many:
        for place, value in enumerate(usage):
            if value is not None:
                sums[place] = min(MOST, (sums[place] or 0) + value)
    return Usage(*sums)


def _of_event(event: Event) -> Iterator[Usage]:
    kind, part = event.get("type"), event.get("part")
    if kind == "result":
        yield _claude(event) if "usage" in event or "total_cost_usd" in event else _gemini(event)
    elif kind == "turn.completed":
        yield _codex(event.get("usage"))
    elif kind == "step_finish":
        yield _opencode(part if isinstance(part, dict) else {})
    elif kind is None and "stats" in event:
        yield _gemini(event)


def _claude(event: Event) -> Usage:
    # What was read from the cache or put into it is not part of `input_tokens` here.
    use = _table(event.get("usage"))
    cached = _count(use.get("cache_read_input_tokens"))
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens")
    counts = [*(_count(use.get(name)) for name in names), cached]
    return Usage(_sum(counts), cached, _microdollars(event.get("total_cost_usd")))


def _codex(value: object) -> Usage:
    # Here it is: `input_tokens` has the cached ones in it.
    use = _table(value)
    counts = [_count(use.get(name)) for name in ("input_tokens", "output_tokens")]
    return Usage(_sum(counts), _count(use.get("cached_input_tokens")))


def _gemini(event: Event) -> Usage:
    stats = _table(event.get("stats"))
    models = [_table(_table(each).get("tokens")) for each in _table(stats.get("models")).values()]
    if any(models):
        totals = [_count(tokens.get("total")) for tokens in models]
        return Usage(_sum(totals), _sum(_count(tokens.get("cached")) for tokens in models))
    return Usage(_count(stats.get("total_tokens")), _count(stats.get("cached")))


def _opencode(part: Event) -> Usage:
    tokens = _table(part.get("tokens"))
    cache = _table(tokens.get("cache"))
    read = _count(cache.get("read"))
    counts = [_count(tokens.get(name)) for name in ("input", "output", "reasoning")]
    return Usage(
        _sum([*counts, read, _count(cache.get("write"))]), read, _microdollars(part.get("cost"))
    )


def _plain(use: Event) -> Usage:
    tokens = _count(use.get("tokens"))
    if tokens is None:
        tokens = _sum(_count(use.get(name)) for name in ("input_tokens", "output_tokens"))
    return Usage(tokens, _count(use.get("cached_tokens")), _microdollars(use.get("cost_usd")))


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _sum(counts: Iterable[int | None]) -> int | None:
    told = [count for count in counts if count is not None]
    return sum(told) if told else None


def _count(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        # 1e9 is a whole number in JSON.
        value = int(value)
    return value if type(value) is int and 0 <= value <= MOST else None


def _microdollars(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # An integer of any size compares with a float; NaN compares with nothing.
    return round(value * 1_000_000) if 0 <= value <= MOST // 1_000_000 else None
