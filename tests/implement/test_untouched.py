"""A worktree before an agent and after it: also what only the content of a file tells."""

import os
from types import SimpleNamespace

import pytest

from conftest import git
from tugtool.implement.snapshot import Untouched

#: Some time in the past.
SECOND = 1_700_000_000


@pytest.fixture
def tree(repo):
    """A repository whose one file is as old as SECOND, and stays it for git."""
    repo.commit({"code.txt": "first"})
    # Git compares this as well, and nobody can set it.
    repo.git("config", "core.trustctime", "false")
    os.utime(repo.path / "code.txt", (SECOND, SECOND))
    repo.git("update-index", "--refresh")
    return repo


def watched(tree) -> Untouched:
    return Untouched(SimpleNamespace(path=str(tree.path), git_dir=str(tree.path / ".git")))


def write(tree, text: str) -> None:
    (tree.path / "code.txt").write_text(text)
    os.utime(tree.path / "code.txt", (SECOND, SECOND))


def test_a_change_in_the_very_second_of_what_is_held_is_seen_and_put_back(tree):
    before = watched(tree)
    # As if all of it had been within one second.
    before._held = before._held._replace(nanoseconds=SECOND * 10**9)
    assert not before.changes()
    write(tree, "other")
    changes = before.changes()
    assert changes.touched == ["code.txt"]
    before.put_back(changes)
    assert (tree.path / "code.txt").read_text() == "first"


def test_an_index_that_is_put_back_is_as_old_as_it_was(tree):
    index = tree.path / ".git" / "index"
    write(tree, "other")
    os.utime(index, (SECOND, SECOND))
    before = watched(tree)
    tree.git("rm", "--quiet", "--cached", "code.txt")
    before.put_back(before.changes())
    assert index.stat().st_mtime == SECOND
    # So git looks into the file, and sees that it is not what is staged.
    assert git("status", "--porcelain", cwd=tree.path) == " M code.txt\n"
