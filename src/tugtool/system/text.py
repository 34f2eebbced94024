"""Text: JSON without `json`, output that cannot act on a terminal, closest names."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


_BLANK = " \t\r\n"
_CONSTANTS = {None: "null", True: "true", False: "false"}
#: Longer lists are left to the encoder in C.
_MOST_BRIEF = 8
#: How many texts a process writes before it loads that encoder: more than a command does.
_left = 4
_encoder: Callable[[object, int], Iterable[str]] | None = None


def encode(value: object) -> str:
    """JSON in pure ASCII, so nothing in it can act on a terminal."""
    global _left, _encoder
    if _left > 0:
        _left -= 1
        try:
            return _brief(value)
        except ValueError:
            _left = 0
    if _encoder is None:
        _encoder = _loaded()
    return "".join(_encoder(value, 0))


def _brief(value: object) -> str:
    """JSON of a short answer: to load the encoder would cost a command more than this."""
    kind = type(value)
    if isinstance(value, str) and value.isascii() and value.isprintable():
        if '"' not in value and "\\" not in value:
            return f'"{value}"'
    elif value is None or kind is bool:
        return _CONSTANTS[value]  # type: ignore[index]
    elif kind is int or (isinstance(value, float) and value - value == 0):
        return repr(value)
    elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return f"{{{', '.join([f'{_brief(key)}: {_brief(value[key])}' for key in value])}}}"
    elif isinstance(value, (list, tuple)) and len(value) <= _MOST_BRIEF:
        return f"[{', '.join([_brief(each) for each in value])}]"
    raise ValueError("it is not brief")


def _loaded() -> Callable[[object, int], Iterable[str]]:
    try:
        # `import json` costs 0.7 of a bare interpreter start because of `re`; its encoder lives in
        # this C module. Other implementations take the ordinary way.
        from _json import encode_basestring_ascii, make_encoder
    except ImportError:
        from json import JSONEncoder

        return JSONEncoder(default=_refuse).iterencode  # type: ignore[return-value]
    how = (": ", ", ", False, False, True)
    return make_encoder(None, _refuse, encode_basestring_ascii, None, *how)


def _refuse(value: object) -> object:
    raise TypeError(f"no JSON for {type(value).__name__}")


def many(count: object, word: str, plural: str = "") -> str:
    """`1 step`, `2 steps`."""
    return f"{count} {word if count == 1 else plural or word + 's'}"


def is_slug(name: str) -> bool:
    """True if a name has only small letters, digits, and single hyphens between them."""
    words = name.split("-")
    return all(word.isascii() and word.isalnum() and word == word.lower() for word in words)


def decode(text: str) -> object:
    """The value of a JSON text; ValueError if it is not JSON."""
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text)
    start = len(text) - len(text.lstrip(_BLANK))
    try:
        value, end = make_scanner(_Settings)(text, start)  # type: ignore[arg-type]
    except (StopIteration, SystemError):
        # SystemError: an object or a string does not end, and the scanner cannot raise the
        # error of `json`, which is not loaded.
        raise ValueError("it is not JSON") from None
    if text[end:].strip(_BLANK):
        raise ValueError("something follows the JSON")
    return value


def _constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


class _Settings:
    """The attributes that the scanner reads."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_constant)


# Control sequences go as a whole, so that no "[31m" is left behind: CSI, the string
# sequences (OSC, DCS, SOS, PM, APC) up to their end, and two-byte escapes.
_SEQUENCE = (
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]?"
    "|(?:\x1b[\\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"
    "|\x1b[ -/]*[0-~]?"
)


def _without_sequences(text: str) -> str:
    import re

    return re.sub(_SEQUENCE, "", text)


def tail(data: bytes, *, most_characters: int, most_lines: int) -> str:
    """The end of a program's output, without control characters and invisible ones."""
    text = _without_sequences(data.decode(errors="replace"))
    lines = [_line(each) for each in text.replace("\r\n", "\n").split("\n")]
    kept = "\n".join(lines).strip("\n")
    kept = "\n".join(kept.split("\n")[-most_lines:])
    return kept[-most_characters:]


def _line(text: str) -> str:
    # A progress bar writes over itself; a person sees only the last part.
    shown = text.rstrip("\r").rpartition("\r")[2].expandtabs()
    return "".join(each for each in shown if each.isprintable()).rstrip()


_JOINER = "\u200d"


def strip(text: str) -> str:
    """`text` on one line, without control sequences, controls, or invisible marks."""
    text = _without_sequences(text)
    return "".join(_printable(text, place) for place in range(len(text)))


def _printable(text: str, place: int) -> str:
    character = text[place]
    if character.isprintable():
        return character
    if character.isspace():
        return " "
    if character == _JOINER and place and ord(text[place - 1]) > 0x2000:
        return character  # part of an emoji
    # A lone surrogate stands for a byte of a file name that is not UTF-8.
    return "\ufffd" if "\ud800" <= character <= "\udfff" else ""


#: Each comparison costs microseconds; a plan of 100,000 anchors must not make it seconds.
MOST_COMPARED = 2000

#: A name this much less similar than the best one is still mentioned.
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
    import difflib

    matcher = difflib.SequenceMatcher(None, wanted, name.lower())
    # The quick bounds first: they rule most names out without the slow comparison.
    if matcher.real_quick_ratio() < 0.6 or matcher.quick_ratio() < 0.6:
        return 0
    return matcher.ratio()
