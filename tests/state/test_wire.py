"""How values travel between a client and its server: whole, or refused."""

import importlib
import json
import math
import sys

import pytest

from tugtool import errors
from tugtool.errors.state import NotReady
from tugtool.state import operations, wire
from tugtool.state.claims import Request
from tugtool.state.completion import Finding
from tugtool.state.history import Reader
from tugtool.state.record import PlanCopy
from tugtool.state.revision_plan import Allowed
from tugtool.state.wire import Asked, RemoteRow, WireReader, written
from tugtool.store.remote import RemoteStore

TIMES = "2026-02-23T12:00:00.000Z", "2026-02-23T12:00:01.000Z"


def sent(value: object, **how) -> object:
    """The value at the other side."""
    return WireReader(**how).value(json.loads(json.dumps(written(value, []))))


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 3, "text", 1.5, math.inf, [1, ["x"]], {"a": {"b": None}}, ("x", 1)),
        *({1, 2}, {("a", 1): 2}, {"$t": 1}, {"a": 1, "b": 2}),
    ],
)
def test_values_travel(value):
    assert sent(value) == value
    assert type(sent(value)) is type(value)


def test_what_is_no_number_travels():
    assert math.isnan(sent(math.nan))


def test_a_row_travels():
    row = sent(RemoteRow(["anchor", "number"], ["step-1", 2]))
    assert (row["anchor"], row[1], len(row), list(row)) == ("step-1", 2, 2, ["step-1", 2])
    assert row.keys() == ["anchor", "number"]
    same = RemoteRow(["anchor", "number"], ["step-1", 2])
    assert row == same
    assert len({row, same}) == 1
    assert row != ["step-1", 2]
    with pytest.raises(IndexError, match="status"):
        row["status"]


def test_objects_travel():
    request = sent(Request("/a/tree", lease_seconds=60, request_id="x"))
    assert (request.owner, request.lease_seconds, request.request_id) == ("/a/tree", 60, "x")
    found = sent(Finding("step-1", 0, passed=True, evidence={"note": None}))
    assert (found.anchor, found.passed, found.evidence) == ("step-1", True, {"note": None})
    assert sent(Allowed(drop_completed=True)) == Allowed(drop_completed=True)
    assert vars(sent(Reader("plan", step="step-1"))) == vars(Reader("plan", step="step-1"))


def test_a_plan_travels_as_its_text():
    from support.state import markdown
    from tugtool.plan import parser

    text = markdown("1 t")
    assert sent(parser.parse(text), text=lambda: text) == parser.parse(text)


def test_a_function_is_asked_where_it_is():
    functions: list = []
    said = written([lambda x: x, (each for each in "ab")], functions)
    assert [function(*words) for function, words in zip(functions, [("y",), ()], strict=True)] == [
        "y",
        ["a", "b"],
    ]
    unknown = WireReader().value(said)
    with pytest.raises(Asked) as caught:
        unknown[0]("x", 1)
    assert (caught.value.which, caught.value.words) == (0, ["x", 1])
    known = WireReader([(0, ["x"], "answer"), (1, [], ["a", "b"])]).value(said)
    assert known[0]("x") == "answer"
    assert list(known[1]) == ["a", "b"]
    with pytest.raises(Asked):
        known[0]("z")
    # Without a place for functions, a sequence is sent as it is.
    assert written((each for each in "ab"), None) == ["a", "b"]


def test_the_time_of_a_transaction_may_differ_between_two_questions():
    knows = WireReader([(0, [TIMES[0]], "answer")]).function(0)
    assert knows(TIMES[1]) == "answer"
    for other in ("x" * 24, 7):
        with pytest.raises(Asked):
            knows(other)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"$q": 1}, "no value with the mark"),
        ({"$p": 1}, "no value with the mark"),
        ({"$o": ["Popen", ["sh"]]}, "no object"),
        ({"$o": ["PlanCopy", {"__class__": 1}]}, "no field"),
    ],
)
def test_what_cannot_travel_is_refused(value, said):
    with pytest.raises(errors.Usage, match=said):
        WireReader().value(value)


def test_a_refusal_travels_with_its_facts():
    error = NotReady("plan", "step-1", owner="red", until=TIMES[0])
    found = wire.read_error(json.loads(json.dumps(wire.written_error(error))))
    assert (type(found), found.message, found.facts) == (NotReady, error.message, error.facts)
    later = {"class": "OfALaterVersion", "code": "E777", "with": {"message": "new"}}
    found = wire.read_error(later)
    assert (type(found), found.code, str(found)) == (errors.TugError, "E777", "new")


def test_a_value_that_is_nested_too_deep_is_refused_before_it_is_sent():
    from tugtool.errors.state import InvalidEntry
    from tugtool.store import owners

    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    store = RemoteStore("http://127.0.0.1:1", machine=owners.Machine("m", "m"))
    with pytest.raises(InvalidEntry, match="nested too deep"):
        operations._asked(store, "checklists/update", [deep], {}, writes=True)


def test_a_copy_travels_with_its_question():
    functions: list = []
    said = written(PlanCopy("/a/plan.md", read=lambda: "hash"), functions)
    copy = WireReader().value(said)
    assert (copy.file, copy.hash) == ("/a/plan.md", None)
    with pytest.raises(Asked):
        copy.now()
    assert "hash" in [function() for function in functions[:1]]


def test_operations_of_a_module_that_is_loaded_later_look_at_their_store_too(monkeypatch):
    from support import served

    name = "tugtool.state.explanation"
    before = importlib.import_module(name)
    operations.install()
    operations.install()
    try:
        monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr("tugtool.state.explanation", before, raising=False)
        later = importlib.import_module(name)
        assert later is not before
        assert [hasattr(each.why, "__wrapped__") for each in (before, later)] == [True, True]
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("tugtool.state.nothing")
    finally:
        monkeypatch.undo()
        served.uninstall()
