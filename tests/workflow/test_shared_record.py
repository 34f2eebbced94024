"""Commands on a state in PostgreSQL: how it is chosen, made, shared, and what it refuses."""

import os
import re
import tempfile
from pathlib import Path

import pytest

from conftest import Repo
from support import engines, postgres_server
from support.postgres_server import Server
from support.racing import until
from support.state import markdown
from tugtool.store.postgres import PostgresStore, health
from tugtool.system import clock
from tugtool.workflow.doctor import record
from tugtool.workflow.shared_record import normalised

CONFIG = ".tugtool/config.toml"


@pytest.fixture
def url(tmp_path_factory, tmp_path, monkeypatch):
    """A database on the tests' server, whose schemas are this test's own."""
    directory = postgres_server.shared(engines.session_root(tmp_path_factory))
    name = f"shared_{os.getpid()}_{abs(hash(str(tmp_path)))}"
    url = f"postgresql:///{postgres_server.DATABASE}?host={directory}&user=postgres&schema={name}"
    monkeypatch.setenv("TUGCODE_STATE_URL", url)
    return url


@pytest.fixture
def shared(repo, url):
    """A repository whose state is in PostgreSQL, with the plan `work`."""
    repo.plan("work", markdown("1 t", "2 t < 1"))
    repo.write({CONFIG: '[state]\nrepository = "team/shop"\n'})
    repo.commit()
    return repo


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("git@github.com:acme/shop.git", "github.com/acme/shop"),
        ("https://ada:token@GitHub.com/acme/shop.git/", "github.com/acme/shop"),
        ("ssh://git@github.com:22/acme/shop", "github.com/acme/shop"),
        ("ssh://git@[FD00::7]:22/acme/shop.git", "[fd00::7]/acme/shop"),
        ("/srv/git/shop.git", "/srv/git/shop"),
        ("../shop/", "../shop"),
        ("file:///srv/git/shop.git", "/srv/git/shop"),
        ("", ""),
    ],
)
def test_all_addresses_of_a_remote_are_one_name_without_credentials(url, name):
    assert normalised(url) == name


def test_a_plan_is_carried_out_without_any_file(shared, tugcode):
    at = ("-C", shared.path)
    refused = tugcode(*at, "state", "init", "work", "--json")
    assert refused.codes == ["E046"]
    assert "has no tables for this repository" in refused.out
    assert "state init PLAN --create-database" in refused.out
    assert tugcode(*at, "state", "init", "work", "--create-database").status == 0
    assert tugcode(*at, "state", "claim", "work", "--json").data["anchor"] == "step-1"
    assert tugcode(*at, "state", "update", "work", "step-1", "--all", "completed").status == 0
    assert tugcode(*at, "state", "complete", "work", "step-1", "--json").data["completed"]
    shown = tugcode(*at, "state", "show", "work", "--json").data
    assert [step["status"] for step in shown["steps"]] == ["completed", "pending"]
    assert tugcode(*at, "status", "--json").status == 0
    assert not (shared.path / ".tugtool" / "state.db").exists()


def test_clones_of_one_repository_share_one_state(shared, tugcode, tmp_path):
    tugcode("-C", shared.path, "state", "init", "work", "--create-database")
    shared.git("clone", "--quiet", str(shared.path), str(tmp_path / "clone"))
    assert tugcode("-C", tmp_path / "clone", "state", "claim", "work", "--json").data["claimed"]
    seen = tugcode("-C", shared.path, "state", "show", "work", "--json").data
    assert seen["steps"][0]["status"] == "claimed"


def test_a_clone_is_named_by_its_origin(shared, tugcode, tmp_path):
    shared.write({CONFIG: ""})
    shared.commit()
    for name in ("one", "two"):
        shared.git("clone", "--quiet", str(shared.path), str(tmp_path / name))
    done = tugcode("-C", tmp_path / "one", "state", "init", "work", "--create-database")
    assert done.status == 0, done.err
    assert tugcode("-C", tmp_path / "two", "state", "claim", "work", "--json").data["claimed"]
    alone = tugcode("-C", shared.path, "state", "show", "work", "--json")
    assert alone.codes == ["E071"]
    assert "state.repository is not set" in alone.out


def test_another_history_under_the_same_name_is_told(shared, tugcode, tmp_path):
    tugcode("-C", shared.path, "state", "init", "work", "--create-database")
    other = Repo.init(tmp_path / "other")
    other.plan("work", markdown("1 t"))
    other.commit({CONFIG: '[state]\nrepository = "team/shop"\n', "else": "x"})
    refused = tugcode("-C", other.path, "state", "show", "work", "--json")
    assert refused.codes == ["E046"]
    assert "the state of another history under the name team/shop" in refused.out
    other.write({CONFIG: '[state]\nrepository = "team/renamed"\n'})
    shared.write({CONFIG: '[state]\nrepository = "team/renamed"\n'})
    twice = tugcode("-C", shared.path, "state", "init", "work", "--create-database", "--json")
    assert twice.codes == ["E046"]
    assert "under another name, team/shop" in twice.out


def test_a_clone_that_goes_by_another_name_is_told_which_name_has_the_state(
    shared, tugcode, tmp_path
):
    def clone(name: str, origin: str, *how: str) -> Path:
        shared.git("clone", "--quiet", *how, f"file://{shared.path}", str(tmp_path / name))
        shared.git("-C", str(tmp_path / name), "remote", "set-url", "origin", origin)
        return tmp_path / name

    shared.commit({CONFIG: "", "later": "x"})
    first = clone("first", "https://ada@git.example/acme/shop.git")
    assert tugcode("-C", first, "state", "init", "work", "--create-database").status == 0
    # Another form of the same address, and a clone that does not have the root commit.
    for path in (
        clone("second", "git@GIT.example:acme/shop"),
        clone("shallow", "ssh://git@git.example:2222/acme/shop.git", "--depth=1"),
    ):
        shown = tugcode("-C", path, "state", "show", "work", "--json")
        assert shown.data["plan_path"] == ".tugtool/tugplan-work.md", shown.out
    third = clone("third", "https://mirror.example/acme/shop.git")
    for words in (("state", "show", "work"), ("state", "init", "work", "--create-database")):
        refused = tugcode("-C", third, *words, "--json")
        assert refused.codes == ["E046"]
        assert "the same history under another name, git.example/acme/shop" in refused.out
        assert "this clone calls itself mirror.example/acme/shop" in refused.out


def test_the_settings_are_shown_without_a_password(repo, tugcode, monkeypatch):
    monkeypatch.setenv("TUGCODE_STATE_URL", "postgresql://ada:s3cret@h/db?sslpassword=s3cret")
    shown = tugcode("-C", repo.path, "config", "--json")
    assert "s3cret" not in shown.out
    (row,) = (each for each in shown.data["settings"] if each["key"] == "state.url")
    assert (row["value"], row["source"]) == ("postgresql://ada@h/db", "TUGCODE_STATE_URL")


@pytest.mark.parametrize("value", ['"postgresql://ada:s3cret@h/db"', "7", '"a\\u0000b"'])
def test_a_password_in_the_configuration_is_refused(repo, tugcode, value):
    repo.write({CONFIG: f"[state]\nurl = {value}\n"})
    refused = tugcode("-C", repo.path, "config", "--json")
    assert refused.codes == ["E071"]
    assert "s3cret" not in refused.out


def test_tables_are_made_and_migrated_only_where_there_is_a_server(repo, tugcode, shared, url):
    at = ("-C", shared.path)
    tugcode(*at, "state", "init", "work", "--create-database")
    assert "nothing to do" in tugcode(*at, "state", "migrate").out
    assert tugcode(*at, "state", "migrate", "--json").data["migrated"] is False
    assert tugcode(*at, "state", "restore", "--json").codes == ["E078"]
    os.environ["TUGCODE_STATE_URL"] = ""
    refused = tugcode(*at, "state", "init", "work", "--create-database", "--json")
    assert refused.codes == ["E071"]
    assert tugcode(*at, "state", "init", "work").status == 0
    assert tugcode(*at, "state", "migrate", "--json").data["migrated"] is False


@pytest.fixture
def findings(shared, tugcode):
    """What `doctor` finds, by check; the state is in the server."""
    assert tugcode("-C", shared.path, "state", "init", "work", "--create-database").status == 0

    def look() -> dict[str, list[str]]:
        checks = tugcode("-C", shared.path, "doctor", "--json").data["checks"]
        return {c["name"]: [f["message"] for f in c["findings"]] for c in checks}

    return look


def test_doctor_looks_at_the_state_in_the_server(findings, monkeypatch):
    names = ("database", "server", "lock", "integrity", "references", "backup", "counts")
    names += ("worktrees",)
    assert {name: findings()[name] for name in names} == {name: [] for name in names}
    monkeypatch.setenv("TUGCODE_STATE_URL", "postgresql://127.0.0.1:1/x")
    assert "cannot be reached" in findings()["database"][0]


def test_doctor_finds_an_old_server(findings, monkeypatch):
    monkeypatch.setattr("tugtool.store.postgres.OLDEST_SERVER", 10**9)
    assert "14 or newer is needed" in findings()["database"][0]


def test_doctor_finds_missing_rights(findings, url, monkeypatch):
    store = PostgresStore(url, repository="team/shop")
    name, role = store.address.quoted_schema(), f"looker_{os.getpid()}"
    store.ask(f"create role {role} login".encode())
    monkeypatch.setenv("TUGCODE_STATE_URL", url.replace("user=postgres", f"user={role}"))
    assert "lacks delete on table attempts, delete on table" in findings()["server"][0]
    assert f"usage on schema {store.address.schema}" in health.missing_rights(_as(role, url))
    store.ask(f"grant usage on schema {name} to {role}".encode())
    store.ask(f"grant select on all tables in schema {name} to {role}".encode())
    missing = health.missing_rights(_as(role, url))
    assert "insert on table steps" in missing
    assert "select on table steps" not in missing
    store.ask(f"grant insert, update, delete on all tables in schema {name} to {role}".encode())
    store.ask(f"grant usage on all sequences in schema {name} to {role}".encode())
    assert findings()["server"] == []
    store.ask(f"drop owned by {role}".encode())
    store.ask(f"drop role {role}".encode())
    store.close()


def _as(role: str, url: str) -> PostgresStore:
    return PostgresStore(url.replace("user=postgres", f"user={role}"), repository="team/shop")


@pytest.mark.parametrize(("seconds", "how"), [(600, "behind"), (-600, "ahead of")])
def test_doctor_finds_another_clock(findings, monkeypatch, seconds, how):
    now = clock.system_milliseconds
    monkeypatch.setattr(clock, "system_milliseconds", lambda: now() + seconds * 1000)
    (found,) = findings()["server"]
    assert re.match(f"the server's clock is (600|599|601) s {how} this machine's; leases", found)


def test_doctor_names_who_keeps_the_lock_of_a_plan(findings, url, monkeypatch):
    monkeypatch.setattr(record, "LOCK_SECONDS", 0)
    assert findings()["lock"] == []
    store = PostgresStore(f"{url}&application_name=forgotten", repository="team/shop")
    with store.write(".tugtool/tugplan-work.md") as tx:
        assert tx.now
        (found,) = findings()["lock"]
    assert found.startswith(".tugtool/tugplan-work.md is locked by forgotten at the server's mach")
    assert findings()["lock"] == []
    store.close()


def test_doctor_tells_how_far_a_standby_is_behind(findings, monkeypatch):
    """What a server with standbys would say; the next test has them."""
    told = (
        b"select n, s from (values ('far', 5::bigint << 30), ('near', 1), ('new', null)) t (n, s)"
    )
    monkeypatch.setattr(health, "_STANDBYS", told)
    (found,) = findings()["server"]
    assert found.startswith("the standby far lacks 5120 MB that are committed")
    monkeypatch.setattr(health, "_IS_STANDBY", b"select true")
    (found,) = findings()["server"]
    assert found.endswith("is a standby and takes no changes")


@pytest.mark.proof(share=0)
def test_doctor_finds_a_standby_and_one_that_is_behind(shared, tugcode, monkeypatch):
    """A real standby that gets everything, and applies nothing."""
    with tempfile.TemporaryDirectory(prefix="tug-pg-", dir="/dev/shm") as name:
        os.chmod(name, 0o755)
        first = Server(Path(name) / "first", wal_level="replica", max_wal_senders="4")
        first.make()
        first.start()
        first._run("createdb", "-h", str(first.directory), "-U", "postgres", "tugtool")
        there = Path(name) / "second"
        second = first.follow(there, recovery_min_apply_delay="1h", port="5433")
        second.start()
        try:
            monkeypatch.setenv("TUGCODE_STATE_URL", first.url())
            at = ("-C", shared.path)
            assert tugcode(*at, "state", "init", "work", "--create-database").status == 0
            store = PostgresStore(first.url(), repository="team/shop")
            store.ask(b"create table junk as select md5(n::text) from generate_series(1, 400000) n")
            until(lambda: list(health.standbys_behind(store)))
            (found,) = _server_findings(tugcode, shared.path)
            assert re.match(r"the standby \S+ lacks \d+ MB that are committed: they would", found)
            store.close()
            monkeypatch.setenv("TUGCODE_STATE_URL", second.url(port="5433"))
            (found,) = _server_findings(tugcode, shared.path)
            assert "is a standby and takes no changes" in found
        finally:
            second.kill()
            first.kill()


def _server_findings(tugcode, path) -> list[str]:
    checks = tugcode("-C", path, "doctor", "--json").data["checks"]
    return [f["message"] for c in checks if c["name"] == "server" for f in c["findings"]]


def test_a_server_that_is_away_is_told_by_the_command_that_needs_it(shared, tugcode, monkeypatch):
    monkeypatch.setenv("TUGCODE_STATE_URL", "postgresql://127.0.0.1:1/x?connect_timeout=1")
    shared.write({CONFIG: '[state]\nrepository = "a/b"\nbusy_seconds = 1\n'})
    assert tugcode("-C", shared.path, "list").status == 0
    refused = tugcode("-C", shared.path, "state", "claim", "work", "--json")
    assert refused.codes == ["E046"]
    (issue,) = refused.envelope()["issues"]
    reason = 'reached: connection to server at "127.0.0.1", port 1 failed: Connection refused'
    assert issue["message"].endswith(reason)
