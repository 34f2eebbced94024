"""The picture of a plan, held against files that people have looked at.

`TUG_PICTURES=write make test` writes tests/pictures/ anew; look at the difference before
committing it. In files with colours an escape is written as `^[`, so that they can be read.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.picture_rules import WIDTHS, check
from support.picture_scenes import AGREED, FOUND, ROOT, SCENES, drift
from tugtool.cli import state_show
from tugtool.cli.draw import plan as draw_plan
from tugtool.cli.draw.canvas import Canvas, local, percent, step_number
from tugtool.cli.draw.plan import View
from tugtool.cli.output import UNBOUNDED
from tugtool.errors import plan_name
from tugtool.workflow.overview import Snapshot

PICTURES = Path(__file__).parent / "pictures"

#: How each picture is drawn besides: its file's name ends so.
LOOKS: dict[str, dict] = {
    "": {},
    "-colour": {"colour": True},
    "-ascii": {"encoding": "ascii"},
    "-checklist": {"every_item": True},
    "-drift": {"warning": drift()},
}
#: file -> scene, width, and how it is drawn
VIEWS: dict[str, tuple[str, int, dict]] = {
    f"{scene}-{width}{look}": (scene, width, LOOKS[look])
    for scenes, widths, looks in (
        (SCENES, WIDTHS, ("", "-colour")),
        (("at_work", "wide", "sixty"), (80, 40), ("-ascii",)),
        (("at_work", "forced", "noted", "wide"), WIDTHS, ("-checklist",)),
        (("at_work",), (80, 40), ("-drift",)),
        (("at_work", "sixty"), (UNBOUNDED,), ("",)),
    )
    for scene in scenes
    for width in widths
    for look in looks
}
VIEWS["fresh-80-gone"] = ("fresh", 80, {"warning": drift(None)})


def painter(plan: dict, *, every_item: bool = False, warning=()) -> Callable[[Canvas], None]:
    look = View(root=ROOT, every_item=every_item)

    def paint(canvas: Canvas) -> None:
        fold = draw_plan.folded(canvas, plan, look)
        draw_plan.draw(canvas, plan, look, warning, fold)

    return paint


def drawn(plan: dict, width: int, **how: object) -> str:
    kinds = {name: how.pop(name) for name in ("every_item", "warning") if name in how}
    canvas = Canvas(width, **how)
    painter(plan, **kinds)(canvas)
    return canvas.text()


@pytest.fixture
def scene(tmp_path_factory):
    return lambda name: SCENES[name](tmp_path_factory.mktemp("scene"))


def kept(name: str, text: str) -> str:
    """What the file has; written first if that is wanted."""
    file = PICTURES / f"{name}.txt"
    text = text.replace("\x1b", "^[")
    if os.environ.get("TUG_PICTURES") == "write":
        file.write_text(text)
    return file.read_text().replace("^[", "\x1b")


@pytest.mark.parametrize("name", VIEWS)
def test_a_picture_is_the_one_that_was_looked_at_and_keeps_the_rules(scene, name):
    which, width, how = VIEWS[name]
    kinds = {key: value for key, value in how.items() if key in ("every_item", "warning")}
    modes = {key: value for key, value in how.items() if key not in kinds}
    text = check(painter(scene(which), **kinds), width, **modes)
    assert text == kept(name, text)
    if "encoding" in how:
        assert text.isascii()


def test_every_picture_is_of_a_view_and_a_changed_one_is_noticed(scene, monkeypatch):
    monkeypatch.delenv("TUG_PICTURES", raising=False)
    mine = {file.stem for file in PICTURES.iterdir() if not file.stem.startswith("status-")}
    assert mine == set(VIEWS)
    plan = scene("at_work")
    plan["steps"][0]["title"] = "Create API klient"
    assert drawn(plan, 80) != kept("at_work-80", "")


def test_a_step_is_one_line_and_what_is_open_stands_below_it(scene):
    text = drawn(scene("at_work"), 80)
    for fact in (
        "work  A cache for the API client\n",
        "████░░░░░░░░ 1/3 steps 33%  15m · 1 at work · 1 waiting · 2 items deferred\n",
        "  ✓ 0  Create API client  abc123d · 0s\n",
        "  → 1  Add caching layer  at work 15m · tugplan__cache-1\n",
        "       3/7 tasks · 1/3 tests · 0/2 checkpoints +2 deferred · lease 1h 45m\n",
        "       [ ] Add cache invalidation  ← in_progress\n",
        "       ✓ 1.1  Cache store implementation\n",
        "       → 1.2  Cache invalidation\n",
        "  · 2  Add monitoring     waits for 1\n",
        "Needs you\n  2 deferred items wait for you  tugcode review work\n",
    ):
        assert fact in text, fact
    assert "[x]" not in text  # the summary lists what is unfinished


def test_a_plan_of_sixty_steps_with_three_at_work_fits_on_fifty_lines(scene):
    plan = scene("sixty")
    for width in WIDTHS:
        text = drawn(plan, width)
        assert text.count("\n") <= 50
        assert text.count("  → 3") == 3
    assert "  … 28 completed steps (--all shows them)\n" in drawn(plan, 80)
    assert "  … 24 waiting steps\n" in drawn(plan, 80)


def test_what_a_run_is_at_is_its_role_for_how_long_and_where(scene):
    text = drawn(scene("running"), 80)
    assert "  → 1  Add caching layer  coder 42s · tugplan__cache-1\n" in text
    assert "1,234,567 tokens · $1.50 · 1 at work" in text
    assert "lease" not in text


def test_a_question_waits_for_you_with_its_text_once(scene):
    text = drawn(scene("asked"), 80)
    assert "  ? 1  Add caching layer  a question waits for you · tugplan__cache-1\n" in text
    assert "       Which server?\n" in text
    assert (
        "  1 question waits for you\n  2 deferred items wait for you  tugcode review work" in text
    )
    assert text.count("Which server?") == 1


def test_why_the_last_run_stopped_is_said_when_nobody_is_at_work(scene):
    text = drawn(scene("stopped"), 80)
    assert "The last run stopped at 2026-02-23 12:15:00: the budget of 9 tokens is used up" in text
    assert text.endswith("Next: tugcode implement work\nAs of 2026-02-23 12:15:00\n")


def test_a_done_plan_names_merge_as_the_next_command(scene):
    assert "Next: tugcode merge work\n" in drawn(scene("done"), 80)
    merged = {**scene("done"), "merged_commit": "abc"}
    assert "Next: " not in drawn(merged, 80)


def test_the_checklist_has_every_item_and_the_notes_of_completed_steps(scene):
    text = drawn(scene("noted"), 80, every_item=True)
    assert "note, 2026-02-23 12:00:00: the staging key is in the vault\n" in text
    assert "         [x] Write the client\n" in text


def test_deferred_items_count_apart_and_carry_their_reason(scene):
    text = drawn(scene("at_work"), 120, every_item=True)
    assert "       0/2 checkpoints +2 deferred\n         [~] `make test` passes\n" in text
    reason = "(needs eyes on the log of the staging server)\n"
    assert f"[~] Look at the log: one request, not two  {reason}" in text


def test_a_forced_completion_carries_its_reason_for_ever(scene):
    text = drawn(scene("forced"), 120)
    assert "  ~ 1  " in text
    assert "2 items deferred · forced: reviewer approved with minor caveats\n" in text


def test_a_stale_step_says_why(scene):
    assert "  stale: its lease ended 5m ago · tugplan__cache-1\n" in drawn(scene("expired"), 80)
    assert "  stale: its process 4242 is gone · tugplan__" in drawn(scene("gone"), 80)


def test_what_is_parked_and_paused_says_so_and_its_reason_once(scene):
    text = drawn(scene("parked"), 120)
    assert text.startswith("work  A cache for the API client  paused\n")
    assert "  ‖ 1  Add caching layer  waits for you\n       the staging server is down" in text
    assert text.count("staging server") == 1
    assert "  paused, nothing new is begun  tugcode resume work\n" in text


def test_a_holder_on_its_last_attempt_is_at_work_until_it_is_lost(scene):
    plan = scene("at_work")
    step = plan["steps"][1]
    step["parked_at"], step["park_reason"] = plan["as_of"], "5 claims without progress"
    assert "at work 15m · tugplan__cache-1 · last attempt\n" in drawn(plan, 120)
    step["lease_expired"] = True
    assert "‖ 1  " in drawn(plan, 120)


def test_the_reader_of_a_file_gets_every_name_and_whole_lines(scene):
    plan = scene("sixty")
    blockers = ", ".join(f"{n}" for n in range(31, 60))
    assert f"waits for {blockers}\n" in drawn(plan, UNBOUNDED)
    last = {**plan, "steps": plan["steps"][-20:]}
    assert "waits for 31, 32, 33, 34 and 25 more\n" in drawn(last, 120)


def test_drift_is_said_in_the_documents_words_with_short_hashes(scene):
    text = drawn(scene("fresh"), 80, warning=drift())
    assert (
        "! Plan file has been modified since state was initialized.\n"
        f"  State tracks execution of the original plan (hash: {AGREED[:12]}...).\n"
        f"  Current file hash: {FOUND[:12]}...\n"
    ) in text
    plan = {"plan_path": "x", "plan_hash": AGREED}
    assert state_show.warning(Snapshot({"plans": [plan]}, {}), plan) == []


@pytest.mark.parametrize(
    ("worktree", "name"),
    [
        (ROOT, "the main worktree"),
        (f"{ROOT}/.tugtree/red", "red"),
        (f"{ROOT}/deep/red", "deep/red"),
        ("/home/ann/red", "../red"),
        ("/srv/red", "/srv/red"),
    ],
)
def test_a_holder_is_named_as_shortly_as_can_be(scene, worktree, name):
    plan = scene("at_work")
    plan["steps"][1]["claimed_by"] = worktree
    assert f"at work 15m · {name}\n" in drawn(plan, 80)


def test_a_later_attempt_is_counted(scene):
    text = drawn(scene("taken_over"), 80)
    assert "at work 18s · tugplan__cache-2 · attempt 2\n" in text
    assert " · lease 42s\n" in text


def test_a_bar_is_full_only_when_all_is_done_and_never_empty_when_something_is():
    def bar(done: int, total: int) -> str:
        return "".join(text for _, text in Canvas(80).bar(done, total, 12))

    assert bar(999, 1000) == "█" * 11 + "░"
    assert bar(1, 1000) == "█" + "░" * 11
    assert bar(0, 0) == "░" * 12
    assert (percent(999, 1000), percent(0, 0)) == (99, 100)


def test_a_plan_is_called_by_its_slug_where_that_names_it():
    assert plan_name(".tugtool/tugplan-parser.md") == "parser"
    for slug in ("", "-x", "tugplan-x", "x.md", "deep/x"):
        key = f".tugtool/tugplan-{slug}.md"
        assert plan_name(key) == key
    for key in ("docs/tugplan-parser.md", "parser.md", ".tugtool/parser.md"):
        assert plan_name(key) == key
    assert [step_number(each) for each in ("step-3", "step-3-1", "step-x", "login")] == [
        *("3", "3.1", "step-x", "login"),
    ]


def test_times_are_local(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    assert local("2026-02-23T20:00:00.900Z") == "2026-02-24 05:00:00"
    assert local("2026-02-23T20:00:00.900Z", day=False) == "05:00:00"
    monkeypatch.undo()
    time.tzset()


def test_hostile_text_acts_on_nothing(scene):
    plan = scene("at_work")
    for step in plan["steps"]:
        step["title"] = "a\x1b[31m\nb\u202ec\x00" + "x" * 5000
    plan["plan_path"] = "\x1b]0;owned\x07plan"
    for item in plan["checklist_items"]:
        item["text"] = item["reason"] = "\x9b2J" + "\u200b" * 9000
    for width in (40, 100_000):
        for every_item in (False, True):
            text = drawn(plan, width, every_item=every_item)
            assert all(line.isprintable() for line in text.split("\n"))
