"""Z14: a worktree on a disk that is not mounted is not called gone, and not removed."""

from pathlib import Path


def _unmounted(place) -> tuple[Path, Path]:
    """A worktree that holds a step, and its place on a disk that was taken away."""
    tree = place.create("--claim", "--step", "step-1")
    disk = place.root.parent / "disk"
    disk.mkdir()
    place.repo.git("worktree", "move", str(tree), str(disk / "tree"))
    disk.rename(place.root.parent / "in a drawer")
    return tree, disk / "tree"


def test_one_that_was_moved_to_such_a_disk_is_named(clinic):
    place = clinic()
    place.ok("worktree", "remove", place.tree.name)
    tree, there = _unmounted(place)
    look = "git worktree list --verbose"
    (need,) = place.ok("status")["needs_you"]
    assert (need["what"], need["command"]) == ("worktree_moved", look)
    (finding,) = place.findings()["worktrees"]
    assert f"its branch is in {there} now, which is not there" in finding["message"]
    assert finding["hint"] == look
    assert f"is checked out in {there}" in place.refused("E034", "worktree", "remove", tree.name)
    place.refused("E034", "worktree", "remove", tree.name, "--force")
    # Once it is mounted again, all is there.
    (place.root.parent / "in a drawer").rename(there.parent)
    place.repo.git("worktree", "move", str(there), str(tree))
    assert place.findings() == {}


def test_a_person_who_is_told_that_a_directory_is_gone_is_told_of_disks(clinic):
    place = clinic()
    place.tree.rename(place.root.parent / "in a drawer")
    finding = place.one("worktrees")
    assert finding["message"].endswith(
        "and its directory is gone, unless it is on a disk that is not mounted"
    )
    assert "not there" in place.said("status")
