"""C: a fault of ours ends a worker and leaves nothing claimed; closed directories are opened."""

import errno
import resource

import pytest

from conftest import git
from support.implement import events, kinds
from support.implement_aftermath import aftermath
from tugtool.implement import step
from tugtool.implement.enforcement import Enforcement
from tugtool.system import command


def test_a_reviewer_that_leaves_a_read_only_directory_ends_nothing(play):
    play = play("1 t", "2 t")
    line = "mkdir -p cache/module; echo x > cache/module/file.txt; chmod 555 cache/module"
    play.rules({"role": "reviewer", "do": [{"run": line}]})
    run = play.start("--workers", 2, as_root=False)
    out, err = run.communicate()
    assert run.returncode == 0, out + err
    for anchor in ("step-1", "step-2"):
        [commit] = play.commits(anchor)
        assert not git("ls-tree", commit, "cache", cwd=play.root)
    refs = git("for-each-ref", "--format=%(refname)", "refs/tug/salvage", cwd=play.root).split()
    assert all(git("ls-tree", ref, "cache/module/file.txt", cwd=play.root) for ref in refs)
    assert len(refs) == 2
    aftermath(play, events(out))


def test_a_reviewer_that_leaves_an_unreadable_directory_ends_nothing(play):
    play = play("1 t")
    line = "mkdir closed; echo x > closed/file.txt; chmod 000 closed"
    play.rules({"role": "reviewer", "do": [{"run": line}]})
    run = play.start(as_root=False)
    out, err = run.communicate()
    assert run.returncode == 0, out + err
    assert not (play.trees()[0] / "closed").exists()
    [ref] = git("for-each-ref", "--format=%(refname)", "refs/tug/salvage", cwd=play.root).split()
    assert git("ls-tree", ref, "closed/file.txt", cwd=play.root)
    aftermath(play, events(out))


def test_a_read_only_directory_in_work_that_is_given_back_is_saved_and_cleared(play):
    play = play("1 t")
    line = "mkdir -p cache/module; echo x > cache/module/file.txt; chmod 555 cache/module"
    acts = [{"run": line}, {"exit": 1}]
    play.rules({"role": "coder", "attempt": 1, "do": acts})
    run = play.start(as_root=False)
    out, err = run.communicate()
    assert run.returncode == 0, out + err
    assert "stays in" not in out
    aftermath(play, events(out))


def test_a_fault_of_ours_gives_the_claim_back_and_is_told(play, monkeypatch):
    play = play("1 t", "2 t")
    right, faults = step.carry_out, ["step-1"]

    def carry_out(work):
        if work.anchor in faults:
            faults.remove(work.anchor)
            raise RuntimeError("nobody foresaw this")
        return right(work)

    monkeypatch.setattr(step, "carry_out", carry_out)
    status, told = play.run("--workers", 2)
    assert status == 3
    # The last line is the fault itself, E099, which is no event.
    assert told.pop() == {}
    [failed] = [each for each in told if each["event"] == "worker_failed"]
    assert failed["reason"] == "RuntimeError: nobody foresaw this"
    assert kinds(told).count("completed") == 2
    assert play.outcomes("step-1") == ["failed", "completed"]
    assert play.held() == []


def test_a_refusal_of_the_system_is_trouble_of_the_step(play, monkeypatch):
    play = play("1 t")
    right, refusals = Enforcement.restore, [OSError(errno.EMFILE, "Too many open files")]

    def restore(guard):
        if refusals:
            raise refusals.pop()
        return right(guard)

    monkeypatch.setattr(Enforcement, "restore", restore)
    status, told = play.run()
    assert status == 0
    [failed] = [each for each in told if each["event"] == "failed"]
    assert "Too many open files" in failed["reason"]
    aftermath(play, told)


@pytest.fixture
def few_descriptors():
    """The soft limit that macOS has."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_soft_limit_of_descriptors_is_raised_for_a_run(play, few_descriptors):
    play = play("1 t")
    assert play.run()[0] == 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == min(hard, command.MOST_DESCRIPTORS)
