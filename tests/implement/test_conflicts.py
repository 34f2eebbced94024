"""Two steps change the same lines, and a third needs both: the coder merges them, then a person."""

import json
import os
import signal
from pathlib import Path

import pytest

from conftest import git
from implement.test_move import CHANGE, acts
from implement.test_stop import until
from support.implement import Play, events, kinds
from support.implement_aftermath import aftermath
from support.proving import sampled

LINES = ("1 t", "2 t", "3 t < 1 2")
BOTH = {"write": "code.txt", "text": "step-1\nstep-2\n"}


def at_odds(make, *rules: dict) -> Play:
    """The plan, and agents of which the first two disagree."""
    play = make(*LINES)
    play.cast("coder", "reviewer", more="timeout_seconds = 60\ntries = 1", workers=2)
    play.rules(
        {"role": "coder", "step": "step-1", "do": acts(CHANGE, waits="step-2")},
        {"role": "coder", "step": "step-2", "do": acts(CHANGE, waits="step-1")},
        *rules,
    )
    return play


def resolving(*do: dict, **answer: object) -> dict:
    return {"role": "coder", "step": "step-3", "conflict": True, "do": list(do), **answer}


def given(play: Play, number: int) -> dict:
    """What the agent of that call of step-3's first attempt got."""
    path = play.ok("transcript", "work", "step-3")["transcripts"][number - 1]["path"]
    text = Path(path).read_text().partition("\n--- printed ---\n")[0]
    return json.loads(text.rstrip("\n").rpartition("\n")[2])


def is_resolved(play: Play, told: list[dict]) -> None:
    assert told[-1]["status"] == "done", told[-1]
    aftermath(play, told)
    [commit] = play.commits("step-3")
    assert git("show", f"{commit}:code.txt", cwd=play.root) == BOTH["text"]
    parents = git("rev-parse", f"{commit}^^@", cwd=play.root).split()
    behind = [play.commits(step)[0] for step in ("step-1", "step-2")]
    assert len(parents) == 2
    for each in behind:
        assert git("merge-base", "--is-ancestor", each, commit, cwd=play.root) == ""
    play.ok("merge", "work")
    assert (play.root / "code.txt").read_text() == BOTH["text"]


def is_parked(play: Play, told: list[dict], said: str) -> str:
    assert told[-1]["status"] == "unfinished"
    [left] = told[-1]["left"]
    assert said in left["reason"]
    assert "to resolve it, run git merge" in left["reason"]
    for tree in play.trees():
        assert git("status", "--porcelain", cwd=tree) == ""
        assert "merge" not in git("status", cwd=tree)
    refs = git("for-each-ref", "--format=%(refname)", "refs/tug/salvage", cwd=play.root).split()
    [kept] = [ref for ref in refs if ref.endswith("-merge")]
    return kept


@pytest.mark.proof(share=0)
def test_the_coder_merges_the_reviewer_looks_and_the_step_is_done(play):
    play = at_odds(play, resolving(BOTH), {"role": "coder", "step": "step-3"})
    status, told = play.run()
    assert status == 0, told[-1]
    assert "escalated" not in kinds(told)
    [conflict] = [each for each in told if each["event"] == "conflict"]
    assert (conflict["step_anchor"], conflict["files"]) == ("step-3", ["code.txt"])
    calls = [call for call in play.calls() if "step-3" in call]
    assert calls == ["coder step-3 1", "reviewer step-3 1"] * 2
    facts = given(play, 1)["conflict"]
    assert facts["files"] == ["code.txt"]
    assert {*facts["ours"]["steps"], *facts["theirs"]["steps"]} == {"step-1", "step-2"}
    assert facts["theirs"]["steps"] == [conflict["needs"]]
    assert facts["theirs"]["commit"] == conflict["commit"]
    assert given(play, 2)["conflict"] == facts
    assert given(play, 3).get("conflict") is None
    is_resolved(play, told)


@pytest.mark.proof(share=0)
@pytest.mark.parametrize(
    "ending",
    [
        [{"run": "git add code.txt"}],
        [{"run": "git commit --quiet --all --no-edit"}],
    ],
    ids=["staged", "committed"],
)
def test_a_coder_that_stages_or_commits_the_merge_does_no_harm(play, ending):
    play = at_odds(play, resolving(BOTH, *ending))
    status, told = play.run()
    assert status == 0, told[-1]
    is_resolved(play, told)


@pytest.mark.proof(share=0)
@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (resolving({"write": "seen", "text": "x"}), "conflict markers are left in code.txt"),
        (resolving({"run": "git merge --abort"}), "it ended the merge"),
        (
            resolving(answer={"success": False, "summary": "they exclude each other"}),
            "exclude each",
        ),
        (resolving(rubbish="nothing"), "the coder failed"),
    ],
    ids=["markers", "aborted", "gives up", "rubbish"],
)
def test_what_the_coder_does_not_resolve_goes_to_a_person(play, rule, said):
    play = at_odds(play, rule)
    status, told = play.run()
    assert status == 1
    assert [call for call in play.calls() if "step-3" in call] == ["coder step-3 1"]
    if "abort" in str(rule):
        # Nothing lies there that could be kept.
        assert said in told[-1]["left"][0]["reason"]
    else:
        is_parked(play, told, said)


@pytest.mark.proof(share=0)
def test_a_resolution_that_the_reviewer_does_not_approve_is_kept_and_goes_to_a_person(play):
    no = {"recommendation": "REVISE", "summary": "the work of step-2 is gone"}
    reviewer = {"role": "reviewer", "step": "step-3", "conflict": True, "answer": no}
    play = at_odds(play, resolving(BOTH), reviewer)
    status, told = play.run()
    assert status == 1
    kept = is_parked(play, told, "the work of step-2 is gone")
    assert git("show", f"{kept}:code.txt", cwd=play.root) == BOTH["text"]
    # Once a person says so, the coder may try again.
    play.ok("state", "reset", "work", "step-3")
    play.rules(resolving(BOTH), {"role": "coder", "step": "step-3"})
    status, told = play.run()
    assert status == 0, told[-1]
    is_resolved(play, told)


POINTS = ("implement.conflict", "implement.resolved", "implement.joined")


def killed(play: Play, point: str) -> None:
    process = play.start(TUGCODE_CRASH_AT=point)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("point", sampled(POINTS, 1))
def test_a_run_that_is_killed_while_it_merges_comes_to_the_same_end(play, point):
    play = at_odds(play, resolving(BOTH))
    killed(play, point)
    status, told = play.run()
    assert status == 0, told[-1]
    is_resolved(play, told)


@pytest.mark.proof
@pytest.mark.parametrize("point", POINTS[:2])
def test_a_merge_that_a_killed_run_left_is_not_taken_for_work_on_the_step(play, point):
    play = at_odds(play, resolving(BOTH))
    killed(play, point)
    [held] = {row["claimed_by"] for row in play.rows("select * from steps") if row["claimed_by"]}
    git("worktree", "lock", held, cwd=play.root)
    status, told = play.run()
    assert status == 0, told[-1]
    assert "resumed" not in kinds(told)
    [commit] = play.commits("step-3")
    assert git("show", f"{commit}:code.txt", cwd=play.root) == BOTH["text"]


@pytest.mark.proof
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_stopped_while_the_coder_merges_comes_to_the_same_end(play, number):
    half = {"write": "code.txt", "text": "half\n"}
    play = at_odds(play, resolving(half, {"wait_for": "../../never"}))
    process = play.start()
    told = until(process, "conflict")
    told += until(process, "agent_started")
    os.kill(process.pid, number)
    out, _ = process.communicate(timeout=60)
    events(out)
    play.rules(resolving(BOTH))
    status, told = play.run()
    assert status == 0, told[-1]
    is_resolved(play, told)
