"""Two machines with the same path are two owners, in a file and on a server."""

import contextlib
import copy
import io
import json
import os

import pytest

from support import engines
from support.state import KEY, Lab, markdown
from tugtool import state
from tugtool.errors import NotOwner, NotReady
from tugtool.errors.state import Superseded
from tugtool.state import attempts, dashes, intents, worktrees
from tugtool.store import open_store, owners
from tugtool.store.owners import Machine, on_other_machine

PATH = "/srv/shop"
HERE = owners.machine_name(os.uname().nodename)
#: Who has the first lab and who the second; None is the machine that has the file.
PAIRS = {
    "file": ("sqlite", None, Machine("kiosk", "kiosk")),
    "file of a server": ("sqlite", Machine(owners.HOME, HERE), Machine("id-kiosk", "kiosk")),
    "both named in a file": ("sqlite", Machine("id-till", "till"), Machine("id-kiosk", "kiosk")),
    "server": ("postgres", Machine("id-till", "till"), Machine("id-kiosk", "kiosk")),
}


def _opened(lab: Lab, machine: Machine | None):
    store = open_store(lab.url, clock=lab.clock)
    if machine is not None:
        owners.share(store, machine)
    return store


@pytest.fixture(params=PAIRS)
def two(request, tmp_path, tmp_path_factory):
    """One plan as two machines see it: the till, and the kiosk."""
    engine, *machines = PAIRS[request.param]
    with engines.on(engine, engines.session_root(tmp_path_factory)), contextlib.ExitStack() as ends:
        first = Lab(tmp_path, "1 tt", "2 t", "3 t <1")
        first.store.close()
        labs = []
        for machine in machines:
            lab = copy.copy(first)
            lab.store = _opened(first, machine)
            ends.callback(lab.store.close)
            labs.append(lab)
        labs[0].name = machines[0].name if machines[0] else HERE
        yield labs


def test_the_same_path_claims_two_steps_and_each_sees_its_own_as_a_path(two):
    till, kiosk = two
    assert till.claim(PATH)["anchor"] == "step-1"
    assert kiosk.claim(PATH)["anchor"] == "step-2"
    # The own step again, and not the other's.
    assert (till.claim(PATH)["anchor"], kiosk.claim(PATH)["anchor"]) == ("step-1", "step-2")
    ours = {step["anchor"]: step["claimed_by"] for step in till.show()["steps"]}
    theirs = {step["anchor"]: step["claimed_by"] for step in kiosk.show()["steps"]}
    assert (ours["step-1"], ours["step-2"]) == (PATH, f"kiosk:{PATH}")
    assert (theirs["step-1"], theirs["step-2"]) == (f"{till.name}:{PATH}", PATH)


def test_the_other_machines_step_is_not_ones_own(two):
    till, kiosk = two
    till.claim(PATH)
    for act in (
        lambda: kiosk.beat("step-1", PATH),
        lambda: kiosk.tick("step-1", "t0", owner=PATH),
        lambda: kiosk.complete("step-1", PATH),
        lambda: kiosk.release("step-1", PATH),
        lambda: kiosk.start("step-1", PATH),
        lambda: kiosk.artifact("step-1", PATH),
    ):
        with pytest.raises(NotOwner) as caught:
            act()
        assert caught.value.code == "E049"
        assert caught.value.facts["owner"] == f"{till.name}:{PATH}"
    with pytest.raises(NotReady) as refused:
        kiosk.claim(PATH, step="step-1")
    assert refused.value.facts["owner"] == f"{till.name}:{PATH}"
    for act in (lambda: till.beat("step-1", PATH), lambda: till.close("step-1", PATH)):
        act()
    till.complete("step-1", PATH)
    (row,) = kiosk.rows("select completed_by from steps where anchor = 'step-1'")
    assert row["completed_by"] == f"{till.name}:{PATH}"


def test_a_lapsed_step_goes_to_the_other_machine_and_the_first_is_fenced_off(two):
    till, kiosk = two
    first = till.claim(PATH, lease_seconds=10)
    till.tick("step-1", "t0", owner=PATH)
    till.clock.advance(11)
    taken = kiosk.claim(PATH, step="step-1")
    assert (taken["reclaimed"], taken["reclaimed_from_expired"]) == (True, True)
    assert taken["previous_attempt"]["worktree"] == f"{till.name}:{PATH}"
    assert taken["worktree"] == PATH
    with pytest.raises(Superseded) as fenced:
        till.complete("step-1", PATH, attempt=first["attempt"])
    assert fenced.value.code == "E060"
    with pytest.raises(NotOwner):
        till.beat("step-1", PATH)
    # What it left is for the till to save.
    assert [row["worktree"] for row in attempts.list_unsaved(till.store, KEY)] == [PATH]
    assert attempts.list_unsaved(kiosk.store, KEY) == []
    events = {lab.name if lab is till else "kiosk": _claims(lab) for lab in two}
    assert events["kiosk"] == [(f"{till.name}:{PATH}", None), (PATH, f"{till.name}:{PATH}")]
    assert events[till.name] == [(PATH, None), (f"kiosk:{PATH}", PATH)]


def _claims(lab: Lab) -> list[tuple]:
    rows = lab.rows("select actor, detail from events where kind = 'claim' order by seq")
    return [(row["actor"], json.loads(row["detail"])["reclaimed_from"]) for row in rows]


def test_a_request_id_belongs_to_one_machine(two):
    till, kiosk = two
    assert till.claim(PATH, request_id="r")["anchor"] == "step-1"
    assert kiosk.claim(PATH, request_id="r")["anchor"] == "step-2"
    again = kiosk.claim(PATH, request_id="r")
    assert (again["anchor"], again["replayed"]) == ("step-2", True)


def _add(lab: Lab, branch: str) -> None:
    made = [(PATH, branch, None)]
    worktrees.add(lab.store, KEY, made, base_branch="main", base_commit="c")


def test_worktrees_at_the_same_path_have_two_rows(two):
    till, kiosk = two
    _add(till, "tugplan/a")
    _add(kiosk, "tugplan/b")
    for lab, branch in ((till, "tugplan/a"), (kiosk, "tugplan/b")):
        row = worktrees.find_worktree(lab.store, PATH)
        assert (row["path"], row["branch"]) == (PATH, branch)
        (own,) = worktrees.list_worktrees(lab.store)
        (other,) = worktrees.list_worktrees(lab.store, elsewhere=True)
        assert {own["branch"], other["branch"]} == {"tugplan/a", "tugplan/b"}
        assert (own["path"], other["path"][-len(PATH) - 1 :]) == (PATH, f":{PATH}")
    worktrees.reserve(kiosk.store, KEY, PATH, request="r")
    assert worktrees.find_worktree(till.store, PATH)["reserved_for"] is None
    worktrees.forget(till.store, KEY, PATH, intents=(), detail={})
    assert worktrees.find_worktree(till.store, PATH) is None
    assert worktrees.find_worktree(kiosk.store, PATH)["branch"] == "tugplan/b"


def test_no_two_machines_choose_the_same_branch(two):
    till, kiosk = two
    seen = {}

    def choose(lab: Lab):
        def chosen(branches: set[str], paths: list[str], date: str) -> list[tuple[str, str]]:
            free = next(name for name in ("tugplan/a", "tugplan/b") if name not in branches)
            seen[lab.store] = free
            return [(f"{PATH}/{free}", free)]

        return chosen

    for lab in two:
        # Only intended yet: no row, and no branch that the other's git could know.
        worktrees.intend_creation(lab.store, KEY, choose(lab), base_branch="main", base_commit="c")
    assert [seen[till.store], seen[kiosk.store]] == ["tugplan/a", "tugplan/b"]


def test_intents_are_found_by_the_machine_that_has_them(two):
    till, kiosk = two
    intents.add(till.store, KEY, "remove", PATH, head=None, detail={"n": 1})
    assert intents.find_intent(kiosk.store, "remove", PATH) is None
    assert intents.list_intents(kiosk.store, "remove") == []
    intents.add(kiosk.store, KEY, "remove", PATH, head=None, detail={"n": 2})
    (own,) = intents.list_intents(till.store, "remove")
    assert (own["worktree"], intents.detail(own)) == (PATH, {"n": 1})
    intents.drop(till.store, KEY, "remove", PATH)
    assert intents.list_intents(till.store, "remove") == []
    assert len(intents.list_intents(kiosk.store, "remove")) == 1


def test_a_dash_is_on_one_machine_and_its_name_is_taken_on_all(two):
    till, _ = two
    path = f"{PATH}/.tugtree/tugdash__tidy"
    dashes.add(till.store, "tidy", path=path, base=("main", "c"), description="d")
    (own,), (other,) = (dashes.every(lab.store, ended=False) for lab in two)
    assert (own["worktree"], other["worktree"]) == (
        ".tugtree/tugdash__tidy",
        f"{till.name}:.tugtree/tugdash__tidy",
    )
    assert not on_other_machine(own["worktree"])
    assert on_other_machine(other["worktree"])


def test_of_two_machines_that_make_one_dash_at_once_the_second_is_refused(two):
    till, kiosk = two
    path = f"{PATH}/.tugtree/tugdash__tidy"
    dashes.add(till.store, "tidy", path=path, base=("main", "c"), description="d")
    with kiosk.refuses("E055", f"there is a dash tidy already: {till.name} was first, at 2026"):
        dashes.add(kiosk.store, "tidy", path=path, base=("main", "c"), description="d")
    with till.refuses("E055", "there is a dash tidy already: another clone was first, at 2026"):
        dashes.add(till.store, "tidy", path=path, base=("main", "c"), description="d")


def test_a_prune_keeps_a_plan_that_has_a_worktree_on_another_machine(two, tmp_path):
    till, kiosk = two
    _add(till, "tugplan/a")

    def prune(lab: Lab) -> dict:
        kept = str(tmp_path / "kept")
        return state.prune(lab.store, where=lambda keys: {}, directory=kept, done=True)

    (row,) = prune(kiosk)["kept"]
    assert row["reason"] == f"{PATH} on {till.name} may have work of it: clean up there first"
    assert worktrees.find_worktree(till.store, PATH) is not None
    assert [row["plan_path"] for row in prune(till)["pruned"]] == [KEY]


def test_a_prune_keeps_a_plan_whose_work_is_to_be_saved_on_another_machine(two, tmp_path):
    till, kiosk = two
    till.claim(PATH)
    state.reset(kiosk.store, KEY, "step-1")
    assert [row["worktree"] for row in attempts.list_unsaved(till.store)] == [PATH]
    found = state.prune(kiosk.store, where=lambda keys: {}, directory=str(tmp_path / "kept"))
    assert [row["plan_path"] for row in found["kept"]] == [KEY]


def test_an_owner_that_was_shown_can_be_asked_for_again(two):
    till, kiosk = two
    till.claim(PATH)
    shown = kiosk.show()["steps"][0]["claimed_by"]
    assert [step["step_anchor"] for step in worktrees.claimed_steps(kiosk.store, shown)] == [
        "step-1"
    ]
    # A reader that has seen no row yet asks for the names first.
    fresh = _opened(kiosk, Machine("id-new", "new"))
    assert [step["step_anchor"] for step in worktrees.claimed_steps(fresh, shown)] == ["step-1"]
    assert worktrees.claimed_steps(fresh, f"nowhere:{PATH}") == []
    fresh.close()


def test_an_export_by_one_machine_says_whose_the_others_are(two):
    till, kiosk = two
    till.claim(PATH)
    kiosk.claim(PATH)
    lines = "".join(state.export(kiosk.store))
    assert f'"claimed_by": "{till.name}:{PATH}"' in lines
    assert f'"claimed_by": "{PATH}"' in lines
    assert "id-kiosk" not in lines


def test_two_machines_of_one_name_are_told_apart(two):
    till, kiosk = two
    till.claim(PATH)
    kiosk.claim(PATH)
    third = copy.copy(kiosk)
    third.store = _opened(kiosk, Machine("id-third", "kiosk"))
    till.complete("step-1", PATH, force_reason="x")
    assert third.claim(PATH)["anchor"] == "step-3"
    shown = {step["anchor"]: step["claimed_by"] for step in kiosk.show()["steps"]}
    assert (shown["step-2"], shown["step-3"]) == (PATH, f"kiosk-id-thi:{PATH}")
    third.store.close()


def test_a_plan_that_one_machine_revises_is_the_same_on_the_other(two):
    till, kiosk = two
    kiosk.revise(markdown("1 tt", "2 te < 1", "3 t <1", "4 t"))
    till.copy = kiosk.copy
    assert till.show()["steps"] == kiosk.show()["steps"]
    assert (till.items("step-2"), till.items("step-4")) == (
        {"t0": "open", "e0": "open"},
        {"t0": "open"},
    )
    # Step 2 depends on step 1 now.
    assert [lab.claim(PATH)["anchor"] for lab in two] == ["step-1", "step-4"]


@pytest.mark.file
def test_an_import_begins_a_new_epoch_and_what_had_no_machine_is_the_importers(two, tmp_path):
    till, kiosk = two
    with engines.in_file():
        (tmp_path / "other").mkdir()
        other = Lab(tmp_path / "other", "1 t")
        other.claim(PATH)
    lines = "".join(state.export(other.store)).replace(KEY, ".tugtool/tugplan-moved.md").encode()
    before = state.epoch(till.store)
    kiosk.claim(PATH)
    assert state.epoch(till.store) == before
    state.import_(kiosk.store, io.BytesIO(lines))
    assert state.epoch(till.store) != before
    (row,) = till.rows("select claimed_by from steps where plan_path = '.tugtool/tugplan-moved.md'")
    assert row["claimed_by"] == f"kiosk:{PATH}"


@pytest.mark.file
def test_a_restore_begins_a_new_epoch(tmp_path):
    lab = Lab(tmp_path, "1 t")
    lab.store.close()
    lab.store = open_store(lab.url, clock=lab.clock, copies=str(tmp_path / "copies"))
    lab.claim(PATH)
    before = state.epoch(lab.store)
    assert lab.store.back_up() is None
    state.restore(lab.store)
    assert state.epoch(lab.store) != before
    lab.store.close()


def test_the_audit_of_another_machine_is_respected_for_its_lease(two):
    till, kiosk = two
    for lab in two:
        how = {"base_branch": "main", "base_commit": "b" * 40}
        worktrees.add(lab.store, KEY, [(PATH, f"of-{id(lab)}", None)], **how)
    audit = {"request": worktrees.AUDIT, "allowed": lambda held: True, "seconds": 60}
    assert worktrees.take_over(till.store, KEY, PATH, **audit)[1]
    assert not worktrees.take_over(kiosk.store, KEY, PATH, **audit)[1]
    till.clock.advance(59)
    # It renews its own.
    assert worktrees.take_over(till.store, KEY, PATH, **audit)[1]
    till.clock.advance(59)
    assert not worktrees.take_over(kiosk.store, KEY, PATH, **audit)[1]
    till.clock.advance(2)
    assert worktrees.take_over(kiosk.store, KEY, PATH, **audit)[1]
    assert not worktrees.take_over(till.store, KEY, PATH, **audit)[1]
