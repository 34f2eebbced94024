"""Which commit a worktree stands on, as git's own files tell it; git itself is the judge."""

import subprocess

import pytest

from conftest import Repo, git
from tugtool import git as tugtool_git
from tugtool.errors import GitFailed, Unreadable
from tugtool.git import command as our_git
from tugtool.git import refs


@pytest.fixture
def no_git(monkeypatch):
    """Whoever starts git is caught."""

    def caught(*arguments: str, **how: object) -> None:
        raise AssertionError(f"git was started: {arguments}")

    monkeypatch.setattr(our_git, "attempt", caught)


def head(path) -> str:
    return git("rev-parse", "HEAD", cwd=path).strip()


def test_a_branch_a_linked_worktree_and_a_detached_head(repo, tmp_path, no_git):
    side = repo.linked(tmp_path / "side")
    git("commit", "--quiet", "--allow-empty", "--message=side", cwd=side)
    assert refs.head_commit(str(repo.path)) == head(repo.path)
    assert refs.head_commit(str(side)) == head(side) != head(repo.path)
    git("checkout", "--quiet", "--detach", "HEAD~1", cwd=side)
    assert refs.head_commit(str(side)) == head(side) == head(repo.path)


def test_the_branch_is_told_along_with_the_commit(repo, tmp_path, no_git):
    side = repo.linked(tmp_path / "side", "deep/er")
    own, shared = tugtool_git.git_dir(str(side)), str(repo.path / ".git")
    assert refs.head_branch(str(side)) == "deep/er"
    assert refs.read_head(own, shared) == ("deep/er", head(side))
    git("checkout", "--quiet", "--detach", cwd=side)
    assert refs.head_branch(str(side)) is None
    assert refs.read_head(own, shared) == (None, head(side))


def test_a_branch_that_only_git_can_read_is_asked_for(repo):
    # As it looks where refs are kept in tables; this git knows none and finds no branch.
    (repo.path / ".git" / "HEAD").write_text("ref: refs/heads/.invalid\n")
    with pytest.raises(Unreadable):
        refs.read_head(str(repo.path / ".git"), str(repo.path / ".git"))
    assert refs.head_branch(str(repo.path)) is None


def test_packed_refs_count_where_no_loose_one_stands_before_them(repo, tmp_path, no_git):
    repo.git("branch", "not-main")
    side = repo.linked(tmp_path / "side", "deep/er/main")
    git("commit", "--quiet", "--allow-empty", "--message=side", cwd=side)
    repo.git("tag", "--annotate", "--message=x", "main")
    repo.git("pack-refs", "--all")
    assert not (repo.path / ".git" / "refs" / "heads" / "main").exists()
    for path in (repo.path, side):
        assert refs.head_commit(str(path)) == head(path)
    git("commit", "--quiet", "--allow-empty", "--message=more", cwd=side)
    assert refs.head_commit(str(side)) == head(side)


def test_a_ref_that_names_another_is_followed_but_not_for_ever(repo, no_git):
    repo.git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
    repo.git("symbolic-ref", "HEAD", "refs/heads/alias")
    assert refs.head_commit(str(repo.path)) == head(repo.path)
    (repo.path / ".git" / "refs" / "heads" / "main").write_text("ref: refs/heads/alias\n")
    assert refs.head_commit(str(repo.path)) is None


def test_before_the_first_commit_there_is_none(tmp_path, no_git):
    repo = Repo.init(tmp_path / "new")
    assert refs.head_commit(str(repo.path)) is None
    (repo.path / ".git" / "packed-refs").write_text("# pack-refs with: peeled\n")
    assert refs.head_commit(str(repo.path)) is None


def test_what_is_no_worktree_stands_on_nothing(repo, tmp_path, no_git):
    (repo.path / "sub" / ".git").mkdir(parents=True)
    for path in (tmp_path, tmp_path / "gone", repo.path / "sub", "relative", ""):
        assert refs.head_commit(str(path)) is None


def test_what_only_git_can_read_is_asked_of_git(repo, tmp_path):
    # So large that nobody reads it whole, as far as we are concerned.
    marker = repo.path / ".git" / "refs" / "heads" / "main"
    before = head(repo.path)
    (repo.path / ".git" / "HEAD").write_text("ref: refs/heads/main" + "\n" * (1 << 20))
    assert marker.exists()
    assert refs.head_commit(str(repo.path)) == before


def test_refs_in_another_form_are_asked_of_git(tmp_path):
    done = subprocess.run(
        ["git", "init", "--quiet", "--ref-format=reftable", str(tmp_path / "r")],
        capture_output=True,
    )
    if done.returncode:
        # An older git has no such form; ours must ask git where it looks as if there were one.
        Repo.init(tmp_path / "r")
        (tmp_path / "r" / ".git" / "reftable").mkdir()
    repo = Repo(tmp_path / "r")
    assert refs.head_commit(str(repo.path)) is None
    repo.commit()
    assert refs.head_commit(str(repo.path)) == head(repo.path)


def test_without_git_nobody_can_tell(repo, monkeypatch):
    (repo.path / ".git" / "reftable").mkdir()
    monkeypatch.setenv("PATH", "/nonexistent")
    assert refs.head_commit(str(repo.path)) is None


def test_what_git_does_not_have_is_nobody_s_ancestor(repo):
    top, first = str(repo.path), head(repo.path)
    repo.commit({"a": "a"})
    assert refs.is_ancestor(top, first, "HEAD")
    assert not refs.is_ancestor(top, "HEAD", first)
    for unknown in ("0" * 39 + "1", "refs/heads/gone"):
        assert not refs.is_ancestor(top, unknown, "HEAD")
        assert not refs.is_ancestor(top, "HEAD", unknown)


def test_where_the_history_is_damaged_nobody_says_that_a_commit_is_no_ancestor(repo):
    first = head(repo.path)
    for name in ("a", "b"):
        repo.commit({name: name})
    lost = git("rev-parse", "HEAD~1", cwd=repo.path).strip()
    file = repo.path / ".git" / "objects" / lost[:2] / lost[2:]
    file.unlink()
    file.write_bytes(b"no object")
    with pytest.raises(GitFailed):
        refs.is_ancestor(str(repo.path), first, "HEAD")


def test_branches_are_told_with_their_commits_all_or_some(repo):
    top, first = str(repo.path), head(repo.path)
    repo.git("branch", "deep/er")
    # Python would take it for the end of a line.
    repo.git("branch", "deep/o\x85dd")
    repo.commit({"a": "a"})
    now = head(repo.path)
    deep = {"deep/er": first, "deep/o\x85dd": first}
    assert refs.branches(top) == {**deep, "main": now}
    assert refs.branches(top, "deep/") == deep
    assert refs.branches(top, "main", "deep/er", "gone") == {"deep/er": first, "main": now}
    assert refs.changed_paths(top, first, now) == ["a"]
    assert refs.changed_paths(top, now, first, only_added=True) == []
