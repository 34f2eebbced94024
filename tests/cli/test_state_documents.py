"""What the design documents promise: the JSON examples of document 1, the tests of 3 and 5."""

import pytest

from support.state import KEY, entry

# -- document 1: every JSON example, field for field -----------------------------------

FIVE = ("0 ttttt", "1 tttttt", "2 ttt < 1", "3 tttt < 1", "4 ttttt < 0")


def holds(answer: dict, example: dict) -> None:
    assert {key: answer.get(key, "missing") for key in example} == example


def test_document_1_init(desk):
    desk = desk(*FIVE, init=False)
    answer = desk.ok("init", "work")
    expected = {
        "plan_path": KEY,
        "steps_created": 5,
        "checklist_items_created": 23,
        "already_initialized": False,
    }
    holds(answer, expected)
    assert len(answer["plan_hash"]) == 64


def test_document_1_claim_a_step_was_found(lab):
    lab = lab("0 t", "1 t", "2 t", "3 t < 0")
    expected = {
        "claimed": True,
        "step_anchor": "step-0",
        "step_title": "Part 0",
        "step_index": 0,
        "remaining_ready": 2,
        "total_remaining": 4,
        "lease_expires_at": "2026-02-23T14:00:00.000Z",
        "reclaimed_from_expired": False,
    }
    holds(lab.claim(), expected)


def test_document_1_claim_no_steps_are_ready(lab):
    lab = lab("0 t", "1 t", "2 t < 1", "3 t < 1")
    lab.finish("step-0")
    lab.claim()
    expected = {
        "claimed": False,
        "reason": "no_ready_steps",
        "all_completed": False,
        "blocked_steps": ["step-2", "step-3"],
    }
    holds(lab.claim("blue"), expected)


def test_document_1_claim_all_is_done(lab):
    lab = lab("0 t")
    lab.finish("step-0")
    holds(lab.claim(), {"claimed": False, "reason": "all_completed"})


def test_document_1_heartbeat(lab):
    lab = lab("0 t")
    lab.claim()
    lab.clock.advance(60)
    expected = {
        "renewed": True,
        "step_anchor": "step-0",
        "lease_expires_at": "2026-02-23T14:01:00.000Z",
    }
    holds(lab.beat("step-0"), expected)


def test_document_1_update(lab):
    lab = lab("0 ttt" + "e" + "cc")
    lab.claim()
    answer = lab.update("step-0", every=[{"kind": "task", "status": "completed"}])
    # Each count has `deferred` beside them, says the specification.
    expected = {
        "updated": 3,
        "step_anchor": "step-0",
        "tasks": {"open": 0, "in_progress": 0, "completed": 3, "deferred": 0},
        "tests": {"open": 1, "in_progress": 0, "completed": 0, "deferred": 0},
        "checkpoints": {"open": 2, "in_progress": 0, "completed": 0, "deferred": 0},
    }
    holds(answer, expected)


def test_document_1_artifact(lab):
    lab = lab("0 t")
    lab.claim()
    expected = {
        "recorded": True,
        "step_anchor": "step-0",
        "kind": "architect_strategy",
        "artifact_id": 1,
    }
    holds(lab.artifact("step-0", kind="architect_strategy"), expected)


def test_document_1_complete(lab):
    lab = lab("0 t", "1 t", "2 t", "3 t")
    lab.claim()
    lab.close("step-0")
    expected = {
        "completed": True,
        "step_anchor": "step-0",
        "commit_hash": "c" * 40,
        "forced": False,
        "force_reason": None,
        "incomplete_items_auto_completed": 0,
        "plan_completed": False,
        "remaining_steps": 3,
    }
    holds(lab.complete("step-0", commit="c" * 40), expected)


def test_document_1_ready(lab):
    lab = lab("0 t", "1 t < 0", "2 t < 1", "3 t < 0", "4 t")
    lab.claim("gone", "step-4", lease_seconds=1)
    lab.finish("step-0")
    lab.clock.advance(2)
    expected = {
        # An expired claim is also ready, says the specification.
        "ready_steps": ["step-1", "step-3", "step-4"],
        "all_steps": ["step-0", "step-1", "step-2", "step-3", "step-4"],
        "completed_steps": ["step-0"],
        "blocked_steps": ["step-2"],
        "expired_claims": ["step-4"],
    }
    holds(lab.ready(), expected)


# -- document 3: interrupted sessions --------------------------------------------------


def test_document_3_auto_reclaim_from_the_same_worktree_without_waiting_for_expiry(lab):
    lab = lab("1 t")
    lab.claim()
    assert lab.claim()["reclaimed"] is True


@pytest.mark.parametrize("again", ["auto_reclaim", "force_claim"])
def test_document_3_a_different_worktree_before_expiry_finds_no_ready_steps(lab, again):
    lab = lab("1 t")
    lab.claim()
    assert lab.claim("blue")["reason"] == "no_ready_steps"


def test_document_3_auto_reclaim_resets_items_of_non_completed_substeps(lab):
    lab = lab("1", "1.1 tt", "1.2 t")
    lab.claim()
    lab.tick("step-1-1", "t0", status="in_progress")
    lab.tick("step-1-2", "t0")
    lab.claim()
    assert lab.items("step-1-1") == {"t0": "open", "t1": "open"}
    assert lab.status("step-1-2") == "completed"


def test_document_3_release_with_the_correct_worktree_returns_the_step_to_pending(desk):
    desk = desk("1 t")
    desk.ok("claim", "work")
    answer = desk.ok("release", "work", "step-1", "--worktree", desk.red, at=desk.blue)
    expected = {"plan_path": KEY, "anchor": "step-1", "released": True}
    holds(answer, {**expected, "was_claimed_by": str(desk.red.resolve())})
    assert desk.ok("claim", "work", at=desk.blue)["claimed"] is True


def test_document_3_release_with_the_wrong_worktree_is_an_ownership_violation(desk):
    desk = desk("1 t")
    desk.ok("claim", "work")
    refused = desk.json("release", "work", "step-1", at=desk.blue)
    assert (refused.status, refused.codes) == (4, ["E049"])


def test_document_3_release_with_force_succeeds_regardless_of_the_worktree(desk):
    desk = desk("1 t")
    desk.ok("claim", "work")
    assert desk.ok("release", "work", "step-1", "--force", at=desk.blue)["released"] is True


def test_document_3_release_of_a_completed_step_is_an_error(lab):
    lab = lab("1 t")
    lab.finish("step-1")
    with lab.refuses("E050"):
        lab.release("step-1")


def test_document_3_release_of_a_pending_step_is_an_error(lab):
    lab = lab("1 t")
    with lab.refuses("E050"):
        lab.release("step-1")


def test_document_3_release_cascades_to_non_completed_substeps_and_resets_items(lab):
    lab = lab("1 t", "1.1 tt")
    lab.claim()
    lab.start("step-1-1")
    lab.tick("step-1-1", "t0", status="in_progress")
    lab.release("step-1")
    assert lab.status("step-1-1") == "pending"
    assert lab.items("step-1-1") == {"t0": "open", "t1": "open"}


def test_document_3_worktree_and_force_exclude_each_other(desk):
    desk = desk("1 t")
    desk.ok("claim", "work")
    refused = desk.json("release", "work", "step-1", "--worktree", desk.red, "--force")
    assert (refused.status, refused.codes) == (2, ["E070"])


def test_document_3_force_claim_of_a_live_lease_succeeds_with_reclaimed(lab):
    lab = lab("1 t")
    lab.claim()
    assert lab.claim("blue", force=True)["reclaimed"] is True


def test_document_3_force_claim_still_respects_the_order_of_dependencies(lab):
    lab = lab("1 t", "2 t < 1")
    lab.claim("red", "step-1")
    assert lab.claim("blue", force=True)["anchor"] == "step-1"
    with lab.refuses("E053"):
        lab.claim("blue", "step-2", force=True)


def test_document_3_force_claim_of_a_pending_step_is_a_normal_claim(lab):
    lab = lab("1 t")
    assert lab.claim(force=True)["reclaimed"] is False


def test_document_3_force_claim_does_not_claim_completed_steps(lab):
    lab = lab("1 t", "2 t")
    lab.finish("step-1")
    assert lab.claim(force=True)["anchor"] == "step-2"
    with lab.refuses("E050"):
        lab.claim("blue", "step-1", force=True)


# -- document 5: reconciling checklists ------------------------------------------------

DEFERRED = b'[{"kind": "task", "ordinal": 1, "status": "deferred", "reason": "manual"}]'


@pytest.fixture
def claimed(desk):
    made = desk("1 tttc", "1.1 t")
    made.ok("claim", "work")
    return made


def statuses(desk) -> list[str]:
    items = desk.ok("show", "work")["checklist_items"]
    return [f"{i['step_anchor']} {i['kind']} {i['ordinal']} {i['status']}" for i in items]


def test_document_5_an_empty_array_and_complete_remaining_complete_all_open_items(claimed):
    done = claimed.batch("step-1", b"[]", "--complete-remaining")
    assert (done.status, done.data["updated"]) == (0, 5)
    assert {line.rpartition(" ")[2] for line in statuses(claimed)} == {"completed"}
    assert claimed.ok("complete", "work", "step-1")["completed"] is True


def test_document_5_deferred_items_are_applied_and_then_the_rest_is_completed(claimed):
    claimed.ok("update", "work", "step-1", "--task", 2, "completed")
    done = claimed.batch("step-1", DEFERRED, "--complete-remaining")
    assert (done.data["updated"], done.data["tasks"]["deferred"]) == (4, 1)
    assert "step-1 task 1 deferred" in statuses(claimed)
    assert sum(line.endswith("completed") for line in statuses(claimed)) == 4


def test_document_5_a_deferred_only_batch_completes_all_other_open_items(claimed):
    done = claimed.batch("step-1", DEFERRED, "--complete-remaining")
    assert done.data["updated"] == 5
    assert claimed.ok("complete", "work", "step-1")["completed"] is True
    assert "step-1 task 1 deferred" in statuses(claimed)


def test_document_5_an_empty_array_without_complete_remaining_is_still_an_error(claimed):
    refused = claimed.batch("step-1", b"[]")
    assert (refused.status, refused.codes) == (1, ["E066"])
    message = refused.envelope()["issues"][0]["message"]
    assert message == "Batch update array must contain at least one entry"


def test_document_5_complete_remaining_without_batch_is_a_usage_error(claimed):
    refused = claimed.json("update", "work", "step-1", "--complete-remaining")
    assert (refused.status, refused.codes) == (2, ["E070"])


def test_document_5_complete_remaining_with_nothing_open_succeeds_idempotently(claimed):
    claimed.batch("step-1", b"[]", "--complete-remaining")
    done = claimed.batch("step-1", b"[]", "--complete-remaining")
    assert (done.status, done.data["updated"]) == (0, 0)


def test_document_5_ownership_is_still_enforced_with_complete_remaining(claimed):
    before = claimed.dump()
    refused = claimed.batch("step-1", b"[]", "--complete-remaining", at=claimed.blue)
    assert (refused.status, refused.codes) == (4, ["E049"])
    assert claimed.dump() == before


def test_document_5_a_batch_is_one_transaction_all_or_nothing(lab):
    lab = lab("1 tt")
    lab.claim()
    with lab.refuses("E066"):
        lab.update("step-1", entry("t0"), entry("t5"), complete_remaining=True)
