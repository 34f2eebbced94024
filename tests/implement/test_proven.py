"""Command checkpoints are run before the commit; what passes and what fails, and who is told."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from conftest import git
from support.implement import kinds
from tugtool.system import clock

TUG = f"{sys.executable} -m tugtool"


@pytest.fixture
def play(play):
    """As `play`, with a coder and a reviewer."""

    def make(*lines: str, **implement: object):
        made = play(*lines)
        made.cast("coder", "reviewer", **implement)
        return made

    return make


def overhear(play) -> Path:
    """Keep what the coder is given in a file."""
    heard, config = play.root.parent / "heard", play.root / ".tugtool" / "config.toml"
    agent = shlex.join([sys.executable, "-m", "tugtool.agents.scripted", str(play.script)])
    line = json.dumps(["sh", "-c", f"tee -a {heard} | {agent}"])
    head, rest = config.read_text().split("[agents.coder]\n")
    config.write_text(f"{head}[agents.coder]\ncommand = {line}\n{rest.partition(chr(10))[2]}")
    return heard


def items(play) -> dict[str, dict]:
    """`c0` -> the item as `state show` has it."""
    data = play.ok("state", "show", "work")
    return {f"{each['kind'][0]}{each['ordinal']}": each for each in data["checklist_items"]}


def test_a_plan_whose_only_checkpoint_is_false_never_becomes_done(play):
    play = play("1 c | `false`", review_rounds=1)
    status, told = play.run()
    assert (status, told[-1]["status"], play.steps()) == (1, "unfinished", {"step-1": "pending"})
    assert play.calls("coder") == ["coder step-1 1", "coder step-1 2"]
    [left] = told[-1]["left"]
    assert "commands of checkpoints still fail after 2 rounds" in left["reason"]
    assert "`false` exit 1" in left["reason"]
    assert play.commits("step-1") == []


def test_a_coder_is_told_the_output_mends_it_and_the_evidence_stands_at_the_commit(play):
    play = play("1 tc | `cat good || { echo no good here; exit 3; }` passes", "2 t < 1")
    play.rules({"role": "coder", "step": "step-1", "round": 2, "do": [{"write": "good"}]})
    heard = overhear(play)
    status, told = play.run()
    assert status == 0
    found = ["verifying", "verified", "revise"]
    assert [kind for kind in kinds(told) if kind in found] == [*found, "verifying", "verified"]
    assert "exit 3" in heard.read_text()
    assert "The end of its output:\\ncat: good: No such file" in heard.read_text()
    [commit] = play.commits("step-1")
    item = items(play)["c0"]
    evidence = item["evidence"]
    assert (item["status"], evidence["passed"], evidence["stale"]) == ("completed", True, False)
    assert (evidence["commit"], evidence["dirty"]) == (commit, False)
    assert evidence["commands"][0]["exit_status"] == 0
    play.finished(told)


def test_what_a_command_leaves_behind_is_not_in_the_commit(play):
    play = play("1 tc | `echo x > left; echo y >> file; ls file` passes")
    assert play.run()[0] == 0
    [commit] = play.commits("step-1")
    names = git("show", "--name-only", "--format=", commit, cwd=play.root).split()
    assert "left" not in names
    assert "file" not in names
    assert items(play)["c0"]["evidence"]["commit"] == commit


def test_what_was_judged_says_by_whom_and_why(play):
    play = play("1 ccc | It is quick | It is small | `true` passes")
    verdicts = [
        {"kind": "checkpoint", "ordinal": 0, "verdict": "PASS", "reason": "measured it"},
        {"kind": "checkpoint", "ordinal": 1, "verdict": "UNVERIFIED", "reason": "no scales"},
        {"kind": "checkpoint", "ordinal": 2, "verdict": "UNVERIFIED", "reason": "no shell"},
    ]
    play.rules({"role": "reviewer", "verdicts": verdicts})
    assert play.run()[0] == 0
    found = items(play)
    assert found["c0"]["evidence"]["judged"] == {"role": "reviewer", "reason": "measured it"}
    assert (found["c1"]["status"], found["c1"]["reason"]) == ("deferred", "no scales")
    # What a run shows counts more than what the reviewer could not see.
    assert (found["c2"]["status"], found["c2"]["evidence"]["judged"]) == ("completed", None)
    shown = play._tugcode("-C", play.root, "state", "show", "work", "--checklist").out
    assert "judged by the reviewer: measured it" in shown


def test_a_checkpoint_for_a_person_waits_whatever_the_reviewer_says(play):
    play = play("1 tc | `true` looks right (person)")
    status, told = play.run()
    assert status == 0
    assert [e["item"] for e in told if e["event"] == "deferred"] == ["step-1 checkpoint 0"]
    [item] = play.ok("state", "review", "work")["deferred_items"]
    assert item["reason"] == "it waits for a person"


def test_without_verify_a_run_says_so_and_the_reviewer_s_word_counts(play):
    play = play("1 c | `false`", verify="false")
    status, told = play.run()
    assert status == 0
    assert "verify = false" in next(e["message"] for e in told if e["event"] == "warning")
    assert kinds(told)[1] == "warning"
    assert "verifying" not in kinds(told)
    assert items(play)["c0"]["evidence"]["judged"]["role"] == "reviewer"
    dry = play._tugcode("-C", play.root, "implement", "work", "--dry-run").out
    assert "the commands of checkpoints are not run" in dry


def test_a_command_that_opens_again_after_the_commit_is_run_again(play):
    play = play("1 tc | `test -e scripted/step-1.txt` passes")
    hooks = play.root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    reopen = "state update work step-1 --checkpoint 0 open"
    line = f"unset GIT_DIR GIT_INDEX_FILE\n{TUG} {reopen} > /dev/null\n"
    (hooks / "post-commit").write_text(f"#!/bin/sh\n{line}")
    (hooks / "post-commit").chmod(0o755)
    status, told = play.run()
    assert (status, "recovered" in kinds(told)) == (0, True)
    [commit] = play.commits("step-1")
    assert items(play)["c0"]["evidence"]["commit"] == commit
    play.finished(told)


@pytest.mark.proof
def test_a_run_that_is_killed_while_a_checkpoint_runs_comes_to_the_same_end(play):
    play = play("1 tc | `test -e ../../../seen || { touch ../../../seen; sleep 600; }` passes")
    process = play.start()
    seen = play.root.parent / "seen"
    for _ in clock.tries(60):
        if seen.exists():
            break
    process.kill()
    process.communicate()
    assert play.steps() == {"step-1": "in_progress"}
    status, told = play.run()
    assert (status, play.outcomes("step-1")) == (0, ["dead", "completed"])
    play.finished(told)
    [commit] = play.commits("step-1")
    assert items(play)["c0"]["evidence"]["commit"] == commit
