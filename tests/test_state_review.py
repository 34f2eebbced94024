"""What waits for a person: who sees it, who may judge it, and what comes of it."""

import os
import shlex
import subprocess

import pytest

from state_fixtures import KEY, Lab, entry
from tugtool.cli import parse
from tugtool.state import reviewing
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
        "last_failure": None,
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


SAID = (
    (["auditor_summary", "APPROVE: fine"], None),
    (["auditor_summary", "REVISE: it leaks"], "REVISE"),
    (["auditor_summary", "REVISE: it leaks", "auditor_summary", "APPROVE: fine"], None),
    (["auditor_summary", "ESCALATE: who pays?", "escalation", "the auditor asks"], "ESCALATE"),
    (["auditor_summary", "APPROVE: x", "note", "integrator: REVISE: a check fails"], "REVISE"),
    (["escalation", "the push failed", "note", "integrator: APPROVE"], None),
    (["auditor_summary", "ESCALATE", "note", "something else"], "ESCALATE"),
    (["auditor_summary", "nothing that is a verdict"], None),
    ([], None),
)


@pytest.mark.parametrize(("said", "verdict"), SAID)
def test_a_done_plan_that_was_not_approved_waits_for_a_person(lab, said, verdict):
    lab = lab("1 t")
    lab.claim("red")
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
    with lab.refuses("E066", "has no deferred item; it is parked since", "tugcode state reset"):
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
    with lab.refuses("E053", "step-1 is what step-2 was built on"):
        lab.reject("step-1", "t0")


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


def test_people_are_shown_what_waits_and_the_command_that_settles_it(judging):
    shown = judging.text("review")
    assert shown.status == 0
    lines = shown.out.splitlines()
    assert lines[0] == KEY
    assert lines[1] == "  step-1: Part 1 [completed]"
    assert lines[2] == "    task 0: task 0 of 1"
    assert lines[3].startswith("      deferred 20")
    assert lines[3].endswith(" by red: needs eyes")
    assert lines[5] == "  step-2: Part 2 [parked]"
    assert lines[6].endswith(": no access")
    assert lines[7] == "    1 attempt; the last, by red, ended as released"
    assert lines[8] == "    escalation: no idea"
    assert lines[-1] == "1 deferred item and 1 parked step wait for you"
    assert "\x1b" not in shown.out


def test_the_commands_that_are_shown_do_what_they_say(judging):
    lines = judging.text("review").out.splitlines()
    accept, reset = (shlex.split(line) for line in lines if line.strip().startswith("tugcode"))
    assert parse.parse(accept[1:]).path == "state review"
    assert judging.text(*accept[2:]).status == 0
    assert judging.text(*reset[2:]).out == "unparked step-2\n"
    assert judging.text("review").out == "nothing waits for a person\n"


def test_a_parked_step_that_is_left_behind_and_a_deferral_without_a_reason_are_shown_too(desk):
    desk = desk("1 t")
    desk.repo.write({".tugtool/config.toml": "[state]\nmax_attempts = 1\n"})
    holder = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    desk.ok("claim", "work", "--holder-pid", holder.pid)
    holder.communicate()
    desk.ok("update", "work", "step-1", "--task", "0", "deferred")
    text = desk.text("review", "work").out
    assert ": no reason was given\n" in text
    assert "is over: its process is gone\n" in text


def test_the_person_is_whom_git_knows(judging):
    words = ("--accept", "--step", "#step-1", "--kind", "task", "--ordinal", "0", "--note", "ok")
    answer = judging.ok("review", "work", *words)
    assert (answer["by"], answer["note"]) == ("Ada \x1b[31mLovelace", "ok")
    again = judging.text("review", "work", *words)
    assert again.out == "accepted before: step-1 task 0\n"
    (item,) = judging.rows("select reason from checklist_items where reason is not null")
    assert item["reason"] == "accepted by Ada \x1b[31mLovelace: ok"


def test_without_a_name_in_git_the_person_is_the_login(judging):
    from tugtool import config

    judging.repo.git("config", "--unset", "user.name")
    assert judging.ok("review", "--accept", "--step", "step-1")["by"] == config.login_name()


def test_without_git_the_person_is_the_login_too(judging):
    judging.setenv("PATH", "/nonexistent")
    assert judging.ok("review", "--accept", "--step", "step-1")["by"] != "Ada"


def test_a_user_without_a_name_is_a_number(monkeypatch):
    from tugtool import config

    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_123)
    assert config.login_name() == "user 4000000123"


def test_a_rejection_is_told_in_text(judging):
    words = ("--reject", "--step", "step-1", "--note", "no")
    done = judging.text("review", *words)
    assert done.out == "rejected step-1 task 0; the step is to be done again\n"
    assert judging.ok("review")["deferred_count"] == 0


@pytest.mark.parametrize("words", [["--accept"], ["--reject", "--note", "x"]])
def test_a_worker_may_look_and_not_judge(judging, words):
    judging.setenv("TUGCODE_ATTEMPT", "1")
    before = judging.dump()
    refused = judging.json("review", "work", *words, "--step", "step-1")
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
        ("--step a", "--step goes with --accept or --reject"),
        ("--note x", "--note goes with --accept or --reject"),
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
    assert desk.text("review").out == "nothing waits for a person\n"
    assert desk.ok("review")["deferred_items"] == []
    assert desk.json("review", "work").codes == ["E063"]


def test_what_counts_as_accepted_is_what_accept_writes(lab):
    """A fault to plant: without this beginning, accepting twice would be refused."""
    lab = lab("1 t")
    deferred_and_done(lab, "step-1", "t0")
    lab.accept("step-1")
    assert lab.item("step-1", "t0")["reason"].startswith(reviewing.ACCEPTED)
