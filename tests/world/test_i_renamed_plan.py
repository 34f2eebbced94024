"""I: a plan renamed in git is the same plan; nothing is done twice."""

import os
from pathlib import Path

from conftest import git
from support.state import KEY
from support.worktree import crashed

NEW = ".tugtool/tugplan-bar.md"
COMMAND = "tugcode move work bar"


def rename(at: Path, new: str = NEW) -> None:
    """Rename the plan in git, as a person does."""
    git("mv", KEY, new, cwd=at)
    git("commit", "--quiet", "--message=Rename the plan", cwd=at)


def test_a_renamed_plan_is_recognised_by_its_text_and_not_done_again(play):
    play = play()
    assert play.run()[0] == 0
    done = play.calls()
    rename(play.root)

    for words in (("implement", "bar"), ("worktree", "create", "bar"), ("state", "init", "bar")):
        refused = play.tugcode(*words)
        issue = refused.envelope()["issues"][-1]
        assert (issue["code"], issue["hint"]) == ("E094", COMMAND), refused.out
    dry = play.tugcode("implement", "bar", "--dry-run")
    assert dry.codes == ["E094"]
    assert play.calls() == done

    seen = play.ok("status")
    assert [plan["plan_path"] for plan in seen["plans"]] == [KEY]
    assert seen["plans"][0]["file"] == "renamed"
    assert [(need["what"], need["command"]) for need in seen["needs_you"]] == [
        ("file_renamed", COMMAND),
        ("unmerged", "tugcode merge work"),
    ]
    checks = {check["name"]: check for check in play.tugcode("doctor").data["checks"]}
    assert [found["hint"] for found in checks["plan-files"]["findings"]] == [COMMAND]
    assert play.ok("state", "prune", "--dry-run")["pruned"] == []

    moved = play.ok("state", "move", "work", "bar")
    assert moved == {
        "plan_path": NEW,
        "moved_from": KEY,
        "changed": True,
        "drift": False,
        "plan_status": "done",
        "total_steps": 2,
        "completed_steps": 2,
    }
    assert play.ok("state", "move", "work", "bar")["changed"] is False
    (need,) = play.ok("status")["needs_you"]
    assert (need["what"], need["command"]) == ("unmerged", "tugcode merge bar")
    assert play.run(plan="bar")[0] == 0
    assert play.calls() == done
    found = play.ok("state", "reconcile", "bar", "--dry-run")
    assert (found["ignored"], found["skipped_count"]) == ([], 0)
    assert play.ok("merge", "bar")["merged"]
    assert play.ok("status")["needs_you"] == []
    assert (play.root / NEW).exists()
    assert not (play.root / KEY).exists()


def test_commits_of_both_names_prove_a_plan(play):
    play = play("1 t", "2 t < 1")
    play.rules({"role": "reviewer", "step": "step-2", "answer": {"recommendation": "ESCALATE"}})
    assert play.run()[0] == 1
    rename(play.root)
    play.ok("state", "move", "work", "bar")
    play.rules()
    play.ok("state", "reset", "bar", "step-2")
    assert play.run(plan="bar")[0] == 0
    out = git("log", "--all", "--format=%(trailers:key=Tug-Plan,valueonly)", cwd=play.root)
    assert set(out.split()) == {KEY, NEW}

    for step in ("step-2", "step-1"):
        play.ok("state", "reopen", "bar", step, "--reason", "what does git know?")
    found = play.ok("state", "reconcile", "bar")
    assert (found["reconciled_count"], found["ignored"]) == (2, [])
    assert play.ok("merge", "bar", "--squash")["merged"]


def test_a_worker_whose_branch_has_the_rename_goes_on_under_the_new_name(yard):
    yard = yard("1", "2 < 1")
    tree = yard.create("--claim")
    Path(tree, "new.txt").write_text("work\n")
    rename(yard.root)
    git("merge", "--quiet", "--no-edit", "main", cwd=tree)

    refused = yard.run("state", "complete", "work", "step-1", at=tree).envelope()["issues"][-1]
    assert (refused["code"], refused["hint"]) == ("E048", COMMAND)
    assert NEW in refused["message"]
    yard.ok("state", "move", KEY, NEW)
    assert yard.ok("state", "heartbeat", "work", "step-1", at=tree)["plan_path"] == NEW
    done = yard.ok("commit", "--plan", "bar", "--step", "step-1", "--message", "Work", at=tree)
    assert done["committed"], done
    assert yard.ok("state", "show", "bar")["steps"][0]["status"] == "completed"


def test_a_worktree_that_still_has_the_old_file_works_on_the_same_plan(yard):
    yard = yard("1", "2 < 1")
    tree = yard.create("--claim")
    rename(yard.root)
    yard.ok("state", "move", "work", "bar")
    for name in ("work", "bar"):
        assert yard.ok("state", "heartbeat", name, "step-1", at=tree)["plan_path"] == NEW


def test_a_plan_is_not_moved_away_from_its_file(yard):
    yard = yard("1", "2 < 1")
    yard.ok("state", "init", "work")
    (yard.root / NEW).write_bytes((yard.root / KEY).read_bytes())
    assert "still there" in yard.refused("E050", "state", "move", "work", "bar")
    (yard.root / NEW).unlink()
    rename(yard.root)
    yard.refused("E041", "state", "move", "work", "nothing")


def test_a_plan_is_not_moved_under_a_run_or_an_unfinished_commit(yard):
    yard = yard("1", "2 < 1")
    tree = yard.create()
    yard.ok("state", "claim", "work", "--holder-pid", os.getpid(), at=tree)
    rename(yard.root)
    assert "by a process" in yard.refused("E050", "state", "move", "work", "bar")
    yard.ok("state", "reset", "work", "step-1")

    yard.ok("state", "claim", "work", at=tree)
    Path(tree, "new.txt").write_text("work\n")
    crashed(
        tree, "commit.intent", "commit", "--plan", "work", "--step", "step-1", "--message", "Work"
    )
    assert "middle of a commit" in yard.refused("E050", "state", "move", "work", "bar")
