"""A run in several worktrees, cut short while git works for it: the next comes to the same end.

What happens between agents happens in git: worktrees are made, commits of others are merged
in, work is committed, everything is brought together. Git is held at such a place by a
program of its name that rings and waits, and then goes on as if nothing had been.
"""

import os
import shutil
import signal

import pytest

from conftest import Repo, git
from implement.test_stop import Bell, Gate, until
from support.implement import Play, events, kinds
from support.implement_aftermath import Record, aftermath
from tugtool.system import crash
from tugtool.workflow.commit import log

#: Whole runs, cut short at every stage; what is left of one is in test_implement_again.py.
pytestmark = pytest.mark.proof(share=0)

LINES = ("1 t", "2 t", "3 tc < 1 2", "4 t")


def made(step: str, *waits: str) -> dict:
    acts = [{"write": f"scripted/{step}.txt", "text": "{step}\n"}, {"touch": f"../../{step}-here"}]
    acts += [{"wait_for": f"../../{each}-here"} for each in waits]
    return {"role": "coder", "step": step, "round": 1, "do": acts}


#: Three steps at once, in three worktrees; one of them is still at work when the last is begun.
RULES = (
    made("step-1", "step-2", "step-4"),
    made("step-2", "step-1", "step-4"),
    made("step-4", "step-1", "step-2", "step-3"),
    made("step-3"),
    {"role": "auditor", "round": 1, "answer": {"recommendation": "REVISE"}},
    {
        "role": "coder",
        "round": 2,
        "do": [{"write": "repaired", "text": "x"}],
        "answer": {"summary": "repaired"},
    },
)


def staged(play: Play) -> Play:
    play.cast("coder", "reviewer", "auditor", "integrator", workers=3)
    play.rules(*RULES)
    play.repo.git("remote", "add", "origin", "https://example.invalid/x.git")
    return play


class Git:
    """A program of git's name that counts its calls; the nth rings, and waits to go on."""

    def __init__(self, play: Play, nth: int = 0) -> None:
        self.bell = Bell(play)
        self.home = play.root.parent / "git"
        self.home.mkdir()
        self.gate = self.home / "gate"
        os.mkfifo(self.gate)
        program = self.home / "git"
        wait = f"echo > {self.bell.path}; read go < {self.gate}"
        program.write_text(
            f"#!/bin/sh\necho >> {self.home}/calls\n"
            f"if test $(wc -l < {self.home}/calls) -ge {nth or 10**6} && "
            f"mkdir {self.home}/once 2> /dev/null; then {wait}; fi\n"
            f'exec {shutil.which("git")} "$@"\n'
        )
        program.chmod(0o755)
        self.path = f"{self.home}{os.pathsep}{os.environ['PATH']}"

    @property
    def calls(self) -> int:
        """How often git was called."""
        return (self.home / "calls").read_bytes().count(b"\n")

    def let_go(self) -> None:
        """The one that waits goes on."""
        self.gate.write_text("on\n")


def outcome(play: Play) -> dict[str, object]:
    """What a plan came to, all of it together; which worktree did what differs from run to run."""
    record = Record(play.root)
    try:
        steps = "select anchor, status, parked_at from steps order by step_index"
        items = "select step_anchor, kind, ordinal, status from checklist_items order by 1, 2, 3"
        state = record.rows(steps), record.rows(items)
    finally:
        record.store.close()
    whole = [tree for tree in play.trees() if (tree / "repaired").exists()]
    [tree] = whole
    lines = git("diff-tree", "-r", "main", "HEAD", cwd=tree).splitlines()
    words = ("rev-list", "--no-merges", "main..HEAD")
    said = [
        git("log", "-1", "--format=%s%n%b", each, cwd=tree).split("Tug-Claim:")[0]
        for each in git(*words, cwd=tree).split()
    ]
    return {
        "state": state,
        "tree": [line for line in lines if not line.endswith(log.PATH)],
        "commits": sorted(said),
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the story comes to when nothing happens to it, and how often it needs git."""
    repo = Repo.init(tmp_path_factory.mktemp("undisturbed") / "repo")
    play = staged(Play(repo, None, None, *LINES))
    git = Git(play)
    process = play.start(PATH=git.path)
    try:
        out, err = process.communicate(timeout=60)
    finally:
        play.end()
    assert (process.returncode, err) == (0, "")
    told = events(out)
    aftermath(play, told)
    assert {"synced", "gathered"} <= set(kinds(told))
    found = outcome(play)
    # Four steps and what the auditor asked for; else it would be no story.
    assert len(found["commits"]) == 5
    return found, git.calls


@pytest.fixture
def play(play):
    return staged(play(*LINES))


def ends_the_same(play: Play, undisturbed) -> None:
    """The next run brings it to the same end, and one more has nothing to do."""
    status, told = play.run()
    assert status == 0, told
    aftermath(play, told)
    assert outcome(play) == undisturbed[0]
    status, told = play.run()
    assert (status, kinds(told)) == (0, ["finished"])


def stopped_cleanly(play: Play, told: list[dict]) -> None:
    done = [step for step, status in play.steps().items() if status == "completed"]
    everything = map(str, play.trees() if len(done) == len(LINES) else ())
    # Of a commit that was interrupted just when it stood, its step is completed by the next run.
    committed = [step for step in play.steps() if step not in done and play.commits(step)]
    aftermath(play, told, done=done, committed=committed, uncommitted=everything)


#: What happens between agents: worktrees are made, commits of others merged in.
POINTS = [p for p in crash.POINTS if p.startswith(("create.", "sync.")) and p != "create.plan"]


@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_is_killed_between_agents_comes_to_the_same_end(play, undisturbed, point):
    process = play.start(TUGCODE_CRASH_AT=point)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (-signal.SIGKILL, "")
    ends_the_same(play, undisturbed)


@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_is_interrupted_between_agents_comes_to_the_same_end(play, undisturbed, point):
    gate = Gate(play, point)
    process = play.start(TUGCODE_CRASH_AT=gate.asked)
    gate.reached(process)
    os.killpg(process.pid, signal.SIGINT)
    if point.startswith("sync."):
        until(process, "stopping")
    gate.let_go()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    if point.startswith("sync."):
        assert events(out)[-1]["status"] == "stopped"
        stopped_cleanly(play, [])
    ends_the_same(play, undisturbed)


#: How a run is cut short while git works for it.
WAYS = ("Ctrl-C", "SIGTERM", "kill -9")
#: When: parts of all that git does in a run.
WHEN = [float(part) for part in os.environ.get("TUG_CUTS", "0.05 0.3 0.55 0.75 0.9").split()]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("part", WHEN)
def test_a_run_that_is_cut_short_while_git_works_comes_to_the_same_end(
    play, undisturbed, part, way
):
    git = Git(play, nth=max(1, round(part * undisturbed[1])))
    process = play.start(PATH=git.path)
    git.bell.heard()
    if way == "SIGTERM":
        # To the run alone: git goes on, and the run stops after it.
        process.send_signal(signal.SIGTERM)
        git.let_go()
    else:
        os.killpg(process.pid, signal.SIGINT if way == "Ctrl-C" else signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    told = events(out)
    if told and told[-1].get("event") == "finished":
        # After the last agent's approval nothing is left that could be stopped.
        if told[-1]["status"] == "done":
            assert (process.returncode, outcome(play)) == (0, undisturbed[0])
            return
        assert told[-1]["status"] == "stopped"
        stopped_cleanly(play, told)
    # Before the first event there is nobody yet who would stop anything in good order.
    by = {"Ctrl-C": (130,), "SIGTERM": (143, -15), "kill -9": (-9,)}[way]
    assert process.returncode in by, (process.returncode, err)
    ends_the_same(play, undisturbed)
