"""Reconcile as the record sees it: commits in, completed steps out."""

import pytest

from state.test_apart import Other
from support import engines
from support.state import KEY, Clock
from support.state_replay import INVARIANTS
from tugtool import state
from tugtool.state import intents, proofs
from tugtool.state.proofs import Proof
from tugtool.store import open_store
from tugtool.store.sql import git as sql_git


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


def test_who_can_go_on_is_counted_whatever_the_step_was_before(lab, hold):
    """Parked it was not among them, nor while it was held, or waited; else it was."""
    lab = lab("1 t", "2 t < 1", "3 t", "4 t", "5 t")
    lab.claim("red", "step-1")
    lab.release("step-1", park_reason="no access")
    lab.claim("blue", "step-3")
    assert lab.plan()["steps_ready"] == 2
    for step, left in (("step-2", 2), ("step-1", 2), ("step-3", 2), ("step-4", 1)):
        lab.reconcile(step)
        assert (lab.plan()["steps_ready"], len(lab.ready()["ready_steps"])) == (left, left), step
        hold(lab)


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


def test_the_record_wins_unless_forced_and_says_nothing_where_it_has_no_commit(lab):
    lab = lab("1 t", "2 t", "3 t")
    for step, commit in (("step-1", "mine"), ("step-2", None), ("step-3", "c-step-3")):
        lab.claim("red", step)
        lab.complete(step, force_reason="enough", commit=commit)
    came = lab.reconcile("step-1", "step-2", "step-3")
    assert [each["step_anchor"] for each in came["reconciled"]] == ["step-2"]
    mismatch = {"step_anchor": "step-1", "db_hash": "mine", "git_hash": "c-step-1"}
    assert (came["skipped_count"], came["skipped_mismatches"]) == (1, [mismatch])
    assert [lab.row(f"step-{n}")["commit_hash"] for n in (1, 2, 3)] == [
        *("mine", "c-step-2", "c-step-3")
    ]
    forced = lab.reconcile("step-1", "step-2", "step-3", force=True)
    assert [each["step_anchor"] for each in forced["reconciled"]] == ["step-1"]
    assert forced["skipped_mismatches"] == []
    assert lab.row("step-1")["commit_hash"] == "c-step-1"
    assert lab.row("step-1")["complete_reason"] == "enough"


def test_what_is_told_is_the_attempt_that_git_names_and_what_was_closed(lab):
    lab = lab("1 tt", "1.1 t", "2 tt", "3")
    lab.claim()
    lab.tick("step-1", "t0")
    named, unnamed = lab.reconcile("step-1", attempt=1), lab.reconcile("step-2")
    told = [each["reconciled"][0] for each in (named, unnamed)]
    assert [(each["attempt"], each["items_closed"]) for each in told] == [(1, 2), (None, 2)]
    # What was done stays as it was done; only what was open is so by git's word.
    reasons = lab.rows("select reason from checklist_items where step_anchor = 'step-1'")
    assert [row["reason"] for row in reasons] == [None, "reconciled"]


def test_no_number_of_git_s_is_given_out_again_and_a_holder_keeps_its_own(lab):
    lab = lab("1 t", "2 t", "3 t", "4 t")
    for step in ("step-2", "step-3"):
        lab.claim("red", step)
    lab.release("step-3", "red")
    highest = {"step-1": 7, "step-2": 7, "step-3": 1}
    state.reconcile(lab.store, KEY, {}, plan_hash=lab.hash, highest=highest)
    assert [lab.row(f"step-{n}")["attempt"] for n in (1, 2, 3, 4)] == [7, 1, 1, 0]
    raised = lab.rows("select step_anchor from events where kind = 'raise_attempt'")
    assert [row["step_anchor"] for row in raised] == ["step-1"]


def _intend(lab, owner: str, anchor: str, attempt: int | None, plan: str = KEY) -> None:
    with lab.store.write(plan) as tx:
        what = {"anchor": anchor, "attempt": attempt, "head": None, "detail": "{}"}
        tx.run(sql_git.ADD_COMMIT_INTENT, owner=owner, **what)


def test_a_commit_that_was_begun_is_finished_if_git_has_it_and_its_step_is_done(lab):
    lab = lab("1 t", "2 t", "3 t")
    _intend(lab, "in git", "step-1", 1)
    _intend(lab, "without a number", "step-1", None)
    _intend(lab, "of another attempt", "step-1", 2)
    _intend(lab, "of a step that is open", "step-2", 1)
    _intend(lab, "of no step", "step-9", 1)
    _intend(lab, "of another plan", "step-1", 1, plan=".tugtool/tugplan-other.md")
    with lab.store.write(KEY) as tx:
        tx.run(sql_git.ADD_INTENT, kind="sync", path="in git", head=None, detail="{}")
        tx.run(sql_git.ADD_INTENT, kind="sync", path="synced", head=None, detail="{}")
        sync = "update intents set step_anchor = 'step-1', attempt = 1 where kind = 'sync'"
        tx.run(sync)
    seen = {("step-1", 1), ("step-1", 0), ("step-2", 1), ("step-9", 1)}
    came = lab.reconcile("step-1", seen=seen)
    assert came["commits_finished"] == ["step-1", "step-1"]
    left = lab.rows("select kind, worktree from intents order by kind, worktree")
    assert [(row["kind"], row["worktree"]) for row in left] == [
        ("commit", "of a step that is open"),
        ("commit", "of another attempt"),
        ("commit", "of another plan"),
        ("commit", "of no step"),
        ("sync", "in git"),
        ("sync", "synced"),
    ]


def test_commits_that_another_machine_began_are_left_to_it(lab):
    lab = lab("1 t")
    for owner in ("/srv/shop", "kiosk:/srv/shop"):
        _intend(lab, owner, "step-1", 1)
    own = intents.list_intents(lab.store, "commit")
    assert [row["worktree"] for row in own] == ["/srv/shop"]
    came = lab.reconcile("step-1", seen={("step-1", 1)})
    assert came["commits_finished"] == ["step-1"]
    assert lab.rows("select worktree from intents") == [{"worktree": "kiosk:/srv/shop"}]


def test_what_is_known_before_git_is_asked_is_of_this_plan_alone(tmp_path, lab):
    # The other one is recorded first, and its name comes first.
    store = open_store(engines.url_in(tmp_path), clock=Clock())
    other = Other(store, ".tugtool/tugplan-a.md")
    store.close()
    lab = lab("1 t", "2 t < 1")
    for key, path in ((KEY, "/ours"), (other.key, "/another")):
        with lab.store.write(key) as tx:
            branch = {"branch": f"branch of {path}", "base_branch": "main", "base_commit": "c"}
            tx.run(sql_git.ADD_WORKTREE, path=path, until=None, reserved_for=None, **branch)
        _intend(lab, path, "step-1", 1, plan=key)
    found = proofs.facts(lab.store, KEY)
    assert (found.text, found.needs) == (lab.text, [("step-2", "step-1")])
    assert [row["path"] for row in found.worktrees] == ["/ours"]
    assert found.other_branches == {"branch of /another"}
    assert [row["worktree"] for row in found.intents] == ["/ours"]
