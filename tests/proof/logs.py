"""SQLite's log: frames of a page each, chained by checksums; see its documented file format."""

import struct
from pathlib import Path

HEAD, FRAME, PAGE = 32, 24, 4096


def make_fit(path: str) -> None:
    """Write checksums that fit whatever the frames hold, as if nobody had damaged them."""
    if not Path(path).exists():
        return
    content = bytearray(Path(path).read_bytes())
    if len(content) < HEAD:
        return
    order = ">" if content[3] & 1 else "<"
    sums = _checksum(order, (0, 0), content[:24])
    content[24:HEAD] = struct.pack(">2I", *sums)
    for at in range(HEAD, len(content) - FRAME - PAGE + 1, FRAME + PAGE):
        content[at + 8 : at + 16] = content[16:24]
        sums = _checksum(order, sums, content[at : at + 8])
        sums = _checksum(order, sums, content[at + FRAME : at + FRAME + PAGE])
        content[at + 16 : at + FRAME] = struct.pack(">2I", *sums)
    Path(path).write_bytes(content)


def _checksum(order: str, sums: tuple[int, int], words: bytes) -> tuple[int, int]:
    first, second = sums
    for one, other in struct.iter_unpack(f"{order}2I", words):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second
