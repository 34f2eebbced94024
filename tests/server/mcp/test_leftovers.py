"""Files that a worker leaves in its worktree: no commit of another step has them."""

import pytest

from tugtool.workflow.salvage import leftovers
from tugtool.workflow.workspace import Workspace


@pytest.fixture
def there(bench):
    return bench("1 t", "2 t", "3 t < 1")


def _left(there, client, *names: str) -> None:
    """A client claims a step in the red worktree, writes files, and ends."""
    server = client(there.red)
    assert "claimed step-1" in server.tool("claim").text
    for name in names or ("half",):
        (there.red / name).write_text(f"{name}\n")
    assert server.end() == (0, "")


def _finished(worker, step: str, attempt: int = 1) -> None:
    worker.said("update", step=step, attempt=attempt, complete_remaining=True)
    worker.said("complete", step=step, attempt=attempt, message=f"feat: {step}")


def _committed(there, at) -> str:
    return there.git("show", "--stat", "--format=", "HEAD", at=at)


def _ref(text: str) -> str:
    return text.partition("saved as ")[2].split(",")[0].split(";")[0]


@pytest.mark.parametrize("how", ["named", "taken"])
def test_files_of_an_ended_client_are_not_in_the_commit_of_another_step(there, client, inside, how):
    _left(there, client)
    if how == "taken":
        inside(there.blue).said("claim", step="step-1")
    worker = inside(there.red)
    text = worker.said("claim", **({"step": "step-2"} if how == "named" else {}))
    assert text.startswith("claimed step-2 (attempt 1)")
    assert "your worktree had files of step-1, attempt 1, which it does not hold any more: " in text
    assert f"half; they are saved as {_ref(text)}, and the worktree is clean" in text
    assert not (there.red / "half").exists()
    (there.red / "own").write_text("x")
    _finished(worker, "step-2")
    assert "own" in _committed(there, there.red)
    assert "half" not in _committed(there, there.red)
    # Nothing is lost.
    assert there.git("show", f"{_ref(text)}:half", at=there.red) == "half\n"


def test_the_next_worker_at_the_same_step_is_told_which_files_are_there(there, client, inside):
    _left(there, client, "half", "more")
    worker = inside(there.red)
    text = worker.said("claim")
    assert text.startswith("claimed step-1 (attempt 2)")
    assert "your worktree still has the files of attempt 1: half, more; go on with them" in text
    assert "salvage apply" not in text
    _finished(worker, "step-1", 2)
    assert "half" in _committed(there, there.red)


def test_the_same_worker_that_claims_again_is_told_which_files_are_there(there, inside):
    worker = inside(there.red)
    worker.said("claim")
    (there.red / "half").write_text("x")
    text = worker.said("claim")
    assert "your worktree still has the files of attempt 1: half; go on with them" in text


def test_saved_work_of_another_worktree_does_not_conflict_with_old_files(
    there, client, inside, tugcode
):
    """Red left a file, blue went on with it and left more: red gets what blue left."""
    _left(there, client)
    blue = inside(there.blue)
    taken = blue.said("claim", step="step-1")
    command = next(line for line in taken.splitlines() if "salvage apply" in line).split()
    tugcode("-C", there.blue, *command[1:])
    assert (there.blue / "half").read_text() == "half\n"
    (there.blue / "half").write_text("all of it\n")
    blue.said("release", step="step-1", attempt=2, reason="enough")
    text = inside(there.red).said("claim", step="step-1")
    assert "which it does not hold any more: half; they are saved as" in text
    command = next(line for line in text.splitlines() if "salvage apply" in line).split()
    done = tugcode("-C", there.red, *command[1:])
    assert done.status == 0, done.err
    assert (there.red / "half").read_text() == "all of it\n"


def test_files_that_may_be_there_already_are_named_and_not_applied_again(there, client, inside):
    _left(there, client)
    blue = inside(there.blue)
    blue.said("claim", step="step-1")
    (there.blue / "half").write_text("other\n")
    again = blue.said("claim", step="step-1")
    assert "your worktree still has the files of attempt 2: half" in again
    assert "of earlier attempts there is also: refs/tug/salvage/" in again
    assert "salvage apply" not in again


def test_a_released_step_leaves_a_clean_worktree_and_its_files_to_the_next_worker(there, inside):
    worker = inside(there.red)
    worker.said("claim")
    (there.red / "half").write_text("x")
    text = worker.said("release", step="step-1", attempt=1, reason="no compiler")
    assert text.startswith("released step-1; your uncommitted files are saved for the next worker")
    assert ", and your worktree is clean; next: claim(" in text
    assert not (there.red / "half").exists()
    taken = inside(there.blue).said("claim", step="step-1")
    assert "tugcode worktree salvage apply refs/tug/salvage/" in taken


def test_a_release_beside_another_step_leaves_the_files(there, inside):
    """They may be the work on the step that is still held."""
    worker = inside(there.red)
    worker.said("claim")
    there.ok("claim", "work", "--step", "step-2", "--also", at=there.red)
    (there.red / "half").write_text("x")
    text = worker.said("release", step="step-1", attempt=1, reason="x")
    assert "your worktree is clean" not in text
    assert (there.red / "half").exists()


def test_files_that_no_attempt_left_stay_and_are_named(there, inside):
    (there.red / ".env").write_text("x")
    text = inside(there.red).said("claim")
    assert "uncommitted files were in your worktree before: .env; complete with a message" in text
    assert (there.red / ".env").exists()


def test_a_step_is_not_completed_without_a_commit_of_its_files(there, inside):
    worker = inside(there.red)
    worker.said("claim")
    worker.said("update", step="step-1", attempt=1, complete_remaining=True)
    (there.red / "work").write_text("x")
    text = worker.refused("complete", step="step-1", attempt=1)
    assert f"{there.red} has uncommitted files (work), which the next step would commit" in text
    assert text.endswith('next: complete(step="step-1", attempt=1, message="...")')


def test_while_the_plan_is_paused_the_files_stay(there, client, inside):
    _left(there, client)
    there.ok("pause", "work")
    assert inside(there.red).said("claim").startswith("claimed: false, paused")
    assert (there.red / "half").exists()


def test_the_command_line_goes_on_or_refuses_as_well(there, client, tugcode):
    """The note of an ended client is that of a lost step: E037."""
    _left(there, client)
    refused = tugcode("-C", there.red, "claim", "work", "--step", "step-2")
    assert "E037" in refused.err
    assert there.ok("claim", "work", at=there.red)["anchor"] == "step-1"


def test_another_worker_may_be_first(there, client, inside):
    """It takes the step between the look at the files and the claim."""
    _left(there, client)
    found = leftovers.find_leftovers(Workspace(str(there.red)), ".tugtool/tugplan-work.md")
    assert (found.anchor, found.attempt, found.is_newest) == ("step-1", 1, True)
    worker = inside(there.red)
    space = worker.session.space()
    assert found.go_on_with(space, ".tugtool/tugplan-work.md", None) == "step-1"
    assert found.go_on_with(space, ".tugtool/tugplan-work.md", "step-2") is None
    there.ok("claim", "work", "--step", "step-1", at=there.blue)
    assert found.go_on_with(space, ".tugtool/tugplan-work.md", None) is None
    assert found.is_of_other_step


def test_the_main_worktree_and_a_clean_one_have_no_leftovers(there):
    plan = ".tugtool/tugplan-work.md"
    (there.repo.path / "file").write_text("x")
    assert leftovers.find_leftovers(Workspace(str(there.repo.path)), plan) is None
    assert leftovers.find_leftovers(Workspace(str(there.red)), plan) is None
