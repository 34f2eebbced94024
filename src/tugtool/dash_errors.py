"""The refusals about dashes, small work without a plan; nothing was changed.

TugError
└── DashError
    ├── NoSuchDash    E054  no dash is called so
    ├── BadDashName   E055  no dash can be called so
    ├── DashEnded     E056  it was joined or released, or is about to be
    ├── NotJoined     E057  it cannot be joined as things stand
    └── WrongBranch   E058  its worktree, or the caller's, is not where the work is
"""

from __future__ import annotations

from tugtool.errors import TugError, listing, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class DashError(TugError):
    """About one dash."""


class NoSuchDash(DashError):
    """Neither an active dash nor one that has ended has the name."""

    code = "E054"

    def __init__(self, name: str, *, close: Sequence[str] = ()) -> None:
        tail = f"; closest: {listing(close)}" if close else ""
        super().__init__(
            f'there is no dash "{name}"{tail}' if name else "this is no dash's worktree; name one",
            hint="tugcode dash list --all",
            dash=name,
            close=list(close) or None,
        )


class BadDashName(DashError):
    """A name becomes part of a branch and of a path."""

    code = "E055"

    def __init__(
        self, name: str, *, reason: str, close: str | None = None, taken: bool = False
    ) -> None:
        tail = f'; "{close}" would do' if close else ""
        problem = f'no dash can be called "{name}" here: {reason}{tail}'
        super().__init__(
            f"there is a dash {name} already: {reason}" if taken else problem,
            hint=f"tugcode dash show {name}" if taken else "tugcode dash create --help",
            dash=name,
            close=[close] if close else None,
        )


class DashEnded(DashError):
    """There is nothing left to do in it."""

    code = "E056"

    def __init__(self, name: str, *, what: str, hint: str | None = None, **facts: object) -> None:
        super().__init__(
            f"the dash {name} is not active: {what}",
            hint=hint or f"tugcode dash show {quoted(name)}",
            dash=name,
            **facts,
        )


class NotJoined(DashError):
    """The base branch and the main worktree are as they were, and so is the dash."""

    code = "E057"

    def __init__(self, name: str, reason: str, hint: str | None = None, **facts: object) -> None:
        super().__init__(
            f"the dash {name} cannot be joined: {reason}",
            hint=hint or f"tugcode dash show {quoted(name)}",
            dash=name,
            **facts,
        )


class WrongBranch(DashError):
    """What would be committed is not what was done in the dash."""

    code = "E058"

    def __init__(self, name: str, reason: str, *, worktree: str, hint: str = "") -> None:
        super().__init__(
            f"the dash {name} is not at hand: {reason}",
            hint=hint or f"git -C {quoted(worktree)} status",
            file=worktree,
            dash=name,
        )
