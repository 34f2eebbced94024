"""Translate the shared statements' parameters and tables, and the server's errors."""

from __future__ import annotations

from tugtool.errors.state import DatabaseUnavailable, QueryFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tugtool.errors.state import DatabaseError
    from tugtool.store.postgres.address import Address
    from tugtool.store.postgres.libpq import StatementFailed
    from tugtool.store.postgres.round_trips import Statement

#: Statement -> the same with numbered parameters, and their names in that order.
_known: dict[tuple[str, bytes], tuple[bytes, tuple[str, ...]]] = {}

#: Whether a statement only reads.
_reads: dict[str, bool] = {}
#: Changes -> one statement for each group of them, and the size of the group.
_merged: dict[tuple[bytes, ...], list[tuple[bytes, int]]] = {}
_MOST_MERGED = 200

_NAME = frozenset("abcdefghijklmnopqrstuvwxyz_")

#: SQLSTATEs or their prefixes -> our names.
_KINDS = (
    ("55P03", "BUSY"),
    ("23", "CONSTRAINT"),
    ("22", "MISMATCH"),
    ("54", "TOOBIG"),
    ("53", "FULL"),
    ("58", "IOERR"),
)
#: The database cannot be used: no tables, no rights, damage.
_UNUSABLE = ("42P01", "3F000", "42501", "XX001", "XX002", "28", "3D000", "25006")
#: The name of a refusal after which the same operation may succeed at once.
OVERTAKEN = "OVERTAKEN"
_NO_TABLES = ("42P01", "3F000")
#: The state of a statement that the role may not run.
NO_RIGHT = "42501"


def numbered(statement: str, now: bytes = b"") -> tuple[bytes, tuple[str, ...]]:
    """Return the statement with `$1` for `:name`, and the names; `now` replaces `:now`."""
    known = _known.get((statement, now))
    if known is None:
        known = _known[statement, now] = _numbered(statement, now.decode())
    return known


def _by_anchor(statement: str) -> str:
    """Return the statement so that joined steps are looked up one by one.

    The planner knows that a joined step is of the same plan, and without statistics it takes a
    plan for one step: it would read all of them and compare anchors. It does not look through an
    expression.
    """
    first, *others = statement.split("join steps ")
    parts = [each.replace(".plan_path and", ".plan_path || '' and", 1) for each in others]
    joined = "join steps ".join((first, *parts))
    return joined.replace("steps.plan_path = d.plan_path", "steps.plan_path = d.plan_path || ''")


def _numbered(statement: str, now: str) -> tuple[bytes, tuple[str, ...]]:
    first, *others = _by_anchor(statement).split(":")
    parts, names = [first], list[str]()
    for other in others:
        length = next((n for n, c in enumerate(other) if c not in _NAME), len(other))
        name = other[:length]
        if not name:
            parts.append(f":{other}")
            continue
        if now and name == "now":
            parts.append(now + other[length:])
            continue
        if name not in names:
            names.append(name)
        parts.append(f"${names.index(name) + 1}{other[length:]}")
    return "".join(parts).encode(), tuple(names)


def only_reads(statement: str) -> bool:
    """Return whether a shared statement changes nothing."""
    reads = _reads.get(statement)
    if reads is None:
        reads = _reads[statement] = statement.lstrip().startswith("select")
    return reads


def merged(changes: Sequence[Statement]) -> list[Statement]:
    """Return the changes as few statements: one for those that concern different tables.

    Such a statement sees the rows as they were before it, and its last part is carried out last.
    """
    queries = tuple([query for query, _ in changes])
    groups = _merged.get(queries)
    if groups is None:
        if len(_merged) > _MOST_MERGED:
            _merged.clear()
        groups = _merged[queries] = [*_grouped(queries)]
    begin = 0
    found: list[Statement] = []
    for text, count in groups:
        values = [value for _, each in changes[begin : begin + count] for value in each]
        found.append((text, values))
        begin += count
    return found


def _grouped(queries: Sequence[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield the statement of each group, and how many changes it has."""
    group, known = list[bytes](), set[bytes]()
    for query in queries:
        tables = _named(query)
        if group and not known.isdisjoint(tables):
            yield _together(group), len(group)
            group, known = [], set()
        group.append(query)
        known |= tables
    if group:
        yield _together(group), len(group)


def _named(query: bytes) -> frozenset[bytes]:
    """Return the tables that a change names: the one it is for, and those that it reads."""
    words = query.split()
    before = (b"from", b"join", b"into")
    read = (words[n + 1] for n, word in enumerate(words) if word in before)
    return frozenset((words[1] if words[0] == b"update" else words[2], *read))


def _together(queries: Sequence[bytes]) -> bytes:
    if len(queries) == 1:
        return queries[0]
    parts, highest = list[bytes](), 0
    for query in queries:
        text, highest = _shifted(query, highest)
        parts.append(text)
    # The server begins with what comes after the list, and goes on with the list's end.
    first, *others = parts
    listed = b", ".join(b"w%d as (%s)" % each for each in enumerate(reversed(others)))
    return b"with %s %s" % (listed, first)


def _shifted(query: bytes, by: int) -> tuple[bytes, int]:
    """Return the query with higher numbers of its parameters, and the highest."""
    first, *others = query.split(b"$")
    parts, highest = [first], by
    for other in others:
        length = next((n for n, c in enumerate(other) if c not in b"0123456789"), len(other))
        number = int(other[:length]) + by
        parts.append(b"%d%s" % (number, other[length:]))
        highest = max(highest, number)
    return b"$".join(parts), highest


def refusal(address: Address, error: StatementFailed) -> DatabaseError:
    """Translate the server's error by its SQLSTATE, because its texts change."""
    said = address.cleaned(str(error))
    if error.state in _NO_TABLES:
        return no_tables(address)
    if error.state == NO_RIGHT:
        return DatabaseUnavailable(
            address.shown,
            reason=f"has not granted this role a right that it needs: {said}",
            name=error.state,
            hint="tugcode doctor",
            engine="postgres",
        )
    if error.state.startswith(_UNUSABLE):
        return DatabaseUnavailable(
            address.shown,
            reason=f"cannot be used: {said}",
            name=error.state,
            hint="tugcode config",
            engine="postgres",
        )
    kind = next((kind for start, kind in _KINDS if error.state.startswith(start)), "ERROR")
    return QueryFailed(
        address.shown,
        reason=f"refused a statement: {said}",
        name=f"{kind} {error.state}",
        engine="postgres",
        hint="tugcode config",
    )


def no_tables(address: Address) -> DatabaseUnavailable:
    """Return the error that this repository has no tables."""
    return DatabaseUnavailable(
        address.shown,
        reason=f"has no tables for this repository (schema {address.schema})",
        hint="tugcode state init PLAN --create-database",
        engine="postgres",
    )


def unreachable(address: Address, said: str) -> DatabaseUnavailable:
    """Return the error of a failed connection."""
    # Each server has a line, and indented ones with advice. The last server's is told.
    lines = address.cleaned(said).strip().split("\n")
    line = next(line for line in reversed(lines) if not line.startswith("\t"))
    return DatabaseUnavailable(
        address.shown, reason=f"cannot be reached: {line}", hint="tugcode config", engine="postgres"
    )


def lost(address: Address, outcome: str, name: str = "LOST") -> QueryFailed:
    """Return the error of a connection lost in a transaction, without a new one in time."""
    return QueryFailed(
        address.shown,
        reason=f"ended the connection; {outcome}",
        name=name,
        engine="postgres",
        hint="tugcode log --limit 5" if "may" in outcome else "try again",
    )


def overtaken(address: Address) -> QueryFailed:
    """Return the error of a lost transaction that would now have other results."""
    return lost(address, "nothing was written", OVERTAKEN)


def busy(address: Address, holder: str, seconds: float) -> QueryFailed:
    """Return the error of a plan's lock that another process holds."""
    return QueryFailed(
        address.shown,
        reason=f"is locked by {holder} for over {seconds:g} s",
        name="BUSY 55P03",
        engine="postgres",
    )
