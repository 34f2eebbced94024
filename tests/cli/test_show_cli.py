"""`state show` at the command line: which plans, which picture, where it goes."""

import json
import os
import subprocess

import pytest

from support.state import KEY
from support.terminals import tugcode as command_line
from tugtool.store import open_store, sql


def archive(desk) -> None:
    store = open_store(desk.url)
    with store.write(KEY) as tx:
        tx.run(sql.SET_STATUS, status="archived")
    store.close()


def test_the_summary_is_the_default_and_the_checklist_has_every_item(desk):
    desk = desk("1 tt", "2 t < 1")
    desk.ok("claim", "work")
    desk.ok("update", "work", "step-1", "--task", 0, "completed", "--task", 1, "in_progress")
    summary = desk.text("show", "work").out
    assert desk.text("show", "work", "--summary").out == summary
    assert "       [ ] task 1 of 1  ← in_progress\n" in summary
    assert "task 0 of 1" not in summary
    assert "task 0 of 2" not in summary
    checklist = desk.text("show", "work", "--checklist").out
    assert "         [x] task 0 of 1\n         [ ] task 1 of 1  ← in_progress\n" in checklist
    assert "         [ ] task 0 of 2\n" in checklist
    assert " · red\n" in checklist


def test_what_is_shown_in_json_does_not_depend_on_the_picture(desk):
    desk = desk("1 t")
    shown = [desk.ok("show", "work", *words) for words in ((), ("--summary",), ("--checklist",))]
    assert {json.dumps({**data, "as_of": ""}) for data in shown} == {
        json.dumps({**shown[0], "as_of": ""})
    }


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("work", "--summary", "--checklist"), "--summary and --checklist exclude each other"),
    ],
)
def test_options_that_contradict_each_other_are_refused(desk, words, problem):
    refused = desk("1 t").json("show", *words)
    assert (refused.status, refused.codes) == (2, ["E070"])
    assert problem in refused.envelope()["issues"][0]["message"]


def test_archived_plans_are_left_out_unless_all_are_wanted(desk):
    desk = desk("1 t")
    desk.repo.plan("more", "### Step 1: More\n")
    desk.ok("init", "more", at=desk.repo.path)
    archive(desk)
    assert [plan["plan_path"] for plan in desk.ok("show")["plans"]] == [".tugtool/tugplan-more.md"]
    assert len(desk.ok("show", "--all")["plans"]) == 2
    everything = desk.text("show", "--all").out
    assert everything.count("0/1 step 0%") == 2
    assert "Work  archived\n" in everything
    assert "Work  archived\n" in desk.text("show", "work").out


def test_where_all_plans_are_archived_it_says_how_to_see_them(desk):
    desk = desk("1 t")
    archive(desk)
    said = "no plan to show; archived ones: tugcode show --all\n"
    assert desk.text("show").out == said
    assert desk.ok("show") == {"plans": []}


def test_the_picture_is_as_wide_as_asked(desk, monkeypatch):
    desk = desk("1 t", "2 t < 1")
    monkeypatch.setenv("COLUMNS", "30")
    lines = desk.text("show", "work").out.splitlines()
    assert max(map(len, lines)) <= 30
    assert "       waits for 1" in lines or "  · 2  Part 2  waits for 1" in lines


def test_an_output_that_cannot_show_bars_gets_ascii(desk):
    desk = desk("1 t")
    done = subprocess.run(
        command_line("state", "show", "work", at=desk.repo.path),
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert b"------------ 0/1 step 0%" in done.stdout
    assert b"\n  o 1  Part 1  ready\n" in done.stdout


def test_before_there_is_a_state_watching_names_the_command_that_begins_a_run(desk, tugcode):
    there = desk("1 t", init=False)
    refused = tugcode("-C", there.red, "show", "work", "--watch")
    assert "next: tugcode implement work" in refused.err
