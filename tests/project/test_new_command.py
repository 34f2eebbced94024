"""A command that a stranger adds as CONTRIBUTING says: six files by hand, and `make docs`.

The steps of CONTRIBUTING, "A state command, file by file", are carried out in a copy of the
project, and the tests that know all commands are run there.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = "src/tugtool"
MOST_FILES = 6
STATEMENT = '''\
# The step that its holder has had for the longest time.
OLDEST_CLAIM = """
select anchor, title, claimed_at
  from steps
 where plan_path = :plan and parent_anchor is null and status <> 'completed'
   and claimed_at is not null
 order by claimed_at, step_index
 limit 1
"""

'''
FUNCTION = '''\
def oldest(store: Store, plan: str) -> StateOldest:
    """Return the step that is claimed for the longest time, if there is one."""
    with store.read(plan) as tx:
        record.plan_row(tx)
        row = tx.first(sql_views.OLDEST_CLAIM)
    found = None if row is None else str(row["anchor"])
    return {"plan_path": plan, "oldest": found, "since": row and str(row["claimed_at"])}


'''
TEXT = {"type": ["string", "null"]}
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "description": "the step that is claimed for the longest time",
    "properties": {
        "plan_path": {"type": "string", "description": "the plan's key"},
        "oldest": {**TEXT, "description": "the anchor of the step; null if none is claimed"},
        "since": {**TEXT, "description": "when it was claimed"},
    },
    "required": ["plan_path", "oldest", "since"],
    "additionalProperties": False,
}
LINE = '    "state oldest": ("plan look", "show the step that is claimed for the longest time"),\n'
COMMAND = '''\
def state_oldest(call: Call) -> Answer:
    """Show the step that is claimed for the longest time."""
    from tugtool.state import standings

    space = call.workspace()
    data = standings.oldest(space.store, space.plan(call.text("plan")))
    said = "no step is claimed" if data["oldest"] is None else f"{data['oldest']}: {data['since']}"
    return output.answer(data, said)


'''
DECLARED = """\
    Command(
        "state oldest",
        state_oldest,
        "Shows the claimed step whose claim is the oldest. Changes nothing.",
        (ANY_PLAN, WORKTREE),
        examples="tugcode oldest parser  # who takes longest?",
    ),
"""
TEST = '''\
"""oldest: the step that is claimed for the longest time."""

from support.state import KEY
from tugtool.state import standings


def test_the_step_that_was_claimed_first_is_the_oldest(lab):
    here = lab("1 t", "2 t")
    assert standings.oldest(here.store, KEY)["oldest"] is None
    here.claim("red", step="step-2")
    here.clock.advance(60)
    here.claim("blue")
    assert standings.oldest(here.store, KEY)["oldest"] == "step-2"


def test_the_command_says_so(desk):
    here = desk("1 t", "2 t")
    assert here.text("oldest", "work").out == "no step is claimed\\n"
    here.ok("claim", "work")
    assert here.ok("oldest", "work")["oldest"] == "step-1"
'''
#: File -> what is put in front of which text; a file that is not there is made.
BY_HAND = {
    f"{SOURCE}/store/sql/views.py": [("ARTIFACT_COUNTS = ", STATEMENT)],
    f"{SOURCE}/state/standings.py": [
        ("def holders(", FUNCTION),
        ("\nTYPE_CHECKING", "from tugtool.store.sql import views as sql_views\n"),
        ("StateReady\n", "StateOldest, "),
    ],
    f"{SOURCE}/schemas/state-oldest.json": json.dumps(SCHEMA, indent=2) + "\n",
    f"{SOURCE}/cli/parse.py": [('    "state diff": (', LINE)],
    f"{SOURCE}/cli/plan.py": [("_PLAN = Argument(", COMMAND), (")\n\n\n_LONGEST_TITLE", DECLARED)],
    "tests/state/test_oldest.py": TEST,
}
#: What is run there: the new test, and the tests that know all commands.
MAKEFILE = (ROOT / "Makefile").read_text()
TESTS = (
    "tests/state/test_oldest.py",
    *re.search(r"^COMMAND_TESTS := ((?:.*\\\n)*.*)", MAKEFILE, re.M)[1].replace("\\\n", "").split(),
)
#: Of those that run every command one by one, only what the new one may have changed.
CHOSEN = (
    "oldest or not (json_loads or text_loads or answers_as or killed_anywhere or is_found or "
    "page_of_exchanges)"
)


@pytest.fixture
def copy(tmp_path) -> Path:
    """The project, as git would have it, with the new command and nothing else."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    place = tmp_path / "copy"
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
    for name, edits in BY_HAND.items():
        path = place / name
        text = edits if isinstance(edits, str) else path.read_text()
        for before, more in edits if isinstance(edits, list) else []:
            assert text.count(before) == 1, (name, before)
            text = text.replace(before, f"{more}{before}")
        path.write_text(text)
    _install(place)
    return place


def _install(place: Path) -> None:
    """Give the copy a Python of its own, which has the packages of this one."""
    words = [sys.executable, "-m", "venv", "--without-pip", place / ".venv"]
    subprocess.run(words, check=True)
    packages = Path(pytest.__file__).parents[1]
    own = next(place.glob(".venv/lib/python*/site-packages"))
    (own / "copy.pth").write_text(f"{place / 'src'}\n{packages}\n")
    (place / ".venv" / "bin" / "ruff").symlink_to(Path(sys.executable).parent / "ruff")


def run(place: Path, *words: str, **more: str) -> subprocess.CompletedProcess:
    python, environment = str(place / ".venv" / "bin" / "python"), {**os.environ, **more}
    return subprocess.run(
        [python, *words], cwd=place, env=environment, capture_output=True, text=True
    )


def documented(place: Path) -> None:
    """As `make docs` does, by its own words."""
    recipe = re.search(r"^docs:.*\n((?:\t.*\n)+)", (place / "Makefile").read_text(), re.MULTILINE)
    for line in recipe[1].splitlines():
        variables, _, words = line.strip().lstrip("@").partition("$(BIN)/python ")
        done = run(place, *words.split(), **dict(each.split("=") for each in variables.split()))
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.proof(share=0)
def test_a_new_command_takes_six_files_by_hand_and_make_docs(copy):
    assert len(BY_HAND) <= MOST_FILES
    documented(copy)
    for words in (("ruff", "format", "--check", "."), ("ruff", "check", ".")):
        done = run(copy, "-m", *words)
        assert done.returncode == 0, done.stdout
    done = run(copy, "-m", "pytest", "-m", "", "-k", CHOSEN, *TESTS)
    assert done.returncode == 0, done.stdout[-5000:]
    for page, said in (
        ("docs/reference/state.md", "`tugcode oldest parser`"),
        ("docs/reference/server.md", "`state/oldest`"),
        ("docs/reference/server-exchanges.md", "## GET /api/v1/state/oldest"),
        ("docs/internals/guard.md", "`state oldest`"),
        ("CHANGELOG.md", "- `tugcode oldest`: show the step"),
    ):
        assert said in (copy / page).read_text(), page


@pytest.mark.proof(share=0)
def test_without_make_docs_the_new_command_is_noticed_to_be_missing(copy):
    done = run(copy, "-m", "pytest", "tests/project/test_docs.py", "tests/project/test_lists.py")
    assert done.returncode == 1
    for test in ("the_generated_pages_are_up_to_date", "every_list_is_current"):
        assert f"test_{test}" in done.stdout
