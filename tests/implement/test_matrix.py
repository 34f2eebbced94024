"""Whole runs with scripted agents, one for each thing that can happen: state, commits, events.

Whatever happens, the same is asked of what is left: `implement_aftermath.aftermath`.
"""

import shlex
import sys
from collections import Counter

import pytest

from conftest import git
from support.implement import events, kinds
from support.implement_aftermath import aftermath
from support.proving import sampled
from support.state import KEY

#: As a person's shell has it: an agent's own would be refused.
TUG = f"env -u TUGCODE_ROLE {shlex.quote(sys.executable)} -m tugtool"
AGENT = ["agent_started", "agent_ended"]
FAILED = ["agent_started", "agent_failed"]
CODER = [*AGENT, "coder_reported"]
STEP = ["claimed", *CODER, *AGENT, "completed"]
FIRST = ["started", "worktree"]
REVISE = {"recommendation": "REVISE", "issues": [{"severity": "major", "description": "too short"}]}
#: What the record tells of a step that went well; heartbeats come as they come.
ROUND = ["role", "agent", "role", "agent", "artifact"]
WELL = ["claim", "start", *ROUND, "update", "complete"]


@pytest.fixture
def play(play):
    """As `play`, without an architect; an agent that fails for good parks its step at once."""

    def make(*lines: str, coder: str = ""):
        made = play(*(lines or ("1 t",)))
        cast(made, coder)
        return made

    return make


def cast(play, coder: str = "") -> None:
    """Coder and reviewer; `coder` is what is set for the coder alone."""
    play.cast("reviewer", "coder")
    config = play.root / ".tugtool" / "config.toml"
    state = "[state]\nmax_attempts = 1\nbusy_seconds = 1\n"
    config.write_text(f"{config.read_text()}{coder}\n{state}")


def story(play, step: str) -> list[str]:
    """What the record tells of a step, in order."""
    rows = play.rows("select * from events order by seq")
    told = [row["kind"] for row in rows if row["step_anchor"] == step]
    return [kind for kind in told if kind not in ("heartbeat", "substep_completed")]


def items(play) -> dict[str, str]:
    rows = play.rows("select * from checklist_items order by step_anchor, kind, ordinal")
    return {f"{r['step_anchor']} {r['kind']} {r['ordinal']}": r["status"] for r in rows}


def once(play, line: str, name: str = "post-commit") -> None:
    """A hook of git's that does something the first time it is called."""
    hooks = play.root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    flag = play.root.parent / f"{name}-was-here"
    text = f"#!/bin/sh\nunset GIT_DIR GIT_INDEX_FILE\ntest -e {flag} && exit 0\ntouch {flag}\n"
    (hooks / name).write_text(f"{text}{line}\n")
    (hooks / name).chmod(0o755)


def ended(process) -> tuple[int, list[dict]]:
    out, err = process.communicate(timeout=60)
    assert err == ""
    return process.returncode, events(out)


def names(play, step: str) -> set[str]:
    """The files of a step's only commit."""
    [commit] = play.commits(step)
    return set(git("show", "--name-only", "--format=", commit, cwd=play.root).split())


# All goes well.


@pytest.mark.proof(share=0)
def test_with_one_worker_all_goes_well_and_nothing_else_happens(play):
    play = play("1 tec", "2 t < 1", "3 c < 1")
    status, told = play.run()
    assert status == 0
    assert kinds(told) == [*FIRST, *STEP, *STEP, *STEP, "finished"]
    assert told[-1]["completed_steps"] == told[-1]["total_steps"] == 3
    assert [story(play, f"step-{n}") for n in (1, 2, 3)] == [WELL, WELL, WELL]
    assert set(items(play).values()) == {"completed"}
    assert names(play, "step-2") == {"scripted/step-2.txt", ".tugtool/log.md"}
    aftermath(play, told)


@pytest.mark.proof(share=0)
def test_with_four_workers_all_goes_well_and_each_step_is_done_once(play):
    play = play("1 t", "2 t", "3 t", "4 t", "5 t < 1 2 3 4")
    # Nobody goes on before all four are at work.
    here = [{"write": "{step}", "text": ""}, {"touch": "../../../{step}-here"}]
    wait = [{"wait_for": f"../../../step-{n}-here"} for n in (1, 2, 3, 4)]
    first = [f"step-{n}" for n in (1, 2, 3, 4)]
    play.rules({"role": "coder", "step": first, "do": [*here, *wait]})
    status, told = play.run("--workers", 4)
    assert status == 0
    count = Counter(kinds(told))
    expected = Counter(["started", *["worktree"] * 4, *STEP * 5, "synced", "finished"])
    assert count == expected
    assert [story(play, f"step-{n}") for n in (1, 2, 3, 4, 5)] == [WELL] * 5
    assert len(play.trees()) == 4
    [synced] = [event for event in told if event["event"] == "synced"]
    assert len(synced["steps"]) == 3
    aftermath(play, told)


def test_a_coder_that_tells_less_than_it_did_is_shown_and_not_believed(play):
    play = play("1 tteec", "2 t < 1")
    play.rules({"role": "coder", "step": "step-1", "under_report": 1})
    status, told = play.run()
    assert (status, kinds(told)) == (0, [*FIRST, *STEP, *STEP, "finished"])
    said = [event["message"] for event in told if event["event"] == "coder_reported"]
    assert said == ["Coder reported: 1/2 tasks, 1/2 tests", "Coder reported: 1/1 tasks, 0/0 tests"]
    assert story(play, "step-1") == WELL
    assert set(items(play).values()) == {"completed"}
    aftermath(play, told)


# The reviewer.


def test_two_rounds_of_changes_end_in_one_commit(play):
    play = play("1 t")
    play.rules({"role": "reviewer", "round": [1, 2], "answer": REVISE})
    status, told = play.run()
    assert status == 0
    rounds = [*CODER, *AGENT, "revise"] * 2 + [*CODER, *AGENT]
    assert kinds(told) == [*FIRST, "claimed", *rounds, "completed", "finished"]
    assert story(play, "step-1") == ["claim", "start", *ROUND * 3, "update", "complete"]
    [commit] = play.commits("step-1")
    text = git("show", f"{commit}:scripted/step-1.txt", cwd=play.root)
    assert text == "step-1, round 3\n"
    aftermath(play, told)


@pytest.mark.proof(share=0)
def test_a_fourth_round_is_a_persons_affair_and_the_work_is_saved(play):
    play = play("1 t", "2 t", "3 t < 1")
    play.rules({"role": "reviewer", "step": "step-1", "answer": REVISE})
    status, told = play.run()
    assert status == 1
    rounds = [*CODER, *AGENT, "revise"] * 4
    park = ["escalated", "saved", "parked"]
    assert kinds(told) == [*FIRST, "claimed", *rounds, *park, *STEP, "finished"]
    kept = ["artifact", "release", "salvage"]
    assert story(play, "step-1") == ["claim", "start", *ROUND * 4, *kept]
    assert play.outcomes("step-1") == ["released"]
    assert set(items(play).values()) == {"open", "completed"}
    aftermath(
        play,
        told,
        done=["step-2"],
        parked=["step-1"],
        saved={"step-1": ["scripted/step-1.txt"]},
    )


@pytest.mark.proof(share=0)
def test_checkpoints_of_a_step_and_a_substep_that_nobody_could_verify_are_deferred(play):
    play = play("1 tcc", "1.1 tc", "2 t < 1")
    verdicts = [
        {"step_anchor": "step-1", "kind": "checkpoint", "ordinal": 1, "verdict": "UNVERIFIED"},
        {"step_anchor": "step-1-1", "kind": "checkpoint", "verdict": "UNVERIFIED", "reason": "x"},
    ]
    play.rules({"role": "reviewer", "step": "step-1", "verdicts": verdicts})
    status, told = play.run()
    assert status == 0
    first = [*STEP[:-1], "deferred", "deferred", "completed"]
    assert kinds(told) == [*FIRST, *first, *STEP, "finished"]
    left = [name for name, status in items(play).items() if status == "deferred"]
    assert left == ["step-1 checkpoint 1", "step-1-1 checkpoint 0"]
    assert set(items(play).values()) == {"completed", "deferred"}
    aftermath(play, told)


# The commit succeeds and the state cannot follow.


@pytest.mark.proof(share=0)
def test_open_items_are_closed_as_the_reviewer_said_and_the_step_completed(play):
    play = play("1 tc", "2 t < 1")
    verdict = {"kind": "checkpoint", "ordinal": 0, "verdict": "UNVERIFIED", "reason": "no net"}
    play.rules({"role": "reviewer", "step": "step-1", "verdicts": [verdict]})
    reopen = "state update work step-1 --task 0 open --checkpoint 0 open"
    once(play, f"{TUG} {reopen} > /dev/null")
    status, told = play.run()
    assert status == 0
    first = [*STEP[:-1], "deferred", "warning", "recovered", "completed"]
    assert kinds(told) == [*FIRST, *first, *STEP, "finished"]
    healed = ["update", "update", "complete", "artifact"]
    assert story(play, "step-1") == [*WELL[:-1], *healed]
    assert items(play)["step-1 checkpoint 0"] == "deferred"
    aftermath(play, told)


@pytest.mark.proof(share=0)
def test_a_drifted_plan_parks_the_step_and_its_commit_completes_it_once_it_is_freed(play):
    play = play("1 t", "2 t", "3 t < 1")
    once(play, f"echo Easier. >> {KEY}")
    status, told = play.run()
    assert status == 1
    first = [*STEP[:-1], "warning", "escalated", "saved", "parked"]
    assert kinds(told)[: len(FIRST + first)] == [*FIRST, *first]
    [event] = [each for each in told if each["event"] == "escalated"]
    assert event["state_failure_reason"] == "drift"
    assert event["commit"] == play.commits("step-1")[0]
    left = {"done": ["step-2"], "parked": ["step-1"], "committed": ["step-1"]}
    aftermath(play, told, **left, saved={"step-1": [KEY]})
    play.ok("state", "reset", "work", "step-1")
    before = play.calls()
    status, told = play.run()
    assert (status, play.calls()[len(before) :]) == (0, ["coder step-3 1", "reviewer step-3 1"])
    again = ["claimed", "recovered", "completed"]
    assert kinds(told) == [*FIRST, *again, *STEP, "finished"]
    assert play.outcomes("step-1") == ["released", "completed"]
    aftermath(play, told)


@pytest.mark.proof(share=0)
def test_a_claim_that_is_lost_after_the_commit_does_not_have_the_step_done_again(play):
    play = play("1 tc", "2 t < 1")
    once(play, f"{TUG} state reset work step-1 > /dev/null")
    status, told = play.run()
    assert status == 0
    lost = [*STEP[:-1], "warning", "escalated", "lost"]
    again = ["worktree", "claimed", "recovered", "completed"]
    rest = [kind for kind in kinds(told) if kind not in ("warning", "synced")]
    want = [*FIRST, *lost, *again, *STEP, "finished"]
    assert rest == [kind for kind in want if kind != "warning"]
    [event] = [each for each in told if each["event"] == "escalated"]
    assert event["state_failure_reason"] == "ownership"
    assert play.calls("coder") == ["coder step-1 1", "coder step-2 1"]
    assert play.outcomes("step-1") == ["reset", "completed"]
    aftermath(play, told)


def broken(play) -> str:
    """Nobody can write to the database: its lock is no file any more."""
    lock = play.root / ".tugtool" / "state.lock"
    return f"rm {lock} && mkdir {lock}"


@pytest.mark.proof(share=0)
def test_a_database_that_fails_for_good_ends_the_run_and_the_next_completes_the_commit(play):
    play = play("1 tc", "2 t < 1")
    once(play, broken(play))
    status, told = ended(play.start())
    assert (status, told[-1]["status"]) == (1, "failed")
    [event] = [each for each in told if each["event"] == "escalated"]
    assert event["state_failure_reason"] == "db_error"
    assert kinds(told)[-2:] == ["worker_failed", "finished"]
    # Its claim has died with it, though nobody could write that down.
    assert play.held() == ["step-1"]
    (play.root / ".tugtool" / "state.lock").rmdir()
    before = play.calls()
    status, told = play.run()
    assert (status, play.calls()[len(before) :]) == (0, ["coder step-2 1", "reviewer step-2 1"])
    assert play.outcomes("step-1") == ["completed"]
    aftermath(play, told)


@pytest.mark.proof(share=0)
def test_a_database_that_fails_for_a_while_leaves_nothing_claimed(play):
    play = play("1 t", "2 t", "3 t < 1")
    lock = play.root / ".tugtool" / "state.lock"
    once(play, broken(play))
    # The other worker's agent mends it, once the first has given up on it.
    mend = f"until test -e {play.root}/go; do sleep 0.01; done; rmdir {lock}"
    play.rules(
        {
            "role": "coder",
            "step": "step-2",
            "do": [{"touch": "../../two"}, {"run": mend}, {"write": "two"}],
        },
        {"role": "coder", "step": "step-1", "do": [{"wait_for": "../../two"}, {"write": "one"}]},
    )
    process = play.start("--workers", 2)
    told: list[dict] = []
    while not told or told[-1]["event"] != "worker_failed":
        told += events(process.stdout.readline())
    (play.root / "go").touch()
    status, told = ended(process)
    assert (status, told[-1]["status"]) == (1, "failed")
    left = {"done": ["step-2"], "parked": ["step-1"], "committed": ["step-1"]}
    aftermath(play, **left)
    play.ok("state", "reset", "work", "step-1")
    status, told = play.run()
    assert status == 0
    assert play.calls("coder").count("coder step-1 1") == 1
    aftermath(play, told)


# Agents that misbehave.

HALF = {"write": "half-{step}", "text": "x"}
FAULTS = {
    "hangs": ({"do": [HALF, {"hang": True}]}, "took longer than 1 s"),
    "dies": ({"do": [HALF, {"die": "KILL"}]}, "killed by signal 9"),
    "answers rubbish": ({"do": [HALF], "rubbish": True}, "there is no JSON object"),
    "edits the plan": ({"do": [HALF, {"edit_plan": "\nEasier.\n"}]}, "it changed the plan"),
    "commits and dies": ({"do": [HALF, {"commit": "my own"}, {"die": "KILL"}]}, "signal 9"),
    "finds no room": ({"do": [HALF, {"run": "ulimit -f 0; echo > more"}]}, "ended with status"),
}


#: So long may a coder take that is to be found hanging.
SHORT = "timeout_seconds = 1"


def without(told: list[dict], *noise: str) -> list[str]:
    return [kind for kind in kinds(told) if kind not in noise]


@pytest.mark.parametrize("fault", sampled(FAULTS, 2))
def test_an_agent_that_misbehaves_once_is_run_again_and_the_step_is_done_once(play, fault):
    rule, said = FAULTS[fault]
    # On a busy machine one that does well may take longer than that too, and is tried again.
    play = play("1 t", coder=f"{SHORT}\ntries = 9" if fault == "hangs" else "")
    play.rules({"role": "coder", "try": 1, **rule})
    status, told = play.run()
    assert status == 0
    failed = [each["reason"] for each in told if each["event"] == "agent_failed"]
    assert said in failed[0]
    assert len(failed) == 1 or fault == "hangs"
    tries = FAILED * len(failed)
    assert without(told, "warning") == [*FIRST, "claimed", *tries, *STEP[1:], "finished"]
    assert play.outcomes("step-1") == ["completed"]
    assert {"half-step-1", "scripted/step-1.txt"} <= names(play, "step-1")
    as_agreed(play)
    aftermath(play, told)


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("fault", sampled(reversed(FAULTS), 2))
def test_an_agent_that_always_misbehaves_parks_its_step_and_its_work_is_saved(play, fault):
    rule, said = FAULTS[fault]
    play = play("1 t", coder=f"tries = 1\n{SHORT if fault == 'hangs' else ''}")
    play.rules({"role": "coder", **rule})
    status, told = play.run()
    assert status == 1
    end = ["saved", "failed", "finished"]
    assert without(told, "warning") == [*FIRST, "claimed", *FAILED, *end]
    [left] = told[-1]["left"]
    assert said in left["reason"]
    assert play.outcomes("step-1") == ["failed"]
    as_agreed(play)
    aftermath(play, told, done=[], parked=["step-1"], saved={"step-1": ["half-step-1"]})
    goes_on(play)
    assert {"half-step-1", "scripted/step-1.txt"} <= names(play, "step-1")


def as_agreed(play) -> None:
    """The plan is what it was, and nobody but us has committed."""
    for tree in play.trees():
        assert (tree / KEY).read_text() == play.text
    assert "my own" not in git("log", "--branches", "--format=%s", cwd=play.root)


def goes_on(play) -> None:
    """A person frees the step; the next run, with agents that do well, takes up its work."""
    play.rules()
    cast(play)
    play.ok("state", "reset", "work", "step-1")
    status, told = play.run()
    assert (status, "resumed" in kinds(told)) == (0, True)
    aftermath(play, told)


@pytest.mark.proof(share=0)
def test_an_agent_that_commits_by_itself_has_its_work_in_the_only_commit(play):
    play = play("1 t", "2 t < 1")
    acts = [HALF, {"commit": "my own\n\nTug-Step: step-1"}, {"write": "more"}]
    play.rules({"role": "coder", "step": "step-1", "do": acts})
    status, told = play.run()
    assert status == 0
    first = ["claimed", "agent_started", "warning", "agent_ended", *STEP[3:]]
    assert kinds(told) == [*FIRST, *first, *STEP, "finished"]
    assert {"half-step-1", "more"} <= names(play, "step-1")
    aftermath(play, told)


# Workers, and others, in each other's way.


@pytest.mark.proof(share=0)
def test_two_steps_that_conflict_in_git_are_kept_both_and_the_third_is_parked(play):
    play = play("1 t", "2 t", "3 t < 1 2", "4 t")
    other = {"step-1": "step-2", "step-2": "step-1"}
    acts = [{"write": "code.txt", "text": "{step}\n"}, {"touch": "../../{step}-here"}]
    play.rules(
        *(
            {"role": "coder", "step": step, "do": [*acts, {"wait_for": f"../../{second}-here"}]}
            for step, second in other.items()
        )
    )
    status, told = play.run("--workers", 2)
    assert (status, told[-1]["status"]) == (1, "unfinished")
    [event] = [each for each in told if each["event"] == "escalated"]
    assert (event["step_anchor"], event["files"]) == ("step-3", ["code.txt"])
    assert event["needs"] in other
    # The coder was asked once, and has not resolved it.
    assert play.calls("coder").count("coder step-3 1") == 1
    assert story(play, "step-3")[-1] == "release"
    aftermath(play, told, done=["step-1", "step-2", "step-4"], parked=["step-3"])
    # Both versions are there, each on its own branch.
    texts = {
        git("show", f"{play.commits(step)[0]}:code.txt", cwd=play.root).strip() for step in other
    }
    assert texts == set(other)


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("role", ["coder", "reviewer"])
def test_a_claim_that_is_taken_away_in_mid_work_is_gone_on_with_elsewhere(play, role):
    play = play("1 t", "2 t < 1")
    acts = [{"run": f"cd ../.. && {TUG} state reset work step-1 > /dev/null"}, {"hang": True}]
    before = [HALF] if role == "coder" else []
    play.rules({"role": role, "step": "step-1", "attempt": 1, "do": [*before, *acts]})
    status, told = play.run()
    assert status == 0
    assert kinds(told).count("lost") == 1
    assert kinds(told).count("resumed") == 1
    assert play.outcomes("step-1") == ["reset", "completed"]
    mine = "half-step-1" if role == "coder" else "scripted/step-1.txt"
    assert mine in names(play, "step-1")
    aftermath(play, told, saved={"step-1": [mine]})


# No room left.


#: From now on, no file may grow: as on a full disk, for a process and all that it starts.
FULL = """
import os, resource, sys

def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])

pid = os.getppid()
while sys.argv[1] not in open(f"/proc/{pid}/cmdline").read().split("\\0"):
    pid = parent(pid)
resource.prlimit(pid, resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
"""


def fills_up(play, word: str, most: int = 0) -> str:
    """A command line after which whoever above has that word finds no room for more bytes."""
    script = play.root.parent / "full.py"
    script.write_text(FULL)
    return f"{shlex.quote(sys.executable)} {script} {word} {most}"


@pytest.mark.proof(share=0)
def test_a_commit_that_finds_no_room_parks_the_step_and_its_work_is_saved(play):
    play = play("1 t", "2 t < 1")
    once(play, fills_up(play, "commit"), name="pre-commit")
    status, told = play.run()
    assert status == 1
    end = ["escalated", "saved", "parked", "finished"]
    assert kinds(told) == [*FIRST, *STEP[:-1], *end]
    saved = {"step-1": ["scripted/step-1.txt"]}
    aftermath(play, told, done=[], parked=["step-1"], saved=saved)
    goes_on(play)
    assert "scripted/step-1.txt" in names(play, "step-1")


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("stage", sampled(["coder", "commit", "reviewer"], 2))
def test_a_disk_that_is_full_ends_the_run_and_the_next_goes_on(play, stage):
    play = play("1 tc", "2 t < 1")
    play.cast("coder", "reviewer")
    line = fills_up(play, "implement")
    if stage == "commit":
        once(play, line)
    else:
        acts = [{"write": "mine-{role}", "text": "x"}, {"run": line}]
        play.rules({"role": stage, "attempt": 1, "step": "step-1", "do": acts})
    status, told = ended(play.start())
    assert (status, told[-1]["status"]) == (1, "failed")
    assert kinds(told)[-2:] == ["worker_failed", "finished"]
    assert play.steps() == {"step-1": "in_progress", "step-2": "pending"}
    before = play.calls("coder")
    status, told = play.run()
    assert status == 0
    aftermath(play, told)
    again = ["coder step-1 1"] if stage != "commit" else []
    assert play.calls("coder")[len(before) :] == [*again, "coder step-2 1"]
    if stage != "commit":
        assert f"mine-{stage}" in names(play, "step-1")


@pytest.mark.proof(share=0)
def test_work_for_which_git_has_no_room_stays_where_it_is_and_the_next_run_goes_on_with_it(play):
    play = play("1 t", "2 t")
    # The state has room enough; what the coder made has not.
    line = f"head -c 3000000 /dev/urandom > big && {fills_up(play, 'implement', 2_000_000)}"
    play.rules({"role": "coder", "step": "step-1", "attempt": 1, "do": [{"run": line}]})
    status, told = ended(play.start())
    assert (status, told[-1]["status"]) == (1, "unfinished")
    # What a reviewer finds has to be held first, so that none can change it.
    end = ["escalated", "warning", "parked"]
    # Whoever claims next tries to save it, and says why it cannot.
    other = ["worktree", "claimed", "warning", *STEP[1:]]
    assert kinds(told) == [*FIRST, *STEP[:-2], *end, *other, "finished"]
    aftermath(play, told, done=["step-2"], parked=["step-1"], lying={"step-1": "big"})
    [tree, _] = play.trees()
    whole = (tree / "big").read_bytes()
    play.ok("state", "reset", "work", "step-1")
    status, told = play.run()
    assert (status, kinds(told).count("resumed")) == (0, 1)
    [commit] = play.commits("step-1")
    size = git("cat-file", "-s", f"{commit}:big", cwd=play.root).strip()
    assert int(size) == len(whole) == 3_000_000
    aftermath(play, told)
