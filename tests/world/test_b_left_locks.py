"""B: a lock that an agent's git left when it was killed."""

import os
from pathlib import Path

import pytest

from conftest import git
from implement.test_stop import Bell
from support.proving import sampled
from tugtool.git import worktrees

HOUR = 3600


def slow_add(play) -> Bell:
    """The first `git add` of a file called *.slow rings, and does not come back."""
    bell, flag = Bell(play), play.root.parent / "was-here"
    line = f"test -e {flag} || {{ touch {flag}; echo > {bell.path}; sleep 600; }}; cat"
    play.repo.git("config", "filter.slow.clean", line)
    play.repo.commit({".gitattributes": "*.slow filter=slow\n"})
    do = [{"write": "work.slow", "text": "x\n"}, {"run": "git add --all", "may_fail": True}]
    play.rules({"role": "coder", "step": "step-1", "attempt": 1, "do": do})
    return bell


def killed_in_add(play) -> None:
    """A run that is killed while its coder's git has locked the index."""
    bell = slow_add(play)
    process = play.start()
    bell.heard()
    process.kill()
    process.communicate()
    [tree] = play.trees()
    assert (play.root / ".git" / "worktrees" / tree.name / "index.lock").exists()


def warnings(told: list[dict]) -> str:
    return "\n".join(each["message"] for each in told if each["event"] == "warning")


def test_a_run_whose_agents_git_was_killed_with_it_goes_on_by_the_same_command(play):
    play = play("1 t", "2 t < 1")
    killed_in_add(play)
    status, told = play.run()
    assert status == 0, told[-1]
    assert "index.lock" in warnings(told)
    play.finished(told)


def test_after_a_reset_too(play):
    play = play("1 t", "2 t < 1")
    killed_in_add(play)
    play.ok("state", "reset", "work", "step-1")
    status, told = play.run()
    assert status == 0, told[-1]
    play.finished(told)


LOCKS = {
    "index": "$(git rev-parse --git-dir)/index.lock",
    "HEAD": "$(git rev-parse --git-dir)/HEAD.lock",
    "branch": "$(git rev-parse --git-path $(git symbolic-ref HEAD)).lock",
}


@pytest.mark.parametrize("which", sampled(LOCKS, 1))
def test_a_lock_of_an_agent_that_has_ended_goes_with_it(play, which):
    play = play("1 t")
    # The second is of one that stops in the middle of it all, and is tried again.
    leave = {"run": f'touch "{LOCKS[which]}"'}
    write = {"write": "work", "text": "x\n"}
    play.rules(
        {"role": "coder", "round": 1, "try": 1, "do": [write, leave, {"die": "KILL"}]},
        {"role": "coder", "do": [write, leave]},
        {"role": "reviewer", "do": [leave]},
    )
    status, told = play.run()
    assert status == 0, told[-1]
    play.finished(told)


def test_a_lock_that_a_living_git_holds_is_left_alone(play):
    play = play("1 t")
    bell = slow_add(play)
    process = play.start()
    bell.heard()
    [tree] = play.trees()
    lock = play.root / ".git" / "worktrees" / tree.name / "index.lock"
    branch = git("branch", "--show-current", cwd=tree).strip()
    assert worktrees.drop_locks(str(play.root / ".git"), str(tree), branch) == []
    assert lock.exists()
    process.kill()
    process.communicate()


def aged(*locks: Path) -> None:
    for lock in locks:
        lock.touch()
        os.utime(lock, (lock.stat().st_mtime - 2 * HOUR,) * 2)


def test_doctor_names_old_locks_and_removes_them(clinic):
    clinic = clinic()
    main = clinic.root / ".git"
    [own] = (main / "worktrees").iterdir()
    branch = git("branch", "--show-current", cwd=clinic.tree).strip()
    refs = main / "refs" / "heads" / f"{branch}.lock"
    old = [main / "packed-refs.lock", main / "index.lock", own / "index.lock", refs]
    aged(*old)
    # Of a git that is at work.
    (own / "HEAD.lock").touch()
    found = clinic.only("git-locks")
    assert [each["hint"] for each in found] == [f"ls -l {lock}" for lock in sorted(map(str, old))]
    assert all(each["fixed"] for each in clinic.only("git-locks", "--fix"))
    assert clinic.findings() == {}
    assert (own / "HEAD.lock").exists()


def test_a_lock_of_the_packed_refs_goes_with_the_agent_that_left_it(play):
    play = play("1 t")
    leave = {"run": "git pack-refs --all; touch $(git rev-parse --git-common-dir)/packed-refs.lock"}
    play.rules({"role": "coder", "do": [{"write": "x", "text": "x"}, leave]})
    status, told = play.run()
    assert status == 0, told[-1]
    assert "packed-refs.lock" in warnings(told)
    assert play.ok("merge", "work")["left"] == []
