"""The refusals of the state and its database; the rest of the tree is in `errors.py` and
`people_errors.py`.

TugError
├── DatabaseError
│   ├── DatabaseUnavailable E046  the file is not ours, damaged, or not to be opened
│   ├── QueryFailed         E047  locked too long, disk full, or a statement failed
│   └── NewerDatabase       E065  made by a newer version; left untouched
└── StateError
    ├── PlanChanged         E048  the plan file is not the one that was initialised
    ├── NotOwner            E049  somebody else holds the step (exit status 4)
    ├── WrongStatus         E050  the step is not in the status this needs
    ├── ItemsOpen           E051  items of the step are still open
    ├── SubstepItemsOpen    E052  only items of its substeps are still open
    ├── NotReady            E053  dependencies are open, or somebody holds the step
    ├── Superseded          E060  the attempt is not the current one (exit status 4)
    ├── PlanNotInitialised  E063  the plan has no state yet
    ├── InvalidEntry        E066  an item, status, kind or entry that does not exist
    └── StepParked          E067  the step waits for a person
"""

from __future__ import annotations

from tugtool.errors import TugError, listing, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class DatabaseError(TugError):
    """About the database as a file."""


class DatabaseUnavailable(DatabaseError):
    """Nothing was read or written; what lies there was left alone."""

    code = "E046"

    def __init__(
        self,
        path: str,
        *,
        reason: str,
        name: str | None = None,
        hint: str | None = None,
        missing: Sequence[Mapping[str, object]] = (),
    ) -> None:
        super().__init__(
            f"{path} {reason}",
            hint=hint or f"ls -l {quoted(path)}",
            file=path,
            sqlite=name,
            missing=list(missing) or None,
        )


class QueryFailed(DatabaseError):
    """The transaction did not happen."""

    code = "E047"

    def __init__(self, path: str, *, reason: str, name: str) -> None:
        hint = "try again; if it lasts, look at that process" if name.startswith("BUSY") else "df ."
        #: Whether the rows themselves were at fault, and not the database.
        self.by_rule = name.startswith(("CONSTRAINT", "MISMATCH", "TOOBIG"))
        super().__init__(f"{path} {reason}", hint=hint, file=path, sqlite=name)


class NewerDatabase(DatabaseError):
    """Only a newer Tugtool may touch it."""

    code = "E065"

    def __init__(self, path: str, *, found: int, known: int) -> None:
        super().__init__(
            f"{path} was made by a newer Tugtool (schema {found}; this one knows {known})",
            hint="tugcode version",
            file=path,
            found=found,
            known=known,
        )


class StateError(TugError):
    """About the execution of a plan."""


def _why(plan: str, anchor: str | None) -> str:
    if anchor is None:
        return f"tugcode state show {quoted(plan)}"
    return f"tugcode state why {quoted(plan)} {quoted(anchor)}"


class PlanChanged(StateError):
    """What is carried out must be what was agreed."""

    code = "E048"

    def __init__(
        self,
        plan: str,
        *,
        file: str,
        agreed: str,
        found: str | None,
        worktree: str | None = None,
    ) -> None:
        what = "has changed since" if found else "is gone since"
        # Somebody who stands elsewhere would compare another copy, and see nothing.
        where = f" --worktree {quoted(worktree)}" if worktree else ""
        super().__init__(
            f"{file} {what} the plan was initialised",
            hint=f"tugcode state diff {quoted(plan)}{where}",
            file=file,
            plan=plan,
            agreed_hash=agreed,
            found_hash=found,
        )


class NotOwner(StateError):
    """The claim is somebody else's now, or the completed step was: stop working."""

    code = "E049"
    exit_status = 4

    def __init__(
        self, plan: str, anchor: str, *, owner: str, caller: str, verb: str = "is held"
    ) -> None:
        super().__init__(
            f"step {anchor} {verb} by {owner}, not by {caller}",
            hint=_why(plan, anchor),
            anchor=anchor,
            plan=plan,
            owner=owner,
            caller=caller,
        )


class WrongStatus(StateError):
    """The step, or without an anchor the plan, is somewhere else in its life."""

    code = "E050"

    def __init__(self, plan: str, anchor: str | None, *, status: str, needed: str) -> None:
        super().__init__(
            f"{plan if anchor is None else f'step {anchor}'} is {status}; {needed}",
            hint=_why(plan, anchor),
            anchor=anchor,
            plan=plan,
            status=status,
        )


class ItemsOpen(StateError):
    """A step is done when its checklists are."""

    code = "E051"
    whose = ""

    def __init__(self, plan: str, anchor: str, *, items: Sequence[Mapping[str, object]]) -> None:
        names = [f"{item['step_anchor']} {item['kind']} {item['ordinal']}" for item in items]
        open_ = f"{len(names)} open item{'s' * (len(names) != 1)}"
        super().__init__(
            f"step {anchor} has {open_}{self.whose}: {listing(names)}",
            hint=f"tugcode state show {quoted(plan)} --json",
            anchor=anchor,
            plan=plan,
            open=list(items),
        )


class SubstepItemsOpen(ItemsOpen):
    """As E051, but all of them belong to substeps."""

    code = "E052"
    whose = " of substeps"


class NotReady(StateError):
    """Something else has to happen first."""

    code = "E053"

    def __init__(
        self,
        plan: str,
        anchor: str,
        *,
        waiting_for: Sequence[str] = (),
        owner: str | None = None,
        until: str | None = None,
        dependents: Sequence[str] = (),
    ) -> None:
        if waiting_for:
            message = f"step {anchor} waits for {listing(waiting_for)}"
        elif dependents:
            message = f"step {anchor} is what {listing(dependents)} was built on"
        else:
            message = f"step {anchor} is held by {owner} until {until}"
        super().__init__(
            message,
            hint=f"tugcode state ready {quoted(plan)}" if dependents else _why(plan, anchor),
            anchor=anchor,
            plan=plan,
            waiting_for=list(waiting_for) or None,
            dependents=list(dependents) or None,
            owner=owner,
            lease_expires_at=until,
        )


class Superseded(StateError):
    """A newer attempt is under way, or this one is over: stop working."""

    code = "E060"
    exit_status = 4

    def __init__(self, plan: str, anchor: str, *, attempt: int, current: int) -> None:
        what = f"attempt {current} is current" if current != attempt else "it has ended"
        if attempt > current:
            what = f"there was none; attempt {current} is current"
        super().__init__(
            f"attempt {attempt} at step {anchor} does not count: {what}",
            hint=_why(plan, anchor),
            anchor=anchor,
            plan=plan,
            attempt=attempt,
            current=current,
        )


class PlanNotInitialised(StateError):
    """There is no record of this plan's execution."""

    code = "E063"

    def __init__(self, plan: str | None) -> None:
        known = plan is not None
        super().__init__(
            f"{plan} has no state yet" if known else "no plan here has an active state",
            hint=f"tugcode state init {quoted(plan)}" if plan else "tugcode list",
            plan=plan,
        )


class InvalidEntry(StateError):
    """A name or number that fits nothing; nothing was changed."""

    code = "E066"

    def __init__(
        self,
        problem: str,
        *,
        entry: Mapping[str, object] | None = None,
        index: int | None = None,
        valid: str | None = None,
        command: str = "update",
    ) -> None:
        super().__init__(
            f"{problem}; valid: {valid}" if valid else problem,
            hint=f"tugcode state {command} --help",
            entry=None if entry is None else _shown(entry),
            index=index,
            valid=valid,
        )


def _shown(entry: Mapping[str, object]) -> dict[str, object]:
    """An entry as a message can hold it, however large or deep it came."""
    return {str(key)[:50]: _short(entry[key]) for key in list(entry)[:8]}


def _short(value: object) -> object:
    if isinstance(value, str):
        return value[:200]
    plain = value is None or (isinstance(value, int) and abs(value) < 1 << 53)
    return value if plain else f"({type(value).__name__})"


class StepParked(StateError):
    """Nobody gets it until a person has looked."""

    code = "E067"

    def __init__(self, plan: str, anchor: str, *, reason: str, parked_at: str) -> None:
        super().__init__(
            f"step {anchor} is parked since {parked_at}: {reason}",
            hint=_why(plan, anchor),
            anchor=anchor,
            plan=plan,
            reason=reason,
            parked_at=parked_at,
        )
