"""How a refusal speaks: what is refused, why, and what to do instead."""

from __future__ import annotations


class Refused(Exception):
    """A tool call or a command that a role may not make."""

    def __init__(self, what: str, *, why: str, instead: str) -> None:
        super().__init__(f"{what}: {why}. Instead: {instead}.")
        self.what, self.why, self.instead = what, why, instead


def shown(text: str, most: int = 60) -> str:
    """A part of a command as a refusal quotes it: one line, short, and harmless to a terminal."""
    line = "".join(mark if mark.isprintable() else " " for mark in text.replace("\0", "$..."))
    return f"`{line[:most]}{'...' if len(line) > most else ''}`"
