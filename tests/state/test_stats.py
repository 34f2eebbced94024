"""stats: whatever happens, its numbers and times are those of an account kept meanwhile."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from state.test_events import QUIET, plans
from support.proving import examined
from support.state import KEY, Lab, markdown
from support.state_walk import COUNTED, OPERATIONS, OWNERS, Walk
from tugtool import state
from tugtool.cli.draw import tables
from tugtool.state import history, record

WALKS = st.lists(
    st.tuples(
        st.sampled_from(OPERATIONS), st.sampled_from(OWNERS), st.integers(0, 9), st.integers(0, 4)
    ),
    min_size=15,
    max_size=50,
)


def figures(lab: Lab) -> dict:
    return state.stats(lab.store, KEY)["plans"][0]


def of(lab: Lab, step: str) -> dict:
    return next(each for each in figures(lab)["steps"] if each["anchor"] == step)


def hold(lines: list[str], operations: list[tuple[str, str, int, int]]) -> None:
    """Carry a history out, and after each operation compare the account with the answer."""
    with tempfile.TemporaryDirectory() as directory:
        lab = Lab(Path(directory), *lines, max_attempts=3)
        walk = Walk(lab)
        for operation in operations:
            walk.act(*operation)
            the_account_is_what_stats_says(lab, walk)
        lab.store.close()


def the_account_is_what_stats_says(lab: Lab, walk: Walk) -> None:
    plan = figures(lab)
    account = walk.account()
    for step in plan["steps"]:
        told = account[step["anchor"]]
        assert {key: step[key] for key in told} == told, step["anchor"]
    for name in (*COUNTED, "deferred", "waiting_seconds", "working_seconds"):
        assert plan[name] == pytest.approx(sum(told[name] for told in account.values())), name
    ended = {name: n for name, n in plan["attempts_by_outcome"].items() if n}
    running = {"running": len(walk.running)} if walk.running else {}
    assert ended == {**walk.outcomes, **running}
    assert plan["wall_seconds"] == walk.wall_seconds()
    items = [status for each in walk.anchors for status in lab.items(each).values()]
    for status in ("open", "in_progress", "completed", "deferred"):
        assert sum(kind[status] for kind in plan["items"].values()) == items.count(status)


@examined(short=40)
@given(plans(), WALKS)
@example(["1 t", "1.1 t", "2 t < 1.1"], [("claim", "red", 0, 0), ("wait", "red", 0, 2)])
@example(["1 t"], [("claim", "red", 0, 1), ("wait", "red", 0, 2), ("claim", "blue", 0, 2)])
def test_stats_are_what_an_account_kept_meanwhile_says(lines, operations):
    hold(lines, operations)


FAULTS = {
    "leases never run out": (history, "_lease_end", lambda attempt: 1 << 60),
    "a lost holder worked to the end": (history, "ENDED_BY_HOLDER", history.OUTCOMES),
    "a reopened step blocks nobody": (history.Openings, "_reopen", lambda self, anchor, at: None),
    "nobody waits for others": (history.Openings, "_shift", lambda self, anchor, at, by: None),
    "holding is waiting": (history, "shared", lambda ones, others: 0),
    "dead holders are not taken over": (history, "TAKEN_OVER", ("expired", "superseded")),
    "force leaves no trace": (history, "_is_forced", lambda kind, detail: False),
}


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_account_notices_a_planted_fault(monkeypatch, fault):
    monkeypatch.setattr(*FAULTS[fault])
    search = settings(
        max_examples=300,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=QUIET,
    )
    with pytest.raises(AssertionError):
        search(given(plans(), WALKS)(hold))()


def test_waiting_is_being_ready_parked_or_paused_but_not_being_blocked(lab):
    lab = lab("1 t", "2 t < 1")
    lab.clock.advance(10)
    lab.pause()
    lab.clock.advance(20)
    lab.resume()
    lab.claim()
    lab.release("step-1", park_reason="no access")
    lab.clock.advance(30)
    lab.reset("step-1")
    lab.clock.advance(40)
    lab.finish("step-1")
    lab.clock.advance(5)
    assert of(lab, "step-1")["waiting_seconds"] == 100
    assert of(lab, "step-2")["waiting_seconds"] == 5


def test_a_lost_holder_worked_until_its_last_sign_of_life(lab):
    lab = lab("1 t")
    lab.claim(lease_seconds=100)
    lab.clock.advance(60)
    lab.beat("step-1")
    lab.clock.advance(150)
    step = of(lab, "step-1")
    assert (step["working_seconds"], step["waiting_seconds"]) == (60, 50)
    lab.claim("blue")
    lab.clock.advance(7.25)
    step = of(lab, "step-1")
    assert (step["working_seconds"], step["waiting_seconds"]) == (67.25, 50)
    assert (step["attempts"], step["reclaims"]) == (2, 1)


def test_a_step_waits_for_nobody_while_the_substep_it_needs_is_open_again(lab):
    lab = lab("1 t", "1.1 t", "2 t < 1.1")
    lab.claim()
    lab.tick("step-1-1", "t0")
    lab.clock.advance(10)
    lab.tick("step-1-1", "t0", status="open")
    lab.clock.advance(100)
    assert of(lab, "step-2")["waiting_seconds"] == 10
    lab.tick("step-1-1", "t0")
    lab.clock.advance(5)
    assert of(lab, "step-2")["waiting_seconds"] == 15


def test_what_is_told_twice_happened_once(lab):
    lab = lab("1 t", "2 t < 1", "3 t < 1 2")
    lab.finish("step-1")
    with lab.store.write(KEY) as tx:
        record.note(tx, "complete", anchor="step-1", forced=None)
        record.note(tx, "reopen", anchor="step-2")
    lab.clock.advance(10)
    assert [step["waiting_seconds"] for step in figures(lab)["steps"]] == [0, 10, 0]


def test_a_step_that_came_with_a_revision_kept_nobody_waiting_before(lab):
    lab = lab("1 t", "2 t < 3", "3 t", "4 t < 1")
    lab.finish("step-1")
    lab.clock.advance(10)
    with lab.store.write(KEY) as tx:
        changes = {"added": ["step-3"], "reopened": ["step-1"]}
        record.note(tx, "revise", actor="ada", **changes)
    lab.clock.advance(100)
    waited = [step["waiting_seconds"] for step in figures(lab)["steps"]]
    assert waited == [100, 10, 100, 10]


def test_work_does_not_get_less_when_a_dead_holder_is_taken_over(lab):
    lab = lab("1 t")
    lab.claim("red", "step-1", lease_seconds=7200, holder_pid=(1 << 22) + 1)
    lab.clock.advance(60)
    before = state.stats(lab.store, KEY)["plans"][0]["working_seconds"]
    lab.claim("blue", "step-1")
    after = state.stats(lab.store, KEY)["plans"][0]["working_seconds"]
    assert (before, after) == (0, 0)


def test_a_parked_step_is_told_apart(lab):
    lab = lab("1 t", "2 t")
    lab.claim("red", "step-1")
    lab.release("step-1", park_reason="why")
    (plan,) = state.stats(lab.store, KEY)["plans"]
    assert [step["parked"] for step in plan["steps"]] == [True, False]
    first = tables.table([plan], 80).split("\n")[5]
    assert first.split()[:2] == ["step-1", "parked"]


def test_two_steps_at_once_are_worked_on_in_parallel(lab):
    lab = lab("1 t", "2 t")
    lab.claim("red")
    lab.claim("blue")
    lab.clock.advance(3600)
    for step, owner in (("step-1", "red"), ("step-2", "blue")):
        lab.close(step, owner)
        lab.complete(step, owner)
    lab.clock.advance(9999)
    plan = figures(lab)
    assert (plan["wall_seconds"], plan["working_seconds"]) == (3600, 7200)
    assert plan["parallelism"] == 2
    assert (plan["status"], plan["completed_at"]) == ("done", "2026-02-23T13:00:00.000Z")


def test_at_the_first_moment_nothing_is_divided_by_nothing(lab):
    plan = figures(lab("1 t"))
    assert (plan["wall_seconds"], plan["parallelism"], plan["completed_at"]) == (0, None, None)


def test_a_clock_that_is_set_back_makes_no_time_negative(lab):
    lab = lab("1 t", "2 t < 1")
    lab.clock.advance(100)
    lab.claim()
    lab.clock.advance(-1000)
    lab.release("step-1")
    lab.finish("step-1")
    lab.clock.advance(-1000)
    plan = figures(lab)
    times = [plan[name] for name in ("wall_seconds", "waiting_seconds", "working_seconds")]
    for step in plan["steps"]:
        times += [step["waiting_seconds"], step["working_seconds"]]
    assert min(times) == 0


def test_tokens_and_cost_are_summed_where_they_were_reported_and_null_elsewhere(lab):
    lab = lab("1 t", "2 t")
    lab.claim()
    lab.release("step-1")
    lab.claim()
    assert (figures(lab)["tokens"], figures(lab)["cost_microdollars"]) == (None, None)
    with lab.store.write(KEY) as tx:
        tx.run("update attempts set tokens = 1000 * number, cost_microdollars = 5")
    assert [step["tokens"] for step in figures(lab)["steps"]] == [3000, None]
    assert (figures(lab)["tokens"], figures(lab)["cost_microdollars"]) == (3000, 10)


def test_what_happened_to_a_step_that_is_no_longer_in_the_plan_counts_for_nothing(lab):
    lab = lab("1 t")
    lab.finish("step-1")
    before = figures(lab)
    with lab.store.write(KEY) as tx:
        tx.run("update events set step_anchor = 'step-9' where kind = 'complete'")
        tx.run("update steps set status = 'pending', completed_at = null")
    after = figures(lab)
    assert before["times_forced"] == after["times_forced"] == 0
    assert after["steps"][0]["status"] == "pending"


def test_all_plans_are_those_that_are_not_archived_unless_asked(lab):
    lab = lab("1 t")
    assert [plan["plan_path"] for plan in state.stats(lab.store)["plans"]] == [KEY]
    with lab.store.write(KEY) as tx:
        tx.run("update plans set status = 'archived'")
    assert state.stats(lab.store)["plans"] == []
    assert [plan["status"] for plan in state.stats(lab.store, archived=True)["plans"]] == [
        "archived"
    ]
    assert figures(lab)["status"] == "archived"


@pytest.mark.parametrize(
    ("ones", "others", "common"),
    [
        ([], [(0, 9)], 0),
        ([(0, 9)], [(2, 3), (5, 20)], 5),
        ([(0, 2), (4, 6)], [(1, 5)], 2),
        ([(0, 5)], [(5, 9)], 0),
    ],
)
def test_time_that_two_lists_of_spells_share(ones, others, common):
    assert history.shared(ones, others) == history.shared(others, ones) == common


def test_spells_are_put_one_after_the_other():
    assert history.tidy([(0, 5), (3, 4), (4, 8), (9, 9)]) == [(0, 5), (5, 8)]
    assert history.total([(0, 5), (5, 8)]) == 8


def busy(desk) -> None:
    desk.ok("claim", "work")
    desk.ok("artifact", "work", "step-1", "--kind", "recovery", "--summary", "again")
    desk.ok("update", "work", "step-1", "--checkpoint", "0", "deferred", "--reason", "eyes")
    desk.ok("complete", "work", "step-1", "--force", "enough")
    desk.ok("claim", "work", "--step", "step-2", at=desk.blue)
    desk.ok("claim", "work", "--step", "step-2", at=desk.blue)


def test_the_command_has_a_table_for_people(desk):
    desk = desk("1 tc", "2 t", "3 t < 2")
    busy(desk)
    out = desk.text("stats", "work").out.splitlines()
    assert out[0].startswith("work  ")
    assert out[0].endswith("  [active]")
    assert out[1].startswith("  1/3 steps · 1/4 items completed · 1 deferred · ")
    head = next(line for line in out if "STEP" in line)
    rows = out[out.index(head) + 1 :]
    assert [row.split()[:3] for row in rows] == [
        ["step-1", "completed", "1"],
        ["step-2", "at", "work"],
        ["step-3", "pending", "0"],
    ]
    assert rows[0].endswith("forced, 1 deferred, 1 recovery")
    assert rows[1].endswith("1 reclaim")
    assert {row[: head.index("REMARKS")].rindex("s") for row in rows} == {
        head.index("WORKED") + len("WORKED") - 1
    }


@pytest.mark.parametrize("columns", [80, 60, 40, 20])
def test_the_table_fits_the_terminal(desk, monkeypatch, columns):
    desk = desk("1 tc", "2 t", "3 t < 2")
    busy(desk)
    monkeypatch.setenv("COLUMNS", str(columns))
    out = desk.text("stats", "work").out.splitlines()[1:]
    assert [line for line in out if len(line) > max(columns, 30)] == []
    if columns <= 40:
        assert "  step-1" in out
        assert "status completed" in " ".join(out)
        assert "forced" in "".join(out)


def test_a_step_with_much_to_say_says_it_below(desk, monkeypatch):
    desk = desk("1 tc")
    desk.ok("claim", "work")
    for kind in ("recovery", "escalation"):
        for _ in range(12):
            desk.ok("artifact", "work", "step-1", "--kind", kind, "--summary", "x")
    store = desk.opened()
    with store.write(KEY) as tx:
        tx.run("update attempts set tokens = 123456789, cost_microdollars = 1234567")
    store.close()
    monkeypatch.setenv("COLUMNS", "80")
    out = desk.text("stats").out.splitlines()
    said = " ".join(" ".join(out[-2:]).split())
    assert said.endswith("12 recoveries, 12 escalations, 123,456,789 tokens, $1.23")
    assert max(map(len, out)) <= 80


def test_without_a_state_there_are_no_figures(desk):
    desk = desk("1 t", init=False)
    assert desk.ok("stats") == {"plans": []}
    assert desk.text("stats").out == "no plan has a state yet\n"
    assert desk.json("stats", "work").codes == ["E063"]


def test_two_plans_stand_apart_and_a_fresh_one_has_no_attempts(desk):
    desk = desk("1 t")
    desk.repo.plan("other", markdown("1 t"))
    desk.ok("init", desk.repo.path / ".tugtool" / "tugplan-other.md")
    out = desk.text("stats", "--all").out
    assert out.count("attempts: none") == 2
    assert "\n\n" in out
    assert len(desk.ok("stats")["plans"]) == 2
