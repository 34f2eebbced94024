"""Names that are only known in part, since the shell puts something into them."""

from __future__ import annotations

from tugtool.guard.words import UNKNOWN

#: A name that is known less than this may be anything, and is taken for nothing special.
_LEAST = 3


def matches(pattern: str, name: str) -> bool:
    """Whether a name can come of it; what is unknown stands for anything."""
    first, *others = pattern.split(UNKNOWN)
    if not others:
        return pattern == name
    *middle, last = others
    if not name.startswith(first) or not name[len(first) :].endswith(last):
        return False
    rest = name[len(first) : len(name) - len(last)]
    for piece in middle:
        _, found, rest = rest.partition(piece) if piece else ("", "x", rest)
        if not found:
            return False
    return True


def may_be(pattern: str, name: str) -> bool:
    """Whether it is the name, or looks as if it became that; a pattern skips hidden names."""
    if UNKNOWN not in pattern:
        return pattern == name
    known = len(pattern.replace(UNKNOWN, ""))
    return known >= (_LEAST if pattern[0] == UNKNOWN else 1) and matches(pattern, name)


def begins(parts: list[str], pattern: list[str]) -> bool:
    """Whether a path can lead to, or through, what the pattern stands for."""
    pairs = zip(pattern, parts, strict=False)
    return len(pattern) <= len(parts) and all(matches(each, part) for each, part in pairs)
