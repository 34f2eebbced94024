"""Z5: in a submodule the main worktree is where its files are."""

from conftest import Repo, git
from support.state import markdown


def _submodule(tmp_path) -> Repo:
    """A repository with a plan, as a submodule of another."""
    part = Repo.init(tmp_path / "part")
    part.plan("work", markdown("1 t"))
    part.commit()
    whole = Repo.init(tmp_path / "whole")
    whole.git("submodule", "--quiet", "add", str(part.path), "sub")
    whole.commit()
    return Repo(whole.path / "sub")


def test_status_lists_the_submodule_itself(tmp_path, tugcode):
    sub = _submodule(tmp_path)
    data = tugcode("-C", sub.path, "status", "--json").data
    assert [(tree["path"], tree["main"]) for tree in data["worktrees"]] == [(str(sub.path), True)]
    assert ".git/modules" not in tugcode("-C", sub.path, "status").out


def test_a_branch_that_the_submodule_is_on_is_known_to_be_its_own(tmp_path, tugcode):
    from tugtool.git import refs

    sub = _submodule(tmp_path)
    sub.git("switch", "--quiet", "-c", "here")
    done = refs.delete_branch(str(sub.path), "here", sub.git("rev-parse", "HEAD").strip())
    assert done.said == f"it is checked out in {sub.path}"
    linked = sub.linked(tmp_path / "linked")
    data = tugcode("-C", linked, "status", "--json").data
    assert [tree["path"] for tree in data["worktrees"]] == [str(sub.path), str(linked)]
    assert git("rev-parse", "HEAD", cwd=linked)
