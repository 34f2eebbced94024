"""Keep copies of a schema of PostgreSQL, bring them back, and read all of its rows.

What a copied file is for SQLite: a test sets a state back to what it was before each try.
"""

from support import engines
from tugtool.store import schema
from tugtool.store.postgres import PostgresStore, create, libpq

#: Table -> its column of numbers that a sequence gives out.
_SEQUENCES = {
    found[1]: found[2]
    for each in schema.TABLES
    if (found := create._NUMBERED.search(each)) and found[1] != "events"
}


class SchemaCopies:
    """Copies of one schema, each under a name."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.here = store.address.quoted_schema()
        #: As the superuser: triggers and references do not have to look at rows that were right.
        self._begin = ("begin", "set local session_replication_role = replica")

    def _there(self, name: str) -> str:
        return f'"{self.store.address.schema}_{name}"'

    def _run(self, *texts: str) -> libpq.Outcome:
        connection = self.store.take()
        try:
            return create._run(self.store, connection, texts)
        finally:
            self.store.give_back(connection)

    def keep(self, name: str) -> None:
        """Copy every row, and the numbers that are to be given out next."""
        there = self._there(name)
        self._run(
            *("begin", f"drop schema if exists {there} cascade", f"create schema {there}"),
            *(f"create table {there}.{t} as select * from {self.here}.{t}" for t in self.tables()),
            *(
                f"create table {there}.{s}_number as"
                f" select last_value, is_called from {self.here}.{s}_number"
                for s in _SEQUENCES
            ),
            "commit",
        )

    def bring_back(self, name: str) -> None:
        """Let every row be as it was."""
        there = self._there(name)
        self._run(
            *self._begin,
            *(f"delete from {self.here}.{t}" for t in self.tables()),
            *(f"insert into {self.here}.{t} select * from {there}.{t}" for t in self.tables()),
            *(
                f"select setval('{self.here}.{s}_number', last_value, is_called)"
                f" from {there}.{s}_number"
                for s in _SEQUENCES
            ),
            "commit",
        )

    def empty(self) -> None:
        """Take every row away."""
        engines.cleaned(self.store)

    def renumber(self) -> None:
        """Give out next the numbers that follow those of the rows that are there."""
        for name, column in _SEQUENCES.items():
            self._run(
                f"select setval('{self.here}.{name}_number', coalesce(max({column}), 1),"
                f" max({column}) is not null) from {self.here}.{name}"
            )

    def tables(self) -> list[str]:
        return [*engines.TABLES, "repository"]

    def rows(self, *without: str) -> dict[str, list[tuple]]:
        """All rows of all tables but some, sorted; where they are numbered, by the number."""
        found: dict[str, list[tuple]] = {}
        for table in (each for each in self.tables() if each not in without):
            rows = [tuple(row) for row in self.rows_of(f"select * from {self.here}.{table}")]
            found[table] = sorted(rows, key=_order)
        return found

    def rows_of(self, statement: str) -> list[libpq.PostgresRow]:
        return self._run(statement).rows


def _order(row: tuple) -> list[tuple]:
    return [(value is not None, 0 if value is None else value) for value in row]
