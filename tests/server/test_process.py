"""`tugcode serve` as a process: how it starts, where it listens, how it stops."""

import json
import os
import re
import signal
import socket
import ssl
import stat
import subprocess
import sys

import pytest

from support.server import Process, certificate, parsed, received
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
        assert "tugcode serve token add ME --role operator" in hint
        assert f"{url}#t=TOKEN; or stop it first: kill {server.running.pid}" in hint
        server.running.send_signal(signal.SIGKILL)
        server.end()
    with Process(root, "--unix", "auto") as server:
        assert server.request("GET", "/api/v1/version").status == 200


def test_a_socket_of_the_caller_is_taken(desk, tugcode):
    root = desk("1 t").repo.path
    with socket.create_server(("127.0.0.1", 0)) as made:
        os.set_inheritable(made.fileno(), True)
        number = made.fileno()
        refused = tugcode("-C", root, "serve", "--fd", number, "--json")
        assert (refused.status, refused.codes) == (1, ["E108"])
        token = Tokens(str(root / ".git" / "tugtool")).add("anna", "viewer")[0]
        with Process(root, "--fd", str(number), pass_fds=[number]) as server:
            # What whoever starts it does with its output is not known: there is no token in it.
            assert (server.port, server.token) == (made.getsockname()[1], "")
            own = {"Authorization": f"Bearer {token}"}
            assert server.request("GET", "/api/v1/whoami", headers=own).data["name"] == "anna"


def test_a_socket_of_the_caller_is_judged_by_its_own_address(desk, tugcode):
    root = desk("1 t").repo.path
    with socket.create_server(("0.0.0.0", 0)) as made:
        refused = tugcode("-C", root, "serve", "--fd", made.fileno(), "--json")
    assert (refused.status, refused.codes) == (1, ["E108"])
    assert "others can reach 0.0.0.0, and neither" in refused.envelope()["issues"][0]["message"]


def over_tls(server: Process, cert, *lines: str, path: str = "/api/v1/whoami"):
    """One request over TLS, by a client that checks the certificate."""
    context = ssl.create_default_context(cafile=cert)
    with context.wrap_socket(server.connect(), server_hostname="tug.example") as made:
        head = [f"GET {path} HTTP/1.1", *lines, "Connection: close", "", ""]
        made.sendall("\r\n".join(head).encode())
        return parsed(received(made))


def test_other_machines_are_served_over_tls_of_our_own(desk):
    root = desk("1 t").repo.path
    cert, _ = certificate(root, "tug.example")
    own = ['host = "127.0.0.2"', 'hosts = ["tug.example"]']
    config(root, *own, 'tls_cert = "cert.pem"', 'tls_key = "key.pem"')
    (root / ".git" / "tugtool").mkdir(exist_ok=True)
    token, _ = Tokens(str(root / ".git" / "tugtool")).add("anna", "operator")
    with Process(root) as server:
        # The token of a start is for this machine alone.
        assert (server.url, server.token) == (f"https://127.0.0.2:{server.port}/", "")
        host, own = "Host: tug.example", f"Authorization: Bearer {token}"
        assert over_tls(server, cert, host, own).data["name"] == "anna"
        page = "Origin: https://tug.example"
        assert over_tls(server, cert, host, own, page).status == 200
        assert over_tls(server, cert, host, own, page.replace("https", "http")).status == 403
        assert over_tls(server, cert, host).status == 401
        assert over_tls(server, cert, "Host: evil.example", own).status == 421
        assert b"HTTP/1.1 200" not in server.raw(b"GET / HTTP/1.1\r\nHost: tug.example\r\n\r\n")


def test_a_certificate_that_cannot_be_used_is_told(desk, tugcode):
    root = desk("1 t").repo.path
    config(root, 'tls_cert = "none.pem"', 'tls_key = "key.pem"')
    got = tugcode("-C", root, "serve", "--json")
    assert got.status == 2
    assert "none.pem" in got.envelope()["issues"][0]["message"]


def test_the_browser_is_led_to_the_page_without_a_token_on_a_command_line(desk, monkeypatch):
    root = desk("1 t").repo.path
    browser, pipe = root / "browser", root / "pipe"
    os.mkfifo(pipe)
    browser.write_text(f'#!/bin/sh\necho "$*" >{pipe}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    page = root / ".git" / "tugtool" / "open.html"
    with Process(root, "--open") as server:
        assert pipe.read_text() == f"file://{page}\n"
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        (leads_to,) = re.findall(r'http-equiv="refresh" content="0;url=(.*)"', page.read_text())
        assert leads_to == f"{server.url}#t={server.token}"
    assert not page.exists()


def test_a_hangup_signal_reads_the_tokens_again_and_nothing_stops(desk):
    root = desk("1 t").repo.path
    with Process(root) as server:
        token, _ = Tokens(str(root / ".git" / "tugtool")).add("anna", "viewer")
        server.running.send_signal(signal.SIGHUP)
        own = {"Authorization": f"Bearer {token}"}
        assert server.request("GET", "/api/v1/whoami", headers=own).data["name"] == "anna"
        assert server.running.poll() is None


def test_status_and_doctor_name_the_server_that_runs(desk, tugcode):
    root = desk("1 t").repo.path
    with Process(root) as server:
        shown = tugcode("-C", root, "status", "--json").data["server"]
        assert (shown["url"], shown["pid"]) == (server.url, server.running.pid)
        assert f"served at {server.url}" in tugcode("-C", root, "status").out
        said = f"tugcode serve runs at {server.url} (process {server.running.pid})"
        assert said in tugcode("-C", root, "doctor", "--json").out
        # One that was killed does not run, whatever its note says.
        server.running.send_signal(signal.SIGKILL)
        server.end()
        assert tugcode("-C", root, "status", "--json").data["server"] is None


def test_other_machines_are_served_only_with_protection(desk, tugcode):
    root = desk("1 t").repo.path
    for lines, said in (
        (['host = "0.0.0.0"'], "neither serve.tls_cert nor"),
        (['host = "0.0.0.0"', "behind_proxy = true"], "there is no token"),
        (["behind_proxy = true"], "there is no token"),
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
    assert (gone.status, gone.out) == (1, "there is no token anna: tugcode serve token list\n")
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
    assert "pip install '.[serve]'" in issue["hint"]


def test_no_other_command_loads_the_server():
    code = (
        "import sys\nfrom tugtool.cli import parse, main\n"
        "for path in parse.FAMILIES: parse.find(path)\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "tugtool.cli.serve" in loaded
    tops = {name.partition(".")[0] for name in loaded}
    assert tops.isdisjoint(("starlette", "uvicorn", "websockets", "asyncio"))
    # `tugcode mcp` loads what it shares with the server, which is a part of that room.
    of_server = [name for name in loaded if name.startswith("tugtool.server.")]
    assert [name for name in of_server if not name.startswith("tugtool.server.mcp")] == []
    assert "tugtool.server.mcp.http" not in of_server
