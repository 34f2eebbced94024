"""The server as a process: pipes, threads, leases by the life of its client."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from support.mcp import TASK, Client, request
from tugtool.cli.main import main
from tugtool.cli.mcp import DEFAULTS
from tugtool.server.mcp import calls, held
from tugtool.server.mcp.stdio import Lines
from tugtool.system import clock
from tugtool.system.config import all_settings

#: A client that claims a step and then waits to be killed; it says the server's process first.
VICTIM = """
import json, os, subprocess, sys
source, sink = os.pipe()
server = subprocess.Popen(
    [sys.executable, "-m", "tugtool", "mcp"], stdin=source, stdout=subprocess.PIPE
)
os.close(source)
call = {"name": "claim", "arguments": {}}
message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
os.write(sink, json.dumps(message).encode() + b"\\n")
print(server.pid, json.loads(server.stdout.readline())["result"]["content"][0]["text"], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def there(bench):
    return bench("1 tc | `sleep 300` ends", "2 t")


def _until(condition) -> None:
    """Wait until something is so; it has a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)  # Another process gets there.


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_messages_are_answered_one_a_line_and_the_end_of_input_is_the_end(there, client):
    server = client(there.red)
    assert server.rpc("initialize", protocolVersion="2025-06-18")["id"] == 1
    assert server.rpc("tools/list")["result"]["tools"]
    assert server.tool("status").failed is False
    assert server.end() == (0, "")


def test_a_completed_step_is_backed_up_after_the_answer(there, client):
    server = client(there.red)
    server.tool("claim", step="step-2")
    server.tool("update", step="step-2", attempt=1, complete_remaining=True)
    assert "completed step-2" in server.tool("complete", step="step-2", attempt=1).text
    assert server.end() == (0, "")
    assert list((there.repo.path / ".git" / "tugtool").glob("backup.db"))


def test_outside_of_a_repository_it_is_refused_at_the_start(tmp_path, client):
    status, said = client(tmp_path).end()
    assert status == 1
    assert "E030" in said


def test_a_client_that_is_killed_frees_its_step_at_once(there):
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM], cwd=there.red, stdin=-1, stdout=-1, text=True
    )
    pid, _, text = victim.stdout.readline().partition(" ")
    assert text.startswith("claimed step-1")
    victim.kill()
    victim.wait()
    # No lease has run out, and nobody gave the step back.
    taken = there.ok("claim", "work", at=there.blue)
    assert taken["anchor"] == "step-1"
    assert taken["previous_attempt"]["outcome"] in ("dead", "released")
    _until(lambda: not _is_running(int(pid)))
    victim.communicate()


def test_a_client_whose_pipe_outlives_it_frees_its_step_all_the_same(there):
    """Its process is the holder: that it is gone is enough."""
    source, sink = os.pipe()
    code = VICTIM.replace("source, sink = os.pipe()", "source, sink = map(int, sys.argv[1:])")
    command = [sys.executable, "-c", code, str(source), str(sink)]
    victim = subprocess.Popen(
        command, cwd=there.red, stdin=-1, stdout=-1, text=True, pass_fds=(source, sink)
    )
    pid, _, _ = victim.stdout.readline().partition(" ")
    os.close(source)
    victim.kill()
    victim.wait()
    taken = there.ok("claim", "work", at=there.blue)
    assert taken["anchor"] == "step-1"
    assert taken["previous_attempt"]["outcome"] == "dead"
    # The server looks for its client now and then; the end of input ends it at once.
    os.close(sink)
    _until(lambda: not _is_running(int(pid)))
    victim.communicate()


@pytest.mark.parametrize("how", ["closed", signal.SIGTERM, signal.SIGINT])
def test_a_client_that_lets_go_frees_its_step_and_its_work_is_saved(there, client, how):
    server = client(there.red)
    assert "claimed step-1" in server.tool("claim").text
    (there.red / "made").write_text("x")
    if how == "closed":
        assert server.end() == (0, "")
    else:
        server.process.send_signal(how)
        assert server.process.wait(60) == 0
    shown = there.ok("show", "work")
    assert shown["steps"][0]["status"] == "pending"
    (attempt,) = shown["steps"][0]["attempts"]
    assert attempt["outcome"] == "released"
    assert attempt["salvage_ref"]


def test_a_long_call_is_cancelled_and_records_nothing_while_others_are_answered(there, client):
    server = client(there.red)
    server.tool("claim")
    verify = {"name": "verify", "arguments": {"step": "step-1", "attempt": 1}}
    server.send(request("tools/call", "long", **verify))
    _until(lambda: "sleep 300" in subprocess.check_output(["ps", "-ef"], text=True))
    assert server.rpc("ping")["result"] == {}
    assert "at work" in server.tool("status").text
    for wrong in (None, 7, {"requestId": ["long"]}, {"requestId": "other"}):
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": wrong})
    told = {"requestId": "long", "reason": "enough"}
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": told})
    said = server.tool("update", step="step-1", attempt=1, entries=[TASK])
    assert said.text.startswith("updated 1 item of step-1; 1 open")
    assert server.end() == (0, "")
    items = there.ok("show", "work")["checklist_items"]
    assert [each["evidence"] for each in items] == [None] * len(items)


def test_a_caller_that_asked_for_it_hears_how_long_its_call_has_run(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(calls.clock, "ticks", lambda: now[0])
    begun, go_on, told = threading.Barrier(3), threading.Event(), []

    def carry_out(message: dict, is_cancelled: object) -> None:
        begun.wait()
        go_on.wait()

    running = calls.Calls(carry_out, told.append)
    asked = {"name": "verify", "_meta": {"progressToken": "p"}}
    running.add(request("tools/call", 1, **asked))
    running.add(request("tools/call", 2, name="status"))
    begun.wait()
    seen = []
    for now[0] in (104, 105, 109.9, 110.5):
        running.tell_progress()
        seen.append(len(told))
    assert seen == [0, 1, 1, 2]
    assert running.wait_seconds(15) == 5
    assert told[0] == {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progressToken": "p", "progress": 5.0, "message": "verify: 5 s"},
    }
    running.cancel(1)
    now[0] = 200
    running.tell_progress()
    go_on.set()
    running.end()
    running.tell_progress()
    assert len(told) == 2


def test_a_waiting_claim_gets_the_step_that_becomes_ready(there, client):
    other = client(there.blue)
    other.tool("claim", step="step-1")
    other.tool("claim", step="step-2")
    server = client(there.red)
    server.send(request("tools/call", 1, name="claim", arguments={"wait_seconds": 50}))
    assert other.tool("release", step="step-1", attempt=1, reason="x").failed is False
    assert "claimed step-1" in server.read()["result"]["content"][0]["text"]


def test_a_renewal_keeps_the_lease_and_silence_lets_it_lapse(there, monkeypatch):
    """With the clock of the test: a third of the lease, and `mcp.idle_seconds`."""
    now = [0.0]
    monkeypatch.setattr(held.clock, "ticks", lambda: now[0])
    claims = held.for_client(str(there.red), lease_seconds=600, idle_seconds=3600)
    # A claim that is made during the wait is renewed in time too.
    assert claims.wait_seconds(1e9) == 200
    there.ok("claim", "work", "--lease-duration", 600, at=there.red)
    data = {"plan_path": ".tugtool/tugplan-work.md", "anchor": "step-1", "attempt": 1}
    claims.add(data, None)
    assert claims.wait_seconds(1e9) == 200

    def events() -> int:
        found = there.ok("log", "work")["events"]
        return sum(each["kind"] == "heartbeat" for each in found)

    beats = []
    for now[0] in (0, 199, 200, 399, 401, 3599, 3600, 10_000):
        claims.renew()
        beats.append(events())
    # Heartbeats within a minute of each other may be one event, so look at the lease as well.
    assert beats[1] < beats[2] <= beats[4] <= beats[5]
    assert beats[5:] == [beats[5]] * 3
    assert claims.wait_seconds(15) == 15
    claims.touch()
    claims.renew()
    assert claims.wait_seconds(1e9) == 200
    # Silent again, until the lease is over by the clock of the record.
    now[0] += 3600
    claims.renew()
    later = clock.system_milliseconds() + 601_000
    monkeypatch.setattr(clock, "system_milliseconds", lambda: later)
    taken = there.ok("claim", "work", at=there.blue)
    assert (taken["anchor"], taken["reclaimed_from_expired"]) == ("step-1", True)


def test_a_claim_that_was_lost_is_renewed_no_more(there, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(held.clock, "ticks", lambda: now[0])
    claims = held.for_client(str(there.red), lease_seconds=600, idle_seconds=3600)
    there.ok("claim", "work", at=there.red)
    there.ok("claim", "work", at=there.red)
    claims.add({"plan_path": ".tugtool/tugplan-work.md", "anchor": "step-1", "attempt": 1}, None)
    now[0] = 300
    claims.renew()
    assert claims.find() is None
    claims.release()
    assert there.ok("show", "work")["steps"][0]["attempt"] == 2
    assert there.ok("show", "work")["steps"][0]["status"] == "claimed"


def test_whoever_calls_it_in_the_own_process_has_the_own_signal_handlers_back(there):
    code = (
        "import signal, sys\nfrom tugtool.cli.main import main\n"
        "hup = signal.signal(signal.SIGHUP, lambda *_: None)\n"
        "mine = [signal.getsignal(each) for each in (1, 2, 15)]\n"
        "assert main(['mcp']) == 0\n"
        "sys.exit(mine != [signal.getsignal(each) for each in (1, 2, 15)])"
    )
    words = {"cwd": there.red, "stdin": subprocess.DEVNULL, "check": False}
    assert subprocess.run([sys.executable, "-c", code], **words).returncode == 0


def test_lines_are_put_together_and_a_long_one_is_dropped():
    lines = Lines(longest=10)
    assert lines.add(b"abc") == []
    assert lines.add(b"def\n\n  \nxy\n1") == [b"abcdef", b"xy"]
    assert lines.add(b"2" * 20) == []
    assert lines.add(b"3\nshort\n") == [None, b"short"]


@pytest.mark.parametrize("name", ["TUGCODE_ATTEMPT", "TUGCODE_ROLE"])
def test_a_worker_cannot_make_itself_an_operator(there, client, monkeypatch, capsys, name):
    value = "1" if name == "TUGCODE_ATTEMPT" else "coder"
    monkeypatch.setenv(name, value)
    assert main(["-C", str(there.red), "mcp", "--role", "operator"]) == 1
    assert "E068" in capsys.readouterr().err
    server = client(there.red)
    names = [each["name"] for each in server.rpc("tools/list")["result"]["tools"]]
    assert names == (["status", "show"] if name == "TUGCODE_ROLE" else names)
    assert not {"review", "steer"} & set(names)
    for tool in ("review", "steer", "Review", "review ", "steer\n", "../steer"):
        given = {"plan": "work", "action": "pause", "reason": "x", "verdict": "accept"}
        assert "there is no tool" in server.tool(tool, **given).text
    assert server.end() == (0, "")
    assert there.ok("show", "work")["paused_at"] is None if name == "TUGCODE_ATTEMPT" else True


def test_no_setting_makes_an_operator(there, capsys):
    (there.repo.path / ".tugtool" / "config.toml").write_text('[mcp]\nrole = "operator"\n')
    assert main(["-C", str(there.red), "mcp"]) == 1
    assert "E071" in capsys.readouterr().err
    (there.repo.path / ".tugtool" / "config.toml").write_text('[mcp]\nrole = "viewer"\n')
    assert main(["-C", str(there.red), "mcp", "--json"]) == 0
    assert '"tools": ["status", "show"]' in capsys.readouterr().out


def test_the_defaults_are_those_of_the_settings():
    settings = all_settings()
    assert {key: settings[key].default for key in DEFAULTS} == DEFAULTS


def test_a_client_that_reads_nothing_and_goes_is_no_fault(there):
    server = Client(there.red)
    server.process.stdout.close()
    server.send(request("tools/list"))
    server.process.stdin.close()
    assert server.process.wait(60) == 0
    assert server.process.stderr.read() == b""
    server.process.stderr.close()
