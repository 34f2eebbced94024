"""`tugcode serve` as a process: how it starts, where it listens, how it stops."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys

import pytest

from support.server import Process, parsed, received
from tugtool.server.tokens import Tokens
from tugtool.system import files


def config(root, *lines: str) -> None:
    (root / ".tugtool").mkdir(exist_ok=True)
    (root / ".tugtool" / "config.toml").write_text("\n".join(["[serve]", *lines, ""]))


def test_a_server_starts_answers_and_stops(desk):
    root = desk("1 t").repo.path
    note = root / ".git" / "tugtool" / "serve.json"
    with Process(root, "--access-log", "--unix", "auto") as server:
        facts = json.loads(note.read_text())
        assert (facts["holder_pid"], facts["url"]) == (server.data["pid"], server.url)
        assert server.token not in note.read_text()
        claim = server.request("POST", "/api/v1/state/claim", b'{"plan": "work"}')
        assert claim.data["claimed"]
        assert (
            server.request("GET", "/api/v1/status", headers={"Authorization": None}).status == 401
        )
        # The Unix socket is this user's alone: no token, and the kernel proves the process.
        path = server.data["socket"]
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with socket.socket(socket.AF_UNIX) as made:
            made.connect(path)
            body = json.dumps({"plan": "work", "holder_pid": os.getpid(), "worktree": "x"})
            head = "POST /api/v1/state/claim HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            made.sendall((head + body).encode())
            assert parsed(received(made)).data["reason"] == "no_ready_steps"
        server.running.send_signal(signal.SIGTERM)
        status, told = server.end()
    assert status == 0
    lines = [json.loads(line) for line in told.splitlines()]
    assert [line["status"] for line in lines] == [200, 401, 200]
    assert server.token not in told
    assert not note.exists()
    assert not os.path.exists(path)


def test_a_killed_server_leaves_nothing_in_the_way(desk, tugcode):
    root = desk("1 t").repo.path
    with Process(root, "--unix", "auto") as server:
        second = tugcode("-C", root, "serve", "--port", "0", "--json")
        assert (second.status, second.codes) == (1, ["E107"])
        hint = second.envelope()["issues"][0]["hint"]
        url = f"http://127.0.0.1:{server.port}/"
        assert hint == f"use {url}, or stop it first: kill {server.running.pid}"
        server.running.send_signal(signal.SIGKILL)
        server.end()
    with Process(root, "--unix", "auto") as server:
        assert server.request("GET", "/api/v1/version").status == 200


def test_a_socket_of_the_caller_is_taken(desk):
    root = desk("1 t").repo.path
    with socket.create_server(("127.0.0.1", 0)) as made:
        os.set_inheritable(made.fileno(), True)
        number = made.fileno()
        with Process(root, "--fd", str(number), pass_fds=[number]) as server:
            assert server.port == made.getsockname()[1]
            assert server.request("GET", "/healthz", headers={"Authorization": None}).status == 200


def test_other_machines_are_served_only_with_protection(desk, tugcode):
    root = desk("1 t").repo.path
    for lines, said in (
        (['host = "0.0.0.0"'], "neither serve.tls_cert nor"),
        (['host = "0.0.0.0"', "behind_proxy = true"], "there is no token"),
    ):
        config(root, *lines)
        got = tugcode("-C", root, "serve", "--json")
        assert (got.status, got.codes) == (1, ["E108"])
        assert said in got.envelope()["issues"][0]["message"]


def test_a_port_that_is_taken_is_told(desk, tugcode):
    root = desk("1 t").repo.path
    with socket.create_server(("127.0.0.1", 0)) as made:
        port = made.getsockname()[1]
        got = tugcode("-C", root, "serve", "--port", str(port), "--json")
    assert (got.status, got.codes) == (1, ["E107"])
    assert tugcode("-C", root, "serve", "--port", "x", "--json").status == 2
    assert tugcode("-C", root, "serve", "--fd", "77", "--json").status == 2


def test_a_worker_may_not_serve_or_make_tokens(desk, tugcode, monkeypatch):
    root = desk("1 t").repo.path
    monkeypatch.setenv("TUGCODE_ATTEMPT", "1")
    add = ("serve", "token", "add", "x", "--role", "operator")
    for words in (("serve",), ("open",), add, ("serve", "token", "revoke", "x")):
        assert tugcode("-C", root, *words, "--json").codes == ["E068"]
    monkeypatch.delenv("TUGCODE_ATTEMPT")
    monkeypatch.setenv("GIT_DIR", str(root / ".git"))
    assert tugcode("-C", root, "serve", "--json").status == 2


def test_tokens_are_shown_once_and_kept_as_hashes(desk, tugcode):
    root = desk("1 t").repo.path
    add = ("-C", root, "serve", "token", "add")
    made = tugcode(*add, "anna", "--role", "worker", "--plan", "work", "--expires", "30d", "--json")
    token, file = made.data["token"], root / ".git" / "tugtool" / "tokens.json"
    assert token.startswith("tug_")
    assert token not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    listed = tugcode("-C", root, "serve", "token", "list", "--json").data["tokens"]
    assert [(row["name"], row["plan_path"]) for row in listed] == [
        ("anna", ".tugtool/tugplan-work.md")
    ]
    shown = tugcode("-C", root, "serve", "token", "list").out
    assert shown.startswith("anna: worker, only .tugtool/tugplan-work.md, until ")
    for words in (
        ("anna", "--role", "viewer"),
        ("no name", "--role", "viewer"),
        ("x", "--role", "king"),
        ("x",),
        ("x", "--role", "viewer", "--expires", "soon"),
    ):
        assert tugcode(*add, *words).status == 2, words
    again = tugcode(*add, "anna", "--role", "viewer", "--json").envelope()["issues"][0]
    assert again["hint"] == "tugcode serve token revoke anna"
    assert tugcode("-C", root, "serve", "token", "revoke", "anna").out == "revoked anna\n"
    gone = tugcode("-C", root, "serve", "token", "revoke", "anna")
    assert (gone.status, gone.out) == (1, "there is no token anna\n")
    assert tugcode("-C", root, "serve", "token", "list").out == "there is no token\n"


def test_a_token_is_added_whole_or_not_at_all(tmp_path, monkeypatch):
    tokens = Tokens(str(tmp_path))
    tokens.add("anna", "viewer")
    before = (tmp_path / "tokens.json").read_bytes()
    for change in (lambda: tokens.add("bert", "viewer"), lambda: tokens.revoke("anna")):
        with monkeypatch.context() as patch:
            patch.setattr(files, "replace", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            child = os.fork()
            if not child:
                change()
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert (tmp_path / "tokens.json").read_bytes() == before
    # The lock of the one who was killed is free again.
    assert tokens.revoke("anna")


def test_a_file_that_has_no_tokens_in_it_is_refused(tmp_path):
    from tugtool.errors import Unreadable

    for text in ("{", "[1]", '{"a": 1}', '[{"name": "x"}]'):
        (tmp_path / "tokens.json").write_text(text)
        with pytest.raises(Unreadable):
            Tokens(str(tmp_path)).rows()


def test_without_the_extra_the_command_that_installs_it_is_named(desk):
    root = desk("1 t").repo.path
    code = (
        "import sys; sys.modules['starlette'] = None\n"
        "from tugtool.cli.main import main\n"
        "sys.exit(main(['serve', '--json']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    (issue,) = json.loads(done.stdout)["issues"]
    assert (done.returncode, issue["code"]) == (1, "E112")
    assert issue["hint"] == "pip install 'tugtool[serve]'"


def test_no_other_command_loads_the_server():
    code = (
        "import sys\nfrom tugtool.cli import parse, main\n"
        "for path in parse.FAMILIES: parse.find(path)\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "tugtool.cli.serve" in loaded
    names = {name.partition(".")[0] for name in loaded} | set(loaded)
    assert names.isdisjoint(("starlette", "uvicorn", "websockets", "asyncio", "tugtool.server"))
