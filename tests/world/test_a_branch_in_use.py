"""A: a branch is not deleted under those who have it checked out."""

import shutil
from pathlib import Path

import pytest

from conftest import git


def _moved(place) -> tuple[Path, Path]:
    """A worktree that holds a step, and where a person has moved it."""
    tree = place.create("--claim", "--step", "step-1")
    elsewhere = place.root.parent / "elsewhere"
    place.repo.git("worktree", "move", str(tree), str(elsewhere))
    return tree, elsewhere


def test_a_moved_worktree_is_named_instead_of_advising_its_removal(clinic):
    place = clinic()
    place.ok("worktree", "remove", place.tree.name)
    tree, elsewhere = _moved(place)
    back = f"git worktree move {elsewhere} {tree}"
    (need,) = place.ok("status")["needs_you"]
    assert (need["what"], need["command"]) == ("worktree_moved", back)
    assert "work: 1 step is in a moved worktree" in place.said("status")
    found = place.findings()
    (finding,) = found["worktrees"]
    assert str(elsewhere) in finding["message"]
    assert finding["hint"] == back
    place.repo.git("worktree", "move", str(elsewhere), str(tree))
    assert place.findings() == {}
    assert place.ok("status")["needs_you"] == []


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("committed", [False, True])
def test_a_moved_worktree_keeps_its_branch(yard, force, committed):
    place = yard("1")
    tree, elsewhere = _moved(place)
    if committed:
        place.commit(elsewhere, {"new": "x\n"})
    said = place.refused("E034", "worktree", "remove", tree.name, *force)
    assert f"is checked out in {elsewhere}" in said
    assert git("rev-parse", "HEAD", cwd=elsewhere).strip()
    place.repo.git("worktree", "move", str(elsewhere), str(tree))
    words = ("commit", "--plan", "work", "--step", "step-1", "--message=done")
    place.ok("state", "update", "work", "step-1", "--all", "completed", at=tree)
    commit = place.ok(*words, at=tree)["commit_hash"]
    assert len(git("rev-list", "--parents", "-1", commit, cwd=tree).split()) == 2


@pytest.mark.parametrize("where", ["main", "other"])
@pytest.mark.parametrize("command", ["cleanup", "remove", "force"])
def test_a_branch_that_is_checked_out_elsewhere_stays(yard, where, command):
    place = yard("1")
    tree = place.create()
    branch = git("branch", "--show-current", cwd=tree).strip()
    place.commit(tree, {"new": "x\n"})
    place.repo.git("merge", "--quiet", branch)
    shutil.rmtree(tree)
    place.repo.git("worktree", "prune")
    top = place.root if where == "main" else place.root.parent / "other"
    if where == "main":
        place.repo.git("switch", "--quiet", branch)
    else:
        place.repo.git("worktree", "add", "--quiet", str(top), branch)
    before = place.refs()
    if command == "cleanup":
        done = place.ok("worktree", "cleanup")
        (kept,) = done["kept"]
        assert f"its branch is checked out in {top}" in kept["reasons"]
        assert done["removed"] == []
    else:
        words = ("--force",) if command == "force" else ()
        place.refused("E034", "worktree", "remove", tree.name, *words)
    assert place.refs() == before
    assert git("status", "--short", "--branch", cwd=top).startswith(f"## {branch}")


def test_a_branch_that_was_checked_out_at_the_last_moment_stays(yard):
    """No directory had it when it was looked at."""
    from tugtool.git import refs

    place = yard("1")
    place.repo.git("branch", "tugplan/work-20260101")
    place.repo.git("worktree", "add", "--quiet", "../late", "tugplan/work-20260101")
    done = refs.delete_branch(str(place.root), "tugplan/work-20260101", place.start)
    assert done.status
    assert done.said == f"it is checked out in {place.root.parent / 'late'}"


def test_a_dash_s_branch_that_is_checked_out_elsewhere_stays(field):
    path = Path(field.ok("dash", "create", "small")["worktree_path"])
    elsewhere = field.root.parent / "elsewhere"
    field.repo.git("worktree", "move", str(path), str(elsewhere))
    said = field.refused("E034", "dash", "release", "small")
    assert f"is checked out in {elsewhere}" in said
    assert git("rev-parse", "HEAD", cwd=elsewhere).strip() == field.start


def test_nothing_is_committed_on_a_branch_without_a_commit(yard):
    """If a person deletes the branch there, the commit has no history."""
    place = yard("1")
    tree = place.create("--claim", "--step", "step-1")
    place.ok("state", "update", "work", "step-1", "--all", "completed", at=tree)
    branch = git("symbolic-ref", "HEAD", cwd=tree).strip()
    place.repo.git("update-ref", "-d", branch)
    done = place.run("commit", "--plan", "work", "--step", "step-1", "--message=m", at=tree)
    assert done.codes == ["E080"]
