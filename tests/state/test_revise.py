"""A plan changes while it is carried out: every kind of change, and what becomes of the work."""

import json

import pytest

from support.plan_drafts import draw
from support.state import KEY, Lab, entry
from support.state_replay import INVARIANTS
from tugtool import state
from tugtool.errors import TugError
from tugtool.errors.state import PlanNotInitialised
from tugtool.plan import parser, rules
from tugtool.state.revision_plan import Allowed

ALL = ("reopen_changed", "drop_completed", "drop_claimed")
#: Step 1 is completed, step 2 half done, step 3 held by blue, step 4 untouched.
BEFORE = ("1: a b c/ok", "2 < 1: d e f", "3: g h", "3.1: i", "4 < 2: j")


@pytest.fixture
def half(lab):
    """A half-done plan: see BEFORE."""
    half = lab(text=draw(*BEFORE))
    half.claim("red", "step-1", request_id="one")
    half.update("step-1", entry("c0", "deferred", reason="needs eyes"), complete_remaining=True)
    half.complete("step-1", commit="c0ffee")
    half.artifact("step-1")
    half.claim("red", "step-2")
    half.tick("step-2", "t0")
    half.release("step-2", park_reason="stuck")
    half.claim("blue", "step-3")
    half.start("step-3", "blue")
    half.tick("step-3", "t0", owner="blue")
    half.update("step-3", entry("t1", "in_progress"), owner="blue")
    yield half
    for invariant in INVARIANTS:
        invariant(half)
    assert half.holds_together()


def untouched(lab: Lab, *anchors: str) -> dict:
    """All that is recorded about steps, but where they stand in the plan."""
    place = ("step_index", "title", "open_deps")
    steps = [{k: v for k, v in lab.row(a).items() if k not in place} for a in anchors]
    items = [lab.rows("select * from checklist_items where step_anchor = :a", a=a) for a in anchors]
    return {"steps": steps, "items": items, "attempts": [lab.attempts(a) for a in anchors]}


def refusals(lab: Lab, text: str, *flags: str) -> list[tuple[str, str]]:
    """What a dry run says is in the way; and that it is in the way."""
    with lab.unchanged():
        told = lab.revise(text, *flags, dry_run=True)["refusals"]
    if told:
        with lab.refuses("E044", *(each["step"] for each in told)):
            lab.revise(text, *flags)
    return [(each["step"], each["flag"]) for each in told]


def event(lab: Lab) -> dict:
    kinds = [
        row for row in lab.rows("select * from events order by seq") if row["kind"] == "revise"
    ]
    return json.loads(kinds[-1]["detail"])


# -- what changes nothing about the work ------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("1=New: a b c/ok", *BEFORE[1:]), {"retitled": ["step-1"]}),
        ((*BEFORE[:3], "3.1=New: i", BEFORE[4]), {"retitled": ["step-3-1"]}),
        ((*BEFORE[2:4], *BEFORE[:2], BEFORE[4]), {"moved": ["step-3", "step-3-1"]}),
        (("1: a b c/ok", "2: d e f", *BEFORE[2:]), {"needs_changed": ["step-2"]}),
        (("1 < 4: a b c/ok", "2: d e f", *BEFORE[2:4], "4: j"), {"ahead_of_needs": ["step-1"]}),
        ((*BEFORE[:2], "3 < 2: g h", *BEFORE[3:]), {"ahead_of_needs": ["step-3"]}),
        (("0: new", *BEFORE), {"added": ["step-0"]}),
        ((*BEFORE[:2], "9: new", "9.1: more", *BEFORE[2:]), {"added": ["step-9", "step-9-1"]}),
        ((*BEFORE, "9 < 1 3.1: new"), {"added": ["step-9"]}),
        (BEFORE[:4], {"removed": ["step-4"]}),
    ],
    ids=[
        *("retitle a step", "retitle a substep", "reorder steps", "drop a dependency"),
        *("completed waits now", "claimed waits now"),
        *("insert first", "insert in the middle", "insert last", "delete a pending step"),
    ],
)
def test_what_leaves_the_checklists_alone_leaves_the_work_alone(half, lines, told):
    before = untouched(half, "step-1", "step-2", "step-3", "step-3-1")
    answer = half.revise(draw(*lines))
    assert answer["revised"]
    assert untouched(half, "step-1", "step-2", "step-3", "step-3-1") == before
    for key, value in told.items():
        assert answer[key] == value
    assert answer["kept_claims"] == ["step-3"]
    for key in (
        "changed",
        "reopened",
        "dropped_claims",
        "dropped_items",
        "reset_items",
        "refusals",
    ):
        assert answer[key] == [], key


def test_titles_places_and_dependencies_are_those_of_the_new_text(half):
    half.revise(draw("4: j", "3=Third < 4: g h", "3.1: i", "1: a b c/ok", "2 < 1 3.1: d e f"))
    rows = {row["anchor"]: row for row in half.rows("select * from steps order by step_index")}
    assert list(rows) == ["step-4", "step-3", "step-3-1", "step-1", "step-2"]
    assert rows["step-3"]["title"] == "Third"
    assert [rows[each]["open_deps"] for each in ("step-4", "step-3", "step-2")] == [0, 1, 1]
    assert half.show()["steps"][3]["needs"] == ["step-1", "step-3-1"]


def test_the_old_text_is_kept_and_the_new_one_is_what_was_agreed(half):
    old, hash = half.text, half.hash
    half.revise(draw("0: new", *BEFORE))
    half.revise(draw("0: newer", *BEFORE))
    kept = half.rows("select plan_hash, plan_text, replaced_at from plan_revisions order by 3")
    assert [row["plan_text"] for row in kept] == [old, draw("0: new", *BEFORE)]
    assert kept[0]["plan_hash"] == hash
    assert (half.plan()["plan_text"], half.plan()["plan_hash"]) == (half.text, half.hash)
    assert half.events().count("revise") == 2


def test_the_title_of_the_plan_follows(half):
    half.revise(draw(*BEFORE).replace("# Work", "# Other work"))
    assert half.plan()["phase_title"] == "Other work"


def test_the_same_text_again_changes_nothing(half):
    with half.unchanged():
        answer = half.revise(half.text, *ALL)
    assert (answer["already_initialized"], answer["revised"], answer["drift"]) == (
        True,
        False,
        False,
    )
    assert answer["kept"] == ["step-1", "step-2", "step-3", "step-4"]


def test_a_plan_without_a_state_has_nothing_to_revise(lab):
    made = lab("1 t", "1.1 t")
    parsed = parser.parse(made.text)
    new = {"text": made.text, "hash": made.hash, "allowed": Allowed()}
    with pytest.raises(PlanNotInitialised):
        state.revise(made.store, "other.md", parsed, **new)
    told = state.revise(made.store, "other.md", parsed, **new, dry_run=True)
    assert (told["steps_created"], told["dry_run"], told["already_initialized"]) == (2, True, False)


# -- items ------------------------------------------------------------------------------


def test_items_in_another_order_take_their_state_along(half):
    answer = half.revise(draw("1: b c/ok a", "2 < 1: f e d", *BEFORE[2:]))
    assert answer["items_reordered"] == ["step-1", "step-2"]
    assert answer["kept"] == ["step-1", "step-2", "step-3", "step-4"]
    assert half.status("step-1") == "completed"
    assert half.items("step-2") == {"t0": "open", "t1": "open", "t2": "completed"}
    assert half.item("step-1", "c0")["reason"] == "needs eyes"
    assert half.row("step-2")["park_reason"] == "stuck"


def test_a_reworded_item_starts_over_and_the_old_one_is_told(half):
    answer = half.revise(draw("1: a b c/ok", "2 < 1: D e f", *BEFORE[2:]))
    assert answer["changed"] == ["step-2"]
    lost = {"step_anchor": "step-2", "kind": "task", "ordinal": 0, "text": "d"}
    assert answer["dropped_items"] == [{**lost, "status": "completed", "reason": None}]
    assert half.items("step-2") == {"t0": "open", "t1": "open", "t2": "open"}
    assert event(half)["dropped_items"][0]["text"] == "d"


def test_an_inserted_item_is_open_and_the_others_keep_their_state(half):
    answer = half.revise(draw("1: a b c/ok", "2 < 1: new d e f", *BEFORE[2:]))
    assert half.items("step-2") == {"t0": "open", "t1": "completed", "t2": "open", "t3": "open"}
    assert (answer["checklist_items_created"], answer["dropped_items"]) == (1, [])
    assert answer["kept_items"] == 5  # a, b, ok, d, g


def test_a_deleted_item_is_told_if_anything_had_become_of_it(half):
    answer = half.revise(draw("1: a b", "2 < 1: e", *BEFORE[2:]), "reopen_changed")
    assert [(i["text"], i["status"], i["reason"]) for i in answer["dropped_items"]] == [
        ("ok", "deferred", "needs eyes"),
        ("d", "completed", None),
    ]
    assert half.items("step-1") == {"t0": "completed", "t1": "completed"}
    assert half.items("step-2") == {"t0": "open"}


def test_an_item_of_another_kind_or_another_step_is_another_item(half):
    answer = half.revise(draw("1: a b c/ok", "2 < 1: e/d f", *BEFORE[2:4], "4 < 2: j d"))
    assert [item["text"] for item in answer["dropped_items"]] == ["d"]
    assert half.items("step-2") == {"e0": "open", "t0": "open"}
    assert half.items("step-4") == {"t0": "open", "t1": "open"}


def test_items_that_are_alike_are_matched_one_to_one_in_order(lab):
    made = lab(text=draw("1: same same other same"))
    made.claim()
    made.tick("step-1", "t0", "t3")
    made.release("step-1")
    answer = made.revise(draw("1: other same same"))
    assert made.items("step-1") == {"t0": "open", "t1": "completed", "t2": "open"}
    assert [(i["ordinal"], i["status"]) for i in answer["dropped_items"]] == [(3, "completed")]
    made.revise(draw("1: same same same same same other"))
    states = list(made.items("step-1").values())
    assert states == ["completed", "open", "open", "open", "open", "open"]


def test_evidence_and_time_of_a_kept_item_stay(half):
    half.clock.advance(60)
    sql = "update checklist_items set evidence = 'ran it' where text = 'd' returning updated_at"
    with half.store.write(KEY) as tx:
        when = tx.value(sql)
    half.revise(draw("1: a b c/ok", "2 < 1: f x d", *BEFORE[2:]))
    item = half.item("step-2", "t2")
    assert (item["evidence"], item["updated_at"], item["text"]) == ("ran it", when, "d")


def test_a_changed_step_is_no_longer_parked(half):
    half.revise(draw("1: a b c/ok", "2 < 1: d e f new", *BEFORE[2:]))
    row = half.row("step-2")
    assert (row["parked_at"], row["park_reason"], row["claims_without_progress"]) == (None, None, 0)
    assert "step-2" in half.ready()["ready_steps"]


# -- completed steps --------------------------------------------------------------------

REWORDED = ("1: a B c/ok", *BEFORE[1:])


def test_a_completed_step_that_changed_is_reopened_only_if_that_is_said(half):
    assert refusals(half, draw(*REWORDED)) == [("step-1", "--reopen-changed")]
    assert refusals(half, draw(*REWORDED), "drop_completed", "drop_claimed")
    answer = half.revise(draw(*REWORDED), "reopen_changed")
    assert (answer["reopened"], answer["changed"]) == (["step-1"], ["step-1"])
    row = half.row("step-1")
    assert (row["status"], row["attempt"]) == ("pending", 1)
    assert {row[c] for c in ("completed_at", "completed_by", "commit_hash", "started_at")} == {None}
    assert half.items("step-1") == {"t0": "completed", "t1": "open", "c0": "deferred"}
    assert half.item("step-1", "c0")["reason"] == "needs eyes"
    was = event(half)["started_over"][0]
    assert (was["commit_hash"], was["completed_by"], was["status"]) == (
        "c0ffee",
        "red",
        "completed",
    )
    assert half.row("step-2")["open_deps"] == 1
    assert half.claim("red", "step-1")["attempt"] == 2


def test_a_reopened_step_leaves_those_that_were_built_on_it_alone(half):
    half.reset("step-2")
    half.finish("step-2")
    answer = half.revise(draw(*REWORDED), "reopen_changed")
    assert answer["ahead_of_needs"] == ["step-2"]
    assert half.status("step-2") == "completed"


def test_a_done_plan_with_something_new_is_active_again_and_done_without_it(lab):
    made = lab(text=draw("1: a", "2: b"))
    made.finish("step-1")
    made.finish("step-2")
    assert made.plan()["status"] == "done"
    made.revise(draw("1: a", "2: b", "3: c"))
    assert made.plan()["status"] == "active"
    made.revise(draw("1: a", "2: b"))
    assert made.plan()["status"] == "done"


def test_an_archived_plan_stays_archived(lab):
    made = lab(text=draw("1: a"))
    with made.store.write(KEY) as tx:
        tx.run("update plans set status = 'archived'")
    made.revise(draw("1: a", "2: b"))
    assert made.plan()["status"] == "archived"


@pytest.mark.parametrize(
    "lines",
    [BEFORE[1:], ("9: a b c/ok", *BEFORE[1:]), ("2: d e f a b c/ok", *BEFORE[2:])],
    ids=["delete", "rename the anchor", "merge into another"],
)
def test_a_completed_step_goes_only_if_that_is_said(half, lines):
    text = draw(*lines).replace("**Depends on:** #step-1\n", "")
    assert refusals(half, text, "reopen_changed", "drop_claimed") == [
        ("step-1", "--drop-completed")
    ]
    attempts = half.attempts("step-1")
    answer = half.revise(text, "drop_completed")
    assert answer["removed"] == ["step-1"]
    states = {i["text"]: i["status"] for i in answer["dropped_items"]}
    assert states == {"a": "completed", "b": "completed", "ok": "deferred"}
    gone = event(half)["dropped"][0]
    assert (gone["step"]["commit_hash"], gone["attempts"]) == ("c0ffee", attempts)
    assert [item["text"] for item in gone["items"]] == ["ok", "a", "b"]
    assert gone["artifacts"][0]["summary"] == "seen"
    with half.refuses("E059"):
        half.artifact("step-1")


def test_a_half_done_step_goes_only_if_that_is_said(half):
    lines = ("1: a b c/ok", *BEFORE[2:4], "4: j")
    assert refusals(half, draw(*lines)) == [("step-2", "--drop-completed")]
    answer = half.revise(draw(*lines), "drop_completed")
    assert [item["text"] for item in answer["dropped_items"]] == ["d"]
    assert event(half)["dropped"][0]["needs"] == ["step-1"]


def test_a_split_step_keeps_what_stays_in_it(half):
    lines = ("1: a b c/ok", "2 < 1: d f", "5 < 2: e d", *BEFORE[2:4], "4 < 5: j")
    answer = half.revise(draw(*lines))
    assert (answer["added"], answer["changed"]) == (["step-5"], ["step-2"])
    assert half.items("step-2") == {"t0": "completed", "t1": "open"}
    assert half.items("step-5") == {"t0": "open", "t1": "open"}
    assert answer["dropped_items"] == []


# -- claimed steps ----------------------------------------------------------------------

GROWN = (*BEFORE[:2], "3: g h new", *BEFORE[3:])


def test_a_claimed_step_that_changed_is_touched_only_if_that_is_said(half):
    assert refusals(half, draw(*GROWN), "reopen_changed", "drop_completed") == [
        ("step-3", "--drop-claimed")
    ]
    answer = half.revise(draw(*GROWN), "drop_claimed")
    assert (answer["dropped_claims"], answer["kept_claims"]) == (["step-3"], [])
    assert [(i["text"], i["status"]) for i in answer["reset_items"]] == [("h", "in_progress")]
    assert half.items("step-3") == {"t0": "completed", "t1": "open", "t2": "open"}
    assert half.attempts("step-3")[-1]["outcome"] == "reset"
    assert half.status("step-3") == half.status("step-3-1") == "pending"
    again = half.claim("blue", "step-3")
    assert (again["attempt"], again["previous_attempt"]["outcome"]) == (2, "reset")


def test_the_holder_of_a_kept_step_goes_on_with_its_attempt(half):
    half.revise(draw("0: new", *BEFORE[:2], "3=Other < 0: g h", *BEFORE[3:]))
    half.beat("step-3", "blue", attempt=1)
    half.update("step-3", owner="blue", attempt=1, complete_remaining=True)
    half.complete("step-3", "blue", attempt=1)
    assert half.status("step-3") == "completed"


@pytest.mark.parametrize("lines", [("3: h g", "3.1: i j"), ("3: g h", "3.1: j i")])
def test_what_a_holder_calls_its_first_task_does_not_become_another(half, lines):
    """The holder names items by their places, and has not seen the new ones."""
    half.revise(draw(*BEFORE[:3], "3.1: i j", BEFORE[4]), "drop_claimed")
    half.claim("blue", "step-3")
    half.tick("step-3", "t1", owner="blue")
    text = draw(*BEFORE[:2], *lines, BEFORE[4])
    assert refusals(half, text) == [("step-3", "--drop-claimed")]
    told = half.revise(text, dry_run=True)["refusals"]
    assert told[0]["why"] == "it is held by blue, and its items are in another order"
    answer = half.revise(text, "drop_claimed")
    assert (answer["changed"], answer["dropped_items"]) == (["step-3"], [])
    assert half.items("step-3") == {"t0": "completed", "t1": "completed"}


def test_the_holder_of_a_changed_step_is_told_that_it_is_over(half):
    half.revise(draw(*GROWN), "drop_claimed")
    with half.refuses("E050"):
        half.tick("step-3", "t0", owner="blue", attempt=1)
    half.claim("blue", "step-3")
    with half.refuses("E060"):
        half.tick("step-3", "t2", owner="blue", attempt=1)


def test_the_holder_of_a_step_that_is_gone_is_told_so(half):
    text = draw(*BEFORE[:2], BEFORE[4])
    assert refusals(half, text) == [("step-3", "--drop-completed"), ("step-3", "--drop-claimed")]
    half.revise(text, "drop_claimed", "drop_completed")
    with half.refuses("E059"):
        half.beat("step-3", "blue", attempt=1)
    assert event(half)["dropped"][0]["attempts"][0]["outcome"] == "reset"


def test_whoever_still_works_from_the_old_text_is_told(half):
    old = half.copy
    half.revise(draw("0: new", *BEFORE))
    with half.refuses("E048"):
        half.tick("step-3", "t1", owner="blue", copy=old)


# -- substeps ---------------------------------------------------------------------------

FAMILY = ("1: a", "1.1: b", "1.2: c", "2: d")


@pytest.fixture
def family(lab):
    """Step 1 has a completed substep and an open one."""
    family = lab(text=draw(*FAMILY))
    family.claim()
    family.tick("step-1-1", "t0")
    family.release("step-1")
    assert family.status("step-1-1") == "completed"
    yield family
    for invariant in INVARIANTS:
        invariant(family)


def test_a_completed_substep_stays_completed_where_its_step_changed(family):
    before = family.row("step-1-1")
    family.revise(draw("1: a new", *FAMILY[1:]))
    assert family.row("step-1-1") == before


@pytest.mark.parametrize(
    ("lines", "flag"),
    [
        (("1: a", "1.1: b new", *FAMILY[2:]), "--reopen-changed"),
        (("1: a", "1.1: B", *FAMILY[2:]), "--reopen-changed"),
        (("1: a", *FAMILY[2:]), "--drop-completed"),
        (("2: d",), "--drop-completed"),
    ],
    ids=["grown", "reworded", "deleted", "deleted with its step"],
)
def test_a_completed_substep_is_protected_as_a_step_is(family, lines, flag):
    anchor = "step-1" if lines == ("2: d",) else "step-1-1"
    assert refusals(family, draw(*lines)) == [(anchor, flag)]
    answer = family.revise(draw(*lines), *ALL)
    assert "step-1-1" in answer["reopened"] + answer["removed"]


def test_an_inserted_and_a_deleted_substep_change_their_step(family):
    answer = family.revise(draw("1: a", "1.1: b", "1.3: e", "2: d"))
    assert (answer["added"], answer["removed"]) == (["step-1-3"], ["step-1-2"])
    assert answer["changed"] == ["step-1"]
    assert answer["substeps_created"] == 1


def test_reordered_substeps_change_nothing(family):
    answer = family.revise(draw("1: a", "1.2: c", "1.1: b", "2: d"))
    assert (answer["kept"], answer["moved"]) == (["step-1", "step-2"], ["step-1-2"])


def test_a_substep_that_moves_to_another_step_changes_both_and_stays_done(family):
    before = family.row("step-1-1")
    answer = family.revise(draw("1: a", "1.2: c", "2: d", "1.1: b"))
    assert answer["changed"] == ["step-1", "step-2"]
    moved = family.row("step-1-1")
    assert (moved["parent_anchor"], moved["status"]) == ("step-2", "completed")
    assert moved["completed_at"] == before["completed_at"]


def test_a_substep_that_becomes_a_step_is_to_be_done_again(family):
    text = draw("1: a", "1.2: c", "X: b", "2: d").replace("step-X", "step-1-1")
    assert refusals(family, text) == [("step-1-1", "--reopen-changed")]
    told = family.revise(text, dry_run=True)["refusals"]
    assert told[0]["why"] == "it is completed, and is a step of its own now"
    answer = family.revise(text, "reopen_changed")
    assert answer["changed"] == ["step-1", "step-1-1"]
    assert (family.status("step-1-1"), family.items("step-1-1")) == ("pending", {"t0": "completed"})


def test_a_step_that_becomes_a_substep_keeps_its_items(family):
    family.finish("step-2")
    text = draw("1: a", "1.1: b", "1.2: c", "1.9: d").replace("step-1-9", "step-2")
    assert refusals(family, text) == [("step-2", "--reopen-changed")]
    told = family.revise(text, dry_run=True)["refusals"]
    assert told[0]["why"] == "it is completed, and is a substep now"
    answer = family.revise(text, "reopen_changed")
    # Its items are closed, so it is done as substeps are: by itself.
    assert answer["completed_substeps"] == ["step-2"]
    assert family.status("step-2") == "completed"
    assert family.row("step-2")["commit_hash"] is None


def test_substeps_are_done_by_themselves_when_nothing_is_left_to_wait_for(lab):
    lines = ("1: a", "1.1 < 2: b", "1.2 < 1.1: c", "2: d")
    made = lab(text=draw(*lines))
    with made.store.write(KEY) as tx:
        tx.run("update steps set open_deps = 0 where anchor = 'step-1'")
    made.claim("red", "step-1")
    made.tick("step-1-1", "t0")
    made.tick("step-1-2", "t0")
    assert made.status("step-1-1") == "claimed"
    text = draw("1: a", "1.1: b", "1.2 < 1.1: c", "2: d")
    told = made.revise(text, dry_run=True)
    answer = made.revise(text)
    assert told["completed_substeps"] == answer["completed_substeps"] == ["step-1-1", "step-1-2"]
    assert made.status("step-1-1") == made.status("step-1-2") == "completed"
    assert (made.status("step-1"), answer["kept_claims"]) == ("claimed", ["step-1"])


# -- everything at once -----------------------------------------------------------------


def test_every_refusal_is_told_at_once_and_each_needs_its_own_word(half):
    text = draw("1: a", "3: g", "4: j")
    assert refusals(half, text) == [
        ("step-1", "--reopen-changed"),
        ("step-2", "--drop-completed"),
        ("step-3", "--drop-claimed"),
    ]
    for flag in ALL:
        assert len(refusals(half, text, flag)) == 2
    half.revise(text, *ALL)
    assert [row["anchor"] for row in half.rows("select anchor from steps order by 1")] == [
        "step-1",
        "step-3",
        "step-4",
    ]


def test_a_message_names_some_and_the_facts_have_all(lab):
    lines = [f"{n}: a" for n in range(25)]
    made = lab(text=draw(*lines))
    for n in range(25):
        made.finish(f"step-{n}")
    with pytest.raises(TugError) as caught:
        made.revise(draw("99: z"))
    assert caught.value.message.endswith(
        "step-19: it is completed, and gone from the plan\nand 5 more"
    )
    assert len(caught.value.facts["refusals"]) == 25


def test_a_dry_run_tells_what_happens_then(half):
    text = draw("0: z", "1: b c/ok a", "2: d new", "3: h")
    with half.unchanged():
        told = half.revise(text, *ALL, dry_run=True)
    answer = half.revise(text, *ALL)
    differing = {key for key in answer if told[key] != answer[key]}
    assert differing == {"dry_run", "revised", "drift", "plan_hash"}


def test_a_circle_is_no_plan(half):
    text = draw("1 < 4: a b c/ok", *BEFORE[1:])
    assert [each.code for each in rules.check(parser.parse(text), "lenient")] == ["E011"]


# -- attempts: promise 1 ----------------------------------------------------------------


def test_a_step_that_comes_back_does_not_count_its_attempts_anew(half):
    half.reset("step-3")
    assert half.claim("blue", "step-3")["attempt"] == 2
    half.revise(draw(*BEFORE[:2], BEFORE[4]), *ALL)
    half.revise(draw(*BEFORE))
    assert half.row("step-3")["attempt"] == 2
    with half.refuses("E050"):
        half.tick("step-3", "t0", owner="blue", attempt=2)
    again = half.claim("blue", "step-3")
    assert (again["attempt"], again["previous_attempt"]) == (3, None)
    with half.refuses("E060"):
        half.tick("step-3", "t0", owner="blue", attempt=2)
    half.tick("step-3", "t0", owner="blue", attempt=3)


def test_the_fence_holds_over_several_revisions_and_in_another_role(half):
    half.reset("step-3")
    half.claim("blue", "step-3")
    half.revise(draw(*BEFORE[:2], BEFORE[4]), *ALL)
    half.revise(draw("0: z", *BEFORE[:2], BEFORE[4]))
    text = draw("0: z", "0.1: g h", *BEFORE[:2], BEFORE[4]).replace("step-0-1", "step-3")
    half.revise(text)
    # What was step 3 is a substep of step 0 now, and held with it.
    assert half.claim("blue", "step-0")["attempt"] == 3
    with half.refuses("E060"):
        half.tick("step-3", "t0", owner="blue", attempt=2)


def test_an_attempt_at_the_step_a_substep_belonged_to_does_not_count_in_its_new_one(lab):
    made = lab(text=draw("1: a", "1.1: b", "2: c"))
    for _ in range(3):
        made.claim("red", "step-1")
    made.claim("blue", "step-2")
    made.revise(draw("1: a", "2: c", "1.1: b"), "drop_claimed")
    made.claim("red", "step-2")
    with made.refuses("E060"):
        made.tick("step-1-1", "t0", attempt=3)
    assert made.row("step-2")["attempt"] == 4


def test_an_attempt_before_a_gap_is_still_the_previous_one(lab):
    made = lab(text=draw("1: a", "1.1: b", "2: c"))
    made.claim("blue", "step-2", request_id="r")
    for _ in range(3):
        made.claim("red", "step-1")
    made.revise(draw("1: a", "2: c", "1.1: b"), "drop_claimed")
    got = made.claim("blue", "step-2", request_id="s")
    assert (got["attempt"], got["previous_attempt"]["number"]) == (4, 1)
    assert made.claim("blue", request_id="s") == {**got, "replayed": True}
    with made.refuses("E060"):
        made.claim("blue", request_id="r")


def test_every_agreed_text_is_listed_and_can_be_read(lab):
    lab = lab("1 t", "2 t")
    first = state.agreed_texts(lab.store, KEY)
    assert [each["replaced_at"] for each in first["revisions"]] == [None]
    lab.clock.advance(60)
    old, new = lab.text, lab.text + "\nMore.\n"
    lab.revise(new)
    listed = state.agreed_texts(lab.store, KEY)["revisions"]
    assert [each["revision"] for each in listed] == [1, 2]
    assert listed[0]["replaced_at"] == listed[1]["agreed_at"] > listed[0]["agreed_at"]
    assert listed[1]["plan_hash"] == lab.plan()["plan_hash"] != listed[0]["plan_hash"]
    assert state.agreed_texts(lab.store, KEY, 1)["text"] == old
    assert state.agreed_texts(lab.store, KEY, 2)["text"] == new
    for unknown in (0, 3):
        with pytest.raises(TugError, match="numbered from 1 to 2"):
            state.agreed_texts(lab.store, KEY, unknown)


def test_the_command_lists_the_texts_or_prints_one(desk):
    desk = desk("1 t")
    assert desk.text("revisions", "work").out.endswith(", the agreed text\n")
    text = desk.plan.read_text()
    desk.plan.write_text(text + "\nMore.\n")
    (desk.red / ".tugtool" / "tugplan-work.md").unlink(missing_ok=True)
    desk.ok("init", "work", "--force")
    assert len(desk.text("revisions", "work").out.splitlines()) == 2
    assert desk.text("revisions", "work", "--revision", 1).out == text
    assert desk.json("revisions", "work", "--revision", 3).status == 2
