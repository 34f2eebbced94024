"""What every run is held against notices each fault that it is there for."""

import os
import sqlite3
import subprocess
from collections.abc import Callable

import pytest

from conftest import git
from support.implement_aftermath import aftermath

PARKED = {"done": ["step-2"], "parked": ["step-1"]}


@pytest.fixture
def ended(play):
    """A run that did one step and parked another, and what it told."""
    play = play("1 t", "2 t")
    play.cast("coder", "reviewer")
    play.rules({"role": "reviewer", "step": "step-1", "answer": {"recommendation": "ESCALATE"}})
    status, told = play.run()
    assert status == 1
    aftermath(play, told, **PARKED, saved={"step-1": ["scripted/step-1.txt"]})
    return play, told


def change(play, statement: str) -> None:
    with sqlite3.connect(play.root / ".tugtool" / "state.db") as connection:
        connection.execute("pragma foreign_keys = off")
        assert connection.execute(statement).rowcount > 0
    connection.close()


def commit_again(play) -> None:
    """The step that is done is done once more."""
    [tree] = play.trees()
    text = git("log", "-1", "--format=%B", play.commits("step-2")[0], cwd=tree)
    git("commit", "--quiet", "--allow-empty", "--message", text, cwd=tree)


def take_commit_away(play) -> None:
    [tree] = play.trees()
    git("reset", "--quiet", "--hard", "HEAD~1", cwd=tree)


def drop_salvage(play) -> None:
    [ref] = git("for-each-ref", "--format=%(refname)", "refs/tug/salvage/", cwd=play.root).split()
    git("update-ref", "-d", ref, cwd=play.root)


def empty_salvage(play) -> None:
    [ref] = git("for-each-ref", "--format=%(refname)", "refs/tug/salvage/", cwd=play.root).split()
    git("update-ref", ref, "main", cwd=play.root)


def leave_work_lying(play) -> None:
    (play.trees()[0] / "forgotten").touch()


def break_an_object(play) -> None:
    name = git("rev-parse", f"{play.commits('step-2')[0]}:code.txt", cwd=play.root).strip()
    path = play.root / ".git" / "objects" / name[:2] / name[2:]
    path.chmod(0o644)
    path.write_bytes(b"no object")


CLAIM = (
    "update steps set status = 'claimed', claimed_by = 'x', claimed_at = created,"
    " lease_expires_at = created, heartbeat_at = created where anchor = 'step-1'"
).replace("created", "'2026-02-23T12:00:00.000Z'")
FAULTS: dict[str, Callable] = {
    "a step is left claimed": lambda play: change(play, CLAIM),
    "an attempt is left open": lambda play: change(
        play, "update attempts set outcome = null, ended_at = null where step_anchor = 'step-1'"
    ),
    "a step is not parked": lambda play: change(
        play, "update steps set parked_at = null, park_reason = null where anchor = 'step-1'"
    ),
    "a step is done twice": commit_again,
    "a step's commit is lost": take_commit_away,
    "a step has another commit": lambda play: change(
        play, "update steps set commit_hash = 'abc' where anchor = 'step-2'"
    ),
    "saved work is lost": drop_salvage,
    "nothing was saved": empty_salvage,
    "work is left lying": leave_work_lying,
    "an event is missing": lambda play: change(play, "delete from events where kind = 'complete'"),
    "git is damaged": break_an_object,
}


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_asked_of_every_run_notices(ended, fault):
    play, told = ended
    FAULTS[fault](play)
    with pytest.raises(AssertionError):
        aftermath(play, told, **PARKED, saved={"step-1": ["scripted/step-1.txt"]}, patience=0)


@pytest.mark.proof(share=0)
def test_what_is_asked_of_every_run_notices_a_process_that_is_left(ended):
    play, told = ended
    left = subprocess.Popen(["sleep", "1000"], cwd=play.trees()[0])
    if not os.path.isdir("/proc/self"):
        # There, only agents are known by their numbers.
        play.log.write_text(f'{play.log.read_text()}{{"pid": {left.pid}}}\n')
    try:
        with pytest.raises(AssertionError):
            aftermath(play, told, **PARKED, patience=0)
    finally:
        left.kill()
        left.wait()


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("event", ["completed", "claimed"])
def test_what_is_asked_of_every_run_notices_a_claim_without_an_end_and_two_ends(ended, event):
    play, told = ended
    more = [each for each in told if each["event"] == event]
    with pytest.raises(AssertionError):
        aftermath(play, [*told, *more], **PARKED)
