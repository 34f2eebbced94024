"""update and artifact: what an entry may be, what it does, and what is refused."""

import json

import pytest

from support.state import KEY, entry
from tugtool import state
from tugtool.state.checklists import EMPTY_BATCH, WAITS_FOR_PERSON, cut


def test_each_status_can_be_set_and_the_counts_are_the_step_s_own(lab):
    lab = lab("1 tttteec", "1.1 t")
    lab.claim()
    answer = lab.update(
        "step-1",
        entry("t0"),
        entry("t1", "in_progress"),
        entry("t2", "deferred", reason="later"),
        entry("e1"),
    )
    assert answer["updated"] == 4
    assert answer["tasks"] == {"open": 1, "in_progress": 1, "completed": 1, "deferred": 1}
    assert answer["tests"] == {"open": 1, "in_progress": 0, "completed": 1, "deferred": 0}
    assert answer["checkpoints"] == {"open": 1, "in_progress": 0, "completed": 0, "deferred": 0}


def test_updated_counts_only_items_whose_status_changed(lab):
    lab = lab("1 tt")
    lab.claim()
    lab.tick("step-1", "t0")
    assert lab.tick("step-1", "t0", "t1")["updated"] == 1
    assert lab.tick("step-1", "t0", "t1")["updated"] == 0


def test_an_entry_may_name_a_substep_of_the_step(lab):
    lab = lab("1 t", "1.1 tt")
    lab.claim()
    answer = lab.update("step-1", entry("t0"), entry("t1", step="#step-1-1"))
    assert answer["updated"] == 2
    assert lab.items("step-1-1") == {"t0": "open", "t1": "completed"}


@pytest.mark.parametrize("step", ["step-2", "step-2-1", "nowhere", "", 5, [], {}, True])
def test_a_step_in_an_entry_that_is_no_substep_is_refused(lab, step):
    lab = lab("1 t", "1.1 t", "2 t", "2.1 t")
    lab.claim()
    with lab.refuses("E066", "is not a substep of step-1"):
        lab.update("step-1", entry("t0"), entry("t0", step=step))


def test_a_substep_s_update_reaches_neither_its_step_nor_its_siblings(lab):
    lab = lab("1 t", "1.1 t", "1.2 t")
    lab.claim()
    for other in ("step-1", "step-1-2"):
        with lab.refuses("E066", "is not a substep of step-1-1"):
            lab.update("step-1-1", entry("t0", step=other))


HUGE = 10**4000


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"kind": "chore"}, "there is no kind 'chore'; valid: task, test, checkpoint"),
        ({"kind": None}, "there is no kind None"),
        ({"kind": ["task"]}, "there is no kind"),
        ({"status": "done"}, "there is no status 'done'; valid: open, in_progress"),
        ({"status": None}, "there is no status None"),
        ({"status": {}}, "there is no status"),
        ({"ordinal": 3}, "there is no task 3; valid: 0 to 2"),
        ({"ordinal": -1}, "there is no task -1; valid: 0 to 2"),
        ({"ordinal": True}, "there is no task True"),
        ({"ordinal": 1.0}, "there is no task 1.0"),
        ({"ordinal": "1"}, "there is no task '1'"),
        ({"ordinal": None}, "there is no task None"),
        ({"ordinal": [1]}, "there is no task [1]"),
        ({"ordinal": {}}, "there is no task {}"),
        ({"ordinal": float("inf")}, "there is no task inf"),
        ({"ordinal": HUGE}, "there is no task 1000"),
        ({"kind": "test", "ordinal": 0}, "there is no test 0; valid: step-1 has no test"),
        ({"reason": 5}, "a reason is text"),
        ({"reason": ["x"]}, "a reason is text"),
        ({"colour": "red"}, "an entry has no colour; valid: kind, ordinal, status, reason, step"),
    ],
)
def test_an_entry_that_fits_nothing_is_refused_naming_it_and_nothing_is_set(lab, bad, words):
    lab = lab("1 ttt")
    lab.claim()
    with lab.refuses("E066", words):
        lab.update("step-1", entry("t2"), {**entry("t0"), **bad})
    with pytest.raises(Exception, match=r"valid|text") as caught:
        lab.update("step-1", entry("t2"), {**entry("t0"), **bad})
    assert caught.value.facts["index"] == 1
    assert caught.value.facts["entry"]["kind"] in ("task", "test", "chore", None, "(list)")


@pytest.mark.parametrize("missing", ["kind", "ordinal", "status"])
def test_an_entry_of_a_batch_needs_kind_ordinal_and_status(lab, missing):
    """Above all, one without ordinal does not mean all items."""
    lab = lab("1 ttt")
    lab.claim()
    bad = entry("t0")
    del bad[missing]
    with lab.refuses("E066", f"there is no {'task' if missing == 'ordinal' else missing} None"):
        lab.update("step-1", bad)


def test_two_entries_for_one_item_are_refused_also_through_all(lab):
    lab = lab("1 tt")
    lab.claim()
    with lab.refuses("E066", "two entries set the same item"):
        lab.update("step-1", entry("t0"), entry("t0", "deferred"))
    with lab.refuses("E066", "two entries set the same item"):
        lab.update("step-1", entry("t0"), every=[{"status": "deferred"}])


def test_all_means_the_step_s_own_items_and_none_of_a_kind_is_success_with_0(lab):
    lab = lab("1 ttc", "1.1 t")
    lab.claim()
    assert lab.update("step-1", every=[{"kind": "test", "status": "completed"}])["updated"] == 0
    assert lab.update("step-1", every=[{"kind": "task", "status": "completed"}])["updated"] == 2
    assert lab.update("step-1", every=[{"status": "deferred", "reason": "r"}])["updated"] == 3
    assert lab.items("step-1-1") == {"t0": "open"}


def test_an_empty_batch_is_refused_with_these_words(lab):
    lab = lab("1 t")
    lab.claim()
    with lab.refuses("E066", "Batch update array must contain at least one entry"):
        lab.update("step-1")
    assert EMPTY_BATCH == "Batch update array must contain at least one entry"


def test_complete_remaining_closes_open_and_in_progress_after_the_entries(lab):
    lab = lab("1 tttt", "1.1 tt")
    lab.claim()
    lab.tick("step-1", "t0", status="in_progress")
    lab.tick("step-1-1", "t1", status="deferred")
    answer = lab.update(
        "step-1",
        entry("t1", "deferred", reason="by hand"),
        entry("t2", "open"),
        complete_remaining=True,
    )
    expected = {"t0": "completed", "t1": "deferred", "t2": "completed", "t3": "completed"}
    assert lab.items("step-1") == expected
    assert lab.items("step-1-1") == {"t0": "completed", "t1": "deferred"}
    assert answer["updated"] == 5
    assert lab.item("step-1", "t1")["reason"] == "by hand"


def test_complete_remaining_on_a_substep_stays_within_it(lab):
    lab = lab("1 t", "1.1 tt", "1.2 t")
    lab.claim()
    assert lab.close("step-1-1")["updated"] == 2
    assert lab.items("step-1") == lab.items("step-1-2") == {"t0": "open"}


def test_a_deferral_without_a_reason_is_accepted_and_pointed_out(lab):
    lab = lab("1 ttt")
    lab.claim()
    lab.update("step-1", entry("t0", "deferred"), entry("t1", "deferred", reason=" "), entry("t2"))
    listed = [item["ordinal"] for item in lab.unexplained]
    assert listed == [0, 1]
    assert lab.item("step-1", "t1")["reason"] is None
    given = lab.update("step-1", entry("t0", "deferred", reason="because"))
    assert (given["updated"], lab.unexplained) == (0, [])
    # Said once, it need not be said again.
    lab.update("step-1", entry("t0", "deferred"))
    assert lab.unexplained == []
    assert lab.item("step-1", "t0")["reason"] == "because"


def test_reason_and_evidence_are_cleared_when_an_item_is_reopened(lab):
    lab = lab("1 tt")
    lab.claim()
    lab.update("step-1", entry("t0", "deferred", reason="later"))
    with lab.store.write(KEY) as tx:
        tx.run("update checklist_items set evidence = 'make: 0' where plan_path = :plan")
    lab.update("step-1", entry("t0", "deferred", reason="much later"))
    assert lab.item("step-1", "t0")["evidence"] == "make: 0"
    lab.tick("step-1", "t0", status="open")
    item = lab.item("step-1", "t0")
    assert (item["status"], item["reason"], item["evidence"]) == ("open", None, None)


def test_a_reason_on_an_item_that_becomes_open_is_not_kept(lab):
    lab = lab("1 t")
    lab.claim()
    lab.update("step-1", entry("t0", "in_progress", reason="now"))
    assert lab.item("step-1", "t0")["reason"] is None


def test_an_artifact_is_recorded_for_a_step_and_a_substep(lab):
    lab = lab("1 t", "1.1 t")
    lab.claim()
    first = lab.artifact("step-1", kind="reviewer_verdict", summary="APPROVE", content="long")
    second = lab.artifact("step-1-1")
    assert second["artifact_id"] == first["artifact_id"] + 1
    step = state.show(lab.store, KEY, full=True)["steps"][0]
    assert step["artifacts"] == [
        {
            "artifact_id": first["artifact_id"],
            "kind": "reviewer_verdict",
            "summary": "APPROVE",
            "content": "long",
            "recorded_at": "2026-02-23T12:00:00.000Z",
        }
    ]
    assert len(step["substeps"][0]["artifacts"]) == 1


KINDS = "architect_strategy reviewer_verdict auditor_summary verification recovery escalation note"


def test_every_kind_of_artifact_is_taken_and_no_other(lab):
    lab = lab("1 t")
    lab.claim()
    for kind in KINDS.split():
        assert lab.artifact("step-1", kind=kind)["kind"] == kind
    with lab.refuses("E066", "there is no kind 'opinion'; valid: architect_strategy"):
        lab.artifact("step-1", kind="opinion")


def test_an_artifact_is_accepted_on_a_completed_step_from_who_completed_it(lab):
    lab = lab("1 t", "1.1 t")
    lab.finish("step-1")
    assert lab.artifact("step-1", attempt=1)["recorded"] is True
    assert lab.artifact("step-1-1")["recorded"] is True
    with lab.refuses("E049", "step step-1 was completed by red, not by blue"):
        lab.artifact("step-1", "blue")
    with lab.refuses("E060"):
        lab.artifact("step-1", attempt=2)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 501,
        "é" * 600,
        "日本" * 400,
        "\U0001f600" * 501,
        "a\u0300" * 400,
        "x" * 499 + "y\u0301z",
    ],
    ids=["ascii", "accents", "cjk", "astral", "combining", "at the edge"],
)
def test_a_summary_is_cut_at_500_characters_and_never_inside_one(lab, text):
    lab = lab("1 t")
    lab.claim()
    assert lab.artifact("step-1", summary=text)["summary_cut"] is True
    stored = lab.show()["steps"][0]["artifacts"][0]["summary"]
    assert text.startswith(stored)
    assert 498 <= len(stored) <= 500
    # What was cut off does not begin with a mark that belongs to the last letter kept.
    assert text[len(stored)] not in "\u0300\u0301"


def test_cutting_leaves_short_texts_and_families_of_emoji_whole(lab):
    assert cut("x" * 500) == "x" * 500
    family = "\U0001f469\u200d\U0001f467"
    assert cut("x" * 498 + family, 500) == "x" * 498
    assert cut("x" * 499 + "\u2764\ufe0f", 500) == "x" * 499
    assert len(cut("\u0301" * 600)) == 500  # nothing but marks: better cut than lost


PERSON = ("1 tcc | It is fast | It looks right (person)", "1.1 tc")


@pytest.mark.parametrize("how", ["entry", "batch", "all", "all checkpoints"])
def test_only_a_person_completes_a_checkpoint_for_a_person(lab, how):
    lab = lab(*PERSON)
    lab.claim()
    every = [{"status": "completed"}] if how == "all" else []
    every += [{"kind": "checkpoint", "status": "completed"}] if how == "all checkpoints" else []
    entries = {"entry": [entry("c1")], "batch": [entry("t0"), entry("c1")]}.get(how, [])
    with lab.refuses("E066", "step-1 checkpoint 1 is for a person") as refusal:
        lab.update("step-1", *entries, every=every)
    assert refusal.value.hint == "tugcode review work"
    assert set(lab.items("step-1").values()) == {"open"}
    # A worker may say why it leaves the item; then all others can be completed at once.
    lab.update("step-1", entry("c1", "deferred", reason="needs eyes"))
    lab.update("step-1", every=[{"status": "completed"}])
    assert lab.items("step-1") == {
        "t0": "completed",
        "c0": "completed",
        "c1": "deferred",
    }


def test_what_remains_for_a_person_is_deferred_and_said(lab):
    lab = lab(*PERSON)
    lab.claim()
    answer = lab.close("step-1")
    waiting = {"step_anchor": "step-1", "kind": "checkpoint", "ordinal": 1}
    assert answer["left_to_person"] == [waiting]
    assert lab.item("step-1", "c1")["status"] == "deferred"
    assert lab.item("step-1", "c1")["reason"] == WAITS_FOR_PERSON
    assert lab.close("step-1")["left_to_person"] == []


def test_what_a_person_has_accepted_may_be_completed_again(lab):
    lab = lab(*PERSON)
    lab.claim()
    lab.close("step-1")
    state.accept(lab.store, KEY, "step-1", by="Ann", kind="checkpoint", ordinal=1)
    assert lab.tick("step-1", "c1")["updated"] == 0
    assert lab.item("step-1", "c1")["reason"] == "accepted by Ann"


def test_all_items_of_a_step_pass_over_open_ones_of_substeps_and_say_so(lab):
    lab = lab("1 tc", "1.1 tt", "1.2 e")
    lab.claim()
    lab.tick("step-1-1", "t1")
    answer = lab.update("step-1", every=[{"kind": "task", "status": "completed"}])
    passed = [{"step_anchor": "step-1-1", "kind": "task", "ordinal": 0}]
    assert (answer["updated"], answer["passed_over"]) == (1, passed)
    again = lab.update("step-1", every=[{"status": "completed"}])
    assert [item["step_anchor"] for item in again["passed_over"]] == ["step-1-1", "step-1-2"]
    whole = lab.update("step-1", every=[{"status": "completed"}], with_substeps=True)
    assert (whole["updated"], whole["passed_over"]) == (2, [])
    assert lab.items("step-1-2") == {"e0": "completed"}


def test_only_proven_commands_are_closed_with_the_rest_if_that_is_asked(lab):
    lab = lab("1 tcc | `make test` passes")
    lab.claim()
    lab.close("step-1", proven_only=True)
    assert lab.items("step-1") == {"t0": "completed", "c0": "open", "c1": "completed"}
    lab.close("step-1")
    assert lab.items("step-1")["c0"] == "completed"


def test_what_was_judged_is_kept_as_evidence_and_goes_when_the_item_is_opened_again(lab):
    lab = lab("1 tcc")
    lab.claim()
    lab.close("step-1", judged={("step-1", 0): {"passed": True}})
    kept = json.loads(lab.item("step-1", "c0")["evidence"])
    assert kept == {"passed": True, "at": "2026-02-23T12:00:00.000Z"}
    assert lab.item("step-1", "c1")["evidence"] is None
    assert lab.item("step-1", "t0")["evidence"] is None
    lab.tick("step-1", "c0", status="open")
    assert lab.item("step-1", "c0")["evidence"] is None


def test_what_waits_for_a_person_is_not_completed_by_name_once_it_is_deferred(lab):
    lab = lab(*PERSON)
    lab.claim()
    lab.close("step-1")
    with lab.refuses("E066", "step-1 checkpoint 1 is for a person"):
        lab.tick("step-1", "c1")


def test_a_task_that_ends_so_is_a_task(lab):
    lab = lab(text="# Work\n\n### Step 1: Ask\n\n**Tasks:**\n- [ ] Ask somebody (person)\n")
    lab.claim()
    lab.tick("step-1", "t0")
    assert lab.items("step-1") == {"t0": "completed"}
    lab.tick("step-1", "t0", status="open")
    assert lab.close("step-1")["left_to_person"] == []


def test_an_item_of_a_substep_that_an_entry_names_is_not_passed_over(lab):
    lab = lab("1 t", "1.1 tt")
    lab.claim()
    one = entry("t0", "in_progress", step="step-1-1")
    answer = lab.update("step-1", one, every=[{"kind": "task", "status": "completed"}])
    passed = [{"step_anchor": "step-1-1", "kind": "task", "ordinal": 1}]
    assert answer["passed_over"] == passed
