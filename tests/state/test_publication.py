"""Steps whose commits the remote lacks: who may go on, who waits, and when that ends."""

import copy

import pytest

from support.state import KEY
from tugtool import state
from tugtool.errors import NotReady
from tugtool.state import publication
from tugtool.store import open_store, owners
from tugtool.store.owners import Machine, machine_of

PATH, OTHER = "/srv/shop", "/srv/other"
COMMIT = "c" * 40


@pytest.fixture
def two(lab):
    """One plan as two machines see it; both know the remote."""

    def make(*lines: str):
        till = lab(*lines)
        kiosk = copy.copy(till)
        kiosk.store = open_store(till.url, clock=till.clock)
        owners.share(till.store, Machine(owners.HOME, "till"))
        owners.share(kiosk.store, Machine("id-kiosk", "kiosk"))
        made.append(kiosk.store)
        return till, kiosk

    made: list = []
    yield make
    for store in made:
        store.close()


def _done(machine, step: str, owner: str = PATH, **how: object) -> dict:
    machine.claim(owner, step, publish=True)
    machine.close(step, owner)
    return machine.complete(step, owner, commit=COMMIT, **{"publish": True, **how})


def test_a_dependent_step_is_given_only_on_the_machine_that_has_the_commit(two):
    till, kiosk = two("1 t", "2 t < 1", "3 t")
    _done(till, "step-1")
    assert kiosk.claim(PATH, publish=True)["anchor"] == "step-3"
    with pytest.raises(NotReady) as refused:
        kiosk.claim(OTHER, "step-2", publish=True)
    name = machine_of(publication.unpublished(kiosk.store, KEY)[0]["worktree"])
    assert refused.value.facts["waiting_for"] == [f"publish of step-1 by {name}"]
    nothing = kiosk.claim(OTHER, publish=True)
    assert (nothing["claimed"], nothing["waiting_for"]) == (False, {"step-2": ["publish"]})
    assert [each["step_anchor"] for each in nothing["unpublished_steps"]] == ["step-1"]
    # A caller that does not use a remote is not kept waiting.
    assert till.claim(OTHER, "step-2", publish=True)["anchor"] == "step-2"


def test_the_number_of_ready_steps_leaves_out_those_that_wait(two):
    till, kiosk = two("1 t", "2 t < 1", "3 t", "4 t")
    _done(till, "step-1")
    assert kiosk.claim(PATH, publish=True)["remaining_ready"] == 1
    assert till.claim(PATH, publish=True)["remaining_ready"] == 1


def test_a_published_step_frees_those_that_wait(two):
    till, kiosk = two("1 t", "2 t < 1")
    _done(till, "step-1")
    rows = publication.own_unpublished(till.store, KEY)
    assert publication.own_unpublished(kiosk.store) == []
    publication.not_published(till.store, KEY, rows, "it cannot be reached")
    rows = publication.own_unpublished(till.store)
    assert rows[0]["problem"] == "it cannot be reached"
    publication.not_published(till.store, KEY, rows, "it cannot be reached")
    assert till.show()["steps"][0]["unpublished"] == "it cannot be reached"
    publication.published(till.store, KEY, rows, actor=PATH)
    publication.published(till.store, KEY, rows, actor=PATH)
    assert len(till.rows("select * from events where kind = 'publish'")) == 1
    assert kiosk.claim(PATH, publish=True)["anchor"] == "step-2"


def test_why_names_the_machine_and_what_it_has_to_do(two):
    till, kiosk = two("1 t", "2 t < 1")
    _done(till, "step-1")
    told = state.why(kiosk.store, KEY, "step-2", owner=PATH)
    assert told["claimable"] is False
    assert told["sentences"][-1].endswith("alone.")
    assert told["frees"][0].endswith("there: tugcode worktree publish")
    rows = publication.own_unpublished(till.store, KEY)
    publication.not_published(till.store, KEY, rows, "it refused")
    told = state.why(kiosk.store, KEY, "step-2", owner=PATH)
    assert told["sentences"][-1].endswith("alone, because it refused.")
    # On its own machine nothing waits; the store's own name is not needed.
    assert state.why(till.store, KEY, "step-2", owner=PATH)["claimable"]
    own = state.why(till.store, KEY, "step-1", owner=PATH)
    assert own["sentences"][-1].endswith("which is on this machine alone, because it refused.")
    assert own["frees"][-1].endswith("on this machine: tugcode worktree publish")


def test_one_s_own_step_and_a_paused_plan_are_answered_as_ever(two):
    till, kiosk = two("1 t", "2 t < 1", "3 t")
    kiosk.claim(PATH, "step-3", publish=True)
    _done(till, "step-1")
    assert kiosk.claim(PATH, publish=True)["anchor"] == "step-3"
    assert kiosk.claim(PATH, "step-3", publish=True)["anchor"] == "step-3"
    state.pause(kiosk.store, KEY)
    assert kiosk.claim(OTHER, publish=True)["reason"] == "paused"


def test_a_held_step_that_waits_for_publish_is_not_taken_over(two):
    till, kiosk = two("1 t", "2 t < 1")
    _done(till, "step-1")
    till.claim(PATH, "step-2", lease_seconds=5, publish=True)
    till.clock.advance(6)
    assert not kiosk.claim(PATH, publish=True)["claimed"]
    assert till.claim(OTHER, publish=True)["anchor"] == "step-2"


def test_a_lapsed_step_that_waits_for_nothing_is_taken_over(two):
    till, kiosk = two("1 t", "2 t < 1", "3 t")
    _done(till, "step-1")
    till.claim(PATH, "step-3", lease_seconds=5, publish=True)
    till.clock.advance(6)
    taken = kiosk.claim(PATH, publish=True)
    assert (taken["anchor"], taken["reclaimed"]) == ("step-3", True)


def test_a_step_whose_holder_died_is_taken_over_beside_those_that_wait(two):
    till, kiosk = two("1 t", "2 t < 1", "3 t")
    _done(till, "step-1")
    kiosk.claim(OTHER, "step-3", holder_pid=2**22 - 1, publish=True)
    assert kiosk.claim(PATH, publish=True)["anchor"] == "step-3"


def test_a_dependency_on_a_substep_waits_for_its_step(two):
    till, kiosk = two("1", "1.1 t", "2 t < 1.1")
    _done(till, "step-1")
    assert kiosk.claim(PATH, publish=True)["waiting_for"] == {"step-2": ["publish"]}


def test_a_substep_that_needs_its_own_step_waits_for_nobody(two):
    till, kiosk = two("1 t", "1.1 t < 1", "2 t")
    _done(till, "step-1")
    assert kiosk.claim(PATH, publish=True)["anchor"] == "step-2"


def test_a_reopened_step_has_nothing_to_publish(two):
    till, _ = two("1 t", "2 t")
    _done(till, "step-1")
    till.reopen("step-1")
    assert publication.unpublished(till.store, KEY) == []
    _done(till, "step-1")
    assert len(publication.unpublished(till.store)) == 1
    till.claim(PATH, "step-2")
    till.close("step-2", PATH)
    till.complete("step-2", PATH, publish=True)
    assert len(publication.unpublished(till.store)) == 1


def test_without_a_record_nothing_is_unpublished(tmp_path):
    store = open_store(f"sqlite://{tmp_path}/none.db")
    assert publication.unpublished(store) == []
    store.close()


def test_ready_and_show_tell_which_steps_wait_for_a_commit_of_another_machine(two):
    till, kiosk = two("1 t", "2 t < 1", "3 t", "4 t", "5 t < 4")
    _done(till, "step-1")
    _done(kiosk, "step-4")
    assert state.ready(till.store, KEY)["ready_steps"] == ["step-2", "step-3"]
    listed = state.ready(kiosk.store, KEY)
    assert listed["ready_steps"] == ["step-3", "step-5"]
    assert listed["blocked_steps"] == ["step-2"]
    assert listed["waiting_for"] == {"step-2": ["publish"]}
    assert [each["step_anchor"] for each in listed["unpublished_steps"]] == ["step-1"]
    steps = {step["anchor"]: step for step in state.show(kiosk.store, KEY)["steps"]}
    assert steps["step-1"]["unpublished"] == "it is not pushed yet"
    assert steps["step-2"]["waiting_for_publish"] == ["step-1"]
    assert not {"unpublished", "waiting_for_publish"} & {*steps["step-3"], *steps["step-5"]}
    publication.published(till.store, KEY, publication.own_unpublished(till.store), actor=PATH)
    listed = state.ready(kiosk.store, KEY)
    assert listed["ready_steps"] == ["step-2", "step-3", "step-5"]
    assert not {"waiting_for", "unpublished_steps"} & listed.keys()
    _done(kiosk, "step-2")
    _done(kiosk, "step-3")
    steps = {step["anchor"]: step for step in state.show(till.store, KEY)["steps"]}
    assert "waiting_for_publish" not in steps["step-3"]
    assert state.ready(till.store, KEY)["ready_steps"] == []
