"""Holes that an earlier design of such a state had, by their numbers; each stays closed here."""

import os

import pytest

from support.state import KEY, entry
from tugtool.errors import TugError
from tugtool.store import open_store


def test_hole_1_a_session_presumed_dead_and_its_successor_in_one_worktree_are_told_apart(lab):
    lab = lab("1 t")
    dead, successor = lab.claim()["attempt"], lab.claim()["attempt"]
    with lab.refuses("E060"):
        lab.tick("step-1", "t0", attempt=dead)
    lab.tick("step-1", "t0", attempt=successor)
    with lab.refuses("E060"):
        lab.complete("step-1", attempt=dead)
    lab.complete("step-1", attempt=successor)
    with lab.refuses("E060"):
        lab.complete("step-1", attempt=dead)


def test_hole_2_a_step_in_progress_with_an_expired_lease_is_reclaimable(lab):
    lab = lab("1 t")
    lab.claim(lease_seconds=1)
    lab.start("step-1")
    lab.clock.advance(2)
    assert lab.claim("blue")["claimed"] is True


def test_hole_3_no_active_row_is_without_lease_and_a_claim_is_a_sign_of_life(lab):
    lab = lab("1 t")
    lab.claim()
    assert lab.row("step-1")["heartbeat_at"] == lab.row("step-1")["claimed_at"]
    for column in ("lease_expires_at", "heartbeat_at", "claimed_at", "claimed_by"):
        with pytest.raises(TugError, match=r"(?i)check"), lab.store.write(KEY) as tx:
            tx.run(f"update steps set {column} = null where plan_path = :plan")


def test_hole_4_times_are_of_one_width_so_comparing_texts_compares_times(lab):
    lab = lab("1 t")
    lab.claim(lease_seconds=0.5)
    lab.clock.advance(0.501)
    assert lab.claim("blue")["claimed"] is True  # .500Z against .501Z
    for wrong in ("2026-02-23T12:00:00Z", "2026-02-23 12:00:00.000Z", "2026-02-23T12:00:00.000+"):
        with pytest.raises(TugError, match=r"(?i)check"), lab.store.write(KEY) as tx:
            tx.run("update steps set lease_expires_at = :t where plan_path = :plan", t=wrong)


@pytest.mark.parametrize("hours", [-3, 3])
def test_hole_5_a_clock_that_jumps_gives_no_step_two_owners(lab, hours):
    lab = lab("1 tt")
    first = lab.claim()
    lab.clock.advance(hours * 3600)
    second = lab.claim("blue")
    writers = 0
    for owner, attempt in (("red", first["attempt"]), ("blue", second.get("attempt"))):
        try:
            lab.tick("step-1", "t0", owner=owner, attempt=attempt)
            writers += 1
        except TugError:
            pass
    assert writers == 1


def test_hole_6_a_heartbeat_on_a_substep_renews_the_step(lab):
    lab = lab("1 t", "1.1 t")
    lab.claim(lease_seconds=100)
    lab.clock.advance(90)
    lab.beat("step-1-1")
    lab.clock.advance(90)
    assert lab.claim("blue")["claimed"] is False
    assert lab.row("step-1-1")["lease_expires_at"] == lab.row("step-1")["lease_expires_at"]


def test_hole_7_progress_is_enough_to_keep_a_step(lab):
    lab = lab("1 tttt")
    lab.claim(lease_seconds=100)
    for n in range(4):
        lab.clock.advance(90)
        lab.tick("step-1", f"t{n}")
    assert lab.claim("blue")["claimed"] is False


def test_hole_8_a_reply_that_was_lost_can_be_asked_for_again(lab):
    lab = lab("1 t", "2 t")
    first = lab.claim(request_id="once")
    assert lab.claim(request_id="once")["attempt"] == first["attempt"]
    assert lab.claim()["anchor"] == first["anchor"]  # also without an id: own step first
    lab.close("step-1")
    lab.complete("step-1", attempt=2)
    assert lab.complete("step-1", attempt=2)["already_completed"] is True


def test_hole_9_a_substep_that_was_reset_is_still_its_holder_s(lab):
    lab = lab("1 t", "1.1 t")
    lab.claim()
    lab.start("step-1-1")
    lab.reset("step-1-1")
    lab.start("step-1-1")
    lab.tick("step-1-1", "t0")
    assert lab.status("step-1-1") == "completed"


def test_hole_10_a_substep_s_owner_is_asked_of_its_step(lab):
    lab = lab("1 t", "1.1 t")
    lab.claim()
    lab.store.write(KEY)
    with lab.store.write(KEY) as tx:
        tx.run(
            "update steps set claimed_by = 'odd' where parent_anchor is not null and 0 < :n", n=1
        )
    lab.start("step-1-1")
    with lab.refuses("E049"):
        lab.start("step-1-1", "odd")


def test_hole_11_force_keeps_what_is_deferred_and_leaves_nothing_open_in_substeps(lab):
    lab = lab("1 tt", "1.1 tt")
    lab.claim()
    lab.update("step-1", entry("t0", "deferred", reason="later"))
    lab.complete("step-1", force_reason="enough")
    assert lab.items("step-1") == {"t0": "deferred", "t1": "completed"}
    assert set(lab.items("step-1-1").values()) == {"completed"}


def test_hole_12_deferred_does_not_block_and_in_progress_does(lab):
    lab = lab("1 tt")
    lab.claim()
    lab.tick("step-1", "t0", status="deferred")
    lab.tick("step-1", "t1", status="in_progress")
    with lab.refuses("E051", "1 open item: step-1 task 1"):
        lab.complete("step-1")


def test_hole_13_a_reclaim_reopens_the_step_s_own_items_and_keeps_deferrals_with_reasons(lab):
    lab = lab("1 tt")
    lab.claim()
    lab.tick("step-1", "t0", status="in_progress")
    lab.update("step-1", entry("t1", "deferred", reason="later"))
    lab.claim("blue", force=True)
    assert lab.items("step-1") == {"t0": "open", "t1": "deferred"}
    assert lab.item("step-1", "t1")["reason"] == "later"


def test_hole_14_a_repeat_of_the_same_request_wipes_nothing(lab):
    lab = lab("1 t")
    lab.claim(request_id="once")
    lab.tick("step-1", "t0", status="in_progress")
    with lab.unchanged():
        lab.claim(request_id="once")


def test_hole_15_a_dependency_on_an_unknown_anchor_never_counts_as_fulfilled(lab, desk):
    lab = lab("1 t")
    insert = "insert into step_deps values (:plan, 'step-1', 'nowhere')"
    with pytest.raises(TugError, match=r"(?i)foreign key"), lab.store.write(KEY) as tx:
        tx.run(insert)
    desk = desk("1 t < 9", init=False)
    assert desk.json("init", "work").codes == ["E010", "E043"]


@pytest.mark.parametrize(
    "lines", [("1 t < 2", "2 t < 1"), ("1 t < 1",), ("1 t < 2.1", "2 t", "2.1 t < 1")]
)
def test_hole_16_circles_are_refused_at_init_and_nothing_is_left_behind(desk, lines):
    desk = desk(*lines, init=False)
    refused = desk.json("init", "work")
    assert refused.codes == ["E011", "E043"]
    assert not os.path.exists(desk.url.removeprefix("sqlite://"))


def test_hole_16_nothing_ready_says_whether_blocked_held_or_done(lab):
    lab = lab("1 t", "2 t < 1")
    lab.claim()
    answer = lab.claim("blue")
    assert (answer["blocked_steps"], len(answer["held_steps"])) == (["step-2"], 1)
    assert answer["held_steps"][0]["lease_expires_at"] == "2026-02-23T14:00:00.000Z"


def test_hole_17_dependencies_between_substeps_are_enforced(lab):
    lab = lab("1 t", "1.1 t", "1.2 t < 1.1")
    lab.claim()
    for command in (lab.start, lab.complete):
        with lab.refuses("E053"):
            command("step-1-2")


def test_hole_18_an_anchor_that_is_used_twice_is_refused_with_both_lines(desk):
    desk = desk("1 t", init=False)
    twice = "### Step 1: A {#same}\n### Step 2: B {#same}\n"
    (desk.red / KEY).write_text(twice)
    refused = desk.json("init", "work")
    assert "E006" in refused.codes
    assert "line 1" in refused.envelope()["issues"][0]["message"]


def test_hole_19_every_spelling_of_a_plan_is_one_plan(desk, tmp_path):
    desk = desk("1 t", "2 t")
    link = tmp_path / "link.md"
    link.symlink_to(desk.plan)
    desk.ok("claim", "work")
    for name in ("work", "wor", "tugplan-work.md", f"./{KEY}", desk.plan, desk.red / KEY, link):
        assert desk.ok("heartbeat", name, "step-1")["plan_path"] == KEY
    assert len(desk.rows("select * from plans")) == 1


def test_hole_20_every_spelling_of_a_worktree_is_one_owner(desk, tmp_path):
    desk = desk("1 t")
    link = tmp_path / "link"
    link.symlink_to(desk.repo.path)
    desk.ok("claim", "work")
    for path in (f"{desk.red}/", link / ".tugtree" / "red", ".tugtree/../.tugtree/red"):
        desk.ok("heartbeat", "work", "step-1", "--worktree", path, at=desk.repo.path)


def test_hole_21_line_ends_are_no_drift(desk):
    desk = desk("1 t")
    (desk.red / KEY).write_bytes(desk.plan.read_bytes().replace(b"\n", b"\r\n"))
    assert desk.ok("claim", "work")["claimed"] is True


def test_hole_22_init_of_a_changed_plan_says_so_and_moves_no_tick(desk):
    desk = desk("1 tt")
    desk.ok("claim", "work")
    desk.ok("update", "work", "step-1", "--task", 0, "completed")
    before = desk.dump()
    desk.plan.write_text(desk.plan.read_text().replace("task 0", "another task"))
    again = desk.ok("init", "work", at=desk.repo.path)
    assert (again["already_initialized"], again["drift"]) == (True, True)
    assert desk.dump() == before


def test_hole_23_statuses_are_checked_items_are_unique_and_no_item_is_no_success(lab):
    lab = lab("1 t")
    lab.claim()
    for wrong in (
        "update steps set status = 'done' where plan_path = :plan",
        "update checklist_items set status = 'done' where plan_path = :plan",
        "update checklist_items set kind = 'chore' where plan_path = :plan",
        "insert into checklist_items (plan_path, step_anchor, kind, ordinal, text, status) "
        "values (:plan, 'step-1', 'task', 0, 'again', 'open')",
    ):
        with pytest.raises(TugError, match="constraint"), lab.store.write(KEY) as tx:
            tx.run(wrong)
    with lab.refuses("E066"):
        lab.tick("step-1", "t99")


@pytest.mark.file
def test_hole_35_an_empty_file_is_not_a_plan_without_state_that_can_be_claimed_from(desk):
    desk = desk("1 t")
    database = desk.url.removeprefix("sqlite://")
    for name in ("", "-wal", "-shm"):
        if os.path.exists(database + name):
            os.unlink(database + name)
    with open(database, "wb"):
        pass
    refused = desk.json("claim", "work")
    assert refused.status == 1
    assert os.path.getsize(database) == 0  # and nobody silently started over


def test_hole_36_a_step_that_kills_its_worker_is_not_handed_out_for_ever(lab):
    lab = lab("1 t")
    for n in range(5):
        assert lab.claim(f"worker-{n}", lease_seconds=1)["claimed"] is True
        lab.clock.advance(2)
    answer = lab.claim("worker-5")
    assert (answer["claimed"], answer["parked_steps"]) == (False, ["step-1"])


def test_hole_37_a_completed_step_can_be_reopened_and_its_dependents_wait_again(lab):
    lab = lab("1 t", "2 t < 1", "3 t < 1")
    lab.finish("step-1")
    lab.finish("step-2")
    answer = lab.reopen("step-1", reason="reverted", force=True)
    assert answer["dependents"] == ["step-2"]
    assert lab.row("step-3")["open_deps"] == 1
    detail = lab.rows("select detail from events where kind = 'reopen'")[0]["detail"]
    assert '"reason": "reverted"' in detail
    assert lab.claim()["anchor"] == "step-1"


def test_hole_37_a_second_connection_sees_the_same(lab):
    lab = lab("1 t")
    lab.finish("step-1")
    other = open_store(lab.url, clock=lab.clock)
    lab.reopen("step-1")
    with other.read(KEY) as tx:
        assert tx.value("select status from steps where plan_path = :plan") == "pending"
    other.close()
