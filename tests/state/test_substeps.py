"""Substeps: claimed with their step, done by themselves, never in anybody's way."""

import pytest

from support.state import entry

FAMILY = ("1 t", "1.1 tt", "1.2 t < 1.1", "1.3", "2 t < 1")


def test_a_whole_life_needs_no_command_on_any_substep(lab):
    lab = lab(*FAMILY)
    lab.claim()
    answer = lab.close("step-1")
    assert answer["updated"] == 4
    assert [lab.status(f"step-1-{n}") for n in (1, 2)] == ["completed", "completed"]
    # Without items it is not done by itself, only with its step.
    assert lab.status("step-1-3") == "claimed"
    assert lab.complete("step-1")["completed"] is True
    assert lab.status("step-1-3") == "completed"
    assert lab.claim()["anchor"] == "step-2"


def test_rows_of_unfinished_substeps_mirror_the_claim(lab):
    lab = lab(*FAMILY)
    lab.claim(lease_seconds=100)
    mirrored = ("claimed_by", "claimed_at", "lease_expires_at", "heartbeat_at")
    for change in (
        lambda: None,
        lambda: lab.beat("step-1"),
        lambda: lab.beat("step-1-2", lease_seconds=500),
        lambda: lab.start("step-1-1"),
        lambda: lab.tick("step-1", "t0"),
        lambda: lab.artifact("step-1-1"),
        lambda: lab.claim("red"),
    ):
        lab.clock.advance(1)
        change()
        top = lab.row("step-1")
        for n in (1, 2, 3):
            assert {key: lab.row(f"step-1-{n}")[key] for key in mirrored} == {
                key: top[key] for key in mirrored
            }
    assert lab.row("step-1-1")["attempt"] == 0


def test_a_completed_substep_s_row_mirrors_nothing(lab):
    lab = lab(*FAMILY)
    lab.claim()
    lab.tick("step-1-1", "t0", "t1")
    assert lab.row("step-1-1")["claimed_by"] is None
    lab.beat("step-1")
    assert lab.row("step-1-1")["lease_expires_at"] is None


def test_starting_a_substep_starts_its_step_and_not_its_siblings(lab):
    lab = lab(*FAMILY)
    lab.claim()
    assert lab.start("step-1-1")["status"] == "in_progress"
    found = [lab.status(step) for step in ("step-1", "step-1-1", "step-1-2")]
    assert found == ["in_progress", "in_progress", "claimed"]


def test_a_substep_is_started_or_completed_only_after_its_own_dependencies(lab):
    lab = lab(*FAMILY)
    lab.claim()
    with lab.refuses("E053", "step-1-2 waits for step-1-1"):
        lab.start("step-1-2")
    lab.tick("step-1-2", "t0")  # its items may be ticked any time
    assert lab.status("step-1-2") == "claimed"
    with lab.refuses("E053", "step-1-2 waits for step-1-1"):
        lab.complete("step-1-2")
    with lab.refuses("E053", "step-1-2 waits for step-1-1"):
        lab.complete("step-1-2", force_reason="force overrides no dependency")


def test_a_substep_waits_for_its_dependencies_and_is_then_done_by_itself(lab):
    lab = lab(*FAMILY)
    lab.claim()
    lab.tick("step-1-2", "t0")
    lab.tick("step-1-1", "t0")
    assert lab.status("step-1-1") == "claimed"
    lab.tick("step-1-1", "t1", status="deferred")
    assert lab.status("step-1-1") == lab.status("step-1-2") == "completed"


def test_completing_a_substep_completes_those_that_only_waited_for_it(lab):
    lab = lab("1 t", "1.1", "1.2 t < 1.1", "1.3 t < 1.2")
    lab.claim()
    lab.tick("step-1-2", "t0")
    lab.tick("step-1-3", "t0")
    lab.complete("step-1-1")
    assert [lab.status(f"step-1-{n}") for n in (1, 2, 3)] == ["completed"] * 3


def test_reopening_an_item_takes_a_substep_s_completion_back(lab):
    lab = lab("1 t", "1.1 tt", "2 t < 1.1")
    lab.claim()
    lab.start("step-1-1")
    lab.tick("step-1-1", "t0", "t1")
    assert lab.row("step-2")["open_deps"] == 0
    lab.tick("step-1-1", "t1", status="in_progress")
    row = lab.row("step-1-1")
    assert (row["status"], row["claimed_by"], row["completed_by"]) == ("in_progress", "red", None)
    assert row["lease_expires_at"] == lab.row("step-1")["lease_expires_at"]
    assert lab.row("step-2")["open_deps"] == 1
    with lab.refuses("E053"):
        lab.claim("blue", "step-2")
    lab.tick("step-1-1", "t1")
    assert lab.status("step-1-1") == "completed"


def test_a_sibling_that_was_completed_stays_completed_when_its_dependency_is_taken_back(lab):
    lab = lab(*FAMILY)
    lab.claim()
    lab.close("step-1")
    lab.tick("step-1-1", "t0", status="open")
    assert (lab.status("step-1-1"), lab.status("step-1-2")) == ("claimed", "completed")
    assert lab.complete("step-1-2")["already_completed"] is True


@pytest.mark.parametrize("lines", [("1.1 t", "1.2 t < 1.1"), ("1.2 t < 1.1", "1.1 t")])
def test_one_update_that_takes_a_dependency_back_completes_nothing_that_waits_for_it(lab, lines):
    """In whichever order the two substeps stand in the plan."""
    lab = lab("1", *lines)
    lab.claim()
    lab.tick("step-1-1", "t0")
    closed, opened = entry("t0", step="step-1-2"), entry("t0", "open", step="step-1-1")
    lab.update("step-1", closed, opened)
    assert (lab.status("step-1-1"), lab.status("step-1-2")) == ("claimed", "claimed")


def test_a_started_substep_may_be_started_again_though_its_dependency_was_taken_back(lab):
    lab = lab("1 t", "1.1 t", "1.2 t < 1.1")
    lab.claim()
    lab.tick("step-1-1", "t0")
    lab.start("step-1-2")
    lab.tick("step-1-1", "t0", status="open")
    assert lab.start("step-1-2")["status"] == "in_progress"


def test_a_substep_may_be_completed_by_itself_and_needs_only_its_own_items(lab):
    lab = lab("1 t", "1.1 t", "1.2")
    lab.claim()
    with lab.refuses("E051", "step-1-1 task 0"):
        lab.complete("step-1-1")
    done = lab.complete("step-1-1", force_reason="seen", commit="b" * 40)
    assert (done["anchor"], done["forced"], done["commit_hash"]) == ("step-1-1", True, "b" * 40)
    assert lab.item("step-1-1", "t0")["reason"] == "seen"
    assert lab.row("step-1-1")["complete_reason"] == "seen"
    lab.complete("step-1-2")
    assert lab.status("step-1") == "claimed"  # all substeps done do not complete the step


def test_completing_a_completed_substep_again_changes_nothing(lab):
    lab = lab("1 t", "1.1 t")
    lab.claim()
    lab.tick("step-1-1", "t0")
    lab.clock.advance(9)
    with lab.unchanged():
        assert lab.complete("step-1-1", "anybody")["already_completed"] is True


def test_for_substeps_the_step_s_claim_counts(lab):
    lab = lab(*FAMILY)
    lab.claim()
    for command in (lab.start, lab.beat, lab.complete, lab.artifact):
        with lab.refuses("E049", "step step-1 is held by red"):
            command("step-1-1", "blue")
    with lab.refuses("E049"):
        lab.tick("step-1-1", "t0", owner="blue")


def test_heartbeat_on_a_completed_substep_is_fine_and_start_is_not(lab):
    lab = lab(*FAMILY)
    lab.claim()
    lab.tick("step-1-1", "t0", "t1")
    lab.clock.advance(5)
    assert lab.beat("step-1-1")["lease_expires_at"] == "2026-02-23T14:00:05.000Z"
    with lab.refuses("E050", "step-1-1 is completed"):
        lab.start("step-1-1")


def test_resetting_a_substep_puts_it_back_to_not_started_under_its_step_s_claim(lab):
    lab = lab("1 t", "1.1 tttt", "2 t")
    with lab.unchanged():
        assert lab.reset("step-1-1")["reset"] is False
    lab.claim()
    lab.start("step-1-1")
    lab.tick("step-1-1", "t0")
    lab.tick("step-1-1", "t1", status="deferred")
    lab.tick("step-1-1", "t2", status="in_progress")
    answer = lab.reset("step-1-1")
    assert (answer["reset"], answer["was_claimed_by"]) == (True, "red")
    row = lab.row("step-1-1")
    assert (row["status"], row["started_at"], row["claimed_by"]) == ("claimed", None, "red")
    items = {"t0": "completed", "t1": "open", "t2": "open", "t3": "open"}
    assert lab.items("step-1-1") == items
    assert lab.status("step-1") == "in_progress"
    lab.close("step-1")
    with lab.refuses("E050", "step-1-1 is completed"):
        lab.reset("step-1-1")


def test_a_substep_of_another_step_is_finished_by_a_dependency_and_stays_its_holder_s_work(lab):
    """Step 2's substep waits for step 1, which is reopened and done again by somebody else."""
    lab = lab("1 t", "2 t", "2.1 t < 1")
    lab.finish("step-1")
    lab.claim("blue", "step-2")
    lab.reopen("step-1", force=True)
    lab.tick("step-2-1", "t0", owner="blue")
    assert lab.status("step-2-1") == "claimed"
    lab.finish("step-1", "red")
    row = lab.row("step-2-1")
    assert (row["status"], row["completed_by"]) == ("completed", "blue")


def test_a_substep_that_is_done_is_not_finished_once_more_by_a_dependency(lab):
    """Step 2's substep was done before step 1 was reopened and done again by somebody else."""
    lab = lab("1 t", "2 t", "2.1 t < 1")
    lab.finish("step-1")
    lab.claim("blue", "step-2")
    lab.tick("step-2-1", "t0", owner="blue")
    done = lab.row("step-2-1")
    assert done["status"] == "completed"
    lab.reopen("step-1", force=True)
    lab.clock.advance(1)
    lab.finish("step-1", "red")
    assert dict(lab.row("step-2-1")) == dict(done)


@pytest.mark.parametrize("need", ["1", "1.1"])
def test_naming_its_own_step_or_a_sibling_blocks_no_claim(lab, need):
    lab = lab("1 t", "1.1 t", f"1.2 t < {need}")
    lab.claim()
    lab.close("step-1")
    assert lab.status("step-1-2") == "completed"
    lab.complete("step-1")


def test_update_on_a_substep_counts_that_substep_s_items(lab):
    lab = lab("1 ttt", "1.1 te")
    lab.claim()
    answer = lab.tick("step-1-1", "t0")
    assert (answer["step_anchor"], answer["updated"]) == ("step-1-1", 1)
    assert answer["tasks"] == {"open": 0, "in_progress": 0, "completed": 1, "deferred": 0}
    assert answer["tests"]["open"] == 1


def test_rolled_up_counts_hold_the_substeps_items_too(lab):
    lab = lab("1 ttt", "1.1 te")
    lab.claim()
    lab.tick("step-1-1", "t0", status="deferred")
    step = lab.show()["steps"][0]
    assert step["counts"]["task"] == {"open": 3, "in_progress": 0, "completed": 0, "deferred": 0}
    assert step["rolled_up"]["task"] == {"open": 3, "in_progress": 0, "completed": 0, "deferred": 1}
    assert step["rolled_up"]["test"]["open"] == 1
    assert step["substeps"][0]["counts"] == step["substeps"][0]["rolled_up"]
    assert [item["step_anchor"] for item in lab.show()["checklist_items"]] == [
        "step-1",
        "step-1",
        "step-1",
        "step-1-1",
        "step-1-1",
    ]
