"""Agents that change what their role may not, with no hook anywhere: undone, kept, tried again."""

import shlex
import sys

import pytest

from conftest import git
from support.implement import ROLES
from support.proving import sampled
from support.state import KEY
from tugtool import git as tugtool_git
from tugtool.workflow.salvage import saved

TUG = f"{shlex.quote(sys.executable)} -m tugtool"
EDIT = {"append": "code.txt", "text": "mended by the {role}\n"}
#: What an agent that may change nothing does, and what it is told.
FAULTS = {
    "edits a file": ([EDIT], "it changed code.txt, and the {} may change nothing"),
    "deletes a file": ([{"delete": "code.txt"}], "it changed code.txt"),
    "turns a file into a directory": (
        [{"run": "rm code.txt; mkdir code.txt; echo > code.txt/x"}],
        "it changed code.txt",
    ),
    "stages": ([{"run": "git rm --quiet --cached code.txt"}], "it changed git's index"),
    "commits": ([EDIT, {"commit": "my own"}], "it changed code.txt"),
    "commits nothing new": ([{"run": "git commit --quiet --allow-empty -m x"}], "it moved HEAD"),
    "switches the branch": ([{"run": "git checkout --quiet -b other"}], "it moved HEAD"),
    "edits the plan": ([{"edit_plan": "\nEasier.\n"}], "it changed the plan"),
    "edits and dies": ([EDIT, {"die": "KILL"}], "it changed code.txt"),
}


def failed(told: list[dict]) -> list[str]:
    return [each["reason"] for each in told if each["event"] == "agent_failed"]


def kept(play) -> list[str]:
    repo = tugtool_git.discover(str(play.root))
    return [each.ref for each in saved.every(repo)]


def content(play, step: str, name: str) -> str:
    [commit] = play.commits(step)
    return git("show", f"{commit}:{name}", cwd=play.root)


@pytest.mark.parametrize(
    ("role", "fault"),
    sampled([(role, fault) for role in ("architect", "reviewer") for fault in FAULTS], 4),
)
def test_a_role_that_edits_nothing_is_undone_told_and_tried_again(play, role, fault):
    acts, said = FAULTS[fault]
    play = play("1 t")
    play.rules({"role": role, "try": 1, "do": acts})
    status, told = play.run()
    assert status == 0
    [reason] = failed(told)
    assert reason.startswith(said.format(role)), reason
    assert content(play, "step-1", "code.txt") == "".join(f"line {n}\n" for n in range(20))
    assert "my own" not in git(
        "log", "--all", "--format=%s", "--not", "--glob=refs/tug", cwd=play.root
    )
    assert (play.trees()[0] / KEY).read_text() == play.text
    play.finished()


def test_what_a_reviewer_did_is_kept_where_it_can_be_looked_at(play):
    play = play("1 t")
    play.rules({"role": "reviewer", "try": 1, "do": [EDIT, {"write": "new/file", "text": "x"}]})
    status, told = play.run()
    assert status == 0
    [ref] = kept(play)
    assert git("show", f"{ref}:code.txt", cwd=play.root).endswith("mended by the reviewer\n")
    assert git("show", f"{ref}:new/file", cwd=play.root) == "x"
    # The coder's own work is in there too, and in the commit; the reviewer's is not.
    assert git("show", f"{ref}:scripted/step-1.txt", cwd=play.root)
    [note] = play.artifacts("note")
    assert (
        f"the reviewer changed code.txt, new/file; it was put back, and is kept in {ref}"
        in (note["summary"])
    )
    assert note["content"] == "code.txt\nnew/file"
    assert not (play.trees()[0] / "new").exists()
    assert [each["message"] for each in told if each["event"] == "warning"] == [note["summary"]]
    shown = play.ok("worktree", "salvage", "show", ref)
    assert shown["step_anchor"] == "step-1"


def test_the_coders_uncommitted_work_is_what_a_reviewer_leaves_behind(play):
    play = play("1 t")
    acts = [
        {"append": "code.txt", "text": "by the coder\n"},
        {"write": "new.txt", "text": "new\n"},
        {"write": "tool.sh", "text": "#!/bin/sh\n"},
        {"run": "chmod +x tool.sh; ln -s new.txt link; git add new.txt"},
    ]
    spoil = "echo x > code.txt; rm new.txt link; chmod -x tool.sh; echo y > tool.sh; git reset -q"
    play.rules(
        {"role": "coder", "do": acts}, {"role": "reviewer", "try": 1, "do": [{"run": spoil}]}
    )
    status, told = play.run()
    assert (status, len(failed(told))) == (0, 1)
    assert content(play, "step-1", "code.txt").endswith("by the coder\n")
    assert content(play, "step-1", "new.txt") == "new\n"
    [commit] = play.commits("step-1")
    modes = git("ls-tree", commit, "tool.sh", "link", cwd=play.root).split()
    assert (modes[0], modes[4]) == ("120000", "100755")
    play.finished()


def test_what_tests_leave_behind_is_taken_away_and_nobody_is_tried_again(play):
    play = play("1 t")
    acts = [{"write": "cache/x.bin", "text": "x"}, {"write": "report.xml", "text": "x"}]
    play.rules({"role": "reviewer", "do": acts})
    status, told = play.run()
    assert (status, failed(told)) == (0, [])
    assert play.calls("reviewer") == ["reviewer step-1 1"]
    [commit] = play.commits("step-1")
    assert "report.xml" not in git("ls-tree", "-r", "--name-only", commit, cwd=play.root)
    assert not (play.trees()[0] / "cache").exists()
    [ref] = kept(play)
    assert git("show", f"{ref}:cache/x.bin", cwd=play.root) == "x"
    play.finished()


def test_ignored_files_and_looking_are_nobodys_business(play):
    play = play("1 t")
    play.repo.commit({".gitignore": "*.pyc\n"})
    look = "git status --short; git diff; git log -1; echo x > a.pyc"
    play.rules({"role": "reviewer", "do": [{"run": f"({look}) > /dev/null"}]})
    status, told = play.run()
    assert (status, failed(told), kept(play)) == (0, [], [])
    assert (play.trees()[0] / "a.pyc").exists()


@pytest.mark.proof(share=0)
def test_a_reviewer_that_never_stops_editing_ends_the_attempt_and_says_what_it_changed(play):
    play = play("1 t")
    play.rules({"role": "reviewer", "step": "step-1", "attempt": 1, "do": [EDIT]})
    status, told = play.run()
    assert status == 0
    assert len(failed(told)) == 2
    assert ".gitignore" in failed(told)[0]
    assert play.outcomes("step-1") == ["failed", "completed"]
    assert "mended" not in content(play, "step-1", "code.txt")
    play.finished()


@pytest.mark.proof(share=0)
def test_an_auditor_that_edits_is_undone_and_asked_again(play):
    play = play("1 t")
    play.cast(*ROLES, "auditor")
    play.rules({"role": "auditor", "try": 1, "do": [EDIT]})
    status, told = play.run()
    assert status == 0
    assert failed(told)[0].startswith("it changed code.txt, and the auditor may change nothing")
    [tree] = play.trees()
    assert "mended" not in (tree / "code.txt").read_text()
    assert git("status", "--porcelain", cwd=tree) == ""
    [ref] = kept(play)
    assert "mended by the auditor" in git("show", f"{ref}:code.txt", cwd=play.root)


@pytest.mark.parametrize(
    "line",
    sampled(
        [
            "state complete work step-1 --force --reason x",
            "state reset work step-1",
            "merge work",
            "commit --plan work --step step-1 --message x",
            "state pause work",
        ],
        2,
    ),
)
def test_a_coder_that_calls_what_it_may_not_is_refused_by_tugcode_itself(play, line):
    play = play("1 t")
    run = f"{TUG} {line} 2> ../../said; test $? = 1 && grep -q E088 ../../said"
    play.rules({"role": "coder", "do": [{"run": run}]})
    status, told = play.run()
    assert (status, failed(told)) == (0, [])
    assert play.outcomes("step-1") == ["completed"]
    play.finished()


@pytest.mark.proof(share=0)
def test_looking_at_the_plan_is_free_for_every_agent(play):
    play = play("1 t")
    run = f"{TUG} state show work > /dev/null && {TUG} list > /dev/null"
    play.rules(*({"role": role, "do": [{"run": run}]} for role in ROLES))
    status, told = play.run()
    assert (status, failed(told)) == (0, [])


def test_a_repository_that_a_reviewer_made_is_taken_away_and_kept(play):
    play = play("1 t")
    make = "git init -q nested && cd nested && echo x > x && git add x && git commit -q -m x"
    play.rules({"role": "reviewer", "try": 1, "do": [{"run": make}]})
    status, told = play.run()
    assert (status, failed(told)) == (0, [])
    assert not (play.trees()[0] / "nested").exists()
    (kept,) = (play.root / ".git" / "tugtool" / "kept").glob("*/nested")
    (said,) = [each["message"] for each in told if each["event"] == "warning"]
    assert said == f"the reviewer made a repository of its own, nested/; it is kept in {kept}"
    assert git("log", "--format=%s", cwd=kept) == "x\n"
