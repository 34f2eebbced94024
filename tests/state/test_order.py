"""The order of the checks, shown in situations in which two refusals apply; and drift."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import engines
from support.state import KEY, Lab, entry
from tugtool import state
from tugtool.errors import TugError
from tugtool.errors.state import InvalidEntry
from tugtool.plan import parser
from tugtool.state import record
from tugtool.state.record import PlanCopy
from tugtool.store import open_store

CHANGED = PlanCopy("/the/plan.md", "0" * 64)
GONE = PlanCopy("/the/plan.md", None)
BAD = entry("t9")


@pytest.fixture
def family(lab) -> Lab:
    """Step 1 with two substeps, the second after the first; red holds it, attempt 2."""
    made = lab("1 t", "1.1 t", "1.2 t < 1.1")
    made.claim("red")
    made.claim("red")
    return made


def test_a_plan_without_state_is_said_before_an_unknown_step(lab):
    made = lab("1 t")
    with made.store.write("other.md") as tx, pytest.raises(Exception, match="no state") as caught:
        record.held(tx, "step-9", owner="red", attempt=9)
    assert caught.value.code == "E063"


@pytest.mark.parametrize("command", ["start", "beat", "artifact", "complete", "release", "close"])
def test_an_unknown_step_is_said_before_a_stale_attempt(family, command):
    with family.refuses("E059"):
        getattr(family, command)("step-9", attempt=1)


@pytest.mark.parametrize("command", ["start", "beat", "artifact", "complete", "release", "close"])
def test_a_stale_attempt_is_said_before_the_wrong_owner(family, command):
    with family.refuses("E060"):
        getattr(family, command)("step-1", "blue", attempt=1)
    with family.refuses("E049"):
        getattr(family, command)("step-1", "blue", attempt=2)


@pytest.mark.parametrize("command", ["start", "beat", "close", "release"])
def test_completed_is_said_before_the_wrong_owner(family, command):
    family.close("step-1")
    family.complete("step-1")
    with family.refuses("E050", "completed"):
        getattr(family, command)("step-1", "blue")


def test_a_completed_substep_is_said_to_be_so_before_the_wrong_owner(family):
    family.tick("step-1-1", "t0")
    with family.refuses("E050", "step-1-1 is completed"):
        family.start("step-1-1", "blue")


def test_a_stale_attempt_is_said_before_that_only_whole_steps_are_released(family):
    with family.refuses("E060"):
        family.release("step-1-1", attempt=1)
    with family.refuses("E050", "substep"):
        family.release("step-1-1", "blue")


@pytest.mark.parametrize("command", ["complete", "close"])
def test_the_wrong_owner_and_an_unclaimed_step_are_said_before_drift(family, command):
    with family.refuses("E049"):
        getattr(family, command)("step-1", "blue", copy=CHANGED)
    family.release("step-1")
    with family.refuses("E050"):
        getattr(family, command)("step-1", copy=CHANGED)


def test_drift_is_said_before_open_dependencies(family):
    with family.refuses("E048"):
        family.complete("step-1-2", copy=CHANGED)
    with family.refuses("E053"):
        family.complete("step-1-2")


def test_drift_is_said_before_bad_entries(family):
    with family.refuses("E048"):
        family.update("step-1", BAD, copy=CHANGED)
    with family.refuses("E066"):
        family.update("step-1", BAD)


def test_open_dependencies_are_said_before_an_unknown_commit_and_that_before_open_items(family):
    with family.refuses("E053"):
        family.complete("step-1-2", unknown_commit="beef")
    with family.refuses("E066", 'git knows no commit "beef"'):
        family.complete("step-1", unknown_commit="beef")
    with family.refuses("E051"):
        family.complete("step-1")


def test_a_batch_that_cannot_be_read_waits_for_its_turn(family):
    def unreadable() -> Iterator[dict]:
        raise InvalidEntry("the batch is not JSON")
        yield {}

    def update(owner: str, **how: object) -> None:
        copy = how.pop("copy", family.copy)
        state.update(family.store, KEY, "step-1", unreadable(), owner=owner, copy=copy, **how)

    with family.refuses("E060"):
        update("blue", attempt=1)
    with family.refuses("E049"):
        update("blue")
    with family.refuses("E048"):
        update("red", copy=CHANGED)
    with family.refuses("E066", "not JSON"):
        update("red", complete_remaining=True)


def test_completing_a_completed_step_succeeds_whatever_else_is_wrong(family):
    family.close("step-1")
    family.complete("step-1")
    with family.unchanged():
        done = family.complete("step-1", "blue", copy=CHANGED, unknown_commit="beef")
    assert done["already_completed"] is True


def test_claim_says_drift_before_it_says_that_there_is_nothing(lab):
    made = lab("1 t")
    made.pause()
    with made.refuses("E048"):
        made.claim("red", copy=CHANGED)
    with made.refuses("E059"):
        made.claim("red", "step-9", copy=CHANGED)


@pytest.mark.parametrize("copy", [CHANGED, GONE], ids=["changed", "gone"])
def test_only_claim_update_and_complete_refuse_a_changed_plan(lab, copy):
    made = lab("1 t", "2 t")
    with made.refuses("E048", "/the/plan.md"):
        made.claim(copy=copy)
    made.claim()
    with made.refuses("E048"):
        made.update("step-1", entry("t0"), copy=copy)
    with made.refuses("E048"):
        made.complete("step-1", copy=copy)
    # These do not even ask.
    made.start("step-1")
    made.beat("step-1")
    made.artifact("step-1")
    made.release("step-1")
    made.reset("step-1")


def test_a_refusal_of_drift_says_what_was_agreed_and_what_was_found(lab):
    made = lab("1 t")
    with pytest.raises(Exception, match="has changed since the plan was initialised") as caught:
        made.claim(copy=CHANGED)
    assert caught.value.facts["agreed_hash"] == made.hash
    assert caught.value.facts["found_hash"] == "0" * 64
    with pytest.raises(Exception, match="is gone since the plan was initialised"):
        made.claim(copy=GONE)


def test_a_refused_command_renews_nothing_and_leaves_no_event(lab):
    made = lab("1 t")
    made.claim()
    made.clock.advance(60)
    for refused in (
        lambda: made.update("step-1", BAD),
        lambda: made.complete("step-1"),
        lambda: made.artifact("step-1", kind="opinion"),
        lambda: made.beat("step-1", "blue"),
    ):
        with pytest.raises(TugError):
            refused()
    assert made.row("step-1")["lease_expires_at"] == "2026-02-23T14:00:00.000Z"
    assert made.events() == ["init", "claim"]


def test_init_is_idempotent_and_a_changed_plan_is_said_and_changes_nothing(lab):
    made = lab("1 tte", "1.1 c", "2 t")
    assert made.made == {
        "plan_path": KEY,
        "plan_hash": made.hash,
        "steps_created": 3,
        "substeps_created": 1,
        "checklist_items_created": 5,
        "already_initialized": False,
        "drift": False,
        "restored_from_backup": False,
        "dry_run": False,
        "revised": False,
    }
    for hash, drift in ((made.hash, False), ("1" * 64, True)):
        with made.unchanged():
            again = state.init(
                made.store, KEY, parser.parse("### Step 7: New\n"), text="new", hash=hash
            )
        assert (again["already_initialized"], again["drift"]) == (True, drift)
        assert again["plan_hash"] == made.hash
        assert (again["steps_created"], again["checklist_items_created"]) == (0, 0)


def test_step_index_is_document_order_over_steps_and_substeps(lab):
    made = lab("0 t", "1 t", "1.1 t", "1.2 t", "2 t")
    rows = made.rows("select anchor, step_index, parent_anchor from steps order by step_index")
    assert [tuple(row.values()) for row in rows] == [
        ("step-0", 0, None),
        ("step-1", 1, None),
        ("step-1-1", 2, "step-1"),
        ("step-1-2", 3, "step-1"),
        ("step-2", 4, None),
    ]


def test_reading_commands_write_nothing_at_all(lab):
    made = lab("1 t")
    made.claim()
    before = _bytes(made)
    made.ready()
    made.show()
    reader = open_store(made.url, clock=made.clock)
    with (
        pytest.raises(TugError, match=r"readonly|read-only|cannot be used"),
        reader.read(KEY) as tx,
    ):
        tx.run("update plans set status = 'done'")
    reader.close()
    assert _bytes(made) == before


def _bytes(made: Lab) -> list[object]:
    """The files; or every row with the transaction that wrote it, and the place where it lies."""
    if engines.is_postgres(made.url):
        seen = (
            "select cast(ctid as text), cast(xmin as text) as by, cast(t as text) as row from {} t"
        )
        return [made.rows(seen.format(table)) for table in engines.TABLES]
    database = Path(made.url.removeprefix("sqlite://"))
    return [path.read_bytes() for path in (database, database.with_name("state.db-wal"))]
