"""M: merge brings nothing of a plan that is not done, and who mixes plans is told."""

from pathlib import Path

import pytest

from conftest import Repo, git
from support.state import markdown
from support.worktree import Yard
from tugtool.workflow.commit.intent import mixed_plans
from tugtool.workflow.workspace import Workspace

TWO = ".tugtool/tugplan-two.md"


def _commit(place: Yard, plan: str, step: str, at: Path) -> dict:
    for anchor in (step, *(["step-1-1"] if plan == "work" else [])):
        place.ok("state", "update", plan, anchor, "--all", "completed", at=at)
    return place.ok("commit", "--plan", plan, "--step", step, "--message=done", at=at)


@pytest.fixture
def both(yard):
    """The plans `work` (one step), `two` (two steps) and `third`; a worktree of `work`."""
    place = yard("1 t", "1.1 t")
    place.repo.plan("two", markdown("1 t", "2 t < 1"))
    place.repo.plan("third", markdown("1 t"))
    place.repo.commit()
    place.ok("state", "init", "two")
    place.ok("state", "init", "third")
    place.tree = place.create()
    return place


def _mixed(place: Yard) -> str:
    """A step of `two`, committed on a branch that somebody merges into the worktree of `work`."""
    own = place.root.parent / "two"
    place.repo.git("worktree", "add", "--quiet", "-b", "two", str(own))
    place.ok("state", "claim", "two", at=own)
    Repo(own).write({"two": "2\n"})
    commit = _commit(place, "two", "step-1", own)["commit_hash"]
    git("merge", "--quiet", "two", cwd=place.tree)
    place.ok("state", "claim", "work", at=place.tree)
    _commit(place, "work", "step-1", place.tree)
    return commit


def test_merge_refuses_commits_of_a_plan_that_is_not_done(both):
    commit = _mixed(both)
    said = both.refused("E062", "merge", "work")
    assert "step-1 of .tugtool/tugplan-two.md" in said
    assert commit[:12] in said
    both.refused("E062", "merge", "work", "--dry-run")
    # Once the other is done, both can be merged.
    other = both.create("--new", plan="two")
    both.ok("state", "claim", "two", at=other)
    both.ok("worktree", "sync", "two", at=other)
    _commit(both, "two", "step-2", other)
    both.ok("merge", "work")
    both.ok("merge", "two")


def test_a_claim_in_another_plans_worktree_is_refused_and_the_right_one_named(both):
    claimed = both.run("state", "claim", "two", at=both.tree)
    assert claimed.codes == ["E036"]
    (issue,) = claimed.envelope()["issues"]
    assert f"{both.tree} is a worktree of .tugtool/tugplan-work.md" in issue["message"]
    assert issue["hint"] == "tugcode worktree create two"
    right = both.create(plan="two")
    assert both.run("state", "claim", "two", at=both.tree).envelope()["issues"][0]["hint"] == (
        f"cd {right}"
    )
    assert both.rows("select * from attempts") == []
    assert both.ok("state", "claim", "two", at=right)["claimed"]


def test_in_a_worktree_of_its_own_a_worker_is_not_warned(both):
    """Other worktrees may be recorded for any plan, and hold any step."""
    both.ok("state", "claim", "work", at=both.tree)
    other = both.create("--new", plan="two")
    assert both.run("state", "claim", "two", at=other).codes == []
    assert _commit(both, "two", "step-1", other)["warnings"] == []


def test_only_what_the_worktree_itself_serves_counts(both):
    both.ok("state", "claim", "work", at=both.tree)
    other = both.create("--new", plan="two")
    both.ok("state", "claim", "two", at=other)
    space = Workspace(str(other))
    assert mixed_plans(space.store, TWO, space.owner) == []


def test_a_commit_that_takes_a_held_step_of_another_plan_along_is_told_of(both):
    tree = both.root.parent / "own"
    both.repo.git("worktree", "add", "--quiet", "-b", "own", str(tree))
    both.ok("state", "claim", "work", at=tree)
    both.ok("state", "claim", "two", at=tree)
    Repo(tree).write({"work of one": "1\n"})
    both.ok("state", "update", "two", "step-1", "--all", "completed", at=tree)
    done = both.run("commit", "--plan", "two", "--step", "step-1", "--message=m", at=tree)
    assert done.codes == ["W115"]
    assert done.data["warnings"] == [
        f"{tree} holds step-1 of .tugtool/tugplan-work.md: a commit for {TWO} takes all files "
        "there, and comes to the base branch with that plan"
    ]


@pytest.mark.parametrize("names", [("a-20260101", "a"), ("a b", "a-b")])
def test_a_branch_that_is_only_called_alike_is_not_merged(yard, names):
    """After a lost record branches are told by their names, and names may be alike."""
    place = yard("1 t")
    for name, lines in zip(names, (("1 t", "2 t < 1"), ("1 t",)), strict=True):
        place.repo.plan(name, markdown(*lines))
    place.repo.commit()
    trees = {}
    for name in names:
        key = f".tugtool/tugplan-{name}.md"
        trees[name] = place.create("--claim", plan=key)
        Repo(trees[name]).write({name: "x\n"})
        _commit(place, key, "step-1", trees[name])
    other, done = names
    for path in (*place.root.glob(".tugtool/state.*"), *place.root.glob(".git/tugtool/*")):
        path.unlink()
    place.ok("state", "init", f".tugtool/tugplan-{done}.md")
    place.ok("state", "reconcile", f".tugtool/tugplan-{done}.md")
    merged = place.run("merge", f".tugtool/tugplan-{done}.md")
    assert merged.status == 0, merged.out
    assert len(merged.data["branches"]) == 1
    assert (place.root / done).exists()
    assert not (place.root / other).exists()
    assert trees[other].exists()
    assert merged.codes == ["W116"]
    branch = git("branch", "--show-current", cwd=trees[other]).strip()
    assert branch in merged.envelope()["issues"][0]["message"]
