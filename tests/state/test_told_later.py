"""What is kept for whoever comes later: changes outside, a lost push, the reason of a release."""

import pytest

from support.state import KEY
from tugtool import state
from tugtool.state import attempts, proofs, publication

COMMIT, MERGED = "c" * 40, "d" * 40


def _done(lab) -> None:
    lab.claim("red", "step-1")
    lab.close("step-1", "red")
    lab.complete("step-1", "red", commit=COMMIT)


def _unpushed(lab) -> dict:
    with lab.store.read(KEY) as tx:
        return proofs.unpushed(
            tx, tx.first("select * from plans where plan_path = :plan", plan=KEY)
        )


def test_changes_outside_of_the_worktrees_are_told_until_the_merge(lab):
    lab = lab("1 t")
    assert attempts.outside(lab.store, KEY) == []
    for reason in ("hooks/post-commit was changed", "core.pager was set"):
        attempts.note_run(lab.store, KEY, "changed_outside", reason=reason)
    assert attempts.outside(lab.store, KEY) == [
        "hooks/post-commit was changed",
        "core.pager was set",
    ]
    _done(lab)
    proofs.landed(lab.store, KEY, MERGED, branches=["b"], actor="anna")
    assert attempts.outside(lab.store, KEY) == []
    # What is done again later begins anew.
    state.reopen(lab.store, KEY, "step-1", actor="anna", reason="wrong")
    attempts.note_run(lab.store, KEY, "changed_outside", reason="the main checkout has changed")
    assert attempts.outside(lab.store, KEY) == ["the main checkout has changed"]


def test_a_merge_is_unpushed_until_the_push_is_recorded(lab):
    lab = lab("1 t")
    assert _unpushed(lab) == {}
    lab.claim("red", "step-1", publish=True)
    lab.close("step-1", "red")
    lab.complete("step-1", "red", commit=COMMIT, publish=True)
    there = {"remote": "origin", "base_branch": "main"}
    proofs.landed(lab.store, KEY, MERGED, branches=["b"], actor="anna", remote=there)
    told = {"unpushed_merge": {"commit": MERGED, **there, "by": "anna"}}
    assert _unpushed(lab) == told
    # Neither another event nor the push of a step's branch ends it.
    attempts.note_run(lab.store, KEY, "begun")
    rows = publication.own_unpublished(lab.store, KEY)
    publication.published(lab.store, KEY, rows, actor="anna")
    assert _unpushed(lab) == told
    for _ in range(2):
        proofs.pushed(lab.store, KEY, MERGED, branch="main", actor="anna")
        assert _unpushed(lab) == {}
    kinds = [each["kind"] for each in state.log(lab.store, KEY)["events"]]
    assert kinds.count("publish") == 2


@pytest.mark.file
def test_a_merge_whose_event_is_gone_is_not_unpushed(lab):
    lab = lab("1 t")
    _done(lab)
    there = {"remote": "origin", "base_branch": "main"}
    proofs.landed(lab.store, KEY, MERGED, branches=["b"], actor="anna", remote=there)
    with lab.store.write(KEY) as tx:
        tx.run("delete from events where kind = 'merge'")
    assert _unpushed(lab) == {}


def test_a_merge_without_a_remote_is_never_unpushed(lab):
    lab = lab("1 t")
    _done(lab)
    proofs.landed(lab.store, KEY, MERGED, branches=["b"], actor="anna")
    assert _unpushed(lab) == {}


def test_a_step_whose_commit_the_remote_lost_is_unpublished_again(lab):
    lab = lab("1 t")
    lab.claim("/srv/shop", "step-1", publish=True)
    lab.close("step-1", "/srv/shop")
    lab.complete("step-1", "/srv/shop", commit=COMMIT, publish=True)
    rows = publication.own_unpublished(lab.store, KEY)
    publication.published(lab.store, KEY, rows, actor="anna")
    assert publication.unpublished(lab.store, KEY) == []
    publication.lost(lab.store, KEY, {"step-1": COMMIT}, "it was pushed over")
    (row,) = publication.unpublished(lab.store, KEY)
    assert (row["step_anchor"], row["commit_hash"]) == ("step-1", COMMIT)


def test_the_reason_of_a_release_is_a_note_for_the_next_worker(lab):
    lab = lab("1 t")
    lab.claim("red", "step-1")
    state.release(lab.store, KEY, "step-1", owner="red", reason="the disk is full")
    (step,) = state.show(lab.store, KEY)["steps"]
    assert [each["summary"] for each in step["artifacts"]] == ["given back: the disk is full"]
    # A person who takes a step away leaves no note of a worker.
    lab.claim("red", "step-1")
    state.release(lab.store, KEY, "step-1", owner="anna", force=True, reason="enough")
    (step,) = state.show(lab.store, KEY)["steps"]
    assert len(step["artifacts"]) == 1
