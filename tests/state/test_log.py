"""log: every event, oldest first, in words and as data; and as it happens."""

import ast
import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.test_state_wait import TUGCODE
from support import engines
from support.schema_copies import SchemaCopies
from support.served import ServedStore
from support.state import KEY, NOON, Lab, entry
from tugtool import state
from tugtool.cli import output
from tugtool.cli.draw import events as draw_events
from tugtool.cli.draw.canvas import Canvas, local
from tugtool.state import history
from tugtool.state.history import Reader
from tugtool.system import clock as clocks
from tugtool.workflow import sentences

SOURCES = Path(state.__file__).parent


def kinds(events: list[dict]) -> list[str]:
    return [event["kind"] for event in events]


def full(lab: Lab) -> None:
    """Everything that can happen to a plan, each once."""
    lab.claim(lease_seconds=10)
    lab.start("step-1")
    lab.beat("step-1")
    lab.update("step-1", {"kind": "task", "ordinal": 0, "status": "deferred", "reason": "eyes"})
    lab.artifact("step-1", kind="recovery")
    lab.claim()
    lab.clock.advance(8000)
    lab.claim("blue")
    lab.tick("step-1-1", "t0", owner="blue")
    lab.tick("step-1-1", "t0", status="open", owner="blue")
    lab.reset("step-1-1")
    lab.release("step-1", "blue", park_reason="no access")
    lab.reset("step-1")
    lab.claim("red", "step-2")
    lab.reset("step-2")
    lab.claim("red", "step-2")
    lab.complete("step-2", commit="1a2b3c4d5e6f7", force_reason="enough")
    lab.reopen("step-2", reason="reverted", actor="ada")
    lab.pause()
    lab.resume()


def told(lab: Lab) -> list[str]:
    return lines_of(state.log(lab.store, KEY)["events"], every=True)


def lines_of(events: list[dict], *, every: bool, several: bool = False) -> list[str]:
    """What is said of them, without days, times and signs."""
    canvas = Canvas(output.UNBOUNDED)
    log = draw_events.Log(canvas, root="/repo", several=several, every=every)
    for each in events:
        log.add(each)
    log.end()
    return [line[13:] for line in canvas.lines if line.startswith(" ")]


def test_the_log_tells_in_words_what_happened(lab):
    lab = lab("1 tt", "1.1 t", "2 t")
    full(lab)
    assert told(lab) == [
        "recorded: 3 steps, 4 items",
        "step-1  claimed by red (attempt 1)",
        "step-1  started by red",
        "step-1  sign of life from red",
        "step-1  task 0 deferred: eyes",
        "step-1  recovery left by red",
        "step-1  claimed by red (attempt 2), who held it already",
        "step-1  claimed by blue (attempt 3), taken over from red: the lease had run out",
        "step-1-1  task 0 completed",
        "step-1-1  completed, because its items are closed",
        "step-1-1  task 0 open",
        "step-1-1  no longer completed: an item was reopened by blue",
        "step-1-1  reset to not started by person",
        "step-1  released by blue and parked: no access",
        "step-1  unparked by person",
        "step-2  claimed by red (attempt 1)",
        "step-2  reset by person",
        "step-2  claimed by red (attempt 2)",
        "step-2  completed by red, commit 1a2b3c4d5e; forced: enough",
        "step-2  reopened by ada: reverted",
        "paused",
        "resumed",
    ]


def test_finer_points_of_the_words(lab):
    lab = lab("1 tt", "1.1 t", "1.2 t", max_attempts=2)
    lab.claim(holder_pid=(1 << 22) + 1)
    lab.claim("/repo/.tugtree/blue")
    lab.update(
        "step-1", {"kind": "task", "ordinal": 1, "status": "open"}, owner="/repo/.tugtree/blue"
    )
    lab.close("step-1", "/repo/.tugtree/blue")
    lab.update(
        "step-1",
        {"kind": "task", "ordinal": 1, "status": "completed", "reason": "by hand"},
        owner="/repo/.tugtree/blue",
    )
    assert told(lab)[2:] == [
        "step-1  claimed by blue (attempt 2), taken over from red: its process was gone, "
        "and parked: too many claims without progress",
        "step-1  update without a change",
        "step-1  task 0, task 1, step-1-1 task 0, step-1-2 task 0 completed",
        "step-1-1  completed, because its items are closed",
        "step-1-2  completed, because its items are closed",
        "step-1  reason of task 1: by hand",
    ]


def test_a_forced_substep_and_a_claim_by_force_are_told(lab):
    lab = lab("1 t", "1.1 t")
    lab.claim()
    lab.claim("blue", force=True)
    lab.complete("step-1-1", "blue", force_reason="enough", commit="1a2b")
    assert told(lab)[2:] == [
        "step-1  claimed by blue (attempt 2), taken over from red: under a live lease",
        "step-1-1  task 0 completed; forced: enough",
        "step-1-1  completed, because it was completed, commit 1a2b; forced: enough",
    ]


def noted_kinds() -> set[str]:
    """Every kind that stands as text where the operations note an event."""
    found = set()
    for path in SOURCES.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "record.note":
                texts = [each for each in ast.walk(node.args[1]) if isinstance(each, ast.Constant)]
                found |= {text.value for text in texts if isinstance(text.value, str)}
    return found


def test_every_kind_of_event_has_words_of_its_own(lab):
    lab = lab("1 tt", "1.1 t", "2 t")
    full(lab)
    assert len(noted_kinds()) > 8
    assert noted_kinds() | set(lab.events()) <= set(sentences.WORDS)


def event(kind: str, **more: object) -> dict:
    facts = {"seq": 1, "at": "2026-02-23T12:00:00.000Z", "plan_path": KEY, "step_anchor": None}
    return {**facts, "kind": kind, "actor": None, "attempt": None, "detail": {}, **more}


def test_a_kind_that_nobody_knows_is_told_all_the_same():
    strange = event("star_gazed", actor="/repo", detail={"reason": "late\x1b[31m"})
    line = "work  star gazed by the main worktree: late"
    assert lines_of([strange], every=True, several=True) == [line]
    assert (
        sentences.format_event(event("archive", detail={"note": "old"}), "/repo") == "archived: old"
    )


def test_lines_come_in_the_order_of_time(lab):
    lab = lab("1 tt", "2 t")
    lab.claim("red", "step-1", lease_seconds=60)
    lab.tick("step-1", "t0")
    lab.clock.advance(30)
    lab.claim("blue", "step-2")
    lab.clock.advance(3600)
    lab.claim("blue", "step-1")
    lab.tick("step-2", "t0", owner="blue")
    canvas = Canvas(1000)
    log = draw_events.Log(canvas, root="/repo", several=False, every=False)
    for each in state.log(lab.store, KEY)["events"]:
        log.add(each)
    log.end()
    times = [line.split()[0] for line in canvas.lines if line.startswith("  1")]
    assert times == sorted(times)
    taken = next(line for line in canvas.lines if "taken over" in line)
    assert taken.endswith("the lease had run out (until then: 1 item completed)")
    assert canvas.lines[-1] == "             step-2  so far: 1 item completed"


def test_a_night_is_told_by_what_came_of_each_attempt(lab):
    lab = lab("1 ttc", "1.1 t", "2 t")
    used = {"owner": "red", "attempt": 1}
    lab.claim("red")
    lab.start("step-1")
    for role, tokens in (("architect", 5), ("coder", 7), ("coder", 11), ("reviewer", None)):
        state.report(lab.store, KEY, "step-1", **used, role=role, tokens=tokens)
    lab.tick("step-1", "t0", "t1")
    lab.tick("step-1-1", "t0")
    lab.beat("step-1")
    lab.update("step-1", entry("c0", "deferred", reason="needs eyes"))
    lab.complete("step-1")
    lab.claim("blue", "step-2")
    lab.tick("step-2", "t0", owner="blue")
    events = state.log(lab.store, KEY)["events"]
    assert lines_of(events, every=False) == [
        "recorded: 3 steps, 5 items",
        "step-1  claimed by red (attempt 1)",
        "step-1  checkpoint 0 deferred: needs eyes",
        "step-1  completed (architect, 2x coder, reviewer, 23 tokens, 3 items completed)",
        "step-2  claimed by blue (attempt 1)",
        "step-2  so far: 1 item completed",
    ]
    assert len(lines_of(events, every=True)) == len(events)


def test_a_failure_that_parks_a_step_is_told_once(lab):
    lab = lab("1 t")
    lab.claim("red")
    lab.release("step-1", failure="no proxy", park_reason="no proxy (in a second attempt as well)")
    lab.reset("step-1")
    events = state.log(lab.store, KEY)["events"]
    assert lines_of(events, every=False)[2:] == [
        "step-1  failed and parked: no proxy (in a second attempt as well)",
        "step-1  unparked by person",
    ]


def test_the_log_of_a_step_is_also_that_of_its_substeps_and_of_no_other(lab):
    lab = lab("1 tt", "1.1 t", "2 t")
    full(lab)
    every = state.log(lab.store, KEY)["events"]
    own = state.log(lab.store, KEY, step="step-1")["events"]
    assert own == [each for each in every if each["step_anchor"] in ("step-1", "step-1-1")]
    below = state.log(lab.store, KEY, step="step-1-1")["events"]
    assert below == [each for each in every if each["step_anchor"] == "step-1-1"]
    assert state.log(lab.store)["events"] == every
    assert own[3]["detail"]["reasons"] == [["step-1", "task", 0, "eyes"]]


def test_a_step_is_refused_only_if_it_is_neither_in_the_plan_nor_in_its_history(lab):
    lab = lab("1 t", "2 t")
    with lab.refuses("E059", "step-7"):
        state.log(lab.store, KEY, step="step-7")
    assert state.log(lab.store, KEY, step="step-2")["events"] == []
    lab.claim()
    with lab.store.write(KEY) as tx:
        tx.run("update events set step_anchor = 'step-7' where kind = 'claim'")
    assert kinds(state.log(lab.store, KEY, step="step-7")["events"]) == ["claim"]


def test_since_is_a_time_or_an_age_and_counts_the_moment_itself(lab):
    lab = lab("1 t")
    lab.clock.advance(60)
    lab.claim()
    lab.clock.advance(60)
    lab.start("step-1")
    for since, expected in {
        "2026-02-23T12:01:00.000Z": ["claim", "start"],
        "2026-02-23T12:01:00.001Z": ["start"],
        60: ["claim", "start"],
        59.999: ["start"],
        1e15: ["init", "claim", "start"],
    }.items():
        assert kinds(state.log(lab.store, KEY, since=since)["events"]) == expected, since
    assert state.log(lab.store, KEY, since=60)["since"] == "2026-02-23T12:01:00.000Z"
    assert state.log(lab.store, KEY, since=1e15)["since"] == "1970-01-01T00:00:00.000Z"
    assert state.log(lab.store, KEY)["since"] is None


@pytest.mark.parametrize("plan", [KEY, None])
def test_a_limit_means_the_last_of_those_that_were_asked_for(lab, plan):
    lab = lab("1 t", "2 t")
    full_ = ["init", "claim", "start", "heartbeat", "heartbeat"]
    lab.claim()
    lab.start("step-1")
    lab.beat("step-1")
    lab.beat("step-1")
    assert kinds(state.log(lab.store, plan, limit=2)["events"]) == full_[-2:]
    assert kinds(state.log(lab.store, plan, limit=5)["events"]) == full_
    assert kinds(state.log(lab.store, plan, limit=6)["events"]) == full_
    late = state.log(lab.store, plan, limit=9, since="2026-02-24")
    assert late["events"] == []
    lab.claim("blue", "step-2")
    own = state.log(lab.store, KEY, step="step-1", limit=1)
    assert kinds(own["events"]) == ["heartbeat"]


def test_a_reader_goes_on_where_it_stopped_page_by_page(lab, monkeypatch):
    monkeypatch.setattr(history, "PAGE", 2)
    lab = lab("1 t", "2 t")
    lab.claim()
    lab.start("step-1")
    reader = Reader(KEY)
    assert kinds(reader.page(lab.store)) == ["init", "claim"]
    assert kinds(reader.page(lab.store)) == ["start"]
    assert reader.page(lab.store) == []
    lab.beat("step-1")
    assert kinds(reader.page(lab.store)) == ["heartbeat"]


def test_a_reader_does_not_read_again_what_was_not_for_it(lab):
    lab = lab("1 t", "2 t")
    lab.claim()
    reader = Reader(KEY, step="step-2")
    assert reader.page(lab.store) == []
    with lab.store.write(KEY) as tx:
        tx.run("update events set step_anchor = 'step-2' where kind = 'claim'")
    assert reader.page(lab.store) == []
    lab.claim("blue", "step-2")
    assert kinds(reader.page(lab.store)) == ["claim"]


def test_a_reader_of_an_empty_log_waits_for_the_first_event(lab):
    lab = lab("1 t")
    with lab.store.write(KEY) as tx:
        tx.run("delete from events")
    reader = Reader()
    assert reader.page(lab.store) == []
    lab.claim()
    assert kinds(reader.page(lab.store)) == ["claim"]


def _close(lab) -> None:
    """Close the file everywhere: a copy of one that is open would lack its log."""
    lab.store.close()
    if isinstance(lab.store, ServedStore):
        lab.store.restart_server()
        # The server's readers close last, and leave the log for the next who writes.
        last = sqlite3.connect(lab.store.file.path)
        last.execute("pragma wal_checkpoint")
        last.close()


def _kept(lab, tmp_path) -> Callable[[], object]:
    """Copy the state as it is now; what puts it back, as a person's restore does."""
    _close(lab)
    if engines.is_postgres(lab.url):
        copies = SchemaCopies(lab.store)
        copies.keep("earlier")
        return lambda: copies.bring_back("earlier")
    shutil.copy(tmp_path / "state.db", tmp_path / "copy.db")

    def put_back() -> None:
        _close(lab)
        os.replace(tmp_path / "copy.db", tmp_path / "state.db")

    return put_back


@pytest.mark.parametrize("meanwhile", [0, 1, 5])
def test_a_log_that_goes_back_is_noticed_and_gone_on_with(lab, tmp_path, meanwhile):
    lab = lab("1 t")
    lab.claim(lease_seconds=99999)
    put_back = _kept(lab, tmp_path)
    lab.clock.advance(60)
    lab.start("step-1")
    lab.beat("step-1")
    reader = Reader(KEY)
    assert len(reader.page(lab.store)) == 4
    assert not reader.went_back
    put_back()
    lab.clock.advance(60)
    for _ in range(meanwhile):
        lab.beat("step-1")
    assert kinds(reader.page(lab.store)) == ["heartbeat"] * meanwhile
    assert reader.went_back
    lab.start("step-1")
    assert kinds(reader.page(lab.store)) == ["start"]
    assert not reader.went_back


def test_a_log_that_is_emptied_is_gone_on_with_too(lab):
    lab = lab("1 t")
    reader = Reader()
    reader.page(lab.store)
    with lab.store.write(KEY) as tx:
        tx.run("delete from events")
    assert reader.page(lab.store) == []
    assert reader.went_back


def test_a_long_log_is_told_in_pieces(desk):
    desk = desk("1 t")
    store = desk.opened()
    with store.write(KEY) as tx:
        tx.many(
            "insert into events (at, plan_path, kind, detail) values (:at, :plan, 'pause', '{}')",
            [{"at": clocks.text(NOON + n), "plan": KEY} for n in range(2500)],
        )
    store.close()
    out = desk.text("log", "work").out
    days = [line for line in out.splitlines() if not line.startswith(" ")]
    assert len(out.splitlines()) == 2501 + len(days)
    assert len(days) == 2
    assert len(desk.ok("log", "work")["events"]) == 2501


def test_the_command_tells_the_same_in_text_and_in_json(desk):
    desk = desk("1 t", "2 t")
    desk.ok("claim", "work")
    data = desk.ok("log", "work")
    assert kinds(data["events"]) == ["init", "claim"]
    assert (data["plan_path"], data["step_anchor"], data["since"]) == (KEY, None, None)
    lines = desk.text("log", "work").out.splitlines()
    day, time = local(data["events"][1]["at"]).split(" ")
    assert lines[0] == day
    assert lines[2] == f"  {time} → step-1  claimed by red (attempt 1)"
    assert (
        desk.text("log").out.splitlines()[2].endswith("→ work  step-1  claimed by red (attempt 1)")
    )
    assert kinds(desk.ok("log", "--step", "#step-1")["events"]) == ["claim"]
    assert desk.text("log", "work", "--step", "step-2").out == "nothing has happened\n"
    assert kinds(desk.ok("log", "work", "--limit", "1", "--since", "1d")["events"]) == ["claim"]


def test_without_a_state_nothing_has_happened(desk):
    desk = desk("1 t", init=False)
    assert desk.ok("log")["events"] == []
    # Tables are there before any plan is.
    assert desk.text("log").out == f"nothing has happened{'' if desk.repository else ' yet'}\n"
    assert desk.json("log", "work").codes == ["E063"]


@pytest.mark.parametrize(
    "since",
    [
        "2026",
        "2026-02",
        "2026-02-23",
        "2026-02-23T12",
        "2026-02-23T12:00",
        "2026-02-23T12:00Z",
        "2026-02-23T12:00:00",
        "2026-02-23T12:00:00Z",
        "2026-02-23T12:00:00.000Z",
        *("90s", "30m", "2h", "3d", "0s", "999999999999d"),
    ],
)
def test_since_takes_every_form_that_it_names(desk, since):
    data = desk("1 t").ok("log", "work", "--since", since)
    assert len(data["since"]) == 24
    if since.startswith("2026"):
        assert data["since"].startswith(since.removesuffix("Z"))


@pytest.mark.parametrize(
    "since",
    [
        *("", "yesterday", "s", "1w", "1.5h", "-2h", "2026-2-3", "2026-13-01", "2026-02-30"),
        *("2026-02-23 12:00", "2026-02-23T12:00:00.0", "2026-W08-1", "\uff12h", "0000-01-01", "Z"),
    ],
)
def test_since_refuses_what_is_neither_a_time_nor_an_age(desk, since):
    refused = desk("1 t").json("log", "work", f"--since={since}")
    assert (refused.status, refused.codes) == (2, ["E070"])
    assert "90s, 30m, 2h, 3d" in refused.envelope()["issues"][0]["message"]


# -- as it happens -----------------------------------------------------------------------


@pytest.fixture
def following(desk):
    """Follow the log of `work` in a process of its own; it is ended in any case."""
    begun: list[subprocess.Popen] = []
    desk = desk("1 t", "2 t < 1")

    def begin(*words: object) -> tuple:
        process = subprocess.Popen(
            [*TUGCODE, "log", "--follow", *map(str, words)],
            cwd=desk.red,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Whoever runs the tests in the background has them ignore interrupts.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        begun.append(process)
        return desk, process

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def next_kinds(process: subprocess.Popen) -> list[str]:
    return kinds(json.loads(process.stdout.readline())["data"]["events"])


def test_following_tells_what_is_there_and_then_what_happens(following):
    desk, process = following("work", "--json")
    assert next_kinds(process) == ["init"]
    desk.ok("claim", "work")
    assert next_kinds(process) == ["claim"]
    desk.ok("start", "work", "step-1")
    assert next_kinds(process) == ["start"]
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 130


def test_following_in_text_tells_one_line_at_a_time(following):
    desk, process = following("--limit", "1")
    assert process.stdout.readline().startswith("20")
    assert process.stdout.readline().endswith("work  recorded: 2 steps, 2 items\n")
    desk.ok("claim", "work")
    assert process.stdout.readline().endswith("step-1  claimed by red (attempt 1)\n")


def test_following_ends_when_nobody_reads_any_more(following):
    _, process = following("work")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr.read() == ""


@pytest.mark.file
def test_following_survives_that_the_database_is_replaced_by_an_earlier_one(following):
    desk, process = following("work", "--json")
    assert next_kinds(process) == ["init"]
    database = desk.repo.path / ".tugtool" / "state.db"
    snapshot(desk, database.with_name("copy.db"))
    desk.ok("claim", "work")
    assert next_kinds(process) == ["claim"]
    for name in ("state.db-wal", "state.db-shm"):
        database.with_name(name).unlink(missing_ok=True)
    os.replace(database.with_name("copy.db"), database)
    document = json.loads(process.stdout.readline())
    assert [issue["code"] for issue in document["issues"]] == ["W105"]
    desk.ok("restore", "--from", database)
    desk.ok("claim", "work", at=desk.blue)
    told: list[str] = []
    while "claim" not in told:
        document = json.loads(process.stdout.readline())
        told += [issue["code"] for issue in document["issues"]]
        told += [event["kind"] for event in document["data"].get("events", [])]
    assert told == ["W105", "restore", "claim"]


@pytest.mark.file
def test_following_waits_for_a_database_that_is_not_there(following):
    desk, process = following("work")
    process.stdout.readline()
    assert process.stdout.readline().endswith("recorded: 2 steps, 2 items\n")
    database = desk.repo.path / ".tugtool" / "state.db"
    snapshot(desk, database.with_name("copy.db"))
    for name in ("state.db-wal", "state.db-shm", "state.db"):
        database.with_name(name).unlink(missing_ok=True)
    assert "W105: " in process.stderr.readline()
    os.replace(database.with_name("copy.db"), database)
    desk.ok("claim", "work")
    assert process.stdout.readline().endswith("claimed by red (attempt 1)\n")


def snapshot(desk, target: Path) -> None:
    """A copy of the database as it is now, made by SQLite itself."""
    import sqlite3

    source = sqlite3.connect(desk.repo.path / ".tugtool" / "state.db")
    source.execute("vacuum into ?", (str(target),))
    source.close()


@pytest.mark.file
def test_following_a_file_that_is_no_database_is_refused(desk):
    desk = desk("1 t", init=False)
    (desk.repo.path / ".tugtool" / "state.db").write_text("some notes of mine\n" * 100)
    refused = desk.text("log", "--follow")
    assert (refused.status, refused.out) == (1, "")
    assert refused.err.startswith("tugcode: E046: ")


def test_following_begins_before_there_is_anything_to_follow(desk):
    desk = desk("1 t", init=False)
    command = [*TUGCODE, "log", "--follow", "--json"]
    process = subprocess.Popen(command, cwd=desk.red, stdout=subprocess.PIPE, text=True)
    try:
        desk.ok("init", "work")
        assert next_kinds(process) == ["init"]
    finally:
        process.kill()
        process.communicate()
