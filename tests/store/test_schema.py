"""The tables refuse what cannot be, and an older database becomes the present one."""

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from support.racing import prepared
from support.workers import PLAN
from tugtool import state
from tugtool.errors import NotOwner
from tugtool.errors.state import DatabaseUnavailable, QueryFailed
from tugtool.store import open_store, schema, sql, sqlite
from tugtool.store.sqlite import create

TIME = "2026-02-23T12:00:00.000Z"
NOON = 1_794_916_800_000  # 2026-11-17T12:00:00.000Z, an hour before the old rows
SHOP = ".tugtool/tugplan-shop.md"
HELD = {
    "status": "claimed",
    "claimed_by": "w",
    "claimed_at": TIME,
    "lease_expires_at": TIME,
    "heartbeat_at": TIME,
}
#: Rows that cannot be: table, and what is wrong with it.
IMPOSSIBLE = [
    ("steps", {**HELD, "status": "paused"}),
    ("steps", {**HELD, "status": "pending"}),
    ("steps", {**HELD, "status": "completed", "completed_at": TIME}),
    ("steps", {**HELD, "claimed_by": None}),
    ("steps", {**HELD, "claimed_at": None}),
    ("steps", {**HELD, "lease_expires_at": None}),
    ("steps", {**HELD, "heartbeat_at": None}),
    ("steps", {**HELD, "lease_expires_at": "2026-02-23T12:00:00Z"}),
    ("steps", {**HELD, "lease_expires_at": "2026-02-23 12:00:00.000Z"}),
    ("steps", {**HELD, "lease_expires_at": f"{TIME}0"}),
    ("steps", {**HELD, "lease_expires_at": 1_771_848_000_000}),
    ("steps", {**HELD, "completed_at": TIME}),
    ("steps", {"status": "completed"}),
    ("steps", {"open_deps": -1}),
    ("steps", {"attempt": "first"}),
    ("steps", {"attempt": None}),
    ("steps", {"parent_anchor": "nowhere"}),
    ("steps", {"plan_path": "nowhere"}),
    ("steps", {"anchor": None}),
    ("plans", {"status": "paused"}),
    ("plan_counts", {"steps_done": 3}),
    ("plan_counts", {"steps_done": -1}),
    ("plan_counts", {"steps_ready": -1}),
    ("plans", {"created_at": "today"}),
    ("plans", {"paused_at": ""}),
    ("checklist_items", {"kind": "wish"}),
    ("checklist_items", {"status": "done"}),
    ("checklist_items", {"ordinal": -1}),
    ("checklist_items", {"step_anchor": "nowhere"}),
    ("step_artifacts", {"kind": "poem"}),
    ("step_artifacts", {"recorded_at": None}),
    ("attempts", {"outcome": "completed"}),
    ("attempts", {"ended_at": TIME}),
    ("attempts", {"ended_at": TIME, "outcome": "bored"}),
    ("attempts", {"lease_seconds": 0}),
    ("attempts", {"number": 0}),
    ("events", {"at": "2026"}),
    ("events", {"plan_path": "nowhere"}),
    ("step_deps", {"depends_on": "nowhere"}),
    ("plan_revisions", {"plan_hash": None}),
    ("worktrees", {"reserved_until": "soon"}),
    ("intents", {"kind": "wish"}),
    ("intents", {"detail": None}),
    ("attempts", {"role": "coder", "role_since": "now"}),
    ("machines", {"name": None}),
    ("unpublished", {"completed_at": "now"}),
    ("unpublished", {"step_anchor": "nowhere"}),
    ("requests", {"at": "now"}),
]
#: A row of each table that can be.
SOUND: dict[str, dict[str, object]] = {
    "plans": {
        "plan_path": "p",
        "plan_hash": "h",
        "status": "active",
        "created_at": TIME,
        "updated_at": TIME,
        "plan_text": "",
    },
    "plan_counts": {
        "plan_path": "p",
        "steps_total": 2,
        "steps_done": 0,
        "steps_ready": 2,
        "changed_at": TIME,
    },
    "steps": {
        "plan_path": "p",
        "anchor": "step-2",
        "step_index": 2,
        "title": "t",
        "status": "pending",
        "attempt": 0,
        "claims_without_progress": 0,
        "open_deps": 0,
    },
    "checklist_items": {
        "plan_path": "p",
        "step_anchor": "step-1",
        "kind": "task",
        "ordinal": 0,
        "text": "t",
        "status": "open",
    },
    "step_artifacts": {
        "plan_path": "p",
        "step_anchor": "step-1",
        "kind": "note",
        "summary": "s",
        "recorded_at": TIME,
    },
    "attempts": {
        "plan_path": "p",
        "step_anchor": "step-1",
        "number": 1,
        "worktree": "w",
        "lease_seconds": 1.5,
        "claimed_at": TIME,
        "seen_at": TIME,
    },
    "events": {"at": TIME, "plan_path": "p", "kind": "k", "detail": "{}"},
    "step_deps": {"plan_path": "p", "step_anchor": "step-1", "depends_on": "step-1"},
    "plan_revisions": {"plan_path": "p", "plan_hash": "h", "plan_text": "", "replaced_at": TIME},
    "worktrees": {
        "path": "/w",
        "branch": "b",
        "base_branch": "main",
        "base_commit": "c",
        "plan_path": "p",
        "created_at": TIME,
    },
    "intents": {
        "kind": "commit",
        "worktree": "/w",
        "plan_path": "p",
        "detail": "{}",
        "created_at": TIME,
    },
    "machines": {"id": "3f2a", "name": "till"},
    "unpublished": {
        "plan_path": "p",
        "step_anchor": "step-1",
        "commit_hash": "c",
        "worktree": "/w",
        "completed_at": TIME,
    },
    "requests": {
        "who": "ada",
        "key": "k",
        "command": "state claim",
        "request_hash": "h",
        "at": TIME,
        "answer": "{}",
    },
}


@pytest.fixture
def tables():
    """All tables, with one plan and its first step."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("pragma foreign_keys = on")
    for statement in schema.TABLES:
        connection.execute(statement.format(**create.DIALECT))
    _insert(connection, "plans", {})
    _insert(connection, "steps", {"anchor": "step-1"})
    yield connection
    connection.close()


def _insert(connection, table: str, different: dict) -> None:
    row = SOUND[table] | different
    names, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
    connection.execute(f"insert into {table} ({names}) values ({marks})", row)


@pytest.mark.parametrize("table", [table for table in SOUND if table != "plans"])
def test_a_sound_row_is_taken(tables, table):
    _insert(tables, table, {})


@pytest.mark.parametrize(("table", "different"), IMPOSSIBLE, ids=str)
def test_an_impossible_row_is_refused(tables, table, different):
    key = {"plan_path": "q"} if table == "plans" else {}
    with pytest.raises(sqlite3.IntegrityError):
        _insert(tables, table, key | different)


def test_a_held_step_and_a_completed_one_are_possible(tables):
    _insert(tables, "steps", HELD)
    _insert(tables, "steps", {"anchor": "s3", "status": "completed", "completed_at": TIME})
    _insert(tables, "attempts", {"ended_at": TIME, "outcome": "dead"})


def test_a_request_id_belongs_to_one_claim(tables):
    _insert(tables, "attempts", {"request_id": "r"})
    _insert(tables, "attempts", {"request_id": "r", "worktree": "other", "number": 2})
    _insert(tables, "attempts", {"request_id": None, "number": 3})
    with pytest.raises(sqlite3.IntegrityError):
        _insert(tables, "attempts", {"request_id": "r", "number": 4})


# -- migrations ------------------------------------------------------------------------

NOTES = "create table notes (plan_path text not null references plans (plan_path)){strict}"
ORDER = "create index steps_family on steps (plan_path, parent_anchor, step_index, anchor)"
NOW, NEXT = schema.VERSION, schema.VERSION + 1
COPY = f"state-schema-{NOW}"
#: What the next version might be: a new table, and an index made differently.
MIGRATION = (NEXT, (NOTES, "drop index steps_family", ORDER))


@pytest.fixture
def old(tmp_path):
    """A database of the present version, with rows; nobody has it open."""
    store, _ = prepared(tmp_path / "state.db", 3)
    state.pause(store, PLAN)
    store.close()
    return tmp_path / "state.db"


@pytest.fixture
def next_version(monkeypatch, old):
    """From here on, the present version is the next one."""
    tables = [text for text in schema.TABLES if "create index steps_family" not in text]
    monkeypatch.setattr(schema, "VERSION", NEXT)
    monkeypatch.setattr(sqlite, "CURRENT", (schema.APPLICATION_ID, NEXT))
    monkeypatch.setattr(schema, "TABLES", (*tables, NOTES, ORDER))
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, MIGRATION))


def _opened(path, **options):
    return open_store(f"sqlite://{path}", **options)


def _shape(path) -> tuple[int, set[tuple]]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    version = connection.execute("pragma user_version").fetchone()[0]
    rows = connection.execute("select type, name, tbl_name, sql from sqlite_master").fetchall()
    connection.close()
    return version, set(rows)


def _paused(path) -> bool:
    with _opened(path).read(PLAN) as tx:
        return tx.one(sql.PLAN)["paused_at"] is not None


HERE = Path(__file__).parent
INSERTS = re.compile(r"^INSERT INTO .*?;$", re.MULTILINE | re.DOTALL)


def _dump_of(number: int) -> str:
    """A database of an older version with real rows, as its own program made them.

    The files never change. Version 11 added an index, so version 10 had the same rows.
    """
    text = (HERE / f"schema-{number}.sql").read_text()
    if number == 10:
        text += "\n".join(INSERTS.findall((HERE / "schema-11.sql").read_text()))
    return text


def _rows(path) -> dict[str, list[tuple]]:
    connection = sqlite3.connect(path)
    names = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
    found = {name: connection.execute(f"select * from {name}").fetchall() for (name,) in names}
    connection.close()
    return found


@pytest.mark.parametrize("version", range(schema.FIRST_VERSION, schema.VERSION))
def test_a_database_of_an_earlier_version_becomes_the_same_as_a_fresh_one(tmp_path, version):
    path = tmp_path / "state.db"
    connection = sqlite3.connect(path)
    connection.executescript(_dump_of(version))
    connection.close()
    before = _rows(path)
    store = _opened(path, clock=lambda: NOON)
    store.create()
    assert (tmp_path / f"state-schema-{version}.db").exists()
    fresh = tmp_path / "fresh" / "state.db"
    fresh.parent.mkdir()
    _opened(fresh).create()
    assert _shape(path) == _shape(fresh)
    after = _rows(path)
    # Version 14 added two columns.
    known = len(before["attempts"][0])
    assert [row[:known] for row in after["attempts"]] == before.pop("attempts")
    assert {name: after[name] for name in before} == before
    assert len(before["steps"]) == 5
    # Work goes on where it was: a path still belongs to the machine that has the file.
    beat = state.heartbeat(store, SHOP, "step-2-1", owner="/srv/shop-1", attempt=1)
    assert beat["renewed"]
    with pytest.raises(NotOwner):
        state.heartbeat(store, SHOP, "step-2", owner="/srv/shop-3")
    store.close()


def test_every_database_has_an_epoch_of_its_own(tmp_path):
    found = []
    for name in "ab":
        store = _opened(tmp_path / name)
        store.create()
        found += _rows(tmp_path / name)["epoch"]
        store.close()
    assert all(re.fullmatch("[0-9a-f]{32}", epoch) for _, epoch in found)
    assert len(set(found)) == 2


def test_there_is_a_migration_to_every_version_after_the_first():
    leads_to = [version for version, _ in schema.MIGRATIONS]
    assert leads_to == list(range(schema.FIRST_VERSION + 1, schema.VERSION + 1))


def test_the_engine_takes_the_present_schema_for_the_present_one_without_loading_it():
    assert sqlite.CURRENT == (schema.APPLICATION_ID, schema.VERSION)


@pytest.mark.parametrize("how", ["write", "create"])
def test_a_migrated_database_is_the_same_as_a_fresh_one_and_keeps_its_rows(
    old, next_version, tmp_path, how
):
    store = _opened(old)
    store.create() if how == "create" else state.resume(store, PLAN)
    fresh = tmp_path / "fresh" / "state.db"
    fresh.parent.mkdir()
    _opened(fresh).create()
    assert _shape(old) == _shape(fresh)
    assert _shape(old)[0] == NEXT
    assert _paused(old) == (how == "create")
    with store.write(PLAN) as tx:
        assert tx.value("pragma foreign_keys") == 1
    store.close()


def test_a_copy_of_the_old_one_is_kept_and_no_earlier_copy_is_lost(old, next_version, tmp_path):
    before = _shape(old)
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies" / f"{COPY}.db").write_text("an earlier one")
    (tmp_path / "copies" / f"{COPY}.partial").write_text("left by a crash")
    _opened(old, copies=str(tmp_path / "copies")).create()
    names = {f"{COPY}.db", f"{COPY}-2.db"}
    assert set(os.listdir(tmp_path / "copies")) == names
    copy = tmp_path / "copies" / f"{COPY}-2.db"
    assert _shape(copy) == before
    assert (tmp_path / "copies" / f"{COPY}.db").read_text() == "an earlier one"
    assert f"{COPY}.db" not in os.listdir(tmp_path)


def test_without_a_directory_the_copy_lies_beside_the_database(old, next_version, tmp_path):
    _opened(old).create()
    assert _shape(tmp_path / f"{COPY}.db")[0] == NOW


def test_a_copy_that_cannot_be_made_stops_the_migration(old, next_version, tmp_path):
    before = _shape(old)
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseUnavailable, match="cannot be copied to"):
        _opened(old, copies=str(tmp_path / "file" / "copies")).create()
    assert _shape(old) == before


def test_reading_never_migrates(old, next_version, tmp_path):
    before = _shape(old), sorted(os.listdir(tmp_path))
    with pytest.raises(DatabaseUnavailable, match="the next command that writes migrates it"):
        _paused(old)
    assert _shape(old) == before[0]
    assert f"{COPY}.db" not in os.listdir(tmp_path)
    _opened(old).create()
    assert _paused(old)


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("insert into notes values ('nowhere')", DatabaseUnavailable),
        ("insert into notes values (null)", QueryFailed),
        ("create table plans (x)", QueryFailed),
    ],
)
def test_a_migration_that_fails_leaves_the_old_version(
    old, next_version, monkeypatch, statement, error
):
    before = _shape(old)
    monkeypatch.setattr(schema, "MIGRATIONS", ((NEXT, (*MIGRATION[1], statement)),))
    with pytest.raises(error):
        _opened(old).create()
    assert _shape(old) == before


KILLED = """
import os, signal, sys
from tugtool.store import open_store, schema, sqlite
from tugtool.store.sqlite import file
import sqlite3

class Killed(sqlite3.Connection):
    left = int(sys.argv[2])
    def execute(self, text, *values):
        points = "vacuum", "begin", "create", "drop", "pragma user_version =", "commit"
        if text.startswith(points):
            Killed.left -= 1
        if Killed.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().execute(text, *values)

def connect(path, **options):
    # Not where the result is compared with: that is in memory.
    killed = {} if path == ":memory:" else {"factory": Killed}
    return sqlite3.connect(path, **killed, **options)

file.connect = connect
schema.VERSION += 1
tables = (text for text in schema.TABLES if "create index steps_family" not in text)
schema.TABLES = (*tables, sys.argv[3], sys.argv[5])
sqlite.CURRENT = schema.APPLICATION_ID, schema.VERSION
schema.MIGRATIONS = ((schema.VERSION, tuple(sys.argv[3:])),)
open_store("sqlite://" + sys.argv[1]).create()
print("done")
"""


def _run(words: list[str]) -> subprocess.CompletedProcess:
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("statement", range(8))
def test_a_migration_killed_at_any_statement_leaves_the_old_version(old, statement):
    before = _shape(old)
    words = [sys.executable, "-c", KILLED, str(old), str(statement), *MIGRATION[1]]
    done = _run(words)
    if statement < 7:  # copy, begin, three statements, the version, commit
        assert (done.returncode, done.stdout) == (-9, "")
        assert _shape(old) == before
        assert _paused(old)
        done = _run([*words[:4], "99", *words[5:]])
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert _shape(old)[0] == NEXT
    copies = sorted(path.name for path in Path(old).parent.glob("state-schema*"))
    assert copies[0] in (f"{COPY}-2.db", f"{COPY}.db")
