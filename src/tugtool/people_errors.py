"""The refusals of what people alone do with the state; workers never load them.

StateError
├── RevisionRefused  E044  the plan's new text would undo finished or claimed work
├── PlansRecorded    E064  plans to be imported have a state here already
├── PeopleOnly       E068  a worker may not judge its own work
├── BadImport        E069  a file that is no export, or not a whole or sound one
└── NothingLost      E077  the database is sound; a backup would undo what was done since
"""

from __future__ import annotations

from tugtool.errors import listing, quoted
from tugtool.state_errors import StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


#: A message names so many steps; the facts have them all.
MOST_TOLD = 20


class RevisionRefused(StateError):
    """Nobody has said that this work may go."""

    code = "E044"

    def __init__(self, plan: str, *, refusals: Sequence[Mapping[str, object]]) -> None:
        lines = [f"{refusal['step']}: {refusal['why']}" for refusal in refusals[:MOST_TOLD]]
        more = len(refusals) - len(lines)
        lines += [f"and {more} more"] if more else []
        first = "the new text undoes work (tugcode state init --help tells what allows that)"
        super().__init__(
            "\n".join([first, *lines]),
            hint=f"tugcode state diff {quoted(plan)}",
            plan=plan,
            refusals=list(refusals),
        )


class PlansRecorded(StateError):
    """An import adds plans and changes none."""

    code = "E064"

    def __init__(self, plans: Sequence[str]) -> None:
        super().__init__(
            f"these plans have a state here already: {listing(plans)}; nothing was imported",
            hint=f"tugcode state show {quoted(plans[0])}",
            plans=list(plans),
        )


class PeopleOnly(StateError):
    """What a person has to judge is not for the worker whose work it is."""

    code = "E068"

    def __init__(self, command: str, *, hint: str = "tugcode state review") -> None:
        super().__init__(
            f"this is for people, and TUGCODE_ATTEMPT says that a worker runs {command}",
            hint=hint,
        )


class BadImport(StateError):
    """Not one row of it was taken."""

    code = "E069"

    def __init__(self, name: str, problem: str, *, line: int | None = None) -> None:
        where = f"{name}:{line}" if line else name
        super().__init__(
            f"{where} {problem}; nothing was imported",
            hint="tugcode state import --help",
            file=name,
            line=line,
        )


class NothingLost(StateError):
    """A backup in the place of a sound database would undo what was recorded since."""

    code = "E077"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is sound and complete; its backup would undo what was recorded since "
            "(--from FILE takes a copy all the same)",
            hint="tugcode state restore --dry-run",
            file=path,
        )
