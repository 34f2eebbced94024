"""The last JSON object in a text that is mostly something else; linear, whatever the text is.

Read strictly from a `{`, a text is JSON or stops being so at one place, and everything open
there is not JSON either. So one pass suffices, if it is known which quotes open strings. In
prose it is not: there are two ways to pair the quotes of a text, and both are tried.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    #: Where an object begins and ends, and how deep it is nested.
    Span = tuple[int, int, int]

#: Nobody means more, and what reads it next would have to call itself as often.
DEEPEST = 100

#: Quotes that open or close a string, whichever of the two; an escaped one does neither.
_QUOTE = re.compile(r'\\.|"', re.DOTALL)
#: What may stand between strings. Whatever else stands there matches as a single character.
_TOKEN = re.compile(
    r"[ \t\r\n]*(?:([{}\[\],:])|(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
    r"|true|false|null)|([^ \t\r\n]))"
)

#: What may come next, and where that leads; the states of a reader of JSON.
_KEY_OR_END, _KEY, _COLON, _VALUE, _VALUE_OR_END, _MORE = range(6)
_WANTS_VALUE = (_VALUE, _VALUE_OR_END)
_WANTS_KEY = (_KEY_OR_END, _KEY)


class NotUsable(ValueError):
    """An object that is JSON by its form, and still cannot be taken; says why."""


def last(text: str) -> dict[str, object] | None:
    """The last object in `text` that has any field; None if there is none."""
    found = max(_spans(text), key=lambda span: (span[1], -span[0]), default=None)
    if found is None:
        return None
    if found[2] > DEEPEST:
        raise NotUsable(f"it is nested deeper than {DEEPEST}")
    return load(text[found[0] : found[1]])


def load(text: str) -> dict[str, object]:
    """`text`, which is one object, as values that can be stored and compared."""
    try:
        value = json.loads(
            text,
            strict=False,
            object_pairs_hook=_without_twins,
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
        yield from _Reader(text).spans(quotes, first_is_outside)


class _Reader:
    """One pass over a text, with one way to pair its quotes; keeps the last whole object."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.open: list[str] = []
        self.start = 0
        self.state = _VALUE
        self.found: Span | None = None
        #: Whether the object that is open has a field, and how deep it has been.
        self.has_field, self.depth = False, 0

    def spans(self, quotes: list[int], first_is_outside: bool) -> Iterator[Span]:
        """The last object with any field, if there is one."""
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
                # White space up to the quote.
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


def _without_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made: dict[str, object] = {}
    for name, value in pairs:
        if name in made:
            # Which of the two would hold depends on who reads it.
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
    """Without what no database and no file takes: half a character, a NUL."""
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
