"""What the tools record is what happened: commits, notes, claims and worktrees."""

import pytest

from support.mcp import TASK
from tugtool.server.mcp.held import HeldSteps
from tugtool.system import clock

CHECKED = "1 tc | `test -e made` passes"
DONE = {"step": "step-1", "attempt": 1}


@pytest.fixture
def there(bench):
    return bench("1 t", "2 t", "3 t")


@pytest.fixture
def held(inside):
    """Make a server in this process that holds what is claimed through it."""

    def make(cwd, role: str = "worker"):
        terms = {"lease_seconds": 60, "idle_seconds": 600, "ticks": clock.ticks}
        return inside(cwd, role, held=HeldSteps(str(cwd), **terms))

    return make


@pytest.fixture
def ready(there, inside):
    """A worker with the file `work` in its worktree, whose items are all ticked."""
    worker = inside(there.red)
    worker.said("claim")
    worker.said("update", **DONE, complete_remaining=True)
    (there.red / "work").write_text("x")
    return worker


def _commit(there, *, at=None) -> str:
    at = at or there.red
    there.git("add", "--all", at=at)
    there.git("commit", "--quiet", "--message", "by hand", at=at)
    return there.git("rev-parse", "HEAD", at=at).strip()


def test_a_commit_from_before_the_step_is_not_its_work(there, ready):
    text = ready.refused("complete", **DONE, commit="HEAD")
    assert "has no work on step-1: all of it was there before" in text
    assert 'next: complete(step="step-1", attempt=1, message="...")' in text
    assert there.ok("show", "work")["steps"][0]["status"] == "claimed"


def test_a_commit_beside_uncommitted_files_is_refused_and_then_takes_all(there, ready):
    made = _commit(there)
    (there.red / "more").write_text("x")
    text = ready.refused("complete", **DONE, commit=made)
    assert "has uncommitted files (more), which the next step would commit" in text
    made = _commit(there)
    assert f"(commit {made[:12]})" in ready.said("complete", **DONE, commit=made)


def test_the_commit_of_another_step_is_not_the_work_of_this_one(there, ready):
    made = _commit(there)
    ready.said("complete", **DONE, commit=made)
    ready.said("claim", step="step-2")
    ready.said("update", step="step-2", attempt=1, complete_remaining=True)
    text = ready.refused("complete", step="step-2", attempt=1, commit="HEAD")
    assert f"commit {made[:12]} is that of step-1" in text
    # There was nothing to commit, and the record says so.
    assert "completed step-2; 1 remains" in ready.said("complete", step="step-2", attempt=1)


def test_a_commit_that_is_not_on_the_branch_is_refused(there, ready):
    (there.red / "work").unlink()
    (there.blue / "other").write_text("x")
    made = _commit(there, at=there.blue)
    text = ready.refused("complete", **DONE, commit=made)
    assert f"commit {made[:12]} is not on the branch of {there.red}" in text


def test_a_merge_of_other_steps_is_not_work_either(there, ready, inside):
    _commit(there)
    ready.said("complete", **DONE, commit="HEAD")
    other = inside(there.blue)
    other.said("claim")
    other.said("update", step="step-2", attempt=1, complete_remaining=True)
    there.git("merge", "--quiet", "--no-ff", "-m", "m", "red", at=there.blue)
    assert "has no work on step-2" in other.refused(
        "complete", step="step-2", attempt=1, commit="HEAD"
    )


@pytest.mark.parametrize("how", [{"message": "feat: it"}, {"commit": "HEAD"}])
def test_a_repetition_says_what_it_does_not_record(there, ready, how):
    ready.said("complete", **DONE, message="feat: one")
    (there.red / "late").write_text("x")
    if "commit" in how:
        _commit(there)
    text = ready.said("complete", **DONE, **how)
    assert text.startswith("completed already step-1 (commit ")
    words = "what was changed since is not in it" if "message" in how else "HEAD is not recorded"
    assert words in text


def test_the_command_line_warns_and_records_as_before(there, tugcode):
    """Every commit that git knows is taken; what is odd about it is said."""
    there.ok("claim", "work", at=there.red)
    there.ok("update", "work", "step-1", "--all", "completed", at=there.red)
    (there.red / "work").write_text("x")
    line = ("complete", "work", "step-1", "--commit", "HEAD", "--json")
    done = tugcode("-C", there.red, *line)
    assert done.codes == ["W161", "W161"]
    first, second = (each["message"] for each in done.envelope()["issues"])
    assert "all of it was there before" in first
    assert "has uncommitted files (work)" in second
    made = _commit(there)
    again = tugcode("-C", there.red, "complete", "work", "step-1", "--commit", made)
    assert f"W162: step-1 was completed before, with commit {done.data['commit_hash'][:12]}" in (
        again.err.replace("\n", " ").replace("         ", "")
    )
    assert there.ok("show", "work")["steps"][0]["commit_hash"] == done.data["commit_hash"]


def test_a_refused_release_leaves_no_note(there, ready):
    ready.said("complete", **DONE, message="feat: one")
    text = ready.refused("release", **DONE, reason="secret note")
    assert text.startswith("refused, E050: ")
    assert text.endswith('next: claim(plan="work")')
    assert "secret note" not in ready.said("show", step="step-1")


def test_the_reason_of_a_release_is_told_to_the_next_worker_by_any_edge(there, inside):
    there.ok("claim", "work", at=there.red)
    there.ok("release", "work", "step-1", "--reason", "no compiler", at=there.red)
    assert "note: given back: no compiler" in inside(there.blue).said("claim")
    # What a person decides is not the worker's word.
    there.ok("release", "work", "step-1", "--force", "--reason", "it hangs")
    assert "it hangs" not in inside(there.red).said("show", step="step-1")


def test_after_a_release_the_same_worktree_is_told_about_its_saved_files(there, inside, tugcode):
    worker = inside(there.red)
    worker.said("claim")
    (there.red / "half").write_text("x")
    worker.said("update", **DONE, entries=[TASK])
    worker.said("release", **DONE, reason="tired")
    text = worker.said("claim", step="step-1")
    assert "[x] task 0" in text
    (command,) = [line for line in text.splitlines() if "salvage apply" in line]
    ref = command.split()[-1]
    assert f"given back; its files are saved as {ref}" in worker.said("show", step="step-1")
    assert tugcode("-C", there.red, "worktree", "salvage", "apply", ref).status == 0
    assert (there.red / "half").read_text() == "x"


def test_an_earlier_attempt_without_work_of_its_own_is_not_to_be_merged(there, inside):
    """The other worktree has commits, but of a step that is completed."""
    worker = inside(there.red)
    worker.said("claim")
    (there.red / "one").write_text("x")
    worker.said("update", **DONE, complete_remaining=True)
    worker.said("complete", **DONE, message="feat: one")
    worker.said("claim")
    worker.said("release", step="step-2", attempt=1, reason="no")
    text = inside(there.blue).said("claim", step="step-2")
    assert "attempt 1 by" in text
    assert "git merge" not in text


@pytest.mark.parametrize("how", ["paused", "held"])
def test_a_claim_that_gets_nothing_leaves_the_files_alone(there, client, inside, how):
    server = client(there.red)
    server.tool("claim", step="step-2")
    (there.red / "half").write_text("x")
    assert server.end() == (0, "")
    other = inside(there.blue)
    other.said("claim", step="step-2")
    worker = inside(there.red)
    if how == "paused":
        there.ok("pause", "work")
        assert worker.said("claim").startswith("claimed: false, paused")
    else:
        assert "refused, E053" in worker.refused("claim", step="step-2")
    assert (there.red / "half").exists()
    if how == "paused":
        there.ok("resume", "work")
    text = worker.said("claim")
    assert "your worktree had files of step-2, attempt 1" in text
    assert not (there.red / "half").exists()


def test_a_client_that_claims_twice_has_the_same_attempt(there, held):
    worker = held(there.red)
    assert "(attempt 1)" in worker.said("claim")
    (there.red / "half").write_text("x")
    for given in ({}, {"step": "step-1"}, {"step": "1"}):
        text = worker.said("claim", **given)
        assert text.startswith("claimed step-1 (attempt 1)")
        assert "you hold it already: this is attempt 1 as before" in text
    text = worker.refused("claim", step="step-2")
    assert 'next: release(step="step-1", attempt=1, reason="...")' in text
    # What was taken from it meanwhile is claimed anew.
    there.ok("reset", "work", "step-1")
    assert worker.said("claim").startswith("claimed step-1 (attempt 2)")
    other = held(there.red)
    assert other.said("claim").startswith("claimed step-1 (attempt 3)")
    assert "stop: true" in worker.refused("update", step="step-1", attempt=2)


def test_the_server_remembers_the_worktree_of_a_claim(there, held):
    worker, red = held(there.repo.path), str(there.red)
    text = worker.said("claim", plan="work", worktree=red)
    assert f'complete(step="step-1", attempt=1, message="...", worktree="{red}")' in text
    assert f'worktree="{red}"' in worker.said("update", **DONE, complete_remaining=True)
    (there.red / "made").write_text("x")
    assert "completed step-1 (commit" in worker.said("complete", **DONE, message="feat: it")
    assert "made" in there.git("show", "--stat", "--format=", "HEAD", at=there.red)


def test_nobody_can_work_in_a_worktree_that_is_not_there(there, inside, tmp_path):
    worker = inside(there.repo.path)
    for named in ("nonexist", str(tmp_path)):
        text = worker.refused("claim", worktree=named)
        assert f'"{named}" is not a worktree of this repository' in text
        assert "next: " in text
    assert there.ok("show", "work")["steps"][0]["attempt"] == 0


def test_a_checkpoint_that_is_only_ticked_is_said_to_be_unproven(bench, inside):
    there = bench(CHECKED)
    worker = inside(there.red)
    worker.said("claim")
    words = "not proven, so a person is asked before the merge: checkpoint 0"
    text = worker.said("update", **DONE, complete_remaining=True)
    assert f'{words}; to prove it: verify(step="step-1", attempt=1)' in text
    done = worker.said("complete", **DONE, message="feat: it")
    assert words in done
    assert "(tugcode review work) and merges it (tugcode merge work)" in done
    assert "tugcode review work" in worker.said("claim")


def test_a_checkpoint_that_passed_is_not(bench, inside):
    there = bench(CHECKED)
    worker = inside(there.red)
    worker.said("claim")
    failed = worker.said("verify", **DONE)
    assert "mend what failed, then" in failed
    (there.red / "made").write_text("x")
    worker.said("verify", **DONE)
    assert "not proven" not in worker.said("update", **DONE, complete_remaining=True)
