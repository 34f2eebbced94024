"""claim --wait and dying holders, with real processes; nothing sleeps, everything is observed."""

import json
import os
import signal
import subprocess
import sys

import pytest

TUGCODE = (sys.executable, "-m", "tugtool", "state")


def started(desk, *words: object, at=None) -> subprocess.Popen:
    command = [*TUGCODE, *(str(word) for word in words), "--json"]
    return subprocess.Popen(
        command,
        cwd=at or desk.blue,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever runs the tests in the background has them ignore interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def until_it_waits(process: subprocess.Popen, desk) -> None:
    """Observed: it has the database open, and sleeps with the writers' queue let go."""
    database = str(desk.repo.path / ".tugtool" / "state.db")
    while database not in opened(process.pid) or state_of(process.pid) != "S":
        assert process.poll() is None, process.communicate()


def opened(pid: int) -> set[str]:
    found = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
        except FileNotFoundError:
            continue
    return found


def state_of(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def answer(process: subprocess.Popen) -> dict:
    out, err = process.communicate(timeout=60)
    assert err == ""
    return json.loads(out)


@pytest.mark.parametrize("words", [(), ("--step", "step-2")])
def test_a_waiting_claim_gets_the_step_that_another_process_makes_ready(desk, words):
    desk = desk("1 t", "2 t < 1")
    desk.ok("claim", "work")
    waiting = started(desk, "claim", "work", "--wait", "60", *words)
    until_it_waits(waiting, desk)
    desk.ok("update", "work", "step-1", "--all", "completed")
    assert waiting.poll() is None
    desk.ok("complete", "work", "step-1")
    got = answer(waiting)["data"]
    assert (got["claimed"], got["anchor"]) == (True, "step-2")


def test_a_waiting_claim_ends_when_everything_is_done(desk):
    desk = desk("1 t")
    desk.ok("claim", "work")
    waiting = started(desk, "claim", "work", "--wait", "60")
    until_it_waits(waiting, desk)
    desk.ok("complete", "work", "step-1", "--force", "enough")
    assert answer(waiting)["data"]["reason"] == "all_completed"


def test_a_waiting_claim_gets_the_step_of_a_holder_that_dies(desk):
    """Nobody writes anything when a process dies."""
    desk = desk("1 t")
    worker = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    desk.ok("claim", "work", "--holder-pid", worker.pid)
    waiting = started(desk, "claim", "work", "--wait", "60")
    until_it_waits(waiting, desk)
    worker.kill()
    worker.wait()
    worker.stdin.close()
    got = answer(waiting)["data"]
    assert (got["claimed"], got["previous_attempt"]["outcome"]) == (True, "dead")


def test_a_waiting_claim_gets_a_step_whose_lease_runs_out(desk):
    desk = desk("1 t")
    desk.ok("claim", "work", "--lease-duration", "0.5")
    got = answer(started(desk, "claim", "work", "--wait", "60"))["data"]
    assert (got["claimed"], got["reclaimed_from_expired"]) == (True, True)


def test_a_waiting_claim_goes_on_when_the_plan_does(desk):
    desk = desk("1 t")
    desk.ok("pause", "work")
    waiting = started(desk, "claim", "work", "--wait", "60")
    until_it_waits(waiting, desk)
    desk.ok("resume", "work")
    assert answer(waiting)["data"]["claimed"] is True


def test_waiting_in_vain_ends_with_the_answer_that_there_is_nothing(desk):
    desk = desk("1 t")
    desk.ok("claim", "work")
    got = desk.ok("claim", "work", "--wait", "0.1", at=desk.blue)
    assert (got["claimed"], got["reason"]) == (False, "no_ready_steps")
    refused = desk.json("claim", "work", "--wait", "0.1", "--step", "step-1", at=desk.blue)
    assert refused.codes == ["E053"]


def test_what_cannot_change_by_itself_is_not_waited_for(desk):
    desk = desk("1 t", "2 t")
    desk.ok("claim", "work", "--step", "step-1")
    desk.ok("release", "work", "step-1", "--park", "--reason", "no access")
    refused = desk.json("claim", "work", "--wait", "3600", "--step", "step-1", at=desk.blue)
    assert refused.codes == ["E067"]
    desk.ok("claim", "work")
    desk.ok("complete", "work", "step-2", "--force", "r")
    refused = desk.json("claim", "work", "--wait", "3600", "--step", "step-2", at=desk.blue)
    assert refused.codes == ["E050"]


def test_a_holder_s_step_is_free_the_moment_it_dies_at_the_command_line_too(desk):
    desk = desk("1 t")
    worker = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    desk.ok("claim", "work", "--holder-pid", worker.pid)
    assert desk.ok("claim", "work", at=desk.blue)["claimed"] is False
    worker.kill()
    worker.wait()
    worker.stdin.close()
    assert desk.ok("ready", "work")["expired_claims"] == ["step-1"]
    assert desk.ok("claim", "work", at=desk.blue)["claimed"] is True


def test_two_inits_at_once_record_the_plan_once(desk):
    desk = desk("1 tt", "2 t", init=False)
    both = [started(desk, "init", "work", at=place) for place in (desk.red, desk.blue)]
    answers = [answer(each)["data"] for each in both]
    assert sorted(each["already_initialized"] for each in answers) == [False, True]
    assert sum(each["steps_created"] for each in answers) == 2


def test_interrupting_a_waiting_claim_is_no_bug(desk):
    desk = desk("1 t")
    desk.ok("claim", "work")
    waiting = started(desk, "claim", "work", "--wait", "60")
    until_it_waits(waiting, desk)
    waiting.send_signal(signal.SIGINT)
    assert answer(waiting)["issues"][0]["code"] == "E098"
    assert waiting.returncode == 130
