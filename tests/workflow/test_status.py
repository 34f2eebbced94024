"""`tugcode status`: what is going on here, and what needs a person."""

import os
import subprocess

from support.state import KEY, markdown
from tugtool import state
from tugtool.state import attempts
from tugtool.store import open_store
from tugtool.system import process


def test_a_repository_without_plans_says_how_to_begin(repo, tugcode):
    shown = tugcode("-C", repo.path, "status")
    assert (shown.status, shown.err) == (0, "")
    assert "Next: tugcode plan new SLUG\n" in shown.out
    data = tugcode("-C", repo.path, "status", "--json").data
    assert (data["plans"], data["as_of"], data["needs_you"]) == ([], None, [])


def test_a_plan_that_nobody_has_begun_is_judged_by_its_boxes(repo, tugcode):
    text = markdown("1 tt", "1.1 t", "2 e", "3").replace("[ ] task 0", "[x] task 0")
    repo.plan("work", text.replace("[ ] test", "[x] test"))
    (plan,) = tugcode("-C", repo.path, "status", "--json").data["plans"]
    assert (plan["recorded"], plan["status"], plan["file"]) == (False, None, "present")
    assert plan["steps"] | {"total": 3, "completed": 1} == plan["steps"]
    assert plan["items"] == {"total": 4, "completed": 3, "deferred": 0}
    shown = tugcode("-C", repo.path, "status").out
    assert "3/4 boxes 75%    not begun" in shown
    assert "Nothing needs you." in shown


def test_a_plan_that_cannot_be_read_is_said_to_be_so(repo, tugcode):
    repo.write({".tugtool/tugplan-work.md": b"\xff\xfe"})
    shown = tugcode("-C", repo.path, "status").out
    assert "no steps         unreadable" in shown


def test_claims_worktrees_and_what_waits_for_a_person_are_told(desk, tugcode):
    desk = desk("1 tc", "2 t", "3 t < 2", "4 t")
    desk.ok("claim", "work", "--step", "step-1")
    desk.ok("update", "work", "step-1", "--checkpoint", 0, "deferred", "--reason", "eyes")
    desk.ok("claim", "work", "--step", "step-2", "--lease-duration", "0.001", at=desk.blue)
    desk.ok("claim", "work", "--step", "step-4", "--worktree", "/nowhere/green")
    green = ("--worktree", "/nowhere/green")
    desk.ok("release", "work", "step-4", *green, "--park", "--reason", "why")
    desk.ok("pause", "work")
    done = tugcode("-C", desk.blue, "status", "--json")
    (plan,) = done.data["plans"]
    assert plan["steps"] == {
        "total": 4,
        "completed": 0,
        "held": 2,
        "ready": 0,
        "blocked": 1,
        "parked": 1,
    }
    assert [(claim["anchor"], claim["stale"]) for claim in plan["claims"]] == [
        ("step-1", None),
        ("step-2", "expired"),
    ]
    assert [step["park_reason"] for step in plan["parked"]] == ["why"]
    trees = {tree["branch"]: tree for tree in done.data["worktrees"]}
    assert [held["anchor"] for held in trees["red"]["holds"]] == ["step-1"]
    assert (trees["main"]["main"], trees["red"]["main"]) == (True, False)
    assert [(need["what"], need["count"]) for need in done.data["needs_you"]] == [
        ("deferred", 1),
        ("parked", 1),
        ("paused", 1),
    ]


def test_the_picture_names_each_and_the_command_to_look_at_it(desk, tugcode):
    desk = desk("1 tc", "2 t", "3 t < 2")
    desk.ok("claim", "work", "--step", "step-1")
    desk.ok("update", "work", "step-1", "--checkpoint", 0, "deferred", "--reason", "eyes")
    desk.ok("claim", "work", "--step", "step-2", "--lease-duration", "0.001", at=desk.blue)
    shown = tugcode("-C", desk.red, "status").out
    assert "repo  1 plan · 1 at work · 1 stale · 1 for you\n" in shown
    assert "  → 1  Part 1  at work 0s, red\n" in shown
    assert "  ! 2  Part 2  stale: its lease ended 0s ago, blue\n" in shown
    assert "  1 waiting · 1 item deferred\n" in shown
    assert "  work: 1 deferred item waits for you  tugcode review work\n" in shown


def test_on_its_last_attempt_a_step_is_at_work_until_that_has_come_to_nothing(lab):
    lab = lab("1 t", max_attempts=1)
    lab.claim(lease_seconds=60)
    (plan,) = state.status(lab.store)["plans"]
    assert (plan["steps"]["held"], plan["steps"]["parked"], plan["parked"]) == (1, 0, [])
    lab.clock.advance(61)
    (plan,) = state.status(lab.store)["plans"]
    assert [claim["stale"] for claim in plan["claims"]] == ["expired"]
    assert [step["anchor"] for step in plan["parked"]] == ["step-1"]


def test_a_changed_and_a_lost_plan_file_need_a_person(desk, tugcode):
    desk = desk("1 t")
    for spoil, what in ((_append, "file_changed"), (os.unlink, "file_gone")):
        spoil(desk.plan)
        for tree in (desk.red, desk.blue):
            (tree / ".tugtool" / "tugplan-work.md").unlink(missing_ok=True)
        data = tugcode("-C", desk.repo.path, "status", "--json").data
        assert [need["what"] for need in data["needs_you"]] == [what]
        assert data["needs_you"][0]["command"] == "tugcode diff work"


def _append(path) -> None:
    path.write_text(path.read_text() + "\nmore\n")


def test_a_worktree_that_is_gone_and_a_holder_that_is_none_are_told_apart(desk, tugcode):
    import shutil

    desk = desk("1 t", "2 t")
    desk.ok("claim", "work")
    desk.ok("claim", "work", "--worktree", "/nowhere/green")
    shutil.rmtree(desk.red)
    data = tugcode("-C", desk.repo.path, "status", "--json").data
    trees = {os.path.basename(tree["path"]): tree for tree in data["worktrees"]}
    assert (trees["red"]["registered"], trees["red"]["exists"]) == (True, False)
    assert (trees["green"]["registered"], trees["green"]["exists"]) == (False, False)
    shown = tugcode("-C", desk.repo.path, "status").out
    assert "Worktrees that are not there\n  red  red, holds 1\n" in shown
    assert "  → 2  Part 2  at work 0s, /nowhere/green\n" in shown


def test_archived_plans_are_counted_and_shown_only_if_asked_for(desk, tugcode):
    desk = desk("1 t")
    desk.ok("archive", "work")
    data = tugcode("-C", desk.red, "status", "--json").data
    assert (data["plans"], data["archived"]) == ([], 1)
    data = tugcode("-C", desk.red, "status", "--all", "--json").data
    assert [plan["status"] for plan in data["plans"]] == ["archived"]


def test_a_plan_elsewhere_is_named_by_its_path(repo, tugcode):
    repo.write({"docs/plan one.md": markdown("1 t")})
    tugcode("-C", repo.path, "state", "init", "docs/plan one.md")
    tugcode("-C", repo.path, "state", "pause", "docs/plan one.md")
    data = tugcode("-C", repo.path, "status", "--json").data
    assert data["needs_you"][0]["command"] == "tugcode resume 'docs/plan one.md'"


def test_a_lost_database_is_refused_and_not_taken_for_none(desk, tugcode):
    desk = desk("1 t")
    desk.ok("claim", "work")
    desk.ok("update", "work", "step-1", "--all", "completed")
    desk.ok("complete", "work", "step-1")
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        (desk.repo.path / ".tugtool" / name).unlink(missing_ok=True)
    refused = tugcode("-C", desk.red, "status")
    assert refused.status == 1
    assert "tugcode restore" in refused.err


def test_after_a_run_that_died_the_command_that_goes_on_comes_before_the_review(desk, tugcode):
    desk = desk("1 t", "2 t")
    desk.ok("claim", "work")
    desk.ok("update", "work", "step-1", "--task", 0, "deferred", "--reason", "eyes")
    desk.ok("complete", "work", "step-1")
    with subprocess.Popen(["true"]) as ended:
        worker = process.process(ended.pid)
    store = open_store(desk.url)
    attempts.note_run(store, KEY, "started", process={**worker, "holder_start": "long ago"})
    expected = [("run_died", "tugcode implement work"), ("deferred", "tugcode review work")]
    needs = tugcode("-C", desk.red, "status", "--json").data["needs_you"]
    assert [(need["what"], need["command"]) for need in needs] == expected
    for shown in (tugcode("-C", desk.red, "status").out, desk.text("show", "work").out):
        commands = [line.split("  ")[-1] for line in shown.partition("Needs you\n")[2].split("\n")]
        assert commands[:2] == [command for _, command in expected]
        assert "The last run died about " in shown
    # Another worker goes on, or the plan is done: there is nothing to start again.
    desk.ok("claim", "work")
    needs = tugcode("-C", desk.red, "status", "--json").data["needs_you"]
    assert [need["what"] for need in needs] == ["deferred"]
    assert "tugcode implement" not in desk.text("show", "work").out
    desk.ok("complete", "work", "step-2", "--force", "enough")
    needs = tugcode("-C", desk.red, "status", "--json").data["needs_you"]
    assert [need["what"] for need in needs] == ["deferred"]
    assert "tugcode implement" not in desk.text("show", "work").out
    store.close()
