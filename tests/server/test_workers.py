"""A worker's processes are not its user's: neither at the socket nor above an operator's server."""

import ctypes
import json
import os
import subprocess
import sys

import pytest

from support.mcp import Client, request
from tugtool.workflow import workers

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/environ"), reason="only Linux tells what a process is"
)
PR_SET_NO_NEW_PRIVS = 38
MARKS = "TUGCODE_ATTEMPT TUGCODE_ROLE"
#: Starts another one without the variables of workers, which says its number and waits.
CLEARED = """
import os, subprocess, sys
kept = {key: value for key, value in os.environ.items() if key not in sys.argv[1].split()}
code = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"
subprocess.run([sys.executable, "-c", code], env=kept, check=True)
"""
#: The server of an operator, started by a process that has cleared the environment.
OPERATOR = """
import os, subprocess, sys
kept = {key: value for key, value in os.environ.items() if key not in sys.argv[1].split()}
words = [sys.executable, "-m", "tugtool", *sys.argv[2:]]
sys.exit(subprocess.run(words, env=kept).returncode)
"""


class Peer:
    """A process at the other end of the socket."""

    def __init__(self, *, env=None, **how: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CLEARED, MARKS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(env or {})},
            **how,
        )
        self.pid = int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate(timeout=60)


@pytest.fixture
def peer():
    made: list[Peer] = []

    def make(**how: object) -> Peer:
        made.append(Peer(**how))
        return made[-1]

    yield make
    for each in made:
        each.end()


def _confine() -> None:
    ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _there(pid: int) -> dict:
    there = {"server": ("/x.sock", None), "client": ("unix", pid), "token": None}
    return {**there, "headers": {"host": "localhost"}}


def _steers(app, pid: int) -> bool:
    """Try to pause the plan as a tool and as a command; both have to end alike."""
    listed = app.post("/mcp", request("tools/list"), **_there(pid))
    names = {each["name"] for each in json.loads(listed.body)["result"]["tools"]}
    given = {"plan": "work", "action": "pause", "reason": "x"}
    call = request("tools/call", name="steer", arguments=given)
    said = json.loads(app.post("/mcp", call, **_there(pid)).body)["result"]
    paused = app.desk.ok("show", "work")["paused_at"] is not None
    assert paused is not said["isError"]
    assert ({"review", "steer"} <= names) is paused
    sent = app.post("state/pause", {"plan": "work"}, **_there(pid))
    assert sent.code == ("" if paused else "E101")
    assert paused or "this token has the role worker" in sent.envelope["issues"][0]["message"]
    review = app.post("state/review", {"plan": "work", "accept_all": True}, **_there(pid))
    assert (review.code == "E101") is not paused
    assert app.get("state/show", {"plan": "work"}, **_there(pid)).status == 200
    return paused


def test_the_users_own_process_steers_at_the_socket(served, peer):
    assert _steers(served(), peer().pid)


@pytest.mark.parametrize("name", ["TUGCODE_ATTEMPT", "TUGCODE_ROLE"])
def test_a_workers_process_is_a_worker_at_the_socket_with_any_environment(served, peer, name):
    assert not _steers(served(), peer(env={name: "1"}).pid)


def test_a_confined_process_is_a_worker_at_the_socket(served, peer):
    assert not _steers(served(), peer(preexec_fn=_confine).pid)


def test_a_process_that_has_ended_is_not_taken_for_its_user(served, peer):
    gone = peer()
    gone.end()
    assert not _steers(served(), gone.pid)


def test_where_the_kernel_tells_nothing_the_socket_is_for_its_user(monkeypatch):
    monkeypatch.setattr(workers.os.path, "exists", lambda _: False)
    assert not workers.is_worker(0)


@pytest.mark.parametrize("name", ["TUGCODE_ATTEMPT", "TUGCODE_ROLE"])
@pytest.mark.parametrize(
    "words",
    [
        ("mcp", "--role", "operator"),
        ("serve", "--port", "0"),
        ("serve", "token", "add", "x", "--role", "operator"),
    ],
)
def test_a_worker_that_clears_its_environment_gets_no_more_rights(desk, name, words):
    there = desk("1 t")
    done = subprocess.run(
        [sys.executable, "-c", OPERATOR, MARKS, *words],
        cwd=there.repo.path,
        env={**os.environ, name: "1"},
        input="",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "E068" in done.stderr


def test_a_client_that_works_through_one_server_does_not_steer_through_another(bench):
    """As with both entries in a client's file."""
    there = bench("1 t", "2 t")
    worker = Client(there.red)
    # The second is below another process, as one that a client's shell has started.
    how = {"program": ("-c", OPERATOR, MARKS)}
    operators = [Client(there.repo.path, "--role", "operator", **each) for each in ({}, how)]
    pause = {"plan": "work", "action": "pause", "reason": "x"}
    assert "claimed step-1" in worker.tool("claim").text
    for operator in operators:
        for name, given in (("steer", pause), ("review", {}), ("review", {"verdict": "accept"})):
            text = operator.tool(name, **given).text
            assert text.startswith(f"refused, E068: {name} is for people, and your client works on")
            assert "step-1 of work" in text
        assert not operator.tool("status").failed
    assert not worker.tool("release", step="step-1", attempt=1, reason="x").failed
    for operator in operators:
        assert not operator.tool("steer", **pause).failed
        # What it claims itself keeps a person's assistant from nothing.
        assert not operator.tool("steer", **{**pause, "action": "resume"}).failed
        claimed = operator.tool("claim", worktree=str(there.blue))
        assert not operator.tool("review").failed
        held = {"step": claimed.text.split()[1], "attempt": claimed.attempt}
        assert not operator.tool("release", **held, reason="x").failed
    for each in (worker, *operators):
        assert each.end() == (0, "")
