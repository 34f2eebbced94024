"""Three machines with clocks, homes and clones of their own carry out one plan by one remote."""

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tugtool
from support.machines import Fleet, Machine
from support.server import Process
from tugtool.store.postgres import PostgresStore
from tugtool.system import clock
from workflow.test_shared_record import url

__all__ = ["url"]

pytestmark = pytest.mark.proof(share=0)

WORKER = str(Path(__file__).with_name("machine_worker.py"))
#: Each needs two of the row before: what one machine commits, the others need.
DIAMOND = (
    *("1 t", "2 t < 1", "3 t < 1", "4 t < 1", "5 t < 2 3", "6 t < 3 4", "7 t < 2 4"),
    *("8 t < 5 6", "9 t < 6 7", "10 t < 5 7", "11 t < 8 9", "12 t < 10 11"),
)
STEPS = [f"step-{number}" for number in range(1, 13)]
#: How far the machines' clocks are ahead.
CLOCKS = {"till": 0, "kiosk": 3600, "store": -3600}
MOST_SECONDS = 240


@pytest.fixture
def team(repo, url, tugcode, monkeypatch, tmp_path):
    return Fleet(tmp_path, repo, tugcode, monkeypatch, *DIAMOND)


def _started(machine: Machine, dies_at: int = 0) -> subprocess.Popen:
    path = os.pathsep.join(str(Path(__file__).parents[n]) for n in (0, 1))
    env = {**os.environ, **machine.environment, "PYTHONPATH": path}
    argv = [sys.executable, WORKER, str(CLOCKS[machine.name]), str(machine.path), str(dies_at)]
    return subprocess.Popen(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _ended(workers: dict[str, subprocess.Popen]) -> dict[str, list[str]]:
    """What each machine did; it must succeed unless it died by our hand."""
    did = {}
    for name, worker in workers.items():
        out, err = worker.communicate(timeout=MOST_SECONDS)
        assert worker.returncode in (0, -9), err
        did[name] = [json.loads(line)["step"] for line in out.splitlines()]
    return did


def _merged(team: Fleet, on: Machine) -> None:
    """All is done, each step has one commit, and the remote has all of it on main."""
    shown = on.data("state", "show", "work")
    assert shown["status"] == "done"
    assert not [step for step in shown["steps"] if "unpublished" in step]
    assert on.data("merge", "work", "--push")["pushed"]
    log = on.git("log", "--format=%(trailers:key=Tug-Step,valueonly,separator=%x2C)", "main")
    times = Counter(line for line in log.split("\n") if line)
    assert times == Counter(STEPS)
    assert team.tip("main") == on.git("rev-parse", "main").strip()
    names = on.git("ls-tree", "--name-only", "main").split()
    assert {f"{step}.txt" for step in STEPS} <= set(names)


def test_a_diamond_is_done_by_three_machines_each_step_once_merged_and_pushed(team):
    machines = team.start(*CLOCKS)
    did = _ended({each.name: _started(each) for each in machines})
    assert sorted(step for steps in did.values() for step in steps) == sorted(STEPS)
    assert sum(bool(steps) for steps in did.values()) >= 2
    _merged(team, machines[1])


def test_the_same_with_the_state_on_a_server_of_tugtool(repo, tugcode, monkeypatch, tmp_path):
    team = Fleet(tmp_path, repo, tugcode, monkeypatch, *DIAMOND)
    hub = team.join("hub")
    hub.data("state", "init", "work", TUGCODE_STATE_URL="")
    with Process(hub.path) as server:
        monkeypatch.setenv("TUGCODE_SERVER", server.url)
        monkeypatch.setenv("TUGCODE_TOKEN", server.token)
        machines = [team.join(name) for name in CLOCKS]
        did = _ended({each.name: _started(each) for each in machines})
        assert sorted(step for steps in did.values() for step in steps) == sorted(STEPS)
        _merged(team, machines[1])


def test_the_steps_of_a_machine_that_dies_are_done_by_the_others(team):
    till, kiosk, store = team.start(*CLOCKS)
    workers = {"till": _started(till, dies_at=2)}
    did = _ended(workers | {each.name: _started(each) for each in (kiosk, store)})
    every = [step for steps in did.values() for step in steps]
    assert sorted(every) == sorted(STEPS)
    claims = [e for e in kiosk.data("log", "work", "--all")["events"] if e["kind"] == "claim"]
    former = [(e["detail"].get("reclaimed_from") or "", e["step_anchor"]) for e in claims]
    (lost,) = (anchor for owner, anchor in former if owner.startswith("till:"))
    _merged(team, kiosk)
    # What it had not committed is on its disk; its next command saves it and pushes it.
    listed = till.data("worktree", "list")["worktrees"]
    (path,) = (Path(each["worktree_path"]) for each in listed if each["machine"] is None)
    assert (path / f"{lost}.txt").exists()
    ref = till.data("worktree", "clean", at=path)["salvage_ref"]
    till.data("worktree", "publish")
    assert ref in kiosk.git("ls-remote", "origin", "refs/tug/salvage/*")


def test_a_machine_that_is_offline_goes_on_alone_and_the_others_wait_for_what_it_has(team):
    till, kiosk, store = team.start(*CLOCKS)
    till.step()
    till.git("remote", "set-url", "origin", "/nowhere/shop.git")
    path, anchor, done = till.step()
    assert (anchor, done.data["published"]) == ("step-2", False)
    # It goes on with what needs nothing of the others.
    for machine, wanted in ((kiosk, "step-3"), (store, "step-4")):
        _, other, done = machine.step()
        assert (other, done.data["published"]) == (wanted, True)
    # An hour later: all but step-6 need what the till has.
    assert kiosk.step()[1] == "step-6"
    none = store.data("claim", "work", "--worktree", str(store.path / "x"))
    assert (none["claimed"], none["waiting_for"]["step-5"]) == (False, ["publish"])
    assert {each["step_anchor"] for each in none["unpublished_steps"]} == {"step-2"}
    till.git("remote", "set-url", "origin", str(team.bare))
    again = till.data("claim", "work", at=path)
    till.data("release", "work", again["anchor"], at=path)
    did = _ended({each.name: _started(each) for each in (till, kiosk, store)})
    assert len([step for steps in did.values() for step in steps]) == len(STEPS) - 5
    _merged(team, kiosk)


def test_a_clone_that_is_old_takes_part(team):
    till, kiosk = team.start("till", "kiosk")
    kiosk.git("commit", "--quiet", "--allow-empty", "--message=the world moved on")
    kiosk.git("push", "--quiet", "origin", "main")
    store = team.join("store")
    did = _ended({each.name: _started(each) for each in (till, kiosk, store)})
    assert sorted(step for steps in did.values() for step in steps) == sorted(STEPS)
    # The till's main lacks a commit: it is told, and nothing is overwritten.
    refused = till.run("merge", "work", "--push", "--json")
    assert refused.codes == ["E062"]
    assert refused.envelope()["issues"][0]["hint"] == "git pull --ff-only origin main"
    till.git("pull", "--quiet", "--ff-only", "origin", "main")
    _merged(team, till)


PUBLISHING = ("publish.begun", "publish.pushed", "publish.recorded")


@pytest.mark.parametrize("point", PUBLISHING)
@pytest.mark.parametrize("again", ["claim", "commit", "worktree publish", "doctor --fix"])
def test_a_kill_between_commit_publish_and_record_leads_to_the_same_end(team, point, again):
    till, kiosk = team.start("till", "kiosk")
    made = till.data("worktree", "create", "work", "--claim")
    path, branch = made["worktree_path"], made["branch_name"]
    (Path(path) / "step-1.txt").write_text("done\n")
    till.data("state", "update", "work", "step-1", "--all", "completed", at=path)
    words = ("commit", "--plan", "work", "--step", "step-1", "--message", "feat: one")
    assert till.spawn(*words, at=path, TUGCODE_CRASH_AT=point).returncode == -9
    step = kiosk.data("state", "show", "work")["steps"][0]
    assert step["status"] == "completed"
    assert ("unpublished" in step) == (point != "publish.recorded")
    assert (team.tip(branch) == step["commit_hash"]) == (point != "publish.begun")
    how = {"claim": ("claim", "work"), "commit": words}.get(again, again.split())
    assert till.run(*how, at=path).status in (0, 1)
    step = kiosk.data("state", "show", "work")["steps"][0]
    assert "unpublished" not in step
    assert team.tip(branch) == step["commit_hash"]
    assert till.git("rev-list", "--count", f"main..{branch}").strip() == "1"


def test_a_kill_between_the_push_of_saved_work_and_its_note_leads_to_the_same_end(team):
    till, kiosk = team.start("till", "kiosk")
    path = till.data("next", "work")["worktree_path"]
    (Path(path) / "half.txt").write_text("half\n")
    kiosk.data("reset", "work", "step-1")
    point = {"TUGCODE_CRASH_AT": "publish.saved"}
    assert till.spawn("worktree", "publish", **point).returncode == -9
    listed = kiosk.git("ls-remote", "origin", "refs/tug/salvage/*")
    (ref,) = till.data("worktree", "publish")["salvage_refs"]
    assert listed.split()[1:] == [ref]
    assert kiosk.git("ls-remote", "origin", "refs/tug/salvage/*") == listed
    assert till.data("worktree", "publish")["salvage_refs"] == []


#: Points of commands that push: where this file and test_implement_machines kill them.
KILLED = {*PUBLISHING, "publish.saved", "push.merged", "push.pushed", "implement.shared"}


def _points_about_pushes(source: str) -> dict[str, tuple[list[str], bool]]:
    """Function that pushes -> its crash points, and whether one comes after the push."""
    found = {}
    for each in ast.walk(ast.parse(source)):
        calls = [c for c in ast.walk(each) if isinstance(c, ast.Call)]
        named = [(ast.unparse(call.func), call.lineno) for call in calls]
        pushes = [line for name, line in named if name in ("to.push", "self.to.push")]
        if isinstance(each, ast.FunctionDef) and pushes:
            points = {c.args[0].value: c.lineno for c in calls if "point" in ast.unparse(c.func)}
            after = any(line > max(pushes) for line in points.values())
            found[each.name] = (list(points), after)
    return found


def test_no_push_is_without_a_crash_point_that_is_killed_here():
    sources = [path.read_text() for path in Path(tugtool.__file__).parent.rglob("*.py")]
    found = {n: p for source in sources for n, p in _points_about_pushes(source).items()}
    assert len(found) == 4
    assert [name for name, (_, after) in found.items() if not after] == []
    assert {point for points, _ in found.values() for point in points} == KILLED
    # It notices one that has none.
    assert _points_about_pushes("def send(to):\n    to.push(1, 2)\n") == {"send": ([], False)}


#: A later commit, as it is in life; in the same second two merges would be one commit.
LATER = {"GIT_AUTHOR_DATE": "2030-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2030-01-01T00:00:00Z"}
MERGING = ("intent", "locked", "advanced", "moved", "recorded", "tidied")
#: Points after which the record has a merge that the remote lacks.
ON_ONE_ALONE = ("merge.recorded", "merge.tidied", "push.merged")


def _merge_by_hints(machine: Machine) -> tuple[dict, list[str]]:
    """`merge --push`, after what it asks for. Return its answer and all codes."""
    done = machine.run("merge", "work", "--push", "--json", **LATER)
    codes = done.codes
    if codes == ["E062"]:
        pull, *words = done.envelope()["issues"][0]["hint"].split()[1:]
        assert pull == "pull", done.out
        machine.git("pull", "--quiet", "--no-edit", *words)
        done = machine.run("merge", "work", "--push", "--json", **LATER)
        codes = [*codes, *done.codes]
    assert done.status == 0, done.out
    return done.data, codes


def _at_one_end(team: Fleet, machine: Machine) -> None:
    """The remote has each step once, and the machine has nothing of the merge left."""
    assert team.tip("main") == machine.git("rev-parse", "main").strip()
    log = machine.git("log", "--format=%(trailers:key=Tug-Step,valueonly,separator=%x2C)", "main")
    assert Counter(line for line in log.split("\n") if line) == Counter(STEPS[:3])
    assert os.listdir(machine.path / ".tugtree") == []
    checks = machine.run("doctor", "--json").data["checks"]
    assert [each["name"] for each in checks if each["status"] != "ok"] == ["set-up"]


@pytest.mark.parametrize("by", ["till", "kiosk"])
@pytest.mark.parametrize(
    "point", [*(f"merge.{each}" for each in MERGING), "push.merged", "push.pushed"]
)
def test_a_kill_in_a_merge_that_pushes_leads_to_the_same_end(
    repo, url, tugcode, monkeypatch, tmp_path, point, by
):
    team = Fleet(tmp_path, repo, tugcode, monkeypatch, "1 t", "2 t", "3 t < 1 2")
    till, kiosk = team.start("till", "kiosk")
    for machine in (till, kiosk, till):
        machine.step()
    assert till.spawn("merge", "work", "--push", TUGCODE_CRASH_AT=point).returncode == -9
    if by == "kiosk" and point in ON_ONE_ALONE:
        # Another machine is told where the merge is, and that it can merge anew.
        assert "merged on till, not pushed" in kiosk.run("status").out
        refused = kiosk.run("merge", "work", "--json")
        assert refused.codes == ["E062"]
        assert refused.envelope()["issues"][0]["hint"] == "tugcode merge work --push"
    first = team.machines[by]
    done, codes = _merge_by_hints(first)
    assert (done["merged"], done["pushed"]) == (True, True)
    anew = by == "kiosk" and point in ON_ONE_ALONE
    pulled = by == "kiosk" and point == "push.pushed"
    assert codes == (["W173"] if anew else ["E062"] if pulled else [])
    for machine in (first, *(each for each in (till, kiosk) if each is not first)):
        again, _ = _merge_by_hints(machine)
        assert (again["merged"], again["pushed"]) == (True, True)
        machine.data("worktree", "cleanup")
        _at_one_end(team, machine)
        assert "not pushed" not in machine.run("status").out


def test_the_story_notices_a_record_that_hands_out_unpublished_work(team, monkeypatch):
    from tugtool.state import publication

    till, kiosk = team.start("till", "kiosk")
    till.git("remote", "set-url", "origin", "/nowhere/shop.git")
    till.step()
    assert not kiosk.data("claim", "work")["claimed"]
    monkeypatch.setattr(publication, "waits", lambda tx, owner: {})
    made = kiosk.data("worktree", "create", "work", "--claim")
    refused = kiosk.run("worktree", "sync", "work", "--json", at=made["worktree_path"])
    assert refused.codes == ["E061"]


@pytest.fixture
def hours(monkeypatch) -> list[float]:
    """The clock of the state's server, which the test moves: hours ahead."""
    ahead = [0.0]
    begin = PostgresStore.__init__

    def by_the_test_s_clock(self: PostgresStore, *words: object, **how: object) -> None:
        def now() -> int:
            return clock.system_milliseconds() + int(ahead[0] * 3_600_000)

        begin(self, *words, **{**how, "clock": now})

    monkeypatch.setattr(PostgresStore, "__init__", by_the_test_s_clock)
    return ahead


def test_a_machine_that_is_away_for_an_hour_loses_its_step_and_is_told_when_it_is_back(team, hours):
    till, kiosk, store = team.start(*CLOCKS)
    held = till.data("next", "work", "--lease-duration", "1800")
    path = Path(held["worktree_path"])
    assert held["anchor"] == "step-1"
    (path / "half.txt").write_text("half of step-1\n")
    # It reaches neither the state nor the remote.
    till.git("remote", "set-url", "origin", "/nowhere/shop.git")
    nowhere = {"TUGCODE_STATE_URL": "postgresql://127.0.0.1:1/tug?connect_timeout=1"}
    assert till.run("done", "--all", "--json", at=path, **nowhere).codes == ["E046"]
    hours[0] = 0.4
    assert kiosk.data("claim", "work", "--worktree", "/none")["claimed"] is False
    hours[0] = 1.0
    taken = kiosk.run("next", "work", "--json")
    assert (taken.status, taken.codes, taken.data["anchor"]) == (0, ["W171"], "step-1")
    there = taken.data["worktree_path"]
    assert kiosk.work(there, "step-1").data["published"] is True
    # It is back: it is told, its files are saved, and published with the remote.
    lost = till.run("done", "--all", "--json", at=path)
    assert (lost.status, lost.codes) == (4, ["E049"])
    assert "step step-1 was completed by kiosk:" in lost.out
    assert "your files are saved as refs/tug/salvage/" in lost.out
    till.git("remote", "set-url", "origin", str(team.bare))
    (ref,) = till.data("worktree", "publish")["salvage_refs"]
    assert ref in kiosk.git("ls-remote", "origin", "refs/tug/salvage/*")
    till.data("worktree", "clean", at=path)
    did = _ended({each.name: _started(each) for each in (till, kiosk, store)})
    assert sorted(step for steps in did.values() for step in steps) == sorted(STEPS[1:])
    _merged(team, kiosk)
    assert (kiosk.path / "step-1.txt").read_text() == "step-1 by kiosk\n"
    assert not (kiosk.path / "half.txt").exists()
