"""Making hostile text harmless; imported only when some text is not plainly printable."""

import re

# Control sequences go as a whole, so that no "[31m" is left behind: CSI, the string
# sequences (OSC, DCS, SOS, PM, APC) up to their end, and two-byte escapes.
_SEQUENCE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]?"
    "|(?:\x1b[\\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"
    "|\x1b[ -/]*[0-~]?"
)

_JOINER = "\u200d"


def strip(text: str) -> str:
    """`text` on one line, without control sequences, controls, or invisible marks."""
    text = _SEQUENCE.sub("", text)
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
