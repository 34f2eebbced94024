"""Commits travel by a git remote: what is pushed, what waits, and what a refusal costs."""

import json
import os

import pytest

from support.machines import SETTINGS, Fleet
from workflow.test_shared_record import url

__all__ = ["url"]


@pytest.fixture
def fleet(repo, url, tugcode, monkeypatch, tmp_path):
    """Make machines that share a plan: `fleet("1 t", "2 t < 1")`."""
    return lambda *lines, **how: Fleet(tmp_path, repo, tugcode, monkeypatch, *lines, **how)


def _steps(machine) -> dict[str, dict]:
    return {step["anchor"]: step for step in machine.data("state", "show", "work")["steps"]}


def test_a_commit_is_pushed_and_the_step_is_published(fleet):
    team = fleet("1 t", "2 t < 1")
    till, kiosk = team.start("till", "kiosk")
    path, _, done = till.step()
    assert done.data["published"] is True
    assert done.codes == []
    branch = till.git("branch", "--show-current", at=path).strip()
    assert team.tip(branch) == done.data["commit_hash"]
    assert "unpublished" not in _steps(kiosk)["step-1"]
    (event,) = (e for e in kiosk.data("log", "work")["events"] if e["kind"] == "publish")
    assert event["detail"]["commit"] == done.data["commit_hash"]
    assert "published by till:" in kiosk.run("log", "work").out


def test_every_view_names_the_machine_of_a_step(fleet):
    team = fleet("1 t", "2 t", "3 t < 1")
    till, kiosk = team.start("till", "kiosk")
    path, _, _ = till.step()
    till.data("worktree", "create", "work", "--new", "--claim")
    name = path.name.removeprefix("tugplan__")
    assert "on till" in kiosk.run("show", "work").out
    assert f"till:{path.name}-2" in kiosk.run("show", "work").out
    assert f"till:{path.name}-2" in kiosk.run("status").out
    report = kiosk.run("report", "work").out
    assert f"till:{name} " in report
    assert f"till:{name}-2" in report
    by = {step["anchor"]: step for step in kiosk.data("report", "work")["steps"]}
    assert by["step-1"]["completed_by"] == f"till:{path}"
    assert f"completed by till:{path} at" in kiosk.run("why", "work", "step-1").out
    # Where it was done it needs no name.
    assert "till" not in till.run("show", "work").out


def test_a_push_that_fails_costs_nothing_and_the_next_command_pushes_again(fleet):
    team = fleet("1 t", "2 t < 1", "3 t")
    till, kiosk = team.start("till", "kiosk")
    os.rename(team.bare, f"{team.bare}.away")
    path, anchor, done = till.step()
    assert (done.status, done.data["completed"], done.data["published"]) == (0, True, False)
    assert done.codes == ["W170"]
    (issue,) = done.envelope()["issues"]
    assert issue["hint"] == "git ls-remote origin"
    assert "there is no such repository" in issue["message"]
    # The others are not given what they could not get; its own machine goes on.
    assert "there is no such repository" in _steps(kiosk)["step-1"]["unpublished"]
    assert "unpublished" in kiosk.run("show", "work").out
    assert kiosk.data("claim", "work")["anchor"] == "step-3"
    refused = kiosk.run("claim", "work", "--step", "step-2", "--also", "--json")
    assert refused.codes == ["E053"]
    assert "step step-2 waits for publish of step-1 by till" in refused.out
    none = kiosk.data("claim", "work", "--worktree", "/elsewhere")
    assert none["waiting_for"] == {"step-2": ["publish"]}
    assert [(u["step_anchor"], u["worktree"]) for u in none["unpublished_steps"]] == [
        ("step-1", f"till:{path}")
    ]
    assert kiosk.data("ready", "work")["blocked_steps"] == ["step-2"]
    told = kiosk.run("ready", "work").out
    assert "2 waits for publish: the commit of step 1 is on till alone" in told
    assert "waits for publish of 1" in kiosk.run("show", "work").out
    why = kiosk.data("why", "work", "step-2")
    assert why["claimable"] is False
    assert any("the commit of step-1 is on till alone" in each for each in why["sentences"])
    assert why["frees"] == [
        "It is free when till has pushed that commit; there: tugcode worktree publish"
    ]
    os.rename(f"{team.bare}.away", team.bare)
    # The next claim in that worktree pushes what is left.
    assert till.data("claim", "work", at=path)["anchor"] == "step-2"
    assert team.tip(till.git("branch", "--show-current", at=path).strip())
    assert "unpublished" not in _steps(kiosk)["step-1"]
    assert anchor == "step-1"


#: What the remote does, and what the answer says: the meaning, and the next command.
REFUSALS = {
    "a hook of the remote": (
        "pre-receive",
        "echo not on a Friday >&2; exit 1",
        "a hook refused it (",
        "tugcode worktree publish",
    ),
    "a remote that hangs": (
        "pre-receive",
        "exec sleep 600",
        "it does not answer (no answer within 1 s)",
        "tugcode worktree publish",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_each_refusal_has_a_reason_and_a_next_command_and_is_tried_again(fleet, case):
    hook, text, said, hint = REFUSALS[case]
    settings = SETTINGS.replace(
        "seconds = 20", "seconds = 1" if "sleep" in text else "seconds = 20"
    )
    team = fleet("1 t", settings=settings)
    (till,) = team.start("till")
    there = team.hook(text, hook)
    path, _, done = till.step()
    (issue,) = done.envelope()["issues"]
    assert (done.status, done.data["published"], issue["code"]) == (0, False, "W170")
    assert said in issue["message"]
    assert issue["hint"] == hint
    again = till.run("worktree", "publish", "--json")
    assert (again.status, again.codes) == (1, ["E038"])
    (each,) = again.data["branches"]
    assert said in each["problem"]
    assert [u["step_anchor"] for u in again.data["unpublished_steps"]] == ["step-1"]
    (found,) = (
        c for c in till.run("doctor", "--json").data["checks"] if c["name"] == "unpublished"
    )
    assert "the commit of step-1 of .tugtool/tugplan-work.md is not on origin" in str(found)
    there.unlink()
    till.run("doctor", "--fix")
    assert team.tip(till.git("branch", "--show-current", at=path).strip())
    assert till.data("worktree", "publish")["unpublished_steps"] == []
    assert "origin has tugplan/work-" in till.run("worktree", "publish").out


def test_a_branch_that_has_other_commits_at_the_remote_is_never_pushed_by_force(fleet):
    team = fleet("1 t", "2 t < 1")
    till, kiosk = team.start("till", "kiosk")
    path, _, _ = till.step()
    branch = till.git("branch", "--show-current", at=path).strip()
    # A person at the kiosk pushes a commit of her own there.
    kiosk.git("fetch", "--quiet", "origin", branch)
    kiosk.git("switch", "--quiet", "--create", "theirs", "FETCH_HEAD")
    kiosk.git("commit", "--quiet", "--allow-empty", "--message=theirs")
    kiosk.git("push", "--quiet", "origin", f"theirs:{branch}")
    theirs = team.tip(branch)
    till.data("claim", "work", at=path)
    done = till.work(path, "step-2")
    (issue,) = done.envelope()["issues"]
    assert "it has other commits on that branch, which are not here" in issue["message"]
    assert issue["hint"] == f"git -C {path} pull --no-rebase origin {branch}"
    assert team.tip(branch) == theirs
    till.git("pull", "--quiet", "--no-rebase", "origin", branch, at=path)
    assert till.data("worktree", "publish")["unpublished_steps"] == []
    assert done.data["commit_hash"] in till.git("log", "--format=%H", f"origin/{branch}")


def test_a_branch_that_the_remote_has_lost_is_pushed_again(fleet):
    team = fleet("1 t")
    (till,) = team.start("till")
    path, _, done = till.step()
    branch = till.git("branch", "--show-current", at=path).strip()
    till.git("push", "--quiet", "origin", f":{branch}")
    assert not team.tip(branch)
    assert till.data("worktree", "publish", "work")["branches"][0]["branch_name"] == branch
    assert team.tip(branch) == done.data["commit_hash"]


def test_without_a_remote_nothing_is_published(fleet):
    team = fleet("1 t", settings='[state]\nrepository = "team/shop"\n')
    (till,) = team.start("till")
    path, _, done = till.step()
    assert "published" not in done.data
    assert not team.tip(till.git("branch", "--show-current", at=path).strip())
    assert till.data("worktree", "publish")["remote"] is None
    assert "commits stay on this machine" in till.run("worktree", "publish").out


@pytest.mark.parametrize("name", ["--upload-pack=x", "ext::sh", "../shop", "a b", "-x", 7])
def test_only_a_name_is_taken_for_a_remote(repo, tugcode, name):
    repo.write({".tugtool/config.toml": f"[remote]\nname = {json.dumps(name)}\n"})
    refused = tugcode("-C", repo.path, "config", "--json")
    assert refused.codes == ["E071"]
    assert "the name of a git remote" in refused.out
