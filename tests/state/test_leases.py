"""A claim is renewed before it runs out, and its loss is noticed."""

import contextlib
import sqlite3
from collections.abc import Iterator

import pytest

from support import engines
from support.state import KEY
from tugtool import state
from tugtool.errors.state import QueryFailed
from tugtool.state import leases
from tugtool.state.leases import Keeper
from tugtool.store import open_store
from tugtool.system import clock, process


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


def test_a_claim_that_its_owner_released_is_not_renewed_when_it_is_time(lab, ticks):
    lab = lab("1 t")
    lab.claim(lease_seconds=60)
    kept = keeper(lab)
    lab.release("step-1")
    lab.claim("blue")
    ticks[0] += 20
    assert kept.look() is None
    assert kept.standing == "released"
    assert kept.nap() == leases.LOOK_SECONDS


def test_once_its_claim_has_ended_nobody_looks_at_the_database(lab, ticks, tmp_path):
    lab = lab("1 t")
    lab.claim()
    kept = keeper(lab)
    lab.release("step-1")
    assert not kept.holds()
    kept.store = open_store(f"sqlite://{tmp_path}/nowhere/state.db")
    assert kept.look(closely=True) is None
    assert (kept.standing, kept.trouble) == ("released", None)


def test_a_loss_is_noticed_though_no_change_was_seen(lab, ticks):
    lab = lab("1 t")
    lab.claim()
    kept = keeper(lab)
    assert kept.holds()
    state.reset(lab.store, KEY, "step-1")
    kept.store.wait_for_change(0)
    ticks[0] += leases.READ_SECONDS
    assert not kept.holds()


def test_a_database_that_cannot_be_read_says_nothing_about_the_claim(lab, ticks, tmp_path):
    lab = lab("1 t")
    lab.claim()
    kept = keeper(lab)
    kept.store = open_store(f"sqlite://{tmp_path}/nowhere/state.db")
    assert kept.holds()


@contextlib.contextmanager
def _busy(lab) -> Iterator[None]:
    """Somebody else keeps the lock: of the file another program, of the plan another worker."""
    if engines.is_postgres(lab.url):
        with contextlib.closing(open_store(lab.url)) as store, store.write(KEY) as tx:
            assert tx.now
            yield
        return
    other = sqlite3.connect(lab.url.removeprefix("sqlite://"), isolation_level=None)
    other.execute("begin immediate")
    yield
    other.execute("rollback")
    other.close()


def test_a_database_that_is_busy_says_nothing_about_the_claim_and_is_asked_again(lab, ticks):
    lab = lab("1 t")
    lab.claim(lease_seconds=60)
    kept, before = keeper(lab), until(lab)
    kept.store = open_store(lab.url, clock=lab.clock, busy_seconds=0.05)
    ticks[0] += 20
    lab.clock.advance(20)
    with _busy(lab):
        assert kept.holds()
        assert kept.trouble.code == "E047"
        with pytest.raises(QueryFailed):
            kept.renew()
    assert kept.holds()
    assert kept.trouble is None
    assert until(lab) > before


@pytest.mark.parametrize("how", ["completed", "released"])
def test_a_claim_that_its_owner_has_ended_is_no_longer_held_and_not_lost(lab, ticks, how):
    lab = lab("1 t")
    lab.claim()
    kept = keeper(lab)
    if how == "completed":
        lab.close("step-1")
        lab.complete("step-1")
    else:
        state.release(lab.store, KEY, "step-1", owner="red", attempt=1)
    assert kept.look() is None
    assert (kept.standing, kept.holds()) == (how, False)
    # Nothing is renewed any more, and whoever waits may wait as long as ever.
    ticks[0] += 100
    assert kept.look() is None
    assert kept.nap() == leases.LOOK_SECONDS


def test_how_a_claim_was_lost_is_told_as_often_as_it_is_asked(lab, ticks):
    lab = lab("1 t")
    lab.claim()
    kept = keeper(lab)
    lab.claim("blue", force=True)
    assert [kept.look().code, kept.look().code] == ["E060", "E060"]
    assert kept.standing == "lost"


def test_whoever_looks_closely_sees_what_nothing_told_of(lab, ticks):
    lab = lab("1 t")
    lab.claim()
    kept = keeper(lab)
    assert kept.look() is None
    state.reset(lab.store, KEY, "step-1")
    kept.store.wait_for_change(0)
    assert kept.look() is None
    assert kept.look(closely=True).code == "E060"


def test_a_claim_that_ends_between_looking_and_renewing_is_read_again(lab, ticks, monkeypatch):
    lab = lab("1 t")
    lab.claim(lease_seconds=60)
    kept = keeper(lab)
    assert kept.look() is None
    lab.close("step-1")
    lab.complete("step-1")
    # No notice of it has come yet, so that this one goes straight to the renewal.
    monkeypatch.setattr(kept.store, "wait_for_change", lambda _: False)
    kept._looked = ticks[0] = ticks[0] + 20
    assert kept.look() is None
    assert kept.standing == "held"
    assert kept.look() is None
    assert kept.standing == "completed"


def test_a_lease_that_was_shortened_is_renewed_in_its_own_time(lab, ticks):
    lab = lab("1 t")
    lab.claim(lease_seconds=60)
    kept = keeper(lab)
    assert kept.nap() == leases.LOOK_SECONDS
    state.heartbeat(lab.store, KEY, "step-1", owner="red", attempt=1, lease_seconds=0.3)
    assert kept.holds()
    assert kept.nap() == pytest.approx(0.1)
    before = until(lab)
    ticks[0] += 0.11
    lab.clock.advance(0.11)
    assert kept.holds()
    assert until(lab) > before


def test_a_stamp_tells_whether_its_process_runs():
    own = process.stamp("a")
    assert (process.lives(own), process.ended(own), process.is_own(own)) == (True, False, True)
    dead = own.replace('"holder_start": "', '"holder_start": "1')
    assert (process.lives(dead), process.ended(dead), process.is_own(dead)) == (False, True, False)
    elsewhere = own.replace('"pid_namespace": "', '"pid_namespace": "not-')
    assert (process.lives(elsewhere), process.ended(elsewhere)) == (False, False)
    for other in (None, "a request of somebody's"):
        assert (process.lives(other), process.ended(other)) == (False, False)


def test_a_look_at_a_claim_says_how_it_stands_or_why_that_cannot_be_told(lab, ticks):
    lab = lab("1 t")
    lab.claim(lease_seconds=60)
    kept = keeper(lab)
    assert (kept.read(), kept.standing) == (None, "held")
    lab.reset("step-1")
    assert kept.read().code == "E060"
