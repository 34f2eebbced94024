"""Attempts as fencing tokens, requests that are repeated, and steps that are parked."""

import pytest

from support.state import KEY, entry
from tugtool.state.record import PlanCopy
from tugtool.store import open_store

OWNER_COMMANDS = ("start", "beat", "tick", "artifact", "complete", "release")


def call(lab, command: str, step: str = "step-1", **how):
    words = ("t0",) if command == "tick" else ()
    return getattr(lab, command)(step, *words, **how)


@pytest.mark.parametrize("command", OWNER_COMMANDS)
def test_a_superseded_attempt_can_change_nothing_though_the_worktree_is_the_same(lab, command):
    lab = lab("1 t", "1.1 t")
    assert lab.claim()["attempt"] == 1
    assert lab.claim()["attempt"] == 2
    for step in ("step-1", "step-1-1"):
        with lab.refuses("E060", "attempt 1 at step step-1", "attempt 2 is current"):
            call(lab, command, step, attempt=1)
    with lab.refuses("E060"):
        call(lab, command, attempt=3)


@pytest.mark.parametrize("attempt", [2, None])
@pytest.mark.parametrize("command", OWNER_COMMANDS)
def test_the_current_attempt_counts_and_none_at_all_compares_the_worktree(lab, command, attempt):
    lab = lab("1 t")
    lab.claim()
    lab.claim()
    if command == "complete":
        lab.tick("step-1", "t0")
    assert call(lab, command, attempt=attempt)["attempt"] == 2


@pytest.mark.parametrize("how", ["release", "reset"])
@pytest.mark.parametrize("command", OWNER_COMMANDS)
def test_an_attempt_that_is_the_last_one_but_has_ended_is_no_claim(lab, command, how):
    lab = lab("1 t")
    lab.claim()
    lab.release("step-1") if how == "release" else lab.reset("step-1")
    with lab.refuses("E050", "step-1 is pending; it has to be claimed first"):
        call(lab, command, attempt=1)


@pytest.mark.parametrize("command", ["start", "beat", "tick", "release"])
def test_on_a_completed_step_the_attempt_is_compared_first_and_then_it_is_completed(lab, command):
    lab = lab("1 t")
    lab.claim()
    lab.claim()
    lab.close("step-1")
    lab.complete("step-1", attempt=2)
    with lab.refuses("E060"):
        call(lab, command, attempt=1)
    with lab.refuses("E050", "completed"):
        call(lab, command, attempt=2)
    with lab.refuses("E060"):
        lab.complete("step-1", attempt=1)
    assert lab.complete("step-1", attempt=2)["already_completed"] is True


def test_the_attempt_is_never_reset(lab):
    lab = lab("1 t")
    numbers = [lab.claim()["attempt"]]
    lab.release("step-1")
    numbers.append(lab.claim()["attempt"])
    lab.reset("step-1")
    numbers.append(lab.claim()["attempt"])
    lab.close("step-1")
    lab.complete("step-1")
    lab.reopen("step-1")
    numbers.append(lab.claim()["attempt"])
    assert numbers == [1, 2, 3, 4]
    outcomes = [attempt["outcome"] for attempt in lab.attempts("step-1")]
    assert outcomes == ["released", "reset", "completed", None]


def test_a_request_that_is_repeated_gets_the_same_claim_and_opens_nothing(lab):
    lab = lab("1 t", "2 t")
    first = lab.claim(request_id="r1")
    lab.clock.advance(60)
    with lab.unchanged():
        again = lab.claim(request_id="r1")
    assert again == {**first, "replayed": True}
    assert lab.claim("red", "step-2", request_id="r2")["anchor"] == "step-2"


def test_a_repeated_request_also_tells_again_that_it_was_a_reclaim(lab):
    lab = lab("1 t")
    lab.claim("blue", lease_seconds=1)
    lab.clock.advance(2)
    first = lab.claim(request_id="r1")
    assert (first["reclaimed"], first["reclaimed_from_expired"]) == (True, True)
    assert lab.claim(request_id="r1") == {**first, "replayed": True}


def test_a_repeated_request_shows_the_claim_as_it_is_now(lab):
    lab = lab("1 t")
    lab.claim(request_id="r1")
    lab.clock.advance(60)
    lab.beat("step-1")
    assert lab.claim(request_id="r1")["lease_expires_at"] == "2026-02-23T14:01:00.000Z"


def test_a_repeated_request_is_answered_while_paused_and_though_the_plan_changed(lab):
    lab = lab("1 t")
    lab.claim(request_id="r1")
    lab.pause()
    changed = PlanCopy("/the/plan.md", "0" * 64)
    with lab.unchanged():
        assert lab.claim(request_id="r1")["claimed"] is True
        assert lab.claim(request_id="r1", copy=changed)["claimed"] is True
    assert lab.claim(request_id="r2")["reason"] == "paused"


@pytest.mark.parametrize("end", ["release", "reset", "complete", "reclaim"])
def test_a_request_whose_attempt_has_ended_is_superseded(lab, end):
    lab = lab("1 t")
    lab.claim(request_id="r1")
    if end == "complete":
        lab.close("step-1")
        lab.complete("step-1")
    elif end == "reclaim":
        lab.claim("blue", force=True)
    else:
        lab.release("step-1") if end == "release" else lab.reset("step-1")
    with lab.refuses("E060"):
        lab.claim(request_id="r1")


def test_a_request_id_belongs_to_plan_and_worktree(lab):
    lab = lab("1 t", "2 t")
    lab.claim("red", request_id="r1")
    other = lab.claim("blue", request_id="r1")
    assert (other["anchor"], other["replayed"]) == ("step-2", False)


def test_an_unknown_step_is_said_before_a_request_is_looked_up(lab):
    lab = lab("1 t")
    lab.claim(request_id="r1")
    lab.release("step-1")
    with lab.refuses("E059"):
        lab.claim("red", "step-9", request_id="r1")


def test_max_attempts_claims_without_progress_park_the_step(lab):
    lab = lab("1 t", "2 t", max_attempts=3)
    for n in (1, 2, 3):
        lab.claim("red", "step-1")
        assert lab.row("step-1")["claims_without_progress"] == n
        assert (lab.row("step-1")["parked_at"] is not None) == (n == 3)
        if n < 3:
            lab.release("step-1")
    # Its own step at the limit is passed over, but stays held.
    assert lab.claim("red")["anchor"] == "step-2"
    assert lab.row("step-1")["claimed_by"] == "red"
    with lab.refuses("E067", "step-1 is parked", "3 claims without progress"):
        lab.claim("red", "step-1")
    assert lab.ready()["parked_steps"] == ["step-1"]
    assert lab.claim("blue")["parked_steps"] == ["step-1"]


def test_a_parked_step_whose_holder_is_lost_is_not_handed_out_again(lab):
    lab = lab("1 t", max_attempts=1)
    lab.claim(lease_seconds=1)
    lab.clock.advance(5)
    assert lab.claim("blue")["claimed"] is False
    lists = lab.ready()
    assert lists["parked_steps"] == ["step-1"]
    assert lists["ready_steps"] == lists["expired_claims"] == lists["claimed_steps"] == []


@pytest.mark.parametrize("progress", ["item", "substep"])
def test_progress_takes_the_count_to_zero_and_unparks(lab, progress):
    lab = lab("1 t", "1.1", max_attempts=1)
    lab.claim()
    assert lab.row("step-1")["parked_at"] is not None
    lab.tick("step-1", "t0") if progress == "item" else lab.complete("step-1-1")
    row = lab.row("step-1")
    assert (row["claims_without_progress"], row["parked_at"], row["park_reason"]) == (0, None, None)
    lab.release("step-1")
    assert lab.claim("blue")["anchor"] == "step-1"


@pytest.mark.parametrize("status", ["deferred", "in_progress", "open"])
def test_a_deferral_or_a_beginning_is_no_progress(lab, status):
    lab = lab("1 t", max_attempts=2)
    lab.claim()
    lab.tick("step-1", "t0", status=status)
    assert lab.row("step-1")["claims_without_progress"] == 1


def test_an_item_that_was_completed_before_is_no_progress(lab):
    lab = lab("1 tt")
    lab.claim()
    lab.tick("step-1", "t0")
    lab.claim()
    lab.tick("step-1", "t0")
    assert lab.row("step-1")["claims_without_progress"] == 1


def test_reset_frees_a_parked_step_held_or_not_and_zeroes_the_count(lab):
    lab = lab("1 t", max_attempts=1)
    lab.claim()
    held = lab.reset("step-1")
    assert (held["reset"], held["unparked"]) == (True, True)
    assert lab.row("step-1")["claims_without_progress"] == 0
    lab.claim()
    lab.release("step-1")
    assert lab.row("step-1")["parked_at"] is not None  # giving it back frees nothing
    free = lab.reset("step-1")
    assert (free["reset"], free["unparked"]) == (False, True)
    assert lab.row("step-1")["claims_without_progress"] == 0
    assert lab.claim("blue")["claimed"] is True


def test_reset_zeroes_the_count_of_a_step_that_is_not_parked_yet(lab):
    lab = lab("1 t", max_attempts=3)
    lab.claim()
    lab.release("step-1")
    answer = lab.reset("step-1")
    assert (answer["reset"], answer["unparked"]) == (False, False)
    assert lab.row("step-1")["claims_without_progress"] == 0


def test_release_with_a_reason_parks_at_once(lab):
    lab = lab("1 t", "2 t")
    lab.claim()
    assert lab.release("step-1", park_reason="no access")["parked"] is True
    assert lab.claim("blue")["anchor"] == "step-2"
    with lab.refuses("E067", "no access"):
        lab.claim("red", "step-1")


def test_parked_is_said_before_held_or_blocked(lab):
    lab = lab("1 t", "2 t < 1", max_attempts=1)
    lab.claim("red", "step-1")
    with lab.refuses("E067"):
        lab.claim("blue", "step-1")
    lab.close("step-1")
    lab.complete("step-1")
    lab.claim("red", "step-2")
    lab.release("step-2")
    lab.reopen("step-1")
    with lab.refuses("E067"):
        lab.claim("blue", "step-2")
    lists = lab.ready()
    assert (lists["parked_steps"], lists["blocked_steps"]) == (["step-2"], [])


def test_reopen_zeroes_the_count(lab):
    lab = lab("1 t", max_attempts=2)
    lab.claim()
    lab.close("step-1")
    lab.complete("step-1")
    lab.reopen("step-1")
    assert lab.row("step-1")["claims_without_progress"] == 0


def test_a_repeated_update_of_a_superseded_attempt_never_counts_from_another_connection(lab):
    """Two sessions in one worktree, each with its own connection and its own attempt."""
    lab = lab("1 tt")
    old = lab.claim()["attempt"]
    new = lab.claim()["attempt"]
    first, second = lab.store, open_store(lab.url, clock=lab.clock)
    lab.store = second
    lab.update("step-1", entry("t0"), attempt=new)
    lab.store = first
    with lab.refuses("E060"):
        lab.update("step-1", entry("t1"), attempt=old)
    second.close()
    assert lab.rows("select count(*) as n from attempts where plan_path = :p", p=KEY)[0]["n"] == 2
