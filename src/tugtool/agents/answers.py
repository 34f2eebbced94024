"""Finds and checks the last JSON object on an agent's standard output."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from tugtool.agents import clis, contracts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.agents.clis import Event

    #: The start and the end of an object, and its depth.
    Span = tuple[int, int, int]


#: Deeper answers are mistakes, and readers recurse once per level.
DEEPEST = 100

#: Quotes that open or close a string; an escaped quote does neither.
_QUOTE = re.compile(r'\\.|"', re.DOTALL)
#: The tokens between strings; any other character matches alone, as the last group.
_TOKEN = re.compile(
    r"[ \t\r\n]*(?:([{}\[\],:])|(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
    r"|true|false|null)|([^ \t\r\n]))"
)

#: The states of the JSON reader: what may come next.
_KEY_OR_END, _KEY, _COLON, _VALUE, _VALUE_OR_END, _MORE = range(6)
_WANTS_VALUE = (_VALUE, _VALUE_OR_END)
_WANTS_KEY = (_KEY_OR_END, _KEY)


class NotUsable(ValueError):
    """A JSON object that cannot be used; the message says why."""


def last(text: str) -> dict[str, object] | None:
    """The last object in `text` that has any field; None if there is none."""
    found = max(_spans(text), key=lambda span: (span[1], -span[0]), default=None)
    if found is None:
        return None
    if found[2] > DEEPEST:
        raise NotUsable(f"it is nested deeper than {DEEPEST}")
    return load_object(text[found[0] : found[1]])


def load_object(text: str) -> dict[str, object]:
    """The JSON object `text` as values that can be stored and compared."""
    try:
        value = json.loads(
            text,
            strict=False,
            object_pairs_hook=_unique_fields,
            parse_float=_finite,
            parse_constant=_no_constant,
        )
    except NotUsable:
        raise
    except (ValueError, RecursionError) as error:
        raise NotUsable(str(error)) from error
    if not isinstance(value, dict):
        raise NotUsable("it is not an object")
    return value


def _spans(text: str) -> Iterator[Span]:
    quotes = [found.start() for found in _QUOTE.finditer(text) if found[0] == '"']
    for first_is_outside in (True, False):
        yield from _ObjectReader(text).spans(quotes, first_is_outside)


class _ObjectReader:
    """One pass over a text, with one way to pair its quotes; keeps the last whole object."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.open: list[str] = []
        self.start = 0
        self.state = _VALUE
        self.found: Span | None = None
        #: True if the open object has a field; its depth so far.
        self.has_field, self.depth = False, 0

    def spans(self, quotes: list[int], first_is_outside: bool) -> Iterator[Span]:
        """Yield the last object with any field, if there is one."""
        start, outside = 0, first_is_outside
        for quote in [*quotes, len(self.text)]:
            if outside:
                self._between(start, quote)
            elif self.open:
                self._string()
            start, outside = quote + 1, not outside
        if self.found:
            yield self.found

    def _between(self, start: int, end: int) -> None:
        while start < end:
            if not self.open:
                start = self.text.find("{", start, end)
                if start < 0:
                    return
            token = _TOKEN.match(self.text, start, end)
            if token is None:
                # Only white space is left before the quote.
                return
            start = token.end()
            self._take(token[1], token[2] is not None, start)

    def _take(self, mark: str | None, is_value: bool, end: int) -> None:
        if mark == "{" and not self.open:
            self._begin(end - 1)
        elif not self._follows(mark, is_value, end):
            self.open.clear()
            if mark == "{":
                self._begin(end - 1)

    def _begin(self, start: int) -> None:
        self.open.append("{")
        self.start, self.state = start, _KEY_OR_END
        self.has_field, self.depth = False, 1

    def _follows(self, mark: str | None, is_value: bool, end: int) -> bool:
        state = self.state
        if is_value or mark in ("{", "["):
            self._value(mark)
            return state in _WANTS_VALUE
        if mark == ":":
            self.state = _VALUE
            return state == _COLON
        if mark == ",":
            self.state = _KEY if self.open[-1] == "{" else _VALUE
            return state == _MORE
        return self._closes(mark, state, end)

    def _value(self, mark: str | None) -> None:
        if mark is None:
            self.state = _MORE
            return
        self.open.append(mark)
        self.depth = max(self.depth, len(self.open))
        self.state = _KEY_OR_END if mark == "{" else _VALUE_OR_END

    def _closes(self, mark: str | None, state: int, end: int) -> bool:
        opened = {"}": "{", "]": "["}.get(mark or "")
        empty = _KEY_OR_END if mark == "}" else _VALUE_OR_END
        if opened != self.open[-1] or state not in (_MORE, empty):
            return False
        self.open.pop()
        self.state = _MORE
        if not self.open and self.has_field:
            self.found = (self.start, end, self.depth)
        return True

    def _string(self) -> None:
        if self.state in _WANTS_KEY:
            self.state, self.has_field = _COLON, True
        elif self.state in _WANTS_VALUE:
            self.state = _MORE
        else:
            self.open.clear()


def _unique_fields(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made: dict[str, object] = {}
    for name, value in pairs:
        if name in made:
            # Readers disagree about which of the two counts.
            raise NotUsable(f"{json.dumps(name[:80])} stands twice in one object")
        made[name] = value
    return {storable(name): _cleaned(value) for name, value in made.items()}


def _cleaned(value: object) -> object:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [_cleaned(each) for each in value]
    return value


def storable(text: str) -> str:
    """The text without lone surrogates and NULs, which databases and files refuse."""
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\ufffd")


def _finite(text: str) -> float:
    value = float(text)
    if value - value != 0:
        raise NotUsable("a number in it is out of range")
    return value


def _no_constant(name: str) -> float:
    raise NotUsable(f"{name} is not JSON")


#: The field by which an agent asks to be tried again later.
RETRY_AFTER = "retry_after_seconds"
#: The answer is at the end of the output, so only so many bytes are read.
MOST_BYTES = 4 << 20
#: How many characters of other output a message quotes.
MOST_TOLD = 200


class AgentAnswer(NamedTuple):
    """An agent's answer, or the problem with its output."""

    value: dict[str, object] | None
    problem: str | None
    #: The events that its CLI printed around the answer; they tell its usage.
    events: list[Event]
    #: True if there is an object, usable or not.
    answered: bool = False
    #: The seconds after which it asks to be tried again; 0 if it does not say when.
    later: float | None = None


def read_answer(output: bytes) -> AgentAnswer:
    """The last JSON object on an agent's standard output."""
    text = output[-MOST_BYTES:].decode(errors="replace")
    events, rest = _events(text)
    try:
        value = last(rest)
        if value is not None and clis.is_event(value):
            # An event that was printed over many lines.
            events.append(value)
            value = None
        if value is None and events:
            value = _structured(events) or last(clis.parse_output(events))
    except NotUsable as error:
        return AgentAnswer(None, f"its last JSON object cannot be taken: {error}", events, True)
    if value is None:
        return AgentAnswer(None, _nothing(text, events), events, later=clis.limit(events))
    later = clis.seconds(value.get(RETRY_AFTER))
    if later is not None:
        problem = f"it asks to be tried again in {later:g} s"
        return AgentAnswer(None, problem, events, later=later)
    return AgentAnswer(value, None, events, True)


def checked(role: str, output: bytes) -> AgentAnswer:
    """The answer of an agent in `role`, checked against its contract."""
    answer = read_answer(output)
    if answer.value is None:
        return answer
    broken = contracts.problems(role, answer.value)
    if not broken:
        return answer
    later = clis.limit(answer.events)
    if later is not None:
        # The object that looked like an answer is an error that the client quotes.
        return AgentAnswer(None, _nothing("", answer.events), answer.events, later=later)
    return answer._replace(value=None, problem="it breaks its contract: " + "; ".join(broken))


def _events(text: str) -> tuple[list[Event], str]:
    """The events that have their own lines, and the text after the last of them."""
    events: list[Event] = []
    start = end = 0
    # Not `splitlines`: JSON may contain the other characters that end a line in Python.
    for line in text.split("\n"):
        found = _event(line)
        events += found
        start += len(line) + 1
        if found:
            end = start - 1
    return events, text[end:]


def _event(line: str) -> list[Event]:
    line = line.strip()
    if not line.startswith(('{"', "[{")) or not line.endswith(("}", "]")):
        return []
    try:
        value = json.loads(line, strict=False)
    except (ValueError, RecursionError):
        return []
    # A verbose Claude Code writes all of its messages as one list.
    many = value if isinstance(value, list) else [value]
    if all(isinstance(each, dict) and clis.is_event(each) for each in many):
        return many
    return []


def _structured(events: list[Event]) -> Event | None:
    answer = clis.structured(events)
    if answer is None:
        return None
    try:
        # Read it from text again, so that the same checks apply as to a printed answer.
        return last(json.dumps(answer))
    except RecursionError as error:
        raise NotUsable("it is nested too deep") from error


def _nothing(text: str, events: list[Event]) -> str:
    failure = clis.failure(events)
    if failure:
        return f"there is no JSON object in its answer; its program says: {_short(failure)}"
    words = clis.parse_output(events) if events else text
    if not words.strip():
        return "it printed nothing" if not events else "it said nothing"
    return f"there is no JSON object in its answer; it ends with: {_short(words, from_end=True)}"


def _short(text: str, *, from_end: bool = False) -> str:
    part = text[-20 * MOST_TOLD :] if from_end else text[: 20 * MOST_TOLD]
    text = storable(" ".join(part.split()))
    if len(text) <= MOST_TOLD:
        return text
    return f"...{text[-MOST_TOLD:]}" if from_end else f"{text[:MOST_TOLD]}..."
