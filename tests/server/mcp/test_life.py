"""The life of an MCP client decides about its steps: kill it, leave it idle, start a second one.

Real processes of server and client, the clock of the machine. Each check is also tried with a
server that has the fault for which it looks.
"""

import subprocess
import sys

import pytest

from support.mcp import Client, request

pytestmark = pytest.mark.proof

#: A client that claims a step and then waits to be killed. Its server outlives it for as long as
#: the pipe is open, which this process has too.
VICTIM = """
import json, subprocess, sys
command = [sys.executable, *sys.argv[1:], "mcp"]
server = subprocess.Popen(command, stdin=0, stdout=subprocess.PIPE, stderr=1)
said = json.loads(server.stdout.readline())["result"]["content"][0]["text"]
print(said.splitlines()[0], flush=True)
server.wait()
"""
CLAIM = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "claim"}}\n'
RIGHT = ("-m", "tugtool")
FAULTY = """
import sys
from tugtool.cli.main import main
from tugtool.server.mcp import {module}
{fault}
main(sys.argv[1:])
"""
#: The server is the holder, in place of the client.
WRONG_HOLDER = "held.HeldSteps.holder_pid = property(lambda self: held.os.getpid())"
NEVER_IDLE = "held.HeldSteps._is_idle = lambda self: False"
#: Commands do not get the number of the attempt.
NO_ATTEMPT = """
real = tools.run_command
def without(*given, attempt=None, **options):
    return real(*given, **options)
tools.run_command = without
"""


def faulty(module: str, fault: str) -> tuple[str, str]:
    """The words that start a server with a fault."""
    return "-c", FAULTY.format(module=module, fault=fault)


@pytest.mark.parametrize(
    ("program", "free"),
    [(RIGHT, True), (faulty("held", WRONG_HOLDER), False)],
    ids=("right", "planted"),
)
def test_a_killed_client_frees_its_step_at_once(bench, program, free):
    there = bench("1 t")
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM, *program], cwd=there.red, stdin=-1, stdout=-1
    )
    victim.stdin.write(CLAIM)
    victim.stdin.flush()
    assert victim.stdout.readline().startswith(b"claimed step-1 (attempt 1)")
    victim.kill()
    victim.wait()
    # The server has seen nothing yet: its input is open.
    found = there.ok("claim", "work", at=there.blue)
    assert found["claimed"] is free
    if free:
        assert found["previous_attempt"]["outcome"] == "dead"
    victim.stdin.close()
    # The output ends with the server, and nothing was told on standard error.
    assert victim.stdout.read() == b""
    victim.stdout.close()


@pytest.mark.parametrize(
    ("program", "lapses"),
    [(RIGHT, True), (faulty("held", NEVER_IDLE), False)],
    ids=("right", "planted"),
)
def test_the_lease_of_an_idle_client_lapses(bench, client, program, lapses):
    there = bench("1 t")
    settings = "[mcp]\nidle_seconds = 2\n[state]\nlease_seconds = 3\n"
    (there.repo.path / ".tugtool" / "config.toml").write_text(settings)
    idle, other = client(there.red, program=program), client(there.blue)
    assert idle.tool("claim").text.startswith("claimed step-1 (attempt 1)")
    # Longer than both together, with one renewal between; a lease that lapses ends the wait.
    found = other.tool("claim", wait_seconds=50 if lapses else 9).text
    assert found.startswith("claimed step-1 (attempt 2)" if lapses else "claimed: false")
    told = idle.tool("update", step="step-1", attempt=1)
    assert ("stop: true" in told.text) is told.failed is lapses
    for each in (idle, other):
        assert each.end() == (0, "")


@pytest.mark.parametrize(
    ("program", "stops"),
    [(RIGHT, True), (faulty("tools", NO_ATTEMPT), False)],
    ids=("right", "planted"),
)
def test_the_older_of_two_clients_in_one_worktree_is_told_to_stop(bench, client, program, stops):
    there = bench("1 t")
    older, newer = client(there.red, program=program), client(there.red)
    assert older.tool("claim").attempt == 1
    assert newer.tool("claim").attempt == 2
    calls = {
        "update": {},
        "note": {"summary": "x"},
        "verify": {},
        "complete": {"message": "feat: it"},
        "release": {"reason": "x"},
    }
    told = [
        older.tool(name, step="step-1", attempt=1, **given).text for name, given in calls.items()
    ]
    assert all("stop: true" in each for each in told) is stops, told
    if stops:
        rest = {"step": "step-1", "attempt": 2}
        assert not newer.tool("update", **rest, complete_remaining=True).failed
        assert newer.tool("complete", **rest).text.startswith("completed step-1")


def test_a_client_keeps_what_it_has_after_an_older_one_ends(bench):
    there = bench("1 t")
    older, newer = Client(there.red), Client(there.red)
    older.tool("claim")
    newer.tool("claim")
    assert older.end() == (0, "")
    assert not newer.tool("update", step="step-1", attempt=2).failed
    assert newer.end() == (0, "")


def test_a_long_call_tells_its_progress_until_it_is_answered(bench, client):
    there = bench("1 tc | `until test -e go; do sleep 0.05; done` ends")
    server = client(there.red)
    server.tool("claim")
    verify = {"name": "verify", "arguments": {"step": "step-1", "attempt": 1}}
    server.send(request("tools/call", 9, **verify, _meta={"progressToken": "p"}))
    first = server.read()
    assert (first["method"], first["params"]["progressToken"]) == ("notifications/progress", "p")
    (there.red / "go").touch()
    answers = iter(server.read, None)
    last = next(each for each in answers if each.get("method") != "notifications/progress")
    assert last["id"] == 9
    assert "verified 1 of 1" in last["result"]["content"][0]["text"]
    assert server.end() == (0, "")
