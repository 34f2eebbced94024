"""Two machines with clones at the same path: each leaves alone what lies on the other."""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from conftest import git
from support.machines import Fleet, Machine
from support.state import markdown
from tugtool.store import owners
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


# -- two clones on one machine ---------------------------------------------------------


@pytest.fixture
def clones(repo, url, tugcode, monkeypatch, tmp_path):
    """Two clones of one repository on one machine, and one state."""
    team = Fleet(tmp_path, repo, tugcode, monkeypatch, "1 t", "2 t")
    left, right = team.join("left"), team.join("right")
    left.name = right.name = "till"
    left.data("state", "init", "work", "--create-database")
    return left, right


def test_clones_on_one_machine_leave_each_other_s_dashes_alone(clones):
    left, right = clones
    left.data("dash", "create", "tidy")
    (seen,) = right.data("dash", "list")["dashes"]
    assert (seen["worktree_path"], seen["exists"]) == ("another clone:.tugtree/tugdash__tidy", None)
    for words in (["commit", "tidy", "--message", "x"], ["join", "tidy"], ["release", "tidy"]):
        refused = right.run("dash", *words, "--json")
        assert refused.codes == ["E058"], words
        assert "it is on another clone" in refused.out
    assert right.run("dash", "create", "tidy", "--json").codes == ["E058"]
    assert "tidy" not in right.run("doctor").out
    left.data("dash", "release", "tidy")


def test_clones_on_one_machine_leave_each_other_s_worktrees_alone(clones):
    left, right = clones
    made = left.data("worktree", "create", "work", "--claim")
    (Path(made["worktree_path"]) / "draft").write_text("half\n")
    assert len(right.data("worktree", "list")["worktrees"]) == 1
    assert right.data("worktree", "cleanup")["removed"] == []
    refused = right.run("worktree", "remove", os.path.basename(made["worktree_path"]), "--json")
    assert refused.codes == ["E034"]
    # The right one takes the step; what lies in the left clone is for the left one to save.
    right.data("reset", "work", "step-1")
    right.run("doctor", "--fix")
    assert left.data("claim", "work", at=made["worktree_path"])["previous_attempt"]["salvage_ref"]
    assert (Path(made["worktree_path"]) / "draft").exists()


@pytest.mark.parametrize(
    ("words", "point"),
    [
        (("dash", "join", "tidy"), "join.moved"),
        (("dash", "join", "tidy"), "join.tidied"),
        (("worktree", "create", "work", "--new"), "create.worktree"),
        (("worktree", "remove", "NAME"), "remove.worktree"),
        (("merge", "work"), "merge.moved"),
    ],
)
def test_what_a_killed_command_began_is_finished_in_its_own_clone(clones, words, point):
    left, right = clones
    left.data("dash", "create", "tidy")
    (left.path / ".tugtree" / "tugdash__tidy" / "new.txt").write_text("new\n")
    left.data("dash", "commit", "tidy", "--message", "new")
    made = left.data("worktree", "create", "work", "--new")
    if words[0] == "merge":
        left.step(), left.step()
    name = os.path.basename(made["worktree_path"])
    words = [name if word == "NAME" else word for word in words]
    assert left.spawn(*words, TUGCODE_CRASH_AT=point).returncode == -9
    seen = [each["message"] for each in _unfinished(left)]
    assert len(seen) == 1
    # The other clone neither sees it, nor finishes it, nor forgets it.
    assert _unfinished(right) == []
    right.data("dash", "create", "other")
    right.data("worktree", "create", "work", "--new")
    right.run("doctor", "--fix")
    assert [each["message"] for each in _unfinished(left)] == seen
    left.run("doctor", "--fix")
    assert _unfinished(left) == []
    if words[0] != "merge":
        assert left.data("dash", "show", "tidy")["status"] == (
            "joined" if words[0] == "dash" else "active"
        )


def _unfinished(machine: Machine) -> list[dict]:
    """What doctor says of commands that were interrupted."""
    checks = machine.run("doctor", "--json").data["checks"]
    return [each for check in checks if check["name"] == "intents" for each in check["findings"]]


# -- no command touches what lies on another machine -----------------------------------

#: What a person might type on the kiosk about the till's worktree and its step.
ELSEWHERE = (
    ("worktree", "list"),
    ("worktree", "cleanup"),
    ("worktree", "remove", "NAME", "--force"),
    ("worktree", "salvage", "list"),
    ("status",),
    ("show", "work"),
    ("why", "work", "step-1"),
    ("report", "work"),
    ("reset", "work", "step-1"),
    ("doctor", "--fix"),
    ("reconcile", "work"),
    ("merge", "work", "--dry-run"),
    ("worktree", "publish"),
    ("prune", "--dry-run"),
)


class Elsewhere:
    """A worktree of the till, and what the kiosk's commands do to that path."""

    def __init__(self, machines: Machines, directory: Path) -> None:
        self.machines, self.path = (
            machines,
            machines.data("worktree", "create", "work", "--claim")["worktree_path"],
        )
        machines.on("kiosk")
        # At the same path this machine has something of its own, which is no worktree.
        os.makedirs(self.path)
        (Path(self.path) / "mine.txt").write_text("mine\n")
        self._seen, place = directory / "gits", directory / "bin"
        place.mkdir()
        real = shutil.which("git")
        (place / "git").write_text(f'#!/bin/sh\necho "$PWD $*" >> {self._seen}\nexec {real} "$@"\n')
        (place / "git").chmod(0o755)
        machines.monkeypatch.setenv("PATH", str(place), prepend=os.pathsep)

    def lines(self, every: Sequence[tuple[str, ...]] = ELSEWHERE) -> list[str]:
        """The command lines of git, of all that a person might type."""
        for words in every:
            name = os.path.basename(self.path)
            self.machines.run(*(name if word == "NAME" else word for word in words))
        return self._seen.read_text().splitlines()

    def is_touched(self, lines: list[str]) -> bool:
        """Whether git ran there, or what is there changed."""
        there = os.path.isdir(self.path) and os.listdir(self.path)
        return there != ["mine.txt"] or any(self.path in line for line in lines)


def test_no_command_runs_git_in_a_path_of_another_machine(machines, tmp_path):
    elsewhere = Elsewhere(machines, tmp_path)
    lines = elsewhere.lines()
    assert len(lines) > 10
    assert not elsewhere.is_touched(lines)
    assert "refs/tug/salvage" not in "".join(
        line for line in lines if "update-ref" in line or "commit-tree" in line
    )
    # The till's worktree is recorded as before, and its branch is not here.
    machines.on("till")
    assert machines.data("worktree", "list")["worktrees"][0]["exists"]
    assert os.path.exists(os.path.join(elsewhere.path, ".git"))


@pytest.mark.proof
def test_the_story_notices_a_path_that_is_taken_for_one_s_own(machines, tmp_path, monkeypatch):
    elsewhere = Elsewhere(machines, tmp_path)
    # Here it is a worktree too, which a person made.
    shutil.rmtree(elsewhere.path)
    git("worktree", "add", "--quiet", "-b", "mine", elsewhere.path, cwd=machines.path)
    own = Path(elsewhere.path) / "mine.txt"
    own.write_text("mine\n")
    alone = [words for words in ELSEWHERE if "remove" not in words]
    elsewhere.lines(alone)
    assert own.exists()
    assert git("for-each-ref", "refs/tug", cwd=machines.path) == ""
    # Every path is on this machine, whatever machine it was recorded for.
    monkeypatch.setattr(owners.Owners, "_seen", lambda self, value, ask: value.rpartition(":")[2])
    elsewhere.lines(alone)
    assert git("for-each-ref", "refs/tug/salvage", cwd=machines.path) != ""
