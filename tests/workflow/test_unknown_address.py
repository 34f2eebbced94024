"""A clone whose settings show that machines share a state, and whose shell lacks the address."""

import pytest

from support.state import markdown

CONFIG = ".tugtool/config.toml"
SHARED = '[state]\nrepository = "team/shop"\n[remote]\nname = "origin"\n'


@pytest.fixture
def clone(repo):
    repo.plan("work", markdown("1 t", "2 t < 1"))
    repo.write({CONFIG: SHARED})
    repo.commit()
    return repo


#: Commands that would make a state.
MAKERS = {
    "state init": ("state", "init", "work"),
    "next": ("next", "work"),
    "worktree create": ("worktree", "create", "work"),
    "dash create": ("dash", "create", "idea"),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_clone_that_shares_a_state_does_not_make_a_private_one(clone, tugcode, name):
    done = tugcode("-C", clone.path, *MAKERS[name], "--json")
    assert (done.status, done.codes) == (1, ["E046"])
    assert "config.toml sets state.repository" in done.out
    assert "set TUGCODE_STATE_URL or TUGCODE_SERVER" in done.out
    assert "export TUGCODE_STATE_URL=" in done.out
    assert not (clone.path / ".tugtool" / "state.db").exists()


def test_looking_commands_warn_that_the_address_is_not_known(clone, tugcode):
    seen = tugcode("-C", clone.path, "status")
    assert seen.status == 0
    assert "the state's address is not known here" in seen.out
    assert tugcode("-C", clone.path, "status", "--json").codes == ["W172"]
    checks = tugcode("-C", clone.path, "doctor", "--json").data["checks"]
    (found,) = (each for each in checks if each["name"] == "database")
    assert found["status"] == "warning"
    assert "the state's address is not known here" in str(found)


def test_an_empty_address_says_that_the_clone_is_alone(clone, tugcode, monkeypatch):
    monkeypatch.setenv("TUGCODE_STATE_URL", "")
    done = tugcode("-C", clone.path, "state", "init", "work", "--json")
    assert (done.status, done.codes) == (0, [])
    # The state is here now, so its address is no question any more.
    monkeypatch.delenv("TUGCODE_STATE_URL")
    assert tugcode("-C", clone.path, "status", "--json").codes == []
    assert tugcode("-C", clone.path, "claim", "work", "--json").status == 0


def test_a_clone_with_a_remote_alone_is_only_warned(clone, tugcode):
    clone.write({CONFIG: '[remote]\nname = "origin"\n'})
    clone.commit()
    clone.git("update-ref", "refs/remotes/origin/tugplan/work-20260101", "HEAD")
    assert tugcode("-C", clone.path, "status", "--json").codes == ["W172"]
    done = tugcode("-C", clone.path, "state", "init", "work", "--json")
    assert (done.status, done.codes) == (0, ["W106", "W172"])
    assert "origin/tugplan/work-20260101" in done.out
    assert tugcode("-C", clone.path, "status", "--json").codes == []


def test_a_clone_that_has_used_a_shared_state_does_not_begin_another(clone, tugcode):
    clone.write({CONFIG: '[remote]\nname = "origin"\n'})
    clone.commit()
    note = clone.path / ".git" / "tugtool" / "shared-record"
    note.parent.mkdir(exist_ok=True)
    note.write_text("https://tug.example/\n")
    done = tugcode("-C", clone.path, "state", "init", "work", "--json")
    assert (done.status, done.codes) == (1, ["E046"])
    assert "this clone has used https://tug.example/" in done.out
