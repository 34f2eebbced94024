"""What `show`, `status` and `stats` tell, as text and as data, held against the truth."""

from collections import Counter

from count_reading import Picture, Survey, Table
from count_truth import KINDS, Truth, percent
from state_fixtures import KEY
from tugtool.cli import figures, picture, status, survey
from tugtool.cli.canvas import Canvas


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
    assert (seen.stands, seen.deferred) == (standings, truth.of_all("deferred"))
    assert seen.statuses == {anchor: row["status"] for anchor, row in truth.rows.items()}
    for anchor, mark in seen.marks.items():
        if anchor in truth.tops:
            stands = truth.standing(anchor)
            assert mark == ("lost" if stands in ("expired", "abandoned") else stands), anchor
        else:
            assert (mark == "done") == (truth.rows[anchor]["status"] == "completed"), anchor
        _bars(truth, anchor, seen.bars[anchor], every_item=every_item)


def _bars(truth: Truth, anchor: str, bars: dict, *, every_item: bool) -> None:
    whole, own = truth.by_kind(truth.family(anchor)), truth.by_kind([anchor])
    assert set(bars) == {kind for kind in KINDS if sum(whole[kind].values())}
    for kind, bar in bars.items():
        counts = whole[kind]
        done, total, put_off = counts["completed"], sum(counts.values()), counts["deferred"]
        assert (bar.done, bar.total, bar.deferred) == (done, total, put_off), (anchor, kind)
        assert bar.percent == percent(done, total), (anchor, kind)
        if bar.cells:
            assert (bar.cells["█"] > 0, bar.cells["░"] + bar.cells["▒"] > 0) == (
                *(done > 0, done < total),
            )
        assert bar.boxes == _listed(truth, anchor, own[kind], every_item=every_item)


def _listed(truth: Truth, anchor: str, own: dict, *, every_item: bool) -> Counter:
    """The items that stand below a bar: all, or what is unfinished where somebody works."""
    row = truth.rows[anchor]
    if every_item:
        return _filled(own)
    working = row["claimed_by"] is not None and row["status"] != "completed"
    return _filled({**own, "completed": 0}) if working else Counter()


def status_data(truth: Truth, plan: dict) -> None:
    standings = truth.standings()
    assert plan["steps"] == {
        "total": len(truth.tops),
        "completed": standings["done"],
        "held": len(truth.held()),
        **{word: standings[word] for word in ("ready", "blocked", "parked")},
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
    stale, done, total = len(truth.stale()), standings["done"], len(truth.tops)
    assert (seen.plans, seen.at_work, seen.stale) == (1, standings["at work"], stale)
    assert (seen.done, seen.total, seen.percent) == (done, total, percent(done, total))
    # One that is parked as well is told of once.
    lost = sum(truth.standing(top) != "parked" for top in truth.stale())
    rows = {"at work": standings["at work"], "lost": lost, "parked": standings["parked"]}
    assert seen.rows == _filled(rows)
    named = {word: standings[word] for word in ("ready", "blocked")}
    deferred = truth.of_all("deferred")
    assert (seen.stands, seen.deferred) == (_filled(named), deferred)
    waiting = {"deferred": deferred, "parked": standings["parked"]}
    # What was put away needs nobody.
    assert seen.waiting == _filled({} if truth.archived else waiting)


def stats_data(truth: Truth, plan: dict) -> None:
    assert _filled(plan["steps_by_status"]) == truth.statuses()
    assert plan["items"] == truth.by_kind(list(truth.rows))
    assert plan["attempts"] == len(truth.attempts)
    assert _filled(plan["attempts_by_outcome"]) == truth.outcomes()
    assert plan["deferred"] == truth.of_all("deferred")
    for step in plan["steps"]:
        whole = truth.by_kind(truth.family(step["anchor"]))
        assert step["status"] == truth.rows[step["anchor"]]["status"]
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
        assert (word, tries) == (truth.rows[top]["status"], truth.tries(*family)), top
        whole = truth.by_kind(family).values()
        assert facts.get("deferred", 0) == sum(counts["deferred"] for counts in whole), top
        if account is not None:
            assert tries == account[top]["attempts"], top
            names = ("forced", "deferred", "reclaims", "recoveries", "escalations")
            assert facts == _filled({name: int(account[top][name]) for name in names}), top


def shown(plan: dict, width: int, *, every_item: bool) -> str:
    canvas = Canvas(width)
    picture.draw(canvas, plan, picture.Look(every_item=every_item))
    return canvas.text()


def surveyed(told: dict, width: int) -> str:
    """The text of `tugcode status` about what is recorded, in a repository of that alone."""
    there = {**status._names(KEY), "recorded": True, "file": "present"}
    plans = [{**there, **plan} for plan in told["plans"]]
    needs = [need for plan in plans for need in status._needs(plan)]
    place = {"root": "/the/repo", "worktrees": [], "archived": 0, "needs_you": needs}
    place["dashes"] = told["dashes"]
    canvas = Canvas(width)
    survey.draw(canvas, {**place, "as_of": told["as_of"], "plans": plans})
    return canvas.text()


def tabled(plan: dict, width: int) -> str:
    return figures.table([plan], width)
