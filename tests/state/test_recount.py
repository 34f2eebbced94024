"""recount: counts, waiting steps and mirrored claims are made what they are counted from."""

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given

from state.test_counts_property import WALKS
from state.test_events import plans
from support.proving import examined
from support.state import KEY, Lab
from support.state_replay import Replay
from support.state_walk import Walk
from tugtool import state
from tugtool.state import plans as state_plans

FAULTS = (
    "update steps set open_deps = open_deps + 1 where step_index = 0",
    "update steps set open_deps = 0",
    "update plan_counts set steps_ready = steps_ready + 3",
    "update plan_counts set steps_total = steps_total + 1",
    "update plan_counts set steps_total = steps_total + 1, steps_done = steps_total",
    "update plans set status = 'done' where status = 'active'",
    "update plans set status = 'active' where status = 'done'",
    "update steps set lease_expires_at = '2020-01-01T00:00:00.000Z'"
    " where parent_anchor is not null and claimed_by is not null",
    "update steps set claimed_by = 'nobody'"
    " where parent_anchor is not null and claimed_by is not null",
)


def run(lab: Lab, statement: str) -> None:
    with lab.store.write(KEY) as tx:
        tx.run(statement)


def found(lab: Lab) -> dict:
    with lab.store.read(KEY) as tx:
        return state_plans.astray(tx, KEY)


def test_where_all_agrees_nothing_is_done_and_nothing_noted(lab):
    lab = lab("1 t", "2 < 1", "2.1 t", "3 < 2.1")
    lab.claim()
    with lab.unchanged():
        done = state.recount(lab.store, KEY)
    assert done == {"plan_path": KEY, "recounted": False}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_and_put_right_with_one_event(lab, fault):
    lab = lab("1", "1.1 t", "1.2 t", "2 < 1", "3 < 1.2", "4")
    lab.claim()
    if "'active' where" in fault:
        for step in ("step-1", "step-2", "step-3", "step-4"):
            lab.finish(step)
    sound = lab.dump()
    run(lab, fault)
    if lab.dump() == sound:
        pytest.fail("nothing was broken")
    assert found(lab)
    done = state.recount(lab.store, KEY, actor="person")
    assert done["recounted"]
    assert found(lab) == {}
    after = lab.dump()
    event = after["events"].pop()
    assert (event["kind"], event["actor"]) == ("recount", "person")
    assert after == sound
    Replay(lab)


def test_an_archived_plan_stays_archived(lab):
    lab = lab("1", "2")
    lab.archive()
    run(lab, "update plan_counts set steps_ready = 0")
    state.recount(lab.store, KEY)
    assert lab.plan()["status"] == "archived"
    assert lab.plan()["steps_ready"] == 2


def test_without_a_row_of_counts_the_rest_is_still_compared(lab):
    lab = lab("1", "2 < 1")
    run(lab, "delete from plan_counts")
    assert found(lab) == {}
    run(lab, "update steps set open_deps = 4 where anchor = 'step-2'")
    assert found(lab) == {"open_deps": {"step-2": [4, 1]}}


def test_a_plan_without_a_record_is_refused(lab):
    lab = lab("1")
    with lab.refuses("E063"):
        state.recount(lab.store, ".tugtool/tugplan-other.md")


@examined(short=40)
@given(plan=plans(), walk=WALKS)
def test_whatever_is_done_there_is_never_anything_to_put_right(plan, walk):
    with tempfile.TemporaryDirectory() as name:
        lab = Lab(Path(name), *plan)
        walker = Walk(lab)
        for operation, owner, place, aux in walk:
            if hasattr(walker, operation):
                walker.act(operation, owner, place, aux)
        assert found(lab) == {}
        run(lab, random.Random(len(walk)).choice(FAULTS[:4]))
        state.recount(lab.store, KEY)
        assert found(lab) == {}
        lab.store.close()
