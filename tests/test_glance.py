"""The picture on a screen of few rows: what matters first, and how much more there is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from picture_scenes import ROOT, SCENES, drift
from tugtool.cli import glance
from tugtool.cli.canvas import Canvas, cells
from tugtool.cli.picture import Look


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    return {name: scene(tmp_path_factory.mktemp(name)) for name, scene in SCENES.items()}


def frame(*plans: dict, rows: int, columns: int = 79, warning=(), **how: str) -> list[str]:
    shown = [(plan, warning) for plan in plans]
    return glance.frame(lambda: Canvas(columns), shown, Look(root=ROOT), rows=rows, **how)


def test_a_plan_that_fits_is_shown_whole_as_show_does(plans):
    lines = frame(plans["at_work"], rows=50)
    assert lines[0] == "Plan: .tugtool/tugplan-work.md [active]"
    assert "  Commit: abc123d" in lines
    assert lines[-2].startswith("Overall: 1/3")


def test_what_is_at_work_comes_right_below_the_head(plans):
    lines = frame(plans["sixty"], rows=24, columns=99)
    assert len(lines) <= 24
    assert lines[2] == "Overall: 30/60 steps complete (50%)  ██████░░░░░░"
    assert lines[5].startswith("→ step-31 - Translate construct number 31 [claimed]")
    assert lines[6].startswith("  Tasks:       1/4")
    assert lines[-1] == "… 57 more steps: 1 ready, 26 blocked, 30 completed"


def test_with_more_rows_come_the_items_then_what_is_next_then_the_rest(plans):
    lines = frame(plans["sixty"], rows=40)
    assert "    [ ] Do part 1 of construct 31" in lines
    ready = lines.index("○ step-34 - Translate construct number 34 [pending]")
    assert lines[ready + 1].startswith("· step-35 - ")
    assert lines[ready - 1] == ""


def test_a_step_that_needs_a_person_stands_above_those_at_work(plans):
    plan = {**plans["sixty"], "steps": [*plans["sixty"]["steps"]]}
    plan["steps"][40] = {**plan["steps"][40], "parked_at": "x", "park_reason": "why"}
    assert frame(plan, rows=20)[5].startswith("‖ step-41 - ")
    plan["steps"][32] = {**plan["steps"][32], "lease_expired": True}
    assert frame(plan, rows=20)[5].startswith("! step-33 - ")


def test_of_what_is_done_the_last_comes_first(plans):
    done = {**plans["sixty"], "steps": plans["sixty"]["steps"][:30]}
    lines = frame(done, rows=12)
    assert lines[4].startswith("✓ step-30 - ")
    assert lines[-1] == "… 23 more steps: 23 completed"


def test_several_plans_share_the_rows(plans):
    lines = frame(plans["sixty"], plans["at_work"], plans["fresh"], rows=60)
    assert len(lines) <= 60
    assert sum(line.startswith("Overall: ") for line in lines) == 3
    assert any(line.startswith("→ step-1 - Add caching layer") for line in lines)
    assert any(line.startswith("○ step-0 - ") for line in lines)


def test_too_many_plans_are_a_line_each_and_the_rest_is_counted(plans):
    lines = frame(*[plans["at_work"]] * 30, rows=10)
    assert lines[0] == "1/3 (33%) .tugtool/tugplan-work.md [active]"
    assert lines[9] == "… 21 more plans"
    assert len(frame(*[plans["at_work"]] * 10, rows=10)) == 10


def test_one_step_more_is_one_step(plans):
    few = {**plans["sixty"], "steps": plans["sixty"]["steps"][:9]}
    assert frame(few, rows=13)[-1] == "… 1 more step: 1 completed"


def test_what_is_wrong_stands_above_the_last_picture(plans):
    lines = frame(plans["at_work"], rows=50, trouble="the database is away.")
    assert lines[0] == "⚠ the database is away; watching on"
    assert lines[1].startswith("Plan: ")
    assert frame(rows=50, nothing="nothing yet") == ["nothing yet"]


@given(rows=st.integers(1, 90), columns=st.integers(2, 90), names=st.data())
@settings(deadline=None)
def test_a_frame_never_has_more_rows_or_columns_than_the_screen(plans, rows, columns, names):
    chosen = names.draw(st.lists(st.sampled_from(sorted(plans)), max_size=4))
    lines = frame(
        *(plans[name] for name in chosen),
        rows=rows,
        columns=columns,
        warning=drift(),
        trouble="x" * 50,
        nothing="none",
    )
    assert len(lines) <= max(rows, 1)
    assert all(cells(line) <= columns for line in lines)
