"""dash, as far as the record goes: which there are, what each round did, how they ended.

A dash belongs to no plan, and events do: its rounds are its history.
"""

from __future__ import annotations

from tugtool import jsontext
from tugtool.dash_errors import DashEnded, NoSuchDash
from tugtool.state.record import reason, storable
from tugtool.store import sql_dash, sql_git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tugtool.store import Row, Store, Transaction

    Data = dict[str, object]


#: Long enough to say what it is about, short enough for a line of `git branch`.
LONGEST_NAME = 50


def is_name(name: str) -> bool:
    """Small letters and digits, single hyphens between them: safe in a ref and in a path."""
    words = name.split("-")
    plain = all(word.isascii() and word.isalnum() and word == word.lower() for word in words)
    return plain and len(name) <= LONGEST_NAME


def branch(name: str) -> str:
    """`tugdash/<name>`."""
    return f"tugdash/{name}"


def worktree(name: str) -> str:
    """Where its worktree is, from the repository's root, wherever that may move."""
    return f".tugtree/tugdash__{name}"


class Round:
    """What one round was asked to do, did, and changed; `commit` is None if it changed nothing."""

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
    """The active dash of that name, if there is one."""
    return next((row for row in named(store, name) if row["status"] == "active"), None)


def named(store: Store, name: str) -> list[Row]:
    """Every dash that has or had the name, oldest first."""
    if not store.exists():
        return []
    with store.read() as tx:
        return tx.all(sql_dash.DASHES_NAMED, name=storable(name))


def find(store: Store, name: str) -> Row:
    """The active dash of that name, or else the last that had it; E054."""
    rows = named(store, name)
    if rows:
        return next((row for row in rows if row["status"] == "active"), rows[-1])
    from tugtool import nearest

    known = dict.fromkeys(row["name"] for row in every(store, ended=True))
    raise NoSuchDash(name, close=nearest.names(name, list(known)))


def require(store: Store, name: str) -> Row:
    """The active dash of that name; E054, E056."""
    row = find(store, name)
    if row["status"] == "active":
        return row
    commit, ref = row["joined_commit"], row["salvage_ref"]
    how = f" as {commit}" if commit else f", its work is saved as {ref}" if ref else ""
    what = f"it was {row['status']} on {row['ended_at']}{how}"
    facts = {"status": row["status"], "joined_commit": commit, "salvage_ref": ref}
    raise DashEnded(name, what=what, **facts)


def every(store: Store, *, ended: bool) -> list[Row]:
    """The active dashes, by name; also those that have ended, if asked for."""
    if not store.exists():
        return []
    with store.read() as tx:
        return tx.all(sql_dash.EVERY_DASH if ended else sql_dash.ACTIVE_DASHES)


def rounds(store: Store, row: Row) -> list[Row]:
    """What is recorded of a dash's rounds, in their order."""
    with store.read() as tx:
        return tx.all(sql_dash.ROUNDS, id=row["id"])


def add(
    store: Store,
    name: str,
    *,
    path: str,
    base: tuple[str, str],
    description: str | None,
    rounds: Sequence[Round] = (),
) -> None:
    """A dash is there: its row, the rounds that git knows, and no intent any more."""
    base_branch, base_commit = base
    with store.write("") as tx:
        number = tx.value(
            sql_dash.ADD_DASH,
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


def describe(store: Store, row: Row, description: str) -> None:
    """Say anew what it is about; E054 if it is recorded no more."""
    with store.write("") as tx:
        if not tx.run(sql_dash.DESCRIBE_DASH, id=row["id"], description=reason(description)):
            raise NoSuchDash(row["name"])


def intend(store: Store, kind: str, path: str, *, head: str | None, detail: Data) -> None:
    """Write down what is about to happen to a dash, before it does."""
    with store.write("") as tx:
        tx.run(
            sql_git.ADD_INTENT,
            kind=kind,
            path=storable(path),
            head=head,
            detail=storable(jsontext.encode(detail)),
        )


def intents(store: Store, kind: str, path: str | None = None) -> list[Row]:
    """What was about to happen; to one dash, or to any."""
    if not store.exists():
        return []
    with store.read() as tx:
        rows = tx.all(sql_git.INTENTS, kind=kind)
    return [row for row in rows if path is None or row["worktree"] == storable(path)]


def drop(store: Store, kind: str, path: str) -> None:
    """It has happened, or will not."""
    with store.write("") as tx:
        tx.run(sql_git.DROP_INTENT, kind=kind, path=storable(path))


def record(store: Store, row: Row, made: Round, *, path: str) -> None:
    """A round has ended; with it goes its intent. E054 if its dash is recorded no more."""
    with store.write("") as tx:
        # An older record may have been restored since the row was read.
        if not tx.run(sql_dash.TOUCH_DASH, id=row["id"]):
            raise NoSuchDash(row["name"])
        _add_round(tx, row["id"], made)
        tx.run(sql_git.DROP_INTENT, kind="dash", path=storable(path))


def _add_round(tx: Transaction, dash: int, made: Round) -> None:
    files = [{key: storable(value) for key, value in each.items()} for each in made.files]
    tx.run(
        sql_dash.ADD_ROUND,
        id=dash,
        number=made.number,
        instruction=made.instruction,
        summary=made.summary,
        files=jsontext.encode(files),
        commit=made.commit,
    )


def join(store: Store, dash: int, commit: str) -> None:
    """It is on its base branch, in that commit; once is enough."""
    with store.write("") as tx:
        tx.run(sql_dash.END_DASH, id=dash, status="joined", commit=commit, salvage_ref=None)


def release(store: Store, row: Row, path: str, *, salvage_ref: str | None) -> None:
    """It was given up; what was under way in it can neither be finished there nor undone."""
    with store.write("") as tx:
        tx.run(
            sql_dash.END_DASH, id=row["id"], status="released", commit=None, salvage_ref=salvage_ref
        )
        for kind in ("commit", "dash", "join", "remove", "sync"):
            tx.run(sql_git.DROP_INTENT, kind=kind, path=storable(path))
