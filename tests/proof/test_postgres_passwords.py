"""Passwords of a server appear nowhere: not in errors, views, events, exports or arguments."""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import quote

import pg_disturbed
import pytest

from support import postgres_server
from support.state import markdown
from tugtool.store.postgres import PostgresStore
from tugtool.store.postgres.address import Address
from tugtool.system import state_config

pytestmark = pytest.mark.proof(share=0)

#: Both halves are looked for: an odd character may divide them.
HALVES = ("hunTer", "seKret")
#: As people write them, and as they should.
ODD = [*"?#&=@/:%[] +\\'\"é,", "%zz", "%40", "://", "?password="]
RIGHT = "".join(HALVES)
PASSWORDS = [f"{RIGHT}x", *(odd.join(HALVES) for odd in ODD)]
COMMANDS = (
    ("state", "show", "work", "--json"),
    ("claim", "work"),
    ("log",),
    ("config",),
    ("config", "--json"),
    ("doctor",),
    ("doctor", "--json"),
    ("status",),
    ("export",),
)
CONFIG = '[state]\nrepository = "team/shop"\n'
NOWHERE = "x" * 70


def _forms(password: str, host: str, port: object, database: str, user: str) -> Iterator[str]:
    """Every way to say a password in an address."""
    coded = quote(password, safe="")
    for scheme in ("postgresql", "postgres"):
        yield f"{scheme}://{user}:{coded}@{host}:{port}/{database}"
    yield f"postgresql://{user}:{password}@{host}:{port}/{database}"
    yield f"postgresql://{host}:{port}/{database}?user={user}&password={coded}"
    yield f"postgresql://{host}:{port}/{database}?user={user}&pass%77ord={coded}"
    yield f"postgresql://{user}@{host}:{port}/{database}?password={password}&sslmode=disable"
    yield f"postgresql://{user}@{host}:{port}/{database}?sslpassword={coded}"


class Client:
    """A repository, and commands whose every output is searched for the password."""

    def __init__(self, repo, tugcode, monkeypatch) -> None:
        self.repo, self._tugcode, self._patch = repo, tugcode, monkeypatch
        repo.plan("work", markdown("1 t", "2 t"))
        repo.write({".tugtool/config.toml": CONFIG})
        repo.commit()
        monkeypatch.setenv("TUGCODE_DEBUG", "1")
        self.outputs = 0
        self.refused = 0

    def at(self, url: str, **environment: str) -> None:
        self._patch.setenv("TUGCODE_STATE_URL", url)
        for name, value in environment.items():
            self._patch.setenv(name, value)

    def run(self, *words: str) -> str:
        done = self._tugcode("-C", self.repo.path, *words)
        said = done.out + done.err
        self.outputs += 1
        self.refused += done.status != 0
        search(said, words)
        return said


def search(said: str, about: object) -> None:
    for half in HALVES:
        assert half not in said, f"{about}: {said}"


@pytest.fixture
def client(repo, tugcode, monkeypatch) -> Client:
    begin = PostgresStore.__init__

    def hasty(self: PostgresStore, *words: object, **how: object) -> None:
        begin(self, *words, **{**how, "busy_seconds": 0.01})

    monkeypatch.setattr(PostgresStore, "__init__", hasty)
    return Client(repo, tugcode, monkeypatch)


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[postgres_server.Server, int]]:
    """A server at a port of this machine that wants a password, and TLS of some."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {"listen_addresses": "127.0.0.1", "port": str(port)}
    with pg_disturbed.directory() as path:
        server = postgres_server.Server(path / "one", **settings)
        server.make()
        (server.data / "pg_hba.conf").write_text(
            "local all all trust\n"
            "hostssl all tls 127.0.0.1/32 scram-sha-256\n"
            "host all tls 127.0.0.1/32 reject\n"
            "host all all 127.0.0.1/32 scram-sha-256\n"
        )
        server.start()
        direct = f"postgresql:///postgres?host={server.directory}&port={port}&user=postgres"
        store = PostgresStore(direct)
        for role in ("ada", "tls"):
            store.ask(f"create role {role} login superuser password '{RIGHT}'".encode())
        store.ask(b"create database tugtool")
        store.close()
        yield server, port
        server.kill()


def _failures(port: int) -> Iterator[tuple[str, tuple[object, ...]]]:
    """How a connection fails, and host, port, database and user for that."""
    yield "host unknown", (NOWHERE, 1, "tugtool", "ada")
    yield "refused", ("127.0.0.1", 1, "tugtool", "ada")
    yield "bad port", ("127.0.0.1", 99999999, "tugtool", "ada")
    yield "bad address", ("[::1", 1, "tugtool", "ada")
    yield "wrong password", ("127.0.0.1", port, "tugtool", "ada")
    yield "no role", ("127.0.0.1", port, "tugtool", "nobody")
    yield "no database", ("127.0.0.1", port, "nowhere", "ada")
    yield "TLS wanted by the server", ("127.0.0.1", port, "tugtool", "tls")


MORE = (
    *("sslmode=require", "sslmode=odd", "odd=1", "connect_timeout=x", "sslrootcert=/nowhere"),
    *("sslmode=verify-full", "channel_binding=require", "target_session_attrs=odd", "odd"),
    *("options=-codd", "service=nowhere", "port=x", "hostaddr=odd", "require_auth=odd", "%zz=1"),
)


def _provoke(client: Client, port: int, passwords: list[str]) -> int:
    kinds = 0
    for _, where in _failures(port):
        for password in passwords:
            for url in _forms(password, *map(str, where)):
                client.at(url)
                client.run("state", "show", "work", "--json")
                kinds += 1
    for more in MORE:
        client.at(f"postgresql://ada:{PASSWORDS[0]}@127.0.0.1:{port}/tugtool?{more}")
        client.run("claim", "work")
        kinds += 1
    return kinds


def test_no_failed_connection_tells_the_password(client, guarded, spell):
    kinds = _provoke(client, guarded[1], PASSWORDS if spell.seconds else PASSWORDS[:1])
    for password in PASSWORDS:
        for url in _forms(password, "127.0.0.1", 1, "tugtool", "ada"):
            client.at(url)
            client.run("state", "show", "work")
    assert client.refused > 40
    spell.tell(f"{kinds} kinds, {client.outputs} outputs, {client.refused} refusals")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_tells_the_password_of_a_server_that_is_away(client, words):
    for url in _forms(PASSWORDS[0], "127.0.0.1", 1, "tugtool", "ada"):
        client.at(url)
        client.run(*words)


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://ada:{PASSWORDS[0]}@h/db",
        f"postgresql:/ada:{PASSWORDS[0]}@h/db",
        f"postgresql:ada:{PASSWORDS[0]}@h/db",
        f"ada:{PASSWORDS[0]}@h/db",
        f"https://ada:{PASSWORDS[0]}@h/db",
        f"sqlite://ada:{PASSWORDS[0]}@h/db",
        f"host=h user=ada password={PASSWORDS[0]}",
        f"POSTGRESQL://ada:{PASSWORDS[0]}@h/db",
    ],
)
def test_what_is_no_address_is_not_repeated(client, url):
    client.at(url)
    for words in COMMANDS:
        client.run(*words)
    client._patch.delenv("TUGCODE_STATE_URL")
    client.repo.write({".tugtool/config.toml": f"{CONFIG}url = '{url}'\n"})
    for words in COMMANDS:
        client.run(*words)


def test_passwords_in_files_and_variables_are_not_told(client, guarded, tmp_path):
    port = guarded[1]
    services = tmp_path / "services"
    services.write_text(
        f"[tug]\nhost=127.0.0.1\nport={port}\ndbname=tugtool\nuser=ada\npassword={PASSWORDS[1]}\n"
    )
    known = tmp_path / "known"
    known.write_text(f"127.0.0.1:{port}:*:*:{PASSWORDS[1]}\n")
    known.chmod(0o600)
    address = f"postgresql://ada@127.0.0.1:{port}/tugtool"
    for url, more in (
        ("postgresql:///?service=tug", {"PGSERVICEFILE": str(services)}),
        (address, {"PGPASSFILE": str(known)}),
        (address, {"PGPASSWORD": PASSWORDS[1]}),
    ):
        client.at(url, **more)
        for words in COMMANDS:
            client.run(*words)
    assert client.refused > 10


@contextlib.contextmanager
def _rude(answer: bytes) -> Iterator[int]:
    """A server that answers so, or nothing, and ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        code = (
            "import socket, sys\n"
            "s = socket.socket(fileno=int(sys.argv[1]))\n"
            "for _ in range(20):\n"
            "    c, _ = s.accept()\n"
            "    c.recv(9999); c.sendall(bytes.fromhex(sys.argv[2])); c.close()\n"
        )
        number = listening.fileno()
        argv = [sys.executable, "-c", code, str(number), answer.hex()]
        process = subprocess.Popen(argv, pass_fds=[number])
        try:
            yield port
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 400 no\r\n\r\n", b"E\0\0\0\x08odd\0", b"N", b"\0" * 50]
)
def test_a_server_that_is_none_does_not_make_us_tell(client, answer):
    with _rude(answer) as port:
        for url in _forms(PASSWORDS[0], "127.0.0.1", port, "tugtool", "ada"):
            client.at(url)
            client.run("state", "show", "work")


def test_a_server_that_never_answers_does_not_either(client):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client.at(next(_forms(PASSWORDS[0], "127.0.0.1", silent.getsockname()[1], "t", "ada")))
        assert "no answer within" in client.run("state", "show", "work")


def _lead_a_life(client: Client, server: postgres_server.Server, port: int) -> None:
    """A whole life with the right password; then everything that is stored, and every argument."""
    client.at(f"postgresql://ada:{RIGHT}@127.0.0.1:{port}/tugtool")
    client.run("state", "init", "work", "--create-database")
    client.run("claim", "work")
    client.run("update", "work", "step-1", "--all", "completed")
    client.run("artifact", "work", "step-1", "--kind", "note", "--summary", "x")
    client.run("complete", "work", "step-1")
    client.run("exec", "work", "--", "sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null; true")
    for words in (*COMMANDS, ("report", "work"), ("stats", "work"), ("review", "work")):
        client.run(*words)
    refused = (("claim", "nowhere"), ("complete", "work", "step-9"), ("state", "restore"))
    for words in refused:
        client.run(*words)
    direct = f"postgresql:///tugtool?host={server.directory}&port={port}&user=postgres"
    dump = subprocess.run(
        [server.programs / "pg_dump", "--inserts", f"--dbname={direct}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=server.directory,
    )
    assert "step-1" in dump.stdout
    search(dump.stdout, "what is stored")
    for path in client.repo.path.rglob("*"):
        if path.is_file():
            search(path.read_bytes().decode("utf-8", "replace"), path)


def test_a_life_with_a_password_leaves_it_nowhere(client, guarded):
    _lead_a_life(client, *guarded)
    assert client.outputs > 20


def test_a_planted_leak_is_noticed(client, guarded, monkeypatch):
    monkeypatch.setattr(Address, "cleaned", lambda self, text: text)
    with pytest.raises(AssertionError, match="|".join(HALVES)):
        _provoke(client, guarded[1], PASSWORDS)


def test_so_is_an_address_that_is_shown_whole(client, monkeypatch):
    monkeypatch.setattr(state_config, "without_password", lambda url: url)
    client.at(f"postgresql://ada:{PASSWORDS[0]}@127.0.0.1:1/tugtool")
    with pytest.raises(AssertionError, match="|".join(HALVES)):
        client.run("config")
