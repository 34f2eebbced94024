"""One file of a tree is rewritten in git's objects alone; git itself is the judge."""

import pytest

from conftest import git
from tugtool.git import merge_tree


@pytest.mark.parametrize("form", ["sha1", "sha256"])
@pytest.mark.parametrize("path", ["b", "deep/er/b"])
def test_one_file_of_a_tree_is_rewritten_and_all_else_stays(tmp_path, form, path):
    git("init", "--quiet", f"--object-format={form}", str(tmp_path), cwd=tmp_path)
    directory = (tmp_path / path).parent
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("a", "b", "c"):
        (directory / name).write_bytes(name.encode() + b"\xff\r\n")
    (directory / "b").chmod(0o755)
    git("add", "--all", cwd=tmp_path)
    tree = git("write-tree", cwd=tmp_path).strip()
    made = merge_tree.rewritten(str(tmp_path), tree, path, lambda text: text[:1] + b"other")
    before, after = (git("ls-tree", "-r", each, cwd=tmp_path).splitlines() for each in (tree, made))
    assert [after[0], after[2]] == [before[0], before[2]]
    assert after[1].startswith("100755 blob ")
    assert after[1].endswith(f"\t{path}")
    assert git("cat-file", "blob", f"{made}:{path}", cwd=tmp_path) == "bother"
    git("fsck", "--strict", cwd=tmp_path)


def test_a_tree_without_the_file_and_a_file_that_stays_the_same_give_the_same_tree(repo):
    repo.commit({"a/b": "text\n"})
    tree = repo.git("rev-parse", "HEAD^{tree}").strip()
    for path, change in (("a/c", bytes.upper), ("c/b", bytes.upper), ("a/b", bytes.lower)):
        assert merge_tree.rewritten(str(repo.path), tree, path, change) == tree
