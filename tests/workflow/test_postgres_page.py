"""docs/reference/postgres.md: its statements and commands, run on a real server in their order."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from support import engines, postgres_server
from support.state import markdown
from tugtool.store.postgres import PostgresStore

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "postgres.md"
#: A block may be part of a list.
BLOCK = re.compile(r"```(sql|sh)\n(.*?)^ *```", re.S | re.M)
#: A schema of the page, which has another number here.
SCHEMA = re.compile(r"tugtool_shop_[0-9a-f]{8}")


class Reader:
    """Does what the page says, as an administrator, an owner and a worker."""

    def __init__(self, directory: str, repository: Path, tugcode, monkeypatch) -> None:
        self.directory, self.repository = directory, repository
        self.tugcode, self.monkeypatch = tugcode, monkeypatch
        self.mark = f"{os.getpid()}"
        text = self._own(PAGE.read_text())
        self.blocks = [(kind, body) for kind, body in BLOCK.findall(text)]
        self.schema = ""

    def _own(self, text: str) -> str:
        text = re.sub(r"tug_(owner|worker)", rf"tug_\1_{self.mark}", text)
        return re.sub(r"(?<=[/ =])tug(?=[ ;?\n])", f"tug_{self.mark}", text)

    def take(self, kind: str, beginning: str) -> str:
        """The block that begins so; each is taken once."""
        found = [each for each in self.blocks if each[0] == kind and beginning in each[1]]
        assert found, beginning
        self.blocks.remove(found[0])
        return SCHEMA.sub(self.schema or "none", found[0][1])

    def url(self, user: str, database: str = "") -> str:
        name = database or f"tug_{self.mark}"
        return f"postgresql:///{name}?host={self.directory}&user={user}"

    def sql(self, beginning: str, database: str = "") -> None:
        store = PostgresStore(self.url("postgres", database))
        for statement in self.take("sql", beginning).split(";\n")[:-1]:
            store.ask(statement.strip().encode())
        store.close()

    def command(self, beginning: str) -> None:
        """A command of ours, with an address that leads to this server."""
        words = shlex.split(self.take("sh", beginning))
        user = words[0].partition("://")[2].partition("@")[0]
        assert words[0].startswith("TUGCODE_STATE_URL=postgresql://"), words
        self.as_(user)
        given = ["work" if word == "PLAN" else word for word in words[2:]]
        done = self.tugcode("-C", self.repository, *given)
        assert done.status == 0, done.err

    def as_(self, user: str) -> None:
        self.monkeypatch.setenv("TUGCODE_STATE_URL", self.url(user))

    def programs(self, beginning: str) -> None:
        """Programs of PostgreSQL."""
        bins = postgres_server.installed()
        for line in self.take("sh", beginning).splitlines():
            program, *words = shlex.split(line)
            env = {**os.environ, "PGHOST": self.directory, "PGUSER": "postgres"}
            done = subprocess.run(
                [bins / program, *words], cwd=self.repository, env=env, capture_output=True
            )
            assert done.returncode == 0, done.stderr


@pytest.fixture
def reader(repo, tugcode, monkeypatch, tmp_path_factory):
    directory = postgres_server.shared(engines.session_root(tmp_path_factory))
    repo.plan("work", markdown("1 t", "2 t < 1"))
    repo.write({".tugtool/config.toml": '[state]\nrepository = "acme/shop"\n'})
    repo.commit()
    reader = Reader(directory, repo.path, tugcode, monkeypatch)
    yield reader
    admin = PostgresStore(reader.url("postgres", postgres_server.DATABASE))
    admin.ask(f"drop database tug_{reader.mark} with (force)".encode())
    for role in ("owner", "worker"):
        admin.ask(f"drop role tug_{role}_{reader.mark}".encode())
    admin.close()


def test_the_page_can_be_followed(reader, tugcode):
    reader.sql("create role", postgres_server.DATABASE)
    reader.sql("alter default privileges")
    reader.command("init PLAN --create-database")
    owner = PostgresStore(reader.url("postgres"), repository="acme/shop")
    reader.schema = owner.address.schema
    at = ("-C", reader.repository)
    reader.as_(f"tug_worker_{reader.mark}")
    assert tugcode(*at, "state", "claim", "work", "--json").data["claimed"]
    assert tugcode(*at, "state", "update", "work", "step-1", "--all", "completed").status == 0
    assert tugcode(*at, "state", "complete", "work", "step-1").status == 0
    checks = tugcode(*at, "doctor", "--json").data["checks"]
    assert [c["findings"] for c in checks if c["name"] in ("database", "server")] == [[], []]
    # A worker may neither make nor change tables.
    name = owner.address.quoted_schema()
    owner.ask(f"update {name}.repository set version = version - 1".encode())
    refused = tugcode(*at, "state", "claim", "work", "--json")
    assert refused.codes == ["E046"]
    assert "tugcode migrate" in refused.out
    owner.ask(f"update {name}.repository set version = version + 1".encode())
    reader.sql("grant usage on schema")
    reader.command("state migrate")
    assert tugcode(*at, "migrate").status == tugcode(*at, "state", "migrate").status == 0
    shown = tugcode(*at, "state", "show", "work", "--json").data["steps"]
    reader.programs("pg_dump")
    reader.programs("psql --command='drop schema")
    reader.as_(f"tug_worker_{reader.mark}")
    assert tugcode(*at, "state", "show", "work", "--json").data["steps"] == shown
    assert tugcode(*at, "state", "restore", "--json").codes == ["E078"]
    # The state moves into a new database, and a worker may import into tables that are there.
    before = _exported(tugcode, at)
    assert tugcode(*at, "state", "export", "--output", "state.jsonl").status == 0
    owner.ask(f"drop schema {name} cascade".encode())
    (issue,) = tugcode(*at, "import", "state.jsonl", "--json").envelope()["issues"]
    assert issue["hint"] == "tugcode state import FILE --create-database"
    reader.command("import state.jsonl --create-database")
    assert _exported(tugcode, at) == before
    # Not every table refers to plans by a key: a function checks those that many write to.
    every = ", ".join(f"{name}.{table}" for table in engines.TABLES if table != "epoch")
    owner.ask(f"truncate {every} cascade".encode())
    reader.as_(f"tug_worker_{reader.mark}")
    assert tugcode(*at, "state", "import", "state.jsonl").status == 0
    assert _exported(tugcode, at) == before
    owner.close()
    # Nothing on the page was left out.
    assert reader.blocks == []


def _exported(tugcode, at) -> list[str]:
    """The lines of an export without the first, which has the time."""
    done = tugcode(*at, "state", "export")
    assert done.status == 0, done.err
    return done.out.splitlines()[1:]
