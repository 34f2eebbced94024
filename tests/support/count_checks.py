"""What `show`, `status` and `stats` tell, as text and as data, held against the truth."""

from collections import Counter
from collections.abc import Callable

from support.count_reading import Counted, Graph, Lists, Picture, Survey, Table, plan_counts
from support.count_truth import KINDS, Truth, percent
from support.state import KEY
from tugtool.cli.draw import canvas as canvases
from tugtool.cli.draw import plan as draw_plan
from tugtool.cli.draw import status, tables
from tugtool.cli.draw.canvas import Canvas
from tugtool.system import clock
from tugtool.workflow import needs as workflow_needs
from tugtool.workflow import overview


def _filled(counts: dict[str, int]) -> Counter:
    return Counter({name: number for name, number in counts.items() if number})


def show_data(truth: Truth, plan: dict) -> None:
    done = truth.standings()["done"]
    assert (plan["completed_steps"], plan["total_steps"]) == (done, len(truth.tops))
    told = [each for step in plan["steps"] for each in (step, *step["substeps"])]
    assert [step["anchor"] for step in told] == list(truth.rows)
    for step in told:
        assert step["counts"] == truth.by_kind([step["anchor"]])
        assert step["rolled_up"] == truth.by_kind(truth.family(step["anchor"]))
        assert len(step["attempts"]) == truth.tries(step["anchor"])
    items = [(i["step_anchor"], i["kind"], i["status"]) for i in plan["checklist_items"]]
    assert sorted(items) == sorted(truth.items)


def show_text(truth: Truth, text: str, *, every_item: bool) -> None:
    seen = Picture(text)
    standings = truth.standings()
    done, total = standings.pop("done", 0), len(truth.tops)
    assert (seen.done, seen.total, seen.percent) == (done, total, percent(done, total))
    assert (seen.cells["█"] > 0, seen.cells["░"] > 0) == (done > 0, done < total)
    asking = len(truth.asking())
    standings += Counter({"asking you": asking})
    standings -= Counter({"at work": asking})
    assert (seen.stands, seen.deferred) == (standings, truth.of_all("deferred"))
    assert [each for each in seen.steps if each in truth.tops] == truth.tops
    for anchor, counted in seen.steps.items():
        if anchor in truth.tops:
            sign = "asking you" if truth.asks(anchor) else truth.sign(anchor)
            assert counted.sign == sign, anchor
            _waiting(truth, anchor, counted)
        else:
            is_done = truth.rows[anchor]["status"] == "completed"
            assert (counted.sign == "done") == is_done, anchor
        if every_item:
            _checklist(truth, anchor, counted)
        else:
            _summary(truth, anchor, counted)


def _waiting(truth: Truth, anchor: str, counted: Counted) -> None:
    """What a step waits for is named, where that does not take too many words."""
    needed = truth.waits_for(anchor)
    if counted.sign == "waiting" and len(needed) < 5:
        assert counted.waits_for() == needed, anchor


def _checklist(truth: Truth, anchor: str, counted: Counted) -> None:
    for kind, counts in truth.by_kind([anchor]).items():
        boxes = {each: n for (of, each), n in counted.boxes.items() if of == kind}
        assert boxes == _filled(counts), (anchor, kind)
        if boxes:
            told = (counts["completed"], sum(counts.values()), counts["deferred"])
            assert counted.progress[kind] == told, (anchor, kind)


def _summary(truth: Truth, anchor: str, counted: Counted) -> None:
    """What is open where a worker is at it, and what waits for a person."""
    top = truth.home(anchor)
    at_work = truth.standing(top) == "at work"
    if at_work and anchor == top:
        told = {
            kind: (counts["completed"], sum(counts.values()), counts["deferred"])
            for kind, counts in truth.by_kind(truth.family(anchor)).items()
            if sum(counts.values())
        }
        assert counted.progress == told, anchor
    # Substeps have lines of their own only where a worker is at their step.
    counts = truth.by_kind([anchor] if at_work else truth.family(anchor))
    wanted = ("open", "in_progress", "deferred") if at_work else ("deferred",)
    if at_work and anchor != top and counted.sign != "at work":
        wanted = ("deferred",)
    expected = sum(counts[kind][status] for kind in KINDS for status in wanted)
    assert sum(counted.boxes.values()) + counted.more == expected, anchor
    assert {status for _, status in counted.boxes} <= set(wanted), anchor


def show_facts(truth: Truth, plan: dict, text: str) -> None:
    """What the header and the footer say besides is what the data say."""
    elapsed, facts = truth.elapsed(), Picture(text).facts
    assert plan["elapsed_seconds"] == elapsed
    assert elapsed is None or facts.split(" · ")[0].strip() == clock.duration(elapsed)
    assert f"As of {canvases.local(plan['as_of'])}\n" in text


def status_data(truth: Truth, plan: dict) -> None:
    standings = truth.standings()
    assert plan["steps"] == {
        "total": len(truth.tops),
        "completed": standings["done"],
        "held": len(truth.held()),
        "blocked": standings["waiting"],
        **{word: standings[word] for word in ("ready", "parked")},
    }
    assert plan["items"] == {
        "total": len(truth.items),
        **{name: truth.of_all(name) for name in ("completed", "deferred")},
    }
    assert [claim["anchor"] for claim in plan["claims"]] == truth.held()
    stale = [claim["anchor"] for claim in plan["claims"] if claim["stale"]]
    assert stale == truth.stale()
    parked = [step["anchor"] for step in plan["parked"]]
    assert parked == [top for top in truth.tops if truth.standing(top) == "parked"]


def status_text(truth: Truth, text: str) -> None:
    seen, standings = Survey(text), truth.standings()
    done, total = standings["done"], len(truth.tops)
    # A stale step that is parked as well is counted once.
    lost = sum(truth.standing(top) != "parked" for top in truth.stale())
    assert (seen.plans, seen.at_work, seen.stale) == (1, standings["at work"], lost)
    assert (seen.done, seen.total, seen.percent) == (done, total, percent(done, total))
    asking = len(truth.asking())
    rows = {"at work": standings["at work"] - asking, "asking you": asking}
    rows |= {"stale": lost, "parked": standings["parked"]}
    assert seen.rows == _filled(rows)
    named = {word: standings[word] for word in ("ready", "waiting")}
    deferred = truth.of_all("deferred")
    assert (seen.stands, seen.deferred) == (_filled(named), deferred)
    waiting = {"deferred": deferred, "parked": standings["parked"], "question": asking}
    # What was put away needs nobody.
    assert seen.waiting == _filled({} if truth.archived else waiting)


def review_data(truth: Truth, data: dict) -> None:
    """What waits for a person is what the rows say, also of an archived plan that is named."""
    parked = [top for top in truth.tops if truth.standing(top) == "parked"]
    assert [step["step_anchor"] for step in data["parked_steps"]] == parked
    assert [each["step_anchor"] for each in data["questions"]] == truth.asking()
    assert (data["deferred_count"], data["unproven_count"], data["parked_count"]) == (
        truth.of_all("deferred"),
        truth.unproven(),
        len(parked),
    )
    for step in data["parked_steps"]:
        assert step["attempts"] == truth.rows[step["step_anchor"]]["attempt"]


def stats_data(truth: Truth, plan: dict) -> None:
    assert _filled(plan["steps_by_status"]) == truth.statuses()
    assert plan["items"] == truth.by_kind(list(truth.rows))
    assert plan["attempts"] == len(truth.attempts)
    assert _filled(plan["attempts_by_outcome"]) == truth.outcomes()
    assert plan["deferred"] == truth.of_all("deferred")
    for step in plan["steps"]:
        whole = truth.by_kind(truth.family(step["anchor"]))
        assert step["status"] == truth.rows[step["anchor"]]["status"]
        assert step["parked"] == (truth.standing(step["anchor"]) == "parked")
        assert step["deferred"] == sum(counts["deferred"] for counts in whole.values())
        # What is a substep since a revision may have been tried as a step before.
        assert step["attempts"] == truth.tries(*truth.family(step["anchor"]))


def stats_text(truth: Truth, text: str, account: dict[str, dict] | None = None) -> None:
    """`account`: step -> what was seen to happen to it, where somebody kept one."""
    seen = Table(text)
    assert (seen.steps_done, seen.steps) == (truth.standings()["done"], len(truth.tops))
    assert (seen.items_done, seen.items) == (truth.of_all("completed"), len(truth.items))
    assert (seen.deferred, seen.outcomes) == (truth.of_all("deferred"), truth.outcomes())
    assert list(seen.rows) == truth.tops
    for top, (word, tries, facts) in seen.rows.items():
        family = truth.family(top)
        status = truth.rows[top]["status"]
        called = "at work" if status in ("claimed", "in_progress") else status
        called = "parked" if truth.standing(top) == "parked" else called
        assert (word, tries) == (called, truth.tries(*family)), top
        whole = truth.by_kind(family).values()
        assert facts.get("deferred", 0) == sum(counts["deferred"] for counts in whole), top
        if account is not None:
            assert tries == account[top]["attempts"], top
            names = ("forced", "deferred", "reclaims", "recoveries", "escalations")
            assert facts == _filled({name: int(account[top][name]) for name in names}), top


#: The lists of `state ready`, and what people call the steps in them.
READY = {
    "ready_steps": "ready",
    "claimed_steps": "at work",
    "expired_claims": "stale",
    "parked_steps": "parked",
    "blocked_steps": "waiting",
    "completed_steps": "completed",
}


def ready_text(data: dict, width: int) -> None:
    """The lists of `state ready`, as text and as data."""
    seen = Lists(_drawn(width, tables.draw_ready, data))
    assert seen.all == len(data["all_steps"])
    for key, word in READY.items():
        assert seen.steps(word) == (len(data[key]), data[key]), key


def graph_text(data: dict, width: int) -> None:
    """What `plan graph` tells, as text and as data."""
    seen = Graph(_drawn(width, tables.draw_graph, data))
    assert (seen.steps, seen.waves) == (len(data["steps"]), len(data["waves"]))
    widest = data["widest_wave"]
    assert seen.widest == ((widest["wave"], widest["steps"]) if widest["steps"] > 1 else None)
    assert seen.path == data["critical_path"]
    waves = {anchor: number for number, wave in enumerate(data["waves"], 1) for anchor in wave}
    assert {anchor: node[0] for anchor, node in seen.nodes.items()} == waves
    for step in data["steps"]:
        anchor = step["anchor"]
        assert seen.nodes[anchor][1] == (anchor in data["critical_path"]), anchor
        assert (seen.needs(anchor), seen.substeps(anchor)) == (step["needs"], step["substeps"])


def list_text(data: dict, width: int) -> None:
    """What `list` counts, as text and as data."""
    text = _drawn(width, tables.draw_plans, data)
    for row in data["plans"]:
        counts = row["counts"]
        items = counts and sum(counts[kind] for kind in KINDS)
        assert plan_counts(text, row["slug"]) == (counts and (counts["steps"], items)), row


def _drawn(width: int, draw: Callable[..., None], *facts: object) -> str:
    canvas = Canvas(width)
    draw(canvas, *facts)
    return canvas.text()


def shown(plan: dict, width: int, *, every_item: bool) -> str:
    canvas = Canvas(width)
    draw_plan.draw(canvas, plan, draw_plan.View(every_item=every_item))
    return canvas.text()


def surveyed(told: dict, width: int) -> str:
    """The text of `tugcode status` about what is recorded, in a repository of that alone."""
    there = {**overview._names(KEY), "recorded": True, "file": "present", "renamed_to": None}
    plans = [{**there, **plan} for plan in told["plans"]]
    needs = [need for plan in plans for need in workflow_needs.recorded(plan)]
    place = {
        "root": "/the/repo",
        "worktrees": [],
        "archived": 0,
        "needs_you": needs,
        "server": None,
    }
    place["dashes"] = told["dashes"]
    canvas = Canvas(width)
    status.draw(canvas, {**place, "as_of": told["as_of"], "plans": plans})
    return canvas.text()


def tabled(plan: dict, width: int) -> str:
    return tables.table([plan], width)
