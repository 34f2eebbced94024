"""H: a link in place of the state leads nowhere unless a person made it."""

import os
from pathlib import Path

import pytest

from tugtool.store import open_store

#: Commands that would make or open the state.
COMMANDS = (
    ["state", "init", "work"],
    ["state", "claim", "work"],
    ["state", "show", "work"],
    ["dash", "create", "fix"],
    ["worktree", "create", "work"],
    ["status"],
)


@pytest.fixture
def outside(tmp_path) -> Path:
    """A directory that is not the repository's."""
    (tmp_path / "outside").mkdir()
    return tmp_path / "outside"


@pytest.mark.parametrize("is_there", [False, True], ids=["dangling", "another's"])
def test_a_link_that_git_brought_is_not_followed(yard, outside, is_there):
    y = yard()
    target = outside / "state.db"
    if is_there:
        store = open_store(f"sqlite://{target}")
        store.create()
        store.close()
    before = sorted(os.listdir(outside)), is_there and target.read_bytes()
    (y.root / ".tugtool" / "state.db").symlink_to(target)
    y.repo.git("add", "--force", ".tugtool/state.db")
    y.repo.git("commit", "--quiet", "--message=a link")
    for words in COMMANDS:
        done = y.run(*words)
        assert done.codes == ["E046"], words
        (issue,) = done.envelope()["issues"]
        assert f"is a link to {target}, and git tracks it" in issue["message"]
        assert issue["hint"] == "git rm -- .tugtool/state.db"
    checks = {each["name"]: each for each in y.run("doctor", "--fix").data["checks"]}
    for name in ("database", "tracked"):
        (finding,) = checks[name]["findings"]
        assert finding["severity"] == "error"
        assert finding["hint"] == "git rm -- .tugtool/state.db"
    assert (sorted(os.listdir(outside)), is_there and target.read_bytes()) == before
    y.repo.git("rm", "--quiet", "--", ".tugtool/state.db")
    assert y.run(*COMMANDS[0]).status == 0
    assert not (y.root / ".tugtool" / "state.db").is_symlink()


def test_the_directory_of_the_state_as_a_link_is_refused_by_all(yard, outside):
    y = yard()
    (y.root / ".tugtool").rename(outside / "moved")
    (y.root / ".tugtool").symlink_to(outside / "moved")
    before = sorted(os.listdir(outside / "moved"))
    for words in COMMANDS:
        assert y.run(*words).codes == ["E073"], words
    assert y.run("doctor", "--fix").status != 0
    assert sorted(os.listdir(outside / "moved")) == before


@pytest.mark.proof(share=0)
def test_a_persons_own_link_to_another_disk_works_and_doctor_finds_the_log_there(
    repo, clinic, outside
):
    repo.live()
    c = clinic()
    c.rest()
    target = outside / "work.db"
    c.db.rename(target)
    c.db.symlink_to(target)
    assert c.findings() == {}
    # What is written now is in the log alone, and no process has the database open.
    c.ok("state", "claim", "work")
    assert (outside / "work.db-wal").stat().st_size > 0
    (outside / "work.db-shm").unlink()
    assert c.findings() == {}
    assert c.status("database") == "ok"
    assert c.run("state", "restore").codes == ["E077"]
    assert c.db.is_symlink()
    assert not (c.db.parent / "state.db-wal").exists()


def test_a_lost_database_comes_back_where_the_persons_link_leads(clinic, outside):
    c = clinic()
    c.rest()
    c.db.unlink()
    c.db.symlink_to(outside / "work.db")
    assert "is gone; a backup is there" in c.one("database")["message"]
    c.ok("state", "restore")
    assert (outside / "work.db").is_file()
    assert c.db.is_symlink()
    c.ok("state", "claim", "work")
