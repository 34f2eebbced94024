"""A group: a savepoint for each operation, one commit, answers after it."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from support.racing import until
from support.state import KEY, Lab
from tugtool import state
from tugtool.errors import TugError
from tugtool.errors.state import QueryFailed
from tugtool.store import open_store


def test_a_group_is_stored_at_its_end_and_a_refused_operation_is_undone_alone(lab):
    lab = lab("1 t", "2 t", "3 t")
    other = open_store(lab.url, clock=lab.clock)
    with lab.store.group():
        lab.claim("red", "step-1")
        with pytest.raises(TugError):
            lab.claim("blue", "step-1")
        lab.claim("blue", "step-2")
        # Within the group it is there already, for others not yet.
        assert lab.status("step-2") == "claimed"
        assert state.ready(other, KEY)["claimed_steps"] == []
    assert state.ready(other, KEY)["claimed_steps"] == ["step-1", "step-2"]
    assert lab.events() == ["init", "claim", "claim"]
    assert lab.holds_together()
    lab.claim("green")
    other.close()


def test_within_a_group_the_last_event_is_known_without_a_look(lab):
    lab = lab("1 t", "2 t")
    with lab.store.group() as group:
        assert (group.last_event, state.last_seq(lab.store)) == (None, 1)
        lab.claim("red")
        with pytest.raises(TugError):
            lab.claim("blue", "step-1")
        assert group.last_event == state.last_seq(lab.store) == 2
    assert state.last_seq(lab.store) == 2


def failing(lab: Lab) -> None:
    with lab.store.group():
        lab.claim()
        raise ZeroDivisionError


def test_a_group_that_fails_stores_nothing(lab):
    lab = lab("1 t", "2 t")
    with lab.unchanged(), pytest.raises(ZeroDivisionError):
        failing(lab)
    lab.claim()
    assert lab.events() == ["init", "claim"]


def undoing(lab: Lab, statement: str) -> None:
    """A group in which SQLite ends the transaction, as it does when the disk is full."""
    with lab.store.group():
        lab.claim("red")
        with lab.store.write(KEY) as tx:
            tx.run(statement)
        with pytest.raises(QueryFailed):
            lab.claim("blue")


def test_an_operation_that_ends_the_transaction_fails_the_group(lab):
    lab = lab("1 t", "2 t")
    with lab.unchanged(), pytest.raises(QueryFailed, match="nothing of the group was written"):
        undoing(lab, "rollback")
    assert lab.claim("red")["attempt"] == 1


def test_a_savepoint_that_cannot_be_released_fails_the_group(lab):
    lab = lab("1 t")
    with lab.unchanged(), pytest.raises(QueryFailed):
        undoing(lab, "release operation")


def test_a_group_knows_whether_another_process_waits_to_write(lab):
    lab = lab("1 t", "2 t")
    program = [sys.executable, "-c", WAITER, lab.url]
    with lab.store.group() as group:
        lab.claim("red")
        assert not group.is_awaited()
        waiter = subprocess.Popen(program)
        until(group.is_awaited)
    assert waiter.wait() == 0
    with lab.store.group() as group:
        assert not group.is_awaited()


def test_a_group_knows_whether_another_thread_waits_to_write(lab):
    lab = lab("1 t", "2 t")
    with lab.store.group() as group:
        other = open_store(lab.url)
        thread = threading.Thread(target=lambda: other.write(KEY).__enter__().__exit__(ValueError))
        thread.start()
        until(group.is_awaited)
    thread.join()
    other.close()


def test_a_group_whose_directory_is_gone_ends_soon(lab):
    lab = lab("1 t")
    directory = os.path.dirname(lab.store.path)
    with lab.unchanged(), lab.store.group() as group:
        os.rename(directory, directory + "-moved")
        assert group.is_awaited()
        os.rename(directory + "-moved", directory)


#: Waits for the lock, and writes nothing.
WAITER = """
import sys
from tugtool.store import open_store
with open_store(sys.argv[1]).write(""):
    pass
"""
#: Claims steps in groups, and prints each answer after the commit; with a fault, before it.
WORKER = """
import sys
from tugtool import state
from tugtool.state import PlanCopy, Request
from tugtool.store import open_store

url, plan, hash, fault = sys.argv[1:]
store, turn = open_store(url), 0
while True:
    turn += 1
    answers = []
    with store.group():
        for number in range(8):
            request = Request(f"w{turn}.{number}", request_id=f"{turn}.{number}")
            done = state.claim(store, plan, request, copy=PlanCopy("/the/plan.md", hash))
            answers.append(done["anchor"] if done["claimed"] else "")
            if fault:
                print(answers[-1], flush=True)
    if not fault:
        print("\\n".join(answers), flush=True)
    if "" in answers:
        break
"""


def answered(lab: Lab, after: int, fault: str) -> list[str]:
    """Let a worker claim in groups, and kill it after so many answers. Return its answers."""
    words = [sys.executable, "-c", WORKER, lab.url, KEY, lab.hash, fault]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as worker:
        found = [worker.stdout.readline() for _ in range(after)]
        os.kill(worker.pid, signal.SIGKILL)
        found += worker.stdout.readlines()
    return [line.strip() for line in found if line.endswith("\n") and line.strip()]


def lost(directory: Path, chance: random.Random, fault: str = "") -> set[str]:
    """Return the answered claims that are not stored. Every claim is stored once."""
    lab = Lab(directory, *(f"{number} t" for number in range(1, 121)))
    said = answered(lab, chance.randrange(1, 60), fault)
    stored = Counter(row["step_anchor"] for row in lab.rows("select step_anchor from attempts"))
    events = [e for e in state.log(lab.store, KEY)["events"] if e["kind"] == "claim"]
    assert stored == Counter(event["step_anchor"] for event in events)
    assert set(stored.values()) <= {1}
    assert lab.holds_together()
    lab.store.close()
    return {*said} - {*stored}


@pytest.mark.proof
def test_a_group_keeps_what_it_answered_when_it_is_killed(tmp_path, spell):
    for seed in spell.seeds(6):
        (tmp_path / str(seed)).mkdir()
        assert lost(tmp_path / str(seed), random.Random(seed)) == set()


@pytest.mark.proof
def test_the_harness_notices_an_answer_before_the_commit(tmp_path):
    chance = random.Random(1)
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        if lost(tmp_path / str(number), chance, "fault"):
            return
    raise AssertionError("20 kills, and no answer was lost")
