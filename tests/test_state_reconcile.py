"""Reconcile as the record sees it: commits in, completed steps out."""

import pytest

from state_replay import INVARIANTS
from tugtool.state.reconciling import Proof


@pytest.fixture
def hold():
    def check(lab):
        for invariant in INVARIANTS:
            invariant(lab)

    return check


def test_whoever_waited_may_go_on_and_the_last_step_ends_the_plan(lab, hold):
    lab = lab("1 t", "1.1 t", "2 t < 1.1", "3 t < 2")
    assert lab.ready()["ready_steps"] == ["step-1"]
    lab.reconcile("step-1")
    assert lab.ready()["ready_steps"] == ["step-2"]
    hold(lab)
    assert lab.reconcile("step-3", "step-2")["plan_status"] == "done"
    assert lab.plan()["status"] == "done"
    hold(lab)


def test_a_step_may_be_done_before_what_it_waits_for(lab, hold):
    lab = lab("1 t", "2 t < 1")
    lab.reconcile("step-2")
    hold(lab)
    assert (lab.status("step-1"), lab.ready()["ready_steps"]) == ("pending", ["step-1"])


def test_a_parked_step_is_completed_too(lab, hold):
    lab = lab("1 t", "1.1 t", "2 t")
    lab.claim()
    lab.release("step-1", park_reason="no access")
    lab.reconcile("step-1")
    hold(lab)
    assert (lab.status("step-1"), lab.row("step-1")["parked_at"]) == ("completed", None)


def test_substeps_that_complete_each_other_are_completed_once(lab, hold):
    lab = lab("1 t", "1.1 t", "1.2 t < 1.1", "2 t")
    lab.claim()
    lab.tick("step-1-2", "t0")
    lab.reconcile("step-1")
    hold(lab)


def test_who_did_it_is_the_attempt_s_worktree_or_the_branch_s_or_the_holder_s(lab):
    lab = lab("1", "2", "3", "4")
    lab.claim("red", "step-1")
    lab.release("step-1", "red")
    lab.claim("blue", "step-1")
    lab.claim("green", "step-3")
    lab.claim("grey", "step-4")
    lab.reconcile("step-1", attempt=1)
    assert lab.row("step-1")["completed_by"] == "red"
    on_branch = {"step-2": Proof("step-2", "c", worktree="/a\udcff/tree")}
    what = {"plan_hash": lab.hash, "highest": {}}
    from state_fixtures import KEY
    from tugtool import state

    state.reconcile(lab.store, KEY, on_branch, **what)
    assert lab.row("step-2")["completed_by"] == "/a\\udcff/tree"
    lab.reconcile("step-3")
    assert lab.row("step-3")["completed_by"] == "green"
    lab.reconcile("step-4", attempt=9)
    assert lab.row("step-4")["completed_by"] is None


def test_what_git_proves_is_told_under_the_attempt_that_it_ends_not_under_git_s(lab):
    lab = lab("1 t", "2 t", "3 t")
    for _ in range(3):
        lab.claim("red", "step-1")
    lab.finish("step-2")
    lab.reconcile("step-1", attempt=2)
    lab.reconcile("step-2", attempt=0, force=True)
    lab.reconcile("step-3", attempt=7)
    events = lab.rows("select step_anchor, kind, attempt from events order by seq")
    told = {each["step_anchor"]: each["attempt"] for each in events if each["kind"] == "reconcile"}
    assert told == {"step-1": 3, "step-2": 1, "step-3": 0}
    assert [each["outcome"] for each in lab.attempts("step-1")][-1] == "completed"


def test_a_superseded_attempt_can_change_nothing_after_a_reconcile(lab):
    lab = lab("1 t", "2")
    lab.claim()
    lab.reconcile("step-1", attempt=3)
    lab.reopen("step-1")
    with lab.refuses("E060"):
        lab.start("step-1", attempt=1)
    assert lab.claim()["attempt"] == 4


def test_a_plan_that_changed_meanwhile_is_refused(lab):
    lab = lab("1 t")
    with lab.refuses("E048"):
        lab.reconcile("step-1", plan_hash="another")
