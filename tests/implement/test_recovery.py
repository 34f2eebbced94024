"""A commit succeeds and the state does not follow: what is retried, and what a person is told."""

import sys

import pytest

from support.implement import kinds

TUG = f"{sys.executable} -m tugtool"


@pytest.fixture
def play(play):
    def make(*lines: str):
        made = play(*(lines or ("1 tc",)))
        made.cast("coder", "reviewer")
        return made

    return make


def hook(play, line: str, name: str = "post-commit") -> None:
    """Something happens right after git has the commit, and before the state is told."""
    hooks = play.root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / name).write_text(f"#!/bin/sh\nunset GIT_DIR GIT_INDEX_FILE\n{line}\n")
    (hooks / name).chmod(0o755)


def test_items_that_open_again_are_closed_and_the_step_completed(play):
    play = play("1 tcc")
    reopen = "state update work step-1 --task 0 open --checkpoint 0 open --checkpoint 1 open"
    hook(play, f"{TUG} {reopen} > /dev/null")
    verdict = {"kind": "checkpoint", "ordinal": 1, "verdict": "UNVERIFIED", "reason": "no screen"}
    play.rules({"role": "reviewer", "verdicts": [verdict]})
    status, told = play.run()
    assert (status, "recovered" in kinds(told)) == (0, True)
    play.finished()
    [note] = play.artifacts("recovery")
    assert note["step_anchor"] == "step-1"
    items = {(r["kind"], r["ordinal"]): r for r in play.rows("select * from checklist_items")}
    assert items["checkpoint", 1]["status"] == "deferred"
    assert items["checkpoint", 1]["reason"] == "no screen"
    assert play.ok("state", "stats", "work")["plans"][0]["recoveries"] == 1


@pytest.mark.proof(share=0)
def test_a_plan_that_changed_meanwhile_is_a_persons_affair_at_once(play):
    play = play("1 t", "2 t")
    hook(play, "echo >> .tugtool/tugplan-work.md")
    status, told = play.run()
    assert status == 1
    assert "recovered" not in kinds(told)
    reasons = [each["reason"] for each in told if each["event"] == "escalated"]
    assert all(reason.startswith("State update failed due to plan drift.") for reason in reasons)
    assert all("tugcode diff work --worktree " in reason for reason in reasons)
    assert "--force" not in " ".join(reasons)
    assert len(play.artifacts("escalation")) == len(reasons) > 0
    assert play.held() == []
    assert len(play.commits("step-1")) == 1


def test_a_claim_that_is_lost_after_the_commit_is_dropped(play):
    play = play("1 t")
    hook(play, f"{TUG} state pause work > /dev/null; {TUG} state reset work step-1 > /dev/null")
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "paused")
    assert "lost" in kinds(told)
    assert play.held() == []
    assert play.outcomes("step-1") == ["reset"]


def test_a_commit_that_git_refuses_twice_is_a_persons_affair(play):
    play = play("1 t")
    hook(play, "echo not today >&2; exit 1", name="pre-commit")
    status, told = play.run()
    assert status == 1
    assert play.calls("coder") == ["coder step-1 1", "coder step-1 2"]
    [reason] = [each["reason"] for each in told if each["event"] == "parked"]
    assert "not today" in reason
    assert play.held() == []
    assert play.commits("step-1") == []
    # Its work is kept for whoever goes on.
    rows = play.rows("select * from attempts")
    assert all(row["salvage_ref"] for row in rows)


@pytest.mark.proof(share=0)
def test_a_recovery_that_is_killed_is_finished_by_the_next_run(play):
    play = play("1 tc")
    hook(play, f"{TUG} state update work step-1 --task 0 open > /dev/null")
    process = play.start(TUGCODE_CRASH_AT="implement.committed")
    process.communicate(timeout=60)
    assert process.returncode == -9
    assert play.steps() == {"step-1": "in_progress"}
    (play.root / ".git" / "hooks" / "post-commit").unlink()
    before = play.calls()
    status, told = play.run()
    assert (status, "recovered" in kinds(told)) == (0, True)
    assert play.calls() == before
    play.finished()
    assert len(play.artifacts("recovery")) == 1
