"""When every step is done: the auditor and the integrator."""

import json

import pytest

from conftest import git
from support.implement import kinds

REVISE = {"recommendation": "REVISE", "cross_step_issues": ["two names for one thing"]}


@pytest.fixture
def play(play):
    def make(*lines: str, roles: tuple[str, ...] = ("auditor",)):
        made = play(*(lines or ("1 t",)))
        made.cast("coder", "reviewer", *roles)
        return made

    return make


def test_the_auditor_sees_what_all_worktrees_have_done(play):
    play = play("1 t", "2 t", "3 t")
    look = (
        "test -f scripted/step-1.txt && test -f scripted/step-2.txt && test -f scripted/step-3.txt"
    )
    play.rules({"role": "auditor", "do": [{"run": look}]})
    status, _ = play.run("--workers", 3)
    assert status == 0
    [note] = play.artifacts("auditor_summary")
    assert json.loads(note["content"])["recommendation"] == "APPROVE"
    assert play.calls("auditor") == ["auditor None 1"]
    play.finished()


def test_a_plan_that_is_audited_is_not_audited_again(play):
    play = play()
    assert play.run()[0] == 0
    status, told = play.run()
    assert (status, kinds(told)) == (0, ["finished"])
    assert len(play.calls("auditor")) == 1


def test_an_auditors_findings_go_to_the_coder_and_are_committed_for_no_step(play):
    play = play()
    repair = {"role": "coder", "round": 2, "do": [{"write": "repaired", "text": "x"}]}
    play.rules({"role": "auditor", "round": 1, "answer": REVISE}, repair)
    status, _ = play.run()
    assert status == 0
    assert play.calls()[-3:] == ["auditor None 1", "coder step-1 2", "auditor None 2"]
    play.finished()
    [tree] = play.trees()
    assert git("show", "--name-only", "--format=", "HEAD", cwd=tree).split() == ["repaired"]
    assert len(play.artifacts("auditor_summary")) == 2


def test_an_auditor_that_is_never_content_ends_the_run_unapproved(play):
    play = play()
    play.rules({"role": "auditor", "answer": REVISE})
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "not_approved")
    assert "asked for changes 3 times" in told[-1]["reason"]
    assert len(play.calls("auditor")) == 3
    assert len(play.artifacts("escalation")) == 1
    rows = play.rows("select * from events where kind = 'agent'")
    assert {json.loads(row["detail"])["role"] for row in rows} == {"coder", "reviewer", "auditor"}
    # The next run asks once more.
    play.rules()
    assert play.run()[0] == 0


def test_an_auditor_that_fails_ends_the_run_unapproved(play):
    play = play()
    play.rules({"role": "auditor", "rubbish": True})
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "not_approved")
    assert "the auditor failed" in told[-1]["reason"]


def test_worktrees_that_conflict_are_named_before_the_auditor_is_asked(play):
    play = play("1 t", "2 t")
    acts = [{"write": "code.txt", "text": "{step}\n"}, {"touch": "../../{step}-here"}]
    other = {"step-1": "step-2", "step-2": "step-1"}
    rules = [
        {"role": "coder", "step": step, "do": [*acts, {"wait_for": f"../../{second}-here"}]}
        for step, second in other.items()
    ]
    play.rules(*rules)
    status, told = play.run("--workers", 2)
    assert (status, told[-1]["status"]) == (1, "not_approved")
    assert "code.txt" in told[-1]["reason"]
    assert play.calls("auditor") == []


def test_the_integrator_is_only_for_repositories_with_a_remote(play):
    play = play(roles=("auditor", "integrator"))
    assert play.run()[0] == 0
    assert play.calls("integrator") == []
    play.repo.git("remote", "add", "origin", "https://example.invalid/x.git")
    play.rules({"role": "integrator", "answer": {"recommendation": "ESCALATE", "summary": "red"}})
    status, told = play.run()
    assert (status, told[-1]["reason"]) == (1, "the integrator: ESCALATE: red")
    play.rules()
    assert play.run()[0] == 0
    assert play.run()[0] == 0
    assert len(play.calls("integrator")) == 2


def test_what_was_carried_out_can_be_merged(play):
    play = play("1 t", "2 t", "3 t", "4 t < 1 2 3")
    play.repo.git("add", "--all")
    play.repo.git("commit", "--quiet", "--message=settings")
    assert play.run("--workers", 3)[0] == 0
    play.finished()
    play.ok("merge", "work")
    for number in range(1, 5):
        assert (play.root / "scripted" / f"step-{number}.txt").exists()
    assert play.trees() == []
    status, told = play.run()
    assert (status, kinds(told)) == (0, ["finished"])
