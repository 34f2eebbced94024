"""restore: what comes back, that nothing given out before counts again, what people are told."""

import os
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest

from support.racing import Crew, prepared
from support.state import KEY, markdown
from support.state_replay import INVARIANTS
from support.workers import COPY, PLAN
from tugtool import state
from tugtool.errors.state import DatabaseUnavailable
from tugtool.plan import fingerprint
from tugtool.state import upkeep
from tugtool.state.claims import Request
from tugtool.state.record import PlanCopy
from tugtool.store import open_store, sql
from tugtool.store.sqlite import restore

pytestmark = pytest.mark.file

FORCED = ("--force", "--reason", "x")
COMPANIONS = ("", "-wal", "-shm")


def _home(desk) -> Path:
    return desk.repo.path / ".git" / "tugtool"


def _database(desk) -> Path:
    return desk.repo.path / ".tugtool" / "state.db"


def _lose(desk) -> None:
    for end in COMPANIONS:
        Path(f"{_database(desk)}{end}").unlink(missing_ok=True)


def _back_up(desk) -> None:
    os.utime(_home(desk) / "backup.db", (0, 0))
    store = open_store(desk.url, copies=str(_home(desk)))
    assert store.back_up() is None
    store.close()


def _copy(desk, name: str) -> Path:
    """A sound copy of the database as it is now."""
    path = desk.repo.path / ".git" / name
    source, target = sqlite3.connect(_database(desk)), sqlite3.connect(path)
    source.backup(target)
    source.close()
    target.close()
    return path


def _rescued(lab, tmp_path):
    """The laboratory's plan, backed up, lost and restored."""
    lab.store.close()
    lab.store = open_store(lab.url, clock=lab.clock, copies=str(tmp_path / "copies"))
    assert lab.store.back_up() is None
    lab.store.close()
    for end in COMPANIONS:
        (tmp_path / f"state.db{end}").unlink(missing_ok=True)
    return state.restore(lab.store, actor="person")


def test_what_was_held_is_free_again_and_what_was_done_stays_done(lab, tmp_path):
    lab = lab("1 ttt", "2 t", "2.1 t", "2.2 tt", "3 t < 1", "4 t", "5")
    lab.finish("step-4")
    lab.claim("red", "step-1")
    lab.tick("step-1", "t0")
    lab.tick("step-1", "t1", status="deferred")
    lab.tick("step-1", "t2", status="in_progress")
    lab.claim("blue", "step-2")
    lab.start("step-2-2", "blue")
    lab.tick("step-2-1", "t0", owner="blue")
    lab.tick("step-2-2", "t1", status="in_progress", owner="blue")
    told = _rescued(lab, tmp_path)
    assert [(e["step_anchor"], e["attempt"], e["worktree"]) for e in told["claims_ended"]] == [
        ("step-1", 1, "red"),
        ("step-2", 1, "blue"),
    ]
    assert told["plans"][0]["completed_steps"] == told["steps_completed"] == 1
    assert lab.items("step-1") == {"t0": "completed", "t1": "deferred", "t2": "open"}
    assert lab.items("step-2-2") == {"t0": "open", "t1": "open"}
    held = ["step-1", "step-2", "step-2-2"]
    assert [lab.status(step) for step in held] == ["pending"] * 3
    assert lab.status("step-2-1") == lab.status("step-4") == "completed"
    assert [each["outcome"] for each in lab.attempts("step-1")] == ["reset"]
    for holds in INVARIANTS:
        holds(lab)


def test_parked_paused_and_blocked_steps_stay_what_they_are(lab, tmp_path):
    lab = lab("1 t", "2 t < 1", "3 t", max_attempts=1)
    lab.claim("red", "step-1")
    lab.claim("blue", "step-3", max_attempts=5)
    lab.reset("step-3")
    lab.pause()
    _rescued(lab, tmp_path)
    assert lab.row("step-1")["parked_at"]
    assert lab.plan()["paused_at"]
    for holds in INVARIANTS:
        holds(lab)


def test_a_claim_after_a_restore_tells_of_the_last_attempt_there_was(lab, tmp_path):
    lab = lab("1 tt")
    lab.claim("red")
    lab.tick("step-1", "t0")
    _rescued(lab, tmp_path)
    got = lab.claim("blue", request_id="again")
    assert got["attempt"] == 102
    assert got["previous_attempt"]["number"] == 1
    assert got["previous_attempt"]["outcome"] == "reset"
    assert len(got["previous_attempt"]["completed_items"]) == 1
    assert not got["reclaimed"]
    again = lab.claim("blue", request_id="again")
    assert (again["replayed"], again["reclaimed"]) == (True, False)
    assert again["previous_attempt"] == got["previous_attempt"]
    lab.clock.advance(7201)
    assert lab.claim("red")["previous_attempt"]["number"] == 102
    for holds in INVARIANTS:
        holds(lab)


@pytest.mark.parametrize("known", [False, True])
def test_no_attempt_at_a_step_that_the_copy_lacks_is_given_out_again(lab, tmp_path, known):
    """One that was added since the backup; or dropped before it, and brought back since."""
    one, two = markdown("1 t"), markdown("1 t", "2 t")
    lab = lab("1 t", "2 t") if known else lab("1 t")
    lab.store.close()
    lab.store = open_store(lab.url, clock=lab.clock, copies=str(tmp_path / "copies"))
    if known:
        lab.claim("red", "step-2")
        lab.revise(one, "drop_claimed")
    assert lab.store.back_up() is None
    lab.revise(two)
    given = lab.claim("red", "step-2")["attempt"]
    lab.store.close()
    for end in COMPANIONS:
        (tmp_path / f"state.db{end}").unlink(missing_ok=True)
    state.restore(lab.store, actor="person")
    lab.revise(two)
    assert lab.claim("red", "step-2")["attempt"] > given
    with lab.refuses("E060"):
        lab.start("step-2", attempt=given)
    for holds in INVARIANTS:
        holds(lab)


def test_attempts_of_before_are_refused_also_in_the_same_worktree(desk):
    desk = desk("1", "2", "3")
    desk.ok("claim", "work", "--step", "step-1")
    _back_up(desk)
    # Since the backup, and so unknown to it.
    desk.ok("claim", "work", "--step", "step-2", "--also")
    _lose(desk)
    desk.ok("restore")
    for step in ("step-1", "step-2"):
        late = desk.json("complete", "work", step, "--attempt", "1")
        assert (late.status, late.codes) == (4, ["E060"])
        assert desk.ok("claim", "work", "--step", step, "--also")["attempt"] > 100
        late = desk.json("complete", "work", step, "--attempt", "1")
        assert (late.status, late.codes) == (4, ["E060"])


def test_no_attempt_is_given_out_twice_however_many_there_were_since_the_backup(desk):
    desk = desk("1")
    _back_up(desk)
    copy = PlanCopy("work", fingerprint.of(desk.repo.path.joinpath(KEY).read_bytes()))
    store = open_store(desk.url, copies=str(_home(desk)))
    for _ in range(60):
        last = state.claim(store, KEY, Request("red"), copy=copy)["attempt"]
        state.reset(store, KEY, "step-1", actor="person")
    store.close()
    assert last == 60
    _lose(desk)
    desk.ok("restore")
    assert desk.ok("claim", "work")["attempt"] > 100 + 60


def test_no_attempt_is_given_out_twice_when_the_database_is_lost_again(desk):
    desk = desk("1")
    given = []
    for _ in range(3):
        given.append(desk.ok("claim", "work")["attempt"])
        _lose(desk)
        # Which would tell how many there were.
        (_home(desk) / "mark").unlink()
        desk.ok("restore")
    assert len(set(given)) == 3


def test_every_command_but_init_refuses_a_lost_database(desk):
    desk = desk("1")
    _lose(desk)
    refused = [desk.json("show"), desk.json("claim"), desk.json("ready", "work")]
    refused.append(desk.json("complete", "work", "step-1"))
    _database(desk).touch()
    refused += [desk.json("show"), desk.json("claim", "work")]
    for each in refused:
        assert (each.status, each.codes) == (1, ["E046"])
        issue = each.envelope()["issues"][0]
        assert "a backup is there that ends at 2" in issue["message"]
        assert issue["hint"] == "tugcode restore"
    assert _database(desk).read_bytes() == b""


def test_init_of_another_plan_restores_what_was_lost_first(desk):
    desk = desk("1", "2")
    desk.ok("claim", "work")
    desk.repo.plan("more", "# More\n### Step 1: a\n")
    _lose(desk)
    done = desk.text("init", "more")
    assert done.status == 0
    assert "restored the state from" in done.out
    assert "missing: everything recorded after 2" in done.out
    assert ".tugtool/tugplan-more.md is recorded: 1 step" in done.out
    assert len(desk.ok("show")["plans"]) == 2


def test_two_inits_of_a_lost_database_restore_it_once(desk):
    desk = desk("1")
    _lose(desk)
    told = []

    def lost() -> None:
        store = open_store(desk.url, copies=str(_home(desk)), busy_seconds=30)
        told.append(store.create(upkeep.put_back))

    threads = [threading.Thread(target=lost) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each is not None for each in told) == 1
    assert len(list(_home(desk).glob("lost-*"))) == 1


def test_a_blank_database_is_not_filled_while_there_is_a_backup(desk):
    desk = desk("1")
    _lose(desk)
    connection = sqlite3.connect(_database(desk))
    connection.execute("pragma journal_mode = wal")
    connection.close()
    for words in (["init", "work"], ["show"]):
        refused = desk.json(*words)
        assert refused.codes == ["E046"]
        assert "restore" in refused.envelope()["issues"][0]["hint"]
    assert desk.ok("restore")["restored"]


def test_a_blank_database_is_filled_where_its_backup_is_worth_nothing(desk):
    desk = desk("1")
    _lose(desk)
    (_home(desk) / "backup.db").write_bytes(b"worth nothing")
    connection = sqlite3.connect(_database(desk))
    connection.execute("pragma journal_mode = wal")
    connection.close()
    assert desk.ok("init", "work")["steps_created"] == 1
    assert desk.ok("claim", "work")["claimed"]


def test_a_fresh_database_is_not_taken_for_a_copy_of_one_that_is_gone_for_good(desk):
    desk = desk("1")
    desk.ok("claim", "work")
    _lose(desk)
    (_home(desk) / "backup.db").unlink()
    assert desk.json("show").data == {"plans": []}
    assert desk.ok("init", "work")["steps_created"] == 1
    assert desk.ok("claim", "work")["attempt"] == 1


def test_an_older_copy_is_refused_and_what_it_lacks_is_named(desk):
    desk = desk("1", "2", "3")
    older = _copy(desk, "older.db")
    desk.ok("claim", "work", "--step", "step-1")
    desk.ok("complete", "work", "step-1", "--commit", "HEAD", *FORCED)
    _back_up(desk)
    desk.ok("claim", "work", "--step", "step-2")
    desk.ok("complete", "work", "step-2", *FORCED)
    _lose(desk)
    shutil.copyfile(older, _database(desk))
    for words in (["show"], ["claim", "work"], ["init", "work"]):
        refused = desk.json(*words)
        assert refused.codes == ["E046"]
        issue = refused.envelope()["issues"][0]
        assert "is an older copy of itself" in issue["message"]
        assert "4 changes since are missing" in issue["message"]
        missing = issue["facts"]["missing"]
        assert [row["step_anchor"] for row in missing] == ["step-1", "step-2"]
        assert missing[0]["commit_hash"] == desk.commit
    told = desk.ok("restore")
    assert [row["step_anchor"] for row in told["lost_steps"]] == ["step-2"]
    assert [p["completed_steps"] for p in told["plans"]] == [1]
    assert Path(told["set_aside"], "state.db").read_bytes() == older.read_bytes()
    # And once more, before anybody has written through the new one.
    _lose(desk)
    shutil.copyfile(older, _database(desk))
    assert "is an older copy of itself" in desk.text("show").err


def test_an_older_copy_without_a_backup_can_be_accepted(desk):
    desk = desk("1", "2")
    older = _copy(desk, "older.db")
    desk.ok("claim", "work")
    (_home(desk) / "backup.db").unlink()
    _lose(desk)
    shutil.copyfile(older, _database(desk))
    issue = desk.json("show").envelope()["issues"][0]
    assert "1 change since" in issue["message"]
    assert issue["hint"] == f"tugcode restore --from {_database(desk)} --dry-run"
    told = desk.ok("restore", "--from", _database(desk))
    assert told["source"] == str(_database(desk))
    assert desk.ok("claim", "work")["attempt"] > 100


def test_a_copy_that_was_named_is_restored_and_the_backup_kept(desk):
    desk = desk("1", "2")
    older = _copy(desk, "older.db")
    desk.ok("claim", "work", "--step", "step-1")
    desk.ok("complete", "work", "step-1", *FORCED)
    _back_up(desk)
    newer = (_home(desk) / "backup.db").read_bytes()
    told = desk.ok("restore", "--from", "../../.git/older.db")
    assert [row["step_anchor"] for row in told["lost_steps"]] == ["step-1"]
    assert (Path(told["set_aside"]) / "backup.db").read_bytes() == newer
    aside = Path(told["set_aside"]) / "state.db"
    assert desk.ok("show", "work")["completed_steps"] == 0
    assert older.exists()
    # And back again: nothing is ever gone.
    assert desk.ok("restore", "--from", aside)["steps_completed"] == 1
    assert desk.ok("show", "work")["completed_steps"] == 1


def test_a_dry_run_only_tells(desk):
    desk = desk("1", "2")
    desk.ok("claim", "work")
    before = desk.dump(), sorted(os.listdir(_home(desk)))
    told = desk.ok("restore", "--dry-run")
    assert (told["restored"], told["set_aside"]) == (False, None)
    assert (desk.dump(), sorted(os.listdir(_home(desk)))) == before
    text = desk.text("restore", "--dry-run").out
    assert text.startswith("would restore the state from ")
    sound = "the database is sound, so without --dry-run it is refused; --from FILE insists"
    assert text.endswith(f"  nothing was changed; {sound}\n")
    assert desk.text("restore").err.startswith("tugcode: E077: ")
    _lose(desk)
    text = desk.text("restore", "--dry-run").out
    assert text.endswith("  nothing was changed; without --dry-run it is done\n")


def test_people_are_told_what_is_missing_and_where_the_rest_is(desk):
    desk = desk("1", "2", "3")
    desk.ok("claim", "work", "--step", "step-3")
    _back_up(desk)
    desk.ok("claim", "work", "--step", "step-1", "--also")
    desk.ok("complete", "work", "step-1", "--commit", "HEAD", *FORCED)
    _lose(desk)
    _database(desk).write_bytes(b"garbage" * 999)
    assert "restore --dry-run" in desk.text("show").err
    lines = desk.text("restore").out.splitlines()
    assert lines[0].startswith("restored the state from ")
    assert lines[0].endswith("1 plan, 0 steps completed")
    assert lines[1] == "  .tugtool/tugplan-work.md: 0/3"
    assert lines[2].startswith("  missing: 1 completed step, and everything else recorded after")
    assert lines[3].startswith("    step-1 of .tugtool/tugplan-work.md, completed 2")
    assert lines[3].endswith(f", commit {desk.commit}")
    look = "tugcode reconcile work --dry-run"
    assert lines[4] == f"    git may have it: {look}"
    assert lines[5] == f"  ended the claim of step-3 by {desk.red}"
    assert lines[6].startswith("  what was there before is kept in ")


@pytest.mark.parametrize("content", [None, b"", b"no database at all", b"\0" * 9999])
def test_without_a_sound_backup_nothing_is_touched(desk, content):
    desk = desk("1")
    path = _home(desk) / "backup.db"
    path.unlink() if content is None else path.write_bytes(content)
    for end in ("-wal", "-shm"):
        Path(f"{_database(desk)}{end}").unlink(missing_ok=True)
    _database(desk).write_bytes(b"broken")
    before = sorted(os.listdir(_home(desk)))
    refused = desk.json("restore")
    assert (refused.status, refused.codes) == (1, ["E046"])
    assert "backup.db" in refused.envelope()["issues"][0]["message"]
    assert _database(desk).read_bytes() == b"broken"
    assert sorted(os.listdir(_home(desk))) == before


def test_a_copy_of_a_newer_tugtool_or_another_tool_is_refused(desk):
    desk = desk("1")
    path = _copy(desk, "newer.db")
    for change, code in (("user_version = 999", "E065"), ("application_id = 7", "E046")):
        with sqlite3.connect(path) as connection:
            connection.execute(f"pragma {change}")
        connection.close()
        assert desk.json("restore", "--from", path).codes == [code]
    assert desk.json("restore", "--from", "nowhere.db").codes == ["E046"]
    assert desk.json("restore", "--from", "").status == 2
    assert desk.ok("show", "work")["steps"]


def test_where_a_directory_lies_in_the_databases_place_it_is_moved_away(desk):
    desk = desk("1")
    _lose(desk)
    _database(desk).mkdir()
    assert desk.ok("restore")["restored"]
    assert desk.ok("show", "work")["total_steps"] == 1


def test_a_store_without_a_place_for_backups_cannot_restore(lab):
    lab = lab("1")
    assert lab.store.back_up() is None
    assert not restore.is_lost(lab.store)
    with pytest.raises(DatabaseUnavailable, match="no place for backups"):
        state.restore(lab.store)


def test_a_database_without_any_plan_is_restored_as_it_is(tmp_path):
    store = open_store(f"sqlite://{tmp_path}/state.db", copies=str(tmp_path / "copies"))
    store.create()
    assert store.back_up() is None
    assert state.restore(store)["plans"] == []
    with store.read() as tx:
        assert tx.all(sql.PLANS) == []
    store.close()


def test_a_writer_that_waited_for_a_restore_works_on_what_was_restored(tmp_path):
    store, url = prepared(tmp_path / "state.db", 2)
    store.close()
    here = open_store(url, copies=str(tmp_path / "copies"))
    state.claim(here, PLAN, Request("red"), copy=COPY)
    assert here.back_up() is None
    answers = []
    late = {"owner": "blue", "copy": COPY}

    def work() -> None:
        got = state.claim(here, PLAN, Request("blue"), copy=COPY)
        answers.append((got["anchor"], got["attempt"]))
        state.complete(here, PLAN, got["anchor"], attempt=got["attempt"], **late)

    waiting = threading.Thread(target=work)
    with open_store(url, copies=str(tmp_path / "copies")).rescue() as rescue:
        waiting.start()
        rescue.put_in_place()
    waiting.join()
    assert answers == [("step-1", 1)]
    with here.read(PLAN) as tx:
        assert tx.one(sql.STEP, anchor="step-1")["status"] == "completed"
    here.close()


@pytest.mark.proof(share=0)
def test_a_restore_that_is_killed_anywhere_can_be_done_again(tmp_path):
    copies, path = tmp_path / "copies", tmp_path / "state.db"
    store, url = prepared(path, 3)
    store.close()
    store = open_store(url, copies=str(copies))
    state.claim(store, PLAN, Request("me"), copy=COPY)
    state.complete(store, PLAN, "step-0", owner="me", copy=COPY)
    assert store.back_up() is None
    store.close()
    for at in range(100):
        path.write_bytes(b"broken by somebody")
        crew = Crew()
        process = crew.add("die", url=url, copies=str(copies), what="restore", at=at)
        crew.open()
        process.communicate()
        crew.end()
        if process.returncode == 0:
            break
        _is_whole_or_refused(url, str(copies))
        again = open_store(url, copies=str(copies))
        assert state.restore(again)["steps_completed"] == 1
        _is_whole_or_refused(url, str(copies), certainly=True)
        again.close()
    assert process.returncode == 0
    assert at > 8
    _is_whole_or_refused(url, str(copies), certainly=True)
    assert not (copies / "restoring").exists()
    broken = [each.read_bytes() for each in copies.glob("lost-*/state.db")]
    assert b"broken by somebody" in broken


def _is_whole_or_refused(url: str, copies: str, *, certainly: bool = False) -> None:
    store, hint = open_store(url, copies=copies), ""
    try:
        assert store.exists()
        with store.read(PLAN) as tx:
            assert tx.one(sql.STEP, anchor="step-0")["status"] == "completed"
    except DatabaseUnavailable as refusal:
        hint = refusal.hint
    finally:
        store.close()
    assert not hint or ("tugcode restore" in hint and not certainly)


def test_a_sound_database_is_not_replaced_by_its_older_backup(desk):
    desk = desk("1", "2")
    _finish(desk, "step-1")
    before = desk.dump()
    refused = desk.json("restore")
    assert (refused.status, refused.codes) == (1, ["E077"])
    assert desk.dump() == before
    assert desk.ok("restore", "--dry-run")["lost_steps"][0]["step_anchor"] == "step-1"
    assert desk.ok("restore", "--from", _home(desk) / "backup.db")["steps_completed"] == 0
    assert "completed since and missing: step-1" in desk.text("log", "work").out


def test_a_database_that_is_gone_with_its_backup_is_not_started_over_silently(desk):
    desk = desk("1", "2")
    _finish(desk, "step-1")
    for path in (_database(desk), _home(desk) / "backup.db"):
        for end in ("", "-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)
    again = desk.json("init", "work")
    assert (again.status, again.codes) == (0, ["W104"])
    assert "step-1 of .tugtool/tugplan-work.md" in again.envelope()["issues"][0]["message"]
    assert desk.json("init", "work").codes == []


def test_who_finds_nothing_to_do_saves_what_was_completed_within_the_minute(desk):
    desk = desk("1", "2 < 1")
    _finish(desk, "step-1")
    _finish(desk, "step-2")
    backup = _home(desk) / "backup.db"
    assert desk.ok("restore", "--dry-run")["steps_completed"] == 0
    os.utime(backup, (1, 1))
    assert desk.ok("claim", "work")["reason"] == "all_completed"
    assert desk.ok("restore", "--dry-run")["steps_completed"] == 2
    os.utime(backup, (1, 1))
    desk.ok("claim", "work")
    assert backup.stat().st_mtime == 1


def _finish(desk, step: str) -> None:
    desk.ok("claim", "work", "--step", step)
    desk.ok("complete", "work", step)
