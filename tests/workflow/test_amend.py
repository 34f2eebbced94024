"""Amending a plan: edited, older, newer; plan accept; the agreed text in worktrees."""

from pathlib import Path

import pytest

from conftest import git
from support.state import KEY, markdown

NEW = markdown("1 t", "2 tt", "3 t")


@pytest.fixture
def amended(yard):
    """The plan with a worktree at step-1, and a new text that a person has agreed to."""
    made = yard("1 t", "2 t")
    made.old = made.plan.read_text()
    made.red = made.create()
    made.ok("claim", "work", at=made.red)
    made.plan.write_text(NEW)
    made.repo.commit({})
    made.ok("plan", "accept", "work")
    return made


def refused(made, *words: str, at: Path | None = None) -> tuple[str, str]:
    """What E048 says of the text, and the next command."""
    (issue,) = made.run(*words, at=at).envelope()["issues"]
    assert issue["code"] == "E048", issue
    return issue["facts"]["standing"], issue["hint"]


UPDATE = ("update", "work", "step-1", "--all", "completed")


def test_a_worktree_without_the_new_text_is_told_to_sync(amended):
    next_ = f"tugcode worktree sync work --worktree {amended.red}"
    assert refused(amended, *UPDATE, at=amended.red) == ("newer", next_)
    assert refused(amended, "done", at=amended.red) == ("newer", next_)
    # Following the hint is all there is to do, and undoes nothing.
    (amended.red / "work.txt").write_text("work\n")
    done = amended.ok(*next_.split()[1:], at=amended.red)
    assert (
        git("show", "--format=", "--name-only", done["plan_commit"], cwd=amended.red) == f"{KEY}\n"
    )
    assert (amended.red / KEY).read_text() == NEW
    assert git("status", "--porcelain", cwd=amended.red) == "?? work.txt\n"
    again = amended.ok("worktree", "sync", at=amended.red)
    assert (again["plan_commit"], again["up_to_date"]) == (None, True)
    data = amended.ok("done", "--all", at=amended.red)
    assert (data["completed"], data["attempt"]) == (True, 1)


def test_next_takes_the_new_text_by_itself(amended):
    data = amended.ok("next", at=amended.red)
    assert (data["anchor"], data["attempt"], data["resumed"]) == ("step-1", 1, True)
    assert (amended.red / KEY).read_text() == NEW


def test_an_edited_text_is_compared_and_never_written_over(amended):
    (amended.red / KEY).write_text("# Mine\n\n### Step 1: Other\n")
    look = f"tugcode diff work --worktree {amended.red}"
    assert refused(amended, *UPDATE, at=amended.red) == ("edited", look)
    assert amended.ok("worktree", "sync", at=amended.red)["plan_commit"] is None
    assert (amended.red / KEY).read_text().startswith("# Mine")


def test_an_older_text_in_the_main_worktree_is_refused_and_accepted_only_to_revert(amended):
    amended.plan.write_text(amended.old)
    assert refused(amended, "claim", "work") == ("older", "tugcode diff work")
    amended.repo.commit({})
    assert refused(amended, "worktree", "create", "work")[0] == "older"
    said = amended.run("plan", "accept", "work")
    assert said.codes == ["E044"]
    (issue,) = said.envelope()["issues"]
    assert "would undo what was agreed since" in issue["message"]
    assert [each["flag"] for each in issue["facts"]["refusals"]] == ["--revert"]
    assert amended.run("state", "init", "work", "--force").codes == ["E044"]
    assert amended.ok("plan", "accept", "work", "--dry-run")["refusals"][0]["flag"] == "--revert"
    assert amended.ok("plan", "accept", "work", "--revert")["revised"]
    # What was agreed is agreed again, so the other is the earlier one now.
    amended.plan.write_text(NEW)
    assert amended.run("plan", "accept", "work").codes == ["E044"]


@pytest.mark.parametrize("words", [("state", "init", "--force"), ("plan", "accept")])
@pytest.mark.parametrize("by_path", [False, True])
def test_an_old_copy_in_a_worktree_undoes_nothing(amended, words, by_path):
    """The hint of E048 used to lead to this."""
    name = str(amended.red / KEY) if by_path else "work"
    assert amended.run(*words, name, at=amended.red).codes == ["E044"]
    (plan,) = amended.rows("select plan_text from plans")
    assert plan["plan_text"] == NEW
    assert [each["anchor"] for each in amended.rows("select anchor from steps order by 1")] == [
        *("step-1", "step-2", "step-3")
    ]


def test_a_worker_does_not_agree_to_its_own_plan(amended, monkeypatch):
    monkeypatch.setenv("TUGCODE_ATTEMPT", "1")
    assert amended.run("plan", "accept", "work").codes == ["E068"]


@pytest.mark.parametrize(("said", "status"), [("y\n", 0), ("n\n", 1)])
def test_a_person_at_a_terminal_is_shown_what_changes_and_asked(amended, monkeypatch, said, status):
    import io
    import sys

    from tugtool.cli import output

    amended.plan.write_text(markdown("1 t", "2 tt", "3 t", "4 t"))
    monkeypatch.setattr(output, "on_terminal", lambda *_: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO(said))
    done = amended._tugcode("-C", amended.root, "plan", "accept", "work")
    assert done.status == status
    assert "added" in done.err
    assert done.err.endswith("Accept this text? [y/N] ")
    assert ("is what is carried out from now on" in done.out) == (status == 0)
    (row,) = amended.rows("select count(*) as n from steps")
    assert row["n"] == (4 if status == 0 else 3)
