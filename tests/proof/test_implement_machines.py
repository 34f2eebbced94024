"""Three machines run `implement` on one plan at once: each step once, one audit, merged, pushed."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_many_machines import CLOCKS, DIAMOND, STEPS

from support.implement import ACTOR, logged_calls
from support.machines import SETTINGS, Fleet, Machine
from support.server import Process
from workflow.test_shared_record import url

__all__ = ["url"]

pytestmark = pytest.mark.proof(share=0)

HERE = str(Path(__file__).parent)
#: `tugcode` on a machine whose clock is so far ahead; with a fault, if one is planted.
RUNNER = """
import os, sys
sys.path.insert(0, {here!r})
from pg_clock import shift
shift(float(sys.argv[1]))
{planted}
from tugtool.cli.main import main
# As the command ends.
os._exit(main(sys.argv[2:]))
"""
NO_LOCK = """
from tugtool.state import worktrees
worktrees._is_audited = lambda *_: False
"""
MOST_SECONDS = 240
REVISE = {"recommendation": "REVISE", "cross_step_issues": ["two names for one thing"]}
#: The auditor finds something; what the coder then writes belongs to no step.
RULES = (
    {"role": "auditor", "round": 1, "answer": REVISE},
    # Each machine does it in its own way: two repairs would be in conflict.
    {"role": "coder", "round": 2, "do": [{"run": 'basename "$HOME" > repaired'}]},
)


class Team(Fleet):
    """A fleet whose machines have scripted agents, which write one log."""

    def __init__(self, directory: Path, *words, lines: tuple[str, ...], roles, **implement) -> None:
        self.script = directory / "script.json"
        self.script.write_text(json.dumps({"rule": RULES}))
        terms = {"retry_seconds": [0], **implement}
        settings = [SETTINGS, "[implement]", *(f"{name} = {v}" for name, v in terms.items())]
        command = json.dumps([*ACTOR, str(self.script)])
        settings += [f"[agents.{role}]\ncommand = {command}" for role in roles]
        super().__init__(directory, *words, *lines, settings="\n".join(settings) + "\n")

    def calls(self, role: str) -> list[str]:
        return [each["step"] for each in logged_calls(f"{self.script}.log") if each["role"] == role]


def started(machine: Machine, planted: str = "", **env: str) -> subprocess.Popen:
    """`implement` on a machine whose clock is its own."""
    whole = {**os.environ, **machine.environment, **env}
    code = RUNNER.format(here=HERE, planted=planted)
    python = [sys.executable, "-X", "faulthandler"]
    argv = [*python, "-c", code, str(CLOCKS[machine.name]), "-C", str(machine.path)]
    argv += ["implement", "work", "--workers", "2", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(argv, env=whole, text=True, **pipes)


def ended(run: subprocess.Popen) -> tuple[int, list[dict]]:
    try:
        out, err = run.communicate(timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        # It says where each of its threads is.
        run.send_signal(signal.SIGABRT)
        out, err = run.communicate()
    assert run.returncode in (0, 1, 130, -9), (run.returncode, out[-2000:], err[-4000:])
    return run.returncode, [json.loads(line)["data"] for line in out.splitlines()]


def repairs(machine: Machine) -> list[str]:
    """The machines whose repairs are on main, oldest first."""
    commits = machine.git("rev-list", "--reverse", "--topo-order", "--grep=^Tug-Audit: ", "main")
    homes = [machine.git("show", f"{each}:repaired").strip() for each in commits.split()]
    return [home.removeprefix("home-") for home in homes]


def merged(team: Team, on: Machine, steps: list[str], codes: Sequence[str] = ()) -> None:
    """Each step has one commit; the remote's main has all of it, and what the audit changed."""
    shown = on.data("state", "show", "work")
    assert shown["status"] == "done"
    assert not [step for step in shown["steps"] if "unpublished" in step]
    done = on.run("merge", "work", "--push", "--json")
    assert done.status == 0, done.out
    assert (done.status, done.codes, done.data["pushed"]) == (0, list(codes), True), done.out
    log = on.git("log", "--format=%(trailers:key=Tug-Step,valueonly,separator=%x2C)", "main")
    assert Counter(line for line in log.split("\n") if line) == Counter(steps)
    assert team.tip("main") == on.git("rev-parse", "main").strip()
    names = on.git("ls-tree", "-r", "--name-only", "main").split()
    assert {"repaired", *(f"scripted/{step}.txt" for step in steps)} <= set(names)


ROLES = ("coder", "reviewer", "auditor", "integrator")


def _all_at_once(team: Team, machines: list[Machine]) -> None:
    """Three runs at once: every agent is called once for its step, and one run audits."""
    runs = [ended(run) for run in [started(each) for each in machines]]
    assert [(status, told[-1]["status"]) for status, told in runs] == [(0, "done")] * 3, runs
    told = [event for _, events in runs for event in events]
    assert sorted(team.calls("reviewer")) == sorted(STEPS)
    assert len(team.calls("coder")) == len(STEPS) + 1
    assert (team.calls("auditor"), team.calls("integrator")) == ([None] * 2, [None])
    completed = [event["step_anchor"] for event in told if event["event"] == "completed"]
    assert sorted(completed) == sorted(STEPS)
    worked = [any(event["event"] == "completed" for event in events) for _, events in runs]
    assert sum(worked) >= 2
    # A machine that did not audit gets what the audit changed, once.
    audited = [any(event["event"] == "audited" for event in events) for _, events in runs]
    assert sum(audited) == 1
    merged(team, machines[audited.index(False)], STEPS)
    assert repairs(machines[audited.index(False)]) == [machines[audited.index(True)].name]


def test_three_runs_do_a_diamond_once_and_audit_it_once(repo, url, tugcode, monkeypatch, tmp_path):
    team = Team(tmp_path, repo, tugcode, monkeypatch, lines=DIAMOND, roles=ROLES)
    _all_at_once(team, team.start(*CLOCKS))


def test_the_same_with_the_state_on_a_server_of_tugtool(repo, tugcode, monkeypatch, tmp_path):
    team = Team(tmp_path, repo, tugcode, monkeypatch, lines=DIAMOND, roles=ROLES)
    hub = team.join("hub")
    hub.data("state", "init", "work", TUGCODE_STATE_URL="")
    with Process(hub.path) as server:
        monkeypatch.setenv("TUGCODE_SERVER", server.url)
        monkeypatch.setenv("TUGCODE_TOKEN", server.token)
        _all_at_once(team, [team.join(name) for name in CLOCKS])


#: Where a machine dies that audits -> the machines whose repairs are merged, oldest first. The
#: auditor asks every run for one.
POINTS = {
    **{each: ["kiosk"] for each in ("gathered", "audited", "mended", "repaired")},
    "shared": ["till", "kiosk"],
    "integrated": ["till"],
}


@pytest.mark.parametrize(
    ("point", "on"), [*((point, "store") for point in POINTS), ("repaired", "till")]
)
def test_another_machine_takes_over_the_audit_of_one_that_is_killed(
    repo, url, tugcode, monkeypatch, tmp_path, point, on
):
    lines = ("1 t", "2 t")
    how = {"lines": lines, "roles": ROLES, "lease_seconds": 2}
    team = Team(tmp_path, repo, tugcode, monkeypatch, **how)
    till, kiosk, _ = team.start(*CLOCKS)
    assert ended(started(till, TUGCODE_CRASH_AT=f"implement.{point}"))[0] == -9
    status, told = ended(started(kiosk))
    assert (status, told[-1]["status"]) == (0, "done"), told
    # The machine comes back: nothing is left to do there. What it has, it publishes.
    status, told = ended(started(till))
    assert (status, told[-1]["status"]) == (0, "done")
    till.data("worktree", "publish")
    assert team.calls("integrator") == [None]
    # A repair that was never pushed was done again; only what the auditor approved is merged.
    merged(team, team.machines[on], ["step-1", "step-2"], ["W116"] if point == "repaired" else [])
    assert repairs(team.machines[on]) == POINTS[point]


def test_the_story_notices_two_runs_that_audit_at_once(repo, url, tugcode, monkeypatch, tmp_path):
    team = Team(tmp_path, repo, tugcode, monkeypatch, lines=("1 t",), roles=ROLES)
    till, kiosk, _ = team.start(*CLOCKS)
    # The reservation of the one that died lasts for ten minutes.
    assert ended(started(till, TUGCODE_CRASH_AT="implement.gathered"))[0] == -9
    waits = started(kiosk)
    # Lines that are read here are not in what `ended` returns.
    told = iter(waits.stdout.readline, "")
    assert any("another run audits the plan" in line for line in told), waits.stderr.read()
    waits.send_signal(signal.SIGINT)
    assert ended(waits)[1][-1]["status"] == "stopped"
    assert team.calls("auditor") == []
    status, told = ended(started(kiosk, planted=NO_LOCK))
    assert (status, told[-1]["status"]) == (0, "done")
