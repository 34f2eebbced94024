"""next and done: a plan carried out with two commands that name nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import git
from support.state import KEY, markdown

PLAN = """\
# Greeter

### Step 1: Say hello
**Commit:** `feat: say hello`

**Tasks:**
- [ ] write the greeting

**Checkpoint:**
- [ ] `grep -q hello greet`

#### Step 1.1: In capitals

**Tests:**
- [ ] it shouts

### Step 2: Say goodbye
**Depends on:** #step-1

**Checkpoint:**
- [ ] `test -e greet`
- [ ] it sounds friendly
"""


@pytest.fixture
def greeter(yard):
    """The plan with commands in its checkpoints, committed."""
    made = yard("1")
    made.plan.write_text(PLAN)
    made.repo.commit({})
    return made


def test_the_first_line_is_whole_in_the_narrowest_output(greeter, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    first = greeter.said("next").splitlines()[0]
    there = greeter.root / first.removeprefix("cd ")
    assert (there / ".git").is_file()


def test_next_makes_a_worktree_and_tells_all_about_its_step(greeter):
    data = greeter.ok("next")
    there = Path(data["worktree_path"])
    assert (data["claimed"], data["made"], data["resumed"]) == (True, True, False)
    assert (data["plan_path"], data["anchor"], data["attempt"]) == (KEY, "step-1", 1)
    assert data["text"] == PLAN[PLAN.index("### Step 1") : PLAN.index("### Step 2")].rstrip()
    assert data["commit_message"] == "feat: say hello"
    names = [(item["step_anchor"], item["kind"], item["status"]) for item in data["checklist"]]
    assert names == [
        ("step-1", "task", "open"),
        ("step-1", "checkpoint", "open"),
        ("step-1-1", "test", "open"),
    ]
    assert greeter.rows("select status from steps where anchor = 'step-1'") == [
        {"status": "in_progress"}
    ]

    # The same again from there: the step is shown, and no attempt is used up.
    again = greeter.ok("next", at=there)
    assert (again["resumed"], again["attempt"]) == (True, 1)
    assert {**again, "resumed": False, "made": True} == {
        **data,
        "lease_expires_at": again["lease_expires_at"],
        "holders": again["holders"],
    }


def test_next_prints_where_to_go_first_and_done_what_to_do_next(greeter, tugcode):
    text = greeter.said("next").split("\n")
    there = text[0].removeprefix("cd ")
    assert os.path.isdir(there)
    assert text[1] == "your step is step-1 of work, attempt 1:"
    assert "  [ ] step-1 task 0: write the greeting" in text
    assert text[-2] == "when it is done: tugcode done"
    Path(there, "greet").write_text("hello\n")
    done = tugcode("-C", there, "done", "--all")
    assert done.status == 0, done.err
    hash_ = git("rev-parse", "HEAD", cwd=Path(there))[:12]
    assert done.out == (
        "passed: 1 checkpoint\n"
        f"committed {hash_} for step-1: Say hello; it is completed, 1 step remains\n"
        "next: tugcode next\n"
    )
    assert "tugcode: running grep -q hello greet\n" in done.err
    assert git("log", "-1", "--format=%s", cwd=Path(there)) == "feat: say hello\n"


def test_done_is_refused_with_what_is_open_and_touches_nothing(greeter):
    there = Path(greeter.ok("next")["worktree_path"])
    (there / "greet").write_text("goodbye\n")
    head = git("rev-parse", "HEAD", cwd=there)
    for words in ((), ("--all",)):
        said = greeter.run("done", *words, at=there)
        assert (said.status, said.codes) == (1, ["E051"])
        (issue,) = said.envelope()["issues"]
        assert "checkpoint 0 of step-1 fails: `grep -q hello greet` exit 1" in issue["message"]
        assert ("tugcode done --all" in issue["message"]) == (not words)
        assert issue["facts"]["failed"][0]["evidence"]["passed"] is False
    states = {row["status"] for row in greeter.rows("select status from checklist_items")}
    assert states == {"open"}
    assert git("rev-parse", "HEAD", cwd=there) == head
    assert git("status", "--porcelain", cwd=there) == "?? greet\n"


def test_a_judgement_is_never_ticked_by_done(greeter):
    there = Path(greeter.ok("next")["worktree_path"])
    (there / "greet").write_text("hello\n")
    greeter.ok("done", "--all", at=there)
    assert greeter.ok("next", at=there)["anchor"] == "step-2"
    said = greeter.run("done", "--all", at=there)
    assert said.codes == ["E051"]
    (issue,) = said.envelope()["issues"]
    judge = "tugcode update work step-2 --checkpoint 1 completed"
    assert judge in issue["message"]
    greeter.ok(*judge.split()[1:], at=there)
    data = greeter.ok("done", "-m", "feat: say goodbye", at=there)
    assert data["completed"]
    assert data["next"] == f"cd {greeter.root} && tugcode merge work"
    evidence = greeter.rows("select evidence from checklist_items where step_anchor = 'step-2'")
    assert '"passed":true' in evidence[0]["evidence"].replace(" ", "")
    assert git("log", "-1", "--format=%s", cwd=there) == "feat: say goodbye\n"
    last = greeter.ok("next", at=there)
    assert (last["claimed"], last["reason"], last["text"]) == (False, "all_completed", None)
    greeter.ok("merge", "work")


def test_a_worktree_is_given_to_no_other_worker_between_done_and_next(yard):
    """Two workers: one has just done its step, the other asks for one in the main worktree."""
    made = yard("1 t", "2 t < 1", "3 t < 1")
    first = Path(made.ok("next")["worktree_path"])
    (first / "made").write_text("x\n")
    made.ok("done", "--all", at=first)
    other = made.ok("next")
    assert (other["anchor"], other["worktree_path"] == str(first)) == ("step-2", False)
    assert made.ok("next", at=first)["anchor"] == "step-3"


def test_a_worktree_whose_worker_waits_is_given_to_no_other(yard):
    made = yard("1 t", "2 t < 1")
    first = Path(made.ok("next")["worktree_path"])
    (first / "made").write_text("x\n")
    made.ok("done", "--all", at=first)
    held = made.ok("next")["worktree_path"]
    assert made.ok("next", at=first)["claimed"] is False
    rows = made.rows("select path, reserved_for from worktrees")
    kept = {row["path"]: row["reserved_for"] for row in rows}
    # Its reservation ends with the process that asked.
    assert '"name": "next"' in kept[str(first)]
    assert held != str(first)


def test_a_checkpoint_for_a_person_waits_for_one_and_keeps_nothing_up(yard, tugcode):
    made = yard("1")
    made.plan.write_text("# P\n\n### Step 1: x\n\n**Checkpoint:**\n- [ ] it looks good (person)\n")
    made.repo.commit({})
    there = Path(made.ok("next")["worktree_path"])
    (there / "made").write_text("x\n")
    done = tugcode("-C", there, "done")
    assert done.status == 0, done.err
    assert "\n1 checkpoint waits for a person: tugcode review\n" in done.out
    (item,) = made.ok("review")["deferred_items"]
    assert (item["step_anchor"], item["reason"]) == ("step-1", "it waits for a person")


def test_without_a_step_next_prints_nothing_and_makes_no_worktree(greeter, tugcode):
    greeter.ok("next")
    before = greeter.names()
    done = tugcode("-C", greeter.root, "next")
    assert (done.status, done.out) == (0, "")
    assert "no step is ready; 2 steps remain; other workers hold step-1" in done.err
    assert greeter.names() == before
    greeter.ok("pause", "work")
    assert greeter.ok("next")["reason"] == "paused"


HELD = r"until 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d in (\.tugtree/tugplan__work-\d+)"


def test_without_a_step_next_names_the_worktree_that_holds_it_and_until_when(
    greeter, tugcode, monkeypatch
):
    """After a kill: the worktree goes on if the same command is run in it."""
    monkeypatch.chdir(greeter.root)
    there = greeter.ok("next")["worktree_path"]
    (holder,) = greeter.ok("next")["holders"]
    assert (holder["step_anchor"], holder["worktree"]) == ("step-1", there)
    err = tugcode("next", "work").err
    found = re.search(rf"other workers hold step-1 \({HELD}\)", err)
    assert found, err
    again = tugcode("-C", greeter.root / found[1], "next", "work")
    assert again.out.split("\n")[:2] == [
        f"cd {there}",
        "your step is step-1 of work, attempt 1:",
    ]


def test_next_says_at_once_and_once_what_it_waits_for(greeter, tugcode, monkeypatch):
    monkeypatch.chdir(greeter.root)
    greeter.ok("next")
    done = tugcode("next", "work", "--wait", "0.1")
    assert (done.status, done.out) == (0, "")
    waits, lines = done.err.split("tugcode: nothing to do")[0], done.err.split("\n")
    assert lines[0] == "tugcode: waiting for a step that is ready"
    found = re.fullmatch(rf"  step-1 is held {HELD}", lines[1])
    assert found, done.err
    assert lines[2] == (
        f"  if that worker is gone, start its loop again there, and it goes on: cd {found[1]}"
    )
    assert waits.count("waiting") == 1
    # Programs read one document.
    assert tugcode("-C", greeter.root, "next", "--wait", "0.1", "--json").err == ""
    # A worktree without a step waits with the same words.
    monkeypatch.chdir(greeter.create())
    err = tugcode("next", "--wait", "0.1").err
    assert err.startswith("tugcode: waiting for a step that is ready\n  step-1 is held until 20")
    assert f"cd ../{os.path.basename(found[1])}\n" in err


def test_next_waits_in_silence_for_nothing(greeter, tugcode):
    """A step that is ready is given at once, so there is nothing to say."""
    assert tugcode("-C", greeter.root, "next", "--wait", "60").err == ""


def test_a_rejected_step_is_shown_with_its_note_each_time(yard, tugcode):
    made = yard("1")
    made.plan.write_text("# P\n\n### Step 1: x\n\n**Checkpoint:**\n- [ ] it looks good (person)\n")
    made.repo.commit({})
    there = Path(made.ok("next")["worktree_path"])
    (there / "made").write_text("x\n")
    made.ok("done", at=there)
    made.ok("review", "work", "--reject", "--step", "step-1", "--note", "too loud")
    first = made.said("next")
    assert "too loud (step-1 checkpoint 0)\n  to go on with what it left: git merge" in first
    place = first.split("\n")[0].removeprefix("cd ")
    assert tugcode("-C", place, "next").out == first


def test_next_on_a_done_plan_names_review_then_merge_then_says_that_it_is_merged(yard, tugcode):
    made = yard("1")
    made.plan.write_text("# P\n\n### Step 1: x\n\n**Checkpoint:**\n- [ ] it looks good (person)\n")
    made.repo.commit({})
    there = Path(made.ok("next")["worktree_path"])
    (there / "made").write_text("x\n")
    assert made.ok("done", at=there)["next"] == "tugcode review work"
    said = "tugcode: nothing to do: every step is completed"
    err = tugcode("-C", made.root, "next").err
    assert err == f"{said}; 1 item waits for a person; next: tugcode review work\n"
    made.ok("review", "work", "--accept", "--step", "step-1")
    assert tugcode("-C", made.root, "next").err == f"{said}; next: tugcode merge work\n"
    commit = made.ok("merge", "work")["merged_commit"]
    data = made.ok("next", "work")
    assert (data["merged_commit"], data["next"]) == (commit, "tugcode report work")
    err = tugcode("-C", made.root, "next", "work").err
    assert err == f"{said}; it is merged as {commit[:12]}; next: tugcode report work\n"


def test_a_step_alone_is_one_of_the_worktrees_plan(greeter):
    greeter.repo.plan("other", markdown("1 t", "2 t"))
    greeter.repo.commit({})
    greeter.ok("state", "init", "other")
    there = Path(greeter.ok("next", "work")["worktree_path"])
    assert greeter.ok("why", "step-1", at=there)["plan_path"] == KEY
    assert greeter.ok("release", "#step-1", at=there)["plan_path"] == KEY
    # Elsewhere two plans are active, and a plan alone names no step.
    assert greeter.run("why", "step-1").codes == ["E040"]
    assert greeter.run("why", "work", at=there).codes == ["E070"]


def test_done_without_a_claim_names_next(greeter):
    there = greeter.create()
    said = greeter.run("done", at=there)
    assert said.codes == ["E050"]
    assert said.envelope()["issues"][0]["hint"] == "tugcode next"
    assert greeter.run("done", "--step", "step-1", at=there).codes == ["E050"]
    assert greeter.run("done", "--plan", "work").codes == ["E050"]


def test_done_of_a_step_held_in_the_main_worktree_is_refused(greeter):
    greeter.ok("state", "init", "work")
    greeter.ok("claim", "work")
    assert greeter.run("done").codes == ["E035"]


def test_the_plan_is_the_worktrees_or_the_only_one_with_work(greeter):
    there = Path(greeter.ok("next")["worktree_path"])
    greeter.repo.plan("other", markdown("1 t", "2 t"))
    greeter.repo.commit({})
    assert greeter.ok("next", at=there)["plan_path"] == KEY
    greeter.ok("state", "init", "other")
    # Of two active plans only the other has a step that is ready.
    other = greeter.ok("next")
    assert other["plan_path"] == ".tugtool/tugplan-other.md"
    greeter.ok("release", "work", "step-1", at=there)
    assert greeter.run("next").codes == ["E040"]


def test_without_any_plan_next_says_so(repo, tugcode):
    assert tugcode("-C", repo.path, "next", "--json").codes == ["E063"]


def test_a_claim_that_fails_to_sync_is_taken_up_again(greeter):
    """A worktree with its step claimed and not started: next brings in what is missing."""
    there = greeter.create()
    greeter.ok("claim", "work", at=there)
    data = greeter.ok("next", at=there)
    assert (data["resumed"], data["attempt"], data["merged"]) == (True, 1, [])


LOOP = """\
eval "$(tugcode next work --wait 60 | head -1)"
while [ -n "$(tugcode next --wait 60)" ]; do
    . ./agent
    tugcode done --all || exit
done
"""
WIDE = """\
# Wide

### Step 1: Ground
**Checkpoint:**
- [ ] `test -e ground`

#### Step 1.1: Deeper
- [ ] dig

### Step 2: Left
**Depends on:** #step-1
- [ ] build

**Checkpoint:**
- [ ] `test -e ground && test -e step-2`

### Step 3: Middle
**Depends on:** #step-1

**Checkpoint:**
- [ ] `test -e step-3`

### Step 4: Right
**Depends on:** #step-1
- [ ] build

### Step 5: Roof
**Depends on:** #step-2, #step-3, #step-4

**Checkpoint:**
- [ ] `test -e step-2 && test -e step-3 && test -e step-4`
"""
AGENT = """\
step=$(tugcode next --json | grep -o '"anchor": "[^"]*"' | head -1 | cut -d'"' -f4)
[ "$step" = step-1 ] && touch ground
echo "$step" > "$step"
"""


@pytest.mark.proof
def test_two_commands_in_a_loop_carry_a_plan_out_from_three_worktrees(yard, tmp_path):
    assert LOOP.count("\n") <= 10
    made = yard("1")
    made.plan.write_text(WIDE)
    made.repo.commit({"agent": AGENT})
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "tugcode").write_text(f'#!/bin/sh\nexec {sys.executable} -m tugtool "$@"\n')
    (bin_ / "tugcode").chmod(0o755)
    env = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}"}
    pipe = subprocess.PIPE
    loops = [
        subprocess.Popen(
            ["/bin/sh", "-c", LOOP], cwd=made.root, env=env, stdout=pipe, stderr=pipe, text=True
        )
        for _ in range(3)
    ]
    for loop in loops:
        out, err = loop.communicate(timeout=300)
        assert loop.returncode == 0, out + err
    steps = made.rows("select status, attempt, commit_hash from steps where parent_anchor is null")
    assert [(step["status"], step["attempt"]) for step in steps] == [("completed", 1)] * 5
    assert len({step["commit_hash"] for step in steps}) == 5
    made.ok("merge", "work")
    assert all((made.root / f"step-{number}").exists() for number in range(1, 6))
