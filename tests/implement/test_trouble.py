"""Agents that misbehave, reviewers that are not content, claims that are lost: nothing is."""

import json
import os
import shlex
import signal
import sys

import pytest

from conftest import git
from implement.test_stop import Bell
from support.implement import kinds
from support.proving import sampled
from support.state import KEY
from tugtool.system import clock
from tugtool.system import process as system_process

REVISE = {"recommendation": "REVISE", "issues": [{"severity": "major", "description": "too short"}]}


@pytest.fixture
def play(play):
    """As `play`, without an architect; agents have two tries."""

    def make(*lines: str):
        made = play(*(lines or ("1 t",)))
        made.cast("coder", "reviewer")
        return made

    return make


def reasons(told: list[dict], event: str) -> list[str]:
    return [each["reason"] for each in told if each["event"] == event]


def test_a_revision_goes_back_to_the_coder_with_the_findings(play):
    play = play("1 t")
    keep = {"write": "round-{round}", "text": ""}
    play.rules(
        {"role": "reviewer", "round": [1, 2], "answer": REVISE},
        {"role": "coder", "do": [keep]},
    )
    status, told = play.run()
    assert status == 0
    coder, reviewer = play.calls("coder"), play.calls("reviewer")
    assert coder == [f"coder step-1 {n}" for n in (1, 2, 3)]
    assert reviewer == [f"reviewer step-1 {n}" for n in (1, 2, 3)]
    assert [event["round"] for event in told if event["event"] == "revise"] == [1, 2]
    assert len(play.artifacts("reviewer_verdict")) == 3
    play.finished()


@pytest.mark.proof(share=0)
def test_a_fourth_revision_parks_the_step_and_the_others_go_on(play):
    play = play("1 t", "2 t", "3 t < 1")
    play.rules({"role": "reviewer", "step": "step-1", "answer": REVISE})
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "unfinished")
    assert play.calls("coder").count("coder step-1 4") == 1
    assert play.steps() == {"step-1": "pending", "step-2": "completed", "step-3": "pending"}
    left = {each["step_anchor"]: each for each in told[-1]["left"]}
    assert left["step-1"]["parked"]
    assert "asked for changes 4 times: REVISE: too short" in left["step-1"]["reason"]
    assert left["step-3"]["reason"] == "it waits for steps before it"
    [note] = play.artifacts("escalation")
    assert note["step_anchor"] == "step-1"
    assert play.held() == []


def test_a_reviewer_that_asks_for_a_person_gets_one(play):
    play = play("1 t")
    play.rules({"role": "reviewer", "answer": {"recommendation": "ESCALATE", "summary": "odd"}})
    status, told = play.run()
    assert status == 1
    assert reasons(told, "parked") == ["the reviewer asks for a person: ESCALATE: odd"]
    assert len(play.calls("coder")) == 1


@pytest.mark.proof(share=0)
def test_what_was_parked_is_gone_on_with_once_a_person_has_freed_it(play):
    play = play("1 t")
    ask = {"role": "reviewer", "times": 1, "answer": {"recommendation": "ESCALATE"}}
    keep = {"role": "coder", "attempt": 2, "do": [{"run": "test -f scripted/step-1.txt"}]}
    play.rules(ask, keep)
    assert play.run()[0] == 1
    [tree] = play.trees()
    assert git("status", "--porcelain", cwd=tree) == ""
    play.ok("state", "reset", "work", "step-1")
    status, told = play.run()
    assert (status, "resumed" in kinds(told)) == (0, True)
    play.finished()
    [commit] = play.commits("step-1")
    assert "scripted/step-1.txt" in git("show", "--name-only", commit, cwd=play.root)


@pytest.mark.parametrize(
    ("fault", "said"),
    sampled(
        [
            ({"do": [{"die": "KILL"}]}, "it was killed by signal 9"),
            (
                {"do": [{"complain": "no luck"}, {"exit": 3}]},
                "it ended with exit status 3: no luck",
            ),
            ({"omit": ["summary"]}, "it breaks its contract: summary is missing"),
            ({"rubbish": True}, "there is no JSON object in its answer"),
            ({"answer": {"success": False, "summary": "cannot"}}, "it did not succeed: cannot"),
        ],
        3,
    ),
)
def test_an_agent_that_fails_is_tried_again_and_told_why(play, fault, said):
    play = play("1 t")
    play.rules({"role": "coder", "try": 1, **fault})
    status, told = play.run()
    assert status == 0
    [reason] = reasons(told, "agent_failed")
    assert said in reason
    assert len(play.calls("coder")) == 2
    assert play.outcomes("step-1") == ["completed"]
    play.finished()


def test_an_agent_that_hangs_is_stopped_though_it_ignores_signals(play):
    play = play("1 t")
    # Long enough for those who do not hang, also where every core is busy.
    play.cast("coder", "reviewer", more="timeout_seconds = 4")
    play.rules({"role": "coder", "try": 1, "do": [{"ignore": ["TERM", "INT"]}, {"hang": True}]})
    status, told = play.run()
    assert status == 0
    assert reasons(told, "agent_failed") == ["it took longer than 4 s and was stopped"]
    play.finished()


@pytest.mark.proof(share=0)
def test_an_agent_that_fails_for_good_ends_the_attempt_and_parks_the_step_in_the_end(play):
    play = play("1 t", "2 t")
    config = play.root / ".tugtool" / "config.toml"
    config.write_text(config.read_text() + "[state]\nmax_attempts = 2\n")
    play.rules({"role": "coder", "step": "step-1", "rubbish": True})
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "unfinished")
    assert play.outcomes("step-1") == ["failed", "failed"]
    assert len(play.calls("coder")) == 2 * 2 + 1
    assert play.steps() == {"step-1": "pending", "step-2": "completed"}
    [left] = told[-1]["left"]
    assert left["parked"]
    assert "the coder failed: there is no JSON object" in left["reason"]
    assert play.held() == []


def test_a_program_that_is_not_there_is_an_agent_that_fails(play):
    play = play("1 t")
    config = play.root / ".tugtool" / "config.toml"
    config.write_text(config.read_text() + "[state]\nmax_attempts = 1\n")
    play.cast("reviewer")
    text = config.read_text() + '[agents.coder]\ncommand = ["./no-such-agent"]\n'
    config.write_text(text + "[state]\nmax_attempts = 1\n")
    status, told = play.run()
    assert status == 1
    assert "no-such-agent" in told[-1]["left"][0]["reason"]


def test_a_reviewer_that_judges_what_is_not_there_is_tried_again(play):
    play = play("1 tc")
    checkpoints = [{"step_anchor": "step-1", "ordinal": 7, "verdict": "FAIL"}]
    answer = {"plan_conformance": {"checkpoints": checkpoints}}
    play.rules({"role": "reviewer", "try": 1, "answer": answer})
    status, told = play.run()
    assert status == 0
    assert reasons(told, "agent_failed") == ["it judged checkpoint 7 of step-1, which has 1"]


def test_a_coder_that_edits_the_plan_is_told_and_the_plan_put_back(play):
    play = play("1 t")
    play.rules({"role": "coder", "try": 1, "do": [{"edit_plan": "\nEasier.\n"}]})
    status, told = play.run()
    assert status == 0
    [reason] = reasons(told, "agent_failed")
    assert reason.startswith("it changed the plan")
    [tree] = play.trees()
    assert (tree / KEY).read_text() == play.text
    [note] = play.artifacts("note")
    assert note["content"].endswith("\nEasier.\n")
    play.finished()


@pytest.mark.proof(share=0)
def test_a_coder_that_commits_by_itself_finds_its_work_in_the_steps_commit(play):
    play = play("1 t", "2 t < 1")
    acts = [{"write": "mine", "text": "x"}, {"commit": "my own"}]
    play.rules({"role": "coder", "step": "step-1", "do": acts})
    status, _ = play.run()
    assert status == 0
    play.finished()
    [commit] = play.commits("step-1")
    assert "mine" in git("show", "--name-only", "--format=", commit, cwd=play.root).split()
    assert "my own" not in git("log", "--all", "--format=%s", cwd=play.root)
    assert "the coder committed" in play.artifacts("note")[0]["summary"]


def test_what_an_agent_leaves_running_goes_with_it(play):
    play = play("1 t")
    play.rules({"role": "coder", "do": [{"spawn": "echo $$ > pid; exec sleep 1000"}]})
    status, _ = play.run()
    assert status == 0
    [tree] = play.trees()
    pid = int((tree / "pid").read_text())
    assert system_process.start_time(pid) is None


#: How an agent leaves something running outside of its process group.
APART = [
    {"spawn": "echo $$ > ../../pid; exec sleep 1000", "own_group": True},
    {"run": "setsid sh -c 'echo $$ > ../../pid; exec sleep 1000' < /dev/null > /dev/null 2>&1 &"},
    {"run": "setsid sh -c 'trap \"\" TERM; echo $$ > ../../pid; sleep 1000; :' > /dev/null 2>&1 &"},
]
ONCE_APART = {"run": "until test -s ../../pid; do sleep 0.01; done"}
apart = pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="only Linux tells")


@apart
@pytest.mark.parametrize(
    ("act", "end"),
    sampled([(act, end) for act in APART for end in ([], [{"die": "KILL"}], [{"hang": True}])], 4),
)
def test_what_an_agent_leaves_in_a_session_of_its_own_goes_with_it_too(play, act, end):
    play = play("1 t")
    play.cast("coder", "reviewer", more="timeout_seconds = 3")
    play.rules({"role": "coder", "times": 1, "do": [act, ONCE_APART, *end]})
    status, told = play.run()
    assert (status, len(reasons(told, "agent_failed"))) == (0, len(end))
    assert system_process.start_time(int((play.root / "pid").read_text())) is None


@apart
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_an_agent_started_apart_goes_when_the_run_is_ended(play, number):
    play = play("1 t")
    bell = Bell(play)
    play.rules({"role": "coder", "do": [APART[1], ONCE_APART, bell.ring(), {"hang": True}]})
    process = play.start()
    bell.heard()
    pid = int((play.root / "pid").read_text())
    assert system_process.start_time(pid) is not None
    os.killpg(process.pid, number)
    process.communicate(timeout=60)
    for last in clock.tries(20):
        if system_process.start_time(pid) is None:
            break
        assert not last, "it still runs"


@pytest.mark.proof(share=0)
def test_steps_that_conflict_in_git_are_named_and_parked(play):
    play = play("1 t", "2 t", "3 t < 1 2")
    both = [{"write": "code.txt", "text": "{step}\n"}, {"touch": "../../{step}-here"}]
    wait = {"step-1": "step-2", "step-2": "step-1"}
    play.rules(
        *(
            {"role": "coder", "step": step, "do": [*both, {"wait_for": f"../../{other}-here"}]}
            for step, other in wait.items()
        )
    )
    status, told = play.run("--workers", 2)
    assert status == 1
    assert play.steps() == {"step-1": "completed", "step-2": "completed", "step-3": "pending"}
    [reason] = reasons(told, "parked")
    assert "code.txt" in reason
    assert "cannot be merged" in reason
    [event] = [each for each in told if each["event"] == "escalated"]
    assert event["files"] == ["code.txt"]
    assert event["needs"] in ("step-1", "step-2")
    assert play.held() == []


def test_a_claim_that_is_taken_away_stops_the_agent_and_nothing_more_is_touched(play):
    play = play("1 t")
    # As a person would: an agent's own would be refused.
    tug = f"env -u TUGCODE_ROLE {shlex.quote(sys.executable)} -m tugtool state"
    # Paused first: whoever loses the claim is stopped as soon as that is noticed.
    line = f"cd ../.. && {tug} pause work && {tug} reset work step-1"
    acts = [{"write": "half", "text": "x"}, {"run": line}, {"hang": True}]
    play.rules({"role": "coder", "do": acts})
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "paused")
    assert "lost" in kinds(told)
    assert play.outcomes("step-1") == ["reset"]
    [tree] = play.trees()
    assert (tree / "half").exists()
    [attempt] = play.rows("select * from attempts")
    assert attempt["salvage_ref"] is not None
    assert play.commits("step-1") == []


def test_an_escalation_names_neither_force_nor_reconcile(play):
    play = play("1 t")
    play.rules({"role": "reviewer", "answer": {"recommendation": "ESCALATE"}})
    _, told = play.run()
    said = json.dumps([each for each in told if each["event"] in ("escalated", "finished")])
    assert "--force" not in said
    assert "reconcile" not in said.replace("reconciliation", "")


@pytest.mark.proof(share=0)
def test_work_that_was_saved_before_a_step_was_done_does_not_come_back_with_it(play):
    play = play("1 t")
    play.rules(
        {"role": "coder", "attempt": 1, "do": [{"write": "old", "text": "x"}]},
        {"role": "reviewer", "attempt": 1, "answer": {"recommendation": "ESCALATE"}},
        {"role": "coder", "attempt": 2, "do": [{"delete": "old"}, {"write": "new", "text": "x"}]},
        {"role": "coder", "attempt": 3, "do": [{"run": "test ! -e old && echo y > new"}]},
    )
    assert play.run()[0] == 1
    play.ok("state", "reset", "work", "step-1")
    assert play.run()[0] == 0
    play.ok("state", "reopen", "work", "step-1", "--reason", "better")
    status, told = play.run()
    assert (status, "resumed" in kinds(told)) == (0, False)
    assert play.outcomes("step-1") == ["released", "completed", "completed"]
