"""S: a claim whose last sign of life is in the future is judged by its lease from now."""

import pytest

from tugtool.system import clock

DAY = 86_400_000


@pytest.fixture
def ahead(monkeypatch):
    """Until it is put right, the clock is a day ahead; returns what puts it right."""
    real = clock.system_milliseconds
    monkeypatch.setattr(clock, "system_milliseconds", lambda: real() + DAY)
    return lambda: monkeypatch.setattr(clock, "system_milliseconds", real)


def claimed_by_hand(play, ahead, seconds: float) -> None:
    """Step 1 is claimed without a process, by a clock that is a day ahead."""
    tree = play.ok("worktree", "create", "work")["worktree_path"]
    play.ok("state", "claim", "work", "--lease-duration", seconds, "--step", "step-1", at=tree)
    ahead()


@pytest.mark.parametrize("words", [(), ("--step", "step-1")])
def test_a_lease_that_a_clock_ahead_gave_ends_within_its_own_length(play, ahead, words):
    play = play("1 t")
    claimed_by_hand(play, ahead, 2)
    other = play.ok("worktree", "create", "work")["worktree_path"]
    # Not at once: its owner may still be at work. But after two seconds.
    first = play.tugcode("state", "claim", "work", *words, at=other)
    assert "claimed" not in first.data or not first.data["claimed"]
    again = play.ok("state", "claim", "work", *words, "--wait", 30, at=other)
    assert (again["claimed"], again["reclaimed_from_expired"]) == (True, True)
    told = [row["kind"] for row in play.rows("select kind from events order by seq")]
    assert told.count("clock_back") == 1


def test_a_run_waits_for_one_lease_and_not_for_as_long_as_the_clock_was_ahead(play, ahead):
    play = play("1 t")
    claimed_by_hand(play, ahead, 2)
    status, told = play.run()
    assert status == 0, told[-1]
    assert play.outcomes("step-1") == ["expired", "completed"]


def test_its_owner_works_on_as_before(play, ahead):
    play = play("1 t")
    claimed_by_hand(play, ahead, 600)
    [tree] = play.trees()
    other = play.ok("worktree", "create", "work")["worktree_path"]
    held = play.ok("state", "claim", "work", at=other)["held_steps"]
    until = clock.milliseconds(held[0]["lease_expires_at"])
    assert until - clock.system_milliseconds() <= 600_000
    play.ok("state", "start", "work", "step-1", at=tree)


def test_doctor_says_so_and_puts_it_right(play, ahead):
    play = play("1 t")
    claimed_by_hand(play, ahead, 600)
    found = play.tugcode("doctor", "--fix").data["checks"]
    [finding] = next(each["findings"] for each in found if each["name"] == "claims")
    assert "ahead" in finding["message"]
    assert finding["fixed"]
