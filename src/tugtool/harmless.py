"""Text that cannot act on a terminal: what other programs wrote, as lines worth keeping."""

from __future__ import annotations

import re

# Control sequences go as a whole, so that no "[31m" is left behind: CSI, the string
# sequences (OSC, DCS, SOS, PM, APC) up to their end, and two-byte escapes.
SEQUENCE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]?"
    "|(?:\x1b[\\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"
    "|\x1b[ -/]*[0-~]?"
)


def tail(data: bytes, *, most_characters: int, most_lines: int) -> str:
    """The end of what a program wrote, without control characters and invisible ones."""
    text = SEQUENCE.sub("", data.decode(errors="replace"))
    lines = [_line(each) for each in text.replace("\r\n", "\n").split("\n")]
    kept = "\n".join(lines).strip("\n")
    kept = "\n".join(kept.split("\n")[-most_lines:])
    return kept[-most_characters:]


def _line(text: str) -> str:
    # A progress bar writes over itself; the last of it is what a person would see.
    shown = text.rstrip("\r").rpartition("\r")[2].expandtabs()
    return "".join(each for each in shown if each.isprintable()).rstrip()
