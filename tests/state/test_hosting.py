"""The process that holds a claim: how its attempt stands, and who it is from now on."""

import os

import pytest

from support.state import KEY
from tugtool import state
from tugtool.errors.state import Superseded
from tugtool.system import process

RED = {"owner": "red", "attempt": 1}
GONE = 2**22 + 1  # above what any machine hands out


def standing(lab, step: str = "step-1", **who: object) -> str:
    return state.standing(lab.store, KEY, step, **(RED | who))["standing"]


def test_an_attempt_under_way_is_held_whatever_its_lease(lab):
    lab = lab("1 t")
    lab.claim("red", lease_seconds=10)
    lab.clock.advance(60)
    found = state.standing(lab.store, KEY, "step-1", **RED)
    assert (found["standing"], found["lease_seconds"]) == ("held", 10)


def test_what_the_owner_ended_is_told_as_it_ended(lab):
    lab = lab("1", "2")
    lab.claim("red")
    lab.complete("step-1", "red")
    lab.claim("red")
    lab.release("step-2", "red")
    assert (standing(lab), standing(lab, "step-2")) == ("completed", "released")


def test_what_somebody_else_ended_is_lost(lab):
    lab = lab("1", "2", "3")
    for owner in ("red", "blue", "green"):
        lab.claim(owner)
    lab.claim("black", step="step-1", force=True)
    lab.reset("step-2")
    lab.release("step-3", "black", force=True)
    for step, current in (("step-1", 2), ("step-2", 1), ("step-3", 1)):
        with pytest.raises(Superseded) as lost:
            standing(lab, step)
        assert lost.value.facts["current"] == current


def test_an_attempt_that_never_was_is_lost(lab):
    with pytest.raises(Superseded):
        standing(lab("1"), attempt=7)


def test_where_a_process_is_that_adopts_a_claim_from_another_machine_is_what_that_one_says(lab):
    lab = lab("1")
    lab.claim(holder_pid=GONE)
    far = {"holder_start": "7", "host": "far", "boot": "b", "pid_namespace": "n"}
    state.adopt(lab.store, KEY, "step-1", **RED, pid=4711, place=far)
    (now,) = lab.attempts("step-1")
    assert {name: now[name] for name in far} == far


def test_a_process_that_is_gone_is_followed_by_the_one_that_adopts_its_claim(lab):
    lab = lab("1", "2 < 1")
    lab.claim(holder_pid=GONE, lease_seconds=100)
    lab.clock.advance(50)
    answer = state.adopt(lab.store, KEY, "step-1", **RED, pid=os.getpid())
    (now,) = lab.attempts("step-1")
    here = {name: now[name] for name in ("host", "boot", "pid_namespace")}
    assert (here, now["holder_pid"]) == (process.machine_identity(), os.getpid())
    assert now["holder_start"] == process.start_time(os.getpid())
    assert (answer["holder_pid"], answer["attempt"]) == (os.getpid(), 1)
    assert answer["lease_expires_at"] == lab.row("step-1")["lease_expires_at"]
    assert lab.claim("blue")["claimed"] is False
    assert lab.events()[-1] == "heartbeat"


def test_adopting_again_and_adopting_what_no_process_holds_is_fine(lab):
    lab = lab("1")
    lab.claim()
    for _ in range(2):
        state.adopt(lab.store, KEY, "step-1", **RED, pid=os.getpid())
    assert lab.attempts("step-1")[0]["holder_pid"] == os.getpid()


def test_a_claim_whose_process_runs_is_not_adopted(lab):
    lab = lab("1")
    lab.claim(holder_pid=os.getppid())
    with lab.refuses("E053", f"process {os.getppid()}"):
        state.adopt(lab.store, KEY, "step-1", **RED, pid=os.getpid())


def test_a_process_that_is_not_there_holds_nothing(lab):
    lab = lab("1")
    lab.claim()
    state.adopt(lab.store, KEY, "step-1", **RED, pid=GONE)
    assert lab.claim("blue")["previous_attempt"]["outcome"] == "dead"


def test_who_lets_go_leaves_the_step_to_the_lease(lab):
    lab = lab("1")
    lab.claim(holder_pid=GONE, lease_seconds=100)
    lab.clock.advance(50)
    answer = state.let_go(lab.store, KEY, "step-1", **RED)
    (now,) = lab.attempts("step-1")
    names = ("host", "boot", "pid_namespace", "holder_pid", "holder_start")
    assert [now[name] for name in names] == [None] * 5
    assert answer["holder_pid"] is None
    assert lab.claim("blue")["claimed"] is False
    lab.clock.advance(99)
    assert lab.claim("blue")["claimed"] is False
    lab.clock.advance(2)
    assert lab.claim("blue")["claimed"] is True


def test_only_who_holds_the_step_adopts_it_or_lets_it_go(lab):
    lab = lab("1", "2")
    lab.claim()
    adopt = {"pid": os.getpid()}
    for operation, how in ((state.adopt, adopt), (state.let_go, {})):
        with lab.refuses("E049"):
            operation(lab.store, KEY, "step-1", owner="blue", attempt=1, **how)
        with lab.refuses("E060"):
            operation(lab.store, KEY, "step-1", owner="red", attempt=2, **how)
        with lab.refuses("E050"):
            operation(lab.store, KEY, "step-2", owner="red", attempt=0, **how)


def test_a_process_that_was_forked_has_a_start_of_its_own():
    before, (come, go) = process.start_time(os.getpid()), os.pipe()
    child = os.fork()
    if not child:
        os.write(go, str(process.start_time(os.getpid())).encode())
        os._exit(0)
    started = os.read(come, 100).decode()
    os.waitpid(child, 0)
    os.close(come)
    os.close(go)
    assert int(started) > int(before)
