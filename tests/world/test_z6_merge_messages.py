"""Z6: every step stands in a merge's message, also once an audit has brought all together."""

from conftest import Repo


def _done(yard, *lines: str):
    """A plan whose steps were each done in a worktree of its own; the worktrees."""
    place = yard(*lines)
    trees = []
    for number in range(1, len(lines) + 1):
        tree = place.create("--new", "--claim", "--step", f"step-{number}")
        place.ok("worktree", "sync", at=tree)
        _commit(place, tree, number)
        trees.append(tree)
    return place, trees


def _commit(place, tree, number: int) -> None:
    Repo(tree).write({f"file-{number}": "x\n"})
    place.ok("state", "update", "work", f"step-{number}", "--all", "completed", at=tree)
    words = ("--step", f"step-{number}", "--message", f"step {number}")
    place.ok("commit", "--plan", "work", *words, at=tree)


def _told(place) -> list[str]:
    """The steps that stand in messages of merges."""
    lines = place.repo.git("log", "--merges", "--format=%b", "main").splitlines()
    return sorted(line[2:].partition(":")[0] for line in lines if line.startswith("* "))


def test_after_an_audit_every_step_stands_in_a_message_and_every_branch_has_its_own(yard):
    place, trees = _done(yard, "1 t", "2 t", "3 t", "4 t < 1 2")
    # What the auditor needs to see the whole.
    place.ok("worktree", "sync", "work", "--all", at=trees[0])
    merged = place.ok("merge", "work")
    assert _told(place) == ["step-1", "step-2", "step-3", "step-4"]
    steps = {each["worktree_path"]: each["steps"] for each in merged["branches"]}
    assert [steps[str(tree)] for tree in trees] == [[f"step-{n}"] for n in range(1, 5)]


def test_a_branch_that_took_over_anothers_commits_has_only_its_own_steps(yard):
    """By a fast-forward: then the other's commits are on its own line."""
    place = yard("1 t", "2 t < 1")
    first, second = place.create("--new"), place.create("--new")
    for number, tree in ((1, second), (2, first)):
        place.ok("state", "claim", "work", "--step", f"step-{number}", at=tree)
        place.ok("worktree", "sync", at=tree)
        _commit(place, tree, number)
    merged = place.ok("merge", "work")
    assert _told(place) == ["step-1", "step-2"]
    steps = {each["worktree_path"]: each["steps"] for each in merged["branches"]}
    assert (steps[str(second)], steps[str(first)]) == (["step-1"], ["step-2"])
