"""The counts in `show`, `status`, `ready`, `stats` and `review` are those of items and events.

Random histories over random plans; every so often all of them are drawn, read back as a
person would, and held against what is counted plainly. Planted faults are noticed.
"""

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from conftest import Repo
from state.test_events import HISTORIES, History, plans
from state.test_revise_property import EDITS, Editor, _is_sound, drafts
from support import count_checks as checks
from support import count_pages, plan_drafts
from support.count_truth import Truth
from support.proving import examined, sampled
from support.state import KEY, Desk, Lab
from support.state_walk import OPERATIONS, OWNERS, Walk
from tugtool import state
from tugtool.cli import state_review
from tugtool.cli.draw import plan, status, tables
from tugtool.cli.draw.canvas import local
from tugtool.state import attempts, history, record, reviews, views
from tugtool.store import sql
from tugtool.store.sql import views as sql_views
from tugtool.system import clock
from tugtool.workflow import review as review_of_space

QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


class LongWalk(Walk):
    """A walk in which people have their say as well."""

    def defer(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.tick(anchor, "t0", status="deferred", owner=owner)
        self.alive(anchor)

    def accept(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.accept(anchor)

    def reject(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.reject(anchor)

    def archive(self, anchor: str, owner: str, aux: int) -> None:
        self.lab.archive(undo=aux != 0)

    def ask(self, anchor: str, owner: str, aux: int) -> None:
        """A worker asks a person, and waits for the answer."""
        asked = f'{{"asked_in_attempt": {self.lab.row(anchor)["attempt"]}}}'
        self.lab.artifact(anchor, owner, kind="escalation", summary="so?", content=asked)
        self.numbers[self.home[anchor]]["escalations"] += 1
        if self.home[anchor] in self.running:
            self.alive(anchor)

    def fail(self, anchor: str, owner: str, aux: int) -> None:
        """An attempt fails; most often the step then waits for a person."""
        reason = f"the coder failed: exit status {aux}"
        again = f"{reason} (in a second attempt as well)"
        self.lab.release(anchor, owner, failure=reason, park_reason=again if aux else None)
        self.ended(anchor, "failed")


LONG = (
    *(*OPERATIONS, "defer", "defer", "accept", "reject", "archive", "start", "tick", "tick"),
    *("ask", "ask", "fail", "fail"),
)
WALKS = st.lists(
    st.tuples(st.sampled_from(LONG), st.sampled_from(OWNERS), st.integers(0, 9), st.integers(0, 4)),
    min_size=15,
    max_size=50,
)


def everything_is_counted_right(lab: Lab, account: dict[str, dict] | None = None) -> None:
    truth = Truth(lab, clock.text(lab.clock.now))
    shown, told = lab.show(), state.status(lab.store)
    (numbers,) = state.stats(lab.store, KEY)["plans"]
    checks.show_data(truth, shown)
    checks.status_data(truth, told["plans"][0])
    checks.stats_data(truth, numbers)
    for width in (120, 60):
        for every_item in (False, True):
            text = checks.shown(shown, width, every_item=every_item)
            checks.show_text(truth, text, every_item=every_item)
            checks.show_facts(truth, shown, text)
        checks.status_text(truth, checks.surveyed(told, width))
    for width in (120, 60, 40):
        checks.ready_text(state.ready(lab.store, KEY), width)
        checks.stats_text(truth, checks.tabled(numbers, width), account)
    waiting = lab.review()
    checks.review_data(truth, waiting)
    review_of_space.describe(waiting)
    for each in (*waiting["deferred_items"], *waiting["unproven_items"]):
        each |= {"commit_title": None, "diffstat": None}
    for width in (120, 40):
        count_pages.reviewed(waiting, width)


def with_commands(lines: list[str]) -> list[str]:
    """The plan, with a command as the checkpoint of every other step that has one."""
    return [
        f"{line} | `make check` passes" if "c" in line and place % 2 else line
        for place, line in enumerate(lines)
    ]


def hold(lines: list[str], operations: list[tuple[str, str, int, int]]) -> None:
    """Carry a history out, and look at every fourth moment and at the end."""
    with tempfile.TemporaryDirectory() as directory:
        lab = Lab(Path(directory), *with_commands(lines), max_attempts=3)
        walk = LongWalk(lab)
        for number, operation in enumerate(operations):
            walk.act(*operation)
            if number % 4 == 3:
                everything_is_counted_right(lab, walk.account())
        everything_is_counted_right(lab, walk.account())
        lab.store.close()


#: Rare at random: what each is about, a plan, and what happens to it.
KNOWN = {
    "a deferred item of a substep that names its own step": (
        ["1 t", "1.1 tc < 1", "2 e < 1.1"],
        [("claim", "red", 0, 0), ("tick", "holder", 1, 0), ("defer", "holder", 1, 0)],
    ),
    "a holder whose process is gone, and one on its last attempt": (
        ["1 t"],
        [("claim", "red", 0, 1), *[("claim", "blue", 0, aux) for aux in (0, 3, 3)]],
    ),
    "a parked step": (
        ["1 t", "2 t < 1"],
        [("claim", "red", 0, 0), ("release", "red", 0, 2)],
    ),
    "what a substep that is done has needed is open again": (
        ["1 t", "2 t", "2.1 t < 1"],
        [
            *(("finish", "red", 0, 0), ("claim", "red", 1, 0), ("batch", "red", 2, 0)),
            *(("release", "red", 1, 0), ("reopen", "red", 0, 0)),
        ],
    ),
    "a question, and a checkpoint that nothing proves": (
        ["1 t", "2 tc"],
        [("finish", "red", 1, 0), ("claim", "red", 0, 0), ("ask", "red", 0, 0)],
    ),
    "a checkpoint that nothing proves, and that a person accepts": (
        ["1 t", "2 tc"],
        [("force", "red", 1, 0), ("accept", "red", 1, 0)],
    ),
    "more than three things that wait, two of them for one reason": (
        ["1 t", "2 tc", "3 t", "4 t", "5 t"],
        [
            *(("claim", "red", 0, 2), ("fail", "red", 0, 1), ("claim", "red", 2, 2)),
            *(("wait", "red", 0, 2), ("fail", "red", 2, 1), ("claim", "red", 3, 2)),
            *(("fail", "red", 3, 0), ("claim", "red", 3, 2), ("release", "red", 3, 2)),
            *(("claim", "red", 4, 2), ("ask", "red", 4, 0), ("finish", "blue", 1, 0)),
        ],
    ),
}


@pytest.mark.parametrize("case", KNOWN)
def test_what_is_rare_is_counted_right(case):
    hold(*KNOWN[case])


@examined(short=40)
@given(plans(), WALKS)
def test_whatever_happened_show_status_and_stats_count_right(lines, operations):
    hold(lines, operations)


CHANGES = st.lists(
    st.tuples(HISTORIES.map(lambda operations: operations[:20]), EDITS), min_size=1, max_size=3
)


@examined(short=13)
@given(drafts().filter(_is_sound), CHANGES)
def test_they_count_right_when_the_plan_has_been_revised(parts, changes):
    with tempfile.TemporaryDirectory() as directory:
        lab = Lab(Path(directory), text=plan_drafts.text(parts), max_attempts=3)
        editor = Editor(parts)
        for operations, edits in changes:
            history = History(lab)
            for operation in operations:
                history.act(*operation)
            everything_is_counted_right(lab)
            for edit in edits:
                editor.edit(*edit)
            flags = ("drop_claimed", "drop_completed", "reopen_changed")
            lab.revise(plan_drafts.text(editor.parts), *flags)
            everything_is_counted_right(lab)
        lab.store.close()


def _only(statement: str, which: str) -> str:
    """The statement, reading fewer rows."""
    fewer = f"from (select * from checklist_items {which})"
    return statement.replace("from checklist_items", fewer)


_OF_STEPS = "where step_anchor in (select anchor from steps where parent_anchor is null)"
_FIRST = "where ordinal = 0"


def _kindly(count):
    """Counts what is put off as done."""

    def counted(*facts: object) -> dict:
        found = count(*facts)
        for counts in found.values() if "task" in found else [found]:
            counts["completed"] += counts["deferred"]
            counts["deferred"] = 0
        return found

    return counted


def _one_more(draw):
    def drawn(canvas, plan, *rest) -> None:
        steps = {**plan["steps"], "ready": plan["steps"]["ready"] + 1}
        draw(canvas, {**plan, "steps": steps}, *rest)

    return drawn


def _waiting_of_the_unfinished(self, row: dict, below: list[str]) -> list[str]:
    """Forgets what a substep needs that is done already."""
    members = [each for each in (row["anchor"], *below) if each in self.open]
    needed = {edge["depends_on"] for each in members for edge in self.needs.get(each, [])}
    return sorted((needed - {row["anchor"], *below}) & self.open.keys())


def _never_lost(step: dict) -> str:
    return _STAND({**step, "holder_gone": False, "lease_expired": False})


def _patient(tx, row: dict, lost: str | None) -> dict:
    return _CLAIM(tx, row, None)


def _forgetful(tx, *, done: int = 0, **by: int):
    return _COUNT(tx, **by)


def _one_less(found):
    return lambda *facts: found(*facts)[1:]


def _page_without(wrong: dict, draw=state_review._Page._parked_steps):
    def drawn(self) -> None:
        self.each = {**self.each, **wrong}
        draw(self)

    return drawn


_STAND, _CLAIM, _COUNT, _PROGRESS = plan.stand, views._claim, record.count, plan._progress

_SPENT = views._Picture._spent

FAULTS = {
    "show forgets substeps": (sql, "PLAN_ITEMS", _only(sql.PLAN_ITEMS, _OF_STEPS)),
    "show forgets an item": (sql, "PLAN_ITEMS", _only(sql.PLAN_ITEMS, _FIRST)),
    "show takes deferred for done": (views, "_counts", _kindly(views._counts)),
    "show forgets a substep's needs": (
        *(views._Picture, "waiting_for"),
        _waiting_of_the_unfinished,
    ),
    "the picture takes deferred for done": (
        *(plan, "_progress"),
        lambda kind, counts: _PROGRESS(
            kind, {**counts, "completed": counts["completed"] + counts["deferred"], "deferred": 0}
        ),
    ),
    "the picture takes deferred for nothing": (
        *(plan, "_progress"),
        lambda kind, counts: _PROGRESS(kind, {**counts, "deferred": 0}),
    ),
    "percents are rounded up": (
        *(plan, "percent"),
        lambda done, total: -(-done * 100 // total) if total else 100,
    ),
    "the picture forgets what a step waits for": (
        *(plan.Drawer, "_names"),
        lambda self, anchors: plan.step_number(anchors[-1]),
    ),
    "the picture forgets items": (
        *(plan.Drawer, "_items"),
        lambda self, step, inner, *, at_work: None,
    ),
    "show takes longer than it took": (
        *(views._Picture, "_spent"),
        lambda self: {**_SPENT(self), "elapsed_seconds": 3600.0},
    ),
    "leases never run out for the picture": (plan, "stand", _never_lost),
    "the picture calls parked steps ready": (
        *(plan, "stand"),
        lambda step: _STAND({**step, "parked_at": None}),
    ),
    "status forgets substeps": (
        *(sql_views, "ITEM_COUNTS"),
        _only(sql_views.ITEM_COUNTS, _OF_STEPS),
    ),
    "status takes blocked for all that is pending": (
        *(sql_views, "BLOCKED_COUNTS"),
        sql_views.BLOCKED_COUNTS.replace("and open_deps > 0", ""),
    ),
    "status counts substeps as held": (
        *(sql_views, "EVERY_HELD_STEP"),
        sql_views.EVERY_HELD_STEP.replace("parent_anchor is null and", ""),
    ),
    "status knows no dead holders": (
        *(sql_views, "EVERY_HOLDER"),
        sql_views.EVERY_HOLDER.replace("ended_at is null", "ended_at is not null"),
    ),
    "status trusts every claim": (views, "_claim", _patient),
    "status is one off": (status, "_counts", _one_more(status._counts)),
    "completed steps are not counted": (record, "count", _forgetful),
    "ready leaves out what is parked": (
        *(tables, "_LISTS"),
        {key: word for key, word in tables._LISTS.items() if word != "parked"},
    ),
    "ready names a step less": (
        *(tables, "draw_ready"),
        lambda canvas, data, draw=tables.draw_ready: draw(
            canvas, {**data, "completed_steps": data["completed_steps"][1:]}
        ),
    ),
    "stats forgets substeps": (
        *(sql_views, "ITEM_COUNTS"),
        _only(sql_views.ITEM_COUNTS_BY_STEP, _OF_STEPS),
    ),
    "stats takes deferred for done": (history, "_numbers", _kindly(history._numbers)),
    "stats knows no dead holders": (history, "TAKEN_OVER", ("expired", "superseded")),
    "the table forgets who was put off": (
        *(tables, "_remarks"),
        lambda step: ["forced"] if step["forced"] else [],
    ),
    "the table counts from zero": (
        *(tables, "_row"),
        lambda step, row=tables._row: (*row(step)[:2], str(step["attempts"] - 1), *row(step)[3:]),
    ),
    "review forgets an item": (reviews, "_deferred_rows", _one_less(reviews._deferred_rows)),
    "review takes every checkpoint for proven": (reviews, "_is_unproven", lambda item: False),
    "review takes every question for answered": (attempts, "_asked_in", lambda said: None),
    "review draws a thing less": (state_review, "_waiting", _one_less(state_review._waiting)),
    "review counts from zero": (
        *(state_review, "many"),
        lambda count, *words: f"{count - 1} {words[-1]}",
    ),
    "a page of review leaves out steps with the same cause": (
        *(state_review._Page, "_parked_steps"),
        _page_without({"same_cause": []}),
    ),
    "a page of review counts one attempt": (
        *(state_review._Page, "_parked_steps"),
        _page_without({"attempts": 1}),
    ),
    "a page of review tells the wrong time": (
        *(state_review._Page, "_since"),
        lambda self, at: f"{local(at)} (0s ago)",
    ),
}


@pytest.mark.parametrize("fault", sampled(FAULTS, 6))
def test_a_count_that_is_wrong_is_noticed(monkeypatch, fault):
    home, name, wrong = FAULTS[fault]
    assert getattr(home, name) != wrong
    monkeypatch.setattr(home, name, wrong)
    search = settings(
        max_examples=300,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=QUIET,
    )
    with pytest.raises(AssertionError):
        _rare_then_random(search)


def _rare_then_random(search: settings) -> None:
    for known in KNOWN.values():
        hold(*known)
    search(given(plans(), WALKS)(hold))()


BIG = ("1 tt", "1.1 tec", "1.2 t < 1.1", "2 te < 1", "3 tc", "3.1 t < 1.2", "4 t", "5 ttec < 4 3.1")
ANCHORS = ("step-1", "step-1-1", "step-1-2", "step-2", "step-3", "step-3-1", "step-4", "step-5")
OPTIONS = {
    "claim": ((), ("--lease-duration", "0.001"), ("--force",)),
    "start": ((),),
    "update": (
        *(("--all", "completed"), ("--task", 0, "deferred", "--reason", "later")),
        *(("--task", 0, "completed"), ("--all-tests", "in_progress")),
    ),
    "complete": ((), (), ("--force", "enough")),
    "release": ((), ("--park", "--reason", "why")),
    "reset": ((),),
    "reopen": (("--reason", "reverted"), ("--reason", "reverted", "--force")),
}


def _do(desk, dice: random.Random) -> None:
    """Type some command; that it may be refused is part of it."""
    verb = dice.choice(("claim", "claim", "update", "update", "update", *OPTIONS))
    step, more = dice.choice(ANCHORS), dice.choice(OPTIONS[verb])
    held = [row for row in desk.rows("select * from steps") if row["claimed_by"]]
    if held and verb != "claim" and dice.random() < 0.8:
        row = dice.choice(held)
        done = desk.json(verb, "work", row["anchor"], *more, at=Path(row["claimed_by"]))
    elif verb == "claim":
        named = ("--step", step) if dice.random() < 0.5 else ()
        done = desk.json(verb, "work", *named, *more, at=dice.choice((desk.red, desk.blue)))
    else:
        done = desk.json(verb, "work", step, *more)
    assert done.status != 2, done.out  # not even understood


def _look(desk, tugcode) -> None:
    told = tugcode("-C", desk.red, "status", "--json").data
    truth = Truth(desk, told["as_of"])
    checks.status_data(truth, told["plans"][0])
    checks.show_data(truth, desk.ok("show", "work"))
    checks.stats_data(truth, desk.ok("stats", "work")["plans"][0])
    for width in ("120", "60"):
        desk.setenv("COLUMNS", width)
        checks.status_text(truth, tugcode("-C", desk.red, "status").out)
        checks.stats_text(truth, desk.text("stats", "work").out)
        checks.show_text(truth, desk.text("show", "work").out, every_item=False)
        text = desk.text("show", "work", "--checklist").out
        checks.show_text(truth, text, every_item=True)


@pytest.mark.proof
def test_at_the_command_line_they_count_right_as_well(tmp_path, tugcode, monkeypatch, spell):
    for seed in spell.seeds(least=4):
        repo = Repo.init(tmp_path / str(seed))
        desk, dice = Desk(repo, tugcode, monkeypatch, *BIG), random.Random(seed)
        desk.ok("init", "work")
        for _ in range(5):
            for _ in range(8):
                _do(desk, dice)
            _look(desk, tugcode)
