"""Whether each transaction changes only rows of the plans that it was given to `write`.

An engine may lock each named plan for itself: a row of any other plan is then changed under
nobody's lock. Temporary triggers note the plan of every row that changes; the database itself
stays as it is.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tugtool.store import NO_PLAN
from tugtool.store.sqlite import SqliteStore, SqliteTransaction, file

#: A cache by file: one statement puts a row there, and any order of them is right.
SHARED = ("plan_copies",)

#: Without a column for the plan: they belong to none.
PLANLESS = ("dashes", "dash_rounds", "epoch", "machines", "requests")

_ALONG = (
    "select name from sqlite_master where type = 'trigger'"
    " or sql like '%on delete%' or sql like '%on update%'"
)
_MOMENTS = {"insert": ("new",), "update": ("old", "new"), "delete": ("old",)}
_CHANGED = re.compile(
    r"\b(?:insert\s+(?:or\s+\w+\s+)?into|replace\s+into|update(?:\s+or\s+\w+)?|delete\s+from)\s+(?!set\b)(\w+)",
    re.IGNORECASE,
)


def _watch(tx: SqliteTransaction, statement: str) -> None:
    """Have triggers on the tables that the statement changes: most transactions change few."""
    for table in {*_CHANGED.findall(statement)} - {*SHARED, *tx.watched}:
        # If it is undone, so are the triggers.
        tx.watched.add(table)
        for moment, rows in _MOMENTS.items():
            plans = [f"'{NO_PLAN}'" if table in PLANLESS else f"{row}.plan_path" for row in rows]
            notes = "".join(f"insert into changed values ('{table}', {plan});" for plan in plans)
            trigger = (
                f"create temp trigger if not exists {table}_{moment} after {moment} on main.{table}"
            )
            tx._connection.execute(f"{trigger} begin {notes} end")


def unnamed(tx: SqliteTransaction, plans: tuple[str, ...]) -> list[tuple[str, str]]:
    """Tables and plans of rows that a transaction has changed without having named the plan."""
    found = tx._connection.execute("select distinct name, plan from temp.changed").fetchall()
    return [(table, plan) for table, plan in found if plan not in plans]


def _watching(run: Callable) -> Callable:
    """The way to run a statement, with its changes noted."""

    def watching(self: SqliteTransaction, statement: str, *more: object) -> Any:
        if hasattr(self, "named"):
            _watch(self, statement)
        return run(self, statement, *more)

    return watching


@pytest.fixture
def named_writes(monkeypatch):
    """Every transaction of this process is watched; what it changes without a name is a failure."""
    opened, write, leave = SqliteStore._opened, SqliteStore.write, SqliteTransaction.__exit__
    wrong: list[tuple[str, str]] = []

    def opening(self: SqliteStore, mode: str) -> file.Connection:
        connection = opened(self, mode)
        if mode != "ro":
            # A change that a row takes along with it would be none of any statement.
            assert not connection.execute(_ALONG).fetchall()
            connection.execute("create temp table if not exists changed (name text, plan text)")
        return connection

    def writing(self: SqliteStore, *plans: str, **how: Any) -> SqliteTransaction:
        tx = write(self, *plans, **how)
        tx.named, tx.watched = plans, set()
        return tx

    def leaving(self: SqliteTransaction, *ended: object) -> None:
        if hasattr(self, "named"):
            wrong.extend(unnamed(self, self.named))
            self._connection.execute("delete from temp.changed")
        leave(self, *ended)

    monkeypatch.setattr(SqliteStore, "_opened", opening)
    monkeypatch.setattr(SqliteStore, "write", writing)
    for name in ("_ask", "many"):
        monkeypatch.setattr(SqliteTransaction, name, _watching(getattr(SqliteTransaction, name)))
    monkeypatch.setattr(SqliteTransaction, "__exit__", leaving)
    yield wrong
    assert wrong == []
