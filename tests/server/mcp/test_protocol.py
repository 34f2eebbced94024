"""JSON-RPC and both eras of MCP, without a transport."""

import json
from pathlib import Path

import pytest

import tugtool.server.mcp
from support.mcp import MODERN, request
from tugtool import __version__
from tugtool.server.mcp import protocol
from tugtool.server.mcp.session import TOOLS

WORKER = ["status", "show", "claim", "update", "verify", "complete", "release", "note"]


@pytest.fixture
def worker(desk, inside):
    return inside(desk("1 tc", "2 t < 1").red)


def test_a_client_of_the_first_era_shakes_hands(worker):
    for version in protocol.HANDSHAKE_VERSIONS:
        result = worker.rpc("initialize", protocolVersion=version)["result"]
        assert result["protocolVersion"] == version
    assert result["serverInfo"] == {"name": "tugcode", "title": "Tugtool", "version": __version__}
    assert result["capabilities"] == {"tools": {}, "resources": {}, "prompts": {}}
    assert result["instructions"].startswith("Tugtool hands out the steps")
    unknown = worker.rpc("initialize", protocolVersion="1999-01-01")["result"]
    assert unknown["protocolVersion"] == protocol.HANDSHAKE_VERSIONS[-1]
    assert worker.rpc("ping")["result"] == {}


def test_a_client_of_the_second_era_discovers_and_every_result_is_complete(worker):
    found = worker.rpc("server/discover", _meta=MODERN)["result"]
    assert found["supportedVersions"] == ["2026-07-28"]
    assert (found["resultType"], found["cacheScope"]) == ("complete", "private")
    for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
        result = worker.rpc(method, _meta=MODERN)["result"]
        assert (result["resultType"], result["ttlMs"] >= 0) == ("complete", True)
        assert "resultType" not in worker.rpc(method)["result"]
    called = worker.rpc("tools/call", name="status", arguments={}, _meta=MODERN)["result"]
    assert called["resultType"] == "complete"
    assert called["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "tugcode"


def test_a_version_that_is_not_ours_is_named_with_those_that_are(worker):
    meta = {**MODERN, protocol.VERSION_KEY: "2031-01-01"}
    error = worker.rpc("tools/list", _meta=meta)["error"]
    assert error["code"] == protocol.UNSUPPORTED_VERSION
    assert error["data"] == {"supported": ["2026-07-28"], "requested": "2031-01-01"}
    for half in ({protocol.VERSION_KEY: "2026-07-28"}, {**MODERN, protocol.VERSION_KEY: 7}):
        assert worker.rpc("tools/list", _meta=half)["error"]["code"] == protocol.INVALID_PARAMS


@pytest.mark.parametrize(
    ("message", "code", "number"),
    [
        ([], -32600, None),
        ([request("ping")], -32600, None),
        (7, -32600, None),
        ("ping", -32600, None),
        (None, -32600, None),
        ({}, -32600, None),
        ({"id": 3}, -32600, 3),
        ({"jsonrpc": "1.0", "id": 3, "method": "ping"}, -32600, 3),
        ({"jsonrpc": "2.0", "id": 3, "method": 7}, -32600, 3),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600, None),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, -32600, None),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, -32600, None),
        ({"jsonrpc": "2.0", "id": "x", "method": "ping", "params": []}, -32602, "x"),
        (request("pong"), -32601, 1),
        (request("tools/call"), -32602, 1),
        (request("tools/call", name=7), -32602, 1),
        (request("tools/call", name="status", arguments=[]), -32602, 1),
        (request("resources/read"), -32602, 1),
        (request("resources/read", uri="file:///etc/passwd"), -32002, 1),
        (request("resources/read", uri="tug://plan/none"), -32002, 1),
        (request("prompts/get", name="night"), -32602, 1),
        (request("prompts/get", name="work", arguments=7), -32602, 1),
        (request("prompts/get", name="work", arguments={"plan": {"a": 1}}), -32602, 1),
    ],
)
def test_a_message_that_is_wrong_gets_one_error_with_its_id(worker, message, code, number):
    answer = worker.protocol.respond(message)
    assert (answer["error"]["code"], answer["id"]) == (code, number)


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "claim"}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
    ],
)
def test_notifications_and_answers_get_no_answer_and_do_nothing(worker, message):
    assert worker.protocol.respond(message) is None
    assert "0 at work" in worker.said("status")


def test_the_tools_are_few_and_small(worker):
    """At most 10 and 1,800 tokens; every session of a model reads them."""
    found = protocol.definitions()
    assert [each["name"] for each in found["tools"]] == list(TOOLS["operator"])
    assert len(found["tools"]) <= 10
    tokens = {
        role: len(protocol.encoded([e for e in found["tools"] if e["name"] in names])) / 4
        for role, names in TOOLS.items()
    }
    assert tokens["operator"] <= 1800
    assert tokens["viewer"] < tokens["worker"] < tokens["operator"]
    sent = protocol.encoded(worker.rpc("tools/list"))
    assert b", " not in sent.replace(b"description", b"").split(b'"inputSchema"')[-1]
    assert len(sent) <= 8192


def test_each_tool_has_a_title_all_four_hints_and_no_output_schema():
    hints = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
    for tool in protocol.definitions()["tools"]:
        assert tool["title"]
        assert "outputSchema" not in tool
        given = set(tool["annotations"])
        # For a tool that only reads, two of them mean nothing.
        assert given == hints or (tool["annotations"]["readOnlyHint"] and given <= hints)


def test_the_definitions_are_in_the_package(worker):
    path = Path(tugtool.server.mcp.__file__).with_name("tools.json")
    assert json.loads(path.read_text()) == protocol.definitions()
    names = [each["name"] for each in worker.rpc("tools/list")["result"]["tools"]]
    assert names == WORKER


def test_a_message_is_one_line_of_ascii():
    line = protocol.encoded({"text": "ü\n→\ud800"})
    assert line == b'{"text":"\\u00fc\\n\\u2192\\ud800"}\n'
    for wrong in (b"{", b"nonsense", b"\xff", b"[" * 100_000, b'{"a": NaN}', b'{"a":1} x', b""):
        with pytest.raises(protocol.ProtocolError) as refused:
            protocol.decoded(wrong)
        assert refused.value.code == protocol.PARSE_ERROR


def test_resources_are_the_status_the_plans_and_their_steps(worker):
    listed = [each["uri"] for each in worker.rpc("resources/list")["result"]["resources"]]
    assert listed == ["tug://status", "tug://plan/work"]
    for address, words in (
        ("tug://status", "0 at work"),
        ("tug://plan/work", "plan: work"),
        ("tug://plan/work/step/step-1", "[ ] task 0"),
    ):
        (content,) = worker.rpc("resources/read", uri=address)["result"]["contents"]
        assert content["uri"] == address
        assert words in content["text"]
    modern = worker.rpc("resources/read", uri="tug://nothing", _meta=MODERN)
    assert modern["error"]["code"] == protocol.INVALID_PARAMS


def test_the_prompts_tell_a_worker_its_loop_and_a_person_the_news(worker):
    prompts = worker.rpc("prompts/list")["result"]["prompts"]
    assert [each["name"] for each in prompts] == ["work", "morning"]
    (work,) = worker.rpc("prompts/get", name="work", arguments={"plan": "work"})["result"][
        "messages"
    ]
    assert 'claim(plan="work")' in work["content"]["text"]
    (morning,) = worker.rpc("prompts/get", name="morning")["result"]["messages"]
    assert "0/2 steps" in morning["content"]["text"]
