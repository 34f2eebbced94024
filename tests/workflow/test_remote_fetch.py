"""Commits of other machines are fetched where they are needed: by claim, sync, merge, salvage."""

import os
import shutil
from pathlib import Path

from workflow.test_remote import fleet
from workflow.test_shared_record import url

__all__ = ["fleet", "url"]


def test_a_claim_and_a_sync_fetch_the_branch_of_a_dependency_and_no_other(fleet):
    team = fleet("1 t", "2 t", "3 t < 1")
    till, kiosk = team.start("till", "kiosk")
    path, _, done = till.step()
    till.step()
    other = till.git("for-each-ref", "--format=%(refname:short)", "refs/heads/tugplan").split()
    made = kiosk.data("worktree", "create", "work", "--claim", "--step", "step-3")
    (missing,) = made["claim"]["missing_commits"]
    assert missing["commit"] == done.data["commit_hash"]
    assert missing["worktree"] == f"till:{path}"
    there = made["worktree_path"]
    fetched = kiosk.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/remotes/origin")
    assert missing["branch"] in fetched.split()
    (unneeded,) = set(other) - {missing["branch"]}
    assert unneeded not in fetched.split()
    assert kiosk.data("worktree", "sync", "work", at=there)["merged"] == [missing]
    assert (Path(there) / "step-1.txt").read_text() == "step-1 by till\n"


def test_a_commit_that_cannot_be_had_is_named_with_its_machine_and_a_command_that_helps(fleet):
    team = fleet("1 t", "2 t < 1")
    till, kiosk = team.start("till", "kiosk")
    till.step()
    os.rename(team.bare, f"{team.bare}.away")
    made = kiosk.data("worktree", "create", "work", "--claim")
    assert len(made["claim"]["missing_commits"]) == 1
    refused = kiosk.run("worktree", "sync", "work", "--json", at=made["worktree_path"])
    assert refused.codes == ["E061"]
    (issue,) = refused.envelope()["issues"]
    assert "it was made on till, and this clone does not have it" in issue["message"]
    assert "there is no such repository" in issue["message"]
    assert issue["hint"] == "tugcode worktree sync work"
    os.rename(f"{team.bare}.away", team.bare)
    assert len(kiosk.data("worktree", "sync", "work", at=made["worktree_path"])["merged"]) == 1


def test_a_branch_that_was_rewritten_at_the_remote_is_said_and_published_again(fleet):
    team = fleet("1 t", "2 t < 1")
    till, kiosk = team.start("till", "kiosk")
    path, _, _ = till.step()
    branch = till.git("branch", "--show-current", at=path).strip()
    till.git("push", "--quiet", "--force", "origin", f"main:{branch}")
    made = kiosk.data("worktree", "create", "work", "--claim")
    refused = kiosk.run("worktree", "sync", "work", "--json", at=made["worktree_path"])
    assert refused.codes == ["E061"]
    assert "origin no longer has it on its branch" in refused.out
    till.data("worktree", "publish")
    assert kiosk.data("worktree", "sync", "work", at=made["worktree_path"])["merged"]


def test_without_a_remote_the_hints_name_the_branch_to_fetch(fleet):
    team = fleet("1 t", "2 t < 1", settings='[state]\nrepository = "team/shop"\n')
    till, kiosk = team.start("till", "kiosk")
    path, _, _ = till.step()
    branch = till.git("branch", "--show-current", at=path).strip()
    made = kiosk.data("worktree", "create", "work", "--claim")
    refused = kiosk.run("worktree", "sync", "work", "--json", at=made["worktree_path"])
    assert refused.codes == ["E061"]
    assert refused.envelope()["issues"][0]["hint"] == f"git fetch origin {branch}"
    till.git("push", "--quiet", "origin", branch)
    kiosk.git("fetch", "--quiet", "origin", branch)
    kiosk.data("worktree", "sync", "work", at=made["worktree_path"])
    kiosk.work(made["worktree_path"], "step-2")
    refused = till.run("merge", "work", "--json")
    assert refused.codes == ["E062"]
    assert "does not have the commits of step-2 (made on kiosk)" in refused.out
    other = kiosk.git("branch", "--show-current", at=made["worktree_path"]).strip()
    assert refused.envelope()["issues"][0]["hint"] == f"git fetch origin {other}"


def test_a_plan_of_two_machines_is_merged_on_one_and_pushed_when_asked(fleet):
    team = fleet("1 t", "2 t", "3 t < 1 2")
    till, kiosk = team.start("till", "kiosk")
    till.step()
    kiosk.step()
    kiosk.step()
    before = team.tip("main")
    dry = till.data("merge", "work", "--dry-run")
    assert {tuple(part["steps"]) for part in dry["branches"]} == {
        ("step-1",),
        ("step-2",),
        ("step-3",),
    }
    assert till.data("merge", "work")["merged"]
    assert team.tip("main") == before
    again = till.data("merge", "work", "--push")
    assert (again["pushed"], team.tip("main")) == (True, till.git("rev-parse", "main").strip())
    assert "the remote has main already" in till.run("merge", "work", "--push").out
    names = till.git("ls-tree", "--name-only", "main").split()
    assert {"step-1.txt", "step-2.txt", "step-3.txt"} <= set(names)
    # What lies on the kiosk goes there, when it has the merge.
    assert len(till.data("worktree", "list")["worktrees"]) == 2
    kiosk.git("pull", "--quiet", "--ff-only", "origin", "main")
    assert len(kiosk.data("worktree", "cleanup")["removed"]) == 2
    assert till.data("worktree", "list")["worktrees"] == []


def test_a_base_branch_that_is_ahead_at_the_remote_is_never_overwritten(fleet):
    team = fleet("1 t")
    till, kiosk = team.start("till", "kiosk")
    till.step()
    kiosk.git("commit", "--quiet", "--allow-empty", "--message=theirs")
    kiosk.git("push", "--quiet", "origin", "main")
    theirs = team.tip("main")
    refused = till.run("merge", "work", "--push", "--json")
    assert refused.codes == ["E062"]
    assert refused.envelope()["issues"][0]["hint"] == "git pull --ff-only origin main"
    till.git("pull", "--quiet", "--ff-only", "origin", "main")
    team.hook("test $(cat | grep -c refs/heads/main) = 0")
    done = till.run("merge", "work", "--push", "--json")
    assert (done.status, done.codes) == (1, ["E038"])
    assert (done.data["merged"], done.data["pushed"]) == (True, False)
    assert done.envelope()["issues"][0]["hint"] == "tugcode merge work --push"
    assert team.tip("main") == theirs
    shutil.rmtree(team.bare / "hooks")
    assert till.data("merge", "work", "--push")["pushed"]


def test_saved_work_travels_and_what_was_not_saved_is_said(fleet):
    team = fleet("1 t", "2 t")
    till, kiosk = team.start("till", "kiosk")
    made = till.data("worktree", "create", "work", "--claim")
    (Path(made["worktree_path"]) / "draft.txt").write_text("half\n")
    # A person at the kiosk takes the step: the till has not saved its work yet.
    kiosk.data("reset", "work", "step-1")
    taken = kiosk.run("worktree", "create", "work", "--claim", "--step", "step-1", "--json")
    assert taken.codes == ["W171"]
    assert "is only on till, where the next command saves it" in taken.out
    kiosk.data("release", "work", "step-1", at=taken.data["worktree_path"])
    # The next command on the till saves it, and pushes it.
    till.run("claim", "work", "--step", "step-2", at=made["worktree_path"])
    again = kiosk.run("claim", "work", "--step", "step-1", "--json", at=taken.data["worktree_path"])
    assert again.status == 0, again.out
    refs = again.data["previous_attempt"]["salvage_refs"]
    assert len(refs) == 1
    kiosk.data("worktree", "salvage", "apply", refs[0], at=taken.data["worktree_path"])
    assert (Path(taken.data["worktree_path"]) / "draft.txt").read_text() == "half\n"


def test_no_branch_is_chosen_that_another_machine_or_the_remote_has(fleet):
    team = fleet("1 t", "2 t", "3 t")
    till, kiosk = team.start("till", "kiosk")
    names = [m.data("worktree", "create", "work", "--new")["branch_name"] for m in (till, kiosk)]
    assert len(set(names)) == 2
    # The remote keeps the branch of a worktree that is gone.
    third = f"{names[0]}-3"
    kiosk.git("push", "--quiet", "origin", f"main:{third}")
    assert kiosk.data("worktree", "create", "work", "--new")["branch_name"] == f"{names[0]}-4"
