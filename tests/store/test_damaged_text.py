"""Damage that SQLite itself does not see: names and texts that are no longer what they were."""

import gc
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tugtool.store import schema
from tugtool.store.sqlite import health


def _database(desk) -> Path:
    return desk.repo.path / ".tugtool" / "state.db"


def _change(desk, old: bytes, new: bytes) -> None:
    """Everywhere in the file, as a failing disk would in one place: nobody has written to it."""
    path = _database(desk)
    connection = sqlite3.connect(path)
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()
    (desk.repo.path / ".git" / "tugtool" / "mark").unlink()
    content = path.read_bytes()
    assert old in content
    assert len(old) == len(new)
    path.write_bytes(content.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        # The schema's text, in which SQLite's own message trips over the byte.
        (b"CREATE TABLE steps (", b"CREATE TABLE st\xe9ps (", "cannot be used"),
        # A row's text; it is met by whoever reads the row.
        (b"Part 1", b"P\xe9rt 1", "cannot be used"),
        # The title is no text any more, which shows only where it is printed.
        (b"\x19\x00\x08\x19", b"\x19\x00\x08\x18", "steps.title"),
        # A status that no item can have; SQLite does not look at that for whoever only reads.
        (b"of 1open", b"of 1oPen", "checklist_items has a row that breaks (status in ('open', "),
        # Another name is as good as any for SQLite.
        (b"  complete_reason text", b"  complete_reasom text", "has no column complete_reason"),
    ],
)
def test_a_text_that_was_damaged_is_an_error_with_the_way_back(desk, old, new, said):
    desk = desk("1 t", "2")
    desk.ok("claim", "work")
    _change(desk, old, new)
    refused = desk.json("show", "work")
    assert (refused.status, refused.codes) == (1, ["E046"]), refused.out
    issue = refused.envelope()["issues"][0]
    assert said in issue["message"]
    assert issue["hint"] == "tugcode restore --dry-run"
    assert desk.json("restore").status == 0
    assert desk.json("show", "work").status == 0


def test_a_refusal_that_quotes_what_is_no_text_any_more_names_the_damage(desk):
    desk = desk("1 t", "2")
    # The hash of the plan, as the head of its row has it: 64 letters; 64 bytes.
    _change(desk, b"=\x81\x0d\x15", b"=\x81\x0c\x15")
    refused = desk.json("claim", "work")
    assert (refused.status, refused.codes) == (1, ["E046"]), refused.out
    assert "non-TEXT value in plans.plan_hash" in refused.envelope()["issues"][0]["message"]


def test_a_fault_that_is_ours_is_not_put_on_a_sound_database(lab):
    lab = lab("1")
    with pytest.raises(ZeroDivisionError), lab.store.read():
        _ = 1 / 0


@pytest.mark.parametrize("ahead", [1, 1000])
def test_a_newer_database_is_not_replaced_by_its_older_backup(desk, ahead):
    desk = desk("1")
    connection = sqlite3.connect(_database(desk))
    connection.execute(f"pragma user_version = {schema.VERSION + ahead}")
    connection.close()
    before = os.stat(_database(desk)).st_ino
    for words in (["restore"], ["restore", "--dry-run"]):
        assert desk.json(*words).codes == ["E065"]
    assert os.stat(_database(desk)).st_ino == before


#: Another program, which keeps the database to itself until its standard input ends.
HOLDER = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("pragma locking_mode = exclusive")
held.execute("begin exclusive")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_database_that_another_program_holds_is_not_taken_for_a_broken_one(desk):
    desk = desk("1")
    desk.repo.write({".tugtool/config.toml": "[state]\nbusy_seconds = 1\n"})
    # Nothing of this process has it open any more.
    gc.collect()
    argv = [sys.executable, "-c", HOLDER, str(_database(desk))]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout.readline() == "held\n"
        assert desk.json("restore").codes == ["E047"]
        other.communicate()
    assert desk.json("restore").codes == ["E077"]


def test_every_check_of_the_tables_is_looked_at():
    rules = [rule for text in schema.TABLES for rule in health._rules(text)]
    assert len(rules) == sum(text.count("check (") for text in schema.TABLES)
    assert "(open_deps >= 0)" in rules
    assert all(rule.count("(") == rule.count(")") for rule in rules)
