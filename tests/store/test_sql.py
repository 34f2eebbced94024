"""The statements: the subset that both engines read alike, all used, each by its index."""

import ast
import re
import sqlite3
from pathlib import Path

import pytest

import tugtool
from tugtool.store import schema, sql
from tugtool.store.sql import git as sql_git
from tugtool.store.sql import publication as sql_publication
from tugtool.store.sql import records as sql_records
from tugtool.store.sql import views as sql_views
from tugtool.store.sqlite import create

SOURCES = Path(tugtool.__file__).parent
HOMES = {"sql": sql, "sql_git": sql_git, "sql_records": sql_records, "sql_views": sql_views}
HOMES |= {"sql_publication": sql_publication}
#: Those that stand there one per table, as `READ events`.
PER_TABLE = ("READ", "KEEP", "RENUMBER", "DELETE", "DROP_OF_STEP")
STATEMENTS = (
    {
        name: text
        for home in HOMES.values()
        for name, text in vars(home).items()
        if name.isupper() and isinstance(text, str)
    }
    | {
        f"{name} {table}": text
        for name in PER_TABLE
        for table, text in vars(sql_records)[name].items()
    }
    | {f"MOVE {number}": text for number, text in enumerate(sql_records.MOVE)}
)
TABLES = {f"table {n}": text for n, text in enumerate(schema.TABLES)}

#: What only one of the engines takes, or takes differently; a pattern in lower case.
FORBIDDEN = {
    "insert or": r"\binsert\s+or\b|\breplace\s+into\b|\bupdate\s+or\b",
    "a write inside with": r"\bwith\b[^;]*\bas\s*\(\s*(insert|update|delete)\b",
    "delete using": r"\bdelete\b[^;]*\busing\b",
    "an aggregate of texts": r"\b(string_agg|group_concat|json_\w+|jsonb?_\w+)\s*\(",
    "greatest, or max of several": r"\b(greatest|least)\s*\(|\b(max|min)\s*\([^()]*,",
    "a bare parameter that may be null": r":[a-z_]+\s+is\s+(not\s+)?null",
    "the engine's clock": r"\bcurrent_(timestamp|date|time)\b|\bnow\s*\(|\b(date|str)f?time\s*\(",
    "a boolean value": r"\b(true|false)\b",
    "a bare sum": r"(?<!cast\()\bsum\s*\(",
    "a row lock": r"\bfor\s+(update|share)\b|\bsavepoint\b",
    "a percent sign": r"%",
    "one engine's operators": r"\bindexed\s+by\b|\bglob\b|\bilike\b|\bregexp\b|\browid\b|::",
    "a statement in upper case": r"\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE)\b",
}

LITERAL = "a colon and a letter in a literal"

#: Statement -> the indexes it may use, by name; automatic ones by the table's name.
PLANS = {
    "LAST_MERGE": ["plan_events"],
    "CLAIMABLE_STEPS": [
        each
        for index in ("steps_held", "steps_ready", "steps_held")
        for each in (index, "key of step_deps", "key of steps", "key of steps")
    ],
    "HOLDERS": ["attempts_held"],
    "LIVE_STEP": ["steps_held"],
    "HELD_STEPS": ["steps_held"],
    "BLOCKED_STEPS": ["steps_blocked"],
    "PARKED_STEPS": ["steps_parked"],
    "DEPENDENTS": ["step_deps_back", "key of steps", "key of steps"],
    "OPEN_NEEDS": ["key of step_deps", "key of steps"],
    "SUBSTEPS": ["steps_family"],
    "CLAIM_SUBSTEPS": ["steps_family"],
    "FREE_SUBSTEPS": ["steps_family"],
    "ITEMS": ["key of checklist_items"],
    "OPEN_ITEMS": ["key of checklist_items"],
    "SET_ITEM": ["key of checklist_items"],
    "PLAN": ["key of plans", "key of plan_counts"],
    "PLAN_TO_CLAIM": [
        *("key of plans", "key of plan_counts", "key of worktrees", "attempts_held"),
        *("key of unsaved", "step_deps_back", "steps_family"),
    ],
    "STEP_TO_COMPLETE": [
        *("key of steps", "key of plans", "key of plan_counts"),
        *("steps_family", "step_deps_back", "key of checklist_items"),
    ],
    "COUNT_PLAN": ["key of plan_counts"],
    "SET_STATUS": ["key of plans"],
    "STEP": ["key of steps"],
    "CLAIM_STEP": ["key of steps"],
    "START_STEP": ["key of steps"],
    "FREE_STEP": ["key of steps"],
    "COMPLETE_STEP": ["key of steps"],
    "PROGRESS": ["key of steps"],
    "SHIFT_OPEN_DEPS": ["key of steps"],
    "SHIFT_DEPENDENTS": ["step_deps_back", "key of steps"],
    "RENEW": ["key of steps", "key of steps", "steps_family", "key of steps"],
    "REOPEN_STEPS": ["key of steps", "key of steps", "steps_family", "key of steps"],
    "SET_MERGED": ["key of plans"],
    "LIVE_CLAIM": ["steps_held"],
    "SET_COMMIT": ["key of steps"],
    "RAISE_ATTEMPT": ["key of steps"],
    "ATTEMPT": ["key of attempts"],
    "ATTEMPT_BEFORE": ["key of attempts"],
    "ATTEMPT_ELSEWHERE": ["key of attempts"],
    "RAISE_ATTEMPTS": ["key of steps"],
    "SEEN": ["key of attempts"],
    "END_ATTEMPT": ["key of attempts"],
    "STEP_ATTEMPTS": ["key of attempts"],
    "REQUESTED": ["attempt_requests"],
    "RECOUNT_PLAN": ["key of plan_counts"],
    "REVISE_PLAN": ["key of plans"],
    "PLACE_STEP": ["key of steps"],
    "START_STEP_OVER": ["key of steps"],
    "MOVE_ITEMS_AWAY": ["key of checklist_items"],
    "ARTIFACTS": ["step_artifacts_step"],
    "EVENTS": ["plan_events"],
    "PLAN_EVENTS": ["plan_events", "steps_family"],
    "PLAN_TAIL": ["plan_events", "steps_family"],
    "ANY_EVENT": ["plan_events"],
    "LAST_PAUSE": ["plan_events"],
    "LAST_REOPENED": ["plan_events"],
    "LAST_RESET": ["plan_events"],
    "LAST_FAILURE": ["plan_events", "key of attempts"],
    "LAST_WORD": ["step_artifacts_step"],
    "DEFERRED_ITEMS": ["items_deferred", "key of steps", "key of steps"],
    "ATTEMPT_AT": ["key of attempts"],
    "SET_ROLE": ["key of attempts"],
    "LIVE_CLAIMS": ["steps_held"],
    "LAST_EVENT": ["plan_events"],
    "READ events": ["plan_events"],
    "READ attempts": ["key of attempts"],
    "READ step_deps": ["key of step_deps"],
    "NESTED_TOO_DEEP": ["steps_family", "key of steps"],
    "HELD_OTHERWISE": ["steps_family", "key of steps"],
    "ATTEMPTS_ASTRAY": ["key of steps", "key of attempts"],
    "PARKED_UNTRIED": ["steps_parked"],
    "SET_OPEN_DEPS": ["key of steps"],
    "SET_COUNTS": ["key of plan_counts"],
    "NEEDS": ["key of step_deps", "key of steps", "key of steps"],
    "END_RESERVATION": ["key of worktrees"],
    "RESERVE": ["key of worktrees"],
    "READY_STEPS": ["steps_ready"],
    "SET_PUBLISH_PROBLEM": ["key of unpublished"],
    "UNPUBLISHED": ["key of unpublished", "key of steps", "key of worktrees"],
    "WORKTREES_OF": ["worktrees_of"],
    "HELD_BY": ["steps_held"],
    "SET_SALVAGE": ["key of attempts"],
    "SET_USAGE": ["key of attempts"],
    "FREE_WORKTREE": ["key of worktrees"],
    "ANY_UNSAVED": ["key of unsaved"],
    "UNSAVED": ["key of unsaved"],
    "DROP_UNSAVED": ["key of unsaved"],
    "SALVAGES": ["key of attempts"],
    "STANDING": ["key of attempts", "key of steps"],
    "SET_HOLDER": ["key of attempts"],
    "RELEASED_BY": ["plan_events"],
    "SET_BASE": ["key of plans"],
    "INTENT": ["key of intents"],
    "CHANGE_COMMIT_INTENT": ["key of intents"],
    "DROP_COMMIT_INTENT": ["key of intents"],
}
#: Searched by the plan alone, because their index holds only what they ask for.
WHOLE_INDEX = {
    "CLAIMABLE_STEPS",
    "READY_STEPS",
    "UNPUBLISHED",
    "HOLDERS",
    "BLOCKED_STEPS",
    "PARKED_STEPS",
    "EVENTS",
    "PLAN_TAIL",
    "ANY_EVENT",
    "LAST_PAUSE",
    "LAST_MERGE",
    "LAST_REOPENED",
    "LAST_RESET",
    "LAST_FAILURE",
    "RAISE_ATTEMPTS",
    "DEFERRED_ITEMS",
    "LAST_EVENT",
    "READ events",
    "READ attempts",
    "READ step_deps",
    "NESTED_TOO_DEEP",
    "HELD_OTHERWISE",
    "ATTEMPTS_ASTRAY",
    "PARKED_UNTRIED",
    "WORKTREES_OF",
    # Nearly always empty, and never long.
    "ANY_UNSAVED",
    "PLAN_TO_CLAIM",
    "UNSAVED",
    # The step's own plan.
    "STEP_TO_COMPLETE",
    "RELEASED_BY",
}
#: What yields one row at most, and so can be read as a whole.
ONE_ROW = {"SCAN own", "SCAN ready"}
#: They sort what they found, which is as much as they have to read anyway.
SORTED = {"UNSAVED", "DEPENDENTS", "OPEN_NEEDS", "DEFERRED_ITEMS", "HELD_STEPS", "LIVE_STEP"}
SORTED |= {"UNPUBLISHED", "LIVE_CLAIM", "LIVE_CLAIMS"}


@pytest.fixture
def database():
    """All tables, no rows, no statistics: as the planner meets them."""
    connection = sqlite3.connect(":memory:")
    for statement in schema.TABLES:
        connection.execute(statement.format(**create.DIALECT))
    yield connection
    connection.close()


def _offences(text: str) -> list[str]:
    found = [name for name, pattern in FORBIDDEN.items() if re.search(pattern, text)]
    literals = text.split("'")[1::2]
    return found + [LITERAL for each in literals if re.search(r":[a-z]", each)]


def _plan(database, statement: str) -> list[str]:
    names = dict.fromkeys(re.findall(r":([a-z_]+)", statement), 1)
    return [row[3] for row in database.execute(f"explain query plan {statement}", names)]


def _indexes(plan: list[str]) -> list[str]:
    found = [re.search(r"USING (?:COVERING )?INDEX (\w+)", line) for line in plan]
    names = [match[1] for match in found if match]
    return [re.sub(r"^sqlite_autoindex_(\w+)_\d+$", r"key of \1", name) for name in names]


@pytest.mark.parametrize("name", [*STATEMENTS, *TABLES])
def test_a_statement_keeps_to_what_both_engines_read_alike(name):
    assert _offences({**STATEMENTS, **TABLES}[name]) == []


@pytest.mark.parametrize(
    ("offence", "text"),
    [
        ("insert or", "insert or ignore into plans values (:plan)"),
        ("a write inside with", "with gone as (delete from steps returning *) select * from gone"),
        ("delete using", "delete from steps using plans where true"),
        ("an aggregate of texts", "select group_concat(anchor) from steps"),
        ("greatest, or max of several", "select max(a, b) from steps"),
        ("a bare parameter that may be null", "select 1 where :anchor is null"),
        ("the engine's clock", "update plans set updated_at = current_timestamp"),
        ("a boolean value", "update plans set done = true"),
        ("a bare sum", "select sum(attempt) from steps"),
        ("a row lock", "select * from steps for update"),
        ("a percent sign", "select 1 where anchor like 'step%'"),
        (LITERAL, "select 'a:b'"),
        ("one engine's operators", "select * from steps indexed by steps_ready"),
        ("a statement in upper case", "SELECT 1"),
    ],
)
def test_the_scan_notices(offence, text):
    assert offence in _offences(text)


def test_the_scan_lets_pass_what_both_engines_take():
    text = "select cast(sum(n) as bigint), max(n), count(*) filter (where n > 1) from steps"
    assert _offences(f"{text} where cast(:x as text) is null limit :most") == []


def test_a_table_uses_only_the_words_that_differ_between_engines():
    words = {word for text in schema.TABLES for word in re.findall(r"{(\w+)}", text)}
    assert words == set(create.DIALECT)


def test_every_statement_is_used_and_every_use_exists():
    used = set()
    # Most files use none: only the others are read as Python.
    use = re.compile(rf"\b(?:{'|'.join(HOMES)})\s*\.\s*\w")
    # The events are read by tests, and by people with any tool, until a command lists them.
    paths = [*SOURCES.rglob("*.py"), *Path(__file__).parents[1].rglob("*.py")]
    for text in filter(use.search, (path.read_text() for path in paths)):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used |= {node.attr} if node.value.id in HOMES else set()
    others = {"COLUMNS", "DASH_COLUMNS", "LOCAL_TABLES", "NUMBERED"}
    names = {name.partition(" ")[0] for name in STATEMENTS} | others
    assert used == names


def test_every_statement_is_understood(database):
    for statement in STATEMENTS.values():
        _plan(database, statement)


@pytest.mark.parametrize("name", PLANS)
def test_a_statement_uses_its_index_and_reads_no_more_than_it_must(database, name):
    # As it reads now: whoever takes a condition away may lose its index.
    homes = [vars(home) for home in HOMES.values() if name in vars(home)]
    plan = _plan(database, homes[0][name] if homes else STATEMENTS[name])
    assert _indexes(plan) == PLANS[name]
    assert not [line for line in plan if line.startswith("SCAN") and line not in ONE_ROW]
    assert ("USE TEMP B-TREE FOR ORDER BY" in plan) == (name in SORTED)
    by_plan_alone = [line for line in plan if line.endswith("(plan_path=?)")]
    one_row_a_plan = set(PLANS[name]) <= {"key of plans", "key of plan_counts"}
    assert bool(by_plan_alone) == (name in WHOLE_INDEX or one_row_a_plan)


#: For people who look at a plan; the others are for workers, or for all plans.
VIEWS = {name for name, text in STATEMENTS.items() if name in vars(sql_views) and ":plan" in text}


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_a_view_of_a_plan_reads_no_table_from_end_to_end(database, name):
    assert [line for line in _plan(database, STATEMENTS[name]) if line.startswith("SCAN")] == []


def test_the_check_notices_a_view_that_reads_every_plan(database):
    wrong = "select anchor from steps where plan_path || '' = :plan order by claimed_at limit 1"
    assert [line for line in _plan(database, wrong) if line.startswith("SCAN")]


def test_every_statement_that_changes_rows_or_takes_just_one_has_its_plan_asserted():
    changing = {n for n, text in STATEMENTS.items() if text.lstrip().startswith("update")}
    single = {n for n, text in STATEMENTS.items() if "limit" in text} - VIEWS
    plan = "where plan_path = :plan"
    keys = {"update plans": plan, "update steps": f"{plan} and anchor = :anchor"}
    by_key = {
        name
        for name, text in STATEMENTS.items()
        for table, key in keys.items()
        if text.split()[:2] == table.split() and text.rstrip().endswith(key)
    } | {"PLACE_ITEM"}
    # Of all events, by their number.
    by_key |= {"ALL_EVENTS", "ALL_TAIL", "NEWEST_EVENT", "NEW_EPOCH"}
    # Of all dashes, by their number.
    by_key |= {"DESCRIBE_DASH", "TOUCH_DASH", "END_DASH"}
    # A table of one row.
    by_key |= {"NEW_EPOCH"}
    # A whole plan, which has to be read to the end.
    by_key |= {name for name in STATEMENTS if name.startswith("MOVE ")}
    assert changing | single <= set(PLANS) | by_key


def test_the_check_notices_an_index_that_is_gone(database):
    database.execute("drop index steps_ready")
    assert _indexes(_plan(database, sql.CLAIMABLE_STEPS)) != PLANS["CLAIMABLE_STEPS"]
    database.execute("drop index step_deps_back")
    assert _indexes(_plan(database, sql.DEPENDENTS)) != PLANS["DEPENDENTS"]


def test_plans_stay_the_same_however_many_rows_there_are(database):
    """Nobody runs `analyze` on this database: statistics would change the plans."""
    without = {name: _plan(database, STATEMENTS[name]) for name in PLANS}
    time = "2026-01-01T00:00:00.000Z"
    database.execute(sql_records.ADD_PLAN, dict.fromkeys(["title"]) | _plan_values(time))
    rows = [_step_values(n) for n in range(2000)]
    database.executemany(sql_records.ADD_STEP, rows)
    assert {name: _plan(database, STATEMENTS[name]) for name in PLANS} == without
    assert not [p for p in SOURCES.rglob("*.py") if re.search(r"\banalyze\b", p.read_text())]


def _plan_values(time: str) -> dict[str, object]:
    return {"plan": "p", "hash": "h", "now": time, "text": "", "base_commit": None}


def _step_values(n: int) -> dict[str, object]:
    values = {"plan": "p", "anchor": f"step-{n}", "parent": None, "step_index": n}
    return values | {"title": "x", "open_deps": min(n, 1)}
