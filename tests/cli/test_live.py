"""The picture on a screen of few rows: what matters first, and how much more there is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.picture_scenes import ROOT, SCENES, drift
from tugtool.cli.draw import live
from tugtool.cli.draw.canvas import Canvas, cells
from tugtool.cli.draw.plan import View


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    return {name: scene(tmp_path_factory.mktemp(name)) for name, scene in SCENES.items()}


def frame(*plans: dict, rows: int, columns: int = 79, warning=(), **how: str) -> list[str]:
    shown = [(plan, warning) for plan in plans]
    look = View(root=ROOT, live=True)
    return live.draw_frame(lambda: Canvas(columns), shown, look, rows=rows, **how)


def test_a_plan_that_fits_is_shown_whole_as_show_does(plans):
    lines = frame(plans["at_work"], rows=50)
    assert lines[0] == "work  A cache for the API client"
    assert "  ✓ 0  Create API client  abc123d · 0s" in lines
    assert lines[-1] == "  2 deferred items wait for you  tugcode review work"


def test_runs_of_calm_steps_are_folded_until_there_is_room(plans):
    lines = frame(plans["sixty"], rows=40)
    assert lines[3] == "  … 28 completed steps"
    assert lines[6].startswith("  → 31  Translate construct number 31  at work 30m")
    assert "        [ ] Do part 1 of construct 31" in lines
    assert "  · 35  Translate construct number 35  waits for 31" in lines
    assert "  … 24 waiting steps" in lines


def test_with_fewer_rows_what_is_urgent_stays(plans):
    lines = frame(plans["sixty"], rows=10)
    assert len(lines) <= 10
    assert lines[1].startswith("██████░░░░░░ 30/60 steps 50%")
    assert [line[:8] for line in lines[3:8]] == [
        *("  … 30 c", "  → 31  ", "  → 32  ", "  → 33  ", "  ○ 34  "),
    ]


def test_with_fewer_rows_than_urgent_steps_the_rest_is_counted(plans):
    lines = frame(plans["sixty"], rows=5)
    assert len(lines) == 5
    assert lines[-1] == "  … 58 more steps"


def test_a_step_that_needs_a_person_is_never_folded(plans):
    plan = {**plans["sixty"], "steps": [*plans["sixty"]["steps"]]}
    plan["steps"][40] = {**plan["steps"][40], "parked_at": "x", "park_reason": "why"}
    assert any(line.startswith("  ‖ 41  ") for line in frame(plan, rows=20))
    plan["steps"][32] = {**plan["steps"][32], "lease_expired": True}
    assert any(line.startswith("  ! 33  ") for line in frame(plan, rows=20))


def test_of_what_is_done_the_last_is_shown(plans):
    done = {**plans["sixty"], "steps": plans["sixty"]["steps"][:30]}
    lines = frame(done, rows=12)
    assert lines[3:6] == [
        "  … 28 completed steps",
        "  ✓ 29  Translate construct number 29  abc123d · 0s",
        "  ✓ 30  Translate construct number 30  abc123d · 0s",
    ]


def test_several_plans_share_the_rows(plans):
    lines = frame(plans["sixty"], plans["at_work"], plans["fresh"], rows=60)
    assert len(lines) <= 60
    assert sum(" steps " in line and "%" in line for line in lines) == 3
    assert any(line.startswith("  → 1  Add caching layer") for line in lines)
    assert any(line.startswith("  ○ 0  ") for line in lines)


def test_too_many_plans_are_a_line_each_and_the_rest_is_counted(plans):
    lines = frame(*[plans["at_work"]] * 30, rows=10)
    assert lines[0] == "1/3 33%  work"
    assert lines[9] == "… 21 more plans"
    assert len(frame(*[plans["at_work"]] * 10, rows=10)) == 10


def test_what_is_wrong_stands_above_the_last_picture(plans):
    lines = frame(plans["at_work"], rows=50, trouble="the database is away.")
    assert lines[0] == "! the database is away; watching on"
    assert lines[1].startswith("work  ")
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
