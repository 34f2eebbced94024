"""Situations in which one condition of a statement decides alone."""

import os
from collections.abc import Iterator

import pytest

from support import plan_drafts
from support.state import KEY, Lab, entry, markdown
from support.state_walk import NOBODY
from tugtool import state
from tugtool.errors.state import InvalidEntry
from tugtool.plan import fingerprint, parser
from tugtool.state import worktrees
from tugtool.state.claims import Request
from tugtool.state.completion import Finding
from tugtool.state.record import PlanCopy
from tugtool.store.sql import git as sql_git

FAMILY = ("1 t", "1.1 t", "2 t")
OTHER = ".tugtool/tugplan-another.md"


def _init(lab: Lab, plan: str, text: str) -> None:
    hash = fingerprint.of(text.encode())
    state.init(lab.store, plan, parser.parse(text), text=text, hash=hash)


def held(answer: dict) -> list[str]:
    return [each["anchor"] for each in answer["held_steps"]]


def test_a_parked_step_is_passed_over_with_its_substeps(lab):
    """Whoever asks: its holder, somebody else after the lease, or somebody with force."""
    lab = lab(*FAMILY)
    lab.claim("red", "step-1", max_attempts=1, lease_seconds=10)
    assert lab.claim("red", lease_seconds=100)["anchor"] == "step-2"
    lab.release("step-2")
    lab.clock.advance(11)
    got = lab.claim("blue")
    assert (got["anchor"], got["remaining_ready"]) == ("step-2", 0)
    assert lab.claim("green", force=True)["anchor"] == "step-2"
    nothing = lab.claim("violet")
    assert (held(nothing), nothing["parked_steps"]) == (["step-1", "step-2"], ["step-1"])


def test_force_gives_nothing_that_is_completed_or_waits(lab):
    lab = lab("1 t", "2 t < 1", "3 t")
    lab.finish("step-1")
    lab.claim("red", "step-2")
    lab.reopen("step-1", force=True)
    lab.claim("blue", "step-1")
    lab.finish("step-3", "green")
    assert lab.claim("violet", force=True)["anchor"] == "step-1"
    # What red holds waits for what violet has.
    assert lab.claim("red")["claimed"] is False
    lab.close("step-1", "violet")
    lab.complete("step-1", "violet")
    assert lab.claim("violet", force=True)["anchor"] == "step-2"


def test_what_is_ready_in_another_plan_is_not_given(lab):
    lab = lab("1 t", "2 t < 1")
    _init(lab, OTHER, markdown("1 t", "2 t"))
    lab.claim("red", "step-1")
    nothing = lab.claim("blue")
    assert (nothing["claimed"], nothing["reason"]) == (False, "no_ready_steps")


def test_a_step_that_waits_is_not_taken_over_when_its_lease_has_run_out(lab):
    lab = lab("1 t", "2 t < 1")
    lab.finish("step-1")
    lab.claim("red", "step-2", lease_seconds=10)
    lab.reopen("step-1", force=True)
    lab.claim("blue", "step-1")
    lab.clock.advance(11)
    assert lab.claim("green")["claimed"] is False


def test_blocked_are_only_steps_that_nobody_holds_or_has_parked(lab):
    lab = lab("1 t", "2 t < 1", "3 t < 1", "4 t < 1", "5 t")
    lab.finish("step-1")
    lab.claim("red", "step-2")
    lab.claim("blue", "step-3")
    lab.release("step-3", "blue", park_reason="look")
    lab.reopen("step-1", force=True)
    lab.pause()
    nothing = lab.claim("green")
    assert nothing["blocked_steps"] == ["step-4"]
    assert nothing["parked_steps"] == ["step-3"]
    assert held(nothing) == ["step-2"]


def test_held_steps_are_told_without_their_substeps(lab):
    lab = lab("1 t", "1.1 t")
    lab.claim()
    assert held(lab.claim("blue")) == ["step-1"]


def test_the_last_attempt_is_one_at_the_same_step(lab):
    lab = lab("1 t", "2 t", "3 t")
    for owner, step in (("red", "step-1"), ("blue", "step-2"), ("green", "step-3")):
        lab.claim(owner, step)
        lab.release(step, owner)
    for owner, step in (("red", "step-1"), ("blue", "step-2"), ("green", "step-3")):
        before = lab.claim("violet", step)["previous_attempt"]
        assert (before["number"], before["worktree"]) == (1, owner)


def test_what_ends_ends_one_attempt_at_one_step(lab):
    lab = lab("1 t", "2 t")
    lab.claim("red", "step-1")
    lab.claim("blue", "step-2")
    lab.close("step-1")
    lab.complete("step-1")
    assert [row["outcome"] for row in lab.attempts("step-1")] == ["completed"]
    assert [row["outcome"] for row in lab.attempts("step-2")] == [None]


def test_how_an_attempt_ended_is_not_told_otherwise_later(lab):
    lab = lab("1 t")
    lab.claim()
    lab.release("step-1")
    lab.reconcile("step-1")
    assert [row["outcome"] for row in lab.attempts("step-1")] == ["released"]


def test_who_held_a_step_before_does_not_speak_for_who_holds_it_now(lab):
    lab = lab("1 t")
    lab.claim("red", holder_pid=NOBODY)
    lab.claim("blue")
    assert lab.claim("green")["claimed"] is False
    assert lab.ready()["claimed_steps"] == ["step-1"]


def test_a_sign_of_life_is_one_of_one_step(lab):
    lab = lab("1 t", "1.1 t", "2 t", "2.1 t")
    for owner, step in (("red", "step-1"), ("blue", "step-2")):
        lab.claim(owner, step, lease_seconds=100)
    lab.clock.advance(50)
    before = {step: lab.row(step)["lease_expires_at"] for step in ("step-2", "step-2-1")}
    lab.beat("step-1")
    after = {step: lab.row(step)["lease_expires_at"] for step in ("step-2", "step-2-1")}
    assert after == before
    assert lab.row("step-1-1")["lease_expires_at"] > before["step-2"]


def test_a_new_lease_is_one_attempt_s(lab):
    lab = lab("1 t", "2 t")
    lab.claim("red", "step-1", lease_seconds=100)
    lab.claim("blue", "step-2", lease_seconds=100)
    lab.claim("red", "step-1", lease_seconds=100)
    lab.beat("step-1", lease_seconds=7)
    assert [row["lease_seconds"] for row in lab.attempts("step-1")] == [100, 7]
    assert [row["lease_seconds"] for row in lab.attempts("step-2")] == [100]


def test_progress_frees_the_step_that_was_worked_on_and_no_other(lab):
    lab = lab("1 t", "2 t")
    for owner, step in (("red", "step-1"), ("blue", "step-2")):
        lab.claim(owner, step, max_attempts=1)
    lab.tick("step-1", "t0")
    assert lab.row("step-1")["parked_at"] is None
    assert lab.row("step-2")["parked_at"] is not None


def test_only_what_a_step_needs_can_be_missing(lab):
    lab = lab("1", "2", "3 < 1", "4 < 2")
    for owner, step in (("red", "step-1"), ("blue", "step-2")):
        lab.claim(owner, step)
        lab.complete(step, owner, commit=f"c-{owner}")
    assert lab.claim("red", "step-3")["missing_commits"] == []
    assert lab.claim("red", "step-4")["missing_commits"] is None


def test_what_has_no_commit_is_not_missing(lab):
    lab = lab("1", "2 < 1", "3", "3.1 < 1")
    lab.claim("blue")
    lab.complete("step-1", "blue")
    assert lab.claim("red")["missing_commits"] == []
    # Of a step with a substep, all that both need is looked at.
    assert lab.claim("green")["missing_commits"] == []


@pytest.mark.parametrize(
    ("caller", "missing"), [("red", []), ("green", None)], ids=["red", "green"]
)
@pytest.mark.parametrize("holder", ["nobody", "the caller", "another worker"])
def test_a_claim_without_a_name_misses_only_what_its_step_needs(lab, caller, missing, holder):
    lab = lab("1", "2", "3", "4 < 1 3", "5 < 2")
    # Two other plans: step 1 is a substep of step 2; step 4 needs a commit of blue's.
    _init(lab, OTHER, markdown("2", "2.1").replace("Part 2.1", "Part {#step-1}"))
    _init(lab, OTHER + "2", markdown("1", "4 < 1"))
    with lab.store.write(OTHER + "2") as tx:
        tx.run(
            "update steps set commit_hash = 'c', completed_by = 'blue'"
            " where plan_path = :plan and anchor = 'step-1'"
        )
    commits = {"step-1": ("red", "c-1"), "step-2": ("blue", "c-2"), "step-3": ("blue", None)}
    for step, (owner, commit) in commits.items():
        lab.claim(owner, step)
        lab.complete(step, owner, commit=commit)
    if holder != "nobody":
        lab.claim(caller if holder == "the caller" else "blue", "step-4", lease_seconds=10)
    if holder == "another worker":
        lab.clock.advance(11)
    got = lab.claim(caller)
    assert (got["anchor"], got["missing_commits"]) == ("step-4", missing)


def test_which_steps_wait_for_a_step_is_a_matter_of_its_own_plan(lab):
    lab = lab("1", "2 < 1", "3", "4 < 3")
    _init(lab, OTHER, markdown("1", "2", "3 < 1"))
    lab.finish("step-1")
    rows = lab.rows("select anchor, open_deps from steps order by plan_path, anchor")
    assert [row["open_deps"] for row in rows] == [0, 0, 1, 0, 0, 0, 1]


def test_a_step_that_names_its_own_substep_waits_for_nothing(lab):
    lab = lab("1 t < 1.1", "1.1 t")
    lab.claim("red")
    lab.tick("step-1-1", "t0")
    assert (lab.status("step-1-1"), lab.row("step-1")["open_deps"]) == ("completed", 0)


def test_a_step_whose_items_are_closed_is_not_completed_by_what_it_waited_for(lab):
    lab = lab("1 t", "2 t < 1")
    lab.finish("step-1")
    lab.claim("red", "step-2")
    lab.close("step-2")
    lab.reopen("step-1", force=True)
    lab.finish("step-1", "blue")
    assert (lab.status("step-2"), lab.row("step-2")["open_deps"]) == ("claimed", 0)


def test_a_claim_without_a_name_misses_what_a_substep_needs(lab):
    lab = lab("1", "2", "2.1 < 1")
    lab.claim("blue")
    lab.complete("step-1", "blue", commit="c-1")
    assert lab.claim("red")["missing_commits"] is None


def test_an_item_is_one_of_its_kind(lab):
    lab = lab("1 tec")
    lab.claim()
    lab.tick("step-1", "e0")
    assert lab.items("step-1") == {"t0": "open", "e0": "completed", "c0": "open"}


def standing(lab: Lab, step: str, attempt: int, key: str = KEY) -> str:
    how = {"owner": "red", "attempt": attempt}
    return state.standing(lab.store, key, step, **how)["standing"]


def test_who_gave_a_step_back_is_told_of_that_attempt_at_that_step(lab):
    lab = lab("1 t", "2 t")
    for owner, step in (("red", "step-1"), ("blue", "step-2")):
        lab.claim(owner, step)
        lab.release(step, owner)
    assert standing(lab, "step-1", 1) == "released"
    lab.reset("step-1")
    assert standing(lab, "step-1", 1) == "released"
    lab.claim("blue", "step-1")
    lab.release("step-1", "blue")
    assert standing(lab, "step-1", 1) == "released"
    lab.claim("red", "step-1")
    assert standing(lab, "step-1", 3) == "held"


def test_who_gave_a_step_back_is_told_of_that_plan(lab):
    lab = lab("1 t")
    hash = fingerprint.of(b"another")
    state.init(lab.store, OTHER, parser.parse(lab.text), text=lab.text, hash=hash)
    lab.claim("red")
    lab.release("step-1")
    request, copy = Request("blue"), PlanCopy("/another.md", hash)
    for _ in range(2):
        state.claim(lab.store, OTHER, request, copy=copy)
        state.release(lab.store, OTHER, "step-1", owner="blue")
    assert standing(lab, "step-1", 1) == "released"
    lab.claim("red")
    lab.release("step-1", "blue", force=True)
    with lab.refuses("E060", "attempt 2"):
        standing(lab, "step-1", 2)


def test_a_process_stands_for_one_attempt_at_one_step(lab):
    lab = lab("1 t", "2 t")
    lab.claim("red", "step-1", holder_pid=NOBODY)
    lab.claim("red", "step-1")
    lab.claim("blue", "step-2")
    state.adopt(lab.store, KEY, "step-1", owner="red", attempt=2, pid=NOBODY + 1)
    pids = {
        step: [row["holder_pid"] for row in lab.attempts(step)] for step in ("step-1", "step-2")
    }
    assert pids == {"step-1": [NOBODY, NOBODY + 1], "step-2": [None]}


def test_starting_a_step_again_tells_when_it_was_started(lab):
    lab = lab("1 t", "1.1 t", "1.2 t")
    lab.claim()
    lab.start("step-1-1")
    assert lab.status("step-1-2") == "claimed"
    lab.tick("step-1-2", "t0")
    lab.start("step-1-1")
    assert lab.status("step-1-2") == "completed"


def test_a_claim_ends_the_reservation_of_the_caller_s_worktree_alone(lab):
    lab = lab("1 t")
    columns = "path, branch, base_branch, base_commit, plan_path, created_at, reserved_until"
    with lab.store.write(KEY) as tx:
        for path in ("red", "blue"):
            values = f"('{path}', 'b-{path}', 'main', 'c0', :plan, :now, :now)"
            tx.run(f"insert into worktrees ({columns}) values {values}")
    lab.claim("red")
    rows = lab.rows("select path, reserved_until is null as free from worktrees order by path")
    assert rows == [{"path": "blue", "free": 0}, {"path": "red", "free": 1}]


def test_which_step_a_substep_belongs_to_is_a_matter_of_its_own_plan(lab):
    lab: Lab = lab(text=plan_drafts.draw("1: x", "2: x", "3 < 1: x"))
    parts = [plan_drafts.part("2: x"), plan_drafts.part("1: x")._replace(is_substep=True)]
    twins = [plan_drafts.part("1: x"), plan_drafts.part("2: x")._replace(is_substep=True)]
    for key, each in ((OTHER, parts), (OTHER + "2", twins)):
        _init(lab, key, plan_drafts.text(each))
    for owner, step in (("red", "step-1"), ("blue", "step-2")):
        lab.claim(owner, step, lease_seconds=100)
    lab.clock.advance(50)
    before = lab.row("step-2")["lease_expires_at"]
    lab.beat("step-1")
    assert lab.row("step-2")["lease_expires_at"] == before
    for owner, step in (("red", "step-1"), ("blue", "step-2")):
        lab.update(step, entry("t0"), owner=owner)
        lab.complete(step, owner, commit=f"c-{owner}")
    assert lab.claim("red", "step-3")["missing_commits"] == []
    lab.release("step-3")
    lab.reopen("step-1")
    assert lab.status("step-2") == "completed"


def test_a_commit_that_is_missing_is_one_of_its_own_plan(lab):
    """Also if a step of that name is part of another step elsewhere, with a commit of its own."""
    lab: Lab = lab(text=plan_drafts.draw("1: x", "2 < 1: x"))
    parts = [plan_drafts.part("2: x"), plan_drafts.part("1: x")._replace(is_substep=True)]
    text = plan_drafts.text(parts)
    _init(lab, OTHER, text)
    copies = {KEY: lab.copy, OTHER: PlanCopy("/another.md", fingerprint.of(text.encode()))}
    for key, step, commit in ((KEY, "step-1", "ours"), (OTHER, "step-2", "theirs")):
        how = {"copy": copies[key]}
        state.claim(lab.store, key, Request("blue", also=True), step=step, **how)
        state.update(lab.store, key, step, [], owner="blue", complete_remaining=True, **how)
        state.complete(lab.store, key, step, owner="blue", commit=commit, **how)
    lab.claim("red", "step-2")
    asked: list[list[str]] = []

    def lacking(commits: list[str]) -> dict[str, int]:
        asked.append(commits)
        return {}

    worktrees.missing_commits(lab.store, KEY, ["step-2"], owner="red", lacking=lacking)
    assert asked == [["ours"]]


def test_a_release_names_the_person_or_else_the_worker(lab):
    lab = lab("1 t")
    for how in ({}, {"force": True, "actor": "Ada"}):
        lab.claim("red", "step-1")
        lab.release("step-1", **how)
    told = state.log(lab.store, KEY)["events"]
    assert [each["actor"] for each in told if each["kind"] == "release"] == ["red", "Ada"]


def test_a_dead_holder_s_step_that_waits_or_is_parked_is_nobody_s(lab):
    lab = lab("1 t", "2 t < 1", "3 t")
    lab.finish("step-1")
    lab.claim("red", "step-2", holder_pid=NOBODY)
    lab.reopen("step-1", force=True)
    lab.claim("blue", "step-1")
    lab.claim("violet", "step-3", holder_pid=NOBODY, max_attempts=1)
    assert lab.claim("green")["claimed"] is False


def test_a_living_holder_keeps_its_step_and_a_dead_one_does_not(lab):
    lab = lab("1 t")
    lab.claim("red", holder_pid=os.getpid())
    assert lab.claim("blue")["claimed"] is False
    lab.claim("red", holder_pid=NOBODY)
    assert lab.claim("blue")["anchor"] == "step-1"


def test_only_its_lease_tells_that_a_holder_on_another_machine_is_gone(lab):
    lab = lab("1 t")
    lab.claim("kiosk:/srv/shop", holder_pid=NOBODY, lease_seconds=10)
    assert lab.claim("blue")["claimed"] is False
    lab.clock.advance(11)
    assert lab.claim("blue")["anchor"] == "step-1"


def test_a_step_can_be_asked_for_when_its_lease_has_run_out(lab):
    lab = lab("1 t", "2 t")
    lab.claim("red", "step-1", lease_seconds=10)
    lab.clock.advance(11)
    got = lab.claim("blue", "step-1")
    assert (got["reclaimed_from_expired"], got["salvage_ref"]) == (True, None)


def test_releasing_what_is_done_is_refused_as_done(lab):
    lab = lab("1 t")
    lab.finish("step-1")
    with lab.refuses("E050", "what is done stays done"):
        lab.release("step-1")


def test_work_is_to_be_saved_only_if_somebody_else_took_the_step_or_left_it_there(lab):
    lab = lab("1 t", "2 t", "3 t")
    for step in ("step-1", "step-2"):
        lab.claim("red", step)
    lab.release("step-1")
    assert lab.unsaved is False
    lab.release("step-2", "blue", force=True)
    assert lab.unsaved is True


def test_work_that_is_left_there_is_to_be_saved(lab):
    lab = lab("1 t")
    lab.claim()
    lab.release("step-1", leaving_work=True)
    assert lab.unsaved is True


def test_reset_frees_a_parked_step_also_after_progress(lab):
    lab = lab("1 tt")
    lab.claim()
    lab.tick("step-1", "t0")
    lab.release("step-1", park_reason="look")
    assert lab.row("step-1")["claims_without_progress"] == 0
    lab.reset("step-1")
    assert lab.row("step-1")["parked_at"] is None


def test_what_goes_back_is_ready_only_if_it_is_neither_parked_nor_waits(lab):
    lab = lab("1 t", "2 t < 1", "3 t")
    lab.finish("step-1")
    lab.claim("red", "step-2")
    lab.reopen("step-1", force=True)
    lab.claim("blue", "step-1")
    lab.claim("green", "step-3")
    assert lab.plan()["steps_ready"] == 0
    lab.release("step-2")
    lab.release("step-3", "green", park_reason="look")
    assert lab.plan()["steps_ready"] == 0
    lab.reset("step-3")
    assert lab.plan()["steps_ready"] == 1
    # One that is neither parked nor held, but was claimed: nothing to count.
    lab.reset("step-2")
    assert lab.plan()["steps_ready"] == 1


def test_a_parked_step_that_waits_is_not_ready_when_it_is_freed(lab):
    lab = lab("1 t", "2 t < 1", "3 t")
    lab.finish("step-1")
    lab.claim("red", "step-2")
    lab.release("step-2", park_reason="look")
    lab.reopen("step-1", force=True)
    assert lab.plan()["steps_ready"] == 2
    lab.reset("step-2")
    assert lab.plan()["steps_ready"] == 2
    lab.claim("red", "step-3", max_attempts=1)
    lab.tick("step-3", "t0")
    assert lab.plan()["steps_ready"] == 1
    lab.claim("red", "step-1")
    lab.release("step-1")
    lab.reset("step-1")
    assert lab.plan()["steps_ready"] == 1


def test_a_failure_parks_nothing(lab):
    lab = lab("1 t")
    lab.claim()
    lab.release("step-1", failure="it broke")
    assert lab.row("step-1")["park_reason"] is None
    with lab.refuses("E060"):
        standing(lab, "step-1", 1)


def test_a_deferral_without_a_reason_is_told_and_nothing_else_is(lab):
    lab = lab("1 ttt")
    lab.claim()
    done = lab.update("step-1", entry("t0", "deferred"), entry("t1", "deferred", reason="later"))
    assert [each["ordinal"] for each in lab.unexplained] == [0]
    assert done["tasks"] == {"open": 1, "in_progress": 0, "completed": 0, "deferred": 2}
    assert done["tests"] == {"open": 0, "in_progress": 0, "completed": 0, "deferred": 0}
    lab.update("step-1", entry("t1", "deferred"), entry("t2", "completed"))
    assert lab.unexplained == []
    lab.update("step-1", entry("t1", "deferred", reason="never"))
    assert lab.item("step-1", "t1")["reason"] == "never"


def test_what_nobody_completed_is_nobody_s_to_comment(lab):
    lab = lab("1 t")
    lab.reconcile("step-1", attempt=7)
    with lab.refuses("E049", "nobody"):
        lab.artifact("step-1")


@pytest.mark.parametrize("ordinal", [True, 1.0, 9, -1, "0", None])
def test_an_ordinal_is_a_number_of_an_item(lab, ordinal):
    lab = lab("1 tt")
    lab.claim()
    with lab.refuses("E066"):
        lab.update("step-1", {"kind": "task", "ordinal": ordinal, "status": "completed"})


def test_evidence_stays_until_a_closed_item_is_opened(lab):
    lab = lab("1 cc")
    lab.claim()
    findings = [Finding("step-1", n, passed=n == 0, evidence={"n": n}) for n in (0, 1)]
    how = {"owner": "red", "attempt": 1, "copy": lab.copy, "plan_hash": lab.hash, "summary": "x"}
    state.verify(lab.store, KEY, "step-1", findings, **how)
    lab.update("step-1", entry("c0", "deferred"), entry("c1", "in_progress"))
    assert lab.item("step-1", "c0")["evidence"] is not None
    assert lab.item("step-1", "c1")["evidence"] is not None
    lab.update("step-1", entry("c0", "open"))
    assert lab.item("step-1", "c0")["evidence"] is None


def test_a_completed_substep_stays_so_while_its_step_goes_on(lab):
    lab = lab("1 tt", "1.1 t")
    lab.claim()
    lab.tick("step-1-1", "t0")
    lab.tick("step-1", "t0")
    assert lab.status("step-1-1") == "completed"
    assert "substep_reopened" not in lab.events()


def test_a_substep_that_names_its_own_step_waits_for_nothing(lab):
    lab = lab("1 t", "1.1 t < 1")
    lab.claim()
    lab.start("step-1-1")
    lab.close("step-1")
    assert lab.status("step-1-1") == "completed"
    lab.complete("step-1")
    assert lab.row("step-1")["open_deps"] == 0


def test_an_archived_plan_stays_so_whoever_finishes_in_it(lab):
    lab = lab("1 t", "2 t")
    lab.claim(lease_seconds=10)
    lab.clock.advance(11)
    lab.archive()
    lab.close("step-1")
    lab.complete("step-1")
    assert lab.plan()["status"] == "archived"
    for refused in (lab.resume, lab.pause, lab.claim):
        with lab.refuses("E050", "archive"):
            refused()


@pytest.mark.parametrize(("name", "meant"), [("pie", "pier"), ("1", "step-1")])
def test_a_mistyped_step_is_answered_with_the_closest(lab, name, meant):
    pier = plan_drafts.part("2: x")._replace(anchor="pier")
    lab = lab(text=plan_drafts.text([plan_drafts.part("1: x"), pier]))
    with lab.refuses("E059", meant):
        lab.start(name)


def test_entries_that_could_not_be_read_are_refused_when_it_is_their_turn(lab):
    lab = lab("1 t")
    lab.claim()

    def unreadable() -> Iterator[dict]:
        raise InvalidEntry("no JSON")
        yield {}

    with lab.refuses("E066", "no JSON"):
        how = {"owner": "red", "copy": lab.copy}
        state.update(lab.store, KEY, "step-1", unreadable(), **how)


def test_a_blank_reason_closes_nothing(lab):
    lab = lab("1 t")
    lab.claim()
    with lab.refuses("E051"):
        lab.complete("step-1", force_reason=" \n")


def test_a_claim_that_is_repeated_gets_the_same_and_one_that_is_over_gets_none(lab):
    lab = lab("1 t")
    assert lab.claim(request_id="a")["attempt"] == lab.claim(request_id="a")["attempt"] == 1
    lab.release("step-1")
    with lab.refuses("E060"):
        lab.claim(request_id="a")


def test_force_passes_over_a_held_step_that_waits(lab):
    lab = lab("1 t < 2", "2 t")
    lab.finish("step-2")
    lab.claim("red", "step-1")
    lab.reopen("step-2", force=True)
    lab.claim("blue", "step-2")
    assert lab.claim("green", force=True)["anchor"] == "step-2"


def test_a_completion_ends_the_very_intent_that_led_to_it(lab):
    lab = lab("1", "2")
    with lab.store.write(KEY) as tx:
        values = {"plan": KEY, "anchor": "step-1", "attempt": 1, "head": None, "detail": "{}"}
        at = tx.now
        for owner in ("red", "blue"):
            tx.run(sql_git.ADD_COMMIT_INTENT, owner=owner, **values)
        tx.run(sql_git.ADD_INTENT, kind="sync", path="red", head=None, detail="{}")
    lab.claim("red", "step-1")
    lab.complete("step-1", intent_at="2026-01-01T00:00:00.000Z")
    assert len(lab.rows("select * from intents")) == 3
    lab.claim("red", "step-2")
    lab.complete("step-2", intent_at=at)
    left = lab.rows("select kind, worktree from intents order by kind")
    assert left == [
        {"kind": "commit", "worktree": "blue"},
        {"kind": "sync", "worktree": "red"},
    ]


def test_only_the_step_s_own_items_are_counted(lab):
    lab = lab("1 t", "2 ttt")
    lab.claim("red", "step-1")
    answer = lab.tick("step-1", "t0")
    assert answer["tasks"] == {"open": 0, "in_progress": 0, "completed": 1, "deferred": 0}


def test_what_remains_of_a_plan_is_its_own(lab):
    """Also where another plan of another size came first."""
    lab = lab("1 t")
    text, key = markdown("1 t", "2 t", "3 t"), ".tugtool/tugplan-zz.md"
    agreed = fingerprint.of(text.encode())
    state.init(lab.store, key, parser.parse(text), text=text, hash=agreed)
    copy = PlanCopy("/second.md", agreed)
    state.claim(lab.store, key, Request("red"), copy=copy)
    how = {"owner": "red", "copy": copy}
    state.complete(lab.store, key, "step-1", force_reason="enough", **how)
    again = state.complete(lab.store, key, "step-1", **how)
    assert (again["already_completed"], again["remaining_steps"]) == (True, 2)


def test_what_is_to_be_saved_is_a_matter_of_its_own_plan(lab):
    lab = lab("1 t")
    state.init(lab.store, "other.md", parser.parse(lab.text), text=lab.text, hash=lab.hash)

    def claim(plan: str, owner: str) -> dict:
        request = Request(owner, lease_seconds=60, max_attempts=5)
        return state.claim(lab.store, plan, request, copy=lab.copy)

    claim("other.md", "blue")
    claim(KEY, "red")
    lab.clock.advance(61)
    assert claim("other.md", "green")["unsaved"] is True
    again = claim(KEY, "red")
    assert (again["reclaimed"], again["unsaved"]) == (True, False)
