"""Leases, clocks, and holders that are provably gone."""

import os
import signal
import subprocess
import sys

import pytest

from support.state import KEY, NOON
from tugtool import state
from tugtool.plan import parser
from tugtool.state.claims import Request
from tugtool.state.record import PlanCopy
from tugtool.store import open_store
from tugtool.system import clock as clocks
from tugtool.system import process as system_process

LONG = 10 * 365 * 86400


@pytest.mark.parametrize(
    "write",
    [
        lambda lab: lab.start("step-1"),
        lambda lab: lab.start("step-1-1"),
        lambda lab: lab.beat("step-1"),
        lambda lab: lab.beat("step-1-1"),
        lambda lab: lab.tick("step-1", "t0"),
        lambda lab: lab.tick("step-1-1", "t0"),
        lambda lab: lab.update("step-1", every=[{"kind": "test", "status": "open"}]),
        lambda lab: lab.artifact("step-1"),
        lambda lab: lab.artifact("step-1-1"),
        lambda lab: lab.complete("step-1-2"),
    ],
)
def test_every_write_of_the_owner_renews_by_the_attempt_s_own_duration(lab, write):
    lab = lab("1 t", "1.1 t", "1.2")
    lab.claim(lease_seconds=90)
    lab.clock.advance(60)
    write(lab)
    row = lab.row("step-1")
    assert row["lease_expires_at"] == "2026-02-23T12:02:30.000Z"
    assert row["heartbeat_at"] == "2026-02-23T12:01:00.000Z"
    assert lab.attempts("step-1")[0]["seen_at"] == "2026-02-23T12:01:00.000Z"
    lab.clock.advance(60)
    assert lab.claim("blue")["claimed"] is False


def test_a_heartbeat_may_set_a_new_duration_for_all_that_follows(lab):
    lab = lab("1 t", "1.1 t")
    lab.claim()
    assert lab.beat("step-1-1", lease_seconds=30)["lease_expires_at"] == "2026-02-23T12:00:30.000Z"
    lab.tick("step-1", "t0")
    assert lab.row("step-1")["lease_expires_at"] == "2026-02-23T12:00:30.000Z"
    assert lab.row("step-1-1")["lease_expires_at"] == "2026-02-23T12:00:30.000Z"
    assert lab.attempts("step-1")[0]["lease_seconds"] == 30


def test_reads_are_no_sign_of_life(lab):
    lab = lab("1 t")
    lab.claim()
    lab.clock.advance(60)
    with lab.unchanged():
        lab.show()
        lab.ready()


def test_an_owner_whose_lease_has_run_out_may_write_until_somebody_takes_the_step(lab):
    lab = lab("1 tt")
    lab.claim(lease_seconds=1)
    lab.clock.advance(100)
    lab.tick("step-1", "t0")
    assert lab.claim("blue")["claimed"] is False  # the write renewed it
    lab.clock.advance(100)
    lab.claim("blue")
    with lab.refuses("E049", "held by blue, not by red"):
        lab.tick("step-1", "t1")


@pytest.mark.parametrize("seconds", [0.001, 1, LONG, clocks.LONGEST_SECONDS])
def test_leases_from_a_millisecond_to_a_century_end_when_they_should(lab, seconds):
    lab = lab("1 t")
    until = lab.claim(lease_seconds=seconds)["lease_expires_at"]
    assert until == clocks.text(NOON + round(seconds * 1000))
    assert len(until) == 24
    lab.clock.advance(seconds)
    assert lab.claim("blue")["claimed"] is False
    lab.clock.advance(0.001)
    assert lab.claim("blue")["claimed"] is True


@pytest.mark.parametrize("hours", [-5, 5])
def test_no_clock_change_gives_a_step_two_owners_whose_writes_both_count(lab, hours):
    lab = lab("1 tt")
    old = lab.claim("red")["attempt"]
    lab.clock.advance(hours * 3600)
    got = lab.claim("blue")
    assert got["claimed"] is (hours > 0)
    if hours > 0:
        with lab.refuses("E060"):
            lab.tick("step-1", "t0", attempt=old)
        with lab.refuses("E049"):
            lab.tick("step-1", "t0")
        lab.tick("step-1", "t0", owner="blue", attempt=got["attempt"])
    else:
        lab.tick("step-1", "t0", attempt=old)
        # Renewed by the clock as it is now, however far it was set back.
        assert lab.row("step-1")["lease_expires_at"] == "2026-02-23T09:00:00.000Z"


def test_an_expired_claim_is_both_expired_and_ready_and_a_live_one_neither(lab):
    lab = lab("1 t", "2 t", "3 t < 1")
    lab.claim("red", "step-1", lease_seconds=1)
    lab.claim("blue", "step-2")
    lab.clock.advance(2)
    assert lab.ready() == {
        "plan_path": KEY,
        "ready_steps": ["step-1"],
        "all_steps": ["step-1", "step-2", "step-3"],
        "completed_steps": [],
        "blocked_steps": ["step-3"],
        "claimed_steps": ["step-2"],
        "expired_claims": ["step-1"],
        "parked_steps": [],
    }
    shown = {step["anchor"]: step["lease_expired"] for step in lab.show()["steps"]}
    assert shown == {"step-1": True, "step-2": False, "step-3": False}


def test_a_step_that_is_taken_over_is_not_among_those_that_remain_ready(lab):
    lab = lab("1 t", "2 t < 1")
    lab.claim("red", lease_seconds=1)
    lab.clock.advance(2)
    got = lab.claim("blue")
    assert (got["anchor"], got["reclaimed"], got["remaining_ready"]) == ("step-1", True, 0)


def test_an_expired_claim_that_is_blocked_again_is_not_ready(lab):
    lab = lab("1 t", "2 t < 1")
    lab.finish("step-1")
    lab.claim("blue", "step-2", lease_seconds=1)
    lab.reopen("step-1", force=True)
    lab.clock.advance(2)
    lists = lab.ready()
    assert (lists["expired_claims"], lists["ready_steps"]) == (["step-2"], ["step-1"])
    assert lab.claim("green")["remaining_ready"] == 0


def test_a_lease_really_expires_by_the_machine_s_clock(tmp_path):
    """No clock is set here: claim again and again until it succeeds, and count the refusals."""
    store = open_store(f"sqlite://{tmp_path}/state.db")
    text = "### Step 1: Only\n- [ ] it\n"
    state.init(store, KEY, parser.parse(text), text=text, hash="h")
    copy = PlanCopy("p", "h")
    first = state.claim(store, KEY, Request("red", lease_seconds=1), copy=copy)
    refusals = 0
    while not (got := state.claim(store, KEY, Request("blue"), copy=copy))["claimed"]:
        refusals += 1
    store.close()
    assert refusals > 0
    assert (got["reclaimed_from_expired"], got["attempt"]) == (True, 2)
    assert got["previous_attempt"]["ended_at"] > first["lease_expires_at"]


@pytest.fixture
def process():
    """A real process that lives until it is told otherwise."""
    started = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    yield started
    started.kill()
    started.wait()
    started.stdin.close()


def end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()


def test_a_step_whose_holder_has_died_goes_to_the_next_caller_at_once(lab, process):
    lab = lab("1 t", "2 t < 1")
    lab.claim(holder_pid=process.pid)
    assert lab.claim("blue")["claimed"] is False
    assert lab.ready()["claimed_steps"] == ["step-1"]
    end(process)
    lists = lab.ready()
    assert (lists["expired_claims"], lists["ready_steps"]) == (["step-1"], ["step-1"])
    got = lab.claim("blue")
    assert (got["claimed"], got["reclaimed"], got["reclaimed_from_expired"]) == (True, True, False)
    assert lab.attempts("step-1")[0]["outcome"] == "dead"


def test_a_killed_holder_that_nobody_has_reaped_yet_is_gone_too(lab, process):
    lab = lab("1 t")
    lab.claim(holder_pid=process.pid)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and still a zombie
    assert lab.claim("blue", "step-1")["claimed"] is True


def test_a_holder_that_is_stopped_lives_and_keeps_its_step(lab, process):
    lab = lab("1 t")
    lab.claim(holder_pid=process.pid)
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    assert lab.claim("blue")["claimed"] is False
    assert (lab.ready()["claimed_steps"], lab.ready()["expired_claims"]) == (["step-1"], [])
    with lab.refuses("E053"):
        lab.claim("blue", "step-1")
    process.send_signal(signal.SIGCONT)


def test_a_dead_holder_s_step_counts_among_those_that_remain_ready(lab, process):
    lab = lab("1 t", "2 t")
    lab.claim("red", "step-2", holder_pid=process.pid)
    end(process)
    assert lab.claim("blue")["remaining_ready"] == 1


def test_a_dead_holder_s_step_is_not_taken_when_it_is_blocked_or_parked(lab, process):
    lab = lab("1 t", "2 t")
    lab.claim("red", "step-1", holder_pid=process.pid, max_attempts=1)
    end(process)
    got = lab.claim("blue")
    assert (got["anchor"], got["remaining_ready"]) == ("step-2", 0)


def test_a_reused_process_id_is_told_by_its_start(lab, process):
    lab = lab("1 t")
    lab.claim(holder_pid=process.pid)
    with lab.store.write(KEY) as tx:
        tx.run("update attempts set holder_start = '1' where plan_path = :plan")
    assert lab.claim("blue")["claimed"] is True


@pytest.mark.parametrize("column", ["boot", "pid_namespace"])
def test_what_another_boot_or_namespace_wrote_down_proves_nothing(lab, process, column):
    lab = lab("1 t")
    lab.claim(holder_pid=process.pid)
    end(process)
    with lab.store.write(KEY) as tx:
        tx.run(f"update attempts set {column} = 'elsewhere' where plan_path = :plan")
    assert lab.claim("blue")["claimed"] is False
    lab.clock.advance(7201)
    assert lab.claim("blue")["claimed"] is True


def test_without_a_holder_nothing_is_recorded_or_guessed(lab):
    lab = lab("1 t")
    lab.claim()
    attempt = lab.attempts("step-1")[0]
    recorded = ("host", "boot", "pid_namespace", "holder_pid", "holder_start")
    assert {attempt[key] for key in recorded} == {None}


def test_with_a_holder_its_place_and_start_are_recorded(lab, process):
    lab = lab("1 t")
    lab.claim(holder_pid=process.pid)
    attempt = lab.attempts("step-1")[0]
    assert {
        key: attempt[key] for key in ("host", "boot", "pid_namespace")
    } == system_process.machine_identity()
    assert attempt["holder_start"] == system_process.start_time(process.pid)


def test_a_holder_that_was_dead_from_the_start_holds_nothing(lab, process):
    lab = lab("1 t")
    end(process)
    lab.claim(holder_pid=process.pid)
    assert lab.claim("blue")["claimed"] is True


def test_only_leases_that_a_clock_ahead_gave_last_from_now_on(lab):
    lab = lab("1 t", "1.1 t", "2 t", "3 t", "4 t")
    state.init(lab.store, "other.md", parser.parse(lab.text), text=lab.text, hash=lab.hash)
    lab.clock.advance(3600)
    lab.claim("red", "step-1", lease_seconds=60)
    lab.finish("step-2")
    lab.claim("red", "step-3")
    lab.release("step-3")
    state.claim(lab.store, "other.md", Request("blue", max_attempts=5), copy=lab.copy)
    lab.clock.advance(-3600)
    lab.claim("green", "step-4", lease_seconds=60)
    assert state.judge_from_now(lab.store, KEY) == ["step-1"]
    until = clocks.milliseconds(lab.row("step-1")["lease_expires_at"])
    assert until == lab.clock.now + 60_000
    assert state.judge_from_now(lab.store, KEY) == []
