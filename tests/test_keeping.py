"""A claim is renewed before it runs out, and its loss is noticed."""

import pytest

from state_fixtures import KEY
from tugtool import clock, holder, keeping, state
from tugtool.keeping import Keeper
from tugtool.store import open_store


@pytest.fixture
def ticks(monkeypatch):
    """The seconds of the clock that nobody sets, set by hand."""
    now = [100.0]
    monkeypatch.setattr(clock, "ticks", lambda: now[0])
    return now


def keeper(lab, **how) -> Keeper:
    how = {"owner": "red", "attempt": 1, "lease_seconds": 60, **how}
    return Keeper(open_store(lab.url, clock=lab.clock), KEY, "step-1", **how)


def until(lab) -> str:
    return lab.rows("select * from steps")[0]["lease_expires_at"]


def test_a_claim_is_renewed_once_a_third_of_its_lease_is_over(lab, ticks):
    lab = lab("1 t")
    lab.claim(lease_seconds=60)
    kept, before = keeper(lab), until(lab)
    lab.clock.advance(19)
    ticks[0] += 19
    assert kept.holds()
    assert until(lab) == before
    lab.clock.advance(1)
    ticks[0] += 1
    assert kept.holds()
    assert until(lab) > before


def test_another_sign_of_life_makes_the_next_renewal_wait(lab, ticks):
    lab = lab("1 t")
    lab.claim(lease_seconds=60)
    kept, before = keeper(lab), until(lab)
    ticks[0] += 19
    kept.renewed()
    ticks[0] += 19
    assert kept.holds()
    assert until(lab) == before


@pytest.mark.parametrize("how", ["reset", "taken", "completed"])
def test_a_lost_claim_is_noticed(lab, ticks, how):
    lab = lab("1 t")
    lab.claim()
    kept = keeper(lab)
    assert kept.holds()
    if how == "reset":
        state.reset(lab.store, KEY, "step-1")
    elif how == "taken":
        lab.claim("blue", force=True)
    else:
        lab.close("step-1")
        lab.complete("step-1")
    assert not kept.holds()


def test_a_loss_is_noticed_though_no_change_was_seen(lab, ticks):
    lab = lab("1 t")
    lab.claim()
    kept = keeper(lab)
    assert kept.holds()
    state.reset(lab.store, KEY, "step-1")
    kept.store.wait_for_change(0)
    ticks[0] += keeping.READ_SECONDS
    assert not kept.holds()


def test_a_database_that_cannot_be_read_says_nothing_about_the_claim(lab, ticks, tmp_path):
    lab = lab("1 t")
    lab.claim()
    kept = keeper(lab)
    kept.store = open_store(f"sqlite://{tmp_path}/nowhere/state.db")
    assert kept.holds()


def test_a_stamp_tells_whether_its_process_runs():
    own = holder.stamp("a")
    assert (holder.lives(own), holder.ended(own), holder.is_own(own)) == (True, False, True)
    dead = own.replace('"holder_start": "', '"holder_start": "1')
    assert (holder.lives(dead), holder.ended(dead), holder.is_own(dead)) == (False, True, False)
    elsewhere = own.replace('"host": "', '"host": "not-')
    assert (holder.lives(elsewhere), holder.ended(elsewhere)) == (False, False)
    for other in (None, "a request of somebody's"):
        assert (holder.lives(other), holder.ended(other)) == (False, False)
