"""What a check says: what is wrong, how bad that is, what to do, and what would mend it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    #: Repairs one thing and says what it did; refuses as every operation does.
    Mend = Callable[[], str]

#: A note is for knowing: it settles itself, or is a person's choice.
SEVERITIES = ("error", "warning", "note")


class Finding:
    """One thing that is wrong, or worth knowing."""

    __slots__ = ("hint", "mend", "message", "outcome", "severity")

    def __init__(
        self, severity: str, message: str, *, hint: str | None = None, mend: Mend | None = None
    ) -> None:
        self.severity = severity
        self.message = message
        #: A harmless command to look further, or the one that puts it right.
        self.hint = hint
        self.mend = mend
        #: What the repair did, or why it could not.
        self.outcome: str | None = None


def error(message: str, *, hint: str | None = None, mend: Mend | None = None) -> Finding:
    """Work cannot go on, or something recorded is wrong."""
    return Finding("error", message, hint=hint, mend=mend)


def warning(message: str, *, hint: str | None = None, mend: Mend | None = None) -> Finding:
    """Somebody should look at it."""
    return Finding("warning", message, hint=hint, mend=mend)


def note(message: str, *, hint: str | None = None, mend: Mend | None = None) -> Finding:
    """Good to know; nothing has to be done."""
    return Finding("note", message, hint=hint, mend=mend)
