"""A step that cannot be done in its worker's worktree, and can elsewhere: it is moved."""

import os
import shutil
import signal

import pytest

from conftest import git
from implement.test_stop import Gate, until
from support.implement import Play, events, kinds
from support.implement_aftermath import aftermath

#: The fourth needs only the first; whoever is free for it has done the second.
LINES = ("1 t", "2 t", "3 t", "4 t < 1")


def acts(*first: dict, waits: str) -> list[dict]:
    here = [{"touch": "../../{step}-here"}, {"wait_for": f"../../{waits}-here"}]
    return [{"write": "scripted/{step}.txt", "text": "x"}, *first, *here]


CHANGE = {"write": "code.txt", "text": "{step}\n"}
LOOK = {"run": "grep -q step-1 code.txt"}
RULES = (
    {"role": "coder", "step": "step-1", "do": acts(CHANGE, waits="step-2")},
    {"role": "coder", "step": "step-2", "do": acts(CHANGE, waits="step-3")},
    {"role": "coder", "step": "step-3", "do": acts(waits="step-4")},
    {"role": "coder", "step": "step-4", "do": acts(LOOK, waits="step-4")},
)


@pytest.fixture
def play(play):
    made = play(*LINES)
    # Agents that wait for each other do not wait for ever where something is wrong.
    made.cast("coder", "reviewer", more="timeout_seconds = 60\ntries = 1", workers=2)
    made.rules(*RULES)
    return made


def moved(told: list[dict]) -> list[dict]:
    return [event for event in told if event["event"] == "moved"]


def is_done_apart(play: Play) -> None:
    """The step's commit has what it needs, and nothing of what was in its way."""
    [commit] = play.commits("step-4")
    assert git("show", f"{commit}:code.txt", cwd=play.root) == "step-1\n"
    has = git("merge-base", "--is-ancestor", play.commits("step-1")[0], commit, cwd=play.root)
    assert has == ""
    log = git("log", "--format=%s", commit, cwd=play.root)
    assert "step-2" not in log


@pytest.mark.proof(share=0)
def test_a_step_that_conflicts_only_with_its_worktree_is_done_in_a_new_one(play):
    status, told = play.run()
    assert (status, told[-1]["status"]) == (0, "done")
    [event] = moved(told)
    assert event["step_anchor"] == "step-4"
    assert "code.txt" in event["reason"]
    assert "escalated" not in kinds(told)
    assert play.outcomes("step-4") == ["released", "completed"]
    assert len(play.trees()) == 3
    aftermath(play, told)
    is_done_apart(play)


@pytest.mark.proof(share=0)
def test_a_worker_that_has_moved_leaves_its_worktree_to_others_and_goes_on_in_the_new_one(play):
    play.run()
    rows = play.rows("select * from worktrees")
    assert [row["reserved_for"] for row in rows] == [None, None, None]


@pytest.mark.proof(share=0)
def test_a_run_that_is_killed_while_a_step_moves_comes_to_the_same_end(play):
    process = play.start(TUGCODE_CRASH_AT="implement.moved")
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (-signal.SIGKILL, "")
    status, told = play.run()
    assert status == 0
    aftermath(play, told)
    is_done_apart(play)


@pytest.mark.proof(share=0)
def test_a_run_that_is_interrupted_while_a_step_moves_comes_to_the_same_end(play):
    gate = Gate(play, "implement.moved")
    process = play.start(TUGCODE_CRASH_AT=gate.asked)
    gate.reached(process)
    os.killpg(process.pid, signal.SIGINT)
    told = until(process, "stopping")
    gate.let_go()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    done = [step for step, status in play.steps().items() if status == "completed"]
    aftermath(play, told + events(out), done=done)
    status, told = play.run()
    assert status == 0
    aftermath(play, told)
    is_done_apart(play)


@pytest.mark.proof(share=0)
def test_a_step_for_which_no_other_worktree_can_be_made_is_parked_with_both_reasons(play):
    home = play.root.parent / "git"
    home.mkdir()
    # The first two worktrees are made; after that git has had enough.
    again = f"mkdir {home}/1 2> /dev/null || mkdir {home}/2 2> /dev/null || exit 128"
    real = shutil.which("git")
    script = f'#!/bin/sh\ncase " $* " in *" worktree add "*) {again};; esac\nexec {real} "$@"\n'
    (home / "git").write_text(script)
    (home / "git").chmod(0o755)
    process = play.start(PATH=f"{home}{os.pathsep}{os.environ['PATH']}")
    told = until(process, "parked")
    # That is what the third has waited for.
    (play.root / "step-4-here").touch()
    out, err = process.communicate(timeout=60)
    told += events(out)
    assert (process.returncode, err, told[-1]["status"]) == (1, "", "unfinished")
    [left] = told[-1]["left"]
    assert (left["step_anchor"], left["parked"]) == ("step-4", True)
    assert "code.txt" in left["reason"]
    assert "no other worktree can be made" in left["reason"]
    aftermath(play, told, done=["step-1", "step-2", "step-3"], parked=["step-4"])


@pytest.mark.proof(share=0)
def test_a_step_whose_own_dependencies_conflict_is_not_moved(play):
    play.text = play.text.replace("**Depends on:** #step-1\n", "**Depends on:** #step-1, #step-2\n")
    play.repo.plan("work", play.text)
    play.repo.commit({})
    play.rules(*RULES[:2], {"role": "coder", "step": "step-3", "do": acts(waits="step-3")})
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "unfinished")
    assert moved(told) == []
    assert len(play.trees()) == 2
    aftermath(play, told, done=["step-1", "step-2", "step-3"], parked=["step-4"])
