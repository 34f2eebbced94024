"""The refusals around roles: what one may not run, and rules that cannot be written down.

TugError
├── RoleRefused        E088  the caller's role may not run the command, or nobody knows that role
└── BadClientSettings  E089  a client's settings are not JSON, or not of the form they must have
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


class BadClientSettings(TugError):
    """A person's file that cannot be added to; it was left alone."""

    code = "E089"

    def __init__(self, file: str, problem: str, *, line: int | None = None) -> None:
        super().__init__(
            f"{file} {problem}; it was left as it is",
            hint=f"python3 -m json.tool {file}",
            file=file,
            line=line,
        )
