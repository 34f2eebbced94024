"""How large answers get, what the server loads, and what a thousand wrong messages do to it."""

import json
import random
import string
import subprocess
import sys
from pathlib import Path

import pytest

from support.mcp import Client, request
from support.state import markdown
from tugtool.server.mcp import protocol, texts, tools
from tugtool.server.mcp.session import TOOLS

SOURCE = str(Path(protocol.__file__).parents[3])
#: What the server loads until it has answered `tools/list`, beyond a bare Python and our own.
LIGHT = {"__future__", "_json", "_signal", "fcntl", "select", "_functools", "gc", "_sqlite3"}
MOST_FILES = 19


@pytest.fixture
def large(desk, inside):
    """A plan of 300 steps with many items, and notes of a megabyte."""
    lines = [f"{n} {'t' * 30}c{f' < {n - 1}' if n % 7 == 0 else ''}" for n in range(1, 301)]
    there = desk(*lines)
    worker = inside(there.red)
    worker.said("claim")
    for number in range(6):
        summary = f"{number} " + "ü→" * 240
        there.ok("artifact", "work", "step-1", "--kind", "note", "--summary", summary)
    content = there.repo.path / "large"
    content.write_text("x\n" * 500_000)
    how = ["--kind", "note", "--summary", "large", "--content-file", content]
    there.ok("artifact", "work", "step-1", *how)
    return worker


def _sent(worker, name: str, **given: object) -> bytes:
    answer = worker.rpc("tools/call", name=name, arguments=given)
    assert "fault in tugcode" not in answer["result"]["content"][0]["text"]
    return protocol.encoded(answer)


@pytest.mark.proof(share=0)
def test_no_answer_is_larger_than_8_kb(large, inside):
    person = inside(large.session.cwd, "operator")
    sent = {
        view: _sent(large, "show", plan="work", step="step-1", view=view)
        for view in ("summary", "step", "why", "log", "graph", "stats", "diff")
    }
    sent["status"] = _sent(large, "status")
    which = {"step": "step-1", "attempt": 1}
    sent["refusal"] = _sent(large, "complete", **which)
    sent["update"] = _sent(large, "update", **which)
    sent["verify"] = _sent(large, "verify", **which)
    sent["claim"] = _sent(large, "claim")
    entries = [
        {"kind": "task", "ordinal": n, "status": "deferred", "reason": "ü" * 400} for n in range(30)
    ]
    sent["deferred"] = _sent(large, "update", **which, entries=entries)
    sent["note"] = _sent(large, "note", **which, summary="ü" * 500, content="x" * 200_000)
    sent["finished"] = _sent(large, "update", **which, complete_remaining=True)
    sent["complete"] = _sent(large, "complete", **which)
    sent["second"] = _sent(large, "claim")
    sent["release"] = _sent(large, "release", step="step-2", attempt=1, reason="ü" * 2000)
    sent["review"] = _sent(person, "review")
    sent["accept"] = _sent(person, "review", plan="work", step="step-1", verdict="accept")
    sent["steer"] = _sent(person, "steer", plan="work", action="pause", reason="ü" * 9000)
    sent["paused"] = _sent(large, "claim")
    sent["wrong"] = _sent(large, "claim", plan="x" * 100_000)
    sent["unknown"] = protocol.encoded(large.rpc("x" * 100_000))
    sent["all tools"] = protocol.encoded(person.rpc("tools/list"))
    for method, params in (
        ("initialize", {}),
        ("server/discover", {}),
        ("resources/templates/list", {}),
        ("prompts/list", {}),
        ("prompts/get", {"name": "work", "arguments": {"plan": "x" * 100_000}}),
        ("resources/list", {}),
        ("resources/read", {"uri": "tug://plan/work"}),
        ("resources/read", {"uri": "tug://plan/work/step/step-1"}),
        ("prompts/get", {"name": "morning"}),
    ):
        sent[method + str(params)] = protocol.encoded(large.rpc(method, **params))
    assert {name: len(data) for name, data in sent.items() if len(data) > 8192} == {}
    assert max(map(len, sent.values())) > 6000


def test_many_plans_with_long_names_are_listed_as_far_as_there_is_room(desk, inside):
    there = desk("1 t")
    for number in range(30):
        there.repo.plan(f"{number:02}-{'x' * 150}", "# Long\n### Step 1: One\n- [ ] x\n")
    worker = inside(there.red)
    answer = worker.rpc("resources/list")
    assert 5 < len(answer["result"]["resources"]) < 31
    assert len(protocol.encoded(answer)) <= 8192
    assert len(protocol.encoded(worker.rpc("tools/call", name="status", arguments={}))) <= 8192


def test_a_long_text_can_be_read_to_its_end(large):
    """Each page ends with the call for the next one."""
    seen, after, pages = [], 0, 0
    while True:
        lines = large.said("show", plan="work", after=after).splitlines()[1:]
        pages += 1
        if "more lines: show(" not in lines[-1]:
            break
        after = int(lines[-1].rpartition("after=")[2].rstrip(")"))
        seen += lines[:-1]
    seen += lines
    assert pages > 1
    steps = [line for line in seen if "Part " in line]
    assert len(steps) == 300


def test_a_step_with_a_very_long_text_is_cut_and_goes_on(bench, inside):
    there = bench("1 t")
    text = there.plan.read_text() + "\n" + "word " * 400_000 + "\n\n" + "line\n" * 5000
    there.plan.write_text(text)
    (there.red / ".tugtool" / "tugplan-work.md").write_text(text)
    there.ok("init", "work", "--force")
    worker = inside(there.red)
    claimed = worker.tool("claim")
    assert len(protocol.encoded(claimed.answer)) <= 8192
    assert 'more lines: show(plan="work", step="step-1", view="step", after=' in claimed.text
    after = int(claimed.text.partition("after=")[2].partition(")")[0])
    page = worker.said("show", plan="work", step="step-1", view="step", after=after)
    assert "line" in page


def test_the_server_loads_little_before_it_has_listed_its_tools(desk):
    there = desk("1 t")
    messages = [request("initialize", protocolVersion="2025-06-18"), request("tools/list")]
    given = "".join(json.dumps(each) + "\n" for each in messages)
    code = f"import site, sys; sys.path.insert(0, {SOURCE!r}); from tugtool.cli.main import main; "
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", "-c", code + "main(['mcp'])"],
        cwd=there.red,
        input=given,
        capture_output=True,
        text=True,
        check=True,
    )
    bare = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", "-c", "import site"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(done.stdout.splitlines()) == 2
    loaded = _loaded(done.stderr) - _loaded(bare.stderr)
    ours = {name for name in loaded if name.partition(".")[0] == "tugtool"}
    assert sorted(loaded - ours - LIGHT) == []
    assert len(ours) <= MOST_FILES, sorted(ours)


def _loaded(said: str) -> set[str]:
    lines = [line for line in said.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines[1:]}


def _words(chance: random.Random, most: int = 12) -> str:
    letters = string.printable + "üß→\U0001f600\0\x1b\u2028"
    return "".join(chance.choice(letters) for _ in range(chance.randrange(most)))


def _value(chance: random.Random, depth: int = 3) -> object:
    plain = [None, True, False, 0, -1, 1, 1.5, 10**30, "", "step-1", "work", "\ud800"]
    kind = chance.randrange(8 if depth else 5)
    if kind < 4:
        return chance.choice(plain)
    if kind == 4:
        return _words(chance)
    if kind < 6:
        return [_value(chance, depth - 1) for _ in range(chance.randrange(4))]
    return {_words(chance): _value(chance, depth - 1) for _ in range(chance.randrange(4))}


METHODS = (
    *("initialize", "server/discover", "ping", "tools/list", "tools/call", "tools/call"),
    *("tools/call", "resources/list", "resources/read", "resources/templates/list"),
    *("prompts/list", "prompts/get", "notifications/cancelled", "logging/setLevel", ""),
)


def _arguments(chance: random.Random, name: str) -> dict:
    """Arguments that are nearly right."""
    known = {each["name"]: each["inputSchema"]["properties"] for each in DEFINED}
    names = list(known.get(name, {})) or ["x"]
    given: dict = {}
    for key in chance.sample(names, chance.randrange(len(names) + 1)):
        usual = {"step": "step-1", "attempt": 1, "plan": "work", "entries": []}
        given[key] = usual.get(key) if chance.random() < 0.7 else _value(chance)
    given.pop("wait_seconds", None)
    if chance.random() < 0.1:
        given[_words(chance)] = _value(chance)
    return given


DEFINED = protocol.definitions()["tools"]


def _message(chance: random.Random, number: int) -> bytes:
    """One line, wrong in some way or right."""
    kind = chance.randrange(10)
    if kind == 0:
        junk = bytes(chance.randrange(1, 256) for _ in range(chance.randrange(1, 60)))
        return junk.replace(b"\n", b" ") or b"x"
    if kind == 1:
        return json.dumps(_value(chance)).encode()
    name = chance.choice([*TOOLS["operator"], _words(chance)])
    params: object = {"name": name, "arguments": _arguments(chance, name)}
    if kind == 2:
        params = _value(chance)
    elif chance.random() < 0.2:
        assert isinstance(params, dict)
        params[chance.choice(["_meta", "uri", "name", "arguments"])] = _value(chance)
    message = {"jsonrpc": "2.0", "id": number, "method": chance.choice(METHODS), "params": params}
    if kind == 3:
        message[chance.choice(list(message))] = _value(chance)
    if kind == 4:
        del message[chance.choice(list(message))]
    line = json.dumps(message).encode()
    return line[: chance.randrange(len(line))] or b"{" if kind == 5 else line


def _wants_answer(line: bytes) -> bool:
    """As the protocol has it: all but notifications, answers, and empty lines."""
    if not line.strip():
        return False
    try:
        message = json.loads(line, parse_constant=int)
    except (ValueError, RecursionError):
        return True
    return protocol.is_request(message) and not _is_cancel(message)


def _asked(lines: list[bytes], answer: dict) -> list[bytes]:
    """The messages that an answer may be to."""
    return [line for line in lines if f'"id": {answer["id"]},'.encode() in line]


def _is_cancel(message: object) -> bool:
    return isinstance(message, dict) and message.get("method") == "notifications/cancelled"


def _answers(server: Client, chance: random.Random, count: int) -> int:
    """Send so many messages, and count the answers; a last one shows that the server lives."""
    lines = [_message(chance, number) for number in range(1, count + 1)]
    wanted = sum(map(_wants_answer, lines))
    for line in lines:
        server.send(line + b"\n")
    server.send(request("tools/call", "last", name="status", arguments={}))
    server.send(request("tools/call", "last", name="update", arguments={}))
    got = ends = 0
    while ends < 2:
        answer = server.read()
        assert answer["jsonrpc"] == "2.0"
        assert ("result" in answer) != ("error" in answer)
        assert "fault in tugcode" not in json.dumps(answer), _asked(lines, answer)
        ends += answer["id"] == "last"
        got += answer["id"] != "last"
    assert (got, server.end()) == (wanted, (0, ""))
    return got


@pytest.mark.proof
def test_a_thousand_random_messages_get_one_answer_each(bench, client, spell):
    there = bench("1 tc", "2 t < 1")
    total = 0
    for seed in spell.seeds(least=1):
        server = client(there.red, "--role", "operator")
        total += _answers(server, random.Random(seed), 1000)
    spell.tell(f"{total} answers to {spell.rounds * 1000} messages")


@pytest.mark.proof
def test_a_thousand_random_messages_over_http_get_one_answer_each(served, spell):
    app = served("1 tc", "2 t < 1")
    for seed in spell.seeds(least=1):
        for line in (_message(random.Random(f"{seed} {n}"), n) for n in range(1, 1001)):
            got = app.post("/mcp", line)
            try:
                wants = protocol.is_request(protocol.decoded(line))
            except protocol.ProtocolError:
                wants = True
            assert (got.status == 202) is not wants, line
            if wants:
                answer = json.loads(got.body)
                assert ("result" in answer) != ("error" in answer), line
                assert b"fault in tugcode" not in got.body, line
                assert got.status in (200, 400, 404), line


@pytest.mark.proof
def test_the_random_messages_over_http_find_a_planted_fault(served, monkeypatch):
    app = served("1 tc", "2 t < 1")
    monkeypatch.setattr(tools, "check_arguments", lambda *_: None)
    chance = random.Random(1)
    sent = (app.post("/mcp", _message(chance, number)) for number in range(1, 300))
    assert any(b"fault in tugcode" in each.body for each in sent)


#: Events that only a person may cause.
PEOPLES = {"pause", "resume", "reset", "reopen", "accept", "reject", "archive"}


@pytest.mark.proof
def test_no_random_message_of_a_worker_does_what_is_for_people(bench, client, spell):
    there = bench("1 tc", "2 t < 1")
    for seed in spell.seeds(least=1):
        server = client(there.red)
        server.tool("claim")
        _answers(server, random.Random(seed), 500)
    kinds = {each["kind"] for each in there.ok("log", "work")["events"]}
    assert "claim" in kinds
    assert kinds & PEOPLES == set()
    person = client(there.red, "--role", "operator")
    given = {"plan": "work", "action": "pause", "reason": "x"}
    assert not person.tool("steer", **given).failed
    kinds = {each["kind"] for each in there.ok("log", "work")["events"]}
    assert kinds & PEOPLES == {"pause"}


#: A server with a fault: a tool raises, and its exception is let through.
FAULTY = """
import sys
from tugtool.cli.main import main
from tugtool.server.mcp import {module}
def wrong(*_, **__):
    raise ZeroDivisionError
{module}.{name} = wrong
main(sys.argv[1:])
"""


@pytest.mark.proof
@pytest.mark.parametrize(
    ("module", "name"), [("tools", "check_arguments"), ("protocol", "check_request")]
)
def test_the_random_messages_find_a_planted_fault(bench, module, name):
    there = bench("1 tc", "2 t < 1")
    code = FAULTY.format(module=module, name=name)
    server = Client(there.red, "--role", "operator", program=("-c", code))
    with pytest.raises((AssertionError, BrokenPipeError)):
        _answers(server, random.Random(1), 200)
    server.process.kill()
    server.process.communicate()


def test_a_plan_without_items_is_shown(desk, inside):
    worker = inside(desk("1").red)
    assert "it has no items" in worker.said("claim")
    assert "0 open" in worker.said("update", step="step-1", attempt=1)


def test_the_texts_of_the_plan_are_not_changed():
    text = markdown("1 t")
    assert texts.page_of(text.splitlines(), "show()") == text.rstrip("\n")
    assert tools.RUNNERS.keys() == set(TOOLS["operator"])
