"""Answers by idempotency key: kept for a day, for one caller and one request."""

import pytest

from support.state import KEY
from tugtool import state
from tugtool.errors import Usage
from tugtool.state import requests

WHAT = {"command": "state pause", "request_hash": "1a"}


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
