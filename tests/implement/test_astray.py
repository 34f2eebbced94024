"""Agents that take their worktree apart: nothing of ours is done in another place instead."""

import sys
from pathlib import Path

import pytest

from conftest import git
from implement.test_guard import failed, kept
from support.implement_aftermath import aftermath
from support.proving import sampled

OWN = "rm .git; git init --quiet; git add -A; git commit --quiet -m own"

#: Another repository, which has nothing that is not committed.
ALIEN = (
    "git init --quiet ../../../alien; cp -R [a-z]* ../../../alien/; cd ../../../alien; "
    "git add -A; git commit --quiet -m alien; cd $OLDPWD; echo gitdir: ../../../alien/.git > .git"
)


@pytest.fixture
def play(play):
    def make(*lines: str):
        made = play(*(lines or ("1 t", "2 t < 1", "3 t < 2")))
        made.cast("coder", "reviewer")
        # What a person has lying about in the main worktree.
        (made.root / "mine.txt").write_text("untracked\n")
        (made.root / "code.txt").write_text("changed\n")
        (made.root / "staged.txt").write_text("staged\n")
        git("add", "staged.txt", cwd=made.root)
        return made

    return make


def of_main(play) -> tuple[str, ...]:
    """All that could be otherwise in the main worktree; worktrees and settings aside."""
    words = ("status", "--porcelain", "--untracked-files=all")
    return (
        git(*words, cwd=play.root),
        git("log", "-g", "--format=%H %gs", "main", cwd=play.root),
        git("diff", "--cached", cwd=play.root),
        git("diff", cwd=play.root),
    )


def warnings(told: list[dict]) -> str:
    return "\n".join(each["message"] for each in told if each["event"] == "warning")


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("more", ["", "; git add -A; git commit -qm x; git reset -q --hard; true"])
def test_a_worktree_whose_git_file_was_removed_gets_it_back_and_the_agent_is_told(play, more):
    play = play()
    before = of_main(play)
    acts = [{"write": "work.txt", "text": "x"}, {"run": f"rm .git{more}"}]
    play.rules({"role": "coder", "step": "step-2", "try": 1, "do": acts})
    status, told = play.run()
    assert (status, told[-1]["status"]) == (0, "done")
    assert of_main(play) == before
    [reason] = failed(told)
    assert reason.startswith("it removed the worktree's .git")
    assert "the coder removed the worktree's .git; it was restored" in warnings(told)
    assert len(play.trees()) == 1
    aftermath(play, told)
    assert "mine.txt" not in git("ls-tree", "--name-only", play.commits("step-2")[0], cwd=play.root)


#: What an agent makes of its worktree, and what is said of it.
SPOILT = {
    OWN: "it has a repository of its own in place of its .git",
    'cd ../..; rm -rf "$OLDPWD"': "its directory is gone",
    "git worktree remove --force .": "its directory is gone",
    "rm -r $(git rev-parse --git-dir)": "git does not know it as a worktree any more",
    ALIEN: "its .git leads to another repository",
}


@pytest.mark.proof(share=0)
# Each of them once, by the one role or the other; the rest as proofs.
@pytest.mark.parametrize(
    ("role", "line", "said"),
    sampled([(role, *each) for role in ("coder", "reviewer") for each in SPOILT.items()], 3),
)
def test_a_worktree_that_is_none_any_more_is_left_and_its_step_done_elsewhere(
    play, role, line, said
):
    play = play()
    before = of_main(play)
    play.rules({"role": role, "step": "step-2", "attempt": 1, "do": [{"run": line}]})
    status, told = play.run()
    assert (status, told[-1]["status"]) == (0, "done"), told
    assert of_main(play) == before
    [end] = [each for each in told if each["event"] == "failed"]
    assert said in end["reason"]
    assert str(play.root / ".tugtree") in end["reason"]
    assert play.outcomes("step-1") == ["completed"]
    assert play.outcomes("step-2") == ["failed", "completed"]
    assert play.outcomes("step-3") == ["completed"]
    [one, two] = [each for each in told if each["event"] == "worktree"]
    assert one["worktree_path"] != two["worktree_path"]
    # What was done before is on its branch, and in what came after.
    last = play.commits("step-3")[0]
    for step in ("step-1", "step-2"):
        git("merge-base", "--is-ancestor", play.commits(step)[0], last, cwd=play.root)
    assert play.held() == []


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("line", [OWN, ALIEN])
def test_what_lies_in_a_repository_of_an_agents_own_stays_there_and_is_named(play, line):
    play = play("1 t")
    acts = [{"write": "work.txt", "text": "x"}, {"run": line}]
    play.rules({"role": "coder", "attempt": 1, "do": acts})
    status, told = play.run()
    assert status == 0
    first = Path(next(each for each in told if each["event"] == "worktree")["worktree_path"])
    assert (first / "work.txt").read_text() == "x"
    assert f"the work on step-1 stays in {first}" in warnings(told)
    assert git("log", "--format=%s", cwd=first) == ("own\n" if line == OWN else "alien\n")
    assert kept(play) == []
    # Nor does a later run take it for a worktree.
    play.ok("state", "reopen", "work", "step-1", "--reason", "again")
    status, told = play.run()
    used = {each["worktree_path"] for each in told if each["event"] == "worktree"}
    assert (status, str(first) in used) == (0, False)


@pytest.mark.proof(share=0)
def test_a_worktree_that_a_person_took_away_between_two_steps_is_not_claimed_in(play):
    play = play()
    run = "cd ../..; git worktree remove --force $TUGCODE_WORKTREE"
    play.cast("coder", "reviewer", "auditor")
    play.rules({"role": "auditor", "do": [{"run": run}], "times": 1})
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "not_approved")
    assert "its directory is gone" in told[-1]["reason"]
    status, told = play.run()
    assert (status, told[-1]["status"]) == (0, "done")
    assert git("status", "--porcelain", cwd=play.trees()[0]) == ""


@pytest.mark.proof(share=0)
def test_no_step_is_claimed_in_a_worktree_that_became_something_else_meanwhile(play):
    play = play("1 t", "2 t", "3 t < 2", "4 t < 2")
    play.cast("coder", "reviewer", workers=2)
    look = f"{sys.executable} -m tugtool state ready work --json"
    done = 'import json, sys; exit("step-1" not in json.load(sys.stdin)["data"]["completed_steps"])'
    wait = f"until {look} | {sys.executable} -c '{done}'; do sleep 0.05; done"
    # Until it is so: whoever is about to claim there puts back what is missing for a moment.
    spoilt = "until test -d $d/.git; do mv -f $d/.git $d/was; mkdir $d/.git; done"
    spoil = f"for d in ../tugplan__*; do test $d -ef . || {spoilt}; done"
    here = [{"touch": "../../{step}-here"}]
    play.rules(
        {"role": "coder", "step": "step-1", "do": [*here, {"wait_for": "../../step-2-here"}]},
        {"role": "coder", "step": "step-2", "do": [*here, {"run": f"{wait}; {spoil}"}]},
        {"role": "coder", "step": "step-3", "do": [*here, {"wait_for": "../../step-4-here"}]},
        {"role": "coder", "step": "step-4", "do": [*here, {"wait_for": "../../step-3-here"}]},
    )
    status, told = play.run()
    assert status == 0, told
    assert "is no longer used: it has a repository of its own" in warnings(told)
    assert play.steps() == dict.fromkeys(play.steps(), "completed")
    assert play.outcomes("step-3") == play.outcomes("step-4") == ["completed"]
    assert len(play.trees()) == 3


@pytest.mark.parametrize(
    "words",
    [
        ("commit", "--plan", "work", "--step", "step-1", "--message", "x"),
        ("state", "claim", "work"),
        ("worktree", "sync", "work"),
    ],
)
def test_commands_in_a_directory_that_has_lost_its_git_file_refuse(play, words):
    play = play("1 t")
    tree = Path(play.ok("worktree", "create", "work")["worktree_path"])
    before = of_main(play)
    (tree / ".git").unlink()
    (tree / "deep").mkdir()
    done = play.tugcode(*words, at=tree / "deep")
    [issue] = done.envelope()["issues"]
    assert issue["code"] == "E030"
    assert f"{tree} has no .git, so it is not a worktree" in issue["message"]
    assert of_main(play) == before


#: What a coder may do to HEAD, and is undone.
MOVES = {
    "reset back": "git reset --quiet --hard HEAD~1",
    "other branch": "git checkout --quiet -b feature main",
    "other branch, same commit": "git checkout --quiet -b feature",
    "detached": "git checkout --quiet --detach HEAD~1",
    "amended": "git commit --quiet --amend --no-edit --reset-author -m mine",
    "no commit": "git checkout --quiet --orphan new; git rm -rfq .",
    "rebase under way": "git checkout --quiet -b side main; echo 1 > code.txt; git commit -qam 1; "
    "git checkout --quiet -b other main; echo 2 > code.txt; git commit -qam 2; "
    "! git rebase --quiet side > /dev/null 2>&1",
    "merge under way": "git checkout --quiet -b side HEAD~1; echo 1 > code.txt; git commit -qam 1; "
    "git checkout --quiet -b other HEAD~1; echo 2 > code.txt; git commit -qam 2; "
    "! git merge --quiet side > /dev/null",
}


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("move", sampled(MOVES, 2))
def test_a_coder_that_moves_head_elsewhere_is_undone_and_told_and_nothing_is_lost(play, move):
    play = play()
    before = of_main(play)
    acts = [
        {"run": MOVES[move]},
        {"write": "scripted/step-2.txt", "text": "of the first try"},
        {"write": "new.txt", "text": "new"},
    ]
    play.rules({"role": "coder", "step": "step-2", "try": 1, "do": acts})
    status, told = play.run()
    assert (status, told[-1]["status"]) == (0, "done")
    assert of_main(play) == before
    [reason] = failed(told)
    assert reason.startswith("it moved HEAD to ")
    [ref] = kept(play)
    assert reason.endswith(f"what it left is kept in {ref}")
    assert git("show", f"{ref}:new.txt", cwd=play.root) == "new"
    assert ref in play.artifacts("note")[0]["summary"]
    # The first step's work is in what came after it, and what was undone is not.
    names = git("ls-tree", "-r", "--name-only", play.commits("step-2")[0], cwd=play.root).split()
    assert "scripted/step-1.txt" in names
    assert "new.txt" not in names
    code = git("show", f"{play.commits('step-2')[0]}:code.txt", cwd=play.root)
    assert code.startswith("line 0\n")
    aftermath(play, told)


@pytest.mark.proof(share=0)
def test_what_earlier_agents_of_the_step_left_uncommitted_comes_back(play):
    play = play("1 t", "2 t < 1")
    work = [
        {"append": "code.txt", "text": "by round 1\n"},
        {"write": "fresh.txt", "text": "fresh\n"},
        {"write": "dir/staged.txt", "text": "staged\n"},
        {"run": "git add dir/staged.txt; rm scripted/step-1.txt"},
    ]
    spoil = "git reset --quiet --hard HEAD~1; git clean -qfd; git checkout -q -b other"
    revise = {"recommendation": "REVISE"}
    play.rules(
        {"role": "coder", "step": "step-2", "round": 1, "do": work},
        {"role": "reviewer", "step": "step-2", "round": 1, "answer": revise},
        {"role": "coder", "step": "step-2", "round": 2, "try": 1, "do": [{"run": spoil}]},
        {"role": "coder", "step": "step-2", "round": 2, "try": 2, "do": []},
    )
    status, told = play.run()
    assert (status, len(failed(told))) == (0, 1)
    [commit] = play.commits("step-2")
    assert git("show", f"{commit}:code.txt", cwd=play.root).endswith("line 19\nby round 1\n")
    assert git("show", f"{commit}:fresh.txt", cwd=play.root) == "fresh\n"
    assert git("show", f"{commit}:dir/staged.txt", cwd=play.root) == "staged\n"
    assert "step-1.txt" not in git("ls-tree", "-r", "--name-only", commit, cwd=play.root)
    aftermath(play, told)


@pytest.mark.proof(share=0)
def test_what_an_earlier_try_left_uncommitted_comes_back_and_is_taken_up(play):
    play = play("1 t", "2 t < 1")
    spoil = "git reset --quiet --hard HEAD~1; git clean -qfd"
    half = [{"write": "half.txt", "text": "half\n"}, {"die": "KILL"}]
    play.rules(
        {"role": "coder", "step": "step-2", "attempt": 1, "try": 1, "do": half},
        {"role": "coder", "step": "step-2", "attempt": 1, "try": 2, "do": [{"run": spoil}]},
    )
    status, told = play.run()
    assert (status, len(failed(told))) == (0, 2)
    [commit] = play.commits("step-2")
    names = git("ls-tree", "-r", "--name-only", commit, cwd=play.root).split()
    assert {"half.txt", "scripted/step-1.txt"} <= set(names)
    aftermath(play, told)


@pytest.mark.proof(share=0)
def test_what_cannot_be_kept_is_left_where_it_is_and_the_branch_is_put_back(play):
    play = play("1 t", "2 t < 1")
    hook = play.root / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir()
    hook.write_text("#!/bin/sh\ncase $(cat) in *refs/tug/*) exit 1;; esac\n")
    hook.chmod(0o755)
    run = "git reset --quiet --hard HEAD~1; echo x > f"
    play.rules({"role": "coder", "step": "step-2", "attempt": 1, "do": [{"run": run}]})
    status, told = play.run()
    assert (status, told[-1]["status"]) == (0, "done")
    [end] = [each for each in told if each["event"] == "failed"]
    assert "cannot be put back: git update-ref failed" in end["reason"]
    first, second = play.trees()
    assert (first / "f").read_text() == "x\n"
    # The step that was done there is still on its branch.
    assert git("rev-parse", "HEAD", cwd=first).split() == play.commits("step-1")
    assert git("status", "--porcelain", cwd=second) == ""


@pytest.mark.proof(share=0)
def test_a_coder_that_completes_its_step_by_itself_is_not_undone_and_that_is_said(play):
    play = play("1 t", "2 t < 1")
    tug = f"env -u TUGCODE_ROLE {sys.executable} -m tugtool"
    acts = [
        {"write": "own.txt", "text": "x"},
        {"run": f"{tug} state update work step-1 --all completed > /dev/null"},
        {"run": f"{tug} commit --plan work --step step-1 --message own > /dev/null"},
    ]
    play.rules({"role": "coder", "step": "step-1", "do": acts})
    status, told = play.run()
    assert status == 0, told
    [lost] = [each for each in told if each["event"] == "lost"]
    [commit] = play.commits("step-1")
    assert f"perhaps its agent, completed it with {commit[:12]} under its claim" in lost["reason"]
    assert "without a review; to open it again: tugcode reopen" in lost["reason"]
    assert lost["reason"] in warnings(told)
    # The commit that the record names is on the branch, and what came after has it.
    git("merge-base", "--is-ancestor", commit, play.commits("step-2")[0], cwd=play.root)
    play.finished(told)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("reset work step-1", "a person reset the step"),
        ("release work step-1", "another process released the step"),
    ],
)
def test_how_a_claim_was_lost_is_told(play, line, said):
    play = play("1 t")
    tug = f"env -u TUGCODE_ROLE {sys.executable} -m tugtool state"
    run = f"{tug} pause work > /dev/null && {tug} {line} > /dev/null"
    play.rules({"role": "coder", "do": [{"run": run}, {"hang": True}]})
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "paused")
    [lost] = [each for each in told if each["event"] == "lost"]
    assert said in lost["reason"]
    assert told[-1]["left"][0]["reason"] == lost["reason"]
