"""The scripted agent: it does what its script says, and counts its calls across processes."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.agents import INPUTS
from support.implement import logged_calls
from tugtool.agents import answers, clis, contracts
from tugtool.agents import scripted as script
from tugtool.agents.clis import AgentUsage
from tugtool.system.agent_config import ROLES

COMMAND = [sys.executable, "-P", "-m", "tugtool.agents.scripted"]


class Stage:
    """A worktree, a script, and agents that play it."""

    def __init__(self, root: Path) -> None:
        self.tree = root / "tree"
        self.tree.mkdir()
        self.path = root / "script.json"
        self.log = root / "calls.jsonl"
        self.environment = {**os.environ, "TUGCODE_SCRIPT_LOG": str(self.log)}
        self.script()

    def script(self, *rules: dict) -> None:
        self.path.write_text(json.dumps({"rule": list(rules)}))

    def given(self, role: str, **changes: object) -> bytes:
        values = {**INPUTS[role], "worktree_path": str(self.tree), **changes}
        return contracts.given(role, values)

    def start(self, **pipes: object) -> subprocess.Popen:
        line = [*COMMAND, str(self.path)]
        out = {"stdin": -1, "stdout": -1, "stderr": -1, **pipes}
        return subprocess.Popen(line, cwd=self.tree, env=self.environment, **out)

    def run(self, role: str = "coder", **changes: object) -> subprocess.CompletedProcess:
        agent = self.start()
        out, err = agent.communicate(self.given(role, **changes))
        return subprocess.CompletedProcess([], agent.returncode, out, err.decode())

    def answer(self, role: str = "coder", **changes: object) -> dict:
        done = self.run(role, **changes)
        assert (done.returncode, done.stderr) == (0, "")
        found = answers.checked(role, done.stdout)
        assert found.problem is None
        return found.value

    def calls(self) -> list[dict]:
        return logged_calls(str(self.log))


@pytest.fixture
def stage(tmp_path) -> Stage:
    return Stage(tmp_path)


@pytest.mark.parametrize("role", ROLES)
def test_without_a_rule_every_role_keeps_its_contract(stage, role):
    assert contracts.problems(role, stage.answer(role)) == []


def test_a_coder_without_a_rule_has_something_to_commit_and_reports_all_of_it(stage):
    report = stage.answer()
    assert (stage.tree / "scripted" / "step-1.txt").read_text() == "step-1, round 1\n"
    assert report["files_created"] == ["scripted/step-1.txt"]
    told = report["checklist_status"]
    assert {kind: len(entries) for kind, entries in told.items()} == {
        "tasks": 2,
        "tests": 1,
        "checkpoints": 2,
    }
    assert told["checkpoints"][1]["step_anchor"] == "step-1-1"
    assert stage.answer(round=2)["files_modified"] == ["scripted/step-1.txt"]


def test_a_reviewer_without_a_rule_passes_every_task_and_checkpoint(stage):
    conformance = stage.answer("reviewer")["plan_conformance"]
    found = [(kind, each) for kind in conformance for each in conformance[kind]]
    assert [(kind, each["step_anchor"], each["verdict"]) for kind, each in found] == [
        ("tasks", "step-1", "PASS"),
        ("tasks", "step-1", "PASS"),
        ("checkpoints", "step-1", "PASS"),
        ("checkpoints", "step-1-1", "PASS"),
    ]


def test_a_single_verdict_can_be_changed(stage):
    own = {"step_anchor": "step-1-1", "kind": "checkpoint", "ordinal": 0}
    stage.script({"verdicts": [{**own, "verdict": "BLOCKED", "reason": "no net"}]})
    first, second = stage.answer("reviewer")["plan_conformance"]["checkpoints"]
    assert first["verdict"] == "PASS"
    assert (second["verdict"], second["reason"]) == ("BLOCKED", "no net")


def test_an_answer_is_laid_over_the_usual_one(stage):
    change = {"summary": "other", "drift_assessment": {"reason": "why"}, "files_created": []}
    stage.script({"answer": change, "omit": ["success"]})
    done = stage.run()
    assert answers.read_answer(done.stdout).value == {
        "summary": "other",
        "files_created": [],
        "files_modified": [],
        "tests_passed": True,
        "build_passed": True,
        "checklist_status": answers.read_answer(done.stdout).value["checklist_status"],
        "drift_assessment": {"drift_severity": "none", "reason": "why"},
    }
    assert answers.checked("coder", done.stdout).problem == (
        "it breaks its contract: success is missing"
    )


def test_a_coder_can_tell_less_than_it_did(stage):
    stage.script({"under_report": 1})
    told = stage.answer()["checklist_status"]
    assert [len(told[kind]) for kind in ("tasks", "tests", "checkpoints")] == [1, 1, 1]


@pytest.mark.parametrize("form", script.FORMS)
def test_an_answer_and_its_cost_are_read_in_every_form(stage, form):
    cost = {"input_tokens": 90, "output_tokens": 10, "cached_tokens": 40, "cost_usd": 0.25}
    stage.script({"as": form, "usage": cost, "prose": 'So "be it {\n'})
    found = answers.checked("coder", stage.run().stdout)
    assert found.problem is None
    assert found.value["summary"] == "step-1: done as scripted"
    told = clis.of(found)
    tells_cost = form in ("claude", "claude-stream", "opencode", *script.FORMS[:5])
    assert told.tokens == 100
    assert told.cost_microdollars == (250_000 if tells_cost else None)
    assert told.cached_tokens == (None if form == "gemini-stream" else 40)


def test_without_a_word_about_it_a_bare_answer_tells_no_cost(stage):
    assert clis.of(answers.read_answer(stage.run().stdout)) == AgentUsage()


@pytest.mark.parametrize("form", script.FORMS)
def test_rubbish_is_no_answer_in_any_form(stage, form):
    stage.script({"as": form, "rubbish": True})
    assert "no JSON object in its answer" in answers.read_answer(stage.run().stdout).problem
    stage.script({"as": form, "rubbish": '{"a": 1'})
    assert answers.read_answer(stage.run().stdout).value is None


def test_it_writes_appends_and_deletes_and_tells_so(stage):
    (stage.tree / "old").write_text("old\n")
    (stage.tree / "gone").write_text("")
    todo = [
        {"write": "a/b.txt", "text": "{role} {step} {attempt} {round} {try} {call} {x}\n"},
        {"append": "a/b.txt", "text": "more\n"},
        {"append": "old", "text": "new\n"},
        {"delete": "gone"},
        {"touch": "mark"},
        {"run": "echo $PWD > here; exit 3", "may_fail": True},
    ]
    stage.script({"do": todo})
    report = stage.answer()
    assert (stage.tree / "a" / "b.txt").read_text() == "coder step-1 2 1 1 1 {x}\nmore\n"
    assert (stage.tree / "old").read_text() == "old\nnew\n"
    assert not (stage.tree / "gone").exists()
    assert (stage.tree / "mark").read_text() == ""
    assert (stage.tree / "here").read_text() == f"{stage.tree}\n"
    assert report["files_created"] == ["a/b.txt"]
    assert report["files_modified"] == ["old", "gone"]


def test_a_command_that_fails_ends_it_without_an_answer(stage):
    stage.script({"do": [{"run": "exit 3"}, {"touch": "never"}]})
    done = stage.run()
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == "scripted agent: exit 3 ended with status 3\n"
    assert not (stage.tree / "never").exists()


def test_a_commit_that_git_refuses_is_told_without_a_traceback(stage):
    stage.script({"do": [{"commit": "nothing"}]})
    done = stage.run()
    assert done.returncode == 1
    assert done.stderr.endswith("scripted agent: git add failed\n")
    assert "Traceback" not in done.stderr


def test_what_an_answer_says_is_filled_in_however_deep(stage):
    issues = [{"severity": "minor", "description": "{step} of {role}"}]
    stage.script({"answer": {"summary": "{role}", "issues": issues}})
    said = stage.answer("reviewer")
    step = INPUTS["reviewer"]["step_anchor"]
    assert said["summary"] == "reviewer"
    assert said["issues"][0]["description"] == f"{step} of reviewer"


def test_it_edits_the_plan_and_commits_if_it_is_told_to(stage, repo):
    plan = repo.plan("x", "# Plan\n")
    stage.tree = repo.path
    stage.script({"do": [{"edit_plan": "- [ ] mine\n"}, {"commit": "by {role}"}]})
    stage.answer()
    assert plan.read_text() == "# Plan\n- [ ] mine\n"
    assert repo.git("log", "-1", "--format=%s").strip() == "by coder"
    assert repo.git("status", "--porcelain") == ""


def test_noise_goes_before_the_answer_and_complaints_to_standard_error(stage):
    noise = [{"noise": 'said "{"\n'}, {"noise_bytes": 10_000}, {"noise_hex": "fffe0a"}]
    stage.script({"do": [*noise, {"complain": "tired"}], "as": "fenced"})
    done = stage.run()
    assert len(done.stdout) > 10_000
    assert b"\xff\xfe\n" in done.stdout
    assert done.stderr == "tired\n"
    assert answers.checked("coder", done.stdout).problem is None


def test_it_can_end_with_any_status_with_and_without_an_answer(stage):
    stage.script({"status": 7})
    done = stage.run()
    assert done.returncode == 7
    assert answers.checked("coder", done.stdout).problem is None
    stage.script({"do": [{"exit": 9}]})
    done = stage.run()
    assert (done.returncode, done.stdout) == (9, b"")


@pytest.mark.parametrize("name", ["KILL", "SIGTERM", "INT", "SEGV"])
def test_it_can_die_by_a_signal(stage, name):
    stage.script({"do": [{"write": "half", "text": "x"}, {"die": name}]})
    done = stage.run()
    assert -done.returncode == signal.Signals[f"SIG{name.removeprefix('SIG')}"]
    assert (stage.tree / "half").exists()


def begun(stage: Stage, *todo: dict) -> subprocess.Popen:
    """An agent that has done `todo` and told so through a FIFO."""
    os.mkfifo(stage.tree / "fifo")
    stage.script({"do": [*todo, {"tell": "fifo"}, {"hang": True}]})
    agent = stage.start()
    agent.stdin.write(stage.given("coder"))
    agent.stdin.close()
    assert (stage.tree / "fifo").read_text() == "coder step-1 1\n"
    return agent


def ended(agent: subprocess.Popen) -> int:
    status = agent.wait()
    agent.stdout.close()
    agent.stderr.close()
    return status


def test_one_that_hangs_hangs_until_it_is_stopped(stage):
    agent = begun(stage)
    assert agent.poll() is None
    agent.terminate()
    assert ended(agent) == -signal.SIGTERM


def test_one_that_ignores_signals_has_to_be_killed(stage):
    agent = begun(stage, {"ignore": ["TERM", "INT"]})
    agent.send_signal(signal.SIGTERM)
    agent.send_signal(signal.SIGINT)
    status = Path(f"/proc/{agent.pid}/status")
    if status.exists():
        lines = status.read_text().splitlines()
        ignored = int(dict(line.split(":\t", 1) for line in lines)["SigIgn"], 16)
        assert ignored >> (signal.SIGTERM - 1) & 1
        assert ignored >> (signal.SIGINT - 1) & 1
    agent.kill()
    assert ended(agent) == -signal.SIGKILL


def test_what_it_spawns_goes_on_without_it(stage):
    os.mkfifo(stage.tree / "go")
    os.mkfifo(stage.tree / "gone")
    stage.script({"do": [{"spawn": "exec >gone 2>&1; cat go; echo on", "own_group": True}]})
    with subprocess.Popen(["cat", "gone"], cwd=stage.tree, stdout=-1) as reader:
        stage.answer()
        (stage.tree / "go").write_text("go ")
        assert reader.communicate()[0] == b"go on\n"


@pytest.mark.parametrize("own", [False, True])
def test_what_it_spawns_stays_in_its_group_unless_it_is_to_leave_it(stage, own):
    os.mkfifo(stage.tree / "group")
    line = f"{shlex.quote(sys.executable)} -c 'import os; print(os.getpgrp())' >group"
    stage.script({"do": [{"spawn": line, "own_group": own}]})
    agent = stage.start(start_new_session=True)
    agent.stdin.write(stage.given("coder"))
    agent.stdin.close()
    group = int((stage.tree / "group").read_text())
    assert (group == agent.pid) == (not own)
    agent.stdout.read()
    assert ended(agent) == 0


def test_it_waits_for_a_file_and_for_whoever_writes_to_a_fifo(stage):
    os.mkfifo(stage.tree / "before")
    os.mkfifo(stage.tree / "after")
    stage.script(
        {"do": [{"hear": "before"}, {"tell": "after"}, {"wait_for": "{step}.go"}, {"take_ms": 1}]}
    )
    agent = stage.start()
    agent.stdin.write(stage.given("coder"))
    agent.stdin.close()
    (stage.tree / "before").write_text("now")
    assert (stage.tree / "after").read_text() == "coder step-1 1\n"
    assert agent.poll() is None
    (stage.tree / "step-1.go").touch()
    out = agent.stdout.read()
    assert ended(agent) == 0
    assert answers.checked("coder", out).problem is None


def test_the_first_rule_that_fits_is_played(stage):
    stage.script(
        {"role": "reviewer", "status": 1},
        {"role": ["coder", "auditor"], "step": "step-2*", "status": 2},
        {"role": "coder", "attempt": 3, "status": 3},
        {"role": "coder", "round": [4, 5], "status": 4},
        {"role": "coder", "step": "step-9", "call": 2, "status": 5},
        {"role": "coder", "try": 2, "status": 6},
        {"role": "co*", "status": 7},
    )
    calls = [
        ("reviewer", {}, 1),
        ("coder", {"step_anchor": "step-21"}, 2),
        ("auditor", {}, 0),
        ("coder", {"attempt": 3}, 3),
        ("coder", {"round": 5}, 4),
        ("coder", {"step_anchor": "step-9", "attempt": 1}, 7),
        ("coder", {"step_anchor": "step-9", "attempt": 2}, 5),
        ("coder", {}, 7),
        ("coder", {}, 6),
        ("committer", {}, 7),
    ]
    assert [stage.run(role, **changes).returncode for role, changes, _ in calls] == [
        status for *_, status in calls
    ]


def test_a_rule_is_played_no_more_often_than_it_says(stage):
    stage.script({"times": 2, "status": 5}, {"times": 0, "status": 6})
    assert [stage.run().returncode for _ in range(4)] == [5, 5, 0, 0]


def test_every_call_is_written_down_with_its_numbers(stage):
    stage.script({"role": "coder", "times": 1, "do": [{"die": "KILL"}]})
    stage.run()
    stage.run()
    stage.run(attempt=3)
    stage.run("reviewer", round=2)
    stage.run("auditor")
    names = ("role", "step", "attempt", "round", "try", "call", "rule")
    assert [tuple(call[name] for name in names) for call in stage.calls()] == [
        ("coder", "step-1", 2, 1, 1, 1, 1),
        ("coder", "step-1", 2, 1, 2, 2, None),
        ("coder", "step-1", 3, 1, 1, 3, None),
        ("reviewer", "step-1", 2, 2, 1, 1, None),
        ("auditor", None, None, 1, 1, 1, None),
    ]
    assert all(isinstance(call["pid"], int) for call in stage.calls())


def test_calls_at_the_same_time_all_count_and_a_rule_for_one_gets_one(stage):
    stage.script({"times": 1, "status": 5})
    agents = [stage.start() for _ in range(8)]
    # Each has started before any gets to read, and so they meet at the counts.
    for agent in agents:
        agent.stdin.write(stage.given("coder"))
        agent.stdin.close()
    statuses = Counter()
    for agent in agents:
        agent.stdout.read()
        statuses[ended(agent)] += 1
    assert statuses == {5: 1, 0: 7}
    assert sorted(call["try"] for call in stage.calls()) == list(range(1, 9))
    assert sorted(call["call"] for call in stage.calls()) == list(range(1, 9))


def test_without_a_place_for_the_log_it_lies_beside_the_script(stage):
    del stage.environment["TUGCODE_SCRIPT_LOG"]
    stage.answer()
    assert [call["role"] for call in logged_calls(f"{stage.path}.log")] == ["coder"]


def test_a_script_may_be_toml(stage, tmp_path):
    stage.path = tmp_path / "script.toml"
    stage.path.write_text(
        '[[rule]]\nrole = "coder"\nanswer.summary = "from TOML"\n'
        'do = [{ write = "x", text = """\nline\n""" }]\n'
    )
    assert stage.answer()["summary"] == "from TOML"
    assert (stage.tree / "x").read_text() == "line\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "cannot be read"),
        ("[]", "must hold rules and nothing else"),
        ('{"rules": []}', "must hold rules and nothing else"),
        ('{"rule": {}}', "rule must be a list of tables"),
        ('{"rule": [{"rol": "coder"}]}', "rule 1 has rol, which means nothing; did you mean role?"),
        ('{"rule": [{}, {"as": "yaml"}]}', "rule 2: as must be one of plain, pretty,"),
        ('{"rule": [{"do": {"write": "x"}}]}', "do must be a list"),
        ('{"rule": [{"do": [{"wriet": "x"}]}]}', "did you mean write?"),
        ('{"rule": [{"do": [{}]}]}', "each entry of do must have one of write,"),
        ('{"rule": [{"do": [{"write": "x", "run": "y"}]}]}', "must have one of"),
        ('{"rule": [{"do": [{"write": "x", "txt": "y"}]}]}', "txt means nothing beside write"),
        ("\x00\xff", "cannot be read"),
    ],
)
def test_a_script_that_makes_no_sense_is_refused_before_anything_is_done(stage, text, reason):
    stage.path.write_text(text)
    done = stage.run()
    assert (done.returncode, done.stdout) == (2, b"")
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert not stage.log.exists()


@pytest.mark.parametrize("given", [b"", b"prose", b"{}", b'{"a": 1}', b'{"role": 3}', b'{"role": '])
def test_an_input_without_a_role_is_refused(stage, given):
    agent = stage.start()
    out, err = agent.communicate(given)
    assert (agent.returncode, out) == (2, b"")
    assert err.startswith(b"scripted agent: ")


def test_the_script_itself_must_be_named_and_there(stage):
    for words in ([], ["a", "b"], [str(stage.tree / "none.json")]):
        done = subprocess.run([*COMMAND, *words], input=b"", capture_output=True)
        assert done.returncode == 2
        assert done.stderr.startswith(b"scripted agent: ")
