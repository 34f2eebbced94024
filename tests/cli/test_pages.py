"""What people read of review, why, log, stats, worktrees, dashes and doctor.

Each picture is held against a file that was looked at (`TUG_PICTURES=write` writes them: read the
difference), against the rules of pictures, and its numbers against the data.
"""

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.picture_rules import WIDTHS, check_page
from support.picture_scenes import BLUE, RED, ROOT
from support.state import KEY, Lab, entry
from tugtool import state
from tugtool.cli import dash, repo, state_review
from tugtool.cli.draw import events, status, tables
from tugtool.cli.draw.canvas import Canvas
from tugtool.workflow import review

PAGES = Path(__file__).with_name("pages")
COMMIT = "1a2b3c4d5e" * 4
PROXY = "the coder failed: exit status 1: curl: (7) could not connect to proxy.example port 3128"
NOW = "2026-02-23T14:20:00.000Z"

Draw = Callable[[Canvas], None]


@pytest.fixture(autouse=True)
def india() -> Iterator[None]:
    """A zone that is not UTC, nor whole hours away from it."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "IST-5:30"
    time.tzset()
    yield
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


def night(lab: Lab) -> None:
    """Step 1 done with an item for a person, 2 and 3 parked by one outage, 4 at work."""
    lab.claim(RED, "step-1")
    for role in ("architect", "coder", "reviewer"):
        state.report(lab.store, KEY, "step-1", owner=RED, attempt=1, role=role, tokens=1200)
    lab.clock.advance(95)
    lab.update("step-1", entry("c1", "deferred", reason="it waits for a person"), owner=RED)
    lab.close("step-1", RED)
    lab.complete("step-1", RED, commit=COMMIT)
    for step in ("step-2", "step-3"):
        lab.clock.advance(40)
        lab.claim(BLUE, step)
        lab.release(step, BLUE, failure=PROXY, park_reason=f"{PROXY} (in a second attempt as well)")
    lab.clock.advance(3600)
    lab.claim(RED, "step-4")
    lab.artifact(
        "step-4",
        RED,
        kind="escalation",
        summary="which of the two separators?",
        content='{"asked_in_attempt": 1}',
    )
    lab.clock.advance(300)


@pytest.fixture
def lab_after(lab) -> Lab:
    made = lab("1 tcc", "1.1 t", "2 t", "3 t", "4 tt", "5 t < 2")
    night(made)
    return made


def reviewed(lab: Lab, *steps: str) -> dict:
    data = lab.review()
    for each in data["deferred_items"]:
        files = [
            ("shelf/model.py", 120, 4),
            ("tests/test_model.py", 48, 0),
            ("cover.png", None, None),
        ]
        each["diffstat"] = {
            "files": [{"path": p, "insertions": a, "deletions": d} for p, a, d in files],
            "insertions": 168,
            "deletions": 4,
        }
        each["commit_title"] = "feat: books and a shelf that holds them"
        each["transcripts"] = ["001-001-coder.txt"]
    review.describe(data)
    for name in review.LISTS:
        data[name] = [e for e in data[name] if not steps or e["step_anchor"] in steps]
    return data


def of_review(*steps: str) -> Callable[[Lab], Draw]:
    def scene(lab: Lab) -> Draw:
        data = reviewed(lab, *steps)
        return lambda canvas: state_review.draw_review(canvas, data, ROOT, alone=bool(steps))

    return scene


def built_on(lab: Lab) -> Draw:
    """An item of a step that two others were built on."""
    data = reviewed(lab, "step-1")
    data["deferred_items"][0]["built_on"] = ["step-4", "step-5"]
    review.describe(data)
    return lambda canvas: state_review.draw_review(canvas, data, ROOT, alone=True)


FAILED = {
    "step_anchor": "step-2",
    "kind": "checkpoint",
    "ordinal": 0,
    "text": "`make check` passes",
    "command": "make check",
    "output_tail": "tests/test_model.py::test_a_book_is_found_by_its_author FAILED\n1 failed\n",
}


def of_why(step: str, *failed: dict) -> Callable[[Lab], Draw]:
    def scene(lab: Lab) -> Draw:
        data = state.why(lab.store, KEY, step, owner=RED)
        data["failed_checkpoints"] += failed
        return lambda canvas: tables.draw_why(canvas, data, ROOT)

    return scene


def of_log(*, every: bool) -> Callable[[Lab], Draw]:
    def scene(lab: Lab) -> Draw:
        told = state.log(lab.store, KEY)["events"]

        def draw(canvas: Canvas) -> None:
            log = events.Log(canvas, root=ROOT, several=False, every=every)
            for event in told:
                log.add(event)
            log.end()

        return draw

    return scene


def of_stats(lab: Lab) -> Draw:
    data = state.stats(lab.store)
    return lambda canvas: tables.draw_stats(canvas, data["plans"])


TREE = {
    "name": "tugplan__cache-1",
    "machine": None,
    "path": RED,
    "plan_path": KEY,
    "branch_name": "tugplan/cache-1",
    "base_branch": "main",
    "ahead": 3,
    "behind": 12,
    "exists": True,
    "clean": False,
    "changed_files": 2,
    "reserved_until": None,
    "held_steps": [
        {
            "plan_path": KEY,
            "step_anchor": "step-4",
            "lease": "live",
            "lease_expires_at": "2026-02-23T15:00:00.000Z",
        },
        {
            "plan_path": KEY,
            "step_anchor": "step-5",
            "lease": "expired",
            "lease_expires_at": "2026-02-23T13:00:00.000Z",
        },
    ],
}
FREE = {"name": "tugplan__cache-2", "held_steps": [], "clean": True, "changed_files": 0}
FREE |= {"reserved_until": "2026-02-23T14:30:00.000Z", "behind": 0}
GONE = {"name": "tugplan__old", "exists": False, "held_steps": [], "plan_path": None, "ahead": None}
TREES = {
    "worktrees": [TREE, {**TREE, **FREE}, {**TREE, **GONE}],
    "branches": [{"branch_name": "tugplan/lost"}],
}
SALVAGE = {
    "name": "work/20260223T120215000Z-step-2-attempt-1",
    "step_anchor": "step-2",
    "plan_path": KEY,
    "attempt": 1,
    "worktree": BLUE,
    "saved_at": "2026-02-23T12:02:15.000Z",
}
DASH = {
    "name": "fix-typo",
    "status": "active",
    "description": "Fix a typo in the README",
    "branch_name": "tugdash/fix-typo",
    "base_branch": "main",
    "rounds": 2,
    "ahead": 2,
    "behind": 0,
    "updated_at": "2026-02-23T13:00:00.000Z",
    "releasing": False,
    "tip": COMMIT,
    "exists": True,
    "on_branch": True,
    "changed_files": 1,
    "worktree_path": f"{ROOT}/.tugtree/tugdash__fix-typo",
    "ended_at": None,
    "joined_commit": None,
    "salvage_ref": None,
    "history": [
        {
            "number": 1,
            "commit_hash": COMMIT,
            "recorded_at": "2026-02-23T12:30:00.000Z",
            "instruction": "correct the name of the author everywhere",
            "summary": "the name is right in four places",
            "files": [{"status": "modified", "path": f"docs/page-{n}.md"} for n in range(10)],
        }
    ],
}
JOINED = {**DASH, "name": "retry", "status": "joined", "joined_commit": COMMIT}
JOINED |= {"ended_at": "2026-02-23T11:00:00.000Z", "description": None}
DASHES = {"dashes": [DASH, JOINED], "unrecorded": ["stray"]}


def found(severity: str, message: str, **more: object) -> dict:
    plain = {
        "severity": severity,
        "message": message,
        "hint": None,
        "fixed": False,
        "outcome": None,
    }
    return {**plain, **more}


def checked(name: str, *findings: dict, reason: str | None = None) -> dict:
    return {"name": name, "reason": reason, "findings": list(findings)}


def doctor(*checks: dict, healthy: bool) -> dict:
    versions = {"sqlite": "3.40.1", "git": "2.43.0"}
    skipped = sum(check["reason"] is not None for check in checks)
    counts = {"skipped": skipped}
    return {"healthy": healthy, "checks": list(checks), "counts": counts, "versions": versions}


PARKED = [
    found("warning", f"step-{n} of {KEY} is parked: {PROXY}", hint="tugcode review work")
    for n in (2, 3)
]
ILL = doctor(
    checked("git"),
    checked("database", found("error", "the database cannot be read", hint="tugcode restore")),
    checked("parked", *PARKED),
    checked("leftovers", found("warning", "a lock was left", fixed=True, outcome="removed it")),
    checked("merging", found("note", f"{KEY} is done, and not merged")),
    checked("dashes", reason="there is no database"),
    healthy=False,
)
NOTED = ILL["checks"][4]["findings"]
WELL = doctor(checked("git"), checked("database"), checked("merging", *NOTED), healthy=True)

SCENES: dict[str, Callable[[Lab], Draw]] = {
    "review-list": of_review(),
    "review-item": of_review("step-1"),
    "review-parked": of_review("step-2"),
    "review-question": of_review("step-4"),
    "review-built-on": built_on,
    "why-failed": of_why("step-2", FAILED),
    "why-parked": of_why("step-2"),
    "why-blocked": of_why("step-5"),
    "why-at-work": of_why("step-4"),
    "log": of_log(every=False),
    "log-all": of_log(every=True),
    "stats": of_stats,
    "worktrees": lambda lab: lambda canvas: status.draw_worktrees(canvas, TREES, NOW),
    "salvages": lambda lab: (
        lambda canvas: status.draw_salvages(canvas, {"salvages": [SALVAGE]}, ROOT)
    ),
    "dashes": lambda lab: lambda canvas: dash.draw_dashes(canvas, DASHES),
    "dash": lambda lab: lambda canvas: dash.draw_dash(canvas, DASH, ROOT),
    "doctor": lambda lab: lambda canvas: repo.draw_doctor(canvas, ILL, ROOT, every=False),
    "doctor-all": lambda lab: lambda canvas: repo.draw_doctor(canvas, ILL, ROOT, every=True),
    "doctor-well": lambda lab: lambda canvas: repo.draw_doctor(canvas, WELL, ROOT, every=False),
}


@pytest.mark.parametrize("colour", [False, True], ids=["plain", "colour"])
@pytest.mark.parametrize("name", SCENES)
def test_a_page_is_the_one_that_was_looked_at_and_keeps_the_rules(lab_after, name, colour):
    check_page(PAGES, name, SCENES[name](lab_after), colour=colour)


def test_there_is_a_file_for_each_page_and_no_other():
    files = {file.stem for file in PAGES.iterdir()}
    assert files == {f"{name}{end}" for name in SCENES for end in ("", "-colour")}


def drawn(draw: Draw, width: int = 120) -> str:
    canvas = Canvas(width)
    draw(canvas)
    return canvas.text()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_numbers_of_the_list_are_those_of_the_data(lab_after, width):
    data = reviewed(lab_after)
    text = " ".join(drawn(of_review()(lab_after), width).split())
    every = sum(len(data[name]) for name in review.LISTS)
    assert text.startswith(f"{every} wait for you: ")
    assert f"{data['parked_count']} parked steps" in text
    assert f"{data['deferred_count']} deferred item" in text


def test_the_numbers_of_the_table_are_those_of_the_data(lab_after):
    (plan,) = state.stats(lab_after.store)["plans"]
    rows = [line.split() for line in drawn(of_stats(lab_after)).splitlines() if " step-" in line]
    shown = {row[0]: row for row in rows}
    for step in plan["steps"]:
        words = shown[step["anchor"]]
        rest = words[3:] if words[1] == "at" else words[2:]
        assert int(rest[0]) == step["attempts"]
        if step["tokens"] is not None:
            assert f"{step['tokens']:,} tokens" in " ".join(words)
    steps = plan["steps_by_status"]
    head = f"{steps['completed']}/{sum(steps.values())} steps"
    assert head in drawn(of_stats(lab_after))


def test_no_page_shows_a_moment_in_utc_or_the_usual_path_of_a_plan(lab_after):
    for name in set(SCENES) - {"doctor-all", "salvages", "review-parked"}:
        text = drawn(SCENES[name](lab_after))
        assert re.search("T[0-9]{2}:[0-9]{2}", text) is None, name
        assert f" of {KEY}" not in text, name
    assert "2026-02-23 17:31:35" in drawn(of_review("step-1")(lab_after))
