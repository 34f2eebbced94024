"""Every refusal of these commands can be reached, says the same in text and in JSON, and its
hint is a harmless command that exists."""

import inspect
import shlex
import sqlite3

import pytest

from support import engines
from support.state import KEY, Desk
from tugtool import errors
from tugtool.cli import parse
from tugtool.errors import state
from tugtool.store import schema

PLAN = "1 t", "1.1 t", "2 t < 1"


def held(desk: Desk) -> None:
    desk.ok("claim", "work")


def completed(desk: Desk) -> None:
    held(desk)
    desk.ok("complete", "work", "step-1", "--force", "r")


def changed(desk: Desk) -> None:
    (desk.red / ".tugtool" / "tugplan-work.md").write_text("### Step 1: Other\n")


def parked(desk: Desk) -> None:
    held(desk)
    desk.ok("release", "work", "step-1", "--park", "--reason", "no access")


def items_of_substeps_open(desk: Desk) -> None:
    held(desk)
    desk.ok("update", "work", "step-1", "--all", "completed")


def database(desk: Desk):
    return desk.repo.path / ".tugtool" / "state.db"


def not_a_database(desk: Desk) -> None:
    for path in database(desk).parent.glob("state.db*"):
        path.unlink()
    database(desk).write_text("some notes of mine\n" * 100)


def newer(desk: Desk) -> None:
    if desk.repository:
        store = desk.opened()
        name = store.address.quoted_schema()
        store.ask(f"update {name}.repository set version = {schema.VERSION + 1}".encode())
        store.close()
        return
    connection = sqlite3.connect(database(desk))
    connection.execute(f"pragma user_version = {schema.VERSION + 1}")
    connection.close()


def renamed(desk: Desk) -> None:
    desk.plan.rename(desk.plan.with_name("tugplan-new.md"))
    for tree in (desk.red, desk.blue):
        (tree / KEY).unlink()


def failing(desk: Desk) -> None:
    connection = sqlite3.connect(database(desk))
    connection.execute("drop table events")
    connection.close()


def elsewhere(desk: Desk) -> None:
    desk.setenv("TUGCODE_STATE_URL", "postgresql://nowhere.invalid/x")
    desk.repo.write({".tugtool/config.toml": '[state]\nrepository = "a/b"\n'})


def nothing(desk: Desk) -> None:
    pass


def blue_holds(desk: Desk) -> None:
    desk.ok("claim", "work", at=desk.blue)


def worker(desk: Desk) -> None:
    desk.setenv("TUGCODE_ATTEMPT", "1")


def exported(desk: Desk) -> None:
    desk.ok("export", "--output", "../../x")


def cut_off(desk: Desk) -> None:
    exported(desk)
    path = desk.repo.path / "x"
    path.write_text(path.read_text().split("\n")[0] + "\n")


def completed_and_rewritten(desk: Desk) -> None:
    completed(desk)
    changed(desk)


CASES = [
    ("E041", 1, nothing, ("claim", "elsewhere"), 'no plan is called "elsewhere"'),
    ("E044", 1, completed_and_rewritten, ("init", "work", "--force"), "step-1: it is completed"),
    ("E048", 1, changed, ("claim", "work"), "has changed since the plan was initialised"),
    ("E049", 4, blue_holds, ("start", "work", "step-1"), "step-1 is held by"),
    ("E050", 1, nothing, ("start", "work", "step-1"), "step-1 is pending; it has to be claimed"),
    ("E050", 1, completed, ("update", "work", "step-1", "--all", "open"), "step-1 is completed"),
    ("E051", 1, held, ("complete", "work", "step-1"), "2 open items: step-1 task 0"),
    ("E052", 1, items_of_substeps_open, ("complete", "work", "step-1"), "step-1-1 task 0"),
    ("E053", 1, nothing, ("claim", "work", "--step", "step-2"), "step-2 waits for step-1"),
    ("E053", 1, blue_holds, ("claim", "work", "--step", "step-1"), "step-1 is held by"),
    ("E059", 1, nothing, ("reset", "work", "step-3"), "has no step step-3; closest: step-"),
    ("E060", 4, held, ("start", "work", "step-1", "--attempt", "7"), "attempt 1 is current"),
    ("E063", 1, nothing, ("claim", ".tugtool/tugplan-second.md"), "has no state yet"),
    ("E064", 1, exported, ("import", "../../x"), "have a state here already: .tugtool/tugplan-w"),
    ("E065", 1, newer, ("claim", "work"), "made by a newer Tugtool"),
    ("E066", 1, held, ("update", "work", "step-1", "--task", "7", "open"), "valid: 0 to 0"),
    ("E066", 1, held, ("update", "work", "step-1", "--task", "x", "open"), "there is no task 'x'"),
    ("E066", 1, held, ("update", "work", "step-1", "--task", "0", "done"), "no status 'done'"),
    ("E067", 1, parked, ("claim", "work", "--step", "step-1"), "is parked since"),
    ("E068", 1, worker, ("review", "--accept", "--step", "step-1"), "is for people"),
    ("E069", 1, cut_off, ("import", "../../x"), "../../x:2 is cut off"),
    ("E078", 1, elsewhere, ("restore",), "needs a state in a file"),
    ("E094", 1, renamed, ("init", "new"), "has the text of .tugtool/tugplan-work.md"),
    ("E070", 2, nothing, ("claim", "work", "--stp", "x"), "did you mean --step"),
]


#: What is wrong with a file.
FILE_CASES = [
    ("E046", 1, not_a_database, ("claim", "work"), "state.db"),
    ("E047", 1, failing, ("claim", "work"), "no such table"),
    ("E077", 1, nothing, ("restore",), "is sound and complete"),
]
GIVEN = ("code", "status", "prepare", "words", "said")


@pytest.mark.parametrize(GIVEN, CASES, ids=[case[0] for case in CASES])
def test_every_refusal_can_be_reached_in_text_and_in_json(desk, code, status, prepare, words, said):
    if engines.current() == "served" and words[0] == "import":
        code, said = "E078", "needs a state in a file"
    _is_refused(desk(*PLAN), code, status, prepare, words, said)


@pytest.mark.file
@pytest.mark.parametrize(GIVEN, FILE_CASES, ids=[case[0] for case in FILE_CASES])
def test_so_can_those_of_a_file(desk, code, status, prepare, words, said):
    _is_refused(desk(*PLAN), code, status, prepare, words, said)


def _is_refused(desk: Desk, code: str, status: int, prepare, words: tuple, said: str) -> None:
    desk.repo.write({".tugtree/red/.tugtool/tugplan-second.md": "### Step 1: Second\n"})
    prepare(desk)
    refused = desk.json(*words)
    assert (refused.status, refused.codes) == (status, [code])
    envelope = refused.envelope()
    assert (envelope["status"], envelope["data"]) == ("error", {})
    issue = envelope["issues"][0]
    assert said in issue["message"]
    assert issue["hint"]
    text = desk.text(*words)
    assert (text.status, text.out) == (status, "")
    # A server in this process logs there too.
    err = "".join(line for line in text.err.splitlines(True) if not line.startswith('{"at": '))
    assert err.startswith(f"tugcode: {code}: ")
    assert said in err
    assert err.endswith(f"{issue['hint']}\n")


def test_the_cases_cover_every_class_of_the_state():
    reached = {case[0] for case in (*CASES, *FILE_CASES)}
    assert {each.code for each in classes() if each.code} <= reached


def classes() -> list[type[errors.TugError]]:
    found = []
    for home in (state, state):
        members = [each for _, each in inspect.getmembers(home, inspect.isclass)]
        found += [each for each in members if each.__module__ == home.__name__]
    return found


ODD = "odd 'plan' ;.md"
EXAMPLES = [
    state.RevisionRefused(ODD, refusals=[{"step": "step-1", "why": "w", "flag": "f"}]),
    state.PlanChanged(ODD, file="f", agreed="a", found="b"),
    state.PlanChanged(ODD, file="f", agreed="a", found=None, renamed_to=f"new {ODD}"),
    state.PlanRenamed(ODD, recorded=f"old {ODD}"),
    state.NotOwner(ODD, "step-1", owner="red", caller="blue"),
    state.WrongStatus(ODD, "step-1", status="pending", needed="claim it"),
    state.WrongStatus(ODD, None, status="done", needed="more"),
    state.ItemsOpen(ODD, "step-1", items=[]),
    state.SubstepItemsOpen(ODD, "step-1", items=[]),
    state.NotReady(ODD, "step-1", waiting_for=["step-2"]),
    state.NotReady(ODD, "step-1", dependents=["step-2"]),
    state.Superseded(ODD, "step-1", attempt=1, current=2),
    state.Superseded(ODD, "step-1", attempt=1, current=1),
    state.PlanNotInitialised(ODD),
    state.PlanNotInitialised(None),
    state.InvalidEntry("odd"),
    state.InvalidEntry("odd", command="artifact"),
    state.InvalidEntry("odd", command="complete"),
    state.StepParked(ODD, "step-1", reason="r", parked_at="now"),
    state.NewerDatabase("f", found=11, known=10),
    state.PeopleOnly("review --accept"),
    state.NothingLost(ODD),
    state.OnlyForFiles("state restore", instead="a dump"),
    state.PlansRecorded([ODD]),
    state.BadImport("f", "is cut off", line=2),
    state.InvalidEntry("odd", command="review"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_every_hint_that_is_a_command_parses_and_is_harmless(error):
    program, *words = shlex.split(error.hint)
    assert program == "tugcode"
    call = parse.parse(words)
    assert call.command is not None
    assert (
        call.command.path
        in (
            "state show",
            "state diff",
            "state restore",
            "state ready",
            "state why",
            "state init",
            "state move",
            "state update",
            "state artifact",
            "state complete",
            "state review",
            "state import",
            "validate",
            "version",
            "config",
            "list",
        )
        or words[-1] == "--help"
    )
    changing = ("state update", "state artifact", "state complete", "state import")
    assert call.help or call.path not in changing
    assert "--force" not in words


def test_the_examples_are_of_every_class_that_names_a_command():
    other = {"DatabaseUnavailable", "QueryFailed", "DatabaseError", "StateError", "StepError"}
    shown = {type(error).__name__ for error in EXAMPLES}
    assert shown == {each.__name__ for each in classes()} - other


def test_no_message_suggests_a_forced_or_destructive_command():
    source = inspect.getsource(state) + inspect.getsource(state)
    for word in ("--force", "state reset", "state reopen", "state release", "reconcile"):
        assert word not in source
