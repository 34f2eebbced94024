"""A plan is carried out by scripted agents: what goes well, and what is said of it."""

import json
import os
import shutil
from collections import Counter

import pytest

from conftest import git
from support.implement import ACTOR, kinds
from tugtool.errors.git import NotMade
from tugtool.workflow.worktree import build


@pytest.mark.parametrize("workers", [1, 4])
def test_a_plan_is_carried_out_to_its_end(play, workers):
    play = play("1 tec", "2 t < 1", "3 c < 1", "4 t < 2 3")
    play.cast("coder", "reviewer")
    status, told = play.run("--workers", workers)
    assert (status, told[-1]["status"], told[-1]["left"]) == (0, "done", [])
    play.finished()
    assert len(play.calls("coder")) == len(play.calls("reviewer")) == 4


def test_agents_come_in_their_order_and_leave_their_notes(play):
    play = play("1 tec")
    status, told = play.run()
    assert status == 0
    assert play.calls() == ["architect step-1 1", "coder step-1 1", "reviewer step-1 1"]
    [strategy], [verdict] = play.artifacts("architect_strategy"), play.artifacts("reviewer_verdict")
    assert strategy["summary"] == "as scripted"
    assert json.loads(strategy["content"])["test_plan"] == "run the checkpoints"
    assert json.loads(verdict["content"])["recommendation"] == "APPROVE"
    [said] = [event["message"] for event in told if event["event"] == "coder_reported"]
    assert said == "Coder reported: 1/1 tasks, 1/1 tests"


def test_a_run_never_works_in_the_main_worktree(play):
    play = play("1 t")
    play.run()
    assert git("status", "--porcelain", cwd=play.root) == "?? .tugtool/config.toml\n"
    assert not (play.root / "scripted").exists()
    [tree] = play.trees()
    assert (tree / "scripted" / "step-1.txt").exists()


def test_a_coder_that_tells_less_than_it_did_changes_nothing_about_the_state(play):
    play = play("1 tteec")
    play.cast("coder", "reviewer")
    play.rules({"role": "coder", "under_report": 1})
    status, told = play.run()
    assert status == 0
    [said] = [event["message"] for event in told if event["event"] == "coder_reported"]
    assert said == "Coder reported: 1/2 tasks, 1/2 tests"
    assert {row["status"] for row in play.rows("select * from checklist_items")} == {"completed"}


def test_a_step_is_done_on_top_of_what_it_depends_on(play):
    play = play("1 t", "2 t", "3 t < 1 2")
    play.cast("coder", "reviewer")
    # The third would fail if what the other two made were not there.
    look = {"run": "test -f scripted/step-1.txt && test -f scripted/step-2.txt"}
    play.rules({"role": "coder", "step": "step-3", "do": [look]})
    status, _ = play.run("--workers", 2)
    assert status == 0
    play.finished()


def test_unverified_checkpoints_of_a_step_and_a_substep_are_left_to_a_person(play):
    play = play("1 tcc", "1.1 tc", "2 t < 1")
    play.cast("coder", "reviewer")
    verdicts = [
        {"step_anchor": "step-1", "kind": "checkpoint", "ordinal": 1, "verdict": "UNVERIFIED"},
        {"step_anchor": "step-1-1", "kind": "checkpoint", "verdict": "BLOCKED", "reason": "no net"},
    ]
    play.rules({"role": "reviewer", "step": "step-1", "verdicts": verdicts})
    status, told = play.run()
    assert status == 0
    rows = play.rows("select * from checklist_items where status = 'deferred' order by step_anchor")
    left = [(row["step_anchor"], row["ordinal"], row["reason"]) for row in rows]
    assert left == [
        ("step-1", 1, "the reviewer says UNVERIFIED"),
        ("step-1-1", 0, "no net"),
    ]
    assert [event["item"] for event in told if event["event"] == "deferred"] == [
        "step-1 checkpoint 1",
        "step-1-1 checkpoint 0",
    ]
    play.finished()


def test_the_commit_says_what_the_plan_and_the_coder_say(play):
    play = play("1 t")
    play.cast("coder", "reviewer")
    play.run()
    [commit] = play.commits("step-1")
    message = git("log", "-1", "--format=%B", commit, cwd=play.root)
    assert message.startswith("step-1: Part 1\n\nstep-1: done as scripted\n")


@pytest.mark.parametrize(
    ("line", "subject"),
    [("`feat: a shelf`", "feat: a shelf"), ("N/A (verification only)", "step-1: Part 1")],
)
def test_the_plan_s_line_for_the_commit_counts_unless_it_says_that_there_is_none(
    play, line, subject
):
    play = play("1 t")
    play.repo.plan("work", f"{play.text}\n**Commit:** {line}\n")
    play.repo.commit()
    play.cast("coder", "reviewer")
    assert play.run()[0] == 0
    [commit] = play.commits("step-1")
    assert git("log", "-1", "--format=%s", commit, cwd=play.root) == f"{subject}\n"


def test_a_summary_with_trailers_of_ours_is_no_message(play):
    play = play("1 t")
    play.cast("coder", "reviewer")
    play.rules({"role": "coder", "answer": {"summary": "x\n\nTug-Step: step-9"}})
    status, _ = play.run()
    assert status == 0
    play.finished()


def test_tokens_are_kept_with_the_attempt(play):
    play = play("1 t")
    play.cast("coder", "reviewer")
    play.rules(
        {"role": "coder", "as": "claude", "usage": {"tokens": 100, "cost_usd": 0.5}},
        {"role": "reviewer", "usage": {"tokens": 11}},
    )
    status, told = play.run()
    assert (status, told[-1]["tokens"]) == (0, 111)
    [attempt] = play.rows("select * from attempts")
    assert (attempt["tokens"], attempt["cost_microdollars"]) == (111, 500_000)
    assert play.ok("state", "stats", "work")["plans"][0]["tokens"] == 111


def test_a_used_up_budget_begins_no_further_step(play):
    play = play("1 t", "2 t < 1")
    play.cast("coder", "reviewer", budget_tokens=50)
    play.rules({"role": "coder", "usage": {"tokens": 60}})
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "budget")
    assert [each["step_anchor"] for each in told[-1]["left"]] == ["step-2"]
    assert play.steps() == {"step-1": "completed", "step-2": "pending"}
    play.cast("coder", "reviewer", budget_tokens=1000)
    assert play.run()[0] == 0
    play.finished()


def test_a_paused_plan_is_not_begun(play):
    play = play("1 t", "2 t")
    play.cast("coder", "reviewer")
    play.ok("state", "init", "work")
    play.ok("state", "pause", "work")
    status, told = play.run()
    assert (status, told[-1]["status"], play.calls()) == (1, "paused", [])
    play.ok("state", "resume", "work")
    assert play.run()[0] == 0


def test_a_plan_that_is_done_starts_nobody(play):
    play = play("1 t")
    play.cast("coder", "reviewer", "auditor")
    assert play.run()[0] == 0
    before = play.calls()
    status, told = play.run()
    assert (status, kinds(told), play.calls()) == (0, ["finished"], before)


def test_a_run_needs_a_coder_and_a_reviewer(play):
    play = play("1 t")
    play.cast("coder")
    done = play.tugcode("implement", "work")
    assert (done.status, done.codes) == (1, ["E071"])
    assert "[agents.reviewer]" in done.envelope()["issues"][0]["message"]
    assert not (play.root / ".tugtool" / "state.db").exists()


def test_a_plan_that_is_not_committed_is_refused_before_anything_is_begun(play):
    play = play("1 t")
    play.repo.plan("work", play.text + "\nMore.\n")
    done = play.tugcode("implement", "work")
    assert (done.status, done.codes) == (1, ["E045"])
    assert play.calls() == []


def test_a_dry_run_changes_nothing_and_tells_all(play):
    play = play("1 t", "2 t < 1")
    play.cast("coder", "reviewer", more='env = { SECRET = "x" }')
    before = git("status", "--porcelain", "--ignored", cwd=play.root)
    data = play.ok("implement", "work", "--dry-run", "--workers", 3)
    assert git("status", "--porcelain", "--ignored", cwd=play.root) == before
    agents = {agent["role"]: agent for agent in data["agents"]}
    assert agents["architect"]["command"] is None
    assert agents["coder"]["command"] == [*ACTOR, str(play.script)]
    assert (agents["coder"]["tries"], agents["coder"]["env"]) == (2, ["SECRET"])
    assert [step["step_anchor"] for step in data["todo"]] == ["step-1", "step-2"]
    assert (data["reused_worktrees"], data["new_worktrees"]) == ([], 2)


@pytest.mark.parametrize("number", [0, -1, 65, 10_000])
def test_so_many_workers_are_refused_wherever_they_are_asked_for(play, number):
    play = play("1 t")
    assert play.tugcode("implement", "work", "--workers", number).codes == ["E070"]
    play.cast("coder", "reviewer", workers=number)
    done = play.tugcode("implement", "work")
    assert (done.status, done.codes) == (1, ["E071"])
    assert "implement.workers" in done.envelope()["issues"][0]["message"]
    assert play.calls() == []
    # Whoever says how many does not care what is set.
    if number > 0:
        assert play.ok("implement", "work", "--dry-run", "--workers", 2)["workers"] == 2


def test_a_dry_run_tells_people_of_the_budget(play):
    play = play("1 t")
    words = ("-C", play.root, "implement", "work", "--dry-run")
    assert "budget" not in play._tugcode(*words).out
    play.cast("coder", "reviewer", budget_tokens=77)
    assert "3 review rounds, a budget of 77 tokens\n" in play._tugcode(*words).out


def test_a_dry_run_knows_what_is_there(play):
    play = play("1 t", "2 t < 1")
    play.cast("coder", "reviewer", budget_tokens=1)
    play.rules({"usage": {"tokens": 1}})
    play.run()
    data = play.ok("implement", "work", "--dry-run")
    assert [(step["step_anchor"], step["status"]) for step in data["todo"]] == [("step-2", "ready")]
    assert (data["reused_worktrees"], data["new_worktrees"]) == ([str(play.trees()[0])], 0)


def test_the_text_of_a_run_names_every_step(play):
    play = play("1 t", "2 t < 1")
    done = play._tugcode("-C", play.root, "implement", "work")
    assert done.status == 0
    assert "step-1  worker 1: coder starts\n" in done.out
    assert "done: 2 of 2 steps: next: tugcode merge " in done.out.splitlines()[-1]


def test_agents_know_who_they_are(play):
    play = play("1 t")
    play.cast("coder", "reviewer")
    line = "echo $TUGCODE_ROLE $TUGCODE_PLAN $TUGCODE_STEP $TUGCODE_ATTEMPT $TUGCODE_WORKTREE"
    play.rules({"role": "coder", "do": [{"run": f"{line} > seen"}]})
    play.run()
    [tree] = play.trees()
    seen = (tree / "seen").read_text().split()
    assert seen == ["coder", ".tugtool/tugplan-work.md", "step-1", "1", str(tree)]


def test_workers_for_whom_there_is_no_step_make_no_worktree(play):
    play = play("1 t", "2 t < 1", "3 t < 2")
    play.cast("coder", "reviewer")
    assert play.run("--workers", 4)[0] == 0
    play.finished()
    # One, unless another looked just when the first was between two steps.
    assert len(play.trees()) < 3


@pytest.fixture
def started(play, tmp_path, monkeypatch):
    """Every git that is started from now on, as the words it was given."""
    real, log = shutil.which("git"), tmp_path / "gits"
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho "$*" >>"{log}"\nexec "{real}" "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")

    def read() -> list[str]:
        found = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        # Of git's own children we know nothing: they are started by their whole path.
        return found

    return read


def test_a_step_starts_nine_gits(play, started):
    """Each is a process, and what a run costs is the number of them."""
    lines = ("1", "2", "3", "4")
    play = play(*lines, "5 < 1 2 3 4")
    play.cast("coder", "reviewer")
    assert play.run("--workers", 1)[0] == 0
    own = [line for line in started() if "/.tugtree/" in line.partition(" -C ")[2]]
    steps = len(lines) + 1
    # Beside them, what is looked at once for the whole worktree.
    counts = Counter(line.partition(" -C ")[2].split()[1] for line in own)
    # The scripted summary looks like a trailer: only then git is asked about the message.
    assert counts.pop("interpret-trailers") == steps
    # A listing, an add and a status hold what is there, while the reviewer looks, and show that it
    # stays. A status looks for repositories inside, a listing names what git ignores.
    assert counts.total() <= 9 * steps + 3, counts
    assert (counts["commit"], counts["add"], counts["merge"]) == (steps, 2 * steps, 0)


def test_worktrees_that_are_needed_at_once_are_made_in_one_go(play, started):
    play = play("1", "2", "3", "4 < 1 2 3")
    play.cast("coder", "reviewer")
    status, told = play.run("--workers", 3)
    assert status == 0
    made = [each for each in told if each["event"] == "worktree"]
    assert len(made) == len(play.trees()) == 3
    gits = started()
    assert sum(" worktree list " in line for line in gits) <= 1, gits
    assert sum(" update-ref " in line and "--stdin" in line for line in gits) == 1
    play.finished(told)


def test_where_there_is_room_for_one_worktree_the_run_goes_on_with_it(play, monkeypatch):
    play = play("1", "2", "3")
    made = []

    def failing(repo, path, branch):
        made.append(path)
        if len(made) > 1 and len(made) != 3:
            raise NotMade(path, reason="the disk is full")
        directory(repo, path, branch)

    directory = build.directory
    monkeypatch.setattr(build, "directory", failing)
    told = play.run("--workers", 3)[1]
    assert set(play.steps().values()) == {"completed"}
    assert len(play.trees()) == 1
    assert [each["event"] for each in told].count("completed") == 3
