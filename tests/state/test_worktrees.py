"""Rows that commands about worktrees read and write: plans, steps, worktrees, intents."""

import json

import pytest

from support.state import KEY
from tugtool import state
from tugtool.errors.state import PlanNotInitialised
from tugtool.plan import parser
from tugtool.state import (
    attempts,
    history,
    intents,
    plans,
    proofs,
    record,
    reviews,
    views,
    worktrees,
)
from tugtool.state.claims import Request
from tugtool.store import open_store
from tugtool.store.sql import git as sql_git
from tugtool.system import process
from tugtool.workflow.commit.intent import mixed_plans


def test_a_plan_is_recorded_only_if_a_database_has_it(lab, tmp_path):
    store = lab("1 t").store
    assert state.is_recorded(store, KEY)
    assert not state.is_recorded(store, "other.md")
    assert not state.is_recorded(open_store(f"sqlite://{tmp_path}/none.db"), KEY)


def test_plans_and_steps_are_found_by_name(lab):
    store = lab("1 t", "2 t").store
    assert record.plans(store) == {KEY: "active"}
    assert record.find_plan(store, KEY)["steps_total"] == 2
    assert record.find_plan(store, "other.md") is None
    assert record.require_plan(store, KEY)["status"] == "active"
    with pytest.raises(PlanNotInitialised):
        record.require_plan(store, "other.md")
    assert record.find_step(store, KEY, "step-2")["title"] == "Part 2"
    assert record.find_step(store, KEY, "step-3") is None


def test_the_time_is_the_store_s(lab):
    here = lab("1 t")
    before = record.now(here.store)
    here.clock.advance(1)
    assert record.now(here.store) > before


def test_without_a_database_there_are_no_intents(tmp_path):
    assert intents.list_intents(open_store(f"sqlite://{tmp_path}/none.db")) == []


def test_intents_are_found_by_kind_and_worktree(lab):
    store = lab("1 t").store
    for kind, path in (("remove", "/b"), ("remove", "/a"), ("create", "/c\udcff")):
        intents.add(store, KEY, kind, path, head="c0", detail={"salvage_ref": kind})
    intents.add(store, "", "remove", "/b", head=None, detail={})
    found = [
        (row["kind"], row["worktree"], row["plan_path"]) for row in intents.list_intents(store)
    ]
    create = ("create", "/c\\udcff", KEY)
    assert found == [create, ("remove", "/a", KEY), ("remove", "/b", "")]
    assert [row["worktree"] for row in intents.list_intents(store, "remove")] == ["/a", "/b"]
    assert intents.find_intent(store, "create", "/c\udcff")["head"] == "c0"
    assert intents.find_intent(store, "create", "/a") is None
    intents.drop(store, KEY, "remove", "/a", "/b")
    assert [row["kind"] for row in intents.list_intents(store)] == ["create"]


# -- worktrees -------------------------------------------------------------------------

BASE = {"base_branch": "main", "base_commit": "c0"}


def _add(lab, *paths, request=None):
    made = [(path, f"b{path}", request) for path in paths]
    return worktrees.add(lab.store, KEY, made, **BASE)


def _note(lab, kind):
    rows = lab.rows("select * from events where kind = :kind order by seq", kind=kind)
    return [(row["actor"], json.loads(row["detail"])) for row in rows]


def test_without_a_database_there_are_no_worktrees(tmp_path):
    store = open_store(f"sqlite://{tmp_path}/none.db")
    assert worktrees.list_worktrees(store) == []
    assert worktrees.find_worktree(store, "/a") is None
    assert worktrees.claimed_steps(store, "/a") == []


def test_worktrees_are_recorded_together_and_found_by_path_and_by_plan(lab):
    here = lab("1 t")
    rows = _add(here, "/b", "/a\udcff", request="mine")
    assert [row["path"] for row in rows] == ["/b", "/a\\udcff"]
    assert [row["path"] for row in worktrees.list_worktrees(here.store)] == ["/a\\udcff", "/b"]
    assert worktrees.find_worktree(here.store, "/a\udcff")["branch"] == "b/a\\udcff"
    assert worktrees.find_worktree(here.store, "/c") is None
    assert [row["path"] for row in worktrees.of_plan(here.store, KEY)] == ["/a\\udcff", "/b"]
    assert worktrees.of_plan(here.store, "other.md") == []
    found, now = worktrees.by_path(here.store, KEY)
    assert (set(found), now) == ({"/a\\udcff", "/b"}, record.now(here.store))
    assert found["/b"]["reserved_until"] > now
    assert found["/b"]["reserved_for"] == "mine"
    ((plan, of_it),) = worktrees.of_every_plan(here.store)
    assert (plan["plan_path"], len(of_it)) == (KEY, 2)
    assert _note(here, "worktree_create")[0] == ("/b", {"branch": "b/b", "base": "main"})


def test_a_plan_without_counts_has_no_worktrees_to_look_at(lab):
    here = lab("1 t")
    with here.store.write(KEY) as tx:
        tx.run("delete from plan_counts")
    assert worktrees.of_every_plan(here.store) == []


def test_names_are_chosen_among_those_that_nobody_ever_used(lab):
    here = lab("1 t", "2 t")
    _add(here, "/b")
    here.finish("step-1", "/gone")
    seen = []

    def choose(branches, paths, date):
        seen.append((branches, sorted(paths), date))
        return [("/x\udcff", "one"), ("/y", "two")]

    worktrees.intend_creation(here.store, KEY, choose, **BASE)
    assert seen == [({"b/b"}, ["/gone"], "2026-02-23")]
    rows = intents.list_intents(here.store, "create")
    assert [(row["worktree"], row["head"]) for row in rows] == [("/x\\udcff", "c0"), ("/y", "c0")]
    assert json.loads(rows[0]["detail"]) == {"branch": "one", "base_branch": "main"}
    assert worktrees.plan_of(here.store, "/x\udcff") == KEY
    assert worktrees.plan_of(here.store, "/b") == KEY
    assert worktrees.plan_of(here.store, "/gone") == ""


def test_a_worktree_is_forgotten_with_its_intents_and_told_of_once(lab):
    here = lab("1 t")
    _add(here, "/b")
    for kind in ("remove", "commit", "sync"):
        intents.add(here.store, KEY, kind, "/b", head=None, detail={})
    for _ in range(2):
        kinds = ("remove", "commit")
        worktrees.forget(here.store, KEY, "/b", intents=kinds, detail={"branch": "b"})
    assert worktrees.list_worktrees(here.store) == []
    assert [row["kind"] for row in intents.list_intents(here.store)] == ["sync"]
    assert _note(here, "worktree_remove") == [("/b", {"branch": "b"})]


def test_a_worktree_of_a_plan_that_is_not_recorded_goes_without_an_event(lab):
    here = lab("1 t")
    with here.store.write("other.md") as tx:
        names = {"path": "/b", "branch": "b", "until": None, "reserved_for": None}
        tx.run(sql_git.ADD_WORKTREE, **names, **BASE)
    worktrees.forget(here.store, "other.md", "/b", intents=(), detail={})
    assert worktrees.list_worktrees(here.store) == []
    assert _note(here, "worktree_remove") == []


def test_a_reservation_calls_a_removal_off(lab):
    here = lab("1 t")
    _add(here, "/b")
    intents.add(here.store, KEY, "remove", "/b", head=None, detail={})
    here.clock.advance(60)
    row = worktrees.reserve(here.store, KEY, "/b", request="mine")
    assert row["reserved_for"] == "mine"
    assert row["reserved_until"] == "2026-02-23T12:11:00.000Z"
    assert intents.list_intents(here.store) == []
    assert _note(here, "worktree_reserve") == [("/b", {})]


def test_a_plan_is_audited_in_one_worktree_at_a_time(lab):
    here = lab("1 t")
    _add(here, "/b")
    _add(here, "/c")
    audit = {"allowed": lambda held: held in (None, "mine"), "seconds": 60}
    first, second = (f"{who} {worktrees.AUDIT}" for who in ("first", "second"))
    assert worktrees.take_over(here.store, KEY, "/b", request=first, **audit)[1]
    assert worktrees.find_worktree(here.store, "/b")["reserved_until"] == "2026-02-23T12:01:00.000Z"
    # On this machine a process is looked at, so the time does not matter.
    here.clock.advance(3600)
    assert not worktrees.take_over(here.store, KEY, "/c", request=second, **audit)[1]
    assert worktrees.find_worktree(here.store, "/c")["reserved_for"] is None
    assert worktrees.take_over(here.store, KEY, "/c", request="for a step", **audit)[1]
    gone = {**audit, "allowed": lambda held: True}
    assert worktrees.take_over(here.store, KEY, "/c", request=second, **gone)[1]


def test_a_worktree_is_taken_over_only_if_its_reservation_allows_it(lab):
    here = lab("1 t")
    _add(here, "/b", request="theirs")
    for allowed, request in ((False, "theirs"), (True, "mine")):
        how = {"request": "mine", "allowed": lambda held, answer=allowed: answer}
        row, taken = worktrees.take_over(here.store, KEY, "/b", **how)
        assert (row["reserved_for"], taken) == ("theirs", allowed)
        assert worktrees.find_worktree(here.store, "/b")["reserved_for"] == request
    assert worktrees.take_over(here.store, KEY, "/c", **how) == (None, False)
    worktrees.end_reservation(here.store, KEY, "/b", request="theirs")
    assert worktrees.find_worktree(here.store, "/b")["reserved_for"] == "mine"
    worktrees.end_reservation(here.store, KEY, "/b", request="mine")
    row = worktrees.find_worktree(here.store, "/b")
    assert (row["reserved_for"], row["reserved_until"]) == (None, None)


def test_a_worktree_s_claims_are_live_expired_or_gone(lab):
    here = lab("1 t", "2 t", "3 t")
    for step in ("step-1", "step-2", "step-3"):
        here.claim("/b", step, lease_seconds=60 if step == "step-1" else 6000)
    here.clock.advance(61)
    with here.store.write(KEY) as tx:
        where = process.machine_identity()
        values = ", ".join(f"{name} = :{name}" for name in where)
        tx.run(
            f"update attempts set {values}, holder_pid = 1, holder_start = 'never' "
            "where step_anchor = 'step-2'",
            **where,
        )
    found = worktrees.claimed_steps(here.store, "/b")
    assert {each["step_anchor"]: each["lease"] for each in found} == {
        "step-1": "expired",
        "step-2": "gone",
        "step-3": "live",
    }
    assert worktrees.claimed_steps(here.store, "/a") == []
    assert worktrees.claimed_anchors(here.store, KEY, owner="/b") == [
        *("step-1", "step-2", "step-3"),
    ]
    with pytest.raises(PlanNotInitialised):
        worktrees.claimed_anchors(here.store, "other.md", owner="/b")


def test_a_worktree_serves_the_plans_that_it_is_recorded_for_or_holds_a_step_of(lab):
    lab, other = lab("1 t", "1.1 t", "2 t"), "other.md"
    state.init(lab.store, other, parser.parse(lab.text), text=lab.text, hash=lab.hash)
    for plan, owner in ((KEY, "/a"), (other, "/a"), (other, "/b")):
        state.claim(lab.store, plan, Request(owner), copy=lab.copy)
    _add(lab, "/a", "/b")

    def served(plan: str, owner: str) -> list[tuple]:
        rows = intents.other_plans(lab.store, plan, owner=owner)
        return sorted((row["plan_path"], row["anchor"] or "") for row in rows)

    assert served(KEY, "/a") == [(other, "step-1")]
    assert served(other, "/a") == [(KEY, ""), (KEY, "step-1")]
    assert served(KEY, "/b") == [(other, "step-2")]
    assert [issue["code"] for issue in mixed_plans(lab.store, KEY, "/a")] == ["W115"]
    assert mixed_plans(lab.store, KEY, "/c") == []


def test_a_commit_that_was_begun_is_found_with_its_worktree(lab):
    here = lab("1 t")
    assert worktrees.with_begun_commits(here.store, KEY) == []
    _add(here, "/b")
    for path in ("/b", "/gone"):
        intents.add(here.store, KEY, "commit", path, head=None, detail={})
    ((row, intent),) = worktrees.with_begun_commits(here.store, KEY)
    assert row["path"] == intent["worktree"] == "/b"


# -- work that nobody has committed ----------------------------------------------------


def test_work_is_to_be_saved_until_it_is(lab):
    here = lab("1 t", "2 t", "3 t")
    _add(here, "/a", "/b", "/c")
    for step, path in (("step-1", "/a"), ("step-2", "/b")):
        here.claim(path, step)
        here.release(step, path, leaving_work=True)
        here.clock.advance(1)
    every = attempts.list_unsaved(here.store)
    assert [row["step_anchor"] for row in every] == ["step-1", "step-2"]
    assert [row["step_anchor"] for row in attempts.list_unsaved(here.store, KEY)] == [
        "step-2",
        "step-1",
    ]
    assert attempts.salvage_status(here.store, KEY, "step-1", 1) == (True, None)
    assert attempts.salvage_status(here.store, KEY, "step-3", 1) == (False, None)
    left = worktrees.with_unfinished_work(here.store, KEY)
    assert [row["path"] for row in left] == ["/a", "/b"]
    attempts.mark_saved(here.store, every[0], "refs/x")
    attempts.mark_saved(here.store, every[0], "refs/late")
    attempts.mark_saved(here.store, every[1], None)
    assert attempts.salvage_status(here.store, KEY, "step-1", 1) == (False, "refs/x")
    assert attempts.salvage_status(here.store, KEY, "step-2", 1) == (False, None)
    assert _note(here, "salvage") == [("/a", {"salvage_ref": "refs/x"})]
    assert [row["path"] for row in worktrees.with_unfinished_work(here.store, KEY)] == ["/a"]
    assert attempts.refs_from(here.store, "/a") == ["refs/x"]
    assert attempts.refs_from(here.store, "/b") == []


def test_what_was_to_be_saved_from_a_worktree_ends_with_it(lab):
    here = lab("1 t", "2 t")
    for step, path in (("step-1", "/a"), ("step-2", "/b")):
        here.claim(path, step)
        here.release(step, path, leaving_work=True)
    attempts.close_worktree(here.store, "/a", "refs/x")
    attempts.close_worktree(here.store, "/b", None)
    assert attempts.list_unsaved(here.store) == []
    assert attempts.salvage_status(here.store, KEY, "step-1", 1) == (False, "refs/x")
    assert attempts.salvage_status(here.store, KEY, "step-2", 1) == (False, None)
    assert _note(here, "salvage") == []


def test_what_was_saved_of_a_step_is_told_with_who_else_worked_on_it(lab):
    here = lab("1 t")
    assert attempts.salvages(here.store, KEY, "step-1", before=9, owner="/a") == ([], None)
    for number, path in enumerate(("/a", "/b"), start=1):
        here.claim(path, "step-1")
        here.release("step-1", path)
        attempts.set_ref(here.store, KEY, "step-1", number, ref=f"refs/{number}")
    rows, other = attempts.salvages(here.store, KEY, "step-1", before=3, owner="/b")
    assert ([row["salvage_ref"] for row in rows], other) == (["refs/2", "refs/1"], "/a")


def test_a_ref_that_is_gone_is_nobody_s_and_that_is_told(lab):
    here = lab("1 t")
    here.claim("/a", "step-1")
    here.release("step-1", "/a")
    attempts.set_ref(here.store, KEY, "step-1", 1, ref="refs/x")
    for _ in range(2):
        attempts.forget_ref(here.store, "refs/x", commit="c1", actor="person")
    assert attempts.salvage_status(here.store, KEY, "step-1", 1) == (False, None)
    told = {"salvage_ref": "refs/x", "commit": "c1"}
    assert _note(here, "salvage_prune") == [("person", told)]


# -- what other modules are asked ------------------------------------------------------


def test_commits_that_a_worktree_lacks_are_found_through_what_they_were_built_on(lab):
    here = lab("1 t", "2 t < 1", "2.1 t", "3 t < 2.1", "4 t < 3")
    _add(here, "/b")
    for step, path in (("step-1", "/a"), ("step-2", "/b"), ("step-3", "/c")):
        here.claim(path, step)
        here.close(step, path)
        here.complete(step, path, commit=f"c-{step}")
    order = {"c-step-1": 0, "c-step-2": 1, "c-step-3": 2}
    asked = []

    def lacking(commits):
        asked.append(commits)
        return {commit: order[commit] for commit in commits}

    how = {"owner": "/c", "lacking": lacking}
    found = worktrees.missing_commits(here.store, KEY, ["step-3"], **how)
    assert found == [
        {"step_anchor": "step-1", "commit": "c-step-1", "worktree": "/a", "branch": None},
        {"step_anchor": "step-2", "commit": "c-step-2", "worktree": "/b", "branch": "b/b"},
    ]
    assert asked == [["c-step-1", "c-step-2"]]
    rows = worktrees.committed_steps(here.store, KEY)
    assert [(row["anchor"], row["branch"]) for row in rows] == [
        *(("step-1", None), ("step-2", "b/b"), ("step-3", None)),
    ]


def test_git_is_asked_again_about_what_lies_further_back(lab, monkeypatch):
    monkeypatch.setattr(worktrees, "_MOST_AHEAD", 0)
    here = lab("1 t", "2 t < 1", "3 t < 2")
    for step in ("step-1", "step-2"):
        here.claim("/a", step)
        here.close(step, "/a")
        here.complete(step, "/a", commit=f"c-{step}")
    asked = []

    def lacking(commits):
        asked.append(commits)
        return {commit: int(commit[-1]) for commit in commits}

    found = worktrees.missing_commits(here.store, KEY, ["step-3"], owner="/b", lacking=lacking)
    assert [each["step_anchor"] for each in found] == ["step-1", "step-2"]
    assert asked == [["c-step-2"], ["c-step-1"], ["c-step-2", "c-step-1"]]


def test_the_base_of_a_plan_is_recorded_once(lab):
    here = lab("1 t")
    for commit in ("c1", "c2"):
        plans.set_base(here.store, KEY, commit)
    assert record.find_plan(here.store, KEY)["base_commit"] == "c1"


def test_steps_at_work_are_those_whose_worker_lives(lab):
    here = lab("1 t", "1.1 t", "2 t", "3 t")
    here.claim("/a", "step-1", lease_seconds=60)
    here.claim("/b", "step-2", lease_seconds=6000)
    here.clock.advance(61)
    plan, steps, live = views.steps_at_work(here.store, KEY)
    assert (plan["plan_path"], live) == (KEY, {"step-2"})
    assert [step["anchor"] for step in steps] == ["step-1", "step-2", "step-3"]


def test_rows_of_a_step_are_read_as_they_are(lab):
    here = lab("1 tt", "1.1 c", "2 t")
    here.claim("/a", "step-1")
    here.artifact("step-1", "/a", kind="note", summary="first")
    here.artifact("step-1", "/a", kind="note", summary="second", content="x")
    here.artifact("step-1", "/a", kind="recovery", summary="third")
    items = views.items(here.store, KEY, ["step-1", "step-1-1"])
    assert [(row["step_anchor"], row["kind"]) for row in items] == [
        *(("step-1", "task"), ("step-1", "task"), ("step-1-1", "checkpoint")),
    ]
    assert [row["number"] for row in views.attempts(here.store, KEY, "step-1")] == [1]
    assert views.attempts(here.store, KEY, "step-2") == []
    step, attempt = views.attempt(here.store, KEY, "step-1", 1)
    assert (step["claimed_by"], attempt["worktree"]) == ("/a", "/a")
    assert views.attempt(here.store, KEY, "step-1", 2)[1] is None
    found = proofs.artifacts(here.store, KEY, kind="note")
    assert [row["content"] for row in found] == ["x", None]
    assert proofs.artifacts(here.store, "another.md", kind="note") == []


def test_the_last_change_is_told_with_the_time(lab):
    here = lab("1 t")
    here.clock.advance(1)
    assert history.last_change(here.store) == (
        "2026-02-23T12:00:00.000Z",
        "2026-02-23T12:00:01.000Z",
    )


def test_a_parked_step_waits_for_a_person_and_is_no_claim_to_be_taken(lab):
    here = lab("1 t", "2 t", max_attempts=1)
    here.claim("/a", "step-1", lease_seconds=60)
    here.claim("/b", "step-2", lease_seconds=6000, max_attempts=9)
    here.clock.advance(61)
    assert [row["anchor"] for row in reviews.parked(here.store)] == ["step-1"]
    found = [(row["anchor"], lost) for row, lost in reviews.claims(here.store)]
    assert found == [("step-2", None)]


def test_counts_are_checked_and_contradictions_named(lab):
    here = lab("1 t", "1.1 t", "2 t")
    assert plans.check(here.store, KEY) == {}
    assert plans.contradictions(here.store, KEY) == []
    here.finish("step-1")
    with here.store.write(KEY) as tx:
        tx.run("update checklist_items set status = 'open' where step_anchor = 'step-1'")
        tx.run(
            "update steps set status = 'pending', completed_at = null, completed_by = null "
            "where anchor = 'step-1-1'"
        )
        tx.run("update steps set parked_at = :now where anchor = 'step-2'")
        tx.run("update plan_counts set steps_done = 2")
    found = plans.contradictions(here.store, KEY)
    assert found == [("parked", "step-2", 1), ("items", "step-1", 1), ("substeps", "step-1", 1)]
    assert plans.check(here.store, KEY)["counts"]["steps_done"] == [2, 1]
    with here.store.write(KEY) as tx:
        tx.run("delete from plan_counts")
    assert plans.check(here.store, KEY) is None


def test_a_ref_of_a_plan_that_no_command_finds_goes_without_an_event(lab):
    here = lab("1 t")
    here.claim("/a", "step-1")
    attempts.set_ref(here.store, KEY, "step-1", 1, ref="refs/x")
    with here.store.write(KEY) as tx:
        tx.run("delete from plan_counts")
    attempts.forget_ref(here.store, "refs/x", commit="c1", actor="person")
    assert attempts.refs_from(here.store, "/a") == []
    assert _note(here, "salvage_prune") == []


def test_a_worktree_that_is_kept_is_reserved_without_a_word_in_the_log(lab):
    here = lab("1 t")
    made = [("/w", "tugplan/w", None)]
    worktrees.add(here.store, KEY, made, base_branch="main", base_commit="a" * 40)
    before = here.rows("select * from events")
    worktrees.keep(here.store, KEY, "/w", request="me")
    assert worktrees.find_worktree(here.store, "/w")["reserved_for"] == "me"
    assert here.rows("select * from events") == before
