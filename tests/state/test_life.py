"""The life of a step: start, complete, release, reset, reopen; and of a plan: pause, resume."""

import pytest

COMMIT = "a" * 40


def test_a_step_goes_from_pending_to_completed(lab):
    lab = lab("1 t", "2 t")
    assert lab.status("step-1") == "pending"
    lab.claim()
    assert lab.status("step-1") == "claimed"
    started = lab.start("step-1")
    assert (lab.status("step-1"), started["status"]) == ("in_progress", "in_progress")
    lab.tick("step-1", "t0")
    done = lab.complete("step-1", commit=COMMIT)
    row = lab.row("step-1")
    assert (row["status"], row["completed_by"], row["commit_hash"]) == ("completed", "red", COMMIT)
    assert row["claimed_by"] is row["lease_expires_at"] is row["complete_reason"] is None
    assert (done["remaining_steps"], done["plan_completed"]) == (1, False)
    assert lab.attempts("step-1")[0]["outcome"] == "completed"


def test_starting_an_own_started_step_again_is_success_and_a_sign_of_life(lab):
    lab = lab("1 t")
    lab.claim()
    first = lab.start("step-1")
    lab.clock.advance(30)
    again = lab.start("step-1")
    assert again["started_at"] == first["started_at"] == "2026-02-23T12:00:00.000Z"
    assert again["lease_expires_at"] == "2026-02-23T14:00:30.000Z"
    assert lab.events() == ["init", "claim", "start", "heartbeat"]


def test_complete_works_from_claimed_without_start(lab):
    lab = lab("1 t")
    lab.claim()
    lab.tick("step-1", "t0")
    assert lab.complete("step-1")["completed"] is True


def test_a_step_without_items_can_be_completed_at_once(lab):
    lab = lab("1")
    lab.claim()
    assert lab.complete("step-1")["plan_completed"] is True


def test_complete_is_strict_about_open_and_in_progress_and_lists_them(lab):
    lab = lab("1 ttec")
    lab.claim()
    lab.tick("step-1", "t0", status="in_progress")
    lab.tick("step-1", "c0")
    with pytest.raises(Exception, match="3 open items") as caught:
        lab.complete("step-1")
    assert caught.value.code == "E051"
    listed = {
        (item["kind"], item["ordinal"], item["status"]) for item in caught.value.facts["open"]
    }
    assert listed == {("task", 0, "in_progress"), ("task", 1, "open"), ("test", 0, "open")}
    with lab.refuses("E051"):
        lab.complete("step-1")


def test_only_substeps_items_open_is_a_refusal_of_its_own(lab):
    lab = lab("1 t", "1.1 t")
    lab.claim()
    with lab.refuses("E051"):
        lab.complete("step-1")
    lab.tick("step-1", "t0")
    with lab.refuses("E052", "step-1-1 task 0"):
        lab.complete("step-1")


def test_deferred_items_do_not_stand_in_the_way_and_stay_deferred(lab):
    lab = lab("1 tc")
    lab.claim()
    lab.tick("step-1", "t0")
    lab.update("step-1", {"kind": "checkpoint", "ordinal": 0, "status": "deferred", "reason": "r"})
    lab.complete("step-1")
    assert lab.items("step-1") == {"t0": "completed", "c0": "deferred"}


def test_force_closes_what_is_open_records_why_and_leaves_deferred_alone(lab):
    lab = lab("1 ttt", "1.1 t", "1.2 t")
    lab.claim()
    lab.tick("step-1", "t0")
    lab.update("step-1", {"kind": "task", "ordinal": 1, "status": "deferred", "reason": "later"})
    done = lab.complete("step-1", force_reason="good enough")
    assert (done["forced"], done["force_reason"]) == (True, "good enough")
    assert done["incomplete_items_auto_completed"] == 3
    assert lab.items("step-1") == {"t0": "completed", "t1": "deferred", "t2": "completed"}
    assert lab.item("step-1", "t0")["reason"] is None
    assert lab.item("step-1", "t1")["reason"] == "later"
    for where, item in (("step-1", "t2"), ("step-1-1", "t0"), ("step-1-2", "t0")):
        assert lab.item(where, item)["reason"] == "good enough"
    assert lab.row("step-1")["complete_reason"] == "good enough"
    assert lab.status("step-1-1") == lab.status("step-1-2") == "completed"
    assert lab.complete("step-1")["force_reason"] == "good enough"  # shows for ever


@pytest.mark.parametrize("reason", ["all was well", "", "  \n"])
def test_forced_is_true_only_if_force_closed_something(lab, reason):
    lab = lab("1 t")
    lab.claim()
    lab.tick("step-1", "t0")
    done = lab.complete("step-1", force_reason=reason)
    assert (done["forced"], done["force_reason"]) == (False, None)
    assert lab.row("step-1")["complete_reason"] is None


def test_a_blank_reason_forces_nothing(lab):
    lab = lab("1 t")
    lab.claim()
    with lab.refuses("E051"):
        lab.complete("step-1", force_reason=" ")


def test_completing_again_is_success_for_anyone_and_changes_nothing(lab):
    lab = lab("1 t", "2 t")
    lab.finish("step-1")
    lab.clock.advance(60)
    for owner in ("red", "blue"):
        with lab.unchanged():
            done = lab.complete("step-1", owner, commit=COMMIT)
        assert (done["already_completed"], done["completed"]) == (True, True)
        assert done["commit_hash"] is None


def test_the_last_step_makes_the_plan_done(lab):
    lab = lab("1 t", "2 t")
    assert lab.finish("step-2")["plan_completed"] is False
    done = lab.finish("step-1")
    assert (done["plan_completed"], done["remaining_steps"]) == (True, 0)
    assert lab.plan()["status"] == "done"


@pytest.mark.parametrize("how", ["release", "reset"])
@pytest.mark.parametrize("started", [False, True])
def test_release_and_reset_send_a_step_back_with_its_unfinished_substeps(lab, how, started):
    lab = lab("1 tttt", "1.1 tt", "1.2 t", "2 t < 1")
    lab.claim()
    if started:
        lab.start("step-1-1")
    lab.tick("step-1", "t0")
    lab.tick("step-1", "t1", status="in_progress")
    lab.tick("step-1", "t2", status="deferred")
    lab.tick("step-1-1", "t0")
    lab.tick("step-1-1", "t1", status="in_progress")
    lab.tick("step-1-2", "t0", status="deferred")
    answer = lab.release("step-1") if how == "release" else lab.reset("step-1")
    assert answer["was_claimed_by"] == "red"
    assert lab.items("step-1") == {"t0": "completed", "t1": "open", "t2": "open", "t3": "open"}
    assert lab.items("step-1-1") == {"t0": "completed", "t1": "open"}
    # A completed substep is finished: its deferred item is nobody's business here.
    assert lab.items("step-1-2") == {"t0": "deferred"}
    statuses = {step: lab.status(step) for step in ("step-1", "step-1-1", "step-1-2")}
    assert statuses == {"step-1": "pending", "step-1-1": "pending", "step-1-2": "completed"}
    for step in ("step-1", "step-1-1"):
        row = lab.row(step)
        assert row["claimed_by"] is row["lease_expires_at"] is row["started_at"] is None
    assert lab.item("step-1", "t2")["reason"] is None
    ended = lab.attempts("step-1")[0]
    assert ended["outcome"] == ("released" if how == "release" else "reset")


def test_release_is_the_owner_s_or_forced(lab):
    lab = lab("1 t")
    lab.claim()
    with lab.refuses("E049", "held by red, not by blue"):
        lab.release("step-1", "blue")
    freed = lab.release("step-1", "blue", force=True)
    assert (freed["released"], freed["was_claimed_by"]) == (True, "red")


@pytest.mark.parametrize("force", [False, True])
def test_release_of_a_pending_or_completed_step_is_refused_forced_or_not(lab, force):
    lab = lab("1 t", "1.1 t")
    with lab.refuses("E050", "step-1 is pending"):
        lab.release("step-1", force=force)
    lab.claim()
    with lab.refuses("E050", "step-1-1 is a substep"):
        lab.release("step-1-1", force=force)
    lab.close("step-1")
    lab.complete("step-1")
    with lab.refuses("E050", "step-1 is completed"):
        lab.release("step-1", force=force)


def test_reset_asks_for_no_owner_and_of_a_pending_step_is_success(lab):
    lab = lab("1 t", "2 t")
    with lab.unchanged():
        assert lab.reset("step-1")["reset"] is False
    lab.claim("red")
    answer = lab.reset("step-1")
    assert (answer["reset"], answer["was_claimed_by"], answer["unparked"]) == (True, "red", False)
    lab.finish("step-2")
    with lab.refuses("E050", "step-2 is completed"):
        lab.reset("step-2")


def test_reopen_sends_a_completed_step_back_with_its_items_open(lab):
    lab = lab("1 tt", "1.1 t", "2 t < 1.1")
    lab.claim()
    lab.update("step-1", {"kind": "task", "ordinal": 0, "status": "deferred", "reason": "later"})
    lab.close("step-1")
    lab.complete("step-1", commit=COMMIT)
    assert lab.row("step-2")["open_deps"] == 0
    answer = lab.reopen("step-1", reason="reverted")
    assert (answer["reopened"], answer["was_commit"]) == (True, COMMIT)
    assert (answer["plan_status"], answer["dependents"]) == ("active", [])
    assert lab.items("step-1") == {"t0": "open", "t1": "open"}
    assert lab.item("step-1", "t0")["reason"] is None
    assert lab.status("step-1") == lab.status("step-1-1") == "pending"
    row = lab.row("step-1")
    assert row["commit_hash"] is row["completed_by"] is row["completed_at"] is None
    assert lab.row("step-2")["open_deps"] == 1
    assert lab.claim("blue")["anchor"] == "step-1"


def test_reopen_makes_a_done_plan_active(lab):
    lab = lab("1 t")
    lab.finish("step-1")
    assert lab.reopen("step-1")["plan_status"] == "active"
    assert lab.plan()["status"] == "active"


@pytest.mark.parametrize("dependent", ["2 t < 1", "2 t < 1.1", "2.1 t < 1"])
@pytest.mark.parametrize("how_far", ["claimed", "completed"])
def test_reopen_is_refused_while_others_are_built_on_it_unless_forced(lab, dependent, how_far):
    lines = ["2 t", dependent] if dependent.startswith("2.1") else [dependent]
    lab = lab("1 t", "1.1 t", *lines, "3 t < 2")
    lab.finish("step-1")
    lab.claim("blue", "step-2")
    if how_far == "completed":
        lab.close("step-2", "blue")
        lab.complete("step-2", "blue")
    with lab.refuses("E053", "has dependents that build on it: step-2"):
        lab.reopen("step-1")
    assert lab.reopen("step-1", force=True)["dependents"] == ["step-2"]
    expected = "claimed" if how_far == "claimed" else "completed"
    assert lab.status("step-2") == expected


def test_reopen_looks_at_direct_dependents_only(lab):
    lab = lab("1 t", "2 t < 1", "3 t < 2")
    for step in ("step-1", "step-2", "step-3"):
        lab.finish(step)
    lab.reopen("step-2", force=True)
    assert lab.reopen("step-1")["dependents"] == []


def test_a_step_s_own_substeps_are_not_built_on_it(lab):
    lab = lab("1 t", "1.1 t", "1.2 t < 1.1")
    lab.finish("step-1")
    assert lab.reopen("step-1")["dependents"] == []
    assert lab.status("step-1-2") == "pending"


def test_reopen_takes_completed_steps_only(lab):
    lab = lab("1 t", "1.1 t")
    with lab.refuses("E050", "step-1 is pending"):
        lab.reopen("step-1")
    lab.claim()
    with lab.refuses("E050", "step-1 is claimed"):
        lab.reopen("step-1")
    lab.tick("step-1-1", "t0")
    with lab.refuses("E050", "step-1-1 is a substep"):
        lab.reopen("step-1-1")


def test_a_holder_may_finish_though_its_dependency_was_reopened(lab):
    lab = lab("1 t", "2 t < 1")
    lab.finish("step-1")
    lab.claim("blue", "step-2")
    lab.reopen("step-1", force=True)
    lab.start("step-2", "blue")
    lab.close("step-2", "blue")
    assert lab.complete("step-2", "blue")["completed"] is True


def test_while_paused_nothing_new_is_claimed_and_holders_finish(lab):
    lab = lab("1 t", "2 t")
    lab.claim()
    paused = lab.pause()
    assert (paused["paused"], paused["changed"]) == (True, True)
    assert paused["paused_at"] == "2026-02-23T12:00:00.000Z"
    assert lab.claim("blue")["reason"] == "paused"
    # Not even one's own again.
    assert lab.claim("red")["reason"] == "paused"
    lab.start("step-1")
    lab.close("step-1")
    lab.complete("step-1")
    lab.clock.advance(5)
    with lab.unchanged():
        again = lab.pause()
    assert (again["changed"], again["paused_at"]) == (False, "2026-02-23T12:00:00.000Z")
    assert lab.resume() == {
        "plan_path": ".tugtool/tugplan-work.md",
        "paused": False,
        "paused_at": None,
        "changed": True,
        "reason": None,
    }
    assert lab.claim("blue")["anchor"] == "step-2"


def test_a_done_plan_is_not_paused(lab):
    lab = lab("1 t")
    lab.finish("step-1")
    with lab.refuses("E050", "tugplan-work.md is done; only an active plan"):
        lab.pause()
    with lab.unchanged():
        assert lab.resume()["changed"] is False


def test_a_claim_that_was_interrupted_does_not_count_and_parks_nothing(lab):
    lab = lab("1 t")
    for _ in range(3):
        assert lab.claim("red", max_attempts=2)["claimed"]
        lab.release("step-1", interrupted=True)
        row = lab.row("step-1")
        assert (row["claims_without_progress"], row["parked_at"]) == (0, None)
    lab.claim("red", max_attempts=2)
    lab.release("step-1")
    lab.claim("red", max_attempts=2)
    assert lab.row("step-1")["parked_at"] is not None
    lab.release("step-1", interrupted=True)
    row = lab.row("step-1")
    # The claim that was interrupted had parked it; the one before still counts.
    assert (row["claims_without_progress"], row["parked_at"], row["park_reason"]) == (1, None, None)
    assert lab.ready()["ready_steps"] == ["step-1"]


def test_what_the_last_attempt_failed_of_is_part_of_why_a_step_is_parked(lab):
    lab = lab("1 t")
    lab.claim("red", max_attempts=1)
    lab.release("step-1", failure="the coder failed: no such program")
    said = "1 claim without progress; the last attempt failed: the coder failed: no such program"
    assert lab.row("step-1")["park_reason"] == said
