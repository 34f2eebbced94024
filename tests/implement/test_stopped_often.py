"""Whoever stops a run says nothing about its steps; whoever dies of one does."""

import os
import select
import signal

import pytest

from support.implement import events
from support.proving import sampled
from support.terminals import PATIENCE_SECONDS


def stopped(play, number: int) -> list[dict]:
    """Run until the coder of step-1 is at work, and send the run a signal."""
    bell = play.root.parent / "bell"
    os.mkfifo(bell)
    end = os.open(bell, os.O_RDWR | os.O_NONBLOCK)
    rule = {"role": "coder", "step": "step-1", "do": [{"tell": str(bell)}, {"hang": True}]}
    play.rules(rule)
    process = play.start()
    assert select.select([end], [], [], PATIENCE_SECONDS)[0]
    os.close(end)
    bell.unlink()
    process.send_signal(number)
    told = events(process.communicate(timeout=PATIENCE_SECONDS)[0])
    play.rules()
    return told


def limited(play, most: int):
    made = play("1 t", "2 t < 1")
    made.cast("coder", "reviewer")
    config = made.root / ".tugtool" / "config.toml"
    config.write_text(f"[state]\nmax_attempts = {most}\n{config.read_text()}")
    return made


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("number", sampled([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], 1))
def test_a_step_whose_runs_are_stopped_again_and_again_is_not_parked(play, number):
    play = limited(play, 2)
    for _ in range(3):
        last = stopped(play, number)[-1]
        assert last["status"] == "stopped"
        assert [each["parked"] for each in last["left"]] == [False, False]
    assert play.ok("state", "review")["parked_steps"] == []
    assert play.run()[0] == 0
    play.finished()


@pytest.mark.proof(share=0)
def test_a_step_whose_runs_were_killed_is_parked_told_once_and_what_frees_it_is_named(play):
    play = limited(play, 2)
    for _ in range(2):
        stopped(play, signal.SIGKILL)
    status, told = play.run()
    frees = "tugcode review work --retry --step step-1"
    assert (status, told[-1]["left"][0]["frees"]) == (1, frees)
    assert told[-1]["left"][0]["reason"] == "2 claims without progress"
    [plan] = play.ok("status")["plans"]
    assert [each["anchor"] for each in plan["parked"]] == ["step-1"]
    text = play._tugcode("-C", play.root, "status").out
    assert text.count("Part 1  ") == 1, text
    review = play._tugcode("-C", play.root, "state", "review").out
    assert ", is stale\n" in review
    shown = play._tugcode("-C", play.root, "implement", "work").out
    assert "step-1: parked: 2 claims without progress" in shown
    assert f"once it is settled: {frees}" in shown
    play.ok(*frees.split()[1:])
    assert play.run()[0] == 0
    play.finished()
