"""show: when it was read, who is gone, what is waited for, which plans; and at what cost."""

import os
import subprocess
import sys

import pytest

from plan.test_linear import work
from support.picture_scenes import ROOT
from support.state import KEY, NOON, Lab, markdown
from support.state_walk import NOBODY
from tugtool import state
from tugtool.cli.draw import live
from tugtool.cli.draw import plan as draw_plan
from tugtool.cli.draw.canvas import Canvas
from tugtool.cli.draw.plan import View
from tugtool.plan import parser
from tugtool.state import attempts, views
from tugtool.state.standings import holders
from tugtool.store import open_store, sql
from tugtool.system import clock


def waits(lab: Lab) -> dict[str, list[str]]:
    steps = [each for step in lab.show()["steps"] for each in (step, *step["substeps"])]
    return {step["anchor"]: step["waiting_for"] for step in steps}


def moment(lab: Lab, since: tuple[str, int] | None, *, most: int = 9) -> dict:
    return views.moment(lab.store, [KEY, "gone"], since=since, most=most)


def kinds(found: dict) -> list[str]:
    return [event["kind"] for event in found["events"]]


def test_show_tells_when_it_was_read(lab):
    lab = lab("1 t")
    lab.clock.advance(90)
    assert lab.show()["as_of"] == clock.text(NOON + 90_000)


def test_everything_of_a_plan_is_read_at_one_moment(lab):
    lab = lab("1 t", "2 t")
    lab.finish("step-1")
    found = views.everything(lab.store, KEY)
    assert [step["status"] for step in found["show"]["steps"]] == ["completed", "pending"]
    assert found["stats"] == state.stats(lab.store, KEY)["plans"][0]
    assert [event["kind"] for event in found["events"]] == lab.events()
    assert found["review"] == lab.review()
    assert found["text"] == markdown("1 t", "2 t")


@pytest.mark.unserved("only the server's own tail asks for moments")
def test_a_moment_has_the_plans_and_the_events_since_the_one_before(lab):
    lab = lab("1 t", "2 t")
    first = moment(lab, None)
    assert (first["fresh"], kinds(first)) == (True, ["init"])
    assert first["shows"] == {KEY: lab.show(), "gone": None}
    mark = first["epoch"], first["seq"]
    assert mark == (
        state.epoch(lab.store),
        lab.rows("select max(seq) as last from events")[0]["last"],
    )
    lab.clock.advance(60)
    lab.claim()
    then = moment(lab, mark)
    assert (then["fresh"], kinds(then), then["as_of"]) == (False, ["claim"], lab.show()["as_of"])
    assert then["shows"][KEY]["steps"][0]["claimed_by"] == "red"
    again = moment(lab, (then["epoch"], then["seq"]))
    assert (again["fresh"], kinds(again)) == (False, [])


@pytest.mark.unserved("only the server's own tail asks for moments")
def test_a_moment_that_cannot_go_on_from_the_one_before_begins_again(lab):
    lab = lab("1 t", "2 t")
    first = moment(lab, None)
    epoch, seq = first["epoch"], first["seq"]
    lab.claim()
    lab.start("step-1")
    assert moment(lab, (epoch, seq), most=2)["fresh"] is False
    # Too many; another database; an event that is no more.
    for since, most in (((epoch, seq), 1), (("other", seq), 2), ((epoch, seq + 3), 2)):
        found = moment(lab, since, most=most)
        assert (found["fresh"], kinds(found)) == (True, ["claim", "start"][-most:])


@pytest.mark.file
def test_a_moment_of_a_record_without_plans_has_nothing(tmp_path):
    store = open_store(f"sqlite://{tmp_path}/none.db")
    missing = views.moment(store, [KEY], since=None, most=9)
    assert (missing["epoch"], missing["seq"], missing["events"]) == ("", 0, [])
    assert missing["fresh"]
    assert not views.moment(store, [KEY], since=("", 0), most=9)["fresh"]
    store.create()
    made = views.moment(store, [KEY], since=("", 0), most=9)
    assert (made["fresh"], made["seq"], made["events"]) == (True, 0, [])
    assert made["shows"] == {KEY: None}
    assert not views.moment(store, [KEY], since=(made["epoch"], 0), most=9)["fresh"]
    store.close()


def test_holders_are_those_under_a_live_claim(lab):
    lab = lab("1 t", "1.1 t", "2 t", "3 t")
    until = lab.claim("red", "step-1")["lease_expires_at"]
    lab.claim("blue", "step-2", holder_pid=NOBODY)
    red = {"step_anchor": "step-1", "worktree": "red", "lease_expires_at": until}
    assert holders(lab.store, KEY) == [red]
    lab.clock.advance(7201)
    assert holders(lab.store, KEY) == []


def test_what_the_attempt_before_left_is_told_also_after_the_claim(lab):
    lab = lab("1 t")
    lab.claim("red")
    assert views.previous_attempt(lab.store, KEY, "step-1") is None
    lab.release("step-1", failure="the tests do not run")
    left = lab.claim("blue")["previous_attempt"]
    assert views.previous_attempt(lab.store, KEY, "step-1") == left
    assert left["outcome"] == "failed"


def test_times_are_told_apart_in_seconds():
    early, late = clock.text(NOON), clock.text(NOON + 86_400_250)
    assert clock.seconds_between(early, late) == 86400.25
    assert clock.seconds_between(late, early) == -86400.25


def test_a_step_waits_for_what_it_and_its_substeps_need_outside(lab):
    lab = lab("1 t", "2 t", "3 t < 2 1", "3.1 t < 3.2", "3.2 t < 2", "4 t < 3.1")
    assert waits(lab) == {
        "step-1": [],
        "step-2": [],
        "step-3": ["step-1", "step-2"],
        "step-3-1": ["step-3-2"],
        "step-3-2": ["step-2"],
        "step-4": ["step-3-1"],
    }
    lab.finish("step-2")
    assert waits(lab)["step-3"] == ["step-1"]
    lab.finish("step-1")
    assert waits(lab)["step-3"] == []
    lab.finish("step-3")
    assert not any(waits(lab).values())


def test_what_a_completed_substep_needed_its_holder_waits_for_no_more(lab):
    lab = lab("1 t", "2 t", "2.1 t < 1", "2.2 t")
    lab.finish("step-1")
    lab.claim(step="step-2")
    lab.close("step-2-1")
    lab.reopen("step-1", force=True)
    assert waits(lab)["step-2"] == []


def test_but_nobody_gets_the_step_before_that_is_done_again(lab):
    lab = lab("1 t", "2 t", "2.1 t < 1")
    lab.finish("step-1")
    lab.claim()
    lab.close("step-2-1")
    lab.release("step-2")
    lab.reopen("step-1")
    assert lab.ready()["blocked_steps"] == ["step-2"]
    second = lab.show()["steps"][1]
    assert (second["waiting_for"], second["substeps"][0]["waiting_for"]) == (["step-1"], [])


def test_a_substep_does_not_wait_for_its_own_step(lab):
    (step,) = lab("1 t", "1.1 t < 1", "1.2 t < 1.1").show()["steps"]
    assert [each["waiting_for"] for each in step["substeps"]] == [[], ["step-1-1"]]


def test_a_holder_that_provably_no_longer_runs_is_told(lab):
    lab = lab("1 t", "1.1 t", "2 t", "3 t")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    lab.claim("red", holder_pid=child.pid)
    lab.claim("blue", holder_pid=os.getpid())
    lab.claim("green")

    def gone() -> list[str]:
        return [step["anchor"] for step in lab.show()["steps"] if step["holder_gone"]]

    assert gone() == []
    child.communicate(b"\n")
    assert gone() == ["step-1"]
    lab.claim("blue", "step-1")
    assert gone() == []


def test_archived_plans_are_shown_only_if_they_are_named_or_wanted(lab):
    lab = lab("1 t")
    parsed = parser.parse(lab.text)
    state.init(lab.store, "other.md", parsed, text=lab.text, hash=lab.hash)
    with lab.store.write(KEY) as tx:
        tx.run(sql.SET_STATUS, status="archived")

    def shown(**how: bool) -> list[str]:
        return [plan["plan_path"] for plan in state.show(lab.store, **how)["plans"]]

    assert shown() == ["other.md"]
    assert shown(archived=True) == [KEY, "other.md"]
    assert lab.show()["status"] == "archived"


def chain(count: int) -> str:
    """Every step needs the one before, and every tenth has a substep; the last needs many."""
    lines = []
    for n in range(1, count + 1):
        needs = f" < {n - 1}" if n > 1 else ""
        lines.append(f"{n} ttec{needs}")
        lines += [f"{n}.1 t"] if n % 10 == 0 else []
    lines.append(f"{count + 1} t < " + " ".join(map(str, range(1, count))))
    return markdown(*lines)


@pytest.fixture
def counted(tmp_path_factory):
    """How much work it is to look at a plan of so many steps and to draw it."""

    def count(steps: int, draw) -> int:
        lab = Lab(tmp_path_factory.mktemp("linear"), text=chain(steps))
        lab.claim()
        done = work(lambda _: draw(lab.show()), "")
        lab.store.close()
        return done

    return count


def not_at_all(plan: dict) -> None:
    """Only the look itself."""


def in_full(plan: dict) -> None:
    for every_item in (False, True):
        draw_plan.draw(Canvas(40, colour=True), plan, View(root=ROOT, every_item=every_item))


def at_a_glance(plan: dict) -> None:
    live.draw_frame(lambda: Canvas(79), [(plan, ())], View(root=ROOT), rows=24)


@pytest.mark.parametrize("draw", [not_at_all, in_full, at_a_glance])
def test_twice_the_steps_are_at_most_twice_the_work(counted, draw):
    assert counted(100, draw) <= 2.2 * counted(50, draw)


def test_many_plans_cost_what_each_costs(lab):
    lab = lab("1 t", "2 t < 1")
    parsed = parser.parse(lab.text)

    def add(first: int, last: int) -> int:
        for n in range(first, last):
            state.init(lab.store, f"{n}.md", parsed, text=lab.text, hash=lab.hash)
        return work(lambda _: state.show(lab.store), "")

    assert add(40, 80) <= 2.2 * add(0, 39)


def test_a_look_that_searches_all_steps_for_each_is_caught(counted, monkeypatch):
    quick = views._Picture.waiting_for

    def searching(self, row, below):
        assert any(step["anchor"] == row["anchor"] for step in self.steps)
        return quick(self, row, below)

    monkeypatch.setattr(views._Picture, "waiting_for", searching)
    assert counted(100, not_at_all) > 2.2 * counted(50, not_at_all)


def test_a_drawer_that_searches_all_items_for_each_step_is_caught(counted, monkeypatch):
    quick = draw_plan.Drawer._checklist

    def searching(self, step, inner):
        every = [item for kinds in self.items.values() for each in kinds.values() for item in each]
        assert any(item["step_anchor"] == step["anchor"] for item in every)
        return quick(self, step, inner)

    monkeypatch.setattr(draw_plan.Drawer, "_checklist", searching)
    assert counted(100, in_full) > 2.2 * counted(50, in_full)


def test_the_contents_of_artifacts_are_shown_only_in_full_and_usage_with_each_attempt(lab):
    lab = lab("1 t")
    lab.claim()
    lab.artifact("step-1", content="the whole text")
    used = {"tokens": 7, "cost_microdollars": 9}
    state.report(lab.store, KEY, "step-1", owner="red", attempt=1, role="coder", **used)
    [step] = lab.show()["steps"]
    assert "content" not in step["artifacts"][0]
    assert (step["attempts"][0]["tokens"], step["attempts"][0]["cost_microdollars"]) == (7, 9)
    for whole in (
        state.show(lab.store, KEY, full=True),
        *state.show(lab.store, full=True)["plans"],
    ):
        assert whole["steps"][0]["artifacts"][0]["content"] == "the whole text"


def test_the_role_at_work_is_shown_until_its_agent_has_answered(lab):
    lab = lab("1 t")
    lab.claim()
    by = {"owner": "red", "attempt": 1}
    attempts.begin_role(lab.store, KEY, "step-1", **by, role="coder")
    [step] = lab.show()["steps"]
    [claim] = state.status(lab.store)["plans"][0]["claims"]
    assert (step["role"], step["role_since"]) == (claim["role"], claim["role_since"])
    assert (step["role"], step["role_since"]) == ("coder", step["attempts"][0]["role_since"])
    state.report(lab.store, KEY, "step-1", **by, role="coder")
    assert lab.show()["steps"][0]["role"] is None
    attempts.begin_role(lab.store, KEY, "step-1", **by, role="reviewer")
    lab.clock.advance(10**6)
    [step] = lab.show()["steps"]
    # Nobody is at work, but the attempt tells who was.
    assert (step["role"], step["attempts"][0]["role"]) == (None, "reviewer")
    assert state.status(lab.store)["plans"][0]["claims"][0]["role"] is None


def standings(lab: Lab) -> dict[str, str]:
    steps = [each for step in lab.show()["steps"] for each in (step, *step["substeps"])]
    return {step["anchor"]: step["standing"] for step in steps}


def test_a_step_has_its_standing_in_one_word(lab):
    lab = lab("1 t", "2 tt < 1", "2.1 t", "2.2 t < 2.1", "3 t")
    before = dict.fromkeys(("step-2", "step-2-1", "step-2-2"), "blocked")
    assert standings(lab) == {"step-1": "ready", **before, "step-3": "ready"}
    lab.claim(step="step-1")
    lab.tick("step-1", "t0", status="deferred")
    lab.complete("step-1")
    lab.claim(step="step-2")
    lab.start("step-2-1")
    assert standings(lab) == {
        "step-1": "deferred",
        "step-2": "at_work",
        "step-2-1": "at_work",
        "step-2-2": "blocked",
        "step-3": "ready",
    }
    lab.close("step-2-1")
    lab.clock.advance(100_000)
    assert standings(lab)["step-2"] == "stale"
    assert standings(lab)["step-2-1"] == "completed"
    lab.claim("blue", step="step-3")
    lab.release("step-3", "blue", park_reason="x")
    assert standings(lab)["step-3"] == "parked"
