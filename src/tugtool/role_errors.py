"""The refusal of a command that a role may not run.

TugError
└── RoleRefused  E088  the caller's role may not run the command, or nobody knows that role
"""

from __future__ import annotations

from tugtool.errors import TugError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class RoleRefused(TugError):
    """TUGCODE_ROLE says who calls, and that is not for them."""

    code = "E088"

    def __init__(self, command: str, *, role: str, may: str, known: Sequence[str]) -> None:
        said = f'TUGCODE_ROLE is "{role}", and there is no such role; there are {", ".join(known)}'
        if may:
            said = f"the {role} (TUGCODE_ROLE) may not run tugcode {command}; it may run {may}"
        super().__init__(said, hint="tugcode --help", role=role, command=command)
