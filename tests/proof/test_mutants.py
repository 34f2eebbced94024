"""Every predicate counts: whichever is taken away, the test that the table names fails.

`mutants.json` has a killer for each mutant, and a reason for those that change nothing.
TUG_MUTANTS=search looks for killers anew, among the tests of KILLERS, and writes that table;
TUG_MUTANTS=missing looks only for those of mutants that have none yet:

    TUG_MUTANTS=search .venv/bin/python -m pytest tests/proof/test_mutants.py
"""

import ast
import inspect
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import mutants
import mutating
import pytest

from tugtool.store.sqlite import SqliteTransaction

ROOT = Path(__file__).parent.parent.parent
TABLE = Path(__file__).parent / "mutants.json"
SHELF = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
SUBJECTS = (
    *("decisive", "apart", "claim", "lease", "fencing", "items", "life", "substeps", "holes"),
    *("hosting", "leases", "order", "verify", "reconcile", "report", "review", "archive"),
    *("copies", "worktrees", "told_later"),
)
WORKFLOW = ("intent", "commit", "commit_crash", "reconcile", "merge", "salvage", "verify")
#: Where killers are looked for, and in which order.
KILLERS = (
    *(f"tests/state/test_{subject}.py" for subject in SUBJECTS),
    "tests/store/test_sql.py::test_a_statement_uses_its_index_and_reads_no_more_than_it_must",
    *(f"tests/cli/test_state_{subject}.py" for subject in ("cli", "documents")),
    *(f"tests/workflow/test_{subject}.py" for subject in WORKFLOW),
    "tests/proof/test_machine.py::test_the_same_histories_every_time",
)
#: In the place of a killer.
NOBODY = "NONE"


def table() -> dict[str, dict[str, str]]:
    return json.loads(TABLE.read_text())


def trial(
    tmp_path: Path, job: dict[str, list[str] | None], *tests: str, engine: str = "sqlite"
) -> dict:
    """Have each mutant of the job endure its tests; see `mutating`."""
    place = tmp_path / "job.json"
    place.write_text(json.dumps(job))
    path = os.pathsep.join(str(each) for each in (ROOT / "tests", Path(__file__).parent))
    command = [sys.executable, "-m", "pytest", "-p", "mutating", "-p", "no:xdist", "--no-cov"]
    # Many killers are proofs.
    command += ["-m", ""]
    # Memory, if there is any to write files to: nothing here is about disks.
    with tempfile.TemporaryDirectory(dir=SHELF or tmp_path) as base:
        done = subprocess.run(
            [*command, f"--basetemp={base}/base", *tests],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": path,
                "TUG_MUTANTS_JOB": str(place),
                "TUG_MUTANTS_ENGINE": engine,
            },
            capture_output=True,
            text=True,
        )
    came_of_it = json.loads(place.read_text())
    # A killer that fails anyway is told there; whatever else went wrong, here.
    assert "killers" in came_of_it, done.stdout + done.stderr
    return came_of_it


def search(tmp_path: Path, *, missing: bool = False) -> None:
    """Find a killer for every mutant, and write the table; one that has a reason keeps it."""
    names, known = [each.name for each in mutants.every()], table()
    reasons = {name: why for name, why in known["equivalent"].items() if name in names}
    kept = {
        name: killer
        for name, killer in known["killers"].items()
        if missing and name in names and killer != NOBODY
    }
    job = {name: None for name in names if name not in {**reasons, **kept}}
    found = trial(tmp_path, job, *KILLERS)["killers"] if job else {}
    killers = kept | {name: killer or NOBODY for name, killer in found.items()}
    new = {"killers": dict(sorted(killers.items())), "equivalent": dict(sorted(reasons.items()))}
    TABLE.write_text(json.dumps(new, indent=1, ensure_ascii=False) + "\n")


@pytest.mark.proof(share=1)
def test_whichever_predicate_is_taken_away_a_test_fails(tmp_path, spell):
    if looked_for := os.environ.get("TUG_MUTANTS"):
        search(tmp_path, missing=looked_for == "missing")
    known = table()
    killers = known["killers"]
    job = {name: [killer] for name, killer in killers.items()}
    found = trial(tmp_path, job, *sorted(set(killers.values())))
    assert found["failing"] == [], "these fail without any mutant"
    survived = [name for name, killer in found["killers"].items() if killer is None]
    assert survived == [], "no test notices"
    tests = len(set(killers.values()))
    equivalent = len(known["equivalent"])
    for name, killer in found["killers"].items():
        spell.list(f"{name} -> {killer}")
    for name, why in known["equivalent"].items():
        spell.list(f"{name} changes nothing: {why}")
    spell.tell(f"{len(job)} mutants killed by {tests} tests, {equivalent} that change nothing")


@pytest.mark.proof(share=1)
def test_so_it_does_on_postgresql(tmp_path, spell):
    """Every condition of a statement: Python is the same everywhere."""
    job = {
        name: [killer]
        for name, killer in table()["killers"].items()
        if killer.startswith("tests/state/") and name.startswith("sql")
    }
    # A name without parameters has those of both engines.
    tests = {killer.partition("[")[0] for (killer,) in job.values()}
    found = trial(tmp_path, job, *sorted(tests), engine="postgres")
    assert found["failing"] == [], "these fail without any mutant"
    survived = [name for name, killer in found["killers"].items() if killer is None]
    assert survived == [], "no test notices"
    spell.tell(f"{len(job)} mutants killed by {len(tests)} tests on PostgreSQL")


def test_the_table_has_every_mutant_and_no_other():
    known = table()
    names = [each.name for each in mutants.every()]
    listed = [*known["killers"], *known["equivalent"]]
    assert sorted(set(names) - set(listed)) == [], "nobody has looked for their killers yet"
    assert sorted(set(listed) - set(names)) == [], "there are no such mutants any more"
    assert len(listed) == len(set(listed)) == len(names)
    assert all(len(why) > 20 for why in known["equivalent"].values())


@pytest.mark.proof(share=0)
def test_a_mutant_that_changes_nothing_is_seen_to_survive(tmp_path):
    killer = table()["killers"]["sql.LIVE_STEP: parked_at is null"]
    twice = mutants.SAID_TWICE.name
    found = trial(tmp_path, {twice: [killer], "sql.LIVE_STEP: parked_at is null": [killer]}, killer)
    assert found == {
        "failing": [],
        "killers": {twice: None, "sql.LIVE_STEP: parked_at is null": killer},
    }


@pytest.mark.proof(share=0)
def test_a_killer_that_fails_without_a_mutant_counts_for_nothing(tmp_path):
    planted = tmp_path / "test_planted.py"
    planted.write_text("def test_wrong():\n    assert False\n")
    found = trial(tmp_path, {"sql.LIVE_STEP: parked_at is null": None}, str(planted))
    assert [name.rpartition("::")[2] for name in found["failing"]] == ["test_wrong"]
    assert found["killers"] == {"sql.LIVE_STEP: parked_at is null": None}


def test_statements_are_taken_apart_into_their_conjuncts():
    text = """
    update t set a = b and c where x in (select y from u where p = :p and (q = 1 or r = 2))
       and f(g and h) = 1 and k = 2
     returning a
    """
    found = [text[start:end] for start, end in mutants.predicates(text)]
    inner = "x in (select y from u where p = :p and (q = 1 or r = 2))"
    assert found == [inner, "p = :p", "(q = 1 or r = 2)", "f(g and h) = 1", "k = 2"] or (
        sorted(found) == sorted([inner, "p = :p", "(q = 1 or r = 2)", "f(g and h) = 1", "k = 2"])
    )


def test_joins_have_conjuncts_too_and_a_conflict_has_none():
    text = "select 1 from a join b on b.x = a.x and b.y = a.y where a.z = 1 order by 1"
    found = [text[start:end] for start, end in mutants.predicates(text)]
    assert found == ["b.x = a.x", "b.y = a.y", "a.z = 1"]
    text = "select 1 from a join b on b.x = a.x left join c on c.x = a.x"
    found = [text[start:end] for start, end in mutants.predicates(text)]
    assert found == ["b.x = a.x", "c.x = a.x"]
    text = "insert into a values (1) on conflict (x) do nothing"
    assert list(mutants.predicates(text)) == []


def test_what_finds_a_step_for_its_holder_alone_finds_it_for_anybody():
    tree = ast.parse("def act(tx):\n    top = record.held(tx, anchor, owner=o, attempt=a)")
    (place,) = mutants.places(tree)
    without = ast.unparse(mutants._Without(place).visit(tree))
    assert without == "def act(tx):\n    top = record.family(tx, anchor)"


def test_a_search_sees_statements_where_they_are_run():
    for name in mutating.RUNS_STATEMENTS:
        home, _, function = name.partition(".")
        assert home == SqliteTransaction.__name__
        assert "statement" in inspect.signature(getattr(SqliteTransaction, function)).parameters
