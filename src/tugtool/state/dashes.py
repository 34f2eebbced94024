"""The record's part of dash: the dashes, their rounds and their ends.

Events belong to plans and a dash has none, so its rounds are its history.
"""

from __future__ import annotations

from tugtool.errors.git import BadDashName, DashEnded, NoSuchDash
from tugtool.state import intents
from tugtool.state.record import reason, storable
from tugtool.store import NO_PLAN, rows
from tugtool.store.owners import on_other_machine
from tugtool.store.sql import git as sql_git
from tugtool.store.sql import views as sql_views
from tugtool.system import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tugtool.store import Row, Store, Transaction


#: Long enough for a subject, short enough for a line of `git branch`.
LONGEST_NAME = 50


def is_name(name: str) -> bool:
    """Return whether the name is safe in a ref and a path: a-z, 0-9 and single hyphens."""
    return text.is_slug(name) and len(name) <= LONGEST_NAME


def branch(name: str) -> str:
    """Return `tugdash/<name>`."""
    return f"tugdash/{name}"


def worktree(name: str) -> str:
    """Return the path of its worktree, relative to the repository's root."""
    return f".tugtree/tugdash__{name}"


class Round:
    """A round's instruction, summary and changes; `commit` is None if nothing changed."""

    __slots__ = ("commit", "files", "instruction", "number", "summary")

    def __init__(
        self,
        number: int,
        *,
        instruction: str | None = None,
        summary: str | None = None,
        files: Sequence[Mapping[str, str]] = (),
        commit: str | None = None,
    ) -> None:
        self.number = number
        self.instruction, self.summary = reason(instruction), reason(summary)
        self.files, self.commit = files, commit


def active(store: Store, name: str) -> Row | None:
    """Return the active dash of that name, or None."""
    return next((row for row in named(store, name) if row["status"] == "active"), None)


def named(store: Store, name: str) -> list[Row]:
    """Return every dash of that name, oldest first."""
    return rows(store, sql_views.DASHES_NAMED, name=storable(name))


def find(store: Store, name: str) -> Row:
    """Return the active dash of that name, or else the last one; raise E054."""
    found = named(store, name)
    if found:
        return next((row for row in found if row["status"] == "active"), found[-1])
    known = dict.fromkeys(row["name"] for row in every(store, ended=True))
    raise NoSuchDash(name, close=text.names(name, list(known)))


def require(store: Store, name: str) -> Row:
    """Return the active dash of that name; raise E054 or E056."""
    row = find(store, name)
    if row["status"] == "active":
        return row
    commit, ref = row["joined_commit"], row["salvage_ref"]
    how = f" as {commit}" if commit else f", its work is saved as {ref}" if ref else ""
    what = f"it was {row['status']} on {row['ended_at']}{how}"
    facts = {"status": row["status"], "joined_commit": commit, "salvage_ref": ref}
    raise DashEnded(name, what=what, **facts)


def every(store: Store, *, ended: bool) -> list[Row]:
    """Return the active dashes by name, and with `ended` the ended ones."""
    return rows(store, sql_views.EVERY_DASH if ended else sql_views.ACTIVE_DASHES)


def rounds(store: Store, row: Row) -> list[Row]:
    """Return a dash's rounds, in order."""
    with store.read() as tx:
        return tx.all(sql_views.ROUNDS, id=row["id"])


def add(
    store: Store,
    name: str,
    *,
    path: str,
    base: tuple[str, str],
    description: str | None,
    rounds: Sequence[Round] = (),
) -> None:
    """Record a dash with the rounds in git, and remove its intent; raise E055 if it is there."""
    base_branch, base_commit = base
    with store.write(NO_PLAN) as tx:
        for row in tx.all(sql_views.DASHES_NAMED, name=name):
            if row["status"] == "active":
                first = f"{_home(row)} was first, at {row['created_at']}"
                raise BadDashName(name, reason=first, taken=True)
        number = tx.value(
            sql_views.ADD_DASH,
            name=name,
            description=reason(description),
            branch=branch(name),
            worktree=worktree(name),
            base_branch=storable(base_branch),
            base_commit=base_commit,
        )
        for each in rounds:
            _add_round(tx, number, each)
        tx.run(sql_git.DROP_INTENT, kind="create", path=storable(path))


def _home(row: Row) -> str:
    path: str = row["worktree"]
    return path.partition(":")[0] if on_other_machine(path) else "another clone"


def describe(store: Store, row: Row, description: str) -> None:
    """Change its description; raise E054 if it has no record any more."""
    with store.write(NO_PLAN) as tx:
        if not tx.run(sql_views.DESCRIBE_DASH, id=row["id"], description=reason(description)):
            raise NoSuchDash(row["name"])


def record(store: Store, row: Row, made: Round, *, path: str) -> None:
    """Record a round and remove its intent; raise E054 if its dash has no record any more."""
    with store.write(NO_PLAN) as tx:
        # An older record may have been restored since the row was read.
        if not tx.run(sql_views.TOUCH_DASH, id=row["id"]):
            raise NoSuchDash(row["name"])
        _add_round(tx, row["id"], made)
        tx.run(sql_git.DROP_INTENT, kind="dash", path=storable(path))


def _add_round(tx: Transaction, dash: int, made: Round) -> None:
    files = [{key: storable(value) for key, value in each.items()} for each in made.files]
    tx.run(
        sql_views.ADD_ROUND,
        id=dash,
        number=made.number,
        instruction=made.instruction,
        summary=made.summary,
        files=text.encode(files),
        commit=made.commit,
    )


def join(store: Store, dash: int, commit: str) -> None:
    """Record that the commit brought it to its base branch; a repetition changes nothing."""
    with store.write(NO_PLAN) as tx:
        tx.run(sql_views.END_DASH, id=dash, status="joined", commit=commit, salvage_ref=None)


def release(store: Store, row: Row, path: str, *, salvage_ref: str | None) -> None:
    """Record its release; interrupted commands in it can be neither finished nor undone."""
    with store.write(NO_PLAN, *intents.plans_at(store, storable(path))) as tx:
        tx.run(
            sql_views.END_DASH,
            id=row["id"],
            status="released",
            commit=None,
            salvage_ref=salvage_ref,
        )
        for kind in ("commit", "dash", "join", "remove", "sync"):
            tx.run(sql_git.DROP_INTENT, kind=kind, path=storable(path))
