"""A night without a person: nothing is pushed unasked, agents that ask for time get it."""

import json
import os
import shlex
import signal
import time
from pathlib import Path

import pytest

from conftest import Repo, git
from implement.test_stop import Gate, until
from support.implement import ACTOR, IDENTITY, Play, events, kinds
from support.implement_aftermath import aftermath, result
from support.proving import sampled
from support.state import KEY
from tugtool.implement import loop
from tugtool.workflow.doctor import machine as preflight


def settings(play, text: str) -> None:
    """The whole of the configuration file."""
    (play.root / ".tugtool" / "config.toml").write_text(f"{text}\n")


def scripted(play) -> str:
    return f"command = {json.dumps([*ACTOR, str(play.script)])}"


@pytest.fixture
def remote(play, tmp_path):
    """A plan whose repository has a remote, and an integrator that pushes."""
    play = play("1 t")
    there = tmp_path / "origin.git"
    git("init", "--quiet", "--bare", str(there), cwd=tmp_path)
    play.repo.git("remote", "add", "origin", str(there))
    play.rules({"role": "integrator", "do": [{"run": "git push --quiet origin HEAD:pushed"}]})
    play.pushed = lambda: git("for-each-ref", "--format=%(refname)", cwd=there).split()
    return play


def test_nothing_is_pushed_with_the_default_agent_alone(remote):
    settings(remote, f"[agents.default]\n{scripted(remote)}")
    assert (
        "will push" not in remote._tugcode("-C", remote.root, "implement", "work", "--dry-run").out
    )
    status, told = remote.run()
    assert (status, told[-1]["status"]) == (0, "done")
    assert (remote.pushed(), remote.calls("integrator")) == ([], [])
    assert len(remote.calls("auditor")) == 1


def test_an_integrator_with_a_table_of_its_own_pushes_and_the_dry_run_says_so(remote):
    own = f"[agents.integrator]\n{scripted(remote)}"
    settings(remote, f"[agents.default]\n{scripted(remote)}\n{own}")
    assert remote.ok("implement", "work", "--dry-run")["push_remote"] == "origin"
    shown = remote._tugcode("-C", remote.root, "implement", "work", "--dry-run").out
    assert "integrator: will push to origin" in shown
    assert remote.pushed() == []
    assert remote.run()[0] == 0
    assert remote.pushed() == ["refs/heads/pushed"]


def test_the_dry_run_names_the_remote_there_is_or_none(remote):
    settings(
        remote, f"[agents.default]\n{scripted(remote)}\n[agents.integrator]\n{scripted(remote)}"
    )
    remote.repo.git("remote", "rename", "origin", "upstream")
    assert remote.ok("implement", "work", "--dry-run")["push_remote"] == "upstream"
    remote.repo.git("remote", "remove", "upstream")
    assert remote.ok("implement", "work", "--dry-run")["push_remote"] is None


def test_a_role_with_the_preset_none_is_left_out(play):
    play = play("1 t")
    left_out = '[agents.architect]\npreset = "none"\n[agents.auditor]\npreset = "none"'
    settings(play, f"[agents.default]\n{scripted(play)}\n{left_out}")
    shown = play._tugcode("-C", play.root, "implement", "work", "--dry-run").out
    assert "architect: no agent, left out" in shown
    assert play.run()[0] == 0
    assert [call.split()[0] for call in play.calls()] == ["coder", "reviewer"]
    rows = {row["key"]: row["value"] for row in play.ok("config")["settings"]}
    assert rows["agents.architect.preset"] == "none"
    assert "agents.architect.tries" not in rows


def test_a_coder_that_is_left_out_is_missed(play):
    play = play("1 t")
    settings(play, f'[agents.default]\n{scripted(play)}\n[agents.coder]\npreset = "none"')
    done = play.tugcode("implement", "work")
    assert (done.status, done.codes) == (1, ["E071"])


ROLES = ("coder", "reviewer")


def aim(play, branch: str) -> None:
    """Let the plan name a target branch."""
    head = "## Plan Metadata {#plan-metadata}\n\n| Field | Value |\n|---|---|\n"
    metadata = f"# Work\n\n{head}| Target branch | `{branch}` |\n"
    play.repo.commit({KEY: play.text.replace("# Work\n", metadata)})


def test_doctor_names_a_plan_whose_target_branch_is_gone(play):
    play = play("1 t")
    aim(play, "develop")
    play.ok("state", "init", "work")
    checks = {each["name"]: each for each in play.tugcode("doctor").data["checks"]}
    [finding] = checks["targets"]["findings"]
    assert 'there is no branch "develop"' in finding["message"]
    play.repo.git("branch", "develop")
    checks = {each["name"]: each for each in play.tugcode("doctor").data["checks"]}
    assert checks["targets"]["findings"] == []


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_all_that_is_wrong_is_said_at_once_before_an_agent_is_started(play, monkeypatch, words):
    play = play("1 t")
    aim(play, "mian")
    play.cast("coder")
    config = play.root / ".tugtool" / "config.toml"
    config.write_text(config.read_text() + "[agents.auditor]\ncommand = ['no-such-auditor']\n")
    for name in IDENTITY:
        monkeypatch.delenv(name)
    monkeypatch.setenv("EMAIL", "")
    play.repo.git("config", "user.useConfigOnly", "true")
    hook = play.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/no/such/shell\n")
    hook.chmod(0o755)
    monkeypatch.setattr(preflight, "LEAST_BYTES", 1 << 62)
    done = play.tugcode("implement", "work", *words)
    said = [issue["message"] for issue in done.envelope()["issues"]]
    assert done.status == 1
    for part in (
        "has no agent for the reviewer",
        "'no-such-auditor' is not a program on its PATH",
        'there is no branch "mian" (the plan\'s Target branch)',
        "has no commit identity",
        "hook pre-commit, which cannot be run: there is no /no/such/shell",
        "MiB are free there",
    ):
        assert any(part in message for message in said), part
    assert said[-1].endswith("is not ready: 6 things are wrong, and no agent was started")
    assert (play.calls(), play.trees()) == ([], [])
    shown = play._tugcode("-C", play.root, "implement", "work", *words).err
    assert shown.count(": error E") == 6
    assert "next: tugcode doctor" in shown
    findings = {each["name"]: each["findings"] for each in play.tugcode("doctor").data["checks"]}
    messages = [each["message"] for each in findings["runs"]]
    assert len(messages) == 3
    assert "no-such-auditor" in messages[2]


def close(play, says: str, **terms: object) -> Path:
    """Let agents say only this until a file is there; which."""
    opened = play.root.parent / "open"
    script = shlex.join((*ACTOR, str(play.script)))
    line = f"test -e {opened} || {{ {says}; exit $?; }}; exec {script}"
    roles = [f"[agents.{role}]\ncommand = {json.dumps(['sh', '-c', line])}" for role in ROLES]
    chosen = "\n".join(f"{name} = {value}" for name, value in terms.items())
    settings(play, "[implement]\n" + "\n".join((chosen, *roles)))
    return opened


@pytest.fixture
def limited(play):
    """Agents that an overloaded service refuses until so many seconds have passed."""

    def make(*lines: str, until: float, says: str = "exit 75", **terms: object):
        made = play(*lines)
        made.timer.at.append((until, close(made, says, **terms).touch))
        return made

    return make


#: A client of which the service wants nothing for a while, and one that only fails.
LATER = "exit 75"
WAIT = """echo '{"retry_after_seconds": 45}'"""
LIMIT = (
    """echo '{"type": "result", "is_error": true, "result": "API Error: 429 rate limit"}'; false"""
)
BROKEN = "echo connection refused >&2; exit 1"


@pytest.mark.parametrize(
    ("says", "workers"),
    sampled([(LATER, 3), (LIMIT, 1), (WAIT, 3), (LATER, 1), (WAIT, 1), (LIMIT, 3)], 3),
)
def test_a_service_that_refuses_for_ten_minutes_parks_nothing_and_the_run_ends_done(
    limited, says, workers
):
    play = limited("1 t", "2 t", "3 t", until=600, says=says)
    status, told = play.run("--workers", workers)
    assert (status, told[-1]["status"]) == (0, "done")
    assert not {"parked", "escalated", "failed"} & set(kinds(told))
    assert ("cooling_down" in kinds(told)) == (workers > 1)
    assert play.outcomes("step-1") == ["completed"]
    assert 600 <= play.timer.passed < 2400
    play.finished()


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("workers", [1, 2])
def test_agents_of_two_steps_that_fail_alike_cool_the_run_down(limited, workers):
    play = limited("1 t", "2 t", "3 t", until=600, says=BROKEN)
    status, told = play.run("--workers", workers)
    assert (status, told[-1]["status"]) == (0, "done")
    assert not {"parked", "escalated"} & set(kinds(told))
    began, ended = (kinds(told).index(kind) for kind in ("cooling_down", "cooled_down"))
    wrong = [each["what"] for each in play.ok("report", "work")["incidents"]]
    assert [each for each in wrong if each.startswith("cool")] == ["cooling_down", "cooled_down"]
    assert told[began]["reason"] == "it ended with exit status 1: connection refused"
    between = told[began:ended]
    assert "claimed" not in kinds(between)
    pauses = [event["retry_seconds"] for event in between if event["event"] == "agent_failed"]
    # Between them an agent that was begun before may end, and wait for the rest of a pause.
    told_pauses = iter([round(pause) for pause in pauses])
    assert all(pause in told_pauses for pause in (120, 240, 480))
    assert told[ended]["seconds"] >= 60 + 120 + 240
    play.finished()


@pytest.mark.proof(share=0)
def test_a_run_that_has_waited_long_enough_stops_and_parks_nothing(limited):
    play = limited("1 t", "2 t", until=1e9, says=BROKEN)
    status, told = play.run("--workers", 2)
    assert (status, told[-1]["status"]) == (1, "stopped")
    assert told[-1]["reason"].startswith("the agents failed for 8h, and no step is to blame: it")
    assert not any(each["parked"] for each in told[-1]["left"])
    assert (play.held(), play.rows("select * from steps where parked_at <> ''")) == ([], [])
    assert len(play.calls()) == 0
    assert 28800 <= play.timer.passed < 30000


def test_a_single_step_is_not_waited_for_longer_than_patience_lasts(limited):
    play = limited("1 t", until=1e9, patience_seconds=900)
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "stopped")
    assert "an agent asked for more time than the run has" in told[-1]["reason"]
    assert not told[-1]["left"][0]["parked"]
    assert 900 <= play.timer.passed < 1200


def test_without_patience_an_agent_that_asks_for_time_has_failed(limited):
    play = limited("1 t", "2 t", until=1e9, patience_seconds=0)
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "unfinished")
    assert [each["parked"] for each in told[-1]["left"]] == [True, True]
    assert "cooling_down" not in kinds(told)


def test_an_agent_that_fails_is_tried_again_after_longer_and_longer_pauses(play):
    play = play("1 t")
    play.cast(*ROLES, more="tries = 5", retry_seconds=[5, 30, 120])
    play.rules({"role": "coder", "call": [1, 2, 3, 4], "rubbish": True})
    status, told = play.run()
    failed = [event for event in told if event["event"] == "agent_failed"]
    assert (status, [event["retry_seconds"] for event in failed]) == (0, [5, 30, 120, 120])
    assert play.timer.passed == pytest.approx(275, abs=1)


@pytest.mark.proof(share=0)
def test_answers_that_break_their_contract_are_the_steps_matter(play):
    play = play("1 t", "2 t")
    play.cast(*ROLES)
    play.rules({"role": "reviewer", "omit": ["recommendation"]})
    status, told = play.run("--workers", 2)
    assert (status, told[-1]["status"]) == (1, "unfinished")
    assert [each["parked"] for each in told[-1]["left"]] == [True, True]
    assert "cooling_down" not in kinds(told)


LINES = ("1 t", "2 t", "3 t < 1 2")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the plan comes to where the service refuses no agent."""
    play = Play(Repo.init(tmp_path_factory.mktemp("undisturbed") / "repo"), None, None, *LINES)
    close(play, BROKEN).touch()
    process = play.start()
    try:
        out, err = process.communicate(timeout=60)
    finally:
        play.end()
    assert (process.returncode, err) == (0, "")
    aftermath(play, events(out))
    return outcome(play)


def outcome(play) -> dict[str, object]:
    """What the plan came to; steps that do not need each other may be done in any order."""
    found = result(play)
    return {**found, "commits": sorted(found["commits"])}


@pytest.mark.proof
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_ends_while_it_cools_down_comes_to_the_same_end(play, undisturbed, how):
    play = play(*LINES)
    opened = close(play, BROKEN, retry_seconds=[0])
    if how == signal.SIGKILL:
        process = play.start(TUGCODE_CRASH_AT="implement.cooling")
        assert process.communicate(timeout=60)[1] == ""
        assert process.returncode == -how
    else:
        gate = Gate(play, "implement.cooling")
        process = play.start(TUGCODE_CRASH_AT=gate.asked)
        gate.reached(process)
        os.killpg(process.pid, how)
        told = until(process, "stopping")
        gate.let_go()
        told += events(process.communicate(timeout=60)[0])
        assert (process.returncode, told[-1]["status"]) == (130, "stopped")
        aftermath(play, told, done=[])
    opened.touch()
    status, told = play.run()
    assert status == 0, told[-1]
    aftermath(play, told)
    assert outcome(play) == undisturbed


@pytest.mark.proof(share=0)
def test_a_run_stops_cleanly_at_the_time_that_it_was_given(limited):
    play = limited("1 t", "2 t", until=1e9)
    # Two hours from now, whatever the clock shows.
    then = time.strftime("%H:%M", time.localtime(time.time() + 7200))
    assert play.ok("implement", "work", "--dry-run", "--until", then)["until"] > "2026"
    status, told = play.run("--until", then)
    assert (status, told[-1]["status"]) == (1, "stopped")
    assert told[-1]["reason"] == "the time that --until named has come"
    assert (play.held(), any(each["parked"] for each in told[-1]["left"])) == ([], False)
    assert 7100 < play.timer.passed < 7300


@pytest.mark.parametrize("word", ["7", "25:00", "07:60", "07:0", "seven", ""])
def test_a_time_that_is_none_is_refused(play, word):
    assert play("1 t").tugcode("implement", "work", "--until", word).codes == ["E070"]


def test_no_step_is_begun_beyond_the_budget_of_money(play):
    play = play("1 t", "2 t", "3 t")
    play.cast(*ROLES, budget_cost=0.5)
    play.rules({"role": "coder", "usage": {"cost_usd": 0.3}})
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "budget")
    assert told[-1]["reason"] == "the budget of $0.50 is used up"
    assert list(play.steps().values()) == ["completed", "completed", "pending"]
    data = play.ok("implement", "work", "--dry-run")
    assert (data["budget_cost"], data["cost"]) == (0.5, 0.6)
    shown = play._tugcode("-C", play.root, "implement", "work", "--dry-run").out
    assert "a budget of $0.50, $0.60 of it used" in shown


def notified(play, line: str, on: str = "") -> Path:
    """Let a command of the shell hear of the run; where it writes."""
    told = play.root.parent / "told"
    command = json.dumps(["sh", "-c", line.format(told=shlex.quote(str(told)))])
    config = play.root / ".tugtool" / "config.toml"
    config.write_text(f"{config.read_text()}[notify]\ncommand = {command}\n{on}\n")
    return told


def notices(told: Path) -> list[str]:
    return [json.loads(line)["notice"] for line in told.read_text().splitlines()]


@pytest.mark.proof(share=0)
def test_a_command_hears_what_a_person_should_know(limited):
    play = limited("1 t", "2 t", until=300, says=BROKEN)
    play.rules({"role": "reviewer", "step": "step-2", "answer": {"recommendation": "ESCALATE"}})
    told = notified(play, "cat >> {told}; echo on the screen; echo and here >&2")
    status, events_told = play.run("--workers", 2)
    assert status == 1
    assert notices(told) == ["cooling_down", "needs_person", "stopped"]
    last = json.loads(told.read_text().splitlines()[-1])
    assert (last["event"], last["status"], last["plan_path"]) == ("finished", "unfinished", KEY)
    assert "warning" not in kinds(events_told)


@pytest.mark.proof(share=0)
def test_only_the_events_that_were_asked_for_are_told(play):
    play = play("1 t", "2 t")
    play.cast(*ROLES)
    play.rules({"role": "reviewer", "step": "step-1", "answer": {"recommendation": "ESCALATE"}})
    told = notified(play, "cat >> {told}", 'on = ["done"]')
    assert play.run()[0] == 1
    assert not told.exists()
    play.rules()
    play.ok("state", "reset", "work", "step-1")
    assert play.run()[0] == 0
    assert notices(told) == ["done"]


@pytest.mark.parametrize("line", ["exit 3", "sleep 1000"])
def test_a_command_that_fails_or_hangs_harms_nothing(play, monkeypatch, line):
    monkeypatch.setattr(loop, "NOTICE_SECONDS", 0.1)
    play = play("1 t", "2 t")
    play.cast(*ROLES)
    play.rules({"role": "reviewer", "step": "step-1", "answer": {"recommendation": "ESCALATE"}})
    notified(play, line)
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "unfinished")
    assert play.steps()["step-2"] == "completed"
    [warning] = [event["message"] for event in told if event["event"] == "warning"]
    assert warning.startswith("the command of [notify] failed: it ")


def test_a_command_that_is_nowhere_harms_nothing(play):
    play = play("1 t")
    play.cast(*ROLES)
    config = play.root / ".tugtool" / "config.toml"
    config.write_text(f"{config.read_text()}[notify]\ncommand = ['no-such-program']\n")
    assert play.run()[0] == 0
