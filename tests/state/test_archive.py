"""An archived plan is out of the way, hands out nothing, and can be brought back."""

import os

import pytest

from support.state import KEY
from tugtool import state


def test_an_archived_plan_hands_out_nothing(lab):
    lab = lab("1 t")
    assert lab.archive()["plan_status"] == "archived"
    with lab.refuses("E050", "is archived; tugcode archive --undo"):
        lab.claim()
    with lab.refuses("E050", "is archived"):
        lab.pause()
    with lab.refuses("E050", "is archived"):
        lab.resume()


def test_archiving_twice_is_once_and_so_is_bringing_back(lab):
    lab = lab("1 t")
    assert lab.archive()["changed"] is True
    with lab.unchanged():
        assert lab.archive()["changed"] is False
    assert lab.archive(undo=True)["changed"] is True
    with lab.unchanged():
        answer = lab.archive(undo=True)
    assert (answer["changed"], answer["archived"], answer["plan_status"]) == (
        False,
        False,
        "active",
    )
    assert lab.events()[-2:] == ["archive", "unarchive"]


@pytest.mark.parametrize("finished", [True, False])
def test_a_plan_comes_back_as_its_steps_say(lab, finished):
    lab = lab("1 t")
    if finished:
        lab.finish("step-1")
    before = lab.plan()["status"]
    lab.archive()
    assert lab.archive(undo=True)["plan_status"] == before
    assert before == ("done" if finished else "active")


def test_a_plan_with_a_live_claim_is_not_archived(lab):
    lab = lab("1 t", "2 t")
    lab.claim("blue", "step-2", lease_seconds=10)
    with lab.refuses("E050", "step step-2 is held by blue until"):
        lab.archive()
    lab.clock.advance(11)
    assert lab.archive()["archived"] is True


def test_a_claim_whose_holder_is_gone_is_no_live_one(lab):
    lab = lab("1 t", "2 t")
    child = os.fork()
    if child == 0:
        os._exit(0)
    lab.claim("red", holder_pid=os.getpid())
    lab.claim("blue", holder_pid=child)
    os.waitpid(child, 0)
    with lab.refuses("E050", "step-1 is held by red"):
        lab.archive()
    lab.release("step-1")
    lab.archive()


def test_who_wakes_up_late_may_finish_and_the_plan_stays_archived(lab):
    lab = lab("1 t")
    lab.claim("red", lease_seconds=10)
    lab.clock.advance(11)
    lab.archive()
    lab.close("step-1")
    lab.complete("step-1")
    assert lab.plan()["status"] == "archived"
    assert lab.archive(undo=True)["plan_status"] == "done"


def test_the_views_of_all_plans_leave_it_out(desk):
    desk = desk("1 t")
    assert len(desk.ok("show")["plans"]) == 1
    assert desk.text("archive").out == f"{KEY} is archived\n"
    assert desk.ok("show")["plans"] == []
    assert desk.ok("show", "work")["status"] == "archived"
    assert desk.json("claim").codes == ["E063"]
    assert desk.json("claim", "work").codes == ["E050"]
    assert desk.json("claim", "work", "--wait", "600").codes == ["E050"]
    assert desk.ok("init", "work")["already_initialized"] is True
    assert desk.text("archive", "work", "--undo").out == f"{KEY} is active again\n"
    assert desk.ok("claim")["claimed"] is True


def test_a_replayed_claim_of_an_archived_plan_is_still_told(lab):
    lab = lab("1 t")
    first = lab.claim("red", request_id="r", lease_seconds=1)
    lab.clock.advance(2)
    lab.archive()
    assert lab.claim("red", request_id="r")["attempt"] == first["attempt"]


def test_there_must_be_a_plan_to_archive(lab):
    lab = lab("1 t")
    with lab.refuses("E063"):
        state.archive(lab.store, "other.md")
