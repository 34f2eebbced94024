"""Is the plan file still the one that was agreed? Known without reading it, and never wrongly."""

import os
from pathlib import Path

import pytest

from tugtool.workflow import workspace

PLAN = "# Copies\n### Step 1: a\n- [ ] one\n### Step 2: b\n- [ ] two\n"


@pytest.fixture
def settled(monkeypatch):
    """Every file counts as untouched for long enough."""
    monkeypatch.setattr(workspace, "_UNSETTLED_NANOSECONDS", 0)


@pytest.fixture
def plan(repo, tugcode) -> Path:
    path = repo.plan("copies", PLAN)
    assert tugcode("-C", repo.path, "state", "init", "copies").status == 0
    return path


def _unreadable(path: str) -> str:
    raise AssertionError(f"{path} was read")


def test_a_plan_that_has_not_changed_is_read_once(repo, tugcode, plan, settled, monkeypatch):
    assert tugcode("-C", repo.path, "state", "claim", "copies").status == 0
    monkeypatch.setattr(workspace.catalog, "file_fingerprint", _unreadable)
    words = ["-C", repo.path, "state", "update", "copies", "step-1", "--all", "completed"]
    assert tugcode(*words).status == 0
    assert tugcode("-C", repo.path, "state", "complete", "copies", "step-1").status == 0


def test_a_plan_that_was_touched_just_now_is_read_every_time(repo, tugcode, plan, monkeypatch):
    monkeypatch.setattr(workspace, "_UNSETTLED_NANOSECONDS", 3600 * 10**9)
    assert tugcode("-C", repo.path, "state", "claim", "copies").status == 0
    monkeypatch.setattr(workspace.catalog, "file_fingerprint", _unreadable)
    assert tugcode("-C", repo.path, "state", "claim", "copies").status == 3


@pytest.mark.parametrize("text", [PLAN + "more\n", PLAN.replace("one", "two")])
def test_a_change_is_noticed_also_one_of_the_same_size_and_time(repo, tugcode, plan, settled, text):
    assert tugcode("-C", repo.path, "state", "claim", "copies").status == 0
    before = plan.stat()
    plan.write_text(text)
    os.utime(plan, ns=(before.st_atime_ns, before.st_mtime_ns))
    refused = tugcode("-C", repo.path, "--json", "state", "claim", "copies")
    assert refused.codes == ["E048"]
    plan.write_text(PLAN)
    assert tugcode("-C", repo.path, "state", "claim", "copies").status == 0


def test_another_file_in_its_place_is_noticed(repo, tugcode, plan, settled):
    assert tugcode("-C", repo.path, "state", "claim", "copies").status == 0
    other = repo.path / "other.md"
    other.write_text(PLAN.replace("one", "six"))
    os.replace(other, plan)
    assert tugcode("-C", repo.path, "--json", "state", "claim", "copies").codes == ["E048"]


def test_the_environment_s_plan_may_be_named_like_any_other(repo, tugcode, plan, monkeypatch):
    assert tugcode("-C", repo.path, "state", "claim", "copies").status == 0
    monkeypatch.setenv("TUGCODE_STEP", "step-1")
    monkeypatch.setenv("TUGCODE_ATTEMPT", "7")
    for name in (".tugtool/tugplan-copies.md", "tugplan-copies.md", "copies"):
        monkeypatch.setenv("TUGCODE_PLAN", name)
        refused = tugcode("-C", repo.path, "--json", "state", "heartbeat", "copies", "step-1")
        assert refused.codes == ["E060"]
    monkeypatch.setenv("TUGCODE_PLAN", "other")
    assert tugcode("-C", repo.path, "state", "heartbeat", "copies", "step-1").status == 0


def test_a_garbled_attempt_in_the_environment_is_refused(repo, tugcode, plan, monkeypatch):
    assert tugcode("-C", repo.path, "state", "claim", "copies").status == 0
    monkeypatch.setenv("TUGCODE_STEP", "step-1")
    monkeypatch.setenv("TUGCODE_ATTEMPT", "abc")
    refused = tugcode("-C", repo.path, "--json", "state", "heartbeat", "copies", "step-1")
    assert (refused.status, refused.codes) == (2, ["E070"])


@pytest.mark.parametrize("option", ["--worktree=", "--request-id="])
def test_an_empty_identity_is_refused(repo, tugcode, plan, option):
    refused = tugcode("-C", repo.path, "--json", "state", "claim", "copies", option)
    assert (refused.status, refused.codes) == (2, ["E070"])
