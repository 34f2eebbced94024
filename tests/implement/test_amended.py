"""A person amends the plan while it is carried out: the run goes on, by the new text."""

import sys

import pytest

from conftest import git
from support.implement import kinds
from support.state import KEY, markdown

LINES = ("1 tc", "2 t", "3 t < 1")


@pytest.fixture
def amended(play):
    """Play the plan, in which the coder of step-1 sees a person agree to another text."""

    def run(*lines: str, flags: str = "") -> tuple:
        made = play(*LINES)
        made.cast(workers=1)
        new = made.root.parent / "new.md"
        new.write_text(markdown(*lines))
        script = made.root.parent / "amend.sh"
        script.write_text(
            f"unset TUGCODE_ROLE TUGCODE_ATTEMPT TUGCODE_STEP GIT_CEILING_DIRECTORIES\n"
            f"cd {made.root} && cp {new} {KEY} && git commit --quiet -m amend -- {KEY}\n"
            f"{sys.executable} -m tugtool plan accept work {flags}\n"
        )
        do = [{"write": "work.txt", "text": "x"}, {"run": f"sh {script} > {script}.out 2>&1"}]
        made.rules({"role": "coder", "step": "step-1", "times": 1, "do": do})
        status, told = made.run()
        assert status == 0, (told[-3:], (script.parent / "amend.sh.out").read_text())
        return made, told

    return run


@pytest.mark.proof(share=0)
def test_steps_whose_text_did_not_change_go_on_untouched(amended):
    made, told = amended("1 tc", "2 tt", "3 t < 1", "4 t < 2")
    assert made.steps() == dict.fromkeys(("step-1", "step-2", "step-3", "step-4"), "completed")
    assert [made.outcomes(step) for step in made.steps()] == [["completed"]] * 4
    assert "amended" in kinds(told)
    assert made.artifacts("escalation") == []
    tree = made.trees()[0]
    assert (tree / KEY).read_text() == made.root.joinpath(KEY).read_text()
    # The agreed text is a commit of its own, and of nothing else.
    (brought,) = git("log", "--format=%H", "--grep=^Agreed text of", cwd=tree).split()
    assert git("show", "--format=", "--name-only", brought, cwd=tree).split() == [KEY]
    made.ok("merge", "work")


@pytest.mark.proof(share=0)
def test_a_step_that_changed_under_its_worker_is_claimed_anew_with_its_work(amended):
    made, told = amended("1 ttc", "2 t", "3 t < 1", flags="--drop-claimed")
    assert made.outcomes("step-1") == ["reset", "completed"]
    assert {made.outcomes(step)[-1] for step in ("step-2", "step-3")} == {"completed"}
    lost = next(each for each in told if each["event"] == "lost")
    assert lost["step_anchor"] == "step-1"
    # What the first coder had written was saved, and is in the step's commit.
    assert any(each["event"] == "resumed" for each in told)
    (commit,) = made.commits("step-1")
    assert "work.txt" in git("show", "--format=", "--name-only", commit, cwd=made.root)


@pytest.mark.proof(share=0)
def test_a_run_that_loses_a_step_leaves_its_worktree_to_the_lost_work(play):
    """While the coder of step-1 is at it, the step is taken; the run goes on with step-2."""
    made = play("1 t", "2 t")
    made.cast(workers=1)
    take = made.root.parent / "take.sh"
    take.write_text(
        "unset TUGCODE_ROLE TUGCODE_ATTEMPT TUGCODE_STEP GIT_CEILING_DIRECTORIES\n"
        f"{sys.executable} -m tugtool -C {made.root} claim work --step step-1 --force"
        " --lease-duration 0.01\n"
    )
    do = [{"write": "left.txt", "text": "left"}, {"run": f"sh {take} > {take}.out 2>&1"}]
    made.rules({"role": "coder", "step": "step-1", "times": 1, "do": do})
    _, told = made.run()
    assert "lost" in kinds(told)
    (commit,) = made.commits("step-2")
    assert "left.txt" not in git("show", "--format=", "--name-only", commit, cwd=made.root)
    (red,) = [path for path in made.trees() if (path / "left.txt").exists()]
    # No step is left that could be begun there, and nothing is lost by cleaning it.
    assert made.ok("claim", "work", at=red)["claimed"] is False
    assert (red / "left.txt").exists()
    ref = made.ok("worktree", "clean", at=red)["salvage_ref"]
    assert git("cat-file", "blob", f"{ref}:left.txt", cwd=made.root) == "left"
