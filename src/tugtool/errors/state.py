"""Refusals of the record and its database, for workers and for people.

TugError
├── DatabaseError
│   ├── DatabaseUnavailable E046  not Tugtool's, damaged, or it cannot be opened or reached
│   ├── QueryFailed         E047  locked too long, disk full, or a statement failed
│   ├── OnlyForFiles        E078  the command works only on a database in a file
│   └── NewerDatabase       E065  made by a newer version; left untouched
└── StateError
    ├── PlanChanged         E048  the plan file differs from the agreed text
    ├── NotOwner            E049  another worker holds the step (exit status 4)
    ├── WrongStatus         E050  the step is not in the status this needs
    ├── ItemsOpen           E051  items of the step are still open
    ├── SubstepItemsOpen    E052  only items of its substeps are still open
    ├── NotReady            E053  dependencies are open, or a worker holds the step
    ├── Superseded          E060  the attempt is not the current one (exit status 4)
    ├── PlanNotInitialised  E063  the plan has no state yet
    ├── InvalidEntry        E066  an item, status, kind or entry that does not exist
    ├── StepParked          E067  the step waits for a person
    ├── RevisionRefused     E044  the plan's new text would undo completed or claimed work
    ├── PlansRecorded       E064  a plan in the import has a state here already
    ├── PeopleOnly          E068  a worker may not judge its own work
    ├── BadImport           E069  the file is not an export, or is cut off or damaged
    ├── NothingLost         E077  the database is sound; a backup would undo later work
    └── PlanRenamed         E094  the plan is recorded under its file's old name
"""

from __future__ import annotations

from tugtool.errors import TugError, listing, place, plan_argument, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


#: Codes that mean: the caller does not hold the claim (any more).
CLAIM_LOST = ("E049", "E050", "E059", "E060", "E063")


class DatabaseError(TugError):
    """A refusal about the database."""


class DatabaseUnavailable(DatabaseError):
    """The command read and wrote nothing; the file is unchanged."""

    code = "E046"

    def __init__(
        self,
        path: str,
        *,
        reason: str,
        name: str | None = None,
        hint: str | None = None,
        missing: Sequence[Mapping[str, object]] = (),
        engine: str = "sqlite",
    ) -> None:
        super().__init__(
            f"{path} {reason}",
            hint=hint or f"ls -l {quoted(path)}",
            file=path,
            missing=list(missing) or None,
            **{engine: name},
        )


def unopened(path: str, error: OSError) -> DatabaseUnavailable:
    """The error for a file that the system does not open."""
    said = (error.strerror or str(error)).lower()
    return DatabaseUnavailable(path, reason=f"cannot be opened: {said}")


class QueryFailed(DatabaseError):
    """The transaction was rolled back."""

    code = "E047"

    def __init__(
        self, path: str, *, reason: str, name: str, hint: str = "df .", engine: str = "sqlite"
    ) -> None:
        hint = "try again; if it lasts, look at that process" if name.startswith("BUSY") else hint
        #: True if the rows were at fault, not the database.
        self.by_rule = name.startswith(("CONSTRAINT", "MISMATCH", "TOOBIG"))
        super().__init__(f"{path} {reason}", hint=hint, file=path, **{engine: name})


class OnlyForFiles(DatabaseError):
    """The state is in PostgreSQL, which has its own tools for this."""

    code = "E078"

    def __init__(self, command: str, *, instead: str) -> None:
        super().__init__(f"{command} needs a state in a file: {instead}", hint="tugcode config")


class NewerDatabase(DatabaseError):
    """Only a newer Tugtool may write to this database."""

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
    """A refusal about the execution of a plan."""


class PlanChanged(StateError):
    """Work stops while the plan file differs from the agreed text."""

    code = "E048"

    def __init__(
        self,
        plan: str,
        *,
        file: str,
        agreed: str,
        found: str | None,
        worktree: str | None = None,
        renamed_to: str | None = None,
        earlier: bool = False,
    ) -> None:
        standing = ("newer" if worktree else "older") if earlier else "edited"
        what = "has changed since" if found else "is gone since"
        said = {
            "edited": f"{file} {what} the plan was initialised",
            "older": f"{file} has an earlier text of the plan, and a newer one is agreed",
            "newer": f"a newer text of {plan} is agreed, and {file} does not have it yet",
        }
        # In another worktree, diff would compare another copy and show nothing.
        where = f" --worktree {quoted(worktree)}" if worktree else ""
        look = "worktree sync" if standing == "newer" else "diff"
        now = f"; {renamed_to} has its text" if renamed_to else ""
        super().__init__(
            said[standing] + now,
            hint=move_command(plan, renamed_to)
            if renamed_to
            else f"tugcode {look} {plan_argument(plan)}{where}",
            file=file,
            plan=plan,
            agreed_hash=agreed,
            found_hash=found,
            renamed_to=renamed_to,
            standing=standing,
        )


def move_command(plan: str, to: str) -> str:
    """The command that moves the record after a plan's file was renamed."""
    return f"tugcode move {plan_argument(plan)} {plan_argument(to)}"


class PlanRenamed(StateError):
    """The text is recorded already, so a new name does not start it again."""

    code = "E094"

    def __init__(self, plan: str, *, recorded: str) -> None:
        super().__init__(
            f"{plan} has the text of {recorded}, which is recorded and has no file any more; "
            "if you renamed the file, move the record",
            hint=move_command(recorded, plan),
            plan=plan,
            recorded=recorded,
        )


class StepError(StateError):
    """A refusal about one step of a plan; without an anchor, about the plan."""

    def __init__(
        self, plan: str, anchor: str | None, message: str, *, hint: str = "", **facts: object
    ) -> None:
        why = f"tugcode show {plan_argument(plan)}"
        if anchor is not None:
            why = f"tugcode why {plan_argument(plan)} {quoted(anchor)}"
        super().__init__(message, hint=hint or why, anchor=anchor, plan=plan, **facts)


class NotOwner(StepError):
    """Another worker holds the claim, or completed the step: stop working."""

    code = "E049"
    exit_status = 4

    def __init__(
        self, plan: str, anchor: str, *, owner: str, caller: str, verb: str = "is held"
    ) -> None:
        message = f"step {anchor} {verb} by {owner}, not by {caller}"
        super().__init__(plan, anchor, message, owner=owner, caller=caller)


class WrongStatus(StepError):
    """The step (without an anchor: the plan) has the wrong status for this."""

    code = "E050"

    def __init__(
        self, plan: str, anchor: str | None, *, status: str, needed: str, hint: str = ""
    ) -> None:
        which = plan if anchor is None else f"step {anchor}"
        super().__init__(plan, anchor, f"{which} is {status}; {needed}", hint=hint, status=status)


class ItemsOpen(StepError):
    """A step is completed only with all its items."""

    code = "E051"
    whose = ""

    def __init__(
        self,
        plan: str,
        anchor: str,
        *,
        items: Sequence[Mapping[str, object]],
        lines: Sequence[str] = (),
        failed: Sequence[Mapping[str, object]] = (),
        hint: str = "",
    ) -> None:
        names = [f"{item['step_anchor']} {item['kind']} {item['ordinal']}" for item in items]
        open_ = f"{len(names)} open item{'s' * (len(names) != 1)}"
        first = f"step {anchor} has {open_}{self.whose}: {listing(names)}"
        look = hint or f"tugcode show {plan_argument(plan)} --json"
        facts = {"open": list(items), "failed": list(failed) or None}
        super().__init__(plan, anchor, "\n".join([first, *lines]), hint=look, **facts)


class SubstepItemsOpen(ItemsOpen):
    """Like E051, but all open items belong to substeps."""

    code = "E052"
    whose = " of substeps"


class NotReady(StepError):
    """Other work has to be finished or released first."""

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
            message = f"step {anchor} has dependents that build on it: {listing(dependents)}"
        else:
            message = f"step {anchor} is held by {owner} until {until}"
        super().__init__(
            plan,
            anchor,
            message,
            hint="tugcode reopen --help" if dependents else "",
            waiting_for=list(waiting_for) or None,
            dependents=list(dependents) or None,
            owner=owner,
            lease_expires_at=until,
        )


class Superseded(StepError):
    """A newer attempt runs, or this one has ended: stop working."""

    code = "E060"
    exit_status = 4

    def __init__(self, plan: str, anchor: str, *, attempt: int, current: int) -> None:
        what = f"attempt {current} is current" if current != attempt else "it has ended"
        if attempt > current:
            what = f"there was none; attempt {current} is current"
        message = f"attempt {attempt} at step {anchor} does not count: {what}"
        super().__init__(plan, anchor, message, attempt=attempt, current=current)


class PlanNotInitialised(StateError):
    """The state has no record of this plan."""

    code = "E063"

    def __init__(self, plan: str | None) -> None:
        known = plan is not None
        super().__init__(
            f"{plan} has no state yet" if known else "no plan here has an active state",
            hint=f"tugcode state init {plan_argument(plan)}" if plan else "tugcode list",
            plan=plan,
        )


class InvalidEntry(StateError):
    """A name or number that does not exist; the command changed nothing."""

    code = "E066"

    def __init__(
        self,
        problem: str,
        *,
        entry: Mapping[str, object] | None = None,
        index: int | None = None,
        valid: str | None = None,
        command: str = "update",
        hint: str | None = None,
    ) -> None:
        super().__init__(
            f"{problem}; valid: {valid}" if valid else problem,
            hint=hint or f"tugcode {command} --help",
            entry=None if entry is None else _format_item(entry),
            index=index,
            valid=valid,
        )


def _format_item(entry: Mapping[str, object]) -> dict[str, object]:
    """An entry, shortened to fit into a message."""
    return {str(key)[:50]: _short(entry[key]) for key in list(entry)[:8]}


def _short(value: object) -> object:
    if isinstance(value, str):
        return value[:200]
    plain = value is None or (isinstance(value, int) and abs(value) < 1 << 53)
    return value if plain else f"({type(value).__name__})"


class StepParked(StepError):
    """No worker gets the step before a person frees it."""

    code = "E067"

    def __init__(self, plan: str, anchor: str, *, reason: str, parked_at: str) -> None:
        message = f"step {anchor} is parked since {parked_at}: {reason}"
        super().__init__(plan, anchor, message, reason=reason, parked_at=parked_at)


#: The most steps that a message names; the facts have all.
MOST_TOLD = 20


class RevisionRefused(StateError):
    """No option of the command allows this loss."""

    code = "E044"

    def __init__(self, plan: str, *, refusals: Sequence[Mapping[str, object]]) -> None:
        lines = [f"{refusal['step']}: {refusal['why']}" for refusal in refusals[:MOST_TOLD]]
        more = len(refusals) - len(lines)
        lines += [f"and {more} more"] if more else []
        first = "the new text undoes work (tugcode state init --help lists what allows it)"
        super().__init__(
            "\n".join([first, *lines]),
            hint=f"tugcode diff {plan_argument(plan)}",
            plan=plan,
            refusals=list(refusals),
        )


class PlansRecorded(StateError):
    """An import or a restore never changes a recorded plan."""

    code = "E064"

    def __init__(self, plans: Sequence[str], *, done: str = "imported") -> None:
        super().__init__(
            f"these plans have a state here already: {listing(plans)}; nothing was {done}",
            hint=f"tugcode show {plan_argument(plans[0])}",
            plans=list(plans),
        )


class PeopleOnly(StateError):
    """A worker may not judge its own work."""

    code = "E068"

    def __init__(
        self,
        command: str,
        *,
        hint: str = "tugcode review",
        reason: str = "TUGCODE_ATTEMPT says that a worker runs it",
    ) -> None:
        super().__init__(f"{command} is for people, and {reason}", hint=hint)


class BadImport(StateError):
    """The command imported no row of the file."""

    code = "E069"

    def __init__(self, name: str, problem: str, *, line: int | None = None) -> None:
        super().__init__(
            f"{place(name, line)} {problem}; nothing was imported",
            hint="tugcode import --help",
            file=name,
            line=line,
        )


class NothingLost(StateError):
    """A backup would undo the work recorded after it."""

    code = "E077"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is sound and complete; its backup would undo the work recorded after it "
            "(--from FILE restores a copy anyway)",
            hint="tugcode restore --dry-run",
            file=path,
        )
