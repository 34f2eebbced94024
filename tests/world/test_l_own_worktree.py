"""L: a worktree that a person made outside `.tugtree/` stays after merge, as does its branch."""

import shutil
from pathlib import Path


def _prepared(work) -> tuple[object, Path, Path]:
    """A done plan, whose directory was deleted and whose branch a person has checked out."""
    done = work("1 t")
    tree = done.branch(row=True)
    done.finish("step-1", done.commit(tree, "step-1"), tree)
    shutil.rmtree(tree)
    done.repo.git("worktree", "prune")
    own = done.repo.path.parent / "own"
    done.repo.git("worktree", "add", "--quiet", str(own), "tugplan/work-20260221")
    exclude = done.repo.path / ".git" / "info" / "exclude"
    exclude.write_text(f"{exclude.read_text()}notes\n")
    (own / "notes").write_text("mine\n")
    return done, tree, own


def test_merge_leaves_and_lists_a_worktree_outside(work):
    done, _, own = _prepared(work)
    merged = done.run("merge", "work", "--json")
    assert merged.status == 0
    assert (own / "notes").read_text() == "mine\n", merged.data["removed_worktrees"]
    assert merged.data["removed_worktrees"] == merged.data["removed_branches"] == []
    (left,) = merged.data["left"]
    assert left["worktree_path"] == str(own)
    assert left["reason"] == "it is outside .tugtree/"
    assert done.git(own, "status", "--short", "--branch") == "## tugplan/work-20260221\n"


def test_merge_deletes_no_remains_outside(work):
    """What lost its `.git` outside is not a leftover of ours."""
    done, _, own = _prepared(work)
    (own / ".git").unlink()
    assert done.run("merge", "work", "--json").status == 0
    assert (own / "notes").exists()


def test_one_branch_in_two_worktrees_keeps_both(work):
    done, tree, own = _prepared(work)
    done.repo.git("worktree", "add", "--quiet", "--force", str(tree), "tugplan/work-20260221")
    merged = done.run("merge", "work", "--json")
    assert merged.status == 0
    assert own.exists()
    assert tree.exists()
    assert [each["worktree_path"] for each in merged.data["left"]] == [str(own)]
