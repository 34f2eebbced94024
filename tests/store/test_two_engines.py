"""One text for two engines: both take every statement, and PostgreSQL reads few rows.

What only one engine reads, and what both read differently, is looked for in the texts
(`test_sql.py` has the words); here both engines get every statement, and rows are counted.
"""

import ast
import os
import pkgutil
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from store import test_sql
from support import engines, postgres_server
from support.state import KEY, Lab, markdown
from tugtool.store import schema, sql
from tugtool.store import sql as package
from tugtool.store.postgres import PostgresStore, create, libpq, translate
from tugtool.store.postgres.transaction import PostgresTransaction

#: How a statement begins; and a word that makes a sentence one.
BEGINS = re.compile(r"\s*(select|insert|update|delete|with)\b")
LIKE = re.compile(
    r"\s*(select|insert|update|delete)\b[^.]*\b(from|into|set|where)\s+[a-z_(]+\b[^.]*$"
)
#: Rooms whose modules hold statements: the shared ones, and those of one engine.
OF_ENGINES = ("store/sql/", "store/postgres/", "store/sqlite/", "store/schema.py")
#: Ordered by what may be null, but only where it is not.
NEVER_NULL = {"LIVE_CLAIM", "LIVE_CLAIMS"}


def _texts(value: object) -> Iterator[str]:
    """All statements in a value of a module."""
    if isinstance(value, str):
        yield from [value] if BEGINS.match(value) else []
    elif isinstance(value, dict):
        yield from (text for each in value.values() for text in _texts(each))
    elif isinstance(value, tuple | list):
        yield from (text for each in value for text in _texts(each))


def _every_text() -> set[str]:
    names = [each.name for each in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]
    modules = [sql, *(__import__(name, fromlist=["x"]) for name in names)]
    return {text for module in modules for value in vars(module).values() for text in _texts(value)}


def test_no_statement_escapes_these_tests():
    known = test_sql.STATEMENTS.values()
    # Some are parts of others.
    assert [text for text in _every_text() if not any(text in each for each in known)] == []


def _literals(source: str) -> list[str]:
    """What looks like a statement in a module that has no business with any."""
    found = [n.value for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant)]
    return [text for text in found if isinstance(text, str) and LIKE.match(text)]


def test_statements_are_nowhere_else():
    for path in test_sql.SOURCES.rglob("*.py"):
        name, text = path.relative_to(test_sql.SOURCES).as_posix(), path.read_text()
        # Only what has the words is read as Python.
        if LIKE.search(text) and not name.startswith(OF_ENGINES):
            assert _literals(text) == [], name


def test_a_statement_elsewhere_is_noticed():
    assert _literals('def f(tx):\n    tx.run("update steps set title = :x")') != []
    assert list(_texts({"a": ("select 1", {"b": "delete from steps"}), "c": "Select a step."})) == [
        "select 1",
        "delete from steps",
    ]


def _refused(store: PostgresStore, statements: dict[str, str]) -> dict[str, str]:
    """Those that PostgreSQL does not even parse, and what it says."""
    connection, said = store.connect(), {}
    # Our own prepared statements would go with those of the test.
    connection.is_direct = False
    path = create._path(store.address.quoted_schema())
    for name, text in statements.items():
        query, _ = translate.numbered(text)
        for each in (b"begin", path.encode(), b"prepare it as " + query, b"rollback"):
            connection.send(each)
        connection.flush()
        outcome = connection.receive(4)[2]
        if isinstance(outcome, libpq.StatementFailed):
            said[name] = str(outcome)
        connection.send(b"deallocate all")
    connection.flush()
    connection.receive(0)
    connection.close()
    return said


@pytest.fixture
def pg(server, lab) -> Lab:
    return lab("1 t", "2 t < 1")


def test_postgresql_takes_every_statement(pg):
    assert _refused(pg.store, test_sql.STATEMENTS) == {}


@pytest.mark.parametrize(
    "text",
    [
        "select 1 where :anchor is null",
        "select title, count(*) from steps group by anchor",
        "select * from steps where attempt = ''",
        "insert or ignore into plans values (:plan)",
        "select ifnull(title, '') from steps",
        'select "step" from steps',
        "select no_such_column from steps",
        "select sum(title) from steps",
    ],
)
def test_a_statement_that_only_sqlite_takes_is_refused(pg, text):
    assert list(_refused(pg.store, {"planted": text})) == ["planted"]


# -- the order of rows -----------------------------------------------------------------


def _nullable() -> dict[str, set[str]]:
    """Table -> its columns that may be null, which the two engines put at opposite ends."""
    found: dict[str, set[str]] = {}
    for table in schema.TABLES:
        if name := create._TABLE.search(table):
            lines = [re.match(r"  (\w+) (text|\{\w+\})(.*)", line) for line in table.split("\n")]
            key = re.search(r"primary key \(([^)]*)\)", table)
            keys = set(key[1].split(", ")) if key else set()
            columns = {m[1] for m in lines if m and not re.search(r"not null|serial", m[0])}
            found[name[1]] = columns - keys
    return found


def _unsure(text: str) -> list[str]:
    """What a statement orders by that may be null, without saying where such rows go."""
    tables = set(re.findall(r"\b(?:from|join)\s+(\w+)", text))
    columns = set().union(*(_nullable().get(table, set()) for table in tables))
    ends = r"\blimit\b|\breturning\b|\bunion\b|\)|$"
    parts = re.findall(rf"order by (.*?)(?={ends})", text, re.S)
    words = [term.split() for part in parts for term in part.split(",")]
    return [w[0] for w in words if w[0].rpartition(".")[2] in columns and "nulls" not in w]


@pytest.mark.parametrize("name", test_sql.STATEMENTS)
def test_rows_are_ordered_alike_where_a_column_may_be_null(name):
    assert _unsure(test_sql.STATEMENTS[name]) == [] or name in NEVER_NULL


def test_an_order_by_what_may_be_null_is_noticed():
    assert _unsure("select * from steps order by step_index, parked_at desc") == ["parked_at"]
    assert _unsure("select * from steps order by parked_at nulls last, anchor") == []
    assert _unsure("select * from step_deps order by step_anchor") == []


def test_every_text_is_compared_byte_by_byte(pg):
    """Whatever the database's own order is: see also the next but one."""
    rows = pg.store.ask(
        b"select c.relname::text, a.attname::text, l.collname::text from pg_attribute a"
        b" join pg_class c on c.oid = a.attrelid join pg_collation l on l.oid = a.attcollation"
        b" where c.relnamespace = $1::regnamespace and a.atttypid = 'text'::regtype",
        pg.store.address.quoted_schema(),
    ).rows
    assert len(rows) > 50
    assert {row[2] for row in rows} == {"C"}


def _english(directory: Path) -> str | None:
    """Make the order of an English dictionary for a server; its name, if that is possible."""
    if shutil.which("localedef") is None:
        return None
    made = ["localedef", "-i", "en_US", "-f", "UTF-8", str(directory / "en_US.UTF-8")]
    done = subprocess.run(made, capture_output=True, check=False)
    return "en_US.UTF-8" if done.returncode == 0 else None


@pytest.fixture
def english(monkeypatch) -> Iterator[Path]:
    """A server whose database orders text as a dictionary does."""
    with tempfile.TemporaryDirectory(prefix="tug-pg-", dir=_memory()) as name:
        os.chmod(name, 0o755)
        locale = _english(Path(name))
        assert locale, "there are no sources of locales; on Debian: apt-get install locales"
        monkeypatch.setenv("LOCPATH", name)
        server = postgres_server.Server(Path(name) / "server", locale=locale)
        server.make()
        server.start()
        server._run("createdb", "-h", str(server.directory), "-U", "postgres", "tugtool")
        yield server.directory
        server.kill()


def _memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@pytest.mark.proof(share=0)
def test_a_database_with_a_dictionarys_order_orders_as_sqlite_does(english, tmp_path):
    names = ["b", "B", "a", "_", "A", "step-10", "step-9", "Step", "z", "Z", "é", "e"]
    text = markdown("1").replace("### Step 1: Part 1\n", _steps(names))
    with engines.on_server(english):
        there = Lab(tmp_path, text=text)
        ask = there.store.ask
        plain = ask(b"select x from unnest($1::text[]) x order by x", "{b,B,a,_}").rows
        assert [row[0] for row in plain] != ["B", "_", "a", "b"], "it is the order of bytes"
    with engines.in_file():
        here = Lab(tmp_path, text=text)
    for statement in (sql.STEPS, "select anchor from steps order by anchor"):
        assert there.rows(statement) == here.rows(statement)
    assert there.rows("select max(anchor) as last from steps") == here.rows(
        "select max(anchor) as last from steps"
    )
    assert there.ready() == here.ready()
    for lab in (there, here):
        lab.store.close()


def _steps(names: list[str]) -> str:
    return "".join(f"### Step {n}: x {{#{name}}}\n\n" for n, name in enumerate(names))


# -- how much a claim reads ------------------------------------------------------------

#: Rows that all statements of a transaction have read so far, its own tables' only.
READ = (
    "select cast(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) as bigint)"
    " from pg_stat_xact_user_tables where schemaname = $1"
)
LARGE, SMALL = 10_000, 40


def _flat(steps: int) -> list[str]:
    return [f"{n} t" for n in range(1, steps + 1)]


def _chain(steps: int) -> list[str]:
    return ["1 t", *(f"{n} t < {n - 1}" for n in range(2, steps + 1))]


def _fan(steps: int) -> list[str]:
    """All wait for the fifth, which nobody completes here: that would be a lot to tell."""
    return [*_flat(5), *(f"{n} t < 5" for n in range(6, steps + 1))]


def _join(steps: int) -> list[str]:
    """The last waits for all."""
    return [*_flat(steps - 1), f"{steps} t < {' '.join(map(str, range(1, steps)))}"]


def _nested(steps: int) -> list[str]:
    """Each with a substep."""
    return [line for n in range(1, steps // 2 + 1) for line in (f"{n} t", f"{n}.1 t")]


SHAPES = {"flat": _flat, "chain": _chain, "fan": _fan, "join": _join, "nested": _nested}
#: A whole table is read, or every step of a plan for each row.
WASTEFUL = re.compile(r"Seq Scan|Bitmap|Join Filter")


class Counted:
    """Counts the rows that each transaction that writes has read when it commits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[int] = []
        commit = PostgresTransaction._commit

        def counting(tx: PostgresTransaction) -> None:
            name = tx._store.address.schema.encode()
            self.rows.append(tx._run((READ.encode(), (name,)))[-1].rows[0][0])
            commit(tx)

        monkeypatch.setattr(PostgresTransaction, "_commit", counting)

    def claims(self, lab: Lab, times: int = 3) -> list[int]:
        """What claims, heartbeats and completions have read, one after the other."""
        self.rows.clear()
        for n in range(times):
            got = self._alone(lab, lab.claim, f"w{n}")
            for act in (lab.beat, lab.close, lab.complete):
                self._alone(lab, act, got["anchor"], f"w{n}")
        return list(self.rows)

    def _alone(self, lab: Lab, act: Callable[..., dict], *words: str) -> dict:
        """On a connection of its own: the server counts for each."""
        lab.store.close()
        return act(*words)


def _of(shape: str, steps: int, directory: Path) -> Lab:
    return Lab(directory / f"{shape}-{steps}", *SHAPES[shape](steps))


def _analyze(lab: Lab) -> None:
    """Its own tables only: other tests, at the same server, begin without statistics."""
    schema = lab.store.address.quoted_schema()
    lab.store.ask(f"analyze {', '.join(f'{schema}.{name}' for name in engines.TABLES)}".encode())


def _plans(lab: Lab) -> dict[str, str]:
    """Every statement of a worker that has to use its index -> the server's plan for it."""
    found = {}
    with lab.store.read(KEY) as tx:
        for name in test_sql.PLANS.keys() & vars(sql):
            query, names = translate.numbered(test_sql.STATEMENTS[name])
            rows = tx._run((b"explain " + query, [b"1" for _ in names]))[-1].rows
            found[name] = "\n".join(str(row[0]) for row in rows)
    return found


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_claim_reads_as_little_of_ten_thousand_steps(server, tmp_path, monkeypatch, shape):
    """Without statistics, and with them: the plan is the same for a plan of any size."""
    # Tables that no other test has used.
    engines.forget()
    labs = {n: _of(shape, n, tmp_path) for n in (SMALL, LARGE)}
    counted = Counted(monkeypatch)
    for is_analyzed in (False, True):
        for lab in labs.values() if is_analyzed else ():
            _analyze(lab)
        little = counted.claims(labs[SMALL], 1)
        assert counted.claims(labs[LARGE], 1) == little
        plans = _plans(labs[LARGE])
        assert [name for name, plan in plans.items() if WASTEFUL.search(plan)] == []
    for lab in labs.values():
        lab.store.close()
        # The next test begins without statistics.
        engines.drop(lab.url)


@pytest.mark.parametrize("missing", ["steps_ready"])
def test_a_missing_index_is_noticed(server, tmp_path, monkeypatch, missing):
    labs = [_of("flat", n, tmp_path) for n in (SMALL, 10 * SMALL)]
    counted = Counted(monkeypatch)
    assert counted.claims(labs[1]) == counted.claims(labs[0])
    for lab in labs:
        lab.store.ask(f"drop index {lab.store.address.quoted_schema()}.{missing}".encode())
    few, many = (counted.claims(lab) for lab in labs)
    assert many[0] > few[0] + 8 * SMALL
    for lab in labs:
        lab.store.close()
        engines.drop(lab.url)
