"""Where one stands: a claim refuses to mix the work of two steps, and says what to do."""

from pathlib import Path

import pytest

from conftest import git

LEFT = {"new.txt": "new\n", "code.txt": "changed\n"}


@pytest.fixture
def lost(yard):
    """A worktree that lost step-1 with its work uncommitted, and another that took the step."""
    made = yard("1 t", "2 t", "3 t")
    made.red, made.blue = made.create(), made.create("--new")
    made.ok("claim", "work", at=made.red)
    for name, text in LEFT.items():
        (made.red / name).write_text(text)
    made.ok("claim", "work", "--step", "step-1", "--force", at=made.blue)
    return made


def test_no_other_step_is_claimed_over_the_work_of_a_lost_one(lost):
    for words in (("claim", "work"), ("claim", "work", "--step", "step-2"), ("next",)):
        said = lost.run(*words, at=lost.red)
        assert said.codes == ["E037"], said.out
        (issue,) = said.envelope()["issues"]
        assert issue["hint"] == f"tugcode worktree clean --worktree {lost.red}"
        assert issue["facts"]["salvage_ref"] in issue["message"]
    assert {name: (lost.red / name).read_text() for name in LEFT} == LEFT


def test_what_is_cleaned_away_comes_back_byte_by_byte(lost):
    data = lost.ok("worktree", "clean", at=lost.red)
    assert data["cleaned"]
    assert sorted(data["files"]) == sorted(LEFT)
    assert git("status", "--porcelain", cwd=lost.red) == ""
    for name, text in LEFT.items():
        assert git("cat-file", "blob", f"{data['salvage_ref']}:{name}", cwd=lost.red) == text
    # The ref that was made when the step was taken has all of it: no other is made.
    assert len([name for name in lost.refs() if "salvage" in name]) == 1
    again = lost.ok("worktree", "clean", at=lost.red)
    assert (again["cleaned"], again["salvage_ref"]) == (False, None)
    assert lost.ok("claim", "work", at=lost.red)["anchor"] == "step-2"
    lost.ok("release", "work", "step-2", at=lost.red)
    lost.ok("worktree", "salvage", "apply", data["salvage_ref"], at=lost.red)
    assert {name: (lost.red / name).read_text() for name in LEFT} == LEFT


def test_a_revived_worker_s_leftovers_never_go_into_another_step_s_commit(yard):
    """A person takes step-1 from a worker, which then follows each hint to step-2's commit."""
    made = yard("1 t", "2 t")
    red = made.create()
    made.ok("claim", "work", "--step", "step-1", at=red)
    (red / "left.txt").write_text("half of step 1\n")
    made.ok("state", "reset", "work", "step-1")
    second = ("claim", "work", "--step", "step-2")
    (issue,) = made.run(*second, at=red).envelope()["issues"]
    ref = made.ok(*issue["hint"].split()[1:], at=red)["salvage_ref"]
    made.ok(*second, at=red)
    (red / "two.txt").write_text("two\n")
    made.ok("update", "work", "step-2", "--all", "completed", at=red)
    made.ok("commit", "--plan", "work", "--step", "step-2", "--message", "two", at=red)
    names = git("show", "--format=", "--name-only", "HEAD", cwd=red).split()
    assert names == [".tugtool/log.md", "two.txt"]
    assert git("cat-file", "blob", f"{ref}:left.txt", cwd=red) == "half of step 1\n"


def test_what_was_changed_since_it_was_saved_is_saved_before_it_goes(lost):
    (lost.red / "later.txt").write_text("later\n")
    data = lost.ok("worktree", "clean", at=lost.red)
    assert git("cat-file", "blob", f"{data['salvage_ref']}:later.txt", cwd=lost.red) == "later\n"
    assert len([name for name in lost.refs() if "salvage" in name]) == 2


def test_what_was_staged_and_changed_again_is_saved_too(lost):
    (lost.red / "new.txt").write_text("staged\n")
    git("add", "new.txt", cwd=lost.red)
    (lost.red / "new.txt").write_text("new\n")
    ref = lost.ok("worktree", "clean", at=lost.red)["salvage_ref"]
    assert git("cat-file", "blob", f"{ref}:new.txt", cwd=lost.red) == "new\n"
    assert git("cat-file", "blob", f"{ref}^2:new.txt", cwd=lost.red) == "staged\n"


def test_the_lost_step_itself_goes_on_where_its_work_lies(lost):
    lost.ok("release", "work", "step-1", at=lost.blue)
    data = lost.ok("claim", "work", at=lost.red)
    assert (data["anchor"], data["attempt"]) == ("step-1", 3)
    lost.ok("worktree", "create", "work")  # another worktree is not affected
    assert lost.run("worktree", "clean", at=lost.red).codes == ["E050"]


def test_a_worktree_that_was_cleaned_by_hand_claims_again(lost):
    git("reset", "--quiet", "--hard", cwd=lost.red)
    git("clean", "--quiet", "--force", cwd=lost.red)
    assert lost.ok("claim", "work", at=lost.red)["anchor"] == "step-2"
    assert not (lost.root / ".git" / "tugtool" / "lost").exists()


def test_work_that_was_not_saved_yet_is_found_by_the_claim_itself(yard, monkeypatch):
    """Whoever took the step died before it had saved the work."""
    from tugtool.workflow import workspace

    made = yard("1 t", "2 t")
    red, blue = made.create(), made.create("--new")
    made.ok("claim", "work", at=red)
    (red / "new.txt").write_text("new\n")
    with monkeypatch.context() as patch:
        patch.setattr(workspace, "save_displaced", lambda *_: [])
        made.ok("claim", "work", "--step", "step-1", "--force", at=blue)
    assert made.run("claim", "work", at=red).codes == ["E037"]
    assert made.rows("select status from steps where anchor = 'step-2'") == [{"status": "pending"}]
    made.ok("worktree", "clean", at=red)
    assert made.ok("claim", "work", at=red)["anchor"] == "step-2"


def test_a_request_that_is_repeated_is_answered_as_before(yard):
    made = yard("1 t", "2 t")
    red, blue = made.create(), made.create("--new")
    made.ok("claim", "work", "--request-id", "r", at=red)
    (red / "new.txt").write_text("new\n")
    made.ok("claim", "work", "--step", "step-1", "--force", at=blue)
    assert made.run("claim", "work", "--request-id", "r", at=red).codes == ["E060"]


def test_what_was_given_back_is_not_lost(yard):
    made = yard("1 t", "2 t")
    red = made.create()
    made.ok("claim", "work", at=red)
    (red / "new.txt").write_text("new\n")
    made.ok("release", "work", "step-1", at=red)
    assert made.ok("claim", "work", at=red)["claimed"]


def test_the_main_worktree_is_warned_of_and_never_cleaned(yard):
    made = yard("1 t", "2 t")
    made.ok("state", "init", "work")
    done = made.run("claim", "work")
    assert (done.status, done.codes) == (0, ["W160"])
    assert "tugcode commit will not work here" in done.envelope()["issues"][0]["message"]
    (made.root / "new.txt").write_text("new\n")
    made.ok("state", "reset", "work", "step-1")
    assert made.ok("claim", "work", "--step", "step-2")["claimed"]
    assert made.run("worktree", "clean").codes == ["E035"]


def test_a_second_step_is_claimed_only_also(yard):
    made = yard("1 t", "2 t")
    red = made.create()
    made.ok("claim", "work", "--step", "step-2", at=red)
    said = made.run("claim", "work", "--step", "step-1", at=red)
    assert said.codes == ["E050"]
    assert "--also" in said.envelope()["issues"][0]["message"]
    assert made.ok("claim", "work", "--step", "step-2", at=red)["attempt"] == 2
    assert made.ok("claim", "work", "--step", "step-1", "--also", at=red)["claimed"]
    assert made.run("done", at=red).codes == ["E070"]


@pytest.mark.parametrize("word", ["2", "#2", "Step 2", "step 2", "step-2", "STEP-2"])
def test_a_step_s_number_names_it(yard, word):
    made = yard("1 t", "2 t", "2.1 t")
    made.ok("state", "init", "work")
    assert made.ok("why", "work", word)["anchor"] == "step-2"
    assert made.ok("why", "work", "2.1")["anchor"] == "step-2-1"
    assert made.run("why", "work", "7").codes == ["E059"]
    assert made.run("why", "work", "tw*").codes == ["E059"]


def test_a_number_means_the_step_whatever_its_anchor_is(yard):
    made = yard("1")
    made.plan.write_text("# Work\n\n### Step 1: One {#first}\n- [ ] a\n\n### Step 2: Two {#1}\n")
    made.repo.commit({})
    assert made.ok("plan", "show", "work", "--step", "step-1")["steps"][0]["anchor"] == "first"
    made.ok("state", "init", "work")
    assert made.ok("why", "work", "Step 1")["anchor"] == "first"
    # An anchor is what it says, also if it looks like the number of another step.
    assert made.ok("why", "work", "1")["anchor"] == "1"
    made.ok("claim", "work", "--step", "step-2", at=made.create())


def test_a_new_plan_is_for_the_branch_that_is_checked_out(repo, tugcode):
    repo.git("checkout", "--quiet", "-b", "develop")
    tugcode("-C", repo.path, "plan", "new", "ropes")
    text = Path(repo.path, ".tugtool", "tugplan-ropes.md").read_text()
    assert "| Target branch | develop |" in text
    repo.git("checkout", "--quiet", "--detach")
    tugcode("-C", repo.path, "plan", "new", "sails")
    text = Path(repo.path, ".tugtool", "tugplan-sails.md").read_text()
    assert "| Target branch | main |" in text
