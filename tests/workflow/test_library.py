"""The library: a repository is opened, a step is held while a block runs, and given back after."""

import contextlib
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

import tugtool
from conftest import schema
from support.state import KEY
from support.worktree import IDENTITY
from tugtool.errors import PlanNotFound
from tugtool.errors.state import ItemsOpen, NotReady, PlanNotInitialised, Superseded
from tugtool.state import worktrees
from tugtool.workflow import library
from tugtool.workflow.held_step import HeldStep, NothingToClaim
from tugtool.workflow.workspace import Workspace
from tugtool.workflow.worktree import branches


@pytest.fixture
def opened():
    """`tugtool.open`, and everything is closed at the end."""
    with contextlib.ExitStack() as stack:
        yield lambda path: stack.enter_context(tugtool.open(path))


@pytest.fixture
def plan_at(opened):
    """The plan `work` as a worktree sees it."""
    return lambda path: opened(path).plan("work")


def kinds(plan, anchor="step-1") -> list[str]:
    return [event["kind"] for event in plan.log(step=anchor)]


def shown(plan, anchor="step-1") -> dict:
    return next(step for step in plan.show()["steps"] if step["anchor"] == anchor)


def outcomes(plan, anchor="step-1") -> list[str | None]:
    return [attempt["outcome"] for attempt in shown(plan, anchor)["attempts"]]


def valid(name: str, data: dict) -> dict:
    """The answer, which has the shape that its schema promises."""
    schema(name).validate(data)
    return data


def within(plan, *deeds) -> HeldStep:
    """Claim a step, do these things in its block, and leave it."""
    with plan.claim() as step:
        for deed in deeds:
            deed(step)
    return step


def fail(step: HeldStep) -> None:
    raise ValueError("no such colour")


# Opening


def test_a_linked_worktree_claims_for_itself(desk, opened):
    at = desk("1")
    deep = at.red / "deep"
    deep.mkdir()
    project = opened(deep)
    assert (project.root, project.worktree) == (str(at.repo.path), str(at.red))
    with opened(at.repo.path).plan("work").claim() as step:
        assert step.worktree == str(at.repo.path)


def test_a_worktree_can_be_named(desk):
    at = desk("1")
    with tugtool.open(at.repo.path, worktree=str(at.blue)) as project:
        assert project.plan("work").claim().worktree == str(at.blue)


def test_a_plan_is_found_before_it_is_recorded(desk, opened):
    project = opened(desk("1", init=False).red)
    with pytest.raises(PlanNotInitialised):
        project.plan()
    with pytest.raises(PlanNotFound):
        project.plan("other")
    plan = project.plan("work")
    assert plan.key == KEY
    assert valid("state-init", plan.init())["already_initialized"] is False
    assert plan.init()["already_initialized"] is True
    assert project.plan().key == KEY


def test_warnings_go_to_the_logger(desk, opened, caplog):
    at = desk("1", init=False)
    at.repo.git("branch", "tugplan/work-20260101")
    plan = opened(at.red).plan("work")
    with caplog.at_level(logging.WARNING, logger="tugtool"):
        plan.init()
    assert "W106" in caplog.text


@pytest.mark.parametrize("recorded", [True, False])
def test_a_branch_that_another_worker_makes_now_is_not_of_an_earlier_run(desk, recorded):
    at = desk("1")
    space = Workspace(str(at.red), None)
    path, branch = str(at.repo.path / "tree"), "tugplan/work-20260101"
    at.repo.git("branch", branch)
    assert [each["code"] for each in branches.earlier_branches(space, KEY)] == ["W106"]
    base = {"base_branch": "main", "base_commit": at.commit}
    if recorded:
        worktrees.add(space.store, KEY, [(path, branch, None)], **base)
    else:
        worktrees.intend_creation(space.store, KEY, lambda *_: [(path, branch)], **base)
    assert branches.earlier_branches(space, KEY) == []


# A held step


def test_a_step_is_carried_out(desk, plan_at):
    plan = plan_at(desk("1 tec", "2 < 1").red)
    with plan.claim() as step:
        assert (step.anchor, step.title, step.attempt) == ("step-1", "Part 1", 1)
        valid("state-claim", step.facts)
        task, _, checkpoint = step.items
        assert (task["text"], task["status"]) == ("task 0 of 1", "open")
        assert valid("state-update", step.tick(task, ("test", 0)))["updated"] == 2
        valid("state-update", step.defer(checkpoint, "needs eyes"))
        assert [item["status"] for item in step.items] == ["completed", "completed", "deferred"]
        assert valid("state-artifact", step.note("seen", "all of it"))["kind"] == "note"
        valid("state-heartbeat", step.heartbeat())
        assert shown(plan)["status"] == "in_progress"
        assert valid("state-complete", step.complete())["remaining_steps"] == 1
    assert shown(plan)["status"] == "completed"
    assert "release" not in kinds(plan)


def test_items_of_substeps_are_ticked_by_what_they_are(desk, plan_at):
    plan = plan_at(desk("1 t", "1.1 t", "1.2 t").red)
    with plan.claim() as step:
        step.tick(*step.items)
        assert step.complete()["completed"]


def test_everything_open_is_ticked_at_once(desk, plan_at):
    with plan_at(desk("1 tt").red).claim() as step:
        assert step.tick_all()["updated"] == 2
        step.complete()


def test_an_open_item_keeps_a_step_from_being_completed_unless_forced(desk, plan_at):
    with plan_at(desk("1 t").red).claim() as step:
        with pytest.raises(ItemsOpen):
            step.complete()
        assert step.complete(force_reason="moved to step 9")["forced"]


def test_without_a_block_a_step_is_held_and_given_back_by_hand(desk, plan_at):
    plan = plan_at(desk("1").red)
    step = plan.claim(lease_seconds=60)
    assert isinstance(step, HeldStep)
    step.heartbeat(lease_seconds=90)
    assert shown(plan)["attempts"][0]["lease_seconds"] == 90
    assert valid("state-release", step.release(park_reason="no access"))["parked"]
    assert plan.claim().reason == "no_ready_steps"


def test_nothing_to_claim_is_false_and_says_why(desk, plan_at):
    plan = plan_at(desk("1", "2").red)
    done = []
    while step := plan.claim():
        with step:
            done.append(step.anchor)
            step.complete()
    assert done == ["step-1", "step-2"]
    assert isinstance(step, NothingToClaim)
    assert step.reason == "all_completed"
    with plan.claim() as nothing:
        assert not nothing
        valid("state-claim", nothing.facts)


def test_a_paused_plan_hands_out_nothing(desk, plan_at):
    plan = plan_at(desk("1").red)
    valid("state-pause", plan.pause())
    assert plan.claim().reason == "paused"
    valid("state-resume", plan.resume())
    assert plan.claim()


def test_the_log_says_who_paused_and_who_resumed(desk, plan_at):
    there = desk("1")
    in_main, in_red = plan_at(there.repo.path), plan_at(there.red)
    in_main.pause("a release")
    in_red.resume()
    person, worktree = Workspace(str(there.repo.path)).person(), str(there.red)
    decisions = [each for each in in_main.log() if each["kind"] in ("pause", "resume")]
    assert [each["actor"] for each in decisions] == [person, worktree]
    assert decisions[0]["detail"]["reason"] == "a release"


def test_a_step_that_was_asked_for_is_refused_while_it_is_held(desk, plan_at):
    at = desk("1", "2")
    with plan_at(at.red).claim(step="step-1"), pytest.raises(NotReady):
        plan_at(at.blue).claim(step="step-1")


def test_the_same_request_again_goes_on_with_the_same_claim(desk, plan_at):
    plan = plan_at(desk("1").red)
    first = plan.claim(request_id="r1")
    with plan.claim(request_id="r1") as again:
        assert (again.attempt, again.facts["replayed"]) == (first.attempt, True)
        again.complete()


# How a block ends


def test_leaving_a_block_gives_an_unfinished_step_back_and_saves_its_work(desk, plan_at):
    at = desk("1")
    plan = plan_at(at.red)
    with plan.claim():
        (at.red / "draft.py").write_text("half\n")
    assert shown(plan)["status"] == "pending"
    assert outcomes(plan) == ["released"]
    before = plan.claim().facts["previous_attempt"]
    assert at.repo.git("show", f"{before['salvage_ref']}:draft.py") == "half\n"


def test_an_exception_gives_the_step_back_as_failed_and_goes_on(desk, plan_at):
    at = desk("1")
    plan = plan_at(at.red)
    with pytest.raises(ValueError, match="no such colour") as caught:
        within(plan, lambda step: (at.red / "draft.py").write_text("half\n"), fail)
    assert not hasattr(caught.value, "__notes__")
    assert outcomes(plan) == ["failed"]
    assert "ValueError: no such colour" in json.dumps(plan.log(step="step-1"))
    assert plan.claim().facts["previous_attempt"]["salvage_ref"]


def test_an_interrupt_stops_the_worker_and_is_not_held_against_the_step(desk, plan_at):
    plan = plan_at(desk("1").red)
    with pytest.raises(KeyboardInterrupt), plan.claim():
        raise KeyboardInterrupt
    assert outcomes(plan) == ["released"]
    assert shown(plan)["claims_without_progress"] == 0


def test_a_step_that_ended_in_the_block_is_left_alone(desk, plan_at):
    at = desk("1", "2")
    plan = plan_at(at.red)
    with plan.claim():
        at.ok("complete", "work", "step-1")
    with plan.claim() as step:
        step.release()
    assert kinds(plan, "step-2").count("release") == 1


def test_a_step_that_cannot_be_given_back_does_not_hide_the_exception(desk, plan_at):
    at = desk("1")

    def destroy(step: HeldStep) -> None:
        # Never written over: whoever has it open has it in memory.
        for path in (at.repo.path / ".tugtool").glob("state.db*"):
            path.unlink()
        (at.repo.path / ".tugtool" / "state.db").write_bytes(b"no database at all" * 500)

    with pytest.raises(ValueError, match="no such colour") as caught:
        within(plan_at(at.red), destroy, fail)
    assert "step-1 was not given back" in caught.value.__notes__[0]


# The lease


def test_the_lease_is_renewed_for_as_long_as_the_block_runs(desk, plan_at):
    at = desk("1")
    plan, other = plan_at(at.red), plan_at(at.blue)
    events = plan.watch(idle_seconds=60)
    with plan.claim(lease_seconds=1) as step:
        # Three of them take as long as the lease would have lasted.
        beats = [e for e, _ in zip(_only(events, "heartbeat"), range(4), strict=False)]
        assert len({beat["at"] for beat in beats}) == 4
        assert not other.claim()
        assert not step.lost.is_set()
        step.complete()
    events.close()
    assert outcomes(plan) == ["completed"]


def _only(events, kind):
    return (event for event in events if event["kind"] == kind)


@pytest.fixture
def taken(desk, plan_at):
    """A plan whose step is held by red; and what takes it away."""
    at = desk("1 t")
    return plan_at(at.red), lambda step: at.ok("reset", "work", step.anchor, at=at.blue)


def test_a_lost_claim_is_noticed_and_every_change_refused(taken):
    plan, take_away = taken
    refused = []

    def go_on(step: HeldStep) -> None:
        assert step.lost.wait(60)
        for change in (step.tick_all, step.complete, step.heartbeat, lambda: step.note("x")):
            with pytest.raises(Superseded):
                change()
            refused.append(change)

    # The end of the block is refused as well.
    with pytest.raises(Superseded):
        within(plan, take_away, go_on)
    assert len(refused) == 4
    assert outcomes(plan) == ["reset"]


def test_a_claim_that_is_lost_at_the_end_of_the_block_is_noticed_there(taken):
    plan, take_away = taken
    held = []

    def stop_renewing(step: HeldStep) -> None:
        step._left.set()
        step._renewal.join()
        held.append(step)

    with pytest.raises(Superseded):
        within(plan, stop_renewing, take_away)
    assert held[0].lost.is_set()


def test_an_exception_in_a_block_whose_claim_is_lost_stays_what_it_was(taken):
    plan, take_away = taken
    with pytest.raises(ValueError, match="no such colour") as caught:
        within(plan, take_away, fail)
    assert not hasattr(caught.value, "__notes__")


# Processes

WORKER = """
import sys, tugtool
plan = tugtool.open(sys.argv[1]).plan("work")
with plan.claim() as step:
    print(step.anchor, flush=True)
    sys.stdin.readline()
    step.complete()
"""


@contextlib.contextmanager
def worker(path: Path):
    """A process that claims a step and says which; it completes it once it is told to."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", WORKER, str(path)], **pipes) as process:
        try:
            process.anchor = process.stdout.readline().strip()
            yield process
        finally:
            process.kill()


def test_two_processes_get_different_steps(desk, plan_at):
    at = desk("1", "2")
    with worker(at.red) as red, worker(at.blue) as blue:
        assert {red.anchor, blue.anchor} == {"step-1", "step-2"}
        for each in (red, blue):
            each.communicate("\n")
            assert each.returncode == 0
    assert plan_at(at.red).claim().reason == "all_completed"


def test_the_step_of_a_killed_process_is_free_at_once(desk, plan_at):
    at = desk("1")
    with worker(at.red) as red:
        assert not plan_at(at.blue).claim()
        red.kill()
        red.wait()
        with plan_at(at.blue).claim() as step:
            assert (step.anchor, step.attempt) == (red.anchor, 2)
            step.complete()


def test_a_claim_waits_until_another_worker_is_done(desk, plan_at):
    at = desk("1", "2 < 1")
    with worker(at.red) as red:
        red.stdin.write("\n")
        red.stdin.flush()
        assert plan_at(at.blue).claim(wait_seconds=60).anchor == "step-2"


# Git


def test_a_commit_completes_the_step_with_it(bench, plan_at):
    at = bench("1 t")
    plan = plan_at(at.red)
    with plan.claim() as step:
        (at.red / "hello.py").write_text("print('hello')\n")
        step.tick(("task", 0))
        made = valid("commit", step.commit("feat: hello", summary="says hello"))
    assert shown(plan)["commit_hash"] == made["commit_hash"] == at.git("rev-parse", "HEAD").strip()
    message = at.git("log", "-1", "--format=%B")
    assert message.startswith("feat: hello\n")
    assert f"Tug-Plan: {KEY}" in message


def test_a_commit_that_cannot_complete_the_step_says_why_and_is_made_once(bench, plan_at):
    at = bench("1 t")
    plan = plan_at(at.red)
    with plan.claim() as step:
        (at.red / "hello.py").write_text("print('hello')\n")
        with pytest.raises(ItemsOpen):
            step.commit("feat: hello")
        made = at.git("rev-parse", "HEAD").strip()
        assert made != at.commit
        step.tick_all()
        assert valid("commit", step.commit("feat: hello"))["recovered"]
    assert shown(plan)["commit_hash"] == made == at.git("rev-parse", "HEAD").strip()


def test_a_plan_goes_from_its_file_to_the_base_branch(repo, plan_at, monkeypatch):
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    repo.plan("work", "### Step 1: Say hello\n- [ ] print a greeting\n")
    main = plan_at(repo.path)
    plan = main.create_worktree(commit_plan=True)
    assert plan.project.worktree != main.project.worktree
    with plan.claim() as step:
        Path(step.worktree, "hello.py").write_text("print('hello')\n")
        step.tick_all()
        step.commit("feat: hello")
    assert main.merge(dry_run=True)["merged"] is False
    assert valid("merge", main.merge())["merged"]
    assert (repo.path / "hello.py").exists()
    plan.project.close()


# Looking


def test_a_plan_can_be_looked_at(desk, opened):
    project = opened(desk("1", "2 < 1").red)
    plan = project.plan("work")
    valid("state-show", plan.show())
    assert valid("state-ready", plan.ready())["ready_steps"] == ["step-1"]
    assert valid("state-why", plan.why("step-2"))["anchor"] == "step-2"
    assert [row["plan_path"] for row in valid("status", project.status())["plans"]] == [KEY]
    assert [event["kind"] for event in plan.log(limit=1)] == ["init"]


def test_a_watcher_sees_what_happens_from_now_on(desk, opened):
    at = desk("1", "2")
    project = opened(at.red)
    plan = project.plan("work")
    everything, here = project.watch(), plan.watch(step="step-1")
    at.ok("claim", "work", "--step", "step-1")
    assert next(everything)["kind"] == next(here)["kind"] == "claim"
    at.ok("release", "work", "step-1")
    event = next(here)
    assert (event["kind"], event["step_anchor"]) == ("release", "step-1")
    for each in (everything, here):
        each.close()


def test_a_watcher_can_begin_earlier_and_end_when_nothing_happens(desk, plan_at):
    plan = plan_at(desk("1").red)
    assert [e["kind"] for e in plan.watch(since=3600, idle_seconds=0.01)] == ["init"]
    assert list(plan.watch(idle_seconds=0.01)) == []


def test_a_watcher_waits_for_a_database(desk, opened):
    at = desk("1", init=False)
    project = opened(at.red)
    events = project.watch()
    project.plan("work").init()
    assert next(events)["kind"] == "init"
    events.close()


# What was elsewhere before


@pytest.mark.parametrize(
    ("old", "name"),
    [
        ("tugtool.reconcile", "reconcile"),
        ("tugtool.repository", "discover"),
        ("tugtool.salvaging", "catch_up"),
        ("tugtool.state.claiming", "Request"),
        ("tugtool.state.reporting", "Note"),
        ("tugtool.state.revision", "Allowed"),
        ("tugtool.state.verifying", "Finding"),
        ("tugtool.verify", "prepare"),
    ],
)
def test_an_old_path_leads_where_things_are_now(old, name):
    program = f"from {old} import {name} as it; print(it.__module__, it.__name__)"
    words = [sys.executable, "-W", "always", "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [library.OLD_PATHS[old], name]
    assert f"<string>:1: DeprecationWarning: {old} goes with tugtool 0.3; use " in done.stderr


def test_old_paths_that_are_still_the_right_ones_stay():
    from tugtool import state
    from tugtool.state.history import Reader
    from tugtool.state.record import PlanCopy

    assert (state.Reader, state.PlanCopy) == (Reader, PlanCopy)


def test_what_never_was_there_is_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"tugtool\.destroy"):
        __import__("tugtool.destroy")
    with pytest.raises(AttributeError, match="destroy"):
        _ = tugtool.destroy


def test_the_package_itself_loads_nothing():
    program = (
        "import sys; before = set(sys.modules); import tugtool; print(set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "{'tugtool'}\n", done.stderr
