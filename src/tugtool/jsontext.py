"""Values as JSON text, without the cost of importing `json`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

try:
    # `import json` costs 0.7 of a bare interpreter start because of `re`; its escaping
    # lives in this C module. Other implementations take the ordinary way.
    from _json import encode_basestring_ascii as _string
except ImportError:
    from json.encoder import encode_basestring_ascii as _string

_BLANK = " \t\r\n"


def encode(value: object) -> str:
    """JSON in pure ASCII, so nothing in it can act on a terminal."""
    return "".join(_pieces(value))


def _pieces(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield _string(value)
    elif value is None or isinstance(value, bool):
        yield "null" if value is None else "true" if value else "false"
    elif isinstance(value, (int, float)):
        yield repr(value)
    elif isinstance(value, dict):
        mark = "{"
        for key, inner in value.items():
            yield f"{mark}{_string(key)}: "
            yield from _pieces(inner)
            mark = ", "
        yield "}" if value else "{}"
    elif isinstance(value, (list, tuple)):
        mark = "["
        for inner in value:
            yield mark
            yield from _pieces(inner)
            mark = ", "
        yield "]" if value else "[]"
    else:
        raise TypeError(f"no JSON for {type(value).__name__}")


def decode(text: str) -> object:
    """The value that a whole text stands for; ValueError if it is no JSON."""
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text)
    start = len(text) - len(text.lstrip(_BLANK))
    try:
        value, end = make_scanner(_Settings)(text, start)  # type: ignore[arg-type]
    except (StopIteration, SystemError):
        # The second where an object or a text has no end: there the scanner would raise an error
        # of `json`, which is not loaded.
        raise ValueError("it is no JSON") from None
    if text[end:].strip(_BLANK):
        raise ValueError("something follows the JSON")
    return value


def _constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


class _Settings:
    """What the scanner asks of whoever uses it."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_constant)
