"""What export writes, import reads back: all of it, or nothing."""

import io
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Repo
from state.test_events import HISTORIES, History, plans
from support.proving import examined, sampled
from support.racing import command
from support.state import KEY, Clock, Lab, entry, markdown
from support.state_replay import INVARIANTS
from tugtool import state
from tugtool.cli import state_records
from tugtool.errors import TugError
from tugtool.errors.state import BadImport
from tugtool.plan import parser
from tugtool.state import transfer
from tugtool.store import open_store, schema
from tugtool.store.postgres import PostgresStore
from tugtool.store.postgres import create as tables
from tugtool.store.sql import records as sql_records
from tugtool.store.sqlite import create
from tugtool.system import files

TABLES = [*sql_records.COLUMNS]


def add(lab: Lab, key: str, *lines: str) -> None:
    """One more plan in the same database."""
    text = markdown(*lines)
    state.init(lab.store, key, parser.parse(text), text=text, hash=lab.hash)


def exported(store, plan: str | None = None) -> list[dict]:
    return [json.loads(line) for line in state.export(store, plan)]


def body(store, plan: str | None = None) -> list[str]:
    """All lines but the header, which has the time."""
    return list(state.export(store, plan))[1:]


def take(store, lines: list, name: str = "x.jsonl") -> dict:
    parts = [line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines]
    return state.import_(store, io.BytesIO("".join(parts).encode()), name=name)


@pytest.fixture
def empty(tmp_path):
    """A database to import into, not made yet."""
    (tmp_path / "empty").mkdir()
    store = open_store(f"sqlite://{tmp_path / 'empty' / 'state.db'}", clock=Clock())
    yield store
    store.close()


@pytest.fixture
def full(lab):
    """A plan with a bit of everything."""
    lab = lab("1 tt", "1.1 tec", "2 t < 1", "3 t < 2 1.1")
    lab.claim("red", holder_pid=os.getpid(), request_id="r", lease_seconds=10)
    lab.update("step-1", entry("t0", "deferred", reason="später \x1b\u2028"))
    lab.artifact("step-1", kind="reviewer_verdict", summary="fine", content="long\n\0")
    lab.close("step-1-1")
    lab.clock.advance(60)
    lab.claim("blue", step="step-1")
    lab.close("step-1", "blue")
    lab.complete("step-1", "blue")
    lab.reject("step-1", "t0")
    lab.claim("blue")
    return lab


# -- export ----------------------------------------------------------------------------


def test_an_export_has_a_header_every_row_and_a_count(full):
    lines = exported(full.store)
    assert lines[0] == {
        "format": "tugtool-state",
        "format_version": 1,
        "schema_version": schema.VERSION,
        "tugtool_version": "0.2.0",
        "exported_at": "2026-02-23T12:01:00.000Z",
    }
    assert lines[-1] == {"end": True, "rows": len(lines) - 2}
    for table in TABLES:
        rows = [line["row"] for line in lines[1:-1] if line["table"] == table]
        recorded = full.rows(f"select * from {table}")
        assert sorted(map(str, rows)) == sorted(map(str, recorded)), table


def test_every_table_and_column_is_exported_but_the_cache_and_what_is_local():
    connection = sqlite3.connect(":memory:")
    for statement in schema.TABLES:
        connection.execute(statement.format(**create.DIALECT))
    tables = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
    names = {name for (name,) in tables if not name.startswith("sqlite_")}
    assert names - set(TABLES) - set(sql_records.DASH_COLUMNS) == {
        *("plan_copies", "machines", "epoch", "requests"),
        *sql_records.LOCAL_TABLES,
    }
    kinds = {"TEXT": "text", "INTEGER": "int", "REAL": "real"}
    for table, columns in (sql_records.COLUMNS | sql_records.DASH_COLUMNS).items():
        facts = connection.execute(f"pragma table_info({table})").fetchall()
        found = {row[1]: (kinds[row[2]], not (row[3] or row[5])) for row in facts}
        assert columns == found, table
    connection.close()


def test_rows_come_in_an_order_in_which_they_can_be_taken(full):
    lines = exported(full.store)[1:-1]
    assert [*dict.fromkeys(line["table"] for line in lines)] == [
        table for table in TABLES if table != "plan_revisions"
    ]
    steps = [line["row"]["parent_anchor"] for line in lines if line["table"] == "steps"]
    assert steps == [None, None, None, "step-1"]


def test_events_of_several_plans_keep_the_order_in_which_they_happened(lab):
    lab = lab("1 t")
    add(lab, "b.md", "1 t")
    lab.claim()
    state.pause(lab.store, "b.md")
    lab.tick("step-1", "t0")
    events = [line["row"] for line in exported(lab.store) if line.get("table") == "events"]
    assert [event["seq"] for event in events] == [1, 2, 3, 4, 5]
    assert len({event["plan_path"] for event in events}) == 2


def test_one_plan_alone_can_be_exported(lab):
    lab = lab("1 t")
    add(lab, "b.md", "1 t", "2 t")
    rows = [line["row"] for line in exported(lab.store, "b.md")[1:-1]]
    assert {row["plan_path"] for row in rows} == {"b.md"}
    with pytest.raises(TugError) as caught:
        exported(lab.store, "c.md")
    assert caught.value.code == "E063"


@pytest.mark.unserved("its answer comes as a whole")
def test_an_export_is_of_one_moment(full):
    lines = state.export(full.store)
    first = [next(lines)]
    other = open_store(full.url)
    state.pause(other, KEY)
    other.close()
    told = [json.loads(line) for line in [*first, *lines]]
    kinds = [line["row"]["kind"] for line in told if line.get("table") == "events"]
    assert "pause" not in kinds
    assert "pause" in str(exported(full.store))


@pytest.mark.unserved("its answer comes as a whole")
def test_an_export_is_pure_ascii_and_made_row_by_row(full):
    lines = state.export(full.store)
    assert iter(lines) is lines
    assert all(line.isascii() and line.count("\n") == 1 for line in lines)


# -- the way there and back ------------------------------------------------------------


def test_what_is_taken_is_what_was_there(full, empty):
    lines = list(state.export(full.store))
    answer = take(empty, lines)
    assert (answer["plans"], answer["renumbered"], answer["recounted"]) == ([KEY], False, [])
    assert answer["rows"] == len(lines) - 2 == sum(answer["tables"].values())
    assert body(empty) == body(full.store)


def test_attempts_that_only_git_knew_of_are_no_fault(lab, empty):
    lab = lab("1 t", "2", "3 < 2")
    lab.claim("red", step="step-1")
    lab.reconcile("step-2", attempt=7)
    take(empty, list(state.export(lab.store)))
    assert body(empty) == body(lab.store)


def test_work_goes_on_where_it_was(full, empty):
    take(empty, list(state.export(full.store)))
    full.store, there = empty, full.store
    full.close("step-1", "blue")
    assert full.complete("step-1", "blue")["remaining_steps"] == 2
    assert full.claim("red")["anchor"] == "step-2"
    full.store = there


@examined(short=40)
@given(plans(), HISTORIES)
def test_every_history_survives_the_way_there_and_back(lines, operations):
    with tempfile.TemporaryDirectory() as directory:
        lab = Lab(Path(directory), *lines, max_attempts=3)
        history = History(lab)
        for operation in operations:
            history.act(*operation)
        text = body(lab.store)
        (Path(directory) / "there").mkdir()
        there = open_store(f"sqlite://{directory}/there/state.db", clock=lab.clock)
        answer = take(there, list(state.export(lab.store)))
        assert (answer["renumbered"], answer["recounted"]) == (False, [])
        assert body(there) == text
        lab.store.close()
        lab.store = there
        for invariant in INVARIANTS:
            invariant(lab)
        there.close()


@pytest.mark.unserved("it never imports")
def test_rows_are_numbered_anew_where_their_numbers_are_taken(full, tmp_path):
    (tmp_path / "there").mkdir()
    there = Lab(tmp_path / "there", "1 t", "2 t")
    there.claim()
    there.artifact("step-1")
    before = there.dump()
    lines = exported(full.store)
    for line in lines[1:-1]:
        line["row"]["plan_path"] = "other.md"
    answer = take(there.store, lines)
    assert answer["renumbered"] is True
    now = exported(there.store, "other.md")
    for table in ("checklist_items", "step_artifacts", "events"):
        number = sql_records.NUMBERED[table]
        was, is_ = ([x["row"] for x in s if x.get("table") == table] for s in (lines, now))
        first = max(row[number] for row in before[table]) + 1
        assert [row[number] for row in is_] == list(range(first, first + len(was)))
        told = {number, "detail"}
        strip = [[{k: v for k, v in r.items() if k not in told} for r in s] for s in (was, is_)]
        assert strip[0] == strip[1]
    assert {
        table: there.rows(f"select * from {table} where plan_path = '{KEY}'") for table in before
    } == before
    _artifacts_are_the_ones_that_events_tell_of(now)
    there.store.close()


def _artifacts_are_the_ones_that_events_tell_of(lines: list[dict]) -> None:
    artifacts = {x["row"]["id"]: x["row"] for x in lines if x.get("table") == "step_artifacts"}
    events = [x["row"] for x in lines if x.get("table") == "events"]
    told = {
        json.loads(e["detail"])["artifact_id"]: e for e in events if "artifact_id" in e["detail"]
    }
    assert set(told) == set(artifacts)
    for number, event in told.items():
        assert artifacts[number]["recorded_at"] == event["at"]


@pytest.mark.unserved("it never imports")
def test_a_number_of_an_artifact_that_is_not_in_the_file_is_left_as_it_is(full, tmp_path):
    (tmp_path / "there").mkdir()
    there = Lab(tmp_path / "there", "1 t")
    lines = exported(full.store)
    lines = [line for line in lines if line.get("table") != "step_artifacts"]
    lines[-1]["rows"] = len(lines) - 2
    for line in lines[1:-1]:
        line["row"]["plan_path"] = "other.md"
    assert take(there.store, lines)["renumbered"] is True
    assert '"artifact_id": 1' in str(exported(there.store, "other.md"))
    there.store.close()


def test_a_plan_that_is_here_already_is_refused_and_none_of_the_others_taken(full, empty):
    add(full, "b.md", "1 t")
    add(full, "c.md", "1 t")
    take(empty, list(state.export(full.store, "b.md")))
    before = body(empty)
    with pytest.raises(TugError, match=r"already: b\.md") as caught:
        take(empty, list(state.export(full.store)))
    assert caught.value.code == "E064"
    assert body(empty) == before


def test_a_state_without_plans_is_an_export_too(full, empty):
    lines = exported(full.store)
    answer = take(empty, [lines[0], {"end": True, "rows": 0}])
    assert (answer["plans"], answer["rows"]) == ([], 0)


def test_counts_that_do_not_fit_are_put_right(full, empty):
    lines = exported(full.store)
    for line in lines[1:-1]:
        if line["table"] == "plan_counts":
            line["row"] |= {"steps_done": 2, "steps_ready": 7}
        if line["table"] == "steps":
            line["row"]["open_deps"] = 5
        if line["table"] == "plans":
            line["row"]["status"] = "done"
    assert take(empty, lines)["recounted"] == [KEY]
    assert [line for line in body(empty) if '"table": "plans"' not in line] == [
        line for line in body(full.store) if '"table": "plans"' not in line
    ]
    assert exported(empty)[1]["row"]["status"] == "active"


# -- what is refused -------------------------------------------------------------------


def refused(empty, lines: list, *words: str, line: int | None) -> None:
    """Nothing is taken, and the line is named."""
    with pytest.raises(BadImport) as caught:
        take(empty, lines)
    error = caught.value
    assert error.facts.get("line") == line, error.message
    for word in (*words, "nothing was imported"):
        assert word in error.message
    assert not empty.exists() or body(empty) == ['{"end": true, "rows": 0}\n']


def at(lines: list[dict], table: str, nth: int = 0) -> int:
    return [n for n, line in enumerate(lines) if line.get("table") == table][nth]


@pytest.mark.parametrize(
    ("change", "words", "line"),
    [
        ({"format": "other"}, "is not the first line of an export", 1),
        ({"format_version": 2}, "format version 2; this Tugtool knows 1", 1),
        ({"format_version": True}, "format version True", 1),
        ({"schema_version": 9}, "schema version 9, which never existed", 1),
        ({"schema_version": "11"}, "schema version '11'", 1),
    ],
)
def test_a_header_that_is_not_ours(full, empty, change, words, line):
    lines = exported(full.store)
    refused(empty, [lines[0] | change, *lines[1:]], words, line=line)


def test_an_export_of_a_newer_version(full, empty):
    lines = exported(full.store)
    with pytest.raises(TugError, match="made by a newer Tugtool") as caught:
        take(empty, [lines[0] | {"schema_version": schema.VERSION + 1}, *lines[1:]])
    assert caught.value.code == "E065"
    assert not empty.exists()


def test_an_export_of_the_first_version_is_taken(full, empty):
    lines = exported(full.store)
    take(empty, [lines[0] | {"schema_version": 10}, *lines[1:]])
    assert body(empty) == body(full.store)


def test_a_file_that_is_cut_off_anywhere(full, empty):
    lines = list(state.export(full.store))
    for end in range(len(lines)):
        refused(empty, lines[:end], "is cut off", line=end + 1)
    refused(empty, [*lines[:3], lines[3][:-9]], "is not JSON", line=4)


def test_a_file_that_misses_a_line_or_has_one_twice(full, empty):
    lines = list(state.export(full.store))
    last = len(lines)
    refused(empty, lines[:-2] + lines[-1:], f"ends after {last - 3} rows", line=last - 1)
    twice = [*lines[:2], *lines[1:-1], {"end": True, "rows": last - 1}]
    refused(empty, twice, "has a row of plans that cannot be", line=3)
    refused(empty, [*lines[:-1], lines[-2], lines[-1]], "does not grow", line=last)
    refused(empty, [*lines, *lines], "goes on after its end", line=last + 1)
    refused(empty, [lines[0], *lines], "is neither a row nor the end", line=2)
    refused(empty, [*lines[:2], "\n", *lines[2:]], "is not JSON", line=3)
    refused(empty, [*lines[:-1], {"end": True}], "and says None", line=last)
    refused(empty, [*lines[:-1], {"end": True, "rows": last - 2, "x": 1}], "ends", line=last)


ROWS = [
    ("plans", {"plan_path": "../x.md"}, "outside the repository"),
    ("plans", {"plan_path": "/x.md"}, "outside the repository"),
    ("plans", {"plan_path": "a/../../x.md"}, "outside the repository"),
    ("plans", {"plan_path": ".."}, "outside the repository"),
    ("plans", {"plan_path": "."}, "outside the repository"),
    ("plans", {"plan_path": ""}, "outside the repository"),
    ("plans", {"plan_path": "a\0b"}, "outside the repository"),
    ("plans", {"plan_path": "a//b"}, "outside the repository"),
    ("plans", {"plan_path": 7}, "plan_path that is not of type text: 7"),
    ("plans", {"plan_text": None}, "plan_text that is not of type text: None"),
    ("plans", {"plan_text": "\ud800"}, "plan_text that is not of type text"),
    ("plans", {"status": "lost"}, "row of plans that cannot be"),
    ("plans", {"created_at": "today"}, "row of plans that cannot be"),
    ("steps", {"plan_path": "b.md"}, "belongs to a plan that is not in the file: 'b.md'"),
    ("steps", {"step_index": "1"}, "step_index that is not of type int: '1'"),
    ("steps", {"step_index": True}, "step_index that is not of type int: True"),
    ("steps", {"step_index": 1.5}, "step_index that is not of type int: 1.5"),
    ("steps", {"step_index": 1 << 63}, "step_index that is not of type int"),
    ("steps", {"step_index": None}, "step_index that is not of type int: None"),
    ("steps", {"parent_anchor": "nowhere"}, "row of steps that cannot be"),
    ("steps", {"status": "completed"}, "row of steps that cannot be"),
    ("steps", {"surprise": 1}, "too many or too few columns of steps: surprise"),
    ("steps", {"title": ...}, "too many or too few columns of steps: title"),
    ("step_deps", {"depends_on": "nowhere"}, "row of step_deps that cannot be"),
    ("checklist_items", {"id": 0}, "id that does not grow: 0"),
    ("checklist_items", {"id": -5}, "id that does not grow: -5"),
    ("checklist_items", {"kind": "wish"}, "row of checklist_items that cannot be"),
    ("attempts", {"lease_seconds": 0}, "row of attempts that cannot be"),
    ("attempts", {"lease_seconds": "1"}, "lease_seconds that is not of type real: '1'"),
    ("events", {"detail": "[]"}, "detail that is not a JSON object"),
    ("events", {"detail": "{"}, "detail that is not a JSON object"),
    ("events", {"detail": "[" * 100_000}, "detail that is not a JSON object"),
]


@pytest.mark.parametrize(("table", "change", "words"), ROWS, ids=str)
def test_a_row_that_cannot_be(full, empty, table, change, words):
    lines = exported(full.store)
    place = at(lines, table)
    row = lines[place]["row"]
    row |= change
    lines[place]["row"] = {key: value for key, value in row.items() if value is not ...}
    refused(empty, lines, words, line=place + 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]\n", "is not a JSON object"),
        ("null\n", "is not a JSON object"),
        ('{"table": "plans"}\n', "is neither a row nor the end"),
        ('{"table": "plans", "row": []}\n', "is neither a row nor the end"),
        ('{"table": "plan_copies", "row": {}}\n', "a table that does not exist: 'plan_copies'"),
        ('{"table": ["plans"], "row": {}}\n', "a table that does not exist"),
        ('{"table": "plans; drop table x", "row": {}}\n', "a table that does not exist"),
        ('{"table": "plans", "row": {"a": 1, "a": 2}}\n', "a key stands twice"),
        ('{"table": "plans", "row": {"a": NaN}}\n', "NaN is not a number"),
        ('{"a": 1' + "0" * 5000 + "}\n", "is not JSON"),
        ("[" * 100_000 + "\n", "is not JSON"),
        ("\x00\n", "is not JSON"),
    ],
    ids=lambda text: text[:30],
)
def test_a_line_that_is_no_row(full, empty, text, words):
    lines = list(state.export(full.store))
    refused(empty, [lines[0], text, *lines[1:]], words, line=2)


@pytest.mark.unserved("it never imports")
def test_bytes_that_are_no_text_and_lines_without_an_end(full, empty, monkeypatch):
    head = next(state.export(full.store)).encode()
    for data, words in ((b"\xff\n", "is not JSON: 'utf-8' codec"), (b"1e999", "no JSON object")):
        with pytest.raises(BadImport) as caught:
            state.import_(empty, io.BytesIO(head + data))
        assert caught.value.facts["line"] == 2
        assert words.split()[-1] in caught.value.message
    monkeypatch.setattr(transfer, "LONGEST_LINE", 200)
    with pytest.raises(BadImport, match="a line of over 200 bytes"):
        state.import_(empty, io.BytesIO(head + b" " * 300))


def _edit(lines: list[dict], table: str, nth: int, **change: object) -> None:
    lines[at(lines, table, nth)]["row"].update(change)


def test_rows_that_do_not_fit_each_other(full, empty):
    held = {key: full.row("step-1")[key] for key in ("claimed_at", "heartbeat_at")}
    held |= {"claimed_by": "x", "lease_expires_at": held["claimed_at"], "status": "claimed"}
    cases = [
        (("steps", 3, {"parent_anchor": "step-1-1"}), "is a substep of a substep"),
        (("steps", 3, {"claimed_by": "x"}), "step-1-1 is not held as its step is"),
        (("steps", 1, held), "step-2 and its attempts do not fit"),
        (("steps", 0, {"attempt": 9}), "step-1 and its attempts do not fit"),
        (("attempts", 2, {"worktree": "x"}), "step-1 and its attempts do not fit"),
        (("attempts", 2, {"number": 4}), "step-1 and its attempts do not fit"),
        (("attempts", 0, {"ended_at": None, "outcome": None}), "step-1 and its attempts do not"),
        (("steps", 1, {"parked_at": held["claimed_at"]}), "step-2 is parked without an attempt"),
    ]
    for (table, nth, change), words in cases:
        lines = exported(full.store)
        _edit(lines, table, nth, **change)
        refused(empty, lines, words, line=None)
    lines = exported(full.store)
    del lines[at(lines, "plan_counts")]
    lines[-1]["rows"] -= 1
    refused(empty, lines, "has no row of plan_counts", line=None)


def test_a_database_in_trouble_is_not_taken_for_a_bad_file(full, empty, tmp_path):
    empty.create()
    connection = sqlite3.connect(tmp_path / "empty" / "state.db")
    connection.execute("drop table events")
    connection.close()
    with pytest.raises(TugError) as caught:
        take(empty, list(state.export(full.store)))
    assert caught.value.code == "E047"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


@examined(short=120)
@given(st.data())
def test_whatever_is_done_to_a_file_it_is_taken_whole_or_refused(data):
    """One value, line or byte anywhere is something else."""
    with tempfile.TemporaryDirectory() as directory:
        lab = Lab(Path(directory), "1 t", "1.1 t", "2 t < 1")
        lab.claim()
        lab.artifact("step-1")
        lines = exported(lab.store)
        lab.store.close()
        place = data.draw(st.integers(0, len(lines) - 1))
        how = data.draw(st.sampled_from(("value", "line", "byte", "drop", "swap")))
        if how == "value":
            home = lines[place].get("row", lines[place])
            home[data.draw(st.sampled_from(sorted(home)))] = data.draw(JSON)
        elif how == "line":
            lines[place] = data.draw(JSON)
        elif how == "drop":
            del lines[place]
        elif how == "swap":
            lines.insert(data.draw(st.integers(0, len(lines) - 1)), lines.pop(place))
        text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        if how == "byte":
            spot = data.draw(st.integers(0, len(text) - 1))
            text = text[:spot] + data.draw(st.binary(max_size=3)) + text[spot + 1 :]
        (Path(directory) / "there").mkdir()
        there = open_store(f"sqlite://{directory}/there/state.db", clock=lab.clock)
        code = None
        try:
            state.import_(there, io.BytesIO(text))
        except TugError as error:
            code = error.code
        if code is not None:
            assert code in ("E065", "E069")
            assert not there.exists() or body(there) == ['{"end": true, "rows": 0}\n']
        else:
            with there.read() as tx:
                assert tx.all("pragma foreign_key_check") == []
            state.review(there)
            state.show(there)
        there.close()


# -- the commands ----------------------------------------------------------------------


@pytest.fixture
def other(tmp_path) -> Repo:
    """Another repository, without a state."""
    return Repo.init(tmp_path / "other")


def test_the_lines_are_the_same_with_json_and_without(desk, capsys):
    from tugtool.cli.main import main

    desk = desk("1 t")
    plain = desk.text("export").out.splitlines()
    assert main(["-C", str(desk.red), "state", "export", "--json", "work"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == plain[1:]
    assert json.loads(plain[-1]) == {"end": True, "rows": len(plain) - 2}


def test_many_lines_leave_in_few_pieces():
    lines = [f"{n}\n" for n in range(100_000)]
    pieces = list(state_records._together(iter(lines)))
    assert "".join(pieces) == "".join(lines)
    assert 5 < len(pieces) < 20


def _share(desk, other) -> None:
    """Have another repository's state in the same database, if that is a server."""
    if desk.repository:
        name = "example.invalid/team/other"
        other.git("remote", "add", "origin", f"https://{name}")
        store = PostgresStore(desk.url, repository=name)
        store.ask(f"drop schema if exists {store.address.quoted_schema()} cascade".encode())
        tables.make(store)
        store.close()


@pytest.mark.unserved("it never imports")
def test_a_file_is_written_and_never_over_another(desk, other, tugcode):
    desk = desk("1 t")
    _share(desk, other)
    path = other.path / "state.jsonl"
    answer = desk.ok("export", "--output", path)
    rows = len(path.read_text().splitlines()) - 2
    assert answer == {"exported_to": str(path), "rows": rows, "transcripts": 0}
    before = path.read_bytes()
    for words in (("--output", path), ("--output", other.path), ("--output=",)):
        refused = desk.json("export", *words)
        assert (refused.status, refused.codes) == (1, ["E074"])
        assert "is there already" in refused.out
    assert path.read_bytes() == before
    done = tugcode("-C", other.path, "state", "import", "state.jsonl")
    assert (done.status, done.out) == (0, f"imported {KEY}\n")
    again = tugcode("-C", other.path, "state", "export").out.splitlines()
    assert again[1:] == before.decode().splitlines()[1:]
    assert other.git("status", "--porcelain", "--untracked-files=all") == "?? state.jsonl\n"
    # Nothing of the copy that was checked is left, only what every state keeps there.
    kept = os.listdir(other.path / ".git" / "tugtool")
    assert kept == ["shared-record"] if desk.repository else "mark" in kept
    assert not [n for n in os.listdir(other.path / ".git" / "tugtool") if n.startswith(".")]


@pytest.mark.unserved("it never imports")
def test_a_step_that_is_held_is_named_by_the_export_and_by_the_import(desk, other, tugcode):
    desk = desk("1 t", "2 t")
    _share(desk, other)
    end = desk.ok("claim", "work")["lease_expires_at"]
    held = f"step-1 of {KEY} by {desk.red} until {end}"
    done = desk.json("export", "--output", other.path / "x")
    assert (done.status, done.codes) == (0, ["W107"])
    assert f"These steps are held: {held}. What their workers do from now on is not" in done.out
    streamed = desk.text("export", "work")
    assert streamed.out.splitlines()[1:] == (other.path / "x").read_text().splitlines()[1:]
    assert f"W107: These steps are held: {held}" in streamed.err
    done = tugcode("-C", other.path, "state", "import", "x", "--json")
    assert (done.status, done.codes) == (0, ["W107"])
    assert f"the state that the export is from, and in this one: {held}. A worker" in done.out
    # Nobody here gets the step while its lease runs.
    claim = tugcode("-C", other.path, "state", "claim", "work", "--step", "step-1", "--json")
    assert claim.codes != []
    desk.ok("release", "work", "step-1")
    assert desk.json("export", "--output", other.path / "y").codes == []


@pytest.mark.unserved("it never imports")
def test_what_is_piped_in_is_taken_too(desk, other, tugcode):
    desk = desk("1 t")
    _share(desk, other)
    desk.feed(desk.text("export").out.encode())
    done = tugcode("-C", other.path, "state", "import", "--json")
    assert done.data["plans"] == [KEY]
    desk.feed(b"hello\n")
    refused = tugcode("-C", other.path, "state", "import", "--json")
    assert refused.codes == ["E069"]
    assert "standard input:1 is not JSON" in refused.out


def test_there_must_be_something_to_import(repo, tugcode, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert tugcode("-C", repo.path, "state", "import").status == 2
    os.mkfifo(repo.path / "fifo")
    for name in ("gone", ".", "fifo"):
        refused = tugcode("-C", repo.path, "state", "import", name, "--json")
        assert (refused.status, refused.codes) == (1, ["E072"])


def test_there_must_be_something_to_export(desk):
    desk = desk("1 t", init=False)
    if not desk.repository:
        # Tables without a plan are exported as what they are.
        assert desk.json("export", "--output", "x").codes == ["E063"]
    assert desk.json("export", "work", "--output", "x").codes == ["E063"]
    assert not (desk.red / "x").exists()
    desk.ok("init", "work")
    assert desk.json("export", "nowhere", "--output", "x").codes == ["E041"]


def test_a_file_that_cannot_be_kept_or_read_is_refused(tmp_path):
    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(TugError, match="pipe cannot be copied: input/output error"):
        files.spooled(Broken(), str(tmp_path), name="pipe")
    (tmp_path / "file").touch()
    with pytest.raises(TugError) as caught:
        files.spooled(io.BytesIO(), str(tmp_path / "file" / "x"), name="pipe")
    assert caught.value.code == "E074"
    with pytest.raises(TugError):
        files.sync_directory(str(tmp_path / "gone"))
    assert os.listdir(tmp_path) == ["file"]


# -- several at once, and sudden ends --------------------------------------------------


@pytest.mark.unserved("it never imports")
def test_two_imports_at_once_give_one_state(desk, other):
    desk = desk("1 t", "2 t")
    _share(desk, other)
    desk.ok("export", "--output", other.path / "x")
    racers = [command(other.path, "state", "import", "x") for _ in range(4)]
    answers = [json.loads(racer.communicate()[0]) for racer in racers]
    assert sorted(answer["status"] for answer in answers) == ["error"] * 3 + ["ok"]
    codes = {issue["code"] for answer in answers for issue in answer["issues"]}
    assert codes == {"E064"}, json.dumps(answers)
    done = command(other.path, "state", "export", "--output", "y")
    done.communicate()
    lines = [(other.path / name).read_text().splitlines()[1:] for name in "xy"]
    assert lines[0] == lines[1]


KILLED = """
import os, signal, sqlite3, sys
from tugtool.cli import main
from tugtool.store.sqlite import file

word, left = sys.argv[1], int(sys.argv[2])

def count(text):
    global left
    left -= text.startswith(word)
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

class Killed(sqlite3.Connection):
    def execute(self, text, *values):
        count(text)
        return super().execute(text, *values)

file.connect = lambda *words, **options: sqlite3.connect(*words, factory=Killed, **options)
link, fsync = os.link, os.fsync
os.link = lambda *names: (count("link"), link(*names))[1]
sys.exit(main.main(sys.argv[3:]))
"""


def killed(cwd: Path, word: str, left: int, *words: str) -> int:
    """The exit status of a command that dies when it does `word` once more than so often."""
    argv = [sys.executable, "-c", KILLED, word, str(left), "-C", str(cwd), *words]
    return subprocess.run(argv, capture_output=True, check=False).returncode


@pytest.mark.proof(share=0)
@pytest.mark.file
@pytest.mark.parametrize("inserts", sampled([3, 8], 1))
def test_an_import_killed_at_any_row_leaves_nothing(desk, other, inserts):
    desk = desk("1 t", "2 t < 1")
    desk.ok("export", "--output", other.path / "x")
    for word, times in (("insert", inserts), ("commit", 1)):
        for left in range(times):
            assert killed(other.path, word, left, "state", "import", "x") == -9
            done = command(other.path, "state", "export", "--output", f"{word}{left}")
            done.communicate()
            if done.returncode == 0:
                rows = (other.path / f"{word}{left}").read_text().splitlines()[1:]
                assert rows == ['{"end": true, "rows": 0}']
    assert killed(other.path, "insert", 999, "state", "import", "x") == 0


@pytest.mark.file
def test_an_export_killed_before_it_is_whole_leaves_no_file(desk):
    desk = desk("1 t")
    for word in ("select id", "select seq", "link"):
        words = ("state", "export", "--output", "x")
        assert killed(desk.repo.path, word, 0, *words) == -9
        assert not (desk.repo.path / "x").exists()
    assert killed(desk.repo.path, "link", 9, "state", "export", "--output", "x") == 0
