"""A database that is gone, damaged, foreign, old, locked or wrong: doctor names it."""

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from support.proving import sampled
from support.state import KEY
from tugtool.store import schema
from tugtool.workflow.doctor import machine


def unreadable(c, *words: str) -> dict:
    """The one error of the check `database`; the checks that need one are skipped."""
    data = c.doctor(*words).data
    statuses = {check["name"]: check["status"] for check in data["checks"]}
    assert statuses["database"] == "error"
    assert statuses["counts"] == statuses["worktrees"] == "skipped"
    reasons = {check["reason"] for check in data["checks"] if check["status"] == "skipped"}
    assert reasons == {"the database cannot be read"}
    (finding,) = c.only("database")
    assert not finding["fixable"]
    return finding


def test_a_database_that_is_gone_is_named_with_the_way_back(clinic):
    c = clinic()
    for path in c.db.parent.glob("state.db*"):
        path.unlink()
    finding = unreadable(c)
    assert "state.db is gone; a backup is there" in finding["message"]
    assert finding["hint"] == "tugcode restore"
    assert unreadable(c, "--fix")
    assert not c.db.exists()


def test_an_empty_file_in_its_place_is_named(clinic):
    c = clinic()
    c.rest()
    c.db.write_bytes(b"")
    assert "state.db is empty; a backup is there" in unreadable(c)["message"]


def test_a_log_without_its_database_is_named(repo, clinic):
    repo.live()
    c = clinic()
    for path in c.copies.glob("*"):
        path.unlink()
    assert (c.db.parent / "state.db-wal").stat().st_size > 0
    c.db.unlink()
    finding = unreadable(c)
    assert "is gone or empty, but its log is there" in finding["message"]


@pytest.mark.parametrize("content", [b"garbage " * 1000, b"SQLite format 3\0" + b"\xff" * 8000])
def test_garbage_in_its_place_is_named(clinic, content):
    c = clinic()
    c.rest()
    c.db.write_bytes(content)
    finding = unreadable(c)
    assert str(c.db) in finding["message"]
    assert finding["hint"] == "tugcode restore --dry-run"
    assert c.db.read_bytes() == content


@pytest.mark.parametrize("kept", [0.02, 0.5, 0.9])
def test_a_file_that_was_cut_off_is_named(clinic, kept):
    c = clinic()
    c.rest()
    whole = c.db.read_bytes()
    c.db.write_bytes(whole[: int(len(whole) * kept)])
    found = c.findings()
    assert set(found) & {"database", "integrity"}, found
    assert c.doctor().status == 1


def test_something_else_than_a_file_in_its_place_is_named(clinic):
    c = clinic()
    c.rest()
    c.db.unlink()
    c.db.mkdir()
    assert str(c.db) in unreadable(c)["message"]


def test_a_log_whose_shared_memory_is_gone_is_read_with_it(repo, clinic):
    repo.live()
    c = clinic()
    c.sql("update plan_counts set steps_ready = 9")
    gone = c.db.parent / "state.db-shm"
    gone.unlink()
    assert (c.db.parent / "state.db-wal").stat().st_size > 0
    assert "steps_ready is 9" in c.one("counts")["message"]
    assert not gone.exists()


def test_another_program_s_database_is_named(clinic):
    c = clinic()
    c.rest()
    c.db.unlink()
    c.sql("create table plans (x)")
    assert "is not a database of Tugtool's" in unreadable(c)["message"]


def test_a_newer_database_is_named_and_left_alone(clinic):
    c = clinic()
    c.sql(f"pragma user_version = {schema.VERSION + 1}")
    c.rest()
    before = c.db.read_bytes()
    assert "newer" in unreadable(c, "--fix")["message"]
    assert c.db.read_bytes() == before


def test_an_older_database_is_named_and_fix_migrates_it(clinic):
    c = clinic()
    c.rest()
    for path in (c.db, *c.copies.glob("*")):
        path.unlink()
    text = (Path(__file__).parents[1] / "store" / "schema-10.sql").read_text()
    connection = sqlite3.connect(c.db)
    connection.executescript(text)
    connection.execute("pragma journal_mode = wal")
    connection.close()
    before = c.db.read_bytes()
    finding = c.findings()["database"][0]
    assert "has the older schema 10; the next command that writes migrates it" in finding["message"]
    assert finding["severity"] == "warning"
    assert c.db.read_bytes() == before
    (mended,) = c.findings("--fix")["database"]
    assert mended["fixed"]
    assert "a copy from before is in" in mended["outcome"]
    assert (c.copies / "state-schema-10.db").exists()
    assert "database" not in c.findings()
    # In the same run, what needs a database has been looked at.
    assert c.status("counts") != "skipped"


def test_an_older_copy_of_itself_is_named(clinic):
    c = clinic()
    c.rest()
    old = c.db.read_bytes()
    c.ok("state", "claim", "work", at=c.tree)
    c.rest()
    c.db.write_bytes(old)
    finding = unreadable(c)
    assert "is an older copy of itself" in finding["message"]
    assert "restore" in finding["hint"]
    assert "tugcode-doctor-" not in finding["message"] + finding["hint"]


def test_who_holds_the_lock_is_named_also_if_it_is_stopped(clinic):
    c = clinic()
    lock = c.db.parent / "state.lock"
    code = (
        "import fcntl, os, sys, time\n"
        "f = open(sys.argv[1], 'r+')\n"
        "fcntl.flock(f, fcntl.LOCK_EX)\n"
        "os.pwrite(f.fileno(), b'%-24d' % os.getpid(), 0)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    held = subprocess.Popen(
        [sys.executable, "-c", code, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert held.stdout.readline() == "held\n"
        os.kill(held.pid, signal.SIGSTOP)
        os.waitpid(held.pid, os.WUNTRACED)
        finding = c.one("lock")
        assert f"process {held.pid}, which is stopped" in finding["message"]
        assert finding["hint"] == f"ps -p {held.pid} -o pid,stat,command"
    finally:
        held.kill()
        held.communicate()
    assert c.findings() == {}


def test_looking_keeps_nobody_from_the_lock(clinic):
    c = clinic()
    assert c.findings() == {}
    with open(c.db.parent / "state.lock", "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_lock_that_many_take_in_turn_is_no_finding(clinic):
    c = clinic()
    code = (
        "import fcntl, os, sys\n"
        "f = open(sys.argv[1], 'r+')\n"
        "fcntl.flock(f, fcntl.LOCK_EX)\n"
        "number = 0\n"
        "print('held', flush=True)\n"
        "while os.getppid() == int(sys.argv[2]):\n"
        "    os.pwrite(f.fileno(), b'%-24d' % (number := number + 1), 0)\n"
    )
    words = [sys.executable, "-c", code, str(c.db.parent / "state.lock"), str(os.getpid())]
    held = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert held.stdout.readline() == "held\n"
        assert c.findings() == {}
    finally:
        held.kill()
        held.communicate()


def test_a_lock_that_says_nothing_of_its_holder_is_named_too(clinic):
    c = clinic()
    with open(c.db.parent / "state.lock", "r+") as file:
        file.truncate(0)
        fcntl.flock(file, fcntl.LOCK_EX)
        finding = c.one("lock")
    assert "is locked by another process" in finding["message"]
    assert finding["hint"] == "ps -e"


def test_a_database_that_another_program_keeps_to_itself_is_named(clinic):
    c = clinic()
    c.rest()
    code = (
        "import sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('pragma locking_mode = exclusive')\n"
        "c.execute('begin exclusive')\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    held = subprocess.Popen(
        [sys.executable, "-c", code, str(c.db)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert held.stdout.readline() == "held\n"
        assert c.doctor("--fix").status == 1
        assert "is locked by" in c.findings("--fix")["database"][0]["message"]
    finally:
        held.communicate()


def corrupted(c) -> None:
    """One byte of a row is another than its index says."""
    c.rest()
    data = bytearray(c.db.read_bytes())
    # The anchor of step 2 in the table of steps: after the plan's key, and before its title.
    at = data.index(b"step-2", data.index(b"Part 2") - 60)
    data[at + 5 : at + 6] = b"9"
    c.db.write_bytes(bytes(data))
    for path in (c.copies / "mark",):
        path.unlink()


def test_a_row_that_its_index_does_not_find_is_named(clinic):
    c = clinic()
    corrupted(c)
    found = c.findings()
    assert "integrity" in found
    assert found["integrity"][0]["severity"] == "error"
    assert "is damaged: " in found["integrity"][0]["message"]
    assert found["integrity"][0]["hint"] == "tugcode restore --dry-run"


def test_rows_that_refer_to_nothing_are_named(clinic):
    c = clinic()
    row = f"values ('{KEY}', 'step-77', 'step-88')"
    c.sql(f"insert into step_deps (plan_path, step_anchor, depends_on) {row}")
    found = c.only("references")
    assert "has 2 rows of step_deps without the row of steps" in found[0]["message"]


# -- what is kept twice ----------------------------------------------------------------

WRONG = {
    "steps_ready": "update plan_counts set steps_ready = 9",
    "steps_done": "update plan_counts set steps_done = 2",
    "steps_total": "update plan_counts set steps_total = 7",
    "step-2 waits for 5 steps": "update steps set open_deps = 5 where anchor = 'step-2'",
    "step-2 waits for 0 steps": "update steps set open_deps = 0 where anchor = 'step-2'",
    "step-1 and 2 more waits": "update steps set open_deps = 9 where parent_anchor is null",
    "it is done and should be active": "update plans set status = 'done'",
}


@pytest.mark.parametrize("said", sampled(WRONG, 3))
def test_counts_that_are_wrong_are_named_and_mended_and_nothing_else_is(clinic, said):
    c = clinic()
    sound = c.dump()
    c.sql(WRONG[said])
    broken = c.dump()
    finding = c.findings()["counts"][0]
    assert said in finding["message"]
    assert finding["severity"] == "error"
    assert c.dump() == broken
    (mended,) = c.only("counts", "--fix")
    assert mended["fixed"]
    after = c.dump()
    (event,) = after["events"][len(sound["events"]) :]
    assert (event["kind"], event["actor"]) == ("recount", str(c.root))
    del after["events"][-1]
    for table in ("plans", "plan_counts"):
        for row in (*after[table], *sound[table]):
            row.pop("updated_at", None)
    assert after == sound
    assert c.findings() == {}
    assert c.ok("state", "claim", "work", at=c.tree)["anchor"] == "step-1"


@pytest.mark.proof(share=0)
def test_substeps_that_are_not_held_as_their_step_are_mended(clinic):
    c = clinic("1", "1.1 t", "1.2 t", "2")
    c.ok("state", "claim", "work", at=c.tree)
    sound = c.dump()["steps"]
    c.sql(
        "update steps set claimed_by = 'somebody' where anchor = 'step-1-1'",
        "update steps set lease_expires_at = '2020-01-01T00:00:00.000Z' where anchor = 'step-1-2'",
    )
    finding = c.one("counts")
    assert "not held as their step is: step-1-1, step-1-2" in finding["message"]
    c.mends("counts")
    assert c.dump()["steps"] == sound


def test_substeps_that_are_held_though_their_step_is_not_are_freed(clinic):
    c = clinic("1", "1.1 t", "2")
    sound = c.dump()["steps"]
    time = "'2020-01-01T00:00:00.000Z'"
    c.sql(
        f"update steps set claimed_by = 'x', claimed_at = {time}, lease_expires_at = {time},"
        f" heartbeat_at = {time}, status = 'claimed' where anchor = 'step-1-1'"
    )
    c.mends("counts")
    assert c.dump()["steps"] == sound


def test_a_plan_without_a_row_of_counts_is_named(clinic):
    c = clinic()
    c.sql("delete from plan_counts")
    assert "has no row of plan_counts" in c.findings()["counts"][0]["message"]


MISFITS = {
    "step-1 is completed, and 1 item of it open": (
        "update steps set status = 'completed', completed_at = claimed_at, claimed_by = null,"
        " claimed_at = null, lease_expires_at = null, heartbeat_at = null where anchor = 'step-1'",
        "update steps set completed_at = '2020-01-01T00:00:00.000Z' where anchor = 'step-1'",
    ),
    "step-1 and its attempts do not fit each other": (
        "update attempts set ended_at = claimed_at, outcome = 'released'",
    ),
    "step-2 is parked without an attempt or a reason": (
        "update steps set parked_at = '2020-01-01T00:00:00.000Z' where anchor = 'step-2'",
    ),
    "step-3 is a substep of a substep": (
        "update steps set parent_anchor = 'step-2' where anchor = 'step-3'",
        "update steps set parent_anchor = 'step-1' where anchor = 'step-2'",
    ),
    "step-1 is completed, and 2 substeps of it not": (
        "update steps set parent_anchor = 'step-1' where anchor in ('step-2', 'step-3')",
        "update steps set status = 'completed', completed_at = claimed_at, claimed_by = null,"
        " claimed_at = null, lease_expires_at = null, heartbeat_at = null where anchor = 'step-1'",
    ),
}


@pytest.mark.parametrize("said", sampled(MISFITS, 3))
def test_rows_that_do_not_fit_each_other_are_named_and_left_alone(clinic, said):
    c = clinic()
    c.ok("state", "claim", "work", at=c.tree)
    c.sql(*MISFITS[said])
    found = c.findings()["records"]
    assert f"{KEY}: {said}" in [each["message"] for each in found]
    assert {(each["severity"], each["fixable"]) for each in found} == {("error", False)}


# -- the backup ------------------------------------------------------------------------


def test_a_backup_that_is_not_there_yet_is_a_note_and_fix_makes_it(clinic):
    c = clinic()
    (c.copies / "backup.db").unlink()
    assert c.doctor().status == 0
    assert c.one("backup")["severity"] == "note"
    c.mends("backup")
    assert (c.copies / "backup.db").exists()


def test_a_damaged_backup_is_named_and_put_aside(clinic):
    c = clinic()
    backup = c.copies / "backup.db"
    backup.write_bytes(b"garbage " * 100)
    os.utime(backup, (0, 0))
    assert "is damaged" in c.one("backup")["message"]
    c.mends("backup")
    assert [path for path in c.copies.iterdir() if path.read_bytes()[:7] == b"garbage"]


def test_a_backup_of_a_newer_tugtool_is_named(repo, clinic):
    repo.live()
    c = clinic()
    backup = sqlite3.connect(c.copies / "backup.db")
    backup.execute(f"pragma user_version = {schema.VERSION + 1}")
    backup.close()
    finding = c.one("backup")
    assert finding["message"].startswith("the backup cannot be used: ")
    assert not finding["fixable"]


def test_a_database_without_plans_needs_no_backup(clinic):
    c = clinic()
    (c.copies / "backup.db").unlink()
    tables = ("events", "plan_counts", "checklist_items", "step_deps", "steps", "plans")
    c.sql(*(f"delete from {name}" for name in (*tables, "worktrees")))
    assert "backup" not in c.findings()


# -- leftovers -------------------------------------------------------------------------

OLD = (1_700_000_000, 1_700_000_000)


def leave(path: Path, *, directory: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if directory:
        path.mkdir()
        (path / "state.db").write_text("half")
    else:
        path.write_text("half")
    os.utime(path, OLD)
    return path


LEFT = [
    ".tugtool/.tug-0123456789ab.tmp",
    ".git/info/.tug-0123456789ab.tmp",
    ".git/index.tug-0123456789ab",
    ".git/tugtool-index",
    ".git/tugtool/backup.db.partial",
    ".git/tugtool/backup.db.partial-wal",
    ".git/tugtool/state-schema-10.partial",
    ".git/tugtool/.tug-0123456789ab.tmp",
    ".git/tugtool/restoring",
    "TREE/index.tug-0123456789ab",
    "TREE/tugtool-index",
]


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("name", sampled(LEFT, 4))
def test_what_killed_processes_left_is_named_and_deleted(clinic, name):
    c = clinic()
    path = c.root / name.replace("TREE", f".git/worktrees/{c.tree.name}")
    before = c.snapshot()
    leave(path, directory=name.endswith("restoring"))
    assert str(path) in c.one("leftovers")["message"]
    c.mends("leftovers")
    assert c.snapshot() == before


def test_what_may_be_somebody_s_who_is_at_it_is_left_alone(clinic):
    c = clinic()
    path = c.db.parent / ".tug-0123456789ab.tmp"
    path.write_text("half")
    assert c.findings() == {}
    assert c.doctor("--fix").status == 0
    assert path.exists()


def test_the_saved_index_of_an_unfinished_commit_is_no_leftover(clinic):
    c = clinic()
    leave(c.root / f".git/worktrees/{c.tree.name}/tugtool-index")
    c.rest()
    c.db.write_bytes(b"garbage" * 100)
    assert "leftovers" not in c.findings()


# -- the clock and SQLite --------------------------------------------------------------


def test_a_clock_that_was_set_back_is_named(clinic):
    c = clinic()
    columns = "(at, plan_path, kind, detail)"
    c.sql(f"insert into events {columns} values ('2999-01-01T00:00:00.000Z', '{KEY}', 'x', '{{}}')")
    finding = c.one("clock")
    assert "the clock was set back" in finding["message"]
    assert finding["hint"] == "date -u"


def test_an_sqlite_that_is_too_old_is_named():
    (finding,) = machine.sqlite(None, "3.36.0")
    assert finding.severity == "error"
    assert "SQLite 3.36.0, and the state needs 3.37.0" in finding.message
    assert list(machine.sqlite(None, "3.37.0")) == []
    assert list(machine.sqlite(None, "3.100.1")) == []
