"""What waits for a person: who sees it, who may judge it, and what comes of it."""

import json
import os
import shlex
import subprocess

import pytest

from support.state import KEY, Lab, entry, markdown
from support.state_walk import NOBODY
from support.terminals import Terminal
from support.terminals import tugcode as command_line
from tugtool import state
from tugtool.cli import parse
from tugtool.plan import fingerprint, parser
from tugtool.state import proofs, releases, reviews, views
from tugtool.state.claims import Request
from tugtool.state.completion import Finding
from tugtool.state.record import PlanCopy
from tugtool.store import sql


def defer(lab: Lab, step: str, *items: str, reason: str | None = "needs eyes") -> None:
    lab.update(step, *(entry(item, "deferred", reason=reason) for item in items))


def deferred_and_done(lab: Lab, step: str, *items: str) -> None:
    """Claimed by red, these items deferred, the rest done, completed."""
    lab.claim("red", step)
    defer(lab, step, *items)
    lab.close(step)
    lab.complete(step)


# -- the list --------------------------------------------------------------------------


def test_deferred_items_are_listed_with_who_deferred_them_when_and_why(lab):
    lab = lab("1 tc", "2 t")
    lab.claim("red")
    lab.clock.advance(60)
    defer(lab, "step-1", "c0")
    answer = lab.review()
    assert (answer["deferred_count"], answer["parked_count"]) == (1, 0)
    assert answer["deferred_items"] == [
        {
            "plan_path": KEY,
            "step_anchor": "step-1",
            "step_title": "Part 1",
            "step_status": "claimed",
            "kind": "checkpoint",
            "ordinal": 0,
            "text": "checkpoint 0 of 1",
            "reason": "needs eyes",
            "deferred_at": "2026-02-23T12:01:00.000Z",
            "deferred_by": "red",
            "attempt": 1,
            "parent_anchor": None,
            "evidence": None,
            "commit": None,
            "built_on": [],
        }
    ]


def test_the_one_who_deferred_is_who_held_the_step_then(lab):
    lab = lab("1 tt")
    lab.claim("red", lease_seconds=10)
    defer(lab, "step-1", "t0")
    lab.clock.advance(60)
    lab.claim("blue")
    lab.update("step-1", entry("t1", "deferred", reason="x"), owner="blue")
    by = [(item["deferred_by"], item["attempt"]) for item in lab.review()["deferred_items"]]
    assert by == [("red", 1), ("blue", 2)]


def test_a_clock_that_went_back_leaves_only_the_name_unknown(lab):
    lab = lab("1 t")
    lab.claim("red")
    lab.clock.advance(-60)
    defer(lab, "step-1", "t0")
    assert lab.review()["deferred_items"][0]["deferred_by"] is None


def test_items_come_in_the_order_of_the_plan(lab):
    lab = lab("1 tec", "1.1 t", "2 tt")
    lab.claim("red", "step-2")
    defer(lab, "step-2", "t1", "t0")
    lab.claim("blue", "step-1")
    lab.update("step-1", every=[{"status": "deferred"}], owner="blue")
    lab.update("step-1-1", every=[{"status": "deferred"}], owner="blue")
    found = [(i["step_anchor"], i["kind"], i["ordinal"]) for i in lab.review()["deferred_items"]]
    own = [("step-1", kind, 0) for kind in ("task", "test", "checkpoint")]
    assert found == [*own, ("step-1-1", "task", 0), ("step-2", "task", 0), ("step-2", "task", 1)]


def test_parked_steps_are_listed_with_what_the_last_attempt_left(lab):
    lab = lab("1 t", "1.1 t", max_attempts=2)
    lab.claim("red")
    lab.artifact("step-1", kind="escalation", summary="of the first attempt")
    lab.release("step-1")
    lab.clock.advance(5)
    lab.claim("blue")
    for kind in ("escalation", "recovery", "note", "architect_strategy"):
        lab.artifact("step-1-1", "blue", kind=kind, summary=f"a {kind}")
    lab.release("step-1", "blue")
    (parked,) = lab.review()["parked_steps"]
    last = parked.pop("last_attempt")
    assert parked == {
        "plan_path": KEY,
        "step_anchor": "step-1",
        "step_title": "Part 1",
        "reason": "2 claims without progress",
        "parked_at": "2026-02-23T12:00:05.000Z",
        "claimed_by": None,
        "attempts": 2,
        "claims_without_progress": 2,
        "cause": "N claims without progress",
        "salvage_ref": None,
        "last_failure": None,
        "failed_checkpoints": [],
    }
    assert (last["number"], last["worktree"], last["outcome"]) == (2, "blue", "released")
    assert [left["summary"] for left in last["left"]] == ["a escalation", "a recovery", "a note"]
    assert {left["step_anchor"] for left in last["left"]} == {"step-1-1"}


def test_a_step_on_its_last_attempt_waits_for_nobody_until_that_is_lost(lab):
    lab = lab("1 t", max_attempts=1)
    lab.claim("red")
    assert lab.review()["parked_steps"] == []
    lab.clock.advance(7201)
    (parked,) = lab.review()["parked_steps"]
    last = parked["last_attempt"]
    assert (parked["claimed_by"], last["outcome"], last["stale"]) == ("red", None, "expired")


def test_what_a_parked_step_failed_of_is_told(lab):
    lab = lab("1 t", max_attempts=2)
    for worker, failure in (("red", "the coder failed: rubbish"), ("blue", None)):
        lab.clock.advance(1)
        lab.claim(worker)
        lab.release("step-1", worker, failure=failure)
    (parked,) = lab.review()["parked_steps"]
    told = {"attempt": 1, "at": "2026-02-23T12:00:01.000Z", "reason": "the coder failed: rubbish"}
    assert parked["last_failure"] == told


@pytest.mark.parametrize(
    ("content", "waits"),
    [
        ('{"asked_in_attempt": 1}', True),
        ('{"asked_in_attempt": 2}', False),
        ("{}", False),
        ("[1]", False),
        ("not JSON", False),
        (None, False),
    ],
)
def test_a_question_waits_while_the_attempt_that_asks_it_holds_the_step(lab, content, waits):
    lab = lab("1 t")
    assert lab.review()["questions"] == []
    lab.claim("red")
    lab.artifact("step-1", kind="escalation", summary="which of the two?", content=content)
    asked = lab.review()["questions"]
    assert [each["reason"] for each in asked] == ["which of the two?"] * waits
    [claim] = views.status(lab.store)["plans"][0]["claims"]
    assert claim["question"] == ("which of the two?" if waits else None)
    lab.clock.advance(7201)
    assert lab.review()["questions"] == []


def test_a_question_that_is_answered_or_of_another_attempt_waits_no_more(lab):
    lab = lab("1 t")
    lab.claim("red")
    lab.artifact("step-1", kind="escalation", summary="which?", content='{"asked_in_attempt": 1}')
    lab.artifact("step-1", kind="note", summary="a person answered: retry", content=None)
    assert lab.review()["questions"] == []
    lab.artifact("step-1", kind="escalation", summary="which?", content='{"asked_in_attempt": 1}')
    assert len(lab.review()["questions"]) == 1
    lab.release("step-1", "red")
    assert lab.review()["questions"] == []
    lab.claim("red")
    assert lab.review()["questions"] == []


SAID = (
    (["auditor_summary", "APPROVE: fine"], None),
    (["auditor_summary", "REVISE: it leaks"], "REVISE"),
    (["auditor_summary", "REVISE: it leaks", "auditor_summary", "APPROVE: fine"], None),
    (["auditor_summary", "ESCALATE: who pays?", "escalation", "the auditor asks"], "ESCALATE"),
    (["auditor_summary", "APPROVE: x", "note", "integrator: REVISE: a check fails"], "REVISE"),
    (["escalation", "the push failed", "note", "integrator: APPROVE"], None),
    (["auditor_summary", "ESCALATE", "note", "something else"], "ESCALATE"),
    (["auditor_summary", "nothing that is a verdict"], None),
    (["escalation", "the push failed"], "ESCALATE"),
    (["note", "REVISE: a list of my own"], None),
    (["reviewer_verdict", "REVISE: of one step"], None),
    ([], None),
)


@pytest.mark.parametrize(("said", "verdict"), SAID)
def test_a_done_plan_that_was_not_approved_waits_for_a_person(lab, said, verdict):
    lab = lab("1 t")
    lab.claim("red")
    lab.artifact("step-1", kind="auditor_summary", summary="REVISE: as it was before")
    lab.clock.advance(1)
    # What led to the completion, in the very same moment, is not said of the whole.
    lab.artifact("step-1", kind="escalation", summary="the state could not follow")
    lab.tick("step-1", "t0")
    assert lab.review()["audits"] == []
    lab.complete("step-1")
    for kind, summary in zip(said[::2], said[1::2], strict=True):
        lab.clock.advance(1)
        lab.artifact("step-1", kind=kind, summary=summary)
    found = [each["recommendation"] for each in lab.review()["audits"]]
    assert found == ([verdict] if verdict else [])


def test_what_is_said_of_one_plan_is_not_said_of_another(lab):
    lab = lab("1 t")
    text, other = markdown("1 t"), ".tugtool/tugplan-other.md"
    hash = fingerprint.of(text.encode())
    state.init(lab.store, other, parser.parse(text), text=text, hash=hash)
    copy = PlanCopy("/other.md", hash)
    lab.finish("step-1")
    lab.artifact("step-1", kind="auditor_summary", summary="REVISE: it leaks")
    lab.clock.advance(1)
    state.claim(lab.store, other, Request("red"), copy=copy)
    how = {"owner": "red", "copy": copy, "force_reason": "enough"}
    state.complete(lab.store, other, "step-1", **how)
    assert [each["plan_path"] for each in lab.review(None)["audits"]] == [KEY]
    lab.artifact("step-1", kind="auditor_summary", summary="REVISE: it still leaks")
    assert [each["plan_path"] for each in lab.review(None)["audits"]] == [KEY]
    assert proofs.audit_of(lab.store, ".tugtool/tugplan-unknown.md") is None


def test_a_plan_waits_for_approval_only_between_its_last_step_and_its_merge(lab):
    lab = lab("1 t", "2 t")
    said = {"kind": "auditor_summary", "summary": "REVISE: it leaks"}
    lab.finish("step-1")
    lab.artifact("step-1", **said)
    assert lab.review()["audits"] == []
    lab.finish("step-2")
    lab.artifact("step-2", **said)
    assert len(lab.review()["audits"]) == 1
    proofs.landed(lab.store, KEY, "c1", branches=["b"])
    assert lab.review()["audits"] == []


def test_without_a_plan_all_but_archived_ones_are_looked_at(lab):
    lab = lab("1 t")
    deferred_and_done(lab, "step-1", "t0")
    assert lab.review(None)["deferred_count"] == 1
    lab.archive()
    assert lab.review(None)["deferred_count"] == 0
    assert lab.review()["deferred_count"] == 1


def test_a_plan_without_a_state_has_no_review(lab):
    lab = lab("1 t")
    with lab.refuses("E063"):
        lab.review("other.md")


# -- accept ----------------------------------------------------------------------------


def test_an_accepted_item_is_completed_with_who_and_when(lab):
    lab = lab("1 tt")
    deferred_and_done(lab, "step-1", "t0", "t1")
    lab.clock.advance(60)
    answer = lab.accept("step-1", "t0", note="looks right")
    assert (answer["accepted"], answer["already"], answer["reopened"]) == (True, False, False)
    assert [(item["kind"], item["ordinal"]) for item in answer["items"]] == [("task", 0)]
    item = lab.item("step-1", "t0")
    assert (item["status"], item["reason"]) == ("completed", "accepted by Ada: looks right")
    assert item["updated_at"] == "2026-02-23T12:01:00.000Z"
    assert lab.items("step-1") == {"t0": "completed", "t1": "deferred"}


def test_the_event_keeps_why_it_had_been_deferred(lab):
    lab = lab("1 t")
    deferred_and_done(lab, "step-1", "t0")
    lab.accept("step-1", "t0")
    event = lab.rows(sql.EVENTS)[-1]
    assert (event["kind"], event["actor"]) == ("review_accepted", "Ada")
    assert '"judged": [["step-1", "task", 0, "needs eyes"]]' in event["detail"]
    assert lab.item("step-1", "t0")["reason"] == "accepted by Ada"


def test_the_event_of_an_accepted_checkpoint_that_was_completed_names_no_changed_item(lab):
    lab = lab("1 c | `make check` passes")
    lab.finish("step-1")
    lab.accept("step-1")
    (event,) = lab.rows("select * from events where kind = 'review_accepted'")
    detail = json.loads(event["detail"])
    assert (detail["items"], len(detail["judged"])) == ([], 1)
    assert lab.item("step-1", "c0")["reason"] == "accepted by Ada"


def test_accepting_changes_no_status_of_step_or_plan(lab):
    lab = lab("1 t")
    deferred_and_done(lab, "step-1", "t0")
    before = lab.row("step-1"), lab.plan()["status"]
    lab.accept("step-1")
    assert (lab.row("step-1"), lab.plan()["status"]) == before
    assert before[1] == "done"


def test_what_is_held_can_be_accepted_too_and_stays_held(lab):
    lab = lab("1 tt")
    lab.claim("red")
    defer(lab, "step-1", "t0")
    before = lab.row("step-1")
    lab.accept("step-1", "t0")
    assert lab.row("step-1") == before
    assert lab.items("step-1") == {"t0": "completed", "t1": "open"}


def test_accepting_is_no_progress_of_a_parked_step(lab):
    lab = lab("1 t", "1.1 t", max_attempts=1)
    lab.claim("red")
    defer(lab, "step-1-1", "t0")
    lab.release("step-1", park_reason="no access")
    lab.accept("step-1-1", "t0")
    assert lab.row("step-1")["parked_at"] is not None


def test_a_step_alone_means_its_items_and_those_of_its_substeps(lab):
    lab = lab("1 tt", "1.1 t")
    lab.claim("red")
    defer(lab, "step-1", "t1")
    defer(lab, "step-1-1", "t0")
    names = [(item["step_anchor"], item["ordinal"]) for item in lab.accept("step-1")["items"]]
    assert names == [("step-1", 1), ("step-1-1", 0)]
    assert lab.items("step-1") == {"t0": "open", "t1": "completed"}
    assert lab.items("step-1-1") == {"t0": "completed"}


def test_a_substep_alone_means_only_its_own(lab):
    lab = lab("1 t", "1.1 t")
    lab.claim("red")
    defer(lab, "step-1", "t0")
    defer(lab, "step-1-1", "t0")
    lab.accept("step-1-1")
    assert lab.items("step-1") == {"t0": "deferred"}


@pytest.mark.parametrize("item", ["t0", None])
def test_accepting_again_is_success_and_changes_nothing(lab, item):
    lab = lab("1 t")
    deferred_and_done(lab, "step-1", "t0")
    lab.accept("step-1", item)
    with lab.unchanged():
        answer = lab.accept("step-1", item)
    assert (answer["accepted"], answer["already"]) == (True, True)
    assert len(answer["items"]) == 1


def test_what_is_not_deferred_is_not_accepted(lab):
    lab = lab("1 tt", "1.1 e")
    with lab.refuses("E066", "step-1 task 0 is open, not deferred"):
        lab.accept("step-1", "t0")
    with lab.refuses("E066", "step-1 has no deferred item"):
        lab.accept("step-1")
    with lab.refuses("E066", "there is no task 7; valid: 0 to 1"):
        lab.accept("step-1", "t7")
    with lab.refuses("E066", "there is no checkpoint 0; valid: step-1 has no checkpoint"):
        lab.accept("step-1", "c0")
    with lab.refuses("E066", "there is no task 'x'"):
        lab.accept("step-1", kind="task", ordinal="x")
    with lab.refuses("E059"):
        lab.accept("step-9")
    lab.claim()
    lab.tick("step-1", "t0")
    with lab.refuses("E066", "step-1 task 0 is completed, not deferred"):
        lab.accept("step-1", "t0")


def test_a_parked_step_is_not_freed_by_accepting(lab):
    lab = lab("1 t")
    lab.claim()
    lab.release("step-1", park_reason="no access")
    with lab.refuses("E066", "has no deferred item; it is parked since", "tugcode reset"):
        lab.accept("step-1")


# -- reject ----------------------------------------------------------------------------


def test_rejecting_an_item_of_a_completed_step_reopens_the_step(lab):
    lab = lab("1 tt", "1.1 t", "2 t < 1")
    deferred_and_done(lab, "step-1", "t0")
    answer = lab.reject("step-1", "t0", note="too slow")
    assert (answer["rejected"], answer["reopened"]) == (True, True)
    assert {lab.status(step) for step in ("step-1", "step-1-1")} == {"pending"}
    assert set(lab.items("step-1").values()) == {"open"}
    assert lab.plan()["status"] == "active"
    assert lab.row("step-2")["open_deps"] == 1
    assert lab.events()[-2:] == ["reopen", "review_rejected"]


def test_rejecting_is_refused_while_others_built_on_the_step(lab):
    lab = lab("1 t", "2 t < 1")
    deferred_and_done(lab, "step-1", "t0")
    lab.claim("blue", "step-2")
    with lab.refuses("E053", "step-1 has dependents that build on it: step-2") as refused:
        lab.reject("step-1", "t0")
    assert refused.value.hint == "tugcode reopen --help"


def test_the_next_worker_is_told_what_was_rejected_and_why(lab):
    lab = lab("1 tt")
    deferred_and_done(lab, "step-1", "t1")
    number = lab.reject("step-1", "t1", note="too slow")["artifact_id"]
    (left,) = lab.claim("blue")["previous_attempt"]["artifacts"]
    assert left == {
        "step_anchor": "step-1",
        "artifact_id": number,
        "kind": "note",
        "summary": "rejected by Ada: too slow (step-1 task 1)",
    }
    content = lab.rows("select content from step_artifacts")[0]["content"]
    assert content == "rejected by Ada: too slow\nstep-1 task 1: task 1 of 1"


def test_rejecting_an_item_of_a_held_step_opens_the_item_only(lab):
    lab = lab("1 tt")
    lab.claim("red")
    lab.tick("step-1", "t1")
    defer(lab, "step-1", "t0")
    before = lab.row("step-1")
    assert lab.reject("step-1", "t0")["reopened"] is False
    assert lab.items("step-1") == {"t0": "open", "t1": "completed"}
    assert lab.row("step-1") == before
    assert lab.item("step-1", "t0")["reason"] is None


@pytest.mark.parametrize(("started", "status"), [(True, "in_progress"), (False, "claimed")])
def test_rejecting_revives_a_completed_substep_of_a_held_step(lab, started, status):
    lab = lab("1 t", "1.1 t", "2 t < 1.1")
    lab.claim("red")
    if started:
        lab.start("step-1-1")
    defer(lab, "step-1-1", "t0")
    assert lab.status("step-1-1") == "completed"
    lab.clock.advance(30)
    lab.reject("step-1-1", "t0")
    row, top = lab.row("step-1-1"), lab.row("step-1")
    assert row["status"] == status
    for mirrored in ("claimed_by", "claimed_at", "lease_expires_at", "heartbeat_at"):
        assert row[mirrored] == top[mirrored]
    assert lab.row("step-2")["open_deps"] == 1


def test_rejecting_revives_a_completed_substep_of_a_step_that_nobody_holds(lab):
    lab = lab("1 t", "1.1 t", "2 t < 1.1")
    lab.claim("red")
    lab.start("step-1-1")
    defer(lab, "step-1-1", "t0")
    lab.release("step-1")
    assert lab.items("step-1-1") == {"t0": "deferred"}
    lab.reject("step-1")
    row = lab.row("step-1-1")
    assert (row["status"], row["claimed_by"], row["started_at"]) == ("pending", None, None)
    assert lab.row("step-2")["open_deps"] == 1
    assert lab.events()[-2:] == ["review_rejected", "substep_reopened"]


def test_what_is_not_deferred_is_not_rejected_either(lab):
    lab = lab("1 t")
    deferred_and_done(lab, "step-1", "t0")
    lab.accept("step-1")
    with lab.refuses("E066", "step-1 task 0 is completed, not deferred"):
        lab.reject("step-1", "t0")
    with lab.refuses("E066", "step-1 has no deferred item"):
        lab.reject("step-1")


def test_names_and_notes_that_are_no_text_are_stored_all_the_same(lab):
    lab = lab("1 tt")
    deferred_and_done(lab, "step-1", "t0", "t1")
    lab.accept("step-1", "t0", by="A\udcff\x1b[31m", note="\udcff" + "x" * 5000)
    lab.reject("step-1", "t1", by="A\udcff", note="\udcff" + "x" * 5000)
    (artifact,) = lab.rows("select * from step_artifacts")
    assert len(artifact["summary"]) <= 500
    assert len(artifact["content"]) > 5000


# -- the command -----------------------------------------------------------------------


@pytest.fixture
def judging(desk):
    """Step 1 is completed with a deferred task, step 2 is parked; the person is Ada."""
    desk = desk("1 tt", "2 t")
    desk.repo.git("config", "user.name", "Ada \x1b[31mLovelace")
    desk.ok("claim", "work")
    desk.ok("update", "work", "step-1", "--task", "0", "deferred", "--reason", "needs \x1b[2Jeyes")
    desk.ok("update", "work", "step-1", "--task", "1", "completed")
    desk.ok("complete", "work", "step-1")
    desk.ok("claim", "work")
    desk.ok("artifact", "work", "step-2", "--kind", "escalation", "--summary", "no idea")
    desk.ok("release", "work", "step-2", "--park", "--reason", "no access")
    return desk


def test_people_are_shown_a_page_for_each_thing_that_waits(judging):
    shown = judging.text("review")
    assert shown.status == 0
    parked, item = shown.out.split("\n\n~ ")
    lines = parked.splitlines()
    assert lines[:2] == ["‖ step-2 of work waits for you", "  Part 2"]
    assert lines[3].startswith("  why         parked 20")
    assert lines[3].endswith(" ago): no access")
    assert lines[4] == "  attempts    1 attempt; the last, by red, ended as released"
    assert lines[5] == "  escalation  no idea"
    lines = item.splitlines()
    assert lines[:2] == ["step-1 task 0 of work waits for you", "  task 0 of 1"]
    assert lines[3].startswith("  why         deferred 20")
    assert lines[3].endswith(" ago) by red: needs eyes")
    assert lines[4:7] == [
        "  step        Part 1, completed",
        "  evidence    none",
        "  commit      none recorded",
    ]
    assert "\x1b" not in shown.out


def test_the_commands_that_are_shown_do_what_they_say(judging):
    labels = ("  free it ", "  yes ", "  no ")
    lines = [line for line in judging.text("review").out.splitlines() if line.startswith(labels)]
    retry, accept, reject = (shlex.split(line[14:]) for line in lines)
    assert [parse.parse(words[1:]).path for words in (retry, accept, reject)] == 3 * [
        "state review"
    ]
    assert judging.text(*retry[1:], "--yes").out.startswith("freed 1 step of work: step-2\n")
    assert judging.text(*reject[1:]).out.startswith("rejected step-1 task 0")
    judging.ok("claim", "work")
    judging.ok("update", "work", "step-1", "--task", "0", "deferred")
    assert judging.text(*accept[1:]).out == "accepted step-1 task 0\n"
    assert judging.text("review").out == "Nothing waits for you.\n"


def test_many_things_are_listed_with_a_line_each(judging):
    judging.ok("reset", "work", "step-2")
    judging.repo.plan("wide", markdown(*(f"{number} t" for number in range(1, 5))))
    judging.ok("init", "wide")
    for number in range(1, 5):
        judging.ok("claim", "wide", "--also", "--step", f"step-{number}")
        how = ("--park", "--reason", f"exit status {number // 4}")
        judging.ok("release", "wide", f"step-{number}", *how)
    shown = judging.text("review")
    lines = shown.out.splitlines()
    assert lines[0] == "5 wait for you: 4 parked steps · 1 deferred item"
    assert lines[2:4] == ["wide", "  ‖ step-1  exit status 0"]
    assert "  free step-1, step-2, step-3, step-4  tugcode review wide --retry" in lines
    assert "  accept every item  tugcode review work --accept-all" in lines
    only = judging.text("review", "wide", "--step", "step-3").out
    assert only.startswith("‖ step-3 of wide waits for you\n")
    assert "and step-1, step-2, step-4, parked for the same reason\n" in only
    assert len(judging.ok("review", "wide", "--step", "step-3")["parked_steps"]) == 1


def test_a_parked_step_that_is_left_behind_and_a_deferral_without_a_reason_are_shown_too(desk):
    desk = desk("1 t")
    desk.repo.write({".tugtool/config.toml": "[state]\nmax_attempts = 1\n"})
    holder = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    desk.ok("claim", "work", "--holder-pid", holder.pid)
    holder.communicate()
    desk.ok("update", "work", "step-1", "--task", "0", "deferred")
    text = desk.text("review", "work").out
    assert ": no reason was given\n" in text
    assert "; the last, by red, is stale\n" in text


def test_the_person_is_whom_git_knows(judging):
    words = ("--accept", "--step", "#step-1", "--kind", "task", "--ordinal", "0", "--note", "ok")
    answer = judging.ok("review", "work", *words)
    assert (answer["by"], answer["note"]) == ("Ada \x1b[31mLovelace", "ok")
    again = judging.text("review", "work", *words)
    assert again.out == "accepted before: step-1 task 0\n"
    other = judging.text("review", "work", *words[:-1], "very good")
    assert other.out == "accepted before: step-1 task 0; the note is not recorded\n"
    (item,) = judging.rows("select reason from checklist_items where reason is not null")
    assert item["reason"] == "accepted by Ada \x1b[31mLovelace: ok"


def test_without_a_name_in_git_the_person_is_the_login(judging):
    from tugtool.system import process

    judging.repo.git("config", "--unset", "user.name")
    assert judging.ok("review", "--accept", "--step", "step-1")["by"] == process.login_name()


def test_without_git_the_person_is_the_login_too(judging):
    judging.setenv("PATH", "/nonexistent")
    assert judging.ok("review", "--accept", "--step", "step-1")["by"] != "Ada"


def test_a_user_without_a_name_is_a_number(monkeypatch):
    from tugtool.system import process

    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_123)
    assert process.login_name() == "user 4000000123"


def test_a_rejection_is_told_in_text(judging):
    words = ("--reject", "--step", "step-1", "--note", "no")
    done = judging.text("review", *words)
    assert done.out == "rejected step-1 task 0; the step is to be done again\n"
    assert judging.ok("review")["deferred_count"] == 0


@pytest.mark.parametrize(
    "words",
    [
        ["--accept", "--step", "step-1"],
        ["--reject", "--note", "x", "--step", "step-1"],
        ["--accept-all", "--yes"],
        ["--retry", "--yes"],
    ],
)
def test_a_worker_may_look_and_not_judge(judging, words):
    judging.setenv("TUGCODE_ATTEMPT", "1")
    before = judging.dump()
    refused = judging.json("review", "work", *words)
    assert (refused.status, refused.codes) == (1, ["E068"])
    assert judging.dump() == before
    assert judging.ok("review")["deferred_count"] == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--accept --reject --step a", "exclude each other"),
        ("--accept", "need --step"),
        ("--reject --note x", "need --step"),
        ("--accept --step a --kind task", "go together"),
        ("--accept --step a --ordinal 0", "go together"),
        ("--reject --step a", "needs --note"),
        ("--kind task --ordinal 0", "need --step"),
        ("--note x", "--note goes with"),
        ("--yes", "--yes goes with"),
        ("--accept --step a --yes", "--yes goes with"),
        ("--accept-all --retry", "exclude each other"),
        ("--accept-all --step a", "goes without --step"),
        ("--retry --step a --kind task --ordinal 0", "goes without --kind"),
        ("--accept-all", "no terminal to ask on"),
        ("--retry", "no terminal to ask on"),
        ("--accept --step a --kind wish --ordinal 0", "wish"),
    ],
)
def test_words_that_do_not_fit_are_a_usage_error(judging, words, problem):
    refused = judging.json("review", *words.split())
    assert (refused.status, refused.codes) == (2, ["E070"])
    assert problem in refused.out


def test_a_blank_note_is_no_note(judging):
    words = ("--step", "step-1", "--note", " ")
    assert judging.json("review", "--reject", *words).status == 2
    assert judging.ok("review", "--accept", *words)["note"] is None


def test_an_ordinal_that_is_no_number_names_the_valid_ones(judging):
    words = ("--accept", "--step", "step-1", "--kind", "task", "--ordinal", "first")
    refused = judging.json("review", *words)
    assert refused.codes == ["E066"]
    assert "valid: 0 to 1" in refused.out


def test_nothing_waits_where_there_is_no_state(desk):
    desk = desk("1 t", init=False)
    assert desk.text("review").out == "Nothing waits for you.\n"
    assert desk.ok("review")["deferred_items"] == []
    assert desk.json("review", "work").codes == ["E063"]


# -- everything at once ----------------------------------------------------------------


def waiting(lab: Lab) -> list[dict]:
    found = lab.review()
    return [*found["deferred_items"], *found["unproven_items"]]


def test_all_that_was_listed_is_accepted_at_once_with_who_and_why(lab):
    lab = lab("1 tt", "1.1 t", "2 t")
    lab.claim("red", "step-1")
    defer(lab, "step-1", "t0")
    defer(lab, "step-1-1", "t0")
    lab.claim("blue", "step-2")
    lab.update("step-2", entry("t0", "deferred"), owner="blue")
    listed = waiting(lab)
    accepted, rest = reviews.accept_all(lab.store, KEY, listed, by="Ada", note="seen")
    assert (accepted, rest) == (listed, [])
    reasons = [lab.item(*which)["reason"] for which in (("step-1", "t0"), ("step-2", "t0"))]
    assert reasons == ["accepted by Ada: seen"] * 2
    assert lab.items("step-1") == {"t0": "completed", "t1": "open"}
    events = [(e["kind"], e["step_anchor"], e["actor"]) for e in lab.rows(sql.EVENTS)[-3:]]
    anchors = ("step-1", "step-1-1", "step-2")
    assert events == [("review_accepted", anchor, "Ada") for anchor in anchors]
    assert len({event["at"] for event in lab.rows(sql.EVENTS)[-3:]}) == 1


def test_what_changed_since_it_was_listed_is_left_alone(lab):
    lab = lab("1 tt", "2 t")
    lab.claim("red", "step-1")
    defer(lab, "step-1", "t0")
    listed = waiting(lab)
    other = [{**listed[0], "text": "as it was before the plan changed"}]
    defer(lab, "step-1", "t1")
    gone = [{**listed[0], "step_anchor": "step-9"}]
    assert reviews.accept_all(lab.store, KEY, [*other, *gone], by="Ada") == ([], other + gone)
    assert reviews.accept_all(lab.store, KEY, listed, by="Ada") == (listed, [])
    assert lab.items("step-1") == {"t0": "completed", "t1": "deferred"}
    with lab.unchanged():
        assert reviews.accept_all(lab.store, KEY, listed, by="Ada") == ([], listed)


def parked_at(lab: Lab) -> dict[str, str]:
    return {each["step_anchor"]: each["parked_at"] for each in lab.review()["parked_steps"]}


def test_parked_steps_are_freed_together_and_the_next_worker_is_told_why(lab):
    lab = lab("1 t", "2 t", "3 t")
    for step in ("step-1", "step-2"):
        lab.claim("red", step)
        lab.release(step, park_reason="no network")
    freed, unsaved = releases.retry(lab.store, KEY, parked_at(lab), by="Ada", note="it is back")
    assert (freed, unsaved) == (["step-1", "step-2"], False)
    assert lab.review()["parked_steps"] == []
    assert [lab.row(step)["claims_without_progress"] for step in freed] == [0, 0]
    left = lab.claim("blue", "step-1")["previous_attempt"]["artifacts"]
    assert [each["summary"] for each in left] == ["retried by Ada: it is back"]
    unparked = [
        (e["step_anchor"], e["actor"]) for e in lab.rows(sql.EVENTS) if e["kind"] == "unpark"
    ]
    assert unparked == [("step-1", "Ada"), ("step-2", "Ada")]


def test_a_parked_step_of_a_lost_holder_is_taken_from_it_and_its_work_saved(lab):
    lab = lab("1 t", max_attempts=1)
    lab.claim("red")
    lab.clock.advance(7201)
    listed = parked_at(lab)
    assert releases.retry(lab.store, KEY, listed, by="Ada") == (["step-1"], True)
    assert (lab.status("step-1"), lab.events()[-1]) == ("pending", "reset")


def test_a_parked_step_of_a_dead_process_is_taken_from_it_before_its_lease_runs_out(lab):
    lab = lab("1 t", max_attempts=1)
    lab.claim("red", holder_pid=NOBODY)
    assert releases.retry(lab.store, KEY, parked_at(lab), by="Ada") == (["step-1"], True)


def test_only_what_is_parked_as_it_was_listed_is_freed(lab):
    lab = lab("1 t", "2 t", max_attempts=1)
    lab.claim("red", "step-1")
    at_work = {"step-1": lab.row("step-1")["parked_at"]}
    assert at_work["step-1"] is not None
    gone = {"step-9": at_work["step-1"], "step-2": at_work["step-1"]}
    with lab.unchanged():
        assert releases.retry(lab.store, KEY, at_work | gone, by="Ada") == ([], False)
    lab.clock.advance(1)
    lab.release("step-1", park_reason="for another reason")
    with lab.unchanged():
        assert releases.retry(lab.store, KEY, at_work, by="Ada") == ([], False)


def test_every_item_is_accepted_by_one_command(judging):
    answer = judging.ok("review", "work", "--accept-all", "--yes", "--note", "fine")
    assert (answer["confirmed"], answer["note"], answer["passed_over"]) == (True, "fine", [])
    assert [(i["step_anchor"], i["kind"], i["ordinal"]) for i in answer["items"]] == [
        ("step-1", "task", 0)
    ]
    assert judging.ok("review")["deferred_count"] == 0
    again = judging.text("review", "work", "--accept-all")
    assert (again.status, again.out) == (0, "no item of work waits for you\n")


def test_steps_parked_for_one_reason_are_freed_by_one_command(judging):
    done = judging.text("review", "work", "--retry", "--yes")
    assert done.out == "freed 1 step of work: step-2\nnext: tugcode implement work\n"
    assert judging.ok("review")["parked_count"] == 0
    again = judging.text("review", "work", "--retry")
    assert (again.status, again.out) == (0, "no step of work is parked\n")
    assert judging.json("review", "work", "--retry", "--step", "step-2", "--yes").codes == ["E066"]


def test_a_step_that_is_named_is_freed_without_a_question(judging):
    done = judging.text("review", "work", "--retry", "--step", "step-2")
    assert done.out == "freed 1 step of work: step-2\nnext: tugcode implement work\n"


def test_without_a_plan_what_waits_of_done_plans_is_meant(desk, tugcode):
    desk = desk("1 tt")
    (desk.red / ".tugtool" / "tugplan-two.md").write_text(markdown("1 tt"))
    (desk.repo.path / ".tugtool" / "tugplan-two.md").write_text(markdown("1 tt"))
    desk.ok("init", "two")
    for plan in ("work", "two"):
        desk.ok("claim", plan)
        desk.ok("update", plan, "step-1", "--task", "0", "deferred", "--reason", "why")
        desk.ok("update", plan, "step-1", "--task", "1", "completed")
        desk.ok("complete", plan, "step-1")
    assert desk.json("review", "--accept", "--step", "step-1").codes == ["E040"]
    done = desk.text("review", "--accept-all", "--yes")
    accepted = "accepted 1 item of {}: step-1 task 0\n"
    assert done.out == accepted.format("two") + accepted.format("work")
    again = desk.text("review", "--accept-all", "--yes")
    assert (again.status, again.out) == (0, "no item waits for you\n")
    # Every plan is done: the report is about the one that was done last.
    assert tugcode("-C", desk.red, "report").out.startswith("✓ two is done")


def test_the_command_for_a_question_has_a_place_for_the_answer(desk):
    desk = desk("1 t")
    desk.ok("claim", "work")
    why = "the reviewer asks for a person: which port?"
    desk.ok("release", "work", "step-1", "--park", "--reason", why)
    [parked] = desk.ok("review")["parked_steps"]
    command = 'tugcode review work --retry --step step-1 --note "YOUR ANSWER"'
    assert parked["retry_command"] == command
    assert '--note "YOUR ANSWER"' in desk.text("review").out


def test_stale_steps_are_named_with_what_goes_on_with_them(desk):
    desk = desk("1 t", "2 t")
    with subprocess.Popen(["sleep", "600"]) as child:
        desk.ok("claim", "work", "--holder-pid", child.pid)
        assert desk.ok("review")["stale_steps"] == []
        child.kill()
    [stale] = desk.ok("review")["stale_steps"]
    assert (stale["step_anchor"], stale["stale"]) == ("step-1", "gone")
    shown = desk.text("review").out
    assert "Stale, because their worker is gone: step-1." in shown
    assert "The next run goes on with what was done: tugcode implement work\n" in shown


def test_of_several_reasons_one_is_chosen_by_a_step(judging):
    judging.ok("review", "work", "--reject", "--step", "step-1", "--note", "no")
    judging.ok("claim", "work")
    judging.ok("release", "work", "step-1", "--park", "--reason", "something else")
    refused = judging.text("review", "work", "--retry", "--yes")
    assert refused.status == 1
    assert "steps are parked for 2 reasons" in refused.err
    assert "tugcode review work --retry --step step-2\n" in refused.err
    answer = judging.ok("review", "work", "--retry", "--step", "step-2", "--yes")
    assert [each["step_anchor"] for each in answer["steps"]] == ["step-2"]
    assert [e["step_anchor"] for e in judging.ok("review")["parked_steps"]] == ["step-1"]


@pytest.mark.parametrize(("typed", "agreed"), [("y", True), ("n", False)])
@pytest.mark.parametrize(
    ("verb", "shown", "left"),
    [
        ("--accept-all", "~ step-1 task 0  task 0 of 1\nAccept 1 item? [y/N]", "deferred_count"),
        ("--retry", "‖ step-2  no access\nFree 1 step? [y/N]", "parked_count"),
    ],
)
def test_a_person_is_shown_what_is_meant_and_asked(judging, typed, agreed, verb, shown, left):
    terminal = Terminal(command_line("state", "review", "work", verb, at=judging.red))
    try:
        terminal.until_text("[y/N]")
        assert shown in terminal.display.text
        terminal.press(f"{typed}\n")
        assert terminal.end() == (0 if agreed else 1)
    finally:
        terminal.close()
    assert judging.ok("review")[left] == (0 if agreed else 1)


def test_what_counts_as_accepted_is_what_accept_writes(lab):
    """A fault to plant: without this beginning, accepting twice would be refused."""
    lab = lab("1 t")
    deferred_and_done(lab, "step-1", "t0")
    lab.accept("step-1")
    assert lab.item("step-1", "t0")["reason"].startswith(reviews.ACCEPTED)


# -- checkpoints that nothing proves ------------------------------------------------------

CHECKS = ("1 tcc | `make test` passes | It looks right (person)", "2 t")


def passed(
    lab: Lab,
    ordinal: int = 0,
    *,
    commands: bool = True,
    succeeded: bool = True,
    commit: str | None = None,
) -> None:
    """Evidence that the checkpoint passed: a command's, or the reviewer's word."""
    ran = {"command": "make test", "exit_status": 0, "timed_out": False}
    ran |= {"duration_seconds": 1.0, "output_tail": "", "output_bytes": 0}
    kept = {
        "passed": succeeded,
        "commands": [ran] if commands else [],
        "commit": commit,
        "dirty": None,
    }
    kept |= {"worktree": "red", "attempt": 1, "note": None, "tree": None}
    kept |= {"judged": None if commands else {"role": "reviewer", "reason": None}}
    finding = Finding("step-1", ordinal, passed=succeeded, evidence=kept)
    how = {"owner": "red", "attempt": 1, "copy": lab.copy, "plan_hash": lab.hash}
    state.verify(lab.store, KEY, "step-1", [finding], summary="ran", **how)


def unproven(lab: Lab) -> list[tuple[str, int]]:
    return [(each["step_anchor"], each["ordinal"]) for each in lab.review()["unproven_items"]]


@pytest.mark.parametrize(
    ("proof", "left"), [("none", [("step-1", 0)]), ("run", []), ("word", [("step-1", 0)])]
)
def test_a_command_is_proven_by_a_passing_run_and_not_by_a_word(lab, proof, left):
    lab = lab(*CHECKS)
    lab.claim("red", "step-1")
    if proof != "none":
        passed(lab, commands=proof == "run")
    lab.close("step-1")
    assert unproven(lab) == []
    lab.complete("step-1")
    assert unproven(lab) == left
    waiting = [each["cause"] for each in reviews.unsettled(lab.store, KEY)]
    assert waiting == ["deferred", *(["unproven"] if left else [])]


@pytest.mark.parametrize("committed", ["c1", "c2"])
def test_evidence_of_a_deferred_item_is_outdated_by_another_commit(lab, committed):
    lab = lab(*CHECKS)
    lab.claim("red", "step-1")
    passed(lab, succeeded=False, commit="c1")
    defer(lab, "step-1", "c0")
    lab.close("step-1")
    lab.complete("step-1", commit=committed)
    [found] = [each for each in lab.review()["deferred_items"] if each["ordinal"] == 0]
    assert (found["commit"], found["evidence"]["stale"]) == (committed, committed != "c1")


def test_what_is_for_a_person_is_not_proven_by_force(lab):
    lab = lab(*CHECKS)
    lab.claim("red", "step-1")
    passed(lab)
    lab.complete("step-1", force_reason="late")
    assert unproven(lab) == [("step-1", 1)]
    state.accept(lab.store, KEY, "step-1", by="Ann")
    assert unproven(lab) == []
    assert reviews.unsettled(lab.store, KEY) == []


def test_a_person_may_settle_what_is_for_a_person_before_it_is_deferred(lab):
    lab = lab(*CHECKS)
    lab.claim("red", "step-1")
    with lab.refuses("E066", "step-1 checkpoint 0 is open, not deferred"):
        state.accept(lab.store, KEY, "step-1", by="Ann", kind="checkpoint", ordinal=0)
    state.accept(lab.store, KEY, "step-1", by="Ann", kind="checkpoint", ordinal=1)
    assert lab.item("step-1", "c1")["status"] == "completed"
    assert lab.items("step-1")["t0"] == "open"


def test_rejecting_an_unproven_checkpoint_sends_its_step_back(lab):
    lab = lab(*CHECKS)
    lab.claim("red", "step-1")
    lab.close("step-1")
    lab.complete("step-1")
    done = state.reject(
        lab.store, KEY, "step-1", by="Ann", note="run it", kind="checkpoint", ordinal=0
    )
    assert done["reopened"]
    assert unproven(lab) == []


def test_a_run_that_failed_proves_nothing_though_the_item_is_ticked(lab):
    lab = lab(*CHECKS)
    lab.claim("red", "step-1")
    passed(lab, succeeded=False)
    lab.close("step-1")
    lab.complete("step-1")
    assert unproven(lab) == [("step-1", 0)]


def test_the_page_of_a_parked_step_has_what_its_checkpoint_printed(desk, tugcode):
    desk = desk("1 c | `echo three; false` passes")
    desk.ok("claim", "work")
    assert tugcode("-C", desk.red, "verify", "work", "step-1", "--yes").status == 1
    desk.ok("release", "work", "step-1", "--park", "--reason", "no idea")
    [failed] = desk.ok("review")["parked_steps"][0]["failed_checkpoints"]
    assert (failed["command"], failed["output_tail"]) == ("echo three; false", "three")
    assert "`echo three; false` failed; the end of its output:\n                three\n" in (
        desk.text("review").out
    )


def test_the_picture_of_why_has_what_a_failed_checkpoint_printed(desk, tugcode):
    desk = desk("1 c | `echo three; false` passes", "1.1 c | `echo four; false` passes")
    desk.ok("claim", "work")
    for step in ("step-1", "step-1-1"):
        assert tugcode("-C", desk.red, "verify", "work", step, "--yes").status == 1
    data = desk.ok("why", "work", "step-1")
    printed = [(each["step_anchor"], each["output_tail"]) for each in data["failed_checkpoints"]]
    assert printed == [("step-1", "three"), ("step-1-1", "four")]
    told = "  `echo three; false` failed (checkpoint 0 of step-1); the end of its output:\n"
    assert f"{told}    three\n" in desk.text("why", "work", "step-1").out
    below = desk.ok("why", "work", "step-1-1")["failed_checkpoints"]
    assert [each["step_anchor"] for each in below] == ["step-1-1"]
    desk.ok("complete", "work", "step-1", "--force", "enough")
    assert "four" not in desk.text("why", "work", "step-1").out


def test_a_step_that_others_were_built_on_is_sent_back_by_the_command_that_works(desk):
    desk = desk("1 t", "1.1 t", "2 t < 1.1", "3 t < 1", "4 t < 1")
    desk.ok("claim", "work")
    desk.ok("update", "work", "step-1-1", "--task", "0", "deferred", "--reason", "later")
    desk.ok("update", "work", "step-1", "--task", "0", "completed")
    desk.ok("complete", "work", "step-1")
    (item,) = desk.ok("review", "work")["deferred_items"]
    assert (item["built_on"], "--reject" in item["reject_command"]) == ([], True)
    for step in ("step-2", "step-3"):
        desk.ok("claim", "work", "--step", step, "--also")
    desk.ok("complete", "work", "step-2", "--force", "enough")
    (item,) = desk.ok("review", "work")["deferred_items"]
    assert item["built_on"] == ["step-2", "step-3"]
    words = shlex.split(item["reject_command"])
    assert words == ["tugcode", "reopen", "work", "step-1", "--force", "--reason", "WHY"]
    text = desk.text("review", "work").out
    assert item["reject_command"] in text
    assert "built on it, and left alone: step-2, step-3\n" in text
    assert "--reject" not in text
    refused = ("review", "work", "--reject", "--step", "step-1-1", "--note", "no")
    assert desk.json(*refused).codes == ["E053"]
    assert desk.ok(*words[1:])["dependents"] == ["step-2", "step-3"]
