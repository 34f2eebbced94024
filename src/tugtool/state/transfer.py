"""import: make rows from an export."""

from __future__ import annotations

import posixpath

from tugtool.errors.state import BadImport, NewerDatabase, PlansRecorded, QueryFailed
from tugtool.state import dashes as state_dashes
from tugtool.state import plans
from tugtool.state.upkeep import FORMAT, FORMAT_VERSION, new_epoch
from tugtool.store import NO_PLAN, schema, sql
from tugtool.store.sql import records as sql_records
from tugtool.store.sql import views as sql_views
from tugtool.system import text as system_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from typing import Any, BinaryIO, NoReturn

    from tugtool.schemas import StateImport
    from tugtool.store import Store, Transaction

    Data = dict[str, object]


_LENGTHS = (40, 64)
_DIGITS = set("0123456789abcdef")


def first_problem(table: str, row: Data, dashes: Collection[object]) -> str | None:
    """Return why a row cannot be ours; its names and commits are passed to git."""
    if table == "dashes":
        name = str(row["name"])
        commits = {key: row[key] for key in ("base_commit", "joined_commit")}
        if not state_dashes.is_name(name):
            return f"has a dash with an impossible name: {name!r:.60}"
        if (row["branch"], row["worktree"]) != (
            state_dashes.branch(name),
            state_dashes.worktree(name),
        ):
            return f"has a branch or worktree that is not the dash's: {name}"
    else:
        commits = {"commit_hash": row["commit_hash"]}
        if row["dash_id"] not in dashes:
            return f"belongs to a dash that is not in the file: {row['dash_id']}"
        if not _is_files(str(row["files"])):
            return "has files that are not a list of paths"
    bad = [key for key, commit in commits.items() if commit is not None and not _is_hash(commit)]
    return f"has a {bad[0]} that is not a commit hash" if bad else None


def recorded_keys(tx: Transaction, dashes: Iterable[Data]) -> str | None:
    """Return the name of a dash that exists here, or that an active dash has here."""
    for dash in dashes:
        for row in tx.all(sql_views.DASHES_NAMED, name=dash["name"]):
            both = row["status"] == dash["status"] == "active"
            if both or row["created_at"] == dash["created_at"]:
                return str(dash["name"])
    return None


def _is_hash(commit: object) -> bool:
    return isinstance(commit, str) and len(commit) in _LENGTHS and set(commit) <= _DIGITS


def _is_files(text: str) -> bool:
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, list) and all(map(_is_file, found))


def _is_file(each: object) -> bool:
    fields = isinstance(each, dict) and set(each) == {"path", "status"}
    return fields and all(isinstance(value, str) for value in each.values())  # type: ignore[attr-defined]  # a dict


#: One row of a plan's text with every letter escaped; longer lines are not ours.
LONGEST_LINE = 1 << 30
_MOST = 1 << 63
_NUMBERS = {"int": (int,), "real": (int, float)}
_COLUMNS = sql_records.COLUMNS | sql_records.DASH_COLUMNS


class _Taken(Exception):
    """A number in this file belongs to another row here."""


def import_(store: Store, source: BinaryIO, *, name: str = "the import") -> StateImport:
    """Import the plans and dashes of an export, which must not be here yet. For people.

    Rows keep their numbers, unless one is taken here; then all get new ones, in order.
    `source` is read twice; `name` is its name in refusals.
    """
    plans, dashes, counts = _looked_through(source, name)
    tables: Any = counts
    store.create()
    try:
        recounted = _take(store, source, name, plans, dashes, renumber=False)
        renumbered = False
    except _Taken:
        recounted = _take(store, source, name, plans, dashes, renumber=True)
        renumbered = True
    return {
        "imported": True,
        "plans": plans,
        "rows": sum(counts.values()),
        "tables": tables,
        "renumbered": renumbered,
        "transcripts": 0,
        "recounted": recounted,
    }


def _take(
    store: Store,
    source: BinaryIO,
    name: str,
    plans: list[str],
    dashes: list[Data],
    *,
    renumber: bool,
) -> list[str]:
    """Insert every row in one transaction. Return the plans whose counts were corrected."""
    with store.write(*plans, NO_PLAN) as tx:
        recorded = [plan for plan in plans if tx.first(sql.PLAN, plan=plan) is not None]
        if recorded:
            raise PlansRecorded(recorded)
        known = recorded_keys(tx, dashes)
        if known is not None:
            raise BadImport(name, f"has the dash {known}, which is recorded here already")
        taker = _Taker(tx, renumber=renumber)
        for line, table, row in _again(source):
            try:
                taker.take(table, row)
            except QueryFailed as error:
                if error.by_rule:
                    problem = f"has a row of {table} that cannot be: {error.message}"
                    raise BadImport(name, problem, line=line) from error
                raise
        new_epoch(tx)
        return [plan for plan in plans if _settle(tx, plan, name)]


class _Taker:
    """Inserts rows; maps the numbers of artifacts and dashes."""

    def __init__(self, tx: Transaction, *, renumber: bool) -> None:
        self._tx = tx
        self._renumber = renumber
        self._artifacts: dict[object, object] = {}
        self._dashes: dict[object, object] = {}

    def take(self, table: str, row: Data) -> None:
        number = sql_records.NUMBERED.get(table)
        if number is None or not self._renumber:
            if not self._tx.run(sql_records.KEEP[table], **row):
                raise _Taken
            return
        if table == "events":
            row = {**row, "detail": self._detail(str(row["detail"]))}
        elif table == "dash_rounds":
            row = {**row, "dash_id": self._dashes[row["dash_id"]]}
        now = self._tx.value(sql_records.RENUMBER[table], **row)
        if table == "step_artifacts":
            self._artifacts[row[number]] = now
        elif table == "dashes":
            self._dashes[row[number]] = now

    def _detail(self, text: str) -> str:
        """Return an event's detail with the present number of its artifact."""
        detail = _json(text)
        assert isinstance(detail, dict)
        known = detail.get("artifact_id")
        if isinstance(known, int) and known in self._artifacts:
            return system_text.encode({**detail, "artifact_id": self._artifacts[known]})
        return text


_IMPOSSIBLE = {
    sql_records.NO_COUNTS: "has no row of plan_counts",
    sql_records.NESTED_TOO_DEEP: "is a substep of a substep",
    sql_records.HELD_OTHERWISE: "is not held as its step is",
    sql_records.ATTEMPTS_ASTRAY: "and its attempts do not fit each other",
    sql_records.PARKED_UNTRIED: "is parked without an attempt or a reason",
}


def _settle(tx: Transaction, plan: str, name: str) -> bool:
    """Refuse contradictory rows; correct counts."""
    for statement, problem in _IMPOSSIBLE.items():
        found = tx.value(statement, plan=plan)
        if found is not None:
            raise BadImport(name, f"has a record of {plan} that cannot be: {found} {problem}")
    return bool(plans.put_right(tx, plan))


def _looked_through(source: BinaryIO, name: str) -> tuple[list[str], list[Data], dict[str, int]]:
    """Return the plans and dashes of the file, and the number of rows of each table."""
    plans: list[str] = []
    dashes: list[Data] = []
    counts = dict.fromkeys(_COLUMNS, 0)
    for _, table, row in _Reader(source, name).rows():
        counts[table] += 1
        if table == "plans":
            plans.append(str(row["plan_path"]))
        elif table == "dashes":
            dashes.append(row)
    return plans, dashes, counts


def _again(source: BinaryIO) -> Iterator[tuple[int, str, Data]]:
    """Yield the checked rows again; other writers wait meanwhile."""
    from json import loads

    source.seek(0)
    source.readline()
    number = 1
    while "end" not in (line := loads(source.readline())):
        number += 1
        yield number, line["table"], line["row"]


class _Reader:
    """Reads and checks the rows of an export; a refusal names the line."""

    def __init__(self, source: BinaryIO, name: str) -> None:
        source.seek(0)
        self._source = source
        self._name = name
        self._line = 0
        self._plans: set[object] = set()
        self._dashes: set[object] = set()
        self._last = dict.fromkeys(sql_records.NUMBERED, 0)

    def rows(self) -> Iterator[tuple[int, str, Data]]:
        """Yield line, table and values of every row, between a header and a matching footer."""
        self._header(self._next())
        count = 0
        while "end" not in (line := self._next()):
            table, row = self._row(line)
            count += 1
            yield self._line, table, row
        if set(line) != {"end", "rows"} or line["rows"] != count:
            self._refuse(f"ends after {count} rows, and says {line.get('rows')!r:.40}")
        if self._source.read(1):
            self._line += 1
            self._refuse("goes on after its end")

    def _refuse(self, problem: str) -> NoReturn:
        raise BadImport(self._name, problem, line=self._line)

    def _next(self) -> Data:
        self._line += 1
        data = self._source.readline(LONGEST_LINE + 1)
        if not data:
            self._refuse("is cut off: its last line is missing")
        if len(data) > LONGEST_LINE:
            self._refuse(f"has a line of over {LONGEST_LINE} bytes")
        try:
            found = _json(data.decode())
        except (ValueError, RecursionError) as error:
            self._refuse(f"is not JSON: {error!s:.200}")
        if not isinstance(found, dict):
            self._refuse("is not a JSON object")
        return found

    def _header(self, line: Data) -> None:
        if line.get("format") != FORMAT:
            self._refuse("is not the first line of an export")
        version = line.get("format_version")
        if type(version) is not int or version != FORMAT_VERSION:
            known = f"this Tugtool knows {FORMAT_VERSION}"
            self._refuse(f"has the format version {version!r:.40}; {known}")
        found = line.get("schema_version")
        if type(found) is not int or found < schema.FIRST_VERSION:
            self._refuse(f"has the schema version {found!r:.40}, which never existed")
        if found > schema.VERSION:
            raise NewerDatabase(self._name, found=found, known=schema.VERSION)

    def _row(self, line: Data) -> tuple[str, Data]:
        table, row = line.get("table"), line.get("row")
        if set(line) != {"table", "row"} or not isinstance(row, dict):
            self._refuse("is neither a row nor the end")
        if not isinstance(table, str) or table not in _COLUMNS:
            self._refuse(f"is of a table that does not exist: {table!r:.60}")
        columns = _COLUMNS[table]
        if set(row) != set(columns):
            odd = ", ".join(sorted(set(row) ^ set(columns)))
            self._refuse(f"has too many or too few columns of {table}: {odd:.200}")
        for column, (kind, empty) in columns.items():
            if not (_fits(row[column], kind) or (empty and row[column] is None)):
                self._refuse(f"has a {column} that is not of type {kind}: {row[column]!r:.60}")
        self._judge(table, row)
        return table, row

    def _judge(self, table: str, row: Data) -> None:
        """Check what the column types do not: the row's plan, its number, an event's detail."""
        if table in sql_records.DASH_COLUMNS:
            self._judge_dash(table, row)
        else:
            self._judge_owner(table, str(row["plan_path"]))
        self._judge_number(table, row)
        if table == "events" and not _is_object(str(row["detail"])):
            self._refuse("has a detail that is not a JSON object")

    def _judge_dash(self, table: str, row: Data) -> None:
        problem = first_problem(table, row, self._dashes)
        if problem is not None:
            self._refuse(problem)
        if table == "dashes":
            self._dashes.add(row["id"])

    def _judge_owner(self, table: str, plan: str) -> None:
        if table == "plans":
            if not _is_key(plan):
                self._refuse(f"has a plan outside the repository: {plan!r:.200}")
            self._plans.add(plan)
        elif plan not in self._plans:
            # It would become part of a plan that exists here.
            self._refuse(f"belongs to a plan that is not in the file: {plan!r:.200}")

    def _judge_number(self, table: str, row: Data) -> None:
        number = sql_records.NUMBERED.get(table)
        if number is not None:
            value = row[number]
            assert isinstance(value, int)
            if value <= self._last[table]:
                self._refuse(f"has a {number} that does not grow: {value}")
            self._last[table] = value


def _is_key(path: str) -> bool:
    plain = path == posixpath.normpath(path) and "\0" not in path
    return plain and not path.startswith(("/", "../")) and path not in (".", "..", "")


def _fits(value: object, kind: str) -> bool:
    if kind == "text":
        return isinstance(value, str) and _is_text(value)
    # In Python True is an int, but not a number in JSON.
    if type(value) not in _NUMBERS[kind]:
        return False
    assert isinstance(value, int | float)
    return -_MOST <= value < _MOST


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_object(text: str) -> bool:
    try:
        return isinstance(_json(text), dict)
    except (ValueError, RecursionError):
        return False


def _json(text: str) -> object:
    import json

    return json.loads(text, parse_constant=_no_number, object_pairs_hook=_once)


def _no_number(word: str) -> object:
    raise ValueError(f"{word} is not a number")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found
