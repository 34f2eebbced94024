"""Refusals about what may run here, and what a running agent may touch.

TugError
├── Untrusted      E110  the repository names commands or addresses, and its user has not agreed
└── Unconfined     E111  this system cannot confine an agent as the settings ask

Each is raised before anything is run.
"""

from __future__ import annotations

from tugtool.errors import TugError, listing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Untrusted(TugError):
    """The repository's files would run a command or use an address, and its user has not agreed."""

    code = "E110"

    def __init__(
        self, root: str, *, what: str, reason: str, changed: Sequence[str] = (), file: str = ""
    ) -> None:
        self.reason = f"{reason}: {listing(changed)}" if changed else reason
        super().__init__(
            f"{what}, and {root} {self.reason}; nothing was done",
            hint="tugcode trust",
            root=root,
            changed=list(changed) or None,
            trust_file=file or None,
        )


class Unconfined(TugError):
    """The settings confine an agent, and this system has no means to do it."""

    code = "E111"

    def __init__(self, role: str, *, reason: str, setting: str = "confine") -> None:
        self.reason = reason
        super().__init__(
            f"the {role} cannot be confined here (agents.{role}.{setting}): {reason}; "
            "it was not started",
            hint="tugcode doctor",
            role=role,
            setting=setting,
        )
