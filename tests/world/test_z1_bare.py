"""Z1: a worktree of a bare repository is refused with what to do instead."""

from conftest import Repo, git


def test_a_worktree_of_a_bare_repository_is_told_to_clone(repo, tugcode, tmp_path):
    repo.commit({"a.txt": "a\n"})
    bare, tree = tmp_path / "bare.git", tmp_path / "tree"
    git("clone", "--quiet", "--bare", str(repo.path), str(bare), cwd=tmp_path)
    git("worktree", "add", "--quiet", str(tree), "main", cwd=bare)
    refused = tugcode("-C", tree, "status", "--json").envelope()["issues"][0]
    assert refused["code"] == "E030"
    assert "work in a clone" in refused["message"]
    assert refused["hint"] == f"git clone {bare} DIR"

    git("clone", "--quiet", str(bare), str(tmp_path / "clone"), cwd=tmp_path)
    assert tugcode("-C", Repo(tmp_path / "clone").path, "status", "--json").status == 0
