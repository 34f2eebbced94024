"""What `verify` records: ticks, evidence, events; and who may, and when not."""

import json

import pytest

from support.state import KEY, Lab, entry
from support.state_replay import INVARIANTS
from tugtool import state
from tugtool.plan import fingerprint
from tugtool.state import completion
from tugtool.state.completion import Finding
from tugtool.state.record import PlanCopy

PLAN = ("1 tccc", "2 c", "2.1 c", "2.2 cc")


def evidence(passed: bool = True, **more: object) -> dict:
    ran = {
        "command": "make test",
        "exit_status": 0 if passed else 1,
        "timed_out": False,
        "duration_seconds": 1.5,
        "output_tail": "ok",
        "output_bytes": 3,
    }
    facts = {"passed": passed, "commands": [ran], "commit": "c0ffee", "dirty": False}
    return {**facts, "worktree": "red", "attempt": 1, "note": None, **more}


def found(step: str, ordinal: int = 0, *, passed: bool = True) -> Finding:
    return Finding(step, ordinal, passed=passed, evidence=evidence(passed))


def verify(lab: Lab, step: str, *findings: Finding, **how: object) -> dict:
    how = {"owner": "red", "attempt": 1, "copy": lab.copy, "plan_hash": lab.hash, **how}
    return state.verify(lab.store, KEY, step, findings, summary="ran it", **how)


def kept(lab: Lab, step: str, item: str) -> dict | None:
    return completion.read_evidence(lab.item(step, item)["evidence"])


@pytest.fixture
def held(lab):
    lab = lab(*PLAN)
    lab.claim(step="step-1")
    yield lab
    for invariant in INVARIANTS:
        invariant(lab)


def test_exactly_what_passed_is_ticked_and_all_keep_their_evidence(held):
    verify(held, "step-1", found("step-1", 0), found("step-1", 2, passed=False))
    assert held.items("step-1") == {
        "t0": "open",
        "c0": "completed",
        "c1": "open",
        "c2": "open",
    }
    assert kept(held, "step-1", "c0")["passed"] is True
    assert kept(held, "step-1", "c1") is None
    failed = kept(held, "step-1", "c2")
    assert (failed["passed"], failed["commands"][0]["exit_status"]) == (False, 1)
    assert failed["at"] == "2026-02-23T12:00:00.000Z"
    told = held.rows("select * from events where kind = 'verify'")
    detail = json.loads(told[0]["detail"])
    assert detail["items"] == [["step-1", "checkpoint", 0, "completed"]]
    assert detail["passed"] == [["step-1", "checkpoint", 0]]
    assert detail["failed"] == [["step-1", "checkpoint", 2]]


def test_a_note_of_its_own_kind_is_left(held):
    answer = verify(held, "step-1", found("step-1"))
    rows = held.rows("select * from step_artifacts")
    assert [(row["id"], row["kind"], row["summary"]) for row in rows] == [
        (answer["artifact_id"], "verification", "ran it")
    ]


def test_an_item_in_progress_that_fails_stays_in_progress(held):
    held.tick("step-1", "c0", status="in_progress")
    verify(held, "step-1", found("step-1", passed=False))
    assert held.items("step-1")["c0"] == "in_progress"


def test_a_deferred_checkpoint_that_passes_is_completed_and_waits_for_nobody(held):
    held.update("step-1", entry("c0", "deferred", reason="later"), entry("c1", "deferred"))
    verify(held, "step-1", found("step-1", 0), found("step-1", 1, passed=False))
    item = held.item("step-1", "c0")
    assert (item["status"], item["reason"]) == ("completed", None)
    assert held.items("step-1")["c1"] == "deferred"


def test_a_failure_takes_no_tick_and_no_reason_away_and_is_on_record(held):
    held.update("step-1", entry("c0", reason="seen"))
    verify(held, "step-1", found("step-1", passed=False))
    item = held.item("step-1", "c0")
    assert (item["status"], item["reason"]) == ("completed", "seen")
    assert kept(held, "step-1", "c0")["passed"] is False
    verify(held, "step-1", found("step-1"))
    item = held.item("step-1", "c0")
    assert (item["status"], item["reason"]) == ("completed", "seen")
    assert kept(held, "step-1", "c0")["passed"] is True


def test_what_is_ticked_by_word_of_mouth_keeps_the_evidence_against_it(held):
    verify(held, "step-1", found("step-1", passed=False))
    held.tick("step-1", "c0")
    assert kept(held, "step-1", "c0")["passed"] is False
    held.tick("step-1", "c0", status="open")
    assert kept(held, "step-1", "c0") is None


def test_evidence_goes_when_the_step_is_reopened(held):
    verify(held, "step-1", found("step-1"))
    held.close("step-1")
    held.complete("step-1")
    assert kept(held, "step-1", "c0") is not None
    held.reopen("step-1")
    assert kept(held, "step-1", "c0") is None


def test_a_substep_whose_last_checkpoint_passes_is_completed(held):
    held.claim(step="step-2")
    verify(held, "step-2", found("step-2-1"), found("step-2-2"))
    assert held.status("step-2-1") == "completed"
    assert held.status("step-2-2") == "claimed"
    verify(held, "step-2-2", found("step-2-2", 1))
    assert held.status("step-2-2") == "completed"


def test_ticking_is_progress_and_failing_is_none(held):
    held.release("step-1")
    held.claim(step="step-1")
    assert held.row("step-1")["claims_without_progress"] == 2
    verify(held, "step-1", found("step-1", passed=False), attempt=2)
    assert held.row("step-1")["claims_without_progress"] == 2
    verify(held, "step-1", found("step-1"), attempt=2)
    assert held.row("step-1")["claims_without_progress"] == 0


def test_recording_renews_the_lease(held):
    held.clock.advance(100)
    answer = verify(held, "step-1", found("step-1"))
    assert answer["lease_expires_at"] == held.row("step-1")["lease_expires_at"]
    assert answer["lease_expires_at"] == "2026-02-23T14:01:40.000Z"


def test_nothing_is_recorded_for_a_claim_that_was_lost(held):
    with held.refuses("E049"):
        verify(held, "step-1", found("step-1"), owner="blue")
    held.claim(step="step-1")
    with held.refuses("E060"):
        verify(held, "step-1", found("step-1"), attempt=1)
    held.reset("step-1")
    with held.refuses("E050"):
        verify(held, "step-1", found("step-1"), attempt=2)


def test_nothing_is_recorded_once_the_plan_is_another(held):
    with held.refuses("E048"):
        verify(held, "step-1", found("step-1"), copy=PlanCopy("/the/plan.md", "other"))
    before = held.hash
    held.revise(held.text.replace("Part 2\n", "Part two\n"))
    assert before != held.hash == fingerprint.of(held.text.encode())
    with held.refuses("E048"):
        verify(held, "step-1", found("step-1"), plan_hash=before)


def test_nobody_ticks_what_is_not_of_the_step(held):
    for other in (found("step-2"), found("step-1", 3)):
        with held.refuses("E066"):
            verify(held, "step-1", found("step-1"), other)
    held.claim(step="step-2")
    with held.refuses("E066"):
        verify(held, "step-2-1", found("step-2-2"))


def test_what_there_is_to_verify_is_the_agreed_text_of_step_and_substeps(held):
    how = {"owner": "red", "copy": held.copy}
    held.claim(step="step-2")
    with held.unchanged():
        facts = completion.checkpoints(held.store, KEY, "step-2", **how)
        own = completion.checkpoints(held.store, KEY, "step-2-2", attempt=1, **how)
    assert [(item["step_anchor"], item["ordinal"]) for item in facts["items"]] == [
        ("step-2", 0),
        ("step-2-1", 0),
        ("step-2-2", 0),
        ("step-2-2", 1),
    ]
    assert facts["items"][0]["text"] == "checkpoint 0 of 2"
    assert (facts["top"], facts["attempt"], facts["plan_hash"]) == ("step-2", 1, held.hash)
    assert [item["step_anchor"] for item in own["items"]] == ["step-2-2", "step-2-2"]
    assert own["top"] == "step-2"
    with held.refuses("E049"):
        completion.checkpoints(held.store, KEY, "step-2", owner="blue", copy=held.copy)
    with held.refuses("E048"):
        gone = PlanCopy("/the/plan.md")
        completion.checkpoints(held.store, KEY, "step-2", owner="red", copy=gone)


def test_whoever_still_holds_the_step_is_left_in_peace(held):
    with held.unchanged():
        completion.refuse_lost(held.store, KEY, "step-1", owner="red", attempt=1)
    with held.refuses("E060"):
        completion.refuse_lost(held.store, KEY, "step-1", owner="red", attempt=7)


@pytest.mark.parametrize(
    "text",
    [
        "ran it",
        "[" * 100_000,
        "[]",
        "{}",
        json.dumps({**evidence(), "at": None}),
        json.dumps({**evidence(), "at": "x", "commands": [7]}),
        json.dumps({**evidence(), "at": "x", "commands": [{"command": "x"}]}),
    ],
)
def test_evidence_that_we_did_not_write_is_none(held, text):
    with held.store.write(KEY) as tx:
        tx.run("update checklist_items set evidence = :e where plan_path = :plan", e=text)
    assert {item["evidence"] for item in held.show()["checklist_items"]} == {None}


def test_evidence_whose_time_is_no_number_is_none():
    for seconds in ("NaN", "1e999", "-1"):
        text = json.dumps({**evidence(), "at": "x"}).replace("1.5", seconds)
        assert completion.read_evidence(text) is None


def test_show_has_the_evidence_and_leaves_open_whether_it_is_stale(held):
    verify(held, "step-1", found("step-1"))
    shown = {
        (item["step_anchor"], item["kind"], item["ordinal"]): item["evidence"]
        for item in held.show()["checklist_items"]
    }
    told = shown["step-1", "checkpoint", 0]
    assert told == {
        **evidence(),
        "at": "2026-02-23T12:00:00.000Z",
        "tree": None,
        "judged": None,
        "stale": None,
        "worktree_commit": None,
    }
    assert shown["step-1", "checkpoint", 1] is None


@pytest.mark.parametrize(
    ("ran", "said"),
    [
        ({"timed_out": False, "exit_status": 3, "duration_seconds": 0.04}, "exit 3, 0.0 s"),
        ({"timed_out": True, "exit_status": 143, "duration_seconds": 600.2}, "timed out, 600.2 s"),
    ],
)
def test_how_a_command_ended_is_said_in_words(ran, said):
    assert completion.ended(ran) == said


def test_what_was_checked_is_about_the_commit_that_has_just_that(held):
    kept_ = evidence(tree="a-tree")
    other = evidence(tree="another")
    findings = [
        Finding("step-1", 0, passed=True, evidence=kept_),
        Finding("step-1", 1, passed=True, evidence=other),
    ]
    verify(held, "step-1", *findings)
    held.close("step-1")
    held.complete("step-1", commit="f00d", tested="a-tree")
    first, second = (kept(held, "step-1", item) for item in ("c0", "c1"))
    assert (first["commit"], first["dirty"], first["tree"]) == ("f00d", False, "a-tree")
    assert second["commit"] == "c0ffee"
    assert held.items("step-1")["c0"] == "completed"


def test_open_items_and_checkpoints_that_failed_are_refused_to_the_holder_alone(held):
    held.close("step-1")
    how = {"owner": "red", "attempt": 1}
    completion.refuse_open(held.store, KEY, "step-1", **how)
    with held.refuses("E051", "step step-1 has 1 open item: step-1 checkpoint 0"):
        completion.refuse_open(held.store, KEY, "step-1", **how, failed=[("step-1", 0)])
    with held.refuses("E049"):
        completion.refuse_open(held.store, KEY, "step-1", owner="blue", attempt=None)
