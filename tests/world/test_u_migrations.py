"""U: a migration whose result is not the present schema changes nothing, and says so."""

import sqlite3
from pathlib import Path

import pytest

from tugtool.store import schema

TESTS = Path(__file__).parent.parent
#: What the first landed version 10 had instead of two tables; the second had `plan_copies`.
SECOND = """
drop table plan_counts;
alter table plans add column steps_total integer not null default 0;
alter table plans add column steps_done integer not null default 0;
alter table plans add column steps_ready integer not null default 0;
"""
FIRST = f"{SECOND} drop table plan_copies;"


def _database(path: Path, difference: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript((TESTS / "store" / "schema-10.sql").read_text() + difference)
    connection.close()


@pytest.mark.parametrize(
    ("difference", "missing"),
    [(FIRST, "plan_copies, plan_counts, plans;"), (SECOND, "plan_counts, plans;")],
    ids=["first", "second"],
)
def test_a_database_of_another_schema_10_is_refused_untouched(desk, difference, missing):
    work = desk("1 t", init=False)
    path = work.repo.path / ".tugtool" / "state.db"
    _database(path, difference)
    before = path.read_bytes()
    copy = work.repo.path / ".git" / "tugtool" / "state-schema-10.db"
    for words in (["init", "work"], ["claim", "work"], ["claim", "work"]):
        (issue,) = work.json(*words).envelope()["issues"]
        assert issue["code"] == "E046"
        assert f"it would differ from schema {schema.VERSION} in {missing}" in issue["message"]
        assert str(copy) in issue["message"]
        assert path.read_bytes() == before
    # The same copy is not kept again and again.
    assert [each.name for each in copy.parent.glob("state-schema*")] == [copy.name]


def test_what_a_person_added_to_a_database_does_not_stop_its_migration(desk):
    work = desk("1 t", init=False)
    path = work.repo.path / ".tugtool" / "state.db"
    _database(path, "analyze; create index mine on events (at);")
    work.ok("init", "work")
    assert work.ok("claim", "work")["claimed"]
