"""Z11: what git itself advises stands in the reason of a parked step, also in a short one."""

from conftest import git


def test_a_commit_that_finds_the_index_locked_says_what_git_would_advise(play):
    play = play("1 t")
    tree = play.ok("worktree", "create", "work", "--claim")["worktree_path"]
    play.ok("state", "update", "work", "step-1", "--task", 0, "completed", at=tree)
    lock = git("rev-parse", "--path-format=absolute", "--git-path", "index.lock", cwd=tree).strip()
    open(lock, "x").close()
    refused = play.tugcode("commit", "--step", "step-1", "--message", "x", at=tree)
    assert refused.codes == ["E076"]
    assert "remove the file manually" in refused.out


def test_the_advice_is_not_cut_away_where_a_reason_is_shortened(play):
    play = play("1 t")
    tree = play.ok("worktree", "create", "work", "--claim")["worktree_path"]
    reason = f"cannot lock {'x' * 300}: remove the file manually to continue."
    play.ok("state", "release", "work", "step-1", "--park", "--reason", reason, at=tree)
    told = play.ok("state", "why", "work", "step-1")["sentences"][0]
    assert len(told) < 400
    assert "cannot lock x" in told
    assert told.endswith("remove the file manually to continue..")


def test_a_lock_whose_git_is_gone_is_no_reason_to_park_a_step(play):
    play = play("1 t")
    hook = play.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    lock = "$(git rev-parse --git-dir)/HEAD.lock"
    hook.write_text(f"#!/bin/sh\ntest -e ../was-here || {{ touch ../was-here; touch {lock}; }}\n")
    hook.chmod(0o755)
    status, told = play.run()
    assert status == 0, told[-1]
    play.finished(told)
