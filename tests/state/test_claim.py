"""claim: which step, for whom, in which order, and what the answer says."""

import pytest

from support.state import KEY, markdown
from tugtool import state
from tugtool.errors.state import PlanChanged, RevisionRefused
from tugtool.plan import fingerprint
from tugtool.plan.parser import parse
from tugtool.state import attempts, revisions
from tugtool.state.record import PlanCopy

TWO_ROOTS = ("1 t", "2 t", "3 t < 1 2")


def test_a_pending_step_without_dependencies_is_claimable(lab):
    lab = lab("1 t")
    assert lab.claim()["anchor"] == "step-1"
    row = lab.row("step-1")
    assert (row["status"], row["claimed_by"], row["attempt"]) == ("claimed", "red", 1)
    assert row["claimed_at"] == row["heartbeat_at"] == "2026-02-23T12:00:00.000Z"
    assert row["lease_expires_at"] == "2026-02-23T14:00:00.000Z"


def test_who_begins_at_once_has_the_step_started_in_the_same_transaction(lab):
    lab = lab("1 t", "2 t < 1")
    got = lab.claim(begins=True)
    assert (got["started"], lab.row("step-1")["status"]) == (True, "in_progress")
    assert lab.row("step-1")["started_at"] == "2026-02-23T12:00:00.000Z"
    assert lab.events()[-2:] == ["claim", "start"]
    nothing = lab.claim("blue", begins=True)
    assert (nothing["claimed"], nothing["started"]) == (False, False)


def test_a_claim_that_is_repeated_does_not_begin_again(lab):
    lab = lab("1 t")
    lab.claim(begins=True, request_id="a")
    before = lab.events()
    again = lab.claim(begins=True, request_id="a")
    assert (again["replayed"], again["started"]) == (True, True)
    # That it was started is known; to ask again is a sign of life.
    assert lab.events() == [*before, "heartbeat"]


def test_a_step_that_the_caller_holds_is_not_among_those_that_remain_ready(lab):
    lab = lab("1 t", "2 t", "3 t")
    lab.claim(step="step-1")
    assert lab.claim(step="step-2")["remaining_ready"] == 1


def test_what_is_to_be_brought_in_or_taken_up_comes_before_the_start(lab):
    lab = lab("1 t", "2 t < 1")
    lab.claim()
    again = lab.claim(begins=True)
    assert (again["started"], lab.row("step-1")["status"]) == (False, "claimed")
    lab.update("step-1", complete_remaining=True)
    lab.complete("step-1", commit="1" * 40)
    other = lab.claim("blue", begins=True)
    assert (other["started"], other["missing_commits"]) == (False, None)


def test_ready_steps_go_out_in_the_plan_s_order_and_each_once(lab):
    lab = lab(*[f"{n} t" for n in range(1, 12)])
    got = [lab.claim(f"w{n}")["anchor"] for n in range(11)]
    # By position: as texts, step-10 would come before step-2.
    assert got == [f"step-{n}" for n in range(1, 12)]
    assert lab.claim("late")["claimed"] is False


def test_the_caller_s_own_unfinished_step_comes_first_whatever_the_lease(lab):
    lab = lab(*TWO_ROOTS)
    lab.claim("red", "step-2")
    lab.clock.advance(60)
    again = lab.claim("red")
    assert (again["anchor"], again["reclaimed"], again["attempt"]) == ("step-2", True, 2)
    assert again["reclaimed_from_expired"] is False
    assert again["lease_expires_at"] == "2026-02-23T14:01:00.000Z"


def test_of_several_own_steps_the_lowest_comes_first(lab):
    lab = lab(*TWO_ROOTS)
    lab.claim("red", "step-2")
    lab.claim("red", "step-1")
    assert lab.claim("red")["anchor"] == "step-1"


@pytest.mark.parametrize("started", [False, True])
def test_an_expired_lease_goes_to_the_next_caller_claimed_or_in_progress(lab, started):
    lab = lab("1 t")
    lab.claim("red", lease_seconds=10)
    if started:
        lab.start("step-1")
    lab.clock.advance(10)
    assert lab.claim("blue")["claimed"] is False  # the last millisecond still counts
    lab.clock.advance(0.001)
    got = lab.claim("blue")
    assert (got["claimed"], got["reclaimed"], got["reclaimed_from_expired"]) == (True, True, True)
    assert lab.attempts("step-1")[0]["outcome"] == "expired"
    assert lab.row("step-1")["started_at"] is None
    assert lab.row("step-1")["heartbeat_at"] == "2026-02-23T12:00:10.001Z"


def test_an_expired_step_and_a_pending_one_go_by_their_place_in_the_plan(lab):
    lab = lab("1 t", "2 t", "3 t")
    lab.claim("red", "step-2", lease_seconds=1)
    lab.clock.advance(2)
    order = [lab.claim(name)["anchor"] for name in ("a", "b", "c")]
    assert order == ["step-1", "step-2", "step-3"]


def test_every_dependency_must_be_completed_also_those_of_substeps(lab):
    lab = lab("1 t", "2 t", "3 t < 1", "3.1 t < 2", "3.2 t < 3.1")
    assert lab.row("step-3")["open_deps"] == 2  # the edge inside the step is none
    lab.finish("step-1")
    lab.claim("blue", "step-2")
    with lab.refuses("E053", "step-3 waits for step-2"):
        lab.claim("red", "step-3")
    lab.close("step-2", "blue")
    lab.complete("step-2", "blue")
    assert lab.claim("red")["anchor"] == "step-3"


def test_force_takes_a_live_step_only_when_nothing_else_can_be_had(lab):
    lab = lab(*TWO_ROOTS)
    lab.claim("red")
    assert lab.claim("blue", force=True)["anchor"] == "step-2"
    assert lab.claim("green")["claimed"] is False
    taken = lab.claim("green", force=True)
    assert (taken["anchor"], taken["reclaimed"], taken["reclaimed_from_expired"]) == (
        "step-1",
        True,
        False,
    )
    assert lab.attempts("step-1")[0]["outcome"] == "superseded"


def test_force_overrides_neither_dependencies_nor_a_pause_nor_a_parked_step(lab):
    lab = lab("1 t", "2 t < 1", max_attempts=2)
    lab.claim("red", "step-1", max_attempts=1)
    assert lab.claim("blue", force=True)["reason"] == "no_ready_steps"
    with lab.refuses("E067"):
        lab.claim("blue", "step-1", force=True)
    with lab.refuses("E053", "waits for step-1"):
        lab.claim("blue", "step-2", force=True)
    lab.reset("step-1")
    lab.pause()
    assert lab.claim("blue", force=True)["reason"] == "paused"


def test_force_takes_the_very_step_that_is_asked_for(lab):
    lab = lab(*TWO_ROOTS)
    lab.claim("red", "step-2")
    assert lab.claim("blue", "step-2", force=True)["anchor"] == "step-2"


def test_a_step_that_is_asked_for_is_refused_with_the_reason(lab):
    lab = lab("1 t", "1.1 t", "2 t < 1", "3 t")
    lab.claim("red", "step-1")
    with lab.refuses("E053", "held by red until 2026-02-23T14:00:00.000Z"):
        lab.claim("blue", "step-1")
    with lab.refuses("E053", "step-2 waits for step-1"):
        lab.claim("blue", "step-2")
    with lab.refuses("E050", "step-1-1 is a substep"):
        lab.claim("blue", "step-1-1")
    lab.close("step-1")
    lab.complete("step-1")
    with lab.refuses("E050", "step-1 is completed"):
        lab.claim("blue", "step-1")
    with lab.refuses("E059", "has no step step-9"):
        lab.claim("blue", "step-9")
    lab.claim("blue", "step-3", max_attempts=1)
    with lab.refuses("E067", "step-3 is parked"):
        lab.claim("red", "step-3")


def test_an_own_step_can_be_asked_for_again(lab):
    lab = lab("1 t")
    lab.claim()
    assert lab.claim("red", "step-1")["attempt"] == 2


def test_nothing_ready_says_what_is_blocked_by_what_held_by_whom_and_parked(lab):
    lab = lab("1 t", "2 t < 1", "2.1 t < 1 3", "2.2 t < 2.1", "3 t", "4 t")
    lab.claim("red", "step-1")
    lab.claim("blue", "step-3", lease_seconds=60)
    lab.claim("green", "step-4")
    lab.release("step-4", "green", park_reason="no access")
    assert lab.claim("late") == {
        "claimed": False,
        "plan_path": ".tugtool/tugplan-work.md",
        "reason": "no_ready_steps",
        "all_completed": False,
        "total_remaining": 4,
        "blocked_steps": ["step-2"],
        "waiting_for": {"step-2": ["step-1", "step-3"]},
        "held_steps": [
            {"anchor": "step-1", "owner": "red", "lease_expires_at": "2026-02-23T14:00:00.000Z"},
            {"anchor": "step-3", "owner": "blue", "lease_expires_at": "2026-02-23T12:01:00.000Z"},
        ],
        "parked_steps": ["step-4"],
        "lists_capped": False,
        "unsaved": False,
    }


def test_paused_is_answered_before_all_completed_and_that_before_a_step_s_refusal(lab):
    lab = lab("1 t", "2 t")
    lab.finish("step-1")
    lab.claim("red", "step-2")
    lab.pause()
    assert lab.claim("red", "step-1")["reason"] == "paused"
    lab.close("step-2")
    lab.complete("step-2")
    assert lab.claim("red")["reason"] == "paused"
    lab.resume()
    answer = lab.claim("red", "step-1")
    assert (answer["reason"], answer["all_completed"]) == ("all_completed", True)
    assert answer["total_remaining"] == 0


def test_an_answer_of_nothing_changes_nothing(lab):
    lab = lab("1 t", "2 t < 1")
    lab.claim("red")
    with lab.unchanged():
        lab.claim("blue")


def test_lists_are_capped_and_say_so_each_by_itself(lab):
    lab = lab("1 t", *[f"{n} t < 1" for n in range(2, 62)], "70 t")
    lab.claim("red", "step-1")
    lab.claim("blue", "step-70")
    lab.release("step-70", "blue", park_reason="later")
    answer = lab.claim("late")
    assert len(answer["blocked_steps"]) == len(answer["waiting_for"]) == 50
    # Behind all the blocked ones, and still told.
    assert answer["parked_steps"] == ["step-70"]
    assert answer["lists_capped"] is True


def test_what_one_step_waits_for_is_capped_too(lab):
    many = [str(n) for n in range(1, 53)]
    lab = lab(*[f"{n} t" for n in many], f"99 t < {' '.join(many)}")
    for n in many:
        lab.claim(f"w{n}")
    answer = lab.claim("late")
    assert len(answer["waiting_for"]["step-99"]) == 50
    assert answer["lists_capped"] is True


def test_remaining_ready_counts_what_a_stranger_could_get_after_this_one(lab):
    lab = lab("1 t", "2 t", "3 t", "4 t", "5 t < 1", "6 t")
    lab.claim("a", "step-2", lease_seconds=1)
    lab.claim("b", "step-6", max_attempts=1, lease_seconds=1)  # parked: for nobody
    lab.clock.advance(2)
    got = lab.claim("red")
    assert got["anchor"] == "step-1"
    # Steps 3 and 4 are pending, 2 has expired.
    assert (got["remaining_ready"], got["total_remaining"]) == (3, 6)
    assert len(lab.ready()["ready_steps"]) == 3


def test_a_reclaim_opens_what_was_under_way_and_keeps_what_was_decided(lab):
    lab = lab("1 tttt", "1.1 tt", "1.2 t", "2 t")
    lab.claim()
    lab.update("step-1", {"kind": "task", "ordinal": 0, "status": "in_progress"})
    lab.update("step-1", {"kind": "task", "ordinal": 1, "status": "completed"})
    lab.update("step-1", {"kind": "task", "ordinal": 2, "status": "deferred", "reason": "later"})
    lab.tick("step-1-1", "t0", status="in_progress")
    lab.tick("step-1-2", "t0")
    lab.claim("blue", "step-1", force=True)
    expected = {"t0": "open", "t1": "completed", "t2": "deferred", "t3": "open"}
    assert lab.items("step-1") == expected
    assert lab.item("step-1", "t2")["reason"] == "later"
    assert lab.items("step-1-1") == {"t0": "open", "t1": "open"}
    assert (lab.status("step-1-1"), lab.status("step-1-2")) == ("claimed", "completed")
    assert lab.row("step-1-1")["claimed_by"] == "blue"


def test_the_reason_of_a_reopening_reaches_every_worker_until_the_step_is_done(lab):
    lab = lab("1 t", "2 t")
    lab.finish("step-1")
    lab.clock.advance(60)
    lab.reopen("step-1", reason="too slow", actor="Ada")
    told = {"at": "2026-02-23T12:01:00.000Z", "by": "Ada", "reason": "too slow"}
    first = lab.claim("red", "step-1", request_id="r")
    assert first["previous_attempt"]["reopened"] == told
    assert lab.claim("red", "step-1", request_id="r")["previous_attempt"]["reopened"] == told
    assert first["previous_attempt"]["artifacts"] == []
    lab.clock.advance(7201)
    second = lab.claim("blue", "step-1")["previous_attempt"]
    assert (second["outcome"], second["reopened"]) == ("expired", told)
    lab.release("step-1", "blue")
    assert lab.claim("red", "step-2")["previous_attempt"] is None


def test_the_answer_carries_what_the_last_attempt_left_behind(lab):
    lab = lab("1 tt", "1.1 t")
    assert lab.claim()["previous_attempt"] is None
    lab.tick("step-1", "t1")
    lab.tick("step-1-1", "t0")
    number = lab.artifact("step-1-1", kind="architect_strategy", summary="use the lexer")
    lab.clock.advance(7201)
    got = lab.claim("blue")
    assert got["previous_attempt"] == {
        "number": 1,
        "worktree": "red",
        "outcome": "expired",
        "claimed_at": "2026-02-23T12:00:00.000Z",
        "ended_at": "2026-02-23T14:00:01.000Z",
        "reopened": None,
        "branch": None,
        "commits_ahead": None,
        "salvage_ref": None,
        "salvage_refs": [],
        "recover": [],
        "completed_items": [
            {"step_anchor": "step-1", "kind": "task", "ordinal": 1},
            {"step_anchor": "step-1-1", "kind": "task", "ordinal": 0},
        ],
        "artifacts": [
            {
                "step_anchor": "step-1-1",
                "artifact_id": number["artifact_id"],
                "kind": "architect_strategy",
                "summary": "use the lexer",
            }
        ],
    }
    assert got["substeps"] == [{"anchor": "step-1-1", "title": "Part 1.1", "status": "completed"}]


@pytest.mark.parametrize("outcome", ["released", "reset", "completed"])
def test_a_step_that_was_pending_is_claimed_and_not_reclaimed_but_knows_its_past(lab, outcome):
    lab = lab("1 t")
    lab.claim()
    if outcome == "completed":
        lab.close("step-1")
        lab.complete("step-1")
        lab.reopen("step-1")
    else:
        lab.release("step-1") if outcome == "released" else lab.reset("step-1")
    got = lab.claim("blue")
    assert (got["reclaimed"], got["reclaimed_from_expired"], got["attempt"]) == (False, False, 2)
    assert got["previous_attempt"]["outcome"] == outcome


def test_an_own_step_that_is_blocked_again_is_passed_over_and_stays_held(lab):
    lab = lab("1 t", "2 t < 1", "3 t")
    lab.finish("step-1")
    lab.claim("red", "step-2")
    lab.reopen("step-1", force=True)
    assert lab.claim("red")["anchor"] == "step-1"
    assert lab.row("step-2")["claimed_by"] == "red"
    with lab.refuses("E053", "waits for step-1"):
        lab.claim("red", "step-2")


def test_a_second_step_is_asked_for_only_by_who_means_it(lab):
    lab = lab("1 t", "2 t")
    lab.claim("red", "step-2", also=False)
    with lab.refuses("E050", "step-2 is held by you", "--also"):
        lab.claim("red", "step-1", also=False)
    assert lab.claim("red", "step-2", also=False)["attempt"] == 2
    assert lab.claim("blue", "step-1", also=False)["claimed"]
    lab.release("step-1", "blue")
    assert lab.claim("red", "step-1", also=True)["claimed"]


def test_a_worktree_of_another_plan_claims_nothing_of_this_one(lab):
    lab = lab("1 t", "2 t")
    with lab.store.write(KEY, "other.md") as tx:
        for path, plan in (("red", "other.md"), ("blue", KEY)):
            tx.run(
                "insert into worktrees values (:path, :path, 'main', 'c', :of, :now, null, null)",
                path=path,
                of=plan,
            )
    with lab.refuses("E036", "red is a worktree of other.md", f"{KEY} is carried out in blue"):
        lab.claim("red")
    assert lab.claim("blue")["claimed"]
    assert lab.claim("green")["claimed"]


def test_a_text_is_edited_or_was_agreed_before(lab):
    lab = lab("1 t")
    old, other = lab.hash, parse(markdown("1 tt"))
    # What was agreed of another plan says nothing about this one.
    texts = [markdown("1 tt"), markdown("1 ttt")]
    hashes = [fingerprint.of(text.encode()) for text in texts]
    state.init(lab.store, "other.md", other, text=texts[0], hash=hashes[0])
    new = {"text": texts[1], "hash": hashes[1], "allowed": state.Allowed()}
    state.revise(lab.store, "other.md", parse(texts[1]), **new)
    lab.revise(markdown("1 t", "2 t"))
    assert revisions.is_earlier(lab.store, KEY, old)
    assert not revisions.is_earlier(lab.store, KEY, hashes[0])
    for hash_, worktree, standing in (
        (old, None, "older"),
        (old, "/the/worktree", "newer"),
        ("never agreed", "/the/worktree", "edited"),
        (hashes[0], None, "edited"),
        (None, None, "edited"),
    ):
        with pytest.raises(PlanChanged) as caught:
            lab.claim(copy=PlanCopy("/the/plan.md", hash_, worktree=worktree))
        assert caught.value.facts["standing"] == standing
    again = {"text": "", "hash": old, "allowed": state.Allowed()}
    with pytest.raises(RevisionRefused, match="would undo what was agreed since"):
        state.revise(lab.store, KEY, parse(markdown("1 t")), **again)


def test_a_request_is_known_once_it_was_answered_with_a_claim(lab):
    here = lab("1 t")
    assert not attempts.is_requested(here.store, KEY, "r-1", owner="/a")
    here.claim("/a", request_id="r-1")
    assert attempts.is_requested(here.store, KEY, "r-1", owner="/a")
    assert not attempts.is_requested(here.store, KEY, "r-1", owner="/b")
    assert not attempts.is_requested(here.store, KEY, None, owner="/a")
