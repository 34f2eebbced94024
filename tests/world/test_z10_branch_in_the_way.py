"""Z10: a branch that is called as the directory of ours is named in plain words."""

import pytest


def test_worktree_create_says_which_branch_is_in_the_way(yard):
    place = yard("1")
    place.repo.git("branch", "tugplan")
    said = place.refused("E033", "worktree", "create", "work")
    assert "a branch is called tugplan" in said
    assert "git branch -m tugplan NEW-NAME" in said
    place.repo.git("branch", "-m", "tugplan", "other")
    place.create()


def test_dash_create_says_so_too(field):
    field.repo.git("branch", "tugdash")
    done = field.run("dash", "create", "fix")
    assert done.codes == ["E033"]
    assert "a branch is called tugdash" in done.envelope()["issues"][0]["message"]


@pytest.mark.parametrize("name", ["tugplan", "tugdash"])
def test_doctor_says_it(clinic, name):
    place = clinic()
    place.ok("worktree", "remove", place.tree.name)
    assert place.findings() == {}
    place.repo.git("branch", name)
    finding = place.one("branches")
    assert f"a branch is called {name}" in finding["message"]
