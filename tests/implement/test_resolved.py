"""What a person puts right beside a run: a conflict, the plan's text; the run goes on with it."""

import re
import subprocess
from pathlib import Path

import pytest

from conftest import git
from implement.test_move import CHANGE, acts, moved
from implement.test_stop import until
from support.implement import Play, events, kinds
from support.implement_aftermath import aftermath
from support.state import KEY

#: Both change the same line; the third needs both.
AT_ODDS = ("1 t", "2 t", "3 t < 1 2")


def at_odds(make) -> tuple[Play, str]:
    """A run that has parked the third, and why."""
    play = make(*AT_ODDS)
    play.cast("coder", "reviewer", workers=2)
    play.rules(
        {"role": "coder", "step": "step-1", "do": acts(CHANGE, waits="step-2")},
        {"role": "coder", "step": "step-2", "do": acts(CHANGE, waits="step-1")},
        {"role": "coder", "step": "step-3", "do": [{"run": "grep -q resolved code.txt"}]},
    )
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "unfinished")
    return play, told[-1]["left"][0]["reason"]


def resolve(tree: Path, commands: list[str]) -> None:
    """As a person does it."""
    for command in commands:
        merged = subprocess.run(command.split(), cwd=tree, capture_output=True, check=False)
        if merged.returncode:
            (tree / "code.txt").write_text("resolved\n")
            git("commit", "--quiet", "--all", "--message=resolved", cwd=tree)


@pytest.mark.proof(share=0)
def test_a_conflict_that_a_person_resolved_where_the_message_says_is_used(play):
    play, reason = at_odds(play)
    [place] = re.findall(r"such as (\S+),", reason)
    resolve(Path(place), re.findall(r"git merge [0-9a-f]+", reason))
    [free] = re.findall(r"tugcode (reset .+)$", reason)
    [parked] = play.ok("state", "review")["parked_steps"]
    assert parked["reason"] == reason
    assert "docs/reference/git.md#conflicts" in reason
    play.ok("state", *free.split())
    is_done_with_the_resolution(play)


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("number", [0, 1])
def test_a_conflict_that_a_person_resolved_in_any_worktree_is_used(play, number):
    play, _ = at_odds(play)
    commits = [play.commits(step)[0] for step in ("step-1", "step-2")]
    resolve(play.trees()[number], [f"git merge {commit}" for commit in commits])
    play.ok("state", "reset", "work", "step-3")
    is_done_with_the_resolution(play)


@pytest.mark.proof(share=0)
def test_a_resolution_is_used_also_where_both_worktrees_have_gone_on(play):
    play, _ = at_odds(play)
    first, second = play.trees()
    resolve(second, [f"git merge {play.commits(step)[0]}" for step in ("step-1", "step-2")])
    # In the first, something stands in the way of what was resolved.
    (first / "code.txt").write_text("other\n")
    git("commit", "--quiet", "--all", "--message=other", cwd=first)
    branch = git("symbolic-ref", "--short", "HEAD", cwd=second).strip()
    git("worktree", "lock", str(second), cwd=play.root)
    play.ok("state", "reset", "work", "step-3")
    status, told = play.run("--workers", 1)
    assert status == 0, told
    assert [event["step_anchor"] for event in moved(told)] == ["step-3"]
    [commit] = play.commits("step-3")
    assert git("merge-base", "--is-ancestor", branch, commit, cwd=play.root) == ""


def is_done_with_the_resolution(play: Play) -> None:
    status, told = play.run()
    assert (status, told[-1]["status"]) == (0, "done"), told[-1]
    aftermath(play, told)
    [commit] = play.commits("step-3")
    assert git("show", f"{commit}:code.txt", cwd=play.root) == "resolved\n"
    play.ok("merge", "work")
    assert (play.root / "code.txt").read_text() == "resolved\n"


@pytest.mark.proof(share=0)
def test_a_worker_waits_while_the_plan_on_main_is_another_and_goes_on_once_it_is_back(play):
    play = play("1 t", "2 t < 1", "3 t < 1")
    play.cast("coder", "reviewer", workers=2)
    change = f"cd ../..; echo more >> {KEY}; git commit --quiet --all --message=more"
    play.rules(
        {"role": "coder", "step": "step-1", "do": [{"write": "one", "text": ""}, {"run": change}]},
        *(
            {"role": "coder", "step": step, "do": acts(waits=other)}
            for step, other in (("step-2", "step-3"), ("step-3", "step-2"))
        ),
    )
    process = play.start()
    told = until(process, "warning")
    assert told[-1]["message"].startswith("while the coder ran, main of the main checkout moved")
    while not (said := told[-1]["message"]).startswith("worker "):
        told += until(process, "warning")
    assert f"{KEY} from main, differs from the agreed text" in said
    assert "to see the difference: tugcode diff work; to agree" in said
    git("revert", "--no-edit", "HEAD", cwd=play.root)
    out, err = process.communicate(timeout=60)
    told += events(out)
    assert (process.returncode, err, told[-1]["status"]) == (0, "", "done")
    assert "worker_failed" not in kinds(told)
    assert len(play.trees()) == 2
    aftermath(play, told)
