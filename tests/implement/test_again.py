"""A run that is killed or interrupted at any stage, and the next one: the same as without.

One story goes through every stage there is, with work for every agent.
"""

import os
import signal
import sys

import pytest

from conftest import Repo, git
from implement.test_stop import Bell, Gate, until
from support.implement import Play, events, kinds
from support.implement_aftermath import aftermath, result
from support.proving import sampled
from tugtool.implement.audit import LEFT_OVER
from tugtool.system import crash

LINES = ("1 tcc | `test -e scripted/step-1.txt` passes", "1.1 tc", "2 t < 1")
ROLES = ("architect", "coder", "reviewer", "auditor", "integrator")
DEFERRED = [
    {"step_anchor": "step-1", "kind": "checkpoint", "ordinal": 1, "verdict": "UNVERIFIED"},
    {"step_anchor": "step-1-1", "kind": "checkpoint", "verdict": "UNVERIFIED", "reason": "no net"},
]
#: A round of changes by the reviewer, and one by the auditor.
RULES = (
    {"role": "reviewer", "step": "step-1", "round": 1, "answer": {"recommendation": "REVISE"}},
    {"role": "reviewer", "step": "step-1", "verdicts": DEFERRED},
    {"role": "auditor", "round": 1, "answer": {"recommendation": "REVISE"}},
    {"role": "coder", "step": "step-2", "round": 2, "do": [{"write": "repaired", "text": "x"}]},
)
#: Without it no step is given back.
FAILS = {"role": "coder", "step": "step-1", "attempt": 1, "rubbish": True}


def staged(play: Play, *before: dict) -> Play:
    play.cast(*ROLES, more="tries = 1")
    play.rules(*before, *RULES)
    play.repo.git("remote", "add", "origin", "https://example.invalid/x.git")
    return play


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the story comes to when nothing happens to it."""
    repo = Repo.init(tmp_path_factory.mktemp("undisturbed") / "repo")
    play = staged(Play(repo, None, None, *LINES))
    process = play.start()
    try:
        out, err = process.communicate(timeout=60)
    finally:
        play.end()
    assert (process.returncode, err) == (0, "")
    aftermath(play, events(out))
    found = result(play)
    # Two steps and what the auditor asked for; else it would be no story.
    assert len(found["commits"]) == 3
    return found


@pytest.fixture
def play(play):
    return lambda *before: staged(play(*LINES), *before)


def ends_the_same(play: Play, undisturbed) -> None:
    """The next run brings it to the same end, and one more has nothing to do."""
    status, told = play.run()
    assert status == 0, told[-1]
    aftermath(play, told)
    assert result(play) == undisturbed
    for kind in ("auditor_summary", "recovery"):
        assert {row["step_anchor"] for row in play.artifacts(kind)} <= {"step-1", "step-2"}
    status, told = play.run()
    assert (status, kinds(told)) == (0, ["finished"])


def reopens(play: Play) -> None:
    """The first commit's step cannot be completed at once."""
    hook = play.root / ".git" / "hooks" / "post-commit"
    hook.parent.mkdir(exist_ok=True)
    flag = play.root.parent / "was-here"
    update = "-m tugtool state update work step-1 --task 0 open"
    line = f"{sys.executable} {update} > /dev/null"
    guard = f"test -e {flag} && exit 0\ntouch {flag}\n"
    hook.write_text(f"#!/bin/sh\nunset GIT_DIR GIT_INDEX_FILE\n{guard}{line}\n")
    hook.chmod(0o755)


#: A step that moves: test_move.py; commits that conflict: test_conflicts.py; a run that cools down:
#: test_night.py; a remote: test_implement_machines.py. Here there is one worktree, and one step at
#: a time.
ELSEWHERE = (
    *("implement.moved", "implement.cooling", "implement.shared"),
    *("implement.conflict", "implement.resolved", "implement.joined"),
)
POINTS = [p for p in crash.POINTS if p.startswith("implement.") and p not in ELSEWHERE]
#: Without an attempt that fails these are never reached.
AFTER_FAILURE = ("implement.released", "implement.saved", "implement.resumed")


def leading_to(play, point: str) -> Play:
    """The story, with what has to happen for that point to be reached."""
    made = play(*([FAILS] if point in AFTER_FAILURE else []))
    if point == "implement.recovered":
        reopens(made)
    return made


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("point", sampled(POINTS, 1))
def test_a_run_that_is_killed_at_any_stage_comes_to_the_same_end(play, undisturbed, point):
    play = leading_to(play, point)
    process = play.start(TUGCODE_CRASH_AT=point)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (-signal.SIGKILL, "")
    ends_the_same(play, undisturbed)


#: At these points nobody looks any more whether the run is to stop: it is over.
TOO_LATE = ("implement.integrated",)


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("point", sampled(POINTS, 1))
def test_a_run_that_is_interrupted_at_any_point_comes_to_the_same_end(play, undisturbed, point):
    play = leading_to(play, point)
    gate = Gate(play, point)
    process = play.start(TUGCODE_CRASH_AT=gate.asked)
    gate.reached(process)
    os.killpg(process.pid, signal.SIGINT)
    told = until(process, "stopping")
    gate.let_go()
    out, err = process.communicate(timeout=60)
    assert err == ""
    told += events(out)
    if point in TOO_LATE:
        assert (process.returncode, told[-1]["status"]) == (0, "done")
    else:
        assert (process.returncode, told[-1]["status"]) == (130, "stopped")
    stopped_cleanly(play, told)
    ends_the_same(play, undisturbed)


def stopped_cleanly(play: Play, told: list[dict]) -> None:
    """Nothing is held, nothing runs, and no work of a step lies about unsaved."""
    done = [step for step, status in play.steps().items() if status == "completed"]
    # The coder after an audit works for no step: what it was at lies where all is together.
    aftermath(play, told, done=done, uncommitted=map(str, play.trees() if len(done) == 2 else ()))


STAGES = {
    "architect": {"role": "architect"},
    "coder": {"role": "coder"},
    "reviewer": {"role": "reviewer"},
    "coder, second round": {"role": "coder", "step": "step-1", "round": 2},
    "second step": {"role": "coder", "step": "step-2", "round": 1},
    "auditor": {"role": "auditor"},
    "coder, after the audit": {"role": "coder", "step": "step-2", "round": 2},
    "integrator": {"role": "integrator"},
}
#: What a coder has written when it is stopped, and overwrites when it goes on.
HALF = {"coder, after the audit": "repaired"}


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


@pytest.mark.proof(share=0)
# Each signal at one stage; the rest as proofs.
@pytest.mark.parametrize(
    ("stage", "number"), sampled([(stage, each) for stage in STAGES for each in SIGNALS], 2)
)
def test_a_run_that_is_interrupted_at_any_stage_comes_to_the_same_end(
    play, undisturbed, stage, number
):
    play = play()
    bell = Bell(play)
    half = [{"write": HALF[stage], "text": "half"}] if stage in HALF else []
    play.rules({**STAGES[stage], "times": 1, "do": [*half, bell.ring(), {"hang": True}]}, *RULES)
    process = play.start()
    bell.heard()
    if number == signal.SIGINT:
        # As Ctrl-C does it: to everybody at once.
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    out, err = process.communicate(timeout=60)
    if number == signal.SIGKILL:
        assert (process.returncode, err) == (-number, "")
    else:
        assert (process.returncode, err) == (128 + number, "")
        told = events(out)
        assert told[-1]["status"] == "stopped"
        stopped_cleanly(play, told)
    ends_the_same(play, undisturbed)


@pytest.mark.proof(share=0)
def test_what_a_coder_was_at_after_an_audit_is_committed_if_the_auditor_is_content(play):
    play = play()
    # Without an integrator, before whom all would be committed anyway.
    play.cast("coder", "reviewer", "auditor")
    bell = Bell(play)
    revise = {"role": "auditor", "times": 1, "answer": {"recommendation": "REVISE"}}
    acts = [{"write": "repaired", "text": "x"}, bell.ring(), {"hang": True}]
    play.rules(revise, {"role": "coder", "step": "step-2", "round": 2, "do": acts})
    process = play.start()
    bell.heard()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    status, told = play.run()
    assert status == 0
    aftermath(play, told)
    [tree] = play.trees()
    assert git("show", "--name-only", "--format=%s", "HEAD", cwd=tree).split("\n")[0] == LEFT_OVER
    assert (tree / "repaired").read_text() == "x"
