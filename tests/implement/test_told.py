"""What a person is told: before a run, at its end, and where they look the next morning."""

import os
import select

import pytest

from support.implement import events, kinds
from support.state import KEY
from support.terminals import PATIENCE_SECONDS

MISSING = "no-such-agent-anywhere"


def config(play, text: str) -> None:
    file = play.root / ".tugtool" / "config.toml"
    file.write_text(f"{file.read_text()}\n{text}\n")


def warnings(told: list[dict]) -> list[str]:
    return [event["message"] for event in told if event["event"] == "warning"]


def shown(play, *words: object) -> str:
    """What a person sees of a command."""
    done = play._tugcode("-C", play.root, *words)
    return done.out + done.err


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
@pytest.mark.parametrize("program", [MISSING, f"/{MISSING}"])
def test_a_program_that_is_nowhere_is_refused_before_anything_is_claimed(play, program, words):
    play = play("1 t")
    play.cast("coder", "reviewer")
    config(play, f"[agents.auditor]\ncommand = ['{program}']")
    done = play.tugcode("implement", "work", *words)
    assert (done.status, done.codes) == (1, ["E071"])
    assert f"the auditor cannot be started: '{program}' is no" in done.out
    assert (play.trees(), play.calls()) == ([], [])


def test_a_program_is_looked_for_on_the_path_of_its_own_agent(play, tmp_path):
    play = play("1 t")
    play.cast("coder", "reviewer")
    there = tmp_path / "agents"
    there.mkdir()
    program = there / MISSING
    program.write_text("#!/bin/sh\n")
    config(play, f"[agents.architect]\ncommand = ['{MISSING}']\nenv = {{ PATH = '{there}' }}")
    assert play.tugcode("implement", "work", "--dry-run").codes == ["E071"]
    program.chmod(0o755)
    assert play.tugcode("implement", "work", "--dry-run").status == 0


@pytest.mark.proof(share=0)
def test_a_role_that_fails_twice_at_a_step_parks_it_with_the_reason(play):
    play = play("1 t", "2 t")
    play.cast("coder", "reviewer", more="tries = 1")
    play.rules({"role": "reviewer", "step": "step-1", "rubbish": True})
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "unfinished")
    assert play.outcomes("step-1") == ["failed", "failed"]
    assert len([call for call in play.calls("coder") if "step-1" in call]) == 2
    assert play.steps() == {"step-1": "pending", "step-2": "completed"}
    reason = "the reviewer failed: there is no JSON object"
    [left] = told[-1]["left"]
    assert left["parked"]
    assert reason in left["reason"]
    looks = (("state", "review"), ("state", "why", "work", "step-1"), ("status",), ("doctor",))
    for words in looks:
        assert reason in shown(play, *words), words
    assert reason in shown(play, "implement", "work")
    assert [reason in each["summary"] for each in play.artifacts("escalation")] == [True]
    play.rules()
    play.ok("state", "reset", "work", "step-1")
    assert play.run()[0] == 0
    play.finished()


@pytest.mark.proof(share=0)
def test_two_roles_that_fail_once_each_are_two_matters(play):
    play = play("1 t")
    play.cast("coder", "reviewer", more="tries = 1")
    play.rules(
        {"role": "coder", "attempt": 1, "rubbish": True},
        {"role": "reviewer", "attempt": 2, "rubbish": True},
    )
    status, told = play.run()
    assert (status, kinds(told).count("failed")) == (0, 2)
    play.finished()


def test_tokens_of_the_attempt_that_is_parked_are_counted(play):
    play = play("1 t")
    play.cast("coder", "reviewer", more="tries = 1")
    used = {"answer": {"success": False, "summary": "no"}, "usage": {"input_tokens": 7}}
    play.rules({"role": "coder", **used})
    _, told = play.run()
    assert told[-1]["tokens"] == 14


def test_an_approval_without_verdicts_leaves_the_checkpoints_to_a_person(play):
    play = play("1 tcc", "1.1 c")
    play.cast("coder", "reviewer")
    one = [{"step_anchor": "step-1", "ordinal": 1, "verdict": "PASS"}]
    play.rules({"role": "reviewer", "answer": {"plan_conformance": {"checkpoints": one}}})
    status, told = play.run()
    left = [(each["item"], each["reason"]) for each in told if each["event"] == "deferred"]
    why = "the reviewer gave no verdict on it"
    assert status == 0
    assert left == [("step-1 checkpoint 0", why), ("step-1-1 checkpoint 0", why)]
    play.finished()


def test_an_approval_beside_a_failed_task_and_a_critical_issue_is_told(play):
    play = play("1 t")
    play.cast("coder", "reviewer")
    tasks = [{"step_anchor": "step-1", "ordinal": 0, "verdict": "FAIL", "reason": "half of it"}]
    issues = [
        {"severity": "critical", "description": "it deletes the disk"},
        {"severity": "minor", "description": "a typo"},
    ]
    answer = {"plan_conformance": {"tasks": tasks, "checkpoints": []}, "issues": issues}
    play.rules({"role": "reviewer", "answer": answer})
    status, told = play.run()
    assert status == 0
    assert warnings(told) == [
        "step-1: approved although it says FAIL of step-1 task 0 (half of it)",
        "step-1: approved although it calls critical it deletes the disk",
    ]
    assert len(play.artifacts("note")) == 2


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("said", ["REVISE", "ESCALATE"])
def test_an_audit_that_does_not_approve_is_seen_the_next_morning(play, said):
    play = play("1 t")
    play.cast("coder", "reviewer", "auditor")
    play.rules({"role": "auditor", "answer": {"recommendation": said, "summary": "it leaks"}})
    status, told = play.run()
    assert (status, told[-1]["status"]) == (1, "not_approved")
    looks = (("state", "review"), ("status",), ("doctor", "--all"))
    for words in (*looks, ("merge", "work", "--dry-run")):
        assert "not approved" in shown(play, *words).replace("nor approved", "not approved"), words
    assert "it leaks" in shown(play, "state", "review")
    play.rules()
    assert play.run()[0] == 0
    assert "Nothing waits for you." in shown(play, "state", "review")
    (need,) = play.ok("status")["needs_you"]
    assert (need["what"], need["command"]) == ("unmerged", "tugcode merge work")


@pytest.mark.parametrize(
    ("code", "spoil", "words"),
    [
        ("E045", lambda play: play.repo.write({KEY: play.text + "\nMore.\n"}), ()),
        ("E031", lambda play: None, ("--base", "nope")),
        ("E048", lambda play: begun_and_changed(play), ()),
        ("E043", lambda play: unfilled(play), ()),
        ("E028", lambda play: play.repo.write({".tugtree": "in the way"}), ()),
    ],
)
def test_a_dry_run_refuses_what_the_run_refuses(play, code, spoil, words):
    play = play("1 t")
    play.cast("coder", "reviewer")
    spoil(play)
    told = [play.tugcode("implement", "work", *words, *dry) for dry in (("--dry-run",), ())]
    assert [each.status for each in told] == [1, 1]
    assert told[0].codes[-1] == told[1].codes[-1] == code
    assert told[0].out == told[1].out
    assert play.calls() == []


def begun_and_changed(play) -> None:
    play.ok("state", "init", "work")
    play.repo.write({KEY: play.text + "\nMore.\n"})


def unfilled(play) -> None:
    text = play.text.replace("Part 1", "<title of the first step>")
    play.repo.commit({KEY: text})


def test_a_dry_run_tells_of_a_paused_plan_and_what_is_used_of_the_budget(play):
    play = play("1 t", "2 t < 1")
    play.cast("coder", "reviewer", budget_tokens=9, workers=1, review_rounds=1)
    play.rules({"role": "coder", "answer": {"usage": {"tokens": 10}}})
    assert play.run()[1][-1]["status"] == "budget"
    play.ok("state", "pause", "work")
    text = shown(play, "implement", "work", "--dry-run")
    assert "1 worker, leases of 600 s, 1 review round, a budget of 9 tokens, used up: 10" in text
    assert "it is paused, and nothing is begun before: tugcode resume work" in text
    data = play.ok("implement", "work", "--dry-run")
    assert (data["paused"], data["done"], data["tokens"]) == (True, False, 10)


def test_a_plan_that_is_done_names_the_merge_and_no_tokens_that_nobody_told(play):
    play = play("1 t")
    play.cast("coder", "reviewer")
    last = play.run()[1][-1]
    assert (last["status"], last["next"]) == ("done", "tugcode merge work")
    assert "tokens" not in last
    assert "done: 1 of 1 step: next: tugcode merge work" in shown(play, "implement", "work")
    text = shown(play, "implement", "work", "--dry-run")
    assert "every step is done" in text
    play.ok("merge", "work")
    assert "next" not in play.run()[1][-1]


@pytest.mark.proof(share=0)
def test_waiting_for_somebody_else_s_step_is_told_once(play):
    play = play("1 t", "2 t < 1")
    play.cast("coder", "reviewer")
    play.ok("state", "init", "work")
    claim = play.ok("state", "claim", "work", "--worktree", "elsewhere")
    process = play.start()
    by = ("--worktree", "elsewhere", "--attempt", claim["attempt"])
    out, end = b"", process.stdout.fileno()
    while b'"waiting"' not in out or not out.endswith(b"\n"):
        assert select.select([end], [], [], PATIENCE_SECONDS)[0], out
        out += os.read(end, 1 << 16)
    told = events(out.decode())
    held = f"step-1 is held by {play.root / 'elsewhere'}"
    assert (told[-1]["steps"], told[-1]["reason"]) == (["step-1"], held)
    play.ok("state", "update", "work", "step-1", "--all", "completed", *by)
    play.ok("state", "complete", "work", "step-1", *by)
    told += events(process.communicate()[0])
    assert (process.returncode, kinds(told).count("waiting")) == (0, 1)


def test_no_configuration_is_told_with_what_would_do(play):
    play = play("1 t")
    (play.root / ".tugtool" / "config.toml").unlink()
    done = play.tugcode("implement", "work")
    assert done.codes == ["E071"]
    message = done.envelope()["issues"][0]["message"]
    assert "is not there, and no agent for the coder" in message
    assert '[agents.default] and below it preset = "claude"' in message


def test_the_preset_of_scripts_plays_them(play):
    play = play("1 t")
    play.rules({"role": "coder", "answer": {"summary": "{role} of {step}"}})
    text = f'[agents.default]\npreset = "scripted"\nenv = {{ TUGCODE_SCRIPT = "{play.script}" }}\n'
    (play.root / ".tugtool" / "config.toml").write_text(text)
    assert play.run()[0] == 0
    assert "coder of step-1" in play.repo.git("log", "--all", "--format=%B")
    play.finished()


def test_a_run_has_no_worktree_of_the_caller_s(play):
    done = play("1 t").tugcode("implement", "work", "--worktree", "/nope")
    assert (done.status, done.codes) == (2, ["E070"])
