"""Plans, claims, unsaved work, worktrees, directories and branches: each broken and named."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Repo, git
from support.doctor import Clinic
from support.state import KEY, markdown
from support.worktree import process

# -- plans -----------------------------------------------------------------------------


def test_a_plan_whose_file_is_nowhere_is_named(clinic):
    c = clinic()
    c.repo.plan("brief", markdown("1"))
    c.ok("state", "init", "brief")
    assert c.findings() == {}
    (c.root / ".tugtool" / "tugplan-brief.md").unlink()
    finding = c.one("plan-files")
    said = "tugplan-brief.md is recorded, and its file is on no branch and in no worktree"
    assert said in finding["message"]
    assert finding["hint"] == "tugcode prune --dry-run"
    c.ok("state", "prune")
    assert c.findings() == {}


def test_a_plan_whose_file_was_deleted_in_the_main_worktree_is_named(clinic):
    c = clinic()
    c.plan.unlink()
    finding = c.one("plan-files")
    assert finding["severity"] == "warning"
    assert f"{KEY} is being carried out, and its file is not in {c.root}" in finding["message"]
    assert finding["hint"] == f"git -C {c.root} status --short -- {KEY}"
    c.repo.git("restore", KEY)
    assert c.findings() == {}
    c.plan.unlink()
    for number in (1, 2, 3):
        c.do(c.tree, f"step-{number}", {f"{number}": "x"})
    assert "plan-files" not in c.findings()


def test_a_plan_whose_file_is_on_other_branches_only_is_a_note(clinic):
    c = clinic()
    c.repo.git("rm", "--quiet", KEY)
    c.repo.git("commit", "--quiet", "--message=elsewhere")
    finding = c.one("plan-files")
    assert finding["severity"] == "note"
    assert finding["hint"] == f"git log --all --oneline -- {KEY}"


def test_a_plan_whose_text_was_changed_is_named_wherever_that_was(clinic):
    c = clinic()
    text = c.plan.read_text()
    c.plan.write_text(text + "\nmore\n")
    finding = c.one("plan-texts")
    assert finding["message"].startswith(f"{KEY} was changed since")
    assert finding["hint"] == "tugcode diff work"
    c.plan.write_text(text)
    assert c.findings() == {}
    c.ok("state", "claim", "work", at=c.tree)
    (c.tree / KEY).write_text(text + "\nmore\n")
    finding = c.one("plan-texts")
    assert f"{KEY} in {c.tree} was changed" in finding["message"]
    assert finding["hint"] == f"tugcode diff work --worktree {c.tree}"


def done_plan(c: Clinic) -> None:
    for number in (1, 2, 3):
        c.do(c.tree, f"step-{number}", {f"{number}": "x"})


@pytest.mark.proof(share=0)
def test_a_plan_that_is_done_and_not_merged_is_a_note(clinic):
    c = clinic()
    done_plan(c)
    finding = c.one("merging")
    assert finding["message"] == f"{KEY} is done, and not merged"
    assert finding["severity"] == "note"
    assert c.doctor().status == 0
    # Its text no longer matters to anybody who works.
    c.plan.write_text("changed")
    c.one("merging")
    c.repo.git("checkout", "--quiet", "--", KEY)
    c.ok("merge", "work")
    assert c.findings() == {}


def test_a_branch_that_has_landed_before_its_plan_is_done_is_a_note(clinic):
    c = clinic()
    c.do(c.tree, "step-1", {"one": "1"})
    branch = git("symbolic-ref", "--short", "HEAD", cwd=c.tree).strip()
    c.repo.git("merge", "--quiet", branch)
    finding = c.one("merging")
    assert finding["message"] == f"{branch} is on main, and {KEY} is not done"
    assert finding["hint"] == "tugcode reconcile work --dry-run"
    assert finding["severity"] == "note"


# -- claims ----------------------------------------------------------------------------


def test_a_lease_that_has_run_out_is_a_note_and_stays_to_be_taken_over(clinic):
    c = clinic()
    c.ok("state", "claim", "work", "--lease-duration", "0.001", at=c.tree)
    before = c.dump()
    finding = c.one("claims", "--fix")
    assert finding["severity"] == "note"
    assert f"step-1 of {KEY} is held by {c.tree}, whose lease ran out at " in finding["message"]
    assert finding["hint"] == "tugcode why work step-1"
    assert c.doctor().status == 0
    assert c.dump() == before


def test_a_holder_whose_process_is_gone_is_a_note(clinic):
    c = clinic()
    ended = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    c.ok("state", "claim", "work", "--holder-pid", ended.pid, at=c.tree)
    assert c.findings() == {}
    ended.communicate()
    finding = c.one("claims")
    assert "whose process is gone; the next claim takes it" in finding["message"]
    assert finding["severity"] == "note"


def test_a_live_claim_of_a_worktree_that_is_gone_is_named(clinic):
    c = clinic()
    c.ok("state", "claim", "work", "--worktree", "no/where")
    finding = c.one("claims")
    assert finding["severity"] == "warning"
    assert (
        "a worktree that is not there; no other worker can claim it before 2" in finding["message"]
    )
    assert not finding["fixable"]
    # Whatever it is, somebody may be at work there.
    (c.root / "no" / "where").mkdir(parents=True)
    assert c.findings() == {}


def test_a_parked_step_is_named(clinic):
    c = clinic()
    c.ok("state", "claim", "work", at=c.tree)
    c.ok("state", "release", "work", "step-1", "--park", "--reason", "who knows?", at=c.tree)
    finding = c.one("parked")
    assert finding["message"] == f"step-1 of {KEY} is parked: who knows?"
    assert finding["hint"] == "tugcode review work"
    assert c.doctor().status == 1


def test_a_step_on_its_last_attempt_is_parked_only_once_that_is_lost_and_told_once(clinic):
    c = clinic()
    (c.root / ".tugtool" / "config.toml").write_text("[state]\nmax_attempts = 1\n")
    ended = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    c.ok("state", "claim", "work", "--holder-pid", ended.pid, at=c.tree)
    assert c.findings() == {}
    ended.communicate()
    assert set(c.findings()) == {"parked"}
    assert c.one("parked")["message"].endswith("is parked: 1 claim without progress")
    status = c._tugcode("-C", c.root, "status").out
    assert "  ‖ 1  Part 1  waits for you: 1 claim without progress\n" in status
    assert status.count("Part 1") == 1, status
    assert status.startswith("repo  1 plan · 0 at work · 1 for you\n"), status


def test_a_done_plan_that_was_not_approved_is_told(clinic):
    c = clinic("1 t")
    c.ok("state", "claim", "work", at=c.tree)
    c.ok("state", "complete", "work", "step-1", "--force", "--reason", "x", at=c.tree)
    said = ("--kind", "auditor_summary", "--summary", "ESCALATE: who pays?")
    c.ok("state", "artifact", "work", "step-1", *said, at=c.tree)
    finding = c.one("merging")
    assert finding["message"].endswith("is done, and not merged, nor approved: ESCALATE: who pays?")
    assert (finding["severity"], finding["hint"]) == ("note", "tugcode review work")
    [need] = c.ok("status")["needs_you"]
    assert (need["what"], need["command"]) == ("audit", "tugcode review work")
    assert "work: done, but not approved as a whole" in c._tugcode("-C", c.root, "status").out
    review = c._tugcode("-C", c.root, "state", "review").out
    assert "? work waits for you: every step is done, and the whole is not approved\n" in review


# -- work that is not saved ------------------------------------------------------------


def displaced(c: Clinic) -> None:
    """The step is taken away, and whoever took it dies before it has saved what lies there."""
    c.ok("state", "claim", "work", at=c.tree)
    Repo(c.tree).write({"loose": "x"})
    dying = process(c.root, "state", "reset", "work", "step-1", TUGCODE_CRASH_AT="salvage.taken")
    dying.communicate()
    assert dying.returncode == -9


def test_work_of_a_displaced_attempt_that_was_not_saved_is_named(clinic):
    c = clinic()
    displaced(c)
    finding = c.findings()["unsaved"][0]
    said = f"what attempt 1 at step-1 of {KEY} left in {c.tree} was not saved yet"
    assert finding["message"] == said
    assert finding["severity"] == "warning"


def test_fix_saves_it(clinic):
    c = clinic()
    displaced(c)
    finding = c.findings("--fix")["unsaved"][0]
    (ref,) = [ref for ref in c.refs() if ref.startswith("refs/tug/salvage/")]
    assert (finding["outcome"], finding["fixed"]) == (f"saved as {ref}", True)
    assert c.repo.git("show", f"{ref}:loose") == "x"
    assert "unsaved" not in c.findings()


def test_fix_finds_nothing_to_save_where_the_work_is_gone(clinic):
    c = clinic()
    displaced(c)
    (c.tree / "loose").unlink()
    finding = c.findings("--fix")["unsaved"][0]
    assert (finding["outcome"], finding["fixed"]) == ("there was nothing to save", True)


def test_what_cannot_be_saved_is_named_again_with_the_reason(clinic):
    c = clinic()
    displaced(c)
    hook = c.root / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ncase $(cat) in *refs/tug/*) exit 1;; esac\n")
    hook.chmod(0o755)
    finding = c.findings("--fix")["unsaved"][0]
    assert finding["outcome"].startswith("not done: ")
    assert "aborted by hook" in finding["outcome"]
    assert not finding["fixed"]
    assert (c.tree / "loose").read_text() == "x"


def test_uncommitted_files_that_belong_to_no_step_are_named(clinic):
    c = clinic()
    Repo(c.tree).write({"loose": "x"})
    # It is reserved for whoever asked for it.
    assert c.findings() == {}
    c.free(c.tree)
    finding = c.one("uncommitted")
    assert finding["message"] == f"{c.tree} holds no step, and has uncommitted files: loose"
    assert finding["hint"] == f"git -C {c.tree} status"
    c.ok("state", "claim", "work", at=c.tree)
    assert c.findings() == {}


# -- worktrees -------------------------------------------------------------------------


def test_a_recorded_worktree_that_is_gone_is_named(clinic):
    c = clinic()
    shutil.rmtree(c.tree)
    finding = c.one("worktrees", "--fix")
    gone = f"{c.tree} is recorded for {KEY}, and its directory is gone"
    assert finding["message"] == f"{gone}, unless it is on a disk that is not mounted"
    assert finding["hint"] == f"tugcode worktree remove {c.tree.name}"
    c.ok("worktree", "remove", c.tree.name)
    assert c.findings() == {}


def test_one_that_is_gone_and_holds_a_step_goes_by_the_command_that_is_named(clinic, tugcode):
    c = clinic()
    c.ok("state", "claim", "work", at=c.tree)
    assert "E034" in c.run("worktree", "remove", c.tree.name).codes
    shutil.rmtree(c.tree)
    (need,) = c.ok("status")["needs_you"]
    command = f"tugcode worktree remove {c.tree.name}"
    assert (need["what"], need["count"], need["command"]) == ("worktree_gone", 1, command)
    assert "work: 1 step is in a lost worktree" in tugcode("-C", c.root, "status").out
    (finding,) = c.findings()["worktrees"]
    assert finding["hint"] == command
    data = c.ok("worktree", "remove", c.tree.name)
    assert data["released"] == [{"plan_path": KEY, "step_anchor": "step-1"}]
    assert c.findings() == {}
    assert c.ok("status")["needs_you"] == []


def test_one_that_is_gone_and_has_commits_that_have_not_landed_stays(clinic):
    c = clinic()
    c.ok("state", "claim", "work", at=c.tree)
    c.commit(c.tree, {"one": "1"})
    shutil.rmtree(c.tree)
    done = c.run("worktree", "remove", c.tree.name)
    assert done.codes == ["E034"]
    (issue,) = done.envelope()["issues"]
    assert "1 commit of" in issue["message"]
    assert "it holds" not in issue["message"]
    assert c.rows("select anchor from steps where claimed_by is not null")


def test_a_recorded_worktree_that_git_does_not_know_is_named(clinic):
    c = clinic()
    c.repo.git("worktree", "remove", "--force", str(c.tree))
    c.tree.mkdir()
    (c.tree / "mine").write_text("x")
    found = c.findings()
    assert "git does not know it as a worktree" in found["worktrees"][0]["message"]
    assert "directories" in found
    assert c.doctor("--fix").status == 1
    assert (c.tree / "mine").read_text() == "x"


def stray(c: Clinic, *words: str) -> Path:
    """A worktree in .tugtree that only git knows."""
    path = c.root / ".tugtree" / "stray"
    c.repo.git("worktree", "add", "--quiet", *words, str(path))
    return path


def test_one_that_only_git_remembers_is_forgotten_and_its_branch_stays(clinic):
    c = clinic()
    path = stray(c, "-b", "stray")
    refs = c.refs()
    assert c.findings() == {}
    shutil.rmtree(path)
    finding = c.one("worktrees")
    assert finding["message"].startswith(f"git knows a worktree {path} that is not there")
    c.mends("worktrees")
    assert str(path) not in c.repo.git("worktree", "list")
    assert c.refs() == refs
    assert c.tree.name in c.repo.git("worktree", "list")


def test_one_whose_commits_are_on_no_branch_is_left_to_a_person(clinic):
    c = clinic()
    path = stray(c, "--detach")
    shutil.rmtree(path)
    assert not c.one("worktrees", "--fix")["fixable"]


def test_one_that_lies_elsewhere_is_left_to_its_person(clinic, tmp_path):
    c = clinic()
    path = tmp_path / "elsewhere"
    c.repo.git("worktree", "add", "--quiet", "-b", "mine", str(path))
    shutil.rmtree(path)
    assert not c.one("worktrees", "--fix")["fixable"]
    assert str(path) in c.repo.git("worktree", "list")


@pytest.mark.parametrize(("why", "said"), [("on a stick", " is locked: on a stick;"), ("", "d;")])
def test_a_locked_worktree_is_a_note(clinic, why, said):
    c = clinic()
    c.repo.git("worktree", "lock", f"--reason={why}", str(c.tree))
    finding = c.one("worktrees")
    assert said in finding["message"]
    assert finding["severity"] == "note"
    assert c.doctor().status == 0


def test_a_worktree_that_git_was_stopped_at_is_named(clinic):
    c = clinic()
    (c.root / ".git" / "worktrees" / c.tree.name / "locked").write_text("initializing\n")
    finding = c.one("worktrees")
    assert finding["message"] == f"git was stopped while it made the worktree {c.tree}"


def test_while_somebody_makes_worktrees_half_made_ones_are_no_finding(clinic):
    c = clinic()
    (c.root / ".tugtree" / "half").mkdir()
    (c.root / ".git" / "worktrees" / c.tree.name / "locked").write_text("initializing\n")
    assert set(c.findings()) == {"worktrees", "directories"}
    with open(c.copies / "worktrees.lock", "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert c.findings() == {}


# -- directories -----------------------------------------------------------------------


def test_an_empty_directory_among_the_worktrees_is_removed(clinic):
    c = clinic()
    before = c.snapshot()
    path = c.root / ".tugtree" / "empty"
    path.mkdir()
    assert c.one("directories")["hint"] == f"rmdir {path}"
    assert c.mends("directories") == "removed"
    assert c.snapshot() == before


def test_a_directory_that_is_no_worktree_is_named_and_kept(clinic):
    c = clinic()
    path = c.root / ".tugtree" / "half"
    Repo(c.root).write({".tugtree/half/file": "x", ".tugtree/a-file": "y"})
    (c.root / ".tugtree" / "a-link").symlink_to(path)
    finding = c.one("directories", "--fix")
    assert finding["message"].startswith(f"git does not know {path} as a worktree: git works on")
    assert (path / "file").read_text() == "x"


def test_a_directory_whose_git_file_leads_nowhere_is_named(clinic):
    c = clinic()
    Repo(c.root).write({".tugtree/half/.git": "gitdir: /nowhere\n"})
    finding = c.one("directories")
    assert finding["message"] == f"git does not know {c.root}/.tugtree/half as a worktree"


def test_a_worktree_that_has_lost_its_git_file_is_named(clinic):
    c = clinic()
    (c.tree / ".git").unlink()
    found = c.findings()
    (finding,) = found["directories"]
    assert "has lost its .git: git works on the main worktree there" in finding["message"]
    assert finding["hint"] == "git worktree repair"
    assert "git does not know it as a worktree" in found["worktrees"][0]["message"]
    c.repo.git("worktree", "repair")
    assert c.findings() == {}


def test_a_worktree_with_a_repository_of_its_own_is_named_as_that(clinic):
    c = clinic()
    before = c.snapshot()
    (c.tree / ".git").rename(c.root.parent / "was")
    git("init", "--quiet", cwd=c.tree)
    git("commit", "--quiet", "--allow-empty", "--message=own", cwd=c.tree)
    (finding,) = c.findings()["directories"]
    said = f"{c.tree} has a repository of its own in it: its commits are on no branch of this one"
    assert finding["message"] == said
    assert finding["hint"] == f"git -C {c.tree} log --oneline --max-count=20"
    assert "own" in git("log", "--oneline", "--max-count=20", cwd=c.tree)
    shutil.rmtree(c.tree / ".git")
    (c.root.parent / "was").rename(c.tree / ".git")
    assert (c.findings(), c.snapshot()) == ({}, before)


def test_a_worktree_whose_git_file_leads_to_another_repository_is_named(clinic):
    c = clinic()
    Repo.init(c.root.parent / "alien")
    (c.tree / ".git").write_text(f"gitdir: {c.root.parent}/alien/.git\n")
    (finding,) = c.findings()["directories"]
    assert finding["message"] == f"{c.tree}: its .git leads to another repository"


def test_something_else_in_place_of_the_directory_is_named(clinic):
    c = clinic()
    os.rename(c.root / ".tugtree", c.root / "moved")
    (c.root / ".tugtree").write_text("a file")
    assert "cannot be looked at" in c.findings()["directories"][0]["message"]


# -- branches --------------------------------------------------------------------------


def test_a_branch_without_a_worktree_is_named_if_it_has_not_landed(clinic):
    c = clinic()
    c.repo.git("branch", "tugplan/work-20200101")
    finding = c.one("branches")
    assert finding["severity"] == "note"
    assert finding["hint"] == "tugcode worktree cleanup --dry-run"
    path = stray(c, "-b", "tugplan/work-20200102")
    c.commit(path, {"one": "1"})
    c.repo.git("worktree", "remove", str(path))
    found = {each["severity"]: each["message"] for each in c.only("branches")}
    assert found["warning"] == (
        "the branch tugplan/work-20200102 has commits that have not landed, and no worktree has it"
    )


def test_commits_of_a_plan_whose_record_is_lost_are_named_with_the_way_back(clinic):
    c = clinic()
    c.ok("state", "claim", "work", at=c.tree)
    c.ok("state", "update", "work", "step-1", "--all", "completed", at=c.tree)
    c.ok("commit", "--plan", "work", "--step", "step-1", "--message", "One", at=c.tree)
    branch = c.rows("select branch from worktrees")[0]["branch"]
    assert c.findings() == {}
    for path in c.db.parent.glob("state.*"):
        path.unlink()
    shutil.rmtree(c.copies)
    finding = c.one("branches")
    assert finding["severity"] == "warning"
    assert f"{branch} has commits for steps of {KEY}, of which nothing" in finding["message"]
    assert "tugcode reconcile work --dry-run" in finding["message"]
    assert finding["hint"] == "tugcode state init work"
    c.ok("state", "init", KEY)
    assert c.ok("state", "reconcile", KEY)["reconciled_count"] == 1
    assert "branches" not in c.findings()


def test_a_worktree_whose_branch_is_gone_is_named(clinic):
    c = clinic()
    git("checkout", "--quiet", "--detach", cwd=c.tree)
    branch = c.rows("select branch from worktrees")[0]["branch"]
    c.repo.git("branch", "--delete", "--quiet", branch)
    assert c.one("branches")["message"] == f"the branch {branch} of {c.tree} is gone"


# -- dashes ----------------------------------------------------------------------------


def test_a_dash_whose_worktree_or_branch_is_gone_is_named(clinic):
    c = clinic()
    path = c.root / ".tugtree" / "tugdash__fix"
    c.repo.git("worktree", "add", "--quiet", "-b", "tugdash/fix", str(path))
    now = "'2026-01-01T00:00:00.000Z'"
    c.sql(
        "insert into dashes (name, branch, worktree, base_branch, base_commit, status, created_at,"
        f" updated_at) values ('fix', 'tugdash/fix', '{path}', 'main', 'x', 'active', {now}, {now})"
    )
    assert c.findings() == {}
    c.repo.git("worktree", "remove", str(path))
    said = f"the dash fix is under way, and its worktree {path} is gone"
    assert c.one("dashes")["message"] == said
    c.repo.git("branch", "--quiet", "--delete", "tugdash/fix")
    assert [each["message"] for each in c.only("dashes")] == [
        said,
        "the dash fix is under way, and its branch tugdash/fix is gone",
    ]
    c.sql(f"update dashes set status = 'joined', ended_at = {now}")
    assert c.findings() == {}
