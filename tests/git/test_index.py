"""The index of a worktree: locked by us, and by whom else."""

import errno
import json
import os

import pytest

from tugtool.errors import Unwritable
from tugtool.git.index import Index, put


@pytest.fixture
def place(repo):
    return repo.path / ".git"


def test_a_lock_says_whose_it_is_and_keeps_git_out(repo, place):
    index = Index(str(place), "own")
    assert index.lock()
    assert json.loads((place / "index.lock").read_text())["process"]["holder_pid"] == os.getpid()
    assert not Index(str(place), "own").lock()
    with pytest.raises(Exception, match="add"):
        repo.git("add", "--all")
    assert (index.is_locked(), index.is_left(), index.busy()) == (True, False, None)
    index.end()
    assert not (place / "index.lock").exists()
    repo.git("add", "--all")


def test_git_s_own_lock_is_not_taken_for_ours(place):
    for text in ("", "DIRC\0\0\0\2", "{}", '["tugtool"]', "x" * 10_000):
        (place / "index.lock").write_text(text)
        index = Index(str(place), "own")
        assert (index.lock(), index.is_locked(), index.is_left()) == (False, False, False)
        index.end()
        assert (place / "index.lock").read_text() == text


def test_a_lock_that_came_in_the_place_of_ours_stays(place):
    index = Index(str(place), "own")
    index.lock()
    (place / "index.lock").rename(place / "kept")
    (place / "index.lock").write_text("another's")
    index.end()
    assert (place / "index.lock").read_text() == "another's"
    (place / "index.lock").unlink()
    index.end()


def test_the_lock_of_another_undertaking_is_not_this_one_s(place):
    Index(str(place), "other").lock(result="x")
    index = Index(str(place), "own")
    assert (index.lock(), index.is_locked(), index.about()) == (False, False, {})
    index.end()
    assert Index(str(place), "other").about() == {"result": "x"}


def test_what_is_added_to_ours_is_not_in_the_worktree_s_before_it_is_installed(repo, place):
    index = Index(str(place), "own")
    repo.write({"new": "x\n"})
    index.lock()
    index.copy()
    assert index.run("add", "--all", cwd=str(repo.path)).status == 0
    assert "new" not in repo.git("ls-files")
    index.install()
    index.end()
    assert "new" in repo.git("ls-files")
    assert sorted(each.name for each in place.glob("own*")) == []


def test_where_there_are_no_links_it_is_copied(repo, place, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    index = Index(str(place), "own")
    repo.write({"new": "x\n"})
    assert index.lock()
    assert not Index(str(place), "own").lock()
    index.copy()
    assert index.run("add", "--all", cwd=str(repo.path)).status == 0
    index.install()
    index.end()
    assert "new" in repo.git("ls-files")
    assert not (place / "index.lock").exists()


def test_where_nothing_can_be_written_that_is_said(tmp_path):
    with pytest.raises(Unwritable, match="index"):
        Index(str(tmp_path / "nowhere"), "own").lock()


def test_before_the_first_commit_there_may_be_no_index(tmp_path):
    from conftest import Repo

    repo = Repo.init(tmp_path / "empty")
    repo.write({"new": "x\n"})
    index = Index(str(repo.path / ".git"), "own")
    index.lock()
    index.copy()
    index.install()
    index.copy()
    assert index.run("add", "--all", cwd=str(repo.path)).status == 0
    index.install()
    index.end()
    assert repo.git("ls-files") == "new\n"


@pytest.mark.parametrize("links", [True, False])
def test_a_copy_of_an_index_is_as_old_as_the_index(tmp_path, monkeypatch, links):
    """A younger one would hide a change that git made room for by its age."""

    def no_links(source, target):
        raise OSError(errno.EPERM, "no links here")

    if not links:
        monkeypatch.setattr(os, "link", no_links)
    source, target = tmp_path / "index", tmp_path / "other"
    source.write_bytes(b"DIRC")
    os.utime(source, ns=(1, 1_700_000_000_123_456_789))
    put(str(source), str(target))
    assert target.read_bytes() == b"DIRC"
    assert target.stat().st_mtime_ns == 1_700_000_000_123_456_789
    assert target.samefile(source) is links
