"""Z13: merge says that saved work is left, and what drops what has landed."""

from conftest import Repo


def test_merge_counts_what_is_still_saved_of_the_plan(yard):
    place = yard("1 t")
    tree = place.create("--claim", "--step", "step-1")
    Repo(tree).write({"new": "x\n"})
    # As after a run that was killed: saved, and then gone on with.
    assert place.ok("state", "reset", "work", "step-1")["salvage_ref"] is not None
    place.ok("state", "claim", "work", "--step", "step-1", at=tree)
    place.ok("state", "update", "work", "step-1", "--all", "completed", at=tree)
    place.ok("commit", "--plan", "work", "--step", "step-1", "--message=done", at=tree)
    assert place.ok("merge", "work", "--dry-run")["salvages"] == 1
    said = place.said("merge", "work")
    assert "1 salvage ref of the plan is left: tugcode worktree salvage prune" in said
    assert len(place.ok("worktree", "salvage", "prune")["pruned"]) == 1


def test_where_nothing_was_saved_nothing_is_said(yard):
    place = yard("1 t")
    tree = place.create("--claim", "--step", "step-1")
    place.ok("state", "update", "work", "step-1", "--all", "completed", at=tree)
    place.ok("commit", "--plan", "work", "--step", "step-1", "--message=done", at=tree)
    assert "salvage" not in place.said("merge", "work")
