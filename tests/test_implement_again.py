"""A run that is killed or interrupted at any stage, and the next one: the same as without.

One story goes through every stage there is, with work for every agent.
"""

import os
import signal
import sys

import pytest

from conftest import Repo
from implement_aftermath import aftermath, result
from implement_fixtures import Play, events, kinds
from test_implement_stop import Bell
from tugtool import crash

LINES = ("1 tcc", "1.1 tc", "2 t < 1")
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


@pytest.mark.parametrize("point", [p for p in crash.POINTS if p.startswith("implement.")])
def test_a_run_that_is_killed_at_any_stage_comes_to_the_same_end(play, undisturbed, point):
    play = play(*([FAILS] if point == "implement.released" else []))
    if point == "implement.recovered":
        reopens(play)
    process = play.start(TUGCODE_CRASH_AT=point)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (-signal.SIGKILL, "")
    ends_the_same(play, undisturbed)


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


@pytest.mark.parametrize("stage", STAGES)
def test_a_run_that_is_interrupted_at_any_stage_comes_to_the_same_end(play, undisturbed, stage):
    play = play()
    bell = Bell(play)
    play.rules({**STAGES[stage], "times": 1, "do": [bell.ring(), {"hang": True}]}, *RULES)
    process = play.start()
    bell.heard()
    # As Ctrl-C does it: to everybody at once.
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    told = events(out)
    assert told[-1]["status"] == "stopped"
    done = [step for step, status in play.steps().items() if status == "completed"]
    aftermath(play, told, done=done)
    ends_the_same(play, undisturbed)
