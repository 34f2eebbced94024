"""Two machines with clones at the same path: each leaves alone what lies on the other."""

import json
import os
import shutil
import sys

import pytest

from support.state import markdown
from workflow.test_shared_record import CONFIG, url

__all__ = ["url"]


class Machines:
    """Two clones that lie at one path by turns, as they would on two machines."""

    def __init__(self, repo, tugcode, monkeypatch) -> None:
        self.path, self.tugcode, self.monkeypatch = repo.path, tugcode, monkeypatch
        self.now = ""
        shutil.copytree(repo.path, self._away("till"), symlinks=True)
        os.rename(repo.path, self._away("kiosk"))

    def _away(self, name: str) -> str:
        return f"{self.path}-{name}"

    def on(self, name: str) -> "Machines":
        """From here on, commands run on that machine."""
        if self.now:
            os.rename(self.path, self._away(self.now))
        os.rename(self._away(name), self.path)
        self.now = name
        self.monkeypatch.setenv("TUGCODE_MACHINE", name)
        return self

    def run(self, *words: str):
        return self.tugcode("-C", self.path, *words)

    def data(self, *words: str):
        done = self.run(*words, "--json")
        assert done.status == 0, done.out + done.err
        return done.data


@pytest.fixture
def machines(repo, url, tugcode, monkeypatch):
    repo.plan("work", markdown("1 t", "2 t"))
    repo.write({CONFIG: '[state]\nrepository = "team/shop"\n'})
    repo.commit()
    both = Machines(repo, tugcode, monkeypatch)
    both.on("till").data("state", "init", "work", "--create-database")
    return both


def test_worktrees_of_another_machine_are_named_and_left_alone(machines):
    made = machines.data("worktree", "create", "work", "--claim")
    path, branch = made["worktree_path"], made["branch_name"]
    (machines.path / ".tugtree" / os.path.basename(path) / "draft").write_text("unsaved\n")
    machines.on("kiosk")
    (seen,) = machines.data("worktree", "list")["worktrees"]
    assert (seen["worktree_path"], seen["machine"]) == (f"till:{path}", "till")
    assert "on till" in machines.run("worktree", "list").out
    own = machines.data("worktree", "create", "work", "--claim")
    assert (own["reused"], own["claim"]["anchor"]) == (False, "step-2")
    assert own["branch_name"] != branch
    for words in (("remove", os.path.basename(path)), ("remove", branch)):
        refused = machines.run("worktree", *words, "--force", "--json")
        assert refused.codes == ["E034"]
        assert "it is on till: remove it there" in refused.out
    assert machines.data("worktree", "cleanup")["removed"] == []
    claims = machines.data("status")["plans"][0]["claims"]
    assert {claim["claimed_by"] for claim in claims} == {f"till:{path}", own["worktree_path"]}
    assert f"till:{os.path.basename(path)} holds it" in machines.run("why", "work", "step-1").out
    (way,) = (each for each in machines.data("why", "work", "step-1")["frees"] if "reset" in each)
    assert way == (
        "If that worker is gone, this frees it; its work stays on till, and the next command there "
        "saves it: tugcode reset work step-1"
    )
    found = machines.run("doctor", "--fix").out
    assert "till:" not in found
    # Its step is taken; what lies there is for the till to save.
    machines.data("reset", "work", "step-1")
    assert len(machines.data("worktree", "list")["worktrees"]) == 2
    machines.on("till")
    assert (machines.path / ".tugtree" / os.path.basename(path) / "draft").exists()
    taken = machines.data("claim", "work", "--worktree", path)
    assert taken["previous_attempt"]["outcome"] == "reset"
    assert taken["previous_attempt"]["salvage_ref"].startswith("refs/tug/salvage/")


def test_a_dash_of_another_machine_is_shown_and_left_alone(machines):
    machines.data("dash", "create", "tidy")
    machines.on("kiosk")
    (seen,) = machines.data("dash", "list")["dashes"]
    assert (seen["worktree_path"], seen["exists"]) == ("till:.tugtree/tugdash__tidy", None)
    assert "on till" in machines.run("dash", "list").out
    for words in (["commit", "tidy", "--message", "x"], ["join", "tidy"], ["release", "tidy"]):
        refused = machines.run("dash", *words, "--json")
        assert refused.codes == ["E058"], words
        assert "it is on till" in refused.out
    assert machines.run("dash", "create", "tidy", "--json").codes == ["E058"]
    assert "tidy" not in machines.run("doctor").out


def test_a_dash_that_another_machine_makes_meanwhile_is_refused_and_leaves_nothing(machines):
    other = f"{machines.path}-kiosk"
    # The till's set-up runs after it has looked for the name, and before it records the dash.
    there = ["env", "TUGCODE_MACHINE=kiosk", sys.executable, "-m", "tugtool", "-C", other]
    with open(machines.path / CONFIG, "a") as file:
        file.write(f"[worktree]\nsetup = {json.dumps([[*there, 'dash', 'create', 'tidy']])}\n")
    refused = machines.run("dash", "create", "tidy", "--json")
    assert refused.codes == ["E055"], refused.out
    assert "there is a dash tidy already: kiosk was first, at 20" in refused.out
    assert not (machines.path / ".tugtree" / "tugdash__tidy").exists()
    (seen,) = machines.data("dash", "list")["dashes"]
    assert seen["worktree_path"] == "kiosk:.tugtree/tugdash__tidy"
