"""Answers by idempotency key: kept for a day, for one caller and one request."""

import pytest

from support.state import KEY
from tugtool import state
from tugtool.errors import Usage
from tugtool.errors.state import PlanChanged
from tugtool.state import requests
from tugtool.state.claims import Request
from tugtool.state.record import PlanCopy

WHAT = {"command": "state pause", "request_hash": "1a"}


@pytest.mark.unserved("the server keeps answers for itself")
def test_an_answer_is_recalled_for_a_day(lab):
    made = lab("1 t")
    assert requests.recall(made.store, "anna", "k", **WHAT) is None
    requests.remember(made.store, "anna", "k", **WHAT, answer="{}")
    assert requests.recall(made.store, "anna", "k", **WHAT) == "{}"
    assert requests.recall(made.store, "bert", "k", **WHAT) is None
    made.clock.advance(requests.KEPT_SECONDS - 1)
    assert requests.recall(made.store, "anna", "k", **WHAT) == "{}"
    made.clock.advance(2)
    assert requests.recall(made.store, "anna", "k", **WHAT) is None
    requests.remember(made.store, "anna", "k", **WHAT, answer="[]")
    assert requests.recall(made.store, "anna", "k", **WHAT) == "[]"


@pytest.mark.unserved("the server keeps answers for itself")
def test_a_key_is_for_one_request(lab):
    made = lab("1 t")
    requests.remember(made.store, "anna", "k", **WHAT, answer="{}")
    for other in ({"request_hash": "2b"}, {"command": "state resume"}):
        with pytest.raises(Usage, match="another request"):
            requests.recall(made.store, "anna", "k", **{**WHAT, **other})


def test_without_a_database_nothing_is_recalled(tmp_path):
    from tugtool.store import open_store

    store = open_store(f"sqlite://{tmp_path}/state.db")
    assert requests.recall(store, "anna", "k", **WHAT) is None


def test_the_last_event_is_numbered(lab):
    made = lab("1 t")
    before = state.last_seq(made.store)
    state.pause(made.store, KEY)
    assert state.last_seq(made.store) == before + 1


@pytest.mark.unserved("requests share it on the server")
def test_a_plan_file_that_requests_share_is_compared_once(lab):
    made, asked = lab("1 t", "2 t", "3 t"), []
    agreed = state.show(made.store, KEY)["plan_hash"]

    def read() -> str:
        asked.append(1)
        return agreed

    shared = requests.SharedCopy(PlanCopy("/plan.md", read=read))
    for owner in ("red", "blue"):
        assert state.claim(made.store, KEY, Request(owner), copy=shared)["claimed"]
    assert len(asked) == 1
    other = requests.SharedCopy(PlanCopy("/plan.md", "another"))
    with pytest.raises(PlanChanged):
        state.claim(made.store, KEY, Request("green"), copy=other)
