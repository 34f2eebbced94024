"""The record of dashes: what is asked of it, and what becomes of it in exports and imports."""

import io
import json
import shlex

import pytest

from support.state import KEY, Clock
from tugtool import errors, state
from tugtool.cli import parse
from tugtool.errors import git
from tugtool.errors.state import BadImport
from tugtool.state import dashes, intents
from tugtool.state.dashes import Round
from tugtool.store import open_store

pytestmark = pytest.mark.usefixtures("named_writes")

A, B = "a" * 40, "b" * 64


@pytest.fixture
def stores(tmp_path):
    """Databases, by number."""
    made = []

    def make():
        place = tmp_path / str(len(made))
        place.mkdir()
        made.append(open_store(f"sqlite://{place / 'state.db'}", clock=Clock()))
        return made[-1]

    yield make
    for store in made:
        store.close()


def add(store, name: str, **more) -> dict:
    store.create()
    base = ("main", A)
    dashes.add(store, name, path=f"/r/{name}", base=base, **{"description": None, **more})
    return dict(dashes.require(store, name))


def full(store) -> None:
    """One that goes on, one that was joined, one that was released."""
    one = add(store, "one", description="about \x1b it")
    files = [{"path": "a\udcff", "status": "added"}]
    first = Round(1, instruction="do", summary="did", files=files, commit=B)
    dashes.record(store, one, first, path="/r/one")
    dashes.record(store, one, Round(2), path="/r/one")
    two = add(store, "two", rounds=[Round(1, summary="found", commit=A)])
    dashes.join(store, two["id"], B)
    dashes.release(store, add(store, "three"), "/r/three", salvage_ref="refs/tug/x")


def exported(store, plan: str | None = None) -> list[dict]:
    return [json.loads(line) for line in state.export(store, plan)]


def take(store, lines: list[dict]) -> dict:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return state.import_(store, io.BytesIO(text.encode()), name="x.jsonl")


def rows(lines: list[dict], table: str) -> list[dict]:
    return [line["row"] for line in lines if line.get("table") == table]


def without(row: dict, *fields: str) -> dict:
    return {key: value for key, value in row.items() if key not in fields}


# -- the record ------------------------------------------------------------------------


def test_without_a_database_there_are_no_dashes(stores):
    store = stores()
    assert dashes.every(store, ended=True) == []
    assert intents.list_intents(store, "join") == []
    assert dashes.active(store, "one") is None
    with pytest.raises(git.NoSuchDash):
        dashes.require(store, "one")
    assert not store.exists()


def test_an_active_dash_is_preferred_to_those_that_have_ended(stores):
    store = stores()
    old = add(store, "one")
    dashes.join(store, old["id"], B)
    assert dashes.find(store, "one")["status"] == "joined"
    new = add(store, "one")
    dashes.release(store, new, "/r/one", salvage_ref=None)
    last = add(store, "one")
    assert dashes.find(store, "one")["id"] == last["id"] > new["id"] > old["id"]
    assert [row["id"] for row in dashes.every(store, ended=False)] == [last["id"]]


def test_the_end_is_recorded_once(stores):
    store = stores()
    row = add(store, "one")
    dashes.join(store, row["id"], A)
    dashes.join(store, row["id"], B)
    dashes.release(store, row, "/r/one", salvage_ref="x")
    found = dashes.find(store, "one")
    assert (found["status"], found["joined_commit"], found["salvage_ref"]) == ("joined", A, None)
    with pytest.raises(git.DashEnded, match=f"joined on .* as {A}"):
        dashes.require(store, "one")


def test_a_dash_that_is_recorded_no_more_gets_no_round_and_no_words(stores):
    """An older record was restored while somebody worked in it."""
    store, older = stores(), stores()
    older.create()
    row = add(store, "one")
    acts = (
        lambda: dashes.record(older, row, Round(1), path="/r/one"),
        lambda: dashes.describe(older, row, "about it"),
    )
    for act in acts:
        with pytest.raises(git.NoSuchDash, match='there is no dash "one"'):
            act()


def test_an_end_tells_where_the_work_is(stores):
    store = stores()
    dashes.release(store, add(store, "one"), "/r/one", salvage_ref="refs/tug/x")
    with pytest.raises(git.DashEnded, match="saved as refs/tug/x"):
        dashes.require(store, "one")
    dashes.release(store, add(store, "two"), "/r/two", salvage_ref=None)
    with pytest.raises(git.DashEnded, match=r"it was released on \S+$"):
        dashes.require(store, "two")


def test_blank_words_say_nothing(stores):
    store = stores()
    row = add(store, "one", description=" ")
    dashes.record(store, row, Round(1, instruction="", summary="\n"), path="/r/one")
    (found,) = dashes.rounds(store, row)
    assert (row["description"], found["instruction"], found["summary"]) == (None, None, None)
    dashes.describe(store, row, "now")
    assert dashes.require(store, "one")["description"] == "now"


def test_an_intent_is_of_one_dash_and_goes_with_what_it_was_for(stores):
    store = stores()
    row = add(store, "one")
    for kind in ("dash", "join", "remove"):
        intents.add(store, "", kind, "/r/one", head=A, detail={"x": "\udcff"})
        intents.add(store, "", kind, "/r/two", head=None, detail={})
    dashes.record(store, row, Round(1), path="/r/one")
    assert [each["worktree"] for each in intents.list_intents(store, "dash")] == ["/r/two"]
    intents.drop(store, "", "join", "/r/two")
    assert len(intents.list_intents(store, "join")) == 1
    dashes.release(store, row, "/r/one", salvage_ref=None)
    assert intents.list_intents(store, "join") == []
    assert [each["worktree"] for each in intents.list_intents(store, "remove")] == ["/r/two"]


# -- export and import -----------------------------------------------------------------


def test_an_export_of_everything_has_the_dashes_and_one_of_a_plan_has_not(lab, stores):
    lab = lab("1 t")
    full(lab.store)
    lines = exported(lab.store)
    assert [row["name"] for row in rows(lines, "dashes")] == ["one", "two", "three"]
    assert len(rows(lines, "dash_rounds")) == 3
    assert rows(exported(lab.store, KEY), "dashes") == []
    there = stores()
    answer = take(there, lines)
    assert (answer["tables"]["dashes"], answer["tables"]["dash_rounds"]) == (3, 3)
    assert answer["renumbered"] is False
    assert exported(there)[1:] == lines[1:]


def test_dashes_get_new_numbers_where_theirs_are_taken_and_keep_their_rounds(stores):
    here, there = stores(), stores()
    full(here)
    row = add(there, "mine")
    dashes.record(there, row, Round(1, summary="own"), path="/r/mine")
    lines = exported(here)
    for line in rows(lines, "dashes"):
        line["created_at"] = "2025-01-01T00:00:00.000Z"
    assert take(there, lines)["renumbered"] is True
    for name in ("one", "two", "three", "mine"):
        assert dashes.find(there, name)["rounds"] == {"one": 2, "mine": 1, "two": 1}.get(name, 0)
    was, now = (rows(each, "dash_rounds") for each in (lines, exported(there)))
    assert [without(each, "id", "dash_id") for each in now[1:]] == [
        without(each, "id", "dash_id") for each in was
    ]


def test_a_dash_that_is_here_already_is_not_taken_again(stores):
    here, there = stores(), stores()
    full(here)
    lines = exported(here)
    take(there, lines)
    before = exported(there)[1:]
    with pytest.raises(BadImport, match="dash one, which is recorded here already"):
        take(there, lines)
    for row in rows(lines, "dashes"):
        row["created_at"] = "2025-01-01T00:00:00.000Z"
    with pytest.raises(BadImport, match="dash one"):
        take(there, lines)
    assert exported(there)[1:] == before


def test_a_name_whose_dash_has_ended_here_can_come_again(stores):
    here, there = stores(), stores()
    full(here)
    dashes.join(there, add(there, "one")["id"], A)
    lines = exported(here)
    for row in rows(lines, "dashes"):
        row["created_at"] = "2025-01-01T00:00:00.000Z"
    take(there, lines)
    assert [row["status"] for row in dashes.named(there, "one")] == ["joined", "active"]


@pytest.mark.parametrize(
    ("table", "change", "said"),
    [
        ("dashes", {"name": "../x"}, "impossible name"),
        ("dashes", {"name": "--force"}, "impossible name"),
        ("dashes", {"branch": "main"}, "not the dash's"),
        ("dashes", {"worktree": "/etc"}, "not the dash's"),
        ("dashes", {"base_commit": "--output=x"}, "base_commit that is not a commit hash"),
        ("dashes", {"base_commit": "a" * 41}, "base_commit that is not a commit hash"),
        ("dashes", {"joined_commit": "HEAD"}, "joined_commit that is not a commit hash"),
        ("dashes", {"status": "odd"}, "cannot be"),
        ("dashes", {"ended_at": "2025-01-01T00:00:00.000Z"}, "cannot be"),
        ("dashes", {"extra": 1}, "too many or too few columns"),
        ("dash_rounds", {"dash_id": 99}, "a dash that is not in the file"),
        ("dash_rounds", {"commit_hash": "x"}, "commit_hash that is not a commit hash"),
        ("dash_rounds", {"files": "{"}, "not a list of paths"),
        ("dash_rounds", {"files": "{}"}, "not a list of paths"),
        ("dash_rounds", {"files": '["x"]'}, "not a list of paths"),
        ("dash_rounds", {"files": '[{"path": 1, "status": "added"}]'}, "not a list of paths"),
        ("dash_rounds", {"number": 0}, "cannot be"),
        ("dash_rounds", {"id": 0}, "does not grow"),
    ],
    ids=str,
)
def test_a_row_that_cannot_be_is_refused_and_nothing_is_taken(stores, table, change, said):
    here, there = stores(), stores()
    full(here)
    lines = exported(here)
    rows(lines, table)[0].update(change)
    with pytest.raises(BadImport, match=said):
        take(there, lines)
    assert dashes.every(there, ended=True) == []


# -- refusals --------------------------------------------------------------------------

REFUSALS = [
    git.NoSuchDash("odd ';", close=["fix"]),
    git.NoSuchDash(""),
    git.BadDashName("odd ';", reason="so", close="odd"),
    git.DashEnded("fix", what="joined"),
    git.NotJoined("fix", "so"),
    git.NotJoined("fix", "so", "git status"),
    git.WrongBranch("fix", "so", worktree="odd ';\n$(x)"),
    git.WrongBranch("fix", "so", worktree="x", hint="tugcode dash create fix"),
]


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_every_hint_is_one_command_that_exists_and_is_harmless(error):
    words = shlex.split(error.hint)
    assert words[0] in ("git", "tugcode")
    if words[0] == "tugcode":
        assert parse.parse(words[1:]).command is not None
    assert "force" not in error.hint


def test_the_refusals_are_of_every_class():
    classes = set(git.DashError.__subclasses__())
    assert {type(error) for error in REFUSALS} == classes
    assert all(issubclass(each, errors.TugError) for each in classes)
