"""Git's objects as bytes: for whoever has several to write and wants one process for all."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: How a pack names what is in it.
_KINDS = {"tree": 2, "blob": 3}
#: By the length of an object's name in bytes.
_HASHES = {20: "sha1", 32: "sha256"}


class Object:
    """One object and its name, as a repository with names of that length has it."""

    __slots__ = ("data", "kind", "length", "name")

    def __init__(self, kind: str, data: bytes, length: int) -> None:
        self.kind, self.data, self.length = kind, data, length
        self.name = _hashed(f"{kind} {len(data)}\0".encode() + data, length)


def _hashed(data: bytes, length: int) -> bytes:
    import hashlib

    return hashlib.new(_HASHES[length], data, usedforsecurity=False).digest()


def replaced(tree: bytes, name: str, by: Object) -> bytes:
    """A tree with another object under a name that it has."""
    # Each entry: the mode, a blank, the name, NUL, and the object's name in binary.
    at = 0
    while at < len(tree):
        end = tree.index(b"\0", at) + 1
        if tree[at : end - 1].partition(b" ")[2] == name.encode():
            return tree[:end] + by.name + tree[end + by.length :]
        at = end + by.length
    raise KeyError(name)


def packed(objects: Sequence[Object]) -> bytes:
    """A pack of them, for `git unpack-objects`."""
    import zlib

    parts = [b"PACK", (2).to_bytes(4, "big"), len(objects).to_bytes(4, "big")]
    for each in objects:
        parts += [_head(_KINDS[each.kind], len(each.data)), zlib.compress(each.data, 1)]
    whole = b"".join(parts)
    return whole + _hashed(whole, objects[0].length)


def _head(kind: int, size: int) -> bytes:
    """Kind and size, in as few bytes as they need: four bits of the size, then seven at a time."""
    found = [kind << 4 | size & 15]
    size >>= 4
    while size:
        found[-1] |= 0x80
        found.append(size & 0x7F)
        size >>= 7
    return bytes(found)
