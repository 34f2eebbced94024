"""Making hostile text harmless; imported only when some text is not plainly printable."""

from tugtool.harmless import SEQUENCE

_JOINER = "\u200d"


def strip(text: str) -> str:
    """`text` on one line, without control sequences, controls, or invisible marks."""
    text = SEQUENCE.sub("", text)
    return "".join(_shown(text, place) for place in range(len(text)))


def _shown(text: str, place: int) -> str:
    character = text[place]
    if character.isprintable():
        return character
    if character.isspace():
        return " "
    if character == _JOINER and place and ord(text[place - 1]) > 0x2000:
        return character  # part of an emoji
    # A lone surrogate stands for a byte of a file name that is not UTF-8.
    return "\ufffd" if "\ud800" <= character <= "\udfff" else ""
