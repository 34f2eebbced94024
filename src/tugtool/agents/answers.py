"""An agent's answer: the last JSON object on its standard output, plain or wrapped."""

from __future__ import annotations

import json
from typing import NamedTuple

from tugtool.agents import contracts, objects, wrappers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.agents.wrappers import Event

#: An answer stands at the end; whatever came before so much is not looked at.
MOST_BYTES = 4 << 20
#: Of what an agent said instead of an answer, as much is told.
MOST_TOLD = 200


class Answer(NamedTuple):
    """What an agent answered; without an answer, why what it printed is none."""

    value: dict[str, object] | None
    problem: str | None
    #: What its CLI wrapped around it; `usage` reads it.
    events: list[Event]


def read(output: bytes) -> Answer:
    """The last JSON object on an agent's standard output."""
    text = output[-MOST_BYTES:].decode(errors="replace")
    events, rest = _events(text)
    try:
        value = objects.last(rest)
        if value is not None and wrappers.is_event(value):
            # One that was printed over many lines.
            events.append(value)
            value = None
        if value is None and events:
            value = _structured(events) or objects.last(wrappers.said(events))
    except objects.NotUsable as error:
        return Answer(None, f"its last JSON object cannot be taken: {error}", events)
    return Answer(value, _nothing(text, events) if value is None else None, events)


def checked(role: str, output: bytes) -> Answer:
    """The answer of an agent that plays `role`, held against its contract."""
    answer = read(output)
    if answer.value is None:
        return answer
    broken = contracts.problems(role, answer.value)
    if not broken:
        return answer
    return answer._replace(value=None, problem="it breaks its contract: " + "; ".join(broken))


def _events(text: str) -> tuple[list[Event], str]:
    """The events that stand on lines of their own, and what comes after the last of them."""
    events, end = [], 0
    for start, line in _lines(text):
        event = _event(line)
        if event:
            events += event
            end = start + len(line)
    return events, text[end:]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    # Not `splitlines`: JSON may hold the other characters that end a line for Python.
    start = 0
    for line in text.split("\n"):
        yield start, line
        start += len(line) + 1


def _event(line: str) -> list[Event]:
    line = line.strip()
    if not line.startswith(('{"', "[{")) or not line.endswith(("}", "]")):
        return []
    try:
        value = json.loads(line, strict=False)
    except (ValueError, RecursionError):
        return []
    # Claude Code writes all of its messages as one list if it is told to be verbose.
    many = value if isinstance(value, list) else [value]
    if all(isinstance(each, dict) and wrappers.is_event(each) for each in many):
        return many
    return []


def _structured(events: list[Event]) -> Event | None:
    answer = wrappers.structured(events)
    if answer is None:
        return None
    try:
        # Once more as text: an answer is an answer only if it could have been printed as one.
        return objects.last(json.dumps(answer))
    except RecursionError as error:
        raise objects.NotUsable("it is nested too deep") from error


def _nothing(text: str, events: list[Event]) -> str:
    failure = wrappers.failure(events)
    if failure:
        return f"there is no JSON object in its answer; its program says: {_short(failure)}"
    words = wrappers.said(events) if events else text
    if not words.strip():
        return "it printed nothing" if not events else "it said nothing"
    return f"there is no JSON object in its answer; it ends with: {_short(words, from_end=True)}"


def _short(text: str, *, from_end: bool = False) -> str:
    part = text[-20 * MOST_TOLD :] if from_end else text[: 20 * MOST_TOLD]
    text = objects.storable(" ".join(part.split()))
    if len(text) <= MOST_TOLD:
        return text
    return f"...{text[-MOST_TOLD:]}" if from_end else f"{text[:MOST_TOLD]}..."
